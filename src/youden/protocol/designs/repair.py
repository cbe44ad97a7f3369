"""Adds cells until every agent and item has enough of them and all hang together; the paper's d-core ≥ 3 connectivity."""

from __future__ import annotations

from typing import Literal

import numpy as np

from youden.errors import PlanError
from youden.nouns.arrays import Bools, Floats, Ids


class StarvedError(PlanError):
    """An agent or item cannot have `needs` cells: it has `n`.

    side, position: which one; `named` says the same with the id instead of the position. remedy: what to change.
    """

    def __init__(self, design: str, side: Literal["agent", "item"], position: int, *, n: int, needs: int, remedy: str):
        self.side, self.position = side, position
        self._parts = (design, n, needs, remedy)
        super().__init__(self._says(f"number {position}"), slug="d-core")

    def named(self, name: str) -> PlanError:
        return PlanError(self._says(f"'{name}'"), slug="d-core")

    def _says(self, which: str) -> str:
        design, n, needs, remedy = self._parts
        other = "items" if self.side == "agent" else "agents"
        return f"{design.capitalize()} design left {self.side} {which} with {n} {other} (needs {needs}). {remedy}"


def check_degrees(cells: Bools, *, d: int, design: str, remedies: tuple[str, str]) -> None:
    """Raises: StarvedError for the first item, then agent, with fewer than d of `cells` (bool[K, J]).

    remedies: what to say where an agent, and where an item, is short.
    """
    for axis, side, remedy in ((0, "item", remedies[1]), (1, "agent", remedies[0])):
        n = cells.sum(axis=axis)
        short = np.flatnonzero(n < d)
        if len(short):
            place = int(short[np.argmin(n[short])])
            raise StarvedError(
                design, "item" if side == "item" else "agent", place, n=int(n[place]), needs=d, remedy=remedy
            )


def repair(chosen: Bools, eligible: Bools, *, key: Floats, d: int) -> Bools:
    """`chosen` and the eligible cells of smallest `key` that give every agent and item d cells, and join all components.

    chosen, eligible: bool[K, J], every agent and item with at least d eligible cells; key: float[K, J], random.

    Raises: PlanError [not-connected] where the eligible cells themselves fall apart.
    """
    chosen = chosen.copy()
    for cells, may, order in ((chosen, eligible, key), (chosen.T, eligible.T, key.T)):
        for short in np.flatnonzero(cells.sum(axis=1) < d):
            spare = np.flatnonzero(may[short] & ~cells[short])
            missing = d - int(cells[short].sum())
            cells[short, spare[np.argsort(order[short, spare])[:missing]]] = True
    agents, items = components(chosen)
    while agents.max() > 0 or items.max() > 0:
        joining = eligible & (agents[:, None] != items)
        if not joining.any():
            raise _apart("Rank the parts on their own, add responses that join them, or lower the holdout.")
        i, j = np.unravel_index(np.argmin(np.where(joining, key, np.inf)), key.shape)
        chosen[i, j] = True
        merged, gone = agents[i], items[j]
        keep, drop = min(merged, gone), max(merged, gone)
        for labels in (agents, items):
            labels[labels == drop] = keep
            labels[labels > drop] -= 1
    return chosen


def check_connected(cells: Bools) -> None:
    """Raises: PlanError [not-connected] where `cells` fall into components."""
    if components(cells)[0].max() > 0:
        raise _apart("Set repair: true, or choose more cells.")


def components(cells: Bools) -> tuple[Ids, Ids]:
    """Component of every agent, int32[K], and item, int32[J], of the graph whose edges are `cells`, numbered from 0."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n_agents, n_items = cells.shape
    agent, item = np.nonzero(cells)
    graph = coo_array((np.ones(len(agent), dtype=np.int8), (agent, n_agents + item)), shape=(n_agents + n_items,) * 2)
    label = connected_components(graph, directed=False)[1].astype(np.int32)
    return label[:n_agents], label[n_agents:]


def _apart(remedy: str) -> PlanError:
    return PlanError(
        f"Some agents share no chain of items with the others, so nothing compares them. {remedy}", slug="not-connected"
    )
