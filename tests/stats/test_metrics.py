"""Test rank correlations, AUC and RMSE with intervals, proportions and their differences, and agreement of cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, multinomial, spearmanr

from youden.errors import StatisticsError
from youden.stats import auc_measurement_interval, auc_sampling_interval, kendall, ranking_auc, rmse, spearman
from youden.stats.base.metrics import Metric
from youden.stats.base.proportions import independent_difference, paired_difference, proportion
from youden.stats.judges.cell_agreement import cell_correlation

A = np.array([0.9, 0.7, 0.5, 0.3, 0.1, 0.0])
B = np.array([0.8, 0.9, 0.4, 0.5, 0.0, 0.1])
POSITIVE = np.array([True, True, True, False, False, False])
RankCorrelation = Callable[..., Metric]


def test_rank_correlations_equal_manually_computed_values() -> None:
    """Three neighboring swaps: Σd² = 6, ρ = 1 − 36/210; 3 of 15 pairs discordant, τ = 9/15."""
    assert spearman(A, B).value == pytest.approx(1 - 36 / 210)
    assert kendall(A, B).value == pytest.approx(0.6)


def test_kendall_is_tau_b() -> None:
    """One tie on one side of three: 2 concordant pairs, τ-b = 2/√(3·2)."""
    assert kendall(np.array([1.0, 2, 3]), np.array([1.0, 1, 2])).value == pytest.approx(2 / 6**0.5)


@pytest.mark.parametrize("metric", [spearman, kendall])
def test_an_interval_contains_its_value_names_its_method_and_widens_with_the_level(metric: RankCorrelation) -> None:
    narrow, wide = metric(A, B, level=0.8), metric(A, B, level=0.95)
    assert -1 <= wide.low < narrow.low < narrow.value < narrow.high < wide.high <= 1
    assert wide.level == 0.95
    assert "Fisher z" in wide.method


@pytest.mark.parametrize("metric", [spearman, kendall])
def test_few_agents_and_perfect_agreement_have_stated_intervals(metric: RankCorrelation) -> None:
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
def test_auc_is_the_fraction_of_pairs_won_with_ties_as_half(drawn: list[tuple[int, bool]]) -> None:
    ability, positive = np.array([float(a) for a, _ in drawn]), np.array([p for _, p in drawn])
    assume(positive.any() and not positive.all())
    pairs = [(x > y) + (x == y) / 2 for x, y in product(ability[positive], ability[~positive])]
    assert ranking_auc(ability, positive) == pytest.approx(np.mean(pairs))
    assert ranking_auc(-ability, positive) == pytest.approx(1 - np.mean(pairs))


def test_auc_interval_depends_on_the_ability_intervals_and_the_seed() -> None:
    def interval(width: float, seed: int = 0) -> Metric:
        return auc_measurement_interval(B, POSITIVE, low=B - width, high=B + width, rng=np.random.default_rng(seed))

    unsure = interval(0.5)
    assert unsure.low < 0.7
    assert unsure.high == 1
    assert unsure == interval(0.5)
    assert unsure.low <= unsure.value <= unsure.high


def test_auc_interval_matches_the_probability_that_two_normals_swap() -> None:
    """Two agents differ by .1, each ± 1.96·.1: P(swap) = Φ(−.1/√.02) = .24, so the 80% interval reaches 0, the
    50% stays at 1.
    """
    ability, positive = np.array([0.6, 0.5]), np.array([True, False])
    half = {0.8: 1.2816, 0.5: 0.6745}
    got = {
        level: auc_measurement_interval(
            ability, positive, low=ability - z / 10, high=ability + z / 10, level=level, rng=np.random.default_rng(1)
        ).low
        for level, z in half.items()
    }
    assert got[0.8] == 0
    assert np.isnan(got[0.5])


@pytest.mark.parametrize("width", [1e-9, 0.0])
def test_auc_without_variation_over_draws_has_no_interval(width: float) -> None:
    got = auc_measurement_interval(B, POSITIVE, low=B - width, high=B + width, rng=np.random.default_rng(0))
    assert got.value == 8 / 9
    assert np.isnan([got.low, got.high]).all()
    assert got.method == "none: 95% of the draws equal the estimate"


def test_auc_without_all_intervals_has_none_and_states_it() -> None:
    low = np.where(np.arange(6) == 2, np.nan, B)
    got = auc_measurement_interval(B, POSITIVE, low=low, high=B, rng=np.random.default_rng(0))
    assert got.value == 8 / 9
    assert np.isnan([got.low, got.high]).all()
    assert got.method == "none: 1 agent has no interval"


def test_rmse_counts_observed_cells_only() -> None:
    got = rmse(np.array([[0.5, 0.1], [0.2, np.nan]]), np.array([[0.2, 0.5], [np.nan, np.nan]]))
    assert got.value == pytest.approx(((0.09 + 0.16) / 2) ** 0.5)
    assert got.low < got.value < got.high


def test_equal_errors_give_a_root_mean_square_without_an_interval() -> None:
    got = rmse(np.zeros(3), np.full(3, 0.2))
    assert got.value == pytest.approx(0.2)
    assert np.isnan([got.low, got.high]).all()


def test_the_level_of_an_rmse_is_checked_even_without_an_interval() -> None:
    with pytest.raises(StatisticsError, match=r"\[level\]"):
        rmse(np.zeros((1, 1)), np.zeros((1, 1)), level=2)


def test_rmse_interval_covers_the_noise_level() -> None:
    rng = np.random.default_rng(5)
    hits = [r.low <= 0.3 <= r.high for r in (rmse(np.zeros(200), rng.normal(0, 0.3, 200)) for _ in range(300))]
    assert 0.91 <= np.mean(hits) <= 0.98


def test_bounds_of_a_sampled_auc_solve_its_equation_and_have_positive_width_at_1() -> None:
    got = auc_sampling_interval(A, np.array([True, True, False, True, False, False]))
    assert got.value == ranking_auc(A, np.array([True, True, False, True, False, False])) == pytest.approx(8 / 9)
    for theta in (got.low, got.high):
        variance = theta * (1 - theta) * (1 + 2 * ((1 - theta) / (2 - theta) + theta / (1 + theta))) / 9
        assert (got.value - theta) ** 2 == pytest.approx(1.959964**2 * variance, rel=1e-5)
    apart = auc_sampling_interval(A, POSITIVE)
    assert apart.value == apart.high == 1
    assert 0.3 < apart.low < 0.9
    mirrored = auc_sampling_interval(-A, POSITIVE)
    assert (mirrored.low, mirrored.high) == pytest.approx((0, 1 - apart.low))
    with pytest.raises(StatisticsError, match="auc-one-group"):
        auc_sampling_interval(A, np.ones(6, dtype=np.bool_))


def test_a_sampled_auc_covers_the_truth_in_small_groups() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        x = np.append(rng.normal(1.1902, 1, size=4), rng.normal(size=8))  # Φ(1.1902/√2) = .8
        got = auc_sampling_interval(x, np.arange(12) < 4)
        hits += got.low <= 0.8 <= got.high
    assert 0.92 <= hits / 400 <= 0.99


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@settings(max_examples=30, deadline=None)
def test_a_proportion_has_the_wilson_interval_of_scipy(counts: tuple[int, int]) -> None:
    n_yes, n = counts
    result, theirs = proportion(n_yes, n), binomtest(n_yes, n).proportion_ci(method="wilson")
    assert (result.value, result.low, result.high) == pytest.approx((n_yes / n, theirs.low, theirs.high), abs=1e-9)


def test_a_difference_equals_the_examples_of_newcombe() -> None:
    """Newcombe (1998), table II, method 10: 56/70 − 48/80, 9/10 − 3/10, 5/56 − 0/29, 10/10 − 0/10."""
    cases = {(56, 70, 48, 80): (0.0524, 0.3339), (9, 10, 3, 10): (0.1705, 0.8090), (5, 56, 0, 29): (-0.0381, 0.1926)}
    cases[10, 10, 0, 10] = (0.6075, 1.0)
    for (a, m, b, n), ends in cases.items():
        result = independent_difference(proportion(a, m), proportion(b, n))
        assert (result.low, result.high) == pytest.approx(ends, abs=5e-5)


def test_a_paired_difference_equals_a_manually_computed_one() -> None:
    """Agresti and Min (2005): 9 and 3 of 40 pairs: (6 ± 1.96·√(13 − 36/42))/42."""
    result = paired_difference(9, 3, 40)
    half = 1.959964 * math.sqrt(13 - 36 / 42) / 42
    assert (result.value, result.low, result.high) == pytest.approx((0.15, 6 / 42 - half, 6 / 42 + half), abs=1e-6)


def test_zero_counts_are_unknown_and_impossible_counts_are_refused() -> None:
    empty = proportion(0, 0)
    assert math.isnan(empty.value)
    assert math.isnan(independent_difference(proportion(1, 2), empty).low)
    assert math.isnan(paired_difference(0, 0, 0).value)
    for wrong in ((3, 2), (-1, 2)):
        with pytest.raises(StatisticsError, match=r"\[counts-invalid\]"):
            proportion(*wrong)
    with pytest.raises(StatisticsError, match=r"\[counts-invalid\]"):
        paired_difference(3, 3, 5)


def test_wilson_coverage_is_95_percent_on_average_at_calibration_sizes() -> None:
    """Exact, over rates from .005 to .5; the module's docstring has the values."""
    for n in (30, 36, 40):
        yes = np.arange(n + 1)
        result = [proportion(int(k), n) for k in yes]
        low, high = np.array([entry.low for entry in result]), np.array([entry.high for entry in result])
        rates = np.linspace(0.005, 0.5, 500)
        cover = np.array([(binom.pmf(yes, n, p) * ((low <= p) & (p <= high))).sum() for p in rates])
        assert cover.mean() == pytest.approx(0.952, abs=0.002)
        assert ((cover >= 0.93) & (cover <= 0.97)).mean() >= 0.88


def test_paired_difference_coverage_is_95_percent_on_average_at_calibration_sizes() -> None:
    """Exact, over yes-rates .4 to .85 that differ by up to .3 with the order."""
    n, rng = 36, np.random.default_rng(0)
    cells = np.array([(b, c, n - b - c) for b in range(n + 1) for c in range(n + 1 - b)])
    result = [paired_difference(int(b), int(c), n) for b, c, _ in cells]
    low, high = (
        np.array([rate_longer.low for rate_longer in result]),
        np.array([rate_longer.high for rate_longer in result]),
    )
    cover = []
    for _ in range(60):
        tpr, order = rng.uniform(0.4, 0.85), rng.uniform(-0.3, 0.3)
        rate_longer, rate_shorter, stays = tpr + order / 2, tpr - order / 2, rng.uniform(0, 1)
        only_first = stays * max(0.0, order) + (1 - stays) * rate_longer * (1 - rate_shorter)
        only_second = stays * max(0.0, -order) + (1 - stays) * rate_shorter * (1 - rate_longer)
        chance = multinomial.pmf(cells, n, [only_first, only_second, 1 - only_first - only_second])
        cover.append(float((chance * ((low <= order) & (order <= high))).sum()))
    assert np.mean(cover) == pytest.approx(0.95, abs=0.01)
    assert min(cover) > 0.92


def cells(n_agents: int, n_items: int, *, rho: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return cells with correlation ρ among agents within items, and common item difficulties of both sides."""
    rng = np.random.default_rng(seed)
    items = 3 * rng.normal(size=n_items)
    side_a = rng.normal(size=(n_agents, n_items))
    side_b = rho * side_a + np.sqrt(1 - rho**2) * rng.normal(size=(n_agents, n_items))
    return side_a + items, side_b + items


def test_both_item_statistics_equal_those_of_a_loop_over_items() -> None:
    a, b = cells(7, 9, rho=0.5)
    a[0, :4], b[3, 5], b[:, 8] = np.nan, np.nan, 1.0
    is_valid = ~(np.isnan(a) | np.isnan(b))
    result = cell_correlation(a, b)
    assert result.n_cells == is_valid.sum()
    assert result.overall.value == pytest.approx(spearmanr(a[is_valid], b[is_valid]).statistic)
    by_item = [spearmanr(a[is_valid[:, j], j], b[is_valid[:, j], j]).statistic for j in range(8)]
    assert result.n_items == 8
    assert result.within_items.value == pytest.approx(np.mean(by_item))
    assert result.overall.low < result.overall.value < result.overall.high
    assert result.within_items.low < result.within_items.value < result.within_items.high


def test_common_difficulty_affects_only_the_overall_statistic() -> None:
    result = cell_correlation(*cells(20, 60, rho=0.0))
    assert result.overall.low > 0.5
    assert result.within_items.low < 0 < result.within_items.high


@pytest.mark.slow
def test_intervals_over_items_cover_the_statistic_of_many_items() -> None:
    truth = cell_correlation(*cells(8, 1_000, rho=0.6, seed=1))
    hits = np.zeros(2)
    for seed in range(100):
        result = cell_correlation(*cells(8, 15, rho=0.6, seed=seed + 2))
        hits += [
            result.overall.low <= truth.overall.value <= result.overall.high,
            result.within_items.low <= truth.within_items.value <= result.within_items.high,
        ]
    assert (hits / 100 >= 0.9).all(), hits


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.full((3, 3), np.nan), np.ones((3, 3))),
        (np.ones((3, 3)), np.arange(9.0).reshape(3, 3)),
        (np.empty((0, 0)), np.empty((0, 0))),
    ],
)
def test_without_variation_there_is_no_statistic(one: np.ndarray, other: np.ndarray) -> None:
    result = cell_correlation(one, other)
    assert np.isnan(
        [result.overall.value, result.overall.low, result.within_items.value, result.within_items.high]
    ).all()
    assert result.overall.method == "none: nothing varies"


def test_two_items_have_statistics_without_intervals() -> None:
    result = cell_correlation(*cells(6, 2, rho=0.5))
    assert not np.isnan(result.overall.value)
    assert np.isnan([result.overall.low, result.within_items.low]).all()
    assert result.within_items.method == "none: 2 items are too few"


def test_items_with_equal_correlations_give_no_interval() -> None:
    result = cell_correlation(np.arange(12.0).reshape(4, 3), np.arange(12.0).reshape(4, 3)).within_items
    assert result.value == pytest.approx(1)
    assert np.isnan([result.low, result.high]).all()
    assert result.method == "none: all 3 items have the same correlation"


@pytest.mark.parametrize(
    ("ability", "says"), [([1.0], "needs 2 agents: got 1"), ([1.0, 1.0], "equal values of all 2 agents")]
)
def test_too_few_agents_are_not_reported_as_equal_values(ability: list[float], says: str) -> None:
    with pytest.raises(StatisticsError, match=rf"{says}.*\[metric-constant\]"):
        spearman(np.array(ability), np.array(ability))
