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
from youden.data.folder.run_files import (
    VERSION,
    StrictFile,
    damaged_file_error,
    missing_file_error,
    parse_versioned_json,
)
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
IdsByEntity = Mapping[str, Sequence[str]]
"""Entity ("agents", "items" or "models") → ids. A column of ids states its entity, as in `TableColumn.entity`."""


class TableMetadata(StrictFile):
    """Metadata of a table, stored as JSON in the schema of its file."""

    version: int = VERSION


def encode_table(
    columns: Sequence[TableColumn], values: Mapping[str, NDArray[Any] | None], ids_by_entity: IdsByEntity
) -> pa.Table:
    """Convert the arrays of a result to a table that can be written to a Parquet file.

    The table contains texts, for example the ids of agents. In an array, a text is represented by its index in the list of all
    possible texts of the column. Hashes are bytes in an array, and texts in the table.

    Parameters
    ----------
    columns : sequence of TableColumn
        Columns of the table, with name, `kind` of the values ("text", "hash", "whole", "number", "share" or "bit"), `null`
        (whether values may be missing) and, for texts, the allowed `words` or the `entity` whose ids they are.
    values : mapping of str to array (n_rows,) or None
        Values by name of a column, for each of `columns`; None for a column of nulls. Texts are indices in the column's
        `words` or in `ids_by_entity`. Missing values are −1 in columns of texts and whole numbers, and NaN in columns of
        other numbers. They become null; in a column of whole numbers, only if its `null` is True. At least one column has
        an array, which sets the number of rows.
    ids_by_entity : mapping of str to sequence of str
        Ids of "agents", "items" or "models", for the columns that contain ids.

    Returns
    -------
    pyarrow.Table
        One column per entry of `columns`, in their order. Texts are dictionary-encoded, except hashes and columns of nulls.
    """
    arrays = [array for array in values.values() if array is not None]
    n_rows = len(arrays[0])
    encoded_columns = {}
    for column in columns:
        encoded_columns[column.name] = _encode_column(column, values[column.name], ids_by_entity, n_rows)
    return pa.table(encoded_columns)


def _encode_column(
    column: TableColumn, values: NDArray[Any] | None, ids_by_entity: IdsByEntity, n_rows: int
) -> pa.Array:
    """Convert the values of a column to an Arrow array of the type that the column has in the file.

    Missing values become null. They are −1 in columns of texts and whole numbers, and NaN in columns of other numbers.

    column : the column, whose `kind` is "text", "hash", "whole" (a whole number from 0 on), "number", "share" or "bit"
    values : array (n_rows,); None if all values are missing. Each text is represented by its index in `column.words` or, if
        the column contains ids, in the ids of `column.entity`.
    ids_by_entity : ids of "agents", "items" or "models"
    n_rows : number of rows of the table
    """
    if values is None:
        return pa.nulls(n_rows, _TYPES[column.kind])
    match column.kind:
        case "text":
            possible_texts = column.words or ids_by_entity[column.entity]
            indices = _encode_numbers(values.astype(np.int32), valid=values >= 0)
            return pa.DictionaryArray.from_arrays(indices, _encode_texts(possible_texts))
        case "hash":
            return pa.array(values.astype("S64")).cast(pa.string())
        case "whole" if column.null:  # values may be missing
            return _encode_numbers(values, valid=values >= 0)
        case "whole":
            return _encode_numbers(values)
        case "number" | "share" | "bit":
            numbers = _encode_numbers(values, valid=~np.isnan(values))
            return numbers.cast(_TYPES[column.kind])


def _encode_numbers(values: NDArray[np.number], *, valid: Bools | None = None) -> pa.Array:
    """Convert numbers (n_rows,) to an Arrow array that is null where `valid` (n_rows,) is False."""
    # made from buffers, because pyarrow would import pandas to convert a NumPy array
    validity = None
    if valid is not None:
        validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [validity, data])


def _encode_texts(texts: Sequence[str]) -> pa.Array:
    """Convert texts to an Arrow array: their UTF-8 bytes in a row, and the offset at which each text begins."""
    # made from buffers, so that pyarrow does not import pandas
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded)))


def write_table(path: Path, table: pa.Table, metadata: BaseModel, *, group_size: int | None = None) -> None:
    """Write a table as a Parquet file, compressed with zstd, and replace an existing file atomically.

    path : the file; its folder is created if it does not exist
    table : rows to write; the metadata of its schema are not written
    metadata : pydantic model, which is stored as JSON in the schema, under the key `youden`
    group_size : maximum number of rows in a row group (Parquet's unit of consecutive rows). Default: that of pyarrow, 1,048,576.
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
        """Yield the row groups of the file (consecutive rows) as tables, so that only one has to be in memory at a time."""
        file_metadata = pq.read_metadata(self.path)
        for group in range(file_metadata.num_row_groups):
            yield replace(self, n_rows=file_metadata.row_group(group).num_rows, group=group)

    def read(self, columns: Sequence[TableColumn], ids_by_entity: IdsByEntity) -> dict[str, NDArray[Any]]:
        """Read columns of the table, or of its single row group, as arrays.

        Parameters
        ----------
        columns : sequence of TableColumn
            Columns to read, with name and `kind` of the values.
        ids_by_entity : mapping of str to sequence of str
            Entity ("agents", "items" or "models") → ids. A column of ids is read as positions in the ids of its entity.

        Returns
        -------
        dict
            Name of a column → array (n_rows,). Its type is int32 for ids and whole numbers, int8 for positions in
            the column's `words`, S64 for hashes, and float64 otherwise. Null is −1 in texts and whole numbers,
            NaN in other numbers, and an error in hashes.

        Raises
        ------
        RunFolderError
            [run-file-damaged]: if a column is missing or of a different type, has nulls that are not allowed, or contains a
            text that is not in `ids_by_entity` or in the column's `words`, a share that is not from 0 to 1, or a bit that is
            not 0 or 1; if the file cannot be read.
        """
        return {column.name: self._read_as_array(column, ids_by_entity) for column in columns}

    def _read_as_array(self, column: TableColumn, ids_by_entity: IdsByEntity) -> NDArray[Any]:
        """Read a column as an array (n_rows,).

        column : the column; its kind determines the type of the array
        ids_by_entity : ids of "agents", "items" or "models"; `column.entity` states the entity of a column of ids

        Returns one of these arrays:

        - texts with a list of allowed words: int8 positions in `column.words`, −1 if null
        - ids: int32 positions in the ids of the entity, −1 if null
        - hashes: S64
        - whole numbers: int32, −1 if null
        - other numbers: float64, NaN if null
        """
        match column.kind:
            case "text" if column.words:
                return self._read_positions(column, column.words).astype(np.int8)
            case "text":
                return self._read_positions(column, ids_by_entity[column.entity])
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
        """Check that shares are from 0 to 1, and that bits are 0 or 1; columns of other kinds are not checked.

        column : the column, whose kind may be "share" or "bit"
        values : values of the column; missing ones (NaN) are accepted

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

    def _read_positions(self, column: TableColumn, allowed_texts: Sequence[str]) -> Ids:
        """Read a column of texts as positions in `allowed_texts`: int32 array (n_rows,), −1 for null."""
        texts = self._read_column(column.name, None, nulls=column.null)
        if not pa.types.is_dictionary(texts.type):
            texts = texts.cast(pa.string()).dictionary_encode()
        encoded_texts = _encode_texts(allowed_texts)
        positions = [self._find_positions(column.name, chunk, encoded_texts) for chunk in texts.chunks]
        return np.concatenate(positions or [np.empty(0, dtype=np.int32)])

    def _find_positions(self, column_name: str, chunk: pa.DictionaryArray, allowed_texts: pa.Array) -> Ids:
        """Return the position in `allowed_texts` of each text in a chunk (consecutive rows) of a column; −1 for null.

        An Arrow dictionary array stores each distinct text once (`dictionary`). Each row has the index of its text
        (`indices`). Therefore, each distinct text is looked up only once.

        column_name : name of the column, for the error
        chunk : rows of the column
        allowed_texts : texts that the column may contain

        Raises: RunFolderError [run-file-damaged] if a text is not in `allowed_texts`.
        """
        import pyarrow.compute as pc

        distinct_texts = chunk.dictionary.cast(pa.string())
        position_of_distinct_text = pc.index_in(distinct_texts, value_set=allowed_texts)  # null if it is not allowed
        positions = position_of_distinct_text.take(chunk.indices)

        is_unknown = pc.and_(pc.is_valid(chunk.indices), pc.is_null(positions))
        unknown_texts = chunk.filter(is_unknown)
        if len(unknown_texts) > 0:
            value = unknown_texts[0].as_py()
            raise damaged_file_error(self.path, f"the column {column_name} contains {value!r}, which is not in the run")
        return np.array(positions.fill_null(-1), dtype=np.int32)

    def read_ascii(self, name: str, rows: Positions | None = None) -> NDArray[np.bytes_]:
        """Read a column of hexadecimal digests as an S64 array.

        rows : int array (n,), rows to read; by default all
        """
        column = self._read_column(name, pa.binary(), nulls=False)
        if rows is not None:
            column = column.take(_encode_numbers(rows))
        return np.array(column, dtype="S64")

    def _read_column(self, name: str, data_type: pa.DataType | None, *, nulls: bool) -> pa.ChunkedArray:
        """Read a column, and convert it to a type.

        name : name of the column
        data_type : the type; if it is None, the column keeps its type in the file
        nulls : whether the column may contain nulls

        Raises: RunFolderError [run-file-damaged] if the column is missing, cannot be converted, or contains nulls that are
            not allowed.
        """
        try:
            column = self._read_raw_column(name)
            if data_type is not None:
                column = column.cast(data_type)
        except pa.ArrowException as error:
            raise damaged_file_error(self.path, f"the column {name} is not {data_type} ({error})") from error
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


def read_table(path: Path, metadata_class: type[M]) -> ParquetTable[M]:
    """Open a table; its columns are read later.

    Parameters
    ----------
    path : Path
        The file.
    metadata_class : type
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
    metadata = read_table_metadata(path, metadata_class)
    n_rows = pq.read_metadata(path).num_rows
    return ParquetTable(path, n_rows, metadata)


def read_table_metadata(path: Path, metadata_class: type[M]) -> M:
    """Read the metadata that youden stored in the file of a table, without reading rows.

    path : the file
    metadata_class : class that declares the fields of the metadata

    Returns an instance of `metadata_class`.

    Raises: RunFolderError [run-missing], [run-file-missing] if the folder or the file does not exist; [run-version] if another
        version of youden wrote it; [run-file-damaged] if it is not a Parquet file with such metadata.
    """
    if not path.is_file():
        raise missing_file_error(path)
    try:
        file_metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError) as error:
        raise _not_parquet_error(path, error) from error
    if _KEY not in file_metadata:
        raise damaged_file_error(path, "its metadata has no key 'youden'")
    return parse_versioned_json(path, file_metadata[_KEY], TypeAdapter(metadata_class))


def _not_parquet_error(path: Path, error: Exception) -> RunFolderError:
    """Make the error for a file that is not Parquet, or that is cut off."""
    return damaged_file_error(path, f"it is not a complete Parquet file ({error})")
