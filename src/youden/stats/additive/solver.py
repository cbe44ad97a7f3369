"""The least-squares fit of score ≈ ability − difficulty on any set of cells, and whether it means something.

Given one side, the other has a closed form; `elimination` solves what is left on the smaller side. `box` and `censored`
take the range of scores into account, each by a few such solutions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from youden.errors import StatisticsError
from youden.stats.additive.bounds import Fit, fit_box, fit_censored, fit_plain
from youden.stats.additive.elimination import Equations, equate, reaches_all_rows
from youden.stats.additive.observed_cells import Cells, check_cells, check_range
from youden.stats.base.estimator import check_constraint, check_ridge
from youden.stats.trials.comparisons import agent_components, disconnected
from youden.types.pool import Floats, Ids, ReadOnly

Constraint = Literal["none", "clip", "box", "censored"]
_CONSTRAINTS: tuple[Constraint, ...] = get_args(Constraint)
SolutionStatus = Literal["ok", "disconnected", "not_converged"]

_CONVERGED = 1e-8
"""Largest residual of the equations that counts as solved, relative to the largest total score of an agent or item."""
_DROWNED = 1e-3
"""A cell of less weight than this share of the ridge is none to it."""
_LARGEST_SUM = 1e307


@dataclass(frozen=True, eq=False)
class Solution(ReadOnly):
    """What the solver found, and whether it means something.

    ability: float[K], difficulty: float[J], in the scores' unit; NaN for an agent or item without a cell. Difficulties of
    the items seen sum to 0.
    status: `disconnected` where some agents share no chain of cells with others: the ridge makes the solution unique, but
    comparing across components means nothing. `not_converged` where the equations do not hold to 1e-8 of the largest
    total. message: what to try then, else empty.
    kkt: largest absolute residual of the optimality conditions, the gauge's included.
    component: int32[K], from 0 in the agents' order, −1 for an agent without a cell.
    method: how the equations were solved; n_iterations: sweeps of the conjugate gradients, 0 for Cholesky;
    n_rounds: solutions it took to meet the constraint.
    """

    ability: Floats
    difficulty: Floats
    status: SolutionStatus
    message: str
    kkt: float
    n_components: int
    component: Ids
    constraint: Constraint
    method: Literal["cholesky", "conjugate gradients"]
    n_iterations: int
    n_rounds: int


def solve_additive(
    agent: ArrayLike,
    item: ArrayLike,
    score: ArrayLike,
    *,
    n_agents: int,
    n_items: int,
    weight: ArrayLike | None = None,
    ridge: float = 1e-6,
    constraint: Constraint = "censored",
) -> Solution:
    """The abilities θ and difficulties b that fit the observed cells best.

    min Σ w (s − θ_i + b_j)² + ridge·(‖θ‖² + ‖b‖²) over cells, subject to Σ b = 0 over the items seen.

    agent, item: int[N], positions; score: float[N], finite; weight: float[N] ≥ 0, 1 if not given; a cell of weight 0 is
    unseen, one given twice counts twice.
    constraint: `none`: scores of any scale. The others want scores in [−1, 1]: `clip` is the plain fit, predictions to be
    clipped; `censored`: a score of ±1 pays only for a prediction short of it; `box`: |θ_i − b_j| ≤ 1 for every agent and
    item seen. All are the same fit where no score is ±1 and no prediction leaves the range.

    For a matrix, `solve_cells(cells_of(matrix))`.

    Raises: StatisticsError [ridge], [constraint], [scores-range], [weights-scale] where the ridge outweighs all cells of an
    agent or item, or weights overflow, [additive-singular], [box-too-large], and those of `check_cells`.
    Source: the paper's clipped-linear objective, solved exactly instead of by alternating minimisation; its gauge is over
    all items, ours over those seen.
    """
    cells = check_cells(agent, item, score, n_agents=n_agents, n_items=n_items, weight=weight)
    return solve_cells(cells, ridge=ridge, constraint=constraint)


def solve_cells(cells: Cells, *, ridge: float = 1e-6, constraint: Constraint = "censored") -> Solution:
    """Fit abilities and difficulties to cells that `check_cells` or `cells_of` made; see `solve_additive`.

    Raises: StatisticsError [ridge], [constraint], [scores-range], [weights-scale], [additive-singular], [box-too-large].
    """
    check_ridge(ridge)
    check_constraint(constraint, known=_CONSTRAINTS)
    if constraint != "none":
        check_range(cells)
    heavy = _heavy(cells, ridge=ridge)
    equations = equate(cells, ridge=ridge)
    fit = _fit(constraint, cells, equations)

    x = np.where(equations.n > 0, fit.effects.x, np.nan)
    y = np.where(equations.m > 0, fit.effects.y, np.nan)
    ability, difficulty = (y, x) if equations.swapped else (x, y)
    component, n_components = _components(heavy, equations, is_whole=heavy is cells)

    scale = float(max(np.abs(equations.r).max(), np.abs(equations.c).max()))
    has_converged = fit.kkt <= _CONVERGED * scale
    message = disconnected(component)
    if not has_converged:
        message = f"{_not_converged(fit.kkt, scale)} {message}".rstrip()
    return Solution(
        ability=ability,
        difficulty=difficulty,
        status="not_converged" if not has_converged else "ok" if n_components == 1 else "disconnected",
        message=message,
        kkt=fit.kkt,
        n_components=n_components,
        component=component,
        constraint=constraint,
        method="cholesky" if equations.uses_cholesky else "conjugate gradients",
        n_iterations=fit.n_iterations,
        n_rounds=fit.n_rounds,
    )


def _fit(constraint: Constraint, cells: Cells, equations: Equations) -> Fit:
    if constraint == "box":
        return fit_box(equations)
    if constraint == "censored" and (cells.low == -1 or cells.high == 1):
        return fit_censored(cells, equations)
    return fit_plain(equations)


def _components(cells: Cells, equations: Equations, *, is_whole: bool) -> tuple[Ids, int]:
    """Number the components of the agents, without a search of the graph if a few hops reach every agent."""
    if is_whole and reaches_all_rows(equations):
        weight = equations.m if equations.swapped else equations.n
        return (weight > 0).astype(np.int32) - np.int32(1), 1
    component = agent_components(cells.agent, cells.item, n_agents=cells.n_agents, n_items=cells.n_items)
    return component, int(component.max()) + 1


def _heavy(cells: Cells, *, ridge: float) -> Cells:
    """The cells that the ridge does not drown: `cells` itself where that is all of them. Only they join agents.

    Raises: StatisticsError [weights-scale].
    """
    if cells.weight is None:
        return cells
    if float(cells.weight.max()) > _LARGEST_SUM / len(cells):
        raise StatisticsError(
            f"The weights go up to {cells.weight.max():.3g}, and their sum may overflow. Divide all by the largest.",
            slug="weights-scale",
        )
    kept = cells.weight >= _DROWNED * ridge
    if kept.all():
        return cells
    for ids, size, noun in ((cells.agent, cells.n_agents, "agent"), (cells.item, cells.n_items, "item")):
        seen, counted = (np.bincount(part, minlength=size) > 0 for part in (ids, ids[kept]))
        if (seen > counted).any():
            which = int(np.argmax(seen > counted))
            raise StatisticsError(
                f"No cell of {noun} {which} weighs more than {cells.weight[ids == which].max():.3g}. A ridge of {ridge:g} "
                "outweighs that: it would set the effect to 0, whatever the scores. Give weights that count trials (1 each "
                "where nothing is known), or a ridge far below them.",
                slug="weights-scale",
            )
    return cells.where(kept)


def _not_converged(kkt: float, scale: float) -> str:
    return (
        f"The optimality conditions hold only to {kkt:.1e}, {kkt / scale:.1e} of the largest total. Score cells that join "
        "agents few chains connect, raise the ridge, or try another constraint."
    )
