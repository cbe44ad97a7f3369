"""Compute the distribution of curl |Δ| over complete rectangles, and intervals of differences between links' medians.

Δ = (s_ij − s_i'j) − (s_ij' − s_i'j') is the distance between the differences of one pair of rows in two columns. In
sorted differences, one search per difference counts the distances up to x, without listing them. A quantile is then
found by bisection, which lists only the last few distances. Raw medians of two links have different units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from youden.errors import StatisticsError
from youden.stats.base.clusters import check_level
from youden.stats.base.estimator import as_matrix, as_reals, check_score_matrix
from youden.stats.base.links import LINKS
from youden.stats.curl.rectangles import n_rectangles, no_rectangles_error, sample_rectangles
from youden.types.pool import Bools, Floats, Positions

_MAX_DIFFERENCES = 2**26
_MAX_LISTED = 2**18
"""Largest number of distances that are listed to find a quantile among them."""
_SAMPLE_SIZE = 2**12
"""Number of distances in a sample that narrows the search for a quantile."""
_GRID = 2**45
"""Number of steps into which the range of scores is divided, if no difference of two scores exceeds it."""
_ROUNDING_STEPS = 2
"""Steps by which rounding to the grid can separate two equal distances, plus one."""


class _Bound(NamedTuple):
    """A lower or upper bound of a distance that is searched by its rank among all distances.

    Attributes
    ----------
    distance : int
        The bound, in steps of the grid.
    n_within : int
        Number of distances of at most this bound.
    first_index_beyond : int64 array (n_differences,)
        For each sorted difference, the index of the first later one whose distance from it exceeds the bound.
    """

    distance: int
    n_within: int
    first_index_beyond: Positions


@dataclass(frozen=True, eq=False)
class _SortedDifferences:
    """Sorted differences of all pairs of rows on an integer grid, one pair of rows after the other.

    A difference is the score of one row minus the score of another row in the same column. Two differences of the same pair of
    rows belong to the four cells of a rectangle, and their distance is its curl |Δ|. For example, a pair of rows with the
    differences 0, 2 and 5 has three rectangles, with the distances 2, 5 and 3.

    Attributes
    ----------
    sorted_differences : int64 array (n_differences,)
        Differences in steps of the grid, ascending. Each pair of rows has an offset, so that differences of different pairs
        are further from each other than any two of the same pair.
    end_of_pair : int64 array (n_differences,)
        For each difference, the index after the last one of the same pair of rows.
    step_size : float
        Size of a step of the grid, in the unit of the scores.
    max_distance : int
        Largest distance of two differences of a pair of rows, in steps.
    """

    sorted_differences: Positions
    end_of_pair: Positions
    step_size: float
    max_distance: int

    @property
    def _index_of_next(self) -> Positions:
        """Index after each difference, int64 array (n_differences,)."""
        return np.arange(1, len(self.sorted_differences) + 1)

    @property
    def n_distances(self) -> int:
        """Number of distances, and of rectangles: each difference has one to every later difference of its pair of rows."""
        return int((self.end_of_pair - self._index_of_next).sum())

    def count_up_to(self, distance: int) -> int:
        """Count the distances of at most `distance` steps; 0 if `distance` is negative."""
        if distance < 0:
            return 0
        return self._make_bound(distance).n_within

    def _make_bound(self, distance: int) -> _Bound:
        """Make a bound on a distance, and count the distances within it: those between two score differences of a pair of rows.

        For example, of the differences 0, 2 and 5, the bound 3 includes two distances: from 0 to 2, and from 2 to 5.

        distance : the bound, in steps of the grid, at least 0
        """
        largest_within = self.sorted_differences + distance
        first_index_beyond = self.sorted_differences.searchsorted(largest_within, side="right")

        # Difference i has first_index_beyond[i] − (i + 1) later differences within the bound. The sum of i + 1 over n
        # differences is n(n + 1)/2.
        n = len(first_index_beyond)
        n_within = int(first_index_beyond.sum()) - n * (n + 1) // 2
        return _Bound(distance, n_within, first_index_beyond)

    def _list_distances_between(self, low: _Bound, high: _Bound, *, step: int) -> Positions:
        """List every `step`-th of the distances above the bound `low` and up to the bound `high`.

        A distance is a later minus an earlier score difference of the same pair of rows. For example, the differences 0, 2 and 5
        have the distances 2, 5 and 3, in this order: first those from 0, then those from 2. The list begins with the distance
        number step // 2, counted from 0.

        Returns an int64 array (n_listed,), in steps of the grid, not sorted.
        """
        # for each earlier difference: the number of its distances between the bounds, and the position of the first of them
        n_by_earlier = high.first_index_beyond - low.first_index_beyond
        first_number = np.cumsum(n_by_earlier)
        first_number -= n_by_earlier

        # for each listed distance: the positions of the earlier and of the later difference
        listed_number = np.arange(step // 2, n_by_earlier.sum(), step)
        earlier_index = first_number.searchsorted(listed_number, side="right") - 1
        number_of_earlier = listed_number - first_number[earlier_index]
        later_index = low.first_index_beyond[earlier_index] + number_of_earlier
        distances: Positions = self.sorted_differences[later_index] - self.sorted_differences[earlier_index]
        return distances

    def find_order_statistic(self, rank: int) -> float:
        """Find the `rank`-th smallest distance between two score differences of a pair of rows; rank 1 is the smallest.

        A lower and an upper bound of the distance are narrowed until few distances are left between them. These distances are
        listed, and the one with the given rank is selected.

        Returns the distance, the curl of a rectangle, in the unit of the scores.
        """
        # the first bounds: no distance is at most −1, and all distances are at most max_distance
        low = _Bound(distance=-1, n_within=0, first_index_beyond=self._index_of_next)
        high = _Bound(self.max_distance, n_within=self.n_distances, first_index_beyond=self.end_of_pair)
        while high.distance - low.distance > 1 and high.n_within - low.n_within > _MAX_LISTED:
            low, high = self._narrow_bounds(low, high, rank=rank)

        # distances are whole numbers, so only `high` is left
        if high.distance - low.distance == 1:
            return high.distance * self.step_size

        distances = self._list_distances_between(low, high, step=1)
        index = rank - low.n_within - 1  # in the ascending list
        n_steps = float(np.partition(distances, index)[index])
        return n_steps * self.step_size

    def _narrow_bounds(self, low: _Bound, high: _Bound, *, rank: int) -> tuple[_Bound, _Bound]:
        """Narrow two bounds that enclose the `rank`-th smallest distance.

        Three values are tried: two estimated bounds, and the midpoint of the old bounds. A value becomes the new lower bound if
        fewer than `rank` distances are within it, and the new upper bound otherwise. The search stops early if at most
        `_MAX_LISTED` distances are left between the bounds.

        Returns the new lower and the new upper bound.
        """
        estimated_low, estimated_high = self._estimate_bounds(low, high, rank=rank)
        midpoint = (low.distance + high.distance) // 2  # guarantees progress if the estimates are wrong
        for distance in (estimated_low, estimated_high, midpoint):
            n_between = high.n_within - low.n_within
            is_between = low.distance < distance < high.distance
            if n_between > _MAX_LISTED and is_between:
                bound = self._make_bound(distance)
                if bound.n_within < rank:
                    low = bound
                else:
                    high = bound
        return low, high

    def _estimate_bounds(self, low: _Bound, high: _Bound, *, rank: int) -> tuple[int, int]:
        """Estimate closer bounds of the `rank`-th smallest distance, from a sample of the distances between two bounds.

        rank : rank among all distances, 1 for the smallest

        Returns a lower and an upper bound, in steps of the grid. The distance is probably above the lower bound and at most the
        upper bound.
        """
        step = (high.n_within - low.n_within) // _SAMPLE_SIZE
        sample = np.sort(self._list_distances_between(low, high, step=step))
        expected_index = (rank - low.n_within) // step

        # the sample may be wrong by a few ranks: take values 1% of the sample before and after the expected one
        margin = _SAMPLE_SIZE // 100
        low_index = np.clip(expected_index - margin, 0, len(sample) - 1)
        high_index = np.clip(expected_index + margin, 0, len(sample) - 1)
        low_distance = int(sample[low_index]) - 1  # one less, because the distance must exceed its lower bound
        return low_distance, int(sample[high_index])


def curl_quantiles(matrix: Floats, q: float | Sequence[float] = (0.5, 0.95)) -> Floats:
    """Compute quantiles of the curl of a score matrix, which measures how far scores are from additive.

    The curl of a rectangle (two agents and two items) is |Δ| with Δ = s_ij − s_i'j − s_ij' + s_i'j'; it is 0 for all
    rectangles of an additive matrix.

    Parameters
    ----------
    matrix : float array (n_agents, n_items)
        Scores on any scale; NaN is unobserved.
    q : float or sequence of float, default (0.5, 0.95)
        Probabilities in [0, 1]. One number gives an array of one quantile.

    Returns
    -------
    float array (n_quantiles,)
        Order statistics ⌈qN⌉ of the N values of |Δ|, over all rectangles whose four cells were observed, in the unit of
        scores; exact to 1e-13 of their range.

    Raises
    ------
    StatisticsError
        [curl-no-rectangles]: if there is no complete rectangle; [curl-infinite]: if a score is infinite;
        [curl-too-large]: if the matrix needs too much memory; [curl-level]: if a probability is outside [0, 1];
        [scores-numeric], [scores-shape]: if the scores are not a matrix of numbers; [values-numeric]: if a probability is not a
        number.

    Notes
    -----
    The time is O(K²J log J) and the memory O(K²J), with K rows on the shorter side and J on the longer one. The paper
    samples rectangles instead of using all.

    Examples
    --------
    >>> curl_quantiles(np.array([[0.5, 0.0, 0.0], [0.0, 0.0, 0.25]]), q=(0.3, 0.5, 1.0))
    array([0.25, 0.5 , 0.75])
    """
    probabilities = np.ravel(as_reals(q, noun="values")).tolist()
    for probability in probabilities:
        if not 0 <= probability <= 1:
            raise StatisticsError(
                f"Probabilities must be from 0 to 1: got {probability}. Pass probabilities such as 0.5.",
                slug="curl-level",
            )
    differences = _check_and_sort_differences(matrix)
    n_distances = differences.n_distances
    order_statistics = []
    for probability in probabilities:
        decimal = Fraction(repr(float(probability)))  # as written, without the error of its binary representation
        rank = max(1, math.ceil(decimal * n_distances))
        order_statistics.append(differences.find_order_statistic(rank))
    return np.array(order_statistics)


def curl_ecdf(matrix: Floats, x: ArrayLike) -> Floats:
    """Compute the distribution function of the curl of a score matrix.

    The curl of a rectangle (two agents and two items) is |Δ| with Δ = s_ij − s_i'j − s_ij' + s_i'j'; it is 0 for all
    rectangles of an additive matrix.

    Parameters
    ----------
    matrix : float array (n_agents, n_items)
        Scores on any scale; NaN is unobserved.
    x : float array_like (n,)
        Values in the unit of scores, in any order. Rounding errors of up to 1e-13 of the range of scores are ignored.

    Returns
    -------
    float array (n,)
        Share of the rectangles with |Δ| ≤ x, among those whose four cells were observed.

    Raises
    ------
    StatisticsError
        [curl-at]: if an x is NaN, or x is not one-dimensional; [values-numeric]: if an x is not a number;
        [curl-no-rectangles]: if there is no complete rectangle;
        [curl-infinite]: if a score is infinite; [curl-too-large]: if the matrix needs too much memory;
        [scores-numeric], [scores-shape]: if the scores are not a matrix of numbers.

    Examples
    --------
    >>> curl_ecdf(np.array([[0.5, 0.0, 0.0], [0.0, 0.0, 0.25]]), [0.0, 0.25, 0.6, 1.0]).tolist()
    [0.0, 0.3333333333333333, 0.6666666666666666, 1.0]
    """
    points = as_reals(x, noun="values").astype(np.float64)
    if points.ndim != 1 or np.isnan(points).any():
        n_missing = int(np.isnan(points).sum())
        raise StatisticsError(
            f"The values x must be a one-dimensional array without NaN: got {n_missing} NaN in the shape {points.shape}. "
            "Pass a list of numbers.",
            slug="curl-at",
        )
    differences = _check_and_sort_differences(matrix)

    # |Δ| of a rectangle is a whole number of steps of a fine grid: convert x to steps, with a tolerance for rounding
    points_in_steps = points / differences.step_size + _ROUNDING_STEPS
    max_curl = np.floor(np.clip(points_in_steps, -1, differences.max_distance))  # also for an infinite x
    n_rectangles_within = [differences.count_up_to(int(steps)) for steps in max_curl]
    return np.array(n_rectangles_within) / differences.n_distances  # the number of all rectangles


def _check_and_sort_differences(matrix: Floats) -> _SortedDifferences:
    """Check a matrix of scores, and sort the score differences of each pair of rows.

    A difference is the score of one row minus the score of the other row, in the same column. Two rows and two columns are a
    rectangle. Its curl is the distance between the differences in both columns.

    matrix : float array (n_agents, n_items), NaN for unobserved cells; the shorter side becomes the rows

    Raises StatisticsError [curl-infinite], [curl-no-rectangles], [curl-too-large], [scores-numeric] or [scores-shape].
    """
    scores = np.asarray(as_matrix(matrix), dtype=np.float64)
    n_infinite = int(np.isinf(scores).sum())
    if n_infinite:
        raise StatisticsError(
            f"Scores must be finite: got {n_infinite} infinite scores. Pass scores that were clipped before they were "
            "transformed, and NaN for unobserved cells.",
            slug="curl-infinite",
        )
    observed = ~np.isnan(scores)
    if n_rectangles(observed) == 0:
        raise no_rectangles_error(observed)
    n_agents, n_items = scores.shape
    return _sort_differences(scores if n_agents <= n_items else scores.T)


def _sort_differences(scores: Floats) -> _SortedDifferences:
    """Compute the score differences of all pairs of rows of a matrix, sort them by pair, and round them to a grid.

    All differences are put into one ascending array, one pair of rows after the other. One search in this array then serves all
    pairs: for every difference, it finds the later ones of the same pair within a given distance.

    scores : float array (n_rows, n_columns), NaN for unobserved cells

    Raises StatisticsError [curl-too-large] if there are too many differences.
    """
    _check_n_differences(*scores.shape)

    # differences of each pair of rows (axis 0), ascending; sorting moves NaN to the end
    upper, lower = np.triu_indices(len(scores), 1)
    difference = np.sort(scores[upper] - scores[lower], axis=1)
    is_defined = ~np.isnan(difference)
    n_by_pair = is_defined.sum(axis=1)
    smallest_of_pair = difference[:, :1]
    above_smallest = (difference - smallest_of_pair)[is_defined]

    # a step of the grid is relative to the range of the scores, so that rounding errors become 0 steps
    score_range = float(np.nanmax(scores) - np.nanmin(scores))
    largest_value = max(float(above_smallest.max()), score_range)
    step_size = largest_value / _GRID
    if step_size == 0:  # all scores are equal
        step_size = 1 / _GRID
    steps = np.rint(above_smallest / step_size).astype(np.int64)

    # A distance within a pair is at most _GRID steps. The offsets put more than _GRID steps between two pairs, so that a search
    # within a distance never reaches the next pair.
    offset_by_pair = np.arange(len(n_by_pair)) * (2 * _GRID + 1)
    end_by_pair = np.cumsum(n_by_pair)
    return _SortedDifferences(
        sorted_differences=steps + np.repeat(offset_by_pair, n_by_pair),
        end_of_pair=np.repeat(end_by_pair, n_by_pair),
        step_size=step_size,
        max_distance=int(steps.max()),
    )


def _check_n_differences(n_rows: int, n_columns: int) -> None:
    """Raise StatisticsError [curl-too-large] if the differences between all pairs of rows would need too much memory."""
    n_differences = n_rows * (n_rows - 1) // 2 * n_columns
    if n_differences > _MAX_DIFFERENCES:
        raise StatisticsError(
            f"The matrix is too large for exact curl: got {n_rows} × {n_columns}, which needs {n_differences:,} "
            f"differences, at most {_MAX_DIFFERENCES:,}. Pass a subset of agents or items.",
            slug="curl-too-large",
        )


Coincident = Literal["drop", "keep"]
"""What is done with rectangles of which two agents or items are equal in a bootstrap sample."""

_MIN_DRAWS = 20


@dataclass(frozen=True)
class MedianDifference:
    """Difference of the median curl on two links, each in the unit of its link.

    Attributes
    ----------
    first, second : str
        Names of the links; the difference is first − second.
    exact : float
        Difference over all rectangles of the matrix.
    mean, low, high : float
        Mean of the bootstrap samples, and their percentiles at `level`.
    level : float
        Confidence level.
    coincident : {"drop", "keep"}
        What was done with rectangles that contain an agent or item twice.
    n_draws : int
        Number of bootstrap samples with a complete rectangle.
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
    """Compare the median curl (deviation of scores from additivity) between all pairs of link functions by a bootstrap.

    The curl of a rectangle (agents i and i', items j and j') is |Δ| with Δ = s_ij − s_i'j − s_ij' + s_i'j'.

    Parameters
    ----------
    matrix : float array (n_agents, n_items)
        Scores in [−1, 1]; NaN is unobserved.
    rng : numpy.random.Generator
        Source of the bootstrap samples.
    coincident : {"drop", "keep"}, default "drop"
        What to do with rectangles that contain an agent or item twice. Their Δ is 0. "keep", as in the paper, counts
        them, which biases medians towards 0.
    level : float, default 0.95
        Confidence level, in (0, 1).
    n_draws : int, default 500
        Number of bootstrap samples, at least 20.
    n_rectangles : int, default 20,000
        Number of rectangles of each sample, at least 1.

    Returns
    -------
    tuple of MedianDifference
        One result per pair of the links "identity", "probit" and "logit": identity − probit, identity − logit and probit − logit.
        Differences are the median on the link `first` minus the median on the link `second`, each in the unit of its link.
        `exact` is the difference of the exact medians on this matrix; `mean`, `low` and `high` are the mean of the bootstrap
        differences and their percentile bounds. Samples without a complete rectangle are left out.

    Raises
    ------
    StatisticsError
        [coincident], [bootstrap-draws], [level]: if a parameter is out of range; [curl-no-rectangles]: if the matrix has no
        complete rectangle, or fewer than half of the samples have one; [curl-too-large]: if the exact medians need too much
        memory; [scores-numeric], [scores-shape], [scores-infinite], [scores-range]: if the scores are not a matrix of numbers in
        [−1, 1].

    Notes
    -----
    Each draw resamples agents and items with replacement, and then samples complete rectangles uniformly, the same for
    all links.
    """
    check_level(level)
    _check_bootstrap_parameters(coincident, n_draws=n_draws, n_rectangles=n_rectangles)
    scores = check_score_matrix(matrix)
    scores_by_link = np.stack([link.forward(scores) for link in LINKS.values()])
    exact = np.array([curl_quantiles(transformed, (0.5,))[0] for transformed in scores_by_link])
    medians = _resample_medians(
        scores_by_link, ~np.isnan(scores), rng=rng, coincident=coincident, n_draws=n_draws, n_rectangles=n_rectangles
    )
    if len(medians) < n_draws / 2:
        raise StatisticsError(
            f"Too few bootstrap samples have a complete rectangle: got {len(medians)} of {n_draws}. Add scores of the same items "
            "for more agents.",
            slug="curl-no-rectangles",
        )

    names = list(LINKS)
    tail = (1 - level) / 2
    differences = []
    for a, b in combinations(range(len(names)), 2):
        bootstrap = medians[:, a] - medians[:, b]
        low, high = np.quantile(bootstrap, [tail, 1 - tail]).tolist()
        difference = MedianDifference(
            first=names[a],
            second=names[b],
            exact=float(exact[a] - exact[b]),
            mean=float(bootstrap.mean()),
            low=low,
            high=high,
            level=level,
            coincident=coincident,
            n_draws=len(medians),
        )
        differences.append(difference)
    return tuple(differences)


def _resample_medians(
    scores_by_link: Floats,
    observed: Bools,
    *,
    rng: np.random.Generator,
    coincident: Coincident,
    n_draws: int,
    n_rectangles: int,
) -> Floats:
    """Compute the median curl on each link in bootstrap samples of agents and items.

    A rectangle consists of two agents i, k and two items j, m, and is complete if all four cells have a score. Its curl
    is |s_ij − s_kj − s_im + s_km|, with s the transformed scores.

    scores_by_link : float array (n_links, n_agents, n_items), scores transformed by each link function
    observed : bool array (n_agents, n_items), cells with a score
    coincident : "drop" or "keep" rectangles that contain an agent or item twice, because the sample contains it twice
    n_draws : number of bootstrap samples
    n_rectangles : number of random rectangles per sample

    Returns a float array (n_valid, n_links), one row per sample that has a complete rectangle.
    """
    n_agents, n_items = observed.shape
    medians = []
    for _ in range(n_draws):
        agents = rng.integers(0, n_agents, size=(n_agents,))
        items = rng.integers(0, n_items, size=(n_items,))
        observed_in_sample = observed[np.ix_(agents, items)]
        try:
            corners = sample_rectangles(observed_in_sample, rng=rng, n_pairs=n_rectangles, n_per_pair=1)
        except StatisticsError:  # the sample has no complete rectangle
            continue

        # positions in the original matrix of the agents i, k and the items j, m of each rectangle
        i, k = agents[corners.i.ravel()], agents[corners.k.ravel()]
        j, m = items[corners.j.ravel()], items[corners.m.ravel()]
        if coincident == "drop":
            is_distinct = (i != k) & (j != m)
            i, k, j, m = i[is_distinct], k[is_distinct], j[is_distinct], m[is_distinct]

        s = scores_by_link
        curl = np.abs(s[:, i, j] - s[:, k, j] - s[:, i, m] + s[:, k, m])  # (n_links, n_rectangles)
        if curl.size:
            medians.append(np.median(curl, axis=1))
    return np.array(medians, dtype=np.float64).reshape(-1, len(scores_by_link))


def _check_bootstrap_parameters(coincident: str, *, n_draws: int, n_rectangles: int) -> None:
    """Check the parameters of the bootstrap of median curl: `n_draws` samples with `n_rectangles` rectangles each.

    coincident : "drop" or "keep" rectangles that contain an agent or item twice, because the sample contains it twice

    Raises StatisticsError [coincident] if `coincident` is neither "drop" nor "keep", and [bootstrap-draws] if there are fewer
    than `_MIN_DRAWS` samples or no rectangle.
    """
    if coincident not in ("drop", "keep"):
        raise StatisticsError(
            f"The value of coincident is unknown: got '{coincident}'. Set drop or keep.", slug="coincident"
        )
    if n_draws < _MIN_DRAWS or n_rectangles < 1:
        raise StatisticsError(
            f"The bootstrap needs at least {_MIN_DRAWS} draws of 1 rectangle: got {n_draws} of {n_rectangles}. "
            "Pass, for example, 500 draws of 20,000.",
            slug="bootstrap-draws",
        )
