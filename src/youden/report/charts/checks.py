"""Figures that speak for or against a ranking, written with Altair: difficulty, curl, false alarms, held-out cells, labels."""

from __future__ import annotations

from collections.abc import Iterator

import altair as alt
import numpy as np
from scipy.special import expit

from youden.report.charts.marks import GROUP_COLOURS, SCORE, Figure, Frame, answers, frame_chart, sized, told
from youden.report.data.report import ReportData
from youden.text.printable import printable

MAX_ITEMS = 2_000
"""Items drawn at most by their difficulty."""

MAX_AGENTS = 40
"""False-positive rates drawn at most."""


def difficulty(data: ReportData) -> Iterator[Figure]:
    """Every item by its difficulty."""
    known = [line for line in data.items.ordered if line.difficulty is not None]
    if not known:
        return
    every = -(-len(known) // MAX_ITEMS)
    shown = known[::every]
    frame = Frame.of(
        place=list(range(1, len(known) + 1, every)),
        item=[line.item for line in shown],
        difficulty=[line.difficulty for line in shown],
        trials=[line.n_trials for line in shown],
    )
    spec = (
        frame_chart()
        .mark_point(size=18, filled=True, opacity=0.8, color=GROUP_COLOURS[0])
        .encode(
            x=alt.X("place:Q", title="items, easiest to hardest", scale=alt.Scale(zero=False, nice=False, padding=8)),
            y=alt.Y("difficulty:Q", title="difficulty (score units)"),
            tooltip=told("item:N", "difficulty:Q .3f", "trials:Q ,"),
        )
    )
    yield Figure(
        "difficulty",
        "Difficulty of items",
        "Score units; 0 is the average item, +.1 costs every agent a tenth of a point."
        + (f" One item in {every} is drawn; items.csv has all." if every > 1 else ""),
        f"items.csv, {answers(data.summary)}",
        sized(spec, 220),
        frame,
    )


def curl(data: ReportData) -> Iterator[Figure]:
    """The distribution of the curl, raw and scale-free."""
    if not data.curl:
        return
    for slug, title, unit, scaled in (
        ("curl", "Curl on each link, raw", "|Δ| in the link's own unit", False),
        ("curl-scaled", "Curl on each link, scale-free", "|Δ| per SD of the transformed scores", True),
    ):
        curves = [curve for curve in data.curl if not scaled or curve.sd > 0]
        if not curves:
            continue
        frame = Frame.of(
            link=[curve.link for curve in curves for _ in curve.x],
            x=np.concatenate([curve.x / (curve.sd if scaled else 1) for curve in curves]),
            share=np.concatenate([curve.share for curve in curves]),
        )
        spec = (
            frame_chart()
            .mark_line(strokeWidth=2.5)
            .encode(
                x=alt.X("x:Q", title=unit),
                y=alt.Y("share:Q", title="share of rectangles", axis=alt.Axis(format="%")),
                color=alt.Color("link:N", title="link", scale=alt.Scale(range=GROUP_COLOURS)),
                strokeDash=alt.StrokeDash("link:N", title="link"),
                tooltip=told("link:N", "x:Q .3f", "share:Q .1%"),
            )
        )
        note = (
            "Links compare on this scale: the further left a line, the more additive the scores."
            if scaled
            else "Lines of different links do not compare here: links stretch the scale."
        )
        yield Figure(
            slug,
            title,
            note,
            f"scores.csv, {data.summary.rectangles}, {answers(data.summary)}",
            sized(spec, 240),
            frame,
        )


def alarms(data: ReportData) -> Iterator[Figure]:
    """False-positive rates by agent."""
    if not data.alarms:
        return
    lines = data.alarms[:MAX_AGENTS]
    left_out = f" The {MAX_AGENTS} highest of {len(data.alarms)} rates." if len(lines) < len(data.alarms) else ""
    frame = Frame.of(
        agent=[line.agent for line in lines],
        rate=[line.rate for line in lines],
        low=[line.low for line in lines],
        high=[line.high for line in lines],
        n=[line.n for line in lines],
        yes=[line.n_yes for line in lines],
        alarm=["alarm" if line.alarmed else "no alarm" for line in lines],
    )
    base = frame_chart().encode(
        y=alt.Y("agent:N", sort=None, title=None, axis=alt.Axis(labelLimit=170)),
        color=alt.Color("alarm:N", title=None, scale=alt.Scale(domain=["no alarm", "alarm"], range=GROUP_COLOURS[:2])),
        tooltip=told("agent:N", "yes:Q", "n:Q", "low:Q .1%", "high:Q .1%"),
    )
    interval = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title="yes-answers among independent trials", axis=alt.Axis(format="%")), x2=alt.X2("high:Q")
    )
    spec = interval + base.mark_point(filled=True, size=60, opacity=1).encode(x=alt.X("rate:Q"))
    yield Figure(
        "alarms",
        "False-positive rate of each agent",
        "Share of yes-answers when the two responses come from different items; exact intervals that hold for all agents at once "
        f"with 95 %. Alarm: a warning above names the agent, alone or in a pair, for it gets more than twice the yeses of all "
        f"others and more than chance allows.{left_out}",
        f"verdicts.parquet, {answers(data.summary)}",
        sized(spec, 30 + 15 * len(lines)),
        frame,
    )


def holdout(data: ReportData) -> Iterator[Figure]:
    """Predictions of held-out cells."""
    points = data.holdout
    if points is None:
        return
    frame = Frame.of(predicted=points.predicted, observed=points.observed)
    scale = alt.Scale(zero=False, nice=True)
    dots = (
        frame_chart()
        .mark_point(size=16, filled=True, opacity=0.75, color=GROUP_COLOURS[0])
        .encode(
            x=alt.X("predicted:Q", title=f"predicted {SCORE}", scale=scale),
            y=alt.Y("observed:Q", title=f"observed {SCORE}", scale=scale),
            tooltip=told("predicted:Q .3f", "observed:Q .3f"),
        )
    )
    ends = [float(np.min([points.predicted, points.observed])), float(np.max([points.predicted, points.observed]))]
    line = (
        alt.Chart(alt.InlineData(values=[{"predicted": end, "observed": end} for end in ends]))
        .mark_line(strokeDash=[5, 4], color="#888888")
        .encode(x=alt.X("predicted:Q"), y=alt.Y("observed:Q"))
    )
    shown = len(points.predicted)
    drawn = "" if shown == points.n_cells else f" {shown:,} of {points.n_cells:,} cells drawn."
    yield Figure(
        "holdout",
        "Held-out cells: predicted against observed",
        f"Cells drawn before anything was scored; on the dashed line the prediction is exact.{drawn}",
        f"holdout.csv and the fit, {answers(data.summary)}",
        sized(dots + line, 300),
        frame,
    )


def quality(data: ReportData) -> Iterator[Figure]:
    """Label means against ability, with the line through them."""
    found = data.summary.quality
    if found is None:
        return
    ability = {agent.agent: agent.ability for agent in data.summary.ranking if agent.ability is not None}
    rows = [row for row in found.agents if row.agent in ability]
    frame = Frame.of(
        agent=[row.agent for row in rows],
        ability=[ability[row.agent] for row in rows],
        label_mean=[row.label_mean for row in rows],
        quality=[row.quality for row in rows],
        low=[row.low for row in rows],
        high=[row.high for row in rows],
        labels=[row.n_labels for row in rows],
        stands=["off the line" if row.off_line else "on the line" for row in rows],
    )
    colours = alt.Scale(domain=["on the line", "off the line"], range=GROUP_COLOURS[:2])
    base = frame_chart().encode(
        x=alt.X("ability:Q", title=f"ability, {SCORE}", scale=alt.Scale(zero=False, nice=False, padding=12)),
        color=alt.Color("stands:N", title=None, scale=colours),
        tooltip=told(
            "agent:N", *(f"{name}:Q .3f" for name in ("ability", "label_mean", "quality", "low", "high")), "labels:Q ,"
        ),
    )
    mean = alt.Y("label_mean:Q")
    intervals = base.mark_rule(opacity=0.45).encode(
        y=alt.Y("low:Q", title=f"label ({printable(found.label)})", scale=alt.Scale(domain=list(found.scale))),
        y2=alt.Y2("high:Q"),
    )
    named = base.transform_filter("datum.stands == 'off the line'").mark_text(align="left", dx=7, limit=170)
    spec = intervals + base.mark_point(filled=True, size=45, opacity=1).encode(y=mean)
    spec += named.encode(y=mean, text=alt.Text("agent:N"))
    if found.line is not None:
        known, (low, high) = np.array(list(ability.values())), found.scale
        x = np.linspace(known.min(), known.max(), 41)
        z = (x - known.mean()) / (known.std() or 1.0)
        y = low + (high - low) * expit(found.line.intercept + found.line.slope * z)
        ends = [{"ability": one, "label_mean": other} for one, other in zip(x.tolist(), y.tolist(), strict=True)]
        line = alt.Chart(alt.InlineData(values=ends)).mark_line(strokeDash=[5, 4], color="#888888")
        spec += line.encode(x=alt.X("ability:Q"), y=mean)
    yield Figure(
        "quality",
        "Label means against ability",
        f"Dot: the mean of an agent's labels; bar: the {found.level:.0%} interval of its quality, by labels and ability. "
        "A bar alone: no labels. Dashed: what ability lets one expect. Named: agents off that line, to be read.",
        f"quality.json, {found.n_labels:,} labelled answers",
        sized(spec, 300),
        frame,
    )


def moves(data: ReportData) -> Iterator[Figure]:
    """What moves an ability, a bar a part that was measured."""
    found = data.summary.moves
    if found is None:
        return
    known = [(part, part.of_ability) for part in found.parts if part.of_ability is not None]
    frame = Frame.of(
        part=[part.name for part, _ in known],
        **{end: [max(getattr(of, end), 0.0) ** 0.5 for _, of in known] for end in ("value", "low", "high")},
        counts=["in the interval" if part.in_interval else "not in it" for part, _ in known],
    )
    colours = alt.Scale(domain=["in the interval", "not in it"], range=GROUP_COLOURS[:2])
    base = frame_chart().encode(
        y=alt.Y("part:N", sort=None, title=None, axis=alt.Axis(labelLimit=240)),
        tooltip=told("part:N", "value:Q .4f", "low:Q .4f", "high:Q .4f"),
    )
    x = alt.X("value:Q", title=["standard deviation in an ability", SCORE])
    spec = base.mark_bar().encode(x=x, color=alt.Color("counts:N", title=None, scale=colours))
    spec += base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"))
    yield Figure(
        "moves",
        "What moves an ability",
        "Bar: what a part alone would move an agent's distance from the average by; line: its 95 % interval.",
        f"moves.json, {answers(data.summary)}",
        sized(spec, 30 + 26 * len(known)),
        frame,
    )
