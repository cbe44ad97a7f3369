"""Plan the rounds of a search for the best agents of a judged run.

Each round is a step of an extension, so that the folder is complete after each, and the same command resumes
the search.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from youden.data.folder.extension_steps import ExtensionRequest, ExtensionStep
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, PlanError
from youden.pipeline.abilities import LEVEL, Abilities, select_best_agents
from youden.pipeline.interim_analyses import analyze_extended_run
from youden.pipeline.ranking import estimate_abilities
from youden.pipeline.recommendation import explain_no_discrimination
from youden.protocol.designs.adaptive import DEFAULT_ROUNDS, select_contenders
from youden.protocol.pooled_trials import count_added_calls
from youden.stats.trials.best_selection import are_comparable, next_allocation, select_best
from youden.stats.trials.comparisons import Differences, pairwise_differences
from youden.types.pool import Bools


def plan_search_round(config: RunConfig, request: ExtensionRequest, *, number: int, spent: int) -> ExtensionStep | str:
    """Plan the next round of a search for the best agents, or return the reason why there is none.

    Parameters
    ----------
    config : RunConfig
        Config of the run with the earlier rounds.
    request : ExtensionRequest
        Options of the search: `top` (agents to select; None means 1), `calls` (maximum for the whole search; None for no
        maximum) and `max_regret`. Without a maximum regret, `calls` is required, and the calls are divided among 5 rounds
        (`DEFAULT_ROUNDS`) on fewer and fewer contenders. With a maximum regret, each round spends calls on the agents that are
        too uncertain: because of them, the regret bound is still above the maximum.
    number, spent : int
        Number of rounds and of calls of the search so far; 0 and 0 at its start.

    Returns
    -------
    ExtensionStep or str
        The round (`calls`, and in `focus` the ids of the agents that are compared), or the reason why the search ends: the calls
        are spent, the regret bound is met, or the judge does not discriminate. Nothing is written.

    Raises
    ------
    ConfigError
        [extend-search] if the search would select all agents, or some agents cannot be compared with the leader.
    PlanError
        [extend-too-few-calls] if the calls of the search do not suffice for one round.
    RunFolderError
        If the run is not judged, or one of its files is damaged.
    """
    folder = RunFolder(config.folder)
    verdicts = folder.read_verdicts(folder.read_plan())
    plan, top, max_regret = verdicts.plan, request.top or 1, request.max_regret
    if top >= plan.n_agents:
        raise ConfigError(
            f"A search for the {top} best of {plan.n_agents} agents selects all of them: got top = {top}. Set a smaller number.",
            slug="extend-search",
        )
    ranked = estimate_abilities(verdicts, target=config.target)
    reason = explain_no_discrimination(verdicts, ranked)
    if reason:
        return reason
    pairwise = pairwise_differences(ranked.ability, ranked.covariance, level=LEVEL)
    if not are_comparable(pairwise):
        raise ConfigError("Some agents cannot be compared with the leader. Add calls first.", slug="extend-search")

    remaining = np.inf if request.calls is None else request.calls - spent
    if max_regret is None:
        if number == DEFAULT_ROUNDS:
            return "the calls are spent"
        is_active = select_contenders(ranked.ability, top, (number + 1) / DEFAULT_ROUNDS)
        n_active = int(is_active.sum())
        n_calls = remaining / max(DEFAULT_ROUNDS - number, 1)
    else:
        allocation = _allocate_by_regret(ranked, pairwise, top=top, max_regret=max_regret)
        if allocation is None:
            return "the regret bound is met"
        is_active, trials_per_agent = allocation
        n_active = int(is_active.sum())
        n_trials = n_active * max(trials_per_agent, 2)  # a block has two trials of each agent
        n_calls = min(remaining, count_added_calls(plan, n_trials, n_scored=n_active))

    min_calls = count_added_calls(plan, 2 * n_active, n_scored=n_active)
    if n_calls < min_calls and spent == 0:
        n_rounds = DEFAULT_ROUNDS if max_regret is None else 1
        raise PlanError(
            f"The calls are too few for a first round on {n_active} agents: got {request.calls}. Set at least "
            f"{n_rounds * min_calls} calls.",
            slug="extend-too-few-calls",
        )
    if n_calls < min_calls:
        return "the calls are spent"
    focus = [plan.agent_ids[k] for k in np.flatnonzero(is_active)]
    return ExtensionStep(calls=int(n_calls), focus=focus, top=top, max_regret=max_regret)


def _allocate_by_regret(
    abilities: Abilities, differences: Differences, *, top: int, max_regret: float
) -> tuple[Bools, int] | None:
    """Decide which agents of a search need further trials, and how many.

    The search continues until the regret bound is at most `max_regret`. The regret is the ability of the best agent minus that of
    the selected agent, and the bound is its upper confidence bound. All interim analyses of a search share one type I error rate
    (alpha), so each spends only a fraction of it.

    abilities : abilities. If the run was planned as a search from the beginning, they include its interim analyses so far.
    differences : differences of these abilities
    top : number of agents to select
    max_regret : regret bound to reach

    Returns a bool array (n_agents,) of the agents that need further trials, and the number of trials for each of them. Returns
    None if no further trials are needed.
    """
    if abilities.search is not None and abilities.search.top == top:
        analysis = abilities.search.analyses[-1]
        selection = select_best_agents(abilities, differences)
    else:
        # the run was planned for another purpose, so this is the first analysis
        analysis = analyze_extended_run(abilities, top=top, max_regret=max_regret)
        selection = select_best(abilities.ability, abilities.covariance, differences, top=top)

    if selection is not None and selection.regret_bound <= max_regret:
        return None

    alpha_of_last_analysis = analysis.final_alpha_fraction  # as a fraction of alpha
    is_active, trial_fraction, _ = next_allocation(
        differences, analysis.upper_bounds, top=top, alpha_fraction=alpha_of_last_analysis, max_regret=max_regret
    )

    # the number of further trials is given as a fraction of the largest number of trials that one of these agents has
    most_trials = float(abilities.n_trials[is_active].max())
    return is_active, ceil(trial_fraction * most_trials)
