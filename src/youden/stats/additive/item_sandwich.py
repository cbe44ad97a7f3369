"""How sure the additive model's abilities are over items of the kind: residuals of cells, summed by item.

An item is one draw, whatever its cells have in common. Its own effect, which the fit takes out, is no doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import inv

from youden.nouns.arrays import Bools, Floats, Ids, Positions
from youden.nouns.cells import CellIndex
from youden.stats.additive.components import agent_components
from youden.stats.base.clusters import CentredCovariance, covariance_of_blocks

_EXACT = 1e-9
"""A cell of leverage above 1 − this is fitted exactly whatever its score: it alone links two parts of the graph."""


class ItemMoves(NamedTuple):
    """What each item does to the abilities of agents that are linked by more than one cell.

    agents: int64[k]; by_item: float[k, J], U as in `item_covariance`; share: float[k, J], rows sum to 1; weight: float[k].
    """

    agents: Positions
    by_item: Floats
    share: Floats
    weight: Floats


def item_covariance(weight: Floats, error: Floats, *, component: Ids) -> CentredCovariance:
    """Of the θ_i − θ̄, θ̄ the mean over the agents of i's component that have one, by `covariance_over_clusters` with

    U_ij = Σ_k A_kj(R_ik − T_ij)·e_kj·√((1 − A_kj/m_j)/(1 − h_kj)·(1 − p_kj)), p_kj = A_kj/n_k. With V any inverse of XᵀAX on what
    the cells determine, centred R, T = R·A/m, θ̂_i moves with the score of cell (k, j) by A_kj(R_ik − T_ij), and
    h = A_kj(V_kk − 2V_kj + V_jj); n and m are the weights of agents and items, cells that are fitted exactly left out. In a dense
    matrix the root is 1.

    weight: float[K, J], 0 where unseen; error: float[K, J], residuals, 0 where unseen; component: as `agent_components` gives.
    NaN: an agent seen once, one that a single cell links to the rest, an agent alone, and every pair of two components.

    Source: MacKinnon and White (1985), J. Econometrics 29, for weights taken as fixed, by item.
    """
    cells = CellIndex.of(weight > 0)
    at = cells.agent, cells.item
    return item_covariance_of_cells(cells, weight[at], error[at], component=component)


def item_covariance_of_cells(cells: CellIndex, weight: Floats, error: Floats, *, component: Ids) -> CentredCovariance:
    """`item_covariance` of the cells seen, as columns: weight: float[N] > 0; error: float[N]."""
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


def item_moves(weight: Floats, error: Floats, *, component: Ids) -> Iterator[ItemMoves]:
    """One for each component, of its largest set of agents that stay linked without any one cell. As `item_covariance`."""
    cells = CellIndex.of(weight > 0)
    at = cells.agent, cells.item
    for moves in _moves(cells, weight[at], error[at], component=component):
        by_item, share = (np.concatenate(table, axis=1) for table in zip(*moves.blocks(), strict=True))
        yield ItemMoves(moves.agents, by_item, share, moves.weight)


class _Moves(NamedTuple):
    """`ItemMoves` by blocks of items. n_items: int64[k], in which an agent has a share; share_squares: float[k], Σp²."""

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
