"""Estimate the self-consistency of agents from the self-trials of a run, as abilities of a ranking.

Every later step, from the ranking table to a gate, then works as for other plans. The covariance is not centred, because one
agent alone has no distance from an average agent.
"""

from __future__ import annotations

import numpy as np

from youden.engines.trial_blocks import TrialsByItem
from youden.errors import StatisticsError
from youden.pipeline.abilities import SELF_RANKING, Abilities, EstimationRequest
from youden.stats.trials.agent_rates import AgentRates
from youden.stats.trials.replication import estimate_self_consistency

METHOD = "self-trials, dyadic cluster-robust by item, Student t"


def check_self_target(target: str) -> None:
    """Raise StatisticsError [self-target] if the target of self-trials is not "items-like-these"."""
    if target != "items-like-these":
        raise StatisticsError(
            f"Self-consistency cannot be estimated for this target: got '{target}'. Set `target: items-like-these`.",
            slug="self-target",
        )


def estimate_self_abilities(trials: TrialsByItem, request: EstimationRequest) -> Abilities:
    """Estimate J of each agent: its mean answer to paired self-trials minus that to independent ones.

    Raises StatisticsError [self-target] for another target than items like these.
    """
    check_self_target(request.target)
    plan = trials.plan
    columns = trials.read_self_trials()
    result = estimate_self_consistency(
        columns["first"],
        columns["item"],
        columns["other_item"],
        columns["answer"],
        n_agents=plan.n_agents,
        n_items=plan.n_items,
    )
    return Abilities(
        result.value,
        result.covariance,
        result.n_paired.astype(np.int32),
        AgentRates.unknown(plan.n_agents),
        SELF_RANKING,
        METHOD,
        request.target,
        np.zeros(plan.n_agents, dtype=np.int32),
    )
