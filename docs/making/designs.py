"""Tabulate the registered designs with their defaults and options."""

from __future__ import annotations

import inspect

from making.marks import cell
from youden.protocol.designs import DESIGNS


def table(_: str = "") -> str:
    """Return a row for each design: its summary is the first line of the docstring of its class."""
    lines = [
        "| design | summary | paired trials per agent | independent trials | held-out cells | options |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name in DESIGNS:
        design = DESIGNS.load(name)
        summary = (inspect.getdoc(design) or "").partition("\n")[0]
        n_trials = design.default_trials_per_agent or "all that it takes"
        options = ", ".join(f"`{option}`" for option in design.options)
        lines.append(
            f"| `{name}` | {cell(summary)} | {n_trials} | {design.default_independent} | {design.default_holdout:.0%} "
            f"| {options} |"
        )
    return "\n".join(lines)
