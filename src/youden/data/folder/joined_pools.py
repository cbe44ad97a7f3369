"""Add agents, items or repeats of another pool to a run's pool.

Additions come after the existing agents, items and responses, which stay unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from youden.data.folder.run_config import RunConfig
from youden.data.folder.trial_tables import read_plan_without_trials
from youden.data.pools.pool_reader import read_pool
from youden.errors import PoolError
from youden.text.sentences import describe_similar_new_names, format_count
from youden.types import Agent, Item, Pool
from youden.types.pool import Objects

M = TypeVar("M", Agent, Item)

_MAX_DISPLAYED = 5


def read_run_pools(config: RunConfig) -> list[Pool]:
    """Read the initial pool of a run, and the pool after each extension.

    Parameters
    ----------
    config : RunConfig
        Config of the run.

    Returns
    -------
    list of Pool
        The initial pool, then the pool after each extension, in order. An extension may add agents, items, further responses or
        only calls.

    Raises
    ------
    PoolError
        If a pool cannot be read, or does not fit the pool that it extends.
    """
    pools = [_restore_initial_pool(config, read_pool(config.pool, empty=config.empty))]
    for step in config.extensions:
        pool = pools[-1]
        if step.added_pool is not None:
            join = JOIN_BY_KIND[step.kind]
            pool = join(pool, read_pool(step.added_pool, empty=config.empty))
        pools.append(pool)
    return pools


def _restore_initial_pool(config: RunConfig, pool: Pool) -> Pool:
    """Return the pool with which a run began, without agents, items and responses that were added to its files later.

    The config of the run records the digest (hash) of the initial pool. The plan of the run lists the initial agents and items
    first, and states their numbers if it was extended.

    pool : pool that the files contain now; it is returned unchanged if no part of it has the recorded digest
    """
    plan_file = config.folder / "plan.parquet"
    if config.resolved is None or pool.digest == config.resolved.pool or not plan_file.is_file():
        return pool

    plan = read_plan_without_trials(plan_file).plan
    n_agents, n_items = plan.n_agents, plan.n_items
    if plan.extensions is not None:
        n_agents, n_items = plan.extensions.anchors, plan.extensions.items
    agents, items = plan.agent_ids[:n_agents], plan.item_ids[:n_items]
    return find_subpool(pool, agents, items, digest=config.resolved.pool) or pool


def find_subpool(pool: Pool, agents: Sequence[str], items: Sequence[str], *, digest: str) -> Pool | None:
    """Find the part of a pool that has a given digest (hash).

    Parameters
    ----------
    pool : Pool
        Pool to search.
    agents, items : sequence of str
        Ids of the agents and items of the part, in the order of the part.
    digest : str
        SHA-256 (hex) of the part, as in `Pool.digest`.

    Returns
    -------
    Pool or None
        Pool of these agents and items. It has all responses of each agent to each item, or only the first few of these
        responses, whichever has the digest. None if no such part has the digest, or if the pool lacks one of the ids.
    """
    _, rows = _match_ids(agents, pool.agents)
    _, columns = _match_ids(items, pool.items)
    if len(rows) < len(agents) or len(columns) < len(items):
        return None

    part_agents = tuple(pool.agents[row] for row in rows)
    part_items = tuple(pool.items[column] for column in columns)
    selected_texts = [texts[np.ix_(rows, columns)] for texts in pool.texts_by_repeat]
    texts_by_repeat = _drop_empty_repeats(selected_texts)
    for n_repeats in range(len(texts_by_repeat), 0, -1):
        part = Pool.from_repeats(part_agents, part_items, texts_by_repeat[:n_repeats], pool.name)
        if part.digest == digest:
            return part
    return None


def _drop_empty_repeats(texts_by_repeat: Sequence[Objects]) -> list[Objects]:
    """Drop the last repeats in which no agent has a response, but keep the first one.

    texts_by_repeat : object arrays (n_agents, n_items): first responses, second responses and so on, with None for a missing
        response
    """
    remaining = list(texts_by_repeat)
    while len(remaining) > 1 and all(text is None for text in remaining[-1].flat):
        remaining.pop()
    return remaining


def _add_agents(pool: Pool, new_pool: Pool) -> Pool:
    """Return a pool with the new agents of another pool added.

    The new agents bring their responses to the items of the first pool. Other items of the second pool are ignored.

    pool : pool to extend
    new_pool : pool with new agents

    Raises: PoolError [join-none] if no agent is new; [join-conflict] if a prompt or a response differs between the pools;
        [join-gaps] if a new agent has no response to an item to which all agents of the first pool responded.
    """
    new_agents = _list_new_members(pool.agents, new_pool.agents)
    if not new_agents:
        raise _make_nothing_new_error("agents", new_pool)
    _check_prompts(pool, new_pool)
    _check_responses(pool, new_pool)

    texts_by_repeat = _select_texts(new_pool, [agent.id for agent in new_agents], [item.id for item in pool.items])
    first_texts = texts_by_repeat[0]  # a cell without a first response is missing, see `Pool.present`
    has_all_responses = pool.present.all(axis=0)
    required_columns = np.flatnonzero(has_all_responses).tolist()
    required_items = [pool.items[column] for column in required_columns]
    _check_gaps(new_agents, required_items, first_texts[:, required_columns])
    return pool.with_agents(new_agents, texts_by_repeat)


def _add_items(pool: Pool, new_pool: Pool) -> Pool:
    """Return a pool with the new items of another pool added.

    The new items bring the responses of the first pool's agents. Other agents of the second pool are ignored.

    pool : pool to extend
    new_pool : pool with new items

    Raises: PoolError [join-none] if no item is new; [join-conflict] if a prompt or a response differs between the pools;
        [join-gaps] if the first pool has no missing responses, but an agent has no response to a new item.
    """
    new_items = _list_new_members(pool.items, new_pool.items)
    if not new_items:
        raise _make_nothing_new_error("items", new_pool)
    _check_prompts(pool, new_pool)
    _check_responses(pool, new_pool)

    texts_by_repeat = _select_texts(new_pool, [agent.id for agent in pool.agents], [item.id for item in new_items])
    if pool.n_missing == 0:
        _check_gaps(pool.agents, new_items, texts_by_repeat[0])
    return pool.with_items(new_items, texts_by_repeat)


def _list_new_members(members: Sequence[M], new_members: Sequence[M]) -> list[M]:
    """List the agents or items of a new pool whose ids the old pool lacks."""
    existing_ids = {member.id for member in members}
    return [member for member in new_members if member.id not in existing_ids]


def describe_addition(pool: Pool, new_pool: Pool, joined: Pool) -> list[str]:
    """Describe the extension of a run by another pool, as clauses for notes to the user.

    Parameters
    ----------
    pool, joined : Pool
        Pool of the run before and after the extension.
    new_pool : Pool
        Pool that was added.

    Returns
    -------
    list of str
        Up to five clauses without a period. They list agents and items of `new_pool` that are left out, for example new
        items if the extension adds agents, and new ids that may be misspelled because they resemble others. The last clause
        has the number of empty added responses. The list is empty if there is nothing to report.
    """
    notes = [
        *_describe_ids("agent", pool.agents, new_pool.agents, joined.agents),
        *_describe_ids("item", pool.items, new_pool.items, joined.items),
    ]
    n_empty = joined.n_empty - pool.n_empty
    if n_empty:
        notes.append(
            format_count(
                n_empty, "added response", "is empty and counts as a failure", "are empty and count as failures"
            )
        )
    return notes


def _describe_ids(kind: str, members: Sequence[M], new_members: Sequence[M], joined_members: Sequence[M]) -> list[str]:
    """List notes about ids after a pool has been added to the pool of a run.

    kind : "agent" or "item"
    members : agents or items of the run before the addition
    new_members : agents or items of the added pool
    joined_members : agents or items of the run after the addition

    Returns at most two clauses. The first lists ids of the added pool that were left out. The second lists ids that are so
    similar that one may be misspelled. It is left out if the run had the same similar ids before.
    """
    notes = []
    left_out = [member.id for member in _list_new_members(joined_members, new_members)]
    if left_out:
        counted = format_count(len(left_out), kind, "is", "are")
        notes.append(
            f"{counted} not in the run and left out: {_format_ids(left_out)}; add {kind}s by a separate extension"
        )

    all_ids = [member.id for member in joined_members] + left_out
    similar_names = describe_similar_new_names([member.id for member in members], all_ids)
    if similar_names:
        notes.append(f"{kind}s: {similar_names}")
    return notes


def join_repeats(pool: Pool, new_pool: Pool) -> Pool:
    """Add further responses from another pool to a pool, as repeats.

    Repeats are several responses of an agent to an item. Responses are added only if the agent already has a response to the
    item. New agents and items are ignored. If a text occurs once in `pool` and three times in `new_pool`, two are added.

    pool : pool to extend
    new_pool : pool with further responses of the same agents

    Returns a new pool with the same agents and items, in which the new responses follow the old ones.

    Raises: PoolError [join-none] if no response is new; [join-conflict] if an item has different prompts.
    """
    _check_prompts(pool, new_pool)
    agent_ids = [agent.id for agent in pool.agents]
    item_ids = [item.id for item in pool.items]
    new_texts = _select_texts(new_pool, agent_ids, item_ids)

    responses: dict[tuple[int, int], list[str]] = {}
    for cell in zip(*np.nonzero(pool.present), strict=True):
        old_responses = _get_responses(pool.texts_by_repeat, cell)
        responses[cell] = old_responses + _list_added_responses(old_responses, _get_responses(new_texts, cell))

    texts_by_repeat = _stack_by_repeat(responses, pool.texts.shape)
    joined = Pool.from_repeats(pool.agents, pool.items, texts_by_repeat, pool.name)
    if joined.n_responses == pool.n_responses:
        raise PoolError(
            f"'{new_pool.name}' has no further responses of the run's agents to the run's items. Pass a pool with such "
            "responses; to add new agents, new items or only calls, extend the run by these instead.",
            slug="join-none",
        )
    return joined


def _list_added_responses(old_responses: Sequence[str], new_responses: Sequence[str]) -> list[str]:
    """List the new responses of an agent to an item that the old pool does not have yet.

    A text can occur several times, because an agent may give the same response twice. Each old response therefore
    accounts for only one of the equal new responses.

    old_responses, new_responses : responses in the old and in the new pool

    Returns the remaining new responses in their order.
    """
    n_unmatched = Counter(old_responses)  # old responses that no new response equals so far, by text
    additions = []
    for text in new_responses:
        if n_unmatched[text] > 0:
            n_unmatched[text] -= 1
        else:
            additions.append(text)
    return additions


class MergedPool(NamedTuple):
    """A pool after merging, and what changed.

    Attributes
    ----------
    pool : Pool
        The merged pool.
    agents, items : tuple of str
        Ids of new agents and items.
    repeats : int
        Number of new responses of existing agents to existing items.
    changed : tuple of str
        Cells (agent and item), as text, in which the new pool has a different response, or the first one.
    removed : tuple of str
        Ids of agents, then of items, and then responses (agent and item, as text) that the new pool no longer has. They stay in
        the merged pool. A response counts only if the new pool has its agent and its item.
    prompts : tuple of str
        Ids of items of both pools whose prompts differ.
    """

    pool: Pool
    agents: tuple[str, ...]
    items: tuple[str, ...]
    repeats: int
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    prompts: tuple[str, ...]


def merge_pools(pool: Pool, new_pool: Pool, *, keep: bool) -> MergedPool:
    """Add the agents, items and responses that only a new pool has, and return a new pool.

    Parameters
    ----------
    pool : Pool
        Pool to extend; nothing is removed from it.
    new_pool : Pool
        Pool with additions.
    keep : bool
        Whether the old responses stay if the responses of an old agent to an old item have changed, that is, if
        `new_pool` has further ones and lacks old ones. If False, the responses of `new_pool` replace all old ones, and
        prompts and metadata of items come from `new_pool`. If True, the old responses, prompts and metadata stay, and an
        old agent without a response to an old item gets none.

        In both cases, three rules apply. If `new_pool` has all old responses of the agent to the item (at least one),
        further responses are appended as repeats. If `new_pool` has no further response, the old responses stay. The groups
        and metadata of agents come from `new_pool`.

    Returns
    -------
    MergedPool
        The merged `pool`, which has the name of `pool`, with the old agents and items first; and what changed, as tuples of texts
        for messages: ids of new `agents` and `items`, `changed` responses ("'AGENT' to 'ITEM'"), `removed` agents, items and
        responses (which stay in the merged pool), and ids of items whose `prompts` differ. `repeats` is the number of new
        repeats.
    """
    agents = _merge_members(pool.agents, new_pool.agents, keep=False)
    items = _merge_members(pool.items, new_pool.items, keep=keep)
    agent_ids = [agent.id for agent in agents]
    item_ids = [item.id for item in items]

    old_texts = _select_texts(pool, agent_ids, item_ids)
    new_texts = _select_texts(new_pool, agent_ids, item_ids)
    n_added_responses = 0
    changed = []
    removed_agents = _list_removed(pool.agents, new_pool.agents)
    removed_items = _list_removed(pool.items, new_pool.items)
    missing_agents, missing_items = set(removed_agents), set(removed_items)
    removed_responses = []
    responses: dict[tuple[int, int], Sequence[str]] = {}
    for agent, item in np.ndindex(len(agents), len(items)):
        old_responses = _get_responses(old_texts, (agent, item))
        new_responses = _get_responses(new_texts, (agent, item))
        is_new_cell = agent >= pool.n_agents or item >= pool.n_items  # new agents and items come last
        if is_new_cell:
            responses[agent, item] = new_responses
            continue

        merged_responses, has_changed = _merge_responses(old_responses, new_responses, keep=keep)
        responses[agent, item] = merged_responses
        if has_changed:
            changed.append(f"'{agent_ids[agent]}' to '{item_ids[item]}'")
            continue
        n_added_responses += len(merged_responses) - len(old_responses)
        is_member_removed = agent_ids[agent] in missing_agents or item_ids[item] in missing_items
        if len(new_responses) < len(old_responses) and not is_member_removed:
            removed_responses.append(f"'{agent_ids[agent]}' to '{item_ids[item]}'")

    old_prompts = {item.id: item.prompt for item in pool.items}
    changed_prompts = [item.id for item in new_pool.items if item.prompt != old_prompts.get(item.id, item.prompt)]
    texts_by_repeat = _stack_by_repeat(responses, (len(agents), len(items)))
    return MergedPool(
        Pool.from_repeats(agents, items, texts_by_repeat, pool.name),
        agents=tuple(agent_ids[pool.n_agents :]),
        items=tuple(item_ids[pool.n_items :]),
        repeats=n_added_responses,
        changed=tuple(changed),
        removed=(*removed_agents, *removed_items, *removed_responses),
        prompts=tuple(changed_prompts),
    )


def _merge_members(members: Sequence[M], new_members: Sequence[M], *, keep: bool) -> tuple[M, ...]:
    """Merge the agents, or the items, of an old and a new pool by their ids.

    members : agents or items of the old pool
    new_members : agents or items of the new pool
    keep : which pool decides if both have an id: the old one (True) or the new one (False). It decides about the group or
        prompt, and the metadata.

    Returns the old members in their order, then the members that only the new pool has.
    """
    members_by_id = {member.id: member for member in members}
    for member in new_members:
        is_added = member.id not in members_by_id
        if is_added or not keep:
            members_by_id[member.id] = member
    return tuple(members_by_id.values())


def _list_removed(members: Sequence[M], new_members: Sequence[M]) -> list[str]:
    """Return the sorted ids of the agents or items that the old pool has and the new pool lacks."""
    return sorted({member.id for member in members} - {member.id for member in new_members})


def _merge_responses(old_responses: list[str], new_responses: list[str], *, keep: bool) -> tuple[list[str], bool]:
    """Merge the responses of an agent to an item in an old and a new pool.

    The first of these rules that applies decides:

    1. The new pool adds no response: the old responses stay.
    2. The new pool has all old responses and more: those are added. There must be at least one old response.
    3. Otherwise, the responses have changed, and `keep` decides.

    keep : which responses are returned if they have changed: the old ones (True) or the new ones (False)

    Returns the merged responses, and whether the responses have changed.
    """
    # differences of multisets, because an agent may give the same response several times
    n_old, n_new = Counter(old_responses), Counter(new_responses)
    additions = list((n_new - n_old).elements())
    has_all_old = not n_old - n_new
    if not additions:
        return old_responses, False
    if old_responses and has_all_old:
        return old_responses + additions, False
    if keep:
        return old_responses, True
    return new_responses, True


def _get_responses(texts_by_repeat: Sequence[Objects], cell: Any) -> list[str]:
    """Return all responses in a cell, given by its row and column, in the order of the repeats."""
    return [texts[cell] for texts in texts_by_repeat if texts[cell] is not None]


def _stack_by_repeat(responses: Mapping[tuple[int, int], Sequence[str]], shape: tuple[int, ...]) -> list[Objects]:
    """Arrange responses in arrays: one array with all first responses, one with all second responses, and so on.

    responses : responses of an agent to an item, by the positions of both
    shape : (n_agents, n_items)

    Returns the arrays, which contain None for missing responses. The second array is None for an agent with only one response
    to an item.
    """
    n_repeats = max(map(len, responses.values()), default=0)
    texts_by_repeat: list[Objects] = [np.full(shape, None, dtype=object) for _ in range(n_repeats)]
    for cell, cell_responses in responses.items():
        for texts, text in zip(texts_by_repeat, cell_responses, strict=False):
            texts[cell] = text
    return texts_by_repeat


JOIN_BY_KIND: Final[dict[str, Callable[[Pool, Pool], Pool]]] = {
    "agents": _add_agents,
    "items": _add_items,
    "repeats": join_repeats,
}
"""Kind of an extension → function that adds a new pool to a run's pool; both pools are positional arguments."""


def _select_texts(pool: Pool, agents: Sequence[str], items: Sequence[str]) -> list[Objects]:
    """Select the responses of agents to items, by id.

    Returns one object array (len(agents), len(items)) per repeat, with None where the pool has no response.
    """
    selected: list[Objects] = [np.full((len(agents), len(items)), None, dtype=object) for _ in range(pool.repeats)]
    rows, pool_rows = _match_ids(agents, pool.agents)
    columns, pool_columns = _match_ids(items, pool.items)
    if not rows or not columns:
        return selected

    target_cells = np.ix_(rows, columns)
    source_cells = np.ix_(pool_rows, pool_columns)
    for selected_texts, pool_texts in zip(selected, pool.texts_by_repeat, strict=True):
        selected_texts[target_cells] = pool_texts[source_cells]
    return selected


def _match_ids(ids: Sequence[str], members: Sequence[M]) -> tuple[list[int], list[int]]:
    """Find those of several ids that agents or items have; return their positions in `ids`, and the positions in `members`."""
    position_by_id = {member.id: position for position, member in enumerate(members)}
    positions = [position for position, id_ in enumerate(ids) if id_ in position_by_id]
    return positions, [position_by_id[ids[position]] for position in positions]


def _check_prompts(pool: Pool, new_pool: Pool) -> None:
    """Check that no item has different prompts in the pool of a run and in a pool to be added.

    Responses to different prompts must not be compared. An item may have a prompt in only one of the pools.

    Raises: PoolError [join-conflict] for the first item with different prompts.
    """
    new_prompts = {item.id: item.prompt for item in new_pool.items}
    for item in pool.items:
        new_prompt = new_prompts.get(item.id)
        if item.prompt and new_prompt and new_prompt != item.prompt:
            raise PoolError(
                f"The item '{item.id}' has different prompts in '{new_pool.name}' and in this run's pool. Pass responses to the "
                "run's items, or start a new run.",
                slug="join-conflict",
            )


def _check_responses(pool: Pool, new_pool: Pool) -> None:
    """Raise PoolError [join-conflict] if the first response of an agent to an item differs between two pools.

    Only agents and items of `pool` are compared, and only cells in which the new pool has a response.
    """
    agent_ids = [agent.id for agent in pool.agents]
    item_ids = [item.id for item in pool.items]
    first_texts = _select_texts(new_pool, agent_ids, item_ids)[0]
    for agent, texts, new_texts in zip(pool.agents, pool.texts, first_texts, strict=True):
        for item, text, new_text in zip(pool.items, texts, new_texts, strict=True):
            if new_text is not None and text != new_text:
                raise PoolError(
                    f"The agent '{agent.id}' has different responses to '{item.id}' in '{new_pool.name}' and in this run's pool. "
                    "Remove agents that the run already has, or set another id for an agent that has changed.",
                    slug="join-conflict",
                )


def _make_nothing_new_error(kind: str, new_pool: Pool) -> PoolError:
    """Make the error [join-none] for a pool without new agents or items; `kind` is "agents" or "items"."""
    return PoolError(
        f"All {kind} of '{new_pool.name}' are already in the run. Pass a pool with new {kind}; to add only calls, set `calls` "
        "instead.",
        slug="join-none",
    )


def _check_gaps(agents: Sequence[Agent], items: Sequence[Item], texts: Objects) -> None:
    """Check that agents have responded to all items on which they must be compared.

    texts : object array (n_agents, n_items), response of each agent to each of these items; None if there is no response. If
        empty texts count as missing (`empty: missing` in the config), they are None, too.

    Raises PoolError [join-gaps] for the first agent without a response.
    """
    for agent, agent_texts in zip(agents, texts, strict=True):
        missing = [item.id for item, text in zip(items, agent_texts, strict=True) if text is None]
        if missing:
            raise PoolError(
                f"The agent '{agent.id}' has no response to {format_count(len(missing), 'item')} on which it must be compared: "
                f"{_format_ids(missing)}. "
                "Add these responses (unless the config has `empty: missing`, an empty text is one), or remove the agent.",
                slug="join-gaps",
            )


def _format_ids(ids: Sequence[str]) -> str:
    """Format the first ids of agents or items as a list, with an ellipsis if there are more."""
    ellipsis = " …" if len(ids) > _MAX_DISPLAYED else ""
    return ", ".join(ids[:_MAX_DISPLAYED]) + ellipsis
