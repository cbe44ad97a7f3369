"""What two agents' answers say of them as a pair: how often they agree, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.nouns.arrays import Bools, Floats, Ids, freeze
from youden.stats.base.validation import check_trials


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
