"""Turns verdicts into true- and false-positive rates of ordered pairs on items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.nouns import INDEPENDENT, PAIRED, IndependentRates, Rates, Verdicts
from youden.nouns.arrays import Bools, Floats, Ids, Positions
from youden.protocol.probes import probes_of


def tally(result: Verdicts) -> Rates:
    """Rates of every ordered pair (first, second) on every item that the plan asked about.

    TPR = mean answer of the pair's paired trials on the item, FPR = mean answer of its independent trials there; a missing
    answer is counted, never a 0. Under a `pooled` plan, pairs asked only in the independent arm stay in `detail` alone.

    `Rates` holds a row for each of the R pairs on an item: item, first, second: int[R]; tpr, fpr: float[R] in [0, 1], NaN without
    an answer; n_paired, n_independent, n_missing: int[R].

    Raises: nothing; a plan without an answer has NaN rates.

    Source: the paper's appendix 'TVD-MI Score Construction'.

    >>> import youden
    >>> pool = youden.read_pool("datasets/field-notes")
    >>> rates = youden.tally(youden.judge(youden.make_plan(pool, calls=300), pool))
    >>> len(rates.tpr), rates.n_agents, rates.n_items
    (192, 12, 32)
    """
    plan = result.plan
    shape = (plan.n_items, plan.n_agents, plan.n_agents)
    # rows are pairs of the paired arm; where every paired trial has a twin, the twins name no others
    asked = slice(None) if plan.independent == "twin" else plan.arm == PAIRED
    columns = tuple(column[asked] for column in (plan.item, plan.first, plan.second))
    rows, row = np.unique(np.ravel_multi_index(columns, shape), return_inverse=True)
    answer, answered, is_paired = result.answer[asked], result.answered[asked], plan.arm[asked] == PAIRED
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
        n_agents=plan.n_agents,
        n_items=plan.n_items,
        independent=plan.independent,
        agent_ids=plan.agent_ids,
        item_ids=plan.item_ids,
        detail=_detail(result),
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
    chosen = (plan.arm == INDEPENDENT) & result.answered & ~probes_of(plan)
    item, first, second, other_item = (
        column[chosen] for column in (plan.item, plan.first, plan.second, plan.other_item)
    )
    # one number a (item, first), then one a row: four columns at once may not fit 64 bits
    _, one = np.unique(item.astype(np.int64) * plan.n_agents + first, return_inverse=True)
    other = second.astype(np.int64) * plan.n_items + other_item
    _, place, row = np.unique(one * (plan.n_agents * plan.n_items) + other, return_index=True, return_inverse=True)
    sums = _sums(row, result.answer[chosen], np.ones(len(row), dtype=np.bool_), len(place))
    return IndependentRates(item[place], first[place], second[place], other_item[place], total=sums.total, n=sums.n)
