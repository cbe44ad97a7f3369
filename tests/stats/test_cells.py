"""Test columns of cells: checked without copies, with the first invalid row named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array

from youden.errors import StatisticsError
from youden.stats import cells_from_arrays, cells_from_matrix, solve_additive, solve_cells

MILLION = 1_000_000


def million(**change: tuple[int, float]) -> dict[str, Any]:
    columns = {
        "agent": np.arange(MILLION, dtype=np.int32) % 100,
        "item": np.arange(MILLION, dtype=np.int32) // 100,
        "score": np.full(MILLION, 0.5, dtype=np.float32),
        "weight": np.ones(MILLION, dtype=np.float32),
    }
    for name, (row, value) in change.items():
        columns[name][row] = value
    return columns


@pytest.mark.parametrize(
    ("change", "slug", "says"),
    [
        ({"score": (654_321, np.nan)}, "scores-infinite", "got nan in row 654321 (agent 21, item 6543)"),
        ({"score": (7, -np.inf)}, "scores-infinite", "got -inf in row 7 (agent 7, item 0)"),
        ({"score": (999_999, 1.5)}, "scores-range", "got 1.5 in row 999999 (agent 99, item 9999)"),
        ({"weight": (123_456, -1.0)}, "weights-negative", "got -1.0 in row 123456 (agent 56, item 1234)"),
        ({"weight": (5, np.nan)}, "weights-negative", "got nan in row 5 (agent 5, item 0)"),
        ({"agent": (500_000, 100)}, "cells-id", "There are 100 agents: got the position 100 in row 500000"),
        ({"item": (3, -1)}, "cells-id", "got the position -1 in row 3"),
    ],
)
def test_one_invalid_cell_among_a_million_is_named(change: dict[str, tuple[int, float]], slug: str, says: str) -> None:
    with pytest.raises(StatisticsError, match=rf"\[{slug}\]") as caught:
        solve_additive(**million(**change), n_agents=100, n_items=10_000)
    assert says in caught.value.message


def test_columns_of_32_bits_are_not_copied() -> None:
    columns = million()
    cells = cells_from_arrays(**columns, n_agents=100, n_items=10_000)
    for name, column in columns.items():
        assert np.shares_memory(getattr(cells, name), column), name


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int64, np.uint64])
def test_ids_of_any_integer_type_are_accepted(kind: type[np.integer]) -> None:
    result = solve_additive(
        np.array([0, 0, 1, 1], kind), np.array([0, 1, 0, 1], kind), [0.5, 0.25, 0.25, 0.0], n_agents=2, n_items=2
    )
    np.testing.assert_allclose(result.ability, [0.375, 0.125], atol=1e-6)


def test_dense_and_sparse_matrices_have_the_same_cells() -> None:
    matrix = np.array([[0.5, np.nan, 0.0], [0.25, -0.5, np.nan]])
    observed = ~np.isnan(matrix)
    weight = np.array([[1.0, 9.0, 2.0], [3.0, 4.0, 9.0]])
    row, column = np.nonzero(observed)
    entries = coo_array((matrix[observed], (row, column)), shape=matrix.shape)
    dense = solve_cells(cells_from_matrix(matrix, weight=weight))
    for sparse in (entries, csr_array(entries), entries.tocsc()):
        order = sparse.tocoo()
        result = solve_cells(cells_from_matrix(sparse, weight=weight[order.coords]))
        np.testing.assert_allclose(result.ability, dense.ability, atol=1e-12)
        np.testing.assert_allclose(result.difficulty, dense.difficulty, atol=1e-12)


def test_a_sparse_matrix_without_entries_is_refused() -> None:
    with pytest.raises(StatisticsError, match=r"\[scores-empty\]"):
        cells_from_matrix(csr_array((2, 3)))
