"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from youden.cli.terms.values import Number, pairs, words

R = TypeVar("R")


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

max_cost = click.option("--max-cost", type=Number(min=0), metavar="USD", help="The most that this command may spend.")
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
    help="On Ctrl-C, SIGTERM or SIGHUP, wait this long for answers to calls in flight, and keep them. A second one ends at "
    "once.",
)

_targets = click.Choice(["items-like-these", "these-items"])
target = click.option(
    "--target",
    type=_targets,
    help="What intervals speak of: more items of this kind, or these items alone. The run remembers it. "
    "[default: what the run says, else items-like-these]",
)
about = click.option(
    "--target",
    type=_targets,
    help="What differences speak of: more items of this kind, or these items alone. "
    "[default: what the runs say, else items-like-these]",
)
labels = click.option(
    "--labels",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Hold the ranking against labels: CSV, JSONL or Parquet with a column agent and columns of numbers. "
    "Columns item (labels of agents on items) and alias (an agent's other name) may be there. No fit sees them.",
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
    callback=words,
    help="Rank by the trials of these agents, separated by commas, with everybody. It holds against rings. Where nobody "
    "cheats, it costs up to .09 of the rank correlation. The run remembers it.",
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
    help="What a held-out cell keeps out of training. shared: every trial that touches it; own: those that score it, the "
    "paper's way.",
)
held_out = click.option(
    "--holdout",
    type=Number(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    default=0.2,
    show_default=True,
    help="The share of the cells that is held out.",
)
above = click.option(
    "--above",
    default="faithful",
    show_default=True,
    callback=words,
    help="Groups that should rank first, separated by commas.",
)
below = click.option(
    "--below",
    default="strategic,low-effort",
    show_default=True,
    callback=words,
    help="Groups that should rank last, separated by commas.",
)


def scores(default: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Adds --scores."""
    return click.option(
        "--scores",
        type=click.Choice(["row", "symmetric"]),
        default=default,
        show_default=True,
        help="row: an agent's trials where it stands first, the paper's way; symmetric: in both orders.",
    )
