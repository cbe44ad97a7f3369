"""Test the additive solver against numpy's least squares and manual solutions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from youden.errors import StatisticsError
from youden.stats import cells_from_arrays, solve_additive, solve_cells
from youden.stats.additive import elimination
from youden.stats.additive.bounds import fit_plain
from youden.stats.additive.elimination import make_normal_equations, solve
from youden.stats.additive.solver import Solution


class Problem(NamedTuple):
    agent: np.ndarray
    item: np.ndarray
    score: np.ndarray
    weight: np.ndarray
    n_agents: int
    n_items: int

    def solve(self, *, ridge: float = 1e-6) -> Solution:
        return solve_additive(
            self.agent,
            self.item,
            self.score,
            n_agents=self.n_agents,
            n_items=self.n_items,
            weight=self.weight,
            ridge=ridge,
            constraint="clip",
        )


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Generate problems of any shape and connectivity, with repeated cells and weights over two decades."""
    n_agents, n_items = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    n_cells = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return Problem(
        agent=rng.integers(n_agents, size=n_cells),
        item=rng.integers(n_items, size=n_cells),
        score=rng.uniform(-1, 1, n_cells),
        weight=10 ** rng.uniform(-1, 1, n_cells),
        n_agents=n_agents,
        n_items=n_items,
    )


def dense(matrix: np.ndarray, **options: Any) -> Solution:
    agent, item = np.nonzero(~np.isnan(matrix))
    return solve_additive(
        agent, item, matrix[agent, item], n_agents=matrix.shape[0], n_items=matrix.shape[1], **options
    )


def lstsq_twin(problem: Problem, *, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """Solve by ridge rows below the weighted design and b = N z, N a basis of Σ b = 0 over observed items."""
    n_cells, n_agents, n_items = len(problem.score), problem.n_agents, problem.n_items
    design = np.zeros((n_cells, n_agents + n_items))
    design[np.arange(n_cells), problem.agent] = 1
    design[np.arange(n_cells), n_agents + problem.item] = -1
    observed = np.unique(problem.item)
    basis = np.zeros((n_agents + n_items, n_agents + len(observed) - 1))
    basis[:n_agents, :n_agents] = np.eye(n_agents)
    basis[n_agents + observed[:-1], n_agents + np.arange(len(observed) - 1)] = 1
    basis[n_agents + observed[-1], n_agents:] = -1
    root = np.sqrt(problem.weight)
    stacked = np.vstack([root[:, None] * design, np.sqrt(ridge) * np.eye(n_agents + n_items)]) @ basis
    target = np.concatenate([root * problem.score, np.zeros(n_agents + n_items)])
    effects = basis @ np.linalg.lstsq(stacked, target, rcond=None)[0]
    ability, difficulty = effects[:n_agents], effects[n_agents:]
    ability[np.bincount(problem.agent, minlength=n_agents) == 0] = np.nan
    difficulty[np.bincount(problem.item, minlength=n_items) == 0] = np.nan
    return ability, difficulty


@settings(max_examples=30, deadline=None)
@given(problem=problems())
def test_the_solution_and_fitted_scores_at_the_default_ridge_equal_numpy_lstsq(problem: Problem) -> None:
    result = problem.solve(ridge=0.3)
    ability, difficulty = lstsq_twin(problem, ridge=0.3)
    np.testing.assert_allclose(result.ability, ability, atol=1e-11)
    np.testing.assert_allclose(result.difficulty, difficulty, atol=1e-11)
    result, (ability, difficulty) = problem.solve(), lstsq_twin(problem, ridge=1e-6)
    assert result.kkt < 1e-7
    matched = ability[problem.agent] - difficulty[problem.item]
    np.testing.assert_allclose(result.ability[problem.agent] - result.difficulty[problem.item], matched, atol=1e-8)


@settings(max_examples=20, deadline=None)
@given(problem=problems())
def test_a_cell_of_weight_zero_is_unobserved(problem: Problem) -> None:
    extra = Problem(
        np.append(problem.agent, problem.n_agents),
        np.append(problem.item, problem.n_items),
        np.append(problem.score, 0.5),
        np.append(problem.weight, 0.0),
        n_agents=problem.n_agents + 1,
        n_items=problem.n_items + 1,
    )
    result, without = extra.solve(), problem.solve()
    assert np.isnan(result.ability[-1])
    assert np.isnan(result.difficulty[-1])
    assert result.component[-1] == -1
    np.testing.assert_allclose(result.ability[:-1], without.ability, atol=1e-6)
    assert result.n_components == without.n_components


def test_a_disconnected_graph_is_solved_and_its_components_named() -> None:
    matrix = np.full((5, 4), np.nan)
    matrix[:2, :2] = [[0.5, 0.25], [0.25, 0.0]]
    matrix[3:, 2:] = [[0.1, 0.3], [0.2, 0.4]]
    result = dense(matrix)
    assert result.status == "disconnected"
    assert result.n_components == 2
    assert result.component.tolist() == [0, 0, -1, 1, 1]
    assert "2 components (of 2, 2 agents)" in result.message
    assert result.kkt < 1e-7
    fitted = result.ability[:, None] - result.difficulty
    np.testing.assert_allclose(fitted[~np.isnan(matrix)], matrix[~np.isnan(matrix)], atol=1e-5)


def test_hard_graphs_are_solved_exactly() -> None:
    """Each item is seen by three neighboring agents: alternating minimization converges slowly on such a chain."""
    first = np.arange(398)
    agent, item = (first[:, None] + np.arange(3)).ravel(), np.repeat(first, 3)
    rng = np.random.default_rng(4)
    theta, b = rng.normal(size=400), rng.normal(size=398)
    result = solve_additive(
        agent, item, theta[agent] - b[item], n_agents=400, n_items=398, ridge=1e-12, constraint="none"
    )
    np.testing.assert_allclose(result.ability, theta - b.mean(), atol=1e-6)
    assert result.kkt < 1e-8


@settings(max_examples=25, deadline=None)
@given(problem=problems(), data=st.data())
def test_dense_and_sparse_weights_and_both_methods_agree(problem: Problem, data: st.DataObject) -> None:
    weight = data.draw(st.sampled_from([problem.weight, None]))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    cells = cells_from_arrays(
        problem.agent,
        problem.item,
        problem.score.astype(dtype),
        n_agents=problem.n_agents,
        n_items=problem.n_items,
        weight=None if weight is None else weight.astype(dtype),
    )
    equations_of_cells = make_normal_equations(cells, ridge=1e-3)
    A = (
        equations_of_cells.weights
        if isinstance(equations_of_cells.weights, np.ndarray)
        else equations_of_cells.weights.toarray()
    )
    dense_equations = replace(equations_of_cells, weights=A)
    sparse_equations = replace(equations_of_cells, weights=csr_array(A))
    expected = fit_plain(dense_equations).effects
    for equations in (dense_equations, sparse_equations):
        for cholesky in (True, False):
            effects, n_iterations = solve(equations, equations.row_total, equations.column_total, cholesky=cholesky)
            np.testing.assert_allclose(effects.rows, expected.rows, atol=1e-8)
            np.testing.assert_allclose(effects.columns, expected.columns, atol=1e-8)
            assert not cholesky or n_iterations == 0


@pytest.mark.parametrize("shape", [(70, 400), (400, 70)])
def test_a_large_sparse_pool_has_the_solution_of_its_dense_form(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(15)
    agent, item = rng.integers(shape[0], size=9_000), rng.integers(shape[1], size=9_000)
    score = np.clip(rng.normal(0.5, 0.4, 9_000), -1, 1).astype(np.float32)
    cells = cells_from_arrays(agent, item, score, n_agents=shape[0], n_items=shape[1])
    dense_solution = solve_cells(cells)
    monkeypatch.setattr(elimination, "MAX_DENSE_ENTRIES", 0)
    sparse_solution = solve_cells(cells)
    np.testing.assert_allclose(sparse_solution.ability, dense_solution.ability, atol=1e-8)
    np.testing.assert_allclose(sparse_solution.difficulty, dense_solution.difficulty, atol=1e-8)
    assert (sparse_solution.status, sparse_solution.n_rounds) == (dense_solution.status, dense_solution.n_rounds)


def test_conjugate_gradients_need_few_iterations_for_very_different_weights() -> None:
    rng = np.random.default_rng(19)
    agent, item, weight = rng.integers(30, size=600), rng.integers(50, size=600), 100.0 ** rng.uniform(-1, 1, 30)
    cells = cells_from_arrays(agent, item, rng.uniform(-1, 1, 600), n_agents=30, n_items=50, weight=weight[agent])
    equations = make_normal_equations(cells, ridge=1e-3)
    effects, n_iterations = solve(equations, equations.row_total, equations.column_total, cholesky=False)
    expected, _ = solve(equations, equations.row_total, equations.column_total, cholesky=True)
    np.testing.assert_allclose(effects.rows, expected.rows, atol=1e-8)
    np.testing.assert_allclose(effects.columns, expected.columns, atol=1e-8)
    assert 0 < n_iterations < 30


def test_a_solution_that_does_not_converge_is_reported_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elimination, "MAX_CG_ITERATIONS", 3)
    first = np.arange(2_100)
    agent, item = np.concatenate([first, first + 1]), np.concatenate([first, first])
    score = np.random.default_rng(17).normal(size=4_200)
    result = solve_additive(agent, item, score, n_agents=2_101, n_items=2_100, constraint="none")
    assert (result.method, result.status) == ("conjugate gradients", "not_converged")
    assert "set a larger ridge" in result.message


@pytest.mark.parametrize("factor", [1e-2, 1.0, 1e100, 1e300])
def test_weights_of_any_scale_above_the_ridge_give_the_same_fit(factor: float) -> None:
    rng = np.random.default_rng(3)
    agent, item = np.divmod(np.arange(24), 6)
    cells = (agent, item, rng.uniform(-1, 1, 24))
    plain = solve_additive(*cells, n_agents=4, n_items=6, ridge=1e-12)
    scaled = solve_additive(*cells, n_agents=4, n_items=6, ridge=1e-12, weight=np.full(24, factor))
    assert scaled.status == "ok"
    np.testing.assert_allclose(scaled.ability, plain.ability, atol=1e-9)
    mixed = np.where(agent == 0, factor, 1.0)
    result = solve_additive(*cells, n_agents=4, n_items=6, ridge=1e-12, weight=mixed)
    row = cells[2].reshape(4, 6).mean(axis=1)  # in a complete table one row's weight moves no difference of the others
    np.testing.assert_allclose(result.ability[1:] - result.ability[1], row[1:] - row[1], atol=1e-9)


@pytest.mark.parametrize(
    "weight",
    [[1e-300] * 6, [1e-300] * 3 + [1.0] * 3, [1e-300, 1.0, 1.0] * 2, [1.7e308] * 6],
    ids=["all tiny", "an agent's", "an item's", "overflowing"],
)
def test_weights_that_the_ridge_dominates_or_that_overflow_are_refused(weight: list[float]) -> None:
    agent, item = np.divmod(np.arange(6), 3)
    with pytest.raises(StatisticsError, match="weights") as caught:
        solve_additive(agent, item, np.linspace(-0.5, 0.5, 6), n_agents=2, n_items=3, weight=weight)
    assert caught.value.slug == "weights-scale"


def test_agents_linked_by_a_negligible_weight_are_not_linked() -> None:
    result = solve_additive([0, 1, 1], [0, 0, 1], [0.1, 0.2, 0.3], n_agents=2, n_items=2, weight=[1.0, 1e-300, 1.0])
    assert (result.status, result.n_components) == ("disconnected", 2)


def test_scores_that_are_all_0_are_fitted_and_results_are_read_only() -> None:
    result = dense(np.zeros((2, 2)))
    assert result.status == "ok"
    with pytest.raises(ValueError, match="read-only"):
        result.ability[0] = 1


@pytest.mark.parametrize(
    ("change", "slug"),
    [
        ({"item": [0.0, 1.0]}, "cells-id"),
        ({"agent": [0]}, "cells-length"),
        ({"weight": [1.0]}, "cells-length"),
        ({"score": ["a", "b"]}, "scores-numeric"),
        ({"weight": [0.0, 0.0]}, "scores-empty"),
        ({"agent": [], "item": [], "score": [], "weight": []}, "scores-empty"),
        ({"ridge": 0.0}, "ridge"),
        ({"constraint": "boxed"}, "constraint"),
        ({"ridge": np.nan}, "ridge"),
    ],
)
def test_wrong_input_is_refused_by_slug(change: dict[str, Any], slug: str) -> None:
    given_: dict[str, Any] = {"agent": [0, 1], "item": [0, 1], "score": [0.1, 0.2], "weight": [1.0, 2.0], **change}
    with pytest.raises(StatisticsError, match=rf"\[{slug}\]"):
        solve_additive(**given_, n_agents=2, n_items=2)
