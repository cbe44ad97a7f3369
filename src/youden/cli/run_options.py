"""Options of a run: what the command line says beside a run's config, by the config's own keys, and how a judge is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import click

from youden.cli import options
from youden.cli.options import Number, words
from youden.errors import PlanError
from youden.project_store import usual_store
from youden.run_keys import REPLACED_KEYS, CallBudget, declared_keys

if TYPE_CHECKING:
    from youden.data.folder.run_config import RunConfig
    from youden.judging.scheduler.options import Batching, JudgingOptions
    from youden.types import Progress
    from youden.types.pool import Json

    Said = Mapping[str, Any]
    """What was said on the command line, by the keys of a run's config."""
    Terms = Callable[..., JudgingOptions]
    """Makes the terms of asking, with what the command adds to them."""

R = TypeVar("R")


def _option(name: str, help: str | None) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Return the option of a config key, with its type there. help: replaces the help of the key."""
    declared = declared_keys()[name]
    (kind, *_), key, limits = declared.types, declared.key, declared.limits
    if name == "calls":
        return budgets(help or key.help)
    option = f"--{name.replace('_', '-')}"
    is_flag = kind is bool
    parameter_type: Any = None
    if key.metavar in ("FILE", "PATH"):
        parameter_type = click.Path(path_type=Path)
    elif get_origin(kind) is Literal:
        parameter_type = click.Choice(get_args(kind))
    elif kind in (int, float):
        low, high = limits.get("ge", limits.get("gt")), limits.get("le", limits.get("lt"))
        number = click.IntRange if kind is int else Number
        parameter_type = number(low, high, min_open="gt" in limits, max_open="lt" in limits)
    return click.option(
        f"{option}/--no-{option[2:]}" if is_flag else option,
        type=parameter_type,
        is_flag=is_flag,
        default=None,
        callback=words if get_origin(kind) is list else None,
        metavar=None if key.metavar == "PATH" else key.metavar,
        help=help or key.help,
    )


def parse_budget(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> int | str | None:
    """Read the value of an option or argument that is a budget."""
    try:
        return None if value is None else CallBudget.parse(value).plain
    except PlanError as error:
        raise click.BadParameter(error.message.removeprefix("calls: ")) from None


def budgets(help: str, *, several: bool = False) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Add `--calls`, which takes one budget or, with `several`, a tuple of them, and refuse the options that it replaces."""

    def parse_several(
        ctx: click.Context, parameter: click.Parameter, value: str | None
    ) -> tuple[int | str | None, ...]:
        return tuple(parse_budget(ctx, parameter, part) for part in (value or "").split(",") if part.strip())

    def refuse(_ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
        if value is not None:
            option = parameter.opts[0]
            new = str(REPLACED_KEYS[option.removeprefix("--")]).format(value).replace(":", "")
            raise click.UsageError(f"No such option: {option}. Set --{new}.")

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        for old in ("--trials", "--percent"):
            function = click.option(old, hidden=True, expose_value=False, callback=refuse)(function)
        if several:
            return click.option("--calls", callback=parse_several, metavar="BUDGETS", help=help)(function)
        return click.option("--calls", callback=parse_budget, metavar="BUDGET", help=help)(function)

    return decorate


def keys_of(command: str) -> list[str]:
    """Return the config keys that `plan`, `judge` or `run` has as options."""
    return [name for name, declared in declared_keys().items() if command in declared.key.commands.split()]


def of_config(*keys: str, **helps: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Adds the options of these config keys; those that were given arrive as one `said`, value by key.

    helps: keys with a help of this command's own.
    """
    names = (*keys, *helps)

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        @wraps(function)
        def wrapped(**given: object) -> R:
            said = {key: value for key in names if (value := given.pop(key)) is not None}
            return function(said=said, **given)

        command: Callable[..., R] = wrapped
        for key in reversed(names):
            command = _option(key, helps.get(key))(command)
        return command

    return decorate


def run_config(path: Path, said: Said) -> RunConfig:
    """The run config at `path`, with what was said in place of its own words.

    What it names is looked for before the libraries of a run are loaded, which takes a second.
    """
    from youden.data.folder.run_config import load_run_config, with_default_store

    if said.get("robust") and "trusted" in said:
        raise click.UsageError("--robust and --trusted would both head the ranking. Give one of them.")
    changes = {key: _as_json(key, value) for key, value in said.items()}
    if "trusted" in said:
        changes["robust"] = False
    elif said.get("robust"):
        changes["trusted"] = []
    if said.keys() & {"calls", "width"}:  # they replace whatever budget the config has
        changes = {"calls": None, "width": None} | changes
    if "store" in said:
        from youden.judging.store.permission import allow_store

        allow_store(str(said["store"]))
    config = with_default_store(load_run_config(path, changes), usual_store())
    from youden.judging.config.judge_files import load_judge_of_run

    load_judge_of_run(config)
    from youden.data.pools.pool_reader import locate_pool
    from youden.protocol.designs import DESIGNS

    DESIGNS.check(config.design)
    locate_pool(config.pool)
    return config


def _as_json(key: str, value: object) -> Json:
    if key == "families":
        from youden.data.label_tables import read_families

        return {**read_families(Path(str(value)))}
    if isinstance(value, tuple):
        return [str(one) for one in value]
    return value if isinstance(value, bool | int | float) else str(value)


def asking(function: Callable[..., R]) -> Callable[..., R]:
    """Adds --retry-failed, --log and --grace, and hands over what makes the terms of asking with them as `asking`."""

    @options.retry_failed
    @options.log
    @options.grace
    @options.opens_its_store
    @wraps(function)
    def wrapped(*, retry_failed: bool, log: Path | None, grace: float, **rest: object) -> R:
        def terms(*, progress: Progress | None = None, batching: Batching | None = None) -> JudgingOptions:
            from youden.judging.scheduler.options import JudgingOptions as Terms

            return Terms(retry_failed=retry_failed, log=log, grace=grace, progress=progress, batching=batching)

        return function(asking=terms, **rest)

    return wrapped
