"""Test pairwise comparisons and ranks from abilities, their covariance and their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from youden.stats import CentredCovariance, holm, pairwise_differences
from youden.stats.base.metrics import rank_ranges
from youden.stats.trials.comparisons import rank_with_ties
from youden.types.pool import Floats


def centered(K: int, *, variance: float = 1.0) -> CentredCovariance:
    """Return the covariance of K centered independent abilities with normal quantiles."""
    return known_to_be(variance * (np.eye(K) - 1 / K))


def known_to_be(covariance: Floats) -> CentredCovariance:
    return CentredCovariance(covariance, np.where(np.isnan(np.diag(covariance)), np.nan, np.inf))


def test_a_comparison_equals_manually_computed_values() -> None:
    differences = pairwise_differences(np.array([0.5, 0.2, 0.1]), centered(3, variance=0.01))
    assert differences.value[0, 1] == pytest.approx(0.3)
    assert differences.std_error[0, 1] == pytest.approx(np.sqrt(0.02))
    assert np.isnan(np.diag(differences.std_error)).all()
    assert differences.one_sided_p[0, 1] == pytest.approx(ndtr(-0.3 / np.sqrt(0.02)))
    assert differences.one_sided_p[1, 0] == pytest.approx(1 - differences.one_sided_p[0, 1])
    assert (np.diag(differences.one_sided_p) == 1).all()


@settings(max_examples=25, deadline=None)
@given(p=st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_the_hypotheses_of_the_step_down_procedure(p: list[float]) -> None:
    """At every α: walk up the sorted p-values while p ≤ α/(n − rank + 1)."""
    corrected = holm(np.array(p))
    for alpha in (0.01, 0.05, 0.3):
        rejected = 0
        for rank, value in enumerate(sorted(p)):
            if value * (len(p) - rank) > alpha:
                break
            rejected += 1
        assert (corrected <= alpha).sum() == rejected
    assert ((corrected >= p) & (corrected <= 1)).all()


def test_exact_abilities_are_significantly_different_without_a_warning() -> None:
    differences = pairwise_differences(np.array([0.5, 0.5, 0.1]), known_to_be(np.zeros((3, 3))))
    assert (differences.one_sided_p[0, 2], differences.one_sided_p[2, 0]) == (0, 1)
    places = differences.simultaneous_ranks
    assert (places.low.tolist(), places.high.tolist()) == ([1, 1, 3], [2, 2, 3])


def test_distant_agents_have_one_rank_each_and_equal_ones_any_rank() -> None:
    apart = pairwise_differences(np.array([0.9, 0.1, 0.5]), centered(3, variance=1e-4)).simultaneous_ranks
    assert (apart.low.tolist(), apart.high.tolist()) == ([1, 3, 2], [1, 3, 2])
    equal = pairwise_differences(np.zeros(4), centered(4)).simultaneous_ranks
    assert (equal.low.tolist(), equal.high.tolist()) == ([1] * 4, [4] * 4)


def test_agents_without_an_estimate_and_of_other_components_are_not_compared() -> None:
    covariance = np.full((5, 5), np.nan)
    covariance[:2, :2] = covariance[2:4, 2:4] = centered(2, variance=1e-4).covariance
    differences = pairwise_differences(np.array([0.9, 0.1, 0.8, 0.2, np.nan]), known_to_be(covariance))
    assert differences.one_sided_p[0, 1] < 1e-6
    assert (differences.one_sided_p[0, 2:] == 1).all()
    assert differences.unique_best is None
    places = differences.simultaneous_ranks
    assert (places.low.tolist(), places.high.tolist()) == ([1, 2, 1, 2, 1], [4, 5, 4, 5, 5])


def test_simultaneous_ranks_cover_all_agents() -> None:
    """Simulated: close abilities, 95% sets."""
    rng = np.random.default_rng(1)
    theta = np.repeat([0.0, 0.1, 3.0], 4)
    truth_low = np.array([1 + (theta > t).sum() for t in theta])
    truth_high = np.array([len(theta) - (theta < t).sum() for t in theta])
    is_covered = []
    for _ in range(300):
        estimate = theta + rng.normal(size=12)
        sets = pairwise_differences(estimate - estimate.mean(), centered(12)).simultaneous_ranks
        is_covered.append(bool((sets.low <= truth_high).all() and (truth_low <= sets.high).all()))
    assert np.mean(is_covered) > 0.92


def test_marginal_differences_are_often_falsely_significant_and_simultaneous_rarely() -> None:
    """Twelve nearly equal agents have 66 pairs, each of which is tested at 5%."""
    rng = np.random.default_rng(2)
    theta = np.linspace(0, 0.01, 12)
    is_wrong_direction = theta[:, None] < theta
    has_wrong_pair, has_wrong_simultaneous_pair = [], []
    for _ in range(400):
        estimate = theta + rng.normal(size=12)
        differences = pairwise_differences(estimate - estimate.mean(), centered(12))
        has_wrong_pair.append((differences.significantly_better & is_wrong_direction).any())
        has_wrong_simultaneous_pair.append((differences.simultaneously_better & is_wrong_direction).any())
        assert not (differences.simultaneously_better & ~differences.significantly_better).any()
    assert np.mean(has_wrong_pair) > 0.2
    assert np.mean(has_wrong_simultaneous_pair) <= 0.05


def test_the_step_down_procedure_finds_more_differences_than_a_single_step() -> None:
    ability = np.array([40.0, 20.0, 3.1, 0.0])
    differences = pairwise_differences(ability, centered(4, variance=1.0), level=0.9)
    assert differences.one_sided_p[2, 3] > 0.1 / 12  # one step: Bonferroni over twelve
    sets = differences.simultaneous_ranks
    assert (sets.low.tolist(), sets.high.tolist()) == ([1, 2, 3, 4], [1, 2, 3, 4])


abilities = st.lists(st.sampled_from([-0.5, 0.0, 0.2, 0.4, np.nan]), min_size=1, max_size=8)
intervals = st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 4), st.booleans()), min_size=1, max_size=8)


@settings(max_examples=30, deadline=None)
@given(drawn=intervals)
def test_rank_ranges_count_intervals_entirely_above_and_below(drawn: list[tuple[int, int, bool]]) -> None:
    low = np.array([np.nan if gone else float(a) for a, _, gone in drawn])
    high = np.array([np.nan if gone else float(a + width) for a, width, gone in drawn])
    got = rank_ranges(low, high)
    for i in range(len(low)):
        above = sum(1 for k in range(len(low)) if low[k] > high[i])
        below = sum(1 for k in range(len(low)) if high[k] < low[i])
        assert (got.low[i], got.high[i]) == (1 + above, len(low) - below)


@settings(max_examples=30, deadline=None)
@given(values=abilities)
def test_an_ability_without_variance_has_a_single_rank(values: list[float]) -> None:
    ability = np.array(values)
    place = rank_with_ties(ability)
    got = rank_ranges(ability, ability)
    valid = ~np.isnan(ability)
    np.testing.assert_array_equal(got.low[valid], place[valid])
    assert (place[~valid] == valid.sum() + 1).all()
