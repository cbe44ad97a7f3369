"""Columns as Parquet, in one file or in a folder of parts: readable by name in DuckDB or pandas, read back to the same
numbers, and whole or refused.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, TypeAdapter

from youden.data.atomic import replacing, replacing_folder
from youden.data.folder.run_files import VERSION, damaged, missing, parse
from youden.errors import RunFolderError
from youden.nouns.pool import Bools, Floats, Ids, Positions

MANIFEST = "_parts.json"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    file: str
    rows: int
    bytes: int
    sha256: str


class _Manifest(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    version: int = VERSION
    said: str
    parts: tuple[_Part, ...]


class Parts(NamedTuple):
    """files: whole, in order; said: JSON of what the table says beside its rows."""

    files: tuple[Path, ...]
    said: bytes


class PartsWriter:
    """Notes the parts that are written into `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._parts: list[_Part] = []

    def next(self) -> Path:
        """Where the next part goes."""
        return self.folder / f"part-{len(self._parts):05d}.parquet"

    def written(self, rows: int) -> None:
        """The next part is there, and holds so many rows."""
        file = self.next()
        size, digest = file.stat().st_size, _digest(file)
        self._parts.append(_Part(file=file.name, rows=rows, bytes=size, sha256=digest))

    def close(self, said: str) -> None:
        text = _Manifest(said=said, parts=tuple(self._parts)).model_dump_json(indent=1)
        (self.folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


@contextmanager
def writing_parts(path: Path, said: str) -> Iterator[PartsWriter]:
    """Parts that become the folder `path`, if the block ends well; else all is as it was."""
    with replacing_folder(path) as fresh:
        writer = PartsWriter(fresh)
        yield writer
        writer.close(said)


def read_parts(path: Path, *, whole: bool = True) -> Parts:
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

M = TypeVar("M", bound=BaseModel)


class Said(BaseModel):
    """What a table says beside its rows, as JSON in its metadata."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: int = VERSION


def named(codes: NDArray[np.integer], names: Sequence[str]) -> pa.Array:
    """Positions in `names` as a dictionary column; −1 becomes null."""
    return pa.DictionaryArray.from_arrays(counted(codes.astype(np.int32)), _texts(names))


def counted(values: Ids) -> pa.Array:
    """Whole numbers; −1 becomes null."""
    return plain(values, valid=values >= 0)


def measured(values: Floats) -> pa.Array:
    """Numbers; NaN becomes null."""
    return plain(values, valid=~np.isnan(values))


def plain(values: NDArray[np.number], *, valid: Bools | None = None) -> pa.Array:
    """Numbers as they are; null where not `valid`. By their buffers: for an array of NumPy's, pyarrow would load pandas."""
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(np.ascontiguousarray(values))])


def _texts(names: Sequence[str]) -> pa.Array:
    """Strings, by their buffers as `plain` has them."""
    encoded = [name.encode() for name in names]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def write_table(path: Path, columns: Mapping[str, pa.Array], said: BaseModel, *, cuts: Sequence[int] = ()) -> None:
    """Write columns (zstd), and `said` as JSON in the schema's metadata under `youden`, replacing the file in one step.

    cuts: rows at which a new part begins; with some, `path` becomes a folder of parts.
    """
    table = pa.table(dict(columns))
    if not cuts:
        with replacing(path) as fresh:
            pq.write_table(
                table.replace_schema_metadata(with_said(table.schema, said).metadata), fresh, compression="zstd"
            )
        return
    with writing_parts(path, said.model_dump_json()) as parts:
        for start, stop in pairwise([0, *cuts, len(table)]):
            pq.write_table(table.slice(start, stop - start), parts.next(), compression="zstd")
            parts.written(stop - start)


def with_said(schema: pa.Schema, said: BaseModel) -> pa.Schema:
    """The schema of a table that says `said` beside its rows."""
    return schema.with_metadata({_KEY: said.model_dump_json().encode()})


@dataclass(frozen=True, eq=False)
class Table(Generic[M]):
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

    def blocks(self) -> Iterator[Table[M]]:
        """The same rows, a row group at a time."""
        for file in self.files:
            about = pq.read_metadata(file)
            for group in range(about.num_row_groups):
                yield replace(self, files=(file,), n_rows=about.row_group(group).num_rows, group=group)

    def positions(self, name: str, names: Sequence[str], *, nulls: bool = False) -> Ids:
        """int32[N]: positions in `names`; −1 for null, which only `nulls` allows."""
        column = self._column(name, None, nulls=nulls)
        if not pa.types.is_dictionary(column.type):
            column = column.cast(pa.string()).dictionary_encode()
        known = _texts(names)
        return np.concatenate(
            [self._codes(name, chunk, known) for chunk in column.chunks] or [np.empty(0, dtype=np.int32)]
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

    def integers(self, name: str, *, nulls: bool = False) -> Ids:
        """int32[N]; −1 for null, which only `nulls` allows."""
        return np.array(self._column(name, pa.int32(), nulls=nulls).fill_null(-1), dtype=np.int32)

    def floats(self, name: str) -> Floats:
        """float64[N]; NaN for null."""
        return np.array(self._column(name, pa.float64(), nulls=True).fill_null(np.nan), dtype=np.float64)

    def ascii(self, name: str, rows: Positions | None = None) -> NDArray[np.bytes_]:
        """S64[N], or of some rows alone."""
        column = self._column(name, pa.binary(), nulls=False)
        return np.array(column if rows is None else column.take(plain(rows)), dtype="S64")

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


def read_table(path: Path, kind: type[M]) -> Table[M]:
    """A table whose metadata is a `kind`. Raises: RunFolderError for a file that is missing, damaged or of another version."""
    files, said = _files_and_said(path)
    try:
        n_rows = sum(pq.read_metadata(file).num_rows for file in files)
    except (pa.ArrowException, OSError) as error:
        raise _no_parquet(path, error) from error
    return Table(path, files, n_rows, parse(path, said, TypeAdapter(kind)))


def read_said(path: Path, kind: type[M]) -> M:
    """What a table says beside its rows, which are not looked at. Raises: as `read_table`."""
    return parse(path, _files_and_said(path, whole=False).said, TypeAdapter(kind))


def count_rows(path: Path) -> int:
    """How many rows a table has; they are not looked at. Raises: RunFolderError where there is none, or it is no table."""
    files = _files_and_said(path, whole=False).files
    return sum(pq.read_metadata(file).num_rows for file in files)


def _files_and_said(path: Path, *, whole: bool = True) -> Parts:
    """whole: whether the parts of a folder have to be, byte for byte, those that were written."""
    if path.is_dir():
        return read_parts(path, whole=whole)
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
