"""Two rankings as a slope chart."""

from __future__ import annotations

import altair as alt

from youden.report.charts.frames import Frame
from youden.report.charts.marks import Figure, answers, by_group, frame_chart, ordered, sized
from youden.report.data.comparison import Comparison


def slope(data: Comparison) -> Figure:
    """One line an agent, from its place in the first ranking to its place in the second."""
    lines = data.lines
    runs = [f"1: {data.one.name}", f"2: {data.two.name}"]
    frame = Frame.of(
        agent=[line.agent for _ in runs for line in lines],
        group=[line.group or "no group" for _ in runs for line in lines],
        run=[run for run in runs for _ in lines],
        place=[line.one for line in lines] + [line.two for line in lines],
        places=[line.places_one for line in lines] + [line.places_two for line in lines],
        ability=[line.ability_one for line in lines] + [line.ability_two for line in lines],
        apart=["moved" if line.apart else "not told to move" for _ in runs for line in lines],
    )
    base = frame_chart().encode(
        x=alt.X("run:N", title=None, scale=ordered(runs), axis=alt.Axis(labelAngle=0, orient="top", labelLimit=200)),
        y=alt.Y(
            "place:Q",
            title="place",
            scale=alt.Scale(reverse=True, domain=[0.5, len(lines) + 0.5], nice=False),
            axis=alt.Axis(tickMinStep=1, grid=False),
        ),
        color=by_group(frame),
        tooltip=["agent:N", "group:N", "run:N", "places:N", alt.Tooltip("ability:Q", format=".3f"), "apart:N"],
    )
    drawn = base.mark_line(strokeWidth=2).encode(
        detail="agent:N",
        strokeDash=alt.StrokeDash(
            "apart:N", legend=None, scale=alt.Scale(domain=["moved", "not told to move"], range=[[1, 0], [4, 4]])
        ),
    )
    dots = base.mark_point(filled=True, size=50, opacity=1)
    left = base.transform_filter(alt.datum.run == frame.columns["run"][0]).mark_text(align="right", dx=-8, limit=84)
    right = base.transform_filter(alt.datum.run == frame.columns["run"][-1]).mark_text(align="left", dx=8, limit=84)
    spec = drawn + dots + left.encode(text="agent:N") + right.encode(text="agent:N")
    return Figure(
        "slope",
        "Places in both rankings",
        "One line an agent, from its place in the first ranking to its place in the second, among agents in both. Solid: its "
        "distance from the average agent, in SDs of each ranking, differs by more than its 95 % error; dashed: it does not.",
        f"ranking.csv of both runs, {answers(data.one)} and {answers(data.two)}",
        sized(spec.properties(height=max(200, 20 * len(lines)))),
        frame,
    )
