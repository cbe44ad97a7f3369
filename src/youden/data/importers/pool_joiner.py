"""Joins responses from many files on the item, keeps account of what could not be used, and writes the pool where it may
stand.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from youden.data.atomic import remove_leftovers
from youden.data.importers.foreign_files import spelled_alike
from youden.data.importers.response_values import response_values
from youden.data.pools.pool_reader import AGENTS, ITEMS, RESPONSES, read_pool, write_pool
from youden.errors import ImportFormatError
from youden.text.printable import acts, printable
from youden.text.replacements import Replacements
from youden.text.sentences import counted
from youden.types import Agent, Item, Pool
from youden.types.pool import Bools

T = TypeVar("T")
LISTED = 5
MOST_NAMED = 40
SECOND_RESPONSE = "a second response of the same agent to the same item"
NO_TEXTS = "no text (an empty list)"
_SHOWN = 60


@dataclass(frozen=True, eq=False)
class ImportedPool:
    """A pool that was made from the files of another tool."""

    pool: Pool
    """The pool."""
    left_out: Mapping[str, int]
    """Reason → number of rows that were not used."""
    unaligned: tuple[str, ...]
    """Ids of items that not every agent responded to."""
    notes: tuple[str, ...]
    """All of this in words, and whatever else a reader of the pool has to know."""
    n_dropped: int = 0
    """Number of unused rows that hold a response."""
    dropped: tuple[str, ...] = ()
    """These rows in words: by reason, with agents and the first location."""
    account: tuple[str, ...] = ()
    """Number of unused rows, a sentence per reason."""
    assumed: tuple[str, ...] = ()
    """Those of the notes that are not about unused rows."""
    taken: str = ""
    """Which column was used for what."""
    question: str | None = None
    """Column of the prompts."""
    unused: tuple[str, ...] = ()
    """Columns that have no role."""

    @property
    def found(self) -> tuple[str, ...]:
        """What was found, in lines: agents, question, items, columns that are not used."""
        names = [agent.id for agent in self.pool.agents]
        more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
        lines = [f"{counted(len(names), 'agent')}: {', '.join(names[:MOST_NAMED])}{more}"]
        lines += [f"question: {self.question!r}"] if self.question else []
        lines.append(counted(self.pool.n_items, "item"))
        lines += [f"not used: {', '.join(map(repr, self.unused))}"] if self.unused else []
        return tuple(lines)

    @property
    def share_dropped(self) -> float:
        """The share of all responses that were not used, 0 to 1."""
        return self.n_dropped / (self.n_dropped + self.pool.n_responses)


@dataclass
class Joiner:
    """Joins responses in any order; agents and items keep the order in which they first appear.

    Attributes
    ----------
    name : str
        Name of the pool.
    merges : bool
        Whether ids that differ by spaces or case alone are one, if no agent or item has responses under two of them.
    replaced : Replacements
        Values that no pool can hold, and that were replaced.
    """

    name: str
    merges: bool = False
    replaced: Replacements = field(default_factory=Replacements)
    _responses: dict[tuple[str, str], dict[str | None, str]] = field(default_factory=dict)
    _groups: dict[str, str | None] = field(default_factory=dict)
    _item_prompts: dict[str, str | None] = field(default_factory=dict)
    _aliases: dict[str, str] = field(default_factory=dict)
    _left_out: Counter[str] = field(default_factory=Counter)
    _dropped: dict[str, Counter[str]] = field(default_factory=dict)
    _places: dict[str, str] = field(default_factory=dict)
    _refused: dict[str, None] = field(default_factory=dict)
    _other_prompts: dict[str, str] = field(default_factory=dict)
    _notes: dict[str, list[str]] = field(default_factory=dict)

    def leave_out(self, reason: str, place: str) -> None:
        """Count a row that holds no response; the first place of each reason is kept."""
        self._left_out[reason] += 1
        self._places.setdefault(reason, place)

    def drop(self, agent: object, reason: str, place: str, *, n: int = 1) -> None:
        """Count responses that are there and cannot be used."""
        if n > 0:
            self._left_out[reason] += n
            self._dropped.setdefault(reason, Counter())[str(agent)] += n
            self._places.setdefault(reason, place)

    def alias(self, agent: str, name: str) -> None:
        """Another name that an agent goes by."""
        self._aliases[agent] = name

    def note(self, text: str, place: str = "") -> None:
        """What a reader of the pool has to know; said once, with the first of its places."""
        self._notes.setdefault(text, []).append(place)

    @property
    def _noted(self) -> tuple[str, ...]:
        notes = (
            text
            + (f" ({f'{len(places):,} times, first: ' if len(places) > 1 else ''}{places[0]})" if places[0] else "")
            for text, places in self._notes.items()
        )
        return (*notes, *filter(None, [self.replaced.describe()]))

    def add(
        self,
        agent: object,
        item: object,
        text: object,
        *,
        place: str,
        prompt: object = None,
        group: object = None,
        repeat: object = None,
    ) -> None:
        """Add one response, or a list of several, which are repeats. Ids may be numbers.

        A null is left out. A text that is no string, an empty id, and a second response of the agent to the item are dropped, the
        last only if `repeat` does not distinguish the two.
        """
        texts: Sequence[object] = response_values(text) if isinstance(text, list) else [text]
        if not texts:
            self.leave_out(NO_TEXTS, place)
        for response, label in zip(texts, nested_labels(repeat, len(texts)), strict=True):
            self._add(agent, item, response, place=place, prompt=prompt, group=group, repeat=label)

    def _add(
        self, agent: object, item: object, text: object, *, place: str, prompt: object, group: object, repeat: object
    ) -> None:
        if text is None:
            self.leave_out("no text (null)", place)
            return
        agent_id, item_id = _id(agent), _id(item)
        if agent_id is None or item_id is None:
            self.drop(agent, "no agent id" if agent_id is None else "no item id", place)
            return
        for noun, one in (("agent", agent_id), ("item", item_id)):
            if problem := acts(one):
                self._refused.setdefault(printable(item_id))
                self.drop(
                    printable(agent_id), f"the {noun} id {problem.rstrip('.')}", f"{place}: {printable(one)[:_SHOWN]!r}"
                )
                return
        if not isinstance(text, str):
            self._refused.setdefault(item_id)
            self.drop(agent_id, f"the text is no string but {type(text).__name__}", place)
            return
        label = _label(repeat)
        repeats = self._responses.setdefault((agent_id, item_id), {})
        if repeats and (label is None or label in repeats):
            if repeats.get(label, next(iter(repeats.values()))) == text:
                self.leave_out("the same response once more", place)
            else:
                self.drop(agent_id, SECOND_RESPONSE, place)
            return
        repeats[label] = text
        if len(repeats) > 1:
            return
        group_name, prompt_text = _words(group), _words(prompt)
        if group_name and (problem := acts(group_name)):
            self.note(f"The group {group_name!r} of agent {agent_id!r} is left out: it {problem}")
            group_name = None
        self._groups[agent_id] = self._groups.get(agent_id) or group_name
        known = self._item_prompts.get(item_id)
        if known and prompt_text and known != prompt_text:
            self._other_prompts[place] = item_id
        self._item_prompts[item_id] = known or prompt_text

    def pool(self) -> ImportedPool:
        """Return the pool of all responses that were added. Raises: ImportFormatError [import-empty] if there are none."""
        account = [
            f"{n:,} left out: {reason} (first: {self._places[reason]})" for reason, n in self._left_out.most_common()
        ]
        if not self._responses:
            raise ImportFormatError(
                f"'{self.name}' gives no response. {'; '.join(account) or 'There are no rows'}. "
                "Give files with at least one response as text.",
                slug="import-empty",
            )
        if lost := [item for item in self._refused if item not in self._item_prompts]:
            more = f" and {len(lost) - LISTED:,} more" if len(lost) > LISTED else ""
            account.append(
                f"{counted(len(lost), 'item')} lost, for no response to {'it' if len(lost) == 1 else 'them'} could be used: "
                f"{', '.join(item[:_SHOWN] for item in lost[:LISTED])}{more}"
            )
        if self._other_prompts:
            place, first = next(iter(self._other_prompts.items()))
            account.append(
                f"{counted(len(self._other_prompts), 'response')} came with another prompt than their item's first one; they are "
                f"kept (first: '{first}', {place})"
            )
        if self.merges:
            self._merge()
        if repeats := [len(texts) for texts in self._responses.values() if len(texts) > 1]:
            each = f"{min(repeats)} to {max(repeats)}" if min(repeats) < max(repeats) else str(repeats[0])
            account.append(f"{sum(repeats):,} responses are repeats, all kept: {each} of one agent to one item")
        pool = self._arranged()
        left_out = tuple(account)
        account += _told_apart("agent", pool.present, [*self._groups])
        account += _told_apart("item", pool.present.T, [*self._item_prompts])
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
        return ImportedPool(
            pool,
            left_out=dict(self._left_out),
            n_dropped=sum(agents.total() for agents in self._dropped.values()),
            dropped=tuple(self._dropped_words()),
            unaligned=unaligned,
            notes=(*self._noted, *account),
            account=left_out,
            assumed=self._noted,
        )

    def _merge(self) -> None:
        """Replace ids that differ by spaces or case alone by the first of them, if no agent or item has two of them."""
        for noun, side, ids in (("agent", 0, self._groups), ("item", 1, self._item_prompts)):
            for first, *others in spelled_alike(ids):
                met = [cell[1 - side] for cell in self._responses if cell[side] in (first, *others)]
                if len(met) > len(set(met)):
                    continue
                self.note(f"{', '.join(map(repr, (first, *others)))} are one {noun}, spelled in several ways")
                for cell in [cell for cell in self._responses if cell[side] in others]:
                    renamed = (first, cell[1]) if side == 0 else (cell[0], first)
                    self._responses[renamed] = self._responses.pop(cell)
                for name in others:
                    del ids[name]

    def _arranged(self) -> Pool:
        """Return the responses as a pool; repeats are in the order of their numbers if they have numbers, else as they came."""
        agent_at = {name: k for k, name in enumerate(self._groups)}
        item_at = {name: j for j, name in enumerate(self._item_prompts)}
        most = max(map(len, self._responses.values()))
        blocks = np.full((most, len(agent_at), len(item_at)), None, dtype=np.object_)
        for (agent, item), repeats in self._responses.items():
            labels = list(repeats)
            if len(labels) > 1 and all(label is not None and label.isdecimal() for label in labels):
                labels.sort(key=lambda label: int(label or 0))
            for nth, label in enumerate(labels):
                blocks[nth, agent_at[agent], item_at[item]] = repeats[label]
        agents = (
            Agent(name, group, {"alias": self._aliases[name]} if name in self._aliases else {})
            for name, group in self._groups.items()
        )
        items = (Item(name, prompt) for name, prompt in self._item_prompts.items())
        further = blocks[1:].reshape(-1, len(item_at)) if most > 1 else None
        return Pool(tuple(agents), tuple(items), blocks[0], name=self.name, further=further)

    def _dropped_words(self) -> Iterator[str]:
        for reason, agents in sorted(self._dropped.items(), key=lambda said: -said[1].total()):
            named = ", ".join(f"{agent!r} {n:,}" for agent, n in agents.most_common(LISTED))
            more = f" and {len(agents) - LISTED:,} more agents" if len(agents) > LISTED else ""
            yield f"{agents.total():,} {reason} ({named}{more}; first: {self._places[reason]})"


class ItemsByPrompt:
    """Items that have no id: they are numbered by their prompt, and one that an agent answers twice, each time otherwise, is two.

    name: makes an id of the number, from 0, and the prompt.
    """

    def __init__(self, name: Callable[[int, str], str] = lambda number, _: f"item-{number:04d}") -> None:
        self._name = name
        self._numbers: dict[tuple[str, int], int] = {}
        self._times: dict[tuple[str, str, str], dict[object, int]] = {}

    def item(self, agent: str, prompt: str, text: object = None, *, repeat: object = None) -> str:
        """The item that this response of the agent to the prompt belongs to; one without a text is another each time, and each
        `repeat` is told apart by itself."""
        said = self._times.setdefault((agent, prompt, str(repeat)), {})
        times = said.setdefault(object() if text is None else text, len(said))
        number = self._numbers.setdefault((prompt, times), len(self._numbers))
        return self._name(number, f"{prompt} ({times + 1})" if times else prompt)


def _told_apart(noun: str, present: Bools, ids: list[str]) -> Iterator[str]:
    """Words on ids that only spaces or case tell apart. present: bool[ids, others].

    Raises: ImportFormatError [import-alike] where nothing met two of them, so that they are one, spelled in two ways.
    """
    other = "item" if noun == "agent" else "agent"
    at = {name: number for number, name in enumerate(ids)}
    for alike in spelled_alike(ids):
        if not (present[[at[name] for name in alike]].sum(axis=0) > 1).any():
            raise ImportFormatError(
                f"The {noun}s {', '.join(map(repr, alike[:LISTED]))} differ by spaces or case alone, and no {other} has two of "
                f"them, so they are one, spelled in several ways. Spell them alike in the files; if they are several, give one "
                "another name.",
                slug="import-alike",
            )
        yield f"The {noun}s {', '.join(map(repr, alike[:LISTED]))} differ by spaces or case alone; they are kept apart"


def _id(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) and value.strip() else None


def nested_labels(repeat: T, n: int) -> list[T | int | str]:
    """Label the `n` responses of one row; `repeat` is the label of the row, or None."""
    return [repeat] if n == 1 else [nth if repeat is None else f"{repeat}.{nth}" for nth in range(1, n + 1)]


def _label(repeat: object) -> str | None:
    """What tells a repeat from others; None where nothing is said."""
    if isinstance(repeat, float) and not repeat.is_integer():
        return None if np.isnan(repeat) else str(repeat)
    return _id(repeat) or (None if repeat in (None, "") else str(repeat))


def _words(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


RUN_FILES = ("pool.json", "plan.parquet", "verdicts.parquet")


def refuse_other(out: Path, *, run: Sequence[str] = RUN_FILES, again: str = RESPONSES) -> None:
    """Raises: ImportFormatError [import-other] where `out` has one of a `run`'s files, or is anything but a folder that is empty
    or has the file `again`, which an earlier import wrote last."""
    if any((out / file).exists() for file in run):
        raise ImportFormatError(
            f"{out} holds a run already. Give an --out of its own, or delete that folder.", slug="import-other"
        )
    remove_leftovers(out)
    if out.is_file() or (out.is_dir() and not (out / again).exists() and {*os.listdir(out)} - {AGENTS, ITEMS}):
        raise ImportFormatError(
            f"{out} is there already, and nothing in it is an import's. Give an --out that is not there yet, or an empty folder.",
            slug="import-other",
        )


def write_imported(pool: Pool, out: Path) -> None:
    """Write `pool` into the folder `out`. Raises: ImportFormatError [import-other] where a run, another pool or anything else is
    there."""
    refuse_other(out)
    if (out / RESPONSES).exists() and read_pool(out).digest != pool.digest:
        raise ImportFormatError(
            f"{out} holds another pool already. Give an --out of its own; who is new there joins a judged run by `youden extend "
            "agents RUN OUT`. Or delete that folder.",
            slug="import-other",
        )
    write_pool(pool, out)
