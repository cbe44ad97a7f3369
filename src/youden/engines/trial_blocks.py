"""A run's trials in blocks of items: its rows are read once, in their order, and those of a large run written down by items
beside it.

A fit then reads them block by block, as often as it needs to: a block holds all that its items need, and memory holds one
block. The independent arm, which nothing needs by items, is summed on the way. Answers in memory are read the same way, and
written nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from errno import ENOSPC
from itertools import count, pairwise, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from youden.data.atomic import workplace
from youden.data.folder.table_columns import vote_column
from youden.errors import RunFolderError
from youden.stats.base.clusters import PairBlock
from youden.stats.judges.discrimination import ItemTotals
from youden.stats.trials.false_positives import ApartSums, YesCounts
from youden.types import INDEPENDENT, MISSING_REASONS, PAIRED, Finding, Plan, Trials, Verdicts
from youden.types.finding import Fact
from youden.types.planning import Split
from youden.types.pool import Bools, Floats, Ids, Positions
from youden.types.results import Rates
from youden.types.trials import FOLLOW_UP, PLAN, PROBE

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
_OF_APART = ("first", "item", "second", "other_item", "answer")


class RateBlock(NamedTuple):
    """Rates on the items from `start` on, renumbered from 0, with the run's split on these items. clean: the same rows, with FPRs
    from only those independent trials that may be learned from."""

    start: int
    rates: Rates
    clean: Rates

    @property
    def items(self) -> slice:
        return slice(self.start, self.start + self.rates.n_items)

    @property
    def answers(self) -> PairBlock:
        """As `paired_answers`."""
        return paired_answers(self.rates)


class ItemBlock(NamedTuple):
    """Paired trials on the items from `start` on, which are numbered from 0; no follow-ups.

    item, first, second, slot, step, role: int[T], as `Trials` has them; tells_first, tells_second: bool[T], whether a trial
    counts for that agent; answer: float[T], NaN where there is none; votes: float[T, M], of the judges of a jury, M = 0 of
    another judge.
    """

    start: int
    n_items: int
    item: Ids
    first: Ids
    second: Ids
    slot: Ids
    step: Ids
    role: Ids
    tells_first: Bools
    tells_second: Bools
    answer: Floats
    votes: Floats

    @property
    def answered(self) -> Bools:
        """bool[T]."""
        return ~np.isnan(self.answer)

    def of_agents(self, n_agents: int) -> Positions:
        """How many of its trials each agent has part in: int64[K]."""
        return np.bincount(np.append(self.first, self.second), minlength=n_agents)

    def where(self, rows: Bools) -> ItemBlock:
        """Some of its trials: bool[T]."""
        return self._replace(**{name: getattr(self, name)[rows] for name in self._fields[2:]})

    def cut(self, n: int) -> Iterator[ItemBlock]:
        """In so many blocks of fewer items."""
        for items in np.array_split(np.arange(self.n_items), min(n, self.n_items)):
            part = self.where((self.item >= items[0]) & (self.item <= items[-1]))
            start = int(items[0])
            yield part._replace(start=self.start + start, n_items=len(items), item=part.item - np.int32(start))

    def pairs(self, *, less: float = 0.0, slots: bool = False, told: bool = False) -> PairBlock:
        """As answers `less` a rate. slots: their levels are slots; told: a trial counts for those alone that it tells of."""
        block = PairBlock.of(
            self.item,
            self.first,
            self.second,
            self.answer - less,
            n_items=self.n_items,
            slot=self.slot if slots else None,
        )
        return replace(block, first_weight=self.tells_first, second_weight=self.tells_second) if told else block


class TrialsByItem:
    """A run's trials, read once. n: how many; yeses, apart: of the independent arm, without probes in `apart`; asked_more:
    whether suspected pairs were. independent: the answers that `apart` sums, as totals per item.

    rows: each time it is called, all of them; place: a folder for them where they are more than
    `TRIALS_AT_ONCE`, None for memory; votes: whether those of a jury are kept.
    """

    _place: Path | None = None

    def __init__(self, rows: Rows, plan: Plan, place: Path | None, *, votes: bool = False) -> None:
        self.plan, self.n, self.n_votes = plan, 0, 0
        self.yeses, self.apart = YesCounts(plan.n_agents), ApartSums(plan.n_agents)
        self.independent = ItemTotals(plan.n_items)
        self._rows, self._beside, self._kept = rows, place, dict[str, list[NDArray[Any]]]()
        n_shelves = _SHELVES if place else -(-plan.n_agents * plan.n_items // CELLS_AT_ONCE)
        self._step = max(1, -(-plan.n_items // n_shelves))
        self._repeated = self.asked_more = False
        self._grew = plan.rounds is not None or plan.extensions is not None
        for some in rows():
            self.n += len(some["arm"])
            if votes:
                self.n_votes = len(votes_of(some))
            more, paired = some["role"] == FOLLOW_UP, some["arm"] == PAIRED
            if more.any():
                self.asked_more, paired = True, paired & ~more
                self._shelve("more", some, more)
            self._repeated |= "first_repeat" in some or bool((some["replicate"][paired] > 0).any())
            self._shelve("paired", some, paired)
            self._count_apart(some)
            if place is not None and self._place is None and self.n > TRIALS_AT_ONCE:
                self._move_to(place)

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
        if self._beside is not None:
            place = self._beside / f"part-{len(list(self._beside.glob('part-*')))}"
            place.mkdir()
        return TrialsByItem(lambda: (SomeRows(some, kept(some)) for some in self._rows()), plan, place)

    def asked(self) -> Iterator[ItemBlock]:
        """Paired trials block by block, in the order of items."""
        for start, stop in self._spans(("paired",)):
            of = self._read("paired", start, stop)
            n = len(of["answer"])
            columns: Columns = {
                "step": np.zeros(n, dtype=np.int32),
                "role": np.full(n, PLAN, dtype=np.int8),
                "votes": np.empty((n, 0)),
            }
            columns |= dict.fromkeys(("tells_first", "tells_second"), np.ones(n, dtype=np.bool_))
            yield ItemBlock(start, stop - start, **columns | of)

    def answers(self) -> Iterator[ItemBlock]:
        """Those that are answered and may be learned from."""
        for block in self.asked():
            train = self.plan.split.train[:, block.start : block.start + block.n_items]
            used = block.answered & train[block.first, block.item] & train[block.second, block.item]
            yield block if used.all() else block.where(used)

    def blocks(self, *, with_more: bool = False) -> Iterator[RateBlock]:
        """Rates as `Verdicts.rates` has them, without `detail`, block by block, in the order of items. with_more: with the
        follow-ups, which are left out otherwise."""
        arms = ("paired", *(("apart",) if self.plan.independent == "twin" else ()), *(("more",) if with_more else ()))
        for start, stop in self._spans(arms):
            yield self._block(start, stop, arms)

    def alarms(self) -> list[Finding]:
        """Agents and pairs whose texts on unrelated items look alike to the judge, as `YesCounts` finds them."""
        found, way_on = [], "; one pooled rate ranks them too high (independent: twin gives each its own)."
        for alarm in self.yeses.alarms():
            agents = tuple(self.plan.agent_ids[i] for i in alarm.agents)
            said = (
                f"False-positive alarm: texts of {' and '.join(agents)} on unrelated items were called the same source "
                f"{alarm.n_yes} of {alarm.n} times (all others: {alarm.rate:.1%}). Look for templates or clones"
            )
            facts: dict[str, Fact] = {"n_yes": alarm.n_yes, "n": alarm.n, "rate_of_others": alarm.rate}
            said += "." if self.plan.independent == "twin" else way_on
            found.append(Finding("alarm", said, agents=agents, facts=facts))
        return found

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
            kept = _clean_independent(
                split, apart["first"], apart["item"] + start, apart["second"], apart["other_item"]
            )
            clean = self._rates(paired, {name: column[kept] for name, column in apart.items()}, items, repeated=True)
        return RateBlock(start, rates, clean)

    def _split(self, items: slice) -> Split:
        split = self.plan.split
        return replace(split, train=split.train[:, items], holdout=split.holdout[:, items])

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
            plan = replace(self.plan, trials=Trials.concat(trials), item_ids=ids, split=self._split(items), source=None)
            missing = np.where(np.isnan(answer), _NOT_ASKED, 0).astype(np.int8)
            return replace(Verdicts(plan, answer, answer, missing, {}).rates(), detail=None)
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
            independent=self.plan.independent,
            agent_ids=self.plan.agent_ids,
            item_ids=ids,
            split=self._split(items),
        )

    def _count_apart(self, some: Mapping[str, NDArray[Any]]) -> None:
        independent = some["arm"] == INDEPENDENT
        if not independent.any():
            return
        known, probe = independent & (some["missing"] == 0), some["role"] == PROBE
        self.yeses.add(some["first"][known], some["second"][known], some["hard"][known] >= 0.5)
        first, item, second, other, answer = (some[name][known & ~probe] for name in _OF_APART)
        clean = _clean_independent(self.plan.split, first, item, second, other)
        self.apart.add(first, second, answer, clean=clean)
        self.independent.add(answer[clean], item[clean], other[clean])
        if self.plan.independent == "twin":
            self._shelve("apart", some, independent & ~probe)

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

    def _move_to(self, place: Path) -> None:
        """From memory to files."""
        self._place, kept = place, self._kept
        self._kept = {}
        for shelf, parts in kept.items():
            for rows in parts:
                self._keep(shelf, rows)

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
def trials_by_item(rows: Rows, plan: Plan, beside: Path, *, votes: bool = False) -> Iterator[TrialsByItem]:
    """The trials of a run, in a folder of their own inside `beside` that is taken away at the end.

    Raises: RunFolderError [engine-full] where the disk is full; nothing of the run has changed then.
    """
    try:
        with workplace(beside) as place:
            yield TrialsByItem(rows, plan, place, votes=votes)
    except OSError as error:
        if error.errno not in (None, ENOSPC):  # numpy names none
            raise
        raise RunFolderError(
            f"The fit could not go on in {beside}: {error}. It takes 24 bytes a trial there while it goes on. Make room on that "
            "disk; the run is as it was.",
            slug="engine-full",
        ) from error


def paired_answers(rates: Rates) -> PairBlock:
    """Return answers of pairs minus their own FPR, if they have one, without rows that touch a held-out cell."""
    train = rates.split.train
    used = (rates.n_paired > 0) & train[rates.first, rates.item] & train[rates.second, rates.item]
    own = np.nan_to_num(rates.fpr[used]) if rates.independent == "twin" else np.zeros(int(used.sum()))
    value, weight = rates.tpr[used] - own, rates.n_paired[used].astype(np.float64)
    return PairBlock(rates.first[used], rates.second[used], rates.item[used], value, weight, own, rates.n_items)


def _clean_independent(split: Split, first: Ids, item: Ids, second: Ids, other: Ids) -> Bools:
    """Which independent trials a training score may read: bool[T]; under `own`, only the first text's cell matters."""
    held = split.holdout
    return np.asarray(~held[first, item] & ((split.rule == "own") | ~held[second, other]))
