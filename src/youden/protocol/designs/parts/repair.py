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
    """Return whether a value is an int or a float; bool does not count."""
    return isinstance(value, int | float) and not isinstance(value, bool)


_CHUNK_CELLS = 1 << 24
"""Number of pairs of a chosen cell and a possible partner that are processed together."""


def count_comparisons(chosen: Bools, eligible: Bools, *, n_partners: int | None, pairs: PairRule) -> int:
    """Count the comparisons that `draw_comparisons` makes, without drawing them.

    A cell is an agent on an item. Its partners are cells of other agents on the same item.

    Parameters
    ----------
    chosen : bool array (n_agents, n_items)
        Cells to compare; all of them are eligible.
    eligible : bool array (n_agents, n_items)
        Cells that may be partners.
    n_partners : int or None
        Maximum number of partners of each chosen cell, at least 1; None for all.
    pairs : {"ordered", "unordered"}
        "ordered": each chosen cell is compared with each of its partners, so a pair of two chosen cells counts twice.
        "unordered": each pair counts once.

    Returns
    -------
    int
        Number of comparisons; an upper bound if pairs are unordered and `n_partners` is set.
    """
    # numbers of cells on each item
    n_chosen = chosen.sum(axis=0, dtype=np.int64)
    n_eligible = eligible.sum(axis=0, dtype=np.int64)
    if pairs == "unordered" and n_partners is None:
        n_with_unchosen = n_chosen * (n_eligible - n_chosen)
        n_among_chosen = n_chosen * (n_chosen - 1) // 2
        return int((n_with_unchosen + n_among_chosen).sum())

    n_per_cell = n_eligible - 1  # a cell is not its own partner
    if n_partners is not None:
        n_per_cell = np.minimum(n_per_cell, n_partners)
    return int((n_chosen * n_per_cell).sum())


def draw_comparisons(
    chosen: Bools, eligible: Bools, *, n_partners: int | None, pairs: PairRule, rng: np.random.Generator
) -> Trials:
    """Draw comparisons of each chosen cell (agent, item) with its partners, which are other agents on the same item.

    chosen : bool array (n_agents, n_items), cells to compare; they may be partners of other cells only if they are eligible
    eligible : bool array (n_agents, n_items), cells that may be partners
    n_partners : number of random partners of each chosen cell, or all if there are fewer; None for all
    pairs : "ordered" to show the text of the chosen cell first; "unordered" to compare two cells at most once, in random order
    rng : source of all random numbers

    Returns paired trials without blocks, sorted by item and then by pair of agents; none if no chosen cell has a partner.
    """
    n_agents, n_items = chosen.shape
    item_by_cell, agent_by_cell = np.nonzero(chosen.T)  # of each chosen cell

    # partners are drawn for a limited number of cells at a time, to save memory
    n_per_chunk = max(1, _CHUNK_CELLS // n_agents)
    no_comparisons = np.empty((3, 0), dtype=np.int32)
    comparisons = [no_comparisons]  # one array per chunk, with the rows item, first agent and second agent
    for start in range(0, len(item_by_cell), n_per_chunk):
        item = item_by_cell[start : start + n_per_chunk]
        agent = agent_by_cell[start : start + n_per_chunk]
        cell, partner = _draw_partners(item, agent, eligible, n_partners=n_partners, rng=rng)
        comparisons.append(np.stack([item[cell], agent[cell], partner], dtype=np.int32))
    item, first, second = np.concatenate(comparisons, axis=1)

    if pairs == "unordered":
        shape = (n_items, n_agents, n_agents)
        all_codes = np.ravel_multi_index((item, first, second), shape)
        codes = _keep_one_order_of_pairs(all_codes, shape, rng)
        item, first, second = np.unravel_index(codes, shape)
    return Trials.paired(item.astype(np.int32), first.astype(np.int32), second.astype(np.int32))


def _keep_one_order_of_pairs(
    comparison_code: Positions, shape: tuple[int, int, int], rng: np.random.Generator
) -> Positions:
    """Keep one comparison of each pair of agents on an item, and draw the order of the two agents at random.

    If two agents were drawn as partners of each other, they have two comparisons, one in each order. Only one is kept.

    comparison_code : int64 array, comparisons as flat indices (`numpy.ravel_multi_index`) of item, first and second agent
    shape : (n_items, n_agents, n_agents)

    Returns the codes of the remaining comparisons, int64 array.
    """
    # with the lower agent first, both orders of a pair have the same code
    item, first, second = np.unravel_index(comparison_code, shape)
    lower, higher = np.minimum(first, second), np.maximum(first, second)
    distinct_codes = np.unique(np.ravel_multi_index((item, lower, higher), shape))

    # place the higher agent first in a random half of the comparisons
    item, lower, higher = np.unravel_index(distinct_codes, shape)
    is_higher_first = rng.random(len(distinct_codes)) < 0.5
    first = np.where(is_higher_first, higher, lower)
    second = np.where(is_higher_first, lower, higher)
    return np.ravel_multi_index((item, first, second), shape)


def _draw_partners(
    item: Positions, agent: Positions, eligible: Bools, *, n_partners: int | None, rng: np.random.Generator
) -> tuple[Positions, Positions]:
    """Draw partners for some cells (agent, item): other agents with which to compare each agent on its item.

    item, agent : int arrays (n_cells,), the cells
    eligible : bool array (n_agents, n_items), cells that may be partners
    n_partners : maximum number of partners of each cell; None for all
    rng : source of all random numbers

    Returns two int arrays (n_pairs,): the position of each cell in `item` and `agent`, and the agent that is its partner.
    """
    # one row per cell, one column per agent
    is_possible = eligible.T[item]
    n_cells, n_agents = is_possible.shape
    is_possible[np.arange(n_cells), agent] = False  # an agent is not compared with itself
    if n_partners is None or n_partners >= n_agents - 1:
        cell, partner = np.nonzero(is_possible)
        return cell, partner

    # draw the agents with the smallest random keys; impossible partners have an infinite key
    key = rng.random(is_possible.shape, dtype=np.float32)
    key[~is_possible] = np.inf
    smallest_first = np.argpartition(key, n_partners - 1, axis=1)
    is_drawn = np.zeros_like(is_possible)
    np.put_along_axis(is_drawn, smallest_first[:, :n_partners], True, axis=1)

    # drop impossible partners, which are drawn if a cell has fewer than n_partners possible ones
    cell, partner = np.nonzero(is_drawn & is_possible)
    return cell, partner


class StarvedError(PlanError):
    """Error for an agent or item with fewer cells (agent, item) than the `d_core` that the design requires of each.

    Attributes
    ----------
    side : {"agent", "item"}
        Whether an agent or an item is short of cells.
    position : int
        Its position.
    """

    def __init__(self, design: str, side: Literal["agent", "item"], position: int, *, n: int, needs: int, remedy: str):
        """Make the message that the agent or item has `n` of the `needs` cells, with the `remedy` for this."""
        self.side = side
        self.position = position
        self._design = design
        self._n = n
        self._needs = needs
        self._remedy = remedy
        super().__init__(self._format_message(f"number {position}"), slug="d-core")

    def with_name(self, name: str) -> PlanError:
        """Return the same error with the id of the agent or item in place of its position."""
        return PlanError(self._format_message(f"'{name}'"), slug="d-core")

    def _format_message(self, name: str) -> str:
        """Return the message of the error; `name` denotes the agent or item."""
        others = "items" if self.side == "agent" else "agents"
        return (
            f"The {self._design} design has too few {others} for {self.side} {name}: got {self._n}, but it needs {self._needs}. "
            f"{self._remedy}"
        )


def check_degrees(cells: Bools, *, d: int, design: str, remedies: tuple[str, str]) -> None:
    """Check that every item and every agent has at least d cells; a cell is one agent on one item.

    Parameters
    ----------
    cells : bool array (n_agents, n_items)
        Cells to count.
    d : int
        Minimum number of cells.
    design : str
        Name of the design, for the message: for example, "row".
    remedies : (str, str)
        Two instructions for the message: what to do if an agent has too few cells, and what to do if an item has too few.

    Raises
    ------
    StarvedError
        [d-core], a PlanError: if an item or agent has fewer than d cells, for the one with the fewest cells; items are checked
        first. Its attributes `side` ("agent" or "item") and `position` identify this agent or item.
    """
    agent_remedy, item_remedy = remedies
    _check_side(cells.sum(axis=0), "item", d=d, design=design, remedy=item_remedy)
    _check_side(cells.sum(axis=1), "agent", d=d, design=design, remedy=agent_remedy)


def _check_side(n_cells: Positions, side: Literal["agent", "item"], *, d: int, design: str, remedy: str) -> None:
    """Raise StarvedError for the agent or item with the fewest cells, if it has fewer than d.

    n_cells : int array with the number of cells of each agent, or of each item
    side : whose cells `n_cells` counts
    d : minimum number of cells
    design : name of the design, for the message
    remedy : instruction for the message
    """
    if (n_cells < d).any():
        position = int(np.argmin(n_cells))
        raise StarvedError(design, side, position, n=int(n_cells[position]), needs=d, remedy=remedy)


def repair(chosen: Bools, eligible: Bools, *, key: Floats, d: int) -> Bools:
    """Add eligible cells until every agent and item has d cells and all cells are connected.

    Parameters
    ----------
    chosen : bool array (n_agents, n_items)
        Chosen cells; this array stays unchanged.
    eligible : bool array (n_agents, n_items)
        Cells that may be added; all chosen cells are among them. An agent or item with fewer than d eligible cells gets all of
        them; this is not an error.
    key : float array (n_agents, n_items)
        Random numbers; cells with the smallest ones are added first.
    d : int
        Minimum number of cells of each agent and of each item.

    Returns
    -------
    bool array (n_agents, n_items)
        A new array, True for the chosen and the added cells.

    Raises
    ------
    PlanError
        [not-connected]: if even all eligible cells together are not connected.
    """
    chosen = chosen.copy()
    _add_missing_cells(chosen, eligible, key, n_per_row=d)
    _add_missing_cells(chosen.T, eligible.T, key.T, n_per_row=d)

    # component of each agent and item; while there are several, add the cell with the smallest key that joins two
    agents, items = find_graph_components(chosen)
    while agents.max() > 0 or items.max() > 0:
        joins_components = eligible & (agents[:, None] != items)
        if not joins_components.any():
            raise _make_not_connected_error(
                "Add responses that connect them, set a smaller holdout, or rank the components separately."
            )
        candidate_keys = np.where(joins_components, key, np.inf)
        agent, item = np.unravel_index(np.argmin(candidate_keys), key.shape)
        chosen[agent, item] = True

        # merge both components, and close the gap in their numbers
        low, high = sorted((agents[agent], items[item]))
        for component in (agents, items):
            component[component == high] = low
            component[component > high] -= 1
    return chosen


def _add_missing_cells(cells: Bools, eligible: Bools, key: Floats, *, n_per_row: int) -> None:
    """Add eligible cells in place until each row has `n_per_row` cells. Cells with the smallest keys are added first.

    cells, eligible, key : arrays of one shape, (n_agents, n_items) or (n_items, n_agents)
    """
    n_in_row = cells.sum(axis=1)
    for row in np.flatnonzero(n_in_row < n_per_row):
        candidates = np.flatnonzero(eligible[row] & ~cells[row])
        smallest_first = candidates[np.argsort(key[row, candidates])]
        n_missing = n_per_row - int(n_in_row[row])
        cells[row, smallest_first[:n_missing]] = True


def check_connected(cells: Bools) -> None:
    """Raise PlanError [not-connected] if the cells, bool array (n_agents, n_items), form several components.

    The message suggests `repair`, an option of cell designs.
    """
    if find_graph_components(cells)[0].max() > 0:
        raise _make_not_connected_error("Set repair: true, or set options that choose more cells.")


def find_graph_components(cells: Bools) -> tuple[Ids, Ids]:
    """Find which agents and items are connected by cells, directly or through others.

    Parameters
    ----------
    cells : bool array (n_agents, n_items)
        Edges of a graph whose nodes are the agents and the items.

    Returns
    -------
    agent_components : int32 array (n_agents,)
        Number of the connected component of each agent, from 0.
    item_components : int32 array (n_items,)
        Number of the connected component of each item.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n_agents, n_items = cells.shape
    n_nodes = n_agents + n_items
    agent, item = np.nonzero(cells)
    edges = np.ones(len(agent), dtype=np.int8)
    graph = coo_array((edges, (agent, n_agents + item)), shape=(n_nodes, n_nodes))
    _, components = connected_components(graph, directed=False)
    components = components.astype(np.int32)
    return components[:n_agents], components[n_agents:]


def _make_not_connected_error(remedy: str) -> PlanError:
    """Return the error that cells form several components, with an instruction for the user."""
    return PlanError(
        f"Some agents are not connected to the others by shared items, so they cannot be compared. {remedy}",
        slug="not-connected",
    )
