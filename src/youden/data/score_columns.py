"""Convert the columns of a table of scores to numbers and ids.

Only the unique values of a column are converted, because those of a long table recur.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from math import inf, nan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from youden.data.label_tables import has_decimal_comma, to_number
from youden.types.columns import Field
from youden.types.pool import Bools, Floats, Positions

if TYPE_CHECKING:
    import pandas as pd

_MAX_FLOAT = 1e308
_BLANKS = {"", "-", "–", "—", "?", "n/a", "na", "nan", "none", "null", "missing", "<na>", "nat"}


class ScoreColumn(NamedTuple):
    """Values of a column.

    Attributes
    ----------
    unique : list
        Unique values.
    number : float array (n_unique,)
        Their numbers, NaN for a blank value and infinite for a text that is no number.
    is_converted : bool array (n_unique,)
        Whether a value is neither blank nor a plain number.
    code : int array (n_rows,)
        Position of each row's value among the unique values.
    """

    unique: list[Field]
    number: Floats
    is_converted: Bools
    code: Positions

    @classmethod
    def from_values(cls, values: pd.Series) -> ScoreColumn:
        """Find the unique values; lists, objects and dates count as texts."""
        import pandas as pd  # takes long to load

        if not isinstance(values.dtype, pd.StringDtype) and values.dtype.kind not in "biuf":
            values = values.astype(object).map(_simplify)
        code, unique = pd.factorize(values, use_na_sentinel=False)
        numbers = pd.to_numeric(pd.Series(unique), errors="coerce")
        number = numbers.to_numpy(np.float64, na_value=np.nan, copy=True)
        unique_values = unique.tolist()
        is_converted = np.isnan(number) | (numbers.dtype.kind == "b")
        for position in np.flatnonzero(is_converted).tolist():
            number[position] = _parse(unique_values[position])
        return cls(unique_values, number, is_converted & ~np.isnan(number), code)

    @property
    def converted(self) -> list[Field]:
        """Unique values that are neither blank nor plain numbers."""
        return [self.unique[position] for position in np.flatnonzero(self.is_converted).tolist()]

    @property
    def has_only_words(self) -> bool:
        """Whether there are words such as yes, and no other values except blank ones."""
        n_filled = int((~np.isnan(self.number)).sum())
        return len(self.converted) == n_filled > 0 and all(map(is_word, self.converted))

    def to_numbers(self) -> Floats:
        """Return the number of each row, NaN for a blank value and infinite for a text."""
        return np.asarray(self.number[self.code])

    def to_ids(self) -> NDArray[np.object_]:
        """Return the id of each row, "" for a blank value."""
        return np.array([make_id(value) for value in self.unique], dtype=object)[self.code]


def _simplify(value: object) -> object:
    """Convert lists, objects and dates to texts, and integers that are too large for a float to infinity."""
    if isinstance(value, list | dict | np.ndarray | date):
        return str(value)
    return inf if isinstance(value, int) and abs(value) > _MAX_FLOAT else value


def _is_blank(value: Field) -> bool:
    """Return whether a value counts as missing."""
    return str(value).strip().casefold() in _BLANKS


def is_word(value: Field) -> bool:
    """Return whether a value is a truth value or a word such as yes, instead of a number."""
    return isinstance(value, bool | np.bool_) or (isinstance(value, str) and value.strip().isalpha())


def is_percentage(value: Field) -> bool:
    """Return whether a value ends with a percent sign."""
    return str(value).rstrip().endswith("%")


CONVERSIONS: dict[str, Callable[[Field], bool]] = {
    "percentages divided by 100": is_percentage,
    "words such as yes and true read as 1, no and false as 0, tie as 0.5": is_word,
    "decimal commas read as points": lambda value: has_decimal_comma(str(value).partition("±")[0]),
    "values after ± not used": lambda value: "±" in str(value),
}
"""Conversion of values to numbers → whether it applies to a value."""


def _parse(value: Field) -> float:
    """Convert a number, or a text such as 0.5, 45.2% or 45.2 ± 1.1; NaN if it is blank, infinite if it is no number."""
    if _is_blank(value):
        return nan
    number = to_number(value.partition("±")[0] if isinstance(value, str) else value)
    return inf if number is None else number


def make_id(value: Field) -> str:
    """Convert a value to an id: white space is normalized, and of a Markdown link only the text is kept.

    >>> make_id(" [a/b](https://example.org) "), make_id(3.0), make_id(None)
    ('a/b', '3', '')
    """
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    text = "" if number is None or str(number) == "nan" else " ".join(str(number).split())
    link = re.fullmatch(r"\[(.+)\]\(\S*\)", text)
    return link[1] if link else text
