"""Format the result of a gate: a table, a sentence per agent, the next command, and a footnote on the error rate.

The terminal, Markdown and JUnit output share these texts.
"""

from __future__ import annotations

from collections.abc import Iterator

from youden.stats.base.clusters import MIN_ITEMS
from youden.stats.trials.noninferiority import GateOutcome
from youden.text.printable import format_command
from youden.text.sentences import format_count, format_recognition_difference, format_signed_interval
from youden.text.tables import Table, make_table
from youden.types.results import ABOUT
from youden.workflows.gate import Gate, GateResult, RequiredCalls

_CONSISTENCY_OUTCOMES: dict[GateOutcome, str] = {
    "better": "more consistent",
    "no worse": "not less consistent",
    "worse": "less consistent",
}


def format_outcome(gate: Gate, outcome: GateOutcome) -> str:
    """Format an outcome, as consistency if the gate compares agents by it."""
    return _CONSISTENCY_OUTCOMES.get(outcome, outcome) if gate.is_of_self_consistency else outcome


def gate_table(gate: Gate) -> Table:
    """Format the result of a gate as a table with one row per agent.

    A gate compares new agents with a baseline.

    Parameters
    ----------
    gate : Gate
        Result of `gate_run`.

    Returns
    -------
    Table
        Verdict, difference, interval, its level, and the number of items (or labels) of each agent.
    """
    rows = []
    for row in gate.agents:
        interval = _format_interval(row)
        outcome = format_outcome(gate, row.outcome)
        rows.append([row.agent, outcome, f"{row.difference:+.3f}", interval, f"{row.level:.2%}", f"{row.n_items:,}"])
    title = f"Against {gate.baseline}, margin {gate.margin:g}"
    count_heading = "labels" if gate.by == "quality" else "items"
    return make_table(title, ["agent", "outcome"], ["difference", "interval", "level", count_heading], rows)


def _format_interval(row: GateResult) -> str:
    """Format the interval as `−0.031 … 0.024`, or as a dash if there is none."""
    return format_signed_interval(row.low, row.high, digits=3)


def describe_result(gate: Gate, row: GateResult) -> str:
    """Describe the result of a gate for one agent.

    If the result is undecided, the text states what would decide it. A gate tests whether a new agent is worse than a baseline.

    Parameters
    ----------
    gate : Gate
        Result of `gate_run`.
    row : GateResult
        One of `gate.agents`.

    Returns
    -------
    str
        One sentence or more.
    """
    if row.reason:
        return f"undecided: {row.agent} against {gate.baseline}: {row.reason}"
    description = f"{format_outcome(gate, row.outcome)}: {_format_comparison(gate, row)}"
    if row.n_items == 0 and gate.by == "ability":
        description += (
            f" ({row.agent} and {gate.baseline} share no item: the difference depends on fitted item difficulties)"
        )
    match row.outcome:
        case "better" | "worse":
            return f"{description}."
        case "no worse":
            is_per_100 = gate.by == "ability" and not gate.is_of_self_consistency
            margin = 100 * gate.margin if is_per_100 else gate.margin
            return f"{description}; the whole interval is above the margin −{margin:g}."
        case "undecided":
            return f"{description}. {_describe_requirement(gate, row)}"


def _format_comparison(gate: Gate, row: GateResult) -> str:
    """Format the difference of an agent from the baseline, with its interval.

    The result is a clause without a full stop. A difference in ability or preference is stated per 100 comparisons. For ability,
    it is the number of comparisons in which the judge recognizes the responses of the agent, minus this number for the baseline.
    For preference, it is the wins of the agent minus its losses. A difference in self-consistency or quality is stated on its own
    scale.
    """
    if gate.is_of_self_consistency or gate.by == "quality":
        return _format_scale_comparison(gate, row)

    count_text = format_recognition_difference(abs(row.difference))
    interval = f"{100 * row.level:.4g}% interval {_format_interval_per_100(row)}"
    is_lower = row.difference < 0
    if gate.is_of_preferences:
        verb, opposite = ("loses", "wins") if is_lower else ("wins", "loses")
        comparisons = f"{count_text} more of 100 comparisons with {gate.baseline}"
        return f"{row.agent} {verb} {comparisons} than it {opposite} ({interval})"

    comparative = "fewer" if is_lower else "more"
    return (
        f"the judge recognizes the responses of {row.agent} in {count_text} {comparative} of 100 comparisons than "
        f"those of {gate.baseline} ({interval})"
    )


def _format_interval_per_100(row: GateResult) -> str:
    """Format the interval of a difference in ability per 100 comparisons, or as a dash if there is none."""
    if row.low is None or row.high is None:
        return "–"
    return format_signed_interval(100 * row.low, 100 * row.high, digits=1)


def _format_scale_comparison(gate: Gate, row: GateResult) -> str:
    """Format the difference of an agent from the baseline in self-consistency or quality, with its interval.

    The difference is absolute: on the scale of self-consistency, or in units of the labels for quality.
    """
    interval = f"{100 * row.level:.4g}% interval {_format_interval(row)}"
    if gate.by == "quality":
        return f"{row.agent}, quality minus that of {gate.baseline}: {row.difference:+.3f} ({interval})"
    comparative = "lower" if row.difference < 0 else "higher"
    return (
        f"the self-consistency of {row.agent} is {abs(row.difference):.3f} {comparative} than that of {gate.baseline} "
        f"({interval})"
    )


def _describe_requirement(gate: Gate, row: GateResult) -> str:
    """Describe what an undecided comparison needs for a decision: more labels, calls or items.

    The calls or items give a conditional power of 90%. The conditional power is the probability of a decision if the true
    difference has the value that makes a decision least likely.
    """
    required = row.required
    if gate.by == "quality":
        return "Label more responses of both agents; `youden label` selects them."
    if row.low is None or required is None:
        return _describe_missing_interval(gate, row)
    if required.calls is None:
        return _describe_required_items(required, is_imported=gate.calls is None)
    return f"{required.calls:,} more calls decide with a conditional power of 90%, whatever the true difference is."


def _describe_required_items(required: RequiredCalls, *, is_imported: bool) -> str:
    """Describe how many items an undecided comparison needs for a decision.

    Further calls on the present items cannot decide this comparison. The conditional power is the probability of a decision,
    given the answers so far, for the true difference that makes a decision least likely.

    required : numbers of items that are needed, and the conditional power if all comparisons on the present items are made
    is_imported : whether the run was imported, so that no calls can be added

    Returns two to five sentences: the reason and the number of items. If known, they also state how many independent calls halve
    the standard errors of the false-positive rates, and how many items are enough if the true difference equals the estimate.
    """
    if required.conditional_power is not None:
        reason = (
            "Even with all possible paired comparisons on these items, the conditional power is only "
            f"{required.conditional_power:.0%} in the least favorable case"
        )
    elif is_imported:
        reason = "An imported run cannot be extended"
    else:
        reason = "Every paired comparison on these items has been made"

    addition = f"about {required.items:,} items" if required.items else "more items or independent trials"
    message = f"{reason}. A conditional power of 90% needs {addition}, or a wider margin."
    if required.independent_calls is not None:
        message += (
            " More independent comparisons also narrow the interval: after all paired ones, `youden extend calls` adds them. "
            f"{required.independent_calls:,} more halve the standard errors of the false-positive rates."
        )
    if not required.items_at_current_difference:
        return message

    return (
        f"{message} If the true difference equals the estimate, {required.items_at_current_difference:,} items with as many "
        "comparisons each as now are enough for a decision."
    )


def _describe_missing_interval(gate: Gate, row: GateResult) -> str:
    """Explain why the difference of an agent from the baseline has no interval.

    One of the two agents was compared on too few items. For preferences, the effective number of items counts. It is the number
    of equally weighted items with the same information.
    """
    n_items = format_count(row.n_items, "item")
    if gate.is_of_preferences:
        return (
            f"The comparisons of the two agents contain only as much information as comparisons on {n_items}; an "
            f"interval needs {MIN_ITEMS}. Add comparisons of both agents on more items, with several agents and in both orders."
        )
    return f"One of the two agents was compared on {n_items} only; an interval needs {MIN_ITEMS}. Add comparisons on more items."


def format_next_command(gate: Gate) -> str | None:
    """Format the command that adds the calls needed for a decision, with their cost.

    Parameters
    ----------
    gate : Gate
        Result of `gate_run`.

    Returns
    -------
    str or None
        A shell command with a comment; None if no calls would decide.
    """
    needed = gate.required
    if needed is None:
        return None
    price = "price unknown" if needed.usd is None else f"about ${needed.usd:,.2f}"
    total_calls = (gate.calls or 0) + (needed.calls or 0)
    if gate.extendable:
        words = ["youden", "extend", "calls", gate.folder, str(needed.calls)]
        for agent in gate.focus:
            words += ["--focus", agent]
        command = format_command(words)
    else:  # run it again with a larger budget
        run_command = format_command(["youden", "run", f"{gate.folder}/config.yaml"])
        command = f"{run_command}  # with `calls: {total_calls}`; stored answers are reused"
    return f"{command}  # {price}; {total_calls:,} calls in all; then run the gate again"


def describe_gate(gate: Gate) -> Iterator[str]:
    """Yield the conclusions of a gate, one line each.

    A gate compares new agents with a baseline.

    Parameters
    ----------
    gate : Gate
        Result of `gate_run`.

    Yields
    ------
    str
        The result for each agent, the next command, lines on the whole run, the footnote, and the signature.
    """
    yield from (describe_result(gate, row) for row in gate.agents)
    command = format_next_command(gate)
    if command is not None:
        yield command
    yield from describe_run(gate)
    yield format_footnote(gate)
    yield f"signature: {gate.signature}"


def describe_run(gate: Gate) -> tuple[str, ...]:
    """Describe what a user must know about the run of a gate.

    This includes wider margins than before, the calibration of the judge, and the recommended agents.

    Parameters
    ----------
    gate : Gate
        Result of `gate_run`.

    Returns
    -------
    tuple of str
        A warning for each agent that was tested with a smaller margin before; the calibration of the judge, if one is stored;
        the recommendation of the run, if there is one; and the notes on labels. A run of self-trials recommends nothing.
    """
    lines = [
        f"Warning: the margin {gate.margin:g} is wider than that of an earlier analysis of {row.agent} against {gate.baseline}, "
        f"{row.smaller_margin:g}. A margin must not be chosen by its result: repeat the gate with --margin "
        f"{row.smaller_margin:g}."
        for row in gate.agents
        if row.smaller_margin is not None
    ]
    lines += [gate.calibration] if gate.calibration else []
    if gate.recommendation is not None and not gate.is_of_self_consistency:
        lines.append(f"Among all agents of the run, independently of this gate: {gate.recommendation.text}")
    lines += [f"labels: {note}" for note in gate.label_notes]
    return tuple(lines)


def format_footnote(gate: Gate) -> str:
    """Format the footnote of a gate.

    It states the margin, the error rate, the method and the population of items.

    Parameters
    ----------
    gate : Gate
        Result of `gate_run`.

    Returns
    -------
    str
        Two sentences or more.
    """
    analysis_numbers = sorted({row.analysis for row in gate.agents})
    analyses = " and ".join(map(str, analysis_numbers))
    bonferroni_note = ""
    if len(gate.agents) > 1:
        bonferroni_note = f", with alpha divided among {len(gate.agents)} agents compared together (Bonferroni)"
    design = f"Margin {gate.margin:g}; interim analysis {analyses}{bonferroni_note}."

    worse = format_outcome(gate, "worse")
    condition = ", if the intervals of quality have their coverage" if gate.by == "quality" else ""
    error_rate = (
        f"A wrong '{worse}', or a wrong pass, has a probability of at most 5% over all interim analyses{condition}."
    )

    method = gate.method[0].upper() + gate.method[1:]  # starts a sentence
    population = ABOUT[gate.target]
    return f"{design} {error_rate} {method}; the difference refers to {population}."
