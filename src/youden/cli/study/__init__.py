"""`youden study …`: the paper's questions asked of a run, one file a question."""

from __future__ import annotations

import click

from youden.cli.terms.groups import Loading

QUESTIONS = {
    "links": "youden.cli.study.links",
    "sparsity": "youden.cli.study.sparsity",
    "baselines": "youden.cli.study.baselines",
    "budget": "youden.cli.study.budget",
    "judges": "youden.cli.read.compare",
    "paper": "youden.cli.study.paper",
}


@click.command("study", cls=Loading, modules=QUESTIONS)
def command() -> None:
    """Ask the paper's questions of a run."""
