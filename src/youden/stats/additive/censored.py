"""The fit in which a saturated score, ±1, pays only for a prediction short of it.

min Σ_{|s|<1} w(s − μ)² + Σ_{s=1} w(1 − μ)₊² + Σ_{s=−1} w(1 + μ)₊² + ridge, μ = x − y: convex, and quadratic as long as no
prediction passes the edge. Newton's step is the plain fit without the saturated cells that are overshot; an exact
line search along it makes the steps finite in number.
"""

from __future__ import annotations

import numpy as np

from youden.nouns.arrays import Bools, Floats
from youden.stats.additive.cells import Cells
from youden.stats.additive.elimination import Effects, Equations, Found, equate, largest
from youden.stats.additive.tables import sides

_ROUNDS = 100
_FLAT = 1e-13
"""A gradient this small is none: against the largest total, or the first slope of a line search."""


def fit_censored(cells: Cells, equations: Equations) -> Found:
    """The censored fit of cells, of which `equations` are the plain ones."""
    edge = _Edge(cells, equations)
    effects = equations.solve(*edge.plain)
    over = edge.overshoot(effects)
    kkt, enough = equations.kkt(effects, *edge.totals(over)), _FLAT * largest(*edge.plain)
    n_rounds, settled = 1, False
    while not settled and kkt > enough and n_rounds < _ROUNDS:
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
