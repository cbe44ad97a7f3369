"""Pairs and places that abilities and their covariance allow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from youden.errors import StatisticsError
from youden.nouns.pool import Floats
from youden.stats.base.metrics import rank_ranges
from youden.stats.trials.comparisons import compare_agents, holm, rank_sets


def centred(K: int, *, variance: float = 1.0) -> Floats:
    """Covariance of K independent abilities less their mean."""
    return variance * (np.eye(K) - 1 / K)


def test_a_comparison_by_hand() -> None:
    result = compare_agents(np.array([0.5, 0.2, 0.1]), centred(3, variance=0.01))
    assert result.difference[0, 1] == pytest.approx(0.3)
    assert result.error[0, 1] == pytest.approx(np.sqrt(0.02))
    assert result.p_value[0, 1] == pytest.approx(2 * ndtr(-0.3 / np.sqrt(0.02)))
    np.testing.assert_allclose(result.p_holm, result.p_holm.T)
    assert result.p_holm[0, 2] == pytest.approx(3 * result.p_value[0, 2])
    assert np.isnan(np.diag(result.p_value)).all()


@settings(max_examples=25, deadline=None)
@given(p=st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_what_its_step_down_rejects(p: list[float]) -> None:
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


def test_exact_abilities_are_told_apart_without_a_warning() -> None:
    result = compare_agents(np.array([0.5, 0.5, 0.1]), np.zeros((3, 3)))
    assert (result.p_value[0, 1], result.p_value[0, 2]) == (1, 0)
    places = rank_sets(np.array([0.5, 0.5, 0.1]), np.zeros((3, 3)), rng=np.random.default_rng(0))
    assert (places.low.tolist(), places.high.tolist()) == ([1, 1, 3], [2, 2, 3])


def test_agents_far_apart_have_one_place_each_and_equal_ones_any() -> None:
    rng = np.random.default_rng(0)
    apart = rank_sets(np.array([0.9, 0.1, 0.5]), centred(3, variance=1e-4), rng=rng)
    assert (apart.low.tolist(), apart.high.tolist()) == ([1, 3, 2], [1, 3, 2])
    equal = rank_sets(np.zeros(4), centred(4), rng=rng)
    assert (equal.low.tolist(), equal.high.tolist()) == ([1] * 4, [4] * 4)


def test_agents_without_an_estimate_and_of_other_components_are_not_compared() -> None:
    covariance = np.full((5, 5), np.nan)
    covariance[:2, :2] = covariance[2:4, 2:4] = centred(2, variance=1e-4)
    ability = np.array([0.9, 0.1, 0.8, 0.2, np.nan])
    result = compare_agents(ability, covariance)
    assert np.isfinite(result.p_value[0, 1])
    assert np.isnan(result.p_value[0, 2:]).all()
    places = rank_sets(ability, covariance, rng=np.random.default_rng(0))
    assert (places.low.tolist(), places.high.tolist()) == ([1, 2, 1, 2, 1], [4, 5, 4, 5, 5])


def test_sets_of_ranks_hold_for_all_agents_at_once_and_single_intervals_do_not() -> None:
    """Simulated: close abilities, 95 % sets; unions of single 95 % intervals for θ − θ̄ are no such promise either way."""
    rng = np.random.default_rng(1)
    theta = np.repeat([0.0, 0.1, 3.0], 4)
    truth_low = np.array([1 + (theta > t).sum() for t in theta])
    truth_high = np.array([len(theta) - (theta < t).sum() for t in theta])
    held = []
    for _ in range(300):
        estimate = theta + rng.normal(size=12)
        sets = rank_sets(estimate - estimate.mean(), centred(12), rng=rng, n_draws=300)
        held.append(bool((sets.low <= truth_high).all() and (truth_low <= sets.high).all()))
    assert np.mean(held) > 0.92


def test_stepping_down_finds_more_than_one_step_would() -> None:
    ability = np.array([40.0, 20.0, 3.1, 0.0])
    sets = rank_sets(ability, centred(4, variance=1.0), rng=np.random.default_rng(2), level=0.9, n_draws=20_000)
    single = np.quantile(
        np.ptp(np.random.default_rng(3).normal(size=(20_000, 4)), axis=1) / np.sqrt(2), 0.9
    )  # one step: the studentised range of four
    assert 3.1 / np.sqrt(2) < single
    assert (sets.low.tolist(), sets.high.tolist()) == ([1, 2, 3, 4], [1, 2, 3, 4])


def test_sets_are_wider_than_ranges_of_single_intervals_that_ignore_how_many_there_are() -> None:
    rng = np.random.default_rng(4)
    ability = np.sort(rng.normal(0, 1.2, 15))
    sets = rank_sets(ability, centred(15), rng=rng)
    half = 0.7
    naive = rank_ranges(ability - half, ability + half)
    assert (sets.high - sets.low).sum() > (naive.high - naive.low).sum()


@pytest.mark.parametrize(("params", "slug"), [({"level": 1.0}, "level"), ({"n_draws": 3}, "bootstrap-draws")])
def test_wrong_parameters_are_refused(params: dict[str, float], slug: str) -> None:
    with pytest.raises(StatisticsError) as caught:
        rank_sets(np.zeros(3), centred(3), rng=np.random.default_rng(0), **params)
    assert caught.value.slug == slug


def test_a_covariance_of_other_agents_is_refused() -> None:
    with pytest.raises(StatisticsError, match=r"\[comparison-shape\]"):
        compare_agents(np.zeros(3), centred(4))
