"""The ranking that answers support: abilities, the places they allow, and what a reader has to know.

Predictions, link tables and curl are not made here: `analyse` makes them for a run's folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from youden.nouns import INDEPENDENT, Plan, Target, Verdicts
from youden.nouns.arrays import Ids
from youden.protocol.rates import tally
from youden.protocol.scores import pooled_fpr, train_scores
from youden.run.abilities import abilities_of, cell_abilities
from youden.run.ability import LEVEL, Abilities
from youden.run.extended import learned_from
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.additive.components import agent_components, disconnected
from youden.stats.base.clusters import CentredCovariance
from youden.stats.trials.false_positives import Alarm, false_positive_alarms
from youden.stats.trials.places import Differences, differences, places_at_once

Groups = Mapping[str, str | None]


def rank(
    plan: Plan, result: Verdicts, *, groups: Groups | None = None, target: Target = "items-like-these"
) -> pd.DataFrame:
    """The ranking a plan's answers support, best first, in the columns of `ranking.csv`.

    Trials in slots (cyclic) are ranked by `TrialMean`, cells by `ClippedLinear` on symmetric scores. low and high are the
    ends of a 95 % interval for an agent's distance from the average agent, drawn around its ability; error is its standard error.
    place_low and place_high are the places an agent can hold, 1 being best, by the differences to all others: each agent's hold
    with 95 %. rank_low and rank_high are wider and hold for all agents at once with 95 %. Ties share their places.

    target: what all this speaks of: `items-like-these` (more items of this kind) or `these-items` (these items alone, all their
    comparisons asked). `attrs["warnings"]` says what a reader has to know, `attrs["best"]` who is told apart from everybody.
    """
    found, component, message = _ranked(result, target)
    apart = told_apart(found, component=component)
    table = ranking_table(found, plan.agent_ids, apart=apart, groups=groups)
    table.attrs["best"] = None if apart.best is None else plan.agent_ids[apart.best]
    table.attrs["warnings"] = ranking_warnings(result, message=message)
    return table


def _ranked(result: Verdicts, target: Target) -> tuple[Abilities, Ids, str]:
    """Abilities, the components of their agents, and what is wrong with these."""
    found = abilities_of(result, target=target)
    if found is not None:
        component = components_of(result)
        return found, component, disconnected(component)
    rates = tally(result)
    scores = train_scores(rates, result.plan.split)
    model = ClippedLinear().fit(scores)
    found = cell_abilities(model, scores, fpr=pooled_fpr(rates), target=target)
    return found, model.component_, model.message_


def components_of(result: Verdicts) -> Ids:
    """Which agents the answered trials link: int32[K], as `agent_components`."""
    plan, used = result.plan, learned_from(result)
    seen = np.zeros((plan.n_agents, plan.n_items), dtype=np.bool_)
    seen[plan.first[used], plan.item[used]] = True
    seen[plan.second[used], plan.item[used]] = True
    return agent_components(*np.nonzero(seen), n_agents=plan.n_agents, n_items=plan.n_items)


def told_apart(found: Abilities, *, component: Ids) -> Differences:
    """All differences of abilities, and who is told apart by them; agents of two components are not compared."""
    same = component[:, None] == component
    covariance = np.where(same, found.covariance.covariance, np.nan)
    return differences(found.ability, CentredCovariance(covariance, found.covariance.freedom), level=LEVEL)


def ranking_table(
    found: Abilities, agent_ids: Sequence[str], *, apart: Differences, groups: Groups | None = None
) -> pd.DataFrame:
    """Abilities and the places their differences allow, best first."""
    places, at_once = apart.places, places_at_once(apart)
    return pd.DataFrame(
        {
            "agent": list(agent_ids),
            "group": [(groups or {}).get(agent) for agent in agent_ids],
            "ability": found.ability,
            "low": found.low,
            "high": found.high,
            "rank_low": at_once.low,
            "rank_high": at_once.high,
            "n_trials": found.n_trials,
            "error": found.covariance.error,
            "place_low": places.low,
            "place_high": places.high,
        }
    ).sort_values("ability", ascending=False, kind="stable", na_position="last", ignore_index=True)


def ranking_warnings(result: Verdicts, *, message: str) -> list[str]:
    """What a reader of the ranking has to know. message: of the components, or of the fit; empty where all is well."""
    said = [*result.warnings, *_false_positive_words(result)]
    if message:
        said.append(message)
    return said


def alarms_of(result: Verdicts) -> tuple[Alarm, ...]:
    """Agents and pairs that the judge takes for the same source on unrelated texts, more often than chance allows."""
    plan = result.plan
    apart = (plan.arm == INDEPENDENT) & result.answered
    return false_positive_alarms(
        plan.first[apart], plan.second[apart], result.hard[apart] >= 0.5, n_agents=plan.n_agents
    )


def _false_positive_words(result: Verdicts) -> list[str]:
    plan = result.plan
    return [
        f"False-positive alarm: texts of {' and '.join(plan.agent_ids[i] for i in alarm.agents)} on unrelated items were "
        f"called the same source {alarm.n_yes} of {alarm.n} times (all others: {alarm.rate:.1%}). Look for templates or clones"
        + (
            "."
            if plan.independent == "twin"
            else "; one pooled rate ranks them too high (independent: twin gives each its own)."
        )
        for alarm in alarms_of(result)
    ]
