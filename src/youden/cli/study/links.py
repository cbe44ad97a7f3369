"""`youden study links RUN`: does the additive model hold, and on which link?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli.terms import options, show
from youden.text.compared import items_compared

if TYPE_CHECKING:
    from youden.nouns import ScoreKind
    from youden.stats.curl.bootstrap import Coincident
    from youden.study.links import LinksStudy


@click.command("links")
@options.run
@options.scores("row")
@click.option(
    "--draws",
    type=click.IntRange(min=0),
    default=500,
    show_default=True,
    help="Bootstrap resamples of agents and items; 0: none.",
)
@click.option(
    "--coincident",
    type=click.Choice(["drop", "keep"]),
    default="drop",
    show_default=True,
    help="What becomes of rectangles whose agent or item was drawn twice. keep: the paper's way, biased to 0.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Draws the resamples.")
@options.json
def links_command(
    *, run: Path, scores: ScoreKind, draws: int, coincident: Coincident, seed: int, as_json: bool
) -> None:
    """Does ability − difficulty fit RUN, and on which link?

    Exact median and 95th percentile of the curl |s_ij − s_i'j − s_ij' + s_i'j'| over all rectangles, raw and per SD of the
    transformed scores, with the R² of the additive fit.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.study.links import partners_share, study_links

    folder = RunFolder(run)
    study = study_links(
        folder.read_scores(scores),
        partners=partners_share(folder.read_rates(), scores) if folder.has("rates.parquet") else 1.0,
        n_draws=draws,
        coincident=coincident,
        seed=seed,
    )
    signature = folder.read_signature().text
    warnings = folder.read_facts().warnings if folder.has("fit.json") else ()
    if as_json:
        show.print_json(study.to_json() | {"run": folder.path.name, "signature": signature, "warnings": list(warnings)})
        return
    show.warn(warnings)
    _draw(study, folder.path.name)
    for line in study.words:
        click.echo(line)
    show.note(f"signature: {signature}")


def _draw(study: LinksStudy, name: str) -> None:
    table = show.table(
        f"{show.safe(name)}: curl of {study.scores} scores, {study.n_agents} agents × "
        f"{items_compared(study.n_items, study.n_compared)}, {study.n_cells:,} cells",
        ["link"],
        ["median", "P95", "median per SD", "P95 per SD", "R²"],
    )
    for link, row in study.links.items():
        figures = [row.median, row.p95, row.median_scaled, row.p95_scaled, row.r2]
        table.add_row(link, *(show.fixed(figure) for figure in figures))
    show.console().print(table)
    if study.differences:
        first = study.differences[0]
        table = show.table(
            f"Differences in median curl, {first.level:.0%} of {first.n_draws} resamples, coincident: {first.coincident}",
            ["links"],
            ["exact", "mean of resamples", "low", "high"],
        )
        for gap in study.differences:
            ends = (gap.exact, gap.mean, gap.low, gap.high)
            table.add_row(f"{gap.first} − {gap.second}", *(show.fixed(end) for end in ends))
        show.console().print(table)
