"""Define the command `demo`, which ranks the agents of a pool that ships with youden. It sends no request."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli import options, output, run_options
from youden.progress_bar import progress_bar
from youden.resources import find_resource
from youden.text.printable import printable
from youden.text.sentences import format_with_interval

if TYPE_CHECKING:
    from youden.data.folder.run_folder import RunFolder
    from youden.report.data.summary import Summary
    from youden.study.known_groups import GroupAuc


DEMO_GROUP_PAIRS = (("faithful", "low-effort"), ("faithful", "strategic"))
"""Pairs of groups of agents; the first should rank above the second."""
DEMO_CONFIG, FACT_FLIPPER = "runs/field-notes.yaml", "fact-flipper"
"""Config of the demo, and its agent that reverses facts, which the judge `lexical` cannot detect."""


@click.command("demo")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/demo"), help="Folder of the run.")
@options.json
def demo_command(out: Path, as_json: bool) -> None:
    """Rank the 12 agents of the pool `field-notes`, offline.

    The pool is part of the package. The judge is `lexical`, which compares words and needs no API key. The demo shows the output
    of a run, and an error that this judge cannot detect.
    """
    from youden.judging.scheduler.options import JudgingOptions
    from youden.pipeline.fitted_run import fit_run
    from youden.pipeline.judged_run import judge_run, plan_run
    from youden.report.pages.writing import write_report

    config = run_options.load_config(find_resource("configs", DEMO_CONFIG, local=False), {"out": out})
    pool = find_resource("datasets", "field-notes", local=False)
    planned = plan_run(config.model_copy(update={"pool": str(pool)}))
    output.print_plan(planned, "short")
    with progress_bar() as bar:
        judge_run(planned, JudgingOptions(progress=bar))
    fit_run(planned.folder)
    summary = write_report(planned.folder)
    if as_json:
        output.print_fitted_run(summary, as_json=True)
        return

    output.print_judged_run(planned.folder, summary, "short")
    click.echo()
    _print_demo_explanations(planned.folder, summary)


def _print_demo_explanations(folder: RunFolder, summary: Summary) -> None:
    """Print what the run of the demo shows: its accuracy, a limitation of its judge, and the next commands.

    The accuracy is measured by pairs of groups of agents whose order is known. The limitation is an agent that the judge
    `lexical` ranks too high.

    folder : folder of the judged run
    summary : summary of the run
    """
    from youden.study.known_groups import compute_group_aucs

    for comparison in compute_group_aucs(folder, DEMO_GROUP_PAIRS):
        click.echo(printable(_format_group_auc(comparison)))
    click.echo(
        "These intervals refer to the abilities of these agents; so few agents say little about other agents of their kind."
    )

    fact_flipper = next(agent for agent in summary.ranking if agent.agent == FACT_FLIPPER)
    click.echo()
    click.echo(
        printable(
            f"Limitation of this judge: '{FACT_FLIPPER}' reverses the central facts of every passage and has rank "
            f"{fact_flipper.ranks} of {summary.n_agents}. It uses the words of the passage, and `lexical` compares nothing but "
            "words."
        )
    )

    click.echo()
    click.echo(printable(f"The run is in {folder.path}; open {folder.path / 'report.html'}."))
    click.echo(
        "Next, use a language model as the judge. Set OPENAI_API_KEY, then run:\n"
        "  youden plan configs/runs/field-notes.yaml --judge gpt-4o-mini --out runs/read     (estimated cost)\n"
        "  youden run configs/runs/field-notes.yaml --judge gpt-4o-mini --max-cost 1 --out runs/read\n"
        "To rank your own agents from a spreadsheet or a folder of texts, run: youden init FILE"
    )


def _format_group_auc(comparison: GroupAuc) -> str:
    """Format how well the ranking separates two groups of agents whose order is known, with the interval of the AUC."""
    auc = comparison.auc
    interval = format_with_interval(auc.value, auc.low, auc.high, method=auc.method)
    method = "" if isnan(auc.low) else f" ({auc.level:.0%}, {auc.method})"
    groups = f"{comparison.above} ({comparison.n_above}) against {comparison.below} ({comparison.n_below})"
    return f"AUC of {groups}: {interval}{method}"
