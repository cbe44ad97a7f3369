"""What each item contributes to abilities that are means of trials, and how sure differences therefore are: on items of
this kind, or against all answers on *these items*.

An item is one draw. What it does to both agents cancels; what it does to one alone is counted however often the item
was asked. On these items, what a balanced plan averages out is no error: a cyclic plan asks items and ordered pairs
almost equally often, and what an agent has of its own on an item, or two agents as a pair, then falls out of the mean
as far as that goes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from youden.errors import StatisticsError
from youden.nouns.cells import CellIndex, touched_cells
from youden.nouns.pool import Floats, Ids, Positions, freeze
from youden.stats.base.clusters import NOTHING, PRIOR_CLUSTERS, CentredCovariance, covariance_over_clusters
from youden.stats.base.estimator import check_trials

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


_PRIOR_PRODUCTS = 100
"""An agent's own parts are shrunk as if the average ones had been seen in this many products more."""
_ENOUGH = 2
"""Products of one ordered pair on two items, in number of agents, below which the pairs' part is not told from chance."""


def covariance_on_these_items(
    first: Ids,
    second: Ids,
    item: Ids,
    slot: Ids,
    answer: Floats,
    *,
    ability: Floats,
    first_weight: Floats,
    second_weight: Floats,
    n_items: int,
) -> CentredCovariance:
    """C of `covariance_over_clusters` by slot, correlations kept, its variances v_i made

    l_i·(τ²_i − σ²c_i − σ²g_i)/n_i + σ²c_i·Σ_j(w_ij − 1/J)² + σ²g_i·(Σ_p w_ip² − 1/P), at least l_i·v_i/4 and at most v_i;
    l_i = 1 − n_i/(PJ + 1)·(Σwe²/Σw)/(Σw²e²/Σw²), n_i = (Σw)²/Σw², P = 2(K−1); w_ij, w_ip: shares of item j, of ordered pair p.
    τ²_i: Σw²e²/Σw² over i's residuals e, shrunk as v_i is. σ²c_i: mean product of i's two residuals of a slot, σ²g_i: of those
    of one ordered pair of i's on two items, both shrunk to τ²_i/τ̄² times the average. v_i·n_i is τ²_i + σ²c_i on average, and
    also holds what two pairs of a shift have in common by chance, again in each slot of that shift. σ²g_i is 0 where fewer than
    2K products of pairs exist: what pairs have of their own then counts as chance. Plain form, l_i·v_i: where no slot holds an
    agent twice.

    Residuals as in `trial_mean`, centred in their slot. first, second, item: int[T]; slot: int[T] ≥ 0; answer: float[T], no NaN;
    ability: float[K], their weighted means, NaN without a trial; weights: float[T] ≥ 0, what a trial counts for its first and
    its second agent.

    Raises: StatisticsError [trial-columns], [trial-answer], [slot-missing] for a trial without a slot, [cluster-agents].
    Source: none in the paper; project statistics, designs over calls.
    """
    check_trials(first, second, item, slot, answer=answer)
    if (slot < 0).any():
        raise StatisticsError(
            f"{int((slot < 0).sum())} of {len(slot)} trials have no slot. Take the covariance of cells for such a plan.",
            slug="slot-missing",
        )
    K, J = len(ability), n_items
    _, place = np.unique(slot, return_inverse=True)
    e = _residuals(first, second, place, answer, ability=ability)
    agent, w = np.append(first, second).astype(np.int64), np.append(first_weight, second_weight)
    total = np.bincount(agent, w, K)
    whole = np.where(total > 0, total, 1.0)
    n = np.maximum(total**2 / np.maximum(np.bincount(agent, w**2, K), np.finfo(np.float64).tiny), 1)

    def by(column: Ids | Positions, size: int, values: Floats) -> Floats:
        cell = agent * size + np.tile(column, 2)
        return np.asarray(np.bincount(cell, values, K * size).reshape(K, size) / whole[:, None])

    S, twice = int(place.max(initial=-1)) + 1, np.tile(e, 2)
    found = covariance_over_clusters(by(place, S, w * twice), by(place, S, w), size=1 / n)
    variance = np.diag(found.covariance)
    P = 2 * max(int((total > 0).sum()) - 1, 1)
    by_weight, by_square = _mean_square(agent, twice, w, K), _mean_square(agent, twice, w**2, K)
    heavier = np.divide(by_weight, by_square, out=np.ones(K), where=by_square > 0)
    left = np.maximum(0.0, 1 - n * heavier / (P * J + 1))
    a_trial = _variance_of_a_trial(by_square, freedom=found.freedom)
    parts = _parts(first, second, place, e, relative=a_trial / max(float(np.nanmean(a_trial)), NOTHING))
    if parts is None:
        return found.scaled(left)
    # i first and i second are two ordered pairs: partners of the second kind are numbered from K
    with_partner = np.bincount(agent * 2 * K + np.append(second, first + K), w, 2 * K * K).reshape(K, 2 * K)
    of_item = ((by(item, J, w) - 1 / J) ** 2).sum(axis=1)
    of_pair = np.maximum(((with_partner / whole[:, None]) ** 2).sum(axis=1) - 1 / P, 0)
    remaining = left * (a_trial - parts.cell - parts.pair) / n + parts.cell * of_item + parts.pair * of_pair
    return found.scaled(np.clip(remaining / variance, left / 4, 1))


def _residuals(first: Ids, second: Ids, place: Positions, answer: Floats, *, ability: Floats) -> Floats:
    K = int((~np.isnan(ability)).sum())
    effect = np.nan_to_num((K - 1) / max(K - 2, 1) * (ability - np.nanmean(ability)))
    r = answer - effect[first] - effect[second]
    return np.asarray(r - (np.bincount(place, r) / np.bincount(place))[place])


def _mean_square(agent: Positions, e: Floats, weight: Floats, n_agents: int) -> Floats:
    total = np.maximum(np.bincount(agent, weight, n_agents), np.finfo(np.float64).tiny)
    return np.asarray(np.bincount(agent, weight * e**2, n_agents) / total)


def _variance_of_a_trial(own: Floats, *, freedom: Floats) -> Floats:
    """Agents' mean squared residuals, shrunk to that of all as variances by slot are, NaN where they are: float[K]."""
    n_slots = freedom - PRIOR_CLUSTERS + 1
    own = own * n_slots / (n_slots - 1)
    return np.asarray((own * (n_slots - 1) + PRIOR_CLUSTERS * np.nanmean(own)) / freedom)


class _Parts(NamedTuple):
    """Variances: float[K] each, of what an agent has of its own on an item, and as one of an ordered pair; both ≥ 0."""

    cell: Floats
    pair: Floats


def _parts(first: Ids, second: Ids, place: Positions, e: Floats, *, relative: Floats) -> _Parts | None:
    """None where no slot holds an agent twice; no pairs' part where too few products tell it. relative: float[K], τ²_i/τ̄²."""
    K, size = len(relative), np.bincount(place)
    agent = np.append(first, second).astype(np.int64)
    S = len(size)
    cell, n_cell = _products(agent * S + np.tile(place, 2), np.tile(e, 2), K * S)
    pair, n_pair = (table.reshape(K, K) for table in _products(first.astype(np.int64) * K + second, e, K * K))
    if not n_cell.any():
        return None
    # centring makes two residuals of a slot of m trials differ by −variance/m on average
    centring = float((e**2).mean() * (1 / size).mean())
    own = _shrunk(cell.reshape(K, S).sum(axis=1), n_cell.reshape(K, S).sum(axis=1), relative, more=centring)
    if n_pair.sum() < _ENOUGH * K:
        return _Parts(own, np.zeros(K))
    both = _shrunk(pair.sum(axis=0) + pair.sum(axis=1), n_pair.sum(axis=0) + n_pair.sum(axis=1), relative, more=0.0)
    return _Parts(own, both)


def _products(group: Positions, e: Floats, n_groups: int) -> tuple[Floats, Floats]:
    """Sum of the products of every two residuals of a group, and their number: float[n_groups] each."""
    n = np.bincount(group, minlength=n_groups).astype(np.float64)
    return (np.bincount(group, e, n_groups) ** 2 - np.bincount(group, e**2, n_groups)) / 2, n * (n - 1) / 2


def _shrunk(total: Floats, n: Floats, relative: Floats, *, more: float) -> Floats:
    average = max(0.0, float(total.sum() / n.sum()) + more)
    own = total + n * more + _PRIOR_PRODUCTS * average * np.nan_to_num(relative)
    return np.asarray(np.maximum(own / (n + _PRIOR_PRODUCTS), 0.0))
