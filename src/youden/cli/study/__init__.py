"""`youden study …`: the paper's questions asked of a run, one file a question."""

from __future__ import annotations

import click

from youden.cli.terms.groups import Loading

QUESTIONS = {
    "links": "youden.cli.study.links:links_command",
    "sparsity": "youden.cli.study.sparsity:sparsity_command",
    "baselines": "youden.cli.study.baselines:baselines_command",
    "budget": "youden.cli.study.budget:budget_command",
    "judges": "youden.cli.read.compare:compare_command",
    "paper": "youden.cli.study.paper:paper_command",
}


@click.command("study", cls=Loading, groups={"Commands": QUESTIONS})
def study_command() -> None:
    """Ask the paper's questions of a run."""
