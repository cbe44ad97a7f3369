"""Which estimator ranks a plan, and the abilities it gives: trials in slots, adaptive rounds, plans that grew, or cells.

Whoever ranks asks here: `rank`, a run's folder, the gate and the budget study.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from youden.nouns import PAIRED, Plan, Scores, Verdicts
from youden.nouns.arrays import Bools, Floats, Ids
from youden.protocol.designs.adaptive import Standing, adaptive_of
from youden.protocol.extension.blocks import complete_part, extensions_of, scored_sides
from youden.protocol.probes import without_probes
from youden.protocol.rates import tally
from youden.protocol.scores import pooled_fpr, train_scores
from youden.run.trial_mean import TrialMean
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.trials.anchored import Placed, Scale, place, scale_of, stretch_of
from youden.stats.trials.weighted_mean import weighted_mean

PRIOR_SLOTS = 6
LEVEL = 0.95
TRIALS = "mean of trials"
CELLS = "clipped-linear ability"


class Abilities(NamedTuple):
    """Abilities of a plan's agents.

    ability, error: float[K], the standard error of an agent's distance from the average one; freedom: float[K], of Student's t;
    low, high: float[K]; n_trials: int32[K]. fpr: the rate that was taken off the answers. ranking: the estimator's name.
    """

    ability: Floats
    error: Floats
    freedom: Floats
    low: Floats
    high: Floats
    n_trials: Ids
    fpr: float
    ranking: str
    method: str


def abilities_of(result: Verdicts) -> Abilities | None:
    """Abilities from the trials themselves; None where cells rank (dense and cell designs, gaps, a holdout).

    Cells are ranked by `ClippedLinear` and `cell_abilities`.
    """
    if extensions_of(result.plan).steps:
        return _grown(result)
    if not balanced(result.plan):
        return None
    if result.plan.rounds is not None:
        return adaptive_means(result)
    means = TrialMean().fit(result.plan, without_probes(result))
    return Abilities(
        means.ability_,
        means.error_,
        means.freedom_,
        means.low_,
        means.high_,
        means.n_trials_,
        means.fpr_,
        TRIALS,
        means.method_,
    )


def balanced(plan: Plan) -> bool:
    """Whether trials in slots compare every agent on the same items, so that plain means are fair.

    With gaps or a holdout each agent is seen on items of its own, and a mean mixes its ability with their difficulty: the
    slot intervals then cover .79–.93 of the time on the paper's data where the additive fit's cover .945–.97
    (`benchmarks/cyclic.py`), at the same rank correlation.
    """
    slot = plan.slot[plan.arm == PAIRED]
    return bool(len(slot) and (slot >= 0).all() and plan.split.train.all())


def adaptive_means(result: Verdicts) -> Abilities:
    """Abilities of an adaptive plan, less the pooled FPR, at the level its looks leave.

    Raises: StatisticsError [weighted-mean].
    """
    plan, design = result.plan, adaptive_of(result.plan)
    standing = standing_of(plan, result)
    freedom = np.maximum(standing.n_slots - 1 + PRIOR_SLOTS, 1).astype(np.float64)
    half = student.ppf((1 + design.look_level) / 2, freedom) * standing.error
    rate = pooled_fpr(tally(result)) or 0.0
    ability = standing.ability - rate
    looks = f", 95 % over {design.n_looks} looks" if design.top is not None or design.width is not None else ""
    return Abilities(
        ability,
        standing.error,
        freedom,
        ability - half,
        ability + half,
        standing.n_trials,
        rate,
        TRIALS,
        f"weighted trials, slot residuals, shrunk variances, Student t{looks}",
    )


def standing_of(plan: Plan, result: Verdicts) -> Standing:
    """How sure an adaptive plan's abilities are. Raises: StatisticsError [weighted-mean]."""
    used = (plan.slot >= 0) & result.answered
    found = weighted_mean(
        plan.first[used],
        plan.second[used],
        plan.slot[used],
        result.answer[used],
        weight=trial_weights(plan).first[used],
        n_agents=plan.n_agents,
        n_items=plan.n_items,
    )
    return Standing(found.mean, found.error, found.n_slots, found.n_trials, found.left)


class TrialWeights(NamedTuple):
    """What each trial of a plan counts for its first and its second agent: float[N] each."""

    first: Floats
    second: Floats


def trial_weights(plan: Plan) -> TrialWeights:
    """One over the chance with which an adaptive plan asked a trial; else 1 for whom the trial counts, 0 for others."""
    rounds = plan.rounds
    if rounds is None:
        sides = scored_sides(plan)
        return TrialWeights(sides.first.astype(np.float64), sides.second.astype(np.float64))
    weight, used = np.ones(len(plan)), plan.slot >= 0
    weight[used] = rounds.weights(plan.first[used], plan.second[used], n_slots=int(plan.slot.max()) + 1)
    return TrialWeights(weight, weight)


def _grown(result: Verdicts) -> Abilities:
    """The first plan's agents are ranked as if nothing else had been asked.

    Agents that joined, and those that further calls were spent on, are placed on the scale of the first ones.
    """
    plan, extensions = result.plan, extensions_of(result.plan)
    anchors = anchors_of(result)
    scale = scale_from(result, anchors)
    placed = place_added(result, anchors, scale)
    n_old, n_new = extensions.anchors, plan.n_agents - extensions.anchors
    stretch = stretch_of(n_old)
    effect = _padded((anchors.ability - scale.centre) / stretch, n_new)
    before = _padded(np.where(np.isnan(anchors.ability + anchors.error), 0.0, anchors.n_trials), n_new)
    variance = _padded((anchors.error / stretch) ** 2, n_new)
    now = placed.n_trials.astype(np.float64)
    n = before + now
    with np.errstate(divide="ignore", invalid="ignore"):
        effect = (before * effect + np.where(now > 0, now * placed.effect, 0.0)) / n
        error = stretch * np.sqrt(before**2 * variance + np.where(now > 0, now**2 * placed.variance, 0.0)) / n
    ability = scale.centre + stretch * effect
    freedom = _padded(anchors.freedom - PRIOR_SLOTS + 1, n_new) + PRIOR_SLOTS - 1 + placed.n_slots
    half = student.ppf((1 + LEVEL) / 2, freedom) * error
    low, high = ability - half, ability + half
    n = np.where(now > 0, n, _padded(anchors.n_trials.astype(np.float64), n_new))
    same = np.flatnonzero(now[:n_old] == 0)
    for column, old in ((ability, anchors.ability), (error, anchors.error), (low, anchors.low), (high, anchors.high)):
        column[same] = old[same]
    return Abilities(
        ability,
        error,
        freedom,
        low,
        high,
        n.astype(np.int32),
        anchors.fpr,
        anchors.ranking,
        f"{anchors.method}; added trials: mean on the scale of the first {n_old} agents, Student t, linking error included",
    )


def _padded(column: Floats, n: int) -> Floats:
    """With 0 where nothing is known, and n more of them."""
    padded: Floats = np.zeros(len(column) + n)
    padded[: len(column)] = np.nan_to_num(column, posinf=np.inf)
    return padded


def anchors_of(result: Verdicts) -> Abilities:
    """Abilities of the first plan's agents: from complete slots, or from the fit where cells rank.

    They are on the level of the first plan's items: items that joined later do not move it.
    """
    part, n_items = complete_part(result), extensions_of(result.plan).items
    found = abilities_of(part)
    if found is None:
        return _fitted(part, n_items)
    first_items = (part.plan.arm == PAIRED) & part.answered & (part.plan.item < n_items)
    if part.plan.n_items == n_items or not first_items.any():
        return found
    return _moved(found, float(part.answer[first_items].mean()) - found.fpr - float(np.nanmean(found.ability)))


def cell_abilities(model: ClippedLinear, scores: Scores, *, fpr: float | None) -> Abilities:
    """Abilities where cells rank, from `model` fitted to `scores`. fpr: the rate that was taken off them, None where unknown."""
    fit = model.as_fit()
    return Abilities(
        fit.ability,
        (fit.high - fit.low) / 2 / float(norm.ppf((1 + fit.level) / 2)),
        np.full(len(fit.ability), np.inf),
        fit.low,
        fit.high,
        scores.weight.sum(axis=1).astype(np.int32),
        fpr or 0.0,
        CELLS,
        fit.method,
    )


def _fitted(part: Verdicts, n_items: int) -> Abilities:
    rates = tally(part)
    scores = train_scores(rates, part.plan.split)
    model = ClippedLinear().fit(scores)
    found = cell_abilities(model, scores, fpr=pooled_fpr(rates))
    return found if part.plan.n_items == n_items else _moved(found, -float(np.nanmean(model.difficulty_[:n_items])))


def _moved(found: Abilities, by: float) -> Abilities:
    return found._replace(ability=found.ability + by, low=found.low + by, high=found.high + by)


def scale_from(result: Verdicts, anchors: Abilities, *, rows: Bools | None = None) -> Scale:
    """The anchors' scale from their own answers in complete slots, those among `rows`."""
    plan = result.plan
    own = learned_from(result, rows) & anchors_alone(plan)
    return scale_of(
        plan.item[own],
        plan.first[own],
        plan.second[own],
        plan.slot[own],
        result.answer[own] - anchors.fpr,
        ability=anchors.ability,
        error=anchors.error,
        n_items=plan.n_items,
    )


def place_added(result: Verdicts, anchors: Abilities, scale: Scale, *, rows: Bools | None = None) -> Placed:
    """Where answers outside complete slots, those among `rows`, put the agents that they count for."""
    beside = added_answers(result, rows)
    return place(
        beside.item,
        beside.agent,
        beside.partner,
        beside.slot,
        beside.answer - anchors.fpr,
        scale=scale,
        n_agents=result.plan.n_agents,
        finite=anchors.ranking == TRIALS,
    )


class AddedAnswers(NamedTuple):
    """Answers outside complete slots, one row a trial and agent it counts for: int32[T], answers float[T]."""

    item: Ids
    agent: Ids
    partner: Ids
    slot: Ids
    answer: Floats


def added_answers(result: Verdicts, rows: Bools | None = None) -> AddedAnswers:
    """Those among `rows`, each with an anchor as the partner."""
    plan, sides = result.plan, scored_sides(result.plan)
    n_old = extensions_of(plan).anchors
    beside = learned_from(result, rows) & ~sides.complete
    one, other = beside & sides.first & (plan.second < n_old), beside & sides.second & (plan.first < n_old)
    return AddedAnswers(
        np.append(plan.item[one], plan.item[other]),
        np.append(plan.first[one], plan.second[other]),
        np.append(plan.second[one], plan.first[other]),
        np.append(plan.slot[one], plan.slot[other]),
        np.append(result.answer[one], result.answer[other]),
    )


def learned_from(result: Verdicts, rows: Bools | None = None) -> Bools:
    """Which rows are answered paired trials that may be learned from: bool[N]."""
    plan, train = result.plan, result.plan.split.train
    usable = (plan.arm == PAIRED) & result.answered & train[plan.first, plan.item] & train[plan.second, plan.item]
    return np.asarray(usable if rows is None else usable & rows)


def anchors_alone(plan: Plan) -> Bools:
    """Which rows compare two of the first plan's agents in complete slots: bool[N]."""
    n_old = extensions_of(plan).anchors
    return np.asarray(scored_sides(plan).complete & (plan.first < n_old) & (plan.second < n_old))
