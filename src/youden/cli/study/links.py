"""`youden study links RUN`: does the additive model hold, and on which link?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from youden.cli.terms import options, show
from youden.text.compared import items_compared

if TYPE_CHECKING:
    from youden.study.links import LinksStudy


@click.command("links")
@options.run
@options.scores
@click.option(
    "--draws", type=click.IntRange(min=0), default=500, show_default=True, help="Bootstrap resamples; 0: none."
)
@click.option(
    "--coincident",
    type=click.Choice(["drop", "keep"]),
    default="drop",
    show_default=True,
    help="Rectangles of one agent or item drawn twice; keep: the paper's, biased to 0.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@options.json
def command(*, run: Path, scores: str, draws: int, coincident: str, seed: int, as_json: bool) -> None:
    """Does ability − difficulty fit RUN, and on which link?

    Exact median and 95th percentile of the curl |s_ij − s_i'j − s_ij' + s_i'j'| over all rectangles, raw and per SD of the
    transformed scores, with the R² of the additive fit.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.study.links import partners_share, study_links

    folder, kind = RunFolder(run), options.score_kind(scores)
    study = study_links(
        folder.read_scores(kind),
        partners=partners_share(folder.read_rates(), kind) if folder.has("rates.parquet") else 1.0,
        n_draws=draws,
        coincident="keep" if coincident == "keep" else "drop",
        seed=seed,
    )
    signature = folder.read_signature().text
    warnings = folder.read_facts().warnings if folder.has("fit.json") else ()
    if as_json:
        show.print_json(study.to_json() | {"run": folder.path.name, "signature": signature, "warnings": list(warnings)})
        return
    for warning in warnings:
        show.note(f"warning: {warning}")
    _draw(study, folder.path.name)
    for line in study.words:
        click.echo(line)
    show.note(f"signature: {signature}")


def _draw(study: LinksStudy, name: str) -> None:
    table = Table(
        title=f"{show.safe(name)}: curl of {study.scores} scores, {study.n_agents} agents × "
        f"{items_compared(study.n_items, study.n_compared)}, {study.n_cells:,} cells",
        title_justify="left",
    )
    table.add_column("link")
    for column in ("median", "P95", "median per SD", "P95 per SD", "R²"):
        table.add_column(column, justify="right")
    for link, row in study.links.items():
        figures = [row.median, row.p95, row.median_scaled, row.p95_scaled, row.r2]
        table.add_row(link, *(show.fixed(figure) for figure in figures))
    show.console().print(table)
    if study.differences:
        first = study.differences[0]
        table = Table(
            title=f"Differences in median curl, {first.level:.0%} of {first.n_draws} resamples, coincident: {first.coincident}",
            title_justify="left",
        )
        table.add_column("links")
        for column in ("exact", "mean of resamples", "low", "high"):
            table.add_column(column, justify="right")
        for gap in study.differences:
            ends = (gap.exact, gap.mean, gap.low, gap.high)
            table.add_row(f"{gap.first} − {gap.second}", *(show.fixed(end) for end in ends))
        show.console().print(table)
