"""Measure how additive a score matrix is on each link: its curl, raw and scale-free, and the R² of the additive fit.

Raw curl has different units on different links (the logit stretches the scale by 3.2 at s = .61), so all three are
reported together. Up to `EXACT_DIFFERENCES` differences of rows, curl is exact over all rectangles; larger matrices are
sampled, and reported as such. Pairs of rows are independent draws, but rectangles of one pair are not. Standard errors
are therefore computed over pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from youden.stats.additive.clipped_linear import r_squared
from youden.stats.additive.solver import solve_additive
from youden.stats.base.estimator import check_score_matrix, check_scored_cells
from youden.stats.base.links import LINKS
from youden.stats.curl.quantiles import curl_ecdf, curl_quantiles
from youden.stats.curl.rectangles import n_rectangles, no_rectangles_error, sample_rectangles
from youden.streams import standalone_stream
from youden.types import Scores
from youden.types.cells import CellIndex
from youden.types.facts import LinkFacts
from youden.types.pool import Floats
from youden.types.results import CurlCurve


class Estimates(NamedTuple):
    """Estimates with their standard errors.

    Attributes
    ----------
    value, std_error : float array (n,)
        Estimates and standard errors.
    """

    value: Floats
    std_error: Floats


@dataclass(frozen=True, eq=False)
class SampledCurl:
    """Curl of a sample of rectangles.

    A rectangle consists of two agents i, k and two items j, m. Its curl is |Δ| = |(s_ij − s_kj) − (s_im − s_km)|, with s
    the transformed scores; it is 0 for additive scores.

    Attributes
    ----------
    curl : float array (n_pairs, n_per_pair)
        Curl |Δ| of each rectangle; rows are pairs of agents, or of items if there are fewer items than agents.
    """

    curl: Floats

    @classmethod
    def from_scores(cls, scores: Sequence[Floats], *, link: Callable[[Floats], Floats] = np.asarray) -> SampledCurl:
        """Compute the curl of rectangles from the scores of their cells.

        Parameters
        ----------
        scores : sequence of four float arrays (n_pairs, n_per_pair)
            Scores of the cells (i, j), (k, j), (i, m) and (k, m), without NaN.
        link : callable, optional
            Transformation of the scores, from a float array to one of the same shape. Default: none.

        Returns
        -------
        SampledCurl
            Its only attribute `curl`, float array (n_pairs, n_per_pair), is |Δ| = |(s_ij − s_kj) − (s_im − s_km)| of the
            rectangles, with s the transformed scores.
        """
        ij, kj, im, km = map(link, scores)
        return cls(np.abs((ij - kj) - (im - km)))

    def quantiles(self, q: Sequence[float]) -> Estimates:
        """Estimate quantiles of the curl, the deviation of a rectangle's four scores from additivity.

        A rectangle consists of two agents and two items.

        Parameters
        ----------
        q : sequence of float
            Probabilities in [0, 1].

        Returns
        -------
        Estimates
            For each q, the ⌈qn⌉-th smallest curl of the n sampled rectangles, with its standard error, in the unit of the link.

        Notes
        -----
        The estimated probability of a curl up to the quantile has a standard error e (see `ecdf`). The standard error of the
        quantile is half the difference between the quantiles of q + e and q − e. It is 0 if both are equal, as for scores with
        few distinct values.

        References
        ----------
        Woodruff (1952), J. American Statistical Association 47, 635–646 (here over clusters).
        """
        ordered = np.sort(self.curl, axis=None)
        probability = np.array(q, dtype=np.float64)
        quantile = _select_order_statistics(ordered, probability)
        error_of_share = self.ecdf(quantile).std_error
        low = _select_order_statistics(ordered, probability - error_of_share)
        high = _select_order_statistics(ordered, probability + error_of_share)
        return Estimates(quantile, std_error=(high - low) / 2)

    def ecdf(self, x: ArrayLike) -> Estimates:
        """Estimate the share of rectangles whose curl is at most x: the empirical distribution function (ECDF) of the curl.

        A rectangle consists of two agents and two items. Its curl measures how far its four scores are from additive.

        Parameters
        ----------
        x : float array_like (n,)
            Values, in the unit of the link.

        Returns
        -------
        Estimates
            Shares with their standard errors. Rectangles of one pair of rows (two agents, or two items) are not independent.
            Standard errors are therefore computed from the shares of the pairs, which are independent.
        """
        points = np.asarray(x, dtype=np.float64)
        n_pairs = len(self.curl)
        share_by_pair = np.empty((len(points), n_pairs))
        for index, point in enumerate(points):
            is_within = self.curl <= point + _rounding_tolerance(point)
            share_by_pair[index] = is_within.mean(axis=1)

        share = share_by_pair.mean(axis=1)
        std_error = share_by_pair.std(axis=1, ddof=1) / math.sqrt(n_pairs)
        return Estimates(share, std_error)


def _select_order_statistics(ordered: Floats, p: Floats) -> Floats:
    """Return the ⌈pn⌉-th smallest of n values for each p, from the first to the last: float array (n_p,).

    ordered : float array (n,), ascending
    """
    rank = np.ceil(p * len(ordered)).astype(np.int64)
    return np.asarray(ordered[rank.clip(1, len(ordered)) - 1])


def _rounding_tolerance(x: float) -> float:
    """Return the largest distance from x at which a value counts as equal to x."""
    return 1e-12 * max(1.0, abs(x))


EXACT_DIFFERENCES = 2**20
"""Largest number K(K − 1)/2·J of differences, K ≤ J, for which curl is exact: 30 agents × 2,400 items take about
a second."""

_EQUAL = 1e-12


class _Curl(Protocol):
    """Curl of one matrix on one link, exact or of a sample of rectangles."""

    def quantiles(self, q: tuple[float, ...]) -> Estimates: ...
    def ecdf(self, x: Floats) -> Estimates: ...


class _ExactCurl(NamedTuple):
    """Exact curl of a matrix, float array (n_agents, n_items), with standard errors 0."""

    value: Floats

    def quantiles(self, q: tuple[float, ...]) -> Estimates:
        quantile = curl_quantiles(self.value, q)
        return Estimates(quantile, std_error=np.zeros(len(quantile)))

    def ecdf(self, x: Floats) -> Estimates:
        share = curl_ecdf(self.value, x)
        return Estimates(share, std_error=np.zeros(len(share)))


class _LinkMeasurement(NamedTuple):
    """Measurement of one link.

    Attributes
    ----------
    value : float array (n_cells,)
        Transformed scores of the observed cells.
    sd : float
        Their standard deviation.
    curl : _Curl
        Their curl.
    n_rectangles : int
        Number of complete rectangles.
    n_sampled : int or None
        Number of sampled rectangles; None if all are used.
    """

    value: Floats
    sd: float
    curl: _Curl
    n_rectangles: int
    n_sampled: int | None


class LinkCurls(NamedTuple):
    """Curl of one score matrix on every link.

    Attributes
    ----------
    measurement_by_link : dict
        Measurements by name of the link.
    cells : CellIndex
        Observed cells.
    """

    measurement_by_link: dict[str, _LinkMeasurement]
    cells: CellIndex

    def table(self) -> dict[str, LinkFacts]:
        """Compute curl and R² on every link.

        Returns
        -------
        dict
            LinkFacts by name of the link.
        """
        return {
            name: _summarize_link(measurement, self.cells) for name, measurement in self.measurement_by_link.items()
        }

    def curves(self, *, n_steps: int = 41) -> tuple[CurlCurve, ...]:
        """Compute the distribution function of the curl on the scale of every link function.

        The curl of a rectangle of two agents and two items is the absolute deviation of its scores from additivity.

        Parameters
        ----------
        n_steps : int, default 41
            Number of values of the curl, evenly spaced from 0 to the 99th percentile of the curl; from 0 to 1 if this
            percentile is 0.

        Returns
        -------
        tuple of CurlCurve
            One curve per link: its name, the values of the curl, and the share of rectangles with at most each value. The
            standard errors of the shares are 0 if all rectangles were used instead of a sample.
        """
        curves = []
        for name, measurement in self.measurement_by_link.items():
            percentile_99 = float(measurement.curl.quantiles((0.99,)).value[0])
            largest_value = percentile_99 if percentile_99 > 0 else 1.0
            curl_values = np.linspace(0.0, largest_value, n_steps)
            share = measurement.curl.ecdf(curl_values)
            curve = CurlCurve(name, curl_values, share.value, share.std_error, measurement.sd)
            curves.append(curve)
        return tuple(curves)


def compare_links(matrix: Floats, *, exact_up_to: int = EXACT_DIFFERENCES) -> dict[str, LinkFacts]:
    """Compute how additive scores are on every link function: their curl, and the R² of an additive fit.

    The curl of a rectangle (two agents and two items) is |Δ| with Δ = s_ij − s_i'j − s_ij' + s_i'j' of the transformed
    scores.

    Parameters
    ----------
    matrix : float array (n_agents, n_items)
        Scores in [−1, 1]; NaN is unobserved.
    exact_up_to : int, default 2**20
        Largest number of score differences between rows for which all rectangles are used, so that the curl is exact. Above it, a
        fixed sample of rectangles is used.

    Returns
    -------
    dict of str to LinkFacts
        Median and 95th percentile of curl, and R², by name of the link; standard errors are None if curl is exact.

    Raises
    ------
    StatisticsError
        [curl-no-rectangles]: if there is no complete rectangle; [scores-numeric], [scores-shape], [scores-infinite],
        [scores-range]: if the scores are not a matrix of numbers in [−1, 1].

    Notes
    -----
    R² = 1 − RSS/TSS over observed cells, of the least-squares fit g(s_ij) ≈ θ_i − b_j, with g the link.
    """
    return measure_curl(matrix, exact_up_to=exact_up_to).table()


def measure_curl(scores: Scores | Floats, *, exact_up_to: int = EXACT_DIFFERENCES) -> LinkCurls:
    """Measure the curl of scores, their deviation from additivity, on the scale of every link function.

    The curl of a rectangle of two agents and two items is |s_ij − s_i'j − s_ij' + s_i'j'|, with transformed scores s.

    Parameters
    ----------
    scores : Scores or float array (n_agents, n_items)
        Scores in [−1, 1]; NaN is unobserved.
    exact_up_to : int, default 2**20
        Largest number of score differences between rows for which all rectangles are used, so that the curl is exact. Above it, a
        fixed sample of rectangles is used.

    Returns
    -------
    LinkCurls
        Measurements, from which table and curves are computed.

    Raises
    ------
    StatisticsError
        [curl-no-rectangles]: if there is no complete rectangle; [scores-numeric], [scores-shape], [scores-infinite],
        [scores-range], [scores-holdout], [weights-negative], [weights-shape]: if the scores are invalid.
    """
    index, value = _list_observed_cells(scores)
    observed = index.to_mask()
    n_rows, n_columns = sorted((index.n_agents, index.n_items))  # rows are the shorter side
    n_differences = n_rows * (n_rows - 1) // 2 * n_columns
    n_sampled: int | None = None
    if n_differences <= exact_up_to:
        n_all = n_rectangles(observed)
        if n_all == 0:
            raise no_rectangles_error(observed)
        matrix = index.to_matrix(value, empty=np.nan)
        curls: dict[str, _Curl] = {name: _ExactCurl(link.forward(matrix)) for name, link in LINKS.items()}
    else:
        corners = sample_rectangles(observed, rng=standalone_stream(0))
        n_all, n_sampled = corners.n_all, corners.i.size
        sampled = corners.scores(lambda agent, item: value[index.find(agent, item)])
        curls = {name: SampledCurl.from_scores(sampled, link=link.forward) for name, link in LINKS.items()}

    measurement_by_link = {}
    for name, link in LINKS.items():
        transformed = link.forward(value)
        sd = _compute_standard_deviation(transformed[index.by_agent])
        measurement_by_link[name] = _LinkMeasurement(transformed, sd, curls[name], n_all, n_sampled)
    return LinkCurls(measurement_by_link, index)


def _list_observed_cells(scores: Scores | Floats) -> tuple[CellIndex, Floats]:
    """Check scores, and return the observed cells and their scores, float array (n_cells,)."""
    if isinstance(scores, Scores):
        return check_scored_cells(scores)[:2]
    value = check_score_matrix(scores)
    index = CellIndex.from_mask(~np.isnan(value))
    return index, value[index.agent, index.item]


def _compute_additive_residuals(index: CellIndex, value: Floats) -> Floats:
    """Compute the residuals of the additive least-squares fit: float array (n_cells,)."""
    fit = solve_additive(
        index.agent, index.item, value, n_agents=index.n_agents, n_items=index.n_items, constraint="none"
    )
    return np.asarray(value - fit.ability[index.agent] + fit.difficulty[index.item])


def _summarize_link(measurement: _LinkMeasurement, index: CellIndex) -> LinkFacts:
    """Summarize how additive the scores are after their transformation by one link function.

    Scores are additive if each is ability − difficulty. The curl |s_ij − s_kj − s_im + s_km| measures the deviation from this
    for two agents i, k and two items j, m, a rectangle. Here s are the transformed scores. R² is that of the additive
    least-squares fit.

    measurement : transformed scores, with their curl and standard deviation
    index : cells of the scores

    Returns the median and the 95th percentile of the curl, raw and divided by the standard deviation of the scores. Also returns
    R² and, if rectangles were sampled, the standard errors of the quantiles.
    """
    quantiles = measurement.curl.quantiles((0.5, 0.95))
    median, p95 = quantiles.value.tolist()
    median_error = p95_error = None
    is_sampled = measurement.n_sampled is not None
    if is_sampled:
        median_error, p95_error = quantiles.std_error.tolist()

    # constant scores have no scale and no R²
    sd = measurement.sd
    median_scaled = p95_scaled = r2 = None
    if sd > 0:
        median_scaled, p95_scaled = median / sd, p95 / sd
        residual = _compute_additive_residuals(index, measurement.value)
        r2 = r_squared(measurement.value, residual)
    return LinkFacts(
        median=median,
        p95=p95,
        sd=sd,
        median_scaled=median_scaled,
        p95_scaled=p95_scaled,
        r2=r2,
        n_rectangles=measurement.n_rectangles,
        n_sampled=measurement.n_sampled,
        median_error=median_error,
        p95_error=p95_error,
    )


def _compute_standard_deviation(value: Floats) -> float:
    """Compute the standard deviation of values, float array (n,); 0 if they differ by rounding errors only."""
    return float(value.std()) if float(np.ptp(value)) > _EQUAL else 0.0
