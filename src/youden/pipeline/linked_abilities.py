"""Abilities of an extended run: its first agents are the anchors, whose scale all others stand on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import takewhile

import numpy as np

from youden.engines.trial_blocks import ItemBlock, TrialsByItem
from youden.pipeline.abilities import TRIALS, Abilities, ItemMatrices, Look, Search, components_of
from youden.pipeline.interim_analyses import first_look
from youden.protocol.blocks import after_steps, complete_part, extensions_of, in_complete_part
from youden.stats.base.clusters import PRIOR_CLUSTERS, Blocks, CentredCovariance, PairBlock, covariance_of_blocks
from youden.stats.trials.anchored import (
    AddedBlock,
    AddedBlocks,
    Placed,
    Scale,
    placed_by_item,
    stretch_of,
)
from youden.types.pool import Bools, Floats, Positions
from youden.types.trials import PLACING, PLAN


def first_part(trials: TrialsByItem) -> TrialsByItem:
    """The complete slots of the first plan's agents."""
    n_old = extensions_of(trials.plan).anchors
    return trials.part(complete_part(trials.plan), lambda some: in_complete_part(some, n_old))


def on_first_items(found: Abilities, part: TrialsByItem, n_items: int) -> Abilities:
    """Abilities on the level of the first plan's items: items that joined later do not move it."""
    if part.plan.n_items == n_items:
        return found
    n, total = 0, 0.0
    for block in part.answers():
        first = block.answer[block.start + block.item < n_items]
        n, total = n + len(first), total + float(first.sum())
    shift = total / n - found.fpr - float(np.nanmean(found.ability)) if n else 0.0
    return found._replace(ability=found.ability + shift)


def extended_abilities(trials: TrialsByItem, anchors: Abilities) -> Abilities:
    """The first plan's agents are ranked as if nothing else had been asked.

    Agents that joined, and those that further calls were spent on, are placed on the scale of the first ones.
    """
    plan, extensions = trials.plan, extensions_of(trials.plan)
    scale = scale_from(trials, anchors)
    placed = place_added(trials, anchors, scale)
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
    if (of_anchors := anchors.by_item) is not None:
        added = placed_by_item(
            added_answers(trials, less=anchors.fpr),
            placed,
            scale=scale,
            anchors=lambda items: of_anchors.matrices(items, n_old).contribution,
        )
        shares = np.nan_to_num(of_old)[:, None], np.nan_to_num(of_new)[:, None]

        def moves(*, of_joined: bool) -> Iterator[ItemMatrices]:
            """What items contribute, by the shares of an agent's trials in complete slots and beside them; of_joined: of agents
            that joined alone, of the others what complete slots say."""
            for items, contribution, share in added():
                old = of_anchors.matrices(items, plan.n_agents)
                both = [
                    shares[0] * one + shares[1] * other for one, other in zip(old, (contribution, share), strict=True)
                ]
                if of_joined:
                    for one, first in zip(both, old, strict=True):
                        one[:n_old] = first[:n_old]
                yield ItemMatrices(*both)

        found = _over_items(partial(moves, of_joined=False), n, n_old)
        if len(same) < n_old:
            alone = _over_items(partial(moves, of_joined=True), np.append(before[:n_old], n[n_old:]), n_old)
            found = _but_for(alone, found, np.flatnonzero(now[:n_old]))
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
        components_of(trials),
    )


def searched_on(trials: TrialsByItem, anchors: Abilities) -> Abilities:
    """Abilities of an extended run, with the looks of the search that its last steps are.

    Without a bound that is asked for there is one look, at the end; else one before the first step of the search, and one after
    each. Steps go on with a search as long as they look for as many.
    """
    found, steps = extended_abilities(trials, anchors), extensions_of(trials.plan).steps
    if (top := steps[-1].top) is None:
        return found
    goals = [step.within for step in takewhile(lambda step: step.top == top and step.within, reversed(steps))]
    looks: list[Look] = []
    for within, n in zip((*goals[::-1], steps[-1].within), range(len(steps) - len(goals), len(steps) + 1), strict=True):
        one = found
        if n < len(steps):
            one = anchors if n == 0 else extended_abilities(at_step(trials, n), anchors)
        looks.append(first_look(one, top=top, within=within, before=looks))
    return found._replace(search=Search(top, steps[-1].within, tuple(looks)))


def _over_items(moves: Callable[[], Iterator[ItemMatrices]], n: Floats, n_old: int) -> CentredCovariance:
    n_clusters, squares = np.zeros(len(n), dtype=np.int64), np.zeros(len(n))
    for _, share in moves():
        n_clusters += (share > 0).sum(axis=1)
        squares += (share**2).sum(axis=1)
    return covariance_of_blocks(
        moves(),
        n_clusters=n_clusters,
        share_squares=squares,
        size=1 / np.maximum(n, 1),
        anchors=np.arange(len(n)) < n_old,
    )


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


def at_step(trials: TrialsByItem, n: int) -> TrialsByItem:
    """The run as it was after its first `n` extensions."""
    return trials.part(after_steps(trials.plan, n), lambda some: some["step"] <= n)


Rows = Callable[[ItemBlock], Bools]
"""Which trials of a block: bool[T]."""


def scale_from(trials: TrialsByItem, anchors: Abilities, *, rows: Rows | None = None) -> Scale:
    """The anchors' scale from their own answers in complete slots, those among `rows`."""
    return Scale(
        answers_of_anchors(trials, less=anchors.fpr, rows=rows),
        ability=anchors.ability,
        error=anchors.covariance.error,
        n_items=trials.plan.n_items,
    )


def place_added(trials: TrialsByItem, anchors: Abilities, scale: Scale, *, rows: Rows | None = None) -> Placed:
    """Where answers outside complete slots, those among `rows`, put the agents that they count for."""
    return Placed(
        added_answers(trials, less=anchors.fpr, rows=rows),
        scale=scale,
        n_agents=trials.plan.n_agents,
        finite=anchors.ranking == TRIALS,
    )


def answers_of_anchors(trials: TrialsByItem, *, less: float, rows: Rows | None = None) -> Blocks:
    """Answers, `less` a rate, that compare two of the first plan's agents in complete slots, those among `rows`."""
    n_old = extensions_of(trials.plan).anchors

    def blocks() -> Iterator[PairBlock]:
        for block in trials.answers():
            own = (block.role == PLAN) & (block.first < n_old) & (block.second < n_old)
            own = block.where(own if rows is None else own & rows(block))
            yield own.pairs(less=less, slots=not (own.slot < 0).any())

    return blocks


def added_answers(trials: TrialsByItem, *, less: float, rows: Rows | None = None) -> AddedBlocks:
    """Answers, `less` a rate, outside complete slots, those among `rows`, each with an anchor as the partner."""
    n_old = extensions_of(trials.plan).anchors

    def blocks() -> Iterator[AddedBlock]:
        for block in trials.answers():
            beside = block.role == PLACING if rows is None else (block.role == PLACING) & rows(block)
            one = beside & block.tells_first & (block.second < n_old)
            other = beside & block.tells_second & (block.first < n_old)
            yield AddedBlock(
                np.append(block.item[one], block.item[other]),
                np.append(block.first[one], block.second[other]),
                np.append(block.second[one], block.first[other]),
                np.append(block.slot[one], block.slot[other]),
                np.append(block.answer[one], block.answer[other]) - less,
                block.n_items,
            )

    return blocks
