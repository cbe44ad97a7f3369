"""Joins responses from many files on the item, and keeps account of what could not be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from youden.errors import ImportFormatError
from youden.nouns import Agent, Item, Pool
from youden.text.names import acts

LISTED = 5


@dataclass(frozen=True, eq=False)
class ImportedPool:
    """A pool from other people's files.

    left_out: reason → rows that were not used. unaligned: items that not every agent answered. notes: both in words, with the
    first place of each reason, and whatever else a reader of the pool has to know.
    """

    pool: Pool
    left_out: Mapping[str, int]
    unaligned: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass
class Joiner:
    """Takes rows in any order; agents and items keep the order in which they first appear."""

    name: str
    _cells: dict[tuple[int, int], str] = field(default_factory=dict)
    _agents: dict[str, str | None] = field(default_factory=dict)
    _items: dict[str, str | None] = field(default_factory=dict)
    _agent_at: dict[str, int] = field(default_factory=dict)
    _item_at: dict[str, int] = field(default_factory=dict)
    _left_out: Counter[str] = field(default_factory=Counter)
    _places: dict[str, str] = field(default_factory=dict)
    _notes: list[str] = field(default_factory=list)

    def leave_out(self, reason: str, place: str, *, n: int = 1) -> None:
        """Count rows that cannot be used; the first place of each reason is kept."""
        self._left_out[reason] += n
        self._places.setdefault(reason, place)

    def note(self, text: str) -> None:
        """What a reader of the pool has to know; said once."""
        if text not in self._notes:
            self._notes.append(text)

    def add(
        self,
        agent: object,
        item: object,
        text: object,
        *,
        place: str,
        prompt: object = None,
        group: object = None,
    ) -> None:
        """One response. Ids may be numbers. A null, a text that is no string, an empty id, a cell given twice are left out."""
        agent_id, item_id = _id(agent), _id(item)
        if agent_id is None or item_id is None:
            self.leave_out("no agent id" if agent_id is None else "no item id", place)
            return
        if problem := acts(agent_id) or acts(item_id):
            self.leave_out(f"the id {agent_id if acts(agent_id) else item_id!r} {problem}", place)
            return
        if not isinstance(text, str):
            self.leave_out(
                "no text (null)" if text is None else f"the text is no string but {type(text).__name__}", place
            )
            return
        at = (
            self._agent_at.setdefault(agent_id, len(self._agent_at)),
            self._item_at.setdefault(item_id, len(self._item_at)),
        )
        if at in self._cells:
            self.leave_out("a second response of the same agent to the same item", place)
            return
        self._cells[at] = text
        self._agents[agent_id] = self._agents.get(agent_id) or _words(group)
        known = self._items.get(item_id)
        said = _words(prompt)
        if known and said and known != said:
            self.leave_out("another prompt for an item whose prompt is known (the response is kept)", place)
        self._items[item_id] = known or said

    def pool(self) -> ImportedPool:
        """What was added. Raises: ImportFormatError [import-empty] where that is nothing."""
        account = [
            f"{n:,} left out: {reason} (first: {self._places[reason]})" for reason, n in self._left_out.most_common()
        ]
        if not self._cells:
            raise ImportFormatError(
                f"'{self.name}' gives no response. {'; '.join(account) or 'There are no rows'}. "
                "Give files with at least one response as text.",
                slug="import-empty",
            )
        texts = np.full((len(self._agent_at), len(self._item_at)), None, dtype=np.object_)
        for (agent, item), text in self._cells.items():
            texts[agent, item] = text
        pool = Pool(
            agents=tuple(Agent(name, group) for name, group in self._agents.items()),
            items=tuple(Item(name, prompt) for name, prompt in self._items.items()),
            texts=texts,
            name=self.name,
        )
        missing = ~pool.present
        unaligned = tuple(pool.items[j].id for j in np.flatnonzero(missing.any(axis=0)))
        if unaligned:
            lines = (
                f"'{pool.items[j].id}' lacks "
                + ", ".join(f"'{pool.agents[k].id}'" for k in np.flatnonzero(missing[:, j])[:LISTED])
                for j in np.flatnonzero(missing.any(axis=0))[:LISTED]
            )
            more = f"; and {len(unaligned) - LISTED:,} more" if len(unaligned) > LISTED else ""
            account.append(
                f"{len(unaligned):,} of {pool.n_items:,} items do not line up between agents: {'; '.join(lines)}{more}"
            )
        return ImportedPool(pool, dict(self._left_out), unaligned, (*self._notes, *account))


def distinct(names: Sequence[str], files: Sequence[Path]) -> list[str]:
    """A name for each file: as given where no two are alike, else with the file's folder or stem.

    >>> distinct(["m", "m", "n"], [Path("a/x.json"), Path("b/x.json"), Path("b/y.json")])
    ['m (a)', 'm (b)', 'n']
    """
    alike = Counter(names)
    stems = [file.stem for file in files]
    chosen = []
    for name, file, stem in zip(names, files, stems, strict=True):
        by = stem if stems.count(stem) == 1 else file.parent.name
        chosen.append(f"{name} ({by})" if alike[name] > 1 else name)
    return chosen


def _id(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) and value.strip() else None


def _words(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
