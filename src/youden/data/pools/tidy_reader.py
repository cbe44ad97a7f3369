"""Reads a pool from one tidy table, CSV or Parquet, with a row for each response.

Its columns are agent, item, text, prompt, group and repeat; any other is refused.
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

from youden.data.pools.spool import LONG_TEXT, PoolCells, Source, shown
from youden.decompression import open_parquet, unpacked
from youden.text.printable import acts
from youden.text.spreadsheet_cells import GUARDED, without_guards
from youden.types import Agent, Item, Pool
from youden.types.pool import SEPARATOR, Positions

if TYPE_CHECKING:
    import pandas as pd

REQUIRED = ("agent", "item", "text")
OPTIONAL = ("prompt", "group", "repeat")

BATCH, LEAST_ROWS, MOST_ROWS = 2**25, 1_000, 100_000
"""Bytes of a Parquet table that are looked at at once, about, and the rows that this may come to."""


def read_csv(path: Path) -> Pool:
    """A pool from a comma-separated table in UTF-8. Every field is a string; an empty text is an empty response.

    An empty prompt or group says nothing; what is said must be the same in all rows of an item or agent.

    Raises: PoolError with the physical line on which the record starts.
    """
    source = Source(path)
    rows = _TidyRows(source)
    with source.open() as file, long_fields():
        records = _csv_records(source, file)
        number, header = next(records, (1, []))
        _check_columns(source, [name for name in header if name != GUARDED], number=number)
        guards = header.index(GUARDED) if GUARDED in header else None
        place = [header.index(name) if name in header else None for name in (*REQUIRED, *OPTIONAL)]
        for number, record in records:
            if len(record) != len(header):
                raise source.wrong(
                    number,
                    f"it has {len(record)} fields, the header {len(header)}. "
                    "Put texts with commas, quotes or line breaks in double quotes.",
                    slug="pool-csv",
                )
            fields = [None if at is None else record[at] for at in place]
            if guards is not None:
                row = dict(zip((*REQUIRED, *OPTIONAL), fields, strict=True)) | {GUARDED: record[guards]}
                fields = [*without_guards(row).values()]
            rows.add(fields, number=number)
    return rows.pool()


def read_parquet(path: Path) -> Pool:
    """A pool from a Parquet table whose columns are strings (or dictionaries of strings). A null prompt or group says nothing.

    Raises: PoolError with the row, counted from 1; InputError [unpacked] for a file that unpacks to far more than it is.
    """
    source = Source(path, unit="row")
    rows = _TidyRows(source)
    number = 0
    with source.open() as file:
        try:
            table = open_parquet(file)
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
                _as_text(chunk.column(name)) if name in schema.names else pa.nulls(len(chunk), pa.large_string())
                for name in (*REQUIRED, *OPTIONAL)
            ]
            if not rows.add_plain(columns, number=number + 1):
                records = zip(*(column.cast(pa.large_binary()).to_pylist() for column in columns), strict=True)
                for at, record in enumerate(records, number + 1):
                    rows.add([raw if raw is None else source.decode(raw, at) for raw in record], number=at)
            number += len(chunk)
    return rows.pool()


def _as_text(column: pa.Array) -> pa.LargeStringArray:
    if pa.types.is_floating(column.type):  # whole numbers beside nulls, as pandas writes them
        column = pa.array([None if value is None or isnan(value) else str(value) for value in column.to_pylist()])
    return column.cast(pa.large_string())


_FRAME = Path("DataFrame")


def read_frame(frame: pd.DataFrame) -> Pool:
    """Read a pool from a DataFrame with the columns of a table, or with one row per item and one column per agent.

    A missing text is a cell without a response.

    None, NaN, pd.NA and NaT are missing. A missing agent or item of a response is an error; a missing prompt, group or repeat is
    the same as no such column. An unpaired surrogate in a text becomes U+FFFD, with a warning in the log.

    Raises: PoolError with the row, counted from 1.
    """
    source = Source(_FRAME, unit="row")
    if not hasattr(frame, "columns"):
        raise source.wrong(
            None,
            f"a pool is read from a path or a pandas DataFrame, and {type(frame).__name__} arrived. Of arrays one is made by "
            "`pandas.DataFrame({'agent': agents, 'item': items, 'text': texts})`, a row a response.",
            slug="pool-columns",
        )
    if GUARDED in frame:  # read from a CSV file that `youden export` wrote
        frame = type(frame)(
            [without_guards({str(name): cell for name, cell in row.items()}) for row in frame.to_dict("records")]
        )
    if "agent" not in frame and "text" not in frame:
        frame = _melt_agents(frame)
    rows = _TidyRows(source)
    _check_columns(source, [str(name) for name in frame.columns], number=None)
    columns = {name: _present(frame[name]) if name in frame else [None] * len(frame) for name in (*REQUIRED, *OPTIONAL)}
    for number, (agent, item, text, prompt, group, repeat) in enumerate(zip(*columns.values(), strict=True), 1):
        if text is not None:
            texts = [
                source.encodable(value if column == "text" else str(value), number) if value is not None else None
                for column, value in zip(columns, (agent, item, text, prompt, group), strict=False)
            ]
            rows.add([*texts, repeat], number=number)
    source.log_replaced()
    return rows.pool()


def _melt_agents(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with one column per agent in long form; any other frame as it is."""
    if frame.index.name == "item":
        frame = frame.reset_index()
    if "item" not in frame or frame["item"].duplicated().any():
        return frame
    keys = [name for name in ("item", "prompt") if name in frame]
    return frame.melt(id_vars=keys, var_name="agent", value_name="text")


def _present(column: pd.Series) -> list[Any]:
    """Return the values of a column, with None for those that are missing, whatever its dtype."""
    values: list[Any] = column.astype(object).where(column.notna(), None).tolist()
    return values


def _chunks(source: Source, table: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    size = sum(table.metadata.row_group(group).total_byte_size for group in range(table.num_row_groups))
    n_rows = BATCH * table.metadata.num_rows // max(size, 1)
    try:
        yield from unpacked(table.iter_batches(batch_size=min(max(n_rows, LEAST_ROWS), MOST_ROWS)), source.path)
    except (pa.ArrowException, OSError) as error:
        raise source.wrong(
            None, f"its data are damaged ({error}). Write the file again.", slug="pool-parquet"
        ) from error


class _TidyRows:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._cells = PoolCells()
        self._agents: dict[str, int] = {}
        self._items: dict[str, int] = {}
        self._groups: dict[str, tuple[str, int]] = {}
        self._prompts: dict[str, tuple[str, int]] = {}

    def add(self, record: Sequence[Any], *, number: int) -> None:
        """One record: agent, item, text, prompt, group, repeat."""
        agent, item, text, prompt, group, repeat = record
        agent = self._source.id(agent, "agent", number)
        item = self._source.id(item, "item", number)
        self._cells.add(
            self._agents.setdefault(agent, len(self._agents)),
            self._items.setdefault(item, len(self._items)),
            self._source.text(text, number),
            number=number,
            repeat=self._source.repeat(repeat, number),
        )
        if prompt:
            self._source.noticed(prompt, "prompt", number)
            self._say(self._prompts, item, prompt, f"prompt of item {item!r}", number)
        if group:
            self._source.name(group, "group", number)
            self._say(self._groups, agent, group, f"group of agent {agent!r}", number)

    def add_plain(self, columns: Sequence[pa.LargeStringArray], *, number: int) -> bool:
        """Many records at once, the first of this number. Returns whether they are as they should be; if not, none is added, and
        `add` has to say what is wrong."""
        agent, item, text, prompt, group, repeat = columns
        if agent.null_count or item.null_count or text.null_count or not _is_utf8(columns):
            return False
        if repeat.null_count < len(repeat):
            return False
        agents, items = _positions(agent, self._agents), _positions(item, self._items)
        import pyarrow.compute as pc  # loads as long as a small table is read

        lengths = _whole(pc.utf8_length(text))
        if (
            agents is None
            or items is None
            or lengths.max(initial=0) > LONG_TEXT
            or any(acts(name) for name in group.unique().drop_null().to_pylist() if name)
            or not _says_one_thing(group, agents, list(self._agents), self._groups, number=number)
            or not _says_one_thing(prompt, items, list(self._items), self._prompts, number=number)
        ):
            return False
        spool = self._cells.extend(agents, items, np.arange(number, number + len(text)))
        spool.extend(_joined(text), n_bytes=_whole(pc.binary_length(text)), lengths=lengths)
        return True

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
        texts, further = self._cells.grids(self._source, agents=agents, items=items)
        return Pool(
            agents=tuple(Agent(key, group=self._groups.get(key, (None,))[0]) for key in agents),
            items=tuple(Item(key, prompt=self._prompts.get(key, (None,))[0]) for key in items),
            texts=texts,
            name=self._source.path.stem,
            further=further,
        )


def _is_utf8(columns: Sequence[pa.LargeStringArray]) -> bool:
    try:
        for column in columns:
            column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _positions(column: pa.LargeStringArray, known: dict[str, int]) -> Positions | None:
    """Where each id stands among those that are `known`, which new ones join; None where one is no id."""
    encoded = column.dictionary_encode()
    ids: list[str] = encoded.dictionary.to_pylist()
    places = [known.get(name) for name in ids]
    if None in places:
        if any(place is None and (not name.strip() or acts(name)) for name, place in zip(ids, places, strict=True)):
            return None
        places = [known.setdefault(name, len(known)) for name in ids]
    found: Positions = np.array(places, dtype=np.int64)[_whole(encoded.indices)]
    return found


def _joined(texts: pa.LargeStringArray) -> memoryview:
    """Texts with SEPARATOR between them. Both are given by buffers, for otherwise pyarrow would load pandas."""
    import pyarrow.compute as pc

    ends, whole = (
        pa.py_buffer(np.array([0, n], dtype=kind)) for n, kind in ((len(texts), "i4"), (len(SEPARATOR), "i8"))
    )
    together = pa.ListArray.from_buffers(pa.list_(texts.type), 1, [None, ends], children=[texts])
    between = pa.LargeStringArray.from_buffers(1, whole, pa.py_buffer(SEPARATOR))
    return memoryview(pc.binary_join(together, between)[0].as_buffer())


def _whole(values: pa.Array) -> Positions:
    """int64, of whole numbers without nulls, by their buffer."""
    found = np.frombuffer(values.buffers()[1], dtype=values.type.to_pandas_dtype())
    return found[values.offset : values.offset + len(values)].astype(np.int64, copy=False)


def _says_one_thing(
    column: pa.LargeStringArray,
    of: Positions,
    names: Sequence[str],
    said: dict[str, tuple[str, int]],
    *,
    number: int,
) -> bool:
    """Whether each of `of` is said one thing about, and one that can be said; what is new joins `said`."""
    if column.null_count == len(column):
        return True
    encoded = column.dictionary_encode()
    values: list[str | None] = [*encoded.dictionary.to_pylist(), None]
    codes = _whole(encoded.indices.fill_null(len(values) - 1))
    pairs, first = np.unique(of * len(values) + codes, return_index=True)
    for pair, row in zip(pairs.tolist(), first.tolist(), strict=True):
        name, value = names[pair // len(values)], values[pair % len(values)]
        if value and (len(value) > LONG_TEXT or said.setdefault(name, (value, number + row))[0] != value):
            return False
    return True


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
    twice = sorted(name for name, n in Counter(names).items() if n > 1)
    unknown = [name for name in names if name not in known]
    advice = f"Name the columns {', '.join(REQUIRED)} and, if there are any, {', '.join(OPTIONAL)}"
    if source.path == _FRAME:
        advice += "; or pass one row per item, with the column item and one column per agent."
    else:
        advice += f", separated by commas; or let `youden init {source.path.name}` find what is what."
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
    if name == "repeat" and (pa.types.is_integer(value) or pa.types.is_floating(value)):
        return
    if not any(
        test(value)
        for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
    ):
        raise source.wrong(
            None, f"the column {name} is {kind}, not string. Cast it to string before writing.", slug="pool-columns"
        )


@contextmanager
def long_fields() -> Iterator[None]:
    """Fields of a CSV may be of any length inside the block."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)
