"""Describes the columns of a table by their values: texts, prose, ids, repeated values, and cells that line up."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain

from youden.data.importers.column_names import ASKERS, SUBJECTS, role_of_name, words_of
from youden.types.pool import Json

Row = Mapping[str, Json]
FOLDER, FILE = "<folder>", "<file>"
"""TableColumns with the folder and the file of each row."""
FILE_NUMBER = "<repeat>"
"""ColumnValues with the number of a repeat in the name of each row's file or folder."""
_TOGETHER = " + "
SHORT = 100
"""Most characters of an id or a name."""
_NUMERIC = re.compile(r"[-+\d.,:/%$€£¥ TZ()]+|true|false", re.IGNORECASE)
_CONTACT = re.compile(r"\S+@\S+\.\w+|https?://\S+|[0-9a-f]{8}-[0-9a-f-]{20,}", re.IGNORECASE)
"""E-mail addresses, URLs and UUIDs."""
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_ASKS = re.compile(r"[?？]\W*$|^¿")


class ColumnValues:
    """The values of one column, extracted once.

    Attributes
    ----------
    values : list
        One value per row.
    keys : list of (str or None)
        The same as text, with runs of spaces as one; None if missing.
    """

    def __init__(self, values: list[Json]) -> None:
        self.values = values
        self.keys = [None if value is None else " ".join(str(value).split()) for value in values]

    @cached_property
    def texts(self) -> list[str]:
        """The values that are texts, or lists of texts, without runs of spaces."""
        return [
            key
            for value, key in zip(self.values, self.keys, strict=True)
            if key and (isinstance(value, str) or _are_texts(value))
        ]

    @cached_property
    def distinct(self) -> set[str]:
        return {key for key in self.keys if key}

    @cached_property
    def mean_length(self) -> float:
        """Mean length of the texts; 0 for a column of numbers or times."""
        if all(map(_NUMERIC.fullmatch, self.texts)):
            return 0.0
        return sum(map(len, self.texts)) / len(self.texts)

    @property
    def is_text(self) -> bool:
        return self.mean_length > 0

    @cached_property
    def mean_words(self) -> float:
        """Mean number of words; two characters of Chinese or Japanese count as one."""
        n_words = (len(text.split()) + len(_CJK.findall(text)) / 2 for text in self.texts)
        return sum(n_words) / len(self.texts) if self.is_text else 0.0

    @cached_property
    def is_prose(self) -> bool:
        """Whether most texts have several words, as no id, path or time has."""
        several = sum(" " in text or len(_CJK.findall(text)) > 9 for text in self.texts)
        return self.is_text and several > len(self.texts) / 2

    @property
    def repeats(self) -> bool:
        """Whether few values fill the column, as names and categories do."""
        return len(self.distinct) <= len(self.values) / 2

    @cached_property
    def is_contact(self) -> bool:
        """Whether the values are e-mail addresses, URLs or UUIDs."""
        return sum(bool(_CONTACT.fullmatch(text)) for text in self.texts) > len(self.texts) / 2

    @cached_property
    def share_asking(self) -> float:
        """Share of texts that are questions."""
        return sum(bool(_ASKS.search(text)) for text in self.texts) / max(1, len(self.texts))

    @property
    def can_be_id(self) -> bool:
        """Whether the values may name items: texts, whole numbers, or lists of texts."""
        values = [value for value in self.values if value is not None]
        is_fraction = (isinstance(value, float) and not value.is_integer() for value in values)
        return not any(isinstance(value, bool | dict) for value in values) and not any(is_fraction)

    @property
    def is_long(self) -> bool:
        """Whether the values are texts rather than ids."""
        texts = [value for value in self.values if isinstance(value, str)]
        return any(len(text) > SHORT or len(text.strip().splitlines()) > 1 for text in texts)


class TableColumns(dict[str, ColumnValues]):
    """The columns of a table by name; several names joined by " + " are one column."""

    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__()
        self._rows = rows
        self.n_rows = len(rows)
        self.names = [
            name
            for name in dict.fromkeys(chain.from_iterable(rows))
            if any(value is not None for value in self[name].values)
        ]

    def __missing__(self, name: str) -> ColumnValues:
        column = self[name] = ColumnValues([value(row, name) for row in self._rows])
        return column

    def keys_of(self, names: Sequence[str]) -> list[str | None]:
        """Return one key per row, of several columns together; None if a part is missing."""
        if len(names) == 1:
            return self[names[0]].keys
        parts = [self[name].keys for name in names]
        together = zip(*parts, strict=True) if parts else [()] * self.n_rows
        return [None if None in row else " / ".join(map(str, row)) for row in together]

    def n_lined_up(self, agents: Sequence[str], item: str) -> int:
        """Return the number of cells of items to which two agents or more responded."""
        having: dict[str, set[str]] = {}
        for agent, one in zip(self.keys_of(agents), self[item].keys, strict=True):
            if agent and one:
                having.setdefault(one, set()).add(agent)
        n_cells = sum(len(names) for names in having.values() if len(names) > 1)
        names_group = role_of_name(item) is None or (SUBJECTS | ASKERS) & words_of(item)
        is_category = n_cells < self.n_rows and (len(having) == 1 or (names_group and n_cells < self.n_rows / 2))
        return 0 if is_category else n_cells


def _are_texts(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) or _are_texts(one) for one in value)


def joined(columns: Sequence[str]) -> str:
    """Name columns that are taken together as one, as `value` reads them."""
    return _TOGETHER.join(columns)


def value(row: Row, column: str) -> Json:
    """Return the value of a column; of columns that are taken together, all their values."""
    if column in row or _TOGETHER not in column:
        return row.get(column)
    values = [row.get(name) for name in column.split(_TOGETHER)]
    return None if None in values else " / ".join(map(str, values))


def mean_overlap(one: ColumnValues, other: ColumnValues) -> float:
    """Return the mean share of words that two texts of a row have in common."""
    shares = []
    for first, second in zip(one.keys[:200], other.keys[:200], strict=True):
        words, others = ({*(_CJK.findall(text) or text.casefold().split())} for text in (first or "", second or ""))
        if words and others:
            shares.append(len(words & others) / len(words | others))
    return sum(shares) / max(1, len(shares))
