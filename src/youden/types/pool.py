"""A pool: agents, items and the response of each agent to each item.

Texts of a large pool stay in a file and are read on access. The module also defines the array types of the package,
read-only dataclasses, and the conversion of values to JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise, zip_longest
from typing import Any, BinaryIO, cast
from weakref import finalize

import numpy as np
import orjson
from numpy.typing import NDArray

from youden.errors import PoolError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ids = NDArray[np.int32]
Positions = NDArray[np.int64]
Codes = NDArray[np.int8]
Objects = NDArray[np.object_]


def freeze(arrays: Iterable[NDArray[np.generic] | None]) -> None:
    """Make arrays read-only in place; None is skipped."""
    for array in arrays:
        if array is not None:
            array.setflags(write=False)


class ReadOnly:
    """Base of dataclasses with read-only arrays: each array is frozen when the object is created."""

    def __post_init__(self) -> None:
        freeze(value for value in vars(self).values() if isinstance(value, np.ndarray))


def or_none(value: float) -> float | None:
    """Return the value as a float, or None for NaN, which JSON cannot represent."""
    return None if np.isnan(value) else float(value)


def plain_fields(row: object) -> dict[str, Json]:
    """Return the attributes of an object by name, converted to JSON values."""
    return {name: plain(value) for name, value in vars(row).items()}


def plain(value: object) -> Json:
    """Convert a value to JSON: an object to its attributes, a tuple to a list, NaN to None, recursively."""
    if hasattr(value, "__dict__"):
        return plain_fields(value)
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and np.isnan(value) else cast(Json, value)


class TextsInFile:
    """Read-only replacement for an object array (n_agents, n_items) of `str` and None, whose texts stay in a file.

    It is indexed like the array. Only the selected texts are read into memory: a cell, a row, or all of them if it is
    converted to an array.
    """

    def __init__(self, file: BinaryIO, *, start: Positions, n_bytes: Positions, lengths: Positions) -> None:
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
        freeze([start, n_bytes, lengths])

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of agents and of items."""
        return self._start.shape

    @property
    def size(self) -> int:
        """Number of cells."""
        return self._start.size

    @property
    def present(self) -> Bools:
        """Whether there is a text: bool (n_agents, n_items)."""
        return np.asarray(self._start >= 0)

    def item(self, agent: int, item: int) -> str | None:
        """Return the text of one cell; None if there is none."""
        start = self._start.item(agent, item)
        return None if start < 0 else os.pread(self._file, self._n_bytes.item(agent, item), start).decode()

    def rows(self, rows: slice) -> TextsInFile:
        """Return the selected rows, without reading them."""
        with os.fdopen(os.dup(self._file), "rb") as file:
            return TextsInFile(file, start=self._start[rows], n_bytes=self._n_bytes[rows], lengths=self.lengths[rows])

    def with_rows(self, below: TextsInFile) -> TextsInFile:
        """Return these rows, followed by the rows of `below`, which have to be in the same file."""
        start = np.concatenate([self._start, below._start])
        n_bytes = np.concatenate([self._n_bytes, below._n_bytes])
        lengths = np.concatenate([self.lengths, below.lengths])
        with os.fdopen(os.dup(self._file), "rb") as file:
            return TextsInFile(file, start=start, n_bytes=n_bytes, lengths=lengths)

    def joined(self, agent: int) -> bytes | None:
        """Read all texts of an agent at once.

        Parameters
        ----------
        agent : int
            Row of the agent.

        Returns
        -------
        bytes or None
            The texts in UTF-8, with `SEPARATOR` between them. None if a text is missing, if the texts are not
            contiguous in the order of the items, or if they exceed `MAX_JOINED_BYTES`.
        """
        start, n_bytes = self._start[agent], self._n_bytes[agent]
        begin, end = int(start[0]), int(start[-1] + n_bytes[-1])
        is_contiguous = (start[1:] == start[:-1] + n_bytes[:-1] + len(SEPARATOR)).all()
        if begin < 0 or end - begin > MAX_JOINED_BYTES or not is_contiguous:
            return None
        return os.pread(self._file, end - begin, begin)

    def __len__(self) -> int:
        return len(self._start)

    def __iter__(self) -> Iterator[Objects]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple) and len(index) == 2 and all(isinstance(axis, int | np.integer) for axis in index):
            return self.item(*index)
        return self._read(self._start[index], self._n_bytes[index])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Objects:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return np.asarray, (np.asarray(self),)

    def transpose(self) -> Objects:
        """Read all texts into a new object array (n_items, n_agents)."""
        return self.copy().T

    T = property(transpose)

    @property
    def flat(self) -> Iterator[str | None]:
        """Iterator over all texts, row by row."""
        return (text for row in self for text in row)

    def ravel(self) -> Objects:
        """Read all texts into a new object array (n_agents · n_items,)."""
        return self.copy().ravel()

    def copy(self) -> Objects:
        """Read all texts into a new, writable object array (n_agents, n_items)."""
        return self._read(self._start, self._n_bytes)

    def _read(self, start: Positions, n_bytes: Positions) -> Objects:
        """Read texts by position and size, int64 arrays of one shape, into an array of the same shape.

        Adjacent texts are read together.
        """
        array: NDArray[np.object_] = np.full(start.size, None, dtype=object)
        order = np.argsort(start, axis=None, kind="stable")[np.count_nonzero(start < 0) :]
        begins, ends = start.ravel()[order], (start + n_bytes).ravel()[order]

        # A new read starts where texts are not adjacent, and about every CHUNK_BYTES.
        is_gap = begins[1:] - ends[:-1] != len(SEPARATOR)
        is_next_chunk = begins[1:] // CHUNK_BYTES != begins[:-1] // CHUNK_BYTES
        breaks = np.flatnonzero(is_gap | is_next_chunk) + 1

        begin, end = begins.tolist(), ends.tolist()
        texts: list[str] = []
        for first, stop in pairwise([0, *breaks.tolist(), len(begin)] if begin else []):
            offset = begin[first]
            data = os.pread(self._file, end[stop - 1] - offset, offset)
            bounds = zip(begin[first:stop], end[first:stop], strict=True)
            if data.isascii():  # one decoding for all texts
                decoded = data.decode("ascii")
                texts += [decoded[low - offset : high - offset] for low, high in bounds]
            else:
                texts += [data[low - offset : high - offset].decode() for low, high in bounds]
        array[order] = texts
        return array.reshape(start.shape)


def find_file_texts(texts: object) -> TextsInFile | None:
    """Return the texts of a pool if they are in a file; None if they are in memory."""
    return texts if isinstance(texts, TextsInFile) else None


SEPARATOR = b"\x7f"
"""Byte after each text in a file. orjson does not escape it. A text may contain it, so it does not delimit texts."""
CHUNK_BYTES = 2**24
"""Approximate size of one read."""
MAX_JOINED_BYTES = 2 * CHUNK_BYTES


Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True)
class Agent:
    """Agent: a system that responds to items."""

    id: str
    """Unique name."""
    group: str | None = None
    """Group, for display; no estimate depends on it."""
    meta: Mapping[str, Json] = field(default_factory=dict)
    """Other properties."""


@dataclass(frozen=True)
class Item:
    """Item: a task to which agents respond."""

    id: str
    """Unique name."""
    prompt: str | None = None
    """Prompt or source text; None if unknown."""
    meta: Mapping[str, Json] = field(default_factory=dict)
    """Other properties."""


@dataclass(frozen=True, eq=False)
class Pool(ReadOnly):
    """Responses of agents to items.

    Raises
    ------
    PoolError
        [pool-shape]: if the texts do not fit the agents and items.
    """

    agents: tuple[Agent, ...]
    """Agents, by row."""
    items: tuple[Item, ...]
    """Items, by column."""
    texts: Objects
    """object (n_agents, n_items), each a `str` (an empty text is a response) or None if there is no response. Texts of
    a large pool stay in a file and are read on access (`TextsInFile`).
    """
    name: str = "pool"
    """Name of its file or folder."""
    repeat_texts: Objects | None = None
    """object ((repeats − 1) · n_agents, n_items) if agents responded up to `repeats` times to an item: the second
    responses of all agents, then the third responses, and so on. A cell has a later response only if it has all earlier
    ones. None if no agent has several.
    """

    def __post_init__(self) -> None:
        shape = (self.n_agents, self.n_items)
        if self.texts.shape != shape:
            raise PoolError(
                f"The texts do not fit the pool: got the shape {self.texts.shape} for {shape[0]} agents and {shape[1]} items. "
                "Pass one row per agent and one column per item.",
                slug="pool-shape",
            )
        if self.repeat_texts is not None and (
            self.repeat_texts.shape[1] != shape[1] or len(self.repeat_texts) % max(shape[0], 1)
        ):
            raise PoolError(
                f"The further texts do not fit the pool: got the shape {self.repeat_texts.shape} for {shape[0]} agents and "
                f"{shape[1]} items. Pass one row per agent for each further response.",
                slug="pool-shape",
            )
        super().__post_init__()

    def __repr__(self) -> str:
        repeats = f", up to {self.repeats} responses each" if self.repeats > 1 else ""
        return f"Pool({self.name!r}: {self.n_agents:,} agents × {self.n_items:,} items, {self.n_missing:,} missing{repeats})"

    @property
    def n_agents(self) -> int:
        """Number of agents."""
        return len(self.agents)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.items)

    @cached_property
    def present(self) -> Bools:
        """Whether the agent responded to the item: bool (n_agents, n_items)."""
        return _find_present(self.texts)

    @cached_property
    def lengths(self) -> Positions:
        """Number of characters of each first response: int64 (n_agents, n_items); 0 if there is none."""
        return _count_characters(self.texts)

    @property
    def repeats(self) -> int:
        """Maximum number of responses of one agent to one item."""
        return 1 if self.repeat_texts is None else 1 + len(self.repeat_texts) // self.n_agents

    @cached_property
    def n_repeats(self) -> Ids:
        """Number of responses of the agent to the item: int32 (n_agents, n_items)."""
        by_repeat = self.all_present.reshape(self.repeats, *self.present.shape)
        return np.asarray(by_repeat.sum(axis=0), dtype=np.int32)

    @cached_property
    def all_texts(self) -> Objects:
        """First responses of all agents, then second responses, and so on: object (repeats · n_agents, n_items)."""
        if self.repeat_texts is None:
            return self.texts
        first, later = find_file_texts(self.texts), find_file_texts(self.repeat_texts)
        if first is None or later is None:
            return cast(Objects, np.concatenate([self.texts, self.repeat_texts]))
        return cast(Objects, first.with_rows(later))

    @property
    def texts_by_repeat(self) -> list[Objects]:
        """One object array (n_agents, n_items) per repeat: first responses, second responses, and so on."""
        return [self.all_texts[start : start + self.n_agents] for start in range(0, len(self.all_texts), self.n_agents)]

    @classmethod
    def from_repeats(
        cls, agents: tuple[Agent, ...], items: tuple[Item, ...], texts_by_repeat: Sequence[Objects], name: str
    ) -> Pool:
        """Create a pool from one array of texts per repeat.

        Parameters
        ----------
        agents, items : tuple of Agent, tuple of Item
            Agents, by row, and items, by column.
        texts_by_repeat : sequence of object array (n_agents, n_items)
            First responses, second responses, and so on.
        name : str
            Name of the pool.

        Returns
        -------
        Pool
            The pool, with `repeat_texts` if there are several repeats.
        """
        repeat_texts = np.concatenate(texts_by_repeat[1:]) if len(texts_by_repeat) > 1 else None
        return cls(agents, items, texts_by_repeat[0], name, repeat_texts)

    def with_agents(self, agents: Sequence[Agent], texts_by_repeat: Sequence[Objects]) -> Pool:
        """Return this pool with further agents after its own.

        Parameters
        ----------
        agents : sequence of Agent
            New agents.
        texts_by_repeat : sequence of object array (n_new_agents, n_items)
            Their first responses, second responses, and so on, in memory.

        Returns
        -------
        Pool
            The extended pool.
        """
        missing = np.full((self.n_agents, self.n_items), None, dtype=object)
        missing_new = np.full((len(agents), self.n_items), None, dtype=object)
        texts = []
        for old, new in zip_longest(self.texts_by_repeat, texts_by_repeat):
            texts.append(np.concatenate([missing if old is None else old, missing_new if new is None else new]))
        return Pool.from_repeats((*self.agents, *agents), self.items, texts, self.name)

    def with_items(self, items: Sequence[Item], texts_by_repeat: Sequence[Objects]) -> Pool:
        """Return this pool with further items after its own.

        Parameters
        ----------
        items : sequence of Item
            New items.
        texts_by_repeat : sequence of object array (n_agents, n_new_items)
            First responses of all agents to them, second responses, and so on, in memory.

        Returns
        -------
        Pool
            The extended pool.
        """
        missing = np.full((self.n_agents, self.n_items), None, dtype=object)
        missing_new = np.full((self.n_agents, len(items)), None, dtype=object)
        texts = []
        for old, new in zip_longest(self.texts_by_repeat, texts_by_repeat):
            texts.append(np.hstack([missing if old is None else old, missing_new if new is None else new]))
        return Pool.from_repeats(self.agents, (*self.items, *items), texts, self.name)

    @cached_property
    def all_present(self) -> Bools:
        """Whether each text of `all_texts` exists: bool (repeats · n_agents, n_items)."""
        return (
            self.present
            if self.repeat_texts is None
            else np.concatenate([self.present, _find_present(self.repeat_texts)])
        )

    @cached_property
    def all_lengths(self) -> Positions:
        """Number of characters of each text of `all_texts`: int64 (repeats · n_agents, n_items); 0 if there is none."""
        return (
            self.lengths
            if self.repeat_texts is None
            else np.concatenate([self.lengths, _count_characters(self.repeat_texts)])
        )

    @property
    def n_responses(self) -> int:
        """Number of responses, repeats included."""
        return int(self.all_present.sum())

    @property
    def n_missing(self) -> int:
        """Number of cells without a response."""
        return int(self.present.size - self.present.sum())

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hexadecimal) of ids, prompts and texts. Groups and metadata change no number and are left out."""
        headers = ([agent.id for agent in self.agents], [[item.id, item.prompt] for item in self.items])
        rows = (self._encode_row(row) for row in range(self.repeats * self.n_agents))
        hasher = hashlib.sha256()
        for line in chain(map(_to_ascii_json, headers), rows):
            hasher.update(line)
            hasher.update(b"\n")
        return hasher.hexdigest()

    def _encode_row(self, row: int) -> bytes:
        """Encode a row of `all_texts` as ASCII JSON; ASCII texts in a file are read and encoded as one text."""
        texts = find_file_texts(self.all_texts)
        joined = None if texts is None else texts.joined(row)
        if joined is not None and joined.isascii() and joined.count(SEPARATOR) == self.n_items - 1:
            return b"[" + orjson.dumps(joined.decode()).replace(SEPARATOR, b'","') + b"]"
        return _to_ascii_json(self.all_texts[row].tolist())


def _find_present(texts: Objects) -> Bools:
    if (lazy_texts := find_file_texts(texts)) is not None:
        return lazy_texts.present
    return np.array([[text is not None for text in row] for row in texts], dtype=np.bool_).reshape(texts.shape)


def _count_characters(texts: Objects) -> Positions:
    if (lazy_texts := find_file_texts(texts)) is not None:
        return lazy_texts.lengths
    return np.array([[len(text or "") for text in row] for row in texts], dtype=np.int64).reshape(texts.shape)


def _to_ascii_json(value: object) -> bytes:
    """Encode a value as compact ASCII JSON with escaped control characters, by orjson if its output is the same."""
    with suppress(TypeError):  # orjson refuses half of a surrogate pair
        encoded = orjson.dumps(value)
        if encoded.isascii() and b"\x7f" not in encoded:  # json escapes all other characters and DEL
            return encoded
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
