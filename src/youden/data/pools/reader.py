"""Reads a pool: a folder of agents.jsonl, items.jsonl and responses.jsonl, or one tidy table."""

from __future__ import annotations

import codecs
import shlex
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import orjson

from youden.data.pools.grid import Cells, Source, shown
from youden.data.pools.tidy_reader import read_csv, read_parquet
from youden.errors import ConfigError, PoolError
from youden.nouns import Agent, Item, Json, Pool
from youden.resources import find

AGENTS, ITEMS, RESPONSES = "agents.jsonl", "items.jsonl", "responses.jsonl"
TO_GENERATE = "agents.yaml"

_TABLES = {".csv": read_csv, ".parquet": read_parquet}


def read_pool(path: str | PathLike[str]) -> Pool:
    """The pool at `path`: a folder, a `.csv` or a `.parquet`; `datasets/NAME` is also looked for among the shipped ones.

    Folder: agents.jsonl (id, group?, meta?), items.jsonl (id, prompt?, meta?), responses.jsonl (agent, item, text).
    Table: the columns agent, item, text and, where there are any, prompt, group.
    Agents and items keep the file's order (a table: of first appearance). Text is UTF-8, with or without a byte order mark.
    A cell without a row has no response; an empty text is a response. Unknown keys and columns are refused.

    A `Pool` of K agents and J items has `agents`, `items` and `texts`: object[K, J] of str, None where there is no response.

    Raises: PoolError naming file and line (Parquet: row), what arrived and what to do.

    >>> pool = read_pool("datasets/field-notes")
    >>> pool.n_agents, pool.n_items, pool.texts.shape
    (12, 32, (12, 32))
    """
    place = locate_pool(path)
    if place.is_dir():
        if (place / TO_GENERATE).is_file() and not (place / RESPONSES).is_file():
            raise _not_generated(Path(path))
        return _read_folder(place)
    if place.suffix.lower() in _TABLES:
        return _TABLES[place.suffix.lower()](place)
    raise Source(place).wrong(
        None,
        f"a pool is a folder, a .csv or a .parquet; this is a file that ends in {place.suffix!r}. "
        "Convert it, or give the folder it is in.",
        slug="pool-kind",
    )


def locate_pool(path: str | PathLike[str]) -> Path:
    """Where the pool `path` is, in a shipped folder perhaps. Raises: PoolError [pool-not-found]."""
    path = Path(path)
    if path.exists():
        return path
    if path.parts[:1] == ("datasets",):
        try:
            return find("datasets", Path(*path.parts[1:]).as_posix())
        except ConfigError as error:
            raise PoolError(error.message, slug="pool-not-found") from error
    raise PoolError(
        f"There is no pool at '{path}'. Give a folder with {AGENTS}, {ITEMS} and {RESPONSES}, a .csv or a .parquet.",
        slug="pool-not-found",
    )


def _not_generated(path: Path) -> PoolError:
    out = f"pools/{path.resolve().name}"
    command = shlex.join(["youden", "generate", str(path), "--out", out])
    return PoolError(
        f"{path} says how to make a pool ({TO_GENERATE}) and holds no responses. Make it with `{command}`, then give {out}.",
        slug="pool-not-generated",
    )


def _read_folder(folder: Path) -> Pool:
    missing = [name for name in (AGENTS, ITEMS, RESPONSES) if not (folder / name).is_file()]
    if missing:
        raise Source(folder).wrong(
            None,
            f"the folder has no {', no '.join(missing)}. A pool's folder has {AGENTS}, {ITEMS} and {RESPONSES}.",
            slug="pool-not-found",
        )
    agents = [Agent(*said) for said in _said(Source(folder / AGENTS), "agent", "group")]
    items = [Item(*said) for said in _said(Source(folder / ITEMS), "item", "prompt")]
    agent_at = {agent.id: position for position, agent in enumerate(agents)}
    item_at = {item.id: position for position, item in enumerate(items)}
    responses = Source(folder / RESPONSES)
    cells = Cells()
    for line, record in _records(responses, required={"agent", "item", "text"}, optional=set()):
        agent = responses.id(record["agent"], "agent", line)
        item = responses.id(record["item"], "item", line)
        for key, known, name in ((agent, agent_at, AGENTS), (item, item_at, ITEMS)):
            if key not in known:
                raise responses.wrong(
                    line, f"{shown(key)} is not in {name}. Add it there, or correct it here.", slug="pool-unknown-id"
                )
        cells.add(agent_at[agent], item_at[item], responses.text(record["text"], line), number=line)
    return Pool(
        agents=tuple(agents),
        items=tuple(items),
        texts=cells.grid(responses, agents=list(agent_at), items=list(item_at)),
        name=folder.resolve().name,
    )


def _said(source: Source, noun: str, key: str) -> Iterator[tuple[str, str | None, dict[str, Json]]]:
    lines: dict[str, int] = {}
    for line, record in _records(source, required={"id"}, optional={key, "meta"}):
        name = source.id(record["id"], noun, line)
        value, meta = record.get(key), record.get("meta", {})
        if lines.setdefault(name, line) != line:
            raise source.wrong(
                line, f"{noun} {shown(name)} is in line {lines[name]} already. Keep one of them.", slug="pool-duplicate"
            )
        if not (value is None or isinstance(value, str)) or (key == "group" and value == ""):
            raise source.wrong(
                line, f"the {key} is {shown(value)}. Write a string, or leave the {key} out.", slug="pool-key"
            )
        if key == "prompt" and value:
            source.noticed(value, key, line)
        if key == "group" and value:
            source.name(value, "group", line)
        if not isinstance(meta, dict):
            raise source.wrong(line, f"meta is {shown(meta)}. Write an object, or leave meta out.", slug="pool-key")
        yield name, value, meta
    if not lines:
        raise source.wrong(None, f"it has no rows. Give one line for each {noun}.", slug="pool-empty")


def _records(source: Source, *, required: set[str], optional: set[str]) -> Iterator[tuple[int, dict[str, Json]]]:
    allowed = required | optional
    with source.open() as file:
        for line, raw in enumerate(file, 1):
            text = raw.removeprefix(codecs.BOM_UTF8) if line == 1 else raw
            if text.isspace() or not text:
                continue
            try:
                record = orjson.loads(text)
            except orjson.JSONDecodeError as error:
                source.decode(text, line)
                raise source.wrong(
                    line,
                    f"it is no JSON ({error.msg}, column {error.colno}). Write one object a line.",
                    slug="pool-json",
                ) from error
            if not isinstance(record, dict):
                raise source.wrong(line, f"it is {shown(record)}. Write one object a line.", slug="pool-json")
            if record.keys() != required and not required <= record.keys() <= allowed:
                missing, unknown = sorted(required - record.keys()), sorted(record.keys() - allowed)
                what = f"no key {missing[0]!r}" if missing else f"the key {shown(unknown[0])} is not known"
                raise source.wrong(line, f"{what}. The keys are {', '.join(sorted(allowed))}.", slug="pool-key")
            yield line, record
