"""Join responses from many files into one pool, and write it into a folder.

A row is never lost silently: each unused row is counted by reason, and the first location of each reason is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import numpy as np

from youden.data.importers.foreign_files import group_spelling_variants
from youden.data.importers.response_values import extract_responses
from youden.errors import ImportFormatError
from youden.text.printable import find_name_fault, printable
from youden.text.replacements import Replacements
from youden.text.sentences import describe_empty_responses, format_count
from youden.types import Agent, Item, Pool

T = TypeVar("T")
MAX_LISTED = 5
MAX_AGENTS_LISTED = 40
COPIED_RESPONSE = "a repetition of an earlier response"
SECOND_RESPONSE = "a second response of the same agent to the same item"
NO_TEXTS = "no text (an empty list)"
EMPTY_NEXT_TO_RESPONSE = "an empty text of an agent that has another response to the same item"
_MAX_ID_LENGTH = 60


@dataclass(frozen=True, eq=False)
class ImportedPool:
    """A pool made from the files of another tool, with the reasons why some rows were not used."""

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
    """Description of the responses that were not used: one text per reason, with agents and the first location."""
    account: tuple[str, ...] = ()
    """Notes on unused rows, one sentence per reason."""
    assumed: tuple[str, ...] = ()
    """Notes that are not about unused rows."""
    used_columns: str = ""
    """Description of which columns were used for what; empty if the user named all columns."""
    question: str | None = None
    """Name of the column of prompts; None if there is none."""
    unused: tuple[str, ...] = ()
    """Names of the columns that have no role."""

    @property
    def summary(self) -> tuple[str, ...]:
        """Lines that describe the pool: agents, column of prompts, number of items, and unused columns."""
        names = [agent.id for agent in self.pool.agents]
        listed = _list_first(names, MAX_AGENTS_LISTED)
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
    """Builds a pool from responses that are added one by one.

    Agents and items have the order of their first responses.

    Attributes
    ----------
    name : str
        Name of the pool.
    merges : bool, default False
        Whether ids of agents, or of items, that differ only by spaces or case become one id. Two ids of agents stay
        different if both have a response to the same item, and two ids of items if the same agent responded to both.
    replaced : Replacements
        Counter of the values that were replaced because a pool cannot hold them.
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
    _items_refused: dict[str, None] = field(default_factory=dict)  # an ordered set of ids
    _prompt_conflicts: dict[str, str] = field(default_factory=dict)  # location of a differing prompt → item
    _notes: dict[str, list[str]] = field(default_factory=dict)

    def count_left_out(self, reason: str, location: str) -> None:
        """Count a row that is not used because it has no response, or the same one as an earlier row."""
        self._left_out[reason] += 1
        self._first_locations.setdefault(reason, location)

    def count_dropped(self, agent: object, reason: str, location: str, *, n: int = 1) -> None:
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

    def get_locations(self, text: str) -> list[str]:
        """Return the locations at which a note was recorded."""
        return self._notes.get(text, [])

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

        A text of spaces becomes an empty text. A response that cannot be used is counted by its reason, and no error is raised.
        A response is compared with the earlier response of the agent to the item that has the same `repeat` or, without a
        `repeat`, with the first one.

        The response counts as left out in these cases:

        - The text is None or an empty list, or equal to the earlier response.
        - The text is empty, has no `repeat`, and the agent has another response to the item.

        The response counts as dropped in these cases:

        - The text is not a string, or differs from the earlier response.
        - The id of the agent or of the item is missing, is neither a `str` nor an `int`, or is not a valid name.

        Parameters
        ----------
        agent, item : str or int
            Ids of the agent and the item. A float without a fractional part is read as a whole number.
        text : str, list or None
            The response, or a list of several. A list of messages, or of the parts of one message, is read by
            `extract_responses`.
        location : str
            File and line, for messages.
        prompt : str, optional
            Prompt of the item; ignored if an earlier response to the item has one. `build` reports a different prompt.
        group : str, optional
            Group of the agent; ignored if an earlier response of the agent has one, or if it is not a valid name.
        repeat : str or int, optional
            Number or label that distinguishes several responses of the agent to the item. Several responses in a list get
            the labels "<repeat>.1", "<repeat>.2" and so on, or 1, 2 and so on if `repeat` is None.
        """
        texts: Sequence[object] = extract_responses(text) if isinstance(text, list) else [text]
        if not texts:
            self.count_left_out(NO_TEXTS, location)
        labels = make_repeat_labels(repeat, len(texts))
        for response, label in zip(texts, labels, strict=True):
            self._add_response(agent, item, response, location=location, prompt=prompt, group=group, repeat=label)

    def _add_response(
        self, agent: object, item: object, text: object, *, location: str, prompt: object, group: object, repeat: object
    ) -> None:
        """Check the values of one response, and add it if they are valid; otherwise, count the reason.

        The parameters are those of `add`, except that `text` is not a list.
        """
        if text is None:
            self.count_left_out("no text (null)", location)
            return

        agent_id, item_id = _to_id(agent), _to_id(item)
        if agent_id is None or item_id is None:
            missing = "agent" if agent_id is None else "item"
            self.count_dropped(agent, f"no {missing} id", location)
            return

        for kind, id_ in (("agent", agent_id), ("item", item_id)):
            problem = find_name_fault(id_)
            if problem:
                id_location = f"{location}: {printable(id_)[:_MAX_ID_LENGTH]!r}"
                reason = f"the {kind} id {problem.rstrip('.')}"
                self._refuse(printable(agent_id), printable(item_id), reason, id_location)
                return
        if not isinstance(text, str):
            self._refuse(agent_id, item_id, f"the text is not a string: got {type(text).__name__}", location)
            return

        text = "" if text.isspace() else text
        is_first = self._add_text(agent_id, item_id, text, repeat_label=_to_label(repeat), location=location)
        if is_first:
            self._set_group(agent_id, _text_or_none(group))
            self._set_prompt(item_id, _text_or_none(prompt), location)

    def _refuse(self, agent_id: str, item_id: str, reason: str, location: str) -> None:
        """Count an invalid response as dropped, and remember its item, which is lost if it has no valid response."""
        self._items_refused.setdefault(item_id)
        self.count_dropped(agent_id, reason, location)

    def _add_text(self, agent_id: str, item_id: str, text: str, *, repeat_label: str | None, location: str) -> bool:
        """Add a response, or count it as left out or dropped if an earlier response has the same label.

        An empty text without a label is left out if the cell has another response, before or after it.

        Returns whether it is the first response of the agent to the item.
        """
        texts_by_label = self._responses.setdefault((agent_id, item_id), {})
        if not text and repeat_label is None and texts_by_label:
            self.count_left_out(EMPTY_NEXT_TO_RESPONSE, location)
            return False
        if texts_by_label == {None: ""}:  # this response replaces an earlier empty one without a label
            texts_by_label.clear()
            self.count_left_out(EMPTY_NEXT_TO_RESPONSE, location)

        earlier_text = texts_by_label.get(repeat_label)
        if repeat_label is None:  # a response without a label is compared with the first one
            earlier_text = next(iter(texts_by_label.values()), None)
        if earlier_text is None:
            texts_by_label[repeat_label] = text
            return len(texts_by_label) == 1

        if text == earlier_text:
            self.count_left_out(COPIED_RESPONSE, location)
        else:
            self.count_dropped(agent_id, SECOND_RESPONSE, location)
        return False

    def _set_group(self, agent_id: str, group: str | None) -> None:
        """Set the group of an agent, unless it has one; a note reports an invalid name, which is not used."""
        problem = find_name_fault(group) if group else None
        if problem:
            self.add_note(f"The group {group!r} of agent {agent_id!r} is left out: it {problem}")
            group = None
        self._groups[agent_id] = self._groups.get(agent_id) or group

    def _set_prompt(self, item_id: str, prompt: str | None, location: str) -> None:
        """Set the prompt of an item, unless it has one; record the location of a different prompt."""
        first_prompt = self._item_prompts.get(item_id)
        if first_prompt and prompt and first_prompt != prompt:
            self._prompt_conflicts[location] = item_id
        self._item_prompts[item_id] = first_prompt or prompt

    def build(self) -> ImportedPool:
        """Build the pool of all responses that were added.

        Returns
        -------
        ImportedPool
            The pool, and notes on responses that were dropped or left out.

        Raises
        ------
        ImportFormatError
            [import-empty] if no response was added; [import-alike] if it is unclear whether ids that differ only by
            spaces or case are one agent or item.
        """
        left_out = self._describe_left_out()
        self._check_has_text(left_out)
        # merging spellings changes ids: lost items are described before it, and repeats after it
        lost_items = [*self._describe_lost_items(), *self._describe_prompt_conflicts()]
        agent_variants = list(self._resolve_spelling_variants("agent", self._groups))
        item_variants = list(self._resolve_spelling_variants("item", self._item_prompts))
        pool = self._build_pool()
        empty_responses = filter(None, [describe_empty_responses(pool.n_empty_by_agent)])
        account = (*empty_responses, *left_out, *lost_items, *self._describe_repeats())
        notes_on_pool = (*agent_variants, *item_variants, *_describe_incomplete_items(pool))
        assumed = self._format_notes()
        incomplete_items = np.flatnonzero(~pool.present.all(axis=0))
        return ImportedPool(
            pool,
            left_out=dict(self._left_out),
            n_dropped=sum(n_by_agent.total() for n_by_agent in self._dropped.values()),
            dropped=tuple(self._describe_dropped()),
            unaligned=tuple(pool.items[position].id for position in incomplete_items),
            notes=(*assumed, *account, *notes_on_pool),
            account=account,
            assumed=assumed,
        )

    def _describe_left_out(self) -> list[str]:
        """Describe the rows that were left out: one sentence per reason, the most frequent first."""
        return [
            f"{format_count(n, 'record')} left out: {reason} (first: {self._first_locations[reason]})"
            for reason, n in self._left_out.most_common()
        ]

    def _check_has_text(self, left_out: Sequence[str]) -> None:
        """Raise ImportFormatError [import-empty] if no response has a text; the message states why rows were `left_out`."""
        has_text = any(text for texts in self._responses.values() for text in texts.values())
        if not has_text:
            default_reason = "all texts are empty" if self._responses else "it has no rows"
            raise ImportFormatError(
                f"'{self.name}' contains no response: {'; '.join(left_out) or default_reason}. "
                "Pass files with at least one response as text.",
                slug="import-empty",
            )

    def _format_notes(self) -> tuple[str, ...]:
        """Format the recorded notes, each with its first location. If values were replaced, the last note states how many."""
        notes = []
        for text, locations in self._notes.items():
            first_location = locations[0]
            if len(locations) > 1 and first_location:
                first_location = f"{len(locations):,} times, first: {first_location}"
            notes.append(f"{text} ({first_location})" if first_location else text)
        note_on_replaced_values = self.replaced.describe()  # empty if no value was replaced
        return (*notes, note_on_replaced_values) if note_on_replaced_values else tuple(notes)

    def _describe_lost_items(self) -> Iterator[str]:
        """Describe the items without a usable response in one sentence; yield nothing if there are none."""
        lost = [item[:_MAX_ID_LENGTH] for item in self._items_refused if item not in self._item_prompts]
        if lost:
            pronoun = "it" if len(lost) == 1 else "them"
            items = format_count(len(lost), "item")
            yield f"{items} lost, because no response to {pronoun} could be used: {_list_first(lost)}"

    def _describe_prompt_conflicts(self) -> Iterator[str]:
        """Describe in one sentence the responses whose prompt differs from the first prompt of their item, if there are any."""
        if self._prompt_conflicts:
            location, item = next(iter(self._prompt_conflicts.items()))
            responses = format_count(len(self._prompt_conflicts), "response")
            first = f"(first: '{item}', {location})"
            yield f"imported {responses} with a prompt other than the first one of the item {first}"

    def _describe_repeats(self) -> list[str]:
        """Describe in one sentence how many responses are repeats of an agent to an item; empty if there are none."""
        n_repeats = [len(texts) for texts in self._responses.values() if len(texts) > 1]
        if not n_repeats:
            return []
        smallest, largest = min(n_repeats), max(n_repeats)
        per_cell = str(smallest) if smallest == largest else f"{smallest} to {largest}"
        return [f"{sum(n_repeats):,} responses are repeats, all kept: {per_cell} of one agent to one item"]

    def _describe_dropped(self) -> Iterator[str]:
        """Describe the dropped responses: one sentence per reason, the most frequent first."""
        n_by_reason = Counter({reason: n_by_agent.total() for reason, n_by_agent in self._dropped.items()})
        for reason, n_responses in n_by_reason.most_common():
            counts = [f"{agent!r} {count:,}" for agent, count in self._dropped[reason].most_common()]
            counts_by_agent = _list_first(counts, noun=" agents")
            yield f"{n_responses:,} {reason} ({counts_by_agent}; first: {self._first_locations[reason]})"

    def _resolve_spelling_variants(self, kind: Literal["agent", "item"], ids: dict[str, str | None]) -> Iterator[str]:
        """Merge ids of agents, or of items, that differ only by spaces or case.

        Ids are not merged if they must be different: two agents that responded to the same item, or two items to which one
        agent responded.

        kind : whether the ids are those of agents or of items
        ids : `_groups` or `_item_prompts`, whose keys are all ids of this kind; changed in place

        Yields one sentence, for a note, per group of ids that are not merged.

        Raises: ImportFormatError [import-alike] if the ids of a group may be spellings of one id, and `merges` is False.
        """
        opposite_kind = "item" if kind == "agent" else "agent"
        for spellings in group_spelling_variants(ids):
            merged_cells = self._map_to_merged_cells(kind, spellings)
            names = ", ".join(map(repr, spellings[:MAX_LISTED]))
            # if two pairs of an agent and an item become one pair, the ids are different
            are_different = len(set(merged_cells.values())) < len(merged_cells)
            if are_different:
                yield f"The {kind}s {names} differ only by spaces or case, and were imported as different {kind}s"
            elif self.merges:
                self.add_note(f"{names} are treated as one {kind}: they differ only by spaces or case")
                for cell, merged_cell in merged_cells.items():
                    self._responses[merged_cell] = self._responses.pop(cell)
                for variant in spellings[1:]:
                    # the group of the agent, or the prompt of the item, may be stated under any spelling
                    value = ids.pop(variant)
                    ids[spellings[0]] = ids[spellings[0]] or value
            else:
                raise ImportFormatError(
                    f"The {kind}s {names} differ only by spaces or case, and no {opposite_kind} has responses under two of them. "
                    f"If they are one {kind}, set one spelling in the files; if they are several, set another name for one of "
                    "them.",
                    slug="import-alike",
                )

    def _map_to_merged_cells(
        self, kind: Literal["agent", "item"], ids_to_merge: Sequence[str]
    ) -> dict[tuple[str, str], tuple[str, str]]:
        """Return the new cell of each cell whose agent or item gets another id when several ids are merged.

        A cell is the id of an agent and the id of an item. Two cells get the same new cell if, for example, an agent responded
        to two of the merged items.

        kind : whether the ids are those of agents or of items
        ids_to_merge : at least two ids; the first one replaces the others

        Returns a dictionary: cell → new cell, only for cells with one of the ids.
        """
        merged_id = ids_to_merge[0]
        merged_cells = {}
        for agent, item in self._responses:
            if kind == "agent" and agent in ids_to_merge:
                merged_cells[agent, item] = merged_id, item
            elif kind == "item" and item in ids_to_merge:
                merged_cells[agent, item] = agent, merged_id
        return merged_cells

    def _build_pool(self) -> Pool:
        """Make the pool of all added responses.

        Repeats are several responses of an agent to an item. If all their labels are numbers, the repeats are ordered by
        label. Otherwise, the repeats keep the order in which they were added.
        """
        agents = []
        for name, group in self._groups.items():
            meta = {"alias": self._aliases[name]} if name in self._aliases else {}
            agents.append(Agent(name, group, meta))
        items = [Item(name, prompt) for name, prompt in self._item_prompts.items()]
        agent_positions = {name: position for position, name in enumerate(self._groups)}
        item_positions = {name: position for position, name in enumerate(self._item_prompts)}

        max_repeats = max(map(len, self._responses.values()))
        texts = np.full((max_repeats, len(agents), len(items)), None, dtype=np.object_)
        for (agent, item), texts_by_label in self._responses.items():
            for repeat, text in enumerate(_order_repeats(texts_by_label)):
                texts[repeat, agent_positions[agent], item_positions[item]] = text
        # one row per agent for the second repeat, then one row per agent for the third repeat, and so on
        repeat_texts = texts[1:].reshape(-1, len(items)) if max_repeats > 1 else None
        return Pool(tuple(agents), tuple(items), texts[0], name=self.name, repeat_texts=repeat_texts)


def _order_repeats(texts_by_label: Mapping[str | None, str]) -> list[str]:
    """Return the texts of repeated responses, ordered by label if all labels are whole numbers.

    Otherwise, the texts keep their order.

    texts_by_label : text of each repeat by its label; the label is None for a response without one
    """
    texts = list(texts_by_label.values())
    labels = [label for label in texts_by_label if label is not None and label.isdecimal()]
    if len(labels) < len(texts):
        return texts
    return [texts_by_label[label] for label in sorted(labels, key=int)]


class PromptItemIds:
    """Generates the ids of items from their prompts, for tables without ids.

    If an agent has several different responses to one prompt, each of them belongs to a separate item.

    make_id : function that returns the id of an item for its number, from 0, and its prompt; by default "item-0000" and so on
    """

    def __init__(self, make_id: Callable[[int, str], str] = lambda number, _: f"item-{number:04d}") -> None:
        self._make_id = make_id
        self._item_numbers: dict[tuple[str, int], int] = {}
        """(prompt, number among the items of the prompt, from 0) → number of the item among all items"""
        self._text_numbers: dict[tuple[str, str, str], dict[object, int]] = {}
        """(agent, prompt, repeat) → text → number of the text among the different texts, from 0"""

    def get_id(self, agent: str, prompt: str, text: object = None, *, repeat: object = None) -> str:
        """Return the id of the item to which a response belongs.

        Usually, each prompt is one item, which all agents share. However, an agent may have several different responses to a
        prompt with the same `repeat`. Its first response then belongs to the first item of the prompt, the second to a second
        item, and so on. The object remembers all earlier calls.

        agent : id of the agent
        prompt : prompt of the item
        text : the response, of a hashable type; equal texts belong to one item, and None is different from all others
        repeat : number or label of the repeat; responses with different labels may belong to one item

        Returns an id from `make_id`, the function of the object that gets the number and the prompt of an item; by default, ids
        are "item-0000" and so on. Items are numbered from 0 in the order in which they first occur. The prompt of a second
        item ends with " (2)".
        """
        text_numbers = self._text_numbers.setdefault((agent, prompt, str(repeat)), {})
        text_key = object() if text is None else text  # a new object equals no earlier text
        text_number = text_numbers.setdefault(text_key, len(text_numbers))  # the next number, if the text is new

        item_number = self._item_numbers.setdefault((prompt, text_number), len(self._item_numbers))
        unique_prompt = prompt if text_number == 0 else f"{prompt} ({text_number + 1})"
        return self._make_id(item_number, unique_prompt)


def _describe_incomplete_items(pool: Pool) -> Iterator[str]:
    """Yield one sentence about the items that lack the response of an agent; yield nothing if there are none."""
    is_missing = ~pool.present
    incomplete_items = np.flatnonzero(is_missing.any(axis=0))
    if len(incomplete_items) == 0:
        return

    descriptions = []
    for item_position in incomplete_items:
        missing_agents = np.flatnonzero(is_missing[:, item_position])[:MAX_LISTED]
        agent_ids = ", ".join(f"'{pool.agents[agent_position].id}'" for agent_position in missing_agents)
        descriptions.append(f"'{pool.items[item_position].id}' lacks {agent_ids}")
    listed = _list_first(descriptions, separator="; ")
    yield f"{len(descriptions):,} of {format_count(pool.n_items, 'item')} without responses of some agents: {listed}"


def _list_first(names: Sequence[str], n: int = MAX_LISTED, *, separator: str = ", ", noun: str = "") -> str:
    """List the first `n` names, and state how many more there are, as in "a, b and 3 more"; `noun` follows "more"."""
    listed = separator.join(names[:n])
    if len(names) <= n:
        return listed
    before_and = ";" if separator == "; " else ""
    return f"{listed}{before_and} and {len(names) - n:,} more{noun}"


def _to_id(value: object) -> str | None:
    """Convert an id to text; None if it is empty, or neither a text nor a whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) and value.strip() else None


def make_repeat_labels(repeat: T, n: int) -> list[T | int | str]:
    """Return one label for each of the `n` responses in a row, to distinguish repeated responses to an item.

    A single response gets the label of the row, `repeat`. Several responses of a row with the label "x" get the labels
    "x.1", "x.2", …; if the row has no label, they are numbered 1, 2, ….
    """
    if n == 1:
        return [repeat]
    if repeat is None:
        return list(range(1, n + 1))
    return [f"{repeat}.{nth}" for nth in range(1, n + 1)]


def _to_label(repeat: object) -> str | None:
    """Convert the label of a repeat to text; None if it is None, NaN or an empty text."""
    is_missing = repeat is None or repeat == "" or (isinstance(repeat, float) and np.isnan(repeat))
    return None if is_missing else _to_id(repeat) or str(repeat)


def _text_or_none(value: object) -> str | None:
    """Return a value that is a text and not empty, and None for all others."""
    return value if isinstance(value, str) and value else None
