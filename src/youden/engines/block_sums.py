"""What a fit sums over blocks of items: rates, scores and counts as the methods of `Verdicts` and `Rates` give them, and what is
known of every two agents; and what its calls took.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from youden.engines.trial_blocks import RateBlock, TrialsByItem
from youden.stats.partners import PairTotals
from youden.stats.trials.comparisons import Differences
from youden.stats.trials.false_positives import ApartSums
from youden.types import MISSING_REASONS, PAIRED, Plan, Scores, Verdicts
from youden.types.cells import CellIndex, Pairs, ScoredCells
from youden.types.facts import CallFacts
from youden.types.pool import Bools, Floats, Ids, Positions, or_none
from youden.types.results import Rates, ScoreKind, ScoreRole


class PairSums:
    """What is known of ordered pairs of agents, and how many pairs of cells were compared; blocks of other items add up.

    totals: of answers that may be learned from.
    """

    def __init__(self, n_agents: int, *, own_rates: bool) -> None:
        self._twin, self.totals = own_rates, PairTotals(n_agents)
        self._difference, self._items = np.zeros((2, n_agents, n_agents))
        self._n_pairs = self._n_cells = 0

    def add(self, block: RateBlock, *, n_cells: int) -> None:
        """n_cells: of answered paired trials in the block."""
        rates = block.rates
        difference = rates.tpr - rates.fpr if self._twin else rates.tpr
        seen = ~np.isnan(difference)
        self._difference += _by_pair(rates, seen, difference)
        self._items += _by_pair(rates, seen)
        self.totals.add(block.answers)
        self._n_pairs += _n_pairs_of_cells(rates)
        self._n_cells += n_cells

    def pairs(self, apart: Differences, ability: Floats) -> Pairs:
        """apart: who is told from whom; ability: float[K], of the additive fit."""
        means, met = self.totals.means, self._items > 0
        seen = 2 * self._n_pairs / (self._n_cells * (len(ability) - 1)) if self._n_pairs else None
        return Pairs(
            agreement=np.divide(self._difference, self._items, out=np.full(met.shape, np.nan), where=met),
            mean=means.mean,
            error=means.error,
            n=means.n,
            above=np.where(np.isnan(apart.error), np.nan, apart.above),
            ability=ability,
            partners_seen=seen,
            own_rates=self._twin,
        )


def _by_pair(rates: Rates, used: Bools, value: Floats | None = None) -> Floats:
    """Sums over some rows by ordered pair of agents; None counts them."""
    K = rates.n_agents
    pair = rates.first[used] * np.int64(K) + rates.second[used]
    return np.bincount(pair, None if value is None else value[used], K * K).reshape(K, K).astype(np.float64)


def _n_pairs_of_cells(rates: Rates) -> int:
    """How many two cells of an item an answered paired trial compared, either way round."""
    seen = ~np.isnan(rates.tpr)
    item, one, two = (column[seen].astype(np.int64) for column in (rates.item, rates.first, rates.second))
    K = np.int64(rates.n_agents)
    key = np.sort((item * K + np.minimum(one, two)) * K + np.maximum(one, two))
    return int(np.count_nonzero(np.diff(key, prepend=-1)))


class Tallied:
    """Sums over the blocks of a plan's or imported rates' trials: scores, item counts and pair sums.

    `row`, `symmetric` and `holdout` are scores, the last None without a holdout; `item_trials`, int (n_items,), counts answered
    paired trials; `split` and `apart` are those of the trials.
    """

    def __init__(self, blocks: Iterable[RateBlock], source: Plan | Rates, apart: ApartSums) -> None:
        """Sum all blocks. source: what the blocks belong to; apart: sums of its independent trials."""
        row, symmetric = _Scores(source, "row"), _Scores(source, "symmetric")
        holdout = _Scores(source, "symmetric") if source.split.n_holdout else None
        self.split, self.apart = source.split, apart
        self.item_trials: Positions = np.zeros(source.n_items, dtype=np.int64)
        self.pairs = PairSums(source.n_agents, own_rates=source.independent == "twin")
        for block in blocks:
            rates = block.rates
            for part in (row, symmetric):
                part.put(block, block.clean.training_scores(kind=part.kind))
            if holdout is not None:
                holdout.put(block, rates.holdout_scores())
            times = cells_of(rates, rates.n_paired)
            self.item_trials[block.items] = times.sum(axis=0) / 2
            self.pairs.add(block, n_cells=int((times > 0).sum()))
        # a pooled rate is known only once all blocks are summed; own rates were taken off before
        is_pooled = source.independent == "pooled"
        clean_rate, rate = (apart.clean_rate, apart.rate or 0.0) if is_pooled else (0.0, 0.0)
        self.row, self.symmetric = row.scores("train", less=clean_rate), symmetric.scores("train", less=clean_rate)
        self.holdout = None if holdout is None else holdout.scores("holdout", less=rate)


def symmetric_scores(trials: TrialsByItem) -> Scores:
    """Training scores alone."""
    made = _Scores(trials.plan, "symmetric")
    for block in trials.blocks():
        made.put(block, block.clean.training_scores(kind=made.kind))
    return made.scores("train", less=trials.apart.clean_rate if trials.plan.independent == "pooled" else 0.0)


def cells_of(rates: Rates, values: Floats | Ids) -> Floats:
    """Sums of a column, int or float[R], by agent, on either side, and item: float[K, B]."""
    size = rates.n_agents * rates.n_items
    sides = (side * np.int64(rates.n_items) + rates.item for side in (rates.first, rates.second))
    return np.asarray(sum(np.bincount(side, values, size) for side in sides)).reshape(rates.n_agents, rates.n_items)


class _Scores:
    """Scores that come in blocks of items, in their order."""

    def __init__(self, of: Plan | Rates, kind: ScoreKind) -> None:
        self.of, self.kind, self.parts = of, kind, list[tuple[Ids, Ids, Floats, Floats]]()

    def put(self, block: RateBlock, scores: Scores) -> None:
        at, value, weight = scores.cells
        self.parts.append((at.agent, at.item + np.int32(block.start), value, weight))

    def scores(self, role: ScoreRole, *, less: float) -> Scores:
        agent, item, value, weight = (np.concatenate(column) for column in zip(*self.parts, strict=True))
        self.parts.clear()
        value -= less
        cells = ScoredCells(CellIndex(agent, item, self.of.n_agents, self.of.n_items), value, weight)
        return Scores(cells, role, self.kind, self.of.agent_ids, self.of.item_ids)


class CallCounts:
    """`CallFacts`, summed over blocks of rows. plan: its trials are not looked at; measured: columns that the judge filled.

    Columns have the names of verdicts.parquet, positions for ids.
    """

    def __init__(self, plan: Plan, measured: Collection[str]) -> None:
        self._plan, self._measured = plan, frozenset(measured)
        self._touched = np.zeros((plan.n_agents, plan.n_items), dtype=np.bool_)
        self._n = np.zeros((2, len(MISSING_REASONS)), dtype=np.int64)
        self._sums = dict.fromkeys(("tokens_in", "tokens_out", "usd"), 0.0)
        self._seconds, self._n_timed = 0.0, 0
        self._unpaid: list[NDArray[np.bytes_]] = []

    def add_all(self, rows: Callable[[], Iterable[Mapping[str, NDArray[Any]]]]) -> None:
        """All rows, some at a time; again where it takes all of them to know which answers no pass of the run paid for."""
        for columns in rows():
            self._add(columns)
        for columns in rows() if self._unpaid else ():
            if (made := self._made(columns)).any():
                keys = columns["key"][made]
                self._unpaid = [some[~np.isin(some, keys)] for some in self._unpaid]

    def _add(self, columns: Mapping[str, NDArray[Any]]) -> None:
        paired, missing = columns["arm"] == PAIRED, columns["missing"]
        for side in ("first", "second"):
            self._touched[columns[side][paired], columns["item"][paired]] = True
        for arm, rows in enumerate((paired, ~paired)):
            self._n[arm] += np.bincount(missing[rows], minlength=len(MISSING_REASONS))
        for name in self._measured & self._sums.keys():
            self._sums[name] += float(columns[name].sum())
        if "seconds" in self._measured:
            timed = columns["seconds"][columns["seconds"] > 0]
            self._seconds, self._n_timed = self._seconds + float(timed.sum()), self._n_timed + len(timed)
            rest = (missing == 0) & ~self._made(columns)
            if "key" in self._measured and rest.any():
                keys = columns["key"][rest]
                self._unpaid.append(keys[keys != b""])

    def facts(self, *, models: tuple[str, ...], usd_tried: float) -> CallFacts:
        """Of all that was added. usd_tried: what the run's calibration paid for answers used here."""
        lost = [
            {name: int(n) for name, n in zip(MISSING_REASONS[1:], counts[1:].tolist(), strict=True) if n}
            for counts in self._n
        ]
        return CallFacts(
            n_paired=int(self._n[0].sum()),
            n_independent=int(self._n[1].sum()),
            n_dense_calls=self._plan.n_dense_calls,
            n_cells=int(self._touched.sum()),
            missing_paired=lost[0],
            missing_independent=lost[1],
            tokens_in=int(self._sums["tokens_in"]),
            tokens_out=int(self._sums["tokens_out"]),
            usd=or_none(usd_tried + self._sums["usd"]),
            seconds_mean=self._seconds / self._n_timed if self._n_timed else None,
            models=models,
            n_reused=sum(map(len, self._unpaid)),
            usd_calibration=or_none(usd_tried),
        )

    def _made(self, columns: Mapping[str, NDArray[Any]]) -> Bools:
        """Rows whose call a pass of this run paid for."""
        paid = np.nan_to_num(columns["usd"], nan=1.0) > 0 if "usd" in self._measured else False
        return np.asarray((columns["seconds"] > 0) | paid)


def call_facts(result: Verdicts) -> CallFacts:
    """Counted over a run's answers."""
    plan = result.plan
    measures = {name: getattr(result, name) for name in ("key", "tokens_in", "tokens_out", "usd", "seconds")}
    measures = {name: column for name, column in measures.items() if column is not None}
    counts = CallCounts(plan, measures)
    columns = plan.trials.columns() | {"missing": result.missing} | measures
    counts.add_all(lambda: [columns])
    return counts.facts(models=result.models, usd_tried=result.usd_tried)
