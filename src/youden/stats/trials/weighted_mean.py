"""Abilities from trials in slots that were asked with unequal chances: each trial weighs one over its chance.

Where all chances are equal and slots complete, this is the trial mean.

Agents whose place is unsure are asked more often, and they meet each other more often. A plain mean would therefore be over
too many unsure partners; the weights undo this. Slots differ in who is in them, so the level of each slot (its item) is taken
out. Pairs that a round asks may answer otherwise than abilities add up to (two good agents are not twice as good). By how much is
seen in the pilot, which asks every pair alike, and is no part of a slot's level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.errors import StatisticsError
from youden.nouns.arrays import Bools, Floats, Ids, Positions, freeze

_MAX_ROUNDS = 100


@dataclass(frozen=True, eq=False)
class WeightedMean:
    """mean: float[K], θ_i, NaN for an agent without a trial; n_trials: int32[K]. How sure: `trial_covariance`."""

    mean: Floats
    n_trials: Ids

    def __post_init__(self) -> None:
        freeze([self.mean, self.n_trials])


def weighted_mean(
    first: Ids,
    second: Ids,
    slot: Ids,
    answer: Floats,
    *,
    weight: Floats,
    turn: Positions,
    asks: Bools,
    n_agents: int,
) -> WeightedMean:
    """m_i = Σ w(y − λ_s)/Σ w over i's trials; λ_s = slot mean of r, less h of its round;
    r = y − [m̄ + (K−1)/(K−2)·((m_i−m̄)+(m_k−m̄))].

    h_r: mean of r − λ_s over the pilot's trials of pairs that round r asks, 0 for the pilot. All by turns until they stay; the
    mean of λ over trials is 0.

    first, second: int[T]; slot: int[T] ≥ 0; answer: float[T], no NaN; weight: float[T] > 0, one over the chance of being asked;
    turn: int[T], the round that asked, 0 the pilot; asks: bool[R, T], whether a round asks the trial's pair.

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
    round_of = np.zeros(len(size), dtype=np.int64)
    round_of[place] = turn
    piloted = asks & (turn == 0)
    n_piloted = np.maximum(piloted.sum(axis=1), 1)
    for _ in range(_MAX_ROUNDS):
        total = np.bincount(agent, weights=w * np.tile(answer - level[place], 2), minlength=n_agents)
        mean = np.divide(total, total_weight, out=np.full(n_agents, np.nan), where=seen)
        centre = float(mean[seen].mean())
        effect = np.where(seen, (K - 1) / (K - 2) * (mean - centre), 0.0)
        residual = answer - (centre + effect[first] + effect[second])
        own = np.bincount(place, weights=residual) / size
        beyond = piloted @ (residual - own[place]) / n_piloted
        after = own - beyond[round_of]
        after -= np.average(after, weights=size)
        moved = float(np.abs(after - level).max())
        level = after
        if moved < 1e-9:
            break
    return WeightedMean(mean, n.astype(np.int32))
