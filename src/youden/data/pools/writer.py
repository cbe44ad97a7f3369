"""Writes a pool as a folder of JSON lines, the form that `read_pool` reads back unchanged."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path

import orjson

from youden.data.atomic import replacing
from youden.data.pools.reader import AGENTS, ITEMS, RESPONSES
from youden.nouns import Json, Pool


def write_pool(pool: Pool, folder: str | PathLike[str]) -> None:
    """Write agents.jsonl, items.jsonl and responses.jsonl (by agent, then item), UTF-8, replacing what is there.

    A cell without a response gets no line, a group or meta that is not there no key. The name is the folder's, not the pool's.
    """
    place = Path(folder)
    _write(
        place / AGENTS,
        (_without_nothing({"id": agent.id, "group": agent.group, "meta": dict(agent.meta)}) for agent in pool.agents),
    )
    _write(
        place / ITEMS,
        (_without_nothing({"id": item.id, "prompt": item.prompt, "meta": dict(item.meta)}) for item in pool.items),
    )
    _write(
        place / RESPONSES,
        (
            {"agent": agent.id, "item": item.id, "text": text}
            for agent, row in zip(pool.agents, pool.texts, strict=True)
            for item, text in zip(pool.items, row, strict=True)
            if text is not None
        ),
    )


def _without_nothing(record: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in record.items() if value is not None and value != {}}


def _write(path: Path, records: Iterable[dict[str, Json]]) -> None:
    with replacing(path) as fresh, fresh.open("wb") as file:
        file.writelines(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in records)
