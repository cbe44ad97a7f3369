"""Abilities as plain means of the trials themselves, with intervals from the slots of a cyclic design.

Items' difficulty is not taken out: in slots everybody meets the same items. A slot only has to hold each agent's trials of one
round, however it was drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from youden.nouns.arrays import Floats, Ids, Positions, freeze
from youden.stats.base.validation import check_level, check_trials

_PRIOR_SLOTS = 6
"""An agent's variance is shrunk as if the average variance had been seen in this many slots more."""


@dataclass(frozen=True, eq=False)
class TrialMeanResult:
    """Mean answers of agents and their intervals.

    mean: float[K], NaN without a trial. error: float[K], the standard error of the distance from the average agent; freedom:
    float[K], of Student's t. low, high: float[K]. error, low and high are NaN without an interval. n_trials: int32[K], trials
    with the agent on either side; n_slots: int32[K], slots that hold one. method: how the interval was made, or why not.
    """

    mean: Floats
    error: Floats
    freedom: Floats
    low: Floats
    high: Floats
    n_trials: Ids
    n_slots: Ids
    level: float
    method: str

    def __post_init__(self) -> None:
        freeze([self.mean, self.error, self.freedom, self.low, self.high, self.n_trials, self.n_slots])


def trial_mean(
    first: Ids, second: Ids, slot: Ids, answer: Floats, *, n_agents: int, n_population: int, level: float = 0.95
) -> TrialMeanResult:
    """Mean answer over each agent's trials, and an interval for its distance from the average agent, drawn around it.

    m_i = mean of y over the n_i trials with i; e = y − [m̄ + (K−1)/(K−2)·((m_i−m̄)+(m_k−m̄))], centred within its slot;
    E_si = sum of i's e in slot s; u_i = S_i/(S_i−1)·Σ_s E_si²/n_i, shrunk to (u_i(S_i−1) + 6ū)/(S_i+5);
    m_i ± t_{S_i+5}·√(u_i/n_i·(1 − T/N)). With 2 trials a slot this is the formula for complete cyclic rounds.

    first, second: int[T] in 0 … K−1, different; slot: int[T], negative where a trial has none; answer: float[T], no NaN.
    n_population: N, ordered pairs × items that could have been asked, of which the T were drawn without replacement.
    No interval (NaN): an agent with fewer than 2 slots; everybody, where a trial has no slot or fewer than 3 agents have one.

    Raises: StatisticsError [level], [trial-columns] where columns differ in length, [trial-answer] on NaN.
    Source: none in the paper; project statistics, designs over calls.
    """
    check_level(level)
    check_trials(first, second, slot, answer=answer)
    agent = np.concatenate([first, second])
    n_trials = np.bincount(agent, minlength=n_agents)
    mean = _ratio(np.bincount(agent, weights=np.tile(answer, 2), minlength=n_agents).astype(np.float64), n_trials)
    seen = n_trials > 0
    n_seen = int(seen.sum())
    error = np.full(n_agents, np.nan)
    n_slots = np.zeros(n_agents, dtype=np.int64)
    if (slot < 0).any():
        method = "none: there are trials without a slot"
    elif n_seen < 3:
        method = "none: fewer than 3 agents have trials"
    else:
        centre = mean[seen].mean()
        effect = (n_seen - 1) / (n_seen - 2) * (mean - centre)
        residual = answer - (centre + effect[first] + effect[second])
        u, n_slots = _variance_per_trial(agent, slot, residual, n_trials)
        left = max(0.0, 1 - len(answer) / n_population)
        error = np.sqrt(_ratio(u, n_trials) * left)
        how = "slot residuals, shrunk variances, Student t, finite population"
        method = how if (n_slots >= 2).any() else "none: no agent has trials in 2 slots"
    freedom = np.maximum(n_slots - 1 + _PRIOR_SLOTS, 1).astype(np.float64)
    margin = student.ppf((1 + level) / 2, freedom) * error
    return TrialMeanResult(
        mean=mean,
        error=error,
        freedom=freedom,
        low=mean - margin,
        high=mean + margin,
        n_trials=n_trials.astype(np.int32),
        n_slots=n_slots.astype(np.int32),
        level=level,
        method=method,
    )


def _variance_per_trial(agent: Ids, slot: Ids, residual: Floats, n_trials: Positions) -> tuple[Floats, Positions]:
    """u_i, NaN below 2 slots, and S_i, from each trial's residual."""
    _, place, size = np.unique(slot, return_inverse=True, return_counts=True)
    centred = residual - (np.bincount(place, residual) / size)[place]
    n_agents = len(n_trials)
    cell, n_cells = np.tile(place, 2) * n_agents + agent, len(size) * n_agents
    total = np.bincount(cell, np.tile(centred, 2), n_cells).reshape(-1, n_agents)
    n_slots = (np.bincount(cell, minlength=n_cells).reshape(-1, n_agents) > 0).sum(axis=0)
    u = np.full(n_agents, np.nan)
    enough = n_slots >= 2
    if enough.any():
        freedom = n_slots[enough] - 1
        own = (total**2).sum(axis=0)[enough] / n_trials[enough] * (freedom + 1) / freedom
        u[enough] = (own * freedom + _PRIOR_SLOTS * own.mean()) / (freedom + _PRIOR_SLOTS)
    return u, n_slots


def _ratio(total: Floats, n: Positions) -> Floats:
    """total / n, NaN where n is 0."""
    quotient: Floats = np.full(len(n), np.nan)
    np.divide(total, n, out=quotient, where=n > 0)
    return quotient
