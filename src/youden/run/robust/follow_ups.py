"""Asks suspected pairs more before they are linked: further trials behind a plan's own, which no ranking but the links reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from youden.nouns import PAIRED, Plan, Pool, Trials, Verdicts
from youden.nouns.arrays import Positions
from youden.protocol.columns import with_more
from youden.protocol.follow_ups import without_follow_ups
from youden.protocol.rates import tally
from youden.run.robust.standings import links_of, paired_answers
from youden.run.rounds import with_costs
from youden.stats.robust.links import Linked
from youden.streams import stream

EACH = 16
"""Trials a suspected pair gets in a round: with as many as 2 % of the calls give it, its error goes down by a third."""

Ask = Callable[[Plan], Verdicts]


def most_suspected(found: Linked, n: int) -> Positions:
    """Up to n pairs to ask more, int[M, 2], the largest residual first; pairs whose agents are in one cluster are settled."""
    open_ = np.triu(found.suspected, 1) & (found.cluster[:, None] != found.cluster)
    one, other = np.nonzero(open_)
    order = np.argsort(-found.residual[one, other], kind="stable")[:n]
    return np.stack([one[order], other[order]], axis=1)


def follow_up(result: Verdicts, pool: Pool, ask: Ask, *, share: float) -> Verdicts:
    """Ask suspected pairs again and again, on other items, until none is open or `share` of the plan's calls is spent.

    The same answers make the same trials, so that an interrupted run goes on where it was.
    """
    result = without_follow_ups(result)
    rng, left = stream("follow-ups", result.plan.seed), int(share * len(result.plan))
    while left >= EACH:
        plan = result.plan
        found = links_of(paired_answers(tally(result), plan.split), plan.agent_ids)
        trials = _trials(plan, most_suspected(found, left // EACH), rng)
        if not len(trials):
            break
        more = with_more(plan, pool, trials)
        more = replace(more, n_follow_ups=plan.n_follow_ups + len(trials))
        result = with_costs(ask(more), result)
        left -= len(trials)
    return result


def _trials(plan: Plan, pairs: Positions, rng: np.random.Generator) -> Trials:
    """`EACH` paired trials a pair, half of them in either order, on random items that were not asked yet."""
    rows = []
    low, high = np.minimum(plan.first, plan.second), np.maximum(plan.first, plan.second)
    for one, other in pairs.tolist():
        asked_already = plan.item[(low == one) & (high == other) & (plan.arm == PAIRED)]
        both = plan.split.train[one] & plan.split.train[other]
        items = np.setdiff1d(np.flatnonzero(both), asked_already)
        if not len(items):
            continue
        asked = rng.choice(items, size=min(EACH, len(items)), replace=False)
        for number, item in enumerate(asked.tolist()):
            rows.append((item, one, other) if number % 2 else (item, other, one))
    return Trials.paired(*np.array(rows, dtype=np.int32).reshape(-1, 3).T)
