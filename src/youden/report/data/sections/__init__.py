"""Sections of a report that consist of a table: one file each, and the list of all."""

from __future__ import annotations

from youden.report.data.sections.false_positive_rates import FalsePositiveRates
from youden.report.data.sections.report_section import ReportSection

SECTIONS: tuple[type[ReportSection], ...] = (FalsePositiveRates,)
"""All sections. Those of one part of the page are shown in this order."""
