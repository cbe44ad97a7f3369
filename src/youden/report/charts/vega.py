"""Load the script that draws figures in a page, and render figures as pictures.

The script is part of the package: `docs/making/vega_script.py` bundled it with vl-convert from Vega, Vega-Lite and
vega-embed (BSD-3-Clause). Only pictures need vl-convert itself.
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
from youden.extras import format_install
from youden.report.data.report import ReportData
from youden.text.printable import printable
from youden.types.pool import Json

if TYPE_CHECKING:
    from youden.report.charts.marks import Figure
    from youden.workflows.stress import Stress

NEEDED = ("altair",)
"""Packages that figures in a page need."""
NEEDED_BY_PICTURES = ("altair", "vl_convert")
"""Packages that pictures need."""
BUNDLE = "vega-6.2.0.js.gz"
"""File of the script."""


def has_charts() -> bool:
    """Return whether figures can be drawn in a page, that is, the extra `report` is installed."""
    return _is_installed(NEEDED)


def has_pictures() -> bool:
    """Return whether figures can be drawn as files, that is, the extra `figures` is installed."""
    return _is_installed(NEEDED_BY_PICTURES)


def _is_installed(packages: Sequence[str]) -> bool:
    """Return whether all these packages are installed."""
    return all(find_spec(name) is not None for name in packages)


def need_charts() -> None:
    """Check that figures can be drawn in a page.

    Raises
    ------
    ConfigError
        [charts-missing]: if the extra `report` is not installed.
    """
    if not has_charts():
        raise ConfigError(
            f"Charts need Altair, which is not installed. Install it with `{format_install('report')}`.",
            slug="charts-missing",
        )


def need_pictures() -> None:
    """Check that figures can be drawn as files; raise ConfigError [pictures-missing] if a package is not installed."""
    if not has_pictures():
        raise ConfigError(
            f"Pictures need Altair and vl-convert, which are not installed. Install them with `{format_install('figures')}`.",
            slug="pictures-missing",
        )


@cache
def load_script() -> str:
    """Load Vega, Vega-Lite and vega-embed as one script that sets `window.vegaEmbed`."""
    bundle = gzip.decompress((files("youden.report.charts") / BUNDLE).read_bytes()).decode()
    # The function keeps the short names of the bundle out of the global scope.
    return f"(() => {{\n{bundle}\n}})();".replace("</script", "<\\/script")


def to_svg(spec: dict[str, Json]) -> str:
    """Render a Vega-Lite specification as SVG."""
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(spec)
    return svg


WIDTH = 640
"""Width of a picture, in units of the specification."""
SCALE = 2.0
"""Pixels per unit of the specification, in a PNG."""

PictureKind = Literal["svg", "png"]
"""Format of a picture."""


def make_figure_spec(data: ReportData, slug: str) -> dict[str, Json]:
    """Return the complete Vega-Lite specification of one figure of a run: with data, title, source and width.

    Parameters
    ----------
    data : ReportData
        Data of the run.
    slug : str
        Short name of the figure, such as "ranking".

    Returns
    -------
    dict of str to object

    Raises
    ------
    ConfigError
        [unknown-chart] if the run has no such figure; the message lists the figures of the run.
    """
    from youden.report.charts.figures import draw_figures

    figures = {figure.slug: figure for figure in draw_figures(data)}
    if slug not in figures:
        raise ConfigError(
            f"The figure is unknown: got '{slug}'. This run has: {', '.join(figures) or 'none'}.", slug="unknown-chart"
        )
    return _complete_spec(figures[slug], data.summary.name)


def stress_spec(stress: Stress) -> dict[str, Json]:
    """Return the complete specification of the figure of a stress test."""
    from youden.report.charts.studies import draw_stress_figure

    return _complete_spec(draw_stress_figure(stress), stress.name)


def render_picture(spec: dict[str, Json], kind: PictureKind) -> bytes:
    """Render a complete Vega-Lite specification as a picture, and return the contents of its file.

    Parameters
    ----------
    spec : dict of str to object
        Specification with data, title and width.
    kind : {"svg", "png"}
        Format of the picture.

    Returns
    -------
    bytes
        Contents of the file. An SVG ends with a comment that contains the digest of the specification. A test compares
        this digest with the specification to find outdated pictures.
    """
    import vl_convert

    if kind == "png":
        png: bytes = vl_convert.vegalite_to_png(spec, scale=SCALE)
        return png
    svg = f"{to_svg(spec)}\n<!-- {spec_digest(spec)} -->\n"  # a test finds outdated pictures by the digest
    return svg.encode()


def spec_digest(spec: dict[str, Json]) -> str:
    """Return a digest of a complete specification: "youden " and a SHA-256 in hexadecimal digits."""
    canonical = orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)
    return f"youden {hashlib.sha256(canonical).hexdigest()}"


def _complete_spec(figure: Figure, name: str) -> dict[str, Json]:
    """Return the complete specification of a figure, with its data, title, source and width.

    name : name of the run, for the title
    """
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
    spec_datasets = figure.spec.get("datasets")
    datasets = spec_datasets if isinstance(spec_datasets, dict) else {}
    return {
        **figure.spec,
        "width": WIDTH,
        "autosize": {"type": "pad", "contains": "content"},
        "padding": 12,
        "title": title,
        "config": config,
        "datasets": {**datasets, "frame": rows},
    }
