"""`youden cassette …`: a run's requests and answers as a file for version control, and back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from youden.cli import options, show

FELL_SHORT = 1

file = click.argument("file", type=click.Path(path_type=Path))


@click.group("cassette")
def command() -> None:
    """Keep what a judge was asked and answered as JSON lines, to test and to share.

    A cassette is sorted by key and holds no keys, times or headers, so that the same answers make the same file.
    """


@command.command("export")
@options.run
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The file to write.")
@click.option("--redact", is_flag=True, help="Keep sha256 hashes in place of texts.")
@options.json
def export(run: Path, out: Path, redact: bool, as_json: bool) -> None:
    """Write the answers to the requests of RUN into --out.

    Requests are rebuilt from the run's config, pool and plan; answers come from its store. Nothing is asked.
    """
    from youden.cassettes import export_cassette
    from youden.data.run_folder import RunFolder

    done = export_cassette(RunFolder(run), out, redacted=redact)
    if as_json:
        show.print_json({"file": str(out), **asdict(done)})
    else:
        show.note(
            f"{done.n_answers:,} answers and {done.n_failures:,} failures in {out}; "
            f"{done.n_unanswered:,} requests of the run are unanswered"
        )


@command.command("import")
@file
@click.option("--store", required=True, metavar="STORE", help="A path or sqlite:///path; made where there is none.")
@options.json
def import_(file: Path, store: str, as_json: bool) -> None:
    """Put the answers of FILE into --store.

    Answers that the store already has stay as they are. A run with this store then asks only what FILE does not hold.
    """
    from youden.cassettes import import_cassette

    done = import_cassette(file, store)
    if as_json:
        show.print_json({"store": store, **asdict(done)})
    else:
        show.note(f"{done.n_added:,} added to {store}, {done.n_kept:,} were there already")


@command.command("verify")
@file
@click.argument("run", type=click.Path(path_type=Path), required=False)
@options.json
@click.pass_context
def verify(ctx: click.Context, file: Path, run: Path | None, as_json: bool) -> int:
    """Check FILE, and whether it answers all of RUN.

    Every line has to fit the schema and be there once, every key has to follow from its request. Problems go to standard
    output. Exit codes: 0 whole, 1 RUN asks what FILE does not hold, 2 FILE is damaged.
    """
    from youden.cassettes import missing_keys
    from youden.data.run_folder import RunFolder
    from youden.errors import InputError
    from youden.judging.cassette import check_cassette

    cassette, problems = check_cassette(file)
    missing = [] if run is None else missing_keys(cassette, RunFolder(run))
    if as_json:
        show.print_json(
            {
                "file": str(file),
                "n_answers": cassette.n_answers,
                "n_failures": len(cassette.entries) - cassette.n_answers,
                "n_redacted": cassette.n_redacted,
                "problems": list(problems),
                "missing": list(missing),
            }
        )
    else:
        for line in [*problems, *(f"missing: {key}" for key in missing)]:
            click.echo(show.safe(line))
        show.note(
            f"{len(cassette.entries):,} entries, {cassette.n_redacted:,} of them redacted (their keys cannot be checked); "
            f"{len(problems):,} problems" + ("" if run is None else f"; {len(missing):,} requests of {run} are missing")
        )
    if problems:
        raise InputError(
            f"{file} has {len(problems)} damaged lines. Take it from version control, or export it again.",
            slug="cassette",
        )
    return FELL_SHORT if missing else 0
