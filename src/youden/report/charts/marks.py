"""What all figures share: how one is described, its colours, its width, where its data come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
from altair.utils.schemapi import debug_mode

from youden.nouns import Json
from youden.report.charts.frames import Frame
from youden.report.data.summary import Summary
from youden.text.printable import printable

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


def by_group(frame: Frame) -> alt.Color:
    """One colour a group."""
    groups = sorted({str(group) for group in frame.columns["group"]})
    return alt.Color("group:N", title="group", scale=alt.Scale(domain=groups, range=GROUP_COLOURS))


def answers(summary: Summary) -> str:
    """How many answers a figure rests on."""
    calls = summary.calls
    return "imported rates" if calls is None else f"{calls.n_calls - calls.n_missing:,} answers"
