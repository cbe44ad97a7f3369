"""What a run that asks until its intervals are narrow enough asks next, and when it has enough.

All agents are asked alike and who is ahead is not looked at, so that a look costs no error rate. What a look can do is to stop a
little early where the variance happens to look small: each round comes up to what is needed from below, and a few looks are all
there are.
"""

from __future__ import annotations

from math import ceil

import numpy as np
from scipy.stats import t as student

from youden.nouns import Verdicts
from youden.nouns.arrays import Bools
from youden.protocol.designs.adaptive import NextRound, Standing
from youden.protocol.designs.cyclic import numbered
from youden.protocol.designs.width import Width
from youden.run.precision import run_parts
from youden.stats.precision.forecast import LEVEL, at_share, half_widths, items_for, slots_for

APPROACH = 0.7
"""Of the slots that seem to be left, the share asked at once, while more than `NEAR` of those so far are left."""
NEAR = 0.1
LEAST_STEP = 0.02
"""A round has at least this share of the slots so far, so that looks are few; and at most as many as there are so far."""
OUT_OF_REACH = 1.05
"""A limit this much above the width is out of reach. Between the width and this, the run asks until it is as near as `NEAR`."""


def next_width_round(
    result: Verdicts, design: Width, standing: Standing, *, eligible: Bools, rng: np.random.Generator
) -> NextRound:
    """The next slots of `design`, or why there are none: narrow enough, out of these items' reach, or no budget left."""
    plan = result.plan
    everybody = np.ones(plan.n_agents, dtype=np.bool_)
    n_done, n_spent = int(plan.slot.max()) + 1, int((plan.slot >= 0).sum())
    half = student.ppf((1 + LEVEL) / 2, standing.freedom) * standing.error
    if at_share(half, design.share) <= design.width:
        return NextRound(numbered([]), everybody, "narrow")
    parts, width, share = run_parts(result), design.width, design.share
    n_items = int(eligible.any(axis=0).sum())
    most = (plan.n_agents - 1) * n_items
    need = slots_for(parts, width, share=share, n_items=n_items, most=most)
    if need is None and n_done >= min(n_items, most):
        limit = at_share(half_widths(parts, most, n_items), share)
        if limit > OUT_OF_REACH * width or at_share(half, share) <= (1 + NEAR) * width:
            n = items_for(parts, width, share=share, n_agents=plan.n_agents)
            return NextRound(numbered([]), everybody, "items", _instead(n))
        need = slots_for(parts, (1 + NEAR) * width, share=share, n_items=n_items, most=most)
    left = (2 * n_done if need is None else need) - n_done
    step = left if left <= NEAR * n_done else ceil(APPROACH * left)
    until = n_done + min(n_done, max(step, ceil(LEAST_STEP * n_done)))
    trials = design.more(eligible, rng, n_done=n_done, n_spent=n_spent, until=until)
    return NextRound(trials, everybody, None if len(trials) else "budget")


def _instead(n_items: int | None) -> str:
    return "; no number of items in reason does" if n_items is None else f"; about {n_items:,} items like these would"
