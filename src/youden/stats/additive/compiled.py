"""The sums over cells as compiled loops (numba, the extra `fast`), imported only where many cells make them pay.

Cells lie grouped by column, a row's position in two bytes where it fits. One sweep gathers a column's rows and scatters
back to them while they are still in the nearest cache: a sweep of the conjugate gradients costs one read of the cells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from youden.nouns.pool import Floats
from youden.stats.additive.observed_cells import Cells, IdColumn, RealColumn, Totals, column_starts, sides

_Loop = TypeVar("_Loop", bound=Callable[..., None])


class _Columns(NamedTuple):
    """Cells grouped by column: where each begins, int64[columns + 1], and their rows, weights and scores."""

    start: NDArray[np.int64]
    row: NDArray[Any]
    weight: RealColumn
    score: RealColumn


def _compiled(loop: _Loop) -> _Loop:
    """Compiled at the first call and kept on disk; sums may be reordered, which lets them use vectors."""
    compiling = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
    return cast(_Loop, compiling(loop))


class CompiledTable:
    """A by columns: 2 bytes a cell beyond the input where it comes grouped by column, the columns of it again where not."""

    def __init__(self, cells: Cells) -> None:
        row, column, n_rows, n_columns, self.swapped = sides(cells)
        self._shape = n_rows, n_columns
        size = len(cells)
        narrow = np.uint16 if n_rows <= 1 << 16 else np.int32
        one = np.broadcast_to(np.float64(1), size)
        start = column_starts(column, n_columns)
        if start is not None:
            weight = one if cells.weight is None else cells.weight
            self._columns = _Columns(start, row.astype(narrow, copy=False), weight, cells.score)
        else:
            weight = one if cells.weight is None else np.empty_like(cells.weight)
            start = np.zeros(n_columns + 1, dtype=np.int64)
            self._columns = _Columns(start, np.empty(size, dtype=narrow), weight, np.empty_like(cells.score))
            place: IdColumn = np.empty(size, np.int32) if size < 1 << 31 else np.empty(size, np.int64)
            _group(column, place, start)
            for grouped, given in zip(self._columns[1:], (row, cells.weight, cells.score), strict=True):
                if given is not None:
                    _move(given, place, grouped)
        self.pairs = float((np.diff(start).astype(np.float64) ** 2).sum())

    def totals(self) -> Totals:
        n_rows, n_columns = self._shape
        n, m, r, c = Totals(np.zeros(n_rows), np.zeros(n_columns), np.zeros(n_rows), np.zeros(n_columns))
        _sum(self._columns, Totals(n, m, r, c))
        return Totals(n, m, -r, -c) if self.swapped else Totals(n, m, r, c)

    def rows(self, y: Floats) -> Floats:
        out = np.zeros(self._shape[0])
        _scatter(self._columns, y, out)
        return out

    def columns(self, x: Floats) -> Floats:
        out = np.zeros(self._shape[1])
        _gather(self._columns, x, out)
        return out

    def fold(self, x: Floats, w: Floats) -> Floats:
        out = np.zeros(self._shape[0])
        _fold(self._columns, x, w, out)
        return out

    def gram(self, w: Floats) -> Floats:
        n_rows = self._shape[0]
        out = np.zeros((n_rows, n_rows))
        _gram(self._columns, w, out)
        return out


@_compiled
def _group(column: IdColumn, place: IdColumn, start: NDArray[np.int64]) -> None:
    for k in range(len(column)):
        start[column[k] + 1] += 1
    for j in range(len(start) - 1):
        start[j + 1] += start[j]
    free = start.copy()
    for k in range(len(column)):
        place[k] = free[column[k]]
        free[column[k]] += 1


@_compiled
def _move(given: NDArray[Any], place: IdColumn, grouped: NDArray[Any]) -> None:
    for k in range(len(given)):
        grouped[place[k]] = given[k]


@_compiled
def _sum(columns: _Columns, totals: Totals) -> None:
    start, row, weight, score = columns
    n, m, r, c = totals
    for j in range(len(start) - 1):
        heavy = total = 0.0
        for k in range(start[j], start[j + 1]):
            a = np.float64(weight[k])
            pull = a * np.float64(score[k])
            n[row[k]] += a
            r[row[k]] += pull
            heavy += a
            total += pull
        m[j] = heavy
        c[j] = total


@_compiled
def _scatter(columns: _Columns, y: Floats, out: Floats) -> None:
    start, row, weight, _ = columns
    for j in range(len(start) - 1):
        for k in range(start[j], start[j + 1]):
            out[row[k]] += weight[k] * y[j]


@_compiled
def _gather(columns: _Columns, x: Floats, out: Floats) -> None:
    start, row, weight, _ = columns
    for j in range(len(start) - 1):
        total = 0.0
        for k in range(start[j], start[j + 1]):
            total += weight[k] * x[row[k]]
        out[j] = total


@_compiled
def _fold(columns: _Columns, x: Floats, w: Floats, out: Floats) -> None:
    start, row, weight, _ = columns
    for j in range(len(start) - 1):
        total = 0.0
        for k in range(start[j], start[j + 1]):
            total += weight[k] * x[row[k]]
        total *= w[j]
        for k in range(start[j], start[j + 1]):
            out[row[k]] += weight[k] * total


@_compiled
def _gram(columns: _Columns, w: Floats, out: Floats) -> None:
    start, row, weight, _ = columns
    for j in range(len(start) - 1):
        for k in range(start[j], start[j + 1]):
            a = w[j] * weight[k]
            for other in range(start[j], start[j + 1]):
                out[row[k], row[other]] += a * weight[other]
