"""How well one order matches another or known groups (rank correlations, AUC), how far predictions lie from what came,
and which places abilities and their intervals allow.

Every result carries an interval with its level and method: what varies (agents, abilities or cells) differs by metric.
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
    """int32[K] each: the best and the worst place an agent can hold, 1 is first."""

    low: Ids
    high: Ids


def rank_ranges(low: Floats, high: Floats) -> RankRange:
    """Places that intervals allow: rank low = 1 + agents whose interval lies wholly above, high = K − those wholly below.

    low, high: float[K]; NaN in either is no interval: such an agent may hold any place and bars nobody else's.

    Raises: StatisticsError [interval-order] where low exceeds high, [metric-shape].

    >>> rank_ranges(np.array([0.7, 0.4, 0.1]), np.array([0.9, 0.8, 0.3]))
    RankRange(low=array([1, 1, 3], dtype=int32), high=array([2, 2, 3], dtype=int32))
    """
    if high.shape != low.shape or low.ndim != 1:
        raise shapes_differ(low, high)
    if (low > high).any():
        raise StatisticsError(
            f"{int((low > high).sum())} intervals end before they begin. Give low ≤ high.", slug="interval-order"
        )
    above = low[None, :] > high[:, None]
    best = 1 + above.sum(axis=1)
    worst = len(low) - above.sum(axis=0)
    return RankRange(best.astype(np.int32), worst.astype(np.int32))


_FISHER_MIN = 5


@dataclass(frozen=True)
class Metric:
    """A value and its interval at `level` by `method`; low and high are NaN where the method cannot give one."""

    value: float
    low: float
    high: float
    level: float
    method: str


def rank_correlation(one: Floats, other: Floats) -> float:
    """Spearman's ρ of two float[n] without NaN; NaN where one side is all equal."""
    from scipy.stats import rankdata

    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return np.nan
    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])


def spearman(ability: Floats, reference: Floats, *, level: float = 0.95) -> Metric:
    """Rank correlation ρ of two float[K], as if agents were a sample: tanh(atanh ρ ± z·√((1 + ρ²/2)/(K−3))).

    The interval is NaN below 5 agents and at ρ = ±1, where the transform is infinite.

    Raises: StatisticsError [metric-missing] on NaN, [metric-shape], [metric-constant] where one side is all equal, [level].
    Source: Bonett and Wright (2000), Psychometrika 65.
    """
    _check(ability, reference, level=level)
    rho = rank_correlation(ability, reference)
    variance = (1 + rho**2 / 2) / max(len(ability) - 3, 1)
    return _fisher(rho, variance, n=len(ability), level=level, method="Fisher z, Bonett-Wright")


def kendall(ability: Floats, reference: Floats, *, level: float = 0.95) -> Metric:
    """Rank correlation τ-b of two float[K], as if agents were a sample: tanh(atanh τ ± z·√(.437/(K−4))).

    The interval is NaN below 5 agents and at τ = ±1, where the transform is infinite.

    Raises: StatisticsError [metric-missing] on NaN, [metric-shape], [metric-constant] where one side is all equal, [level].
    Source: Fieller, Hartley and Pearson (1957), Biometrika 44.
    """
    from scipy.stats import kendalltau

    _check(ability, reference, level=level)
    tau = float(kendalltau(ability, reference, variant="b").statistic)
    variance = 0.437 / max(len(ability) - 4, 1)
    return _fisher(tau, variance, n=len(ability), level=level, method="Fisher z, Fieller")


def ranking_auc(ability: Floats, positive: Bools) -> float:
    """P(a positive agent's ability exceeds a negative one's), ties ½: in [0, 1].

    ability: float[K]; positive: bool[K]. Agents in neither group are left out by the caller.

    Raises: StatisticsError [metric-missing] on NaN, [metric-shape], [auc-one-group] where a group is empty.

    >>> ranking_auc(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False]))
    0.875
    """
    positive = _check_groups(ability, positive)
    return float(_auc(ability[None, :], positive)[0])


def auc_interval(
    ability: Floats,
    positive: Bools,
    *,
    low: Floats,
    high: Floats,
    level: float = 0.95,
    rng: np.random.Generator,
    n_draws: int = 2000,
) -> Metric:
    """`ranking_auc` with what the uncertainty of the abilities leaves open; these agents are the population.

    AUC of draws θ_i + (high_i − low_i)/(2 z)·N(0, 1), independent, z the normal quantile of `level`; percentiles of the draws.
    Draws are noisier than the estimates, so they lean towards ½; the interval is widened to hold the estimate.
    low, high: float[K], the abilities' intervals at the same `level`. Without one for every agent, low and high are NaN; as they
    are where both percentiles are the estimate, for no interval is a point.

    Raises: StatisticsError as `ranking_auc`, [level], and [interval-order] where low exceeds high.
    """
    positive = _check_groups(ability, positive)
    for bounds in (low, high):
        if bounds.shape != ability.shape:
            raise shapes_differ(ability, bounds)
    z = normal_quantile(level)
    if (low > high).any():
        raise StatisticsError("An ability's interval ends before it begins. Give low ≤ high.", slug="interval-order")
    value = float(_auc(ability[None, :], positive)[0])
    error = (high - low) / (2 * z)
    if np.isnan(error).any():
        return Metric(value, np.nan, np.nan, level, f"none: {int(np.isnan(error).sum())} abilities have no interval")
    draws = _auc(ability + error * rng.standard_normal((n_draws, len(ability))), positive)
    tail = (1 - level) / 2
    lowest, highest = np.quantile(draws, [tail, 1 - tail]).tolist()
    below, above = min(value, lowest), max(value, highest)
    if below == above:
        return Metric(
            value, np.nan, np.nan, level, f"none: the errors of abilities leave it as it is in {level:.0%} of draws"
        )
    return Metric(value, below, above, level, f"percentile of {n_draws} normal draws")


def sampled_auc(ability: Floats, positive: Bools, *, level: float = 0.95) -> Metric:
    """`ranking_auc` A as if both groups were samples: the θ with (A − θ)² = z²·V(θ), V Hanley and McNeil's for exponentials.

    V(θ) = θ(1 − θ)·(1 + (N − 1)·((1 − θ)/(2 − θ) + θ/(1 + θ)))/(m·n), N = (m + n)/2 of m positive and n negative agents. Unlike
    Wald's the interval stays in [0, 1] and has a width at A = 0 and 1.

    Raises: StatisticsError as `ranking_auc`, [level].
    Source: Newcombe (2006), Statistics in Medicine 25, method 5.
    """
    from scipy.optimize import brentq

    z = normal_quantile(level)
    positive = _check_groups(ability, positive)
    value = ranking_auc(ability, positive)
    n_pairs = int(positive.sum()) * int((~positive).sum())
    half = len(positive) / 2 - 1

    def apart(theta: float) -> float:
        spread = 1 + half * ((1 - theta) / (2 - theta) + theta / (1 + theta))
        return (value - theta) ** 2 - z**2 * theta * (1 - theta) * spread / n_pairs

    within = min(max(value, 1e-9), 1 - 1e-9)  # 0 and 1 are roots themselves, which a search would find first
    low = 0.0 if value == 0 else float(brentq(apart, 0.0, within))
    high = 1.0 if value == 1 else float(brentq(apart, within, 1.0))
    return Metric(value, low, high, level, "Newcombe, method 5")


def rmse(predicted: Floats, observed: Floats, *, level: float = 0.95) -> Metric:
    """√mean (predicted − observed)² over the cells that were observed, any shape; NaN in `observed` is not a cell.

    Interval: mean of squared errors ± z·SE, then the root, cells taken as independent; NaN where all errors are alike.

    Raises: StatisticsError [metric-missing] where an observed cell has no prediction, [metric-shape], [rmse-no-cells], [level].
    """
    if predicted.shape != observed.shape:
        raise shapes_differ(predicted, observed)
    squared = ((predicted - observed) ** 2)[~np.isnan(observed)]
    if len(squared) == 0:
        raise StatisticsError(
            "No cell was observed to compare predictions with. Hold out some cells.", slug="rmse-no-cells"
        )
    if np.isnan(squared).any():
        raise _missing(int(np.isnan(squared).sum()), "observed cells have no prediction")
    mean = float(squared.mean())
    varies = len(squared) > 1 and np.ptp(squared) > 0
    margin = normal_quantile(level) * float(squared.std(ddof=1)) / np.sqrt(len(squared)) if varies else np.nan
    low, high = np.sqrt(np.maximum([mean - margin, mean + margin], 0.0)).tolist()
    return Metric(float(np.sqrt(mean)), low, high, level, "normal, on squared errors of cells")


def _auc(ability: Floats, positive: Bools) -> Floats:
    """Mann–Whitney's U over the number of pairs, for each row of float[n, K]."""
    from scipy.stats import rankdata

    n_positive = int(positive.sum())
    total = rankdata(ability, axis=1)[:, positive].sum(axis=1)
    n_pairs = n_positive * (len(positive) - n_positive)
    return np.asarray((total - n_positive * (n_positive + 1) / 2) / n_pairs)


def _fisher(value: float, variance: float, *, n: int, level: float, method: str) -> Metric:
    if n < _FISHER_MIN:
        return Metric(value, np.nan, np.nan, level, f"none: {n} agents are too few")
    if 1 - abs(value) < 1e-12:
        return Metric(value, np.nan, np.nan, level, "none: a perfect rank correlation gives none")
    margin = normal_quantile(level) * np.sqrt(variance)
    low, high = np.tanh(np.arctanh(value) + np.array([-margin, margin])).tolist()
    return Metric(value, low, high, level, method)


def normal_quantile(level: float) -> float:
    """Return z of a two-sided interval at `level`. Raises: StatisticsError [level]."""
    check_level(level)
    return float(ndtri((1 + level) / 2))


def _check(ability: Floats, reference: Floats, *, level: float) -> None:
    normal_quantile(level)
    if ability.shape != reference.shape or ability.ndim != 1:
        raise shapes_differ(ability, reference)
    if missing := int((np.isnan(ability) | np.isnan(reference)).sum()):
        raise _missing(missing, "agents have no ability on one side")
    if len(ability) < 2 or np.ptp(ability) == 0 or np.ptp(reference) == 0:
        raise StatisticsError(
            f"A rank correlation needs two agents that differ on both sides; {len(ability)} arrived, all equal on one. "
            "Add agents, or calls that tell them apart.",
            slug="metric-constant",
        )


def _check_groups(ability: Floats, positive: Bools) -> Bools:
    """Check the groups and return them as bool (n_agents,), because integers would index by position."""
    if ability.shape != positive.shape or ability.ndim != 1:
        raise shapes_differ(ability, positive)
    if not np.isin(positive, (0, 1)).all():
        raise StatisticsError(
            f"The group of each agent must be true or false: got {positive[~np.isin(positive, (0, 1))][0]}. "
            "Pass a boolean array.",
            slug="auc-groups",
        )
    positive = positive.astype(np.bool_)
    if missing := int(np.isnan(ability).sum()):
        raise _missing(missing, "agents have no ability")
    if positive.all() or not positive.any():
        raise StatisticsError(
            f"AUC compares two groups, but {int(positive.sum())} of {len(positive)} agents are positive. "
            "Give at least one agent on each side.",
            slug="auc-one-group",
        )
    return positive


def shapes_differ(one: Floats, other: Floats | Bools | Ids) -> StatisticsError:
    """The error for arrays that are not aligned."""
    return StatisticsError(
        f"Two arrays of one shape are compared, but {one.shape} and {other.shape} arrived. Align them first.",
        slug="metric-shape",
    )


def _missing(n: int, what: str) -> StatisticsError:
    return StatisticsError(f"{n} {what} (NaN). Leave them out on both sides, and say so.", slug="metric-missing")
