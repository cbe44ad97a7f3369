"""Two layouts of the cells' weights: a dense matrix and a compressed sparse one."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import numpy as np
from scipy.linalg.blas import dgemm
from scipy.sparse import coo_array, csr_array, diags_array

from youden.nouns.arrays import Floats
from youden.stats.additive.cells import Cells, RealColumn
from youden.stats.additive.tables import Table, Totals, column_starts, sides

_DENSE_CELLS = 4_000_000
_DENSE_GAPS = 16
"""A dense layout is worth this many matrix entries a cell."""
_COMPILED_CELLS = 2_000_000
"""From here on loading compiled loops (about a second) pays."""


def make_table(cells: Cells, *, compiled: bool | None = None) -> Table:
    """The layout that suits the cells; compiled: whether to use numba, by default where it is installed and pays."""
    size = cells.n_agents * cells.n_items
    if compiled is None:
        compiled = len(cells) >= _COMPILED_CELLS and find_spec("numba") is not None
    if compiled:
        table: Table = import_module("youden.stats.additive.compiled").CompiledTable(cells)
        return table
    if size <= min(_DENSE_CELLS, _DENSE_GAPS * len(cells)):
        return DenseTable(cells)
    return SparseTable(cells)


class DenseTable:
    """A as a matrix: what a few thousand cells are fastest in."""

    pairs = 0.0

    def __init__(self, cells: Cells) -> None:
        row, column, n_rows, n_columns, self.swapped = sides(cells)
        place, size = row * np.int64(n_columns), n_rows * n_columns
        place += column
        self._A = np.bincount(place, weights=_weight(cells), minlength=size).reshape(n_rows, n_columns)
        self._pull = np.bincount(place, weights=_pull(cells), minlength=size).reshape(n_rows, n_columns)

    def totals(self) -> Totals:
        row, column = np.ones(len(self._A)), np.ones(self._A.shape[1])
        r, c = self._pull @ column, row @ self._pull
        return Totals(self._A @ column, row @ self._A, *((-r, -c) if self.swapped else (r, c)))

    def rows(self, y: Floats) -> Floats:
        return self._A @ y

    def columns(self, x: Floats) -> Floats:
        return x @ self._A

    def fold(self, x: Floats, w: Floats) -> Floats:
        return self._A @ (w * (x @ self._A))

    def gram(self, w: Floats) -> Floats:
        gram: Floats = dgemm(1.0, self._A.T, (self._A * w).T, trans_a=1)
        return gram


class SparseTable:
    """A by columns, compressed: 12 bytes a cell."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        row, column, n_rows, n_columns, self.swapped = sides(cells)
        weight = _weight(cells)
        shape = (n_columns, n_rows)
        start = column_starts(column, n_columns)
        if start is not None:
            self._columns = csr_array((weight, row, start), shape=shape)
        else:
            entries = coo_array((weight, (column, row)), shape=shape)
            entries.has_canonical_format = True  # a repeated cell may stay repeated: summing would sort all of them
            self._columns = entries.tocsr()
        self._rows = self._columns.T
        self.pairs = float((np.diff(self._columns.indptr).astype(np.float64) ** 2).sum())

    def totals(self) -> Totals:
        row, column, n_rows, n_columns, _ = sides(self._cells)
        weight, pull = self._cells.weight, _pull(self._cells)
        n, r = (np.bincount(row, weights=each, minlength=n_rows).astype(np.float64) for each in (weight, pull))
        m, c = (np.bincount(column, weights=each, minlength=n_columns).astype(np.float64) for each in (weight, pull))
        return Totals(n, m, -r, -c) if self.swapped else Totals(n, m, r, c)

    def rows(self, y: Floats) -> Floats:
        return np.asarray(self._rows @ y)

    def columns(self, x: Floats) -> Floats:
        return np.asarray(self._columns @ x)

    def fold(self, x: Floats, w: Floats) -> Floats:
        return self.rows(w * self.columns(x))

    def gram(self, w: Floats) -> Floats:
        product = self._rows @ diags_array(w) @ self._columns
        return np.asarray(product.toarray())


def _weight(cells: Cells) -> Floats:
    return np.ones(len(cells)) if cells.weight is None else cells.weight.astype(np.float64, copy=False)


def _pull(cells: Cells) -> RealColumn:
    return cells.score if cells.weight is None else np.multiply(cells.weight, cells.score, dtype=np.float64)
