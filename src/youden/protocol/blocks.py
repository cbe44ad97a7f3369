"""A plan as it was earlier, and as it is with a round more: what its trials' roles and steps say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from youden.protocol.independent import with_more
from youden.types import PAIRED, Plan, Rounds, Trials, Verdicts
from youden.types.judging import PER_TRIAL
from youden.types.plan_steps import Extensions
from youden.types.pool import Bools
from youden.types.trials import PLACING


def extensions_of(plan: Plan) -> Extensions:
    """How `plan` was extended; of a plan that was not, no steps."""
    return plan.extensions or Extensions(plan.n_agents, plan.n_items, plan.pool_digest, ())


def first_in_slots(plan: Plan) -> bool:
    """Whether the first plan's paired trials stand in slots."""
    return bool((plan.slot[(plan.trials.step == 0) & (plan.arm == PAIRED)] >= 0).any())


def complete_part(plan: Plan) -> Plan:
    """The plan, without its trials, of `in_complete_part`: it was never extended, but may have more items than the first one."""
    anchors = extensions_of(plan).anchors
    return replace(_on_fewer(plan, anchors, plan.n_items, Trials.concat([])), extensions=None)


def in_complete_part(columns: Mapping[str, NDArray[Any]], anchors: int) -> Bools:
    """Which trials rank the first plan's agents whatever was asked since: those in complete slots, on all items.

    Independent ones count where neither agent joined later.
    """
    old = (columns["first"] < anchors) & (columns["second"] < anchors)
    return np.asarray(old & (columns["role"] != PLACING))


def after_steps(plan: Plan, n: int) -> Plan:
    """The plan as it was after its first `n` steps; `characters` stays what it is."""
    extensions = extensions_of(plan)
    if n >= len(extensions.steps):
        return plan
    agents, items, pool = extensions.anchors, extensions.items, extensions.pool
    if n:
        last = extensions.steps[n - 1]
        agents, items, pool = last.agents, last.items, last.pool
    return replace(
        _on_fewer(plan, agents, items, plan.trials.take(plan.trials.step <= n)),
        extensions=replace(extensions, steps=extensions.steps[:n]) if n else None,
        pool_digest=pool,
        source=plan.source if pool == plan.pool_digest else None,
        notes=plan.notes[: len(plan.notes) - (len(extensions.steps) - n)],
    )


def _on_fewer(plan: Plan, n_agents: int, n_items: int, trials: Trials) -> Plan:
    """Restrict a plan to its first agents and items, and replace its trials by `trials`."""
    train, holdout = (cells[:n_agents, :n_items] for cells in (plan.split.train, plan.split.holdout))
    return replace(
        plan,
        trials=trials,
        agent_ids=plan.agent_ids[:n_agents],
        item_ids=plan.item_ids[:n_items],
        split=replace(plan.split, train=train, holdout=holdout),
        source=None,
    )


def _answers_to(plan: Plan, result: Verdicts, rows: Bools | slice) -> Verdicts:
    """The answers of some rows, whose plan is `plan`."""
    columns = {name: getattr(result, name) for name in PER_TRIAL}
    kept: dict[str, Any] = {name: column[rows] for name, column in columns.items() if column is not None}
    return replace(result, plan=plan, **kept, votes=None if result.votes is None else result.votes[:, rows])


def plan_without_follow_ups(plan: Plan) -> Plan:
    """The plan as it was before suspected pairs were asked more; `characters` stays what it is."""
    n = plan.n_follow_ups
    return replace(plan, trials=plan.trials.take(slice(len(plan) - n))) if n else plan


def without_follow_ups(result: Verdicts) -> Verdicts:
    """The answers to that plan."""
    plan = plan_without_follow_ups(result.plan)
    if plan is result.plan:
        return result
    return _answers_to(plan, result, slice(len(plan)))


def with_round(plan: Plan, rounds: Rounds, trials: Trials, *, active: Bools) -> Plan:
    """`plan` with a round's paired trials after its own, which keep their places.

    rounds: those so far. The trials must be new.
    """
    step = np.full(len(trials), len(rounds.starts), dtype=np.int32)
    longer = with_more(plan, replace(trials, step=step))
    return replace(longer, rounds=rounds.then(int(plan.slot.max()) + 1, active))
