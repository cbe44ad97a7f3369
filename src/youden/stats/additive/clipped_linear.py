"""Estimate the clipped-linear model, score ≈ clip(ability − difficulty, −1, 1), with intervals of the abilities.

A cell is one agent on one item. Items are the independent draws: the residuals of all cells of an item are summed
before they are squared, so that cells of one item may be correlated. The difficulty of an item is a fitted parameter,
and no error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import inv

from youden.errors import StatisticsError
from youden.stats.additive.observed_cells import cells_from_arrays
from youden.stats.additive.solver import Constraint, SolutionStatus, solve_cells
from youden.stats.base.clusters import CentredCovariance, check_level, covariance_of_chunks
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
from youden.types.pool import Bools, Floats, Ids, Positions, freeze

_EXACT_FIT = 1e-9
"""A cell whose leverage exceeds 1 minus this is fitted exactly, whatever its score: no other cell links the agents and
items on its two sides."""


class CellInfluence(NamedTuple):
    """Influence of the items on the abilities of one set of linked agents.

    Agents are linked if they have cells on a common item, directly or through other agents. These agents stay linked if
    any single cell is removed.

    Attributes
    ----------
    agents : int64 array (n_linked,)
        Positions of the agents.
    influence : float array (n_linked, n_items)
        Influence U_ij of item j on the ability of agent i.
    share : float array (n_linked, n_items)
        Share of the item in the agent's weight; rows sum to 1.
    """

    agents: Positions
    influence: Floats
    share: Floats


def _item_covariance(cells: CellIndex, weight: Floats, residual: Floats, *, component: Ids) -> CentredCovariance:
    """Estimate the covariance of the θ_i − θ̄ by a sandwich estimator, clustered by item.

    weight, residual : float (n_cells,), weights above 0; component : int (n_agents,), component of each agent.

    θ̄ is the mean over the agents of the same component that have a variance. An entry is NaN for an agent with a
    single cell, for one that a single cell links to the others, for an agent alone, and for two agents of
    different components.

    A_kj is the weight of cell (k, j), e_kj its residual, and V any inverse of XᵀAX on what the cells determine. R is V
    minus the mean of its rows, and T = R·A/m. θ̂_i changes with the score of the cell by A_kj(R_ik − T_ij), and the
    leverage of the cell is h_kj = A_kj(V_kk − 2V_kj + V_jj). The influence of item j is

    U_ij = Σ_k A_kj(R_ik − T_ij)·e_kj·√((1 − A_kj/m_j)/(1 − h_kj)·(1 − p_kj)), with p_kj = A_kj/n_k.

    Under the root, n and m are the weights of agents and items without cells that are fitted exactly. For a dense
    matrix the root is 1 (MacKinnon & White 1985, J. Econometrics 29, by item, with weights taken as fixed).
    """
    n_agents = cells.n_agents
    covariance, df = np.full((n_agents, n_agents), np.nan), np.full(n_agents, np.nan)
    for group in _iter_groups(cells, weight, residual, component=component):
        if (group.n_items >= 2).sum() < 2:
            continue
        estimate = covariance_of_chunks(
            group.iter_chunks(),
            n_clusters=group.n_items,
            share_squares=group.share_squares,
            relative_variance=1 / group.weight,
        )
        covariance[np.ix_(group.agents, group.agents)], df[group.agents] = estimate.covariance, estimate.df
    return CentredCovariance(covariance, df)


def _iter_influence(cells: CellIndex, weight: Floats, residual: Floats, *, component: Ids) -> Iterator[CellInfluence]:
    """Yield the influence of all items on each group of linked agents; weight, residual : float (n_cells,)."""
    for group in _iter_groups(cells, weight, residual, component=component):
        influence, share = (np.concatenate(table, axis=1) for table in zip(*group.iter_chunks(), strict=True))
        yield CellInfluence(group.agents, influence, share)


class _LinkedGroup(NamedTuple):
    """Agents that stay linked if any single cell is removed, and the influence of items on them, in chunks of items.

    agents : int64 (n_linked,); weight : float (n_linked,), total weight of an agent's cells; n_items : int64
    (n_linked,), number of items with a share; share_squares : float (n_linked,), sum of the squared shares of an
    agent's cells; iter_chunks : function that yields influence and share, float (n_linked, n_chunk_items) each.
    """

    agents: Positions
    weight: Floats
    n_items: Positions
    share_squares: Floats
    iter_chunks: Callable[[], Iterator[tuple[Floats, Floats]]]


def _iter_groups(cells: CellIndex, weight: Floats, residual: Floats, *, component: Ids) -> Iterator[_LinkedGroup]:
    """Yield the largest group of linked agents of each component; weight, residual : float (n_cells,)."""
    observed = np.flatnonzero(component >= 0)
    renumbered = (np.cumsum(component >= 0) - 1).astype(np.int32)
    component, K = component[observed], len(observed)
    index = CellIndex(renumbered[cells.agent], cells.item, K, cells.n_items)
    agent, item = index.agent, index.item

    def sum_by_agent(column: Floats) -> Floats:
        return np.bincount(agent, column, K).astype(np.float64)

    n, m = sum_by_agent(weight), np.bincount(item, weight, index.n_items)
    normalised = weight / m[item]
    eliminated = np.zeros((K, K))
    for A, C in index.iter_matrices(weight, normalised):
        eliminated += C @ A.T
    is_same = component[:, None] == component
    # a constant within each component makes the matrix regular without changing differences of effects
    V = inv(np.diag(n) - eliminated + is_same * (n.mean() / is_same.sum(axis=1)), check_finite=False)

    leverage = np.empty(len(index))
    for (rows, items), (C,) in zip(index.iter_chunks(), index.iter_matrices(normalised), strict=True):
        cross, k, j = V @ C, agent[rows], item[rows] - items.start
        quadratic = np.diag(V)[k] - 2 * cross[k, j] + 1 / m[item[rows]] + (C * cross).sum(axis=0)[j]
        leverage[rows] = weight[rows] * quadratic

    is_free = leverage < 1 - _EXACT_FIT
    free_weight = np.where(is_free, weight, 0.0)
    weight_by_agent, weight_by_item = sum_by_agent(free_weight), np.bincount(item, free_weight, index.n_items)
    share, item_share = (
        np.divide(free_weight, total, out=np.zeros(len(index)), where=total > 0)
        for total in (weight_by_agent[agent], weight_by_item[item])
    )
    numerator = np.maximum((1 - item_share) * (1 - share), 0)
    root = np.sqrt(np.divide(numerator, 1 - leverage, out=np.zeros(len(index)), where=is_free))
    adjusted = weight * residual * root

    def iter_chunks(group: Bools) -> Iterator[tuple[Floats, Floats]]:
        R = V[group] - V[group].mean(axis=0)
        for E, C, p in index.iter_matrices(adjusted, normalised, share):
            yield R @ E - (R @ C) * E.sum(axis=0), p[group]

    n_items = np.bincount(agent[share > 0], minlength=K)
    for group in _robustly_linked(component, index.where(is_free)):
        share_squares = sum_by_agent(share**2)[group]
        yield _LinkedGroup(
            observed[group], weight_by_agent[group], n_items[group], share_squares, partial(iter_chunks, group)
        )


def _robustly_linked(component: Ids, free_cells: CellIndex) -> list[Bools]:
    """Find, in each component, the largest set of two or more agents that stay linked if any single cell is removed.

    component : int (n_agents,). Returns bool masks (n_agents,).
    """
    linked = agent_components(
        free_cells.agent, free_cells.item, n_agents=free_cells.n_agents, n_items=free_cells.n_items
    )
    groups = []
    for label in range(int(component.max()) + 1):
        members = linked[(component == label) & (linked >= 0)]
        if not members.size:
            continue
        group = linked == np.bincount(members).argmax()
        if group.sum() > 1:
            groups.append(group)
    return groups


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
        variance. NaN for an agent with a single cell, for one that a single cell links to the others, for an agent
        alone, and for two agents of different components.
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
    The model minimises Σ w(s − θ_i + b_j)² + ridge·(‖θ‖² + ‖b‖²) over cells, with Σ b = 0 over observed items. The
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
        index, value, weight = _normalised_cells(scores)
        cells = cells_from_arrays(
            index.agent, index.item, value, n_agents=index.n_agents, n_items=index.n_items, weight=weight
        )
        solution = solve_cells(cells, ridge=self.ridge, constraint=self.constraint)
        self.ability_, self.difficulty_ = solution.ability, solution.difficulty
        self.status_, self.message_, self.kkt_ = solution.status, solution.message, solution.kkt
        self.n_components_, self.component_ = solution.n_components, solution.component

        residual = value - (self.ability_[index.agent] - self.difficulty_[index.item])
        binding_weight, binding_residual, component = weight, residual, self.component_
        is_exceeded = (np.abs(value) == 1) & (residual * value < 0)
        if self.constraint == "censored" and is_exceeded.any():
            binding_weight = np.where(is_exceeded, 0.0, weight)
            binding_residual = np.where(is_exceeded, 0.0, residual)
            binds = ~is_exceeded
            component = agent_components(
                index.agent[binds], index.item[binds], n_agents=index.n_agents, n_items=index.n_items
            )
        self.r2_ = r_squared(value, binding_residual, weight)
        self._cells = ScoredCells(index, residual, weight)
        self._binding_weight, self._binding_residual, self._component = binding_weight, binding_residual, component
        for name in ("centred_covariance", "residual_"):
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

    def predict_at(self, agent: Ids | Positions, item: Ids | Positions) -> Floats:
        """Predict the scores of single cells.

        Parameters
        ----------
        agent, item : int array (n_cells,)
            Position of the agent and of the item of each cell.

        Returns
        -------
        float array (n_cells,)
            clip(θ_i − b_j, −1, 1); NaN for agents and items that were not observed.

        Raises
        ------
        StatisticsError
            [not-fitted]; [cells-length] if the arrays differ in shape; [cells-id] for a position that was not fitted.
        """
        self._check_fitted()
        if agent.shape != item.shape:
            raise StatisticsError(
                f"Agents and items must have one shape: got {agent.shape} and {item.shape}. Pass one item per agent.",
                slug="cells-length",
            )
        for noun, index, n in (("agent", agent, len(self.ability_)), ("item", item, len(self.difficulty_))):
            if index.size and not 0 <= index.min() <= index.max() < n:
                raise StatisticsError(
                    f"There are {n} {noun}s: got the positions {index.min()} to {index.max()}. Pass positions from 0 to {n - 1}.",
                    slug="cells-id",
                )
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
        estimate = _item_covariance(*self._binding_cells(), component=self._component)
        freeze([estimate.covariance, estimate.df])
        return estimate

    def item_influence(self) -> Iterator[CellInfluence]:
        """Compute the influence of the items on abilities, by sets of linked agents.

        Returns
        -------
        iterator of CellInfluence
            For each component, its largest set of agents that stay linked if any single cell is removed.

        Raises
        ------
        StatisticsError
            [not-fitted]: if `fit` was not called.
        """
        return _iter_influence(*self._binding_cells(), component=self._component)

    def _binding_cells(self) -> tuple[CellIndex, Floats, Floats]:
        """Return the cells that carry information, with their weights and residuals, float (n_cells,)."""
        self._check_fitted()
        binds = self._binding_weight > 0
        return self._cells.cell_index.where(binds), self._binding_weight[binds], self._binding_residual[binds]

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
        if not hasattr(self, "ability_"):
            raise not_fitted_error(self)


def _normalised_cells(scores: Scores | ArrayLike) -> ScoredCells:
    """Return the observed cells with weights of mean 1."""
    if isinstance(scores, Scores):
        cells = check_scored_cells(scores)
        cells = cells.where(cells.weight > 0)
    else:
        value = check_score_matrix(scores)
        index = CellIndex.from_mask(~np.isnan(value))
        cells = ScoredCells(index, value[index.agent, index.item], np.ones(len(index)))
    if not len(index := cells.cell_index):
        raise no_cells_error(f"{index.n_agents} × {index.n_items}, all unobserved")
    return cells._replace(weight=cells.weight * (len(index) / cells.weight.sum()))


def r_squared(value: Floats, residual: Floats, weight: Floats | None = None) -> float:
    """Compute R² = 1 − Σw·residual² / Σw·(value − mean)², by default with w = 1; NaN if all values are equal."""
    if np.ptp(value) == 0:
        return float("nan")
    w = np.ones(len(value)) if weight is None else weight
    return 1 - float(w @ residual**2) / float(w @ (value - np.average(value, weights=w)) ** 2)
