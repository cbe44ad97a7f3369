"""The curl of a sample of rectangles, with its standard error: for a matrix that has too many to take them all.

Pairs of rows are drawn by how many rectangles they hold, then some rectangles of each pair, so that every rectangle is as
likely as any other. Pairs are independent draws; rectangles of one pair are not. So errors are taken over pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from youden.nouns.arrays import Bools, Floats, Positions
from youden.stats.curl.quantiles import no_rectangles
from youden.stats.curl.seen_cells import weighted_products

N_PAIRS = 4096
A_PAIR = 32
"""Rectangles drawn of each pair of rows: 131,072 in all, which know a share to about .003."""

_AT_ONCE = 2**22


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
    step = max(1, _AT_ONCE // rows.shape[1])
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
