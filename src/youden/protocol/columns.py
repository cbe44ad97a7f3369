"""Rows of a plan taken out, trials put behind it, and how long all judged texts are together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from youden.nouns import Plan, Pool, Trials
from youden.nouns.arrays import Bools, Positions


def plan_rows(plan: Plan, rows: Bools | Positions, pool: Pool) -> Plan:
    """Some trials of a plan as a plan. rows: bool[N], or positions in order."""
    trials = plan.trials.take(rows)
    return replace(plan, trials=trials, characters=characters(pool, trials))


def with_more(plan: Plan, pool: Pool, more: Trials) -> Plan:
    """The plan with trials behind its own, which keep their places; a comparison that was asked already counts on."""
    trials = Trials.concat([plan.trials, more]).counted()
    return replace(plan, trials=trials, characters=characters(pool, trials))


def characters(pool: Pool, trials: Trials) -> int:
    """Characters of all judged texts together."""
    lengths = np.ascontiguousarray(pool.lengths.T)  # trials on an item stand together, and so should its lengths
    item, other_item = trials.text_cells
    return int(lengths[item, trials.first].sum() + lengths[other_item, trials.second].sum())
