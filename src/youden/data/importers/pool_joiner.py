"""Join responses from many files into one pool, and write it into a folder.

A row is never lost silently: each unused row is counted by reason, and the first location of each reason is reported.
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
from youden.data.importers.foreign_files import group_spelling_variants
from youden.data.importers.response_values import extract_responses
from youden.data.pools.pool_reader import AGENTS, ITEMS, RESPONSES, read_pool, write_pool
from youden.errors import ImportFormatError
from youden.text.printable import find_name_fault, printable
from youden.text.replacements import Replacements
from youden.text.sentences import format_count
from youden.types import Agent, Item, Pool
from youden.types.pool import Bools

T = TypeVar("T")
MAX_LISTED = 5
MAX_AGENTS_LISTED = 40
SECOND_RESPONSE = "a second response of the same agent to the same item"
NO_TEXTS = "no text (an empty list)"
_MAX_ID_LENGTH = 60


@dataclass(frozen=True, eq=False)
class ImportedPool:
    """A pool made from the files of another tool, with an account of the rows that were not used."""

    pool: Pool
    """The pool."""
    left_out: Mapping[str, int]
    """Number of unused rows and responses by reason."""
    unaligned: tuple[str, ...]
    """Ids of the items that at least one agent did not respond to."""
    notes: tuple[str, ...]
    """All notes on the import, as sentences: assumptions, unused rows, and missing responses."""
    n_dropped: int = 0
    """Number of responses that were not used."""
    dropped: tuple[str, ...] = ()
    """Description of these responses, one text per reason, with agents and the first location."""
    account: tuple[str, ...] = ()
    """Notes on unused rows, one sentence per reason."""
    assumed: tuple[str, ...] = ()
    """Notes that are not about unused rows."""
    taken: str = ""
    """Description of the columns that were used, and for what; empty if all columns were named."""
    question: str | None = None
    """Name of the column of prompts; None if there is none."""
    unused: tuple[str, ...] = ()
    """Names of the columns that have no role."""

    @property
    def summary(self) -> tuple[str, ...]:
        """Lines that describe the pool: agents, column of prompts, number of items, and unused columns."""
        names = [agent.id for agent in self.pool.agents]
        listed = ", ".join(names[:MAX_AGENTS_LISTED])
        if len(names) > MAX_AGENTS_LISTED:
            listed += f" and {len(names) - MAX_AGENTS_LISTED:,} more"

        lines = [f"{format_count(len(names), 'agent')}: {listed}"]
        if self.question:
            lines.append(f"question: {self.question!r}")
        lines.append(format_count(self.pool.n_items, "item"))
        if self.unused:
            lines.append(f"not used: {', '.join(map(repr, self.unused))}")
        return tuple(lines)

    @property
    def share_dropped(self) -> float:
        """Fraction of all responses that were not used, in [0, 1]."""
        return self.n_dropped / (self.n_dropped + self.pool.n_responses)


@dataclass
class PoolBuilder:
    """Collects responses and builds a pool; agents and items have the order of their first responses.

    With `merges`, ids that differ only by spaces or case become one id, unless a partner has responses under two of
    them (the partner of an agent is an item, and vice versa). `replaced` counts values that were replaced because no
    pool can hold them.
    """

    name: str
    merges: bool = False
    replaced: Replacements = field(default_factory=Replacements)
    _responses: dict[tuple[str, str], dict[str | None, str]] = field(default_factory=dict)  # texts by cell and repeat
    _groups: dict[str, str | None] = field(default_factory=dict)
    _item_prompts: dict[str, str | None] = field(default_factory=dict)
    _aliases: dict[str, str] = field(default_factory=dict)
    _left_out: Counter[str] = field(default_factory=Counter)
    _dropped: dict[str, Counter[str]] = field(default_factory=dict)
    _first_locations: dict[str, str] = field(default_factory=dict)
    _items_refused: dict[str, None] = field(default_factory=dict)
    _prompt_conflicts: dict[str, str] = field(default_factory=dict)  # item by location, if not its first prompt
    _notes: dict[str, list[str]] = field(default_factory=dict)

    def leave_out(self, reason: str, location: str) -> None:
        """Count a row without a response, or a response that was already added."""
        self._left_out[reason] += 1
        self._first_locations.setdefault(reason, location)

    def drop(self, agent: object, reason: str, location: str, *, n: int = 1) -> None:
        """Count `n` responses of an agent that cannot be used."""
        if n > 0:
            self._left_out[reason] += n
            self._dropped.setdefault(reason, Counter())[str(agent)] += n
            self._first_locations.setdefault(reason, location)

    def set_alias(self, agent: str, name: str) -> None:
        """Set the name under which an agent appears in the pool."""
        self._aliases[agent] = name

    def add_note(self, text: str, location: str = "") -> None:
        """Record a note; the same note at several locations is reported once, with the first location."""
        self._notes.setdefault(text, []).append(location)

    def add(
        self,
        agent: object,
        item: object,
        text: object,
        *,
        location: str,
        prompt: object = None,
        group: object = None,
        repeat: object = None,
    ) -> None:
        """Add one response, or a list of responses, which are repeats.

        A null is left out. A response is dropped if its text is not a string, if an id is empty or invalid, or if the
        agent has another response to the item already. The number or label `repeat` distinguishes several responses,
        which are then all kept. The first prompt of an item and the first group of an agent are kept.
        """
        texts: Sequence[object] = extract_responses(text) if isinstance(text, list) else [text]
        if not texts:
            self.leave_out(NO_TEXTS, location)
        for response, label in zip(texts, make_repeat_labels(repeat, len(texts)), strict=True):
            self._add_response(agent, item, response, location=location, prompt=prompt, group=group, repeat=label)

    def _add_response(
        self, agent: object, item: object, text: object, *, location: str, prompt: object, group: object, repeat: object
    ) -> None:
        if text is None:
            self.leave_out("no text (null)", location)
            return

        agent_id, item_id = _to_id(agent), _to_id(item)
        if agent_id is None or item_id is None:
            self.drop(agent, "no agent id" if agent_id is None else "no item id", location)
            return
        for kind, id_ in (("agent", agent_id), ("item", item_id)):
            if problem := find_name_fault(id_):
                self._items_refused.setdefault(printable(item_id))
                reason = f"the {kind} id {problem.rstrip('.')}"
                self.drop(printable(agent_id), reason, f"{location}: {printable(id_)[:_MAX_ID_LENGTH]!r}")
                return
        if not isinstance(text, str):
            self._items_refused.setdefault(item_id)
            self.drop(agent_id, f"the text is no string but {type(text).__name__}", location)
            return

        label = _to_label(repeat)
        repeats = self._responses.setdefault((agent_id, item_id), {})
        if repeats and (label is None or label in repeats):
            if repeats.get(label, next(iter(repeats.values()))) == text:
                self.leave_out("the same response once more", location)
            else:
                self.drop(agent_id, SECOND_RESPONSE, location)
            return

        repeats[label] = text
        if len(repeats) == 1:
            self._add_group_and_prompt(agent_id, item_id, group, prompt, location)

    def _add_group_and_prompt(self, agent_id: str, item_id: str, group: object, prompt: object, location: str) -> None:
        """Record group and prompt, unless the agent or the item has one already."""
        group_name, prompt_text = _text_or_none(group), _text_or_none(prompt)
        if group_name and (problem := find_name_fault(group_name)):
            self.add_note(f"The group {group_name!r} of agent {agent_id!r} is left out: it {problem}")
            group_name = None
        self._groups[agent_id] = self._groups.get(agent_id) or group_name

        first_prompt = self._item_prompts.get(item_id)
        if first_prompt and prompt_text and first_prompt != prompt_text:
            self._prompt_conflicts[location] = item_id
        self._item_prompts[item_id] = first_prompt or prompt_text

    def build(self) -> ImportedPool:
        """Build the pool of all responses that were added.

        Raises: ImportFormatError [import-empty] without responses; [import-alike] if ids that differ only by spaces or
            case may name one agent or item.
        """
        account = [
            f"{n:,} left out: {reason} (first: {self._first_locations[reason]})"
            for reason, n in self._left_out.most_common()
        ]
        if not self._responses:
            raise ImportFormatError(
                f"'{self.name}' contains no response: {'; '.join(account) or 'it has no rows'}. "
                "Pass files with at least one response as text.",
                slug="import-empty",
            )
        account += self._describe_lost_items()
        if self._prompt_conflicts:
            location, item = next(iter(self._prompt_conflicts.items()))
            account.append(
                f"imported {format_count(len(self._prompt_conflicts), 'response')} with a prompt other than the first one of "
                "the item "
                f"(first: '{item}', {location})"
            )
        if self.merges:
            self._merge_spelling_variants()
        account += self._describe_repeats()

        pool = self._build_pool()
        left_out_notes = tuple(account)
        account += _describe_spelling_variants("agent", pool.present, [*self._groups])
        account += _describe_spelling_variants("item", pool.present.T, [*self._item_prompts])
        account += _describe_unaligned(pool)
        return ImportedPool(
            pool,
            left_out=dict(self._left_out),
            n_dropped=sum(agents.total() for agents in self._dropped.values()),
            dropped=tuple(self._describe_dropped()),
            unaligned=tuple(pool.items[j].id for j in np.flatnonzero(~pool.present.all(axis=0))),
            notes=(*self._format_notes(), *account),
            account=left_out_notes,
            assumed=self._format_notes(),
        )

    def _format_notes(self) -> tuple[str, ...]:
        notes = []
        for text, locations in self._notes.items():
            times = f"{len(locations):,} times, first: " if len(locations) > 1 else ""
            notes.append(f"{text} ({times}{locations[0]})" if locations[0] else text)
        return (*notes, *filter(None, [self.replaced.describe()]))

    def _describe_lost_items(self) -> Iterator[str]:
        """Describe the items of which no response could be used."""
        lost = [item for item in self._items_refused if item not in self._item_prompts]
        if lost:
            suffix = f" and {len(lost) - MAX_LISTED:,} more" if len(lost) > MAX_LISTED else ""
            yield (
                f"{format_count(len(lost), 'item')} lost, because no response to {'it' if len(lost) == 1 else 'them'} could "
                "be used: "
                f"{', '.join(item[:_MAX_ID_LENGTH] for item in lost[:MAX_LISTED])}{suffix}"
            )

    def _describe_repeats(self) -> Iterator[str]:
        n_repeats = [len(texts) for texts in self._responses.values() if len(texts) > 1]
        if n_repeats:
            low, high = min(n_repeats), max(n_repeats)
            per_cell = f"{low} to {high}" if low < high else str(low)
            yield f"{sum(n_repeats):,} responses are repeats, all kept: {per_cell} of one agent to one item"

    def _describe_dropped(self) -> Iterator[str]:
        for reason, agents in sorted(self._dropped.items(), key=lambda entry: -entry[1].total()):
            listed = ", ".join(f"{agent!r} {n:,}" for agent, n in agents.most_common(MAX_LISTED))
            suffix = f" and {len(agents) - MAX_LISTED:,} more agents" if len(agents) > MAX_LISTED else ""
            yield f"{agents.total():,} {reason} ({listed}{suffix}; first: {self._first_locations[reason]})"

    def _merge_spelling_variants(self) -> None:
        """Merge ids that differ only by spaces or case, unless a partner has responses under two of them."""
        for kind, side, ids in (("agent", 0, self._groups), ("item", 1, self._item_prompts)):
            for first, *variants in group_spelling_variants(ids):
                partners = [cell[1 - side] for cell in self._responses if cell[side] in (first, *variants)]
                if len(partners) > len(set(partners)):
                    continue
                self.add_note(
                    f"{', '.join(map(repr, (first, *variants)))} are treated as one {kind}: they differ only by spaces or case"
                )
                for cell in [cell for cell in self._responses if cell[side] in variants]:
                    renamed = (first, cell[1]) if side == 0 else (cell[0], first)
                    self._responses[renamed] = self._responses.pop(cell)
                for name in variants:
                    del ids[name]

    def _build_pool(self) -> Pool:
        """Build the pool; numbered repeats are ordered by number, others by their first appearance."""
        agent_positions = {name: k for k, name in enumerate(self._groups)}
        item_positions = {name: j for j, name in enumerate(self._item_prompts)}
        max_repeats = max(map(len, self._responses.values()))
        texts = np.full((max_repeats, len(agent_positions), len(item_positions)), None, dtype=np.object_)
        for (agent, item), repeats in self._responses.items():
            labels = list(repeats)
            if len(labels) > 1 and all(label is not None and label.isdecimal() for label in labels):
                labels.sort(key=lambda label: int(label or 0))
            for nth, label in enumerate(labels):
                texts[nth, agent_positions[agent], item_positions[item]] = repeats[label]

        agents = []
        for name, group in self._groups.items():
            meta = {"alias": self._aliases[name]} if name in self._aliases else {}
            agents.append(Agent(name, group, meta))
        items = (Item(name, prompt) for name, prompt in self._item_prompts.items())
        further = texts[1:].reshape(-1, len(item_positions)) if max_repeats > 1 else None
        return Pool(tuple(agents), tuple(items), texts[0], name=self.name, repeat_texts=further)


class PromptItemIds:
    """Generates ids of items that have none, from their prompts.

    If an agent has several different responses to one prompt, each of them belongs to a separate item. `make_id` makes
    the id from the number of the item, from 0, and its prompt.
    """

    def __init__(self, make_id: Callable[[int, str], str] = lambda number, _: f"item-{number:04d}") -> None:
        self._make_id = make_id
        self._numbers: dict[tuple[str, int], int] = {}
        self._occurrences: dict[tuple[str, str, str], dict[object, int]] = {}

    def get_id(self, agent: str, prompt: str, text: object = None, *, repeat: object = None) -> str:
        """Return the id of the item that a response belongs to.

        Responses with different labels `repeat` are counted separately. A response without a text counts as different.
        """
        occurrences = self._occurrences.setdefault((agent, prompt, str(repeat)), {})
        identity = object() if text is None else text
        occurrence = occurrences.setdefault(identity, len(occurrences))
        number = self._numbers.setdefault((prompt, occurrence), len(self._numbers))
        return self._make_id(number, f"{prompt} ({occurrence + 1})" if occurrence else prompt)


def _describe_unaligned(pool: Pool) -> Iterator[str]:
    """Describe the items that at least one agent did not respond to."""
    missing = ~pool.present
    unaligned = np.flatnonzero(missing.any(axis=0))
    if not len(unaligned):
        return

    lines = []
    for j in unaligned[:MAX_LISTED]:
        agents = ", ".join(f"'{pool.agents[k].id}'" for k in np.flatnonzero(missing[:, j])[:MAX_LISTED])
        lines.append(f"'{pool.items[j].id}' lacks {agents}")
    suffix = f"; and {len(unaligned) - MAX_LISTED:,} more" if len(unaligned) > MAX_LISTED else ""
    yield f"{len(unaligned):,} of {pool.n_items:,} items lack responses of some agents: {'; '.join(lines)}{suffix}"


def _describe_spelling_variants(kind: str, present: Bools, ids: list[str]) -> Iterator[str]:
    """Yield a sentence for each group of ids of a `kind` (agent or item) that differ only by spaces or case.

    present : bool array (n_ids, n_partners), whether there is a response; agents have items as partners, items agents

    Raises: ImportFormatError [import-alike] if no partner has responses under two ids of a group: they may be the same.
    """
    partner = "item" if kind == "agent" else "agent"
    positions = {name: position for position, name in enumerate(ids)}
    for variants in group_spelling_variants(ids):
        n_variants_per_partner = present[[positions[name] for name in variants]].sum(axis=0)
        listed = ", ".join(map(repr, variants[:MAX_LISTED]))
        if not (n_variants_per_partner > 1).any():
            raise ImportFormatError(
                f"The {kind}s {listed} differ only by spaces or case, and no {partner} has responses under two of them. If they "
                f"are one {kind}, set one spelling in the files; if they are several, set another name for one of them.",
                slug="import-alike",
            )
        yield f"The {kind}s {listed} differ only by spaces or case, and were imported as different {kind}s"


def _to_id(value: object) -> str | None:
    """Convert an id to text; None if it is empty, or neither a text nor a whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) and value.strip() else None


def make_repeat_labels(repeat: T, n: int) -> list[T | int | str]:
    """Label the `n` responses of one row; `repeat` is the label of the row, or None."""
    if n == 1:
        return [repeat]
    return [nth if repeat is None else f"{repeat}.{nth}" for nth in range(1, n + 1)]


def _to_label(repeat: object) -> str | None:
    """Convert the label of a repeat to text; None without a label."""
    if isinstance(repeat, float) and not repeat.is_integer():
        return None if np.isnan(repeat) else str(repeat)
    return _to_id(repeat) or (None if repeat in (None, "") else str(repeat))


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


RUN_FILES = ("pool.json", "plan.parquet", "verdicts.parquet")


def check_output_folder(out: Path, *, run: Sequence[str] = RUN_FILES, again: str = RESPONSES) -> None:
    """Check that an import may write into a folder, and delete temporary files that a stopped import left in it.

    Parameters
    ----------
    out : Path
        Folder, which may not exist yet.
    run : sequence of str
        Names of the files of a run; the folder may hold none of them.
    again : str
        File that an import writes last; a folder that has it may be overwritten.

    Raises
    ------
    ImportFormatError
        [out-not-empty] if `out` is a file, holds a run, or holds files that no import wrote.
    """
    if any((out / file).exists() for file in run):
        raise ImportFormatError(
            f"{out} already holds a run. Set --out to another folder, or remove this one.", slug="out-not-empty"
        )
    remove_leftovers(out)
    is_foreign_folder = out.is_dir() and not (out / again).exists() and {*os.listdir(out)} - {AGENTS, ITEMS}
    if out.is_file() or is_foreign_folder:
        raise ImportFormatError(
            f"{out} exists, and no import wrote it. Set --out to a new or empty folder.",
            slug="out-not-empty",
        )


def write_imported_pool(pool: Pool, out: Path) -> None:
    """Write a pool into a folder, which may be new or empty, or hold the same pool.

    Raises
    ------
    ImportFormatError
        [out-not-empty] if the folder holds a run, another pool or other files.
    """
    check_output_folder(out)
    if (out / RESPONSES).exists() and read_pool(out).digest != pool.digest:
        raise ImportFormatError(
            f"{out} already holds another pool. Set --out to another folder, or remove this one. To add new agents to a judged "
            "run, run `youden extend agents RUN OUT`.",
            slug="out-not-empty",
        )
    write_pool(pool, out)
