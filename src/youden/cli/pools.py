"""Commands that move pools: generate, import, export.

`youden generate AGENTS [ITEMS]`: make a pool of responses.

`youden import FORMAT PATH…`: bring what other tools made.

`youden export SOURCE OUT`: a pool or a run for other tools.
"""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli import options, output, run_options
from youden.cli.options import pairs
from youden.errors import InputError
from youden.progress_bar import progress_bar
from youden.project_store import project_store, usual_store
from youden.text.printable import format_command, is_local_file, redact_location, to_path
from youden.text.sentences import format_count

if TYPE_CHECKING:
    from youden.pools.generation.generate import GenerationResult
    from youden.types.pool import Json

ANSWERS = "answers.db"
"""The store in a pool's folder: of agents that ask no model, and of pools that an earlier version made."""


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
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=1,
    help="How many responses of each agent to each item. More than are there already: only the others are asked for.",
)
@run_options.of_config(
    "max_cost",
    "max_missing",
    store="Where answers are kept: a path, or postgresql://USER@HOST/DATABASE. "
    "[default: the store that the pool in --out was made with, else YOUDEN_STORE, else the project's .youden/answers.db]",
)
@run_options.asking
@click.option("--replay", is_flag=True, help="Answer from the store alone; what is not in it is an error.")
@options.json
def generate_command(
    *,
    agents: Path,
    items: str | None,
    out: Path,
    model_map: dict[str, str],
    repeats: int,
    said: run_options.Said,
    asking: run_options.Terms,
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
    from youden.data.pools.pool_reader import write_pool
    from youden.pools.generation.agents import load_agents
    from youden.pools.generation.generate import generate
    from youden.pools.generation.generation import check_output_pool, plan_generation, write_recipe
    from youden.pools.generation.item_sources import read_items
    from youden.run_keys import MAX_MISSING

    file = load_agents(agents, model_map=model_map)
    place = items or file.items
    if place is None:
        raise click.UsageError("Give ITEMS: AGENTS names none.")
    planned = plan_generation(file, read_items(place), repeats=repeats)
    check_output_pool(planned, out)
    cost = planned.cost
    store = _store(said, out, calls=planned.makes_calls)
    if replay and planned.makes_calls and "store" not in said and is_local_file(store) and not to_path(store).is_file():
        raise InputError(
            f"--replay answers from a store, and there is none at {store}. Say where the answers are: --store STORE.",
            slug="replay-store",
        )
    most = output.dollars(cost.usd, whose="a model's")
    output.note(
        f"generate: {len(file.agents)} agents × {len(planned.items)} items{_times(repeats)}, {cost.calls:,} calls, "
        f"about {cost.tokens_in:,} tokens in and at most {cost.tokens_out:,} out, at most {most}"
        + (f"; answers are kept in {redact_location(store)}" if planned.makes_calls else "")
    )
    with progress_bar() as bar:
        made = generate(
            planned,
            store=store,
            asking=replace(
                asking(progress=bar if planned.makes_calls else None),
                max_cost=said.get("max_cost"),
                max_missing=said.get("max_missing", MAX_MISSING),
            ),
            replay=replay,
            name=out.name,
        )
    write_pool(made.pool, out)
    write_recipe(out, planned, store=store)
    for note in made.notes:
        output.note(f"note: {note}")
    output.tell(
        as_json,
        {"out": str(out), **_counts(made)},
        words=[f"pool of {made.pool.n_agents} agents × {made.pool.n_items} items{_times(made.pool.repeats)}: {out}"],
        notes=[f"look it over with: youden check {out}"],
    )


def _store(said: run_options.Said, out: Path, *, calls: bool) -> str:
    """Return the store of a generated pool. calls: whether a model is asked; without calls the project needs no store."""
    from youden.judging.store.permission import allow_store
    from youden.pools.generation.generation import is_generated, read_store_location

    if "store" in said:
        allow_store(str(said["store"]))
        return str(said["store"])
    if is_generated(out):
        return read_store_location(out)
    own = str(out / ANSWERS)
    if not calls or Path(own).is_file():
        return own
    return usual_store() or str(project_store())


def _times(repeats: int) -> str:
    return f" × {repeats} repeats" if repeats > 1 else ""


def _counts(made: GenerationResult) -> dict[str, Json]:
    return {
        "agents": made.pool.n_agents,
        "items": made.pool.n_items,
        "missing": made.pool.n_missing,
        "responses": made.pool.n_responses,
        "asked": made.n_asked,
        "failed": made.n_failed,
        "usd": None if isnan(made.usd) else made.usd,
    }


PEER_PREDICTION = "peer-prediction"


def _registered(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """A format that there is, looked up when the command runs."""
    from youden.data.importers import IMPORTERS

    return str(click.Choice([PEER_PREDICTION, *IMPORTERS]).convert(value, parameter, ctx))


@click.command("import")
@click.argument("format_", metavar="FORMAT", callback=_registered)
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The folder to make: a pool's or a run's.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NOUN=NAME",
    callback=pairs("text=output"),
    help="In tables: the column of agent, item, text, prompt or group, where it is called otherwise, or a path inside one "
    "(meta.model, turns[0], completions[].response); text=a,b: columns that are an agent each. Repeatable.",
)
@click.option(
    "--text",
    type=click.Choice(["answer", "transcript"]),
    default="answer",
    help="For inspect and opentelemetry: a response is what the agent said last, or all that it did (turns, calls of tools with "
    "arguments, results).",
)
@click.option(
    "--allow-dropped",
    is_flag=True,
    help="Go on where more than 1 % of the responses cannot be used; without it that is an error.",
)
@click.option("--split", metavar="NAME", help="The split of a Hub dataset to read. [default: all]")
@click.option("--revision", metavar="NAME", help="The branch, tag or commit of a Hub dataset. [default: the newest]")
@click.option("--subset", metavar="NAME", help="The subset of a Hub dataset that has several.")
@options.json
def import_command(
    *,
    format_: str,
    paths: tuple[Path, ...],
    out: Path,
    columns: dict[str, str],
    text: str,
    allow_dropped: bool,
    as_json: bool,
    **hub: str | None,
) -> None:
    """Import the files or folders PATH… into the folder --out. Several files are joined by item.

    \b
    inspect          logs of Inspect (.eval, .json): an agent a model
    opentelemetry    traces as OTLP JSON, by the conventions for generative AI: an agent a name or model
    lm-eval          samples_*.jsonl that lm-evaluation-harness writes with --log_samples
    alpaca-eval      model_outputs.json: an agent a folder of results/, or a generator
    fastchat         model_answer JSONL of FastChat and Arena-Hard
    promptfoo        results as JSON, JSONL or CSV: an agent a provider
    helm             scenario_state.json of helm-run: an agent a model
    hf-dataset       OWNER/NAME on the Hugging Face Hub, or a folder that `datasets` saved to disk
    table            CSV, TSV, Excel, JSON, Parquet with any columns: an agent a file, or by a column; what is not
                     said by --column is guessed, and said; generations, chosen and rejected are known
    peer-prediction  the paper's data: an agents file becomes a pool; a folder that holds
                     tvd_mi_individual_examples becomes a run, without texts

    What cannot be used is left out, counted, and named with its place; items that do not line up are listed. To lose more
    than 1 % of the responses is an error.
    """
    if format_ == PEER_PREDICTION:
        _peer_prediction(paths, out, columns, as_json=as_json)
        return
    from youden.pools.first_config import import_pool

    said = {name: value for name, value in hub.items() if value is not None}
    imported = import_pool(format_, paths, out, columns=columns, text=text, hub=said, allow_dropped=allow_dropped)
    pool = imported.pool
    if imported.taken:
        output.note(f"took {imported.taken}")
    if imported.unused:
        output.note(f"not used: {', '.join(map(repr, imported.unused))}")
    for note in imported.notes:
        output.note(f"note: {note}")
    found: dict[str, Json] = {
        "out": str(out),
        "kind": "pool",
        "agents": pool.n_agents,
        "items": pool.n_items,
        "missing": pool.n_missing,
        "left_out": dict(imported.left_out),
        "dropped": imported.n_dropped,
        "unaligned": list(imported.unaligned),
        **({"taken": imported.taken} if imported.taken else {}),
    }
    size = f"{pool.n_agents} agents × {pool.n_items} items, {format_count(pool.n_missing, 'cell')} missing"
    output.tell(
        as_json, found, words=[f"pool of {size}: {out}"], notes=[f"next: youden init {format_command([str(out)])}"]
    )


def _peer_prediction(paths: tuple[Path, ...], out: Path, columns: dict[str, str], *, as_json: bool) -> None:
    from youden.pipeline.offline import import_peer_prediction

    if len(paths) != 1 or columns:
        raise click.UsageError(f"{PEER_PREDICTION} takes one PATH and no --column.")
    imported = import_peer_prediction(paths[0], out)
    for note in imported.notes:
        output.note(f"note: {note}")
    found: dict[str, Json] = {
        "out": str(out),
        "kind": imported.kind,
        "agents": imported.n_agents,
        "items": imported.n_items,
    }
    output.tell(
        as_json, found, words=[f"{imported.kind} of {imported.n_agents} agents × {imported.n_items} items: {out}"]
    )


@click.command("export")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "name",
    default="tables",
    metavar="FORMAT",
    help="tables, eee, hf, or a package's own.",
)
@click.option("--overwrite", is_flag=True, help="Replace files that are there. Folders are never replaced.")
@click.option(
    "--raw-cells", is_flag=True, help="In CSV, write no apostrophe before texts that a spreadsheet would run."
)
@click.option("--organization", metavar="NAME", help="Who made this run, for eee, which asks.")
@click.option("--push", "repo", metavar="OWNER/NAME", help="Also put it on the Hugging Face Hub (hf), privately.")
@click.option("--public", is_flag=True, help="With --push: a repository that is new can be seen by everybody.")
@options.json
def export_command(
    *,
    source: Path,
    out: Path,
    name: str,
    overwrite: bool,
    raw_cells: bool,
    organization: str | None,
    repo: str | None,
    public: bool,
    as_json: bool,
) -> None:
    """Write a pool or a run to OUT, for other tools.

    SOURCE is a pool or a run's folder.

    tables: a file, by its ending .csv, .jsonl, .parquet or .duckdb. A pool becomes one tidy table (agent, item, text, prompt,
    group), which `youden run` reads again as .csv or .parquet. A run becomes its tables ranking, items and trials: in a .duckdb
    together, else in a file each. In CSV, texts that a spreadsheet would run as formulas begin with an apostrophe, and the column
    guarded marks them; youden removes the apostrophe when it reads the table.

    The others write a new folder. eee: a run in the schema of Every Eval Ever, a file for each agent. hf: a pool or a run as a
    dataset of the Hugging Face Hub, with a card.
    """
    from youden.data.exporters import EXPORTERS
    from youden.data.exporters.export_files import ExportOptions
    from youden.data.exporters.hugging_face import check_push, upload_dataset
    from youden.data.folder.run_folder import RunFolder
    from youden.data.pools.pool_reader import read_pool

    if public and repo is None:
        raise click.UsageError("--public is of a push. Add --push OWNER/NAME, or leave it out.")
    exporter = EXPORTERS.load(name)
    if repo is not None:
        check_push(name)
    folder = RunFolder(source)
    read = folder if folder.has("pool.json") else read_pool(source)
    written = exporter(read, out, terms=ExportOptions(overwrite, organization, raw_cells))
    address = None if repo is None else upload_dataset(out, repo, public=public)
    for line in written.notes:
        output.note(line)
    files = [str(file) for file in written.files]
    found: dict[str, Json] = {"files": [*files], "rows": dict(written.rows), "pushed": address}
    output.tell(as_json, found, words=[*files, *([address] if address else [])])
