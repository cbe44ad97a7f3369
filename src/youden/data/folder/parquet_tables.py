"""Write columns as Parquet files that DuckDB and pandas read by name, and read them back to the same numbers.

A large table is one file, too: it is read one row group at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import BaseModel, TypeAdapter

from youden.data.atomic import replacing
from youden.data.folder.run_files import VERSION, StrictFile, damaged, missing, parse
from youden.errors import RunFolderError
from youden.types.columns import TableColumn
from youden.types.pool import Bools, Ids, Positions

_KEY = b"youden"

_TYPES = {
    "text": pa.string(),
    "key": pa.string(),
    "whole": pa.int32(),
    "number": pa.float64(),
    "share": pa.float64(),
    "bit": pa.int8(),
}

M = TypeVar("M", bound=BaseModel)
Names = Mapping[str, Sequence[str]]
"""The ids that columns hold, by whose they are: agents, items, models."""


class TableMetadata(StrictFile):
    """What a table says beside its rows, as JSON in its metadata."""

    version: int = VERSION


def encoded(columns: Sequence[TableColumn], values: Mapping[str, NDArray[Any] | None], names: Names) -> pa.Table:
    """Columns as they stand in a file.

    values: by column, None for one that is all null. Of a text positions, among its words or in `names` by whose ids it holds;
    null is −1 of these and of whole numbers, NaN of other numbers.
    """
    n = next(len(array) for array in values.values() if array is not None)
    return pa.table({column.name: _encoded(column, values[column.name], names, n) for column in columns})


def _encoded(column: TableColumn, values: NDArray[Any] | None, names: Names, n: int) -> pa.Array:
    if values is None:
        return pa.nulls(n, _TYPES[column.kind])
    match column.kind:
        case "text":
            codes = _plain(values.astype(np.int32), valid=values >= 0)
            return pa.DictionaryArray.from_arrays(codes, _texts(column.words or names[column.of]))
        case "key":
            return pa.array(values.astype("S64")).cast(pa.string())
        case "whole":
            return _plain(values, valid=values >= 0 if column.null else None)
        case kind:
            return _plain(values, valid=~np.isnan(values)).cast(_TYPES[kind])


def _plain(values: NDArray[np.number], *, valid: Bools | None = None) -> pa.Array:
    """Numbers; null where not `valid`. By their buffers: for an array of NumPy's, pyarrow would load pandas."""
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(np.ascontiguousarray(values))])


def _texts(names: Sequence[str]) -> pa.Array:
    """Strings, by their buffers as `_plain` has them."""
    encoded = [name.encode() for name in names]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def write_table(path: Path, table: pa.Table, said: BaseModel, *, group_size: int | None = None) -> None:
    """Write a table (zstd) with `said` as JSON in the schema's metadata under `youden`, replacing the file in one step.

    group_size: maximum number of rows in a row group.
    """
    table = table.replace_schema_metadata(with_table_metadata(table.schema, said).metadata)
    with replacing(path) as fresh:
        pq.write_table(table, fresh, compression="zstd", row_group_size=group_size)


def with_table_metadata(schema: pa.Schema, said: BaseModel) -> pa.Schema:
    """The schema of a table that says `said` beside its rows."""
    return schema.with_metadata({_KEY: said.model_dump_json().encode()})


@dataclass(frozen=True, eq=False)
class ParquetTable(Generic[M]):
    """A table's columns, each read when asked for, and what it says beside them.

    Every method raises RunFolderError where a column does not fit.

    n_rows: of the table; group: the row group that is read, None for all.
    """

    path: Path
    n_rows: int
    said: M
    group: int | None = None

    def __len__(self) -> int:
        return self.n_rows

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the columns."""
        return frozenset(pq.read_schema(self.path).names)

    def blocks(self) -> Iterator[ParquetTable[M]]:
        """Yield the row groups, each as a table."""
        about = pq.read_metadata(self.path)
        for group in range(about.num_row_groups):
            yield replace(self, n_rows=about.row_group(group).num_rows, group=group)

    def read(self, columns: Sequence[TableColumn], names: Names) -> dict[str, NDArray[Any]]:
        """As `encoded` took them: int32[N] of ids and whole numbers, int8[N] of words, S64[N] of keys, else float64[N]."""
        return {column.name: self._values(column, names) for column in columns}

    def _values(self, column: TableColumn, names: Names) -> NDArray[Any]:
        match column.kind:
            case "text" if column.words:
                return self._positions(column, column.words).astype(np.int8)
            case "text":
                return self._positions(column, names[column.of])
            case "key":
                return self.ascii(column.name)
            case "whole":
                return np.array(self._column(column.name, pa.int32(), nulls=column.null).fill_null(-1), dtype=np.int32)
        return np.array(self._column(column.name, pa.float64(), nulls=True).fill_null(np.nan), dtype=np.float64)

    def _positions(self, column: TableColumn, names: Sequence[str]) -> Ids:
        found = self._column(column.name, None, nulls=column.null)
        if not pa.types.is_dictionary(found.type):
            found = found.cast(pa.string()).dictionary_encode()
        known = _texts(names)
        return np.concatenate(
            [self._codes(column.name, chunk, known) for chunk in found.chunks] or [np.empty(0, dtype=np.int32)]
        )

    def _codes(self, name: str, chunk: pa.DictionaryArray, names: pa.Array) -> Ids:
        import pyarrow.compute as pc

        known = pc.index_in(chunk.dictionary.cast(pa.string()), value_set=names)
        used = chunk.indices.drop_null()
        unknown = used.filter(pc.is_null(known.take(used)))
        if len(unknown):
            value = chunk.dictionary[unknown[0].as_py()].as_py()
            raise damaged(self.path, f"the column {name} holds {value!r}, which the run does not know")
        return np.array(known.take(chunk.indices).fill_null(-1), dtype=np.int32)

    def ascii(self, name: str, rows: Positions | None = None) -> NDArray[np.bytes_]:
        """S64[N], or of some rows alone."""
        column = self._column(name, pa.binary(), nulls=False)
        return np.array(column if rows is None else column.take(_plain(rows)), dtype="S64")

    def _column(self, name: str, kind: pa.DataType | None, *, nulls: bool) -> pa.ChunkedArray:
        try:
            column = self._read(name)
            column = column if kind is None else column.cast(kind)
        except pa.ArrowException as error:
            raise damaged(self.path, f"the column {name} is not {kind} ({error})") from error
        if column.null_count and not nulls:
            raise damaged(self.path, f"the column {name} has {column.null_count} nulls")
        return column

    def _read(self, name: str) -> pa.ChunkedArray:
        try:
            with pq.ParquetFile(self.path) as file:
                names = file.schema_arrow.names
                if name not in names:
                    raise damaged(self.path, f"there is no column {name}; it has {', '.join(names) or 'none at all'}")
                groups = range(file.num_row_groups) if self.group is None else [self.group]
                return file.read_row_groups(groups, columns=[name]).column(0)
        except (pa.ArrowException, OSError) as error:
            raise _no_parquet(self.path, error) from error


def read_table(path: Path, kind: type[M]) -> ParquetTable[M]:
    """Open a table whose metadata is a `kind`.

    Raises
    ------
    RunFolderError
        If the file is missing, damaged or of another version.
    """
    metadata = read_table_metadata(path, kind)
    return ParquetTable(path, pq.read_metadata(path).num_rows, metadata)


def read_table_metadata(path: Path, kind: type[M]) -> M:
    """Read the metadata of a table without its rows. Raises: as `read_table`."""
    if not path.is_file():
        raise missing(path)
    try:
        metadata = (pq.read_schema(path).metadata or {}).get(_KEY)
    except (pa.ArrowException, OSError) as error:
        raise _no_parquet(path, error) from error
    if metadata is None:
        raise damaged(path, "its metadata says nothing under 'youden'")
    return parse(path, metadata, TypeAdapter(kind))


def _no_parquet(path: Path, error: Exception) -> RunFolderError:
    return damaged(path, f"it is no whole Parquet file ({error})")
