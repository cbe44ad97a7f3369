"""A gate's outcome in words, as Markdown for a pull request and as JUnit XML for a CI's list of tests.

It knows wording, Markdown and XML; it computes nothing. Agents' names are other people's: no character of them acts.
"""

from __future__ import annotations

import re
import shlex
from xml.etree import ElementTree as ET

from youden.practice.gate.decision import FEWEST_ITEMS, Gate, Gated
from youden.report.pages.markdown import quoted
from youden.stats.trials.noninferiority import Verdict
from youden.text.printable import printable

_MARKS: dict[Verdict, str] = {"better": "✅", "no worse": "✅", "worse": "❌", "undecided": "❔"}


def interval(row: Gated) -> str:
    """`−0.031 … 0.024`, or a dash where there is none."""
    return "–" if row.low is None or row.high is None else f"{row.low:+.3f} … {row.high:+.3f}"


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
        return f"Only {row.n_items} items tell of either; an interval takes {FEWEST_ITEMS}. Judge them on more."
    if needed.calls is not None:
        return f"{needed.calls:,} calls more decide it with a chance of 90 %, wherever the truth is."
    more = f"some {needed.items:,}" if needed.items else "more"
    known = "An imported run cannot be asked more" if gate.calls is None else "Every comparison on these items is asked"
    if needed.chance is not None:
        known = f"Asking every comparison on these items decides it with a chance of {needed.chance:.0%}"
    return f"{known}; for 90 % {more} items are needed, or a wider margin."


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
        f"most 5 % over all looks. {gate.method[0].upper()}{gate.method[1:]}; about items of this kind, not these alone."
    )


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
