"""Make a plan from a pool: hold out cells, resolve the budget, draw paired trials, then independent trials.

A default budget is a number of trials per agent. The standard error of an ability depends on the trials of that agent,
not on the number of other agents, so no default grows with the square of their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import NamedTuple, get_args

import numpy as np

from youden.errors import PlanError
from youden.protocol.designs import DESIGNS, check_options
from youden.protocol.designs.cyclic import check_shared_items
from youden.protocol.designs.parts.repair import StarvedError, draw_comparisons
from youden.protocol.independent import (
    MAX_CALLS_WITH_PROBES,
    IndependentRequest,
    assign_repeats,
    count_characters,
    draw_matched_trials,
    draw_probes,
    parse_independent,
)
from youden.protocol.pooled_trials import (
    count_free_independent,
    count_independent,
    count_independent_for_paired,
    draw_pooled_trials,
    has_free_calls,
)
from youden.protocol.self_trials import (
    MAX_PAIRED,
    check_self_trials,
    draw_self_trials,
    needs_self_trials,
    suggest_additions,
    with_self_trials,
)
from youden.run_keys import CallBudget, Question, SplitRule
from youden.streams import stream
from youden.text.sentences import describe_empty_responses, format_count
from youden.types import PAIRED, Design, DesignResult, Plan, Pool, Trials
from youden.types.arguments import check_argument
from youden.types.planning import SELF_DESIGN, PlanRequest, Split
from youden.types.pool import Bools, Json


def draw_split(present: Bools, *, fraction: float, rule: SplitRule = "strict", seed: int) -> Split:
    """Draw the held-out cells, uniformly without replacement.

    A cell is an agent and an item. Held-out cells are kept from training, so that their scores can test predictions from the
    other cells, the training cells.

    Parameters
    ----------
    present : bool array (n_agents, n_items)
        Cells that have a response.
    fraction : float in [0, 1)
        Fraction of these cells to hold out, rounded to a whole number of cells (halves up); with 0, every cell is used for
        training.
    rule : {"strict", "paper"}, default "strict"
        Which trials training scores leave out. A trial compares the texts of two cells. "strict" leaves out a trial if
        either cell is held out; "paper" leaves the trial out only if the cell of its first text is held out. The draw does
        not depend on the rule.
    seed : int
        Seed of the draw.

    Returns
    -------
    Split
        Training cells `train` and held-out cells `holdout`, bool arrays (n_agents, n_items), both False for cells without a
        response; also `rule`, `fraction` and `seed`.

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

    rng = stream("holdout", seed)
    cells = np.flatnonzero(present)
    n_holdout = int(fraction * len(cells) + 0.5)
    holdout_cells = rng.choice(cells, size=n_holdout, replace=False)
    holdout = np.zeros(present.shape, dtype=np.bool_)
    holdout.flat[holdout_cells] = True
    return Split(train=present & ~holdout, holdout=holdout, rule=rule, fraction=fraction, seed=seed)


class PlanSize(NamedTuple):
    """Numbers of agents and items of a pool, and the rule for the number of independent trials of its plan.

    Attributes
    ----------
    agents, items : int
        Number of agents and number of items of the pool.
    is_matched : bool, default False
        Whether the plan has one independent trial per paired one (independent trials of the rule "matched").
    n_independent : int, optional
        Number of independent trials if they are not matched. Default: 7 to 10% of the calls, a multiple of the number of agents.
    is_preference : bool, default False
        Whether the run asks for preferences, whose dense design has no independent trials.
    """

    agents: int
    items: int
    is_matched: bool = False
    n_independent: int | None = None
    is_preference: bool = False

    @property
    def n_paired(self) -> int:
        """Number of paired calls of the dense design: every ordered pair on every item."""
        return self.agents * (self.agents - 1) * self.items

    @property
    def max_trials_per_agent(self) -> int:
        """Paired trials of each agent in the dense design."""
        return 2 * (self.agents - 1) * self.items

    def calls(self, trials_per_agent: float) -> int:
        """Return the number of calls, paired and independent, for a mean number of paired trials per agent.

        A paired trial counts for both of its agents. The number of independent calls depends on the plan:

        - A matched plan has as many independent calls as paired calls.
        - Other plans have `n_independent` of them or, if this is None, 7 to 10% of all calls.

        trials_per_agent : mean number of paired trials per agent
        """
        n_paired = round(trials_per_agent * self.agents / 2)
        if self.is_matched:
            return 2 * n_paired
        if self.n_independent is None:
            return n_paired + count_independent_for_paired(n_paired, self.agents)
        return n_paired + self.n_independent

    def default_calls(self, trials_per_agent: float) -> int:
        """Return the number of calls, paired and independent, for a design's default number of paired trials per agent.

        If the pool allows fewer trials per agent, the largest possible number is used.

        >>> [PlanSize(K, J).default_calls(450) for K, J in ((6, 40), (30, 200), (227, 805))]
        [1296, 7290, 55161]
        """
        return self.calls(min(trials_per_agent, self.max_trials_per_agent))

    def count_calls(self, budget: CallBudget) -> int:
        """Convert a budget to a number of calls, paired and independent ones together.

        Parameters
        ----------
        budget : CallBudget
            Number of calls, percentage of the calls of the dense design (which has every possible paired trial), or mean number
            of paired trials per agent.

        Returns
        -------
        int
            Number of calls, at least 1.

        Raises
        ------
        PlanError
            [calls-invalid]: if the budget is less than one call; [trials-many]: if the items and agents of the pool give
            fewer trials per agent than the budget requests.
        """
        if budget.unit == "/agent" and budget.value > self.max_trials_per_agent:
            raise PlanError(
                f"There are too few comparisons for the budget: got calls: {budget.plain}, but {self.items:,} items and "
                f"{self.agents - 1:,} partners give {self.max_trials_per_agent:,} trials per agent. Lower calls, or add items.",
                slug="trials-many",
            )

        if budget.unit == "/agent":
            n_calls = self.calls(trials_per_agent=budget.value)
        elif budget.unit == "%":
            # the dense design has as many independent calls as paired ones; for preferences, it has only paired ones
            n_dense = self.n_paired if self.is_preference else 2 * self.n_paired
            n_calls = int(n_dense * budget.value / 100 + 0.5)
        else:
            n_calls = int(budget.value)
        if n_calls < 1:
            raise PlanError(
                f"The budget is less than one call: got calls: {budget.plain}. Set at least a few calls per agent.",
                slug="calls-invalid",
            )
        return n_calls


MIN_BUDGET_FRACTION = 0.95
"""A plan with less than this fraction of the requested calls gets a note about it; designs round a budget down."""


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
    calls_are_free: bool = False,
    question: Question = "information",
    self_trials: int = 0,
) -> Plan:
    """Plan which pairs of responses a judge compares.

    Parameters
    ----------
    pool : Pool
        Responses of the agents to the items.
    design : str, default "cyclic"
        Name of a registered design: a key of `youden.protocol.designs.DESIGNS`, or the name of a plugin's design.
    calls : int or str, optional
        Budget: calls of both trial types (4000), a percentage of the 2·K·(K−1)·J dense calls ("5%"), or mean paired
        trials per agent ("450/agent"); a paired trial counts for both of its agents. Default: the design's own; "cyclic"
        450 trials per agent (all there are, if fewer), "dense" all.
    independent : {"matched", "pooled", "pooled:N"}, optional
        Independent trials, which estimate the FPR: one per paired trial, or N in all. Default: the design's own.
        "pooled" is 7 to 10% of the calls, in whole passes in which each agent appears once first and once second.
    holdout : float in [0, 1), optional
        Fraction of cells (agent, item) that are held out before anything is planned. Default: the design's own (cyclic 0, cell
        designs 0.2). Trials that judge only held-out cells are in addition to the budget.
    holdout_rule : {"strict", "paper"}, default "strict"
        Which trials are excluded from training. "strict": every trial that shows the text of a held-out cell. "paper", as in
        the paper: only trials whose first text is that of a held-out cell.
    options : mapping, optional
        Design-specific options, as under `options:` in a run config.
    seed : int, default 0
        Seed of every draw. The same pool, arguments and seed give the same plan.
    default_budget : int, optional
        Calls to plan if `calls` is None; used when a run is resumed.
    calls_are_free : bool, default False
        Whether the judge's calls cost nothing, as those of `lexical`. "pooled" is then 4 independent trials per paired
        one, at most 200,000, in addition to the budget.
    question : {"information", "preference"}, default "information"
        What the judge is asked. A plan for preferences has no independent trials, whatever `independent` is, and by
        default no held-out cells.
    self_trials : int, default 0
        Maximum number of paired self-trials of each agent, and of independent self-trials, in addition to the budget. A
        self-trial compares two responses of one agent: to one item if it is paired, to two items if it is independent. No
        ability uses self-trials.

    Returns
    -------
    Plan
        N calls as columns of length N: `item`, `first`, `second` (positions), `trial_type` (0 paired, 1 independent,
        2 self-trial), and others. If the pool allows fewer calls than requested, its first note states this.

    Raises
    ------
    PlanError
        If budget, holdout, options or design do not fit the pool; the message names what to change. For example, [pool-small]:
        if the pool has fewer than 2 items or fewer than 3 agents. One or two agents are enough if they have several responses
        to an item, which are compared by self-trials. [calls-invalid], [holdout], [holdout-rule], [plan-question] and
        [self-trials]: if the value of the respective argument is not allowed. [self-trials] and [repeats-few] are also raised if
        `self_trials` is not 0, and the plan is in rounds or for preferences, or no agent has two responses to two items.
    ConfigError
        [unknown-design] if no such design is registered; [argument-type] if an argument has the wrong type.

    Examples
    --------
    >>> from youden import make_plan, read_pool
    >>> plan = make_plan(read_pool("datasets/field-notes"), calls=300)
    >>> len(plan), plan.design, plan.n_dense_calls
    (300, 'cyclic', 8448)
    """
    check_argument("pool", pool, Pool, "Pass what youden.read_pool returns.")
    if question not in get_args(Question):
        choices = " or ".join(get_args(Question))
        raise PlanError(f"The question is unknown: got {question!r}. Set {choices}.", slug="plan-question")
    check_argument("holdout", holdout, Real | None, "Set a fraction from 0 to less than 1.")
    check_argument("independent", independent, str | None, "Set matched, pooled or 'pooled:N'.")
    check_argument("self_trials", self_trials, Integral, "Set a number of trials.")
    if self_trials < 0:
        raise PlanError(
            f"self_trials must be at least 0: got {self_trials}. Set 0 for no self-trials.", slug="self-trials"
        )
    check_argument("design", design, str, "Pass the name of a design, such as 'cyclic'.")
    requested = CallBudget.parse(calls) if calls is not None else None
    if question == "information" and needs_self_trials(pool):
        set_design = None if design == "cyclic" else design
        settings = {"design": set_design, "independent": independent, "holdout": holdout, "self_trials": self_trials}
        check_self_trials(requested, {**(options or {}), **settings})
        return _make_self_plan(pool, requested, seed=seed)
    _check_pool_size(pool)
    make_design = DESIGNS.load(design)
    check_options(design, options or {})
    is_preference = question == "preference"
    request = parse_independent("pooled:0" if is_preference else independent or make_design.default_independent)
    fraction = holdout
    if fraction is None:
        fraction = 0.0 if is_preference else make_design.default_holdout
    split = draw_split(pool.present, fraction=fraction, rule=holdout_rule, seed=seed)

    # budget in calls of both trial types, and the paired ones among them
    is_free = calls_are_free and request == ("pooled", None)
    size = PlanSize(pool.n_agents, pool.n_items, request.rule == "matched", 0 if is_free else request.n, is_preference)
    n_requested = size.count_calls(requested) if requested is not None else None
    budget = default_budget if n_requested is None else n_requested
    if budget is None and make_design.default_trials_per_agent is not None:
        budget = size.default_calls(make_design.default_trials_per_agent)
    is_per_agent = requested is None or requested.unit == "/agent"
    independent_trials = _IndependentTrials(
        request, pool, split, budget=budget, is_free=is_free, adds_probes=is_per_agent
    )

    drawer = make_design(n_paired=independent_trials.n_paired, **(options or {}))
    drawn, holdout_trials = _draw_paired_trials(drawer, pool, split, plans_holdout=make_design.plans_holdout, seed=seed)
    paired = drawn.trials
    n_holdout_trials: int | None = None
    if holdout_trials is not None:
        paired = Trials.concat([paired, holdout_trials])
        n_holdout_trials = len(holdout_trials)

    added = independent_trials.draw(paired, in_rounds=drawn.rounds is not None)
    all_trials = Trials.concat([paired, added]).with_replicate_numbers()
    trials = assign_repeats(all_trials, pool, seed)
    notes = [
        *_check_paired_trials(drawn.trials, pool, design_name=drawer.name, n_paired=independent_trials.n_paired),
        *filter(None, [note_empty_responses(pool)]),
        *drawn.notes,
        *_describe_additions(split, n_holdout_trials, len(independent_trials.probes), len(added)),
    ]
    if pool.repeat_texts is not None:
        notes.append(
            f"agents have up to {pool.repeats} responses per item ({pool.n_responses:,} in all); trials show them in turn"
        )
    recorded_options: dict[str, Json] = {"calls": None if requested is None else requested.plain}
    if is_preference:
        recorded_options["question"] = question
    plan = Plan(
        trials=trials,
        split=split,
        design=drawer.name,
        options={**recorded_options, **(options or {})},
        independent=request.rule,
        seed=seed,
        pool_digest=pool.digest,
        agent_ids=tuple(agent.id for agent in pool.agents),
        item_ids=tuple(item.id for item in pool.items),
        n_independent=None if request.rule == "matched" else len(added),
        rounds=drawn.rounds,
        request=PlanRequest(independent, holdout, budget, free_independent=is_free),
        characters=count_characters(pool, trials, with_tasks=is_preference),
        notes=tuple(notes),
        source=pool,
    )
    return with_self_trials(_with_shortfall(plan), pool, self_trials)


def _count_self_trials(pool: Pool, requested: CallBudget | None) -> tuple[int, int | None]:
    """Compute how many paired self-trials each agent gets, and the budget in calls.

    A self-trial compares two responses of one agent: to one item if it is paired, to two items if it is independent. Each paired
    self-trial is accompanied by an independent one, so that it takes two calls of the budget.

    pool : responses of one or two agents
    requested : budget in calls, or in paired self-trials per agent; None for the default

    Returns the number of paired self-trials per agent, and the budget in calls, which is None if `requested` is None.

    Raises PlanError [calls-invalid] if the budget is less than one paired self-trial per agent.
    """
    if requested is None:
        return MAX_PAIRED, None

    min_calls = 2 * pool.n_agents  # one paired and one independent self-trial of each agent
    paired_per_agent = requested.value
    if requested.unit != "/agent":
        paired_per_agent /= min_calls
    n_paired = int(paired_per_agent)
    if n_paired < 1:
        raise PlanError(
            f"Self-trials need at least one paired and one independent call per agent: got calls: {requested.plain} for "
            f"{format_count(pool.n_agents, 'agent')}. Set calls to {min_calls} or more, or to 1/agent or more.",
            slug="calls-invalid",
        )
    budget = int(min_calls * paired_per_agent + 0.5)
    return n_paired, budget


def _draw_all_self_trials(pool: Pool, n_paired: int, seed: int) -> Trials:
    """Draw the self-trials of all agents of a pool: comparisons of two responses of the same agent.

    pool : responses of one or two agents
    n_paired : maximum number of paired self-trials per agent; as many independent ones follow
    seed : seed of the plan

    Returns the trials of all agents, one agent after the other.

    Raises PlanError [repeats-few] if an agent has two responses to fewer than two items, and therefore no self-trials.
    """
    by_agent = []
    for position, agent in enumerate(pool.agents):
        trials_of_agent = draw_self_trials(pool, position, n_paired=n_paired, seed=seed)
        if not len(trials_of_agent):
            n_items = int((pool.n_repeats[position] >= 2).sum())
            raise PlanError(
                f"The agent '{agent.id}' cannot be compared with itself: got {format_count(n_items, 'item')} with two responses. "
                "Add a second response to two items or more.",
                slug="repeats-few",
            )
        by_agent.append(trials_of_agent)
    return Trials.concat(by_agent)


def _make_self_plan(pool: Pool, requested: CallBudget | None, *, seed: int) -> Plan:
    """Plan the self-trials of a pool of one or two agents, which compare two responses of the same agent.

    A ranking by comparisons with each other needs at least 3 agents. If the pool allows fewer calls than requested, a note of the
    plan states this.

    requested : budget in calls, or in paired self-trials per agent; None for the default
    """
    n_paired, budget = _count_self_trials(pool, requested)
    trials = _draw_all_self_trials(pool, n_paired, seed)
    if budget is None:
        budget = len(trials)

    calls_option = None if requested is None else requested.plain  # as the user wrote it, such as "50/agent"
    note_on_empty = note_empty_responses(pool)
    notes = [note_on_empty] if note_on_empty else []
    notes.append(_explain_self_trials(pool))
    plan = Plan(
        trials=trials,
        split=draw_split(pool.present, fraction=0.0, seed=seed),
        design=SELF_DESIGN,
        options={"calls": calls_option},
        independent="matched",
        seed=seed,
        pool_digest=pool.digest,
        agent_ids=tuple(agent.id for agent in pool.agents),
        item_ids=tuple(item.id for item in pool.items),
        request=PlanRequest(budget=budget),
        characters=count_characters(pool, trials),
        notes=tuple(notes),
        source=pool,
    )
    return _with_shortfall(plan)


def _explain_self_trials(pool: Pool) -> str:
    """Explain in a note why a plan of one or two agents compares the responses of each agent with each other.

    The note also states how many responses are left out, because they are the only response of an agent to an item.
    """
    note = (
        f"a ranking needs 3 agents; the pool has {pool.n_agents}, so the responses of each agent are compared with each "
        f"other ({pool.n_responses:,} responses, up to {pool.repeats} per item), and J is the agent's self-consistency"
    )
    n_only_responses = int((pool.n_repeats == 1).sum())
    if n_only_responses:
        subject = format_count(n_only_responses, "response", "has", "have")
        note += f"; {subject} no second one to compare with, so the plan leaves out the item"
    return note


def _with_shortfall(plan: Plan) -> Plan:
    """Return the plan with a first note if it has fewer calls than were requested."""
    shortfall = describe_shortfall(plan)
    return plan if shortfall is None else replace(plan, notes=(shortfall, *plan.notes))


def note_empty_responses(pool: Pool) -> str:
    """State how many responses of which agents are empty; an empty string if none is.

    A pool without any text also gets an empty string, because its answers are recorded or simulated.
    """
    return describe_empty_responses(pool.n_empty_by_agent) if pool.lengths.any() else ""


def describe_shortfall(plan: Plan) -> str | None:
    """Return a note if a plan has clearly fewer calls than requested, because the pool allows no more.

    The shortfall must be more than 5% of the budget (`MIN_BUDGET_FRACTION`), and more than two calls per agent, the size of a
    block. Independent trials that cost nothing are not counted. The result is None for three kinds of plans, which the pool does
    not limit: plans in rounds, extended plans, and plans with the trials of another run.
    """
    is_not_limited_by_pool = plan.rounds is not None or plan.extensions is not None or "trials_from" in plan.options
    if is_not_limited_by_pool or plan.options.get("calls") is None:
        return None

    budget = plan.request.budget
    if budget is None:
        return None
    n_planned = _count_budgeted_calls(plan)
    min_planned = min(MIN_BUDGET_FRACTION * budget, budget - 2 * plan.n_agents)
    if n_planned >= min_planned:
        return None
    if plan.is_self_plan:
        return (
            f"the responses of this pool allow only {n_planned:,} self-trials: got a budget of {budget:,} calls; add "
            "responses or items for more"
        )
    return f"the budget is {budget:,} calls, but the design '{plan.design}' has only {n_planned:,} on this pool"


def _count_budgeted_calls(plan: Plan) -> int:
    """Count the calls of a plan that a budget limits.

    Self-trials that a plan has in addition to its comparisons of agents are not counted. If calls cost nothing, independent
    trials are not counted either.
    """
    if has_free_calls(plan):
        return int((plan.trial_type == PAIRED).sum())
    return len(plan) - plan.n_self_trials


def _describe_additions(split: Split, n_holdout_trials: int | None, n_probes: int, n_independent: int) -> list[str]:
    """Describe, in notes of a plan, the trials that it has in addition to those of its design.

    split : division of the cells (agent, item) into training cells and held-out cells
    n_holdout_trials : number of trials of held-out cells; None if the design itself plans these trials
    n_probes : number of probes, the independent trials that compare unusually similar texts
    n_independent : number of independent trials, which compare responses to different items
    """
    notes = []
    if n_holdout_trials is not None:
        notes.append(
            f"{n_holdout_trials:,} paired calls judge only the {split.n_holdout:,} held-out cells, in addition to the budget"
        )
    if n_probes:
        notes.append(
            f"{n_probes} of {n_independent} independent calls are probes: they compare unusually similar "
            "texts on different items; only the false-positive alarm uses them, not the false-positive rates"
        )
    return notes


def _check_pool_size(pool: Pool) -> None:
    """Raise PlanError [pool-small] if a pool has fewer than 3 agents or 2 items."""
    if pool.n_agents < 3 or pool.n_items < 2:
        raise PlanError(
            f"The pool '{pool.name}' is too small: got {format_count(pool.n_agents, 'agent')} and "
            f"{format_count(pool.n_items, 'item')}. {suggest_additions(pool)}: a ranking needs at least 3 agents and 2 items, "
            "and the self-consistency of one or two agents needs at least two responses of each agent to an item (a column "
            "`repeat`).",
            slug="pool-small",
        )


def _draw_paired_trials(
    design: Design, pool: Pool, split: Split, *, plans_holdout: bool, seed: int
) -> tuple[DesignResult, Trials | None]:
    """Draw the paired trials of the design, and trials of held-out cells if the design draws none.

    A cell (agent, item) is held out if its trials are not used for training.

    plans_holdout : True if the design compares all cells; False to draw `HOLDOUT_PARTNERS` additional trials per held-out cell
    seed : seed of the plan

    Returns the result of the design, and the additional trials of held-out cells, None if there are none.
    """
    if plans_holdout:
        return _draw_design(design, pool, pool.present, seed=seed), None

    design_result = _draw_design(design, pool, split.train, seed=seed)
    holdout_trials = _draw_holdout_trials(split, pool) if split.n_holdout > 0 else None
    return design_result, holdout_trials


def _draw_design(design: Design, pool: Pool, eligible: Bools, *, seed: int) -> DesignResult:
    """Draw the paired trials of a design.

    eligible : bool array (n_agents, n_items), cells (agent, item) that may be compared
    seed : seed of the plan

    Raises PlanError if the design draws no trial: [nothing-shared] if no item has two eligible agents, [plan-empty] if the number
    of calls is too small. Errors of the design are passed on, with the ids of agents and items in place of their positions.
    """
    try:
        drawn = design.draw(eligible, stream("trials", seed))
    except StarvedError as error:
        members = pool.agents if error.side == "agent" else pool.items
        raise error.with_name(members[error.position].id) from error
    if len(drawn.trials) == 0:
        check_shared_items(eligible)
        raise PlanError(
            f"The design {design.name} plans no comparison within this number of calls. Set more calls, or another design.",
            slug="plan-empty",
        )
    return drawn


def _check_paired_trials(trials: Trials, pool: Pool, *, design_name: str, n_paired: int | None) -> list[str]:
    """Return notes if the paired trials of a design exceed the budget, or if they do not link all agents.

    Two agents are linked if they are compared with each other, or with agents that are linked. The built-in designs respect
    the budget and link all agents that share items. A design of a plugin may exceed the budget, or leave agents without links.

    trials : paired trials that the design drew, without those of held-out cells
    n_paired : paired calls in the budget; None for no limit
    """
    notes = []
    if n_paired is not None and len(trials) > n_paired:
        notes.append(
            f"the design '{design_name}' exceeds the budget: {len(trials):,} paired calls instead of {n_paired:,}"
        )

    is_linked = _find_agents_linked_to_first(trials, pool.n_agents)
    unlinked_agents = np.flatnonzero(~is_linked)
    if len(unlinked_agents):
        example = pool.agents[int(unlinked_agents[0])].id
        notes.append(
            f"no comparison links {format_count(len(unlinked_agents), 'agent')}, such as '{example}', with the others, so their "
            "abilities are not comparable"
        )
    return notes


def _find_agents_linked_to_first(trials: Trials, n_agents: int) -> Bools:
    """Return which agents the comparisons link with the first agent, directly or through other agents: bool array (n_agents,)."""
    is_compared = np.zeros((n_agents, n_agents), dtype=np.bool_)
    is_compared[trials.first, trials.second] = True
    is_compared |= is_compared.T

    # begin with the first agent, and add the partners of the linked agents until there are no more
    is_linked: Bools = np.arange(n_agents) == 0
    while True:
        with_partners: Bools = is_linked | is_compared[is_linked].any(axis=0)
        if with_partners.sum() == is_linked.sum():
            return is_linked
        is_linked = with_partners


HOLDOUT_PARTNERS = 3
"""Number of comparisons of each held-out cell if the design plans none."""


def _draw_holdout_trials(split: Split, pool: Pool) -> Trials:
    """Draw three paired trials of each held-out cell (agent, item) with random partners; its text comes first."""
    rng = stream("trials of held-out cells", split.seed)
    return draw_comparisons(split.holdout, pool.present, n_partners=HOLDOUT_PARTNERS, pairs="ordered", rng=rng)


class _IndependentTrials:
    """Counts and draws the independent trials of a first plan.

    There are two rules. By the rule "matched", each paired trial has an independent one. By the rule "pooled", the trials are
    spread over all agents and estimate one false-positive rate per agent; some of them are probes, whose texts are
    unusually similar.

    Attributes
    ----------
    n_paired : int or None
        Number of paired trials in the budget; None without a budget.
    probes : Trials
        Probes, which are part of a requested number of pooled trials, and in addition to the default number.
    """

    def __init__(
        self,
        request: IndependentRequest,
        pool: Pool,
        split: Split,
        *,
        budget: int | None,
        is_free: bool,
        adds_probes: bool,
    ) -> None:
        """Divide a budget into paired and independent trials, and draw the probes.

        Probes are independent trials whose texts are unusually similar.

        request : rule for the independent trials, "matched" or "pooled", and the requested number of pooled ones
        budget : number of calls of both trial types; None for no limit
        is_free : whether calls cost nothing
        adds_probes : whether probes are in addition to the budget
        """
        self._request = request
        self._pool = pool
        self._split = split
        self._is_free = is_free
        self._adds_probes = adds_probes
        self._eligible = split.train if split.rule == "strict" else pool.present
        # number of pooled trials if none is requested: a fraction of the budget; None if it is a fraction of the paired trials,
        # because calls cost nothing or there is no budget
        self._n_by_default: int | None = None
        if request == ("pooled", None) and not is_free and budget is not None:
            n_dense = 2 * pool.n_agents * (pool.n_agents - 1) * pool.n_items
            self._n_by_default = count_independent(min(budget, n_dense), pool.n_agents)

        self.probes = Trials.concat([])
        if request.rule == "pooled":
            n_pooled = self._n_by_default if request.n is None else request.n
            n_calls = MAX_CALLS_WITH_PROBES if n_pooled is None else n_pooled
            self.probes = draw_probes(pool, self._eligible, n_calls, stream("probes", split.seed))

        self.n_paired: int | None = None
        if budget is not None and request.rule == "matched":
            self.n_paired = budget // 2  # one independent trial per paired one
        elif budget is not None:
            self.n_paired = max(0, budget - self._count_budgeted_trials())

    def _count_budgeted_trials(self) -> int:
        """Return how many calls of the budget are used for independent trials, which compare responses to different items.

        - If the user requested a number: this number. It includes the probes, which are trials of unusually similar texts.
        - If calls cost nothing: 0.
        - In all other cases: the default number. The number of probes is added if the budget has to pay for them.
        """
        if self._request.n is not None:
            return self._request.n
        if self._n_by_default is None:  # calls cost nothing
            return 0
        return self._n_by_default if self._adds_probes else self._n_by_default + len(self.probes)

    def draw(self, paired: Trials, *, in_rounds: bool) -> Trials:
        """Draw the independent trials of a plan by the requested rule, "matched" or "pooled".

        Independent trials compare responses to different items. The rule is one of:

        - "matched": one trial for each paired trial, if its second agent has another item.
        - "pooled": first the probes, which are trials of unusually similar texts, then trials of random agents and items.

        paired : paired trials of the plan
        in_rounds : whether later rounds of the run add more trials. The number of random trials is then 7 to 10% of the calls of
            this plan, not of the whole budget. It does not depend on `in_rounds` if the user requested a number, or if calls
            cost nothing.

        Returns independent trials of the role "matched", or of the roles "probe" and "pooled"; none if their number is 0.
        """
        rng = stream("independent trials", self._split.seed)
        if self._request.rule == "matched":
            return self._draw_matched(paired, rng)

        n_random = self._count_random_trials(len(paired), in_rounds=in_rounds)
        random_trials = draw_pooled_trials(self._eligible, n_random, rng, planned=self.probes)
        return Trials.concat([self.probes, random_trials])

    def _count_random_trials(self, n_paired: int, *, in_rounds: bool) -> int:
        """Return how many independent trials of random agents and items the plan gets.

        - If calls cost nothing: a multiple of the number of paired trials.
        - If the user requested a number of independent trials: this number minus the probes, trials of unusually similar texts.
        - If the plan is in rounds or has no budget: 7 to 10% of the plan's calls.
        - In all other cases: 7 to 10% of the budget.

        n_paired : number of paired trials of the plan
        in_rounds : whether the plan gets more trials in later rounds
        """
        if self._is_free:
            return count_free_independent(n_paired, self._eligible)

        if self._request.n is not None:
            return self._request.n - len(self.probes)
        if in_rounds or self._n_by_default is None:  # no default number: there is no budget
            return count_independent_for_paired(n_paired, self._pool.n_agents)
        return self._n_by_default

    def _draw_matched(self, paired: Trials, rng: np.random.Generator) -> Trials:
        """Draw an independent trial for each paired trial: the same two agents, but the second text is on a different item.

        Paired trials for training get independent trials with texts for training.

        paired : paired trials of the plan; they are used for training, or to score held-out responses
        """
        eligible = self._eligible
        is_training = eligible[paired.first, paired.item] & eligible[paired.second, paired.item]
        for_training = draw_matched_trials(paired.take(is_training), eligible, rng)
        for_holdout = draw_matched_trials(paired.take(~is_training), self._pool.present, rng)
        return Trials.concat([for_training, for_holdout])
