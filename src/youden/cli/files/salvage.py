"""`youden salvage STORE --out NEW`: save the answers of a store that is damaged."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from youden.cli.terms import options, show


@click.command("salvage")
@click.argument("store", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="NEW", help="A new store for what can be saved."
)
@options.json
def salvage_command(store: Path, out: Path, as_json: bool) -> None:
    """Save the answers that stand whole in a damaged STORE.

    STORE is a verdicts.db. It is left as it is. Put NEW in its place (or name it under `store:`) and run the same again: what
    could not be saved is asked again.
    """
    from youden.judging.store.salvage import salvage

    saved = salvage(store, out)
    if as_json:
        show.print_json(asdict(saved))
    else:
        show.note(f"{saved.n_answers:,} answers saved from {store} in {out}")
