"""Estimate the self-consistency of agents from the self-trials of a run, as abilities of a ranking.

Every later step, from the ranking table to a gate, then works as for other plans. The covariance is not centered, because one
agent alone has no distance from an average agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from youden.engines.trial_blocks import TrialsByItem
from youden.errors import StatisticsError
from youden.pipeline.abilities import LEVEL, SELF_RANKING, Abilities, EstimationRequest
from youden.stats.trials.agent_rates import AgentRates
from youden.stats.trials.replication import (
    ReplicationScores,
    SelfConsistency,
    estimate_self_consistency,
    replication_scores,
)
from youden.types import Finding, Verdicts
from youden.types.pool import Positions

if TYPE_CHECKING:
    import pandas as pd

METHOD = "self-trials, dyadic cluster-robust by item, Student t"


def check_self_target(target: str) -> None:
    """Raise StatisticsError [self-target] if the target of self-trials is not "items-like-these".

    Self-trials compare responses of one agent with each other.
    """
    if target != "items-like-these":
        raise StatisticsError(
            f"Self-consistency cannot be estimated for this target: got '{target}'. Set `target: items-like-these`.",
            slug="self-target",
        )


def estimate_self_abilities(trials: TrialsByItem, request: EstimationRequest) -> Abilities:
    """Estimate abilities of a plan that has only self-trials.

    A self-trial compares two responses of the same agent. The ability of an agent is its self-consistency: its mean answer to
    paired self-trials (two responses to one item) minus its mean answer to independent ones (responses to two items).

    request : its target must be "items-like-these"; its other options have no effect

    Raises StatisticsError [self-target] for another target.
    """
    check_self_target(request.target)
    n_agents = trials.plan.n_agents
    self_consistency = estimate_from_self_trials(trials)
    return Abilities(
        ability=self_consistency.value,
        covariance=self_consistency.covariance,
        n_trials=self_consistency.n_paired.astype(np.int32),
        rates=AgentRates.unknown(n_agents),
        ranking=SELF_RANKING,
        method=METHOD,
        target=request.target,
        component=np.zeros(n_agents, dtype=np.int32),
    )


def estimate_from_self_trials(trials: TrialsByItem) -> SelfConsistency:
    """Estimate the self-consistency J = TPR − FPR of each agent from the self-trials of a run."""
    self_trials = trials.read_self_trials()
    return estimate_self_consistency(
        self_trials["first"],
        self_trials["item"],
        self_trials["other_item"],
        self_trials["answer"],
        n_agents=trials.plan.n_agents,
        n_items=trials.plan.n_items,
    )


def tabulate_self_consistency(trials: TrialsByItem) -> pd.DataFrame:
    """Tabulate the self-consistency of each agent with its 95% interval.

    The columns are added to the ranking. They are computed from self-trials, which compare two responses of one agent.

    Returns a table with the agents' ids as index, and the columns `self_consistency`, `self_consistency_low` and
    `self_consistency_high`. The table has no columns if the run has no self-trials, or only self-trials. In the second case,
    the ability in the ranking is already the self-consistency.
    """
    import pandas as pd  # takes long to load

    index = pd.Index(trials.plan.agent_ids, name="agent")
    if trials.plan.is_self_plan or not trials.has_self_trials:
        return pd.DataFrame(index=index)
    self_consistency = estimate_from_self_trials(trials)
    half_width = self_consistency.covariance.half_width(LEVEL)
    interval_columns = {
        "self_consistency": self_consistency.value,
        "self_consistency_low": np.clip(self_consistency.value - half_width, -1, 1),
        "self_consistency_high": np.clip(self_consistency.value + half_width, -1, 1),
    }
    return pd.DataFrame(interval_columns, index=index)


def compare_with_self_consistency(ranking: pd.DataFrame) -> Iterator[Finding]:
    """Yield notes on consistent agents with a low ability and on inconsistent agents.

    Self-consistency is the rate at which two responses of one agent to the same item match, minus the rate for different items.
    It is low if its 95% interval is below the mean of all agents. The first note names agents whose self-consistency is not
    low, but whose ability is significantly below the mean and below their self-consistency.

    ranking : ranking table; without the columns of `tabulate_self_consistency`, there are no notes
    """
    if "self_consistency" not in ranking:
        return

    is_inconsistent = ranking["self_consistency_high"] < ranking["self_consistency"].mean()
    has_low_ability = ranking["high"] < ranking["ability"].mean()
    has_higher_consistency = ranking["self_consistency_low"] > ranking["high"]
    is_uncorroborated = has_low_ability & has_higher_consistency & ~is_inconsistent
    uncorroborated = tuple(ranking["agent"][is_uncorroborated])
    if uncorroborated:
        message = (
            f"High self-consistency and low ability of {', '.join(uncorroborated)}: stable, but not corroborated by peers. Two "
            "responses of one agent to an item match more often than responses of different agents. The agent may repeat its "
            "mistakes, or be alone in being correct."
        )
        yield Finding("not-corroborated", message, severity="note", agents=uncorroborated)

    inconsistent_agents = tuple(ranking["agent"][is_inconsistent])
    if inconsistent_agents:
        message = (
            f"Low self-consistency of {', '.join(inconsistent_agents)}: responses to one item vary in content. This bounds what "
            "ability can reach: two agents match at most as often as the geometric mean of how often each matches itself."
        )
        yield Finding("low-self-consistency", message, severity="note", agents=inconsistent_agents)


def _tabulate_comparisons(verdicts: Verdicts, rows: Positions) -> pd.DataFrame:
    """Tabulate self-trials with two rows per trial, so that answers can be grouped by response.

    A self-trial compares two responses of one agent, to the same item or to different items. The table has a row for each of
    them.

    verdicts : answers of the run
    rows : int array (n_self_trials,), positions of the self-trials in the plan

    Returns a table with the position of the trial in the plan as the index, and these columns:

    - `response`, `partner`: numbers of this response and of the other response of the trial;
    - `is_same_item`: whether they respond to the same item;
    - `answer`: 0 or 1.
    """
    import pandas as pd  # takes long to load

    plan = verdicts.plan
    trials = plan.trials.take(rows)
    first_item, second_item = trials.text_cells
    first_row, second_row = trials.text_rows(plan.n_agents)

    # number each response by its row in the table of texts (one row per agent and repeat) and its item
    first = first_row.astype(np.int64) * plan.n_items + first_item
    second = second_row.astype(np.int64) * plan.n_items + second_item
    columns = {
        "response": np.append(first, second),
        "partner": np.append(second, first),
        "is_same_item": np.tile(first_item == second_item, 2),
        "answer": np.tile(verdicts.hard_answer[rows], 2),
    }
    return pd.DataFrame(columns, index=np.tile(rows, 2))


def replication_bounds(verdicts: Verdicts, agent: str) -> ReplicationScores:
    """Compute replication scores of the responses of an agent from the self-trials of a run; their means are lower bounds.

    Parameters
    ----------
    verdicts : Verdicts
        Answers of a run of one or two agents, or of a run with `self_trials`.
    agent : str
        Id of the agent.

    Returns
    -------
    ReplicationScores
        One score of each kind per response of a self-trial, in the order of repeats, then items. A KL score is NaN if no
        further response to the item matches.

    Raises
    ------
    StatisticsError
        [replication-agent]: if the run has no answered self-trial of the agent.

    Notes
    -----
    R₀ is the number of responses to other items with which a response is compared until one of them matches. Each response is
    compared with only m responses to other items, in the order of the plan, and usually matches none of them. R₀ is therefore
    replaced by min(R₀, m + 1). As the plan fixes m, the expected mean Pearson score is at most the χ² information. If no KL
    score is NaN, the expected mean KL score is at most the Shannon information. The judge's decisions are used. The two orders
    of a pair of responses count once, by the first answer.
    """
    plan = verdicts.plan
    position = plan.agent_ids.index(agent) if agent in plan.agent_ids else -1
    rows = np.flatnonzero((plan.first == position) & (plan.second == position) & verdicts.answered)
    if not len(rows):
        raise StatisticsError(
            f"The run has no answered self-trials of this agent: got '{agent}'. Pass an agent of a run with self-trials, for "
            "example one with `self_trials: 100`.",
            slug="replication-agent",
        )

    # one row per response, with the first comparison of each pair of responses, in the order of the plan
    comparisons = _tabulate_comparisons(verdicts, rows).sort_index(kind="stable")
    comparisons = comparisons.drop_duplicates(["response", "partner"])
    comparisons["number"] = comparisons.groupby(["response", "is_same_item"]).cumcount()
    table = comparisons.pivot(index="response", columns=["is_same_item", "number"], values="answer")
    unknown = np.full((len(table), 1), np.nan)
    same_item, other_items = (table[kind].to_numpy() if kind in table else unknown for kind in (True, False))

    # a match after the last comparison turns R₀ into min(R₀, m + 1)
    certain_match = np.ones(len(table))
    return replication_scores(same_item, np.column_stack([other_items, certain_match]))
