"""Forecast the precision of a run at more and at fewer calls, and the calls or items that a requested precision takes.

Forecasts use the variance components of the run's own answers if it has any, and otherwise those of four reference data sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from math import ceil
from typing import NamedTuple

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.errors import PlanError, StatisticsError
from youden.pipeline.abilities import is_balanced
from youden.pipeline.ranking import estimate_abilities
from youden.protocol.blocks import count_blocks_per_item, get_extensions
from youden.protocol.designs.adaptive import Adaptive, get_adaptive_design
from youden.protocol.designs.fixed_width import HALF_WIDTH_FRACTION, FixedWidth, get_width_design
from youden.protocol.pooled_trials import adds_independent, count_added_calls, has_default_independent_count
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
from youden.types import PAIRED, Plan, Verdicts
from youden.types.judging import AnswerKind
from youden.types.pool import Floats, Json
from youden.types.trials import POOLED

OWN_ANSWERS = "the run's own answers"
ASSUMED_FPR = 0.02
"""False-positive rate that forecasts assume as long as a run has no answers."""
BUDGET_MULTIPLES = (0.5, 1.0, 2.0)
"""Multiples of a plan's calls for which its half-width is forecast."""


def estimate_variance_components(verdicts: Verdicts, *, separate_rates: bool = False) -> AgentVariances:
    """Estimate the variance components of each agent's ability from the answers to a plan in blocks.

    A block is a set of trials of one item, in which each agent appears once as the first and once as the second text.

    verdicts : answers to the plan
    separate_rates : whether the variance due to estimated false-positive rates is always the constant component. By default, it
        is part of the residual component if extensions of the plan add independent trials, and otherwise constant

    Returns three float arrays (n_agents,):

    - the agent × item variance: how much the score of an agent varies between items;
    - the residual variance of one trial;
    - the constant variance, which more paired trials do not reduce.

    Raises StatisticsError if the answers cannot be fitted, for example [trial-none] if there are none.
    """
    abilities = estimate_abilities(verdicts)
    influence = _compute_block_influence(verdicts, abilities.mean_answer)

    # an ability is a mean answer minus a false-positive rate, and its variance is the sum of the variances of the two
    ability_variance = np.diag(abilities.covariance.covariance)
    rate_variance = abilities.rate_variance
    components = estimate_components(influence, ability_variance - rate_variance)
    if separate_rates or not adds_independent(verdicts.plan):
        return components._replace(constant=rate_variance)

    # the residual variance is that of one trial; a mean of n trials has 1/n of it
    n_trials = influence.n_trials.sum(axis=1)
    rate_variance_per_trial = rate_variance * n_trials
    residual = components.residual + rate_variance_per_trial
    return components._replace(residual=residual, constant=np.zeros_like(residual))


def _compute_block_influence(verdicts: Verdicts, mean_answer: Floats) -> InfluenceTable:
    """Compute the influence of each item on each ability.

    The influence is the item's contribution to the estimation error of the ability. Only answered trials in blocks count. A
    block has two trials of each agent on one item.

    mean_answer : float array (n_agents,), mean answer of each agent, before false-positive rates are subtracted
    """
    plan = verdicts.plan
    is_in_block = plan.block >= 0  # −1 for trials outside of blocks
    is_used = is_in_block & verdicts.answered
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


class RegretByAllocation(NamedTuple):
    """Regret, or its upper bound, if the same number of calls is allocated to the agents in two ways.

    Attributes
    ----------
    uniform : ReferenceRange
        Value if all agents are sampled equally.
    search : ReferenceRange
        Value if a search for the best agents samples agents that may be the best more often.
    """

    uniform: ReferenceRange
    search: ReferenceRange


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
    regret : dict of float to RegretByAllocation
        Expected regret of the selected agent at multiples of the plan's trials.
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
            Variance components from the run's own answers. Default: variance components of the reference data sets.
        kind : {"graded", "yes or no", "lexical"}, default "yes or no"
            Kind of the judge's answers.
        """
        search = get_adaptive_design(plan) if plan.design == Adaptive.name else None
        design = get_width_design(plan) if plan.design == FixedWidth.name else None
        has_blocks = bool((plan.block >= 0).any())
        max_blocks = count_blocks_per_item(plan) * plan.n_items
        n_paired = int((plan.trial_type == PAIRED).sum())
        self._plan = plan
        self.n_agents = plan.n_agents
        self.n_independent = len(plan) - n_paired - plan.n_self_trials
        self.max_regret = None if search is None else search.max_regret
        if self.max_regret is not None:
            self._set_search_forecast(self.max_regret, n_paired, prior_components(kind), plan)
        elif search is not None:
            n_paired = search.budget(plan.split.train)
        self.trials = 2 * n_paired / plan.n_agents

        # half-widths, only of plans in blocks without a search
        self.half_width: dict[float, ReferenceRange] = {}
        self.rate_share: float | None = None
        if has_blocks and search is None:
            self._set_half_widths(plan, components, kind)
        if components is None and 1.0 in self.half_width:
            self.rate_share = self._forecast_rate_share(plan, kind)

        # the reference data have the regret, ρ and recall of plans in blocks with fewer trials than all comparisons
        is_measured = has_blocks and self.trials < 2 * max_blocks
        self.regret: dict[float, RegretByAllocation] = {}
        if is_measured and self.max_regret is None:
            self._set_regret()

        # trials or items for a requested half-width
        self.requested_half_width: float | None = None
        self.trials_needed: TrialsNeeded | None = None
        self.items_needed: int | None = None
        if design is not None:
            self.requested_half_width = design.half_width
            self._set_trials_or_items_needed(design.half_width, plan, components, kind)
        has_forecast = is_measured and search is None
        self.rho = expected_rho(self.trials, kind) if has_forecast else None
        self.recall = expected_recall(self.trials, kind) if has_forecast else None
        self.domains = ", ".join(domain.name for domain in REFERENCE_DATA[kind])
        self.source = OWN_ANSWERS if components else f"{self.domains}, by {kind} answers; this run has no answers yet"

    def _set_half_widths(self, plan: Plan, components: AgentVariances | None, kind: AnswerKind) -> None:
        """Set `half_width`: forecasts of the half-width of intervals at half, one and two times the plan's trials.

        A multiple is left out if the items do not allow so many trials.

        components : variance components of the agents from the run's own answers; None to use reference data
        kind : kind of the judge's answers, which selects the reference data
        """
        max_blocks = count_blocks_per_item(plan) * plan.n_items
        for multiple in BUDGET_MULTIPLES:
            n_blocks = round(multiple * self.trials / 2)  # an agent has 2 trials in a block
            is_possible = 2 <= n_blocks <= max_blocks
            if is_possible and components is not None:
                widths_by_agent = half_widths(components, n_blocks, plan.n_items)
                self.half_width[multiple] = summarize_range(widths_by_agent.mean(keepdims=True))
            elif is_possible:
                # the reference data do not contain the variance of the estimated false-positive rates
                rate_variance = _forecast_rate_variance(plan, call_multiple=multiple)
                widths_by_data_set = _forecast_half_widths(
                    prior_components(kind), rate_variance, n_blocks, plan.n_items
                )
                reference_range = summarize_range(widths_by_data_set)
                self.half_width[multiple] = widen_half_widths(reference_range)

    def _forecast_rate_share(self, plan: Plan, kind: AnswerKind) -> float | None:
        """Forecast the share of the false-positive rates in the variance of an ability.

        The rates are assumed to be `ASSUMED_FPR`. The other variance components are taken from the reference data.

        kind : kind of the judge's answers, which selects the reference data

        Returns None if the plan has no independent trials of the role "pooled", from which the rates are estimated.
        """
        rate_variance = _forecast_rate_variance(plan, call_multiple=1.0)
        if not rate_variance:
            return None

        n_blocks = round(self.trials / 2)  # an agent has 2 trials in a block
        prior = prior_components(kind)
        widths = _forecast_half_widths(prior, rate_variance, n_blocks, plan.n_items)
        widths_without_rates = half_widths(prior, n_blocks, plan.n_items)

        # a variance is proportional to the square of the half-width
        rate_share = 1 - (widths_without_rates / widths) ** 2
        return float(rate_share.mean())

    def _set_regret(self) -> None:
        """Set `regret`, the expected regret at half, one and two times the plan's trials.

        The regret is the ability of the best agent minus that of the selected one. A multiple that is outside the range of the
        reference data is left out.
        """
        for multiple in BUDGET_MULTIPLES:
            uniform = expected_regret(multiple * self.trials, search=False)
            search = expected_regret(multiple * self.trials, search=True)
            if uniform is not None and search is not None:
                self.regret[multiple] = RegretByAllocation(uniform, search)

    def _set_trials_or_items_needed(
        self, half_width: float, plan: Plan, components: AgentVariances | None, kind: AnswerKind
    ) -> None:
        """Set `trials_needed`: the usual number of trials per agent that give a half-width, and its range.

        The usual number is for the mean variances of the reference data, and the range is for smaller and larger ones. With
        `components`, all three numbers are equal. If no number of trials on these items is enough, `items_needed` is set
        instead.

        half_width : half-width of the intervals that the fraction `HALF_WIDTH_FRACTION` of the agents must reach
        components : variance components of the agents from the run's own answers; None to use reference data
        kind : kind of the judge's answers, which selects the reference data
        """
        # `_list_forecast_cases` represents a reference data set by one agent, which must reach the half-width
        fraction = 1.0 if components is None else HALF_WIDTH_FRACTION
        cases = _list_forecast_cases(components, kind)

        count_trials = partial(_count_trials_needed, half_width=half_width, fraction=fraction, plan=plan)
        n_trials = count_trials(cases.usual)  # inf if no number is enough
        is_reached = np.isfinite(n_trials)
        if is_reached.any():
            mean = float(n_trials[is_reached].mean())
            low = float(count_trials(cases.narrow).min())
            high = float(count_trials(cases.wide).max())
            self.trials_needed = TrialsNeeded(low, mean, high if np.isfinite(high) else None)
            return

        find_items = partial(
            find_min_items, half_width=half_width, fraction=fraction, blocks_per_item=count_blocks_per_item(plan)
        )
        item_counts = [find_items(variances) for variances in cases.usual]
        known_counts = [n_items for n_items in item_counts if n_items is not None]
        self.items_needed = min(known_counts, default=None)

    def _set_search_forecast(
        self, max_regret: float, n_pilot_calls: int, components: AgentVariances, plan: Plan
    ) -> None:
        """Set the forecasts of a search for the best agents: `lowest_bound`, `search_items` and `search_calls`.

        The regret is how much worse the selected agents are than the best ones. The search stops when its upper confidence
        bound is at most `max_regret`.

        max_regret : maximum regret, at which the search stops
        n_pilot_calls : paired calls of the first round, which are enough if one agent is clearly the best
        components : variance components by reference data set, float arrays (n_data_sets,)
        plan : plan of the first round
        """
        data_sets = _split_by_data_set(components)
        smallest_bounds = np.array([min_regret_bound(data_set, plan.n_items) for data_set in data_sets])
        range_of_data_sets = summarize_range(smallest_bounds)
        self.lowest_bound = widen_half_widths(range_of_data_sets)  # a bound varies between pools as a half-width does

        # a regret bound is proportional to 1/√items, so four times as many items halve it
        bound_ratio = float(smallest_bounds.mean()) / max_regret
        self.search_items = ceil(plan.n_items * bound_ratio**2)

        max_calls = _forecast_max_search_calls(max_regret, components, plan)
        self.search_calls = (n_pilot_calls, max_calls)

    def count_calls(self, trials_per_agent: float) -> float:
        """Count the paired and independent calls if the plan is extended to `trials_per_agent` paired trials of each agent.

        The count includes the independent calls that the extension adds, except those of a free judge, which use no budget.
        """
        n_paired = self.n_agents * trials_per_agent / 2
        n_added = max(0, ceil(n_paired - self.n_agents * self.trials / 2))
        return n_paired + self.n_independent + count_added_calls(self._plan, n_added, n_scored=self.n_agents) - n_added

    @property
    def regret_bound(self) -> RegretByAllocation | None:
        """Upper confidence bound on the regret: how much worse the selected agent is than the best one.

        The bound is for the plan's own number of trials. It is None if `regret` has no forecast for this number.
        """
        has_forecast = 1.0 in self.regret  # the keys are multiples of the plan's trials
        uniform = expected_regret_bound(self.trials, search=False)
        search = expected_regret_bound(self.trials, search=True)
        if not has_forecast or uniform is None or search is None:
            return None
        return RegretByAllocation(uniform, search)

    @property
    def usual_half_width(self) -> str | None:
        """Half-width at the plan's own trials, as text; None without a forecast."""
        return _format_range(self.half_width[1.0]) if 1.0 in self.half_width else None

    def to_json(self) -> dict[str, Json]:
        """Return the forecast as a JSON object, for the output of `youden run --json`.

        The keys are names of attributes, and `reach`. `reach` is None for a plan without a maximum regret. For a search, it is
        the list [`max_regret`, `lowest_bound`, `search_items`, `search_calls`]. The keys of `half_width` are multiples of the
        plan's trials, such as "0.5".
        """
        attribute_names = (
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
        for name in attribute_names:
            attribute = getattr(self, name)
            if isinstance(attribute, ReferenceRange | TrialsNeeded):
                attribute = attribute._asdict()
            attributes[name] = attribute

        half_width: Json = {f"{multiple:g}": width._asdict() for multiple, width in self.half_width.items()}
        search_forecast: Json = None
        if self.max_regret is not None:
            search_forecast = [self.max_regret, list(self.lowest_bound), self.search_items, list(self.search_calls)]
        return {"trials": self.trials, "half_width": half_width, **attributes, "reach": search_forecast}


class _ForecastCases(NamedTuple):
    """Assumed variance components of abilities, for each of which a forecast is made.

    If the run has answers, all three lists have one entry, the components of all agents of the run. If not, they have one
    entry per reference data set. The half-widths that follow from `usual` are those of the data sets. Those of `narrow` are
    smaller and those of `wide` are larger, by the factor `WIDTH_FACTOR`.
    """

    narrow: list[AgentVariances]
    usual: list[AgentVariances]
    wide: list[AgentVariances]


def _list_forecast_cases(components: AgentVariances | None, kind: AnswerKind) -> _ForecastCases:
    """List variance components for forecasts of narrow, usual and wide intervals.

    components : variance components from the run's own answers, which are used for all three cases; None to use reference data
    kind : kind of the judge's answers, which selects the reference data
    """
    if components is not None:
        return _ForecastCases(narrow=[components], usual=[components], wide=[components])

    # one agent represents a data set: 90% of the agents have a half-width that is at most as large
    prior = components_at_quantile(HALF_WIDTH_FRACTION, kind)
    return _ForecastCases(
        narrow=_split_by_data_set(prior, width_factor=1 / WIDTH_FACTOR),
        usual=_split_by_data_set(prior),
        wide=_split_by_data_set(prior, width_factor=WIDTH_FACTOR),
    )


def _count_trials_needed(cases: Sequence[AgentVariances], *, half_width: float, fraction: float, plan: Plan) -> Floats:
    """Forecast how many trials per agent give the requested half-width of intervals.

    There is one forecast per case, that is, per set of assumed variance components.

    cases : variance components of one or more agents, by case
    half_width : requested half-width of the intervals
    fraction : fraction of the agents of a case whose interval must reach the half-width
    plan : plan whose numbers of agents and of items are used

    Returns a float array (n_cases,); ∞ if no number of trials on these items is enough.
    """
    max_blocks = count_blocks_per_item(plan) * plan.n_items
    trial_counts = []
    for components in cases:
        n_blocks = find_min_blocks(
            components, half_width, fraction=fraction, n_items=plan.n_items, max_blocks=max_blocks
        )
        trial_counts.append(np.inf if n_blocks is None else 2 * n_blocks)  # an agent has 2 trials in a block
    return np.array(trial_counts)


def _forecast_max_search_calls(max_regret: float, components: AgentVariances, plan: Plan) -> int | None:
    """Forecast the largest number of paired calls that a search for the best agents may take.

    In the assumed worst case, all agents are equally good. Their half-widths exceed those of the reference data sets by the
    factor `WIDTH_FACTOR`.

    max_regret : maximum regret, at which the search stops
    components : variance components by reference data set, float arrays (n_data_sets,)
    plan : plan of the first round

    Returns None if all comparisons on these items are not enough.
    """
    half_width = half_width_for_regret(max_regret, plan.n_agents)
    wide_cases = _split_by_data_set(components, width_factor=WIDTH_FACTOR)
    trials_per_agent = _count_trials_needed(wide_cases, half_width=half_width, fraction=1.0, plan=plan)
    if not np.isfinite(trials_per_agent).all():
        return None
    return int(trials_per_agent.max() / 2 * plan.n_agents)  # a call is a trial of two agents


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


def _forecast_rate_variance(plan: Plan, *, call_multiple: float) -> float:
    """Forecast the variance that the estimated false-positive rates add to an ability.

    The rates are estimated from the independent trials of the role "pooled". Such a trial compares responses of two random
    agents to two different items, and counts for both agents.

    call_multiple : number of calls, as a multiple of those of the plan

    Returns 0 for fewer than 3 agents, and for a plan without independent trials of this role.
    """
    n_pooled = float((plan.role == POOLED).sum())
    if has_default_independent_count(plan):  # otherwise, the user set the number, which more calls do not change
        n_pooled *= call_multiple
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


def read_variance_components(folder: RunFolder, *, separate_rates: bool = False) -> AgentVariances | None:
    """Estimate the variance components of abilities from the answers in a run's folder.

    Parameters
    ----------
    folder : RunFolder
        Folder of the run.
    separate_rates : bool, default False
        Whether the variance due to estimated false-positive rates is always the constant component. By default, it is part of the
        residual component if extensions of the run add independent trials.

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
    if not folder.has("verdicts.parquet") or not folder.has("plan.parquet"):
        return None
    plan = folder.read_plan()
    was_extended = bool(get_extensions(plan).steps)
    if plan.question != "information" or was_extended or not is_balanced(plan):
        return None
    if plan.digest != folder.read_judged_plan_digest():
        return None
    with suppress(StatisticsError):  # the answers may not determine the abilities
        return estimate_variance_components(folder.read_verdicts(plan), separate_rates=separate_rates)
    return None


def check_width_attainable(plan: Plan) -> None:
    """Raise PlanError [width-items] if a plan has too few items for the requested half-width of its intervals.

    The check is optimistic. It assumes that the score of an agent varies little between items: half of the smallest agent ×
    item variance in the reference data sets. It assumes no other variance.
    """
    half_width = get_width_design(plan).half_width
    smallest_variance = min(data_set.agent_item for data_set in REFERENCE_DATA["graded"])
    assumed_variances = AgentVariances(agent_item=np.array([smallest_variance / 2]), residual=np.zeros(1))
    all_agents = 1.0  # fraction of the agents that must reach the half-width; the variances are of one agent
    n_blocks = find_min_blocks(
        assumed_variances, half_width, fraction=all_agents, n_items=plan.n_items, max_blocks=plan.n_items
    )
    if n_blocks is not None:
        return

    n_items = find_min_items(
        assumed_variances, half_width, fraction=all_agents, blocks_per_item=count_blocks_per_item(plan)
    )
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
        Sentences on the topics that the forecast covers: the trials per agent and their half-width, the share of the variance
        due to the false-positive rates, the calls that a requested half-width or maximum regret takes, ρ and recall, the
        expected regret, and the source of the forecast with its limits.
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
    regret_by_multiple: dict[float, RegretByAllocation], bound: RegretByAllocation
) -> Iterator[str]:
    """Yield a note on the regret if all agents are sampled equally, and one on the regret of a search.

    The regret is the ability of the best agent minus that of the selected one. The regret bound is its upper confidence bound.
    The notes state both per 100 comparisons, so a regret of 0.04 is stated as 4.

    regret_by_multiple : expected regret at multiples of the plan's trials; the key 1.0 is for the plan itself
    bound : regret bound at the plan's own number of trials
    """
    regret = regret_by_multiple[1.0]
    at_other_sizes = _format_regret_at_other_sizes(regret_by_multiple)
    yield (
        f"all agents sampled equally: on reference data, the agent that ranks first is on average "
        f"{_format_of_100(regret.uniform)} of 100 comparisons behind the best{at_other_sizes}; the regret "
        f"bound is {_format_of_100(bound.uniform)}, and all intervals are about equally wide"
    )

    regret_effect = "does not lower this regret:"
    if regret.search.mean < regret.uniform.mean:
        regret_effect = "lowers this regret to"
    bound_effect = "does not raise the bound:"
    if bound.search.mean > bound.uniform.mean:
        bound_effect = "raises the bound to"
    yield (
        f"a search (`top: 1`) with equally many calls {regret_effect} {_format_of_100(regret.search)} and "
        f"{bound_effect} {_format_of_100(bound.search)}; its bound holds over all interim analyses, and intervals of "
        "eliminated agents are wider"
    )


def _format_regret_at_other_sizes(regret_by_multiple: dict[float, RegretByAllocation]) -> str:
    """Format the expected regret at half and at twice the calls of a plan, in parentheses.

    The regret is the ability of the best agent minus that of the selected one. It is stated per 100 comparisons. All agents are
    assumed to be sampled equally.

    regret_by_multiple : expected regret at multiples of the plan's trials, 0.5 and 2.0 among them if they are known

    Returns an empty string if the regret is unknown at both multiples.
    """
    phrases = []
    for multiple, label in ((0.5, "half the calls"), (2.0, "twice the calls")):
        if multiple in regret_by_multiple:
            mean_regret = regret_by_multiple[multiple].uniform.mean
            phrases.append(f"{100 * mean_regret:.1f} with {label}")
    return f" ({', '.join(phrases)})" if phrases else ""


def _format_of_100(regret: ReferenceRange) -> str:
    """Format a regret, a difference of abilities, as a number of 100 comparisons: the mean, with the range in parentheses."""
    low, mean, high = (100 * bound for bound in regret)
    return _format_mean_and_range(ReferenceRange(low, mean, high), digits=1)


def _format_search(forecast: PrecisionForecast, max_regret: float, usd_per_call: float | None) -> Iterator[str]:
    """Yield sentences about the calls that a search for the best agent takes until it stops.

    The regret is how much worse the selected agent is than the best one. The search stops when its upper confidence bound is at
    most `max_regret`. If the items may be too few for that, the first sentence states how many items suffice.

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

    min_calls, max_calls = forecast.search_calls
    calls_if_one_is_best = f"{min_calls:,} paired calls{format_cost(min_calls, usd_per_call)}"
    calls_if_equal = "more than all comparisons"
    if max_calls is not None:
        calls_if_equal = f"{max_calls:,}{format_cost(max_calls, usd_per_call)}"
    yield (
        f"a regret bound of {max_regret:g} takes {calls_if_one_is_best} if one agent is clearly the best, and "
        f"{calls_if_equal} if all are equally good"
    )


def format_cost(n_calls: float, usd_per_call: float | None) -> str:
    """Format the cost of calls after a comma; empty if it is unknown or 0."""
    return f", ${usd_per_call * n_calls:,.2f}" if usd_per_call and n_calls else ""


def _format_trials_needed(forecast: PrecisionForecast, half_width: float, usd_per_call: float | None) -> str:
    """Format how many trials and calls give the requested half-width, with their cost.

    The result is a sentence. If no number of trials on these items is enough, the sentence states how many items are needed, if
    that is known.

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
    """Format the range of the trials and calls that give a half-width, with their cost.

    The result is the end of a sentence. It has one number instead of a range if the forecast is from the run's own answers. It
    has only the smallest number if the half-width may not be reached on these items.

    forecast : forecast of the plan, which converts trials per agent into calls
    needed : trials per agent that give the half-width
    usd_per_call : cost of a call in USD; None if it is unknown
    """
    min_calls = forecast.count_calls(needed.low)
    min_cost = format_cost(min_calls, usd_per_call)  # starts with a comma, or is empty
    calls_and_cost = f"{min_calls:,.0f} calls{min_cost}"
    if needed.high is None:
        return f"takes at least {needed.low:,.0f} trials per agent, {calls_and_cost}, or is not reached on these items"
    if needed.high - needed.low < 1:
        return f"takes about {needed.mean:,.0f} trials per agent, {calls_and_cost}"

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
