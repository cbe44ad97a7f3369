"""Define the parts that all figures share: data, tooltips, colors and scales.

A figure stores its data as columns, which need less space in a page than one record per mark.
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
"""Value of one mark in one column."""
Column = Sequence[Value] | NDArray[np.float64] | NDArray[np.int64]
"""Values of all marks in one column."""

DECIMALS = 5
"""Number of decimals of a drawn number."""
SCORE = "score (TPR − FPR)"
"""Title of an axis of scores."""
GROUP_COLORS = ["#5b8fc9", "#e08214", "#2f9e8f", "#c8557c", "#8a6fc0", "#a0812f", "#5aa02c", "#888888"]
"""Pairwise distinguishable for people with red-green color blindness; legible on white and on dark pages."""
DASHED: dict[str, Any] = {"strokeDash": [5, 4], "color": "#888888"}
"""Style of reference lines."""

without_validation = debug_mode(False)
"""Decorator that builds charts without validating them against the schema of Vega-Lite, which takes longer than
building them; tests validate them.
"""


@dataclass(frozen=True, eq=False)
class Frame:
    """Data of a figure: columns of equal length, with printable texts."""

    columns: Mapping[str, tuple[Value, ...]]
    """Name → values of all marks."""

    @classmethod
    def from_columns(cls, **columns: Column) -> Frame:
        """Create a frame from values by column name: sequences or arrays (n_marks,).

        NaN becomes None; numbers are rounded to `DECIMALS`.
        """
        return cls({name: _to_values(column) for name, column in columns.items()})

    @classmethod
    def from_rows(cls, rows: Iterable[object], /, *names: str, **columns: Column | str) -> Frame:
        """Create a frame, the data of a chart, from attributes of objects; each object is one mark (dot, bar or tile).

        Parameters
        ----------
        rows : iterable of object
            The objects.
        *names : str
            Attributes, each of which becomes a column of the same name.
        **columns : str or array_like (n_marks,)
            Further columns by name. A text is the name of the attribute that becomes the column; an array contains the values
            of the column.

        Returns
        -------
        Frame
        """
        objects = list(rows)
        values: dict[str, Column] = {}
        for name in names:
            values[name] = [getattr(row, name) for row in objects]
        for name, column in columns.items():
            if isinstance(column, str):
                values[name] = [getattr(row, column) for row in objects]
            else:
                values[name] = column
        return cls.from_columns(**values)

    def rows(self) -> list[dict[str, Json]]:
        """Return one mapping of column name to value per mark."""
        names = list(self.columns)
        return [dict(zip(names, row, strict=True)) for row in zip(*self.columns.values(), strict=True)]

    def packed(self) -> dict[str, Json]:
        """Return each column as a list, or as distinct `levels` and their `codes` if it has repeated texts."""
        return {name: _pack(column) for name, column in self.columns.items()}


def _pack(column: Sequence[Value]) -> Json:
    """Return the values of a column as a list, or as distinct levels and their codes if most texts are repeated."""
    if not any(isinstance(value, str) for value in column):
        return list(column)
    levels = {value: code for code, value in enumerate(dict.fromkeys(column))}
    if len(levels) > len(column) // 2:
        return list(column)
    return {"levels": list(levels), "codes": [levels[value] for value in column]}


def _to_values(column: Column) -> tuple[Value, ...]:
    """Convert a column for a page: texts become printable, numbers are rounded, NaN becomes None."""
    if isinstance(column, np.ndarray):
        rounded: list[Value] = np.round(column, DECIMALS).tolist()
        return tuple(None if isinstance(value, float) and math.isnan(value) else value for value in rounded)
    return tuple(_to_value(value) for value in column)


def _to_value(value: Value) -> Value:
    """Convert one value for a page: a text becomes printable, a number is rounded, NaN becomes None."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, DECIMALS)
    return value


class Figure:
    """Figure of a page: a Vega-Lite specification with its data and texts.

    Attributes
    ----------
    slug : str
        Short name.
    title, note, source : str
        Title, explanation below the figure, and source of the data.
    spec : dict
        Vega-Lite specification without data and without the colors of the page.
    frame : Frame
        Data, which the page inserts.
    canvas : bool
        Whether the page draws the figure on a canvas, which is faster for tens of thousands of marks.
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
        """Create a figure.

        Parameters
        ----------
        slug : str
            Short name.
        title, note, source : str
            Title, explanation below the figure, and source of the data.
        chart : Chart or LayerChart
            Chart without its data.
        frame : Frame
            Data of the chart.
        height : int
            Height in pixels. The figure fills the width of its container.
        canvas : bool, default False
            Whether the page draws the figure on a canvas, which is faster for tens of thousands of marks.
        """
        self.slug = slug
        self.title = title
        self.note = note
        self.source = source
        self.frame = frame
        self.canvas = canvas
        spec: dict[str, Any] = chart.to_dict(validate=False)
        spec.pop("config", None)
        size: dict[str, Json] = {"width": "container", "height": height}
        self.spec: dict[str, Json] = {**spec, **size, "autosize": {"type": "fit-x", "contains": "padding"}}

    def to_json(self) -> dict[str, Json]:
        """Return the figure as JSON for the script of the page."""
        texts = {name: getattr(self, name) for name in ("title", "note", "source", "spec")}
        return {**texts, "frame": self.frame.packed(), "canvas": self.canvas}


def make_tile_scale(names: Sequence[str]) -> alt.Scale:
    """Make a scale of exactly these names, without gaps between tiles."""
    return alt.Scale(domain=[printable(name) for name in names], round=False)


def make_chart() -> alt.Chart:
    """Make a chart of the frame of a figure."""
    return alt.Chart(alt.NamedData(name="frame"))


def make_tooltips(*columns: str) -> list[alt.Tooltip]:
    """Make tooltips from texts such as "ability:Q .3f": a column and, optionally, its number format."""
    tooltips = []
    for column in columns:
        name, _, number_format = column.partition(" ")
        tooltips.append(alt.Tooltip(name, format=number_format) if number_format else alt.Tooltip(name))
    return tooltips


def color_by(column: str, title: str | None = None, *, domain: Sequence[str] = ()) -> alt.Color:
    """Color marks by the texts of a column.

    The colors are assigned in the order of `domain`, or in alphabetical order without it.
    """
    scale = alt.Scale(domain=list(domain), range=GROUP_COLORS) if domain else alt.Scale(range=GROUP_COLORS)
    return alt.Color(f"{column}:N", title=title, scale=scale)


NO_GROUP = "no group"
"""Text of an agent without a group in a figure."""


def color_by_group(frame: Frame) -> alt.Color | alt.ColorValue:
    """Color marks by group, with the same colors in all figures of a run; without groups, use one color and no legend."""
    groups = sorted({str(group) for group in frame.columns.get("group", ())})
    if groups in ([], [NO_GROUP]):
        return alt.ColorValue(GROUP_COLORS[0])
    return color_by("group", "group", domain=groups)


def make_dashed_line(x: str, y: str, points: Sequence[tuple[float, float]]) -> alt.Chart:
    """Make a gray dashed line through `points`, pairs of values on the axes of the columns `x` and `y`."""
    values = [{x: x_value, y: y_value} for x_value, y_value in points]
    line = alt.Chart(alt.InlineData(values=values)).mark_line(**DASHED)
    encoded: alt.Chart = line.encode(x=alt.X(f"{x}:Q"), y=alt.Y(f"{y}:Q"))
    return encoded


def format_n_answers(summary: Summary) -> str:
    """Format the number of answers of a run, as the source of the data of a figure."""
    calls = summary.calls
    if calls is None:
        return "imported rates"
    return f"{calls.n_answered:,} answers"
