"""Texts of a large pool that stay in a file and are read on access."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, BinaryIO
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

SEPARATOR = b"\x7f"
"""Byte after each text in a file. orjson does not escape it. A text may contain it, so it does not delimit texts."""
CHUNK_BYTES = 2**24
"""Approximate size of one read."""
MAX_JOINED_BYTES = 2 * CHUNK_BYTES


class TextsInFile:
    """Texts of the responses in a file, to be used like a read-only object array (n_agents, n_items) of `str` and None.

    Indexing reads only the selected texts into memory: one text, one row or several rows. Converting the object to an
    array reads all texts.
    """

    def __init__(
        self, file: BinaryIO, *, start: NDArray[np.int64], n_bytes: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> None:
        """Wrap an open file.

        Parameters
        ----------
        file : binary file
            Texts in UTF-8, each followed by `SEPARATOR`. The file stays open until this object is garbage-collected.
        start, n_bytes : int64 array (n_agents, n_items)
            Position of the first byte of each text, and number of its bytes; −1 and 0 for a missing text.
        lengths : int64 array (n_agents, n_items)
            Number of characters of each text; 0 if there is none.
        """
        self._file = os.dup(file.fileno())
        finalize(self, os.close, self._file)
        self._start = start
        self._n_bytes = n_bytes
        self.lengths = lengths
        for array in (start, n_bytes, lengths):
            array.setflags(write=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of agents and of items."""
        return self._start.shape

    @property
    def size(self) -> int:
        """Number of cells."""
        return self._start.size

    @property
    def present(self) -> NDArray[np.bool_]:
        """Whether there is a text: bool array (n_agents, n_items)."""
        return np.asarray(self._start >= 0)

    def item(self, agent: int, item: int) -> str | None:
        """Read the response of the agent at row `agent` to the item at column `item`; None if there is none."""
        start = self._start.item(agent, item)
        if start < 0:
            return None
        n_bytes = self._n_bytes.item(agent, item)
        return os.pread(self._file, n_bytes, start).decode()

    def rows(self, rows: slice) -> TextsInFile:
        """Select rows without reading their texts."""
        with os.fdopen(os.dup(self._file), "rb") as file:
            return TextsInFile(file, start=self._start[rows], n_bytes=self._n_bytes[rows], lengths=self.lengths[rows])

    def with_rows(self, below: TextsInFile) -> TextsInFile:
        """Append the rows of `below`, whose texts must be in the same file, without reading them."""
        start = np.concatenate([self._start, below._start])
        n_bytes = np.concatenate([self._n_bytes, below._n_bytes])
        lengths = np.concatenate([self.lengths, below.lengths])
        with os.fdopen(os.dup(self._file), "rb") as file:
            return TextsInFile(file, start=start, n_bytes=n_bytes, lengths=lengths)

    def read_joined_row(self, agent: int) -> bytes | None:
        """Read all texts of an agent at once, without dividing them into texts.

        Parameters
        ----------
        agent : int
            Row of the agent.

        Returns
        -------
        bytes or None
            The texts in UTF-8, with `SEPARATOR` between them. None if a text is missing, if the texts are not next to each other
            in the order of the items, or if they are longer than `MAX_JOINED_BYTES` together.
        """
        start = self._start[agent]
        n_bytes = self._n_bytes[agent]
        has_all_texts = (start >= 0).all()
        next_start = start + n_bytes + len(SEPARATOR)
        is_contiguous = (start[1:] == next_start[:-1]).all()

        row_start = int(start[0])
        row_end = int(start[-1] + n_bytes[-1])
        n_row_bytes = row_end - row_start
        if not has_all_texts or not is_contiguous or n_row_bytes > MAX_JOINED_BYTES:
            return None
        return os.pread(self._file, n_row_bytes, row_start)

    def __len__(self) -> int:
        return len(self._start)

    def __iter__(self) -> Iterator[NDArray[np.object_]]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple) and len(index) == 2:
            row, column = index
            if isinstance(row, int | np.integer) and isinstance(column, int | np.integer):
                return self.item(int(row), int(column))
        return self._read_texts(self._start[index], self._n_bytes[index])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[np.object_]:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return np.asarray, (np.asarray(self),)

    def transpose(self) -> NDArray[np.object_]:
        """Read all texts into a new object array (n_items, n_agents)."""
        return self.copy().T

    T = property(transpose)

    @property
    def flat(self) -> Iterator[str | None]:
        """Iterator over all texts, row by row."""
        return (text for row in self for text in row)

    def ravel(self) -> NDArray[np.object_]:
        """Read all texts into a new object array (n_agents · n_items,)."""
        return self.copy().ravel()

    def copy(self) -> NDArray[np.object_]:
        """Read all texts into a new, writable object array (n_agents, n_items)."""
        return self._read_texts(self._start, self._n_bytes)

    def _read_texts(self, start: NDArray[np.int64], n_bytes: NDArray[np.int64]) -> NDArray[np.object_]:
        """Read texts from the file, given the position and the size of each text. Adjacent texts are read together.

        start : int64 array, position of the first byte of each text, −1 for no text
        n_bytes : int64 array of the same shape, number of bytes of each text

        Returns an object array of this shape, with None for no text.
        """
        flat_texts: NDArray[np.object_] = np.full(start.size, None, dtype=object)
        flat_start = start.ravel()

        # indexes of the texts in the order of the file; missing texts, which start at −1, come first and are left out
        n_missing = np.count_nonzero(flat_start < 0)
        in_order_of_file = np.argsort(flat_start, kind="stable")[n_missing:]
        if not len(in_order_of_file):
            return flat_texts.reshape(start.shape)

        starts = flat_start[in_order_of_file]
        ends = starts + n_bytes.ravel()[in_order_of_file]
        texts: list[str] = []
        for first_text, next_chunk in pairwise(_find_chunk_bounds(starts, ends)):
            chunk = slice(first_text, next_chunk)
            texts += self._read_chunk(starts[chunk].tolist(), ends[chunk].tolist())
        flat_texts[in_order_of_file] = texts
        return flat_texts.reshape(start.shape)

    def _read_chunk(self, starts: list[int], ends: list[int]) -> list[str]:
        """Read adjacent texts at once.

        starts, ends : position in the file of the first byte of each text, and of the byte after its last one, in ascending
            order
        """
        offset = starts[0]
        data = os.pread(self._file, ends[-1] - offset, offset)
        bounds = [(start - offset, end - offset) for start, end in zip(starts, ends, strict=True)]
        if data.isascii():
            # decoding all texts at once is faster; bytes and characters have the same positions
            decoded = data.decode("ascii")
            return [decoded[start:end] for start, end in bounds]
        return [data[start:end].decode() for start, end in bounds]


def _find_chunk_bounds(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> list[int]:
    """Divide texts in a file into chunks that can be read at once.

    The texts of a chunk follow each other in the file, with only a separator between them. The file is divided into parts of
    `CHUNK_BYTES` bytes, and all texts of a chunk start in the same part.

    starts, ends : int64 array (n_texts,), positions in the file of the first byte of each text, and of the byte after its last
        byte, in ascending order

    Returns the number of the first text of each chunk, and n_texts at the end.
    """
    # a text begins a new chunk if it follows a gap, or if it starts in a new part of the file
    follows_gap = starts[1:] - ends[:-1] != len(SEPARATOR)
    part_of_file = starts // CHUNK_BYTES
    is_in_other_part = part_of_file[1:] != part_of_file[:-1]
    later_chunks = np.flatnonzero(follows_gap | is_in_other_part) + 1
    return [0, *later_chunks.tolist(), len(starts)]


def find_file_texts(texts: object) -> TextsInFile | None:
    """Return the texts of a pool if they are in a file; None if they are in memory."""
    return texts if isinstance(texts, TextsInFile) else None
