"""`youden study baselines RUN`: the additive model against others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli.terms import options, show
from youden.cli.terms.progress import progress_bar
from youden.cli.terms.values import Number, words

if TYPE_CHECKING:
    from youden.nouns import ScoreKind, SplitRule
    from youden.study.baselines import BaselinesStudy


@click.command("baselines")
@options.run
@click.option("--seeds", type=click.IntRange(min=1), default=10, show_default=True, help="Holdouts drawn.")
@click.option(
    "--c",
    type=Number(min=0, min_open=True),
    default=1.6,
    show_default=True,
    help="How many cells are seen: C of n log n.",
)
@options.held_out
@click.option(
    "--only", callback=words, metavar="NAMES", help="These baselines alone, separated by commas. [default: all]"
)
@options.rule
@options.scores("row")
@options.above
@options.below
@options.html
@options.json
def baselines_command(
    *,
    run: Path,
    seeds: int,
    c: float,
    holdout: float,
    only: tuple[str, ...] | None,
    rule: SplitRule,
    scores: ScoreKind,
    above: tuple[str, ...],
    below: tuple[str, ...],
    html: Path | None,
    as_json: bool,
) -> None:
    """Do other models predict held-out cells of RUN better?

    The paper's Table 5, fair and paper settings side by side, on the same holdouts and cells.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.study.baselines import baselines_json, baselines_words, study_baselines
    from youden.study.contrast import contrast
    from youden.study.replay import open_world

    folder = RunFolder(run)
    world = open_world(folder)
    with progress_bar() as bar:
        study = study_baselines(
            world,
            names=only,
            n_seeds=seeds,
            c=c,
            holdout=holdout,
            rule=rule,
            kind=scores,
            groups=contrast(world, above=above, below=below),
            progress=bar,
        )
    signature = folder.read_signature().text
    if html is not None:
        from youden.report.charts.studies import baselines_figures
        from youden.report.pages.page import StudyPart
        from youden.report.pages.write import write_study

        part = StudyPart(folder.path.name, signature, tuple(baselines_words(study)), baselines_figures(study))
        write_study(html, "Baselines", [part])
    if as_json:
        show.print_json({"baselines": baselines_json(study), "run": folder.path.name, "signature": signature})
        return
    _draw(study, folder.path.name)
    for line in baselines_words(study):
        click.echo(line)
    show.note(f"signature: {signature}")


def _draw(study: BaselinesStudy, name: str) -> None:
    table = show.table(
        f"{show.safe(name)}: {study.kind} scores, rule {study.rule}, mean (SD)",
        ["model"],
        ["holdout RMSE", "less clipped-linear's", "SE items", "SE seeds", "ρ", "τ", "AUC"],
    )
    table.columns[0].no_wrap = True
    for row in study.rows:
        first, behind, *others = (
            "–" if spread is None else show.with_sd(spread.mean, spread.sd)
            for spread in (row.rmse, row.behind, row.rho, row.tau, row.auc)
        )
        table.add_row(row.name, first, behind, show.fixed(row.se_items, 4), show.fixed(row.se_seeds, 4), *others)
    show.console().print(table)
