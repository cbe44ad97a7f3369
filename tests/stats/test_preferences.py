"""The preference model: abilities, position effect and intervals, against a naive implementation."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from youden.errors import StatisticsError
from youden.stats import fit_bradley_terry, fit_preferences
from youden.stats.base.clusters import covariance_over_clusters
from youden.stats.trials import preferences
from youden.types.pool import Floats, Positions

Columns = tuple[Positions, Positions, Positions, Floats]


def draw_battles(n_agents: int, n_items: int, n: int, seed: int) -> Columns:
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(n_agents, 2, replace=False) for _ in range(n)])
    return pairs[:, 0], pairs[:, 1], rng.integers(0, n_items, n), rng.choice([0, 0.5, 1], n)


def test_the_fit_equals_naive_least_squares() -> None:
    K = 4
    first, second, item, answer = draw_battles(K, 15, 120, seed=3)
    fit = fit_preferences(first, second, item, answer, n_agents=K)

    design = np.zeros((len(item), K + 1))
    design[np.arange(len(item)), first] = 1
    design[np.arange(len(item)), second] = -1
    design[:, K] = 1
    solution = np.linalg.lstsq(design, 2 * answer - 1, rcond=None)[0]
    np.testing.assert_allclose(fit.ability, solution[:K] - solution[:K].mean(), atol=1e-12)
    assert fit.position_effect.value == pytest.approx(solution[K])

    inverse = np.linalg.pinv(design.T @ design)
    leverage = np.einsum("ti,ik,tk->t", design, inverse, design)
    residual = (2 * answer - 1 - design @ solution) / np.sqrt(1 - leverage)
    influence = np.zeros((K + 1, 15))
    n_trials = np.zeros((K, 15))
    for t in range(len(item)):
        influence[:, item[t]] += inverse @ design[t] * residual[t]
        for agent in (first[t], second[t]):
            n_trials[agent, item[t]] += 1
    total = n_trials.sum(axis=1)
    expected = covariance_over_clusters(influence[:K], n_trials / total[:, None], relative_variance=1 / total)
    np.testing.assert_allclose(fit.covariance.covariance, expected.covariance, atol=1e-12)
    np.testing.assert_array_equal(fit.covariance.df, expected.df)
    np.testing.assert_array_equal(fit.n_trials, total)


def test_chunks_of_items_give_the_same_result_as_all_items_together(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = draw_battles(5, 40, 200, seed=1)
    together = fit_preferences(*columns, n_agents=5)
    monkeypatch.setattr(preferences, "_MAX_CELLS_PER_CHUNK", 18)
    in_chunks = fit_preferences(*columns, n_agents=5)
    np.testing.assert_allclose(in_chunks.covariance.covariance, together.covariance.covariance, atol=1e-14)
    assert in_chunks.position_effect.high == pytest.approx(together.position_effect.high)


def test_exchanging_the_order_of_all_battles_reverses_only_the_position_effect() -> None:
    first, second, item, answer = draw_battles(5, 40, 200, seed=2)
    fit = fit_preferences(first, second, item, answer, n_agents=5)
    swapped = fit_preferences(second, first, item, 1 - answer, n_agents=5)
    np.testing.assert_allclose(swapped.ability, fit.ability, atol=1e-12)
    assert swapped.position_effect.value == pytest.approx(-fit.position_effect.value)


def test_the_position_effect_is_unknown_if_one_agent_always_comes_second() -> None:
    rng = np.random.default_rng(0)
    first, item = np.tile([1, 2, 3], 50), np.repeat(np.arange(50), 3)
    answer = (rng.random(150) < 0.8).astype(float)
    fit = fit_preferences(first, np.zeros(150, dtype=int), item, answer, n_agents=4)
    assert np.isnan(fit.position_effect.value)
    assert fit.ability[1:].min() > fit.ability[0]
    assert fit.ability.sum() == pytest.approx(0)


def test_a_judge_that_always_prefers_the_first_has_a_position_effect_of_1() -> None:
    item = np.repeat(np.arange(30), 4)
    first = np.tile(np.arange(4), 30)
    fit = fit_preferences(first, (first + 1 + item % 3) % 4, item, np.ones(120), n_agents=4)
    assert fit.position_effect.value == pytest.approx(1)
    np.testing.assert_allclose(fit.ability, 0, atol=1e-12)
    assert (fit.covariance.std_error > 0).all()


def test_unlinked_agents_have_abilities_of_their_own_mean() -> None:
    columns = np.array([[0, 1, 2, 3], [1, 0, 3, 2]] * 10).reshape(-1, 4)
    first, second = columns[::2].ravel(), columns[1::2].ravel()
    answer = np.tile([1.0, 0.0, 1.0, 0.0], 10)
    fit = fit_preferences(first, second, np.arange(40), answer, n_agents=5)
    assert np.isnan(fit.ability[4])
    np.testing.assert_allclose(fit.ability[:4], [0.5, -0.5, 0.5, -0.5], atol=1e-12)


def test_bradley_terry_is_the_maximum_of_its_likelihood() -> None:
    first, second, _, answer = draw_battles(6, 5, 400, seed=4)
    strength = fit_bradley_terry(first, second, answer, n_agents=6, position_effect=False)
    p_first = 1 / (1 + np.exp(strength[second] - strength[first]))
    score = np.bincount(first, answer - p_first, 6) - np.bincount(second, answer - p_first, 6)
    np.testing.assert_allclose(score, 0, atol=1e-3)
    assert strength.sum() == pytest.approx(0)


def test_bradley_terry_without_scikit_learn_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(StatisticsError, match=r"preferences\]'") as caught:
        fit_bradley_terry(np.array([0, 1]), np.array([1, 0]), np.array([1.0, 0.0]), n_agents=2)
    assert caught.value.slug == "bradley-terry"


def test_wrong_columns_are_refused() -> None:
    first, second, item, answer = draw_battles(3, 5, 20, seed=0)
    with pytest.raises(StatisticsError, match="one length"):
        fit_preferences(first[1:], second, item, answer, n_agents=3)
    answer[0] = np.nan
    with pytest.raises(StatisticsError, match="NaN"):
        fit_preferences(first, second, item, answer, n_agents=3)


def test_the_position_effect_has_no_interval_without_an_error_or_enough_items() -> None:
    first, second, item = np.tile([0, 1], 10), np.tile([1, 0], 10), np.arange(20)
    answer = np.where(first == 0, 0.75, 0.25)
    fit = fit_preferences(first, second, item, answer, n_agents=2)
    assert fit.position_effect.value == pytest.approx(0)
    assert np.isnan(fit.position_effect.low)
    rng = np.random.default_rng(1)
    fit = fit_preferences(first, second, item % 5, rng.random(20), n_agents=2)
    assert np.isnan(fit.position_effect.high)
    fit = fit_preferences(first[:7], second[:7], item[:7], np.array([1.0, 0, 0, 1, 1, 0, 0]), n_agents=2)
    assert -1 <= fit.position_effect.low <= fit.position_effect.high <= 1
