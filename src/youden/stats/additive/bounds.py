"""What becomes of scores at the edge of [-1, 1]: the box of the derivation, and saturated scores as bounds only.

In the box, |x_i − y_j| ≤ 1 for every row and column seen: x ∈ [q, p] and y ∈ [p − 1, q + 1] for some p and q, 2(K + J) bounds
instead of K·J. A primal–dual active set merges what lies beyond a bound into it, solves for the rest, frees what a bound holds
against its will, and repeats. At the upper bound (e = 1, v = p) and the lower one (e = −1, v = q) alike: e(x − v) ≤ 0 and
e(y − v + e) ≥ 0; what is merged has e·∂x ≤ 0 and e·∂y ≥ 0, and over a bound the two sums cancel. Should the sets go round in a
circle, the dual problem names them by non-negative least squares.

As a bound only, a saturated score, ±1, pays for a prediction short of it: min Σ_{|s|<1} w(s − μ)² + Σ_{s=1} w(1 − μ)₊² +
Σ_{s=−1} w(1 + μ)₊² + ridge, μ = x − y. It is convex, and quadratic as long as no prediction passes the edge. Newton's step is the
plain fit without the saturated cells that are overshot; an exact line search along it makes the steps finite in number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, lu_factor, lu_solve, solve_triangular

from youden.errors import StatisticsError
from youden.nouns.pool import Bools, Floats
from youden.stats.additive.elimination import Effects, Equations, Found, equate, fit_plain, largest
from youden.stats.additive.observed_cells import Cells, sides

_SIGNS = (1.0, -1.0)
_ROUNDS = 50
_ROWS = 4_000
_DUAL_SIZE = 2_000
_NEAR = 1e-3
_EDGE = 1e-11
"""Beyond a bound, or pulled off it, by more than this (times the cells of the largest row or column) counts."""


class Merged(NamedTuple):
    """What lies on the upper and on the lower bound: bool[2, K] rows, bool[2, J] columns."""

    x: Bools
    y: Bools


class _Point(NamedTuple):
    """A solution for given sets, its bounds (NaN where nothing is on one), and half the gradient there."""

    effects: Effects
    bounds: Floats
    gradient: Effects


def fit_box(equations: Equations) -> Found:
    """The fit in the box, from the plain one.

    Raises: StatisticsError [box-too-large] where it is needed and K, the smaller side, is above 4,000.
    """
    plain = fit_plain(equations)
    free = Merged(np.zeros((2, len(plain.effects.x)), np.bool_), np.zeros((2, len(plain.effects.y)), np.bool_))
    merged = _merge_anew(equations, plain.effects, free)
    if not merged.x.any():
        return plain
    if len(equations.d) > _ROWS:
        raise StatisticsError(
            f"The fit leaves the box, and {len(equations.d)} agents and items are too many to solve it in (at most {_ROWS} on "
            'the smaller side). Use constraint="censored" or "clip".',
            slug="box-too-large",
        )
    found, settled = pursue(equations, merged)
    if not settled and sum(map(len, plain.effects)) <= _DUAL_SIZE:
        again, _ = pursue(equations, sets_by_dual(equations))
        found = min(found, again, key=lambda one: one.kkt)
    return found


def pursue(equations: Equations, merged: Merged) -> tuple[Found, bool]:
    """The solution from these sets on, revised until they stay; whether they did, or came round in a circle."""
    before: set[bytes] = set()
    n_rounds, settled, circling = 1, False, False
    while not (settled or circling) and n_rounds < _ROUNDS:
        point = _solve(equations, merged)
        revised = _merge_anew(equations, point.effects, _revise(equations, merged, point))
        settled = all(np.array_equal(now, then) for now, then in zip(revised, merged, strict=True))
        trace = np.packbits(np.hstack(revised)).tobytes()
        circling = trace in before
        before.add(trace)
        solved, merged = merged, revised
        n_rounds += 1
    return Found(point.effects, _certificate(equations, solved, point), n_rounds), settled


def sets_by_dual(equations: Equations) -> Merged:
    """What lies on a bound at the solution, by non-negative least squares on the dual problem (least-distance programming).

    Source: Lawson and Hanson (1974), Solving Least Squares Problems, chapter 23.
    """
    n, m = equations.totals[:2]
    K, J = len(n), len(m)
    A = np.column_stack([equations.table.rows(unit) for unit in np.eye(J)])
    H = np.zeros((K + J + 2, K + J + 2))
    H[:K, :K], H[K:-2, K:-2] = np.diag(equations.d), np.diag(1 / equations.w)
    H[:K, K:-2], H[K:-2, :K] = -A, -A.T
    gauge = np.concatenate([*equations.gauge, [0.0, 0.0]])
    H += n.mean() * np.outer(gauge, gauge) + np.diag(np.repeat([0.0, equations.ridge], [K + J, 2]))
    blocks = []
    for k, e in enumerate(_SIGNS):
        bound = np.zeros((K + J, 2))
        bound[:, k] = np.repeat([e, -e], [K, J])
        blocks.append(np.hstack([np.diag(np.repeat([-e, e], [K, J])), bound]))
    G, g = np.vstack(blocks), np.tile(np.repeat([0.0, -1.0], [K, J]), 2)
    kept = np.tile(np.concatenate([n, m]) > 0, 2)
    L = cholesky(H, lower=True)
    centre = solve_triangular(L, np.concatenate([equations.totals.r, -equations.totals.c, [0.0, 0.0]]), lower=True)
    across = solve_triangular(L, G[kept].T, lower=True)
    short = g[kept] - across.T @ centre
    multiplier = np.zeros(2 * (K + J))
    from scipy.optimize import nnls  # takes long to load, and few fits need it

    multiplier[kept], _ = nnls(np.vstack([across, short]), np.append(np.zeros(len(L)), 1.0), maxiter=100 * len(L))
    x, y = np.hsplit(multiplier.reshape(2, K + J) > 0, [K])
    held = (x.any(axis=1) & y.any(axis=1)).reshape(2, 1)  # one side alone cannot hold a bound
    return Merged(x & held, y & held)


def _solve(equations: Equations, merged: Merged) -> _Point:
    """Minimum with the merged on their bounds p, q: K + 3 unknowns x, p, q, ν after eliminating the free columns."""
    table, (_, m, r, c), (g, f) = equations.table, equations.totals, equations.gauge
    K, signs = len(r), np.array(_SIGNS)
    w = np.where(merged.y.any(axis=0), 0.0, equations.w)
    held = np.column_stack([table.rows(side.astype(np.float64)) for side in merged.y])
    h = g + table.rows(w * f)
    on = [bool(side.any()) for side in merged.x]
    heavy = merged.y @ (m + equations.ridge)
    # ∂x = left·(x, p, q, ν) − right, and below it Σ ∂y over each bound.
    left = np.column_stack([np.diag(equations.d) - table.gram(w), -held, h])
    right = r - table.rows(w * c) - held @ signs
    sums = np.column_stack([-held.T, np.diag(heavy), merged.y @ f])
    system = np.vstack([left, sums, np.append(h, np.append(merged.y @ f, -(w @ f)))])
    target = np.concatenate([right, signs * heavy - merged.y @ c, [f @ (w * c) + signs @ (merged.y @ f)]])
    for k, side in enumerate(merged.x):
        system[K + k] += left[side].sum(axis=0)
        target[K + k] += right[side].sum()
        system[:K][side], target[:K][side] = 0.0, 0.0
        system[:K][side, np.flatnonzero(side)] = 1.0
        system[:K][side, K + k] = -1.0
        if not on[k]:
            system[K + k], target[K + k] = 0.0, 0.0
            system[K + k, K + k] = 1.0
    factor = lu_factor(system, overwrite_a=False, check_finite=False)
    z = lu_solve(factor, target, check_finite=False)
    z += lu_solve(factor, target - system @ z, check_finite=False)
    x, bounds, nu = z[:K], z[K:-1], z[-1]
    y = w * (table.columns(x) - c - nu * f)
    for side_x, side_y, v, e in zip(merged.x, merged.y, bounds, _SIGNS, strict=True):
        x[side_x], y[side_y] = v, v - e
    g_x = equations.d * x - table.rows(y) - r + nu * g
    g_y = y / equations.w - table.columns(x) + c + nu * f
    return _Point(Effects(x, y), np.where(on, bounds, np.nan), Effects(g_x, g_y))


def _revise(equations: Equations, merged: Merged, point: _Point) -> Merged:
    """Less what its bound pulls the wrong way, more what lies beyond a bound in use; a bound without both sides is off."""
    (x, y), (g_x, g_y) = point.effects, point.gradient
    n, m = equations.totals[:2]
    revised = Merged(merged.x.copy(), merged.y.copy())
    for k, (v, e) in enumerate(zip(point.bounds, _SIGNS, strict=True)):
        if np.isnan(v):
            continue
        revised.x[k] = np.where(merged.x[k], e * g_x <= _EDGE * n.max(), e * (x - v) > _EDGE) & (n > 0)
        revised.y[k] = np.where(merged.y[k], e * g_y >= -_EDGE * m.max(), e * (y - v + e) < -_EDGE) & (m > 0)
        if not (revised.x[k].any() and revised.y[k].any()):
            revised.x[k], revised.y[k] = False, False
    return revised


def _merge_anew(equations: Equations, effects: Effects, merged: Merged) -> Merged:
    """For a bound that is off and crossed: merged beyond the v at which Σ n·e(x − v)₊ = Σ m·e(v − e − y)₊."""
    n, m = equations.totals[:2]
    revised = Merged(merged.x.copy(), merged.y.copy())
    for k, e in enumerate(_SIGNS):
        x, y = e * effects.x, e * effects.y + 1
        low, high = y[m > 0].min(), x[n > 0].max()
        if merged.x[k].any() or high - low <= _EDGE:
            continue
        while high - low > _NEAR:
            v = (low + high) / 2
            above = float(n @ np.maximum(x - v, 0)) > float(m @ np.maximum(v - y, 0))
            low, high = (v, high) if above else (low, v)
        revised.x[k], revised.y[k] = (x >= low) & (n > 0), (y <= high) & (m > 0)
    return revised


def _certificate(equations: Equations, merged: Merged, point: _Point) -> float:
    """The largest violation of the optimality conditions: gradients, their signs and sums, the bounds, the gauge."""
    (x, y), (g_x, g_y) = point.effects, point.gradient
    n, m = equations.totals[:2]
    wrong = [np.abs(g_x[~merged.x.any(axis=0)]), np.abs(g_y[~merged.y.any(axis=0)])]
    wrong.append(np.abs([equations.gauge.row @ x + equations.gauge.column @ y]))
    for side_x, side_y, e in zip(merged.x, merged.y, _SIGNS, strict=True):
        wrong += [e * g_x[side_x], -e * g_y[side_y], np.abs([g_x[side_x].sum() + g_y[side_y].sum()])]
    seen_x, seen_y = x[n > 0], y[m > 0]
    wrong.append(np.array([seen_x.max() - seen_y.min() - 1, seen_y.max() - seen_x.min() - 1]))
    return max(float(part.max(initial=0.0)) for part in wrong)


_ROUNDS_OF_CENSORED = 100
_FLAT = 1e-13
"""A gradient this small is none: against the largest total, or the first slope of a line search."""


def fit_censored(cells: Cells, equations: Equations) -> Found:
    """The censored fit of cells, of which `equations` are the plain ones."""
    edge = _Edge(cells, equations)
    effects = equations.solve(*edge.plain)
    over = edge.overshoot(effects)
    kkt, enough = equations.kkt(effects, *edge.totals(over)), _FLAT * largest(*edge.plain)
    n_rounds, settled = 1, False
    while not settled and kkt > enough and n_rounds < _ROUNDS_OF_CENSORED:
        passed = over != 0
        target = edge.without(passed)
        step = Effects(target.x - effects.x, target.y - effects.y)
        length = edge.search(effects, step)
        effects = target if length == 1 else Effects(effects.x + length * step.x, effects.y + length * step.y)
        over = edge.overshoot(effects)
        kkt = equations.kkt(effects, *edge.totals(over))
        settled = length == 1 and np.array_equal(passed, over != 0)
        n_rounds += 1
    return Found(effects, kkt, n_rounds)


class _Edge:
    """The saturated cells: their row, column, weight and sign, the score in the rows' direction."""

    def __init__(self, cells: Cells, equations: Equations) -> None:
        row, column, n_rows, n_columns, swapped = sides(cells)
        self._cells, self._equations = cells, equations
        self._at = np.flatnonzero(np.abs(cells.score) == 1)
        self._row, self._column = row[self._at], column[self._at]
        self._sign = cells.score[self._at].astype(np.float64) * (-1 if swapped else 1)
        self._weight = np.ones(len(self._at)) if cells.weight is None else cells.weight[self._at].astype(np.float64)
        self._n_rows, self._n_columns = n_rows, n_columns
        self.plain = equations.totals.r, equations.totals.c

    def overshoot(self, effects: Effects) -> Floats:
        """How far each prediction lies beyond its score; 0 where it does not."""
        return self._beyond(effects.x[self._row] - effects.y[self._column])

    def totals(self, over: Floats) -> tuple[Floats, Floats]:
        """Row and column totals with every overshot score moved to its prediction."""
        moved = self._weight * over
        r = self.plain[0] + np.bincount(self._row, weights=moved, minlength=self._n_rows)
        c = self.plain[1] + np.bincount(self._column, weights=moved, minlength=self._n_columns)
        return r, c

    def without(self, passed: Bools) -> Effects:
        """The plain fit of the cells less the saturated ones marked."""
        kept = np.ones(len(self._cells), dtype=np.bool_)
        kept[self._at[passed]] = False
        if not kept.any():
            return Effects(np.zeros(self._n_rows), np.zeros(self._n_columns))
        part = equate(self._cells.where(kept), ridge=self._equations.ridge, gauge=self._equations.gauge)
        return part.solve(part.totals.r, part.totals.c)

    def search(self, effects: Effects, step: Effects) -> float:
        """The length in (0, 1] at which the objective stops falling along the step."""
        reach = Effects(effects.x + step.x, effects.y + step.y)
        start, end = (_along(self._equations.gradient(point, *self.plain), step) for point in (effects, reach))
        mu = effects.x[self._row] - effects.y[self._column]
        rise = step.x[self._row] - step.y[self._column]

        def slope(t: float) -> float:
            return start + t * (end - start) - float((self._weight * rise) @ self._beyond(mu + t * rise))

        first = slope(0.0)
        if slope(1.0) <= _FLAT * abs(first) or first >= 0:
            return 1.0
        from scipy.optimize import brentq  # takes long to load, and is needed at the end of a fit alone

        return float(brentq(slope, 0.0, 1.0, xtol=1e-15))

    def _beyond(self, mu: Floats) -> Floats:
        return self._sign * np.maximum(self._sign * mu - 1, 0)


def _along(gradient: Effects, step: Effects) -> float:
    return float(gradient.x @ step.x + gradient.y @ step.y)
