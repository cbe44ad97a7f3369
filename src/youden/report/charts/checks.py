"""Figures that support or question a ranking: difficulty, curl, false positives, held-out cells, labels, variance."""

from __future__ import annotations

from collections.abc import Iterator

import altair as alt
import numpy as np
from scipy.special import expit

from youden.report.charts.marks import (
    GROUP_COLOURS,
    SCORE,
    Figure,
    Frame,
    answers,
    coloured,
    dashed_line,
    frame_chart,
    tooltips,
)
from youden.report.data.report import ReportData
from youden.text.printable import printable

MAX_ITEMS = 2_000
"""Number of items drawn in the figure of difficulties."""
MAX_AGENTS = 40
"""Number of agents in the figure of false positives."""


def difficulty(data: ReportData) -> Iterator[Figure]:
    """Draw items sorted by difficulty, evenly thinned out in a large run."""
    known = [line for line in data.items.ordered if line.difficulty is not None]
    if not known:
        return
    step = -(-len(known) // MAX_ITEMS)
    places = list(range(1, len(known) + 1, step))
    frame = Frame.of_rows(known[::step], place=places, item="item", difficulty="difficulty", trials="n_trials")
    chart = frame_chart().mark_point(size=18, filled=True, opacity=0.8, color=GROUP_COLOURS[0])
    chart = chart.encode(
        x=alt.X("place:Q", title="items, easiest to hardest", scale=alt.Scale(zero=False, nice=False, padding=8)),
        y=alt.Y("difficulty:Q", title="difficulty (score units)"),
        tooltip=tooltips("item:N", "difficulty:Q .3f", "trials:Q ,"),
    )
    note = "Score units; 0 is the average item, +.1 costs every agent a tenth of a point."
    note += f" One item in {step} is drawn; items.csv has all." if step > 1 else ""
    source = f"items.csv, {answers(data.summary)}"
    yield Figure("difficulty", "Difficulty of items", note, source, chart, frame=frame, height=220)


def curl(data: ReportData) -> Iterator[Figure]:
    """Draw the distribution of |Δ| on each link, raw and per SD of the transformed scores."""
    source = f"scores.csv, {data.summary.rectangles}, {answers(data.summary)}"
    for scaled in (False, True):
        curves = [curve for curve in data.curl if not scaled or curve.sd > 0]
        if not curves:
            continue
        frame = Frame.of(
            link=[curve.link for curve in curves for _ in curve.x],
            x=np.concatenate([curve.x / (curve.sd if scaled else 1) for curve in curves]),
            share=np.concatenate([curve.share for curve in curves]),
        )
        unit = "|Δ| per SD of the transformed scores" if scaled else "|Δ| in the link's own unit"
        chart = frame_chart().mark_line(strokeWidth=2.5)
        chart = chart.encode(
            x=alt.X("x:Q", title=unit),
            y=alt.Y("share:Q", title="share of rectangles", axis=alt.Axis(format="%")),
            color=coloured("link", "link"),
            strokeDash=alt.StrokeDash("link:N", title="link"),
            tooltip=tooltips("link:N", "x:Q .3f", "share:Q .1%"),
        )
        if scaled:
            slug, title = "curl-scaled", "Curl on each link, scale-free"
            note = "Links compare on this scale: the further left a line, the more additive the scores."
        else:
            slug, title = "curl", "Curl on each link, raw"
            note = "Lines of different links do not compare here: links stretch the scale."
        yield Figure(slug, title, note, source, chart, frame=frame, height=240)


def alarms(data: ReportData) -> Iterator[Figure]:
    """Draw agents' false-positive rates with simultaneous intervals, highest first."""
    if not data.alarms:
        return
    lines = data.alarms[:MAX_AGENTS]
    alarm = ["alarm" if line.alarmed else "no alarm" for line in lines]
    frame = Frame.of_rows(lines, "agent", "rate", "low", "high", "n", yes="n_yes", alarm=alarm)
    base = frame_chart().encode(
        y=alt.Y("agent:N", sort=None, title=None, axis=alt.Axis(labelLimit=170)),
        color=coloured("alarm", domain=["no alarm", "alarm"]),
        tooltip=tooltips("agent:N", "yes:Q", "n:Q", "low:Q .1%", "high:Q .1%"),
    )
    x = alt.X("low:Q", title="yes-answers among independent trials", axis=alt.Axis(format="%"))
    chart = base.mark_rule(strokeWidth=2).encode(x=x, x2=alt.X2("high:Q"))
    chart += base.mark_point(filled=True, size=60, opacity=1).encode(x=alt.X("rate:Q"))
    left_out = f" The {MAX_AGENTS} highest of {len(data.alarms)} rates." if len(lines) < len(data.alarms) else ""
    note = (
        "Share of yes-answers when the two responses come from different items; exact intervals that hold for all agents at once "
        f"with 95 %. Alarm: a warning above names the agent, alone or in a pair, for it gets more than twice the yeses of all "
        f"others and more than chance allows.{left_out}"
    )
    source, height = f"verdicts.parquet, {answers(data.summary)}", 30 + 15 * len(lines)
    yield Figure("alarms", "False-positive rate of each agent", note, source, chart, frame=frame, height=height)


def holdout(data: ReportData) -> Iterator[Figure]:
    """Draw predicted against observed scores of held-out cells."""
    points = data.holdout
    if points is None:
        return
    frame, scale = Frame.of(predicted=points.predicted, observed=points.observed), alt.Scale(zero=False, nice=True)
    dots = frame_chart().mark_point(size=16, filled=True, opacity=0.75, color=GROUP_COLOURS[0])
    dots = dots.encode(
        x=alt.X("predicted:Q", title=f"predicted {SCORE}", scale=scale),
        y=alt.Y("observed:Q", title=f"observed {SCORE}", scale=scale),
        tooltip=tooltips("predicted:Q .3f", "observed:Q .3f"),
    )
    ends = [float(end(np.append(points.predicted, points.observed))) for end in (np.min, np.max)]
    line = dashed_line("predicted", "observed", [(end, end) for end in ends])
    shown = len(points.predicted)
    note = "Cells drawn before anything was scored; on the dashed line the prediction is exact."
    note += "" if shown == points.n_cells else f" {shown:,} of {points.n_cells:,} cells drawn."
    source, title = f"holdout.csv and the fit, {answers(data.summary)}", "Held-out cells: predicted against observed"
    yield Figure("holdout", title, note, source, dots + line, frame=frame, height=300)


def quality(data: ReportData) -> Iterator[Figure]:
    """Draw agents' label means and quality intervals against ability, with the regression line."""
    facts = data.summary.quality
    if facts is None:
        return
    ability = {agent.agent: agent.ability for agent in data.summary.ranking if agent.ability is not None}
    rows = [row for row in facts.agents if row.agent in ability]
    frame = Frame.of_rows(
        rows,
        agent="agent",
        ability=[ability[row.agent] for row in rows],
        label_mean="label_mean",
        quality="quality",
        low="low",
        high="high",
        labels="n_labels",
        stands=["off the line" if row.off_line else "on the line" for row in rows],
    )
    numbers = (f"{name}:Q .3f" for name in ("ability", "label_mean", "quality", "low", "high"))
    base = frame_chart().encode(
        x=alt.X("ability:Q", title=f"ability, {SCORE}", scale=alt.Scale(zero=False, nice=False, padding=12)),
        color=coloured("stands", domain=["on the line", "off the line"]),
        tooltip=tooltips("agent:N", *numbers, "labels:Q ,"),
    )
    mean = alt.Y("label_mean:Q")
    y = alt.Y("low:Q", title=f"label ({printable(facts.label)})", scale=alt.Scale(domain=list(facts.scale)))
    outliers = base.transform_filter("datum.stands == 'off the line'").mark_text(align="left", dx=7, limit=170)
    chart = base.mark_rule(opacity=0.45).encode(y=y, y2=alt.Y2("high:Q"))
    chart += base.mark_point(filled=True, size=45, opacity=1).encode(y=mean)
    chart += outliers.encode(y=mean, text=alt.Text("agent:N"))
    if facts.line is not None:
        known, (low, high) = np.array(list(ability.values())), facts.scale
        x = np.linspace(known.min(), known.max(), 41)
        z = (x - known.mean()) / (known.std() or 1.0)
        expected = low + (high - low) * expit(facts.line.intercept + facts.line.slope * z)
        chart += dashed_line("ability", "label_mean", list(zip(x.tolist(), expected.tolist(), strict=True)))
    note = (
        f"Dot: the mean of an agent's labels; bar: the {facts.level:.0%} interval of its quality, by labels and ability. "
        "A bar alone: no labels. Dashed: what ability lets one expect. Named: agents off that line, to be read."
    )
    source = f"quality.json, {facts.n_labels:,} labelled answers"
    yield Figure("quality", "Label means against ability", note, source, chart, frame=frame, height=300)


def moves(data: ReportData) -> Iterator[Figure]:
    """Draw the variance components of an ability as bars with intervals."""
    facts = data.summary.moves
    if facts is None:
        return
    known = [(part, part.of_ability) for part in facts.parts if part.of_ability is not None]
    frame = Frame.of(
        part=[part.name for part, _ in known],
        **{end: [max(getattr(value, end), 0.0) ** 0.5 for _, value in known] for end in ("value", "low", "high")},
        counts=["in the interval" if part.in_interval else "not in it" for part, _ in known],
    )
    base = frame_chart().encode(
        y=alt.Y("part:N", sort=None, title=None, axis=alt.Axis(labelLimit=240)),
        tooltip=tooltips("part:N", "value:Q .4f", "low:Q .4f", "high:Q .4f"),
    )
    x = alt.X("value:Q", title=["standard deviation in an ability", SCORE])
    chart = base.mark_bar().encode(x=x, color=coloured("counts", domain=["in the interval", "not in it"]))
    chart += base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"))
    note = "Bar: what a part alone would move an agent's distance from the average by; line: its 95 % interval."
    source, height = f"moves.json, {answers(data.summary)}", 30 + 26 * len(known)
    yield Figure("moves", "What moves an ability", note, source, chart, frame=frame, height=height)
