"""The clipped-linear model as an estimator, score ≈ clip(ability − difficulty, −1, 1), and how sure its abilities are.

Residuals of cells are summed by item. An item is one draw, whatever its cells have in common; its own effect, which the
fit takes out, is no doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import inv

from youden.errors import StatisticsError
from youden.stats.additive.observed_cells import check_cells
from youden.stats.additive.solver import Constraint, SolutionStatus, solve_cells
from youden.stats.base.clusters import CentredCovariance, check_level, covariance_of_blocks
from youden.stats.base.estimator import Estimator, check_score_matrix, check_scored_cells, no_cells, not_fitted
from youden.stats.trials.comparisons import agent_components
from youden.types import Scores
from youden.types.cells import CellIndex, ScoredCells
from youden.types.pool import Bools, Floats, Ids, Positions, freeze

_EXACT = 1e-9
"""A cell of leverage above 1 − this is fitted exactly whatever its score: it alone links two parts of the graph."""


class CellItemMoves(NamedTuple):
    """What each item does to the abilities of agents that are linked by more than one cell.

    agents: int64[k]; by_item: float[k, J], U as in `_item_covariance`; share: float[k, J], rows sum to 1.
    """

    agents: Positions
    by_item: Floats
    share: Floats


def _item_covariance(cells: CellIndex, weight: Floats, error: Floats, *, component: Ids) -> CentredCovariance:
    """Of the θ_i − θ̄, θ̄ the mean over the agents of i's component that have one, by `covariance_over_clusters` with

    U_ij = Σ_k A_kj(R_ik − T_ij)·e_kj·√((1 − A_kj/m_j)/(1 − h_kj)·(1 − p_kj)), p_kj = A_kj/n_k. With V any inverse of XᵀAX on what
    the cells determine, centred R, T = R·A/m, θ̂_i moves with the score of cell (k, j) by A_kj(R_ik − T_ij), and
    h = A_kj(V_kk − 2V_kj + V_jj); n and m are the weights of agents and items, cells that are fitted exactly left out. In a dense
    matrix the root is 1.

    weight: float[N] > 0; error: float[N], residuals of the cells; component: as `agent_components` gives.
    NaN: an agent seen once, one that a single cell links to the rest, an agent alone, and every pair of two components.

    Source: MacKinnon and White (1985), J. Econometrics 29, for weights taken as fixed, by item.
    """
    covariance, freedom = np.full((cells.n_agents, cells.n_agents), np.nan), np.full(cells.n_agents, np.nan)
    for moves in _moves(cells, weight, error, component=component):
        if (moves.n_items >= 2).sum() < 2:
            continue
        own = moves.agents
        found = covariance_of_blocks(
            moves.blocks(), n_clusters=moves.n_items, share_squares=moves.share_squares, size=1 / moves.weight
        )
        covariance[np.ix_(own, own)], freedom[own] = found.covariance, found.freedom
    return CentredCovariance(covariance, freedom)


def item_moves(cells: CellIndex, weight: Floats, error: Floats, *, component: Ids) -> Iterator[CellItemMoves]:
    """One for each component, of its largest set of agents that stay linked without any one cell. As `_item_covariance`."""
    for moves in _moves(cells, weight, error, component=component):
        by_item, share = (np.concatenate(table, axis=1) for table in zip(*moves.blocks(), strict=True))
        yield CellItemMoves(moves.agents, by_item, share)


class _Moves(NamedTuple):
    """`CellItemMoves` by blocks of items. weight: float[k], of an agent's cells; n_items: int64[k], in which it has a share;
    share_squares: float[k], Σp²."""

    agents: Positions
    weight: Floats
    n_items: Positions
    share_squares: Floats
    blocks: Callable[[], Iterator[tuple[Floats, Floats]]]


def _moves(cells: CellIndex, weight: Floats, error: Floats, *, component: Ids) -> Iterator[_Moves]:
    seen = np.flatnonzero(component >= 0)
    part, K = component[seen], len(seen)
    renumbered = (np.cumsum(component >= 0) - 1).astype(np.int32)
    at = CellIndex(renumbered[cells.agent], cells.item, K, cells.n_items)
    agent, item = at.agent, at.item

    def of_agents(column: Floats) -> Floats:
        return np.bincount(agent, column, K).astype(np.float64)

    n, m = of_agents(weight), np.bincount(item, weight, at.n_items)
    divided = weight / m[item]
    folded = np.zeros((K, K))
    for A, C in at.blocks(weight, divided):
        folded += C @ A.T
    same = part[:, None] == part
    V = inv(np.diag(n) - folded + same * (n.mean() / same.sum(axis=1)), check_finite=False)
    leverage = np.empty(len(at))
    for (rows, items), (C,) in zip(at.spans(), at.blocks(divided), strict=True):
        across, k, j = V @ C, agent[rows], item[rows] - items.start
        own_moves = np.diag(V)[k] - 2 * across[k, j] + 1 / m[item[rows]] + (C * across).sum(axis=0)[j]
        leverage[rows] = weight[rows] * own_moves
    free = leverage < 1 - _EXACT
    tells = np.where(free, weight, 0.0)
    own, of_item = of_agents(tells), np.bincount(item, tells, at.n_items)
    share, among = (np.divide(tells, of, out=np.zeros(len(at)), where=of > 0) for of in (own[agent], of_item[item]))
    left = np.maximum((1 - among) * (1 - share), 0)
    moving = weight * error * np.sqrt(np.divide(left, 1 - leverage, out=np.zeros(len(at)), where=free))

    def blocks(group: Bools) -> Iterator[tuple[Floats, Floats]]:
        R = V[group] - V[group].mean(axis=0)
        for M, C, p in at.blocks(moving, divided, share):
            yield R @ M - (R @ C) * M.sum(axis=0), p[group]

    n_items = np.bincount(agent[share > 0], minlength=K)
    for group in _references(part, at.where(free)):
        squares = of_agents(share**2)[group]
        yield _Moves(seen[group], own[group], n_items[group], squares, partial(blocks, group))


def _references(component: Ids, free: CellIndex) -> list[Bools]:
    """For each component, its largest set of agents that stay linked without any one cell; none of a single agent."""
    linked = agent_components(free.agent, free.item, n_agents=free.n_agents, n_items=free.n_items)
    groups = []
    for one in range(int(component.max()) + 1):
        within = linked[(component == one) & (linked >= 0)]
        if within.size:
            group = linked == np.bincount(within).argmax()
            if group.sum() > 1:
                groups.append(group)
    return groups


class ClippedLinear(Estimator):
    """Abilities and difficulties by least squares, predictions clipped to the range of scores.

    min Σ w (s − θ_i + b_j)² + ridge·(‖θ‖² + ‖b‖²), Σ b = 0 over the items seen; ŝ = clip(θ_i − b_j, −1, 1). w is the number
    of answered trials behind a cell over its mean, so that equal weights give plain least squares at any ridge.

    constraint: `censored` (a score of ±1 pays only for a prediction short of it), `clip` (the plain fit) or `box`
    (|θ_i − b_j| ≤ 1); see `youden.stats.additive.solver.solve_additive`. `none` is `clip` here.
    ridge: positive, in mean weights of a cell; it makes the solution unique, and at 1e-6 is too small to move it.
    level: the intervals' coverage, in (0, 1).

    Learned by `fit`, for K agents and J items; NaN for an agent or item without a cell:
    ability_: float[K]; difficulty_: float[J], in the scores' unit.
    low_, high_: float[K], the interval of θ_i − θ̄ (what a ranking needs) put around θ_i, over items of this kind, each of which
    is one draw; θ̄ is the mean over the agents that have an interval, in the agent's component. NaN where nothing says how sure
    it is: an agent seen once, one that a single cell links to the rest, an agent alone.
    covariance_: float[K, K], of the θ_i − θ̄, as `_item_covariance` gives it; NaN likewise and across components. freedom_:
    float[K], of Student's t.
    Under `censored` a saturated score that is overshot says nothing more, and no interval rests on it; under `box` the
    intervals are those of a fit without it.
    status_, message_, kkt_, n_components_, component_: see `youden.stats.additive.solver.Solution`.
    residual_: float[K, J], s − θ_i + b_j, not clipped; NaN where unseen.
    r2_: 1 − Σw·residual² / Σw(s − s̄)², the residual of a saturated score overshot under `censored` taken as 0; NaN where
    all scores are equal.

    Raises: StatisticsError, by `fit` and `predict`.

    Source: the paper's clipped-linear model; its intervals are multinomial bootstraps, these are sandwich ones,
    by item.

    >>> model = ClippedLinear().fit([[0.5, 0.3, 0.1], [0.4, 0.2, float("nan")]])
    >>> model.ability_.round(2), model.difficulty_.round(2)
    (array([0.3, 0.2]), array([-0.2,  0. ,  0.2]))
    >>> model.predict().round(2)[1, 2]  # the cell that was not seen
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
        """Fit to scores and their weights, or to a matrix float[K, J] in [−1, 1] of equal weights; NaN is unseen.

        Raises: StatisticsError [scores-empty], [scores-range], [scores-infinite], [scores-shape], [scores-numeric],
        [weights-negative], [weights-shape], [weights-numeric], [ridge], [level],
        [constraint], [box-too-large].
        """
        check_level(self.level)
        at, value, weight = _weighted(scores)
        cells = check_cells(at.agent, at.item, value, n_agents=at.n_agents, n_items=at.n_items, weight=weight)
        solution = solve_cells(cells, ridge=self.ridge, constraint=self.constraint)
        self.ability_, self.difficulty_ = solution.ability, solution.difficulty
        self.status_, self.message_, self.kkt_ = solution.status, solution.message, solution.kkt
        self.n_components_, self.component_ = solution.n_components, solution.component
        residual = value - (self.ability_[at.agent] - self.difficulty_[at.item])
        error, component = residual, self.component_
        overshot = (np.abs(value) == 1) & (error * value < 0)
        binding = weight
        if self.constraint == "censored" and overshot.any():
            binding, error = np.where(overshot, 0.0, weight), np.where(overshot, 0.0, error)
            kept = ~overshot
            component = agent_components(at.agent[kept], at.item[kept], n_agents=at.n_agents, n_items=at.n_items)
        self.r2_ = explained(value, error, weight)
        self._seen = ScoredCells(at, residual, weight)
        self._binding, self._error, self._component = binding, error, component
        for made in ("centred_covariance", "residual_"):
            self.__dict__.pop(made, None)
        return self

    def predict(self) -> Floats:
        """clip(θ_i − b_j, −1, 1) for every cell: float[K, J], NaN for agents and items never seen.

        Raises: StatisticsError [not-fitted].
        """
        self._check_fitted()
        return np.clip(self.ability_[:, None] - self.difficulty_, -1, 1)

    def predict_at(self, agent: Ids | Positions, item: Ids | Positions) -> Floats:
        """Predict single cells.

        Parameters
        ----------
        agent, item : int array (n_cells,)
            Position of the agent and of the item of each cell.

        Returns
        -------
        float array (n_cells,)
            Predictions in [−1, 1], as `predict` returns them.

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
        """`residual_` of the cells seen, as columns, with their weights of mean 1. Raises: StatisticsError [not-fitted]."""
        self._check_fitted()
        return self._seen

    @cached_property
    def residual_(self) -> Floats:
        cells = self.residual_cells_
        found = cells.at.matrix(cells.value, empty=np.nan)
        freeze([found])
        return found

    @cached_property
    def centred_covariance(self) -> CentredCovariance:
        """`covariance_` and `freedom_` together, made when first asked for. Raises: StatisticsError [not-fitted]."""
        found = _item_covariance(*self._bound(), component=self._component)
        freeze([found.covariance, found.freedom])
        return found

    def item_moves(self) -> Iterator[CellItemMoves]:
        """What the items do to abilities, which `covariance_` sums up, for each set of agents that more than one cell links.

        Raises: StatisticsError [not-fitted].
        """
        return item_moves(*self._bound(), component=self._component)

    def _bound(self) -> tuple[CellIndex, Floats, Floats]:
        """The cells that say something, with their weights and residuals."""
        self._check_fitted()
        binding = self._binding > 0
        return self._seen.at.where(binding), self._binding[binding], self._error[binding]

    @property
    def covariance_(self) -> Floats:
        return self.centred_covariance.covariance

    @property
    def freedom_(self) -> Floats:
        return self.centred_covariance.freedom

    @property
    def low_(self) -> Floats:
        return np.asarray(self.ability_ - self.centred_covariance.half_width(self.level))

    @property
    def high_(self) -> Floats:
        return np.asarray(self.ability_ + self.centred_covariance.half_width(self.level))

    def _check_fitted(self) -> None:
        if not hasattr(self, "ability_"):
            raise not_fitted(self)


def _weighted(scores: Scores | ArrayLike) -> ScoredCells:
    """The cells that were seen, with weights of mean 1."""
    if isinstance(scores, Scores):
        cells = check_scored_cells(scores)
        cells = cells.where(cells.weight > 0)
    else:
        value = check_score_matrix(scores)
        at = CellIndex.of(~np.isnan(value))
        cells = ScoredCells(at, value[at.agent, at.item], np.ones(len(at)))
    if not len(at := cells.at):
        raise no_cells(f"{at.n_agents} × {at.n_items}, all unseen")
    return cells._replace(weight=cells.weight * (len(at) / cells.weight.sum()))


def explained(value: Floats, left: Floats, weight: Floats | None = None) -> float:
    """1 − Σw·left² / Σw(value − mean)² of float[N], of which a fit leaves `left`; NaN where all are equal. weight: 1 if None."""
    if np.ptp(value) == 0:
        return float("nan")
    w = np.ones(len(value)) if weight is None else weight
    return 1 - float(w @ left**2) / float(w @ (value - np.average(value, weights=w)) ** 2)
