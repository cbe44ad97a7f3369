"""What commands share: groups that load when they are asked for, with a suggestion for a name that is mistyped; values
that are checked; and options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeVar

import click


class SuggestingGroup(click.Group):
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


class LazyGroup(SuggestingGroup):
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


class Number(click.FloatRange):
    """A number that is one: neither nan nor inf passes for it."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(str(value))
        except ValueError:
            self.fail(f"{value!r} is no number. Give one such as {self._such_as}.", param, ctx)
        if not isfinite(number):
            self.fail(f"{value!r} is no number that can be counted with. Give one such as {self._such_as}.", param, ctx)
        return float(super().convert(number, param, ctx))

    @property
    def _such_as(self) -> str:
        return "0.05" if self.max == 1 else "10"


def words(_ctx: click.Context, _parameter: click.Parameter, said: str | None) -> tuple[str, ...] | None:
    """An option's callback: names separated by commas."""
    return None if said is None else _split(said)


def numbers(_ctx: click.Context, _parameter: click.Parameter, said: str | None) -> tuple[float, ...]:
    """An option's callback: numbers above 0, separated by commas; none where nothing is said."""
    try:
        found = () if said is None else tuple(map(float, _split(said)))
    except ValueError as error:
        raise click.BadParameter(f"{said!r} is no list of numbers. Give, for example, 1,2,5.") from error
    if not all(0 < number < float("inf") for number in found):
        raise click.BadParameter(f"{said!r} holds a number that is not above 0. Give, for example, 1,2,5.")
    return found


def pairs(
    such_as: str, *, at_last: bool = False
) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], dict[str, str]]:
    """The callback of a repeated option NAME=VALUE. such_as: an example. at_last: the name may hold a `=` itself."""

    def read(_ctx: click.Context, parameter: click.Parameter, said: tuple[str, ...]) -> dict[str, str]:
        found = {}
        for text in said:
            name, sign, value = text.rpartition("=") if at_last else text.partition("=")
            if not (name and sign and value):
                raise click.BadParameter(f"{text!r} is no {parameter.metavar}. Give, for example, {such_as}.")
            found[name] = value
        return found

    return read


def _split(text: str) -> tuple[str, ...]:
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    if not found:
        raise click.BadParameter(f"{text!r} names nothing. Give one name, or several separated by commas.")
    return found


def refuse(*rules: tuple[object, str]) -> None:
    """Raises: UsageError with the words of the first rule that is broken: whether it is, and what to say then."""
    for broken, said in rules:
        if broken:
            raise click.UsageError(said)


R = TypeVar("R")
Shown = Literal["short", "quiet", "verbose", "json"]
"""How much a command prints of a run's ranking."""


def shown(function: Callable[..., R]) -> Callable[..., R]:
    """Adds --verbose, --quiet and --json, which arrive as one `how`."""

    @click.option(
        "--verbose",
        is_flag=True,
        help="Say everything about the plan and the ranking, as the report does. Without it: a few lines.",
    )
    @click.option("--quiet", is_flag=True, help="Print the ranking's table and nothing else.")
    @json
    @wraps(function)
    def wrapped(*, verbose: bool, quiet: bool, as_json: bool, **rest: object) -> R:
        refuse((verbose and quiet, "--verbose and --quiet cannot go together. Give one of them."))
        how: Shown = "json" if as_json else "verbose" if verbose else "quiet" if quiet else "short"
        return function(how=how, **rest)

    return wrapped


def _with_charts(_ctx: click.Context, _parameter: click.Parameter, path: Path | None) -> Path | None:
    if path is not None:
        from youden.report.charts.vega import need_charts

        need_charts()
    return path


CONFIGS = (".yaml", ".yml")
"""What a run's config ends in, where a command takes a pool as well."""

config = click.argument("config", type=click.Path(path_type=Path))
run = click.argument("run", type=click.Path(path_type=Path))
runs = click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
pool_or_config = click.argument("source", metavar="POOL|CONFIG", type=click.Path(path_type=Path))
html = click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_with_charts,
    help="Also draw it, into this file.",
)
json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
dry_run = click.option("--dry-run", is_flag=True, help="Say what would be asked and what it would cost; ask nothing.")

retry_failed = click.option(
    "--retry-failed", is_flag=True, help="Ask again what was refused, cut off, unparsed or rejected."
)
log = click.option("--log", type=click.Path(path_type=Path), help="Write every call and failure there, as JSON lines.")
grace = click.option(
    "--grace",
    type=Number(min=0),
    default=8.0,
    metavar="SECONDS",
    help="On Ctrl-C, SIGTERM or SIGHUP, wait this long for answers to calls in flight, and keep them. A second one ends at "
    "once.",
)

labels = click.option(
    "--labels",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Compare the ranking with labels: CSV, JSONL or Parquet with a column agent and columns of numbers. "
    "Columns item (labels of agents on items) and alias (an agent's other name) may be there. They change no fit.",
)
family = click.option(
    "--family",
    "families",
    multiple=True,
    metavar="JUDGE=NAME",
    callback=pairs("gpt-4o-mini=gpt", at_last=True),
    help="A judge's family, by the name that agents have in meta.family; used instead of `family:` in the judge's config. "
    "Repeatable.",
)


def seeded(draws: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Adds --seed. draws: what it draws, in words."""
    return click.option("--seed", type=click.IntRange(min=0), default=0, help=f"Draws {draws}.")


def _ends(_ctx: click.Context, _parameter: click.Parameter, said: str | None) -> tuple[float, float] | None:
    if said is None:
        return None
    try:
        low, high = (float(word) for word in said.split(","))
    except ValueError as error:
        raise click.BadParameter(f"{said!r} is no lowest and highest label. Give, for example, 1,5.") from error
    return low, high


def of_labels(function: Callable[..., R]) -> Callable[..., R]:
    """Adds --labels, --label and --scale, which arrive as files, label and scale."""
    for option in (
        click.option(
            "--scale",
            callback=_ends,
            metavar="LOW,HIGH",
            help="The lowest and the highest label there can be. [default: 0,1]",
        ),
        click.option("--label", metavar="COLUMN", help="The column that is meant, where there are several."),
        click.option(
            "--labels",
            "files",
            multiple=True,
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Labels: a table that `youden label` wrote, filled in, or CSV, JSONL or Parquet with columns agent, item and "
            "a label. Repeatable; an answer may be labelled more than once.",
        ),
    ):
        function = option(function)
    return function


def open_store(function: Callable[..., R]) -> Callable[..., R]:
    """Add --open-store, which permits opening a network store that only a folder's config names."""

    @click.option(
        "--open-store",
        "opens_store",
        is_flag=True,
        help="Open the store on a server that the folder's config names. Its host may receive your password.",
    )
    @wraps(function)
    def wrapped(*, opens_store: bool, **rest: object) -> R:
        return _allowing_stores(function, password=True)(**rest) if opens_store else function(**rest)

    return wrapped


def opens_its_store(function: Callable[..., R]) -> Callable[..., R]:
    """Let a command that queries judges open any store its config names, but not send it the password in PGPASSWORD."""
    return wraps(function)(_allowing_stores(function, password=False))


def _allowing_stores(function: Callable[..., R], *, password: bool) -> Callable[..., R]:
    def with_permission(**arguments: object) -> R:
        from youden.judging.store.permission import network_stores_allowed

        with network_stores_allowed(password=password):
            return function(**arguments)

    return with_permission


def scores(default: str, name: str = "scores") -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Add --scores, which arrives as `name`."""
    return click.option(
        "--scores",
        name,
        type=click.Choice(["row", "symmetric"]),
        default=default,
        help="row: an agent's trials where it stands first, the paper's way; symmetric: in both orders.",
    )
