"""Knows when a difference is good enough, too bad or undecided, at every look at growing data, and whether a later look decides.

It refuses to know where a difference comes from and what more data cost.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy.special import ndtr
from scipy.stats import chi2
from scipy.stats import t as student

from youden.errors import StatisticsError
from youden.types.arrays import Floats, Positions

Verdict = Literal["better", "no worse", "worse", "undecided"]

ERROR = 0.025
"""Chance, on either side, that the first look errs; all later ones together err as often."""
_UNSURE = 0.2


class Decision(NamedTuple):
    """The interval of a difference at the level 1 − 2·alpha, and what follows from it."""

    low: float
    high: float
    verdict: Verdict


def look_error(look: int, *, n_asked: int = 1) -> float:
    """.025 · 2^(1−look) / n_asked: the error on either side at look 1, 2, …, where `n_asked` differences are asked together.

    Over all looks at all of them a wrong 'worse' has at most the chance .05, however often one looks, and so has a wrong pass.

    Raises: StatisticsError [look-number].
    Source: Bonferroni over looks with a geometric series, as alpha spending without a last look.

    >>> look_error(1), look_error(3, n_asked=5)
    (0.025, 0.00125)
    """
    if look < 1 or n_asked < 1:
        raise StatisticsError(
            f"Look {look} at {n_asked} differences was asked for. Both count from 1.", slug="look-number"
        )
    return ERROR * 2.0 ** (1 - look) / n_asked


def decide(value: float, variance: float, *, freedom: int, margin: float, alpha: float) -> Decision:
    """value ± t_freedom(1−alpha)·√variance: passes above −margin ('better' above 0), is 'worse' below 0, else 'undecided'."""
    half = float(student.ppf(1 - alpha, freedom)) * variance**0.5
    low, high = value - half, value + half
    if low > -margin:
        return Decision(low, high, "better" if low > 0 else "no worse")
    return Decision(low, high, "worse" if high < 0 else "undecided")


def chance_decided(
    value: float, variance: float, later: Floats, *, freedom: int, later_freedom: Positions, margin: float, alpha: float
) -> Floats:
    """The chance that a look with variance `later` decides if the truth is at −margin/2, where deciding is hardest: float[n].

    Given the value now, the later one is N(ρ·value − (1−ρ)·margin/2, later·(1−ρ)), ρ = later/variance; between −h and
    h − margin it is undecided, h the half width at `alpha`. The chance is 1 where h ≤ margin/2. As variances are estimates, h
    takes √(freedom/χ²_freedom(.2)) more.
    later: float[n] in (0, variance]; later_freedom: int[n].
    """
    h = student.ppf(1 - alpha, later_freedom) * np.sqrt(later * freedom / chi2.ppf(_UNSURE, freedom))
    known = np.minimum(later / variance, 1)
    middle = known * value - (1 - known) * margin / 2
    spread = np.sqrt(np.maximum(later * (1 - known), np.finfo(np.float64).tiny))
    return np.asarray(1 - np.maximum(0.0, ndtr((h - margin - middle) / spread) - ndtr((-h - middle) / spread)))
