"""Decompress files a chunk at a time, and refuse a file that decompresses to far more than its size.

A small file can repeat one text a million times. A file may therefore decompress to `BASE_BYTES` plus `MAX_RATIO` times its own
size; an environment variable raises this limit for files that the user trusts.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from youden.errors import ConfigError, InputError

BASE_BYTES, MAX_RATIO = 1_000_000_000, 20
VARIABLE = "YOUDEN_MAX_UNPACKED_GB"
"""Environment variable that replaces the limit, in GB."""
CHUNK_BYTES = 2**25
"""Approximate number of bytes of rows that are decompressed together; a chunk has at least one row."""


class UnpackLimit:
    """Counter of the bytes that are decompressed from a file; it raises an error above a limit.

    Parameters
    ----------
    path : Path
        The compressed file. The environment variable YOUDEN_MAX_UNPACKED_GB replaces the limit.

    Attributes
    ----------
    remaining : int
        Number of bytes that may still be decompressed.

    Raises
    ------
    ConfigError
        [unpacked-limit]: if the variable is not a number.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = path.stat().st_size
        self._limit = self._compute_limit(os.environ.get(VARIABLE, ""))
        self.remaining = self._limit

    def add(self, n_bytes: int) -> None:
        """Count bytes that were or will be decompressed.

        Raises
        ------
        InputError
            [unpacked-too-large]: if the limit is exceeded.
        """
        self.remaining -= n_bytes
        if self.remaining < 0:
            raise InputError(
                f"{self._path} has {self._size:,} bytes and unpacks to more than {self._limit / 1e9:.3g} GB. If the file "
                f"is trustworthy, set the environment variable {VARIABLE} to a larger number of GB.",
                slug="unpacked-too-large",
            )

    def _compute_limit(self, text: str) -> int:
        """Return the maximum size of the decompressed file in bytes.

        text : limit in GB that the user set in the environment variable `VARIABLE`. If it is empty, the limit is `BASE_BYTES`
            plus `MAX_RATIO` times the size of the compressed file.

        Raises: ConfigError [unpacked-limit] if `text` is not a number.
        """
        if not text:
            return BASE_BYTES + MAX_RATIO * self._size
        try:
            return int(float(text) * 1e9)
        except (ValueError, OverflowError):
            raise ConfigError(
                f"{VARIABLE} is not a number: got {text!r}. Set it to the GB that one file may unpack to, such as 8.",
                slug="unpacked-limit",
            ) from None


def open_parquet(source: Path | BinaryIO) -> pq.ParquetFile:
    """Open a Parquet file so that each distinct text is in memory only once.

    Parameters
    ----------
    source : Path or binary file
        The file.

    Returns
    -------
    pyarrow.parquet.ParquetFile
        The open file. Its text columns are dictionary-encoded; read the rows with `iter_unpacked`, which decodes them.

    Raises
    ------
    ArrowException, OSError
        If the file cannot be read.
    """
    schema = pq.read_schema(source)
    text_columns = [field.name for field in schema if _is_text(field.type)]
    # a pre-buffer would hold the whole file in memory
    return pq.ParquetFile(source, read_dictionary=text_columns, pre_buffer=False)


def iter_unpacked(batches: Iterable[pa.RecordBatch], path: Path) -> Iterator[pa.RecordBatch]:
    """Decompress the rows of a table in chunks of about 32 MiB (`CHUNK_BYTES`).

    Parameters
    ----------
    batches : iterable of RecordBatch
        Rows of the file, with dictionary-encoded texts.
    path : Path
        The file. The larger it is, the more bytes its rows may have; see `UnpackLimit`.

    Yields
    ------
    RecordBatch
        The same rows in the same order, without dictionaries.

    Raises
    ------
    InputError
        [unpacked-too-large]: if the rows are far larger than the file.
    """
    limit = UnpackLimit(path)
    for batch in batches:
        row_sizes = np.zeros(len(batch), dtype=np.int64)
        for column in batch.columns:
            row_sizes += _compute_row_sizes(column)
        for first_row, n_rows, n_bytes in _split_into_chunks(row_sizes):
            limit.add(n_bytes)
            chunk = batch.slice(first_row, n_rows)
            columns = [_decode(column) for column in chunk.columns]
            yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _split_into_chunks(row_sizes: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Divide the rows of a table into consecutive chunks whose decompressed size is about `CHUNK_BYTES`.

    The rows of a chunk are decompressed together. A row that is larger than `CHUNK_BYTES` forms a separate chunk.

    row_sizes : int64 array (n_rows,), number of bytes of each row after decompression

    Yields the position of the first row, the number of rows, and the number of bytes of each chunk.
    """
    end_bytes = np.cumsum(row_sizes)
    start = start_byte = 0
    while start < len(row_sizes):
        # `end_bytes` is cumulative, so the chunk may extend to CHUNK_BYTES after the end of the previous chunk
        end_by_size = int(np.searchsorted(end_bytes, start_byte + CHUNK_BYTES, side="right"))
        end = max(start + 1, end_by_size)  # at least one row
        end_byte = int(end_bytes[end - 1])

        yield start, end - start, end_byte - start_byte
        start, start_byte = end, end_byte


def inflate(raw: bytes, limit: UnpackLimit) -> bytes:
    """Decompress a raw DEFLATE stream.

    Parameters
    ----------
    raw : bytes
        The stream, without header.
    limit : UnpackLimit
        Counter of the decompressed bytes of the file. It raises the error below if there are too many.

    Returns
    -------
    bytes
        The decompressed content.

    Raises
    ------
    InputError
        [unpacked-too-large]: if the limit is exceeded.
    zlib.error
        If the stream is damaged.
    """
    content = zlib.decompressobj(wbits=-15).decompress(raw, limit.remaining + 1)
    limit.add(len(content))
    return content


def _is_text(type_: pa.DataType) -> bool:
    """Return whether a column of this type holds texts or bytes of variable length."""
    predicates = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(is_type(type_) for is_type in predicates)


def _compute_row_sizes(column: pa.Array) -> NDArray[np.int64]:
    """Return the decompressed size of each row in bytes, int64 array (n_rows,).

    The sizes of texts, with or without dictionary encoding, are exact. Each row of another column gets the mean size of a row.
    """
    if _is_text(column.type):
        return _compute_text_sizes(column)

    if pa.types.is_dictionary(column.type) and _is_text(column.type.value_type):
        # null has no entry in the dictionary, so a last entry of size 0 is added
        sizes = np.append(_compute_text_sizes(column.dictionary), 0)
        null_index = len(sizes) - 1
        indices = column.indices.fill_null(null_index) if column.null_count else column.indices
        row_sizes: NDArray[np.int64] = sizes[np.asarray(indices)]
        return row_sizes

    n_rows = len(column)
    mean_size = column.nbytes // max(n_rows, 1)
    return np.full(n_rows, mean_size, dtype=np.int64)


def _compute_text_sizes(column: pa.Array) -> NDArray[np.int64]:
    """Return the size of each text in bytes, int64 array (n_rows,).

    The sizes are differences of offsets, because importing `pyarrow.compute` takes as long as reading a small table.
    """
    is_large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    offsets = np.frombuffer(column.buffers()[1] or b"", dtype=np.int64 if is_large else np.int32)
    return np.diff(offsets[column.offset : column.offset + len(column) + 1]).astype(np.int64)


def _decode(column: pa.Array) -> pa.Array:
    """Replace the indices of a dictionary column by their values; return any other column unchanged."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
