"""Forecast the precision of a run at more and at fewer calls, and the calls or items that a requested precision takes.

Forecasts use the variance components of the run's own answers if it has any, and otherwise those of four
reference data sets.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from math import ceil
from typing import Literal, NamedTuple

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.errors import PlanError, StatisticsError
from youden.pipeline.abilities import is_balanced
from youden.pipeline.ranking import estimate_abilities
from youden.protocol.blocks import get_extensions
from youden.protocol.designs.adaptive import Adaptive, get_adaptive_design
from youden.protocol.designs.fixed_width import HALF_WIDTH_FRACTION, FixedWidth, get_width_design
from youden.protocol.pooled_trials import adds_independent, count_added_calls
from youden.stats.forecast import (
    AgentVariances,
    estimate_components,
    find_min_blocks,
    find_min_items,
    half_width_for_regret,
    half_widths,
    min_regret_bound,
)
from youden.stats.reference_data import (
    REFERENCE_DATA,
    WIDTH_FACTOR,
    ReferenceRange,
    components_at_quantile,
    expected_recall,
    expected_regret,
    expected_regret_bound,
    expected_rho,
    prior_components,
    summarize_range,
    widen_half_widths,
)
from youden.stats.trials.agent_rates import expected_rate_variance
from youden.stats.trials.trial_errors import InfluenceTable, compute_item_influence
from youden.text.printable import format_command
from youden.types import PAIRED, Plan, Verdicts
from youden.types.facts import RunFacts
from youden.types.judging import AnswerKind
from youden.types.pool import Floats, Json
from youden.types.trials import POOLED

OWN_ANSWERS = "the run's own answers"
ASSUMED_FPR = 0.02
"""False-positive rate that forecasts assume as long as a run has no answers."""
BUDGET_MULTIPLES = (0.5, 1.0, 2.0)
"""Multiples of a plan's calls for which its half-width is forecast."""


def estimate_variance_components(verdicts: Verdicts) -> AgentVariances:
    """Estimate the variance components of each agent's ability from the answers to a plan in blocks.

    A block is a set of trials of one item in which each agent appears once as the first and once as the second text.

    Returns three float arrays (n_agents,): the agent × item variance, the residual variance of one trial, and the constant
    variance, which more trials do not reduce. The variance of the false-positive rates is part of the residual variance
    if extensions of the plan add independent trials. Otherwise, it is the constant variance.

    Raises StatisticsError if the answers cannot be fitted, for example [trial-none] if there are none.
    """
    abilities = estimate_abilities(verdicts)
    influence = _compute_block_influence(verdicts, abilities.mean_answer)

    # components without the variance of the false-positive rates
    rate_variance = abilities.rate_variance
    variance_without_rates = np.diag(abilities.covariance.covariance) - rate_variance
    components = estimate_components(influence, variance_without_rates)
    if not adds_independent(verdicts.plan):
        return components._replace(constant=rate_variance)

    # variance of a rate per trial; the variance of n trials together is 1/n of it
    n_trials = influence.n_trials.sum(axis=1)
    residual = components.residual + rate_variance * n_trials
    return components._replace(residual=residual, constant=np.zeros_like(residual))


def _compute_block_influence(verdicts: Verdicts, mean_answer: Floats) -> InfluenceTable:
    """Compute the influence of each item on each ability from the answered trials in blocks.

    mean_answer : float array (n_agents,), mean answer of each agent, before false-positive rates are subtracted
    """
    plan = verdicts.plan
    is_used = (plan.block >= 0) & verdicts.answered
    weight = plan.trials.weight_first[is_used]  # a trial in a complete block has the same weight for both of its agents
    return compute_item_influence(
        plan.first[is_used],
        plan.second[is_used],
        plan.item[is_used],
        verdicts.answer[is_used],
        ability=mean_answer,
        first_weight=weight,
        second_weight=weight,
        n_items=plan.n_items,
    )


class TrialsNeeded(NamedTuple):
    """Forecast of the trials per agent that give a half-width.

    Attributes
    ----------
    low : float
        Smallest number, if half-widths are smaller than in all reference data sets.
    mean : float
        Mean over the reference data sets that reach the half-width on these items.
    high : float or None
        Largest number, if half-widths are larger than in all reference data sets. None if the half-width is then not
        reached on these items.
    """

    low: float
    mean: float
    high: float | None


class PrecisionForecast:
    """Forecast of the precision that the paired trials of a plan give.

    Attributes
    ----------
    n_agents : int
        Number of agents of the plan.
    trials : float
        Paired trials per agent.
    n_independent : int
        Independent calls.
    half_width : dict of float to ReferenceRange
        Half-width of the average agent's interval at multiples of the plan's trials: a range for a new pool, or one value
        from the run's own answers. Empty for a plan without blocks and for a search.
    rate_share : float or None
        Fraction of the variance of an ability that is due to the false-positive rates of the agents, if they are
        `ASSUMED_FPR`. None if the run has answers or no pooled independent trials, and without a half-width.
    requested_half_width : float or None
        Half-width that the plan aims at.
    trials_needed : TrialsNeeded or None
        Trials per agent that give `requested_half_width`. None if no number of trials on these items gives it, by any of
        the reference data sets or by the run's own answers.
    items_needed : int or None
        If `trials_needed` is None: smallest number of items with which the half-width can be reached, if that is known.
    rho, recall : ReferenceRange or None
        Spearman's ρ with the ranking by all calls, and the fraction of its top 5 that is found. None for a search,
        without blocks, and for numbers of trials outside the range of the reference data.
    regret : dict of float to tuple of ReferenceRange
        Expected regret of the selected agent at multiples of the plan's trials: with uniform allocation, and
        by a search.
    max_regret : float or None
        Maximum regret at which a search stops. If it is None, the next three attributes do not exist.
    lowest_bound : ReferenceRange
        Smallest regret bound that these items allow if the best agents are equally good.
    search_calls : tuple of (int, int or None)
        Paired calls that the search takes if one agent is clearly the best, and if all are equally good. The latter is
        None if all comparisons are not enough.
    search_items : int
        Number of items on which `max_regret` can be reached even if the best agents are equally good.
    domains, source : str
        Names of the reference data sets; where the half-widths come from.
    """

    def __init__(self, plan: Plan, components: AgentVariances | None = None, *, kind: AnswerKind = "yes or no") -> None:
        """Forecast the precision of a plan.

        Parameters
        ----------
        plan : Plan
            Plan of the run.
        components : AgentVariances, optional
            Variance components from the run's own answers. Default: those of the reference data sets.
        kind : {"graded", "yes or no", "lexical"}, default "yes or no"
            Kind of the judge's answers.
        """
        search = get_adaptive_design(plan) if plan.design == Adaptive.name else None
        design = get_width_design(plan) if plan.design == FixedWidth.name else None
        has_blocks = bool((plan.block >= 0).any())
        max_blocks = (plan.n_agents - 1) * plan.n_items
        n_paired = int((plan.trial_type == PAIRED).sum())
        self.n_agents = plan.n_agents
        self.n_independent = len(plan) - n_paired - plan.n_self_trials
        self.max_regret = None if search is None else search.max_regret
        if self.max_regret is not None:
            self._set_search(self.max_regret, n_paired, prior_components(kind), plan)
        elif search is not None:
            n_paired = search.budget(plan.split.train)
        self.trials = 2 * n_paired / plan.n_agents

        # half-widths, only of plans in blocks without a search
        self.half_width: dict[float, ReferenceRange] = {}
        self.rate_share: float | None = None
        if has_blocks and search is None:
            self._set_half_widths(plan, components, kind)

        # the reference data have the regret, ρ and recall of plans in blocks with fewer trials than all comparisons
        is_measured = has_blocks and self.trials < 2 * max_blocks
        self.regret: dict[float, tuple[ReferenceRange, ReferenceRange]] = {}
        if is_measured and self.max_regret is None:
            self._set_regret()

        # trials or items for a requested half-width
        self.requested_half_width: float | None = None
        self.trials_needed: TrialsNeeded | None = None
        self.items_needed: int | None = None
        if design is not None:
            self.requested_half_width = design.half_width
            self._set_needed(design.half_width, plan, components, kind)
        has_forecast = is_measured and search is None
        self.rho = expected_rho(self.trials, kind) if has_forecast else None
        self.recall = expected_recall(self.trials, kind) if has_forecast else None
        self.domains = ", ".join(domain.name for domain in REFERENCE_DATA[kind])
        self.source = OWN_ANSWERS if components else f"{self.domains}, by {kind} answers; this run has no answers yet"

    def _set_half_widths(self, plan: Plan, components: AgentVariances | None, kind: AnswerKind) -> None:
        """Set `rate_share`, and set `half_width` for each multiple of the plan's trials that these items allow.

        components : variance components of the agents from the run's own answers; None to use reference data
        kind : kind of the judge's answers, which selects the reference data
        """
        max_blocks = (plan.n_agents - 1) * plan.n_items
        for multiple in BUDGET_MULTIPLES:
            n_blocks = round(multiple * self.trials / 2)  # an agent has 2 trials in a block
            if not 2 <= n_blocks <= max_blocks:
                continue

            if components is not None:
                mean = half_widths(components, n_blocks, plan.n_items).mean(keepdims=True)
                self.half_width[multiple] = summarize_range(mean)
                continue

            prior = prior_components(kind)
            rate_variance = _forecast_rate_variance(plan, multiple)
            widths = _forecast_half_widths(prior, rate_variance, n_blocks, plan.n_items)
            self.half_width[multiple] = widen_half_widths(summarize_range(widths))

            # a variance is proportional to the square of the half-width
            if multiple == 1.0 and rate_variance:
                widths_without_rates = half_widths(prior, n_blocks, plan.n_items)
                share = 1 - (widths_without_rates / widths) ** 2
                self.rate_share = float(share.mean())

    def _set_regret(self) -> None:
        """Set `regret` at each multiple of the plan's trials in the range of the reference data."""
        for multiple in BUDGET_MULTIPLES:
            uniform = expected_regret(multiple * self.trials, search=False)
            searched = expected_regret(multiple * self.trials, search=True)
            if uniform is not None and searched is not None:
                self.regret[multiple] = uniform, searched

    def _set_needed(self, half_width: float, plan: Plan, components: AgentVariances | None, kind: AnswerKind) -> None:
        """Set `trials_needed`, or `items_needed` if no number of trials on these items gives the half-width.

        half_width : half-width of the intervals that the fraction `HALF_WIDTH_FRACTION` of the agents must reach
        components : variance components of the agents from the run's own answers; None to use reference data
        kind : kind of the judge's answers, which selects the reference data
        """
        scenarios = _make_scenarios(components, kind)
        # a scenario from reference data has a single agent, at the quantile HALF_WIDTH_FRACTION of half-widths
        fraction = 1.0 if components is None else HALF_WIDTH_FRACTION
        count_trials = partial(_count_trials_needed, half_width=half_width, fraction=fraction, plan=plan)
        n_trials = count_trials(scenarios.usual)
        is_reached = np.isfinite(n_trials)
        if is_reached.any():
            mean = float(n_trials[is_reached].mean())
            low = float(count_trials(scenarios.narrow).min())
            high = float(count_trials(scenarios.wide).max())
            self.trials_needed = TrialsNeeded(low, mean, high if np.isfinite(high) else None)
            return

        find_items = partial(find_min_items, half_width=half_width, fraction=fraction, n_agents=plan.n_agents)
        n_items_needed = [n_items for n_items in map(find_items, scenarios.usual) if n_items is not None]
        self.items_needed = min(n_items_needed, default=None)

    def _set_search(self, max_regret: float, n_pilot_calls: int, components: AgentVariances, plan: Plan) -> None:
        """Set the forecasts of a search for the best agents: `lowest_bound`, `search_items` and `search_calls`.

        max_regret : maximum regret, at which the search stops
        n_pilot_calls : paired calls of the plan (its first round), which are enough if one agent is clearly the best
        components : variance components by reference data set, float arrays (n_data_sets,)
        plan : plan of the first round
        """
        # smallest regret bound on these items, by each data set
        data_sets = _split_by_data_set(components)
        bounds = np.array([min_regret_bound(data_set, plan.n_items) for data_set in data_sets])
        self.lowest_bound = widen_half_widths(summarize_range(bounds))

        # a regret bound is proportional to 1/√items
        bound_ratio = float(bounds.mean()) / max_regret
        self.search_items = ceil(plan.n_items * bound_ratio**2)

        # trials per agent if all agents are equally good, and half-widths are larger than in all data sets
        half_width = half_width_for_regret(max_regret, plan.n_agents)
        wide = _split_by_data_set(components, width_factor=WIDTH_FACTOR)
        n_trials = _count_trials_needed(wide, half_width=half_width, fraction=1.0, plan=plan)

        max_calls = None
        if np.isfinite(n_trials).all():
            max_calls = int(n_trials.max() / 2 * plan.n_agents)  # a call is a trial of two agents
        self.search_calls = (n_pilot_calls, max_calls)

    def count_calls(self, trials_per_agent: float) -> float:
        """Count the paired and independent calls of the plan if each agent has `trials_per_agent` paired trials.

        A paired call is a trial of two agents.
        """
        return self.n_agents * trials_per_agent / 2 + self.n_independent

    @property
    def regret_bound(self) -> tuple[ReferenceRange, ReferenceRange] | None:
        """Regret bound at the plan's own trials, with uniform allocation and by a search; None without `regret`."""
        uniform = expected_regret_bound(self.trials, search=False)
        searched = expected_regret_bound(self.trials, search=True)
        if 1.0 not in self.regret or uniform is None or searched is None:
            return None
        return uniform, searched

    @property
    def usual_half_width(self) -> str | None:
        """Half-width at the plan's own trials, as text; None without a forecast."""
        return _format_range(self.half_width[1.0]) if 1.0 in self.half_width else None

    def to_json(self) -> dict[str, Json]:
        """Return the forecast in the form of the output of `youden run --json`.

        The keys are the names of attributes. `half_width` has the multiples of the plan's trials as keys, such as "0.5".
        The attributes of a search are in the key `reach`, the list [`max_regret`, `lowest_bound`, `search_items`,
        `search_calls`]. `reach` is None for a plan without a maximum regret.
        """
        names = (
            "n_independent",
            "rate_share",
            "requested_half_width",
            "trials_needed",
            "items_needed",
            "rho",
            "recall",
            "regret",
            "regret_bound",
            "source",
            "domains",
        )
        attributes: dict[str, Json] = {}
        for name in names:
            attribute = getattr(self, name)
            is_record = isinstance(attribute, ReferenceRange | TrialsNeeded)
            attributes[name] = attribute._asdict() if is_record else attribute

        half_width: Json = {f"{multiple:g}": width._asdict() for multiple, width in self.half_width.items()}
        reach: Json = None
        if self.max_regret is not None:
            reach = [self.max_regret, list(self.lowest_bound), self.search_items, list(self.search_calls)]
        return {"trials": self.trials, "half_width": half_width, **attributes, "reach": reach}


class _Scenarios(NamedTuple):
    """Cases for which a forecast is made, each with the variance components of some agents.

    `usual` has one case with all agents of the run, or one per reference data set. The cases in `narrow` and `wide` are the
    same with smaller and with larger half-widths than in all reference data sets, or equal those of the run.
    """

    narrow: list[AgentVariances]
    usual: list[AgentVariances]
    wide: list[AgentVariances]


def _make_scenarios(components: AgentVariances | None, kind: AnswerKind) -> _Scenarios:
    """Make the scenarios for a forecast of the number of trials that give a half-width.

    components : variance components of the agents from the run's own answers; None to use reference data
    kind : kind of the judge's answers, which selects the reference data
    """
    if components is not None:
        return _Scenarios([components], [components], [components])

    at_quantile = components_at_quantile(HALF_WIDTH_FRACTION, kind)
    return _Scenarios(
        narrow=_split_by_data_set(at_quantile, width_factor=1 / WIDTH_FACTOR),
        usual=_split_by_data_set(at_quantile),
        wide=_split_by_data_set(at_quantile, width_factor=WIDTH_FACTOR),
    )


def _count_trials_needed(
    scenarios: Sequence[AgentVariances], *, half_width: float, fraction: float, plan: Plan
) -> Floats:
    """Forecast in several scenarios how many trials per agent give the requested half-width.

    scenarios : variance components of some agents in each scenario
    half_width : requested half-width of the intervals
    fraction : fraction of these agents whose interval must reach the half-width
    plan : plan of the agents and items

    Returns a float array (n_scenarios,); ∞ if no number of trials on these items is enough.
    """
    max_blocks = (plan.n_agents - 1) * plan.n_items
    n_trials = []
    for components in scenarios:
        n_blocks = find_min_blocks(
            components, half_width, fraction=fraction, n_items=plan.n_items, max_blocks=max_blocks
        )
        n_trials.append(np.inf if n_blocks is None else 2 * n_blocks)  # an agent has 2 trials in a block
    return np.array(n_trials)


def _forecast_half_widths(prior: AgentVariances, rate_variance: float, n_blocks: int, n_items: int) -> Floats:
    """Forecast the half-width of an agent's interval from the variance components of reference data.

    prior : variance components without those of false-positive rates, float arrays (n_data_sets,)
    rate_variance : variance that false-positive rates add to an ability
    n_blocks, n_items : number of blocks (two trials of each agent on one item), and of items

    Returns a float array (n_data_sets,).
    """
    # `half_widths` divides `residual` by 2 · n_blocks, so this adds the variance of the rates to that of an ability
    with_rates = prior._replace(residual=prior.residual + 2 * n_blocks * rate_variance)
    return half_widths(with_rates, n_blocks, n_items)


def _forecast_rate_variance(plan: Plan, multiple: float) -> float:
    """Forecast the variance that false-positive rates add to an ability.

    multiple : number of calls, as a multiple of those of the plan

    Returns 0 for fewer than 3 agents, and for a plan without pooled independent trials, which show responses to different items
    and are used for the false-positive rate of each agent.
    """
    n_pooled = multiple * int((plan.role == POOLED).sum())
    if plan.independent == "matched" or not n_pooled or plan.n_agents < 3:
        return 0.0

    trials_per_agent = 2 * n_pooled / plan.n_agents  # each trial counts for two agents
    return expected_rate_variance(trials_per_agent, rate=ASSUMED_FPR, n_agents=plan.n_agents)


def _split_by_data_set(components: AgentVariances, *, width_factor: float = 1.0) -> list[AgentVariances]:
    """Split variance components from reference data, float arrays (n_data_sets,), into components of single data sets.

    width_factor : factor by which the half-widths that follow from the components are multiplied
    """
    return [
        AgentVariances(width_factor**2 * np.array([agent_item]), width_factor**2 * np.array([residual]))
        for agent_item, residual in zip(components.agent_item, components.residual, strict=True)
    ]


def read_variance_components(folder: RunFolder) -> AgentVariances | None:
    """Estimate the variance components of abilities from the answers in a run's folder.

    Parameters
    ----------
    folder : RunFolder
        Folder of the run.

    Returns
    -------
    AgentVariances or None
        None if the folder has no answers to its plan, if they cannot be fitted, if the run asks for preferences or was
        extended, or if its blocks are not complete.

    Raises
    ------
    RunFolderError
        If a file is damaged.
    """
    if not (folder.has("verdicts.parquet") and folder.has("plan.parquet")):
        return None
    plan = folder.read_plan()
    has_blocks = plan.question == "information" and is_balanced(plan) and not get_extensions(plan).steps
    if has_blocks and plan.digest == folder.read_judged_plan_digest():
        with suppress(StatisticsError):
            return estimate_variance_components(folder.read_verdicts(plan))
    return None


_MAX_TRIALS = 2_000_000
"""Number of trials above which the answers are not read again to forecast how many more are needed."""
_MAX_ITEM_FACTOR = 100
"""Maximum number of items that the next step suggests, as a multiple of those of the run."""
_SELECTION_FACTOR = 1.3
"""Approximate ratio of the selection-adjusted bound on a difference to the half-width of a single difference."""


def format_next_step(folder: RunFolder, facts: RunFacts, *, usd_per_call: float | None) -> str:
    """Format how many more calls or items would separate the last selected agent from the first other candidate.

    Other candidates are the agents that were not selected and cannot be ruled out as one of the best.

    Parameters
    ----------
    folder : RunFolder
        Folder of the run.
    facts : RunFacts
        Facts about its fit.
    usd_per_call : float or None
        Price of a call in USD; the text has no price if it is None or 0.

    Returns
    -------
    str
        Approximate number, price and command. In these cases, the text is another one, without number and price:

        - an unfinished extension: the command that finishes it, because no other extension can begin before;
        - answers that follow the position of the responses: an instruction to use another judge;
        - a run of self-trials: an instruction to run a pool with more items;
        - a search in rounds: the command for a longer search, because a search cannot be extended;
        - two agents that even many more items would not separate: a statement that they may be equally good.

        Empty if more calls would not help: if agents cannot be compared, the judge does not discriminate, or the run has
        its recommendation.

    Raises
    ------
    RunFolderError
        If a file of the run is missing or damaged.

    Notes
    -----
    With that many, the half-width of the 95% interval of the difference is below the difference itself, estimated from
    the run's own answers. If these do not show how much abilities vary between items, the half-width is assumed to be
    proportional to 1/√trials.
    """
    unfinished = folder.read_config().unfinished
    if unfinished is not None and len(get_extensions(folder.read_plan_without_trials()).steps) <= unfinished.number:
        return f"finish the extension that was stopped: `{unfinished.format_command(folder.path)}`"

    # cases in which more calls do not help
    choice = facts.choice
    if facts.preference is not None and facts.preference.follows_position:
        return "use another judge or prompt, because the answers follow the position of the responses"
    is_decided = not facts.signal.discriminates or facts.recommendation.form == "recommended"
    if choice is None or not choice.candidates or is_decided:
        return ""

    plan = folder.read_plan()
    pair = [choice.agents[-1], choice.candidates[0]]
    if plan.is_self_plan:
        names = " and ".join(pair)
        return f"to separate {names}, run a pool with more items under another name; self-trials cannot be extended"
    if plan.rounds is not None:
        command = format_command(["youden", "run", str(folder.file("config.yaml"))])
        return f"`{command} --calls N --out NEW` makes a longer search; with the same store, stored answers are reused"
    return _format_separation(folder, plan, pair, usd_per_call=usd_per_call)


def _format_separation(folder: RunFolder, plan: Plan, pair: Sequence[str], *, usd_per_call: float | None) -> str:
    """Format how many more calls or items would make two agents significantly different, with price and command.

    plan : plan of the run
    pair : ids of the two agents
    usd_per_call : price of a call in USD; the text has no price if it is None or 0
    """
    names = " and ".join(pair)
    needed = _forecast_needed_data(folder, plan, pair)
    if needed is None or (needed.kind == "items" and needed.n > _MAX_ITEM_FACTOR * plan.n_items):
        return f"{names} may be equally good: {_MAX_ITEM_FACTOR} times as many items might not separate them"
    if needed.kind == "items":
        run = shlex.quote(str(folder.path))
        return f"about {needed.n:,} more items would separate {names}: `youden extend items {run} POOL`"

    # each scored agent has 2 calls per block; in a large pool, only the two agents are scored (--focus)
    has_focus = plan.n_agents > 2 * len(pair)
    n_scored = len(pair) if has_focus else plan.n_agents
    n_calls = count_added_calls(plan, needed.n * 2 * n_scored, n_scored=n_scored)
    command = ["youden", "extend", "calls", str(folder.path), str(n_calls)]
    if has_focus:
        command += ["--focus", pair[0], "--focus", pair[1]]

    cost = _format_cost(n_calls, usd_per_call)
    return f"about {n_calls:,} more calls{cost} would separate {names}: `{shlex.join(command)}`"


class _NeededData(NamedTuple):
    """Data that must be added to a run so that an interval has a required half-width.

    Attributes
    ----------
    kind : {"blocks", "items"}
        "blocks" for more blocks of trials on the present items, "items" for more items.
    n : int
        Number of additional blocks or items.
    """

    kind: Literal["blocks", "items"]
    n: int


def _forecast_needed_data(folder: RunFolder, plan: Plan, pair: Sequence[str]) -> _NeededData | None:
    """Forecast how many blocks or items must be added to a run to make the difference of two agents significant.

    A block is a set of trials of one item, with two trials of each agent. The difference is taken as significant if the
    half-width of its interval is below the difference itself, divided by `_SELECTION_FACTOR`. More items are proposed only
    if all possible blocks on the present items are too few.

    pair : ids of the two agents

    Returns None if no number of items is enough, or if the difference is 0 or unknown.
    """
    difference, squared_half_width = _read_ability_difference(folder, pair)
    required_half_width = abs(difference) / _SELECTION_FACTOR
    if not required_half_width > 0:  # the abilities are equal, or one is unknown (NaN)
        return None

    components = None if len(plan) > _MAX_TRIALS else read_variance_components(folder)
    if components is not None:
        # the variances of a difference are sums over both agents
        positions = [plan.agent_ids.index(agent) for agent in pair]
        of_difference = AgentVariances(*(component[positions].sum(keepdims=True) for component in components))
        return _forecast_data_by_components(of_difference, required_half_width, plan)

    # a half-width is proportional to 1/√blocks; at least a tenth more blocks are added
    n_blocks = int((plan.trial_type == PAIRED).sum()) / plan.n_agents
    n_blocks_needed = n_blocks * squared_half_width / required_half_width**2
    growth = max(n_blocks_needed / n_blocks, 1.1)
    max_blocks = (plan.n_agents - 1) * plan.n_items
    if growth * n_blocks <= max_blocks:
        return _NeededData("blocks", ceil((growth - 1) * n_blocks))
    return _NeededData("items", ceil((growth - 1) * plan.n_items))


def _read_ability_difference(folder: RunFolder, pair: Sequence[str]) -> tuple[float, float]:
    """Read the difference between the abilities of two agents from the ranking of a run, and its squared half-width.

    The half-width is that of a confidence interval. The squared half-width of the difference is the sum of the squared
    half-widths of both abilities.

    folder : folder of the run
    pair : ids of the two agents

    Returns the first ability minus the second one, and the squared half-width. Both are NaN if the ability or a bound of
    one of the agents is unknown.
    """
    row_by_agent = {row.agent: row for row in folder.read_ranking()}
    abilities = []
    squared_half_width = 0.0  # of the difference: sum over both agents
    for agent in pair:
        row = row_by_agent[agent]
        if row.ability is None or row.low is None or row.high is None:
            return np.nan, np.nan
        abilities.append(row.ability)

        # the farther of the two bounds, because the other one may be limited to a possible ability
        squared_half_width += max(row.high - row.ability, row.ability - row.low) ** 2
    return abilities[0] - abilities[1], squared_half_width


def _forecast_data_by_components(components: AgentVariances, half_width: float, plan: Plan) -> _NeededData | None:
    """Forecast how much data must be added to a run so that an interval has a given half-width.

    More blocks of trials on the present items need no new responses, so more items are proposed only if all possible
    blocks are too few. At least a tenth of the present number is added.

    components : variance components of the estimate, arrays (1,)
    half_width : required half-width of its interval
    plan : present plan of the run

    Returns None if no number of items is enough.
    """
    n_blocks = int((plan.trial_type == PAIRED).sum()) / plan.n_agents
    max_blocks = (plan.n_agents - 1) * plan.n_items
    blocks_needed = find_min_blocks(components, half_width, fraction=1.0, n_items=plan.n_items, max_blocks=max_blocks)
    if blocks_needed is not None and n_blocks < max_blocks:
        additional_blocks = max(blocks_needed - round(n_blocks), ceil(n_blocks / 10))
        return _NeededData("blocks", additional_blocks)

    items_needed = find_min_items(components, half_width, fraction=1.0, n_agents=plan.n_agents)
    if items_needed is None:
        return None
    additional_items = max(items_needed - plan.n_items, ceil(plan.n_items / 10))
    return _NeededData("items", additional_items)


def check_width_attainable(plan: Plan) -> None:
    """Raise PlanError [width-items] if a plan has too few items for the requested half-width of its intervals.

    The agent × item variance is assumed to be half of the smallest one in the reference data sets.
    """
    half_width = get_width_design(plan).half_width
    agent_item = min(data_set.agent_item for data_set in REFERENCE_DATA["graded"]) / 2
    optimistic = AgentVariances(np.array([agent_item]), np.zeros(1))  # without residual variance
    n_blocks = find_min_blocks(optimistic, half_width, fraction=1.0, n_items=plan.n_items, max_blocks=plan.n_items)
    if n_blocks is not None:
        return

    n_items = find_min_items(optimistic, half_width, fraction=1.0, n_agents=plan.n_agents)
    if n_items is None:
        advice = "Set a larger half-width: no number of items gives this one."
    else:
        advice = f"Add items, to {n_items:,} or more in all, or set a larger half-width."
    raise PlanError(
        f"The half-width cannot be reached on {plan.n_items:,} items: got ± {half_width:g}. Abilities vary so much between "
        f"items that intervals stay wider with any number of calls. {advice}",
        slug="width-items",
    )


def format_forecast(forecast: PrecisionForecast, *, usd_per_call: float | None = None) -> Iterator[str]:
    """Format a forecast as sentences.

    Parameters
    ----------
    forecast : PrecisionForecast
        Forecast of a plan.
    usd_per_call : float, optional
        Price of a call. Default: None, which gives no cost.

    Yields
    ------
    str
        A sentence about the trials per agent and their half-width, the calls that a requested half-width or maximum
        regret takes, ρ and recall, the expected regret, the share of the variance due to the false-positive rates, or the
        source of the forecast and its limits.
    """
    # trials and half-widths, at the plan's calls and at multiples of them
    labels = {0.5: "at half the calls", 2.0: "at twice the calls"}
    at_multiples = []
    for multiple, label in labels.items():
        if multiple in forecast.half_width:
            at_multiples.append(f"{_format_range(forecast.half_width[multiple])} {label}")
    line = f"{forecast.trials:,.0f} trials per agent"
    if 1.0 in forecast.half_width:
        suffix = f" ({', '.join(at_multiples)})" if at_multiples else ""
        line += f"; the average agent's 95% interval is about ± {forecast.usual_half_width}{suffix}"
    yield line

    if forecast.rate_share is not None:
        yield (
            f"false-positive rates of {ASSUMED_FPR:.0%} would account for {forecast.rate_share:.0%} of the variance of an "
            f"ability; {3 * forecast.n_independent:,} more independent calls would halve the part of the interval that is due "
            "to these rates"
        )

    if forecast.requested_half_width is not None:
        yield _format_trials_needed(forecast, forecast.requested_half_width, usd_per_call)

    if forecast.rho is not None and forecast.recall is not None:
        yield (
            f"on reference data, a plan with this many trials has ρ {_format_mean_and_range(forecast.rho)} with the ranking by "
            f"all calls, and finds {_format_mean_and_range(forecast.recall, 2)} of the top 5 of that ranking (means over "
            f"{forecast.domains}; the ranges allow for other pools)"
        )

    if forecast.regret_bound is not None:
        yield from _compare_allocations(forecast.regret, forecast.regret_bound)

    if forecast.max_regret is not None:
        yield from _format_search(forecast, forecast.max_regret, usd_per_call)

    if forecast.half_width:
        yield f"half-widths are forecast from {forecast.source}"
        if forecast.source != OWN_ANSWERS:
            yield (
                "judges and agents differ, so ranges are wider than those of the reference data; a run with fewer calls first "
                "gives a forecast from its own answers"
            )


def _compare_allocations(
    regret: dict[float, tuple[ReferenceRange, ReferenceRange]], bound: tuple[ReferenceRange, ReferenceRange]
) -> Iterator[str]:
    """Yield two sentences, one about sampling all agents equally and one about a search for the best agent.

    The regret is the ability of the best agent minus that of the selected one. The regret bound is its upper confidence bound.

    regret : expected regret by multiple of the plan's trials (1.0 for the plan itself), as a pair: if all agents are
        sampled equally, and by a search
    bound : pair of the regret bounds at the plan's own trials
    """
    uniform, searched = regret[1.0]
    uniform_bound, searched_bound = bound
    yield (
        f"all agents sampled equally: on reference data, the agent that ranks first is on average "
        f"{_format_of_100(uniform)} of 100 comparisons behind the best{_format_regret_at_other_sizes(regret)}; the regret "
        f"bound is {_format_of_100(uniform_bound)}, and all intervals are about equally wide"
    )

    effect_on_regret = "lowers this regret to" if searched.mean < uniform.mean else "does not lower this regret:"
    raises_bound = searched_bound.mean > uniform_bound.mean
    effect_on_bound = "raises the bound to" if raises_bound else "does not raise the bound:"
    yield (
        f"a search (`top: 1`) with equally many calls {effect_on_regret} {_format_of_100(searched)} and {effect_on_bound} "
        f"{_format_of_100(searched_bound)}; its bound holds over all interim analyses, and intervals of eliminated agents are "
        "wider"
    )


def _format_regret_at_other_sizes(regret: dict[float, tuple[ReferenceRange, ReferenceRange]]) -> str:
    """Format the expected regret at half and at twice the calls of a plan, in parentheses.

    The regret is that of a plan that samples all agents equally, on a scale from 0 to 100.

    regret : expected regret by multiple of the plan's trials, as in `_compare_allocations`

    Returns an empty string if both multiples are missing.
    """
    parts = []
    for multiple, label in ((0.5, "half the calls"), (2.0, "twice the calls")):
        if multiple in regret:
            uniform, _ = regret[multiple]
            parts.append(f"{100 * uniform.mean:.1f} with {label}")
    return f" ({', '.join(parts)})" if parts else ""


def _format_of_100(regret: ReferenceRange) -> str:
    """Format a regret as a number of 100 comparisons: the mean, with the lowest and highest value in parentheses."""
    return _format_mean_and_range(ReferenceRange(*(100 * x for x in regret)), 1)


def _format_search(forecast: PrecisionForecast, max_regret: float, usd_per_call: float | None) -> Iterator[str]:
    """Yield sentences about the calls that a search for the best agent takes until it reaches its maximum regret.

    The search stops when the upper confidence bound on the regret reaches the maximum regret. If the items are too few for
    that, the first sentence states how many suffice.

    forecast : forecast of a plan with a maximum regret
    max_regret : maximum regret, at which the search stops
    usd_per_call : cost of a call in USD; None if it is unknown
    """
    if max_regret < forecast.lowest_bound.low:
        bound = _format_mean_and_range(forecast.lowest_bound)
        yield (
            f"a regret of {max_regret:g} cannot be reached on these items unless one agent is clearly the best: if all are "
            f"equally good, the regret bound stays above {bound}; about {forecast.search_items:,} items would suffice"
        )

    calls_if_one_is_best, calls_if_equal = forecast.search_calls
    min_calls = f"{calls_if_one_is_best:,} paired calls{_format_cost(calls_if_one_is_best, usd_per_call)}"
    max_calls = "more than all comparisons"
    if calls_if_equal is not None:
        max_calls = f"{calls_if_equal:,}{_format_cost(calls_if_equal, usd_per_call)}"
    yield (
        f"a regret bound of {max_regret:g} takes {min_calls} if one agent is clearly the best, and {max_calls} if all are "
        "equally good"
    )


def _format_cost(n_calls: float, usd_per_call: float | None) -> str:
    """Format the cost of calls after a comma; empty if it is unknown or 0."""
    return f", ${usd_per_call * n_calls:,.2f}" if usd_per_call and n_calls else ""


def _format_trials_needed(forecast: PrecisionForecast, half_width: float, usd_per_call: float | None) -> str:
    """Format how many trials per agent and calls give the requested half-width, and their cost, as a sentence.

    If no number of trials on these items is enough, the sentence states how many items are needed, if that is known.

    forecast : forecast of a plan that requests the half-width
    half_width : requested half-width
    usd_per_call : cost of a call in USD; None if it is unknown
    """
    goal = f"± {half_width:g}"
    if forecast.trials_needed is not None:
        return f"{goal} {_format_trials_and_calls(forecast, forecast.trials_needed, usd_per_call)}"
    if forecast.items_needed is None:
        return f"{goal} cannot be reached on these items"
    return f"{goal} cannot be reached on these items: it takes about {forecast.items_needed:,} items like them, or more"


def _format_trials_and_calls(forecast: PrecisionForecast, needed: TrialsNeeded, usd_per_call: float | None) -> str:
    """Format the range of the trials and calls that give a half-width, with their cost, as the end of a sentence.

    forecast : forecast of the plan, which converts trials per agent into calls
    needed : trials per agent that give the half-width
    usd_per_call : cost of a call in USD; None if it is unknown
    """
    min_calls = forecast.count_calls(needed.low)
    min_cost = _format_cost(min_calls, usd_per_call)
    if needed.high is None:
        lowest = f"{needed.low:,.0f} trials per agent, {min_calls:,.0f} calls{min_cost}"
        return f"takes at least {lowest}, or is not reached on these items"

    # from the run's own answers, the forecast is one number instead of a range
    is_one_number = needed.high - needed.low < 1
    if is_one_number:
        return f"takes about {needed.mean:,.0f} trials per agent, {min_calls:,.0f} calls{min_cost}"

    max_calls = forecast.count_calls(needed.high)
    trials_range = f"{needed.low:,.0f} to {needed.high:,.0f} trials per agent"
    calls_range = f"{min_calls:,.0f} to {max_calls:,.0f} calls"
    cost_range = f"{min_cost} to ${usd_per_call * max_calls:,.2f}" if usd_per_call else ""
    return f"takes {trials_range}, {calls_range}{cost_range}"


def _format_range(value: ReferenceRange) -> str:
    """Format the lowest and highest value."""
    low, _, high = (f"{x:.3f}" for x in value)
    return low if low == high else f"{low} to {high}"


def _format_mean_and_range(value: ReferenceRange, digits: int = 3) -> str:
    """Format the mean, with the lowest and highest value in parentheses."""
    low, mean, high = (f"{x:.{digits}f}" for x in value)
    return mean if low == high else f"{mean} ({low} to {high})"
