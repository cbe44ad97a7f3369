"""Describe every command with its help and options, as click knows them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from making.marks import cell
from youden.cli import COMMANDS, youden


def table(_: str = "") -> str:
    """Return a section for each command, in the order of `youden --help`; the commands of a group follow it."""
    context = click.Context(youden, info_name="youden")
    sections: list[str] = []
    for name in COMMANDS:
        command = youden.get_command(context, name)
        if command is not None:
            sections += [_format_command(member, path) for member, path in _iter_commands(command, f"youden {name}")]
    return "\n\n".join(sections)


def _iter_commands(command: click.Command, path: str) -> Iterator[tuple[click.Command, str]]:
    yield command, path
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            if member is not None:
                yield from _iter_commands(member, f"{path} {name}")


def _format_command(command: click.Command, path: str) -> str:
    level = "##" if path.count(" ") == 1 else "###"
    context = click.Context(command, info_name=path)
    pieces = " ".join(command.collect_usage_pieces(context))
    text = inspect.cleandoc(command.help or "").replace("\f", "")
    return f"{level} {path}\n\n```text\n{path} {pieces}\n```\n\n{_format_help(text)}\n\n{_format_options(command, context)}"


def _format_help(text: str) -> str:
    """Convert click's help to Markdown; a paragraph that begins with \\b keeps its lines."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        f"```text\n{block.removeprefix(chr(8)).strip(chr(10))}\n```" if block.startswith("\b") else _join_lines(block)
        for block in paragraphs
    )


def _join_lines(block: str) -> str:
    return cell(" ".join(block.split()))


def _format_options(command: click.Command, context: click.Context) -> str:
    rows = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            rows.append(f"| `{record[0].replace('|', chr(0xFF5C))}` | {cell(record[1])} |")
    return "\n".join(["| option | description |", "| --- | --- |", *rows])
