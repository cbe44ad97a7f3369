"""Pages and Markdown from their data, and the files they are written to: a run's report, two runs, a study, a gate, a stress
test.

Nothing is computed here. Agents' names are other people's: no character of them acts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from youden.data.atomic import replacing
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError
from youden.report.charts import vega
from youden.report.charts.vega import PictureKind, draw, picture_spec, stress_spec
from youden.report.data.comparison import Comparison
from youden.report.data.report import ReportData
from youden.report.data.summary import ABILITY, Summary
from youden.report.pages import embed
from youden.stats.trials.noninferiority import Verdict
from youden.text.printable import printable
from youden.text.sentences import counted, items_compared, quoted
from youden.text.tables import as_markdown, fixed
from youden.types import Finding
from youden.types.pool import Json, plain_fields
from youden.workflows.gate import Gate, footing, of_all, sentence, table, to_do
from youden.workflows.stress import NOTES, Stress, attacks_table, conclusion

if TYPE_CHECKING:
    from youden.report.charts.marks import Figure


@dataclass(frozen=True)
class StudyPart:
    """A study of one run: its words and its figures."""

    name: str
    signature: str
    words: tuple[str, ...]
    figures: tuple[Figure, ...]


MAX_AGENTS = 30
BAR = 20
RunLine = tuple[str, str, str, Summary | None, str | None]
"""A run in the viewer's list: name, its name in an address, state, what it says if it is fitted, what is wrong with it."""


def render_page(data: ReportData, *, live: str | None = None, home: str | None = None) -> str:
    """A run's report. Everything from outside is escaped, and shown with its control characters spelt out.

    live: path under which the viewer serves this run's trials, None for a file that has only its sample; home: the viewer's
    list of runs.
    """
    return _render(
        "report.html",
        figures=embed.report_figures(data),
        trials=embed.trial_data(data.trials, data.agents.agents, data.item_ids, sampled=live is None),
        live=live,
        home=home,
        report=data,
        run=data.summary,
        ability=ABILITY,
        agent_json=embed.json_text(embed.agent_data(data)),
        scripts_of=("agents.js",),
    )


def render_comparison(data: Comparison, *, live: str | None = None, home: str | None = None) -> str:
    """Two runs side by side."""
    return _render(
        "comparison.html",
        figures=embed.comparison_figures(data),
        trials=embed.trial_data(data.trials, data.agent_ids, data.item_ids, sampled=live is None),
        live=live,
        home=home,
        report=data,
    )


def _render_study(title: str, parts: Sequence[StudyPart]) -> str:
    """A study's figures and words, run by run. Needs the chart library."""
    figures: dict[str, Json] = {}
    shown = []
    for number, part in enumerate(parts, start=1):
        named = {f"{figure.slug}-{number}": figure.to_json() for figure in part.figures}
        figures |= named
        shown.append((part.name, part.signature, part.words, list(named)))
    return _render("study.html", figures=figures, live=None, home=None, title=title, parts=shown)


def render_runs(lines: Sequence[RunLine]) -> str:
    """The viewer's list of runs."""
    return _render("runs.html", live=None, home="/", lines=lines)


def render_live(name: str, address: str) -> str:
    """A run under way. address: the run's path in the viewer."""
    return _render("live.html", figures={}, live=address, home="/", name=name, charts=True)


def _render(
    template: str,
    *,
    live: str | None,
    home: str | None,
    figures: Mapping[str, Json] | None = None,
    trials: Mapping[str, Json] | None = None,
    charts: bool = False,
    scripts_of: Sequence[str] = (),
    **content: object,
) -> str:
    drawn = (charts or bool(figures)) and vega.has_charts()
    names = ["page.js", *(["figures.js"] if drawn else []), *(["trials.js"] if trials else []), *scripts_of]
    used = embed.scripts(*names, *(["live.js"] if template == "live.html" else []), charts=drawn)
    return (
        embed.environment()
        .get_template(template)
        .render(
            content,
            figures=figures or {},
            figure_json=embed.json_text(dict(figures or {})),
            trial_json=embed.json_text(dict(trials) if trials else None),
            live=live,
            home=home,
            scripts=used,
            policy=embed.policy(used, served=home is not None),
        )
    )


def render_markdown(data: ReportData) -> str:
    """A run's summary for a pull request: headline, warnings, ranking with bars, cost and signature."""
    run = data.summary
    lines = [
        f"## {quoted(run.name)}: {run.n_agents} agents on {run.items}",
        "",
        f"**{quoted(run.headline)}**",
        "",
        f"{quoted(ABILITY)} {quoted(run.target)}",
        "",
    ]
    lines += [quoted(run.calibration), ""] if run.calibration else []
    lines += [quoted(run.chances), ""] if run.chances else []
    lines += _warned(data.advice)
    lines += [
        "",
        as_markdown(run.table(bar_cells=BAR, most=MAX_AGENTS)),
    ]
    if len(run.ranking) > MAX_AGENTS:
        lines += ["", f"… and {counted(len(run.ranking) - MAX_AGENTS, 'agent')} more."]
    lines += ["", *(f"{quoted(line)} " for line in run.standings)]
    if run.calls is not None:
        lines += [
            f"{run.calls.n_calls:,} calls ({fixed(run.percent_of_dense, 1)} % of dense), "
            f"{run.calls.n_missing:,} without an answer. "
        ]
        if run.calls.n_reused:
            then = "" if data.reused_usd is None else f"; they cost ${data.reused_usd:,.4f} then"
            lines += [f"{counted(run.calls.n_reused, 'answer', 'was', 'were')} asked before this run{then}. "]
    if (held := run.facts.holdout) is not None:
        lines += [f"Held-out cells: RMSE {held.rmse:.3f} on {held.n_cells:,} cells ({held.rule}). "]
    if run.partners is not None:
        lines += [quoted(run.partners)]
    if run.moves is not None:
        lines += [f"What moves it: {quoted(run.moves.sentence)} "]
    if run.facts.growth is not None:
        lines += ["", *(f"- {quoted(line)}" for line in run.moved)]
    if run.labels is not None:
        lines += ["", f"Against {quoted(run.labels.source)}, which no fit has seen:", ""]
        lines += [f"- {quoted(' '.join(label.words))}" for label in run.labels.labels]
        lines += [f"- {quoted(line)}" for line in run.labels.notes]
    if run.quality is not None:
        lines += ["", "Quality, from labels:", "", *(f"- {quoted(line)}" for line in run.quality.words)]
    return "\n".join([*lines, "", f"<sub>{quoted(run.signature)}</sub>", ""])


def _warned(found: Iterable[Finding]) -> list[str]:
    """A line each, with what to do."""
    return [f"> ⚠ {quoted(one.says)}{f' **{quoted(one.todo)}**' if one.todo else ''}  " for one in found]


_MARKS: dict[Verdict, str] = {"better": "✅", "no worse": "✅", "worse": "❌", "undecided": "❔"}


def gate_markdown(gate: Gate) -> str:
    """Verdict, a row an agent, what to do, and which agent of the whole run to take."""
    lines = [
        f"## {_MARKS[gate.verdict]} {gate.verdict}: {_named(gate)} against {quoted(gate.baseline)}",
        "",
        as_markdown(table(gate)),
    ]
    lines += ["", *(f"- {quoted(sentence(gate, row))}" for row in gate.agents if row.verdict == "undecided")]
    command = to_do(gate)
    if command is not None:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", command)), default=0))
        lines += ["", f"{fence}sh", printable(command), fence]
    ends = (paragraph for line in (*of_all(gate), footing(gate)) for paragraph in ("", quoted(line)))
    return "\n".join([*lines, *ends, "", f"<sub>{quoted(gate.signature)}</sub>", ""])


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


def _stress_markdown(found: Stress) -> str:
    """What got through, and a row an attack."""
    lines = [
        f"## What gaming does to the ranking of {quoted(found.name)}",
        "",
        f"{found.n_agents} agents × {items_compared(found.n_items, found.n_compared)}, judged by "
        f"{quoted(found.judge)} ({found.n_trials:,} trials). "
        f"Attackers start from the answers of {quoted(found.weak)}, {quoted(found.because)}.",
        "",
        *(f"- {quoted(line)}" for line in conclusion(found)),
        "",
        as_markdown(attacks_table(found)),
        "",
        NOTES,
        "",
        *_warned(found.warnings),
    ]
    return "\n".join([*lines, ""])


def write_report(folder: RunFolder) -> ReportData:
    """Build the report of a fitted run, write it as report.html, and hand its data back.

    Raises: RunFolderError naming the file that is missing and the command that makes it.
    """
    return write_page(folder)[1]


def write_page(folder: RunFolder, *, out: Path | None = None) -> tuple[Path, ReportData]:
    """The report as HTML, at `out` or as the folder's report.html. Raises: RunFolderError."""
    data = ReportData(folder)
    path = folder.file("report.html") if out is None else out
    write_file(path, render_page(data))
    return path, data


def write_comparison(one: RunFolder, two: RunFolder, *, out: Path | None = None) -> Path:
    """Both runs side by side, at `out` or in the first one's folder. Raises: RunFolderError."""
    path = one.file(f"against-{two.path.resolve().name}.html") if out is None else out
    write_file(path, render_comparison(Comparison(one, two)))
    return path


def write_picture(folder: RunFolder, slug: str, *, kind: PictureKind, out: Path | None = None) -> Path:
    """One figure. Raises: RunFolderError; ConfigError [unknown-chart], [pictures-missing]."""
    vega.need_pictures()
    path = folder.file(f"{slug}.{kind}") if out is None else out
    drawn = draw(picture_spec(ReportData(folder), slug), kind)
    with replacing(path) as fresh:
        fresh.write_bytes(drawn)
    return path


def write_as(
    folder: RunFolder, kind: str, *, out: Path | None = None, chart: str | None = None, against: RunFolder | None = None
) -> Path:
    """Write a run's report, or a part of it.

    Parameters
    ----------
    folder : RunFolder
        A fitted run.
    kind : {"html", "md", "csv", "png", "svg"}
        The whole report, its summary, the ranking, or one figure.
    out : path, optional
        File to write. Default: one in the run's folder.
    chart : str, optional
        Figure of "png" and "svg". Default: "ranking".
    against : RunFolder, optional
        Other run to show side by side ("html").

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ConfigError
        [report-format], [report-against]; as `write_picture`.
    RunFolderError
        If a file of the run is missing.
    """
    if against is not None and kind != "html":
        raise ConfigError(
            f"A report of two runs is available as html only: got the format {kind}. Leave out the format.",
            slug="report-against",
        )
    if against is not None:
        return write_comparison(folder, against, out=out)
    if kind == "html":
        return write_page(folder, out=out)[0]
    if kind in ("png", "svg"):
        return write_picture(folder, chart or "ranking", kind="png" if kind == "png" else "svg", out=out)
    if kind not in TEXTS:
        raise ConfigError(
            f"A report has no such format: got '{kind}'. Pass html, md, csv, png or svg.", slug="report-format"
        )
    path = folder.file(f"report.{kind}") if out is None else out
    write_file(path, TEXTS[kind](folder))
    return path


def write_study(path: Path, title: str, parts: Sequence[StudyPart]) -> None:
    """A study as HTML. The caller has checked `vega.need_charts`."""
    write_file(path, _render_study(title, parts))


def write_stress(found: Stress, out: Path) -> tuple[Path, ...]:
    """stress.md, stress.json and, with vl-convert, stress.svg in the folder `out`, made where it is missing."""
    texts = {
        "stress.md": _stress_markdown(found),
        "stress.json": json.dumps(plain_fields(found), ensure_ascii=True, indent=1, allow_nan=False) + "\n",
    }
    if vega.has_pictures():
        texts["stress.svg"] = draw(stress_spec(found), "svg").decode()
    for name, text in texts.items():
        write_file(out / name, text)
    return tuple(out / name for name in texts)


def markdown(folder: RunFolder) -> str:
    """A summary as Markdown. Raises: RunFolderError."""
    return render_markdown(ReportData(folder))


def ranking_csv(folder: RunFolder) -> str:
    """The ranking as the folder has it. Raises: RunFolderError."""
    folder.read_ranking()
    return folder.file("ranking.csv").read_bytes().decode("utf-8-sig").replace("\r\n", "\n")


TEXTS = {"md": markdown, "csv": ranking_csv}
"""Formats of a report that are text, and what makes it."""


def write_file(path: Path, text: str) -> None:
    """Replace a file in one step, UTF-8."""
    with replacing(path) as fresh:
        fresh.write_text(text, encoding="utf-8", newline="\n")
