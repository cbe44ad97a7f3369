"""Draw self-trials: comparisons of two responses of one agent, from which its self-consistency is estimated.

The trials of an agent depend on its id and its responses alone. If another agent joins the pool, a run therefore finds the
answers to the agent's trials in the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from zlib import crc32

import numpy as np

from youden.errors import PlanError
from youden.protocol.independent import count_characters
from youden.run_keys import CallBudget
from youden.streams import stream
from youden.text.sentences import format_count
from youden.types import Plan, Pool, Trials
from youden.types.pool import Bools, Json, Positions
from youden.types.trials import SELF, SELF_TRIAL

MAX_PAIRED = 450
"""Default maximum number of paired self-trials of an agent."""


def needs_self_trials(pool: Pool) -> bool:
    """Return whether a pool is too small to compare agents, but has several responses of an agent to an item."""
    return 0 < pool.n_agents < 3 and pool.n_items >= 2 and pool.repeats > 1


def suggest_additions(pool: Pool) -> str:
    """Return what to add to a pool that is too small for a ranking and for self-trials, as an imperative without a full stop."""
    if pool.n_items < 2:
        return "Add agents and items" if pool.n_agents < 3 and pool.repeats == 1 else "Add items"
    if needs_self_trials(pool) or pool.n_agents == 0:
        return "Add agents"
    agents = "the agent" if pool.n_agents == 1 else "each agent"
    return f"Add agents, or a second response of {agents} to each item"


def check_self_trials(calls: CallBudget | None, settings: Mapping[str, Json]) -> None:
    """Check that all settings are valid for a plan of self-trials, which compare two responses of the same agent.

    calls : budget, which must not be a percentage
    settings : settings that have no effect on self-trials, by name; all must be None, False, 0 or empty

    Raises PlanError [self-trials] otherwise.
    """
    unused_settings = [(name, value) for name, value in settings.items() if value]
    if calls is not None and calls.unit == "%":
        unused_settings.insert(0, ("calls", calls.plain))

    if unused_settings:
        name, value = unused_settings[0]
        raise PlanError(
            f"A pool of one or two agents is judged by self-trials, which do not use this setting: got {name}: {value}. "
            "Remove it (calls can be a number, or a number per agent), or add agents.",
            slug="self-trials",
        )


def with_self_trials(plan: Plan, pool: Pool, n_paired: int) -> Plan:
    """Return a plan with self-trials of its agents added at its end; no ability uses self-trials.

    Parameters
    ----------
    plan : Plan
        Plan that compares agents, without self-trials. If it has self-trials already, they are added again; this is not checked.
    pool : Pool
        Pool of the plan.
    n_paired : int
        Maximum number of paired self-trials of each agent. As many independent self-trials are added. If 0, the plan itself is
        returned.

    Returns
    -------
    Plan
        A copy whose self-trials have the trial type SELF_TRIAL (2), the role "self" and the weight 0. Paired self-trials have the
        same item twice. A note states their number, and which agents have none.

    Raises
    ------
    PlanError
        [self-trials]: if the plan is made in rounds or for preferences; [repeats-few]: if no agent has two responses to
        two items.
    """
    if not n_paired:
        return plan
    if plan.rounds is not None or plan.question == "preference":
        raise PlanError(
            "Self-trials cannot be added to a plan in rounds, or to one for preferences: got "
            f"self_trials: {n_paired}, design: {plan.design}, question: {plan.question}. Remove self_trials.",
            slug="self-trials",
        )
    by_agent = [draw_self_trials(pool, agent, n_paired=n_paired, seed=plan.seed) for agent in range(pool.n_agents)]
    without = [agent.id for agent, trials in zip(pool.agents, by_agent, strict=True) if not len(trials)]
    if len(without) == pool.n_agents:
        raise PlanError(
            f"No agent of '{pool.name}' can be compared with itself: got self_trials: {n_paired}, but no agent has two "
            "responses to at least two items. Add a second response to each item, or remove self_trials.",
            slug="repeats-few",
        )
    drawn = Trials.concat(by_agent)
    other_item = np.where(drawn.other_item < 0, drawn.item, drawn.other_item)
    trial_type = np.full(len(drawn), SELF_TRIAL, dtype=np.int8)
    drawn = replace(drawn, trial_type=trial_type, other_item=other_item).with_role(SELF, first=0.0, second=0.0)
    note = f"{format_count(len(drawn), 'self-trial')} in addition to the budget, for the self-consistency of each agent"
    if without:
        note += f"; without two responses to two items, and thus without self-trials: {', '.join(without)}"
    return replace(
        plan,
        trials=Trials.concat([plan.trials, drawn]),
        options={**plan.options, "self_trials": n_paired},
        characters=plan.characters + count_characters(pool, drawn),
        notes=(*plan.notes, note),
    )


def check_compares_agents(plan: Plan, command: str) -> None:
    """Raise PlanError [self-trials-only] if a command that compares agents is applied to a plan of self-trials."""
    if plan.is_self_plan:
        raise PlanError(
            f"`youden {command}` compares different agents: got self-trials of "
            f"{format_count(len(plan.agent_ids), 'agent')}. Use a run of three agents or more.",
            slug="self-trials-only",
        )


def draw_self_trials(pool: Pool, agent: int, *, n_paired: int, seed: int) -> Trials:
    """Draw paired self-trials of an agent, followed by as many independent self-trials.

    Parameters
    ----------
    pool : Pool
        Responses of the agents.
    agent : int
        Position of the agent. Only its items with two or more responses are used.
    n_paired : int
        Maximum number of paired trials, 0 or more; fewer are drawn if no unused ordered pair of responses is left. A smaller
        number gives the first paired and the first independent trials of a larger one.
    seed : int
        Seed of the plan.

    Returns
    -------
    Trials
        Paired trials of two different responses to an item, and then as many independent trials, of responses to two items. Both
        agents of a trial are `agent`. There are none if fewer than two items have two responses.

    Notes
    -----
    Pairs of responses come in rounds. A round has one pair of each item, in random order: first the pairs of an item in
    random order and random orientation, then the same pairs in the opposite orientation. The independent trials of a
    round compare the first response of each pair with a random response to the item that is a fixed number of steps ahead
    in the random order of items. In a complete round, each item appears once first and once second.
    """
    rng = stream("self trials", seed, crc32(pool.agents[agent].id.encode()))
    items = rng.permutation(np.flatnonzero(pool.n_repeats[agent] >= 2))
    if len(items) < 2:
        return Trials.concat([]).with_first_repeats()

    # one row per pair of responses, sorted by round, and by the random order of items within a round
    n_responses = pool.n_repeats[agent, items]
    position, first_repeat, second_repeat, round_number = _order_pairs(n_responses, rng).T
    steps_ahead = 1 + round_number % (len(items) - 1)
    other_position = (position + steps_ahead) % len(items)
    other_repeat = rng.integers(1, n_responses[other_position] + 1)

    columns = np.stack([items[position], items[other_position], first_repeat, second_repeat, other_repeat])
    item, other_item, first_repeat, second_repeat, other_repeat = columns[:, :n_paired].astype(np.int32)
    agents = np.full(len(item), agent, dtype=np.int32)
    paired = replace(Trials.paired(item, agents, agents), first_repeat=first_repeat, second_repeat=second_repeat)
    independent = Trials.independent(item, agents, agents, other_item)
    independent = replace(independent, first_repeat=first_repeat.copy(), second_repeat=other_repeat)
    return Trials.concat([paired, independent])


def _order_pairs(n_responses: Positions, rng: np.random.Generator) -> Positions:
    """List all ordered pairs of different responses to the same item, divided into rounds.

    A round contains at most one pair of each item. In the first rounds, each pair of responses to an item comes once, in random
    order and with a random response first. In the following rounds, the pairs come again in the same order, with the two
    responses exchanged.

    n_responses : int array (n_items,), number of responses to each item, at least 2

    Returns an int64 array (n_pairs, 4), sorted by round and item. Its columns are the position of the item, the first and
    the second response, numbered from 1, and the round, from 0.
    """
    # all pairs of response numbers, lower number first; an item has a pair if it has the response with the higher number
    responses = range(1, int(n_responses.max()) + 1)
    lower, higher = np.array(list(combinations(responses, 2))).T
    has_pair = higher <= n_responses[:, np.newaxis]  # (n_items, number of all pairs)

    # round in which an item uses each of its pairs for the first time
    first_round_of_pair = _rank_at_random(has_pair, rng)
    n_pairs_of_item = has_pair.sum(axis=1)
    is_higher_first = rng.random(has_pair.shape) < 0.5

    # one row per item and pair, with the responses in the order of the first time
    item, pair = np.nonzero(has_pair)
    first = np.where(is_higher_first[item, pair], higher[pair], lower[pair])
    second = np.where(is_higher_first[item, pair], lower[pair], higher[pair])

    first_round = first_round_of_pair[item, pair]
    second_round = first_round + n_pairs_of_item[item]
    shown_first = np.column_stack([item, first, second, first_round])
    shown_again = np.column_stack([item, second, first, second_round])
    all_pairs = np.concatenate([shown_first, shown_again])
    by_round_and_item = np.lexsort([all_pairs[:, 0], all_pairs[:, 3]])
    return np.asarray(all_pairs[by_round_and_item])


def _rank_at_random(mask: Bools, rng: np.random.Generator) -> Positions:
    """Draw a random order of the True elements in each row of a mask, and return their ranks in it, from 0.

    mask : bool array (n_rows, n_columns)

    Returns an int64 array of the same shape. False elements have ranks after those of all True elements of their row.
    """
    sort_key = rng.random(mask.shape)
    sort_key[~mask] = np.inf
    order = sort_key.argsort(axis=1)
    return np.asarray(order.argsort(axis=1))
