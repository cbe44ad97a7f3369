"""Another pool's agents or items join a run's pool, behind its own, whose cells stay as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from pydantic import TypeAdapter

from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_files import PoolFile, parse, read_bytes
from youden.data.pools.pool_reader import read_pool
from youden.errors import PoolError
from youden.types import Pool
from youden.types.pool import Objects

_SHOWN = 5


def run_pools(config: RunConfig) -> list[Pool]:
    """The pool of a run as it was first, and after each of its extensions. Raises: PoolError."""
    pools = [_as_it_was(config, read_pool(config.pool))]
    for step in config.extensions:
        pool = step.added_pool
        pools.append(pools[-1] if pool is None else JOIN[step.kind](pools[-1], read_pool(pool)))
    return pools


def _as_it_was(config: RunConfig, pool: Pool) -> Pool:
    """The rows of a file that were there when the run began, where it was given more since and pool.json knows who was there."""
    file = config.folder / "pool.json"
    if config.drawn is None or pool.digest == config.drawn.pool or not file.is_file():
        return pool
    there = parse(file, read_bytes(file), TypeAdapter(PoolFile)).summary()
    agents, items = [agent.id for agent in there.agents], there.item_ids
    fewer = {step.agents is not None for step in config.extensions} | {False}
    sizes = [(n, len(items)) for n in range(len(agents), 1 if True in fewer else len(agents) - 1, -1)]
    if any(step.items is not None for step in config.extensions):
        sizes += [(len(agents), n) for n in range(len(items) - 1, 1, -1)]
    for n, m in sizes:
        part = part_of(pool, agents[:n], items[:m], digest=config.drawn.pool)
        if part is not None:
            return part
    return pool


def part_of(pool: Pool, agents: Sequence[str], items: Sequence[str], *, digest: str) -> Pool | None:
    """The responses of these agents to these items, in this order, or the first few of each, that have this digest; None where
    none have."""
    row = {agent.id: k for k, agent in enumerate(pool.agents)}
    column = {item.id: j for j, item in enumerate(pool.items)}
    if not (set(agents) <= row.keys() and set(items) <= column.keys()):
        return None
    rows, columns = [row[name] for name in agents], [column[name] for name in items]
    blocks = [block[np.ix_(rows, columns)] for block in pool.blocks]
    while len(blocks) > 1 and all(text is None for text in blocks[-1].flat):
        blocks.pop()
    own, asked = tuple(pool.agents[k] for k in rows), tuple(pool.items[j] for j in columns)
    parts = (Pool.of_blocks(own, asked, blocks[:n], pool.name) for n in range(len(blocks), 0, -1))
    return next((part for part in parts if part.digest == digest), None)


def read_run_pool(config: RunConfig) -> Pool:
    """The pool of a run, its extensions included. Raises: PoolError."""
    return run_pools(config)[-1]


def _join(pool: Pool, more: Pool, *, kind: Literal["agents", "items"]) -> Pool:
    """Return `pool` with the agents, or the items, of `more` that it lacks after its own; the other side of `more` stays out.

    Raises
    ------
    PoolError
        [join-none]: if nothing is new; [join-other]: if a prompt or a response in both pools differs; [join-gaps]: if a new agent
        lacks a response to an item that all agents have, or an agent lacks one to a new item and no response was missing before.
    """
    known = {one.id for one in getattr(pool, kind)}
    new = [one for one in getattr(more, kind) if one.id not in known]
    if not new:
        raise _nothing_new(kind, more)
    agents = new if kind == "agents" else pool.agents
    items = new if kind == "items" else pool.items
    blocks = _blocks(more, [agent.id for agent in agents], [item.id for item in items])
    _refuse_other_prompts(pool, more)
    _refuse_other_responses(pool, more)
    is_whole = [bool(column.all()) for column in pool.present.T]
    required = is_whole if kind == "agents" else [not pool.n_missing] * len(new)
    for agent, row in zip(agents, blocks[0], strict=True):
        cells = zip(items, row, required, strict=True)
        _refuse_gaps(agent.id, [item.id for item, text, is_required in cells if is_required and text is None])
    return pool.with_agents(new, blocks) if kind == "agents" else pool.with_items(new, blocks)


def join_repeats(pool: Pool, more: Pool) -> Pool:
    """`pool` and, behind its responses to an item, those of `more` that it does not have; agents, items and cells without a
    response that it does not have stay out. One that is there as often already is taken for the same.

    Raises: PoolError [join-none] where there are none; [join-other] where a prompt is another one.
    """
    _refuse_other_prompts(pool, more)
    theirs = _blocks(more, [agent.id for agent in pool.agents], [item.id for item in pool.items])
    said: dict[tuple[int, int], list[str]] = {}
    for cell in zip(*np.nonzero(pool.present), strict=True):
        own = _said(pool.blocks, cell)
        spare = Counter(own)
        for text in _said(theirs, cell):
            spare[text] -= 1
            own += [text] * (spare[text] < 0)
        said[cell] = own
    joined = Pool.of_blocks(pool.agents, pool.items, _stacked(said, pool.texts.shape), pool.name)
    if joined.n_responses == pool.n_responses:
        raise _nothing_new("responses", more)
    return joined


class GrownPool(NamedTuple):
    """A pool and what came to it. agents, items: ids that are new; repeats: how many further responses of its agents to its items
    there are; other: cells, in words, whose response is another one now; gone: agents and items that came no more, and stay."""

    pool: Pool
    agents: tuple[str, ...]
    items: tuple[str, ...]
    repeats: int
    other: tuple[str, ...]
    gone: tuple[str, ...]


def grown(pool: Pool, more: Pool, *, keep: bool) -> GrownPool:
    """`pool` and, behind its own, the agents, items and responses that only `more` has; nothing goes.

    keep: a cell of `pool` stays as it is where `more` has another response, or the first one; else `more` is believed.
    """
    came_agents, came_items = {one.id: one for one in more.agents}, {one.id: one for one in more.items}
    had_agents, had_items = {one.id for one in pool.agents}, {one.id for one in pool.items}
    agents = [came_agents.get(one.id, one) for one in pool.agents]
    items = [one if keep else came_items.get(one.id, one) for one in pool.items]
    agents += [one for one in more.agents if one.id not in had_agents]
    items += [one for one in more.items if one.id not in had_items]
    ids = [one.id for one in agents], [one.id for one in items]
    ours, theirs = _blocks(pool, *ids), _blocks(more, *ids)
    repeats, other = 0, []
    said: dict[tuple[int, int], Sequence[str]] = {}
    for k, j in np.ndindex(len(agents), len(items)):
        own, come = (_said(blocks, (k, j)) for blocks in (ours, theirs))
        further = list((Counter(come) - Counter(own)).elements())
        if k >= pool.n_agents or j >= pool.n_items:
            own = come
        elif own and not Counter(own) - Counter(come):
            repeats += len(further)
            own += further
        elif further:
            other.append(f"'{ids[0][k]}' to '{ids[1][j]}'")
            own = own if keep else come
        said[k, j] = own
    return GrownPool(
        Pool.of_blocks(tuple(agents), tuple(items), _stacked(said, (len(agents), len(items))), pool.name),
        agents=tuple(ids[0][pool.n_agents :]),
        items=tuple(ids[1][pool.n_items :]),
        repeats=repeats,
        other=tuple(other),
        gone=tuple(sorted(had_agents - came_agents.keys()) + sorted(had_items - came_items.keys())),
    )


def _said(blocks: Sequence[Objects], cell: Any) -> list[str]:
    """All responses in a cell of first responses, second ones, …"""
    return [block[cell] for block in blocks if block[cell] is not None]


def _stacked(said: Mapping[tuple[int, int], Sequence[str]], shape: tuple[int, ...]) -> list[Objects]:
    """First responses, second ones, … of the cells that have any: object[K, J] each."""
    blocks: list[Objects] = [np.full(shape, None, dtype=object) for _ in range(max(map(len, said.values()), default=0))]
    for cell, own in said.items():
        for block, text in zip(blocks, own, strict=False):
            block[cell] = text
    return blocks


JOIN: Final[dict[str, Callable[[Pool, Pool], Pool]]] = {
    "agents": partial(_join, kind="agents"),
    "items": partial(_join, kind="items"),
    "repeats": join_repeats,
}


def _blocks(pool: Pool, agents: Sequence[str], items: Sequence[str]) -> list[Objects]:
    """First responses, second ones, … by name: object[len(agents), len(items)] each, None where the pool has none."""
    row = {agent.id: i for i, agent in enumerate(pool.agents)}
    column = {item.id: j for j, item in enumerate(pool.items)}
    blocks = [np.full((len(agents), len(items)), None, dtype=object) for _ in range(pool.repeats)]
    rows = [(i, row[name]) for i, name in enumerate(agents) if name in row]
    columns = [(j, column[name]) for j, name in enumerate(items) if name in column]
    if rows and columns:
        here, there = (np.ix_(*(np.array(pairs)[:, side] for pairs in (rows, columns))) for side in (0, 1))
        for block, own in zip(blocks, pool.blocks, strict=True):
            block[here] = own[there]
    return blocks


def _refuse_other_prompts(pool: Pool, more: Pool) -> None:
    """Raises: PoolError [join-other]."""
    prompts = {item.id: item.prompt for item in more.items}
    for item in pool.items:
        if item.prompt and prompts.get(item.id) and prompts[item.id] != item.prompt:
            raise PoolError(
                f"The item '{item.id}' has another prompt in '{more.name}' than in this run's pool. Give responses to the run's "
                "items, or start a run of its own.",
                slug="join-other",
            )


def _refuse_other_responses(pool: Pool, more: Pool) -> None:
    """First responses that both pools hold have to be the same. Raises: PoolError [join-other]."""
    theirs = _blocks(more, [agent.id for agent in pool.agents], [item.id for item in pool.items])[0]
    for agent, ours, row in zip(pool.agents, pool.texts, theirs, strict=True):
        for item, one, other in zip(pool.items, ours, row, strict=True):
            if other is not None and one != other:
                raise PoolError(
                    f"The agent '{agent.id}' has another response to '{item.id}' in '{more.name}' than in this run's pool. Leave "
                    "out agents that are there already, or give a changed agent another id.",
                    slug="join-other",
                )


def _nothing_new(what: str, more: Pool) -> PoolError:
    return PoolError(
        f"All {what} of '{more.name}' are in the run already. Give a pool with {what} that are new; for more calls on those that "
        "are there give --calls.",
        slug="join-none",
    )


def _refuse_gaps(agent: str, items: Sequence[str]) -> None:
    """Raises: PoolError [join-gaps] where `agent` lacks responses to `items`."""
    if items:
        shown = ", ".join(items[:_SHOWN]) + (" …" if len(items) > _SHOWN else "")
        raise PoolError(
            f"The agent '{agent}' has no response to {len(items)} items that it has to be compared on: {shown}. Add them "
            "(an empty text is a response), or leave it out.",
            slug="join-gaps",
        )
