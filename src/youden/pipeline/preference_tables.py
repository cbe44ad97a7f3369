"""Fit a run that asks which of two responses is better, and write the tables that its ranking needs.

Such a run has paired trials only. It has no false-positive rates, scores of cells or curl, and no alternative rankings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from youden.data.folder.run_config import FitSettings
from youden.data.folder.run_files import PoolSummary
from youden.data.folder.run_folder import JudgedFiles, RunFolder
from youden.data.folder.trial_tables import open_verdict_chunks
from youden.engines.block_sums import CallCounts
from youden.engines.trial_blocks import Rows, open_trials_by_item
from youden.errors import ConfigError, YoudenError
from youden.pipeline.abilities import (
    Abilities,
    EstimationRequest,
    agent_differences,
    build_ranking_table,
    no_answers_error,
    summarize_choice,
)
from youden.pipeline.extension_facts import compute_extension_facts
from youden.pipeline.fit_tables import FACTS_VERSION, describe_judged_run, sign_fit
from youden.pipeline.preference_abilities import read_preferences
from youden.pipeline.ranking import estimate_or_fit
from youden.pipeline.recommendation import assess_signal, no_recommendation, recommend_from_abilities
from youden.pipeline.text_length import MAX_TRIALS, read_answer_lengths
from youden.stats.base.clusters import MIN_ITEMS, CentredCovariance
from youden.stats.trials.comparisons import describe_components
from youden.text.sentences import format_count
from youden.types import Finding
from youden.types.facts import POSITION_REMEDY, ChoiceFacts, PartialFacts, PreferenceFacts, RunFacts
from youden.types.pool import Ids, Positions, or_none
from youden.types.recommendation import Recommendation

MAX_POSITION_EFFECT = 0.2
"""A run warns if the position effect is significant and at least this large."""
MAX_LENGTH_CORRELATION = 0.5
"""A run warns if the preference correlates with length at least this much."""


class PreferenceResult(NamedTuple):
    """Result of a fit of preferences: the table of the ranking, and the facts of fit.json."""

    ranking: pd.DataFrame
    facts: RunFacts


def check_preference_settings(terms: FitSettings) -> None:
    """Raise ConfigError [question-option] if settings of a fit do not exist for preferences."""
    if terms.target != "items-like-these" or terms.rules.ranked_by != "plain":
        raise ConfigError(
            f"A run that asks for preferences has only the plain ranking for items like these: got target {terms.target} and a "
            f"{terms.rules.ranked_by} ranking. Remove these settings.",
            slug="question-option",
        )


def fit_preference_run(folder: RunFolder, pool: PoolSummary, judged: JudgedFiles) -> PreferenceResult:
    """Fit a run that asks for preferences, and write its tables.

    `judged` holds the plan without trials and the table of the verdicts. Writes ranking.csv, items.csv, fit.json,
    signature.json and ranking.json.

    Raises RunFolderError if a file is damaged, StatisticsError [trial-none] or [cluster-agents] if there are too few answers.
    """
    plan, verdicts = judged
    metadata = verdicts.metadata
    parts = open_verdict_chunks(verdicts, plan)

    def read_rows() -> Iterator[Mapping[str, NDArray[Any]]]:
        return (part.unread_copy() for part in parts)

    counts = CallCounts(plan, metadata.measured)
    counts.add_rows(read_rows)
    usd_calibration = float("nan") if metadata.usd_calibration is None else metadata.usd_calibration
    calls = counts.to_facts(models=metadata.models, usd_tried=usd_calibration)
    if not calls.n_answered:
        raise no_answers_error(calls.n_paired)

    with open_trials_by_item(read_rows, plan, folder.path) as trials:
        first, second, item, answer = read_preferences(trials)
        abilities = estimate_or_fit(trials, EstimationRequest())
        extension = compute_extension_facts(trials, abilities, answers_recomputed=False)
    n_items_of_agent = _count_items(first, second, item, n_agents=plan.n_agents)
    abilities = _without_unreliable_intervals(abilities, n_items_of_agent)
    differences = agent_differences(abilities)
    choice = _bound(summarize_choice(abilities, plan.agent_ids, differences=differences))
    effect = abilities.position_effect
    length_correlation = _correlate_with_length(folder, pool, read_rows, n_trials=len(verdicts))
    numbers = (effect.value, effect.low, effect.high, length_correlation)
    preference = PreferenceFacts(len(answer), float((answer == 0.5).mean()), *map(or_none, numbers))
    signal = assess_signal(None, abilities)
    message = describe_components(abilities.component)
    partial = PartialFacts(n_done=calls.n_done, n_calls=calls.n_calls) if calls.n_pending else None
    warnings = [] if partial is None else [partial.to_finding()]
    warnings += [*metadata.warnings, *_find_biases(preference), *([Finding("fit", message)] if message else [])]
    recommendation = _find_obstacle(preference, plan.agent_ids, n_items_of_agent)
    recommendation = recommendation or recommend_from_abilities(choice, signal, abilities, warnings=warnings)
    if recommendation.form == "none" and preference.has_position_bias and not preference.follows_position:
        recommendation = replace(recommendation, text=f"{recommendation.text} {preference.position_text}")
    facts = RunFacts(
        version=FACTS_VERSION,
        ranking=abilities.ranking,
        interval=abilities.method,
        level=differences.level,
        estimator=abilities.ranking,
        status="disconnected" if message else "ok",
        message=message,
        kkt=0.0,
        n_components=int(abilities.component.max()) + 1,
        r2=None,
        fpr=None,
        calls=calls,
        holdout=None,
        links={},
        links_missing={},
        warnings=tuple(warnings),
        extension=extension,
        target=abilities.target,
        unique_best=None if differences.unique_best is None else plan.agent_ids[differences.unique_best],
        n_significant_pairs=int(differences.significantly_better.sum()),
        choice=choice,
        signal=signal,
        recommendation=recommendation,
        partial=partial,
        preference=preference,
    )
    digest, n_trials_of_plan = metadata.plan_digest, len(verdicts)
    source = describe_judged_run(plan, metadata.judge, metadata.models, digest=digest, n_trials=n_trials_of_plan)
    source["answers"] = sha256(answer.tobytes()).hexdigest()[:12]  # imported battles may differ in their answers only
    table = build_ranking_table(abilities, plan.agent_ids, differences=differences, groups=pool.groups)
    table["low"] = table["low"].clip(lower=np.minimum(table["ability"], -1))
    table["high"] = table["high"].clip(upper=np.maximum(table["ability"], 1))
    with folder.replace_fit_files() as fit_folder:
        fit_folder.write_ranking(table)
        fit_folder.write_items(_build_item_table(first, second, item, plan.item_ids))
        fit_folder.write_facts(facts)
        fit_folder.write_signature(sign_fit(facts, source))
        fit_folder.write_ranking_json(folder.path.resolve().name)
    return PreferenceResult(table, facts)


def _count_items(first: Ids, second: Ids, item: Ids, *, n_agents: int) -> Positions:
    """Count the items that each agent was compared on: int array (n_agents,)."""
    cells = np.unique(np.append(first, second).astype(np.int64) + n_agents * np.tile(item, 2).astype(np.int64))
    return np.bincount(cells % n_agents, minlength=n_agents)


def _without_unreliable_intervals(abilities: Abilities, n_items: Positions) -> Abilities:
    """Replace the covariances of agents that were compared on fewer than `MIN_ITEMS` items by NaN.

    n_items : int array (n_agents,), number of items of each agent
    """
    is_short = n_items < MIN_ITEMS
    covariance = np.where(is_short[:, None] | is_short, np.nan, abilities.covariance.covariance)
    df = np.where(is_short, np.nan, abilities.covariance.df)
    return abilities._replace(covariance=CentredCovariance(covariance, df))


def _find_obstacle(
    preference: PreferenceFacts, agent_ids: tuple[str, ...], n_items: Positions
) -> Recommendation | None:
    """Return the recommendation of no agent if agents were compared on too few items, or if the position may decide.

    n_items : int array (n_agents,), number of items of each agent
    """
    is_short = (n_items > 0) & (n_items < MIN_ITEMS)
    if is_short.any():
        agent = int(is_short.argmax())
        compared = f"{agent_ids[agent]} was compared on {format_count(n_items[agent], 'item')} only"
        return no_recommendation(f"{compared}; an interval needs {MIN_ITEMS}", "Add comparisons on more items.")
    if preference.position_problem:
        return no_recommendation(preference.position_problem, POSITION_REMEDY)
    if preference.follows_position:
        reason = "the answers follow the position of the responses, whichever agents are compared"
        return no_recommendation(reason, "Use another judge or prompt.")
    return None


def _bound(choice: ChoiceFacts | None) -> ChoiceFacts | None:
    """Limit the regret bound of a selection to 1, the largest possible difference of a win rate and a loss rate."""
    return None if choice is None else replace(choice, regret_bound=min(choice.regret_bound, 1.0))


def _correlate_with_length(folder: RunFolder, pool: PoolSummary, rows: Rows, *, n_trials: int) -> float:
    """Correlate preferences with the log ratio of both lengths; NaN without texts, or if either is constant."""
    lengths = None
    with suppress(YoudenError):  # a pool that is gone or damaged only leaves this out
        if n_trials <= MAX_TRIALS and folder.has("config.yaml"):
            lengths = read_answer_lengths(folder, pool, rows)
    if lengths is None:
        return float("nan")
    answer, first_length, second_length, _ = lengths
    log_ratio = np.log(np.maximum(first_length, 1) / np.maximum(second_length, 1))
    is_constant = np.ptp(log_ratio) == 0 or np.ptp(answer) == 0
    return float("nan") if is_constant else float(np.corrcoef(answer, log_ratio)[0, 1])


def _find_biases(preference: PreferenceFacts) -> Iterator[Finding]:
    """Yield a warning if the judge prefers a position, and one if it prefers long or short responses."""
    effect, correlation = preference.position_effect, preference.length_correlation
    if effect is None or (preference.has_position_bias and abs(effect) >= MAX_POSITION_EFFECT):
        yield Finding(
            "position-bias", preference.position_text, remedy=POSITION_REMEDY, facts={"position_effect": effect}
        )
    if correlation is not None and abs(correlation) >= MAX_LENGTH_CORRELATION:
        text = f"The judge prefers {'longer' if correlation > 0 else 'shorter'} responses (r = {correlation:.2f})."
        yield Finding("length", text, facts={"correlation": correlation})


def _build_item_table(first: Ids, second: Ids, item: Ids, item_ids: tuple[str, ...]) -> pd.DataFrame:
    """Build the table of items, with the number of agents that were compared on each item and the number of trials.

    Items have no difficulty, because preferences are differences between agents.

    first, second, item : int arrays (n_trials,), positions of the two agents and of the item of each trial
    """
    n_items = len(item_ids)
    agent_of_response = np.append(first, second).astype(np.int64)
    item_of_response = np.tile(item, 2)
    cells = np.unique(agent_of_response * n_items + item_of_response)
    return pd.DataFrame(
        {
            "item": list(item_ids),
            "difficulty": np.nan,
            "n_agents": np.bincount(cells % n_items, minlength=n_items),
            "n_trials": np.bincount(item, minlength=n_items),
        }
    )
