"""Another pool's agents or items join a run's pool, behind its own, whose cells stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from youden.data.folder.run_config import RunConfig
from youden.data.pools.pool_reader import read_pool
from youden.errors import PoolError
from youden.nouns import Pool
from youden.nouns.pool import Objects

_SHOWN = 5


def run_pools(config: RunConfig) -> list[Pool]:
    """The pool of a run as it was first, and after each of its extensions. Raises: PoolError."""
    pools = [read_pool(config.pool)]
    for step in config.extensions:
        if step.agents is not None:
            pools.append(join_agents(pools[-1], read_pool(step.agents)))
        elif step.items is not None:
            pools.append(join_items(pools[-1], read_pool(step.items)))
        else:
            pools.append(pools[-1])
    return pools


def read_run_pool(config: RunConfig) -> Pool:
    """The pool of a run, its extensions included. Raises: PoolError."""
    return run_pools(config)[-1]


def join_agents(pool: Pool, more: Pool) -> Pool:
    """`pool` and, behind its agents, those of `more` that it does not have; items that it does not have stay out.

    Raises: PoolError [join-none] where nobody is new; [join-other] where a prompt, or the response of an agent that is there, is
    another one; [join-gaps] where a new agent lacks a response to an item that everybody else has.
    """
    known = {agent.id for agent in pool.agents}
    new = [agent.id for agent in more.agents if agent.id not in known]
    if not new:
        raise _nothing_new("agents", more)
    blocks = _blocks(more, new, [item.id for item in pool.items])
    _refuse_other(pool, more)
    whole = [bool(column.all()) for column in pool.present.T]
    for agent, row in zip(new, blocks[0], strict=True):
        _refuse_gaps(
            agent, [item.id for item, text, has in zip(pool.items, row, whole, strict=True) if has and text is None]
        )
    return pool.with_agents([agent for agent in more.agents if agent.id not in known], blocks)


def join_items(pool: Pool, more: Pool) -> Pool:
    """`pool` and, behind its items, those of `more` that it does not have; agents that it does not have stay out.

    Raises: as `join_agents`; [join-gaps] where an agent lacks a response to a new item and none did before.
    """
    known = {item.id for item in pool.items}
    new = [item.id for item in more.items if item.id not in known]
    if not new:
        raise _nothing_new("items", more)
    blocks = _blocks(more, [agent.id for agent in pool.agents], new)
    _refuse_other(pool, more)
    for agent, row in zip(pool.agents, blocks[0], strict=True):
        _refuse_gaps(
            agent.id, [item for item, text in zip(new, row, strict=True) if text is None and not pool.n_missing]
        )
    return pool.with_items([item for item in more.items if item.id not in known], blocks)


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


def _refuse_other(pool: Pool, more: Pool) -> None:
    """What both pools hold has to be the same. Raises: PoolError [join-other]."""
    prompts = {item.id: item.prompt for item in more.items}
    for item in pool.items:
        if item.prompt and prompts.get(item.id) and prompts[item.id] != item.prompt:
            raise PoolError(
                f"The item '{item.id}' has another prompt in '{more.name}' than in this run's pool. Give responses to the run's "
                "items, or start a run of its own.",
                slug="join-other",
            )
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
