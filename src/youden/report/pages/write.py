"""Writes a run's report where it is wanted, in the form that is wanted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from youden.data.atomic import replacing
from youden.data.folder.run_folder import RunFolder
from youden.practice.stress.stressing import Stress
from youden.report.charts import vega
from youden.report.charts.pictures import PictureKind, draw, picture_spec, stress_spec
from youden.report.data.comparison import compare_runs
from youden.report.data.report import ReportData, build_report
from youden.report.pages.markdown import render_markdown
from youden.report.pages.page import StudyPart, render_comparison, render_page, render_study
from youden.report.pages.stress import render_markdown as stress_markdown
from youden.run.analysis import Analysis


def write_report(folder: RunFolder, fitted: Analysis | None = None) -> ReportData:
    """Build the report of a fitted run, write it as report.html, and hand its data back.

    fitted: what `fit_run` has just made of the run, so that nothing of it is made twice.

    Raises: RunFolderError naming the file that is missing and the command that makes it.
    """
    return write_page(folder, fitted=fitted)[1]


def write_page(
    folder: RunFolder, *, out: Path | None = None, fitted: Analysis | None = None
) -> tuple[Path, ReportData]:
    """The report as HTML, at `out` or as the folder's report.html. Raises: RunFolderError."""
    data = build_report(folder, learned=None if fitted is None else fitted.learned)
    path = folder.file("report.html") if out is None else out
    write_file(path, render_page(data))
    return path, data


def write_comparison(one: RunFolder, two: RunFolder, *, out: Path | None = None) -> Path:
    """Both runs side by side, at `out` or in the first one's folder. Raises: RunFolderError."""
    path = one.file(f"against-{two.path.resolve().name}.html") if out is None else out
    write_file(path, render_comparison(compare_runs(one, two)))
    return path


def write_picture(folder: RunFolder, slug: str, *, kind: PictureKind, out: Path | None = None) -> Path:
    """One figure. Raises: RunFolderError; ConfigError [unknown-chart], [charts-missing]."""
    vega.need_charts()
    path = folder.file(f"{slug}.{kind}") if out is None else out
    drawn = draw(picture_spec(build_report(folder), slug), kind)
    with replacing(path) as fresh:
        fresh.write_bytes(drawn)
    return path


def write_study(path: Path, title: str, parts: Sequence[StudyPart]) -> None:
    """A study as HTML. The caller has checked `vega.need_charts`."""
    write_file(path, render_study(title, parts))


def write_stress(found: Stress, out: Path) -> tuple[Path, ...]:
    """stress.md, stress.json and, with the chart library, stress.svg in the folder `out`, made where it is missing."""
    texts = {
        "stress.md": stress_markdown(found),
        "stress.json": json.dumps(found.to_json(), ensure_ascii=True, indent=1, allow_nan=False) + "\n",
    }
    if vega.has_charts():
        texts["stress.svg"] = draw(stress_spec(found), "svg").decode()
    for name, text in texts.items():
        write_file(out / name, text)
    return tuple(out / name for name in texts)


def markdown(folder: RunFolder) -> str:
    """A summary as Markdown. Raises: RunFolderError."""
    return render_markdown(build_report(folder))


def ranking_csv(folder: RunFolder) -> str:
    """The ranking as the folder has it. Raises: RunFolderError."""
    folder.read_ranking()
    return folder.file("ranking.csv").read_bytes().decode("utf-8-sig").replace("\r\n", "\n")


def write_file(path: Path, text: str) -> None:
    """Replace a file in one step, UTF-8."""
    with replacing(path) as fresh:
        fresh.write_text(text, encoding="utf-8", newline="\n")
