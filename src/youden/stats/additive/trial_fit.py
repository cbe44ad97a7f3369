"""Abilities from trials that were not balanced: agents' and items' effects fitted together, with errors by item.

A cell's score is a mean over the partners that it met. Where it met few, their abilities are in it, and a fit of cells draws
agents together. A fit of trials knows who met whom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import coo_array

from youden.stats.base.clusters import (
    NOTHING,
    Blocks,
    CentredCovariance,
    ItemMoves,
    PairBlock,
    by_cell,
    by_level,
    covariance_of_blocks,
)
from youden.types.pool import Bools, Floats, Positions

_OPEN = 1e-9
"""An eigenvalue below this share of the largest is a direction that no trial tells."""
_EXACT = 1e-9
"""A trial of leverage above 1 − this is fitted exactly whatever its answer."""


_SPARSE = 32
"""Sums by agent and level are kept sparse where there are more of them than this for each trial."""
_PRIOR_PRODUCTS = 100
"""An agent's own part on items is shrunk as if the average one had been seen in this many products more."""


@dataclass(frozen=True, eq=False)
class TrialFit:
    """ability: float[K], centred, NaN for an agent without a trial; weight: float[K], of its trials; covariance: of the θ_i − θ̄,
    for items like these. left: float[K], the share of its variances that is left on these items. moves: what items do, in blocks.
    item_level: float[J], what the average agent scores on an item, NaN where nobody was asked.
    """

    ability: Floats
    item_level: Floats
    weight: Floats
    covariance: CentredCovariance
    left: Floats
    moves: Callable[[], Iterator[ItemMoves]]


def trial_fit(blocks: Blocks, *, n_agents: int, n_items: int) -> TrialFit | None:
    """θ = (K−2)/(K−1)·a of y ≈ a_first + a_second + b_level by least squares; None where trials do not link all agents.

    An ability is a mean over the other agents, hence the factor. With z = x − x̄_level the contrasts of a trial, M = Σw·zzᵀ, P its
    inverse on centred effects and h = w(1/m_level + zᵀPz): U_ij = (K−2)/(K−1)·Σ_k P_ik E_kj, E_kj the sum over k's trials on j of
    w·e/√(1 − h); the covariance is `covariance_of_blocks` of U by item.

    left: (σ²c(Σ_j p_ij² − 1/J) + (σ²n − φ)(1/n_i − 1/(PJ + 1)) + φ/n_i) / (σ²cΣ_j p_ij² + σ²n/n_i), each at least 0: p_ij the
    item's share in i's weight, n_i = (Σw)²/Σw², P = 2(K−1); σ²c the mean product of an agent's residuals on one item, σ²n what
    else residuals vary by, φ the variance of rates that were drawn: to ask every pair does not take it away.

    blocks: all answers, each time it is called. n_items: J, items that might be asked.

    Source: none in the paper; project statistics.
    """
    sums = _sums(blocks(), n_agents)
    seen = sums.weight > 0
    K = int(seen.sum())
    if K < 3 or (sums.n_clusters[seen] >= 2).sum() < 2:
        return None
    value, vector = eigh(sums.normal[np.ix_(seen, seen)], check_finite=False)
    told = value > _OPEN * value[-1]
    if told.sum() < K - 1:
        return None
    inverse = np.zeros((n_agents, n_agents))
    inverse[np.ix_(seen, seen)] = (vector[:, told] / value[told]) @ vector[:, told].T
    effect = inverse @ sums.right
    shrink = (K - 2) / (K - 1)
    parts = _Parts(n_agents, n_items)
    whole = np.where(seen, sums.weight, 1.0)
    moves = partial(_moves, blocks, effect, inverse, whole=whole, shrink=shrink)
    covariance = covariance_of_blocks(
        ((one.by_item, one.weight / whole[:, None]) for one in moves(parts=parts)),
        n_clusters=sums.n_clusters,
        share_squares=sums.squares_of_items / whole**2,
        size=np.where(seen, 1 / whole, 1.0),
    )
    ability = np.where(seen, shrink * (effect - effect[seen].mean()), np.nan)
    left = parts.left(sums, whole, n_all=2 * (K - 1) * n_items, n_items=n_items)
    return TrialFit(ability, parts.item_level, sums.weight, covariance, left, moves)


@dataclass(eq=False)
class _Sums:
    """normal: M; right: float[K], Σw·z·y; weight, squares: float[K], Σw and Σw² of an agent's trials; squares_of_items:
    float[K], Σ of the squared weights of its items; n_clusters: int64[K], its items."""

    normal: Floats
    right: Floats
    weight: Floats
    squares: Floats
    squares_of_items: Floats
    n_clusters: Positions


def _sums(blocks: Iterable[PairBlock], K: int) -> _Sums:
    of = _Sums(np.zeros((K, K)), np.zeros(K), np.zeros(K), np.zeros(K), np.zeros(K), np.zeros(K, dtype=np.int64))
    for block in blocks:
        A, S = _of_levels(block, block.weight, K), _of_levels(block, block.weight * block.value, K)
        m = A.sum(axis=0) / 2
        mean = np.divide(S.sum(axis=0) / 2, m, out=np.zeros(len(m)), where=m > 0)
        pairs = np.bincount(block.first * np.int64(K) + block.second, block.weight, K * K).reshape(K, K)
        of.normal += pairs + pairs.T + np.diag(A.sum(axis=1)) - (A / np.maximum(m, np.finfo(np.float64).tiny)) @ A.T
        of.right += S.sum(axis=1) - A @ mean
        by_item = A if block.level is None else by_cell(block, block.weight, K)
        of.weight += by_item.sum(axis=1)
        of.squares += by_cell(block, block.weight**2, K).sum(axis=1)
        of.squares_of_items += (by_item**2).sum(axis=1)
        of.n_clusters += (by_item > 0).sum(axis=1)
    return of


def _moves(
    blocks: Blocks, effect: Floats, inverse: Floats, *, whole: Floats, shrink: float, parts: _Parts | None = None
) -> Iterator[ItemMoves]:
    K, own = len(effect), np.diag(inverse)
    for block in blocks():
        i, k, j, w = block.first, block.second, block.levels, block.weight
        A = _of_levels(block, w, K)
        m = np.maximum(A.sum(axis=0) / 2, np.finfo(np.float64).tiny)
        error = block.value - effect[i] - effect[k]
        level = np.bincount(j, w * error, len(m)) / m
        error = error - level[j]
        across = inverse @ (A / m)
        middle = ((A / m) * across).sum(axis=0)
        spread = own[i] + own[k] + 2 * inverse[i, k] - 2 * (across[i, j] + across[k, j]) + middle[j]
        leverage = w * (1 / m[j] + spread)
        free = leverage < 1 - _EXACT
        moving = np.where(free, w * error / np.sqrt(np.where(free, 1 - leverage, 1.0)), 0.0)
        if parts is not None:
            parts.add(block, error, free, K)
            parts.add_items(_of_items(block, level))
        E = by_cell(block, moving, K)
        yield ItemMoves(shrink * (inverse @ E), E / whole[:, None], by_cell(block, w, K))


class _Parts:
    """What residuals vary by: what an agent has of its own on an item, and the rest; and what items are fitted to."""

    def __init__(self, K: int, J: int) -> None:
        self._products, self._n_products, self._squares, self._n = np.zeros((4, K))
        self._rates = np.zeros(3)
        self._n_items, self.item_level = 0, np.full(J, np.nan)

    def add_items(self, level: Floats) -> None:
        """Of the items that follow those added before: float[B]."""
        self.item_level[self._n_items : self._n_items + len(level)] = level
        self._n_items += len(level)

    def add(self, block: PairBlock, error: Floats, free: Bools, K: int) -> None:
        kept = np.where(free & (np.abs(error) > NOTHING), error, 0.0)
        n, squares = by_cell(block, free.astype(np.float64), K), by_cell(block, kept**2, K)
        self._products += (by_cell(block, kept, K) ** 2 - squares).sum(axis=1) / 2
        self._n_products += (n * (n - 1)).sum(axis=1) / 2
        self._squares += squares.sum(axis=1)
        self._n += n.sum(axis=1)
        w = block.weight
        self._rates += w.sum(), w @ block.rate, w @ block.rate**2

    def left(self, sums: _Sums, whole: Floats, *, n_all: int, n_items: int) -> Floats:
        mean = self._squares.sum() / max(self._n.sum(), 1)
        square = np.divide(self._squares, self._n, out=np.full(len(whole), mean), where=self._n > 0)
        of_all = max(self._products.sum() / max(self._n_products.sum(), 1), 0.0)
        prior = _PRIOR_PRODUCTS * of_all * (square / mean if mean else 1.0)
        cell = np.maximum((self._products + prior) / (self._n_products + _PRIOR_PRODUCTS), 0)
        noise = np.maximum(square - cell - of_all, 0)
        whole_weight, rates, squares = self._rates.tolist()
        apart = np.minimum(max(squares / whole_weight - (rates / whole_weight) ** 2, 0.0), noise)
        of_items, of_trials = sums.squares_of_items / whole**2, sums.squares / whole**2
        not_asked = np.maximum(of_trials - 1 / (n_all + 1), 0)
        kept = cell * np.maximum(of_items - 1 / n_items, 0) + (noise - apart) * not_asked + apart * of_trials
        before = cell * of_items + noise * of_trials
        plain = np.divide(not_asked, of_trials, out=np.zeros(len(whole)), where=of_trials > 0)
        return np.asarray(np.divide(kept, before, out=plain, where=before > 0))


def _of_levels(block: PairBlock, column: Floats, K: int) -> Any:
    """`by_level`, a `csr_array` where few of the agents meet on a level: the same products and sums come of it."""
    n = 0 if block.level is None else int(block.level.max(initial=-1)) + 1
    if K * n <= _SPARSE * len(column):
        return by_level(block, column, K)
    at = np.concatenate([block.first, block.second]), np.tile(block.levels, 2)
    return coo_array((np.tile(column, 2), at), shape=(K, n)).tocsr()


def _of_items(block: PairBlock, level: Floats) -> Floats:
    """The mean level of an item's trials: float[B], NaN without one."""
    n = np.bincount(block.item, block.weight, block.n_items)
    if block.level is None:
        return np.where(n > 0, level, np.nan)
    total = np.bincount(block.item, block.weight * level[block.level], block.n_items)
    return np.asarray(np.divide(total, n, out=np.full(block.n_items, np.nan), where=n > 0))
