"""Draws pages as self-contained HTML. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from youden.nouns import Json
from youden.report.data.comparison import Comparison
from youden.report.data.report import ReportData
from youden.report.data.summary import ABILITY, Summary
from youden.report.pages import embed

if TYPE_CHECKING:
    from youden.report.charts.marks import Figure


@dataclass(frozen=True)
class StudyPart:
    """A study of one run: its words and its figures."""

    name: str
    signature: str
    words: tuple[str, ...]
    figures: tuple[Figure, ...]


RunLine = tuple[str, str, str, Summary | None, str | None]
"""A run in the viewer's list: name, its name in an address, state, what it says if it is fitted, what is wrong with it."""


def render_page(data: ReportData, *, live: str | None = None, home: str | None = None) -> str:
    """A run's report. Everything from outside is escaped, and shown with its control characters spelt out.

    live: path under which the viewer serves this run's trials, None for a file that has only its sample; home: the viewer's
    list of runs.
    """
    return _render(
        "report.html",
        figures=embed.report_figures(data),
        trials=embed.trial_data(data.trials, data.agents.agents, data.item_ids, sampled=live is None),
        live=live,
        home=home,
        report=data,
        run=data.summary,
        ability=ABILITY,
        agent_json=embed.json_text(embed.agent_data(data)),
        scripts_of=("agents.js",),
    )


def render_comparison(data: Comparison, *, live: str | None = None, home: str | None = None) -> str:
    """Two runs side by side."""
    return _render(
        "comparison.html",
        figures=embed.comparison_figures(data),
        trials=embed.trial_data(data.trials, data.agent_ids, data.item_ids, sampled=live is None),
        live=live,
        home=home,
        report=data,
    )


def render_study(title: str, parts: Sequence[StudyPart]) -> str:
    """A study's figures and words, run by run. Needs the chart library."""
    figures: dict[str, Json] = {}
    shown = []
    for number, part in enumerate(parts, start=1):
        named = {f"{figure.slug}-{number}": embed.figure_json(figure) for figure in part.figures}
        figures |= named
        shown.append((part.name, part.signature, part.words, list(named)))
    return _render("study.html", figures=figures, live=None, home=None, title=title, parts=shown)


def render_runs(lines: Sequence[RunLine]) -> str:
    """The viewer's list of runs."""
    return _render("runs.html", live=None, home="/", lines=lines)


def render_live(name: str, address: str) -> str:
    """A run under way. address: the run's path in the viewer."""
    return _render("live.html", figures={}, live=address, home="/", name=name, charts=True)


def _render(
    template: str,
    *,
    live: str | None,
    home: str | None,
    figures: Mapping[str, Json] | None = None,
    trials: Mapping[str, Json] | None = None,
    charts: bool = False,
    scripts_of: Sequence[str] = (),
    **content: object,
) -> str:
    drawn = (charts or bool(figures)) and embed.has_charts()
    names = ["page.js", *(["figures.js"] if drawn else []), *(["trials.js"] if trials else []), *scripts_of]
    used = embed.scripts(*names, *(["live.js"] if template == "live.html" else []), charts=drawn)
    return (
        embed.environment()
        .get_template(template)
        .render(
            content,
            figures=figures or {},
            figure_json=embed.json_text(dict(figures or {})),
            trial_json=embed.json_text(dict(trials) if trials else None),
            live=live,
            home=home,
            scripts=used,
            policy=embed.policy(used, served=home is not None),
        )
    )
