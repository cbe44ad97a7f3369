"""Commands under one name: each loads its file when it is asked for, and a name that is mistyped gets a suggestion."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click


class Suggesting(click.Group):
    """Says what a mistyped command may have meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
            close = get_close_matches(name, known, n=3, cutoff=0.5)
            hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else f"There are: {', '.join(known)}."
            ctx.fail(f"No such command {name!r}. {hint}")
        return super().resolve_command(ctx, args)


class Loading(Suggesting):
    """Commands by where they are, "module:name", under the headings of `--help`."""

    def __init__(self, *args: Any, groups: Mapping[str, Mapping[str, str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.groups = groups
        self.places = {name: place for group in groups.values() for name, place in group.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.places:
            return None
        module, name = self.places[cmd_name].split(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, self.places))
        limit = formatter.width - 6 - widest
        for heading, names in self.groups.items():
            with formatter.section(heading):
                loaded = [(name, self.get_command(ctx, name)) for name in names]
                rows = [(name.ljust(widest), one.get_short_help_str(limit)) for name, one in loaded if one]
                formatter.write_dl(rows)
