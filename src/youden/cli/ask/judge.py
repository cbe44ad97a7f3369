"""`youden judge CONFIG`: ask the judge everything the plan asks and the store does not hold."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from youden.cli.terms import options, show
from youden.cli.terms.numbers import Number
from youden.cli.terms.progress import progress_bar


@click.command("judge")
@options.config
@options.overrides
@options.asking
@click.option(
    "--mode",
    type=click.Choice(["calls", "batch"]),
    default="calls",
    show_default=True,
    help="batch: through the provider's Batch API, slower and cheaper.",
)
@click.option(
    "--poll",
    type=Number(min=0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How often batches are looked at.",
)
@options.json
def command(
    *, config: Path, overrides: options.Overrides, asking: options.Asking, mode: str, poll: float, as_json: bool
) -> None:
    """Ask the judge what CONFIG plans and nobody answered yet.

    The plan and its cost are shown first. Answers go to the store as they come; the same command resumes where it was, also
    while a batch is under way at the provider. Writes verdicts.parquet into the run's folder.
    """
    said = overrides.apply(config)
    from youden.judging.asking.terms import Batching
    from youden.run.analysis import call_facts
    from youden.run.pipeline import judge_run, plan_run
    from youden.run.precision import expected_of_run

    planned = plan_run(said, batched=mode == "batch")
    expected = expected_of_run(planned.plan, planned.folder)
    show.show_plan(planned.plan, planned.cost, planned.judge.name, expected=expected)
    if mode == "batch":
        batching = Batching(poll=poll, say=show.note)
        result = judge_run(planned, asking.terms(batching=batching))
    else:
        with progress_bar() as bar:
            result = judge_run(planned, asking.terms(progress=bar))
    for warning in result.warnings:
        show.note(f"warning: {warning}")
    calls = call_facts(result)
    if as_json:
        show.print_json({"run": str(planned.folder.path), "judge": planned.judge.name, "calls": asdict(calls)})
    else:
        show.note(
            f"{calls.n_calls - calls.n_missing:,} of {calls.n_calls:,} answered, "
            f"{f'{calls.n_reused:,} of them asked before this run, ' if calls.n_reused else ''}"
            f"${show.fixed(calls.usd, 4)} spent in all passes"
            f"{f', ${show.fixed(calls.usd_calibration, 4)} of it by its calibration' if calls.usd_calibration else ''}; "
            f"rank with: youden fit {planned.folder.path}"
        )
