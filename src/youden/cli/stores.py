"""Define the commands on stored answers: `cassette` and `store`.

A cassette is a file for version control; a store is a database that runs share. Neither command sends requests.
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
    from collections.abc import Sequence

    from youden.judging.offline.cassette_file import Cassette
    from youden.judging.store.answers import Store
    from youden.judging.store.leases import Job
    from youden.types.pool import Json

INCOMPLETE = 1
"""Exit code of `cassette verify` if answers are missing."""

file = click.argument("file", type=click.Path(path_type=Path))
source = click.argument("source", type=click.Path(path_type=Path), metavar="RUN|POOL")


@click.group("cassette", cls=SuggestingGroup)
def cassette_command() -> None:
    """Save requests and answers as a file, for tests and sharing.

    A cassette contains the requests to a judge, or to the models of a generated pool, with their answers, as JSON lines. It is
    sorted by request hash and contains no API keys, times or headers, so that the same answers give the same file.
    """


@cassette_command.command("export")
@source
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="File to write.")
@click.option("--redact", is_flag=True, help="Replace texts by their SHA-256 hashes (RUN only).")
@options.open_store_option
@options.json
def export(source: Path, out: Path, redact: bool, as_json: bool) -> None:
    """Write the requests and answers of RUN or POOL to a cassette.

    A cassette is a file of requests and answers from which a run can be repeated without a model.

    POOL is a pool made by `youden generate`. Requests are reconstructed from the config, pool and plan of the run, or from
    generation.json and the items of the pool. Answers and failures are read from the store. Requests with neither an answer nor a
    failure are left out. An existing FILE is replaced. With --redact, for runs only, the texts of requests and answers are
    replaced by hashes; runs can still be replayed from such a cassette.
    """
    from youden.pools.run_cassettes import export_cassette

    counts = export_cassette(source, out, redacted=redact)
    note = (
        f"{format_count(counts.n_answers, 'answer')} and {format_count(counts.n_failures, 'failure')} in {out}; "
        f"{format_count(counts.n_unanswered, 'request')} of {source} unanswered"
    )
    output.print_result(as_json, {"file": str(out), **asdict(counts)}, notes=[note])


@cassette_command.command("import")
@file
@click.option("--store", required=True, metavar="STORE", help="Path or sqlite:///path; created if it does not exist.")
@options.json
def import_(file: Path, store: str, as_json: bool) -> None:
    """Import the answers and failures of a cassette, FILE, into a store.

    Existing answers and failures in the store do not change. With this store, `youden run` and `youden generate` then send only
    requests that FILE does not answer. With `judge: replay` or --replay, they send none.
    """
    from youden.pools.run_cassettes import import_cassette

    counts = import_cassette(file, store)
    note = f"{counts.n_added:,} added to {redact_location(store)}, {counts.n_kept:,} already stored"
    output.print_result(as_json, {"store": redact_location(store), **asdict(counts)}, notes=[note])


@cassette_command.command("verify")
@file
@click.argument("source", type=click.Path(path_type=Path), metavar="[RUN|POOL]", required=False)
@options.open_store_option
@options.json
def verify(file: Path, source: Path | None, as_json: bool) -> int:
    """Check FILE, and whether it answers all requests of RUN or POOL.

    POOL is a pool made by `youden generate`. Each line must match the schema and be unique, and its hash must match its request.
    Problems are written to standard output. Exit codes: 0 complete; 1 requests have no answer in FILE; 2 FILE is damaged.
    """
    from youden.judging.offline.cassette_file import check_cassette
    from youden.pools.run_cassettes import find_missing_requests

    cassette, problems = check_cassette(file)
    missing_requests = {} if source is None else find_missing_requests(cassette, source)
    result: dict[str, Json] = {
        "file": str(file),
        "n_answers": cassette.n_answers,
        "n_failures": len(cassette.entries) - cassette.n_answers,
        "n_redacted": cassette.n_redacted,
        "problems": list(problems),
        "missing": list(missing_requests),
    }
    missing_lines = [f"missing: {key} ({description})" for key, description in missing_requests.items()]
    n_problems = format_count(len(problems), "problem")
    note = f"{_count_entries(cassette)}; {n_problems}"
    if source is not None:
        note += f"; {format_count(len(missing_requests), 'request')} of {source} missing"
    output.print_result(as_json, result, lines=[*problems, *missing_lines], notes=[note])

    # the error follows the complete result, which contains all problems
    if problems:
        raise InputError(
            f"{file} is damaged: got {n_problems}. Restore it from version control, or export it again.",
            slug="cassette",
        )
    return INCOMPLETE if missing_requests else 0


def _count_entries(cassette: Cassette) -> str:
    """Describe the number of entries of a cassette, and how many are redacted, so that their hashes cannot be checked."""
    n_entries, n_redacted = len(cassette.entries), cassette.n_redacted
    return f"{n_entries:,} entries, {n_redacted:,} of them redacted (their hashes cannot be checked)"


@click.group("store", cls=SuggestingGroup)
def store_command() -> None:
    """Copy answers between stores, and list batches in progress."""


@store_command.command("copy")
@click.argument("sources", metavar="SOURCE…", nargs=-1, required=True)
@click.argument("target")
@options.json
def copy(sources: tuple[str, ...], target: str, as_json: bool) -> None:
    """Copy the answers of each SOURCE to the store TARGET.

    SOURCE and TARGET are paths, or postgresql://USER@HOST/DATABASE; TARGET is created if it does not exist. Existing answers in
    TARGET do not change, and of two answers to the same request, the first is kept. Failures and costs are copied, too. It is an
    error if a SOURCE does not exist. Run the same command again to resume.
    """
    from youden.judging.store.copying import copy_stores

    counts = copy_stores(sources, target)
    note = f"new answers: {counts.n_new:,} of {counts.n_answers:,}, in {redact_location(target)}"
    output.print_result(as_json, {"store": redact_location(target), **asdict(counts)}, notes=[note])


@store_command.command("batches")
@click.argument("store")
@click.option("--forget", metavar="BATCH", help="Discard this batch, so that its requests are sent again.")
@options.json
def batches(store: str, forget: str | None, as_json: bool) -> None:
    """List the batches of STORE in progress at a provider.

    Any host can resume them. `youden judge CONFIG --mode batch` with this store waits for the batches of its run, and
    for batches of other runs that contain requests of its plan. If another process waits for a batch, the command waits for
    that process.
    --forget BATCH removes a batch from the list, so that its requests are sent again. The provider does not cancel the batch, so
    you may pay for its requests twice. A batch that is not in the list is an error.
    """
    from youden.judging.store.answers import open_store
    from youden.judging.store.leases import read_pending_jobs

    with open_store(store, read_only=forget is None) as opened:
        jobs = read_pending_jobs(opened.backend)  # a job is the record of a batch in the store
        if forget is not None:
            forgotten = _forget_batch(opened, jobs, forget)
            jobs = [job for job in jobs if job not in forgotten]

    records: list[Json] = [_job_to_json(job) for job in jobs]
    notes = [_describe_job(job) for job in jobs]
    notes.append(f"{len(jobs):,} {'batch' if len(jobs) == 1 else 'batches'} in progress")
    output.print_result(as_json, {"store": opened.name, "batches": records}, notes=notes)


def _describe_job(job: Job) -> str:
    """Describe a batch by its id, its number of requests, its model, the address of the provider and the run that sent it."""
    n_requests = format_count(len(job.keys), "request")
    sender = "" if job.account is None else f", sent by the run {job.account}"
    return f"{job.batch or job.id}: {n_requests} to {job.model} at {job.address}{sender}"


def _forget_batch(store: Store, jobs: Sequence[Job], name: str) -> list[Job]:
    """Delete the record of a batch from a store, so that the requests of the batch are sent again.

    A batch is a file of requests that a provider answers later. The provider does not cancel the batch.

    jobs : records of all batches in the store
    name : id that the provider gave the batch, or the id of the record if the provider has not given one

    Returns the deleted records.
    Raises: ConfigError [batch-none] if the store has no batch of this name.
    """
    forgotten = [job for job in jobs if name in (job.batch, job.id)]
    if not forgotten:
        raise ConfigError(
            f"{store.name} contains no batch {name}. Run `youden store batches {store.name}` to list the batches.",
            slug="batch-none",
        )
    for job in forgotten:
        store.backend.delete_batch(job.id)
    return forgotten


def _job_to_json(job: Job) -> dict[str, Json]:
    return {
        "id": job.id,
        "address": job.address,
        "model": job.model,
        "account": job.account,
        "batch": job.batch,
        "n_requests": len(job.keys),
        "created": job.created,
    }
