"""Test the box-constrained fit: the optimum of another solver, a certificate of optimality, and degenerate steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from youden.errors import StatisticsError
from youden.stats import solve_additive


def saturated(seed: int, *, spread: float = 0.5) -> dict[str, Any]:
    """Generate saturated matrices; plain predictions leave the box at spread .5, rarely at .2."""
    rng = np.random.default_rng(seed)
    n_agents, n_items = (int(size) for size in rng.permutation([rng.integers(2, 12), rng.integers(2, 30)]))
    theta, b = rng.normal(0.3, spread, n_agents), rng.normal(0, spread, n_items)
    agent, item = np.nonzero(rng.random((n_agents, n_items)) < rng.choice([0.4, 0.7, 1]))
    agent, item = np.append(agent, 0), np.append(item, 0)
    score = np.clip(theta[agent] - b[item] + 0.2 * rng.normal(size=len(agent)), -1, 1)
    return {"agent": agent, "item": item, "score": score, "n_agents": n_agents, "n_items": n_items}


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), ridge=st.sampled_from([1e-6, 1e-2]))
def test_every_prediction_is_in_the_box_and_the_optimality_certificate_holds(seed: int, ridge: float) -> None:
    result = solve_additive(**saturated(seed), ridge=ridge, constraint="box")
    assert result.kkt < 1e-9
    assert result.status != "not_converged"
    assert np.nanmax(np.abs(result.ability[:, None] - result.difficulty)) < 1 + 1e-9


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_box_fit_equals_the_plain_fit_if_that_is_inside(seed: int) -> None:
    cells = saturated(seed)
    cells["score"] = cells["score"] / 4
    box, clip = (solve_additive(**cells, constraint=name) for name in ("box", "clip"))
    if np.nanmax(np.abs(clip.ability[:, None] - clip.difficulty)) <= 1:
        np.testing.assert_array_equal(box.ability, clip.ability)
        assert box.n_rounds == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_cvxpy_finds_the_same_optimum(seed: int) -> None:
    """cvxpy 1.9 with Clarabel 0.11 at tolerances of 1e-13."""
    cp = pytest.importorskip("cvxpy", reason="cvxpy (the dependency group `bench`) is not installed")
    cells = saturated(seed)
    agent, item, score, n_agents, n_items = cells.values()
    theta, b, p, q = cp.Variable(n_agents), cp.Variable(n_items), cp.Variable(), cp.Variable()
    result = solve_additive(**cells, ridge=1e-3, constraint="box")
    i, j = np.flatnonzero(~np.isnan(result.ability)), np.flatnonzero(~np.isnan(result.difficulty))
    squares = cp.sum_squares(score - theta[agent] + b[item]) + 1e-3 * (cp.sum_squares(theta) + cp.sum_squares(b))
    box = [theta[i] <= p, theta[i] >= q, b[j] >= p - 1, b[j] <= q + 1, cp.sum(b[j]) == 0]
    cp.Problem(cp.Minimize(squares), box).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13
    )
    np.testing.assert_allclose(result.ability[i], theta.value[i], atol=1e-6)
    np.testing.assert_allclose(result.difficulty[j], b.value[j], atol=1e-6)


def test_a_box_that_is_too_large_to_solve_is_refused_by_name() -> None:
    """A chain of scores of 1 and −1 pushes its ends to distant values."""
    agent = np.repeat(np.arange(4_001), 2)
    item = agent + np.tile([0, 1], 4_001)
    with pytest.raises(StatisticsError, match=r"\[box-too-large\]"):
        solve_additive(agent, item, np.tile([1, -1], 4_001), n_agents=4_001, n_items=4_002, ridge=0.1, constraint="box")
