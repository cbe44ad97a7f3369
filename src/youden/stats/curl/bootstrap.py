"""How far the difference between two links' median curl depends on which agents and items were drawn.

Raw medians of two links have different units; `links_table` prints the scale-free ones beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from youden.errors import StatisticsError
from youden.nouns.arrays import Bools, Floats, Positions
from youden.stats.base.links import LINKS
from youden.stats.base.validation import check_level, check_score_matrix
from youden.stats.curl.quantiles import curl_quantiles

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
    values = np.stack([link.forward(scores) for link in LINKS.values()])
    exact = np.array([curl_quantiles(value, (0.5,))[0] for value in values])
    medians = np.full((n_draws, len(values)), np.nan)
    for draw in range(n_draws):
        agents, items = (_resampled(size, rng) for size in scores.shape)
        corners = _rectangles(~np.isnan(scores[np.ix_(agents, items)]), n_rectangles, rng)
        i, k, j, m = agents[corners.i], agents[corners.k], items[corners.j], items[corners.m]
        if coincident == "drop":
            apart = (i != k) & (j != m)
            i, k, j, m = i[apart], k[apart], j[apart], m[apart]
        if i.size:
            curl = values[:, i, j] - values[:, k, j] - values[:, i, m] + values[:, k, m]
            medians[draw] = np.median(np.abs(curl), axis=1)
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


class _Corners(NamedTuple):
    i: Positions
    k: Positions
    j: Positions
    m: Positions


def _rectangles(observed: Bools, n: int, rng: np.random.Generator) -> _Corners:
    """n complete rectangles, uniformly with replacement: a pair of rows by how many it has, then two of their columns."""
    upper, lower = np.triu_indices(len(observed), 1)
    pair, column = np.nonzero(observed[upper] & observed[lower])
    n_shared = np.bincount(pair, minlength=len(upper))
    ways = np.cumsum(n_shared * (n_shared - 1) // 2)
    if ways[-1] == 0:
        nothing = np.zeros(0, dtype=np.int64)
        return _Corners(nothing, nothing, nothing, nothing)
    chosen = ways.searchsorted(rng.integers(0, ways[-1], n), side="right")
    size, start = n_shared[chosen], (np.cumsum(n_shared) - n_shared)[chosen]
    first = rng.integers(0, size)
    second = (first + rng.integers(1, size)) % size
    return _Corners(upper[chosen], lower[chosen], column[start + first], column[start + second])


def _check(coincident: str, *, n_draws: int, n_rectangles: int) -> None:
    if coincident not in ("drop", "keep"):
        raise StatisticsError(f"Coincident rows cannot be '{coincident}'. Give drop or keep.", slug="coincident")
    if n_draws < _FEWEST_DRAWS or n_rectangles < 1:
        raise StatisticsError(
            f"{n_draws} draws of {n_rectangles} rectangles were asked for. "
            f"Give at least {_FEWEST_DRAWS} draws of 1 rectangle; 500 of 20,000 are usual.",
            slug="bootstrap-draws",
        )
