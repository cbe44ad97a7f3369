"""Plan, judge, look, plan again: how an adaptive plan is carried to its end, whoever answers.

It knows the order of looks and rounds; it refuses to know who the judge is and where answers are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from youden.nouns import Plan, Pool, Verdicts
from youden.protocol.designs.adaptive import Adaptive, adaptive_options, turns_of
from youden.protocol.next_round import extend
from youden.run.abilities import standing_of

N = TypeVar("N", np.int32, np.float64)
Ask = Callable[[Plan], Verdicts]
REASONS = {
    "separated": "stopped early: the top agents are separated from the rest",
    "narrow": "stopped early: every interval is as narrow as asked for",
    "budget": "the budget is spent",
}


def run_rounds(plan: Plan, pool: Pool, ask: Ask) -> Verdicts:
    """Carry an adaptive `plan` (its pilot, or as far as it came) to its end: verdicts on the whole of it.

    ask: answers a whole plan; each round asks again what earlier ones asked, so it should answer from a store what it can.
    What earlier rounds cost is kept. Any other plan is asked once.
    """
    turns = turns_of(plan)
    if turns is None:
        return ask(plan)
    design = Adaptive(**adaptive_options(plan))
    result = ask(plan)
    while True:
        known = turns_of(result.plan) or turns
        # the very numbers that drew the pilot draw the slots that go on from it
        rng = np.random.default_rng([plan.seed, 1])
        round_ = design.next_round(
            result.plan, known, standing_of(result.plan, result), eligible=plan.split.train, rng=rng
        )
        if round_.over is not None:
            said = f"adaptive: {len(known.starts)} looks; {REASONS[round_.over]}"
            return replace(result, plan=replace(result.plan, notes=(*plan.notes, said)))
        result = with_costs(ask(extend(result.plan, pool, round_.trials, active=round_.active)), result)


def with_costs(result: Verdicts, earlier: Verdicts) -> Verdicts:
    """What the store gave for nothing this time was paid for earlier."""
    return replace(
        result,
        tokens_in=_added(result.tokens_in, earlier.tokens_in),
        tokens_out=_added(result.tokens_out, earlier.tokens_out),
        usd=_added(result.usd, earlier.usd),
        seconds=_added(result.seconds, earlier.seconds),
    )


def _added(now: NDArray[N] | None, before: NDArray[N] | None) -> NDArray[N] | None:
    if now is None or before is None:
        return now
    total = now.copy()
    total[: len(before)] += before
    return total
