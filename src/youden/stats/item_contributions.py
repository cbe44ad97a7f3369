"""Knows what each item contributes to abilities, and from that how sure the difference of two agents is on items of a kind.

It refuses to know how trials were drawn and what is concluded. An item is one draw: what it does to both agents cancels, and
what it does to one alone is counted however often it was asked, so that the error is against more items, not these alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from youden.errors import StatisticsError
from youden.stats.weighted_mean import levelled_means
from youden.types.arrays import Floats, Ids, Positions, freeze

_PRIOR_ITEMS = 6


@dataclass(frozen=True, eq=False)
class ItemContributions:
    """ability: float[K], m_i, NaN without a trial; by_item: float[K, J], U_ij = Σ_{t on j} w_it e_t / Σ_t w_it, 0 where unseen.

    weight: float[K, J], p_ij = Σ_{t on j} w_it / Σ_t w_it; n_trials: float[K, J], whole numbers; within: float[K], the
    variance of an agent's residuals within an item, NaN where no item holds two.
    """

    ability: Floats
    by_item: Floats
    weight: Floats
    n_trials: Floats
    within: Floats

    def __post_init__(self) -> None:
        freeze([self.ability, self.by_item, self.weight, self.n_trials, self.within])


class Difference(NamedTuple):
    """value: m_new − m_old; variance: of it, over items of the kind; n_items: that hold a trial of either.

    noise: the part of `variance` that more trials on the same items take away.
    """

    value: float
    variance: float
    n_items: int
    noise: float


def item_contributions(
    first: Ids,
    second: Ids,
    item: Ids,
    answer: Floats,
    *,
    first_weight: Floats,
    second_weight: Floats,
    n_agents: int,
    n_items: int,
) -> ItemContributions:
    """m_i = Σ w(y − λ_item)/Σ w, e = y − λ − [m̄ + (K−1)/(K−2)·((m_i−m̄)+(m_k−m̄))], summed by agent and item.

    Where every item holds all agents equally often, differences of m are those of the plain means.
    first, second, item: int[T]; answer: float[T], no NaN; first_weight, second_weight: float[T] ≥ 0, what the trial counts for
    its first and its second agent.

    Raises: StatisticsError [weighted-mean] with fewer than 3 agents that have a trial.
    """
    found = levelled_means(
        first, second, item, answer, first_weight=first_weight, second_weight=second_weight, n_agents=n_agents
    )
    agent, w = np.append(first, second), np.append(first_weight, second_weight)
    cell, e = agent * np.int64(n_items) + np.tile(item, 2), np.tile(found.residual, 2)

    def summed(weights: Floats | None = None) -> Floats:
        total = np.bincount(cell, weights, minlength=n_agents * n_items)
        return total.reshape(n_agents, n_items).astype(np.float64)

    share = summed(w)
    whole = np.maximum(share.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    n = summed()
    squares = summed(e**2) - np.divide(summed(e) ** 2, n, out=np.zeros(n.shape), where=n > 0)
    freedom = np.maximum(n - 1, 0).sum(axis=1)
    within = np.divide(squares.sum(axis=1), freedom, out=np.full(n_agents, np.nan), where=freedom > 0)
    return ItemContributions(found.mean, summed(w * e) / whole, share / whole, n, np.maximum(within, 0))


def paired_difference(of: ItemContributions, new: int, old: int, *, most: int) -> Difference:
    """v = n/(n−1)·Σ_j (U_new,j − U_old,j)², or (v(n−1) + 6v̄)/(n+5) where that is more, v̄ the mean of v over all pairs of agents.

    noise = Σ_i Σ_j p_ij²·within_i·(1/n_ij − 1/most) over both agents, at most v; most: comparisons of an agent that an item has.

    Raises: StatisticsError [difference-agent] where an agent has no trial, [difference-items] with fewer than 2 items.
    """
    for agent in (new, old):
        if np.isnan(of.ability[agent]):
            raise StatisticsError(
                f"Agent number {agent} has no trial. Judge it before it is compared.", slug="difference-agent"
            )
    seen = of.n_trials.any(axis=1)
    n = int((of.n_trials[[new, old]] > 0).any(axis=0).sum())
    if n < 2:
        raise StatisticsError(f"Both agents were seen on {n} items. A difference needs 2.", slug="difference-items")
    U, K = of.by_item[seen], int(seen.sum())
    all_pairs = 2 / (K - 1) * float(((U - U.mean(axis=0)) ** 2).sum())
    own = float(((of.by_item[new] - of.by_item[old]) ** 2).sum())
    shrunk = (own * (n - 1) + _PRIOR_ITEMS * all_pairs) / (n - 1 + _PRIOR_ITEMS)
    variance = n / (n - 1) * max(own, shrunk)
    noise = sum(_noise(of, agent, most=most) for agent in (new, old))
    return Difference(float(of.ability[new] - of.ability[old]), variance, n, min(noise, variance))


def later_variance(found: Difference, slots: Positions, *, now: int, n_items: int, most: int) -> Floats:
    """The variance once `slots` (int[n]) slots of a cyclic design are asked, from that at `now` slots: float[n].

    Slot s asks item s mod J and each agent twice. With m_j slots on item j of S in all, the items' own part goes with
    Σ(m_j/S)², the noise with 1/2S − Σ(m_j/S)²/most.
    """
    own, noise = _parts(slots, n_items=n_items, most=most)
    own_now, noise_now = _parts(np.array([now]), n_items=n_items, most=most)
    noisy = found.noise if noise_now[0] > 0 else 0.0
    return np.asarray(
        (found.variance - noisy) * own / own_now + noisy * noise / max(noise_now[0], np.finfo(float).tiny)
    )


class _Parts(NamedTuple):
    own: Floats
    noise: Floats


def _parts(slots: Positions, *, n_items: int, most: int) -> _Parts:
    full, more = np.divmod(slots.astype(np.float64), n_items)
    own = ((n_items - more) * full**2 + more * (full + 1) ** 2) / slots.astype(np.float64) ** 2
    return _Parts(own, np.maximum(1 / (2 * slots) - own / most, 0))


def _noise(of: ItemContributions, agent: int, *, most: int) -> float:
    """Σ_j p_j²·within·(1/n_j − 1/most), 0 where nothing tells it."""
    n, p = of.n_trials[agent], of.weight[agent]
    left = np.maximum(np.divide(1, n, out=np.zeros(len(n)), where=n > 0) - 1 / most, 0)
    return float(np.nan_to_num(of.within[agent]) * (p**2 * left).sum())
