"""Abilities of an extended run: its first agents are the anchors, whose scale all others stand on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from youden.nouns import PAIRED, PLACING, PLAN, Plan, Verdicts
from youden.nouns.pool import Bools, Floats, Ids, Positions
from youden.protocol.blocks import extensions_of
from youden.run.ability import TRIALS, Abilities, ItemMatrices
from youden.stats.base.clusters import PRIOR_CLUSTERS, CentredCovariance, covariance_over_clusters
from youden.stats.trials.anchored import Placed, Scale, place, placed_by_item, scale_of, stretch_of


def extended_abilities(result: Verdicts, anchors: Abilities) -> Abilities:
    """The first plan's agents are ranked as if nothing else had been asked.

    Agents that joined, and those that further calls were spent on, are placed on the scale of the first ones.
    """
    plan, extensions = result.plan, extensions_of(result.plan)
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
        old = anchors.by_item.matrices(plan.n_agents, plan.n_items)
        by_item = _by_item(result, anchors.fpr, old, scale, placed, of_old=of_old, of_new=of_new)
        found = _over_items(by_item, n, n_old)
        if len(same) < n_old:
            joined = (np.arange(plan.n_agents) >= n_old)[:, None]
            alone = ItemMatrices(*(np.where(joined, one, other) for one, other in zip(by_item, old, strict=True)))
            found = _but_for(
                _over_items(alone, np.append(before[:n_old], n[n_old:]), n_old), found, np.flatnonzero(now[:n_old])
            )
    else:
        found = _beside(anchors.covariance, placed, of_old, of_new, stretch=stretch)
    covariance, freedom = found.covariance.copy(), found.freedom.copy()
    covariance[np.ix_(same, same)] = anchors.covariance.covariance[np.ix_(same, same)]
    freedom[same] = anchors.covariance.freedom[same]
    n_trials = np.where(now > 0, n, _padded(anchors.n_trials.astype(np.float64), n_new))
    return Abilities(
        np.clip(ability, -1, 1),
        CentredCovariance(covariance, freedom),
        n_trials.astype(np.int32),
        anchors.fpr,
        anchors.ranking,
        f"{anchors.method}; added trials: mean on the scale of the first {n_old} agents, linking error included",
        anchors.target,
    )


def _by_item(
    result: Verdicts,
    fpr: float,
    of_anchors: ItemMatrices,
    scale: Scale,
    placed: Placed,
    *,
    of_old: Floats,
    of_new: Floats,
) -> ItemMatrices:
    """What items contribute to all agents, by the shares of an agent's trials in complete slots and beside them."""
    beside = added_answers(result)
    added = placed_by_item(
        beside.item,
        beside.agent,
        beside.partner,
        beside.answer - fpr,
        effect=placed.effect,
        scale=scale,
        anchors=of_anchors.contribution[: len(scale.effect)],
    )
    shares = np.nan_to_num(of_old)[:, None], np.nan_to_num(of_new)[:, None]
    return ItemMatrices(*(shares[0] * one + shares[1] * other for one, other in zip(of_anchors, added, strict=True)))


def _over_items(by_item: ItemMatrices, n: Floats, n_old: int) -> CentredCovariance:
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
    plan, n_old = result.plan, extensions_of(result.plan).anchors
    beside, counts = learned_from(result, rows) & (plan.role == PLACING), plan.trials
    one = beside & (counts.weight_first > 0) & (plan.second < n_old)
    other = beside & (counts.weight_second > 0) & (plan.first < n_old)
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
    return np.asarray((plan.role == PLAN) & (plan.first < n_old) & (plan.second < n_old))
