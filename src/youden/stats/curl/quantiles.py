"""The curl |Δ| of every complete rectangle of a score matrix, exactly and without listing them, and how sure
differences between two links' medians are.

Δ = (s_ij − s_i'j) − (s_ij' − s_i'j') is a gap between two differences of one pair of rows. Sorted differences turn "how
many gaps are ≤ x" into one search an entry; a quantile is then found by bisection, which ends by listing the few gaps
left. Raw medians of two links have different units; `links_table` prints the scale-free ones beside them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from youden.errors import StatisticsError
from youden.stats.base.clusters import check_level
from youden.stats.base.estimator import as_matrix, check_score_matrix
from youden.stats.base.links import LINKS
from youden.stats.curl.rectangles import n_rectangles, no_rectangles, sample_rectangles
from youden.types.pool import Floats, Positions

_MAX_DIFFERENCES = 2**26
_MAX_LISTED = 2**18
_SAMPLED = 2**12
_GRID = 2**45
_ROUNDED = 2
"""Steps by which rounding to the grid can part two equal gaps, and one to spare."""


@dataclass(frozen=True, eq=False)
class _Gaps:
    """Sorted row differences of all pairs of rows, on an integer grid, one pair after the other.

    key: int64[M], ascending; differences of different pairs lie further apart than any gap within a pair.
    end: int64[M], where the entry's pair ends. unit: what one step of the grid is worth; largest: the largest gap, in steps.
    """

    key: Positions
    end: Positions
    unit: float
    largest: int

    @property
    def n_gaps(self) -> int:
        """How many gaps there are: entries after each one, within its pair."""
        return int((self.end - np.arange(1, len(self.key) + 1)).sum())

    def n_within(self, gap: int) -> int:
        """How many gaps are at most `gap` steps."""
        return self._n_up_to(self.reach(gap)) if gap >= 0 else 0

    def reach(self, gap: int) -> Positions:
        """Per entry, the first later entry whose gap to it exceeds `gap` steps."""
        return self.key.searchsorted(self.key + gap, side="right")

    def listed(self, start: Positions, stop: Positions, *, every: int) -> Positions:
        """Gaps from each entry to the entries start … stop − 1, or each `every`-th one of them."""
        last = np.cumsum(stop - start)
        index = np.arange(every // 2, last[-1], every)
        entry = last.searchsorted(index, side="right")
        return self.key[stop[entry] - last[entry] + index] - self.key[entry]

    def order_statistic(self, rank: int) -> float:
        """The gap of 1-based `rank` among all."""
        start, stop = np.arange(1, len(self.key) + 1), self.end
        below, upto = -1, self.largest
        n_below, n_upto = 0, self.n_gaps
        while upto - below > 1 and n_upto - n_below > _MAX_LISTED:
            every = (n_upto - n_below) // _SAMPLED
            sample = np.sort(self.listed(start, stop, every=every))
            middle = (rank - n_below) // every
            around = np.clip([middle - _SAMPLED // 100, middle + _SAMPLED // 100], 0, len(sample) - 1)
            for gap in (int(sample[around[0]]) - 1, int(sample[around[1]]), (below + upto) // 2):
                if not below < gap < upto or n_upto - n_below <= _MAX_LISTED:
                    continue
                reach = self.reach(gap)
                n_within = self._n_up_to(reach)
                if n_within < rank:
                    start, below, n_below = reach, gap, n_within
                else:
                    stop, upto, n_upto = reach, gap, n_within
        if upto - below == 1:
            return upto * self.unit
        left = self.listed(start, stop, every=1)
        return float(np.partition(left, rank - n_below - 1)[rank - n_below - 1]) * self.unit

    def _n_up_to(self, reach: Positions) -> int:
        return int(reach.sum()) - len(reach) * (len(reach) + 1) // 2


def curl_quantiles(matrix: Floats, q: Sequence[float] = (0.5, 0.95)) -> Floats:
    """Quantiles of |Δ|, Δ = s_ij − s_i'j − s_ij' + s_i'j', over all complete rectangles: the order statistics at ⌈qN⌉.

    matrix: float[K, J] on any scale, NaN is a missing cell. q: levels in [0, 1]. Returns float[len(q)], in the scale's unit,
    exact to 1e-13 of the scores' range. O(K²J log J) time and O(K²J) memory, K the shorter side.

    Raises: StatisticsError [curl-no-rectangles] saying why there is none, [curl-infinite], [curl-too-large], [curl-level].
    Source: the paper's curl; it samples rectangles, this takes all.

    >>> curl_quantiles(np.array([[0.5, 0.0, 0.0], [0.0, 0.0, 0.25]]), q=(0.3, 0.5, 1.0))
    array([0.25, 0.5 , 0.75])
    """
    for level in q:
        if not 0 <= level <= 1:
            raise StatisticsError(f"A quantile's level was {level}. Give levels between 0 and 1.", slug="curl-level")
    gaps = _checked_gaps(matrix)
    total = gaps.n_gaps
    ranks = [max(1, math.ceil(Fraction(repr(float(level))) * total)) for level in q]
    return np.array([gaps.order_statistic(rank) for rank in ranks])


def curl_ecdf(matrix: Floats, at: ArrayLike) -> Floats:
    """Share of complete rectangles with |Δ| ≤ x, for every x of `at`; Δ as in `curl_quantiles`.

    matrix: float[K, J] on any scale, NaN is a missing cell. at: float[n], any order, in the scale's unit; a gap within 1e-13 of
    the scores' range of x counts as x, so that the steps of scores on a lattice fall where they are asked for. Returns
    float[n] in [0, 1], exact. Raises: StatisticsError as `curl_quantiles`, and [curl-at] where an x is NaN or not in one row.

    >>> curl_ecdf(np.array([[0.5, 0.0, 0.0], [0.0, 0.0, 0.25]]), [0.0, 0.25, 0.6, 1.0]).tolist()
    [0.0, 0.3333333333333333, 0.6666666666666666, 1.0]
    """
    x = np.asarray(at, dtype=np.float64)
    if x.ndim != 1 or np.isnan(x).any():
        raise StatisticsError(
            f"The curl's distribution was asked at {int(np.isnan(x).sum())} NaN, in the shape {x.shape}. Give a row of numbers.",
            slug="curl-at",
        )
    gaps = _checked_gaps(matrix)
    steps = np.floor(np.clip(x / gaps.unit + _ROUNDED, -1, gaps.largest)).astype(np.int64)
    return np.array([gaps.n_within(int(step)) for step in steps]) / gaps.n_gaps


def _checked_gaps(matrix: Floats) -> _Gaps:
    scores = np.asarray(as_matrix(matrix), dtype=np.float64)
    if np.isinf(scores).any():
        raise StatisticsError(
            f"{int(np.isinf(scores).sum())} scores are infinite. Clip them before changing scale; NaN means missing.",
            slug="curl-infinite",
        )
    if n_rectangles(~np.isnan(scores)) == 0:
        raise no_rectangles(~np.isnan(scores))
    return _gaps(scores if scores.shape[0] <= scores.shape[1] else scores.T)


def _gaps(scores: Floats) -> _Gaps:
    n_rows, n_columns = scores.shape
    upper, lower = np.triu_indices(n_rows, 1)
    if len(upper) * n_columns > _MAX_DIFFERENCES:
        raise StatisticsError(
            f"Exact curl of a {n_rows} × {n_columns} matrix needs {len(upper) * n_columns:,} differences "
            f"(at most {_MAX_DIFFERENCES:,}). Give a subset of agents or items.",
            slug="curl-too-large",
        )
    difference = np.sort(scores[upper] - scores[lower], axis=1)  # NaN last
    seen = ~np.isnan(difference)
    size = seen.sum(axis=1)
    relative = (difference - difference[:, :1])[seen]
    span = float(np.nanmax(scores) - np.nanmin(scores))  # gaps that are all rounding of such scores are all equal
    unit = max(float(relative.max()), span) / _GRID or 1 / _GRID
    steps = np.rint(relative / unit).astype(np.int64)
    key = steps + np.repeat(np.arange(len(size)) * (2 * _GRID + 1), size)
    return _Gaps(key=key, end=np.repeat(np.cumsum(size), size), unit=unit, largest=int(steps.max()))


Coincident = Literal["drop", "keep"]

_FEWEST_DRAWS = 20


@dataclass(frozen=True)
class MedianDifference:
    """Median |Δ| on the link `first` less that on `second`, each in its link's own unit.

    exact: over all rectangles of the matrix; mean: of the resamples; low, high: their percentiles at `level`.
    coincident: what was done with rectangles that take an agent or item twice. n_draws: resamples that had a rectangle.
    """

    first: str
    second: str
    exact: float
    mean: float
    low: float
    high: float
    level: float
    coincident: Coincident
    n_draws: int


def median_differences(
    matrix: Floats,
    *,
    rng: np.random.Generator,
    coincident: Coincident = "drop",
    level: float = 0.95,
    n_draws: int = 500,
    n_rectangles: int = 20_000,
) -> tuple[MedianDifference, ...]:
    """Bootstrap of the differences in median |Δ| between every two links.

    Each draw resamples agents and items with replacement and takes `n_rectangles` complete rectangles of the resampled matrix,
    uniformly and the same for every link. A rectangle of one agent or item drawn twice has Δ = 0: `keep` (the paper) counts
    it, which draws medians towards 0; `drop` takes rectangles of two agents and two items only.

    matrix: float[K, J] in [−1, 1], NaN is a missing cell; any pattern of gaps.

    Raises: StatisticsError [coincident], [bootstrap-draws], [level], [curl-no-rectangles] and those of `check_score_matrix`.
    Source: the paper's section 'Link and model ablation', which keeps coincident rows.
    """
    check_level(level)
    _check(coincident, n_draws=n_draws, n_rectangles=n_rectangles)
    scores = check_score_matrix(matrix)
    seen = ~np.isnan(scores)
    values = np.stack([link.forward(scores) for link in LINKS.values()])
    exact = np.array([curl_quantiles(value, (0.5,))[0] for value in values])
    medians = np.full((n_draws, len(values)), np.nan)
    for draw in range(n_draws):
        agents, items = (_resampled(size, rng) for size in scores.shape)
        try:
            corners = sample_rectangles(seen[np.ix_(agents, items)], rng=rng, n_pairs=n_rectangles, a_pair=1)
        except StatisticsError:
            continue
        i, k, j, m = agents[corners.i], agents[corners.k], items[corners.j], items[corners.m]
        if coincident == "drop":
            apart = (i != k) & (j != m)
            i, k, j, m = i[apart], k[apart], j[apart], m[apart]
        if i.size:
            curl = values[:, i, j] - values[:, k, j] - values[:, i, m] + values[:, k, m]
            medians[draw] = np.median(np.abs(curl).reshape(len(values), -1), axis=1)
    medians = medians[~np.isnan(medians[:, 0])]
    if len(medians) < n_draws / 2:
        raise StatisticsError(
            f"Only {len(medians)} of {n_draws} resamples hold a complete rectangle. Score the same items for more agents.",
            slug="curl-no-rectangles",
        )
    tail = (1 - level) / 2
    result = []
    for a, b in combinations(range(len(values)), 2):
        difference = medians[:, a] - medians[:, b]
        low, high = np.quantile(difference, [tail, 1 - tail]).tolist()
        result.append(
            MedianDifference(
                first=list(LINKS)[a],
                second=list(LINKS)[b],
                exact=float(exact[a] - exact[b]),
                mean=float(difference.mean()),
                low=low,
                high=high,
                level=level,
                coincident=coincident,
                n_draws=len(medians),
            )
        )
    return tuple(result)


def _resampled(size: int, rng: np.random.Generator) -> Positions:
    return rng.integers(0, size, size)


def _check(coincident: str, *, n_draws: int, n_rectangles: int) -> None:
    if coincident not in ("drop", "keep"):
        raise StatisticsError(f"Coincident rows cannot be '{coincident}'. Give drop or keep.", slug="coincident")
    if n_draws < _FEWEST_DRAWS or n_rectangles < 1:
        raise StatisticsError(
            f"{n_draws} draws of {n_rectangles} rectangles were asked for. "
            f"Give at least {_FEWEST_DRAWS} draws of 1 rectangle; 500 of 20,000 are usual.",
            slug="bootstrap-draws",
        )
