"""Whether a difference is good enough, too bad or undecided at each look at growing data, and whether a later look decides."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy.special import ndtr
from scipy.stats import chi2
from scipy.stats import t as student

from youden.errors import StatisticsError
from youden.nouns.arrays import Floats, Positions

Verdict = Literal["better", "no worse", "worse", "undecided"]

ERROR = 0.025
"""Chance, on either side, that the first look errs; all later ones together err as often."""
_UNSURE = np.arange(0.025, 1, 0.05)


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


def decide(value: float, half: float, *, margin: float) -> Decision:
    """value ± half: passes above −margin ('better' above 0), is 'worse' below 0, else 'undecided'."""
    low, high = value - half, value + half
    if low > -margin:
        return Decision(low, high, "better" if low > 0 else "no worse")
    return Decision(low, high, "worse" if high < 0 else "undecided")


def chance_decided(
    value: float,
    parts: tuple[float, float],
    *,
    left: tuple[Floats, Floats],
    freedom: int,
    later_freedom: Positions,
    hidden: Floats,
    margin: float,
    alpha: float,
) -> Floats:
    """The chance that a later look decides if the truth is at −margin/2, where deciding is hardest: float[n].

    parts: the items' own variance and the noise, together v; left: what is left of either at the later look, float[n] each, so
    that its variance is w = own·left + noise·left. Given the value now, the later one is N(ρ·value − (1−ρ)·margin/2, w·(1−ρ)),
    ρ = w/v; between −h and h − margin it is undecided, h = √(t²w + hidden) the half width at `alpha`: never where
    h ≤ margin/2. hidden: float[n], what rare events not seen then add to h². v is an estimate: the chance is the mean over
    v·freedom/χ²_freedom, of which noise stays what it is.
    """
    own, noise = parts
    critical = student.ppf(1 - alpha, later_freedom)
    chance = np.zeros(len(later_freedom))
    for total in (own + noise) * freedom / chi2.ppf(_UNSURE, freedom):
        noisy = min(noise, total)
        later = np.minimum((total - noisy) * left[0] + noisy * left[1], total)
        h = np.sqrt(critical**2 * later + hidden)
        known = later / total if total > 0 else np.zeros(len(later))
        middle = known * value - (1 - known) * margin / 2
        spread = np.sqrt(np.maximum(later * (1 - known), np.finfo(np.float64).tiny))
        open_ = np.maximum(0.0, ndtr((h - margin - middle) / spread) - ndtr((-h - middle) / spread))
        chance += (1 - open_) / len(_UNSURE)
    return chance
