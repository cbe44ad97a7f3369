"""`youden view [RUN…]`: look at runs in a browser."""

from __future__ import annotations

import secrets
from pathlib import Path

import click

from youden.cli.terms import show


@click.command("view")
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="[RUN]...")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="The port to serve at. [default: any that is free]"
)
@click.option("--open/--no-open", "opens", default=False, help="Open the address in a browser.")
def view_command(runs: tuple[Path, ...], port: int, opens: bool) -> None:
    """Look at runs in a browser, also while they are under way.

    Shows reports, two runs side by side, and every trial. Serves the runs named, or all in `runs/`, to this machine only, and
    only to who has the address that is printed. It reads and never writes. End it with Ctrl-C.
    """
    from youden.report.charts.vega import need_charts
    from youden.view.runs import find_runs

    need_charts()
    from youden.view.serve import prepare

    serving = prepare(find_runs(runs, root=Path("runs")), port=port, token=secrets.token_urlsafe(24))
    click.echo(serving.url)
    show.note("Serving to this machine only; Ctrl-C ends it.")
    if opens:
        click.launch(serving.url)
    serving.run()
