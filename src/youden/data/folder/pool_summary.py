"""What a run keeps of its pool: who and what, never the texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from youden.data.folder.run_files import VERSION
from youden.nouns import Agent
from youden.nouns.arrays import Floats, freeze, or_none


@dataclass(frozen=True, eq=False)
class PoolSummary:
    """A pool without its texts.

    digest: the pool's; None where the run was imported without texts. source: where the pool came from, as given.
    n_missing: cells without a response; None where that is not known.
    mean_length: float[K], mean words of each agent's responses, NaN for an agent without any; None where no text was seen.
    notes: what a reader of any number made from this pool has to know.
    """

    name: str
    digest: str | None
    source: str
    agents: tuple[Agent, ...]
    item_ids: tuple[str, ...]
    n_missing: int | None
    mean_length: Floats | None
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        freeze([self.mean_length])

    @property
    def agent_ids(self) -> tuple[str, ...]:
        return tuple(agent.id for agent in self.agents)

    @classmethod
    def of_import(cls, agents: tuple[Agent, ...], item_ids: tuple[str, ...], *, source: str) -> PoolSummary:
        """Of a run that was imported without texts."""
        return cls(source, None, source, agents, item_ids, n_missing=None, mean_length=None)

    def to_json(self) -> str:
        """The text of `pool.json`."""
        lengths = [None] * len(self.agents) if self.mean_length is None else map(or_none, self.mean_length.tolist())
        model = PoolFile(
            version=VERSION,
            name=self.name,
            digest=self.digest,
            source=self.source,
            n_missing=self.n_missing,
            agents=[
                _AgentLine(id=agent.id, group=agent.group, mean_words=length, meta=dict(agent.meta))
                for agent, length in zip(self.agents, lengths, strict=True)
            ],
            items=list(self.item_ids),
            notes=list(self.notes),
        )
        return model.model_dump_json(indent=1) + "\n"


class _AgentLine(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    id: str
    group: str | None
    mean_words: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    meta: Mapping[str, JsonValue]


class PoolFile(BaseModel):
    """`pool.json` as it stands in the folder."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: int
    name: str
    digest: str | None
    source: str
    n_missing: int | None
    agents: list[_AgentLine]
    items: list[str]
    notes: list[str]

    def summary(self) -> PoolSummary:
        """The noun."""
        lengths = [agent.mean_words for agent in self.agents]
        unmeasured = all(length is None for length in lengths)
        return PoolSummary(
            name=self.name,
            digest=self.digest,
            source=self.source,
            agents=tuple(Agent(line.id, line.group, dict(line.meta)) for line in self.agents),
            item_ids=tuple(self.items),
            n_missing=self.n_missing,
            mean_length=None if unmeasured else np.array(lengths, dtype=np.float64),
            notes=tuple(self.notes),
        )
