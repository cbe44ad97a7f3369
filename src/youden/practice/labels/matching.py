"""Which agent of a run a label is of: by its id, by another name of either, and what is said of those that are nobody's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher, get_close_matches

from youden.data.labels import LabelTable
from youden.errors import ConfigError
from youden.nouns import Agent

MOST_NAMED = 5
LOOKED_AT = 500
"""How many names that match nobody are compared with all agents, which takes a millisecond for ten pairs."""


def aliases_of(agents: Iterable[Agent]) -> dict[str, str]:
    """Other name → agent, where `meta.alias` says one that is no other agent's id or alias."""
    known = list(agents)
    said = [(str(agent.meta["alias"]), agent.id) for agent in known if agent.meta.get("alias")]
    taken = Counter([*(alias for alias, _ in said), *(agent.id for agent in known)])
    return {alias: agent for alias, agent in said if taken[alias] == 1}


def matched(table: LabelTable, agent_ids: Collection[str], aliases: Mapping[str, str]) -> LabelTable:
    """The table with its agents called as in the run: by id; else by its column alias; else by an alias of the run's agent.

    Raises: ConfigError [labels-alias] where two labelled agents turn out to be one.
    """
    known = set(agent_ids)
    called: dict[str, str] = {}
    for name, alias in zip(table.agents, table.aliases, strict=True):
        if name in known:
            continue
        if alias in known:
            called[name] = str(alias)
        elif (found := aliases.get(name) or aliases.get(alias or "")) is not None:
            called[name] = found
    taken = {name: name for name in table.agents if name in known}
    for name, agent in called.items():
        if taken.setdefault(agent, name) != name:
            raise ConfigError(
                f"{table.source} labels the agent '{agent}' as '{taken[agent]}' and, by an alias, as '{name}'. Keep one of them.",
                slug="labels-alias",
            )
    return replace(table, agents=tuple(called.get(name, name) for name in table.agents), called=called)


def with_near(names: Iterable[str], known: Iterable[str], *, labelled: Collection[str] = ()) -> list[str]:
    """The first names, each with the known one it may have meant: those nearest to an agent without a label first."""
    found = list(dict.fromkeys(names))
    folded = {one.strip().casefold(): one for one in known}
    near: dict[str, tuple[bool, float, str]] = {}
    for one in found[:LOOKED_AT]:
        key = one.strip().casefold()
        for close in get_close_matches(key, folded, n=1):
            ratio = SequenceMatcher(None, close, key).ratio()
            near[one] = (folded[close] in labelled, -ratio, folded[close])
    found.sort(key=lambda one: near.get(one, (True, 0.0, ""))[:2])
    said = [f"'{one}'" + (f" (did you mean '{near[one][2]}'?)" if one in near else "") for one in found[:MOST_NAMED]]
    return said + _more(found)


def first(names: Iterable[str]) -> list[str]:
    """The first names, and how many more there are."""
    found = list(dict.fromkeys(names))
    return found[:MOST_NAMED] + _more(found)


def _more(names: Sequence[str]) -> list[str]:
    return [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
