"""Columns as Parquet: readable by name in DuckDB or pandas, and read back to the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import BaseModel, TypeAdapter

from youden.data.atomic import replacing
from youden.data.folder.run_files import VERSION, damaged, missing, parse
from youden.errors import RunFolderError
from youden.nouns.arrays import Bools, Floats, Ids

_KEY = b"youden"

M = TypeVar("M", bound=BaseModel)


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


def write_table(path: Path, columns: Mapping[str, pa.Array], said: BaseModel) -> None:
    """Write columns (zstd), and `said` as JSON in the schema's metadata under `youden`, replacing the file in one step."""
    table = pa.table(dict(columns)).replace_schema_metadata({_KEY: said.model_dump_json().encode()})
    with replacing(path) as fresh:
        pq.write_table(table, fresh, compression="zstd")


def _positions(codes: pa.Array | pa.ChunkedArray) -> Ids:
    return np.array(codes.cast(pa.int32()).fill_null(-1), dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Table(Generic[M]):
    """A file whose columns are read as they are asked for, and what its metadata says. Every method raises RunFolderError where
    a column does not fit."""

    path: Path
    file: pq.ParquetFile
    said: M

    def __len__(self) -> int:
        return int(self.file.metadata.num_rows)

    def positions(self, name: str, names: Sequence[str], *, nulls: bool = False) -> Ids:
        """int32[N]: positions in `names`; −1 for null, which only `nulls` allows."""
        column = self._read(name, nulls=nulls)
        if pa.types.is_dictionary(column.type):
            parts = [self._known(name, part.dictionary, names)[_positions(part.indices)] for part in column.chunks]
            return np.concatenate([np.zeros(0, dtype=np.int32), *parts])
        return self._known(name, self._column(name, pa.string(), nulls=nulls), names)[:-1]

    def _known(self, name: str, texts: pa.Array | pa.ChunkedArray, names: Sequence[str]) -> Ids:
        """int32[n + 1]: positions of `texts` in `names`, −1 for null, and −1 at the end."""
        try:
            codes = pc.index_in(texts.cast(pa.string()), value_set=_texts(names))
        except pa.ArrowException as error:
            raise damaged(self.path, f"the column {name} is not {pa.string()} ({error})") from error
        unknown = texts.filter(pc.and_(pc.is_null(codes), pc.is_valid(texts)))
        if len(unknown):
            raise damaged(self.path, f"the column {name} holds {unknown[0].as_py()!r}, which the run does not know")
        return np.append(_positions(codes), np.int32(-1))

    def integers(self, name: str, *, nulls: bool = False) -> Ids:
        """int32[N]; −1 for null, which only `nulls` allows."""
        return np.array(self._column(name, pa.int32(), nulls=nulls).fill_null(-1), dtype=np.int32)

    def floats(self, name: str) -> Floats:
        """float64[N]; NaN for null."""
        return np.array(self._column(name, pa.float64(), nulls=True).fill_null(np.nan), dtype=np.float64)

    def ascii(self, name: str) -> NDArray[np.bytes_]:
        """S64[N]."""
        return np.array(self._column(name, pa.binary(), nulls=False), dtype="S64")

    def _read(self, name: str, *, nulls: bool) -> pa.ChunkedArray:
        names = self.file.schema_arrow.names
        if name not in names:
            raise damaged(self.path, f"there is no column {name}; it has {', '.join(names) or 'none at all'}")
        try:
            column = self.file.read([name]).column(name)
        except (pa.ArrowException, OSError) as error:
            raise _no_parquet(self.path, error) from error
        if column.null_count and not nulls:
            raise damaged(self.path, f"the column {name} has {column.null_count} nulls")
        return column

    def _column(self, name: str, kind: pa.DataType, *, nulls: bool) -> pa.ChunkedArray:
        try:
            return self._read(name, nulls=nulls).cast(kind)
        except pa.ArrowException as error:
            raise damaged(self.path, f"the column {name} is not {kind} ({error})") from error


def read_table(
    path: Path, kind: type[M], *, newest: int = VERSION, upgrade: Callable[[bytes], bytes] | None = None
) -> Table[M]:
    """A table whose metadata is a `kind`. upgrade: what an older version becomes.

    Raises: RunFolderError for a file that is missing, damaged or newer than `newest`.
    """
    if not path.is_file():
        raise missing(path)
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise _no_parquet(path, error) from error
    return Table(path, file, _said(path, file.schema_arrow, kind, newest, upgrade))


def read_said(path: Path, kind: type[M]) -> M:
    """The metadata alone. Raises: as `read_table`."""
    if not path.is_file():
        raise missing(path)
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise _no_parquet(path, error) from error
    return _said(path, schema, kind, VERSION, None)


def _said(path: Path, schema: pa.Schema, kind: type[M], newest: int, upgrade: Callable[[bytes], bytes] | None) -> M:
    said = (schema.metadata or {}).get(_KEY)
    if said is None:
        raise damaged(path, "its metadata says nothing under 'youden'")
    return parse(path, said if upgrade is None else upgrade(said), TypeAdapter(kind), newest=newest)


def _no_parquet(path: Path, error: Exception) -> RunFolderError:
    return damaged(path, f"it is no whole Parquet file ({error})")
