"""`--mlflow`: looked at before anything is asked, done when all is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from youden.cli.terms import show

if TYPE_CHECKING:
    from youden.data.folder.run_folder import RunFolder

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

    show.note(f"MLflow run {log_run(folder)}")
