"""Abilities from trials in slots that were asked with unequal chances: each trial weighs one over its chance.

Where all chances are equal and slots complete, this is the trial mean. An agent whose place is unsure is asked more often, and
its partners with it. Without weights, a mean would be mostly over unsure partners. Slots differ in who is in them, so each
slot's level (its item) is taken out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.errors import StatisticsError
from youden.nouns.arrays import Floats, Ids, freeze

_PRIOR_SLOTS = 6
_MAX_ROUNDS = 100


@dataclass(frozen=True, eq=False)
class WeightedMean:
    """mean, error: float[K], θ_i and the standard error of θ_i − θ̄ against the dense value; n_trials, n_slots: int32[K].

    left: float[K], share of the agent's pairs on items not asked; error/√left is the error against more items of the same kind.

    error is NaN for an agent with fewer than 2 slots, mean for one without a trial.
    """

    mean: Floats
    error: Floats
    n_trials: Ids
    n_slots: Ids
    left: Floats

    def __post_init__(self) -> None:
        freeze([self.mean, self.error, self.n_trials, self.n_slots, self.left])


def weighted_mean(
    first: Ids, second: Ids, slot: Ids, answer: Floats, *, weight: Floats, n_agents: int, n_items: int
) -> WeightedMean:
    """m_i = Σ w(y − λ_s)/Σ w over i's trials; λ_s = slot mean of y − [m̄ + (K−1)/(K−2)·((m_i−m̄)+(m_k−m̄))].

    Both by turns until they stay; the mean of λ over trials is 0. error² = u_i/n_i · (1 − T_i/(2(K−1)J)), n_i = (Σw)²/Σw² and T_i
    the agent's trials, u_i as in `trial_mean` from weighted residuals.

    first, second: int[T]; slot: int[T] ≥ 0; answer: float[T], no NaN; weight: float[T] > 0, one over the chance of being asked.

    Raises: StatisticsError [weighted-mean] with fewer than 3 agents that have a trial.
    Source: Hájek (1971), the ratio form of Horvitz and Thompson's estimator.
    """
    agent = np.append(first, second)
    w = np.append(weight, weight)
    n = np.bincount(agent, minlength=n_agents)
    total_weight = np.bincount(agent, weights=w, minlength=n_agents)
    seen = n > 0
    K = int(seen.sum())
    if K < 3:
        raise StatisticsError(
            f"{K} agents have trials; abilities need 3. Ask the judge about more.", slug="weighted-mean"
        )
    _, place = np.unique(slot, return_inverse=True)
    size = np.bincount(place)
    level = np.zeros(len(size))
    for _ in range(_MAX_ROUNDS):
        total = np.bincount(agent, weights=w * np.tile(answer - level[place], 2), minlength=n_agents)
        mean = np.divide(total, total_weight, out=np.full(n_agents, np.nan), where=seen)
        centre = float(mean[seen].mean())
        effect = np.where(seen, (K - 1) / (K - 2) * (mean - centre), 0.0)
        residual = answer - (centre + effect[first] + effect[second])
        after = np.bincount(place, weights=residual) / size
        after -= np.average(after, weights=size)
        moved = float(np.abs(after - level).max())
        level = after
        if moved < 1e-9:
            break
    cell = np.tile(place, 2) * n_agents + agent
    sums = np.bincount(cell, weights=w * np.tile(residual - level[place], 2), minlength=len(size) * n_agents)
    n_slots = (np.bincount(cell, minlength=len(size) * n_agents).reshape(-1, n_agents) > 0).sum(axis=0)
    enough = n_slots >= 2
    error = np.full(n_agents, np.nan)
    left = np.maximum(0.0, 1 - n / (2 * (K - 1) * n_items))
    if enough.any():
        freedom = n_slots[enough] - 1
        effective = total_weight[enough] ** 2 / np.bincount(agent, weights=w**2, minlength=n_agents)[enough]
        squares = (sums.reshape(-1, n_agents)[:, enough] ** 2).sum(axis=0)
        own = squares / total_weight[enough] ** 2 * effective * (freedom + 1) / freedom
        shrunk = (own * freedom + _PRIOR_SLOTS * own.mean()) / (freedom + _PRIOR_SLOTS)
        error[enough] = np.sqrt(shrunk / effective * left[enough])
    return WeightedMean(mean, error, n.astype(np.int32), n_slots.astype(np.int32), left)
