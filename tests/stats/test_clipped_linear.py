"""Test the clipped-linear estimator: weights, intervals against a naive implementation, gaps and errors."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

from youden import ClippedLinear
from youden.errors import StatisticsError
from youden.stats.base.clusters import covariance_over_clusters
from youden.types import Scores, cells


def scores(value: np.ndarray, weight: np.ndarray) -> Scores:
    return Scores.from_matrices(
        value=value,
        weight=weight,
        role="train",
        kind="symmetric",
        agent_ids=tuple(f"a{i}" for i in range(value.shape[0])),
        item_ids=tuple(f"p{j}" for j in range(value.shape[1])),
    )


def interval_twin(value: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Compute 95% half-widths: V = (XᵀAX)⁺, centered; the influence of cell c is V Xᵀ A e_c, summed by item
    (connected graphs).
    """
    agent, item = np.nonzero(weight > 0)
    n_agents = len(value)
    X = np.zeros((len(agent), sum(value.shape)))
    X[np.arange(len(agent)), agent] = 1
    X[np.arange(len(agent)), n_agents + item] = -1
    A = np.diag(weight[agent, item])
    V = np.linalg.pinv(X.T @ A @ X)
    hat = X @ V @ X.T @ A
    error = value[agent, item] - hat @ value[agent, item]
    n, m = weight.sum(axis=1)[agent], weight.sum(axis=0)[item]
    w = weight[agent, item]
    root = np.sqrt((1 - w / m) * (1 - w / n) / (1 - np.diag(hat)))
    center = np.eye(n_agents, sum(value.shape))
    center[:, :n_agents] -= 1 / n_agents
    move = center @ V @ X.T @ A
    by_item = np.zeros(value.shape)
    np.add.at(by_item.T, item, (move * error * root).T)
    share = weight / weight.sum(axis=1, keepdims=True)
    return covariance_over_clusters(by_item, share, relative_variance=1 / weight.sum(axis=1)).half_width()


@settings(max_examples=15, deadline=None)
@given(
    n_agents=st.integers(3, 7),
    n_items=st.integers(3, 9),
    seed=st.integers(0, 2**32 - 1),
    equal=st.booleans(),
    at_once=st.sampled_from([1, 20, 2**20]),
)
def test_intervals_are_those_of_the_centered_ability_over_items(
    n_agents: int, n_items: int, seed: int, equal: bool, at_once: int
) -> None:
    rng = np.random.default_rng(seed)
    value = rng.uniform(-1, 1, (n_agents, n_items))
    weight = np.ones(value.shape) if equal else rng.integers(1, 9, value.shape).astype(float)
    weight[rng.integers(n_agents), 2:] *= rng.random(n_items - 2) < 0.7
    with patch.object(cells, "CELLS_IN_CACHE", at_once):
        model = ClippedLinear(ridge=1e-9).fit(scores(value, weight))
        high = model.high_
    half = interval_twin(value, weight)
    np.testing.assert_allclose(high - model.ability_, half, atol=1e-7)
    np.testing.assert_allclose(model.ability_ - model.low_, half, atol=1e-7)


def test_intervals_cover_at_their_level() -> None:
    rng = np.random.default_rng(5)
    theta, b, sd = rng.normal(0.3, 0.15, 12), rng.normal(0, 0.1, 60), rng.uniform(0.05, 0.2, 12)
    covered = []
    for _ in range(80):
        value = np.clip(theta[:, None] - b + sd[:, None] * rng.normal(size=(12, 60)), -1, 1)
        value[rng.random(value.shape) < 0.6] = np.nan
        model = ClippedLinear().fit(value)
        shift = theta.mean() - model.ability_.mean()
        covered.append((model.low_ + shift < theta) & (theta < model.high_ + shift))
    assert 0.92 < np.mean(covered) < 0.97


def test_equal_weights_of_any_size_are_plain_least_squares() -> None:
    rng = np.random.default_rng(6)
    value = rng.uniform(-1, 1, (5, 8))
    plain = ClippedLinear().fit(value)
    weighted = ClippedLinear().fit(scores(value, np.full(value.shape, 58.0)))
    np.testing.assert_allclose(weighted.ability_, plain.ability_, atol=1e-12)
    np.testing.assert_allclose(weighted.difficulty_, plain.difficulty_, atol=1e-12)
    np.testing.assert_allclose(plain.ability_, value.mean(axis=1), atol=1e-5)
    np.testing.assert_allclose(weighted.low_, plain.low_, atol=1e-10)


def test_cells_of_weight_zero_and_nan_are_unobserved() -> None:
    rng = np.random.default_rng(7)
    value = rng.uniform(-1, 1, (4, 6))
    weight = np.where(rng.random(value.shape) < 0.8, 1.0, 0.0)
    by_weight = ClippedLinear().fit(scores(value, weight))
    by_value = ClippedLinear().fit(np.where(weight > 0, value, np.nan))
    np.testing.assert_array_equal(by_weight.ability_, by_value.ability_)
    np.testing.assert_array_equal(np.isnan(by_weight.residual_), weight == 0)


def test_predictions_are_clipped_and_residuals_are_not() -> None:
    value = np.array([[1.0, 1.0, -0.5], [1.0, np.nan, -1.0], [np.nan, 0.25, -1.0]])
    model = ClippedLinear().fit(value)
    linear = model.ability_[:, None] - model.difficulty_
    assert np.abs(linear).max() > 1
    np.testing.assert_array_equal(model.predict(), np.clip(linear, -1, 1))
    np.testing.assert_allclose(model.residual_, value - linear)


def test_unobserved_agents_and_items_are_nan() -> None:
    value = np.random.default_rng(8).uniform(-1, 1, (4, 5))
    value[1] = value[:, 3] = np.nan
    model = ClippedLinear().fit(value)
    assert np.isnan([model.ability_[1], model.low_[1], model.high_[1], model.difficulty_[3]]).all()
    np.testing.assert_array_equal(np.isnan(model.predict()), np.isnan(value))
    assert model.status_ == "ok"


def test_an_agent_with_one_cell_has_an_ability_and_no_interval() -> None:
    value = np.random.default_rng(9).uniform(-1, 1, (5, 6))
    without = ClippedLinear().fit(value[:4])
    value[4, 1:] = np.nan
    model = ClippedLinear().fit(value)
    assert np.isfinite(model.ability_[4])
    assert np.isnan(model.low_).tolist() == [False] * 4 + [True]
    np.testing.assert_allclose((model.high_ - model.low_)[:4], without.high_ - without.low_, atol=1e-6)


def test_an_item_with_one_cell_changes_no_interval() -> None:
    value = np.random.default_rng(14).uniform(-1, 1, (5, 6))
    value[1:, 5] = np.nan
    model, without = ClippedLinear().fit(value), ClippedLinear().fit(value[:, :5])
    np.testing.assert_allclose(model.high_ - model.low_, without.high_ - without.low_, atol=1e-6)


def test_agents_behind_a_single_cell_have_no_interval() -> None:
    rng = np.random.default_rng(10)
    value = np.full((5, 8), np.nan)
    value[:3, :4], value[3:, 4:] = rng.uniform(-1, 1, (3, 4)), rng.uniform(-1, 1, (2, 4))
    value[3, 0] = 0.5
    model = ClippedLinear().fit(value)
    assert model.status_ == "ok"
    assert np.isnan(model.low_).tolist() == [False, False, False, True, True]


def test_disconnected_components_have_separate_intervals() -> None:
    rng = np.random.default_rng(11)
    value = np.full((5, 9), np.nan)
    value[:3, :4], value[3:, 4:] = rng.uniform(-1, 1, (3, 4)), rng.uniform(-1, 1, (2, 5))
    model = ClippedLinear().fit(value)
    assert model.status_ == "disconnected"
    assert model.component_.tolist() == [0, 0, 0, 1, 1]
    assert np.isnan(model.centred_covariance.covariance[:3, 3:]).all()
    for agents, items in ((slice(0, 3), slice(0, 4)), (slice(3, 5), slice(4, 9))):
        alone = ClippedLinear().fit(value[agents, items])
        np.testing.assert_allclose((model.high_ - model.low_)[agents], alone.high_ - alone.low_, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (1, 1)])
def test_a_single_agent_or_item_is_fitted_without_intervals(shape: tuple[int, int]) -> None:
    model = ClippedLinear().fit(np.linspace(-0.5, 0.5, 4)[: shape[0] * shape[1]].reshape(shape))
    assert np.isfinite(model.ability_).all()
    assert np.isnan(model.low_).all()
    assert np.isnan(model.high_).all()


def test_equal_scores_have_no_r2_and_intervals_of_positive_width() -> None:
    model = ClippedLinear().fit(np.full((3, 4), 0.5))
    assert np.isnan(model.r2_)
    assert (model.high_ - model.low_ > 0.1).all()


def test_a_higher_level_gives_wider_intervals() -> None:
    value = np.random.default_rng(12).uniform(-1, 1, (4, 6))
    narrow, wide = ClippedLinear(level=0.5).fit(value), ClippedLinear(level=0.95).fit(value)
    ratio = (wide.high_ - wide.low_) / (narrow.high_ - narrow.low_)
    np.testing.assert_allclose(ratio, student.ppf(0.975, wide.df_) / student.ppf(0.75, wide.df_))


@pytest.mark.parametrize(
    ("value", "slug", "says"),
    [
        (np.full((2, 3), np.nan), "scores-empty", "2 × 3"),
        (np.zeros((0, 3)), "scores-empty", "0 × 3"),
        (np.array([[0.0, 0.5], [1.5, 2.0]]), "scores-range", "got 1.5 for cell [1, 0]"),
        (np.array([[0.0, -np.inf]]), "scores-infinite", "cell [0, 1]"),
        (np.zeros(3), "scores-shape", "(3,)"),
        ([["a", "b"]], "scores-numeric", "numbers"),
        (scores(np.array([[0.0, 3.0]]), np.ones((1, 2))), "scores-range", "got 3.0 for agent 'a0' on item 'p1'"),
        (scores(np.zeros((2, 2)), np.array([[1.0, 1.0], [1.0, -2.0]])), "weights-negative", "got -2.0 in cell [1, 1]"),
        (scores(np.zeros((2, 2)), np.zeros((2, 2))), "scores-empty", "2 × 2"),
    ],
)
def test_invalid_scores_are_refused_and_the_first_cell_named(value: Any, slug: str, says: str) -> None:
    with pytest.raises(StatisticsError, match=rf"\[{slug}\]") as caught:
        ClippedLinear().fit(value)
    assert says in caught.value.message


def test_invalid_parameters_and_an_unfitted_model_are_refused() -> None:
    for act, slug in (
        (lambda: ClippedLinear(level=1.0).fit(np.zeros((2, 2))), "level"),
        (lambda: ClippedLinear(ridge=-1.0).fit(np.zeros((2, 2))), "ridge"),
        (lambda: ClippedLinear().set_params(alpha=1.0), "unknown-parameter"),
        (lambda: ClippedLinear().predict(), "not-fitted"),
    ):
        with pytest.raises(StatisticsError, match=rf"\[{slug}\]"):
            act()
