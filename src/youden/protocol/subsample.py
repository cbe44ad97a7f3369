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
from youden.types.pool import Bools, Ids, Positions
from youden.types.trials import PROBE, SELF, count_earlier

MIN_PAIRED_PER_AGENT = 4
"""Minimum number of paired trials per agent."""


def count_calls(plan: Plan, budget: object) -> int:
    """Convert a budget for a part of a plan to a number of calls of both trial types.

    budget : calls (4000), a percentage of the dense calls ("5%"), or paired trials per agent ("450/agent"), which is
        limited to the calls of the plan

    Raises PlanError [calls-invalid] if it is none of these.
    """
    parsed = CallBudget.parse(budget)
    if parsed.unit == "/agent":
        n_paired = ceil(parsed.value * plan.n_agents / 2)  # a paired trial has two agents
        n_independent_of_plan = int((plan.trial_type == INDEPENDENT).sum())
        n_independent = min(n_independent_of_plan, count_independent_for_paired(n_paired, plan.n_agents))
        return min(len(plan), n_paired + n_independent)
    if parsed.unit == "%":
        return max(1, round(plan.n_dense_calls * parsed.value / 100))
    return int(parsed.value)


def subsample(plan: Plan, *, calls: int | str | None = None, seed: int = 0, earlier: Plan | None = None) -> Plan:
    """Draw a balanced part of a plan's trials, without probes and trials that touch held-out cells.

    If all trials are in complete blocks, whole blocks are drawn, evenly over the items; otherwise, single paired
    trials, evenly over agents, then items. Independent trials get 7 to 10% of the calls, and those that do not fill a
    block.

    calls : calls (4000), a percentage of the dense calls ("5%"), or paired trials per agent ("450/agent"); default: all
        trials that training may use, without the free independent trials that exceed the paired ones
    earlier : part that was drawn before `plan` was extended; its trials are drawn first, so that their answers are used

    Raises PlanError [calls-invalid] if `calls` is not a budget; [subsample-calls]: if it exceeds the trials of the
    plan; [subsample-few]: if agents get fewer than 4 paired trials; [plan-no-pool], [plan-other-pool]: if the plan's
    pool cannot be read.
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
        raise _too_few_error(plan, calls, n_paired)

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
    return _make_plan_of_rows(plan, drawn, n_requested=calls, seed=seed, has_blocks=has_blocks, note=note)


def _make_plan_of_rows(
    plan: Plan, rows: Positions, *, n_requested: int, seed: int, has_blocks: bool, note: str
) -> Plan:
    """Make a plan of some trials of another plan, without its holdout, rounds and extensions.

    rows : int array, rows of `plan` with the trials
    n_requested : number of calls that was requested; there may be fewer trials
    has_blocks : whether the trials are whole blocks; if not, they lose their block numbers
    note : the only note of the new plan
    """
    part = select_trials(plan, rows)
    trials = part.trials.as_new_plan()
    if not has_blocks:
        trials = replace(trials, block=np.full(len(rows), -1, dtype=np.int32))
    return replace(
        part,
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


def _too_few_error(plan: Plan, calls: int, n_paired: int) -> PlanError:
    """Make the error for a number of calls of which too few, `n_paired`, are paired."""
    min_paired = ceil(MIN_PAIRED_PER_AGENT * plan.n_agents / 2)
    min_calls = min(min_paired + count_independent_for_paired(min_paired, plan.n_agents), len(plan))
    return PlanError(
        f"The calls give {plan.n_agents} agents fewer than {MIN_PAIRED_PER_AGENT} paired trials each: got {calls:,} "
        f"calls, of which {n_paired:,} are paired. Set {min_calls:,} calls or more; the run must have at least as many.",
        slug="subsample-few",
    )


def _find_usable_rows(plan: Plan) -> Positions:
    """Return the rows of the trials whose texts are in training cells, without probes and self-trials: int array."""
    train = plan.split.train
    first_item, second_item = plan.trials.text_cells
    is_training = train[plan.first, first_item] & train[plan.second, second_item]
    return np.flatnonzero(is_training & ~np.isin(plan.role, (PROBE, SELF)))


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
    """Return whether all paired trials are in blocks in which each agent with a training cell on the item is first once.

    paired : int array, rows of paired trials
    """
    first = plan.first[paired]
    block_number = plan.block[paired].astype(np.int64)
    if len(block_number) == 0 or (block_number < 0).any():
        return False
    _, block, n_trials = np.unique(block_number, return_inverse=True, return_counts=True)

    # a block has as many different first agents as trials if no agent is first twice
    block_and_agent_codes = np.unique(block * plan.n_agents + first)
    n_first_agents = np.bincount(block_and_agent_codes // plan.n_agents)
    has_each_once: Bools = n_first_agents == n_trials

    n_agents_on_item = plan.split.train.sum(axis=0)
    has_all_agents: Bools = n_agents_on_item[plan.item[paired]] == n_trials[block]
    return bool(has_each_once.all() and has_all_agents.all())


def _order_blocks(item_by_block: Ids, is_earlier: Bools, rng: np.random.Generator) -> Positions:
    """Return the positions of blocks in random order: earlier blocks first, then the first block of each item, and so on."""
    random_order = rng.permutation(len(item_by_block))
    earlier_first = random_order[np.argsort(~is_earlier[random_order], kind="stable")]
    n_before_on_item = count_earlier(item_by_block[earlier_first])
    return np.asarray(earlier_first[np.lexsort((n_before_on_item, ~is_earlier[earlier_first]))])


def _sample_blocks(
    plan: Plan, paired: Positions, n: int, rng: np.random.Generator, *, earlier_rows: Positions
) -> Positions:
    """Draw random blocks (trials that compare all agents on one item) with at most n trials in all, evenly over the items.

    paired : int array, rows of paired trials, all in blocks
    earlier_rows : int array, rows of the trials in an earlier part of the plan, whose blocks are drawn first

    Returns the rows of the trials in the drawn blocks, int array, in the order of `paired`.
    """
    block_by_trial = plan.block[paired]
    block_numbers, first_trials, n_trials = np.unique(block_by_trial, return_index=True, return_counts=True)
    item_by_block = plan.item[paired][first_trials]

    is_earlier = np.isin(block_numbers, plan.block[earlier_rows])
    order = _order_blocks(item_by_block, is_earlier, rng)

    # the first blocks that have at most n trials in all
    fits = np.cumsum(n_trials[order]) <= n
    drawn_numbers = block_numbers[order[fits]]
    return paired[np.isin(block_by_trial, drawn_numbers)]


def _sample_evenly(
    plan: Plan, rows: Positions, n: int, rng: np.random.Generator, *, earlier_rows: Positions
) -> Positions:
    """Draw n trials of a plan one at a time, so that agents and items are drawn about equally often, in random order.

    rows : int array, rows of the trials to draw from
    n : number of trials; all are returned if there are not more
    earlier_rows : int array, at most n of `rows`, which are drawn first
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
