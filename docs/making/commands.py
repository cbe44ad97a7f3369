"""Describe every command with its help and options, from click."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from making.marks import cell
from youden.cli import COMMANDS, youden


def table(_: str = "") -> str:
    """Return a section for each command, in the order of `youden --help`; the commands of a group follow the group."""
    context = click.Context(youden, info_name="youden")
    found: list[str] = []
    for name in COMMANDS:
        if (command := youden.get_command(context, name)) is not None:
            found += [_one(each, path) for each, path in _all(command, f"youden {name}")]
    return "\n\n".join(found)


def _all(command: click.Command, path: str) -> Iterator[tuple[click.Command, str]]:
    yield command, path
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from _all(below, f"{path} {name}")


def _one(command: click.Command, path: str) -> str:
    level = "##" if path.count(" ") == 1 else "###"
    context = click.Context(command, info_name=path)
    pieces = " ".join(command.collect_usage_pieces(context))
    text = inspect.cleandoc(command.help or "").replace("\f", "")
    return f"{level} {path}\n\n```text\n{path} {pieces}\n```\n\n{_help(text)}\n\n{_options(command, context)}"


def _help(text: str) -> str:
    """Convert the help of a click command to Markdown; a paragraph that begins with \\b keeps its lines."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        f"```text\n{block.removeprefix(chr(8)).strip(chr(10))}\n```" if block.startswith("\b") else _plain(block)
        for block in paragraphs
    )


def _plain(block: str) -> str:
    return cell(" ".join(block.split()))


def _options(command: click.Command, context: click.Context) -> str:
    rows = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            rows.append(f"| `{record[0].replace('|', chr(0xFF5C))}` | {cell(record[1])} |")
    return "\n".join(["| option | |", "| --- | --- |", *rows])
