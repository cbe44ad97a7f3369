"""Options of a run: what the command line says beside a run's config, by the config's own keys, and how a judge is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from youden.cli import options
from youden.cli.options import Number

if TYPE_CHECKING:
    from youden.data.folder.run_config import RunConfig
    from youden.judging.asking.terms import Asking, Batching
    from youden.nouns import Json, Progress

    Said = Mapping[str, object]
    """What was said on the command line, by the keys of a run's config."""
    Terms = Callable[..., Asking]
    """Makes the terms of asking, with what the command adds to them."""

R = TypeVar("R")

_OF_CONFIG: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "judge": click.option(
        "--judge", help="Another judge: a name, a path that ends in .yaml, or a model such as gpt-4o."
    ),
    "out": click.option("--out", type=click.Path(path_type=Path), help="The run's folder. [default: runs/NAME]"),
    "store": options.store("the config's, else YOUDEN_STORE, else verdicts.db in the run's folder"),
    "max_cost": options.max_cost,
    "max_missing": options.max_missing,
    "target": options.target,
    "trials": click.option(
        "--trials", type=click.IntRange(min=1), metavar="N", help="Trials an agent, in place of the config's budget."
    ),
    "calls": click.option(
        "--calls", type=click.IntRange(min=1), metavar="N", help="Calls in all, in place of the config's budget."
    ),
    "seed": click.option(
        "--seed", type=click.IntRange(min=0), help="Draws the comparisons. [default: the config's, else 0]"
    ),
    "width": click.option(
        "--width",
        type=Number(0, 1, min_open=True, max_open=True),
        metavar="W",
        help="Ask in rounds until nine in ten agents have an interval of ± W. For another share: `width_share` in the config.",
    ),
    "robust": options.robust,
    "trusted": options.trusted,
    "families": options.families,
}
"""The option of each config key that a command line may say."""

PLANNING = ("judge", "calls", "max_cost", "out", "seed", "store", "target", "trials", "width")
"""Config keys that `plan`, `judge` and `run` take on the command line."""


def of_config(*keys: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Adds the options of these config keys; those that were given arrive as one `said`, value by key."""

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        @wraps(function)
        def wrapped(**given: object) -> R:
            said = {key: value for key in keys if (value := given.pop(key)) is not None}
            return function(said=said, **given)

        command: Callable[..., R] = wrapped
        for key in reversed(keys):
            command = _OF_CONFIG[key](command)
        return command

    return decorate


def run_config(path: Path, said: Said) -> RunConfig:
    """The run config at `path`, with what was said in place of its own words.

    What it names is looked for before the libraries of a run are loaded, which takes a second.
    """
    from youden.data.folder.run_config import load_run_config, with_usual_store
    from youden.judging.config.judge_files import load_judge_config

    if said.get("robust") and "trusted" in said:
        raise click.UsageError("--robust and --trusted would both head the ranking. Give one of them.")
    changes = {key: _as_json(key, value) for key, value in said.items()}
    if "trusted" in said:
        changes["robust"] = False
    elif said.get("robust"):
        changes["trusted"] = []
    if "trials" in said and "calls" in said:
        raise click.UsageError("--calls and --trials both say how much is asked. Give one of them.")
    if said.keys() & {"trials", "calls", "width"}:  # in place of whatever budget the config names
        budget: dict[str, Json] = {"calls": None, "percent": None, "trials": None, "width": None}
        changes = budget | changes | ({} if "width" in said else {"width_share": None})
    config = with_usual_store(load_run_config(path, changes), options.usual_store())
    load_judge_config(config.judge)
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
    @wraps(function)
    def wrapped(*, retry_failed: bool, log: Path | None, grace: float, **rest: object) -> R:
        def terms(*, progress: Progress | None = None, batching: Batching | None = None) -> Asking:
            from youden.judging.asking.terms import Asking as Terms

            return Terms(retry_failed=retry_failed, log=log, grace=grace, progress=progress, batching=batching)

        return function(asking=terms, **rest)

    return wrapped
