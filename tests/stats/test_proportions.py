"""Intervals for shares and their differences, against published figures, scipy and exact coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, multinomial

from youden.errors import StatisticsError
from youden.stats.base.proportions import difference, paired_difference, proportion


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@settings(max_examples=30, deadline=None)
def test_a_proportion_has_scipys_wilson_interval(counts: tuple[int, int]) -> None:
    n_yes, n = counts
    found, theirs = proportion(n_yes, n), binomtest(n_yes, n).proportion_ci(method="wilson")
    assert (found.value, found.low, found.high) == pytest.approx((n_yes / n, theirs.low, theirs.high), abs=1e-9)


def test_a_difference_is_newcombes_in_his_own_examples() -> None:
    """Newcombe (1998), table II, method 10: 56/70 − 48/80, 9/10 − 3/10, 5/56 − 0/29, 10/10 − 0/10."""
    cases = {(56, 70, 48, 80): (0.0524, 0.3339), (9, 10, 3, 10): (0.1705, 0.8090), (5, 56, 0, 29): (-0.0381, 0.1926)}
    cases[10, 10, 0, 10] = (0.6075, 1.0)
    for (a, m, b, n), ends in cases.items():
        found = difference(proportion(a, m), proportion(b, n))
        assert (found.low, found.high) == pytest.approx(ends, abs=5e-5)


def test_a_paired_difference_by_hand() -> None:
    """Agresti and Min (2005): 9 and 3 of 40 pairs: (6 ± 1.96·√(13 − 36/42))/42."""
    found = paired_difference(9, 3, 40)
    half = 1.959964 * math.sqrt(13 - 36 / 42) / 42
    assert (found.value, found.low, found.high) == pytest.approx((0.15, 6 / 42 - half, 6 / 42 + half), abs=1e-6)


def test_nothing_counted_is_unknown_and_impossible_counts_are_refused() -> None:
    empty = proportion(0, 0)
    assert math.isnan(empty.value)
    assert math.isnan(difference(proportion(1, 2), empty).low)
    assert math.isnan(paired_difference(0, 0, 0).value)
    for wrong in ((3, 2), (-1, 2)):
        with pytest.raises(StatisticsError, match=r"\[counts\]"):
            proportion(*wrong)
    with pytest.raises(StatisticsError, match=r"\[counts\]"):
        paired_difference(3, 3, 5)


def test_wilson_covers_95_in_the_mean_at_a_calibrations_size() -> None:
    """Exact, over rates from .005 to .5: the figures in the module's docstring."""
    for n in (30, 36, 40):
        yes = np.arange(n + 1)
        found = [proportion(int(k), n) for k in yes]
        low, high = np.array([one.low for one in found]), np.array([one.high for one in found])
        rates = np.linspace(0.005, 0.5, 500)
        cover = np.array([(binom.pmf(yes, n, p) * ((low <= p) & (p <= high))).sum() for p in rates])
        assert cover.mean() == pytest.approx(0.952, abs=0.002)
        assert ((cover >= 0.93) & (cover <= 0.97)).mean() >= 0.88


def test_paired_differences_cover_95_in_the_mean_at_a_calibrations_size() -> None:
    """Exact, over yes-rates .4 to .85 that differ by up to .3 with the order."""
    n, rng = 36, np.random.default_rng(0)
    cells = np.array([(b, c, n - b - c) for b in range(n + 1) for c in range(n + 1 - b)])
    found = [paired_difference(int(b), int(c), n) for b, c, _ in cells]
    low, high = np.array([one.low for one in found]), np.array([one.high for one in found])
    cover = []
    for _ in range(60):
        tpr, order = rng.uniform(0.4, 0.85), rng.uniform(-0.3, 0.3)
        one, other, stays = tpr + order / 2, tpr - order / 2, rng.uniform(0, 1)
        only_first = stays * max(0.0, order) + (1 - stays) * one * (1 - other)
        only_second = stays * max(0.0, -order) + (1 - stays) * other * (1 - one)
        chance = multinomial.pmf(cells, n, [only_first, only_second, 1 - only_first - only_second])
        cover.append(float((chance * ((low <= order) & (order <= high))).sum()))
    assert np.mean(cover) == pytest.approx(0.95, abs=0.01)
    assert min(cover) > 0.92
