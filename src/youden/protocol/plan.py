"""Makes a plan from a pool: cells are held out first, then a budget, then paired trials by a design, then the independent arm.

A default budget is a number of trials per agent. The standard error of an ability depends on the trials of that agent, not on the
number of other agents, so no default grows with the square of their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from youden.errors import PlanError
from youden.protocol.designs import DESIGNS, check_options
from youden.protocol.designs.repair import StarvedError, compare
from youden.protocol.independent import (
    N_POOLED,
    characters,
    draw_probes,
    enough_for_own_rates,
    independent_arm,
    pooled,
    twins,
    with_repeats,
)
from youden.run_keys import CallBudget, SplitRule
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


class PlanSize(NamedTuple):
    """Size of a pool and of the independent trials of a plan.

    Attributes
    ----------
    agents, items : int
        Of the pool.
    twins : bool
        Whether each paired trial has an independent one.
    n_apart : int
        Number of independent trials if not `twins`.
    """

    agents: int
    items: int
    twins: bool
    n_apart: int

    @property
    def n_paired(self) -> int:
        """Number of paired calls of the dense design: every ordered pair on every item."""
        return self.agents * (self.agents - 1) * self.items

    @property
    def max_trials_per_agent(self) -> int:
        """Paired trials of each agent in the dense design."""
        return 2 * (self.agents - 1) * self.items

    def calls(self, trials_per_agent: float) -> int:
        """Return the calls of both trial types at a mean number of paired trials per agent."""
        n_paired = round(trials_per_agent * self.agents / 2)
        return 2 * n_paired if self.twins else n_paired + self.n_apart

    def default_calls(self, trials_per_agent: float) -> int:
        """Return the calls at a design's default, or of every comparison if there are fewer.

        >>> [PlanSize(K, J, False, 100).default_calls(450) for K, J in ((6, 40), (30, 200), (227, 805))]
        [1300, 6850, 51175]
        """
        return self.calls(min(trials_per_agent, self.max_trials_per_agent))

    def count_calls(self, budget: CallBudget) -> int:
        """Return the calls of both trial types that a budget comes to.

        Raises
        ------
        PlanError
            [calls-invalid]: if it is less than one call; [trials-many]: if agents have fewer trials.
        """
        if budget.unit == "":
            return int(budget.value)
        if budget.unit == "%":
            n_calls = int(2 * self.n_paired * budget.value / 100 + 0.5)
        elif budget.value > self.max_trials_per_agent:
            raise PlanError(
                f"There are too few comparisons for the budget: got calls: {budget.plain}, but {self.items:,} items and "
                f"{self.agents - 1:,} partners give {self.max_trials_per_agent:,} trials per agent. Lower calls, or add items.",
                slug="trials-many",
            )
        else:
            n_calls = self.calls(budget.value)
        if n_calls < 1:
            raise PlanError(
                f"The budget is less than one call: got calls: {budget.plain}. Set at least a few calls per agent.",
                slug="calls-invalid",
            )
        return n_calls


ENOUGH_OF_IT = 0.75
"""Share of the calls asked for below which a plan says that it has fewer."""


def make_plan(
    pool: Pool,
    *,
    design: str = "cyclic",
    calls: int | str | None = None,
    independent: str | None = None,
    holdout: float | None = None,
    rule: SplitRule = "shared",
    options: Mapping[str, Json] | None = None,
    seed: int = 0,
    default_budget: int | None = None,
) -> Plan:
    """Plan which pairs of responses a judge compares.

    Parameters
    ----------
    pool : Pool
        Responses of the agents to the items.
    design : str, default "cyclic"
        Registered design: "cyclic", "dense", "width", "adaptive", "row", "column", "hybrid", "nlogn" or a plugin's.
    calls : int or str, optional
        Budget: calls of both trial types (4000), a percentage of the 2·K·(K−1)·J dense calls ("5%"), or mean paired trials per
        agent ("450/agent"). Default: the design's own; "cyclic" 450 trials per agent (all there are, if fewer), "dense" all.
    independent : {"twin", "pooled", "pooled:N"}, optional
        Independent trials, which estimate the FPR: one per paired trial, or N in all. Default: the design's own. "pooled" is
        100; fewer in small pools; a tenth of a cyclic budget of 20 % or more of the dense calls, if that gives each agent 100.
    holdout : float in [0, 1), optional
        Fraction of cells held out before anything is planned. Default: the design's own (cyclic 0, cell designs 0.2).
    rule : {"shared", "own"}, default "shared"
        Exclude from training every trial that touches a held-out cell, or (as in the paper) only those scored for it.
    options : mapping, optional
        Design-specific options, as under `options:` in a run config.
    seed : int, default 0
        Seed of every draw. The same pool, arguments and seed give the same plan.
    default_budget : int, optional
        Calls to plan if `calls` is None; used when a run is resumed.

    Returns
    -------
    Plan
        N calls as columns of length N: `item`, `first`, `second` (positions), `arm` (0 paired, 1 independent), and others.

    Raises
    ------
    PlanError
        If budget, holdout or design do not fit the pool; the message names what to change.
    ConfigError
        [unknown-design] if no such design is registered.

    Examples
    --------
    >>> from youden import make_plan, read_pool
    >>> plan = make_plan(read_pool("datasets/field-notes"), calls=300)
    >>> len(plan), plan.design, plan.n_dense_calls
    (292, 'cyclic', 8448)
    """
    _refuse_small(pool)
    make = DESIGNS.load(design)
    check_options(design, options or {})
    n_pairs = pool.n_agents * (pool.n_agents - 1) * pool.n_items
    asked = CallBudget.parse(calls) if calls is not None else None
    arm = independent_arm(independent or make.independent)
    n_independent = min(N_POOLED, n_pairs) if arm.n is None else arm.n
    split = draw_split(pool.present, fraction=make.holdout if holdout is None else holdout, rule=rule, seed=seed)
    size = PlanSize(pool.n_agents, pool.n_items, arm.rule == "twin", n_independent)
    named = size.count_calls(asked) if asked is not None else None
    budget = default_budget if named is None else named
    if budget is None and make.default_trials_per_agent is not None:
        budget = size.default_calls(make.default_trials_per_agent)
    if design == "cyclic" and arm == ("pooled", None) and budget is not None and split.train.all():
        n_independent = enough_for_own_rates(n_independent, budget=budget, n_agents=pool.n_agents, n_dense=2 * n_pairs)
    n_paired = None if budget is None else (budget // 2 if arm.rule == "twin" else budget - n_independent)
    drawer = make(n_paired=n_paired, **(options or {}))
    drawn = _drawn(drawer, pool, pool.present if make.judges_holdout else split.train, seed=seed)
    parts, notes = [drawn.trials], list(drawn.notes)
    if split.n_holdout and not make.judges_holdout:
        parts.append(_of_held_out(split, pool))
        notes.append(
            f"{len(parts[-1]):,} paired calls are for the {split.n_holdout:,} held-out cells alone, beyond the budget"
        )
    paired = Trials.concat(parts)
    apart = _independent(paired, pool, split, arm.rule, n_independent)
    if n_probes := int((apart.role == PROBE).sum()):
        notes.append(
            f"{n_probes} of {n_independent} independent calls are placed where texts on different items look unusually "
            "alike; the pooled rate leaves them out, the false-positive alarm reads them"
        )
    trials = with_repeats(Trials.concat([paired, apart]).counted(), pool, seed)
    if named is not None and drawn.rounds is None and len(trials) < ENOUGH_OF_IT * named:
        notes.append(f"{named:,} calls were asked for; on this pool '{drawer.name}' has {len(trials):,} to make")
    if pool.further is not None:
        notes.append(
            f"agents have up to {pool.repeats} responses to an item ({pool.n_responses:,} in all); trials show them in turn"
        )
    return Plan(
        trials=trials,
        split=split,
        design=drawer.name,
        options={"calls": None if asked is None else asked.plain, **(options or {})},
        independent=arm.rule,
        seed=seed,
        pool_digest=pool.digest,
        agent_ids=tuple(agent.id for agent in pool.agents),
        item_ids=tuple(item.id for item in pool.items),
        n_independent=n_independent if arm.rule == "pooled" else None,
        rounds=drawn.rounds,
        asked=Asked(independent, holdout, budget),
        characters=characters(pool, trials),
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


HOLDOUT_PARTNERS = 3
"""Comparisons of each held-out cell in a plan whose design makes none."""


def _of_held_out(split: Split, pool: Pool) -> Trials:
    """Draw paired trials of the held-out cells, each with the cell first."""
    rng = stream("trials of held-out cells", split.seed)
    return compare(split.holdout, pool.present, n_partners=HOLDOUT_PARTNERS, pairs="ordered", rng=rng)


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
