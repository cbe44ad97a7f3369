"""What an extension of a run changed: who joined, whose ability moved, and whether an old agent, or the judge, drifted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr
from scipy.stats import t as student

from youden.nouns import AgentMove, ExtensionFacts, Verdicts
from youden.nouns.pool import Floats, or_none
from youden.protocol.blocks import before_last_extension, extensions_of
from youden.run.ability import Abilities
from youden.run.estimators import abilities_of, anchors_of
from youden.run.extended import added_answers, anchors_alone, learned_from, place_added, scale_from
from youden.stats.trials.anchored import drift_beside, drift_in_slots, stretch_of
from youden.stats.trials.comparisons import holm, tied_places


def extension_facts(result: Verdicts, after: Abilities) -> ExtensionFacts | None:
    """What the last step of the plan of `result` changed; None for a plan that never grew. after: abilities by all of it."""
    plan, extensions = result.plan, extensions_of(result.plan)
    if not extensions.steps:
        return None
    last, earlier = extensions.steps[-1], before_last_extension(result)
    before = abilities_of(earlier) or anchors_of(earlier)
    found = _drift(result, earlier)
    place_before, place_after = tied_places(before.ability), tied_places(after.ability)
    return ExtensionFacts(
        kind=last.kind,
        n_calls=int((plan.trials.step == len(extensions.steps)).sum()),
        joined=plan.agent_ids[earlier.plan.n_agents :],
        joined_items=plan.item_ids[earlier.plan.n_items :],
        moves=tuple(
            AgentMove(
                agent=agent,
                before=or_none(before.ability[i]),
                after=or_none(after.ability[i]),
                place_before=int(place_before[i]),
                place_after=int(place_after[i]),
                drift=or_none(found.change[i]),
                error=or_none(np.sqrt(found.variance[i])),
                p=or_none(found.p[i]),
            )
            for i, agent in enumerate(earlier.plan.agent_ids)
        ),
        level=or_none(found.level),
        level_p=or_none(found.level_p),
        answered_anew=result.key is None,
    )


@dataclass(frozen=True, eq=False)
class _Drift:
    """change, variance: float[K] of each earlier agent's ability; level: of all answers."""

    change: Floats
    variance: Floats
    level: float
    level_variance: float
    level_slots: int

    @property
    def p(self) -> Floats:
        """Two-sided, Holm's correction: float[K], NaN where nothing tells."""
        p = _two_sided(self.change, self.variance)
        known = ~np.isnan(p)
        p[known] = holm(p[known])
        return p

    @property
    def level_p(self) -> float:
        """Student's t, as slots are few."""
        if not self.level_variance > 0:
            return float("nan")
        return float(2 * student.sf(abs(self.level) / np.sqrt(self.level_variance), max(self.level_slots - 1, 1)))


def _two_sided(change: Floats, variance: Floats) -> Floats:
    """p-values of no change, NaN where there is no variance to compare it with."""
    p: Floats = np.full(len(change), np.nan)
    known = variance > 0
    p[known] = 2 * ndtr(-np.abs(change[known]) / np.sqrt(variance[known]))
    return p


def _drift(result: Verdicts, earlier: Verdicts) -> _Drift:
    plan, extensions = result.plan, extensions_of(result.plan)
    new = plan.trials.step == len(extensions.steps)
    # new answers are held against old ones on the same items
    anchors = anchors_of(earlier, target="these-items")
    scale = scale_from(result, anchors, rows=~new)
    n_old, n_before = extensions.anchors, earlier.plan.n_agents
    drift, variance = np.full(n_before, np.nan), np.full(n_before, np.nan)
    level, level_variance, level_slots = np.nan, np.nan, 0
    if extensions.steps[-1].kind == "repeats":  # other responses are no drift
        return _Drift(drift, variance, level, level_variance, level_slots)
    now = place_added(result, anchors, scale, rows=new)
    beside = added_answers(result, rows=new)
    complete = learned_from(result, new) & anchors_alone(plan)
    if complete.any():
        found = drift_in_slots(
            plan.item[complete],
            plan.first[complete],
            plan.second[complete],
            plan.slot[complete],
            result.answer[complete] - anchors.fpr,
            scale=scale,
        )
        drift[:n_old], variance[:n_old] = found.change, found.variance
        if extensions.steps[-1].kind == "calls":
            level, level_variance, level_slots = found.level, found.level_variance, found.level_slots
    elif len(beside.item):
        found = drift_beside(
            beside.item, beside.agent, beside.partner, beside.answer - anchors.fpr, effect=now.effect, scale=scale
        )
        drift[:n_old], variance[:n_old] = found.change, found.variance
    was = place_added(result, anchors, scale, rows=~new)
    effect = np.append(scale.effect, was.effect[n_old:n_before])
    known = np.append(scale.effect_variance, was.variance[n_old:n_before])
    placed = np.flatnonzero(now.n_trials[:n_before] > 0)
    drift[placed] = now.effect[placed] - effect[placed]
    variance[placed] = now.variance[placed] + known[placed]
    stretch = stretch_of(n_old)
    return _Drift(stretch * drift, stretch**2 * variance, level, level_variance, level_slots)
