"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from youden.cli.terms.numbers import Number

if TYPE_CHECKING:
    from youden.data.folder.run_config import RunConfig
    from youden.judging.asking.terms import Asking as Terms
    from youden.judging.asking.terms import Batching
    from youden.nouns import Json, Progress, ScoreKind, SplitRule, Target

R = TypeVar("R")

CONFIGS = (".yaml", ".yml")
"""What a run's config ends in, where a command takes a pool as well."""

config = click.argument("config", type=click.Path(path_type=Path))
run = click.argument("run", type=click.Path(path_type=Path))
html = click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=lambda _ctx, _parameter, path: _with_charts(path),
    help="Also draw it, into this file.",
)
json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
dry_run = click.option("--dry-run", is_flag=True, help="Say what would be asked and what it would cost; ask nothing.")

max_cost = click.option("--max-cost", type=Number(min=0), metavar="USD", help="Most that this one command may spend.")
max_missing = click.option(
    "--max-missing",
    type=Number(0, 1),
    metavar="SHARE",
    help="Stop when more than this share of answers is missing. [default: 0.01]",
)
retry_failed = click.option(
    "--retry-failed", is_flag=True, help="Ask again what was refused, cut off, unparsed or rejected."
)
log = click.option("--log", type=click.Path(path_type=Path), help="Write every call and failure there, as JSON lines.")
grace = click.option(
    "--grace",
    type=Number(min=0),
    default=8.0,
    show_default=True,
    metavar="SECONDS",
    help="On Ctrl-C, SIGTERM or SIGHUP: so long for calls in flight to be answered and stored. A second one ends at once.",
)

target = click.option(
    "--target",
    type=click.Choice(["items-like-these", "these-items"]),
    help="What intervals speak of: more items of this kind, or these items alone. The run remembers it. "
    "[default: what the run says, else items-like-these]",
)
about = click.option(
    "--target",
    type=click.Choice(["items-like-these", "these-items"]),
    default="items-like-these",
    show_default=True,
    help="What differences speak of: more items of this kind, or these items alone.",
)
labels = click.option(
    "--labels",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Hold the ranking against labels: CSV, JSONL or Parquet with the columns agent, item or alias (another name of the "
    "agent) if you like, and numbers. No fit sees them.",
)
family = click.option(
    "--family",
    "families",
    multiple=True,
    metavar="JUDGE=NAME",
    callback=lambda _ctx, _parameter, said: _pairs(said),
    help="The family of a judge, as its agents say it in meta.family; goes before `family:` in the judge's config.",
)

families = click.option(
    "--families",
    "families_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Families of agents: CSV, JSONL or Parquet with the columns agent and family. Beside the plain ranking stands one in "
    "which an agent's own family does not score it and the others weigh alike. The run remembers it.",
)
robust = click.option(
    "--robust/--no-robust",
    default=None,
    help="Rank by the robust standing: agents that agree far beyond their abilities count as one. The run remembers it.",
)
trusted = click.option(
    "--trusted",
    metavar="AGENTS",
    callback=lambda _ctx, _parameter, said: None if said is None else words(said),
    help="Rank by what these agents, separated by commas, say of everybody. It holds against rings, and costs up to .09 of the "
    "rank correlation where nobody cheats. The run remembers it.",
)


def store(default: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Adds --store. default: in words, where answers go without it."""
    said = f"Where answers are kept: a path, or postgresql://USER@HOST/DATABASE for many hosts. [default: {default}]"
    return click.option("--store", metavar="PLACE", help=said)


def usual_store() -> str | None:
    """The store for commands whose --store and config name none: YOUDEN_STORE."""
    return os.environ.get("YOUDEN_STORE") or None


rule = click.option(
    "--rule",
    type=click.Choice(["shared", "own"]),
    default="shared",
    show_default=True,
    help="How cells are held out; own: the paper's way.",
)
held_out = click.option(
    "--holdout",
    type=Number(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    default=0.2,
    show_default=True,
    help="How many of the cells are held out.",
)
scores = click.option("--scores", type=click.Choice(["row", "symmetric"]), default="row", show_default=True)
above = click.option("--above", default="faithful", show_default=True, help="Groups that should rank first, by commas.")
below = click.option(
    "--below", default="strategic,low-effort", show_default=True, help="Groups that should rank last, by commas."
)


def said_target(target: str | None) -> Target | None:
    if target is None:
        return None
    return "these-items" if target == "these-items" else "items-like-these"


def split_rule(rule: str) -> SplitRule:
    return "own" if rule == "own" else "shared"


def score_kind(scores: str) -> ScoreKind:
    return "row" if scores == "row" else "symmetric"


def words(text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    if not found:
        raise click.BadParameter(f"{text!r} names nothing. Give one name, or several separated by commas.")
    return found


def numbers(text: str) -> tuple[float, ...]:
    """Numbers above 0, separated by commas."""
    try:
        found = tuple(float(word) for word in words(text))
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no list of numbers. Give, for example, 1,2,5.") from error
    if not all(0 < number < float("inf") for number in found):
        raise click.BadParameter(f"{text!r} holds a number that is not above 0. Give, for example, 1,2,5.")
    return found


def _pairs(said: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in said:
        name, sign, value = text.rpartition("=")
        if not (name and sign and value):
            raise click.BadParameter(f"{text!r} is no JUDGE=NAME. Give, for example, gpt-4o-mini=gpt.")
        pairs[name] = value
    return pairs


def _with_charts(path: Path | None) -> Path | None:
    if path is not None:
        from youden.report.charts.vega import need_charts

        need_charts()
    return path


@dataclass(frozen=True)
class Overrides:
    """What the command line says beside the config; None leaves the config's word."""

    judge: str | None
    out: Path | None
    max_cost: float | None
    max_missing: float | None = None
    target: str | None = None
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
        config = with_usual_store(load_run_config(path, changes), usual_store())
        load_judge_config(config.judge)
        from youden.data.pools.reader import locate_pool
        from youden.protocol.designs import DESIGNS

        DESIGNS.check(config.design)
        locate_pool(config.pool)
        return config


def _families(path: Path) -> dict[str, Json]:
    from youden.data.families import read_families

    return {**read_families(path)}


def overrides(function: Callable[..., R]) -> Callable[..., R]:
    """Adds --judge, --out, --store, --max-cost, --target, --trials and --width, and hands them over as one `overrides`."""

    @spending
    @click.option("--out", type=click.Path(path_type=Path), help="The run's folder. [default: runs/NAME]")
    @store("the config's, else YOUDEN_STORE, else verdicts.db in the run's folder")
    @target
    @click.option(
        "--trials", type=click.IntRange(min=1), metavar="N", help="Trials an agent, in place of the config's budget."
    )
    @click.option(
        "--width",
        type=Number(0, 1, min_open=True, max_open=True),
        metavar="W",
        help="Ask in rounds until nine in ten agents have ± W (width_share: in the config for another share).",
    )
    @wraps(function)
    def wrapped(
        *,
        overrides: Overrides,
        out: Path | None,
        store: str | None,
        target: str | None,
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

    @robust
    @trusted
    @families
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
    @max_cost
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

    @max_missing
    @retry_failed
    @log
    @grace
    @wraps(function)
    def wrapped(*, max_missing: float | None, retry_failed: bool, log: Path | None, grace: float, **rest: object) -> R:
        if isinstance(overrides := rest.get("overrides"), Overrides):
            rest["overrides"] = replace(overrides, max_missing=max_missing)
        return function(asking=Asking(max_missing, retry_failed, log, grace), **rest)

    return wrapped
