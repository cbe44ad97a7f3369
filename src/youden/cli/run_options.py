"""Options that are handed over as one: what is said beside a run's config, and how a judge is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from youden.cli import options
from youden.cli.options import Number

if TYPE_CHECKING:
    from youden.data.folder.run_config import RunConfig
    from youden.judging.asking.terms import Asking as Terms
    from youden.judging.asking.terms import Batching
    from youden.nouns import Json, Progress, Target

R = TypeVar("R")


@dataclass(frozen=True)
class Overrides:
    """What the command line says beside the config; None leaves the config's word."""

    judge: str | None
    out: Path | None
    max_cost: float | None
    max_missing: float | None = None
    target: Target | None = None
    trials: int | None = None
    width: float | None = None
    robust: bool | None = None
    trusted: tuple[str, ...] | None = None
    families: Path | None = None
    store: str | None = None

    def apply(self, path: Path) -> RunConfig:
        """The run config at `path` with these changes.

        What it names is looked for before the libraries of a run are loaded, which takes a second.
        """
        from youden.data.folder.run_config import load_run_config, with_usual_store
        from youden.judging.config.reading import load_judge_config

        if self.robust and self.trusted is not None:
            raise click.UsageError("--robust and --trusted would both head the ranking. Give one of them.")
        said: dict[str, Json | None] = {
            "judge": self.judge,
            "out": None if self.out is None else str(self.out),
            "max_cost": self.max_cost,
            "max_missing": self.max_missing,
            "target": self.target,
            "robust": self.robust if self.trusted is None else False,
            "trusted": [*self.trusted] if self.trusted is not None else [] if self.robust else None,
            "families": None if self.families is None else _families(self.families),
            "store": self.store,
        }
        changes: dict[str, Json | None] = {name: value for name, value in said.items() if value is not None}
        if self.trials is not None or self.width is not None:  # in place of whatever budget the config names
            changes |= {"calls": None, "percent": None, "trials": self.trials, "width": self.width}
            changes |= {} if self.width is not None else {"width_share": None}
        config = with_usual_store(load_run_config(path, changes), options.usual_store())
        load_judge_config(config.judge)
        from youden.data.pools.pool_reader import locate_pool
        from youden.protocol.designs import DESIGNS

        DESIGNS.check(config.design)
        locate_pool(config.pool)
        return config


def _families(path: Path) -> dict[str, Json]:
    from youden.data.label_tables import read_families

    return {**read_families(path)}


def overrides(function: Callable[..., R]) -> Callable[..., R]:
    """Adds --judge, --out, --store, --max-cost, --target, --trials and --width, and hands them over as one `overrides`."""

    @spending
    @click.option("--out", type=click.Path(path_type=Path), help="The run's folder. [default: runs/NAME]")
    @options.store("the config's, else YOUDEN_STORE, else verdicts.db in the run's folder")
    @options.target
    @click.option(
        "--trials", type=click.IntRange(min=1), metavar="N", help="Trials an agent, in place of the config's budget."
    )
    @click.option(
        "--width",
        type=Number(0, 1, min_open=True, max_open=True),
        metavar="W",
        help="Ask in rounds until nine in ten agents have an interval of ± W. For another share: `width_share` in the config.",
    )
    @wraps(function)
    def wrapped(
        *,
        overrides: Overrides,
        out: Path | None,
        store: str | None,
        target: Target | None,
        trials: int | None,
        width: float | None,
        **rest: object,
    ) -> R:
        return function(
            overrides=replace(overrides, out=out, store=store, target=target, trials=trials, width=width), **rest
        )

    return wrapped


def counting(function: Callable[..., R]) -> Callable[..., R]:
    """Adds --robust, --trusted and --families to the `overrides` that are there."""

    @options.robust
    @options.trusted
    @options.families
    @wraps(function)
    def wrapped(
        *,
        overrides: Overrides,
        robust: bool | None,
        trusted: tuple[str, ...] | None,
        families_file: Path | None,
        **rest: object,
    ) -> R:
        said = replace(overrides, robust=robust, trusted=trusted, families=families_file)
        return function(overrides=said, **rest)

    return wrapped


def spending(function: Callable[..., R]) -> Callable[..., R]:
    """Adds --judge and --max-cost, and hands them over as one `overrides`."""

    @click.option("--judge", help="Another judge: a name in configs/judges/, or a path that ends in .yaml.")
    @options.max_cost
    @wraps(function)
    def wrapped(*, judge: str | None, max_cost: float | None, **rest: object) -> R:
        return function(overrides=Overrides(judge, None, max_cost), **rest)

    return wrapped


@dataclass(frozen=True)
class Asking:
    """What the command line says of asking. max_missing: None leaves it to the config."""

    max_missing: float | None
    retry_failed: bool
    log: Path | None
    grace: float

    def terms(self, *, progress: Progress | None = None, batching: Batching | None = None) -> Terms:
        """The terms of a run, whose config says what may be spent and may be missing."""
        from youden.judging.asking.terms import Asking as Terms

        return Terms(
            retry_failed=self.retry_failed, progress=progress, log=self.log, batching=batching, grace=self.grace
        )


def asking(function: Callable[..., R]) -> Callable[..., R]:
    """Adds --max-missing, --retry-failed, --log and --grace, and hands them over as one `asking`; --max-missing also to
    `overrides`."""

    @options.max_missing
    @options.retry_failed
    @options.log
    @options.grace
    @wraps(function)
    def wrapped(*, max_missing: float | None, retry_failed: bool, log: Path | None, grace: float, **rest: object) -> R:
        if isinstance(overrides := rest.get("overrides"), Overrides):
            rest["overrides"] = replace(overrides, max_missing=max_missing)
        return function(asking=Asking(max_missing, retry_failed, log, grace), **rest)

    return wrapped
