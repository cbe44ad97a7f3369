"""Findings: diagnostics about a run, a pool or an installation, such as warnings and failed checks.

The code that detects a problem creates the finding, with its sentence and its numbers. Renderers group findings by
slug, as declared in `KINDS`, and never parse a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["ok", "note", "warning", "failed", "skipped"]
"""Result of a check: passed; worth knowing; has to be known before a number is used; prevents further work;
not checked."""

About = Literal["judge", "pool", "data"]
"""Subject of a finding."""

Fact = None | bool | int | float | str | list[str]
"""Value in `Finding.facts`."""


@dataclass(frozen=True)
class Finding:
    """One diagnostic about a run, a pool or an installation."""

    slug: str
    """Kind of the finding: a short name that stays the same across versions."""
    message: str
    """The problem, in one or a few sentences."""
    effect: str = ""
    """Effect of the problem on a ranking; may be empty."""
    remedy: str = ""
    """Remedy; may be empty."""
    severity: Severity = "warning"
    """Result of the check."""
    agents: tuple[str, ...] = ()
    """Ids of the agents concerned; empty if it concerns all or none in particular."""
    items: tuple[str, ...] = ()
    """Ids of the items concerned; empty if it concerns all or none in particular."""
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """Name → unrounded value of each number in the sentence."""

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Kind:
    """Properties that all findings of one slug share."""

    about: About = "data"
    """Subject of the findings."""
    title: str = ""
    """Title of the check."""
    several: str = ""
    """Line that replaces several findings, with `{n}` for their number; empty if each finding gets its own line."""
    is_repeated: bool = False
    """Whether all findings of the slug report the same problem, so that only the most complete one is displayed."""
    caution: str = ""
    """Clause that a warning of this slug adds to the recommendation; empty if the recommendation does not depend on it."""


KINDS: Mapping[str, Kind] = {
    "lexical": Kind("judge", caution="by shared words only"),
    "no-prompts": Kind("judge"),
    "copying": Kind("pool", several="{n} agents copy their prompts"),
    "alarm": Kind("pool", several="{n} false-positive alarms"),
    "missing": Kind("judge", is_repeated=True),
    "model-changed": Kind("judge", several="The served model changed"),
    "fpr": Kind("judge"),
    "votes": Kind("judge"),
    "position-bias": Kind("judge"),
    "signal": Kind("judge", "Signal of the judge"),
    "few-agents": Kind("pool", "Number of agents"),
    "clones": Kind("pool", several="{n} groups of agents give the same responses, except for some words"),
    "pairs": Kind("pool", "Near-duplicate agents", "Some agents are too similar to count separately"),
    "length": Kind("pool", "Length", caution="by a result that follows text length"),
    "halves": Kind("pool", "Split-half reliability over partners"),
    "groups": Kind("pool", "Influence of each group"),
    "coalition": Kind("pool", "Size of a winning coalition"),
    "spread": Kind("pool", "Spread of the abilities"),
}
"""Slug → shared properties. A slug that is not listed has the defaults of `Kind`."""


def kind_of(finding: Finding) -> Kind:
    """Return the properties shared by all findings with the slug of `finding`, such as its title and subject."""
    return KINDS.get(finding.slug, Kind())
