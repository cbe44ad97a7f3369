"""How far two judges, or a judge and labels, agree: on the same units beyond chance, and on two numbers of the same
cells, over all cells and among agents within items.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from youden.errors import StatisticsError
from youden.stats.base.clusters import check_level
from youden.stats.base.metrics import Metric, rank_correlation, shapes_differ
from youden.types.pool import Bools, Floats


def cohen_kappa(one: Floats, other: Floats) -> float:
    """(p_o − p_e)/(1 − p_e) of two judges on N units: p_o the share of equal answers, p_e that of independent judges.

    one, other: float[N], any finite set of categories, no NaN. NaN where both give one and the same answer throughout.

    Raises: StatisticsError [agreement-shape] for different lengths or no unit.
    Source: Cohen (1960), Educational and Psychological Measurement 20.

    >>> cohen_kappa(np.array([1.0, 1.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0, 0.0]))
    0.5
    """
    if one.shape != other.shape or one.size == 0:
        raise StatisticsError(
            f"Two judges' answers have the shapes {one.shape} and {other.shape}. Give both on the same units.",
            slug="agreement-shape",
        )
    expected = sum(float((one == value).mean() * (other == value).mean()) for value in np.unique(np.append(one, other)))
    return float("nan") if expected == 1 else (float((one == other).mean()) - expected) / (1 - expected)


def krippendorff_alpha(answers: Floats) -> float:
    """1 − D_o/D_e of R judges on N units, with δ = (difference)²: interval α, which for answers 0 and 1 is nominal α.

    D_o averages δ over pairs of answers to one unit, D_e over all pairs of answers. answers: float[R, N], NaN where a judge gave
    none; units with one answer are left out. NaN where all answers are equal or no unit has two.

    Raises: StatisticsError [agreement-shape] unless two judges or more.
    Source: Krippendorff (2011), Computing Krippendorff's alpha-reliability.

    >>> round(krippendorff_alpha(np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])), 4)
    0.5333
    """
    if answers.ndim != 2 or len(answers) < 2:
        raise StatisticsError(
            f"Answers of the shape {answers.shape} arrived. Give one row a judge, two judges or more.",
            slug="agreement-shape",
        )
    n = (~np.isnan(answers)).sum(axis=0)
    answers, n = answers[:, n > 1], n[n > 1]
    given = answers[~np.isnan(answers)]
    if len(given) == 0 or np.ptp(given) == 0:
        return float("nan")
    within = np.nansum((answers - np.nansum(answers, axis=0) / n) ** 2, axis=0)
    observed = float((2 * n * within / (n - 1)).sum()) / len(given)
    expected = 2 * len(given) * float(given.var()) / (len(given) - 1)
    return 1 - observed / expected


_MIN_AGENTS = 3
_MIN_ITEMS = 3
_MOST_GROUPS = 50


class CellCorrelation(NamedTuple):
    """overall: Spearman's ρ of all cells; within: the mean ρ of agents over `n_items` items that have three or more and vary."""

    overall: Metric
    within: Metric
    n_cells: int
    n_items: int


def cell_correlation(one: Floats, other: Floats, *, level: float = 0.95) -> CellCorrelation:
    """Two matrices float[K, J], NaN where a cell has none; cells with both are compared. Items are the sample.

    Overall: tanh(atanh ρ ± t·SE), SE by the jackknife of atanh ρ over items, in at most 50 groups. Within: mean ± t·SE of items'
    ρ. A figure is NaN where nothing varies, its interval with fewer than three items, and where all have the same ρ.

    Raises: StatisticsError [metric-shape], [level].
    """
    check_level(level)
    if one.shape != other.shape or one.ndim != 2:
        raise shapes_differ(one, other)
    both = ~(np.isnan(one) | np.isnan(other))
    rhos = [_rho(one[both[:, j], j], other[both[:, j], j]) for j in range(one.shape[1])]
    within = np.array([rho for rho in rhos if not np.isnan(rho)])
    return CellCorrelation(
        _overall(one, other, both, level=level), _mean(within, level=level), int(both.sum()), len(within)
    )


def _rho(one: Floats, other: Floats) -> float:
    return np.nan if len(one) < _MIN_AGENTS else rank_correlation(one, other)


def _mean(rhos: Floats, *, level: float) -> Metric:
    n = len(rhos)
    if n < _MIN_ITEMS:
        return Metric(float(rhos.mean()) if n else np.nan, np.nan, np.nan, level, f"none: {n} items are too few")
    mean = float(rhos.mean())
    if np.ptp(rhos) < 1e-12:
        return Metric(mean, np.nan, np.nan, level, f"none: all {n} items have the same")
    margin = float(student.ppf((1 + level) / 2, n - 1) * rhos.std(ddof=1) / np.sqrt(n))
    return Metric(mean, max(-1.0, mean - margin), min(1.0, mean + margin), level, f"Student t over {n} items")


def _overall(one: Floats, other: Floats, both: Bools, *, level: float) -> Metric:
    item = np.nonzero(both)[1]
    x, y = one[both], other[both]
    value = _rho(x, y)
    if np.isnan(value):
        return Metric(value, value, value, level, "none: nothing varies")
    group = np.unique(item, return_inverse=True)[1] % _MOST_GROUPS
    n = int(group.max()) + 1
    left = np.array([_rho(x[group != g], y[group != g]) for g in range(n)])
    if n < _MIN_ITEMS or np.isnan(left).any() or max(abs(value), *np.abs(left)) > 1 - 1e-12:
        why = f"{n} items are too few" if n < _MIN_ITEMS else "nothing is left to vary without some items"
        return Metric(value, np.nan, np.nan, level, f"none: {why}")
    z = np.arctanh(left)
    margin = student.ppf((1 + level) / 2, n - 1) * np.sqrt((n - 1) / n * ((z - z.mean()) ** 2).sum())
    low, high = np.tanh(np.arctanh(value) + np.array([-margin, margin])).tolist()
    return Metric(value, low, high, level, f"Fisher z, jackknife over items in {n} groups")
