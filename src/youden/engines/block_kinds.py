"""What a block of items holds: rates of pairs, or answers of trials; and the independent arm, which is summed over all items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from youden.nouns import Rates, Split
from youden.nouns.pool import Bools, Floats, Ids
from youden.stats.base.clusters import PairBlock
from youden.stats.trials.false_positives import OwnRates, own_rates_of_sums


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

    @property
    def answers(self) -> PairBlock:
        """As `paired_answers`."""
        return paired_answers(self.rates, self.split)


class ItemBlock(NamedTuple):
    """Answered paired trials that may be learned from on the items from `start` on, which are numbered from 0; no follow-ups.

    item, first, second, slot, step, role: int[T], as `Trials` has them; tells_first, tells_second: bool[T], whether a trial
    counts for that agent; answer: float[T]; votes: float[T, M], of the judges of a jury, M = 0 of another judge.
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


class ApartSums:
    """The independent arm, probes left out; rows add up. n, total: float[K], answered trials that an agent takes part in, and
    their sum; n_trials, total_all, squares: of all of them, Σy, Σy²; clean_n, clean_total: of those a training score may read.

    split: the run's, None for an import, which has no such trials.
    """

    def __init__(self, n_agents: int, split: Split | None) -> None:
        self._split = split
        self.n, self.total = np.zeros((2, n_agents))
        self.n_trials, self.total_all, self.squares, self.clean_n, self.clean_total = 0, 0.0, 0.0, 0, 0.0

    def add(self, some: Mapping[str, NDArray[Any]], chosen: Bools) -> None:
        names = ("first", "item", "second", "other_item", "answer")
        first, item, second, other, y = (some[name][chosen] for name in names)
        sides = np.append(first, second)
        self.n += np.bincount(sides, minlength=len(self.n))
        self.total += np.bincount(sides, np.tile(y, 2), len(self.n))
        self.n_trials += len(y)
        self.total_all += float(y.sum())
        self.squares += float((y**2).sum())
        kept = slice(None) if self._split is None else clean_independent(self._split, first, item, second, other)
        self.clean_n += len(y[kept])
        self.clean_total += float(y[kept].sum())

    @property
    def rate(self) -> float | None:
        """The mean answer; None where there is none."""
        return self.total_all / self.n_trials if self.n_trials else None

    @property
    def clean_rate(self) -> float:
        """The mean answer of those that a training score may read; 0 where there is none."""
        return self.clean_total / self.clean_n if self.clean_n else 0.0

    @property
    def own_rates(self) -> OwnRates:
        """Each agent's own rate of false positives, or the pooled one."""
        return own_rates_of_sums(
            self.n, self.total, n_trials=self.n_trials, sum_all=self.total_all, squares=self.squares
        )


def paired_answers(rates: Rates, split: Split | None = None) -> PairBlock:
    """Answers of pairs less their own FPR, where they have one; rows that touch a held-out cell are left out."""
    used = rates.n_paired > 0
    if split is not None:
        used &= split.train[rates.first, rates.item] & split.train[rates.second, rates.item]
    own = np.nan_to_num(rates.fpr[used]) if rates.independent == "twin" else np.zeros(int(used.sum()))
    value, weight = rates.tpr[used] - own, rates.n_paired[used].astype(np.float64)
    return PairBlock(rates.first[used], rates.second[used], rates.item[used], value, weight, own, rates.n_items)


def clean_independent(split: Split, first: Ids, item: Ids, second: Ids, other: Ids) -> Bools:
    """Which independent trials a training score may read: bool[T]; under `own`, only the first text's cell matters."""
    held = split.holdout
    return np.asarray(~held[first, item] & ((split.rule == "own") | ~held[second, other]))
