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
from youden.stats.base.clusters import check_level
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
    """Compute the ranks that are compatible with intervals of abilities.

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


def spearman(ability: Floats, reference: Floats, *, level: float = 0.95) -> Metric:
    """Compute Spearman's ρ between abilities and a reference.

    Parameters
    ----------
    ability, reference : float array (n_agents,)
        Values to compare, without NaN.
    level : float, default 0.95
        Confidence level.

    Returns
    -------
    Metric
        ρ with its interval, which treats the agents as a random sample. There is none below 5 agents and for ρ = ±1.

    Raises
    ------
    StatisticsError
        [metric-missing]: if a value is NaN; [metric-shape]: if the arrays differ in shape; [metric-constant]: if there
        are fewer than 2 agents, or all values of an array are equal; [level].

    Notes
    -----
    The interval is tanh(atanh ρ ± z·√((1 + ρ²/2)/(n − 3))).

    References
    ----------
    Bonett & Wright (2000), Psychometrika 65, 23–28.
    """
    _check_rankings(ability, reference, level=level)
    rho = rank_correlation(ability, reference)
    variance = (1 + rho**2 / 2) / max(len(ability) - 3, 1)
    return _fisher_interval(rho, variance, n=len(ability), level=level, method="Fisher z, Bonett-Wright")


def kendall(ability: Floats, reference: Floats, *, level: float = 0.95) -> Metric:
    """Compute Kendall's τ-b between abilities and a reference.

    Parameters
    ----------
    ability, reference : float array (n_agents,)
        Values to compare, without NaN.
    level : float, default 0.95
        Confidence level.

    Returns
    -------
    Metric
        τ-b with its interval, which treats the agents as a random sample. There is none below 5 agents and for τ = ±1.

    Raises
    ------
    StatisticsError
        [metric-missing]: if a value is NaN; [metric-shape]: if the arrays differ in shape; [metric-constant]: if there
        are fewer than 2 agents, or all values of an array are equal; [level].

    Notes
    -----
    The interval is tanh(atanh τ ± z·√(.437/(n − 4))).

    References
    ----------
    Fieller, Hartley & Pearson (1957), Biometrika 44, 470–481.
    """
    from scipy.stats import kendalltau

    _check_rankings(ability, reference, level=level)
    tau = float(kendalltau(ability, reference, variant="b").statistic)
    variance = 0.437 / max(len(ability) - 4, 1)
    return _fisher_interval(tau, variance, n=len(ability), level=level, method="Fisher z, Fieller")


def ranking_auc(ability: Floats, positive: Bools) -> float:
    """Compute the area under the ROC curve of abilities for two groups of agents.

    Parameters
    ----------
    ability : float array (n_agents,)
        Abilities, without NaN.
    positive : bool array (n_agents,)
        Whether an agent is in the positive group; else it is in the negative group.

    Returns
    -------
    float
        Probability in [0, 1] that a positive agent has a higher ability than a negative one; ties count ½.

    Raises
    ------
    StatisticsError
        [metric-missing]: if an ability is NaN; [metric-shape]: if the arrays differ in shape; [auc-groups]: if a group
        is not boolean; [auc-one-group]: if a group is empty.

    Examples
    --------
    >>> ranking_auc(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False]))
    0.875
    """
    positive = _check_groups(ability, positive)
    return float(_auc(ability[None, :], positive)[0])


def auc_measurement_interval(
    ability: Floats,
    positive: Bools,
    *,
    low: Floats,
    high: Floats,
    level: float = 0.95,
    rng: np.random.Generator,
    n_draws: int = 2000,
) -> Metric:
    """Compute the AUC with an interval for the errors of the abilities.

    The agents are treated as fixed: the interval says nothing about other agents.

    Parameters
    ----------
    ability : float array (n_agents,)
        Abilities, without NaN.
    positive : bool array (n_agents,)
        Whether an agent is in the positive group.
    low, high : float array (n_agents,)
        Confidence bounds of the abilities at `level`.
    level : float, default 0.95
        Confidence level of all intervals.
    rng : numpy.random.Generator
        Source of the draws.
    n_draws : int, default 2000
        Number of draws.

    Returns
    -------
    Metric
        AUC with its interval. There is none if an ability has none, or if nearly all draws give the estimate itself.

    Raises
    ------
    StatisticsError
        [metric-missing]: if an ability is NaN; [metric-shape]: if arrays differ in shape; [auc-groups]: if a group
        is not boolean; [auc-one-group]: if a group is empty; [interval-order]: if a lower bound exceeds its upper
        bound; [level].

    Notes
    -----
    The bounds are percentiles of the AUC of draws θ_i + (high_i − low_i)/(2z)·N(0, 1), independent over agents. The
    draws contain the errors of the abilities twice, so that their AUC is closer to ½. The interval is therefore
    extended to contain the estimate.
    """
    positive = _check_groups(ability, positive)
    for bounds in (low, high):
        if bounds.shape != ability.shape:
            raise shape_error(ability, bounds)
    z = normal_quantile(level)
    if (low > high).any():
        raise StatisticsError(
            f"Lower bounds must not exceed upper bounds: got {int((low > high).sum())} that do. Pass low ≤ high.",
            slug="interval-order",
        )
    value = float(_auc(ability[None, :], positive)[0])
    std_error = (high - low) / (2 * z)
    n_missing = int(np.isnan(std_error).sum())
    if n_missing:
        return Metric(value, np.nan, np.nan, level, f"none: {n_missing} abilities have no interval")

    drawn_abilities = ability + std_error * rng.standard_normal((n_draws, len(ability)))
    tail = (1 - level) / 2
    percentiles = np.quantile(_auc(drawn_abilities, positive), [tail, 1 - tail]).tolist()
    lower, upper = min(value, percentiles[0]), max(value, percentiles[1])
    if lower == upper:
        return Metric(value, np.nan, np.nan, level, f"none: {level:.0%} of the draws equal the estimate")
    return Metric(value, lower, upper, level, f"percentile of {n_draws} normal draws")


def auc_sampling_interval(ability: Floats, positive: Bools, *, level: float = 0.95) -> Metric:
    """Compute the AUC with an interval for the sampling of agents.

    Both groups are treated as random samples, and abilities as known.

    Parameters
    ----------
    ability : float array (n_agents,)
        Abilities, without NaN.
    positive : bool array (n_agents,)
        Whether an agent is in the positive group.
    level : float, default 0.95
        Confidence level.

    Returns
    -------
    Metric
        AUC with its interval, which lies in [0, 1] and has a positive length also for AUC = 0 and 1.

    Raises
    ------
    StatisticsError
        [metric-missing]: if an ability is NaN; [metric-shape]: if the arrays differ in shape; [auc-groups]: if a group
        is not boolean; [auc-one-group]: if a group is empty; [level].

    Notes
    -----
    The bounds are the solutions θ of (A − θ)² = z²·V(θ), with A the AUC and V Hanley and McNeil's variance for
    exponential distributions: V(θ) = θ(1 − θ)·(1 + (N − 1)·((1 − θ)/(2 − θ) + θ/(1 + θ)))/(m·n), N = (m + n)/2 for m
    positive and n negative agents.

    References
    ----------
    Newcombe (2006), Statistics in Medicine 25, 559–573, method 5.
    """
    from scipy.optimize import brentq

    z = normal_quantile(level)
    positive = _check_groups(ability, positive)
    value = ranking_auc(ability, positive)
    n_pairs = int(positive.sum()) * int((~positive).sum())
    N_minus_1 = len(positive) / 2 - 1

    def score_equation(theta: float) -> float:
        inflation = 1 + N_minus_1 * ((1 - theta) / (2 - theta) + theta / (1 + theta))
        return (value - theta) ** 2 - z**2 * theta * (1 - theta) * inflation / n_pairs

    inner = min(max(value, 1e-9), 1 - 1e-9)  # 0 and 1 are roots themselves, which a search would find first
    low = 0.0 if value == 0 else float(brentq(score_equation, 0.0, inner))
    high = 1.0 if value == 1 else float(brentq(score_equation, inner, 1.0))
    return Metric(value, low, high, level, "Newcombe, method 5")


def rmse(predicted: Floats, observed: Floats, *, level: float = 0.95) -> Metric:
    """Compute the root mean squared error over observed cells.

    Parameters
    ----------
    predicted : float array (...)
        Predictions.
    observed : float array (...)
        Observations of the same shape, NaN for unobserved cells.
    level : float, default 0.95
        Confidence level.

    Returns
    -------
    Metric
        RMSE with its interval, which treats cells as independent. There is none if all squared errors are equal.

    Raises
    ------
    StatisticsError
        [metric-missing]: if an observed cell has no prediction; [metric-shape]: if the arrays differ in shape;
        [rmse-no-cells]: if nothing was observed; [level].

    Notes
    -----
    The bounds are the square roots of the bounds of a normal interval of the mean squared error.
    """
    if predicted.shape != observed.shape:
        raise shape_error(predicted, observed)
    squared = ((predicted - observed) ** 2)[~np.isnan(observed)]
    if len(squared) == 0:
        raise StatisticsError(
            "Predictions need observed cells to be compared with: got none. Set a holdout above 0.",
            slug="rmse-no-cells",
        )
    if np.isnan(squared).any():
        raise _missing_error(int(np.isnan(squared).sum()), "observed cells have no prediction")
    mean = float(squared.mean())
    margin = np.nan
    if len(squared) > 1 and np.ptp(squared) > 0:
        margin = normal_quantile(level) * float(squared.std(ddof=1)) / np.sqrt(len(squared))
    low, high = np.sqrt(np.maximum([mean - margin, mean + margin], 0.0)).tolist()
    return Metric(float(np.sqrt(mean)), low, high, level, "normal, on squared errors of cells")


def _auc(ability: Floats, positive: Bools) -> Floats:
    """Compute the AUC of each row of abilities, float (n_draws, n_agents), as Mann–Whitney's U / number of pairs."""
    from scipy.stats import rankdata

    n_positive = int(positive.sum())
    n_pairs = n_positive * (len(positive) - n_positive)
    rank_sum = rankdata(ability, axis=1)[:, positive].sum(axis=1)
    min_rank_sum = n_positive * (n_positive + 1) / 2
    return np.asarray((rank_sum - min_rank_sum) / n_pairs)


def _fisher_interval(value: float, variance: float, *, n: int, level: float, method: str) -> Metric:
    """Make the interval of a correlation of `n` agents from the variance of its Fisher transform, atanh(value)."""
    if n < _MIN_AGENTS_FISHER:
        return Metric(value, np.nan, np.nan, level, f"none: {n} agents are too few")
    if 1 - abs(value) < 1e-12:
        return Metric(value, np.nan, np.nan, level, "none: a perfect rank correlation gives none")
    margin = normal_quantile(level) * np.sqrt(variance)
    low, high = np.tanh(np.arctanh(value) + np.array([-margin, margin])).tolist()
    return Metric(value, low, high, level, method)


def normal_quantile(level: float) -> float:
    """Return the (1 + level)/2 quantile of the standard normal distribution, or raise StatisticsError [level]."""
    check_level(level)
    return float(ndtri((1 + level) / 2))


def _check_rankings(ability: Floats, reference: Floats, *, level: float) -> None:
    """Check that two arrays, float (n_agents,), can be correlated; raise StatisticsError otherwise."""
    normal_quantile(level)
    if ability.shape != reference.shape or ability.ndim != 1:
        raise shape_error(ability, reference)
    n_missing = int((np.isnan(ability) | np.isnan(reference)).sum())
    if n_missing:
        raise _missing_error(n_missing, "agents have no ability on one side")
    if len(ability) < 2 or np.ptp(ability) == 0 or np.ptp(reference) == 0:
        raise StatisticsError(
            f"A rank correlation needs 2 agents, and values that differ in both arrays: got {len(ability)} agents, with equal "
            "values in one array. Add agents or calls.",
            slug="metric-constant",
        )


def _check_groups(ability: Floats, positive: Bools) -> Bools:
    """Check that abilities and groups allow an AUC, and return the groups as bool (n_agents,).

    Raises StatisticsError [metric-shape], [auc-groups], [metric-missing] or [auc-one-group].
    """
    if ability.shape != positive.shape or ability.ndim != 1:
        raise shape_error(ability, positive)
    is_valid = np.isin(positive, (0, 1))
    if not is_valid.all():
        raise StatisticsError(
            f"The group of each agent must be true or false: got {positive[~is_valid][0]}. Pass a boolean array.",
            slug="auc-groups",
        )
    positive = positive.astype(np.bool_)  # integers would index by position
    n_missing = int(np.isnan(ability).sum())
    if n_missing:
        raise _missing_error(n_missing, "agents have no ability")
    if positive.all() or not positive.any():
        raise StatisticsError(
            f"AUC compares two groups: got {int(positive.sum())} positive agents of {len(positive)}. "
            "Pass at least one agent of each group.",
            slug="auc-one-group",
        )
    return positive


def shape_error(a: Floats, b: Floats | Bools | Ids) -> StatisticsError:
    """Make the error for two arrays whose shapes differ."""
    return StatisticsError(
        f"Both arrays must have one shape: got {a.shape} and {b.shape}. Pass values of the same agents, in the same order.",
        slug="metric-shape",
    )


def _missing_error(n: int, subject: str) -> StatisticsError:
    """Make the error for `n` NaN values; `subject` completes the sentence after the number."""
    return StatisticsError(
        f"{n} {subject}: got NaN. Remove them from both arrays, and report it.", slug="metric-missing"
    )
