"""Counts what a plan touches: cells, pairs and calls, in all and of what may be learned from.

It counts columns whatever design drew them, so that what is printed is what is there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.types import PAIRED, Plan
from youden.types.pool import Bools


@dataclass(frozen=True)
class Coverage:
    """Counts of one plan.

    present, train: cells that exist, and that may be learned from. cells: cells that any paired trial touches; scored: training
    cells that stand first in a paired trial whose partner may be learned from too (they get a row score).
    paired, independent: calls by arm; ordered, unordered: distinct ordered and unordered pairs on items, paired arm;
    holdout: calls of either arm that touch a held-out cell; dense: 2K(K−1)J.
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
        return self.paired + self.independent

    @property
    def of_present(self) -> float:
        """Scored cells as a share of the cells that exist."""
        return self.scored / self.present

    @property
    def of_train(self) -> float:
        """Scored cells as a share of the cells left for training."""
        return self.scored / self.train


def coverage(plan: Plan) -> Coverage:
    """What `plan` covers."""
    paired = plan.arm == PAIRED
    other_item = np.where(paired, plan.item, plan.other_item)
    held = plan.split.holdout
    touched = held[plan.first, plan.item] | held[plan.second, other_item]
    item, first, second = (column[paired].astype(np.int64) for column in (plan.item, plan.first, plan.second))
    K = plan.n_agents
    low, high = np.minimum(first, second), np.maximum(first, second)
    return Coverage(
        present=int(plan.split.train.sum()) + plan.split.n_holdout,
        train=int(plan.split.train.sum()),
        cells=plan.n_cells,
        scored=int(_first_cells(plan, paired & ~touched).sum()),
        paired=int(paired.sum()),
        independent=int((~paired).sum()),
        ordered=len(np.unique((item * K + first) * K + second)),
        unordered=len(np.unique((item * K + low) * K + high)),
        holdout=int(touched.sum()),
        dense=plan.n_dense_calls,
    )


def _first_cells(plan: Plan, chosen: Bools) -> Bools:
    cells = np.zeros((plan.n_agents, plan.n_items), dtype=np.bool_)
    cells[plan.first[chosen], plan.item[chosen]] = True
    return cells
