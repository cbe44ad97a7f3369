"""`youden rejudge RUN --judge B --calls N`: would another judge rank alike?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli.read.compare import show_judges
from youden.cli.terms import options, run_options, show
from youden.cli.terms.progress import progress_bar
from youden.text.printable import printable

if TYPE_CHECKING:
    from youden.nouns import Json


@click.command("rejudge")
@options.run
@click.option(
    "--judge", required=True, help="The second judge: a name in configs/judges/, or a path that ends in .yaml."
)
@click.option("--calls", type=click.IntRange(min=1), help="How many of the run's trials it is asked.")
@click.option("--trials", type=click.IntRange(min=1), metavar="N", help="The same, as trials an agent takes part in.")
@click.option("--out", type=click.Path(path_type=Path), help="The new run's folder. [default: RUN-by-JUDGE]")
@options.store("YOUDEN_STORE, else verdicts.db in its folder")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Draws the trials.")
@options.max_cost
@run_options.asking
@options.family
@options.dry_run
@options.json
def rejudge_command(
    *,
    run: Path,
    judge: str,
    calls: int | None,
    trials: int | None,
    out: Path | None,
    store: str | None,
    seed: int,
    max_cost: float | None,
    asking: run_options.Asking,
    families: dict[str, str],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Ask a second judge part of RUN's trials: do the two agree?

    The part is balanced over agents and items. Shows how often they agree on a trial; how alike they rank, beside how alike
    RUN's own judge would rank on so few trials; which agents move beyond chance; and whether a judge favours agents of its
    own family. Families are `meta.family` of agents in the pool's agents.jsonl, and `family:` in a judge's config or --family
    JUDGE=NAME.

    The part is a run of its own, with a config that makes it again: `youden run`, `report`, `compare` and cassettes take it
    like any other. Nothing that its store holds is asked again; the same command resumes.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.practice.rejudge import compare_rejudged, plan_rejudge
    from youden.run.pipeline import fit_run, judge_run
    from youden.run.precision import expected_of

    if (calls is None) == (trials is None):
        raise click.UsageError("Give --calls or --trials: how much is the second judge asked?")
    planned = plan_rejudge(
        RunFolder(run),
        judge=judge,
        calls=calls,
        trials=trials,
        seed=seed,
        out=out,
        store=store or options.usual_store(),
        max_cost=max_cost,
        max_missing=asking.max_missing,
    )
    again = planned.again
    show.show_plan(again.plan, again.cost, again.judge.name, expected=expected_of(again.plan))
    said: dict[str, Json] = {
        "run": str(again.folder.path),
        "of": str(run),
        "judge": again.judge.name,
        "cost": asdict(again.cost),
    }
    if dry_run:
        if as_json:
            show.print_json({**said, "notes": list(again.plan.notes)})
        return
    with progress_bar() as bar:
        result = judge_run(again, asking.terms(progress=bar))
    fit_run(again.folder)
    found = compare_rejudged(planned, families=families)
    show.warn(result.warnings)
    if as_json:
        show.print_json({**said, "retest": found.retest, "words": list(found.words), "judges": found.study.to_json()})
        return
    show_judges(found.study)
    for line in found.words:
        click.echo(printable(line))
    show.note(f"run: {again.folder.path}; both side by side: youden report {run} --against {again.folder.path}")
