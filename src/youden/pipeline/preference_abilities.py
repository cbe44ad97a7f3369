"""Estimate abilities from preferences, the answers to "which of two responses is better?".

All trials count for both of their agents. An extended run therefore has the abilities of a run with the same trials that was
judged at once. Those of a run in rounds are also corrected for adaptive-sampling bias.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from youden.engines.trial_blocks import TrialsByItem
from youden.pipeline.abilities import Abilities, EstimationRequest, no_answers_error
from youden.pipeline.interim_analyses import analyze_rounds
from youden.pipeline.linked_abilities import analyze_extended_search
from youden.protocol.designs.adaptive import Adaptive
from youden.stats.trials.agent_rates import AgentRates
from youden.stats.trials.preferences import fit_preferences
from youden.types.pool import Floats, Ids, Positions

PREFERENCE_MODEL = "preference model"
"""Name of the estimator."""
INTERVAL_METHOD = "identity link with position effect, residuals by item, HC2, shrunk variances, Student t"


class Preferences(NamedTuple):
    """Answered trials of a run that asks for preferences, as columns (n_answers,): positions of agents and items, and answers."""

    first: Ids
    second: Ids
    item: Ids
    answer: Floats

    def count_items(self, n_agents: int) -> Positions:
        """Count the items that each agent was compared on: int array (n_agents,)."""
        agents = np.append(self.first, self.second).astype(np.int64)
        cells = np.unique(agents + n_agents * np.tile(self.item, 2).astype(np.int64))
        return np.bincount(cells % n_agents, minlength=n_agents)


def read_preferences(trials: TrialsByItem) -> Preferences:
    """Return the answered trials of a run; raise StatisticsError [trial-none] if there are none."""
    chunks = [(chunk.first, chunk.second, chunk.start + chunk.item, chunk.answer) for chunk in trials.iter_answered()]
    first, second, item, answer = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
    if not len(answer):
        raise no_answers_error(trials.n)
    return Preferences(first, second, item, answer)


def _estimate_without_search(trials: TrialsByItem) -> Abilities:
    """Estimate abilities by all trials, without an analysis of a search."""
    n_agents = trials.plan.n_agents
    fit = fit_preferences(*read_preferences(trials), n_agents=n_agents)
    return Abilities(
        fit.ability,
        fit.covariance,
        fit.n_trials.astype(np.int32),
        AgentRates.unknown(n_agents),
        PREFERENCE_MODEL,
        INTERVAL_METHOD,
        "items-like-these",
        fit.component,
        position_effect=fit.position_effect,
    )


def estimate_preferences(trials: TrialsByItem, request: EstimationRequest) -> Abilities | None:
    """Estimate abilities from preferences, and analyze the search for the best agents if the run has one.

    Raises StatisticsError [trial-none] or [cluster-agents] if there are too few answers.
    """
    plan = trials.plan
    if plan.design != Adaptive.name:
        return analyze_extended_search(trials, _estimate_without_search)

    def estimate_until(last_round: int) -> Abilities:
        return _estimate_without_search(trials.select(plan, lambda columns: columns["step"] <= last_round))

    return analyze_rounds(trials, request, estimate_until)
