"""Where attackers land, drawn."""

from __future__ import annotations

import altair as alt

from youden.practice.stress.stressing import Stress
from youden.report.charts.frames import Frame
from youden.report.charts.marks import GROUP_COLOURS, Figure, frame_chart, ordered, sized, unchecked


@unchecked
def stress_figure(found: Stress) -> Figure:
    """One row an attack: the place of its best agent in each way of ranking; hollow where neither check nor an alarm names it."""
    drawn = [one for one in found.attacks if one.landings]
    drawn.sort(key=lambda one: one.landings["plain"].place)
    places = [(one, way, landing) for one in drawn for way, landing in one.landings.items()]
    frame = Frame.of(
        attack=[one.attack for one, _, _ in places],
        ranking=[way for _, way, _ in places],
        place=[landing.place for _, _, landing in places],
        others=[landing.shift for _, _, landing in places],
        named=["named" if one.named or one.alarms else "not named" for one, _, _ in places],
        check=[", ".join(one.named) or "silent" for one, _, _ in places],
    )
    base = frame_chart().encode(
        y=alt.Y("attack:N", title=None, scale=ordered([one.attack for one in drawn]), axis=alt.Axis(labelLimit=170)),
        x=alt.X(
            "place:Q",
            title=f"place of the best attacker, of {found.n_agents}",
            scale=alt.Scale(domain=[1, found.n_agents], nice=False, padding=10),
        ),
        color=alt.Color("ranking:N", title="ranking", scale=alt.Scale(domain=list(found.places), range=GROUP_COLOURS)),
        tooltip=[
            alt.Tooltip("attack:N"),
            alt.Tooltip("ranking:N"),
            alt.Tooltip("place:Q"),
            alt.Tooltip("others:Q", format=".2f"),
            alt.Tooltip("check:N"),
        ],
    )
    dots = base.mark_point(size=80, strokeWidth=2, opacity=1).encode(
        shape=alt.Shape("ranking:N", title="ranking"),
        fillOpacity=alt.FillOpacity(
            "named:N", title="check or alarm", scale=alt.Scale(domain=["named", "not named"], range=[1, 0])
        ),
        fill=alt.Fill("ranking:N", scale=alt.Scale(domain=list(found.places), range=GROUP_COLOURS), legend=None),
    )
    own = found.places["plain"] or found.n_agents
    rule = (
        alt.Chart(alt.InlineData(values=[{"own": own}]))
        .mark_rule(strokeDash=[5, 4], color="#888888")
        .encode(x=alt.X("own:Q", scale=alt.Scale(domain=[1, found.n_agents], nice=False, padding=10)))
    )
    return Figure(
        "stress",
        "Where attackers land",
        f"Place 1 is first. Dashed: where {found.weak} stands without an attack. Hollow: neither check nor an alarm names it.",
        f"youden stress, judged by {found.judge}",
        sized(rule + dots, 30 + 22 * len(drawn)),
        frame,
    )
