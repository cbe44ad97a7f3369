"""Adds a round's trials to a plan that was already judged. It knows columns; it refuses to know why they were chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from youden.nouns import PAIRED, Json, PairedTrials, Plan, Pool
from youden.nouns.arrays import Bools


def extend(plan: Plan, pool: Pool, trials: PairedTrials, *, active: Bools) -> Plan:
    """`plan` with a round's paired trials after its own, whose turn they are noted in its options.

    The trials must be new: their slots come after the plan's. The rows of `plan` keep their places.
    """
    n = len(trials.item)
    lengths = np.array([len(text or "") for text in pool.texts.ravel().tolist()], dtype=np.int64).reshape(
        pool.texts.shape
    )
    turns = plan.options.get("turns")
    said: list[Json] = list(turns) if isinstance(turns, list) else []
    agents: list[Json] = list(np.flatnonzero(active).tolist())
    said.append({"start": int(trials.slot.min()), "agents": agents})
    return replace(
        plan,
        item=np.append(plan.item, trials.item),
        first=np.append(plan.first, trials.first),
        second=np.append(plan.second, trials.second),
        arm=np.append(plan.arm, np.full(n, PAIRED, dtype=np.int8)),
        other_item=np.append(plan.other_item, np.full(n, -1, dtype=np.int32)),
        replicate=np.append(plan.replicate, np.zeros(n, dtype=np.int32)),
        slot=np.append(plan.slot, trials.slot),
        options={**plan.options, "turns": said},
        characters=plan.characters
        + int(lengths[trials.first, trials.item].sum() + lengths[trials.second, trials.item].sum()),
    )
