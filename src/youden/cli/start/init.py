"""`youden init [POOL]`: a first config, with comments, for what is there."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli.terms import options, show
from youden.text.printable import printable

if TYPE_CHECKING:
    from youden.nouns import Json


@click.command("init")
@click.argument("pool", required=False, type=click.Path(path_type=Path))
@click.option("--judge", help="A name, or a path that ends in .yaml. [default: one that can be asked]")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The file. [default: NAME.yaml]")
@options.json
def init_command(pool: Path | None, judge: str | None, out: Path | None, as_json: bool) -> None:
    """Write a first config for POOL, and say what comes next.

    POOL is a CSV or Parquet table with the columns agent, item and text (and prompt, group), or a pool's folder; without it the
    one pool in this folder is taken. The config says in comments what was found, what the run costs, and what else it may say.
    The judge is gpt-4o-mini where its key is set, else lexical. Nothing is asked, and no file is overwritten.
    """
    from youden.pools.bring.first_config import find_pool, write_first_config

    begun = write_first_config(pool or find_pool(Path()), out=out, judge=judge, environment=os.environ)
    cost, file = begun.cost, shlex.quote(str(begun.file))
    if as_json:
        found: dict[str, Json] = {
            "agents": begun.pool.n_agents,
            "items": begun.pool.n_items,
            "missing": begun.pool.n_missing,
        }
        asked: dict[str, Json] = {"judge": cost.judge, "calls": cost.calls, "usd": cost.usd}
        show.print_json({"config": str(begun.file), **found, **asked, "next": f"youden check {file}"})
        return
    usd = "at an unknown price" if cost.usd is None else f"about ${cost.usd:,.2f}"
    size = f"{begun.pool.n_agents:,} agents × {begun.pool.n_items:,} items"
    click.echo(printable(f"{begun.file}: {size}, {cost.calls:,} calls to {cost.judge}, {usd}"))
    click.echo(f"next: youden check {file}    (what is wrong with the pool; asks nothing)")
    click.echo(f"then: youden run {file}")
