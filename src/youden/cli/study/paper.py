"""`youden study paper RUN…`: the paper's tables again, beside its own figures."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli.terms import options, show
from youden.cli.terms.progress import progress_bar

if TYPE_CHECKING:
    from youden.study.paper.tables import PaperStudy


@click.command("paper")
@options.runs
@click.option("--seeds", type=click.IntRange(min=1), default=20, show_default=True, help="Holdouts drawn.")
@click.option(
    "--draws", type=click.IntRange(min=20), default=500, show_default=True, help="Bootstrap resamples of Table 2."
)
@click.option(
    "--judges",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Runs of several judges on one pool, for Table 6; repeat it.",
)
@options.json
def paper_command(*, runs: tuple[Path, ...], seeds: int, draws: int, judges: tuple[Path, ...], as_json: bool) -> None:
    """The paper's tables again, and where paper and data disagree.

    Its figures stand beside ours. RUNs are imported, and recognised by the folder they were imported from: pubmed…, opus…,
    peer_review….
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.study.judges.agreement import study_judges
    from youden.study.judges.judged_runs import read_judged, side_by_side
    from youden.study.paper.tables import by_domain, study_paper
    from youden.study.replay import open_world

    folders = [RunFolder(run) for run in runs]
    worlds = by_domain({folder.read_pool().source: open_world(folder) for folder in folders})
    compared = None
    if judges:
        compared = study_judges(side_by_side([read_judged(RunFolder(run)) for run in judges], match="number"))
    with progress_bar() as bar:
        study = study_paper(worlds, n_seeds=seeds, n_draws=draws, judges=compared, progress=bar)
    signatures = [folder.read_signature().text for folder in folders]
    if as_json:
        show.print_json({"paper": study.to_json() | {"signatures": list(signatures)}})
        return
    _draw(study)
    for signature in signatures:
        show.note(f"signature: {signature}")


def _draw(study: PaperStudy) -> None:
    for number, rows in groupby(study.rows, key=lambda row: row.table):
        table = show.table(f"Table {number}", ["", "figure"], ["paper", "ours", "SD", "SDs apart"])
        for row in rows:
            figures = (show.fixed(row.paper), show.fixed(row.ours), show.fixed(row.sd))
            table.add_row(show.safe(row.row), row.figure, *figures, show.fixed(row.sds, 1))
        show.console().print(table)
    for title, lines in (("Not made", study.missing), ("Where the paper and its data disagree", study.disagreements)):
        click.echo(f"{title}:")
        for line in lines:
            click.echo(f"- {line}")
