"""Estimate the clipped-linear model, score ≈ clip(ability − difficulty, −1, 1), with intervals of the abilities.

A cell is one agent on one item. The intervals treat each item as one independent draw (see `item_influence`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from youden.errors import StatisticsError
from youden.stats.additive.item_influence import CellInfluence, covariance_by_item, iter_cell_influence
from youden.stats.additive.observed_cells import cells_from_arrays
from youden.stats.additive.solver import Constraint, SolutionStatus, solve_cells
from youden.stats.base.array_likes import takes_array_likes
from youden.stats.base.clusters import CentredCovariance, check_level
from youden.stats.base.estimator import (
    Estimator,
    check_score_matrix,
    check_scored_cells,
    no_cells_error,
    not_fitted_error,
)
from youden.stats.trials.comparisons import agent_components
from youden.types import Scores
from youden.types.cells import CellIndex, ScoredCells
from youden.types.pool import Floats, Ids, Positions, freeze


class ClippedLinear(Estimator):
    """Clipped-linear model of scores, fitted by least squares.

    A score is predicted as ability minus difficulty, clipped to [−1, 1].

    Parameters
    ----------
    constraint : {"censored", "clip", "box", "none"}, default "censored"
        Treatment of the range of scores. "censored": a score of ±1 contributes only if the prediction falls short of
        it. "clip" and "none": plain least squares, and only predictions are clipped. "box": |θ_i − b_j| ≤ 1 for all
        observed agents and items.
    ridge : float, default 1e-6
        Positive ridge penalty, as a multiple of the mean weight of a cell. It makes the solution unique; the default is
        too small to change it.
    level : float in (0, 1), default 0.95
        Confidence level of the intervals.

    Attributes
    ----------
    ability_ : float array (n_agents,)
        Abilities θ, NaN for an agent without a cell.
    difficulty_ : float array (n_items,)
        Difficulties b, in the unit of scores; NaN for an item without a cell. They sum to 0.
    low_, high_ : float array (n_agents,)
        Confidence bounds: the interval of θ_i − θ̄, shifted to θ_i. NaN if the standard error is unknown.
    covariance_ : float array (n_agents, n_agents)
        Covariance of the θ_i − θ̄, clustered by item. θ̄ is the mean over the agents of the same component that have a
        variance. NaN for an agent with a single cell, for an agent that only a single cell links to the others, for the only
        agent of a component, and for two agents of different components.
    df_ : float array (n_agents,)
        Degrees of freedom of Student's t.
    residual_ : float array (n_agents, n_items)
        Residuals s − θ_i + b_j, not clipped; NaN for unobserved cells.
    r2_ : float
        Coefficient of determination; NaN if all scores are equal. With "censored", the residual of a score of ±1 that
        the prediction exceeds counts as 0.
    status_ : {"ok", "disconnected", "not_converged"}
        "disconnected": abilities of different components cannot be compared. "not_converged": the optimality conditions
        are not met to 1e-8 of the largest total score of an agent or item.
    message_ : str
        Advice if the status is not "ok", else empty.
    kkt_ : float
        Largest absolute residual of the optimality conditions.
    n_components_, component_ : int, int32 array (n_agents,)
        Number of connected components, and the component of each agent; −1 for an agent without a cell.

    Raises
    ------
    StatisticsError
        [constraint], [level], [ridge]: if a parameter is outside its range, when the model is fitted.

    Notes
    -----
    The model minimizes Σ w(s − θ_i + b_j)² + ridge·(‖θ‖² + ‖b‖²) over cells, with Σ b = 0 over observed items. The
    predictions are clip(θ_i − b_j, −1, 1). A weight w is the number of answered trials of a cell divided by its mean.

    Intervals are for items like the sampled ones, with each item as one independent draw. With "censored", scores of ±1
    that their predictions exceed do not contribute to them. With "box", they are computed as if there were no box.

    References
    ----------
    MacKinnon & White (1985), J. Econometrics 29, 305–325 (here by item).

    Examples
    --------
    >>> model = ClippedLinear().fit([[0.5, 0.3, 0.1], [0.4, 0.2, float("nan")]])
    >>> model.ability_.round(2), model.difficulty_.round(2)
    (array([0.3, 0.2]), array([-0.2,  0. ,  0.2]))
    >>> model.predict().round(2)[1, 2]  # the unobserved cell
    np.float64(0.0)
    """

    ability_: Floats
    difficulty_: Floats
    status_: SolutionStatus
    message_: str
    kkt_: float
    n_components_: int
    component_: Ids
    r2_: float

    def __init__(self, *, constraint: Constraint = "censored", ridge: float = 1e-6, level: float = 0.95) -> None:
        self.constraint = constraint
        self.ridge = ridge
        self.level = level

    def fit(self, scores: Scores | ArrayLike) -> Self:
        """Fit abilities and difficulties to observed scores.

        Parameters
        ----------
        scores : Scores or array_like (n_agents, n_items)
            Scores in [−1, 1]; NaN is unobserved. The cells of an array have equal weights, those of `Scores` the number
            of their answered trials.

        Returns
        -------
        ClippedLinear
            The estimator itself.

        Raises
        ------
        StatisticsError
            [scores-empty], [scores-range], [scores-infinite], [scores-shape], [scores-numeric], [scores-holdout]: if
            the scores cannot be fitted; [weights-negative], [weights-shape], [weights-numeric], [weights-scale]: if the
            weights cannot be used; [ridge], [level], [constraint]: if a parameter is out of range; [box-too-large]: if
            the box needs too much memory.
        """
        check_level(self.level)
        index, value, weight = _normalize_cells(scores)
        cells = cells_from_arrays(
            index.agent, index.item, value, n_agents=index.n_agents, n_items=index.n_items, weight=weight
        )
        solution = solve_cells(cells, ridge=self.ridge, constraint=self.constraint)
        self.ability_, self.difficulty_ = solution.ability, solution.difficulty
        self.status_, self.message_, self.kkt_ = solution.status, solution.message, solution.kkt
        self.n_components_, self.component_ = solution.n_components, solution.component

        residual = value - (self.ability_[index.agent] - self.difficulty_[index.item])
        self._cells = self._informative_cells = ScoredCells(index, residual, weight)
        self._component = self.component_

        # With "censored", scores of ±1 that their predictions exceed carry no information. Their residuals count as 0.
        is_exceeded = (np.abs(value) == 1) & (residual * value < 0)
        if self.constraint == "censored" and is_exceeded.any():
            residual = np.where(is_exceeded, 0.0, residual)
            self._informative_cells = self._cells.where(~is_exceeded)
            informative = self._informative_cells.cell_index
            self._component = agent_components(
                informative.agent, informative.item, n_agents=index.n_agents, n_items=index.n_items
            )

        self.r2_ = r_squared(value, residual, weight)
        for name in ("centred_covariance", "residual_"):  # cached properties of an earlier fit
            self.__dict__.pop(name, None)
        return self

    def predict(self) -> Floats:
        """Predict the scores of all cells.

        Returns
        -------
        float array (n_agents, n_items)
            clip(θ_i − b_j, −1, 1); NaN for agents and items that were not observed.

        Raises
        ------
        StatisticsError
            [not-fitted]: if `fit` was not called.
        """
        self._check_fitted()
        return np.clip(self.ability_[:, None] - self.difficulty_, -1, 1)

    @takes_array_likes
    def predict_at(self, agent: Ids | Positions, item: Ids | Positions) -> Floats:
        """Predict the scores of single cells.

        Parameters
        ----------
        agent, item : int array (n_cells,)
            Position of the agent and of the item of each cell, in the order of the scores that were fitted.

        Returns
        -------
        float array (n_cells,)
            Ability of the agent minus difficulty of the item, clipped to [−1, 1]; NaN for agents and items without an
            observed score.

        Raises
        ------
        StatisticsError
            [not-fitted]: if `fit` was not called; [cells-length]: if the arrays differ in shape; [cells-id]: if a
            position is not a whole number, is negative, or is not below the number of fitted agents or items.
        """
        self._check_fitted()
        if agent.shape != item.shape:
            raise StatisticsError(
                f"Agents and items must have one shape: got {agent.shape} and {item.shape}. Pass one item per agent.",
                slug="cells-length",
            )
        _check_positions(agent, size=len(self.ability_), noun="agent")
        _check_positions(item, size=len(self.difficulty_), noun="item")
        return np.clip(self.ability_[agent] - self.difficulty_[item], -1, 1)

    @property
    def residual_cells_(self) -> ScoredCells:
        """Residuals of the observed cells as columns, with weights of mean 1; [not-fitted] before `fit`."""
        self._check_fitted()
        return self._cells

    @cached_property
    def residual_(self) -> Floats:
        """Residuals s − θ_i + b_j: float array (n_agents, n_items), NaN for unobserved cells."""
        cells = self.residual_cells_
        residual = cells.cell_index.to_matrix(cells.value, empty=np.nan)
        freeze([residual])
        return residual

    @cached_property
    def centred_covariance(self) -> CentredCovariance:
        """`covariance_` and `df_` as one object, computed on first access; [not-fitted] before `fit`."""
        self._check_fitted()
        index, residual, weight = self._informative_cells
        estimate = covariance_by_item(index, weight, residual, component=self._component)
        freeze([estimate.covariance, estimate.df])
        return estimate

    def item_influence(self) -> Iterator[CellInfluence]:
        """Compute the influence of the items on abilities, by sets of linked agents.

        Returns
        -------
        iterator of CellInfluence
            One result per component, for the largest set of its agents that stay linked if any single cell is removed.

        Raises
        ------
        StatisticsError
            [not-fitted]: if `fit` was not called.
        """
        self._check_fitted()
        index, residual, weight = self._informative_cells
        return iter_cell_influence(index, weight, residual, component=self._component)

    @property
    def covariance_(self) -> Floats:
        """Covariance of the θ_i − θ̄: float array (n_agents, n_agents)."""
        return self.centred_covariance.covariance

    @property
    def df_(self) -> Floats:
        """Degrees of freedom of Student's t: float array (n_agents,)."""
        return self.centred_covariance.df

    @property
    def low_(self) -> Floats:
        """Lower confidence bounds of the abilities: float array (n_agents,)."""
        return np.asarray(self.ability_ - self.centred_covariance.half_width(self.level))

    @property
    def high_(self) -> Floats:
        """Upper confidence bounds of the abilities: float array (n_agents,)."""
        return np.asarray(self.ability_ + self.centred_covariance.half_width(self.level))

    def _check_fitted(self) -> None:
        """Raise StatisticsError [not-fitted] if `fit` was not called."""
        if not hasattr(self, "ability_"):
            raise not_fitted_error(self)


def _check_positions(positions: Ids | Positions, *, size: int, noun: str) -> None:
    """Raise StatisticsError [cells-id] unless all positions are whole numbers that are at least 0 and below `size`."""
    are_whole = np.issubdtype(positions.dtype, np.integer)
    if positions.size and not (are_whole and 0 <= positions.min() <= positions.max() < size):
        raise StatisticsError(
            f"There are {size} {noun}s: got the positions {positions.min()} to {positions.max()}. "
            f"Pass whole numbers from 0 to {size - 1}.",
            slug="cells-id",
        )


def _normalize_cells(scores: Scores | ArrayLike) -> ScoredCells:
    """Select the observed cells of scores, and scale their weights to a mean of 1.

    A cell is an agent and an item. In `Scores`, a cell was observed if its weight is above 0. In an array, a cell was
    observed if its score is not NaN.

    scores : scores with weights, or an array (n_agents, n_items); the observed cells of an array get equal weights

    Returns the observed cells with their scores and scaled weights.

    Raises StatisticsError [scores-empty] if no cell was observed.
    """
    if isinstance(scores, Scores):
        cells = check_scored_cells(scores)
        cells = cells.where(cells.weight > 0)
    else:
        value = check_score_matrix(scores)
        index = CellIndex.from_mask(~np.isnan(value))
        cells = ScoredCells(index, value[index.agent, index.item], np.ones(len(index)))

    index = cells.cell_index
    if not len(index):
        raise no_cells_error(f"{index.n_agents} × {index.n_items}, all unobserved")
    weight_scale = len(index) / cells.weight.sum()
    return cells._replace(weight=cells.weight * weight_scale)


def r_squared(value: Floats, residual: Floats, weight: Floats | None = None) -> float:
    """Compute the coefficient of determination R² = 1 − Σw·residual² / Σw·(value − mean)².

    Parameters
    ----------
    value, residual : float array (n,)
        Observed values, and their residuals, observed minus predicted value, without NaN; n is at least 1.
    weight : float array (n,), optional
        Weight w of each value, above 0, also in the mean. Default: 1.

    Returns
    -------
    float
        R², at most 1, and below 0 if the residuals are larger than the deviations from the mean; NaN if all values are
        equal.
    """
    if np.ptp(value) == 0:
        return float("nan")
    w = np.ones(len(value)) if weight is None else weight
    mean = np.average(value, weights=w)
    squared_residuals = float(w @ residual**2)
    squared_deviations = float(w @ (value - mean) ** 2)
    return 1 - squared_residuals / squared_deviations
