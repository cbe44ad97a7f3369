"""Makes a plan: split first, then paired trials by a design, then the independent arm, as columns of integers.

It knows the pool's shape and lengths; it refuses to know judges, prices and answers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from youden.errors import PlanError
from youden.nouns import Json, PairedTrials, Plan, Pool, SplitRule
from youden.nouns.arrays import Bools
from youden.protocol.columns import arms, characters, trial_columns
from youden.protocol.designs import DESIGNS, check_options
from youden.protocol.designs.adaptive import Adaptive
from youden.protocol.designs.cell_design import CellDesign
from youden.protocol.designs.partners import compare
from youden.protocol.designs.repair import StarvedError
from youden.protocol.independent import IndependentTrials, independent_arm, pooled, twins
from youden.protocol.probes import draw_probes
from youden.protocol.split import draw_split

LEAST_CALLS_AN_AGENT = 30
"""Paired calls an agent that a design without a named budget makes at least: 2 % of a small pool's calls rank nobody."""


def make_plan(
    pool: Pool,
    *,
    design: str = "cyclic",
    calls: int | None = None,
    percent: float | None = None,
    independent: str | None = None,
    n_independent: int | None = None,
    holdout: float | None = None,
    rule: SplitRule = "shared",
    holdout_partners: int = 3,
    options: Mapping[str, Json] | None = None,
    seed: int = 0,
) -> Plan:
    """Which calls to make on `pool`.

    calls, percent: the budget, as calls of both arms or as percent of the dense 2K(K−1)J calls; at most one of them.
        Without either, `dense` takes all and `cyclic` 2 %, or what 30 calls an agent take where that is more.
    independent: `twin` (cell designs' default) or `pooled` (cyclic's), with `n_independent` calls in all (100 if
        not given, in a small pool as many as a dense plan has);
        `pooled:N` says both in one.
    holdout: fraction of cells held out before anything is planned; default: the design's own (cell designs .2, cyclic 0).
    holdout_partners: where the design plans training trials only, how many partners each held-out cell is compared with.

    Raises: PlanError, naming what to change.
    """
    if pool.n_agents < 3 or pool.n_items < 2:
        raise PlanError(
            f"The pool '{pool.name}' has {pool.n_agents} agents and {pool.n_items} items. "
            "A ranking needs at least 3 agents and 2 items: add some.",
            slug="pool-small",
        )
    make = DESIGNS.load(design)
    check_options(design, options or {})
    n_pairs = pool.n_agents * (pool.n_agents - 1) * pool.n_items
    arm, n_independent = independent_arm(independent or make.independent, n_independent, most=n_pairs)
    fraction = make.holdout if holdout is None else holdout
    split = draw_split(pool.present, fraction=fraction, rule=rule, seed=seed)
    n_dense = 2 * n_pairs
    budget = _budget(calls, percent, n_dense)
    if budget is None and make.percent is not None:
        budget = max(int(n_dense * make.percent / 100), LEAST_CALLS_AN_AGENT * pool.n_agents + n_independent)
    n_paired = None if budget is None else (budget // 2 if arm == "twin" else budget - n_independent)
    rng = np.random.default_rng([seed, 1])
    drawer = make(n_paired=n_paired, **(options or {}))
    whole = make.judges_holdout
    eligible = pool.present if whole else split.train
    try:
        paired = drawer.draw(eligible, rng)
    except StarvedError as error:
        named = pool.agents if error.side == "agent" else pool.items
        raise error.named(named[error.position].id) from error
    if len(paired.item) == 0:
        raise PlanError(
            "No two agents respond to the same item, so there is nothing to compare. Check the ids in the pool.",
            slug="nothing-shared",
        )
    notes = list(drawer.notes(eligible, paired)) if isinstance(drawer, CellDesign) else []
    if split.n_holdout and not whole:
        extra = compare(
            split.holdout,
            pool.present,
            n_partners=holdout_partners,
            pairs="ordered",
            rng=np.random.default_rng([seed, 3]),
        )
        notes.append(
            f"{len(extra.item):,} paired calls are for the {split.n_holdout:,} held-out cells alone, beyond the budget"
        )
        paired = _join(paired, extra)
    # under `shared`, a training trial's twin and every pooled trial keep off held-out cells
    safe = split.train if split.rule == "shared" else pool.present
    if arm == "pooled":
        apart, n_probes = _pooled(pool, safe, n_independent, seed=seed)
    else:
        apart, n_probes = _twins(paired, safe=safe, present=pool.present, rng=np.random.default_rng([seed, 2])), 0
    if n_probes:
        notes.append(
            f"{n_probes} of {n_independent} independent calls are placed where texts on different items look unusually alike; "
            "the pooled rate leaves them out, the false-positive alarm reads them"
        )
    chosen: dict[str, Json] = {"calls": calls, "percent": percent, **(options or {})}
    if arm == "pooled":
        chosen["n_independent"] = n_independent
    if n_probes:
        chosen["probes"] = n_probes
    if split.n_holdout and not whole:
        chosen["holdout_partners"] = holdout_partners
    if isinstance(drawer, Adaptive):
        notes.append(
            f"this is the pilot; up to {drawer.rounds} rounds follow, {n_paired or 'as many'} paired calls in all"
        )
        chosen |= {"n_paired": n_paired, "turns": [{"start": 0, "agents": list(range(pool.n_agents))}]}
    columns = trial_columns(paired, apart)
    return Plan(
        **columns,
        arm=arms(len(paired.item), len(apart.item)),
        n_agents=pool.n_agents,
        n_items=pool.n_items,
        split=split,
        design=drawer.name,
        options=chosen,
        independent=arm,
        seed=seed,
        pool_digest=pool.digest,
        agent_ids=tuple(agent.id for agent in pool.agents),
        item_ids=tuple(item.id for item in pool.items),
        characters=characters(pool, columns),
        notes=tuple(notes),
    )


def _budget(calls: int | None, percent: float | None, n_dense: int) -> int | None:
    if calls is not None and percent is not None:
        raise PlanError(
            f"Both calls ({calls}) and percent ({percent}) were given. Give one of them.", slug="budget-twice"
        )
    budget = calls if percent is None else int(n_dense * percent / 100 + 0.5)
    if budget is not None and budget < 1:
        raise PlanError(f"A budget of {budget} calls was asked for. Give at least a few per agent.", slug="budget")
    return budget


def _join(one: PairedTrials, other: PairedTrials) -> PairedTrials:
    pairs = zip(vars(one).values(), vars(other).values(), strict=True)
    return PairedTrials(*(np.concatenate(pair) for pair in pairs))


def _pooled(pool: Pool, safe: Bools, n: int, *, seed: int) -> tuple[IndependentTrials, int]:
    """Probes first, then evenly spread trials, n in all; and how many are probes."""
    probes = draw_probes(pool, safe, n, np.random.default_rng([seed, 4]))
    even = pooled(safe, n - len(probes.item), np.random.default_rng([seed, 2]))
    pairs = zip(vars(probes).values(), vars(even).values(), strict=True)
    return IndependentTrials(*(np.concatenate(pair) for pair in pairs)), len(probes.item)


def _twins(paired: PairedTrials, *, safe: Bools, present: Bools, rng: np.random.Generator) -> IndependentTrials:
    training = safe[paired.first, paired.item] & safe[paired.second, paired.item]
    parts = [
        twins(PairedTrials(*(column[chosen] for column in vars(paired).values())), allowed, rng)
        for chosen, allowed in ((training, safe), (~training, present))
    ]
    joined = zip(vars(parts[0]).values(), vars(parts[1]).values(), strict=True)
    return IndependentTrials(*(np.concatenate(pair) for pair in joined))
