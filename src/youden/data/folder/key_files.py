"""The keys of a run's requests, 32 bytes a trial, in a file beside its plan: made once, so that going on is a look-up.

Such a file is believed where it was made for the very plan, pool and judge and is whole, byte for byte. Everybody else makes the
keys again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from youden.data.folder.parquet_tables import Said, read_table, with_said, write_rows
from youden.data.folder.run_files import damaged

BYTES = 32
"""Of a key: a sha256."""
ROWS = 65_536
"""Keys that are read and written at once: 2 MB."""

_SCHEMA = pa.schema([pa.field("key", pa.binary(BYTES), nullable=False)])


class KeysSaid(Said):
    """What keys were made for, each a sha256 (hex): the plan with its pool, and all of the judge that decides requests."""

    noun: Literal["keys"] = "keys"
    plan_digest: str
    judge_digest: str


def write_keys(path: Path, keys: Iterable[str], said: KeysSaid, *, n: int, cuts: Sequence[int] = ()) -> None:
    """Write `n` keys, in hex, as they come, replacing the file in one step. cuts: rows at which a new part begins; with some,
    `path` becomes a folder of parts."""
    rest = iter(keys)

    def write(part: Path, start: int, stop: int) -> None:
        _write(part, islice(rest, stop - start), said)

    write_rows(path, write, said, n=n, cuts=cuts)


def _write(path: Path, keys: Iterator[str], said: KeysSaid) -> None:
    schema = with_said(_SCHEMA, said)
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False, write_page_checksum=True) as file:
        while text := "".join(islice(keys, ROWS)):
            data = pa.py_buffer(bytes.fromhex(text))
            column = pa.Array.from_buffers(pa.binary(BYTES), data.size // BYTES, [None, data])
            file.write_batch(pa.record_batch([column], schema=schema))


def read_keys(path: Path, said: KeysSaid, *, n: int) -> KeyFile:
    """The `n` keys at `path`. Raises: RunFolderError where they were made for something else, or are not whole."""
    table = read_table(path, KeysSaid)
    if table.said != said:
        raise damaged(path, "it was made for another plan, pool or judge")
    found = KeyFile(path, table.files)
    if sum(len(column) for column in found.columns()) != n:
        raise damaged(path, f"it does not have the {n:,} keys of this plan")
    return found


class KeyFile:
    """Whole keys in the order of the plan's rows, read as they are needed. Raises: RunFolderError where they are not whole."""

    def __init__(self, path: Path, files: Sequence[Path]) -> None:
        self._path = path
        self._files = files

    def chunks(self, start: int = 0) -> Iterator[list[str]]:
        """Keys in hex from row `start` on, several at a time."""
        for column in self.columns(start):
            data = memoryview(column.buffers()[1])[BYTES * column.offset :]
            text = data[: BYTES * len(column)].hex()
            yield [text[at : at + 2 * BYTES] for at in range(0, len(text), 2 * BYTES)]

    def columns(self, start: int = 0) -> Iterator[pa.Array]:
        """Keys from row `start` on as they stand in the file, several at a time."""
        for path in self._files:
            try:
                with closing(pq.ParquetFile(path, memory_map=True, page_checksum_verification=True)) as file:
                    for group in range(file.num_row_groups):
                        n = file.metadata.row_group(group).num_rows
                        if start < n:
                            column = file.read_row_group(group).column("key").cast(pa.binary(BYTES), safe=True)
                            yield column.combine_chunks()[start:]
                        start = max(0, start - n)
            except (pa.ArrowException, OSError, KeyError) as error:
                raise damaged(self._path, f"its keys cannot be read ({error})") from error
