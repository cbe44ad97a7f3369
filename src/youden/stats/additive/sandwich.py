"""The HC2 covariance of centred abilities, and which agents have enough cells for one."""

from __future__ import annotations

import numpy as np
from scipy.linalg import inv

from youden.nouns.arrays import Bools, Floats, Ids
from youden.stats.additive.components import agent_components

_EXACT = 1e-9
"""A cell of leverage above 1 − this is fitted exactly whatever its score: it alone links two parts of the graph."""


def hc2_covariance(weight: Floats, error: Floats, *, component: Ids) -> Floats:
    """Covariance of the θ_i − θ̄: float[K, K], θ̄ the mean over the agents of i's component that have one; NaN elsewhere.

    weight: float[K, J], 0 where unseen; error: float[K, J], residuals, 0 where unseen; component: as `agent_components` gives.
    With V any inverse of XᵀAX on what the cells determine, θ̂ moves with the score of cell (k, j) by A_kj(V_ik − V_ij), and
    that score varies by e²/(1 − h), h = A_kj(V_kk − 2V_kj + V_jj). NaN: an agent seen once, one that a single cell links to the
    rest, an agent alone, and every pair of agents from two components.

    Source: MacKinnon and White (1985), J. Econometrics 29, for weights taken as fixed.
    """
    covariance = np.full((len(weight), len(weight)), np.nan)
    seen = component >= 0
    A, error, part = weight[seen], error[seen], component[seen]
    n, m = A.sum(axis=1), A.sum(axis=0)
    w = np.divide(1, m, out=np.zeros_like(m), where=m > 0)
    C = A * w
    same = part[:, None] == part
    V = inv(np.diag(n) - C @ A.T + same * (n.mean() / same.sum(axis=1)), check_finite=False)
    across = V @ C
    leverage = A * (np.diag(V)[:, None] - 2 * across + w + (C * across).sum(axis=0))
    free = (A > 0) & (leverage < 1 - _EXACT)
    spread = np.divide((A * error) ** 2, 1 - leverage, out=np.zeros_like(A), where=free)
    R, known = V.copy(), np.zeros((len(A), len(A)), dtype=np.bool_)
    for group in _references(part, free):
        R[group] -= R[group].mean(axis=0)
        known |= np.outer(group, group)
    T = R @ C
    mixed = (R @ spread) @ T.T
    moved = (R * spread.sum(axis=1)) @ R.T + (T * spread.sum(axis=0)) @ T.T - mixed - mixed.T
    covariance[np.ix_(seen, seen)] = np.where(known, moved, np.nan)
    return covariance


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
