"""Looks at a search for the best agents: how sure it is after each round, less the luck of who was asked more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from youden.engines.trial_blocks import TrialsByItem
from youden.pipeline.abilities import LEVEL, MOST, Abilities, Aim, Look, Search, components_of
from youden.pipeline.additive_abilities import AT_ONCE, abilities_of_fit
from youden.protocol.designs.adaptive import adaptive_of
from youden.stats.additive.trial_fit import trial_fit
from youden.stats.base.clusters import PairBlock
from youden.stats.trials.best_selection import comparable, luck, upper_ends, wanting
from youden.stats.trials.comparisons import Differences, differences
from youden.types.pool import Bools, Positions

LITTLE, LEAST_SHARE = 0.05, 1e-4
"""What a look has of the error that is left where it is hardly the last one, and at least."""
LUCK = 0.5
"""The share of the expected luck that is taken off. With none, .16 to .36 standard errors of bias were left on four domains;
with all, as much the other way, for who stands out was not lucky."""
NEARLY = 0.999
"""A search that has spent so much of its budget has spent it."""


def of_search(trials: TrialsByItem, aim: Aim) -> Abilities | None:
    """Abilities of an adaptive plan, less the pooled FPR, by `trial_fit` with a level for each slot; None where it gives None.

    What a round asks tells contenders apart on the same item and partner. Against everybody else they are measured by slots
    that all share: pairs of contenders need not answer what abilities add up to. The level is that of the pilot.
    Who was asked more had been lucky in what came before. Against everybody else that luck stays in, so `LUCK` of what is
    expected of it (`luck`) is taken off, but never so much that others are named. What is said of those named is by differences
    among them, which later rounds measure anew.
    """
    plan, design, rate = trials.plan, adaptive_of(trials.plan), trials.apart.rate or 0.0
    looks = [] if aim.before is None else list(aim.before.looks)
    pilot = np.zeros(2)
    for block in trials.answers():
        first = block.answer[(block.slot >= 0) & (block.step == 0)]
        pilot += len(first), first.sum()
    level = float(pilot[1] / pilot[0]) - rate
    component, (n_asked, told_of) = components_of(trials), _rounds_of(trials)
    n_looks = len(n_asked)
    for last in range(min(len(looks), n_looks - 1), n_looks):
        found = trial_fit(partial(_by_slots, trials, last, rate), n_agents=plan.n_agents, n_items=plan.n_items)
        if found is None:
            return None
        made = abilities_of_fit(found, level, rate, aim.target, component=component, with_items=True)
        told = differences(made.ability, made.covariance, level=LEVEL)
        come = min(1.0, int(n_asked[: last + 1].sum()) / design.budget(plan.split.train))
        looks[last:] = [_look(told, looks[:last], top=design.top, within=design.within, turn=told_of[last], come=come)]
    search = Search(design.top, design.within, tuple(looks))
    lucky = LUCK * (looks[-1].carried - looks[-1].carried.mean())
    order = np.argsort(-made.ability, kind="stable")
    gap, less = (np.subtract.outer(of[order[: design.top]], of[order[design.top :]]) for of in (made.ability, lucky))
    lucky *= min(1.0, NEARLY * float(np.min(gap / np.where(less > 0, less, 1.0), where=less > 0, initial=np.inf)))
    return made._replace(
        search=search,
        ability=np.clip(made.ability - lucky, -1, 1),
        method=made.method if len(looks) == 1 else f"{made.method}, less the luck of who was asked more",
    )


def _rounds_of(trials: TrialsByItem) -> tuple[Positions, Bools]:
    """Of each round: its paired trials in slots, int64[R], and which agents they tell of, bool[R, K]."""
    n = 1 + max(int(block.step[block.slot >= 0].max(initial=-1)) for block in trials.asked())
    n_asked, told_of = np.zeros(n, dtype=np.int64), np.zeros((n, trials.plan.n_agents), dtype=np.bool_)
    for block in trials.asked():
        part = block.where(block.slot >= 0)
        n_asked += np.bincount(part.step, minlength=n)
        for agent, tells in ((part.first, part.tells_first), (part.second, part.tells_second)):
            told_of[part.step[tells], agent[tells]] = True
    return n_asked, told_of


def _by_slots(trials: TrialsByItem, last: int, rate: float) -> Iterator[PairBlock]:
    """Answers of the rounds until `last`, less a rate, with a level for each slot."""
    for block in trials.answers():
        part = block.where((block.slot >= 0) & (block.step <= last))
        n_slots = int((np.bincount(part.slot) > 0).sum())
        for few in part.cut(1 + trials.plan.n_agents * n_slots // AT_ONCE):
            yield few.pairs(less=rate, slots=True, told=True)


def _look(
    told: Differences, before: Sequence[Look], *, top: int, within: float | None, turn: Bools, come: float
) -> Look:
    """A look after a round, and how much of the error that all looks may have together the next one has.

    In a search until its budget is spent, what the share of that has grown by (Lan and DeMets (1983), Biometrika 70); in one
    until a bound is there, most of what is left where the next round is expected to bring it, little of it before.
    turn: bool[K], whose turn the round was; come: the share of the budget that is spent.
    """
    carried = before[-1].carried if before else np.zeros(len(turn))
    if before and turn.any():
        carried = carried + np.where(turn, before[-1].luck[turn].mean(), 0.0)
    spent, lowest = (before[-1].spent, before[-1].end) if before else (0.0, np.full(told.error.shape, np.inf))
    share = before[-1].next_share if before else LITTLE
    if within is None or come > NEARLY:
        share = come - spent
    share = max(share, LEAST_SHARE)
    if not comparable(told):
        return Look(spent, share, share, lowest, np.zeros(len(turn)), carried)
    lowest = np.minimum(lowest, upper_ends(told, top=top, share=share))
    spent, left = spent + share, max(1 - spent - share, LEAST_SHARE)
    next_share = MOST * left
    if within is not None and not wanting(told, lowest, top=top, share=next_share, goal=within)[2]:
        next_share = LITTLE * left
    return Look(spent, share, next_share, lowest, luck(told, turn), carried)


def first_look(found: Abilities, *, top: int, within: float | None, before: Sequence[Look] = ()) -> Look:
    """The look at an extended run with which a search for the `top` best begins, or after those `before`."""
    told = differences(found.ability, found.covariance, level=LEVEL)
    nobody = np.zeros(len(found.ability), dtype=np.bool_)
    return _look(told, before, top=top, within=within, turn=nobody, come=0.0 if within else 1.0)
