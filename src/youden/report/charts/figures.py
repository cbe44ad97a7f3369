"""Figures of a report as Vega-Lite, written with Altair: the ranking, and matrices of agents and of scores as tiles.

Large matrices are drawn in bins, which the figure's note states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import altair as alt
import numpy as np

from youden.report.charts import checks as check_charts
from youden.report.charts.marks import (
    SCORE,
    Column,
    Figure,
    Frame,
    answers,
    by_group,
    frame_chart,
    ordered,
    tooltips,
    unchecked,
)
from youden.report.data.ranking_tables import RankedAgent
from youden.report.data.report import ReportData
from youden.types.pool import Bools, Floats

LINKED_COLOUR = "#d1242f"
MAX_RANKED = 200
"""Number of agents in the figure of the ranking: each takes 17 pixels, and more than 65,535 pixels cannot be drawn."""


def _matrix(
    slug: str,
    title: str,
    note: str,
    source: str,
    value: Floats,
    *,
    colour: alt.Color,
    sides: Mapping[str, Sequence[str]],
    row_height: int,
    max_height: int,
    max_labelled: int,
    titles: Sequence[str | None] = (None, None),
    linked: Bools | None = None,
) -> Figure:
    """Draw tiles of `value`, float (rows, columns), NaN for none. sides: titles and names of rows and of columns; names are
    written beside up to `max_labelled` rows; linked: tiles that are outlined."""
    (row, names), (column, others) = sides.items()
    is_labelled = len(names) <= max_labelled
    axis = alt.Axis(labels=is_labelled, ticks=is_labelled, labelLimit=110)
    column_axis = axis if names is others else alt.Axis(labels=False, ticks=False)
    base = frame_chart().encode(
        x=alt.X(f"{column}:N", scale=ordered(others), title=titles[1], axis=column_axis),
        y=alt.Y(f"{row}:N", scale=ordered(names), title=titles[0], axis=axis),
    )
    shown = [f"{row}:N", f"{column}:N", "value:Q .3f", *([] if linked is None else ["linked:N"])]
    chart = base.mark_rect().encode(color=colour, tooltip=tooltips(*shown))
    i, j = np.nonzero(~np.isnan(value))
    columns: dict[str, Column] = {
        row: [names[k] for k in i.tolist()],
        column: [others[k] for k in j.tolist()],
        "value": value[i, j],
    }
    if linked is not None:
        columns["linked"] = np.where(linked[i, j], "yes", "no").tolist()
        if linked.any():
            outline = base.transform_filter("datum.linked == 'yes'")
            chart += outline.mark_rect(filled=False, stroke=LINKED_COLOUR, strokeWidth=2 if is_labelled else 1)
    height = min(max_height, max(160, row_height * len(names)))
    return Figure(slug, title, note, source, chart, frame=Frame.of(**columns), height=height, canvas=True)


def _diverging(value: Floats, title: str) -> alt.Color:
    limit = max(float(np.nanmax(np.abs(value))), 0.01)
    return alt.Color("value:Q", title=title, scale=alt.Scale(scheme="blueorange", domain=[-limit, limit]))


def _score_colour(title: str) -> alt.Color:
    return alt.Color("value:Q", title=title, scale=alt.Scale(scheme="viridis"))


def _in_bins(n_rows: int, what: str) -> str:
    return f" Drawn in bins: a tile is the mean over {what}." if n_rows > 1 else ""


def pairs(data: ReportData) -> Iterator[Figure]:
    """Draw the agreement of pairs, and what two abilities do not explain of it; linked pairs are outlined."""
    grid = data.doubts.pairs
    if grid is None or np.isnan(grid.agreement).all():
        return
    per, source = grid.agents_per_row, f"rates.parquet, {answers(data.summary)}"
    end = " Outlined: pairs that are linked." if grid.linked.any() else ""
    end += _in_bins(per, f"{per} × {per} agents")
    sides = {"first": grid.names, "second": grid.names}
    draw = partial(_matrix, sides=sides, row_height=16, max_height=520, max_labelled=40, linked=grid.linked)
    note = "Mean of both orders, items' own means taken off. Good agents agree with each other: bright at the top left."
    colour = _score_colour("agreement (TPR − FPR)")
    yield draw("pairs", "Agreement of pairs, best agents first", f"{note}{end}", source, grid.agreement, colour=colour)
    if not np.isnan(grid.residual).all():
        note = (
            "Agreement less the sum of two robust effects, rows and columns as beside it. Orange: more than explained."
        )
        title, colour = (
            "What two abilities do not explain of it",
            _diverging(grid.residual, "beyond a_i + a_k (TPR − FPR)"),
        )
        yield draw("pairs-beyond", title, f"{note}{end}", source, grid.residual, colour=colour)


@unchecked
def figures(data: ReportData) -> tuple[Figure, ...]:
    """Draw all figures that this run's data allow, in the order of the page."""
    makers: Sequence[Callable[[ReportData], Iterator[Figure]]] = (
        _ranking,
        _agents,
        _cells,
        check_charts.difficulty,
        check_charts.curl,
        check_charts.alarms,
        check_charts.holdout,
        check_charts.quality,
        check_charts.moves,
        pairs,
    )
    return tuple(figure for make in makers for figure in make(data))


@unchecked
def ranking_figure(agents: Sequence[RankedAgent], *, level: float, source: str) -> Figure:
    """Draw agents' distances from the average agent with intervals at `level`, best first; one agent at least has an ability."""
    ranked = [agent for agent in agents if agent.ability is not None]
    average = float(np.mean([agent.ability for agent in ranked]))
    known = ranked[:MAX_RANKED]
    columns: dict[str, Column] = {
        "agent": [agent.agent for agent in known],
        "group": [agent.group or "no group" for agent in known],
        "ability": [agent.ability for agent in known],
    }
    for name, end in {"distance": "ability", "low": "low", "high": "high"}.items():
        values = [getattr(agent, end) for agent in known]
        columns[name] = [None if value is None else value - average for value in values]
    frame = Frame.of_rows(known, **columns, places="places", trials="n_trials")
    numbers = ("ability:Q .3f", "distance:Q +.3f", "low:Q +.3f", "high:Q +.3f", "trials:Q ,")
    base = frame_chart().encode(
        y=alt.Y("agent:N", sort=None, title=None, axis=alt.Axis(labelLimit=170)),
        color=by_group(frame),
        tooltip=tooltips("agent:N", "group:N", "places:N", *numbers),
    )
    x = alt.X("distance:Q", title=["ability less the average agent's", SCORE], scale=alt.Scale(zero=False))
    chart = alt.LayerChart(layer=[]) + base.mark_point(filled=True, size=70, opacity=1).encode(x=x)
    if any(agent.low is not None for agent in known):
        chart += base.mark_rule(strokeWidth=2.5).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"))
    note = (
        f"Dot: ability less the average agent's, which is {average:.3f}; line: its {level:.0%} interval. Lines of two agents "
        "that are told apart may overlap: what counts is the error of their difference."
    )
    if len(ranked) > len(known):
        note += f" The first {MAX_RANKED} of {len(ranked):,} agents; the table has all."
    title, height = "Distance from the average agent", 30 + 17 * len(known)
    return Figure("ranking", title, note, source, chart, frame=frame, height=height)


def _ranking(data: ReportData) -> Iterator[Figure]:
    if any(agent.ability is not None for agent in data.summary.ranking):
        source = f"ranking.csv, {answers(data.summary)}"
        yield ranking_figure(data.summary.ranking, level=data.summary.facts.level, source=source)


def _agents(data: ReportData) -> Iterator[Figure]:
    grid, source = data.agents, f"rates.parquet, {answers(data.summary)}"
    for slug, order, words in (
        ("agents", grid.by_rank, "best first"),
        ("agents-clustered", grid.by_cluster, "like beside like"),
    ):
        value, names, size = grid.tiles(order)
        note = (
            "Each tile: how often the judge saw the row's response (read first) and the column's as one source, less the "
            f"false-positive rate. Empty: never asked.{_in_bins(size, f'{size} × {size} agents')}"
        )
        yield _matrix(
            *(slug, f"Agreement of agents, {words}", note, source),
            value,
            colour=_score_colour("TPR − FPR"),
            sides={"first": names, "second": names},
            row_height=18,
            max_height=620,
            max_labelled=60,
            titles=("read first", "read second"),
        )


def _cells(data: ReportData) -> Iterator[Figure]:
    grid, of_answers = data.cells, answers(data.summary)
    size = f"{grid.agents_per_row} agents × {grid.items_per_column} items"
    bins = _in_bins(grid.agents_per_row * grid.items_per_column, size)
    sides, titles = {"agent": grid.rows, "item": grid.columns}, (None, "item, easiest first")
    draw = partial(_matrix, sides=sides, row_height=15, max_height=620, max_labelled=60, titles=titles)
    note = f"Rows: agents, best first. Columns: items, easiest first. Empty: not seen, or held out.{bins}"
    source = f"scores.csv, {of_answers}"
    yield draw("scores", "Scores of agents on items", note, source, grid.score, colour=_score_colour(SCORE))
    if not np.isnan(grid.residual).all():
        note = (
            "Score less its prediction, rows and columns as above. A pattern means that abilities are not one number."
        )
        source = f"scores.csv and the fit ({data.summary.facts.estimator}), {of_answers}"
        title, colour = (
            "What ability − difficulty does not explain",
            _diverging(grid.residual, "residual (score units)"),
        )
        yield draw("residuals", title, f"{note}{bins}", source, grid.residual, colour=colour)
