"""How a plan in rounds is carried to its end, whoever answers: plan, judge, look, plan again.

Where intervals are to be narrow, all agents are asked alike and who is ahead is not looked at, so that a look costs no error
rate. What a look can do is to stop a little early where the variance happens to look small: each round comes up to what is needed
from below, and a few looks are all there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np

from youden.pipeline.abilities import Abilities, choice_among
from youden.pipeline.precision import run_parts
from youden.protocol.blocks import with_round
from youden.protocol.designs.adaptive import SHARE, NextRound, Width, adaptive_of, width_of
from youden.protocol.designs.cyclic import numbered
from youden.run_keys import Target
from youden.stats.forecast import LEVEL, at_share, half_widths, items_for, slots_for
from youden.stats.trials.best_selection import comparable, wanting
from youden.stats.trials.comparisons import Differences, differences
from youden.streams import stream
from youden.types import Plan, Rounds, Verdicts
from youden.types.pool import Bools

APPROACH = 0.7
"""Of the slots that seem to be left, the share asked at once, while more than `NEAR` of those so far are left."""
NEAR = 0.1
LEAST_STEP = 0.02
"""A round has at least this share of the slots so far, so that looks are few; and at most as many as there are so far."""
OUT_OF_REACH = 1.05
"""A limit this much above the width is out of reach. Between the width and this, the run asks until it is as near as `NEAR`."""


def next_width_round(
    result: Verdicts, design: Width, found: Abilities, *, eligible: Bools, rng: np.random.Generator
) -> NextRound:
    """The next slots of `design`, or why there are none: narrow enough, out of these items' reach, or no budget left."""
    plan = result.plan
    everybody = np.ones(plan.n_agents, dtype=np.bool_)
    n_done, n_spent = int(plan.slot.max()) + 1, int((plan.slot >= 0).sum())
    half = found.covariance.half_width(LEVEL)
    if at_share(half, SHARE) <= design.width:
        return NextRound(numbered([]), everybody, "narrow")
    parts, width, share = run_parts(result), design.width, SHARE
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


def next_search_round(result: Verdicts, found: Abilities, told: Differences, goal: float) -> dict[str, Any]:
    """Who keeps those named from being known to be within `goal` of the best, and how many blocks more they seem to need."""
    search, plan = found.search, result.plan
    if search is None or not comparable(told):
        return {}
    last = search.looks[-1]
    active, more, _ = wanting(told, last.end, top=search.top, share=last.hoped_share, goal=goal)
    n = float(plan.trials.told(plan.slot >= 0, plan.n_agents)[active].max())
    return {"active": active, "more": ceil(n * more)}


def _instead(n_items: int | None) -> str:
    return "; no number of items in reason does" if n_items is None else f"; about {n_items:,} items like these would"


Ask = Callable[[Plan], Verdicts]
REASONS = {
    "near enough": "stopped early: those named are near enough to the best",
    "narrow": "stopped early: intervals are as narrow as asked for",
    "budget": "the budget is spent",
    "judge": "stopped early: ",
    "items": "stopped: these items do not allow intervals as narrow as asked for",
}


def run_rounds(plan: Plan, ask: Ask, *, target: Target = "items-like-these") -> Verdicts:
    """Carry a `plan` in rounds (its first one, or as far as it came) to its end: verdicts on the whole of it.

    ask: answers a whole plan; each round asks again what earlier ones asked, so it should answer from a store what it can, and
    bill what that store's books say. target: what the intervals are about that it stops by. Any other plan is asked once.
    """
    rounds = plan.rounds
    if rounds is None:
        return ask(plan)
    next_round = _rule_of(plan, target=target)
    result = ask(plan)
    while True:
        rounds = result.plan.rounds or rounds
        round_ = next_round(result, rounds)
        if round_.over is not None:
            short = _short(plan) if round_.over == "budget" else ""
            said = f"{plan.design}: {len(rounds.starts)} looks; {REASONS[round_.over]}{short}{round_.more}"
            notes = (note for note in plan.notes if not note.startswith(f"{plan.design}: "))
            return replace(result, plan=replace(result.plan, notes=(*notes, said)))
        more = with_round(result.plan, rounds, round_.trials, active=round_.active)
        result = ask(more)


def _short(plan: Plan) -> str:
    """What a budget that is spent was not enough for."""
    if plan.design == Width.name:
        return " before intervals were as narrow as asked for"
    design = adaptive_of(plan)
    those = "the one named was" if design.top == 1 else f"the {design.top} named were"
    near = "told apart from the rest" if design.within is None else f"known to be within {design.within:g} of the best"
    return f" before {those} {near}, all looks together"


def _rule_of(plan: Plan, *, target: Target) -> Callable[[Verdicts, Rounds], NextRound]:
    """What comes after a look; a round begins with the very numbers that drew the first one, and goes on from it."""
    from youden.pipeline.ranking import standing_of
    from youden.pipeline.recommendation import no_signal

    eligible = plan.split.train
    if plan.design == Width.name:
        wanted = width_of(plan)
        return lambda result, _: next_width_round(
            result, wanted, standing_of(result, target=target), eligible=eligible, rng=stream("trials", plan.seed)
        )
    design = adaptive_of(plan)

    goal, before = design.within or 0.0, None

    def search(result: Verdicts, rounds: Rounds) -> NextRound:
        nonlocal before
        found, more = standing_of(result, target=target, before=before), {}
        before = found.search
        if reason := no_signal(result, found):
            return NextRound(numbered([]), np.ones(plan.n_agents, dtype=np.bool_), "judge", reason)
        told = differences(found.ability, found.covariance, level=LEVEL)
        named = choice_among(found, told)
        if named is not None and named.within <= goal:
            return NextRound(numbered([]), np.ones(plan.n_agents, dtype=np.bool_), "near enough")
        if goal and named is not None:
            more = next_search_round(result, found, told, goal)
        rng = stream("trials", plan.seed)
        return design.next_round(result.plan, rounds, found.ability, eligible=eligible, rng=rng, **more)

    return search
