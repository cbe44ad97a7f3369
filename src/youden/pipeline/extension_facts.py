"""Report what an extension of a run changed: new agents, changed abilities, and drift of old agents or of the judge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from youden.engines.trial_blocks import ItemChunk, TrialsByItem
from youden.pipeline.abilities import Abilities, EstimationRequest
from youden.pipeline.linked_abilities import (
    fit_scale,
    link_agents,
    make_anchor_answer_source,
    make_linking_answer_source,
    select_trials_after_steps,
)
from youden.pipeline.ranking import estimate_anchor_abilities, estimate_or_fit
from youden.protocol.blocks import get_extensions
from youden.stats.trials.anchored import Drift, effect_scale, estimate_block_drift, estimate_partner_drift
from youden.stats.trials.comparisons import rank_with_ties
from youden.text.sentences import format_count
from youden.types.facts import AgentChange, ExtensionFacts
from youden.types.pool import Bools, or_none


def compute_extension_facts(
    trials: TrialsByItem, after: Abilities, *, answers_recomputed: bool
) -> ExtensionFacts | None:
    """Compare the abilities and ranks of a run with those before its last extension, and test agents and judge for drift.

    Drift is a change over time. The drift of an agent is its ability estimated from the added answers, minus its ability
    estimated from earlier answers on the same items. The drift of the judge is the mean change of its answers on the same items.

    trials : all trials of the run
    after : abilities that were estimated from all trials
    answers_recomputed : whether the judge answered the earlier trials again, because its answers have no request hashes;
        only recorded in the result

    Returns what the extension added, the drift of the judge with its p-value, and in `agent_changes` one change for each agent
    that was in the run before: abilities, ranks and drift. A value that cannot be estimated is None. For preferences, and after
    an extension by repeats, no drift can be estimated. After an extension by agents, by items, or by calls on some agents only,
    the drift of the judge cannot be estimated. Returns None for a run that was never extended. Nothing is written.
    """
    plan = trials.plan
    steps = get_extensions(plan).steps
    if not steps:
        return None

    earlier = select_trials_after_steps(trials, len(steps) - 1)
    before = estimate_or_fit(earlier, EstimationRequest(after.target))
    drift = _estimate_drift(trials, earlier)

    rank_before = rank_with_ties(before.ability)
    rank_after = rank_with_ties(after.ability)
    changes = [
        AgentChange(
            agent=agent,
            before=or_none(before.ability[position]),
            after=or_none(after.ability[position]),
            rank_before=int(rank_before[position]),
            rank_after=int(rank_after[position]),
            drift=or_none(drift.change[position]),
            std_error=or_none(np.sqrt(drift.variance[position])),
            p_holm=or_none(drift.p_holm[position]),
        )
        for position, agent in enumerate(earlier.plan.agent_ids)
    ]
    return ExtensionFacts(
        kind=steps[-1].kind,
        n_calls=trials.n - earlier.n,
        joined=plan.agent_ids[earlier.plan.n_agents :],
        joined_items=plan.item_ids[earlier.plan.n_items :],
        agent_changes=tuple(changes),
        judge_drift=or_none(drift.judge_drift),
        judge_drift_p=or_none(drift.judge_drift_p),
        answers_recomputed=answers_recomputed,
    )


def _estimate_drift(trials: TrialsByItem, earlier: TrialsByItem) -> Drift:
    """Estimate the drift, a change over time, of each earlier agent's ability and of the judge.

    New answers are compared with earlier ones on the same items. Drift cannot be estimated from an extension by repeats,
    because its trials show other responses. Drift is not estimated for preferences either.

    earlier : trials before the last extension
    """
    extensions = get_extensions(trials.plan)
    n_steps = len(extensions.steps)
    kind = extensions.steps[-1].kind

    # change of each agent's effect and its variance, NaN if unknown
    n_anchors, n_before = extensions.anchors, earlier.plan.n_agents
    change = np.full(n_before, np.nan)
    variance = np.full(n_before, np.nan)
    if kind == "repeats" or trials.plan.question == "preference":
        return Drift(change, variance, judge_drift=np.nan, judge_drift_variance=np.nan, n_blocks=0)

    def is_new(chunk: ItemChunk) -> Bools:
        return np.asarray(chunk.step == n_steps)

    def is_old(chunk: ItemChunk) -> Bools:
        return np.asarray(chunk.step < n_steps)

    # drift of the anchors (agents of the first plan), by new complete blocks or else by new linking trials
    anchors = estimate_anchor_abilities(earlier, target="these-items")
    scale = fit_scale(trials, anchors, select=is_old)
    new = link_agents(trials, anchors, scale, select=is_new)
    block_drift = estimate_block_drift(make_anchor_answer_source(trials, select=is_new), scale=scale)
    anchor_drift = block_drift
    if block_drift is None:
        added = make_linking_answer_source(trials, select=is_new)
        anchor_drift = estimate_partner_drift(added, effect=new.effect, scale=scale)
    if anchor_drift is not None:
        change[:n_anchors] = anchor_drift.change
        variance[:n_anchors] = anchor_drift.variance

    # drift of agents with new linking trials: effect by these trials minus earlier effect
    old = link_agents(trials, anchors, scale, select=is_old)
    old_effect = np.append(scale.effect, old.effect[n_anchors:n_before])
    old_variance = np.append(scale.effect_variance, old.variance[n_anchors:n_before])
    linked = np.flatnonzero(new.n_trials[:n_before] > 0)
    change[linked] = new.effect[linked] - old_effect[linked]
    variance[linked] = new.variance[linked] + old_variance[linked]

    ability_per_effect = effect_scale(n_anchors)
    drift = Drift(
        ability_per_effect * change,
        ability_per_effect**2 * variance,
        judge_drift=np.nan,
        judge_drift_variance=np.nan,
        n_blocks=0,
    )
    if block_drift is None or kind != "calls":
        return drift
    return replace(
        drift,
        judge_drift=block_drift.judge_drift,
        judge_drift_variance=block_drift.judge_drift_variance,
        n_blocks=block_drift.n_blocks,
    )


ALPHA = 0.05
"""Significance level of the drift of agents, familywise over all agents."""
_JUDGE_ALPHA = 0.01
"""Significance level of judge drift. A change of .1 is then detected in about 98% of extensions by 900 calls."""
POOL_WIDE_MESSAGE = (
    "This judge makes no calls, and its answers may depend on the whole pool, so all trials were answered again: 'before' refers "
    "to its present answers to the earlier trials."
)
_MAX_NAMED = 5


def describe_extension(facts: ExtensionFacts) -> tuple[str, ...]:
    """Describe in sentences what an extension of a run has changed.

    An extension adds agents, items, repeats or calls to a run that was judged before. Drift is a change over time, of an
    agent's ability or of the judge's answers to the same items.

    Parameters
    ----------
    facts : ExtensionFacts
        Changes by the last extension of a run.

    Returns
    -------
    tuple of str
        Sentences about the agents and items that joined, the abilities that changed, and the drift. The last sentence is
        `POOL_WIDE_MESSAGE` if the judge answered the earlier trials again (`facts.answers_recomputed`).
    """
    sentences = _describe_added_agents_and_items(facts)
    sentences.append(_describe_changes(facts))
    sentences += _describe_drift(facts)
    if facts.judge_drift is not None and facts.judge_drift_p is not None and facts.judge_drift_p < _JUDGE_ALPHA:
        sentences.append(_describe_judge_drift(facts.judge_drift, facts.judge_drift_p))
    if facts.answers_recomputed:
        sentences.append(POOL_WIDE_MESSAGE)
    return tuple(sentences)


def _describe_added_agents_and_items(facts: ExtensionFacts) -> list[str]:
    """Name the agents and count the items that the last extension added to a run.

    At most `_MAX_NAMED` agents are named. The list has one sentence about the agents and one about the items, each only if some
    were added.
    """
    sentences = []
    if facts.joined:
        names = ", ".join(facts.joined[:_MAX_NAMED])
        suffix = " …" if len(facts.joined) > _MAX_NAMED else ""
        sentences.append(f"{format_count(len(facts.joined), 'agent')} joined: {names}{suffix}.")
    if facts.joined_items:
        sentences.append(f"{format_count(len(facts.joined_items), 'item')} joined.")
    return sentences


def _describe_judge_drift(drift: float, p_value: float) -> str:
    """State in one sentence by how much the judge's answers to new comparisons on the same items have changed."""
    direction = "more" if drift > 0 else "less"
    return (
        f"The judge answers 'same source' {abs(drift):.3f} {direction} often to the new comparisons than its earlier answers to "
        f"other comparisons on the same items predict (p = {p_value:.2g}): its model may have changed."
    )


def _describe_changes(facts: ExtensionFacts) -> str:
    """State how many abilities of earlier agents changed, and which one changed the most."""
    change_by_agent = {
        change.agent: change.after - change.before
        for change in facts.agent_changes
        if change.before is not None and change.after is not None and change.before != change.after
    }
    n_agents = len(facts.agent_changes)
    if not change_by_agent:
        return f"No ability of the {n_agents} earlier agents changed."
    largest = max(change_by_agent, key=lambda agent: abs(change_by_agent[agent]))
    return (
        f"{len(change_by_agent)} of {n_agents} abilities changed, that of {largest} the most, by "
        f"{change_by_agent[largest]:+.3f}."
    )


_DRIFT_BASIS = {
    "repeats": "by its new responses",
    "agents": "against the new agents",
    "items": "on the new items",
    "calls": "by the new answers",
}
"""What shows the drift of an agent, by kind of extension."""
_DRIFT_ADVICE = {
    "repeats": "check them",
    "agents": "they may share a source or a style with it, or its responses or the judge changed",
    "items": "they suit it better or worse, or the judge changed",
    "calls": "check its responses, and whether the judge changed",
}
"""Advice about an agent that has drifted, by kind of extension."""


def _describe_drift(facts: ExtensionFacts) -> list[str]:
    """State which earlier agents changed their ability significantly since the first judging (drift).

    There is one sentence per agent. If agents were tested and none drifted, a single sentence states that. The list is empty if
    no agent could be tested.
    """
    p_values = [change.p_holm for change in facts.agent_changes if change.p_holm is not None]
    if not p_values:
        return []
    if min(p_values) >= ALPHA:
        return [f"No earlier agent drifted significantly {_DRIFT_BASIS[facts.kind]}."]

    n_agents = len(facts.agent_changes)
    return [
        _describe_agent_drift(change, facts.kind, n_agents)
        for change in facts.agent_changes
        if change.p_holm is not None and change.p_holm < ALPHA
    ]


def _describe_agent_drift(change: AgentChange, kind: str, n_agents: int) -> str:
    """State in one sentence by how much the ability of an agent drifted, and what to check.

    change : drift of the agent, with its p-value
    kind : kind of the extension that showed the drift, a key of `_DRIFT_BASIS`
    n_agents : number of agents that the p-value is corrected for
    """
    drift = change.drift or 0
    direction = "higher" if drift > 0 else "lower"
    return (
        f"The ability of {change.agent} is {abs(drift):.3f} {direction} {_DRIFT_BASIS[kind]} than before "
        f"(p = {change.p_holm:.2g}, corrected for {n_agents} agents): {_DRIFT_ADVICE[kind]}."
    )
