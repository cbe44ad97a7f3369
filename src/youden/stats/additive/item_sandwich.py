"""How sure the additive model's abilities are over items of the kind: residuals of cells, summed by item.

`hc2_covariance` takes cells for independent; here an item is one draw. Its own effect, which the fit takes out, is no doubt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import inv

from youden.nouns.arrays import Floats, Ids, Positions
from youden.stats.additive.sandwich import _EXACT, _references
from youden.stats.base.clusters import CentredCovariance, covariance_over_clusters


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

    U_ij = Σ_k A_kj(R_ik − T_ij)·e_kj·√((1 − A_kj/m_j)/(1 − h_kj)·(1 − p_kj)), p_kj = A_kj/n_k; R, T, h as in `hc2_covariance`,
    n and m the weights of agents and items. In a dense matrix the root is 1.

    weight: float[K, J], 0 where unseen; error: float[K, J], residuals, 0 where unseen; component: as `agent_components` gives.
    NaN: as in `hc2_covariance`, and for components of fewer than 3 agents.
    """
    covariance, freedom = np.full((len(weight), len(weight)), np.nan), np.full(len(weight), np.nan)
    for own, U, share, n in item_moves(weight, error, component=component):
        if ((share > 0).sum(axis=1) >= 2).sum() < 3:
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
    share = A / n[:, None]
    root = np.divide(np.maximum((1 - C) * (1 - share), 0), 1 - leverage, out=np.zeros_like(A), where=free)
    moving = A * error * np.sqrt(root)
    for group in _references(part, free):
        R = V[group] - V[group].mean(axis=0)
        U = R @ moving - (R @ C) * moving.sum(axis=0)
        yield ItemMoves(seen[group], U, np.where(free[group], share[group], 0.0), n[group])
