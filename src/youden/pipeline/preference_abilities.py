"""Estimate abilities from preferences, the answers to "which of two responses is better?".

All trials count for both of their agents. An extended run therefore has the abilities of a run with the same trials that was
judged at once. Those of a run in rounds are also corrected for adaptive-sampling bias.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from youden.engines.trial_blocks import TrialsByItem
from youden.pipeline.abilities import Abilities, EstimationRequest, make_no_answers_error
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
    """Answered trials of a run that asks for preferences, as columns.

    Attributes
    ----------
    first, second : int32 array (n_answers,)
        Positions of the agents whose responses were shown first and second.
    item : int32 array (n_answers,)
        Position of the item in the run.
    answer : float array (n_answers,)
        Preference for the first response, from 0 to 1; 0.5 for a tie.
    """

    first: Ids
    second: Ids
    item: Ids
    answer: Floats

    def find_cells(self) -> tuple[Positions, Positions]:
        """Find the cells (agent and item) with a trial: positions of their agents and items, int arrays (n_cells,)."""
        agent = np.append(self.first, self.second).astype(np.int64)
        item = np.tile(self.item, 2)
        n_items = int(self.item.max(initial=0)) + 1
        agent_of_cell, item_of_cell = np.divmod(np.unique(agent * n_items + item), n_items)
        return agent_of_cell, item_of_cell


def collect_preferences(trials: TrialsByItem) -> Preferences:
    """Collect the answered trials of a run whose judge states which response is better, as columns.

    Raises StatisticsError [trial-none] if no trial was answered.
    """
    chunks = [
        Preferences(chunk.first, chunk.second, chunk.start + chunk.item, chunk.answer)
        for chunk in trials.iter_answered()
    ]
    if not any(len(chunk.answer) for chunk in chunks):
        raise make_no_answers_error(trials.n)

    return Preferences(*map(np.concatenate, zip(*chunks, strict=True)))


def _fit_abilities(trials: TrialsByItem) -> Abilities:
    """Estimate abilities by a fit of the preference model to all answers.

    The judge states which of two responses is better. The model estimates how often each agent wins minus how often it loses
    against the average agent. It also estimates how much the position of a response matters.

    Raises StatisticsError [trial-none] or [cluster-agents] if there are too few answers.
    """
    n_agents = trials.plan.n_agents
    preferences = collect_preferences(trials)
    fit = fit_preferences(*preferences, n_agents=n_agents)
    return Abilities(
        ability=fit.ability,
        covariance=fit.covariance,
        n_trials=fit.n_trials.astype(np.int32),
        rates=AgentRates.unknown(n_agents),
        ranking=PREFERENCE_MODEL,
        method=INTERVAL_METHOD,
        target="items-like-these",
        component=fit.component,
        position_effect=fit.position_effect,
    )


def estimate_preferences(trials: TrialsByItem, request: EstimationRequest) -> Abilities | None:
    """Estimate abilities from preferences, and analyze the search for the best agents if the run has one.

    trials : trials of the run
    request : options of the estimation. Only `previous_search` has an effect: its analyses are not repeated. The intervals
        always refer to items like those of the run.

    Returns the abilities. Returns None if, after a round of a search, comparisons do not connect all agents.

    Raises StatisticsError [trial-none] or [cluster-agents] if there are too few answers.
    """
    plan = trials.plan
    is_search_in_rounds = plan.design == Adaptive.name
    if not is_search_in_rounds:
        return analyze_extended_search(trials, _fit_abilities)  # estimates abilities only, if no extension is a search

    def estimate_until(last_round: int) -> Abilities:
        """Estimate abilities by the answers of the rounds up to `last_round`."""
        trials_so_far = trials.select(plan, lambda columns: columns["step"] <= last_round)
        return _fit_abilities(trials_so_far)

    return analyze_rounds(trials, request, estimate_until)
