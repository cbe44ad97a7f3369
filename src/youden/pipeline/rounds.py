"""Run a plan in rounds to its end: plan, judge, analyze, plan the next round.

Rounds to a given half-width sample all agents equally and ignore the ranking, so interim analyses cost no alpha. They
can only stop a little early, if the variance happens to be underestimated. To limit that, there are few rounds, and
each approaches the required number of blocks from below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any

import numpy as np

from youden.pipeline.abilities import Abilities, SearchState, select_best_agents
from youden.pipeline.multi_judge import ITEMS_AND_JUDGES, average_judges, measure_vote_spread
from youden.pipeline.precision import estimate_variance_components
from youden.pipeline.ranking import estimate_abilities
from youden.protocol.blocks import count_blocks_per_item, with_round
from youden.protocol.designs.adaptive import NextRound, RoundStop, get_adaptive_design
from youden.protocol.designs.cyclic import number_blocks
from youden.protocol.designs.fixed_width import HALF_WIDTH_FRACTION, FixedWidth, get_width_design
from youden.protocol.independent import draw_matched_trials
from youden.protocol.pooled_trials import (
    count_added_independent,
    draw_pooled_trials,
    draw_scored_trials,
    has_free_calls,
)
from youden.run_keys import Target
from youden.stats.forecast import (
    LEVEL,
    AgentVariances,
    find_min_blocks,
    find_min_items,
    half_width_quantile,
    half_widths,
)
from youden.stats.trials.best_selection import are_comparable, next_allocation
from youden.stats.trials.comparisons import Differences, pairwise_differences
from youden.streams import stream
from youden.types import INDEPENDENT, PAIRED, Plan, Rounds, Trials, Verdicts
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


def plan_round_for_half_width(
    verdicts: Verdicts, design: FixedWidth, abilities: Abilities, *, eligible: Bools, rng: np.random.Generator
) -> NextRound:
    """Plan the next round of a design that samples all agents until their intervals are narrow enough.

    verdicts : answers to the plan so far
    design : the design, with the half-width of the 95% intervals that 90% of the agents are to reach
    abilities : abilities that were estimated from `verdicts`
    eligible : bool array (n_agents, n_items), whether the response of an agent to an item may be compared
    rng : random generator with the seed of the first round. The design repeats the draws of earlier rounds first, so that an
        interrupted run plans the same trials when it resumes.

    Returns the paired trials of the round (`trials`), which sample all agents, or no trials and the reason to stop
    (`stop_reason`):

    - "narrow" if the half-width is reached;
    - "items" if no number of calls on these items reaches it;
    - "judges" or "rates" if the variance between judges, or that of the false-positive rates, alone keeps the intervals too wide;
    - "budget" if no calls are left.
    """
    plan = verdicts.plan
    half_width = half_width_quantile(abilities.covariance.half_width(LEVEL), HALF_WIDTH_FRACTION)
    if half_width <= design.half_width:
        return _make_last_round(plan, "narrow")

    components = _estimate_components(verdicts, abilities)
    n_items = int(eligible.any(axis=0).sum())
    if _exceeds_by_constant_variance(components, design.half_width, n_items=n_items):
        has_variance_of_judges = abilities.target == ITEMS_AND_JUDGES and verdicts.votes is not None
        return _make_last_round(plan, "judges" if has_variance_of_judges else "rates")
    n_needed = _find_needed_blocks(components, design.half_width, half_width, plan, n_items=n_items)
    if n_needed is None:
        return _make_last_round(plan, "items", _format_items_needed(components, design.half_width, plan))

    n_blocks_done = int(plan.block.max()) + 1  # blocks are numbered from 0
    n_calls_spent = int((plan.block >= 0).sum())
    n_blocks_after_round = n_blocks_done + _choose_round_size(n_blocks_done, n_needed)
    trials = design.draw_blocks(eligible, rng, n_done=n_blocks_done, n_spent=n_calls_spent, until=n_blocks_after_round)
    if not len(trials):
        return _make_last_round(plan, "budget")
    return NextRound(trials, _select_all_agents(plan), stop_reason=None)


def _estimate_components(verdicts: Verdicts, abilities: Abilities) -> AgentVariances:
    """Estimate the variance components that give the intervals of `abilities`, which were estimated from `verdicts`.

    - Target "these-items": only the residual component is above 0, because the variance between items is no error here.
    - Target "items-and-judges": the constant component includes the variance between judges, or the lower confidence bound of
      this variance if the plan has fewer blocks than items. All components are scaled to give the present half-widths.
    """
    n_blocks = int(verdicts.plan.block.max()) + 1
    variance = np.diag(abilities.covariance.covariance)
    if abilities.target == "these-items":
        return AgentVariances(agent_item=np.zeros_like(variance), residual=2 * n_blocks * variance)
    if abilities.target != ITEMS_AND_JUDGES or verdicts.votes is None:
        return estimate_variance_components(verdicts)

    components = estimate_variance_components(average_judges(verdicts))
    judge_spread = measure_vote_spread(verdicts.plan, verdicts.votes)
    variance_of_judge = judge_spread.variance if n_blocks >= verdicts.plan.n_items else max(judge_spread.low, 0)
    judge_variance = variance_of_judge / len(judge_spread.by_judge)
    components = components._replace(constant=components.constant + judge_variance)
    forecast = half_widths(components, n_blocks, verdicts.plan.n_items)
    factor = (abilities.covariance.half_width(LEVEL) / forecast) ** 2
    return AgentVariances(*(factor * component for component in components))


def _exceeds_by_constant_variance(components: AgentVariances, half_width: float, *, n_items: int) -> bool:
    """Return whether the constant variance alone keeps intervals clearly wider than a half-width, with any number of calls."""
    constant = components._replace(
        agent_item=np.zeros_like(components.agent_item), residual=np.zeros_like(components.residual)
    )
    smallest_possible = half_width_quantile(half_widths(constant, n_items, n_items), HALF_WIDTH_FRACTION)
    return smallest_possible > UNATTAINABLE_FACTOR * half_width


def _select_all_agents(plan: Plan) -> Bools:
    """Return a mask that selects all agents: bool array (n_agents,)."""
    return np.ones(plan.n_agents, dtype=np.bool_)


def _make_last_round(plan: Plan, reason: RoundStop, detail: str = "") -> NextRound:
    """Return a round without trials, because the plan gets no more rounds for this reason."""
    no_trials = number_blocks([])
    return NextRound(no_trials, _select_all_agents(plan), reason, detail)


def _find_needed_blocks(
    components: AgentVariances, requested_half_width: float, current_half_width: float, plan: Plan, *, n_items: int
) -> int | None:
    """Find how many blocks give the intervals the requested half-width.

    A block consists of trials of one item, two per agent. If no number of blocks on these items is sufficient, the result is

    - twice the present number if the plan has few blocks, because its variance components are then uncertain;
    - None if the requested half-width is clearly impossible, or the present one is close to it; the run should then stop;
    - otherwise, the number for a slightly larger half-width.

    components : variance components of the agents
    requested_half_width : half-width to reach
    current_half_width : half-width of the intervals so far
    plan : plan so far
    n_items : number of items that can be used
    """
    n_blocks = int(plan.block.max()) + 1  # blocks are numbered from 0
    max_blocks = count_blocks_per_item(plan) * n_items
    find_blocks = partial(
        find_min_blocks, components, fraction=HALF_WIDTH_FRACTION, n_items=n_items, max_blocks=max_blocks
    )
    n_needed = find_blocks(requested_half_width)
    if n_needed is not None:
        return n_needed

    has_few_blocks = n_blocks < min(n_items, max_blocks)
    if has_few_blocks:
        return 2 * n_blocks

    widths_with_all_blocks = half_widths(components, max_blocks, n_items)
    smallest_possible = half_width_quantile(widths_with_all_blocks, HALF_WIDTH_FRACTION)
    slightly_larger = (1 + NEAR_FRACTION) * requested_half_width
    if smallest_possible > UNATTAINABLE_FACTOR * requested_half_width or current_half_width <= slightly_larger:
        return None
    return find_blocks(slightly_larger) or 2 * n_blocks


def _choose_round_size(n_blocks: int, n_needed: int) -> int:
    """Choose how many blocks the next round of a plan adds.

    All missing blocks are added if they are at most the fraction `NEAR_FRACTION` of the present number. Otherwise, the fraction
    `APPROACH_FRACTION` of the missing blocks is added. A round adds at least the fraction `MIN_STEP_FRACTION` of the present
    number, and at most doubles it.

    n_blocks : number of blocks so far
    n_needed : number of blocks that are probably needed in all
    """
    n_missing = n_needed - n_blocks
    is_near = n_missing <= NEAR_FRACTION * n_blocks
    n_added = n_missing if is_near else ceil(APPROACH_FRACTION * n_missing)

    min_added = ceil(MIN_STEP_FRACTION * n_blocks)
    return min(n_blocks, max(n_added, min_added))


def find_search_allocation(
    verdicts: Verdicts, abilities: Abilities, differences: Differences, max_regret: float
) -> dict[str, Any]:
    """Choose the agents that the next round of a search samples, and the number of its blocks.

    With k selected agents, the regret is the ability of the k-th best agent minus the lowest ability of a selected agent. The
    search ends when the upper confidence bound of the regret is at most `max_regret`. The round samples the agents whose
    uncertain abilities keep the bound higher.

    verdicts : answers to the plan so far
    abilities, differences : abilities that were estimated from `verdicts`, and their pairwise differences
    max_regret : regret that the search accepts, above 0, in units of the abilities; the bound must still be above it

    Returns keyword arguments of `Adaptive.next_round`: `active`, bool array (n_agents,), and `n_blocks`, int, at least 1. The
    mapping is empty if some agents cannot be compared, or if `abilities.search` is None. `next_round` then makes the choice.
    """
    plan = verdicts.plan
    search = abilities.search
    if search is None or not are_comparable(differences):
        return {}

    last_analysis = search.analyses[-1]
    active, trial_fraction, _ = next_allocation(
        differences,
        last_analysis.upper_bounds,
        top=search.top,
        alpha_fraction=last_analysis.final_alpha_fraction,
        max_regret=max_regret,
    )

    # the number of blocks is a fraction of the largest number of trials that one of these agents has
    n_trials_by_agent = plan.trials.weight_by_agent(plan.block >= 0, plan.n_agents)
    max_trials = float(n_trials_by_agent[active].max())
    return {"active": active, "n_blocks": ceil(max_trials * trial_fraction)}


def _format_items_needed(components: AgentVariances, half_width: float, plan: Plan) -> str:
    """Forecast how many items give a half-width, as the end of a message."""
    n_items = find_min_items(
        components, half_width, fraction=HALF_WIDTH_FRACTION, blocks_per_item=count_blocks_per_item(plan)
    )
    if n_items is None:
        return "; no realistic number of items does"
    return f"; about {n_items:,} items like these would"


JudgePlan = Callable[[Plan], Verdicts]
"""Returns the verdicts of a plan."""
STOP_MESSAGES = {
    "near enough": "stopped early: the regret bound of the selected agents is small enough",
    "narrow": "stopped early: intervals are as narrow as requested",
    "budget": "the budget is spent",
    "judge": "stopped early: ",
    "judges": "stopped: the judges differ too much for intervals as narrow as requested; add judges, or set a larger half-width",
    "rates": "stopped: the false-positive rates are too uncertain for intervals as narrow as requested; set `independent: "
    "pooled:N` with a larger N, or a larger half-width",
    "items": "stopped: these items do not allow intervals as narrow as requested at the run's fraction of independent calls",
}


def run_rounds(plan: Plan, judge_plan: JudgePlan, *, target: Target = "items-like-these") -> Verdicts:
    """Judge a plan, and add rounds until its goal is reached or out of reach, or its budget is spent.

    The design of the plan sets the goal: a half-width of the intervals, or the selection of the best agents. It is out of reach
    if the items do not allow the half-width, or if the judge does not discriminate between agents.

    Parameters
    ----------
    plan : Plan
        A plan with the rounds that are known so far. If its design has no rounds, it is judged and no trials are added.
    judge_plan : callable
        Takes a plan and returns its verdicts. It is called with the whole plan after each round, so it should reuse the
        answers to earlier rounds.
    target : {"items-like-these", "these-items", "items-and-judges"}, default "items-like-these"
        Population of the intervals that decide when to stop.

    Returns
    -------
    Verdicts
        Verdicts of the plan with all its rounds and the independent trials that each round adds. If the design has rounds, the
        last note of the plan contains the reason why it stopped.

    Raises
    ------
    StatisticsError
        If the answers of a round cannot be fitted. Errors of `judge_plan` are passed on.
    """
    rounds = plan.rounds
    if rounds is None:
        return judge_plan(plan)

    round_planner = _make_round_planner(plan, target=target)
    verdicts = judge_plan(plan)
    while True:
        rounds = verdicts.plan.rounds or rounds
        next_round = round_planner(verdicts, rounds)
        if next_round.stop_reason is not None:
            note = _describe_stop(plan, next_round.stop_reason, next_round.detail, n_analyses=len(rounds.starts))
            return _with_stop_note(verdicts, plan, note)

        independent = _draw_independent_trials(verdicts.plan, next_round)
        trials = Trials.concat([next_round.trials, independent])
        longer_plan = with_round(verdicts.plan, rounds, trials, active=next_round.active)
        verdicts = judge_plan(longer_plan)


def _with_stop_note(verdicts: Verdicts, plan: Plan, note: str) -> Verdicts:
    """Return a copy of verdicts whose plan has a last note, which states why it gets no more rounds.

    The copy keeps the other notes of the first plan. A note on an earlier stop begins with the name of the design, and is
    left out.

    verdicts : answers to the plan with all its rounds
    plan : plan before the rounds were added
    note : the note, as returned by `_describe_stop`
    """
    earlier_notes = [text for text in plan.notes if not text.startswith(f"{plan.design}: ")]
    finished_plan = replace(verdicts.plan, notes=(*earlier_notes, note))
    return replace(verdicts, plan=finished_plan)


def _describe_stop(plan: Plan, stop_reason: str, detail: str, *, n_analyses: int) -> str:
    """Describe why a plan gets no more rounds, as a note of the plan.

    stop_reason, detail : reason and its details, as in `NextRound`
    n_analyses : number of interim analyses so far
    """
    reason = STOP_MESSAGES[stop_reason]
    if stop_reason == "budget":
        reason += _format_unreached_goal(plan)
    noun = "analysis" if n_analyses == 1 else "analyses"
    return f"{plan.design}: {n_analyses} interim {noun}; {reason}{detail}"


def _count_independent_trials(plan: Plan, n_paired: int, *, n_sampled: int) -> int:
    """Compute how many independent trials, which estimate false-positive rates, a round adds.

    The budget of a plan has one part for paired trials and one for independent trials. A round takes the same fraction of what
    is left of each part. For example, if it takes half of the paired trials left, it takes half of the independent ones.
    Without a budget, or if calls cost nothing, `count_added_independent` decides.

    plan : plan so far
    n_paired : number of paired trials of the round
    n_sampled : number of agents that the round samples
    """
    n_without_budget = count_added_independent(plan, n_paired, n_scored=n_sampled)
    budget = plan.request.budget
    paired_budget = None if plan.rounds is None else plan.rounds.n_paired
    if n_without_budget == 0 or budget is None or paired_budget is None or has_free_calls(plan):
        return n_without_budget

    n_paired_so_far = int((plan.trial_type == PAIRED).sum())
    n_independent_so_far = len(plan) - n_paired_so_far
    paired_left = max(paired_budget - n_paired_so_far, 1)
    independent_left = budget - paired_budget - n_independent_so_far

    proportional_number = independent_left * n_paired // paired_left
    return max(0, min(independent_left, proportional_number))


def _draw_independent_trials(plan: Plan, next_round: NextRound) -> Trials:
    """Draw the independent trials of a round for the agents that it samples.

    Independent trials compare responses to different items. If the round samples only some agents, these are compared with
    random agents, and the trials count for the sampled agents only. If the plan has one independent trial per paired trial
    (matched), each paired trial of the round gets one.
    """
    n_rounds = 0 if plan.rounds is None else len(plan.rounds.starts)
    rng = stream("independent trials of rounds", plan.seed, n_rounds)
    eligible = plan.split.train  # cells that are not held out
    if plan.independent == "matched":
        return draw_matched_trials(next_round.trials, eligible, rng)

    sampled_agents = np.flatnonzero(next_round.active)
    n_trials = _count_independent_trials(plan, len(next_round.trials), n_sampled=len(sampled_agents))

    samples_all = len(sampled_agents) == plan.n_agents
    if samples_all:
        planned = plan.trials.take(plan.trial_type == INDEPENDENT)
        return draw_pooled_trials(eligible, n_trials, rng, planned=planned)
    all_agents = np.arange(plan.n_agents)
    return draw_scored_trials(plan, eligible, rng, scored=sampled_agents, partners=all_agents, n=n_trials)


def _format_unreached_goal(plan: Plan) -> str:
    """State in a phrase the goal that a plan in rounds did not reach before its budget was spent.

    There are three goals:

    - the intervals are narrow enough, for a design with a requested half-width;
    - the regret of the selected agents is at most the maximum, for a search with a maximum regret;
    - the selected agents are significantly better than all others, for any other search.
    """
    if plan.design == FixedWidth.name:
        return " before intervals were as narrow as requested"
    design = get_adaptive_design(plan)
    subject = "the selected agent was" if design.top == 1 else f"the {design.top} selected agents were"
    goal = "significantly better than all others"
    if design.max_regret is not None:
        goal = f"known to be within {design.max_regret:g} of the best"
    return f" before {subject} {goal}, over all interim analyses"


RoundPlanner = Callable[[Verdicts, Rounds], NextRound]
"""Plans the next round from the verdicts so far and the record of their rounds, or returns the reason to stop."""


def _make_round_planner(plan: Plan, *, target: Target) -> RoundPlanner:
    """Return the function that plans the next round from the verdicts so far.

    Each round restarts the random stream of the first one, and the design then skips the blocks of earlier rounds
    (`draw_blocks`). An interrupted run therefore plans the same rounds when it resumes.

    plan : plan with its first round, by a search for the best agents or by a design with a requested half-width
    target : population that the intervals refer to
    """
    if plan.design != FixedWidth.name:
        return _SearchPlanner(plan, target=target)
    design = get_width_design(plan)

    def plan_next_round(verdicts: Verdicts, _rounds: Rounds) -> NextRound:
        """Plan a round of all agents for the requested half-width; the record of the rounds is not needed."""
        abilities = estimate_abilities(verdicts, target=target)
        rng = stream("trials", plan.seed)
        return plan_round_for_half_width(verdicts, design, abilities, eligible=plan.split.train, rng=rng)

    return plan_next_round


class _SearchPlanner:
    """Plans the rounds of a search for the best agents.

    It is called with the verdicts so far after each round. It keeps the interim analyses of these rounds, which are
    therefore made once.
    """

    def __init__(self, plan: Plan, *, target: Target) -> None:
        """Begin a search.

        plan : plan with its first round, the pilot
        target : population that the intervals refer to; the intervals decide when the search stops
        """
        self._plan = plan
        self._design = get_adaptive_design(plan)
        self._target: Target = target
        self._search: SearchState | None = None

    def __call__(self, verdicts: Verdicts, rounds: Rounds) -> NextRound:
        """Plan a round of the agents that may still be among the best, or return the reason to stop.

        The reason is "near enough" if the regret bound is small enough, "judge" if the judge does not discriminate, and
        "budget" if the rounds or the calls are spent.

        verdicts : verdicts so far
        rounds : record of the rounds so far
        """
        from youden.pipeline.recommendation import explain_no_discrimination

        abilities = estimate_abilities(verdicts, target=self._target, previous_search=self._search)
        self._search = abilities.search
        problem = explain_no_discrimination(verdicts, abilities)
        if problem:
            return _make_last_round(self._plan, "judge", problem)

        max_regret = self._design.max_regret or 0.0
        differences = pairwise_differences(abilities.ability, abilities.covariance, level=LEVEL)
        selection = select_best_agents(abilities, differences)
        if selection is not None and selection.regret_bound <= max_regret:
            return _make_last_round(self._plan, "near enough")

        # without an allocation, the design chooses agents and blocks itself
        allocation: dict[str, Any] = {}
        if max_regret and selection is not None:
            allocation = find_search_allocation(verdicts, abilities, differences, max_regret)
        return self._design.next_round(
            verdicts.plan,
            rounds,
            abilities.ability,
            eligible=self._plan.split.train,
            rng=stream("trials", self._plan.seed),
            **allocation,
        )
