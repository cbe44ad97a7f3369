"""Compare the contenders of a search with partners, in a random sequence of blocks that all rounds share.

A block compares all contenders with one partner on one item, in one order.
"""

from __future__ import annotations

from math import lcm
from typing import NamedTuple

import numpy as np

from youden.types import Trials
from youden.types.pool import Bools, Positions
from youden.types.trials import MAIN


class Comparisons(NamedTuple):
    """Comparisons of contenders with the partners of some blocks.

    Attributes
    ----------
    item, contender, partner : int array (n_comparisons,)
        Item and agents of each comparison.
    is_first : bool array (n_comparisons,)
        Whether the contender's text comes first.
    block : int array (n_comparisons,)
        Position of the block among the blocks that were requested.
    """

    item: Positions
    contender: Positions
    partner: Positions
    is_first: Bools
    block: Positions

    @property
    def first(self) -> Positions:
        """Agents of the first texts, int array (n_comparisons,)."""
        return np.where(self.is_first, self.contender, self.partner)

    @property
    def second(self) -> Positions:
        """Agents of the second texts, int array (n_comparisons,)."""
        return np.where(self.is_first, self.partner, self.contender)

    def are_eligible(self, eligible: Bools) -> Bools:
        """Return which comparisons are possible, bool array (n_comparisons,).

        A comparison is possible if its two agents differ and both of their cells are eligible.

        eligible : bool array (n_agents, n_items), cells (agent, item) that may be compared
        """
        has_cells = eligible[self.contender, self.item] & eligible[self.partner, self.item]
        return np.asarray((self.contender != self.partner) & has_cells)

    def to_trials(self, mask: Bools, *, block: Positions) -> Trials:
        """Make one paired trial of each selected comparison, in the order of the comparisons.

        A trial counts only for the contender, not for the partner.

        mask : bool array (n_comparisons,), True for the comparisons to select
        block : int array (n_comparisons,), number in the plan of the block of each comparison, selected or not

        Returns paired trials of the role "main", with weight 1 for the contender and 0 for the partner.
        """
        trials = Trials.paired(
            self.item[mask].astype(np.int32),
            self.first[mask].astype(np.int32),
            self.second[mask].astype(np.int32),
            block=block[mask].astype(np.int32),
        )
        return trials.with_role(MAIN, first=self.is_first[mask], second=~self.is_first[mask])


class BlockSequence(NamedTuple):
    """Random sequence of blocks, each of one item, one partner and one order of the texts.

    Attributes
    ----------
    items, partners : int array (n_items,), (n_agents,)
        All items and all agents in random orders.
    contender_is_first : bool array (n_items · n_agents,)
        Whether the contenders' texts come first in a block of the first pass; the second pass has the other order.
    """

    items: Positions
    partners: Positions
    contender_is_first: Bools

    @classmethod
    def draw(cls, n_agents: int, n_items: int, rng: np.random.Generator) -> BlockSequence:
        """Draw the orders of items and partners, and the order of the texts in each block."""
        items = rng.permutation(n_items)
        partners = rng.permutation(n_agents)
        return cls(items, partners, rng.random(n_items * n_agents) < 0.5)

    def list_comparisons(self, block_numbers: Positions, contenders: Positions) -> Comparisons:
        """List the comparisons of some agents, the contenders, in some blocks, block after block.

        In a block, each contender is compared with the same agent, the partner, on one item. The list also contains impossible
        comparisons, for example of an agent with itself. `Comparisons.are_eligible` marks the possible ones.

        block_numbers : int array (n_blocks,), numbers of the blocks in the sequence, from 0
        contenders : int array (n_contenders,), positions of the agents

        Returns n_blocks · n_contenders comparisons: `item`, `contender`, `partner` and `is_first` (whether the contender's text
        comes first, the same in a whole block), arrays of this length. Their `block` is the position of the block in
        `block_numbers`.
        """
        n_items, n_agents = len(self.items), len(self.partners)
        item_by_block = self.items[block_numbers % n_items]

        # Items and partners are used in cycles. To avoid repeated combinations, partners are shifted by one after each period.
        # For example, 2 items and 4 partners have the period 4, and the partners are 0, 1, 2, 3, 1, 2, 3, 0.
        period = lcm(n_items, n_agents)
        n_finished_periods = block_numbers // period
        partner_by_block = self.partners[(block_numbers + n_finished_periods) % n_agents]

        # a pass has each combination of item and partner once; the second pass exchanges the first and the second text
        n_blocks_of_pass = n_items * n_agents
        is_second_pass = block_numbers >= n_blocks_of_pass
        is_first_in_first_pass = self.contender_is_first[block_numbers % n_blocks_of_pass]
        is_first_by_block = is_first_in_first_pass != is_second_pass

        # one comparison per block and contender
        block = np.repeat(np.arange(len(block_numbers)), len(contenders))
        contender = np.tile(contenders, len(block_numbers))
        return Comparisons(item_by_block[block], contender, partner_by_block[block], is_first_by_block[block], block)
