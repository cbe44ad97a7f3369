"""Estimate false-positive rates by the pooled rule, the reference for agents' own rates.

Below 20 % of the dense calls, one pooled rate is subtracted from all agents, without uncertainty. Releases before own
rates at every budget used this rule.
"""

from __future__ import annotations

import numpy as np

from youden.stats.trials.agent_rates import IndependentTotals
from youden.types.pool import Floats

N_POOLED, MIN_DENSE_FRACTION, LARGE_FRACTION, MIN_TRIALS_PER_AGENT = 100, 0.2, 0.1, 100
_MAX_SHRINKAGE = 0.25


def count_pooled(n_calls: int, *, n_agents: int, n_dense: int) -> int:
    """Return the number of independent trials by the pooled rule."""
    n_for_agents = int(LARGE_FRACTION * min(n_calls, n_dense))
    is_enough = 2 * n_for_agents >= MIN_TRIALS_PER_AGENT * n_agents
    return n_for_agents if n_calls >= MIN_DENSE_FRACTION * n_dense and is_enough else N_POOLED


def estimate_pooled_rates(totals: IndependentTotals) -> tuple[Floats, Floats]:
    """Estimate rates and their standard errors, which are 0 for a pooled rate: float arrays (n_agents,)."""
    n, n_agents, pooled = totals.n_by_agent, len(totals.n_by_agent), totals.training_rate
    equal = np.full(n_agents, pooled), np.zeros(n_agents)
    if 2 * totals.n_training < MIN_TRIALS_PER_AGENT * n_agents or pooled == 0 or (n == 0).any():
        return equal
    mean, c = totals.sum_by_agent / n, totals.training_square_sum / totals.training_sum
    excess = float(n @ (mean - pooled) ** 2) - (n_agents - 1) * c * pooled
    between = excess / (n.sum() - float(n @ n) / n.sum())
    if between <= 0:
        return equal
    w = n / (n + c * pooled / between)
    shrunk = w * mean + (1 - w) * pooled
    floor = mean - _MAX_SHRINKAGE * np.sqrt(c * mean / n)
    is_limited = floor > shrunk
    rate = np.where(is_limited, floor, shrunk)
    return rate, np.sqrt(np.where(is_limited, 1, w) * c * mean.clip(rate) / n)
