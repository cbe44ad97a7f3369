"""Commands on kept answers: store, cassette.

`youden cassette …`: the requests and answers of a run or a generated pool as a file for version control, and back.

`youden store copy A… B`: answers from stores to a store; `youden store batches`: what is under way.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli import options, output
from youden.cli.options import SuggestingGroup
from youden.errors import ConfigError, InputError
from youden.text.printable import redact_location
from youden.text.sentences import format_count

if TYPE_CHECKING:
    from youden.types.pool import Json

FELL_SHORT = 1

file = click.argument("file", type=click.Path(path_type=Path))
source = click.argument("source", type=click.Path(path_type=Path), metavar="RUN|POOL")


@click.group("cassette", cls=SuggestingGroup)
def cassette_command() -> None:
    """Keep requests and answers as a file, to test and to share.

    A cassette is what a judge, or the models behind a generated pool, were asked and answered, as JSON lines. It is sorted by
    key and holds no keys, times or headers, so that the same answers make the same file.
    """


@cassette_command.command("export")
@source
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The file to write.")
@click.option("--redact", is_flag=True, help="Keep sha256 hashes in place of texts (of a RUN).")
@options.open_store
@options.json
def export(source: Path, out: Path, redact: bool, as_json: bool) -> None:
    """Write the requests and answers of RUN, or of POOL, into --out.

    A POOL is one that `youden generate` made. Requests are rebuilt from the run's config, pool and plan, or from the pool's
    generation.json and items; answers come from its store. Nothing is asked.
    """
    from youden.pools.run_cassettes import export_cassette

    done = export_cassette(source, out, redacted=redact)
    said = (
        f"{format_count(done.n_answers, 'answer')} and {format_count(done.n_failures, 'failure')} in {out}; "
        f"{format_count(done.n_unanswered, 'request')} of {source} unanswered"
    )
    output.tell(as_json, {"file": str(out), **asdict(done)}, notes=[said])


@cassette_command.command("import")
@file
@click.option("--store", required=True, metavar="STORE", help="A path or sqlite:///path; made where there is none.")
@options.json
def import_(file: Path, store: str, as_json: bool) -> None:
    """Put the answers of FILE into --store.

    Answers that the store already has stay as they are. A run, or `youden generate`, with this store then asks only what FILE
    does not hold, and with `judge: replay`, or --replay, nobody.
    """
    from youden.pools.run_cassettes import import_cassette

    done = import_cassette(file, store)
    said = f"{done.n_added:,} added to {redact_location(store)}, {done.n_kept:,} were there already"
    output.tell(as_json, {"store": redact_location(store), **asdict(done)}, notes=[said])


@cassette_command.command("verify")
@file
@click.argument("source", type=click.Path(path_type=Path), metavar="[RUN|POOL]", required=False)
@options.open_store
@options.json
def verify(file: Path, source: Path | None, as_json: bool) -> int:
    """Check FILE, and whether it answers all of RUN or POOL.

    A POOL is one that `youden generate` made. Every line has to fit the schema and be there once, every key has to follow
    from its request. Problems go to standard output. Exit codes: 0 whole, 1 more is asked than FILE holds, 2 FILE is damaged.
    """
    from youden.judging.offline.cassette_file import check_cassette
    from youden.pools.run_cassettes import find_missing_requests

    cassette, problems = check_cassette(file)
    missing = {} if source is None else find_missing_requests(cassette, source)
    found: dict[str, Json] = {
        "file": str(file),
        "n_answers": cassette.n_answers,
        "n_failures": len(cassette.entries) - cassette.n_answers,
        "n_redacted": cassette.n_redacted,
        "problems": list(problems),
        "missing": list(missing),
    }
    beside = "" if source is None else f"; {format_count(len(missing), 'request')} of {source} missing"
    said = (
        f"{len(cassette.entries):,} entries, {cassette.n_redacted:,} of them redacted (their keys cannot be checked); "
        f"{format_count(len(problems), 'problem')}{beside}"
    )
    lines = [*problems, *(f"missing: {key} ({which})" for key, which in missing.items())]
    output.tell(as_json, found, words=lines, notes=[said])
    if problems:
        raise InputError(
            f"{file} has {len(problems)} damaged lines. Take it from version control, or export it again.",
            slug="cassette",
        )
    return FELL_SHORT if missing else 0


@click.group("store", cls=SuggestingGroup)
def store_command() -> None:
    """Copy answers between stores; see which batches are under way."""


@store_command.command("copy")
@click.argument("sources", metavar="SOURCE…", nargs=-1, required=True)
@click.argument("target")
@options.json
def copy(sources: tuple[str, ...], target: str, as_json: bool) -> None:
    """Put all that every SOURCE holds into TARGET, made where there is none.

    Each is a path, or postgresql://USER@HOST/DATABASE. What TARGET has stays, and of two answers to one request the first stands;
    the same command goes on where it broke off. A run whose `store:` is TARGET asks only what no SOURCE holds.
    """
    from youden.judging.store.copying import copy_stores

    done = copy_stores(sources, target)
    said = f"{done.n_new:,} of {done.n_answers:,} answers are new in {redact_location(target)}"
    output.tell(as_json, {"store": redact_location(target), **asdict(done)}, notes=[said])


@store_command.command("batches")
@click.argument("store")
@click.option("--forget", metavar="BATCH", help="Give its answers up: its requests are asked again.")
@options.json
def batches(store: str, forget: str | None, as_json: bool) -> None:
    """Show the batches that STORE knows to be under way at a provider.

    Any host goes on with them: `youden judge CONFIG --mode batch` with this store waits for those that nobody waits for.
    """
    from youden.judging.store.answers import open_store
    from youden.judging.store.leases import list_jobs

    with open_store(store, read_only=forget is None) as opened:
        found = list_jobs(opened.place)
        if forget is not None:
            named = [one for one in found if forget in (one.batch, one.id)]
            if not named:
                raise ConfigError(
                    f"{opened.name} knows of no batch {forget}. `youden store batches {opened.name}` names them.",
                    slug="batch-none",
                )
            for one in named:
                opened.place.forget_batch(one.id)
            found = [one for one in found if one not in named]
    lines = [
        f"{one.batch or one.id}: {format_count(len(one.keys), 'request')} to {one.model} at {one.address}"
        for one in found
    ]
    lines.append(f"{len(found):,} {'batch is' if len(found) == 1 else 'batches are'} under way")
    told: list[Json] = [
        {
            "id": one.id,
            "address": one.address,
            "model": one.model,
            "batch": one.batch,
            "n_requests": len(one.keys),
            "created": one.created,
        }
        for one in found
    ]
    output.tell(as_json, {"store": opened.name, "batches": told}, notes=lines)
