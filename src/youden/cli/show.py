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
from youden.text.tables import Table, two_sided

if TYPE_CHECKING:
    from rich.console import Console

    from youden.nouns import Cost, Finding, Json, Plan, Validation
    from youden.report.data.summary import Summary
    from youden.run.precision import Expected


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


def table(title: str, left: Sequence[str], right: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """The same. left, right: heads of its columns, by the side on which their cells stand."""
    draw(two_sided(title, left, right, rows))


def warn(warnings: Iterable[Finding | str]) -> None:
    """Lines on standard error that begin with `warning: `."""
    for warning in warnings:
        note(f"warning: {warning}")


def safe(text: str | None) -> str:
    """Other people's text, without markup or control characters."""
    from rich.markup import escape

    return "–" if text is None else escape(printable(text))


def fixed(value: float | None, digits: int = 3) -> str:
    """The number with so many digits behind the point, a dash for None."""
    return "–" if value is None else f"{value:.{digits}f}"


def minutes(value: float | None) -> str:
    """`about 4 minutes`."""
    if value is None:
        return "unknown time"
    if value < 1.5:
        return "under a minute" if value < 1 else "about a minute"
    return f"about {value:,.0f} minutes" if value < 120 else f"about {value / 60:,.1f} hours"


def with_sd(mean: float, sd: float | None) -> str:
    """`0.117 (0.003)`."""
    return fixed(mean) if sd is None else f"{fixed(mean)} ({fixed(sd)})"


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


def show_plan(plan: Plan, cost: Cost, judge: str, *, expected: Expected | None = None) -> None:
    """Cells, calls, estimated tokens and dollars, before anything runs; on standard error, so data stays clean.

    expected: what it buys.
    """
    from youden.protocol.coverage import coverage

    share = 100 * cost.calls / plan.n_dense_calls
    counted = coverage(plan)
    note(
        f"plan: {plan.design}, {cost.cells:,} of {plan.n_agents * plan.n_items:,} cells, {cost.calls:,} calls "
        f"({share:.1f} % of dense), {cost_in_words(cost, judge)}{_held_out(plan)}"
    )
    if cost.pace:
        note(f"plan: {minutes(cost.minutes)} ({cost.pace})")
    note(
        f"plan: {counted.ordered:,} ordered pairs ({counted.unordered:,} unordered), {counted.independent:,} independent calls; "
        f"{counted.of_present:.1%} of all cells get a row score, {counted.of_train:.1%} of those left for training; "
        f"{counted.holdout:,} calls touch held-out cells"
    )
    if expected is not None:
        from youden.run.precision import expected_words

        usd = None if cost.usd is None else cost.usd / max(cost.calls, 1)
        for line in expected_words(expected, usd_per_call=usd, n_agents=plan.n_agents):
            note(f"plan: {line}")
    for line in plan.notes:
        note(f"plan: {line}")


def _held_out(plan: Plan) -> str:
    """That a part is held out though nobody asked for it."""
    if not plan.split.n_holdout or plan.asked is None or plan.asked.holdout is not None:
        return ""
    return f"; {plan.split.fraction:.0%} of the cells held out as '{plan.design}' does, `holdout: 0` ranks by all"


def show_plan_line(plan: Plan, cost: Cost, judge: str, *, expected: Expected | None = None) -> None:
    """The same in one line, on standard error."""
    usd = "at an unknown price" if cost.usd is None else f"${cost.usd if cost.usd_left is None else cost.usd_left:,.2f}"
    stored = f" ({cost.stored:,} stored)" if cost.stored else ""
    half_width = {} if expected is None else expected.half_width
    width = f", about ± {half_width[1.0][1]:.3f}" if 1.0 in half_width else ""
    note(
        f"plan: {plan.design}, {cost.calls:,} calls{stored} to {judge}, {100 * cost.calls / plan.n_dense_calls:.1f} % of dense, "
        f"{usd}{width}{_held_out(plan)}"
    )


def places(low: int, high: int) -> str:
    """`3` or `3–5`."""
    return str(low) if low == high else f"{low}–{high}"


BAR_CELLS = 22
WIDE = 100


def show_ranking(data: Summary) -> None:
    """The ranking with groups, intervals and, where the terminal has room, small bars."""
    draw(data.table(bar_cells=BAR_CELLS if console().width >= WIDE else 0))


def show_labels(found: Validation) -> None:
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


MOST_WARNINGS = 3


def show_in_short(data: Summary, way_on: str, report: str, *, quiet: bool) -> None:
    """A fitted run in few lines: its ranking and choice on standard output, three warnings at most and the way on beside it."""
    from youden.report.data.warnings import together

    if quiet:
        show_ranking(data)
        return
    lines = [line.short for _, line in together(data.warnings, headline=data.headline)]
    more = len(lines) - MOST_WARNINGS
    for at, line in enumerate(lines[:MOST_WARNINGS], 1):
        note(f"warning: {line}" + (f" (and {more} more: see the report)" if at == MOST_WARNINGS and more > 0 else ""))
    click.echo(printable(data.headline))
    show_ranking(data)
    if data.labels is not None:
        show_labels(data.labels)
    parts = data.signature.split("|")
    note(f"{way_on}; report: {report} ({parts[0]}, {parts[-1]})")


def show_result(data: Summary, *, as_json: bool) -> None:
    """A fitted run: warnings and signature on standard error, the ranking (or all of it as JSON) on standard output."""
    warn(data.warnings)
    if as_json:
        print_json(
            {
                "run": data.name,
                "ranking": [agent.as_json for agent in data.ranking],
                "facts": asdict(data.facts),
                "labels": None if data.labels is None else asdict(data.labels),
                "signature": data.signature,
            }
        )
        return
    click.echo(printable(data.headline))
    show_ranking(data)
    for line in data.standings:
        click.echo(printable(line))
    note(data.target)
    if data.labels is not None:
        show_labels(data.labels)
    note(f"signature: {data.signature}")
