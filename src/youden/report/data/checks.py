"""What speaks for or against believing a ranking: false alarms of single agents, predictions of held-out cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from youden.nouns import INDEPENDENT, Plan
from youden.nouns.arrays import Floats, freeze
from youden.report.data.evidence import Evidence
from youden.report.data.trials import TrialRows
from youden.stats.trials.false_positives import alarms_of_pairs
from youden.streams import own_stream

FAMILY_LEVEL = 0.95
MAX_POINTS = 3_000
"""Held-out cells drawn at most."""


@dataclass(frozen=True)
class FalseAlarm:
    """Yes-answers among the independent trials an agent takes part in on either side.

    low, high: exact interval of the rate, wide enough to hold for all agents at once. alarmed: a warning of the run names the
    agent, alone or in a pair.
    """

    agent: str
    n: int
    n_yes: int
    low: float
    high: float
    alarmed: bool

    @property
    def rate(self) -> float:
        return self.n_yes / self.n


@dataclass(frozen=True, eq=False)
class HoldoutPoints:
    """Held-out cells as predicted and as observed, float[n] each; n_cells: how many there are, of which n are drawn."""

    predicted: Floats
    observed: Floats
    n_cells: int

    def __post_init__(self) -> None:
        freeze([self.predicted, self.observed])


class ApartCounts:
    """Answers and yeses of the independent arm by pair of agents, over blocks of rows."""

    def __init__(self, plan: Plan) -> None:
        self._ids, K = plan.agent_ids, plan.n_agents
        self._n, self._yes = np.zeros((K, K), dtype=np.int64), np.zeros((K, K), dtype=np.int64)

    def add(self, rows: TrialRows) -> None:
        columns, K = rows.columns, len(self._ids)
        asked = np.flatnonzero((columns["arm"] == INDEPENDENT) & (columns["missing"] == 0))
        if not len(asked):
            return
        one, two = (columns[side][asked].astype(np.int64) for side in ("first", "second"))
        pair, yes = np.minimum(one, two) * K + np.maximum(one, two), columns["hard"][asked] >= 0.5
        self._n += np.bincount(pair, minlength=K * K).reshape(K, K)
        self._yes += np.bincount(pair[yes], minlength=K * K).reshape(K, K)

    @property
    def alarms(self) -> tuple[FalseAlarm, ...]:
        """One line for each agent with independent trials that answered, the highest rate first; alarms are those of `alarms_of`.

        Intervals are Clopper–Pearson at 1 − .05/K, so that all of them hold together with 95 %.
        """
        K = len(self._ids)
        low, high = np.nonzero(self._n)
        found = alarms_of_pairs(low, high, self._n[low, high], self._yes[low, high], n_agents=K)
        named = {position for alarm in found for position in alarm.agents}
        n, n_yes = (table.sum(axis=0) + table.sum(axis=1) for table in (self._n, self._yes))
        tail = (1 - FAMILY_LEVEL) / K / 2
        lower = np.where(n_yes > 0, betaincinv(np.maximum(n_yes, 1), n - n_yes + 1, tail), 0.0)
        upper = np.where(n_yes < n, betaincinv(n_yes + 1, np.maximum(n - n_yes, 1), 1 - tail), 1.0)
        lines = [
            FalseAlarm(self._ids[i], int(n[i]), int(n_yes[i]), float(lower[i]), float(upper[i]), alarmed=i in named)
            for i in np.flatnonzero(n)
        ]
        return tuple(sorted(lines, key=lambda line: -line.rate))


def holdout_points(evidence: Evidence) -> HoldoutPoints | None:
    """Predictions of held-out cells beside what was observed; None without a holdout or a fit."""
    if evidence.holdout is None or evidence.predicted is None:
        return None
    at, held, _ = evidence.holdout.cells
    order = at.by_agent
    predicted = evidence.predicted.at(at.agent[order], at.item[order])
    known = np.flatnonzero(~np.isnan(predicted))
    if not len(known):
        return None
    drawn = own_stream(0).choice(known, min(MAX_POINTS, len(known)), replace=False)
    return HoldoutPoints(predicted[drawn], held[order[drawn]], len(known))
