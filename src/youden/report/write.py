"""Writes a run's report.html. It knows where a report goes; it refuses to know what is in it."""

from __future__ import annotations

from youden.data.run_folder import RunFolder
from youden.report.data import ReportData, build_report
from youden.report.page import render_page


def write_report(folder: RunFolder) -> ReportData:
    """Build the report of a fitted run, write it as report.html, and hand its data back.

    Raises: RunFolderError naming the file that is missing and the command that makes it.
    """
    data = build_report(folder)
    folder.write_text("report.html", render_page(data))
    return data
