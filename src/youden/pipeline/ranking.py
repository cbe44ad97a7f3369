"""Rank the agents by answers in memory, with the estimator that fits the plan.

This module computes abilities, ranks, and the facts that a reader needs to interpret them. Predictions, link tables and
curl need the folder of a run; `pipeline.fit_tables` computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from youden.engines.trial_blocks import TrialsByItem
from youden.errors import StatisticsError, YoudenError
from youden.pipeline.abilities import (
    Abilities,
    EstimationRequest,
    SearchState,
    agent_differences,
    build_ranking_table,
    estimate_block_means,
    estimate_mean_abilities,
    summarize_choice,
)
from youden.pipeline.additive_abilities import CellFit, fit_rates, fit_trials
from youden.pipeline.alternative_rankings import (
    PairedAnswers,
    list_alternative_ranking_findings,
    rank_alternatives,
    with_alternative_columns,
)
from youden.pipeline.clones import find_plan_clones
from youden.pipeline.interim_analyses import fit_search
from youden.pipeline.linked_abilities import (
    analyze_extended_search,
    estimate_extended_abilities,
    select_first_plan,
    shift_to_mean_on_first_items,
)
from youden.pipeline.multi_judge import ITEMS_AND_JUDGES, average_judges, with_judge_variance
from youden.pipeline.preference_abilities import collect_preferences, estimate_preferences
from youden.pipeline.preference_ranking import summarize_preferences
from youden.pipeline.recommendation import assess_signal, measure_judge_rates, recommend_from_abilities
from youden.pipeline.self_consistency import (
    compare_with_self_consistency,
    estimate_self_abilities,
    tabulate_self_consistency,
)
from youden.protocol.blocks import get_extensions
from youden.protocol.designs.adaptive import Adaptive
from youden.run_keys import Target
from youden.stats.trials.comparisons import Differences, describe_components
from youden.types import Finding, Plan, Pool, Verdicts
from youden.types.arguments import check_argument
from youden.types.facts import PartialFacts, PartnerRules
from youden.types.results import Rates

if TYPE_CHECKING:
    import pandas as pd


RankMethod = Literal["auto", "trial-mean", "additive-fit"]


def rank(verdicts: Verdicts, *, target: Target = "items-like-these", method: RankMethod = "auto") -> pd.DataFrame:
    """Rank the agents of a plan by its verdicts, best first.

    Parameters
    ----------
    verdicts : Verdicts
        Answers to a plan.
    target : {"items-like-these", "these-items", "items-and-judges"}, default "items-like-these"
        Population that the intervals refer to. "items-like-these": more items of this kind. "these-items": these items
        alone, with all possible comparisons. "items-and-judges", for a jury: more items and more judges of this kind.
    method : {"auto", "trial-mean", "additive-fit"}, default "auto"
        Estimator of the abilities. "trial-mean": mean answer of an agent's paired trials, minus its false-positive rate;
        without intervals if a trial belongs to no block. "additive-fit": effects of agents and items, fitted together, which
        allows for agents seen on different items. "auto": the trial mean for complete plans in blocks (cyclic), special
        estimators for adaptive and for extended plans, and the additive fit for all other plans.

    Returns
    -------
    DataFrame
        One row per agent of the plan, with the columns of `ranking.csv`. `ability`, `low`, `high` and `std_error` are in units of
        the answers; abilities are in [−1, 1]. They are NaN for an agent without an answered paired trial, which comes last.

        - `low` and `high` are the bounds of a 95% interval around `ability`. Its width and `std_error` refer to the
          agent's distance from the average agent.
        - `rank_low` and `rank_high` are marginal 95% bounds on the rank (1 is best). `simultaneous_rank_low` and
          `simultaneous_rank_high` are simultaneous for all agents. Ties share their ranks.
        - `group` is the agent's group in the plan's pool.
        - Columns that begin with `robust_` belong to the robust ranking. In it, agents that agree more than any group of
          independent agents in recorded data sets count as one partner, and do not score each other.
        - Columns that begin with `self_consistency` exist if the plan has self-trials.

        The table's `attrs` hold:

        - "agents": ids of the agents, best first, also after the table was sorted
        - "warnings": findings about the ranking
        - "unique_best": the agent that is significantly better than all others, or None
        - "choice": the selected agents with their regret bound (`ChoiceFacts`); None if some agents cannot be compared
        - "signal": the judge's J and a test of equal abilities (`JudgeSignalFacts`)
        - "recommendation": what follows from "choice" and "signal" (`Recommendation`)
        - "method": names of the estimator and of the method of the intervals
        - "partial": how much of an unfinished run is done (`PartialFacts`); None if all trials are
        - "preference", for a plan that asks for preferences: position bias and ties (`PreferenceFacts`)

        They are not written to files, for example by `table.to_parquet`.

    Raises
    ------
    StatisticsError
        [trial-none] if no paired trial of training cells was answered; [trial-target], [rank-method] if `target` or `method` is
        unknown; [judges-few] if `target` is "items-and-judges" and the judge is not a jury; [rank-preference] if a plan that
        asks for preferences is ranked for another target or by another method than the defaults.
    ConfigError
        [argument-type] if `verdicts` has another type.
    PlanError
        [verdicts-range] if an answer is not from 0 to 1.

    Examples
    --------
    >>> import youden
    >>> plan = youden.make_plan(youden.read_pool("datasets/field-notes"), calls=300)
    >>> table = youden.rank(youden.judge(plan, judge="lexical"))
    >>> len(table), [*table.columns[:5]]
    (12, ['agent', 'group', 'ability', 'low', 'high'])
    """
    check_argument("verdicts", verdicts, Verdicts, "Pass what youden.judge returns.")
    verdicts.check_range()
    trials, abilities = _estimate_abilities_by_method(verdicts, target, method)
    partial_facts = None
    if verdicts.n_pending:
        partial_facts = PartialFacts(n_done=len(verdicts) - verdicts.n_pending, n_calls=len(verdicts))
    clones = find_plan_clones(verdicts.plan)
    if verdicts.plan.question == "preference":
        return _tabulate_preferences(verdicts, trials, abilities, partial_facts, clones)

    answers = PairedAnswers.from_trials(trials)
    differences = agent_differences(abilities)
    agent_ids = verdicts.plan.agent_ids
    alternatives = rank_alternatives(answers, abilities, differences, agent_ids, rules=PartnerRules())
    table = build_ranking_table(abilities, agent_ids, differences=differences, pool=_find_pool(verdicts.plan))
    table = with_alternative_columns(table, alternatives, agent_ids)
    table = table.join(tabulate_self_consistency(trials), on="agent")

    choice = summarize_choice(abilities, agent_ids, differences=differences)
    signal = assess_signal(measure_judge_rates(trials), abilities)

    # findings about the run, the fit and the rankings
    alternative_facts = {ranking.name: ranking.facts for ranking in alternatives}
    findings = [] if partial_facts is None else [partial_facts.to_finding()]
    findings += [*clones, *verdicts.warnings, *trials.find_alarms()]
    if message := describe_components(abilities.component):
        findings.append(Finding("fit", message))
    findings += compare_with_self_consistency(table)
    findings += list_alternative_ranking_findings(alternative_facts, n_agents=len(agent_ids))

    table.attrs["unique_best"] = None if differences.unique_best is None else agent_ids[differences.unique_best]
    table.attrs["choice"] = choice
    table.attrs["signal"] = signal
    table.attrs["method"] = f"{abilities.ranking}; {abilities.method}"
    table.attrs["recommendation"] = recommend_from_abilities(choice, signal, abilities, warnings=verdicts.warnings)
    table.attrs["partial"] = partial_facts
    table.attrs["warnings"] = findings
    return _to_ranking_frame(table)


def _tabulate_preferences(
    verdicts: Verdicts,
    trials: TrialsByItem,
    abilities: Abilities,
    partial_facts: PartialFacts | None,
    clones: Sequence[Finding],
) -> pd.DataFrame:
    """Build the table that `rank` returns for a plan that asks for preferences.

    verdicts, trials : answers to the plan, as columns and grouped by item
    abilities : abilities that were estimated from these answers
    partial_facts : how much of an unfinished run is done; None for a finished one
    clones : findings about agents that give the same responses

    Returns one row per agent, best first. The `attrs` of the table have the keys that the docstring of `rank` lists.
    """
    plan = verdicts.plan
    preferences = collect_preferences(trials)
    summary = summarize_preferences(
        abilities, preferences, plan.agent_ids, partial=partial_facts, warnings=(*clones, *verdicts.warnings)
    )
    differences = summary.differences
    unique_best = None if differences.unique_best is None else plan.agent_ids[differences.unique_best]
    table = build_ranking_table(abilities, plan.agent_ids, differences=differences, pool=_find_pool(plan))
    table.attrs.update(
        unique_best=unique_best,
        choice=summary.choice,
        signal=summary.signal,
        method=f"{abilities.ranking}; {abilities.method}",
        recommendation=summary.recommendation,
        partial=partial_facts,
        warnings=list(summary.warnings),
        preference=summary.preference,
    )
    return _to_ranking_frame(table)


def _to_ranking_frame(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table, with its `attrs`, that can be written to Parquet."""
    from youden.data.ranking_frame import RankingFrame

    frame = RankingFrame(table)
    frame.attrs = table.attrs | {"agents": table["agent"].tolist()}
    return frame


def _find_pool(plan: Plan) -> Pool | None:
    """Return the pool of a plan; None if it cannot be read, because its columns of the ranking are only displayed."""
    with suppress(YoudenError):
        return plan.pool
    return None


def differences_from_verdicts(verdicts: Verdicts, *, target: Target) -> Differences:
    """Compute the pairwise differences of the abilities that `rank` estimates.

    Parameters
    ----------
    verdicts : Verdicts
        Answers to a plan.
    target : {"items-like-these", "these-items", "items-and-judges"}
        Population that the intervals refer to.

    Returns
    -------
    Differences
        Differences of all pairs of agents; NaN if two agents cannot be compared.

    Raises
    ------
    StatisticsError
        [trial-none] if no paired trial of training cells was answered.
    """
    _, abilities = _estimate_abilities_by_method(verdicts, target)
    return agent_differences(abilities)


def differences_from_rates(rates: Rates, *, target: Target) -> Differences:
    """Compute the pairwise differences of abilities from rates, for imported runs, which have no answers.

    Parameters
    ----------
    rates : Rates
        Rates of ordered pairs of agents on items.
    target : {"items-like-these", "these-items"}
        Population that the intervals refer to.

    Returns
    -------
    Differences

    Raises
    ------
    StatisticsError
        If the training scores cannot be fitted, for example [scores-empty].
    """
    return agent_differences(fit_rates(rates, target=target))


class AbilityEstimator(NamedTuple):
    """An estimator of abilities, and the plans that it applies to.

    Attributes
    ----------
    applies_to : callable
        Returns whether the estimator is meant for a plan.
    estimate : callable
        Returns the abilities of the agents by the trials of such a plan, or None if these trials do not allow the estimator.
    """

    applies_to: Callable[[Plan], bool]
    estimate: Callable[[TrialsByItem, EstimationRequest], Abilities | None]


ESTIMATORS = (
    AbilityEstimator(lambda plan: plan.is_self_plan, estimate_self_abilities),
    AbilityEstimator(lambda plan: plan.question == "preference", estimate_preferences),
    AbilityEstimator(
        lambda plan: plan.extensions is not None,
        lambda trials, request: analyze_extended_search(
            trials,
            partial(estimate_extended_abilities, anchors=estimate_anchor_abilities(trials, target=request.target)),
        ),
    ),
    AbilityEstimator(lambda plan: plan.design == Adaptive.name, fit_search),
    AbilityEstimator(lambda plan: bool(plan.split.train.all()), estimate_block_means),
)
"""Estimators in the order in which they are tried. If none returns abilities, the additive fit is used."""


def estimate_trial_abilities(trials: TrialsByItem, request: EstimationRequest) -> Abilities | None:
    """Estimate abilities by the first method in `ESTIMATORS` that applies to the trials.

    Returns None if no method applies, so that the caller must use the additive fit. For example, many answers may be missing,
    or an agent may have no response to an item. No method applies to dense and cell designs.
    """
    for estimator in ESTIMATORS:
        if estimator.applies_to(trials.plan):
            abilities = estimator.estimate(trials, request)
            if abilities is not None:
                return abilities
    return None


def trial_abilities_from_verdicts(verdicts: Verdicts, *, target: Target = "items-like-these") -> Abilities | None:
    """Estimate abilities from answers in memory, without the additive fit.

    Parameters
    ----------
    verdicts : Verdicts
        Answers to a plan.
    target : {"items-like-these", "these-items"}, default "items-like-these"
        Population that the intervals refer to.

    Returns
    -------
    Abilities or None
        None if only the additive fit can rank the agents. This is the case for dense and cell designs, and for plans with
        missing responses, held-out cells or many missing answers.

    Raises
    ------
    StatisticsError
        [trial-none] if no paired trial was answered.
    """
    return estimate_trial_abilities(TrialsByItem.from_verdicts(verdicts), EstimationRequest(target))


def estimate_abilities(
    verdicts: Verdicts, *, target: Target = "items-like-these", previous_search: SearchState | None = None
) -> Abilities:
    """Estimate abilities from answers in memory, by the estimator for their plan.

    Parameters
    ----------
    verdicts : Verdicts
        Answers to a plan.
    target : {"items-like-these", "these-items", "items-and-judges"}, default "items-like-these"
        Population that the intervals refer to.
    previous_search : SearchState, optional
        State of the search after an earlier round. The analyses up to this round are not repeated. It has no effect unless the
        plan is a search. Default: all rounds are analyzed.

    Returns
    -------
    Abilities
        Estimates in the order of the agents, with their covariance. False-positive rates are subtracted. The ability of an agent
        without an estimate is NaN.

    Raises
    ------
    StatisticsError
        If the answers cannot be fitted, for example [trial-none]; [trial-target] if `target` is unknown.
    """
    _, abilities = _estimate_abilities_by_method(verdicts, target, previous_search=previous_search)
    return abilities


def estimate_or_fit(trials: TrialsByItem, request: EstimationRequest, *, cell_fit: CellFit | None = None) -> Abilities:
    """Estimate abilities by the first of `ESTIMATORS` that applies to the trials, else by the additive fit.

    `cell_fit`, as in `fit_trials`, saves a fit of the scores that the caller has.
    """
    abilities = estimate_trial_abilities(trials, request) or fit_trials(trials, request, cell_fit=cell_fit)
    return abilities._replace(counts=trials.agent_counts)


def estimate_anchor_abilities(trials: TrialsByItem, *, target: Target = "items-like-these") -> Abilities:
    """Estimate the abilities of the agents of the first plan (anchors) of an extended run.

    Only trials that compare two anchors are used. A complete block compares all agents that have a response to its item. If all
    trials are in complete blocks, an ability is the mean of the agent's answers. Otherwise, an additive model is fitted.

    trials : all trials of the run
    target : population that the intervals refer to

    Returns the abilities, from which false-positive rates are not subtracted. Their mean is the mean answer on the items of the
    first plan, so items that were added later do not change it.
    """
    anchor_trials = select_first_plan(trials)
    n_first_items = get_extensions(trials.plan).items
    request = EstimationRequest(target, with_items=True, with_rates=False)
    mean_answers = estimate_trial_abilities(anchor_trials, request)  # None if not all trials are in complete blocks
    if mean_answers is None:
        return fit_trials(anchor_trials, request, n_first=n_first_items)
    return shift_to_mean_on_first_items(mean_answers, anchor_trials, n_first_items)


def _estimate_abilities_by_method(
    verdicts: Verdicts, target: Target, method: RankMethod = "auto", *, previous_search: SearchState | None = None
) -> tuple[TrialsByItem, Abilities]:
    """Estimate the abilities for a ranking, and return them together with the trials, grouped by item.

    target : population of items and judges that the intervals refer to, such as "items-like-these"
    method : estimator, "auto", "trial-mean" or "additive-fit"

    Raises StatisticsError [rank-method] if the method is unknown. If the judge states preferences, only the defaults are
    allowed, and other values raise StatisticsError [rank-preference].
    """
    is_default = (target, method) == ("items-like-these", "auto")
    if verdicts.plan.question == "preference" and not is_default:
        raise StatisticsError(
            "A plan that asks for preferences is ranked by the preference model, for items like these: got target "
            f"{target!r} and method {method!r}. Remove these arguments.",
            slug="rank-preference",
        )
    if method not in get_args(RankMethod):
        raise StatisticsError(
            f"The method of a ranking is unknown: got {method!r}. Pass one of: {', '.join(get_args(RankMethod))}.",
            slug="rank-method",
        )

    # The variance of a jury's votes is added to the intervals. Intervals for items like these already contain it, because they
    # are computed from the variation between items.
    adds_vote_variance = target != "items-like-these"
    if target == ITEMS_AND_JUDGES:
        verdicts = average_judges(verdicts)
    trials = TrialsByItem.from_verdicts(verdicts, votes=adds_vote_variance)

    request = EstimationRequest(target, previous_search)
    if method == "trial-mean":
        abilities = estimate_mean_abilities(verdicts, target=target)
    elif method == "additive-fit":
        abilities = fit_trials(trials, request)
    else:
        abilities = estimate_or_fit(trials, request)

    if adds_vote_variance:
        abilities = with_judge_variance(abilities, trials)
    return trials, abilities._replace(counts=trials.agent_counts)
