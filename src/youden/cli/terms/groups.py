"""Commands under one name: each loads its file when it is asked for, and a name that is mistyped gets a suggestion."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from itertools import groupby
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
    """Commands by the modules they are in. headings: of their folders, in the order of `--help`; without any there is one."""

    def __init__(
        self, *args: Any, modules: Mapping[str, str], headings: Mapping[str, str] | None = None, **settings: Any
    ) -> None:
        super().__init__(*args, **settings)
        self.modules = modules
        self.headings = headings or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        order = list(self.headings.values())
        return sorted(self.modules, key=lambda name: order.index(self._heading(name)) if order else 0)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.modules:
            return None
        command: click.Command = import_module(self.modules[cmd_name]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, self.modules))
        limit = formatter.width - 6 - widest
        for heading, names in groupby(self.list_commands(ctx), key=self._heading):
            with formatter.section(heading):
                loaded = [(name, self.get_command(ctx, name)) for name in names]
                rows = [(name.ljust(widest), one.get_short_help_str(limit)) for name, one in loaded if one]
                formatter.write_dl(rows)

    def _heading(self, name: str) -> str:
        return self.headings.get(self.modules[name].split(".")[2], "Commands")
