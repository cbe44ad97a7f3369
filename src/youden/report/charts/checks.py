"""Draw the figures that support or question a ranking: difficulty, curl, false positives, holdout, labels, variance.

Each function yields its figures, and none if the run lacks the data.
"""

from __future__ import annotations

from collections.abc import Iterator

import altair as alt
import numpy as np

from youden.report.charts.marks import (
    GROUP_COLOURS,
    SCORE,
    Figure,
    Frame,
    color_by,
    format_n_answers,
    make_chart,
    make_dashed_line,
    make_tooltips,
)
from youden.report.data.report import ReportData
from youden.text.printable import printable

MAX_ITEMS = 2_000
"""Maximum number of items in the figure of difficulties."""
MAX_AGENTS = 40
"""Maximum number of agents in the figure of false positives."""


def draw_difficulty(data: ReportData) -> Iterator[Figure]:
    """Draw the items by difficulty, easiest first. Of many items, every n-th is drawn."""
    lines = [line for line in data.items.ordered if line.difficulty is not None]
    if not lines:
        return
    step = -(-len(lines) // MAX_ITEMS)
    positions = list(range(1, len(lines) + 1, step))
    frame = Frame.from_rows(lines[::step], position=positions, item="item", difficulty="difficulty", trials="n_trials")
    chart = make_chart().mark_point(size=18, filled=True, opacity=0.8, color=GROUP_COLOURS[0])
    chart = chart.encode(
        x=alt.X("position:Q", title="items, easiest to hardest", scale=alt.Scale(zero=False, nice=False, padding=8)),
        y=alt.Y("difficulty:Q", title="difficulty (score units)"),
        tooltip=make_tooltips("item:N", "difficulty:Q .3f", "trials:Q ,"),
    )
    note = "Score units; 0 is the average item, +.1 costs every agent a tenth of a point."
    note += f" One item in {step} is drawn; items.csv has all." if step > 1 else ""
    source = f"items.csv, {format_n_answers(data.summary)}"
    yield Figure("difficulty", "Difficulty of items", note, source, chart, frame=frame, height=220)


def draw_curl(data: ReportData) -> Iterator[Figure]:
    """Draw the distribution of the curl |Δ| (the deviation of scores from additivity) on each link function.

    Yields a figure of raw values, and one of values per standard deviation of the transformed scores.
    """
    source = f"scores.csv, {data.summary.rectangles}, {format_n_answers(data.summary)}"
    for is_scaled in (False, True):
        curves = [curve for curve in data.curl if not is_scaled or curve.sd > 0]
        if not curves:
            continue
        frame = Frame.from_columns(
            link=[curve.link for curve in curves for _ in curve.x],
            x=np.concatenate([curve.x / (curve.sd if is_scaled else 1) for curve in curves]),
            share=np.concatenate([curve.share for curve in curves]),
        )
        unit = "|Δ| per SD of the transformed scores" if is_scaled else "|Δ| in the link's own unit"
        chart = make_chart().mark_line(strokeWidth=2.5)
        chart = chart.encode(
            x=alt.X("x:Q", title=unit),
            y=alt.Y("share:Q", title="share of rectangles", axis=alt.Axis(format="%")),
            color=color_by("link", "link"),
            strokeDash=alt.StrokeDash("link:N", title="link"),
            tooltip=make_tooltips("link:N", "x:Q .3f", "share:Q .1%"),
        )
        if is_scaled:
            slug, title = "curl-scaled", "Curl on each link, scale-free"
            note = "Links compare on this scale: the further left a line, the more additive the scores."
        else:
            slug, title = "curl", "Curl on each link, raw"
            note = "Lines of different links do not compare here: links stretch the scale."
        yield Figure(slug, title, note, source, chart, frame=frame, height=240)


def draw_false_alarms(data: ReportData) -> Iterator[Figure]:
    """Draw the false-positive rates of agents with simultaneous intervals, highest first."""
    if not data.alarms:
        return
    lines = data.alarms[:MAX_AGENTS]
    alarm = ["alarm" if line.alarmed else "no alarm" for line in lines]
    frame = Frame.from_rows(lines, "agent", "rate", "low", "high", "n", yes="n_yes", alarm=alarm)
    base = make_chart().encode(
        y=alt.Y("agent:N", sort=None, title=None, axis=alt.Axis(labelLimit=170)),
        color=color_by("alarm", domain=["no alarm", "alarm"]),
        tooltip=make_tooltips("agent:N", "yes:Q", "n:Q", "low:Q .1%", "high:Q .1%"),
    )
    x = alt.X("low:Q", title="yes-answers among independent trials", axis=alt.Axis(format="%"))
    chart = base.mark_rule(strokeWidth=2).encode(x=x, x2=alt.X2("high:Q"))
    chart += base.mark_point(filled=True, size=60, opacity=1).encode(x=alt.X("rate:Q"))
    omission = f" The {MAX_AGENTS} highest of {len(data.alarms)} rates." if len(lines) < len(data.alarms) else ""
    note = (
        "Fraction of yes-answers if the two responses answer different items, with exact intervals that cover the rates of all "
        "agents simultaneously with 95 %. Alarm: a warning above names the agent, alone or in a pair, because its rate is more "
        f"than twice that of all others and higher than chance explains.{omission}"
    )
    source = f"verdicts.parquet, {format_n_answers(data.summary)}"
    height = 30 + 15 * len(lines)
    yield Figure("alarms", "False-positive rate of each agent", note, source, chart, frame=frame, height=height)


def draw_holdout(data: ReportData) -> Iterator[Figure]:
    """Draw predicted against observed scores of held-out cells."""
    points = data.holdout
    if points is None:
        return
    frame = Frame.from_columns(predicted=points.predicted, observed=points.observed)
    scale = alt.Scale(zero=False, nice=True)
    dots = make_chart().mark_point(size=16, filled=True, opacity=0.75, color=GROUP_COLOURS[0])
    dots = dots.encode(
        x=alt.X("predicted:Q", title=f"predicted {SCORE}", scale=scale),
        y=alt.Y("observed:Q", title=f"observed {SCORE}", scale=scale),
        tooltip=make_tooltips("predicted:Q .3f", "observed:Q .3f"),
    )
    values = np.append(points.predicted, points.observed)
    low, high = float(np.min(values)), float(np.max(values))
    line = make_dashed_line("predicted", "observed", [(low, low), (high, high)])
    n_points = len(points.predicted)
    note = "Cells that were selected before anything was scored; on the dashed line the prediction is exact."
    note += "" if n_points == points.n_cells else f" {n_points:,} of {points.n_cells:,} cells drawn."
    source = f"holdout.csv and the fit, {format_n_answers(data.summary)}"
    title = "Held-out cells: predicted against observed"
    yield Figure("holdout", title, note, source, dots + line, frame=frame, height=300)


def draw_quality(data: ReportData) -> Iterator[Figure]:
    """Draw label means and quality intervals of agents against ability, with the regression line."""
    facts = data.summary.quality
    if facts is None:
        return
    ability = {agent.agent: agent.ability for agent in data.summary.ranking if agent.ability is not None}
    rows = [row for row in facts.agents if row.agent in ability]
    frame = Frame.from_rows(
        rows,
        agent="agent",
        ability=[ability[row.agent] for row in rows],
        label_mean="label_mean",
        quality="quality",
        low="low",
        high="high",
        labels="n_labels",
        kind=["outlier" if row.outlier else "no outlier" for row in rows],
    )
    numbers = (f"{name}:Q .3f" for name in ("ability", "label_mean", "quality", "low", "high"))
    base = make_chart().encode(
        x=alt.X("ability:Q", title=f"ability, {SCORE}", scale=alt.Scale(zero=False, nice=False, padding=12)),
        color=color_by("kind", domain=["no outlier", "outlier"]),
        tooltip=make_tooltips("agent:N", *numbers, "labels:Q ,"),
    )
    mean = alt.Y("label_mean:Q")
    y = alt.Y("low:Q", title=f"label ({printable(facts.label)})", scale=alt.Scale(domain=list(facts.scale)))
    outliers = base.transform_filter("datum.kind == 'outlier'").mark_text(align="left", dx=7, limit=170)
    chart = base.mark_rule(opacity=0.45).encode(y=y, y2=alt.Y2("high:Q"))
    chart += base.mark_point(filled=True, size=45, opacity=1).encode(y=mean)
    chart += outliers.encode(y=mean, text=alt.Text("agent:N"))
    if facts.regression is not None:
        low, high = facts.scale
        points = [(x, low + (high - low) * quality) for x, quality in facts.regression.curve]
        chart += make_dashed_line("ability", "label_mean", points)
    note = (
        f"Dot: mean label of an agent; bar: {facts.level:.0%} interval of its quality, from labels and ability. A bar without a "
        "dot: no labels. Dashed: quality predicted from ability. Agents that deviate from the line are named, and worth reading."
    )
    source = f"quality.json, {facts.n_labels:,} labelled answers"
    yield Figure("quality", "Label means against ability", note, source, chart, frame=frame, height=300)


def draw_variance_components(data: ReportData) -> Iterator[Figure]:
    """Draw the variance components of an ability as bars with intervals, in standard deviations."""
    facts = data.summary.variance
    if facts is None:
        return
    parts = [part for part in facts.parts if part.ability_variance is not None]
    components = [part.ability_variance for part in parts if part.ability_variance is not None]
    frame = Frame.from_columns(
        part=[part.name for part in parts],
        value=[max(component.value, 0.0) ** 0.5 for component in components],
        low=[max(component.low, 0.0) ** 0.5 for component in components],
        high=[max(component.high, 0.0) ** 0.5 for component in components],
        counts=["in the interval" if part.in_interval else "not in it" for part in parts],
    )
    base = make_chart().encode(
        y=alt.Y("part:N", sort=None, title=None, axis=alt.Axis(labelLimit=240)),
        tooltip=make_tooltips("part:N", "value:Q .4f", "low:Q .4f", "high:Q .4f"),
    )
    x = alt.X("value:Q", title=["standard deviation in an ability", SCORE])
    chart = base.mark_bar().encode(x=x, color=color_by("counts", domain=["in the interval", "not in it"]))
    chart += base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"))
    note = (
        "Bar: standard deviation of an agent's distance from the average by this source alone; line: its 95 % interval."
    )
    source = f"variance_components.json, {format_n_answers(data.summary)}"
    height = 30 + 26 * len(parts)
    yield Figure("variance", "Variance components of an ability", note, source, chart, frame=frame, height=height)
