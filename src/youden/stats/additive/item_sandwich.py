"""How sure the additive model's abilities are over items of the kind: residuals of cells, summed by item.

An item is one draw, whatever its cells have in common. Its own effect, which the fit takes out, is no doubt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import inv

from youden.nouns.arrays import Bools, Floats, Ids, Positions
from youden.stats.additive.components import agent_components
from youden.stats.base.clusters import CentredCovariance, covariance_over_clusters

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
    covariance, freedom = np.full((len(weight), len(weight)), np.nan), np.full(len(weight), np.nan)
    for own, U, share, n in item_moves(weight, error, component=component):
        if ((share > 0).sum(axis=1) >= 2).sum() < 2:
            continue
        found = covariance_over_clusters(U, share, size=1 / n)
        covariance[np.ix_(own, own)], freedom[own] = found.covariance, found.freedom
    return CentredCovariance(covariance, freedom)


def item_moves(weight: Floats, error: Floats, *, component: Ids) -> Iterator[ItemMoves]:
    """One for each component, of its largest set of agents that stay linked without any one cell. As `item_covariance`."""
    seen = np.flatnonzero(component >= 0)
    A, error, part = weight[seen], error[seen], component[seen]
    n, m = A.sum(axis=1), A.sum(axis=0)
    w = np.divide(1, m, out=np.zeros_like(m), where=m > 0)
    C = A * w
    same = part[:, None] == part
    V = inv(np.diag(n) - C @ A.T + same * (n.mean() / same.sum(axis=1)), check_finite=False)
    across = V @ C
    leverage = A * (np.diag(V)[:, None] - 2 * across + w + (C * across).sum(axis=0))
    free = (A > 0) & (leverage < 1 - _EXACT)
    tells = np.where(free, A, 0.0)
    own, of_item = tells.sum(axis=1, keepdims=True), tells.sum(axis=0)
    share = np.divide(tells, own, out=np.zeros_like(A), where=own > 0)
    among = np.divide(tells, of_item, out=np.zeros_like(A), where=of_item > 0)
    root = np.divide(np.maximum((1 - among) * (1 - share), 0), 1 - leverage, out=np.zeros_like(A), where=free)
    moving = A * error * np.sqrt(root)
    for group in _references(part, free):
        R = V[group] - V[group].mean(axis=0)
        U = R @ moving - (R @ C) * moving.sum(axis=0)
        yield ItemMoves(seen[group], U, share[group], own[group, 0])


def _references(component: Ids, free: Bools) -> list[Bools]:
    """For each component, its largest set of agents that stay linked without any one cell; none of a single agent."""
    linked = agent_components(*np.nonzero(free), n_agents=free.shape[0], n_items=free.shape[1])
    groups = []
    for one in range(int(component.max()) + 1):
        within = linked[(component == one) & (linked >= 0)]
        if within.size:
            group = linked == np.bincount(within).argmax()
            if group.sum() > 1:
                groups.append(group)
    return groups
