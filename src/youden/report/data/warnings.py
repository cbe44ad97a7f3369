"""Which warnings stand together, and what to do next.

What a reader has to know before believing a number, and what to do about it.

The warnings of a report as a reader meets them: grouped by what they are about, those of one kind in one line that opens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from youden.report.data.doubts import Doubts
from youden.report.data.summary import Summary

MISSING_SHARE = 0.01
LITTLE_R2 = 0.5
HIGH_FPR = 0.05


@dataclass(frozen=True)
class Advice:
    """One warning. todo: what to do, None where the warning itself says it."""

    slug: str
    text: str
    todo: str | None = None


def advise(summary: Summary, notes: Sequence[str], *, additivity: bool = True) -> tuple[Advice, ...]:
    """Warnings the run itself gave, then what its figures call for, then what this report lacks (`notes`).

    additivity: whether so many partners were asked that additivity says anything.
    """
    facts, calls = summary.facts, summary.calls
    found = [Advice("run", warning) for warning in summary.warnings]
    if facts.status != "ok" and facts.message not in summary.warnings:
        found.append(Advice("fit", f"The fit ended with status {facts.status}: {facts.message}"))
    if calls is not None and calls.n_missing > MISSING_SHARE * calls.n_calls:
        found.append(
            Advice(
                "missing",
                f"{calls.n_missing:,} of {calls.n_calls:,} calls have no answer.",
                "Open them below (kind: no answer), correct the judge's prompt or limits, and run the same command again.",
            )
        )
    if facts.n_components > 1:
        found.append(
            Advice(
                "components",
                f"The cells fall into {facts.n_components} parts that share no agent and no item: abilities across parts do not "
                "compare.",
                "Plan more calls, or fewer gaps in the pool.",
            )
        )
    if facts.fpr is not None and facts.fpr > HIGH_FPR:
        found.append(
            Advice(
                "fpr",
                f"The judge's false-positive rate is {facts.fpr:.1%}: its mean answer to pairs from different items.",
                "Look at those trials below (kind: independent yes): are the items too much alike, or is the judge too lenient?",
            )
        )
    r2 = [line.facts.r2 for line in summary.links if (line.scores, line.link) == ("symmetric", "identity")]
    if additivity and r2 and r2[0] is not None and r2[0] < LITTLE_R2:
        found.append(
            Advice(
                "additivity",
                f"Ability − difficulty explains {r2[0]:.0%} of the variance of the scores.",
                "Trust the ranking of means more than predictions of single cells; look at the residuals below.",
            )
        )
    return (*found, *(Advice("report", note) for note in notes))


About = Literal["judge", "pool", "data"]
TITLES: dict[About, str] = {"judge": "The judge", "pool": "The pool", "data": "The data"}

_KINDS: tuple[tuple[re.Pattern[str], str, About, str], ...] = (
    (re.compile(r"False-positive alarm: "), "alarm", "pool", "{n} false-positive alarms"),
    (re.compile(r"\AAgent '.*' copies its prompts", re.DOTALL), "copying", "pool", "{n} agents copy their prompts"),
    (re.compile(r"agree far beyond their abilities"), "pairs", "pool", "Some agents are too alike to count apart"),
    (re.compile(r"\A[\d,]+ of [\d,]+ (trials|calls) have no answer"), "missing", "judge", ""),
    (re.compile(r"The served model changed"), "served", "judge", "The served model changed"),
)
"""What warnings of one kind look like, its slug, what it is about, and its line where there are several."""

_ABOUT: dict[str, About] = {
    "missing": "judge",
    "fpr": "judge",
    "halves": "pool",
    "groups": "pool",
    "spread": "pool",
    "length": "pool",
}
_SAME = {"missing"}
"""Kinds whose warnings say the same thing twice."""
_SHORTEST = 25
"""Characters of a line at least, so that `Warning: …` is not cut to `Warning`."""


@dataclass(frozen=True)
class Line:
    """One line that opens. short: what it says closed; said: the warnings behind it."""

    short: str
    said: tuple[Advice, ...]

    @property
    def opens(self) -> bool:
        """Whether there is more to read than the line itself."""
        return len(self.said) > 1 or self.said[0].todo is not None or self.short != self.said[0].text


@dataclass(frozen=True)
class Group:
    """The warnings about one thing."""

    about: About
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        return TITLES[self.about]


def grouped(advice: Sequence[Advice], doubts: Doubts, *, headline: str) -> tuple[Group, ...]:
    """Warnings, and doubts that speak against the ranking, by what they are about.

    Of one kind several stand in one line; what repeats another, or the headline, is left out.
    """
    kinds: dict[tuple[About, str], list[Advice]] = {}
    for one in (*advice, *(Advice(doubt.slug, doubt.text) for doubt in doubts.against)):
        if one.text in headline:
            continue
        slug, about = _kind(one)
        same = kinds.setdefault((about, slug), [])
        if all(one.text != other.text for other in same):
            same.append(one)
    lines = [(about, _line(slug, said)) for (about, slug), said in kinds.items()]
    found = [Group(about, tuple(line for of, line in lines if of == about)) for about in TITLES]
    return tuple(group for group in found if group.lines)


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


def _kind(one: Advice) -> tuple[str, About]:
    for pattern, slug, about, _ in _KINDS:
        if pattern.search(one.text):
            return slug, about
    if one.slug == "run":
        return one.text, "judge" if re.search(r"\bjudge\b", one.text, re.IGNORECASE) else "data"
    return (one.slug if one.slug in _ABOUT else one.text), _ABOUT.get(one.slug, "data")


def _line(slug: str, said: list[Advice]) -> Line:
    if slug in _SAME:
        said = [max(said, key=_fullness)]
    if len(said) > 1:
        (short,) = (several for _, kind, _, several in _KINDS if kind == slug)
        return Line(short.format(n=len(said)), tuple(said))
    return Line(first_sentence(said[0].text), tuple(said))


def _fullness(one: Advice) -> tuple[bool, int]:
    return one.todo is not None, len(one.text)
