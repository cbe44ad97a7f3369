"""Draw the figures of studies (budgets, sparsity, baselines), of two rankings, and of stress tests."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from youden.report.charts.marks import (
    DASHED,
    GROUP_COLORS,
    NO_GROUP,
    Column,
    Figure,
    Frame,
    color_by,
    color_by_group,
    format_n_answers,
    make_chart,
    make_tile_scale,
    make_tooltips,
    without_validation,
)
from youden.report.data.comparison import Comparison
from youden.study.baseline_table import BaselinesStudy
from youden.study.budget_curves import BudgetStudy
from youden.study.budget_goals import Goal, recommend
from youden.study.grid import SeedSummary
from youden.study.instruments import InstrumentsStudy
from youden.study.sparsity import SparsityStudy
from youden.text.printable import printable
from youden.workflows.stress import AttackResult, Stress


@without_validation
def draw_slope(data: Comparison) -> Figure:
    """Draw a slope chart of two runs: one line per agent, from its rank in the first run to its rank in the second."""
    lines = data.lines
    runs = ["1", "2"]
    first_ranks = [line.first_rank for line in lines]
    second_ranks = [line.second_rank for line in lines]
    groups = [line.first.group or NO_GROUP for line in lines]
    changes = ["significant" if line.differs else "not significant" for line in lines]

    # one row per agent and run: all agents in the first run, then all in the second
    frame = Frame.from_rows(
        [*(line.first for line in lines), *(line.second for line in lines)],
        agent="agent",
        group=groups * 2,
        run=[runs[0]] * len(lines) + [runs[1]] * len(lines),
        rank=[*first_ranks, *second_ranks],
        height=[*_distinct_positions(first_ranks), *_distinct_positions(second_ranks)],
        interval="ranks",
        ability="ability",
        change=changes * 2,
    )

    run_axis = alt.Axis(labelAngle=0, orient="top", labelExpr="'run ' + datum.label")
    height_scale = alt.Scale(reverse=True, domain=[0.5, len(lines) + 0.5], nice=False)
    base = make_chart().encode(
        x=alt.X("run:N", title=None, scale=alt.Scale(domain=runs, padding=0.8), axis=run_axis),
        y=alt.Y("height:Q", title=None, scale=height_scale, axis=None),
        color=color_by_group(frame),
        tooltip=make_tooltips("agent:N", "group:N", "run:N", "rank:Q", "interval:N", "ability:Q .3f", "change:N"),
    )
    dash_scale = alt.Scale(domain=["significant", "not significant"], range=[[1, 0], [4, 4]])
    chart = base.mark_line(strokeWidth=2).encode(
        detail=alt.Detail("agent:N"), strokeDash=alt.StrokeDash("change:N", legend=None, scale=dash_scale)
    )
    chart += base.mark_point(filled=True, size=50, opacity=1)
    labels = base.transform_calculate(label="datum.rank + '  ' + datum.agent").encode(text=alt.Text("label:N"))
    chart += labels.transform_filter(alt.datum.run == runs[0]).mark_text(align="right", dx=-8, limit=92)
    chart += labels.transform_filter(alt.datum.run == runs[1]).mark_text(align="left", dx=8, limit=92)

    note = (
        "One line per agent, from its rank in the first run to its rank in the second, among the agents in both. Solid: its "
        "distance from the average agent, in standard deviations of each ranking, differs significantly (95%); dashed: it does "
        f"not. Run 1 is {printable(data.first.name)}, run 2 is {printable(data.second.name)}. Agents with equal ranks are drawn "
        "below each other."
    )
    source = f"ranking.csv of both runs, {format_n_answers(data.first)} and {format_n_answers(data.second)}"
    height = max(200, 20 * len(lines))
    return Figure("slope", "Ranks in both runs", note, source, chart, frame=frame, height=height)


@without_validation
def draw_abilities_by_question(study: InstrumentsStudy) -> Figure:
    """Draw the abilities of each agent in two runs with different questions, as a dot with both intervals.

    Horizontal: ability in the run that asks for information (are two responses to the same item?). Vertical: ability in the run
    that asks for preferences (which response is better?).
    """
    tooltips = make_tooltips("agent:N", "flag:N", "information_ability:Q .3f", "preference_ability:Q .3f")
    base = make_chart().encode(
        x=alt.X("information_ability:Q", title="ability by information", scale=alt.Scale(zero=False)),
        y=alt.Y("preference_ability:Q", title="ability by preference", scale=alt.Scale(zero=False)),
        color=color_by("flag", "flag"),
        tooltip=tooltips,
    )
    lines = base.mark_rule(opacity=0.5)
    information_intervals = lines.encode(x=alt.X("information_low:Q"), x2=alt.X2("information_high:Q"))
    preference_intervals = lines.encode(y=alt.Y("preference_low:Q"), y2=alt.Y2("preference_high:Q"))
    dots = base.mark_point(filled=True, size=60, opacity=1)
    names = base.mark_text(align="left", dx=7, dy=-7, limit=120).encode(text=alt.Text("agent:N"))
    chart = information_intervals + preference_intervals + dots + names

    note = (
        f"Dot: abilities of an agent; lines: their {study.level:.0%} intervals. A flagged agent is significantly above the "
        "average agent by one instrument and below it by the other."
    )
    frame = _make_instruments_frame(study)
    return Figure("instruments", "Two instruments", note, "ranking.csv of both runs", chart, frame=frame, height=420)


def _make_instruments_frame(study: InstrumentsStudy) -> Frame:
    """Make the data of the figure that compares the abilities of agents in two runs with different questions.

    One run asks for information (are two responses to the same item?), and the other asks for preferences (which
    response is better?).

    Returns a frame with one row per agent: its ability and interval by each question, and a flag if it is above the average by
    one question and below it by the other.
    """
    comparisons = list(study.agents.values())
    flags = [comparison.flag or "no flag" for comparison in comparisons]
    columns: dict[str, Column] = {"agent": list(study.agents), "flag": flags}
    results_by_question = {
        "information": [comparison.information for comparison in comparisons],
        "preference": [comparison.preference for comparison in comparisons],
    }
    for question, results in results_by_question.items():
        columns[f"{question}_ability"] = [result.ability for result in results]
        columns[f"{question}_low"] = [result.low for result in results]
        columns[f"{question}_high"] = [result.high for result in results]
    return Frame.from_columns(**columns)


def _distinct_positions(ranks: Sequence[int]) -> list[int]:
    """Return a distinct vertical position for each agent, from 1, in the order of the ranks."""
    order = np.argsort(ranks, kind="stable")
    positions: list[int] = (np.argsort(order, kind="stable") + 1).tolist()
    return positions


@without_validation
def draw_stress_figure(stress: Stress) -> Figure:
    """Draw the rank that the best attacking agent reaches with each attack, one dot per ranking method.

    An attack adds agents to a run that try to rise in the ranking without better responses. A dot is hollow if no finding of
    `youden check` and no alarm about false positives names an added agent. Attacks without a rank are left out.

    Returns the figure, with one row per attack, sorted by the rank in the plain ranking.
    """
    results = [result for result in stress.attacks if result.ranks_after]
    results.sort(key=lambda result: result.ranks_after["plain"].rank)
    names_of_attacks = [result.attack for result in results]
    chart = _make_stress_chart(stress, names_of_attacks)
    note = (
        f"Rank 1 is best. Dashed: rank of {stress.base_agent} without an attack. Hollow: neither a check nor an alarm names "
        "it."
    )
    source = f"youden stress, judged by {stress.judge}"
    height = 30 + 22 * len(results)
    frame = _make_attack_frame(results)
    return Figure("stress", "Ranks of attackers", note, source, chart, frame=frame, height=height)


def _make_stress_chart(stress: Stress, attack_names: list[str]) -> alt.LayerChart:
    """Make the chart of the ranks that attackers reach, without its data.

    The chart has one row per attack, with one dot per ranking method. A dot is filled if a check or an alarm detects the attack.
    The dashed line is the rank of the base agent without an attack, or the last rank if it has none.

    attack_names : names of the attacks, in the order of the rows
    """
    x_scale = alt.Scale(domain=[1, stress.n_agents], nice=False, padding=10)
    y_scale = make_tile_scale(attack_names)
    rankings = list(stress.ranks)
    base = make_chart().encode(
        y=alt.Y("attack:N", title=None, scale=y_scale, axis=alt.Axis(labelLimit=170)),
        x=alt.X("rank:Q", title=f"rank of the best attacker, of {stress.n_agents}", scale=x_scale),
        color=color_by("ranking", "ranking", domain=rankings),
        tooltip=make_tooltips("attack:N", "ranking:N", "rank:Q", "others:Q .2f", "check:N"),
    )
    opacity_scale = alt.Scale(domain=["detected", "not detected"], range=[1, 0])
    # the color of the outline is also the color of the interior, which is transparent if the attack is not detected
    dots = base.mark_point(size=80, strokeWidth=2, opacity=1).encode(
        shape=alt.Shape("ranking:N", title="ranking"),
        fillOpacity=alt.FillOpacity("detected:N", title="check or alarm", scale=opacity_scale),
        fill=alt.Fill("ranking:N", scale=alt.Scale(domain=rankings, range=GROUP_COLORS), legend=None),
    )
    unattacked_rank = stress.ranks["plain"] or stress.n_agents
    rule = alt.Chart(alt.InlineData(values=[{"rank": unattacked_rank}])).mark_rule(**DASHED)
    chart: alt.LayerChart = rule.encode(x=alt.X("rank:Q", scale=x_scale)) + dots
    return chart


def _make_attack_frame(results: Sequence[AttackResult]) -> Frame:
    """Make the data of the figure that shows the ranks of agents that were added to attack the ranking.

    Returns a frame with one row per attack and ranking method. Column `rank` is the best rank of the added agents, and `others`
    the mean absolute change in the ranks of all other agents. An attack is detected if a finding of `check` or a false-positive
    alarm names an added agent.
    """
    names = ("attack", "ranking", "rank", "others", "detected", "check")
    columns: dict[str, list[str | float]] = {name: [] for name in names}
    for result in results:
        is_detected = bool(result.check_findings or result.alarms)
        for ranking, rank_after in result.ranks_after.items():
            columns["attack"].append(result.attack)
            columns["ranking"].append(ranking)
            columns["rank"].append(rank_after.rank)
            columns["others"].append(rank_after.mean_change)
            columns["detected"].append("detected" if is_detected else "not detected")
            columns["check"].append(", ".join(result.check_findings) or "no finding")
    return Frame.from_columns(**columns)


@without_validation
def draw_budget_figures(study: BudgetStudy, goal: Goal) -> tuple[Figure, ...]:
    """Draw the accuracy of each design by number of calls, as two figures.

    The first figure shows the mean ± SD of Spearman's ρ with the ranking by all comparisons. A ring marks the smallest budget
    that meets the goal. The second figure shows the recall: the share of the best agents by all comparisons that are also
    among the best agents by fewer calls.

    study : accuracy of each design at several budgets, as means over random plans
    goal : accuracy to reach, for example ρ ≥ 0.97
    """
    recommended_budget = recommend(study, goal).row
    designs = []
    budgets = []
    for design, budgets_of_design in study.designs.items():
        for budget in budgets_of_design:
            if budget.rho_mean is not None:
                designs.append(design)
                budgets.append(budget)
    rho_mean = np.array([budget.rho_mean for budget in budgets], dtype=np.float64)
    rho_sd = np.array([budget.rho_sd or 0.0 for budget in budgets])
    frame = Frame.from_columns(
        design=designs,
        calls=[budget.calls for budget in budgets],
        percent=[budget.percent for budget in budgets],
        rho=rho_mean,
        low=rho_mean - rho_sd,
        high=rho_mean + rho_sd,
        recommended=[budget is recommended_budget for budget in budgets],
    )

    base = make_chart().encode(
        x=alt.X("calls:Q", title="calls of both trial types", scale=alt.Scale(zero=False)),
        color=color_by("design", "design"),
        tooltip=make_tooltips("design:N", "calls:Q ,.0f", "percent:Q", "rho:Q .3f"),
    )
    rho_axis = alt.Y("rho:Q", title=f"Spearman ρ to the dense {study.target} ranking", scale=alt.Scale(zero=False))
    chart = _draw_means_with_errors(base, rho_axis, width=2)
    chart += base.transform_filter("datum.recommended").mark_point(size=260, strokeWidth=3).encode(y=rho_axis)

    note_on_ring = "The ring marks the smallest budget that meets it." if recommended_budget else "No budget meets it."
    note = (
        f"Mean and SD over {study.n_seeds} seeds. Two halves of the items agree at ρ {study.halves.rho:.3f}. "
        f"Goal: {goal}. {note_on_ring}"
    )
    source = f"youden study budget, answers replayed, of {study.dense_calls:,} dense calls"
    figure = Figure("budget", "Accuracy of each design by budget", note, source, chart, frame=frame, height=300)
    return figure, _draw_recall(study)


def _draw_recall(study: BudgetStudy) -> Figure:
    """Draw the recall of the best agents by number of calls.

    The recall of a design is the share of the k best agents by all comparisons that are also among its k best agents. A dashed
    line per k shows, for comparison, the recall of the k best agents by one half of the items with the other half.
    """
    tooltips = make_tooltips("design:N", "top:N", "calls:Q ,.0f", "recall:Q .2f")
    chart_by_k = make_chart().encode(color=color_by("top", "found of"), tooltip=tooltips)
    recall_by_calls = chart_by_k.encode(
        x=alt.X("calls:Q", title="calls of both trial types", scale=alt.Scale(zero=False)),
        y=alt.Y("recall:Q", title="share of the dense top k found", scale=alt.Scale(domain=[0, 1])),
        shape=alt.Shape("design:N", title="design"),
        detail=alt.Detail("design:N"),
    )
    lines = recall_by_calls.mark_line(strokeWidth=2)
    points = recall_by_calls.mark_point(filled=True, size=60, opacity=1)
    dashed_lines = chart_by_k.mark_rule(strokeDash=[4, 4]).encode(y=alt.Y("halves:Q"))
    chart = lines + points + dashed_lines

    note = (
        "ρ refers to all agents, this figure to the best. Dashed: share of the best agents by one half of the items that are "
        "also the best by the other half."
    )
    title = "Recall of the best agents by budget"
    source = f"youden study budget, means over {study.n_seeds} seeds"
    return Figure("budget-top", title, note, source, chart, frame=_make_recall_frame(study), height=300)


def _make_recall_frame(study: BudgetStudy) -> Frame:
    """Make the data of the figure that shows the recall of the best agents at each budget.

    Returns a frame with one row per design, budget and number k of best agents (`top`). Column `halves` is the share of the best
    k agents that the rankings by two halves of the items have in common.
    """
    columns: dict[str, list[str | float | None]] = {name: [] for name in ("design", "calls", "top", "recall", "halves")}
    for design, results in study.designs.items():
        for result in results:  # at one budget
            recall_by_k = result.recalls or {}
            for k, recall in recall_by_k.items():
                columns["design"].append(design)
                columns["calls"].append(result.calls)
                columns["top"].append(f"top {k}")
                columns["recall"].append(recall)
                columns["halves"].append(study.halves.recalls[k])
    return Frame.from_columns(**columns)


@without_validation
def draw_sparsity_figures(study: SparsityStudy) -> tuple[Figure, ...]:
    """Draw the prediction error on held-out cells of each regime, as two figures.

    A regime is a design with a number of observed cells. The first figure shows the error by the fraction of observed cells,
    the second by the number of calls.
    """
    regimes = []
    rmse = []
    rmse_sd = []
    for regime in (*study.rows, study.dense):
        if regime.rmse and regime.calls and regime.of_all:
            regimes.append(regime)
            rmse.append(_mean(regime.rmse))
            rmse_sd.append(regime.rmse.sd or 0.0)
    frame = Frame.from_columns(
        regime=[regime.label for regime in regimes],
        design=[regime.label.split()[0] for regime in regimes],
        cells=[_mean(regime.of_all) for regime in regimes],
        calls=[_mean(regime.calls) for regime in regimes],
        rmse=rmse,
        low=np.subtract(rmse, rmse_sd),
        high=np.add(rmse, rmse_sd),
        rho=[_mean(regime.rho) for regime in regimes],
    )

    note = (
        f"Mean and SD over holdouts of {study.holdout:.0%} of the cells, with rule {study.rule}. All regimes have the same "
        "holdouts. A cell is not a call: it is compared with every other agent."
    )
    source = f"youden study sparsity, {study.n_agents} agents × {study.n_items} items, {study.kind} scores"
    rmse_axis = alt.Y("rmse:Q", title="RMSE on held-out cells (score units)", scale=alt.Scale(zero=False))
    figures = []
    for column, axis_title, number_format in (
        ("cells", "share of all cells", "%"),
        ("calls", "calls of both trial types", "~s"),
    ):
        base = make_chart().encode(
            x=alt.X(f"{column}:Q", title=axis_title, axis=alt.Axis(format=number_format)),
            color=color_by("design", "design"),
            tooltip=make_tooltips("regime:N", "rmse:Q .4f", "rho:Q .3f"),
        )
        chart = _draw_means_with_errors(base, rmse_axis, width=1.5)
        slug = f"sparsity-{column}"
        title = f"Holdout error by {column}"
        figures.append(Figure(slug, title, note, source, chart, frame=frame, height=280))
    return tuple(figures)


@without_validation
def draw_baseline_figures(study: BaselinesStudy) -> tuple[Figure, ...]:
    """Draw the prediction error (RMSE) of each model on held-out cells, lowest error first.

    Each model has a point at its mean error over the seeds, and a line from the 2.5 to the 97.5% quantile of its errors. Its
    rank correlation ρ with the dense ranking is shown in a tooltip.

    Returns a tuple of one figure.
    """
    rows = sorted(study.rows, key=lambda row: row.rmse.mean)
    models = [row.name for row in rows]
    frame = Frame.from_columns(
        model=models,
        rmse=[row.rmse.mean for row in rows],
        low=[row.rmse.low for row in rows],
        high=[row.rmse.high for row in rows],
        rho=[row.rho.mean for row in rows],
    )
    title = "Models on the same held-out cells"
    note = (
        f"Mean and central 95% of the seeds; holdout rule {study.rule}, {study.coverage.mean:.0%} of all cells observed. "
        "Models may differ although their intervals overlap, because they are compared on the same seeds, as in the "
        "sentences above."
    )
    source = f"youden study baselines, {study.kind} scores"
    height = 40 + 18 * len(rows)
    return (Figure("baselines", title, note, source, _make_error_chart(models), frame=frame, height=height),)


def _make_error_chart(models: Sequence[str]) -> alt.LayerChart:
    """Make the chart of the prediction errors of models on held-out cells, without its data.

    Each model has a dot at its mean error (RMSE) over the seeds, and a line from the 2.5% to the 97.5% quantile of
    its errors.

    models : names of the models in the order of the rows, from top to bottom
    """
    base = make_chart().encode(
        y=alt.Y("model:N", title=None, scale=make_tile_scale(models), axis=alt.Axis(labelLimit=220)),
        color=alt.value(GROUP_COLORS[0]),
        tooltip=make_tooltips("model:N", "rmse:Q .4f", "rho:Q .3f"),
    )
    intervals = base.mark_rule().encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"))
    mean_axis = alt.X("rmse:Q", title="RMSE on held-out cells (score units)", scale=alt.Scale(zero=False))
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(x=mean_axis)
    chart: alt.LayerChart = intervals + dots
    return chart


def _draw_means_with_errors(base: alt.Chart, mean: alt.Y, *, width: float) -> alt.LayerChart:
    """Draw means as dots on a line, with vertical error bars from column `low` to column `high` of the frame.

    base : chart with the horizontal axis and the colors
    mean : vertical axis, with the column of the means
    width : width of the line in pixels
    """
    lines = base.mark_line(strokeWidth=width).encode(y=mean)
    error_bars = base.mark_rule().encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(y=mean)
    chart: alt.LayerChart = lines + error_bars + dots
    return chart


def _mean(summary: SeedSummary | None) -> float:
    """Return the mean over seeds; NaN if there is none."""
    return float("nan") if summary is None else summary.mean
