"""Write columns as Parquet files that DuckDB and pandas can read, and read them back without loss.

A table is always one file. It can be read one row group (Parquet's unit of consecutive rows) at a time.
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

from youden.data.atomic import atomic_write
from youden.data.folder.run_files import VERSION, StrictFile, damaged_file_error, missing_file_error, parse
from youden.errors import RunFolderError
from youden.types.columns import TableColumn
from youden.types.pool import Bools, Floats, Ids, Positions

_KEY = b"youden"
"""Key of the metadata in the schema of a Parquet file."""

_TYPES = {
    "text": pa.string(),
    "hash": pa.string(),
    "whole": pa.int32(),
    "number": pa.float64(),
    "share": pa.float64(),
    "bit": pa.int8(),
}

M = TypeVar("M", bound=BaseModel)
Names = Mapping[str, Sequence[str]]
"""Kind of id ("agents", "items" or "models") → ids, by position."""


class TableMetadata(StrictFile):
    """Metadata of a table, stored as JSON in the schema of its file."""

    version: int = VERSION


def encode_table(columns: Sequence[TableColumn], values: Mapping[str, NDArray[Any] | None], names: Names) -> pa.Table:
    """Convert the arrays of a result to a table that can be written to a Parquet file.

    Arrays contain numbers, and the bytes of hashes. A text, such as the id of an agent, is represented by a whole number: its
    index in the list of all possible texts of the column. The table contains the texts.

    Parameters
    ----------
    columns : sequence of TableColumn
        Columns of the table.
    values : mapping of str to array (n_rows,) or None
        Values by name of a column, for each of `columns`; None for a column of nulls. Texts are indices in the column's
        `words` or in `names`. Missing values are −1 in texts and whole numbers, and NaN in other numbers. At least one
        column has an array, which sets the number of rows.
    names : mapping of str to sequence of str
        Ids by kind: "agents", "items" or "models".

    Returns
    -------
    pyarrow.Table
        One column per entry of `columns`, in their order.
    """
    n_rows = next(len(array) for array in values.values() if array is not None)
    arrays = {}
    for column in columns:
        arrays[column.name] = _encode_column(column, values[column.name], names, n_rows)
    return pa.table(arrays)


def _encode_column(column: TableColumn, values: NDArray[Any] | None, names: Names, n_rows: int) -> pa.Array:
    """Convert the values of a column to an Arrow array of the type that the column has in the file.

    values : array (n_rows,); None if all values are null
    names : ids by kind, which is "agents", "items" or "models"; a column of ids has the kind `column.entity`
    n_rows : number of rows of the table
    """
    if values is None:
        return pa.nulls(n_rows, _TYPES[column.kind])
    match column.kind:
        case "text":
            positions = _encode_numbers(values.astype(np.int32), valid=values >= 0)
            texts = _encode_texts(column.words or names[column.entity])
            return pa.DictionaryArray.from_arrays(positions, texts)
        case "hash":
            return pa.array(values.astype("S64")).cast(pa.string())
        case "whole":
            is_valid = values >= 0 if column.null else None
            return _encode_numbers(values, valid=is_valid)
        case kind:
            return _encode_numbers(values, valid=~np.isnan(values)).cast(_TYPES[kind])


def _encode_numbers(values: NDArray[np.number], *, valid: Bools | None = None) -> pa.Array:
    """Convert numbers (n_rows,) to an Arrow array that is null where `valid` (n_rows,) is False."""
    # made from buffers, because pyarrow would import pandas to convert a NumPy array
    validity = None
    if valid is not None:
        validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [validity, data])


def _encode_texts(texts: Sequence[str]) -> pa.Array:
    """Convert texts to an Arrow array of strings."""
    # made from buffers, so that pyarrow does not import pandas
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded)))


def write_table(path: Path, table: pa.Table, metadata: BaseModel, *, group_size: int | None = None) -> None:
    """Write a table as a Parquet file, compressed with zstd, and replace an existing file atomically.

    Parameters
    ----------
    path : Path
        The file.
    table : pyarrow.Table
        Rows to write; the metadata of its schema are dropped.
    metadata : BaseModel
        Metadata, which are stored as JSON in the schema.
    group_size : int, optional
        Maximum number of rows in a row group (Parquet's unit of consecutive rows). Default: that of pyarrow.
    """
    table = table.replace_schema_metadata(with_table_metadata(table.schema, metadata).metadata)
    with atomic_write(path) as tmp_path:
        pq.write_table(table, tmp_path, compression="zstd", row_group_size=group_size)


def with_table_metadata(schema: pa.Schema, metadata: BaseModel) -> pa.Schema:
    """Return a schema with metadata.

    Parameters
    ----------
    schema : pyarrow.Schema
        Schema of a table, which stays unchanged.
    metadata : BaseModel
        Stored as JSON under the key `youden`. Other metadata of the schema are dropped.

    Returns
    -------
    pyarrow.Schema
        A copy of the schema, with the metadata as JSON.
    """
    return schema.with_metadata({_KEY: metadata.model_dump_json().encode()})


@dataclass(frozen=True, eq=False)
class ParquetTable(Generic[M]):
    """A Parquet file whose columns are read on request.

    Every method raises RunFolderError [run-file-damaged] if a column does not fit.

    Attributes
    ----------
    path : Path
        The file.
    n_rows : int
        Number of rows.
    metadata : BaseModel
        Metadata of the table.
    group : int, optional
        Index of the only row group to read; None for the whole table.
    """

    path: Path
    n_rows: int
    metadata: M
    group: int | None = None

    def __len__(self) -> int:
        return self.n_rows

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the columns."""
        return frozenset(pq.read_schema(self.path).names)

    def row_groups(self) -> Iterator[ParquetTable[M]]:
        """Yield each row group (consecutive rows) as a table."""
        file_metadata = pq.read_metadata(self.path)
        for group in range(file_metadata.num_row_groups):
            yield replace(self, n_rows=file_metadata.row_group(group).num_rows, group=group)

    def read(self, columns: Sequence[TableColumn], names: Names) -> dict[str, NDArray[Any]]:
        """Read columns as arrays.

        Parameters
        ----------
        columns : sequence of TableColumn
            Columns to read.
        names : mapping
            Kind of id ("agents", "items" or "models") → ids. A column of ids is read as positions in them.

        Returns
        -------
        dict
            Name of a column → array (n_rows,). Its type is int32 for ids and whole numbers, int8 for positions in
            the column's `words`, S64 for hashes, and float64 otherwise. Null is −1 in texts and whole numbers,
            NaN in other numbers, and an error in hashes.

        Raises
        ------
        RunFolderError
            [run-file-damaged]: if a column is missing or of another type, has nulls that are not allowed, or contains a
            text that is not in `names` or in the column's `words`, or a share that is not from 0 to 1.
        """
        return {column.name: self._read_values(column, names) for column in columns}

    def _read_values(self, column: TableColumn, names: Names) -> NDArray[Any]:
        """Read a column as an array (n_rows,).

        names : ids by kind, which is "agents", "items" or "models"; a column of ids has the kind `column.entity`

        The type of the array depends on the kind of column:

        - words: int8 positions in `column.words`, −1 if null
        - ids: int32 positions in the ids, −1 if null
        - hashes: S64
        - whole numbers: int32, −1 if null
        - other numbers: float64, NaN if null
        """
        match column.kind:
            case "text" if column.words:
                return self._read_positions(column, column.words).astype(np.int8)
            case "text":
                return self._read_positions(column, names[column.entity])
            case "hash":
                return self.read_ascii(column.name)
            case "whole":
                integers = self._read_column(column.name, pa.int32(), nulls=column.null)
                return np.array(integers.fill_null(-1), dtype=np.int32)
            case _:
                numbers = self._read_column(column.name, pa.float64(), nulls=True)
                values = np.array(numbers.fill_null(np.nan), dtype=np.float64)
                self._check_range(column, values)
                return values

    def _check_range(self, column: TableColumn, values: Floats) -> None:
        """Check that shares are from 0 to 1, and that bits are 0 or 1. Missing values (NaN) are accepted.

        Raises: RunFolderError [run-file-damaged] if the column contains another value.
        """
        match column.kind:
            case "share":
                is_allowed, range_text = (values >= 0) & (values <= 1), "from 0 to 1"
            case "bit":
                is_allowed, range_text = (values == 0) | (values == 1), "0 or 1"
            case _:
                return
        unusable_values = values[~is_allowed & ~np.isnan(values)]
        if len(unusable_values) > 0:
            problem = f"the column {column.name} contains a value that is not {range_text}: got {unusable_values[0]:g}"
            raise damaged_file_error(self.path, problem)

    def _read_positions(self, column: TableColumn, names: Sequence[str]) -> Ids:
        """Read a column of texts as positions in `names`: int32 array (n_rows,), −1 for null."""
        texts = self._read_column(column.name, None, nulls=column.null)
        if not pa.types.is_dictionary(texts.type):
            texts = texts.cast(pa.string()).dictionary_encode()
        encoded_names = _encode_texts(names)
        positions = [self._find_positions(column.name, chunk, encoded_names) for chunk in texts.chunks]
        return np.concatenate(positions or [np.empty(0, dtype=np.int32)])

    def _find_positions(self, column_name: str, chunk: pa.DictionaryArray, names: pa.Array) -> Ids:
        """Return the position in `names` of each text in a chunk of a column; −1 for null.

        column_name : name of the column, for the error

        Raises: RunFolderError [run-file-damaged] if a text is not in `names`.
        """
        import pyarrow.compute as pc

        position_by_code = pc.index_in(chunk.dictionary.cast(pa.string()), value_set=names)
        codes = chunk.indices.drop_null()
        unknown_codes = codes.filter(pc.is_null(position_by_code.take(codes)))
        if len(unknown_codes) > 0:
            value = chunk.dictionary[unknown_codes[0].as_py()].as_py()
            raise damaged_file_error(self.path, f"the column {column_name} contains {value!r}, which is not in the run")
        return np.array(position_by_code.take(chunk.indices).fill_null(-1), dtype=np.int32)

    def read_ascii(self, name: str, rows: Positions | None = None) -> NDArray[np.bytes_]:
        """Read a column of hexadecimal digests as an S64 array.

        rows : int array (n,), rows to read; by default all
        """
        column = self._read_column(name, pa.binary(), nulls=False)
        return np.array(column if rows is None else column.take(_encode_numbers(rows)), dtype="S64")

    def _read_column(self, name: str, kind: pa.DataType | None, *, nulls: bool) -> pa.ChunkedArray:
        """Read a column, and cast it to the type `kind`; if `kind` is None, the column keeps its type in the file.

        nulls : whether the column may contain nulls
        name : name of the column

        Raises: RunFolderError [run-file-damaged] if the column is missing, of another type, or contains nulls.
        """
        try:
            column = self._read_raw_column(name)
            if kind is not None:
                column = column.cast(kind)
        except pa.ArrowException as error:
            raise damaged_file_error(self.path, f"the column {name} is not {kind} ({error})") from error
        if column.null_count and not nulls:
            raise damaged_file_error(self.path, f"the column {name} has {column.null_count} nulls")
        return column

    def _read_raw_column(self, name: str) -> pa.ChunkedArray:
        """Read a column of the row group `group`, or of all row groups if `group` is None.

        Raises: RunFolderError [run-file-damaged] if the column cannot be read.
        """
        try:
            with pq.ParquetFile(self.path) as file:
                names = file.schema_arrow.names
                if name not in names:
                    raise damaged_file_error(
                        self.path, f"it has no column {name}; its columns are {', '.join(names) or 'none'}"
                    )
                groups = range(file.num_row_groups) if self.group is None else [self.group]
                return file.read_row_groups(groups, columns=[name], use_threads=False).column(0)
        except (pa.ArrowException, OSError) as error:
            raise _not_parquet_error(self.path, error) from error


def read_table(path: Path, kind: type[M]) -> ParquetTable[M]:
    """Open a table; its columns are read later.

    Parameters
    ----------
    path : Path
        The file.
    kind : type
        Class of the table's metadata.

    Returns
    -------
    ParquetTable
        Table with its validated metadata.

    Raises
    ------
    RunFolderError
        [run-missing], [run-file-missing]: if the folder or the file does not exist; [run-version]: if another version
        of youden wrote it; [run-file-damaged]: if it is not a Parquet file with such metadata.
    """
    metadata = read_table_metadata(path, kind)
    return ParquetTable(path, pq.read_metadata(path).num_rows, metadata)


def read_table_metadata(path: Path, kind: type[M]) -> M:
    """Read the metadata of a table, without its rows.

    Parameters
    ----------
    path : Path
        The file.
    kind : type
        Class of the metadata.

    Returns
    -------
    BaseModel
        Instance of `kind`.

    Raises
    ------
    RunFolderError
        The errors of `read_table`.
    """
    if not path.is_file():
        raise missing_file_error(path)
    try:
        file_metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError) as error:
        raise _not_parquet_error(path, error) from error
    if _KEY not in file_metadata:
        raise damaged_file_error(path, "its metadata has no key 'youden'")
    return parse(path, file_metadata[_KEY], TypeAdapter(kind))


def _not_parquet_error(path: Path, error: Exception) -> RunFolderError:
    """Make the error for a file that is not Parquet, or that is cut off."""
    return damaged_file_error(path, f"it is not a complete Parquet file ({error})")
