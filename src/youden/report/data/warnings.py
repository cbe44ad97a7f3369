"""Collect the warnings of a report and group them for display.

Warnings are grouped by subject; several of one kind share one line that a reader can open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from youden.report.data.doubts import RankingChecks
from youden.report.data.summary import Summary
from youden.types.finding import About, Finding, kind_of

MAX_MISSING_FRACTION = 0.01
MIN_R2 = 0.5
MAX_FPR = 0.05


def iter_advice(summary: Summary, notes: Sequence[str], *, additivity: bool = True) -> Iterator[Finding]:
    """Yield the warnings of a run: warnings of the fit, warnings that follow from its numbers, and notes on unreadable data.

    Parameters
    ----------
    summary : Summary
        Summary of the run.
    notes : sequence of str
        Sentences about data that could not be read.
    additivity : bool, default True
        Whether to warn that the scores are not additive if R² is below 0.5. Pass False if cells were compared with too few
        partners: R² then shows nothing about additivity.

    Yields
    ------
    Finding
        First `summary.warnings`. Then a warning for each of these: a fit that did not end normally, more than 1% of the calls
        without an answer, several components of cells, a false-positive rate above .05, and the small R². Values that are
        unknown cause no warning. Then one warning per note. The checks of the ranking are not included.
    """
    facts, calls = summary.facts, summary.calls
    yield from summary.warnings
    if facts.status != "ok" and all(facts.message != warning.message for warning in summary.warnings):
        yield Finding("fit", f"The fit ended with status {facts.status}: {facts.message}")
    if calls is not None and calls.n_missing > MAX_MISSING_FRACTION * calls.n_done:
        yield Finding(
            "missing",
            f"{calls.n_missing:,} of {calls.n_done:,} calls {'has' if calls.n_missing == 1 else 'have'} no answer.",
            remedy="See them below (kind: no answer), correct the prompt or the limits of the judge, and run the command again.",
            facts={"n": calls.n_missing, "n_trials": calls.n_done},
        )
    if facts.n_components > 1:
        yield Finding(
            "components",
            f"The cells form {facts.n_components} components without common agents or items, and abilities of different "
            "components are not comparable.",
            remedy="Add calls, or responses that are missing in the pool.",
            facts={"n": facts.n_components},
        )
    if facts.fpr is not None and facts.fpr > MAX_FPR:
        yield Finding(
            "fpr",
            f"The judge's mean answer to pairs from different items, its false-positive rate, is {facts.fpr:.3f}.",
            remedy="Check these trials below (kind: independent yes): the items may be too similar, or the judge too lenient.",
            facts={"rate": facts.fpr},
        )
    symmetric_r2 = [curl.r2 for scores, link, curl in summary.links if scores == "symmetric" and link == "identity"]
    r2 = symmetric_r2[0] if symmetric_r2 else None
    if additivity and r2 is not None and r2 < MIN_R2:
        yield Finding(
            "additivity",
            f"Ability − difficulty explains {r2:.0%} of the variance of the scores.",
            remedy="Use the ranking rather than predictions of single cells, and see the residuals below.",
            facts={"r2": r2},
        )
    yield from (Finding("report", note) for note in notes)


TITLES: dict[About, str] = {"judge": "The judge", "pool": "The pool", "data": "The data"}
MIN_SENTENCE_CHARACTERS = 25
"""Minimum length of a shortened line, so that `Warning: …` is not cut to `Warning`."""


@dataclass(frozen=True)
class WarningLine:
    """Line that a reader can open to read one or more warnings in full."""

    short: str
    """Text of the closed line."""
    findings: tuple[Finding, ...]
    """Warnings of the opened line."""

    @property
    def opens(self) -> bool:
        """Whether the opened line shows more than the closed one."""
        first = self.findings[0]
        return len(self.findings) > 1 or bool(first.remedy) or self.short != first.message


@dataclass(frozen=True)
class Group:
    """Warnings about one subject."""

    about: About
    """Subject."""
    lines: tuple[WarningLine, ...]
    """Warnings, by kind."""

    @property
    def title(self) -> str:
        """Title for display."""
        return TITLES[self.about]


def group_warnings(advice: Sequence[Finding], checks: RankingChecks, *, headline: str) -> tuple[Group, ...]:
    """Group the warnings of a run, and the checks that question its ranking, by subject.

    Parameters
    ----------
    advice : sequence of Finding
        Warnings of the run.
    checks : RankingChecks
        Checks of its ranking, with their `warnings`.
    headline : str
        Headline of the report. A warning that it contains, ignoring case, is left out.

    Returns
    -------
    tuple of Group
        One entry per subject with a warning, in the order "judge", "pool", "data". Each has the subject, `about`, and the
        warnings, `lines`. The slug of a warning determines its subject. Warnings of the same kind are merged into one line.
    """
    lines = merge_by_kind((*advice, *checks.warnings), headline=headline)
    groups = [Group(about, tuple(line for subject, line in lines if subject == about)) for about in TITLES]
    return tuple(group for group in groups if group.lines)


def merge_by_kind(findings: Sequence[Finding], *, headline: str) -> list[tuple[About, WarningLine]]:
    """Merge findings of the same kind into one line of warning each, for the short list of a report.

    Parameters
    ----------
    findings : sequence of Finding
        Findings; of several findings with the same message, the first one is used.
    headline : str
        Headline of the report; a finding that the headline contains is left out.

    Returns
    -------
    list of (str, WarningLine)
        Subject and line of each kind, in the order of first occurrence.
    """
    folded_headline = headline.casefold()
    findings_by_line: dict[tuple[About, str, str], list[Finding]] = {}
    for finding in findings:
        is_in_headline = finding.message.removesuffix(".").casefold() in folded_headline
        if is_in_headline:
            continue
        findings_of_line = findings_by_line.setdefault(_make_line_key(finding), [])
        is_new = all(finding.message != earlier.message for earlier in findings_of_line)
        if is_new:
            findings_of_line.append(finding)

    lines = []
    for (subject, _name, _judge), findings_of_line in findings_by_line.items():
        lines.append((subject, _make_line(findings_of_line)))
    return lines


def _make_line_key(finding: Finding) -> tuple[About, str, str]:
    """Return the key of the line that reports a finding: its subject, its name (slug or message), and its judge."""
    # only slugs with a text for several findings, and slugs that report one problem repeatedly, share a line
    kind = kind_of(finding)
    shares_line = bool(kind.several) or kind.is_repeated
    name = finding.slug if shares_line else finding.message
    return kind.about, name, str(finding.facts.get("judge"))


def first_sentence(text: str) -> str:
    """Return the first sentence of a text without its full stop.

    A colon or semicolon ends a sentence, too. The end of a sentence is ignored within brackets, and within the first
    `MIN_SENTENCE_CHARACTERS` characters.

    >>> first_sentence("The judge is a similarity baseline: it sees words. Read on.")
    'The judge is a similarity baseline'
    """
    for end in re.finditer(r"[.:;] ", text):
        sentence = text[: end.start()]
        is_outside_brackets = sentence.count("(") == sentence.count(")")
        if len(sentence) >= MIN_SENTENCE_CHARACTERS and is_outside_brackets:
            return sentence
    return text.removesuffix(".")


def _make_line(findings: list[Finding]) -> WarningLine:
    """Make the line for findings of the same kind: their number and kind, or the first sentence of the only one."""
    kind = kind_of(findings[0])
    if kind.is_repeated:
        findings = [max(findings, key=lambda finding: (bool(finding.remedy), len(finding.message)))]
    if len(findings) > 1:
        return WarningLine(kind.several.format(n=len(findings)), tuple(findings))
    return WarningLine(first_sentence(findings[0].message), tuple(findings))
