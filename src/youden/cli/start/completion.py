"""`youden completion SHELL`: what makes a shell complete commands, options and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

HOW = {
    "bash": """echo 'eval "$(youden completion bash)"' >> ~/.bashrc""",
    "zsh": """echo 'eval "$(youden completion zsh)"' >> ~/.zshrc""",
    "fish": "youden completion fish > ~/.config/fish/completions/youden.fish",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(HOW)))
def completion_command(shell: str) -> None:
    """Print what makes a shell complete commands and options.

    Once, then open a new terminal:

    \b
    bash  echo 'eval "$(youden completion bash)"' >> ~/.bashrc
    zsh   echo 'eval "$(youden completion zsh)"' >> ~/.zshrc
    fish  youden completion fish > ~/.config/fish/completions/youden.fish
    """
    from youden.cli import youden

    made = get_completion_class(shell)
    if made is not None:
        click.echo(made(youden, {}, "youden", "_YOUDEN_COMPLETE").source())
