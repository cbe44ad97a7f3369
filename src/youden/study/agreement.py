"""Do judges agree: on agents, on items, on curl and trial by trial, and on whom they tell apart? The paper's Table 6 for
two judges or more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from os import PathLike
from pathlib import Path

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.errors import StatisticsError
from youden.run_keys import Target
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.additive.rasch import Rasch
from youden.stats.base.links import LINKS
from youden.stats.base.metrics import Metric
from youden.stats.curl.quantiles import curl_quantiles
from youden.stats.judges.cell_agreement import cohen_kappa, krippendorff_alpha
from youden.stats.trials.comparisons import tied_places
from youden.study.judge_shifts import JudgeShifts, correlation, judge_shifts, shift_words
from youden.study.judged_runs import MatchItems, SideBySide, read_judged, side_by_side, with_families
from youden.text.sentences import with_interval
from youden.types import Scores
from youden.types.pool import Bools, Floats, or_none
from youden.types.recommendation import Recommendation
from youden.types.results import ABOUT, ScoreKind

MOST_TURNED = 5


@dataclass(frozen=True)
class Orders:
    """Pairs of shared agents by what their differences tell, each pair at 95 %, in the runs' own rankings.

    n_pairs: all; one, other: told apart by that run; both: by each of the two. turned: pairs (above by the one, above by the
    other) that both tell apart, in opposite orders, n_turned in all and the first of them.
    """

    n_pairs: int
    one: int
    other: int
    both: int
    n_turned: int
    turned: tuple[tuple[str, str], ...]


def orders(one: Bools, other: Bools, agent_ids: Sequence[str]) -> Orders:
    """Of two runs; one, other: bool[K, K], whether the row's agent is told above the column's."""
    K = len(agent_ids)
    above, below = np.nonzero(one & other.T)
    return Orders(
        n_pairs=K * (K - 1) // 2,
        one=int(one.sum()),
        other=int(other.sum()),
        both=int((one & (other | other.T)).sum()),
        n_turned=len(above),
        turned=tuple(
            (agent_ids[i], agent_ids[k]) for i, k in zip(above[:MOST_TURNED], below[:MOST_TURNED], strict=True)
        ),
    )


def order_words(names: tuple[str, str], found: Orders, target: Target) -> str:
    """What of the two orders is sure, and what that speaks of."""
    one, other = names
    said = (
        f"Of {found.n_pairs:,} pairs of agents {one} tells {found.one:,} apart and {other} {found.other:,}, by differences on "
        f"{ABOUT[target]} (95 % a pair); {found.both:,} are told apart by both, "
    )
    if not found.n_turned:
        return f"{said}all in the same order." if found.both else f"{said}so nothing says whether their orders differ."
    named = ", ".join(f"{above} over {below}" for above, below in found.turned)
    rest = f" and {found.n_turned - len(found.turned)} more" if found.n_turned > len(found.turned) else ""
    return f"{said}{found.n_turned:,} of them in opposite orders: {one} puts {named}{rest}."


MOST_SHOWN = 5


@dataclass(frozen=True)
class Curl:
    """Median and 95th percentile of |Δ|: data in the link's unit, predictions back on the scores' scale. None: no rectangle."""

    data_median: float | None
    data_p95: float | None
    predicted_median: float | None
    predicted_p95: float | None


@dataclass(frozen=True)
class Pairing:
    """Two judges. ranking: Spearman of the two rankings as they stand in ranking.csv, over agents in both; fits, difficulty: of
    abilities and of difficulties fitted anew to what the runs share, which is `ranking` too where a run has no ranking.
    Intervals as if agents (items) were a sample; None where one side does not vary. n_units: answered by both; same: share of
    equal yes-or-no answers; kappa: Cohen's; alpha: Krippendorff's on the same answers; alpha_soft: on graded answers, interval.
    NaN agreement (one answer throughout) is None. orders: whom each run tells apart. ceiling: the ρ to expect of two such
    rankings by one judge, the root of the product of both `SideBySide.sure`; None where errors are not known."""

    one: str
    other: str
    ranking: Metric | None
    fits: Metric | None
    difficulty: Metric | None
    n_units: int
    same: float
    kappa: float | None
    alpha: float | None
    alpha_soft: float | None
    orders: Orders
    ceiling: float | None


@dataclass(frozen=True)
class JudgeDisagreement:
    """An agent's places under each judge, 1 is best, widest apart first."""

    agent: str
    places: tuple[int, ...]


@dataclass(frozen=True)
class HardItem:
    """An item's difficulty under each judge, in SDs of that judge's difficulties, widest apart first; None unseen."""

    item: str
    difficulty: tuple[float | None, ...]


@dataclass(frozen=True)
class JudgesStudy:
    """The `judges` object of `youden compare --json`: everything about judges on what they share.

    n_compared: items on which every judge has an answer; alpha: Krippendorff's over all judges at once; shifts: of every two
    whose trials allow it; target: what it speaks of that a run tells agents apart. recommendations: one per
    run, None if the run is not fitted.
    """

    runs: tuple[str, ...]
    n_agents: int
    n_items: int
    n_compared: int
    units: str
    pairs: tuple[Pairing, ...]
    alpha: float | None
    curl: dict[str, dict[str, Curl]]
    agents: tuple[JudgeDisagreement, ...]
    items: tuple[HardItem, ...]
    shifts: tuple[JudgeShifts, ...]
    target: Target
    recommendations: tuple[Recommendation | None, ...]
    words: tuple[str, ...]


def compare(
    *runs: str | PathLike[str],
    scores: ScoreKind = "symmetric",
    match: MatchItems = "id",
    target: Target | None = None,
    families: Mapping[str, str] | None = None,
) -> JudgesStudy:
    """What `youden compare` prints, as data: do the judges of these runs' folders agree?

    Returns a `JudgesStudy`, whose `words` say it in sentences.

    scores: symmetric, or row, the paper's. match: items by id, or by the last number in it. target: which items differences
    describe; None for what the runs say. families: judge → the family of agents that is its own.

    Raises: RunFolderError, ConfigError, StatisticsError.

    >>> import youden
    >>> youden.compare("runs/mine", "runs/theirs").words  # doctest: +SKIP
    """
    judged = [read_judged(RunFolder(Path(run))) for run in runs]
    both = side_by_side(judged, kind=scores, match=match, target=target)
    return study_judges(with_families(both, families or {}), kind=scores)


GROWN = (
    "A run that grew is ranked here by the additive fit on what the judges' agents and items share, for comparison alone; its "
    "own ranking, on the scale of its first agents, is in ranking.csv and its report."
)


def study_judges(both: SideBySide, *, kind: ScoreKind = "symmetric") -> JudgesStudy:
    """Agreement of judges on agents, items, curl and single units. Raises: StatisticsError of the fit."""
    fits = [
        ClippedLinear().fit(Scores(value, weight, "train", kind, both.agent_ids, both.item_ids))
        for value, weight in zip(both.scores, both.weight, strict=True)
    ]
    pairs = tuple(_pairing(both, fits, a, b) for a, b in combinations(range(len(fits)), 2))
    shifts, few = _shifts(both)
    places = np.stack([tied_places(fit.ability_) for fit in fits])
    apart = np.argsort(-np.ptp(places, axis=0), kind="stable")[:MOST_SHOWN]
    scaled = np.stack([fit.difficulty_ / (np.nanstd(fit.difficulty_) or 1.0) for fit in fits])
    gaps = np.nan_to_num(np.ptp(scaled, axis=0), nan=-1.0)
    hardest = np.argsort(-gaps, kind="stable")[:MOST_SHOWN]
    return JudgesStudy(
        runs=both.names,
        n_agents=len(both.agent_ids),
        n_items=len(both.item_ids),
        n_compared=int((both.weight > 0).any(axis=1).all(axis=0).sum()),
        units=both.units,
        pairs=pairs,
        alpha=or_none(krippendorff_alpha(both.hard)),
        curl={
            name: {link: curl_of(value, link) for link in LINKS}
            for name, value in zip(both.names, both.scores, strict=True)
        },
        agents=tuple(JudgeDisagreement(both.agent_ids[i], tuple(places[:, i].tolist())) for i in apart),
        items=tuple(HardItem(both.item_ids[j], tuple(or_none(x) for x in scaled[:, j].tolist())) for j in hardest),
        shifts=shifts,
        target=both.target,
        recommendations=both.recommendations,
        words=(
            *_words(pairs, both.units, both.target),
            *recommendation_words(both.names, both.recommendations),
            *([GROWN] if both.grown else []),
            *(line for one in shifts for line in shift_words(one)),
            *few,
        ),
    )


def _shifts(both: SideBySide) -> tuple[tuple[JudgeShifts, ...], list[str]]:
    """Of every two judges, the later against the earlier; and why there are none of some."""
    found, few = [], []
    for one, other in combinations(range(len(both.names)), 2):
        try:
            found.append(judge_shifts(both, one, other))
        except StatisticsError as error:
            few.append(f"{both.names[one]} and {both.names[other]}: {error.message}")
    return tuple(found), few


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


def _pairing(both: SideBySide, fits: list[ClippedLinear], a: int, b: int) -> Pairing:
    answered = ~(np.isnan(both.hard[a]) | np.isnan(both.hard[b]))
    one, other = both.hard[a][answered], both.hard[b][answered]
    fitted = correlation(fits[a].ability_, fits[b].ability_)
    ranked = not np.isnan(both.abilities[[a, b]]).all(axis=1).any()
    return Pairing(
        one=both.names[a],
        other=both.names[b],
        ranking=correlation(both.abilities[a], both.abilities[b]) if ranked else fitted,
        fits=fitted,
        difficulty=correlation(fits[a].difficulty_, fits[b].difficulty_),
        n_units=int(answered.sum()),
        same=float((one == other).mean()),
        kappa=or_none(cohen_kappa(one, other)),
        alpha=or_none(krippendorff_alpha(np.stack([one, other]))),
        alpha_soft=or_none(krippendorff_alpha(np.stack([both.soft[a][answered], both.soft[b][answered]]))),
        orders=orders(both.above[a], both.above[b], both.agent_ids),
        ceiling=or_none(float(np.sqrt(both.sure[a] * both.sure[b]))),
    )


def curl_of(scores: Floats, link: str) -> Curl:
    """Curl of scores float[K, J] on `link`, of the data and of the additive fit's predictions."""
    try:
        data = curl_quantiles(LINKS[link].forward(scores)).tolist()
    except StatisticsError:
        return Curl(None, None, None, None)
    return Curl(*data, *curl_quantiles(Rasch(link=link).fit(scores).predict()).tolist())


def _words(pairs: tuple[Pairing, ...], units: str, target: Target) -> Iterator[str]:
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
        yield order_words((pair.one, pair.other), pair.orders, target)
        if pair.kappa is not None and pair.kappa < 0.4 and found.value > 0.8:
            yield f"{names} agree on the ranking far better than on single {units}: means hide what calls disagree on."
    if units != "trials":
        yield "A run without trials of its own is compared by ordered pairs: D ≥ ½ counts as a yes, graded answers are D."
