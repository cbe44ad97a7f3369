"""`youden compare RUN RUN…`: do judges agree?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from youden.cli import options, show

if TYPE_CHECKING:
    from youden.stats.metrics import Metric
    from youden.study.judges import JudgesStudy


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--scores", type=click.Choice(["symmetric", "row"]), default="symmetric", show_default=True)
@click.option(
    "--match",
    type=click.Choice(["id", "number"]),
    default="id",
    show_default=True,
    help="Items by id, or by the last number in it (example-7 is task-007).",
)
@options.json
def command(*, runs: tuple[Path, ...], scores: str, match: str, as_json: bool) -> None:
    """Do the judges of RUNs agree, on the agents and items they share?

    The paper's Table 6: agent ranking, item difficulty, curl on data and predictions, agreement per trial (raw, Cohen's κ,
    Krippendorff's α), and where they differ most.
    """
    from youden.data.run_folder import RunFolder
    from youden.study.judged_runs import read_judged, side_by_side
    from youden.study.judges import study_judges

    kind = options.score_kind(scores)
    judged = [read_judged(RunFolder(run)) for run in runs]
    study = study_judges(side_by_side(judged, kind=kind, match="number" if match == "number" else "id"), kind=kind)
    signatures = [RunFolder(run).read_signature().text for run in runs]
    if as_json:
        show.print_json({"judges": study.to_json() | {"signatures": list(signatures)}})
        return
    _draw(study)
    for line in study.words:
        click.echo(line)
    for name, signature in zip(study.names, signatures, strict=True):
        show.note(f"signature of {name}: {signature}")


def _draw(study: JudgesStudy) -> None:
    table = Table(
        title=f"Judges on {study.n_agents} agents × {study.n_items} items, agreement on {study.units}",
        title_justify="left",
    )
    table.add_column("judges")
    for column in ("agents ρ", "items ρ", study.units, "same", "κ", "α", "α graded"):
        table.add_column(column, justify="right")
    for pair in study.pairings:
        figures = (pair.same, pair.kappa, pair.alpha, pair.alpha_soft)
        table.add_row(
            f"{show.safe(pair.one)} / {show.safe(pair.other)}",
            _with_interval(pair.ranking),
            _with_interval(pair.difficulty),
            f"{pair.n_units:,}",
            *(show.fixed(figure) for figure in figures),
        )
    show.console().print(table)
    table = Table(title="Curl, median / P95", title_justify="left")
    table.add_column("judge")
    table.add_column("link")
    table.add_column("data", justify="right")
    table.add_column("predictions", justify="right")
    for name, rows in study.curl.items():
        for link, row in rows.items():
            data = f"{show.fixed(row.data_median)} / {show.fixed(row.data_p95)}"
            predicted = f"{show.fixed(row.predicted_median)} / {show.fixed(row.predicted_p95)}"
            table.add_row(show.safe(name), link, data, predicted)
    show.console().print(table)
    table = Table(title="Where they differ most", title_justify="left")
    table.add_column("agent or item")
    for name in study.names:
        table.add_column(show.safe(name), justify="right")
    for agent in study.agents:
        table.add_row(show.safe(agent.agent), *(f"place {place}" for place in agent.places))
    for item in study.items:
        table.add_row(show.safe(item.item), *(f"{show.fixed(value, 2)} SD" for value in item.difficulty))
    show.console().print(table)


def _with_interval(metric: Metric | None) -> str:
    if metric is None:
        return "–"
    if metric.low != metric.low:
        return show.fixed(metric.value)
    return f"{show.fixed(metric.value)} [{show.fixed(metric.low)}, {show.fixed(metric.high)}]"
