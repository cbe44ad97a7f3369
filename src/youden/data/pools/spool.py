"""Texts while a pool is read: in memory as long as they are few, then in a file of their own."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, cast
from weakref import finalize

import numpy as np

from youden.errors import PoolError
from youden.nouns.arrays import Objects, Positions
from youden.nouns.texts import SEPARATOR, TextsInFile

MOST_IN_MEMORY = 200_000_000
"""Bytes of all texts together. Those of a larger pool go into a file among the machine's temporary ones, which has no name and is
gone with the process."""

BUFFER = 2**20

_READS_ANYWHERE = hasattr(os, "pread")


class Spool:
    """Texts in the order in which they are read. Raises: PoolError [pool-room] where there is no room for their file."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._file: BinaryIO | None = None
        self._n_bytes = array("q")
        self._lengths = array("q")

    def __len__(self) -> int:
        return len(self._n_bytes)

    def append(self, text: str) -> None:
        data = text.encode()
        self._n_bytes.append(len(data))
        self._lengths.append(len(text))
        self._hold(data)

    def extend(self, joined: bytes | memoryview, *, n_bytes: Positions, lengths: Positions) -> None:
        """Some texts with SEPARATOR between them, and the bytes and the characters of each."""
        self._n_bytes.frombytes(n_bytes.tobytes())
        self._lengths.frombytes(lengths.tobytes())
        self._hold(joined)

    def at(self, cells: Positions, shape: tuple[int, int]) -> Objects:
        """object of this shape: the texts at these cells, counted row by row; None elsewhere."""
        n_bytes = np.frombuffer(self._n_bytes, dtype=np.int64)
        starts = np.cumsum(n_bytes + len(SEPARATOR)) - n_bytes - len(SEPARATOR)
        if self._file is None:
            bounds = zip(starts.tolist(), (starts + n_bytes).tolist(), strict=True)
            texts = np.full(shape, None, dtype=np.object_)
            texts.ravel()[cells] = [self._held[start:end].decode() for start, end in bounds]
            return texts
        with _room():
            self._file.flush()
        lengths = np.frombuffer(self._lengths, dtype=np.int64)
        in_file = TextsInFile(
            self._file,
            start=_placed(starts, cells, shape, elsewhere=-1),
            n_bytes=_placed(n_bytes, cells, shape, elsewhere=0),
            lengths=_placed(lengths, cells, shape, elsewhere=0),
        )
        return cast(Objects, in_file)  # which is looked at as an array of objects is

    def _hold(self, data: bytes | memoryview) -> None:
        if self._file is not None:
            with _room():
                self._file.write(data)
                self._file.write(SEPARATOR)
            return
        self._held += data
        self._held += SEPARATOR
        if len(self._held) > MOST_IN_MEMORY and _READS_ANYWHERE:
            with _room():
                self._file = _nameless()
                finalize(self, _close, self._file)
                self._file.write(self._held)
            self._held.clear()


def _nameless() -> BinaryIO:
    return cast(BinaryIO, tempfile.TemporaryFile(buffering=BUFFER))


def _close(file: BinaryIO) -> None:
    with suppress(OSError):  # of what there was no room for
        file.close()


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PoolError(
            f"The texts of this pool are more than {MOST_IN_MEMORY // 10**6} MB, and there is no room for a copy of them in "
            f"{tempfile.gettempdir()} ({error.strerror}). Make room there, or name another folder in the environment's TMPDIR.",
            slug="pool-room",
        ) from error


def _placed(values: Positions, cells: Positions, shape: tuple[int, int], *, elsewhere: int) -> Positions:
    placed = np.full(shape, elsewhere, dtype=np.int64)
    placed.ravel()[cells] = values
    return placed
