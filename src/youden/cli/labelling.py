"""Commands for somebody who can label a few answers: label, quality.

`youden label RUN --next N`: which answers to label next.

`youden quality RUN --labels FILE…`: what a label would say of each agent on average.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import click

from youden.cli import options, output
from youden.text.printable import printable
from youden.text.sentences import format_count


@click.command("label")
@options.run
@click.option("--next", "n", type=click.IntRange(min=1), required=True, metavar="N", help="How many answers.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The table to write, a .csv.")
@click.option(
    "--for",
    "purpose",
    type=click.Choice(["best", "all"]),
    default="all",
    help="What labels are for: to find the best agent, or to know all of them.",
)
@options.of_labels
@click.option("--show-agents", is_flag=True, help="Name the agents. Without it, whoever labels does not see them.")
@options.seeded("items, ids and the order")
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
    """Say which answers of RUN to label next.

    Writes a table for whoever labels: an id, the prompt, the answer, the other agents' answers to the item, and an empty column
    `label`, in random order and without agents' names. The .json beside it says whose answers they are and with what probability
    each was drawn: keep both together. Fill in 0 or 1, grades, or win, tie and loss; leave out what you cannot tell.

    Answers that have a label already (--labels) are not chosen again. Items are drawn at random for each agent.
    """
    from youden.runs.run_object import Run

    written = Run(run).label(
        n, out, purpose=purpose, labels=files or None, label=label, scale=scale, show_agents=show_agents, seed=seed
    )
    words = " ".join(f"--labels {shlex.quote(str(file))}" for file in (*files, out))
    if as_json:
        output.print_json(
            {"table": str(out), "key": str(written.key), "given": dict(written.given), "known": written.n_known}
        )
    else:
        click.echo(printable(str(out)))
        output.note(
            f"{format_count(sum(written.given.values()), 'answer')} of "
            f"{format_count(len(written.given), 'agent')}; whose: {written.key}"
        )
    output.note(f"fill in the column label, then: youden quality {shlex.quote(str(run))} {words}")


@click.command("quality")
@options.run
@options.of_labels
@options.json
def quality_command(
    *,
    run: Path,
    files: tuple[Path, ...],
    label: str | None,
    scale: tuple[float, float] | None,
    as_json: bool,
) -> None:
    """Estimate what labels would say of RUN's agents, from a few.

    Quality is what a label would say of an agent on average, estimated from a few labels and ability together.

    Labels decide where ability misleads, and ability saves labels where it does not: quality lies between an agent's own label
    mean and what ability lets one expect, by how well ability predicts labels here. An agent off that line is named.

    Writes quality.csv and quality.json; the ranking and every other file stay as they are.
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.workflows.quality import estimate_quality, quality_table

    if not files:
        raise click.UsageError(
            "Give --labels FILE. `youden label RUN --next 30 --out to-label.csv` says what to label."
        )
    found = estimate_quality(RunFolder(run), files, label=label, scale=scale)
    output.tell(as_json, asdict(found), tables=[quality_table(found)], words=found.words)
