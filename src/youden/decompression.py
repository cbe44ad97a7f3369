"""Reads what other people packed a little at a time, and refuses a file that unpacks to far more than it is.

A small file can hold a text once and repeat it a million times, or pack one that goes on without end. A file may unpack to `MOST`
bytes, and to `TIMES` its own size beyond that; who trusts it says more in the environment, in GB.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from youden.errors import ConfigError, InputError

MOST, TIMES = 1_000_000_000, 20
VARIABLE = "YOUDEN_MOST_UNPACKED"
AT_ONCE = 2**25
"""Bytes of rows that are unpacked at once, about; one row is one, however long."""


class Unpacked:
    """Counts what comes out of the file at `path`. Raises: ConfigError [unpacked-most] for a bound that is no number."""

    def __init__(self, path: Path, *, environment: Mapping[str, str] = os.environ) -> None:
        self._path = path
        self._size = path.stat().st_size
        self._most = self.left = self._bound(environment.get(VARIABLE, ""))

    def add(self, n_bytes: int) -> None:
        """So much came, or is about to. Raises: InputError [unpacked] beyond the bound."""
        self.left -= n_bytes
        if self.left < 0:
            raise InputError(
                f"{self._path} has {self._size:,} bytes and unpacks to more than {self._most / 1e9:.3g} GB. See whether it is "
                f"what it should be; if it is, set {VARIABLE} in the environment to as many GB as it may be.",
                slug="unpacked",
            )

    def _bound(self, said: str) -> int:
        try:
            return int(float(said) * 1e9) if said else MOST + TIMES * self._size
        except (ValueError, OverflowError):
            raise ConfigError(
                f"{VARIABLE} is {said!r}. Give the GB that one file may unpack to, such as 8.", slug="unpacked-most"
            ) from None


def open_parquet(source: Path | BinaryIO) -> pq.ParquetFile:
    """The file, a text that repeats held once. Its rows are read by `unpacked`. Raises: ArrowException, OSError."""
    kinds = pq.read_schema(source)
    texts = [field.name for field in kinds if _is_text(field.type)]
    return pq.ParquetFile(source, read_dictionary=texts, pre_buffer=False)  # which would keep all of the file in memory


def unpacked(batches: Iterable[pa.RecordBatch], path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of `batches`, from the file at `path`, about `AT_ONCE` bytes at a time. Raises: InputError [unpacked]."""
    count = Unpacked(path)
    for batch in batches:
        ends = np.cumsum(sum(map(_sizes, batch.columns), np.zeros(len(batch), dtype=np.int64)))
        start = before = 0
        while start < len(batch):
            end = max(start + 1, int(np.searchsorted(ends, before + AT_ONCE, side="right")))
            count.add(int(ends[end - 1]) - before)
            some = batch.slice(start, end - start)
            yield pa.RecordBatch.from_arrays([*map(_plain, some.columns)], names=batch.schema.names)
            start, before = end, int(ends[end - 1])


def inflated(raw: bytes, count: Unpacked) -> bytes:
    """What a raw DEFLATE stream holds. Raises: InputError [unpacked]; zlib.error."""
    whole = zlib.decompressobj(wbits=-15).decompress(raw, count.left + 1)
    count.add(len(whole))
    return whole


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in tests)


def _sizes(column: pa.Array) -> NDArray[np.int64]:
    """int64[N]: bytes of each row, unpacked."""
    if pa.types.is_dictionary(column.type) and _is_text(column.type.value_type):
        lengths = np.append(_lengths(column.dictionary), 0)
        indices = column.indices.fill_null(len(lengths) - 1) if column.null_count else column.indices
        found: NDArray[np.int64] = lengths[np.asarray(indices)]
        return found
    if _is_text(column.type):
        return _lengths(column)
    return np.full(len(column), column.nbytes // max(len(column), 1), dtype=np.int64)


def _lengths(column: pa.Array) -> NDArray[np.int64]:
    """By their offsets: `pyarrow.compute` loads as long as a small table is read."""
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    offsets = np.frombuffer(column.buffers()[1] or b"", dtype=np.int64 if large else np.int32)
    return np.diff(offsets[column.offset : column.offset + len(column) + 1]).astype(np.int64)


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
