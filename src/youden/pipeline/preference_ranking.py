"""Rank agents by preferences: the selection of the best, the biases of the judge, and what the run recommends.

A run that asks which of two responses is better has no true- and false-positive rates. It recommends no agent if agents were
compared on too few items, or if the answers may be an effect of the position of the responses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from youden.pipeline.abilities import Abilities, agent_differences, summarize_choice
from youden.pipeline.preference_abilities import Preferences
from youden.pipeline.recommendation import assess_signal, recommend_from_abilities, recommend_no_agent
from youden.stats.base.clusters import MIN_ITEMS
from youden.stats.trials.comparisons import Differences, describe_components
from youden.text.sentences import format_count
from youden.types import Finding
from youden.types.facts import POSITION_REMEDY, ChoiceFacts, PartialFacts, PreferenceFacts
from youden.types.pool import Positions, or_none
from youden.types.recommendation import JudgeSignalFacts, Recommendation

MAX_POSITION_EFFECT = 0.2
"""A run warns if the position effect is significant and at least this large."""
MAX_LENGTH_CORRELATION = 0.5
"""A run warns if the preference correlates with length at least this much."""


class PreferenceSummary(NamedTuple):
    """What a ranking by preferences states.

    Attributes
    ----------
    differences : Differences
        Differences of all pairs of agents.
    choice : ChoiceFacts or None
        The selected agents with their regret bound; None if some agents cannot be compared.
    signal : JudgeSignalFacts
        Test of equal abilities.
    preference : PreferenceFacts
        Position bias, ties and correlation with length.
    warnings : tuple of Finding
        Findings about the run.
    recommendation : Recommendation
        The recommended agents or candidates, or why there are none.
    component_message : str
        Warning about agents that no trials link; empty if there are none.
    """

    differences: Differences
    choice: ChoiceFacts | None
    signal: JudgeSignalFacts
    preference: PreferenceFacts
    warnings: tuple[Finding, ...]
    recommendation: Recommendation
    component_message: str


def summarize_preferences(
    abilities: Abilities,
    preferences: Preferences,
    agent_ids: tuple[str, ...],
    *,
    length_correlation: float = np.nan,
    partial: PartialFacts | None = None,
    warnings: Sequence[Finding] = (),
) -> PreferenceSummary:
    """Summarize a ranking by preferences: what can be concluded from the abilities, and how far position and length matter.

    abilities : abilities that were estimated from `preferences`
    preferences : answered trials
    agent_ids : ids of the agents, in the order of `abilities`
    length_correlation : correlation of the preference with the log ratio of lengths; NaN if unknown
    partial : state of an unfinished run; None for a finished one
    warnings : findings so far

    Returns the `recommendation`, and what it is based on:

    - `differences`, the pairwise differences;
    - `choice`, the selected agent with its regret bound of at most 1; None if some agents cannot be compared;
    - `signal`, the test whether all abilities are equal;
    - `preference`, the facts on position bias and ties;
    - `warnings`, to which those about biases are added;
    - `component_message`, a warning about agents that no trials link; empty if there are none.
    """
    differences = agent_differences(abilities)
    choice = summarize_choice(abilities, agent_ids, differences=differences)
    if choice is not None:
        # the largest possible difference of a win rate and a loss rate is 1
        choice = replace(choice, regret_bound=min(choice.regret_bound, 1.0))

    effect = abilities.position_effect
    is_tie = preferences.answer == 0.5
    preference = PreferenceFacts(
        len(preferences.answer),
        float(is_tie.mean()),
        or_none(effect.value),
        or_none(effect.low),
        or_none(effect.high),
        or_none(length_correlation),
    )
    signal = assess_signal(None, abilities)

    component_message = describe_components(abilities.component, by_pairs=True)
    all_warnings = [] if partial is None else [partial.to_finding()]
    all_warnings += [*warnings, *_find_biases(preference)]
    if component_message:
        all_warnings.append(Finding("fit", component_message))

    agent_of_cell, _ = preferences.find_cells()
    n_items = np.bincount(agent_of_cell, minlength=len(agent_ids))
    recommendation = _explain_insufficient_data(preference, abilities, agent_ids, n_items)
    if recommendation is None:
        recommendation = recommend_from_abilities(choice, signal, abilities, warnings=all_warnings)

    # a text without a recommendation states the position bias, unless this bias is its reason
    has_some_bias = preference.has_position_bias and not preference.follows_position
    if recommendation.form == "none" and has_some_bias:
        recommendation = replace(recommendation, text=f"{recommendation.text} {preference.position_text}")
    recommendation = replace(recommendation, decided_by="preference")
    return PreferenceSummary(
        differences, choice, signal, preference, tuple(all_warnings), recommendation, component_message
    )


def _explain_insufficient_data(
    preference: PreferenceFacts, abilities: Abilities, agent_ids: tuple[str, ...], n_items: Positions
) -> Recommendation | None:
    """Explain why the preferences of a judge are not sufficient to recommend any agent.

    There are three possible reasons:

    - An agent was compared on too few items.
    - The ability of an agent depends on too few comparisons.
    - The judge may prefer the position of a response instead of its content.

    preference : facts about the preferences, with the position bias of the judge
    abilities : abilities, whose degrees of freedom are NaN for an agent that depends on too few comparisons
    agent_ids : ids of the agents, in the order of `abilities`
    n_items : int array (n_agents,), number of items that each agent was compared on

    Returns the decision to recommend no agent, with the reason; None if the preferences are sufficient.
    """
    has_too_few_items = (n_items > 0) & (n_items < MIN_ITEMS)
    if has_too_few_items.any():
        agent = int(has_too_few_items.argmax())
        compared = f"{agent_ids[agent]} was compared on {format_count(n_items[agent], 'item')} only"
        return recommend_no_agent(f"{compared}; an interval needs {MIN_ITEMS}", "Add comparisons on more items.")

    position_decision = _explain_position_problem(preference)
    if position_decision is not None:
        return position_decision

    depends_on_few = (n_items > 0) & np.isnan(abilities.covariance.df)
    if depends_on_few.any():
        name = agent_ids[int(depends_on_few.argmax())]
        reason = (
            f"the ability of {name} depends on too few comparisons, such as the only ones in one order, or the only ones that "
            "link it to other agents"
        )
        return recommend_no_agent(reason, f"Add comparisons of {name} in both orders, with several agents.")
    return None


def _explain_position_problem(preference: PreferenceFacts) -> Recommendation | None:
    """Explain why no agent is recommended if positions of responses may explain the preferences.

    A judge with a position bias prefers the first or the second response, whichever agents are compared.

    preference : facts about the preferences, with the position bias of the judge

    Returns the decision to recommend no agent, with the reason; None if the position is not a problem.
    """
    if preference.position_problem:
        return recommend_no_agent(preference.position_problem, POSITION_REMEDY)

    if preference.follows_position:
        reason = "the answers follow the position of the responses, whichever agents are compared"
        return recommend_no_agent(reason, "Use another judge or prompt.")
    return None


def _find_biases(preference: PreferenceFacts) -> Iterator[Finding]:
    """Yield a warning if the judge prefers a position, and one if it prefers long or short responses."""
    effect = preference.position_effect
    # None is an effect that cannot be estimated, so it may be a bias
    if effect is None or (preference.has_position_bias and abs(effect) >= MAX_POSITION_EFFECT):
        yield Finding(
            "position-bias", preference.position_text, remedy=POSITION_REMEDY, facts={"position_effect": effect}
        )

    correlation = preference.length_correlation
    if correlation is not None and abs(correlation) >= MAX_LENGTH_CORRELATION:
        comparative = "longer" if correlation > 0 else "shorter"
        text = f"The judge prefers {comparative} responses (r = {correlation:.2f})."
        yield Finding("length", text, facts={"correlation": correlation})
