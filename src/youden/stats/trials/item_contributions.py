"""What each item contributes to abilities, and how sure the difference of two agents therefore is on items of this kind.

An item is one draw. What it does to both agents cancels; what it does to one alone is counted however often the item was
asked. So the error is about more items of the kind, not about these alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from youden.errors import StatisticsError
from youden.nouns.arrays import Floats, Ids, Positions, freeze
from youden.nouns.cells import CellIndex, touched_cells

_PRIOR_ITEMS = 6


@dataclass(frozen=True, eq=False)
class ItemContributions:
    """ability: float[K], as given; by_item: float[K, J], U_ij = Σ_{t on j} w_it e_t / Σ_t w_it, 0 where unseen.

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


@dataclass(frozen=True, eq=False)
class ContributionCells:
    """`ItemContributions` of the cells that trials touch, as columns: by_item, weight, n_trials are float[N] here."""

    cells: CellIndex
    ability: Floats
    by_item: Floats
    weight: Floats
    n_trials: Floats
    within: Floats

    def __post_init__(self) -> None:
        freeze([self.ability, self.by_item, self.weight, self.n_trials, self.within])

    def matrices(self) -> ItemContributions:
        by_item, weight, n_trials = (
            self.cells.matrix(column, empty=0.0) for column in (self.by_item, self.weight, self.n_trials)
        )
        return ItemContributions(self.ability, by_item, weight, n_trials, self.within)


class Difference(NamedTuple):
    """value: θ_new − θ_old; own + noise: its variance over items of the kind; n_items: that hold a trial of either.

    own: what the items themselves differ in; noise: what more trials on the same items take away.
    """

    value: float
    own: float
    noise: float
    n_items: int


def item_contributions(
    first: Ids,
    second: Ids,
    item: Ids,
    answer: Floats,
    *,
    ability: Floats,
    first_weight: Floats,
    second_weight: Floats,
    n_items: int,
) -> ContributionCells:
    """e = r − r̄_item, r = y − (K−1)/(K−2)·((θ_i−θ̄)+(θ_k−θ̄)), summed by agent and item: the cells that trials touch.

    An ability is a mean over the other agents, hence the factor.
    first, second, item: int[T]; answer: float[T], no NaN; ability: float[K], a linear estimate, NaN where there is none; weights:
    float[T] ≥ 0, what a trial counts for its first and its second agent in it.

    Raises: StatisticsError [difference-agents] with fewer than 3 agents that have an ability.
    """
    n_agents, K = len(ability), int((~np.isnan(ability)).sum())
    if K < 3:
        raise StatisticsError(
            f"{K} agents have abilities; to compare two takes 3. Judge more agents.", slug="difference-agents"
        )
    effect = np.nan_to_num((K - 1) / (K - 2) * (ability - np.nanmean(ability)))
    residual = answer - effect[first] - effect[second]
    times = np.maximum(np.bincount(item, minlength=n_items), 1)
    residual = residual - (np.bincount(item, residual, n_items) / times)[item]
    cells, rows = touched_cells(item, first, second, n_agents=n_agents, n_items=n_items)
    sides = list(zip(rows, (first_weight, second_weight), strict=True))

    def summed(of: Callable[[Floats], Floats]) -> Floats:
        return np.asarray(sum(np.bincount(row, of(w), len(cells)) for row, w in sides), dtype=np.float64)

    def of_agents(column: Floats) -> Floats:
        return np.asarray(np.bincount(cells.agent, column, n_agents), dtype=np.float64)

    share = summed(lambda w: w)
    whole = np.maximum(of_agents(share), np.finfo(np.float64).tiny)[cells.agent]
    n = summed(lambda w: np.asarray(w > 0, dtype=np.float64))
    squares = summed(lambda w: residual**2 * (w > 0))
    squares -= np.divide(summed(lambda w: residual * (w > 0)) ** 2, n, out=np.zeros(n.shape), where=n > 0)
    freedom = of_agents(np.maximum(n - 1, 0))
    within = np.divide(of_agents(squares), freedom, out=np.full(n_agents, np.nan), where=freedom > 0)
    by_item = summed(lambda w: w * residual)
    return ContributionCells(cells, ability, by_item / whole, share / whole, n, np.maximum(within, 0))


def paired_difference(of: ItemContributions, new: int, old: int) -> Difference:
    """v = n/(n−1)·Σ_j (U_new,j − U_old,j)², or (v(n−1) + 6v̄)/(n+5) where that is more.

    v̄: what trials of all agents vary by, at as many trials as these two have.
    noise = (K−2)/(K−1)·Σ_i Σ_j p_ij²·within_i/n_ij over both agents, at most v, and own = v − noise. One partner in K − 1 is the
    other agent, and what both share cancels.

    Raises: StatisticsError [difference-agent] where an agent has no ability, [difference-items] with fewer than 2 items.
    """
    for agent in (new, old):
        if np.isnan(of.ability[agent]):
            raise StatisticsError(
                f"Agent number {agent} has no ability. Judge it before it is compared.", slug="difference-agent"
            )
    both = [new, old]
    seen = of.n_trials.any(axis=1)
    n = int((of.n_trials[both] > 0).any(axis=0).sum())
    if n < 2:
        raise StatisticsError(f"Both agents were seen on {n} items. A difference needs 2.", slug="difference-items")
    U, K = of.by_item[seen], int(seen.sum())
    n_trials = of.n_trials.sum(axis=1)
    a_trial = float((((U - U.mean(axis=0)) ** 2).sum(axis=1) * n_trials[seen]).sum()) / (K - 1)
    all_pairs = a_trial * float((1 / n_trials[both]).sum())
    alone = float(((of.by_item[new] - of.by_item[old]) ** 2).sum())
    shrunk = (alone * (n - 1) + _PRIOR_ITEMS * all_pairs) / (n - 1 + _PRIOR_ITEMS)
    variance = n / (n - 1) * max(alone, shrunk)
    m = np.maximum(of.n_trials[both], 1)
    noise = (K - 2) / (K - 1) * float(np.nan_to_num(of.within[both]) @ (of.weight[both] ** 2 / m).sum(axis=1))
    noise = min(noise, variance)
    return Difference(float(of.ability[new] - of.ability[old]), variance - noise, noise, n)


class Left(NamedTuple):
    """What is left of the two parts of a variance: float[n] each, 1 for all of it."""

    own: Floats
    noise: Floats


def variance_left(slots: Positions, *, now: int, n_items: int) -> Left:
    """What `slots` (int[n]) slots of a cyclic design leave of the variance at `now` slots.

    Slot s asks item s mod J: with m_j of S slots on item j, the items' own part goes with Σ(m_j/S)², the noise with 1/S.

    >>> variance_left(np.array([10, 20, 40]), now=10, n_items=20)
    Left(own=array([1. , 0.5, 0.5]), noise=array([1.  , 0.5 , 0.25]))
    """
    full, more = np.divmod(np.append(now, slots).astype(np.float64), n_items)
    squares = (n_items - more) * full**2 + more * (full + 1) ** 2
    own = squares / np.append(now, slots) ** 2.0
    return Left(own[1:] / own[0], now / slots)
