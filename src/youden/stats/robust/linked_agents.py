"""Which agents agree far beyond what their abilities explain: linked.

What two agents' answers say of them as a pair: how often they agree, and how sure that is.

Additive effects of agents on the means of their pairs, hardly moved by pairs that agree for other reasons.

Pairs of agents that agree far beyond their abilities, and the clusters they form.

Two honest agents may be alike, and two good ones agree; a pair is linked only where both its agreement and its residual from
a_i + a_k are extreme. What honest agents reach, over half pools of four recorded domains: a residual of .57, and then an
agreement of at most .60. The two bars on answers that are few, `RESIDUAL` and `SURE`, were chosen on yes/no answers of these
domains at 1 to 5 % of the calls (`benchmarks/robust.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array

from youden.nouns.pool import Bools, Floats, Ids, Positions, freeze
from youden.stats.base.clusters import effects_of_pairs
from youden.stats.base.estimator import check_trials


@dataclass(frozen=True, eq=False)
class PairMeans:
    """Every two agents, symmetric, float[K, K] each.

    mean: of their answers, NaN where they never met, and on the diagonal; error: its standard error; n: answers behind it.
    """

    mean: Floats
    error: Floats
    n: Floats

    def __post_init__(self) -> None:
        freeze([self.mean, self.error, self.n])

    @property
    def met(self) -> Bools:
        """Which two were compared: bool[K, K]."""
        return np.asarray(self.n > 0)


def pair_means(first: Ids, second: Ids, item: Ids, value: Floats, *, weight: Floats, n_agents: int) -> PairMeans:
    """Means of both orders, after the item's own mean was taken off and the mean of all put back.

    error = √(max(v, v_i, v_k)/n), v the variance of answers around their pair's mean, v_i that among i's pairs: what an answer
    varies by is told from all of an agent's pairs, since two that always agree do not vary.

    first, second, item: int[T]; value: float[T], answers or rates; weight: float[T] ≥ 0, how many answers a row stands for.

    Raises: StatisticsError [trial-columns], [trial-answer].

    >>> one, other, item = np.array([0, 1]), np.array([1, 0]), np.array([0, 0])
    >>> found = pair_means(one, other, item, np.array([1.0, 0.5]), weight=np.ones(2), n_agents=2)
    >>> found.mean.tolist(), found.n.tolist()
    ([[nan, 0.75], [0.75, nan]], [[0.0, 2.0], [2.0, 0.0]])
    """
    check_trials(first, second, item, answer=value)
    K = n_agents
    value = value - item_effects(item, value, weight)
    pair = np.append(first, second).astype(np.int64) * K + np.append(second, first)

    def summed(column: Floats) -> Floats:
        return np.bincount(pair, np.tile(column, 2), K * K).reshape(K, K).astype(np.float64)

    n, rows = summed(weight), summed((weight > 0).astype(np.float64))
    mean = np.divide(summed(weight * value), n, out=np.full((K, K), np.nan), where=n > 0)
    squares = summed(weight * (value - mean[first, second]) ** 2)
    return _with_errors(mean, n, rows, squares)


def pair_means_of_sums(total: Floats, times: Floats, squares: Floats, rows: Floats, *, middle: float) -> PairMeans:
    """`pair_means` from float[K, K] by ordered pair, of answers with their item's own mean taken off: Σwy, Σw, Σwy² and the
    number of rows; middle: the mean of all answers, weighted."""
    total, n, squares, rows = (column + column.T for column in (total, times, squares, rows))
    mean = np.divide(total, n, out=np.full(n.shape, np.nan), where=n > 0)
    around = np.where(n > 0, np.maximum(squares - n * np.nan_to_num(mean) ** 2, 0), 0.0)
    return _with_errors(mean + middle, n, rows, around)


def _with_errors(mean: Floats, n: Floats, rows: Floats, squares: Floats) -> PairMeans:
    """squares: of answers around their pair's mean."""
    K = len(n)
    freedom = np.maximum(rows - 1, 0) * np.divide(n, rows, out=np.zeros((K, K)), where=rows > 0)
    whole = float(squares.sum() / max(freedom.sum(), 1.0))
    own = np.divide(squares.sum(axis=1), freedom.sum(axis=1), out=np.full(K, whole), where=freedom.sum(axis=1) > 0)
    spread = np.maximum(whole, np.maximum(own[:, None], own))
    return PairMeans(mean, np.sqrt(np.divide(spread, n, out=np.full((K, K), np.nan), where=n > 0)), n)


def item_effects(item: Ids, value: Floats, weight: Floats) -> Floats:
    """How far the mean of a row's item lies above the mean of all rows: float[T]."""
    total = np.maximum(np.bincount(item, weight), np.finfo(np.float64).tiny)
    middle = float((weight * value).sum() / max(weight.sum(), np.finfo(np.float64).tiny))
    return np.asarray((np.bincount(item, weight * value) / total)[item] - middle)


TUKEY = 4.685
"""Tukey's biweight leaves a pair out from this many standard deviations on: 95 % efficient where nothing is wrong."""
_MAD = 1.4826
_TURNS = 60
_LEAST = 1e-3


def pair_effects(of: PairMeans) -> Floats:
    """a of m_ik ≈ a_i + a_k over pairs that met, by least absolute deviations, then Tukey's biweight: float[K].

    Pairs weigh by 1/(error² + τ²), τ what pairs vary by beyond their sampling. Reweighted least squares; absolute deviations
    come first, for their fit has one minimum, whatever a few agents agreed on. An agent that met nobody is 0.

    Source: Tukey's biweight; Holland and Welsch (1977), Communications in Statistics 6.
    """
    i, k = np.nonzero(np.triu(of.met, 1))
    K = len(of.mean)
    y, variance = of.mean[i, k], of.error[i, k] ** 2
    if not len(y):
        return np.zeros(K)
    a, w = np.zeros(K), np.ones(len(y))
    for _ in range(_TURNS // 2):
        before, a = a, _least_squares(i, k, y, w, K)
        if np.abs(a - before).max() < _LEAST:
            break
        w = 1 / np.maximum(np.abs(y - a[i] - a[k]), _LEAST)
    for _ in range(_TURNS // 2):
        e = y - a[i] - a[k]
        scale = _MAD * float(np.median(np.abs(e)))
        between = max(scale**2 - float(np.median(variance)), 0.0)
        standard = e / np.sqrt(variance + between + _LEAST**2)
        wide = max(_MAD * float(np.median(np.abs(standard))), _LEAST)
        part = np.clip(standard / (TUKEY * wide), -1, 1)
        before, a = a, _least_squares(i, k, y, (1 - part**2) ** 2 / (variance + between + _LEAST**2), K)
        if np.abs(a - before).max() < _LEAST / 100:
            break
    return a


def _least_squares(i: Positions, k: Positions, y: Floats, w: Floats, K: int) -> Floats:
    weight = np.zeros((K, K))
    np.add.at(weight, (i, k), w)
    weight += weight.T
    total = np.bincount(i, w * y, K) + np.bincount(k, w * y, K)
    return effects_of_pairs(weight, total.astype(np.float64))


RESIDUAL = 0.5
"""A pair is not linked below this residual, however like each other all others are."""
SPREADS = 4.0
"""Nor below this many times the median absolute residual, what sampling adds to it taken off."""
ERRORS = 4.5
"""Nor below this many standard errors of its own mean."""
QUANTILE = 0.7
"""Nor where its agreement lies below this quantile of pairs whose residual is no more than usual, or below `AGREEMENT`."""
AGREEMENT = 0.7
"""The most that is asked of the agreement: where all agree on nearly everything, a copy with faults stays below the quantile."""
SLACK, SURE = 0.1, 2.5
"""The agreement has to lie this many standard errors above the bar less the slack, errors of answers that are yes or no with
that chance: few answers prove no agreement."""
FEWEST = 5
"""With fewer agents a residual says nothing: 4 agents have 6 pairs and 4 effects."""
_MAD_OF_LINKS = 0.6745


@dataclass(frozen=True, eq=False)
class Linked:
    """Which pairs are linked, and why.

    effect: float[K], a_i; residual: float[K, K], NaN where two never met; needed: float[K, K], the residual it takes; agreement:
    the bar for a pair's mean, NaN with fewer than 5 agents. suspected: bool[K, K], extreme as far as few answers tell, but not
    linked; linked: bool[K, K]; cluster: int32[K], components of the links, numbered by their first agent.
    """

    effect: Floats
    residual: Floats
    needed: Floats
    agreement: float
    suspected: Bools
    linked: Bools
    cluster: Ids

    def __post_init__(self) -> None:
        freeze([self.effect, self.residual, self.needed, self.suspected, self.linked, self.cluster])

    @property
    def clusters(self) -> tuple[tuple[int, ...], ...]:
        """Agents of each cluster of two or more, the largest first."""
        found = [tuple(np.flatnonzero(self.cluster == c).tolist()) for c in np.unique(self.cluster)]
        return tuple(sorted((c for c in found if len(c) > 1), key=lambda c: (-len(c), c)))


def linked_pairs(of: PairMeans, *, known: Bools | None = None) -> Linked:
    """Links i and k where m_ik − a_i − a_k > max(.5, 4 MAD, 4.5 errors) and m_ik is above the 70th percentile of usual pairs.

    That percentile counts as .7 where it is more.

    known: bool[K, K], pairs linked for other reasons, such as clones told by their texts.

    >>> mean = np.full((12, 12), 0.2)
    >>> mean[0, 1] = mean[1, 0] = 1.0
    >>> linked_pairs(PairMeans(mean, np.full((12, 12), 0.01), 1.0 - np.eye(12))).clusters
    ((0, 1),)
    """
    K = len(of.mean)
    known = np.zeros((K, K), dtype=np.bool_) if known is None else (known | known.T) & ~np.eye(K, dtype=np.bool_)
    effect = pair_effects(of)
    residual = np.where(of.met, of.mean - effect[:, None] - effect, np.nan)
    off = np.triu(of.met, 1)
    if K < FEWEST or off.sum() <= K:
        nothing = np.zeros((K, K), dtype=np.bool_)
        return Linked(effect, residual, np.full((K, K), np.nan), np.nan, nothing, known, _components(known))
    spread = float(np.median(np.abs(residual[off])) ** 2 - _MAD_OF_LINKS**2 * np.median(of.error[off] ** 2))
    usual = SPREADS * np.sqrt(max(spread, 0.0))
    error = np.where(of.met, of.error, 0.0)
    least = max(RESIDUAL, usual)
    needed = np.maximum(least, ERRORS * error)
    ordinary = of.mean[off & (residual <= least)]
    agreement = min(AGREEMENT, float(np.quantile(ordinary, QUANTILE))) if len(ordinary) else AGREEMENT
    mean, beyond = np.where(of.met, of.mean, -np.inf), np.where(of.met, residual, -np.inf)
    below = max(agreement - SLACK, 0.0)
    chance = np.sqrt(below * (1 - below) / np.maximum(of.n, 1))
    found = (beyond > needed) & (mean > agreement) & (mean > below + SURE * np.maximum(error, chance))
    suspected = (beyond > least) & (mean + error > agreement)
    linked = found | known
    return Linked(effect, residual, needed, agreement, suspected & ~linked, linked, _components(linked))


def _components(linked: Bools) -> Ids:
    from scipy.sparse.csgraph import connected_components

    _, label = connected_components(coo_array(linked), directed=False)
    first = np.full(len(linked), len(linked))
    np.minimum.at(first, label, np.arange(len(linked)))
    return np.asarray(first[label], dtype=np.int32)
