"""A fitted run on a terminal and as JSON: its ranking, its warnings, and how far labels agree."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.table import Table

from youden.cli.terms import show
from youden.text.intervals import with_interval
from youden.text.printable import printable

if TYPE_CHECKING:
    from youden.nouns import Agreement, Json, Validation
    from youden.report.data.summary import Summary

BAR_CELLS = 22
WIDE = 100


def show_ranking(data: Summary) -> None:
    """The ranking with groups, intervals and, where the terminal has room, small bars."""
    console = show.console()
    bars = console.width >= WIDE
    table = Table(title=f"{show.safe(data.name)}: {data.n_agents} agents on {data.items}", title_justify="left")
    table.add_column("places", justify="right")
    table.add_column("agent")
    table.add_column("group")
    table.add_column("ability", justify="right")
    table.add_column(f"{data.facts.level:.0%} interval")
    if bars:
        table.add_column("", no_wrap=True)
    table.add_column("trials", justify="right")
    if data.shows_length:
        table.add_column("by length", justify="right")
    for agent in data.ranking:
        interval = f"{show.fixed(agent.low)} … {show.fixed(agent.high)}"
        bar = ""
        if agent.bar is not None:
            first = round(agent.bar.low / 100 * (BAR_CELLS - 1))
            last = max(first, round((agent.bar.low + agent.bar.width) / 100 * (BAR_CELLS - 1)))
            bar = " " * first + "─" * (last - first + 1)
            middle = round(agent.bar.middle / 100 * (BAR_CELLS - 1))
            bar = bar[:middle] + "●" + bar[middle + 1 :]
        cells = [
            agent.places,
            show.safe(agent.agent),
            show.safe(agent.group),
            show.fixed(agent.ability),
            interval,
            *([bar] if bars else []),
            f"{agent.n_trials:,}",
        ]
        if data.shows_length:
            cells.append("–" if agent.length_place is None else str(agent.length_place))
        table.add_row(*cells)
    console.print(table)


def show_labels(found: Validation) -> None:
    """How far the ranking agrees with labels, label by label, and the agents that stand elsewhere by label."""
    table = show.table(
        f"against {show.safe(found.source)} ({found.level:.0%} intervals)",
        ["label", "agents", "Spearman ρ", "Kendall τ-b", "AUC"],
    )
    for label in found.labels:
        table.add_row(
            show.safe(label.name), str(label.n_agents), *map(_agreement, (label.spearman, label.kendall, label.auc))
        )
    show.console().print(table)
    for label in found.labels:
        for sentence in label.words:
            click.echo(printable(sentence))
        for one in label.disagreements:
            by_label = f"{show.places(one.label_low, one.label_high)} by '{label.name}' ({one.label:.4g})"
            by_ability = f"{one.place} by ability ({one.ability:.3f}, {show.places(one.rank_low, one.rank_high)})"
            click.echo(printable(f"  {one.agent}: {by_label}, {by_ability}{'' if one.explained else ', unexplained'}"))
    for line in found.notes:
        show.note(f"labels: {line}")


def _agreement(found: Agreement | None) -> str:
    if found is None or found.value is None:
        return "–"
    return with_interval(found.value, found.low, found.high)


def show_result(data: Summary, *, as_json: bool) -> None:
    """A fitted run: warnings and signature on standard error, the ranking (or all of it as JSON) on standard output."""
    show.warn(data.warnings)
    if as_json:
        ranking: list[Json] = [
            {
                "agent": agent.agent,
                "group": agent.group,
                "ability": agent.ability,
                "low": agent.low,
                "high": agent.high,
                "rank_low": agent.rank_low,
                "rank_high": agent.rank_high,
                "n_trials": agent.n_trials,
                "error": agent.error,
                "place_low": agent.place_low,
                "place_high": agent.place_high,
                "length_place": agent.length_place,
                "standings": {name: asdict(standing) for name, standing in agent.standings.items()},
            }
            for agent in data.ranking
        ]
        show.print_json(
            {
                "run": data.name,
                "ranking": ranking,
                "facts": asdict(data.facts),
                "labels": None if data.labels is None else asdict(data.labels),
                "signature": data.signature,
            }
        )
        return
    show_ranking(data)
    for line in data.standings:
        click.echo(printable(line))
    show.note(data.target)
    if data.labels is not None:
        show_labels(data.labels)
    show.note(f"signature: {data.signature}")
