"""A run's trials in blocks of items: its rows are read once, in their order, and written down by items beside the run.

A fit then reads them block by block, as often as it needs to: a block holds all that the scores of its items need, and memory
holds one block. What is counted over all rows in whatever order (calls, false positives, slots) is counted on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from errno import ENOSPC
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from youden.data.atomic import workplace
from youden.errors import RunFolderError
from youden.nouns import FOLLOW_UP, INDEPENDENT, MISSING_REASONS, PAIRED, PROBE, Plan, Rates, Split, Trials, Verdicts
from youden.nouns.facts import CallCounts
from youden.nouns.pool import Bools, Floats, Ids, Positions
from youden.protocol.scores import tally
from youden.stats.trials.false_positives import YesCounts

Columns = dict[str, NDArray[Any]]
Rows = Callable[[], Iterable[Mapping[str, NDArray[Any]]]]
"""All rows of a run's answers, some at a time, by the names of verdicts.parquet; positions for ids."""

CELLS_AT_ONCE, TRIALS_AT_ONCE = 500_000, 2_000_000
"""What a block of items holds at most, if it holds more than one shelf: cells of agents × items, and trials."""
_SHELVES = 200
"""Files of either arm: each holds the trials of some items that follow each other."""
_NOT_ASKED = MISSING_REASONS.index("not_asked")
_ROW = np.dtype([("item", "i4"), ("first", "i4"), ("second", "i4"), ("other", "i4"), ("answer", "f8")])


class RateBlock(NamedTuple):
    """Rates on the items from `start` on, which are numbered from 0. clean: the same rows by the trials that may be learned from
    alone; split: the run's, of these items, None where nothing was held out on purpose."""

    start: int
    rates: Rates
    clean: Rates
    split: Split | None

    @property
    def items(self) -> slice:
        return slice(self.start, self.start + self.rates.n_items)


@dataclass(frozen=True, eq=False)
class ApartSums:
    """The independent arm, probes left out: n, total: float[K], answered trials that an agent takes part in, and their sum;
    n_trials, total_all, squares: of all of them, Σy, Σy²; clean_n, clean_total: of those a training score may read."""

    n: Floats
    total: Floats
    n_trials: int
    total_all: float
    squares: float
    clean_n: int
    clean_total: float

    @property
    def rate(self) -> float | None:
        """The mean answer; None where there is none."""
        return self.total_all / self.n_trials if self.n_trials else None

    @property
    def clean_rate(self) -> float:
        """The mean answer of those that a training score may read; 0 where there is none."""
        return self.clean_total / self.clean_n if self.clean_n else 0.0


class TrialsByItem:
    """A run's trials, read once. calls, yeses: over all rows; apart: of the independent arm. slots: int64[K] each, an agent's
    paired trials in slots that hold an answer, and those of them that are answered; None where one has no slot. asked_more:
    whether suspected pairs were."""

    def __init__(self, rows: Rows, plan: Plan, place: Path, *, calls: CallCounts) -> None:
        self.plan, self._place, self.calls, self.yeses = plan, place, calls, YesCounts(plan.n_agents)
        self._step = max(1, -(-plan.n_items // _SHELVES))
        self._repeated = self.asked_more = False
        K, apart = plan.n_agents, _ApartCounter(plan)
        slots, in_slots = np.zeros((2, 0), dtype=np.int64), True
        asked, answered = np.zeros((2, K), dtype=np.int64)
        for some in rows():
            calls.add(some)
            more, paired = some["role"] == FOLLOW_UP, some["arm"] == PAIRED
            if more.any():
                self.asked_more, paired = True, paired & ~more
                self._shelve("more", some, more)
            known = paired & (some["missing"] == 0)
            self._repeated |= "first_repeat" in some or bool((some["replicate"][paired] > 0).any())
            self._shelve("paired", some, paired)
            self._count_apart(some, apart)
            in_slots &= not (some["slot"][paired] < 0).any()
            if in_slots:
                slots = _counted(slots, some["slot"][paired], some["slot"][known])
                asked += _of_agents(some, paired, K)
                answered += _of_agents(some, known, K)
        unbegun = np.flatnonzero((slots[0] > 0) & (slots[1] == 0))
        if in_slots and len(unbegun):
            for some in rows():
                paired = (some["arm"] == PAIRED) & (some["role"] != FOLLOW_UP)
                asked -= _of_agents(some, paired & np.isin(some["slot"], unbegun), K)
        if calls.unsettled:
            for some in rows():
                calls.settle(some)
        self.apart = apart.sums
        self.slots = (asked, answered) if in_slots and slots.any() else None

    def blocks(self, *, with_more: bool = False) -> Iterator[RateBlock]:
        """Rates as `tally` has them, without `detail`, block by block, in the order of items. with_more: with the follow-ups,
        which are left out otherwise."""
        J = self.plan.n_items
        arms = ("paired", *(("apart",) if self.plan.independent == "twin" else ()), *(("more",) if with_more else ()))
        start, filled = 0, 0.0
        for at in range(0, J, self._step):
            items = min(self._step, J - at)
            n = sum(self._n_on(arm, at) for arm in arms)
            more = max(self.plan.n_agents * items / CELLS_AT_ONCE, n / TRIALS_AT_ONCE)
            if filled and filled + more > 1:
                yield self._block(start, at, arms)
                start, filled = at, 0.0
            filled += more
        yield self._block(start, J, arms)

    def _block(self, start: int, stop: int, arms: Sequence[str]) -> RateBlock:
        split, items, of = self.plan.split, slice(start, stop), {arm: self._read(arm, start, stop) for arm in arms}
        apart, paired = of.pop("apart", None), of["paired"]
        if "more" in of:
            paired = {name: np.append(column, of["more"][name]) for name, column in paired.items()}
        rates = clean = self._rates(paired, apart, items, repeated=self._repeated or "more" in of)
        if apart is not None and split.n_holdout:
            kept = clean_independent(split, apart["first"], apart["item"] + start, apart["second"], apart["other"])
            clean = self._rates(paired, {name: column[kept] for name, column in apart.items()}, items, repeated=True)
        here = replace(split, train=split.train[:, items], holdout=split.holdout[:, items])
        return RateBlock(start, rates, clean, here)

    def _rates(self, paired: Columns, apart: Columns | None, items: slice, *, repeated: bool) -> Rates:
        """repeated: whether a pair may have several paired trials on an item."""
        ids, answer = self.plan.item_ids[items], paired["answer"]
        if repeated or apart is not None:
            trials = [Trials.paired(paired["item"], paired["first"], paired["second"])]
            if apart is not None:
                # which other item stands in a trial no longer matters once rates are of pairs
                none = np.zeros_like(apart["item"])
                trials.append(Trials.independent(apart["item"], apart["first"], apart["second"], none))
                answer = np.append(answer, apart["answer"])
            plan = replace(self.plan, trials=Trials.concat(trials), n_items=len(ids), item_ids=ids)
            missing = np.where(np.isnan(answer), _NOT_ASKED, 0).astype(np.int8)
            return replace(tally(Verdicts(plan, answer, answer, missing, {})), detail=None)
        n = (~np.isnan(answer)).astype(np.int32)
        return Rates(
            item=paired["item"],
            first=paired["first"],
            second=paired["second"],
            tpr=answer,
            fpr=np.full(len(answer), np.nan),
            n_paired=n,
            n_independent=np.zeros(len(n), dtype=np.int32),
            n_missing=1 - n,
            n_agents=self.plan.n_agents,
            n_items=len(ids),
            independent=self.plan.independent,
            agent_ids=self.plan.agent_ids,
            item_ids=ids,
        )

    def _count_apart(self, some: Mapping[str, NDArray[Any]], apart: _ApartCounter) -> None:
        independent = some["arm"] == INDEPENDENT
        if not independent.any():
            return
        known, probe = independent & (some["missing"] == 0), some["role"] == PROBE
        self.yeses.add(some["first"][known], some["second"][known], some["hard"][known] >= 0.5)
        apart.add(some, known & ~probe)
        if self.plan.independent == "twin":
            self._shelve("apart", some, independent & ~probe)

    def _shelve(self, arm: str, some: Mapping[str, NDArray[Any]], chosen: Bools) -> None:
        rows = np.flatnonzero(chosen)
        shelf = some["item"][rows] // self._step
        order = np.argsort(shelf, kind="stable")
        rows, shelf = rows[order], shelf[order]
        made = np.empty(len(rows), dtype=_ROW)
        for name in ("item", "first", "second"):
            made[name] = some[name][rows]
        made["other"] = some["other_item"][rows]
        made["answer"] = np.where(some["missing"][rows] == 0, some["answer"][rows], np.nan)
        cuts = np.flatnonzero(np.diff(shelf, prepend=-1, append=-1)).tolist()
        for start, stop in pairwise(cuts):
            with self._shelf(arm, int(shelf[start]) * self._step).open("ab") as file:
                made[start:stop].tofile(file)

    def _shelf(self, arm: str, item: int) -> Path:
        return self._place / f"{arm}-{item}"

    def _n_on(self, arm: str, item: int) -> int:
        shelf = self._shelf(arm, item)
        return shelf.stat().st_size // _ROW.itemsize if shelf.exists() else 0

    def _read(self, arm: str, start: int, stop: int) -> Columns:
        shelves = (self._shelf(arm, item) for item in range(start, stop, self._step))
        found = [np.fromfile(shelf, dtype=_ROW) for shelf in shelves if shelf.exists()]
        rows = np.concatenate([np.empty(0, dtype=_ROW), *found])
        columns = {name: np.ascontiguousarray(rows[name]) for name in _ROW.names or ()}
        columns["item"] -= np.int32(start)
        return columns


class _ApartCounter:
    """`ApartSums`, some rows at a time."""

    def __init__(self, plan: Plan) -> None:
        self._split, self._K = plan.split, plan.n_agents
        self._of_agents, self._all, self._clean = np.zeros((2, plan.n_agents)), np.zeros(3), np.zeros(2)

    def add(self, some: Mapping[str, NDArray[Any]], chosen: Bools) -> None:
        names = ("first", "item", "second", "other_item", "answer")
        first, item, second, other, y = (some[name][chosen] for name in names)
        sides = np.append(first, second)
        self._of_agents += np.bincount(sides, minlength=self._K), np.bincount(sides, np.tile(y, 2), self._K)
        self._all += len(y), y.sum(), (y**2).sum()
        kept = clean_independent(self._split, first, item, second, other)
        self._clean += kept.sum(), y[kept].sum()

    @property
    def sums(self) -> ApartSums:
        n, total = self._of_agents
        n_trials, total_all, squares = self._all.tolist()
        clean_n, clean_total = self._clean.tolist()
        return ApartSums(n, total, int(n_trials), total_all, squares, int(clean_n), clean_total)


def _counted(counts: NDArray[np.int64], *slots: Ids) -> NDArray[np.int64]:
    """counts: int64[2, S], and how often each slot stands in either of `slots`, with room for new ones."""
    size = max(counts.shape[1], *(int(slot.max(initial=-1)) + 1 for slot in slots))
    more = np.array([np.bincount(slot, minlength=size) for slot in slots], dtype=np.int64)
    more[:, : counts.shape[1]] += counts
    return more


def _of_agents(some: Mapping[str, NDArray[Any]], chosen: Bools, n_agents: int) -> Positions:
    sides = np.append(some["first"][chosen], some["second"][chosen])
    return np.bincount(sides, minlength=n_agents)


@contextmanager
def trials_by_item(rows: Rows, plan: Plan, beside: Path, *, calls: CallCounts) -> Iterator[TrialsByItem]:
    """The trials of a run, in a folder of their own inside `beside` that is taken away at the end.

    Raises: RunFolderError [engine-full] where the disk is full; nothing of the run has changed then.
    """
    try:
        with workplace(beside) as place:
            yield TrialsByItem(rows, plan, place, calls=calls)
    except OSError as error:
        if error.errno not in (None, ENOSPC):  # numpy names none
            raise
        raise RunFolderError(
            f"The fit could not go on in {beside}: {error}. It takes 24 bytes a trial there while it goes on. Make room on that "
            "disk; the run is as it was.",
            slug="engine-full",
        ) from error


def clean_independent(split: Split, first: Ids, item: Ids, second: Ids, other: Ids) -> Bools:
    """Which independent trials a training score may read: bool[T]; under `own`, only the first text's cell matters."""
    held = split.holdout
    return np.asarray(~held[first, item] & ((split.rule == "own") | ~held[second, other]))
