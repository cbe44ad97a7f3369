"""Tables of a fit by pair of agents and by cell (one agent on one item).

Pair tables let a report show every pair without reading a trial. Cells are stored as columns, because most cells of a
large run are empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from youden.types.pool import Bools, Floats, Ids, Positions, ReadOnly


@dataclass(frozen=True, eq=False)
class Pairs(ReadOnly):
    """Agreement and comparison of every ordered pair of agents, NaN on the diagonal and where a value is unknown."""

    agreement: Floats
    """float (n_agents, n_agents), mean TPR over items, minus the FPR of the pair if it has its own; rows are the agents
    whose response the judge reads first.
    """
    mean: Floats
    """float (n_agents, n_agents), mean answer over both orders of the training trials, after subtracting the mean of
    each item.
    """
    std_error: Floats
    """float (n_agents, n_agents), standard error of `mean`."""
    n: Floats
    """float (n_agents, n_agents), number of answers in `mean`."""
    significantly_better: Floats
    """float (n_agents, n_agents), 1 if the agent of the row is significantly better than that of the column, else 0."""
    difference: Floats
    """float (n_agents, n_agents), ability of the agent of the row minus that of the agent of the column."""
    half_width: Floats
    """float (n_agents, n_agents), half-width of the 95% interval of `difference`."""
    p_holm: Floats
    """float (n_agents, n_agents), p-value of `difference`, as in `Differences.p_holm`."""
    ability: Floats
    """float (n_agents,), abilities of the additive fit, which predicts scores of cells; NaN for an agent without
    a score."""
    partners_seen: float | None
    """Mean fraction, over compared cells, of the possible partners with which the cell was compared; None if no
    cell was."""
    own_rates: bool
    """Whether each pair has its own FPR, which `agreement` subtracts."""


CELLS_IN_CACHE = 2**20
"""Maximum number of cells of one chunk of items, so that a chunk fits in the cache of a processor."""


@dataclass(frozen=True, eq=False)
class CellIndex(ReadOnly):
    """Distinct cells of an agents × items matrix by position, sorted by item and then by agent."""

    agent: Ids
    """int32 (n_cells,), row of each cell."""
    item: Ids
    """int32 (n_cells,), column of each cell."""
    n_agents: int
    """Number of rows of the matrix."""
    n_items: int
    """Number of columns of the matrix."""

    @classmethod
    def from_mask(cls, mask: Bools) -> CellIndex:
        """Create the index of the cells that are True in a bool array (n_agents, n_items)."""
        item, agent = np.nonzero(np.ascontiguousarray(mask.T))
        return cls(agent.astype(np.int32), item.astype(np.int32), *mask.shape)

    def __len__(self) -> int:
        return len(self.item)

    def where(self, mask: Bools) -> CellIndex:
        """Select the cells for which `mask`, a bool array (n_cells,), is True."""
        return CellIndex(self.agent[mask], self.item[mask], self.n_agents, self.n_items)

    @cached_property
    def by_agent(self) -> Positions:
        """Order that sorts the cells by agent and then by item: int64 array (n_cells,)."""
        return np.argsort(self.agent.astype(np.min_scalar_type(self.n_agents)), kind="stable")

    def to_mask(self) -> Bools:
        """Return a bool array (n_agents, n_items) that is True at these cells."""
        mask = np.zeros((self.n_agents, self.n_items), dtype=np.bool_)
        mask[self.agent, self.item] = True
        return mask

    def find(self, agent: Positions, item: Positions) -> Positions:
        """Find the positions of cells (an agent and an item each) in this index.

        Parameters
        ----------
        agent, item : int64 array
            Agent and item of each cell, as positions. Both arrays have the same shape. The index must contain every cell; this is
            not checked.

        Returns
        -------
        int64 array
            Position of each cell in the index, with the shape of `agent`.
        """
        codes = item * self.n_agents + agent
        if self._position_by_code is None:
            positions: Positions = np.searchsorted(self._codes, codes)
            return positions
        return np.asarray(self._position_by_code[codes])

    @cached_property
    def _codes(self) -> Positions:
        """One number per cell, item · n_agents + agent, in ascending order: int64 array (n_cells,)."""
        return self.item.astype(np.int64) * self.n_agents + self.agent

    @cached_property
    def _position_by_code(self) -> Positions | None:
        """Lookup table from the code of a cell to its position; None if the matrix is too large for a table."""
        if self.n_agents * self.n_items > CELLS_IN_CACHE:
            return None
        positions = np.zeros(self.n_agents * self.n_items, dtype=np.int64)
        positions[self._codes] = np.arange(len(self))
        return positions

    def to_matrix(self, values: Floats, *, empty: float) -> Floats:
        """Arrange values of the cells as a matrix.

        Parameters
        ----------
        values : float array (n_cells,)
            One value per cell of the index.
        empty : float
            Value of all other cells of the matrix.

        Returns
        -------
        float array (n_agents, n_items)
            A new array.
        """
        matrix = np.full((self.n_agents, self.n_items), empty)
        matrix[self.agent, self.item] = values
        return matrix

    def iter_chunks(self) -> Iterator[tuple[slice, slice]]:
        """Split the cells into chunks of consecutive items. A chunk is small enough for the cache of a processor.

        Yields
        ------
        cells : slice
            Range of the positions of the chunk's cells in this index.
        items : slice
            Range of the chunk's items, which are columns of the matrix (n_agents, n_items).
        """
        n_items_per_chunk = max(1, CELLS_IN_CACHE // self.n_agents)
        item_bounds = [*range(0, self.n_items, n_items_per_chunk), self.n_items]
        cell_bounds = np.searchsorted(self.item, item_bounds).tolist()  # the cells are sorted by item
        item_ranges = pairwise(item_bounds)
        cell_ranges = pairwise(cell_bounds)
        for (first_item, end_item), (first_cell, end_cell) in zip(item_ranges, cell_ranges, strict=True):
            yield slice(first_cell, end_cell), slice(first_item, end_item)

    def iter_matrices(self, *values: Floats) -> Iterator[Sequence[Floats]]:
        """Arrange values of the cells as matrices, for one chunk of items at a time.

        Parameters
        ----------
        *values : float array (n_cells,)
            One or more arrays, each with one value per cell of the index.

        Yields
        ------
        sequence of float array (n_agents, n_items_of_chunk)
            One matrix for each of `values`, with 0 where the index has no cell. The chunks are those of `iter_chunks`.
        """
        for cells, items in self.iter_chunks():
            row = self.agent[cells]
            column = self.item[cells] - items.start
            matrices = np.zeros((len(values), self.n_agents, items.stop - items.start))
            for matrix, cell_values in zip(matrices, values, strict=True):
                matrix[row, column] = cell_values[cells]
            yield list(matrices)


class ScoredCells(NamedTuple):
    """Scores of the cells that have one."""

    cell_index: CellIndex
    """Index of the cells."""
    value: Floats
    """float (n_cells,), scores, without NaN."""
    weight: Floats
    """float (n_cells,), weights, without NaN."""

    def where(self, mask: Bools) -> ScoredCells:
        """Select the cells for which `mask`, a bool array (n_cells,), is True."""
        if mask.all():
            return self
        return ScoredCells(self.cell_index.where(mask), self.value[mask], self.weight[mask])
