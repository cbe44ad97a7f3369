"""Which of a plan's trials came when: blocks of an extension, follow-ups, the next round.

Which slots of an extended plan compare everybody, and which only place some agents against those of the first plan.

Trials of suspected pairs behind a plan's own: they tell who is linked, and count for nothing else.

Adds a round's trials to an adaptive plan that was judged so far.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from youden.nouns import INDEPENDENT, PAIRED, Block, Extensions, Plan, Pool, Rounds, Trials, Verdicts
from youden.nouns.pool import Bools
from youden.protocol.independent import with_more

T = TypeVar("T", bound=np.generic)


def extensions_of(plan: Plan) -> Extensions:
    """How `plan` was extended; of a plan that was not, no steps and one block."""
    return plan.extensions or Extensions(plan.n_agents, plan.n_items, plan.pool_digest, (), (Block(0, 0, None),))


def first_in_slots(plan: Plan) -> bool:
    """Whether the first plan's paired trials stand in slots."""
    steps = extensions_of(plan).steps
    first = np.arange(len(plan)) < (steps[0].row if steps else len(plan))
    return bool((plan.slot[first & (plan.arm == PAIRED)] >= 0).any())


class Sides(NamedTuple):
    """Of every row, bool[N] each: whether it counts for its first, for its second agent, and whether its slot is complete.

    An independent row counts as complete unless its step asked no complete slots.
    """

    first: Bools
    second: Bools
    complete: Bools


def scored_sides(plan: Plan) -> Sides:
    """Whom the trials of `plan` count for: both agents, but where a block says otherwise."""
    n = len(plan)
    sides = Sides(*(np.ones(n, dtype=np.bool_) for _ in range(3)))
    blocks = extensions_of(plan).blocks
    ends = [block.start for block in blocks[1:]] + [int(plan.slot.max(initial=-1)) + 1]
    for block, end in zip(blocks, ends, strict=True):
        if block.scored is not None:
            rows = (plan.slot >= block.start) & (plan.slot < end)
            sides.first[rows] = np.isin(plan.first[rows], block.scored)
            sides.second[rows] = np.isin(plan.second[rows], block.scored)
            sides.complete[rows] = False
    for row, following in pairwise([*(step.row for step in extensions_of(plan).steps), n]):
        step = slice(row, following)
        apart = plan.arm[step] == INDEPENDENT
        if not (sides.complete[step] & ~apart).any():
            sides.complete[step] = False
    return sides


def complete_part(result: Verdicts) -> Verdicts:
    """The answers that rank the first plan's agents whatever was asked since: those in complete slots, on all items.

    The plan they are to was never extended, but may have more items than the first one. Independent answers count where neither
    agent joined later.
    """
    plan, extensions = result.plan, extensions_of(result.plan)
    old = (plan.first < extensions.anchors) & (plan.second < extensions.anchors)
    rows = old & scored_sides(plan).complete
    part = replace(_on_fewer(plan, extensions.anchors, plan.n_items), trials=plan.trials.take(rows), extensions=None)
    return answers_to(part, result, rows)


def before_last_extension(result: Verdicts) -> Verdicts:
    """The answers as they were before the plan was extended last."""
    earlier = after_steps(result.plan, len(extensions_of(result.plan).steps) - 1)
    return answers_to(earlier, result, np.arange(len(result.plan)) < len(earlier))


def after_steps(plan: Plan, n: int) -> Plan:
    """The plan as it was after its first `n` steps; `characters` stays what it is."""
    extensions = extensions_of(plan)
    if n >= len(extensions.steps):
        return plan
    trials = plan.trials.take(slice(extensions.steps[n].row))
    n_slots = int(trials.slot.max(initial=-1)) + 1
    blocks = tuple(block for block in extensions.blocks if block.start < max(n_slots, 1))
    agents, items, pool = extensions.anchors, extensions.items, extensions.pool
    if n:
        last = extensions.steps[n - 1]
        agents, items, pool = last.agents, last.items, last.pool
    return replace(
        _on_fewer(plan, agents, items),
        trials=trials,
        extensions=replace(extensions, steps=extensions.steps[:n], blocks=blocks) if n else None,
        pool_digest=pool,
        notes=plan.notes[: len(plan.notes) - (len(extensions.steps) - n)],
    )


def _on_fewer(plan: Plan, n_agents: int, n_items: int) -> Plan:
    """The plan with the first agents and items alone; its trials have to speak of no other."""
    train, holdout = (cells[:n_agents, :n_items] for cells in (plan.split.train, plan.split.holdout))
    return replace(
        plan,
        n_agents=n_agents,
        n_items=n_items,
        agent_ids=plan.agent_ids[:n_agents],
        item_ids=plan.item_ids[:n_items],
        split=replace(plan.split, train=train, holdout=holdout),
    )


def answers_to(plan: Plan, result: Verdicts, rows: Bools | slice) -> Verdicts:
    """The answers of some rows, whose plan is `plan`."""
    return replace(
        result,
        plan=plan,
        answer=result.answer[rows],
        hard=result.hard[rows],
        missing=result.missing[rows],
        key=_rows(result.key, rows),
        tokens_in=_rows(result.tokens_in, rows),
        tokens_out=_rows(result.tokens_out, rows),
        usd=_rows(result.usd, rows),
        seconds=_rows(result.seconds, rows),
        served=_rows(result.served, rows),
    )


def _rows(column: NDArray[T] | None, rows: Bools | slice) -> NDArray[T] | None:
    return None if column is None else column[rows]


def plan_without_follow_ups(plan: Plan) -> Plan:
    """The plan as it was before suspected pairs were asked more; `characters` stays what it is."""
    if not plan.n_follow_ups:
        return plan
    return replace(plan, trials=plan.trials.take(slice(len(plan) - plan.n_follow_ups)), n_follow_ups=0)


def without_follow_ups(result: Verdicts) -> Verdicts:
    """The answers to that plan."""
    plan = plan_without_follow_ups(result.plan)
    if plan is result.plan:
        return result
    return answers_to(plan, result, slice(len(plan)))


def with_round(plan: Plan, pool: Pool, rounds: Rounds, trials: Trials, *, active: Bools) -> Plan:
    """`plan` with a round's paired trials after its own, which keep their places. rounds: those so far.

    The trials must be new: their slots come after the plan's.
    """
    return replace(with_more(plan, pool, trials), rounds=rounds.then(int(trials.slot.min()), active))
