"""Compute rates of ordered pairs on items from verdicts, and scores of agents on items from rates.

This module alone decides which trials a training score may use. Scores are either for training or for the holdout,
never both in one call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, get_args

import numpy as np

from youden.errors import StatisticsError
from youden.types import INDEPENDENT, PAIRED, Plan, Scores, Trials, Verdicts
from youden.types.cells import CELLS_IN_CACHE, CellIndex, ScoredCells
from youden.types.pool import Bools, Floats, Ids, Positions
from youden.types.results import IndependentRates, Rates, ScoreKind, ScoreRole
from youden.types.trials import FOLLOW_UP, PROBE


def compute_rates(verdicts: Verdicts) -> Rates:
    """Compute the true- and false-positive rates of ordered pairs of agents on items.

    Parameters
    ----------
    verdicts : Verdicts
        Answers to a plan.

    Returns
    -------
    Rates
        One row per ordered pair and item with a paired trial, sorted by item, first agent and second agent. `tpr` is the mean
        answer to its paired trials, and `fpr` the mean answer to its matched independent trials; NaN without an answer. If the
        plan pools independent trials, `fpr` is NaN in all rows, and `detail` has the sums of their answers. Follow-ups,
        additional paired trials that serve only to flag groups of agents, are left out.
    """
    plan = verdicts.plan
    # rows are the pairs of paired trials; matched independent trials have no other pairs
    is_used = (plan.trial_type == PAIRED) & (plan.role != FOLLOW_UP)
    if plan.independent == "matched":
        is_used |= plan.trial_type == INDEPENDENT

    # one number per item and ordered pair, and the row of the result that each trial belongs to
    shape = (plan.n_items, plan.n_agents, plan.n_agents)
    pair_codes = np.ravel_multi_index((plan.item[is_used], plan.first[is_used], plan.second[is_used]), shape)
    distinct_codes, row = np.unique(pair_codes, return_inverse=True)
    item, first, second = np.unravel_index(distinct_codes, shape)
    n_rows = len(distinct_codes)

    answer = verdicts.answer[is_used]
    answered = verdicts.answered[is_used]
    is_paired = plan.trial_type[is_used] == PAIRED
    paired = _sum_answers(row, answer, is_paired & answered, n_rows)
    independent = _sum_answers(row, answer, ~is_paired & answered, n_rows)
    n_missing = np.bincount(row[~answered], minlength=n_rows)
    return Rates(
        item=item.astype(np.int32),
        first=first.astype(np.int32),
        second=second.astype(np.int32),
        tpr=paired.mean,
        fpr=independent.mean,
        n_paired=paired.n,
        n_independent=independent.n,
        n_missing=n_missing.astype(np.int32),
        independent=plan.independent,
        agent_ids=plan.agent_ids,
        item_ids=plan.item_ids,
        split=plan.split,
        detail=_sum_independent_answers(verdicts),
    )


@dataclass(frozen=True, eq=False)
class _AnswerSums:
    """Sums and numbers of answers, arrays (n_rows,)."""

    total: Floats
    n: Ids

    @property
    def mean(self) -> Floats:
        """Mean answers, NaN for rows without an answer."""
        mean = np.full(len(self.n), np.nan)
        np.divide(self.total, self.n, out=mean, where=self.n > 0)
        return mean


def _sum_answers(row: Positions, answer: Floats, mask: Bools, n_rows: int) -> _AnswerSums:
    """Sum and count the answers that belong to each row of a result.

    row, answer, mask : arrays (n_trials,): row of each trial, from 0 to `n_rows` − 1; its answer; whether it counts
    """
    return _AnswerSums(
        total=np.bincount(row[mask], weights=answer[mask], minlength=n_rows).astype(np.float64),
        n=np.bincount(row[mask], minlength=n_rows).astype(np.int32),
    )


def _sum_independent_answers(verdicts: Verdicts) -> IndependentRates:
    """Sum the answers to independent trials by comparison: the same two cells (agent, item) in the same order.

    Independent trials compare responses to different items. Trials without an answer, and probes, which compare unusually
    similar texts, are left out.

    Returns one row per distinct comparison, with the sum and the number of its answers.
    """
    plan = verdicts.plan
    is_used = (plan.trial_type == INDEPENDENT) & verdicts.answered & (plan.role != PROBE)
    trials = plan.trials.take(is_used)

    codes = _number_comparisons(trials, plan)
    _, first_trials, row = np.unique(codes, return_index=True, return_inverse=True)
    total = np.bincount(row, weights=verdicts.answer[is_used], minlength=len(first_trials))
    n_answers = np.bincount(row, minlength=len(first_trials))
    comparisons = trials.take(first_trials)  # one trial of each comparison
    return IndependentRates(
        item=comparisons.item,
        first=comparisons.first,
        second=comparisons.second,
        other_item=comparisons.other_item,
        total=total.astype(np.float64),
        n=n_answers.astype(np.int32),
    )


def _number_comparisons(trials: Trials, plan: Plan) -> Positions:
    """Assign a number to each independent trial, the same for the same two cells (agent, item) in the same order.

    For example, two trials have the same number if both compare agent A on item 1 with agent B on item 2, in this order, even
    if they show different responses of these agents. The numbers are ordered by the item and agent of the first text, then by the
    agent and item of the second text.

    trials : independent trials
    plan : plan of the trials

    Returns an int64 array (n_trials,).
    """
    # number only the cells (agent, item) that occur as first texts, because larger numbers could exceed 64 bits
    first_cell_codes = trials.item.astype(np.int64) * plan.n_agents + trials.first
    _, first_cell = np.unique(first_cell_codes, return_inverse=True)

    # number all possible cells of second texts, ordered by agent
    second_cell = trials.second.astype(np.int64) * plan.n_items + trials.other_item
    n_cells = plan.n_agents * plan.n_items
    return np.asarray(first_cell * n_cells + second_cell)


def training_scores(rates: Rates, *, kind: ScoreKind) -> Scores:
    """Compute training scores, without held-out cells.

    Parameters
    ----------
    rates : Rates
        Rates of pairs of agents on items.
    kind : {"symmetric", "row"}
        "symmetric": average all comparisons of the agent on the item. "row": only those in which the agent's text comes first.

    Returns
    -------
    Scores
        One score in [−1, 1], the mean TPR − FPR, per observed training cell (agent, item), with the number of its answered paired
        trials as weight.

    Raises
    ------
    StatisticsError
        [score-kind]: if `kind` is unknown.
    """
    return _compute_scores(rates, compute_training_differences(rates), kind=kind, role="train")


def compute_training_differences(rates: Rates) -> Floats:
    """Compute true-positive rate (TPR) minus false-positive rate (FPR) for each row that may be used for training.

    Parameters
    ----------
    rates : Rates
        Rates of ordered pairs of agents on items, with the split into training and held-out cells.

    Returns
    -------
    float array (n_rows,)
        Differences in [−1, 1]; NaN for a row without an answer to a paired trial, or with a first text in a held-out cell (agent,
        item). If the rule of the split is "strict", also NaN for a held-out second text. If independent trials are matched to
        paired ones, also NaN without an answer to a matched trial that training may use.
    """
    difference = rates.tpr - _compute_training_fpr(rates)
    is_training_row = rates.split.allows_training(rates.first, rates.item, rates.second, rates.item)
    difference[~is_training_row] = np.nan
    return difference


def holdout_scores(rates: Rates, *, kind: ScoreKind) -> Scores:
    """Compute scores of the held-out cells from all their trials.

    Parameters
    ----------
    rates : Rates
        Rates of pairs of agents on items.
    kind : {"symmetric", "row"}
        "symmetric": average all comparisons of the agent on the item. "row": only those in which the agent's text comes first.

    Returns
    -------
    Scores
        One score in [−1, 1], the mean TPR − FPR, per observed held-out cell (agent, item), with the number of its answered paired
        trials as weight.

    Raises
    ------
    StatisticsError
        [score-kind]: if `kind` is unknown.
    """
    difference = rates.tpr - _get_fpr(rates)
    return _compute_scores(rates, difference, kind=kind, role="holdout")


def pooled_fpr(rates: Rates) -> float | None:
    """Compute the mean answer of all independent trials, which is a false-positive rate.

    The two texts of an independent trial respond to different items, so each yes answer is false. Probes, which compare unusually
    similar texts, do not count.

    Parameters
    ----------
    rates : Rates
        Rates of pairs of agents on items.

    Returns
    -------
    float or None
        The mean; None if no independent trial was answered.
    """
    answer_sums = rates.detail
    if answer_sums is not None:
        return _compute_mean_answer(answer_sums.total, answer_sums.n)

    # imported data have only the mean and the number of the answers of each row
    n_answers = rates.n_independent
    has_answers = n_answers > 0
    total = np.zeros(len(n_answers))
    total[has_answers] = rates.fpr[has_answers] * n_answers[has_answers]
    return _compute_mean_answer(total, n_answers)


def _compute_mean_answer(total: Floats, n_answers: Ids) -> float | None:
    """Return the mean answer, from sums and numbers of answers per row, arrays (n_rows,); None without answers."""
    if not n_answers.sum():
        return None
    return float(total.sum() / n_answers.sum())


def _get_fpr(rates: Rates) -> Floats | float:
    """Return the false-positive rate (FPR), from all independent trials except probes.

    By the rule "matched", each row of rates has its own FPR: float array (n_rows,), NaN for rows without an answer. By the rule
    "pooled", all rows have the same FPR, which is 0 if no independent trial was answered.
    """
    if rates.independent == "matched":
        return rates.fpr
    return pooled_fpr(rates) or 0.0


def _compute_training_fpr(rates: Rates) -> Floats | float:
    """Compute the false-positive rate (FPR) from the independent trials that training may use.

    Independent trials compare responses to different items. The split into training and held-out data decides which of them are
    used. Each row of rates has its own FPR if independent trials are matched to paired ones: float array (n_rows,). Otherwise,
    all rows have the same FPR.
    """
    answer_sums = rates.detail  # None for imported data and for chunks of a run, which have only one rate per row
    if answer_sums is None:
        return _get_fpr(rates)

    is_training = rates.split.allows_training(
        answer_sums.first, answer_sums.item, answer_sums.second, answer_sums.other_item
    )
    if is_training.all():
        return _get_fpr(rates)
    if rates.independent == "matched":
        return _compute_matched_fpr(rates, answer_sums, is_training)
    mean_answer = _compute_mean_answer(answer_sums.total[is_training], answer_sums.n[is_training])
    return 0.0 if mean_answer is None else mean_answer


def _compute_matched_fpr(rates: Rates, answer_sums: IndependentRates, is_included: Bools) -> Floats:
    """Compute the false-positive rate (FPR) of each row of rates: the mean answer to its matched independent trials.

    A row is an ordered pair of agents on an item. Its matched trials compare the first agent's text on this item with a text of
    the second agent on a different item.

    answer_sums : sums of the answers to the independent trials, `rates.detail`
    is_included : bool array, whether each row of `answer_sums` is included

    Returns a float array (n_rows,), NaN for rows of `rates` without an included answer.
    """
    # number the combinations of item, first and second agent; the rows of `rates` are sorted by this number
    shape = (rates.n_items, rates.n_agents, rates.n_agents)
    codes_of_rates = np.ravel_multi_index((rates.item, rates.first, rates.second), shape)
    codes_of_sums = np.ravel_multi_index((answer_sums.item, answer_sums.first, answer_sums.second), shape)
    row = np.searchsorted(codes_of_rates, codes_of_sums[is_included])

    n_rows = len(codes_of_rates)
    n_answers = np.bincount(row, weights=answer_sums.n[is_included], minlength=n_rows)
    total = np.bincount(row, weights=answer_sums.total[is_included], minlength=n_rows)
    fpr = np.full(n_rows, np.nan)
    np.divide(total, n_answers, out=fpr, where=n_answers > 0)
    return fpr


def _compute_scores(rates: Rates, difference: Floats, *, kind: ScoreKind, role: ScoreRole) -> Scores:
    """Compute the score of each cell, an agent on an item: the mean of TPR − FPR over its comparisons.

    difference : float array (n_rows,), TPR − FPR of each row of `rates`; NaN for rows that are left out
    kind : "symmetric" to average the comparisons in which the agent's text comes first or second, "row" to average
        only those in which it comes first
    role : "train" for the cells for training, "holdout" for the held-out ones

    Raises: StatisticsError [score-kind] if `kind` is unknown.
    """
    _check_score_kind(kind)
    scored = _average_by_cell(rates, difference, kind)
    cells = scored.cell_index
    is_held_out = rates.split.holdout[cells.agent, cells.item]
    has_role = is_held_out if role == "holdout" else ~is_held_out
    return Scores(scored.where(has_role), role, kind, rates.agent_ids, rates.item_ids)


def _average_by_cell(rates: Rates, difference: Floats, kind: ScoreKind) -> ScoredCells:
    """Average TPR − FPR over the comparisons of each cell, an agent on an item. Held-out cells are included.

    difference : float array (n_rows,), TPR − FPR of each row of `rates`; NaN for rows that are left out
    kind : "symmetric" if a row counts for the cells of both texts, "row" if it counts for the cell of the first text

    Returns the mean of each cell that has a comparison, and the number of its answered paired trials.
    """
    is_known = ~np.isnan(difference)
    rows = slice(None) if is_known.all() else np.flatnonzero(is_known)  # a slice copies nothing

    # a row counts for the cell of its first text, and of its second text if scores are symmetric
    agents = [rates.first[rows]]
    if kind == "symmetric":
        agents.append(rates.second[rows])
    indexed = index_cells(rates.item[rows], *agents, n_agents=rates.n_agents, n_items=rates.n_items)

    n_cells = len(indexed.cells)
    n_differences = _sum_by_cell(indexed.positions, n_cells)
    difference_sum = _sum_by_cell(indexed.positions, n_cells, weights=difference[rows])
    n_trials = _sum_by_cell(indexed.positions, n_cells, weights=rates.n_paired[rows])
    return ScoredCells(indexed.cells, difference_sum / n_differences, n_trials)


def _check_score_kind(kind: str) -> None:
    """Raise StatisticsError [score-kind] if a kind of scores is unknown."""
    kinds = get_args(ScoreKind)
    if kind not in kinds:
        raise StatisticsError(
            f"The kind of scores is unknown: got '{kind}'. Pass one of: {', '.join(kinds)}.", slug="score-kind"
        )


def _sum_by_cell(cell_columns: Sequence[Positions], n_cells: int, *, weights: Floats | Ids | None = None) -> Floats:
    """Count the rows of a table that belong to each cell (agent, item), or sum their weights: float array (n_cells,).

    cell_columns : one or two int64 arrays (n_rows,), the cell of each row; with two arrays, each row counts for two cells
    n_cells : number of cells
    weights : array (n_rows,), weight of each row; None to count the rows, as in `numpy.bincount`
    """
    total: Floats = np.zeros(n_cells)
    for cell in cell_columns:
        total += np.bincount(cell, weights, n_cells)
    return total


class IndexedCells(NamedTuple):
    """Distinct cells (agent, item) of trials, and the cells of each trial.

    Attributes
    ----------
    cells : CellIndex
        The cells, each once, ordered by item, then by agent.
    positions : tuple of int64 array (n_trials,)
        For each column of agents, the position in `cells` of each trial's agent on its item.
    """

    cells: CellIndex
    positions: tuple[Positions, ...]


def index_cells(item: Ids, *agents: Ids, n_agents: int, n_items: int) -> IndexedCells:
    """Find the distinct cells (agent, item) of trials, and the position of each trial's cells among them.

    The distinct cells are sorted by item, then by agent. The positions can be passed to `numpy.bincount` to sum values by cell.

    item : int32 array (n_trials,), item of each trial, in any order
    agents : int32 arrays (n_trials,), one or several columns of agents: for example, the first and the second agents
    n_agents, n_items : numbers of agents and of items of the plan

    Returns `cells`, with the `agent` and `item` of each distinct cell, int32 arrays (n_cells,), and `positions`, one int64 array
    (n_trials,) per column of agents: the position in `cells` of each trial's agent on its item.

    Examples
    --------
    >>> index = index_cells(np.array([1, 0, 1]), np.array([2, 0, 2]), n_agents=3, n_items=2)
    >>> index.cells.agent.tolist(), index.cells.item.tolist(), index.positions[0].tolist()
    ([0, 2], [0, 1], [1, 0, 1])
    """
    # Trials are processed in chunks of consecutive items, with lookup tables that fit into the cache of the processor. The code
    # of a cell in its chunk is (item − first item of the chunk) · n_agents + agent.
    items_per_chunk = min(n_items, max(1, CELLS_IN_CACHE // n_agents))
    n_codes = items_per_chunk * n_agents
    is_present = np.zeros(n_codes, dtype=np.bool_)
    position_by_code = np.empty(n_codes, dtype=np.int64)

    n_cells = 0  # distinct cells of all chunks so far
    distinct_cells = [np.empty(0, dtype=np.int64)]  # item · n_agents + agent of the distinct cells; one array per chunk
    position_columns = tuple(np.empty(len(item), dtype=np.int64) for _ in agents)
    for first_item, trials in _iter_chunk_rows(item, items_per_chunk, n_items):
        item_in_chunk = item[trials].astype(np.int64) - first_item
        codes_by_column = [item_in_chunk * n_agents + agent[trials] for agent in agents]

        # a chunk has all trials of its items, so its cells are not in earlier chunks
        distinct_codes = _find_distinct_codes(codes_by_column, is_present)
        n_earlier_cells = n_cells
        n_cells += len(distinct_codes)
        position_by_code[distinct_codes] = np.arange(n_earlier_cells, n_cells)
        for positions, codes in zip(position_columns, codes_by_column, strict=True):
            positions[trials] = position_by_code[codes]
        distinct_cells.append(distinct_codes + first_item * n_agents)

    cell_item, cell_agent = np.divmod(np.concatenate(distinct_cells), n_agents)
    cells = CellIndex(cell_agent.astype(np.int32), cell_item.astype(np.int32), n_agents, n_items)
    return IndexedCells(cells, position_columns)


def _find_distinct_codes(codes_by_column: Sequence[Positions], is_present: Bools) -> Positions:
    """Return the distinct values of columns of codes, ascending, int64 array, by a fast lookup table instead of sorting.

    codes_by_column : int64 arrays (n_trials,), codes from 0 to n_codes − 1
    is_present : bool array (n_codes,), a lookup table; all values must be False, and are False again at the end
    """
    for codes in codes_by_column:
        is_present[codes] = True
    distinct_codes = np.flatnonzero(is_present)
    is_present[distinct_codes] = False
    return distinct_codes


def _iter_chunk_rows(item: Ids, items_per_chunk: int, n_items: int) -> Iterator[tuple[int, slice | Positions]]:
    """Yield the first item of each chunk of items, and the positions of the rows whose item is in the chunk.

    item : int array (n_rows,), item of each row, in any order
    items_per_chunk : number of consecutive items in a chunk
    n_items : number of items of the plan

    The positions are a slice if `item` is sorted or if there is only one chunk. Otherwise, they are an int array.
    """
    if n_items <= items_per_chunk:
        yield 0, slice(0, len(item))
        return

    row_order: Positions | None = None  # positions of the rows, sorted by item; None if the rows are already sorted
    is_sorted = not (item[1:] < item[:-1]).any()
    if not is_sorted:
        smallest_type = np.min_scalar_type(n_items)  # integers of at most 16 bits are sorted fastest
        row_order = np.argsort(item.astype(smallest_type), kind="stable")

    # in this order, the rows of a chunk end where the rows of the next chunk start
    first_items = np.arange(0, n_items + items_per_chunk, items_per_chunk)
    row_starts = np.searchsorted(item, first_items, sorter=row_order).tolist()
    for first_item, (start, stop) in zip(first_items[:-1].tolist(), pairwise(row_starts), strict=True):
        if row_order is None:
            yield first_item, slice(start, stop)
        else:
            yield first_item, row_order[start:stop]
