"""Figures of studies (budgets, sparsity, baselines), of two rankings side by side, and of the ranks of attackers."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from youden.report.charts.marks import (
    DASHED,
    GROUP_COLOURS,
    Figure,
    Frame,
    answers,
    by_group,
    coloured,
    frame_chart,
    ordered,
    tooltips,
    unchecked,
)
from youden.report.data.comparison import Comparison
from youden.study.baseline_table import BaselinesStudy
from youden.study.budget_curves import BudgetStudy
from youden.study.budget_goals import Goal, recommend
from youden.study.grid import Spread
from youden.study.sparsity import SparsityStudy
from youden.text.printable import printable
from youden.workflows.stress import Stress


@unchecked
def slope(data: Comparison) -> Figure:
    """Draw agents' places in two rankings as lines."""
    lines, runs = data.lines, ["1", "2"]
    places = [[line.place_one for line in lines], [line.place_two for line in lines]]
    agents = [*(line.one for line in lines), *(line.two for line in lines)]
    frame = Frame.of_rows(
        agents,
        agent="agent",
        group=[line.one.group or "no group" for _ in runs for line in lines],
        run=[run for run in runs for _ in lines],
        place=[place for of_run in places for place in of_run],
        height=[height for of_run in places for height in _heights(of_run)],
        places="places",
        ability="ability",
        apart=["moved" if line.apart else "not told to move" for _ in runs for line in lines],
    )
    axis = alt.Axis(labelAngle=0, orient="top", labelExpr="'run ' + datum.label")
    heights = alt.Scale(reverse=True, domain=[0.5, len(lines) + 0.5], nice=False)
    base = frame_chart().encode(
        x=alt.X("run:N", title=None, scale=alt.Scale(domain=runs, padding=0.8), axis=axis),
        y=alt.Y("height:Q", title=None, scale=heights, axis=None),
        color=by_group(frame),
        tooltip=tooltips("agent:N", "group:N", "run:N", "place:Q", "places:N", "ability:Q .3f", "apart:N"),
    )
    dashes = alt.Scale(domain=["moved", "not told to move"], range=[[1, 0], [4, 4]])
    chart = base.mark_line(strokeWidth=2).encode(
        detail=alt.Detail("agent:N"), strokeDash=alt.StrokeDash("apart:N", legend=None, scale=dashes)
    )
    chart += base.mark_point(filled=True, size=50, opacity=1)
    named = base.transform_calculate(said="datum.place + '  ' + datum.agent").encode(text=alt.Text("said:N"))
    chart += named.transform_filter(alt.datum.run == runs[0]).mark_text(align="right", dx=-8, limit=92)
    chart += named.transform_filter(alt.datum.run == runs[1]).mark_text(align="left", dx=8, limit=92)
    note = (
        "One line an agent, from its place in the first ranking to its place in the second, among agents in both. Solid: its "
        "distance from the average agent, in SDs of each ranking, differs by more than its 95 % error; dashed: it does not. "
        f"Run 1 is {printable(data.one.name)}, run 2 is {printable(data.two.name)}; agents of one place stand below each other."
    )
    source, height = f"ranking.csv of both runs, {answers(data.one)} and {answers(data.two)}", max(200, 20 * len(lines))
    return Figure("slope", "Places in both rankings", note, source, chart, frame=frame, height=height)


def _heights(places: Sequence[int]) -> list[int]:
    """Return one line per agent: agents of one place below each other."""
    heights: list[int] = (np.argsort(np.argsort(places, kind="stable"), kind="stable") + 1).tolist()
    return heights


@unchecked
def stress_figure(found: Stress) -> Figure:
    """Draw the place of the best attacker of each attack, in each ranking."""
    drawn = sorted((one for one in found.attacks if one.landings), key=lambda one: one.landings["plain"].place)
    places = [(one, ranking, landing) for one in drawn for ranking, landing in one.landings.items()]
    frame = Frame.of(
        attack=[one.attack for one, _, _ in places],
        ranking=[ranking for _, ranking, _ in places],
        place=[landing.place for _, _, landing in places],
        others=[landing.shift for _, _, landing in places],
        named=["named" if one.named or one.alarms else "not named" for one, _, _ in places],
        check=[", ".join(one.named) or "silent" for one, _, _ in places],
    )
    x_scale = alt.Scale(domain=[1, found.n_agents], nice=False, padding=10)
    base = frame_chart().encode(
        y=alt.Y("attack:N", title=None, scale=ordered([one.attack for one in drawn]), axis=alt.Axis(labelLimit=170)),
        x=alt.X("place:Q", title=f"place of the best attacker, of {found.n_agents}", scale=x_scale),
        color=coloured("ranking", "ranking", domain=list(found.places)),
        tooltip=tooltips("attack:N", "ranking:N", "place:Q", "others:Q .2f", "check:N"),
    )
    filled = alt.Scale(domain=["named", "not named"], range=[1, 0])
    dots = base.mark_point(size=80, strokeWidth=2, opacity=1).encode(
        shape=alt.Shape("ranking:N", title="ranking"),
        fillOpacity=alt.FillOpacity("named:N", title="check or alarm", scale=filled),
        fill=alt.Fill("ranking:N", scale=alt.Scale(domain=list(found.places), range=GROUP_COLOURS), legend=None),
    )
    own = found.places["plain"] or found.n_agents
    rule = alt.Chart(alt.InlineData(values=[{"own": own}])).mark_rule(**DASHED)
    rule = rule.encode(x=alt.X("own:Q", scale=x_scale))
    note = f"Place 1 is first. Dashed: where {found.weak} stands without an attack. Hollow: neither check nor an alarm names it."
    source, height = f"youden stress, judged by {found.judge}", 30 + 22 * len(drawn)
    return Figure("stress", "Where attackers land", note, source, rule + dots, frame=frame, height=height)


@unchecked
def budget_figures(study: BudgetStudy, goal: Goal) -> tuple[Figure, ...]:
    """Draw ρ and top-k recall by design and number of calls; a ring marks the recommended row."""
    chosen = recommend(study, goal).row
    drawn = [(design, row) for design, rows in study.designs.items() for row in rows if row.rho_mean is not None]
    frame = Frame.of_rows(
        [row for _, row in drawn],
        design=[design for design, _ in drawn],
        calls="calls",
        percent="percent",
        rho="rho_mean",
        low=[(row.rho_mean or 0.0) - (row.rho_sd or 0.0) for _, row in drawn],
        high=[(row.rho_mean or 0.0) + (row.rho_sd or 0.0) for _, row in drawn],
        recommended=[row is chosen for _, row in drawn],
    )
    calls = alt.X("calls:Q", title="calls, both arms", scale=alt.Scale(zero=False))
    base = frame_chart().encode(
        x=calls,
        color=coloured("design", "design"),
        tooltip=tooltips("design:N", "calls:Q ,.0f", "percent:Q", "rho:Q .3f"),
    )
    mean = alt.Y("rho:Q", title=f"Spearman ρ to the dense {study.target} ranking", scale=alt.Scale(zero=False))
    chart = _with_errors(base, mean, width=2)
    chart += base.transform_filter("datum.recommended").mark_point(size=260, strokeWidth=3).encode(y=mean)
    met = "The ring: the fewest calls that meet it." if chosen is not None else "Nothing tried meets it."
    note = (
        f"Mean and SD over {study.n_seeds} seeds. Two halves of the items agree at ρ {study.halves.rho:.3f}. "
        f"Goal: {goal}. {met}"
    )
    source = f"youden study budget, answers replayed, of {study.dense_calls:,} dense calls"
    return Figure("budget", "What each design buys", note, source, chart, frame=frame, height=300), _recall_figure(
        study
    )


def _recall_figure(study: BudgetStudy) -> Figure:
    designs, calls, tops, shares = zip(
        *(
            (design, row.calls, f"top {k}", share)
            for design, rows in study.designs.items()
            for row in rows
            for k, share in (row.recalls or {}).items()
        ),
        strict=True,
    )
    halves = [study.halves.recalls[int(top.split()[1])] for top in tops]
    frame = Frame.of(design=designs, calls=calls, top=tops, recall=shares, halves=halves)
    base = frame_chart().encode(
        color=coloured("top", "found of"), tooltip=tooltips("design:N", "top:N", "calls:Q ,.0f", "recall:Q .2f")
    )
    lines = base.encode(
        x=alt.X("calls:Q", title="calls, both arms", scale=alt.Scale(zero=False)),
        y=alt.Y("recall:Q", title="share of the dense top k found", scale=alt.Scale(domain=[0, 1])),
        shape=alt.Shape("design:N", title="design"),
        detail=alt.Detail("design:N"),
    )
    chart = lines.mark_line(strokeWidth=2) + lines.mark_point(filled=True, size=60, opacity=1)
    chart += base.mark_rule(strokeDash=[4, 4]).encode(y=alt.Y("halves:Q"))
    note = "ρ is over all agents; this is about the best ones. Dashed: what one half of the items finds of the other half's top."
    title, source = "How much of the top each design finds", f"youden study budget, means over {study.n_seeds} seeds"
    return Figure("budget-top", title, note, source, chart, frame=frame, height=300)


@unchecked
def sparsity_figures(study: SparsityStudy) -> tuple[Figure, ...]:
    """Draw the holdout error of each regime by cells and by calls."""
    rows = [row for row in (*study.rows, study.dense) if row.rmse and row.calls and row.of_all]
    rmse = [_mean(row.rmse) for row in rows]
    sd = [0.0 if row.rmse is None else row.rmse.sd or 0.0 for row in rows]
    frame = Frame.of(
        regime=[row.label for row in rows],
        design=[row.label.split()[0] for row in rows],
        cells=[_mean(row.of_all) for row in rows],
        calls=[_mean(row.calls) for row in rows],
        rmse=rmse,
        low=np.subtract(rmse, sd),
        high=np.add(rmse, sd),
        rho=[_mean(row.rho) for row in rows],
    )
    note = (
        f"Mean and SD over holdouts of {study.holdout:.0%} of the cells, rule {study.rule}; all regimes share them. Cells are "
        "not calls: a cell is compared with every other agent."
    )
    source = f"youden study sparsity, {study.n_agents} agents × {study.n_items} items, {study.kind} scores"
    drawn = []
    for column, unit, form in (("cells", "share of all cells", "%"), ("calls", "calls, both arms", "~s")):
        base = frame_chart().encode(
            x=alt.X(f"{column}:Q", title=unit, axis=alt.Axis(format=form)),
            color=coloured("design", "design"),
            tooltip=tooltips("regime:N", "rmse:Q .4f", "rho:Q .3f"),
        )
        mean = alt.Y("rmse:Q", title="RMSE on held-out cells (score units)", scale=alt.Scale(zero=False))
        chart = _with_errors(base, mean, width=1.5)
        drawn.append(
            Figure(f"sparsity-{column}", f"Holdout error by {column}", note, source, chart, frame=frame, height=280)
        )
    return tuple(drawn)


@unchecked
def baselines_figures(study: BaselinesStudy) -> tuple[Figure, ...]:
    """Draw the holdout error of each model, lowest first."""
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
        tooltip=tooltips("model:N", "rmse:Q .4f", "rho:Q .3f"),
    )
    mean = alt.X("rmse:Q", title="RMSE on held-out cells (score units)", scale=alt.Scale(zero=False))
    chart = base.mark_rule().encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"))
    chart += base.mark_point(filled=True, size=60, opacity=1).encode(x=mean)
    note = (
        f"Mean and central 95 % of the seeds, rule {study.rule}, {study.coverage.mean:.0%} of all cells seen. Intervals "
        "overlap more than models differ seed by seed: the words above are about those differences."
    )
    title, source = "Models on the same held-out cells", f"youden study baselines, {study.kind} scores"
    return (Figure("baselines", title, note, source, chart, frame=frame, height=40 + 18 * len(rows)),)


def _with_errors(base: alt.Chart, mean: alt.Y, *, width: float) -> alt.LayerChart:
    """Draw means as a line with dots, and from `low` to `high` as rules."""
    lines, rules = base.mark_line(strokeWidth=width), base.mark_rule()
    chart: alt.LayerChart = lines.encode(y=mean) + rules.encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
    chart += base.mark_point(filled=True, size=60, opacity=1).encode(y=mean)
    return chart


def _mean(spread: Spread | None) -> float:
    return float("nan") if spread is None else spread.mean
