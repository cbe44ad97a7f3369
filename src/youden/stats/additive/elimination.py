"""Solve the normal equations of the additive model on observed cells by eliminating the larger side.

The smaller side of the cells, agents or items, are the rows (effects x). The larger side are the columns (effects y), so
that a score is s ≈ x − y. If there are more agents than items, the items are the rows and the scores change their sign.
The remaining system of the row effects is solved by a Cholesky factorization if its matrix is cheap to form, and by
conjugate gradients otherwise.
"""

from __future__ import annotations

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
    """Effects of the additive model, or derivatives by them.

    Attributes
    ----------
    rows : float array (n_rows,)
        Row effects x.
    columns : float array (n_columns,)
        Column effects y.
    """

    rows: Floats
    columns: Floats


class Sides(NamedTuple):
    """The agents and items of cells as rows and columns.

    Attributes
    ----------
    row, column : int array (n_cells,)
        Row and column of each cell.
    n_rows, n_columns : int
        Numbers of rows and of columns.
    rows_are_items : bool
        Whether rows are items and columns agents, not the reverse.
    """

    row: IdColumn
    column: IdColumn
    n_rows: int
    n_columns: int
    rows_are_items: bool


def sides(cells: Cells) -> Sides:
    """Make the smaller of the sides of `cells`, agents or items, the rows."""
    if cells.n_agents <= cells.n_items:
        return Sides(cells.agent, cells.item, cells.n_agents, cells.n_items, rows_are_items=False)
    return Sides(cells.item, cells.agent, cells.n_items, cells.n_agents, rows_are_items=True)


@dataclass(frozen=True, eq=False)
class Equations:
    """Normal equations of the additive model.

    They minimize Σ w (s − x + y)² + ridge·(‖x‖² + ‖y‖²) under the constraint that the effects of the observed items sum
    to 0.

    Attributes
    ----------
    weights : float array or csr_array (n_rows, n_columns)
        Weights of the cells, 0 for an unobserved cell; A in formulas.
    row_weight, column_weight : float array (n_rows,), (n_columns,)
        Sums of the weights over each row and column; n and m in formulas.
    row_total, column_total : float array (n_rows,), (n_columns,)
        Sums of weight × score over each row and column; r and c in formulas. If rows are items, scores have
        the opposite sign.
    row_constraint, column_constraint : float array (n_rows,), (n_columns,)
        Coefficients of the constraint: 1 for the effects of the observed items, else 0; g and f in formulas.
    ridge : float
        Ridge penalty.
    rows_are_items : bool
        Whether rows are items and columns agents.
    """

    weights: Floats | csr_array
    row_weight: Floats
    column_weight: Floats
    row_total: Floats
    column_total: Floats
    row_constraint: Floats
    column_constraint: Floats
    ridge: float
    rows_are_items: bool

    @property
    def agent_weight(self) -> Floats:
        """Sum of the weights of each agent's cells, float array (n_agents,)."""
        return self.column_weight if self.rows_are_items else self.row_weight

    @property
    def max_total(self) -> float:
        """Largest absolute sum of weight × score over a row or column, the scale of the residuals of the equations."""
        return max(float(np.abs(self.row_total).max()), float(np.abs(self.column_total).max()))

    @property
    def uses_cholesky(self) -> bool:
        """Whether a Cholesky factorization solves for the row effects, because its matrix is cheap to form."""
        if len(self.row_weight) > MAX_CHOLESKY_ROWS:
            return False
        if isinstance(self.weights, np.ndarray):
            return True
        cells_by_column = np.bincount(self.weights.indices)
        return float((cells_by_column**2.0).sum()) <= MAX_CHOLESKY_PRODUCTS

    def compute_gram_matrix(self, factor: Floats) -> Floats:
        """Compute A diag(factor) Aᵀ for the weight matrix A: the weighted products of all pairs of its rows.

        factor : float array (n_columns,), factor of each column

        Returns a dense float array (n_rows, n_rows).
        """
        if not isinstance(self.weights, np.ndarray):
            product = self.weights @ diags_array(factor) @ self.weights.T
            return np.asarray(product.toarray())

        # weights @ scaled_weights.T, without copies: BLAS expects arrays in column order, which transposed views have
        scaled_weights = self.weights * factor
        dense_product: Floats = dgemm(1.0, self.weights.T, scaled_weights.T, trans_a=1)
        return dense_product

    def gradient(self, effects: Effects, row_total: Floats, column_total: Floats) -> Effects:
        """Compute the gradient, divided by 2, of the ridge-penalized weighted sum of squared residuals.

        A residual is score − (row effect − column effect), with −score in place of the score if rows are items. The effects of
        the observed items must sum to 0. The part of the gradient that would change this sum is removed.

        Parameters
        ----------
        effects : Effects
            Effects `rows` (n_rows,) and `columns` (n_columns,) at which to compute the gradient.
        row_total, column_total : float array (n_rows,), (n_columns,)
            Sums of weight × score over the cells of each row and of each column; −score in place of the score if rows are items.

        Returns
        -------
        Effects
            Derivatives divided by 2: by the row effects, float array (n_rows,), and by the column effects, (n_columns,). All are
            0 at the solution.
        """
        row_effect, column_effect = effects

        # half the derivatives of Σ w·(s − (x − y))² + ridge·(Σ x² + Σ y²) with scores s, weights w and effects x and y:
        # Σ w·(x − y − s) + ridge·x over the cells of a row, and Σ w·(y − x + s) + ridge·y over the cells of a column
        row_gradient = (self.row_weight + self.ridge) * row_effect - self.weights @ column_effect - row_total
        column_gradient = (self.column_weight + self.ridge) * column_effect - row_effect @ self.weights + column_total

        # subtract the mean derivative of the observed items, whose constraint coefficients are 1
        if self.rows_are_items:
            mean_of_items = (self.row_constraint @ row_gradient) / self.row_constraint.sum()
            row_gradient -= mean_of_items * self.row_constraint
        else:
            mean_of_items = (self.column_constraint @ column_gradient) / self.column_constraint.sum()
            column_gradient -= mean_of_items * self.column_constraint
        return Effects(row_gradient, column_gradient)

    def compute_kkt_residual(self, effects: Effects, row_total: Floats, column_total: Floats) -> float:
        """Compute the largest absolute error in the optimality (Karush–Kuhn–Tucker) conditions.

        The conditions are the normal equations, and that the effects of the observed items sum to 0.

        Parameters
        ----------
        effects : Effects
            Solution to check: effects `rows` (n_rows,) and `columns` (n_columns,).
        row_total, column_total : float array (n_rows,), (n_columns,)
            Sums of weight × score over the cells of each row and of each column; if rows are items, scores have the opposite
            sign.

        Returns
        -------
        float
            The residual, at least 0, in units of weight × score; 0 for an exact solution, and NaN if an effect is NaN.
        """
        gradient = self.gradient(effects, row_total, column_total)
        sum_of_item_effects = self.row_constraint @ effects.rows + self.column_constraint @ effects.columns
        max_row_gradient = float(np.abs(gradient.rows).max())
        max_column_gradient = float(np.abs(gradient.columns).max())
        return max(max_row_gradient, max_column_gradient, abs(float(sum_of_item_effects)))


def make_normal_equations(cells: Cells, *, ridge: float) -> Equations:
    """Make the normal equations of the additive model, score ≈ row effect − column effect.

    Parameters
    ----------
    cells : Cells
        Observed cells. Without weights, each cell has the weight 1.
    ridge : float
        Ridge penalty.

    Returns
    -------
    Equations
        Equations with the smaller side, agents or items, as rows. If there are more agents than items, rows are items,
        and scores have the opposite sign.
    """
    row, column, n_rows, n_columns, rows_are_items = sides(cells)
    weight = np.ones(len(cells)) if cells.weight is None else cells.weight.astype(np.float64, copy=False)

    # A score is modeled as ability − difficulty. If rows are items, the effect of a row is a difficulty, so that the score
    # with the opposite sign is row effect − column effect.
    sign = -1 if rows_are_items else 1
    weighted_score = weight * cells.score * sign

    weights = _make_weight_matrix(row, column, weight, shape=(n_rows, n_columns))
    row_weight = np.asarray(weights.sum(axis=1), dtype=np.float64)
    column_weight = np.asarray(weights.sum(axis=0), dtype=np.float64)

    # the effects of the observed items sum to 0; items are either the rows or the columns
    row_constraint, column_constraint = np.zeros(n_rows), np.zeros(n_columns)
    if rows_are_items:
        row_constraint[row_weight > 0] = 1.0
    else:
        column_constraint[column_weight > 0] = 1.0
    return Equations(
        weights=weights,
        row_weight=row_weight,
        column_weight=column_weight,
        row_total=np.bincount(row, weighted_score, n_rows).astype(np.float64),
        column_total=np.bincount(column, weighted_score, n_columns).astype(np.float64),
        row_constraint=row_constraint,
        column_constraint=column_constraint,
        ridge=ridge,
        rows_are_items=rows_are_items,
    )


def _make_weight_matrix(
    row: IdColumn, column: IdColumn, weight: Floats, *, shape: tuple[int, int]
) -> Floats | csr_array:
    """Make the matrix that contains the weight of each cell, and 0 for cells that were not observed.

    A small or mostly full matrix is a dense array. A large matrix with few cells is a sparse SciPy array.

    row, column : int array (n_cells,), positions of the observed cells
    weight : float array (n_cells,); the weights of a repeated cell are summed
    shape : shape of the matrix, (n_rows, n_columns)
    """
    n_rows, n_columns = shape
    n_entries = n_rows * n_columns
    is_dense = n_entries <= min(MAX_DENSE_ENTRIES, MAX_ENTRIES_PER_CELL * len(weight))
    if is_dense:
        position = row * np.int64(n_columns) + column  # in the flattened matrix, row by row
        return np.bincount(position, weight, n_entries).astype(np.float64).reshape(shape)

    # Products with the matrix do not need sorted entries. This flag stops SciPy from sorting them.
    entries = coo_array((weight, (row, column)), shape=shape)
    entries.has_canonical_format = True
    return entries.tocsr()


def solve(
    equations: Equations, row_total: Floats, column_total: Floats, *, cholesky: bool | None = None
) -> tuple[Effects, int]:
    """Solve the normal equations for given totals.

    Parameters
    ----------
    equations : Equations
        Equations of the cells. Their own totals are ignored.
    row_total, column_total : float array (n_rows,), (n_columns,)
        Sums of weight × score over each row and column; if rows are items, scores have the opposite sign.
    cholesky : bool, optional
        True: factor the system by Cholesky. False: use conjugate gradients. Default: `equations.uses_cholesky`.

    Returns
    -------
    effects : Effects
        Effects `rows`, float array (n_rows,), and `columns`, float array (n_columns,), in units of scores. The prediction of a
        cell is row effect − column effect. If the conjugate gradients do not converge in `MAX_CG_ITERATIONS` iterations, the last
        effects are returned and no error is raised: check them with `equations.compute_kkt_residual`.
    n_iterations : int
        Number of iterations of the conjugate gradients, 0 for Cholesky.

    Raises
    ------
    StatisticsError
        [additive-singular]: if the system is numerically singular; by Cholesky only.

    Notes
    -----
    A, n, m, r, c, g and f are as in `Equations`, λ is the ridge, and ν the multiplier of the constraint g·x + f·y = 0.
    The equations are (n+λ)x − Ay + νg = r and (m+λ)y − Aᵀx + νf = −c. With w = 1/(m+λ), eliminating y leaves Sx + νh = q
    and h·x = γν + δ, where S = diag(n+λ) − A diag(w) Aᵀ, h = g + A(w∘f), q = r − A(w∘c), γ = f·(w∘f) and δ = f·(w∘c). ∘
    multiplies elementwise. S is nearly singular along h, but S + σhhᵀ with a positive σ is not.
    """
    # the symbols are those of the notes
    A, g, f = equations.weights, equations.row_constraint, equations.column_constraint
    w = 1 / (equations.column_weight + equations.ridge)
    h = g + A @ (w * f)
    q = row_total - A @ (w * column_total)
    gamma, delta = float(f @ (w * f)), float(f @ (w * column_total))
    if gamma > 0:  # the items are the columns: σ = 1/γ also removes ν from the first equation
        target = q + (delta / gamma) * h
        (x,), n_iterations = _solve_rows(equations, w, h, sigma=1 / gamma, targets=[target], cholesky=cholesky)
        nu = (float(h @ x) - delta) / gamma
    else:  # the items are the rows: h·x = 0 determines ν
        sigma = float(equations.row_weight.mean()) / len(g)
        (x, along), n_iterations = _solve_rows(equations, w, h, sigma=sigma, targets=[q, h], cholesky=cholesky)
        nu = float(h @ x) / float(h @ along)
        x = x - nu * along

    y = w * (x @ A - column_total - nu * f)
    return Effects(x, y), n_iterations


def _solve_rows(
    equations: Equations,
    column_factor: Floats,
    constraint: Floats,
    *,
    sigma: float,
    targets: list[Floats],
    cholesky: bool | None,
) -> tuple[list[Floats], int]:
    """Solve the linear equations of the row effects for several right-hand sides, directly or by conjugate gradients.

    The matrix of the equations is S + sigma·hhᵀ, with S = diag(row_weight + ridge) − A diag(column_factor) Aᵀ, A =
    `equations.weights` and h = `constraint`. S alone is nearly singular.

    column_factor : float array (n_columns,), 1/(column_weight + ridge)
    constraint : float array (n_rows,), coefficients of the constraint for the row effects, after the columns were eliminated
    sigma : positive factor
    targets : float arrays (n_rows,), right-hand sides
    cholesky : whether to factorize the matrix; None to decide by its size

    Returns the solutions, and the number of iterations of the conjugate gradients.
    """
    use_cholesky = equations.uses_cholesky if cholesky is None else cholesky
    if use_cholesky:
        return _solve_rows_by_cholesky(equations, column_factor, constraint, sigma=sigma, targets=targets), 0

    n_rows = len(constraint)
    diagonal = equations.row_weight + equations.ridge
    n_iterations = 0

    def count_iteration(_: Floats) -> None:
        """Count an iteration; called after each with the current solution."""
        nonlocal n_iterations
        n_iterations += 1

    def multiply(x: Floats) -> Floats:
        """Compute (S + sigma·hhᵀ) x without forming the matrix."""
        column_sums = x @ equations.weights
        S_x = diagonal * x - equations.weights @ (column_factor * column_sums)
        return np.asarray(S_x + (sigma * float(constraint @ x)) * constraint)

    matrix = LinearOperator((n_rows, n_rows), matvec=multiply, dtype=np.float64)
    preconditioner = LinearOperator((n_rows, n_rows), matvec=lambda x: x / diagonal, dtype=np.float64)
    solutions = []
    for target in targets:
        x, _ = cg(
            matrix,
            target,
            rtol=CG_TOLERANCE,
            maxiter=MAX_CG_ITERATIONS,
            M=preconditioner,
            callback=count_iteration,
        )
        solutions.append(np.asarray(x))
    return solutions, n_iterations


def _solve_rows_by_cholesky(
    equations: Equations, column_factor: Floats, constraint: Floats, *, sigma: float, targets: list[Floats]
) -> list[Floats]:
    """Solve the linear equations of the row effects for several right-hand sides, by a Cholesky factorization.

    The matrix is S + sigma·hhᵀ, where:

    - S = diag(row_weight + ridge) − A diag(column_factor) Aᵀ, with A = `equations.weights`. S alone is nearly singular.
    - h is `constraint`.

    column_factor : float array (n_columns,), 1/(column_weight + ridge)
    constraint : float array (n_rows,), coefficients of the constraint for the row effects, after the columns were eliminated
    sigma : positive factor
    targets : float arrays (n_rows,), right-hand sides

    Returns the solutions, float arrays (n_rows,). Raises StatisticsError [additive-singular] if the matrix is numerically
    singular.
    """
    matrix = np.outer(sigma * constraint, constraint) - equations.compute_gram_matrix(column_factor)
    matrix[np.diag_indices_from(matrix)] += equations.row_weight + equations.ridge

    # LAPACK factorizes an array in column order in place, without a copy. The transposed view has this order, and the same
    # values, because the matrix is symmetric. The factor is lower triangular.
    factor, error_code = dpotrf(matrix.T, lower=1, overwrite_a=1, clean=0)
    if error_code:
        raise StatisticsError(
            f"The cells do not determine the effects: got a singular system at ridge = {equations.ridge:g}. Add scores of "
            "more cells, or set ridge to 1e-6.",
            slug="additive-singular",
        )
    return [dpotrs(factor, target, lower=1)[0] for target in targets]


def reaches_all_rows(equations: Equations, *, n_hops: int = 3) -> bool:
    """Return whether all rows with scores are connected by short paths through columns that they share.

    A step goes from a row to any row with a score in the same column. If the result is False, longer paths may still connect the
    rows.

    n_hops : maximum number of steps from the row with which the search starts
    """
    weights = equations.weights
    has_score: Bools = equations.row_weight > 0

    # Reached rows and columns are marked by 1.0. A product with the weights is positive for each neighbor of a marked one.
    row_mark = np.zeros(len(has_score))
    row_mark[has_score.argmax()] = 1.0
    for _ in range(n_hops):
        column_mark = np.sign(row_mark @ weights)
        row_mark = np.sign(weights @ column_mark)
        if np.count_nonzero(row_mark) == np.count_nonzero(has_score):
            return True
    return False
