"""A pool: agents, items and the response of each agent to each item.

Texts of a large pool stay in a file and are read on access. The module also defines the array types of the package,
read-only dataclasses, and the conversion of values to JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, zip_longest
from typing import Literal, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from youden.errors import PoolError
from youden.types.texts_in_file import SEPARATOR, find_file_texts

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
    """Base of dataclasses with read-only arrays: each array is frozen when the object is created, copied or unpickled."""

    def __post_init__(self) -> None:
        self._freeze_arrays()

    def __setstate__(self, state: Mapping[str, object]) -> None:
        """Restore a pickled or copied object. Its arrays are frozen because a cached digest would not follow changes to them."""
        self.__dict__.update(state)
        self._freeze_arrays()

    def _freeze_arrays(self) -> None:
        freeze(value for value in vars(self).values() if isinstance(value, np.ndarray))


def or_none(value: float) -> float | None:
    """Return a number as a Python float, or None instead of NaN, which JSON cannot represent."""
    return None if np.isnan(value) else float(value)


def count_distinct(codes: Ids | Positions) -> int:
    """Count the distinct values of an array of integers of at least 0.

    >>> count_distinct(np.array([7, 5, 7]))
    2
    """
    # equal codes are adjacent after sorting; `np.unique` takes seconds for a million codes
    return int(np.count_nonzero(np.diff(np.sort(codes), prepend=-1)))


def plain_fields(row: object) -> dict[str, Json]:
    """Convert the attributes of an object, such as a dataclass, to a JSON object with one key per attribute."""
    return {name: convert_to_json(value) for name, value in vars(row).items()}


def convert_to_json(value: object) -> Json:
    """Convert a value to JSON, with all values inside it.

    An object becomes a mapping of its attributes, a tuple becomes a list, and NaN becomes None.
    """
    if hasattr(value, "__dict__"):
        return plain_fields(value)
    if isinstance(value, Mapping):
        return {name: convert_to_json(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [convert_to_json(inner) for inner in value]
    if isinstance(value, float) and np.isnan(value):
        return None
    return cast(Json, value)


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
        if self.texts.shape != (self.n_agents, self.n_items):
            raise PoolError(
                f"The texts do not fit the pool: got the shape {self.texts.shape} for {self.n_agents} agents and {self.n_items} "
                "items. Pass one row per agent and one column per item.",
                slug="pool-shape",
            )
        if self.repeat_texts is not None:
            n_rows, n_columns = self.repeat_texts.shape
            if n_columns != self.n_items or n_rows % max(self.n_agents, 1):
                raise PoolError(
                    f"The further texts do not fit the pool: got the shape {self.repeat_texts.shape} for {self.n_agents} agents "
                    f"and {self.n_items} items. Pass one row per agent for each further response.",
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
        """Whether the agent responded to the item: bool array (n_agents, n_items)."""
        return _find_present(self.texts)

    @cached_property
    def lengths(self) -> Positions:
        """Number of characters of each first response: int64 array (n_agents, n_items); 0 if there is none."""
        return _count_characters(self.texts)

    @property
    def repeats(self) -> int:
        """Maximum number of responses of one agent to one item."""
        return 1 if self.repeat_texts is None else 1 + len(self.repeat_texts) // self.n_agents

    @cached_property
    def n_repeats(self) -> Ids:
        """Number of responses of the agent to the item: int32 array (n_agents, n_items)."""
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
        starts = range(0, len(self.all_texts), self.n_agents)
        return [self.all_texts[start : start + self.n_agents] for start in starts]

    @classmethod
    def from_repeats(
        cls, agents: tuple[Agent, ...], items: tuple[Item, ...], texts_by_repeat: Sequence[Objects], name: str
    ) -> Pool:
        """Create a pool from one array of texts per repeat.

        Parameters
        ----------
        agents, items : tuple of Agent, tuple of Item
            Agents (rows of the arrays) and items (columns).
        texts_by_repeat : sequence of object array (n_agents, n_items)
            One array per repeat, at least one: the first array has the first response of each agent to each item, the second
            array the second responses, and so on. None for a missing response. If a response exists, all earlier responses of the
            agent to the item must exist; this is not checked. The first array is not copied, and becomes read-only.
        name : str
            Name of the pool.

        Returns
        -------
        Pool
            The pool, with `repeat_texts` if there are several repeats.

        Raises
        ------
        PoolError
            [pool-shape]: if there is no array, or if an array does not have one row per agent and one column per item.
        """
        shapes = {np.shape(texts) for texts in texts_by_repeat}
        if shapes != {(len(agents), len(items))}:
            raise PoolError(
                f"Each array of texts must have the shape (n_agents, n_items), here {(len(agents), len(items))}: got "
                f"{', '.join(map(str, sorted(shapes))) or 'no array'}. Pass one array per repeat.",
                slug="pool-shape",
            )
        first_texts, *later_texts = texts_by_repeat
        repeat_texts = np.concatenate(later_texts) if later_texts else None
        return cls(agents, items, first_texts, name, repeat_texts)

    def with_agents(self, agents: Sequence[Agent], texts_by_repeat: Sequence[Objects]) -> Pool:
        """Return a pool with the agents of this one and further agents after them.

        Parameters
        ----------
        agents : sequence of Agent
            New agents. Their ids must differ from those of the pool, which is not checked.
        texts_by_repeat : sequence of object array (n_new_agents, n_items)
            Texts in memory, one array per repeat: the first responses of the new agents, their second responses, and so on. A
            missing response is None. The sequence is empty if all responses are missing.

        Returns
        -------
        Pool
            The extended pool, a new object of the same name. If one side has fewer repeats, its further responses are missing.

        Raises
        ------
        PoolError
            [pool-shape]: if an array does not have one row per new agent.
        ValueError
            If an array does not have one column per item of the pool.
        """
        texts = self._append_texts(texts_by_repeat, shape=(len(agents), self.n_items), axis=0)
        return Pool.from_repeats((*self.agents, *agents), self.items, texts, self.name)

    def with_items(self, items: Sequence[Item], texts_by_repeat: Sequence[Objects]) -> Pool:
        """Return a pool with the items of this one and further items after them.

        Parameters
        ----------
        items : sequence of Item
            New items. Their ids must differ from those of the pool, which is not checked.
        texts_by_repeat : sequence of object array (n_agents, n_new_items)
            Texts in memory, one array per repeat: the first responses of all agents to the new items, the second responses, and
            so on. A missing response is None. The sequence is empty if all responses are missing.

        Returns
        -------
        Pool
            The extended pool, a new object of the same name. If one side has fewer repeats, its further responses are missing.

        Raises
        ------
        PoolError
            [pool-shape]: if an array does not have one column per new item.
        ValueError
            If an array does not have one row per agent of the pool.
        """
        texts = self._append_texts(texts_by_repeat, shape=(self.n_agents, len(items)), axis=1)
        return Pool.from_repeats(self.agents, (*self.items, *items), texts, self.name)

    def _append_texts(
        self, texts_by_repeat: Sequence[Objects], *, shape: tuple[int, int], axis: Literal[0, 1]
    ) -> list[Objects]:
        """Append new texts of each repeat to the texts of the pool.

        Parameters
        ----------
        texts_by_repeat : sequence of object array
            New texts: first responses, second responses, and so on.
        shape : (int, int)
            Shape of the new texts of one repeat.
        axis : {0, 1}
            Whether the new texts are further rows (0) or further columns (1).

        Returns
        -------
        list of object array
            One array per repeat. If the pool and the new texts have different numbers of repeats, the missing part of an array is
            filled with None.
        """
        no_texts: Objects = np.full((self.n_agents, self.n_items), None, dtype=object)
        no_new_texts: Objects = np.full(shape, None, dtype=object)
        extended = []
        for pool_texts, new_texts in zip_longest(self.texts_by_repeat, texts_by_repeat):
            before = no_texts if pool_texts is None else pool_texts
            added = no_new_texts if new_texts is None else new_texts
            extended.append(np.concatenate([before, added], axis=axis))
        return extended

    @cached_property
    def all_present(self) -> Bools:
        """Whether each text of `all_texts` exists: bool (repeats · n_agents, n_items)."""
        if self.repeat_texts is None:
            return self.present
        return np.concatenate([self.present, _find_present(self.repeat_texts)])

    @cached_property
    def all_lengths(self) -> Positions:
        """Number of characters of each text of `all_texts`: int64 (repeats · n_agents, n_items); 0 if there is none."""
        if self.repeat_texts is None:
            return self.lengths
        return np.concatenate([self.lengths, _count_characters(self.repeat_texts)])

    @property
    def n_responses(self) -> int:
        """Number of responses, repeats included."""
        return int(self.all_present.sum())

    @property
    def n_empty(self) -> int:
        """Number of responses that are empty texts, over all repeats."""
        return int((self.all_present & (self.all_lengths == 0)).sum())

    @property
    def n_empty_by_agent(self) -> dict[str, int]:
        """Number of responses that are empty texts, over all repeats, by id of the agents that have any."""
        n_by_row = (self.all_present & (self.all_lengths == 0)).sum(axis=1)
        n_by_agent = n_by_row.reshape(-1, self.n_agents).sum(axis=0)
        return {agent.id: int(n) for agent, n in zip(self.agents, n_by_agent, strict=True) if n}

    @property
    def n_missing(self) -> int:
        """Number of cells without a response."""
        return int(self.present.size - self.present.sum())

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hexadecimal) of ids, prompts and texts; groups and metadata are left out, as they change no result."""
        agent_ids = [agent.id for agent in self.agents]
        items = [[item.id, item.prompt] for item in self.items]
        lines = [_to_ascii_json(agent_ids), _to_ascii_json(items)]
        rows = (self._encode_row(row) for row in range(self.repeats * self.n_agents))

        hasher = hashlib.sha256()
        for line in chain(lines, rows):
            hasher.update(line)
            hasher.update(b"\n")
        return hasher.hexdigest()

    def _encode_row(self, row: int) -> bytes:
        """Encode the texts of one row of `all_texts`, the responses of an agent to all items, as a JSON array in ASCII.

        The texts of a large pool are in a file, with the byte `SEPARATOR` between two texts. If all texts of the row are ASCII,
        and none contains this byte, they are read and encoded together, which is faster.
        """
        file_texts = find_file_texts(self.all_texts)
        joined_texts = None if file_texts is None else file_texts.read_joined_row(row)
        if joined_texts is not None and joined_texts.isascii():
            no_text_contains_separator = joined_texts.count(SEPARATOR) == self.n_items - 1
            if no_text_contains_separator:
                # encode all texts as one JSON string, and divide it at the separators, which orjson does not escape
                encoded = orjson.dumps(joined_texts.decode())
                return b"[" + encoded.replace(SEPARATOR, b'","') + b"]"
        return _to_ascii_json(self.all_texts[row].tolist())


def _find_present(texts: Objects) -> Bools:
    """Return where there is a text: bool array of the shape (rows, columns) of `texts`."""
    file_texts = find_file_texts(texts)
    if file_texts is not None:
        return file_texts.present
    present = np.array([[text is not None for text in row] for row in texts], dtype=np.bool_)
    return present.reshape(texts.shape)


def _count_characters(texts: Objects) -> Positions:
    """Return the number of characters of each text, 0 for no text: int64 array of the shape (rows, columns) of `texts`."""
    file_texts = find_file_texts(texts)
    if file_texts is not None:
        return file_texts.lengths
    lengths = np.array([[len(text or "") for text in row] for row in texts], dtype=np.int64)
    return lengths.reshape(texts.shape)


def _to_ascii_json(value: object) -> bytes:
    """Encode a value as compact JSON in ASCII, with the result of `json.dumps`, but faster for most values."""
    with suppress(TypeError):  # orjson refuses half of a surrogate pair
        encoded = orjson.dumps(value)
        # json.dumps would escape characters beyond ASCII and DEL, which orjson does not
        if encoded.isascii() and b"\x7f" not in encoded:
            return encoded
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
