"""`youden report RUN`: draw a run's report anew."""

from __future__ import annotations

from pathlib import Path

import click

from youden.cli import options, show


@click.command("report")
@options.run
def command(run: Path) -> None:
    """Write RUN/report.html from the files of a fitted run, and print its path."""
    from youden.data.run_folder import RunFolder
    from youden.report.write import write_report

    folder = RunFolder(run)
    show.show_warnings(write_report(folder))
    click.echo(str(folder.file("report.html")))
