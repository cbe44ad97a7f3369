"""Find how much each item moves the abilities of a clipped-linear fit, and the covariance of the abilities from that.

A cell is one agent on one item. Items are the independent draws: the residuals of all cells of an item are summed
before they are squared, so that cells of one item may be correlated. The difficulty of an item is a fitted parameter,
and no error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import inv

from youden.stats.base.clusters import CentredCovariance, covariance_of_chunks
from youden.stats.trials.comparisons import agent_components
from youden.types.cells import CellIndex
from youden.types.pool import Bools, Floats, Ids, Positions

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


def covariance_by_item(cells: CellIndex, weight: Floats, residual: Floats, *, component: Ids) -> CentredCovariance:
    """Estimate the covariance of the abilities' distances from their mean, θ_i − θ̄.

    θ̄ is the mean over the agents of the same component that have a variance.

    Parameters
    ----------
    cells : CellIndex
        Agent and item of each cell.
    weight, residual : float array (n_cells,)
        Weight of each cell, above 0, and its residual.
    component : int array (n_agents,)
        Component of each agent; −1 for an agent without a cell.

    Returns
    -------
    CentredCovariance
        Covariance matrix and degrees of freedom. An entry is NaN for an agent with a single cell, for one that a single
        cell links to the others, for an agent alone, and for two agents of different components; all are NaN if nothing
        can be estimated.

    Notes
    -----
    This is a sandwich estimator, clustered by item, with the variances of `covariance_of_chunks`: they are shrunk towards a
    prior, and allow for items that are not in the sample.

    A_kj is the weight of cell (k, j), e_kj its residual, and V any inverse of the normal matrix of agents and items on
    what the cells determine. R is V minus the mean of its rows, and T = R·A/m. θ̂_i changes with the score of the cell
    by A_kj(R_ik − T_ij), and the leverage of the cell is h_kj = A_kj(V_kk − 2V_kj + V_jj). The influence of item j is

    U_ij = Σ_k A_kj(R_ik − T_ij)·e_kj·√((1 − A_kj/m_j)/(1 − h_kj)·(1 − p_kj)), with p_kj = A_kj/n_k.

    Under the root, n and m are the weights of agents and items without cells that are fitted exactly. For a dense
    matrix the root is 1 (MacKinnon & White 1985, J. Econometrics 29, by item, with weights taken as fixed).
    """
    n_agents = cells.n_agents
    covariance = np.full((n_agents, n_agents), np.nan)
    df = np.full(n_agents, np.nan)
    for group in _iter_groups(cells, weight, residual, component=component):
        n_agents_on_2_items = (group.n_items >= 2).sum()
        if n_agents_on_2_items < 2:
            continue
        estimate = covariance_of_chunks(
            group.iter_chunks(),
            n_clusters=group.n_items,
            share_squares=group.share_squares,
            relative_variance=1 / group.weight,
        )
        covariance[np.ix_(group.agents, group.agents)] = estimate.covariance
        df[group.agents] = estimate.df
    return CentredCovariance(covariance, df)


def iter_cell_influence(
    cells: CellIndex, weight: Floats, residual: Floats, *, component: Ids
) -> Iterator[CellInfluence]:
    """Yield the influence of all items on each group of linked agents.

    Agents are linked if they have cells on a common item, directly or through other agents.

    Parameters
    ----------
    cells : CellIndex
        Agent and item of each cell.
    weight, residual : float array (n_cells,)
        Weight of each cell, above 0, and its residual.
    component : int array (n_agents,)
        Component of each agent; −1 for an agent without a cell.

    Yields
    ------
    CellInfluence
        One for each component with two agents that stay linked if any single cell is removed. It contains the
        component's largest group of agents that stay linked: their positions, int array (n_linked,); the influence U of
        each item on their abilities (see `covariance_by_item`), float array (n_linked, n_items); and the share of each
        item in the weight of an agent's cells, an array of the same shape.
    """
    for group in _iter_groups(cells, weight, residual, component=component):
        influence_chunks, share_chunks = zip(*group.iter_chunks(), strict=True)
        influence = np.concatenate(influence_chunks, axis=1)
        share = np.concatenate(share_chunks, axis=1)
        yield CellInfluence(group.agents, influence, share)


class _LinkedGroup(NamedTuple):
    """Agents that stay linked if any single cell is removed, and the influence of items on them.

    Attributes
    ----------
    agents : int64 array (n_linked,)
        Positions of the agents.
    weight : float array (n_linked,)
        Total weight of each agent's cells.
    n_items : int64 array (n_linked,)
        Number of items that have a share in the agent's weight.
    share_squares : float array (n_linked,)
        Sum of the squared shares of each agent's cells.
    iter_chunks : callable
        Function that yields influence and share for one chunk of items after another, float array
        (n_linked, n_chunk_items) each.
    """

    agents: Positions
    weight: Floats
    n_items: Positions
    share_squares: Floats
    iter_chunks: Callable[[], Iterator[tuple[Floats, Floats]]]


def _iter_groups(cells: CellIndex, weight: Floats, residual: Floats, *, component: Ids) -> Iterator[_LinkedGroup]:
    """Yield the largest group of agents of each component that stay linked if any single cell is removed.

    weight, residual : float arrays (n_cells,), weight and residual of each cell
    component : int array (n_agents,), component of each agent; −1 for an agent without a cell
    """
    # number the agents with a cell from 0
    is_observed = component >= 0
    observed = np.flatnonzero(is_observed)
    number = (np.cumsum(is_observed) - 1).astype(np.int32)
    index = CellIndex(number[cells.agent], cells.item, len(observed), cells.n_items)
    component = component[observed]

    item_weight = np.bincount(index.item, weight, index.n_items)
    share_of_item = weight / item_weight[index.item]
    inverse = _invert_normal_matrix(index, weight, share_of_item, component=component)
    leverage = _compute_leverages(index, weight, share_of_item, inverse)
    is_free = leverage < 1 - _EXACT_FIT
    free = _compute_free_cell_terms(index, weight, leverage, is_free)
    adjusted_residual = weight * residual * free.residual_factor

    n_items = np.bincount(index.agent[free.share > 0], minlength=len(observed))
    share_squares = np.bincount(index.agent, free.share**2, len(observed)).astype(np.float64)
    for is_member in _find_robustly_linked(component, index.where(is_free)):
        iter_chunks = partial(
            _iter_influence,
            index,
            adjusted_residual,
            share_of_item=share_of_item,
            share_of_agent=free.share,
            inverse=inverse,
            is_member=is_member,
        )
        yield _LinkedGroup(
            agents=observed[is_member],
            weight=free.agent_weight[is_member],
            n_items=n_items[is_member],
            share_squares=share_squares[is_member],
            iter_chunks=iter_chunks,
        )


def _iter_influence(
    index: CellIndex,
    adjusted_residual: Floats,
    *,
    share_of_item: Floats,
    share_of_agent: Floats,
    inverse: Floats,
    is_member: Bools,
) -> Iterator[tuple[Floats, Floats]]:
    """Yield the influence of the items of each chunk on the agents of a group, and the items' shares in their weights.

    adjusted_residual : float array (n_cells,), residual × weight × correction of each cell
    share_of_item, share_of_agent : float arrays (n_cells,), share of the cell in the weights of its item and agent
    inverse : float array (n_agents, n_agents), inverse of the normal matrix of agent effects
    is_member : bool array (n_agents,), agents of the group

    Yields two float arrays (n_linked, n_chunk_items).
    """
    # change of each centred ability of the group per unit of the weighted residual of each agent
    response = inverse[is_member] - inverse[is_member].mean(axis=0)
    for residual, item_share, share in index.iter_matrices(adjusted_residual, share_of_item, share_of_agent):
        # each matrix is agents × items; the second term is the effect of the fitted difficulty of the item
        influence = response @ residual - (response @ item_share) * residual.sum(axis=0)
        yield influence, share[is_member]


class _FreeCellTerms(NamedTuple):
    """Weights and corrections of the cells that are not fitted exactly.

    Attributes
    ----------
    agent_weight : float array (n_agents,)
        Total weight of these cells of each agent.
    share : float array (n_cells,)
        Share p_kj of a cell in the weight of its agent; 0 for a cell that is fitted exactly.
    residual_factor : float array (n_cells,)
        Correction √((1 − A_kj/m_j)/(1 − h_kj)·(1 − p_kj)) of a residual, with A_kj the weight of the cell, m_j the
        weight of the item and h_kj the leverage; 0 for a cell that is fitted exactly.
    """

    agent_weight: Floats
    share: Floats
    residual_factor: Floats


def _compute_free_cell_terms(index: CellIndex, weight: Floats, leverage: Floats, is_free: Bools) -> _FreeCellTerms:
    """Compute the shares of free cells in the weights of their agents, and the factors that correct their residuals.

    A cell is free unless it is fitted exactly, that is, unless its leverage is 1.

    weight, leverage : float arrays (n_cells,)
    is_free : bool array (n_cells,)
    """
    free_weight = np.where(is_free, weight, 0.0)
    agent_weight = np.bincount(index.agent, free_weight, index.n_agents).astype(np.float64)
    item_weight = np.bincount(index.item, free_weight, index.n_items).astype(np.float64)
    share = _divide_or_0(free_weight, agent_weight[index.agent])
    item_share = _divide_or_0(free_weight, item_weight[index.item])

    # factor² = (1 − A_kj/m_j)·(1 − p_kj)/(1 − h_kj), as in `_FreeCellTerms`
    numerator = np.maximum((1 - item_share) * (1 - share), 0)
    squared_factor = np.divide(numerator, 1 - leverage, out=np.zeros(len(index)), where=is_free)
    return _FreeCellTerms(agent_weight, share, np.sqrt(squared_factor))


def _invert_normal_matrix(index: CellIndex, weight: Floats, share_of_item: Floats, *, component: Ids) -> Floats:
    """Invert the normal matrix of the agent effects, from which the item effects were eliminated.

    weight : float array (n_cells,), weight of each cell
    share_of_item : float array (n_cells,), weight of each cell divided by the total weight of its item
    component : int array (n_agents,), component of each agent

    Returns a float array (n_agents, n_agents).
    """
    n_agents = index.n_agents
    agent_weight = np.bincount(index.agent, weight, n_agents).astype(np.float64)

    # Σ_j A_kj·A_ij/m_j for agents k and i, with A the weight of a cell and m the total weight of an item
    eliminated = np.zeros((n_agents, n_agents))
    for chunk_weight, chunk_share in index.iter_matrices(weight, share_of_item):  # agents × items each
        eliminated += chunk_share @ chunk_weight.T

    # a constant within each component makes the matrix regular without changing differences of effects
    is_same_component = component[:, None] == component
    constant = is_same_component * (agent_weight.mean() / is_same_component.sum(axis=1))
    return np.asarray(inv(np.diag(agent_weight) - eliminated + constant, check_finite=False))


def _compute_leverages(index: CellIndex, weight: Floats, share_of_item: Floats, inverse: Floats) -> Floats:
    """Compute the leverage of each cell, float array (n_cells,).

    Leverage is the change of the prediction of a cell per unit change of its score.

    weight, share_of_item : float arrays (n_cells,), weight of each cell, and its share in the total weight of its item
    inverse : float array (n_agents, n_agents), inverse of the normal matrix of agent effects
    """
    item_weight = np.bincount(index.item, weight, index.n_items)
    agent_variance = np.diag(inverse)
    leverage = np.empty(len(index))
    for (cells, items), (share,) in zip(index.iter_chunks(), index.iter_matrices(share_of_item), strict=True):
        agent = index.agent[cells]
        item = index.item[cells]
        column = item - items.start  # of the item in the matrices (agents × items) of the chunk

        # leverage of cell (k, j) = A_kj·(V_kk − 2·(VC)_kj + 1/m_j + (CᵀVC)_jj), with V the inverse, A the weight of the
        # cell, m the weight of the item, and C = A/m the share
        product = inverse @ share
        item_term = (share * product).sum(axis=0)
        agent_term = agent_variance[agent] - 2 * product[agent, column]
        quadratic_form = agent_term + 1 / item_weight[item] + item_term[column]
        leverage[cells] = weight[cells] * quadratic_form
    return leverage


def _divide_or_0(part: Floats, total: Floats) -> Floats:
    """Divide each part by its total; 0 where the total is 0."""
    return np.divide(part, total, out=np.zeros(len(part)), where=total > 0)


def _find_robustly_linked(component: Ids, free_cells: CellIndex) -> list[Bools]:
    """Find, in each component, the largest set of two or more agents that stay linked if any single cell is removed.

    component : int array (n_agents,), component of each agent
    free_cells : cells that are not fitted exactly

    Returns masks of the agents of each set, bool array (n_agents,). A component without such a set is left out.
    """
    linked_set = agent_components(
        free_cells.agent, free_cells.item, n_agents=free_cells.n_agents, n_items=free_cells.n_items
    )
    masks = []
    for label in range(int(component.max()) + 1):
        in_component = (component == label) & (linked_set >= 0)
        if not in_component.any():
            continue
        largest_set = np.bincount(linked_set[in_component]).argmax()
        mask = linked_set == largest_set
        if mask.sum() > 1:
            masks.append(mask)
    return masks
