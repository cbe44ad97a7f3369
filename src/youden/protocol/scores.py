"""Turns verdicts into rates of ordered pairs on items, and rates into scores of agents on items.

Which trials a training score may read is decided here and only here: scores are for training or for the holdout, never both in
one call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np

from youden.errors import StatisticsError
from youden.types import INDEPENDENT, PAIRED, Scores, Verdicts
from youden.types.cells import CELLS_IN_CACHE, CellIndex, ScoredCells
from youden.types.pool import Bools, Floats, Ids, Positions
from youden.types.results import IndependentRates, Rates, ScoreKind, ScoreRole
from youden.types.trials import PROBE


def compute_rates(verdicts: Verdicts) -> Rates:
    """Compute the rates of verdicts: see `Verdicts.rates`."""
    plan = verdicts.plan
    shape = (plan.n_items, plan.n_agents, plan.n_agents)
    # rows are pairs of the paired arm; where every paired trial has a twin, the twins name no others
    used = slice(None) if plan.independent == "twin" else plan.arm == PAIRED
    columns = tuple(column[used] for column in (plan.item, plan.first, plan.second))
    rows, row = np.unique(np.ravel_multi_index(columns, shape), return_inverse=True)
    answer, answered, is_paired = verdicts.answer[used], verdicts.answered[used], plan.arm[used] == PAIRED
    paired = _sums(row, answer, is_paired & answered, len(rows))
    apart = _sums(row, answer, ~is_paired & answered, len(rows))
    item, first, second = (index.astype(np.int32) for index in np.unravel_index(rows, shape))
    return Rates(
        item=item,
        first=first,
        second=second,
        tpr=paired.mean,
        fpr=apart.mean,
        n_paired=paired.n,
        n_independent=apart.n,
        n_missing=np.bincount(row[~answered], minlength=len(rows)).astype(np.int32),
        independent=plan.independent,
        agent_ids=plan.agent_ids,
        item_ids=plan.item_ids,
        split=plan.split,
        detail=_detail(verdicts),
    )


@dataclass(frozen=True, eq=False)
class _Sums:
    total: Floats
    n: Ids

    @property
    def mean(self) -> Floats:
        """NaN where nothing was summed."""
        mean = np.full(len(self.n), np.nan)
        np.divide(self.total, self.n, out=mean, where=self.n > 0)
        return mean


def _sums(row: Positions, answer: Floats, chosen: Bools, n_rows: int) -> _Sums:
    return _Sums(
        total=np.bincount(row[chosen], weights=answer[chosen], minlength=n_rows).astype(np.float64),
        n=np.bincount(row[chosen], minlength=n_rows).astype(np.int32),
    )


def _detail(result: Verdicts) -> IndependentRates:
    plan = result.plan
    chosen = (plan.arm == INDEPENDENT) & result.answered & (plan.role != PROBE)
    item, first, second, other_item = (
        column[chosen] for column in (plan.item, plan.first, plan.second, plan.other_item)
    )
    # one number a (item, first), then one a row: four columns at once may not fit 64 bits
    _, one = np.unique(item.astype(np.int64) * plan.n_agents + first, return_inverse=True)
    other = second.astype(np.int64) * plan.n_items + other_item
    _, place, row = np.unique(one * (plan.n_agents * plan.n_items) + other, return_index=True, return_inverse=True)
    sums = _sums(row, result.answer[chosen], np.ones(len(row), dtype=np.bool_), len(place))
    return IndependentRates(item[place], first[place], second[place], other_item[place], total=sums.total, n=sums.n)


def training_scores(rates: Rates, *, kind: ScoreKind) -> Scores:
    """Compute training scores: see `Rates.training_scores`."""
    return _scores(rates, train_differences(rates), kind=kind, role="train")


def train_differences(rates: Rates) -> Floats:
    """Compute D of each row of `rates`, float (n_rows,), with NaN for rows that training must not use."""
    held = rates.split.holdout
    own = rates.split.rule == "own"
    clean = ~held[rates.first, rates.item] & (own | ~held[rates.second, rates.item])
    fpr, clean_detail = _clean_rates(rates, held, own=own)
    return np.where(clean, _difference(rates, fpr, clean_detail), np.nan)


def holdout_scores(rates: Rates, *, kind: ScoreKind) -> Scores:
    """Compute scores of the held-out cells: see `Rates.holdout_scores`."""
    return _scores(rates, _difference(rates, rates.fpr, None), kind=kind, role="holdout")


def pooled_fpr(rates: Rates) -> float | None:
    """Mean answer of all independent trials that answered; None where there is none."""
    if rates.detail is not None:
        return _pool(rates.detail.total, rates.detail.n)
    n = rates.n_independent
    return _pool(np.where(n > 0, rates.fpr, 0.0) * n, n)


def _pool(total: Floats, n: Ids) -> float | None:
    return float(total.sum() / n.sum()) if n.sum() else None


def _clean_rates(rates: Rates, held: Bools, *, own: bool) -> tuple[Floats, Bools | None]:
    """The pairs' FPR from independent trials that keep off held-out cells, and which rows of `detail` those are."""
    detail = rates.detail
    if detail is None:
        return rates.fpr, None
    clean = ~held[detail.first, detail.item] & (own | ~held[detail.second, detail.other_item])
    if rates.independent == "pooled" or clean.all():
        return rates.fpr, clean
    shape = (rates.n_items, rates.n_agents, rates.n_agents)
    rows = np.ravel_multi_index((rates.item, rates.first, rates.second), shape)
    row = np.searchsorted(rows, np.ravel_multi_index((detail.item, detail.first, detail.second), shape)[clean])
    n = np.bincount(row, weights=detail.n[clean], minlength=len(rows))
    total = np.bincount(row, weights=detail.total[clean], minlength=len(rows))
    return np.divide(total, n, out=np.full(len(rows), np.nan), where=n > 0), clean


def _difference(rates: Rates, fpr: Floats, clean_detail: Bools | None) -> Floats:
    """D of every row; NaN where the pair has no answer. A pooled plan without independent answers subtracts nothing."""
    if rates.independent == "twin":
        return rates.tpr - fpr
    if clean_detail is None or rates.detail is None:
        rate = pooled_fpr(rates)
    else:
        rate = _pool(rates.detail.total[clean_detail], rates.detail.n[clean_detail])
    return rates.tpr - (rate or 0.0)


def _scores(rates: Rates, difference: Floats, *, kind: ScoreKind, role: ScoreRole) -> Scores:
    if kind not in get_args(ScoreKind):
        raise StatisticsError(
            f"The kind of scores is unknown: got '{kind}'. Pass one of: {', '.join(get_args(ScoreKind))}.",
            slug="score-kind",
        )
    held = rates.split.holdout
    answered = ~np.isnan(difference)
    seen = slice(None) if answered.all() else np.flatnonzero(answered)
    sides = (rates.first, rates.second) if kind == "symmetric" else (rates.first,)
    at, rows = touched_cells(
        rates.item[seen], *(side[seen] for side in sides), n_agents=rates.n_agents, n_items=rates.n_items
    )

    def summed(column: Floats | Ids | None) -> Floats:
        return np.asarray(sum(np.bincount(row, column, len(at)) for row in rows), dtype=np.float64)

    value = summed(difference[seen]) / summed(None)
    cells = ScoredCells(at, value, summed(rates.n_paired[seen]))
    cells = cells.where(held[at.agent, at.item] == (role == "holdout"))
    return Scores(cells, role, kind, rates.agent_ids, rates.item_ids)


class TouchedCells(NamedTuple):
    """The cells that trials touch. rows: for each column of agents int64[T], which cell each trial touches with it."""

    cells: CellIndex
    rows: tuple[Positions, ...]


def touched_cells(item: Ids, *agents: Ids, n_agents: int, n_items: int) -> TouchedCells:
    """The cells (agent, item) of trials with these columns, int32[T] each.

    >>> found = touched_cells(np.array([1, 0, 1]), np.array([2, 0, 2]), n_agents=3, n_items=2)
    >>> found.cells.agent.tolist(), found.cells.item.tolist(), found.rows[0].tolist()
    ([0, 2], [0, 1], [1, 0, 1])
    """
    step = min(n_items, max(1, CELLS_IN_CACHE // n_agents))
    starts = np.arange(0, n_items + step, step)
    order: Positions | None = None
    if n_items > step and (item[1:] < item[:-1]).any():
        order = np.argsort(item.astype(np.min_scalar_type(n_items)), kind="stable")
    edges = np.searchsorted(item, starts, sorter=order) if n_items > step else np.array([0, len(item)])
    rows = tuple(np.empty(len(item), dtype=np.int64) for _ in agents)
    number, touched = np.empty(step * n_agents, dtype=np.int64), np.zeros(step * n_agents, dtype=np.bool_)
    codes, n_before = [np.empty(0, dtype=np.int64)], 0
    for start, begin, end in zip(starts[:-1].tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part = slice(begin, end) if order is None else order[begin:end]
        of_item = (item[part].astype(np.int64) - start) * n_agents
        places = [of_item + agent[part] for agent in agents]
        for place in places:
            touched[place] = True
        found = np.flatnonzero(touched)
        touched[found] = False
        number[found] = np.arange(n_before, n_before + len(found))
        for row, place in zip(rows, places, strict=True):
            row[part] = number[place]
        codes.append(found + start * n_agents)
        n_before += len(found)
    found_item, found_agent = np.divmod(np.concatenate(codes), n_agents)
    return TouchedCells(CellIndex(found_agent.astype(np.int32), found_item.astype(np.int32), n_agents, n_items), rows)
