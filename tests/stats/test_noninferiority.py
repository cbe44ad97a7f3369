"""Verdicts, the error of each look, and the chance that more data decide."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from scipy.stats import t as student

from youden.errors import StatisticsError
from youden.stats.trials.noninferiority import chance_decided, decide, look_error


@pytest.mark.parametrize(
    ("value", "error", "verdict"),
    [
        (0.05, 0.01, "better"),
        (0.0, 0.01, "no worse"),
        (-0.02, 0.01, "no worse"),
        (-0.04, 0.01, "worse"),
        (-0.03, 0.02, "undecided"),
        (0.0, 0.1, "undecided"),
        (0.2, 0.5, "undecided"),
        (0.0, 0.0, "no worse"),
        (-0.1, 0.0, "worse"),
    ],
)
def test_verdicts_at_a_margin_of_a_twentieth(value: float, error: float, verdict: str) -> None:
    found = decide(value, error * student.ppf(0.975, 1000), margin=0.05)
    assert found.verdict == verdict
    assert found.high - found.low == pytest.approx(2 * student.ppf(0.975, 1000) * error)


def test_all_looks_at_all_agents_together_err_at_most_a_twentieth_of_the_time() -> None:
    assert sum(look_error(look, n_asked=3) * 3 for look in range(1, 200)) == pytest.approx(0.05)
    assert look_error(1) == 0.025
    for look, n_asked in ((0, 1), (1, 0)):
        with pytest.raises(StatisticsError, match="look-number"):
            look_error(look, n_asked=n_asked)


@given(st.floats(-0.2, 0.1), st.floats(0.01, 0.05), st.floats(0.02, 1.0), st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_a_half_width_of_half_the_margin_always_decides_and_less_data_never_more(
    value: float, error: float, least: float, own: float
) -> None:
    left = np.linspace(1, least**2, 6)
    chance = chance_decided(
        value,
        (own * error**2, (1 - own) * error**2),
        left=(left, left),
        freedom=50,
        later_freedom=np.full(6, 50),
        hidden=np.zeros(6),
        margin=0.05,
        alpha=0.0125,
    )
    largest = 50 / chi2.ppf(0.025, 50)
    assert ((chance >= 0) & (chance <= 1 + 1e-12)).all()
    assert (chance[student.ppf(1 - 0.0125, 50) * error * np.sqrt(left * largest) <= 0.025] > 1 - 1e-9).all()


def test_the_chance_is_that_of_a_simulation_at_the_least_convenient_truth() -> None:
    now, later, value, freedom = 0.03**2, 0.015**2, -0.01, 10**6
    chance = chance_decided(
        value,
        (0.0, now),
        left=(np.ones(1), np.array([later / now])),
        freedom=freedom,
        later_freedom=np.array([freedom]),
        hidden=np.zeros(1),
        margin=0.05,
        alpha=0.0125,
    )[0]
    rng = np.random.default_rng(0)
    fresh = -0.025 + rng.standard_normal(4000) / np.sqrt(1 / later - 1 / now)
    half = student.ppf(1 - 0.0125, freedom) * later**0.5
    values = later * (value / now + fresh * (1 / later - 1 / now))
    decided = np.mean([decide(v, half, margin=0.05).verdict != "undecided" for v in values])
    assert chance == pytest.approx(decided, abs=0.025)
