"""Figures of studies (what calls buy, how baselines compare), two rankings as a slope, and where attackers land."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from youden.report.charts.marks import (
    GROUP_COLOURS,
    Figure,
    Frame,
    answers,
    by_group,
    frame_chart,
    ordered,
    sized,
    told,
    unchecked,
)
from youden.report.data.comparison import Comparison
from youden.study.baseline_table import BaselinesStudy
from youden.study.budget_curves import BudgetStudy
from youden.study.budget_goals import Goal, recommend
from youden.study.grid import Spread
from youden.study.sparsity import SparsityStudy
from youden.text.printable import printable
from youden.workflows.stressing import Stress


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
        tooltip=told("agent:N", "group:N", "run:N", "place:Q", "places:N", "ability:Q .3f", "apart:N"),
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
        tooltip=told("attack:N", "ranking:N", "place:Q", "others:Q .2f", "check:N"),
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


@unchecked
def budget_figures(study: BudgetStudy, goal: Goal) -> tuple[Figure, ...]:
    """Rank correlation by calls, one line a design; a ring marks the cheapest point that meets the goal."""
    chosen = recommend(study, goal).row
    drawn = [(design, row) for design, rows in study.designs.items() for row in rows if row.rho_mean is not None]
    frame = Frame.of(
        design=[design for design, _ in drawn],
        calls=[row.calls for _, row in drawn],
        percent=[row.percent for _, row in drawn],
        rho=[row.rho_mean for _, row in drawn],
        low=[(row.rho_mean or 0.0) - (row.rho_sd or 0.0) for _, row in drawn],
        high=[(row.rho_mean or 0.0) + (row.rho_sd or 0.0) for _, row in drawn],
        recommended=[row is chosen for _, row in drawn],
    )
    base = frame_chart().encode(
        x=alt.X("calls:Q", title="calls, both arms", scale=alt.Scale(zero=False)),
        color=alt.Color("design:N", title="design", scale=alt.Scale(range=GROUP_COLOURS)),
        tooltip=told("design:N", "calls:Q ,.0f", "percent:Q", "rho:Q .3f"),
    )
    mean = alt.Y("rho:Q", title=f"Spearman ρ to the dense {study.target} ranking", scale=alt.Scale(zero=False))
    ring = base.transform_filter("datum.recommended").mark_point(size=260, strokeWidth=3).encode(y=mean)
    spec = (
        base.mark_line(strokeWidth=2).encode(y=mean)
        + base.mark_rule().encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
        + base.mark_point(filled=True, size=60, opacity=1).encode(y=mean)
        + ring
    )
    met = "The ring: the fewest calls that meet it." if chosen is not None else "Nothing tried meets it."
    return (
        Figure(
            "budget",
            "What each design buys",
            f"Mean and SD over {study.n_seeds} seeds. Two halves of the items agree at ρ {study.halves.rho:.3f}. "
            f"Goal: {goal}. {met}",
            f"youden study budget, answers replayed, of {study.dense_calls:,} dense calls",
            sized(spec, 300),
            frame,
        ),
        _recall_figure(study),
    )


def _recall_figure(study: BudgetStudy) -> Figure:
    """The share of the best agents found by calls, one line a design and k; a dashed rule where two halves of the items agree."""
    found = [
        (design, row.calls, f"top {k}", share)
        for design, rows in study.designs.items()
        for row in rows
        for k, share in (row.recalls or {}).items()
    ]
    designs, calls, tops, shares = zip(*found, strict=True)
    frame = Frame.of(
        design=designs,
        calls=calls,
        top=tops,
        recall=shares,
        halves=[study.halves.recalls[int(top.split()[1])] for top in tops],
    )
    base = frame_chart().encode(
        color=alt.Color("top:N", title="found of", scale=alt.Scale(range=GROUP_COLOURS)),
        tooltip=told("design:N", "top:N", "calls:Q ,.0f", "recall:Q .2f"),
    )
    lines = base.encode(
        x=alt.X("calls:Q", title="calls, both arms", scale=alt.Scale(zero=False)),
        y=alt.Y("recall:Q", title="share of the dense top k found", scale=alt.Scale(domain=[0, 1])),
        shape=alt.Shape("design:N", title="design"),
        detail=alt.Detail("design:N"),
    )
    spec = (
        lines.mark_line(strokeWidth=2)
        + lines.mark_point(filled=True, size=60, opacity=1)
        + base.mark_rule(strokeDash=[4, 4]).encode(y=alt.Y("halves:Q"))
    )
    return Figure(
        "budget-top",
        "How much of the top each design finds",
        "ρ is over all agents; this is about the best ones. Dashed: what one half of the items finds of the other half's top.",
        f"youden study budget, means over {study.n_seeds} seeds",
        sized(spec, 300),
        frame,
    )


@unchecked
def sparsity_figures(study: SparsityStudy) -> tuple[Figure, ...]:
    """Holdout error by share of cells, and by calls."""
    rows = [row for row in (*study.rows, study.dense) if row.rmse and row.calls and row.of_all]
    note = (
        f"Mean and SD over holdouts of {study.holdout:.0%} of the cells, rule {study.rule}; all regimes share them. Cells are "
        "not calls: a cell is compared with every other agent."
    )
    source = f"youden study sparsity, {study.n_agents} agents × {study.n_items} items, {study.kind} scores"
    frame = Frame.of(
        regime=[row.label for row in rows],
        design=[row.label.split()[0] for row in rows],
        cells=[_mean(row.of_all) for row in rows],
        calls=[_mean(row.calls) for row in rows],
        rmse=[_mean(row.rmse) for row in rows],
        low=[_mean(row.rmse) - _sd(row.rmse) for row in rows],
        high=[_mean(row.rmse) + _sd(row.rmse) for row in rows],
        rho=[_mean(row.rho) for row in rows],
    )
    return tuple(
        Figure(slug, title, note, source, sized(_error_by(field, unit, form), 280), frame)
        for slug, title, field, unit, form in (
            ("sparsity-cells", "Holdout error by cells", "cells", "share of all cells", "%"),
            ("sparsity-calls", "Holdout error by calls", "calls", "calls, both arms", "~s"),
        )
    )


@unchecked
def baselines_figures(study: BaselinesStudy) -> tuple[Figure, ...]:
    """Holdout error of each baseline."""
    rows = sorted(study.rows, key=lambda row: row.rmse.mean)
    frame = Frame.of(
        model=[row.name for row in rows],
        rmse=[row.rmse.mean for row in rows],
        low=[row.rmse.low for row in rows],
        high=[row.rmse.high for row in rows],
        rho=[row.rho.mean for row in rows],
    )
    base = frame_chart().encode(
        y=alt.Y("model:N", title=None, scale=ordered([row.name for row in rows]), axis=alt.Axis(labelLimit=220)),
        color=alt.value(GROUP_COLOURS[0]),
        tooltip=told("model:N", "rmse:Q .4f", "rho:Q .3f"),
    )
    mean = alt.X("rmse:Q", title="RMSE on held-out cells (score units)", scale=alt.Scale(zero=False))
    spec = base.mark_rule().encode(x=alt.X("low:Q"), x2=alt.X2("high:Q")) + base.mark_point(
        filled=True, size=60, opacity=1
    ).encode(x=mean)
    return (
        Figure(
            "baselines",
            "Models on the same held-out cells",
            f"Mean and central 95 % of the seeds, rule {study.rule}, {study.coverage.mean:.0%} of all cells seen. Intervals "
            "overlap more than models differ seed by seed: the words above are about those differences.",
            f"youden study baselines, {study.kind} scores",
            sized(spec, 40 + 18 * len(rows)),
            frame,
        ),
    )


def _error_by(field: str, unit: str, form: str) -> alt.LayerChart:
    base = frame_chart().encode(
        x=alt.X(f"{field}:Q", title=unit, axis=alt.Axis(format=form)),
        color=alt.Color("design:N", title="design", scale=alt.Scale(range=GROUP_COLOURS)),
        tooltip=told("regime:N", "rmse:Q .4f", "rho:Q .3f"),
    )
    mean = alt.Y("rmse:Q", title="RMSE on held-out cells (score units)", scale=alt.Scale(zero=False))
    chart: alt.LayerChart = (
        base.mark_line(strokeWidth=1.5).encode(y=mean)
        + base.mark_rule().encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
        + base.mark_point(filled=True, size=60, opacity=1).encode(y=mean)
    )
    return chart


def _mean(spread: Spread | None) -> float:
    return float("nan") if spread is None else spread.mean


def _sd(spread: Spread | None) -> float:
    return 0.0 if spread is None or spread.sd is None else spread.sd
