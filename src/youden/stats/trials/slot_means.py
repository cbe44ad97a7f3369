"""Abilities as plain means of the trials themselves, with intervals from the slots of a cyclic design.

Items' difficulty is not taken out: in slots everybody meets the same items. A slot only has to hold each agent's trials of one
round, however it was drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.nouns.pool import Floats, Ids, ReadOnly
from youden.stats.additive.trial_fit import PairBlock, by_cell
from youden.stats.base.estimator import check_level, check_trials
from youden.stats.trials.trial_errors import nothing_known, trial_means


@dataclass(frozen=True, eq=False)
class TrialMeanResult(ReadOnly):
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


def trial_mean(
    first: Ids,
    second: Ids,
    slot: Ids,
    answer: Floats,
    *,
    n_agents: int,
    n_population: int | None = None,
    level: float = 0.95,
) -> TrialMeanResult:
    """Mean answer over each agent's trials, and an interval for its distance from the average agent, drawn around it.

    m_i = mean of y over the n_i trials with i; e = y − [m̄ + (K−1)/(K−2)·((m_i−m̄)+(m_k−m̄))], centred within its slot; the
    variance is that of `covariance_over_clusters` by slot, times 1 − T/(N + 1) where N is given. It is never 0.

    first, second: int[T] in 0 … K−1, different; slot: int[T], one independent draw each (an item), negative where a trial has
    none; answer: float[T], no NaN. n_population: N, ordered pairs × items that could have been asked, of which the T were drawn
    without replacement: intervals then speak of these alone. Without it they speak of more slots of this kind.
    No interval (NaN): an agent with fewer than 2 slots; everybody, where a trial has no slot or fewer than 3 agents have two.

    Raises: StatisticsError [level], [trial-columns] where columns differ in length, [trial-answer] on NaN.
    Source: none in the paper; project statistics, designs over calls. Plans that ask an item in several slots: `TrialMean`.
    """
    check_level(level)
    check_trials(first, second, slot, answer=answer)
    _, place = np.unique(slot, return_inverse=True)
    n_places = int(place.max(initial=-1)) + 1
    block = PairBlock.of(place.astype(np.int32), first, second, answer, n_items=n_places)
    found = trial_means(lambda: [block], n_agents=n_agents, n_items=n_places, target="items-like-these")
    n_trials, n_slots = found.weight, (by_cell(block, block.weight, n_agents) > 0).sum(axis=1)
    covariance, method = found.covariance, "residuals by slot, shrunk variances, Student t"
    if n_population is not None:
        covariance = covariance.scaled(np.full(n_agents, max(0.0, 1 - len(answer) / (n_population + 1))))
        method += ", finite population"
    if (slot < 0).any():
        covariance, method = nothing_known(n_agents), "none: there are trials without a slot"
    elif (n_slots >= 2).sum() < 3:
        method = "none: fewer than 3 agents have trials in 2 slots"
    mean, margin = found.ability, covariance.half_width(level)
    return TrialMeanResult(
        mean=mean,
        error=covariance.error,
        freedom=covariance.freedom,
        low=mean - margin,
        high=mean + margin,
        n_trials=n_trials.astype(np.int32),
        n_slots=n_slots.astype(np.int32),
        level=level,
        method=method,
    )
