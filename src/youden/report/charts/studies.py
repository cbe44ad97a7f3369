"""Figures of the studies: what cells and calls buy, which design is cheapest, how baselines compare."""

from __future__ import annotations

import altair as alt

from youden.report.charts.frames import Frame
from youden.report.charts.marks import GROUP_COLOURS, Figure, frame_chart, ordered, sized, unchecked
from youden.study.baselines import BaselinesStudy
from youden.study.budget.curves import BudgetStudy
from youden.study.budget.words import Goal, recommend
from youden.study.sparsity.curves import SparsityStudy, Spread


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
        tooltip=[
            alt.Tooltip("design:N"),
            alt.Tooltip("calls:Q", format=",.0f"),
            alt.Tooltip("percent:Q"),
            alt.Tooltip("rho:Q", format=".3f"),
        ],
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
        tooltip=[
            alt.Tooltip("design:N"),
            alt.Tooltip("top:N"),
            alt.Tooltip("calls:Q", format=",.0f"),
            alt.Tooltip("recall:Q", format=".2f"),
        ],
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
        tooltip=[alt.Tooltip("model:N"), alt.Tooltip("rmse:Q", format=".4f"), alt.Tooltip("rho:Q", format=".3f")],
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
        tooltip=[alt.Tooltip("regime:N"), alt.Tooltip("rmse:Q", format=".4f"), alt.Tooltip("rho:Q", format=".3f")],
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
