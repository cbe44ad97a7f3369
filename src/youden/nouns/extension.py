"""How a plan became longer than it was drawn first: by the rounds of an adaptive design, or by extensions of the run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from youden.nouns.arrays import Bools, Floats, Ids, Positions, freeze
from youden.nouns.pool import Json

ExtensionKind = Literal["agents", "items", "calls"]


@dataclass(frozen=True, eq=False)
class Rounds:
    """The rounds of an adaptive plan so far, and whose turn each was.

    n_paired: the paired calls that all rounds may spend together, None for as many as there are. starts: first slot of each
    round, from 0; active: bool[R, K].
    """

    n_paired: int | None
    starts: tuple[int, ...]
    active: Bools

    def __post_init__(self) -> None:
        freeze([self.active])

    @classmethod
    def first(cls, n_agents: int, *, n_paired: int | None) -> Rounds:
        """The pilot: everybody's turn."""
        return cls(n_paired, (0,), np.ones((1, n_agents), dtype=np.bool_))

    def then(self, start: int, active: Bools) -> Rounds:
        """With one round more."""
        return Rounds(self.n_paired, (*self.starts, start), np.vstack([self.active, active]))

    @property
    def said(self) -> dict[str, Json]:
        """As JSON."""
        turns = zip(self.starts, self.active, strict=True)
        said: list[Json] = [
            {"start": start, "agents": list(np.flatnonzero(active).tolist())} for start, active in turns
        ]
        return {"n_paired": self.n_paired, "turns": said}

    @classmethod
    def from_said(cls, n_paired: int | None, turns: Sequence[tuple[int, Sequence[int]]], *, n_agents: int) -> Rounds:
        """From the first slot and the agents of every round."""
        active = np.zeros((len(turns), n_agents), dtype=np.bool_)
        for number, (_, agents) in enumerate(turns):
            active[number, np.array(agents, dtype=np.int64)] = True
        return cls(n_paired, tuple(start for start, _ in turns), active)

    def turn_of(self, slot: Ids) -> Positions:
        """The round that asked each slot, 0 the pilot: int64[T]."""
        return np.asarray(np.searchsorted(self.starts, slot, side="right") - 1, dtype=np.int64)

    def asks(self, first: Ids, second: Ids) -> Bools:
        """Whether a round asks the pairs: bool[R, T]."""
        return np.asarray(self.active[:, first] | self.active[:, second])

    def weights(self, first: Ids, second: Ids, *, n_slots: int) -> Floats:
        """One over the share of the plan's `n_slots` slots in which the pair would have been asked: float[T] ≥ 1."""
        length = np.diff([*self.starts, n_slots])
        asked = self.active[:, :, None] | self.active[:, None, :]
        share = np.tensordot(length, asked, axes=1) / n_slots
        return np.asarray(1 / share[first, second], dtype=np.float64)


@dataclass(frozen=True)
class Extension:
    """One extension. row: its first row in the plan; agents, items: how many the pool has from then on; pool: its digest.

    calls, focus: what was asked for; focus holds positions of agents.
    """

    kind: ExtensionKind
    row: int
    agents: int
    items: int
    pool: str
    calls: int | None = None
    focus: tuple[int, ...] = ()


@dataclass(frozen=True)
class Block:
    """Slots from `start` on, drawn in one go.

    items: which set of items, 0 those of the first plan, then one for every step that added some. scored: whom the trials count
    for, None for everybody in them (complete slots).
    """

    start: int
    items: int
    scored: tuple[int, ...] | None


@dataclass(frozen=True)
class Extensions:
    """The extensions of a plan. anchors, items: agents and items of the first plan, which stand first; pool: its digest."""

    anchors: int
    items: int
    pool: str
    steps: tuple[Extension, ...]
    blocks: tuple[Block, ...]

    @property
    def said(self) -> dict[str, Json]:
        """As JSON, without what was asked for."""
        said = asdict(self)
        said["steps"] = [
            {name: step[name] for name in ("kind", "row", "agents", "items", "pool")} for step in said["steps"]
        ]
        found: dict[str, Json] = json.loads(json.dumps(said))
        return found

    @property
    def item_sets(self) -> list[range]:
        """Items of the first plan, then of every step that added some."""
        ends = [self.items, *(step.items for step in self.steps)]
        return [range(self.items), *(range(a, b) for a, b in pairwise(ends) if b > a)]

    @property
    def joined(self) -> list[tuple[int, ...]]:
        """Agents of every step that added some."""
        ends = [self.anchors, *(step.agents for step in self.steps)]
        return [tuple(range(a, b)) for a, b in pairwise(ends) if b > a]
