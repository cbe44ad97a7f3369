"""Define the commands `label`, which chooses responses to label, and `quality`, which estimates mean labels.

Responses are drawn at random and shown without the names of agents, so that labels are unbiased.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Literal

import click

from youden.cli import options, output
from youden.text.printable import format_command, printable
from youden.text.sentences import format_count


@click.command("label")
@options.run
@click.option(
    "--next", "n", type=click.IntRange(min=1), required=True, metavar="N", help="Number of responses to choose."
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="CSV file to write.")
@click.option(
    "--for",
    "purpose",
    type=click.Choice(["best", "all"]),
    default="all",
    help="Purpose of the labels: to find the best agent, or to estimate the quality of all agents.",
)
@options.label_file_options
@click.option("--show-agents", is_flag=True, help="Include the names of the agents, which are hidden by default.")
@options.seed_option("items, ids and order")
@options.json
def label_command(
    *,
    run: Path,
    n: int,
    out: Path,
    purpose: Literal["best", "all"],
    files: tuple[Path, ...],
    label: str | None,
    scale: tuple[float, float] | None,
    show_agents: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Choose responses of RUN to label next.

    Writes a CSV file with an id, the prompt, the response, the other agents' responses to the item, and an empty column `label`.
    Rows are in random order, and agents are not named. Of several responses of an agent to an item, one is drawn at random. Fill
    in 0 or 1, grades, or win, tie and loss. Leave a cell empty if you cannot decide. The JSON file next to the table records the
    agent and the repeat of each row, and its sampling probability. Keep both files together.

    Items are drawn at random. Responses that already have a label in the files --labels are not chosen again. --label names the
    column of these labels, and --scale the lowest and highest value of all labels. An existing file is not replaced.
    """
    from youden.runs.run_object import Run

    written = Run(run).label(
        n, out, purpose=purpose, labels=files or None, label=label, scale=scale, show_agents=show_agents, seed=seed
    )
    next_command = ["youden", "quality", str(run)]
    for file in (*files, out):
        next_command += ["--labels", str(file)]
    if label is not None:
        next_command += ["--label", label]
    if scale is not None:
        next_command += ["--scale", f"{scale[0]:.15g},{scale[1]:.15g}"]
    if as_json:
        output.print_json(
            {
                "table": str(out),
                "key": str(written.key),
                "given": dict(written.given),
                "known": written.n_known,
                "notes": list(written.notes),
            }
        )
    else:
        n_responses = format_count(sum(written.given.values()), "response")
        n_agents = format_count(len(written.given), "agent")
        click.echo(printable(str(out)))
        for note in written.notes:
            output.print_note(f"labels: {note}")
        output.print_note(f"{n_responses} of {n_agents}; agents of the rows: {written.key}")
    output.print_note(f"next: fill in the column `label`, then run: {format_command(next_command)}")


@click.command("quality")
@options.run
@options.label_file_options
@options.json
def quality_command(
    *,
    run: Path,
    files: tuple[Path, ...],
    label: str | None,
    scale: tuple[float, float] | None,
    as_json: bool,
) -> None:
    """Estimate the mean label of each agent from a few labels.

    The quality of an agent of RUN is the label that its responses would get on average. It is the posterior mean of a model: the
    agent's mean label, corrected for difficult items, is shrunk towards the value that a regression on ability predicts. The
    better ability predicts the labels, the more it is shrunk. Agents far from the regression line are listed. The labels are
    those of --labels, from 0 to 1 unless --scale is set.

    The output begins with the recommendation of the run, which states whether agreement or labels decide. Writes quality.csv and
    quality.json; other files do not change. Later reports show the recommendation, too.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.pipeline.recommendation import read_recommendation
    from youden.workflows.quality import estimate_quality, quality_table

    if not files:
        raise click.UsageError(
            "Labels are missing. Set --labels FILE, or choose responses to label: run `youden label RUN --next 30 --out "
            "to-label.csv`."
        )
    folder = RunFolder(run)
    quality = estimate_quality(folder, files, label=label, scale=scale)
    recommendation = read_recommendation(folder)
    output.print_result(
        as_json,
        {"recommendation": asdict(recommendation), **asdict(quality)},
        answer=[recommendation.text],
        tables=[quality_table(quality)],
        lines=quality.summary,
        notes=[f"labels: {note}" for note in quality.notes],
    )
