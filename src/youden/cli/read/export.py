"""`youden export SOURCE FILE`: a pool or a run's tables for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from youden.cli.terms import options, show


@click.command("export")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@options.json
def command(source: Path, file: Path, as_json: bool) -> None:
    """Write a pool or a run as a table for other tools.

    SOURCE is a pool or a run's folder; FILE ends in .csv, .jsonl, .parquet or .duckdb. A pool becomes one tidy table (agent,
    item, text, prompt, group), which `youden run` reads again as .csv or .parquet. A run becomes its tables ranking, items
    and trials: in a .duckdb together, else in a file each.
    """
    from youden.data.exporting import pool_table, run_tables, write_tables
    from youden.data.folder.run_folder import RunFolder
    from youden.data.pools.reader import read_pool

    folder = RunFolder(source)
    tables = run_tables(folder) if folder.has("pool.json") else {"responses": pool_table(read_pool(source))}
    files = write_tables(file, tables)
    if as_json:
        show.print_json(
            {"files": [str(written) for written in files], "rows": {name: len(table) for name, table in tables.items()}}
        )
    else:
        for written in files:
            click.echo(str(written))
