"""Plan, judge, look, plan again: how a plan in rounds is carried to its end, whoever answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from youden.nouns import Plan, Pool, Rounds, Target, Verdicts
from youden.protocol.designs.adaptive import NextRound, adaptive_of
from youden.protocol.designs.width import Width, width_of
from youden.protocol.next_round import with_round
from youden.streams import stream

Ask = Callable[[Plan], Verdicts]
REASONS = {
    "separated": "stopped early: the top agents are separated from the rest",
    "narrow": "stopped early: intervals are as narrow as asked for",
    "budget": "the budget is spent",
    "items": "stopped: these items do not allow intervals as narrow as asked for",
}


def run_rounds(plan: Plan, pool: Pool, ask: Ask, *, target: Target = "items-like-these") -> Verdicts:
    """Carry a `plan` in rounds (its first one, or as far as it came) to its end: verdicts on the whole of it.

    ask: answers a whole plan; each round asks again what earlier ones asked, so it should answer from a store what it can, and
    bill what that store's books say. target: what the intervals speak of that it stops by. Any other plan is asked once.
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
        more = with_round(result.plan, pool, rounds, round_.trials, active=round_.active)
        result = ask(more)


def _short(plan: Plan) -> str:
    """What a budget that is spent was not enough for."""
    if plan.design == Width.name:
        return " before intervals were as narrow as asked for"
    top = adaptive_of(plan).top
    return "" if top is None else f" before the top {top} were told apart from the rest, all looks together"


def _rule_of(plan: Plan, *, target: Target) -> Callable[[Verdicts, Rounds], NextRound]:
    """What comes after a look; a round begins with the very numbers that drew the first one, and goes on from it."""
    from youden.run.estimates.abilities import standing_of

    eligible = plan.split.train
    if plan.design == Width.name:
        from youden.run.width_rounds import next_width_round

        wanted = width_of(plan)
        return lambda result, _: next_width_round(
            result, wanted, standing_of(result, target=target), eligible=eligible, rng=stream("trials", plan.seed)
        )
    design = adaptive_of(plan)
    return lambda result, rounds: design.next_round(
        result.plan, rounds, standing_of(result, target=target), eligible=eligible, rng=stream("trials", plan.seed)
    )
