"""Tabulate the registered designs with their summaries, defaults and options."""

from __future__ import annotations

import inspect

from making.marks import cell
from youden.protocol.designs import DESIGNS


def table(_: str = "") -> str:
    """Return a row for each design, which begins with the first two paragraphs of the docstring of its class."""
    lines = [
        "| design | trials | when to use it | paired trials per agent | independent trials | held-out cells | options |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in DESIGNS:
        design = DESIGNS.load(name)
        summary, _, details = (inspect.getdoc(design) or "").partition("\n\n")
        use = details.partition("\n\n")[0]
        n_trials = design.default_trials_per_agent or "all that it takes"
        options = ", ".join(f"`{option}`" for option in design.options)
        lines.append(
            f"| `{name}` | {cell(summary)} | {cell(use)} | {n_trials} | {design.default_independent} "
            f"| {design.default_holdout:.0%} | {options} |"
        )
    return "\n".join(lines)
