"""Trials as a person looks at them: what kind of surprise each one is, and which to show first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from youden.nouns import INDEPENDENT, MISSING_REASONS, PAIRED, Plan, Verdicts
from youden.nouns.arrays import Bools, Codes, Floats, Positions, freeze

Kind = Literal["independent yes", "judges differ", "answers differ", "no answer", "paired no", "ordinary"]
KINDS: tuple[Kind, ...] = (
    "independent yes",
    "judges differ",
    "answers differ",
    "no answer",
    "paired no",
    "ordinary",
)
"""The most surprising first. A trial is of the first kind that fits it."""

Column = Literal["row", "item", "first", "second", "arm", "answer", "kind"]


@dataclass(frozen=True)
class TrialLine:
    """One trial; agents and items are positions in the plan's ids.

    answer: None where missing, then `missing` says why. against: the other judge's hard answer, None without one.
    """

    row: int
    item: int
    other_item: int | None
    first: int
    second: int
    arm: Literal["paired", "independent"]
    answer: float | None
    hard: bool | None
    missing: str | None
    kind: Kind
    against: float | None


@dataclass(frozen=True, eq=False)
class Chosen:
    """Which trials are asked for; None asks for all.

    agent, item: positions; cells: bool[K, J], of which a trial reads one.
    """

    agent: int | None = None
    item: int | None = None
    arm: str | None = None
    kind: str | None = None
    answer: Literal["yes", "no", "missing"] | None = None
    cells: Bools | None = None


@dataclass(frozen=True, eq=False)
class TrialBook:
    """All trials of a run. against: float[N], another judge's hard answers to the same trials, NaN where it has none."""

    result: Verdicts
    against: Floats | None = None

    def __post_init__(self) -> None:
        freeze([self.against])

    @cached_property
    def kind(self) -> Codes:
        """int8[N], index into KINDS."""
        plan, hard = self.result.plan, self.result.hard
        other = np.full(len(plan), np.nan) if self.against is None else self.against
        tests: dict[Kind, Bools] = {
            "independent yes": (plan.arm == INDEPENDENT) & (hard == 1),
            "judges differ": ~np.isnan(other) & ~np.isnan(hard) & (other != hard),
            "answers differ": answers_differ(self.result),
            "no answer": ~self.result.answered,
            "paired no": (plan.arm == PAIRED) & (hard == 0),
        }
        kinds = np.full(len(plan), KINDS.index("ordinary"), dtype=np.int8)
        for name in reversed(tests):
            kinds[tests[name]] = KINDS.index(name)
        return kinds

    @property
    def n_of_kind(self) -> dict[Kind, int]:
        """How many trials there are of each kind."""
        counts = np.bincount(self.kind, minlength=len(KINDS))
        return {name: int(n) for name, n in zip(KINDS, counts, strict=True)}

    def by_surprise(self, rng: np.random.Generator) -> Positions:
        """All rows, the kinds in the order of KINDS, at random within a kind."""
        shuffled = rng.permutation(len(self.kind))
        return np.asarray(shuffled[np.argsort(self.kind[shuffled], kind="stable")], dtype=np.int64)

    def lines(self, rows: Sequence[int] | Positions) -> list[TrialLine]:
        """These trials, in this order."""
        return [self.line(int(row)) for row in rows]

    def line(self, row: int) -> TrialLine:
        """One trial."""
        plan, result = self.result.plan, self.result
        answered = bool(result.missing[row] == 0)
        independent = bool(plan.arm[row] == INDEPENDENT)
        other = np.nan if self.against is None else float(self.against[row])
        return TrialLine(
            row=row,
            item=int(plan.item[row]),
            other_item=int(plan.other_item[row]) if independent else None,
            first=int(plan.first[row]),
            second=int(plan.second[row]),
            arm="independent" if independent else "paired",
            answer=float(result.answer[row]) if answered else None,
            hard=bool(result.hard[row] == 1) if answered else None,
            missing=None if answered else MISSING_REASONS[result.missing[row]],
            kind=KINDS[self.kind[row]],
            against=None if np.isnan(other) else other,
        )

    def find(self, chosen: Chosen, *, by: Column = "kind", descending: bool = False) -> Positions:
        """Rows that fit `chosen`, sorted by a column; rows with nothing in that column come last."""
        plan, result = self.result.plan, self.result
        keep = np.ones(len(plan), dtype=np.bool_)
        if chosen.agent is not None:
            keep &= (plan.first == chosen.agent) | (plan.second == chosen.agent)
        if chosen.item is not None:
            keep &= (plan.item == chosen.item) | ((plan.arm == INDEPENDENT) & (plan.other_item == chosen.item))
        if chosen.arm is not None:
            keep &= plan.arm == (INDEPENDENT if chosen.arm == "independent" else PAIRED)
        if chosen.kind is not None:
            keep &= self.kind == (KINDS.index(chosen.kind) if chosen.kind in KINDS else -1)
        if chosen.answer is not None:
            wanted = {"yes": result.hard == 1, "no": result.hard == 0, "missing": ~result.answered}
            keep &= wanted[chosen.answer]
        if chosen.cells is not None:
            first, second = cell_keys(plan)
            keep &= chosen.cells.ravel()[first] | chosen.cells.ravel()[second]
        rows = np.flatnonzero(keep)
        value = self._sortable(by)[rows]
        order = np.argsort(-value if descending else value, kind="stable")
        return np.asarray(rows[order], dtype=np.int64)

    def _sortable(self, by: Column) -> Floats:
        plan = self.result.plan
        if by == "answer":
            return self.result.answer
        if by in ("first", "second", "item"):
            names = plan.item_ids if by == "item" else plan.agent_ids
            place = np.argsort(np.argsort(np.array(names, dtype=object), kind="stable"))
            return np.asarray(place[plan.trials.columns()[by]], dtype=np.float64)
        column = {"row": np.arange(len(plan)), "arm": plan.arm, "kind": self.kind}[by]
        return np.asarray(column, dtype=np.float64)


def answers_differ(result: Verdicts) -> Bools:
    """bool[N]: whether the same two texts got a yes and a no, in another order or another time."""
    plan = result.plan
    differ = np.zeros(len(plan), dtype=np.bool_)
    answered = np.flatnonzero(result.answered)
    first, second = cell_keys(plan)
    key = np.stack([np.minimum(first, second), np.maximum(first, second)])[:, answered]
    pairs, place = np.unique(key[0] * (plan.n_agents * plan.n_items) + key[1], return_inverse=True)
    yes = np.bincount(place, weights=result.hard[answered], minlength=len(pairs))
    n = np.bincount(place, minlength=len(pairs))
    differ[answered] = ((yes > 0) & (yes < n))[place]
    return differ


def same_trials(plan: Plan, other: Plan) -> Positions:
    """int64[N]: the row of `other` that asks what each row of `plan` asks (agents, items, arm, replicate), −1 for none."""
    agent = {name: k for k, name in enumerate(plan.agent_ids)}
    item = {name: k for k, name in enumerate(plan.item_ids)}
    mine = _asked(plan, np.arange(plan.n_agents), np.arange(plan.n_items))
    theirs = _asked(
        other,
        np.array([agent.get(name, -1) for name in other.agent_ids], dtype=np.int64),
        np.array([item.get(name, -1) for name in other.item_ids], dtype=np.int64),
    )
    _, place = np.unique(np.concatenate([mine, theirs]), axis=0, return_inverse=True)
    found = np.full(int(place.max(initial=-1)) + 1, -1, dtype=np.int64)
    known = (theirs[:, :3] >= 0).all(axis=1)
    found[place[len(mine) :][known]] = np.flatnonzero(known)
    return np.asarray(found[place[: len(mine)]])


def _asked(plan: Plan, agent: Positions, item: Positions) -> Positions:
    other = np.where(plan.other_item >= 0, item[np.maximum(plan.other_item, 0)], -1)
    columns = [agent[plan.first], agent[plan.second], item[plan.item], other, plan.arm, plan.replicate]
    return np.stack(columns, axis=1).astype(np.int64)


def cell_keys(plan: Plan) -> tuple[Positions, Positions]:
    """int64[N] each: the cell of the first and of the second text, agent × J + item."""
    other = np.where(plan.arm == INDEPENDENT, plan.other_item, plan.item)
    J = np.int64(plan.n_items)
    return plan.first * J + plan.item, plan.second * J + other
