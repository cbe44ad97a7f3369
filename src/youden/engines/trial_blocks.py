"""A run's trials in blocks of items: its rows are read once, in their order, and written down by items beside the run.

A fit then reads them block by block, as often as it needs to: a block holds all that its items need, and memory holds one
block. What is counted over all rows in whatever order (false positives, slots, rounds) is counted on the way. Answers in memory
are read the same way, and written nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from errno import ENOSPC
from itertools import count, pairwise, takewhile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from youden.data.atomic import workplace
from youden.data.folder.table_columns import vote_column
from youden.engines.block_kinds import ApartSums, ItemBlock, RateBlock, clean_independent
from youden.errors import RunFolderError
from youden.nouns import (
    FOLLOW_UP,
    INDEPENDENT,
    MISSING_REASONS,
    PAIRED,
    PLAN,
    PROBE,
    Plan,
    Rates,
    Trials,
    Verdicts,
)
from youden.nouns.facts import CallCounts
from youden.nouns.pool import Bools, Floats, Ids, Positions
from youden.protocol.scores import tally
from youden.stats.trials.false_positives import YesCounts

Columns = dict[str, NDArray[Any]]
Rows = Callable[[], Iterable[Mapping[str, NDArray[Any]]]]
"""All rows of a run's answers, some at a time, by the names of verdicts.parquet; positions for ids."""

CELLS_AT_ONCE, TRIALS_AT_ONCE = 500_000, 500_000
"""What a block of items holds at most, if it holds more than one shelf: cells of agents × items, and trials."""
_SHELVES = 200
"""Files of either arm: each holds the trials of some items that follow each other."""
_NOT_ASKED = MISSING_REASONS.index("not_asked")
_TRIAL = [("item", "i4"), ("first", "i4"), ("second", "i4"), ("answer", "f8")]
_APART = np.dtype([*_TRIAL, ("other_item", "i4")])


class TrialsByItem:
    """A run's trials, read once. yeses: over all rows; apart: of the independent arm. slots: int64[K] each, an agent's paired
    trials in slots that hold an answer, and those of them that are answered; None where one has no slot. asked_more: whether
    suspected pairs were. n_asked: int64[R], paired trials in slots by the step that asked them; told: float[R, K], what these
    count for agents together; n_last: trials of the last extension; n_paired: paired ones but follow-ups.

    rows: each time it is called, all of them; place: a folder for them, None for memory; calls: what counts them, too; votes:
    whether those of a jury are kept.
    """

    def __init__(
        self,
        rows: Rows,
        plan: Plan,
        place: Path | None,
        *,
        calls: CallCounts | None = None,
        votes: bool = False,
    ) -> None:
        self.plan, self.yeses, self.n_votes = plan, YesCounts(plan.n_agents), 0
        self._rows, self._place, self._kept = rows, place, dict[str, list[NDArray[Any]]]()
        n_shelves = _SHELVES if place else -(-plan.n_agents * plan.n_items // CELLS_AT_ONCE)
        self._step = max(1, -(-plan.n_items // n_shelves))
        self._repeated = self.asked_more = False
        self.n_asked, self.told, self.n_last = np.zeros(0, dtype=np.int64), np.zeros((0, plan.n_agents)), 0
        self.n_paired = 0
        self._grew = plan.rounds is not None or plan.extensions is not None
        K = plan.n_agents
        self.apart = ApartSums(K, plan.split)
        slots, in_slots = np.zeros((2, 0), dtype=np.int64), True
        asked, answered = np.zeros((2, K), dtype=np.int64)
        for some in rows():
            if calls is not None:
                calls.add(some)
            if votes:
                self.n_votes = len(votes_of(some))
            if plan.extensions is not None:
                self.n_last += int((some["step"] == len(plan.extensions.steps)).sum())
            more, paired = some["role"] == FOLLOW_UP, some["arm"] == PAIRED
            if more.any():
                self.asked_more, paired = True, paired & ~more
                self._shelve("more", some, more)
            self.n_paired += int(paired.sum())
            known = paired & (some["missing"] == 0)
            self._repeated |= "first_repeat" in some or bool((some["replicate"][paired] > 0).any())
            self._shelve("paired", some, paired)
            self._count_apart(some)
            if plan.rounds is not None:
                self._count_steps(some, paired & (some["slot"] >= 0))
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
        if calls is not None and calls.unsettled:
            for some in rows():
                calls.settle(some)
        self.slots = (asked, answered) if in_slots and slots.any() else None

    @classmethod
    def of(cls, result: Verdicts, *, votes: bool = False) -> TrialsByItem:
        """Of answers in memory."""
        columns = result.plan.trials.columns() | {name: getattr(result, name) for name in ("answer", "hard", "missing")}
        if votes and result.votes is not None:
            columns |= {vote_column(number).name: vote for number, vote in enumerate(result.votes, 1)}
        return cls(lambda: [columns], result.plan, None, votes=votes)

    def part(self, plan: Plan, kept: Callable[[Mapping[str, NDArray[Any]]], Bools]) -> TrialsByItem:
        """Some of its rows, whose plan is `plan`; in the same place."""
        place = None
        if self._place is not None:
            place = self._place / f"part-{len(list(self._place.glob('part-*')))}"
            place.mkdir()
        return TrialsByItem(lambda: (SomeRows(some, kept(some)) for some in self._rows()), plan, place)

    def answers(self) -> Iterator[ItemBlock]:
        """Answers block by block, in the order of items."""
        for start, stop in self._spans(("paired",)):
            of = self._read("paired", start, stop)
            train = self.plan.split.train[:, start:stop]
            used = ~np.isnan(of["answer"]) & train[of["first"], of["item"]] & train[of["second"], of["item"]]
            n = int(used.sum())
            columns: Columns = {
                "step": np.zeros(n, dtype=np.int32),
                "role": np.full(n, PLAN, dtype=np.int8),
                "votes": np.empty((n, 0)),
            }
            columns |= dict.fromkeys(("tells_first", "tells_second"), np.ones(n, dtype=np.bool_))
            columns |= of if used.all() else {name: column[used] for name, column in of.items()}
            yield ItemBlock(start, stop - start, **columns)

    def blocks(self, *, with_more: bool = False) -> Iterator[RateBlock]:
        """Rates as `tally` has them, without `detail`, block by block, in the order of items. with_more: with the follow-ups,
        which are left out otherwise."""
        arms = ("paired", *(("apart",) if self.plan.independent == "twin" else ()), *(("more",) if with_more else ()))
        for start, stop in self._spans(arms):
            yield self._block(start, stop, arms)

    def _spans(self, arms: Sequence[str]) -> Iterator[tuple[int, int]]:
        """The first and the last item of each block, which is not in it."""
        J = self.plan.n_items
        start, filled = 0, 0.0
        for at in range(0, J, self._step):
            items = min(self._step, J - at)
            n = sum(self._n_on(arm, at) for arm in arms)
            more = max(self.plan.n_agents * items / CELLS_AT_ONCE, n / TRIALS_AT_ONCE)
            if filled and filled + more > 1:
                yield start, at
                start, filled = at, 0.0
            filled += more
        yield start, J

    def _block(self, start: int, stop: int, arms: Sequence[str]) -> RateBlock:
        split, items, of = self.plan.split, slice(start, stop), {arm: self._read(arm, start, stop) for arm in arms}
        apart, paired = of.pop("apart", None), of["paired"]
        if "more" in of:
            paired = {name: np.concatenate([column, of["more"][name]]) for name, column in paired.items()}
        rates = clean = self._rates(paired, apart, items, repeated=self._repeated or "more" in of)
        if apart is not None and split.n_holdout:
            kept = clean_independent(split, apart["first"], apart["item"] + start, apart["second"], apart["other_item"])
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

    def _count_apart(self, some: Mapping[str, NDArray[Any]]) -> None:
        independent = some["arm"] == INDEPENDENT
        if not independent.any():
            return
        known, probe = independent & (some["missing"] == 0), some["role"] == PROBE
        self.yeses.add(some["first"][known], some["second"][known], some["hard"][known] >= 0.5)
        self.apart.add(some, known & ~probe)
        if self.plan.independent == "twin":
            self._shelve("apart", some, independent & ~probe)

    def _count_steps(self, some: Mapping[str, NDArray[Any]], chosen: Bools) -> None:
        K, step = self.plan.n_agents, some["step"][chosen].astype(np.int64)
        more = int(step.max(initial=-1)) + 1 - len(self.n_asked)
        if more > 0:
            self.n_asked = np.append(self.n_asked, np.zeros(more, dtype=np.int64))
            self.told = np.vstack([self.told, np.zeros((more, K))])
        size = len(self.n_asked)
        self.n_asked += np.bincount(step, minlength=size)
        for side in ("first", "second"):
            counts = np.bincount(step * K + some[side][chosen], some[f"weight_{side}"][chosen], size * K)
            self.told += counts.reshape(size, K)

    def _row(self, arm: str) -> np.dtype[Any]:
        """What is kept of a trial: of a plan that grew also what for, of a jury its votes."""
        if arm == "apart":
            return _APART
        grew = [("step", "i4"), ("role", "i1"), ("tells_first", "?"), ("tells_second", "?")] if self._grew else []
        return np.dtype([*_TRIAL, ("slot", "i4"), *grew, *([("votes", "f8", (self.n_votes,))] if self.n_votes else [])])

    def _shelve(self, arm: str, some: Mapping[str, NDArray[Any]], chosen: Bools) -> None:
        rows = np.flatnonzero(chosen)
        shelf = some["item"][rows] // self._step
        order = np.argsort(shelf, kind="stable")
        rows, shelf = rows[order], shelf[order]
        made = np.empty(len(rows), dtype=self._row(arm))
        for name in made.dtype.names or ():
            made[name] = self._column(some, name)[rows]
        cuts = np.flatnonzero(np.diff(shelf, prepend=-1, append=-1)).tolist()
        for start, stop in pairwise(cuts):
            self._keep(f"{arm}-{int(shelf[start]) * self._step}", made[start:stop])

    def _column(self, some: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
        if name == "answer":
            return np.where(some["missing"] == 0, some["answer"], np.nan)
        if name == "votes":
            return np.stack(votes_of(some), axis=1)
        if name.startswith("tells_"):
            return np.asarray(some[name.replace("tells", "weight")] > 0)
        return some[name]

    def _keep(self, shelf: str, rows: NDArray[Any]) -> None:
        if self._place is None:
            self._kept.setdefault(shelf, []).append(rows)
            return
        with (self._place / shelf).open("ab") as file:
            rows.tofile(file)

    def _n_on(self, arm: str, item: int) -> int:
        if self._place is None:
            return sum(map(len, self._kept.get(f"{arm}-{item}", ())))
        shelf = self._place / f"{arm}-{item}"
        return shelf.stat().st_size // self._row(arm).itemsize if shelf.exists() else 0

    def _read(self, arm: str, start: int, stop: int) -> Columns:
        found, row = [np.empty(0, dtype=self._row(arm))], self._row(arm)
        for item in range(start, stop, self._step):
            name = f"{arm}-{item}"
            if self._place is None:
                found += self._kept.get(name, ())
            elif (self._place / name).exists():
                found.append(np.fromfile(self._place / name, dtype=row))
        rows = np.concatenate(found)
        columns = {name: np.ascontiguousarray(rows[name]) for name in row.names or ()}
        columns["item"] -= np.int32(start)
        return columns


def _counted(counts: NDArray[np.int64], *slots: Ids) -> NDArray[np.int64]:
    """counts: int64[2, S], and how often each slot stands in either of `slots`, with room for new ones."""
    size = max(counts.shape[1], *(int(slot.max(initial=-1)) + 1 for slot in slots))
    more = np.array([np.bincount(slot, minlength=size) for slot in slots], dtype=np.int64)
    more[:, : counts.shape[1]] += counts
    return more


def _of_agents(some: Mapping[str, NDArray[Any]], chosen: Bools, n_agents: int) -> Positions:
    sides = np.append(some["first"][chosen], some["second"][chosen])
    return np.bincount(sides, minlength=n_agents)


def votes_of(some: Mapping[str, NDArray[Any]]) -> list[Floats]:
    """What each judge of a jury answered; of another judge none."""
    names = (vote_column(number).name for number in count(1))
    return [some[name] for name in takewhile(some.__contains__, names)]


class SomeRows(dict[str, NDArray[Any]]):
    """Some rows of columns, each taken when first asked for. own: columns of these rows in place of theirs."""

    def __init__(self, of: Mapping[str, NDArray[Any]], rows: Bools | slice, **own: NDArray[Any]) -> None:
        super().__init__(own)
        self._of, self._rows = of, rows

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._of

    def __missing__(self, name: str) -> NDArray[Any]:
        self[name] = self._of[name][self._rows]
        return self[name]


@contextmanager
def trials_by_item(
    rows: Rows, plan: Plan, beside: Path, *, calls: CallCounts, votes: bool = False
) -> Iterator[TrialsByItem]:
    """The trials of a run, in a folder of their own inside `beside` that is taken away at the end.

    Raises: RunFolderError [engine-full] where the disk is full; nothing of the run has changed then.
    """
    try:
        with workplace(beside) as place:
            yield TrialsByItem(rows, plan, place, calls=calls, votes=votes)
    except OSError as error:
        if error.errno not in (None, ENOSPC):  # numpy names none
            raise
        raise RunFolderError(
            f"The fit could not go on in {beside}: {error}. It takes 24 bytes a trial there while it goes on. Make room on that "
            "disk; the run is as it was.",
            slug="engine-full",
        ) from error
