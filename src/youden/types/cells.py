"""Agents × agents and agents × items, kept for a fit.

What it knows of every two agents, so that a report needs no trial; and which cells hold something, as columns, for most cells of
a large run were never asked about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from youden.types.pool import Bools, Floats, Ids, Positions, ReadOnly


@dataclass(frozen=True, eq=False)
class Pairs(ReadOnly):
    """Every two agents; float[K, K] each, NaN on the diagonal and where there is nothing to say.

    agreement: mean of TPR over items, less the pair's own FPR where it has one; the first-read agent by row.
    mean, error, n: mean answer to both orders, items' own means taken off, its standard error and the answers behind it; of what
    may be learned from.
    above: 1 where the row's agent is told to be better than the column's, 0 where it is not.
    ability: float[K], of the additive fit, which predicts; NaN for an agent never seen.
    partners_seen: share of its possible partners with which a compared cell was compared; None where nothing was.
    own_rates: whether each pair has an FPR of its own, which `agreement` is less.
    """

    agreement: Floats
    mean: Floats
    error: Floats
    n: Floats
    above: Floats
    ability: Floats
    partners_seen: float | None
    own_rates: bool


CELLS_IN_CACHE = 2**20
"""Cells of a block of items, which stays in a processor's cache."""


@dataclass(frozen=True, eq=False)
class CellIndex(ReadOnly):
    """Cells by their positions, each once, by item and then by agent. agent, item: int32[N]."""

    agent: Ids
    item: Ids
    n_agents: int
    n_items: int

    @classmethod
    def of(cls, seen: Bools) -> CellIndex:
        """The cells that are true in bool[K, J]."""
        item, agent = np.nonzero(np.ascontiguousarray(seen.T))
        return cls(agent.astype(np.int32), item.astype(np.int32), *seen.shape)

    def __len__(self) -> int:
        return len(self.item)

    def where(self, kept: Bools) -> CellIndex:
        """Those of a mask bool[N]."""
        return CellIndex(self.agent[kept], self.item[kept], self.n_agents, self.n_items)

    @cached_property
    def by_agent(self) -> Positions:
        """The order that puts them by agent and then by item: int64[N]."""
        return np.argsort(self.agent.astype(np.min_scalar_type(self.n_agents)), kind="stable")

    def seen(self) -> Bools:
        """Which cells of the matrix these are: bool[K, J]."""
        seen = np.zeros((self.n_agents, self.n_items), dtype=np.bool_)
        seen[self.agent, self.item] = True
        return seen

    def find(self, agent: Positions, item: Positions) -> Positions:
        """Where cells that are here stand: int64, of one shape with agent and item."""
        code = item * self.n_agents + agent
        return np.searchsorted(self._code, code) if self._place is None else self._place[code]

    @cached_property
    def _code(self) -> Positions:
        return self.item.astype(np.int64) * self.n_agents + self.agent

    @cached_property
    def _place(self) -> Positions | None:
        """Where the cell of each code stands; None where the matrix is too large to keep a number for each."""
        if self.n_agents * self.n_items > CELLS_IN_CACHE:
            return None
        place = np.zeros(self.n_agents * self.n_items, dtype=np.int64)
        place[self._code] = np.arange(len(self))
        return place

    def matrix(self, values: Floats, *, empty: float) -> Floats:
        """float[K, J] of float[N], `empty` elsewhere."""
        filled = np.full((self.n_agents, self.n_items), empty)
        filled[self.agent, self.item] = values
        return filled

    def spans(self) -> Iterator[tuple[slice, slice]]:
        """Yield slices of cells with the slice of items that they belong to, some items at a time."""
        step = max(1, CELLS_IN_CACHE // self.n_agents)
        starts = range(0, self.n_items, step)
        edges = np.searchsorted(self.item, [*starts, self.n_items]).tolist()
        for start, begin, end in zip(starts, edges[:-1], edges[1:], strict=True):
            yield slice(begin, end), slice(start, min(start + step, self.n_items))

    def blocks(self, *values: Floats) -> Iterator[Sequence[Floats]]:
        """`matrix` of each float[N], 0 elsewhere, for the items of each span: float[K, B] each."""
        for rows, items in self.spans():
            place = self.agent[rows], self.item[rows] - items.start
            block = np.zeros((len(values), self.n_agents, items.stop - items.start))
            for table, column in zip(block, values, strict=True):
                table[place] = column[rows]
            yield list(block)


class ScoredCells(NamedTuple):
    """Scores of the cells that have one. at: which cells; value, weight: float[N], no NaN."""

    at: CellIndex
    value: Floats
    weight: Floats

    def where(self, kept: Bools) -> ScoredCells:
        """Those of a mask bool[N]."""
        return self if kept.all() else ScoredCells(self.at.where(kept), self.value[kept], self.weight[kept])
