"""Estimate the difference between two agents of a run, and forecast how more calls would narrow its interval.

The same estimates serve the gate and the A/A test.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.engines.trial_blocks import TrialsByItem
from youden.judging.backend_records import JURY, REPLAY
from youden.judging.config.judge_files import load_judge_config
from youden.judging.estimate import estimate_by_characters
from youden.pipeline.abilities import Abilities, estimate_rates
from youden.pipeline.additive_abilities import fit_cells, fit_rates, pair_answers
from youden.pipeline.fitted_run import check_fit
from youden.pipeline.multi_judge import is_training_answer
from youden.pipeline.preference_abilities import collect_preferences
from youden.pipeline.ranking import trial_abilities_from_verdicts
from youden.pipeline.self_consistency import METHOD, estimate_from_self_trials
from youden.protocol.blocks import (
    count_blocks_per_item,
    get_extensions,
    has_blocks_in_first_plan,
)
from youden.protocol.pooled_trials import (
    adds_independent,
    count_independent_for_paired,
    has_default_independent_count,
    has_free_calls,
)
from youden.run_keys import Target
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.additive.trial_fit import fit_additive_trials
from youden.stats.base.clusters import ROUNDING
from youden.stats.base.pair_chunks import ChunkSource, InfluenceChunk
from youden.stats.trials.agent_rates import AgentRates
from youden.stats.trials.noninferiority import ConservativeDifference, estimate_difference
from youden.stats.trials.preferences import PreferenceFit, fit_preferences
from youden.stats.trials.replication import SelfConsistency
from youden.stats.trials.trial_errors import (
    InfluenceTable,
    RemainingVariance,
    compute_item_influence,
    remaining_variance,
)
from youden.study.replaying import read_usd_per_call
from youden.types import INDEPENDENT, PAIRED, Plan, Scores, Verdicts
from youden.types.pool import Bools, Floats, Positions
from youden.types.results import Rates

BY_TRIALS = "means of trials, residuals summed by item, events not seen yet allowed for, Student t"
BY_FIT = "abilities fitted to trials, residuals summed by item, events not seen yet allowed for, Student t"
UNLINKED = ConservativeDifference(math.nan, math.nan, 0, math.nan, math.nan)
"""Difference of two agents that cannot be compared."""
_MAX_FORECASTS = 4000


class DifferenceForecast(NamedTuple):
    """Difference of two abilities, and what is left of its variance after more calls.

    Attributes
    ----------
    difference : ConservativeDifference
        Current estimate; its variance is NaN if the answers do not allow a comparison.
    calls : int array (n_forecasts,)
        Numbers of additional calls, ascending, up to all that are possible.
    remaining : RemainingVariance
        Shares of the item variance and of the noise that remain after these calls, float arrays (n_forecasts,).
    n_items : int array (n_forecasts,)
        Number of items that the two agents have then been compared on.
    """

    difference: ConservativeDifference
    calls: Positions
    remaining: RemainingVariance
    n_items: Positions


Forecaster = Callable[[int, int], DifferenceForecast]
"""Function that takes the positions of a new and an old agent, and returns the estimate of their difference, new − old, with
the variance that more calls would leave."""


class QualityDifference(NamedTuple):
    """Difference of two qualities with its interval, in the unit of the labels, and the number of labels of both."""

    value: float
    low: float
    high: float
    n_labels: int


@dataclass(frozen=True, eq=False)
class GateAnswers:
    """Answers of a run, as a gate uses them.

    Attributes
    ----------
    agent_ids : tuple of str
        Ids of the agents.
    n_items : int
        Number of items.
    is_judged : bool array (n_agents,)
        Whether a comparison of the agent has an answer.
    forecast : callable
        Forecasts the difference new − old from the positions of two agents.
    method : str
        Method of the estimates, for display.
    digest : str
        SHA-256 (hex) of the answers.
    signature : str
        Signature of the run.
    n_calls : int or None
        Calls of the run; None if it was imported.
    is_extendable : bool
        Whether more calls are an extension of the run, not a new run with a larger budget.
    usd_per_call : float or None
        Price of a call in USD; None if it is unknown.
    n_independent : int, default 0
        Number of independent trials of the run; 0 if an extension by calls cannot add more.
    quality : callable, optional
        Takes the ids of an agent and of the baseline and a confidence level, and returns a `QualityDifference`. None if the gate
        compares ability.
    """

    agent_ids: tuple[str, ...]
    n_items: int
    is_judged: Bools
    forecast: Forecaster
    method: str
    digest: str
    signature: str
    n_calls: int | None
    is_extendable: bool
    usd_per_call: float | None
    n_independent: int = 0
    quality: Callable[[str, str, float], QualityDifference] | None = None


def read_answers(folder: RunFolder, *, target: Target = "items-like-these") -> GateAnswers:
    """Read the answers of a run for a gate.

    Parameters
    ----------
    folder : RunFolder
        A judged and fitted run, or an imported one.
    target : {"items-like-these", "these-items"}, default "items-like-these"
        Population for which the intervals hold: more items like those of the run, or its items alone.

    Returns
    -------
    GateAnswers
        The answers, with a function that compares two agents.

    Raises
    ------
    RunFolderError
        [run-unjudged], [run-partial]: if the run is not judged to its end; [fit-stale]: if it was judged again since it was
        fitted; other slugs if it is not fitted.
    """
    if folder.has("plan.parquet") or folder.has("verdicts.parquet"):
        return _read_judged_answers(folder, target)
    return _read_imported_answers(folder, target)


def _read_judged_answers(folder: RunFolder, target: Target) -> GateAnswers:
    """Read the answers of a judge to the trials of a run.

    The intervals hold for the population `target` of items and judges.
    """
    folder.check_judged()
    check_fit(folder)
    plan = folder.read_plan()
    verdicts = folder.read_verdicts(plan)
    abilities = trial_abilities_from_verdicts(
        verdicts, target=target
    )  # None if `make_forecaster` fits the additive model
    is_fitted = abilities is None or plan.question == "preference"

    is_answered_comparison = (plan.trial_type == PAIRED) & verdicts.answered
    compared_agents = np.append(plan.first[is_answered_comparison], plan.second[is_answered_comparison])
    n_comparisons = np.bincount(compared_agents, minlength=plan.n_agents)
    answer_bytes = np.ascontiguousarray(verdicts.answer).tobytes()

    # only a run with blocks and pooled independent trials can be extended by more independent trials
    can_add_independent = plan.independent == "pooled" and plan.rounds is None and has_blocks_in_first_plan(plan)
    n_independent = int((plan.trial_type == INDEPENDENT).sum())
    return GateAnswers(
        agent_ids=plan.agent_ids,
        n_items=plan.n_items,
        is_judged=n_comparisons > 0,
        forecast=make_forecaster(verdicts, abilities, target=target),
        method=METHOD if plan.is_self_plan else _describe_method(is_fitted=is_fitted, target=target),
        digest=hashlib.sha256(plan.digest.encode() + answer_bytes).hexdigest(),
        signature=folder.read_signature().text,
        n_calls=len(plan),
        is_extendable=_is_extendable(plan),
        usd_per_call=_estimate_usd_per_call(folder, plan),
        n_independent=n_independent if can_add_independent else 0,
    )


def _read_imported_answers(folder: RunFolder, target: Target) -> GateAnswers:
    """Read the answers of an imported run, which has rates of pairs of agents but no plan, so no calls can be added."""
    rates = folder.read_rates()
    compared_agents = np.append(rates.first, rates.second)
    return GateAnswers(
        agent_ids=rates.agent_ids,
        n_items=rates.n_items,
        is_judged=np.bincount(compared_agents, minlength=rates.n_agents) > 0,
        forecast=_make_additive_forecaster(rates, None, target),
        method=_describe_method(is_fitted=True, target=target),
        digest=rates.digest,
        signature=folder.read_signature().text,
        n_calls=None,
        is_extendable=False,
        usd_per_call=None,
    )


def _is_extendable(plan: Plan) -> bool:
    """Return whether calls can be added to a plan: it has no rounds, and has blocks at first or was extended."""
    is_extended = bool(get_extensions(plan).steps)
    return plan.rounds is None and (has_blocks_in_first_plan(plan) or is_extended)


def make_forecaster(
    verdicts: Verdicts, abilities: Abilities | None, *, target: Target = "items-like-these"
) -> Forecaster:
    """Return a function that forecasts the difference of two agents after more calls.

    The function estimates the difference, and forecasts its variance. The estimate is the same as in the ranking of the run. The
    first method that applies is used:

    - the additive model if `abilities` is None,
    - the self-consistency of the agents if each trial compares two responses of one agent,
    - the fit of the preferences if the judge states preferences,
    - means of trials in all other cases.

    Parameters
    ----------
    verdicts : Verdicts
        Answers of the run.
    abilities : Abilities or None
        Result of `trial_abilities_from_verdicts`, which is None if means of trials do not estimate the abilities.
    target : {"items-like-these", "these-items"}, default "items-like-these"
        Population for which the intervals hold: more items like those of the run, or its items alone.

    Returns
    -------
    callable
        Takes the positions of the new and the old agent, and returns a `DifferenceForecast` of new minus old. It has the
        estimated `difference`, several numbers of additional `calls`, and the share of the variance that remains after each
        number. The calls are added on the two agents, or on all agents if the plan has no blocks; for self-consistency, nothing
        is forecast. The variance of the difference is NaN if the answers do not link the two agents.
    """
    plan = verdicts.plan
    if abilities is None:
        has_rates_of_agents = plan.independent == "pooled"
        agent_rates = estimate_rates(TrialsByItem.from_verdicts(verdicts), target) if has_rates_of_agents else None
        return _make_additive_forecaster(verdicts.rates(), plan, target, agent_rates)
    if plan.is_self_plan:
        return partial(_forecast_self_consistency, estimate_from_self_trials(TrialsByItem.from_verdicts(verdicts)))
    if plan.question == "preference":
        return _make_preference_forecaster(verdicts, abilities)

    forecast_for_similar_items = _make_trial_forecaster(verdicts, abilities)
    if target == "items-like-these":
        return forecast_for_similar_items
    return partial(_forecast_on_these_items, abilities, forecast_for_similar_items)


def _difference_variance(covariance: Floats, new_agent: int, old_agent: int) -> float:
    """Compute Var(θ_new − θ_old) from the covariance matrix of abilities, float array (n_agents, n_agents)."""
    return float(
        covariance[new_agent, new_agent] + covariance[old_agent, old_agent] - 2 * covariance[new_agent, old_agent]
    )


def _make_preference_forecaster(verdicts: Verdicts, abilities: Abilities) -> Forecaster:
    """Return a forecaster of differences of abilities that are estimated from preferences."""
    plan = verdicts.plan
    answers = collect_preferences(TrialsByItem.from_verdicts(verdicts))
    fit = fit_preferences(*answers, n_agents=plan.n_agents)
    influence = _collect_influence(fit.influence_chunks(), abilities.ability, fit.n_trials.astype(np.float64))
    forecast_by_influence = _make_influence_forecaster((influence,), plan)
    return partial(_forecast_by_preferences, fit, forecast_by_influence)


def _forecast_by_preferences(
    fit: PreferenceFit, forecast_by_influence: Forecaster, new_agent: int, old_agent: int
) -> DifferenceForecast:
    """Forecast the difference of two agents, new minus old, that a judge compared by preferences.

    The variance is the larger of two estimates: the one from the influence of the items, and that of the ranking. It is NaN if no
    chain of comparisons links the two agents. `min_items`, which decides whether there is an interval, is at most the effective
    number of items of each agent: the number of equally weighted items with the same information.

    fit : fit of the preferences, from which the ranking is computed
    forecast_by_influence : function that forecasts the difference from the influence of each item
    new_agent, old_agent : positions of the agents
    """
    forecast = forecast_by_influence(new_agent, old_agent)
    difference = forecast.difference
    are_linked = fit.component[new_agent] == fit.component[old_agent]
    if not are_linked:
        return forecast._replace(difference=difference._replace(variance=math.nan))

    # NaN for an agent with too few effective items; there is then no interval, whatever the variance is
    ranking_variance = np.nan_to_num(_difference_variance(fit.covariance.covariance, new_agent, old_agent))
    variance = np.maximum(difference.variance, ranking_variance).item()
    n_effective_items = float(fit.n_effective_items[[new_agent, old_agent]].min())
    min_items = min(difference.min_items, int(n_effective_items + ROUNDING))
    return forecast._replace(difference=difference._replace(variance=variance, min_items=min_items))


def _forecast_self_consistency(self_consistency: SelfConsistency, new_agent: int, old_agent: int) -> DifferenceForecast:
    """Estimate the difference in self-consistency of two agents, new minus old, for a plan of self-trials.

    A self-trial compares two responses of one agent. More calls on the same items would add no information about the
    self-consistency. The result therefore contains the current estimate only: its arrays, which have one element per
    number of additional calls, have length 0.

    self_consistency : self-consistency of each agent, with the covariance matrix
    new_agent, old_agent : positions of the new agent and of the agent with which it is compared
    """
    covariance = self_consistency.covariance
    items_per_agent = self_consistency.n_items[[new_agent, old_agent]]
    n_items = int(items_per_agent.max())
    difference = ConservativeDifference(
        value=float(self_consistency.value[new_agent] - self_consistency.value[old_agent]),
        variance=_difference_variance(covariance.covariance, new_agent, old_agent),
        n_items=n_items,
        n_effective_items=float(n_items),
        unseen_effect_square=0.0,  # the covariance already contains it
        min_items=int(items_per_agent.min()),
        max_df=float(covariance.df[[new_agent, old_agent]].min()),
    )

    no_numbers: Positions = np.empty(0, dtype=np.int64)
    no_factors: Floats = np.empty(0)
    remaining = RemainingVariance(agent_item=no_factors, residual=no_factors)
    return DifferenceForecast(difference, calls=no_numbers, remaining=remaining, n_items=no_numbers)


def _describe_method(*, is_fitted: bool, target: Target) -> str:
    """Describe in one line how differences and their standard errors are estimated."""
    method = BY_FIT if is_fitted else BY_TRIALS
    if target == "items-like-these":
        return method
    return f"{method.split(',')[0]}, errors as in the ranking, Student t"


def _forecast_on_these_items(
    abilities: Abilities, forecast_for_similar_items: Forecaster, new_agent: int, old_agent: int
) -> DifferenceForecast:
    """Forecast the difference of two agents, new minus old, on exactly the items of the run.

    The estimate is the same as for a larger population of similar items. Only the variance differs, because the choice of the
    items causes no error. All of it is residual variance, which more calls reduce.

    abilities : abilities, with their covariance on these items
    forecast_for_similar_items : function that forecasts the difference for the larger population
    new_agent, old_agent : positions of the agents
    """
    forecast = forecast_for_similar_items(new_agent, old_agent)

    # the covariance matrix also contains the variance of the false-positive rates, which `difference` has separately
    total_variance = _difference_variance(abilities.covariance.covariance, new_agent, old_agent)
    variance = max(total_variance - forecast.difference.rate_variance, 0.0)
    difference = forecast.difference._replace(variance=variance, residual_variance=variance, unseen_effect_square=0.0)

    residual_factor = forecast.remaining.residual
    remaining = RemainingVariance(agent_item=residual_factor, residual=residual_factor)
    return forecast._replace(difference=difference, remaining=remaining)


def _make_trial_forecaster(verdicts: Verdicts, abilities: Abilities) -> Forecaster:
    """Return a function that forecasts differences between agents whose abilities are means of trials.

    verdicts : answers to a plan with blocks; a block has trials on one item, two of each agent
    abilities : abilities that were estimated from these answers
    """
    plan = verdicts.plan
    extensions = get_extensions(plan)
    is_answered_in_block = (plan.block >= 0) & verdicts.answered
    is_used = is_training_answer(verdicts) if extensions.steps else is_answered_in_block
    influence = compute_item_influence(
        plan.first[is_used],
        plan.second[is_used],
        plan.item[is_used],
        verdicts.answer[is_used],
        ability=abilities.mean_answer,
        first_weight=plan.trials.weight_first[is_used],
        second_weight=plan.trials.weight_second[is_used],
        n_items=plan.n_items,
    )
    blocks_per_agent = influence.n_trials.sum(axis=1) / 2  # an agent has two trials per block

    # An item has one block per cyclic shift s of the n agents of the first plan: a block compares each agent with the agent s
    # positions ahead, with s from 1 to n − 1. If pairs are unordered, the shifts s and n − s are the same block.
    n_shifts = extensions.anchors - 1
    if plan.options.get("pairs") == "unordered":
        n_shifts //= 2
    max_blocks = plan.n_items * n_shifts
    return _TrialForecaster(plan, abilities.rates, influence, blocks_per_agent, max_blocks)


@dataclass(frozen=True)
class _TrialForecaster:
    """Forecaster of the difference of two agents that is estimated by means of trials.

    Further calls are added in blocks. In a block, each of the two agents is compared on one item, once as the first and
    once as the second text.

    Attributes
    ----------
    plan : Plan
        Plan of the run.
    rates : AgentRates
        False-positive rates, which are subtracted.
    influence : InfluenceTable
        Influence of the items on the mean answer of each agent.
    blocks_per_agent : float array (n_agents,)
        Number of blocks in which each agent has answers.
    max_blocks : int
        Largest number of blocks that two agents can have.
    """

    plan: Plan
    rates: AgentRates
    influence: InfluenceTable
    blocks_per_agent: Floats
    max_blocks: int

    def __call__(self, new_agent: int, old_agent: int) -> DifferenceForecast:
        """Forecast the difference of the agents at two positions, new minus old, for larger numbers of blocks."""
        difference = estimate_difference(self.influence, new_agent, old_agent)
        difference = difference.with_rates(self.rates, new_agent, old_agent, improve=adds_independent(self.plan))

        # calls of the blocks that are added, and the share of the variance that remains with them
        n_blocks = max(1, round(float(self.blocks_per_agent[[new_agent, old_agent]].mean())))
        later_blocks = _list_larger_numbers(n_blocks, self.max_blocks)
        calls = count_calls_of_blocks(self.plan, later_blocks - n_blocks)
        remaining = remaining_variance(later_blocks, n_current=n_blocks, n_items=self.plan.n_items)
        n_items = np.minimum(later_blocks, self.plan.n_items)
        return DifferenceForecast(difference, calls, remaining, n_items)


def count_calls_of_blocks(plan: Plan, n_blocks: Positions) -> Positions:
    """Count the calls that are needed to extend a plan by blocks of two agents.

    A block has four paired trials on one item: each of the two agents is compared with two other agents, once as the
    first text and once as the second. Independent trials are added to the paired ones:

    - matched: one for each paired trial;
    - pooled: by default 7 to 10% of the calls. None if the user set their number in the whole run, or if calls cost nothing.

    Parameters
    ----------
    plan : Plan
        Plan to extend.
    n_blocks : int array (n,)
        Numbers of blocks.

    Returns
    -------
    int array (n,)
        Paired and independent calls together, for each number of blocks.
    """
    n_paired = 4 * n_blocks
    if plan.independent == "matched":
        return 2 * n_paired  # one independent trial per paired one
    if has_free_calls(plan) or not has_default_independent_count(plan):
        return n_paired
    n_independent = [count_independent_for_paired(n, 2, is_first=False) for n in n_paired.tolist()]
    return n_paired + np.array(n_independent, dtype=np.int64)


def _make_additive_forecaster(
    rates: Rates, plan: Plan | None, target: Target, agent_rates: AgentRates | None = None
) -> Forecaster:
    """Return a function that forecasts differences between agents whose abilities are estimated by the additive model.

    The model is fitted to the answers to paired trials. If these do not determine all abilities, it is fitted to the scores of
    agents on items instead. Variances are computed from the influence of each item on each ability.

    rates : rates of yes answers by ordered pair of agents and item
    plan : plan of the run; None if no calls can be added
    target : "these-items" if the intervals hold for exactly the items of the run, otherwise more items like them
    agent_rates : false-positive rates of single agents; None if each pair has its own rate, or all share one rate
    """
    answers = pair_answers(rates)
    influence_tables = compute_trial_influence(answers, n_agents=rates.n_agents, n_items=rates.n_items)
    if not influence_tables:
        scores, model = fit_cells(rates.training_scores())
        influence_tables = compute_cell_influence(scores, model)

    forecast_for_similar_items = _make_influence_forecaster(influence_tables, plan, agent_rates)
    if target != "these-items":
        return forecast_for_similar_items

    abilities = fit_rates(rates, target=target, agent_rates=agent_rates)
    if agent_rates is not None:
        abilities = abilities.with_rates_subtracted()
    return partial(_forecast_on_these_items, abilities, forecast_for_similar_items)


def _make_influence_forecaster(
    influence_tables: tuple[InfluenceTable, ...], plan: Plan | None, agent_rates: AgentRates | None = None
) -> Forecaster:
    """Return a function that forecasts differences from the influence of each item on the abilities.

    Further calls are blocks of trials of the two compared agents or, if the plan has no blocks, paired trials of all agents. The
    variance of a difference is inversely proportional to the number of blocks or trials.

    influence_tables : influence of the items on abilities, one table per set of agents that a chain of comparisons links
    plan : plan of the run; None if no calls can be added
    agent_rates : false-positive rates to subtract from the abilities; None to subtract nothing
    """
    if plan is None:
        no_calls: Positions = np.empty(0, dtype=np.int64)
        no_factors: Floats = np.empty(0)
        return _InfluenceForecaster(
            influence_tables, agent_rates, rates_improve=True, calls=no_calls, remaining_factor=no_factors
        )

    n_current, n_possible = _count_blocks_or_trials(plan)
    later_numbers = _list_larger_numbers(n_current, n_possible)
    return _InfluenceForecaster(
        influence_tables,
        agent_rates,
        rates_improve=adds_independent(plan),
        calls=_count_calls_to_add(plan, later_numbers - n_current),
        remaining_factor=n_current / later_numbers,
    )


@dataclass(frozen=True)
class _InfluenceForecaster:
    """Forecaster of the difference of two agents whose variance follows from the influence of the items.

    Attributes
    ----------
    influence_tables : tuple of InfluenceTable
        Influence of the items on abilities, one table per set of agents that are linked by answers.
    agent_rates : AgentRates or None
        False-positive rates, which are subtracted; None to subtract nothing.
    rates_improve : bool
        Whether more calls reduce the variance of these rates.
    calls : int array (n_forecasts,)
        Numbers of additional calls to forecast, ascending.
    remaining_factor : float array (n_forecasts,)
        Factor from the present variance to that with these additional calls.
    """

    influence_tables: tuple[InfluenceTable, ...]
    agent_rates: AgentRates | None
    rates_improve: bool
    calls: Positions
    remaining_factor: Floats

    def __call__(self, new_agent: int, old_agent: int) -> DifferenceForecast:
        """Forecast the difference of the agents at two positions, new minus old, for larger numbers of calls."""
        difference = _estimate_linked_difference(self.influence_tables, new_agent, old_agent)
        if self.agent_rates is not None:
            difference = difference.with_rates(self.agent_rates, new_agent, old_agent, improve=self.rates_improve)
        remaining = RemainingVariance(agent_item=self.remaining_factor, residual=self.remaining_factor)
        n_items = np.full(len(self.calls), difference.n_items)
        return DifferenceForecast(difference, self.calls, remaining, n_items)


def _estimate_linked_difference(
    tables: tuple[InfluenceTable, ...], new_agent: int, old_agent: int
) -> ConservativeDifference:
    """Estimate the difference of two agents from the table that contains both; `UNLINKED` if none does."""
    for influence in tables:
        contains_both = not np.isnan(influence.ability[[new_agent, old_agent]]).any()
        if contains_both:
            return estimate_difference(influence, new_agent, old_agent)
    return UNLINKED


def _count_blocks_or_trials(plan: Plan) -> tuple[int, int]:
    """Return how many blocks a plan has, and how many are possible on its items.

    A block has as many paired trials as there are agents. For a plan without blocks, both numbers are of paired trials.
    """
    n_paired = int((plan.trial_type == PAIRED).sum())
    if has_blocks_in_first_plan(plan):
        n_blocks = max(1, round(n_paired / plan.n_agents))
        return n_blocks, count_blocks_per_item(plan) * plan.n_items

    # all ordered pairs of responses to the same item
    n_responses = (plan.split.train | plan.split.holdout).sum(axis=0, dtype=np.int64)
    max_paired = int((n_responses * (n_responses - 1)).sum())
    return n_paired, max_paired


def _count_calls_to_add(plan: Plan, n_added: Positions) -> Positions:
    """Count the calls that extend a plan by a number of blocks of two agents.

    Paired and independent calls are counted together.

    n_added : int array (n,), numbers of added blocks; numbers of added paired trials if the plan has no blocks

    Returns an int array (n,).
    """
    if has_blocks_in_first_plan(plan):
        return count_calls_of_blocks(plan, n_added)
    if plan.independent == "matched":
        return 2 * n_added  # one independent trial per paired trial
    return n_added


def compute_trial_influence(answers: ChunkSource, *, n_agents: int, n_items: int) -> tuple[InfluenceTable, ...]:
    """Compute the influence of each item on abilities that are fitted to the answers of trials.

    The model predicts an answer by the sum of the effects of both agents and of the item.

    Parameters
    ----------
    answers : callable
        Function without arguments. Each call returns an iterable over all paired answers, as one `PairChunk` per set of
        consecutive items.
    n_agents, n_items : int
        Numbers of agents and items.

    Returns
    -------
    tuple of InfluenceTable
        One table, or an empty tuple if the trials do not determine all abilities. The table has the fitted `ability`
        (n_agents,), and the arrays `influence`, `weight` (share of the item in the agent's trials) and `n_trials` (n_agents,
        n_items). The influence of an item on an ability is the change of the ability by the residuals of the agent's trials on
        the item. The variance of an ability is the sum of the squared influences.
    """
    fit = fit_additive_trials(answers, n_agents=n_agents, n_items=n_items)
    if fit is None:
        return ()
    influence = _collect_influence(fit.influence_chunks(), fit.ability, fit.weight)
    return (influence,)


def _collect_influence(chunks: Iterator[InfluenceChunk], ability: Floats, weight: Floats) -> InfluenceTable:
    """Collect the influence of the items on fitted abilities in one table.

    ability, weight : float arrays (n_agents,), abilities and total weights of the agents' trials
    """
    by_item, _, weight_by_item = (np.concatenate(tables, axis=1) for tables in zip(*chunks, strict=True))
    share = weight_by_item / np.maximum(weight, np.finfo(np.float64).tiny)[:, None]
    return InfluenceTable(ability, by_item, share, weight_by_item, np.full(len(ability), np.nan))


def compute_cell_influence(scores: Scores, model: ClippedLinear) -> tuple[InfluenceTable, ...]:
    """Compute the influence of each item on abilities that were fitted to scores.

    The influence of an item on an ability is the amount by which the residual of the agent on this item changes the ability.
    The sum of the squared influences of all items is the variance of the ability.

    Parameters
    ----------
    scores : Scores
        Scores of agents on items.
    model : ClippedLinear
        Model that was fitted to `scores`.

    Returns
    -------
    tuple of InfluenceTable
        One table per set of agents that are linked by shared items; abilities of other agents are NaN. The variance within
        items is NaN for all agents, because scores do not contain single trials.
    """
    n_agents = len(scores.agent_ids)
    n_trials_by_cell = scores.weight  # number of answered paired trials of each agent on each item
    tables = []
    for component in model.item_influence():  # one per set of linked agents
        is_used = component.share > 0
        n_trials = np.where(is_used, n_trials_by_cell[component.agents], 0.0)
        extend = partial(_extend_to_all_agents, agents=component.agents, n_agents=n_agents)
        table = InfluenceTable(
            ability=extend(model.ability_[component.agents], fill_value=np.nan),
            influence=extend(component.influence),
            weight=extend(component.share),
            n_trials=extend(n_trials),
            within_item_variance=np.full(n_agents, np.nan),
        )
        tables.append(table)
    return tuple(tables)


def _extend_to_all_agents(values: Floats, agents: Positions, n_agents: int, *, fill_value: float = 0.0) -> Floats:
    """Extend an array of some agents to all agents of a run.

    values : float array (n_some_agents,) or (n_some_agents, n_items), one row per agent
    agents : int array (n_some_agents,), position of the agent of each row

    Returns a float array (n_agents,) or (n_agents, n_items), `fill_value` for all other agents.
    """
    extended: Floats = np.full((n_agents, *values.shape[1:]), fill_value)
    extended[agents] = values
    return extended


def _list_larger_numbers(n: int, maximum: int) -> Positions:
    """List whole numbers above `n` up to `maximum`, ascending: all of them, or about 4,000 in geometric steps."""
    if maximum <= n:
        return np.empty(0, dtype=np.int64)
    return np.unique(np.geomspace(n + 1, maximum, _MAX_FORECASTS).round().astype(np.int64))


def _estimate_usd_per_call(folder: RunFolder, plan: Plan) -> float | None:
    """Estimate the cost of a further call of a run, in USD.

    This is the mean cost of the calls so far. If it is unknown, the cost is predicted from the lengths of the texts and the
    prices of the judge. Returns None if the prices are unknown, for a jury, and for a replay.
    """
    mean_usd = read_usd_per_call(folder)
    if mean_usd is not None or not folder.has("config.yaml"):
        return mean_usd
    judge = load_judge_config(folder.read_config().judge)
    if judge.backend in (JURY, REPLAY):
        return None

    usd_of_plan = estimate_by_characters(plan, judge).usd
    return None if usd_of_plan is None else usd_of_plan / len(plan)
