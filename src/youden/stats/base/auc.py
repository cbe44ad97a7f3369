"""Measure by the AUC how well abilities separate two known groups of agents."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from youden.errors import StatisticsError
from youden.stats.base.array_likes import takes_array_likes
from youden.stats.base.metrics import Metric, missing_error, normal_quantile, shape_error
from youden.text.sentences import format_count
from youden.types.arguments import check_argument
from youden.types.pool import Bools, Floats


@takes_array_likes
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
    positive = _check_auc_inputs(ability, positive)
    return float(_area_under_curve(ability[None, :], positive)[0])


@takes_array_likes
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

    The agents are treated as fixed: the interval does not apply to other agents.

    Parameters
    ----------
    ability : float array (n_agents,)
        Abilities, without NaN.
    positive : bool or 0/1 array (n_agents,)
        Whether an agent is in the positive group, which is expected to have the higher abilities.
    low, high : float array (n_agents,)
        Confidence bounds of the abilities at `level`.
    level : float, default 0.95
        Confidence level, in (0, 1), of the given bounds and of the interval of the AUC.
    rng : numpy.random.Generator
        Source of the draws.
    n_draws : int, default 2000
        Number of draws, at least 1.

    Returns
    -------
    Metric
        `value` is the AUC in [0, 1], in which ties count ½; `low` and `high` are its bounds. If a bound of an ability is NaN, or
        if nearly all draws give the estimate itself, the bounds of the AUC are NaN, and `method` gives the reason.

    Raises
    ------
    StatisticsError
        [metric-missing]: if an ability is NaN; [metric-shape]: if arrays differ in shape; [auc-groups]: if a value of `positive`
        is not True, False, 1 or 0; [auc-one-group]: if a group is empty; [interval-order]: if a lower bound exceeds its upper
        bound; [level]: unless 0 < level < 1; [bootstrap-draws]: if `n_draws` is below 1.
    ConfigError
        [argument-type]: if `rng`, `n_draws` or `level` has a wrong type.

    Notes
    -----
    The bounds are percentiles of the AUC of draws θ_i + (high_i − low_i)/(2z)·N(0, 1), independent over agents. The draws contain
    the errors of the abilities twice: in the estimates θ_i, and as added noise. Their AUC is therefore closer to ½ than the
    estimate. The interval is extended to contain the estimate.
    """
    check_argument("rng", rng, np.random.Generator, "Pass, for example, `numpy.random.default_rng(0)`.")
    check_argument("n_draws", n_draws, Integral, "Pass a whole number such as 2000.")
    if n_draws < 1:
        raise StatisticsError(
            f"An interval of the AUC needs at least 1 draw: got {n_draws}. Pass, for example, 2000.",
            slug="bootstrap-draws",
        )
    positive = _check_auc_inputs(ability, positive)
    for bounds in (low, high):
        if bounds.shape != ability.shape:
            raise shape_error(ability, bounds)
    z = normal_quantile(level)
    if (low > high).any():
        raise StatisticsError(
            f"Lower bounds must not exceed upper bounds: got {int((low > high).sum())} that do. Pass low ≤ high.",
            slug="interval-order",
        )
    value = float(_area_under_curve(ability[None, :], positive)[0])
    std_error = (high - low) / (2 * z)
    n_missing = int(np.isnan(std_error).sum())
    if n_missing:
        return Metric(
            value, np.nan, np.nan, level, f"none: {format_count(n_missing, 'agent', 'has', 'have')} no interval"
        )

    drawn_abilities = ability + std_error * rng.standard_normal((n_draws, len(ability)))
    tail = (1 - level) / 2
    percentiles = np.quantile(_area_under_curve(drawn_abilities, positive), [tail, 1 - tail]).tolist()
    lower, upper = min(value, percentiles[0]), max(value, percentiles[1])
    if lower == upper:
        return Metric(value, np.nan, np.nan, level, f"none: {level:.0%} of the draws equal the estimate")
    return Metric(value, lower, upper, level, f"percentile of {n_draws} normal draws")


@takes_array_likes
def auc_sampling_interval(ability: Floats, positive: Bools, *, level: float = 0.95) -> Metric:
    """Compute the AUC with an interval for the sampling of agents.

    Both groups are treated as random samples, and abilities as known.

    Parameters
    ----------
    ability : float array (n_agents,)
        Abilities, without NaN.
    positive : bool or 0/1 array (n_agents,)
        Whether an agent is in the positive group, which is expected to have the higher abilities.
    level : float, default 0.95
        Confidence level, in (0, 1).

    Returns
    -------
    Metric
        `value` is the AUC, in which ties count ½; `low` and `high` are its bounds. The interval lies in [0, 1], and has a
        positive length also for AUC = 0 and 1.

    Raises
    ------
    StatisticsError
        [metric-missing]: if an ability is NaN; [metric-shape]: if the arrays differ in shape; [auc-groups]: if a value of
        `positive` is not True, False, 1 or 0; [auc-one-group]: if a group is empty; [level]: unless 0 < level < 1.

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
    positive = _check_auc_inputs(ability, positive)
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


def _area_under_curve(ability: Floats, positive: Bools) -> Floats:
    """Compute the area under the ROC curve for each draw of the abilities: float array (n_draws,).

    ability : float array (n_draws, n_agents)
    positive : bool array (n_agents,), agents of the positive group

    The area is Mann–Whitney's U divided by the number of pairs of a positive and a negative agent. U is computed from the
    ranks of the positive agents.
    """
    from scipy.stats import rankdata

    n_positive = int(positive.sum())
    n_pairs = n_positive * (len(positive) - n_positive)
    rank_sum = rankdata(ability, axis=1)[:, positive].sum(axis=1)
    min_rank_sum = n_positive * (n_positive + 1) / 2
    return np.asarray((rank_sum - min_rank_sum) / n_pairs)


def _check_auc_inputs(ability: Floats, positive: Bools) -> Bools:
    """Check that an AUC is defined, and return `positive` as bool array (n_agents,).

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
        raise missing_error(n_missing, "agent", "ability")
    if positive.all() or not positive.any():
        raise StatisticsError(
            f"AUC compares two groups: got {int(positive.sum())} positive agents of {len(positive)}. "
            "Pass at least one agent of each group.",
            slug="auc-one-group",
        )
    return positive
