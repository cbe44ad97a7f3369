"""What an extension of a run changed: who joined, whose ability moved, and whether an old agent, or the judge, drifted."""

from __future__ import annotations

import numpy as np

from youden.engines.trial_blocks import ItemBlock, TrialsByItem
from youden.pipeline.abilities import Abilities, Aim
from youden.pipeline.linked_abilities import added_answers, answers_of_anchors, at_step, place_added, scale_from
from youden.pipeline.ranking import anchors_of, trial_abilities
from youden.protocol.blocks import extensions_of
from youden.stats.trials.anchored import Drift, drift_beside, drift_in_slots, stretch_of
from youden.stats.trials.comparisons import tied_places
from youden.text.sentences import counted
from youden.types.facts import AgentMove, ExtensionFacts
from youden.types.pool import Bools, or_none


def extension_facts(trials: TrialsByItem, after: Abilities, *, answered_anew: bool) -> ExtensionFacts | None:
    """What the last step of a plan changed; None for a plan that never grew. after: abilities by all of it; answered_anew:
    whether its answers have no keys, so that none was kept from before."""
    plan, extensions = trials.plan, extensions_of(trials.plan)
    n_steps = len(extensions.steps)
    if not n_steps:
        return None
    last, earlier = extensions.steps[-1], at_step(trials, n_steps - 1)
    before = trial_abilities(earlier, Aim()) or anchors_of(earlier)
    found = _drift(trials, earlier)
    place_before, place_after = tied_places(before.ability), tied_places(after.ability)
    return ExtensionFacts(
        kind=last.kind,
        n_calls=trials.n - earlier.n,
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
        answered_anew=answered_anew,
    )


def _drift(trials: TrialsByItem, earlier: TrialsByItem) -> Drift:
    """Of each earlier agent's ability, and of all answers."""
    extensions = extensions_of(trials.plan)
    n_steps = len(extensions.steps)

    def new(block: ItemBlock) -> Bools:
        return np.asarray(block.step == n_steps)

    def old(block: ItemBlock) -> Bools:
        return np.asarray(block.step < n_steps)

    n_old, n_before = extensions.anchors, earlier.plan.n_agents
    drift, variance = np.full(n_before, np.nan), np.full(n_before, np.nan)
    level, level_variance, level_slots = np.nan, np.nan, 0
    if extensions.steps[-1].kind == "repeats":  # other responses are no drift
        return Drift(drift, variance, level, level_variance, level_slots)
    # new answers are held against old ones on the same items
    anchors = anchors_of(earlier, target="these-items")
    scale = scale_from(trials, anchors, rows=old)
    now = place_added(trials, anchors, scale, rows=new)
    found = drift_in_slots(answers_of_anchors(trials, less=anchors.fpr, rows=new), scale=scale)
    if found is not None and extensions.steps[-1].kind == "calls":
        level, level_variance, level_slots = found.level, found.level_variance, found.level_slots
    if found is None:
        found = drift_beside(added_answers(trials, less=anchors.fpr, rows=new), effect=now.effect, scale=scale)
    if found is not None:
        drift[:n_old], variance[:n_old] = found.change, found.variance
    was = place_added(trials, anchors, scale, rows=old)
    effect = np.append(scale.effect, was.effect[n_old:n_before])
    known = np.append(scale.effect_variance, was.variance[n_old:n_before])
    placed = np.flatnonzero(now.n_trials[:n_before] > 0)
    drift[placed] = now.effect[placed] - effect[placed]
    variance[placed] = now.variance[placed] + known[placed]
    stretch = stretch_of(n_old)
    return Drift(stretch * drift, stretch**2 * variance, level, level_variance, level_slots)


ALPHA = 0.05
"""Chance that any agent, or the level, is said to have drifted though none has."""
POOL_WIDE = (
    "This judge makes no calls and weighs words by the whole pool, so that all was answered anew: 'before' is what it says today "
    "of what was asked before."
)
_SHOWN = 5


def describe_extension(facts: ExtensionFacts) -> tuple[str, ...]:
    """Describe what the last extension changed, in one sentence for each finding."""
    said = []
    if facts.joined:
        more = " …" if len(facts.joined) > _SHOWN else ""
        said.append(f"{counted(len(facts.joined), 'agent')} joined: {', '.join(facts.joined[:_SHOWN])}{more}.")
    if facts.joined_items:
        said.append(f"{counted(len(facts.joined_items), 'item')} joined.")
    moved = {
        move.agent: move.after - move.before
        for move in facts.moves
        if move.before is not None and move.after is not None and move.before != move.after
    }
    if moved:
        most = max(moved, key=lambda agent: abs(moved[agent]))
        said.append(f"{len(moved)} of {len(facts.moves)} abilities moved, {most} most, by {moved[most]:+.3f}.")
    else:
        said.append(f"No ability of the {len(facts.moves)} agents that were there moved.")
    what, why = {
        "repeats": ("by its new responses", "look at them"),
        "agents": (
            "with those that joined",
            "they may have a source or a style in common, or its responses or the judge changed",
        ),
        "items": ("on the new items", "they suit it otherwise, or the judge changed"),
        "calls": ("by the new answers", "look at its responses, and whether the judge changed"),
    }[facts.kind]
    drifted = [move for move in facts.moves if move.p is not None and move.p < ALPHA]
    said += [
        f"{move.agent} stands {abs(move.drift or 0):.3f} {'higher' if (move.drift or 0) > 0 else 'lower'} {what} than before "
        f"(p = {move.p:.2g}, corrected for {len(facts.moves)} agents): {why}."
        for move in drifted
    ]
    if not drifted and any(move.p is not None for move in facts.moves):
        said.append(f"No agent that was there stands otherwise {what} beyond chance.")
    if facts.level is not None and facts.level_p is not None and facts.level_p < ALPHA:
        said.append(
            f"The judge says 'same source' {abs(facts.level):.3f} {'more' if facts.level > 0 else 'less'} often of the same "
            f"items than before (p = {facts.level_p:.2g}): the model that is served may have changed."
        )
    if facts.answered_anew:
        said.append(POOL_WIDE)
    return tuple(said)
