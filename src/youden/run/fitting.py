"""A run's folder fitted, block by block: every table that follows from its answers; and other tools' results as a fitted run.

A run is summed in blocks of items, whatever its design, its size, its rounds, its extensions and its judges.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import nan
from pathlib import Path
from typing import Literal

import numpy as np

from youden.data.folder.run_files import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.data.folder.trial_tables import verdict_blocks
from youden.data.importers.peer_prediction import import_agents, import_results
from youden.data.importers.pool_joiner import refuse_other, write_imported
from youden.engines.block_sums import tallied
from youden.engines.trial_blocks import RateBlock, Rows, trials_by_item
from youden.nouns import Finding, PartnerRules, Target
from youden.nouns.facts import CallCounts
from youden.run.ability import Aim
from youden.run.analysis import Analysis, analyse, judged_parts, sign
from youden.run.extension import extension_facts
from youden.run.fits import fit_rates, fitted
from youden.run.over_judges import JUDGES, answers_for, as_asked, rows_for
from youden.run.partner_rules import partner_rules
from youden.run.ranking import trial_abilities, warnings_of
from youden.run.standings import AllAnswers, answers_of_pairs
from youden.run.what_moves import says_moves, write_moves
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.trials.comparisons import agent_components
from youden.stats.trials.false_positives import ApartSums
from youden.text.sentences import counted

TRIALS_WITH_RATES = 10_000_000
"""Judged trials from which on rates.parquet, which nothing of a judged run needs, is written only where it is asked for."""


def fit_judged(folder: RunFolder, *, target: Target, rules: PartnerRules, rates: bool = False) -> Analysis:
    """Write every table of a judged run, from the files of its answers; its trials need not fit into memory.

    rates: write rates.parquet of a run of `TRIALS_WITH_RATES` trials and more, too.

    Raises: RunFolderError, [engine-full] where the disk is full; StatisticsError, as `analyse`.
    """
    plan, of = folder.judged_files()
    groups = {agent.id: agent.group for agent in folder.read_pool().agents}
    run, K = folder.path.resolve().name, plan.n_agents
    parts, counts = verdict_blocks(of, plan), CallCounts(plan, of.said.measured)
    rows, judges, votes = lambda: (part.again() for part in parts), target == JUDGES, target != "items-like-these"
    told: Rows = rows_for(rows) if judges else rows
    counts.add_all(told)
    with trials_by_item(told, plan, folder.path, votes=votes) as trials:
        sums = tallied(trials.blocks(), plan, trials.apart, plan.split)
        model = ClippedLinear().fit(sums.symmetric)
        found, component = trial_abilities(trials, Aim(target)), model.component_
        if found is not None:
            component = agent_components(*np.nonzero(sums.linked), n_agents=K, n_items=plan.n_items)
        else:
            found = fitted(trials, target=target, known=(sums.symmetric, model)).found
        found = as_asked(found, trials)
        usd = nan if of.said.usd_tried is None else of.said.usd_tried
        tables = analyse(
            sums,
            AllAnswers.of(trials, sums.pairs.totals),
            model,
            found,
            component=component,
            split=plan.split,
            calls=counts.facts(models=of.said.models, usd_tried=usd),
            warnings=warnings_of(of.said.warnings, trials.yeses.alarms(), plan, message=model.message_),
            rules=rules,
            groups=groups,
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


def fit_imported(folder: RunFolder, *, target: Target, rules: PartnerRules) -> Analysis:
    """The same of a run of which only rates are known. Raises: as `fit_judged`."""
    rates = folder.read_rates()
    blocks = [RateBlock(0, rates, rates, None)]
    # rates are less what they are less already: no arm is known
    sums = tallied(blocks, rates, ApartSums(rates.n_agents), None)
    _, model, found = fit_rates(rates, target=target)
    notes = [Finding("import", note) for note in folder.read_notes()]
    tables = analyse(
        sums,
        AllAnswers(partial(answers_of_pairs, lambda: blocks), sums.pairs.totals),
        model,
        found,
        component=model.component_,
        split=None,
        calls=None,
        warnings=[*notes, Finding("fit", model.message_)] if model.message_ else notes,
        rules=rules,
        groups={agent.id: agent.group for agent in folder.read_pool().agents},
    )
    with folder.fitting() as fresh:
        fresh.write_rates(rates)
        tables.write(fresh, sign(tables.facts, {"imported_rates": rates.digest[:12]}), run=folder.path.resolve().name)
    return tables


JUDGED = ("plan.parquet", "verdicts.parquet")
"""What a run has that was not imported."""


@dataclass(frozen=True)
class ImportedRun:
    """What an import made."""

    kind: Literal["pool", "run"]
    n_agents: int
    n_items: int
    notes: tuple[str, ...]


def import_peer_prediction(path: Path, out: Path) -> ImportedRun:
    """An agents file becomes the pool `out`; a results folder becomes the fitted run `out`.

    Raises: ImportFormatError with the file and the reason, [import-other] where something else stands in `out`.
    """
    if path.is_file():
        pool = import_agents(path)
        write_imported(pool, out)
        missing = f"{counted(pool.n_missing, 'cell', 'has', 'have')} no response"
        return ImportedRun("pool", pool.n_agents, pool.n_items, (missing,))
    results = import_results(path)
    folder = RunFolder(out)
    refuse_other(out, run=JUDGED, again="pool.json")
    folder.write_pool(PoolSummary.of_import(results.agents, results.rates.item_ids, source=str(path)))
    folder.write_rates(results.rates)
    folder.write_notes(results.notes)
    fit_imported(folder, target=folder.target, rules=partner_rules(folder, results.agents, None))
    return ImportedRun("run", results.rates.n_agents, results.rates.n_items, results.notes)
