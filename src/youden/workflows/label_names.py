"""Match the names of agents in a table of labels with the agents of a run.

A file of labels may use ids or aliases. Unknown names are reported with the most similar known name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from difflib import SequenceMatcher, get_close_matches

from youden.data.label_tables import LabelTable
from youden.errors import ConfigError
from youden.text.sentences import describe_similar_new_names, format_count
from youden.types import Agent

MAX_NAMED = 5


MAX_NAMES_COMPARED = 500
"""Maximum number of unknown names that are compared with all agents; ten such comparisons take about a millisecond."""


def get_unique_aliases(agents: Iterable[Agent]) -> dict[str, str]:
    """Map the alias of each agent (its metadata field `alias`) to its id.

    An alias that is also the id or the alias of another agent is left out, because it is ambiguous.
    """
    all_agents = list(agents)
    agents_with_alias = [agent for agent in all_agents if agent.meta.get("alias")]
    aliases = [str(agent.meta["alias"]) for agent in agents_with_alias]
    ids = [agent.id for agent in all_agents]
    n_uses = Counter([*aliases, *ids])
    id_by_alias = {alias: agent.id for alias, agent in zip(aliases, agents_with_alias, strict=True)}
    return {alias: agent_id for alias, agent_id in id_by_alias.items() if n_uses[alias] == 1}


def rename_to_agent_ids(table: LabelTable, agent_ids: Collection[str], aliases: Mapping[str, str]) -> LabelTable:
    """Replace the names of agents in a table of labels by the agents' ids in a run.

    Parameters
    ----------
    table : LabelTable
        Labels. Each row has the name of an agent and, if the file has a column `alias`, a second name.
    agent_ids : collection of str
        Ids of the agents in the run.
    aliases : mapping of str to str
        Alias of an agent in the run → its id.

    Returns
    -------
    LabelTable
        A copy of the labels with ids as names. Names that match no agent of the run are unchanged. Its `id_by_name` maps each
        replaced name to the id.

    Raises
    ------
    ConfigError
        [labels-alias] if two names in the file refer to one agent.

    Notes
    -----
    A name that is the id of an agent in the run is not changed. Any other name is replaced by the first of these ids that exists:

    1. the alias in its row, if this is the id of an agent;
    2. the id of the agent that has the name as its alias in the run;
    3. the id of the agent that has the alias in the row as its alias in the run.
    """
    ids = set(agent_ids)
    id_by_name: dict[str, str] = {}
    for name, alias in zip(table.agents, table.aliases, strict=True):
        if name in ids:
            continue
        agent_id = _find_agent_id(name, alias, ids, aliases)
        if agent_id is not None:
            id_by_name[name] = agent_id

    _check_one_name_per_agent(table, ids, id_by_name)
    renamed = tuple(id_by_name.get(name, name) for name in table.agents)
    return replace(table, agents=renamed, id_by_name=id_by_name)


def _find_agent_id(name: str, alias: str | None, ids: Set[str], aliases: Mapping[str, str]) -> str | None:
    """Find the id of an agent by its name and alias in a table of labels; `rename_to_agent_ids` has the rules."""
    if alias in ids:
        return alias
    if name in aliases:
        return aliases[name]
    return None if alias is None else aliases.get(alias)


def _check_one_name_per_agent(table: LabelTable, ids: Set[str], id_by_name: Mapping[str, str]) -> None:
    """Check that no two names in a table of labels refer to the same agent.

    ids : ids of the agents in the run
    id_by_name : names in the table that are not ids → id of the agent to which the name refers

    Raises ConfigError [labels-alias].
    """
    name_by_id = {name: name for name in table.agents if name in ids}
    for name, agent_id in id_by_name.items():
        if agent_id in name_by_id:
            raise ConfigError(
                f"{table.source} has two names for the agent '{agent_id}': got '{name_by_id[agent_id]}' and, by an alias, "
                f"'{name}'. Remove one of them.",
                slug="labels-alias",
            )
        name_by_id[agent_id] = name


def quote_with_suggestions(
    names: Iterable[str], candidates: Iterable[str], *, labeled: Collection[str] = ()
) -> list[str]:
    """Quote unknown names, each with the most similar candidate as a suggestion, for an error message.

    Parameters
    ----------
    names : iterable of str
        Unknown names. Duplicates are ignored. Only the first 500 names (`MAX_NAMES_COMPARED`) can get a suggestion.
    candidates : iterable of str
        Known names. Case and surrounding spaces are ignored in comparisons.
    labeled : collection of str, default ()
        Candidates that already have a label. A name is probably not a misspelling of one of these, so names that resemble them
        are listed later.

    Returns
    -------
    list of str
        At most five names (`MAX_NAMED`), the most similar ones first, for example "'gpt4' (did you mean 'gpt-4'?)". A name
        that resembles no candidate has no suggestion. If there are further names, a last entry states how many, for example
        "3 more".
    """
    unknown = list(dict.fromkeys(names))
    closest = _find_closest_candidates(unknown[:MAX_NAMES_COMPARED], candidates)

    def get_sort_key(name: str) -> tuple[bool, float]:
        """Return a sort key: names that resemble an unlabeled candidate come first, names that resemble none last."""
        if name not in closest:
            return True, 0.0
        candidate, similarity = closest[name]
        return candidate in labeled, -similarity

    quoted = []
    unknown.sort(key=get_sort_key)
    for name in unknown[:MAX_NAMED]:
        suggestion = f" (did you mean '{closest[name][0]}'?)" if name in closest else ""
        quoted.append(f"'{name}'{suggestion}")
    return quoted + _format_remainder(unknown)


def _find_closest_candidates(names: Iterable[str], candidates: Iterable[str]) -> dict[str, tuple[str, float]]:
    """Find the most similar known name for each unknown name.

    Case and surrounding spaces are ignored.

    names : unknown names
    candidates : known names

    Returns a mapping: unknown name → most similar candidate, and the similarity of the two from 0 to 1. A name that resembles
    no candidate is left out.
    """
    candidate_by_key = {candidate.strip().casefold(): candidate for candidate in candidates}
    closest = {}
    for name in names:
        key = name.strip().casefold()
        matches = get_close_matches(key, candidate_by_key, n=1)
        if matches:
            similarity = SequenceMatcher(None, matches[0], key).ratio()
            closest[name] = (candidate_by_key[matches[0]], similarity)
    return closest


def describe_renamed_agents(id_by_name: Mapping[str, str]) -> list[str]:
    """Describe which agents have another name in the labels than in the run.

    id_by_name : name in the labels → id in the run

    Returns a list with this one sentence, or an empty list if there are no such agents.
    """
    if not id_by_name:
        return []
    renamed = [f"'{name}' is '{agent_id}'" for name, agent_id in id_by_name.items()]
    return [f"Labeled under another name: {', '.join(shorten_list(renamed))}."]


def describe_unknown_agents(labeled: Iterable[str], agent_ids: Collection[str]) -> list[str]:
    """Describe in one sentence which labeled agents are not in a run.

    labeled : names of the labeled agents, may repeat
    agent_ids : ids of the agents of the run

    Returns a list with this one sentence, or an empty list if all labeled agents are in the run.
    """
    names = dict.fromkeys(labeled)
    unknown = [name for name in names if name not in agent_ids]
    if not unknown:
        return []
    suggestions = ", ".join(quote_with_suggestions(unknown, agent_ids, labeled=names))
    return [f"{len(unknown)} of {len(names)} labeled agents are not in this run and are left out: {suggestions}."]


def describe_unknown_items(labeled_ids: Iterable[str], item_ids: Collection[str], *, consequence: str) -> list[str]:
    """Describe which labeled items are not in a run, and which of their ids resemble one of the run.

    labeled_ids : ids of the labeled items, may repeat
    item_ids : ids of the items of the run
    consequence : clause that states what happens to the labels of these items, for example "the labels count nevertheless"

    Returns an empty list if all labeled items are in the run. Otherwise, the first sentence has the number of unknown items and
    the first five of their ids. A second one names ids that resemble an id of the run, if there are any.
    """
    unknown_ids = [item_id for item_id in dict.fromkeys(labeled_ids) if item_id not in item_ids]
    if not unknown_ids:
        return []
    quoted = ", ".join(shorten_list(f"'{item_id}'" for item_id in unknown_ids))
    items_are = format_count(len(unknown_ids), "labeled item", "is", "are")  # such as "3 labeled items are"
    return [f"{items_are} not in this run; {consequence}: {quoted}.", *_describe_similar_ids(item_ids, unknown_ids)]


def _describe_similar_ids(ids: Iterable[str], labeled_ids: Iterable[str]) -> list[str]:
    """Describe in one sentence which labeled ids differ so little from those of a run that they may mean the same.

    ids : ids in the run
    labeled_ids : ids in the labels

    Returns a list with this one sentence, or an empty list if there are no such ids.
    """
    similar_ids = describe_similar_new_names(ids, labeled_ids)
    return [f"{similar_ids[0].upper()}{similar_ids[1:]}."] if similar_ids else []


def shorten_list(names: Iterable[str]) -> list[str]:
    """Return the first `MAX_NAMED` distinct names, followed by an entry such as "3 more" if there are others."""
    distinct = list(dict.fromkeys(names))
    return distinct[:MAX_NAMED] + _format_remainder(distinct)


def _format_remainder(names: Sequence[str]) -> list[str]:
    """Return the number of names beyond the first `MAX_NAMED` as a list such as ["3 more"], or an empty list."""
    return [f"{len(names) - MAX_NAMED} more"] if len(names) > MAX_NAMED else []
