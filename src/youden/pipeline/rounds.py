"""Run a plan in rounds to its end: plan, judge, analyze, plan the next round.

Rounds to a given half-width sample all agents equally and ignore the ranking, so interim analyses cost no alpha. They
can only stop a little early, if the variance happens to be underestimated. To limit that, there are few rounds, and
each approaches the required number of blocks from below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import Any, Literal

import numpy as np

from youden.pipeline.abilities import Abilities, SearchState, select_best_agents
from youden.pipeline.precision import estimate_variance_components
from youden.protocol.blocks import with_round
from youden.protocol.designs.adaptive import NextRound, get_adaptive_design
from youden.protocol.designs.cyclic import number_blocks
from youden.protocol.designs.fixed_width import HALF_WIDTH_FRACTION, FixedWidth, get_width_design
from youden.protocol.pooled_trials import (
    count_added_independent,
    draw_pooled_trials,
    draw_scored_trials,
    has_free_calls,
)
from youden.run_keys import Target
from youden.stats.forecast import LEVEL, find_min_blocks, find_min_items, half_width_quantile, half_widths
from youden.stats.trials.best_selection import are_comparable, next_allocation
from youden.stats.trials.comparisons import Differences, pairwise_differences
from youden.streams import stream
from youden.types import PAIRED, Plan, Rounds, Trials, Verdicts
from youden.types.pool import Bools

APPROACH_FRACTION = 0.7
"""Fraction of the missing blocks that a round adds, while the goal is not nearly reached (see `NEAR_FRACTION`)."""
NEAR_FRACTION = 0.1
"""Relative distance from the goal at which it counts as nearly reached."""
MIN_STEP_FRACTION = 0.02
"""Minimum size of a round, as a fraction of the blocks so far, so that there are few rounds. The maximum is 1."""
UNATTAINABLE_FACTOR = 1.05
"""Factor of the half-width above which the limit that these items allow counts as too wide. Between the half-width and
this factor of it, rounds go on until the half-width is reached to within `NEAR_FRACTION`."""


def plan_width_round(
    result: Verdicts, design: FixedWidth, abilities: Abilities, *, eligible: Bools, rng: np.random.Generator
) -> NextRound:
    """Plan the next round to a given half-width, or state why there is none.

    eligible : bool array (n_agents, n_items), cells that may be compared; rng: in the state in which it drew
    the first round.
    """
    plan = result.plan
    all_agents = np.ones(plan.n_agents, dtype=np.bool_)
    n_done, n_spent = int(plan.block.max()) + 1, int((plan.block >= 0).sum())
    half_width = half_width_quantile(abilities.covariance.half_width(LEVEL), HALF_WIDTH_FRACTION)
    if half_width <= design.half_width:
        return NextRound(number_blocks([]), all_agents, "narrow")

    components = estimate_variance_components(result)
    n_items = int(eligible.any(axis=0).sum())
    max_blocks = (plan.n_agents - 1) * n_items

    def find_n_blocks(width: float) -> int | None:
        return find_min_blocks(components, width, fraction=HALF_WIDTH_FRACTION, n_items=n_items, max_blocks=max_blocks)

    n_needed = find_n_blocks(design.half_width)
    if n_needed is None and n_done >= min(n_items, max_blocks):
        smallest = half_width_quantile(half_widths(components, max_blocks, n_items), HALF_WIDTH_FRACTION)
        is_near = half_width <= (1 + NEAR_FRACTION) * design.half_width
        if smallest > UNATTAINABLE_FACTOR * design.half_width or is_near:
            n = find_min_items(components, design.half_width, fraction=HALF_WIDTH_FRACTION, n_agents=plan.n_agents)
            return NextRound(number_blocks([]), all_agents, "items", _format_items_needed(n))
        n_needed = find_n_blocks((1 + NEAR_FRACTION) * design.half_width)

    n_missing = (2 * n_done if n_needed is None else n_needed) - n_done
    step = n_missing if n_missing <= NEAR_FRACTION * n_done else ceil(APPROACH_FRACTION * n_missing)
    step = min(n_done, max(step, ceil(MIN_STEP_FRACTION * n_done)))
    trials = design.draw_blocks(eligible, rng, n_done=n_done, n_spent=n_spent, until=n_done + step)
    stop_reason: Literal["budget"] | None = None if len(trials) else "budget"
    return NextRound(trials, all_agents, stop_reason)


def find_search_allocation(
    result: Verdicts, abilities: Abilities, differences: Differences, max_regret: float
) -> dict[str, Any]:
    """Find the agents that keep the regret bound above `max_regret`, and how many more blocks they need.

    Returns keyword arguments of `Adaptive.next_round`: `active` and `n_blocks`. They are empty if some agents cannot be
    compared, or if there was no analysis.
    """
    search, plan = abilities.search, result.plan
    if search is None or not are_comparable(differences):
        return {}
    last = search.analyses[-1]
    active, growth, _ = next_allocation(
        differences, last.upper_bounds, top=search.top, alpha_fraction=last.final_alpha_fraction, max_regret=max_regret
    )
    n_blocks = float(plan.trials.weight_by_agent(plan.block >= 0, plan.n_agents)[active].max())
    return {"active": active, "n_blocks": ceil(n_blocks * growth)}


def _format_items_needed(n_items: int | None) -> str:
    return "; no realistic number of items does" if n_items is None else f"; about {n_items:,} items like these would"


JudgePlan = Callable[[Plan], Verdicts]
"""Returns the verdicts of a plan."""
STOP_MESSAGES = {
    "near enough": "stopped early: the selected agents are near enough to the best",
    "narrow": "stopped early: intervals are as narrow as requested",
    "budget": "the budget is spent",
    "judge": "stopped early: ",
    "items": "stopped: these items do not allow intervals as narrow as requested",
}


def run_rounds(plan: Plan, judge_plan: JudgePlan, *, target: Target = "items-like-these") -> Verdicts:
    """Judge a plan, and add rounds until its goal is reached or its budget is spent.

    Parameters
    ----------
    plan : Plan
        A plan as far as its rounds are known. A plan without rounds is judged once.
    judge_plan : callable
        Returns the verdicts of a plan. It is called with the whole plan after each round, so it should reuse the
        answers to earlier rounds.
    target : {"items-like-these", "these-items"}, default "items-like-these"
        Population of the intervals that decide when to stop.

    Returns
    -------
    Verdicts
        Of the plan with all its rounds. The last note of the plan contains the reason why it stopped.

    Raises
    ------
    StatisticsError
        If the answers of a round cannot be fitted. Errors of `judge_plan` are passed on.
    """
    rounds = plan.rounds
    if rounds is None:
        return judge_plan(plan)
    plan_next_round = _make_round_rule(plan, target=target)
    result = judge_plan(plan)
    while True:
        rounds = result.plan.rounds or rounds
        next_round = plan_next_round(result, rounds)
        if next_round.stop_reason is not None:
            shortfall = _format_shortfall(plan) if next_round.stop_reason == "budget" else ""
            reason = f"{STOP_MESSAGES[next_round.stop_reason]}{shortfall}{next_round.detail}"
            n_analyses = len(rounds.starts)
            note = f"{plan.design}: {n_analyses} interim {'analysis' if n_analyses == 1 else 'analyses'}; {reason}"
            earlier_notes = (text for text in plan.notes if not text.startswith(f"{plan.design}: "))
            return replace(result, plan=replace(result.plan, notes=(*earlier_notes, note)))
        independent = _draw_independent_trials(result.plan, next_round)
        trials = Trials.concat([next_round.trials, independent])
        longer_plan = with_round(result.plan, rounds, trials, active=next_round.active)
        result = judge_plan(longer_plan)


def _count_independent_trials(plan: Plan, n_paired: int, *, n_sampled: int) -> int:
    """Return the number of independent trials of a round of `n_paired` paired ones.

    If the plan has a budget, what it leaves for independent trials is shared among the rounds in proportion to their
    paired trials.
    """
    n = count_added_independent(plan, n_paired, n_scored=n_sampled)
    budget, max_paired = plan.request.budget, None if plan.rounds is None else plan.rounds.n_paired
    if n == 0 or budget is None or max_paired is None or has_free_calls(plan):
        return n
    n_paired_before = int((plan.trial_type == PAIRED).sum())
    n_left = budget - max_paired - (len(plan) - n_paired_before)
    return max(0, min(n_left, n_left * n_paired // max(max_paired - n_paired_before, 1)))


def _draw_independent_trials(plan: Plan, next_round: NextRound) -> Trials:
    """Draw the independent trials of a round, of the agents that it samples, if the plan has pooled ones."""
    if plan.independent == "matched":
        return Trials.concat([])
    rng = stream("independent trials of rounds", plan.seed, 0 if plan.rounds is None else len(plan.rounds.starts))
    eligible, sampled = plan.split.train, np.flatnonzero(next_round.active)
    n = _count_independent_trials(plan, len(next_round.trials), n_sampled=len(sampled))
    if len(sampled) == plan.n_agents:
        return draw_pooled_trials(eligible, n, rng)
    return draw_scored_trials(plan, eligible, rng, scored=sampled, partners=np.arange(plan.n_agents), n=n)


def _format_shortfall(plan: Plan) -> str:
    """Describe which goal was not reached when the budget was spent."""
    if plan.design == FixedWidth.name:
        return " before intervals were as narrow as requested"
    design = get_adaptive_design(plan)
    selected = "the selected agent was" if design.top == 1 else f"the {design.top} selected agents were"
    goal = "significantly better than all others"
    if design.max_regret is not None:
        goal = f"known to be within {design.max_regret:g} of the best"
    return f" before {selected} {goal}, over all interim analyses"


def _make_round_rule(plan: Plan, *, target: Target) -> Callable[[Verdicts, Rounds], NextRound]:
    """Return the function that plans the next round from the verdicts so far.

    Each round restarts the random stream of the first one and skips what was drawn before. An interrupted run therefore
    plans the same rounds when it resumes.
    """
    from youden.pipeline.ranking import estimate_abilities
    from youden.pipeline.recommendation import explain_missing_signal

    eligible = plan.split.train
    if plan.design == FixedWidth.name:
        width_design = get_width_design(plan)
        return lambda result, _: plan_width_round(
            result,
            width_design,
            estimate_abilities(result, target=target),
            eligible=eligible,
            rng=stream("trials", plan.seed),
        )

    design = get_adaptive_design(plan)
    max_regret = design.max_regret or 0.0
    all_agents = np.ones(plan.n_agents, dtype=np.bool_)
    search: SearchState | None = None

    def plan_search_round(result: Verdicts, rounds: Rounds) -> NextRound:
        nonlocal search
        abilities = estimate_abilities(result, target=target, previous_search=search)
        search = abilities.search
        if reason := explain_missing_signal(result, abilities):
            return NextRound(number_blocks([]), all_agents, "judge", reason)

        pairwise = pairwise_differences(abilities.ability, abilities.covariance, level=LEVEL)
        selection = select_best_agents(abilities, pairwise)
        if selection is not None and selection.regret_bound <= max_regret:
            return NextRound(number_blocks([]), all_agents, "near enough")
        allocation: dict[str, Any] = {}
        if max_regret and selection is not None:
            allocation = find_search_allocation(result, abilities, pairwise, max_regret)
        return design.next_round(
            result.plan,
            rounds,
            abilities.ability,
            eligible=eligible,
            rng=stream("trials", plan.seed),
            **allocation,
        )

    return plan_search_round
