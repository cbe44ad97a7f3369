"""Fit the additive model to scores in [−1, 1], with saturated scores as bounds (`censored`) or predictions in a box.

Censored: a saturated score, ±1, contributes only if the prediction falls short of it. The objective, with a score s of
weight w, the effects x and y of its row and column, and μ = x − y, Σ_{|s|<1} w(s − μ)² + Σ_{s=1} w(1 − μ)₊² + Σ_{s=−1}
w(1 + μ)₊² + ridge, is convex and piecewise quadratic. A Newton step is the plain fit without the saturated cells that
the predictions exceed; an exact line search along it makes the steps finite in number.

Box: |x_i − y_j| ≤ 1 for every observed row and column, that is, x ∈ [q, p] and y ∈ [p − 1, q + 1] for some p and q. A
primal–dual active set puts the effects that are beyond a bound on it, solves for the others, releases the effects
whose multiplier has the wrong sign, and repeats. At the upper bound (e = 1, v = p) and at the lower one (e = −1, v =
q): e(x − v) ≤ 0, e(y − v + e) ≥ 0, effects on the bound have gradients with e·∂x ≤ 0 and e·∂y ≥ 0, and the gradients
over a bound sum to 0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from youden.errors import StatisticsError
from youden.stats.additive.elimination import Effects, Equations, make_normal_equations, sides, solve
from youden.stats.additive.observed_cells import Cells
from youden.types.pool import Bools, Floats

SIGNS = (1.0, -1.0)
"""Signs e of the upper and the lower bound."""
MAX_BOX_ROUNDS = 50
MAX_BOX_ROWS = 4_000
BISECTION_WIDTH = 1e-3
TOLERANCE = 1e-11
"""An effect is beyond a bound, or a multiplier has the wrong sign, if it is by more than this times the largest
total weight."""
MAX_CENSORED_ROUNDS = 100
FLAT = 1e-13
"""A gradient counts as zero below this, relative to the largest total score or to the first slope of a line search."""


class Fit(NamedTuple):
    """Effects that were fitted, and how.

    Attributes
    ----------
    effects : Effects
        Effects of rows and columns.
    kkt : float
        Largest absolute residual of the optimality conditions.
    n_rounds : int
        Number of solutions that the constraint needed.
    n_iterations : int
        Number of iterations of the conjugate gradients.
    """

    effects: Effects
    kkt: float
    n_rounds: int
    n_iterations: int


def fit_plain(equations: Equations) -> Fit:
    """Fit without any constraint on the predictions."""
    effects, n_iterations = solve(equations, equations.r, equations.c)
    return Fit(effects, equations.kkt(effects, equations.r, equations.c), 1, n_iterations)


class OnBound(NamedTuple):
    """Which effects are on a bound: the first row of each array is for the upper bound, the second for the lower one.

    Attributes
    ----------
    x : bool array (2, n_rows)
        Row effects on the bounds.
    y : bool array (2, n_columns)
        Column effects on the bounds.
    """

    x: Bools
    y: Bools


class _BoxPoint(NamedTuple):
    """Effects that minimise the objective for given active sets.

    Attributes
    ----------
    effects : Effects
        Effects of rows and columns.
    bounds : float array (2,)
        Upper and lower bound of the row effects, NaN if inactive.
    gradient : Effects
        Half the gradient at the effects.
    """

    effects: Effects
    bounds: Floats
    gradient: Effects


def fit_box(equations: Equations) -> Fit:
    """Fit effects so that all predictions are in [−1, 1], the box.

    The plain fit is returned if its predictions are in the box. Otherwise, it is the start of an active-set method: the
    effects that are on a bound are revised until they no longer change.

    Raises StatisticsError [box-too-large] if the plain fit leaves the box and the smaller side exceeds `MAX_BOX_ROWS`.
    """
    plain = fit_plain(equations)
    n_rows, n_columns = len(equations.n), len(equations.m)
    no_bounds = OnBound(np.zeros((2, n_rows), np.bool_), np.zeros((2, n_columns), np.bool_))
    active = _activate_bounds(equations, plain.effects, no_bounds)
    if not active.x.any():
        return plain
    if n_rows > MAX_BOX_ROWS:
        raise StatisticsError(
            f"The fit leaves the box, and the smaller of the numbers of agents and items is too large for it: got {n_rows}, "
            f'at most {MAX_BOX_ROWS}. Set constraint="censored" or "clip".',
            slug="box-too-large",
        )

    n_rounds = 1
    is_settled = False
    while not is_settled and n_rounds < MAX_BOX_ROUNDS:
        point = _solve_on_bounds(equations, active)
        revised_bounds = _revise_bounds(equations, active, point)
        revised = _activate_bounds(equations, point.effects, revised_bounds)
        is_settled = np.array_equal(revised.x, active.x) and np.array_equal(revised.y, active.y)
        solved, active = active, revised
        n_rounds += 1
    return Fit(point.effects, _measure_violation(equations, solved, point), n_rounds, plain.n_iterations)


def _solve_on_bounds(equations: Equations, active: OnBound) -> _BoxPoint:
    """Minimise the objective with the active effects on their bounds, of which p is the upper and q the lower one.

    The free columns are eliminated, which leaves n_rows + 3 unknowns: the row effects x, p, q, and the multiplier ν of the
    constraint that the effects of the items sum to 0.
    """
    # the symbols are those of `Equations`
    A, m, r, c = equations.A, equations.m, equations.r, equations.c
    g, f = equations.row_gauge, equations.column_gauge
    n_rows = len(r)
    row_diagonal = equations.n + equations.ridge
    column_diagonal = m + equations.ridge

    # solve for x, p, q and ν; the weights w eliminate the free columns
    w = np.where(active.y.any(axis=0), 0.0, 1 / column_diagonal)
    system, target = _make_system(equations, active, w)
    factor = lu_factor(system, overwrite_a=False, check_finite=False)
    solution = lu_solve(factor, target, check_finite=False)
    solution += lu_solve(factor, target - system @ solution, check_finite=False)  # one step of iterative refinement
    x, bounds, nu = solution[:n_rows], solution[n_rows:-1], solution[-1]

    # effects of the columns: free ones from x, the others from their bound
    y = w * (x @ A - c - nu * f)
    for on_x, on_y, bound, sign in zip(active.x, active.y, bounds, SIGNS, strict=True):
        x[on_x] = bound
        y[on_y] = bound - sign

    # gradients, which are 0 for free effects
    g_x = row_diagonal * x - A @ y - r + nu * g
    g_y = column_diagonal * y - x @ A + c + nu * f
    is_active = active.x.any(axis=1)
    return _BoxPoint(Effects(x, y), np.where(is_active, bounds, np.nan), Effects(g_x, g_y))


def _make_system(equations: Equations, active: OnBound, w: Floats) -> tuple[Floats, Floats]:
    """Make the linear equations of the row effects x, the bounds p and q, and the multiplier ν of the gauge.

    w : float array (n_columns,), 1/(m + ridge) for free columns, 0 for those on a bound

    Returns the matrix, float array (n_rows + 3, n_rows + 3), and the right-hand side, float array (n_rows + 3,).
    """
    A, c = equations.A, equations.c
    g, f = equations.row_gauge, equations.column_gauge
    n_rows = len(equations.r)
    signs = np.array(SIGNS)
    column_diagonal = equations.m + equations.ridge

    # sums over the columns on each bound: of A, float (n_rows, 2), of the diagonal and of the gauge, float (2,)
    on_bounds = np.column_stack([A @ on_y.astype(np.float64) for on_y in active.y])
    diagonal_sum = active.y @ column_diagonal
    gauge_sum = active.y @ f

    # ∂x = left·(x, p, q, ν) − right, and below it Σ ∂y over each bound, and the gauge
    h = g + A @ (w * f)
    row_diagonal = equations.n + equations.ridge
    left = np.column_stack([np.diag(row_diagonal) - equations.gram(w), -on_bounds, h])
    right = equations.r - A @ (w * c) - on_bounds @ signs
    bound_rows = np.column_stack([-on_bounds.T, np.diag(diagonal_sum), gauge_sum])
    gauge_row = np.append(h, np.append(gauge_sum, -(w @ f)))
    system = np.vstack([left, bound_rows, gauge_row])
    target = np.concatenate([right, signs * diagonal_sum - active.y @ c, [f @ (w * c) + signs @ gauge_sum]])

    # a row on a bound: its equation becomes x = v, and its gradient enters the sum over the bound
    for k, on_x in enumerate(active.x):
        bound = n_rows + k
        system[bound] += left[on_x].sum(axis=0)
        target[bound] += right[on_x].sum()
        rows = np.flatnonzero(on_x)
        system[rows] = 0.0
        target[rows] = 0.0
        system[rows, rows] = 1.0
        system[rows, bound] = -1.0
        if not on_x.any():
            system[bound] = 0.0
            target[bound] = 0.0
            system[bound, bound] = 1.0
    return system, target


def _revise_bounds(equations: Equations, active: OnBound, point: _BoxPoint) -> OnBound:
    """Revise which effects are on the bounds of the box.

    Effects whose multiplier has the wrong sign are released from their bound, and effects that are beyond an active bound
    are put on it.

    active : masks of the effects x of rows and y of columns that were on the upper and on the lower bound
    point : solution with these effects on their bounds

    Returns masks of the same form.
    """
    x, y = point.effects
    g_x, g_y = point.gradient
    n, m = equations.n, equations.m
    revised = OnBound(active.x.copy(), active.y.copy())
    for k, (bound, sign) in enumerate(zip(point.bounds, SIGNS, strict=True)):
        is_active = not np.isnan(bound)
        if not is_active:
            continue

        # an effect on the bound stays there if e·∂x ≤ 0 and e·∂y ≥ 0
        stays_x = sign * g_x <= TOLERANCE * n.max()
        stays_y = sign * g_y >= -TOLERANCE * m.max()

        # an effect off the bound is beyond it unless e(x − v) ≤ 0 and e(y − v + e) ≥ 0
        is_beyond_x = sign * (x - bound) > TOLERANCE
        is_beyond_y = sign * (y - bound + sign) < -TOLERANCE
        revised.x[k] = np.where(active.x[k], stays_x, is_beyond_x) & (n > 0)
        revised.y[k] = np.where(active.y[k], stays_y, is_beyond_y) & (m > 0)

        has_both_sides = revised.x[k].any() and revised.y[k].any()
        if not has_both_sides:  # one side alone cannot hold a bound
            revised.x[k] = False
            revised.y[k] = False
    return revised


def _activate_bounds(equations: Equations, effects: Effects, active: OnBound) -> OnBound:
    """Activate the bounds of the box that predictions x − y cross: put the effects that are beyond a bound on it.

    The position v of the bound solves Σ n·e(x − v)₊ = Σ m·e(v − e − y)₊ approximately, with e = 1 for the upper bound and
    −1 for the lower one.
    """
    n, m = equations.n, equations.m
    revised = OnBound(active.x.copy(), active.y.copy())
    for k, sign in enumerate(SIGNS):
        # with e·x and e·y + 1, both bounds are an upper bound of x and a lower bound of y
        x = sign * effects.x
        y = sign * effects.y + 1
        low, high = y[m > 0].min(), x[n > 0].max()
        is_crossed = high - low > TOLERANCE
        if active.x[k].any() or not is_crossed:
            continue

        # bisection
        while high - low > BISECTION_WIDTH:
            mid = (low + high) / 2
            excess_of_rows = float(n @ np.maximum(x - mid, 0))
            excess_of_columns = float(m @ np.maximum(mid - y, 0))
            if excess_of_rows > excess_of_columns:
                low = mid
            else:
                high = mid
        revised.x[k] = (x >= low) & (n > 0)
        revised.y[k] = (y <= high) & (m > 0)
    return revised


def _measure_violation(equations: Equations, active: OnBound, point: _BoxPoint) -> float:
    """Compute the largest violation of the optimality conditions of a fit with predictions in [−1, 1].

    `point` is the solution with the effects of `active` on their bounds.
    """
    x, y = point.effects
    g_x, g_y = point.gradient

    # the gradients of free effects are 0, and the effects of the observed items sum to 0
    is_free_x = ~active.x.any(axis=0)
    is_free_y = ~active.y.any(axis=0)
    gauge_sum = equations.row_gauge @ x + equations.column_gauge @ y
    violations = [np.abs(g_x[is_free_x]), np.abs(g_y[is_free_y]), np.abs([gauge_sum])]

    # on a bound, gradients have the right sign and sum to 0
    for on_x, on_y, sign in zip(active.x, active.y, SIGNS, strict=True):
        gradient_sum = g_x[on_x].sum() + g_y[on_y].sum()
        violations += [sign * g_x[on_x], -sign * g_y[on_y], np.abs([gradient_sum])]

    # all predictions x − y are in [−1, 1]
    observed_x, observed_y = x[equations.n > 0], y[equations.m > 0]
    above = observed_x.max() - observed_y.min() - 1
    below = observed_y.max() - observed_x.min() - 1
    violations.append(np.array([above, below]))
    return max(float(violation.max(initial=0.0)) for violation in violations)


def fit_censored(cells: Cells, equations: Equations) -> Fit:
    """Fit effects to censored scores: a score of ±1 is only a bound, which the prediction may exceed.

    Parameters
    ----------
    cells : Cells
        Observed cells.
    equations : Equations
        Normal equations of all these cells.

    Returns
    -------
    Fit
        The effects. If `n_rounds` is `MAX_CENSORED_ROUNDS`, they may not have converged; then `kkt` is large.
    """
    saturated = _Saturated(cells, equations)
    effects, n_iterations = solve(equations, equations.r, equations.c)
    excess = saturated.excess(effects)
    kkt = equations.kkt(effects, *saturated.totals(excess))
    largest_total = max(float(np.abs(equations.r).max()), float(np.abs(equations.c).max()))
    tolerance = FLAT * largest_total

    n_rounds = 1
    is_settled = False
    while not is_settled and kkt > tolerance and n_rounds < MAX_CENSORED_ROUNDS:
        is_exceeded = excess != 0
        target, n_solver_iterations = saturated.solve_without(is_exceeded)
        step = Effects(target.x - effects.x, target.y - effects.y)
        length = saturated.line_search(effects, step)
        effects = target if length == 1 else _take_step(effects, length, step)

        excess = saturated.excess(effects)
        kkt = equations.kkt(effects, *saturated.totals(excess))
        is_settled = length == 1 and np.array_equal(is_exceeded, excess != 0)
        n_rounds += 1
        n_iterations += n_solver_iterations
    return Fit(effects, kkt, n_rounds, n_iterations)


def _take_step(effects: Effects, length: float, step: Effects) -> Effects:
    """Return effects + length · step."""
    return Effects(effects.x + length * step.x, effects.y + length * step.y)


class _Saturated:
    """The saturated cells, those of a score of ±1, with their signs in the direction of the rows."""

    def __init__(self, cells: Cells, equations: Equations) -> None:
        row, column, *_ = sides(cells)
        self._cells = cells
        self._equations = equations
        self._index = np.flatnonzero(np.abs(cells.score) == 1)
        self._row = row[self._index]
        self._column = column[self._index]
        direction = -1 if equations.swapped else 1
        self._sign = cells.score[self._index].astype(np.float64) * direction
        if cells.weight is None:
            self._weight = np.ones(len(self._index))
        else:
            self._weight = cells.weight[self._index].astype(float)

    def excess(self, effects: Effects) -> Floats:
        """Compute how far each prediction exceeds its score, 0 if it does not: float array (n_saturated,).

        The excess has the sign of the score in the direction of the rows.
        """
        prediction = effects.x[self._row] - effects.y[self._column]
        return self._excess_of(prediction)

    def _excess_of(self, prediction: Floats) -> Floats:
        """Compute the excess of predictions in the direction of the rows, float array (n_saturated,)."""
        return self._sign * np.maximum(self._sign * prediction - 1, 0)

    def totals(self, excess: Floats) -> tuple[Floats, Floats]:
        """Compute the totals of rows and of columns with every exceeded score replaced by its prediction."""
        equations = self._equations
        moved = self._weight * excess
        row_totals = equations.r + np.bincount(self._row, moved, len(equations.r))
        column_totals = equations.c + np.bincount(self._column, moved, len(equations.c))
        return row_totals, column_totals

    def solve_without(self, is_exceeded: Bools) -> tuple[Effects, int]:
        """Fit all cells except some of the saturated ones (scores of ±1); the effects of the same items sum to 0.

        Parameters
        ----------
        is_exceeded : bool array (n_saturated,)
            Saturated cells to leave out.

        Returns
        -------
        effects : Effects
            Effects of the fit; 0 if no cell is left.
        n_iterations : int
            Number of iterations of the conjugate gradients.
        """
        full = self._equations
        is_used = np.ones(len(self._cells), dtype=np.bool_)
        is_used[self._index[is_exceeded]] = False
        if not is_used.any():
            return Effects(np.zeros(len(full.n)), np.zeros(len(full.m))), 0
        reduced = make_normal_equations(self._cells.where(is_used), ridge=full.ridge)
        reduced = replace(reduced, row_gauge=full.row_gauge, column_gauge=full.column_gauge)
        return solve(reduced, reduced.r, reduced.c)

    def line_search(self, effects: Effects, step: Effects) -> float:
        """Find how much of a step to take: the multiple in (0, 1] at which the objective is smallest.

        The step begins at `effects`. The derivative of the objective along it is piecewise linear and increasing. The
        result is 1 if it does not change sign before the end of the step, or if the objective does not fall at its
        beginning.
        """
        equations = self._equations
        end = Effects(effects.x + step.x, effects.y + step.y)
        slope_at_start = _inner(equations.gradient(effects, equations.r, equations.c), step)
        slope_at_end = _inner(equations.gradient(end, equations.r, equations.c), step)
        prediction = effects.x[self._row] - effects.y[self._column]
        rise = step.x[self._row] - step.y[self._column]

        def slope(length: float) -> float:
            """Compute half the derivative of the objective along the step."""
            without_bounds = slope_at_start + length * (slope_at_end - slope_at_start)
            excess = self._excess_of(prediction + length * rise)
            return without_bounds - float((self._weight * rise) @ excess)

        initial_slope = slope(0.0)
        if slope(1.0) <= FLAT * abs(initial_slope) or initial_slope >= 0:
            return 1.0
        from scipy.optimize import brentq  # takes long to load, and only the last steps need it

        return float(brentq(slope, 0.0, 1.0, xtol=1e-15))


def _inner(gradient: Effects, step: Effects) -> float:
    """Compute the inner product of a gradient and a step, over rows and columns."""
    return float(gradient.x @ step.x + gradient.y @ step.y)
