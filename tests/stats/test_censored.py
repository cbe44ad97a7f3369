"""Test the censored fit: equal to the plain fit without saturation, otherwise the optimum of its convex objective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from youden import ClippedLinear
from youden.stats import solve_additive


def lattice(seed: int) -> dict[str, Any]:
    """Generate few cells of few values, many of them ±1, with repeated and disconnected ones."""
    rng = np.random.default_rng(seed)
    n_agents, n_items, n_cells = rng.integers(1, 8), rng.integers(1, 8), rng.integers(1, 40)
    return {
        "agent": rng.integers(n_agents, size=n_cells),
        "item": rng.integers(n_items, size=n_cells),
        "score": rng.choice([-1, -0.5, 0, 0.5, 1], size=n_cells, p=rng.dirichlet(np.ones(5))),
        "weight": 10 ** rng.uniform(-1, 1, n_cells),
        "n_agents": int(n_agents),
        "n_items": int(n_items),
    }


def objective(cells: Mapping[str, Any], ability: np.ndarray, difficulty: np.ndarray, *, ridge: float) -> float:
    score, mu = cells["score"], ability[cells["agent"]] - difficulty[cells["item"]]
    error = np.where(
        score == 1, np.maximum(score - mu, 0), np.where(score == -1, np.minimum(score - mu, 0), score - mu)
    )
    return float(cells["weight"] @ error**2 + ridge * (np.nansum(ability**2) + np.nansum(difficulty**2)))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), ridge=st.sampled_from([1e-6, 1e-2]))
def test_no_step_in_any_direction_lowers_the_objective(seed: int, ridge: float) -> None:
    cells = lattice(seed)
    result = solve_additive(**cells, ridge=ridge)
    assert result.status != "not_converged"
    assert result.kkt < 1e-9
    minimum = objective(cells, result.ability, result.difficulty, ridge=ridge)
    rng = np.random.default_rng(seed)
    for size in (1e-3, 1e-1, 1.0):
        theta, b = rng.normal(size=cells["n_agents"]), rng.normal(size=cells["n_items"])
        b -= b[~np.isnan(result.difficulty)].mean()
        assert (
            objective(cells, result.ability + size * theta, result.difficulty + size * b, ridge=ridge) > minimum - 1e-12
        )


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_censored_fit_equals_the_plain_fit_if_no_score_is_saturated(seed: int) -> None:
    cells = lattice(seed)
    cells["score"] = cells["score"] * 0.9
    censored, clip = (solve_additive(**cells, constraint=name) for name in ("censored", "clip"))
    np.testing.assert_array_equal(censored.ability, clip.ability)
    np.testing.assert_array_equal(censored.difficulty, clip.difficulty)


def test_a_saturated_score_raises_a_prediction_and_never_lowers_it() -> None:
    """Agent 0 exceeds the scale on item 1: least squares treats the 1 as a prediction, the censored fit as a bound."""
    matrix = np.array([[0.8, 1.0, 0.6], [0.2, 0.6, 0.0], [0.1, 0.5, -0.1]])
    censored, clip = (ClippedLinear(constraint=name).fit(matrix) for name in ("censored", "clip"))
    fitted = censored.ability_[:, None] - censored.difficulty_
    np.testing.assert_allclose(np.delete(fitted.ravel(), 1), np.delete(matrix.ravel(), 1), atol=1e-5)
    assert fitted[0, 1] == pytest.approx(1.2, abs=1e-5)
    assert np.abs(clip.residual_).max() > 0.05
    assert censored.r2_ == pytest.approx(1)
    assert clip.r2_ < 1


def test_intervals_depend_only_on_scores_that_are_not_saturated() -> None:
    rng = np.random.default_rng(4)
    matrix = np.clip(rng.normal(0.5, 0.3, (6, 1)) + rng.normal(0, 0.4, (6, 20)), -1, 1)
    model = ClippedLinear().fit(matrix)
    overshot = (np.abs(matrix) == 1) & (model.residual_ * matrix < 0)
    assert overshot.any()
    without = ClippedLinear(constraint="clip").fit(np.where(overshot, np.nan, matrix))
    np.testing.assert_allclose(model.high_ - model.low_, without.high_ - without.low_, atol=1e-6)
    np.testing.assert_allclose(
        model.ability_ - model.ability_.mean(), without.ability_ - without.ability_.mean(), atol=1e-4
    )


@pytest.mark.parametrize("end", [-1.0, 1.0])
@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (3, 5), (5, 3)])
def test_scores_all_at_one_bound_are_fitted_by_that_bound(end: float, shape: tuple[int, int]) -> None:
    model = ClippedLinear().fit(np.full(shape, end))
    np.testing.assert_allclose(model.predict(), end, atol=1e-4)
    assert model.status_ == "ok"
