"""`youden study sparsity RUN…`: how few cells or calls are enough."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli.terms import options, show
from youden.cli.terms.progress import progress_bar

if TYPE_CHECKING:
    from youden.nouns import Json, ScoreKind, SplitRule
    from youden.report.pages.page import StudyPart
    from youden.study.sparsity.curves import SparsityStudy, Spread


@click.command("sparsity")
@options.runs
@click.option("--seeds", type=click.IntRange(min=1), default=20, show_default=True, help="Holdouts drawn.")
@options.held_out
@options.rule
@options.scores("row")
@options.above
@options.below
@options.html
@options.json
def sparsity_command(
    *,
    runs: tuple[Path, ...],
    seeds: int,
    holdout: float,
    rule: SplitRule,
    scores: ScoreKind,
    above: tuple[str, ...],
    below: tuple[str, ...],
    html: Path | None,
    as_json: bool,
) -> None:
    """How few cells or calls predict held-out cells of RUNs?

    And is the ranking kept? RUNs are dense. The paper's Tables 3 and 4 and Figure 2 over many holdouts: RMSE, ρ, τ and AUC of
    every regime, against cells and calls.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.stats.curl.link_table import links_table
    from youden.study.additivity import additivity_words
    from youden.study.contrast import contrast
    from youden.study.replay import open_world
    from youden.study.sparsity.curves import study_sparsity
    from youden.study.sparsity.words import sparsity_json, sparsity_words

    found: dict[str, Json] = {}
    parts: list[StudyPart] = []
    for run in runs:
        world = open_world(RunFolder(run))
        groups = contrast(world, above=above, below=below)
        with progress_bar() as bar:
            study = study_sparsity(
                world,
                n_seeds=seeds,
                rule=rule,
                kind=scores,
                holdout=holdout,
                groups=groups,
                progress=bar,
            )
        words = (*sparsity_words(study), *additivity_words(links_table(world.scores(scores))))
        signature = RunFolder(run).read_signature().text
        if html is not None:
            from youden.report.charts.studies import sparsity_figures
            from youden.report.pages.page import StudyPart as Part

            parts.append(Part(run.name, signature, words, sparsity_figures(study)))
        found[run.name] = {**sparsity_json(study), "words": list(words), "signature": signature}
        if as_json:
            continue
        _draw(study, run.name)
        for line in words:
            click.echo(line)
        show.note(f"signature: {signature}")
    if html is not None:
        from youden.report.pages.write import write_study

        write_study(html, "Sparsity", parts)
    if as_json:
        show.print_json({"sparsity": found})


def _draw(study: SparsityStudy, name: str) -> None:
    table = show.table(
        f"{show.safe(name)}: {study.kind} scores, rule {study.rule}, mean (SD) over holdouts",
        ["regime"],
        ["% of all", "% of train", "calls", "unordered", "holdout RMSE", "ρ", "τ", "AUC"],
    )
    table.columns[0].no_wrap = True
    for row in (study.dense, *study.rows):
        shares = [None if spread is None else 100 * spread.mean for spread in (row.of_all, row.of_train)]
        calls = [None if spread is None else spread.mean for spread in (row.calls, row.calls_unordered)]
        table.add_row(
            row.label,
            *(show.fixed(share, 1) for share in shares),
            *(show.fixed(n, 0) for n in calls),
            *(_with_sd(spread) for spread in (row.rmse, row.rho, row.tau, row.auc)),
        )
    show.console().print(table)


def _with_sd(spread: Spread | None) -> str:
    return "–" if spread is None else show.with_sd(spread.mean, spread.sd)
