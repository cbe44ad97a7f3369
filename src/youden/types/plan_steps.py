"""How a plan becomes longer than it was first drawn: rounds of an adaptive design, and extensions of its run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from youden.errors import PlanError
from youden.types.pool import Bools, Json, ReadOnly

ExtensionKind = Literal["agents", "items", "repeats", "calls"]


@dataclass(frozen=True, eq=False)
class Rounds(ReadOnly):
    """Rounds of an adaptive plan so far."""

    n_paired: int | None
    """Maximum number of paired trials of all rounds together; None for no limit."""
    starts: tuple[int, ...]
    """First slot of each round, from 0."""
    active: Bools
    """bool (n_rounds, n_agents), the agents that each round samples."""

    def __post_init__(self) -> None:
        if len(self.starts) != len(self.active):
            raise PlanError(
                f"The rounds do not fit each other: got {len(self.starts)} starts and {len(self.active)} rows of active agents. "
                "Pass one of each per round.",
                slug="plan-shape",
            )
        super().__post_init__()

    @classmethod
    def first(cls, n_agents: int, *, n_paired: int | None) -> Rounds:
        """Return the rounds of a pilot, which samples all agents."""
        return cls(n_paired, (0,), np.ones((1, n_agents), dtype=np.bool_))

    def then(self, start: int, active: Bools) -> Rounds:
        """Return these rounds and one more."""
        return Rounds(self.n_paired, (*self.starts, start), np.vstack([self.active, active]))

    @property
    def said(self) -> dict[str, Json]:
        """The rounds as JSON."""
        turns = zip(self.starts, self.active, strict=True)
        said: list[Json] = [
            {"start": start, "agents": list(np.flatnonzero(active).tolist())} for start, active in turns
        ]
        return {"n_paired": self.n_paired, "turns": said}

    @classmethod
    def from_said(cls, n_paired: int | None, turns: Sequence[tuple[int, Sequence[int]]], *, n_agents: int) -> Rounds:
        """Make rounds from the first slot and the agents of each."""
        active = np.zeros((len(turns), n_agents), dtype=np.bool_)
        for number, (_, agents) in enumerate(turns):
            active[number, np.array(agents, dtype=np.int64)] = True
        return cls(n_paired, tuple(start for start, _ in turns), active)


@dataclass(frozen=True)
class Extension:
    """One extension of a plan."""

    kind: ExtensionKind
    """What was added."""
    agents: int
    """Number of agents of the pool after it."""
    items: int
    """Number of items of the pool after it."""
    pool: str
    """Digest of the pool after it."""
    calls: int | None = None
    """Requested number of calls; None for the default."""
    focus: tuple[int, ...] = ()
    """Positions of the agents that get the calls; empty for all."""
    top: int | None = None
    """Number of best agents that the calls search for; None if they search for none."""
    within: float | None = None
    """Regret bound at which the search ends; None to spend all calls."""


@dataclass(frozen=True)
class Extensions:
    """Extensions of a plan."""

    anchors: int
    """Number of agents of the first plan; they have the first positions."""
    items: int
    """Number of items of the first plan; they have the first positions."""
    pool: str
    """Digest of the first pool."""
    steps: tuple[Extension, ...]
    """Extensions, in their order."""

    @property
    def said(self) -> dict[str, Json]:
        """The extensions as JSON, without the requested calls, focus and search."""
        said = asdict(self)
        said["steps"] = [{name: step[name] for name in ("kind", "agents", "items", "pool")} for step in said["steps"]]
        found: dict[str, Json] = json.loads(json.dumps(said))
        return found

    @property
    def item_sets(self) -> list[range]:
        """Items of the first plan, then of each extension that added items."""
        ends = [self.items, *(step.items for step in self.steps)]
        return [range(self.items), *(range(a, b) for a, b in pairwise(ends) if b > a)]

    @property
    def joined(self) -> list[tuple[int, ...]]:
        """Agents of each extension that added agents."""
        ends = [self.anchors, *(step.agents for step in self.steps)]
        return [tuple(range(a, b)) for a, b in pairwise(ends) if b > a]
