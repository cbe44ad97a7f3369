"""A pool: agents, items and the text of each cell. Those of a large pool stay in a file and are read as they are looked at.

Names for arrays stand here too, the one way to make an array read-only, and NaN as files write it.
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
    """Set every array's write flag to false."""
    for array in arrays:
        if array is not None:
            array.setflags(write=False)


class ReadOnly:
    """A dataclass whose arrays nobody can write to: each is frozen once the object is made."""

    def __post_init__(self) -> None:
        freeze(value for value in vars(self).values() if isinstance(value, np.ndarray))


def or_none(value: float) -> float | None:
    """NaN as None, which JSON has a word for."""
    return None if np.isnan(value) else float(value)


def plain_fields(row: object) -> dict[str, Json]:
    """Return an object's attributes by name, as `plain` has them."""
    return {name: plain(value) for name, value in vars(row).items()}


def plain(value: object) -> Json:
    """Convert objects (to their attributes), mappings, lists and tuples to JSON values, NaN to None."""
    if hasattr(value, "__dict__"):
        return plain_fields(value)
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and np.isnan(value) else cast(Json, value)


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

    def rows(self, rows: slice) -> TextsInFile:
        """Some rows, in the same file."""
        with os.fdopen(os.dup(self._file), "rb") as file:
            return TextsInFile(file, start=self._start[rows], n_bytes=self._n_bytes[rows], lengths=self.lengths[rows])

    def with_rows(self, more: TextsInFile) -> TextsInFile:
        """And behind them those of `more`, of the same file."""
        columns = ((self._start, more._start), (self._n_bytes, more._n_bytes), (self.lengths, more.lengths))
        start, n_bytes, lengths = (np.concatenate(column) for column in columns)
        with os.fdopen(os.dup(self._file), "rb") as file:
            return TextsInFile(file, start=start, n_bytes=n_bytes, lengths=lengths)

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


Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True)
class Agent:
    """An agent: who responds."""

    id: str
    """Unique name."""
    group: str | None = None
    """Group that it is displayed with; never used in a fit."""
    meta: Mapping[str, Json] = field(default_factory=dict)
    """Anything else that is known about it."""


@dataclass(frozen=True)
class Item:
    """An item: what agents respond to."""

    id: str
    """Unique name."""
    prompt: str | None = None
    """Prompt or source text; None if unknown."""
    meta: Mapping[str, Json] = field(default_factory=dict)
    """Anything else that is known about it."""


@dataclass(frozen=True, eq=False)
class Pool(ReadOnly):
    """Responses of agents to items.

    Raises: PoolError [pool-shape] if the texts do not fit the agents and items.
    """

    agents: tuple[Agent, ...]
    """Agents, by row."""
    items: tuple[Item, ...]
    """Items, by column."""
    texts: Objects
    """object (n_agents, n_items), each a `str` (an empty text is a response) or None if there is no response. Texts of a
    large pool stay in a file and are read on access (`TextsInFile`).
    """
    name: str = "pool"
    """Name of its file or folder."""
    further: Objects | None = None
    """object ((R − 1) · n_agents, n_items) if agents responded up to R times to an item: all second responses, agent by
    agent, then all third ones, …; a cell has no later response without the earlier ones. None if no agent has several.
    """

    def __post_init__(self) -> None:
        shape = (self.n_agents, self.n_items)
        if self.texts.shape != shape:
            raise PoolError(
                f"The texts do not fit the pool: got the shape {self.texts.shape} for {shape[0]} agents and {shape[1]} items. "
                "Pass one row per agent and one column per item.",
                slug="pool-shape",
            )
        if self.further is not None and (self.further.shape[1] != shape[1] or len(self.further) % max(shape[0], 1)):
            raise PoolError(
                f"The further texts do not fit the pool: got the shape {self.further.shape} for {shape[0]} agents and "
                f"{shape[1]} items. Pass one row per agent for each further response.",
                slug="pool-shape",
            )
        super().__post_init__()

    def __repr__(self) -> str:
        repeats = f", up to {self.repeats} responses each" if self.repeats > 1 else ""
        return f"Pool({self.name!r}: {self.n_agents:,} agents × {self.n_items:,} items, {self.n_missing:,} missing{repeats})"

    @property
    def n_agents(self) -> int:
        return len(self.agents)

    @property
    def n_items(self) -> int:
        return len(self.items)

    @cached_property
    def present(self) -> Bools:
        """bool[K, J]: whether the agent responded to the item."""
        return _present(self.texts)

    @cached_property
    def lengths(self) -> Positions:
        """int64[K, J]: characters of each response, 0 where there is none."""
        return _lengths(self.texts)

    @property
    def repeats(self) -> int:
        """R: the most responses of one agent to one item."""
        return 1 if self.further is None else 1 + len(self.further) // self.n_agents

    @cached_property
    def n_repeats(self) -> Ids:
        """int32[K, J]: how many responses the agent gave to the item."""
        return np.asarray(self.every_present.reshape(self.repeats, *self.present.shape).sum(axis=0), dtype=np.int32)

    @cached_property
    def every(self) -> Objects:
        """object[R·K, J]: first responses, agent by agent, then second ones, …; where nobody has several, `texts` itself."""
        if self.further is None:
            return self.texts
        one, more = in_file(self.texts), in_file(self.further)
        return (
            np.concatenate([self.texts, self.further])
            if one is None or more is None
            else cast(Any, one.with_rows(more))
        )

    @property
    def blocks(self) -> list[Objects]:
        """object[K, J] each: first responses, second ones, …; R of them."""
        return [self.every[start : start + self.n_agents] for start in range(0, len(self.every), self.n_agents)]

    @classmethod
    def of_blocks(
        cls, agents: tuple[Agent, ...], items: tuple[Item, ...], blocks: Sequence[Objects], name: str
    ) -> Pool:
        """A pool of first responses, second ones, …; object[K, J] each."""
        return cls(agents, items, blocks[0], name, np.concatenate(blocks[1:]) if len(blocks) > 1 else None)

    def with_agents(self, agents: Sequence[Agent], blocks: Sequence[Objects]) -> Pool:
        """And others behind its own. blocks: their first responses, second ones, …; object[k, J] each, in memory."""
        none = [np.full((n, self.n_items), None, dtype=object) for n in (self.n_agents, len(agents))]
        pairs = zip_longest(self.blocks, blocks)
        both = [
            np.concatenate([none[0] if own is None else own, none[1] if new is None else new]) for own, new in pairs
        ]
        return Pool.of_blocks((*self.agents, *agents), self.items, both, self.name)

    def with_items(self, items: Sequence[Item], blocks: Sequence[Objects]) -> Pool:
        """And others behind its own. blocks: responses to them, as `with_agents` takes them; object[K, j] each."""
        none = [np.full((self.n_agents, n), None, dtype=object) for n in (self.n_items, len(items))]
        pairs = zip_longest(self.blocks, blocks)
        both = [np.hstack([none[0] if own is None else own, none[1] if new is None else new]) for own, new in pairs]
        return Pool.of_blocks(self.agents, (*self.items, *items), both, self.name)

    @cached_property
    def every_present(self) -> Bools:
        """bool[R·K, J]: which of them there are."""
        return self.present if self.further is None else np.concatenate([self.present, _present(self.further)])

    @cached_property
    def every_length(self) -> Positions:
        """int64[R·K, J]: their characters, 0 where there is none."""
        return self.lengths if self.further is None else np.concatenate([self.lengths, _lengths(self.further)])

    @property
    def n_responses(self) -> int:
        """How many responses there are, repeats among them."""
        return int(self.every_present.sum())

    @property
    def n_missing(self) -> int:
        """How many of the K·J cells have no response."""
        return int(self.present.size - self.present.sum())

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) over ids, prompts and texts in their order, repeats behind the first ones; groups and metadata change no
        number, so stay out."""
        hasher = hashlib.sha256()
        heads = ([agent.id for agent in self.agents], [[item.id, item.prompt] for item in self.items])
        for line in chain(
            map(_in_ascii, heads), (self._row_in_ascii(row) for row in range(self.repeats * self.n_agents))
        ):
            hasher.update(line)
            hasher.update(b"\n")
        return hasher.hexdigest()

    def _row_in_ascii(self, row: int) -> bytes:
        """A row of `every` as `_in_ascii` has it: out of a file as one text, which is cut where texts end."""
        kept = in_file(self.every)
        joined = None if kept is None else kept.joined(row)
        if joined is not None and joined.isascii() and joined.count(SEPARATOR) == self.n_items - 1:
            return b"[" + orjson.dumps(joined.decode()).replace(SEPARATOR, b'","') + b"]"
        return _in_ascii(self.every[row].tolist())


def _present(texts: Objects) -> Bools:
    if (kept := in_file(texts)) is not None:
        return kept.present
    return np.array([[text is not None for text in row] for row in texts], dtype=np.bool_).reshape(texts.shape)


def _lengths(texts: Objects) -> Positions:
    if (kept := in_file(texts)) is not None:
        return kept.lengths
    return np.array([[len(text or "") for text in row] for row in texts], dtype=np.int64).reshape(texts.shape)


def _in_ascii(part: object) -> bytes:
    """JSON without blanks in ASCII, its controls escaped; of texts of ASCII without DEL orjson makes the same sooner."""
    with suppress(TypeError):  # half of a surrogate pair
        if (quick := orjson.dumps(part)).isascii() and b"\x7f" not in quick:
            return quick
    return json.dumps(part, ensure_ascii=True, separators=(",", ":")).encode()
