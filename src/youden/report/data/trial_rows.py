"""Trials for readers: classify each by how surprising its answer is, filter, sort and sample them.

A trial has exactly one kind, the most surprising that applies, so that the numbers of all kinds add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from youden.data.folder.table_columns import TRIAL_TYPES
from youden.report.data.answer_blocks import compare_repeats, encode_trials
from youden.types import INDEPENDENT, MISSING_REASONS, PAIRED, Plan, Verdicts
from youden.types.pool import Bools, Codes, Floats, Ids, Positions, freeze, or_none
from youden.types.trials import FOLLOW_UP, PROBE

Kind = Literal["independent yes", "judges differ", "answers differ", "no answer", "paired no", "ordinary"]
KINDS: tuple[Kind, ...] = (
    "independent yes",
    "judges differ",
    "answers differ",
    "no answer",
    "paired no",
    "ordinary",
)
"""All kinds, most surprising first. A trial has the first kind that applies to it."""

Column = Literal["row", "item", "first", "second", "trial_type", "answer", "kind"]
"""Column by which trials are sorted."""


@dataclass(frozen=True)
class TrialLine:
    """One trial, with plain values; agents and items are positions in the ids of the plan."""

    row: int
    """Row in the run."""
    item: int
    """Item of the first text, and of both texts of a paired trial."""
    other_item: int | None
    """Item of the second text of an independent trial; None for a paired one."""
    first: int
    """Agent whose text the judge reads first."""
    second: int
    """Agent of the second text."""
    trial_type: str
    """Trial type."""
    answer: float | None
    """Answer in [0, 1]; None if missing."""
    hard_answer: bool | None
    """Answer as a decision; None if missing."""
    missing_reason: str | None
    """Reason for a missing answer; None for an answer."""
    kind: Kind
    """Kind of the trial."""
    against: float | None
    """Decision of the other judge, 0 or 1; None if it has none."""
    first_repeat: int | None = None
    """Number, from 1, of the response of the first agent; None if no agent has several."""
    second_repeat: int | None = None
    """Number, from 1, of the response of the second agent; None if no agent has several."""


@dataclass(frozen=True)
class TrialFilter:
    """Conditions that selected trials have to fulfill together; None selects all."""

    agents: frozenset[int] | None = None
    """Positions of agents; at least one agent of the trial is among them."""
    items: frozenset[int] | None = None
    """Positions of items; at least one item of the trial is among them."""
    trial_type: str | None = None
    """Trial type: "paired" or "independent"."""
    kind: str | None = None
    """Kind; an unknown kind selects no trial."""
    answer: Literal["yes", "no", "missing"] | None = None
    """Decision of the judge, or no answer."""
    words: str = ""
    """Search text from which `cells` was computed."""
    cells: Bools | None = field(default=None, compare=False)
    """bool (n_agents, n_items), cells (agent, item); at least one response of the trial belongs to a cell with True."""


class Page(NamedTuple):
    """Page of a list of trials."""

    total: int
    """Number of trials in the whole list."""
    lines: tuple[TrialLine, ...]
    """Trials of the page."""


class TrialRows:
    """Trials of some rows of a run.

    Attributes
    ----------
    kind : int8 array (n_rows,)
        Index into `KINDS`.
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
        """Wrap the columns of some rows.

        Parameters
        ----------
        columns : mapping of str to array (n_rows,)
            Columns of trials and answers, named as in verdicts.parquet, with positions instead of ids.
        plan : Plan
            Plan of the run; its trials are not read.
        start : int, default 0
            Position of the first of these rows in the run.
        against : float array (n_rows,), optional
            Decisions of another judge, 0 or 1, on the same trials; NaN if it has none.
        differ : bool array (n_rows,), optional
            Whether the two texts of a trial got the opposite answer in another trial of the run. Default: unknown.
        """
        self.columns = columns
        self.plan = plan
        self.start = start
        self._answers_of_second_judge = against
        self._differ = differ
        freeze([against])

    @property
    def differ(self) -> Bools | None:
        """Whether the same two texts also got the other answer: bool array (n_rows,); None if unknown."""
        return self._differ

    @cached_property
    def kind(self) -> Codes:
        """Index of each trial's kind in `KINDS`: int8 array (n_rows,).

        The kind states how surprising the answer is. If several kinds apply to a trial, it has the most surprising one. A kind
        is not assigned if its condition is unknown: for example, "judges differ" needs a second judge.
        """
        trial_type, missing_reason = self.columns["trial_type"], self.columns["missing_reason"]
        is_yes = self.columns["hard_answer"] == 1
        is_no = self.columns["hard_answer"] == 0
        is_answered = missing_reason == 0
        is_pending = missing_reason == MISSING_REASONS.index("pending")

        # the most surprising kind first, because the first condition that is True counts; None if a condition is unknown
        conditions: dict[Kind, Bools | None] = {
            "independent yes": (trial_type == INDEPENDENT) & is_yes,
            "judges differ": self._find_judge_differences(),
            "answers differ": self.differ,
            "no answer": ~is_answered & ~is_pending,
            "paired no": (trial_type == PAIRED) & is_no,
        }
        mask_by_kind = {KINDS.index(name): mask for name, mask in conditions.items() if mask is not None}
        kinds = np.select(list(mask_by_kind.values()), list(mask_by_kind), default=KINDS.index("ordinary"))
        return kinds.astype(np.int8)

    def _find_judge_differences(self) -> Bools | None:
        """Return whether both judges answered each trial, and differently: bool array (n_rows,); None without a second judge."""
        second_answer = self._answers_of_second_judge
        if second_answer is None:
            return None
        hard_answer = self.columns["hard_answer"]
        have_both_answered = ~np.isnan(second_answer) & ~np.isnan(hard_answer)
        return np.asarray(have_both_answered & (second_answer != hard_answer))

    @cached_property
    def is_counted(self) -> Bools:
        """Whether each trial counts in rates and means: bool array (n_rows,).

        These are the answered trials that the ranking counts. Trials that were selected because of suspicious answers or texts
        (follow-ups and probes) do not count, because their answers are not representative.
        """
        is_representative = ~np.isin(self.columns["role"], (FOLLOW_UP, PROBE))
        return np.asarray((self.columns["missing_reason"] == 0) & is_representative)

    @property
    def false_yeses(self) -> tuple[Ids, Ids, Bools]:
        """First agents and second agents of the answered independent trials, int32 each, and whether the answer is yes."""
        is_counted = (self.columns["trial_type"] == INDEPENDENT) & (self.columns["missing_reason"] == 0)
        is_yes = self.columns["hard_answer"][is_counted] >= 0.5
        return self.columns["first"][is_counted], self.columns["second"][is_counted], is_yes

    def get_line(self, row: int) -> TrialLine:
        """Return one trial with plain values, such as its agents, items and answer, but without its texts.

        The field `kind` states how surprising the answer is. The field `against` has the answer of the second judge, if the
        run is compared with another judge.

        row : row of the trial in the run
        """
        position = row - self.start

        def get(name: str) -> int:
            """Return the value of the trial in a column."""
            return int(self.columns[name][position])

        item, other_item = get("item"), get("other_item")
        has_one_item = other_item in (-1, item)  # paired trials
        answer_of_second_judge = None
        if self._answers_of_second_judge is not None:
            answer_of_second_judge = or_none(self._answers_of_second_judge[position])

        has_repeats = "first_repeat" in self.columns
        return TrialLine(
            row=row,
            item=item,
            other_item=None if has_one_item else other_item,
            first=get("first"),
            second=get("second"),
            trial_type=TRIAL_TYPES[get("trial_type")],
            kind=KINDS[self.kind[position]],
            against=answer_of_second_judge,
            first_repeat=get("first_repeat") if has_repeats else None,
            second_repeat=get("second_repeat") if has_repeats else None,
            **self._get_outcome(position),
        )

    def _get_outcome(self, position: int) -> dict[str, Any]:
        """Return the answer to the trial at a position of these rows, or the reason why the trial has none.

        The keys are three fields of `TrialLine`: answer, hard_answer and missing_reason. Fields that do not apply are None.
        """
        reason = MISSING_REASONS[self.columns["missing_reason"][position]]
        if reason != "answered":
            return {"answer": None, "hard_answer": None, "missing_reason": reason}
        answer = float(self.columns["answer"][position])
        hard_answer = bool(self.columns["hard_answer"][position] == 1)
        return {"answer": answer, "hard_answer": hard_answer, "missing_reason": None}

    def find(self, condition: TrialFilter, *, by: Column = "kind", descending: bool = False) -> Positions:
        """Find the trials that match a filter, and sort them by a column.

        Parameters
        ----------
        condition : TrialFilter
            Conditions that a trial has to meet together; `TrialFilter()` selects all trials.
        by : {"row", "item", "first", "second", "trial_type", "answer", "kind"}, default "kind"
            Column by which the trials are sorted: ids alphabetically, "kind" by the order of `KINDS`, the most surprising kind
            first. Missing values come last, and ties stay in the order of the run, in both directions.
        descending : bool, default False
            Whether to sort from the largest value to the smallest; for "kind", from the least surprising kind to the most
            surprising.

        Returns
        -------
        int64 array (n_matching,)
            Rows of the trials in the run, in sorted order.

        Raises
        ------
        KeyError
            If there is no such column.
        """
        rows = self._find_matching(condition)
        value = self._compute_sort_keys(by)[rows]
        order = np.argsort(-value if descending else value, kind="stable")
        return np.asarray(self.start + rows[order], dtype=np.int64)

    def values(self, condition: TrialFilter, *, by: Column) -> Floats:
        """Return the sort keys of the column `by` for the trials that match a filter, in the order of the rows.

        Ids of agents and items are represented by their alphabetical ranks.
        """
        return self._compute_sort_keys(by)[self._find_matching(condition)]

    def _find_matching(self, condition: TrialFilter) -> Positions:
        """Find the positions, among these rows, of the trials that match all conditions of a filter that are not None."""
        is_selected = np.ones(len(self.columns["trial_type"]), dtype=np.bool_)
        for mask in self._iter_masks(condition):
            is_selected &= mask
        return np.flatnonzero(is_selected)

    def _iter_masks(self, condition: TrialFilter) -> Iterator[Bools]:
        """Yield, for each condition of a filter that is not None, whether each trial meets it: bool array (n_rows,)."""
        yield from self._iter_masks_by_texts(condition)
        yield from self._iter_masks_by_answers(condition)

    def _iter_masks_by_texts(self, condition: TrialFilter) -> Iterator[Bools]:
        """Evaluate the conditions of a filter on agents, items and cells: whether a text of each trial meets them.

        A cell is a combination of an agent and an item. Yields one bool array (n_rows,) per condition that is not None.
        """
        columns = self.columns
        if condition.agents is not None:
            agents = list(condition.agents)
            yield np.isin(columns["first"], agents) | np.isin(columns["second"], agents)

        if condition.items is not None:
            items = list(condition.items)
            yield np.isin(columns["item"], items) | np.isin(columns["other_item"], items)

        if condition.cells is not None:
            # both responses of a paired trial are to the same item, and the column `other_item` has −1
            has_other_item = columns["other_item"] >= 0
            second_item = np.where(has_other_item, columns["other_item"], columns["item"])
            is_first_selected = condition.cells[columns["first"], columns["item"]]
            is_second_selected = condition.cells[columns["second"], second_item]
            yield is_first_selected | is_second_selected

    def _iter_masks_by_answers(self, condition: TrialFilter) -> Iterator[Bools]:
        """Evaluate the conditions of a filter on the type, the kind and the answer of each trial.

        Yields one bool array (n_rows,) per condition that is not None.
        """
        if condition.trial_type is not None:
            yield self.columns["trial_type"] == TRIAL_TYPES.index(condition.trial_type)
        if condition.kind is not None:
            kind = KINDS.index(condition.kind) if condition.kind in KINDS else -1  # −1 matches no trial
            yield self.kind == kind
        if condition.answer == "missing":
            yield self.columns["missing_reason"] != 0
        elif condition.answer is not None:
            yield self.columns["hard_answer"] == (condition.answer == "yes")

    def _compute_sort_keys(self, by: Column) -> Floats:
        """Return a number for each row by which the rows are sorted: float array (n_rows,).

        Agents and items are sorted by the alphabetical order of their ids.

        by : name of the sort column
        """
        if by == "row":
            return np.arange(len(self.columns["trial_type"]), dtype=np.float64)
        if by == "item":
            return np.asarray(_rank_alphabetically(self.plan.item_ids)[self.columns[by]])
        if by in ("first", "second"):
            return np.asarray(_rank_alphabetically(self.plan.agent_ids)[self.columns[by]])
        if by == "kind":
            return np.asarray(self.kind, dtype=np.float64)
        return np.asarray(self.columns[by], dtype=np.float64)


class TrialBook(TrialRows):
    """All trials of a run, in memory."""

    def __init__(self, result: Verdicts, against: Floats | None = None) -> None:
        """Collect the trials of a run.

        `against` has the decision of another judge on each trial, 0 or 1, float array (n_trials,), NaN if it has none.
        """
        columns: dict[str, NDArray[Any]] = dict(result.plan.trials.columns())
        columns |= {"answer": result.answer, "hard_answer": result.hard_answer, "missing_reason": result.missing_reason}
        super().__init__(columns, result.plan, against=against)
        self.result = result

    def __len__(self) -> int:
        return len(self.result)

    @cached_property
    def differ(self) -> Bools:
        """Whether the same two texts also got the other answer: bool array (n_trials,)."""
        return compare_repeats(encode_trials(self.columns, self.plan)).differ

    @property
    def n_of_kind(self) -> dict[Kind, int]:
        """Number of trials of each kind."""
        return count_kinds(self.kind)

    def sample_surprising(self, rng: np.random.Generator, max_trials: int) -> Positions:
        """Sample at most `max_trials` rows, int64 array (n_rows,): the first kinds of `KINDS` first, at random within a kind."""
        return sample_surprising(self.kind, rng, max_trials)

    def lines(self, rows: Sequence[int] | Positions) -> list[TrialLine]:
        """Return trials by row, in the given order."""
        return [self.get_line(int(row)) for row in rows]

    def page(self, condition: TrialFilter, *, by: Column, descending: bool, start: int, stop: int) -> Page:
        """Return one page of the trials that match a filter.

        Parameters
        ----------
        condition : TrialFilter
            Conditions that a trial has to meet together; `TrialFilter()` selects all trials.
        by : {"row", "item", "first", "second", "trial_type", "answer", "kind"}
            Column by which the trials are sorted; missing values come last, and ties stay in the order of the run, in both
            directions.
        descending : bool
            Whether to sort from the largest value to the smallest.
        start, stop : int
            Limits of the page in the sorted list, at least 0: it contains the trials at the positions `start` to `stop` − 1.

        Returns
        -------
        Page
            `total`, the number of all matching trials, and `lines`, the trials of the page without their texts; none if `start`
            is beyond the last one.

        Raises
        ------
        KeyError
            If there is no column `by`.
        """
        rows = self.find(condition, by=by, descending=descending)
        return Page(len(rows), tuple(self.lines(rows[start:stop])))

    def read_request_hashes(self, rows: Sequence[int]) -> list[bytes]:
        """Return the request hashes of trials by row; empty bytes if the judge makes no calls."""
        if self.result.request_hash is None:
            return [b""] * len(rows)
        return [bytes(self.result.request_hash[row]) for row in rows]


@lru_cache(maxsize=4)
def _rank_alphabetically(names: tuple[str, ...]) -> Floats:
    """Compute the position of each name in alphabetical order, float array (n_names,)."""
    order = np.argsort(np.array(names, dtype=object), kind="stable")
    return np.argsort(order).astype(np.float64)


def count_kinds(kind: Codes) -> dict[Kind, int]:
    """Count the trials of each kind. `kind` is an int8 array (n_trials,) of indices into `KINDS`."""
    counts = np.bincount(kind, minlength=len(KINDS))
    return {name: int(n) for name, n in zip(KINDS, counts, strict=True)}


def sample_surprising(kinds: Codes, rng: np.random.Generator, max_trials: int) -> Positions:
    """Sample at most `max_trials` trials, the most surprising kinds first.

    All trials of a kind are selected before the trials of the next kind. If a kind has more trials than are still allowed, a
    random sample of its trials is selected.

    Parameters
    ----------
    kinds : int8 array (n_trials,)
        Index of the kind of each trial in `KINDS`, 0 for the most surprising kind.
    rng : numpy.random.Generator
        Source of the random samples.
    max_trials : int
        Maximum number of trials, 0 or more.

    Returns
    -------
    int64 array (n_sampled,)
        Positions of the trials, the most surprising kinds first and in random order within a kind.
    """
    samples = [np.empty(0, dtype=np.int64)]
    n_remaining = max_trials
    for kind in range(len(KINDS)):
        trials_of_kind = np.flatnonzero(kinds == kind)
        n_sampled = min(n_remaining, len(trials_of_kind))
        sampled = rng.choice(len(trials_of_kind), n_sampled, replace=False)
        samples.append(trials_of_kind[sampled])
        n_remaining -= n_sampled
    return np.concatenate(samples)
