"""Who agrees with whom beside what abilities do not explain of it, linked pairs outlined.

A report's figures as Vega-Lite, written with Altair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import altair as alt
import numpy as np

from youden.nouns.pool import Floats
from youden.report.charts import checks as check_charts
from youden.report.charts.marks import SCORE, Figure, Frame, answers, by_group, frame_chart, ordered, sized, unchecked
from youden.report.data.doubts import PairGrid
from youden.report.data.grids import AgentTiles, CellGrid
from youden.report.data.report import ReportData

LINKED = "#d1242f"


def pairs(data: ReportData) -> Iterator[Figure]:
    """The matrix of pairs, and its residuals; nothing where no two agents met."""
    grid = data.doubts.pairs
    if grid is None or np.isnan(grid.agreement).all():
        return
    per = grid.agents_per_row
    height = min(520, max(160, 16 * len(grid.names)))
    drawn = f" Drawn in bins: a tile is the mean over {per} × {per} agents." if per > 1 else ""
    outlined = " Outlined: pairs that are linked." if grid.linked.any() else ""
    source = f"rates.parquet, {answers(data.summary)}"
    yield Figure(
        "pairs",
        "Agreement of pairs, best agents first",
        "Mean of both orders, items' own means taken off. Good agents agree with each other: bright at the top left."
        f"{outlined}{drawn}",
        source,
        sized(
            _tiles(grid, alt.Color("value:Q", title="agreement (TPR − FPR)", scale=alt.Scale(scheme="viridis"))), height
        ),
        _frame(grid, grid.agreement),
        canvas=True,
    )
    if np.isnan(grid.residual).all():
        return
    most = max(float(np.nanmax(np.abs(grid.residual))), 0.01)
    scale = alt.Scale(scheme="blueorange", domain=[-most, most])
    yield Figure(
        "pairs-beyond",
        "What two abilities do not explain of it",
        "Agreement less the sum of two robust effects, rows and columns as beside it. Orange: more than explained."
        f"{outlined}{drawn}",
        source,
        sized(_tiles(grid, alt.Color("value:Q", title="beyond a_i + a_k (TPR − FPR)", scale=scale)), height),
        _frame(grid, grid.residual),
        canvas=True,
    )


def _frame(grid: PairGrid, value: Floats) -> Frame:
    row, column = np.nonzero(~np.isnan(value))
    return Frame.of(
        first=[grid.names[i] for i in row],
        second=[grid.names[k] for k in column],
        value=value[row, column],
        linked=["yes" if grid.linked[i, k] else "no" for i, k in zip(row, column, strict=True)],
    )


def _tiles(grid: PairGrid, colour: alt.Color) -> alt.Chart | alt.LayerChart:
    few = len(grid.names) <= 40
    axis = alt.Axis(labels=few, ticks=few, labelLimit=110)
    base = frame_chart().encode(
        x=alt.X("second:N", scale=ordered(grid.names), title=None, axis=axis),
        y=alt.Y("first:N", scale=ordered(grid.names), title=None, axis=axis),
    )
    tooltip = [
        alt.Tooltip("first:N"),
        alt.Tooltip("second:N"),
        alt.Tooltip("value:Q", format=".3f"),
        alt.Tooltip("linked:N"),
    ]
    tiles = base.mark_rect().encode(color=colour, tooltip=tooltip)
    if not grid.linked.any():
        alone: alt.Chart = tiles
        return alone
    outline = base.transform_filter("datum.linked == 'yes'").mark_rect(
        filled=False, stroke=LINKED, strokeWidth=2 if few else 1
    )
    both: alt.LayerChart = tiles + outline
    return both


MAX_RANKED = 200
"""Agents drawn at most in the figure of the ranking."""


class PlacedMark(Protocol):
    """A line of a ranking."""

    @property
    def agent(self) -> str: ...
    @property
    def group(self) -> str | None: ...
    @property
    def ability(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...
    @property
    def places(self) -> str: ...
    @property
    def n_trials(self) -> int: ...


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
def ranking_figure(agents: Sequence[PlacedMark], *, level: float, source: str) -> Figure:
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
        tooltip=[
            alt.Tooltip("agent:N"),
            alt.Tooltip("group:N"),
            alt.Tooltip("places:N"),
            alt.Tooltip("ability:Q", format=".3f"),
            alt.Tooltip("distance:Q", format="+.3f"),
            alt.Tooltip("low:Q", format="+.3f"),
            alt.Tooltip("high:Q", format="+.3f"),
            alt.Tooltip("trials:Q", format=","),
        ],
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
        yield Figure(
            slug,
            f"Agreement of agents, {words}",
            "Each tile: how often the judge saw the row's response (read first) and the column's as one source, less the "
            "false-positive rate. Empty: never asked."
            + (f" Drawn in bins: a tile is the mean over {size} × {size} agents." if size > 1 else ""),
            f"rates.parquet, {answers(data.summary)}",
            sized(_agent_tiles(tiles.names), min(620, max(160, 18 * len(tiles.names)))),
            _agent_frame(tiles),
            canvas=True,
        )


def _agent_frame(tiles: AgentTiles) -> Frame:
    first, second = np.nonzero(~np.isnan(tiles.value))
    return Frame.of(
        first=[tiles.names[i] for i in first],
        second=[tiles.names[k] for k in second],
        value=tiles.value[first, second],
    )


def _agent_tiles(names: Sequence[str]) -> alt.Chart:
    few = len(names) <= 60
    axis = alt.Axis(labels=few, ticks=few, labelLimit=110)
    chart: alt.Chart = (
        frame_chart()
        .mark_rect()
        .encode(
            x=alt.X("second:N", scale=ordered(names), title="read second", axis=axis),
            y=alt.Y("first:N", scale=ordered(names), title="read first", axis=axis),
            color=_score_colour("value", "TPR − FPR"),
            tooltip=[alt.Tooltip("first:N"), alt.Tooltip("second:N"), alt.Tooltip("value:Q", format=".3f")],
        )
    )
    return chart


def _cells(data: ReportData) -> Iterator[Figure]:
    grid = data.cells
    height = min(620, max(160, 15 * len(grid.rows)))
    binned = (
        f" Drawn in bins: a tile is the mean over {grid.agents_per_row} agents × {grid.items_per_column} items."
        if grid.is_binned
        else ""
    )
    yield Figure(
        "scores",
        "Scores of agents on items",
        f"Rows: agents, best first. Columns: items, easiest first. Empty: not seen, or held out.{binned}",
        f"scores.csv, {answers(data.summary)}",
        sized(_figures_tiles(grid, _score_colour("value", SCORE)), height),
        _tile_frame(grid, grid.score),
        canvas=True,
    )
    if np.isnan(grid.residual).all():
        return
    most = max(float(np.nanmax(np.abs(grid.residual))), 0.01)
    scale = alt.Scale(scheme="blueorange", domain=[-most, most])
    colour = alt.Color("value:Q", title="residual (score units)", scale=scale)
    yield Figure(
        "residuals",
        "What ability − difficulty does not explain",
        f"Score less its prediction, rows and columns as above. A pattern means that abilities are not one number.{binned}",
        f"scores.csv and the fit ({data.summary.facts.estimator}), {answers(data.summary)}",
        sized(_figures_tiles(grid, colour), height),
        _tile_frame(grid, grid.residual),
        canvas=True,
    )


def _tile_frame(grid: CellGrid, value: Floats) -> Frame:
    row, column = np.nonzero(~np.isnan(value))
    return Frame.of(agent=[grid.rows[i] for i in row], item=[grid.columns[j] for j in column], value=value[row, column])


def _figures_tiles(grid: CellGrid, colour: alt.Color) -> alt.Chart:
    few = len(grid.rows) <= 60
    chart: alt.Chart = (
        frame_chart()
        .mark_rect()
        .encode(
            x=alt.X(
                "item:N",
                scale=ordered(grid.columns),
                title="item, easiest first",
                axis=alt.Axis(labels=False, ticks=False),
            ),
            y=alt.Y(
                "agent:N",
                scale=ordered(grid.rows),
                title=None,
                axis=alt.Axis(labels=few, ticks=few, labelLimit=110),
            ),
            color=colour,
            tooltip=[alt.Tooltip("agent:N"), alt.Tooltip("item:N"), alt.Tooltip("value:Q", format=".3f")],
        )
    )
    return chart


def _score_colour(field: str, title: str) -> alt.Color:
    return alt.Color(f"{field}:Q", title=title, scale=alt.Scale(scheme="viridis"))
