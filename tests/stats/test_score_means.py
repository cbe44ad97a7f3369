"""Mean scores of models from tables with missing cells, against slow and obvious versions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binomtest, norm, ttest_rel

from youden.stats.additive.score_means import (
    count_items_to_separate,
    estimate_score_means,
    find_smallest_removal,
    missingness_p_value,
    split_half_reliability,
)
from youden.stats.base.proportions import proportion
from youden.types.pool import Floats


def make_scores(
    seed: int, *, n_agents: int = 5, n_items: int = 60, missing: float = 0.0, graded: bool = True
) -> Floats:
    rng = np.random.default_rng(seed)
    expected = 1 / (1 + np.exp(rng.normal(0, 1, n_items) - rng.normal(0, 0.7, (n_agents, 1))))
    if graded:
        score = np.clip(expected + rng.normal(0, 0.1, expected.shape), 0, 1)
    else:
        score = (rng.random(expected.shape) < expected).astype(np.float64)
    score[rng.random(score.shape) < missing] = np.nan
    return score


def refit(score: Floats) -> Floats:
    """Means by dummy regression: score on models and items, with difficulties that sum to 0."""
    agent, item = np.nonzero(~np.isnan(score))
    n_agents, n_items = score.shape
    design = np.zeros((len(agent) + 1, n_agents + n_items))
    design[np.arange(len(agent)), agent] = 1
    design[np.arange(len(agent)), n_agents + item] = -1
    design[-1, n_agents:] = 1
    return np.asarray(np.linalg.lstsq(design, np.append(score[agent, item], 0), rcond=None)[0][:n_agents])


def test_a_complete_table_gives_the_means_and_their_usual_standard_errors() -> None:
    score = make_scores(0)
    means = estimate_score_means(score)
    np.testing.assert_allclose(means.mean, score.mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(means.std_error, score.std(axis=1, ddof=1) / np.sqrt(60), rtol=1e-4)


@pytest.mark.parametrize("n_items", [2, 3, 20, 200])
@pytest.mark.parametrize("graded", [True, False])
def test_a_difference_in_a_complete_table_has_the_interval_of_the_paired_t_test(n_items: int, graded: bool) -> None:
    score = make_scores(9, n_agents=8, n_items=n_items, graded=graded)
    differences = estimate_score_means(score).differences
    for i, k in combinations(range(8), 2):
        if np.ptp(score[i] - score[k]) == 0:
            continue
        test = ttest_rel(score[i], score[k])
        interval = test.confidence_interval(0.95)
        half_width = differences.half_width[i, k]
        assert differences.value[i, k] - half_width == pytest.approx(interval.low, abs=1e-6)
        assert differences.value[i, k] + half_width == pytest.approx(interval.high, abs=1e-6)
        assert differences.significant[i, k] == (test.pvalue < 0.05)


def test_a_difference_in_a_complete_table_does_not_depend_on_the_other_models() -> None:
    score = make_scores(10, n_agents=8, n_items=6)
    with_others, alone = estimate_score_means(score).differences, estimate_score_means(score[:2]).differences
    for name in ("value", "std_error", "df", "half_width"):
        assert getattr(with_others, name)[0, 1] == pytest.approx(getattr(alone, name)[0, 1], rel=1e-6)


@pytest.mark.parametrize("n_items", [2, 5, 6, 30])
def test_models_that_differ_by_1_on_each_item_are_compared_as_by_the_sign_test(n_items: int) -> None:
    score = np.zeros((3, n_items))
    score[1] = 1
    score[2, 0] = 1
    means = estimate_score_means(score)
    assert means.is_constant.tolist() == [[False, True, False], [True, False, False], [False, False, False]]
    is_significant = binomtest(n_items, n_items).pvalue < 0.05
    assert means.differences.significant[0, 1] == is_significant
    assert means.differences.half_width[0, 1] == pytest.approx(2 * (1 - 0.025 ** (1 / n_items)), rel=1e-6)


@pytest.mark.parametrize("n_items", [2, 20])
def test_equal_scores_give_an_interval_of_the_fraction_of_items_that_may_differ(n_items: int) -> None:
    score = make_scores(11, n_agents=3, n_items=n_items)
    score[1] = score[0]
    means = estimate_score_means(score)
    assert means.is_constant[0, 1]
    assert means.differences.value[0, 1] == 0
    assert means.differences.half_width[0, 1] == pytest.approx(1 - 0.025 ** (1 / n_items))
    assert means.differences.one_sided_p[0, 1] == pytest.approx(0.5)


def test_missing_cells_are_fitted_by_model_and_item() -> None:
    score = make_scores(1, missing=0.4)
    means = estimate_score_means(score)
    np.testing.assert_allclose(means.mean, refit(score), atol=1e-5)


@pytest.mark.slow
def test_standard_errors_with_missing_cells_are_those_of_a_jackknife_over_items() -> None:
    score = make_scores(2, n_items=200, missing=0.4)
    means = estimate_score_means(score)
    without_one = np.array([refit(np.delete(score, item, axis=1)) for item in range(200)])
    jackknife = np.sqrt(199 / 200 * ((without_one - without_one.mean(axis=0)) ** 2).sum(axis=0))
    np.testing.assert_allclose(means.std_error, jackknife, rtol=0.05)


def test_a_model_that_skipped_hard_items_is_not_favored() -> None:
    rng = np.random.default_rng(3)
    difficulty = np.linspace(-0.4, 0.4, 100)
    score = np.clip(np.array([0.5, 0.45, 0.4])[:, None] - difficulty + rng.normal(0, 0.03, (3, 100)), 0, 1)
    score[1, 40:] = np.nan  # the second best responds to the easy items only
    assert np.nanmean(score[1]) > score[0].mean()
    means = estimate_score_means(score)
    assert means.mean[0] > means.mean[1] > means.mean[2]
    assert abs(means.mean[1] - 0.45) < 0.03


def test_intervals_of_binary_scores_are_close_to_wilsons_and_stay_in_the_range() -> None:
    score = make_scores(4, graded=False)
    score[0], score[1] = 0, 1
    means = estimate_score_means(score)
    for agent in range(len(score)):
        exact = proportion(score[agent].sum(), 60)
        assert means.low[agent] == pytest.approx(exact.low, abs=0.005)
        assert means.high[agent] == pytest.approx(exact.high, abs=0.005)
    assert means.low[0] == 0
    assert means.high[1] == pytest.approx(1)


@pytest.mark.parametrize("n_items", [3, 12, 13])
@pytest.mark.parametrize("score", [0.3, 0.5, 0.7])
def test_equal_scores_have_the_interval_of_a_proportion(score: float, n_items: int) -> None:
    means = estimate_score_means(np.full((3, n_items), score))
    wilson = proportion(score * n_items, n_items)
    assert (means.low[0], means.high[0]) == pytest.approx((wilson.low, wilson.high))


def test_models_without_common_items_have_no_common_scale() -> None:
    score = np.full((4, 20), np.nan)
    rng = np.random.default_rng(5)
    score[:2, :10] = rng.random((2, 10))
    score[2:, 10:] = rng.random((2, 10))
    means = estimate_score_means(score)
    np.testing.assert_allclose(means.mean, np.nanmean(score, axis=1), atol=1e-6)
    assert np.isnan(means.covariance.covariance[:2, 2:]).all()
    assert means.model.status_ == "disconnected"
    removal = find_smallest_removal(score, means)
    first = int(means.mean.argmax())
    assert removal is None or removal.agent // 2 == first // 2


def smallest_removal(score: Floats) -> int | None:
    """The fewest items without which another model has a higher mean, by trying all sets of items."""
    n_items = score.shape[1]
    first = score.mean(axis=1).argmax()
    for n in range(1, n_items):
        for items in combinations(range(n_items), n):
            mean = np.delete(score, items, axis=1).mean(axis=1)
            if (mean > mean[first] + 1e-9).any():
                return n
    return None


@pytest.mark.parametrize("seed", range(12))
def test_the_smallest_removal_is_that_of_an_exhaustive_search(seed: int) -> None:
    score = make_scores(seed, n_agents=3, n_items=8, graded=seed % 2 == 0)
    means = estimate_score_means(score)
    removal = find_smallest_removal(score, means)
    assert (None if removal is None else len(removal.items)) == smallest_removal(score)
    if removal is not None:
        mean = np.delete(score, removal.items, axis=1).mean(axis=1)
        assert mean[removal.agent] > mean[means.mean.argmax()]


@pytest.mark.parametrize("seed", range(4))
def test_with_missing_cells_the_removal_is_the_smallest_that_a_refit_confirms(seed: int) -> None:
    score = make_scores(seed, missing=0.3)
    removal = find_smallest_removal(score, estimate_score_means(score))
    assert removal is not None
    first = refit(score).argmax()
    mean = refit(np.delete(score, removal.items, axis=1))
    assert mean[removal.agent] > mean[first]
    fewer = refit(np.delete(score, removal.items[:-1], axis=1))
    assert fewer[removal.agent] <= fewer[first]


def test_a_model_that_is_best_on_every_item_keeps_the_first_place() -> None:
    score = make_scores(6, n_items=20)
    score[0] = score[1:].max(axis=0)
    assert find_smallest_removal(score, estimate_score_means(score)) is None


def test_the_number_of_items_to_separate_has_the_power_of_a_normal_test() -> None:
    n_more = count_items_to_separate(0.05, 0.04, 100)
    assert n_more is not None
    std_error = 0.04 * np.sqrt(100 / (100 + n_more))
    assert norm.sf(norm.ppf(0.975) - 0.05 / std_error) == pytest.approx(0.8, abs=0.002)
    assert count_items_to_separate(0.5, 0.01, 100) == 0
    assert count_items_to_separate(0.0, 0.01, 100) is None
    assert count_items_to_separate(0.1, float("nan"), 100) is None


def test_the_split_half_reliability_is_that_of_parallel_tests() -> None:
    rng = np.random.default_rng(7)
    ability, noise = rng.normal(0, 1, (400, 1)), rng.normal(0, 4, (400, 64))
    score = 0.5 + (ability + noise) / 100
    value = split_half_reliability(score, np.zeros(64), rng=rng)
    assert value == pytest.approx(1 / (1 + 16 / 64), abs=0.04)  # variance 1 of the models, 16/64 of their means
    assert np.isnan(split_half_reliability(score[:2], np.zeros(64), rng=rng))


def test_a_negative_correlation_of_halves_is_a_reliability_of_0_or_unknown() -> None:
    opposite = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    assert np.isnan(split_half_reliability(opposite, np.zeros(2), rng=np.random.default_rng(0)))
    opposite[1] = 0.6, 0.5
    assert split_half_reliability(opposite, np.zeros(2), rng=np.random.default_rng(0)) == 0


def test_few_items_are_tested_by_all_permutations() -> None:
    observed = np.arange(5)[None, :] < np.array([[5], [4], [3], [2]])
    # the numbers of missing cells are 0, 0, 1, 2, 3: of 120 orders, 2 are as extreme at each end; Holm doubles the p-value
    assert missingness_p_value(observed, np.arange(5.0)) == pytest.approx(2 * 4 / 120)
    assert missingness_p_value(observed[:, 1:3], np.arange(2.0)) > 0.5


def test_cells_that_are_missing_completely_at_random_are_not_flagged() -> None:
    p_values = []
    for seed in range(60):
        score = make_scores(seed, n_agents=10, missing=0.3)
        p_values.append(missingness_p_value(~np.isnan(score), estimate_score_means(score).difficulty))
    assert np.mean(np.array(p_values) < 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 60)


@pytest.mark.slow
def test_rare_successes_that_are_missing_completely_at_random_are_not_flagged() -> None:
    p_values = []
    rng = np.random.default_rng(12)
    for _ in range(40):
        difficulty = rng.normal(2.5, 1.2, 1000)
        score = (rng.random((20, 1000)) < 1 / (1 + np.exp(difficulty))).astype(np.float64)
        score[rng.random(score.shape) < 0.6] = np.nan
        score = score[:, ~np.isnan(score).all(axis=0)]
        p_values.append(missingness_p_value(~np.isnan(score), estimate_score_means(score).difficulty))
    assert np.mean(np.array(p_values) < 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 40)


@pytest.mark.parametrize("kind", ["hard items", "one model"])
def test_cells_that_are_missing_by_difficulty_or_by_model_are_flagged(kind: str) -> None:
    rng = np.random.default_rng(8)
    score = make_scores(8, n_agents=10)
    difficulty = -score.mean(axis=0)
    if kind == "hard items":
        hard = difficulty > np.quantile(difficulty, 0.6)
        score[:, hard] = np.where(rng.random((10, int(hard.sum()))) < 0.5, np.nan, score[:, hard])
    else:
        score[0, 20:] = np.nan
    assert missingness_p_value(~np.isnan(score), estimate_score_means(score).difficulty) < 0.01
    assert missingness_p_value(np.ones((10, 60), dtype=np.bool_), difficulty) == 1


def test_two_models_are_compared_by_their_common_items_alone() -> None:
    rng = np.random.default_rng(0)
    n_own, n_common = 20, 4
    score = rng.random((2, 2 * n_own + n_common))
    score[0, :n_own] = score[1, n_own : 2 * n_own] = np.nan
    common = score[:, 2 * n_own :]
    interval = ttest_rel(*common).confidence_interval()
    differences = estimate_score_means(score).differences
    assert differences.df[0, 1] == pytest.approx(n_common - 1)
    assert 2 * differences.half_width[0, 1] == pytest.approx(interval.high - interval.low, rel=0.02)


def test_one_item_between_two_groups_of_models_makes_no_difference_significant() -> None:
    rng = np.random.default_rng(1)
    score = rng.normal(0.5, 0.1, (8, 41)).clip(0, 1)
    score[:4, :20] = score[4:, 20:40] = np.nan
    differences = estimate_score_means(score).differences
    assert np.isfinite(differences.half_width[:4, 4:]).all()
    assert not differences.significant[:4, 4:].any()
