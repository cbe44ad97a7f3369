"""Trials as the columns of a plan: both arms one after the other, replicates counted, lengths added up.

It knows columns; it refuses to know why any trial was chosen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict

import numpy as np

from youden.nouns import INDEPENDENT, PAIRED, PairedTrials, Plan, Pool
from youden.nouns.arrays import Bools, Codes, Ids, Positions
from youden.protocol.independent import IndependentTrials


class TrialColumns(TypedDict):
    """A plan's columns but for `arm`: int32[N] each."""

    item: Ids
    first: Ids
    second: Ids
    other_item: Ids
    replicate: Ids
    slot: Ids


def trial_columns(paired: PairedTrials, apart: IndependentTrials) -> TrialColumns:
    """Both arms one after the other; a comparison asked again counts its replicates up."""
    n, m = len(paired.item), len(apart.item)
    return _counted(
        item=np.concatenate([paired.item, apart.item]),
        first=np.concatenate([paired.first, apart.first]),
        second=np.concatenate([paired.second, apart.second]),
        other_item=np.concatenate([np.full(n, -1, dtype=np.int32), apart.other_item]),
        slot=np.concatenate([paired.slot, np.full(m, -1, dtype=np.int32)]),
    )


def appended(plan: Plan, added: TrialColumns) -> TrialColumns:
    """The plan's columns with others behind them; a comparison that the plan asked already counts on."""
    return _counted(
        item=np.append(plan.item, added["item"]),
        first=np.append(plan.first, added["first"]),
        second=np.append(plan.second, added["second"]),
        other_item=np.append(plan.other_item, added["other_item"]),
        slot=np.append(plan.slot, added["slot"]),
    )


def columns_at(plan: Plan, rows: Bools | Positions) -> TrialColumns:
    """Some trials of a plan. rows: bool[N], or positions in order."""
    return TrialColumns(
        item=plan.item[rows],
        first=plan.first[rows],
        second=plan.second[rows],
        other_item=plan.other_item[rows],
        replicate=plan.replicate[rows],
        slot=plan.slot[rows],
    )


def plan_rows(plan: Plan, rows: Bools | Positions, pool: Pool) -> Plan:
    """Some trials of a plan as a plan. rows: bool[N], or positions in order."""
    columns = columns_at(plan, rows)
    return replace(plan, **columns, arm=plan.arm[rows], characters=characters(pool, columns))


def arms(n_paired: int, n_independent: int) -> Codes:
    """The column `arm` of that many trials of each, paired first."""
    return np.repeat(np.array([PAIRED, INDEPENDENT], dtype=np.int8), [n_paired, n_independent])


def _counted(*, item: Ids, first: Ids, second: Ids, other_item: Ids, slot: Ids) -> TrialColumns:
    """With `replicate`: 0 for the first time a comparison stands there, 1 for the second, …"""
    compared = (item, first, second, other_item)
    order = np.lexsort(compared)
    ordered = [column[order] for column in compared]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = np.any([column[1:] != column[:-1] for column in ordered], axis=0)
    position = np.arange(len(order))
    replicate = np.empty(len(order), dtype=np.int32)
    replicate[order] = position - np.maximum.accumulate(np.where(new, position, 0))
    return TrialColumns(item=item, first=first, second=second, other_item=other_item, replicate=replicate, slot=slot)


def characters(pool: Pool, columns: TrialColumns) -> int:
    """Characters of all judged texts together."""
    cells = pool.texts.ravel().tolist()
    length = np.fromiter((len(text or "") for text in cells), dtype=np.int64, count=len(cells)).reshape(
        pool.texts.shape
    )
    second_item = np.where(columns["other_item"] >= 0, columns["other_item"], columns["item"])
    return int(length[columns["first"], columns["item"]].sum() + length[columns["second"], second_item].sum())
