"""Find how much each item moves the abilities of a clipped-linear fit, and the covariance of the abilities from that.

A cell is one agent on one item. Items are the independent draws: the residuals of all cells of an item are summed
before they are squared, so that cells of one item may be correlated. The difficulty of an item is a fitted parameter,
not an error. Agents are linked if they have cells on a common item, directly or through other agents.
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
        Agent and item of each cell, and the numbers of agents and of items.
    weight, residual : float array (n_cells,)
        Weight of each cell, above 0, and its residual: score minus prediction of the additive model.
    component : int array (n_agents,)
        Number of the component (set of linked agents) to which each agent belongs, from 0; −1 for an agent without a cell.

    Returns
    -------
    CentredCovariance
        `covariance`, float array (n_agents, n_agents), and degrees of freedom `df`, float array (n_agents,), of Student's t. An
        entry is NaN for an agent with a single cell, for an agent that only a single
        cell links to the others, for the only agent of a component, and for two agents of different components. All entries are
        NaN if no variance can be estimated.

    Notes
    -----
    This is a sandwich estimator, clustered by item, with the variances of `covariance_of_chunks`: they are shrunk towards a
    prior, and allow for items that are not in the sample.

    A_kj is the weight of cell (k, j), e_kj its residual, and V a generalized inverse of the normal matrix of agents and items. R
    is V minus the mean of its rows, and T = R·A/m. θ̂_i changes with the score of the cell by A_kj(R_ik − T_ij), and the leverage
    of the cell is h_kj = A_kj(V_kk − 2V_kj + V_jj). The influence of item j is

    U_ij = Σ_k A_kj(R_ik − T_ij)·e_kj·√((1 − A_kj/m_j)/(1 − h_kj)·(1 − p_kj)), with p_kj = A_kj/n_k.

    Under the root, the weights n of agents and m of items exclude cells that are fitted exactly. For a dense matrix the root is 1
    (MacKinnon & White 1985, J. Econometrics 29, by item, with weights taken as fixed).
    """
    n_agents = cells.n_agents
    covariance = np.full((n_agents, n_agents), np.nan)
    df = np.full(n_agents, np.nan)
    for group in _iter_linked_groups(cells, weight, residual, component=component):
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
    """Yield the influence of each item on the abilities of each group of linked agents.

    Agents are linked if they have cells on the same item, directly or through other agents.

    Parameters
    ----------
    cells : CellIndex
        Agent and item of each cell, and the numbers of agents and of items.
    weight, residual : float array (n_cells,)
        Weight of each cell, above 0, and its residual: score minus prediction of the additive model.
    component : int array (n_agents,)
        Number of the component (set of linked agents) to which each agent belongs, from 0; −1 for an agent without a cell.

    Yields
    ------
    CellInfluence
        One result per component, for the largest group of its agents that stays linked if any single cell is removed. `agents`
        has the positions of these agents, int array (n_linked,). The other fields are float arrays (n_linked, n_items): the
        `influence` of each item on their abilities, in units of the scores, and its `share` in the weight of each agent. A
        component without such a group is skipped.
    """
    for group in _iter_linked_groups(cells, weight, residual, component=component):
        chunks = list(group.iter_chunks())
        influence = np.concatenate([chunk_influence for chunk_influence, _ in chunks], axis=1)
        share = np.concatenate([chunk_share for _, chunk_share in chunks], axis=1)
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


def _iter_linked_groups(
    cells: CellIndex, weight: Floats, residual: Floats, *, component: Ids
) -> Iterator[_LinkedGroup]:
    """Yield, for each component, the largest group of its agents that stay linked if any single cell is removed.

    A component is a set of agents that are linked by cells on common items. Removing a single cell may divide the component.

    weight, residual : float arrays (n_cells,), weight and residual of each cell
    component : int array (n_agents,), component of each agent; −1 for an agent without a cell

    Components without a group of two or more agents are left out.
    """
    # the same cells, with positions among the agents that have a cell
    is_observed = component >= 0
    observed = np.flatnonzero(is_observed)
    observed_position = (np.cumsum(is_observed) - 1).astype(np.int32)
    index = CellIndex(observed_position[cells.agent], cells.item, len(observed), cells.n_items)
    component = component[observed]

    # inverse of the normal matrix of the fit, and from it the leverage of each cell
    item_weight = np.bincount(index.item, weight, index.n_items)
    share_of_item = weight / item_weight[index.item]
    inverse = _invert_agent_normal_matrix(index, weight, share_of_item, component=component)
    leverage = _compute_leverages(index, weight, share_of_item, inverse)

    # cells of leverage 1 are fitted exactly, so they have no residual and are left out of all sums
    is_free = leverage < 1 - _EXACT_FIT
    corrections = _compute_cell_corrections(index, weight, leverage, is_free)
    adjusted_residual = weight * residual * corrections.residual_factor

    has_share = corrections.share_of_agent > 0
    n_items = np.bincount(index.agent[has_share], minlength=len(observed))
    share_squares = np.bincount(index.agent, corrections.share_of_agent**2, len(observed)).astype(np.float64)
    for is_member in _find_largest_linked_groups(index.where(is_free), component):
        iter_chunks = partial(
            _iter_influence,
            index,
            adjusted_residual,
            share_of_item=share_of_item,
            share_of_agent=corrections.share_of_agent,
            inverse=inverse,
            is_member=is_member,
        )
        yield _LinkedGroup(
            agents=observed[is_member],
            weight=corrections.agent_weight[is_member],
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

    The influence of an item on an ability is the part of the ability's error that the item causes. It is computed from the
    residuals of the item's cells. The fitted difficulty of the item absorbs the mean of these residuals.

    adjusted_residual : float array (n_cells,), residual × weight × correction of each cell
    share_of_item, share_of_agent : float arrays (n_cells,), weight of each cell divided by the total of its item, or its agent
    inverse : float array (n_agents, n_agents), inverse of the normal matrix of agent effects
    is_member : bool array (n_agents,), agents of the group

    Yields two float arrays (n_members, n_chunk_items): the influence of each item, and its share in each agent's weight.
    """
    # The influence of item j on the ability of agent i is Σ_k R_ik·(e_kj − s_kj·Σ_l e_lj), summed over agents k and l, with the
    # adjusted residual e of a cell and its share s in the item. R (n_members, n_agents) has the changes of the members'
    # abilities, minus the mean change of the group, per unit of each agent's residual at a fixed difficulty.
    inverse_of_members = inverse[is_member]
    ability_change = inverse_of_members - inverse_of_members.mean(axis=0)

    # values of the cells as matrices (n_agents, n_chunk_items)
    for residual, item_share, agent_share in index.iter_matrices(adjusted_residual, share_of_item, share_of_agent):
        at_fixed_difficulty = ability_change @ residual

        # subtract the part that the fitted difficulty absorbs
        residual_sum = residual.sum(axis=0)
        absorbed_by_difficulty = (ability_change @ item_share) * residual_sum
        influence = at_fixed_difficulty - absorbed_by_difficulty
        yield influence, agent_share[is_member]


class _CellCorrections(NamedTuple):
    """Weights and corrections of the cells that are not fitted exactly.

    Attributes
    ----------
    agent_weight : float array (n_agents,)
        Total weight of these cells of each agent.
    share_of_agent : float array (n_cells,)
        Share of a cell in the weight of its agent; 0 for a cell that is fitted exactly.
    residual_factor : float array (n_cells,)
        Factor that corrects a residual for its own influence on the fit; 0 for a cell that is fitted exactly.
    """

    agent_weight: Floats
    share_of_agent: Floats
    residual_factor: Floats


def _compute_cell_corrections(index: CellIndex, weight: Floats, leverage: Floats, is_free: Bools) -> _CellCorrections:
    """Compute a correction factor for the residual of each cell, because a fit to the cells makes residuals too small.

    The factor is √((1 − share in the item)·(1 − share in the agent)/(1 − leverage)). A share is the weight of the cell divided
    by the total weight of its item or agent. Only free cells count, those with a leverage below 1. Other cells are always fitted
    exactly, and get the factor 0.

    weight, leverage : float arrays (n_cells,), weight and leverage of each cell
    is_free : bool array (n_cells,), cells that are free

    Returns the factors, the total weight of each agent, and the share of each cell in the weight of its agent.
    """
    free_weight = np.where(is_free, weight, 0.0)
    agent_weight = np.bincount(index.agent, free_weight, index.n_agents).astype(np.float64)
    item_weight = np.bincount(index.item, free_weight, index.n_items).astype(np.float64)
    share_of_agent = _divide_or_0(free_weight, agent_weight[index.agent])
    share_of_item = _divide_or_0(free_weight, item_weight[index.item])

    # Residuals of an item are summed before they are squared, so the usual factor 1/(1 − leverage) is too large. In a dense
    # matrix, the numerator equals 1 − leverage, and the factor is 1.
    numerator = np.maximum((1 - share_of_item) * (1 - share_of_agent), 0)
    squared_factor = np.divide(numerator, 1 - leverage, out=np.zeros(len(index)), where=is_free)
    return _CellCorrections(agent_weight, share_of_agent, residual_factor=np.sqrt(squared_factor))


def _invert_agent_normal_matrix(index: CellIndex, weight: Floats, share_of_item: Floats, *, component: Ids) -> Floats:
    """Invert the normal matrix of the agent effects, from which the item effects were eliminated.

    The fit determines only differences between agents, so the matrix is singular. A constant is therefore added to the entries
    of all pairs of agents of the same component. It does not change the differences.

    weight : float array (n_cells,), weight of each cell
    share_of_item : float array (n_cells,), weight of each cell divided by the total weight of its item
    component : int array (n_agents,), component of each agent: the same number for agents that common items connect

    Returns a float array (n_agents, n_agents).
    """
    n_agents = index.n_agents
    agent_weight = np.bincount(index.agent, weight, n_agents).astype(np.float64)

    # The entry of agents k and i is n_k (if k = i) − Σ_j A_kj·A_ij/m_j, with the weights A of cells, n of agents and m of items.
    # The sum over items is computed from matrices (n_agents, n_chunk_items) of the weights A_ij and the shares A_kj/m_j.
    item_terms = np.zeros((n_agents, n_agents))
    for chunk_weight, chunk_share in index.iter_matrices(weight, share_of_item):
        item_terms += chunk_share @ chunk_weight.T

    # the constant has the size of the other entries of the matrix, so that rounding errors remain small
    is_same_component = component[:, None] == component
    n_agents_of_component = is_same_component.sum(axis=1)
    constant = is_same_component * (agent_weight.mean() / n_agents_of_component)
    normal_matrix = np.diag(agent_weight) - item_terms + constant
    return np.asarray(inv(normal_matrix, check_finite=False))


def _compute_leverages(index: CellIndex, weight: Floats, share_of_item: Floats, inverse: Floats) -> Floats:
    """Compute the leverage of each cell: the change of its prediction per unit change of its score.

    A prediction is ability − difficulty. The leverage is the weight of the cell times the variance of its prediction, if a score
    of weight w has the variance 1/w.

    weight, share_of_item : float arrays (n_cells,), weight of each cell, and its share in the total weight of its item
    inverse : float array (n_agents, n_agents), inverse of the normal matrix of agent effects

    Returns a float array (n_cells,).
    """
    item_weight = np.bincount(index.item, weight, index.n_items)
    ability_variance = np.diag(inverse)
    leverage = np.empty(len(index))
    # for each chunk of items: the ranges of its cells and items, and the shares as a matrix (n_agents, n_chunk_items)
    share_matrices = index.iter_matrices(share_of_item)
    for (cells, items), (share,) in zip(index.iter_chunks(), share_matrices, strict=True):
        # The difficulty of an item is the mean ability minus the mean score of its agents, weighted by their shares in the item.
        # The covariance matrix of abilities, `inverse`, gives cov(ability, mean ability) and var(mean ability).
        covariance_with_mean = inverse @ share
        variance_of_mean = (share * covariance_with_mean).sum(axis=0)

        # var(ability − difficulty) = var(ability) − 2·cov(ability, mean ability) + var(mean ability) + var(mean score)
        agent = index.agent[cells]
        item = index.item[cells]
        column = item - items.start  # of the item in the matrices of the chunk
        prediction_variance = (
            ability_variance[agent]
            - 2 * covariance_with_mean[agent, column]
            + 1 / item_weight[item]
            + variance_of_mean[column]
        )
        leverage[cells] = weight[cells] * prediction_variance
    return leverage


def _divide_or_0(part: Floats, total: Floats) -> Floats:
    """Divide each part by its total; 0 where the total is 0."""
    return np.divide(part, total, out=np.zeros(len(part)), where=total > 0)


def _find_largest_linked_groups(free_cells: CellIndex, component: Ids) -> list[Bools]:
    """Find, in each component, the largest group of agents that stay linked if any single cell is removed.

    Two agents with cells on the same item are linked. A cell is free if its agent and its item stay linked without it. A group
    has two or more agents that are linked by free cells alone.

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
        is_in_component = has_free_cell & (component == label)
        n_members = np.bincount(group_of_agent[is_in_component])
        largest_group = n_members.argmax()
        is_member = group_of_agent == largest_group
        if is_member.sum() > 1:
            groups.append(is_member)
    return groups
