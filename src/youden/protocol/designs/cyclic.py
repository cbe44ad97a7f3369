"""Designs over trials: cyclic, whose slots compare every agent twice, and dense, which asks every ordered pair on every item.

A slot takes one item and one shift, and every agent stands once first, once second. Dense is what all other designs are measured
against; it spends no budget and only says where it does not fit one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import lcm
from typing import ClassVar, NamedTuple

import numpy as np

from youden.errors import PlanError
from youden.protocol.designs.repair import PairRule, check_pairs, compare, n_comparisons
from youden.types import Drawn, Trials
from youden.types.planning import IndependentRule
from youden.types.pool import Bools, Ids

MIN_SLOTS = 2


@dataclass(frozen=True)
class OverTrials:
    """What designs share, where they do not say otherwise. n_paired: paired calls at most, None for all there are; pairs: whether
    a pair is asked in both orders."""

    n_paired: int | None = None
    pairs: PairRule = "ordered"
    holdout: ClassVar[float] = 0.0
    default_trials_per_agent: ClassVar[float | None] = None
    judges_holdout: ClassVar[bool] = False
    independent: ClassVar[IndependentRule] = "pooled"

    def __post_init__(self) -> None:
        check_pairs(self.pairs)


@dataclass(frozen=True)
class Cyclic(OverTrials):
    """Slot s: item number s mod J, shift number (s + ⌊s/lcm(J, K−1)⌋) mod (K−1), pairs (π[q], π[(q+d) mod K]) for all q.

    π is one random order of agents for the whole run; items and shifts stand in random orders too. Where only m of the K agents
    are eligible on an item, the slot cycles over those m in the order π; a shift d ≥ m is replaced by the next one in the
    shift order that fits, and no (item, shift) is used twice. Slots are drawn while the next fits the budget.
    pairs: with `unordered` no pair is asked in both orders: of the shifts d and m − d an item gets one, and never d = m/2.

    Raises: PlanError [budget-cyclic] for a budget under two slots, [few-agents], [few-items].
    """

    name: ClassVar[str] = "cyclic"
    default_trials_per_agent: ClassVar[float | None] = 450
    options: ClassVar[tuple[str, ...]] = ("pairs",)

    def draw(self, eligible: Bools, rng: np.random.Generator) -> Drawn:
        """Slots in order; within a slot, by q."""
        n_agents, n_items = eligible.shape
        budget = n_agents * (n_agents - 1) * n_items if self.n_paired is None else self.n_paired
        chosen: list[_Slot] = []
        spent = 0
        for slot in _slots(eligible, rng, pairs=self.pairs):
            spent += len(slot.agents)
            if spent > budget:
                break
            chosen.append(slot)
        if len(chosen) < MIN_SLOTS:
            largest = sorted((n for n in eligible.sum(axis=0).tolist() if n > 1), reverse=True)[:MIN_SLOTS]
            raise PlanError(
                f"The budget leaves {max(budget, 0)} paired calls, fewer than the {max(sum(largest), 2 * n_agents)} of two "
                "cyclic slots, the least that gives an interval. Raise calls, or set `independent: pooled:N` with a smaller N.",
                slug="budget-cyclic",
            )
        size = [len(slot.agents) for slot in chosen]
        columns = (
            np.repeat(np.array([slot.item for slot in chosen], dtype=np.int32), size),
            np.concatenate([slot.agents for slot in chosen]),
            np.concatenate([slot.partners for slot in chosen]),
        )
        return Drawn(Trials.paired(*columns, slot=_numbers(size)))

    def slots(self, eligible: Bools, rng: np.random.Generator) -> Iterator[Trials]:
        """Every slot there is, in order."""
        return slots(eligible, rng, pairs=self.pairs)


def slots(eligible: Bools, rng: np.random.Generator, *, pairs: PairRule = "ordered") -> Iterator[Trials]:
    """Every slot there is, in order, not numbered yet, each of all agents eligible on its item. See `Cyclic`.

    Raises: PlanError [nothing-shared].
    """
    for slot in _slots(eligible, rng, pairs=pairs):
        yield Trials.paired(np.full(len(slot.agents), slot.item, dtype=np.int32), slot.agents, slot.partners)


class _Slot(NamedTuple):
    """agents: int32[m], first texts; shift: how far from each its partner stands."""

    item: int
    agents: Ids
    shift: int

    @property
    def partners(self) -> Ids:
        """int32[m], second texts."""
        return np.concatenate([self.agents[self.shift :], self.agents[: self.shift]])


def _slots(eligible: Bools, rng: np.random.Generator, *, pairs: PairRule) -> Iterator[_Slot]:
    check_shared(eligible)
    n_agents, n_items = eligible.shape
    order = rng.permutation(n_agents)
    items = rng.permutation(n_items)
    shifts = rng.permutation(np.arange(1, n_agents))
    on_item = [order[eligible[order, j]].astype(np.int32) for j in range(n_items)]
    used: list[set[float]] = [set() for _ in range(n_items)]
    left = sum(max(len(agents) - 1, 0) for agents in on_item)
    if pairs == "unordered":
        used = [{len(agents) / 2} & {len(agents) // 2} for agents in on_item]
        left = sum(max(len(agents) - 1, 0) // 2 for agents in on_item)
    period = lcm(n_items, n_agents - 1)
    s = 0
    while left:
        j = int(items[s % n_items])
        start = (s + s // period) % (n_agents - 1)
        s += 1
        agents = on_item[j]
        fitting = (d for d in map(int, chain(shifts[start:], shifts[:start])) if d < len(agents) and d not in used[j])
        shift = next(fitting, None)
        if shift is None:
            continue
        used[j] |= {shift} if pairs == "ordered" else {shift, len(agents) - shift}
        left -= 1
        yield _Slot(j, agents, shift)


def check_shared(eligible: Bools) -> None:
    """Raises: PlanError [nothing-shared] where no item has two eligible agents."""
    if not (eligible.sum(axis=0) > 1).any():
        raise PlanError(
            "No item has responses of two agents that may be compared. "
            "Check the ids, or lower the holdout, until agents share items.",
            slug="nothing-shared",
        )


def numbered(chosen: Sequence[Trials], *, start: int = 0) -> Trials:
    """The trials of slots, numbered from `start`."""
    return replace(Trials.concat(chosen), slot=_numbers([len(slot) for slot in chosen], start=start))


def _numbers(size: Sequence[int], *, start: int = 0) -> Ids:
    """A slot's number for each of its trials. size: trials of each slot."""
    return np.repeat(np.arange(start, start + len(size), dtype=np.int32), size)


@dataclass(frozen=True)
class Dense(OverTrials):
    """All m(m−1) ordered pairs of the m agents eligible on an item; with pairs: unordered, each pair once, in an order by coin.

    Raises: PlanError [budget-dense] where that is more than `n_paired`.
    """

    name: ClassVar[str] = "dense"
    holdout: ClassVar[float] = 0.2
    judges_holdout: ClassVar[bool] = True
    independent: ClassVar[IndependentRule] = "twin"
    options: ClassVar[tuple[str, ...]] = ("pairs",)

    def draw(self, eligible: Bools, rng: np.random.Generator) -> Drawn:
        """Pairs by item, then first, then second agent."""
        n = n_comparisons(eligible, eligible, n_partners=None, pairs=self.pairs)
        if self.n_paired is not None and n > self.n_paired:
            raise PlanError(
                f"The dense design takes {n:,} paired calls here; the budget allows {self.n_paired:,}. "
                "Raise calls, or set design: cyclic, which spends what it is given.",
                slug="budget-dense",
            )
        return Drawn(compare(eligible, eligible, n_partners=None, pairs=self.pairs, rng=rng))
