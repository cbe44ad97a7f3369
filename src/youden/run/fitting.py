"""Which engine fits a run's folder, arrays in memory or blocks of items; and other tools' results as a fitted run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from youden.data.folder.run_files import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.data.importers.peer_prediction import import_agents, import_results
from youden.data.importers.pool_joiner import refuse_other, write_imported
from youden.nouns import PartnerRules, Target
from youden.run.in_blocks import fit_in_blocks, left_to_arrays
from youden.run.partner_rules import remembered
from youden.run.pipeline import fit_run, target_of

Engine = Literal["arrays", "blocks"]

TRIALS_FOR_BLOCKS = 10_000_000
"""Judged trials from which on a run is fitted in blocks where nobody names an engine."""


def fit(
    folder: RunFolder,
    *,
    target: Target | None = None,
    rules: PartnerRules | None = None,
    engine: Engine | None = None,
    rates: bool = False,
) -> Engine:
    """Fit a run's folder as `fit_run` does, by `engine`, or by the one that its size asks for; returns which.

    blocks keep some items' trials in memory at a time, and write rates.parquet only where `rates` says so.

    Raises: as `fit_run`; ConfigError [engine-refused] for what blocks do not do; RunFolderError [engine-full].
    """
    engine = engine or _by_size(folder, target, rules)
    if engine == "arrays":
        fit_run(folder, target=target, rules=rules)
    else:
        fit_in_blocks(folder, target=target_of(folder, target), rules=rules, rates=rates)
    return engine


def _by_size(folder: RunFolder, target: Target | None, rules: PartnerRules | None) -> Engine:
    if not all(map(folder.has, JUDGED)) or folder.n_judged() < TRIALS_FOR_BLOCKS:
        return "arrays"
    rules = rules or remembered(folder) or PartnerRules()
    return "arrays" if left_to_arrays(folder.read_plan_alone(), target_of(folder, target), rules) else "blocks"


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
        return ImportedRun("pool", pool.n_agents, pool.n_items, (f"{pool.n_missing} cells have no response",))
    results = import_results(path)
    folder = RunFolder(out)
    refuse_other(out, run=JUDGED, again="pool.json")
    folder.write_pool(PoolSummary.of_import(results.agents, results.rates.item_ids, source=str(path)))
    folder.write_rates(results.rates)
    folder.write_notes(results.notes)
    fit_run(folder)
    return ImportedRun("run", results.rates.n_agents, results.rates.n_items, results.notes)
