"""Commands that ask a judge: run, plan, judge.

`youden plan CONFIG`: which calls a run would make and what they would cost, before anything runs.

`youden run CONFIG`: plan, judge, fit and report in one go.

`youden judge CONFIG`: ask the judge everything the plan asks and the store does not hold.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from youden.cli import options, output, progress, run_options
from youden.cli.options import Number
from youden.errors import ConfigError
from youden.progress_bar import progress_bar
from youden.text.sentences import format_count
from youden.text.tables import format_decimal

if TYPE_CHECKING:
    from youden.data.folder.run_config import RunConfig
    from youden.pipeline.judged_run import PlannedRun
    from youden.types import Verdicts
    from youden.types.pool import Json


@click.command("plan")
@options.config
@run_options.of_config(*run_options.keys_of("plan"))
@click.option(
    "--export",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write what has still to be asked into this new folder, for an engine of your own to answer.",
)
@click.option(
    "--format",
    type=click.Choice(["jsonl", "parquet"]),
    help="Format of the export: jsonl (lines as a Batch API and `vllm run-batch` read them) or parquet. [default: jsonl]",
)
@click.option(
    "--shards",
    type=click.IntRange(min=1),
    metavar="N",
    help="Files of the export, alike in size. [default: 1]",
)
@options.open_store
@options.json
def plan_command(
    *,
    config: Path,
    said: run_options.Said,
    export: Path | None,
    format: Literal["jsonl", "parquet"] | None,
    shards: int | None,
    as_json: bool,
) -> None:
    """Draw the plan of CONFIG and say what it would cost.

    Writes config.yaml, pool.json and plan.parquet into the run's folder; asks no judge and spends nothing. What an export asks is
    answered elsewhere and comes back by `youden judge CONFIG --import ANSWERS`.
    """
    chosen = run_options.run_config(config, said)
    from youden.judging.store.permission import check_store_allowed
    from youden.pipeline.judged_run import plan_run
    from youden.protocol.coverage import compute_coverage

    options.refuse(
        (
            export is None and (format is not None or shards is not None),
            "--format and --shards are of an export. Add --export DIR, or leave them out.",
        )
    )
    planned = plan_run(chosen)
    expected = output.show_run_plan(planned)
    if planned.judge.needs_store:
        try:
            check_store_allowed(planned.config.store_location)
        except ConfigError as error:
            if export is not None:
                raise
            output.warn([str(error)])
    exported: dict[str, Json] = {}
    if export is not None:
        exported = {"export": _exported(planned, config, export, format=format or "jsonl", shards=shards or 1)}
    if as_json:
        output.print_json(
            {
                "run": str(planned.folder.path),
                "judge": planned.judge.name,
                "design": planned.plan.design,
                "dense_calls": planned.plan.n_dense_calls,
                "expected": expected.to_json(),
                "cost": asdict(planned.cost),
                "coverage": asdict(compute_coverage(planned.plan)),
                "notes": list(planned.plan.notes),
                **exported,
            }
        )
    elif export is None:
        output.note(
            f"plan written to {planned.folder.path}; judge it with: youden judge {planned.folder.file('config.yaml')}"
        )


def _exported(
    planned: PlannedRun, config: Path, folder: Path, *, format: Literal["jsonl", "parquet"], shards: int
) -> dict[str, Json]:
    from youden.pipeline.offline import export_run, find_stage

    stage = find_stage(planned)
    n_requests, files = export_run(planned, stage, folder, format=format, shards=shards)
    if not n_requests:
        output.note(f"nothing is left to ask, so {folder} was not written; go on with: youden judge {config} --import")
    else:
        output.note(
            f"{format_count(n_requests, 'request')} exported to {folder} in {format_count(len(files), 'file')}; "
            "bring their answers back with: "
            f"youden judge {config} --import ANSWERS"
        )
        if stage.describe():
            output.note(stage.describe())
    return {
        "folder": str(folder),
        "requests": n_requests,
        "files": [str(file) for file in files],
        "round": stage.round,
    }


@click.command("run")
@options.config
@run_options.of_config(*run_options.keys_of("run"))
@run_options.asking
@options.labels
@progress.option
@options.shown
def run_command(
    *,
    config: Path,
    said: run_options.Said,
    asking: run_options.Terms,
    labels: Path | None,
    to_mlflow: bool,
    how: options.Shown,
) -> None:
    """Rank the agents of CONFIG, from its pool to report.html.

    The plan and its cost are shown before anything is asked. The same command resumes a run that was stopped. The last line says
    who won, or what would settle it, and where the report is, which says the rest.

    Ability is how well others' responses let the judge recognise the same source, relative to this pool, this judge and these
    items. It rewards restating what others can be matched to (obscure or bureaucratic styles stand high, terse references low),
    and is no proof of correctness.
    """
    chosen = run_options.run_config(config, said)
    from youden.pipeline.judged_run import plan_run
    from youden.runs.run_object import judge_and_rank

    if to_mlflow:
        progress.check()
    planned = plan_run(chosen)
    output.show_run_plan(planned, how)
    with nullcontext() if how == "quiet" else progress_bar() as bar:
        run = judge_and_rank(planned, asking(progress=bar), labels=labels)
    why = run.plan.notes[-1] if run.plan.rounds is not None else ""
    output.show_asked(planned.folder, run.summary, how, why=why)
    if to_mlflow:
        progress.log(planned.folder)


@click.command("judge")
@options.config
@click.argument("answers", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option(
    "--import",
    "importing",
    is_flag=True,
    help="Ask nothing: take ANSWERS, files or folders in which an engine of your own answered a `youden plan --export`.",
)
@run_options.of_config(*run_options.keys_of("judge"))
@run_options.asking
@click.option(
    "--mode",
    type=click.Choice(["calls", "batch"]),
    default="calls",
    help="batch: through the provider's Batch API, slower and cheaper.",
)
@click.option(
    "--poll",
    type=Number(min=0, min_open=True),
    metavar="SECONDS",
    help="With --mode batch: how often batches are looked at. [default: 30]",
)
@click.option(
    "--engine",
    type=click.Choice(["ray"]),
    help="ray: workers on the Ray cluster of RAY_ADDRESS, or on one of this machine, ask instead of this process.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --engine ray: how many. [default: `ray: {workers: N}` in CONFIG, else one a node]",
)
@click.option(
    "--worker",
    is_flag=True,
    help="Help whoever judges this run, on this machine or another: ask into the same --store, under the same cap. It writes no "
    "file, and ends when the plan is answered.",
)
@options.json
def judge_command(
    *,
    config: Path,
    answers: tuple[Path, ...],
    importing: bool,
    said: run_options.Said,
    asking: run_options.Terms,
    mode: str,
    poll: float | None,
    engine: str | None,
    workers: int | None,
    worker: bool,
    as_json: bool,
) -> None:
    """Ask the judge what CONFIG plans and has no answer yet.

    The plan and its cost are shown first. Answers go to the store as they come; the same command resumes where it was, also
    while a batch is under way at the provider. Writes verdicts.parquet into the run's folder.

    With --import nothing is asked: ANSWERS are taken into the store, any number of times, in any order, and verdicts are written
    once every trial has one.
    """
    batch = mode == "batch"
    options.refuse(
        (
            answers and not importing,
            f"{answers[:1] and answers[0]} would be answers to take. Add --import, or leave it out.",
        ),
        (poll is not None and not batch, "--poll goes with --mode batch: nothing else is waited for."),
        (
            importing and (batch or asking().retry_failed),
            "--import asks nothing, so --mode batch and --retry-failed mean nothing beside it.",
        ),
        (engine is None and workers is not None, "--workers goes with --engine ray."),
        (
            engine is not None and (importing or batch or asking().log is not None),
            "--engine ray goes without --import, --mode batch and --log: its workers ask call by call.",
        ),
        (
            worker and (importing or engine is not None or batch),
            "--worker asks call by call beside whoever judges the run: leave --import, --engine and --mode batch to that one.",
        ),
    )
    chosen = run_options.run_config(config, said)
    from youden.engines.block_sums import count_calls
    from youden.judging.scheduler.options import POLL_SECONDS, make_batch_options
    from youden.pipeline.judged_run import judge_run, plan_run

    if worker:
        _help_out(chosen, asking, as_json=as_json)
        return
    planned = plan_run(chosen, batched=batch)
    output.show_run_plan(planned)
    if importing:
        result = _imported(planned, answers, asking)
    elif batch:
        seconds = POLL_SECONDS if poll is None else poll
        batching = make_batch_options(
            "batch", poll=seconds, on_status=output.note, folder=planned.folder.path / "batches"
        )
        result = judge_run(planned, asking(batching=batching))
    elif engine is not None:
        from youden.pipeline.offline import collect_answers_on_ray, resolve_placement

        with progress_bar() as bar:
            placing = resolve_placement(planned.config, workers=workers, on_message=output.note)
            result = judge_run(planned, asking(progress=bar), collect=partial(collect_answers_on_ray, placing=placing))
    else:
        with progress_bar() as bar:
            result = judge_run(planned, asking(progress=bar))
    output.warn(result.warnings)
    calls = count_calls(result)
    if as_json:
        output.print_json({"run": str(planned.folder.path), "judge": planned.judge.name, "calls": asdict(calls)})
    else:
        output.note(
            f"{output.bill_words(result.warnings)}{calls.n_calls - calls.n_missing:,} of {calls.n_calls:,} answered, "
            f"{f'{calls.n_reused:,} of them asked before this run, ' if calls.n_reused else ''}"
            f"{_spent(calls.usd)} spent in all passes"
            f"{f', ${format_decimal(calls.usd_calibration, 4)} of it by its calibration' if calls.usd_calibration else ''}; "
            f"rank with: youden fit {planned.folder.path}"
        )


def _spent(usd: float | None) -> str:
    return "an amount that nobody knows was" if usd is None else f"${usd:.4f}"


def _imported(planned: PlannedRun, answers: tuple[Path, ...], asking: run_options.Terms) -> Verdicts:
    from youden.judging.scheduler.options import JudgingOptions as Terms
    from youden.pipeline.judged_run import judge_run
    from youden.pipeline.offline import import_run

    if answers:
        taken = import_run(planned, answers)
        for said in taken.sentences():
            output.note(said)
        if taken.n_new:
            output.note("what these answers cost was spent elsewhere and is not known here")
    return judge_run(planned, Terms(stored_only=True, log=asking().log))


def _help_out(config: RunConfig, asking: run_options.Terms, *, as_json: bool) -> None:
    from youden.judging.config.judge_files import load_judge_of_run
    from youden.pipeline.offline import run_worker

    output.note_connections(load_judge_of_run(config))
    with progress_bar() as bar:
        result = run_worker(config, asking(progress=bar))
    n_answered, n = int(result.answered.sum()), len(result)
    said = f"{n_answered:,} of {n:,} answered, by all who asked; the run's folder is written by: youden judge CONFIG"
    output.tell(as_json, {"worker": True, "calls": n, "answered": n_answered}, notes=[said])
