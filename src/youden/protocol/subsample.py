"""Takes a balanced part of a plan's own trials, for another judge to answer."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np

from youden.errors import PlanError
from youden.protocol.independent import plan_rows
from youden.run_keys import CallBudget
from youden.streams import stream
from youden.types import PAIRED, Plan
from youden.types.pool import Bools, Positions
from youden.types.trials import PROBE, count_earlier

MOST_INDEPENDENT = 0.05
"""Share of the calls that goes to the independent arm at most, but for calls that fill no slot."""


def count_calls(plan: Plan, budget: object) -> int:
    """Return the calls of a part of `plan` that a budget comes to; trials per agent are at most those of the plan.

    Raises
    ------
    PlanError
        [calls-invalid]: if `budget` is not a budget.
    """
    parsed = CallBudget.parse(budget)
    if parsed.unit == "/agent":
        independent = min(MOST_INDEPENDENT, float((plan.arm != PAIRED).mean()))
        return min(len(plan), ceil(parsed.value * plan.n_agents / 2 / (1 - independent)))
    return max(1, round(plan.n_dense_calls * parsed.value / 100)) if parsed.unit else int(parsed.value)


def subsample(plan: Plan, *, calls: int | str | None = None, seed: int = 0) -> Plan:
    """A plan of at most `calls` trials of `plan` (a budget; None: all that may be learned from), in its order.

    Where every slot holds all agents of its item, whole slots are taken in random order, as many as fit, and no item a second
    time before all were. Elsewhere single paired trials are taken, spread evenly over agents, then items, and stand in no slot.
    Independent trials get their share, at most 5 %, and the calls that fill no slot; they are pooled. Trials that touch
    held-out cells and probes stay out.

    Raises: PlanError as `Plan.pool`, [subsample-calls] for more calls than trials, [subsample-few] for fewer than 4 paired
    trials per agent.
    """
    rows = _usable(plan)
    paired, apart = rows[plan.arm[rows] == PAIRED], rows[plan.arm[rows] != PAIRED]
    calls = len(rows) if calls is None else count_calls(plan, calls)
    if calls > len(plan):
        raise PlanError(
            f"{calls:,} calls were asked for, but the run has {len(plan):,} trials. Give {len(plan):,} calls or fewer.",
            slug="subsample-calls",
        )
    rng = stream("part of a run", seed)
    n_apart = min(len(apart), ceil(calls * min(MOST_INDEPENDENT, len(apart) / len(rows))))
    whole = calls >= len(rows)
    n_paired = len(paired) if whole else min(len(paired), calls - n_apart)
    if n_paired < 2 * plan.n_agents:
        least = min(ceil(2 * plan.n_agents / (1 - MOST_INDEPENDENT)) + 1, len(plan))
        raise PlanError(
            f"{calls:,} calls leave {n_paired:,} paired trials for {plan.n_agents} agents, and each needs 4. "
            f"Give {least:,} calls or more, of a run that has them.",
            slug="subsample-few",
        )
    slotted = _complete(plan, paired)
    if whole:
        chosen = paired
    elif slotted:
        chosen = _slots(plan, paired, n_paired, rng)
    else:
        chosen = _spread(plan, paired, n_paired, rng)
    chosen = np.sort(np.append(chosen, _spread(plan, apart, min(len(apart), calls - len(chosen)), rng)))
    part = plan_rows(plan, chosen)
    n_paired, trials = int((part.arm == PAIRED).sum()), part.trials.anew()
    return replace(
        part,
        trials=trials if slotted else replace(trials, slot=np.full(len(chosen), -1, dtype=np.int32)),
        split=replace(plan.split, holdout=np.zeros_like(plan.split.holdout), fraction=0.0),
        options={"calls": calls, "trials_of": plan.digest[:12]},
        independent="pooled",
        n_independent=None,
        rounds=None,
        extensions=None,
        seed=seed,
        notes=(
            f"{n_paired:,} of {len(paired):,} paired and {len(chosen) - n_paired:,} of {len(apart):,} independent trials of "
            f"another run's plan ({plan.digest[:12]})",
        ),
    )


def _usable(plan: Plan) -> Positions:
    """Rows that touch training cells alone and are no probes."""
    train, (item, other) = plan.split.train, plan.trials.text_cells
    return np.flatnonzero(train[plan.first, item] & train[plan.second, other] & (plan.role != PROBE))


def _complete(plan: Plan, paired: Positions) -> bool:
    """Whether in every slot each agent with a cell on its item stands once first."""
    slot, first = plan.slot[paired].astype(np.int64), plan.first[paired]
    if len(slot) == 0 or (slot < 0).any():
        return False
    _, place, size = np.unique(slot, return_inverse=True, return_counts=True)
    agents = np.bincount(np.unique(place * plan.n_agents + first) // plan.n_agents)
    on_item: Bools = plan.split.train.sum(axis=0)[plan.item[paired]] == size[place]
    return bool((agents == size).all() and on_item.all())


def _slots(plan: Plan, paired: Positions, n: int, rng: np.random.Generator) -> Positions:
    slot, start, size = np.unique(plan.slot[paired], return_index=True, return_counts=True)
    order = rng.permutation(len(slot))
    order = order[np.argsort(count_earlier(plan.item[paired][start[order]]), kind="stable")]
    kept = slot[order[np.cumsum(size[order]) <= n]]
    return paired[np.isin(plan.slot[paired], kept)]


def _spread(plan: Plan, rows: Positions, n: int, rng: np.random.Generator) -> Positions:
    """n of `rows`: again and again the agent seen least, against the partner seen least, on the item seen least."""
    if n >= len(rows):
        return rows
    rows = rng.permutation(rows)
    first, second, item = plan.first[rows], plan.second[rows], plan.item[rows]
    seen, on_item = np.zeros(plan.n_agents), np.zeros(plan.n_items)
    left = np.ones(len(rows), dtype=np.bool_)
    own = [np.flatnonzero((first == i) | (second == i)) for i in range(plan.n_agents)]
    for _ in range(n):
        i = int(np.argmin(seen))
        while len(own[i]) == 0:
            seen[i] = np.inf
            i = int(np.argmin(seen))
        mine = own[i]
        cost = (seen[first[mine]] + seen[second[mine]]) * (n + 1) + on_item[item[mine]]
        row = int(mine[np.argmin(cost)])
        left[row] = False
        for agent in (int(first[row]), int(second[row])):
            own[agent] = own[agent][own[agent] != row]
            seen[agent] += 1
        on_item[item[row]] += 1
    return rows[~left]
