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
from youden.protocol.pooled_trials import has_free_calls
from youden.stats.partners import PairTotals
from youden.stats.trials.agent_rates import IndependentTotals
from youden.stats.trials.comparisons import Differences
from youden.types import MISSING_REASONS, PAIRED, Plan, Scores, Verdicts
from youden.types.cells import CellIndex, Pairs, ScoredCells
from youden.types.facts import CallFacts
from youden.types.payments import RunPayments
from youden.types.pool import Bools, Floats, Ids, Positions, count_distinct, or_none
from youden.types.results import Rates, ScoreKind, ScoreRole


class PairSums:
    """Sums over trials by ordered pair of agents, accumulated chunk by chunk.

    `own_rates`: whether each pair has its own false-positive rate (FPR), from matched independent trials. If not, only the
    true-positive rate (TPR) is summed. The attribute `totals` holds the totals of the answers that training scores may use.
    """

    def __init__(self, n_agents: int, *, own_rates: bool) -> None:
        self._has_own_rates = own_rates
        self.totals = PairTotals(n_agents)

        # by ordered pair of agents: sum over items of TPR − FPR (TPR without own rates), and number of compared items
        self._agreement_sums = np.zeros((n_agents, n_agents))
        self._n_items = np.zeros((n_agents, n_agents))
        self._n_compared_pairs = 0
        self._n_compared_cells = 0

    def add(self, chunk: RateChunk, *, n_cells: int) -> None:
        """Add the rates (TPR, FPR) of pairs of agents on the items of a chunk to all sums of this object.

        chunk : the rates; pairs without a rate (NaN) are ignored. All pairs on an item must be in one chunk (not checked).
        n_cells : number of cells (agent, item) of the chunk that have an answered paired trial, for `Pairs.partners_seen`
        """
        rates = chunk.rates
        agreement = rates.tpr - rates.fpr if self._has_own_rates else rates.tpr
        is_observed = ~np.isnan(agreement)

        self._agreement_sums += _sum_by_pair(rates, is_observed, agreement)
        self._n_items += _sum_by_pair(rates, is_observed)
        self.totals.add(chunk.answers)
        self._n_compared_pairs += _count_compared_pairs(rates)
        self._n_compared_cells += n_cells

    def to_pairs(self, differences: Differences, ability: Floats) -> Pairs:
        """Return the statistics of every ordered pair of agents over all chunks that were added.

        differences : pairwise differences of the abilities
        ability : float array (n_agents,), abilities of the additive fit, which are copied to the result

        Returns float arrays (n_agents, n_agents), NaN for agents that cannot be compared: `agreement`, the mean over items of the
        TPR, minus the pair's FPR if it has its own; `mean`, the mean answer over both orders, with its `std_error` and the number
        `n` of answers; `difference` of the abilities, row minus column, with its `half_width` and `p_holm`; and
        `significantly_better`, 1 or 0. The result also has `ability`; `partners_seen`, the mean fraction of possible partners
        with which a cell was compared (None without a comparison); and `own_rates`, whether pairs have their own FPR.
        """
        # mean over items, NaN for pairs that were never compared
        is_compared = self._n_items > 0
        agreement = np.full(is_compared.shape, np.nan)
        np.divide(self._agreement_sums, self._n_items, out=agreement, where=is_compared)

        is_unknown = np.isnan(differences.std_error)
        significantly_better = np.where(is_unknown, np.nan, differences.significantly_better)
        answers_of_pairs = self.totals.means
        return Pairs(
            agreement=agreement,
            mean=answers_of_pairs.mean,
            std_error=answers_of_pairs.std_error,
            n=answers_of_pairs.n,
            significantly_better=significantly_better,
            difference=differences.value,
            half_width=differences.half_width,
            p_holm=differences.p_holm,
            ability=ability,
            partners_seen=self._compute_mean_partner_fraction(len(ability)),
            own_rates=self._has_own_rates,
        )

    def _compute_mean_partner_fraction(self, n_agents: int) -> float | None:
        """Return the mean fraction of the other agents with which a compared cell (agent, item) was compared."""
        if not self._n_compared_pairs or n_agents < 2:
            return None
        n_partners = 2 * self._n_compared_pairs  # each pair adds one partner to two cells
        n_possible_partners = self._n_compared_cells * (n_agents - 1)
        return n_partners / n_possible_partners


def _sum_by_pair(rates: Rates, selected: Bools, values: Floats | None = None) -> Floats:
    """Sum values of rows of `rates` by ordered pair of agents: float array (n_agents, n_agents).

    selected : bool array (n_rows,), rows to sum
    values : float array (n_rows,), or None to count the rows
    """
    n_agents = rates.n_agents
    pair_number = rates.first[selected] * np.int64(n_agents) + rates.second[selected]
    selected_values = None if values is None else values[selected]
    sums = np.bincount(pair_number, weights=selected_values, minlength=n_agents * n_agents)
    return sums.reshape(n_agents, n_agents).astype(np.float64)


def _count_compared_pairs(rates: Rates) -> int:
    """Count the compared pairs of agents on each item, and return the sum over items.

    Two agents were compared on an item if at least one of their paired trials on the item has an answer. The order of the two
    agents does not matter: (a, b) and (b, a) are one pair.
    """
    is_answered = ~np.isnan(rates.tpr)
    item = rates.item[is_answered]
    lower_agent = np.minimum(rates.first, rates.second)[is_answered]
    higher_agent = np.maximum(rates.first, rates.second)[is_answered]

    # number the combinations of an item and two agents; np.int64, because the numbers may not fit in 32 bits
    n_agents = np.int64(rates.n_agents)
    combination = (item * n_agents + lower_agent) * n_agents + higher_agent
    return count_distinct(combination)


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
        row = _ScoreCollector(source, "row")
        symmetric = _ScoreCollector(source, "symmetric")
        holdout = _ScoreCollector(source, "symmetric") if source.split.n_holdout else None
        self.split = source.split
        self.false_positives = false_positives
        self.n_trials_by_item: Positions = np.zeros(source.n_items, dtype=np.int64)
        self.pairs = PairSums(source.n_agents, own_rates=source.independent == "matched")

        for chunk in chunks:
            rates = chunk.rates
            for collector in (row, symmetric):
                collector.add(chunk, chunk.training_rates.training_scores(kind=collector.kind))
            if holdout is not None:
                holdout.add(chunk, rates.holdout_scores())

            # each trial counts in two cells
            n_trials = sum_by_cell(rates, rates.n_paired)
            self.n_trials_by_item[chunk.items] = n_trials.sum(axis=0) / 2
            self.pairs.add(chunk, n_cells=int((n_trials > 0).sum()))

        # a pooled rate is known only after all chunks are summed; if each pair has its own rate, it is subtracted already
        training_rate = holdout_rate = 0.0
        if source.independent == "pooled":
            training_rate = false_positives.training_rate
            holdout_rate = false_positives.rate or 0.0

        self.row = row.to_scores("train", offset=training_rate)
        self.symmetric = symmetric.to_scores("train", offset=training_rate)
        self.holdout = None if holdout is None else holdout.to_scores("holdout", offset=holdout_rate)


def compute_symmetric_scores(trials: TrialsByItem) -> Scores:
    """Compute a training score, TPR − FPR, for each cell (agent, item) that has answers and is not held out.

    The scores are symmetric: they use trials in which the agent's text is the first or the second one. The other sums of
    `ChunkSums` are not computed, to save time.
    """
    collector = _ScoreCollector(trials.plan, "symmetric")
    for chunk in trials.iter_rates():
        scores = chunk.training_rates.training_scores(kind=collector.kind)
        collector.add(chunk, scores)

    # With pooled independent trials, one FPR holds for all pairs, and has to be subtracted here. With matched trials, the
    # scores of the chunks are TPR − FPR already.
    false_positive_rate = 0.0
    if trials.plan.independent == "pooled":
        false_positive_rate = trials.false_positives.training_rate
    return collector.to_scores("train", offset=false_positive_rate)


def sum_by_cell(rates: Rates, values: Floats | Ids) -> Floats:
    """Sum the values of the rows of `rates` by agent and item: float array (n_agents, n_items).

    A row compares two agents on an item. Its value is added to the cells of both agents.

    values : array (n_rows,), the values to sum
    """
    # number the cells row by row; np.int64, because the numbers may not fit in 32 bits
    n_cells, n_items = rates.n_agents * rates.n_items, np.int64(rates.n_items)
    first_cell_codes = rates.first * n_items + rates.item
    second_cell_codes = rates.second * n_items + rates.item

    first_sums = np.bincount(first_cell_codes, weights=values, minlength=n_cells)
    second_sums = np.bincount(second_cell_codes, weights=values, minlength=n_cells)
    return np.asarray(first_sums + second_sums).reshape(rates.n_agents, rates.n_items)


class _ScoreCollector:
    """Collects the scores of chunks, in the order of items, into scores of all items."""

    def __init__(self, source: Plan | Rates, kind: ScoreKind) -> None:
        self._source = source
        self.kind = kind
        # agent, item, value and weight of the scores of each chunk
        self._chunks = list[tuple[Ids, Ids, Floats, Floats]]()

    def add(self, chunk: RateChunk, scores: Scores) -> None:
        """Add the scores of a chunk, whose items are numbered from 0."""
        cells, value, weight = scores.cells
        self._chunks.append((cells.agent, cells.item + np.int32(chunk.start), value, weight))

    def to_scores(self, role: ScoreRole, *, offset: float) -> Scores:
        """Return the scores of all added chunks, and remove the chunks from the collector to save memory.

        role : use of the scores, recorded in the result: "train" for training, "holdout" for cells (agent, item) that were held
            out. All added scores are returned for either role.
        offset : false-positive rate to subtract from each score

        Returns the scores with their cells and the number of answered paired trials of each cell as weight.
        Raises: ValueError if no chunk was added since the last call.
        """
        agent, item, value, weight = [np.concatenate(arrays) for arrays in zip(*self._chunks, strict=True)]
        self._chunks.clear()
        value -= offset

        source = self._source
        cell_index = CellIndex(agent, item, source.n_agents, source.n_items)
        scored_cells = ScoredCells(cell_index, value, weight)
        return Scores(scored_cells, role, self.kind, source.agent_ids, source.item_ids)


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
        self._plan = plan
        self._measured = frozenset(measured)
        self._is_compared = np.zeros((plan.n_agents, plan.n_items), dtype=np.bool_)

        # numbers of calls by trial type (paired, independent, self) and by reason of a missing answer (first: answered)
        self._n_calls = np.zeros((3, len(MISSING_REASONS)), dtype=np.int64)
        self._sums = dict.fromkeys(("tokens_in", "tokens_out", "usd"), 0.0)
        self._seconds = 0.0
        self._n_timed = 0
        # request hashes of the answers that took no call, one array per chunk
        self._hashes_without_call: list[NDArray[np.bytes_]] = []
        self._n_without_call = 0

    def add_rows(self, read_rows: Callable[[], Iterable[Mapping[str, NDArray[Any]]]]) -> None:
        """Add all rows of a run, and count the answers that are reused from earlier runs.

        Trials with equal requests share one call to the judge. Only one of their rows has the cost and the duration of the call.
        Therefore, an answer is reused from an earlier run only if all rows with its request lack these values. To find such
        answers, the rows are read a second time if any row lacks them.

        Parameters
        ----------
        read_rows : callable
            Function without arguments that returns an iterable over the rows of the run, in chunks. A chunk maps the name
            of each column to an array (n_rows,).
        """
        for columns in read_rows():
            self._add_chunk(columns)
        if not self._hashes_without_call:
            return

        # an answer is not reused if another row of this run has the call for its request
        for columns in read_rows():
            has_call = self._has_call(columns)
            if has_call.any():
                hashes_with_call = columns["request_hash"][has_call]
                self._remove_from_hashes_without_call(hashes_with_call)

    def _remove_from_hashes_without_call(self, hashes_with_call: NDArray[Any]) -> None:
        """Remove the request hashes of calls, bytes array (n_calls,), from the recorded hashes of answers without a call."""
        remaining = []
        for hashes in self._hashes_without_call:
            has_call = np.isin(hashes, hashes_with_call)
            remaining.append(hashes[~has_call])
        self._hashes_without_call = remaining

    def _add_chunk(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Add a chunk of rows to all counts and sums.

        columns : array (n_rows,) by name. The names are "item", "first", "second", "trial_type", "missing_reason", and the names
            of the constructor's argument `measured`
        """
        self._count_calls(columns)
        for name in self._sums:
            if name in self._measured:
                self._sums[name] += float(columns[name].sum())

        # a row without a duration may have a reused answer; this cannot be known if no durations were recorded
        if "seconds" in self._measured:
            seconds = columns["seconds"]
            seconds_of_calls = seconds[seconds > 0]
            self._seconds += float(seconds_of_calls.sum())
            self._n_timed += len(seconds_of_calls)
            if "request_hash" in self._measured:
                self._record_hashes_without_call(columns)

    def _count_calls(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Count the trials of a chunk of rows, and mark the responses that paired trials compare.

        The counts are kept by trial type (paired, independent, self) and by the reason why an answer is missing. A paired trial
        compares two responses: those of its first and its second agent to its item.

        columns : array (n_rows,) by name: "item", "first", "second" (positions of the item and of the two agents),
            "trial_type", and "missing_reason" (a code; 0 if the trial was answered)
        """
        trial_type = columns["trial_type"]
        is_paired = trial_type == PAIRED
        paired_items = columns["item"][is_paired]
        for agents in (columns["first"], columns["second"]):
            self._is_compared[agents[is_paired], paired_items] = True

        for type_number in range(len(self._n_calls)):
            reasons_of_type = columns["missing_reason"][trial_type == type_number]
            self._n_calls[type_number] += np.bincount(reasons_of_type, minlength=len(MISSING_REASONS))

    def _record_hashes_without_call(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Record the known request hashes of answers that took no call."""
        is_answered = columns["missing_reason"] == 0
        lacks_call = is_answered & ~self._has_call(columns)
        if lacks_call.any():
            hashes = columns["request_hash"][lacks_call]
            known_hashes = hashes[hashes != b""]
            self._hashes_without_call.append(known_hashes)
            self._n_without_call += len(known_hashes)

    def to_facts(self, *, models: tuple[str, ...], usd_calibration: float, paid: RunPayments) -> CallFacts:
        """Return the counts of all rows that were added.

        Parameters
        ----------
        models : tuple of str
            Models that answered.
        usd_calibration : float
            USD that the calibration of the run's judge paid for answers that are used here; NaN if unknown.
        paid : RunPayments
            What the run has paid over all commands.

        Returns
        -------
        CallFacts
            Numbers of calls and of missing answers by trial type, of cells, and of tokens. `usd` includes `usd_calibration`,
            and is None if a cost is unknown. `seconds_mean` is None if no call was timed.
        """
        missing_paired, missing_independent, missing_self = map(_count_by_reason, self._n_calls)
        n_reused = sum(map(len, self._hashes_without_call))
        n_pending = int(self._n_calls[:, MISSING_REASONS.index("pending")].sum())
        n_independent = int(self._n_calls[1].sum())
        n_free = n_independent if has_free_calls(self._plan) else 0
        return CallFacts(
            n_paired=int(self._n_calls[0].sum()),
            n_independent=n_independent,
            n_free=n_free,
            n_dense_calls=self._plan.n_dense_calls,
            n_cells=int(self._is_compared.sum()),
            missing_paired=missing_paired,
            missing_independent=missing_independent,
            n_self=int(self._n_calls[2].sum()),
            missing_self=missing_self,
            tokens_in=int(self._sums["tokens_in"]),
            tokens_out=int(self._sums["tokens_out"]),
            usd=or_none(usd_calibration + self._sums["usd"]),
            seconds_mean=self._seconds / self._n_timed if self._n_timed else None,
            models=models,
            n_reused=n_reused,
            n_shared=self._n_without_call - n_reused,
            usd_calibration=or_none(usd_calibration),
            paid=paid,
            n_pending=n_pending,
        )

    def _has_call(self, columns: Mapping[str, NDArray[Any]]) -> Bools:
        """Return which rows have a call of their own, with a duration, tokens or a cost: bool array (n_rows,)."""
        # an unknown cost, NaN, counts as a cost
        has_cost = np.nan_to_num(columns["usd"], nan=1.0) > 0 if "usd" in self._measured else False
        has_tokens = columns["tokens_in"] > 0 if "tokens_in" in self._measured else False
        return np.asarray((columns["seconds"] > 0) | has_tokens | has_cost)


def _count_by_reason(counts: Positions) -> dict[str, int]:
    """Return the numbers of missing answers by reason, without zeros and without pending trials.

    counts : int array, one element per member of `MISSING_REASONS`; the first counts the answered trials
    """
    n_by_reason = zip(MISSING_REASONS[1:], counts[1:].tolist(), strict=True)
    return {reason: int(n) for reason, n in n_by_reason if n and reason != "pending"}


def count_calls(verdicts: Verdicts) -> CallFacts:
    """Count the calls, tokens and costs of a run from its answers.

    Returns the numbers of calls by trial type, numbers of missing answers by reason, tokens, USD, and mean seconds per call. A
    quantity is None if the judge did not report it.
    """
    plan = verdicts.plan
    measured_columns = {}
    for name in ("request_hash", "tokens_in", "tokens_out", "usd", "seconds"):
        column = getattr(verdicts, name)
        if column is not None:
            measured_columns[name] = column

    counts = CallCounts(plan, measured_columns)
    all_columns = plan.trials.columns() | {"missing_reason": verdicts.missing_reason} | measured_columns
    counts.add_rows(lambda: [all_columns])  # all rows are one chunk, which `add_rows` may read twice
    return counts.to_facts(models=verdicts.models, usd_calibration=verdicts.usd_calibration, paid=verdicts.paid)
