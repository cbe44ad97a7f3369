"""Test abilities fitted to unbalanced trials against explicit least squares, dense means and simulated coverage."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrowing import not_none
from youden.stats import PairChunk
from youden.stats.additive.trial_fit import TrialFit, fit_additive_trials
from youden.types.pool import Floats


def block(K: int, J: int, n: int, *, seed: int, noise: float = 0.3, own: float = 0.0) -> tuple[PairChunk, Floats]:
    """Return n trials of selected cells against random partners, and the abilities behind their answers."""
    rng = np.random.default_rng(seed)
    a, b, c = 0.3 * rng.standard_normal(K), rng.standard_normal(J), own * rng.standard_normal((K, J))
    first, item = rng.integers(0, K, n), rng.integers(0, J, n)
    second = (first + rng.integers(1, K, n)) % K
    value = a[first] + a[second] + b[item] + c[first, item] + c[second, item] + noise * rng.standard_normal(n)
    ids = [column.astype(np.int32) for column in (first, second, item)]
    return PairChunk(ids[0], ids[1], ids[2], value, np.ones(n), np.zeros(n), J), (a - a.mean()) * (K - 2) / (K - 1)


def fitted(of: PairChunk, K: int) -> TrialFit:
    return not_none(fit_additive_trials(lambda: [of], n_agents=K, n_items=of.n_items))


@given(seed=st.integers(0, 2**32 - 1), K=st.integers(3, 6), J=st.integers(2, 6))
def test_abilities_equal_those_of_explicit_least_squares(seed: int, K: int, J: int) -> None:
    of, _ = block(K, J, 12 * K, seed=seed)
    weight = np.random.default_rng(seed).integers(1, 4, len(of.value)).astype(np.float64)
    rows = np.arange(len(of.value))
    X = np.zeros((len(rows), K + J))
    np.add.at(X, (rows, of.first), 1.0)
    np.add.at(X, (rows, of.second), 1.0)
    X[rows, K + of.item] = 1.0
    root = np.sqrt(weight)[:, None]
    a = np.linalg.lstsq(root * X, root[:, 0] * of.value, rcond=None)[0][:K]
    if np.linalg.matrix_rank(X) == K + J - 1:
        result = fitted(replace(of, weight=weight), K)
        np.testing.assert_allclose(result.ability, (K - 2) / (K - 1) * (a - a.mean()), atol=1e-9)


def test_if_every_pair_was_compared_abilities_are_means() -> None:
    K, J, rng = 5, 7, np.random.default_rng(0)
    D = rng.random((J, K, K))
    item, first, second = (
        index.astype(np.int32) for index in np.nonzero(np.broadcast_to(~np.eye(K, dtype=bool), D.shape))
    )
    value = D[item, first, second]
    result = fitted(PairChunk(first, second, item, value, np.ones(len(item)), np.zeros(len(item)), J), K)
    mean = np.bincount(np.append(first, second), np.tile(value, 2), K) / (2 * (K - 1) * J)
    np.testing.assert_allclose(result.ability, mean - mean.mean(), atol=1e-12)
    np.testing.assert_allclose(result.item_mean, [value[item == j].mean() for j in range(J)], atol=1e-12)
    # nothing is left to ask on these items; no interval has zero width
    assert (result.fpc > 0).all()
    assert (result.fpc < 0.02).all()


def test_effect_groups_with_few_agents_are_fitted_like_all_others() -> None:
    # each effect group has one pair three times: sums by agent and group are nearly all 0 and stored sparsely
    K, J, n_levels, rng = 120, 12, 400, np.random.default_rng(0)
    level, item = np.repeat(np.arange(n_levels), 3), np.repeat(rng.integers(0, J, n_levels), 3)
    first = rng.permuted(np.tile(np.arange(K), (n_levels, 1)), axis=1)[:, :4]
    value = rng.random(len(level))
    chunk = PairChunk(
        np.repeat(first[:, 0], 3).astype(np.int32),
        first[:, 1:].ravel().astype(np.int32),
        item.astype(np.int32),
        value,
        np.ones(len(level)),
        np.zeros(len(level)),
        J,
        level.astype(np.int32),
    )
    X = np.zeros((len(level), K + n_levels))
    X[np.arange(len(level))[:, None], np.stack([chunk.first, chunk.second, K + chunk.effect_groups], axis=1)] = 1.0
    a = np.linalg.lstsq(X, value, rcond=None)[0][:K]
    result = fitted(chunk, K)
    np.testing.assert_allclose(result.ability, (K - 2) / (K - 1) * (a - a.mean()), atol=1e-9)


def test_an_item_with_all_pairs_of_one_agent_does_not_shrink_its_ability() -> None:
    """The score of this cell is the mean over the other agents for any agent; only other items inform its ability."""
    K = 5
    star = [(0, k, 0) for k in range(1, K)] + [(0, k, 1) for k in range(1, K)]
    ring = [(i, (i + 1) % K, 2) for i in range(K)] + [(i, (i + 2) % K, 3) for i in range(K)]
    first, second, item = np.array(star + ring, dtype=np.int32).T
    a = np.array([1.0, 0.0, 0.1, -0.1, 0.2])
    chunk = PairChunk(first, second, item, a[first] + a[second], np.ones(len(item)), np.zeros(len(item)), 4)
    np.testing.assert_allclose(fitted(chunk, K).ability, (K - 2) / (K - 1) * (a - a.mean()), atol=1e-9)


def test_trials_that_do_not_link_all_agents_give_no_estimate() -> None:
    star = np.array([(0, k, j) for j in range(3) for k in range(1, 5)], dtype=np.int32).T  # agent 0 could be anywhere
    apart = np.array([(0, 1, 0), (1, 2, 0), (2, 0, 1), (3, 4, 2), (4, 5, 2), (5, 3, 3)], dtype=np.int32).T
    for first, second, item in (star, apart):
        chunk = PairChunk(first, second, item, np.ones(len(item)), np.ones(len(item)), np.zeros(len(item)), 4)
        assert fit_additive_trials(partial(list, [chunk]), n_agents=6, n_items=4) is None


def test_an_agent_without_a_trial_has_no_ability() -> None:
    of, _ = block(5, 8, 200, seed=1)
    result = fitted(of, 7)
    assert np.isnan(result.ability[5:]).all()
    assert np.isnan(result.covariance.std_error[5:]).all()
    np.testing.assert_allclose(result.ability[:5], fitted(of, 5).ability, atol=1e-12)


@pytest.mark.parametrize(("n", "own"), [(60, 0.0), (400, 0.3)])
def test_intervals_cover_abilities_on_newly_drawn_items(n: int, own: float) -> None:
    covered = []
    for seed in range(120):
        of, truth = block(8, 30, n, seed=seed, own=own)
        result = fitted(of, 8)
        covered.append(np.abs(result.ability - truth) <= result.covariance.half_width())
    assert 0.93 <= np.mean(covered) <= 0.99


def test_rounding_does_not_change_the_fpc_if_the_fit_explains_all_answers() -> None:
    K, n = 6, 120
    of, _ = block(K, 8, n, seed=2, noise=0.0)
    order = np.random.default_rng(0).permutation(n)
    again = PairChunk.from_trials(of.item, of.first, of.second, of.value, n_items=8, rows=order)
    a, b = fitted(of, K), fitted(again, K)
    np.testing.assert_allclose(a.fpc, b.fpc, rtol=1e-9)
    np.testing.assert_allclose(a.covariance.covariance, b.covariance.covariance, rtol=1e-9)


def test_for_these_items_all_centered_abilities_include_the_error_of_one_agent() -> None:
    K, J = 8, 30
    item, first, second = (
        index.astype(np.int32) for index in np.nonzero(np.broadcast_to(~np.eye(K, dtype=bool), (J, K, K)))
    )
    covered = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        D, asked = rng.random((J, K, K)), rng.permutation(J)[:3]
        kept = ((first != 0) & (second != 0)) | np.isin(item, asked)
        value = D[item, first, second][kept]
        weights = np.ones(kept.sum()), np.zeros(kept.sum())
        result = fitted(PairChunk(first[kept], second[kept], item[kept], value, *weights, J), K)
        mean = (D * ~np.eye(K, dtype=bool)).sum(axis=0)
        truth = (mean.sum(axis=0) + mean.sum(axis=1)) / (2 * (K - 1) * J)
        half = result.covariance.with_scaled_ability_variances(result.fpc).half_width()
        covered.append(np.abs(result.ability - truth + truth.mean()) <= half)
    assert np.mean(covered) > 0.93


def test_an_agent_without_repeated_items_gets_the_agent_item_variance_of_the_others() -> None:
    """Once each agent was compared on an item, its item effect is known; otherwise only noise would remain."""
    K, J = 6, 40
    of, _ = block(K, J, 1500, seed=4, own=0.6, noise=0.1)
    with_it = (of.first == 0) | (of.second == 0)
    first_met = np.zeros(len(of.item), dtype=bool)
    first_met[[np.flatnonzero(with_it & (of.item == j))[0] for j in range(J)]] = True
    kept = ~with_it | first_met
    result = fitted(PairChunk.from_trials(of.item, of.first, of.second, of.value, n_items=J, rows=kept), K)
    assert result.fpc[0] < 0.75


def test_drawn_independent_rates_stay_uncertain_if_every_pair_was_compared() -> None:
    K, J, rng = 5, 12, np.random.default_rng(5)
    item, first, second = (
        index.astype(np.int32) for index in np.nonzero(np.broadcast_to(~np.eye(K, dtype=bool), (J, K, K)))
    )
    rate = (rng.random(len(item)) < 0.2).astype(np.float64)
    chunk = PairChunk(first, second, item, 0.7 - rate, np.ones(len(item)), rate, J)
    result = fitted(chunk, K)
    on_these = result.covariance.with_scaled_ability_variances(result.fpc)
    assert (np.abs(result.ability) <= on_these.half_width()).all()
    drawn = np.sqrt(rate.var() / (2 * (K - 1) * J))
    assert on_these.std_error == pytest.approx(drawn, rel=0.35)
    assert (fitted(replace(chunk, rate=0 * rate), K).fpc < 0.02).all()
