"""`youden import FORMAT PATH…`: bring what other tools made."""

from __future__ import annotations

from pathlib import Path

import click

from youden.cli.terms import options, show
from youden.cli.terms.values import pairs

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
    "--allow-dropped",
    is_flag=True,
    help="Go on where more than 1 % of the responses cannot be used; without it that is an error.",
)
@options.json
def import_command(
    *, format_: str, paths: tuple[Path, ...], out: Path, columns: dict[str, str], allow_dropped: bool, as_json: bool
) -> None:
    """Import the files or folders PATH… into the folder --out. Several files are joined by item.

    \b
    inspect          logs of Inspect (.eval, .json): an agent a model
    lm-eval          samples_*.jsonl that lm-evaluation-harness writes with --log_samples
    alpaca-eval      model_outputs.json: an agent a folder of results/, or a generator
    fastchat         model_answer JSONL of FastChat and Arena-Hard
    promptfoo        results as JSON, JSONL or CSV: an agent a provider
    helm             scenario_state.json of helm-run: an agent a model
    hf-dataset       a folder that Hugging Face `datasets` saved to disk
    table            CSV, TSV, JSONL, Parquet with any columns: an agent a file, or by a column; generations,
                     completions, chosen and rejected are known
    peer-prediction  the paper's data: an agents file becomes a pool; a folder that holds
                     tvd_mi_individual_examples becomes a run, without texts

    What cannot be used is left out, counted, and named with its place; items that do not line up are listed. To lose more
    than 1 % of the responses is an error.
    """
    if format_ == PEER_PREDICTION:
        _peer_prediction(paths, out, columns, as_json=as_json)
        return
    from youden.pools.bring.importing import bring

    imported = bring(format_, paths, out, columns=columns, allow_dropped=allow_dropped)
    pool = imported.pool
    for note in imported.notes:
        show.note(f"note: {note}")
    if as_json:
        show.print_json(
            {
                "out": str(out),
                "kind": "pool",
                "agents": pool.n_agents,
                "items": pool.n_items,
                "missing": pool.n_missing,
                "left_out": dict(imported.left_out),
                "dropped": imported.n_dropped,
                "unaligned": list(imported.unaligned),
            }
        )
    else:
        click.echo(f"pool of {pool.n_agents} agents × {pool.n_items} items, {pool.n_missing:,} cells missing: {out}")


def _peer_prediction(paths: tuple[Path, ...], out: Path, columns: dict[str, str], *, as_json: bool) -> None:
    from youden.run.importing import import_peer_prediction

    if len(paths) != 1 or columns:
        raise click.UsageError(f"{PEER_PREDICTION} takes one PATH and no --column.")
    imported = import_peer_prediction(paths[0], out)
    for note in imported.notes:
        show.note(f"note: {note}")
    if as_json:
        show.print_json(
            {"out": str(out), "kind": imported.kind, "agents": imported.n_agents, "items": imported.n_items}
        )
    else:
        click.echo(f"{imported.kind} of {imported.n_agents} agents × {imported.n_items} items: {out}")
