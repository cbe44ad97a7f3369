"""Compute all tables of a fit from the answers of a run: rates, scores, additive fit, ranking and the facts about them.

Answers are summed in chunks of items, whatever the design, size, rounds, extensions and judges of the run, so that its
trials need not fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import nan
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from youden import __version__
from youden.data.folder.pool_summary import PoolSummary
from youden.data.folder.run_config import FitSettings, RunConfig
from youden.data.folder.run_folder import JudgedFiles, RunFolder
from youden.data.folder.trial_tables import open_verdict_chunks
from youden.engines.block_sums import CallCounts, ChunkSums
from youden.engines.trial_blocks import RateChunk, Rows, open_trials_by_item
from youden.errors import StatisticsError
from youden.pipeline.abilities import (
    Abilities,
    EstimationRequest,
    agent_differences,
    build_ranking_table,
    summarize_choice,
    summarize_rates,
)
from youden.pipeline.additive_abilities import fit_rates
from youden.pipeline.alternative_rankings import (
    PairedAnswers,
    WeightedRanking,
    iter_answers,
    list_alternative_ranking_findings,
    rank_alternatives,
    sort_by_ranking,
    with_alternative_columns,
)
from youden.pipeline.extension_facts import compute_extension_facts
from youden.pipeline.multi_judge import ITEMS_AND_JUDGES, average_judges, iter_averaged_chunks, with_judge_variance
from youden.pipeline.ranking import estimate_or_fit
from youden.pipeline.recommendation import (
    JudgeRates,
    assess_signal,
    measure_judge_from_differences,
    measure_judge_rates,
    recommend_from_abilities,
)
from youden.pipeline.self_consistency import compare_with_self_consistency, tabulate_self_consistency
from youden.pipeline.text_length import iter_length_warnings
from youden.pipeline.variance_components import can_decompose_variance, write_variance_components
from youden.run_keys import SplitRule
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.base.metrics import rmse
from youden.stats.curl.link_table import measure_curl
from youden.stats.partners import PairTotals
from youden.stats.trials.agent_rates import IndependentTotals
from youden.stats.trials.comparisons import Differences
from youden.stats.trials.partner_halves import partner_split_half
from youden.streams import standalone_stream
from youden.types import Finding, Plan, Scores
from youden.types.facts import (
    CallFacts,
    ExtensionFacts,
    HoldoutFacts,
    LinkFacts,
    PartialFacts,
    PartnerFacts,
    PartnerRules,
    RunFacts,
)
from youden.types.pool import Json, Positions, or_none
from youden.types.results import CurlCurve, Rates, ScoreKind, Signature

FACTS_VERSION = 2
MAX_TRIALS_WITH_RATES = 10_000_000
"""Number of trials from which on rates.parquet is written only on request. Nothing reads it for a judged run."""
MAX_NAMED_DEPENDENT = 3
"""Maximum number of agents that are named because their ranks depend on the pool."""


def fit_judged(
    folder: RunFolder,
    pool: PoolSummary,
    judged: JudgedFiles,
    settings: FitSettings,
    *,
    clones: Sequence[Finding],
    rates: bool,
    config: RunConfig | None,
) -> FitResult:
    """Fit a judged run, and write all its tables; earlier files of a fit are replaced together.

    Two files are not always written. rates.parquet is written for runs of fewer than 10,000,000 trials
    (`MAX_TRIALS_WITH_RATES`), and for any run if `rates` is True. variance_components.json is written for finished runs with few
    trials (`can_decompose_variance`).

    folder : folder of the run, with its verdicts
    pool : agents with their groups, and properties of their texts
    judged : plan without trials, and table of the verdicts
    settings : target of the intervals, and rules of the alternative rankings
    clones : findings about agents that give the same responses
    rates : whether to write rates.parquet for a run of any size
    config : config with new settings, which is written with the tables; None if the settings are not new

    Returns the tables, as they were written. Raises RunFolderError if a file is damaged, [disk-full] if the disk is full;
    StatisticsError if the scores cannot be fitted, or the main ranking cannot be made.
    """
    plan, verdicts = judged
    target = settings.target
    metadata = verdicts.metadata
    run = folder.path.resolve().name
    over_judges = target == ITEMS_AND_JUDGES
    verdict_chunks = open_verdict_chunks(verdicts, plan)

    def read_rows() -> Iterator[Mapping[str, NDArray[Any]]]:
        """Return the trials in chunks of columns, read again at each call."""
        return (chunk.unread_copy() for chunk in verdict_chunks)

    # for the target "items-and-judges", each answer is the mean of the judges' votes
    rows: Rows = partial(iter_averaged_chunks, read_rows) if over_judges else read_rows
    counts = CallCounts(plan, metadata.measured)
    counts.add_rows(rows)
    with open_trials_by_item(rows, plan, folder.path, votes=target != "items-like-these") as trials:
        sums = ChunkSums(trials.iter_rates(), plan, trials.false_positives)
        model = ClippedLinear().fit(sums.symmetric)
        abilities = estimate_or_fit(trials, EstimationRequest(target), cell_fit=lambda: (sums.symmetric, model))
        abilities = with_judge_variance(abilities, trials)

        usd_calibration = nan if metadata.usd_calibration is None else metadata.usd_calibration
        fit = FitResult(
            sums,
            PairedAnswers.from_trials(trials, sums.pairs.totals),
            model,
            abilities,
            measure_judge_rates(trials),
            calls=counts.to_facts(models=metadata.models, usd_calibration=usd_calibration, paid=metadata.paid),
            warnings=[
                *clones,
                *metadata.warnings,
                *trials.find_alarms(),
                *iter_length_warnings(folder, pool, rows, abilities.ability, n_trials=len(verdicts)),
            ],
            rules=settings.rules,
            pool=pool,
            extension=compute_extension_facts(
                trials, abilities, answers_recomputed="request_hash" not in metadata.measured
            ),
            self_consistency=tabulate_self_consistency(trials),
        )

        with folder.replace_fit_files(config) as fit_folder:
            if rates or len(verdicts) < MAX_TRIALS_WITH_RATES:
                rate_chunks = ((chunk.start, chunk.rates) for chunk in trials.iter_rates())
                fit_folder.write_rate_chunks(rate_chunks, plan)
            if not metadata.n_pending and can_decompose_variance(plan, len(verdicts)):
                result = folder.read_verdicts(folder.read_plan())
                if over_judges:
                    result = average_judges(result)
                write_variance_components(fit_folder, result, run)
            description = describe_judged_run(
                plan, metadata.judge, metadata.models, digest=metadata.plan_digest, n_trials=len(verdicts)
            )
            if metadata.n_pending:
                description["done"] = len(verdicts) - metadata.n_pending
            fit.write(fit_folder, sign_fit(fit.facts, description), run=run)
    return fit


def fit_imported(folder: RunFolder, pool: PoolSummary, settings: FitSettings) -> FitResult:
    """Rank the agents of an imported run, and write its tables.

    Tables of an earlier fit are replaced. An imported run has scores instead of answers of a judge. A score is D = TPR − FPR of
    an ordered pair of agents on an item.

    folder : folder of the run; its rates.parquet contains the scores
    pool : agents and items of the run, and notes about the import, which become findings
    settings : items that the intervals refer to, and agents that are weighted together in alternative rankings

    Returns the tables, as they were written. Raises RunFolderError if a file is damaged. Raises StatisticsError if the scores
    cannot be fitted, or if the main ranking cannot be made.
    """
    rates = folder.read_rates()
    fit = _fit_imported_rates(rates, pool, settings)
    signature = sign_fit(fit.facts, {"imported_rates": rates.digest[:12]})
    with folder.replace_fit_files() as fit_folder:
        fit_folder.write_rates(rates)
        fit.write(fit_folder, signature, run=folder.path.resolve().name)
    return fit


def _fit_imported_rates(rates: Rates, pool: PoolSummary, settings: FitSettings) -> FitResult:
    """Compute the tables of an imported run from its scores, without writing them.

    The tables are those of a judged run, except for false-positive rates: these are already subtracted from the scores D = TPR
    − FPR.

    rates : imported scores of ordered pairs of agents on items
    pool : agents and items of the run, and notes about the import, which become findings
    settings : items that the intervals refer to, and agents that are weighted together in alternative rankings
    """
    # the rates of a judged run are read in chunks of items; imported rates are one chunk, in which no cell is held out
    chunks = [RateChunk(start=0, rates=rates, training_rates=rates)]
    no_independent_trials = IndependentTotals(rates.n_agents, rates.n_items)
    sums = ChunkSums(chunks, rates, no_independent_trials)
    return FitResult(
        sums=sums,
        answers=PairedAnswers(partial(iter_answers, lambda: chunks), sums.pairs.totals),
        model=ClippedLinear().fit(sums.symmetric),
        abilities=fit_rates(rates, target=settings.target),
        judge=measure_judge_from_differences(chunks, n_items=rates.n_items),
        calls=None,
        warnings=[Finding("import", note) for note in pool.notes],
        rules=settings.rules,
        pool=pool,
    )


class FitResult:
    """Tables of a fit.

    Attributes
    ----------
    symmetric, row : Scores
        Training scores.
    holdout : Scores or None
        Scores of the held-out cells; None if nothing is held out.
    ranking : DataFrame
        Ranking table, one row per agent, in the order of the main ranking.
    items : DataFrame
        Difficulties, one row per item.
    pairs : DataFrame
        Scores and differences, one row per pair of agents.
    curl : tuple of CurlCurve
        Curl of the symmetric scores by link.
    facts : RunFacts
        Facts about the fit, as in `fit.json`.
    """

    def __init__(
        self,
        sums: ChunkSums,
        answers: PairedAnswers,
        model: ClippedLinear,
        abilities: Abilities,
        judge: JudgeRates,
        *,
        calls: CallFacts | None,
        warnings: Sequence[Finding],
        rules: PartnerRules,
        pool: PoolSummary,
        extension: ExtensionFacts | None = None,
        self_consistency: pd.DataFrame | None = None,
    ) -> None:
        """Compute all tables, in the same way for all kinds of runs.

        sums : sums of the run's rates
        answers : answers to the paired trials
        model : model fitted to the symmetric scores
        abilities : abilities of the plain ranking
        judge : TPR, FPR and Youden's J of the judge
        calls : numbers of calls and their cost; None for an imported run
        warnings : findings so far
        rules : rules of the alternative rankings, and which ranking is the main one
        pool : summary of the pool; the groups and the values of the texts are only displayed, never used in a fit
        extension : changes by the last extension; None if the run was not extended
        self_consistency : columns of self-consistency by agent, which the ranking includes; None if it was not measured

        Raises StatisticsError if the main ranking cannot be made.
        """
        scores, agent_ids = sums.symmetric, sums.symmetric.agent_ids
        self.symmetric, self.row, self.holdout = scores, sums.row, sums.holdout

        differences = agent_differences(abilities)
        alternatives = rank_alternatives(answers, abilities, differences, agent_ids, rules=rules)
        alternative_facts = {ranking.name: ranking.facts for ranking in alternatives}

        main_abilities, main_differences = _select_main_ranking(alternatives, rules, abilities, differences)
        table = build_ranking_table(abilities, agent_ids, differences=differences, pool=pool)
        table = with_alternative_columns(table, alternatives, agent_ids)
        if self_consistency is not None:
            table = table.join(self_consistency, on="agent")
        self.ranking = table if rules.ranked_by == "plain" else sort_by_ranking(table, rules.ranked_by)

        self.items = _build_item_table(scores, model, sums.n_trials_by_item)
        curl = measure_curl_by_link({"row": sums.row, "symmetric": scores})
        self.curl = curl.curves
        self.pairs = sums.pairs.to_pairs(differences, model.ability_)

        partial_facts = None
        if calls is not None and calls.n_pending:
            partial_facts = PartialFacts(n_done=calls.n_done, n_calls=calls.n_calls)

        # findings about the run, the fit and the rankings
        findings = [] if partial_facts is None else [partial_facts.to_finding()]
        findings += warnings
        if model.message_:
            findings.append(Finding("fit", model.message_))
        findings += compare_with_self_consistency(table)
        findings += list_alternative_ranking_findings(alternative_facts, n_agents=len(agent_ids))

        choice = summarize_choice(main_abilities, agent_ids, differences=main_differences)
        signal = assess_signal(judge, main_abilities)
        best = main_differences.unique_best
        self.facts = RunFacts(
            version=FACTS_VERSION,
            ranking=abilities.ranking,
            interval=abilities.method,
            level=differences.level,
            estimator="clipped-linear",
            status=model.status_,
            message=model.message_,
            kkt=model.kkt_,
            n_components=model.n_components_,
            r2=or_none(model.r2_),
            fpr=sums.false_positives.rate,
            calls=calls,
            holdout=evaluate_holdout(model, sums.holdout, sums.split.rule),
            links=curl.facts_by_kind,
            links_missing=curl.missing_reasons,
            warnings=tuple(findings),
            extension=extension,
            partners=measure_partner_dependence(answers.totals, agent_ids),
            target=abilities.target,
            unique_best=None if best is None else agent_ids[best],
            n_significant_pairs=int(main_differences.significantly_better.sum()),
            choice=choice,
            signal=signal,
            recommendation=recommend_from_abilities(choice, signal, main_abilities, warnings=warnings),
            ranked_by=rules.ranked_by,
            alternative_rankings=alternative_facts,
            families=dict(rules.families),
            trusted=rules.trusted,
            rates=summarize_rates(abilities, agent_ids),
            partial=partial_facts,
        )

    def write(self, folder: RunFolder, signature: Signature, *, run: str) -> None:
        """Write all tables of the fit to files in a folder.

        These are the scores, ranking.csv, pairs.parquet, items.csv, fit.json, signature.json, ranking.json and others. Existing
        files are replaced one after the other; `RunFolder.replace_fit_files` replaces them together.

        Parameters
        ----------
        folder : RunFolder
            Folder to write into.
        signature : Signature
            Everything that the numbers in the tables depend on, for example the digests of plan and answers. It is written with
            the tables.
        run : str
            Name of the run, for `ranking.json`.

        Raises
        ------
        OSError
            If a file cannot be written.
        """
        folder.write_scores("symmetric", self.symmetric)
        folder.write_scores("row", self.row)
        if self.holdout is not None:
            folder.write_holdout(self.holdout)
        folder.write_ranking(self.ranking)
        folder.write_pairs(self.pairs, agents=self.symmetric.agent_ids)
        folder.write_items(self.items)
        folder.write_curl(self.curl)
        folder.write_facts(self.facts)
        folder.write_signature(signature)
        folder.write_ranking_json(run)


def _select_main_ranking(
    alternatives: Sequence[WeightedRanking], rules: PartnerRules, abilities: Abilities, differences: Differences
) -> tuple[Abilities, Differences]:
    """Return abilities and differences of the main ranking: the plain one, or an alternative that the rules name."""
    for ranking in alternatives:
        if ranking.name == rules.ranked_by and ranking.abilities and ranking.differences:
            return ranking.abilities, ranking.differences
    return abilities, differences


def _build_item_table(scores: Scores, model: ClippedLinear, n_trials: Positions) -> pd.DataFrame:
    """Build the table of items: difficulty, number of agents with a score, and `n_trials`, int array (n_items,)."""
    cells = scores.cells
    scored_items = cells.cell_index.item[cells.weight > 0]
    return pd.DataFrame(
        {
            "item": list(scores.item_ids),
            "difficulty": model.difficulty_,
            "n_agents": np.bincount(scored_items, minlength=cells.cell_index.n_items),
            "n_trials": n_trials,
        }
    )


def measure_partner_dependence(totals: PairTotals, agent_ids: tuple[str, ...]) -> PartnerFacts | None:
    """Measure how much the ranking depends on which agents are compared, by its split-half reliability.

    The partners of an agent are the agents that it is compared with. They are split at random into two halves. The ranking by
    one half is compared with the ranking by the other half. The results of several splits are averaged.

    totals : sums of the answers to the paired trials of each pair of agents
    agent_ids : ids of the agents, by position

    Returns Spearman's ρ between the two rankings, the number of splits, and up to `MAX_NAMED_DEPENDENT` agents whose two ranks
    differ most. Returns None for fewer than 5 agents, or if the two rankings cannot be correlated.
    """
    try:
        split_half = partner_split_half(totals.total, totals.weight, rng=standalone_stream(0))
    except StatisticsError:
        return None
    if np.isnan(split_half.rho):
        return None

    # a rank change of NaN is an agent that was not compared with both halves
    largest_change_first = np.argsort(-np.nan_to_num(split_half.rank_change), kind="stable")
    dependent_agents = []
    for agent in largest_change_first[:MAX_NAMED_DEPENDENT]:
        rank_change = float(split_half.rank_change[agent])
        if rank_change > 0:
            dependent_agents.append((agent_ids[agent], rank_change))
    return PartnerFacts(split_half.rho, split_half.n_splits, tuple(dependent_agents))


def sign_fit(facts: RunFacts, source: Mapping[str, Json]) -> Signature:
    """Make the signature of a fit: a record of all that its numbers depend on. `source` describes the answers."""
    return Signature(
        {
            "youden": __version__,
            **source,
            "ranking": facts.ranking,
            "interval": facts.interval,
            "target": facts.target,
        }
    )


def describe_judged_run(
    plan: Plan, judge: Mapping[str, Json], models: tuple[str, ...], *, digest: str, n_trials: int
) -> dict[str, Json]:
    """Describe the pool, plan and judge of a judged run for its signature.

    plan : plan of the run, whose trials need not be loaded
    judge : config of the judge
    models : names of the models that answered
    digest, n_trials : digest of the whole plan, and number of its trials

    Returns the entries of the signature: "pool", "plan", "design", "calls" (number of trials), "independent" ("matched" or
    "pooled"), "holdout" (fraction of held-out cells), "rule" (holdout rule), "seed", "judge" (its name), "judge_detail" (its
    config), "options" (`Plan.settings`, for example options of the design) and "models". The digests of pool and plan are
    shortened to 12 characters.
    """
    return {
        "pool": plan.pool_digest[:12],
        "plan": digest[:12],
        "design": plan.design,
        "calls": n_trials,
        "independent": plan.independent,
        "holdout": plan.split.fraction,
        "rule": plan.split.rule,
        "seed": plan.seed,
        "judge": str(judge.get("name")),
        "judge_detail": dict(judge),
        "options": plan.settings,
        "models": list(models),
    }


class CurlByLink(NamedTuple):
    """Curl of the symmetric and of the row scores of a run, on the scale of each link function.

    Attributes
    ----------
    facts_by_kind : dict of str to dict
        Curl and R² by link, for each kind of scores ("symmetric", "row"); empty if the curl cannot be measured.
    missing_reasons : dict of str to str
        For a kind of scores whose curl cannot be measured: the reason.
    curves : tuple of CurlCurve
        Distribution of the curl of the symmetric scores, by link.
    """

    facts_by_kind: dict[ScoreKind, dict[str, LinkFacts]]
    missing_reasons: dict[ScoreKind, str]
    curves: tuple[CurlCurve, ...]


def measure_curl_by_link(scores_by_kind: Mapping[ScoreKind, Scores]) -> CurlByLink:
    """Measure how far scores deviate from additivity (curl) on the scale of each link function.

    The curl of two agents i, i' on two items j, j' is |s_ij − s_i'j − s_ij' + s_i'j'|. It is 0 if each score is the sum of an
    agent effect and an item effect. The link functions identity, probit and logit are applied to the scores first.

    scores_by_kind : scores, with the key "symmetric" (mean of both orders of the texts) or "row" (the agent's text comes first)
    """
    facts_by_kind: dict[ScoreKind, dict[str, LinkFacts]] = {}
    missing_reasons: dict[ScoreKind, str] = {}
    curves: tuple[CurlCurve, ...] = ()
    for kind, scores in scores_by_kind.items():
        try:
            curl = measure_curl(scores)
        except StatisticsError as error:
            facts_by_kind[kind] = {}
            missing_reasons[kind] = str(error)
        else:
            facts_by_kind[kind] = curl.table()  # has one entry per link function
            if kind == "symmetric":
                curves = curl.curves()
    return CurlByLink(facts_by_kind, missing_reasons, curves)


def evaluate_holdout(model: ClippedLinear, holdout: Scores | None, rule: SplitRule) -> HoldoutFacts | None:
    """Compute the root mean squared error of a model's predictions for held-out cells.

    A cell is an agent and an item. The error is in units of the scores.

    model : model that was fitted to the other cells
    holdout : observed scores of the held-out cells; None if there are none
    rule : holdout rule of the plan, which is only recorded in the result

    Returns the error (`rmse`) with its 95% interval (`low`, `high`), and the number of cells. The interval treats cells as
    independent; its bounds are None for a single cell, or if all errors are equal. A cell is left out if its agent or its item
    has no training cell. The result is None if no cell remains, or if there are no held-out cells.
    """
    if holdout is None:
        return None

    cells, observed, _ = holdout.cells
    predicted = model.predict_at(cells.agent, cells.item)
    is_predicted = ~np.isnan(predicted)
    if not is_predicted.any():
        return None

    metric = rmse(predicted[is_predicted], observed[is_predicted])
    return HoldoutFacts(
        n_cells=int(is_predicted.sum()),
        rule=rule,
        rmse=metric.value,
        low=or_none(metric.low),
        high=or_none(metric.high),
    )
