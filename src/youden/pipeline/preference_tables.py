"""Fit a run that asks which of two responses is better, and write the tables that its ranking needs.

Such a run has paired trials only. It has no false-positive rates, scores of cells or curl, and no alternative rankings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from youden.data.folder.pool_summary import PoolSummary
from youden.data.folder.run_config import FitSettings, RunConfig
from youden.data.folder.run_folder import JudgedFiles, RunFolder
from youden.data.folder.trial_tables import open_verdict_chunks
from youden.engines.block_sums import CallCounts, PairSums
from youden.engines.trial_blocks import Rows, open_trials_by_item
from youden.errors import ConfigError
from youden.pipeline.abilities import EstimationRequest, build_ranking_table, make_no_answers_error
from youden.pipeline.extension_facts import compute_extension_facts
from youden.pipeline.fit_tables import FACTS_VERSION, describe_judged_run, sign_fit
from youden.pipeline.preference_abilities import Preferences, collect_preferences
from youden.pipeline.preference_ranking import summarize_preferences
from youden.pipeline.ranking import estimate_or_fit
from youden.pipeline.text_length import read_answer_lengths
from youden.types import Finding
from youden.types.arguments import check_unused
from youden.types.facts import PartialFacts, RunFacts


class PreferenceResult(NamedTuple):
    """Result of a fit of preferences: the table of the ranking, and the facts of fit.json."""

    ranking: pd.DataFrame
    facts: RunFacts


def check_preference_settings(settings: FitSettings, *, rates: bool) -> None:
    """Raise ConfigError [question-option] or [option-unused] if a fit has settings that do not apply to preferences."""
    check_unused("A run that asks for preferences", families=settings.rules.families, rates=rates)
    if settings.target != "items-like-these" or settings.rules.ranked_by != "plain":
        raise ConfigError(
            f"A run that asks for preferences has only the plain ranking for items like these: got target "
            f"{settings.target} and a {settings.rules.ranked_by} ranking. Remove these settings.",
            slug="question-option",
        )


def fit_preference_run(
    folder: RunFolder, pool: PoolSummary, judged: JudgedFiles, *, clones: Sequence[Finding], config: RunConfig | None
) -> PreferenceResult:
    """Fit a run that asks for preferences, and write its tables.

    These are ranking.csv, pairs.parquet, items.csv, fit.json, signature.json and ranking.json. All files of an earlier fit are
    replaced together.

    folder : folder of the run, with its verdicts
    pool : agents with their groups
    judged : plan without trials, and table of the verdicts
    clones : findings about agents that give the same responses, which are added to the warnings of fit.json
    config : config with new settings, which is written with the tables; None if the settings are not new

    Returns the ranking as a table by ability (win rate − loss rate), best agent first, and the facts of fit.json. Raises
    RunFolderError if a file is damaged, StatisticsError [trial-none] or [cluster-agents] if there are too few answers.
    """
    plan, verdicts = judged
    metadata = verdicts.metadata
    verdict_chunks = open_verdict_chunks(verdicts, plan)

    def read_rows() -> Iterator[Mapping[str, NDArray[Any]]]:
        return (chunk.unread_copy() for chunk in verdict_chunks)

    # calls and their cost
    counts = CallCounts(plan, metadata.measured)
    counts.add_rows(read_rows)
    usd_calibration = float("nan") if metadata.usd_calibration is None else metadata.usd_calibration
    calls = counts.to_facts(models=metadata.models, usd_calibration=usd_calibration, paid=metadata.paid)
    if not calls.n_answered:
        raise make_no_answers_error(calls.n_paired)

    # abilities, and what follows from them
    with open_trials_by_item(read_rows, plan, folder.path) as trials:
        preferences = collect_preferences(trials)
        abilities = estimate_or_fit(trials, EstimationRequest())
        extension = compute_extension_facts(trials, abilities, answers_recomputed=False)
    length_correlation = _correlate_with_length(folder, read_rows, n_trials=len(verdicts))
    partial = None
    if calls.n_pending:
        partial = PartialFacts(n_done=calls.n_done, n_calls=calls.n_calls)
    summary = summarize_preferences(
        abilities,
        preferences,
        plan.agent_ids,
        length_correlation=length_correlation,
        partial=partial,
        warnings=(*clones, *metadata.warnings),
    )
    differences, message = summary.differences, summary.component_message
    best = differences.unique_best
    run_facts = RunFacts(
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
        warnings=summary.warnings,
        extension=extension,
        target=abilities.target,
        unique_best=None if best is None else plan.agent_ids[best],
        n_significant_pairs=int(differences.significantly_better.sum()),
        choice=summary.choice,
        signal=summary.signal,
        recommendation=summary.recommendation,
        partial=partial,
        preference=summary.preference,
    )

    # signature of the fit; imported battles may differ in their answers only
    run_description = describe_judged_run(
        plan, metadata.judge, metadata.models, digest=metadata.plan_digest, n_trials=len(verdicts)
    )
    if metadata.n_pending:
        run_description["done"] = len(verdicts) - metadata.n_pending
    answers_digest = sha256(preferences.answer.tobytes()).hexdigest()
    run_description["answers"] = answers_digest[:12]

    table = build_ranking_table(abilities, plan.agent_ids, differences=differences, pool=pool)
    pairs = PairSums(len(plan.agent_ids), own_rates=False).to_pairs(differences, abilities.ability)
    with folder.replace_fit_files(config) as fit_folder:
        fit_folder.write_ranking(table)
        fit_folder.write_pairs(pairs, agents=plan.agent_ids)
        fit_folder.write_items(_build_item_table(preferences, plan.item_ids))
        fit_folder.write_facts(run_facts)
        fit_folder.write_signature(sign_fit(run_facts, run_description))
        fit_folder.write_ranking_json(folder.path.resolve().name)
    return PreferenceResult(table, run_facts)


def _correlate_with_length(folder: RunFolder, iter_trials: Rows, *, n_trials: int) -> float:
    """Correlate preferences for the first response with the log ratio of the two lengths.

    The ratio is the length of the first response, divided by that of the second. The correlation is NaN if `read_answer_lengths`
    returns None, or if preferences or ratios do not vary.

    folder : folder of the run
    iter_trials : function that yields the trials of the run with their answers; each chunk of trials is a mapping of column
        names to arrays
    n_trials : number of trials of the run
    """
    answers = read_answer_lengths(folder, iter_trials, n_trials=n_trials)
    if answers is None:
        return float("nan")

    preference = answers.answer
    log_ratio = np.log(np.maximum(answers.first_length, 1) / np.maximum(answers.second_length, 1))
    is_constant = np.ptp(log_ratio) == 0 or np.ptp(preference) == 0
    if is_constant:
        return float("nan")
    return float(np.corrcoef(preference, log_ratio)[0, 1])


def _build_item_table(preferences: Preferences, item_ids: tuple[str, ...]) -> pd.DataFrame:
    """Build the table of items, with the number of agents that were compared on each item and the number of trials.

    Items have no difficulty, because preferences are differences between agents.
    """
    n_items = len(item_ids)
    _, item_of_cell = preferences.find_cells()
    return pd.DataFrame(
        {
            "item": list(item_ids),
            "difficulty": np.nan,
            "n_agents": np.bincount(item_of_cell, minlength=n_items),
            "n_trials": np.bincount(preferences.item, minlength=n_items),
        }
    )
