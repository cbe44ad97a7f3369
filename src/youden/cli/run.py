"""Define the commands `plan`, `judge` and `run`.

The plan and its cost are printed before any request is sent; answers that are in the store are not requested again.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from youden.cli import options, output, progress, run_options
from youden.cli.options import Number, explain_ability
from youden.errors import ConfigError
from youden.progress_bar import progress_bar
from youden.text.printable import format_command
from youden.text.sentences import format_count
from youden.text.tables import format_decimal

if TYPE_CHECKING:
    from youden.data.folder.run_config import RunConfig
    from youden.pipeline.judged_run import PlannedRun
    from youden.pipeline.precision import PrecisionForecast
    from youden.types import Verdicts
    from youden.types.facts import CallFacts
    from youden.types.pool import Json


@click.command("plan")
@options.config
@run_options.config_options(*run_options.keys_for_command("plan"))
@click.option(
    "--export",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write the remaining requests to this new folder, to be answered by another inference engine.",
)
@click.option(
    "--format",
    type=click.Choice(["jsonl", "parquet"]),
    help="Format of the export: jsonl (for Batch APIs and `vllm run-batch`) or parquet. [default: jsonl]",
)
@click.option(
    "--shards",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of files of the export, of equal size. [default: 1]",
)
@options.open_store_option
@options.json
def plan_command(
    *,
    config: Path,
    overrides: run_options.Overrides,
    export: Path | None,
    format: Literal["jsonl", "parquet"] | None,
    shards: int | None,
    as_json: bool,
) -> None:
    """Plan the trials of CONFIG and estimate their cost.

    Writes config.yaml, pool.json and plan.parquet to the folder of the run. No request is sent. --export writes the requests
    without an answer to a new folder, so that another engine can answer them. The folder gets --shards files (default 1) in the
    --format jsonl (default) or parquet. Import the answers with `youden judge CONFIG --import ANSWERS`.
    """
    run_config = run_options.load_config(config, overrides)
    from youden.judging.store.permission import check_store_allowed
    from youden.pipeline.judged_run import plan_run

    options.check_usage(
        (
            export is None and (format is not None or shards is not None),
            "--format and --shards require an export. Add --export DIR, or remove them.",
        )
    )
    planned = plan_run(run_config)
    forecast = output.print_run_plan(planned)
    if planned.judge.needs_store:
        try:
            check_store_allowed(planned.config.store_location)
        except ConfigError as error:
            if export is not None:  # an export reads the store
                raise
            output.print_warnings([str(error)])

    export_summary: dict[str, Json] | None = None
    if export is not None:
        export_summary = _export_requests(planned, config, export, format=format or "jsonl", shards=shards or 1)

    if as_json:
        result = _plan_to_json(planned, forecast)
        if export_summary is not None:
            result["export"] = export_summary
        output.print_json(result)
    elif export_summary is None:
        output.print_note(f"plan written to {planned.folder.path}; next: {planned.folder.format_command()}")


def _plan_to_json(planned: PlannedRun, forecast: PrecisionForecast | None) -> dict[str, Json]:
    """Convert a planned run to JSON: its design, its cost, the coverage of the pool, and the expected precision.

    "coverage" has the numbers of compared pairs of agents, and the fraction of responses that get scores. "other_decision" has
    the number of calls for the same precision if this judge gave log-probabilities in place of yes-or-no answers, or the reverse.

    forecast : expected half-widths of the intervals; None if they cannot be forecast
    """
    from youden.pipeline.decision_costs import forecast_other_decision
    from youden.protocol.coverage import compute_coverage

    plan = planned.plan
    forecast_by_other_answer_kind = forecast_other_decision(plan, planned.judge)
    return {
        "run": str(planned.folder.path),
        "judge": planned.judge.name,
        "design": plan.design,
        "dense_calls": plan.n_dense_calls,
        "expected": None if forecast is None else forecast.to_json(),
        "other_decision": None if forecast_by_other_answer_kind is None else forecast_by_other_answer_kind.to_json(),
        "cost": asdict(planned.cost),
        "paid": asdict(planned.paid),
        "max_cost": planned.config.max_cost,
        "usd_left": planned.usd_left,
        "calls_within_max_cost": planned.n_affordable,
        "coverage": asdict(compute_coverage(plan)),
        "notes": list(plan.notes),
    }


def _export_requests(
    planned: PlannedRun, config: Path, folder: Path, *, format: Literal["jsonl", "parquet"], shards: int
) -> dict[str, Json]:
    """Write the unanswered requests of a plan to a new folder, and print how to import their answers.

    folder : folder to write
    format : format of the files
    shards : number of files

    Returns a summary as JSON: the folder, the number of requests, the files, and the number of the last round whose requests are
    known. In a run with rounds, the trials of a round depend on the answers to the round before. In a run without rounds, the
    number is None.
    """
    from youden.pipeline.offline import export_run, find_known_rounds

    known_rounds = find_known_rounds(planned)
    n_requests, files = export_run(planned, known_rounds, folder, format=format, shards=shards)
    command = format_command(["youden", "judge", str(config)])
    if not n_requests:
        output.print_note(f"every request has an answer, so {folder} was not written; next: {command} --import")
    else:
        output.print_note(
            f"{format_count(n_requests, 'request')} exported to {folder} in {format_count(len(files), 'file')}; "
            f"import their answers with: {command} --import ANSWERS"
        )
        if known_rounds.describe():
            output.print_note(known_rounds.describe())
    return {
        "folder": str(folder),
        "requests": n_requests,
        "files": [str(file) for file in files],
        "round": known_rounds.round,
    }


@click.command("run")
@options.config
@run_options.config_options(*run_options.keys_for_command("run"))
@run_options.judging_options
@options.labels
@progress.mlflow_option
@options.output_options
@explain_ability
def run_command(
    *,
    config: Path,
    overrides: run_options.Overrides,
    make_options: run_options.OptionsFactory,
    labels: Path | None,
    to_mlflow: bool,
    output_mode: options.OutputMode,
) -> None:
    """Plan, judge, fit and report the run of CONFIG.

    The plan and its cost are printed before any request is sent. To resume a stopped run, run the same command again. With
    --labels FILE, the ranking is compared with labels, which do not change it. The output ends with the next step and the path of
    the report.
    """
    run_config = run_options.load_config(config, overrides)
    from youden.pipeline.judged_run import plan_run
    from youden.runs.run_object import judge_and_rank

    if to_mlflow:
        progress.check_mlflow()
    planned = plan_run(run_config)
    output.print_run_plan(planned, output_mode)
    with nullcontext() if output_mode == "quiet" else progress_bar() as bar:
        run = judge_and_rank(planned, make_options(progress=bar), labels=labels)
    end_reason = ""
    if run.plan.rounds is not None:
        end_reason = run.plan.notes[-1]  # the last note of a search says why the search ended
    output.print_judged_run(planned.folder, run.summary, output_mode, end_reason=end_reason)
    if to_mlflow:
        progress.log_to_mlflow(planned.folder)


@click.command("judge")
@options.config
@click.argument("answers", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option(
    "--import",
    "importing",
    is_flag=True,
    help="Import ANSWERS to the requests of `youden plan --export`, files or folders, instead of sending requests.",
)
@run_options.config_options(*run_options.keys_for_command("judge"))
@run_options.judging_options
@click.option(
    "--mode",
    type=click.Choice(["calls", "batch"]),
    default="calls",
    help="batch: use the Batch API of the provider, which is slower and cheaper.",
)
@click.option(
    "--poll",
    type=Number(min=0, min_open=True),
    metavar="SECONDS",
    help="With --mode batch: interval between polls of a batch. [default: 30]",
)
@click.option(
    "--engine",
    type=click.Choice(["ray"]),
    help="ray: send requests from workers on the Ray cluster at RAY_ADDRESS, or on a local one.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --engine ray: number of workers. [default: `ray: {workers: N}` in CONFIG, else one per node]",
)
@click.option(
    "--worker",
    is_flag=True,
    help="Run as a worker of a run that another process judges, on this machine or another: share its --store and its cost "
    "limit, write no files, and end when every trial has an answer.",
)
@options.json
def judge_command(
    *,
    config: Path,
    answers: tuple[Path, ...],
    importing: bool,
    overrides: run_options.Overrides,
    make_options: run_options.OptionsFactory,
    mode: str,
    poll: float | None,
    engine: str | None,
    workers: int | None,
    worker: bool,
    as_json: bool,
) -> None:
    """Query the judge on the trials of CONFIG without an answer.

    The plan and its cost are printed before any request is sent. Answers are stored as they arrive. Run the same command again to
    resume, also while a batch is in progress at the provider. Writes verdicts.parquet to the folder of the run.

    With --import, no request is sent: ANSWERS are added to the store. They can be imported in several steps and in any order;
    verdicts are written as soon as every trial has an answer.

    --mode batch uses the Batch API of the provider, and --engine ray workers on a Ray cluster. --worker helps another
    process that judges the run, and writes no files. Options that do not fit together, or ANSWERS without --import, are an error.
    """
    batch = mode == "batch"
    options.check_usage(
        (
            answers and not importing,
            f"ANSWERS require --import: got {answers[:1] and answers[0]}. Add --import, or remove the argument.",
        ),
        (poll is not None and not batch, "--poll requires --mode batch. Add --mode batch, or remove --poll."),
        (
            importing and (batch or make_options().retry_failed),
            "--import sends no requests. Remove --mode batch and --retry-failed, or --import.",
        ),
        (
            engine is None and workers is not None,
            "--workers requires --engine ray. Add --engine ray, or remove --workers.",
        ),
        (
            engine is not None and (importing or batch or make_options().log is not None),
            "--engine ray cannot be combined with --import, --mode batch or --log. Remove them, or --engine ray.",
        ),
        (
            worker and (importing or engine is not None or batch),
            "--worker cannot be combined with --import, --engine or --mode batch. Set these in the process that judges the run.",
        ),
    )
    run_config = run_options.load_config(config, overrides)
    from youden.pipeline.judged_run import judge_run, plan_run

    if worker:
        _run_worker(run_config, make_options, as_json=as_json)
        return
    planned = plan_run(run_config, batched=batch)
    output.print_run_plan(planned)
    if importing:
        result = _import_answers(planned, answers, make_options)
    elif batch:
        result = _judge_by_batch_api(planned, make_options, poll)
    elif engine is not None:
        result = _judge_on_ray(planned, make_options, workers)
    else:
        with progress_bar() as bar:
            result = judge_run(planned, make_options(progress=bar))
    _print_judged_trials(planned, result, as_json=as_json)


def _judge_by_batch_api(
    planned: PlannedRun, make_options: run_options.OptionsFactory, poll_seconds: float | None
) -> Verdicts:
    """Query the judge of a run by the Batch API of its provider, and wait for the answers.

    make_options : makes the options of judging from those of the command line and from the options of batches
    poll_seconds : time between two requests for the status of a batch; None for the default
    """
    from youden.judging.scheduler.options import POLL_SECONDS, make_batch_options
    from youden.pipeline.judged_run import judge_run

    poll_seconds = POLL_SECONDS if poll_seconds is None else poll_seconds
    folder = planned.folder.path / "batches"
    batch_options = make_batch_options("batch", poll=poll_seconds, on_status=output.print_note, folder=folder)
    return judge_run(planned, make_options(batching=batch_options))


def _judge_on_ray(planned: PlannedRun, make_options: run_options.OptionsFactory, workers: int | None) -> Verdicts:
    """Query the judge of a run from workers on a Ray cluster.

    workers : number of workers; None to use the number in the config. If the config has no number, each node gets one worker
    """
    from youden.pipeline.judged_run import judge_run
    from youden.pipeline.offline import collect_answers_on_ray, resolve_placement

    with progress_bar() as bar:
        placement = resolve_placement(planned.config, workers=workers, on_message=output.print_note)
        collect = partial(collect_answers_on_ray, placing=placement)
        return judge_run(planned, make_options(progress=bar), collect=collect)


def _print_judged_trials(planned: PlannedRun, verdicts: Verdicts, *, as_json: bool) -> None:
    """Print the warnings of a judge and the numbers of its calls. If the output is text, also print the next command.

    planned : the judged run
    verdicts : answers of the judge to the trials of the run
    as_json : whether to print the numbers of calls as JSON
    """
    from youden.engines.block_sums import count_calls

    output.print_warnings(verdicts.warnings)
    calls = count_calls(verdicts)
    folder = planned.folder.path
    if as_json:
        output.print_json({"run": str(folder), "judge": planned.judge.name, "calls": asdict(calls)})
        return

    # empty if all costs are known; otherwise, it ends with a semicolon and a space
    uncertain_costs = output.format_uncertain_costs(verdicts.warnings)
    command = format_command(["youden", "fit", str(folder)])
    output.print_note(f"{uncertain_costs}{_format_calls(calls)}; next: {command}")


def _format_calls(calls: CallFacts) -> str:
    """Format the number of answered calls, the number of answers that were stored before the run, and the total cost."""
    text = f"{calls.n_answered:,} of {calls.n_calls:,} answered"
    if calls.n_shared:
        text += f", {calls.n_shared:,} of them by the request of another trial with the same two texts"
    if calls.n_reused:
        text += f", {calls.n_reused:,} of them requested before this run"
    if calls.usd is None:
        text += "; their cost is unknown"
    else:
        text += f"; they cost ${calls.usd:.4f} in all invocations"
    if calls.usd_calibration:
        text += f", of which ${format_decimal(calls.usd_calibration, 4)} by the calibration"
    return text if calls.paid.is_zero else f"{text}; {calls.paid.describe()}"


def _import_answers(
    planned: PlannedRun, answer_files: tuple[Path, ...], make_options: run_options.OptionsFactory
) -> Verdicts:
    """Add the answers in files to the store of a run, and return the stored answers to all its trials.

    No request is sent. The number of imported answers is printed.

    answer_files : files or folders with answers; if it is empty, nothing is added
    make_options : returns the options of the command, of which only the log file applies to an import
    """
    from youden.judging.scheduler.options import JudgingOptions
    from youden.pipeline.judged_run import judge_run
    from youden.pipeline.offline import import_run

    if answer_files:
        imported = import_run(planned, answer_files)
        for sentence in imported.iter_sentences():
            output.print_note(sentence)
        if imported.n_new:
            output.print_note("the cost of imported answers is not known and not included")

    # with these options, judging a run only reads the stored answers
    options_without_requests = JudgingOptions(stored_only=True, log=make_options().log)
    return judge_run(planned, options_without_requests)


def _run_worker(config: RunConfig, make_options: run_options.OptionsFactory, *, as_json: bool) -> None:
    """Help another process to judge a run: send some of its requests until every trial of the run has an answer.

    This process adds the answers to the shared store. The other process, the coordinator, writes the folder of the run. At
    the end, the number of trials and the number of their answers, from all processes, are printed.
    """
    from youden.judging.config.judge_files import load_judge_of_run
    from youden.pipeline.offline import run_worker

    output.print_connections(load_judge_of_run(config))
    with progress_bar() as bar:
        result = run_worker(config, make_options(progress=bar))
    n_trials = len(result)
    n_answered = int(result.answered.sum())
    note = (
        f"{n_answered:,} of {n_trials:,} answered by all processes; to write the folder of the run: youden judge CONFIG"
    )
    output.print_result(as_json, {"worker": True, "calls": n_trials, "answered": n_answered}, notes=[note])
