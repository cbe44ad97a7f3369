"""The texts of a large pool, in a file instead of in memory: read as they are looked at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, BinaryIO
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from youden.nouns.arrays import Bools, Objects, Positions, freeze


class TextsInFile:
    """Stands where object[K, J] of `str` and None stands, and is looked at in the same way: by cell, by row, by any index.

    What is looked at is in memory, and no more: a cell, a row, or all of it where it is made an array. Nobody can write to it.

    file: the texts in UTF-8, SEPARATOR behind each, held open as long as this is; start, n_bytes: int64[K, J], where each stands
    in it and how long it is, −1 and 0 for no text; lengths: int64[K, J], characters, 0 for no text.
    """

    def __init__(self, file: BinaryIO, *, start: Positions, n_bytes: Positions, lengths: Positions) -> None:
        self._file = os.dup(file.fileno())
        finalize(self, os.close, self._file)
        self._start = start
        self._n_bytes = n_bytes
        self.lengths = lengths
        freeze([start, n_bytes, lengths])

    @property
    def shape(self) -> tuple[int, ...]:
        return self._start.shape

    @property
    def size(self) -> int:
        return self._start.size

    @property
    def present(self) -> Bools:
        return np.asarray(self._start >= 0)

    def item(self, agent: int, item: int) -> str | None:
        start = self._start.item(agent, item)
        return None if start < 0 else os.pread(self._file, self._n_bytes.item(agent, item), start).decode()

    def joined(self, agent: int) -> bytes | None:
        """An agent's texts in UTF-8, SEPARATOR between them; None where one is missing, where they do not stand in the order of
        items, and where they are too many to be looked at at once."""
        start, n_bytes = self._start[agent], self._n_bytes[agent]
        begin, end = int(start[0]), int(start[-1] + n_bytes[-1])
        if begin < 0 or end - begin > MOST_JOINED or (start[1:] != start[:-1] + n_bytes[:-1] + len(SEPARATOR)).any():
            return None
        return os.pread(self._file, end - begin, begin)

    def __len__(self) -> int:
        return len(self._start)

    def __iter__(self) -> Iterator[Objects]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple) and len(index) == 2 and all(isinstance(one, int | np.integer) for one in index):
            return self.item(*index)
        return self._of(self._start[index], self._n_bytes[index])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Objects:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return np.asarray, (np.asarray(self),)

    def transpose(self) -> Objects:
        """object[J, K], in memory."""
        return self.copy().T

    T = property(transpose)

    @property
    def flat(self) -> Iterator[str | None]:
        return (text for row in self for text in row)

    def ravel(self) -> Objects:
        """object[K·J], in memory."""
        return self.copy().ravel()

    def copy(self) -> Objects:
        """object[K, J], in memory, which can be written to."""
        return self._of(self._start, self._n_bytes)

    def _of(self, start: Positions, n_bytes: Positions) -> Objects:
        """The texts that stand there; what stands together is read at once."""
        found: NDArray[np.object_] = np.full(start.size, None, dtype=object)
        order = np.argsort(start, axis=None, kind="stable")[np.count_nonzero(start < 0) :]
        begins, ends = start.ravel()[order], (start + n_bytes).ravel()[order]
        gaps = begins[1:] - ends[:-1]
        apart = np.flatnonzero((gaps != len(SEPARATOR)) | (begins[1:] // PIECE != begins[:-1] // PIECE)) + 1
        begin, end = begins.tolist(), ends.tolist()
        texts: list[str] = []
        for first, stop in pairwise([0, *apart.tolist(), len(begin)] if begin else []):
            low = begin[first]
            data = os.pread(self._file, end[stop - 1] - low, low)
            bounds = zip(begin[first:stop], end[first:stop], strict=True)
            if data.isascii():
                whole = data.decode("ascii")
                texts += [whole[a - low : z - low] for a, z in bounds]
            else:
                texts += [data[a - low : z - low].decode() for a, z in bounds]
        found[order] = texts
        return found.reshape(start.shape)


def in_file(texts: object) -> TextsInFile | None:
    """A pool's texts where they are in a file; None where they are in memory."""
    return texts if isinstance(texts, TextsInFile) else None


SEPARATOR = b"\x7f"
"""Stands behind each text in a file, and orjson leaves it as it is. No text is told by it: one may hold it too."""
PIECE = 2**24
"""Bytes that are read at once, about."""
MOST_JOINED = 2 * PIECE
