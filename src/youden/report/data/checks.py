"""What speaks for or against believing a ranking: false alarms of single agents, predictions of held-out cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from youden.nouns import INDEPENDENT, Verdicts
from youden.nouns.arrays import Floats, freeze
from youden.report.data.evidence import Evidence
from youden.run.ranking import alarms_of
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


def false_alarms(result: Verdicts) -> tuple[FalseAlarm, ...]:
    """One line for each agent with independent trials that answered, the highest rate first; alarms are those of `alarms_of`.

    Intervals are Clopper–Pearson at 1 − .05/K, so that all of them hold together with 95 %.
    """
    plan = result.plan
    asked = (plan.arm == INDEPENDENT) & result.answered
    agent = np.concatenate([plan.first[asked], plan.second[asked]])
    n = np.bincount(agent, minlength=plan.n_agents)
    n_yes = np.bincount(agent, weights=np.tile(result.hard[asked], 2), minlength=plan.n_agents).astype(int)
    named = {position for alarm in alarms_of(result) for position in alarm.agents}
    tail = (1 - FAMILY_LEVEL) / plan.n_agents / 2
    low = np.where(n_yes > 0, betaincinv(np.maximum(n_yes, 1), n - n_yes + 1, tail), 0.0)
    high = np.where(n_yes < n, betaincinv(n_yes + 1, np.maximum(n - n_yes, 1), 1 - tail), 1.0)
    lines = [
        FalseAlarm(plan.agent_ids[i], int(n[i]), int(n_yes[i]), float(low[i]), float(high[i]), alarmed=i in named)
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
