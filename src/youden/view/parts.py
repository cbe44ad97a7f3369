"""The trials of a run in parts, a page at a time: every block is counted once for a question, then those of the page are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from starlette.exceptions import HTTPException

from youden.data.folder.run_folder import RunFolder
from youden.data.folder.trials.trial_blocks import verdict_blocks
from youden.nouns.arrays import Floats, Positions
from youden.report.data.trials import Chosen, Column, Page, TrialLine, TrialRows


class _Counted(NamedTuple):
    """How many fitting rows a block holds of a level of what is sorted by; one entry for each of both that has some."""

    block: Positions
    level: Floats
    n: Positions


class TrialParts:
    """All trials of a run whose verdicts lie in parts, of which a block at a time is in memory.

    Answers are sorted as they are shown, to two decimals. That the same two texts got different answers is told by no block
    alone, so those trials are of the kind that fits them next.
    """

    def __init__(self, folder: RunFolder) -> None:
        """Raises: RunFolderError."""
        self.plan, of = folder.judged_files()
        self.judge = of.judge if "key" in of.measured else None
        self._blocks = verdict_blocks(folder.file("verdicts.parquet"), self.plan)
        self._ends = np.cumsum([block.n_rows for block in self._blocks])
        self._counted: tuple[object, _Counted] | None = None
        self._open: tuple[int, TrialRows] | None = None

    def __len__(self) -> int:
        return int(self._ends[-1])

    def page(self, chosen: Chosen, *, by: Column, descending: bool, start: int, stop: int) -> Page:
        """The trials from `start` to `stop` among those that fit, sorted by a column. Raises: HTTPException 400."""
        if chosen.kind == "answers differ":
            raise HTTPException(
                400,
                "This run lies in parts that are read one at a time, so trials whose answers differ are not gathered. "
                "Choose an agent and an item instead.",
            )
        if by == "row" and chosen == Chosen():
            every = range(len(self))[::-1] if descending else range(len(self))
            return Page(len(self), tuple(self.line(row) for row in every[start:stop]))
        block, level, n = self._count(chosen, by)
        order = np.lexsort((block, -level if descending else level))
        block, n = block[order], n[order]
        ends = np.cumsum(n)
        shown = np.flatnonzero((ends > start) & (ends - n < stop))
        lines: dict[int, list[TrialLine]] = {}
        for number in np.unique(block[shown]).tolist():
            rows = self._rows(number)
            found = rows.find(chosen, by=by, descending=descending)
            ends_here = np.cumsum(np.where(block == number, n, 0))
            for at in shown[block[shown] == number].tolist():
                mine = found[ends_here[at] - n[at] : ends_here[at]]
                begin = int(ends[at] - n[at])
                lines[at] = [rows.line(int(row)) for row in mine[max(start - begin, 0) : stop - begin]]
        return Page(int(n.sum()), tuple(line for at in shown.tolist() for line in lines[at]))

    def line(self, row: int) -> TrialLine:
        """One trial."""
        return self._rows(self._block_of(row)).line(row)

    def keys(self, rows: Sequence[int]) -> list[bytes]:
        """The trials' requests in the store; empty where they were not asked there."""
        if self.judge is None:
            return [b""] * len(rows)
        blocks = [self._blocks[self._block_of(row)] for row in rows]
        return [block.keys_of(np.array([row - block.start]))[0] for block, row in zip(blocks, rows, strict=True)]

    def _count(self, chosen: Chosen, by: Column) -> _Counted:
        if self._counted is None or self._counted[0] != (chosen, by):
            found = [self._levels(number, chosen, by) for number in range(len(self._blocks))]
            counted = _Counted(*(np.concatenate(column) for column in zip(*found, strict=True)))
            self._counted = (chosen, by), counted
        return self._counted[1]

    def _levels(self, number: int, chosen: Chosen, by: Column) -> _Counted:
        value = self._rows(number).values(chosen, by=by)
        if by == "row":
            value = np.full(len(value), float(number))
        level, n = np.unique(value.round(2), return_counts=True)
        return _Counted(np.full(len(level), number), level, n)

    def _rows(self, number: int) -> TrialRows:
        """Those of one block; what was read of the one before is let go."""
        if self._open is None or self._open[0] != number:
            if self._open is not None:
                self._blocks[self._open[0]].clear()
            block = self._blocks[number]
            self._open = number, TrialRows(block, self.plan, start=block.start)
        return self._open[1]

    def _block_of(self, row: int) -> int:
        return int(np.searchsorted(self._ends, row, side="right"))
