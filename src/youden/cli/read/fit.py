"""`youden fit RUN`: rates, scores, fit and ranking of a judged run."""

from __future__ import annotations

from pathlib import Path

import click

from youden.cli.terms import options, ranking


@click.command("fit")
@options.run
@options.labels
@options.target
@options.json
def command(run: Path, labels: Path | None, target: str | None, as_json: bool) -> None:
    """Fit the model to the answers in RUN and rank its agents.

    Writes rates.parquet, scores.csv, scores_row.csv, holdout.csv, ranking.csv, items.csv, fit.json and signature.json;
    with --labels also labels.json, which says how far the ranking agrees with them.

    Ability is how well others' responses let the judge recognise the same source, relative to this pool, this judge and these
    items. It rewards restating what others can be matched to, and is no proof of correctness.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.practice.labels.matching import aliases_of
    from youden.practice.labels.validation import open_labels, validate
    from youden.report.data.summary import summarise_run
    from youden.run.pipeline import fit_run

    folder = RunFolder(run)
    table = None
    if labels is not None:
        pool = folder.read_pool()
        table = open_labels(labels, pool.agent_ids, aliases=aliases_of(pool.agents))
    fit_run(folder, target=options.said_target(target))
    if table is not None:
        validate(folder, table)
    ranking.show_result(summarise_run(folder), as_json=as_json)
