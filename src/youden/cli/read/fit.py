"""`youden fit RUN`: rates, scores, fit and ranking of a judged run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from youden.cli.terms import options, ranking

if TYPE_CHECKING:
    from youden.nouns import Target


@click.command("fit")
@options.run
@options.labels
@options.target
@click.option(
    "--engine",
    type=click.Choice(["arrays", "duckdb"]),
    help="What sums the trials: arrays in memory, or DuckDB, which needs little memory. [default: duckdb from 10,000,000 "
    "trials on, where it is installed and can fit the run]",
)
@click.option(
    "--memory",
    help="The most that DuckDB keeps in memory; it writes the rest into RUN. [default: 1GB]",
)
@click.option("--rates", is_flag=True, help="Write rates.parquet with DuckDB too. Arrays always write it.")
@options.robust
@options.trusted
@options.families
@options.json
def fit_command(
    *,
    run: Path,
    labels: Path | None,
    target: Target | None,
    engine: Literal["arrays", "duckdb"] | None,
    memory: str | None,
    rates: bool,
    robust: bool | None,
    trusted: tuple[str, ...] | None,
    families_file: Path | None,
    as_json: bool,
) -> None:
    """Fit the model to the answers in RUN and rank its agents.

    Writes rates.parquet, scores.csv, scores_row.csv, holdout.csv, ranking.csv, items.csv, fit.json and signature.json;
    with --labels also labels.json, which says how far the ranking agrees with them.

    Ability is how well others' responses let the judge recognise the same source, relative to this pool, this judge and these
    items. It rewards restating what others can be matched to (obscure or bureaucratic styles stand high, terse references low),
    and is no proof of correctness.
    """
    if engine == "arrays" and memory is not None:
        raise click.UsageError(
            "--memory is for DuckDB: arrays take what they need. Leave it out, or say --engine duckdb."
        )
    from youden.data.families import read_families
    from youden.data.folder.run_folder import RunFolder
    from youden.engines.database import MEMORY
    from youden.practice.labels.matching import aliases_of
    from youden.practice.labels.validation import open_labels, validate
    from youden.report.data.summary import summarise_run
    from youden.run.engine import fit
    from youden.run.robust.rules import changed_rules

    folder = RunFolder(run)
    table = None
    if labels is not None:
        pool = folder.read_pool()
        table = open_labels(labels, pool.agent_ids, aliases=aliases_of(pool.agents))
    families = None if families_file is None else read_families(families_file)
    rules = changed_rules(folder, robust=robust, trusted=trusted, families=families)
    fit(folder, target=target, rules=rules, engine=engine, memory=memory or MEMORY, rates=rates)
    if table is not None:
        validate(folder, table)
    ranking.show_result(summarise_run(folder), as_json=as_json)
