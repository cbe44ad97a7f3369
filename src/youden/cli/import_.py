"""`youden import FORMAT PATH`: bring what other tools made."""

from __future__ import annotations

from pathlib import Path

import click

from youden.cli import options, show


@click.command("import")
@click.argument("format_", metavar="FORMAT", type=click.Choice(["peer-prediction"]))
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The folder to make: a pool's or a run's.")
@options.json
def command(format_: str, path: Path, out: Path, as_json: bool) -> None:
    """Import PATH into the folder --out.

    peer-prediction: an agents file becomes a pool; a folder that holds tvd_mi_individual_examples becomes a run with rates of
    ordered pairs, both kinds of scores and a ranking, without texts.
    """
    from youden.pipeline import import_peer_prediction

    imported = import_peer_prediction(path, out)
    for note in imported.notes:
        show.note(f"note: {note}")
    if as_json:
        show.print_json(
            {"out": str(out), "kind": imported.kind, "agents": imported.n_agents, "items": imported.n_items}
        )
    else:
        click.echo(f"{imported.kind} of {imported.n_agents} agents × {imported.n_items} items: {out}")
