"""`youden cassette …`: the requests and answers of a run or a generated pool as a file for version control, and back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from youden.cli.terms import options, show
from youden.cli.terms.groups import Suggesting
from youden.text.places import shown

FELL_SHORT = 1

file = click.argument("file", type=click.Path(path_type=Path))
source = click.argument("source", type=click.Path(path_type=Path), metavar="RUN|POOL")


@click.group("cassette", cls=Suggesting)
def cassette_command() -> None:
    """Keep requests and answers as a file, to test and to share.

    A cassette is what a judge, or the models behind a generated pool, were asked and answered, as JSON lines. It is sorted by
    key and holds no keys, times or headers, so that the same answers make the same file.
    """


@cassette_command.command("export")
@source
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The file to write.")
@click.option("--redact", is_flag=True, help="Keep sha256 hashes in place of texts (of a RUN).")
@options.json
def export(source: Path, out: Path, redact: bool, as_json: bool) -> None:
    """Write the requests and answers of RUN, or of POOL, into --out.

    A POOL is one that `youden generate` made. Requests are rebuilt from the run's config, pool and plan, or from the pool's
    generation.json and items; answers come from its store. Nothing is asked.
    """
    from youden.pools.bring.cassettes import export_cassette

    done = export_cassette(source, out, redacted=redact)
    if as_json:
        show.print_json({"file": str(out), **asdict(done)})
    else:
        show.note(
            f"{done.n_answers:,} answers and {done.n_failures:,} failures in {out}; "
            f"{done.n_unanswered:,} requests of {source} are unanswered"
        )


@cassette_command.command("import")
@file
@click.option("--store", required=True, metavar="STORE", help="A path or sqlite:///path; made where there is none.")
@options.json
def import_(file: Path, store: str, as_json: bool) -> None:
    """Put the answers of FILE into --store.

    Answers that the store already has stay as they are. A run, or `youden generate`, with this store then asks only what FILE
    does not hold, and with `judge: replay`, or --replay, nobody.
    """
    from youden.pools.bring.cassettes import import_cassette

    done = import_cassette(file, store)
    if as_json:
        show.print_json({"store": shown(store), **asdict(done)})
    else:
        show.note(f"{done.n_added:,} added to {shown(store)}, {done.n_kept:,} were there already")


@cassette_command.command("verify")
@file
@click.argument("source", type=click.Path(path_type=Path), metavar="[RUN|POOL]", required=False)
@options.json
def verify(file: Path, source: Path | None, as_json: bool) -> int:
    """Check FILE, and whether it answers all of RUN or POOL.

    A POOL is one that `youden generate` made. Every line has to fit the schema and be there once, every key has to follow
    from its request. Problems go to standard output. Exit codes: 0 whole, 1 more is asked than FILE holds, 2 FILE is damaged.
    """
    from youden.errors import InputError
    from youden.judging.cassette.lines import check_cassette
    from youden.pools.bring.cassettes import missing_requests

    cassette, problems = check_cassette(file)
    missing = {} if source is None else missing_requests(cassette, source)
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
        for line in [*problems, *(f"missing: {key} ({which})" for key, which in missing.items())]:
            click.echo(show.safe(line))
        show.note(
            f"{len(cassette.entries):,} entries, {cassette.n_redacted:,} of them redacted (their keys cannot be checked); "
            f"{len(problems):,} problems"
            + ("" if source is None else f"; {len(missing):,} requests of {source} are missing")
        )
    if problems:
        raise InputError(
            f"{file} has {len(problems)} damaged lines. Take it from version control, or export it again.",
            slug="cassette",
        )
    return FELL_SHORT if missing else 0
