"""Trials: the comparisons a judge is asked for, column by column, and what each of them is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from youden.errors import PlanError
from youden.types.pool import Bools, Codes, Floats, Ids, Positions, ReadOnly

PAIRED = 0
INDEPENDENT = 1
ROLES = ("plan", "twin", "pooled", "probe", "placing", "follow-up")
"""What trials are for. plan: paired, compares everybody. twin: the independent one of a paired trial; pooled: independent, for
one rate. probe: independent, for the alarm alone. placing: places some agents on the scale of the first ones, in either arm.
follow-up: asks a suspected pair more, for links alone."""
PLAN, TWIN, POOLED, PROBE, PLACING, FOLLOW_UP = range(len(ROLES))


_LEFT_OUT: NDArray[Any] = np.empty(0)
"""Marks an optional column that was not given; compared by identity, because a plan may have no trials."""


def _left_out() -> NDArray[Any]:
    return _LEFT_OUT


def count_earlier(values: Ids | Positions) -> Positions:
    """Count, for each value, its occurrences before it.

    Parameters
    ----------
    values : int array (n,)
        Not negative.

    Returns
    -------
    int array (n,)

    Examples
    --------
    >>> count_earlier(np.array([7, 3, 7, 7, 3])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(values, kind="stable")
    position = np.arange(len(values))
    is_first = np.diff(values[order], prepend=-1) != 0
    earlier = np.empty(len(values), dtype=np.int64)
    earlier[order] = position - np.maximum.accumulate(np.where(is_first, position, 0))
    return earlier


@dataclass(frozen=True, eq=False)
class Trials(ReadOnly):
    """Trials as columns: first what is compared, then what for. Indices are int32 (n_trials,), arm and role int8, weights
    float.
    """

    item: Ids
    """Item of the first text, and of both texts of a paired trial."""
    first: Ids
    """Agent whose text the judge reads first."""
    second: Ids
    """Agent of the second text."""
    arm: Codes
    """PAIRED or INDEPENDENT."""
    other_item: Ids
    """Item of the second text of an independent trial; −1 for a paired one."""
    replicate: Ids
    """0 for the first time that a comparison is made, 1 for the second, …"""
    slot: Ids
    """Slot that the trial belongs to; −1 if it has none."""
    role: Codes = field(default_factory=_left_out)
    """Index into `ROLES`. Default: `plan` for paired trials and `pooled` for independent ones."""
    step: Ids = field(default_factory=_left_out)
    """Number of the extension or round that added the trial, from 1 on; 0 (the default) for the first plan."""
    weight_first: Floats = field(default_factory=_left_out)
    """Weight of an answer for its first agent. Default 1; 0 if it does not count for that agent; in rounds that sample some
    agents more, 1 divided by the probability of being sampled.
    """
    weight_second: Floats = field(default_factory=_left_out)
    """The same for its second agent."""
    first_repeat: Ids | None = None
    """Response that the first agent shows, from 1; None if no agent has several."""
    second_repeat: Ids | None = None
    """The same for the second agent."""

    def __post_init__(self) -> None:
        n = len(self.item)
        if self.role is _LEFT_OUT:
            self.__dict__["role"] = np.where(self.arm == PAIRED, PLAN, POOLED).astype(np.int8)
        if self.step is _LEFT_OUT:
            self.__dict__["step"] = np.zeros(n, dtype=np.int32)
        for name in ("weight_first", "weight_second"):
            if getattr(self, name) is _LEFT_OUT:
                self.__dict__[name] = np.ones(n)
        if (self.first_repeat is None) != (self.second_repeat is None):
            raise PlanError(
                "Trials show the responses of both agents or of neither: got only one of first_repeat and second_repeat. "
                "Pass both.",
                slug="trials-length",
            )
        for name, column in self.columns().items():
            if len(column) != n:
                raise PlanError(
                    f"Columns of trials must have one length: got {n} in item and {len(column)} in {name}. "
                    "Pass one value per trial in each column.",
                    slug="trials-length",
                )
        super().__post_init__()

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

    def marked(self, role: int, *, first: Bools | float = 1.0, second: Bools | float = 1.0) -> Trials:
        """For `role`. first, second: what they count for their agents, whether a trial does or how much all do."""
        code, none = np.full(len(self), role, dtype=np.int8), np.zeros(len(self))
        return replace(self, role=code, weight_first=none + first, weight_second=none + second)

    def anew(self) -> Trials:
        """The same comparisons, as the trials of a plan of their own."""
        return Trials(**{name: column for name, column in self.columns().items() if name in ASKED})

    @classmethod
    def concat(cls, parts: Sequence[Trials]) -> Trials:
        """One after the other, their columns as they are; none where there are no parts."""
        if not parts:
            return cls.paired(*np.empty((3, 0), dtype=np.int32))
        if len(parts) == 1:
            return parts[0]
        if any(part.first_repeat is not None for part in parts):
            parts = [part if part.first_repeat is not None else part.of_first_repeats() for part in parts]
        columns = [part.columns() for part in parts]
        return cls(**{name: np.concatenate([column[name] for column in columns]) for name in columns[0]})

    def take(self, rows: Bools | Positions | slice) -> Trials:
        """Some of them. rows: bool[N], positions in order, or a slice."""
        return Trials(**{name: column[rows] for name, column in self.columns().items()})

    def turned(self) -> Trials:
        """The same comparisons, in the other order in which the judge reads them; of one item each."""
        of = self.columns()
        sides = (("first", "second"), ("first_repeat", "second_repeat"))
        return replace(self, **{to: of[name] for pair in sides if pair[0] in of for name, to in (pair, pair[::-1])})

    def of_first_repeats(self) -> Trials:
        """Everybody shows its first response, which is said."""
        return replace(self, first_repeat=np.ones(len(self), np.int32), second_repeat=np.ones(len(self), np.int32))

    def text_rows(self, n_agents: int) -> tuple[Ids, Ids]:
        """Where the texts stand in the rows of `Pool.every`, of so many agents: int32[N] each."""
        if self.first_repeat is None or self.second_repeat is None:
            return self.first, self.second
        return self.first + (self.first_repeat - 1) * n_agents, self.second + (self.second_repeat - 1) * n_agents

    def told(self, rows: Bools, n_agents: int) -> Floats:
        """What some of them count for each agent together: float[K]. rows: bool[N]."""
        sides = ((self.first, self.weight_first), (self.second, self.weight_second))
        one, other = (np.bincount(agent[rows], weight[rows], n_agents) for agent, weight in sides)
        return np.asarray(one + other)

    def counted(self) -> Trials:
        """With `replicate` counted anew: 0 for the first time a comparison stands there, 1 for the second, …"""
        compared = self._compared()
        ordered = np.sort(compared)
        again = ordered[1:][ordered[1:] == ordered[:-1]]
        replicate = np.zeros(len(compared), dtype=np.int32)
        if len(again):
            rows = np.flatnonzero(np.isin(compared, again))
            replicate[rows] = count_earlier(compared[rows])
        return replace(self, replicate=replicate)

    def _compared(self) -> Positions:
        """int64[N] ≥ 0: what each trial compares, as one number; two cells of a pool of 200 million fit."""
        found = np.zeros(len(self), dtype=np.int64)
        for column in (self.item, self.first, self.second, self.other_item):
            found *= int(column.max(initial=-1)) + 2
            found += column
            found += 1
        return found

    def columns(self) -> dict[str, NDArray[Any]]:
        """Column by column, in the order of `plan.parquet`; which repeat was shown only where that is said."""
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: column for name, column in found.items() if column is not None}

    @property
    def text_cells(self) -> tuple[Ids, Ids]:
        """The items of the first and of the second text: int32[N] each."""
        return self.item, np.where(self.other_item >= 0, self.other_item, self.item)


ASKED = ("item", "first", "second", "arm", "other_item", "replicate", "slot", "first_repeat", "second_repeat")
"""Columns that say what is asked; the others say what for, which follows from how the plan was drawn and extended."""
