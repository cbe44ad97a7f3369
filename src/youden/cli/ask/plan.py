"""`youden plan CONFIG`: which calls a run would make and what they would cost, before anything runs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli.terms import options, show

if TYPE_CHECKING:
    from youden.nouns import Json
    from youden.run.precision import Expected


@click.command("plan")
@options.config
@options.overrides
@options.json
def command(config: Path, overrides: options.Overrides, as_json: bool) -> None:
    """Draw the plan of CONFIG and say what it would cost.

    Writes config.yaml, pool.json and plan.parquet into the run's folder; asks no judge and spends nothing.
    """
    said = overrides.apply(config)
    from youden.protocol.coverage import coverage
    from youden.run.pipeline import plan_run
    from youden.run.precision import expected_of_run

    planned = plan_run(said)
    expected = expected_of_run(planned.plan, planned.folder)
    show.show_plan(planned.plan, planned.cost, planned.judge.name, expected=expected)
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
            }
        )
    else:
        show.note(
            f"plan written to {planned.folder.path}; judge it with: youden judge {planned.folder.file('config.yaml')}"
        )


def _expected(expected: Expected) -> dict[str, Json]:
    said = asdict(expected) | {
        "half_width": {f"{times:g}": width._asdict() for times, width in expected.half_width.items()}
    }
    for name in ("trials_needed", "rho", "recall"):
        found = getattr(expected, name)
        said[name] = None if found is None else found._asdict()
    return said
