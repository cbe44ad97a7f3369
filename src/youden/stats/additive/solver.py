"""Fit score ≈ ability − difficulty by least squares to any set of cells, and check that the result can be interpreted.

Given one side, the other has a closed form, so equations are solved for the smaller side only. The constraints `box`
and `censored` need a few such solutions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from youden.errors import StatisticsError
from youden.stats.additive.bounds import Fit, fit_box, fit_censored, fit_plain
from youden.stats.additive.elimination import Equations, make_normal_equations, reaches_all_rows
from youden.stats.additive.observed_cells import Cells, cells_from_arrays, check_range
from youden.stats.base.estimator import check_constraint, check_ridge
from youden.stats.trials.comparisons import agent_components, describe_components
from youden.types.arguments import check_argument
from youden.types.pool import Floats, Ids, ReadOnly

Constraint = Literal["none", "clip", "box", "censored"]
_CONSTRAINTS: tuple[Constraint, ...] = get_args(Constraint)
SolutionStatus = Literal["ok", "disconnected", "not_converged"]

_CONVERGED = 1e-8
"""Largest residual of solved equations, relative to the largest total score of an agent or item."""
_MIN_RELATIVE_WEIGHT = 1e-3
"""A cell of less weight than this share of the ridge has no effect on the fit."""
_MAX_SUM = 1e307


@dataclass(frozen=True, eq=False)
class Solution(ReadOnly):
    """Solution of the additive model, with its diagnostics.

    Attributes
    ----------
    ability : float array (n_agents,)
        Abilities in the unit of scores; NaN for an agent without a cell.
    difficulty : float array (n_items,)
        Difficulties in the unit of scores; NaN for an item without a cell. They sum to 0.
    status : {"ok", "disconnected", "not_converged"}
        "disconnected": some agents are not connected by a chain of cells. The ridge makes the solution unique, but
        abilities of different components cannot be compared. "not_converged": the equations are not met to 1e-8 of the
        largest total score of an agent or item.
    message : str
        Advice if the status is not "ok", else empty.
    kkt : float
        Largest absolute residual of the optimality conditions, including the constraint on the sum.
    n_components : int
        Number of connected components.
    component : int32 array (n_agents,)
        Component of each agent, numbered from 0 in the order of agents; −1 for an agent without a cell.
    constraint : {"none", "clip", "box", "censored"}
        Constraint of the fit.
    method : {"cholesky", "conjugate gradients"}
        Method that solved the equations.
    n_iterations : int
        Iterations of the conjugate gradients, 0 for Cholesky.
    n_rounds : int
        Number of solutions that the constraint needed.
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
    """Fit abilities and difficulties to observed cells by least squares.

    A cell is an agent on an item. To fit a matrix, use ``solve_cells(cells_from_matrix(matrix))``.

    Parameters
    ----------
    agent, item : int array_like (n_cells,)
        Position of the agent and of the item of each cell, of an integer type. A repeated cell counts twice.
    score : float array_like (n_cells,)
        Finite scores; in [−1, 1] unless `constraint` is "none".
    n_agents, n_items : int
        Numbers of agents and of items.
    weight : float array_like (n_cells,), optional
        Weights, at least 0; a cell of weight 0 is unobserved. Default: 1.
    ridge : float, default 1e-6
        Positive, finite ridge penalty.
    constraint : {"censored", "clip", "box", "none"}, default "censored"
        "none": scores of any scale. "clip": plain least squares, with predictions to be clipped by the caller.
        "censored": a score of ±1 contributes only if the prediction falls short of it. "box": |θ_i − b_j| ≤ 1 for
        observed agents and items. All four give the same fit if no score is ±1 and no prediction leaves the range.

    Returns
    -------
    Solution
        `ability` (n_agents,) and `difficulty` (n_items,) in the unit of scores, NaN for agents and items without a cell, and
        diagnostics. No error is raised if the fit does not converge, or if the cells do not connect all agents. Check `message`
        and `status`: "ok", "not_converged" or "disconnected" (abilities of different components cannot be compared).

    Raises
    ------
    StatisticsError
        [ridge], [constraint]: if a parameter is out of range; [scores-range], [scores-infinite], [scores-numeric],
        [scores-empty]: if scores cannot be fitted; [weights-scale]: if the ridge outweighs all cells of an agent or
        item, or the weights overflow; [weights-negative], [weights-numeric]: if a weight is invalid; [cells-length]: if columns
        differ in length; [array-index]: if they are Series with different indexes; [cells-id]: if positions are not integers or
        out of range; [additive-singular]: if the system is singular; [box-too-large]: if the box needs too much memory.

    Notes
    -----
    Minimizes Σ w(s − θ_i + b_j)² + ridge·(‖θ‖² + ‖b‖²) over cells, subject to Σ b = 0 over the observed items. The
    solution is exact; the paper's alternating minimization of the same objective has the constraint over all items.
    """
    cells = cells_from_arrays(agent, item, score, n_agents=n_agents, n_items=n_items, weight=weight)
    return solve_cells(cells, ridge=ridge, constraint=constraint)


def solve_cells(cells: Cells, *, ridge: float = 1e-6, constraint: Constraint = "censored") -> Solution:
    """Fit abilities and difficulties to checked cells by least squares.

    The model is score ≈ θ_i − b_j for agent i and item j, with Σ b = 0 over the observed items.

    Parameters
    ----------
    cells : Cells
        Observed cells, made by `cells_from_arrays` or `cells_from_matrix`.
    ridge : float, default 1e-6
        Positive, finite ridge penalty.
    constraint : {"censored", "clip", "box", "none"}, default "censored"
        "none": scores of any scale. "clip": plain least squares, with predictions to be clipped by the caller.
        "censored": a score of ±1 contributes only if the prediction falls short of it. "box": |θ_i − b_j| ≤ 1 for
        observed agents and items. All but "none" need scores in [−1, 1].

    Returns
    -------
    Solution
        `ability` (n_agents,) and `difficulty` (n_items,) in the unit of scores, NaN for agents and items without a cell, and
        diagnostics. No error is raised if the fit does not converge, or if the cells do not connect all agents. Check `message`
        and `status`: "ok", "not_converged" or "disconnected" (abilities of different components cannot be compared).

    Raises
    ------
    StatisticsError
        [ridge], [constraint]: if a parameter is out of range; [scores-range]: if a score is outside [−1, 1] and
        `constraint` is not "none"; [weights-scale]: if the ridge outweighs all cells of an agent or item, or the
        weights overflow; [additive-singular]: if the system is singular; [box-too-large]: if the box needs too
        much memory.
    ConfigError
        [argument-type]: if `cells` or `ridge` has a wrong type.
    """
    check_argument("cells", cells, Cells, "Make cells with cells_from_matrix or cells_from_arrays.")
    check_ridge(ridge)
    check_constraint(constraint, choices=_CONSTRAINTS)
    if constraint != "none":
        check_range(cells)
    linking_cells = _select_heavy_cells(cells, ridge=ridge)
    equations = make_normal_equations(cells, ridge=ridge)
    fit = _fit_under_constraint(constraint, cells, equations)

    row_effect = np.where(equations.row_weight > 0, fit.effects.rows, np.nan)
    column_effect = np.where(equations.column_weight > 0, fit.effects.columns, np.nan)
    if equations.rows_are_items:
        difficulty, ability = row_effect, column_effect
    else:
        ability, difficulty = row_effect, column_effect
    component, n_components = _label_components(linking_cells, equations, is_complete=linking_cells is cells)

    scale = equations.max_total
    message = describe_components(component)
    status: SolutionStatus = "ok" if n_components == 1 else "disconnected"
    has_converged = fit.kkt_residual <= _CONVERGED * scale  # False if NaN
    if not has_converged:
        status = "not_converged"
        message = f"{_format_not_converged(fit.kkt_residual, scale)} {message}".rstrip()
    return Solution(
        ability=ability,
        difficulty=difficulty,
        status=status,
        message=message,
        kkt=fit.kkt_residual,
        n_components=n_components,
        component=component,
        constraint=constraint,
        method="cholesky" if equations.uses_cholesky else "conjugate gradients",
        n_iterations=fit.n_iterations,
        n_rounds=fit.n_rounds,
    )


def _fit_under_constraint(constraint: Constraint, cells: Cells, equations: Equations) -> Fit:
    """Fit the effects of agents and items by the method that belongs to a constraint on the predictions, ability − difficulty.

    - "box" limits all predictions to [−1, 1].
    - "censored" does not penalize a prediction above a score of 1, or below a score of −1.
    - "none" and "clip" do not constrain the predictions.
    """
    if constraint == "box":
        return fit_box(equations)
    has_saturated = cells.low == -1 or cells.high == 1  # the smallest and the largest score
    if constraint == "censored" and has_saturated:
        return fit_censored(cells, equations)
    return fit_plain(equations)


def _label_components(cells: Cells, equations: Equations, *, is_complete: bool) -> tuple[Ids, int]:
    """Label the sets of agents that chains of cells connect, and count the sets.

    A cell connects its agent to all agents with a cell on the same item. Abilities can be compared within a set only.

    cells : cells that connect agents and items
    equations : normal equations of all observed cells, which are used for a fast check
    is_complete : whether `cells` are all observed cells; only then the fast check is made

    Returns the label of each agent, int32 array (n_agents,), −1 for an agent without a cell; and the number of sets.
    """
    # If short paths of cells connect all rows of the equations (agents or items), all agents are in one set. This check is fast,
    # and succeeds for most data.
    if is_complete and reaches_all_rows(equations):
        has_cell = equations.agent_weight > 0
        return np.where(has_cell, np.int32(0), np.int32(-1)), 1

    component = agent_components(cells.agent, cells.item, n_agents=cells.n_agents, n_items=cells.n_items)
    return component, int(component.max()) + 1


def _select_heavy_cells(cells: Cells, *, ridge: float) -> Cells:
    """Select the heavy cells: those whose weight is not negligible compared with the ridge penalty.

    Only heavy cells are counted as connections between agents, because other cells hardly change the fit.

    cells : observed cells; without weights, all cells are heavy
    ridge : ridge penalty of the fit

    Returns `cells` itself if all of them are heavy.

    Raises StatisticsError [weights-scale] if an agent or item has cells, but no heavy cell, or if the sum of the weights may
    overflow.
    """
    if cells.weight is None:
        return cells
    largest_weight = float(cells.weight.max())
    if largest_weight > _MAX_SUM / len(cells):
        raise StatisticsError(
            f"The sum of the weights may overflow: got a weight of {largest_weight:.3g}. "
            "Pass weights divided by the largest.",
            slug="weights-scale",
        )

    is_heavy = cells.weight >= _MIN_RELATIVE_WEIGHT * ridge
    if is_heavy.all():
        return cells
    for positions, noun in ((cells.agent, "agent"), (cells.item, "item")):
        # agents, or items, that have light cells only
        outweighed = np.setdiff1d(positions, positions[is_heavy])
        if outweighed.size:
            first_outweighed = int(outweighed.min())
            max_weight = float(cells.weight[positions == first_outweighed].max())
            raise _make_outweighed_error(f"{noun} {first_outweighed}", max_weight, ridge)
    return cells.where(is_heavy)


def _make_outweighed_error(name: str, max_weight: float, ridge: float) -> StatisticsError:
    """Make the error for an agent or item whose cells all have a negligible weight compared with the ridge.

    name : agent or item and its position, such as "agent 3"
    max_weight : largest weight of its cells
    ridge : ridge penalty of the fit
    """
    return StatisticsError(
        f"The ridge outweighs all cells of {name}: got ridge = {ridge:g} for a largest weight of {max_weight:.3g}. "
        "Pass numbers of trials as weights, or set a ridge far below them.",
        slug="weights-scale",
    )


def _format_not_converged(kkt: float, scale: float) -> str:
    """Describe a fit with the residual `kkt` of the optimality conditions; `scale` is the largest total score."""
    return (
        f"The fit did not converge: the optimality conditions are met to {kkt:.1e}, {kkt / scale:.1e} of the largest total. "
        "Add scores of cells that link agents, set a larger ridge, or set another constraint."
    )
