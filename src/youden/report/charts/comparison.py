"""Two rankings as a slope chart."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from youden.report.charts.frames import Frame
from youden.report.charts.marks import Figure, answers, by_group, frame_chart, sized, unchecked
from youden.report.data.comparison import Comparison
from youden.text.printable import printable


@unchecked
def slope(data: Comparison) -> Figure:
    """One line an agent, from its place in the first ranking to its place in the second."""
    lines = data.lines
    runs = ["1", "2"]
    ends = [_heights([line.one for line in lines]), _heights([line.two for line in lines])]
    frame = Frame.of(
        agent=[line.agent for _ in runs for line in lines],
        group=[line.group or "no group" for _ in runs for line in lines],
        run=[run for run in runs for _ in lines],
        place=[line.one for line in lines] + [line.two for line in lines],
        height=[*ends[0], *ends[1]],
        places=[line.places_one for line in lines] + [line.places_two for line in lines],
        ability=[line.ability_one for line in lines] + [line.ability_two for line in lines],
        apart=["moved" if line.apart else "not told to move" for _ in runs for line in lines],
    )
    base = frame_chart().encode(
        x=alt.X(
            "run:N",
            title=None,
            scale=alt.Scale(domain=runs, padding=0.8),
            axis=alt.Axis(labelAngle=0, orient="top", labelExpr="'run ' + datum.label"),
        ),
        y=alt.Y(
            "height:Q", title=None, scale=alt.Scale(reverse=True, domain=[0.5, len(lines) + 0.5], nice=False), axis=None
        ),
        color=by_group(frame),
        tooltip=[
            alt.Tooltip("agent:N"),
            alt.Tooltip("group:N"),
            alt.Tooltip("run:N"),
            alt.Tooltip("place:Q"),
            alt.Tooltip("places:N"),
            alt.Tooltip("ability:Q", format=".3f"),
            alt.Tooltip("apart:N"),
        ],
    )
    drawn = base.mark_line(strokeWidth=2).encode(
        detail=alt.Detail("agent:N"),
        strokeDash=alt.StrokeDash(
            "apart:N", legend=None, scale=alt.Scale(domain=["moved", "not told to move"], range=[[1, 0], [4, 4]])
        ),
    )
    dots = base.mark_point(filled=True, size=50, opacity=1)
    named = base.transform_calculate(said="datum.place + '  ' + datum.agent")
    left = named.transform_filter(alt.datum.run == runs[0]).mark_text(align="right", dx=-8, limit=92)
    right = named.transform_filter(alt.datum.run == runs[1]).mark_text(align="left", dx=8, limit=92)
    spec = drawn + dots + left.encode(text=alt.Text("said:N")) + right.encode(text=alt.Text("said:N"))
    return Figure(
        "slope",
        "Places in both rankings",
        "One line an agent, from its place in the first ranking to its place in the second, among agents in both. Solid: its "
        "distance from the average agent, in SDs of each ranking, differs by more than its 95 % error; dashed: it does not. "
        f"Run 1 is {printable(data.one.name)}, run 2 is {printable(data.two.name)}; agents of one place stand below each other.",
        f"ranking.csv of both runs, {answers(data.one)} and {answers(data.two)}",
        sized(spec, max(200, 20 * len(lines))),
        frame,
    )


def _heights(places: Sequence[int]) -> list[int]:
    """1 … n from the best place to the worst, each once, so that no name is printed over another."""
    found: list[int] = (np.argsort(np.argsort(places, kind="stable"), kind="stable") + 1).tolist()
    return found
