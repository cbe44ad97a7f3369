"""`youden study …`: the paper's questions asked of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from youden.cli import options, show

if TYPE_CHECKING:
    from youden.study.links import LinksStudy


@click.group("study")
def command() -> None:
    """Ask the paper's questions of a run."""


@command.command("links")
@options.run
@click.option("--scores", type=click.Choice(["row", "symmetric"]), default="row", show_default=True)
@options.json
def links(run: Path, scores: str, as_json: bool) -> None:
    """Does ability − difficulty fit the scores of RUN, and on which link?

    Exact median and 95th percentile of the curl |s_ij − s_i'j − s_ij' + s_i'j'| over all rectangles, raw and per SD of the
    transformed scores, with the R² of the additive fit.
    """
    from youden.data.run_folder import RunFolder
    from youden.study.links import study_links

    folder = RunFolder(run)
    study = study_links(folder.read_scores("row" if scores == "row" else "symmetric"))
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
        title=f"{show.safe(name)}: curl of {study.scores} scores, {study.n_agents} agents × {study.n_items} items, "
        f"{study.n_cells:,} cells",
        title_justify="left",
    )
    table.add_column("link")
    for column in ("median", "P95", "median per SD", "P95 per SD", "R²"):
        table.add_column(column, justify="right")
    for link, row in study.links.items():
        figures = [row.median, row.p95, row.median_scaled, row.p95_scaled, row.r2]
        table.add_row(link, *(show.fixed(figure) for figure in figures))
    show.console().print(table)
