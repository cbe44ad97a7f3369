"""Estimate proportions and differences between them, with intervals that are valid for small numbers of trials.

The methods were chosen by exact coverage at the 95% level. Wilson's interval has a mean coverage of .952 over rates
from .005 to .5 at 30, 36 and 40 trials, and coverage between .93 and .97 at 88–92% of the rates (Jeffreys' 82–85%,
mid-P 82–87%, Clopper–Pearson 40–53%). For 36 pairs and 65 judges, Agresti and Min's interval has a mean coverage of
.950, and coverage between .93 and .97 for 95% of the judges (Tango's score .952 and 94%, Newcombe's .957 and 89%,
Bonett and Price's .961 and 85%, Wald's .936 and 83%).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from youden.errors import StatisticsError
from youden.stats.base.metrics import Metric, normal_quantile


@dataclass(frozen=True)
class Proportion:
    """A proportion with its interval.

    Attributes
    ----------
    n_yes, n : float
        Number of yes answers and of trials.
    value : float
        n_yes/n; NaN without a trial.
    low, high : float
        Confidence bounds; NaN without a trial.
    level : float
        Confidence level.
    method : str
        Method of the interval.
    """

    n_yes: float
    n: float
    value: float
    low: float
    high: float
    level: float
    method: str = "Wilson"


def proportion(n_yes: float, n: float, *, level: float = 0.95) -> Proportion:
    """Estimate a proportion with Wilson's score interval.

    Parameters
    ----------
    n_yes, n : float
        Number of yes answers and of trials. They need not be integers: for example, `n` may be an effective sample size.
    level : float, default 0.95
        Confidence level, in (0, 1).

    Returns
    -------
    Proportion
        n_yes/n (`value`) with its interval (`low`, `high`) in [0, 1]. All three are NaN if n is 0.

    Raises
    ------
    StatisticsError
        [counts-invalid]: unless 0 ≤ n_yes ≤ n < ∞; [level]: unless 0 < level < 1.

    Notes
    -----
    The interval contains the rates p′ with |p − p′| ≤ z·√(p′(1 − p′)/n).

    References
    ----------
    Wilson (1927), J. American Statistical Association 22, 209–212.

    Examples
    --------
    >>> rate = proportion(0, 30)
    >>> rate.low, round(rate.high, 3)
    (0.0, 0.114)
    """
    z = normal_quantile(level)
    if not 0 <= n_yes <= n < math.inf:
        raise StatisticsError(
            f"Yes answers must be from 0 to the number of trials: got {n_yes} of {n}. Pass counts.",
            slug="counts-invalid",
        )
    if n == 0:
        return Proportion(n_yes, n, math.nan, math.nan, math.nan, level)
    # solutions p′ of |p − p′| = z·√(p′(1 − p′)/n)
    p = n_yes / n
    center = (p + z * z / (2 * n)) / (1 + z * z / n)
    half_width = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low = max(0.0, center - half_width) if p else 0.0
    high = min(1.0, center + half_width) if p < 1 else 1.0
    return Proportion(n_yes, n, p, low, high, level)


def independent_difference(first: Proportion, second: Proportion) -> Metric:
    """Estimate the difference of two independent proportions.

    Parameters
    ----------
    first, second : Proportion
        Proportions with Wilson intervals at the same confidence level.

    Returns
    -------
    Metric
        first − second with its interval at this confidence level; NaN if a proportion is NaN.

    Notes
    -----
    This is Newcombe's hybrid score interval. With d = p₁ − p₂ and Wilson bounds l and u, the bounds are
    d − √((p₁ − l₁)² + (u₂ − p₂)²) and d + √((u₁ − p₁)² + (p₂ − l₂)²).

    References
    ----------
    Newcombe (1998), Statistics in Medicine 17, 873–890, method 10.

    Examples
    --------
    >>> difference = independent_difference(proportion(56, 70), proportion(48, 80))  # Newcombe's own example
    >>> round(difference.low, 4), round(difference.high, 4)
    (0.0524, 0.3339)
    """
    value = first.value - second.value
    low = value - math.hypot(first.value - first.low, second.high - second.value)
    high = value + math.hypot(first.high - first.value, second.value - second.low)
    return Metric(value, low, high, first.level, "Newcombe's hybrid score")


def paired_difference(n_first: int, n_second: int, n: int, *, level: float = 0.95) -> Metric:
    """Estimate the difference of two proportions from pairs of answers.

    Parameters
    ----------
    n_first, n_second : int
        Number of pairs with a yes to the first question only, and to the second question only.
    n : int
        Number of all pairs, including those with equal answers.
    level : float, default 0.95
        Confidence level, in (0, 1).

    Returns
    -------
    Metric
        (n_first − n_second)/n (`value`) with its interval (`low`, `high`) in [−1, 1]. All three are NaN without a pair.

    Raises
    ------
    StatisticsError
        [counts-invalid]: if a number is negative, or more pairs differ than there are; [level]: unless 0 < level < 1.

    Notes
    -----
    With p₁ = (n_first + ½)/(n + 2) and p₂ = (n_second + ½)/(n + 2), the interval is
    p₁ − p₂ ± z·√((p₁ + p₂ − (p₁ − p₂)²)/(n + 2)).

    References
    ----------
    Agresti & Min (2005), Statistics in Medicine 24, 729–740.
    """
    z = normal_quantile(level)
    if min(n_first, n_second) < 0 or n_first + n_second > n:
        raise StatisticsError(
            f"Differing pairs must be from 0 to the number of pairs: got {n_first} and {n_second} of {n}. Pass counts.",
            slug="counts-invalid",
        )
    method = "Agresti-Min"
    if n == 0:
        return Metric(math.nan, math.nan, math.nan, level, method)
    p1 = (n_first + 0.5) / (n + 2)
    p2 = (n_second + 0.5) / (n + 2)
    center = p1 - p2
    half_width = z * math.sqrt((p1 + p2 - center**2) / (n + 2))
    low = max(-1.0, center - half_width)
    high = min(1.0, center + half_width)
    return Metric((n_first - n_second) / n, low, high, level, method)
