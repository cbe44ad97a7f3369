"""Test the influence of items on abilities, and gates: outcomes, the alpha of each analysis, conditional power."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from scipy.stats import t as student

from cyclic_plans import contributions, cyclic
from youden.errors import StatisticsError
from youden.stats.trials.noninferiority import (
    ConservativeDifference,
    alpha_at_analysis,
    conditional_power,
    decide,
    estimate_difference,
    required_n_items,
)
from youden.stats.trials.trial_errors import InfluenceTable, compute_item_influence, remaining_variance


def test_item_sums_and_their_spread_equal_those_of_a_loop_over_trials() -> None:
    plan = cyclic(5, 4, 7)
    rng = np.random.default_rng(1)
    answer, w = rng.random(len(plan)), 1 + rng.random(len(plan))
    result = contributions(plan, answer, weight=w)
    theta, K = result.ability, 5
    effect = (K - 1) / (K - 2) * (theta - theta.mean())
    r = answer - effect[plan.first] - effect[plan.second]
    e = r - np.array([r[plan.item == j].mean() for j in plan.item])
    for i in range(K):
        mine = (plan.first == i) | (plan.second == i)
        squares, freedom = 0.0, 0
        for j in range(4):
            here = mine & (plan.item == j)
            assert result.influence[i, j] == pytest.approx((w * e)[here].sum() / w[mine].sum())
            assert result.weight[i, j] == pytest.approx(w[here].sum() / w[mine].sum())
            assert result.n_trials[i, j] == here.sum()
            if here.sum() > 1:
                squares, freedom = squares + ((e[here] - e[here].mean()) ** 2).sum(), freedom + here.sum() - 1
        assert result.within_item_variance[i] == pytest.approx(squares / freedom)


def test_a_trial_that_counts_for_one_agent_is_ignored_for_the_other() -> None:
    plan = cyclic(5, 4, 7)
    rng = np.random.default_rng(1)
    answer, ability = rng.random(len(plan)), rng.random(5)
    columns: dict[str, Any] = {"first": plan.first, "second": plan.second, "item": plan.item, "answer": answer}
    ones, only_second = np.ones(len(plan)), (plan.first != 0).astype(float)
    part = compute_item_influence(**columns, ability=ability, first_weight=only_second, second_weight=ones, n_items=4)
    item_influence = compute_item_influence(
        **columns, ability=ability, first_weight=ones, second_weight=ones, n_items=4
    )
    assert part.n_trials[0].sum() == (plan.second == 0).sum()
    np.testing.assert_array_equal(part.influence[1:], item_influence.influence[1:])
    assert part.within_item_variance[0] != item_influence.within_item_variance[0]


def test_item_effects_common_to_both_agents_cancel() -> None:
    plan = cyclic(6, 10, 10)
    rng = np.random.default_rng(0)
    answer, hard = rng.random(len(plan)), rng.normal(0, 5, 10)
    difference = estimate_difference(contributions(plan, answer), 0, 1)
    other_difference = estimate_difference(contributions(plan, answer + hard[plan.item]), 0, 1)
    assert difference == pytest.approx(other_difference, abs=1e-6)


def test_intervals_of_equal_agents_cover_at_the_nominal_level() -> None:
    K, J = 6, 30
    plan = cyclic(K, J, J)
    missed = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        skill = np.linspace(0.2, -0.2, K) + 0.15 * rng.standard_normal((J, K))
        skill[:, 1] = 0.2 + 0.15 * rng.standard_normal(J)  # agents 0 and 1 differ on each item, but not on average
        p = 0.5 + (skill[plan.item, plan.first] + skill[plan.item, plan.second]) / 2
        difference = estimate_difference(contributions(plan, (rng.random(len(plan)) < p).astype(float)), 0, 1)
        missed += abs(difference.value) > student.ppf(0.975, difference.n_items - 1) * difference.variance**0.5
    assert 0.02 <= missed / 400 <= 0.07


def test_two_agents_without_variance_use_the_pooled_variance_of_all_pairs() -> None:
    plan = cyclic(6, 20, 20)
    answer = np.random.default_rng(0).random(len(plan))
    quiet = np.isin(plan.first, [0, 1]) | np.isin(plan.second, [0, 1])
    difference = estimate_difference(contributions(plan, np.where(quiet, 1.0, answer)), 0, 1)
    assert difference.variance > 1e-4


def test_the_remaining_variance_falls_with_blocks_and_with_items() -> None:
    blocks = np.array([10, 20, 40, 60, 100])
    own, noise = remaining_variance(blocks, n_current=10, n_items=20)
    np.testing.assert_allclose(own, [1, 0.5, 0.5, 0.5, 0.5])
    np.testing.assert_allclose(noise, 10 / blocks)
    for s in range(11, 61):
        asked = np.bincount(np.arange(s) % 20)
        left = remaining_variance(np.array([s]), n_current=10, n_items=20).agent_item[0]
        assert left == pytest.approx(10 * ((asked / s) ** 2).sum())


def test_the_forecast_variance_with_more_blocks_is_close_and_conservative() -> None:
    K, J = 8, 40
    few, many = cyclic(K, J, 40), cyclic(K, J, 160)
    forecast, results = [], []
    left = remaining_variance(np.array([160]), n_current=40, n_items=J)
    for seed in range(100):
        rng = np.random.default_rng(seed)
        skill = 0.3 * rng.standard_normal((J, K))
        dense = (rng.random((J, K, K)) < 0.5 + (skill[:, :, None] + skill[:, None, :]) / 2).astype(float)
        now, then = (
            estimate_difference(contributions(plan, dense[plan.item, plan.first, plan.second]), 0, 1)
            for plan in (few, many)
        )
        forecast.append(
            (now.variance - now.residual_variance) * left.agent_item[0] + now.residual_variance * left.residual[0]
        )
        results.append(then.variance)
    assert 0.97 <= np.mean(forecast) / np.mean(results) <= 1.2


def test_an_agent_without_an_ability_two_agents_and_a_single_item_are_refused() -> None:
    first, second = np.array([0, 1, 2], dtype=np.int32), np.array([1, 2, 0], dtype=np.int32)
    item, ones = np.zeros(3, dtype=np.int32), np.ones(3)

    def influence_of(*ability: float) -> InfluenceTable:
        abilities = np.array(ability)
        return compute_item_influence(
            first, second, item, ones, ability=abilities, first_weight=ones, second_weight=ones, n_items=1
        )

    with pytest.raises(StatisticsError, match="difference-agents"):
        influence_of(0.0, 0.1, np.nan)
    with pytest.raises(StatisticsError, match="difference-items"):
        estimate_difference(influence_of(0.0, 0.1, 0.2), 0, 1)
    with pytest.raises(StatisticsError, match="difference-agent"):
        estimate_difference(influence_of(0.0, 0.1, 0.2, np.nan), 0, 3)


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
def test_the_outcome_of_non_inferiority_depends_on_the_interval_and_the_margin(
    value: float, error: float, verdict: str
) -> None:
    result = decide(value, error * student.ppf(0.975, 1000), margin=0.05)
    assert result.outcome == verdict
    assert result.high - result.low == pytest.approx(2 * student.ppf(0.975, 1000) * error)


def test_all_analyses_of_all_agents_together_have_an_error_rate_of_at_most_05() -> None:
    assert sum(alpha_at_analysis(look, n_comparisons=3) * 3 for look in range(1, 200)) == pytest.approx(0.05)
    assert alpha_at_analysis(1) == 0.025
    for look, n_asked in ((0, 1), (1, 0)):
        with pytest.raises(StatisticsError, match="analysis-number"):
            alpha_at_analysis(look, n_comparisons=n_asked)


@given(st.floats(-0.2, 0.1), st.floats(0.01, 0.05), st.floats(0.02, 1.0), st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_a_half_width_of_half_the_margin_always_decides_and_less_data_never_more(
    value: float, error: float, least: float, own: float
) -> None:
    left = np.linspace(1, least**2, 6)
    chance = conditional_power(
        value,
        (own * error**2, (1 - own) * error**2),
        remaining=(left, left),
        df=50,
        later_df=np.full(6, 50),
        unseen_variance=np.zeros(6),
        margin=0.05,
        alpha=0.0125,
    )
    largest = 50 / chi2.ppf(0.025, 50)
    assert ((chance >= 0) & (chance <= 1 + 1e-12)).all()
    assert (chance[student.ppf(1 - 0.0125, 50) * error * np.sqrt(left * largest) <= 0.025] > 1 - 1e-9).all()


def test_items_do_not_decide_if_the_error_of_false_positive_rates_stays_too_large() -> None:
    difference = ConservativeDifference(0.0, 0.03**2, 60, 60.0, 0.0, rate_variance=0.025**2, rate_df=2)
    n_items = required_n_items(difference, margin=0.05, alpha=0.0125)
    assert n_items is not None
    constant = difference._replace(rates_improve=False)
    assert required_n_items(constant, margin=0.05, alpha=0.0125) is None
    assert required_n_items(constant, margin=0.08, alpha=0.0125) is not None
    assert constant.half_width(0.0125) == difference.half_width(0.0125)


@pytest.mark.parametrize("rates_improve", [True, False])
def test_a_difference_with_more_items_has_fewer_degrees_of_freedom(rates_improve: bool) -> None:
    difference = ConservativeDifference(
        0.0, 0.0034, 56, 28.0, 0.5, 0.002, rate_variance=0.0006, rate_df=2, rates_improve=rates_improve
    )
    later = difference.with_items(560)
    measured = ConservativeDifference(
        0.0, 0.00034, 560, 280.0, 0.5, 0.0002, rate_variance=0.00006 if rates_improve else 0.0006, rate_df=2
    )
    assert later.df == pytest.approx(measured.df)
    assert later.half_width(0.0125) == pytest.approx(measured.half_width(0.0125))
    assert later.residual_variance == pytest.approx(measured.residual_variance)
    assert (later.df > 10) == rates_improve


@pytest.mark.parametrize("alpha", [0.025, 0.0125, 0.00625])
@pytest.mark.parametrize("rate_variance", [0.0001, 0.001, 0.01])
def test_half_widths_fall_with_items_to_a_limit_above_which_items_are_required(
    alpha: float, rate_variance: float
) -> None:
    difference = ConservativeDifference(
        0.0, 0.0034, 56, 56.0, 0.5, rate_variance=rate_variance, rate_df=2, rates_improve=False
    )
    numbers = np.unique(np.geomspace(2, 10**6, 200).astype(int)).tolist()
    half_widths = [difference.with_items(n).half_width(alpha) for n in numbers]
    assert (np.diff(half_widths) < 0).all()
    limit = float(student.ppf(1 - alpha, 10)) * np.sqrt(rate_variance)
    assert required_n_items(difference, margin=0.999 * limit, alpha=alpha) is None
    n_items = required_n_items(difference, margin=1.01 * limit, alpha=alpha)
    assert n_items is not None
    assert (
        difference.with_items(n_items).half_width(alpha)
        < 1.01 * limit
        <= difference.with_items(n_items - 1).half_width(alpha)
    )


def test_conditional_power_equals_that_of_a_simulation_at_the_least_favorable_truth() -> None:
    now, later, value, freedom = 0.03**2, 0.015**2, -0.01, 10**6
    chance = conditional_power(
        value,
        (0.0, now),
        remaining=(np.ones(1), np.array([later / now])),
        df=freedom,
        later_df=np.array([freedom]),
        unseen_variance=np.zeros(1),
        margin=0.05,
        alpha=0.0125,
    )[0]
    rng = np.random.default_rng(0)
    fresh = -0.025 + rng.standard_normal(4000) / np.sqrt(1 / later - 1 / now)
    half = student.ppf(1 - 0.0125, freedom) * later**0.5
    values = later * (value / now + fresh * (1 / later - 1 / now))
    decided = np.mean([decide(v, half, margin=0.05).outcome != "undecided" for v in values])
    assert chance == pytest.approx(decided, abs=0.025)
