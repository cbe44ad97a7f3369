"""A run's summary as Markdown, fit for a pull request."""

from __future__ import annotations

from collections.abc import Iterable

from youden.nouns import Finding
from youden.report.data.report import ReportData
from youden.report.data.summary import ABILITY
from youden.text.sentences import counted, quoted
from youden.text.tables import as_markdown, fixed

MAX_AGENTS = 30
BAR = 20


def render_markdown(data: ReportData) -> str:
    """Headline, warnings, ranking with bars, cost and signature."""
    run = data.summary
    lines = [
        f"## {quoted(run.name)}: {run.n_agents} agents on {run.items}",
        "",
        f"**{quoted(run.headline)}**",
        "",
        f"{quoted(ABILITY)} {quoted(run.target)}",
        "",
    ]
    lines += [quoted(run.chances), ""] if run.chances else []
    lines += warned(data.advice)
    lines += [
        "",
        as_markdown(run.table(bar_cells=BAR, most=MAX_AGENTS)),
    ]
    if len(run.ranking) > MAX_AGENTS:
        lines += ["", f"… and {counted(len(run.ranking) - MAX_AGENTS, 'agent')} more."]
    lines += ["", *(f"{quoted(line)} " for line in run.standings)]
    if run.calls is not None:
        lines += [
            f"{run.calls.n_calls:,} calls ({fixed(run.percent_of_dense, 1)} % of dense), "
            f"{run.calls.n_missing:,} without an answer. "
        ]
        if run.calls.n_reused:
            cost = None if data.cost is None else data.cost.reused_usd
            then = "" if cost is None else f"; they cost ${cost:,.4f} then"
            lines += [f"{counted(run.calls.n_reused, 'answer', 'was', 'were')} asked before this run{then}. "]
    if (held := run.facts.holdout) is not None:
        lines += [f"Held-out cells: RMSE {held.rmse:.3f} on {held.n_cells:,} cells ({held.rule}). "]
    if run.partners is not None:
        lines += [quoted(run.partners)]
    if run.moves is not None:
        lines += [f"What moves it: {quoted(run.moves.sentence)} "]
    if run.facts.growth is not None:
        lines += ["", *(f"- {quoted(line)}" for line in run.moved)]
    if run.labels is not None:
        lines += ["", f"Against {quoted(run.labels.source)}, which no fit has seen:", ""]
        lines += [f"- {quoted(' '.join(label.words))}" for label in run.labels.labels]
        lines += [f"- {quoted(line)}" for line in run.labels.notes]
    if run.quality is not None:
        lines += ["", "Quality, from labels:", "", *(f"- {quoted(line)}" for line in run.quality.words)]
    return "\n".join([*lines, "", f"<sub>{quoted(run.signature)}</sub>", ""])


def warned(found: Iterable[Finding]) -> list[str]:
    """A line each, with what to do."""
    return [f"> ⚠ {quoted(one.says)}{f' **{quoted(one.todo)}**' if one.todo else ''}  " for one in found]
