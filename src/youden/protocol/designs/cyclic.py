"""Compare agents in cyclic blocks, in which each agent appears once first and once second.

A block has one item and one shift. The agents are arranged in a cycle, and a shift d compares each with the agent d places later.
This module also has the base class of all designs, `TrialDesign`, and functions for blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import lcm
from typing import ClassVar, NamedTuple

import numpy as np

from youden.errors import PlanError
from youden.protocol.designs.parts.repair import PairRule, check_pairs
from youden.types import DesignResult, Trials
from youden.types.planning import IndependentRule
from youden.types.pool import Bools, Ids, Positions

MIN_BLOCKS = 2
"""Minimum number of blocks of a plan; with fewer, there are no intervals."""


@dataclass(frozen=True)
class TrialDesign:
    """Base class of the designs, with their common options and defaults.

    Attributes
    ----------
    n_paired : int or None
        Maximum number of paired calls; None for all there are.
    pairs : {"ordered", "unordered"}, default "ordered"
        Whether pairs may be judged in both orders.
    """

    n_paired: int | None = None
    pairs: PairRule = "ordered"
    default_holdout: ClassVar[float] = 0.0
    default_trials_per_agent: ClassVar[float | None] = None
    plans_holdout: ClassVar[bool] = False
    default_independent: ClassVar[IndependentRule] = "pooled"

    def __post_init__(self) -> None:
        check_pairs(self.pairs)


@dataclass(frozen=True)
class Cyclic(TrialDesign):
    """Blocks of one item and one cyclic shift of the agents.

    Use it by default.

    Attributes
    ----------
    n_paired : int or None
        Maximum number of paired calls; None for all there are.
    pairs : {"ordered", "unordered"}, default "ordered"
        `unordered` compares no pair in both orders on one item. If m agents are eligible on an item, only one of the
        shifts d and m − d is used, and never m/2.

    Notes
    -----
    The agents are in one random order π for the whole run; items and shifts are in random orders too. With K agents and
    J items, block s has item number s mod J, shift number (s + ⌊s/lcm(J, K − 1)⌋) mod (K − 1), and the pairs (π[q],
    π[(q + d) mod K]) for all q. If only m of the K agents are eligible on an item, the block has these m in the
    order π. If the shift is m or more, or was used on the item, the next possible one in the order of shifts replaces it. Blocks
    are drawn as long as the next one fits the budget.
    """

    name: ClassVar[str] = "cyclic"
    default_trials_per_agent: ClassVar[float | None] = 450
    options: ClassVar[tuple[str, ...]] = ("pairs",)

    def draw(self, eligible: Bools, rng: np.random.Generator) -> DesignResult:
        """Draw as many blocks as fit the budget, `n_paired`.

        In a block, each agent that is eligible on one item is compared with one other agent.

        Parameters
        ----------
        eligible : bool array (n_agents, n_items)
            Cells (agent, item) that may be compared.
        rng : numpy.random.Generator
            Source of all random numbers.

        Returns
        -------
        DesignResult
            Paired `trials` with their block numbers, in the order of the blocks; no notes.

        Raises
        ------
        PlanError
            [budget-cyclic]: if the budget does not cover two blocks; [pool-cyclic]: if the pool allows fewer than two;
            [nothing-shared]: if no item has two eligible agents.
        """
        n_agents, n_items = eligible.shape
        n_ordered_pairs = n_agents * (n_agents - 1) * n_items  # a design without a budget uses all of them
        budget = n_ordered_pairs if self.n_paired is None else self.n_paired
        blocks: list[_Block] = []
        n_calls = 0
        for block in _iter_blocks(eligible, rng, pairs=self.pairs):
            n_calls += len(block.agents)  # a block has one paired call per agent
            if n_calls > budget:
                break
            blocks.append(block)
        if len(blocks) < MIN_BLOCKS:
            raise _make_pool_error(len(blocks)) if n_calls <= budget else _make_budget_error(budget, n_agents)

        return DesignResult(_make_trials(blocks))

    def blocks(self, eligible: Bools, rng: np.random.Generator) -> Iterator[Trials]:
        """Yield the trials of all possible blocks in the order in which `draw` takes them, without block numbers.

        The budget `n_paired` is ignored. An item with m eligible agents has at most m − 1 blocks: each agent is compared with the
        next one in a random order of the agents, with the one after it, and so on.

        Parameters
        ----------
        eligible : bool array (n_agents, n_items)
            Cells that may be compared. Items with fewer than two eligible agents have no blocks.
        rng : numpy.random.Generator
            Source of all random numbers.

        Yields
        ------
        Trials
            Paired trials of one block, in which each agent that is eligible on its item appears once first and once second.

        Raises
        ------
        PlanError
            [nothing-shared]: if no item has two eligible agents; raised when the first block is requested.
        """
        return iter_blocks(eligible, rng, pairs=self.pairs)


def _make_pool_error(n_blocks: int) -> PlanError:
    """Make the error for a pool that allows only `n_blocks` cyclic blocks, whatever the budget is."""
    return PlanError(
        f"Confidence intervals need two cyclic blocks: the pool allows only {n_blocks}. With `pairs: unordered`, a block needs "
        "an item with responses of at least three agents. Set `pairs: ordered`, or add responses.",
        slug="pool-cyclic",
    )


def _make_budget_error(budget: int, n_agents: int) -> PlanError:
    """Make the error for a budget that does not cover two cyclic blocks.

    A block compares all agents that are eligible on an item, each once as the first and once as the second, which takes one
    call per agent. With fewer than two blocks, the variance between blocks cannot be estimated.

    budget : maximum number of paired calls
    n_agents : number of agents of the pool, the largest size that a block can have
    """
    n_needed = MIN_BLOCKS * n_agents
    return PlanError(
        f"Confidence intervals need two cyclic blocks, which are {n_needed} paired calls: got {max(budget, 0)} after the "
        "independent calls. Set more calls, or `independent: pooled:N` with a smaller N.",
        slug="budget-cyclic",
    )


def iter_blocks(eligible: Bools, rng: np.random.Generator, *, pairs: PairRule = "ordered") -> Iterator[Trials]:
    """Yield the trials of all possible cyclic blocks in order, without block numbers.

    Parameters
    ----------
    eligible : bool array (n_agents, n_items)
        Cells that may be compared.
    rng : numpy.random.Generator
        Source of all random numbers.
    pairs : {"ordered", "unordered"}, default "ordered"
        "ordered": pairs may be judged in both orders on one item, in m − 1 blocks for m eligible agents. "unordered": in one
        order only, in ⌊(m − 1)/2⌋ blocks, which is none for two agents.

    Yields
    ------
    Trials
        Paired trials of one block on one item, in which each agent that is eligible on the item appears once first and once
        second. No comparison is repeated.

    Raises
    ------
    PlanError
        [nothing-shared]: if no item has two eligible agents; raised when the first block is requested.
    """
    for block in _iter_blocks(eligible, rng, pairs=pairs):
        item = np.full(len(block.agents), block.item, dtype=np.int32)
        yield Trials.paired(item, block.agents, block.partners)


class _Block(NamedTuple):
    """A cyclic block: comparisons on one item in which each agent appears once first and once second.

    `agents` are those of the first texts, int32 array (m,). The partner of each agent is the one `shift` positions
    after it in this array, cyclically.
    """

    item: int
    agents: Ids
    shift: int

    @property
    def partners(self) -> Ids:
        """Agents of the second texts, int32 array (m,)."""
        return np.concatenate([self.agents[self.shift :], self.agents[: self.shift]])


def _iter_blocks(eligible: Bools, rng: np.random.Generator, *, pairs: PairRule) -> Iterator[_Block]:
    """Yield the blocks of the cyclic design, in the order in which a budget uses them.

    A block has one item and one shift. The agents that are eligible on the item are arranged in a random cyclic order. In a block
    with shift d, each agent is compared with the agent d places after it. Items and shifts are used in turn.

    eligible : bool array (n_agents, n_items), cells (agent, item) that may be compared
    pairs : "unordered" to compare each pair of agents on an item in one order only
    """
    check_shared_items(eligible)
    n_agents, n_items = eligible.shape
    agent_order = rng.permutation(n_agents)
    item_order = rng.permutation(n_items).tolist()
    shift_order = rng.permutation(np.arange(1, n_agents)).tolist()

    shifts_by_item = _ShiftsOnItem.create_for_all_items(eligible, agent_order, pairs)
    n_remaining = sum(shifts.n_blocks for shifts in shifts_by_item)

    # Items and shifts are used in cycles. To avoid repeated combinations, the shift moves on by one after each period. For
    # example, 2 items and 4 shifts have the period 4, and the shifts are those at the positions 0, 1, 2, 3, 1, 2, 3, 0, ….
    n_shifts = n_agents - 1
    period = lcm(n_items, n_shifts)
    step = 0
    while n_remaining:
        item = item_order[step % n_items]
        n_finished_periods = step // period
        shift_position = (step + n_finished_periods) % n_shifts
        step += 1

        # if this shift is not available on the item, the next available one takes its place
        preferred_shifts = shift_order[shift_position:] + shift_order[:shift_position]
        shift = shifts_by_item[item].take_first_unused(preferred_shifts)
        if shift is not None:  # None if the item has no unused shift
            n_remaining -= 1
            yield _Block(item, shifts_by_item[item].agents, shift)


class _ShiftsOnItem:
    """Keeps track of the shifts that the blocks of one item have used, so that no comparison is repeated.

    A block with shift d compares each agent with the agent d places after it in the cyclic order of the agents. With m agents on
    the item, the possible shifts are 1 to m − 1. If `pairs` is "unordered", each pair of agents may be compared
    in one order only. A block with the shift d then also excludes m − d, which has the same pairs. The shift m/2 is never used,
    because it compares each pair in both orders.

    agents : int32 array (m,), eligible agents in their cyclic order
    """

    def __init__(self, agents: Ids, pairs: PairRule) -> None:
        self.agents = agents
        self._is_unordered = pairs == "unordered"
        self._used: set[int] = set()
        if self._is_unordered and len(agents) % 2 == 0:
            self._used.add(len(agents) // 2)

    @classmethod
    def create_for_all_items(cls, eligible: Bools, agent_order: Positions, pairs: PairRule) -> list[_ShiftsOnItem]:
        """Create the records of used shifts, one per item, for the agents that are eligible on the item.

        eligible : bool array (n_agents, n_items), cells (agent, item) that may be compared
        agent_order : int array (n_agents,), all agents in the random order in which they are arranged in a cycle
        pairs : "unordered" if each pair of agents may be compared in one order only; else "ordered"

        Returns one record per item, in the order of the items. In a record, the eligible agents are in the order of
        `agent_order`.
        """
        shifts_by_item = []
        for is_eligible in eligible[agent_order].T:  # one column per item, with the agents in their order
            eligible_agents = agent_order[is_eligible].astype(np.int32)
            shifts_by_item.append(cls(eligible_agents, pairs))
        return shifts_by_item

    @property
    def n_blocks(self) -> int:
        """Number of all possible blocks, used or not."""
        n_shifts = max(len(self.agents) - 1, 0)
        return n_shifts // 2 if self._is_unordered else n_shifts

    def take_first_unused(self, candidates: Sequence[int]) -> int | None:
        """Find the first shift that was not used on the item yet, and mark it as used.

        candidates : shifts in order of preference. A shift d compares each agent with the agent d places after it. Shifts are
            skipped unless they are less than the number of agents.

        Returns the shift, or None if no candidate is left.
        """
        n_agents = len(self.agents)
        unused_shifts = (shift for shift in candidates if shift < n_agents and shift not in self._used)
        shift = next(unused_shifts, None)
        if shift is None:
            return None

        self._used.add(shift)
        if self._is_unordered:
            self._used.add(n_agents - shift)  # compares the same pairs in the other order
        return shift


def check_shared_items(eligible: Bools) -> None:
    """Raise PlanError [nothing-shared] if no item has two eligible agents.

    eligible : bool array (n_agents, n_items)
    """
    if not (eligible.sum(axis=0) > 1).any():
        raise PlanError(
            "No item has responses of two agents in training cells, so no agents can be compared. Check that the ids of agents "
            "and items match, or set a smaller holdout.",
            slug="nothing-shared",
        )


def number_blocks(blocks: Sequence[Trials], *, start: int = 0) -> Trials:
    """Join the trials of blocks, and number the blocks.

    Parameters
    ----------
    blocks : sequence of Trials
        Trials of each block.
    start : int, default 0
        Number of the first block.

    Returns
    -------
    Trials
        With the number of the block in the column `block`.
    """
    sizes = [len(block) for block in blocks]
    return replace(Trials.concat(blocks), block=_repeat_block_numbers(sizes, start=start))


def _make_trials(blocks: Sequence[_Block]) -> Trials:
    """Return the paired trials of blocks, which are numbered from 0."""
    sizes = [len(block.agents) for block in blocks]
    item_by_block = np.array([block.item for block in blocks], dtype=np.int32)
    item = np.repeat(item_by_block, sizes)
    first = np.concatenate([block.agents for block in blocks])
    second = np.concatenate([block.partners for block in blocks])
    return Trials.paired(item, first, second, block=_repeat_block_numbers(sizes))


def _repeat_block_numbers(sizes: Sequence[int], *, start: int = 0) -> Ids:
    """Return the number of each trial's block, int32 array (n_trials,); blocks are numbered from `start`.

    sizes : numbers of trials per block
    """
    numbers = np.arange(start, start + len(sizes), dtype=np.int32)
    return np.repeat(numbers, sizes)
