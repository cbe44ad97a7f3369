"""Describe the columns of a table by their values, and list those that may have a role.

Costly properties are computed once, when they are first needed: most columns are ruled out by their names.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import ClassVar

from youden.data.importers.column_names import (
    ASKERS,
    NAMES,
    REPEAT_NUMBERS,
    SUBJECTS,
    get_name_priority,
    infer_role,
    is_part_of_response,
    split_into_words,
)
from youden.text.sentences import describe_similar_new_names
from youden.types.pool import Json

Row = Mapping[str, Json]
Values = Sequence[Hashable]
"""One value per row; None if the value is missing."""
FOLDER, FILE = "<folder>", "<file>"
"""Names of the columns that hold the folder and the file of each row."""
FILE_NUMBER = "<repeat>"
"""Name of the column that holds the number of a repeat in the name of each row's file or folder."""
_MAX_ID_LENGTH = 100
_SEPARATOR = " + "
"""Separator of the names of columns that are used as one."""
_NUMERIC = re.compile(r"[-+\d.,:/%$€£¥ TZ()]+|true|false", re.IGNORECASE)
_CONTACT = re.compile(r"\S+@\S+\.\w+|https?://\S+|[0-9a-f]{8}-[0-9a-f-]{20,}", re.IGNORECASE)
"""E-mail addresses, URLs and UUIDs."""
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_QUESTION_MARK_AT_END = re.compile(r"[?？]\W*$")


def collapse_spaces(text: str) -> str:
    """Replace each run of white space by one space, and encode accents in the form NFC, so that equal texts are equal."""
    return " ".join(unicodedata.normalize("NFC", text).split())


class ColumnValues:
    """The values of one column.

    Attributes
    ----------
    values : list
        One value per row.
    """

    def __init__(self, values: list[Json]) -> None:
        self.values = values

    @cached_property
    def value_texts(self) -> list[str | None]:
        """The values as texts in the form NFC, with each run of white space replaced by one space; None if missing."""
        return [None if value is None else collapse_spaces(str(value)) for value in self.values]

    @cached_property
    def texts(self) -> list[str]:
        """Texts of the values that are texts or lists of texts, without empty ones."""
        pairs = zip(self.values, self.value_texts, strict=True)
        return [text for value, text in pairs if text and (isinstance(value, str) or _are_texts(value))]

    @cached_property
    def distinct_texts(self) -> set[str]:
        """Distinct texts of the values, without empty ones."""
        return {text for text in self.value_texts if text}

    @cached_property
    def mean_length(self) -> float:
        """Mean number of characters of the texts; 0 for a column of numbers or times."""
        if all(map(_NUMERIC.fullmatch, self.texts)):
            return 0.0
        return sum(map(len, self.texts)) / len(self.texts)

    @property
    def is_text(self) -> bool:
        """Whether the column holds texts other than numbers and times."""
        return self.mean_length > 0

    @cached_property
    def mean_words(self) -> float:
        """Mean number of words; two characters of Chinese or Japanese count as one word."""
        if not self.is_text:
            return 0.0
        n_words = sum(len(text.split()) + len(_CJK.findall(text)) / 2 for text in self.texts)
        return n_words / len(self.texts)

    @cached_property
    def is_prose(self) -> bool:
        """Whether most values are texts with several words, unlike numbers, ids, paths and times."""
        n_with_words = sum(" " in text or len(_CJK.findall(text)) > 9 for text in self.texts)
        n_filled = sum(map(bool, self.value_texts))
        return self.is_text and n_with_words > n_filled / 2

    @property
    def is_long(self) -> bool:
        """Whether a value has several lines or is longer than an id."""
        return any(len(text) > _MAX_ID_LENGTH or len(text.strip().splitlines()) > 1 for text in self.texts)

    @property
    def filled_fraction(self) -> float:
        """Fraction of rows with a value that is not empty, in [0, 1]."""
        return sum(map(bool, self.value_texts)) / len(self.values)

    @property
    def is_repetitive(self) -> bool:
        """Whether there are at least two rows per distinct value, as for names and categories."""
        return len(self.distinct_texts) <= len(self.values) / 2

    @cached_property
    def is_contact(self) -> bool:
        """Whether most texts are e-mail addresses, URLs or UUIDs."""
        n_contacts = sum(bool(_CONTACT.fullmatch(text)) for text in self.texts)
        return n_contacts > len(self.texts) / 2

    @cached_property
    def question_fraction(self) -> float:
        """Fraction of texts that are questions, in [0, 1]."""
        n_questions = sum(text.startswith("¿") or bool(_QUESTION_MARK_AT_END.search(text)) for text in self.texts)
        return n_questions / max(1, len(self.texts))

    def compute_word_overlap(self, other_column: ColumnValues) -> float:
        """Return how many words the column has in common with another one, as a fraction in [0, 1].

        The overlap of a row is the Jaccard similarity of its two texts: the number of words in both texts, divided by the
        number of words in at least one text. The result is the mean of the first 200 rows. Rows in which a text has no words
        are left out. If no row remains, the result is 0.
        """
        overlaps = []
        for text_a, text_b in zip(self.value_texts[:200], other_column.value_texts[:200], strict=True):
            words_a, words_b = _split_words(text_a or ""), _split_words(text_b or "")
            if words_a and words_b:
                n_shared = len(words_a & words_b)
                overlaps.append(n_shared / len(words_a | words_b))
        return sum(overlaps) / max(1, len(overlaps))


class TableColumns(dict[str, ColumnValues]):
    """Columns of a table by name, where "a + b" is a combined column.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__()
        self._rows = rows
        self.n_rows = len(rows)

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns with at least one value, in order."""
        all_names = dict.fromkeys(chain.from_iterable(self._rows))
        return [name for name in all_names if any(value is not None for value in self[name].values)]

    def __missing__(self, name: str) -> ColumnValues:
        column = self[name] = ColumnValues([get_value(row, name) for row in self._rows])
        return column

    def join_columns(self, names: Sequence[str]) -> list[str | None]:
        """Return one text per row that joins the values of several columns, such as "gpt / v2".

        The text is None if one of the values is missing, and empty if there are no columns.
        """
        return self[join_names(names)].value_texts if names else [""] * self.n_rows

    def count_shared_cells(self, agents: Sequence[str], item: str) -> int:
        """Count the responses that could be compared with a response of another agent to the same item.

        For example, if agents "a" and "b" responded to item 1, and only "a" responded to item 2, the result is 2. Each pair
        of an agent and an item counts once. Rows without an agent or an item are ignored.

        The result is 0 if the column `item` seems to hold categories instead of items. There are two such cases, in which all
        rows of the table count:

        - The column has only one value, and the count is smaller than the number of rows.
        - The count is smaller than half of the rows, and the name of the column suggests categories: it contains a word for
          subjects or for authors of questions, or suggests no role at all.

        agents : columns that together name an agent
        item : column that may identify the items
        """
        agents_by_item: dict[str, set[str]] = {}
        for agent, item_text in zip(self.join_columns(agents), self[item].value_texts, strict=True):
            if agent and item_text:
                agents_by_item.setdefault(item_text, set()).add(agent)

        n_shared = sum(len(item_agents) for item_agents in agents_by_item.values() if len(item_agents) > 1)
        is_single_category = len(agents_by_item) == 1 and n_shared < self.n_rows
        are_categories = may_name_categories(item) and n_shared < self.n_rows / 2
        return 0 if is_single_category or are_categories else n_shared

    def are_crossed(self, agents: Sequence[str], item: str) -> bool:
        """Return whether columns seem to contain agents and items, and not categories.

        The result is True in two cases:

        - There are more items than agents, and the number of rows is at least 0.9 · n_agents · n_items · n_repeats, with
          n_repeats the largest number of rows of one (agent, item) pair.
        - The number of different (agent, item) pairs is at least 80% of the number of rows, and at least half of
          n_agents · n_items.

        Rows without an agent or an item are ignored. Without other rows, the result is True.

        agents : columns that together name an agent
        item : column that may identify the items
        """
        pairs = zip(self.join_columns(agents), self[item].value_texts, strict=True)
        cells = [(agent, item_text) for agent, item_text in pairs if agent and item_text]
        n_rows_by_cell = Counter(cells)
        n_agents = len({agent for agent, _ in n_rows_by_cell})
        n_items = len({item_text for _, item_text in n_rows_by_cell})
        n_pairs, n_repeats = n_agents * n_items, max(n_rows_by_cell.values(), default=0)
        is_balanced = n_items > n_agents and len(cells) >= 0.9 * n_pairs * n_repeats
        return is_balanced or len(n_rows_by_cell) >= max(0.8 * len(cells), 0.5 * n_pairs)


def may_name_categories(column: str) -> bool:
    """Return whether the name of a column suggests no role, or subjects or authors of questions."""
    is_category_name = not split_into_words(column).isdisjoint(SUBJECTS | ASKERS)
    return is_category_name or infer_role(column) is None


def are_determined_by(values: Values, *keys: Values) -> bool:
    """Return whether rows with the same keys have the same value, so that the keys determine the value."""
    return len(set(zip(*keys, strict=True))) == len(set(zip(*keys, values, strict=True)))


def _are_texts(value: Json) -> bool:
    """Return whether a value is a list of texts, or a nested list of texts."""
    return isinstance(value, list) and all(isinstance(element, str) or _are_texts(element) for element in value)


def join_names(columns: Sequence[str]) -> str:
    """Return the name of a combined column, such as "a + b", which `get_value` can read."""
    return _SEPARATOR.join(columns)


def split_names(column: str, columns: Collection[str] = ()) -> list[str]:
    """Return the names of the columns that form a combined column, such as "a + b"; one name if `columns` contains `column`."""
    return [column] if column in columns else column.split(_SEPARATOR)


def split_composite(text: str, columns: Collection[str]) -> tuple[str, ...] | None:
    """Split a text such as `subject+id` into the names of the columns that it joins.

    Returns None if the text is the name of a single column, or if one of the columns does not exist.
    """
    names = tuple(name.strip() for name in text.split("+"))
    is_composite = len(names) > 1 and text not in columns and all(name in columns for name in names)
    return names if is_composite else None


def split_text_columns(option: str, columns: Collection[str]) -> list[str]:
    """Split the value of the option `text` at its commas into the names of columns, which may themselves contain commas.

    >>> split_text_columns("Prod (v3, live),v4", ["Prod (v3, live)", "v4"])
    ['Prod (v3, live)', 'v4']
    """
    names: list[str] = []
    parts = option.split(",")
    while parts:
        # the longest name of a column; the next part if there is none, because it may be a path
        lengths = range(len(parts), 0, -1)
        n_parts = next((n for n in lengths if ",".join(parts[:n]) in columns), 1)
        names.append(",".join(parts[:n_parts]))
        parts = parts[n_parts:]
    return names


def get_value(row: Row, column: str) -> Json:
    """Return the value of a column, or the joined values of a combined column; None if a value is missing."""
    if column in row or _SEPARATOR not in column:
        return row.get(column)
    values = [row.get(name) for name in split_names(column)]
    return None if None in values else " / ".join(map(str, values))


def _split_words(text: str) -> set[str]:
    """Return the Chinese or Japanese characters of a text; if there are none, its words."""
    characters = _CJK.findall(text)
    return set(characters or text.casefold().split())


class UnclearColumnsError(Exception):
    """The roles of the columns of a table are ambiguous.

    Attributes
    ----------
    problem : str
        Description of the ambiguity.
    options : dict of str to str
        Column by role that would resolve it; empty if none is known.
    """

    def __init__(self, problem: str, **options: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.options = options


def with_similar_ids(problem: str, item_ids: Iterable[str]) -> str:
    """Add to the problem that agents share no item which ids of items differ so little that they may mean the same.

    >>> with_similar_ids("'b' shares no item", ["1", "1.0"]).rpartition(" count as ")[2]
    "different: '1', '1.0'; write each name alike in all files)"
    """
    similar_ids = describe_similar_new_names((), item_ids)
    return f"{problem} ({similar_ids})" if similar_ids else problem


class ColumnCandidates:
    """Columns of a table that may have a role; lists begin with the most reliable candidate.

    Attributes
    ----------
    table : TableColumns
        Columns of the rows that have a response.
    all_names : list of str
        Columns with a value in any row, also in rows without a response.
    given : mapping of str to str
        Column by role, as named by the user.
    location_columns : sequence of str
        Columns that hold the folder and the file of a row.
    columns_by_role : dict of str to list of str
        Columns whose names suggest a role, by role; None for columns whose names suggest none.
    text_columns, prompt_columns, item_columns, unnamed_columns : list of str
        Candidates for responses, for prompts and for ids of items; and columns whose names suggest no role.
    given_text_columns : list of str
        Columns that the user named for responses.
    """

    AGENT_NAMES: ClassVar = frozenset({"agent", "model"})
    """Names of columns that may hold agents even if their values do not recur."""
    MIN_WORDS: ClassVar = 4
    """Minimum mean number of words of a column with repeated values that holds texts instead of categories."""
    ROW_PER_AGENT: ClassVar = (
        "each row seems to hold all responses of one agent; transpose the table, so that each agent has a column"
    )
    """Problem of a table that has a row per agent."""

    def __init__(self, rows: Sequence[Row], location_columns: Sequence[str], given: Mapping[str, str]) -> None:
        self.location_columns = location_columns
        self.given = given
        self.table = TableColumns(rows)
        self.all_names = self.table.names
        self.given_text_columns = (
            split_text_columns(given["text"], set(chain.from_iterable(rows))) if "text" in given else []
        )

        self.columns_by_role = self._group_by_role()
        self.text_columns = self._find_text_columns()

        # Rows without a response may lack other values, too.
        if self.text_columns:
            answered_rows = [row for row in rows if row.get(self.text_columns[0]) is not None]
            if answered_rows:
                self.table = TableColumns(answered_rows)

        self.unnamed_columns = self.get_candidates(None)
        self.prompt_columns = [*self.get_candidates("prompt"), *self.text_columns[1:]]
        self.item_columns = self._find_item_columns()

    def _group_by_role(self) -> dict[str | None, list[str]]:
        """Group the names of the columns by role, such as "agent", "item" or "text".

        A column that the user named for a role is the only one of this role. Otherwise, all columns whose names suggest the
        role are listed. Columns that state the folder or the file of a row are left out unless the user named them.

        Returns a dictionary: role → names of columns, the most reliable first. The key None has the columns whose names
        suggest no role.
        """
        columns_by_role: dict[str | None, list[str]] = {}
        excluded = {*self.given_text_columns, *self.given.values(), *self.location_columns}
        for name in self.table.names:
            if name not in excluded:
                columns_by_role.setdefault(infer_role(name), []).append(name)

        for role in NAMES.keys() & columns_by_role.keys():
            columns_by_role[role].sort(key=partial(get_name_priority, role=role))

        columns_by_role |= {role: [column] for role, column in self.given.items()}
        return columns_by_role

    def _find_text_columns(self) -> list[str]:
        """Return the columns that may hold responses; parts of responses, such as their reasoning, come last."""
        candidates = self.get_candidates("text")
        if "text" in self.given:
            return candidates
        return sorted([name for name in candidates if self.table[name].is_text], key=is_part_of_response)

    def _find_item_columns(self) -> list[str]:
        """Return the columns that may identify items, because they hold ids, prompts or unknown values; contact data come last.

        A column whose name suggests the number of a repeat, such as "sample", is a last resort. It is returned only if no
        column has ids or prompts.
        """
        item_columns = self.get_candidates("item")
        if "item" in self.given:
            return item_columns
        unnamed_columns = self.unnamed_columns
        if item_columns or self.prompt_columns:
            unnamed_columns = [name for name in unnamed_columns if not REPEAT_NUMBERS & split_into_words(name)]
        contacts_last = sorted(unnamed_columns, key=lambda name: self.table[name].is_contact)
        return list(filter(self.can_be_id, (*item_columns, *self.prompt_columns, *contacts_last)))

    def can_be_id(self, name: str) -> bool:
        """Return whether the values of a column may identify items: texts, whole numbers, or lists of texts."""
        values = self.table[name].values
        are_whole = all(value.is_integer() for value in values if isinstance(value, float))
        return are_whole and not any(isinstance(value, bool | dict) for value in values)

    def get_candidates(self, role: str | None) -> list[str]:
        """Return the column that the user named for a role, or else the columns whose names suggest it."""
        return self.columns_by_role.get(role, [])
