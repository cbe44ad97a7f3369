"""A run's folder fitted: everything that follows from its answers, rates → scores → fit → ranking, and how far to trust it.

A run is summed in blocks of items, whatever its design, its size, its rounds, its extensions and its judges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import nan

import numpy as np
import pandas as pd

from youden import __version__
from youden.data.folder.run_config import FitTerms
from youden.data.folder.run_files import PoolSummary
from youden.data.folder.run_folder import JudgedFiles, RunFolder
from youden.data.folder.trial_tables import verdict_blocks
from youden.engines.block_sums import CallCounts, Tallied
from youden.engines.trial_blocks import RateBlock, Rows, trials_by_item
from youden.errors import StatisticsError
from youden.pipeline.abilities import Abilities, Aim, Groups, choice_of, ranking_table, told_apart
from youden.pipeline.additive_abilities import answers_in_blocks, fitted, fitted_abilities
from youden.pipeline.alternative_rankings import (
    AllAnswers,
    answers_of_pairs,
    ordered_by,
    standing_findings,
    standings_of,
    with_standings,
)
from youden.pipeline.extension_facts import extension_facts
from youden.pipeline.multi_judge import JUDGES, answers_for, as_asked, rows_for
from youden.pipeline.ranking import trial_abilities
from youden.pipeline.recommendation import (
    JudgeRates,
    judge_rates,
    judge_rates_of_differences,
    recommendation_of,
    signal_facts,
)
from youden.pipeline.text_length import length_warnings
from youden.pipeline.variance_components import says_moves, write_moves
from youden.run_keys import SplitRule
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.base.metrics import rmse
from youden.stats.curl.link_table import measure_curl
from youden.stats.partners import PairTotals
from youden.stats.trials.false_positives import ApartSums
from youden.stats.trials.partner_halves import partner_halves
from youden.streams import own_stream
from youden.types import Finding, Plan, Scores
from youden.types.facts import CallFacts, ExtensionFacts, HoldoutFacts, LinkFacts, PartnerFacts, PartnerRules, RunFacts
from youden.types.pool import Json, or_none
from youden.types.results import CurlCurve, ScoreKind, Signature

FACTS_VERSION = 1
TRIALS_WITH_RATES = 10_000_000
"""Judged trials from which on rates.parquet, which nothing of a judged run needs, is written only where it is asked for."""
N_DEPENDENT = 3
"""Agents named that depend most on who else was in the pool."""


def fit_judged(
    folder: RunFolder, pool: PoolSummary, judged: JudgedFiles, terms: FitTerms, *, rates: bool = False
) -> Analysis:
    """Write every table of a judged run, from the files of its answers; its trials need not fit into memory.

    rates: write rates.parquet of a run of `TRIALS_WITH_RATES` trials and more, too.

    Raises: RunFolderError, [engine-full] where the disk is full; StatisticsError, as `Analysis`.
    """
    (plan, of), target = judged, terms.target
    run = folder.path.resolve().name
    parts, counts = verdict_blocks(of, plan), CallCounts(plan, of.said.measured)
    rows, judges, votes = lambda: (part.again() for part in parts), target == JUDGES, target != "items-like-these"
    told: Rows = rows_for(rows) if judges else rows
    counts.add_all(told)
    with trials_by_item(told, plan, folder.path, votes=votes) as trials:
        sums = Tallied(trials.blocks(), plan, trials.apart)
        model = ClippedLinear().fit(sums.symmetric)
        found = trial_abilities(trials, Aim(target))
        if found is None:
            found = fitted(trials, target=target, known=(sums.symmetric, model)).found
        found = as_asked(found, trials)
        usd = nan if of.said.usd_tried is None else of.said.usd_tried
        tables = Analysis(
            sums,
            AllAnswers.of(trials, sums.pairs.totals),
            model,
            found,
            judge_rates(trials),
            calls=counts.facts(models=of.said.models, usd_tried=usd),
            warnings=[
                *of.said.warnings,
                *trials.alarms(),
                *length_warnings(folder, pool, told, found.ability, n_trials=len(of)),
            ],
            rules=terms.rules,
            groups=pool.groups,
            growth=extension_facts(trials, found, answered_anew="key" not in of.said.measured),
        )
        with folder.fitting() as fresh:
            if rates or len(of) < TRIALS_WITH_RATES:
                fresh.write_rates_of_items(((block.start, block.rates) for block in trials.blocks()), plan)
            if says_moves(plan, len(of)):
                result = folder.read_verdicts(folder.read_plan())
                write_moves(fresh, answers_for(result) if judges else result, run)
            signed = judged_parts(plan, of.said.judge, of.said.models, digest=of.said.plan_digest, n_trials=len(of))
            tables.write(fresh, sign(tables.facts, signed), run=run)
    return tables


def fit_imported(folder: RunFolder, pool: PoolSummary, terms: FitTerms) -> Analysis:
    """The same of a run of which only rates are known. Raises: as `fit_judged`."""
    rates = folder.read_rates()
    blocks = [RateBlock(0, rates, rates)]
    # rates are less what they are less already: no arm is known
    sums = Tallied(blocks, rates, ApartSums(rates.n_agents))
    model = ClippedLinear().fit(sums.symmetric)
    answers = partial(answers_in_blocks, lambda: blocks, drawn=False, less=0.0)
    found = fitted_abilities(model, sums.symmetric, answers, fpr=sums.apart.rate, target=terms.target)
    tables = Analysis(
        sums,
        AllAnswers(partial(answers_of_pairs, lambda: blocks), sums.pairs.totals),
        model,
        found,
        judge_rates_of_differences(blocks, n_items=rates.n_items),
        calls=None,
        warnings=[Finding("import", note) for note in pool.notes],
        rules=terms.rules,
        groups=pool.groups,
    )
    with folder.fitting() as fresh:
        fresh.write_rates(rates)
        tables.write(fresh, sign(tables.facts, {"imported_rates": rates.digest[:12]}), run=folder.path.resolve().name)
    return tables


class Analysis:
    """The tables of a run's folder that follow from its answers: scores, ranking, items, curl, pairs, and facts."""

    def __init__(
        self,
        sums: Tallied,
        answers: AllAnswers,
        model: ClippedLinear,
        found: Abilities,
        judge: JudgeRates,
        *,
        calls: CallFacts | None,
        warnings: Sequence[Finding],
        rules: PartnerRules,
        groups: Groups,
        growth: ExtensionFacts | None = None,
    ) -> None:
        """Make all tables, once for all kinds of runs.

        model: fitted to the symmetric scores; found: abilities that rank; judge: how well it discriminates; groups: of agents,
        shown and never used in a fit; rules: of the alternative rankings, and which ranking heads the run.

        Raises: StatisticsError if the ranking that heads the run cannot be made.
        """
        scores, ids = sums.symmetric, sums.symmetric.agent_ids
        self.symmetric, self.row, self.holdout = scores, sums.row, sums.holdout
        apart = told_apart(found)
        made = standings_of(answers, found, apart, ids, rules=rules)
        standings = {one.name: one.facts for one in made}
        heads = ((one.found, one.apart) for one in made if one.name == rules.ranked_by)
        leading, head = next(((moved, apart) for moved, apart in heads if moved and apart), (found, apart))
        ranking = with_standings(ranking_table(found, ids, apart=apart, groups=groups), made, ids)
        self.ranking = ranking if rules.ranked_by == "plain" else ordered_by(ranking, rules.ranked_by)
        cells = scores.cells
        self.items = pd.DataFrame(
            {
                "item": list(scores.item_ids),
                "difficulty": model.difficulty_,
                "n_agents": np.bincount(cells.at.item[cells.weight > 0], minlength=cells.at.n_items),
                "n_trials": sums.item_trials,
            }
        )
        tables, missing, self.curl = link_facts({"row": sums.row, "symmetric": scores})
        self.pairs = sums.pairs.pairs(apart, model.ability_)
        choice, signal = choice_of(leading, ids, apart=head), signal_facts(judge, leading)
        unfit = [Finding("fit", model.message_)] if model.message_ else []
        self.facts = RunFacts(
            version=FACTS_VERSION,
            ranking=found.ranking,
            interval=found.method,
            level=apart.level,
            estimator="clipped-linear",
            status=model.status_,
            message=model.message_,
            kkt=model.kkt_,
            n_components=model.n_components_,
            r2=or_none(model.r2_),
            fpr=sums.apart.rate,
            calls=calls,
            holdout=holdout_facts(model, sums.holdout, sums.split.rule),
            links=tables,
            links_missing=missing,
            warnings=(*warnings, *unfit, *standing_findings(standings)),
            growth=growth,
            partners=partner_facts(answers.totals, ids),
            target=found.target,
            best=None if head.best is None else ids[head.best],
            told_apart=int(head.above.sum()),
            choice=choice,
            signal=signal,
            recommendation=recommendation_of(choice, signal, leading),
            ranked_by=rules.ranked_by,
            standings=standings,
            families=dict(rules.families),
            trusted=rules.trusted,
        )

    def write(self, folder: RunFolder, signature: Signature, *, run: str) -> None:
        """Write all of them into the folder of a fit. run: its name."""
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


def partner_facts(of: PairTotals, agent_ids: tuple[str, ...]) -> PartnerFacts | None:
    """How far two random halves of the partners agree, on what may be learned from; None with fewer than 5 agents, and where
    halves could not be correlated."""
    try:
        found = partner_halves(of.total, of.times, rng=own_stream(0))
    except StatisticsError:
        return None
    if np.isnan(found.correlation):
        return None
    order = np.argsort(-np.nan_to_num(found.moved), kind="stable")[:N_DEPENDENT]
    agents = tuple((agent_ids[i], float(found.moved[i])) for i in order if found.moved[i] > 0)
    return PartnerFacts(found.correlation, found.n_splits, agents)


def sign(facts: RunFacts, parts: Mapping[str, Json]) -> Signature:
    """Everything a run's numbers depend on. parts: what they were made from."""
    return Signature(
        {
            "youden": __version__,
            **parts,
            "ranking": facts.ranking,
            "interval": facts.interval,
            "target": facts.target,
        }
    )


def judged_parts(
    plan: Plan, judge: Mapping[str, Json], models: tuple[str, ...], *, digest: str, n_trials: int
) -> dict[str, Json]:
    """Pool, plan and judge of a judged run. digest, n_trials: the plan's, whose trials are not looked at."""
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
        "options": plan.said,
        "models": list(models),
    }


def link_facts(
    scores: Mapping[ScoreKind, Scores],
) -> tuple[dict[ScoreKind, dict[str, LinkFacts]], dict[ScoreKind, str], tuple[CurlCurve, ...]]:
    """Return the link table of each kind of scores, why there is none, and the curves of the symmetric ones."""
    tables: dict[ScoreKind, dict[str, LinkFacts]] = {kind: {} for kind in scores}
    missing: dict[ScoreKind, str] = {}
    curves: tuple[CurlCurve, ...] = ()
    for kind, of_kind in scores.items():
        try:
            curl = measure_curl(of_kind)
        except StatisticsError as error:
            missing[kind] = str(error)
            continue
        tables[kind] = curl.table()
        curves = curl.curves() if kind == "symmetric" else curves
    return tables, missing, curves


def holdout_facts(model: ClippedLinear, held: Scores | None, rule: SplitRule) -> HoldoutFacts | None:
    """RMSE of clipped predictions over held-out cells whose agent and item were both seen in training."""
    if held is None:
        return None
    at, observed, _ = held.cells
    predicted = model.predict_at(at.agent, at.item)
    known = ~np.isnan(predicted)
    if not known.any():
        return None
    metric = rmse(predicted[known], observed[known])
    return HoldoutFacts(
        n_cells=int(known.sum()),
        rule=rule,
        rmse=metric.value,
        low=or_none(metric.low),
        high=or_none(metric.high),
    )
