"""Columns, tooltips, colours and axes that all figures share.

A figure keeps its data as columns, which take less room in a page than one record per mark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
from altair.utils.schemapi import debug_mode
from numpy.typing import NDArray

from youden.report.data.summary import Summary
from youden.text.printable import printable
from youden.types.pool import Json

Value = str | int | float | bool | None
Column = Sequence[Value] | NDArray[np.float64] | NDArray[np.int64]

DECIMALS = 5
"""Number of decimals kept of a drawn number."""
SCORE = "score (TPR − FPR)"
GROUP_COLOURS = ["#5b8fc9", "#e08214", "#2f9e8f", "#c8557c", "#8a6fc0", "#a0812f", "#5aa02c", "#888888"]
"""Pairwise distinguishable for people with red-green colour blindness; legible on white and on dark pages."""
DASHED: dict[str, Any] = {"strokeDash": [5, 4], "color": "#888888"}

unchecked = debug_mode(False)
"""Decorator that builds charts without validation against Vega-Lite's schema, which takes longer than the charts; tests
validate them."""


@dataclass(frozen=True, eq=False)
class Frame:
    """Columns of equal length, with printable names."""

    columns: Mapping[str, tuple[Value, ...]]

    @classmethod
    def of(cls, **columns: Column) -> Frame:
        """Make a frame from sequences or arrays; NaN becomes None, numbers keep `DECIMALS`."""
        return cls({name: _values(column) for name, column in columns.items()})

    @classmethod
    def of_rows(cls, rows: Iterable[object], /, *names: str, **columns: Column | str) -> Frame:
        """Make a frame from attributes of rows: `names`, or `column="attribute"`; other columns are given as such."""
        given = {**{name: name for name in names}, **columns}
        rows = list(rows)
        return cls.of(
            **{
                name: [getattr(row, column) for row in rows] if isinstance(column, str) else column
                for name, column in given.items()
            }
        )

    def rows(self) -> list[dict[str, Json]]:
        """Return one mapping per row."""
        names = list(self.columns)
        return [dict(zip(names, row, strict=True)) for row in zip(*self.columns.values(), strict=True)]

    def packed(self) -> dict[str, Json]:
        """Return each column as it is, or as distinct `levels` and their `codes` if texts repeat."""
        return {name: _packed(column) for name, column in self.columns.items()}


def _packed(column: Sequence[Value]) -> Json:
    if not any(isinstance(value, str) for value in column):
        return list(column)
    levels = {value: code for code, value in enumerate(dict.fromkeys(column))}
    if len(levels) > len(column) // 2:
        return list(column)
    return {"levels": list(levels), "codes": [levels[value] for value in column]}


def _values(column: Column) -> tuple[Value, ...]:
    if isinstance(column, np.ndarray):
        rounded: list[Value] = np.round(column, DECIMALS).tolist()
        return tuple(None if isinstance(value, float) and math.isnan(value) else value for value in rounded)
    return tuple(_value(value) for value in column)


def _value(value: Value) -> Value:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, DECIMALS)
    return value


class Figure:
    """A Vega-Lite specification without data or colours of a page, and what is written beside it.

    The data, `frame`, is inserted by the page. A figure with tens of thousands of marks is drawn on a canvas.
    """

    def __init__(
        self,
        slug: str,
        title: str,
        note: str,
        source: str,
        chart: alt.Chart | alt.LayerChart,
        *,
        frame: Frame,
        height: int,
        canvas: bool = False,
    ) -> None:
        self.slug, self.title, self.note, self.source = slug, title, note, source
        self.frame, self.canvas = frame, canvas
        spec: dict[str, Any] = chart.to_dict(validate=False)
        spec.pop("config", None)
        size: dict[str, Json] = {"width": "container", "height": height}
        self.spec: dict[str, Json] = {**spec, **size, "autosize": {"type": "fit-x", "contains": "padding"}}

    def to_json(self) -> dict[str, Json]:
        """Return the figure as the page's script reads it."""
        text = {name: getattr(self, name) for name in ("title", "note", "source", "spec")}
        return {**text, "frame": self.frame.packed(), "canvas": self.canvas}


def ordered(names: Sequence[str]) -> alt.Scale:
    """Return a scale of exactly these names, without gaps between their tiles."""
    return alt.Scale(domain=[printable(name) for name in names], round=False)


def frame_chart() -> alt.Chart:
    """Return a chart of the figure's frame."""
    return alt.Chart(alt.NamedData(name="frame"))


def tooltips(*columns: str) -> list[alt.Tooltip]:
    """Return tooltips from texts such as "ability:Q .3f": a column and, if any, its number format."""
    parts = [column.partition(" ") for column in columns]
    return [alt.Tooltip(name, format=form) if form else alt.Tooltip(name) for name, _, form in parts]


def coloured(column: str, title: str | None = None, *, domain: Sequence[str] = ()) -> alt.Color:
    """Return the colours of a column's names, in the order of `domain` if it is given."""
    order: dict[str, Any] = {"domain": list(domain)} if domain else {}
    return alt.Color(f"{column}:N", title=title, scale=alt.Scale(**order, range=GROUP_COLOURS))


def by_group(frame: Frame) -> alt.Color:
    """Return the colours of groups, the same in all figures of a run."""
    return coloured("group", "group", domain=sorted({str(group) for group in frame.columns["group"]}))


def dashed_line(x: str, y: str, points: Sequence[tuple[float, float]]) -> alt.Chart:
    """Return a grey dashed line through points, for columns `x` and `y`."""
    values = [{x: first, y: second} for first, second in points]
    line = alt.Chart(alt.InlineData(values=values)).mark_line(**DASHED)
    encoded: alt.Chart = line.encode(x=alt.X(f"{x}:Q"), y=alt.Y(f"{y}:Q"))
    return encoded


def answers(summary: Summary) -> str:
    """Format the number of answers behind a figure, or that there were none."""
    calls = summary.calls
    return "imported rates" if calls is None else f"{calls.n_calls - calls.n_missing:,} answers"
