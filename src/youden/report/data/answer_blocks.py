"""Read the answers of a run from its files in chunks of rows, and compare repeated answers.

Every function takes columns of rows, so that a run of any size needs the memory of one chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from youden.data.folder.run_folder import RunFolder
from youden.data.folder.trial_tables import VerdictChunk, open_verdict_chunks
from youden.types import Plan
from youden.types.pool import Bools, Floats, Ids, Json, Positions


class TrialSource(NamedTuple):
    """Trials of a judged run with their answers."""

    plan: Plan
    """Plan of the run; its trials are not read."""
    blocks: Sequence[VerdictChunk]
    """Chunks of rows, in the order of the run."""
    judge: Mapping[str, Json]
    """Settings of the judge."""
    measured: frozenset[str]
    """Optional columns that the judge filled, such as `request_hash` and `seconds`."""

    @property
    def n_trials(self) -> int:
        """Number of trials."""
        return sum(block.n_rows for block in self.blocks)

    @property
    def calling_judge(self) -> Mapping[str, Json] | None:
        """Settings of the judge if it makes calls; None if it makes none, because then no store has its answers."""
        return self.judge if "request_hash" in self.measured else None


def open_trials(folder: RunFolder) -> TrialSource:
    """Open the trials of a judged run without reading them.

    Raises: RunFolderError if a file is missing or damaged.
    """
    plan, table = folder.open_judged_files()
    metadata = table.metadata
    return TrialSource(plan, open_verdict_chunks(table, plan), metadata.judge, frozenset(metadata.measured))


@dataclass(frozen=True, eq=False)
class Predictions:
    """Scores of cells as predicted by the fit."""

    ability: Floats
    """float (n_agents,), NaN for an agent without a score."""
    difficulty: Floats
    """float (n_items,), NaN for an item without a score."""

    def predict(self, agent: Ids | Positions | int, item: Ids | Positions | int | slice) -> Floats:
        """Predict the scores of cells, clip(ability − difficulty, −1, 1); NaN for agents and items without a score.

        Two arrays of the same shape give one score per element. In general, the shape of the result is the broadcast shape.

        agent : int or int array, positions of agents
        item : int, int array or slice, positions of items; a slice requires that `agent` is an int or has the shape (n_agents, 1)
        """
        return np.clip(self.ability[agent] - self.difficulty[item], -1, 1)


TrialCodes = NDArray[np.int64]
"""One number per trial, which encodes its two texts, their order, and the answer; see `encode_trials`."""

MAX_TEXTS = 1_500_000_000
"""Upper limit of the number of texts of a pool; 4 times its square fits in 64 bits."""
TRIALS_PER_SORT = 8_000_000
"""Approximate number of trials that are sorted at a time, which takes 200 bytes each."""


@dataclass(frozen=True)
class AnswerAgreement:
    """Agreement of repeated answers about the same two texts."""

    n: int
    """Number of pairs of answers."""
    n_same: int
    """Number of pairs of equal answers."""

    @property
    def share(self) -> float:
        """Fraction of pairs of equal answers."""
        return self.n_same / self.n


class Repeats(NamedTuple):
    """Comparison of all answers about the same two texts."""

    retest: AnswerAgreement | None
    """Agreement of answers with the texts in the same order; None if no trial was repeated."""
    swapped: AnswerAgreement | None
    """Agreement of answers with the texts in opposite orders; None if no trial was repeated in the other order."""
    differ: Bools
    """bool (n_trials,), whether the same two texts got both a yes and a no, in any order."""


def encode_trials(columns: Mapping[str, NDArray[Any]], plan: Plan) -> TrialCodes:
    """Encode the two texts, their order and the answer of each trial as one number, so that repeated trials can be found.

    Parameters
    ----------
    columns : mapping of str to array (n_trials,)
        Columns `item`, `other_item`, `first`, `second`, `hard_answer` and `missing_reason` of verdicts.parquet, and
        `first_repeat` and `second_repeat` if agents have several responses to an item.
    plan : Plan
        Plan of the run; only its numbers of agents and items are used.

    Returns
    -------
    int64 array (n_trials,)
        Code of each trial; −1 for a trial without an answer.

    Notes
    -----
    The code is 4·p + 2·s + y, where p is the number of the pair of texts, s is 1 if the text with the larger number is read
    first, and y is 1 for a yes. Therefore, `code >> 2` is equal for trials of the same two texts, and `code >> 1` if the texts
    also have the same order.
    """
    first, second = number_texts(columns, plan)
    lower_text, higher_text = np.minimum(first, second), np.maximum(first, second)

    # any bound above all numbers of texts makes the numbers of pairs unique
    n_texts = plan.n_agents * plan.n_items
    if "first_repeat" in columns:
        n_texts = MAX_TEXTS  # the number of repeated responses of an agent is unknown here
    pair = lower_text * n_texts + higher_text

    is_swapped = first > second
    is_yes = columns["hard_answer"] == 1
    code = 4 * pair + 2 * is_swapped + is_yes
    is_answered = columns["missing_reason"] == 0
    return np.where(is_answered, code, -1)


def number_texts(columns: Mapping[str, NDArray[Any]], plan: Plan) -> tuple[Positions, Positions]:
    """Assign a number to each of the two texts of each trial; equal numbers mean the same response to the same item.

    The number of a text is row × n_items + item. As in `Pool.all_texts`, the first rows are the first responses of all
    agents, the next rows are their second responses, and so on.

    columns : arrays (n_trials,) by name of the column in verdicts.parquet
    plan : plan of the run; only its numbers of agents and items are used

    Returns two int64 arrays (n_trials,): the numbers of the texts that are read first, and of those that are read second.
    """
    item = columns["item"]
    other_item = np.where(columns["other_item"] >= 0, columns["other_item"], item)
    first_row, second_row = columns["first"], columns["second"]
    if "first_repeat" in columns:
        first_row = first_row + (columns["first_repeat"] - 1) * plan.n_agents
        second_row = second_row + (columns["second_repeat"] - 1) * plan.n_agents
    n_items = np.int64(plan.n_items)
    return first_row * n_items + item, second_row * n_items + other_item


def compare_repeats(code: TrialCodes) -> Repeats:
    """Compare all answers of a judge about the same two texts, in the same and in opposite orders.

    Parameters
    ----------
    code : int64 array (n_trials,)
        Codes of `encode_trials`, in the order of the run. They contain the two texts, their order and the answer.

    Returns
    -------
    Repeats
        Agreement of answers with the texts in the same order (retest) and in opposite orders. Also a mask of the trials whose
        two texts got both a yes and a no, in any order.

    Notes
    -----
    Pairs of texts are divided into chunks, and only the trials of one chunk are sorted at a time, to save memory.
    """
    n_chunks = 1  # a power of 2, so that the last bits of the number of a pair are the number of its chunk
    while n_chunks * TRIALS_PER_SORT <= len(code):
        n_chunks *= 2
    differ = np.zeros(len(code), dtype=np.bool_)
    retest_counts = np.zeros(2, dtype=np.int64)  # numbers of compared and of equal answers
    swapped_counts = np.zeros(2, dtype=np.int64)
    for chunk in range(n_chunks):
        unsorted_rows = _list_rows_of_chunk(code, chunk, n_chunks)
        question = code[unsorted_rows] >> 1  # two texts in one order: the code without its last bit, the answer
        sorted_rows = unsorted_rows[np.argsort(question, kind="stable")]

        answers = _SortedAnswers.from_codes(code[sorted_rows])
        retest_counts += answers.count_retests()
        swapped_counts += answers.count_pairs_in_both_orders()
        rows_with_both_answers = sorted_rows[answers.have_yes_and_no()]
        differ[rows_with_both_answers] = True
    return Repeats(_make_agreement(retest_counts), _make_agreement(swapped_counts), differ)


class _SortedAnswers(NamedTuple):
    """Answers of a judge, sorted by question: int64 arrays (n_answers,).

    A question consists of two texts in one order. The questions about the two texts of pair p have the numbers 2·p and 2·p + 1.
    Therefore, `question >> 1` is p, and sorting puts both questions about a pair next to each other.
    """

    question: Positions
    is_yes: Positions
    """1 for yes, 0 for no."""

    @classmethod
    def from_codes(cls, codes: TrialCodes) -> _SortedAnswers:
        """Decode answers from codes of `encode_trials`, which are sorted by question."""
        return cls(codes >> 1, codes & 1)

    def count_retests(self) -> tuple[int, int]:
        """Count the pairs of adjacent answers to the same question, and how many of these pairs are equal."""
        is_repeated = self.question[1:] == self.question[:-1]
        is_same_answer = self.is_yes[1:] == self.is_yes[:-1]
        return _count_pairs_and_equal_answers(is_repeated, is_same_answer)

    def count_pairs_in_both_orders(self) -> tuple[int, int]:
        """Count the pairs of texts that were judged in both orders, and how many of these pairs got the same answer twice.

        If a judge answered the same question several times, its first answer counts.
        """
        starts = np.flatnonzero(np.diff(self.question, prepend=-1))  # positions of the first answers to each question
        question = self.question[starts]
        is_yes = self.is_yes[starts]

        # two adjacent questions are about the same pair of texts if they differ only in the last bit, the order of the texts
        pair = question >> 1
        is_same_pair = pair[1:] == pair[:-1]
        is_same_answer = is_yes[1:] == is_yes[:-1]
        return _count_pairs_and_equal_answers(is_same_pair, is_same_answer)

    def have_yes_and_no(self) -> Bools:
        """Return for each answer whether its two texts, in any order, got a yes and a no: bool array (n_answers,)."""
        pair = self.question >> 1
        is_first_of_pair = np.diff(pair, prepend=-1) != 0
        group = np.cumsum(is_first_of_pair) - 1  # number of the pair, from 0
        n_answers = np.bincount(group)
        n_yes = np.bincount(group, weights=self.is_yes)
        has_both: Bools = (n_yes > 0) & (n_yes < n_answers)
        return np.asarray(has_both[group])


def _list_rows_of_chunk(code: TrialCodes, chunk: int, n_chunks: int) -> Positions:
    """List the rows of the answered trials whose pair of texts belongs to a chunk.

    The pair of texts with the number p belongs to the chunk p modulo `n_chunks`. Trials are processed in slices to save memory.

    code : int64 array (n_trials,), 4·p plus two bits for the order of the texts and the answer; −1 for an unanswered trial
    chunk : number of the chunk, from 0
    n_chunks : number of chunks, a power of 2
    """
    rows = [np.empty(0, dtype=np.int64)]
    for start in range(0, len(code), TRIALS_PER_SORT):
        codes_of_slice = code[start : start + TRIALS_PER_SORT]
        is_answered = codes_of_slice >= 0
        pair = codes_of_slice >> 2
        chunk_of_pair = pair & (n_chunks - 1)  # pair modulo a power of 2
        positions_in_slice = np.flatnonzero(is_answered & (chunk_of_pair == chunk))
        rows.append(start + positions_in_slice)
    return np.concatenate(rows)


def _make_agreement(counts: Positions) -> AnswerAgreement | None:
    """Make the agreement from the number of pairs of answers and of equal ones, int array (2,); None without a pair."""
    n, n_same = counts.tolist()
    return AnswerAgreement(n, n_same) if n else None


def _count_pairs_and_equal_answers(is_pair: Bools, is_same_answer: Bools) -> tuple[int, int]:
    """Count the pairs of answers, and the pairs of equal answers; both arguments are bool arrays (n_adjacent,)."""
    return int(is_pair.sum()), int((is_pair & is_same_answer).sum())
