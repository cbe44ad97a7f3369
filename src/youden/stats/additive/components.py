"""Which agents are linked by what was scored: only such abilities can be compared."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array

from youden.nouns.arrays import Ids
from youden.stats.additive.cells import IdColumn


def agent_components(agent: IdColumn, item: IdColumn, *, n_agents: int, n_items: int) -> Ids:
    """Which agents are linked by chains of cells: int32[K], numbered from 0 in the agents' order, −1 without a cell.

    agent, item: int[N], positions of the cells.

    >>> agent_components(np.array([0, 2, 3]), np.array([1, 1, 0]), n_agents=4, n_items=2).tolist()
    [0, -1, 0, 1]
    """
    from scipy.sparse.csgraph import connected_components  # takes long to load, and few who name this module need it

    n = n_agents + n_items
    graph = coo_array((np.ones(len(agent), dtype=np.int8), (agent, n_agents + item)), shape=(n, n))
    _, label = connected_components(graph, directed=False)
    seen = np.bincount(agent, minlength=n_agents) > 0
    component = np.full(n_agents, -1, dtype=np.int32)
    component[seen] = np.unique(label[:n_agents][seen], return_inverse=True)[1]
    return component


def disconnected(component: Ids) -> str:
    """What to do where there are several components; empty where there is one, or none."""
    sizes = np.sort(np.bincount(component[component >= 0]))[::-1]
    if len(sizes) < 2:
        return ""
    shown = ", ".join(map(str, sizes[:5])) + (", …" if len(sizes) > 5 else "")
    return (
        f"The cells fall into {len(sizes)} components (of {shown} agents) that share no agent and no item. "
        "Compare agents only within a component, or score cells that join them."
    )
