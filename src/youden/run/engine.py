"""Which machinery fits a run: arrays in memory, or a database that needs only some of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from youden.data.folder.run_folder import RunFolder
from youden.engines.database import MEMORY, check_memory, installed
from youden.nouns import PartnerRules, Target
from youden.run.pipeline import fit_run, target_of
from youden.run.robust.rules import remembered

if TYPE_CHECKING:
    from youden.run.analysis import Analysis

Engine = Literal["arrays", "duckdb"]

TRIALS_FOR_DUCKDB = 10_000_000
"""Judged trials from which on a run is fitted by DuckDB where nobody names an engine and it is installed."""


class Fitted(NamedTuple):
    """Which engine fitted a run, and what arrays hold of it; None where a database did it."""

    engine: Engine
    analysis: Analysis | None


def fit(
    folder: RunFolder,
    *,
    target: Target | None = None,
    rules: PartnerRules | None = None,
    engine: Engine | None = None,
    memory: str = MEMORY,
    rates: bool = False,
) -> Fitted:
    """Fit a run's folder as `fit_run` does, by `engine`, or by the one that its size asks for.

    duckdb keeps `memory` of the trials at a time and writes rates.parquet only where `rates` says so.

    Raises: as `fit_run`; ConfigError [engine-duckdb], [engine-memory], [engine-refused] for what duckdb does not do.
    """
    check_memory(memory)
    engine = engine or _by_size(folder, target, rules)
    if engine == "arrays":
        return Fitted(engine, fit_run(folder, target=target, rules=rules))
    from youden.run.in_database import fit_in_database

    fit_in_database(folder, target=target_of(folder, target), rules=rules, memory=memory, rates=rates)
    return Fitted(engine, None)


def _by_size(folder: RunFolder, target: Target | None, rules: PartnerRules | None) -> Engine:
    if not (installed() and folder.has("plan.parquet") and folder.has("verdicts.parquet")):
        return "arrays"
    if folder.n_judged() < TRIALS_FOR_DUCKDB:
        return "arrays"
    from youden.run.in_database import left_to_arrays

    rules = rules or remembered(folder) or PartnerRules()
    return "arrays" if left_to_arrays(folder.read_plan_alone(), target_of(folder, target), rules) else "duckdb"
