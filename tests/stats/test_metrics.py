"""Agreement of rankings, separation of groups, error of predictions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from youden.errors import StatisticsError
from youden.stats import auc_interval, kendall, ranking_auc, rmse, sampled_auc, spearman

A = np.array([0.9, 0.7, 0.5, 0.3, 0.1, 0.0])
B = np.array([0.8, 0.9, 0.4, 0.5, 0.0, 0.1])
POSITIVE = np.array([True, True, True, False, False, False])


def test_rank_correlations_checked_by_hand() -> None:
    """Three neighbouring swaps: Σd² = 6, ρ = 1 − 36/210; 3 of 15 pairs discordant, τ = 9/15."""
    assert spearman(A, B).value == pytest.approx(1 - 36 / 210)
    assert kendall(A, B).value == pytest.approx(0.6)


def test_kendall_is_tau_b() -> None:
    """One tie on one side of three: 2 concordant pairs, τ-b = 2/√(3·2)."""
    assert kendall(np.array([1.0, 2, 3]), np.array([1.0, 1, 2])).value == pytest.approx(2 / 6**0.5)


@pytest.mark.parametrize("metric", [spearman, kendall])
def test_an_interval_holds_its_value_travels_with_its_method_and_grows_with_the_level(metric) -> None:
    narrow, wide = metric(A, B, level=0.8), metric(A, B, level=0.95)
    assert -1 <= wide.low < narrow.low < narrow.value < narrow.high < wide.high <= 1
    assert wide.level == 0.95
    assert "Fisher z" in wide.method


@pytest.mark.parametrize("metric", [spearman, kendall])
def test_few_agents_and_perfect_agreement_have_stated_intervals(metric) -> None:
    few = metric(A[:4], B[:4])
    assert np.isnan([few.low, few.high]).all()
    assert few.method == "none: 4 agents are too few"
    perfect = metric(A, A)
    assert perfect.value == pytest.approx(1)
    assert np.isnan([perfect.low, perfect.high]).all()
    assert perfect.method.startswith("none: a perfect rank correlation")


def test_spearman_interval_covers_the_truth_of_normal_samples() -> None:
    rng = np.random.default_rng(0)
    truth = 6 / np.pi * np.arcsin(0.7 / 2)
    hits = 0
    for _ in range(300):
        x = rng.normal(size=30)
        got = spearman(x, 0.7 * x + np.sqrt(1 - 0.49) * rng.normal(size=30))
        hits += got.low <= truth <= got.high
    assert 0.91 <= hits / 300 <= 0.98


@settings(max_examples=30, deadline=None)
@given(drawn=st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=10))
def test_auc_is_the_share_of_pairs_won_with_ties_as_half(drawn: list[tuple[int, bool]]) -> None:
    ability, positive = np.array([float(a) for a, _ in drawn]), np.array([p for _, p in drawn])
    if positive.all() or not positive.any():
        return
    pairs = [(x > y) + (x == y) / 2 for x, y in product(ability[positive], ability[~positive])]
    assert ranking_auc(ability, positive) == pytest.approx(np.mean(pairs))
    assert ranking_auc(-ability, positive) == pytest.approx(1 - np.mean(pairs))


def test_auc_interval_reflects_the_abilities_intervals_and_the_seed() -> None:
    def interval(width: float, seed: int = 0):
        return auc_interval(B, POSITIVE, low=B - width, high=B + width, rng=np.random.default_rng(seed))

    unsure = interval(0.5)
    assert unsure.low < 0.7
    assert unsure.high == 1
    assert unsure == interval(0.5)
    assert unsure.low <= unsure.value <= unsure.high


def test_auc_interval_matches_the_chance_that_two_normals_swap() -> None:
    """Two agents .1 apart, each ± 1.96·.1: P(swap) = Φ(−.1/√.02) = .24, so the 80 % interval reaches 0, the 50 % stays at 1."""
    ability, positive = np.array([0.6, 0.5]), np.array([True, False])
    half = {0.8: 1.2816, 0.5: 0.6745}
    got = {
        level: auc_interval(
            ability, positive, low=ability - z / 10, high=ability + z / 10, level=level, rng=np.random.default_rng(1)
        ).low
        for level, z in half.items()
    }
    assert got[0.8] == 0
    assert np.isnan(got[0.5])


@pytest.mark.parametrize("width", [1e-9, 0.0])
def test_auc_that_no_draw_moves_has_no_interval_rather_than_a_point(width: float) -> None:
    got = auc_interval(B, POSITIVE, low=B - width, high=B + width, rng=np.random.default_rng(0))
    assert got.value == 8 / 9
    assert np.isnan([got.low, got.high]).all()
    assert got.method == "none: the errors of abilities leave it as it is in 95% of draws"


def test_auc_without_all_intervals_has_none_and_says_so() -> None:
    low = np.where(np.arange(6) == 2, np.nan, B)
    got = auc_interval(B, POSITIVE, low=low, high=B, rng=np.random.default_rng(0))
    assert got.value == 8 / 9
    assert np.isnan([got.low, got.high]).all()
    assert got.method == "none: 1 abilities have no interval"


def test_rmse_counts_observed_cells_only() -> None:
    got = rmse(np.array([[0.5, 0.1], [0.2, np.nan]]), np.array([[0.2, 0.5], [np.nan, np.nan]]))
    assert got.value == pytest.approx(((0.09 + 0.16) / 2) ** 0.5)
    assert got.low < got.value < got.high


def test_errors_that_are_all_alike_give_a_root_mean_square_without_an_interval() -> None:
    got = rmse(np.zeros(3), np.full(3, 0.2))
    assert got.value == pytest.approx(0.2)
    assert np.isnan([got.low, got.high]).all()


def test_rmse_interval_covers_the_noise() -> None:
    rng = np.random.default_rng(5)
    hits = [r.low <= 0.3 <= r.high for r in (rmse(np.zeros(200), rng.normal(0, 0.3, 200)) for _ in range(300))]
    assert 0.91 <= np.mean(hits) <= 0.98


def test_the_ends_of_a_sampled_auc_solve_its_equation_and_have_a_width_at_one() -> None:
    got = sampled_auc(A, np.array([True, True, False, True, False, False]))
    assert got.value == ranking_auc(A, np.array([True, True, False, True, False, False])) == pytest.approx(8 / 9)
    for theta in (got.low, got.high):
        variance = theta * (1 - theta) * (1 + 2 * ((1 - theta) / (2 - theta) + theta / (1 + theta))) / 9
        assert (got.value - theta) ** 2 == pytest.approx(1.959964**2 * variance, rel=1e-5)
    apart = sampled_auc(A, POSITIVE)
    assert apart.value == apart.high == 1
    assert 0.3 < apart.low < 0.9
    mirrored = sampled_auc(-A, POSITIVE)
    assert (mirrored.low, mirrored.high) == pytest.approx((0, 1 - apart.low))
    with pytest.raises(StatisticsError, match="auc-one-group"):
        sampled_auc(A, np.ones(6, dtype=np.bool_))


def test_a_sampled_auc_covers_the_truth_in_small_groups() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        x = np.append(rng.normal(1.1902, 1, size=4), rng.normal(size=8))  # Φ(1.1902/√2) = .8
        got = sampled_auc(x, np.arange(12) < 4)
        hits += got.low <= 0.8 <= got.high
    assert 0.92 <= hits / 400 <= 0.99
