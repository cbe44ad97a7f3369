"""Fit the additive model to scores in [−1, 1], with saturated scores as bounds (`censored`) or predictions in a box.

Censored: a saturated score, ±1, contributes only if the prediction falls short of it. The objective, with a score s of
weight w, the effects x and y of its row and column, and μ = x − y, Σ_{|s|<1} w(s − μ)² + Σ_{s=1} w(1 − μ)₊² + Σ_{s=−1}
w(1 + μ)₊² + ridge, is convex and piecewise quadratic. A Newton step is the plain fit without the saturated cells that
the predictions exceed; an exact line search along it makes the steps finite in number.

Box: |x_i − y_j| ≤ 1 for every observed row and column. Equivalently, all row effects x are in [q, p] and all column
effects y in [p − 1, q + 1], for some positions p of the upper and q of the lower bound. The fit is a primal–dual
active-set method. It sets the effects that are beyond a bound to the bound, solves for the others, releases the effects
whose multiplier has the wrong sign, and repeats. With sign e = 1 and position v = p for the upper bound, and e = −1 and
v = q for the lower one, the optimality conditions of each bound are:

- e(x − v) ≤ 0 and e(y − v + e) ≥ 0 for all effects;
- e·∂x ≤ 0 and e·∂y ≥ 0 for the gradients ∂x and ∂y of the objective by effects on the bound, which sum to 0.
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
"""Signs e of the upper and the lower bound. Arrays over the two bounds have the same order."""
MAX_BOX_ROUNDS = 50
MAX_BOX_ROWS = 4_000
BISECTION_WIDTH = 1e-3
TOLERANCE = 1e-11
"""An effect is beyond a bound, or a multiplier has the wrong sign, if it is by more than this times the largest
total weight."""
MAX_CENSORED_ROUNDS = 100
RELATIVE_TOLERANCE = 1e-13
"""A gradient counts as zero below this, relative to the largest total score or to the first slope of a line search."""


class Fit(NamedTuple):
    """Effects that were fitted, and how.

    Attributes
    ----------
    effects : Effects
        Effects of rows and columns.
    kkt_residual : float
        Largest absolute residual of the optimality conditions (Karush, Kuhn and Tucker).
    n_rounds : int
        Number of solutions that the constraint needed.
    n_iterations : int
        Number of iterations of the conjugate gradients.
    """

    effects: Effects
    kkt_residual: float
    n_rounds: int
    n_iterations: int


def fit_plain(equations: Equations) -> Fit:
    """Fit without any constraint on the predictions."""
    row_total, column_total = equations.row_total, equations.column_total
    effects, n_iterations = solve(equations, row_total, column_total)
    kkt_residual = equations.compute_kkt_residual(effects, row_total, column_total)
    return Fit(effects, kkt_residual, n_rounds=1, n_iterations=n_iterations)


class OnBound(NamedTuple):
    """Which effects are on a bound: the first row of each array is for the upper bound, the second for the lower one.

    Attributes
    ----------
    rows : bool array (2, n_rows)
        Row effects on the bounds.
    columns : bool array (2, n_columns)
        Column effects on the bounds.
    """

    rows: Bools
    columns: Bools


class _BoxPoint(NamedTuple):
    """Effects that minimize the objective with given effects on the bounds.

    Attributes
    ----------
    effects : Effects
        Effects of rows and columns.
    bounds : float array (2,)
        Upper and lower bound p and q of the row effects; NaN for a bound without an effect on it.
    gradient : Effects
        Half the gradient of the objective by the effects.
    """

    effects: Effects
    bounds: Floats
    gradient: Effects


def fit_box(equations: Equations) -> Fit:
    """Fit effects so that all predictions are in [−1, 1], the box.

    The plain fit is returned if its predictions are in the box. Otherwise, it is the start of an active-set method: the
    effects that are on a bound are revised until they no longer change, at most `MAX_BOX_ROUNDS` times.

    Parameters
    ----------
    equations : Equations
        Normal equations of the cells.

    Returns
    -------
    Fit
        The effects. If the bounds still change after `MAX_BOX_ROUNDS` rounds, `kkt_residual` is large.

    Raises
    ------
    StatisticsError
        [box-too-large]: if the plain fit leaves the box and the smaller side exceeds `MAX_BOX_ROWS`.
    """
    plain = fit_plain(equations)
    n_rows, n_columns = len(equations.row_weight), len(equations.column_weight)
    no_bounds = OnBound(np.zeros((2, n_rows), np.bool_), np.zeros((2, n_columns), np.bool_))
    revised = _add_crossed_bounds(equations, plain.effects, no_bounds)
    is_in_box = not revised.rows.any()
    if is_in_box:
        return plain
    if n_rows > MAX_BOX_ROWS:
        raise StatisticsError(
            f"The fit leaves the box, and the smaller of the numbers of agents and items is too large for it: got {n_rows}, "
            f'at most {MAX_BOX_ROWS}. Set constraint="censored" or "clip".',
            slug="box-too-large",
        )

    n_rounds = 1
    while n_rounds < MAX_BOX_ROUNDS:
        on_bounds = revised
        point = _solve_on_bounds(equations, on_bounds)
        revised = _revise_effects_on_bounds(equations, on_bounds, point)
        revised = _add_crossed_bounds(equations, point.effects, revised)
        n_rounds += 1

        is_settled = np.array_equal(revised.rows, on_bounds.rows) and np.array_equal(revised.columns, on_bounds.columns)
        if is_settled:
            break

    kkt_residual = _compute_largest_violation(equations, on_bounds, point)
    return Fit(point.effects, kkt_residual, n_rounds, plain.n_iterations)


def _solve_on_bounds(equations: Equations, on_bounds: OnBound) -> _BoxPoint:
    """Minimize the objective with given effects on the bounds, and the others free.

    on_bounds : effects that are on the upper and on the lower bound

    Returns the effects, the positions of both bounds, and the gradient.

    The unknowns of the linear system are the row effects, the positions of both bounds, and the multiplier of the
    constraint that the effects of the items sum to 0. The column effects follow from them.
    """
    weights = equations.weights
    row_diagonal = equations.row_weight + equations.ridge
    column_diagonal = equations.column_weight + equations.ridge
    n_rows = len(row_diagonal)

    # solve the system, with one step of iterative refinement
    is_on_any_bound_column = on_bounds.columns.any(axis=0)
    inverse_diagonal = np.where(is_on_any_bound_column, 0.0, 1 / column_diagonal)
    system, target = _make_system(equations, on_bounds, inverse_diagonal)
    factor = lu_factor(system, overwrite_a=False, check_finite=False)
    solution = lu_solve(factor, target, check_finite=False)
    remainder = target - system @ solution
    solution += lu_solve(factor, remainder, check_finite=False)
    row_effect, bounds, multiplier = solution[:n_rows], solution[n_rows:-1], solution[-1]
    row_multiplier = multiplier * equations.row_constraint
    column_multiplier = multiplier * equations.column_constraint

    # the effect of a free column, by which the gradient is 0
    column_effect = inverse_diagonal * (row_effect @ weights - equations.column_total - column_multiplier)

    # a row effect on a bound has the position of the bound; a column effect is 1 below the upper or above the lower bound
    for is_on_bound_row, is_on_bound_column, bound, sign in zip(*on_bounds, bounds, SIGNS, strict=True):
        row_effect[is_on_bound_row] = bound
        column_effect[is_on_bound_column] = bound - sign

    # half the gradient, which is 0 for free effects
    row_gradient = row_diagonal * row_effect - weights @ column_effect - equations.row_total + row_multiplier
    column_gradient = (
        column_diagonal * column_effect - row_effect @ weights + equations.column_total + column_multiplier
    )
    has_effects = on_bounds.rows.any(axis=1)
    return _BoxPoint(
        effects=Effects(row_effect, column_effect),
        bounds=np.where(has_effects, bounds, np.nan),
        gradient=Effects(row_gradient, column_gradient),
    )


def _make_system(equations: Equations, on_bounds: OnBound, w: Floats) -> tuple[Floats, Floats]:
    """Make the linear equations of the row effects x, the bounds p and q, and the multiplier ν of the constraint.

    on_bounds : the effects on the bounds
    w : float array (n_columns,), 1/(m + ridge) for free columns, with m the sum of the column's weights, and 0 for
        columns on a bound

    Returns the matrix, float array (n_rows + 3, n_rows + 3), and the right-hand side, float array (n_rows + 3,). The unknowns are
    in the order x, p, q, ν. The equations have the same order: rows, upper bound, lower bound, constraint.
    """
    # the symbols are those of `Equations`
    A, c = equations.weights, equations.column_total
    g, f = equations.row_constraint, equations.column_constraint
    n_rows = len(equations.row_total)
    row_diagonal = equations.row_weight + equations.ridge
    column_diagonal = equations.column_weight + equations.ridge
    signs = np.array(SIGNS)

    # sums over the columns on each bound: of A, float (n_rows, 2), of the diagonal and of the constraint, float (2,)
    bound_weight = np.column_stack([A @ is_on_bound.astype(np.float64) for is_on_bound in on_bounds.columns])
    bound_diagonal = on_bounds.columns @ column_diagonal
    bound_constraint = on_bounds.columns @ f

    # equation of each row: its gradient, row_matrix·(x, p, q, ν) − row_target, is 0
    h = g + A @ (w * f)
    row_matrix = np.column_stack([np.diag(row_diagonal) - equations.compute_gram_matrix(w), -bound_weight, h])
    row_target = equations.row_total - A @ (w * c) - bound_weight @ signs

    # equation of each bound: the gradients of the columns on it sum to 0
    bound_matrix = np.column_stack([-bound_weight.T, np.diag(bound_diagonal), bound_constraint])
    bound_target = signs * bound_diagonal - on_bounds.columns @ c

    # equation of the constraint: the effects of the items sum to 0
    constraint_row = np.append(h, np.append(bound_constraint, -(w @ f)))
    constraint_target = [f @ (w * c) + signs @ bound_constraint]

    system = np.vstack([row_matrix, bound_matrix, constraint_row])
    target = np.concatenate([row_target, bound_target, constraint_target])
    for k, is_on_bound in enumerate(on_bounds.rows):
        bound = n_rows + k  # index of p or q, and of the equation of the bound
        system[bound] += row_matrix[is_on_bound].sum(axis=0)
        target[bound] += row_target[is_on_bound].sum()

        # the equation of a row on the bound becomes x − bound = 0
        rows = np.flatnonzero(is_on_bound)
        system[rows] = 0.0
        target[rows] = 0.0
        system[rows, rows] = 1.0
        system[rows, bound] = -1.0

        # the position of a bound without effects is arbitrary: 0
        if not is_on_bound.any():
            system[bound] = 0.0
            target[bound] = 0.0
            system[bound, bound] = 1.0
    return system, target


def _revise_effects_on_bounds(equations: Equations, on_bounds: OnBound, point: _BoxPoint) -> OnBound:
    """Choose which row and column effects are fixed at a bound in the next round of the fit.

    Each prediction, row effect − column effect, must be in [−1, 1]. Two bounds ensure this:

    - Upper bound p: row effects are at most p, and column effects at least p − 1.
    - Lower bound q: row effects are at least q, and column effects at most q + 1.

    An effect at a bound stays there, unless a move into the allowed range lowers the objective. Any other effect that violates a
    bound is moved to this bound. A bound without effects gets none.

    on_bounds : effects that are now fixed at the upper and at the lower bound
    point : solution with these effects on their bounds
    """
    # The first row of each array is for the upper bound, the second for the lower one. Multiplying by the sign of the bound, 1
    # or −1, makes the conditions of both bounds the same.
    sign = np.array(SIGNS)[:, None]
    bound = point.bounds[:, None]

    # effects that stay: a positive row gradient at the upper bound means that a smaller effect lowers the objective
    row_stays = sign * point.gradient.rows <= TOLERANCE * equations.row_weight.max()
    column_stays = sign * point.gradient.columns >= -TOLERANCE * equations.column_weight.max()

    # other effects that violate a bound; an empty bound is NaN, so that no effect violates it
    column_bound = bound - sign
    row_is_beyond = sign * (point.effects.rows - bound) > TOLERANCE
    column_is_beyond = sign * (point.effects.columns - column_bound) < -TOLERANCE

    rows = np.where(on_bounds.rows, row_stays, row_is_beyond) & (equations.row_weight > 0)
    columns = np.where(on_bounds.columns, column_stays, column_is_beyond) & (equations.column_weight > 0)

    # a bound needs row effects and column effects, because the gradients on it sum to 0
    is_needed = rows.any(axis=1, keepdims=True) & columns.any(axis=1, keepdims=True)
    return OnBound(rows & is_needed, columns & is_needed)


def _add_crossed_bounds(equations: Equations, effects: Effects, on_bounds: OnBound) -> OnBound:
    """Fix effects at each bound that is violated and has no effects yet.

    A prediction is row effect − column effect, and must be in [−1, 1]. Two bounds ensure this:

    - Upper bound p: row effects are at most p, and column effects at least p − 1. It is violated if a prediction is above 1.
    - Lower bound q: row effects are at least q, and column effects at most q + 1. It is violated if a prediction is below −1.

    The value of a violated bound is found approximately. Effects that exceed the bound, or are close to it, are fixed at it.

    effects : effects of rows and columns
    on_bounds : effects that are already fixed at a bound

    Returns a copy of `on_bounds` with the added effects.
    """
    is_observed_row = equations.row_weight > 0
    is_observed_column = equations.column_weight > 0
    extended = OnBound(on_bounds.rows.copy(), on_bounds.columns.copy())
    unused_bounds = np.flatnonzero(~on_bounds.rows.any(axis=1))
    for bound_index in unused_bounds:
        # Upper bound p: row effect ≤ p ≤ column effect + 1. Lower bound q, with the signs reversed: −row effect ≤ −q ≤ −column
        # effect + 1. Each bound thus limits `row_limited` from above and `column_limited` from below.
        sign = SIGNS[bound_index]
        row_limited = sign * effects.rows
        column_limited = sign * effects.columns + 1
        max_row = row_limited[is_observed_row].max()
        min_column = column_limited[is_observed_column].min()

        is_violated = max_row - min_column > TOLERANCE
        if is_violated:
            low, high = _bisect_bound(equations, row_limited, column_limited, low=min_column, high=max_row)
            extended.rows[bound_index] = (row_limited >= low) & is_observed_row
            extended.columns[bound_index] = (column_limited <= high) & is_observed_column
    return extended


def _bisect_bound(
    equations: Equations, row_effect: Floats, column_effect: Floats, *, low: float, high: float
) -> tuple[float, float]:
    """Find the value of a bound by bisection of the interval [low, high], up to a width of `BISECTION_WIDTH`.

    Row effects must be at most the bound, and column effects at least the bound. The bound is a balance of both conditions: the
    amounts by which row effects exceed it have the same weighted sum as the amounts by which column effects fall below it.

    row_effect, column_effect : float arrays (n_rows,), (n_columns,), effects, transformed to the scale of the bound
    low, high : ends of the interval

    Returns the ends of the narrowed interval.
    """
    while high - low > BISECTION_WIDTH:
        midpoint = (low + high) / 2
        row_excess = np.maximum(row_effect - midpoint, 0)
        column_shortfall = np.maximum(midpoint - column_effect, 0)
        weighted_excess = equations.row_weight @ row_excess
        weighted_shortfall = equations.column_weight @ column_shortfall
        if weighted_excess > weighted_shortfall:  # the bound is too low
            low = midpoint
        else:
            high = midpoint
    return low, high


def _compute_largest_violation(equations: Equations, on_bounds: OnBound, point: _BoxPoint) -> float:
    """Compute the largest violation of the optimality conditions of a fit with predictions in [−1, 1].

    The result is 0 for an exact solution.

    on_bounds : effects that are fixed at the upper and at the lower bound
    point : solution with these effects on their bounds
    """
    row_effect, column_effect = point.effects

    # the effects of the observed items sum to 0
    item_sum = equations.row_constraint @ row_effect + equations.column_constraint @ column_effect

    # the largest and the smallest prediction, row effect − column effect, are in [−1, 1]
    observed_row_effect = row_effect[equations.row_weight > 0]
    observed_column_effect = column_effect[equations.column_weight > 0]
    max_prediction = observed_row_effect.max() - observed_column_effect.min()
    min_prediction = observed_row_effect.min() - observed_column_effect.max()

    return max(
        abs(float(item_sum)),
        float(max_prediction) - 1,
        -1 - float(min_prediction),
        _compute_largest_gradient_violation(on_bounds, point.gradient),
    )


def _compute_largest_gradient_violation(on_bounds: OnBound, gradient: Effects) -> float:
    """Compute the largest violation of the conditions that a gradient meets at the optimum of a fit with bounds.

    The conditions are:

    - The gradient of each effect that is not at a bound is 0.
    - The objective does not decrease if an effect at a bound moves into the allowed range.
    - The gradients of all effects at the same bound sum to 0.

    on_bounds : effects that are fixed at the upper and at the lower bound
    gradient : gradient of the objective by the row and column effects, divided by 2

    Returns the violation, 0 if all conditions hold.
    """
    # effects that are not at a bound have the gradient 0
    is_free_row = ~on_bounds.rows.any(axis=0)
    is_free_column = ~on_bounds.columns.any(axis=0)
    violations = [np.abs(gradient.rows[is_free_row]), np.abs(gradient.columns[is_free_column])]

    # on the upper bound (sign 1), a positive row gradient or a negative column gradient is a violation; on the lower, reversed
    for bound_index, sign in enumerate(SIGNS):
        row_gradient = gradient.rows[on_bounds.rows[bound_index]]
        column_gradient = gradient.columns[on_bounds.columns[bound_index]]
        gradient_sum = row_gradient.sum() + column_gradient.sum()
        violations += [sign * row_gradient, -sign * column_gradient, np.abs([gradient_sum])]

    all_violations = np.concatenate(violations)  # negative values meet their condition
    return float(all_violations.max(initial=0.0))


def fit_censored(cells: Cells, equations: Equations) -> Fit:
    """Fit row and column effects to censored scores: a prediction above a score of 1, or below a score of −1, is no error.

    The objective is the ridge penalty plus the weighted sum of squared residuals. A residual is score − prediction. It counts as
    0 for a score of 1 with a prediction above 1, and for a score of −1 with a prediction below −1.

    Each round is a Newton step. It ignores the cells whose residual now counts as 0, and fits the other cells by least squares.
    It stops where the objective along this step is smallest.

    Parameters
    ----------
    cells : Cells
        Observed cells.
    equations : Equations
        Normal equations of all these cells.

    Returns
    -------
    Fit
        The effects. If `n_rounds` is `MAX_CENSORED_ROUNDS`, the effects may not have converged. In this case,
        `kkt_residual` is large.
    """
    saturated = _Saturated(cells, equations)
    effects, n_iterations = solve(equations, equations.row_total, equations.column_total)
    excess = saturated.excess(effects)
    kkt_residual = saturated.compute_kkt_residual(effects, excess)
    tolerance = RELATIVE_TOLERANCE * equations.max_total

    n_rounds = 1
    is_settled = False
    while not is_settled and kkt_residual > tolerance and n_rounds < MAX_CENSORED_ROUNDS:
        is_exceeded = excess != 0
        newton_target, n_solver_iterations = saturated.fit_without(is_exceeded)
        step = Effects(newton_target.rows - effects.rows, newton_target.columns - effects.columns)
        step_fraction = saturated.find_best_step_fraction(effects, step)
        effects = newton_target if step_fraction == 1 else _take_part_of_step(effects, step, step_fraction)

        # the fit is exact if the predictions after a full step exceed the same scores
        excess = saturated.excess(effects)
        kkt_residual = saturated.compute_kkt_residual(effects, excess)
        is_settled = step_fraction == 1 and np.array_equal(is_exceeded, excess != 0)
        n_rounds += 1
        n_iterations += n_solver_iterations
    return Fit(effects, kkt_residual, n_rounds, n_iterations)


def _take_part_of_step(start: Effects, step: Effects, fraction: float) -> Effects:
    """Return the effects at `start` plus `fraction` times `step`."""
    return Effects(start.rows + fraction * step.rows, start.columns + fraction * step.columns)


class _Saturated:
    """The saturated cells, whose score is ±1, with their rows, columns, weights and signs.

    The sign is that of the score; it is reversed if rows are items.
    """

    def __init__(self, cells: Cells, equations: Equations) -> None:
        row, column, *_ = sides(cells)
        self._cells = cells
        self._equations = equations
        self._index = np.flatnonzero(np.abs(cells.score) == 1)
        self._row = row[self._index]
        self._column = column[self._index]
        direction = -1 if equations.rows_are_items else 1
        self._sign = cells.score[self._index].astype(np.float64) * direction
        if cells.weight is None:
            self._weight = np.ones(len(self._index))
        else:
            self._weight = cells.weight[self._index].astype(float)

    def excess(self, effects: Effects) -> Floats:
        """Compute how far each prediction exceeds its score, 0 if it does not: float array (n_saturated,).

        The excess has the sign of the score in the direction of the rows.
        """
        return self._compute_excess(self._predict(effects))

    def _predict(self, effects: Effects) -> Floats:
        """Predict the saturated cells by row effect − column effect, float array (n_saturated,)."""
        return effects.rows[self._row] - effects.columns[self._column]

    def _compute_excess(self, prediction: Floats) -> Floats:
        """Compute the excess of predictions in the direction of the rows, float array (n_saturated,)."""
        return self._sign * np.maximum(self._sign * prediction - 1, 0)

    def compute_kkt_residual(self, effects: Effects, excess: Floats) -> float:
        """Compute the largest error of row and column effects in the optimality conditions of the fit.

        A saturated cell has a score of 1 or −1. A prediction beyond this score, such as 1.2 for a score of 1, is not an error.
        The score is therefore replaced by the prediction, score + excess, so that the residual is 0.

        effects : effects of rows and columns
        excess : float array (n_saturated,), prediction minus score of each saturated cell; 0 if the prediction is not beyond the
            score. A prediction is row effect − column effect; the score has the opposite sign if rows are items.

        Returns the largest absolute residual of the equations, in units of weight × score; 0 at the exact solution.
        """
        # sums of weight × (score + excess) over the cells of each row and of each column
        equations = self._equations
        weighted_excess = self._weight * excess
        n_rows, n_columns = len(equations.row_total), len(equations.column_total)
        row_total = equations.row_total + np.bincount(self._row, weighted_excess, n_rows)
        column_total = equations.column_total + np.bincount(self._column, weighted_excess, n_columns)
        return equations.compute_kkt_residual(effects, row_total, column_total)

    def fit_without(self, is_left_out: Bools) -> tuple[Effects, int]:
        """Fit the effects to all cells except the given saturated ones, without any constraint on the predictions.

        The effects of all observed items sum to 0, even if an item has no remaining cell. All effects are 0 if no cell remains.

        is_left_out : bool array (n_saturated,), saturated cells (score ±1) to leave out

        Returns the effects, and the number of iterations of the conjugate gradients.
        """
        all_equations = self._equations
        is_used = np.ones(len(self._cells), dtype=np.bool_)
        is_used[self._index[is_left_out]] = False
        if not is_used.any():
            zero_rows = np.zeros(len(all_equations.row_weight))
            zero_columns = np.zeros(len(all_equations.column_weight))
            return Effects(zero_rows, zero_columns), 0

        # keep the constraint of all cells: the effects of the observed items sum to 0
        equations = replace(
            make_normal_equations(self._cells.where(is_used), ridge=all_equations.ridge),
            row_constraint=all_equations.row_constraint,
            column_constraint=all_equations.column_constraint,
        )
        return solve(equations, equations.row_total, equations.column_total)

    def find_best_step_fraction(self, effects: Effects, step: Effects) -> float:
        """Find the fraction of a step, in (0, 1], at which the objective of the fit is smallest.

        The objective is convex, so its minimum is where its slope is 0. The result is 1 if the objective decreases along the
        whole step. It is also 1 if the objective does not decrease at the start.

        effects : effects at the beginning of the step
        step : changes of the effects over the whole step
        """
        # The objective is that of least squares minus Σ weight·excess². The excess is the part of a prediction beyond a score of
        # ±1.
        end = _take_part_of_step(effects, step, 1.0)
        plain_slope_at_start = self._compute_plain_slope(effects, step)
        plain_slope_change = self._compute_plain_slope(end, step) - plain_slope_at_start
        prediction_at_start = self._predict(effects)
        prediction_change = self._predict(step)

        def compute_slope(fraction: float) -> float:
            """Compute half the derivative of the objective after a fraction of the step."""
            plain_slope = plain_slope_at_start + fraction * plain_slope_change
            excess = self._compute_excess(prediction_at_start + fraction * prediction_change)
            excess_slope = (self._weight * prediction_change) @ excess  # half the derivative of Σ weight·excess²
            return plain_slope - float(excess_slope)

        slope_at_start = compute_slope(0.0)
        falls_until_end = compute_slope(1.0) <= RELATIVE_TOLERANCE * abs(slope_at_start)
        if falls_until_end or slope_at_start >= 0:
            return 1.0

        from scipy.optimize import brentq  # takes long to load, and only the last steps need it

        return float(brentq(compute_slope, 0.0, 1.0, xtol=1e-15))

    def _compute_plain_slope(self, effects: Effects, step: Effects) -> float:
        """Compute half the derivative of the plain objective along a step."""
        gradient = self._equations.gradient(effects, self._equations.row_total, self._equations.column_total)
        return float(gradient.rows @ step.rows + gradient.columns @ step.columns)
