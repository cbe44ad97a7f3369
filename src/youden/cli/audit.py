"""Define the command `audit`, which ranks the models of an existing table of scores."""

from __future__ import annotations

from pathlib import Path

import click

from youden.cli import options, output
from youden.text.sentences import format_rank_range
from youden.text.tables import format_decimal, make_table


@click.command("audit")
@click.argument("tables", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="TABLE...")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="ROLE=NAME",
    callback=options.parse_pairs("model=system"),
    help="Column that contains the models, items or scores. score=a,b: one column of scores per item or model. item=a+b: columns "
    "that identify an item together. ignore=a,b: columns not to use. Repeatable.",
)
@click.option(
    "--range",
    "score_range",
    callback=options.parse_scale,
    metavar="LOW,HIGH",
    help="Lowest and highest possible score. [default: 0,1, -1,1, 0,10 or 0,100, or else the range of the scores]",
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder for report.html, ranking.csv, items.csv and audit.json."
)
@options.json
def audit_command(
    *,
    tables: tuple[Path, ...],
    columns: dict[str, str],
    score_range: tuple[float, float] | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Rank the models of an existing TABLE of scores.

    Every rank and mean score has a confidence interval.

    TABLE is a CSV, TSV, Excel, JSON or Parquet file with one row per score, or one column per model or per item; or results of
    lm-eval (samples_*.jsonl, results_*.json), HELM (per_instance_stats.json), MTEB or SWE-bench (reports), or a folder of these.
    If several tables have no column of models, each of them counts as one model, named by its file. Nothing is judged.

    The scores of a model are averaged over items; if a model lacks scores for some items, an additive fit (model + item) adjusts
    for the difficulty of these items. Intervals and ranks describe how the models would score on more items like these. The
    result also states which models do not differ significantly, how reliable the scores are, and how few items decide the first
    place. --column sets the column of each role (model, item or score) that is not recognized. --out writes report.html and
    tables to a folder; without it, the result is only printed.
    """
    from youden.pipeline.score_audit import audit
    from youden.report.pages.audit_page import check_audit_folder, write_audit

    if out is not None:
        check_audit_folder(out)
    result = audit(tables, columns=columns, score_range=score_range)
    rows = []
    for row in result.rows:
        ranks = format_rank_range(row.rank_low, row.rank_high)
        simultaneous_ranks = format_rank_range(row.simultaneous_rank_low, row.simultaneous_rank_high)
        interval = f"{format_decimal(row.low)} … {format_decimal(row.high)}"
        rows.append([ranks, simultaneous_ranks, row.agent, format_decimal(row.ability), interval, f"{row.n_trials:,}"])
    table = make_table(result.source, ["ranks", "simultaneous", "agent"], ["ability", "95% interval", "items"], rows)
    notes = [*(f"note: {note}" for note in result.details.notes), f"signature: {result.signature}"]
    output.print_result(
        as_json,
        result.to_json(),
        answer=[result.recommendation.text],
        tables=[table],
        lines=result.summary,
        notes=notes,
        warnings=result.facts.warnings,
    )
    if out is not None:
        output.print_note(f"report: {write_audit(result, out)}")
