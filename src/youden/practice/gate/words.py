"""A gate's outcome in words: what was found out about each agent, what to do next, and how the error was shared."""

from __future__ import annotations

import shlex

from youden.nouns import Target
from youden.practice.gate.decision import FEWEST_ITEMS, Gate, Gated
from youden.text.compared import counted
from youden.text.intervals import signed

SPEAKS_OF: dict[Target, str] = {
    "items-like-these": "items of this kind, not these alone",
    "these-items": "these items alone, as if every comparison of them had been asked",
}


def interval(row: Gated) -> str:
    """`−0.031 … 0.024`, or a dash where there is none."""
    return signed(row.low, row.high, digits=3)


def sentence(gate: Gate, row: Gated) -> str:
    """What was found out about one agent, and what to do where that was nothing."""
    at = f"{100 * row.level:.4g} % interval {interval(row)}"
    about = f"{row.agent}, ability less that of {gate.baseline}: {row.difference:+.3f} ({at})"
    match row.verdict:
        case "better":
            return f"better: {about}."
        case "no worse":
            return f"no worse: {about}, all above the margin −{gate.margin:g}."
        case "worse":
            return f"worse: {about}."
        case "undecided":
            return f"undecided: {about}. {_undecided(gate, row)}"


def _undecided(gate: Gate, row: Gated) -> str:
    needed = row.needed
    if row.low is None or needed is None:
        seen = counted(row.n_items, "item")
        return f"One of the two was seen on {seen} only; an interval takes {FEWEST_ITEMS}. Judge it on more."
    if needed.calls is not None:
        return f"{needed.calls:,} calls more decide it with a chance of 90 %, wherever the truth is."
    more = f"some {needed.items:,}" if needed.items else "more"
    known = "An imported run cannot be asked more" if gate.calls is None else "Every comparison on these items is asked"
    if needed.chance is not None:
        known = (
            f"Asking every comparison on these items decides it with a chance of {needed.chance:.0%} where the truth is hardest "
            "to tell"
        )
    as_it_is = ""
    if needed.as_it_is:
        as_it_is = (
            f" If the difference stays what it is, {needed.as_it_is:,} items compared as often as these decide it."
        )
    return f"{known}; for 90 % {more} items are needed, or a wider margin.{as_it_is}"


def to_do(gate: Gate) -> str | None:
    """The command that goes on, and what it costs; None where no calls are asked for."""
    needed = gate.needed
    if needed is None:
        return None
    price = "price unknown" if needed.usd is None else f"about ${needed.usd:,.2f}"
    in_all = (gate.calls or 0) + (needed.calls or 0)
    config = f"{gate.folder}/config.yaml"
    if gate.extends:
        focus = [word for agent in gate.focus for word in ("--focus", agent)]
        command = shlex.join(["youden", "extend", gate.folder, "--calls", str(needed.calls), *focus])
    else:
        command = (
            f"{shlex.join(['youden', 'run', config])}  # with `calls: {in_all}`; what was answered is not asked again"
        )
    return f"{command}  # {price}; {in_all:,} calls in all; then gate again"


def footing(gate: Gate) -> str:
    """How the error was shared."""
    looks = sorted({row.look for row in gate.agents})
    number = " and ".join(map(str, looks))
    together = f", shared by {len(gate.agents)} agents asked together (Bonferroni)" if len(gate.agents) > 1 else ""
    return (
        f"Margin {gate.margin:g}; look {number} at these answers{together}. A wrong 'worse', or a wrong pass, has a chance of at "
        f"most 5 % over all looks. {gate.method[0].upper()}{gate.method[1:]}; about {SPEAKS_OF[gate.target]}."
    )
