"""Read and write a pool: a folder with agents.jsonl, items.jsonl and responses.jsonl, or one table.

Lines are parsed in chunks, which is fast. Only the lines of a chunk with a problem are parsed one by one, to name the
line in the error.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np
import orjson

from youden.data.atomic import atomic_write
from youden.data.pools.spool import LONG_TEXT, PoolCells, Source, format_excerpt
from youden.data.pools.tidy_reader import read_csv, read_frame, read_parquet
from youden.errors import ConfigError, PoolError
from youden.resources import find_resource, report_shadow_at
from youden.run_keys import EmptyRule
from youden.text.json_text import MAX_DEPTH, JSONDecodeError, ParsedJson, is_nested_deeper, parse_json
from youden.text.printable import format_command
from youden.types import Agent, Item, Pool
from youden.types.pool import Json, Positions
from youden.types.texts_in_file import SEPARATOR

if TYPE_CHECKING:
    import pandas as pd

AGENTS, ITEMS, RESPONSES = "agents.jsonl", "items.jsonl", "responses.jsonl"
AGENTS_SPEC = "agents.yaml"
"""File in a folder from which `youden generate` makes a pool."""
_CHUNK_BYTES = 2**16
"""Approximate size of the lines that are parsed at a time: small enough for a processor's cache."""

_RESPONSE = ("agent", "item", "text")
_RESPONSE_KEYS = tuple(f'"{key}"'.encode() for key in _RESPONSE)

_TABLE_READERS = {".csv": read_csv, ".parquet": read_parquet}


def read_pool(path: str | PathLike[str] | pd.DataFrame, *, empty: EmptyRule = "failure") -> Pool:
    """Read a pool of responses from a folder, a table or a DataFrame.

    Parameters
    ----------
    path : str, path or DataFrame
        A folder, a `.csv` or a `.parquet`; `datasets/NAME` is also searched for among the shipped pools. Folder: agents.jsonl
        (id, group?, meta?), items.jsonl (id, prompt?, meta?) and responses.jsonl (agent, item, text, repeat?). Table: the
        columns agent, item, text and, optionally, prompt, group and repeat. DataFrame: those columns, or one row per item
        with the column (or index) item, one column per agent and, optionally, prompt. `repeat`, a whole number, distinguishes
        several responses of an agent to one item; the pool numbers them from 1 in this order.
    empty : {"failure", "missing"}, default "failure"
        Meaning of an empty cell, None, NaN or a text of spaces in place of a response. "failure": an empty response, which
        matches no other. "missing": no response, as if there were no row.

    Returns
    -------
    Pool
        `agents`, `items` and `texts`, an object array (n_agents, n_items) of str, None for a cell without a response.
        Agents and items keep the order of the file (in a table, of first appearance).

    Raises
    ------
    PoolError
        If the pool is not valid, for example has unknown keys or columns. The message names the file, the line (Parquet
        and DataFrame: the row), what was found there and what to do. [pool-empty-rule]: if `empty` is neither of the two.

    Examples
    --------
    >>> pool = read_pool("datasets/field-notes")
    >>> pool.n_agents, pool.n_items, pool.texts.shape
    (12, 32, (12, 32))
    """
    if empty not in get_args(EmptyRule):
        choices = " or ".join(get_args(EmptyRule))
        raise PoolError(f"`empty` must be {choices}: got {empty!r}. Pass one of the two.", slug="pool-empty-rule")
    if not isinstance(path, str | PathLike):
        return read_frame(path, empty)
    pool_path = locate_pool(path)
    if pool_path.is_dir():
        if (pool_path / AGENTS_SPEC).is_file() and not (pool_path / RESPONSES).is_file():
            raise _not_generated_error(Path(path))
        return _read_folder(pool_path, empty)
    if pool_path.suffix.lower() in _TABLE_READERS:
        return _TABLE_READERS[pool_path.suffix.lower()](pool_path, empty)
    raise Source(pool_path).make_error(
        None,
        f"a pool is a folder, a .csv or a .parquet: got a file that ends in {pool_path.suffix!r}. "
        f"Run `{format_command(['youden', 'init', str(path)])}` to make a pool of it, and pass that pool.",
        slug="pool-kind",
    )


def locate_pool(path: str | PathLike[str]) -> Path:
    """Find the file or folder of a pool, which may be one of the pools that are shipped with youden.

    Parameters
    ----------
    path : str or path
        Path of the pool; `datasets/NAME` is also searched for among the shipped pools.

    Returns
    -------
    Path
        The path itself if it exists, otherwise that of the shipped pool.

    Raises
    ------
    PoolError
        [pool-not-found]: if there is no such pool.
    """
    path = Path(path)
    if path.exists():
        report_shadow_at(path)
        return path
    if path.parts[:1] == ("datasets",):
        try:
            return find_resource("datasets", Path(*path.parts[1:]).as_posix())
        except ConfigError as error:
            raise PoolError(error.message, slug="pool-not-found") from error
    raise PoolError(
        f"There is no pool at '{path}'. Pass a folder with {AGENTS}, {ITEMS} and {RESPONSES}, a .csv or a .parquet.",
        slug="pool-not-found",
    )


def _not_generated_error(path: Path) -> PoolError:
    """Make the error for a folder from which `youden generate` has not made a pool yet."""
    out = f"pools/{path.resolve().name}"
    command = format_command(["youden", "generate", str(path), "--out", out])
    return PoolError(
        f"{path} defines how to generate a pool ({AGENTS_SPEC}) but has no responses. Run `{command}`, then pass {out}.",
        slug="pool-not-generated",
    )


def _read_folder(folder: Path, empty: EmptyRule) -> Pool:
    """Read a pool from a folder with agents.jsonl, items.jsonl and responses.jsonl.

    Raises: PoolError if a file is missing, or a line is not valid.
    """
    _check_files_exist(folder)
    agents = tuple(Agent(*fields) for fields in _read_agents_or_items(Source(folder / AGENTS), "agent", "group"))
    items = tuple(Item(*fields) for fields in _read_agents_or_items(Source(folder / ITEMS), "item", "prompt"))
    agent_ids = [agent.id for agent in agents]
    item_ids = [item.id for item in items]

    source = Source(folder / RESPONSES)
    cells = _read_responses(source, agent_ids, item_ids, empty)
    texts, repeat_texts = cells.to_texts(source, agents=agent_ids, items=item_ids)
    source.log_replaced()
    return Pool(agents, items, texts, name=folder.resolve().name, repeat_texts=repeat_texts)


def _read_responses(source: Source, agent_ids: Sequence[str], item_ids: Sequence[str], empty: EmptyRule) -> PoolCells:
    """Read the responses of a pool from responses.jsonl, in the order of its lines.

    source : the file, which error messages name
    agent_ids, item_ids : ids that the responses refer to, in the order of agents.jsonl and items.jsonl

    Raises PoolError if a line is not valid.
    """
    rows_by_agent = {agent_id: row for row, agent_id in enumerate(agent_ids)}
    columns_by_item = {item_id: column for column, item_id in enumerate(item_ids)}
    responses = _ResponseLines(source, rows_by_agent, columns_by_item, PoolCells(empty))
    for first_line, lines in _read_line_chunks(source):
        is_added = responses.add_simple_lines(lines, first_line)
        if not is_added:
            responses.add_one_by_one(lines, first_line)
    return responses.cells


def _check_files_exist(folder: Path) -> None:
    """Raise PoolError [pool-not-found] if a file of a pool is missing from a folder."""
    missing = [name for name in (AGENTS, ITEMS, RESPONSES) if not (folder / name).is_file()]
    if missing:
        raise Source(folder).make_error(
            None,
            f"the folder has no {', no '.join(missing)}. Pass a folder with {AGENTS}, {ITEMS} and {RESPONSES}.",
            slug="pool-not-found",
        )


@dataclass(frozen=True)
class _ResponseLines:
    """Collects the responses in the lines of responses.jsonl.

    Attributes
    ----------
    source : Source
        The file.
    rows_by_agent, columns_by_item : mapping of str to int
        Positions by id.
    cells : PoolCells
        Responses so far.
    """

    source: Source
    rows_by_agent: Mapping[str, int]
    columns_by_item: Mapping[str, int]
    cells: PoolCells

    def add_simple_lines(self, lines: Sequence[bytes], first_line: int) -> bool:
        """Add the responses in many lines at once if all lines are simple, which is faster than line by line.

        A line is simple if it meets these conditions:

        - It is a valid response with exactly the keys agent, item and text.
        - Its text has at most 1,000,000 characters, and does not consist of spaces.
        - Its text is not empty if empty texts count as missing responses.

        If one line is not simple, nothing is added. The caller must then call `add_one_by_one`, which accepts all valid
        lines. Duplicates are added; `PoolCells.to_texts` detects them.

        lines : consecutive lines of the file, at least one
        first_line : number of the first of these lines in the file, from 1, for later errors

        Returns whether the responses were added.
        """
        try:  # a KeyError means that a key is missing or an id is unknown
            records = [orjson.loads(line) for line in lines]
            rows = _to_int64(self.rows_by_agent[record["agent"]] for record in records)
            columns = _to_int64(self.columns_by_item[record["item"]] for record in records)
            texts = [record["text"] for record in records]
            encoded_texts = [str.encode(text) for text in texts]  # TypeError if a text is not a string
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return False

        # each record has the keys agent, item and text, so additional keys make it longer
        has_further_keys = any(len(record) > len(_RESPONSE) for record in records)
        if has_further_keys or _may_repeat_keys(lines):
            return False
        has_missing_texts = self.cells.empty == "missing" and "" in texts
        has_texts_of_spaces = any(map(str.isspace, texts))
        lengths = _to_int64(map(len, texts))
        if has_missing_texts or has_texts_of_spaces or lengths.max() > LONG_TEXT:
            return False

        line_numbers = np.arange(first_line, first_line + len(lines))
        stored_texts = self.cells.extend(rows, columns, line_numbers)
        n_bytes = _to_int64(map(len, encoded_texts))
        stored_texts.extend(SEPARATOR.join(encoded_texts), n_bytes=n_bytes, lengths=lengths)
        return True

    def add_one_by_one(self, lines: Sequence[bytes], first_line: int) -> None:
        """Add the responses in many lines one by one, with a precise error message if a line is not valid.

        Responses before a line that is not valid are added. Duplicates are not detected here, but by `PoolCells.to_texts`.

        lines : consecutive lines of the file; blank ones are skipped. Each is a JSON object with the keys agent, item, text (null
            is an empty text) and, optionally, repeat (a whole number; default 1).
        first_line : number of the first of these lines in the file, from 1

        Raises PoolError [pool-json], [pool-encoding] or [pool-key] if a line is not such an object, [pool-id], [pool-text] or
        [pool-repeat] if a value is not valid, and [pool-unknown-id] if the agent or item is not in the pool.
        """
        source = self.source
        for number, record in _parse_records(source, lines, first_line, required={*_RESPONSE}, optional={"repeat"}):
            agent = source.require_id(record["agent"], "agent", number)
            item = source.require_id(record["item"], "item", number)
            row = self._get_position(agent, self.rows_by_agent, AGENTS, number)
            column = self._get_position(item, self.columns_by_item, ITEMS, number)

            text = source.require_text(record["text"], number)
            repeat = source.parse_repeat(record.get("repeat"), number)
            self.cells.add(row, column, text, row_number=number, repeat=repeat)

    def _get_position(self, id_: str, position_by_id: Mapping[str, int], file_name: str, number: int) -> int:
        """Return the position of an agent or item.

        file_name, number : file that lists it, and line of the response, for the error

        Raises: PoolError [pool-unknown-id] if the file does not list the agent or item.
        """
        if id_ not in position_by_id:
            raise self.source.make_error(
                number,
                f"{format_excerpt(id_)} is not in {file_name}. Add it there, or set another id here.",
                slug="pool-unknown-id",
            )
        return position_by_id[id_]


def _may_repeat_keys(lines: Sequence[bytes]) -> bool:
    """Return whether one of several JSON objects may contain a key of a response twice.

    `orjson` would use the last value of a repeated key without an error. A key in quotation marks, such as "text", occurs twice
    in a line only if the key is repeated, or if another key or a text is equal to it. Quotation marks inside of texts are
    escaped.

    lines : one JSON object per line, each with all keys of a response
    """
    joined_lines = b"\n".join(lines)
    return any(joined_lines.count(key) > len(lines) for key in _RESPONSE_KEYS)


def _to_int64(values: Iterable[int]) -> Positions:
    """Convert whole numbers to an int64 array."""
    return np.fromiter(values, dtype=np.int64)


def _read_agents_or_items(source: Source, kind: str, key: str) -> Iterator[tuple[str, str | None, dict[str, Json]]]:
    """Read the agents of a pool from agents.jsonl, or its items from items.jsonl, one per line.

    source : the file, which error messages name
    kind : "agent" or "item", for messages
    key : optional key of a line: "group" for agents, "prompt" for items

    Yields three values per line: the id, the group or prompt (None if missing), and the metadata (empty if missing).

    Raises PoolError if a line is not valid, [pool-duplicate] if two lines have the same id, and [pool-empty] if there
    are no lines.
    """
    line_by_id: dict[str, int] = {}
    for line, record in _iter_file_records(source, required={"id"}, optional={key, "meta"}):
        id_ = source.require_id(record["id"], kind, line)
        if id_ in line_by_id:
            raise source.make_error(
                line,
                f"{kind} {format_excerpt(id_)} is already in line {line_by_id[id_]}. Remove one of them.",
                slug="pool-duplicate",
            )
        line_by_id[id_] = line

        prompt_or_group = _check_prompt_or_group(source, record.get(key), key, line)
        meta = record.get("meta", {})
        if not isinstance(meta, dict):
            raise source.make_error(
                line,
                f"meta is not an object: got {format_excerpt(meta)}. Set an object, or remove meta.",
                slug="pool-key",
            )
        yield id_, prompt_or_group, meta

    source.log_replaced()
    if not line_by_id:
        raise source.make_error(None, f"it has no rows. Add one line per {kind}.", slug="pool-empty")


def _check_prompt_or_group(source: Source, value: Json, key: str, line: int) -> str | None:
    """Check the prompt of an item, or the group of an agent, and return it unchanged.

    A prompt may be empty, and causes a warning if it is very long. A group must not be empty.

    source, line : file and number of the line, which error messages name
    value : the prompt or group; None if the line has none
    key : "prompt" or "group"

    Raises PoolError [pool-key] if the value is not a string or is an empty group, and [pool-id] if the name of a group is
    not valid.
    """
    is_empty_group = key == "group" and value == ""
    if not isinstance(value, str | None) or is_empty_group:
        raise source.make_no_string_error(value, key, line)
    if value and key == "prompt":
        source.warn_if_long(value, key, line)
    if value and key == "group":
        source.check_name(value, key, line)
    return value


def _iter_file_records(
    source: Source, *, required: set[str], optional: set[str]
) -> Iterator[tuple[int, dict[str, Json]]]:
    """Yield the number and the JSON object of each line of a file; blank lines are skipped.

    source : the file
    required, optional : keys that an object must have, and others that it may have

    Raises: PoolError [pool-json], [pool-key] or [pool-encoding] if a line is not valid.
    """
    for first_line, lines in _read_line_chunks(source):
        yield from _parse_records(source, lines, first_line, required=required, optional=optional)


def _read_line_chunks(source: Source) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the lines of a file in chunks of about `_CHUNK_BYTES`, each with the number of its first line, from 1."""
    number = 1
    with source.open() as file:
        while chunk := file.read(_CHUNK_BYTES) + file.readline():
            lines = chunk.removesuffix(b"\n").split(b"\n")
            yield number, lines
            number += len(lines)


def _parse_records(
    source: Source, lines: Sequence[bytes], first_line: int, *, required: set[str], optional: set[str]
) -> Iterator[tuple[int, dict[str, Json]]]:
    """Yield the number and the JSON object of each line that is not blank.

    first_line : number of the first line
    required, optional : keys that an object must have, and others that it may have
    source : file of the lines, for errors

    Raises: PoolError [pool-json], [pool-key] or [pool-encoding] if a line is not valid.
    """
    allowed = required | optional
    for number, raw_line in enumerate(lines, first_line):
        line = raw_line.removeprefix(codecs.BOM_UTF8) if number == 1 else raw_line
        if not line or line.isspace():
            continue
        record = _parse_line(source, line, number)
        if not isinstance(record, dict):
            raise source.make_error(
                number,
                f"it is not an object: got {format_excerpt(record)}. Write one object per line.",
                slug="pool-json",
            )
        if not required <= record.keys() <= allowed:
            problem = _describe_key_problem(record.keys(), required, allowed)
            raise source.make_error(number, problem, slug="pool-key")
        yield number, record


def _describe_key_problem(keys: Set[str], required: Set[str], allowed: Set[str]) -> str:
    """Describe the first key that is missing from an object or is not allowed, and the remedy."""
    missing = sorted(required - keys)
    unknown = sorted(keys - allowed)
    problem = f"there is no key {missing[0]!r}" if missing else f"the key {format_excerpt(unknown[0])} is unknown"
    return f"{problem}. Set only the keys {', '.join(sorted(allowed))}."


def _parse_line(source: Source, line: bytes, number: int) -> Json:
    """Parse a line that holds one JSON value. Unpaired surrogates are replaced by U+FFFD and counted in `source.replaced`.

    source : file of the line, for errors
    number : number of the line, for errors

    Raises: PoolError [pool-encoding] if the line is not UTF-8; [pool-json] if it is not JSON, has NaN or an infinite
        number, or is nested too deeply.
    """
    text = source.decode(line, number)
    try:
        parsed = parse_json(text)
    except JSONDecodeError as error:
        problem = f"it is not JSON ({error.msg}, column {error.colno}). {_JSON_REMEDY}"
        raise source.make_error(number, problem, slug="pool-json") from error
    fault = _find_json_fault(parsed)
    if fault:
        raise source.make_error(number, f"{fault}. {_JSON_REMEDY}", slug="pool-json")

    source.replaced.add(n_texts=parsed.n_replaced_texts, location=f"{source.path}, line {number}")
    value: Json = parsed.value
    return value


_JSON_REMEDY = "Write one object per line."


def _find_json_fault(parsed: ParsedJson) -> str | None:
    """Describe why a parsed value is not allowed in a pool: a number that is not finite, or deep nesting.

    Returns None if the value is allowed.
    """
    if parsed.n_nonfinite:
        return "it is not JSON: it contains a number that is NaN or infinite"
    if is_nested_deeper(parsed.value, MAX_DEPTH):
        return f"its lists and objects are nested more than {MAX_DEPTH} levels deep"
    return None


def write_pool(pool: Pool, folder: str | PathLike[str]) -> None:
    """Write a pool as agents.jsonl, items.jsonl and responses.jsonl.

    Parameters
    ----------
    pool : Pool
        Its responses are written by agent, then by item. If an agent has no response to an item, no line is written for it. No
        key is written for a missing group, a missing prompt or missing metadata. The name of the pool is not written, because a
        reader takes the name of the folder. A response of spaces is read back as an empty response.
    folder : str or path
        Folder for the files; it is created if it does not exist. The files are in UTF-8 and replace existing files.
    """
    folder = Path(folder)
    responses: Iterator[dict[str, Json]] = (
        {"agent": agent.id, "item": item.id, "text": text, "repeat": repeat}
        for agent, item, repeat, text in iter_responses(pool)
    )
    _write_lines(folder / AGENTS, _encode_agents(pool.agents))
    _write_lines(folder / ITEMS, _encode_items(pool.items))
    _write_lines(folder / RESPONSES, _encode_records(responses))


def find_file_of_other_pool(agents: Sequence[Agent], items: Sequence[Item], folder: Path) -> Path | None:
    """Find a file of a different pool in a folder, which would be lost if a pool were written there.

    The files agents.jsonl and items.jsonl are compared with those to be written. Any different byte shows a different pool.
    The file of responses is not compared.

    Parameters
    ----------
    agents, items : sequence of Agent, sequence of Item
        Agents and items of the pool to write, in the order of the files.
    folder : Path
        Folder for the pool, which need not exist.

    Returns
    -------
    Path or None
        The first file of another pool; None if the folder contains no such file.
    """
    lines_by_path = {folder / AGENTS: _encode_agents(agents), folder / ITEMS: _encode_items(items)}
    for path, lines in lines_by_path.items():
        if path.exists():
            new_content = b"".join(lines)
            if path.read_bytes() != new_content:
                return path
    return None


def iter_responses(pool: Pool) -> Iterator[tuple[Agent, Item, int | None, str]]:
    """Yield the responses of a pool by agent, then by item, then by repeat.

    pool : the pool. Cells (agent, item) without a response are skipped.

    Yields for each response the agent, the item, the number of the response and the text. The responses of an agent to an item
    are numbered from 1; the number is None if there is only one.
    """
    for position, agent in enumerate(pool.agents):
        texts_by_repeat = [pool.texts[position]]
        if pool.repeat_texts is not None:
            # rows of repeat_texts: second responses of all agents, then third responses of all agents, and so on
            texts_by_repeat.extend(pool.repeat_texts[position :: pool.n_agents])

        for item, *cell_texts in zip(pool.items, *texts_by_repeat, strict=True):
            responses = [text for text in cell_texts if text is not None]
            for number, text in enumerate(responses, 1):
                repeat = number if len(responses) > 1 else None
                yield agent, item, repeat, text


def _encode_agents(agents: Iterable[Agent]) -> Iterator[bytes]:
    return _encode_records({"id": agent.id, "group": agent.group, "meta": dict(agent.meta)} for agent in agents)


def _encode_items(items: Iterable[Item]) -> Iterator[bytes]:
    return _encode_records({"id": item.id, "prompt": item.prompt, "meta": dict(item.meta)} for item in items)


def _encode_records(records: Iterable[dict[str, Json]]) -> Iterator[bytes]:
    """Yield one line of JSON per record, without fields that are None or an empty object."""
    for record in records:
        present = {key: value for key, value in record.items() if value is not None and value != {}}
        yield orjson.dumps(present, option=orjson.OPT_APPEND_NEWLINE)


def _write_lines(path: Path, lines: Iterable[bytes]) -> None:
    with atomic_write(path) as tmp_path, tmp_path.open("wb") as file:
        file.writelines(lines)
