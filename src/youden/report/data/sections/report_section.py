"""Define the sections of a report that consist of a table with a heading and an explanation."""

from __future__ import annotations

from typing import ClassVar, Literal

from youden.report.data.evidence import Evidence
from youden.report.data.summary import Summary
from youden.report.data.trial_rows import TrialRows

Place = Literal["believe", "cost"]
"""Part of the page: "Can I believe it?" or "What did it cost?"."""


class ReportSection:
    """Section of the report of a run: a table with a heading and an explanation.

    Attributes
    ----------
    title : str
        Heading.
    note : str
        Explanation of the table. Text between backticks is shown as code.
    text_headings, number_headings : tuple of str
        Headings of the columns; the columns of texts come first.
    place : {"believe", "cost"}, default "believe"
        Part of the page that contains the section.
    run : Summary
        Summary of the run, whose `facts` are the contents of fit.json.
    evidence : Evidence
        Tables of the run, such as its scores, and the ids of agents and items.
    measured : frozenset of str
        Optional columns of the trials that the judge filled, such as "seconds"; empty for an imported run, which has no trials.
    """

    title: ClassVar[str]
    note: ClassVar[str]
    text_headings: ClassVar[tuple[str, ...]]
    number_headings: ClassVar[tuple[str, ...]]
    place: ClassVar[Place] = "believe"

    def __init__(self, run: Summary, evidence: Evidence) -> None:
        """Store the summary of the run and its tables."""
        self.run, self.evidence = run, evidence
        self.measured: frozenset[str] = frozenset() if evidence.trials is None else evidence.trials.measured

    def add(self, rows: TrialRows) -> None:
        """Use a chunk of trials. It is called for all chunks, in the order of the plan; imported runs have none."""

    def make_rows(self) -> list[list[str]]:
        """Return the cells of the table, row by row. The report leaves out a section without rows."""
        raise NotImplementedError
