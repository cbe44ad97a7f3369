"""Trials as a person looks at them: what kind of surprise each one is, and which to show first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from youden.report.data.answer_blocks import codes_of, repeats_of
from youden.types import INDEPENDENT, MISSING_REASONS, PAIRED, Plan, Verdicts
from youden.types.pool import Bools, Codes, Floats, Ids, Positions, freeze

Kind = Literal["independent yes", "judges differ", "answers differ", "no answer", "paired no", "ordinary"]
KINDS: tuple[Kind, ...] = (
    "independent yes",
    "judges differ",
    "answers differ",
    "no answer",
    "paired no",
    "ordinary",
)
"""The most surprising first. A trial is of the first kind that fits it."""

Column = Literal["row", "item", "first", "second", "arm", "answer", "kind"]


@dataclass(frozen=True)
class TrialLine:
    """One trial; agents and items are positions in the plan's ids.

    answer: None where missing, then `missing` says why. against: the other judge's hard answer, None without one.
    first_repeat, second_repeat: which of its responses each agent shows, from 1; None where nobody has several.
    """

    row: int
    item: int
    other_item: int | None
    first: int
    second: int
    arm: Literal["paired", "independent"]
    answer: float | None
    hard: bool | None
    missing: str | None
    kind: Kind
    against: float | None
    first_repeat: int | None = None
    second_repeat: int | None = None


@dataclass(frozen=True)
class TrialFilter:
    """Which trials are asked for; None asks for all.

    agents, items: positions, of which a trial names one; words: a search, whose cells (bool[K, J]) a trial reads one of.
    """

    agents: frozenset[int] | None = None
    items: frozenset[int] | None = None
    arm: str | None = None
    kind: str | None = None
    answer: Literal["yes", "no", "missing"] | None = None
    words: str = ""
    cells: Bools | None = field(default=None, compare=False)


class Page(NamedTuple):
    """Some of the trials that were asked for, and how many there are."""

    total: int
    lines: tuple[TrialLine, ...]


class TrialRows:
    """Some trials of a run, looked at row by row.

    columns: by the names of verdicts.parquet, positions for ids; start: the first row's position in the run; differ: bool[N],
    whether the same texts got another answer too, None where that is not known; against: float[N], another judge's hard answers
    to the same trials, NaN where it has none.
    """

    def __init__(
        self,
        columns: Mapping[str, NDArray[Any]],
        plan: Plan,
        *,
        start: int = 0,
        against: Floats | None = None,
        differ: Bools | None = None,
    ) -> None:
        self.columns, self.plan, self.start, self.against = columns, plan, start, against
        self._differ = differ
        freeze([against])

    @property
    def differ(self) -> Bools | None:
        return self._differ

    @cached_property
    def kind(self) -> Codes:
        """int8[N], index into KINDS."""
        arm, hard = self.columns["arm"], self.columns["hard"]
        tests: dict[Kind, Bools | None] = {
            "independent yes": (arm == INDEPENDENT) & (hard == 1),
            "judges differ": None
            if self.against is None
            else ~np.isnan(self.against) & ~np.isnan(hard) & (self.against != hard),
            "answers differ": self.differ,
            "no answer": self.columns["missing"] != 0,
            "paired no": (arm == PAIRED) & (hard == 0),
        }
        kinds = np.full(len(arm), KINDS.index("ordinary"), dtype=np.int8)
        for name, fits in reversed(tests.items()):
            if fits is not None:
                kinds[fits] = KINDS.index(name)
        return kinds

    @property
    def false_yeses(self) -> tuple[Ids, Ids, Bools]:
        """Of answered independent trials: their agents, int32[T] each, and whether the answer is a yes."""
        asked = (self.columns["arm"] == INDEPENDENT) & (self.columns["missing"] == 0)
        return self.columns["first"][asked], self.columns["second"][asked], self.columns["hard"][asked] >= 0.5

    def line(self, row: int) -> TrialLine:
        """One trial, by its position in the run."""
        at = row - self.start
        of = {name: self.columns[name][at] for name in ("item", "other_item", "first", "second", "arm", "missing")}
        answered, independent = bool(of["missing"] == 0), bool(of["arm"] == INDEPENDENT)
        other = np.nan if self.against is None else float(self.against[at])
        repeats = ("first_repeat", "second_repeat") if "first_repeat" in self.columns else ()
        return TrialLine(
            row=row,
            item=int(of["item"]),
            other_item=int(of["other_item"]) if independent else None,
            first=int(of["first"]),
            second=int(of["second"]),
            arm="independent" if independent else "paired",
            answer=float(self.columns["answer"][at]) if answered else None,
            hard=bool(self.columns["hard"][at] == 1) if answered else None,
            missing=None if answered else MISSING_REASONS[of["missing"]],
            kind=KINDS[self.kind[at]],
            against=None if np.isnan(other) else other,
            **{name: int(self.columns[name][at]) for name in repeats},
        )

    def find(self, chosen: TrialFilter, *, by: Column = "kind", descending: bool = False) -> Positions:
        """Rows of the run that fit `chosen`, sorted by a column; rows with nothing in that column come last."""
        rows = self._fitting(chosen)
        value = self._sortable(by)[rows]
        order = np.argsort(-value if descending else value, kind="stable")
        return np.asarray(self.start + rows[order], dtype=np.int64)

    def values(self, chosen: TrialFilter, *, by: Column) -> Floats:
        """What those rows are sorted by, unsorted."""
        return self._sortable(by)[self._fitting(chosen)]

    def _fitting(self, chosen: TrialFilter) -> Positions:
        columns = self.columns
        tests = []
        if chosen.agents is not None:
            agents = list(chosen.agents)
            tests.append(np.isin(columns["first"], agents) | np.isin(columns["second"], agents))
        if chosen.items is not None:
            items = list(chosen.items)
            tests.append(np.isin(columns["item"], items) | np.isin(columns["other_item"], items))
        if chosen.arm is not None:
            tests.append(columns["arm"] == (INDEPENDENT if chosen.arm == "independent" else PAIRED))
        if chosen.kind is not None:
            tests.append(self.kind == (KINDS.index(chosen.kind) if chosen.kind in KINDS else -1))
        if chosen.answer == "missing":
            tests.append(columns["missing"] != 0)
        elif chosen.answer is not None:
            tests.append(columns["hard"] == (chosen.answer == "yes"))
        if chosen.cells is not None:
            other = np.where(columns["arm"] == INDEPENDENT, columns["other_item"], columns["item"])
            tests.append(chosen.cells[columns["first"], columns["item"]] | chosen.cells[columns["second"], other])
        keep = np.ones(len(columns["arm"]), dtype=np.bool_)
        for fits in tests:
            keep &= fits
        return np.flatnonzero(keep)

    def _sortable(self, by: Column) -> Floats:
        if by == "row":
            return np.arange(len(self.columns["arm"]), dtype=np.float64)
        if by in ("first", "second", "item"):
            names = self.plan.item_ids if by == "item" else self.plan.agent_ids
            return np.asarray(_alphabetical(names)[self.columns[by]])
        return np.asarray(self.kind if by == "kind" else self.columns[by], dtype=np.float64)


class TrialBook(TrialRows):
    """All trials of a run, in memory."""

    def __init__(self, result: Verdicts, against: Floats | None = None) -> None:
        columns: dict[str, NDArray[Any]] = dict(result.plan.trials.columns())
        columns |= {"answer": result.answer, "hard": result.hard, "missing": result.missing}
        super().__init__(columns, result.plan, against=against)
        self.result = result

    def __len__(self) -> int:
        return len(self.result)

    @cached_property
    def differ(self) -> Bools:
        return repeats_of(codes_of(self.columns, self.plan)).differ

    @property
    def n_of_kind(self) -> dict[Kind, int]:
        """How many trials there are of each kind."""
        return count_kinds(self.kind)

    def surprising(self, rng: np.random.Generator, most: int) -> Positions:
        """At most `most` rows, the kinds in the order of KINDS, drawn at random within a kind."""
        return surprising(self.kind, rng, most)

    def lines(self, rows: Sequence[int] | Positions) -> list[TrialLine]:
        """These trials, in this order."""
        return [self.line(int(row)) for row in rows]

    def page(self, chosen: TrialFilter, *, by: Column, descending: bool, start: int, stop: int) -> Page:
        """The trials from `start` to `stop` among those that `find` finds."""
        rows = self.find(chosen, by=by, descending=descending)
        return Page(len(rows), tuple(self.lines(rows[start:stop])))

    def keys(self, rows: Sequence[int]) -> list[bytes]:
        """The trials' requests in the store; empty where they were not asked there."""
        return [b"" if self.result.key is None else bytes(self.result.key[row]) for row in rows]


@lru_cache(maxsize=4)
def _alphabetical(names: tuple[str, ...]) -> Floats:
    return np.argsort(np.argsort(np.array(names, dtype=object), kind="stable")).astype(np.float64)


def count_kinds(kind: Codes) -> dict[Kind, int]:
    """kind: int8[N], index into KINDS."""
    counts = np.bincount(kind, minlength=len(KINDS))
    return {name: int(n) for name, n in zip(KINDS, counts, strict=True)}


def surprising(kind: Codes, rng: np.random.Generator, most: int) -> Positions:
    """As `TrialBook.surprising`. kind: int8[N], index into KINDS."""
    found = [np.empty(0, dtype=np.int64)]
    for code in range(len(KINDS)):
        rows = np.flatnonzero(kind == code)
        found.append(rows[rng.choice(len(rows), min(most, len(rows)), replace=False)])
        most -= len(found[-1])
    return np.concatenate(found)
