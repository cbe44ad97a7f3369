"""Measure how well a ranking agrees with another or with known groups, and how far predictions are from observations.

A `Metric` has an interval with its level and its method. What is random in it differs by metric: the agents, the errors
of their abilities, or the cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from youden.errors import StatisticsError
from youden.stats.base.array_likes import takes_array_likes
from youden.stats.base.clusters import check_level
from youden.text.sentences import format_count
from youden.types.pool import Bools, Floats, Ids


class RankRange(NamedTuple):
    """Range of possible ranks of each agent, from 1 for the best.

    Attributes
    ----------
    low, high : int32 array (n_agents,)
        Best possible rank (the smallest number) and worst possible rank.
    """

    low: Ids
    high: Ids


def rank_ranges(low: Floats, high: Floats) -> RankRange:
    """Compute the range of ranks of each agent that is compatible with confidence intervals of abilities.

    Parameters
    ----------
    low, high : float array (n_agents,)
        Confidence bounds. An agent with a NaN bound may have any rank, and does not limit the ranks of others.

    Returns
    -------
    RankRange
        Lowest rank: 1 + the number of agents whose interval lies above. Highest rank: n_agents − the number of agents
        whose interval lies below.

    Raises
    ------
    StatisticsError
        [interval-order]: if a lower bound exceeds its upper bound; [metric-shape]: if the arrays differ in shape.

    Examples
    --------
    >>> rank_ranges(np.array([0.7, 0.4, 0.1]), np.array([0.9, 0.8, 0.3]))
    RankRange(low=array([1, 1, 3], dtype=int32), high=array([2, 2, 3], dtype=int32))
    """
    if high.shape != low.shape or low.ndim != 1:
        raise shape_error(low, high)
    if (low > high).any():
        raise StatisticsError(
            f"Lower bounds must not exceed upper bounds: got {int((low > high).sum())} that do. Pass low ≤ high.",
            slug="interval-order",
        )
    is_better = low[None, :] > high[:, None]
    lowest = 1 + is_better.sum(axis=1)
    highest = len(low) - is_better.sum(axis=0)
    return RankRange(lowest.astype(np.int32), highest.astype(np.int32))


_MIN_AGENTS_FISHER = 5


@dataclass(frozen=True)
class Metric:
    """An estimate with its interval.

    Attributes
    ----------
    value : float
        The estimate.
    low, high : float
        Confidence bounds; NaN if the method gives none.
    level : float
        Confidence level.
    method : str
        Method of the interval, or the reason why there is none.
    """

    value: float
    low: float
    high: float
    level: float
    method: str


def rank_correlation(a: Floats, b: Floats) -> float:
    """Compute Spearman's ρ without an interval.

    Parameters
    ----------
    a, b : float array (n,)
        Values, without NaN.

    Returns
    -------
    float
        ρ; NaN if all values of an array are equal.
    """
    from scipy.stats import rankdata

    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return np.nan
    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])


@takes_array_likes
def spearman(ability: Floats, reference: Floats, *, level: float = 0.95) -> Metric:
    """Compute Spearman's ρ between abilities and a reference.

    Parameters
    ----------
    ability, reference : float array (n_agents,)
        Values to compare, without NaN: numbers or truth values. Only their ranks matter.
    level : float, default 0.95
        Confidence level, in (0, 1).

    Returns
    -------
    Metric
        ρ (`value`) with its interval (`low`, `high`), which treats the agents as a random sample. The bounds are NaN if ρ is ±1,
        or if there are fewer than 5 agents.

    Raises
    ------
    StatisticsError
        [metric-missing]: if a value is NaN; [metric-shape]: if the arrays differ in shape; [metric-constant]: if there
        are fewer than 2 agents, or all values of an array are equal; [level]: if `level` is not between 0 and 1.

    Notes
    -----
    The interval is tanh(atanh ρ ± z·√((1 + ρ²/2)/(n − 3))).

    References
    ----------
    Bonett & Wright (2000), Psychometrika 65, 23–28.
    """
    ability, reference = ability.astype(np.float64), reference.astype(np.float64)  # truth values cannot be subtracted
    _check_correlation_inputs(ability, reference, level=level)
    rho = rank_correlation(ability, reference)
    variance = (1 + rho**2 / 2) / max(len(ability) - 3, 1)
    return _add_fisher_interval(rho, variance, n_agents=len(ability), level=level, method="Fisher z, Bonett-Wright")


@takes_array_likes
def kendall(ability: Floats, reference: Floats, *, level: float = 0.95) -> Metric:
    """Compute Kendall's τ-b between abilities and a reference.

    Parameters
    ----------
    ability, reference : float array (n_agents,)
        Values to compare, without NaN: numbers or truth values. Only their ranks matter.
    level : float, default 0.95
        Confidence level, in (0, 1).

    Returns
    -------
    Metric
        τ-b (`value`) with its interval (`low`, `high`), which treats the agents as a random sample. The bounds are NaN if τ is
        ±1, or if there are fewer than 5 agents.

    Raises
    ------
    StatisticsError
        [metric-missing]: if a value is NaN; [metric-shape]: if the arrays differ in shape; [metric-constant]: if there
        are fewer than 2 agents, or all values of an array are equal; [level]: if `level` is not between 0 and 1.

    Notes
    -----
    The interval is tanh(atanh τ ± z·√(.437/(n − 4))).

    References
    ----------
    Fieller, Hartley & Pearson (1957), Biometrika 44, 470–481.
    """
    from scipy.stats import kendalltau

    ability, reference = ability.astype(np.float64), reference.astype(np.float64)  # truth values cannot be subtracted
    _check_correlation_inputs(ability, reference, level=level)
    tau = float(kendalltau(ability, reference, variant="b").statistic)
    variance = 0.437 / max(len(ability) - 4, 1)
    return _add_fisher_interval(tau, variance, n_agents=len(ability), level=level, method="Fisher z, Fieller")


@takes_array_likes
def rmse(predicted: Floats, observed: Floats, *, level: float = 0.95) -> Metric:
    """Compute the root mean squared error over observed cells.

    Parameters
    ----------
    predicted : float array (...)
        Predictions. They may be NaN where `observed` is NaN.
    observed : float array (...)
        Observations of the same shape, NaN for unobserved cells.
    level : float, default 0.95
        Confidence level, in (0, 1).

    Returns
    -------
    Metric
        RMSE (`value`) with its interval (`low`, `high`) in the unit of the predictions. The interval treats cells as independent.
        Its bounds are NaN if all squared errors are equal, and for a single cell.

    Raises
    ------
    StatisticsError
        [metric-missing]: if an observed cell has no prediction; [metric-shape]: if the arrays differ in shape;
        [rmse-no-cells]: if nothing was observed; [level]: unless 0 < level < 1.

    Notes
    -----
    The bounds are the square roots of the bounds of a normal interval of the mean squared error; a negative bound counts as 0.
    """
    if predicted.shape != observed.shape:
        raise shape_error(predicted, observed)
    error = predicted.astype(np.float64) - observed
    squared_error = (error**2)[~np.isnan(observed)]
    n_cells = len(squared_error)
    if n_cells == 0:
        raise StatisticsError(
            "Predictions need observed cells to be compared with: got none. Set a holdout above 0.",
            slug="rmse-no-cells",
        )
    n_missing = int(np.isnan(squared_error).sum())
    if n_missing:
        raise missing_error(n_missing, "observed cell", "prediction")

    mean = float(squared_error.mean())
    quantile = normal_quantile(level)
    margin = np.nan
    if n_cells > 1 and np.ptp(squared_error) > 0:
        margin = quantile * float(squared_error.std(ddof=1)) / np.sqrt(n_cells)
    low, high = np.sqrt(np.maximum([mean - margin, mean + margin], 0.0)).tolist()
    return Metric(float(np.sqrt(mean)), low, high, level, "normal, on squared errors of cells")


def _add_fisher_interval(value: float, variance: float, *, n_agents: int, level: float, method: str) -> Metric:
    """Add a confidence interval to a correlation by Fisher's transform: tanh(atanh(value) ± z·√variance).

    value : correlation
    variance : variance of atanh(value)
    level : confidence level
    method : name of the formula of the variance

    The bounds are NaN for fewer than 5 agents, and for a correlation of ±1.
    """
    if n_agents < _MIN_AGENTS_FISHER:
        return Metric(value, np.nan, np.nan, level, f"none: {n_agents} agents are too few")
    if 1 - abs(value) < 1e-12:
        return Metric(value, np.nan, np.nan, level, "none: a perfect rank correlation gives none")
    margin = normal_quantile(level) * np.sqrt(variance)
    low, high = np.tanh(np.arctanh(value) + np.array([-margin, margin])).tolist()
    return Metric(value, low, high, level, method)


def normal_quantile(level: float) -> float:
    """Return the (1 + level)/2 quantile of the standard normal distribution, or raise StatisticsError [level]."""
    check_level(level)
    return float(ndtri((1 + level) / 2))


def _check_correlation_inputs(ability: Floats, reference: Floats, *, level: float) -> None:
    """Check that the rank correlation of two arrays is defined, and that `level` is a confidence level.

    ability, reference : float arrays (n_agents,)

    Raises StatisticsError [level] unless 0 < level < 1, [metric-shape] if the arrays are not one-dimensional or differ in shape,
    [metric-missing] if a value is NaN, and [metric-constant] for fewer than 2 agents or equal values in an array.
    """
    check_level(level)
    if ability.shape != reference.shape or ability.ndim != 1:
        raise shape_error(ability, reference)
    n_missing = int((np.isnan(ability) | np.isnan(reference)).sum())
    if n_missing:
        raise missing_error(n_missing, "agent", "ability on one side")
    if len(ability) < 2:
        raise StatisticsError(
            f"A rank correlation needs 2 agents: got {len(ability)}. Add agents.", slug="metric-constant"
        )
    if np.ptp(ability) == 0 or np.ptp(reference) == 0:
        raise StatisticsError(
            f"A rank correlation needs values that differ in both arrays: got equal values of all {len(ability)} agents in one "
            "array. Add agents or calls.",
            slug="metric-constant",
        )


def shape_error(a: Floats, b: Floats | Bools | Ids) -> StatisticsError:
    """Make the error for two arrays whose shapes differ."""
    return StatisticsError(
        f"Both arrays must have one shape: got {a.shape} and {b.shape}. Pass values of the same agents, in the same order.",
        slug="metric-shape",
    )


def missing_error(n: int, noun: str, value: str) -> StatisticsError:
    """Make the error for `n` NaN values, in the words "n noun has no value", such as "1 agent has no ability"."""
    return StatisticsError(
        f"{format_count(n, noun, 'has', 'have')} no {value}: got NaN. Remove NaN values from both arrays, and report how many "
        "you removed.",
        slug="metric-missing",
    )
