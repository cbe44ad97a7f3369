"""`youden store copy A B` and `youden store merge OUT SHARD…`: answers from store to store; `youden store batches`: what is
under way."""

from __future__ import annotations

from dataclasses import asdict

import click

from youden.cli.terms import options, show
from youden.cli.terms.groups import Suggesting


@click.group("store", cls=Suggesting)
def store_command() -> None:
    """Copy answers between stores; see which batches are under way."""


@store_command.command("copy")
@click.argument("source")
@click.argument("target")
@options.json
def copy(source: str, target: str, as_json: bool) -> None:
    """Put all that SOURCE holds into TARGET, made where there is none.

    Each is a path, or postgresql://USER@HOST/DATABASE. What TARGET has stays; the same command goes on where it broke off.
    """
    _copied((source,), target, as_json=as_json)


@store_command.command("merge")
@click.argument("out")
@click.argument("shards", nargs=-1, required=True)
@options.json
def merge(out: str, shards: tuple[str, ...], as_json: bool) -> None:
    """Join the stores SHARDS in OUT, made where there is none.

    Of two answers to one request the first stands. A run whose `store:` is OUT asks only what no shard holds.
    """
    _copied(shards, out, as_json=as_json)


@store_command.command("batches")
@click.argument("store")
@click.option("--forget", metavar="BATCH", help="Give its answers up: its requests are asked again.")
@options.json
def batches(store: str, forget: str | None, as_json: bool) -> None:
    """Show the batches that STORE knows to be under way at a provider.

    Any host goes on with them: `youden judge CONFIG --mode batch` with this store waits for those that nobody waits for.
    """
    from youden.errors import ConfigError
    from youden.judging.store.answers import open_store
    from youden.judging.store.jobs import noted_batches

    with open_store(store, read_only=forget is None) as opened:
        found = noted_batches(opened.place)
        if forget is not None:
            named = [one for one in found if forget in (one.batch, one.id)]
            if not named:
                raise ConfigError(
                    f"{opened.name} knows of no batch {forget}. `youden store batches {opened.name}` names them.",
                    slug="batch-none",
                )
            for one in named:
                opened.place.forget_batch(one.id)
            found = [one for one in found if one not in named]
    if as_json:
        show.print_json({"store": opened.name, "batches": [asdict(one) for one in found]})
        return
    for one in found:
        show.note(f"{one.batch or one.id}: {one.n_requests:,} requests to {one.model} at {one.address}")
    show.note(f"{len(found):,} batches are under way")


def _copied(sources: tuple[str, ...], target: str, *, as_json: bool) -> None:
    from youden.judging.store.copying import copy_stores
    from youden.text.places import shown

    done = copy_stores(sources, target)
    if as_json:
        show.print_json({"store": shown(target), **asdict(done)})
    else:
        show.note(f"{done.n_new:,} of {done.n_answers:,} answers are new in {shown(target)}")
