"""What all figures share: data frames as columns (small in a file, easy to expand into rows), marks, colours, sources."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
"""Kept of a number that is drawn."""


@dataclass(frozen=True, eq=False)
class Frame:
    """Columns of equal length. Other people's names in them are made printable."""

    columns: Mapping[str, tuple[Value, ...]]

    @classmethod
    def of(cls, **columns: Column) -> Frame:
        """From sequences or arrays; NaN becomes None, numbers keep `DECIMALS`."""
        return cls({name: _values(column) for name, column in columns.items()})

    def rows(self) -> list[dict[str, Json]]:
        """One mapping a row."""
        names = list(self.columns)
        return [dict(zip(names, row, strict=True)) for row in zip(*self.columns.values(), strict=True)]

    def packed(self) -> dict[str, Json]:
        """Each column as it is, or as distinct `levels` and their `codes` where text repeats."""
        return {name: _packed(column) for name, column in self.columns.items()}


def _packed(column: Sequence[Value]) -> Json:
    if not any(isinstance(one, str) for one in column):
        return list(column)
    levels = {one: code for code, one in enumerate(dict.fromkeys(column))}
    if len(levels) > len(column) // 2:
        return list(column)
    return {"levels": list(levels), "codes": [levels[one] for one in column]}


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


SCORE = "score (TPR − FPR)"
GROUP_COLOURS = ["#5b8fc9", "#e08214", "#2f9e8f", "#c8557c", "#8a6fc0", "#a0812f", "#5aa02c", "#888888"]

unchecked = debug_mode(False)
"""Around what makes figures: Altair holds each part against Vega-Lite's schema as it is made, a third of a figure's time. The
tests hold whole figures against it."""


@dataclass(frozen=True, eq=False)
class Figure:
    """One figure. spec: Vega-Lite without its data; note: how to read it; source: which file and which answers it shows."""

    slug: str
    title: str
    note: str
    source: str
    spec: dict[str, Json]
    frame: Frame
    canvas: bool = False


def ordered(names: Sequence[str]) -> alt.Scale:
    """The order of names on an axis, also of those without a mark."""
    return alt.Scale(domain=[printable(name) for name in names], round=False)


def frame_chart() -> alt.Chart:
    """A chart of the figure's own frame."""
    return alt.Chart(alt.NamedData(name="frame"))


def sized(chart: alt.Chart | alt.LayerChart, height: int) -> dict[str, Json]:
    """The specification, as wide as what it stands in. It is not held against Vega-Lite's schema: the tests do that."""
    spec: dict[str, Any] = chart.to_dict(validate=False)
    spec.pop("config", None)
    fit = {"type": "fit-x", "contains": "padding"}
    return {**spec, "width": "container", "height": height, "autosize": fit}


def told(*said: str) -> list[alt.Tooltip]:
    """What a tooltip tells: columns with their types, and how a number is written, as in `ability:Q .3f`."""
    parts = [one.partition(" ") for one in said]
    return [alt.Tooltip(column, format=form) if form else alt.Tooltip(column) for column, _, form in parts]


def by_group(frame: Frame) -> alt.Color:
    """One colour a group."""
    groups = sorted({str(group) for group in frame.columns["group"]})
    return alt.Color("group:N", title="group", scale=alt.Scale(domain=groups, range=GROUP_COLOURS))


def answers(summary: Summary) -> str:
    """How many answers a figure rests on."""
    calls = summary.calls
    return "imported rates" if calls is None else f"{calls.n_calls - calls.n_missing:,} answers"
