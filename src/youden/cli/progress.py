"""What commands that send requests share: the progress bar around them, and `--mlflow`, which is checked before any request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeVar

import click

from youden.cli import output
from youden.progress_bar import progress_bar

if TYPE_CHECKING:
    from youden.data.folder.run_folder import RunFolder
    from youden.progress_bar import ProgressBar
    from youden.types.pool import Json

T = TypeVar("T")


def asked(
    planned: Mapping[str, Json],
    ask: Callable[[ProgressBar | None], T],
    *,
    dry_run: bool,
    as_json: bool,
    quiet: bool = False,
) -> T | None:
    """What `ask` brings, with a bar while it works; None after a dry run, which asks nothing and prints what is planned."""
    if dry_run:
        if as_json:
            output.print_json(planned)
        return None
    with nullcontext() if quiet else progress_bar() as bar:
        return ask(bar)


option = click.option(
    "--mlflow",
    "to_mlflow",
    is_flag=True,
    help="Log the ranking, its intervals, the cost and the report to MLflow, where MLFLOW_TRACKING_URI says.",
)


def check() -> None:
    """Raises: ConfigError where a run could not be logged."""
    from youden.report.tracking import check_tracking

    check_tracking()


def log(folder: RunFolder) -> None:
    """Log a run that has its report, and say under which id."""
    from youden.report.tracking import log_run

    output.note(f"MLflow run {log_run(folder)}")
