"""Whether agents, or a judge, answer otherwise now than a scale from earlier trials says.

What is compared is a mean of new residuals with what was estimated before, both with their errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.nouns.arrays import Floats, Ids, freeze
from youden.stats.base.validation import check_trials
from youden.stats.trials.anchored import Scale


@dataclass(frozen=True, eq=False)
class Drift:
    """change: float[K0], of each anchor's effect, new answers less what the scale says; variance: float[K0]; NaN where no new
    trial tells. level, level_variance: of all answers together, from level_slots slots; NaN where fewer than 2 tell.
    """

    change: Floats
    variance: Floats
    level: float
    level_variance: float
    level_slots: int

    def __post_init__(self) -> None:
        freeze([self.change, self.variance])


def drift_in_slots(item: Ids, first: Ids, second: Ids, slot: Ids, answer: Floats, *, scale: Scale) -> Drift:
    """From complete slots of anchors: e = y − centre − effect_i − effect_k − level_j.

    change_i = (K0−1)/(K0−2) × mean of e less its slot's mean, over i's trials; variance = σ²/n_i + var(effect_i), σ² of those
    residuals. level = mean over slots of their mean e, on items the anchors were seen on, with the variance of that mean and of
    the centre.

    item, first, second, slot: int[T]; answer: float[T]. Raises: StatisticsError [trial-columns], [trial-answer].
    """
    check_trials(item, first, second, slot, answer=answer)
    n_anchors = len(scale.effect)
    residual = answer - scale.centre - scale.effect[first] - scale.effect[second] - scale.level[item]
    _, at, size = np.unique(slot, return_inverse=True, return_counts=True)
    mean = np.bincount(at, residual) / size
    change, variance = _means(
        np.append(first, second), np.tile(residual - mean[at], 2), n_anchors, share=1 - len(size) / len(answer)
    )
    known = np.unique(at[scale.share[item] > 0])
    level = level_variance = np.nan
    if len(known) > 1:
        level = float(mean[known].mean())
        level_variance = float(mean[known].var(ddof=1)) / len(known) + scale.centre_variance
    stretch = (n_anchors - 1) / (n_anchors - 2)
    return Drift(stretch * change, stretch**2 * variance + scale.effect_variance, level, level_variance, len(known))


def drift_beside(item: Ids, agent: Ids, partner: Ids, answer: Floats, *, effect: Floats, scale: Scale) -> Drift:
    """Of anchors as partners of agents that joined: mean of e = y − centre − effect of the joined − effect_k − level_j, centred.

    Its variance adds, to those of the mean and of effect_k, what pairs have in common: pair_variance·Σ_n (n's share of k's)².

    item, agent, partner: int[T], `agent` the joined one; answer: float[T]; effect: float[M], of all agents, as `place` gives it.
    Raises: StatisticsError [trial-columns], [trial-answer].
    """
    check_trials(item, agent, partner, answer=answer)
    residual = answer - scale.centre - effect[agent] - scale.effect[partner] - scale.level[item]
    change, variance = _means(partner, residual - residual.mean(), len(scale.effect), share=1 - 1 / len(answer))
    met = np.zeros((len(scale.effect), len(effect)))
    np.add.at(met, (partner, agent), 1)
    share = met / np.maximum(met.sum(axis=1, keepdims=True), 1)
    variance += scale.effect_variance + scale.pair_variance * (share**2).sum(axis=1)
    return Drift(change, variance, np.nan, np.nan, 0)


def _means(agent: Ids, residual: Floats, n_agents: int, *, share: float) -> tuple[Floats, Floats]:
    """Mean residual of each agent, and the variance of that mean; NaN without a trial. share: of freedom left to residuals."""
    n = np.bincount(agent, minlength=n_agents)
    noise = float((residual**2).mean()) / max(share, 1e-9)
    mean, variance = np.full(n_agents, np.nan), np.full(n_agents, np.nan)
    np.divide(np.bincount(agent, residual, n_agents), n, out=mean, where=n > 0)
    np.divide(noise, n, out=variance, where=n > 0)
    return mean, variance
