"""A ranking over several judges: each one's answers, their average with what they differ in, and what they are worth.

The judges of a jury answered the same trials; so did those of several runs of one plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from youden.engines.trial_blocks import Rows, SomeRows, TrialsByItem, votes_of
from youden.errors import ConfigError, StatisticsError
from youden.pipeline.abilities import Abilities
from youden.protocol.independent import same_trials
from youden.run_keys import Target
from youden.stats.base.clusters import CentredCovariance, PairBlock
from youden.stats.trials.trial_errors import TrialMeans, trial_means
from youden.types import MISSING_REASONS, PAIRED, Finding, Plan, Verdicts
from youden.types.pool import Bools, Codes, Floats

JUDGES: Target = "items-and-judges"


def answers_for(result: Verdicts) -> Verdicts:
    """What is ranked by over judges: the mean of all their answers, missing where one gave none."""
    if result.votes is None:
        return result
    own = _columns(result.votes.mean(axis=0), result.missing)
    return replace(result, answer=own["answer"], hard=own["hard"], missing=own["missing"])


def _columns(answer: Floats, missing: Codes) -> dict[str, NDArray[Any]]:
    """missing: why there is no answer, of all judges together."""
    none, reason = np.isnan(answer), np.maximum(missing, MISSING_REASONS.index("failed"))
    hard = np.where(none, np.nan, answer >= 0.5)
    return {"answer": answer, "hard": hard, "missing": np.where(none, reason, 0).astype(np.int8)}


def rows_for(rows: Rows) -> Rows:
    """`answers_for` of rows that are read some at a time."""

    def averaged() -> Iterator[Mapping[str, NDArray[Any]]]:
        for some in rows():
            told = votes_of(some)
            own = _columns(np.mean(told, axis=0), some["missing"]) if told else {}
            yield SomeRows(some, slice(None), **own)

    return averaged


def over_judges(found: Abilities, trials: TrialsByItem) -> Abilities:
    """Abilities about judges like these, with what the judges differ in, in their error.

    trials: with the votes of a jury. Raises: StatisticsError [judges-few] where one judge answered.
    """

    def blocks() -> Iterator[tuple[PairBlock, Floats]]:
        for block in trials.answers():
            yield block.pairs(), block.votes.T if trials.n_votes else block.answer[None]

    plan = trials.plan
    spread = _spread(blocks, found.covariance, n_agents=plan.n_agents)
    return found._replace(
        covariance=spread.covariance,
        method=f"{found.method}; with what {len(spread.by_judge)} judges differ in, degrees of freedom by judges",
    )


def as_asked(found: Abilities, trials: TrialsByItem) -> Abilities:
    """Abilities about their target, with what of a jury's answers is chance where that is seen: `over_judges`, or `asked_again`.

    trials: with the votes of a jury. Raises: as `over_judges`.
    """
    if found.target == JUDGES:
        return over_judges(found, trials)
    return asked_again(found, trials) if found.target == "these-items" and trials.n_votes else found


def asked_again(found: Abilities, trials: TrialsByItem) -> Abilities:
    """Abilities on these items, with what a jury that answers by the mean of its votes would say if it were asked again.

    The mean of all comparisons, each asked once, has the error σ²_i/P of its own, P = 2(K−1)J of an agent: what the plan leaves
    of them open is in `found`. σ²_i: mean over its trials of the votes' variance within a trial, over their number. Where judges
    differ for good, that is in it too, and the interval is wider than it need be. As it was where votes are not averaged.
    """
    K, J = trials.plan.n_agents, trials.plan.n_items
    n, total = np.zeros((2, K))
    for block in trials.answers():
        if not np.allclose(block.answer, block.votes.mean(axis=1)):
            return found
        own = block.votes.var(axis=1, ddof=1) / trials.n_votes
        for side in (block.first, block.second):
            n += np.bincount(side, minlength=K)
            total += np.bincount(side, own, K)
    root = np.sqrt((K - 2) / (K - 1) * total / np.maximum(n, 1) / (2 * (K - 1) * J))
    covariance = found.covariance.covariance + root[:, None] * root * (np.eye(K) - 1 / K)
    return found._replace(
        covariance=CentredCovariance(covariance, found.covariance.freedom),
        method=f"{found.method}; with what {trials.n_votes} votes on a comparison differ in",
    )


def with_votes(result: Verdicts) -> Verdicts:
    """A jury's answers, with a note of what its judges are worth."""
    if result.votes is None:
        return result
    told = result.votes[:, learned(result) & ~np.isnan(result.votes).any(axis=0)]
    if told.shape[1] < 2 or not told.std(axis=1).all():  # who always says the same has no vote to weigh
        return result
    sums, M = VoteSums(), len(told)
    sums.add(told)
    of = sums.correlation
    said = (
        f"The {M} judges of this jury are worth {votes(M, of):.1f} independent votes: their answers to the same comparisons "
        f"correlate by {of:.2f}."
    )
    note = Finding("votes", said, severity="note", facts={"votes": votes(M, of), "judges": M, "correlation": of})
    return replace(result, warnings=(*result.warnings, note))


def said_of(found: JudgeSpread) -> str:
    """What judges are worth, and whether one can rank by them."""
    M = len(found.by_judge)
    said = (
        f"{M} judges are worth {found.votes:.1f} independent votes. Another judge would place an agent "
        f"{found.variance**0.5:.3f} (SD) from where all judges would on average; agents differ by {found.between**0.5:.3f}."
    )
    if M == 2:
        said += " Two judges say little of what judges differ in, so intervals are wide: judge the plan with a third."
    return said + (" Not rankable by these judges." if found.variance > found.between else "")


def learned(result: Verdicts) -> Bools:
    """Answered paired trials that abilities are made of: bool[N]."""
    return np.asarray(result.plan.teaches & (result.plan.arm == PAIRED) & result.answered)


def spread_of(results: Sequence[Verdicts]) -> JudgeSpread:
    """Of judges that answered the same trials; agents of the first. Raises: as `spread_of_votes`."""
    plan, answers = results[0].plan, [results[0].answer]
    for other in results[1:]:
        at = same_trials(plan, other.plan)
        answers.append(np.where(at >= 0, other.answer[at], np.nan))
    return spread_of_votes(plan, np.stack(answers))


def spread_of_votes(plan: Plan, told: Floats) -> JudgeSpread:
    """Of judges, on the trials that all answered. told: float[M, N], what they say of a plan's trials, NaN for no answer.

    Raises: ConfigError [variance-other]; StatisticsError.
    """
    rows = plan.teaches & (plan.arm == PAIRED) & ~np.isnan(told).any(axis=0)
    pairs = PairBlock.of(plan.item, plan.first, plan.second, told.mean(axis=0), n_items=plan.n_items, rows=rows)
    return _spread(lambda: [(pairs, told[:, rows])], None, n_agents=plan.n_agents)


def _spread(
    blocks: Callable[[], Iterable[tuple[PairBlock, Floats]]],
    of_mean: CentredCovariance | None,
    *,
    n_agents: int,
) -> JudgeSpread:
    """As `spread_of_votes`, of all trials that judges answered, each time `blocks` is called.

    of_mean: what items and calls leave to chance in the ranking; None for that of means of trials, over items like these.
    """
    alike = VoteSums()
    for _, votes_of_judges in blocks():
        alike.add(votes_of_judges)
        M = len(votes_of_judges)

    def means(value: Callable[[Floats], Floats]) -> TrialMeans:
        def told() -> Iterator[PairBlock]:
            return (replace(pairs, value=value(votes_of_judges)) for pairs, votes_of_judges in blocks())

        return trial_means(told, n_agents=n_agents, target="items-like-these")

    mean = means(lambda votes: np.asarray(votes.mean(axis=0)))
    if (mean.weight < 2).any():
        raise ConfigError(
            f"The judges answered {int(mean.weight.sum() / 2)} trials in common, of which an agent has "
            f"{int(mean.weight.min())}. Judge the whole plan with each: youden rejudge RUN --judge OTHER.",
            slug="variance-other",
        )
    gaps = [means(partial(_gap, judge=judge)) for judge in range(M)]
    by_judge = np.stack([mean.ability + gap.ability for gap in gaps])
    of_gaps = np.mean([np.diag(gap.covariance.covariance) for gap in gaps], axis=0) * M / max(M - 1, 1)
    return JudgeSpread(by_judge, mean.covariance if of_mean is None else of_mean, of_gaps, alike.correlation)


def _gap(votes: Floats, *, judge: int) -> Floats:
    return np.asarray(votes[judge] - votes.mean(axis=0))


class JudgeSpread:
    """What several judges differ in.

    `ability`, float (n_agents,), is the mean of `by_judge`, float (n_judges, n_agents); `covariance` is the mean's, for items
    like these and judges like these. `variance`, with its 95 % interval `low` to `high`, is that of one judge's centred
    ability around what all judges of the kind would give, beyond the sampling error of these items and calls; `between` is
    the variance between agents, beyond error. `votes` is the effective number of judges.

    Notes
    -----
    One-way random effects by moments, with the χ² interval of M − 1 judges. An agent's own variance is shrunk to the average
    as if that had been seen in one judge more; degrees of freedom by Satterthwaite.
    """

    def __init__(self, by_judge: Floats, of_mean: CentredCovariance, of_gaps: Floats, correlation: float) -> None:
        """of_gaps : float array (n_agents,): variance of a judge's difference from the mean by sampling; correlation: of votes.

        Raises
        ------
        StatisticsError
            [judges-few] for one judge.
        """
        M, K = by_judge.shape
        if M < 2:
            raise StatisticsError(
                "One judge says nothing of what judges differ in. Judge the same plan with another: `youden rejudge`.",
                slug="judges-few",
            )
        centred = by_judge - by_judge.mean(axis=1, keepdims=True)
        squares, n = centred.var(axis=0, ddof=1), (K - 1) * (M - 1)
        total, chance = float(squares.sum() / (K - 1)), float(of_gaps.sum() / (K - 1))
        self.ability, self.by_judge, self.votes = by_judge.mean(axis=0), by_judge, votes(M, correlation)
        self.variance = max(0.0, total - chance)
        self.low, self.high = (total * n / float(chdtri(n, p)) - chance for p in (0.025, 0.975))
        items = np.diag(of_mean.covariance)
        self.between = max(0.0, float(centred.mean(axis=0).var(ddof=1)) - float(np.nanmean(items)) - total / M)
        # each agent's own variance, shrunk to the average one as if that had been seen in one judge more
        own = np.maximum((squares * (M - 1) + total) / M - of_gaps, self.variance) / M
        root = np.sqrt(own * K / (K - 1))
        covariance = of_mean.covariance + root[:, None] * root * (np.eye(K) - 1 / K)
        df = (items + own) ** 2 / (items**2 / of_mean.freedom + own**2 / (M - 1))
        self.covariance = CentredCovariance(covariance, df)


class VoteSums:
    """Answers of M judges to the same trials; blocks add up."""

    def __init__(self) -> None:
        self._base: Floats | None = None
        self._n, self._total, self._products = 0, np.zeros(0), np.zeros(0)

    def add(self, told: Floats) -> None:
        """float[M, T] without NaN."""
        if not told.size:
            return
        if self._base is None:  # what never varies stays exactly 0
            M = len(told)
            self._base, self._total, self._products = told[:, :1], np.zeros(M), np.zeros((M, M))
        moved = told - self._base
        self._n += told.shape[1]
        self._total = self._total + moved.sum(axis=1)
        self._products = self._products + moved @ moved.T

    @property
    def correlation(self) -> float:
        """Mean correlation of two judges' answers; 0 where one always says the same, or there is no answer."""
        mean = self._total / max(self._n, 1)
        covariance = self._products / max(self._n, 1) - np.outer(mean, mean)
        error = np.sqrt(np.diag(covariance))
        if not (len(error) > 1 and error.all()):
            return 0.0
        return float((covariance / np.outer(error, error))[np.triu_indices(len(error), 1)].mean())


def votes(n_judges: int, alike: float) -> float:
    """How many independent judges so many are worth whose answers correlate so. Source: Spearman and Brown.

    >>> votes(3, 0.5)
    1.5
    """
    return n_judges / (1 + (n_judges - 1) * min(max(alike, 0.0), 1.0))
