"""Measure the agreement of two judges, or of a judge and labels, beyond chance and by the correlation of cells.

Correlations are computed over all cells, and among agents within items, because differences between items alone
correlate cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from youden.errors import StatisticsError
from youden.stats.base.clusters import check_level
from youden.stats.base.metrics import Metric, rank_correlation, shape_error
from youden.text.sentences import format_count
from youden.types.pool import Bools, Floats, Positions


def cohen_kappa(a: Floats, b: Floats) -> float:
    """Compute Cohen's κ of two judges.

    Parameters
    ----------
    a, b : float array (n_units,)
        Answers of both judges to the same units, such as trials: any finite set of categories, without NaN.

    Returns
    -------
    float
        κ; NaN if both judges always give one and the same answer.

    Raises
    ------
    StatisticsError
        [agreement-shape]: if the arrays differ in shape or are empty.

    Notes
    -----
    κ = (p_o − p_e)/(1 − p_e), with p_o the share of equal answers and p_e its expectation for independent judges.

    References
    ----------
    Cohen (1960), Educational and Psychological Measurement 20, 37–46.

    Examples
    --------
    >>> cohen_kappa(np.array([1.0, 1.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0, 0.0]))
    0.5
    """
    if a.shape != b.shape or a.size == 0:
        raise StatisticsError(
            f"Both judges' answers must have one shape and not be empty: got {a.shape} and {b.shape}. Pass answers to the same "
            "units.",
            slug="agreement-shape",
        )
    observed = float((a == b).mean())

    # independent judges agree on a category with the product of their shares of it
    expected = 0.0
    for category in np.unique(np.append(a, b)):
        share_a = (a == category).mean()
        share_b = (b == category).mean()
        expected += float(share_a * share_b)
    if expected == 1:
        return float("nan")
    return (observed - expected) / (1 - expected)


def krippendorff_alpha(answers: Floats) -> float:
    """Compute Krippendorff's α of several judges for interval data.

    Parameters
    ----------
    answers : float array (n_judges, n_units)
        Answers, NaN if a judge gave none. Units with fewer than two answers are left out.

    Returns
    -------
    float
        α; NaN if all answers are equal, or if no unit has two answers.

    Raises
    ------
    StatisticsError
        [agreement-shape]: unless there are two rows or more.

    Notes
    -----
    α = 1 − D_o/D_e. D_o is the mean squared difference over pairs of answers to the same unit. D_e is the mean squared difference
    over all pairs of answers. For answers 0 and 1 this is the nominal α.

    References
    ----------
    Krippendorff (2011), Computing Krippendorff's alpha-reliability, University of Pennsylvania.

    Examples
    --------
    >>> round(krippendorff_alpha(np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])), 4)
    0.5333
    """
    if answers.ndim != 2 or len(answers) < 2:
        raise StatisticsError(
            f"Answers must be a matrix of 2 judges or more: got the shape {answers.shape}. Pass one row per judge.",
            slug="agreement-shape",
        )
    # units with two answers or more
    n_answers = (~np.isnan(answers)).sum(axis=0)
    has_pair = n_answers > 1
    answers, n_answers = answers[:, has_pair], n_answers[has_pair]
    valid = answers[~np.isnan(answers)]
    n_valid = len(valid)
    if n_valid == 0 or np.ptp(valid) == 0:
        return float("nan")

    # The mean squared difference of two of n values is 2·Σ(deviation from their mean)²/(n − 1). Each unit has the weight of
    # its number of answers.
    unit_mean = np.nansum(answers, axis=0) / n_answers
    squares_in_unit = np.nansum((answers - unit_mean) ** 2, axis=0)
    weighted_disagreement = 2 * n_answers * squares_in_unit / (n_answers - 1)
    observed_disagreement = float(weighted_disagreement.sum()) / n_valid
    expected_disagreement = 2 * n_valid * float(valid.var()) / (n_valid - 1)
    return 1 - observed_disagreement / expected_disagreement


_MIN_AGENTS = 3
_MIN_ITEMS = 3
_MAX_JACKKNIFE_GROUPS = 50
"""Largest number of groups of items that are left out in turn by the jackknife."""


class CellCorrelation(NamedTuple):
    """Rank correlation of the cells of two matrices.

    Attributes
    ----------
    overall : Metric
        Spearman's ρ over all cells.
    within_items : Metric
        Mean over items of ρ among the agents of an item.
    n_cells : int
        Number of cells with both values.
    n_items : int
        Number of items with at least 3 agents and values that vary.
    """

    overall: Metric
    within_items: Metric
    n_cells: int
    n_items: int


def cell_correlation(a: Floats, b: Floats, *, level: float = 0.95) -> CellCorrelation:
    """Compute the rank correlation of the cells of two matrices, for example of the scores by two judges.

    The confidence intervals treat the items as a random sample.

    Parameters
    ----------
    a, b : float array (n_agents, n_items)
        Values; NaN for a cell without a value. Cells with a value in both matrices are used.
    level : float, default 0.95
        Confidence level, in (0, 1).

    Returns
    -------
    CellCorrelation
        Two correlations, each with `value`, `low` and `high`: `overall` is Spearman's ρ over all cells, and `within_items` the
        mean of the ρ of single items. Items with fewer than 3 agents, or with constant values, are left out of this mean.
        `n_cells` is the number of cells with both values, and `n_items` that of the items in the mean. The overall ρ is NaN for
        fewer than 3 cells or constant values, and the mean is NaN without an item. The bounds of the overall ρ are NaN for fewer
        than 3 items with a used cell, if ρ is ±1, or if ρ is undefined when some items are left out. The bounds of the mean are
        NaN for fewer than 3 items in it, or if all of these have the same ρ.

    Raises
    ------
    StatisticsError
        [metric-shape]: if the arrays differ in shape or are not two-dimensional; [level]: if `level` is not between 0 and 1.

    Notes
    -----
    The interval of the overall ρ is tanh(atanh ρ ± t·SE), with the jackknife standard error of atanh ρ over at most 50
    groups of items. The interval within items is the mean ± t·SE of the ρ of items.
    """
    check_level(level)
    if a.shape != b.shape or a.ndim != 2:
        raise shape_error(a, b)
    has_both = ~(np.isnan(a) | np.isnan(b))
    overall = _correlate_overall(a, b, has_both, level=level)

    item_rhos = []
    for item in range(a.shape[1]):
        agents = has_both[:, item]
        rho = _correlate_ranks(a[agents, item], b[agents, item])
        if not np.isnan(rho):
            item_rhos.append(rho)
    within_items = _summarize_item_correlations(np.array(item_rhos), level=level)
    return CellCorrelation(overall, within_items, int(has_both.sum()), len(item_rhos))


def _correlate_ranks(a: Floats, b: Floats) -> float:
    """Compute Spearman's ρ of two arrays, float array (n,); NaN for fewer than 3 values, or if an array is constant."""
    return np.nan if len(a) < _MIN_AGENTS else rank_correlation(a, b)


def _summarize_item_correlations(rhos: Floats, *, level: float) -> Metric:
    """Average the correlations of all items, and add a confidence interval of the mean by Student's t.

    The bounds are NaN for fewer than 3 items, or if all correlations are equal.

    rhos : float array (n_items,), correlation ρ of each item
    """
    n_items = len(rhos)
    mean = float(rhos.mean()) if n_items else np.nan
    if n_items < _MIN_ITEMS:
        return Metric(mean, np.nan, np.nan, level, method=f"none: {format_count(n_items, 'item', 'is', 'are')} too few")
    if np.ptp(rhos) < 1e-12:
        return Metric(mean, np.nan, np.nan, level, method=f"none: all {n_items} items have the same correlation")

    t = student.ppf((1 + level) / 2, n_items - 1)
    half_width = float(t * rhos.std(ddof=1) / np.sqrt(n_items))
    low = max(-1.0, mean - half_width)
    high = min(1.0, mean + half_width)
    return Metric(mean, low, high, level, method=f"Student t over {n_items} items")


def _correlate_overall(a: Floats, b: Floats, has_both: Bools, *, level: float) -> Metric:
    """Compute Spearman's ρ over the cells of two matrices, with an interval from a jackknife over items.

    The jackknife leaves out one item at a time. If there are more than 50 items, they are divided into 50 groups, and one
    group at a time is left out.

    a, b : float arrays (n_agents, n_items)
    has_both : bool array (n_agents, n_items), cells that have a value in both matrices

    Returns ρ with its bounds. All are NaN if ρ is not defined. Only the bounds are NaN if there are fewer than 3 items, or if
    a correlation of the jackknife is ±1 or not defined.
    """
    value_a, value_b = a[has_both], b[has_both]
    rho = _correlate_ranks(value_a, value_b)
    if np.isnan(rho):
        return Metric(np.nan, np.nan, np.nan, level, "none: nothing varies")

    n_items = int(has_both.any(axis=0).sum())
    if n_items < _MIN_ITEMS:
        return Metric(rho, np.nan, np.nan, level, f"none: {format_count(n_items, 'item', 'is', 'are')} too few")

    _, item = np.nonzero(has_both)
    jackknife = _correlate_without_each_group(value_a, value_b, item)
    largest_correlation = np.abs([rho, *jackknife]).max()  # NaN if a correlation is NaN
    if np.isnan(largest_correlation) or largest_correlation > 1 - 1e-12:
        return Metric(rho, np.nan, np.nan, level, "none: without some items, the cells do not vary or ρ is ±1")

    low, high = _compute_jackknife_bounds(rho, jackknife, level)
    return Metric(rho, low, high, level, f"Fisher z, jackknife over items in {len(jackknife)} groups")


def _correlate_without_each_group(value_a: Floats, value_b: Floats, item: Positions) -> Floats:
    """Compute Spearman's ρ of two sets of values repeatedly, each time without the cells of one group of items (jackknife).

    The items are assigned in turn to at most `_MAX_JACKKNIFE_GROUPS` groups. With few items, each item is a group.

    value_a, value_b : float arrays (n_cells,), both values of each cell
    item : int array (n_cells,), item of each cell

    Returns the correlations, float array (n_groups,); NaN if the remaining values are constant.
    """
    _, item_number = np.unique(item, return_inverse=True)
    group_of_cell = item_number % _MAX_JACKKNIFE_GROUPS
    n_groups = int(group_of_cell.max()) + 1

    rhos = []
    for left_out_group in range(n_groups):
        is_used = group_of_cell != left_out_group
        rho = _correlate_ranks(value_a[is_used], value_b[is_used])
        rhos.append(rho)
    return np.array(rhos)


def _compute_jackknife_bounds(rho: float, jackknife: Floats, level: float) -> tuple[float, float]:
    """Compute a confidence interval of a correlation from a jackknife, which leaves out one group of items at a time.

    The interval is tanh(atanh ρ ± t·SE). Fisher's transformation atanh keeps the bounds in (−1, 1); SE is the jackknife
    standard error of atanh ρ, and t a quantile of Student's t.

    rho : correlation ρ of all cells, in (−1, 1)
    jackknife : float array (n_groups,), correlations without each group, in (−1, 1)
    level : confidence level

    Returns the lower and the upper bound.
    """
    n_groups = len(jackknife)
    transformed = np.arctanh(jackknife)

    # jackknife standard error: √((g − 1)/g · Σ (z − z̄)²) with g groups
    squares = (transformed - transformed.mean()) ** 2
    std_error = np.sqrt((n_groups - 1) / n_groups * squares.sum())

    margin = student.ppf((1 + level) / 2, n_groups - 1) * std_error
    low, high = np.tanh(np.arctanh(rho) + np.array([-margin, margin])).tolist()
    return low, high
