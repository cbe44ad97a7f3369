"""Read the trials of a run once, and return them in chunks of consecutive items, as often as a fit needs them.

The trials of a large run are written to partition files by item, in a scratch directory; those of a small run stay in
memory. Each chunk contains all trials on its items, and only one chunk is in memory at a time. No step of a fit needs
the independent trials by item, so they are summed while the rows are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from errno import EDQUOT, ENOSPC
from itertools import count, pairwise, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from youden.data.atomic import scratch_directory
from youden.data.folder.table_columns import vote_column
from youden.engines.agent_counts import AgentCounts
from youden.errors import RunFolderError
from youden.protocol.blocks import get_extensions, is_in_complete_block
from youden.stats.base.pair_chunks import PairChunk
from youden.stats.judges.discrimination import ItemTotals
from youden.stats.trials.agent_rates import IndependentTotals
from youden.stats.trials.false_positives import Alarm, YesCounts
from youden.types import INDEPENDENT, MISSING_REASONS, PAIRED, Finding, Plan, Trials, Verdicts
from youden.types.finding import Fact
from youden.types.planning import Split
from youden.types.pool import Bools, Floats, Ids, Positions
from youden.types.results import Rates
from youden.types.trials import FOLLOW_UP, MAIN, PROBE, SELF_TRIAL

Columns = dict[str, NDArray[Any]]
Rows = Callable[[], Iterable[Mapping[str, NDArray[Any]]]]
"""Returns all rows of a run's answers, in chunks of columns. The columns have the names of verdicts.parquet, with
positions in place of ids."""

MAX_CELLS_PER_CHUNK, MAX_TRIALS_PER_CHUNK = 500_000, 500_000
"""Maximum numbers of cells (agents × items) and of trials in a chunk that consists of more than one partition."""

_N_PARTITIONS = 200
"""Number of partition files of each kind of trials; each file holds the trials on some consecutive items."""

_NOT_ASKED = MISSING_REASONS.index("not_asked")
_TRIAL_FIELDS = [("item", "i4"), ("first", "i4"), ("second", "i4"), ("answer", "f8")]
_INDEPENDENT_DTYPE = np.dtype([*_TRIAL_FIELDS, ("other_item", "i4")])
_INDEPENDENT_COLUMNS = ("first", "item", "second", "other_item", "answer")


class RateChunk(NamedTuple):
    """TPR and FPR of ordered pairs of agents on consecutive items."""

    start: int
    """Position of the first item in the run."""
    rates: Rates
    """Rates, with items numbered from 0 and the run's split on these items."""
    training_rates: Rates
    """The same rows, but the FPRs are computed without independent trials that contain a held-out response."""

    @property
    def items(self) -> slice:
        """Positions of the chunk's items in the run."""
        return slice(self.start, self.start + self.rates.n_items)

    @property
    def answers(self) -> PairChunk:
        """Answers of pairs that touch no held-out cell (agent, item), minus the pair's own FPR if it has one."""
        return select_paired_answers(self.rates)


class _ExtensionColumns(NamedTuple):
    """Columns that say how extensions of the plan added some trials: arrays (n_trials,)."""

    step: Ids
    """Extension that added the trial, from 1; 0 for the first plan."""
    in_complete_block: Bools
    """Whether the trial is in a block that compares all agents of the first plan."""
    counts_for_first: Bools
    """Whether the trial counts for the ability of its first agent."""
    counts_for_second: Bools
    """Whether the trial counts for the ability of its second agent."""


class ItemChunk(NamedTuple):
    """Paired trials on consecutive items, without follow-ups."""

    start: int
    """Position of the first item in the run."""
    n_items: int
    """Number of items; `item` counts them from 0."""
    item: Ids
    """int (n_trials,)"""
    first: Ids
    """int (n_trials,): agent whose response comes first."""
    second: Ids
    """int (n_trials,): agent whose response comes second."""
    block: Ids
    """int (n_trials,): number of the block in a cyclic plan, −1 for a trial without a block."""
    step: Ids
    """int (n_trials,): extension step that added the trial, 0 for the first plan."""
    role: Ids
    """int (n_trials,): role code, see `youden.types.trials`."""
    counts_for_first: Bools
    """bool (n_trials,): whether the trial counts for its first agent."""
    counts_for_second: Bools
    """bool (n_trials,): whether the trial counts for its second agent."""
    answer: Floats
    """float (n_trials,): answer in [0, 1], NaN if missing."""
    votes: Floats
    """float (n_trials, n_judges): votes of the judges of a jury; no columns for other judges."""

    @property
    def answered(self) -> Bools:
        """Whether a trial has an answer: bool array (n_trials,)."""
        return ~np.isnan(self.answer)

    def count_by_agent(self, n_agents: int) -> Positions:
        """Count the trials in which each agent takes part, as int array (n_agents,)."""
        return np.bincount(np.append(self.first, self.second), minlength=n_agents)

    def where(self, rows: Bools) -> ItemChunk:
        """Select trials by a mask, bool array (n_trials,)."""
        return self._replace(**{name: getattr(self, name)[rows] for name in self._fields[2:]})

    def split(self, n_chunks: int) -> Iterator[ItemChunk]:
        """Split into at most `n_chunks` chunks of consecutive items."""
        for items in np.array_split(np.arange(self.n_items), min(n_chunks, self.n_items)):
            first_item, last_item = int(items[0]), int(items[-1])
            chunk = self.where((self.item >= first_item) & (self.item <= last_item))
            item = chunk.item - np.int32(first_item)
            yield chunk._replace(start=self.start + first_item, n_items=len(items), item=item)

    def to_pairs(self, *, by_block: bool = False, weight_by_agent: bool = False) -> PairChunk:
        """Convert the trials to answers of pairs of agents, one per trial.

        Parameters
        ----------
        by_block : bool, default False
            Whether the fit has one effect per block of a cyclic plan, instead of one per item. A block consists of trials of one
            item. Each agent appears in it once as the first and once as the second text.
        weight_by_agent : bool, default False
            Whether to use the fields `counts_for_first` and `counts_for_second`, which state for each of its agents whether a
            trial counts. If False, a trial counts for both agents.

        Returns
        -------
        PairChunk
            All trials, each of weight 1. If `weight_by_agent` is True, a trial also has a weight of 0 or 1 for each of its two
            agents. If `by_block` is True, all trials that are in no block share one effect.

        Raises
        ------
        StatisticsError
            [trial-answer]: if a trial has no answer. Select the answered trials first, by `where(chunk.answered)`.
        """
        pairs = PairChunk.from_trials(
            self.item,
            self.first,
            self.second,
            self.answer,
            n_items=self.n_items,
            block=self.block if by_block else None,
        )
        if weight_by_agent:
            return replace(pairs, first_weight=self.counts_for_first, second_weight=self.counts_for_second)
        return pairs


class TrialsByItem:
    """The trials of a run, grouped by item.

    Parameters
    ----------
    rows : callable
        Returns an iterable over all rows of the run, in chunks of columns.
    plan : Plan
        Plan of the run; its trials are not read.
    directory : Path or None
        Directory for partition files, which are written if there are more than `MAX_TRIALS_PER_CHUNK` trials. None
        keeps all trials in memory.
    votes : bool, default False
        Whether to keep the votes of the judges of a jury.

    Attributes
    ----------
    n : int
        Number of trials.
    n_votes : int
        Number of judges whose votes are kept.
    has_follow_ups : bool
        Whether the run has follow-ups: additional trials that serve only to flag groups of agents.
    has_self_trials : bool
        Whether the run has self-trials: comparisons of two responses of one agent.
    agent_counts : AgentCounts
        Values by agent that are counted over single trials, for columns of the ranking.
    yes_counts : YesCounts
        Counts over the independent trials, probes included.
    independent : ItemTotals
        Totals by item of the independent trials that training scores may use, without probes.
    """

    _partitions: Path | None = None

    def __init__(self, rows: Rows, plan: Plan, directory: Path | None, *, votes: bool = False) -> None:
        self.plan = plan
        self.n = 0
        self.n_votes = 0
        self.agent_counts = AgentCounts(plan)
        self.yes_counts = YesCounts(plan.n_agents)
        self.independent = ItemTotals(plan.n_items)
        # sums of independent trials by extension step, and by whether they belong to complete blocks of the anchors
        self._totals_by_group = dict[tuple[int, bool], IndependentTotals]()
        self._rows = rows
        self._directory = directory
        # records of trials by name of their partition
        self._in_memory = dict[str, list[NDArray[Any]]]()

        # −(−a // b) is a / b, rounded up
        n_partitions = _N_PARTITIONS if directory else -(-plan.n_agents * plan.n_items // MAX_CELLS_PER_CHUNK)
        self._items_per_partition = max(1, -(-plan.n_items // n_partitions))
        self.has_follow_ups = False
        self.has_self_trials = plan.is_self_plan
        self._has_repeated_pairs = False  # whether a pair may have several paired trials on an item
        # whether an extension or a later round added trials to the first plan
        self._was_extended = plan.rounds is not None or plan.extensions is not None

        for columns in rows():
            if votes:
                self.n_votes = len(get_votes_by_judge(columns))
            self._add_rows(columns)
            if directory is not None and self._partitions is None and self.n > MAX_TRIALS_PER_CHUNK:
                self._move_to(directory)

    def _add_rows(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Add a chunk of trials: write them to the partitions, and update all counts and totals.

        Updates `n`, `agent_counts`, `has_follow_ups`, `has_self_trials`, `_has_repeated_pairs`, and the totals of independent
        trials.

        columns : arrays (n_trials,) by name
        """
        self.n += len(columns["trial_type"])
        self.agent_counts.add(columns)

        # follow-ups are paired trials, but have partitions of their own
        is_follow_up = columns["role"] == FOLLOW_UP
        if is_follow_up.any():
            self.has_follow_ups = True
            self._append_to_partitions("follow-up", columns, is_follow_up)

        # a pair of agents has several paired trials on an item if trials are replicated, or if agents responded repeatedly
        is_paired = (columns["trial_type"] == PAIRED) & ~is_follow_up
        has_replicates = bool((columns["replicate"][is_paired] > 0).any())
        self._has_repeated_pairs |= has_replicates or "first_repeat" in columns
        self._append_to_partitions("paired", columns, is_paired)

        self._add_independent(columns)

        is_self_trial = columns["trial_type"] == SELF_TRIAL
        self.has_self_trials |= bool(is_self_trial.any())
        self._append_to_partitions("self", columns, is_self_trial)

    @classmethod
    def from_verdicts(cls, verdicts: Verdicts, *, votes: bool = False) -> TrialsByItem:
        """Group answers that are in memory, without writing files.

        Parameters
        ----------
        verdicts : Verdicts
            Answers to a plan.
        votes : bool, default False
            Whether to keep the votes of the judges of a jury. A judge that is not a jury has no votes.

        Returns
        -------
        TrialsByItem
            All trials of the plan, with and without an answer.
        """
        columns = {
            **verdicts.plan.trials.columns(),
            "answer": verdicts.answer,
            "hard_answer": verdicts.hard_answer,
            "missing_reason": verdicts.missing_reason,
        }
        if votes and verdicts.votes is not None:
            for number, votes_of_judge in enumerate(verdicts.votes, 1):
                columns[vote_column(number).name] = votes_of_judge
        return cls(lambda: [columns], verdicts.plan, directory=None, votes=votes)  # all rows are one chunk

    def select(self, plan: Plan, select_rows: Callable[[Mapping[str, NDArray[Any]]], Bools]) -> TrialsByItem:
        """Read the rows of the run again, and group some of the trials by item. The votes of a jury are not kept.

        Parameters
        ----------
        plan : Plan
            Plan with the same agents and items as the run, such as the first plan of an extended run. Only `select_rows` decides
            which trials are selected; those of this plan are not read.
        select_rows : callable
            Takes a chunk of rows as a mapping of column names to arrays (n_rows,). Returns a bool array (n_rows,), True for the
            rows to select.

        Returns
        -------
        TrialsByItem
            The selected trials. Partition files, if any, are in a directory below the directory of this object, and are
            deleted with it.
        """
        directory = None
        if self._directory is not None:
            n_existing = len(list(self._directory.glob("part-*")))
            directory = self._directory / f"part-{n_existing}"
            directory.mkdir()

        def read_selected() -> Iterator[RowSubset]:
            """Read all rows of the run again, and yield the selected rows of each chunk."""
            for columns in self._rows():
                yield RowSubset(columns, select_rows(columns))

        return TrialsByItem(read_selected, plan, directory)

    @property
    def false_positives(self) -> IndependentTotals:
        """Sums over the independent trials, without probes, whose texts are unusually similar."""
        return self._sum_independent(lambda _step, _in_complete_block: True)

    def false_positives_until(self, step: int) -> IndependentTotals:
        """Sum the independent trials that were planned up to a step, to estimate false-positive rates.

        Step 0 is the first plan, and each extension or round adds a step. Probes are left out because they compare unusually
        similar texts.

        step : number of the last step
        """
        return self._sum_independent(lambda number, _in_complete_block: number <= step)

    @property
    def false_positives_of_anchors(self) -> IndependentTotals:
        """Sums over the independent trials that belong to comparisons among the anchors, the agents of the first plan."""
        totals = self._sum_independent(lambda _step, in_complete_block: in_complete_block)
        return totals.first_agents(get_extensions(self.plan).anchors)

    def _sum_independent(self, select: Callable[[int, bool], bool]) -> IndependentTotals:
        """Sum the trials that a function selects by their step, and by whether they belong to complete blocks."""
        totals = IndependentTotals(self.plan.n_agents, self.plan.n_items)
        for (step, in_complete_block), group_totals in sorted(self._totals_by_group.items()):
            if select(step, in_complete_block):
                totals = totals.merged(group_totals)
        return totals

    def iter_chunks(self) -> Iterator[ItemChunk]:
        """Iterate over the paired trials in chunks of consecutive items, in the order of items."""
        for start, stop in self._compute_chunk_bounds(("paired",)):
            columns = self._read_trials("paired", start, stop)
            n_trials = len(columns["answer"])

            # set the columns that are not stored: only juries have votes, and only extended plans have the other columns
            all_true = np.ones(n_trials, dtype=np.bool_)
            columns.setdefault("step", np.zeros(n_trials, dtype=np.int32))
            columns.setdefault("role", np.full(n_trials, MAIN, dtype=np.int8))
            columns.setdefault("counts_for_first", all_true)
            columns.setdefault("counts_for_second", all_true)
            columns.setdefault("votes", np.empty((n_trials, 0)))
            yield ItemChunk(start, stop - start, **columns)

    def read_self_trials(self) -> Columns:
        """Read all self-trials (comparisons of two responses of one agent), paired and independent ones.

        Returns the columns item, other_item, first and answer: arrays (n_trials,). `first` is the agent. `item` and
        `other_item` are the items of its two responses; `other_item` is −1 for paired trials, which have only one item.
        """
        # if all trials of a plan are self-trials, they are in the partitions of paired and of independent trials
        trial_kinds = ("paired", "independent") if self.plan.is_self_plan else ("self",)
        chunks: list[Columns] = []
        for start, stop in self._compute_chunk_bounds(trial_kinds):
            chunks += [self._read_self_trials_on_items(trial_kind, start, stop) for trial_kind in trial_kinds]

        columns = {}
        for name in ("item", "other_item", "first", "answer"):
            columns[name] = np.concatenate([chunk[name] for chunk in chunks])
        return columns

    def _read_self_trials_on_items(self, trial_kind: str, start: int, stop: int) -> Columns:
        """Read the self-trials on the items `start` to `stop` − 1.

        A self-trial compares two responses of one agent: to the same item (paired) or to two items (independent).

        trial_kind : which partitions to read. If all trials of the run are self-trials, pass "paired" or "independent". If only
            some trials are self-trials, pass "self": these partitions contain both paired and independent self-trials.
        start : position of the first item
        stop : position of the item after the last one

        Returns the columns that `read_self_trials` returns. `other_item` is −1 for a paired trial.
        """
        trials = self._read_trials(trial_kind, start, stop)
        trials["item"] += np.int32(start)  # `_read_trials` numbers the items from 0

        if trial_kind == "paired":
            trials["other_item"] = np.full(len(trials["item"]), -1, dtype=np.int32)
        elif trial_kind == "self":
            # the two items of a paired trial are the same
            is_paired = trials["other_item"] == trials["item"]
            trials["other_item"][is_paired] = -1
        return trials

    def iter_answered(self) -> Iterator[ItemChunk]:
        """Iterate over the answered paired trials that training scores may use, in chunks, in the order of items."""
        for chunk in self.iter_chunks():
            is_training_cell = self.plan.split.train[:, chunk.start : chunk.start + chunk.n_items]
            first_in_training = is_training_cell[chunk.first, chunk.item]
            second_in_training = is_training_cell[chunk.second, chunk.item]
            is_usable = chunk.answered & first_in_training & second_in_training
            yield chunk if is_usable.all() else chunk.where(is_usable)

    def iter_rates(self, *, with_follow_ups: bool = False) -> Iterator[RateChunk]:
        """Compute the true- and false-positive rates of all pairs of agents, in chunks of items.

        The second item of an independent trial is not used. Therefore, the field `detail` of the rates is None.

        Parameters
        ----------
        with_follow_ups : bool, default False
            Whether to include follow-ups: additional trials that serve only to flag groups of agents.

        Yields
        ------
        RateChunk
            Rates of the pairs on the items of a chunk, in two versions: from all trials, and from the trials that training may
            use.
        """
        trial_kinds = ["paired"]
        if self.plan.independent == "matched":
            trial_kinds.append("independent")
        if with_follow_ups:
            trial_kinds.append("follow-up")
        for start, stop in self._compute_chunk_bounds(trial_kinds):
            yield self._compute_rate_chunk(start, stop, trial_kinds)

    def find_alarms(self) -> list[Finding]:
        """Return a finding "alarm" for each agent or pair with too many false positives.

        A false positive is the answer that responses to two different items have the same source.
        """
        return [self._make_alarm_finding(alarm) for alarm in self.yes_counts.find_alarms()]

    def _make_alarm_finding(self, alarm: Alarm) -> Finding:
        """Make the warning about an agent or a pair of agents with too many false positives.

        A false positive is the judge's answer that responses to two different items have the same source.

        alarm : the agent or pair, its numbers of yes answers and of independent trials, and the rate of yes answers to all others
        """
        agents = tuple(self.plan.agent_ids[position] for position in sorted(set(alarm.agents)))
        texts = f"texts of {' and '.join(agents)}"
        if self.plan.is_self_plan:
            texts = f"two responses of {agents[0]}"

        remedy = "Check for templates or clones."
        if self.plan.independent != "matched":
            remedy = "Check for templates or clones; `independent: matched` gives each pair its own rate."
        message = (
            f"False-positive alarm: {texts} on unrelated items were called the same source "
            f"{alarm.n_yes} of {alarm.n} times (all others: {alarm.rate:.1%}). {remedy}"
        )
        facts: dict[str, Fact] = {"n_yes": alarm.n_yes, "n": alarm.n, "rate_of_others": alarm.rate}
        return Finding("alarm", message, agents=agents, facts=facts)

    def _compute_chunk_bounds(self, trial_kinds: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Group the items into chunks of limited size, and yield the bounds of each chunk.

        Bounds are the positions of the first item and of the item after the last one. The trials are stored in partitions,
        each with all trials on some consecutive items. A chunk consists of whole partitions: a single one may exceed the
        maximum size.

        trial_kinds : kinds of trials that will be read, of "paired", "independent" and "follow-up"
        """
        n_items = self.plan.n_items
        chunk_start = 0
        chunk_size = 0.0  # as a fraction of the maximum size
        for first_item in range(0, n_items, self._items_per_partition):
            n_cells = self.plan.n_agents * min(self._items_per_partition, n_items - first_item)
            n_trials = sum(self._count_in_partition(trial_kind, first_item) for trial_kind in trial_kinds)
            partition_size = max(n_cells / MAX_CELLS_PER_CHUNK, n_trials / MAX_TRIALS_PER_CHUNK)

            is_empty = chunk_size == 0
            if not is_empty and chunk_size + partition_size > 1:
                yield chunk_start, first_item
                chunk_start = first_item
                chunk_size = 0.0
            chunk_size += partition_size
        yield chunk_start, n_items

    def _compute_rate_chunk(self, start: int, stop: int, trial_kinds: Sequence[str]) -> RateChunk:
        """Compute the true- and false-positive rates of pairs of agents on the items `start` to `stop` − 1.

        trial_kinds : kinds of trials to use: "paired", and optionally "independent" and "follow-up"

        The result has two sets of rates: `rates` from all independent trials, and `training_rates` without the independent trials
        of held-out responses. Without held-out responses, or without independent trials, the two sets are the same object.
        """
        items = slice(start, stop)
        with_follow_ups = "follow-up" in trial_kinds
        paired = self._read_paired(start, stop, with_follow_ups=with_follow_ups)
        if "independent" not in trial_kinds:
            # follow-ups repeat comparisons of two agents on an item
            has_repeated_pairs = self._has_repeated_pairs or with_follow_ups
            rates = self._compute_tpr(paired, items, has_repeated_pairs=has_repeated_pairs)
            return RateChunk(start, rates, training_rates=rates)

        independent = self._read_trials("independent", start, stop)
        rates = self._compute_tpr_and_fpr(paired, independent, items)
        if not self.plan.split.n_holdout:
            return RateChunk(start, rates, training_rates=rates)

        training_independent = self._select_for_training(independent, start)
        training_rates = self._compute_tpr_and_fpr(paired, training_independent, items)
        return RateChunk(start, rates, training_rates=training_rates)

    def _read_paired(self, start: int, stop: int, *, with_follow_ups: bool) -> Columns:
        """Read the paired trials on the items `start` to `stop` − 1 as columns.

        The items are numbered from 0.

        with_follow_ups : whether to append the follow-ups on these items
        """
        paired = self._read_trials("paired", start, stop)
        if not with_follow_ups:
            return paired
        follow_ups = self._read_trials("follow-up", start, stop)
        return {name: np.concatenate([column, follow_ups[name]]) for name, column in paired.items()}

    def _select_for_training(self, independent: Columns, start: int) -> Columns:
        """Select the independent trials that training scores may use, given the held-out cells of the plan.

        independent : columns of the trials (result of `_read_trials`). `item` is the item of the first text, numbered from 0
            in the chunk. `other_item` is the item of the second text, by its position in the run
        start : position of the first item of the chunk in the run
        """
        is_training = self.plan.split.allows_training(
            independent["first"],
            independent["item"] + start,
            independent["second"],
            independent["other_item"],
        )
        return {name: column[is_training] for name, column in independent.items()}

    def _select_split(self, items: slice) -> Split:
        """Return the plan's split into training and held-out responses, for only some items.

        items : positions of consecutive items in the run
        """
        split = self.plan.split
        return replace(split, train=split.train[:, items], holdout=split.holdout[:, items])

    def _compute_tpr(self, paired: Columns, items: slice, *, has_repeated_pairs: bool) -> Rates:
        """Compute the true-positive rate of each ordered pair of agents on each item.

        False-positive rates are NaN in the result.

        paired : columns of the paired trials on these items (result of `_read_trials`); 0 is the first of these items
        items : positions of these items in the run
        has_repeated_pairs : whether a pair may have several paired trials on an item
        """
        if has_repeated_pairs:
            return self._compute_tpr_and_fpr(paired, independent=None, items=items)

        # each pair has at most one trial on an item, so its true-positive rate is the answer
        answer = paired["answer"]
        n_answered = (~np.isnan(answer)).astype(np.int32)
        return Rates(
            item=paired["item"],
            first=paired["first"],
            second=paired["second"],
            tpr=answer,
            fpr=np.full(len(answer), np.nan),
            n_paired=n_answered,
            n_independent=np.zeros(len(n_answered), dtype=np.int32),
            n_missing=1 - n_answered,
            independent=self.plan.independent,
            agent_ids=self.plan.agent_ids,
            item_ids=self.plan.item_ids[items],
            split=self._select_split(items),
        )

    def _compute_tpr_and_fpr(self, paired: Columns, independent: Columns | None, items: slice) -> Rates:
        """Compute the true- and false-positive rate of each ordered pair of agents on each item.

        The true-positive rate is the mean answer to the pair's paired trials on the item. The false-positive rate is the
        mean answer to its independent trials. To compute these means by `Verdicts.rates`, this function makes a temporary plan
        that has only these trials.

        paired : columns of the paired trials (result of `_read_trials`)
        independent : columns of the independent trials; None to return NaN as false-positive rates
        items : positions of the items in the run
        """
        trials = Trials.paired(paired["item"], paired["first"], paired["second"])
        answer = paired["answer"]
        if independent is not None:
            # The temporary plan contains only the items in `items`, and the second item may not be one of them. It is replaced by
            # 0, because the rates depend only on the first item.
            second_item = np.zeros_like(independent["item"])
            independent_trials = Trials.independent(
                independent["item"], independent["first"], independent["second"], second_item
            )
            trials = Trials.concat([trials, independent_trials])
            answer = np.append(answer, independent["answer"])

        plan = replace(
            self.plan,
            trials=trials,
            item_ids=self.plan.item_ids[items],
            split=self._select_split(items),
            source=None,
        )
        missing_reason = np.where(np.isnan(answer), _NOT_ASKED, 0).astype(np.int8)
        verdicts = Verdicts(plan, answer, hard_answer=answer, missing_reason=missing_reason, judge={})

        # `detail` would be wrong: it counts trials by their second item, which was replaced
        return replace(verdicts.rates(), detail=None)

    def _add_independent(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Add the independent trials of a chunk to the sums for false-positive rates.

        Probes are independent trials of unusually similar responses, which would bias the false-positive rates. They are added
        only to `yes_counts`, which serves to find agents with too many false positives.

        If the plan has one independent trial per paired trial ("matched"), each pair of agents gets its own false-positive
        rate. The trials, with and without an answer, are then also written to the partitions.

        columns : array (n_rows,) by name of the column, all columns of verdicts.parquet that describe trials and answers
        """
        is_independent = columns["trial_type"] == INDEPENDENT
        if not is_independent.any():
            return
        is_answered = is_independent & (columns["missing_reason"] == 0)
        is_yes = columns["hard_answer"][is_answered] >= 0.5
        self.yes_counts.add(columns["first"][is_answered], columns["second"][is_answered], is_yes)

        is_probe = columns["role"] == PROBE
        self._add_to_rate_totals(columns, is_answered & ~is_probe)
        if self.plan.independent == "matched":
            self._append_to_partitions("independent", columns, is_independent & ~is_probe)

    def _add_to_rate_totals(self, columns: Mapping[str, NDArray[Any]], is_selected: Bools) -> None:
        """Add answered independent trials to the totals from which false-positive rates are estimated.

        `independent` has totals by item. `_totals_by_group` has totals by two properties of a trial:

        - its step: 0 for the first plan, and 1, 2, … for the extensions of the plan
        - whether it is in a complete block, which is a set of trials that compares all agents of the first plan

        columns : array (n_rows,) by name of the column: `_INDEPENDENT_COLUMNS` and, for an extended plan, the columns that
            `_get_extension_columns` reads
        is_selected : bool array (n_rows,), whether the trial of a row is added
        """
        first, item, second, other_item, answer = [columns[name][is_selected] for name in _INDEPENDENT_COLUMNS]
        is_training = self.plan.split.allows_training(first, item, second, other_item)
        self.independent.add(answer[is_training], item[is_training], other_item[is_training])

        extension = self._get_extension_columns(columns, is_selected)
        groups = set(zip(extension.step.tolist(), extension.in_complete_block.tolist(), strict=True))
        for group in sorted(groups):
            step, in_complete_block = group
            is_in_group = (extension.step == step) & (extension.in_complete_block == in_complete_block)
            if group not in self._totals_by_group:
                self._totals_by_group[group] = IndependentTotals(self.plan.n_agents, self.plan.n_items)
            self._totals_by_group[group].add(
                first[is_in_group],
                second[is_in_group],
                answer[is_in_group],
                item=item[is_in_group],
                other_item=other_item[is_in_group],
                is_training=is_training[is_in_group],
                counts_for=(extension.counts_for_first[is_in_group], extension.counts_for_second[is_in_group]),
            )

    def _get_extension_columns(self, columns: Mapping[str, NDArray[Any]], is_selected: Bools) -> _ExtensionColumns:
        """Return the columns by which independent trials of an extended plan are grouped.

        - `step` is 0 for the first plan, and 1, 2, … for its extensions.
        - `in_complete_block` states whether the trial is in a block that compares all agents of the first plan.
        - `counts_for_first` and `counts_for_second` state for which of its agents the trial counts.

        In a plan that was never extended, all trials have step 0, are in complete blocks, and count for both agents.

        columns : array (n_rows,) by name of the column. Only an extended plan needs "first", "second", "role", "step",
            "weight_first" and "weight_second".
        is_selected : bool array (n_rows,)
        """
        if not self._was_extended:
            n_selected = int(is_selected.sum())
            all_true = np.ones(n_selected, dtype=np.bool_)
            return _ExtensionColumns(
                step=np.zeros(n_selected, dtype=np.int32),
                in_complete_block=all_true,
                counts_for_first=all_true,
                counts_for_second=all_true,
            )

        n_anchors = get_extensions(self.plan).anchors  # anchors are the agents of the first plan
        return _ExtensionColumns(
            step=columns["step"][is_selected],
            in_complete_block=is_in_complete_block(columns, n_anchors)[is_selected],
            counts_for_first=columns["weight_first"][is_selected] > 0,
            counts_for_second=columns["weight_second"][is_selected] > 0,
        )

    def _make_record_dtype(self, trial_kind: str) -> np.dtype[Any]:
        """Return the NumPy type of the records in a partition.

        It is a structured type with one field per value of a trial.

        trial_kind : which trials the partition contains: "paired"; "follow-up" (additional paired trials that serve only to flag
            groups of agents); "independent"; or "self" (comparisons of two responses of one agent)
        """
        # the two responses of these trials can belong to different items
        if trial_kind in ("independent", "self"):
            return _INDEPENDENT_DTYPE

        # paired trials and follow-ups have the same fields
        fields: list[Any] = [*_TRIAL_FIELDS, ("block", "i4")]
        if self._was_extended:
            # the extension that added the trial, the purpose of the trial, and the agents for whose ability it counts
            fields += [("step", "i4"), ("role", "i1"), ("counts_for_first", "?"), ("counts_for_second", "?")]
        if self.n_votes:
            # one vote per judge of a jury
            fields.append(("votes", "f8", (self.n_votes,)))
        return np.dtype(fields)

    def _append_to_partitions(self, trial_kind: str, columns: Mapping[str, NDArray[Any]], mask: Bools) -> None:
        """Append selected trials to the partitions of their items.

        A partition holds the trials on n consecutive items. For example, if n = 100, partition 2 holds the trials on items 200 to
        299.

        trial_kind : "paired", "follow-up", "independent" or "self"
        columns : columns of a chunk of rows
        mask : bool array (n_rows,), rows to append
        """
        # sort the rows by partition; rows of one partition keep their order
        rows = np.flatnonzero(mask)
        partition_of_row = columns["item"][rows] // self._items_per_partition
        order = np.argsort(partition_of_row, kind="stable")
        sorted_rows = rows[order]
        sorted_partitions = partition_of_row[order]

        records = np.empty(len(sorted_rows), dtype=self._make_record_dtype(trial_kind))
        for name in records.dtype.names or ():
            records[name] = self._compute_record_field(columns, name)[sorted_rows]

        # Find the rows at which the partition number changes. The number −1 of no partition is added at both ends, so that the
        # first and the last row are bounds, too.
        bounds = np.flatnonzero(np.diff(sorted_partitions, prepend=-1, append=-1)).tolist()
        for start, stop in pairwise(bounds):
            first_item = int(sorted_partitions[start]) * self._items_per_partition
            self._append_records(f"{trial_kind}-{first_item}", records[start:stop])

    def _compute_record_field(self, columns: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
        """Compute one field of the records of trials from the columns of verdicts.parquet.

        The field "answer" is NaN for a missing answer. The fields "counts_for_first" and "counts_for_second" state whether the
        weights of the first and of the second agent of the trial are positive. "votes" has the votes of the judges. Any other
        field is a copy of the column with its name.

        columns : columns of a chunk of rows
        name : field of `_make_record_dtype`

        Returns an array (n_rows,), or (n_rows, n_votes) for the field "votes".
        """
        if name == "answer":
            return np.where(columns["missing_reason"] == 0, columns["answer"], np.nan)
        if name == "votes":
            return np.stack(get_votes_by_judge(columns), axis=1)
        if name == "counts_for_first":
            return np.asarray(columns["weight_first"] > 0)
        if name == "counts_for_second":
            return np.asarray(columns["weight_second"] > 0)
        return columns[name]

    def _move_to(self, directory: Path) -> None:
        """Move all partitions from memory to files in `directory`."""
        in_memory = self._in_memory
        self._in_memory = {}
        self._partitions = directory  # from now on, `_append_records` writes files
        for partition, chunks in in_memory.items():
            for records in chunks:
                self._append_records(partition, records)

    def _append_records(self, partition: str, records: NDArray[Any]) -> None:
        """Append records of trials to the partition of a name, in memory or in its file."""
        if self._partitions is None:
            self._in_memory.setdefault(partition, []).append(records)
            return
        with (self._partitions / partition).open("ab") as file:
            file.write(records.tobytes())

    def _count_in_partition(self, trial_kind: str, first_item: int) -> int:
        """Count the trials in one partition: the trials of one kind on some consecutive items.

        trial_kind : "paired", "independent", "follow-up" or "self"
        first_item : position of the first item of the partition in the run
        """
        name = f"{trial_kind}-{first_item}"
        if self._partitions is None:
            chunks = self._in_memory.get(name, [])
            return sum(map(len, chunks))

        file = self._partitions / name
        if not file.exists():
            return 0
        bytes_per_trial = self._make_record_dtype(trial_kind).itemsize
        return file.stat().st_size // bytes_per_trial

    def _read_trials(self, trial_kind: str, start: int, stop: int) -> Columns:
        """Read trials of one kind on the items `start` to `stop` − 1 as columns.

        The items are numbered from 0.

        trial_kind : "paired", "independent", "follow-up" or "self"
        start : position of the first item, which must be the first one of a partition
        stop : position after the last item

        Returns arrays (n_trials,) by the names of the fields in `_make_record_dtype`.
        """
        dtype = self._make_record_dtype(trial_kind)
        chunks = [np.empty(0, dtype=dtype)]
        for first_item in range(start, stop, self._items_per_partition):
            name = f"{trial_kind}-{first_item}"
            if self._partitions is None:  # the partitions are in memory, not in files
                chunks += self._in_memory.get(name, ())
            elif (self._partitions / name).exists():
                chunks.append(np.fromfile(self._partitions / name, dtype=dtype))
        records = np.concatenate(chunks)

        columns = {name: np.ascontiguousarray(records[name]) for name in dtype.names or ()}
        columns["item"] -= np.int32(start)
        return columns


def get_votes_by_judge(columns: Mapping[str, NDArray[Any]]) -> list[Floats]:
    """Return the votes of each judge of a jury, one float array (n_rows,) per judge; none if the judge is not a jury.

    columns : arrays (n_rows,) by name of the column in verdicts.parquet
    """
    names = (vote_column(number).name for number in count(1))
    return [columns[name] for name in takewhile(columns.__contains__, names)]


class RowSubset(dict[str, NDArray[Any]]):
    """Some rows of a mapping of columns; each column is selected when it is first used.

    Parameters
    ----------
    columns : mapping of str to array (n_rows,)
        Columns by name.
    rows : bool array (n_rows,) or slice
        The rows to select.
    **replacements : array
        Columns of the selected rows that replace those of `columns`.
    """

    def __init__(self, columns: Mapping[str, NDArray[Any]], rows: Bools | slice, **replacements: NDArray[Any]) -> None:
        super().__init__(replacements)
        self._columns, self._rows = columns, rows

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._columns

    def __missing__(self, name: str) -> NDArray[Any]:
        self[name] = self._columns[name][self._rows]
        return self[name]


@contextmanager
def open_trials_by_item(rows: Rows, plan: Plan, directory: Path, *, votes: bool = False) -> Iterator[TrialsByItem]:
    """Group the trials of a run by item, in a scratch directory that is deleted afterwards.

    Parameters
    ----------
    rows : callable
        Function without arguments that returns an iterable over all rows of the run, in chunks. A chunk is a mapping of column
        names to arrays (n_rows,). `TrialsByItem.select` calls the function again.
    plan : Plan
        Plan of the run; its trials are not read.
    directory : Path
        Existing directory in which the scratch directory is made. Files are written only for more than 500,000 trials.
    votes : bool, default False
        Whether to keep the votes of the judges of a jury.

    Yields
    ------
    TrialsByItem
        The trials. They can be read until the context ends.

    Raises
    ------
    RunFolderError
        [disk-full]: if the disk is full. The ranking is not changed. An OSError with another cause is raised unchanged.
    """
    try:
        with scratch_directory(directory) as scratch:
            yield TrialsByItem(rows, plan, scratch, votes=votes)
    except OSError as error:
        if error.errno not in (ENOSPC, EDQUOT):
            raise
        raise RunFolderError(
            f"The fit cannot write its temporary files in {directory}: {error}. They take 24 bytes per "
            "trial. Free space on that disk; the ranking of the run is unchanged.",
            slug="disk-full",
        ) from error


def select_paired_answers(rates: Rates) -> PairChunk:
    """Return a value for each ordered pair of agents on each item: the mean answer to the pair's paired trials.

    This mean is a true-positive rate (TPR). If each pair has its own false-positive rate (FPR), it is subtracted from the
    mean. A pair without independent trials, such as that of a follow-up, has the FPR 0. The weight of a value is its number of
    answered paired trials. Pairs with a held-out response, or whose independent trials have no answer, are left out.
    """
    is_training_cell = rates.split.train
    first_in_training = is_training_cell[rates.first, rates.item]
    second_in_training = is_training_cell[rates.second, rates.item]
    is_selected = (rates.n_paired > 0) & first_in_training & second_in_training

    # each pair has its own FPR only if the independent trials are matched
    fpr = np.zeros(len(rates.fpr))
    if rates.independent == "matched":
        fpr = np.nan_to_num(rates.fpr)
        is_selected &= ~(np.isnan(rates.fpr) & (rates.n_missing > 0))

    return PairChunk(
        rates.first[is_selected],
        rates.second[is_selected],
        rates.item[is_selected],
        value=rates.tpr[is_selected] - fpr[is_selected],
        weight=rates.n_paired[is_selected].astype(np.float64),
        rate=fpr[is_selected],
        n_items=rates.n_items,
    )
