"""Trials: the comparisons a judge is asked for, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from youden.nouns.pool import Bools, Codes, Ids, Positions, freeze

PAIRED = 0
INDEPENDENT = 1


@dataclass(frozen=True, eq=False)
class Trials:
    """Comparisons as columns of integers (int32[N] but for `arm`, int8[N]).

    item: the item of the first text, and of both in the paired arm.
    first, second: the agents, in the order in which the judge reads them.
    arm: PAIRED or INDEPENDENT.
    other_item: the item of the second text in the independent arm, −1 in the paired arm.
    replicate: 0 for the first time a comparison is asked, 1 for the second, …
    slot: which slot a trial belongs to, −1 where it has none.
    """

    item: Ids
    first: Ids
    second: Ids
    arm: Codes
    other_item: Ids
    replicate: Ids
    slot: Ids

    def __post_init__(self) -> None:
        freeze(self.columns().values())

    def __len__(self) -> int:
        return len(self.item)

    @classmethod
    def paired(cls, item: Ids, first: Ids, second: Ids, *, slot: Ids | None = None) -> Trials:
        """Paired trials, each asked once."""
        n = len(item)
        none, once = np.full(n, -1, dtype=np.int32), np.zeros(n, dtype=np.int32)
        return cls(
            item, first, second, np.full(n, PAIRED, dtype=np.int8), none, once, none.copy() if slot is None else slot
        )

    @classmethod
    def independent(cls, item: Ids, first: Ids, second: Ids, other_item: Ids) -> Trials:
        """Independent trials, each asked once: `first` on `item` against `second` on `other_item`."""
        n = len(item)
        arm, once = np.full(n, INDEPENDENT, dtype=np.int8), np.zeros(n, dtype=np.int32)
        return cls(item, first, second, arm, other_item, once, np.full(n, -1, dtype=np.int32))

    @classmethod
    def concat(cls, parts: Sequence[Trials]) -> Trials:
        """One after the other, their columns as they are; none where there are no parts."""
        if not parts:
            return cls.paired(*np.empty((3, 0), dtype=np.int32))
        if len(parts) == 1:
            return parts[0]
        return cls(
            *(np.concatenate(columns) for columns in zip(*(part.columns().values() for part in parts), strict=True))
        )

    def take(self, rows: Bools | Positions | slice) -> Trials:
        """Some of them. rows: bool[N], positions in order, or a slice."""
        return Trials(
            item=self.item[rows],
            first=self.first[rows],
            second=self.second[rows],
            arm=self.arm[rows],
            other_item=self.other_item[rows],
            replicate=self.replicate[rows],
            slot=self.slot[rows],
        )

    def counted(self) -> Trials:
        """With `replicate` counted anew: 0 for the first time a comparison stands there, 1 for the second, …"""
        compared = self._compared()
        ordered = np.sort(compared)
        again = ordered[1:][ordered[1:] == ordered[:-1]]
        replicate = np.zeros(len(compared), dtype=np.int32)
        if len(again):
            rows = np.flatnonzero(np.isin(compared, again))
            rows = rows[np.argsort(compared[rows], kind="stable")]
            position, first = np.arange(len(rows)), np.diff(compared[rows], prepend=-1) != 0
            replicate[rows] = position - np.maximum.accumulate(np.where(first, position, 0))
        return replace(self, replicate=replicate)

    def _compared(self) -> Positions:
        """int64[N] ≥ 0: what each trial compares, as one number; two cells of a pool of 200 million fit."""
        found = np.zeros(len(self), dtype=np.int64)
        for column in (self.item, self.first, self.second, self.other_item):
            found *= int(column.max(initial=-1)) + 2
            found += column
            found += 1
        return found

    def starts_with(self, other: Trials) -> bool:
        """Whether `other` is how these begin."""
        pairs = zip(self.columns().values(), other.columns().values(), strict=True)
        return len(other) <= len(self) and all(np.array_equal(one[: len(other)], two) for one, two in pairs)

    def columns(self) -> dict[str, Ids | Codes]:
        """Column by column, in the order of `plan.parquet`."""
        return {
            "item": self.item,
            "first": self.first,
            "second": self.second,
            "arm": self.arm,
            "other_item": self.other_item,
            "replicate": self.replicate,
            "slot": self.slot,
        }

    @property
    def text_cells(self) -> tuple[Ids, Ids]:
        """The items of the first and of the second text: int32[N] each."""
        return self.item, np.where(self.other_item >= 0, self.other_item, self.item)
