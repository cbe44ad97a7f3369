"""Draws a report as one self-contained HTML file. It knows markup; it computes nothing."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from youden.report.data import ReportData
from youden.text.printable import printable


def render_page(data: ReportData) -> str:
    """The page as text. Everything that came from outside is escaped, and shown with its control characters spelt out."""
    environment = Environment(
        loader=PackageLoader("youden.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["printable"] = printable
    environment.filters["fixed"] = _fixed
    return environment.get_template("report.html").render(report=data)


def _fixed(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
