"""Columns as Parquet, in one file or in a folder of parts: readable by name in DuckDB or pandas, read back to the same
numbers, and whole or refused.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import BaseModel, TypeAdapter

from youden.data.atomic import replacing, replacing_folder
from youden.data.folder.run_files import VERSION, StrictFile, damaged, missing, parse
from youden.errors import RunFolderError
from youden.types.columns import TableColumn
from youden.types.pool import Bools, Ids, Positions

MANIFEST = "_parts.json"


class _Part(StrictFile):
    file: str
    rows: int
    bytes: int
    sha256: str


class _Manifest(StrictFile):
    version: int = VERSION
    said: str
    parts: tuple[_Part, ...]


class Parts(NamedTuple):
    """files: whole, in order; said: JSON of what the table says beside its rows."""

    files: tuple[Path, ...]
    said: bytes


@contextmanager
def writing_parts(path: Path, said: str) -> Iterator[Path]:
    """A folder for Parquet files, which become the parts of the table `path`, in the order of their names, if the block ends
    well; else all is as it was."""
    with replacing_folder(path) as fresh:
        yield fresh
        parts = [
            _Part(
                file=file.name,
                rows=pq.read_metadata(file).num_rows,
                bytes=file.stat().st_size,
                sha256=_digest(file),
            )
            for file in sorted(fresh.glob("*.parquet"))
        ]
        text = _Manifest(said=said, parts=tuple(parts)).model_dump_json(indent=1)
        (fresh / MANIFEST).write_text(text + "\n", encoding="utf-8")


def _read_parts(path: Path, *, whole: bool = True) -> Parts:
    """The parts in the folder `path`: all there and as long as they were written, and where `whole` is said of their digests too.

    Raises: RunFolderError [run-file-damaged] where one is missing, cut off, changed, or not named; [run-version].
    """
    manifest = path / MANIFEST
    if not manifest.is_file():
        raise damaged(path, f"the folder has no {MANIFEST}, so nobody knows whether its parts are all there")
    found = parse(path, manifest.read_bytes(), TypeAdapter(_Manifest))
    there = {file.name for file in path.glob("*.parquet")}
    if more := sorted(there - {part.file for part in found.parts}):
        raise damaged(path, f"{more[0]} is no part of this table")
    for part in found.parts:
        _check(path, path / part.file, part, whole=whole)
    return Parts(tuple(path / part.file for part in found.parts), found.said.encode())


def _check(path: Path, file: Path, part: _Part, *, whole: bool) -> None:
    if not file.is_file():
        raise damaged(path, f"the part {part.file} ({part.rows} rows) is missing")
    if (size := file.stat().st_size) != part.bytes:
        raise damaged(path, f"the part {part.file} has {size} bytes, not the {part.bytes} that were written")
    if whole and _digest(file) != part.sha256:
        raise damaged(path, f"the part {part.file} is not the one that was written: of another run, or changed")


def _digest(file: Path) -> str:
    with file.open("rb") as bytes_of:
        return hashlib.file_digest(bytes_of, "sha256").hexdigest()


def remove(path: Path) -> None:
    """Take out a file, or a folder of parts."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


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


def write_table(path: Path, table: pa.Table, said: BaseModel, *, cuts: Sequence[int] = ()) -> None:
    """Write a table (zstd), and `said` as JSON in the schema's metadata under `youden`, replacing the file in one step.

    cuts: rows at which a new part begins; with some, `path` becomes a folder of parts.
    """
    table = table.replace_schema_metadata(with_table_metadata(table.schema, said).metadata)

    def write(part: Path, start: int, stop: int) -> None:
        pq.write_table(table.slice(start, stop - start), part, compression="zstd")

    write_rows(path, write, said, n=len(table), cuts=cuts)


def write_rows(
    path: Path, write: Callable[[Path, int, int], None], said: BaseModel, *, n: int, cuts: Sequence[int] = ()
) -> None:
    """`n` rows, replacing the file in one step. write: rows from one number to another into a file; cuts: as in `write_table`."""
    if not cuts:
        with replacing(path) as fresh:
            write(fresh, 0, n)
        return
    with writing_parts(path, said.model_dump_json()) as folder:
        for number, (start, stop) in enumerate(pairwise([0, *cuts, n])):
            write(folder / f"part-{number:05d}.parquet", start, stop)


def with_table_metadata(schema: pa.Schema, said: BaseModel) -> pa.Schema:
    """The schema of a table that says `said` beside its rows."""
    return schema.with_metadata({_KEY: said.model_dump_json().encode()})


@dataclass(frozen=True, eq=False)
class ParquetTable(Generic[M]):
    """A table's columns, each read when asked for, and what it says beside them.

    Every method raises RunFolderError where a column does not fit.

    files: Parquet, in the order of rows; n_rows: of all of them; group: the row group that is read of each, None for all.
    """

    path: Path
    files: tuple[Path, ...]
    n_rows: int
    said: M
    group: int | None = None

    def __len__(self) -> int:
        return self.n_rows

    @cached_property
    def names(self) -> frozenset[str]:
        """Of the columns that the first file has."""
        return frozenset(pq.read_schema(self.files[0]).names) if self.files else frozenset()

    def blocks(self) -> Iterator[ParquetTable[M]]:
        """The same rows, a row group at a time."""
        for file in self.files:
            about = pq.read_metadata(file)
            for group in range(about.num_row_groups):
                yield replace(self, files=(file,), n_rows=about.row_group(group).num_rows, group=group)

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
            parts = [self._read(file, name) for file in self.files]
            column = pa.chunked_array([chunk for part in parts for chunk in part.chunks], type=parts[0].type)
            column = column if kind is None else column.cast(kind)
        except pa.ArrowException as error:
            raise damaged(self.path, f"the column {name} is not {kind} ({error})") from error
        if column.null_count and not nulls:
            raise damaged(self.path, f"the column {name} has {column.null_count} nulls")
        return column

    def _read(self, path: Path, name: str) -> pa.ChunkedArray:
        try:
            with pq.ParquetFile(path) as file:
                names = file.schema_arrow.names
                if name not in names:
                    raise damaged(self.path, f"there is no column {name}; it has {', '.join(names) or 'none at all'}")
                groups = range(file.num_row_groups) if self.group is None else [self.group]
                return file.read_row_groups(groups, columns=[name]).column(0)
        except (pa.ArrowException, OSError) as error:
            raise _no_parquet(self.path, error) from error


def read_table(path: Path, kind: type[M]) -> ParquetTable[M]:
    """A table whose metadata is a `kind`. Raises: RunFolderError for a file that is missing, damaged or of another version."""
    files, said = _files_and_said(path)
    try:
        n_rows = sum(pq.read_metadata(file).num_rows for file in files)
    except (pa.ArrowException, OSError) as error:
        raise _no_parquet(path, error) from error
    return ParquetTable(path, files, n_rows, parse(path, said, TypeAdapter(kind)))


def read_table_metadata(path: Path, kind: type[M]) -> M:
    """What a table says beside its rows, which are not looked at. Raises: as `read_table`."""
    return parse(path, _files_and_said(path, whole=False).said, TypeAdapter(kind))


def _files_and_said(path: Path, *, whole: bool = True) -> Parts:
    """whole: whether the parts of a folder have to be, byte for byte, those that were written."""
    if path.is_dir():
        return _read_parts(path, whole=whole)
    if not path.is_file():
        raise missing(path)
    try:
        said = (pq.read_schema(path).metadata or {}).get(_KEY)
    except (pa.ArrowException, OSError) as error:
        raise _no_parquet(path, error) from error
    if said is None:
        raise damaged(path, "its metadata says nothing under 'youden'")
    return Parts((path,), said)


def _no_parquet(path: Path, error: Exception) -> RunFolderError:
    return damaged(path, f"it is no whole Parquet file ({error})")
