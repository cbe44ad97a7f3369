"""The warnings of a report as a reader meets them: what its figures call for beside what the run said itself, grouped by what
they are about, those of one kind in one line that opens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from youden.report.data.doubts import Doubts
from youden.report.data.summary import Summary
from youden.types.finding import About, Finding, kind_of

MISSING_SHARE = 0.01
LITTLE_R2 = 0.5
HIGH_FPR = 0.05


def advise(summary: Summary, notes: Sequence[str], *, additivity: bool = True) -> Iterator[Finding]:
    """Warnings the run itself gave, then what its figures call for, then what this report lacks (`notes`).

    additivity: whether so many partners were asked that additivity says anything.
    """
    facts, calls = summary.facts, summary.calls
    yield from summary.warnings
    if facts.status != "ok" and all(facts.message != warning.says for warning in summary.warnings):
        yield Finding("fit", f"The fit ended with status {facts.status}: {facts.message}")
    if calls is not None and calls.n_missing > MISSING_SHARE * calls.n_calls:
        yield Finding(
            "missing",
            f"{calls.n_missing:,} of {calls.n_calls:,} calls {'has' if calls.n_missing == 1 else 'have'} no answer.",
            todo="Open them below (kind: no answer), correct the judge's prompt or limits, and run the same command again.",
            facts={"n": calls.n_missing, "of": calls.n_calls},
        )
    if facts.n_components > 1:
        yield Finding(
            "components",
            f"The cells fall into {facts.n_components} parts that share no agent and no item: abilities across parts do not "
            "compare.",
            todo="Plan more calls, or fewer gaps in the pool.",
            facts={"n": facts.n_components},
        )
    if facts.fpr is not None and facts.fpr > HIGH_FPR:
        yield Finding(
            "fpr",
            f"The judge's false-positive rate is {facts.fpr:.1%}: its mean answer to pairs from different items.",
            todo="Look at those trials below (kind: independent yes): are the items too much alike, or is the judge too "
            "lenient?",
            facts={"rate": facts.fpr},
        )
    r2 = [curl.r2 for scores, link, curl in summary.links if (scores, link) == ("symmetric", "identity")]
    if additivity and r2 and r2[0] is not None and r2[0] < LITTLE_R2:
        yield Finding(
            "additivity",
            f"Ability − difficulty explains {r2[0]:.0%} of the variance of the scores.",
            todo="Trust the ranking of means more than predictions of single cells; look at the residuals below.",
            facts={"r2": r2[0]},
        )
    yield from (Finding("report", note) for note in notes)


TITLES: dict[About, str] = {"judge": "The judge", "pool": "The pool", "data": "The data"}
_SHORTEST = 25
"""Characters of a line at least, so that `Warning: …` is not cut to `Warning`."""


@dataclass(frozen=True)
class WarningLine:
    """One line that opens. short: what it says closed; said: the warnings behind it."""

    short: str
    said: tuple[Finding, ...]

    @property
    def opens(self) -> bool:
        """Whether there is more to read than the line itself."""
        return len(self.said) > 1 or bool(self.said[0].todo) or self.short != self.said[0].says


@dataclass(frozen=True)
class Group:
    """The warnings about one thing."""

    about: About
    lines: tuple[WarningLine, ...]

    @property
    def title(self) -> str:
        return TITLES[self.about]


def grouped(advice: Sequence[Finding], doubts: Doubts, *, headline: str) -> tuple[Group, ...]:
    """Warnings, and doubts that speak against the ranking, by what they are about.

    Of one kind several stand in one line; what repeats another, or the headline, is left out.
    """
    lines = together((*advice, *doubts.against), headline=headline)
    found = [Group(about, tuple(line for of, line in lines if of == about)) for about in TITLES]
    return tuple(group for group in found if group.lines)


def together(findings: Sequence[Finding], *, headline: str) -> list[tuple[About, WarningLine]]:
    """One line for each kind, with what it is about; what repeats another, or the headline, is left out."""
    kinds: dict[tuple[About, str, str], list[Finding]] = {}
    for one in findings:
        if one.says.removesuffix(".").casefold() in headline.casefold():
            continue
        kind = kind_of(one)
        slug = one.slug if kind.several or kind.once else one.says
        same = kinds.setdefault((kind.about, slug, str(one.facts.get("judge"))), [])
        if all(one.says != other.says for other in same):
            same.append(one)
    return [(about, _line(said)) for (about, *_), said in kinds.items()]


def first_sentence(text: str) -> str:
    """What stands before the first full stop, or before a colon outside brackets; all of a text without.

    >>> first_sentence("The judge is a similarity baseline: it sees words. Read on.")
    'The judge is a similarity baseline'
    """
    for end in re.finditer(r"[.:;] ", text):
        head = text[: end.start()]
        if end.start() >= _SHORTEST and head.count("(") == head.count(")"):
            return head
    return text.removesuffix(".")


def _line(said: list[Finding]) -> WarningLine:
    kind = kind_of(said[0])
    if kind.once:
        said = [max(said, key=lambda one: (bool(one.todo), len(one.says)))]
    if len(said) > 1:
        return WarningLine(kind.several.format(n=len(said)), tuple(said))
    return WarningLine(first_sentence(said[0].says), tuple(said))
