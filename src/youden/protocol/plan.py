"""Make a plan from a pool: hold out cells, resolve the budget, draw paired trials, then independent trials.

A default budget is a number of trials per agent. The standard error of an ability depends on the trials of that agent,
not on the number of other agents, so no default grows with the square of their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from youden.errors import PlanError
from youden.protocol.designs import DESIGNS, check_options
from youden.protocol.designs.repair import StarvedError, draw_comparisons
from youden.protocol.independent import (
    DEFAULT_POOLED,
    assign_repeats,
    choose_pooled_size,
    count_characters,
    draw_matched_trials,
    draw_pooled_trials,
    draw_probes,
    parse_independent,
)
from youden.run_keys import CallBudget, SplitRule
from youden.streams import stream
from youden.text.sentences import format_count
from youden.types import Design, DesignResult, Plan, Pool, Trials
from youden.types.planning import IndependentRule, PlanRequest, Split
from youden.types.pool import Bools, Json
from youden.types.trials import PROBE


def draw_split(present: Bools, *, fraction: float, rule: SplitRule = "strict", seed: int) -> Split:
    """Draw the held-out cells, uniformly without replacement.

    Parameters
    ----------
    present : bool array (n_agents, n_items)
        Cells that have a response.
    fraction : float in [0, 1)
        Fraction of these cells to hold out, rounded to a whole number of cells; 0 keeps every cell for training.
    rule : {"strict", "paper"}, default "strict"
        Trials that training scores leave out: every trial that touches a held-out cell, or only those that are scored
        for it.
    seed : int
        Seed of the draw.

    Returns
    -------
    Split
        Training and held-out cells.

    Raises
    ------
    PlanError
        [holdout]: if the fraction is not in [0, 1); [holdout-rule]: if the rule is unknown.

    References
    ----------
    The paper's appendix "TVD-MI Score Construction".
    """
    if not 0 <= fraction < 1:
        raise PlanError(
            f"holdout must be in [0, 1): got {fraction}. Set a fraction from 0 (none) to less than 1.", slug="holdout"
        )
    if rule not in ("strict", "paper"):
        raise PlanError(f"The holdout rule is unknown: got '{rule}'. Set strict or paper.", slug="holdout-rule")
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
        Numbers of agents and items of the pool.
    is_matched : bool
        Whether each paired trial has an independent one.
    n_independent : int
        Number of independent trials if they are not matched.
    """

    agents: int
    items: int
    is_matched: bool
    n_independent: int

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
        return 2 * n_paired if self.is_matched else n_paired + self.n_independent

    def default_calls(self, trials_per_agent: float) -> int:
        """Return the calls at a design's default number of trials per agent; all comparisons if there are fewer.

        >>> [PlanSize(K, J, False, 100).default_calls(450) for K, J in ((6, 40), (30, 200), (227, 805))]
        [1300, 6850, 51175]
        """
        return self.calls(min(trials_per_agent, self.max_trials_per_agent))

    def count_calls(self, budget: CallBudget) -> int:
        """Convert a budget to a number of calls of both trial types.

        Parameters
        ----------
        budget : CallBudget
            Calls, a percentage of the dense calls, or paired trials per agent.

        Returns
        -------
        int

        Raises
        ------
        PlanError
            [calls-invalid]: if the budget is less than one call; [trials-many]: if it asks for more trials per agent
            than there are.
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


MIN_BUDGET_FRACTION = 0.75
"""A plan with less than this fraction of the requested calls gets a note about it."""


def make_plan(
    pool: Pool,
    *,
    design: str = "cyclic",
    calls: int | str | None = None,
    independent: str | None = None,
    holdout: float | None = None,
    holdout_rule: SplitRule = "strict",
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
        Registered design: "cyclic", "dense", "fixed-width", "adaptive", "row", "column", "hybrid", "nlogn"
        or a plugin's.
    calls : int or str, optional
        Budget: calls of both trial types (4000), a percentage of the 2·K·(K−1)·J dense calls ("5%"), or mean paired
        trials per agent ("450/agent"). Default: the design's own; "cyclic" 450 trials per agent (all there are, if
        fewer), "dense" all.
    independent : {"matched", "pooled", "pooled:N"}, optional
        Independent trials, which estimate the FPR: one per paired trial, or N in all. Default: the design's own.
        "pooled" is 100; fewer in small pools; a tenth of a cyclic budget of 20 % or more of the dense calls, if that
        gives each agent 100.
    holdout : float in [0, 1), optional
        Fraction of cells held out before anything is planned. Default: the design's own (cyclic 0, cell designs 0.2).
    holdout_rule : {"strict", "paper"}, default "strict"
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
        N calls as columns of length N: `item`, `first`, `second` (positions), `trial_type` (0 paired, 1 independent),
        and others.

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
    _check_pool_size(pool)
    make_design = DESIGNS.load(design)
    check_options(design, options or {})
    n_pairs = pool.n_agents * (pool.n_agents - 1) * pool.n_items
    requested = CallBudget.parse(calls) if calls is not None else None
    request = parse_independent(independent or make_design.default_independent)
    is_matched = request.rule == "matched"
    n_independent = min(DEFAULT_POOLED, n_pairs) if request.n is None else request.n
    fraction = make_design.default_holdout if holdout is None else holdout
    split = draw_split(pool.present, fraction=fraction, rule=holdout_rule, seed=seed)

    # budget in calls of both trial types, and the paired ones among them
    size = PlanSize(pool.n_agents, pool.n_items, is_matched, n_independent)
    n_requested = size.count_calls(requested) if requested is not None else None
    budget = default_budget if n_requested is None else n_requested
    if budget is None and make_design.default_trials_per_agent is not None:
        budget = size.default_calls(make_design.default_trials_per_agent)
    if design == "cyclic" and request == ("pooled", None) and budget is not None and split.train.all():
        n_independent = choose_pooled_size(n_independent, budget=budget, n_agents=pool.n_agents, n_dense=2 * n_pairs)
    n_paired = None
    if budget is not None:
        n_paired = budget // 2 if is_matched else budget - n_independent

    drawer = make_design(n_paired=n_paired, **(options or {}))
    eligible = pool.present if make_design.plans_holdout else split.train
    drawn = _draw_design(drawer, pool, eligible, seed=seed)
    paired, notes = drawn.trials, list(drawn.notes)
    if split.n_holdout and not make_design.plans_holdout:
        holdout_trials = _draw_holdout_trials(split, pool)
        paired = Trials.concat([paired, holdout_trials])
        notes.append(
            f"{len(holdout_trials):,} paired calls judge only the {split.n_holdout:,} held-out cells, in addition to the budget"
        )
    independent_trials = _draw_independent_trials(paired, pool, split, request.rule, n_independent)
    if n_probes := int((independent_trials.role == PROBE).sum()):
        notes.append(
            f"{n_probes} of {n_independent} independent calls compare texts on different items that are unusually similar; only "
            "the false-positive alarm uses them, not the pooled rate"
        )
    trials = assign_repeats(Trials.concat([paired, independent_trials]).with_replicate_numbers(), pool, seed)
    if n_requested is not None and drawn.rounds is None and len(trials) < MIN_BUDGET_FRACTION * n_requested:
        notes.append(f"the budget is {n_requested:,} calls, but '{drawer.name}' has only {len(trials):,} on this pool")
    if pool.repeat_texts is not None:
        notes.append(
            f"agents have up to {pool.repeats} responses per item ({pool.n_responses:,} in all); trials show them in turn"
        )
    return Plan(
        trials=trials,
        split=split,
        design=drawer.name,
        options={"calls": None if requested is None else requested.plain, **(options or {})},
        independent=request.rule,
        seed=seed,
        pool_digest=pool.digest,
        agent_ids=tuple(agent.id for agent in pool.agents),
        item_ids=tuple(item.id for item in pool.items),
        n_independent=None if is_matched else n_independent,
        rounds=drawn.rounds,
        request=PlanRequest(independent, holdout, budget),
        characters=count_characters(pool, trials),
        notes=tuple(notes),
        source=pool,
    )


def _check_pool_size(pool: Pool) -> None:
    """Raise PlanError [pool-small] if a pool has fewer than 3 agents or 2 items."""
    if pool.n_agents < 3 or pool.n_items < 2:
        raise PlanError(
            f"The pool '{pool.name}' is too small: got {format_count(pool.n_agents, 'agent')} and "
            f"{format_count(pool.n_items, 'item')}. "
            "Add some; a ranking needs at least 3 agents and 2 items.",
            slug="pool-small",
        )


def _draw_design(design: Design, pool: Pool, eligible: Bools, *, seed: int) -> DesignResult:
    """Draw the paired trials of a design; eligible : bool array (n_agents, n_items).

    Raises PlanError [nothing-shared] if the design draws no trial, and passes on errors of the design.
    """
    try:
        drawn = design.draw(eligible, stream("trials", seed))
    except StarvedError as error:
        members = pool.agents if error.side == "agent" else pool.items
        raise error.with_name(members[error.position].id) from error
    if len(drawn.trials) == 0:
        raise PlanError(
            "No two agents have responses to the same item, so nothing can be compared. Check the ids in the pool.",
            slug="nothing-shared",
        )
    return drawn


HOLDOUT_PARTNERS = 3
"""Number of comparisons of each held-out cell if the design plans none."""


def _draw_holdout_trials(split: Split, pool: Pool) -> Trials:
    """Draw paired trials of the held-out cells, each with the cell first."""
    rng = stream("trials of held-out cells", split.seed)
    return draw_comparisons(split.holdout, pool.present, n_partners=HOLDOUT_PARTNERS, pairs="ordered", rng=rng)


def _draw_independent_trials(paired: Trials, pool: Pool, split: Split, rule: IndependentRule, n: int) -> Trials:
    """Draw the independent trials: probes and `n` pooled ones, or one for each paired trial.

    With the holdout rule `strict`, pooled trials and those of training trials do not touch held-out cells.
    """
    training_cells = split.train if split.rule == "strict" else pool.present
    rng = stream("independent trials", split.seed)
    if rule == "pooled":
        probes = draw_probes(pool, training_cells, n, stream("probes", split.seed))
        return Trials.concat([probes, draw_pooled_trials(training_cells, n - len(probes), rng)])
    is_training = training_cells[paired.first, paired.item] & training_cells[paired.second, paired.item]
    for_training = draw_matched_trials(paired.take(is_training), training_cells, rng)
    for_holdout = draw_matched_trials(paired.take(~is_training), pool.present, rng)
    return Trials.concat([for_training, for_holdout])
