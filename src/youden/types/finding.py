"""What a reader has to know, as one kind of thing: warnings of a run, doubts about its ranking, findings of a check or a doctor.

Each is made where it is found, sentence and numbers together; `KINDS` says what one of its slug is about and how several stand
together. Whoever shows findings reads these, and never the sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["ok", "note", "warning", "failed", "skipped"]
"""ok: looked at, and all is well. note: good to know. warning: to be known before a number is used. failed: one cannot go on.
skipped: not looked at."""

About = Literal["judge", "pool", "data"]

Fact = None | bool | int | float | str | list[str]


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    slug: its kind, a stable short name. says: the sentence, or a few. effect: what it does to a ranking; todo: what to do; both
    may be empty. agents, items: ids that it is about, empty where it is about all or nobody in particular. facts: the numbers in
    its sentence, unrounded.
    """

    slug: str
    says: str
    effect: str = ""
    todo: str = ""
    severity: Severity = "warning"
    agents: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    facts: Mapping[str, Fact] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.says


@dataclass(frozen=True)
class Kind:
    """What findings of one slug have in common.

    title: what was looked at. several: the line in which they stand together, `{n}` being how many; empty where each stands for
    itself. once: whether all of them say the same, so that the fullest is enough.
    """

    about: About = "data"
    title: str = ""
    several: str = ""
    once: bool = False


KINDS: Mapping[str, Kind] = {
    "lexical": Kind("judge"),
    "no-prompts": Kind("judge"),
    "copying": Kind("pool", several="{n} agents copy their prompts"),
    "alarm": Kind("pool", several="{n} false-positive alarms"),
    "missing": Kind("judge", once=True),
    "served": Kind("judge", several="The served model changed"),
    "fpr": Kind("judge"),
    "votes": Kind("judge"),
    "signal": Kind("judge", "Signal of the judge"),
    "pairs": Kind("pool", "Agents that are too much alike", "Some agents are too alike to count apart"),
    "length": Kind("pool", "Length"),
    "halves": Kind("pool", "Random halves of the partners"),
    "groups": Kind("pool", "Each group's presence"),
    "coalition": Kind("pool", "How large a coalition would win"),
    "spread": Kind("pool", "Spread in the pool"),
}
"""Slugs that are not here are about the data, and each of their findings stands for itself."""


def kind_of(finding: Finding) -> Kind:
    """What it has in common with others of its slug."""
    return KINDS.get(finding.slug, Kind())
