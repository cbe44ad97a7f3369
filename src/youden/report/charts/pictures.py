"""Figures as pictures for a page elsewhere, with title and source in them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal

import orjson

from youden.errors import ConfigError
from youden.nouns import Json
from youden.report.charts import vega
from youden.report.data.report import ReportData
from youden.text.printable import printable

if TYPE_CHECKING:
    from youden.practice.stress.stressing import Stress
    from youden.report.charts.marks import Figure

WIDTH = 640
SCALE = 2.0

PictureKind = Literal["svg", "png"]


def picture_spec(data: ReportData, slug: str) -> dict[str, Json]:
    """The figure called `slug`, whole: with its data, title, source and width.

    Raises: ConfigError [unknown-chart], listing the figures that this run has.
    """
    from youden.report.charts.figures import figures

    known = {figure.slug: figure for figure in figures(data)}
    if slug not in known:
        raise ConfigError(
            f"This run has no figure called '{slug}'. It has: {', '.join(known) or 'none'}.", slug="unknown-chart"
        )
    return _whole(known[slug], data.summary.name)


def stress_spec(found: Stress) -> dict[str, Json]:
    """A gaming audit's figure, whole."""
    from youden.report.charts.stress import stress_figure

    return _whole(stress_figure(found), found.name)


def draw(spec: dict[str, Json], kind: PictureKind) -> bytes:
    """The picture's bytes. An SVG says which specification it was drawn from, so that its currency can be checked."""
    if kind == "png":
        return vega.png(spec, scale=SCALE)
    return f"{vega.svg(spec)}\n<!-- {mark(spec)} -->\n".encode()


def mark(spec: dict[str, Json]) -> str:
    """A digest of all that is drawn."""
    return f"youden {hashlib.sha256(orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)).hexdigest()}"


def _whole(figure: Figure, name: str) -> dict[str, Json]:
    title: Json = {
        "text": f"{printable(name)}: {figure.title}",
        "subtitle": f"Source: {figure.source}",
        "anchor": "start",
        "subtitleColor": "#57606a",
    }
    text: dict[str, Json] = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    config: dict[str, Json] = {
        "background": "#ffffff",
        "axis": text,
        "axisQuantitative": {"tickCount": 8},
        "legend": {**text, "orient": "bottom", "columns": 6},
    }
    rows: Json = list(figure.frame.rows())
    datasets = figure.spec.get("datasets")
    kept = datasets if isinstance(datasets, dict) else {}
    return {
        **figure.spec,
        "width": WIDTH,
        "autosize": {"type": "pad", "contains": "content"},
        "padding": 12,
        "title": title,
        "config": config,
        "datasets": {**kept, "frame": rows},
    }
