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
from youden.types.trials import PROBE


def compute_rates(verdicts: Verdicts) -> Rates:
    """Compute the true- and false-positive rates of ordered pairs of agents on items.

    Parameters
    ----------
    verdicts : Verdicts
        Answers to a plan.

    Returns
    -------
    Rates
        One row per ordered pair and item with a paired trial.
    """
    plan = verdicts.plan
    # rows are the pairs of paired trials; matched independent trials have no other pairs
    rows = plan.trial_type == PAIRED
    if plan.independent == "matched":
        rows |= plan.trial_type == INDEPENDENT

    # one number per item and ordered pair, and the row of the result that each trial belongs to
    shape = (plan.n_items, plan.n_agents, plan.n_agents)
    pair_codes = np.ravel_multi_index((plan.item[rows], plan.first[rows], plan.second[rows]), shape)
    distinct_codes, row = np.unique(pair_codes, return_inverse=True)
    item, first, second = np.unravel_index(distinct_codes, shape)
    n_rows = len(distinct_codes)

    answer = verdicts.answer[rows]
    answered = verdicts.answered[rows]
    is_paired = plan.trial_type[rows] == PAIRED
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
        detail=_compute_independent_rates(verdicts),
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


def _compute_independent_rates(verdicts: Verdicts) -> IndependentRates:
    """Sum the answers to the independent trials with the same agents and items.

    Probes (trials of unusually similar texts) and trials without an answer are left out.

    Returns one row per combination of agents and items, with the sum and the number of its answers.
    """
    plan = verdicts.plan
    is_used = (plan.trial_type == INDEPENDENT) & verdicts.answered & (plan.role != PROBE)
    trials = plan.trials.take(is_used)

    codes = _encode_independent_trials(trials, plan)
    _, first_trials, combination = np.unique(codes, return_index=True, return_inverse=True)
    total = np.bincount(combination, weights=verdicts.answer[is_used], minlength=len(first_trials))
    n = np.bincount(combination, minlength=len(first_trials))
    # all trials of a combination have the agents and items of the first one
    combinations = trials.take(first_trials)
    return IndependentRates(
        item=combinations.item,
        first=combinations.first,
        second=combinations.second,
        other_item=combinations.other_item,
        total=total.astype(np.float64),
        n=n.astype(np.int32),
    )


def _encode_independent_trials(trials: Trials, plan: Plan) -> Positions:
    """Give the same number to trials with the same agents and items, and to no others: int64 array (n_trials,).

    The numbers are ordered by the item and agent of the first text, then by the agent and item of the second text.

    trials : independent trials
    plan : plan of the trials
    """
    # The cells (agent, item) of the first texts get consecutive numbers, because the product of two numbers of possible
    # cells may exceed 64 bits.
    first_cell_codes = trials.item.astype(np.int64) * plan.n_agents + trials.first
    _, first_cells = np.unique(first_cell_codes, return_inverse=True)
    second_cells = trials.second.astype(np.int64) * plan.n_items + trials.other_item
    return np.asarray(first_cells * (plan.n_agents * plan.n_items) + second_cells)


def training_scores(rates: Rates, *, kind: ScoreKind) -> Scores:
    """Compute training scores, without held-out cells.

    Parameters
    ----------
    rates : Rates
        Rates of pairs of agents on items.
    kind : {"symmetric", "row"}
        Whether to average both orders of a pair, or to use those in which the agent's text comes first.

    Returns
    -------
    Scores
        One score per observed training cell (agent, item).

    Raises
    ------
    StatisticsError
        [score-kind]: if `kind` is unknown.
    """
    return _compute_scores(rates, training_differences(rates), kind=kind, role="train")


def training_differences(rates: Rates) -> Floats:
    """Compute D = TPR − FPR of each row of rates, for training.

    Parameters
    ----------
    rates : Rates
        Rates of ordered pairs of agents on items, with the split into training and held-out cells.

    Returns
    -------
    float array (n_rows,)
        Differences. NaN for a row without an answer, and for a row that training must not use. Training must not use a
        row whose first text is in a held-out cell (agent, item). If the rule of the split is "strict", the same holds for
        the second text.
    """
    fpr = rates.fpr
    detail_mask = None
    detail = rates.detail
    if detail is not None:
        detail_mask = rates.split.allows_training(detail.first, detail.item, detail.second, detail.other_item)
        if rates.independent == "matched" and not detail_mask.all():
            fpr = _compute_fpr_from_detail(rates, detail, detail_mask)

    difference = _compute_differences(rates, fpr, detail_mask)
    is_training = rates.split.allows_training(rates.first, rates.item, rates.second, rates.item)
    return np.where(is_training, difference, np.nan)


def holdout_scores(rates: Rates, *, kind: ScoreKind) -> Scores:
    """Compute scores of the held-out cells from all their trials.

    Parameters
    ----------
    rates : Rates
        Rates of pairs of agents on items.
    kind : {"symmetric", "row"}
        Whether to average both orders of a pair, or to use those in which the agent's text comes first.

    Returns
    -------
    Scores
        One score per observed held-out cell (agent, item).

    Raises
    ------
    StatisticsError
        [score-kind]: if `kind` is unknown.
    """
    return _compute_scores(rates, _compute_differences(rates, rates.fpr, None), kind=kind, role="holdout")


def pooled_fpr(rates: Rates) -> float | None:
    """Compute the mean answer of all independent trials.

    Parameters
    ----------
    rates : Rates
        Rates of pairs of agents on items.

    Returns
    -------
    float or None
        The mean; None if no independent trial was answered.
    """
    if rates.detail is not None:
        return _compute_pooled_mean(rates.detail.total, rates.detail.n)
    n = rates.n_independent
    total: Floats = np.where(n > 0, rates.fpr, 0.0) * n  # the rate of a row without answers is NaN
    return _compute_pooled_mean(total, n)


def _compute_pooled_mean(total: Floats, n: Ids) -> float | None:
    """Return the mean answer, from sums and numbers of answers per row, arrays (n_rows,); None without answers."""
    if not n.sum():
        return None
    return float(total.sum() / n.sum())


def _compute_fpr_from_detail(rates: Rates, detail: IndependentRates, mask: Bools) -> Floats:
    """Compute the false-positive rate (FPR) of each row of rates from some of its matched independent trials.

    The FPR is the mean answer to these trials.

    detail : sums of the answers to the independent trials, `rates.detail`
    mask : bool array (n_detail_rows,), rows of `detail` that count

    Returns a float array (n_rows,), NaN for rows of `rates` without an answer that counts.
    """
    # row of `rates` with the same item and pair; the rows are sorted by these
    shape = (rates.n_items, rates.n_agents, rates.n_agents)
    codes = np.ravel_multi_index((rates.item, rates.first, rates.second), shape)
    detail_codes = np.ravel_multi_index((detail.item, detail.first, detail.second), shape)
    row = np.searchsorted(codes, detail_codes[mask])

    n = np.bincount(row, weights=detail.n[mask], minlength=len(codes))
    total = np.bincount(row, weights=detail.total[mask], minlength=len(codes))
    fpr = np.full(len(codes), np.nan)
    np.divide(total, n, out=fpr, where=n > 0)
    return fpr


def _compute_differences(rates: Rates, fpr: Floats, detail_mask: Bools | None) -> Floats:
    """Compute D = TPR − FPR of each row of rates, the true-positive rate minus the false-positive rate.

    By the rule "matched", each row has its own FPR. By the rule "pooled", the FPR of all rows is the mean answer to the
    independent trials; it is 0 if no trial was answered.

    fpr : float array (n_rows,), FPR of each row, for the rule "matched"
    detail_mask : bool array (n_detail_rows,), rows of `rates.detail` (sums of answers to independent trials) that count for
        the rule "pooled"; None for all

    Returns a float array (n_rows,), NaN for pairs without an answer.
    """
    if rates.independent == "matched":
        return rates.tpr - fpr
    if detail_mask is None or rates.detail is None:
        pooled_rate = pooled_fpr(rates)
    else:
        pooled_rate = _compute_pooled_mean(rates.detail.total[detail_mask], rates.detail.n[detail_mask])
    return rates.tpr - (pooled_rate or 0.0)


def _compute_scores(rates: Rates, difference: Floats, *, kind: ScoreKind, role: ScoreRole) -> Scores:
    """Compute the score of each cell, an agent on an item: the mean of TPR − FPR over its comparisons.

    difference : float array (n_rows,), TPR − FPR of each row of `rates`; NaN for rows that do not count
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
    """Average TPR − FPR over the comparisons of each cell, an agent on an item, whether the cell is held out or not.

    difference, kind : as for `_compute_scores`

    Returns the mean of each cell that has a comparison, and the number of its paired trials.
    """
    is_known = ~np.isnan(difference)
    rows = slice(None) if is_known.all() else np.flatnonzero(is_known)  # a slice copies nothing

    # each row counts for the cell of its first text and, if scores are symmetric, for the cell of its second text
    agents = [rates.first[rows]]
    if kind == "symmetric":
        agents.append(rates.second[rows])
    index = index_cells(rates.item[rows], *agents, n_agents=rates.n_agents, n_items=rates.n_items)

    n_cells = len(index.cells)
    n_rows = _sum_by_cell(None, index.positions, n_cells)
    difference_sum = _sum_by_cell(difference[rows], index.positions, n_cells)
    n_trials = _sum_by_cell(rates.n_paired[rows], index.positions, n_cells)
    return ScoredCells(index.cells, difference_sum / n_rows, n_trials)


def _check_score_kind(kind: str) -> None:
    """Raise StatisticsError [score-kind] if a kind of scores is unknown."""
    kinds = get_args(ScoreKind)
    if kind not in kinds:
        raise StatisticsError(
            f"The kind of scores is unknown: got '{kind}'. Pass one of: {', '.join(kinds)}.", slug="score-kind"
        )


def _sum_by_cell(values: Floats | Ids | None, cells_of_rows: Sequence[Positions], n_cells: int) -> Floats:
    """Sum the values of rows by cell: float array (n_cells,).

    values : array (n_rows,), one value per row; None to count the rows
    cells_of_rows : int64 arrays (n_rows,), positions of the cells for which each row counts
    """
    total: Floats = np.zeros(n_cells)
    for cell in cells_of_rows:
        total += np.bincount(cell, values, n_cells)
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
    """Find the distinct cells (agent, item) of trials, numbered by item, then by agent, and the cells of each trial.

    item : int32 array (n_trials,), item of each trial
    agents : int32 arrays (n_trials,), one or several columns of agents, such as the first and the second agents
    n_agents, n_items : numbers of agents and of items of the plan

    Examples
    --------
    >>> index = index_cells(np.array([1, 0, 1]), np.array([2, 0, 2]), n_agents=3, n_items=2)
    >>> index.cells.agent.tolist(), index.cells.item.tolist(), index.positions[0].tolist()
    ([0, 2], [0, 1], [1, 0, 1])
    """
    # items are processed in chunks, so that the lookup tables of the numbering stay in the processor's cache
    items_per_chunk = min(n_items, max(1, CELLS_IN_CACHE // n_agents))
    numbering = _CellNumbering(items_per_chunk * n_agents)

    positions = tuple(np.empty(len(item), dtype=np.int64) for _ in agents)
    cell_codes = [np.empty(0, dtype=np.int64)]  # item · n_agents + agent of the distinct cells, one array per chunk
    for first_item, rows in _iter_chunk_rows(item, items_per_chunk, n_items):
        item_offset = (item[rows].astype(np.int64) - first_item) * n_agents
        codes_by_column = [item_offset + agent[rows] for agent in agents]
        distinct_codes = numbering.number_cells(codes_by_column)
        cell_codes.append(distinct_codes + first_item * n_agents)
        for position, codes in zip(positions, codes_by_column, strict=True):
            position[rows] = numbering.position_by_code[codes]

    cell_item, cell_agent = np.divmod(np.concatenate(cell_codes), n_agents)
    cells = CellIndex(cell_agent.astype(np.int32), cell_item.astype(np.int32), n_agents, n_items)
    return IndexedCells(cells, positions)


class _CellNumbering:
    """Numbers the distinct cells (agent, item) of chunks of items, one chunk after the other, without sorting.

    Within a chunk, a cell has the code (item − first item of the chunk) · n_agents + agent. The two lookup tables have one
    entry per possible code, and are used again for each chunk.
    """

    def __init__(self, n_codes: int) -> None:
        self._n_cells = 0
        self.position_by_code = np.empty(n_codes, dtype=np.int64)
        """Number of each cell of the last chunk; undefined for other codes."""
        self._is_present = np.zeros(n_codes, dtype=np.bool_)

    def number_cells(self, codes_by_column: Sequence[Positions]) -> Positions:
        """Assign consecutive numbers to the distinct cells of a chunk, beginning after the numbers of the earlier chunks.

        codes_by_column : int64 arrays (n_trials,), codes of the cells of the chunk's first agents, and of its second agents

        Returns the distinct codes, int64 array (n_new_cells,), ascending.
        """
        for codes in codes_by_column:
            self._is_present[codes] = True
        distinct_codes = np.flatnonzero(self._is_present)
        self._is_present[distinct_codes] = False  # clear the table for the next chunk

        self.position_by_code[distinct_codes] = self._n_cells + np.arange(len(distinct_codes))
        self._n_cells += len(distinct_codes)
        return distinct_codes


def _iter_chunk_rows(item: Ids, items_per_chunk: int, n_items: int) -> Iterator[tuple[int, slice | Positions]]:
    """Yield the first item of each chunk of items, and the rows on the items of the chunk.

    item : int array (n_rows,), item of each row, in any order
    items_per_chunk : number of consecutive items in a chunk
    n_items : number of items of the plan

    The rows are a slice if `item` is sorted, else an int array.
    """
    if n_items <= items_per_chunk:
        yield 0, slice(0, len(item))
        return

    # row order by item, None if the rows are sorted
    row_order: Positions | None = None
    is_sorted = not (item[1:] < item[:-1]).any()
    if not is_sorted:
        row_order = np.argsort(item.astype(np.min_scalar_type(n_items)), kind="stable")

    # the rows of chunk c are those from bounds[c] to bounds[c + 1] − 1 in this order
    first_items = np.arange(0, n_items + items_per_chunk, items_per_chunk)
    bounds = np.searchsorted(item, first_items, sorter=row_order).tolist()
    for first_item, (start, stop) in zip(first_items[:-1].tolist(), pairwise(bounds), strict=True):
        if row_order is None:
            yield first_item, slice(start, stop)
        else:
            yield first_item, row_order[start:stop]
