"""Reads a pool from one tidy table, CSV or Parquet, with a row for each response.

Its columns are agent, item, text, prompt and group; any other is refused.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from youden.data.pools.grid import Cells, Source, shown
from youden.nouns import Agent, Item, Pool

REQUIRED = ("agent", "item", "text")
OPTIONAL = ("prompt", "group")

_MAX_FIELD = 2**31 - 1


def read_csv(path: Path) -> Pool:
    """A pool from a comma-separated table in UTF-8. Every field is a string; an empty text is an empty response.

    An empty prompt or group says nothing; what is said must be the same in all rows of an item or agent.

    Raises: PoolError with the physical line on which the record starts.
    """
    source = Source(path)
    rows = _TidyRows(source)
    with source.open() as file, _field_limit(_MAX_FIELD):
        records = _csv_records(source, file)
        number, header = next(records, (1, []))
        _check_columns(source, header, number=number)
        place = [header.index(name) if name in header else None for name in (*REQUIRED, *OPTIONAL)]
        for number, record in records:
            if len(record) != len(header):
                raise source.wrong(
                    number,
                    f"it has {len(record)} fields, the header {len(header)}. "
                    "Put texts with commas, quotes or line breaks in double quotes.",
                    slug="pool-csv",
                )
            rows.add([None if at is None else record[at] for at in place], number=number)
    return rows.pool()


def read_parquet(path: Path) -> Pool:
    """A pool from a Parquet table whose columns are strings (or dictionaries of strings). A null prompt or group says nothing.

    Raises: PoolError with the row, counted from 1.
    """
    source = Source(path, unit="row")
    rows = _TidyRows(source)
    number = 0
    with source.open() as file:
        try:
            table = pq.ParquetFile(file)
        except (pa.ArrowException, OSError) as error:
            raise source.wrong(
                None, f"it is no Parquet file ({error}). Write it again, or give a CSV.", slug="pool-parquet"
            ) from error
        schema = table.schema_arrow
        _check_columns(source, schema.names, number=None)
        for name in schema.names:
            _check_type(source, name, schema.field(name).type)
        for chunk in _chunks(source, table):
            columns = [
                chunk.column(name).cast(pa.large_string()).cast(pa.large_binary()).to_pylist()
                if name in schema.names
                else [None] * len(chunk)
                for name in (*REQUIRED, *OPTIONAL)
            ]
            for record in zip(*columns, strict=True):
                number += 1
                rows.add([raw if raw is None else source.decode(raw, number) for raw in record], number=number)
    return rows.pool()


def _chunks(source: Source, table: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    try:
        yield from table.iter_batches(batch_size=10_000)
    except (pa.ArrowException, OSError) as error:
        raise source.wrong(
            None, f"its data are damaged ({error}). Write the file again.", slug="pool-parquet"
        ) from error


class _TidyRows:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._cells = Cells()
        self._agents: dict[str, int] = {}
        self._items: dict[str, int] = {}
        self._groups: dict[str, tuple[str, int]] = {}
        self._prompts: dict[str, tuple[str, int]] = {}

    def add(self, record: Sequence[str | None], *, number: int) -> None:
        """One record: agent, item, text, prompt, group."""
        agent, item, text, prompt, group = record
        agent = self._source.id(agent, "agent", number)
        item = self._source.id(item, "item", number)
        self._cells.add(
            self._agents.setdefault(agent, len(self._agents)),
            self._items.setdefault(item, len(self._items)),
            self._source.text(text, number),
            number=number,
        )
        if prompt:
            self._source.noticed(prompt, "prompt", number)
            self._say(self._prompts, item, prompt, f"prompt of item {item!r}", number)
        if group:
            self._source.name(group, "group", number)
            self._say(self._groups, agent, group, f"group of agent {agent!r}", number)

    def _say(self, said: dict[str, tuple[str, int]], key: str, value: str, what: str, number: int) -> None:
        earlier, where = said.setdefault(key, (value, number))
        if earlier != value:
            raise self._source.wrong(
                number,
                f"the {what} is {shown(value)}, in {self._source.unit} {where} it is {shown(earlier)}. "
                "Say the same in all rows, or say it once.",
                slug="pool-contradiction",
            )

    def pool(self) -> Pool:
        agents, items = list(self._agents), list(self._items)
        return Pool(
            agents=tuple(Agent(key, group=self._groups.get(key, (None,))[0]) for key in agents),
            items=tuple(Item(key, prompt=self._prompts.get(key, (None,))[0]) for key in items),
            texts=self._cells.grid(self._source, agents=agents, items=items),
            name=self._source.path.stem,
        )


def _csv_records(source: Source, file: BinaryIO) -> Iterator[tuple[int, list[str]]]:
    lines = (
        source.decode(raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw, number)
        for number, raw in enumerate(file, 1)
    )
    reader = csv.reader(lines, strict=True)
    start = 1
    try:
        for record in reader:
            if record:
                yield start, record
            start = reader.line_num + 1
    except csv.Error as error:
        raise source.wrong(
            start,
            f"the record that starts here is no CSV ({error}). "
            "Close every double quote, double those inside a text, and end lines with a line feed.",
            slug="pool-csv",
        ) from error


def _check_columns(source: Source, names: list[str], *, number: int | None) -> None:
    known = (*REQUIRED, *OPTIONAL)
    missing = [name for name in REQUIRED if name not in names]
    twice = sorted({name for name in names if names.count(name) > 1})
    unknown = [name for name in names if name not in known]
    advice = (
        f"Name the columns {', '.join(REQUIRED)} and, if there are any, {', '.join(OPTIONAL)}, separated by commas."
    )
    if missing:
        raise source.wrong(
            number, f"no column {', '.join(missing)}; it has {shown(', '.join(names))}. {advice}", slug="pool-columns"
        )
    if twice:
        raise source.wrong(number, f"the column {twice[0]} is there twice. {advice}", slug="pool-columns")
    if unknown:
        raise source.wrong(
            number,
            f"nothing is known of the column {shown(unknown[0])}. Remove it, or give a folder with meta. {advice}",
            slug="pool-columns",
        )


def _check_type(source: Source, name: str, kind: pa.DataType) -> None:
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not any(
        test(value)
        for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
    ):
        raise source.wrong(
            None, f"the column {name} is {kind}, not string. Cast it to string before writing.", slug="pool-columns"
        )


@contextmanager
def _field_limit(limit: int) -> Iterator[None]:
    before = csv.field_size_limit(limit)
    try:
        yield
    finally:
        csv.field_size_limit(before)
