"""What the normal equations ask of the cells: A y, Aᵀx, A(w ∘ Aᵀx) and A diag(w) Aᵀ, with A the cells' weights.

The smaller side of the cells are the rows, the larger the columns.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from youden.nouns.arrays import Floats
from youden.stats.additive.cells import Cells, IdColumn


class Totals(NamedTuple):
    """Per row (n, r) and per column (m, c): the cells' weight, and their weight × score, negated where sides are swapped.

    So score ≈ ability − difficulty reads s ≈ x − y either way.
    """

    n: Floats
    m: Floats
    r: Floats
    c: Floats


class Table(Protocol):
    """The weights A of cells, rows × columns, behind the sums over them.

    swapped: items are the rows; pairs: Σ (cells of a column)², what `gram` costs.
    """

    swapped: bool
    pairs: float

    def totals(self) -> Totals:
        """Sums over each row and column."""

    def rows(self, y: Floats) -> Floats:
        """A y."""

    def columns(self, x: Floats) -> Floats:
        """Aᵀx."""

    def fold(self, x: Floats, w: Floats) -> Floats:
        """A(w ∘ Aᵀx)."""

    def gram(self, w: Floats) -> Floats:
        """A diag(w) Aᵀ, dense."""


class Sides(NamedTuple):
    """A cell's row and column: agent and item, or item and agent where items are fewer (`swapped`)."""

    row: IdColumn
    column: IdColumn
    n_rows: int
    n_columns: int
    swapped: bool


def sides(cells: Cells) -> Sides:
    """The smaller side first."""
    if cells.n_agents <= cells.n_items:
        return Sides(cells.agent, cells.item, cells.n_agents, cells.n_items, False)
    return Sides(cells.item, cells.agent, cells.n_items, cells.n_agents, True)


def column_starts(column: IdColumn, n_columns: int) -> NDArray[np.int64] | None:
    """int64[n_columns + 1]: where each column's cells begin; None where cells are not grouped by ascending column."""
    step = 1 << 20
    for begin in range(0, len(column) - 1, step):
        part = column[begin : begin + step + 1]
        if (part[1:] < part[:-1]).any():
            return None
    edges = np.arange(n_columns + 1).astype(column.dtype)
    return np.searchsorted(column, edges).astype(np.int64, copy=False)
