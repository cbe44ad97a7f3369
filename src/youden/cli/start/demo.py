"""`youden demo`: the whole path on the bundled pool, offline, without a key."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import click

from youden.cli.terms import options, ranking, run_options, show
from youden.cli.terms.progress import progress_bar
from youden.text.intervals import with_interval

COMPARED = (("faithful", "low-effort"), ("faithful", "strategic"))
CONFIG = "runs/field-notes.yaml"
FLIPPER = "fact-flipper"


@click.command("demo")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("runs/demo"), show_default=True, help="The run's folder."
)
@options.json
def demo_command(out: Path, as_json: bool) -> None:
    """Rank the 12 agents of the pool `field-notes`, offline.

    The pool comes with the package. The judge is `lexical`, which only compares words: it needs no key, and shows what a run
    looks like and what such a judge cannot see.
    """
    from youden.judging.asking.terms import Asking
    from youden.report.pages.write import write_report
    from youden.resources import find
    from youden.run.pipeline import fit_run, judge_run, plan_run
    from youden.study.groups import run_group_aucs

    config = run_options.Overrides(judge=None, out=out, max_cost=None).apply(find("configs", CONFIG, own=False))
    pool = find("datasets", "field-notes", own=False)
    planned = plan_run(config.model_copy(update={"pool": str(pool)}))
    show.show_plan(planned.plan, planned.cost, planned.judge.name)
    with progress_bar() as bar:
        judge_run(planned, Asking(progress=bar))
    summary = write_report(planned.folder, fit_run(planned.folder)).summary
    ranking.show_result(summary, as_json=as_json)
    if as_json:
        return
    click.echo()
    for group in run_group_aucs(planned.folder, COMPARED):
        auc = group.auc
        found = with_interval(auc.value, auc.low, auc.high, why=auc.method)
        how = "" if isnan(auc.low) else f" ({auc.level:.0%}, {auc.method})"
        click.echo(f"AUC of {group.above} ({group.n_above}) against {group.below} ({group.n_below}): {found}{how}")
    click.echo(
        "These intervals are about these agents' abilities; so few agents say little of other agents of their kind."
    )
    flipper = next(agent for agent in summary.ranking if agent.agent == FLIPPER)
    click.echo(
        f"\nWhat this judge cannot see: '{FLIPPER}' turns the central facts of every passage into their opposites, and stands at "
        f"place {flipper.places} of {summary.n_agents}. Its words are the "
        "passage's own, and words are all that `lexical` compares."
    )
    click.echo(
        f"\nThe run is in {planned.folder.path}; open {planned.folder.path / 'report.html'}.\n"
        "Next, a judge that reads: with OPENAI_API_KEY set,\n"
        "  youden plan configs/runs/field-notes.yaml --judge gpt-4o-mini --out runs/read     (what it would cost)\n"
        "  youden run configs/runs/field-notes.yaml --judge gpt-4o-mini --max-cost 1 --out runs/read\n"
        "Your own pool: a CSV with the columns agent, item, text (and prompt, group), named in a config of three lines:\n"
        "  pool: mine.csv\n  judge: gpt-4o-mini\n  max_cost: 1"
    )
