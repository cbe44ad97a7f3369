"""Options of a run: what the command line says beside a run's config, by the config's own keys, and how a judge is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

import click

from youden.cli import options
from youden.cli.options import Number, words
from youden.errors import PlanError
from youden.run_keys import KEYS, REPLACED_KEYS, CallBudget

if TYPE_CHECKING:
    from youden.data.folder.run_config import RunConfig
    from youden.judging.scheduler.options import Asking, Batching
    from youden.types import Progress
    from youden.types.pool import Json

    Said = Mapping[str, Any]
    """What was said on the command line, by the keys of a run's config."""
    Terms = Callable[..., Asking]
    """Makes the terms of asking, with what the command adds to them."""

R = TypeVar("R")

PLANNING = ("judge", "calls", "max_cost", "out", "seed", "store", "target", "width")
"""Config keys that `plan`, `judge` and `run` take on the command line."""

ASKING = (*PLANNING, "max_missing")
"""Those that `judge` and `run` take, which ask."""


def _option(name: str, help: str | None) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """The option of a config's key, of the type that it has there; with a help of the command's own, if it has one."""
    key, word = KEYS[name], f"--{name.replace('_', '-')}"
    if key.kind is CallBudget:
        return budgets(help or key.help)
    base, *limits = get_args(key.kind) if get_origin(key.kind) is Annotated else (key.kind,)
    kind: Any = click.Path(path_type=Path) if base is Path else None
    if get_origin(base) is Literal:
        kind = click.Choice(get_args(base))
    elif base in (int, float):
        ends = {end: value for limit in limits for end, value in asdict(limit).items()}
        low, high = ends.get("ge", ends.get("gt")), ends.get("le", ends.get("lt"))
        kind = (click.IntRange if base is int else Number)(low, high, min_open="gt" in ends, max_open="lt" in ends)
    return click.option(
        f"{word}/--no-{word[2:]}" if base is bool else word,
        type=kind,
        is_flag=base is bool,
        default=None,
        callback=words if base is list else None,
        metavar=key.metavar,
        help=help or key.help,
    )


def budgets(help: str, *, several: bool = False) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Add `--calls`, which takes one budget or, with `several`, a tuple of them, and refuse the options that it replaces."""

    def parse(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> object:
        try:
            if several:
                return tuple(CallBudget.parse(part).plain for part in (value or "").split(",") if part.strip())
            return None if value is None else CallBudget.parse(value).plain
        except PlanError as error:
            raise click.BadParameter(error.message.removeprefix("calls: ")) from None

    def refuse(_ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
        if value is not None:
            option = parameter.opts[0]
            new = REPLACED_KEYS[option.removeprefix("--")].format(value).replace(":", "")
            raise click.UsageError(f"No such option: {option}. Set --{new}.")

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        for old in ("--trials", "--percent"):
            function = click.option(old, hidden=True, expose_value=False, callback=refuse)(function)
        metavar = "BUDGETS" if several else KEYS["calls"].metavar
        return click.option("--calls", callback=parse, metavar=metavar, help=help)(function)

    return decorate


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
    from youden.data.folder.run_config import load_run_config, with_usual_store

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
    config = with_usual_store(load_run_config(path, changes), options.usual_store())
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
        def terms(*, progress: Progress | None = None, batching: Batching | None = None) -> Asking:
            from youden.judging.scheduler.options import Asking as Terms

            return Terms(retry_failed=retry_failed, log=log, grace=grace, progress=progress, batching=batching)

        return function(asking=terms, **rest)

    return wrapped
