"""The plan that an attacked pool is ranked by: the pool's own trials, and as many of the planted agents as of anybody."""

from __future__ import annotations

from dataclasses import replace
from math import lcm

import numpy as np

from youden.nouns import INDEPENDENT, PAIRED, Plan, Split, Trials
from youden.practice.stress.attack import Planted
from youden.protocol.columns import characters
from youden.protocol.independent import pooled
from youden.protocol.probes import draw_probes

PASSES = 10
"""An attacker takes part in 20 independent trials, and in those that look unusually alike."""


def attacked_plan(base: Plan, planted: Planted, *, rng: np.random.Generator) -> Plan:
    """`base` on the attacked pool: its own trials first, as they were, then those of the planted agents.

    A planted agent meets everybody, its fellows too, as often as the plan's agents meet each other: so it is a partner like any
    other, and nothing that was answered is asked again. Its pairs stand on the items in turn.
    """
    pool = planted.pool
    paired = _paired(base, planted, rng)
    apart = _independent(base, planted, rng)
    own = replace(base.trials, slot=np.full(len(base), -1, dtype=np.int32))
    trials = Trials.concat([own, paired, apart]).counted()
    present = pool.present
    return Plan(
        trials=trials,
        n_agents=pool.n_agents,
        n_items=pool.n_items,
        split=Split(present, np.zeros_like(present), "shared", 0.0, base.seed),
        design="stress",
        options={},
        independent="pooled",
        seed=base.seed,
        pool_digest=pool.digest,
        agent_ids=tuple(agent.id for agent in pool.agents),
        item_ids=base.item_ids,
        n_independent=int((trials.arm == INDEPENDENT).sum()),
        characters=characters(pool, trials),
    )


def _paired(base: Plan, planted: Planted, rng: np.random.Generator) -> Trials:
    K, J = base.n_agents, base.n_items
    meetings = int((base.arm == PAIRED).sum()) / (K * (K - 1) / 2)
    pairs = np.array([(a, k) for a in planted.agents for k in range(a)], dtype=np.int32)
    pairs = rng.permutation(pairs)
    n = min(round(meetings * len(pairs)), len(pairs) * J)
    t = np.arange(n)
    first, second = pairs[t % len(pairs)].T
    item = rng.permutation(J).astype(np.int32)[(t + t // lcm(len(pairs), J)) % J]
    turned = (t // len(pairs) + rng.integers(2, size=len(pairs))[t % len(pairs)]) % 2 == 1
    first, second = np.where(turned, second, first), np.where(turned, first, second)
    there = planted.pool.present[first, item] & planted.pool.present[second, item]
    return Trials.paired(item, first, second).take(there)


def _independent(base: Plan, planted: Planted, rng: np.random.Generator) -> Trials:
    """Independent trials of the planted agents; none where the plan has none."""
    if not (base.arm == INDEPENDENT).any():
        return Trials.concat([])
    pool = planted.pool
    drawn = [pooled(pool.present, PASSES * pool.n_agents, rng)]
    drawn.append(draw_probes(pool, pool.present, PASSES * pool.n_agents, rng))
    trials = Trials.concat(drawn)
    return trials.take(np.isin(trials.first, planted.agents) | np.isin(trials.second, planted.agents))
