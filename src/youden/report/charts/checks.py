"""Draw the figures that support or question a ranking: difficulty, curl, false positives, holdout, labels, variance.

Each function yields its figures, and none if the run lacks the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import altair as alt
import numpy as np

from youden.report.charts.marks import (
    GROUP_COLORS,
    SCORE,
    Figure,
    Frame,
    color_by,
    format_n_answers,
    make_chart,
    make_dashed_line,
    make_tooltips,
)
from youden.report.data.grids import HoldoutPoints
from youden.report.data.ranking_tables import RankedAgent
from youden.report.data.report import ReportData
from youden.text.printable import printable
from youden.types.label_facts import QualityFacts
from youden.types.pool import Floats
from youden.types.results import CurlCurve

MAX_ITEMS = 2_000
"""Maximum number of items in the figure of difficulties."""
MAX_AGENTS = 40
"""Maximum number of agents in the figure of false positives."""


def draw_difficulty(data: ReportData) -> Iterator[Figure]:
    """Draw the difficulties of the items of a run, easiest item first.

    If a run has more than `MAX_ITEMS` items, every n-th item is drawn. Yields nothing if no item has a difficulty.
    """
    items = [item for item in data.items.ordered if item.difficulty is not None]
    if not items:
        return

    step = math.ceil(len(items) / MAX_ITEMS)  # 1 draws all items
    drawn_items = items[::step]
    positions = list(range(1, len(items) + 1, step))
    frame = Frame.from_rows(drawn_items, position=positions, item="item", difficulty="difficulty", trials="n_trials")

    note = "Score units; 0 is the average item, +.1 costs every agent a tenth of a point."
    if step > 1:
        note += f" One item in {step} is drawn; items.csv has all."
    source = f"items.csv, {format_n_answers(data.summary)}"
    chart = _make_difficulty_chart()
    yield Figure("difficulty", "Difficulty of items", note, source, chart, frame=frame, height=220)


def _make_difficulty_chart() -> alt.Chart:
    """Make the chart of the difficulties of items, without its data: one dot per item, from the easiest item to the hardest."""
    position_scale = alt.Scale(zero=False, nice=False, padding=8)
    dots = make_chart().mark_point(size=18, filled=True, opacity=0.8, color=GROUP_COLORS[0])
    chart: alt.Chart = dots.encode(
        x=alt.X("position:Q", title="items, easiest to hardest", scale=position_scale),
        y=alt.Y("difficulty:Q", title="difficulty (score units)"),
        tooltip=make_tooltips("item:N", "difficulty:Q .3f", "trials:Q ,"),
    )
    return chart


def draw_curl(data: ReportData) -> Iterator[Figure]:
    """Draw the distribution of curl, the deviation of scores from the additive model, with one line per link function.

    The curl of agents i, l on items j, k is |s_ij − s_ik − s_lj + s_lk|. The scores s are transformed by the link function.

    Yields a figure of raw values, and a figure of values per standard deviation of the transformed scores, if this is not 0.
    Yields nothing if the run has no curl.
    """
    curves = data.curl
    if curves:
        yield _draw_curl_figure(
            data,
            curves,
            [curve.x for curve in curves],
            name="curl",
            title="Curl on each link, raw",
            axis_title="|Δ| in the link's own unit",
            note="Lines of different links cannot be compared here, because each link has its own scale.",
        )

    varying_curves = [curve for curve in curves if curve.sd > 0]
    if varying_curves:
        yield _draw_curl_figure(
            data,
            varying_curves,
            [curve.x / curve.sd for curve in varying_curves],
            name="curl-scaled",
            title="Curl on each link, scale-free",
            axis_title="|Δ| per SD of the transformed scores",
            note="Links can be compared on this scale: the further left a line, the more additive the scores.",
        )


def _draw_curl_figure(
    data: ReportData,
    curves: Sequence[CurlCurve],
    values: Sequence[Floats],
    *,
    name: str,
    title: str,
    axis_title: str,
    note: str,
) -> Figure:
    """Draw one curve per link function: the share of rectangles (two agents, two items) whose curl is at most a value.

    curves : distribution function of the curl by link function
    values : one float array (n_points,) per curve, the curl at its points
    name : name of the figure in commands and file names
    title, note : text above and below the figure
    axis_title : title of the horizontal axis, the curl with its unit
    """
    frame = Frame.from_columns(
        link=[curve.link for curve in curves for _ in curve.x],
        x=np.concatenate(values),
        share=np.concatenate([curve.share for curve in curves]),
    )
    chart = make_chart().mark_line(strokeWidth=2.5)
    chart = chart.encode(
        x=alt.X("x:Q", title=axis_title),
        y=alt.Y("share:Q", title="share of rectangles", axis=alt.Axis(format="%")),
        color=color_by("link", "link"),
        strokeDash=alt.StrokeDash("link:N", title="link"),
        tooltip=make_tooltips("link:N", "x:Q .3f", "share:Q .1%"),
    )
    source = f"scores.csv, {data.summary.rectangles}, {format_n_answers(data.summary)}"
    return Figure(name, title, note, source, chart, frame=frame, height=240)


def draw_false_positive_rates(data: ReportData) -> Iterator[Figure]:
    """Draw the false-positive rates of agents with simultaneous confidence intervals, highest rate first.

    Agents with an alarm have another color: their rate is much higher than the rates of other agents. The rates are estimated
    from independent trials, which compare responses to different items. Yields nothing if the run has no independent trials.
    """
    if not data.alarms:
        return

    rates = data.alarms[:MAX_AGENTS]  # the highest ones
    alarm_labels = ["alarm" if rate.alarmed else "no alarm" for rate in rates]
    frame = Frame.from_rows(rates, "agent", "rate", "low", "high", "n", yes="n_yes", alarm=alarm_labels)
    note = (
        "Fraction of yes-answers if the two responses answer different items, with exact intervals that cover the rates of all "
        "agents simultaneously with 95%. Alarm: a warning above names the agent, alone or in a pair, because its rate is more "
        "than twice that of all others and higher than chance explains."
    )
    if len(rates) < len(data.alarms):
        note += f" The {MAX_AGENTS} highest of {len(data.alarms)} rates."
    source = f"verdicts.parquet, {format_n_answers(data.summary)}"
    title = "False-positive rate of each agent"
    height = 30 + 15 * len(rates)
    yield Figure("alarms", title, note, source, _make_rate_chart(), frame=frame, height=height)


def _make_rate_chart() -> alt.LayerChart:
    """Make the chart of the false-positive rates of agents, without its data.

    Each agent has a dot at its rate, the fraction of yes-answers among independent trials, and a line for its confidence
    interval. The color distinguishes agents with an alarm.
    """
    base = make_chart().encode(
        y=alt.Y("agent:N", sort=None, title=None, axis=alt.Axis(labelLimit=170)),
        color=color_by("alarm", domain=["no alarm", "alarm"]),
        tooltip=make_tooltips("agent:N", "yes:Q", "n:Q", "low:Q .1%", "high:Q .1%"),
    )
    interval_start = alt.X("low:Q", title="yes-answers among independent trials", axis=alt.Axis(format="%"))
    intervals = base.mark_rule(strokeWidth=2).encode(x=interval_start, x2=alt.X2("high:Q"))
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(x=alt.X("rate:Q"))
    chart: alt.LayerChart = intervals + dots
    return chart


def draw_holdout(data: ReportData) -> Iterator[Figure]:
    """Draw the predicted score of each held-out cell (an agent on an item) against its observed score.

    Yields nothing if the run has no held-out cells.
    """
    points = data.holdout
    if points is None:
        return

    frame = Frame.from_columns(predicted=points.predicted, observed=points.observed)
    n_points = len(points.predicted)
    note = "Cells that were selected before anything was scored; on the dashed line the prediction is exact."
    if n_points != points.n_cells:
        note += f" {n_points:,} of {points.n_cells:,} cells drawn."
    source = f"holdout.csv and the fit, {format_n_answers(data.summary)}"
    title = "Held-out cells: predicted against observed"
    yield Figure("holdout", title, note, source, _make_holdout_chart(points), frame=frame, height=300)


def _make_holdout_chart(points: HoldoutPoints) -> alt.LayerChart:
    """Make the chart of the observed scores of held-out cells against the scores that the fit predicts.

    A cell is an agent on an item; a held-out cell is not used in the fit. Each cell has a dot. A dashed diagonal line
    connects the points at which the prediction equals the observation.

    points : predicted and observed scores, which determine the ends of the dashed line
    """
    scale = alt.Scale(zero=False, nice=True)
    points_of_cells = make_chart().mark_point(size=16, filled=True, opacity=0.75, color=GROUP_COLORS[0])
    dots = points_of_cells.encode(
        x=alt.X("predicted:Q", title=f"predicted {SCORE}", scale=scale),
        y=alt.Y("observed:Q", title=f"observed {SCORE}", scale=scale),
        tooltip=make_tooltips("predicted:Q .3f", "observed:Q .3f"),
    )

    # the dashed line spans the range of all scores
    scores = np.append(points.predicted, points.observed)
    lowest, highest = float(np.min(scores)), float(np.max(scores))
    diagonal = make_dashed_line("predicted", "observed", [(lowest, lowest), (highest, highest)])
    chart: alt.LayerChart = dots + diagonal
    return chart


def draw_quality(data: ReportData) -> Iterator[Figure]:
    """Draw the labels of each agent against its ability.

    Labels are ratings of some responses, for example by people. A dashed line shows the label that is predicted from the ability
    alone. Yields nothing if no quality was estimated.
    """
    quality = data.summary.quality
    if quality is None:
        return

    chart = _make_quality_chart(quality)
    if quality.regression is not None:
        chart += _make_prediction_line(quality.regression.curve, quality.scale)
    note = (
        f"Dot: mean label of an agent; bar: {quality.level:.0%} interval of its quality, from labels and ability. A bar "
        "without a dot: no labels. Dashed: quality predicted from ability. Agents that deviate from the line are named, and "
        "worth reading."
    )
    source = f"quality.json, {quality.n_labels:,} labeled answers"
    frame = _make_quality_frame(quality, data.summary.ranking)
    yield Figure("quality", "Label means against ability", note, source, chart, frame=frame, height=300)


def _make_quality_frame(quality: QualityFacts, ranking: Sequence[RankedAgent]) -> Frame:
    """Make the data of the figure of the labels: one row per agent that has an estimated quality and an ability."""
    ability_by_agent = {row.agent: row.ability for row in ranking if row.ability is not None}
    agents = [row for row in quality.agents if row.agent in ability_by_agent]
    return Frame.from_rows(
        agents,
        agent="agent",
        ability=[ability_by_agent[row.agent] for row in agents],
        label_mean="label_mean",
        quality="quality",
        low="low",
        high="high",
        labels="n_labels",
        kind=["outlier" if row.outlier else "no outlier" for row in agents],
    )


def _make_prediction_line(curve: Sequence[tuple[float, float]], label_scale: tuple[float, float]) -> alt.Chart:
    """Make the dashed line of the labels that are predicted from ability.

    curve : points (ability, predicted quality). The quality is a fraction of the scale of the label, from 0 to 1.
    label_scale : the lowest and the highest possible label
    """
    lowest_label, highest_label = label_scale
    label_range = highest_label - lowest_label
    points = [(ability, lowest_label + label_range * quality) for ability, quality in curve]
    return make_dashed_line("ability", "label_mean", points)


def _make_quality_chart(facts: QualityFacts) -> alt.LayerChart:
    """Make the chart of the labels of agents against their abilities, without its data.

    Each agent has a dot at the mean of its labels, and a line for the interval of its quality: its expected label, estimated from
    labels and ability. Outliers, whose labels differ much from the prediction by ability, are named.

    facts : estimates of quality, with the name and the scale of the label
    """
    decimal_tooltips = [f"{name}:Q .3f" for name in ("ability", "label_mean", "quality", "low", "high")]
    ability_scale = alt.Scale(zero=False, nice=False, padding=12)
    base = make_chart().encode(
        x=alt.X("ability:Q", title=f"ability, {SCORE}", scale=ability_scale),
        color=color_by("kind", domain=["no outlier", "outlier"]),
        tooltip=make_tooltips("agent:N", *decimal_tooltips, "labels:Q ,"),
    )

    label_title = f"label ({printable(facts.label)})"
    label_scale = alt.Scale(domain=list(facts.scale))
    low = alt.Y("low:Q", title=label_title, scale=label_scale)
    intervals = base.mark_rule(opacity=0.45).encode(y=low, y2=alt.Y2("high:Q"))
    label_mean = alt.Y("label_mean:Q")
    dots = base.mark_point(filled=True, size=45, opacity=1).encode(y=label_mean)

    outliers = base.transform_filter("datum.kind == 'outlier'").mark_text(align="left", dx=7, limit=170)
    outlier_names = outliers.encode(y=label_mean, text=alt.Text("agent:N"))
    chart: alt.LayerChart = intervals + dots + outlier_names
    return chart


def draw_variance_components(data: ReportData) -> Iterator[Figure]:
    """Draw a bar and an interval for each source of variance of an ability, as standard deviations in score units.

    Yields nothing if the variance components were not estimated.
    """
    variance_facts = data.summary.variance
    if variance_facts is None:
        return

    components = []
    variances = []
    for component in variance_facts.components:
        if component.ability_variance is not None:
            components.append(component)
            variances.append(component.ability_variance)
    frame = Frame.from_columns(
        part=[component.name for component in components],
        value=[_standard_deviation(variance.value) for variance in variances],
        low=[_standard_deviation(variance.low) for variance in variances],
        high=[_standard_deviation(variance.high) for variance in variances],
        included=["in the interval" if component.in_interval else "not in it" for component in components],
    )
    title = "Variance components of an ability"
    note = (
        "Bar: standard deviation of an agent's distance from the average by this source alone; line: its 95% interval."
    )
    source = f"variance_components.json, {format_n_answers(data.summary)}"
    height = 30 + 26 * len(components)
    yield Figure("variance", title, note, source, _make_component_chart(), frame=frame, height=height)


def _make_component_chart() -> alt.LayerChart:
    """Make the chart of the variance components of an ability, without its data.

    A component is the part of the variance that has one source, such as the choice of items. It has a bar for its standard
    deviation, and a line for the confidence interval. The color states whether the interval of the ability includes the
    component.
    """
    base = make_chart().encode(
        y=alt.Y("part:N", sort=None, title=None, axis=alt.Axis(labelLimit=240)),
        tooltip=make_tooltips("part:N", "value:Q .4f", "low:Q .4f", "high:Q .4f"),
    )
    bars = base.mark_bar().encode(
        x=alt.X("value:Q", title=["standard deviation in an ability", SCORE]),
        color=color_by("included", domain=["in the interval", "not in it"]),
    )
    intervals = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"))
    chart: alt.LayerChart = bars + intervals
    return chart


def _standard_deviation(variance: float) -> float:
    """Return the square root of an estimated variance; 0 for a negative estimate."""
    return math.sqrt(max(variance, 0.0))
