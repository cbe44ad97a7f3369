"""Sum chunks of items into the results of a fit: scores, counts of trials, pair statistics and counts of calls.

A fit holds one chunk of items in memory at a time. The sums equal what the methods of `Verdicts` and `Rates` compute
from the whole run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from youden.engines.trial_blocks import RateChunk, TrialsByItem
from youden.stats.partners import PairTotals
from youden.stats.trials.agent_rates import IndependentTotals
from youden.stats.trials.comparisons import Differences
from youden.types import MISSING_REASONS, PAIRED, Plan, Scores, Verdicts
from youden.types.cells import CellIndex, Pairs, ScoredCells
from youden.types.facts import CallFacts
from youden.types.pool import Bools, Floats, Ids, Positions, or_none
from youden.types.results import Rates, ScoreKind, ScoreRole


class PairSums:
    """Sums over trials by ordered pair of agents, accumulated chunk by chunk.

    `own_rates`: whether each pair has its own false-positive rate, from matched independent trials. The attribute
    `totals` holds the totals of the answers that training scores may use.
    """

    def __init__(self, n_agents: int, *, own_rates: bool) -> None:
        self._has_own_rates, self.totals = own_rates, PairTotals(n_agents)
        self._difference, self._items = np.zeros((2, n_agents, n_agents))
        self._n_pairs = self._n_cells = 0

    def add(self, chunk: RateChunk, *, n_cells: int) -> None:
        """Add a chunk of items; `n_cells` is the number of its cells that have an answered paired trial."""
        rates = chunk.rates
        difference = rates.tpr - rates.fpr if self._has_own_rates else rates.tpr
        observed = ~np.isnan(difference)

        self._difference += _sum_by_pair(rates, observed, difference)
        self._items += _sum_by_pair(rates, observed)
        self.totals.add(chunk.answers)
        self._n_pairs += _count_compared_cells(rates)
        self._n_cells += n_cells

    def to_pairs(self, differences: Differences, ability: Floats) -> Pairs:
        """Return the statistics of every pair of agents.

        `differences` are the pairwise differences of the abilities, which decide what is significant. ability : float
        array (n_agents,), abilities of the additive fit
        """
        means, is_compared = self.totals.means, self._items > 0

        # share of the possible partners of a cell that it was compared with: each compared pair counts for two cells
        partners_seen = None
        if self._n_pairs:
            partners_seen = 2 * self._n_pairs / (self._n_cells * (len(ability) - 1))

        no_agreement = np.full(is_compared.shape, np.nan)
        return Pairs(
            agreement=np.divide(self._difference, self._items, out=no_agreement, where=is_compared),
            mean=means.mean,
            std_error=means.std_error,
            n=means.n,
            significantly_better=np.where(np.isnan(differences.std_error), np.nan, differences.significantly_better),
            ability=ability,
            partners_seen=partners_seen,
            own_rates=self._has_own_rates,
        )


def _sum_by_pair(rates: Rates, rows: Bools, values: Floats | None = None) -> Floats:
    """Sum values over rows by ordered pair of agents, (n_agents, n_agents); count the rows if `values` is None.

    rows : bool array (n_rows,); values : float array (n_rows,)
    """
    K = rates.n_agents
    pair = rates.first[rows] * np.int64(K) + rates.second[rows]
    weights = None if values is None else values[rows]
    return np.bincount(pair, weights, K * K).reshape(K, K).astype(np.float64)


def _count_compared_cells(rates: Rates) -> int:
    """Count the pairs of agents on an item that an answered paired trial compared, in either order."""
    answered = ~np.isnan(rates.tpr)
    item, first, second = (column[answered].astype(np.int64) for column in (rates.item, rates.first, rates.second))
    K = np.int64(rates.n_agents)

    # one number per item and unordered pair of agents
    cell_pair = np.sort((item * K + np.minimum(first, second)) * K + np.maximum(first, second))
    return int(np.count_nonzero(np.diff(cell_pair, prepend=-1)))


class ChunkSums:
    """Sums over all chunks of the trials of a run: scores, counts per item and pair sums.

    Parameters
    ----------
    chunks : iterable of RateChunk
        All chunks, in the order of items.
    source : Plan or Rates
        The plan or the imported rates that the chunks belong to.
    false_positives : IndependentTotals
        Sums of the independent trials.

    Attributes
    ----------
    row, symmetric : Scores
        Training scores.
    holdout : Scores or None
        Symmetric scores of the held-out cells; None without a holdout.
    n_trials_by_item : int array (n_items,)
        Answered paired trials of each item.
    pairs : PairSums
    split : Split
        The split of `source`.
    false_positives : IndependentTotals
    """

    def __init__(self, chunks: Iterable[RateChunk], source: Plan | Rates, false_positives: IndependentTotals) -> None:
        row, symmetric = _ScoreCollector(source, "row"), _ScoreCollector(source, "symmetric")
        holdout = _ScoreCollector(source, "symmetric") if source.split.n_holdout else None
        self.split, self.false_positives = source.split, false_positives
        self.n_trials_by_item: Positions = np.zeros(source.n_items, dtype=np.int64)
        self.pairs = PairSums(source.n_agents, own_rates=source.independent == "matched")

        for chunk in chunks:
            rates = chunk.rates
            for collector in (row, symmetric):
                collector.add(chunk, chunk.clean.training_scores(kind=collector.kind))
            if holdout is not None:
                holdout.add(chunk, rates.holdout_scores())

            # each trial counts in two cells
            n_trials = sum_by_cell(rates, rates.n_paired)
            self.n_trials_by_item[chunk.items] = n_trials.sum(axis=0) / 2
            self.pairs.add(chunk, n_cells=int((n_trials > 0).sum()))

        # a pooled rate is not known before all chunks are summed; the rates of single pairs are subtracted already
        training_rate = holdout_rate = 0.0
        if source.independent == "pooled":
            training_rate, holdout_rate = false_positives.training_rate, false_positives.rate or 0.0
        self.row = row.to_scores("train", offset=training_rate)
        self.symmetric = symmetric.to_scores("train", offset=training_rate)
        self.holdout = None if holdout is None else holdout.to_scores("holdout", offset=holdout_rate)


def compute_symmetric_scores(trials: TrialsByItem) -> Scores:
    """Compute the symmetric training scores of a run, without the other sums.

    Parameters
    ----------
    trials : TrialsByItem
        Trials of the run.

    Returns
    -------
    Scores
    """
    collector = _ScoreCollector(trials.plan, "symmetric")
    for chunk in trials.iter_rates():
        collector.add(chunk, chunk.clean.training_scores(kind=collector.kind))
    rate = trials.false_positives.training_rate if trials.plan.independent == "pooled" else 0.0
    return collector.to_scores("train", offset=rate)


def sum_by_cell(rates: Rates, values: Floats | Ids) -> Floats:
    """Sum a column of rates, array (n_rows,), by cell: float array (n_agents, n_items).

    A row counts for the cells of both its agents.
    """
    size = rates.n_agents * rates.n_items
    cells = (agent * np.int64(rates.n_items) + rates.item for agent in (rates.first, rates.second))
    sums = sum(np.bincount(cell, values, size) for cell in cells)
    return np.asarray(sums).reshape(rates.n_agents, rates.n_items)


class _ScoreCollector:
    """Collects the scores of chunks, in the order of items, into scores of all items."""

    def __init__(self, source: Plan | Rates, kind: ScoreKind) -> None:
        self._source, self.kind = source, kind
        self._chunks = list[tuple[Ids, Ids, Floats, Floats]]()

    def add(self, chunk: RateChunk, scores: Scores) -> None:
        cells, value, weight = scores.cells
        self._chunks.append((cells.agent, cells.item + np.int32(chunk.start), value, weight))

    def to_scores(self, role: ScoreRole, *, offset: float) -> Scores:
        """Join the chunks and subtract `offset` from each score; the collector is empty afterwards."""
        agent, item, value, weight = (np.concatenate(column) for column in zip(*self._chunks, strict=True))
        self._chunks.clear()
        value -= offset

        source = self._source
        cells = ScoredCells(CellIndex(agent, item, source.n_agents, source.n_items), value, weight)
        return Scores(cells, role, self.kind, source.agent_ids, source.item_ids)


class CallCounts:
    """Counts the calls, tokens and costs of a run over chunks of its rows.

    Columns have the names of verdicts.parquet, with positions in place of ids.

    Parameters
    ----------
    plan : Plan
        Plan of the run; its trials are not read.
    measured : collection of str
        Names of the columns that the judge filled: "request_hash", "tokens_in", "tokens_out", "usd", "seconds".
    """

    def __init__(self, plan: Plan, measured: Collection[str]) -> None:
        self._plan, self._measured = plan, frozenset(measured)
        self._is_compared = np.zeros((plan.n_agents, plan.n_items), dtype=np.bool_)
        self._n = np.zeros((2, len(MISSING_REASONS)), dtype=np.int64)
        self._sums = dict.fromkeys(("tokens_in", "tokens_out", "usd"), 0.0)
        self._seconds, self._n_timed = 0.0, 0
        self._reused_keys: list[NDArray[np.bytes_]] = []

    def add_rows(self, read_rows: Callable[[], Iterable[Mapping[str, NDArray[Any]]]]) -> None:
        """Add all rows of a run.

        Parameters
        ----------
        read_rows : callable
            Returns an iterable over all rows, in chunks of columns. It is called a second time if some answers cost
            nothing, to find out whether another row of the run paid for them.
        """
        for columns in read_rows():
            self._add(columns)
        if not self._reused_keys:
            return

        for columns in read_rows():
            is_paid = self._find_paid(columns)
            if is_paid.any():
                paid_keys = columns["request_hash"][is_paid]
                self._reused_keys = [keys[~np.isin(keys, paid_keys)] for keys in self._reused_keys]

    def _add(self, columns: Mapping[str, NDArray[Any]]) -> None:
        is_paired, missing = columns["trial_type"] == PAIRED, columns["missing_reason"]
        for side in ("first", "second"):
            self._is_compared[columns[side][is_paired], columns["item"][is_paired]] = True
        for trial_type, rows in enumerate((is_paired, ~is_paired)):
            self._n[trial_type] += np.bincount(missing[rows], minlength=len(MISSING_REASONS))
        for name in self._measured & self._sums.keys():
            self._sums[name] += float(columns[name].sum())

        if "seconds" in self._measured:
            timed = columns["seconds"][columns["seconds"] > 0]
            self._seconds += float(timed.sum())
            self._n_timed += len(timed)
            is_reused = (missing == 0) & ~self._find_paid(columns)
            if "request_hash" in self._measured and is_reused.any():
                keys = columns["request_hash"][is_reused]
                self._reused_keys.append(keys[keys != b""])

    def to_facts(self, *, models: tuple[str, ...], usd_tried: float) -> CallFacts:
        """Return the counts of all rows that were added.

        Parameters
        ----------
        models : tuple of str
            Models that answered.
        usd_tried : float
            USD that the calibration of the run's judge paid for answers that are used here.
        """
        missing_paired, missing_independent = map(_count_by_reason, self._n)
        return CallFacts(
            n_paired=int(self._n[0].sum()),
            n_independent=int(self._n[1].sum()),
            n_dense_calls=self._plan.n_dense_calls,
            n_cells=int(self._is_compared.sum()),
            missing_paired=missing_paired,
            missing_independent=missing_independent,
            tokens_in=int(self._sums["tokens_in"]),
            tokens_out=int(self._sums["tokens_out"]),
            usd=or_none(usd_tried + self._sums["usd"]),
            seconds_mean=self._seconds / self._n_timed if self._n_timed else None,
            models=models,
            n_reused=sum(map(len, self._reused_keys)),
            usd_calibration=or_none(usd_tried),
        )

    def _find_paid(self, columns: Mapping[str, NDArray[Any]]) -> Bools:
        """Return which rows have a call that this run paid for."""
        has_cost = np.nan_to_num(columns["usd"], nan=1.0) > 0 if "usd" in self._measured else False
        return np.asarray((columns["seconds"] > 0) | has_cost)


def _count_by_reason(counts: Positions) -> dict[str, int]:
    """Return the counts of missing answers by reason, without zeros.

    counts : int array (n_reasons,), of which the first is the number of answered trials
    """
    return {name: int(n) for name, n in zip(MISSING_REASONS[1:], counts[1:].tolist(), strict=True) if n}


def count_calls(result: Verdicts) -> CallFacts:
    """Count the calls, tokens and costs of a run.

    Parameters
    ----------
    result : Verdicts
        Verdicts of the run.

    Returns
    -------
    CallFacts
    """
    plan = result.plan
    measures = {name: getattr(result, name) for name in ("request_hash", "tokens_in", "tokens_out", "usd", "seconds")}
    measures = {name: column for name, column in measures.items() if column is not None}

    counts = CallCounts(plan, measures)
    columns = plan.trials.columns() | {"missing_reason": result.missing_reason} | measures
    counts.add_rows(lambda: [columns])
    return counts.to_facts(models=result.models, usd_tried=result.usd_calibration)
