"""Verdicts a block of rows at a time, column by column as somebody asks, so that a run in parts need not fit into memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from youden.data.folder.tables import Table, read_table
from youden.data.folder.trials.trial_tables import ARMS, VerdictsSaid
from youden.nouns import MISSING_REASONS, Plan
from youden.nouns.arrays import Positions


class TrialBlock(dict[str, NDArray[Any]]):
    """Columns of verdicts by name, read when first asked for: positions for ids and words, NaN for no answer.

    start: the first row's position in the run; n_rows: how many there are. Raises: RunFolderError where a column does not fit.
    """

    def __init__(self, table: Table[VerdictsSaid], plan: Plan, start: int) -> None:
        super().__init__()
        self._table, self._plan, self.start = table, plan, start
        self.n_rows = len(table)

    def again(self) -> TrialBlock:
        """The same rows, with nothing read yet: what is read of them goes with them."""
        return TrialBlock(self._table, self._plan, self.start)

    def keys_of(self, rows: Positions) -> list[bytes]:
        """The keys of some, by their place in the block."""
        found: list[bytes] = self._table.ascii("key", rows).tolist()
        return found

    def __missing__(self, name: str) -> NDArray[Any]:
        self[name] = self._read(name)
        return self[name]

    def _read(self, name: str) -> NDArray[Any]:
        table, plan = self._table, self._plan
        if name in ("answer", "hard", "seconds"):
            return table.floats(name)
        if name == "key":
            return table.ascii(name)
        if name == "missing":
            return (table.positions(name, MISSING_REASONS[1:], nulls=True) + 1).astype(np.int8)
        names = {"arm": ARMS, "first": plan.agent_ids, "second": plan.agent_ids}.get(name, plan.item_ids)
        return table.positions(name, names, nulls=name == "other_item")


def verdict_blocks(path: Path, plan: Plan) -> Sequence[TrialBlock]:
    """The verdicts at `path` in the order of their rows; nothing of them is read yet.

    plan: the run's; its trials are not looked at. Raises: RunFolderError.
    """
    found: list[TrialBlock] = []
    for table in read_table(path, VerdictsSaid).blocks():
        found.append(TrialBlock(table, plan, found[-1].start + found[-1].n_rows if found else 0))
    return found
