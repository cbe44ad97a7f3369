"""`youden store copy A B` and `youden store merge OUT SHARD…`: answers from store to store."""

from __future__ import annotations

from dataclasses import asdict

import click

from youden.cli.terms import options, show


@click.group("store")
def command() -> None:
    """Copy answers between stores, files or PostgreSQL."""


@command.command("copy")
@click.argument("source")
@click.argument("target")
@options.json
def copy(source: str, target: str, as_json: bool) -> None:
    """Put all that SOURCE holds into TARGET, made where there is none.

    Each is a path, or postgresql://USER@HOST/DATABASE. What TARGET has stays; the same command goes on where it broke off.
    """
    _copied((source,), target, as_json=as_json)


@command.command("merge")
@click.argument("out")
@click.argument("shards", nargs=-1, required=True)
@options.json
def merge(out: str, shards: tuple[str, ...], as_json: bool) -> None:
    """Join the stores SHARDS in OUT, made where there is none.

    Of two answers to one request the first stands. A run whose `store:` is OUT asks only what no shard holds.
    """
    _copied(shards, out, as_json=as_json)


def _copied(sources: tuple[str, ...], target: str, *, as_json: bool) -> None:
    from youden.judging.store.copying import copy_stores
    from youden.text.places import shown

    done = copy_stores(sources, target)
    if as_json:
        show.print_json({"store": shown(target), **asdict(done)})
    else:
        show.note(f"{done.n_new:,} of {done.n_answers:,} answers are new in {shown(target)}")
