"""How good the judge was in this run: what it says yes to, and whether it says the same when it is asked twice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.nouns import INDEPENDENT, PAIRED, Rates, Verdicts
from youden.nouns.arrays import Floats, Positions
from youden.report.data.trials import cell_keys

LEAST_PARTNERS = 0.5
"""Below this share of a cell's partners the scores of single cells are mostly noise, and curl says nothing of additivity."""


@dataclass(frozen=True)
class Alike:
    """How often two answers about the same two texts were the same. n: pairs of answers."""

    n: int
    n_same: int

    @property
    def share(self) -> float:
        return self.n_same / self.n


@dataclass(frozen=True)
class JudgeQuality:
    """tpr, fpr: mean answer to responses to one item, and to two items; None where none of that arm answered.

    again: the same two texts in the same order; turned: in the other order; None where that was never asked.
    """

    tpr: float | None
    fpr: float | None
    again: Alike | None
    turned: Alike | None

    @property
    def j(self) -> float | None:
        """Youden's J = TPR − FPR, over all pairs of agents."""
        return None if self.tpr is None or self.fpr is None else self.tpr - self.fpr


def judge_quality(result: Verdicts) -> JudgeQuality:
    """From all answers of a run."""
    tpr, fpr = (_mean(result.answer[result.answered & (result.plan.arm == arm)]) for arm in (PAIRED, INDEPENDENT))
    asked = np.flatnonzero(result.answered)
    first, second = (cells[asked].astype(np.int64) for cells in cell_keys(result.plan))
    size = result.plan.n_agents * result.plan.n_items
    hard = result.hard[asked]
    order = np.argsort(first * size + second, kind="stable")
    key = (first * size + second)[order]
    twice = np.flatnonzero(key[1:] == key[:-1])
    again = _alike(hard[order[twice]], hard[order[twice + 1]])
    once, at = np.unique(first * size + second, return_index=True)
    forward = at[first[at] < second[at]]
    return JudgeQuality(tpr, fpr, again, _turned(once, at, second[forward] * size + first[forward], forward, hard))


def partners_seen(rates: Rates) -> float | None:
    """Share of its possible partners with which a compared cell was compared, on average; None where nothing was."""
    seen = ~np.isnan(rates.tpr)
    item, one, two = (column[seen].astype(np.int64) for column in (rates.item, rates.first, rates.second))
    if not len(item) or rates.n_agents < 2:
        return None
    K = np.int64(rates.n_agents)
    n_pairs = _n_distinct((item * K + np.minimum(one, two)) * K + np.maximum(one, two))
    n_cells = _n_distinct(np.concatenate([item * K + one, item * K + two]))
    return 2 * n_pairs / (n_cells * (rates.n_agents - 1))


def _n_distinct(keys: Positions) -> int:
    # By sorting: np.unique hashes, which takes ten times as long.
    return 1 + int(np.count_nonzero(np.diff(np.sort(keys))))


def _turned(once: Positions, at: Positions, other: Positions, forward: Positions, hard: Floats) -> Alike | None:
    if not len(once):
        return None
    place = np.minimum(np.searchsorted(once, other), len(once) - 1)
    found = once[place] == other
    return _alike(hard[forward[found]], hard[at[place[found]]])


def _alike(one: Floats, two: Floats) -> Alike | None:
    return Alike(len(one), int((one == two).sum())) if len(one) else None


def _mean(value: Floats) -> float | None:
    return float(value.mean()) if len(value) else None
