"""Plan, judge, look, plan again: how a plan in rounds is carried to its end, whoever answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from youden.nouns import Plan, Pool, Rounds, Target, Verdicts
from youden.nouns.arrays import Positions
from youden.protocol.designs.adaptive import NextRound, adaptive_of
from youden.protocol.designs.width import Width, width_of
from youden.protocol.next_round import with_round
from youden.streams import stream

N = TypeVar("N", np.int32, np.float64)
Ask = Callable[[Plan], Verdicts]
REASONS = {
    "separated": "stopped early: the top agents are separated from the rest",
    "narrow": "stopped early: intervals are as narrow as asked for",
    "budget": "the budget is spent",
    "items": "stopped: these items do not allow intervals as narrow as asked for",
}


def run_rounds(plan: Plan, pool: Pool, ask: Ask, *, target: Target = "items-like-these") -> Verdicts:
    """Carry a `plan` in rounds (its first one, or as far as it came) to its end: verdicts on the whole of it.

    ask: answers a whole plan; each round asks again what earlier ones asked, so it should answer from a store what it can.
    What earlier rounds cost is kept. target: what the intervals speak of that it stops by. Any other plan is asked once.
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
            said = f"{plan.design}: {len(rounds.starts)} looks; {REASONS[round_.over]}{round_.more}"
            notes = (note for note in plan.notes if not note.startswith(f"{plan.design}: "))
            return replace(result, plan=replace(result.plan, notes=(*notes, said)))
        more = with_round(result.plan, pool, rounds, round_.trials, active=round_.active)
        result = with_costs(ask(more), result)


def _rule_of(plan: Plan, *, target: Target) -> Callable[[Verdicts, Rounds], NextRound]:
    """What comes after a look; a round begins with the very numbers that drew the first one, and goes on from it."""
    from youden.run.abilities import standing_of

    eligible = plan.split.train
    if plan.design == Width.name:
        from youden.run.width_rounds import next_width_round

        wanted = width_of(plan)
        return lambda result, _: next_width_round(
            result, wanted, standing_of(result), eligible=eligible, rng=stream("trials", plan.seed)
        )
    design = adaptive_of(plan)
    return lambda result, rounds: design.next_round(
        result.plan, rounds, standing_of(result, target=target), eligible=eligible, rng=stream("trials", plan.seed)
    )


def with_costs(result: Verdicts, earlier: Verdicts) -> Verdicts:
    """What the store gave for nothing this time was paid for earlier: for the same request, wherever it stands now."""
    rows = _rows_now(result, earlier)
    return replace(
        result,
        tokens_in=_added(result.tokens_in, earlier.tokens_in, rows),
        tokens_out=_added(result.tokens_out, earlier.tokens_out, rows),
        usd=_added(result.usd, earlier.usd, rows),
        seconds=_added(result.seconds, earlier.seconds, rows),
    )


def _rows_now(result: Verdicts, earlier: Verdicts) -> Positions:
    """int[N of earlier]: the row of `result` that asks what each earlier row asked; the same row where nobody knows."""
    rows = np.arange(len(earlier))
    if result.key is None or earlier.key is None:
        return rows
    keys, first = np.unique(result.key, return_index=True)
    place = np.minimum(np.searchsorted(keys, earlier.key), len(keys) - 1)
    here = result.key[np.minimum(rows, len(result) - 1)] == earlier.key
    return np.where(here | (keys[place] != earlier.key), rows, first[place])


def _added(now: NDArray[N] | None, before: NDArray[N] | None, rows: Positions) -> NDArray[N] | None:
    if now is None or before is None:
        return now
    total = now.copy()
    np.add.at(total, rows, before)
    return total
