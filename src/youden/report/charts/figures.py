"""A report's figures as Vega-Lite, written with Altair: the ranking, and matrices of agents and of scores as tiles, beside what
abilities do not explain of them.
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
    sized,
    told,
    unchecked,
)
from youden.report.data.ranking_tables import RankedAgent
from youden.report.data.report import ReportData
from youden.types.pool import Bools, Floats

LINKED = "#d1242f"

Sides = Mapping[str, Sequence[str]]
"""What the rows and the columns of a matrix are called, and their names."""


def _matrix(
    said: tuple[str, str, str, str],
    value: Floats,
    colour: alt.Color,
    *,
    sides: Sides,
    height: int,
    most: int,
    titles: Sequence[str | None] = (None, None),
    linked: Bools | None = None,
) -> Figure:
    """A figure of tiles. said: its slug, title, note and source; value: float[rows, columns], NaN where nothing is drawn; most:
    rows up to which names are written beside it; titles: of rows and columns; linked: which tiles are outlined."""
    (row, names), (column, others) = sides.items()
    few = len(names) <= most
    axis = alt.Axis(labels=few, ticks=few, labelLimit=110)
    below = axis if names is others else alt.Axis(labels=False, ticks=False)
    base = frame_chart().encode(
        x=alt.X(f"{column}:N", scale=ordered(others), title=titles[1], axis=below),
        y=alt.Y(f"{row}:N", scale=ordered(names), title=titles[0], axis=axis),
    )
    more = [] if linked is None else ["linked:N"]
    spec = base.mark_rect().encode(color=colour, tooltip=told(f"{row}:N", f"{column}:N", "value:Q .3f", *more))
    at = np.nonzero(~np.isnan(value))
    columns: dict[str, Column] = {
        row: [names[k] for k in at[0].tolist()],
        column: [others[k] for k in at[1].tolist()],
        "value": value[at],
    }
    if linked is not None:
        columns["linked"] = np.where(linked[at], "yes", "no").tolist()
        if linked.any():
            outline = base.transform_filter("datum.linked == 'yes'")
            spec += outline.mark_rect(filled=False, stroke=LINKED, strokeWidth=2 if few else 1)
    return Figure(*said, sized(spec, height), Frame.of(**columns), canvas=True)


def _beyond(value: Floats, title: str) -> alt.Color:
    """Two colours, for what lies above and below 0."""
    most = max(float(np.nanmax(np.abs(value))), 0.01)
    return alt.Color("value:Q", title=title, scale=alt.Scale(scheme="blueorange", domain=[-most, most]))


def _score_colour(title: str) -> alt.Color:
    return alt.Color("value:Q", title=title, scale=alt.Scale(scheme="viridis"))


def pairs(data: ReportData) -> Iterator[Figure]:
    """The matrix of pairs, and its residuals; nothing where no two agents met."""
    grid = data.doubts.pairs
    if grid is None or np.isnan(grid.agreement).all():
        return
    per = grid.agents_per_row
    outlined = " Outlined: pairs that are linked." if grid.linked.any() else ""
    drawn = f" Drawn in bins: a tile is the mean over {per} × {per} agents." if per > 1 else ""
    source = f"rates.parquet, {answers(data.summary)}"
    draw = partial(
        _matrix,
        sides={"first": grid.names, "second": grid.names},
        height=min(520, max(160, 16 * len(grid.names))),
        most=40,
        linked=grid.linked,
    )
    note = "Mean of both orders, items' own means taken off. Good agents agree with each other: bright at the top left."
    yield draw(
        ("pairs", "Agreement of pairs, best agents first", f"{note}{outlined}{drawn}", source),
        grid.agreement,
        _score_colour("agreement (TPR − FPR)"),
    )
    if not np.isnan(grid.residual).all():
        note = (
            "Agreement less the sum of two robust effects, rows and columns as beside it. Orange: more than explained."
        )
        yield draw(
            ("pairs-beyond", "What two abilities do not explain of it", f"{note}{outlined}{drawn}", source),
            grid.residual,
            _beyond(grid.residual, "beyond a_i + a_k (TPR − FPR)"),
        )


MAX_RANKED = 200
"""Agents drawn at most in the figure of the ranking."""


@unchecked
def figures(data: ReportData) -> tuple[Figure, ...]:
    """All figures that the data allow, in the order of the page."""
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
    """Distances from the average agent with intervals, in the order given; agents without an ability are left out, and of
    many only the first `MAX_RANKED` are drawn."""
    ranked = [agent for agent in agents if agent.ability is not None]
    average = float(np.mean([agent.ability for agent in ranked]))
    known = ranked[:MAX_RANKED]
    rest = f" The first {MAX_RANKED} of {len(ranked):,} agents; the table has all." if len(ranked) > len(known) else ""

    def distances(ends: Sequence[float | None]) -> list[float | None]:
        return [None if end is None else end - average for end in ends]

    frame = Frame.of(
        agent=[agent.agent for agent in known],
        group=[agent.group or "no group" for agent in known],
        ability=[agent.ability for agent in known],
        distance=distances([agent.ability for agent in known]),
        low=distances([agent.low for agent in known]),
        high=distances([agent.high for agent in known]),
        places=[agent.places for agent in known],
        trials=[agent.n_trials for agent in known],
    )
    base = frame_chart().encode(
        y=alt.Y("agent:N", sort=None, title=None, axis=alt.Axis(labelLimit=170)),
        color=by_group(frame),
        tooltip=told(
            "agent:N",
            "group:N",
            "places:N",
            "ability:Q .3f",
            "distance:Q +.3f",
            "low:Q +.3f",
            "high:Q +.3f",
            "trials:Q ,",
        ),
    )
    spec = alt.LayerChart(layer=[]) + base.mark_point(filled=True, size=70, opacity=1).encode(
        x=alt.X("distance:Q", title=["ability less the average agent's", SCORE], scale=alt.Scale(zero=False))
    )
    if any(agent.low is not None for agent in known):
        spec += base.mark_rule(strokeWidth=2.5).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"))
    return Figure(
        "ranking",
        "Distance from the average agent",
        f"Dot: ability less the average agent's, which is {average:.3f}; line: its {level:.0%} interval. Lines of two agents "
        "that are told apart may overlap: what counts is the error of their difference." + rest,
        source,
        sized(spec, 30 + 17 * len(known)),
        frame,
    )


def _ranking(data: ReportData) -> Iterator[Figure]:
    if any(agent.ability is not None for agent in data.summary.ranking):
        source = f"ranking.csv, {answers(data.summary)}"
        yield ranking_figure(data.summary.ranking, level=data.summary.facts.level, source=source)


def _agents(data: ReportData) -> Iterator[Figure]:
    grid = data.agents
    for slug, order, words in (
        ("agents", grid.by_rank, "best first"),
        ("agents-clustered", grid.by_cluster, "like beside like"),
    ):
        tiles = grid.tiles(order)
        size = tiles.agents_per_tile
        note = (
            "Each tile: how often the judge saw the row's response (read first) and the column's as one source, less the "
            "false-positive rate. Empty: never asked."
            + (f" Drawn in bins: a tile is the mean over {size} × {size} agents." if size > 1 else "")
        )
        yield _matrix(
            (slug, f"Agreement of agents, {words}", note, f"rates.parquet, {answers(data.summary)}"),
            tiles.value,
            _score_colour("TPR − FPR"),
            sides={"first": tiles.names, "second": tiles.names},
            height=min(620, max(160, 18 * len(tiles.names))),
            most=60,
            titles=("read first", "read second"),
        )


def _cells(data: ReportData) -> Iterator[Figure]:
    grid, of_answers = data.cells, answers(data.summary)
    binned = (
        f" Drawn in bins: a tile is the mean over {grid.agents_per_row} agents × {grid.items_per_column} items."
        if grid.is_binned
        else ""
    )
    draw = partial(
        _matrix,
        sides={"agent": grid.rows, "item": grid.columns},
        height=min(620, max(160, 15 * len(grid.rows))),
        most=60,
        titles=(None, "item, easiest first"),
    )
    note = "Rows: agents, best first. Columns: items, easiest first. Empty: not seen, or held out."
    yield draw(
        ("scores", "Scores of agents on items", f"{note}{binned}", f"scores.csv, {of_answers}"),
        grid.score,
        _score_colour(SCORE),
    )
    if not np.isnan(grid.residual).all():
        title = "What ability − difficulty does not explain"
        note = (
            "Score less its prediction, rows and columns as above. A pattern means that abilities are not one number."
        )
        source = f"scores.csv and the fit ({data.summary.facts.estimator}), {of_answers}"
        yield draw(
            ("residuals", title, f"{note}{binned}", source),
            grid.residual,
            _beyond(grid.residual, "residual (score units)"),
        )
