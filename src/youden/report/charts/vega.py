"""Vega's script for a page, and pictures of charts as files, with title and source in them.

The script is shipped: `docs/making/vega_script.py` had vl-convert bundle it from Vega, Vega-Lite and vega-embed (BSD-3-Clause).
vl-convert itself is needed where a picture is asked for, and nowhere else.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

import orjson

from youden.errors import ConfigError
from youden.report.data.report import ReportData
from youden.text.printable import printable
from youden.types.pool import Json

if TYPE_CHECKING:
    from youden.report.charts.marks import Figure
    from youden.workflows.stress import Stress

NEEDED = ("altair",)
NEEDED_BY_PICTURES = ("altair", "vl_convert")
BUNDLE = "vega-6.2.0.js.gz"


def has_charts() -> bool:
    """Whether figures can be drawn in a page: the extra `report` is installed."""
    return _installed(NEEDED)


def has_pictures() -> bool:
    """Whether figures can be drawn as files: the extra `figures` is installed."""
    return _installed(NEEDED_BY_PICTURES)


def _installed(needed: Sequence[str]) -> bool:
    return all(find_spec(name) is not None for name in needed)


def need_charts() -> None:
    """Raises: ConfigError [charts-missing] where the extra `report` is not installed."""
    if not has_charts():
        raise ConfigError(
            "Charts need Altair, which is not installed. Install it with `pip install 'youden[report]'`.",
            slug="charts-missing",
        )


def need_pictures() -> None:
    """Raises: ConfigError [pictures-missing] where the extra `figures` is not installed."""
    if not has_pictures():
        raise ConfigError(
            "Pictures need Altair and vl-convert, which are not installed. Install them with `pip install 'youden[figures]'`.",
            slug="pictures-missing",
        )


@cache
def script() -> str:
    """Vega, Vega-Lite and vega-embed as one script that sets `window.vegaEmbed`."""
    bundle = gzip.decompress((files("youden.report.charts") / BUNDLE).read_bytes()).decode()
    # Within a function of its own, or the bundle's short names would be everybody's.
    return f"(() => {{\n{bundle}\n}})();".replace("</script", "<\\/script")


def svg(spec: dict[str, Json]) -> str:
    """The figure as SVG."""
    import vl_convert

    drawn: str = vl_convert.vegalite_to_svg(spec)
    return drawn


WIDTH = 640
SCALE = 2.0
"""Pixels to a unit of a figure's specification, in a PNG."""

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
    from youden.report.charts.studies import stress_figure

    return _whole(stress_figure(found), found.name)


def draw(spec: dict[str, Json], kind: PictureKind) -> bytes:
    """The picture's bytes. An SVG says which specification it was drawn from, so that its currency can be checked."""
    import vl_convert

    if kind == "png":
        drawn: bytes = vl_convert.vegalite_to_png(spec, scale=SCALE)
        return drawn
    return f"{svg(spec)}\n<!-- {mark(spec)} -->\n".encode()


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
