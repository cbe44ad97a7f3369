"""Render reports, comparisons, studies and stress tests as HTML or Markdown, and write them to files.

Nothing is computed here. Names and texts of a pool are untrusted, so that their markup and control characters
are escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from youden.data.atomic import atomic_write
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError
from youden.pipeline.abilities import SELF_RANKING
from youden.pipeline.fitted_run import check_fit
from youden.report.charts import vega
from youden.report.charts.vega import PictureKind, make_figure_spec, render_picture, stress_spec
from youden.report.data.comparison import Comparison
from youden.report.data.report import ReportData
from youden.report.data.summary import Summary
from youden.report.pages import embed
from youden.study.instruments import compare_instruments
from youden.study.preference_judges import compare_preference_runs
from youden.text.sentences import (
    ABILITY,
    PREFERENCE_ABILITY,
    SELF_ABILITY,
    escape_markdown,
    format_count,
    format_items_compared,
)
from youden.text.tables import Table, to_markdown
from youden.types import Finding
from youden.types.pool import Json, plain_fields
from youden.workflows.stress import NOTES, Stress, attacks_table, conclusion

if TYPE_CHECKING:
    from youden.report.charts.marks import Figure


@dataclass(frozen=True)
class StudyPart:
    """Results of a study on one run."""

    name: str
    """Name of the run."""
    summary: tuple[str, ...]
    """Sentences that summarize the results."""
    figures: tuple[Figure, ...]
    """Figures."""
    signature: str = ""
    """Signature of the run; empty if there are several runs."""
    table: Table | None = None
    """Table of the results."""


MAX_AGENTS = 30
"""Maximum number of agents in a Markdown table."""
BAR_CELLS = 20
"""Width in characters of the bar of an interval in a Markdown table."""
RunLine = tuple[str, str, str, Summary | None, str | None]
"""Run in the list of the viewer: name, name in an address, state, summary if it is fitted, and error message if there
is one."""


def render_page(data: ReportData, *, live: str | None = None, home: str | None = None) -> str:
    """Render the report of a run as HTML.

    Parameters
    ----------
    data : ReportData
        Data of the report.
    live : str, optional
        Path of a URL under which the viewer serves the trials of the run. Default: the page contains a sample of the trials.
    home : str, optional
        Path of a URL of the list of runs of the viewer; it is passed together with `live`. Default: the page is a file and
        loads nothing.

    Returns
    -------
    str
        The whole HTML document. Nothing is written.
    """
    return _render(
        "report.html",
        figures=embed.draw_report_figures(data),
        trials=embed.collect_trial_data(data.trials, data.agents.agents, data.item_ids, has_sample=live is None),
        live=live,
        home=home,
        report=data,
        run=data.summary,
        ability=_explain_ability(data.summary),
        agent_json=embed.to_script_json(embed.collect_agent_data(data)),
        scripts_of=("agents.js",),
    )


def render_preferences(run: Summary, *, home: str | None = None) -> str:
    """Render the report of a run that asks for preferences as HTML; `home` is the path of the viewer's list of runs."""
    return _render(
        "preference.html",
        figures=embed.draw_ranking_alone(
            run.ranking, source="ranking.csv", level=run.facts.level, unit="win rate − loss rate"
        ),
        live=None,
        home=home,
        run=run,
        ability=PREFERENCE_ABILITY,
        ranking=run.table(bar_cells=0),
    )


def render_comparison(data: Comparison, *, live: str | None = None, home: str | None = None) -> str:
    """Render a comparison of two runs as HTML.

    Parameters
    ----------
    data : Comparison
        Data of the comparison.
    live : str, optional
        Path of a URL under which the viewer serves the trials of both runs. Default: the page contains a sample of the trials.
    home : str, optional
        Path of a URL of the list of runs of the viewer; it is passed together with `live`. Default: the page is a file and
        loads nothing.

    Returns
    -------
    str
        The whole HTML document. Nothing is written.
    """
    return _render(
        "comparison.html",
        figures=embed.draw_comparison_figures(data),
        trials=embed.collect_trial_data(data.trials, data.agent_ids, data.item_ids, has_sample=live is None),
        live=live,
        home=home,
        report=data,
    )


def _render_study(title: str, parts: Sequence[StudyPart], *, home: str | None = None) -> str:
    """Render a study as HTML, with one section of sentences and figures per part.

    The chart library has to be installed.

    title : title of the page
    parts : results of the study, for example one part per run
    home : URL path of the viewer's list of runs; None for a page in a file
    """
    figures: dict[str, Json] = {}  # name of a figure on the page → figure
    parts_with_figure_names = []
    for number, part in enumerate(parts, start=1):
        figure_names = []
        for figure in part.figures:
            name = f"{figure.slug}-{number}"  # unique, although parts have the same figures
            figures[name] = figure.to_json()
            figure_names.append(name)
        parts_with_figure_names.append((part, figure_names))
    return _render("study.html", figures=figures, live=None, home=home, title=title, parts=parts_with_figure_names)


def render_runs(lines: Sequence[RunLine]) -> str:
    """Render the list of runs of the viewer as HTML."""
    return _render("runs.html", live=None, home="/", lines=lines)


def render_live(name: str, address: str) -> str:
    """Render the page of a run in progress as HTML; `address` is the path of the run in the viewer."""
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
    """Render a template of the package as HTML, with the scripts that it needs.

    Parameters
    ----------
    template : str
        File name of the template.
    live, home : str or None
        Paths under which the viewer serves trials, and its list of runs; None for a page in a file.
    figures, trials : mapping of str to object, optional
        Figures and trials as JSON.
    charts : bool, default False
        Whether the page needs the chart library for figures that its scripts draw later, although `figures` is empty.
    scripts_of : sequence of str, optional
        Further scripts of the page, by file name.
    **content : object
        Variables of the template.
    """
    has_charts = (charts or bool(figures)) and vega.has_charts()
    names = ["page.js"]
    if has_charts:
        names.append("figures.js")
    if trials:
        names.append("trials.js")
    names += scripts_of
    if template == "live.html":
        names.append("live.js")
    scripts = embed.load_scripts(*names, charts=has_charts)
    page = embed.get_environment().get_template(template)
    return page.render(
        content,
        figures=figures or {},
        figure_json=embed.to_script_json(dict(figures or {})),
        trial_json=embed.to_script_json(dict(trials) if trials else None),
        live=live,
        home=home,
        scripts=scripts,
        policy=embed.make_policy(scripts, is_served=home is not None),
    )


def _explain_ability(run: Summary) -> str:
    """Return the explanation of the abilities of a run, which are self-consistencies if its trials are self-trials."""
    return SELF_ABILITY if run.facts.ranking == SELF_RANKING else ABILITY


def render_markdown(data: ReportData) -> str:
    """Render the summary of a run as Markdown, for example for a pull request."""
    summary = data.summary
    lines = _format_headline(summary)
    lines += _format_warnings(data.advice)
    lines += ["", to_markdown(summary.table(bar_cells=BAR_CELLS, max_agents=MAX_AGENTS))]
    n_left_out = len(summary.ranking) - MAX_AGENTS
    if n_left_out > 0:
        lines += ["", f"… and {format_count(n_left_out, 'agent')} more."]

    # the sentences and numbers are one paragraph; the space at the end of a line separates its sentence from the next one
    lines += ["", *(f"{escape_markdown(sentence)} " for sentence in summary.standings)]
    lines += _format_summary_statistics(data)
    lines += _format_labels(summary)
    return "\n".join([*lines, "", f"<sub>{escape_markdown(summary.signature)}</sub>", ""])


def _format_headline(run: Summary) -> list[str]:
    """Format the beginning of the report of a run as lines of Markdown: title, recommendation and explanations.

    Sentences on the calibration of the judge, on selection bias, and on the probabilities of being the best are added, if the run
    has them.
    """
    recommendation, evidence = run.headline_parts
    lines = [
        f"## {escape_markdown(run.name)}: {format_count(run.n_agents, 'agent')} on {run.items}",
        "",
        f"**{escape_markdown(recommendation)}** {escape_markdown(evidence)}".rstrip(),
        "",
        f"{escape_markdown(_explain_ability(run))} {escape_markdown(run.target)}",
        "",
    ]
    for sentence in (run.calibration, run.selection_text, run.p_best_text):
        if sentence:
            lines += [escape_markdown(sentence), ""]
    return lines


def _format_summary_statistics(data: ReportData) -> list[str]:
    """Format the statistics that follow the ranking in the report of a run as lines of Markdown.

    They concern calls, prediction error, the influence of partners (the agents that an agent is compared with), variance
    components, and changes by the last extension. Unknown statistics are left out.
    """
    run = data.summary
    lines = _format_numbers_of_calls(data)
    holdout = run.facts.holdout
    if holdout is not None:
        lines.append(f"Held-out cells: RMSE {holdout.rmse:.3f} on {holdout.n_cells:,} cells ({holdout.rule}). ")
    if run.partners_text is not None:
        lines.append(escape_markdown(run.partners_text))
    if run.variance is not None:
        lines.append(f"Variance: {escape_markdown(run.variance.summary)} ")
    if run.facts.extension is not None:
        lines += ["", *(f"- {escape_markdown(line)}" for line in run.extension_sentences)]
    return lines


def _format_numbers_of_calls(data: ReportData) -> list[str]:
    """Format the numbers of calls of a run, and of the answers that it reused, as lines of Markdown.

    The calls are also stated in percent of the calls of a dense plan, which compares all ordered pairs of agents on all items.

    Returns an empty list for an imported run, which has no calls.
    """
    calls = data.summary.calls
    if calls is None:
        return []

    percent = ""  # self-trials have no dense plan
    if data.summary.percent_of_dense is not None:
        free_trials = f" without {format_count(calls.n_free, 'free independent call')}" if calls.n_free else ""
        percent = f" ({data.summary.percent_of_dense:.1f}% of dense{free_trials})"
    lines = [f"{calls.n_done:,} calls{percent}, {calls.n_missing:,} without an answer. "]

    if calls.n_shared:
        n_shared = format_count(calls.n_shared, "trial", "was", "were")
        lines.append(f"{n_shared} answered by the request of another trial with the same two texts. ")
    if calls.n_reused:
        cost = "" if data.reused_usd is None else f"; they cost ${data.reused_usd:,.4f}"
        n_reused = format_count(calls.n_reused, "answer", "was", "were")
        lines.append(f"{n_reused} requested before this run{cost}. ")
    if not calls.paid.is_zero:
        lines.append(f"In total, {calls.paid.describe()}. ")
    return lines


def _format_labels(run: Summary) -> list[str]:
    """Format how well a ranking agrees with labels, and the qualities estimated from labels, as lines of Markdown.

    Labels are numbers that the user has for some agents. The ranking is compared with them, but does not use them.

    Returns an empty list for a run without labels.
    """
    lines = []
    validation = run.labels
    if validation is not None:
        lines += ["", f"Agreement with {escape_markdown(validation.source)}, on which no fit depends:", ""]
        lines += [f"- {escape_markdown(' '.join(agreement.summary))}" for agreement in validation.labels]
        lines += [f"- {escape_markdown(note)}" for note in validation.notes]
    if run.quality is not None:
        lines += ["", "Quality, estimated from labels:", ""]
        lines += [f"- {escape_markdown(sentence)}" for sentence in run.quality.summary]
    return lines


def _format_warnings(findings: Iterable[Finding]) -> list[str]:
    """Format each finding with its remedy as one line of Markdown."""
    lines = []
    for finding in findings:
        remedy = f" **{escape_markdown(finding.remedy)}**" if finding.remedy else ""
        lines.append(f"> ⚠ {escape_markdown(finding.message)}{remedy}  ")
    return lines


def _render_stress_markdown(stress: Stress) -> str:
    """Render a stress test as Markdown: conclusions, and one row per attack."""
    lines = [
        f"## Effect of attacks on the ranking of {escape_markdown(stress.name)}",
        "",
        f"{stress.n_agents} agents × {format_items_compared(stress.n_items, stress.n_compared)}, judged by "
        f"{escape_markdown(stress.judge)} ({stress.n_trials:,} trials). "
        f"Attacks start from the responses of {escape_markdown(stress.base_agent)}, {escape_markdown(stress.base_agent_reason)}.",
        "",
        *(f"- {escape_markdown(line)}" for line in conclusion(stress)),
        "",
        to_markdown(attacks_table(stress)),
        "",
        NOTES,
        "",
        *_format_warnings(stress.warnings),
    ]
    return "\n".join([*lines, ""])


def _render_preferences_as_markdown(run: Summary) -> str:
    """Render the summary of a run that asks for preferences (which response is better?) as Markdown.

    The title is followed by paragraphs, one per text. Texts that the run does not have are left out. Then follow the warnings,
    the ranking, and the signature, which identifies the judge, the design and the data of the run.
    """
    title = f"## {escape_markdown(run.name)}: {format_count(run.n_agents, 'agent')} on {run.items}"
    texts = [
        run.headline,
        PREFERENCE_ABILITY,
        run.target,
        run.selection_text,
        run.p_best_text,
        *run.preference_sentences,
        *run.extension_sentences,
    ]
    paragraphs = [escape_markdown(text) for text in texts if text]
    warnings = "\n".join(_format_warnings(run.warnings))
    table = to_markdown(run.table(bar_cells=BAR_CELLS, max_agents=MAX_AGENTS))
    signature = f"<sub>{escape_markdown(run.signature)}</sub>"
    labels = "\n".join(_format_labels(run)).strip()
    parts = [title, *paragraphs, warnings, table, labels, signature]
    return "\n\n".join(filter(None, parts)) + "\n"


def write_report(folder: RunFolder) -> Summary:
    """Write the report of a fitted run to report.html in its folder.

    Parameters
    ----------
    folder : RunFolder
        Folder of the run.

    Returns
    -------
    Summary
        Summary of the run.

    Raises
    ------
    RunFolderError
        If a file is missing or damaged; the message names the command that creates it.
    """
    return write_page(folder)[1]


def write_page(folder: RunFolder, *, out: Path | None = None) -> tuple[Path, Summary]:
    """Write the report of a fitted run as HTML.

    out : file to write, which is replaced if it exists; by default, report.html in the folder of the run

    Returns the path of the file and the summary of the run.
    """
    path = folder.file("report.html") if out is None else out
    if folder.asks_preference:
        summary = Summary(folder)
        write_file(path, render_preferences(summary))
        return path, summary
    data = ReportData(folder)
    write_file(path, render_page(data))
    return path, data.summary


def write_comparison(first: RunFolder, second: RunFolder, *, out: Path | None = None) -> Path:
    """Write a comparison of two fitted runs as HTML, and return its path.

    A run asks for information (are two responses to the same item?) or for preferences (which response is better?). The page
    depends on the questions of the two runs:

    - both information: the rankings and the trials of both runs side by side
    - both preferences: a comparison of the rankings and of the answers
    - different questions: a comparison of the rankings only

    out : file to write, which is replaced if it exists; missing folders are created. By default, against-SECOND.html in the
        folder of the first run, with SECOND the name of the folder of the second run.

    Raises RunFolderError if a file of a run is missing or damaged; [fit-stale], [run-other-plan] if a run was planned or judged
    again since it was fitted; [compare-nothing] if the runs have no agent in common; [compare-preferences] if a run asks for
    preferences and fewer than 3 agents are in both. Raises ConfigError [judges-pools] if both runs ask for preferences and judged
    different pools.
    """
    path = first.file(f"against-{second.path.resolve().name}.html") if out is None else out
    if first.asks_preference or second.asks_preference:
        write_file(path, render_preference_comparison(first, second))
    else:
        write_file(path, render_comparison(Comparison(first, second)))
    return path


def render_preference_comparison(first: RunFolder, second: RunFolder, *, home: str | None = None) -> str:
    """Render a comparison of two fitted runs, at least one of which asks for preferences, as HTML.

    If only one run asks for preferences, the page has a figure of the abilities in both runs. It is left out if the package
    for charts is not installed.

    home : URL path of the viewer's list of runs; None for a page in a file
    """
    if first.asks_preference and second.asks_preference:
        study = compare_preference_runs(first, second)
        part = StudyPart("Two runs by preference", study.summary, (), table=study.table())
        return _render_study(" and ".join(study.runs), [part], home=home)

    comparison = compare_instruments(first, second)
    figures: tuple[Figure, ...] = ()
    if vega.has_charts():
        from youden.report.charts.studies import draw_abilities_by_question

        figures = (draw_abilities_by_question(comparison),)
    part = StudyPart("Two instruments", comparison.summary, figures, table=comparison.table())
    return _render_study(" and ".join(comparison.runs), [part], home=home)


def write_picture(folder: RunFolder, slug: str, *, kind: PictureKind, out: Path | None = None) -> Path:
    """Write one figure of a fitted run as a picture, and return its path.

    slug : short name of the figure: for example, "ranking"
    kind : format of the picture, "svg" or "png", whatever the suffix of `out`
    out : file, by default SLUG.KIND in the folder of the run; an existing file is replaced, and missing folders are created

    Raises ConfigError [unknown-chart] if the run has no such figure (the message lists its figures), [pictures-missing] if a
    required package is not installed; RunFolderError if a file of the run is missing or damaged, and [run-preference] if the run
    asks for preferences. It is not checked whether the ranking is older than the answers.
    """
    vega.need_pictures()  # raises an error if a package is missing
    path = folder.file(f"{slug}.{kind}") if out is None else out
    figure_spec = make_figure_spec(ReportData(folder), slug)
    picture = render_picture(figure_spec, kind)
    with atomic_write(path) as temporary_path:
        temporary_path.write_bytes(picture)
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
        "html": the whole report. "md": its summary. "csv": the ranking. "png", "svg": one figure.
    out : path, optional
        File to write; an existing one is replaced, and missing folders are created. Default: a file in the run's folder. It is
        CHART.KIND for a figure, against-RUN.html for two runs (RUN is the name of the folder `against`), and otherwise
        report.KIND.
    chart : str, optional
        Short name of the figure of "png" and "svg"; ignored for others. Default: "ranking".
    against : RunFolder, optional
        Other fitted run to show side by side ("html").

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ConfigError
        [report-format]: if `kind` is unknown; [report-against]: if `against` is given and `kind` is not "html";
        [unknown-chart]: if the run has no such figure; [pictures-missing]: if a required package is not installed.
    RunFolderError
        If a file of a run is missing or damaged; [fit-stale], [run-other-plan]: if a run was planned or judged again since
        it was fitted; [run-preference]: if `kind` is "png" or "svg" and the run asks for preferences; [compare-nothing],
        [compare-preferences]: if the two runs have too few agents in common.
    """
    if against is not None and kind != "html":
        raise ConfigError(
            f"A report of two runs is available as html only: got the format {kind}. Remove the format, or set it to html.",
            slug="report-against",
        )
    check_fit(folder)
    if against is not None:
        check_fit(against)
        return write_comparison(folder, against, out=out)
    if kind == "html":
        return write_page(folder, out=out)[0]
    if kind in ("png", "svg"):
        return write_picture(folder, chart or "ranking", kind="png" if kind == "png" else "svg", out=out)
    if kind not in TEXTS:
        raise ConfigError(
            f"The format of the report is unknown: got '{kind}'. Pass html, md, csv, png or svg.", slug="report-format"
        )
    path = folder.file(f"report.{kind}") if out is None else out
    write_file(path, TEXTS[kind](folder))
    return path


def write_study(path: Path, title: str, parts: Sequence[StudyPart]) -> None:
    """Write a study as HTML, with one section per run.

    The chart library has to be installed (`vega.need_charts`).
    """
    write_file(path, _render_study(title, parts))


def write_stress(stress: Stress, out: Path) -> tuple[Path, ...]:
    """Write the result of a stress test (a run with planted adversarial agents) to files, replacing existing ones.

    Parameters
    ----------
    stress : Stress
        Result of the stress test.
    out : Path
        Folder, which is created if it does not exist.

    Returns
    -------
    tuple of Path
        Paths of stress.md, stress.json and, if vl-convert is installed, stress.svg.
    """
    texts = {
        "stress.md": _render_stress_markdown(stress),
        "stress.json": json.dumps(plain_fields(stress), ensure_ascii=True, indent=1, allow_nan=False) + "\n",
    }
    if vega.has_pictures():
        texts["stress.svg"] = render_picture(stress_spec(stress), "svg").decode()
    for name, text in texts.items():
        write_file(out / name, text)
    return tuple(out / name for name in texts)


def read_markdown(folder: RunFolder) -> str:
    """Read a fitted run and render its summary as Markdown; RunFolderError if a file is missing, damaged or stale."""
    check_fit(folder)
    if folder.asks_preference:
        return _render_preferences_as_markdown(Summary(folder))
    return render_markdown(ReportData(folder))


def read_ranking_csv(folder: RunFolder) -> str:
    """Read ranking.csv of a run as text with "\\n" line ends; RunFolderError if it is missing, damaged or stale."""
    folder.read_ranking()
    check_fit(folder)
    return folder.file("ranking.csv").read_bytes().decode("utf-8-sig").replace("\r\n", "\n")


TEXTS = {"md": read_markdown, "csv": read_ranking_csv}
"""Text format of a report → function that takes the folder of a run and returns the text."""


def write_file(path: Path, text: str) -> None:
    """Replace a file atomically with a text in UTF-8."""
    with atomic_write(path) as temporary_path:
        temporary_path.write_text(text, encoding="utf-8", newline="\n")
