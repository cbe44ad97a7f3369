"""Extend a plan by agents, items, repeats or calls, without changing the trials that it has.

Agents that join are compared with the anchors, the agents of the first plan. The anchors are not compared again. An
extension by calls continues the sequence of blocks that the plan's design draws, so its blocks are those that a larger
budget would have drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from math import ceil, floor

import numpy as np

from youden.errors import PlanError
from youden.protocol.blocks import get_extensions, has_blocks_in_first_plan
from youden.protocol.designs import DESIGNS
from youden.protocol.designs.cyclic import number_blocks
from youden.protocol.designs.parts.repair import PairRule
from youden.protocol.independent import draw_matched_trials, with_added_trials
from youden.protocol.pooled_trials import (
    count_added_calls,
    count_added_independent,
    count_added_paired,
    draw_pooled_trials,
    draw_scored_trials,
    has_default_independent_count,
)
from youden.streams import Stream, stream
from youden.text.sentences import format_count
from youden.types import INDEPENDENT, PAIRED, Design, Plan, Pool, Trials
from youden.types.plan_steps import Extension, ExtensionKind
from youden.types.planning import BlockDesign
from youden.types.pool import Bools, Ids
from youden.types.trials import ANCHOR, MAIN

Comparison = tuple[int, int, int]
"""Item, first and second agent of a paired trial."""


def draw_anchor_trials(
    eligible: Bools,
    rng: np.random.Generator,
    *,
    scored: tuple[int, ...],
    n_anchors: int,
    n_paired: int,
    planned: Set[Comparison],
    pairs: PairRule,
    items: Ids,
    start: int,
    together: bool = False,
) -> Trials:
    """Draw blocks of trials that compare the agents in `scored` with anchors. Anchors are the first agents of the pool.

    A block has one item. On it, each agent in `scored` appears once first and once second, against two different anchors, as far
    as comparisons are left. The anchors rotate, so that an agent is compared with all of them about equally often. An anchor in
    `scored` is not compared with itself.

    Returns paired trials of the role "main" with block numbers from `start` on, block after block.

    eligible : bool array (n_agents, n_items), cells (agent, item) that may be compared
    rng : source of the random order of the anchors
    scored : positions of the agents whose abilities the trials measure
    n_anchors : number of anchors
    n_paired : maximum number of trials; there are fewer, or none, if the next block does not fit or no comparison is left
    planned : comparisons (item, first agent, second agent) that are not repeated
    pairs : "ordered", or "unordered" if the reverse of a planned comparison is not drawn either
    items : int array, items in the order in which the blocks use them; after the last one, the first one follows
    start : number that the first block gets; it does not change what is drawn
    together : whether all agents in `scored` are compared with the same two anchors in a block
    """
    anchor_order = rng.permutation(n_anchors).tolist()
    shifts = rng.permutation(n_anchors)
    drawn = set(planned)
    if pairs == "unordered":
        drawn.update((item, second, first) for item, first, second in planned)

    rows: list[tuple[int, int, int, int]] = []  # item, first agent, second agent and block of each trial
    block_number = start
    n_empty = 0  # consecutive items on which no comparison was left
    for step in range(len(items) * n_anchors):
        item = int(items[step % len(items)])
        n_passes = step // len(items)
        shift = int(shifts[(step + n_passes) % n_anchors])

        block: list[Comparison] = []
        for position, agent in enumerate(scored):
            if not eligible[agent, item]:
                continue
            # the agents begin at anchors that are evenly spaced, or all at the same anchor
            spacing = 0 if together else position * n_anchors // len(scored)
            first_anchor = shift + spacing
            comparisons = _compare_with_anchors(item, agent, anchor_order, first_anchor, eligible=eligible, drawn=drawn)
            block += comparisons
            drawn.update(comparisons)
            if pairs == "unordered":
                drawn.update((item, second, first) for item, first, second in comparisons)

        if len(rows) + len(block) > n_paired:
            break
        rows += [(*comparison, block_number) for comparison in block]
        if block:
            block_number += 1
            n_empty = 0
        else:
            n_empty += 1
        if n_empty == len(items):
            break

    columns = np.array(rows, dtype=np.int32).reshape(-1, 4).T
    return Trials.paired(*columns[:3], block=columns[3])


def _compare_with_anchors(
    item: int, agent: int, anchor_order: list[int], start: int, *, eligible: Bools, drawn: Set[Comparison]
) -> list[Comparison]:
    """Draw two comparisons of an agent on an item: once as the first agent, and once as the second agent.

    The agent is compared with two different anchors, reference agents. Anchors are tried in cyclic order until one can be used:
    for the first comparison from the position `start` of `anchor_order`, for the second from half a cycle later. An anchor is
    skipped if its response may not be compared, or if the comparison was drawn before.

    eligible : bool array (n_agents, n_items), cells (agent, item) that may be compared
    drawn : comparisons that were drawn before

    Returns up to two comparisons; fewer if no anchor is left.
    """
    half_cycle = len(anchor_order) // 2
    comparisons: list[Comparison] = []
    unusable_anchors = {agent}  # an anchor is not compared with itself
    for is_agent_first, position in ((True, start), (False, start + half_cycle)):
        for anchor in _iter_cyclically(anchor_order, position):
            comparison = (item, agent, anchor) if is_agent_first else (item, anchor, agent)
            is_possible = anchor not in unusable_anchors and eligible[anchor, item]
            if is_possible and comparison not in drawn:
                comparisons.append(comparison)
                unusable_anchors.add(anchor)  # the second comparison needs a different anchor
                break
    return comparisons


def _iter_cyclically(order: list[int], start: int) -> Iterator[int]:
    """Yield all elements of a list in cyclic order, beginning at the position `start` modulo its length."""
    return (order[(start + i) % len(order)] for i in range(len(order)))


MIN_BLOCKS_PER_AGENT = 6
"""Minimum number of blocks of an agent that joins; with fewer, its variance cannot be estimated."""


def add_agents(plan: Plan, pool: Pool, *, calls: int | None = None) -> Plan:
    """Extend a plan by agents, each compared only with anchors: the agents of the first plan.

    Parameters
    ----------
    plan : Plan
        Plan to extend. It is not changed.
    pool : Pool
        Pool of the plan, with the same items, and with at least one new agent after the old ones (not checked).
    calls : int, optional
        Number of calls to add, paired and independent. If the judge costs nothing, only paired calls count. Default: as many
        paired trials per new agent as the anchors have on average, rounded, and the number of independent trials that the
        plan's rule requires.

    Returns
    -------
    Plan
        A new plan of `pool`: the trials of `plan`, unchanged, and then the new ones. A note states the number of new
        trials, and whether fewer comparisons than requested were left.

    Raises
    ------
    PlanError
        [extend-adaptive]: if the plan is made in rounds; [extend-self-trials]: if it has only self-trials;
        [extend-too-few-calls]: if the calls give fewer than `MIN_BLOCKS_PER_AGENT` (6) blocks of two trials per new agent;
        [extend-exhausted]: if no comparison is left.
    """
    extender = _PlanExtender(plan, pool)
    new_agents = tuple(range(plan.n_agents, pool.n_agents))
    n_new = len(new_agents)

    # by default, the mean number of trials of an anchor, rounded; each trial among anchors counts for two of them
    n_main_trials = int((plan.role == MAIN).sum())
    trials_per_anchor = 2 * n_main_trials / get_extensions(plan).anchors
    default_paired = _round_half_up(trials_per_anchor) * n_new
    n_paired = extender.count_paired_calls(calls, default=default_paired, n_scored=n_new)

    # an agent has two trials per block
    min_paired = MIN_BLOCKS_PER_AGENT * 2 * n_new
    if n_paired < min_paired:
        raise PlanError(
            f"The calls give {n_new} agents fewer than {MIN_BLOCKS_PER_AGENT} blocks each: got {n_paired} paired calls. Set "
            f"at least {extender.count_total_calls(min_paired, n_scored=n_new)} calls.",
            slug="extend-too-few-calls",
        )

    drawn = [extender.draw_linking_blocks(new_agents, n_paired)]
    return extender.extend("agents", drawn, n_paired, calls=calls, scored=new_agents)


def add_items(plan: Plan, pool: Pool, *, calls: int | None = None) -> Plan:
    """Extend a plan by items, and compare all agents on them.

    The new comparisons are drawn in blocks. A block is a set of trials of one item, in which each agent appears once as the
    first and once as the second agent. Agents that joined after the first plan are compared only with agents of the first plan.

    Parameters
    ----------
    plan : Plan
        Plan to extend. It is not changed.
    pool : Pool
        Pool of the plan, with at least one new item after the old ones (not checked).
    calls : int, optional
        Number of calls to add: paired calls, which compare responses to the same new item, and independent calls, which compare
        responses to different items. If the judge costs nothing, only paired calls count. Default: as many paired calls per new
        item as earlier items have on average, and the number of independent calls that the plan's rule requires.

    Returns
    -------
    Plan
        A new plan of `pool`: the trials of `plan`, unchanged, and then the new ones. A note states the number of new
        trials, and whether fewer comparisons than requested were left.

    Raises
    ------
    PlanError
        [extend-adaptive]: if the plan is made in rounds; [extend-self-trials]: if it has only self-trials;
        [extend-cell-design]: if its design has no blocks; [extend-too-few-calls]: if the calls are less than one
        block; [extend-exhausted]: if no comparison is left.
    """
    extender = _PlanExtender(plan, pool)
    n_new_items = pool.n_items - plan.n_items

    # by default, each new item gets the mean number of paired calls per item; the total is rounded
    n_planned_paired = int((plan.trial_type == PAIRED).sum())
    calls_per_item = n_planned_paired / plan.n_items
    default_paired = _round_half_up(calls_per_item * n_new_items)
    n_paired = extender.count_paired_calls(calls, default=default_paired, n_scored=pool.n_agents)

    # blocks are drawn only on the new items, which become the last set of items
    number_of_new_set = len(extender.extensions.item_sets)
    n_items_by_set = {number_of_new_set: n_new_items}
    drawn = extender.draw_complete_blocks(n_paired, n_items_by_set)
    return extender.extend("items", drawn, n_paired, calls=calls)


def add_calls(
    plan: Plan,
    *,
    calls: int,
    independent: int | None = None,
    focus: tuple[int, ...] = (),
    top: int | None = None,
    max_regret: float | None = None,
) -> Plan:
    """Extend a plan by calls: the next blocks of all agents, or blocks of some agents against anchors.

    The blocks of all agents are those that a larger budget would have drawn. Anchors are the agents of the first plan.

    Parameters
    ----------
    plan : Plan
        Plan to extend. It is not changed.
    calls : int
        Number of calls to add, paired and independent. If calls cost nothing, only paired calls count. If no paired comparison
        of all agents is left, and the plan pools independent trials, all calls are independent.
    independent : int, optional
        Number of these calls that are independent trials, from 0 to `calls` (not checked); only for plans that pool independent
        trials. Default: half of the calls if the plan matches independent trials to paired ones, and 7 to 10% if it pools them;
        none if the user requested a number of pooled trials for the plan, or if the plan asks for preferences.
    focus : tuple of int, default ()
        Positions of the agents to compare with anchors, from 0 to n_agents − 1; () for blocks of all agents.
    top : int, optional
        Number of agents that a search selects, if the extension is a step of a search. All agents in `focus` are then compared
        with the same partners in each block. Ignored without `focus`.
    max_regret : float, optional
        Maximum regret of that search, in the unit of abilities. It is recorded in the plan and changes no trial. Ignored without
        `focus`.

    Returns
    -------
    Plan
        A new plan of the same pool: the trials of `plan`, unchanged, and then the new ones. A note states the number of
        new trials, and whether fewer comparisons than requested were left.

    Raises
    ------
    PlanError
        [extend-adaptive]: if the plan is made in rounds; [extend-self-trials]: if it has only self-trials;
        [extend-cell-design]: if its design has no blocks and `focus` is empty; [extend-too-few-calls]: if the calls
        are less than one block; [extend-exhausted]: if no comparison is left, or, in a search, if the calls are too few.
    """
    extender = _PlanExtender(plan, plan.pool)
    n_paired = extender.count_paired_calls(calls, default=0, n_scored=len(focus) or plan.n_agents)
    if independent is not None:
        n_paired = max(0, calls - independent)
    if focus:
        calls_per_block = extender.get_max_block_size(scored=focus)
        drawn = [extender.draw_linking_blocks(focus, n_paired, together=top is not None)]
        if not len(drawn[0]) and n_paired < calls_per_block and top is None:
            raise PlanError(
                f"The calls are less than one block of the agents in focus, {calls_per_block} paired calls: got {n_paired}. Set "
                f"at least {extender.count_total_calls(calls_per_block, n_scored=len(focus))} calls.",
                slug="extend-too-few-calls",
            )
        return extender.extend(
            "calls", drawn, n_paired, calls=calls, independent=independent, scored=focus, search=(top, max_regret)
        )
    drawn = extender.draw_complete_blocks(n_paired, extender.count_items_by_set())
    return extender.extend("calls", drawn, n_paired, calls=calls, independent=independent)


def add_repeats(plan: Plan, pool: Pool, *, calls: int | None = None) -> Plan:
    """Extend a plan by repeats, which are further responses of the agents to the same items.

    The new trials are drawn in blocks, each of which compares all agents on one item. A comparison of two agents of the first
    plan may occur once per response that an agent has to an item. A trial shows the response that the plan has shown least
    often.

    Parameters
    ----------
    plan : Plan
        Plan to extend. It is not changed.
    pool : Pool
        Pool of the plan, with the same agents and items, and more responses per cell (not checked).
    calls : int, optional
        Number of calls to add, paired and independent. If the judge costs nothing, only paired calls count. Default: the number
        of paired calls in the plan, multiplied by the largest ratio of new to earlier responses of an agent to an item. To
        these, the independent calls that the plan's rule requires are added.

    Returns
    -------
    Plan
        A new plan of `pool`: the trials of `plan`, unchanged, and then the new ones. A note states the number of new
        trials, and whether fewer comparisons than requested were left.

    Raises
    ------
    PlanError
        [extend-adaptive]: if the plan is made in rounds; [extend-self-trials]: if it has only self-trials;
        [extend-cell-design]: if its design has no blocks; [extend-too-few-calls]: if the calls are less than one
        block; [extend-exhausted]: if no comparison is left.
    """
    extender = _PlanExtender(plan, pool)

    # by default, a new response gets as many paired calls as an earlier one; the cell with the largest ratio decides
    n_planned_paired = int((plan.trial_type == PAIRED).sum())
    n_earlier = plan.pool.n_repeats.astype(np.int64)
    n_new_per_earlier = (pool.n_repeats - n_earlier) / np.maximum(n_earlier, 1)
    default_paired = _round_half_up(n_planned_paired * float(n_new_per_earlier.max()))
    n_paired = extender.count_paired_calls(calls, default=default_paired, n_scored=pool.n_agents)

    drawn = extender.draw_complete_blocks(n_paired, extender.count_items_by_set())
    return extender.extend("repeats", drawn, n_paired, calls=calls)


def _round_half_up(number: float) -> int:
    """Round a number that is not negative to the nearest integer; halves are rounded up."""
    return floor(number + 0.5)


def _divide_in_proportion(n: int, sizes: Sequence[int]) -> list[int]:
    """Divide a number into whole parts in proportion to some sizes; the parts sum to n."""
    cumulative_share = np.cumsum(sizes) / sum(sizes)
    cumulative_parts = np.floor(cumulative_share * n + 0.5).astype(int)
    parts: list[int] = np.diff(cumulative_parts, prepend=0).tolist()
    return parts


def _has_any_agent(trials: Trials, agents: tuple[int, ...]) -> Bools:
    """Return whether each trial shows a text of one of some agents, bool array (n_trials,)."""
    return np.isin(trials.first, agents) | np.isin(trials.second, agents)


class _PlanExtender:
    """Draws the trials of one extension of a plan, and numbers their blocks."""

    def __init__(self, plan: Plan, pool: Pool) -> None:
        """Prepare the extension of a plan, whose agents and items come first in `pool`.

        Raises PlanError [extend-adaptive] if the plan is made in rounds, [extend-self-trials] if it has only self-trials.
        """
        if plan.rounds is not None:
            raise PlanError(
                "A plan in rounds cannot be extended, because each round chooses its own calls. Set a smaller half-width or "
                "regret and run it again, or run it with more calls under another name; with the same store, stored answers are "
                "reused.",
                slug="extend-adaptive",
            )
        if plan.is_self_plan:
            raise PlanError(
                "A plan of self-trials cannot be extended. Run the larger pool, or more calls, under another name; stored "
                "answers are reused.",
                slug="extend-self-trials",
            )
        self.plan, self.pool, self.extensions = plan, pool, get_extensions(plan)
        self.train = pool.present.copy()
        self.train[: plan.n_agents, : plan.n_items] = plan.split.train
        self.next_block = int(plan.block.max(initial=-1)) + 1
        self.is_exhausted = False  # whether too few comparisons were left for a request
        self.rng = stream("extension", plan.seed, len(self.extensions.steps))
        self.pairs: PairRule = "unordered" if plan.options.get("pairs") == "unordered" else "ordered"

    @property
    def adds_agents(self) -> bool:
        """Whether agents join the plan."""
        return self.pool.n_agents > self.plan.n_agents

    def count_items_by_set(self) -> dict[int, int]:
        """Return the number of items in each set, by the number of the set.

        Set 0 has the items of the first plan. Each extension by items has added one set.
        """
        return {set_number: len(items) for set_number, items in enumerate(self.extensions.item_sets)}

    def load_design(self) -> Design:
        """Load the design that drew the plan, with the options of the plan."""
        make_design = DESIGNS.load(self.plan.design)
        options = {name: self.plan.options[name] for name in make_design.options if name in self.plan.options}
        return make_design(n_paired=None, **options)

    def count_paired_calls(self, calls: int | None, *, default: int, n_scored: int) -> int:
        """Return how many calls of an extension of the plan are paired trials, which compare responses to the same item.

        calls : number of calls, paired and independent ones together; None to return `default`
        default : result without `calls`
        n_scored : number of agents whose abilities the calls measure

        Returns a number of at least 0, by the rule of `count_added_paired`. Independent calls of new agents are subtracted.
        """
        if calls is None:
            return default
        n_paired = count_added_paired(self.plan, calls, n_scored=n_scored, are_new=self.adds_agents)

        # reserve the independent calls of new agents, which `count_added_paired` does not count if the user requested a number
        n_independent = self.count_independent_of_new_agents(n_scored)
        return max(0, n_paired - n_independent)

    def count_total_calls(self, n_paired: int, *, n_scored: int) -> int:
        """Return the number of calls of both trial types that contain `n_paired` paired ones."""
        n_calls = count_added_calls(self.plan, n_paired, n_scored=n_scored, are_new=self.adds_agents)
        return n_calls + self.count_independent_of_new_agents(n_scored)

    def count_independent_of_new_agents(self, n_new_agents: int) -> int:
        """Count the independent calls of new agents; 0 unless the user requested a number of them for the first plan.

        Each new agent gets the requested number divided by the number of agents of the first plan. An agent of the first plan
        has twice as many on average, because its trials count for both of their agents.
        """
        n_requested = self.plan.n_independent
        if n_requested is None or has_default_independent_count(self.plan) or not self.adds_agents:
            return 0
        n_anchors = self.extensions.anchors
        return ceil(n_requested * n_new_agents / n_anchors)

    def draw_linking_blocks(
        self, scored: tuple[int, ...], n_paired: int, *, items: Ids | None = None, together: bool = False
    ) -> Trials:
        """Draw blocks of trials that compare the agents in `scored` with anchors, the agents of the first plan.

        In a block, each agent in `scored` has up to two trials on one item: as the first and as the second agent, with different
        anchors. Items on which these agents have few trials are used first. The answers count for the abilities of these agents
        only. Block numbers begin at `next_block`, which is updated.

        scored : positions of the agents whose abilities the trials measure
        n_paired : maximum number of trials; only whole blocks are drawn, so there may be fewer
        items : int array, positions of the items to use; default: all items of the plan
        together : whether all agents in `scored` are compared with the same two anchors in a block

        Returns paired trials of the role "anchor" with block numbers; none if no block fits or no comparison is left. Comparisons
        that are already in the plan are not repeated.
        """
        is_paired = self.plan.trial_type == PAIRED
        shows_scored = _has_any_agent(self.plan.trials, scored)
        earlier = self.plan.trials.take(is_paired & shows_scored)
        earlier_comparisons = set(
            zip(earlier.item.tolist(), earlier.first.tolist(), earlier.second.tolist(), strict=True)
        )

        if items is None:
            items = self.order_items()
        n_earlier_trials = np.bincount(earlier.item, minlength=self.pool.n_items)
        fewest_trials_first = np.argsort(n_earlier_trials[items], kind="stable")

        trials = draw_anchor_trials(
            self.train,
            self.rng,
            scored=scored,
            n_anchors=self.extensions.anchors,
            n_paired=n_paired,
            planned=earlier_comparisons,
            pairs=self.pairs,
            items=items[fewest_trials_first],
            start=self.next_block,
            together=together,
        )
        self._advance_next_block(trials)
        self.is_exhausted |= n_paired - len(trials) >= 2 * len(scored)  # one more block would have fitted

        first_is_scored = np.isin(trials.first, scored)
        second_is_scored = np.isin(trials.second, scored)
        return trials.with_role(ANCHOR, first=first_is_scored, second=second_is_scored)

    def order_items(self) -> Ids:
        """Order the items by first use in the plan; items without trials come last, in random order.

        New agents are therefore first compared on items on which the agents of the first plan were compared.

        Returns an int32 array (n_items,) of positions.
        """
        paired_items = self.plan.item[self.plan.trial_type == PAIRED]
        used_items, first_use = np.unique(paired_items, return_index=True)
        used_in_order = used_items[np.argsort(first_use)]

        unused_items = np.setdiff1d(np.arange(self.plan.n_items), used_items)
        unused_in_order = self.rng.permutation(unused_items)
        return np.concatenate([used_in_order, unused_in_order]).astype(np.int32)

    def draw_complete_blocks(self, n_paired: int, set_sizes: dict[int, int]) -> list[Trials]:
        """Draw as many blocks as fit into `n_paired` calls, divided among sets of items in proportion to their sizes.

        A block compares all anchors, the agents of the first plan, on one item. For each group of agents that joined later, one
        more block compares the group with anchors on an item of the same set. If a set has too few comparisons left, the other
        sets get the missing blocks. Block numbers begin at `next_block`, which is updated.

        n_paired : maximum number of paired calls
        set_sizes : number of items by set number, as in `count_items_by_set`

        Returns tables of trials: for each set, one table with the trials of the anchors, and one for each group that joined.

        Raises PlanError [extend-cell-design] if the design has no blocks, [extend-too-few-calls] if one block is too large.
        """
        design = self._load_block_design()
        n_blocks = self._count_complete_blocks(n_paired)

        drawn: list[Trials] = []
        for set_number, anchor_blocks in self._draw_anchor_blocks(design, n_blocks, set_sizes).items():
            anchor_trials = self._number_anchor_blocks(set_number, anchor_blocks)
            drawn.append(anchor_trials)

            items = self._order_items_by_use(set_number, anchor_trials)
            for group in self.extensions.joined:
                n_group_trials = 2 * len(group) * len(anchor_blocks)  # each agent once first and once second per block
                drawn.append(self.draw_linking_blocks(group, n_group_trials, items=items))
        return drawn

    def _draw_anchor_blocks(
        self, design: BlockDesign, n_blocks: int, set_sizes: dict[int, int]
    ) -> dict[int, list[Trials]]:
        """Draw the next blocks of anchors, divided among sets of items in proportion to their sizes.

        If a set has too few blocks left, the next set gets the missing ones, and after the last set the first one.

        design : design of the plan
        n_blocks : maximum number of blocks; there are fewer if fewer are left on all sets together
        set_sizes : number of items by set number

        Returns the blocks by set number; they show items by their positions in the set.
        """
        sequences = {set_number: self._iter_blocks_left(design, set_number) for set_number in set_sizes}
        blocks_by_set: dict[int, list[Trials]] = {set_number: [] for set_number in set_sizes}
        first_round = zip(set_sizes, _divide_in_proportion(n_blocks, list(set_sizes.values())), strict=True)
        second_round = ((set_number, 0) for set_number in set_sizes)
        n_missing = 0  # blocks for which the earlier sets had no comparisons left
        for set_number, n_blocks_of_set in [*first_round, *second_round]:
            n_requested = n_blocks_of_set + n_missing
            blocks = list(islice(sequences[set_number], n_requested))
            blocks_by_set[set_number] += blocks
            n_missing = n_requested - len(blocks)
        self.is_exhausted |= n_missing > 0
        return blocks_by_set

    def _load_block_design(self) -> BlockDesign:
        """Load the design that drew the plan, and check that it draws its trials in blocks.

        An extension of a plan continues the sequence of blocks that its design draws. A plan without blocks has no such sequence.

        Raises PlanError [extend-cell-design] if the design or the plan has no blocks.
        """
        design = self.load_design()
        if has_blocks_in_first_plan(self.plan) and isinstance(design, BlockDesign):
            return design
        raise PlanError(
            f"A plan of the design '{self.plan.design}' cannot be extended, because it has no blocks. Run a plan with a "
            "larger budget and the same store, which reuses the answers. Only calls for some agents can be added (`focus`).",
            slug="extend-cell-design",
        )

    def _count_complete_blocks(self, n_paired: int) -> int:
        """Return how many blocks of all agents fit into `n_paired` calls.

        Raises PlanError [extend-too-few-calls] if they are not enough for one block.
        """
        calls_per_block = self.get_max_block_size(scored=())  # () for all agents
        if n_paired < calls_per_block:
            n_calls = self.count_total_calls(calls_per_block, n_scored=self.pool.n_agents)
            raise PlanError(
                f"The calls are less than one block of all agents, {calls_per_block} paired calls: got {n_paired}. Set at "
                f"least {n_calls} calls.",
                slug="extend-too-few-calls",
            )
        return n_paired // calls_per_block

    def _get_items_of_set(self, set_number: int) -> range:
        """Return the positions of the items of a set; the number after the last set selects the new items of the pool."""
        new_items = range(self.plan.n_items, self.pool.n_items)
        item_sets = [*self.extensions.item_sets, new_items]
        return item_sets[set_number]

    def _order_items_by_use(self, set_number: int, trials: Trials) -> Ids:
        """Return the items of a set in the order in which some trials use them, then those without a trial: int32 array."""
        items_by_use = dict.fromkeys([*trials.item.tolist(), *self._get_items_of_set(set_number)])
        return np.array(list(items_by_use), dtype=np.int32)

    def _iter_blocks_left(self, design: BlockDesign, set_number: int) -> Iterator[Trials]:
        """Yield the blocks on a set of items that the plan does not contain yet, without block numbers.

        A block compares all anchors, the agents of the first plan, on one item. All possible blocks of a set, repeated for each
        response of an agent to an item, form one random sequence. The plan already contains the first blocks of the sequence.

        design : design of the plan
        set_number : number of the set, from 0; new items of the pool form a set with the highest number
        """
        # anchors are the first agents of the pool, and the items of a set follow each other
        items = self._get_items_of_set(set_number)
        eligible = self.train[: self.extensions.anchors, items.start : items.stop]

        # count the blocks of anchors on these items that the plan contains
        is_anchor_block = (self.plan.role == MAIN) & (self.plan.block >= 0)
        blocks_of_set = self.plan.block[is_anchor_block & np.isin(self.plan.item, items)]
        n_planned_blocks = len(np.unique(blocks_of_set))
        return islice(self._iter_blocks_of_set(design, set_number, eligible), n_planned_blocks, None)

    def _number_anchor_blocks(self, set_number: int, blocks: list[Trials]) -> Trials:
        """Join blocks of anchors on a set of items, and number them from `next_block` on, which is updated.

        Returns paired trials of the role "main" with block numbers, which show items by their positions in the pool.
        """
        trials = number_blocks(blocks, start=self.next_block)
        self._advance_next_block(trials)

        # the design numbers the items of a set from 0, the pool from the first item of the set
        return replace(trials, item=trials.item + np.int32(self._get_items_of_set(set_number).start))

    def _advance_next_block(self, trials: Trials) -> None:
        """Set `next_block` to the number after the blocks of new trials; keep it if there are none."""
        self.next_block = int(trials.block.max(initial=self.next_block - 1)) + 1

    def _iter_blocks_of_set(self, design: BlockDesign, set_number: int, eligible: Bools) -> Iterator[Trials]:
        """Yield all blocks on a set of items, in the order in which the plan and its extensions use them.

        Set 0 has the items of the first plan, and its first blocks are those of the first plan. If agents have several responses
        to an item, all blocks are repeated for each response, in a different random order.

        eligible : bool array (n_anchors, n_items_of_set), cells (agent, item) that may be compared
        """
        # each set and each repetition has its own random numbers; set 0 begins with those of the first plan
        stream_name: Stream = "trials" if set_number == 0 else "slots on new items"
        for repetition in range(self.pool.repeats):
            stream_numbers = [number for number in (set_number, repetition) if number > 0]
            rng = stream(stream_name, self.plan.seed, *stream_numbers)
            yield from design.blocks(eligible, rng)

    def extend(
        self,
        kind: ExtensionKind,
        drawn: list[Trials],
        n_requested: int,
        *,
        calls: int | None,
        independent: int | None = None,
        scored: tuple[int, ...] = (),
        search: tuple[int | None, float | None] = (None, None),
    ) -> Plan:
        """Return the plan with its own trials first, then the drawn paired trials, and independent trials for them.

        The plan refers to the whole pool, with the added agents or items. It gets a note with the numbers of new trials. If too
        few comparisons were left, the note also states this. By default, the number of independent trials follows from the number
        of the paired ones (`draw_independent_trials`). If calls for all agents are added and no paired trial is left, all calls
        are independent trials.

        kind : what is added: "agents", "items", "repeats" or "calls"
        drawn : tables of paired trials
        n_requested : number of paired calls that were requested
        calls : requested number of calls of both trial types, which is recorded in the plan; None for the default
        independent : requested number of independent trials, which is also recorded; None for the default
        scored : positions of the agents whose abilities these trials measure; () for all
        search : number of agents to select and maximum regret, if the extension is a step of a search; otherwise (None, None)

        Raises: PlanError [extend-exhausted] if there are neither paired nor independent trials.
        """
        plan, pool = self.plan, self.pool
        paired = Trials.concat(drawn)
        if len(paired) > 0:
            independent_trials = self.draw_independent_trials(paired, scored, n_requested=independent)
        else:
            independent_trials = self._draw_independent_alone(kind, calls, scored)
        added = Trials.concat([paired, independent_trials])
        if len(added) == 0:
            problem = (
                "No comparison is left: all blocks of this plan are judged already. Add items or agents, or set an agent "
                "to focus on, which may have pairs that were not compared."
            )
            if kind == "calls" and scored:
                others = ", or add calls without agents to focus on" if has_blocks_in_first_plan(self.plan) else ""
                problem = (
                    f"No comparison of these agents with those of the first plan is left. Add items or agents{others}."
                )
            raise PlanError(problem, slug="extend-exhausted")
        focus = scored if kind == "calls" else ()
        step = Extension(kind, pool.n_agents, pool.n_items, pool.digest, calls, focus, *search, independent)
        extensions = replace(self.extensions, steps=(*self.extensions.steps, step))
        step_number = np.full(len(added), len(extensions.steps), dtype=np.int32)

        holdout = np.zeros_like(self.train)
        holdout[: plan.n_agents, : plan.n_items] = plan.split.holdout
        plan_of_pool = replace(
            plan,
            split=replace(plan.split, train=self.train, holdout=holdout),
            pool_digest=pool.digest,
            agent_ids=tuple(agent.id for agent in pool.agents),
            item_ids=tuple(item.id for item in pool.items),
            source=pool,
        )
        note = self.format_note(kind, len(paired), len(independent_trials), scored)
        if not len(paired):
            note += ", because no paired calls of all agents are left"
        elif self.is_exhausted:
            note += f" of {n_requested:,}, because no more are left"
        if independent is not None and len(paired):
            note += (
                "; divided so that the forecast variance of the abilities is smallest, because a large part of it is due to the "
                "false-positive rates"
            )
        longer = with_added_trials(plan_of_pool, replace(added, step=step_number))
        return replace(longer, extensions=extensions, notes=(*plan.notes, note))

    def get_max_block_size(self, scored: tuple[int, ...]) -> int:
        """Return the largest possible number of paired calls in a block of the `scored` agents; () for all agents."""
        if scored:
            return 2 * len(scored)
        n_joined = sum(map(len, self.extensions.joined))
        return self.extensions.anchors + 2 * n_joined

    def draw_independent_trials(
        self, paired: Trials, scored: tuple[int, ...], *, n_requested: int | None = None
    ) -> Trials:
        """Draw the independent trials of an extension, which compare responses to different items.

        If the plan's independent trials are matched, one is drawn for each new paired trial. If they are pooled, their number
        depends on the number of paired trials. They compare random agents on random items. If `scored` has agents, they compare
        these with the agents of the first plan. Fewer trials are drawn if too few comparisons are left.

        paired : new paired trials, at least one
        scored : positions of the agents whose abilities the paired trials measure; () for all agents
        n_requested : number of pooled trials; None for the number by `count_added_independent`. If agents join the plan, the
            number by `count_independent_of_new_agents` is added in both cases. Ignored for matched trials.

        Returns independent trials of the role "matched", "pooled" or, if they compare added or scored agents with anchors,
        "anchor".
        """
        if self.plan.independent == "matched":
            trials = draw_matched_trials(paired, self.train, self.rng)
            compares_anchors = (paired.role == MAIN).any()  # if not, all trials compare other agents with anchors
            return trials if compares_anchors else trials.with_role(ANCHOR)

        n_for_paired = n_requested
        if n_for_paired is None:
            n_scored = len(scored) or self.pool.n_agents
            n_for_paired = count_added_independent(self.plan, len(paired), n_scored=n_scored, are_new=self.adds_agents)
        if not scored:
            return self._draw_pooled_for_all_agents(paired, n_for_paired)

        n_for_new_agents = self.count_independent_of_new_agents(len(scored))
        return self._draw_linking_independent(scored, n_for_paired + n_for_new_agents)

    def _draw_pooled_for_all_agents(self, paired: Trials, n_independent: int) -> Trials:
        """Draw pooled independent trials for all agents of the run, in proportion to their new paired trials.

        All anchors (the agents of the first plan) get the same number of trials, and so do all agents of a group that joined
        later. The numbers are rounded down.

        paired : new paired trials, at least one
        n_independent : number of independent trials for all agents together
        """
        # a fraction is exact, so that rounding down does not depend on floating-point errors
        independent_per_paired = Fraction(n_independent, len(paired))

        # paired trials with the role MAIN compare two anchors
        n_paired_of_anchors = int((paired.role == MAIN).sum())
        n_per_anchor = floor(independent_per_paired * n_paired_of_anchors / self.extensions.anchors)
        n_per_joined = []
        for group in self.extensions.joined:
            n_paired_of_group = int(_has_any_agent(paired, group).sum())
            n_per_joined.append(floor(independent_per_paired * n_paired_of_group / len(group)))
        return self._draw_pooled(n_per_anchor, n_per_joined)

    def _draw_independent_alone(self, kind: ExtensionKind, calls: int | None, scored: tuple[int, ...]) -> Trials:
        """Draw independent trials for an extension if no paired trial is left.

        Only an extension by calls for all agents of a plan with pooled independent trials gets any.
        """
        has_pooled = self.plan.independent == "pooled" and (self.plan.trial_type == INDEPENDENT).any()
        if kind != "calls" or scored or calls is None or not has_pooled:
            return Trials.concat([])

        # in a pass, each agent has 2 trials: 1 per anchor, because a trial of two anchors measures both, and 2 per other agent
        n_passes = calls // self.get_max_block_size(scored=())
        n_per_joined = [2 * n_passes] * len(self.extensions.joined)
        return self._draw_pooled(n_passes, n_per_joined)

    def _draw_pooled(self, n_per_anchor: int, n_per_joined: list[int]) -> Trials:
        """Draw pooled independent trials, of random agents and items, for all agents of the run.

        The anchors (the agents of the first plan) are compared with each other. Each group of agents that joined later is
        compared with the anchors.

        n_per_anchor, n_per_joined : number of trials per anchor, and per agent of each group that joined
        """
        n_anchors = self.extensions.anchors
        drawn = [self._draw_pooled_for_anchors(n_per_anchor * n_anchors)]
        for group, n_per_agent in zip(self.extensions.joined, n_per_joined, strict=True):
            drawn.append(self._draw_linking_independent(group, n_per_agent * len(group)))
        return Trials.concat(drawn)

    def _draw_pooled_for_anchors(self, n_trials: int) -> Trials:
        """Draw independent trials of two anchors that the plan does not have yet."""
        n_anchors = self.extensions.anchors
        compares_anchors = (self.plan.first < n_anchors) & (self.plan.second < n_anchors)
        is_independent = self.plan.trial_type == INDEPENDENT
        planned = self.plan.trials.take(is_independent & compares_anchors)
        return draw_pooled_trials(self.train[:n_anchors], n_trials, self.rng, planned=planned)

    def _draw_linking_independent(self, scored: tuple[int, ...], n_trials: int) -> Trials:
        """Draw independent trials that compare some agents with anchors, and count only for these agents.

        scored : positions of the agents for whose false-positive rates the trials count
        """
        trials = draw_scored_trials(
            self.plan,
            self.train,
            self.rng,
            scored=np.array(scored),
            partners=np.arange(self.extensions.anchors),
            n=n_trials,
        )
        return trials.with_role(ANCHOR, first=trials.weight_first > 0, second=trials.weight_second > 0)

    def format_note(self, kind: ExtensionKind, n_paired: int, n_independent: int, agents: tuple[int, ...]) -> str:
        """Format the note that describes an extension in the plan.

        kind : what was added: "agents", "items", "repeats" or "calls"
        n_paired, n_independent : numbers of new trials
        agents : positions of the agents that were added, or that get more calls; () if all agents get more calls

        Returns one line without a full stop: for example, "step 1: 3 items added: 10 independent and 100 paired calls".
        """
        step_number = len(self.extensions.steps) + 1
        change = self._describe_change(kind, agents)
        return f"step {step_number}: {change}: {n_independent:,} independent and {n_paired:,} paired calls"

    def _describe_change(self, kind: ExtensionKind, agents: tuple[int, ...]) -> str:
        """Describe in a phrase what an extension adds to the plan, such as "3 items added".

        kind : what is added: "agents", "items", "repeats" (responses) or "calls"
        agents : positions of the added agents, or of the agents that get more calls; () if all agents get more calls
        """
        if kind == "agents":
            n_agents = format_count(len(agents), "agent")
            without = ", without self-trials" if self.plan.n_self_trials else ""
            return f"{n_agents} added, compared with {self.extensions.anchors} of the first plan{without}"
        if kind == "items":
            n_items = format_count(self.pool.n_items - self.plan.n_items, "item")
            return f"{n_items} added"
        if kind == "repeats":
            return f"responses added, now {self.pool.n_responses:,}, up to {self.pool.repeats} per agent and item"

        agent_names = [self.plan.agent_ids[agent] for agent in agents]
        return f"more calls on {', '.join(agent_names)}" if agent_names else "more calls"
