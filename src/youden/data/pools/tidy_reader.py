"""Read a pool from a tidy table (CSV, Parquet or DataFrame) with one row per response.

The columns are agent, item, text, prompt, group and repeat; any other column is an error.
"""

from __future__ import annotations

import codecs
import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from youden.data.pools.spool import LONG_TEXT, PoolCells, Source, format_excerpt
from youden.decompression import iter_unpacked, open_parquet
from youden.text.printable import find_name_fault
from youden.text.spreadsheet_cells import GUARDED, remove_guards
from youden.types import Agent, Item, Pool
from youden.types.pool import SEPARATOR, Positions

if TYPE_CHECKING:
    import pandas as pd

REQUIRED = ("agent", "item", "text")
OPTIONAL = ("prompt", "group", "repeat")

_BATCH_BYTES, _MIN_BATCH_ROWS, _MAX_BATCH_ROWS = 2**25, 1_000, 100_000
"""Approximate size of the rows of a Parquet file that are read at a time, and limits of their number."""


def read_csv(path: Path) -> Pool:
    """Read a pool from a comma-separated table in UTF-8.

    Every field is a string. An empty text is an empty response; an empty prompt or group is missing. All rows of an
    item that have a prompt must have the same one, and so must all rows of an agent that have a group.

    Raises: PoolError with the line on which the record starts.
    """
    source = Source(path)
    rows = _TidyRows(source)
    with source.open() as file, allow_long_csv_fields():
        records = _read_csv_records(source, file)
        number, header = next(records, (1, []))
        _check_columns(source, [name for name in header if name != GUARDED], number=number)
        guard_index = header.index(GUARDED) if GUARDED in header else None
        indices = [header.index(name) if name in header else None for name in (*REQUIRED, *OPTIONAL)]
        for number, record in records:
            if len(record) != len(header):
                raise source.make_error(
                    number,
                    f"it does not fit the header: got {len(record)} fields, expected {len(header)}. "
                    "Put texts with commas, quotes or line breaks in double quotes.",
                    slug="pool-csv",
                )
            fields = [None if index is None else record[index] for index in indices]
            if guard_index is not None:
                row = dict(zip((*REQUIRED, *OPTIONAL), fields, strict=True)) | {GUARDED: record[guard_index]}
                fields = [*remove_guards(row).values()]
            rows.add(fields, number=number)
    return rows.to_pool()


def read_parquet(path: Path) -> Pool:
    """Read a pool from a Parquet table.

    Columns are strings, or dictionaries of strings; repeats may be numbers. A null prompt or group is missing.

    Raises: PoolError with the number of the row, from 1; InputError [unpacked-too-large] if the file decompresses to
        far more than its size.
    """
    source = Source(path, unit="row")
    rows = _TidyRows(source)
    number = 0
    with source.open() as file:
        try:
            table = open_parquet(file)
        except (pa.ArrowException, OSError) as error:
            raise source.make_error(
                None, f"it is not a Parquet file ({error}). Write it again, or pass a CSV file.", slug="pool-parquet"
            ) from error
        schema = table.schema_arrow
        _check_columns(source, schema.names, number=None)
        for name in schema.names:
            _check_type(source, name, schema.field(name).type)
        for batch in _read_batches(source, table):
            columns = [
                _to_strings(batch.column(name)) if name in schema.names else pa.nulls(len(batch), pa.large_string())
                for name in (*REQUIRED, *OPTIONAL)
            ]
            if not rows.add_batch(columns, number=number + 1):
                records = zip(*(column.cast(pa.large_binary()).to_pylist() for column in columns), strict=True)
                for row_number, record in enumerate(records, number + 1):
                    fields = [raw if raw is None else source.decode(raw, row_number) for raw in record]
                    rows.add(fields, number=row_number)
            number += len(batch)
    return rows.to_pool()


def _to_strings(column: pa.Array) -> pa.LargeStringArray:
    # pandas writes whole numbers with nulls as floats
    if pa.types.is_floating(column.type):
        column = pa.array([None if value is None or isnan(value) else str(value) for value in column.to_pylist()])
    return column.cast(pa.large_string())


_FRAME = Path("DataFrame")


def read_frame(frame: pd.DataFrame) -> Pool:
    """Read a pool from a DataFrame with the columns of a table, or with one row per item and one column per agent.

    None, NaN, pd.NA and NaT are missing values. A row without a text is not a response and is skipped. Any other row needs
    an agent and an item, while prompt, group and repeat may be missing. An unpaired surrogate in a text becomes U+FFFD,
    with a warning in the log.

    Raises: PoolError with the number of the row, from 1.
    """
    source = Source(_FRAME, unit="row")
    if not hasattr(frame, "columns"):
        raise source.make_error(
            None,
            f"a pool is read from a path or a pandas DataFrame: got {type(frame).__name__}. To use arrays, pass "
            "`pandas.DataFrame({'agent': agents, 'item': items, 'text': texts})` with one row per response.",
            slug="pool-columns",
        )
    if GUARDED in frame:  # read from a CSV file that `youden export` wrote
        frame = type(frame)(
            [remove_guards({str(name): cell for name, cell in row.items()}) for row in frame.to_dict("records")]
        )
    if "agent" not in frame and "text" not in frame:
        frame = _melt_agents(frame)
    rows = _TidyRows(source)
    _check_columns(source, [str(name) for name in frame.columns], number=None)
    columns = {name: _to_list(frame[name]) if name in frame else [None] * len(frame) for name in (*REQUIRED, *OPTIONAL)}
    for number, (agent, item, text, prompt, group, repeat) in enumerate(zip(*columns.values(), strict=True), 1):
        if text is not None:
            texts = [
                source.to_encodable(value if column == "text" else str(value), number) if value is not None else None
                for column, value in zip(columns, (agent, item, text, prompt, group), strict=False)
            ]
            rows.add([*texts, repeat], number=number)
    source.log_replaced()
    return rows.to_pool()


def _melt_agents(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert a frame with one column per agent to one row per response; return any other frame unchanged."""
    if frame.index.name == "item":
        frame = frame.reset_index()
    if "item" not in frame or frame["item"].duplicated().any():
        return frame
    keys = [name for name in ("item", "prompt") if name in frame]
    return frame.melt(id_vars=keys, var_name="agent", value_name="text")


def _to_list(column: pd.Series) -> list[Any]:
    """Return the values of a column of any dtype, with None for missing ones."""
    values: list[Any] = column.astype(object).where(column.notna(), None).tolist()
    return values


def _read_batches(source: Source, table: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    n_bytes = sum(table.metadata.row_group(group).total_byte_size for group in range(table.num_row_groups))
    n_rows = _BATCH_BYTES * table.metadata.num_rows // max(n_bytes, 1)
    batch_size = min(max(n_rows, _MIN_BATCH_ROWS), _MAX_BATCH_ROWS)
    try:
        yield from iter_unpacked(table.iter_batches(batch_size=batch_size), source.path)
    except (pa.ArrowException, OSError) as error:
        raise source.make_error(
            None, f"its data are damaged ({error}). Write the file again.", slug="pool-parquet"
        ) from error


class _TidyRows:
    """Responses, prompts and groups of the rows that have been read."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._cells = PoolCells()
        self._agents: dict[str, int] = {}
        self._items: dict[str, int] = {}
        self._groups: dict[str, tuple[str, int]] = {}
        self._prompts: dict[str, tuple[str, int]] = {}

    def add(self, record: Sequence[Any], *, number: int) -> None:
        """Add a row: agent, item, text, prompt, group and repeat, None if missing; raise PoolError if one does not fit.

        `number` is the number of the row, for errors.
        """
        agent, item, text, prompt, group, repeat = record
        agent = self._source.parse_id(agent, "agent", number)
        item = self._source.parse_id(item, "item", number)
        self._cells.add(
            self._agents.setdefault(agent, len(self._agents)),
            self._items.setdefault(item, len(self._items)),
            self._source.parse_text(text, number),
            number=number,
            repeat=self._source.parse_repeat(repeat, number),
        )
        if prompt:
            self._source.warn_if_long(prompt, "prompt", number)
            self._record(self._prompts, item, prompt, f"prompt of item {item!r}", number)
        if group:
            self._source.check_name(group, "group", number)
            self._record(self._groups, agent, group, f"group of agent {agent!r}", number)

    def add_batch(self, columns: Sequence[pa.LargeStringArray], *, number: int) -> bool:
        """Add many rows at once and return True, unless one of them has a problem or a repeat.

        Otherwise returns False without adding a response. The caller then adds each row with `add`, which names the row
        in its error.

        columns : arrays of agents, items, texts, prompts, groups and repeats
        number : number of the first row
        """
        agent, item, text, prompt, group, repeat = columns
        if agent.null_count or item.null_count or text.null_count or not _is_utf8(columns):
            return False
        if repeat.null_count < len(repeat):
            return False
        agents, items = _look_up_ids(agent, self._agents), _look_up_ids(item, self._items)
        import pyarrow.compute as pc  # takes as long to import as a small table to read

        lengths = _to_int64(pc.utf8_length(text))
        if (
            agents is None
            or items is None
            or lengths.max(initial=0) > LONG_TEXT
            or any(find_name_fault(name) for name in group.unique().drop_null().to_pylist() if name)
            or not _record_batch(group, agents, list(self._agents), self._groups, number=number)
            or not _record_batch(prompt, items, list(self._items), self._prompts, number=number)
        ):
            return False
        spool = self._cells.extend(agents, items, np.arange(number, number + len(text)))
        spool.extend(_join_texts(text), n_bytes=_to_int64(pc.binary_length(text)), lengths=lengths)
        return True

    def _record(
        self, recorded: dict[str, tuple[str, int]], key: str, value: str, description: str, number: int
    ) -> None:
        """Record the prompt of an item or the group of an agent; raise PoolError [pool-contradiction] if it differs."""
        earlier, earlier_number = recorded.setdefault(key, (value, number))
        if earlier != value:
            raise self._source.make_error(
                number,
                f"the {description} is {format_excerpt(value)}, in {self._source.unit} {earlier_number} it is "
                f"{format_excerpt(earlier)}. "
                "Set the same value in all rows, or in one of them.",
                slug="pool-contradiction",
            )

    def to_pool(self) -> Pool:
        agents, items = list(self._agents), list(self._items)
        texts, further = self._cells.to_texts(self._source, agents=agents, items=items)
        return Pool(
            agents=tuple(Agent(key, group=self._groups.get(key, (None,))[0]) for key in agents),
            items=tuple(Item(key, prompt=self._prompts.get(key, (None,))[0]) for key in items),
            texts=texts,
            name=self._source.path.stem,
            repeat_texts=further,
        )


def _is_utf8(columns: Sequence[pa.LargeStringArray]) -> bool:
    try:
        for column in columns:
            column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _look_up_ids(column: pa.LargeStringArray, position_by_id: dict[str, int]) -> Positions | None:
    """Return the position of each id, adding new ids to `position_by_id`; None if a new id is invalid."""
    encoded = column.dictionary_encode()
    ids: list[str] = encoded.dictionary.to_pylist()
    positions = [position_by_id.get(name) for name in ids]
    if None in positions:
        new_ids = [name for name, position in zip(ids, positions, strict=True) if position is None]
        if any(not name.strip() or find_name_fault(name) for name in new_ids):
            return None
        positions = [position_by_id.setdefault(name, len(position_by_id)) for name in ids]
    result: Positions = np.array(positions, dtype=np.int64)[_to_int64(encoded.indices)]
    return result


def _join_texts(texts: pa.LargeStringArray) -> memoryview:
    """Join texts by SEPARATOR."""
    import pyarrow.compute as pc

    # both arrays are made from buffers, because pyarrow would import pandas otherwise
    list_bounds = pa.py_buffer(np.array([0, len(texts)], dtype="i4"))
    separator_bounds = pa.py_buffer(np.array([0, len(SEPARATOR)], dtype="i8"))
    text_list = pa.ListArray.from_buffers(pa.list_(texts.type), 1, [None, list_bounds], children=[texts])
    separator = pa.LargeStringArray.from_buffers(1, separator_bounds, pa.py_buffer(SEPARATOR))
    return memoryview(pc.binary_join(text_list, separator)[0].as_buffer())


def _to_int64(values: pa.Array) -> Positions:
    """Convert whole numbers (n,) without nulls to int64 (n,), through their buffer."""
    numbers = np.frombuffer(values.buffers()[1], dtype=values.type.to_pandas_dtype())
    return numbers[values.offset : values.offset + len(values)].astype(np.int64, copy=False)


def _record_batch(
    column: pa.LargeStringArray,
    positions: Positions,
    ids: Sequence[str],
    recorded: dict[str, tuple[str, int]],
    *,
    number: int,
) -> bool:
    """Record the prompts of items, or the groups of agents; return False if a value is too long or contradicts another.

    column : values (n,), null if missing
    positions : int array (n,), position in `ids` of the item or agent of each row
    number : number of the first row
    """
    if column.null_count == len(column):
        return True
    encoded = column.dictionary_encode()
    values: list[str | None] = [*encoded.dictionary.to_pylist(), None]
    codes = _to_int64(encoded.indices.fill_null(len(values) - 1))

    # pairs of an id and a value as one number each, with the first row of each pair
    pairs, first_rows = np.unique(positions * len(values) + codes, return_index=True)
    for pair, row in zip(pairs.tolist(), first_rows.tolist(), strict=True):
        name, value = ids[pair // len(values)], values[pair % len(values)]
        if value and (len(value) > LONG_TEXT or recorded.setdefault(name, (value, number + row))[0] != value):
            return False
    return True


def _read_csv_records(source: Source, file: BinaryIO) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a CSV file, each with the number of its first line."""
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
        raise source.make_error(
            start,
            f"the record that starts here is not CSV ({error}). "
            "Close every double quote, double those inside a text, and end lines with a line feed.",
            slug="pool-csv",
        ) from error


def _check_columns(source: Source, names: list[str], *, number: int | None) -> None:
    allowed = (*REQUIRED, *OPTIONAL)
    missing = [name for name in REQUIRED if name not in names]
    duplicates = sorted(name for name, n in Counter(names).items() if n > 1)
    unknown = [name for name in names if name not in allowed]
    remedy = f"Name the columns {', '.join(REQUIRED)} and, if there are any, {', '.join(OPTIONAL)}"
    if source.path == _FRAME:
        remedy += "; or pass one row per item, with the column item and one column per agent."
    else:
        remedy += f", separated by commas; or run `youden init {source.path.name}` to detect the columns."
    if missing:
        raise source.make_error(
            number,
            f"no column {', '.join(missing)}: got {format_excerpt(', '.join(names))}. {remedy}",
            slug="pool-columns",
        )
    if duplicates:
        raise source.make_error(number, f"the column {duplicates[0]} occurs twice. {remedy}", slug="pool-columns")
    if unknown:
        raise source.make_error(
            number,
            f"the column {format_excerpt(unknown[0])} is unknown. Remove it, or pass a folder with meta. {remedy}",
            slug="pool-columns",
        )


def _check_type(source: Source, name: str, kind: pa.DataType) -> None:
    """Raise PoolError [pool-columns] if a column of a Parquet file cannot be read as strings.

    Strings, dictionaries of strings and nulls are allowed, and for `repeat` also numbers.
    """
    value_type = kind.value_type if pa.types.is_dictionary(kind) else kind
    if name == "repeat" and (pa.types.is_integer(value_type) or pa.types.is_floating(value_type)):
        return
    if not any(
        is_allowed(value_type)
        for is_allowed in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
    ):
        raise source.make_error(
            None,
            f"the column {name} does not contain strings: got the type {kind}. Cast it to string before writing.",
            slug="pool-columns",
        )


@contextmanager
def allow_long_csv_fields() -> Iterator[None]:
    """Allow CSV fields of any length inside the block."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(limit)
