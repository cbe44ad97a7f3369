"""Plan, judge, look, plan again: how an adaptive plan is carried to its end, whoever answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from youden.nouns import Plan, Pool, Target, Verdicts
from youden.protocol.next_round import with_round
from youden.streams import stream

Ask = Callable[[Plan], Verdicts]
_ENDED = "adaptive: "
REASONS = {
    "separated": "stopped early: the top agents are separated from the rest",
    "narrow": "stopped early: every interval is as narrow as asked for",
    "budget": "the budget is spent",
}


def run_rounds(plan: Plan, pool: Pool, ask: Ask, *, target: Target = "items-like-these") -> Verdicts:
    """Carry an adaptive `plan` (its pilot, or as far as it came) to its end: verdicts on the whole of it.

    ask: answers a whole plan; each round asks again what earlier ones asked, so it should answer from a store what it can, and
    bill what that store's books say. target: what the intervals speak of that it stops by. Any other plan is asked once.
    """
    rounds = plan.rounds
    if rounds is None:
        return ask(plan)
    from youden.protocol.designs.adaptive import adaptive_of
    from youden.run.abilities import standing_of

    design = adaptive_of(plan)
    result = ask(plan)
    while True:
        rounds = result.plan.rounds or rounds
        # the very numbers that drew the pilot draw the slots that go on from it
        standing, rng = standing_of(result, target=target), stream("trials", plan.seed)
        round_ = design.next_round(result.plan, rounds, standing, eligible=plan.split.train, rng=rng)
        if round_.over is not None:
            said = f"{_ENDED}{len(rounds.starts)} looks; {REASONS[round_.over]}"
            notes = (note for note in plan.notes if not note.startswith(_ENDED))
            return replace(result, plan=replace(result.plan, notes=(*notes, said)))
        more = with_round(result.plan, pool, rounds, round_.trials, active=round_.active)
        result = ask(more)
