"""Which estimator ranks, and the ranking that answers in memory support: abilities, the places they allow, and what a
reader has to know.

Predictions, link tables and curl are not made here: `Analysis` makes them for a run's folder.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from youden.engines.trial_blocks import TrialsByItem
from youden.errors import StatisticsError, YoudenError
from youden.pipeline.abilities import (
    Abilities,
    Aim,
    Groups,
    Search,
    choice_of,
    mean_abilities,
    of_slots,
    ranking_table,
    told_apart,
)
from youden.pipeline.additive_abilities import fit_rates, fitted
from youden.pipeline.alternative_rankings import AllAnswers, standing_findings, standings_of, with_standings
from youden.pipeline.interim_analyses import of_search
from youden.pipeline.linked_abilities import first_part, on_first_items, searched_on
from youden.pipeline.multi_judge import JUDGES, answers_for, as_asked
from youden.pipeline.recommendation import judge_rates, recommendation_of, signal_facts
from youden.protocol.blocks import extensions_of
from youden.protocol.designs.adaptive import Adaptive
from youden.run_keys import Target
from youden.stats.trials.comparisons import Differences, disconnected
from youden.types import Finding, Plan, Verdicts
from youden.types.facts import PartnerRules
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
        Population that the intervals refer to: more items of this kind, these items alone with all their comparisons
        asked, or, for a jury, also more judges of this kind.
    method : {"auto", "trial-mean", "additive-fit"}, default "auto"
        Estimator of the abilities. `trial-mean`: mean answer of an agent's paired trials, less the false-positive rate;
        without intervals if a trial belongs to no slot. `additive-fit`: effects of agents and items, fitted together, which
        allows for agents seen on different items. `auto`: `trial-mean` for complete plans in slots (cyclic), the estimators of
        adaptive and extended plans for those, otherwise `additive-fit`.

    Returns
    -------
    DataFrame
        One row per agent, in the columns of `ranking.csv`. `low` and `high` bound a 95 % interval for the distance to the
        average agent, drawn around `ability`; `error` is its standard error. `place_low` and `place_high` are marginal 95 %
        bounds on the rank (1 is best), `rank_low` and `rank_high` are simultaneous for all agents; ties share their ranks.
        Columns that begin with `robust_` belong to the robust ranking, in which agents that agree far beyond their abilities
        count as one partner and do not score each other. `group` is the agent's group in the plan's pool. Abilities,
        errors and bounds are in units of the answers, [−1, 1].

        `attrs["warnings"]` holds findings about the ranking, `attrs["best"]` the agent significantly better than all others
        or None, `attrs["choice"]` the selected agents with their regret bound (`ChoiceFacts`), or None if some agents cannot
        be compared. `attrs["signal"]` is the judge's J and a test of equal abilities (`JudgeSignalFacts`), and
        `attrs["recommendation"]` what follows from both (`Recommendation`). `attrs["method"]` names the estimator and the method
        of the intervals.

    Raises
    ------
    StatisticsError
        [trial-none] if no paired trial of training cells was answered; [rank-method] if `method` is none of the three.

    Examples
    --------
    >>> import youden
    >>> plan = youden.make_plan(youden.read_pool("datasets/field-notes"), calls=300)
    >>> table = youden.rank(youden.judge(plan, judge="lexical"))
    >>> len(table), [*table.columns[:5]]
    (12, ['agent', 'group', 'ability', 'low', 'high'])
    """
    trials, found, message = _ranked(verdicts, target, method)
    apart = told_apart(found)
    ids, rules = verdicts.plan.agent_ids, PartnerRules()
    made = standings_of(AllAnswers.of(trials), found, apart, ids, rules=rules)
    table = with_standings(ranking_table(found, ids, apart=apart, groups=_groups_of(verdicts.plan)), made, ids)
    table.attrs["best"] = None if apart.best is None else ids[apart.best]
    choice, signal = choice_of(found, ids, apart=apart), signal_facts(judge_rates(trials), found)
    table.attrs["choice"] = choice
    table.attrs["signal"] = signal
    table.attrs["method"] = f"{found.ranking}; {found.method}"
    table.attrs["recommendation"] = recommendation_of(choice, signal, found)
    table.attrs["warnings"] = [
        *verdicts.warnings,
        *trials.alarms(),
        *([Finding("fit", message)] if message else []),
        *standing_findings({one.name: one.facts for one in made}),
    ]
    return table


def _groups_of(plan: Plan) -> Groups:
    """Return each agent's group; empty if the plan's pool cannot be read, because groups are only displayed."""
    if plan.source is not None:
        with suppress(YoudenError):
            return {agent.id: agent.group for agent in plan.pool.agents}
    return {}


def differences_of(result: Verdicts, *, target: Target) -> Differences:
    """Who is told apart from whom in the ranking of `rank`. Raises: as `rank`."""
    return told_apart(_ranked(result, target).abilities)


def differences_of_rates(rates: Rates, *, target: Target) -> Differences:
    """The same where only rates are known, as in an import. Raises: StatisticsError of the fit."""
    return told_apart(fit_rates(rates, target=target).found)


class RankingMethod(NamedTuple):
    """ranks: which plans are its own; abilities: None where it cannot rank their trials after all."""

    ranks: Callable[[Plan], bool]
    abilities: Callable[[TrialsByItem, Aim], Abilities | None]


ESTIMATORS = (
    RankingMethod(
        lambda plan: plan.extensions is not None,
        lambda trials, aim: searched_on(trials, anchors_of(trials, target=aim.target)),
    ),
    RankingMethod(lambda plan: plan.design == Adaptive.name, of_search),
    RankingMethod(lambda plan: bool(plan.split.train.all()), of_slots),
)
"""The first that can ranks; where none can, `fitted`."""


def trial_abilities(trials: TrialsByItem, aim: Aim) -> Abilities | None:
    """By the first of `ESTIMATORS` that ranks these trials; None where `fitted` does: dense and cell designs, gaps, a holdout,
    missing answers."""
    own = (estimator.abilities(trials, aim) for estimator in ESTIMATORS if estimator.ranks(trials.plan))
    return next((found for found in own if found is not None), None)


def abilities_of(result: Verdicts, *, target: Target = "items-like-these") -> Abilities | None:
    """`trial_abilities` of answers in memory."""
    return trial_abilities(TrialsByItem.of(result), Aim(target))


def standing_of(result: Verdicts, *, target: Target = "items-like-these", before: Search | None = None) -> Abilities:
    """Abilities of a plan in slots after a look. before: as `Aim` has it. Raises: as `fitted`."""
    trials = TrialsByItem.of(result)
    return trial_abilities(trials, Aim(target, before)) or fitted(trials, target=target).found


def anchors_of(trials: TrialsByItem, *, target: Target = "items-like-these") -> Abilities:
    """Abilities of the first plan's agents, on the level of its items: from complete slots, or from the fit where cells rank."""
    part, n_items = first_part(trials), extensions_of(trials.plan).items
    found = trial_abilities(part, Aim(target, with_items=True))
    if found is None:
        return fitted(part, target=target, with_items=True, n_first=n_items).found
    return on_first_items(found, part, n_items)


class _Ranked(NamedTuple):
    """message: what is wrong with the components of the abilities, or with the fit; empty if nothing is."""

    trials: TrialsByItem
    abilities: Abilities
    message: str


def _ranked(verdicts: Verdicts, target: Target, method: RankMethod = "auto") -> _Ranked:
    if method not in get_args(RankMethod):
        raise StatisticsError(
            f"The method of a ranking is unknown: got {method!r}. Pass one of: {', '.join(get_args(RankMethod))}.",
            slug="rank-method",
        )
    if target == JUDGES:
        verdicts = answers_for(verdicts)
    trials = TrialsByItem.of(verdicts, votes=target != "items-like-these")
    abilities = trial_abilities(trials, Aim(target)) if method == "auto" else None
    if method == "trial-mean":
        abilities = mean_abilities(verdicts, target=target)
    if abilities is not None:
        message = disconnected(abilities.component)
    else:
        _, model, abilities = fitted(trials, target=target)
        message = model.message_
    return _Ranked(trials, abilities if target == "items-like-these" else as_asked(abilities, trials), message)
