"""Slots over calls rather than cells: each slot takes one item and one shift, and every agent stands once first, once second.

It knows the order of agents, items and shifts; it refuses to know anything of texts or answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import ClassVar

import numpy as np

from youden.errors import PlanError
from youden.protocol.designs.checks import PairRule, check_pairs
from youden.types import IndependentRule, PairedTrials
from youden.types.arrays import Bools, Ids

MIN_SLOTS = 2


@dataclass(frozen=True)
class Cyclic:
    """Slot s: item number s mod J, shift number (s + ⌊s/lcm(J, K−1)⌋) mod (K−1), pairs (π[q], π[(q+d) mod K]) for all q.

    π is one random order of agents for the whole run; items and shifts stand in random orders too. Where only m of the K agents
    are eligible on an item, the slot cycles over those m in the order π; a shift d ≥ m is replaced by the next one in the
    shift order that fits, and no (item, shift) is used twice. Slots are drawn while the next fits the budget.
    pairs: with `unordered` no pair is asked in both orders: of the shifts d and m − d an item gets one, and never d = m/2.

    Raises: PlanError [budget-cyclic] for a budget under two slots, [few-agents], [few-items].
    """

    n_paired: int | None = None
    pairs: PairRule = "ordered"
    name: ClassVar[str] = "cyclic"
    holdout: ClassVar[float] = 0.0
    percent: ClassVar[float | None] = 2.0
    judges_holdout: ClassVar[bool] = False
    independent: ClassVar[IndependentRule] = "pooled"
    options: ClassVar[tuple[str, ...]] = ("pairs",)

    def __post_init__(self) -> None:
        check_pairs(self.pairs)

    def draw(self, eligible: Bools, rng: np.random.Generator) -> PairedTrials:
        """Slots in order; within a slot, by q."""
        n_agents, n_items = eligible.shape
        order = rng.permutation(n_agents)
        items = rng.permutation(n_items)
        shifts = rng.permutation(np.arange(1, n_agents))
        budget = n_agents * (n_agents - 1) * n_items if self.n_paired is None else self.n_paired
        on_item = [order[eligible[order, j]] for j in range(n_items)]
        if max((len(agents) for agents in on_item), default=0) < 2:
            raise PlanError(
                "No item has responses of two agents that may be compared. "
                "Check the ids, or lower the holdout, until agents share items.",
                slug="nothing-shared",
            )
        used: list[set[float]] = [set() for _ in range(n_items)]
        left = sum(max(len(agents) - 1, 0) for agents in on_item)
        if self.pairs == "unordered":
            used = [{len(agents) / 2} & {len(agents) // 2} for agents in on_item]
            left = sum(max(len(agents) - 1, 0) // 2 for agents in on_item)
        period = lcm(n_items, n_agents - 1)
        rows: list[tuple[Ids, Ids, int]] = []
        spent = 0
        s = 0
        while left:
            j = int(items[s % n_items])
            start = (s + s // period) % (n_agents - 1)
            s += 1
            agents = on_item[j]
            fitting = (int(d) for d in np.roll(shifts, -start) if d < len(agents) and int(d) not in used[j])
            shift = next(fitting, None)
            if shift is None:
                continue
            if spent + len(agents) > budget:
                break
            used[j] |= {shift} if self.pairs == "ordered" else {shift, len(agents) - shift}
            left -= 1
            spent += len(agents)
            rows.append((agents.astype(np.int32), np.roll(agents, -shift).astype(np.int32), j))
        if len(rows) < MIN_SLOTS:
            least = int(sum(sorted((len(agents) for agents in on_item if len(agents) > 1), reverse=True)[:MIN_SLOTS]))
            raise PlanError(
                f"The budget leaves {budget} paired calls, fewer than the {max(least, 2 * n_agents)} of two cyclic slots, "
                "the least that gives an interval. Raise calls or percent, or lower n_independent.",
                slug="budget-cyclic",
            )
        return PairedTrials(
            item=np.concatenate([np.full(len(first), j, dtype=np.int32) for first, _, j in rows]),
            first=np.concatenate([first for first, _, _ in rows]),
            second=np.concatenate([second for _, second, _ in rows]),
            slot=np.repeat(np.arange(len(rows), dtype=np.int32), [len(first) for first, _, _ in rows]),
        )
