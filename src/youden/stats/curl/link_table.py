"""How additive a score matrix looks on each link: its curl, raw and scale-free, and the fit's R².

Raw curl compares different units across links (the logit stretches by 3.2 at s = .61), so the three always come
together. Up to `EXACT_DIFFERENCES` differences of rows it is exact over all rectangles; a larger matrix is sampled, and
says so: pairs of rows are drawn by how many rectangles they hold, then some rectangles of each pair, so that every
rectangle is as likely as any other. Pairs are independent draws; rectangles of one pair are not. So errors are taken
over pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import pinvh
from scipy.sparse import csr_array

from youden.nouns import CurlCurve, LinkFacts, Scores
from youden.nouns.cells import CellIndex
from youden.nouns.pool import Bools, Floats, Positions
from youden.stats.base.estimator import check_score_matrix, check_scored_cells
from youden.stats.base.links import LINKS
from youden.stats.curl.quantiles import curl_ecdf, curl_quantiles, n_rectangles, no_rectangles
from youden.streams import own_stream

_AT_ONCE = 2**20
"""Cells of a block, which stays in a processor's cache."""
_PAIRS_AT_ONCE = 256
"""Products of whole blocks that take as long as one of two single cells."""


@dataclass(frozen=True, eq=False)
class SeenCells:
    """row, column: int64[N], the cells that were seen of R rows and C ≥ R columns; w: float[C], one over the cells of each.

    inverse: float[R, R], (D − A diag(w) Aᵀ)⁺ with A the 0/1 matrix of cells and D the cells of each row.
    """

    row: Positions
    column: Positions
    w: Floats
    inverse: Floats

    @classmethod
    def of(cls, seen: Bools) -> SeenCells:
        """Of bool[K, J]."""
        row, column = np.nonzero(seen)
        A = seen
        if seen.shape[0] > seen.shape[1]:
            row, column, A = column, row, seen.T
        n = np.bincount(column, minlength=A.shape[1])
        w = np.divide(1.0, n, out=np.zeros(len(n)), where=n > 0)
        degree = np.bincount(row, minlength=A.shape[0]).astype(np.float64)
        return cls(row, column, w, np.asarray(pinvh(np.diag(degree) - weighted_products(A, w))))

    def r2(self, value: Floats) -> float:
        """1 − RSS/TSS of the additive fit to float[N], on any scale; NaN where all are equal. As `additive_r2`."""
        if np.ptp(value) == 0:
            return float("nan")
        total = float(((value - value.mean()) ** 2).sum())
        R, C = len(self.inverse), len(self.w)
        c = np.bincount(self.column, value, C)
        theta = (np.bincount(self.row, value, R) - np.bincount(self.row, (c * self.w)[self.column], R)) @ self.inverse
        b = self.w * (np.bincount(self.column, theta[self.row], C) - c)
        return 1 - float(((value - theta[self.row] + b[self.column]) ** 2).sum()) / total


def weighted_products(seen: Bools, w: NDArray[np.floating]) -> Floats:
    """A diag(w) Aᵀ of bool[R, C], from the cells alone where they are few, else block by block of columns: float[R, R].

    >>> weighted_products(np.array([[True, False], [True, True]]), np.array([0.5, 1.0])).tolist()
    [[0.5, 0.5], [0.5, 1.5]]
    """
    n = np.count_nonzero(seen, axis=0).astype(np.float64)
    if _PAIRS_AT_ONCE * (n**2).sum() < seen.size * len(seen):
        cells = csr_array(seen, dtype=w.dtype)
        return np.asarray(((cells * w) @ cells.T).toarray())
    step = max(1, _AT_ONCE // len(seen))
    products = np.zeros((len(seen), len(seen)))
    for start in range(0, seen.shape[1], step):
        A = seen[:, start : start + step].astype(w.dtype)
        products += (A * w[start : start + step]) @ A.T
    return products


N_PAIRS = 4096
A_PAIR = 32
"""Rectangles drawn of each pair of rows: 131,072 in all, which know a share to about .003."""

_AT_ONCE_OF_SAMPLED = 2**22


class Estimates(NamedTuple):
    """value: float[n]; error: float[n], standard errors."""

    value: Floats
    error: Floats


class Corners(NamedTuple):
    """Rectangles by their rows and columns, int64[pairs, rectangles] each; how many complete ones there are in all."""

    i: Positions
    k: Positions
    j: Positions
    m: Positions
    n_all: int

    def scores(self, at: Callable[[Positions, Positions], Floats]) -> tuple[Floats, Floats, Floats, Floats]:
        """Of (i, j), (k, j), (i, m), (k, m), by a function of rows and columns."""
        i, k, j, m, _ = self
        return at(i, j), at(k, j), at(i, m), at(k, m)


@dataclass(frozen=True, eq=False)
class SampledCurl:
    """gaps: float[pairs, rectangles], the |Δ| of a sample."""

    gaps: Floats

    @classmethod
    def of(cls, scores: Sequence[Floats], *, link: Callable[[Floats], Floats] = np.asarray) -> SampledCurl:
        """The curl of `link` of the scores at `Corners`."""
        ij, kj, im, km = map(link, scores)
        return cls(np.abs((ij - kj) - (im - km)))

    def quantiles(self, q: Sequence[float]) -> Estimates:
        """Order statistics at ⌈qn⌉ of the sample. Their error is half the way between those at q ± the error of q: 0 where
        both are one step of scores on a lattice.

        Source: Woodruff (1952), J. American Statistical Association 47, over clusters.
        """
        ordered = np.sort(self.gaps, axis=None)

        def at(level: float) -> float:
            return float(ordered[min(len(ordered), max(1, math.ceil(level * len(ordered)))) - 1])

        value = np.array([at(level) for level in q])
        doubt = self.ecdf(value).error.tolist()
        error = np.array([(at(level + off) - at(level - off)) / 2 for level, off in zip(q, doubt, strict=True)])
        return Estimates(value, error)

    def ecdf(self, at: ArrayLike) -> Estimates:
        """Share of |Δ| ≤ x for every x of float[n]."""
        shares = np.array([(self.gaps <= x + _rounding(x)).mean(axis=1) for x in np.asarray(at, dtype=np.float64)])
        shares = shares.reshape(-1, len(self.gaps))
        return Estimates(shares.mean(axis=1), shares.std(axis=1, ddof=1) / math.sqrt(len(self.gaps)))


def sample_rectangles(
    observed: Bools, *, rng: np.random.Generator, n_pairs: int = N_PAIRS, a_pair: int = A_PAIR
) -> Corners:
    """Complete rectangles of bool[K, J], drawn with replacement, each as likely as any other.

    O(K²J) for counting, K the shorter side, and n_pairs·J for the draw. Raises: StatisticsError [curl-no-rectangles].
    """
    rows = observed if observed.shape[0] <= observed.shape[1] else observed.T
    upper, lower = np.triu_indices(len(rows), 1)
    ones = np.ones(rows.shape[1], dtype=np.float32)
    n_shared = np.rint(weighted_products(rows, ones)[upper, lower]).astype(np.int64)
    ways = np.cumsum(n_shared * (n_shared - 1) // 2)
    if not len(ways) or ways[-1] == 0:
        raise no_rectangles(observed)
    chosen = np.sort(ways.searchsorted(rng.integers(0, ways[-1], n_pairs), side="right"))
    size = n_shared[chosen][:, None]
    first = rng.integers(0, size, (n_pairs, a_pair))
    second = (first + rng.integers(1, size, (n_pairs, a_pair))) % size
    j, m = np.empty_like(first), np.empty_like(first)
    step = max(1, _AT_ONCE_OF_SAMPLED // rows.shape[1])
    for start in range(0, n_pairs, step):
        part = slice(start, start + step)
        shared = np.flatnonzero(rows[upper[chosen[part]]] & rows[lower[chosen[part]]])
        begin = (np.cumsum(size[part]) - size[part, 0])[:, None]
        j[part], m[part] = (shared[begin + which[part]] % rows.shape[1] for which in (first, second))
    i, k = (np.broadcast_to(side[chosen][:, None], first.shape) for side in (upper, lower))
    if rows is not observed:
        i, k, j, m = j, m, i, k
    return Corners(i, k, j, m, int(ways[-1]))


def _rounding(x: float) -> float:
    return 1e-12 * max(1.0, abs(x))


EXACT_DIFFERENCES = 2**20
"""K(K−1)/2·J of K ≤ J, such as 30 agents × 2,400 items: about a second."""

_EQUAL = 1e-12


class _Curl(Protocol):
    def quantiles(self, q: tuple[float, ...]) -> Estimates: ...
    def ecdf(self, at: Floats) -> Estimates: ...


class _ExactCurl(NamedTuple):
    value: Floats

    def quantiles(self, q: tuple[float, ...]) -> Estimates:
        return _sure(curl_quantiles(self.value, q))

    def ecdf(self, at: Floats) -> Estimates:
        return _sure(curl_ecdf(self.value, at))


class _Measured(NamedTuple):
    """A link's scores of the cells seen, float[N], and their curl."""

    value: Floats
    curl: _Curl
    n_rectangles: int
    n_sampled: int | None


class LinkCurls(NamedTuple):
    """The curl of one matrix on every link, measured once."""

    measured: dict[str, _Measured]
    observed: Bools

    def table(self) -> dict[str, LinkFacts]:
        """As `links_table`."""
        cells = SeenCells.of(self.observed)
        return {name: _row(one, cells) for name, one in self.measured.items()}

    def curves(self, *, n_steps: int = 41) -> tuple[CurlCurve, ...]:
        """The distribution of the curl on every link, at `n_steps` points up to its 99th percentile."""
        curves = []
        for name, (value, curl, _, _) in self.measured.items():
            x = np.linspace(0.0, float(curl.quantiles((0.99,)).value[0]) or 1.0, n_steps)
            share = curl.ecdf(x)
            curves.append(CurlCurve(name, x, share.value, share.error, _sd(value)))
        return tuple(curves)


def links_table(matrix: Floats, *, exact_up_to: int = EXACT_DIFFERENCES) -> dict[str, LinkFacts]:
    """Curl and R² of scores float[K, J] in [−1, 1] (NaN missing) on every link, by name.

    R² = 1 − RSS/TSS over observed cells, of the least-squares fit g(s_ij) ≈ θ_i − b_j with g the link. exact_up_to: above so
    many differences the curl is that of a sample, the same each time, with its standard errors.

    Raises: StatisticsError [curl-no-rectangles], and those of `check_score_matrix`.
    """
    return measure_curl(matrix, exact_up_to=exact_up_to).table()


def measure_curl(scores: Scores | Floats, *, exact_up_to: int = EXACT_DIFFERENCES) -> LinkCurls:
    """The curl of scores, or of a matrix float[K, J] of them, on every link. Raises: as `links_table`."""
    at, value = _cells(scores)
    K, J = sorted((at.n_agents, at.n_items))
    observed = at.seen()
    seen = {name: link.forward(value[at.by_agent]) for name, link in LINKS.items()}
    if exact_up_to >= K * (K - 1) // 2 * J:
        matrix = at.matrix(value, empty=np.nan)
        n = n_rectangles(matrix)
        if n == 0:
            raise no_rectangles(observed)
        return LinkCurls(
            {name: _Measured(seen[name], _ExactCurl(link.forward(matrix)), n, None) for name, link in LINKS.items()},
            observed,
        )
    corners = sample_rectangles(observed, rng=own_stream(0))
    sampled = corners.scores(lambda agent, item: value[at.find(agent, item)])
    return LinkCurls(
        {
            name: _Measured(seen[name], SampledCurl.of(sampled, link=link.forward), corners.n_all, corners.i.size)
            for name, link in LINKS.items()
        },
        observed,
    )


def _cells(scores: Scores | Floats) -> tuple[CellIndex, Floats]:
    if isinstance(scores, Scores):
        return check_scored_cells(scores)[:2]
    value = check_score_matrix(scores)
    at = CellIndex.of(~np.isnan(value))
    return at, value[at.agent, at.item]


def _row(of: _Measured, cells: SeenCells) -> LinkFacts:
    found = of.curl.quantiles((0.5, 0.95))
    (median, p95), (median_error, p95_error) = found.value.tolist(), found.error.tolist()
    sd = _sd(of.value)
    varies = sd > 0
    return LinkFacts(
        median=median,
        p95=p95,
        sd=sd,
        median_scaled=median / sd if varies else None,
        p95_scaled=p95 / sd if varies else None,
        r2=cells.r2(of.value) if varies else None,
        n_rectangles=of.n_rectangles,
        n_sampled=of.n_sampled,
        median_error=None if of.n_sampled is None else median_error,
        p95_error=None if of.n_sampled is None else p95_error,
    )


def _sd(value: Floats) -> float:
    """0 where values differ by rounding only."""
    return float(value.std()) if float(np.ptp(value)) > _EQUAL else 0.0


def _sure(value: Floats) -> Estimates:
    return Estimates(value, np.zeros(len(value)))
