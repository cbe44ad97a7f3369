"""Define the commands that create, import and export pools: `generate`, `import` and `export`.

Formats are looked up when a command runs, so that plugins can add them.
"""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli import options, output, run_options
from youden.cli.options import parse_pairs
from youden.errors import InputError
from youden.progress_bar import progress_bar
from youden.project_store import project_store, usual_store
from youden.text.printable import format_command, is_local_file, redact_location, to_path
from youden.text.sentences import format_count

if TYPE_CHECKING:
    from youden.data.importers.pool_joiner import ImportedPool
    from youden.pools.generation.generate import GenerationResult
    from youden.types.planning import Cost
    from youden.types.pool import Json

STORE_IN_POOL = "answers.db"
"""File name of a store in the folder of a pool, for agents that query no model and pools of earlier versions."""


@click.command("generate")
@click.argument("agents", type=click.Path(path_type=Path))
@click.argument("items", required=False)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the new pool.")
@click.option(
    "--model-map",
    "model_map",
    multiple=True,
    metavar="MODEL=JUDGE",
    callback=parse_pairs("gpt-4=local"),
    help="Query JUDGE instead of MODEL: a model of the file, a name in configs/judges/, or a .yaml file. `*=JUDGE` replaces "
    "all models. Repeatable.",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=1,
    help="Number of responses of each agent to each item. Existing responses are kept.",
)
@run_options.config_options(
    "max_cost",
    "max_missing",
    store="Store of the answers: a path, or postgresql://USER@HOST/DATABASE. "
    "[default: the store of the existing pool in --out, else YOUDEN_STORE, else .youden/answers.db of the project]",
)
@run_options.judging_options
@click.option("--replay", is_flag=True, help="Use only stored answers; a missing one is an error.")
@options.json
def generate_command(
    *,
    agents: Path,
    items: str | None,
    out: Path,
    model_map: dict[str, str],
    repeats: int,
    overrides: run_options.Overrides,
    make_options: run_options.OptionsFactory,
    replay: bool,
    as_json: bool,
) -> None:
    """Generate a pool of responses of AGENTS to ITEMS.

    AGENTS is a YAML file such as configs/agents/paper-30.yaml, or a folder with an agents.yaml such as datasets/python-topics.
    ITEMS is an items.jsonl (id, prompt), a pool whose items are used, or `python-topics`. The default is `items:` in AGENTS. One
    of the two must be set. Calls and cost are printed before any request is sent. Run the same command again to resume.
    If --out has a pool, it must have the same agents and items, and at most as many responses (--repeats).

    With --replay, no request is sent and no API key is needed: the same pool is made from the answers in --store, for example
    from an imported cassette.
    """
    from youden.data.pools.pool_reader import write_pool
    from youden.pools.generation.agents import load_agents
    from youden.pools.generation.generate import check_stored_responses, generate
    from youden.pools.generation.generation import check_output_pool, plan_generation, write_recipe
    from youden.pools.generation.item_sources import read_items
    from youden.run_keys import MAX_MISSING

    file = load_agents(agents, model_map=model_map)
    item_source = items or file.items
    if item_source is None:
        raise click.UsageError("ITEMS are missing, and AGENTS sets no default. Pass ITEMS.")
    planned = plan_generation(file, read_items(item_source), repeats=repeats)
    check_output_pool(planned, out)
    store = _choose_store(overrides, out, makes_calls=planned.makes_calls)
    if replay and planned.makes_calls and "store" not in overrides:
        _check_store_exists(store)
    if not replay:
        check_stored_responses(planned, out, store)

    store_note = f"; answers are stored in {redact_location(store)}" if planned.makes_calls else ""
    size = f"{format_count(len(file.agents), 'agent')} × {format_count(len(planned.items), 'item')}{_format_repeats(repeats)}"
    output.print_note(f"generate: {size}, {_format_max_cost(planned.cost)}{store_note}")
    with progress_bar() as bar:
        judging_options = make_options(progress=bar if planned.makes_calls else None)
        max_missing = overrides.get("max_missing", MAX_MISSING)
        generation_options = replace(judging_options, max_cost=overrides.get("max_cost"), max_missing=max_missing)
        result = generate(planned, store=store, options=generation_options, replay=replay, name=out.name)
    write_pool(result.pool, out)
    write_recipe(out, planned, store=store)
    _print_generated_pool(result, out, as_json=as_json)


def _print_generated_pool(result: GenerationResult, out: Path, *, as_json: bool) -> None:
    """Print notes on generated responses, the size of the pool in the folder `out`, and the next command."""
    for note in result.notes:
        output.print_note(f"note: {note}")
    pool = result.pool
    size = (
        f"{format_count(pool.n_agents, 'agent')} × {format_count(pool.n_items, 'item')}{_format_repeats(pool.repeats)}"
    )
    output.print_result(
        as_json,
        {"out": str(out), **_count_responses(result)},
        lines=[f"pool of {size}: {out}"],
        notes=[f"next: {format_command(['youden', 'check', str(out)])}"],
    )


def _check_store_exists(store: str) -> None:
    """Raise InputError [replay-store] if a store is a local file that does not exist, so that it has no answers to replay."""
    if is_local_file(store) and not to_path(store).is_file():
        raise InputError(
            f"--replay requires a store with answers: got {store}, which does not exist. Set --store STORE.",
            slug="replay-store",
        )


def _format_max_cost(cost: Cost) -> str:
    """Format the number of calls that generate a pool, their tokens, and their maximum cost in USD."""
    usd = output.format_usd(cost.usd, config_owner="a model")
    tokens = f"about {cost.tokens_in:,} tokens in and at most {cost.tokens_out:,} out"
    return f"{format_count(cost.calls, 'call')}, {tokens}, at most {usd}"


def _choose_store(overrides: run_options.Overrides, out: Path, *, makes_calls: bool) -> str:
    """Choose the store for the answers of the models that generate a pool, and return its path or URL.

    The option --store comes first, then the store of a generated pool in `out`, then the file `STORE_IN_POOL` in `out` (if it
    exists, or if no model is queried), then the environment variable YOUDEN_STORE, then the store of the project.

    overrides : values of the options that are set, by config key
    out : folder of the pool
    makes_calls : whether a model is queried
    """
    from youden.pools.generation.generation import is_generated, read_store_location

    if "store" in overrides:
        return str(overrides["store"])
    if is_generated(out):
        return read_store_location(out)
    store_in_pool = out / STORE_IN_POOL
    if not makes_calls or store_in_pool.is_file():
        return str(store_in_pool)
    return usual_store() or str(project_store())


def _format_repeats(repeats: int) -> str:
    """Format the number of responses of each agent to each item; empty for 1."""
    return f" × {repeats} repeats" if repeats > 1 else ""


def _count_responses(result: GenerationResult) -> dict[str, Json]:
    """Return the numbers of agents, items, responses and calls, and the cost in USD, as JSON."""
    return {
        "agents": result.pool.n_agents,
        "items": result.pool.n_items,
        "missing": result.pool.n_missing,
        "responses": result.pool.n_responses,
        "asked": result.n_asked,
        "failed": result.n_failed,
        "usd": None if isnan(result.usd) else result.usd,
    }


PEER_PREDICTION, BATTLES = "peer-prediction", "battles"


def _check_format(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return the name of a registered format; any other name is a usage error (click callback)."""
    from youden.data.importers import IMPORTERS

    return str(click.Choice([PEER_PREDICTION, BATTLES, *IMPORTERS]).convert(value, parameter, ctx))


@click.command("import")
@click.argument("format_", metavar="FORMAT", callback=_check_format)
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the new pool or run.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="FIELD=COLUMN",
    callback=parse_pairs("text=output"),
    help="Column of a table, or path inside one (meta.model, turns[0], completions[].response), that contains agent, item, text, "
    "prompt or group; text=a,b: one agent per column or, with agent=NAME, repeats. For battles: model_a, model_b, winner, item, "
    "order or judge. Repeatable.",
)
@click.option(
    "--text",
    type=click.Choice(["answer", "transcript"]),
    default="answer",
    help="For inspect and opentelemetry: whether a response is the last message of the agent or the whole transcript (turns, "
    "tool calls with arguments, and results).",
)
@click.option(
    "--allow-dropped",
    is_flag=True,
    help="Continue although more than 1% of the responses cannot be used, or more than 1% of the battles have no winner. By "
    "default, this is an error.",
)
@click.option("--split", metavar="NAME", help="Split of a Hub dataset. [default: all]")
@click.option("--revision", metavar="NAME", help="Branch, tag or commit of a Hub dataset. [default: the newest]")
@click.option("--subset", metavar="NAME", help="Subset of a Hub dataset with several subsets.")
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
    """Import files of other tools into the folder --out. Several files are joined by item.

    \b
    inspect          logs of Inspect (.eval, .json); one agent per model
    opentelemetry    traces as OTLP JSON with the conventions for generative AI; one agent per agent name or model
    lm-eval          samples_*.jsonl, written by lm-evaluation-harness with --log_samples
    alpaca-eval      model_outputs.json; one agent per folder of results/ or per generator
    fastchat         model_answer JSONL of FastChat and Arena-Hard
    promptfoo        results as JSON, JSONL or CSV; one agent per provider
    helm             scenario_state.json of helm-run; one agent per model
    hf-dataset       OWNER/NAME on the Hugging Face Hub, or a folder saved by `datasets`
    table            CSV, TSV, Excel, JSON or Parquet with any columns; one agent per file or per value of a column.
                     Columns not set by --column are guessed and printed; the columns generations, chosen and rejected
                     are recognized
    peer-prediction  data of the paper: an agents file becomes a pool; a folder that contains
                     tvd_mi_individual_examples becomes a run without texts
    battles          battles of LMArena, arena_hard_battles.jsonl of Arena-Hard, pairwise judgments of MT-Bench, or tables
                     with the columns model_a, model_b and winner (model_a, model_b, tie, or a number from 0 to 1), and
                     optionally item, order (ab or ba) and judge; become a run without texts, ranked by preference

    --text transcript imports whole transcripts of inspect and opentelemetry instead of the last message. --split, --revision and
    --subset select a part of a dataset on the Hub.

    Rows that cannot be used are skipped, counted and listed with their locations, and items to which at least one agent did
    not respond are listed. It is an error if more than 1% of the responses are lost, or of the battles have
    no winner, unless --allow-dropped is set.
    """
    from youden.types.arguments import check_unused

    hub_options = {name: value for name, value in hub.items() if value is not None}
    if format_ in (PEER_PREDICTION, BATTLES):
        drops = allow_dropped and format_ == PEER_PREDICTION
        check_unused(f"The format {format_}", text=text != "answer", allow_dropped=drops, **hub_options)
    if format_ == PEER_PREDICTION:
        _import_peer_prediction(paths, out, columns, as_json=as_json)
        return
    if format_ == BATTLES:
        _import_battles(paths, out, columns, allow_dropped=allow_dropped, as_json=as_json)
        return
    from youden.pools.pool_import import import_pool

    imported = import_pool(
        format_, paths, out, columns=columns, text=text, hub=hub_options, allow_dropped=allow_dropped
    )
    _print_imported_pool(imported, out, as_json=as_json)


def _print_imported_pool(imported: ImportedPool, out: Path, *, as_json: bool) -> None:
    """Print how files were read as a pool, the size of the pool, and the next command.

    In JSON, "left_out" counts unused rows and responses by reason, and "dropped" all unused responses. "unaligned" lists the
    items to which some agent did not respond.

    out : folder of the new pool
    """
    pool = imported.pool
    if imported.used_columns:
        output.print_note(f"read {imported.used_columns}")
    if imported.unused:
        output.print_note(f"not used: {', '.join(map(repr, imported.unused))}")
    for note in imported.notes:
        output.print_note(f"note: {note}")
    result: dict[str, Json] = {
        "out": str(out),
        "kind": "pool",
        "agents": pool.n_agents,
        "items": pool.n_items,
        "missing": pool.n_missing,
        "left_out": dict(imported.left_out),
        "dropped": imported.n_dropped,
        "unaligned": list(imported.unaligned),
    }
    if imported.used_columns:
        result["used_columns"] = imported.used_columns
    size = f"{format_count(pool.n_agents, 'agent')} × {format_count(pool.n_items, 'item')}"
    line = f"pool of {size}, {format_count(pool.n_missing, 'cell')} missing: {out}"
    next_step = f"next: youden init {format_command([str(out)])}"
    output.print_result(as_json, result, lines=[line], notes=[next_step])


def _import_peer_prediction(paths: tuple[Path, ...], out: Path, columns: dict[str, str], *, as_json: bool) -> None:
    """Import data of the paper on peer prediction into the folder `out`, as a pool or as a run, and print its size.

    paths : exactly one file or folder; any other number is a usage error
    columns : values of --column; must be empty, because the columns of these data are known. Any value is a usage error
    """
    from youden.pipeline.offline import import_peer_prediction

    if len(paths) != 1 or columns:
        raise click.UsageError(
            f"{PEER_PREDICTION} requires exactly one PATH and no --column: got {len(paths)} paths and {len(columns)} columns."
        )
    imported = import_peer_prediction(paths[0], out)
    for note in imported.notes:
        output.print_note(f"note: {note}")
    result: dict[str, Json] = {
        "out": str(out),
        "kind": imported.kind,
        "agents": imported.n_agents,
        "items": imported.n_items,
    }
    output.print_result(
        as_json,
        result,
        lines=[
            f"{imported.kind} of {format_count(imported.n_agents, 'agent')} × {format_count(imported.n_items, 'item')}: {out}"
        ],
    )


def _import_battles(
    paths: tuple[Path, ...], out: Path, columns: dict[str, str], *, allow_dropped: bool, as_json: bool
) -> None:
    """Import battles (recorded comparisons of two agents with a winner) as a run in the folder `out`, and print its ranking.

    paths : exactly one file; any other number is a usage error
    columns : column of the table for each role. A role states what a column contains, for example "winner"
    allow_dropped : whether more than 1% of the battles may have no winner. If False, a larger share than 1% raises
        ImportFormatError
    """
    from youden.pipeline.offline import import_battles
    from youden.report.data.summary import Summary

    if len(paths) != 1:
        raise click.UsageError(f"{BATTLES} requires exactly one PATH: got {len(paths)}. Join the files first.")
    folder = import_battles(paths[0], out, columns=columns, allow_dropped=allow_dropped)
    output.print_fitted_run(Summary(folder), as_json=as_json)


@click.command("export")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "name",
    default="tables",
    metavar="FORMAT",
    help="tables, eee, hf, or the format of a plugin.",
)
@click.option("--overwrite", is_flag=True, help="Replace existing files. Folders are never replaced.")
@click.option(
    "--raw-cells", is_flag=True, help="In CSV, do not put an apostrophe before texts that a spreadsheet would evaluate."
)
@click.option("--organization", metavar="NAME", help="Organization that made the run (eee). [default: not-stated]")
@click.option(
    "--push",
    "repo",
    metavar="OWNER/NAME",
    help="Also upload the export to the Hugging Face Hub (hf), as a private dataset.",
)
@click.option("--public", is_flag=True, help="With --push: make a new repository public.")
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
    """Export a pool or a run to OUT, for other tools.

    SOURCE is a pool or the folder of a run.

    tables: one file in the format of its suffix, .csv, .jsonl, .parquet or .duckdb. A pool becomes a tidy table (agent, item,
    text, prompt, group), which `youden run` can read as .csv or .parquet. A run becomes the tables ranking, items and trials,
    together in a .duckdb, else in one file each. In CSV, texts that a spreadsheet would evaluate as formulas begin with an
    apostrophe and are marked in the column `guarded`; youden removes the apostrophe when it reads the table.

    The other formats (--format) write a new folder. eee: a run in the schema of Every Eval Ever, one file per agent. hf: a pool
    or a run as a dataset for the Hugging Face Hub, with a card; --push also uploads it at once. Existing files are replaced only
    with --overwrite, and folders never.
    """
    from youden.data.exporters import EXPORTERS
    from youden.data.exporters.export_files import ExportOptions
    from youden.data.exporters.hugging_face import check_push, upload_dataset
    from youden.data.folder.run_folder import RunFolder
    from youden.data.pools.pool_reader import read_pool
    from youden.pipeline.fitted_run import check_fit

    if public and repo is None:
        raise click.UsageError("--public requires --push. Add --push OWNER/NAME, or remove --public.")
    exporter = EXPORTERS.load(name)
    if repo is not None:
        check_push(name)
    folder = RunFolder(source)
    check_fit(folder)
    data = folder if folder.has("pool.json") else read_pool(source)
    written = exporter(data, out, options=ExportOptions(overwrite, organization, raw_cells))
    url = None if repo is None else upload_dataset(out, repo, public=public)
    for line in written.notes:
        output.print_note(line)
    files = [str(file) for file in written.files]
    result: dict[str, Json] = {"files": [*files], "rows": dict(written.rows), "pushed": url}
    lines = files if url is None else [*files, url]
    output.print_result(as_json, result, lines=lines)
