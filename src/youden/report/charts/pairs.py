"""Who agrees with whom beside what abilities do not explain of it, linked pairs outlined."""

from __future__ import annotations

from collections.abc import Iterator

import altair as alt
import numpy as np

from youden.nouns.arrays import Floats
from youden.report.charts.frames import Frame
from youden.report.charts.marks import Figure, answers, frame_chart, ordered, sized
from youden.report.data.doubts.pairs import PairGrid
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
