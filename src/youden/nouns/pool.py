"""Agents, items and the text of each cell."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import numpy as np
import orjson

from youden.nouns.arrays import Bools, Objects, Positions, freeze
from youden.nouns.texts import SEPARATOR, in_file

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True)
class Agent:
    """Who responds: an id, the group it is said to belong to (never used in a fit), and anything else known of it."""

    id: str
    group: str | None = None
    meta: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class Item:
    """What is responded to: an id, the prompt or source text where there is one, and anything else known of it."""

    id: str
    prompt: str | None = None
    meta: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Pool:
    """Responses of K agents to J items.

    texts: object[K, J], each a `str` (may be empty: an empty text is a response) or None where there is no response. Of a large
    pool they stay in a file, and are read as they are looked at (`TextsInFile`).
    """

    agents: tuple[Agent, ...]
    items: tuple[Item, ...]
    texts: Objects
    name: str = "pool"

    def __post_init__(self) -> None:
        if in_file(self.texts) is None:
            freeze([self.texts])

    @property
    def n_agents(self) -> int:
        return len(self.agents)

    @property
    def n_items(self) -> int:
        return len(self.items)

    @cached_property
    def present(self) -> Bools:
        """bool[K, J]: whether the agent responded to the item."""
        if (kept := in_file(self.texts)) is not None:
            return kept.present
        return np.array([[text is not None for text in row] for row in self.texts], dtype=np.bool_).reshape(
            self.texts.shape
        )

    @cached_property
    def lengths(self) -> Positions:
        """int64[K, J]: characters of each response, 0 where there is none."""
        if (kept := in_file(self.texts)) is not None:
            return kept.lengths
        return np.array([[len(text or "") for text in row] for row in self.texts], dtype=np.int64).reshape(
            self.texts.shape
        )

    @property
    def n_missing(self) -> int:
        """How many of the K·J cells have no response."""
        return int(self.present.size - self.present.sum())

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) over ids, prompts and texts in their order; groups and metadata change no number, so stay out."""
        hasher = hashlib.sha256()
        heads = ([agent.id for agent in self.agents], [[item.id, item.prompt] for item in self.items])
        for line in chain(map(_in_ascii, heads), (self._row_in_ascii(agent) for agent in range(self.n_agents))):
            hasher.update(line)
            hasher.update(b"\n")
        return hasher.hexdigest()

    def _row_in_ascii(self, agent: int) -> bytes:
        """An agent's texts as `_in_ascii` has them: out of a file as one text, which is cut where they end."""
        kept = in_file(self.texts)
        joined = None if kept is None else kept.joined(agent)
        if joined is not None and joined.isascii() and joined.count(SEPARATOR) == self.n_items - 1:
            return b"[" + orjson.dumps(joined.decode()).replace(SEPARATOR, b'","') + b"]"
        return _in_ascii(self.texts[agent].tolist())


def _in_ascii(part: object) -> bytes:
    """JSON without blanks in ASCII, its controls escaped; of texts of ASCII without DEL orjson makes the same sooner."""
    with suppress(TypeError):  # half of a surrogate pair
        if (quick := orjson.dumps(part)).isascii() and b"\x7f" not in quick:
            return quick
    return json.dumps(part, ensure_ascii=True, separators=(",", ":")).encode()
