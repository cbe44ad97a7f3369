"""Make cyclic plans of synthetic pools, and compute the influence of items on the mean answers of their agents."""

from __future__ import annotations

import numpy as np

from small_pools import make_pool
from youden import make_plan
from youden.stats.trials.trial_errors import InfluenceTable, compute_item_influence
from youden.types import Plan
from youden.types.pool import Floats


def cyclic(K: int, J: int, n_blocks: int, *, seed: int = 0) -> Plan:
    return make_plan(make_pool(K, J), calls=K * n_blocks, independent="pooled:0", seed=seed)


def contributions(plan: Plan, answer: Floats, *, weight: Floats | None = None) -> InfluenceTable:
    w = np.ones(len(plan)) if weight is None else weight
    n = np.bincount(np.append(plan.first, plan.second), np.append(w, w), plan.n_agents)
    total = np.bincount(np.append(plan.first, plan.second), np.append(w * answer, w * answer), plan.n_agents)
    return compute_item_influence(
        plan.first,
        plan.second,
        plan.item,
        answer,
        ability=total / n,
        first_weight=w,
        second_weight=w,
        n_items=plan.n_items,
    )
