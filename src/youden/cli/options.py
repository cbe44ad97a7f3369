"""Define the options, arguments and command groups that several commands share.

A group imports a command's module only if the command or its help is used. Values are validated before a command runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial, wraps
from importlib import import_module
from inspect import cleandoc
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from youden.text.sentences import ABILITY


class SuggestingGroup(click.Group):
    """Group that suggests similar names for an unknown command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first argument names. For an unknown name, raise a usage error with similar names.

        args : arguments of the group, at least one

        Returns the name, the command, and the remaining arguments. During shell completion, name and command are None if the name
        is unknown. Otherwise, an unknown name raises click.UsageError with up to three similar names, or with all names if none
        is similar.
        """
        name = args[0]
        available = self.list_commands(ctx)
        if name not in available and not name.startswith("-") and not ctx.resilient_parsing:
            matches = get_close_matches(name, available, n=3, cutoff=0.5)
            hint = f"Did you mean {' or '.join(map(repr, matches))}?"
            if not matches:
                hint = f"Available commands: {', '.join(available)}."
            ctx.fail(f"No such command {name!r}. {hint}")
        return super().resolve_command(ctx, args)


class LazyGroup(SuggestingGroup):
    """Group that imports a command when it is needed, and lists commands under headings.

    Parameters
    ----------
    groups : mapping of str to mapping of str to str
        Heading in `--help` → name of a command → its location, "module:object".
    *args, **settings
        Passed to `click.Group`.
    """

    def __init__(self, *args: Any, groups: Mapping[str, Mapping[str, str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.groups = groups
        self.locations = {name: location for commands in groups.values() for name, location in commands.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        return list(self.locations)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of this name and return it; None if there is no such command."""
        if cmd_name not in self.locations:
            return None
        module, name = self.locations[cmd_name].split(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names of the commands with their short help to `formatter`, under the headings of their groups.

        The modules of all commands are imported. Returns nothing.
        """
        name_width = max(map(len, self.locations))
        help_width = formatter.width - name_width - 6  # click leaves two columns on each side and two between
        for heading, names in self.groups.items():
            names_with_help = []
            for name in names:
                command = self.get_command(ctx, name)
                if command is not None:
                    names_with_help.append((name.ljust(name_width), command.get_short_help_str(help_width)))
            with formatter.section(heading):
                formatter.write_dl(names_with_help)


class Number(click.FloatRange):
    """Finite number in a range; NaN and infinity are refused."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert the text of an option to a float; raise a usage error unless it is a finite number in the range.

        The limits of the range are valid numbers, unless the object was created with `min_open` or `max_open`. A number outside
        the range is an error; if the object was created with `clamp`, it becomes the nearest limit.

        value : text of the option, or a number
        param, ctx : option and context that the error message names; None if unknown
        """
        example = "0.05" if self.max == 1 else "10"
        try:
            number = float(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a number. Set a number such as {example}.", param, ctx)
        if not isfinite(number):
            self.fail(f"{value!r} is not a finite number. Set a number such as {example}.", param, ctx)
        return float(super().convert(number, param, ctx))


def parse_names(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Parse an option that is a comma-separated list of names, as a click callback; None if it is not set."""
    return None if value is None else _split_names(value)


def parse_numbers(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[float, ...]:
    """Parse an option that is a comma-separated list of positive numbers, for example "1,2,5", as a click callback.

    Returns the numbers in the order of the list, or an empty tuple if the option is not set (None). Spaces and superfluous commas
    are ignored. Raises click.BadParameter if the list is empty or contains anything but finite positive numbers. The first two
    parameters have no effect.
    """
    if value is None:
        return ()
    try:
        numbers = tuple(map(float, _split_names(value)))
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a list of numbers. Set a list such as 1,2,5.") from error
    if not all(0 < number < float("inf") for number in numbers):
        raise click.BadParameter(f"{value!r} contains a number that is not positive. Set a list such as 1,2,5.")
    return numbers


def parse_pairs(
    example: str, *, split_at_last: bool = False
) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], dict[str, str]]:
    """Return the click callback of a repeatable option NAME=VALUE.

    Parameters
    ----------
    example : str
        Valid value, shown in the message about an invalid one.
    split_at_last : bool, default False
        Whether to split at the last "=", so that a name may contain one.

    Returns
    -------
    callable
        Returns the values by name. A usage error is raised if a text lacks the name, the "=" or the value, or if a name occurs
        twice.
    """
    return partial(_split_pairs, example=example, split_at_last=split_at_last)


def _split_pairs(
    _ctx: click.Context, parameter: click.Parameter, texts: tuple[str, ...], *, example: str, split_at_last: bool
) -> dict[str, str]:
    """Split texts NAME=VALUE, the values of the option `parameter`, and return the values by name.

    example : valid text, for error messages
    split_at_last : whether to split at the last "=", because names may contain one
    """
    pairs: dict[str, str] = {}
    for text in texts:
        parts = text.rsplit("=", 1) if split_at_last else text.split("=", 1)
        if len(parts) < 2 or not all(parts):
            raise click.BadParameter(f"{text!r} is not of the form {parameter.metavar}. Set, for example, {example}.")

        name, value = parts
        if name in pairs:
            raise click.BadParameter(f"{name!r} is set twice: got {pairs[name]!r} and {value!r}. Set it once.")
        pairs[name] = value
    return pairs


def _split_names(text: str) -> tuple[str, ...]:
    """Split a list of names at its commas; raise click.BadParameter if it contains no name."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise click.BadParameter(f"{text!r} contains no name. Set one name, or several separated by commas.")
    return names


def check_usage(*rules: tuple[object, str]) -> None:
    """Check combinations of options.

    Parameters
    ----------
    *rules : tuple of (object, str)
        One pair per rule: a value that is true if the rule is violated, and the error message.

    Raises
    ------
    click.UsageError
        If a rule is violated. The error has the message of the first violated rule.
    """
    for is_violated, message in rules:
        if is_violated:
            raise click.UsageError(message)


R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., object])
OutputMode = Literal["short", "quiet", "verbose", "json"]
"""How much a command prints of a run, and in which format."""


def add_parameters(command: Callable[..., R], decorators: Sequence[Callable[..., Any]]) -> Callable[..., R]:
    """Add options and arguments to a command, so that its help lists them in the order in which they are passed here.

    Parameters
    ----------
    command : callable
        Function of the command.
    decorators : sequence of callable
        Decorators such as `click.option("--seed")`, each of which adds one or more options or arguments.

    Returns
    -------
    callable
        The command with all options and arguments.
    """
    # click lists the option that was added last first
    for add_parameter in reversed(decorators):
        command = add_parameter(command)
    return command


def explain_ability(function: F) -> F:
    """Append the explanation of abilities to the help of a command."""
    function.__doc__ = f"{cleandoc(function.__doc__ or '')}\n\n{ABILITY}"
    return function


def output_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add --verbose, --quiet and --json to a command, which receives them as one argument `output_mode`.

    The argument is "short" if none of the three options is set, and otherwise "verbose", "quiet" or "json".
    """

    @click.option(
        "--verbose",
        is_flag=True,
        help="Print all details of the plan and the ranking, not only a summary.",
    )
    @click.option("--quiet", is_flag=True, help="Print only the table of the ranking.")
    @json
    @wraps(function)
    def call_with_output_mode(*, verbose: bool, quiet: bool, as_json: bool, **arguments: object) -> R:
        """Call the command with the argument `output_mode` in place of the three options, and return its result.

        The mode is "json", "verbose", "quiet", or "short" if no option is set. --json takes precedence over --verbose or --quiet;
        --verbose and --quiet together are a usage error, even with --json. The other arguments are passed unchanged.
        """
        if verbose and quiet:
            raise click.UsageError("Got both --verbose and --quiet. Set only one of them.")

        output_mode: OutputMode = "short"
        if as_json:
            output_mode = "json"
        elif verbose:
            output_mode = "verbose"
        elif quiet:
            output_mode = "quiet"
        return function(output_mode=output_mode, **arguments)

    return call_with_output_mode


def _check_charts_installed(_ctx: click.Context, _parameter: click.Parameter, path: Path | None) -> Path | None:
    """Return the path unchanged, as a click callback; raise ConfigError if it is set and figures cannot be drawn."""
    if path is not None:
        from youden.report.charts.vega import need_charts

        need_charts()
    return path


CONFIG_SUFFIXES = (".yaml", ".yml")
"""Suffixes that identify the config of a run, in commands that also accept a pool."""

config = click.argument("config", type=click.Path(path_type=Path))
run = click.argument("run", type=click.Path(path_type=Path))
runs = click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
pool_or_config = click.argument("source", metavar="POOL|CONFIG", type=click.Path(path_type=Path))
html = click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_check_charts_installed,
    help="Also write the figures to this HTML file.",
)
json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object to standard output.")
dry_run = click.option("--dry-run", is_flag=True, help="Show the planned requests and their cost without sending any.")

retry_failed = click.option(
    "--retry-failed",
    is_flag=True,
    help="Resend requests whose stored outcome is a refusal, a truncated or unparsed answer, or a rejection.",
)
log = click.option(
    "--log", type=click.Path(path_type=Path), help="Write each call and each failure to this file, as JSON lines."
)
grace = click.option(
    "--grace",
    type=Number(min=0),
    default=8.0,
    metavar="SECONDS",
    help="After Ctrl-C, SIGTERM or SIGHUP, wait this long for the answers to calls in flight and store them. A second signal "
    "stops at once.",
)

labels = click.option(
    "--labels",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Compare the ranking with labels: CSV, Excel, JSONL or Parquet with a column `agent` and numeric columns, and "
    "optionally `item` (for labels of single responses) and `alias` (another name of the agent). The fit does not use them.",
)


def family_option(judge: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Add --family; `judge` completes the sentence "JUDGE is …" of its help."""
    return click.option(
        "--family",
        "families",
        multiple=True,
        metavar="JUDGE=NAME",
        callback=parse_pairs("second=gpt", split_at_last=True),
        help=f"Family of a judge, named as in meta.family of the agents. JUDGE is {judge}. "
        "Overrides `family:` in the judge's config. Repeatable.",
    )


def seed_option(purpose: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Add --seed; `purpose` names what the seed is used for, after "Seed for"."""
    return click.option("--seed", type=click.IntRange(min=0), default=0, help=f"Seed for {purpose}.")


def parse_scale(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[float, float] | None:
    """Parse an option LOW,HIGH as two numbers, for example "1,5", as a click callback.

    Returns (LOW, HIGH) as floats, or None if the option is not set. Raises click.BadParameter if the text is not a pair of
    numbers. They are not checked further: LOW may exceed HIGH, and both may be infinite or NaN. The first two parameters have
    no effect.
    """
    if value is None:
        return None
    try:
        low, high = map(float, value.split(","))
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a pair of numbers LOW,HIGH. Set, for example, 1,5.") from error
    return low, high


def label_file_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add --labels, --label and --scale to a command, which receives them as the arguments `files`, `label` and `scale`."""
    labels_option = click.option(
        "--labels",
        "files",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="File with labels: a completed table from `youden label`, or CSV, Excel, JSONL or Parquet with the columns `agent`, "
        "`item` and a label. A response may have several labels. Repeatable.",
    )
    label_option = click.option(
        "--label",
        metavar="COLUMN",
        help="Column to use if the files have several label columns. A table from `youden label` may have `label` instead.",
    )
    scale_option = click.option(
        "--scale",
        callback=parse_scale,
        metavar="LOW,HIGH",
        help="Lowest and highest possible label. [default: 0,1]",
    )
    return labels_option(label_option(scale_option(function)))


def open_store_option(function: Callable[..., R]) -> Callable[..., R]:
    """Add --open-store to a command.

    By default, a network store is opened only if the user names it. With this option, the command may also open the store that
    the config of a run folder names.
    """

    @click.option(
        "--open-store",
        "opens_store",
        is_flag=True,
        help="Open the network store that the config of the folder names. Its host may receive your password.",
    )
    @wraps(function)
    def call_with_permission(*, opens_store: bool, **arguments: object) -> R:
        """Call the command. With --open-store, it may open the store of the config, and send it the user's password."""
        if not opens_store:
            return function(**arguments)
        call_with_open_store = _allow_network_stores(function, password=True)
        return call_with_open_store(**arguments)

    return call_with_permission


def allow_config_store(function: Callable[..., R]) -> Callable[..., R]:
    """Let a command open any store that its config names, without sending the password in PGPASSWORD to it."""
    return wraps(function)(_allow_network_stores(function, password=False))


def _allow_network_stores(function: Callable[..., R], *, password: bool) -> Callable[..., R]:
    """Wrap a command so that it may open network stores: databases of answers on another host.

    By default, only a store that the user names may be opened. The wrapped command may also open a store that is named in the
    config of a run folder, which may come from another person.

    password : whether the password in the environment variable PGPASSWORD may be sent to the hosts of these stores
    """

    def call_with_permission(**arguments: object) -> R:
        """Allow the stores, call the command, and withdraw the permission when the command ends."""
        from youden.judging.store.permission import network_stores_allowed

        with network_stores_allowed(password=password):
            return function(**arguments)

    return call_with_permission


def scores_option(default: str, name: str = "scores") -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Add --scores, which is passed on as the argument `name`."""
    return click.option(
        "--scores",
        name,
        type=click.Choice(["row", "symmetric"]),
        default=default,
        help="row: trials in which the agent's response comes first, as in the paper; symmetric: trials in both orders.",
    )
