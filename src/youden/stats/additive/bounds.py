"""Fit the additive model to scores in [−1, 1], with saturated scores as bounds (`censored`) or predictions in a box.

Censored: a saturated score, ±1, contributes only if the prediction falls short of it. The objective, with μ = x − y,
Σ_{|s|<1} w(s − μ)² + Σ_{s=1} w(1 − μ)₊² + Σ_{s=−1} w(1 + μ)₊² + ridge, is convex and piecewise quadratic. A Newton step
is the plain fit without the saturated cells that the predictions exceed; an exact line search along it makes the steps
finite in number.

Box: |x_i − y_j| ≤ 1 for every observed row and column, that is, x ∈ [q, p] and y ∈ [p − 1, q + 1] for some p and q. A
primal–dual active set puts the effects that are beyond a bound on it, solves for the others, releases the effects
whose multiplier has the wrong sign, and repeats. At the upper bound (e = 1, v = p) and at the lower one (e = −1, v =
q): e(x − v) ≤ 0, e(y − v + e) ≥ 0, effects on the bound have e·∂x ≤ 0 and e·∂y ≥ 0, and the gradients over a bound sum
to 0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from youden.errors import StatisticsError
from youden.stats.additive.elimination import Effects, Equations, equate, sides, solve
from youden.stats.additive.observed_cells import Cells
from youden.types.pool import Bools, Floats

SIGNS = (1.0, -1.0)
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
    """Effects, their largest optimality residual, and numbers of solutions and CG iterations."""

    effects: Effects
    kkt: float
    n_rounds: int
    n_iterations: int


def fit_plain(equations: Equations) -> Fit:
    """Fit without any constraint."""
    effects, n_iterations = solve(equations, equations.r, equations.c)
    return Fit(effects, equations.kkt(effects, equations.r, equations.c), 1, n_iterations)


class OnBound(NamedTuple):
    """Which effects are on the upper and on the lower bound: bool (2, n_rows) and (2, n_columns)."""

    x: Bools
    y: Bools


class _BoxPoint(NamedTuple):
    """Effects for given active sets, the bounds (NaN if inactive), and half the gradient there."""

    effects: Effects
    bounds: Floats
    gradient: Effects


def fit_box(equations: Equations) -> Fit:
    """Fit with all predictions in [−1, 1], starting from the plain fit.

    Raises: StatisticsError [box-too-large] if the plain fit leaves the box and the smaller side exceeds `MAX_BOX_ROWS`.
    """
    plain = fit_plain(equations)
    n_rows, n_columns = len(equations.n), len(equations.m)
    nothing = OnBound(np.zeros((2, n_rows), np.bool_), np.zeros((2, n_columns), np.bool_))
    active = _activate(equations, plain.effects, nothing)
    if not active.x.any():
        return plain
    if n_rows > MAX_BOX_ROWS:
        raise StatisticsError(
            f"The fit leaves the box, and the smaller of the numbers of agents and items is too large for it: got {n_rows}, "
            f'at most {MAX_BOX_ROWS}. Set constraint="censored" or "clip".',
            slug="box-too-large",
        )
    n_rounds, n_iterations, is_settled = 1, plain.n_iterations, False
    while not is_settled and n_rounds < MAX_BOX_ROUNDS:
        point = _solve_on_bounds(equations, active)
        revised = _activate(equations, point.effects, _revise(equations, active, point))
        is_settled = all(np.array_equal(new, old) for new, old in zip(revised, active, strict=True))
        solved, active = active, revised
        n_rounds += 1
    return Fit(point.effects, _box_residual(equations, solved, point), n_rounds, n_iterations)


def _solve_on_bounds(equations: Equations, active: OnBound) -> _BoxPoint:
    """Minimise with the active effects on their bounds p, q.

    Eliminating the free columns leaves n_rows + 3 unknowns: x, p, q and ν.
    """
    A, m, r, c, g, f = (
        equations.A,
        equations.m,
        equations.r,
        equations.c,
        equations.row_gauge,
        equations.column_gauge,
    )
    K, signs, d = len(r), np.array(SIGNS), equations.n + equations.ridge
    w = np.where(active.y.any(axis=0), 0.0, 1 / (m + equations.ridge))
    on_bounds = np.column_stack([A @ side.astype(np.float64) for side in active.y])
    h = g + A @ (w * f)
    heavy = active.y @ (m + equations.ridge)

    # ∂x = left·(x, p, q, ν) − right, and below it Σ ∂y over each bound, and the gauge
    left = np.column_stack([np.diag(d) - equations.gram(w), -on_bounds, h])
    right = r - A @ (w * c) - on_bounds @ signs
    sums = np.column_stack([-on_bounds.T, np.diag(heavy), active.y @ f])
    system = np.vstack([left, sums, np.append(h, np.append(active.y @ f, -(w @ f)))])
    target = np.concatenate([right, signs * heavy - active.y @ c, [f @ (w * c) + signs @ (active.y @ f)]])
    for k, side in enumerate(active.x):
        system[K + k] += left[side].sum(axis=0)
        target[K + k] += right[side].sum()
        system[:K][side], target[:K][side] = 0.0, 0.0
        system[:K][side, np.flatnonzero(side)] = 1.0
        system[:K][side, K + k] = -1.0
        if not side.any():
            system[K + k], target[K + k] = 0.0, 0.0
            system[K + k, K + k] = 1.0

    factor = lu_factor(system, overwrite_a=False, check_finite=False)
    z = lu_solve(factor, target, check_finite=False)
    z += lu_solve(factor, target - system @ z, check_finite=False)
    x, bounds, nu = z[:K], z[K:-1], z[-1]
    y = w * (x @ A - c - nu * f)
    for side_x, side_y, v, e in zip(active.x, active.y, bounds, SIGNS, strict=True):
        x[side_x], y[side_y] = v, v - e
    g_x = d * x - A @ y - r + nu * g
    g_y = (m + equations.ridge) * y - x @ A + c + nu * f
    is_on = active.x.any(axis=1)
    return _BoxPoint(Effects(x, y), np.where(is_on, bounds, np.nan), Effects(g_x, g_y))


def _revise(equations: Equations, active: OnBound, point: _BoxPoint) -> OnBound:
    """Release effects whose multiplier has the wrong sign and add effects beyond an active bound."""
    (x, y), (g_x, g_y) = point.effects, point.gradient
    n, m = equations.n, equations.m
    revised = OnBound(active.x.copy(), active.y.copy())
    for k, (v, e) in enumerate(zip(point.bounds, SIGNS, strict=True)):
        if np.isnan(v):
            continue
        revised.x[k] = np.where(active.x[k], e * g_x <= TOLERANCE * n.max(), e * (x - v) > TOLERANCE) & (n > 0)
        revised.y[k] = np.where(active.y[k], e * g_y >= -TOLERANCE * m.max(), e * (y - v + e) < -TOLERANCE) & (m > 0)
        if not (revised.x[k].any() and revised.y[k].any()):  # one side alone cannot hold a bound
            revised.x[k], revised.y[k] = False, False
    return revised


def _activate(equations: Equations, effects: Effects, active: OnBound) -> OnBound:
    """Activate each inactive bound that is crossed, at the v with Σ n·e(x − v)₊ = Σ m·e(v − e − y)₊."""
    n, m = equations.n, equations.m
    revised = OnBound(active.x.copy(), active.y.copy())
    for k, e in enumerate(SIGNS):
        x, y = e * effects.x, e * effects.y + 1
        low, high = y[m > 0].min(), x[n > 0].max()
        if active.x[k].any() or high - low <= TOLERANCE:
            continue
        while high - low > BISECTION_WIDTH:
            mid = (low + high) / 2
            is_above = float(n @ np.maximum(x - mid, 0)) > float(m @ np.maximum(mid - y, 0))
            low, high = (mid, high) if is_above else (low, mid)
        revised.x[k], revised.y[k] = (x >= low) & (n > 0), (y <= high) & (m > 0)
    return revised


def _box_residual(equations: Equations, active: OnBound, point: _BoxPoint) -> float:
    """Compute the largest violation of the optimality conditions: gradients, their signs and sums, bounds, gauge."""
    (x, y), (g_x, g_y) = point.effects, point.gradient
    violations = [np.abs(g_x[~active.x.any(axis=0)]), np.abs(g_y[~active.y.any(axis=0)])]
    violations.append(np.abs([equations.row_gauge @ x + equations.column_gauge @ y]))
    for side_x, side_y, e in zip(active.x, active.y, SIGNS, strict=True):
        violations += [e * g_x[side_x], -e * g_y[side_y], np.abs([g_x[side_x].sum() + g_y[side_y].sum()])]
    seen_x, seen_y = x[equations.n > 0], y[equations.m > 0]
    violations.append(np.array([seen_x.max() - seen_y.min() - 1, seen_y.max() - seen_x.min() - 1]))
    return max(float(group.max(initial=0.0)) for group in violations)


def fit_censored(cells: Cells, equations: Equations) -> Fit:
    """Fit with saturated scores as bounds. equations: the equations of all cells."""
    saturated = _Saturated(cells, equations)
    effects, n_iterations = solve(equations, equations.r, equations.c)
    excess = saturated.excess(effects)
    kkt = equations.kkt(effects, *saturated.totals(excess))
    flat = FLAT * max(float(np.abs(equations.r).max()), float(np.abs(equations.c).max()))
    n_rounds, is_settled = 1, False
    while not is_settled and kkt > flat and n_rounds < MAX_CENSORED_ROUNDS:
        is_exceeded = excess != 0
        target, n_more = saturated.solve_without(is_exceeded)
        step = Effects(target.x - effects.x, target.y - effects.y)
        length = saturated.line_search(effects, step)
        effects = target if length == 1 else Effects(effects.x + length * step.x, effects.y + length * step.y)
        excess = saturated.excess(effects)
        kkt = equations.kkt(effects, *saturated.totals(excess))
        is_settled = length == 1 and np.array_equal(is_exceeded, excess != 0)
        n_rounds, n_iterations = n_rounds + 1, n_iterations + n_more
    return Fit(effects, kkt, n_rounds, n_iterations)


class _Saturated:
    """The saturated cells: their row, column, weight, and the sign of their score in the direction of the rows."""

    def __init__(self, cells: Cells, equations: Equations) -> None:
        row, column, *_ = sides(cells)
        self._cells, self._equations = cells, equations
        self._index = np.flatnonzero(np.abs(cells.score) == 1)
        self._row, self._column = row[self._index], column[self._index]
        self._sign = cells.score[self._index].astype(np.float64) * (-1 if equations.swapped else 1)
        self._weight = np.ones(len(self._index)) if cells.weight is None else cells.weight[self._index].astype(float)

    def excess(self, effects: Effects) -> Floats:
        """Compute how far each prediction exceeds its score, 0 if it does not, in the direction of the rows."""
        return self._beyond(effects.x[self._row] - effects.y[self._column])

    def _beyond(self, mu: Floats) -> Floats:
        return self._sign * np.maximum(self._sign * mu - 1, 0)

    def totals(self, excess: Floats) -> tuple[Floats, Floats]:
        """Compute row and column totals with every exceeded score replaced by its prediction."""
        moved, equations = self._weight * excess, self._equations
        r = equations.r + np.bincount(self._row, moved, len(equations.r))
        c = equations.c + np.bincount(self._column, moved, len(equations.c))
        return r, c

    def solve_without(self, is_exceeded: Bools) -> tuple[Effects, int]:
        """Fit the cells without the exceeded saturated ones, under the same gauge."""
        is_used = np.ones(len(self._cells), dtype=np.bool_)
        is_used[self._index[is_exceeded]] = False
        full = self._equations
        if not is_used.any():
            return Effects(np.zeros(len(full.n)), np.zeros(len(full.m))), 0
        reduced = equate(self._cells.where(is_used), ridge=full.ridge)
        reduced = replace(reduced, row_gauge=full.row_gauge, column_gauge=full.column_gauge)
        return solve(reduced, reduced.r, reduced.c)

    def line_search(self, effects: Effects, step: Effects) -> float:
        """Find the length in (0, 1] at which the objective stops falling along the step."""
        equations = self._equations
        end = Effects(effects.x + step.x, effects.y + step.y)
        slope_at_start, slope_at_end = (
            _inner(equations.gradient(point, equations.r, equations.c), step) for point in (effects, end)
        )
        mu = effects.x[self._row] - effects.y[self._column]
        rise = step.x[self._row] - step.y[self._column]

        def slope(t: float) -> float:
            quadratic = slope_at_start + t * (slope_at_end - slope_at_start)
            return quadratic - float((self._weight * rise) @ self._beyond(mu + t * rise))

        first = slope(0.0)
        if slope(1.0) <= FLAT * abs(first) or first >= 0:
            return 1.0
        from scipy.optimize import brentq  # takes long to load, and only the last steps need it

        return float(brentq(slope, 0.0, 1.0, xtol=1e-15))


def _inner(gradient: Effects, step: Effects) -> float:
    return float(gradient.x @ step.x + gradient.y @ step.y)
