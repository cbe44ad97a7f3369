"""A gate's outcome as Markdown for a pull request and as JUnit XML for a CI's list of tests.

Agents' names are other people's: no character of them acts.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from youden.practice.gate.decision import Gate
from youden.practice.gate.words import footing, interval, sentence, to_do
from youden.stats.trials.noninferiority import Verdict
from youden.text.printable import printable
from youden.text.quoting import quoted

_MARKS: dict[Verdict, str] = {"better": "✅", "no worse": "✅", "worse": "❌", "undecided": "❔"}


def render_markdown(gate: Gate) -> str:
    """Verdict, a row an agent, and what to do."""
    lines = [
        f"## {_MARKS[gate.verdict]} {gate.verdict}: {_named(gate)} against {quoted(gate.baseline)}",
        "",
        "| | agent | verdict | difference | interval | level | items |",
        "| --- | --- | --- | --: | --- | --: | --: |",
    ]
    lines += [
        f"| {_MARKS[row.verdict]} | {quoted(row.agent)} | {row.verdict} | {row.difference:+.3f} | {interval(row)} "
        f"| {row.level:.2%} | {row.n_items:,} |"
        for row in gate.agents
    ]
    lines += ["", *(f"- {quoted(sentence(gate, row))}" for row in gate.agents if row.verdict == "undecided")]
    command = to_do(gate)
    if command is not None:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", command)), default=0))
        lines += ["", f"{fence}sh", printable(command), fence]
    return "\n".join([*lines, "", quoted(footing(gate)), "", f"<sub>{quoted(gate.signature)}</sub>", ""])


def render_junit(gate: Gate) -> str:
    """One test an agent: worse fails, undecided is an error, all else passes."""
    verdicts = [row.verdict for row in gate.agents]
    counts = {
        "tests": str(len(verdicts)),
        "failures": str(verdicts.count("worse")),
        "errors": str(verdicts.count("undecided")),
        "skipped": "0",
        "time": "0",
    }
    root = ET.Element("testsuites", counts)
    suite = ET.SubElement(root, "testsuite", {"name": "youden gate", **counts})
    properties = ET.SubElement(suite, "properties")
    for name, value in {"baseline": gate.baseline, "margin": f"{gate.margin:g}", "signature": gate.signature}.items():
        ET.SubElement(properties, "property", {"name": name, "value": printable(value)})
    for row in gate.agents:
        said = printable(sentence(gate, row))
        against = {"classname": f"youden.gate against {printable(gate.baseline)}", "name": printable(row.agent)}
        case = ET.SubElement(suite, "testcase", {**against, "time": "0"})
        if row.verdict in ("worse", "undecided"):
            kind = "failure" if row.verdict == "worse" else "error"
            ET.SubElement(case, kind, {"type": row.verdict, "message": said}).text = printable(to_do(gate) or "")
        ET.SubElement(case, "system-out").text = said
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _named(gate: Gate) -> str:
    return quoted(gate.agents[0].agent) if len(gate.agents) == 1 else f"{len(gate.agents)} agents"
