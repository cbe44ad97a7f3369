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
from youden.protocol.blocks import remove_follow_ups
from youden.protocol.independent import with_added_trials
from youden.stats.flagged_groups import FlaggedGroups
from youden.stats.partners import PairTotals
from youden.streams import stream
from youden.types import PAIRED, Plan, Trials, Verdicts
from youden.types.pool import Positions
from youden.types.trials import FOLLOW_UP

FOLLOW_UPS_PER_PAIR = 40
"""Maximum number of follow-up trials of a pair: enough to prove that two agents always agree."""
MIN_FOLLOW_UPS_PER_PAIR = 8
"""Minimum number of follow-up trials of a pair; a group gets none if the budget is too small for this number."""


def allocate_follow_ups(flags: FlaggedGroups, budget: int) -> dict[tuple[int, int], int]:
    """Divide a budget of follow-up trials among groups of agents that agree suspiciously often.

    These groups have too few answers to be flagged yet. Follow-up trials provide more. The groups are served in order. All
    pairs of a group get the same number of trials, or none if the remaining budget is too small. Pairs that are already
    flagged, or served in an earlier group, are skipped.

    flags : flagged pairs of agents, and the undecided groups
    budget : maximum number of trials of all pairs together

    Returns the number of trials by pair of agents (lower position, higher position), without pairs that get none.
    """
    n_trials_by_pair: dict[tuple[int, int], int] = {}
    n_left = budget
    is_flagged = flags.cluster[:, np.newaxis] == flags.cluster  # pairs of agents in the same flagged group
    for group in flags.undecided:
        pairs = combinations(group, 2)
        new_pairs = [pair for pair in pairs if not is_flagged[pair] and pair not in n_trials_by_pair]
        if not new_pairs:
            continue

        n_affordable = n_left // len(new_pairs)
        n_per_pair = min(FOLLOW_UPS_PER_PAIR, n_affordable)
        if n_per_pair >= MIN_FOLLOW_UPS_PER_PAIR:
            n_trials_by_pair |= dict.fromkeys(new_pairs, n_per_pair)
            n_left -= n_per_pair * len(new_pairs)
    return n_trials_by_pair


def judge_follow_ups(verdicts: Verdicts, judge_plan: JudgePlan, *, share: float) -> Verdicts:
    """Judge additional (follow-up) trials that decide whether groups of agents copy from each other.

    The agents of these groups agree very often, but have too few answers for a decision. Follow-up trials compare the pairs of
    a group on new items. They are planned as if earlier follow-ups did not exist. Each group is therefore tested only twice,
    and an interrupted run draws the same trials again.

    verdicts : verdicts of the run so far; follow-ups among them are replaced
    judge_plan : function that returns the verdicts of a plan
    share : maximum number of follow-ups, as a fraction of the plan's calls, rounded down

    Returns the verdicts of the plan with its follow-ups, or of the plan alone if no group needs any. Errors of `judge_plan` are
    passed on.
    """
    without_follow_ups = remove_follow_ups(verdicts)
    plan = without_follow_ups.plan
    totals = PairTotals.from_chunks([select_paired_answers(without_follow_ups.rates())], plan.n_agents)
    flags = find_flagged_groups(totals, plan.agent_ids)
    n_trials_by_pair = allocate_follow_ups(flags, int(share * len(plan)))

    follow_ups = draw_follow_ups(plan, n_trials_by_pair, stream("follow-ups", plan.seed))
    if not len(follow_ups):
        return without_follow_ups
    return judge_plan(with_added_trials(plan, follow_ups))


def draw_follow_ups(plan: Plan, n_trials_by_pair: Mapping[tuple[int, int], int], rng: np.random.Generator) -> Trials:
    """Draw additional (follow-up) trials, which decide whether pairs of agents agree too often.

    Each pair is compared on random items that it was not compared on before. Held-out responses are not used. The order of the
    two agents alternates. The trials have the role `FOLLOW_UP` and the weight 0, so they do not change abilities.

    plan : plan of the run
    n_trials_by_pair : number of trials by pair of agents (lower position, higher position); a pair without enough items gets
        fewer
    rng : source of the random items

    Returns the new trials only, pair by pair.
    """
    trials_by_pair = []
    for (agent, partner), n_requested in n_trials_by_pair.items():
        new_items = _find_new_items(plan, agent, partner)
        n_drawn = min(n_requested, len(new_items))
        item = rng.choice(new_items, size=n_drawn, replace=False).astype(np.int32)

        # the two agents take turns in being first, beginning with the partner
        is_agent_first = np.arange(n_drawn) % 2 == 1
        first = np.where(is_agent_first, agent, partner).astype(np.int32)
        second = np.where(is_agent_first, partner, agent).astype(np.int32)
        trials_by_pair.append(Trials.paired(item, first, second))
    return Trials.concat(trials_by_pair).with_role(FOLLOW_UP, first=0.0, second=0.0)


def _find_new_items(plan: Plan, agent: int, partner: int) -> Positions:
    """Find the items on which two agents can be compared and have no paired trial yet.

    The responses of both agents must be usable for training.

    agent, partner : positions of the two agents, in any order

    Returns the positions of the items in increasing order, int64 array.
    """
    is_comparison = (plan.first == agent) & (plan.second == partner)
    is_swapped_comparison = (plan.first == partner) & (plan.second == agent)
    is_judged = (is_comparison | is_swapped_comparison) & (plan.trial_type == PAIRED)
    is_training = plan.split.train[agent] & plan.split.train[partner]
    return np.setdiff1d(np.flatnonzero(is_training), plan.item[is_judged])
