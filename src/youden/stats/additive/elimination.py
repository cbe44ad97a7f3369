"""Solve the normal equations of the additive model on observed cells by eliminating the larger side.

The smaller side of the cells are the rows (effects x), the larger side the columns (effects y), so that a score is s ≈
x − y; if there are more agents than items, the sides are swapped and scores change their sign. A Cholesky factorisation
solves what is left for the rows if it is cheap to form, conjugate gradients otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.linalg import LinearOperator, cg

from youden.errors import StatisticsError
from youden.stats.additive.observed_cells import Cells, IdColumn
from youden.types.pool import Bools, Floats

MAX_DENSE_ENTRIES = 8_000_000
"""Largest weight matrix that is stored densely."""
MAX_ENTRIES_PER_CELL = 16
"""A dense matrix may have up to this many entries per observed cell."""
MAX_CHOLESKY_ROWS = 2_000
MAX_CHOLESKY_PRODUCTS = 2e8
"""Largest cost of forming the system for Cholesky: the sum of squared numbers of cells per column."""
CG_TOLERANCE = 1e-12
MAX_CG_ITERATIONS = 10_000


class Effects(NamedTuple):
    """Row effects x, float array (n_rows,), and column effects y, float array (n_columns,)."""

    x: Floats
    y: Floats


class Sides(NamedTuple):
    """The agents and items of cells as rows and columns.

    Attributes
    ----------
    row, column : int array (n_cells,)
        Row and column of each cell.
    n_rows, n_columns : int
        Numbers of rows and of columns.
    swapped : bool
        Whether rows are items and columns agents, not the reverse.
    """

    row: IdColumn
    column: IdColumn
    n_rows: int
    n_columns: int
    swapped: bool


def sides(cells: Cells) -> Sides:
    """Make the smaller of the sides of `cells`, agents or items, the rows."""
    if cells.n_agents <= cells.n_items:
        return Sides(cells.agent, cells.item, cells.n_agents, cells.n_items, swapped=False)
    return Sides(cells.item, cells.agent, cells.n_items, cells.n_agents, swapped=True)


@dataclass(frozen=True, eq=False)
class Equations:
    """Normal equations of the additive model.

    They minimise Σ w (s − x + y)² + ridge·(‖x‖² + ‖y‖²) under the constraint, the gauge, that the effects of the
    observed items sum to 0.

    Attributes
    ----------
    A : float array or csr_array (n_rows, n_columns)
        Weights of the cells.
    n, m : float array (n_rows,), (n_columns,)
        Sums of A over each row and column.
    r, c : float array (n_rows,), (n_columns,)
        Sums of weight × score, in the direction of the rows.
    row_gauge, column_gauge : float array (n_rows,), (n_columns,)
        1 for the effects of the observed items, else 0.
    ridge : float
        Ridge penalty.
    swapped : bool
        Whether rows are items.
    """

    A: Floats | csr_array
    n: Floats
    m: Floats
    r: Floats
    c: Floats
    row_gauge: Floats
    column_gauge: Floats
    ridge: float
    swapped: bool

    @property
    def uses_cholesky(self) -> bool:
        """Whether the rows are solved by a Cholesky factorisation: forming their system is cheap."""
        if len(self.n) > MAX_CHOLESKY_ROWS:
            return False
        if isinstance(self.A, np.ndarray):
            return True
        cells_by_column = np.bincount(self.A.indices)
        return float((cells_by_column**2.0).sum()) <= MAX_CHOLESKY_PRODUCTS

    def gram(self, w: Floats) -> Floats:
        """Compute A diag(w) Aᵀ for weights w, float array (n_columns,), as a dense array (n_rows, n_rows)."""
        if isinstance(self.A, np.ndarray):
            product: Floats = dgemm(1.0, self.A.T, (self.A * w).T, trans_a=1)
            return product
        return np.asarray((self.A @ diags_array(w) @ self.A.T).toarray())

    def gradient(self, effects: Effects, r: Floats, c: Floats) -> Effects:
        """Compute half the gradient of the Lagrangian of the penalised sum of squared residuals.

        The Lagrangian includes the constraint that the effects of the observed items sum to 0. Its Lagrange multiplier
        is chosen so that the norm of the gradient is smallest.

        Parameters
        ----------
        effects : Effects
            Effects x of rows and y of columns at which to compute the gradient.
        r, c : float array (n_rows,), (n_columns,)
            Sums of weight × score over the cells of each row and of each column.

        Returns
        -------
        Effects
            Half the gradient by row effects and by column effects.
        """
        x, y = effects

        # A: weights of the cells; n and m: their sums by row and by column; with the residuals s − x + y,
        # half the gradient is (n + ridge)·x − A·y − r by x, and (m + ridge)·y − Aᵀ·x + c by y
        row_gradient = (self.n + self.ridge) * x - self.A @ y - r
        column_gradient = (self.m + self.ridge) * y - x @ self.A + c

        # the multiplier that minimises the norm of the gradient removes its mean over the observed items
        if self.swapped:
            item_gradient, is_observed = row_gradient, self.row_gauge
        else:
            item_gradient, is_observed = column_gradient, self.column_gauge
        multiplier = (is_observed @ item_gradient) / is_observed.sum()
        item_gradient -= multiplier * is_observed  # changes row_gradient or column_gradient
        return Effects(row_gradient, column_gradient)

    def kkt(self, effects: Effects, r: Floats, c: Floats) -> float:
        """Compute the largest absolute residual of the normal equations and of the gauge (effects of items that sum to 0).

        Parameters
        ----------
        effects : Effects
            Solution to check.
        r, c : float array (n_rows,), (n_columns,)
            Totals of weight × score.

        Returns
        -------
        float
            The residual; 0 for an exact solution, and NaN if an effect is NaN.
        """
        g_x, g_y = self.gradient(effects, r, c)
        off_gauge = self.row_gauge @ effects.x + self.column_gauge @ effects.y
        return max(float(np.abs(g_x).max()), float(np.abs(g_y).max()), abs(float(off_gauge)))


def make_normal_equations(cells: Cells, *, ridge: float) -> Equations:
    """Make the normal equations of the additive model for observed cells, with a ridge penalty.

    The effects of the observed items sum to 0. The smaller side, agents or items, are the rows.
    """
    row, column, n_rows, n_columns, swapped = sides(cells)
    weight = np.ones(len(cells)) if cells.weight is None else cells.weight.astype(np.float64, copy=False)
    direction = -1 if swapped else 1
    weighted_score = weight * cells.score * direction

    # weights A of the cells, and sums over rows (n, r) and columns (m, c) of weights and of weight × score
    A = _weight_matrix(row, column, weight, shape=(n_rows, n_columns))
    n = np.asarray(A.sum(axis=1), dtype=np.float64)
    m = np.asarray(A.sum(axis=0), dtype=np.float64)
    r = np.bincount(row, weighted_score, n_rows).astype(np.float64)
    c = np.bincount(column, weighted_score, n_columns).astype(np.float64)

    # the observed items, whose effects sum to 0
    row_gauge = ((n > 0) & swapped).astype(np.float64)
    column_gauge = ((m > 0) & (not swapped)).astype(np.float64)
    return Equations(A, n, m, r, c, row_gauge, column_gauge, ridge, swapped)


def _weight_matrix(row: IdColumn, column: IdColumn, weight: Floats, *, shape: tuple[int, int]) -> Floats | csr_array:
    """Make the matrix of the weights of cells, a dense array if it is small or well filled, else a sparse one.

    row, column : int array (n_cells,)
    weight : float array (n_cells,)

    Returns an array (n_rows, n_columns).
    """
    n_rows, n_columns = shape
    if n_rows * n_columns <= min(MAX_DENSE_ENTRIES, MAX_ENTRIES_PER_CELL * len(weight)):
        index = row * np.int64(n_columns) + column
        return np.bincount(index, weight, n_rows * n_columns).astype(np.float64).reshape(shape)
    entries = coo_array((weight, (row, column)), shape=shape)
    entries.has_canonical_format = True  # a repeated cell may stay repeated: summing would sort all cells
    return entries.tocsr()


def solve(equations: Equations, r: Floats, c: Floats, *, cholesky: bool | None = None) -> tuple[Effects, int]:
    """Solve the normal equations for given totals.

    Parameters
    ----------
    equations : Equations
        Equations of the cells. Their own totals are ignored.
    r, c : float array (n_rows,), (n_columns,)
        Sums of weight × score over each row and column.
    cholesky : bool, optional
        Whether to factor the system, or to use conjugate gradients. Default: `equations.uses_cholesky`.

    Returns
    -------
    effects : Effects
        Effects of rows and columns. If the conjugate gradients do not converge in `MAX_CG_ITERATIONS` iterations, these
        are the last ones, without an error: check them with `equations.kkt`.
    n_iterations : int
        Number of iterations of the conjugate gradients, 0 for Cholesky.

    Raises
    ------
    StatisticsError
        [additive-singular]: if the system is numerically singular; by Cholesky only.

    Notes
    -----
    With λ the ridge, g and f the row and column gauge, and ν the multiplier of g·x + f·y = 0, the equations are
    (n+λ)x − Ay + νg = r and (m+λ)y − Aᵀx + νf = −c. With w = 1/(m+λ), eliminating y leaves Sx + νh = q and h·x = γν +
    δ, where S = diag(n+λ) − A diag(w) Aᵀ, h = g + A(w∘f), q = r − A(w∘c), γ = f·(w∘f) and δ = f·(w∘c). ∘ multiplies
    elementwise. S is nearly singular along h, but S + σhhᵀ with a positive σ is not.
    """
    # the symbols are those of the notes
    A, g, f = equations.A, equations.row_gauge, equations.column_gauge
    w = 1 / (equations.m + equations.ridge)
    h = g + A @ (w * f)
    q = r - A @ (w * c)
    gamma, delta = float(f @ (w * f)), float(f @ (w * c))
    if gamma > 0:  # the gauge is on the columns: σ = 1/γ also removes ν from the first equation
        target = q + (delta / gamma) * h
        (x,), n_iterations = _solve_rows(equations, w, h, sigma=1 / gamma, targets=[target], cholesky=cholesky)
        nu = (float(h @ x) - delta) / gamma
    else:  # the gauge is on the rows: h·x = 0 determines ν
        sigma = float(equations.n.mean()) / len(g)
        (x, along), n_iterations = _solve_rows(equations, w, h, sigma=sigma, targets=[q, h], cholesky=cholesky)
        nu = float(h @ x) / float(h @ along)
        x = x - nu * along

    y = w * (x @ A - c - nu * f)
    return Effects(x, y), n_iterations


def _solve_rows(
    equations: Equations, w: Floats, h: Floats, *, sigma: float, targets: list[Floats], cholesky: bool | None
) -> tuple[list[Floats], int]:
    """Solve (S + σhhᵀ) x = target for each target, with S = diag(n + ridge) − A diag(w) Aᵀ.

    w : float array (n_columns,), weights that eliminate the column effects
    h : float array (n_rows,), gauge after the elimination
    sigma : factor σ of the term that makes the system regular
    targets : float arrays (n_rows,), right-hand sides
    cholesky : whether to factorize the matrix; None to decide by its size

    Returns the solutions, and the number of iterations of the conjugate gradients.
    """
    use_cholesky = equations.uses_cholesky if cholesky is None else cholesky
    if use_cholesky:
        return _factor_rows(equations, w, h, sigma=sigma, targets=targets), 0

    n_rows = len(h)
    diagonal = equations.n + equations.ridge
    n_iterations = 0

    def count_iteration(_: Floats) -> None:
        """Count an iteration; called after each with the current solution."""
        nonlocal n_iterations
        n_iterations += 1

    def multiply(x: Floats) -> Floats:
        """Compute (S + σhhᵀ) x without forming the matrix, with S = diag(n + ridge) − A diag(w) Aᵀ."""
        S_x = diagonal * x - equations.A @ (w * (x @ equations.A))
        return np.asarray(S_x + (sigma * float(h @ x)) * h)

    S_operator = LinearOperator((n_rows, n_rows), matvec=multiply, dtype=np.float64)
    jacobi = LinearOperator((n_rows, n_rows), matvec=_divide_by(diagonal), dtype=np.float64)
    solutions = []
    for target in targets:
        x, _ = cg(S_operator, target, rtol=CG_TOLERANCE, maxiter=MAX_CG_ITERATIONS, M=jacobi, callback=count_iteration)
        solutions.append(np.asarray(x))
    return solutions, n_iterations


def _factor_rows(equations: Equations, w: Floats, h: Floats, *, sigma: float, targets: list[Floats]) -> list[Floats]:
    """Solve the systems of `_solve_rows` by a Cholesky factorisation of their matrix.

    Returns the solutions, float arrays (n_rows,). Raises StatisticsError [additive-singular] if the matrix is numerically
    singular.
    """
    n_rows = len(h)
    S = (sigma * h)[:, None] * h - equations.gram(w)
    S.flat[:: n_rows + 1] += equations.n + equations.ridge  # the diagonal
    factor, failed = dpotrf(S.T, lower=1, overwrite_a=1, clean=0)
    if failed:
        raise StatisticsError(
            f"The cells do not determine the effects: got a singular system at ridge = {equations.ridge:g}. Add scores of "
            "more cells, or set ridge to 1e-6.",
            slug="additive-singular",
        )
    return [dpotrs(factor, target, lower=1)[0] for target in targets]


def _divide_by(diagonal: Floats) -> Callable[[Floats], Floats]:
    """Make the function that divides a vector by the diagonal, a preconditioner of the conjugate gradients."""
    return lambda vector: vector / diagonal


def reaches_all_rows(equations: Equations, *, n_hops: int = 3) -> bool:
    """Return whether short paths of observed cells connect all rows that have scores.

    A step of a path leads from a row, through a column in which it has a score, to another row with a score in this
    column. False does not prove that rows are disconnected: a longer path may connect them.

    equations : normal equations, whose weight matrix A is 0 for unobserved cells
    n_hops : maximum number of steps from the row with which the search starts
    """
    weights = equations.A  # (n_rows, n_columns), 0 for unobserved cells
    is_observed: Bools = equations.n > 0
    is_reached = np.zeros(len(is_observed))
    is_reached[is_observed.argmax()] = 1.0
    for _ in range(n_hops):
        is_reached_column = np.sign(is_reached @ weights)
        is_reached = np.sign(weights @ is_reached_column)
        if np.count_nonzero(is_reached) == np.count_nonzero(is_observed):
            return True
    return False
