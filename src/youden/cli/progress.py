"""Run a command that sends requests with a progress bar, and log its run to MLflow.

A tracking server that cannot be used is an error before any request is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

import click

from youden.cli import output
from youden.progress_bar import progress_bar

if TYPE_CHECKING:
    from youden.data.folder.run_folder import RunFolder
    from youden.progress_bar import ProgressBar
    from youden.types.pool import Json

T = TypeVar("T")


def run_with_progress(
    plan: Mapping[str, Json],
    send_requests: Callable[[ProgressBar | None], T],
    *,
    dry_run: bool,
    as_json: bool,
    quiet: bool = False,
) -> T | None:
    """Call a function that sends requests, and show its progress. A dry run does not call the function.

    Parameters
    ----------
    plan : mapping of str to object
        Description of the planned requests as JSON, which a dry run prints to standard output if `as_json` is True.
    send_requests : callable
        Function that takes the progress bar, or None if `quiet` is True. Its errors are passed on.
    dry_run : bool
        Whether to return without calling the function.
    as_json : bool
        Whether a dry run prints `plan`; without an effect otherwise.
    quiet : bool, default False
        Whether to show no progress.

    Returns
    -------
    object or None
        Result of the function; None after a dry run.
    """
    if dry_run:
        if as_json:
            output.print_json(plan)
        return None
    if quiet:
        return send_requests(None)
    with progress_bar() as bar:
        return send_requests(bar)


mlflow_option = click.option(
    "--mlflow",
    "to_mlflow",
    is_flag=True,
    help="Log the ranking, its intervals, the cost and the report to the MLflow server at MLFLOW_TRACKING_URI.",
)


def check_mlflow() -> None:
    """Raise ConfigError if a run could not be logged to MLflow."""
    from youden.report.tracking import check_tracking

    check_tracking()


def log_to_mlflow(folder: RunFolder) -> None:
    """Log a run that has a report to MLflow, and print the id of the MLflow run."""
    from youden.report.tracking import log_run

    output.print_note(f"MLflow run {log_run(folder)}")
