"""Count the cells, pairs and calls of a plan, in total and among those that training may use.

The counts are taken from the trials, so they are right for every design.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.types import INDEPENDENT, PAIRED, Plan
from youden.types.pool import Bools, Ids, count_distinct


@dataclass(frozen=True)
class Coverage:
    """Counts of a plan: its cells, which are pairs of an agent and an item, its pairs of agents, and its calls.

    Attributes
    ----------
    present : int
        Cells (agent, item) that have a response.
    train : int
        Cells that training may use.
    cells : int
        Cells that paired trials touch.
    scored : int
        Training cells whose text comes first in a paired trial against another training cell; they get a row score.
    paired, independent : int
        Calls of each trial type.
    ordered, unordered : int
        Distinct ordered and unordered pairs on items in paired trials.
    holdout : int
        Calls of both trial types that touch a held-out cell.
    dense : int
        Calls of the dense design, 2K(K − 1)J for K agents and J items.
    """

    present: int
    train: int
    cells: int
    scored: int
    paired: int
    independent: int
    ordered: int
    unordered: int
    holdout: int
    dense: int

    @property
    def calls(self) -> int:
        """Calls of both trial types."""
        return self.paired + self.independent

    @property
    def present_fraction(self) -> float:
        """Scored cells as a fraction of the cells that have a response."""
        return self.scored / self.present

    @property
    def train_fraction(self) -> float:
        """Scored cells as a fraction of the cells that training may use."""
        return self.scored / self.train


def compute_coverage(plan: Plan) -> Coverage:
    """Count the cells, pairs and calls of a plan.

    A cell is an agent and an item. The counts show how much of the pool a budget covers: how many cells get a score, how
    many pairs of agents are compared, and how many of the calls of the dense design are spent. The dense design compares
    all pairs of agents on all items.

    Parameters
    ----------
    plan : Plan
        Plan with its trials.

    Returns
    -------
    Coverage
        Numbers of cells: with a response, for training (not held out), and with a score. Number of calls of each trial type.
        Number of distinct pairs of agents on items.
    """
    # whether a trial shows the text of a held-out cell
    is_paired = plan.trial_type == PAIRED
    first_item, second_item = plan.trials.text_cells
    is_held_out = plan.split.holdout
    first_is_held_out = is_held_out[plan.first, first_item]
    second_is_held_out = is_held_out[plan.second, second_item]
    touches_holdout = first_is_held_out | second_is_held_out
    scored_cells = _mark_first_cells(plan, is_paired & ~touches_holdout)

    paired = plan.trials.take(is_paired)
    lower_agent = np.minimum(paired.first, paired.second)
    higher_agent = np.maximum(paired.first, paired.second)
    n_ordered = _count_distinct_pairs(paired.item, paired.first, paired.second, plan.n_agents)
    n_unordered = _count_distinct_pairs(paired.item, lower_agent, higher_agent, plan.n_agents)

    n_train = int(plan.split.train.sum())
    return Coverage(
        present=n_train + plan.split.n_holdout,
        train=n_train,
        cells=plan.n_cells,
        scored=int(scored_cells.sum()),
        paired=len(paired),
        independent=int((plan.trial_type == INDEPENDENT).sum()),
        ordered=n_ordered,
        unordered=n_unordered,
        holdout=int(touches_holdout.sum()),
        dense=plan.n_dense_calls,
    )


def _count_distinct_pairs(item: Ids, agent_a: Ids, agent_b: Ids, n_agents: int) -> int:
    """Count the distinct combinations of an item and an ordered pair of agents."""
    pair_on_item = (item.astype(np.int64) * n_agents + agent_a) * n_agents + agent_b
    return count_distinct(pair_on_item)


def _mark_first_cells(plan: Plan, mask: Bools) -> Bools:
    """Mark the cells of the first texts of some trials: bool array (n_agents, n_items).

    mask : bool array (n_trials,), the trials to consider
    """
    cells = np.zeros((plan.n_agents, plan.n_items), dtype=np.bool_)
    cells[plan.first[mask], plan.item[mask]] = True
    return cells
