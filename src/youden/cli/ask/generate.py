"""`youden generate AGENTS [ITEMS]`: make a pool of responses."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli.terms import options, show
from youden.cli.terms.progress import progress_bar
from youden.cli.terms.values import pairs

if TYPE_CHECKING:
    from youden.nouns import Json
    from youden.pools.make.generate import Generated

ANSWERS = "answers.db"


@click.command("generate")
@click.argument("agents", type=click.Path(path_type=Path))
@click.argument("items", required=False)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The pool's folder to make.")
@click.option(
    "--model-map",
    "model_map",
    multiple=True,
    metavar="MODEL=JUDGE",
    callback=pairs("gpt-4=local"),
    help="Ask JUDGE in place of MODEL: another model of the file, a name in configs/judges/, or a .yaml. `*=JUDGE` replaces "
    "all. Repeatable.",
)
@options.store("YOUDEN_STORE, else answers.db in --out")
@options.max_cost
@options.max_missing
@options.retry_failed
@options.grace
@click.option("--replay", is_flag=True, help="Answer from the store alone; what is not in it is an error.")
@options.json
def generate_command(
    *,
    agents: Path,
    items: str | None,
    out: Path,
    model_map: dict[str, str],
    store: str | None,
    max_cost: float | None,
    max_missing: float | None,
    retry_failed: bool,
    grace: float,
    replay: bool,
    as_json: bool,
) -> None:
    """Let AGENTS respond to ITEMS, and write the pool --out.

    AGENTS is a YAML file such as configs/agents/paper-30.yaml, or a folder with an agents.yaml such as datasets/python-topics.
    ITEMS is an items.jsonl (id, prompt), a pool whose items are taken, or `python-topics`; AGENTS may name its own. Calls and
    cost are shown first; the same command resumes.

    With --replay nobody is asked and no key is needed: the answers of --store, such as a cassette that was imported, make the
    same pool again.
    """
    from youden.data.pools.writer import write_pool
    from youden.errors import InputError
    from youden.judging.asking.terms import Asking
    from youden.nouns import MAX_MISSING
    from youden.pools.make.agents import load_agents
    from youden.pools.make.generate import generate
    from youden.pools.make.generation import plan_generation, refuse_another_pool
    from youden.pools.make.item_sources import read_items
    from youden.pools.make.recipe import write_recipe

    file = load_agents(agents, model_map=model_map)
    place = items or file.items
    if place is None:
        raise click.UsageError("Give ITEMS: AGENTS names none.")
    planned = plan_generation(file, read_items(place))
    refuse_another_pool(planned, out)
    cost = planned.cost
    most = show.dollars(cost.usd, whose="a model's")
    show.note(
        f"generate: {len(file.agents)} agents × {len(planned.items)} items, {cost.calls:,} calls, "
        f"about {cost.tokens_in:,} tokens in and at most {cost.tokens_out:,} out, at most {most}"
    )
    store = store or options.usual_store()
    if replay and store is None and planned.makes_calls and not (out / ANSWERS).is_file():
        raise InputError(
            f"--replay answers from a store, and there is none at {out / ANSWERS}. Say where the answers are: --store STORE.",
            slug="replay-store",
        )
    store = store or str(out / ANSWERS)
    with progress_bar() as bar:
        made = generate(
            planned,
            store=store,
            asking=Asking(
                max_cost,
                MAX_MISSING if max_missing is None else max_missing,
                retry_failed,
                bar if planned.makes_calls else None,
                grace=grace,
            ),
            replay=replay,
            name=out.name,
        )
    write_pool(made.pool, out)
    write_recipe(out, planned, store=store)
    for note in made.notes:
        show.note(f"note: {note}")
    if as_json:
        show.print_json({"out": str(out), **_counts(made)})
    else:
        click.echo(f"pool of {made.pool.n_agents} agents × {made.pool.n_items} items: {out}")
        show.note(f"look it over with: youden check {out}")


def _counts(made: Generated) -> dict[str, Json]:
    return {
        "agents": made.pool.n_agents,
        "items": made.pool.n_items,
        "missing": made.pool.n_missing,
        "asked": made.n_asked,
        "failed": made.n_failed,
        "usd": None if isnan(made.usd) else made.usd,
    }
