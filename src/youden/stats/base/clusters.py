"""Trials in clusters (items, or slots), and how sure centred abilities are, all together, from what each of these
independent clusters contributes to them.

A cluster is one draw: what it does to an agent is counted once, however often the agent was asked in it. Beside it
stand the additive effects of agents on their pairs, least squares for m_ik ≈ a_i + a_k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import stdtrit

from youden.errors import StatisticsError
from youden.types.pool import Bools, Floats, Ids, Positions, ReadOnly


def check_level(level: float) -> None:
    """Raises: StatisticsError [level] unless 0 < level < 1."""
    if not 0 < level < 1:
        raise StatisticsError(f"The interval's level is {level}. Give one between 0 and 1, such as 0.95.", slug="level")


def check_trials(*columns: Ids | Floats | Bools, answer: Floats) -> None:
    """Raise StatisticsError [trial-columns] unless all columns are as long as `answer`, [trial-answer] on NaN."""
    lengths = [*(len(column) for column in columns), len(answer)]
    if len(set(lengths)) > 1:
        raise uneven_columns(f"columns of {lengths} trials")
    if missing := int(np.isnan(answer).sum()):
        raise StatisticsError(
            f"{missing} of {len(answer)} answers are NaN. Give answered trials only.", slug="trial-answer"
        )


def uneven_columns(what: str) -> StatisticsError:
    """The error for trials whose columns do not fit each other."""
    return StatisticsError(
        f"Columns of one length are needed, but {what} arrived. Take both from one run.", slug="trial-columns"
    )


@dataclass(frozen=True, eq=False)
class PairBlock:
    """Answers on some items, all of these items'. first, second, item: int[R], items numbered from 0; value: float[R], no NaN;
    weight: float[R] > 0; rate: float[R], the false-positive rate that was taken off, where it was drawn for the pair, else 0.
    level: int[R], numbered from 0, what a trial has its level from, by default its item. first_weight, second_weight: bool[R],
    whether a trial tells of that agent: where all trials of a level have a partner in common, they tell nothing of it.

    Raises: StatisticsError [trial-columns], [trial-answer], [trial-item] if an item is not below `n_items`.
    """

    first: Ids
    second: Ids
    item: Ids
    value: Floats
    weight: Floats
    rate: Floats
    n_items: int
    level: Ids | None = None
    first_weight: Bools | bool = True
    second_weight: Bools | bool = True

    def __post_init__(self) -> None:
        check_trials(self.first, self.second, self.item, self.weight, self.rate, self.levels, answer=self.value)
        for flags in (self.first_weight, self.second_weight):
            if not isinstance(flags, bool):
                check_trials(flags, answer=self.value)
        if len(self.item) and not 0 <= self.item.min() <= self.item.max() < self.n_items:
            raise StatisticsError(
                f"Items must be positions below n_items: got {self.item.min()} to {self.item.max()} for {self.n_items} "
                "items. Number the items of a block from 0.",
                slug="trial-item",
            )

    @classmethod
    def of(
        cls,
        item: Ids,
        first: Ids,
        second: Ids,
        answer: Floats,
        *,
        n_items: int,
        slot: Ids | None = None,
        rows: Bools | Positions | slice = slice(None),
    ) -> PairBlock:
        """Single answers to some rows of trials; slot: what their levels are, not numbered yet."""
        value = answer[rows]
        level = None if slot is None else _from_zero(slot[rows])
        return cls(
            first[rows], second[rows], item[rows], value, np.ones(len(value)), np.zeros(len(value)), n_items, level
        )

    @property
    def levels(self) -> Ids:
        """int[R]."""
        return self.item if self.level is None else self.level


def _from_zero(slot: Ids) -> Ids:
    """Numbered anew, in their order: int32."""
    place = slot - slot.min(initial=0)
    return np.asarray((np.cumsum(np.bincount(place) > 0) - 1)[place], dtype=np.int32)


Blocks = Callable[[], Iterable[PairBlock]]


class ItemMoves(NamedTuple):
    """What a block's items do to abilities: by_item, float[K, B]; alone: float[K, B], by an agent's own trials, as if the others
    were known; weight: float[K, B], of an agent's trials on an item."""

    by_item: Floats
    alone: Floats
    weight: Floats


def by_level(block: PairBlock, column: Floats, K: int) -> Floats:
    """Sums over an agent's trials of a level, on either side: float[K, L]."""
    n = block.n_items if block.level is None else int(block.level.max(initial=-1)) + 1
    return _sums_at(block, block.levels, (column, column), K, n)


def by_cell(block: PairBlock, column: Floats, K: int) -> Floats:
    """Sums over the trials on an item that tell of an agent, on either side: float[K, B]."""
    columns = column * block.first_weight, column * block.second_weight
    return _sums_at(block, block.item, columns, K, block.n_items)


def _sums_at(block: PairBlock, at: Ids, columns: tuple[Floats, Floats], K: int, n: int) -> Floats:
    sides = zip((block.first, block.second), columns, strict=True)
    return np.asarray(
        sum(np.bincount(side * np.int64(n) + at, column, K * n) for side, column in sides), dtype=np.float64
    ).reshape(K, n)


_RIDGE = 1e-10


def effects_of_pairs(weight: Floats, total: Floats) -> Floats:
    """a that makes Σ w_ik (m_ik − a_i − a_k)² least: float[K]; the shortest one where several do, 0 for an agent that met nobody.

    weight: float[K, K], symmetric, w_ik of a pair, 0 on the diagonal and where it never met; total: float[K], Σ_k w_ik m_ik.

    >>> effects_of_pairs(np.ones((3, 3)) - np.eye(3), np.array([0.5, 0.7, 0.8])).round(6)
    array([0. , 0.2, 0.3])
    """
    normal = weight + np.diag(weight.sum(axis=1))
    least = _RIDGE * max(float(np.diag(normal).max(initial=0.0)), 1.0)
    try:
        # Pairs that never meet but across two halves leave one direction open: the ridge closes it at the shortest solution.
        found = cho_solve(
            cho_factor(normal + least * np.eye(len(normal)), check_finite=False), total, check_finite=False
        )
    except LinAlgError:
        found = np.asarray(np.linalg.lstsq(normal, total, rcond=None)[0], dtype=np.float64)
    return np.asarray(found)


PRIOR_CLUSTERS = 6
"""An agent's variance is shrunk as if the average one had been seen in this many clusters more."""
UNSEEN = 3.54
"""(ln 40 / 1.96)²: added to n clusters of which none moves an agent, so many that do make 1.96 errors reach to 1 − .025^(1/n)."""
NOTHING = 1e-6
"""What a cluster does to an agent, and a difference of abilities, below this is rounding, or the ridge of a fit with gaps."""
_STILL = 1e-5
"""Where clusters, each as if it alone counted, do less than this in the root mean square, none moves the agent."""


@dataclass(frozen=True, eq=False)
class CentredCovariance(ReadOnly):
    """covariance: float[K, K], of the θ_i − θ̄, θ̄ the mean over agents that have one, NaN for others; freedom: float[K].

    The variance of a difference θ_i − θ_k is C_ii + C_kk − 2C_ik. freedom: of Student's t, NaN without a covariance.

    Raises: StatisticsError [covariance-shape].
    """

    covariance: Floats
    freedom: Floats

    def __post_init__(self) -> None:
        n = self.freedom.size
        if self.freedom.shape != (n,) or self.covariance.shape != (n, n):
            raise StatisticsError(
                f"The covariance and the degrees of freedom do not fit: got the shapes {self.covariance.shape} and "
                f"{self.freedom.shape}. Pass arrays of the shapes (n_agents, n_agents) and (n_agents,).",
                slug="covariance-shape",
            )
        super().__post_init__()

    @property
    def error(self) -> Floats:
        """Standard errors of the θ_i − θ̄: float[K]."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    def half_width(self, level: float = 0.95) -> Floats:
        """Of the intervals of the θ_i − θ̄: float[K], NaN without one. Raises: StatisticsError [level]."""
        check_level(level)
        return np.asarray(stdtrit(self.freedom, (1 + level) / 2) * self.error)

    def scaled(self, factor: Floats) -> CentredCovariance:
        """With variances times `factor`, float[K] ≥ 0, and correlations as they are."""
        return CentredCovariance(_between(self.covariance, factor), self.freedom)

    def scaled_apart(self, factor: Floats) -> CentredCovariance:
        """With the variances of the θ_i times factors float[K] ≥ 0 that differ, and centred again; none below `scaled`.

        What is left of one agent's error is in θ̄, and so in all distances from it. The θ_i are taken to be independent on
        average: their covariance is C + tr C/(K(K−1)), K the agents that can be compared.
        """
        linked = ~np.isnan(self.covariance)
        n = np.maximum(linked.sum(axis=1), 2)
        shared = linked @ np.nan_to_num(np.diag(self.covariance)) / (n * (n - 1))
        left = np.where(linked, _between(self.covariance + shared[:, None], factor), 0.0)
        off = left.sum(axis=1) / n
        found = left - off[:, None] - off + (linked @ off / n)[:, None]
        variance, least = np.diag(found), np.diag(self.covariance) * factor
        more = np.divide(least, variance, out=np.ones(len(n)), where=variance > 0)
        return CentredCovariance(np.where(linked, _between(found, np.maximum(more, 1.0)), np.nan), self.freedom)


def covariance_over_clusters(
    contribution: Floats, share: Floats, *, size: Floats | None = None, anchors: Bools | None = None
) -> CentredCovariance:
    """C = Σ_j g_j g_jᵀ, g_ij = (U_ij − Ū_j)/√(1 − p_ij), Ū_j over agents; shrunk, and never 0.

    With n_i clusters that hold agent i, v_i = C_ii becomes (v_i(n_i − 1) + 6·s_i·mean(v/s))/(n_i + 5), and covariances go towards
    those of independent agents. Added is what no cluster has shown yet, 3.54/2·h_i/m_i²: m_i = 1/Σ_j p_ij², as many clusters of
    equal weight; h_i = `unseen_square` of the m_i·g_ij. freedom: n_i + 5.

    contribution: float[K, J], U_ij, what cluster j does to θ̂_i, 0 where it holds no trial of i; share: float[K, J], p_ij, the
    cluster's share in i's weight, rows sum to 1, or to 0 for an agent without a trial. size: float[K] > 0, s_i, how variances are
    expected to differ, such as one over trials; without it, all alike. anchors: bool[K], over whom θ̄, Ū and the mean of v/s are;
    without it, all agents. NaN: an agent in fewer than 2 clusters.

    Raises: StatisticsError [cluster-shape], [cluster-agents] with fewer than 2 agents in 2 clusters.
    Source: MacKinnon and White (1985), J. Econometrics 29, by cluster; shrinkage and the unseen: project statistics.

    >>> g = np.array([[0.1, -0.1, 0.0, 0.0], [-0.1, 0.1, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    >>> found = covariance_over_clusters(g, np.full((3, 4), 0.25))
    >>> bool((found.error > 0).all()), found.freedom.tolist()
    (True, [9.0, 9.0, 9.0])
    """
    if contribution.shape != share.shape or contribution.ndim != 2:
        raise StatisticsError(
            f"Contributions of the shape {contribution.shape} came with shares of {share.shape}. Give float[K, J] of one run.",
            slug="cluster-shape",
        )
    return covariance_of_blocks(
        [(contribution, share)],
        n_clusters=(share > 0).sum(axis=1),
        share_squares=np.einsum("ij,ij->i", share, share),
        size=size,
        anchors=anchors,
    )


def covariance_of_blocks(
    blocks: Iterable[Sequence[Floats]],
    *,
    n_clusters: Positions,
    share_squares: Floats,
    size: Floats | None = None,
    anchors: Bools | None = None,
) -> CentredCovariance:
    """`covariance_over_clusters` of clusters that come in blocks, one at a time: contribution and share, float[K, B] each.

    n_clusters: int[K], over all blocks; share_squares: float[K], Σ_j p_ij². Raises: StatisticsError [cluster-agents].
    """
    n_agents, known = len(n_clusters), n_clusters >= 2
    among = known if anchors is None else known & anchors
    if (K := int(among.sum())) < 2:
        raise StatisticsError(
            f"{K} agents were asked in 2 clusters (items or slots); errors need 2 such agents. Ask the judge about more.",
            slug="cluster-agents",
        )
    n, of_mean, m = n_clusters[known].astype(np.float64), among[known], 1 / share_squares[known]
    gram, own, squares, fourth = np.zeros((len(n), len(n))), np.zeros(len(n)), np.zeros(len(n)), np.zeros(len(n))
    for contribution, share in blocks:
        U, p = contribution[known], share[known]
        g = (U - U[of_mean].mean(axis=0)) / np.sqrt(np.maximum(1 - p, NOTHING))
        gram += g @ g.T
        own += (g**2).sum(axis=1)
        moved = g * m[:, None]
        squares += (moved**2).sum(axis=1)
        fourth += (moved**4).sum(axis=1)
    s = np.ones(len(n)) if size is None else size[known]
    prior = s * (own / s)[of_mean].mean()
    trust = (n - 1) / (n - 1 + PRIOR_CLUSTERS)
    added = (1 - trust) * prior + UNSEEN / 2 * _unseen(squares, fourth, n, least=0.0) / m**2
    independent = _between(np.eye(len(n)) - np.outer(of_mean, of_mean) / K, np.where(of_mean, K / (K - 1), 1.0))
    covariance, freedom = np.full((n_agents, n_agents), np.nan), np.full(n_agents, np.nan)
    covariance[np.ix_(known, known)] = _between(gram, trust) + _between(independent, added)
    freedom[known] = n - 1 + PRIOR_CLUSTERS
    return CentredCovariance(covariance, freedom)


def unseen_square(moved: Floats, n: Floats | Positions, *, least: float = 0.0) -> Floats:
    """q²·max(1 − 3r/n, `least`); r = (Σd²)²/Σd⁴, q² = (1 + Σd²)/(1 + r): float[K].

    r is the number of clusters that make up the variance: k where k of n move by as much and the others not at all, n/3 where
    moves are normal. Few among many are rare events, and the next one may not have been seen. Where nothing moves it is 1.

    moved: float[K, J], what each cluster does to each, as if it alone counted; n: [K], clusters.
    """
    return _unseen((moved**2).sum(axis=1), (moved**4).sum(axis=1), n, least=least)


def _unseen(squares: Floats, fourth: Floats, n: Floats | Positions, *, least: float) -> Floats:
    r = np.divide(squares**2, fourth, out=np.zeros(len(squares)), where=squares > n * _STILL**2)
    return np.asarray((1 + squares) / (1 + r) * np.maximum(least, 1 - 3 * r / n))


def _between(matrix: Floats, factor: Floats) -> Floats:
    if factor.shape != matrix.shape[:1]:
        raise StatisticsError(
            f"The factors do not fit the covariance: got the shape {factor.shape} for {len(matrix)} agents. "
            "Pass one factor per agent.",
            slug="covariance-shape",
        )
    root = np.sqrt(factor)
    return np.asarray(matrix * root[:, None] * root)
