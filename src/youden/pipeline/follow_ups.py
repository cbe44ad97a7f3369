"""Judge follow-up trials of groups of agents that may agree more than any honest group on record.

The answers to the plan may be too few to flag a group. Its pairs are then judged once more, on items on which they
were not compared. Follow-ups serve only to flag groups; abilities do not use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from youden.engines.trial_blocks import select_paired_answers
from youden.pipeline.alternative_rankings import find_flagged_groups
from youden.pipeline.rounds import JudgePlan
from youden.protocol.blocks import verdicts_without_follow_ups
from youden.protocol.independent import with_added_trials
from youden.stats.flagged_groups import FlaggedGroups
from youden.stats.partners import PairTotals
from youden.streams import stream
from youden.types import PAIRED, Plan, Trials, Verdicts
from youden.types.trials import FOLLOW_UP

FOLLOW_UPS_PER_PAIR = 40
"""Maximum number of follow-up trials of a pair: enough to prove that two agents always agree."""
MIN_FOLLOW_UPS_PER_PAIR = 8
"""Minimum number of follow-up trials of a pair; a group gets none if the budget is too small for this number."""


def allocate_follow_ups(flags: FlaggedGroups, budget: int) -> dict[tuple[int, int], int]:
    """Allocate follow-up trials to the undecided groups of agents, which have too few answers to be flagged.

    The groups are served in order. All new pairs of a group get the same number of trials, or none if the remaining
    budget is too small. A pair is new if it is not flagged and got no trials in an earlier group.

    budget : maximum number of trials of all pairs together

    Returns the number of trials by pair of agents (lower position, higher position), without pairs that get none.
    """
    n_trials: dict[tuple[int, int], int] = {}
    n_left = budget
    for group in flags.undecided:
        new_pairs = []
        for agent, partner in combinations(group, 2):
            is_flagged = flags.cluster[agent] == flags.cluster[partner]
            if not is_flagged and (agent, partner) not in n_trials:
                new_pairs.append((agent, partner))

        n_affordable = n_left // max(len(new_pairs), 1)
        n_per_pair = min(FOLLOW_UPS_PER_PAIR, n_affordable)
        if n_per_pair >= MIN_FOLLOW_UPS_PER_PAIR:
            n_trials.update(dict.fromkeys(new_pairs, n_per_pair))
            n_left -= n_per_pair * len(new_pairs)
    return n_trials


def judge_follow_ups(result: Verdicts, judge_plan: JudgePlan, *, share: float) -> Verdicts:
    """Judge follow-up trials of groups of agents that agree very often, but have too few answers to be flagged.

    The trials are planned from the verdicts without follow-ups. A group is therefore tested at most twice, and an
    interrupted run draws the same trials when it resumes.

    result : verdicts of the run so far; follow-ups among them are replaced
    judge_plan : function that returns the verdicts of a plan
    share : maximum number of follow-ups, as a fraction of the plan's calls

    Returns the verdicts of the plan with its follow-ups, or of the plan alone if no group needs any. Errors of `judge_plan`
    are passed on.
    """
    without_follow_ups = verdicts_without_follow_ups(result)
    plan = without_follow_ups.plan
    totals = PairTotals.from_chunks([select_paired_answers(without_follow_ups.rates())], plan.n_agents)
    flags = find_flagged_groups(totals, plan.agent_ids)
    n_trials_by_pair = allocate_follow_ups(flags, int(share * len(plan)))

    follow_ups = draw_follow_ups(plan, n_trials_by_pair, stream("follow-ups", plan.seed))
    if not len(follow_ups):
        return without_follow_ups
    return judge_plan(with_added_trials(plan, follow_ups))


def draw_follow_ups(plan: Plan, n_trials: Mapping[tuple[int, int], int], rng: np.random.Generator) -> Trials:
    """Draw follow-up trials, which decide whether groups of agents are flagged but do not change abilities.

    Each pair of agents is compared on random items on which it has no paired trial yet and no held-out cell. The order of
    the two agents alternates. The trials have the role `FOLLOW_UP` and the weight 0 for both agents.

    plan : plan of the run
    n_trials : number of trials of each pair of agents (lower position, higher position); a pair without enough items gets
        fewer

    Returns the new trials only, pair by pair.
    """
    rows = []  # item, first agent and second agent of each trial
    lower, higher = np.minimum(plan.first, plan.second), np.maximum(plan.first, plan.second)
    for (agent, partner), n_of_pair in n_trials.items():
        # items on which the pair has no paired trial and no held-out cell
        is_judged = (lower == agent) & (higher == partner) & (plan.trial_type == PAIRED)
        is_training = plan.split.train[agent] & plan.split.train[partner]
        new_items = np.setdiff1d(np.flatnonzero(is_training), plan.item[is_judged])

        drawn_items = rng.choice(new_items, size=min(n_of_pair, len(new_items)), replace=False)
        for number, item in enumerate(drawn_items.tolist()):
            first, second = (agent, partner) if number % 2 else (partner, agent)
            rows.append((item, first, second))

    columns = np.array(rows, dtype=np.int32).reshape(-1, 3).T
    return Trials.paired(*columns).with_role(FOLLOW_UP, first=0.0, second=0.0)
