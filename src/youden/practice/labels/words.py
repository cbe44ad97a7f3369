"""What a ranking's agreement with a label means, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from youden.nouns import Agreement, Disagreement, LabelFacts
from youden.text.intervals import with_interval

WIDE = 0.5
"""Width of ρ's interval from which on it says little of other agents."""


def label_words(found: LabelFacts, differing: Sequence[Disagreement]) -> LabelFacts:
    """`found` with its sentences. differing: all agents that differ, of which `found` has the first."""
    return replace(found, words=(*_agreement(found), *_direction(found), *_cells(found), *_apart(found, differing)))


def _agreement(found: LabelFacts) -> list[str]:
    rho = found.spearman
    if rho.value is None:
        return [f"'{found.name}' and the ranking cannot be compared: {rho.method.removeprefix('none: ')}."]
    said = [f"The ranking and '{found.name}', on {found.n_agents} agents: ρ = {_figure(rho)}."]
    if rho.low is None or rho.high is None:
        said.append(f"It has no interval: {rho.method.removeprefix('none: ')}.")
    elif rho.low <= 0 <= rho.high:
        said.append(f"That is no evidence of agreement: with {found.n_agents} agents the interval holds 0.")
    elif rho.high - rho.low > WIDE:
        said.append(f"{found.n_agents} agents leave the interval this wide; more agents narrow it, more calls do not.")
    return said


def _direction(found: LabelFacts) -> list[str]:
    rho = found.spearman
    if rho.high is None or rho.high >= 0:
        return []
    return ["High labels go with low abilities: if a high number is the worse one (an error rate), change its sign."]


def _cells(found: LabelFacts) -> list[str]:
    if found.cells is None:
        return []
    if found.cells.overall.value is None:
        return [f"Cell by cell nothing can be compared: {found.cells.n_cells:,} cells have a score and a label."]
    said = f"Cell by cell ({found.cells.n_cells:,}) ρ = {_figure(found.cells.overall)}"
    if found.cells.within.value is None:
        return [f"{said}; within items too few agents differ."]
    return [f"{said}; among agents within {found.cells.n_items:,} items its mean is {_figure(found.cells.within)}."]


def _apart(found: LabelFacts, differing: Sequence[Disagreement]) -> list[str]:
    if found.spearman.value is None:
        return []
    if not differing:
        return ["No agent stands at a place that its label does not allow."]
    n = len(differing)
    said = (
        f"Elsewhere by label: {n} of {found.n_agents} agents; differences too small to be sure explain "
        f"{n - found.n_unexplained} of these"
    )
    if not found.n_unexplained:
        return [f"{said}."]
    return [
        f"{said}, not the other {found.n_unexplained}: there this judge and the label value different things, or the label errs."
    ]


def _figure(found: Agreement) -> str:
    if found.value is None:
        return "–"
    return with_interval(found.value, found.low, found.high)
