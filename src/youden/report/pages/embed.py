"""Embed data, figures and scripts in a page.

The content security policy of the page names each script by its hash, so that a browser runs no other script.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from urllib.parse import quote

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from youden.extras import format_install
from youden.pipeline.variance_components import build_variance_table
from youden.report.charts import vega
from youden.report.data.comparison import Comparison
from youden.report.data.doubts import build_groups_table
from youden.report.data.opened_trials import TrialSample
from youden.report.data.ranking_tables import (
    RankedAgent,
    build_changes_table,
    build_disagreements_table,
    build_labels_table,
    format_cell,
)
from youden.report.data.report import AgentPage, ReportData
from youden.report.data.summary import build_curl_table
from youden.report.data.trial_rows import TrialLine
from youden.stats.base.metrics import Metric
from youden.text.printable import printable
from youden.text.sentences import format_with_interval
from youden.text.tables import format_decimal
from youden.types.finding import kind_of
from youden.types.pool import Json
from youden.workflows.quality import quality_table

_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@dataclass(frozen=True)
class Script:
    """Script of a page."""

    text: str
    """Source code."""

    @property
    def source(self) -> str:
        """Source expression that allows the script in a content security policy."""
        digest = hashlib.sha256(self.text.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"


def load_scripts(*names: str, charts: bool) -> tuple[Script, ...]:
    """Load scripts of this package by file name, and before them the chart library if `charts` is True."""
    folder = files("youden.report.pages") / "templates"
    texts = [vega.load_script()] if charts else []
    texts += [(folder / name).read_text(encoding="utf-8") for name in names]
    return tuple(Script(text) for text in texts)


def make_policy(scripts: Sequence[Script], *, is_served: bool) -> str:
    """Make a content security policy that allows only the given scripts.

    is_served : True if the viewer serves the page, so that the page may load data from the viewer. False if the page is a file;
        it may then load nothing.
    """
    script_sources = " ".join(script.source for script in scripts) or "'none'"
    viewer = "'self'" if is_served else "'none'"
    return (
        f"default-src 'none'; script-src {script_sources}; style-src 'unsafe-inline'; img-src data:; connect-src {viewer}; "
        f"base-uri 'none'; form-action {viewer}"
    )


def to_script_json(value: Json) -> str:
    """Encode a value as JSON that cannot end the script element that contains it."""
    text = orjson.dumps(value).decode()
    for character, escaped in _UNSAFE.items():
        text = text.replace(character, escaped)
    return text


def draw_report_figures(data: ReportData) -> dict[str, Json]:
    """Draw the figures of a report as JSON, by their short names; none if the chart library is not installed."""
    if not vega.has_charts():
        return {}
    from youden.report.charts.figures import draw_figures

    return {figure.slug: figure.to_json() for figure in draw_figures(data)}


def draw_comparison_figures(data: Comparison) -> dict[str, Json]:
    """Draw the figures of a comparison as JSON, by their short names; none if the chart library is not installed."""
    if not vega.has_charts():
        return {}
    from youden.report.charts.studies import draw_slope

    return {"slope": draw_slope(data).to_json()}


def draw_ranking_alone(agents: Sequence[RankedAgent], *, source: str, level: float, unit: str = "") -> dict[str, Json]:
    """Draw only the ranking of a run, without the other figures of a report.

    Runs in progress and runs that ask for preferences have no other figures: these need a complete fit with scores of cells.

    Parameters
    ----------
    agents : sequence of RankedAgent
        Ranking, best agent first. If it is not empty, at least one agent must have an ability.
    source : str
        Source of the data, for display.
    level : float
        Confidence level of the intervals, for display: for example, 0.95.
    unit : str, optional
        Unit of the abilities, for display. By default, it is shown as "score (TPR − FPR)".

    Returns
    -------
    dict
        "ranking" → figure as JSON (dict). The dict is empty if `agents` is empty, or if the chart library is not installed.
    """
    if not vega.has_charts() or not agents:
        return {}
    from youden.report.charts.figures import draw_ranking_figure

    figure = draw_ranking_figure(agents, level=level, source=source, unit=unit)
    return {figure.slug: figure.to_json()}


def collect_agent_data(data: ReportData) -> dict[str, Json]:
    """Collect the details of all agents as JSON for the script of the page.

    Returns a mapping with the following keys. Agents and items are given by their positions in the run; a position that is a key
    of a mapping is a text.

    names : names of the agents, by position
    items : position → name of the item, for the items that `pages` or `trials` contain
    order : positions of the agents, best first
    pages : position → ranks, ability, findings, partners, items and worst trials of the agent
    columns : names of the fields of a trial
    trials : values of these fields, for the trials that lower the ability of an agent most
    """
    agent_ids = data.agents.agents
    position_by_agent = {agent: position for position, agent in enumerate(agent_ids)}
    row_by_agent = {row.agent: row for row in data.summary.ranking}  # best agent first
    worst_trials = () if data.trials is None else data.trials.worst
    displayed_items = _list_items(data.pages, worst_trials)
    json_by_position: dict[str, Json] = {}
    for position, (agent, page) in enumerate(zip(agent_ids, data.pages, strict=True)):
        json_by_position[str(position)] = _to_page_json(page, row_by_agent[agent], data)
    return {
        "names": [printable(agent) for agent in agent_ids],
        "items": _names_by_position(data.item_ids, displayed_items),
        "order": [position_by_agent[agent] for agent in row_by_agent],
        "pages": json_by_position,
        "columns": [field.name for field in fields(TrialLine)],
        "trials": [list(vars(trial).values()) for trial in worst_trials],
    }


def _list_items(pages: Sequence[AgentPage], trials: Sequence[TrialLine]) -> list[int]:
    """List the items of trials, and those on which an agent scores higher or lower than predicted, ascending."""
    items = _items_of_trials(trials)
    for page in pages:
        items |= {item for item, _score, _residual in (*page.gains, *page.loses)}
    return sorted(items)


def _to_page_json(page: AgentPage, row: RankedAgent, data: ReportData) -> dict[str, Json]:
    """Convert the details of an agent to JSON; `row` is its row of the ranking."""
    tied = data.tied[row.agent]
    return {
        "group": None if row.group is None else printable(row.group),
        "ranks": row.ranks,
        "simultaneous_ranks": row.simultaneous_ranks,
        "ability": _round(row.ability),
        "low": _round(row.low),
        "high": _round(row.high),
        "extra_columns": [f"{column.heading} {printable(format_cell(row, column))}" for column in data.summary.columns],
        "n_tied": None if tied is None else len(tied),
        "findings": [printable(text) for text in page.findings],
        "partners": [
            [[partner, _round(agreement)] for partner, agreement in page.high],
            [[partner, _round(agreement)] for partner, agreement in page.low],
        ],
        "items": [
            [[item, _round(score), _round(residual)] for item, score, residual in page.gains],
            [[item, _round(score), _round(residual)] for item, score, residual in page.loses],
        ],
        "worst_trials": list(page.worst),
    }


def _round(value: float | None) -> float | None:
    """Round a number to three decimals; None stays None."""
    return None if value is None else round(value, 3)


def collect_trial_data(
    trials: TrialSample | None, agents: Sequence[str], items: Sequence[str], *, has_sample: bool
) -> dict[str, Json] | None:
    """Collect trials, their texts and names as JSON for the script of the page.

    Parameters
    ----------
    trials : TrialSample or None
        Sample of the trials; None for an imported run.
    agents, items : sequence of str
        Ids of all agents and items, by position.
    has_sample : bool
        Whether the page contains the sample; otherwise it loads trials from the viewer.

    Returns
    -------
    dict of str to object, or None
        `agents` and `items` : position, as a text → printable id, for those that occur in the trials
        `columns`, `lines` : names of the fields of a trial, and their values for each trial
        `texts` : all distinct texts
        `first`, `second` : position in `texts` of the first and of the second text of each trial, −1 for a missing text
        `raw` : raw answer of the judge to each trial; None if it is not stored
        `prompt` : prompt of the judge

        None for an imported run. If `has_sample` is False, the script uses only `prompt`. All other entries except `first` and
        `second` are then empty.
    """
    if trials is None:
        return None

    lines = trials.lines if has_sample else []
    values_by_field = [vars(line).copy() for line in lines]  # one dict per trial
    has_repeats = any(line.first_repeat for line in lines)  # agents with several responses to an item
    if not has_repeats:
        for trial_values in values_by_field:
            del trial_values["first_repeat"], trial_values["second_repeat"]
    return {
        **select_names(lines, agents, items),
        "lines": [list(trial_values.values()) for trial_values in values_by_field],
        "columns": list(values_by_field[0]) if values_by_field else [],
        "texts": list(trials.texts) if has_sample else [],
        "first": list(trials.first),
        "second": list(trials.second),
        "raw": list(trials.raw) if has_sample else [],
        "prompt": trials.prompt,
    }


def select_names(lines: Sequence[TrialLine], agents: Sequence[str], items: Sequence[str]) -> dict[str, Json]:
    """Select the names of the agents and items of trials.

    Parameters
    ----------
    lines : sequence of TrialLine
        Trials, with positions of agents and items.
    agents, items : sequence of str
        Ids of all agents and items, by position.

    Returns
    -------
    dict
        Two keys, "agents" and "items". Each value is a dict: position, as a text → printable id, for those that occur in `lines`.
    """
    agent_positions = {agent for line in lines for agent in (line.first, line.second)}
    return {
        "agents": _names_by_position(agents, sorted(agent_positions)),
        "items": _names_by_position(items, sorted(_items_of_trials(lines))),
    }


def _items_of_trials(lines: Sequence[TrialLine]) -> set[int]:
    """Return the positions of the items of trials."""
    return {item for line in lines for item in (line.item, line.other_item) if item is not None}


def _names_by_position(names: Sequence[str], positions: Sequence[int]) -> dict[str, Json]:
    """Return the printable names at these positions, by position as a text."""
    return {str(position): printable(names[position]) for position in positions}


@cache
def get_environment() -> Environment:
    """Return the Jinja environment of the HTML templates, with the functions and filters that the templates use.

    Templates call the functions that make tables by their Python names. All values are escaped, and undefined names raise an
    error.
    """
    environment = Environment(
        loader=PackageLoader("youden.report.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    table_functions = (
        build_disagreements_table,
        build_groups_table,
        build_labels_table,
        build_curl_table,
        build_changes_table,
        build_variance_table,
        quality_table,
    )
    for function in table_functions:
        environment.globals[function.__name__] = function
    environment.globals["install"] = format_install("report")
    environment.filters |= {
        "printable": printable,
        "breakable": format_breakable,
        "coded": format_code,
        "address": lambda text: quote(printable(text), safe=""),
        "cell": format_cell,
        "kind": kind_of,
        "fixed": format_decimal,
        "with_interval": _format_metric,
        "count": lambda value: f"{value:,}",
    }
    return environment


def _format_metric(metric: Metric) -> str:
    """Format the value of a metric with its interval."""
    return format_with_interval(metric.value, metric.low, metric.high, method=metric.method)


def format_breakable(name: str) -> Markup:
    """Return a printable name as HTML, which may be broken after each separator."""
    return Markup("<wbr>").join(re.split(r"(?<=[_./:-])(?=\w)", printable(name)))


def format_code(text: str) -> Markup:
    """Format a text as HTML, with the parts between backticks as code.

    Other markup is escaped. An unpaired backtick is kept.

    >>> format_code("run `youden fit` <now>")
    Markup('run <code>youden fit</code> &lt;now&gt;')
    """
    parts: list[str] = printable(text).split("`")
    if len(parts) % 2 == 0:  # the last backtick has no partner
        parts[-2:] = ["`".join(parts[-2:])]
    is_code = False
    html = Markup("")
    for part in parts:
        html += Markup("<code>{}</code>").format(part) if is_code else part
        is_code = not is_code
    return html
