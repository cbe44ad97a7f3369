"""Which estimator ranks a plan, and the abilities it gives: trials in slots, adaptive rounds, plans that grew, or cells.

Whoever ranks asks here: `rank`, a run's folder, the gate and the budget study.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from youden.nouns import PAIRED, Plan, Scores, Target, Verdicts
from youden.nouns.arrays import Bools, Floats, Ids, Positions
from youden.protocol.designs.adaptive import Standing
from youden.protocol.extension.blocks import complete_part, extensions_of, scored_sides
from youden.protocol.probes import without_probes
from youden.protocol.rates import tally
from youden.protocol.scores import pooled_fpr, train_scores
from youden.run.trial_covariance import ByItem, trial_covariance
from youden.run.trial_mean import TrialMean
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.base.clusters import PRIOR_CLUSTERS, CentredCovariance, covariance_over_clusters
from youden.stats.trials.anchored import Placed, Scale, place, placed_by_item, scale_of, stretch_of
from youden.stats.trials.weighted_mean import weighted_mean

LEVEL = 0.95
TRIALS = "mean of trials"
CELLS = "clipped-linear ability"


class Abilities(NamedTuple):
    """Abilities of a plan's agents, and how sure their distances from the average agent are.

    ability: float[K]; covariance: of the θ_i − θ̄; n_trials: int32[K]. fpr: the rate that was taken off the answers. ranking: the
    estimator's name; method: the interval's. target: what it speaks of. by_item: what items contribute, for items like these.
    """

    ability: Floats
    covariance: CentredCovariance
    n_trials: Ids
    fpr: float
    ranking: str
    method: str
    target: Target
    by_item: ByItem | None = None

    @property
    def low(self) -> Floats:
        """The lower end of the interval for an agent's distance from the average one, put around its ability: float[K]."""
        return np.asarray(self.ability - self.covariance.half_width(LEVEL))

    @property
    def high(self) -> Floats:
        """The upper end: float[K]."""
        return np.asarray(self.ability + self.covariance.half_width(LEVEL))


def abilities_of(result: Verdicts, *, target: Target = "items-like-these") -> Abilities | None:
    """Abilities from the trials themselves; None where cells rank (dense and cell designs, gaps, a holdout).

    Cells are ranked by `ClippedLinear` and `cell_abilities`.
    """
    if extensions_of(result.plan).steps:
        return _grown(result, target)
    if not balanced(result.plan):
        return None
    if result.plan.rounds is not None:
        return adaptive_means(result, target=target)
    means = TrialMean(target=target).fit(result.plan, without_probes(result))
    return Abilities(
        means.ability_,
        means.covariance_,
        means.n_trials_,
        means.fpr_,
        TRIALS,
        means.method_,
        target,
        means.by_item_,
    )


def balanced(plan: Plan) -> bool:
    """Whether trials in slots compare every agent on the same items, so that plain means are fair.

    With gaps or a holdout each agent is seen on items of its own, and a mean mixes its ability with their difficulty: the
    slot intervals then cover .79–.93 of the time on the paper's data where the additive fit's cover .945–.97
    (`benchmarks/cyclic.py`), at the same rank correlation.
    """
    slot = plan.slot[plan.arm == PAIRED]
    return bool(len(slot) and (slot >= 0).all() and plan.split.train.all())


def adaptive_means(result: Verdicts, *, target: Target = "items-like-these") -> Abilities:
    """Abilities of an adaptive plan, less the pooled FPR. Raises: StatisticsError [weighted-mean]."""
    plan = result.plan
    used = (plan.slot >= 0) & result.answered
    first, second, slot, answer = plan.first[used], plan.second[used], plan.slot[used], result.answer[used]
    weight = trial_weights(plan).first[used]
    means = weighted_mean(first, second, slot, answer, weight=weight, n_agents=plan.n_agents, n_items=plan.n_items)
    found = trial_covariance(
        first,
        second,
        plan.item[used],
        slot,
        answer,
        ability=means.mean,
        weight=weight,
        n_items=plan.n_items,
        target=target,
    )
    rate = pooled_fpr(tally(result)) or 0.0
    method = f"weighted trials, {found.method}"
    return Abilities(means.mean - rate, found.covariance, means.n_trials, rate, TRIALS, method, target, found.by_item)


def standing_of(result: Verdicts, *, target: Target = "items-like-these") -> Standing:
    """How sure an adaptive plan's abilities are. Raises: StatisticsError [weighted-mean]."""
    found = adaptive_means(result, target=target)
    return Standing(found.ability, found.covariance.covariance, found.covariance.freedom)


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


def _grown(result: Verdicts, target: Target) -> Abilities:
    """The first plan's agents are ranked as if nothing else had been asked.

    Agents that joined, and those that further calls were spent on, are placed on the scale of the first ones.
    """
    plan, extensions = result.plan, extensions_of(result.plan)
    anchors = anchors_of(result, target=target)
    scale = scale_from(result, anchors)
    placed = place_added(result, anchors, scale)
    n_old, n_new = extensions.anchors, plan.n_agents - extensions.anchors
    stretch = stretch_of(n_old)
    known = ~np.isnan(anchors.ability + anchors.covariance.error)
    before = _padded(np.where(known, anchors.n_trials, 0.0), n_new)
    now = placed.n_trials.astype(np.float64)
    n = before + now
    effect = _padded((anchors.ability - scale.centre) / stretch, n_new)
    with np.errstate(divide="ignore", invalid="ignore"):
        effect = (before * effect + np.where(now > 0, now * placed.effect, 0.0)) / n
        of_old, of_new = before / n, now / n
    ability = scale.centre + stretch * effect
    same = np.flatnonzero(now[:n_old] == 0)
    ability[same] = anchors.ability[same]
    if anchors.by_item is not None:
        by_item = _grown_by_item(result, anchors.fpr, anchors.by_item, scale, placed, of_old=of_old, of_new=of_new)
        found = _over_items(by_item, n, n_old)
        if len(same) < n_old:
            alone = ByItem(*(table.copy() for table in by_item))
            for table, old in zip(alone, anchors.by_item, strict=True):
                table[:n_old] = _padded_rows(old, n_old, plan.n_items)
            found = _but_for(
                _over_items(alone, np.append(before[:n_old], n[n_old:]), n_old), found, np.flatnonzero(now[:n_old])
            )
    else:
        by_item, found = None, _beside(anchors.covariance, placed, of_old, of_new, stretch=stretch)
    covariance, freedom = found.covariance.copy(), found.freedom.copy()
    covariance[np.ix_(same, same)] = anchors.covariance.covariance[np.ix_(same, same)]
    freedom[same] = anchors.covariance.freedom[same]
    n_trials = np.where(now > 0, n, _padded(anchors.n_trials.astype(np.float64), n_new))
    return Abilities(
        ability,
        CentredCovariance(covariance, freedom),
        n_trials.astype(np.int32),
        anchors.fpr,
        anchors.ranking,
        f"{anchors.method}; added trials: mean on the scale of the first {n_old} agents, linking error included",
        target,
        by_item,
    )


def _grown_by_item(
    result: Verdicts, fpr: float, of_anchors: ByItem, scale: Scale, placed: Placed, *, of_old: Floats, of_new: Floats
) -> ByItem:
    """What items contribute to all agents, by the shares of an agent's trials in complete slots and beside them."""
    plan, beside = result.plan, added_answers(result)
    added = placed_by_item(
        beside.item,
        beside.agent,
        beside.partner,
        beside.answer - fpr,
        effect=placed.effect,
        scale=scale,
        anchors=_padded_rows(of_anchors.contribution, len(scale.effect), plan.n_items),
    )
    old = [_padded_rows(table, plan.n_agents, plan.n_items) for table in of_anchors]
    shares = np.nan_to_num(of_old)[:, None], np.nan_to_num(of_new)[:, None]
    return ByItem(*(shares[0] * one + shares[1] * other for one, other in zip(old, added, strict=True)))


def _over_items(by_item: ByItem, n: Floats, n_old: int) -> CentredCovariance:
    anchors = np.arange(len(n)) < n_old
    return covariance_over_clusters(*by_item, size=1 / np.maximum(n, 1), anchors=anchors)


def _but_for(one: CentredCovariance, other: CentredCovariance, agents: Positions) -> CentredCovariance:
    """`one`, but `other` for some agents, so that what they were asked more moves nobody else's error."""
    covariance, freedom = one.covariance.copy(), one.freedom.copy()
    covariance[agents], covariance[:, agents] = other.covariance[agents], other.covariance[:, agents]
    freedom[agents] = other.freedom[agents]
    return CentredCovariance(covariance, freedom)


def _beside(
    old: CentredCovariance, placed: Placed, of_old: Floats, of_new: Floats, *, stretch: float
) -> CentredCovariance:
    """Added trials vary by themselves: what they share with those in complete slots, and with each other, is left out."""
    n_old, K = len(old.freedom), len(of_old)
    covariance, freedom = np.zeros((K, K)), placed.n_slots - 1.0
    covariance[:n_old, :n_old] = np.nan_to_num(old.covariance) * of_old[:n_old, None] * of_old[:n_old]
    own = np.where(placed.n_trials > 0, placed.variance, 0.0)
    covariance[np.diag_indices(K)] += stretch**2 * of_new**2 * own
    freedom[:n_old] = np.where(of_new[:n_old] > 0, placed.n_slots[:n_old], 0) + np.nan_to_num(
        old.freedom - PRIOR_CLUSTERS
    )
    unknown = np.isnan(np.diag(covariance))
    covariance[unknown] = covariance[:, unknown] = np.nan
    return CentredCovariance(covariance, np.where(unknown, np.nan, freedom + PRIOR_CLUSTERS))


def _padded(column: Floats, n: int) -> Floats:
    """With 0 where nothing is known, and n more of them."""
    padded: Floats = np.zeros(len(column) + n)
    padded[: len(column)] = np.nan_to_num(column, posinf=np.inf)
    return padded


def _padded_rows(table: Floats, n_agents: int, n_items: int) -> Floats:
    """With 0 for the agents and items that it does not have."""
    padded: Floats = np.zeros((n_agents, n_items))
    padded[: table.shape[0], : table.shape[1]] = table
    return padded


def anchors_of(result: Verdicts, *, target: Target = "items-like-these") -> Abilities:
    """Abilities of the first plan's agents: from complete slots, or from the fit where cells rank.

    They are on the level of the first plan's items: items that joined later do not move it.
    """
    part, n_items = complete_part(result), extensions_of(result.plan).items
    found = abilities_of(part, target=target)
    if found is None:
        return _fitted(part, n_items, target)
    first_items = (part.plan.arm == PAIRED) & part.answered & (part.plan.item < n_items)
    if part.plan.n_items == n_items or not first_items.any():
        return found
    level = float(part.answer[first_items].mean()) - found.fpr
    return found._replace(ability=found.ability + (level - float(np.nanmean(found.ability))))


def cell_abilities(
    model: ClippedLinear, scores: Scores, *, fpr: float | None, target: Target = "items-like-these"
) -> Abilities:
    """Abilities where cells rank, from `model` fitted to `scores`. fpr: the rate that was taken off them, None where unknown.

    On these items: the covariance over items × 1 − T_i/(PJ + 1), T_i answered trials of i, P = 2(K−1).
    """
    n_trials, share = scores.weight.sum(axis=1), scores.weight.copy()
    share /= np.maximum(n_trials, np.finfo(np.float64).tiny)[:, None]
    found, method = model.centred_covariance, "additive fit, residuals by item, HC2, shrunk variances, Student t"
    if target == "these-items":
        n_agents, n_items = scores.value.shape
        found = found.scaled(np.maximum(0.0, 1 - n_trials / (2 * (n_agents - 1) * n_items + 1)))
        method += ", finite population"
    by_item = ByItem(np.nan_to_num(model.residual_) * share, share) if target == "items-like-these" else None
    return Abilities(model.ability_, found, n_trials.astype(np.int32), fpr or 0.0, CELLS, method, target, by_item)


def _fitted(part: Verdicts, n_items: int, target: Target) -> Abilities:
    rates = tally(part)
    scores = train_scores(rates, part.plan.split)
    model = ClippedLinear().fit(scores)
    found = cell_abilities(model, scores, fpr=pooled_fpr(rates), target=target)
    if part.plan.n_items == n_items:
        return found
    return found._replace(ability=found.ability - float(np.nanmean(model.difficulty_[:n_items])))


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
        error=anchors.covariance.error,
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
