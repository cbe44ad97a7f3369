"""`youden run CONFIG`: plan, judge, fit and report in one go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from youden.cli.terms import options, ranking, run_options, show, tracking
from youden.cli.terms.progress import progress_bar


@click.command("run")
@options.config
@run_options.overrides
@run_options.counting
@run_options.asking
@options.labels
@tracking.option
@options.json
def run_command(
    *,
    config: Path,
    overrides: run_options.Overrides,
    asking: run_options.Asking,
    labels: Path | None,
    to_mlflow: bool,
    as_json: bool,
) -> None:
    """Rank the agents of CONFIG, from its pool to report.html.

    The plan and its cost are shown before anything is asked. The same command resumes a run that was stopped.

    Ability is how well others' responses let the judge recognise the same source, relative to this pool, this judge and these
    items. It rewards restating what others can be matched to (obscure or bureaucratic styles stand high, terse references low),
    and is no proof of correctness.
    """
    said = overrides.apply(config)
    from youden.run.engine import fit
    from youden.run.pipeline import judge_run, plan_run
    from youden.run.precision import expected_of_run

    if to_mlflow:
        tracking.check()
    planned = plan_run(said)
    table = None
    if labels is not None:
        from youden.practice.labels.matching import aliases_of
        from youden.practice.labels.validation import open_labels, validate

        table = open_labels(labels, planned.plan.agent_ids, aliases=aliases_of(planned.pool.agents))
    expected = expected_of_run(planned.plan, planned.folder)
    show.show_plan(planned.plan, planned.cost, planned.judge.name, expected=expected)
    with progress_bar() as bar:
        result = judge_run(planned, asking.terms(progress=bar))
    if result.plan.rounds is not None:
        show.note(result.plan.notes[-1])
    from youden.pools.look.clones import clones_of
    from youden.report.pages.write import write_report  # after the asking: charts and pandas take a second to load
    from youden.run.robust.rules import rules_of

    rules = replace(rules_of(planned.folder.read_config()), clones=clones_of(planned.pool))
    fitted = fit(planned.folder, rules=rules).analysis
    if table is not None:
        validate(planned.folder, table)
    ranking.show_result(write_report(planned.folder, fitted).summary, as_json=as_json)
    if to_mlflow:
        tracking.log(planned.folder)
