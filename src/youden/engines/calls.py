"""What was asked, what came back and what it took, counted by a database over the files of a run's answers."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from youden.nouns import CallFacts, Plan

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def call_facts(
    database: DuckDBPyConnection, plan: Plan, *, n_cells: int, models: tuple[str, ...], measured: Collection[str]
) -> CallFacts:
    """The facts of a run whose answers are the view `source`. plan: its trials are not looked at; measured: columns that the
    judge filled."""
    counts = database.execute("SELECT arm, missing, count(*) FROM source GROUP BY ALL ORDER BY ALL").fetchall()
    of_arm = {arm: {why: n for one, why, n in counts if one == arm} for arm in ("paired", "independent")}
    lost = {arm: {why: n for why, n in found.items() if why is not None} for arm, found in of_arm.items()}
    tokens_in, tokens_out, usd, unpriced, seconds = database.execute(
        """SELECT coalesce(sum(tokens_in), 0), coalesce(sum(tokens_out), 0), coalesce(sum(usd), 0), count(*) - count(usd),
            avg(seconds) FILTER (seconds > 0) FROM source"""
    ).fetchall()[0]
    return CallFacts(
        n_paired=sum(of_arm["paired"].values()),
        n_independent=sum(of_arm["independent"].values()),
        n_dense_calls=plan.n_dense_calls,
        n_cells=n_cells,
        missing_paired=lost["paired"],
        missing_independent=lost["independent"],
        tokens_in=int(tokens_in),
        tokens_out=int(tokens_out),
        usd=None if "usd" in measured and unpriced else float(usd),
        seconds_mean=seconds,
        models=models,
        n_reused=_reused(database, measured) if {"key", "seconds"} <= set(measured) else 0,
    )


def _reused(database: DuckDBPyConnection, measured: Collection[str]) -> int:
    """Trials answered from the store by a call that no pass of this run paid for."""
    made = "(seconds > 0 OR coalesce(usd, 1) > 0)" if "usd" in measured else "(seconds > 0)"
    return int(
        database.execute(
            f"""SELECT count(*) FROM (FROM source WHERE missing IS NULL AND key <> '' AND NOT {made}) AS one
                ANTI JOIN (FROM source WHERE {made}) AS paid ON one.key = paid.key"""
        ).fetchall()[0][0]
    )
