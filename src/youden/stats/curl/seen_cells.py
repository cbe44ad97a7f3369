"""The cells of a matrix that were seen, as columns: what is asked of many scales of the same cells, without a matrix of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import pinvh
from scipy.sparse import csr_array

from youden.nouns.arrays import Bools, Floats, Positions

_AT_ONCE = 2**20
"""Cells of a block, which stays in a processor's cache."""
_PAIRS_AT_ONCE = 256
"""Products of whole blocks that take as long as one of two single cells."""


@dataclass(frozen=True, eq=False)
class SeenCells:
    """row, column: int64[N], the cells that were seen of R rows and C ≥ R columns; w: float[C], one over the cells of each.

    inverse: float[R, R], (D − A diag(w) Aᵀ)⁺ with A the 0/1 matrix of cells and D the cells of each row.
    """

    row: Positions
    column: Positions
    w: Floats
    inverse: Floats

    @classmethod
    def of(cls, seen: Bools) -> SeenCells:
        """Of bool[K, J]."""
        row, column = np.nonzero(seen)
        A = seen
        if seen.shape[0] > seen.shape[1]:
            row, column, A = column, row, seen.T
        n = np.bincount(column, minlength=A.shape[1])
        w = np.divide(1.0, n, out=np.zeros(len(n)), where=n > 0)
        degree = np.bincount(row, minlength=A.shape[0]).astype(np.float64)
        return cls(row, column, w, np.asarray(pinvh(np.diag(degree) - weighted_products(A, w))))

    def r2(self, value: Floats) -> float:
        """1 − RSS/TSS of the additive fit to float[N], on any scale; NaN where all are equal. As `additive_r2`."""
        if np.ptp(value) == 0:
            return float("nan")
        total = float(((value - value.mean()) ** 2).sum())
        R, C = len(self.inverse), len(self.w)
        c = np.bincount(self.column, value, C)
        theta = (np.bincount(self.row, value, R) - np.bincount(self.row, (c * self.w)[self.column], R)) @ self.inverse
        b = self.w * (np.bincount(self.column, theta[self.row], C) - c)
        return 1 - float(((value - theta[self.row] + b[self.column]) ** 2).sum()) / total


def weighted_products(seen: Bools, w: NDArray[np.floating]) -> Floats:
    """A diag(w) Aᵀ of bool[R, C], from the cells alone where they are few, else block by block of columns: float[R, R].

    >>> weighted_products(np.array([[True, False], [True, True]]), np.array([0.5, 1.0])).tolist()
    [[0.5, 0.5], [0.5, 1.5]]
    """
    n = np.count_nonzero(seen, axis=0).astype(np.float64)
    if _PAIRS_AT_ONCE * (n**2).sum() < seen.size * len(seen):
        cells = csr_array(seen, dtype=w.dtype)
        return np.asarray(((cells * w) @ cells.T).toarray())
    step = max(1, _AT_ONCE // len(seen))
    products = np.zeros((len(seen), len(seen)))
    for start in range(0, seen.shape[1], step):
        A = seen[:, start : start + step].astype(w.dtype)
        products += (A * w[start : start + step]) @ A.T
    return products
