"""Makes a plan from a pool: cells are held out first, then a budget, then paired trials by a design, then the independent arm.

A budget is what the user asked for, and else what the design takes by itself, ∝ agents. An agent's error depends on its own
trials, not on how many other agents there are; so no default grows with their square.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from youden.errors import PlanError
from youden.protocol.designs import DESIGNS, check_options
from youden.protocol.designs.repair import StarvedError, compare
from youden.protocol.independent import (
    characters,
    draw_probes,
    enough_for_own_rates,
    independent_arm,
    pooled,
    twins,
    with_repeats,
)
from youden.run_keys import SplitRule
from youden.streams import stream
from youden.text.sentences import counted
from youden.types import Design, Drawn, Plan, Pool, Trials
from youden.types.planning import Asked, IndependentRule, Split
from youden.types.pool import Bools, Json
from youden.types.trials import PROBE


def draw_split(present: Bools, *, fraction: float, rule: SplitRule = "shared", seed: int) -> Split:
    """Hold out ⌊fraction · cells + ½⌋ of the existing cells, uniformly without replacement.

    present: bool[K, J], cells that have a response. Holding out 0 keeps every cell for training.

    Raises: PlanError for a fraction outside [0, 1).
    Source: the paper's appendix 'TVD-MI Score Construction'; rules as in `Split`.
    """
    if not 0 <= fraction < 1:
        raise PlanError(
            f"A holdout of {fraction} was asked for. Give a fraction from 0 (none) up to, but not, 1.", slug="holdout"
        )
    if rule not in ("shared", "own"):
        raise PlanError(f"'{rule}' is no holdout rule. Give shared or own.", slug="holdout-rule")
    cells = np.flatnonzero(present)
    n_holdout = int(fraction * len(cells) + 0.5)
    chosen = stream("holdout", seed).choice(cells, size=n_holdout, replace=False)
    holdout = np.zeros(present.shape, dtype=np.bool_)
    holdout.flat[chosen] = True
    return Split(train=present & ~holdout, holdout=holdout, rule=rule, fraction=fraction, seed=seed)


TRIALS_A_PERCENT = 225
"""Trials an agent for each percent of a design's default: 450 for 2 %, what 30 agents on 200 items come to."""


class Size(NamedTuple):
    """Of a pool, and of the independent arm: one independent trial for every paired one (twins), or `n_apart` in all."""

    agents: int
    items: int
    twins: bool
    n_apart: int

    @property
    def n_paired(self) -> int:
        """Paired calls there are: every ordered pair on every item."""
        return self.agents * (self.agents - 1) * self.items

    def calls(self, trials: float) -> int:
        """Calls of both arms where an agent takes part in `trials` paired ones on average."""
        n_paired = round(trials * self.agents / 2)
        return 2 * n_paired if self.twins else n_paired + self.n_apart


def default_calls(percent: float, size: Size) -> int:
    """Of a design whose default is `percent`: so many trials an agent, or every comparison where there are fewer.

    >>> [default_calls(2.0, Size(K, J, False, 100)) for K, J in ((6, 40), (30, 200), (227, 805))]
    [1300, 6850, 51175]
    """
    return size.calls(min(TRIALS_A_PERCENT * percent, 2 * (size.agents - 1) * size.items))


def _asked_calls(calls: int | None, percent: float | None, trials: float | None, size: Size) -> int | None:
    """Calls of both arms that were asked for, None where nothing was.

    Raises: PlanError [budget-twice], [budget], [trials-many] for more trials than there are.
    """
    said = {"calls": calls, "percent": percent, "trials": trials}
    given = [f"{name} ({value:g})" for name, value in said.items() if value is not None]
    if len(given) > 1:
        raise PlanError(f"{' and '.join(given)} were given. Give one of them.", slug="budget-twice")
    if trials is not None:
        most = 2 * (size.agents - 1) * size.items
        if trials > most:
            raise PlanError(
                f"{trials:,.12g} trials an agent were asked for; on {size.items:,} items with {size.agents - 1:,} partners "
                f"there are {most:,}. Lower trials, or add items.",
                slug="trials-many",
            )
        return size.calls(trials)
    budget = calls if percent is None else int(2 * size.n_paired * percent / 100 + 0.5)
    if budget is not None and budget < 1:
        raise PlanError(f"A budget of {budget} calls was asked for. Give at least a few per agent.", slug="budget")
    return budget


ENOUGH_OF_IT = 0.75
"""Share of the calls asked for below which a plan says that it has fewer."""


def make_plan(
    pool: Pool,
    *,
    design: str = "cyclic",
    calls: int | None = None,
    percent: float | None = None,
    trials: float | None = None,
    independent: str | None = None,
    n_independent: int | None = None,
    holdout: float | None = None,
    rule: SplitRule = "shared",
    holdout_partners: int = 3,
    options: Mapping[str, Json] | None = None,
    seed: int = 0,
    default_budget: int | None = None,
) -> Plan:
    """Which calls to make on `pool`.

    design: which pairs are compared on which items: cyclic, dense, width, adaptive, row, column, hybrid, nlogn, or one that
        another package brings.
    calls, percent, trials: the budget, as calls of both arms, as percent of the dense 2K(K−1)J calls, or as paired trials that
        an agent takes part in on average; at most one of them. Without any, `dense` takes all and `cyclic` 450 trials an agent,
        or every comparison where that is fewer.
    independent: `twin` (cell designs' default) or `pooled` (cyclic's), with `n_independent` calls in all (100 if
        not given, in a small pool as many as a dense plan has, and a tenth of a cyclic budget of 20 % of the dense calls or
        more, where that gives each agent 100);
        `pooled:N` says both in one.
    holdout: fraction of cells held out before anything is planned; default: the design's own (cell designs .2, cyclic 0).
    rule: `shared` keeps every trial that touches a held-out cell out of training, `own` is the paper's.
    holdout_partners: where the design plans training trials only, how many partners each held-out cell is compared with.

    default_budget: what a run's budget came to before, where it names none; None: as above.

    options: of the design, as in a run's config. seed: of every draw; the same pool, arguments and seed make the same plan.

    A `Plan` holds N calls as columns of length N: item, first, second (positions in the pool), arm (0 paired, 1 independent), and
    others.

    Raises: PlanError, naming what to change; ConfigError [unknown-design].

    >>> from youden import make_plan, read_pool
    >>> plan = make_plan(read_pool("datasets/field-notes"), calls=300)
    >>> len(plan), plan.design, plan.n_dense_calls
    (292, 'cyclic', 8448)
    """
    _refuse_small(pool)
    make, asked_independent = DESIGNS.load(design), n_independent
    check_options(design, options or {})
    n_pairs = pool.n_agents * (pool.n_agents - 1) * pool.n_items
    arm, n_independent = independent_arm(independent or make.independent, n_independent, most=n_pairs)
    if arm == "twin" and asked_independent is not None:
        raise PlanError(
            f"n_independent does not fit a plan with one independent trial per paired trial: got {asked_independent}. "
            "Remove it, or set `independent: pooled`.",
            slug="independent",
        )
    split = draw_split(pool.present, fraction=make.holdout if holdout is None else holdout, rule=rule, seed=seed)
    size = Size(pool.n_agents, pool.n_items, arm == "twin", n_independent)
    named = _asked_calls(calls, percent, trials, size)
    budget = default_budget if named is None else named
    if budget is None and make.percent is not None:
        budget = default_calls(make.percent, size)
    unnumbered = asked_independent is None and independent in (None, "pooled")
    if design == "cyclic" and unnumbered and arm == "pooled" and budget is not None and split.train.all():
        n_independent = enough_for_own_rates(n_independent, budget=budget, n_agents=pool.n_agents, n_dense=2 * n_pairs)
    n_paired = None if budget is None else (budget // 2 if arm == "twin" else budget - n_independent)
    drawer = make(n_paired=n_paired, **(options or {}))
    drawn = _drawn(drawer, pool, pool.present if make.judges_holdout else split.train, seed=seed)
    said: dict[str, Json] = {"calls": calls, "percent": percent, **(options or {})}
    if trials is not None:
        said["trials"] = trials
    parts, notes = [drawn.trials], list(drawn.notes)
    if split.n_holdout and not make.judges_holdout:
        parts.append(_of_held_out(split, pool, n_partners=holdout_partners))
        said["holdout_partners"] = holdout_partners
        notes.append(
            f"{len(parts[-1]):,} paired calls are for the {split.n_holdout:,} held-out cells alone, beyond the budget"
        )
    paired = Trials.concat(parts)
    apart = _independent(paired, pool, split, arm, n_independent)
    if n_probes := int((apart.role == PROBE).sum()):
        notes.append(
            f"{n_probes} of {n_independent} independent calls are placed where texts on different items look unusually "
            "alike; the pooled rate leaves them out, the false-positive alarm reads them"
        )
    asked = with_repeats(Trials.concat([paired, apart]).counted(), pool, seed)
    if named is not None and drawn.rounds is None and len(asked) < ENOUGH_OF_IT * named:
        notes.append(f"{named:,} calls were asked for; on this pool '{drawer.name}' has {len(asked):,} to make")
    if pool.further is not None:
        notes.append(
            f"agents have up to {pool.repeats} responses to an item ({pool.n_responses:,} in all); trials show them in turn"
        )
    return Plan(
        trials=asked,
        split=split,
        design=drawer.name,
        options=said,
        independent=arm,
        seed=seed,
        pool_digest=pool.digest,
        agent_ids=tuple(agent.id for agent in pool.agents),
        item_ids=tuple(item.id for item in pool.items),
        n_independent=n_independent if arm == "pooled" else None,
        rounds=drawn.rounds,
        asked=Asked(independent, asked_independent, holdout, budget),
        characters=characters(pool, asked),
        notes=tuple(notes),
        source=pool,
    )


def _refuse_small(pool: Pool) -> None:
    """Raises: PlanError [pool-small]."""
    if pool.n_agents < 3 or pool.n_items < 2:
        raise PlanError(
            f"The pool '{pool.name}' has {counted(pool.n_agents, 'agent')} and {counted(pool.n_items, 'item')}. "
            "A ranking needs at least 3 agents and 2 items: add some.",
            slug="pool-small",
        )


def _drawn(design: Design, pool: Pool, eligible: Bools, *, seed: int) -> Drawn:
    """What the design draws, at least one trial. Raises: PlanError [nothing-shared], or the design's own."""
    try:
        drawn = design.draw(eligible, stream("trials", seed))
    except StarvedError as error:
        named = pool.agents if error.side == "agent" else pool.items
        raise error.named(named[error.position].id) from error
    if len(drawn.trials) == 0:
        raise PlanError(
            "No two agents respond to the same item, so there is nothing to compare. Check the ids in the pool.",
            slug="nothing-shared",
        )
    return drawn


def _of_held_out(split: Split, pool: Pool, *, n_partners: int) -> Trials:
    """Paired trials of the held-out cells, each first, against some partners."""
    rng = stream("trials of held-out cells", split.seed)
    return compare(split.holdout, pool.present, n_partners=n_partners, pairs="ordered", rng=rng)


def _independent(paired: Trials, pool: Pool, split: Split, rule: IndependentRule, n: int) -> Trials:
    """The independent arm, probes first. Under `shared`, a training trial's twin and pooled trials keep off held-out cells."""
    safe = split.train if split.rule == "shared" else pool.present
    rng = stream("independent trials", split.seed)
    if rule == "pooled":
        probes = draw_probes(pool, safe, n, stream("probes", split.seed))
        return Trials.concat([probes, pooled(safe, n - len(probes), rng)])
    training = safe[paired.first, paired.item] & safe[paired.second, paired.item]
    allowed = ((training, safe), (~training, pool.present))
    return Trials.concat([twins(paired.take(rows), cells, rng) for rows, cells in allowed])
