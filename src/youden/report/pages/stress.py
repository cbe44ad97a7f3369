"""A gaming audit as Markdown. Agents' names are other people's: no character of them acts."""

from __future__ import annotations

from youden.practice.stress.stressing import Stress
from youden.practice.stress.words import NOTES, columns, conclusion, rows
from youden.text.compared import items_compared
from youden.text.quoting import quoted


def render_markdown(found: Stress) -> str:
    """What got through, and a row an attack."""
    heads = columns(found)
    lines = [
        f"## What gaming does to the ranking of {quoted(found.name)}",
        "",
        f"{found.n_agents} agents × {items_compared(found.n_items, found.n_compared)}, judged by "
        f"{quoted(found.judge)} ({found.n_trials:,} trials). "
        f"Attackers start from the answers of {quoted(found.weak)}, {quoted(found.because)}.",
        "",
        *(f"- {quoted(line)}" for line in conclusion(found)),
        "",
        f"| {' | '.join(heads)} |",
        f"| {' | '.join('---' for _ in heads)} |",
        *(f"| {' | '.join(quoted(cell) for cell in row)} |" for row in rows(found)),
        "",
        NOTES,
        "",
        *(f"> {quoted(line)}" for line in found.warnings),
    ]
    return "\n".join([*lines, ""])
