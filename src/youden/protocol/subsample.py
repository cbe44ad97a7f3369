"""Subsample a plan: draw a balanced part of its trials, for another judge to answer."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np

from youden.errors import PlanError
from youden.protocol.independent import match_trials, select_trials
from youden.protocol.pooled_trials import count_independent, count_independent_for_paired
from youden.run_keys import CallBudget
from youden.streams import stream
from youden.text.sentences import format_count
from youden.types import INDEPENDENT, PAIRED, Plan
from youden.types.pool import Bools, Positions
from youden.types.trials import FOLLOW_UP, PROBE, SELF, count_earlier

MIN_PAIRED_PER_AGENT = 4
"""Minimum number of paired trials per agent."""


def count_calls(plan: Plan, budget: object) -> int:
    """Convert a budget for a part of a plan to a number of calls.

    Parameters
    ----------
    plan : Plan
        Plan from which `subsample` draws some trials.
    budget : int or str
        Calls (4000), a percentage of the dense calls ("5%"), or paired trials per agent ("450/agent").

    Returns
    -------
    int
        Number of calls, paired and independent ones together. A budget of trials per agent gives at most the number of calls of
        the plan. Other budgets are not limited.

    Raises
    ------
    PlanError
        [calls-invalid]: if `budget` has none of these forms.
    """
    parsed = CallBudget.parse(budget)
    if parsed.unit == "/agent":
        n_paired = ceil(parsed.value * plan.n_agents / 2)  # a paired trial has two agents
        max_independent = int((plan.trial_type == INDEPENDENT).sum())
        n_independent = min(max_independent, count_independent_for_paired(n_paired, plan.n_agents))
        return min(len(plan), n_paired + n_independent)
    if parsed.unit == "%":
        return max(1, round(plan.n_dense_calls * parsed.value / 100))
    return int(parsed.value)


def subsample(plan: Plan, *, calls: int | str | None = None, seed: int = 0, earlier: Plan | None = None) -> Plan:
    """Draw a balanced part of a plan's trials.

    Parameters
    ----------
    plan : Plan
        Plan from which trials are drawn.
    calls : int or str, optional
        Budget: calls of both trial types (4000), a percentage of the 2·K·(K−1)·J dense calls of K agents and J items ("5%"), or
        paired trials per agent ("450/agent"). Default: all trials that training may use, but see Notes.
    seed : int, default 0
        Seed of the draw.
    earlier : Plan, optional
        A part that was drawn before `plan` was extended. Its trials are drawn first, so that their answers are used. `calls` must
        be at least the number of its trials; otherwise, some of them are left out, or more than `calls` trials are drawn.

    Returns
    -------
    Plan
        A new plan of at most `calls` trials, in the order of `plan`. Probes, follow-ups, self-trials and trials that touch
        held-out cells are left out. It has no held-out cells, rounds or extensions. A note states the numbers of trials.

    Raises
    ------
    PlanError
        [calls-invalid]: if `calls` is not a budget; [subsample-calls]: if it exceeds the trials of the plan; [subsample-few]: if
        agents get fewer than 4 paired trials; [plan-no-pool], [plan-other-pool]: if the plan's pool cannot be read.

    Notes
    -----
    If every block holds all agents of its item, as many whole blocks are drawn in random order as fit. No item is drawn
    a second time before each was drawn once. Otherwise, single paired trials are drawn, spread evenly over agents, then
    over items; they belong to no block.

    Independent trials get as many calls as in a cyclic plan, 7 to 10%, and the calls that do not fill a block. They are pooled.
    If the plan has more independent than paired trials, because its judge costs nothing, only 7 to 10% of the trials of the
    default part are independent.
    """
    rows = _find_usable_rows(plan)
    is_paired = plan.trial_type[rows] == PAIRED
    paired, independent = rows[is_paired], rows[~is_paired]
    max_independent = len(independent)
    if max_independent > len(paired):
        max_independent = min(max_independent, count_independent_for_paired(len(paired), plan.n_agents))
    n_usable = len(paired) + max_independent
    calls = n_usable if calls is None else count_calls(plan, calls)
    if calls > len(plan):
        raise PlanError(
            f"The calls exceed the {len(plan):,} trials of the run: got {calls:,}. Set {len(plan):,} calls or fewer.",
            slug="subsample-calls",
        )

    # numbers of paired and of independent trials in the budget
    earlier_paired = _find_trials_of_earlier_part(plan, earlier, paired)
    earlier_independent = _find_trials_of_earlier_part(plan, earlier, independent)
    takes_all = calls >= n_usable
    n_independent = min(max_independent, count_independent(calls, plan.n_agents), calls - len(earlier_paired))
    n_independent = max(n_independent, len(earlier_independent))
    n_paired = len(paired) if takes_all else min(len(paired), calls - n_independent)
    if n_paired < MIN_PAIRED_PER_AGENT * plan.n_agents / 2:
        raise _make_too_few_calls_error(plan, calls, n_paired)

    rng = stream("part of a run", seed)
    has_blocks = _has_complete_blocks(plan, paired) and _are_whole_blocks(plan, earlier_paired, paired)
    if takes_all:
        drawn_paired = paired
        n_independent = max_independent
    else:
        draw = _sample_blocks if has_blocks else _sample_evenly
        drawn_paired = draw(plan, paired, n_paired, rng, earlier_rows=earlier_paired)
        n_independent = min(len(independent), calls - len(drawn_paired))  # with the calls that do not fill a block
    drawn_independent = _sample_evenly(plan, independent, n_independent, rng, earlier_rows=earlier_independent)
    drawn = np.sort(np.append(drawn_paired, drawn_independent))

    note = (
        f"{len(drawn_paired):,} of {len(paired):,} paired and {len(drawn_independent):,} of {len(independent):,} independent "
        f"trials of another run's plan ({plan.digest[:12]})"
    )
    if plan.n_self_trials:
        note += f"; its {format_count(plan.n_self_trials, 'self-trial')} are left out"
    return _make_plan_of_trials(plan, drawn, n_requested=calls, seed=seed, has_blocks=has_blocks, note=note)


def _make_plan_of_trials(
    plan: Plan, rows: Positions, *, n_requested: int, seed: int, has_blocks: bool, note: str
) -> Plan:
    """Make a new plan of some trials of another plan.

    The new plan has no held-out cells (agent, item), and no record of the rounds and extensions by which the other plan grew.
    Its independent trials, which compare responses to different items, are not matched to paired trials.

    rows : int array, rows of `plan` with the trials
    n_requested : number of calls that the user requested; there may be fewer trials
    seed : seed of the new plan
    has_blocks : whether the trials form complete blocks, which the new plan keeps
    note : the only note of the new plan, which describes how it was made
    """
    selected_plan = select_trials(plan, rows)
    trials = selected_plan.trials.as_new_plan()
    if not has_blocks:
        trials = replace(trials, block=np.full(len(rows), -1, dtype=np.int32))
    return replace(
        selected_plan,
        trials=trials,
        split=replace(plan.split, holdout=np.zeros_like(plan.split.holdout), fraction=0.0),
        options={"calls": n_requested, "trials_from": plan.digest[:12]},
        independent="pooled",
        n_independent=None,
        rounds=None,
        extensions=None,
        request=replace(plan.request, free_independent=False),
        seed=seed,
        notes=(note,),
    )


def _make_too_few_calls_error(plan: Plan, calls: int, n_paired: int) -> PlanError:
    """Make the error for a number of calls of which too few, `n_paired`, are paired."""
    min_paired = ceil(MIN_PAIRED_PER_AGENT * plan.n_agents / 2)
    min_calls = min(min_paired + count_independent_for_paired(min_paired, plan.n_agents), len(plan))
    return PlanError(
        f"The calls give {plan.n_agents} agents fewer than {MIN_PAIRED_PER_AGENT} paired trials each: got {calls:,} "
        f"calls, of which {n_paired:,} are paired. Set {min_calls:,} calls or more; the run must have at least as many.",
        slug="subsample-few",
    )


def _find_usable_rows(plan: Plan) -> Positions:
    """Return the rows of the trials that may be drawn, int array.

    Both texts of a trial must be for training, not held out. Three kinds of trials are left out:

    - Probes, which compare unusually similar texts to detect false positives.
    - Follow-ups, which compare only agents that agree suspiciously often.
    - Self-trials, which compare two responses of one agent.
    """
    train = plan.split.train
    first_item, second_item = plan.trials.text_cells
    is_training = train[plan.first, first_item] & train[plan.second, second_item]
    return np.flatnonzero(is_training & ~np.isin(plan.role, (PROBE, FOLLOW_UP, SELF)))


def _find_trials_of_earlier_part(plan: Plan, earlier: Plan | None, rows: Positions) -> Positions:
    """Find the trials that are also in an earlier part of the plan.

    earlier : the earlier part; None without one
    rows : int array, rows of the trials to consider

    Returns the rows of these trials, int array; it is empty without an earlier part.
    """
    if earlier is None:
        return rows[:0]
    return np.intersect1d(match_trials(earlier, plan), rows)


def _are_whole_blocks(plan: Plan, rows: Positions, paired: Positions) -> bool:
    """Return whether some rows are all trials of their blocks; `paired` are the rows of all paired trials."""
    return int(np.isin(plan.block[paired], plan.block[rows]).sum()) == len(rows)


def _has_complete_blocks(plan: Plan, paired: Positions) -> bool:
    """Return whether all paired trials are in complete blocks.

    A block is a set of trials on one item. In a complete block, each agent is the first agent of exactly one trial. This does
    not apply to agents whose response to the item is missing or held out.

    paired : int array, rows of paired trials
    """
    block_number = plan.block[paired]
    if len(paired) == 0 or (block_number < 0).any():  # −1 for a trial outside of blocks
        return False

    # number the blocks from 0 without gaps, and count their trials
    _, block, n_trials_by_block = np.unique(block_number, return_inverse=True, return_counts=True)

    # no agent is first twice in a block if all combinations of block and first agent differ
    combinations = block * plan.n_agents + plan.first[paired]
    has_each_agent_once = len(np.unique(combinations)) == len(combinations)

    # all agents are first if a block has as many trials as its item has agents
    n_agents_by_item = plan.split.train.sum(axis=0)
    has_all_agents: Bools = n_agents_by_item[plan.item[paired]] == n_trials_by_block[block]
    return bool(has_each_agent_once and has_all_agents.all())


def _sample_blocks(
    plan: Plan, paired: Positions, max_trials: int, rng: np.random.Generator, *, earlier_rows: Positions
) -> Positions:
    """Draw random blocks with at most `max_trials` trials in all.

    A block is a group of trials that compare all agents on one item. The blocks of an earlier part of the plan are drawn first.
    Then blocks are drawn at random from the items with the fewest drawn blocks.

    paired : int array, rows of paired trials, all in blocks
    earlier_rows : int array, rows of the trials in an earlier part of the plan; their blocks are drawn first

    Returns the rows of the trials in the drawn blocks, int array, in the order of `paired`.
    """
    block_by_trial = plan.block[paired]
    block_numbers, first_trials, n_trials_by_block = np.unique(block_by_trial, return_index=True, return_counts=True)
    item_by_block = plan.item[paired[first_trials]]

    # random order of the blocks, given by their positions in `block_numbers`; blocks of the earlier part come first
    is_new = ~np.isin(block_numbers, plan.block[earlier_rows])
    shuffled = rng.permutation(len(block_numbers))
    earlier_first = shuffled[np.argsort(is_new[shuffled], kind="stable")]

    # take the first new block on each item, then the second one on each item, and so on
    n_before_on_same_item = count_earlier(item_by_block[earlier_first])
    order = np.lexsort([n_before_on_same_item, is_new[earlier_first]])  # the last key counts first
    blocks = earlier_first[order]

    # draw blocks in this order until the next one would exceed the number of trials
    is_drawn = np.cumsum(n_trials_by_block[blocks]) <= max_trials
    drawn_numbers = block_numbers[blocks[is_drawn]]
    return paired[np.isin(block_by_trial, drawn_numbers)]


def _sample_evenly(
    plan: Plan, rows: Positions, n: int, rng: np.random.Generator, *, earlier_rows: Positions
) -> Positions:
    """Draw n trials of a plan one at a time, so that agents and items are drawn about equally often.

    Each draw takes the agent that was drawn least often, then the partner drawn least often, then the item drawn least often.

    rows : int array, rows of the trials to draw from
    n : number of trials to draw
    earlier_rows : int array, rows of the trials in an earlier part of the plan, at most n of `rows`; they are drawn first

    Returns n of the rows in random order, or all if there are at most n.
    """
    if n >= len(rows):
        return rows
    shuffled = rng.permutation(rows)
    first, second, item = plan.first[shuffled], plan.second[shuffled], plan.item[shuffled]
    is_drawn = np.isin(shuffled, earlier_rows)

    # positions in `shuffled` of the trials of each agent that can still be drawn
    remaining = []
    for agent in range(plan.n_agents):
        has_agent = (first == agent) | (second == agent)
        remaining.append(np.flatnonzero(has_agent & ~is_drawn))

    # numbers of trials drawn so far
    agents_of_earlier = np.append(first[is_drawn], second[is_drawn])
    n_of_agent = np.bincount(agents_of_earlier, minlength=plan.n_agents).astype(float)
    n_on_item = np.bincount(item[is_drawn], minlength=plan.n_items).astype(float)
    for _ in range(n - len(earlier_rows)):
        # the agent drawn least often; an agent without remaining trials gets an infinite count, so that it is not tried again
        agent = int(np.argmin(n_of_agent))
        while len(remaining[agent]) == 0:
            n_of_agent[agent] = np.inf
            agent = int(np.argmin(n_of_agent))

        # Its trial with the smallest counts of the agents and, among equal ones, of the item. The factor n + 1 exceeds
        # every count on an item, so that these counts never outweigh those of the agents.
        candidates = remaining[agent]
        n_of_pair = n_of_agent[first[candidates]] + n_of_agent[second[candidates]]
        cost = n_of_pair * (n + 1) + n_on_item[item[candidates]]
        trial = int(candidates[np.argmin(cost)])

        is_drawn[trial] = True
        n_on_item[item[trial]] += 1
        for agent_of_trial in (int(first[trial]), int(second[trial])):
            n_of_agent[agent_of_trial] += 1
            trials_of_agent = remaining[agent_of_trial]
            remaining[agent_of_trial] = trials_of_agent[trials_of_agent != trial]
    return shuffled[is_drawn]
