"""Knows the exact least-squares fit of score ≈ ability − difficulty on any set of cells.

It refuses to know what a score means, on which scale it stands, and how far a fit can be trusted.

Given one side, the other has a closed form. Eliminating the larger side, and the multiplier of the gauge with it, leaves
one dense positive definite system on the smaller, which one Cholesky factor solves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.csgraph import connected_components

from youden.errors import StatisticsError
from youden.stats.validation import Cells, check_cells, check_ridge
from youden.types.arrays import Bools, Floats, Ids, Positions, freeze

SolutionStatus = Literal["ok", "disconnected"]


@dataclass(frozen=True, eq=False)
class Solution:
    """What the solver found, and whether it means something.

    ability: float[K], difficulty: float[J], in the scores' unit; NaN for an agent or item without a cell. Difficulties of
    the items seen sum to 0.
    status: `disconnected` where some agents share no chain of cells with others: the ridge makes the solution unique, but
    comparing across components means nothing. message: what to try then, else empty.
    kkt: largest absolute residual of the normal equations, their gauge included.
    component: int32[K], from 0 in the agents' order, −1 for an agent without a cell.
    """

    ability: Floats
    difficulty: Floats
    status: SolutionStatus
    message: str
    kkt: float
    n_components: int
    component: Ids

    def __post_init__(self) -> None:
        freeze([self.ability, self.difficulty, self.component])


def solve_additive(
    agent: ArrayLike,
    item: ArrayLike,
    score: ArrayLike,
    *,
    n_agents: int,
    n_items: int,
    weight: ArrayLike | None = None,
    ridge: float = 1e-6,
) -> Solution:
    """The abilities θ and difficulties b that fit the observed cells best.

    min Σ w (s − θ_i + b_j)² + ridge·(‖θ‖² + ‖b‖²) over cells, subject to Σ b = 0 over the items seen.

    agent, item: int[N], positions; score: float[N], finite, any scale; weight: float[N] ≥ 0, 1 if not given; a cell of
    weight 0 is unseen, one given twice counts twice. O(N·p + p³) time, O(N + p²) memory, p = min(K, J).

    Raises: StatisticsError [ridge], [additive-singular], and those of `check_cells`.
    Source: the paper's clipped-linear objective, solved exactly instead of by alternating minimisation; its gauge is over
    all items, ours over those seen.
    """
    check_ridge(ridge)
    cells = check_cells(agent, item, score=score, weight=weight, n_agents=n_agents, n_items=n_items)
    A = csr_array(coo_array((cells.weight, (cells.agent, cells.item)), shape=(n_agents, n_items)))
    weighted = cells.weight * cells.score
    r = _totals(cells.agent, weighted, size=n_agents)
    c = _totals(cells.item, weighted, size=n_items)
    seen = np.bincount(cells.item, minlength=n_items) > 0
    gauge = seen.astype(np.float64)
    if n_agents <= n_items:
        theta, b = _eliminate_columns(A, r, c, row_gauge=np.zeros(n_agents), column_gauge=gauge, ridge=ridge)
    else:  # s − θ + b = −((−s) − b + θ): transposed and negated, items take the agents' place
        b, theta = _eliminate_columns(
            csr_array(A.T), -c, -r, row_gauge=gauge, column_gauge=np.zeros(n_agents), ridge=ridge
        )
    kkt = _kkt(cells, theta, b, seen=seen, ridge=ridge)
    component = agent_components(cells.agent, cells.item, n_agents=n_agents, n_items=n_items)
    n_components = int(component.max()) + 1
    return Solution(
        ability=np.where(component >= 0, theta, np.nan),
        difficulty=np.where(seen, b, np.nan),
        status="ok" if n_components == 1 else "disconnected",
        message="" if n_components == 1 else _disconnected(component, n_components),
        kkt=kkt,
        n_components=n_components,
        component=component,
    )


def agent_components(agent: Positions, item: Positions, *, n_agents: int, n_items: int) -> Ids:
    """Which agents are linked by chains of cells: int32[K], numbered from 0 in the agents' order, −1 without a cell.

    agent, item: int[N], positions of the cells.

    >>> agent_components(np.array([0, 2, 3]), np.array([1, 1, 0]), n_agents=4, n_items=2).tolist()
    [0, -1, 0, 1]
    """
    n = n_agents + n_items
    graph = coo_array((np.ones(len(agent), dtype=np.int8), (agent, n_agents + item)), shape=(n, n))
    _, label = connected_components(graph, directed=False)
    seen = np.bincount(agent, minlength=n_agents) > 0
    component = np.full(n_agents, -1, dtype=np.int32)
    component[seen] = np.unique(label[:n_agents][seen], return_inverse=True)[1]
    return component


def _eliminate_columns(
    A: csr_array[np.float64, tuple[int, int]],
    r: Floats,
    c: Floats,
    *,
    row_gauge: Floats,
    column_gauge: Floats,
    ridge: float,
) -> tuple[Floats, Floats]:
    """Row effects x and column effects y of s ≈ x − y, with row_gauge·x + column_gauge·y = 0.

    With the multiplier ν: (n+λ)x − Ay + ν·row_gauge = r and y/w − Aᵀx + c + ν·column_gauge = 0. Eliminating y leaves
    Sx + νh = rhs and hᵀx = δ + νγ. Adding σh times the second to the first makes S definite, and σ = 1/γ also removes ν.
    """
    n: Floats = np.asarray(A.sum(axis=1))
    w: Floats = 1 / (np.asarray(A.sum(axis=0)) + ridge)
    scaled = A @ diags_array(w)
    S = np.diag(n + ridge) - (scaled @ A.T).toarray()
    h = row_gauge + scaled @ column_gauge
    gamma = float(w @ column_gauge**2)
    delta = float(column_gauge @ (w * c))
    sigma = 1 / gamma if gamma else float(n.mean()) / len(n)
    rhs = r - scaled @ c + sigma * delta * h
    try:
        factor = cho_factor(S + sigma * np.outer(h, h), lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError as error:
        raise StatisticsError(
            f"The cells do not determine the effects at ridge {ridge}. Score more cells, or raise the ridge to 1e-6.",
            slug="additive-singular",
        ) from error
    x, along = cho_solve(factor, np.column_stack([rhs, h]), check_finite=False).T
    if gamma:
        nu = float(h @ x - delta) / gamma
    else:
        nu = float(h @ x) / float(h @ along)
        x = x - nu * along
    return x, w * (A.T @ x - c - nu * column_gauge)


def _totals(index: Positions, amount: Floats, *, size: int) -> Floats:
    return np.asarray(np.bincount(index, weights=amount, minlength=size), dtype=np.float64)


def _kkt(cells: Cells, theta: Floats, b: Floats, *, seen: Bools, ridge: float) -> float:
    pull = cells.weight * (cells.score - theta[cells.agent] + b[cells.item])
    g_theta = ridge * theta - _totals(cells.agent, pull, size=len(theta))
    g_b = (ridge * b + _totals(cells.item, pull, size=len(b)))[seen]
    nu = -g_b.mean()
    return float(max(np.abs(g_theta).max(), np.abs(g_b + nu).max(), abs(b[seen].sum())))


def _disconnected(component: Ids, n_components: int) -> str:
    sizes = np.sort(np.bincount(component[component >= 0]))[::-1]
    shown = ", ".join(map(str, sizes[:5])) + (", …" if n_components > 5 else "")
    return (
        f"The cells fall into {n_components} components (of {shown} agents) that share no agent and no item. "
        "Compare agents only within a component, or score cells that join them."
    )
