"""`youden fit RUN`: rates, scores, fit and ranking of a judged run."""

from __future__ import annotations

from pathlib import Path

import click

from youden.cli import options, show


@click.command("fit")
@options.run
@options.json
def command(run: Path, as_json: bool) -> None:
    """Fit the model to the answers in RUN and rank its agents.

    Writes rates.parquet, scores.csv, scores_row.csv, holdout.csv, ranking.csv, items.csv, fit.json and signature.json.
    """
    from youden.data.run_folder import RunFolder
    from youden.pipeline import fit_run
    from youden.report.data.summary import summarise_run

    folder = RunFolder(run)
    fit_run(folder)
    show.show_result(summarise_run(folder), as_json=as_json)
