"""How a plan grew: which of its slots compare everybody, and which only place some agents against those of the first plan.

It knows rows, slots and whom they count for; it refuses to know why the plan grew and what was answered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from youden.nouns import INDEPENDENT, PAIRED, Json, Plan, Verdicts
from youden.nouns.arrays import Bools
from youden.protocol.columns import columns_at

T = TypeVar("T", bound=np.generic)

_GROWN = "grown"
StepKind = Literal["agents", "items", "calls"]


@dataclass(frozen=True)
class Step:
    """One extension. row: its first row in the plan; agents, items: how many the pool has from then on; pool: its digest."""

    kind: StepKind
    row: int
    agents: int
    items: int
    pool: str


@dataclass(frozen=True)
class Block:
    """Slots from `start` on, drawn in one go.

    items: which set of items, 0 those of the first plan, then one for every step that added some. scored: whom the trials count
    for, None for everybody in them (complete slots).
    """

    start: int
    items: int
    scored: tuple[int, ...] | None


@dataclass(frozen=True)
class Growth:
    """anchors, items: agents and items of the first plan, which stand first; pool: its digest."""

    anchors: int
    items: int
    pool: str
    steps: tuple[Step, ...]
    blocks: tuple[Block, ...]

    @property
    def item_sets(self) -> list[range]:
        """Items of the first plan, then of every step that added some."""
        ends = [self.items, *(step.items for step in self.steps)]
        return [range(self.items), *(range(a, b) for a, b in pairwise(ends) if b > a)]

    @property
    def joined(self) -> list[tuple[int, ...]]:
        """Agents of every step that added some."""
        ends = [self.anchors, *(step.agents for step in self.steps)]
        return [tuple(range(a, b)) for a, b in pairwise(ends) if b > a]

    def options(self) -> dict[str, Json]:
        """What a plan's options keep of it."""
        said: dict[str, Json] = TypeAdapter(Growth).dump_python(self, mode="json")
        return {_GROWN: said}


def growth_of(plan: Plan) -> Growth:
    """How `plan` grew; of a plan that did not, no steps and one block."""
    said = plan.options.get(_GROWN)
    if said is None:
        return Growth(plan.n_agents, plan.n_items, plan.pool_digest, (), (Block(0, 0, None),))
    return TypeAdapter(Growth).validate_python(said)


def first_in_slots(plan: Plan) -> bool:
    """Whether the first plan's paired trials stand in slots."""
    steps = growth_of(plan).steps
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
    blocks = growth_of(plan).blocks
    ends = [block.start for block in blocks[1:]] + [int(plan.slot.max(initial=-1)) + 1]
    for block, end in zip(blocks, ends, strict=True):
        if block.scored is not None:
            rows = (plan.slot >= block.start) & (plan.slot < end)
            sides.first[rows] = np.isin(plan.first[rows], block.scored)
            sides.second[rows] = np.isin(plan.second[rows], block.scored)
            sides.complete[rows] = False
    for row, following in pairwise([*(step.row for step in growth_of(plan).steps), n]):
        step = slice(row, following)
        apart = plan.arm[step] == INDEPENDENT
        if not (sides.complete[step] & ~apart).any():
            sides.complete[step] = False
    return sides


def complete_part(result: Verdicts) -> Verdicts:
    """The answers among the first plan's agents in complete slots, which rank them whatever else was asked since, as a plan that
    never grew but for items.

    Independent answers count where neither agent joined later.
    """
    plan, growth = result.plan, growth_of(result.plan)
    old = (plan.first < growth.anchors) & (plan.second < growth.anchors)
    return _part(result, old & scored_sides(plan).complete, n_agents=growth.anchors, n_items=plan.n_items)


def before_last_step(result: Verdicts) -> Verdicts:
    """The answers as they were before the plan grew last."""
    plan, growth = result.plan, growth_of(result.plan)
    steps, last = growth.steps[:-1], growth.steps[-1]
    slots = int(plan.slot[: last.row].max(initial=-1)) + 1
    blocks = tuple(block for block in growth.blocks if block.start < max(slots, 1))
    kept = replace(growth, steps=steps, blocks=blocks)
    n_agents, n_items = (steps[-1].agents, steps[-1].items) if steps else (growth.anchors, growth.items)
    part = _part(result, np.arange(len(plan)) < last.row, n_agents=n_agents, n_items=n_items)
    options = {name: value for name, value in plan.options.items() if name != _GROWN}
    return replace(part, plan=replace(part.plan, options=options | (kept.options() if steps else {})))


def grew_from(plan: Plan, earlier: Plan) -> bool:
    """Whether `plan` is `earlier` with steps added."""
    growth = growth_of(plan)
    rows = [*(step.row for step in growth.steps), len(plan)]
    pools = [growth.pool, *(step.pool for step in growth.steps)]
    at = rows.index(len(earlier)) if len(earlier) in rows else -1
    return (
        at >= 0
        and pools[at] == earlier.pool_digest
        and all(
            np.array_equal(now[: len(earlier)], before)
            for now, before in zip(plan.columns().values(), earlier.columns().values(), strict=True)
        )
    )


def _part(result: Verdicts, rows: Bools, *, n_agents: int, n_items: int) -> Verdicts:
    """Some rows, which speak of the first agents and items alone."""
    plan, split = result.plan, result.plan.split
    smaller = replace(
        plan,
        **columns_at(plan, rows),
        arm=plan.arm[rows],
        n_agents=n_agents,
        n_items=n_items,
        agent_ids=plan.agent_ids[:n_agents],
        item_ids=plan.item_ids[:n_items],
        options={name: value for name, value in plan.options.items() if name != _GROWN},
        split=replace(split, train=split.train[:n_agents, :n_items], holdout=split.holdout[:n_agents, :n_items]),
    )
    return replace(
        result,
        plan=smaller,
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


def _rows(column: NDArray[T] | None, rows: Bools) -> NDArray[T] | None:
    return None if column is None else column[rows]
