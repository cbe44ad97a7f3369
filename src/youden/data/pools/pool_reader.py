"""Reads and writes a pool: a folder of agents.jsonl, items.jsonl and responses.jsonl, or one tidy table."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import orjson

from youden.data.atomic import replacing
from youden.data.pools.spool import LONG_TEXT, PoolCells, Source, shown
from youden.data.pools.tidy_reader import read_csv, read_frame, read_parquet
from youden.errors import ConfigError, PoolError
from youden.resources import find, report_shadow_at
from youden.text.json_text import MAX_DEPTH, JSONDecodeError, is_nested_deeper, parse_json
from youden.text.printable import typed
from youden.types import Agent, Item, Pool
from youden.types.pool import SEPARATOR, Json, Positions

if TYPE_CHECKING:
    import pandas as pd

AGENTS, ITEMS, RESPONSES = "agents.jsonl", "items.jsonl", "responses.jsonl"
TO_GENERATE = "agents.yaml"
BLOCK = 2**16
"""Bytes of lines that are looked at at once, about: what stays in a processor's cache."""

_RESPONSE = ("agent", "item", "text")

_TABLES = {".csv": read_csv, ".parquet": read_parquet}


def read_pool(path: str | PathLike[str] | pd.DataFrame) -> Pool:
    """Read a pool of responses from a folder, a table or a DataFrame.

    Parameters
    ----------
    path : str, path or DataFrame
        A folder, a `.csv` or a `.parquet`; `datasets/NAME` is also searched for among the shipped pools. Folder: agents.jsonl
        (id, group?, meta?), items.jsonl (id, prompt?, meta?) and responses.jsonl (agent, item, text, repeat?). Table: the
        columns agent, item, text and, optionally, prompt, group and repeat. DataFrame: those columns, or one row per item
        with the column (or index) item, one column per agent and, optionally, prompt. `repeat`, a whole number,
        distinguishes an agent's responses to one item, which are numbered from 1 in its order.

    Returns
    -------
    Pool
        `agents`, `items` and `texts`, an object array (n_agents, n_items) of str, None for a cell without a response: a cell
        without a row or, in a DataFrame, with a missing text. An empty text is a response. Agents and items keep the order of
        the file (in a table, of first appearance).

    Raises
    ------
    PoolError
        With the file, the line (Parquet and DataFrame: the row), what was found there and what to do. Unknown keys and columns
        are refused.

    Examples
    --------
    >>> pool = read_pool("datasets/field-notes")
    >>> pool.n_agents, pool.n_items, pool.texts.shape
    (12, 32, (12, 32))
    """
    if not isinstance(path, str | PathLike):
        return read_frame(path)
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
        report_shadow_at(path)
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
    command = typed(["youden", "generate", str(path), "--out", out])
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
    cells = PoolCells()
    for first, lines in _blocks(responses):
        if _add_plain(cells, lines, agent_at, item_at, number=first):
            continue
        for line, record in _records(responses, lines, first, required={*_RESPONSE}, optional={"repeat"}):
            agent = responses.id(record["agent"], "agent", line)
            item = responses.id(record["item"], "item", line)
            for key, known, name in ((agent, agent_at, AGENTS), (item, item_at, ITEMS)):
                if key not in known:
                    raise responses.wrong(
                        line,
                        f"{shown(key)} is not in {name}. Add it there, or correct it here.",
                        slug="pool-unknown-id",
                    )
            text, repeat = responses.text(record["text"], line), responses.repeat(record.get("repeat"), line)
            cells.add(agent_at[agent], item_at[item], text, number=line, repeat=repeat)
    texts, further = cells.grids(responses, agents=list(agent_at), items=list(item_at))
    responses.log_replaced()
    return Pool(tuple(agents), tuple(items), texts, name=folder.resolve().name, further=further)


def _add_plain(
    cells: PoolCells, lines: Sequence[bytes], agents: Mapping[str, int], items: Mapping[str, int], *, number: int
) -> bool:
    """Many responses at once, the first of them in the line of this number. Returns whether they are all as they should be; if
    not, none is added, and who looks at each will see what is wrong."""
    try:
        records = [orjson.loads(line) for line in lines]
        agent, item, texts = zip(*map(itemgetter(*_RESPONSE), records), strict=True)
        agent_at, item_at = _integers(map(agents.__getitem__, agent)), _integers(map(items.__getitem__, item))
        encoded = [*map(str.encode, texts)]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return False
    lengths = _integers(map(len, texts))
    if {*map(len, records)} != {len(_RESPONSE)} or lengths.max() > LONG_TEXT:
        return False
    spool = cells.extend(agent_at, item_at, np.arange(number, number + len(lines)))
    spool.extend(SEPARATOR.join(encoded), n_bytes=_integers(map(len, encoded)), lengths=lengths)
    return True


def _integers(values: Iterable[int]) -> Positions:
    return np.fromiter(values, dtype=np.int64)


def _said(source: Source, noun: str, key: str) -> Iterator[tuple[str, str | None, dict[str, Json]]]:
    at: dict[str, int] = {}
    blocks = (
        _records(source, lines, first, required={"id"}, optional={key, "meta"}) for first, lines in _blocks(source)
    )
    for line, record in chain.from_iterable(blocks):
        name = source.id(record["id"], noun, line)
        value, meta = record.get(key), record.get("meta", {})
        if at.setdefault(name, line) != line:
            raise source.wrong(
                line, f"{noun} {shown(name)} is in line {at[name]} already. Keep one of them.", slug="pool-duplicate"
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
    source.log_replaced()
    if not at:
        raise source.wrong(None, f"it has no rows. Give one line for each {noun}.", slug="pool-empty")


def _blocks(source: Source) -> Iterator[tuple[int, list[bytes]]]:
    """Some lines at a time, and the number of the first of them."""
    number = 1
    with source.open() as file:
        while block := file.read(BLOCK) + file.readline():
            lines = block.removesuffix(b"\n").split(b"\n")
            yield number, lines
            number += len(lines)


def _records(
    source: Source, lines: Sequence[bytes], first: int, *, required: set[str], optional: set[str]
) -> Iterator[tuple[int, dict[str, Json]]]:
    allowed = required | optional
    for line, raw in enumerate(lines, first):
        text = raw.removeprefix(codecs.BOM_UTF8) if line == 1 else raw
        if text.isspace() or not text:
            continue
        record = _parse_line(source, text, line)
        if not isinstance(record, dict):
            raise source.wrong(line, f"it is {shown(record)}. Write one object a line.", slug="pool-json")
        if record.keys() != required and not required <= record.keys() <= allowed:
            missing, unknown = sorted(required - record.keys()), sorted(record.keys() - allowed)
            what = f"no key {missing[0]!r}" if missing else f"the key {shown(unknown[0])} is not known"
            raise source.wrong(line, f"{what}. The keys are {', '.join(sorted(allowed))}.", slug="pool-key")
        yield line, record


def _parse_line(source: Source, raw: bytes, line: int) -> Json:
    text = source.decode(raw, line)
    remedy = "Write one object per line"
    try:
        parsed = parse_json(text)
    except JSONDecodeError as error:
        problem = f"it is no JSON ({error.msg}, column {error.colno}). {remedy}."
        raise source.wrong(line, problem, slug="pool-json") from error
    if parsed.n_nonfinite:
        raise source.wrong(line, f"it is no JSON: it has a number that is NaN or infinite. {remedy}.", slug="pool-json")
    if is_nested_deeper(parsed.value, MAX_DEPTH):
        problem = f"its lists and objects are nested more than {MAX_DEPTH} deep. {remedy}."
        raise source.wrong(line, problem, slug="pool-json")
    source.replaced.add(n_texts=parsed.n_replaced_texts, place=f"{source.path}, line {line}")
    value: Json = parsed.value
    return value


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
            {"agent": agent.id, "item": item.id, "text": text} | ({} if repeat is None else {"repeat": repeat})
            for agent, item, repeat, text in responses_of(pool)
        ),
    )


def responses_of(pool: Pool) -> Iterator[tuple[Agent, Item, int | None, str]]:
    """Every response by agent, then item, then repeat: from 1, None in a cell that has one response."""
    for k, (agent, row) in enumerate(zip(pool.agents, pool.texts, strict=True)):
        more = () if pool.further is None else pool.further[k :: pool.n_agents]
        for item, text, *others in zip(pool.items, row, *more, strict=True):
            if text is not None:
                said = [text, *(other for other in others if other is not None)]
                yield from ((agent, item, n if len(said) > 1 else None, one) for n, one in enumerate(said, 1))


def _without_nothing(record: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in record.items() if value is not None and value != {}}


def _write(path: Path, records: Iterable[dict[str, Json]]) -> None:
    with replacing(path) as fresh, fresh.open("wb") as file:
        file.writelines(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in records)
