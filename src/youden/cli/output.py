"""What commands print: tables, notes, warnings, JSON; other people's text is made safe here.

Shared by several commands: a plan with its cost, a fitted run with its ranking and how far labels agree.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from youden.text.printable import printable
from youden.text.tables import Table, format_decimal

if TYPE_CHECKING:
    from rich.console import Console

    from youden.cli.options import Shown
    from youden.data.folder.run_folder import RunFolder
    from youden.judging.config.judge_files import JudgeConfig
    from youden.pipeline.judged_run import PlannedRun
    from youden.pipeline.precision import PrecisionForecast
    from youden.report.data.summary import Summary
    from youden.types import Finding, Plan
    from youden.types.label_facts import Validation
    from youden.types.planning import Cost
    from youden.types.pool import Json


def print_json(value: Mapping[str, Json]) -> None:
    """One JSON object on standard output."""
    click.echo(json.dumps(value, ensure_ascii=True, allow_nan=False))


def note(text: str) -> None:
    """A line on standard error."""
    click.echo(printable(text), err=True)


COLUMNS = 80


def console() -> Console:
    """Standard output; 80 columns wide where it is no terminal."""
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            """The reader had enough: `main` ends quietly."""
            raise BrokenPipeError

    return Output(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else COLUMNS)


def draw(of: Table) -> None:
    """A table on standard output."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Drawn

    terminal = console()
    drawn = Drawn(title=safe(of.title), title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for head, side in zip(of.heads, of.sides, strict=True):
        drawn.add_column(safe(head), justify="right" if side == "r" else "left", no_wrap=side == "c", overflow="fold")
    for row in of.rows:
        drawn.add_row(*map(safe, row))
    terminal.print(drawn)


def warn(warnings: Iterable[Finding | str]) -> None:
    """Lines on standard error that begin with `warning: `."""
    for warning in warnings:
        note(f"warning: {warning}")


def tell(
    as_json: bool,
    found: Mapping[str, Json],
    *,
    tables: Iterable[Table] = (),
    words: Iterable[str] = (),
    notes: Iterable[str] = (),
    warnings: Iterable[Finding | str] = (),
) -> None:
    """What a command found: as JSON, or as tables and words on standard output with notes beside them. Warnings come first."""
    warn(warnings)
    if as_json:
        print_json(found)
        return
    for one in tables:
        draw(one)
    for line in words:
        click.echo(printable(line))
    for line in notes:
        note(line)


def safe(text: str | None) -> str:
    """Other people's text, without markup or control characters."""
    from rich.markup import escape

    return "–" if text is None else escape(printable(text))


def minutes(value: float | None) -> str:
    """`about 4 minutes`."""
    if value is None:
        return "unknown time"
    if value < 1.5:
        return "under a minute" if value < 1 else "about a minute"
    return f"about {value:,.0f} minutes" if value < 120 else f"about {value / 60:,.1f} hours"


def with_sd(mean: float, sd: float | None) -> str:
    """`0.117 (0.003)`."""
    return format_decimal(mean) if sd is None else f"{format_decimal(mean)} ({format_decimal(sd)})"


def dollars(usd: float | None, *, whose: str = "the judge's") -> str:
    """`$1.20`. whose: config it is that may have no price."""
    return f"unknown ({whose} config has no price)" if usd is None else f"${usd:,.2f}"


def cost_in_words(cost: Cost, judge: str) -> str:
    """Estimated tokens and dollars, and what they rest on."""
    known = [f"tokens by {cost.tokenizer}"] if cost.tokens_in else []
    known += [f"prices from {cost.prices}"] if cost.prices else []
    left = "" if cost.usd_left is None else f", so that ${cost.usd_left:,.2f} is left to pay"
    stored = f"; {cost.stored:,} of the {cost.calls:,} answers are stored already{left}" if cost.stored else ""
    return (
        f"about {cost.tokens_in:,} tokens in and {cost.tokens_out:,} out, cost {dollars(cost.usd)} with {judge}"
        + (f" ({', '.join(known)})" if known else "")
        + stored
    )


def note_connections(judge: JudgeConfig) -> None:
    """Print where a judge sends texts, and which variable holds its key."""
    for line in judge.describe_connections():
        note(f"judge: {line}")


def show_run_plan(planned: PlannedRun, how: Shown = "verbose") -> PrecisionForecast:
    """Print a run's plan, its cost and its expected precision, and return the latter."""
    from youden.pipeline.precision import PrecisionForecast, read_variance_components

    note_connections(planned.judge)
    expected = PrecisionForecast(planned.plan, read_variance_components(planned.folder), kind=planned.judge.answers)
    show_plan(planned, how, expected=expected, half_width=expected.usual_half_width)
    return expected


def show_plan(
    planned: PlannedRun,
    how: Shown,
    *,
    plan: Plan | None = None,
    cost: Cost | None = None,
    expected: PrecisionForecast | None = None,
    half_width: str | None = None,
) -> None:
    """Print calls, estimated tokens and USD before anything runs, on standard error, so that data stays clean.

    plan, cost: the part of the run's plan that is asked, and its cost; by default the whole. expected: the expected precision,
    for the verbose form; half_width: approximate, of the intervals, for the short form.
    """
    from youden.protocol.coverage import compute_coverage
    from youden.text.printable import redact_location

    plan, cost, judge = plan or planned.plan, cost or planned.cost, planned.judge
    share = f"{100 * cost.calls / plan.n_dense_calls:.1f} % of dense"
    store = (
        f"; answers are kept in {redact_location(planned.config.store_location)}" if judge.stores_new_answers else ""
    )
    end = f"{_held_out(plan)}{store}"
    if how == "quiet":
        return
    if how == "short":
        left = cost.usd if cost.usd_left is None else cost.usd_left
        usd = "at an unknown price" if left is None else f"${left:,.2f}"
        stored = f" ({cost.stored:,} stored)" if cost.stored else ""
        width = "" if half_width is None else f", about ± {half_width}"
        note(f"plan: {plan.design}, {cost.calls:,} calls{stored} to {judge.name}, {share}, {usd}{width}{end}")
        return
    counted = compute_coverage(plan)
    note(
        f"plan: {plan.design}, {cost.cells:,} of {plan.n_agents * plan.n_items:,} cells, {cost.calls:,} calls ({share}), "
        f"{cost_in_words(cost, judge.name)}{end}"
    )
    if cost.pace:
        note(f"plan: {minutes(cost.minutes)} ({cost.pace})")
    note(
        f"plan: {counted.ordered:,} ordered pairs ({counted.unordered:,} unordered), {counted.independent:,} independent calls; "
        f"{counted.present_fraction:.1%} of all cells get a row score, {counted.train_fraction:.1%} of those left for training; "
        f"{counted.holdout:,} calls touch held-out cells"
    )
    lines = list(plan.notes)
    if expected is not None:
        from youden.pipeline.precision import format_forecast

        usd_per_call = None if cost.usd is None else cost.usd / max(cost.calls, 1)
        lines = [*format_forecast(expected, usd_per_call=usd_per_call, n_agents=plan.n_agents), *lines]
    for line in lines:
        note(f"plan: {line}")


def _held_out(plan: Plan) -> str:
    """Say that cells are held out if the design does so by itself."""
    if not plan.split.n_holdout or plan.asked.holdout is not None:
        return ""
    return f"; {plan.split.fraction:.0%} of the cells held out as '{plan.design}' does, `holdout: 0` ranks by all"


def places(low: int, high: int) -> str:
    """`3` or `3–5`."""
    return str(low) if low == high else f"{low}–{high}"


BAR_CELLS = 22
WIDE = 100


def _show_ranking(data: Summary) -> None:
    """The ranking with groups, intervals and, where the terminal has room, small bars."""
    draw(data.table(bar_cells=BAR_CELLS if console().width >= WIDE else 0))


def _show_labels(found: Validation) -> None:
    """How far the ranking agrees with labels, label by label, and the agents that stand elsewhere by label."""
    from youden.report.data.ranking_tables import labels_table

    draw(labels_table(found))
    for label in found.labels:
        for sentence in label.words:
            click.echo(printable(sentence))
        for one in label.disagreements:
            by_label = f"{places(one.label_low, one.label_high)} by '{label.name}' ({one.label:.4g})"
            by_ability = f"{one.place} by ability ({one.ability:.3f}, {places(one.rank_low, one.rank_high)})"
            click.echo(printable(f"  {one.agent}: {by_label}, {by_ability}{'' if one.explained else ', unexplained'}"))
    for line in found.notes:
        note(f"labels: {line}")


MOST_SAID = 3


def _show_in_short(data: Summary, ends: str, report: str, *, moved: Sequence[str], warnings: Sequence[str]) -> None:
    from youden.report.data.warnings import merge_by_kind

    lines = [*warnings, *(line.short for _, line in merge_by_kind(data.warnings, headline=data.headline))]
    for line in _first(lines, MOST_SAID - bool(moved)):
        note(f"warning: {line}")
    if data.calibration is not None:
        note(data.calibration)
    click.echo(printable(data.headline))
    _show_ranking(data)
    if moved:
        click.echo(printable(" ".join(_first(moved, MOST_SAID))))
    if data.labels is not None:
        _show_labels(data.labels)
    parts = data.signature.split("|")
    before = f"{ends}; " if ends else ""
    note(f"{before}report: {report} ({parts[0]}, {parts[-1]})")


def _first(lines: Sequence[str], most: int) -> list[str]:
    """The first `most` lines; the last one says how many more there are."""
    said, more = list(lines[:most]), len(lines) - most
    return [*said[:-1], f"{said[-1]} (and {more} more: see the report)"] if more > 0 else said


def show_asked(
    folder: RunFolder,
    data: Summary,
    how: Shown,
    *,
    why: str = "",
    moved: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> None:
    """Print a run that was just judged and fitted: its ranking and recommendation on standard output, the rest on standard error.

    why: reason why a search ended, printed before the next step; moved: what an extension moved, which replaces one warning in
    the short form; warnings: printed before those of the fit.
    """
    from youden.pipeline.precision import format_next_step

    if how == "quiet":
        _show_ranking(data)
        return
    calls = data.calls
    each = None if calls is None else calls.usd_per_call
    step = format_next_step(folder, data.facts, usd_per_call=each)
    bill = bill_words(data.warnings).removesuffix("; ")
    ends = "; ".join(filter(None, (bill, why, step and f"next: {step}")))
    if how == "short":
        _show_in_short(data, ends, str(folder.path / "report.html"), moved=moved, warnings=warnings)
        return
    warn(warnings)
    show_result(data, as_json=how == "json")
    if ends:
        note(ends)


def bill_words(warnings: Iterable[Finding]) -> str:
    """Format how many answers reported no credible token usage, to begin a command's last line; empty if there are none."""
    return "".join(
        f"{finding.facts['n']:,} answers of '{finding.facts['doubted']}' reported no credible token usage and are booked at "
        f"their worst case, ${finding.facts['usd']:.6g}; "
        for finding in warnings
        if "doubted" in finding.facts
    )


def show_result(data: Summary, *, as_json: bool) -> None:
    """A fitted run: warnings and signature on standard error, the ranking (or all of it as JSON) on standard output."""
    warn(data.warnings)
    if data.calibration is not None:
        note(data.calibration)
    if as_json:
        print_json(
            {
                "run": data.name,
                "recommendation": asdict(data.facts.recommendation),
                "ranking": [agent.as_json for agent in data.ranking],
                "facts": asdict(data.facts),
                "calibration": data.calibration,
                "labels": None if data.labels is None else asdict(data.labels),
                "signature": data.signature,
            }
        )
        return
    click.echo(printable(data.headline))
    _show_ranking(data)
    for line in data.standings:
        click.echo(printable(line))
    note(data.target)
    if data.labels is not None:
        _show_labels(data.labels)
    note(f"signature: {data.signature}")
