"""Measure how well judges agree: on agents, items, curl, individual answers and significant differences.

This extends the paper's Table 6 to two judges or more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from youden.errors import StatisticsError
from youden.run_keys import Target
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.additive.rasch import Rasch
from youden.stats.base.links import LINKS
from youden.stats.base.metrics import Metric
from youden.stats.curl.quantiles import curl_quantiles
from youden.stats.judges.cell_agreement import cohen_kappa, krippendorff_alpha
from youden.stats.trials.comparisons import rank_with_ties
from youden.study.judge_shift_text import describe_shifts
from youden.study.judge_shifts import JudgeShifts, correlation
from youden.study.judged_runs import AlignedRuns
from youden.text.sentences import format_with_interval
from youden.types import Scores
from youden.types.pool import Bools, Floats, or_none
from youden.types.recommendation import Recommendation
from youden.types.results import ABOUT, ScoreKind

MAX_REVERSED_PAIRS = 5


class OrderComparison:
    """Pairs of agents that the rankings of two runs order, each at 95% per pair.

    Attributes
    ----------
    n_pairs : int
        Number of pairs.
    n_significant_a, n_significant_b, n_significant_both : int
        Pairs that are significantly different in the first run, in the second run, and in both.
    n_reversed : int
        Pairs that are significantly different in both, in opposite orders.
    reversed_pairs : list of (str, str)
        The first of these, as (better in the first run, better in the second run).
    """

    def __init__(self, better_a: Bools, better_b: Bools, agent_ids: Sequence[str]) -> None:
        """Compare the significant differences between agents in two runs.

        Parameters
        ----------
        better_a, better_b : bool array (n_agents, n_agents)
            Whether the row's agent is significantly better than the column's, in each run.
        agent_ids : sequence of str
            Ids of the agents.
        """
        n_agents = len(agent_ids)
        self.n_pairs = n_agents * (n_agents - 1) // 2
        self.n_significant_a = int(better_a.sum())
        self.n_significant_b = int(better_b.sum())
        is_significant_in_both = better_a & (better_b | better_b.T)
        self.n_significant_both = int(is_significant_in_both.sum())

        better_in_a, better_in_b = np.nonzero(better_a & better_b.T)
        self.n_reversed = len(better_in_a)
        first_pairs = zip(
            better_in_a[:MAX_REVERSED_PAIRS].tolist(), better_in_b[:MAX_REVERSED_PAIRS].tolist(), strict=True
        )
        self.reversed_pairs = [(agent_ids[i], agent_ids[k]) for i, k in first_pairs]

    def describe(self, names: tuple[str, str], target: Target) -> str:
        """Describe how many pairs of agents differ significantly in each run and in both, and whether in the same order.

        Parameters
        ----------
        names : (str, str)
            Names of the two runs.
        target : {"items-like-these", "these-items", "items-and-judges"}
            Population for which the differences are significant, such as more items like those of the run. It changes only
            the wording of the sentence, because the significant pairs are counted already.

        Returns
        -------
        str
            One sentence, with examples of the pairs that differ significantly in opposite orders, at most 5.
        """
        name_a, name_b = names
        counts = (
            f"Of {self.n_pairs:,} pairs of agents, {self.n_significant_a:,} are significantly different by {name_a} and "
            f"{self.n_significant_b:,} by {name_b}, on {ABOUT[target]} (95% per pair); {self.n_significant_both:,} by both, "
        )
        if not self.n_significant_both:
            return f"{counts}so their orders cannot be compared."
        if not self.n_reversed:
            return f"{counts}all in the same order."

        examples = ", ".join(f"{winner} above {loser}" for winner, loser in self.reversed_pairs)
        n_omitted = self.n_reversed - len(self.reversed_pairs)
        if n_omitted:
            examples += f" and {n_omitted} more"
        return f"{counts}{self.n_reversed:,} of them in opposite orders: {name_a} ranks {examples}."


MAX_SHOWN = 5


@dataclass(frozen=True)
class Curl:
    """Curl of scores on a link, a transformation of the scores: how far they are from additive.

    Δ is the interaction of two agents and two items (a rectangle), 0 if scores are additive. All values are None if no
    rectangle is complete.

    Attributes
    ----------
    data_median, data_p95 : float or None
        Median and 95th percentile of |Δ| of the data, in the unit of the link.
    predicted_median, predicted_p95 : float or None
        The same for the predictions of the additive fit, in the unit of the scores.
    """

    data_median: float | None
    data_p95: float | None
    predicted_median: float | None
    predicted_p95: float | None


class JudgeAgreement:
    """Agreement of two judges.

    Attributes
    ----------
    judge_a, judge_b : str
        Names of the judges.
    ranking : Metric or None
        Spearman's ρ of the two runs' rankings; None if one side does not vary.
    refit_ability, difficulty : Metric or None
        ρ of the abilities and of the difficulties that are fitted to the shared scores. Intervals treat agents or items
        as a sample.
    n_units : int
        Units that both answered.
    agreement : float
        Share of equal yes-or-no answers among them.
    cohen_kappa : float or None
        Cohen's κ of the yes-or-no answers; None if undefined.
    krippendorff_alpha, krippendorff_alpha_graded : float or None
        Krippendorff's α of yes-or-no and of graded answers; None if undefined.
    have_same_judge : bool
        Whether both runs name the same judge with the same settings.
    orders : OrderComparison
        Significant differences in both rankings.
    max_rho : float or None
        ρ to expect of two such rankings by one judge, which differ only by sampling errors; None if unknown.
    """

    def __init__(self, runs: AlignedRuns, fits: Sequence[ClippedLinear], a: int, b: int) -> None:
        """Compare two judges.

        Parameters
        ----------
        runs : AlignedRuns
            Answers of all judges on shared agents and items.
        fits : sequence of ClippedLinear
            Additive fit of each run to the shared scores.
        a, b : int
            Positions of the two judges in `runs`.
        """
        is_answered = ~(np.isnan(runs.hard[a]) | np.isnan(runs.hard[b]))
        hard = runs.hard[[a, b]][:, is_answered]
        soft = runs.soft[[a, b]][:, is_answered]
        are_ranked = not np.isnan(runs.abilities[[a, b]]).all(axis=1).any()
        fitted = correlation(fits[a].ability_, fits[b].ability_)

        self.judge_a, self.judge_b = runs.names[a], runs.names[b]
        self.have_same_judge = runs.judges[a] is not None and runs.judges[a] == runs.judges[b]
        self.ranking = correlation(runs.abilities[a], runs.abilities[b]) if are_ranked else fitted
        self.refit_ability = fitted
        self.difficulty = correlation(fits[a].difficulty_, fits[b].difficulty_)
        self.n_units = int(is_answered.sum())
        self.agreement = float((hard[0] == hard[1]).mean())
        self.cohen_kappa = or_none(cohen_kappa(*hard))
        self.krippendorff_alpha = or_none(krippendorff_alpha(hard))
        self.krippendorff_alpha_graded = or_none(krippendorff_alpha(soft))
        self.orders = OrderComparison(runs.significantly_better[a], runs.significantly_better[b], runs.agent_ids)
        self.max_rho = or_none(float(runs.max_rho[a, b]))


EXTENDED_NOTE = (
    "An extended run is ranked here by the additive fit to the shared agents and items, for this comparison only; its own "
    "ranking, on the scale of its first agents, is in ranking.csv and its report."
)


class JudgesStudy:
    """Agreement of judges on the agents, items and trials that they share.

    This is the `judges` object of `youden compare --json`.

    Attributes
    ----------
    runs : tuple of str
        Names of the judges.
    n_agents, n_items, n_compared : int
        Shared agents and items, and items on which every judge has an answer.
    units : {"trials", "ordered pairs"}
        What the answers refer to.
    pairs : list of JudgeAgreement
        Agreement of every two judges.
    krippendorff_alpha : float or None
        Krippendorff's α over all judges.
    curl : dict of str to dict of str to Curl
        Curl by judge and link.
    agents : list of dict
        Agents whose ranks differ most between the judges.
    items : list of dict
        Items whose difficulties differ most, in SDs of each judge's difficulties.
    shifts : list of JudgeShifts
        Differences between every two judges whose trials allow it.
    target : {"items-like-these", "these-items", "items-and-judges"}
        Population that differences refer to.
    recommendations : tuple of Recommendation or None
        Recommendation of each run; None if it is not fitted.
    answer : list of str
        What the recommendations of the runs have in common, and each recommendation; empty if no run is fitted.
    summary : list of str
        Conclusions in sentences, which begin with `answer`.
    """

    def __init__(self, aligned: AlignedRuns, *, kind: ScoreKind = "symmetric") -> None:
        """Compare judges.

        Parameters
        ----------
        aligned : AlignedRuns
            The runs, with scores of the same kind.
        kind : {"symmetric", "row"}, default "symmetric"
            Kind of the scores.

        Raises
        ------
        StatisticsError
            [scores-empty] if no cell is shared.
        """
        fits = [
            _fit_scores(aligned, value, weight, kind=kind)
            for value, weight in zip(aligned.scores, aligned.weight, strict=True)
        ]
        shifts, skipped = _compute_shifts(aligned)
        has_answer = (aligned.weight > 0).any(axis=1)

        self.runs = aligned.names
        self.n_agents, self.n_items = len(aligned.agent_ids), len(aligned.item_ids)
        self.n_compared = int(has_answer.all(axis=0).sum())
        self.units = aligned.units
        self.pairs = [JudgeAgreement(aligned, fits, a, b) for a, b in combinations(range(len(fits)), 2)]
        self.krippendorff_alpha = or_none(krippendorff_alpha(aligned.hard))
        self.curl: dict[str, dict[str, Curl]] = {}
        for name, scores in zip(aligned.names, aligned.scores, strict=True):
            self.curl[name] = {link: measure_curl_on_link(scores, link) for link in LINKS}
        self.agents = _list_differing_agents(fits, aligned.agent_ids)
        self.items = _list_differing_items(fits, aligned.item_ids)
        self.shifts, self.target, self.recommendations = shifts, aligned.target, aligned.recommendations
        self.answer = list(describe_recommendations(aligned.names, aligned.recommendations))
        self.summary = [
            *self.answer,
            *_describe_agreement(self.pairs, aligned.units, aligned.target),
            *([EXTENDED_NOTE] if aligned.has_extended_run else []),
            *(line for judge_shifts in shifts for line in describe_shifts(judge_shifts)),
            *skipped,
        ]


def _list_differing_agents(fits: Sequence[ClippedLinear], agent_ids: Sequence[str]) -> list[dict[str, Any]]:
    """List the agents whose ranks by the runs differ most, with these ranks."""
    ranks = np.stack([rank_with_ties(fit.ability_) for fit in fits])
    agents = np.argsort(-np.ptp(ranks, axis=0), kind="stable")[:MAX_SHOWN].tolist()
    return [{"agent": agent_ids[agent], "places": ranks[:, agent].tolist()} for agent in agents]


def _list_differing_items(fits: Sequence[ClippedLinear], item_ids: Sequence[str]) -> list[dict[str, Any]]:
    """List the items whose difficulties by the runs, in standard deviations, differ most, with these difficulties."""
    difficulty = np.stack([fit.difficulty_ / (np.nanstd(fit.difficulty_) or 1.0) for fit in fits])
    ranges = np.nan_to_num(np.ptp(difficulty, axis=0), nan=-1.0)
    items = np.argsort(-ranges, kind="stable")[:MAX_SHOWN].tolist()
    return [{"item": item_ids[item], "difficulty": [or_none(value) for value in difficulty[:, item]]} for item in items]


def _fit_scores(aligned: AlignedRuns, value: Floats, weight: Floats, *, kind: ScoreKind) -> ClippedLinear:
    """Fit the additive model to the scores of one run, float arrays (n_agents, n_items)."""
    scores = Scores.from_matrices(
        value, weight, role="train", kind=kind, agent_ids=aligned.agent_ids, item_ids=aligned.item_ids
    )
    return ClippedLinear().fit(scores)


def _compute_shifts(aligned: AlignedRuns) -> tuple[list[JudgeShifts], list[str]]:
    """Compute, for each pair of judges, by how much the yes rate of each agent shifts under the second judge of the pair.

    Returns the differences of each pair of judges, and one sentence per pair for which they cannot be computed.
    """
    shifts = []
    problems = []
    for earlier, later in combinations(range(len(aligned.names)), 2):
        try:
            shifts.append(JudgeShifts(aligned, earlier, later))
        except StatisticsError as error:
            problems.append(f"{aligned.names[earlier]} and {aligned.names[later]}: {error.message}")
    return shifts, problems


def describe_recommendations(names: Sequence[str], recommendations: Sequence[Recommendation | None]) -> Iterator[str]:
    """Describe the recommendations of several runs, and the agents that all of them recommend.

    Parameters
    ----------
    names : sequence of str
        Names of the runs.
    recommendations : sequence of Recommendation or None
        Recommendation of each run; None if the run is not fitted.

    Yields
    ------
    str
        One line on what the runs have in common, then one line per run. Nothing if no run is fitted.
    """
    if all(recommendation is None for recommendation in recommendations):
        return
    yield _describe_common_recommendation(names, recommendations)
    for name, recommendation in zip(names, recommendations, strict=True):
        text = "No recommendation: the run is not fitted." if recommendation is None else recommendation.text
        yield f"By {name}: {text}"


def _describe_common_recommendation(names: Sequence[str], recommendations: Sequence[Recommendation | None]) -> str:
    """Describe in one sentence which agents all runs recommend or list as candidates.

    recommendations : recommendation of each run; None if the run is not fitted
    """
    runs_without_agents = []
    with_agents = []  # the recommendations that name an agent
    for name, recommendation in zip(names, recommendations, strict=True):
        if recommendation is None or recommendation.form == "none":
            runs_without_agents.append(name)
        else:
            with_agents.append(recommendation)
    if runs_without_agents:
        verb = "recommends" if len(runs_without_agents) == 1 else "recommend"
        return f"No common recommendation: {', '.join(runs_without_agents)} {verb} no agent."
    return _describe_shared_agents(with_agents)


def _describe_shared_agents(recommendations: Sequence[Recommendation]) -> str:
    """Describe in one sentence whether all runs recommend the same agents, or list the same candidates (possibly best agents).

    recommendations : recommendation of each run; each of them names at least one agent

    Returns a sentence with at most three of the shared agents, in the order of the first run.
    """
    agent_sets = [set(recommendation.agents) for recommendation in recommendations]
    in_every_run = set.intersection(*agent_sets)
    shared = [agent for agent in recommendations[0].agents if agent in in_every_run]  # in the order of the first run
    if not shared:
        return "The runs differ: they have no recommended agent or candidate in common."

    shared_names = ", ".join(shared[:3])
    if len(shared) > 3:
        shared_names += f" and {len(shared) - 3} more"
    have_same_agents = all(agents == in_every_run for agents in agent_sets)
    forms = {recommendation.form for recommendation in recommendations}  # "recommended" or "candidates"
    if have_same_agents and forms == {"recommended"}:
        return f"The runs agree: {shared_names}."
    if have_same_agents and len(forms) == 1:
        return f"The runs agree on the candidates: {shared_names}."
    return f"The runs differ, but each recommends these agents or lists them as candidates: {shared_names}."


def measure_curl_on_link(scores: Floats, link: str) -> Curl:
    """Measure the curl of scores on the scale of a link function, and of the scores that a fit on this scale predicts.

    Curl is the deviation from additivity: |s_ij − s_ik − s_lj + s_lk| for agents i, l and items j, k. The predicted scores are
    not transformed.

    Parameters
    ----------
    scores : float array (n_agents, n_items)
        Scores, NaN if unobserved.
    link : {"identity", "probit", "logit"}
        Name of the link function.

    Returns
    -------
    Curl
        Median and 95th percentile of the curl of scores and of predictions; None if it cannot be measured.
    """
    try:
        score_quantiles = curl_quantiles(LINKS[link].forward(scores)).tolist()
    except StatisticsError:
        return Curl(None, None, None, None)
    predicted = Rasch(link=link).fit(scores).predict()
    predicted_quantiles = curl_quantiles(predicted).tolist()
    return Curl(*score_quantiles, *predicted_quantiles)


def _describe_agreement(pairs: Sequence[JudgeAgreement], units: str, target: Target) -> Iterator[str]:
    """Describe in sentences how far every two judges agree; `units` are "trials" or "ordered pairs"."""
    for pair in pairs:
        yield from _describe_pair(pair, units, target)
    if units != "trials":
        yield "A run without trials is compared by ordered pairs: D ≥ ½ counts as a yes, graded answers are D."


def _describe_pair(pair: JudgeAgreement, units: str, target: Target) -> Iterator[str]:
    """Yield sentences on how well two judges agree on the ranking, on individual answers and on significant differences.

    The correlation of the rankings is compared with that of two rankings that differ only by sampling errors (`max_rho`).

    pair : agreement of the two judges
    units : plural noun for what both judges answered, "trials" or "ordered pairs"
    target : population of items for which the intervals hold
    """
    names = f"{pair.judge_a} and {pair.judge_b}"
    if pair.ranking is None:
        yield f"{names}: one of the rankings does not vary, so no correlation is defined."
        return
    if pair.agreement == 1:
        meaning = "nothing shows that they differ"
        if pair.have_same_judge:
            meaning = "they have the same judge and may share its stored answers, so this is no evidence of reliability"
        yield f"{names} gave the same yes or no on all {pair.n_units:,} {units} both answered: {meaning}."

    yield _describe_correlations(pair, pair.ranking, units)
    if pair.max_rho == 0:
        yield (
            "The abilities of at least one ranking vary by no more than their standard errors, so ρ cannot show that the judges "
            "differ. More comparisons or items are needed."
        )
    elif pair.max_rho is not None:
        yield (
            f"By the standard errors of both rankings, two such runs of one judge would correlate with about "
            f"ρ = {pair.max_rho:.2f}: only a ρ clearly below that shows that the judges differ."
        )

    yield pair.orders.describe((pair.judge_a, pair.judge_b), target)


def _describe_correlations(pair: JudgeAgreement, ranking: Metric, units: str) -> str:
    """Describe how strongly the rankings of two judges correlate, and how often their individual answers are equal.

    ranking : Spearman's ρ of the rankings, with its interval
    units : name of what both judges answered, such as "trials", for display
    """
    rho = format_with_interval(ranking.value, ranking.low, ranking.high, method=ranking.method)
    kappa = "undefined (all answers are equal)" if pair.cohen_kappa is None else f"{pair.cohen_kappa:.2f}"
    return (
        f"The rankings of {pair.judge_a} and {pair.judge_b} correlate with ρ = {rho}, for agents like these; on "
        f"{pair.n_units:,} {units} that both answered, they give the same yes or no in {pair.agreement:.0%} of cases, "
        f"κ = {kappa}."
    )
