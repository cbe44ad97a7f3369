"""Adds a round's trials to an adaptive plan that was judged so far."""

from __future__ import annotations

from dataclasses import replace

from youden.nouns import Plan, Pool, Rounds, Trials
from youden.nouns.arrays import Bools
from youden.protocol.columns import with_more


def with_round(plan: Plan, pool: Pool, rounds: Rounds, trials: Trials, *, active: Bools) -> Plan:
    """`plan` with a round's paired trials after its own, which keep their places. rounds: those so far.

    The trials must be new: their slots come after the plan's.
    """
    return replace(with_more(plan, pool, trials), rounds=rounds.then(int(trials.slot.min()), active))
