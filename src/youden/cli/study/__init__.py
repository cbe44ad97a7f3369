"""`youden study …`: the paper's questions asked of a run, one file a question."""

from __future__ import annotations

from importlib import import_module

import click

QUESTIONS = {
    "links": "youden.cli.study.links",
    "sparsity": "youden.cli.study.sparsity",
    "baselines": "youden.cli.study.baselines",
    "budget": "youden.cli.study.budget",
    "judges": "youden.cli.read.compare",
    "paper": "youden.cli.study.paper",
}


class Questions(click.Group):
    """Loads a question's file when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(QUESTIONS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in QUESTIONS:
            return None
        command: click.Command = import_module(QUESTIONS[cmd_name]).command
        return command


@click.command("study", cls=Questions)
def command() -> None:
    """Ask the paper's questions of a run."""
