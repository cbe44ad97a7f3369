"""Steps that add trials to a plan: rounds of an adaptive design, and extensions of a run.

Their JSON is part of the signature of a run, so it contains only what determines the trials.
"""

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
"""What an extension adds: agents, items, further responses of the same agents, or only calls."""


@dataclass(frozen=True, eq=False)
class Rounds(ReadOnly):
    """Rounds of an adaptive plan so far.

    Raises
    ------
    PlanError
        [plan-shape]: if `starts` and `active` have different lengths.
    """

    n_paired: int | None
    """Maximum number of paired trials in all rounds together; None for no limit."""
    starts: tuple[int, ...]
    """Number of the first block of each round, from 0."""
    active: Bools
    """bool (n_rounds, n_agents), agents that each round samples."""

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
        """Create the rounds of a new plan: only the pilot, which is the first round and samples all agents.

        Parameters
        ----------
        n_agents : int
            Number of agents.
        n_paired : int or None
            Maximum number of paired trials in all rounds together; None for no limit.

        Returns
        -------
        Rounds
            One round, which begins with the block 0.
        """
        return cls(n_paired, (0,), np.ones((1, n_agents), dtype=np.bool_))

    def with_round(self, start: int, active: Bools) -> Rounds:
        """Return these rounds and one more, which is the last.

        Parameters
        ----------
        start : int
            Number of the first block of the new round, counted over all rounds from 0. It is not checked.
        active : bool array (n_agents,)
            Agents that the new round samples.

        Returns
        -------
        Rounds
            A new object with the same maximum number of paired trials.
        """
        return Rounds(self.n_paired, (*self.starts, start), np.vstack([self.active, active]))

    @property
    def to_json(self) -> dict[str, Json]:
        """The rounds as JSON; `from_json` reads them."""
        rounds: list[Json] = []
        for start, is_active in zip(self.starts, self.active, strict=True):
            agents = np.flatnonzero(is_active).tolist()
            rounds.append({"start": start, "agents": list(agents)})
        return {"n_paired": self.n_paired, "turns": rounds}

    @classmethod
    def from_json(cls, n_paired: int | None, rounds: Sequence[tuple[int, Sequence[int]]], *, n_agents: int) -> Rounds:
        """Create rounds from the values that `to_json` writes.

        Parameters
        ----------
        n_paired : int or None
            Maximum number of paired trials in all rounds together; None for no limit.
        rounds : sequence of (int, sequence of int)
            One pair per round: the number of its first block (the value "start" in the JSON), and the positions of the agents
            that it samples (the value "agents"). The first round is the pilot.
        n_agents : int
            Number of agents of the plan.

        Returns
        -------
        Rounds
            One round per element of `rounds`.
        """
        starts = tuple(start for start, _agents in rounds)
        active = np.zeros((len(rounds), n_agents), dtype=np.bool_)
        for round_number, (_start, agents) in enumerate(rounds):
            active[round_number, list(agents)] = True
        return cls(n_paired, starts, active)


@dataclass(frozen=True)
class Extension:
    """One extension of a plan."""

    kind: ExtensionKind
    """What it adds."""
    agents: int
    """Number of agents after it."""
    items: int
    """Number of items after it."""
    pool: str
    """Digest of the pool after it."""
    calls: int | None = None
    """Requested number of calls; None for the default."""
    focus: tuple[int, ...] = ()
    """Positions of the agents to which the calls are restricted; empty for all."""
    top: int | None = None
    """Number of best agents to search for; None if it is not a search."""
    max_regret: float | None = None
    """Maximum regret, at which the search ends; None to spend all calls."""
    independent: int | None = None
    """Requested number of independent trials among the calls; None for the default."""


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
    def to_json(self) -> dict[str, Json]:
        """The extensions as JSON, without the requested calls, focus and search."""
        fields = asdict(self)
        saved_fields = ("kind", "agents", "items", "pool")
        fields["steps"] = [{name: step[name] for name in saved_fields} for step in fields["steps"]]
        as_json: dict[str, Json] = json.loads(json.dumps(fields))
        return as_json

    @property
    def item_sets(self) -> list[range]:
        """Positions of the items of the first plan, then of the new items of each extension that added any."""
        n_items = [self.items, *(step.items for step in self.steps)]
        added = [range(start, stop) for start, stop in pairwise(n_items) if stop > start]
        return [range(self.items), *added]

    @property
    def joined(self) -> list[tuple[int, ...]]:
        """Positions of the new agents of each extension that added any."""
        n_agents = [self.anchors, *(step.agents for step in self.steps)]
        return [tuple(range(start, stop)) for start, stop in pairwise(n_agents) if stop > start]
