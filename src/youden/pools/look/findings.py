"""What a check of a pool says: counts, findings and costs, as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from youden.nouns import Json


@dataclass(frozen=True)
class Finding:
    """One thing about a pool that a ranking will suffer from.

    slug: its stable short name. agents, items: ids that it is about, in the pool's order; empty where it is about all.
    measure: the number it was found by, in the unit that `what` names; None where it was counted only.
    what, effect, advice: what was found, what it does to the ranking, what to do.
    """

    slug: str
    what: str
    effect: str
    advice: str
    agents: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    measure: float | None = None


@dataclass(frozen=True)
class Counts:
    """How much there is. Lengths are characters of responses that are there; words are estimated on the texts looked at."""

    n_agents: int
    n_items: int
    n_responses: int
    n_missing: int
    n_blank: int
    n_prompts: int
    shortest: int
    median: int
    longest: int
    total: int
    mean_words: float | None


@dataclass(frozen=True)
class DesignCost:
    """What judging the pool by one design with one judge takes, at the design's own budget. usd: None, the price is unknown."""

    design: str
    judge: str
    calls: int
    tokens_in: int
    tokens_out: int
    usd: float | None


@dataclass(frozen=True)
class Checked:
    """A pool's check. agent_words: agent id → mean words of the responses looked at. notes: what was not looked at, and why."""

    name: str
    counts: Counts
    agent_words: dict[str, float | None]
    languages: dict[str, int]
    findings: tuple[Finding, ...]
    costs: tuple[DesignCost, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Json]:
        """The same as one JSON object."""
        data: dict[str, Json] = asdict(self)
        return data


def listed(names: tuple[str, ...], *, most: int = 5) -> str:
    """Names in quotes, cut after a few.

    >>> listed(("a", "b", "c"), most=2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(f"'{name}'" for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"
