"""Render the result of a gate as Markdown and as JUnit XML.

Both formats contain the sentences of `workflows/gate_text.py`, which the terminal prints too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from youden.stats.trials.noninferiority import GateOutcome
from youden.text.printable import printable
from youden.text.sentences import escape_markdown
from youden.text.tables import to_markdown
from youden.workflows.gate import Gate, GateResult
from youden.workflows.gate_text import (
    describe_result,
    describe_run,
    format_footnote,
    format_next_command,
    format_outcome,
    gate_table,
)

if TYPE_CHECKING:
    pass


_MARKS: dict[GateOutcome, str] = {"better": "✅", "no worse": "✅", "worse": "❌", "undecided": "❔"}


def render_gate_markdown(gate: Gate) -> str:
    """Render the result of a gate, a comparison of new agents with a baseline, as Markdown.

    The outcome and a table of the agents are followed by the reasons for undecided results, the next command, and the
    recommendation of the run.
    """
    outcome = format_outcome(gate, gate.outcome)
    heading = f"## {_MARKS[gate.outcome]} {outcome}: {_format_agents(gate)} against {escape_markdown(gate.baseline)}"
    lines = [heading, "", to_markdown(gate_table(gate)), ""]
    undecided = [row for row in gate.agents if row.outcome == "undecided"]
    lines += [f"- {escape_markdown(describe_result(gate, row))}" for row in undecided]

    command = format_next_command(gate)
    if command is not None:
        lines += ["", _format_code_block(printable(command))]
    for paragraph in (*describe_run(gate), format_footnote(gate)):
        lines += ["", escape_markdown(paragraph)]
    return "\n".join([*lines, "", f"<sub>{escape_markdown(gate.signature)}</sub>", ""])


def _format_code_block(command: str) -> str:
    """Format a shell command as a code block of Markdown, with a fence longer than any backticks in the command."""
    longest = max(map(len, re.findall("`+", command)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}sh\n{command}\n{fence}"


def render_junit(gate: Gate) -> str:
    """Render the result of a gate, a comparison of new agents with a baseline, as JUnit XML.

    Each agent is a test case. The outcome "worse" is a failure, and "undecided" an error.
    """
    outcomes = [row.outcome for row in gate.agents]
    counts = {
        "tests": str(len(outcomes)),
        "failures": str(outcomes.count("worse")),
        "errors": str(outcomes.count("undecided")),
        "skipped": "0",
        "time": "0",
    }
    root = ET.Element("testsuites", counts)
    suite = ET.SubElement(root, "testsuite", {"name": "youden gate", **counts})
    properties = ET.SubElement(suite, "properties")
    values = {"baseline": gate.baseline, "margin": f"{gate.margin:g}", "signature": gate.signature}
    for name, value in values.items():
        ET.SubElement(properties, "property", {"name": name, "value": printable(value)})
    for row in gate.agents:
        _add_test_case(suite, gate, row)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add_test_case(suite: ET.Element, gate: Gate, row: GateResult) -> None:
    """Add the result of one agent of a gate to a test suite of JUnit XML, as a test case.

    The test case has a failure if the agent is worse than the baseline, and an error if this is undecided. The text of both is
    the command to run next.

    suite : element of the test suite; changed in place
    row : result of the agent
    """
    message = printable(describe_result(gate, row))
    names = {"classname": f"youden.gate against {printable(gate.baseline)}", "name": printable(row.agent)}
    case = ET.SubElement(suite, "testcase", {**names, "time": "0"})

    if row.outcome in ("worse", "undecided"):
        kind = "failure" if row.outcome == "worse" else "error"
        problem = ET.SubElement(case, kind, {"type": row.outcome, "message": message})
        problem.text = printable(format_next_command(gate) or "")

    ET.SubElement(case, "system-out").text = message


def _format_agents(gate: Gate) -> str:
    """Format the agents of a gate: the name of the only one, or their number."""
    if len(gate.agents) == 1:
        return escape_markdown(gate.agents[0].agent)
    return f"{len(gate.agents)} agents"
