"""`youden plan CONFIG`: which calls a run would make and what they would cost, before anything runs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from youden.cli.terms import options, run_options, show

if TYPE_CHECKING:
    from youden.nouns import Json
    from youden.run.pipeline import PlannedRun
    from youden.run.precision import Expected


@click.command("plan")
@options.config
@run_options.overrides
@click.option(
    "--export",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write what has still to be asked into this new folder, for an engine of your own to answer.",
)
@click.option(
    "--format",
    type=click.Choice(["jsonl", "parquet"]),
    help="Of the export: jsonl, lines as a Batch API and `vllm run-batch` read them, or parquet. [default: jsonl]",
)
@click.option(
    "--shards",
    type=click.IntRange(min=1),
    metavar="N",
    help="Files of the export, alike in size. [default: 1]",
)
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
    """Draw the plan of CONFIG and say what it would cost.

    Writes config.yaml, pool.json and plan.parquet into the run's folder; asks no judge and spends nothing. What an export asks is
    answered elsewhere and comes back by `youden judge CONFIG --import ANSWERS`.
    """
    said = overrides.apply(config)
    from youden.protocol.coverage import coverage
    from youden.run.pipeline import plan_run
    from youden.run.precision import expected_of_run

    if export is None and (format is not None or shards is not None):
        raise click.UsageError("--format and --shards are of an export. Add --export DIR, or leave them out.")
    planned = plan_run(said)
    expected = expected_of_run(planned.plan, planned.folder)
    show.show_plan(planned.plan, planned.cost, planned.judge.name, expected=expected)
    exported: dict[str, Json] = {}
    if export is not None:
        exported = {"export": _exported(planned, config, export, format=format or "jsonl", shards=shards or 1)}
    if as_json:
        show.print_json(
            {
                "run": str(planned.folder.path),
                "judge": planned.judge.name,
                "design": planned.plan.design,
                "dense_calls": planned.plan.n_dense_calls,
                "expected": _expected(expected),
                "cost": asdict(planned.cost),
                "coverage": asdict(coverage(planned.plan)),
                "notes": list(planned.plan.notes),
                **exported,
            }
        )
    elif export is None:
        show.note(
            f"plan written to {planned.folder.path}; judge it with: youden judge {planned.folder.file('config.yaml')}"
        )


def _exported(
    planned: PlannedRun, config: Path, folder: Path, *, format: Literal["jsonl", "parquet"], shards: int
) -> dict[str, Json]:
    from youden.run.elsewhere.exchange import export_run, stage_of

    stage = stage_of(planned)
    done = export_run(planned, stage, folder, format=format, shards=shards)
    if not done.requests:
        show.note(f"nothing is left to ask, so {folder} was not written; go on with: youden judge {config} --import")
    else:
        show.note(
            f"{done.requests:,} requests exported to {folder} in {len(done.files)} files; bring their answers back with: "
            f"youden judge {config} --import ANSWERS"
        )
        if stage.words():
            show.note(stage.words())
    return {
        "folder": str(folder),
        "requests": done.requests,
        "files": [str(file) for file in done.files],
        "round": stage.round,
    }


def _expected(expected: Expected) -> dict[str, Json]:
    said = asdict(expected) | {
        "half_width": {f"{times:g}": width._asdict() for times, width in expected.half_width.items()}
    }
    for name in ("trials_needed", "rho", "recall"):
        found = getattr(expected, name)
        said[name] = None if found is None else found._asdict()
    return said
