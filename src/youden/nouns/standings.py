"""Rankings beside the plain one, in which partners do not all count alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

StandingName = Literal["robust", "family", "trusted"]
RankedBy = Literal["plain", "robust", "trusted"]


@dataclass(frozen=True)
class PartnerRules:
    """Whose word counts, and which ranking heads the run.

    trusted: ids of the panel, empty for none; families: agent id → family, for the agents that have one; an agent without one
    is a family of its own. ranked_by: `trusted` needs a panel. clones: agents that their texts show to be one, linked whatever
    their answers say.
    """

    ranked_by: RankedBy = "plain"
    trusted: tuple[str, ...] = ()
    families: Mapping[str, str] = field(default_factory=dict)
    clones: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Standing:
    """An agent in one of these rankings, as in the plain one; None where nobody that counts has scored it."""

    ability: float | None
    low: float | None
    high: float | None
    rank_low: int
    rank_high: int
    error: float | None
    place_low: int
    place_high: int


@dataclass(frozen=True)
class StandingMove:
    """An agent's place by the plain ranking and by this one; 1 is first."""

    agent: str
    plain: int
    place: int


@dataclass(frozen=True)
class StandingFacts:
    """What one of these rankings says.

    groups: clusters, families of two and more, or the panel. best, told_apart: as of the plain ranking. moves: agents whose place
    differs, furthest first. leader: that the plain ranking's leader falls in this one, in words, else empty. message: why there
    is no such ranking, else empty.
    """

    groups: tuple[tuple[str, ...], ...]
    best: str | None
    told_apart: int
    moves: tuple[StandingMove, ...]
    leader: str = ""
    message: str = ""
