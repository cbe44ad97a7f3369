"""`youden export SOURCE OUT`: a pool or a run for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from youden.cli.terms import options, show


@click.command("export")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "name",
    default="tables",
    show_default=True,
    metavar="FORMAT",
    help="tables, eee, hf, hf-space, schema, or a package's own.",
)
@click.option("--overwrite", is_flag=True, help="Replace files that are there. Folders are never replaced.")
@click.option("--organization", metavar="NAME", help="Who made this run, for eee, which asks.")
@click.option(
    "--push", "repo", metavar="OWNER/NAME", help="Also put it on the Hugging Face Hub (hf, hf-space), privately."
)
@click.option("--public", is_flag=True, help="With --push: a repository that is new can be seen by everybody.")
@options.json
def export_command(
    *,
    source: Path,
    out: Path,
    name: str,
    overwrite: bool,
    organization: str | None,
    repo: str | None,
    public: bool,
    as_json: bool,
) -> None:
    """Write a pool or a run to OUT, for other tools.

    SOURCE is a pool or a run's folder.

    tables: a file, by its ending .csv, .jsonl, .parquet or .duckdb. A pool becomes one tidy table (agent, item, text, prompt,
    group), which `youden run` reads again as .csv or .parquet. A run becomes its tables ranking, items and trials: in a .duckdb
    together, else in a file each.

    The others write a new folder. eee: a run in the schema of Every Eval Ever, a file for each agent. hf: a pool or a run as a
    dataset of the Hugging Face Hub, with a card. hf-space: a run's report as a static Space. schema: the JSON Schema of each of
    a run's files.
    """
    from youden.data.exporters import EXPORTERS
    from youden.data.exporters.hub import check_push, push
    from youden.data.exporters.terms import Terms
    from youden.data.folder.run_folder import RunFolder
    from youden.data.pools.reader import read_pool
    from youden.text.printable import printable

    if public and repo is None:
        raise click.UsageError("--public is of a push. Add --push OWNER/NAME, or leave it out.")
    exporter = EXPORTERS.load(name)
    if repo is not None:
        check_push(name)
    folder = RunFolder(source)
    read = folder if folder.has("pool.json") else read_pool(source)
    written = exporter(read, out, terms=Terms(overwrite, organization))
    address = None if repo is None else push(out, repo, name, public=public)
    for line in written.notes:
        show.note(line)
    if as_json:
        show.print_json({"files": [str(file) for file in written.files], "rows": dict(written.rows), "pushed": address})
        return
    for line in (*map(str, written.files), *([address] if address else [])):
        click.echo(printable(line))
