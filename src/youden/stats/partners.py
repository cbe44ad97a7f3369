"""Partners that do not all count alike: pairs that agree far beyond their abilities, and abilities by weighted partners.

Two honest agents may be alike, and two good ones agree; a pair is linked only where both its agreement and its residual from
a_i + a_k are extreme. What honest agents reach, over half pools of four recorded domains: a residual of .57, and then an
agreement of at most .60. The two bars on answers that are few, `RESIDUAL` and `SURE`, were chosen on yes/no answers of these
domains at 1 to 5 % of the calls (`benchmarks/robust.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array

from youden.errors import StatisticsError
from youden.stats.base.clusters import (
    Blocks,
    CentredCovariance,
    PairBlock,
    covariance_of_blocks,
    effects_of_pairs,
)
from youden.types.pool import Bools, Floats, Ids, Positions, ReadOnly


@dataclass(frozen=True, eq=False)
class PairMeans(ReadOnly):
    """Every two agents, symmetric, float[K, K] each.

    mean: of their answers, NaN where they never met, and on the diagonal; error: its standard error; n: answers behind it.
    """

    mean: Floats
    error: Floats
    n: Floats

    @property
    def met(self) -> Bools:
        """Which two were compared: bool[K, K]."""
        return np.asarray(self.n > 0)


class PairTotals:
    """Sums of answers by ordered pair of agents, with their item's own mean taken off: blocks of other items add up.

    total, times, squares, rows: float[K, K], Σwy, Σw, Σwy² and the number of rows.
    """

    def __init__(self, n_agents: int) -> None:
        self.total, self.times, self.squares, self.rows = np.zeros((4, n_agents, n_agents))
        self._whole = 0.0

    @classmethod
    def of(cls, blocks: Iterable[PairBlock], n_agents: int) -> PairTotals:
        """Of some blocks.

        >>> one, other, item = np.array([0, 1]), np.array([1, 0]), np.array([0, 0])
        >>> block = PairBlock(one, other, item, np.array([1.0, 0.5]), np.ones(2), np.zeros(2), n_items=1)
        >>> found = PairTotals.of([block], n_agents=2).means
        >>> found.mean.tolist(), found.n.tolist()
        ([[nan, 0.75], [0.75, nan]], [[0.0, 2.0], [2.0, 0.0]])
        """
        made = cls(n_agents)
        for block in blocks:
            made.add(block)
        return made

    def add(self, block: PairBlock) -> None:
        """A block's."""
        K, weight, y = len(self.times), block.weight, _off_item(block)
        pair = block.first.astype(np.int64) * K + block.second

        def of_pairs(column: Floats | Bools) -> Floats:
            return np.asarray(np.bincount(pair, column, K * K).reshape(K, K))

        self.total += of_pairs(weight * y)
        self.times += of_pairs(weight)
        self.squares += of_pairs(weight * y**2)
        self.rows += of_pairs(weight > 0)
        self._whole += float((weight * block.value).sum())

    @property
    def middle(self) -> float:
        """The mean of all answers."""
        n = float(self.times.sum())
        return self._whole / n if n else 0.0

    @property
    def means(self) -> PairMeans:
        """Means of both orders, after the item's own mean was taken off and the mean of all put back.

        error = √(max(v, v_i, v_k)/n), v the variance of answers around their pair's mean, v_i that among i's pairs: what an
        answer varies by is told from all of an agent's pairs, since two that always agree do not vary.
        """
        total, n, squares, rows = (sums + sums.T for sums in (self.total, self.times, self.squares, self.rows))
        mean = np.divide(total, n, out=np.full(n.shape, np.nan), where=n > 0)
        around = np.where(n > 0, np.maximum(squares - n * np.nan_to_num(mean) ** 2, 0), 0.0)
        return _with_errors(mean + self.middle, n, rows, around)


def _off_item(block: PairBlock) -> Floats:
    """A block's answers less their item's mean: float[R]."""
    of_item = np.maximum(np.bincount(block.item, block.weight), np.finfo(np.float64).tiny)
    return np.asarray(block.value - (np.bincount(block.item, block.weight * block.value) / of_item)[block.item])


def _with_errors(mean: Floats, n: Floats, rows: Floats, squares: Floats) -> PairMeans:
    """squares: of answers around their pair's mean."""
    K = len(n)
    freedom = np.maximum(rows - 1, 0) * np.divide(n, rows, out=np.zeros((K, K)), where=rows > 0)
    whole = float(squares.sum() / max(freedom.sum(), 1.0))
    own = np.divide(squares.sum(axis=1), freedom.sum(axis=1), out=np.full(K, whole), where=freedom.sum(axis=1) > 0)
    spread = np.maximum(whole, np.maximum(own[:, None], own))
    return PairMeans(mean, np.sqrt(np.divide(spread, n, out=np.full((K, K), np.nan), where=n > 0)), n)


TUKEY = 4.685
"""Tukey's biweight leaves a pair out from this many standard deviations on: 95 % efficient where nothing is wrong."""
_MAD = 1.4826
_TURNS = 60
_LEAST = 1e-3


def _pair_effects(of: PairMeans) -> Floats:
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
class LinkedPairs(ReadOnly):
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

    @property
    def clusters(self) -> tuple[tuple[int, ...], ...]:
        """Agents of each cluster of two or more, the largest first."""
        found = [tuple(np.flatnonzero(self.cluster == c).tolist()) for c in np.unique(self.cluster)]
        return tuple(sorted((c for c in found if len(c) > 1), key=lambda c: (-len(c), c)))


def linked_pairs(of: PairMeans, *, known: Bools | None = None) -> LinkedPairs:
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
    effect = _pair_effects(of)
    residual = np.where(of.met, of.mean - effect[:, None] - effect, np.nan)
    off = np.triu(of.met, 1)
    if K < FEWEST or off.sum() <= K:
        nothing = np.zeros((K, K), dtype=np.bool_)
        return LinkedPairs(effect, residual, np.full((K, K), np.nan), np.nan, nothing, known, _components(known))
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
    return LinkedPairs(effect, residual, needed, agreement, suspected & ~linked, linked, _components(linked))


def _components(linked: Bools) -> Ids:
    from scipy.sparse.csgraph import connected_components

    _, label = connected_components(coo_array(linked), directed=False)
    first = np.full(len(linked), len(linked))
    np.minimum.at(first, label, np.arange(len(linked)))
    return np.asarray(first[label], dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Partners(ReadOnly):
    """weight: float[K, K] ≥ 0, how much agent k (column) counts where agent i (row) is scored, 0 on the diagonal.

    importance: float[K], how much k counts in general.
    """

    weight: Floats
    importance: Floats


def all_partners(n_agents: int) -> Partners:
    """Everybody scores everybody else alike, as the plain ranking has it."""
    return Partners(1.0 - np.eye(n_agents), np.ones(n_agents))


def group_balanced(group: Ids) -> Partners:
    """Agents of one group do not score each other, and count together as one partner.

    group: int[K], of clusters or families.

    Raises: StatisticsError [one-group] where all agents are of one group.

    >>> group_balanced(np.array([0, 0, 1])).weight
    array([[0. , 0. , 1. ],
           [0. , 0. , 1. ],
           [0.5, 0.5, 0. ]])
    """
    _, label, size = np.unique(group, return_inverse=True, return_counts=True)
    if len(size) < 2:
        raise StatisticsError(
            f"All {len(group)} agents are of one group, so nobody is left to score them. Name two groups or more.",
            slug="one-group",
        )
    importance = 1.0 / size[label]
    return Partners(np.where(label[:, None] == label, 0.0, importance), importance)


def panel(trusted: Bools) -> Partners:
    """Everybody is scored by the trusted agents alone, and these by each other. trusted: bool[K].

    Raises: StatisticsError [panel-small] with fewer than 2 agents.
    """
    if trusted.sum() < 2:
        raise StatisticsError(
            f"A panel of {int(trusted.sum())} cannot score its own members. Trust 2 agents or more.", slug="panel-small"
        )
    weight = np.tile(trusted.astype(np.float64), (len(trusted), 1))
    np.fill_diagonal(weight, 0.0)
    return Partners(weight, trusted.astype(np.float64))


@dataclass(frozen=True, eq=False)
class Reweighted(ReadOnly):
    """ability: float[K], on the scale of a mean over K − 1 partners, NaN for whom nobody that counts has scored.

    effect: float[K], the a_i behind it; covariance: over items, of the θ_i − θ̄.
    """

    ability: Floats
    effect: Floats
    covariance: CentredCovariance


def reweighted(blocks: Blocks, of: PairTotals, partners: Partners) -> Reweighted:
    """a solves Σ_k W_ik Σ_{t of i and k} w_t (y_t − a_i − a_k) = 0 for each i, y less its item's mean; θ_i = (K−2)/(K−1)·a_i + c.

    c = K/(K−1) times the mean of a, agents weighing by their importance. With all partners alike this is the mean over partners.
    What partners an agent has moves it no more than they are worth: their own effects are taken off. Items enter by
    what each does to the a_i, carried through the equations.

    blocks: all answers, each time it is called; of: their sums.

    Raises: StatisticsError [partners-none], [cluster-agents].
    """
    K = len(partners.importance)
    times, total = of.times + of.times.T, of.total + of.total.T
    weight = partners.weight * times
    whole = weight.sum(axis=1)
    scored = whole > 0
    if scored.sum() < 3:
        raise StatisticsError(
            f"{int(scored.sum())} agents were compared with partners that count; abilities need 3. Let more partners count, or "
            "judge more pairs.",
            slug="partners-none",
        )
    # what an answer of i and k is worth to i
    worth = np.divide(partners.weight, whole[:, None], out=np.zeros((K, K)), where=scored[:, None])
    inverse = np.linalg.pinv(worth * times + np.diag(scored * 1.0), rcond=1e-8)
    effect = inverse @ (worth * (total + of.middle * times)).sum(axis=1)
    stretch = (K - 2) / (K - 1)
    known = scored * partners.importance
    level = K / (K - 1) * float(known @ effect / known.sum()) if known.any() else 0.0
    ability = np.where(scored, stretch * effect + level, np.nan)

    def of_items() -> Iterator[list[Floats]]:
        """By agent and item, float[K, B]: what the item does to all, its share in the agent's weight, its answers that count."""
        for block in blocks():
            i, k = np.append(block.first, block.second), np.append(block.second, block.first)
            cell, share = (
                i.astype(np.int64) * block.n_items + np.tile(block.item, 2),
                worth[i, k] * np.tile(block.weight, 2),
            )
            left = np.tile(_off_item(block) + of.middle, 2) - effect[i] - effect[k]
            columns = (share * left, share, np.tile(block.weight, 2) * (share > 0))
            sums = (np.bincount(cell, one, K * block.n_items).reshape(K, block.n_items) for one in columns)
            yield [np.asarray(one, dtype=np.float64) for one in sums]

    n_clusters, squares, size = np.zeros(K, dtype=np.int64), np.zeros(K), np.zeros(K)
    for _, share, n in of_items():
        n_clusters += (share > 0).sum(axis=1)
        squares += (share**2).sum(axis=1)
        size += (share**2 / np.maximum(n, 1)).sum(axis=1)
    carried = np.where(scored[:, None], stretch * inverse, 0.0)
    covariance = covariance_of_blocks(
        ((carried @ moved, share) for moved, share, _ in of_items()),
        n_clusters=n_clusters,
        share_squares=squares,
        size=np.where(size > 0, size, 1.0),
    )
    return Reweighted(ability, np.where(scored, effect, np.nan), covariance)
