"""Find how much each item moves the abilities of a clipped-linear fit, and the covariance of the abilities from that.

A cell is one agent on one item. Items are the independent draws: the residuals of all cells of an item are summed
before they are squared, so that cells of one item may be correlated. The difficulty of an item is a fitted parameter,
and no error. Agents are linked if they have cells on a common item, directly or through other agents.
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

    These agents stay linked if any single cell is removed.

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

    Parameters
    ----------
    cells : CellIndex
        Agent and item of each cell.
    weight, residual : float array (n_cells,)
        Weight of each cell, above 0, and its residual.
    component : int array (n_agents,)
        Component of each agent: the number of its set of linked agents; −1 for an agent without a cell.

    Yields
    ------
    CellInfluence
        One result per component, for the largest group of its agents that stay linked after the removal of any single cell.
        Groups of one agent are skipped. The fields are the positions of the agents, int array (n_linked,), the influence of
        each item on their abilities, float array (n_linked, n_items), and the share of each item in the weight of each
        agent, an array of the same shape.
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

    Components without such a group are left out.
    """
    # the same cells, with positions among the agents that have a cell
    is_observed = component >= 0
    observed = np.flatnonzero(is_observed)
    observed_position = (np.cumsum(is_observed) - 1).astype(np.int32)
    index = CellIndex(observed_position[cells.agent], cells.item, len(observed), cells.n_items)
    component = component[observed]

    # cells of leverage 1 are fitted exactly, so they have no residual and are left out of all sums
    item_weight = np.bincount(index.item, weight, index.n_items)
    share_of_item = weight / item_weight[index.item]
    inverse = _invert_normal_matrix(index, weight, share_of_item, component=component)
    leverage = _compute_leverages(index, weight, share_of_item, inverse)
    is_free = leverage < 1 - _EXACT_FIT
    free_terms = _compute_free_cell_terms(index, weight, leverage, is_free)
    adjusted_residual = weight * residual * free_terms.residual_factor

    has_share = free_terms.share > 0
    n_items = np.bincount(index.agent[has_share], minlength=len(observed))
    share_squares = np.bincount(index.agent, free_terms.share**2, len(observed)).astype(np.float64)
    for is_member in _find_groups_linked_by(index.where(is_free), component):
        iter_chunks = partial(
            _iter_influence,
            index,
            adjusted_residual,
            share_of_item=share_of_item,
            share_of_agent=free_terms.share,
            inverse=inverse,
            is_member=is_member,
        )
        yield _LinkedGroup(
            agents=observed[is_member],
            weight=free_terms.agent_weight[is_member],
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
    """Yield the influence of the items of each chunk on the abilities of a group of agents.

    adjusted_residual : float array (n_cells,), residual × weight × correction of each cell
    share_of_item : float array (n_cells,), weight of each cell divided by the total weight of its item
    share_of_agent : float array (n_cells,), weight of each cell divided by the total weight of its agent
    inverse : float array (n_agents, n_agents), inverse of the normal matrix of agent effects
    is_member : bool array (n_agents,), agents of the group

    Yields two float arrays (n_members, n_chunk_items): the influence of each item, and its share in each agent's weight.
    """
    # R (n_members, n_agents): change of each ability, minus the mean of the group, per unit of an agent's residual
    inverse_of_members = inverse[is_member]
    ability_change = inverse_of_members - inverse_of_members.mean(axis=0)

    # With the matrices E of residuals and C of shares of items, the influence is R·E minus R·C times the sum of the
    # item's residuals. The second term is the part that the fitted difficulty of the item takes up.
    for residual, item_share, agent_share in index.iter_matrices(adjusted_residual, share_of_item, share_of_agent):
        through_abilities = ability_change @ residual
        through_difficulty = (ability_change @ item_share) * residual.sum(axis=0)
        yield through_abilities - through_difficulty, agent_share[is_member]


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
    """Compute the total weight of each agent, and the weight share and residual correction of each cell.

    Only free cells count: those with a leverage below 1. A cell with a leverage of 1 is fitted exactly, whatever its score.

    weight, leverage : float arrays (n_cells,), weight and leverage of each cell
    is_free : bool array (n_cells,), cells that are free
    """
    free_weight = np.where(is_free, weight, 0.0)
    agent_weight = np.bincount(index.agent, free_weight, index.n_agents).astype(np.float64)
    item_weight = np.bincount(index.item, free_weight, index.n_items).astype(np.float64)
    share = _divide_or_0(free_weight, agent_weight[index.agent])
    item_share = _divide_or_0(free_weight, item_weight[index.item])

    # squared correction (1 − share in the item)·(1 − share in the agent)/(1 − leverage)
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
    """Compute the leverage of each cell: the change of its prediction per unit change of its score.

    weight, share_of_item : float arrays (n_cells,), weight of each cell, and its share in the total weight of its item
    inverse : float array (n_agents, n_agents), inverse of the normal matrix of agent effects

    Returns a float array (n_cells,).

    The leverage of agent k on item j is w·(V_kk − 2(VC)_kj + 1/m + (CᵀVC)_jj), with the weight w of the cell, the total
    weight m of the item, the inverse V, and the matrix C of `share_of_item` (agents × items).
    """
    item_weight = np.bincount(index.item, weight, index.n_items)
    ability_variance = np.diag(inverse)
    leverage = np.empty(len(index))
    for (cells, items), (share,) in zip(index.iter_chunks(), index.iter_matrices(share_of_item), strict=True):
        covariance = inverse @ share  # VC: (n_agents, n_chunk_items)
        variance_from_abilities = (share * covariance).sum(axis=0)  # CᵀVC: (n_chunk_items,)

        agent = index.agent[cells]
        item = index.item[cells]
        column = item - items.start  # of the item in the arrays of the chunk
        prediction_variance = (
            ability_variance[agent]
            - 2 * covariance[agent, column]
            + 1 / item_weight[item]
            + variance_from_abilities[column]
        )
        leverage[cells] = weight[cells] * prediction_variance
    return leverage


def _divide_or_0(part: Floats, total: Floats) -> Floats:
    """Divide each part by its total; 0 where the total is 0."""
    return np.divide(part, total, out=np.zeros(len(part)), where=total > 0)


def _find_groups_linked_by(free_cells: CellIndex, component: Ids) -> list[Bools]:
    """Find, in each component, the largest group of two or more agents that free cells link.

    If removing a cell would separate agents, its
    leverage is 1, and it is not free. The agents of a group therefore stay linked after the removal of any single cell.

    free_cells : agents and items of the free cells
    component : int array (n_agents,), component of each agent, by the links of all cells

    Returns the members of each group as a mask, bool array (n_agents,). Components without a group are skipped.
    """
    group_of_agent = agent_components(
        free_cells.agent, free_cells.item, n_agents=free_cells.n_agents, n_items=free_cells.n_items
    )
    has_free_cell = group_of_agent >= 0

    groups = []
    for label in np.unique(component[has_free_cell]):
        groups_in_component = group_of_agent[has_free_cell & (component == label)]
        largest_group = np.bincount(groups_in_component).argmax()
        is_member = group_of_agent == largest_group
        if is_member.sum() > 1:
            groups.append(is_member)
    return groups
