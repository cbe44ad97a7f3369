"""Another tool's agents become a pool, and its results a fitted run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from youden.data.folder.run_folder import PoolSummary, RunFolder
from youden.data.importers.peer_prediction import import_agents, import_results
from youden.data.importers.placing import refuse_run, write_imported
from youden.run.pipeline import fit_run

JUDGED = ("plan.parquet", "verdicts.parquet")
"""What a run has that was not imported."""


@dataclass(frozen=True)
class Imported:
    """What an import made."""

    kind: Literal["pool", "run"]
    n_agents: int
    n_items: int
    notes: tuple[str, ...]


def import_peer_prediction(path: Path, out: Path) -> Imported:
    """An agents file becomes the pool `out`; a results folder becomes the fitted run `out`.

    Raises: ImportFormatError with the file and the reason, [import-other] where something else stands in `out`.
    """
    if path.is_file():
        pool = import_agents(path)
        write_imported(pool, out)
        return Imported("pool", pool.n_agents, pool.n_items, (f"{pool.n_missing} cells have no response",))
    results = import_results(path)
    folder = RunFolder(out)
    refuse_run(out, JUDGED)
    folder.write_pool(PoolSummary.of_import(results.agents, results.rates.item_ids, source=str(path)))
    folder.write_rates(results.rates)
    folder.write_notes(results.notes)
    fit_run(folder)
    return Imported("run", results.rates.n_agents, results.rates.n_items, results.notes)
