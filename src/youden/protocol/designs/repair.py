"""What every design of cells needs: checked options, partners of a cell, cells added where too few would be chosen.

A chosen cell is compared with partners on its item. Cells are added until every agent and item has enough of them and all hang
together: the paper's d-core ≥ 3 connectivity.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from youden.errors import PlanError
from youden.types import Trials
from youden.types.pool import Bools, Floats, Ids, Positions

PairRule = Literal["ordered", "unordered"]


def check_share(name: str, value: float | None) -> None:
    """Raises: PlanError [design-option] unless None or a number in (0, 1]."""
    if value is not None and not (_is_number(value) and 0 < value <= 1):
        raise PlanError(f"{name} is {value!r}. Give a share above 0 and up to 1.", slug="design-option")


def check_positive(name: str, value: float | None) -> None:
    """Raises: PlanError [design-option] unless None or a number above 0."""
    if value is not None and not (_is_number(value) and 0 < value < float("inf")):
        raise PlanError(f"{name} is {value!r}. Give a number above 0.", slug="design-option")


def check_count(name: str, value: object) -> None:
    """Raises: PlanError [design-option] unless None or a whole number ≥ 1."""
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise PlanError(f"{name} is {value!r}. Give a whole number, 1 or more.", slug="design-option")


def check_flag(name: str, value: object) -> None:
    """Raises: PlanError [design-option] unless True or False."""
    if not isinstance(value, bool):
        raise PlanError(f"{name} is {value!r}. Give true or false.", slug="design-option")


def check_pairs(value: PairRule) -> None:
    """Raises: PlanError [design-option] unless `ordered` or `unordered`."""
    if value not in ("ordered", "unordered"):
        raise PlanError(
            f"pairs is {value!r}. Give ordered (both orders are comparisons of their own) or unordered.",
            slug="design-option",
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_CHUNK = 1 << 24


def n_comparisons(chosen: Bools, eligible: Bools, *, n_partners: int | None, pairs: PairRule) -> int:
    """How many comparisons `compare` makes; the most it can make where unordered pairs have few partners."""
    n_chosen, m = chosen.sum(axis=0, dtype=np.int64), eligible.sum(axis=0, dtype=np.int64)
    if pairs == "unordered" and n_partners is None:
        return int((n_chosen * (m - n_chosen) + n_chosen * (n_chosen - 1) // 2).sum())
    each = m - 1 if n_partners is None else np.minimum(m - 1, n_partners)
    return int((n_chosen * each).sum())


def compare(
    chosen: Bools, eligible: Bools, *, n_partners: int | None, pairs: PairRule, rng: np.random.Generator
) -> Trials:
    """Every chosen cell against its partners on the item: all other eligible agents, or `n_partners` of them at random.

    ordered: the chosen cell stands first (the row score's D[j, i, k]); where both cells of a pair are chosen, both orders are
    asked. unordered: one comparison a pair, which serves both cells, in an order drawn by coin.
    chosen, eligible: bool[K, J], chosen within eligible. Sorted by item, then first, then second agent.
    """
    shape = chosen.shape[1], len(chosen), len(chosen)
    on, who = np.nonzero(chosen.T)
    step = max(1, _CHUNK // len(chosen))
    blocks = [slice(start, start + step) for start in range(0, len(on), step)]
    chunks = [_met(on[block], who[block], eligible, n_partners=n_partners, rng=rng) for block in blocks]
    cell = np.concatenate([cells + block.start for (cells, _), block in zip(chunks, blocks, strict=True)] or [on])
    other = np.concatenate([others for _, others in chunks] or [on])
    pair = np.ravel_multi_index((on[cell], who[cell], other), shape)
    if pairs == "unordered":
        low, high = np.minimum(who[cell], other), np.maximum(who[cell], other)
        pair = np.unique(np.ravel_multi_index((on[cell], low, high), shape))
        low, high = np.unravel_index(pair, shape)[1:]
        swap = rng.random(len(pair)) < 0.5
        pair = np.where(swap, pair + (high - low) * (len(chosen) - 1), pair)
    item, first, second = (column.astype(np.int32) for column in np.unravel_index(pair, shape))
    return Trials.paired(item, first, second)


def _met(
    on: Positions, who: Positions, eligible: Bools, *, n_partners: int | None, rng: np.random.Generator
) -> tuple[Positions, Positions]:
    """Which of these cells meets whom: position of the cell, and the partner."""
    partner = eligible.T[on]
    partner[np.arange(len(who)), who] = False
    if n_partners is not None and n_partners < partner.shape[1] - 1:
        key = np.where(partner, rng.random(partner.shape, dtype=np.float32), np.inf)
        nearest = np.argpartition(key, n_partners - 1, axis=1)[:, :n_partners]
        near = np.zeros_like(partner)
        np.put_along_axis(near, nearest, True, axis=1)
        partner &= near
    cell, other = np.nonzero(partner)
    return cell, other


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
