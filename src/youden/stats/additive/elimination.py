"""Solves the normal equations of s ≈ x − y by eliminating the larger side; cells' weights stand in a dense or a sparse matrix.

With the multiplier ν of the gauge g·x + f·y = 0: (n+λ)x − Ay + νg = r and (m+λ)y − Aᵀx + νf = −c. Eliminating y leaves
Sx + νh = rhs and hᵀx = δ + νγ. Adding σh times the second to the first makes S definite, and σ = 1/γ also removes ν.
Cholesky factors it where forming it is cheap; else conjugate gradients sweep the cells.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.linalg import LinearOperator, cg

from youden.errors import StatisticsError
from youden.nouns.pool import Bools, Floats
from youden.stats.additive.observed_cells import Cells, CellTable, RealColumn, Totals, column_starts, sides

_DENSE_CELLS = 4_000_000
_DENSE_GAPS = 16
"""A dense layout is worth this many matrix entries a cell."""
_COMPILED_CELLS = 2_000_000
"""From here on loading compiled loops (about a second) pays."""


def make_table(cells: Cells, *, compiled: bool | None = None) -> CellTable:
    """The layout that suits the cells; compiled: whether to use numba, by default where it is installed and pays."""
    size = cells.n_agents * cells.n_items
    if compiled is None:
        compiled = len(cells) >= _COMPILED_CELLS and find_spec("numba") is not None
    if compiled:
        table: CellTable = import_module("youden.stats.additive.compiled").CompiledTable(cells)
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


_DIRECT_ROWS = 2_000
_DIRECT_PAIRS = 2e8
_TOLERANCE = 1e-12
_SWEEPS = 10_000
_LONG = 10_000


class Effects(NamedTuple):
    """Row effects x and column effects y."""

    x: Floats
    y: Floats


class Gauge(NamedTuple):
    """Which effects sum to zero, those of the items seen: 1 for them, else 0; agents' side is all 0."""

    row: Floats
    column: Floats


class Found(NamedTuple):
    """Effects, the largest residual of their optimality conditions, and how many solutions they took."""

    effects: Effects
    kkt: float
    n_rounds: int


class Equations:
    """The normal equations of one table: factored once, solved for any totals r, c of weight × score."""

    def __init__(
        self, table: CellTable, totals: Totals, *, gauge: Gauge, ridge: float, direct: bool | None = None
    ) -> None:
        self.table, self.totals, self.gauge, self.ridge = table, totals, gauge, ridge
        self.direct = len(totals.n) <= _DIRECT_ROWS and table.pairs <= _DIRECT_PAIRS if direct is None else direct
        self.complete = np.count_nonzero(totals.n) + np.count_nonzero(totals.m) == len(totals.n) + len(totals.m)
        self.n_sweeps = 0
        self.d, self.w = totals.n + ridge, 1 / (totals.m + ridge)
        weighted = self.w * gauge.column
        self.h = gauge.row + table.rows(weighted)
        self._gamma = dot(weighted, gauge.column)
        # A gauged column without a cell says nothing of the others' level, and would drown it: its w is 1/λ.
        anchored = self._gamma if self.complete else dot(weighted, totals.m > 0)
        self._sigma = 1 / anchored if anchored else float(totals.n.mean()) / len(totals.n)
        self._slack = 0.0 if anchored == self._gamma > 0 else self._sigma * self._gamma - 1
        self._inverse = self._factor() if self.direct else self._sweep

    def solve(self, r: Floats, c: Floats) -> Effects:
        """The effects that fit scores of the totals r, c, and meet the gauge."""
        wc = self.w * c
        delta = dot(self.gauge.column, wc)
        rhs = (self._sigma * delta) * self.h
        rhs += r
        rhs -= self.table.rows(wc)
        x = self._inverse(rhs)
        nu = float(self.h @ x) - delta
        if self._slack:
            nu /= self._gamma - self._slack * float(self.h @ self._along)
            x = x + (nu * self._slack) * self._along
        else:
            nu /= self._gamma
        y = self.table.columns(x)
        y -= c
        y -= nu * self.gauge.column
        y *= self.w
        return Effects(x, y)

    def gradient(self, effects: Effects, r: Floats, c: Floats) -> Effects:
        """Half the gradient of the penalised squares, by row and by column, the gauge's multiplier included."""
        x, y = effects
        g_x = self.d * x
        g_x -= self.table.rows(y)
        g_x -= r
        g_y = y / self.w
        g_y -= self.table.columns(x)
        g_y += c
        pull, held = (g_x, self.gauge.row) if self.table.swapped else (g_y, self.gauge.column)
        pull -= (dot(held, pull) / dot(held, held)) * held
        return Effects(g_x, g_y)

    def kkt(self, effects: Effects, r: Floats, c: Floats) -> float:
        """The largest absolute residual of the equations, the gauge's included."""
        swapped = self.table.swapped
        off = dot(self.gauge.row, effects.x) if swapped else dot(self.gauge.column, effects.y)
        return max(largest(*self.gradient(effects, r, c)), abs(off))

    @cached_property
    def _along(self) -> Floats:
        return self._inverse(self.h)

    def _factor(self) -> Callable[[Floats], Floats]:
        S = (self._sigma * self.h)[:, None] * self.h
        S -= self.table.gram(self.w)
        S.reshape(-1)[:: len(S) + 1] += self.d
        factor, failed = dpotrf(S.T, lower=1, overwrite_a=1, clean=0)
        if failed:
            raise StatisticsError(
                f"The cells do not determine the effects at ridge {self.ridge}. Score more cells, or raise the ridge to 1e-6.",
                slug="additive-singular",
            )
        return lambda rhs: dpotrs(factor, rhs, lower=1)[0]

    def _sweep(self, rhs: Floats) -> Floats:
        n = len(rhs)

        def product(x: Floats) -> Floats:
            return self.d * x - self.table.fold(x, self.w) + (self._sigma * float(self.h @ x)) * self.h

        def count(_: Floats) -> None:
            self.n_sweeps += 1

        S = LinearOperator((n, n), matvec=product, dtype=np.float64)
        jacobi = LinearOperator((n, n), matvec=lambda v: v / self.d, dtype=np.float64)
        x, _ = cg(S, rhs, rtol=_TOLERANCE, maxiter=_SWEEPS, M=jacobi, callback=count)
        return np.asarray(x)


def equate(cells: Cells, *, ridge: float, gauge: Gauge | None = None, compiled: bool | None = None) -> Equations:
    """The equations of cells; unless a gauge is given, the effects of the items seen sum to zero."""
    table = make_table(cells, compiled=compiled)
    totals = table.totals()
    if gauge is None:
        items = np.sign(totals.n if table.swapped else totals.m)
        agents = np.zeros(cells.n_agents)
        gauge = Gauge(items, agents) if table.swapped else Gauge(agents, items)
    return Equations(table, totals, gauge=gauge, ridge=ridge)


def fit_plain(equations: Equations) -> Found:
    """The fit without any constraint."""
    r, c = equations.totals.r, equations.totals.c
    effects = equations.solve(r, c)
    return Found(effects, equations.kkt(effects, r, c), 1)


def dot(a: Floats, b: Floats | Bools) -> float:
    """The inner product; long ones apart from BLAS, whose threads would go on spinning after each."""
    return float(a @ b) if len(a) < _LONG else float(np.einsum("i,i->", a, b))


def largest(*parts: Floats) -> float:
    """The largest absolute value."""
    every = np.concatenate(parts)
    return float(np.abs(every, out=every).max())
