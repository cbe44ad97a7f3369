"""Puts data, figures and scripts into a page that runs nothing else.

JSON and scripts are quoted for HTML, and the content security policy names each script by its hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from urllib.parse import quote

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from youden.pipeline.variance_components import moves_table
from youden.report.charts import vega
from youden.report.data.comparison import Comparison
from youden.report.data.doubts import groups_table
from youden.report.data.opened_trials import TrialSample
from youden.report.data.ranking_tables import RankedAgent, disagreements_table, labels_table, moved_table, shown
from youden.report.data.report import AgentPage, ReportData
from youden.report.data.summary import links_table
from youden.report.data.trial_rows import TrialLine
from youden.text.printable import printable
from youden.text.sentences import with_interval
from youden.text.tables import fixed
from youden.types.finding import kind_of
from youden.types.pool import Json
from youden.workflows.quality import quality_table

_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@dataclass(frozen=True)
class Script:
    """A script that stands in the page, and the source expression that allows it."""

    text: str

    @property
    def source(self) -> str:
        digest = hashlib.sha256(self.text.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"


def scripts(*names: str, charts: bool) -> tuple[Script, ...]:
    """The chart library, if wanted, then the package's own scripts by name."""
    folder = files("youden.report.pages") / "templates"
    own = [(folder / name).read_text(encoding="utf-8") for name in names]
    return tuple(Script(text) for text in ([vega.script()] if charts else []) + own)


def policy(used: Sequence[Script], *, served: bool) -> str:
    """A content security policy that runs these scripts and no other, and loads nothing but, where `served`, from the viewer."""
    sources = " ".join(script.source for script in used) or "'none'"
    own = "'self'" if served else "'none'"
    return (
        f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; img-src data:; connect-src {own}; "
        f"base-uri 'none'; form-action {own}"
    )


def json_text(value: Json) -> str:
    """JSON that is safe inside a script element, whatever its strings hold."""
    text = orjson.dumps(value).decode()
    for character, quoted in _UNSAFE.items():
        text = text.replace(character, quoted)
    return text


def report_figures(data: ReportData) -> dict[str, Json]:
    """A report's figures by slug; empty without the chart library."""
    if not vega.has_charts():
        return {}
    from youden.report.charts.figures import figures

    return {figure.slug: figure.to_json() for figure in figures(data)}


def comparison_figures(data: Comparison) -> dict[str, Json]:
    """A comparison's figures by slug; empty without the chart library."""
    if not vega.has_charts():
        return {}
    from youden.report.charts.studies import slope

    return {"slope": slope(data).to_json()}


def live_figures(agents: Sequence[RankedAgent], *, n_answered: int, level: float) -> dict[str, Json]:
    """The ranking so far; empty without the chart library or without a ranking."""
    if not vega.has_charts() or not agents:
        return {}
    from youden.report.charts.figures import ranking_figure

    figure = ranking_figure(agents, level=level, source=f"the store, {n_answered:,} answers so far")
    return {figure.slug: figure.to_json()}


def agent_data(data: ReportData) -> dict[str, Json]:
    """What the agents' own pages say: names by position, and for each agent what was found, its partners, items and worst
    trials."""
    known = {name: k for k, name in enumerate(data.agents.agents)}
    ranked = {known[row.agent]: row for row in data.summary.ranking}
    items = {item for page in data.pages for item, _, _ in (*page.gains, *page.loses)}
    worst = () if data.trials is None else data.trials.worst
    items |= {item for line in worst for item in (line.item, line.other_item) if item is not None}
    return {
        "names": [printable(name) for name in data.agents.agents],
        "items": _named(data.item_ids, sorted(items)),
        "order": list(ranked),
        "pages": {str(k): _agent_page(page, ranked[k], data) for k, page in enumerate(data.pages)},
        "columns": [field.name for field in fields(TrialLine)],
        "trials": [list(vars(line).values()) for line in worst],
    }


def _agent_page(page: AgentPage, row: RankedAgent, data: ReportData) -> dict[str, Json]:
    tied = data.tied[row.agent]
    return {
        "group": None if row.group is None else printable(row.group),
        "places": row.places,
        "at_once": row.places_at_once,
        "ability": _rounded(row.ability),
        "low": _rounded(row.low),
        "high": _rounded(row.high),
        "shown": [f"{column.heading} {printable(shown(row, column))}" for column in data.summary.columns],
        "tied": None if tied is None else len(tied),
        "found": [printable(text) for text in page.found],
        "partners": [[[k, _rounded(value)] for k, value in end] for end in (page.high, page.low)],
        "items": [
            [[j, _rounded(score), _rounded(residual)] for j, score, residual in end] for end in (page.gains, page.loses)
        ],
        "worst": list(page.worst),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def trial_data(
    trials: TrialSample | None, agents: Sequence[str], items: Sequence[str], *, sampled: bool
) -> dict[str, Json] | None:
    """The sample of trials in columns with the names that it speaks of, by position, if the page is to carry it; None for an
    imported run."""
    if trials is None:
        return None
    lines = [vars(line) for line in trials.lines] if sampled else []
    if not any(line["first_repeat"] for line in lines):
        lines = [{name: value for name, value in line.items() if not name.endswith("_repeat")} for line in lines]
    return {
        **names_in(trials.lines if sampled else (), agents, items),
        "lines": [list(line.values()) for line in lines],
        "columns": list(lines[0]) if lines else [],
        "texts": list(trials.texts) if sampled else [],
        "first": list(trials.first),
        "second": list(trials.second),
        "raw": list(trials.raw) if sampled else [],
        "prompt": trials.prompt,
    }


def names_in(lines: Sequence[TrialLine], agents: Sequence[str], items: Sequence[str]) -> dict[str, Json]:
    """The names of the agents and items that these trials speak of, by position."""
    asked = {item for line in lines for item in (line.item, line.other_item) if item is not None}
    return {
        "agents": _named(agents, sorted({agent for line in lines for agent in (line.first, line.second)})),
        "items": _named(items, sorted(asked)),
    }


def _named(names: Sequence[str], positions: Sequence[int]) -> dict[str, Json]:
    return {str(position): printable(names[position]) for position in positions}


@cache
def environment() -> Environment:
    """Templates that escape everything and refuse an unknown name."""
    made = Environment(
        loader=PackageLoader("youden.report.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    tables = (disagreements_table, groups_table, labels_table, links_table, moved_table, moves_table)
    made.globals |= {made_by.__name__: made_by for made_by in (*tables, quality_table)}
    made.filters["printable"] = printable
    made.filters["coded"] = coded
    made.filters["address"] = lambda text: quote(printable(text), safe="")
    made.filters["shown"] = shown
    made.filters["kind"] = kind_of
    made.filters["fixed"] = fixed
    made.filters["with_interval"] = lambda found: with_interval(found.value, found.low, found.high, why=found.method)
    made.filters["count"] = lambda value: f"{value:,}"
    return made


def coded(text: str) -> Markup:
    """Text for a page, what stands between backticks as code.

    >>> coded("run `youden fit` <now>")
    Markup('run <code>youden fit</code> &lt;now&gt;')
    """
    parts = printable(text).split("`")
    if len(parts) % 2 == 0:
        parts[-2:] = ["`".join(parts[-2:])]
    return Markup("").join(Markup("<code>{}</code>").format(part) if k % 2 else part for k, part in enumerate(parts))
