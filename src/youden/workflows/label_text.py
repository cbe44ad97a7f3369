"""Describe in sentences how well a ranking agrees with a label.

The sentences are stored in labels.json, so that the terminal, the report and the viewer show the same text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from youden.text.sentences import format_count, format_with_interval
from youden.types.label_facts import Agreement, CellAgreement, Disagreement, LabelFacts

WIDE_INTERVAL = 0.5
"""Width of the confidence interval of ρ above which a sentence warns that it is wide."""


def describe_agreement(facts: LabelFacts, disagreements: Sequence[Disagreement]) -> Iterator[str]:
    """Describe in sentences how well the ranking of agents agrees with their mean labels.

    Parameters
    ----------
    facts : LabelFacts
        Correlation of the label with the abilities of the agents. Its `disagreements` are not used, because they are truncated.
    disagreements : sequence of Disagreement
        All agents whose ranks by ability and by label differ.

    Yields
    ------
    str
        A sentence, such as "Agreement of the ranking with 'quality' on 12 agents: ρ = 0.81 [0.43, 0.95]."
    """
    rho = facts.spearman
    if rho.value is None:
        yield f"'{facts.name}' and the ranking cannot be compared: {_get_reason(rho)}."
    else:
        yield f"Agreement of the ranking with '{facts.name}' on {facts.n_agents} agents: ρ = {_format_with_interval(rho)}."
        yield from _describe_interval(rho, n_agents=facts.n_agents)

    if facts.cells is not None:
        yield _describe_cell_agreement(facts.cells)
    if rho.value is not None:
        yield _describe_disagreements(facts, n_differing=len(disagreements))


def _get_reason(agreement: Agreement) -> str:
    """Return why a correlation or its interval is undefined; its `method` is then "none: " and the reason."""
    return agreement.method.removeprefix("none: ")


def _describe_interval(rho: Agreement, *, n_agents: int) -> Iterator[str]:
    """Yield warnings about the confidence interval of the correlation between labels and abilities."""
    if rho.low is None or rho.high is None:
        yield f"It has no confidence interval: {_get_reason(rho)}."
        return
    if rho.low <= 0 <= rho.high:
        yield f"This is no evidence of agreement: with {n_agents} agents, the interval contains 0."
    elif rho.high - rho.low > WIDE_INTERVAL:
        yield f"With {n_agents} agents, the interval is wide. Add agents to narrow it; more calls do not."
    if rho.high < 0:
        yield "High labels go with low abilities. If high values are worse, as for an error rate, change their sign."


def _describe_cell_agreement(cells: CellAgreement) -> str:
    """Describe how well scores and labels of single cells (one agent on one item each) agree."""
    if cells.overall.value is None:
        return f"Single cells cannot be compared: {format_count(cells.n_cells, 'cell', 'has', 'have')} both a score and a label."
    overall = f"Over single cells ({cells.n_cells:,}), ρ = {_format_with_interval(cells.overall)}"
    if cells.within_item.value is None:
        return f"{overall}; too few agents differ within items."
    within_items = _format_with_interval(cells.within_item)
    return f"{overall}; its mean over agents within {format_count(cells.n_items, 'item')} is {within_items}."


def _describe_disagreements(facts: LabelFacts, *, n_differing: int) -> str:
    """Describe how many agents rank differently by label and by ability.

    A difference counts as explained if the confidence intervals of the two ranks overlap, because it may then be due to chance.

    facts : comparison of the labels with the abilities, with the number of unexplained differences
    n_differing : number of agents whose ranks differ
    """
    if n_differing == 0:
        return "No agent has another rank by label than by ability."

    n_explained = n_differing - facts.n_unexplained
    description = (
        f"{n_differing} of {facts.n_agents} agents have another rank by label; overlapping rank intervals explain "
        f"{n_explained} of these"
    )
    if not facts.n_unexplained:
        return f"{description}."
    return (
        f"{description}, but not the other {facts.n_unexplained}: for these, the judge and the label value different things, "
        "or the label is wrong."
    )


def _format_with_interval(agreement: Agreement) -> str:
    """Format a correlation with its confidence interval; return a dash if it is undefined."""
    if agreement.value is None:
        return "–"
    return format_with_interval(agreement.value, agreement.low, agreement.high)
