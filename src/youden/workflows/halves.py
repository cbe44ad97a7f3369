"""Run an A/A test: split each agent's repeats into two halves, and count how often the halves are ranked differently.

The halves of an agent do not differ, so every significant difference is a false positive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from youden.errors import InputError
from youden.pipeline.ranking import differences_from_verdicts, trial_abilities_from_verdicts
from youden.protocol.self_trials import check_compares_agents
from youden.stats.trials.noninferiority import alpha_at_analysis, decide
from youden.streams import stream
from youden.types import Plan, Trials, Verdicts
from youden.types.pool import Ids, Positions
from youden.workflows.gate_answers import make_forecaster


@dataclass(frozen=True)
class Halves:
    """Result of an A/A test.

    Attributes
    ----------
    n_agents, n_splits : int
        Number of agents, and of random splits of their repeats.
    n_pairs : int
        Number of pairs of halves whose difference has an interval, over all agents and splits. The rates refer to them.
    significant_rate : float
        Share of pairs of halves that are significantly different; .05 is expected at most.
    gated_worse : float
        Share of pairs in which a gate calls the second half worse; .025 is expected at most.
    """

    n_agents: int
    n_splits: int
    n_pairs: int
    significant_rate: float
    gated_worse: float

    @property
    def summary(self) -> str:
        """The result as a sentence."""
        if self.n_pairs == 0:
            return "Nothing was tested, because no difference between two halves of an agent has an interval. No call was made."
        return (
            f"Of {self.n_pairs:,} pairs of halves ({self.n_agents} agents, {self.n_splits} splits of their repeats), "
            f"{self.significant_rate:.1%} are significantly different (expected: at most 5%), and a gate calls "
            f"{self.gated_worse:.1%} worse (expected: at most 2.5%). No call was made."
        )


def run_aa_test(verdicts: Verdicts, *, n_splits: int = 20, seed: int = 0) -> Halves:
    """Estimate false-positive rates by an A/A test: compare two halves of the responses of each agent as two agents.

    The test uses the answers of a run and makes no calls.

    Parameters
    ----------
    verdicts : Verdicts
        Answers of a run whose agents have several responses per item.
    n_splits : int, default 20
        Number of random splits of the responses of all agents, at least 1. The responses of an agent to an item are split evenly;
        a single response belongs to a random half.
    seed : int, default 0
        Seed of the splits.

    Returns
    -------
    Halves
        Two rates of false positives over all agents and splits, from 0 to 1. The first (`significant_rate`, at most .05 expected)
        is the share of pairs of halves that differ significantly, at the level of 95%. The second (`gated_worse`, at most .025
        expected) is the share of pairs in which a gate (non-inferiority test) calls the second half worse than the first half,
        its baseline. This gate has the margin 0, and alpha = .025 on either side. Pairs of halves whose difference has no
        interval are left out; `n_pairs` counts the others. If there are none, both rates are 0.

    Raises
    ------
    InputError
        [aa-repeats] if no agent has several responses to an item.
    PlanError
        [self-trials-only] if the run has only self-trials.
    """
    plan = verdicts.plan
    check_compares_agents(plan, "study aa")
    if plan.trials.first_repeat is None or _count_repeats(plan.trials) < 2:
        raise InputError(
            "An A/A test needs agents with several responses to an item: got one response to each. Import logs with epochs, or a "
            "table with a column `repeat`, and run that pool.",
            slug="aa-repeats",
        )

    false_positives: list[tuple[bool, bool]] = []
    for split in range(n_splits):
        halved = split_into_halves(verdicts, stream("halves", seed, split))
        false_positives += _compare_halves(halved, plan.n_agents)
    significant_rate, worse_rate = 0.0, 0.0
    if false_positives:
        significant_rate, worse_rate = np.mean(false_positives, axis=0).tolist()
    return Halves(plan.n_agents, n_splits, len(false_positives), significant_rate, worse_rate)


def _compare_halves(halved_verdicts: Verdicts, n_agents: int) -> list[tuple[bool, bool]]:
    """Test whether the two halves of each agent differ, although their true abilities are equal.

    halved_verdicts : answers of a run in which each agent is split into two: positions 0 to n_agents − 1 are the first halves,
        and the following n_agents positions are the second halves in the same order
    n_agents : number of agents before the split

    Returns for each agent whether its halves differ significantly, and whether a gate with the first half as the baseline calls
    the second half worse. Both would be false positives. Agents whose difference has no interval are left out.
    """
    differences = differences_from_verdicts(halved_verdicts, target="items-like-these")
    forecast = make_forecaster(halved_verdicts, trial_abilities_from_verdicts(halved_verdicts))
    alpha = alpha_at_analysis(1)
    test_results = []
    for first_half in range(n_agents):
        second_half = first_half + n_agents
        if np.isnan(differences.half_width[first_half, second_half]):
            continue

        is_significant = bool(differences.significant[first_half, second_half])
        difference = forecast(second_half, first_half).difference
        half_width = difference.half_width(alpha)
        gate_outcome = decide(difference.value, half_width, margin=0.0).outcome
        test_results.append((is_significant, gate_outcome == "worse"))
    return test_results


def _get_repeat_numbers(trials: Trials) -> tuple[Ids, Ids]:
    """Return the number of the response that each trial shows, first and second side, int arrays (n_trials,) from 1."""
    columns = trials.columns()
    return columns["first_repeat"], columns["second_repeat"]


def _count_repeats(trials: Trials) -> int:
    """Return the largest number of responses of an agent to an item that the trials show."""
    return max(int(side.max()) for side in _get_repeat_numbers(trials))


def split_into_halves(verdicts: Verdicts, rng: np.random.Generator) -> Verdicts:
    """Split each agent into two agents with a random half of its responses each.

    The true abilities of the two halves are equal. The responses of each cell (one agent on one item) are split as evenly as
    possible. Trials lose their blocks: the two halves of an agent differ in their items and partners, so that plain means of
    blocks would be biased.

    verdicts : answers of a run whose agents have several responses per item
    rng : source of the random halves

    Returns the same answers, on a plan of 2·n_agents agents: the halves of agent i have the positions i and n_agents + i.
    """
    plan = verdicts.plan
    trials = _assign_halves(plan, rng)

    # both halves of an agent have its training and held-out cells
    train = np.tile(plan.split.train, (2, 1))
    holdout = np.tile(plan.split.holdout, (2, 1))
    split = replace(plan.split, train=train, holdout=holdout)
    ids = (*plan.agent_ids, *(f"{agent} (other half)" for agent in plan.agent_ids))
    halved = replace(
        plan, trials=trials, agent_ids=ids, split=split, design="halves", rounds=None, extensions=None, source=None
    )
    return replace(verdicts, plan=halved)


def _assign_halves(plan: Plan, rng: np.random.Generator) -> Trials:
    """Assign each response of a plan at random to one of the two halves of its agent.

    rng : source of the random halves

    Returns the trials of the plan, in the same order. Agent i remains agent i for a response in its first half, and becomes agent
    n_agents + i for a response in its second half. Repeat numbers and block numbers are removed from the trials.
    """
    n_agents = plan.n_agents
    first_repeat, second_repeat = _get_repeat_numbers(plan.trials)
    n_repeats = _count_repeats(plan.trials)
    half_by_response = _draw_halves((n_agents, plan.n_items, n_repeats), rng)

    # half (0 or 1) of the first and the second response of each trial; repeats are numbered from 1
    first_item, second_item = plan.trials.text_cells
    first_half = half_by_response[plan.first, first_item, first_repeat - 1]
    second_half = half_by_response[plan.second, second_item, second_repeat - 1]

    return replace(
        plan.trials,
        first=(plan.first + n_agents * first_half).astype(np.int32),
        second=(plan.second + n_agents * second_half).astype(np.int32),
        block=np.full_like(plan.block, -1),  # a half has only some trials of a block, so blocks are no longer complete
        first_repeat=None,
        second_repeat=None,
    )


def _draw_halves(shape: tuple[int, int, int], rng: np.random.Generator) -> Positions:
    """Draw the half (0 or 1) of each response.

    Returns an int64 array (n_agents, n_items, n_repeats).
    """
    n_agents, n_items, _ = shape

    # Responses of an agent to an item are numbered in random order. Even numbers are in one half, and odd numbers in the other.
    # The half of number 0 may get one response more, so it is random.
    random_number = rng.random(shape).argsort(axis=2)
    half_of_number_0 = rng.integers(0, 2, (n_agents, n_items, 1), dtype=np.int64)
    return (random_number + half_of_number_0) % 2
