"""Summarize a pool without its texts, and define `pool.json`, which stores the summary in the folder of a run.

The summary contains values that are computed from the texts, because a fit does not read the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Self

import numpy as np
from pydantic import Field, JsonValue

from youden.data.folder.run_files import VERSION, StrictFile
from youden.text.words import mean_lengths
from youden.types import Agent, Pool
from youden.types.pool import Floats, ReadOnly, freeze, or_none

TEXT_VALUES: Final[Mapping[str, Callable[[Pool], Floats]]] = {
    "mean_words": lambda pool: mean_lengths(pool.texts),
}
"""Values of the texts by name: functions that return a float array (n_agents,), NaN for an agent without a value.

A column of the ranking may have the name of a value. Each name is a key of the agents in pool.json (`_AgentEntry`)."""


@dataclass(frozen=True, eq=False)
class PoolSummary(ReadOnly):
    """A pool without its texts.

    Attributes
    ----------
    name : str
        Name of the pool.
    digest : str or None
        Digest of the pool; None if the run was imported without texts.
    source : str
        Path of the pool, or of the imported file, as the user gave it.
    agents : tuple of Agent
    item_ids : tuple of str
    n_missing : int or None
        Number of cells without a response; None if unknown.
    text_values : mapping of str to float array (n_agents,)
        Values of each agent's texts by the names of `TEXT_VALUES`, NaN for an agent without a value. Unknown values are left
        out.
    notes : tuple of str
        Caveats about every number that is computed from this pool.
    """

    name: str
    digest: str | None
    source: str
    agents: tuple[Agent, ...]
    item_ids: tuple[str, ...]
    n_missing: int | None
    text_values: Mapping[str, Floats]
    notes: tuple[str, ...] = field(default=())

    def _freeze_arrays(self) -> None:
        freeze(self.text_values.values())

    @property
    def agent_ids(self) -> tuple[str, ...]:
        """Ids of the agents."""
        return tuple(agent.id for agent in self.agents)

    @property
    def groups(self) -> dict[str, str | None]:
        """Id of an agent → its group."""
        return {agent.id: agent.group for agent in self.agents}

    @property
    def families(self) -> dict[str, str]:
        """Id of an agent → its family, for agents with a family."""
        values = {agent.id: agent.meta.get("family") for agent in self.agents}
        return {agent: family for agent, family in values.items() if isinstance(family, str) and family}

    @property
    def mean_length(self) -> Floats | None:
        """Mean number of words in each agent's responses: float array (n_agents,); None if unknown."""
        return self.text_values.get("mean_words")

    @classmethod
    def from_pool(cls, pool: Pool, *, source: str) -> PoolSummary:
        """Summarize a pool.

        Parameters
        ----------
        pool : Pool
            The pool, with its texts.
        source : str
            Path of the pool, as the user gave it.

        Returns
        -------
        PoolSummary
            Name, digest, `source`, agents, ids of the items, number of cells (agent and item) without a response, and
            `text_values`: one float array (n_agents,) by name for each entry of `TEXT_VALUES`, for example the mean number of
            words of a response.
        """
        item_ids = tuple(item.id for item in pool.items)
        text_values = {name: compute_value(pool) for name, compute_value in TEXT_VALUES.items()}
        return cls(pool.name, pool.digest, source, pool.agents, item_ids, pool.n_missing, text_values)

    @classmethod
    def from_import(cls, agents: tuple[Agent, ...], item_ids: tuple[str, ...], *, source: str) -> PoolSummary:
        """Make the summary for a run that is imported without texts.

        Parameters
        ----------
        agents : tuple of Agent
            Agents of the run, by position.
        item_ids : tuple of str
            Ids of the items, by position.
        source : str
            Path of the imported file; it is also the name of the pool.

        Returns
        -------
        PoolSummary
            `digest` and `n_missing` are None, because they are unknown. `text_values` is empty.
        """
        return cls(source, None, source, agents, item_ids, n_missing=None, text_values={})


def get_text_value(pool: Pool | PoolSummary | None, name: str) -> Floats | None:
    """Return a value of the texts of each agent, float array (n_agents,); None if it is unknown.

    pool : pool with its texts, from which the value is computed, or a summary, which contains it
    name : name of the value in `TEXT_VALUES`
    """
    if isinstance(pool, Pool):
        return TEXT_VALUES[name](pool)
    return None if pool is None else pool.text_values.get(name)


class _AgentEntry(StrictFile):
    """Agent of a pool. A value of the texts is null if the agent has none."""

    id: str
    group: str | None
    mean_words: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    meta: Mapping[str, JsonValue]


class PoolFile(StrictFile):
    """Content of `pool.json`."""

    version: int
    name: str
    digest: str | None
    source: str
    n_missing: int | None
    agents: list[_AgentEntry]
    items: list[str]
    notes: list[str]

    @classmethod
    def from_summary(cls, pool: PoolSummary) -> Self:
        """Convert the summary of a pool to the contents of pool.json."""
        agents = []
        for position, agent in enumerate(pool.agents):
            text_values = dict.fromkeys(TEXT_VALUES)
            text_values |= {name: or_none(values[position]) for name, values in pool.text_values.items()}
            agents.append(_AgentEntry(id=agent.id, group=agent.group, meta=dict(agent.meta), **text_values))
        return cls(
            version=VERSION,
            name=pool.name,
            digest=pool.digest,
            source=pool.source,
            n_missing=pool.n_missing,
            agents=agents,
            items=list(pool.item_ids),
            notes=list(pool.notes),
        )

    def to_summary(self) -> PoolSummary:
        """Convert the content of the file to a summary."""
        text_values = {}
        for name in TEXT_VALUES:
            values = [getattr(agent, name) for agent in self.agents]
            if any(value is not None for value in values):
                text_values[name] = np.array(values, dtype=np.float64)
        return PoolSummary(
            name=self.name,
            digest=self.digest,
            source=self.source,
            agents=tuple(Agent(agent.id, agent.group, dict(agent.meta)) for agent in self.agents),
            item_ids=tuple(self.items),
            n_missing=self.n_missing,
            text_values=text_values,
            notes=tuple(self.notes),
        )
