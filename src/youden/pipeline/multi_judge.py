"""Rank agents over several judges, and measure how far judges differ.

The judges of a jury answer the same trials, and so do the judges of several runs of one plan. Both cases are treated equally: the
answers of the judges are averaged, and the variance between judges is added to the covariance of the abilities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from youden.engines.trial_blocks import ItemChunk, Rows, RowSubset, TrialsByItem, get_votes_by_judge
from youden.errors import ConfigError, StatisticsError
from youden.pipeline.abilities import Abilities
from youden.protocol.blocks import check_same_pool
from youden.protocol.independent import match_trials
from youden.run_keys import Target
from youden.stats.base.clusters import CentredCovariance
from youden.stats.base.pair_chunks import PairChunk
from youden.stats.trials.agent_rates import AgentRates, IndependentTotals
from youden.stats.trials.trial_errors import TrialMeans, trial_means
from youden.types import INDEPENDENT, MISSING_REASONS, PAIRED, Finding, Plan, Verdicts
from youden.types.pool import Bools, Codes, Floats

ITEMS_AND_JUDGES: Target = "items-and-judges"


def average_judges(verdicts: Verdicts) -> Verdicts:
    """Replace the answers of a jury by the means of its judges' votes.

    A jury consists of several judges, and a vote is the answer of one of them. An answer is missing if a vote is missing.
    Verdicts of a single judge are returned unchanged.
    """
    if verdicts.votes is None:
        return verdicts
    columns = _make_answer_columns(verdicts.votes.mean(axis=0), verdicts.missing_reason)
    return replace(
        verdicts, answer=columns["answer"], hard_answer=columns["hard_answer"], missing_reason=columns["missing_reason"]
    )


def _make_answer_columns(mean_vote: Floats, jury_reason: Codes) -> dict[str, NDArray[Any]]:
    """Make the columns "answer", "hard_answer" and "missing_reason" of verdicts whose answers are mean votes.

    A vote is the answer of one judge of a jury. If a mean vote is missing, the reason is "failed", or the jury's own reason if
    `MISSING_REASONS` lists it later.

    mean_vote : float array (n_trials,), mean votes of the judges in [0, 1], NaN if a vote is missing
    jury_reason : int8 array (n_trials,), reason why the jury has no answer, as index into `MISSING_REASONS`; 0 if it has one
    """
    is_missing = np.isnan(mean_vote)
    hard_answer = np.where(is_missing, np.nan, mean_vote >= 0.5)

    failed = MISSING_REASONS.index("failed")
    missing_reason = np.maximum(jury_reason, failed).astype(np.int8)
    missing_reason[~is_missing] = 0
    return {"answer": mean_vote, "hard_answer": hard_answer, "missing_reason": missing_reason}


def iter_averaged_chunks(iter_chunks: Rows) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Yield the trials of a run in chunks, with the mean of the judges' votes as the answer.

    A jury consists of several judges, and a vote is the answer of one of them. The answer is missing if a vote is missing.
    Chunks of a run with a single judge are yielded unchanged.

    iter_chunks : function that yields the trials in chunks, each a mapping of column names to arrays (n_trials,)
    """
    for chunk in iter_chunks():
        votes = get_votes_by_judge(chunk)
        if not votes:
            yield chunk
            continue
        mean_vote = np.mean(votes, axis=0)
        new_columns = _make_answer_columns(mean_vote, chunk["missing_reason"])
        all_rows = slice(None)
        yield RowSubset(chunk, all_rows, **new_columns)


def _with_variance_between_judges(abilities: Abilities, trials: TrialsByItem, last_step: int | None) -> Abilities:
    """Add the variance between judges to the covariance of abilities.

    The intervals then hold for further judges of the same kind. The degrees of freedom are computed again, because few judges
    determine this variance only roughly. The abilities stay the same.

    trials : trials of the run, with the answer of each judge of a jury
    last_step : number of the last round or extension whose trials are used; None for all trials

    Raises StatisticsError [judges-few] if a single judge answered.
    """

    def iter_votes() -> Iterator[tuple[PairChunk, Floats]]:
        """Yield chunks of trials with their votes, float array (n_judges, n_trials)."""
        for chunk in _iter_answered_until(trials, last_step):
            # the answers of a single judge are the only votes
            votes = chunk.votes.T if trials.n_votes else chunk.answer[np.newaxis]
            yield chunk.to_pairs(), votes

    judge_spread = _measure_spread(iter_votes, abilities.covariance, n_agents=trials.plan.n_agents)
    n_judges = len(judge_spread.by_judge)
    return abilities._replace(
        covariance=judge_spread.covariance,
        method=f"{abilities.method}; variance between {n_judges} judges included, degrees of freedom by judges",
    )


def _iter_answered_until(trials: TrialsByItem, last_step: int | None) -> Iterator[ItemChunk]:
    """Yield the answered paired trials up to the round or extension with the number `last_step`; None for all trials."""
    for chunk in trials.iter_answered():
        yield chunk if last_step is None else chunk.where(chunk.step <= last_step)


def with_judge_variance(abilities: Abilities, trials: TrialsByItem, *, last_step: int | None = None) -> Abilities:
    """Add the variance of a jury's votes to the covariance of abilities.

    The target of the intervals determines the variance:

    - Target "items-and-judges": the variance between judges is added.
    - Target "these-items": the variance of the votes on the same trial is added, because the judges may answer the trial
      differently if they are asked again.
    - Target "items-like-these": nothing is added, because the covariance is estimated from residuals, which already contain the
      variation of the answers.

    trials : trials of the run, with the vote of each judge of a jury
    last_step : number of the last round or extension from whose trials `abilities` were estimated; None for all trials

    Raises StatisticsError [judges-few] if a single judge answered, and the target is "items-and-judges".
    """
    if abilities.target == ITEMS_AND_JUDGES:
        return _with_variance_between_judges(abilities, trials, last_step)
    if abilities.target == "these-items" and trials.n_votes:
        return _with_vote_variance(abilities, trials, last_step)
    return abilities


def _with_vote_variance(abilities: Abilities, trials: TrialsByItem, last_step: int | None) -> Abilities:
    """Add the variance that the abilities would have if a jury answered the same trials again.

    This applies only to a jury that answers by the mean of its judges' votes. For another rule, for example the majority, the
    abilities are returned unchanged.

    trials : trials of the run, with the votes of the jury
    last_step : number of the last round or extension whose trials are used; None for all trials
    """
    answer_variance = _estimate_answer_variance(trials, last_step)
    if answer_variance is None:
        return abilities

    # variance of an agent's mean answer over all comparisons with the K − 1 other agents on J items, in both orders
    n_agents = trials.plan.n_agents
    n_comparisons = 2 * (n_agents - 1) * trials.plan.n_items
    variance_of_mean = answer_variance / n_comparisons

    # Answers that compare two agents with each other cancel in the difference of their abilities. They are the fraction
    # 1/(K − 1) of an agent's answers, so the fraction (K − 2)/(K − 1) of the variance remains.
    fraction_not_shared = (n_agents - 2) / (n_agents - 1)
    std_error = np.sqrt(fraction_not_shared * variance_of_mean)
    vote_covariance = _compute_centred_covariance(std_error)
    covariance = abilities.covariance.covariance + vote_covariance
    return abilities._replace(
        covariance=CentredCovariance(covariance, abilities.covariance.df),
        method=f"{abilities.method}; variance of {trials.n_votes} votes on a comparison included",
    )


def _compute_centred_covariance(std_error: Floats) -> Floats:
    """Return the covariance of the distances of agents from the average agent, for independent errors.

    std_error : float array (n_agents,), standard errors
    """
    n_agents = len(std_error)
    centring = np.eye(n_agents) - 1 / n_agents
    return np.asarray(std_error[:, None] * std_error * centring)


def _estimate_answer_variance(trials: TrialsByItem, last_step: int | None) -> Floats | None:
    """Estimate how much a jury's answer would vary if the trial were answered again.

    The answer is the mean vote of the judges. Its variance is estimated from the differences between the votes on one trial,
    and averaged over the trials of each agent. If some judges always give higher votes than others, the estimate is too large.

    trials : trials of the run, with the votes of all judges of the jury
    last_step : number of the last round or extension whose trials are used; None for all trials

    Returns the mean variance by agent, float array (n_agents,), 0 for an agent without an answer. Returns None if the answer of
    the jury is not the mean of its votes, but for example their majority.
    """
    n_agents = trials.plan.n_agents
    n_trials = np.zeros(n_agents)
    variance_sum = np.zeros(n_agents)
    for chunk in _iter_answered_until(trials, last_step):
        if not np.allclose(chunk.answer, chunk.votes.mean(axis=1)):
            return None

        # the variance of a mean of v votes is s²/v, and counts for both agents of the trial
        variance_of_mean_vote = chunk.votes.var(axis=1, ddof=1) / trials.n_votes
        for agent in (chunk.first, chunk.second):
            n_trials += np.bincount(agent, minlength=n_agents)
            variance_sum += np.bincount(agent, variance_of_mean_vote, n_agents)
    return np.asarray(variance_sum / np.maximum(n_trials, 1))


def with_jury_finding(verdicts: Verdicts) -> Verdicts:
    """Add a note on the effective number of judges to the verdicts of a jury.

    The effective number is the number of independent judges that would give as much information as the jury. It is computed
    from trials that all judges have answered, without held-out responses. Verdicts are returned unchanged if there is a single
    judge, or if one judge always answers the same.

    Returns verdicts with the note as the last one of `warnings`.
    """
    if verdicts.votes is None:
        return verdicts

    has_all_votes = ~np.isnan(verdicts.votes).any(axis=0)
    is_used = has_all_votes & is_training_answer(verdicts)
    votes = verdicts.votes[:, is_used]
    _, n_trials = votes.shape
    if n_trials < 2 or not votes.std(axis=1).all():  # a constant judge has no correlation with the others
        return verdicts
    return replace(verdicts, warnings=(*verdicts.warnings, _make_jury_finding(votes)))


def _make_jury_finding(votes: Floats) -> Finding:
    """Make the message to the user that states the effective number of judges of a jury.

    This is the number of independent judges with the same information. It is computed from the mean correlation of the judges'
    answers.

    votes : float array (n_judges, n_trials), answers of each judge without NaN; no judge may always answer the same
    """
    n_judges = len(votes)
    sums = VoteSums()
    sums.add(votes)
    n_effective = effective_number_of_judges(n_judges, sums.correlation)
    message = (
        f"The {n_judges} judges of this jury are worth {n_effective:.1f} independent votes: the mean correlation of their "
        f"answers to the same comparisons is {sums.correlation:.2f}."
    )
    facts = {"votes": n_effective, "judges": n_judges, "correlation": sums.correlation}
    return Finding("votes", message, severity="note", facts=facts)


def describe_judge_spread(judges: JudgeSpread) -> str:
    """Describe how much judges of the same trials differ, and whether they can rank the agents.

    The text states the effective number of judges, which is the number of independent judges with the same information. It
    also compares the standard deviation (SD) between judges with that between agents.

    Parameters
    ----------
    judges : JudgeSpread
        Abilities by each judge, with the variance between judges and between agents.

    Returns
    -------
    str
        Two to four sentences.
    """
    n_judges = len(judges.by_judge)
    judge_sd = judges.variance**0.5
    agent_sd = judges.agent_variance**0.5
    text = (
        f"{n_judges} judges are worth {judges.n_effective:.1f} independent votes. Another judge would rate an agent "
        f"{judge_sd:.3f} (SD) away from the mean of all judges; agents differ by {agent_sd:.3f}."
    )
    if n_judges == 2:
        text += " With two judges, this is uncertain, so intervals are wide: judge the plan with a third."
    if judges.variance > judges.agent_variance:
        text += " These judges cannot rank the agents."
    return text


def is_training_answer(verdicts: Verdicts) -> Bools:
    """Return which trials are paired, answered and used for abilities.

    Parameters
    ----------
    verdicts : Verdicts
        Answers to a plan.

    Returns
    -------
    bool array (n_trials,)
        In the order of the plan's trials.
    """
    plan = verdicts.plan
    return np.asarray(plan.is_training & (plan.trial_type == PAIRED) & verdicts.answered)


def measure_judge_spread(results: Sequence[Verdicts]) -> JudgeSpread:
    """Measure how far judges that answered the same trials differ.

    Parameters
    ----------
    results : sequence of Verdicts
        Verdicts of each judge. Only those trials of the first plan are used that all judges answered.

    Returns
    -------
    JudgeSpread
        Abilities by each judge, and the variance between judges.

    Raises
    ------
    ConfigError
        [judges-pools]: if the runs judged different pools of texts; [variance-other]: if the judges have too few trials in
        common.
    StatisticsError
        [judges-few]: if there is a single judge.
    """
    return measure_vote_spread(results[0].plan, match_votes(results))


def match_votes(results: Sequence[Verdicts]) -> Floats:
    """Match the answers of several runs to the trials of the first: float array (n_judges, n_trials), NaN if missing.

    Raises ConfigError [judges-pools] if the runs judged different pools of texts.
    """
    check_same_pool([result.plan for result in results], [str(result.judge.get("name")) for result in results])
    plan = results[0].plan
    answers = [results[0].answer]
    for result in results[1:]:
        row = match_trials(plan, result.plan)  # −1 for a trial that the other plan does not have
        answers.append(np.where(row >= 0, result.answer[row], np.nan))
    return np.stack(answers)


def measure_vote_spread(plan: Plan, votes: Floats) -> JudgeSpread:
    """Estimate the variance between judges from their answers (votes) to the same trials.

    Only trials that all judges answered count. The abilities by each judge are mean answers to paired trials, minus
    false-positive rates.

    plan : plan of the n_trials trials
    votes : float array (n_judges, n_trials), answers of each judge; NaN for a missing answer

    Raises ConfigError [variance-other] if the judges have too few trials in common, and StatisticsError [judges-few] for a
    single judge.
    """
    has_all_votes = ~np.isnan(votes).any(axis=0)
    is_used = plan.is_training & has_all_votes
    mean_vote = votes.mean(axis=0)
    rates = _estimate_rates_of_mean_vote(plan, mean_vote, is_used)

    is_paired = is_used & (plan.trial_type == PAIRED)
    pairs = PairChunk.from_trials(plan.item, plan.first, plan.second, mean_vote, n_items=plan.n_items, rows=is_paired)
    all_votes = [(pairs, votes[:, is_paired])]  # a single chunk
    return _measure_spread(lambda: all_votes, covariance=None, n_agents=plan.n_agents, rates=rates)


def _estimate_rates_of_mean_vote(plan: Plan, mean_vote: Floats, is_used: Bools) -> AgentRates:
    """Estimate the false-positive rate of each agent from the mean answers of several judges.

    The rate is the mean over the agent's independent trials, which compare responses to different items.

    mean_vote : float array (n_trials,), mean answer of the judges to each trial of the plan
    is_used : bool array (n_trials,), trials that may be used; paired trials among them are ignored
    """
    is_independent = is_used & (plan.trial_type == INDEPENDENT)
    independent = plan.trials.take(is_independent)
    totals = IndependentTotals(plan.n_agents, plan.n_items)
    totals.add(
        independent.first,
        independent.second,
        mean_vote[is_independent],
        item=independent.item,
        other_item=independent.other_item,
    )
    return totals.estimate_rates()


def _measure_spread(
    iter_votes: Callable[[], Iterable[tuple[PairChunk, Floats]]],
    covariance: CentredCovariance | None,
    *,
    n_agents: int,
    rates: AgentRates | None = None,
) -> JudgeSpread:
    """Estimate the abilities by each judge and the variance between judges, from paired trials and their votes.

    iter_votes : function that yields chunks of trials each time it is called, with their votes, float array (n_judges,
        n_trials)
    covariance : covariance of the abilities without the variance between judges; None to estimate it from the mean votes
    rates : false-positive rates of the mean votes, which are subtracted from the abilities if `covariance` is None; None
        to subtract nothing

    Raises ConfigError [variance-other] if an agent has fewer than 2 trials, StatisticsError [judges-few] if there is a
    single judge.
    """
    sums = VoteSums()
    for _, votes in iter_votes():
        sums.add(votes)
        n_judges = len(votes)

    mean = _average_by_agent(iter_votes, lambda votes: np.asarray(votes.mean(axis=0)), n_agents)
    if (mean.weight < 2).any():
        raise ConfigError(
            f"The judges have too few trials in common: got {int(mean.weight.sum() / 2)}, of which one agent has "
            f"{int(mean.weight.min())}. Run the whole plan with each judge: youden rejudge RUN --judge OTHER.",
            slug="variance-other",
        )

    # abilities by each judge: mean over judges, plus the mean deviation of the judge's votes from their mean
    deviations = [
        _average_by_agent(iter_votes, partial(_compute_deviation_from_mean, judge=judge), n_agents)
        for judge in range(n_judges)
    ]
    by_judge = np.stack([mean.ability + deviation.ability for deviation in deviations])

    # a deviation from the mean of M judges has (M − 1)/M of the variance of a judge
    mean_variance = np.mean([np.diag(deviation.covariance.covariance) for deviation in deviations], axis=0)
    sampling_variance = mean_variance * n_judges / max(n_judges - 1, 1)
    if covariance is None:
        covariance = mean.covariance
        if rates is not None:
            by_judge -= rates.rate
            covariance = rates.add_errors_to(covariance)
    return JudgeSpread(by_judge, covariance, sampling_variance, sums.correlation)


def _average_by_agent(
    iter_votes: Callable[[], Iterable[tuple[PairChunk, Floats]]], combine: Callable[[Floats], Floats], n_agents: int
) -> TrialMeans:
    """Combine the judges' answers (votes) to each trial into one number, and average these numbers by agent.

    For example, if `combine` is the mean, the result is the mean answer of the agent over trials and judges. The covariance is
    for a larger population of items, of which those of the trials are a sample.

    iter_votes : function that returns chunks of trials with their votes, float array (n_judges, n_trials)
    combine : function that takes these votes and returns one number per trial, float array (n_trials,)
    """

    def iter_combined() -> Iterator[PairChunk]:
        """Yield the chunks of trials with the combined votes in place of the answers."""
        for pairs, votes in iter_votes():
            yield replace(pairs, value=combine(votes))

    return trial_means(iter_combined, n_agents=n_agents, target="items-like-these")


def _compute_deviation_from_mean(votes: Floats, *, judge: int) -> Floats:
    """Return the votes of one judge minus the mean of all judges: float array (n_trials,).

    `votes` is a float array (n_judges, n_trials), `judge` the row of the judge.
    """
    return np.asarray(votes[judge] - votes.mean(axis=0))


class JudgeSpread:
    """Variance between judges that answered the same trials.

    Attributes
    ----------
    ability : float array (n_agents,)
        Mean over judges of the abilities.
    by_judge : float array (n_judges, n_agents)
        Abilities by each judge.
    n_effective : float
        Effective number of judges.
    variance : float
        Variance between judges, without sampling error: that of an agent's centered ability by one judge around the
        agent's mean over all judges of this kind.
    low, high : float
        95% interval of `variance`.
    agent_variance : float
        Variance of the abilities between agents, without sampling error.
    covariance : CentredCovariance
        Covariance of `ability`, for more items and judges like these.

    Notes
    -----
    One-way random effects by moments for M judges, with a χ² interval of M − 1 degrees of freedom. An agent's variance
    between judges is shrunk towards the average one, which has the weight of one more judge. Degrees of freedom are
    Satterthwaite's.
    """

    def __init__(
        self, by_judge: Floats, covariance: CentredCovariance, sampling_variance: Floats, correlation: float
    ) -> None:
        """Compute the variance components from the abilities by each judge.

        by_judge : float array (n_judges, n_agents), abilities by each judge
        covariance : covariance of the mean over judges, without the variance between judges
        sampling_variance : float array (n_agents,), sampling variance of the difference between an ability by one judge and the
            mean over judges
        correlation : mean correlation of two judges' answers

        Raises StatisticsError [judges-few] if there is a single judge.
        """
        n_judges, n_agents = by_judge.shape
        if n_judges < 2:
            raise StatisticsError(
                "The variance between judges needs at least two judges: got one. Run the same plan with another judge: "
                "`youden rejudge`.",
                slug="judges-few",
            )
        self.ability = by_judge.mean(axis=0)
        self.by_judge = by_judge
        self.n_effective = effective_number_of_judges(n_judges, correlation)

        # mean squares between judges: in all, and expected from sampling
        centered = by_judge - by_judge.mean(axis=1, keepdims=True)
        squares = centered.var(axis=0, ddof=1)
        total = float(squares.sum() / (n_agents - 1))
        sampling = float(sampling_variance.sum() / (n_agents - 1))
        df_total = (n_agents - 1) * (n_judges - 1)
        self.variance = max(0.0, total - sampling)
        self.low, self.high = (total * df_total / float(chdtri(df_total, p)) - sampling for p in (0.025, 0.975))

        # variance between agents: observed, minus the parts of items and judges
        item_variance = np.diag(covariance.covariance)
        observed = float(centered.mean(axis=0).var(ddof=1))
        self.agent_variance = max(0.0, observed - float(np.nanmean(item_variance)) - total / n_judges)

        # variance of the mean over judges: (((M − 1)·s²_i + s²)/M − sampling_i)/M, at least that of the average agent
        shrunk = (squares * (n_judges - 1) + total) / n_judges
        judge_variance = np.maximum(shrunk - sampling_variance, self.variance) / n_judges
        judge_std_error = np.sqrt(judge_variance * n_agents / (n_agents - 1))
        judge_covariance = _compute_centred_covariance(judge_std_error)

        # Satterthwaite: df = (v + w)² / (v²/df_v + w²/df_w) for variances v and w
        df = (item_variance + judge_variance) ** 2 / (
            item_variance**2 / covariance.df + judge_variance**2 / (n_judges - 1)
        )
        self.covariance = CentredCovariance(covariance.covariance + judge_covariance, df)


class VoteSums:
    """Sums over trials from which the correlation of judges is computed; trials are added in chunks.

    A constant may be subtracted from all votes of a judge, because it does not change covariances. The sums subtract the judge's
    vote on the first trial. They are therefore exactly 0, without rounding errors, for a judge whose votes never vary.
    """

    def __init__(self) -> None:
        self._first_vote: Floats | None = None  # (n_judges, 1)
        self._n_trials = 0
        self._sum = np.zeros(0)  # (n_judges,), of the differences
        self._product_sum = np.zeros(0)  # (n_judges, n_judges), of the products of two judges' differences

    def add(self, votes: Floats) -> None:
        """Add the votes of a chunk of trials.

        votes : float array (n_judges, n_trials) without NaN; all chunks have the same judges in the same order
        """
        if not votes.size:
            return
        if self._first_vote is None:
            n_judges = len(votes)
            self._first_vote = votes[:, :1]
            self._sum = np.zeros(n_judges)
            self._product_sum = np.zeros((n_judges, n_judges))

        # subtract the votes on the first trial, so that the sums of a judge who always votes the same are exactly 0
        difference = votes - self._first_vote
        self._n_trials += votes.shape[1]
        self._sum = self._sum + difference.sum(axis=1)
        self._product_sum = self._product_sum + difference @ difference.T

    @property
    def correlation(self) -> float:
        """Mean correlation of two judges' answers; 0 without answers, or if a judge always answers the same."""
        mean = self._sum / max(self._n_trials, 1)
        covariance = self._product_sum / max(self._n_trials, 1) - np.outer(mean, mean)
        sd = np.sqrt(np.diag(covariance))
        if len(sd) < 2 or not sd.all():
            return 0.0

        correlations = covariance / np.outer(sd, sd)
        above_diagonal = np.triu_indices(len(sd), 1)  # each pair of judges once
        return float(correlations[above_diagonal].mean())


def effective_number_of_judges(n_judges: int, correlation: float) -> float:
    """Return the number of independent judges that give the same information as `n_judges` correlated ones.

    correlation : mean correlation of two judges' answers; values outside of [0, 1] are replaced by the nearer bound

    References: Spearman (1910) and Brown (1910), British J. Psychology 3.

    >>> effective_number_of_judges(3, 0.5)
    1.5
    """
    return n_judges / (1 + (n_judges - 1) * min(max(correlation, 0.0), 1.0))
