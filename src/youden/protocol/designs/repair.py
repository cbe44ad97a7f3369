"""Choose cells for the designs over cells: check options, add cells until all are connected, and draw comparisons.

A cell is one agent on one item. Each chosen cell is compared with partners on its item. Cells are added until every
agent and item has at least d of them and all are connected: the paper's condition of a connected d-core, d ≥ 3.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from youden.errors import PlanError
from youden.types import Trials
from youden.types.pool import Bools, Floats, Ids, Positions

PairRule = Literal["ordered", "unordered"]


def check_fraction(name: str, value: float | None) -> None:
    """Raise PlanError [design-option] unless `value` is None or a number in (0, 1]."""
    if value is not None and not (_is_number(value) and 0 < value <= 1):
        raise PlanError(
            f"{name} must be a fraction in (0, 1]: got {value!r}. Set a number above 0, up to 1.", slug="design-option"
        )


def check_positive(name: str, value: float | None) -> None:
    """Raise PlanError [design-option] unless `value` is None or a number above 0."""
    if value is not None and not (_is_number(value) and 0 < value < float("inf")):
        raise PlanError(f"{name} must be a number above 0: got {value!r}. Set a positive number.", slug="design-option")


def check_count(name: str, value: object) -> None:
    """Raise PlanError [design-option] unless `value` is None or a whole number of at least 1."""
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise PlanError(
            f"{name} must be a positive whole number: got {value!r}. Set a whole number, 1 or more.",
            slug="design-option",
        )


def check_flag(name: str, value: object) -> None:
    """Raise PlanError [design-option] unless `value` is True or False."""
    if not isinstance(value, bool):
        raise PlanError(f"{name} must be true or false: got {value!r}. Set one of both.", slug="design-option")


def check_pairs(value: PairRule) -> None:
    """Raise PlanError [design-option] unless `value` is "ordered" or "unordered"."""
    if value not in ("ordered", "unordered"):
        raise PlanError(
            f"pairs must be ordered or unordered: got {value!r}. Set ordered to compare pairs in both orders, else unordered.",
            slug="design-option",
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_CHUNK_CELLS = 1 << 24
"""Number of pairs of a chosen cell and a possible partner that are processed together."""


def count_comparisons(chosen: Bools, eligible: Bools, *, n_partners: int | None, pairs: PairRule) -> int:
    """Count the comparisons that `draw_comparisons` makes.

    Parameters
    ----------
    chosen : bool array (n_agents, n_items)
        Cells to compare; all of them are eligible.
    eligible : bool array (n_agents, n_items)
        Cells that may be partners.
    n_partners : int or None
        Maximum number of partners of each chosen cell; None for all.
    pairs : {"ordered", "unordered"}
        Whether a pair of chosen cells is compared in both orders, or once.

    Returns
    -------
    int
        Number of comparisons; an upper bound if pairs are unordered and `n_partners` is set.
    """
    n_chosen, n_eligible = chosen.sum(axis=0, dtype=np.int64), eligible.sum(axis=0, dtype=np.int64)
    if pairs == "unordered" and n_partners is None:
        n_with_unchosen = n_chosen * (n_eligible - n_chosen)
        n_among_chosen = n_chosen * (n_chosen - 1) // 2
        return int((n_with_unchosen + n_among_chosen).sum())
    n_each = n_eligible - 1 if n_partners is None else np.minimum(n_eligible - 1, n_partners)
    return int((n_chosen * n_each).sum())


def draw_comparisons(
    chosen: Bools, eligible: Bools, *, n_partners: int | None, pairs: PairRule, rng: np.random.Generator
) -> Trials:
    """Compare each chosen cell with `n_partners` random partners on its item, or with all if it is None.

    Returns paired trials, sorted by item, then first, then second agent. chosen, eligible : bool
    arrays (n_agents, n_items)

    With "ordered" pairs, the text of the chosen cell comes first, and two chosen cells are compared in both orders.
    With "unordered" pairs, there is one comparison per pair, in a random order, which serves both cells.
    """
    n_agents = len(chosen)
    shape = chosen.shape[1], n_agents, n_agents
    item, agent = np.nonzero(chosen.T)
    step = max(1, _CHUNK_CELLS // n_agents)
    cells, partners = [], []
    for start in range(0, len(item), step):
        chunk = slice(start, start + step)
        cell, partner = _draw_partners(item[chunk], agent[chunk], eligible, n_partners=n_partners, rng=rng)
        cells.append(cell + start)
        partners.append(partner)
    cell, partner = np.concatenate(cells or [item]), np.concatenate(partners or [item])

    # one number per comparison (item, first, second)
    code = np.ravel_multi_index((item[cell], agent[cell], partner), shape)
    if pairs == "unordered":
        low, high = np.minimum(agent[cell], partner), np.maximum(agent[cell], partner)
        code = np.unique(np.ravel_multi_index((item[cell], low, high), shape))
        low, high = np.unravel_index(code, shape)[1:]
        is_swapped = rng.random(len(code)) < 0.5
        # (high, low) has the number of (low, high) plus (high − low)(n_agents − 1)
        code = np.where(is_swapped, code + (high - low) * (n_agents - 1), code)
    columns = (column.astype(np.int32) for column in np.unravel_index(code, shape))
    return Trials.paired(*columns)


def _draw_partners(
    item: Positions, agent: Positions, eligible: Bools, *, n_partners: int | None, rng: np.random.Generator
) -> tuple[Positions, Positions]:
    """Draw the partners of some cells.

    item, agent : int arrays (n_cells,), the cells; eligible : bool array (n_agents, n_items)

    Returns the position of the cell and the agent of the partner, two int arrays (n_pairs,).
    """
    is_partner = eligible.T[item]
    is_partner[np.arange(len(agent)), agent] = False
    if n_partners is not None and n_partners < is_partner.shape[1] - 1:
        key = np.where(is_partner, rng.random(is_partner.shape, dtype=np.float32), np.inf)
        smallest = np.argpartition(key, n_partners - 1, axis=1)[:, :n_partners]
        is_drawn = np.zeros_like(is_partner)
        np.put_along_axis(is_drawn, smallest, True, axis=1)
        is_partner &= is_drawn
    cell, partner = np.nonzero(is_partner)
    return cell, partner


class StarvedError(PlanError):
    """An agent or item has fewer cells than the d-core needs.

    Attributes
    ----------
    side : {"agent", "item"}
        Whether an agent or an item is short of cells.
    position : int
        Its position.
    """

    def __init__(self, design: str, side: Literal["agent", "item"], position: int, *, n: int, needs: int, remedy: str):
        """State that the agent or item has `n` of the `needs` cells, and how to remedy that."""
        self.side, self.position = side, position
        self._design, self._n, self._needs, self._remedy = design, n, needs, remedy
        super().__init__(self._format_message(f"number {position}"), slug="d-core")

    def with_name(self, name: str) -> PlanError:
        """Return the same error with the id of the agent or item in place of its position."""
        return PlanError(self._format_message(f"'{name}'"), slug="d-core")

    def _format_message(self, name: str) -> str:
        others = "items" if self.side == "agent" else "agents"
        return (
            f"The {self._design} design has too few {others} for {self.side} {name}: got {self._n}, but it needs {self._needs}. "
            f"{self._remedy}"
        )


def check_degrees(cells: Bools, *, d: int, design: str, remedies: tuple[str, str]) -> None:
    """Raise StarvedError for the item, or else the agent, with the fewest cells, if these are fewer than d.

    cells : bool array (n_agents, n_items); remedies: what to do if an agent, and if an item, is short of cells.
    """
    agent_remedy, item_remedy = remedies
    _check_side(cells.sum(axis=0), "item", d=d, design=design, remedy=item_remedy)
    _check_side(cells.sum(axis=1), "agent", d=d, design=design, remedy=agent_remedy)


def _check_side(n_cells: Positions, side: Literal["agent", "item"], *, d: int, design: str, remedy: str) -> None:
    """Raise StarvedError if an agent or item has fewer than d cells; n_cells : int array."""
    short = np.flatnonzero(n_cells < d)
    if len(short):
        position = int(short[np.argmin(n_cells[short])])
        raise StarvedError(design, side, position, n=int(n_cells[position]), needs=d, remedy=remedy)


def repair(chosen: Bools, eligible: Bools, *, key: Floats, d: int) -> Bools:
    """Add eligible cells until every agent and item has d cells and all are connected.

    chosen, eligible : bool arrays (n_agents, n_items); each agent and item must have d eligible cells. key : float
    array of random numbers of the same shape; cells with the smallest ones are added first.

    Raises PlanError [not-connected] if the eligible cells themselves are not connected.
    """
    chosen = chosen.copy()
    for cells, may_add, order in ((chosen, eligible, key), (chosen.T, eligible.T, key.T)):
        for row in np.flatnonzero(cells.sum(axis=1) < d):
            spare = np.flatnonzero(may_add[row] & ~cells[row])
            n_missing = d - int(cells[row].sum())
            cells[row, spare[np.argsort(order[row, spare])[:n_missing]]] = True

    agents, items = find_graph_components(chosen)
    while agents.max() > 0 or items.max() > 0:
        joins_components = eligible & (agents[:, None] != items)
        if not joins_components.any():
            raise _not_connected_error(
                "Add responses that connect them, set a smaller holdout, or rank the components separately."
            )
        i, j = np.unravel_index(np.argmin(np.where(joins_components, key, np.inf)), key.shape)
        chosen[i, j] = True
        low, high = min(agents[i], items[j]), max(agents[i], items[j])
        for labels in (agents, items):
            labels[labels == high] = low
            labels[labels > high] -= 1
    return chosen


def check_connected(cells: Bools) -> None:
    """Raise PlanError [not-connected] if the cells, bool array (n_agents, n_items), form several components."""
    if find_graph_components(cells)[0].max() > 0:
        raise _not_connected_error("Set repair: true, or set options that choose more cells.")


def find_graph_components(cells: Bools) -> tuple[Ids, Ids]:
    """Find the components of the graph of agents and items whose edges are cells, bool array (n_agents, n_items).

    Returns the component numbers of agents and of items, from 0: int32 arrays (n_agents,) and (n_items,).
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n_agents, n_items = cells.shape
    agent, item = np.nonzero(cells)
    graph = coo_array((np.ones(len(agent), dtype=np.int8), (agent, n_agents + item)), shape=(n_agents + n_items,) * 2)
    label = connected_components(graph, directed=False)[1].astype(np.int32)
    return label[:n_agents], label[n_agents:]


def _not_connected_error(remedy: str) -> PlanError:
    return PlanError(
        f"Some agents are not connected to the others by shared items, so they cannot be compared. {remedy}",
        slug="not-connected",
    )
