"""Read the trials of a run once, chunk by chunk, for all that a report shows of them.

The trials that a report displays are read a second time, because only their rows are known after the first reading.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.data.folder.trial_tables import VerdictChunk
from youden.errors import YoudenError
from youden.judging.config.judge_files import call_cost, load_judge_of_run
from youden.judging.store.answers import open_store_of_folder
from youden.report.data.answer_blocks import (
    AnswerAgreement,
    Predictions,
    TrialSource,
    compare_repeats,
    encode_trials,
    number_texts,
)
from youden.report.data.grids import compute_false_positive_rates
from youden.report.data.sections.report_section import ReportSection
from youden.report.data.trial_rows import KINDS, Kind, TrialLine, TrialRows, count_kinds, sample_surprising
from youden.stats.trials.false_positives import YesCounts
from youden.types import INDEPENDENT, PAIRED, Plan
from youden.types.pool import Bools, Floats, Ids, Positions

MAX_TIMED_CALLS = 1_000_000
"""Maximum number of calls whose durations are kept; of a larger run, every n-th call is."""


@dataclass(frozen=True)
class Latency:
    """Quantiles of the duration of calls, in seconds, over the last invocation of the run."""

    n_calls: int
    """Number of calls."""
    median: float
    """Median."""
    p90: float
    """90th percentile."""
    p99: float
    """99th percentile."""
    n_sampled: int | None = None
    """Number of calls in the quantiles; None for all."""


class CallDurations:
    """Durations of calls, added chunk by chunk. Of a large run, only every n-th call is kept."""

    def __init__(self, source: TrialSource) -> None:
        self._is_measured = "seconds" in source.measured
        self._step = -(-source.n_trials // MAX_TIMED_CALLS) or 1
        self._n = 0
        self._seconds = [np.empty(0)]

    def add(self, rows: TrialRows) -> None:
        """Add the durations of some rows; rows without a duration are skipped."""
        if not self._is_measured:
            return
        seconds = rows.columns["seconds"]
        seconds = seconds[seconds > 0]
        self._seconds.append(seconds[-self._n % self._step :: self._step])
        self._n += len(seconds)

    @property
    def latency(self) -> Latency | None:
        """Quantiles of all added durations; None if there are none."""
        if not self._n:
            return None
        seconds = np.concatenate(self._seconds)
        median, p90, p99 = np.quantile(seconds, [0.5, 0.9, 0.99]).tolist()
        return Latency(self._n, median, p90, p99, None if self._step == 1 else len(seconds))


def compute_reused_usd(folder: RunFolder) -> float | None:
    """Compute the cost in USD that the reused answers of a run would have at present prices.

    A reused answer was already in the store when the run requested it, so the run did not pay for it.

    Returns None if a price is unknown, if the store cannot be read, or if the judge makes no calls.
    """
    hashes = _read_reused_hashes(folder)
    if hashes is None:
        return None
    try:
        config = folder.read_config()
        judge = load_judge_of_run(config)
        with open_store_of_folder(config.store_location) as store:
            completions = store.answers(hashes).values()
    except YoudenError:
        return None

    calling_judge = judge.replay_of or judge  # a judge that replays stored answers names the judge that gave them
    usd = math.fsum(call_cost(calling_judge, answer.tokens_in, answer.tokens_out) for answer in completions)
    return None if math.isnan(usd) else usd


def _read_reused_hashes(folder: RunFolder) -> list[str] | None:
    """Read the request hashes of the reused answers of a run, each once; None if the judge makes no calls.

    The request hash identifies a request to a judge, and is the key of its answer in the store.
    """
    result = folder.read_verdicts(folder.read_plan())
    if result.request_hash is None:
        return None
    reused_hashes = result.request_hash[result.reused].tolist()
    return sorted({request_hash.decode() for request_hash in reused_hashes})


MIN_PARTNER_FRACTION = 0.5
"""Minimum fraction of the possible partners of a cell for curl to show additivity; below it, scores of cells are
mostly noise."""


class JudgeQuality:
    """Mean answers to both trial types, added chunk by chunk, and the agreement of repeated answers.

    Attributes
    ----------
    retest, swapped : AnswerAgreement or None
        Agreement of answers about the same two texts, in the same order and in the opposite order; None if there
        are none.
    """

    def __init__(self) -> None:
        # by trial type: number of answers, sum of the answers, number of yes-decisions
        self._sums = {PAIRED: np.zeros(3), INDEPENDENT: np.zeros(3)}
        self._is_graded = False
        self.retest: AnswerAgreement | None = None
        self.swapped: AnswerAgreement | None = None

    def add(self, rows: TrialRows) -> None:
        """Add the answers of some rows."""
        for trial_type in self._sums:
            is_counted = rows.is_counted & (rows.columns["trial_type"] == trial_type)
            answer, hard_answer = rows.columns["answer"][is_counted], rows.columns["hard_answer"][is_counted]
            self._sums[trial_type] += len(answer), answer.sum(), hard_answer.sum()
            self._is_graded |= bool((answer != hard_answer).any())

    @property
    def tpr(self) -> float | None:
        """Mean answer to the paired trials that count (`TrialRows.is_counted`); None if there are none."""
        return self._mean(PAIRED, 1)

    @property
    def fpr(self) -> float | None:
        """Mean answer to the independent trials that count (`TrialRows.is_counted`); None if there are none."""
        return self._mean(INDEPENDENT, 1)

    @property
    def yes(self) -> tuple[float, float] | None:
        """Fractions of yes-decisions in paired and in independent trials; None if answers are not graded or missing."""
        tpr, fpr = self._mean(PAIRED, 2), self._mean(INDEPENDENT, 2)
        if tpr is None or fpr is None or not self._is_graded:
            return None
        return tpr, fpr

    @property
    def j(self) -> float | None:
        """Youden's J = TPR − FPR, over all pairs of agents; None if a trial type has no answer."""
        return None if self.tpr is None or self.fpr is None else self.tpr - self.fpr

    def _mean(self, trial_type: int, column: int) -> float | None:
        """Return the sum in a column of `_sums` divided by the number of answers to this trial type; None without answers."""
        n = self._sums[trial_type][0]
        return float(self._sums[trial_type][column] / n) if n else None


N_WORST_TRIALS = 5
"""Number of trials that are kept for each agent."""
TRIALS_PER_CHUNK = 65_536
"""Number of trials that are compared at a time; after the first chunks, few trials are worse than those that are kept."""


class _JudgedTrials(NamedTuple):
    """Trials of agents, with the shortfall of their answers: how far an answer is below the expected one; arrays (n_trials,)."""

    agent: Positions
    """Position of the agent; a trial is listed once for each of its two agents."""
    side: Positions
    """0 if the response of the agent comes first, and 1 if it comes second."""
    row: Positions
    """Row of the trial in the run."""
    lower_text: Positions
    """Smaller number of the two texts. Trials of the same two texts, in any order, have the same two numbers."""
    higher_text: Positions
    """Larger number of the two texts."""
    shortfall: Floats
    """Shortfall of the answer, defined in the notes of `WorstTrials`; the larger, the worse for the agent."""

    def select(self, index: Positions | Bools) -> _JudgedTrials:
        """Return the trials that an index array or a mask selects."""
        return _JudgedTrials._make(column[index] for column in self)

    def select_worst_by_pair_of_texts(self) -> _JudgedTrials:
        """Return the worst trial, with the largest shortfall, of each agent with each pair of texts.

        Among equally bad trials, a trial that shows the response of the agent first is preferred, then the earliest trial.
        """
        # Sort by agent and texts, then by shortfall (largest first), side (0 is first) and row.
        # The last key of np.lexsort is the most important one.
        order = np.lexsort((self.row, self.side, -self.shortfall, self.higher_text, self.lower_text, self.agent))
        ordered = self.select(order)

        # keep the first trial of each combination of an agent and two texts
        combination = np.stack([ordered.agent, ordered.lower_text, ordered.higher_text])
        differs_from_previous = (combination[:, 1:] != combination[:, :-1]).any(axis=0)
        is_first = np.ones(len(order), dtype=np.bool_)
        is_first[1:] = differs_from_previous
        return ordered.select(is_first)

    def concat(self, added: _JudgedTrials) -> _JudgedTrials:
        """Return these trials, followed by others."""
        return _JudgedTrials._make(np.concatenate(columns) for columns in zip(self, added, strict=True))


class WorstTrials:
    """Trials that lower the ability of each agent most, collected chunk by chunk.

    Of several trials of the same two texts only the worst is kept.

    Notes
    -----
    With p_i the predicted score of agent i on the item, and p̄ the mean over agents, the expected answer to a
    paired trial of i and k is p_i + p_k − p̄. The shortfall of a paired trial is the expected answer minus the answer;
    that of an independent trial is the answer itself, because it should be 0.
    """

    def __init__(self, plan: Plan, predictions: Predictions) -> None:
        self._plan, self._predictions = plan, predictions
        agents = np.arange(plan.n_agents)
        self._item_mean = np.array([self._predict(agents, j).mean() for j in range(plan.n_items)])
        no_numbers: Positions = np.empty(0, dtype=np.int64)
        self._trials = _JudgedTrials._make([*[no_numbers] * 5, np.empty(0)])  # sorted by agent, worst trial first
        self._min_shortfall = np.full(plan.n_agents, -np.inf)

    def add(self, rows: TrialRows) -> None:
        """Add the next rows of the run, in place, and keep the `N_WORST_TRIALS` worst trials of each agent so far.

        The worst trials are those with the largest shortfall: the expected answer minus the answer.
        """
        # a pair of texts without regard to their order: the smaller and the larger of the two numbers
        first_text, second_text = number_texts(rows.columns, self._plan)
        lower_text = np.minimum(first_text, second_text)
        higher_text = np.maximum(first_text, second_text)

        is_answered = rows.columns["missing_reason"] == 0
        for start in range(0, len(is_answered), TRIALS_PER_CHUNK):
            # positions in `rows` of the answered trials of a chunk
            answered = start + np.flatnonzero(is_answered[start : start + TRIALS_PER_CHUNK])
            shortfall = self._compute_shortfall(rows, answered)

            # Each trial is considered for its first agent (side 0) and for its second agent (side 1). It is a candidate if its
            # shortfall is at least the smallest one that is kept for the agent.
            for side, column in enumerate(("first", "second")):
                agent = rows.columns[column][answered]
                is_candidate = shortfall >= self._min_shortfall[agent]
                candidate_rows = answered[is_candidate]
                candidates = _JudgedTrials(
                    agent=agent[is_candidate],
                    side=np.full(len(candidate_rows), side),
                    row=rows.start + candidate_rows,
                    lower_text=lower_text[candidate_rows],
                    higher_text=higher_text[candidate_rows],
                    shortfall=shortfall[is_candidate],
                )
                self._trials = self._trials.concat(candidates)
            self._keep_worst_trials()

    @property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        """Rows of the worst trials of each agent, worst first."""
        bounds = np.searchsorted(self._trials.agent, np.arange(self._plan.n_agents + 1)).tolist()
        return tuple(tuple(self._trials.row[start:stop].tolist()) for start, stop in pairwise(bounds))

    def _compute_shortfall(self, rows: TrialRows, chunk: Positions) -> Floats:
        """Compute the shortfall of answers: how unfavorable they are for the agents.

        The shortfall of a paired trial is the expected answer minus the actual one. That of an independent trial is the answer
        itself, because a yes is wrong. That of a self-trial is 0.

        chunk : int64 array (n_trials,), positions of answered trials in `rows`

        Returns a float array (n_trials,), in which larger numbers are worse.
        """
        names = ("answer", "trial_type", "item", "first", "second")
        answer, trial_type, item, first, second = (rows.columns[name][chunk] for name in names)

        # p̄ + (p_i − p̄) + (p_k − p̄): both agents shift the expected answer from the mean of the item
        expected = self._predict(first, item) + self._predict(second, item) - self._item_mean[item]
        return np.select([trial_type == PAIRED, trial_type == INDEPENDENT], [expected - answer, answer], default=0.0)

    def _predict(self, agent: Ids | Positions, item: Ids | Positions | int) -> Floats:
        """Predict scores of cells, with 0.5 for agents and items without a score."""
        return np.nan_to_num(self._predictions.predict(agent, item), nan=0.5)

    def _keep_worst_trials(self) -> None:
        """Keep only the `N_WORST_TRIALS` worst trials of each agent, those with the largest shortfalls, in place.

        Of several trials of an agent with the same two texts, only the worst one is kept.
        """
        # sort by agent, the worst trial first; np.lexsort uses its last key first
        candidates = self._trials.select_worst_by_pair_of_texts()
        order = np.lexsort((candidates.row, candidates.side, -candidates.shortfall, candidates.agent))
        ordered = candidates.select(order)

        # number the trials of each agent from 0
        start_of_agent = np.searchsorted(ordered.agent, np.arange(self._plan.n_agents))
        number = np.arange(len(order)) - start_of_agent[ordered.agent]

        # An agent with enough trials needs no trial that is better than its last one that is kept.
        # For the other agents, the minimum stays −∞.
        last_kept = ordered.select(number == N_WORST_TRIALS - 1)
        self._min_shortfall[last_kept.agent] = last_kept.shortfall
        self._trials = ordered.select(number < N_WORST_TRIALS)


class TrialReaders:
    """Readers of trials, to each of which the one pass over a run gives every chunk of rows.

    Each attribute is a reader: an object with a method `add(rows)`, whose `rows` are a `TrialRows`. The page of a report
    finds the readers in `report.readers`.

    Attributes
    ----------
    judge : JudgeQuality
        Mean answers and agreement of repeated answers.
    durations : CallDurations
        Durations of calls.
    worst : WorstTrials
        Trials of each agent that lower its ability most.
    """

    def __init__(self, source: TrialSource, predictions: Predictions) -> None:
        """Make all readers for the trials of a run; `predictions` are the predictions of the fit."""
        self.judge = JudgeQuality()
        self.durations = CallDurations(source)
        self.worst = WorstTrials(source.plan, predictions)

    def add(self, rows: TrialRows) -> None:
        """Give some rows to each reader."""
        for reader in vars(self).values():
            reader.add(rows)


_ANSWERS_DIFFER = KINDS.index("answers differ")


class TrialReading:
    """Results of one reading of all trials of a run.

    The reading needs 18 bytes of memory per trial, of which 2 remain.

    Attributes
    ----------
    readers : TrialReaders
        Readers that have read all trials.
    alarms : tuple of FalsePositiveRate
        False-positive rates of the agents.
    """

    def __init__(self, source: TrialSource, predictions: Predictions, sections: Sequence[ReportSection] = ()) -> None:
        """Read all trials, and pass them to `sections`; `predictions` are the predictions of the fit.

        Raises RunFolderError if a file is damaged.
        """
        self._source = source
        self._lines: dict[int, TrialLine] = {}
        n_trials, plan = source.n_trials, source.plan
        code, self._kind = np.empty(n_trials, dtype=np.int64), np.empty(n_trials, dtype=np.int8)
        self.readers = TrialReaders(source, predictions)
        yes_counts = YesCounts(plan.n_agents)
        for block in source.blocks:
            rows = TrialRows(block.unread_copy(), plan, start=block.start)
            positions = slice(block.start, block.start + block.n_rows)
            code[positions] = encode_trials(rows.columns, plan)
            self._kind[positions] = rows.kind
            self.readers.add(rows)
            for section in sections:
                section.add(rows)
            yes_counts.add(*rows.false_yeses)

        repeats = compare_repeats(code)
        self._differ = repeats.differ
        self._kind[repeats.differ & (self._kind > _ANSWERS_DIFFER)] = _ANSWERS_DIFFER
        self.readers.judge.retest, self.readers.judge.swapped = repeats.retest, repeats.swapped
        self.alarms = compute_false_positive_rates(yes_counts, plan.agent_ids)

    def __len__(self) -> int:
        return len(self._kind)

    @property
    def n_of_kind(self) -> dict[Kind, int]:
        """Number of trials of each kind."""
        return count_kinds(self._kind)

    def sample_surprising(self, rng: np.random.Generator, max_trials: int) -> Positions:
        """Sample at most `max_trials` rows, int64 array (n_rows,): the first kinds of `KINDS` first, at random within a kind."""
        return sample_surprising(self._kind, rng, max_trials)

    def lines(self, rows: Sequence[int]) -> list[TrialLine]:
        """Read trials by row, in the given order; they are cached."""
        for block, block_rows in self._group_by_block([row for row in rows if row not in self._lines]):
            differ = self._differ[block.start : block.start + block.n_rows]
            trials = TrialRows(block.unread_copy(), self._source.plan, start=block.start, differ=differ)
            self._lines |= {row: trials.get_line(row) for row in block_rows}
        return [self._lines[row] for row in rows]

    def read_request_hashes(self, rows: Sequence[int]) -> list[bytes]:
        """Read the request hashes of trials by row; empty bytes if the judge makes no calls."""
        if self._source.calling_judge is None:
            return [b""] * len(rows)
        hash_by_row: dict[int, bytes] = {}
        for block, block_rows in self._group_by_block(rows):
            positions_in_block = np.array(block_rows) - block.start
            block_hashes = block.read_request_hashes(positions_in_block)
            hash_by_row.update(zip(block_rows, block_hashes, strict=True))
        return [hash_by_row[row] for row in rows]

    def _group_by_block(self, rows: Sequence[int]) -> list[tuple[VerdictChunk, list[int]]]:
        """Group distinct rows by the block that contains them; blocks without a row are left out."""
        positions = np.unique(np.array(rows, dtype=np.int64))
        cuts = np.searchsorted(positions, [block.start for block in self._source.blocks[1:]])
        groups = [group.tolist() for group in np.split(positions, cuts)]
        return [(block, group) for block, group in zip(self._source.blocks, groups, strict=True) if group]
