"""Do judges agree: on agents, on items, on curl and trial by trial, and on whom they tell apart? The paper's Table 6 for
two judges or more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.errors import StatisticsError
from youden.run_keys import Target
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.additive.rasch import Rasch
from youden.stats.base.links import LINKS
from youden.stats.curl.quantiles import curl_quantiles
from youden.stats.judges.cell_agreement import cohen_kappa, krippendorff_alpha
from youden.stats.trials.comparisons import tied_places
from youden.study.judge_shifts import JudgeShifts, correlation, shift_words
from youden.study.judged_runs import MatchItems, SideBySide, read_judged
from youden.text.sentences import with_interval
from youden.types import Scores
from youden.types.pool import Bools, Floats, or_none
from youden.types.recommendation import Recommendation
from youden.types.results import ABOUT, ScoreKind

MOST_TURNED = 5


class Orders:
    """Pairs of agents that two runs' own rankings order, at 95 % each.

    Of `n_pairs`, `one` and `other` are significantly different in that run, `both` in both; of these `n_turned` are in opposite
    orders, the first of them as (better in the one, better in the other) in `turned`.
    """

    def __init__(self, one: Bools, other: Bools, agent_ids: Sequence[str]) -> None:
        """one, other : bool arrays (n_agents, n_agents): whether the row's agent is significantly better than the column's."""
        K = len(agent_ids)
        above, below = (agents.tolist() for agents in np.nonzero(one & other.T))
        self.n_pairs, self.one, self.other = K * (K - 1) // 2, int(one.sum()), int(other.sum())
        self.both, self.n_turned = int((one & (other | other.T)).sum()), len(above)
        self.turned = [
            (agent_ids[i], agent_ids[k]) for i, k in zip(above[:MOST_TURNED], below[:MOST_TURNED], strict=True)
        ]

    def words(self, names: tuple[str, str], target: Target) -> str:
        """Format them in a sentence. names: of the two runs; target: of the runs' intervals."""
        one, other = names
        said = (
            f"Of {self.n_pairs:,} pairs of agents {one} tells {self.one:,} apart and {other} {self.other:,}, by differences on "
            f"{ABOUT[target]} (95 % a pair); {self.both:,} are told apart by both, "
        )
        if not self.n_turned:
            return (
                f"{said}all in the same order." if self.both else f"{said}so nothing says whether their orders differ."
            )
        named = ", ".join(f"{above} over {below}" for above, below in self.turned)
        rest = f" and {self.n_turned - len(self.turned)} more" if self.n_turned > len(self.turned) else ""
        return f"{said}{self.n_turned:,} of them in opposite orders: {one} puts {named}{rest}."


MOST_SHOWN = 5


@dataclass(frozen=True)
class Curl:
    """Median and 95th percentile of |Δ|: data in the link's unit, predictions back on the scores' scale. None: no rectangle."""

    data_median: float | None
    data_p95: float | None
    predicted_median: float | None
    predicted_p95: float | None


class Pairing:
    """How far two judges agree.

    `ranking` is Spearman's ρ of the two runs' rankings, `fits` and `difficulty` those of abilities and difficulties fitted to
    what the runs share; their intervals treat agents or items as a sample, and they are None if one side does not vary. Of
    the `n_units` that both answered, `same` is the share of equal yes-or-no answers; `kappa` is Cohen's, `alpha` and
    `alpha_soft` (of graded answers) Krippendorff's, None if undefined. `ceiling` is the ρ to expect of two such rankings by
    one judge.
    """

    def __init__(self, both: SideBySide, fits: Sequence[ClippedLinear], a: int, b: int) -> None:
        answered = ~(np.isnan(both.hard[a]) | np.isnan(both.hard[b]))
        hard, soft = both.hard[[a, b]][:, answered], both.soft[[a, b]][:, answered]
        are_ranked = not np.isnan(both.abilities[[a, b]]).all(axis=1).any()
        self.one, self.other = both.names[a], both.names[b]
        fitted = correlation(fits[a].ability_, fits[b].ability_)
        self.ranking = correlation(both.abilities[a], both.abilities[b]) if are_ranked else fitted
        self.fits = fitted
        self.difficulty = correlation(fits[a].difficulty_, fits[b].difficulty_)
        self.n_units, self.same = int(answered.sum()), float((hard[0] == hard[1]).mean())
        self.kappa = or_none(cohen_kappa(*hard))
        self.alpha, self.alpha_soft = or_none(krippendorff_alpha(hard)), or_none(krippendorff_alpha(soft))
        self.orders = Orders(both.above[a], both.above[b], both.agent_ids)
        self.ceiling = or_none(float(np.sqrt(both.sure[a] * both.sure[b])))


def compare(
    *runs: str | PathLike[str],
    scores: ScoreKind = "symmetric",
    match: MatchItems = "id",
    target: Target | None = None,
    families: Mapping[str, str] | None = None,
) -> JudgesStudy:
    """Compare the judges of two or more runs, as `youden compare` does.

    Parameters
    ----------
    *runs : Run, str or path
        The runs (`Run`), or their folders.
    scores : {"symmetric", "row"}, default "symmetric"
        Scores to compare; "row" are those of the paper.
    match : {"id", "number"}, default "id"
        Which items are the same: those with one id, or with one last number in it.
    target : {"items-like-these", "these-items"}, optional
        Population that differences refer to. Default: what the runs say.
    families : mapping, optional
        Judge → the agents' family that is its own. Default: what the judges' configs say.

    Returns
    -------
    JudgesStudy
        Agreement on agents, items and trials; `words` describes it in sentences.

    Raises
    ------
    RunFolderError
        If a file of a run is missing.
    ConfigError, StatisticsError
        If the runs cannot be compared.

    Examples
    --------
    >>> import youden
    >>> youden.compare(youden.read_run("runs/first"), "runs/second").words  # doctest: +SKIP
    """
    judged = [read_judged(RunFolder(Path(run))) for run in runs]
    both = SideBySide(judged, kind=scores, match=match, target=target, families=families)
    return JudgesStudy(both, kind=scores)


GROWN = (
    "A run that grew is ranked here by the additive fit on what the judges' agents and items share, for comparison alone; its "
    "own ranking, on the scale of its first agents, is in ranking.csv and its report."
)


class JudgesStudy:
    """The `judges` object of `youden compare --json`: how judges agree on what their runs share.

    `n_compared` counts the items on which every judge has an answer; `alpha` is Krippendorff's over all judges; `agents` are
    those whose places differ most, `items` those whose difficulties do, in SDs of each judge's; `shifts` are of every two
    judges whose trials allow it; `recommendations` has one per run, None if the run is not fitted.
    """

    def __init__(self, both: SideBySide, *, kind: ScoreKind = "symmetric") -> None:
        """Compare the judges of runs side by side; `kind` is that of the scores that are compared.

        Raises
        ------
        StatisticsError
            [scores-empty] if no cell is shared.
        """
        fits = [
            ClippedLinear().fit(
                Scores.from_matrices(
                    value, weight, role="train", kind=kind, agent_ids=both.agent_ids, item_ids=both.item_ids
                )
            )
            for value, weight in zip(both.scores, both.weight, strict=True)
        ]
        places = np.stack([tied_places(fit.ability_) for fit in fits])
        widest = np.argsort(-np.ptp(places, axis=0), kind="stable")[:MOST_SHOWN].tolist()
        scaled = np.stack([fit.difficulty_ / (np.nanstd(fit.difficulty_) or 1.0) for fit in fits])
        gaps = np.nan_to_num(np.ptp(scaled, axis=0), nan=-1.0)
        hardest = np.argsort(-gaps, kind="stable")[:MOST_SHOWN].tolist()
        shifts, too_few = _shifts(both)
        self.runs, self.n_agents, self.n_items = both.names, len(both.agent_ids), len(both.item_ids)
        self.n_compared, self.units = int((both.weight > 0).any(axis=1).all(axis=0).sum()), both.units
        self.pairs = [Pairing(both, fits, a, b) for a, b in combinations(range(len(fits)), 2)]
        self.alpha = or_none(krippendorff_alpha(both.hard))
        named_scores = zip(both.names, both.scores, strict=True)
        self.curl = {name: {link: curl_of(value, link) for link in LINKS} for name, value in named_scores}
        self.agents: list[dict[str, Any]] = [
            {"agent": both.agent_ids[i], "places": places[:, i].tolist()} for i in widest
        ]
        self.items: list[dict[str, Any]] = [
            {"item": both.item_ids[j], "difficulty": [or_none(x) for x in scaled[:, j]]} for j in hardest
        ]
        self.shifts, self.target, self.recommendations = shifts, both.target, both.recommendations
        self.words = [
            *_words(self.pairs, both.units, both.target),
            *recommendation_words(both.names, both.recommendations),
            *([GROWN] if both.grown else []),
            *(line for one in shifts for line in shift_words(one)),
            *too_few,
        ]


def _shifts(both: SideBySide) -> tuple[list[JudgeShifts], list[str]]:
    """Of every two judges, the later against the earlier; and why there are none of some."""
    found, few = [], []
    for one, other in combinations(range(len(both.names)), 2):
        try:
            found.append(JudgeShifts(both, one, other))
        except StatisticsError as error:
            few.append(f"{both.names[one]} and {both.names[other]}: {error.message}")
    return found, few


def recommendation_words(names: Sequence[str], recommendations: Sequence[Recommendation | None]) -> Iterator[str]:
    """Format what each run recommends, one line per run, and what all runs have in common; nothing if no run is fitted."""
    fitted = [recommendation for recommendation in recommendations if recommendation is not None]
    if not fitted:
        return
    for name, recommendation in zip(names, recommendations, strict=True):
        text = "No recommendation: the run is not fitted." if recommendation is None else recommendation.text
        yield f"By {name}: {text}"
    if len(fitted) < len(recommendations) or any(each.form == "none" for each in fitted):
        return
    shared = [agent for agent in fitted[0].agents if all(agent in each.agents for each in fitted[1:])]
    names_shown = f"{', '.join(shared[:3])}{f' and {len(shared) - 3} more' if len(shared) > 3 else ''}"
    if all(each.form == "recommended" and set(each.agents) == set(shared) for each in fitted):
        yield f"The runs agree: {names_shown}."
    elif shared:
        yield f"The runs differ. Recommended by, or a candidate of, every run: {names_shown}."
    else:
        yield "The runs differ. No agent is recommended by, or a candidate of, every run."


def curl_of(scores: Floats, link: str) -> Curl:
    """Curl of scores float[K, J] on `link`, of the data and of the additive fit's predictions."""
    try:
        data = curl_quantiles(LINKS[link].forward(scores)).tolist()
    except StatisticsError:
        return Curl(None, None, None, None)
    return Curl(*data, *curl_quantiles(Rasch(link=link).fit(scores).predict()).tolist())


def _words(pairs: Sequence[Pairing], units: str, target: Target) -> Iterator[str]:
    for pair in pairs:
        names, found = f"{pair.one} and {pair.other}", pair.ranking
        if found is None:
            yield f"{names}: one of them ranks no agent above another, so nothing correlates."
            continue
        if pair.same == 1:
            yield f"{names} gave the same yes or no on all {pair.n_units:,} {units} both answered: nothing says that they differ."
        rho = with_interval(found.value, found.low, found.high, why=found.method)
        kappa = "undefined (one answer throughout)" if pair.kappa is None else f"{pair.kappa:.2f}"
        yield (
            f"{names} rank agents alike at ρ = {rho}; on {pair.n_units:,} {units} both answered they "
            f"give the same yes or no {pair.same:.0%} of the time, κ = {kappa}."
        )
        if pair.ceiling is not None:
            yield (
                f"By the errors of both rankings, two such runs of one judge would agree at about ρ = {pair.ceiling:.2f}: "
                "only a ρ clearly below that says that the judges differ."
            )
        yield pair.orders.words((pair.one, pair.other), target)
        if pair.kappa is not None and pair.kappa < 0.4 and found.value > 0.8:
            yield f"{names} agree on the ranking far better than on single {units}: means hide what calls disagree on."
    if units != "trials":
        yield "A run without trials of its own is compared by ordered pairs: D ≥ ½ counts as a yes, graded answers are D."
