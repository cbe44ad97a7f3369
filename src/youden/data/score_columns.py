"""Convert the columns of a table of scores to numbers and ids, and average the scores of a model on an item.

Only the unique values of a column are converted, because those of a long table recur.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from math import inf, nan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from youden.data.pools.spool import format_excerpt
from youden.text.number_text import has_decimal_comma, to_number
from youden.types.columns import Field
from youden.types.pool import Bools, Floats, Positions

if TYPE_CHECKING:
    import pandas as pd

_MAX_FLOAT = 1e308
_MAX_NAMES = 10
"""Number of names that a message lists."""
_BEFORE_STD_ERROR = re.compile(r"\s*\(?(?:±|\+/?-)\s*")
_BLANKS = {"", "-", "–", "—", "?", "n/a", "na", "nan", "none", "null", "missing", "<na>", "nat"}


class ScoreColumn(NamedTuple):
    """Values of a column, and the numbers to which they are converted.

    Attributes
    ----------
    unique_values : list
        Unique values.
    unique_numbers : float array (n_unique,)
        Number of each unique value; NaN for a blank value and infinite for a text that is not a number.
    is_converted : bool array (n_unique,)
        Whether a value is neither blank nor a plain number, such as "45.2%" or "yes".
    codes : int array (n_rows,)
        Position of each row's value among the unique values.
    """

    unique_values: list[Field]
    unique_numbers: Floats
    is_converted: Bools
    codes: Positions

    @classmethod
    def from_values(cls, values: pd.Series) -> ScoreColumn:
        """Find the unique values of a column, and convert each to a number.

        values : one value per row (n_rows,), of any type; lists, objects and dates are converted to texts
        """
        import pandas as pd  # slow to import

        has_simple_type = isinstance(values.dtype, pd.StringDtype) or values.dtype.kind in "biuf"
        if not has_simple_type:
            values = values.astype(object).map(_simplify_value)
        codes, unique = pd.factorize(values, use_na_sentinel=False)
        unique_values = unique.tolist()

        # pandas converts plain numbers, such as 3 and "0.5", at once; all other values become NaN
        plain_numbers = pd.to_numeric(pd.Series(unique), errors="coerce")
        unique_numbers = plain_numbers.to_numpy(np.float64, na_value=np.nan, copy=True)
        is_plain = ~np.isnan(unique_numbers)
        if plain_numbers.dtype.kind == "b":
            is_plain[:] = False  # True and False are parsed below, like the words yes and no

        # other values, such as "45.2%" and yes, are parsed one by one; only blank values remain NaN
        for position in np.flatnonzero(~is_plain).tolist():
            unique_numbers[position] = _parse_score(unique_values[position])
        is_blank = np.isnan(unique_numbers)
        is_converted = ~is_plain & ~is_blank
        return cls(unique_values, unique_numbers, is_converted, codes)

    @property
    def converted(self) -> list[Field]:
        """Unique values that are neither blank nor plain numbers."""
        return [self.unique_values[position] for position in np.flatnonzero(self.is_converted).tolist()]

    @property
    def has_only_words(self) -> bool:
        """Whether there are words such as yes, and no other values except blank ones."""
        n_filled = int((~np.isnan(self.unique_numbers)).sum())
        return len(self.converted) == n_filled > 0 and all(map(is_word, self.converted))

    @property
    def has_words_for_fractions(self) -> bool:
        """Whether the column has words that fit only scores from 0 to 1, and no percentages from 0 to 100.

        The word yes, which is read as 1, fits only such scores. A word that is read as 0, such as fail, fits percentages, too:
        next to 80, it means 0%. However, a column of words without any number, such as pass and fail, has scores from 0 to 1.
        """
        is_nonzero = self.is_converted & (self.unique_numbers != 0)
        nonzero_values = [self.unique_values[position] for position in np.flatnonzero(is_nonzero).tolist()]
        return self.has_only_words or any(map(is_word, nonzero_values))

    def to_numbers(self) -> Floats:
        """Return the number of each row, NaN for a blank value and infinite for a text."""
        return np.asarray(self.unique_numbers[self.codes])

    def to_ids(self) -> NDArray[np.object_]:
        """Return the id of each row, "" for a blank value."""
        return np.array([make_id(value) for value in self.unique_values], dtype=object)[self.codes]


def _simplify_value(value: object) -> object:
    """Convert lists, objects, truth values, dates, durations and complex numbers to texts.

    An integer that is too large for a float becomes infinite.
    """
    if isinstance(value, list | dict | np.ndarray | bool | np.bool_ | date | timedelta | complex):
        return str(value)
    return inf if isinstance(value, int) and abs(value) > _MAX_FLOAT else value


def _is_blank(value: Field) -> bool:
    """Return whether a value, such as "n/a" or a dash, counts as a missing score."""
    return str(value).strip().casefold() in _BLANKS


def split_std_error(text: str) -> tuple[str, str]:
    """Split a score into its number and its error, which is empty if there is none.

    >>> split_std_error("45.2 ± 1.1"), split_std_error("0.81 (+/- 0.02)"), split_std_error("0.81")
    (('45.2', '1.1'), ('0.81', '0.02'), ('0.81', ''))
    """
    score, *errors = _BEFORE_STD_ERROR.split(text, maxsplit=1)
    return score, "".join(errors).strip(" )")


def is_word(value: Field) -> bool:
    """Return whether a value is a truth value or a word such as yes, instead of a number."""
    return isinstance(value, bool | np.bool_) or (isinstance(value, str) and value.strip().isalpha())


def is_percentage(value: Field) -> bool:
    """Return whether a value, or its error after ±, ends with a percent sign."""
    number, error = split_std_error(str(value))
    return number.rstrip().endswith("%") or error.rstrip().endswith("%")


CONVERSIONS: dict[str, Callable[[Field], bool]] = {
    "percentages divided by 100": is_percentage,
    "words such as yes and true read as 1, no and false as 0, tie as 0.5": is_word,
    "decimal commas read as points": lambda value: has_decimal_comma(split_std_error(str(value))[0]),
    "values after ± not used": lambda value: split_std_error(str(value))[1] != "",
}
"""Conversion of values to numbers → whether it applies to a value."""


def _parse_score(value: Field) -> float:
    """Convert a score to a number; the uncertainty after a score, as in 45.2 ± 1.1, is ignored.

    value : a number, or a text such as "0.5", "45.2%" or "yes"

    Returns NaN for a blank value such as "n/a", and infinity for a text that is not a score.
    """
    if _is_blank(value):
        return nan
    if not isinstance(value, str):
        number = to_number(value)
    else:
        score_text, _ = split_std_error(value)
        if is_percentage(value):  # "45.2 ± 1.1%" and "45.2% ± 1.1%" both become "45.2%"
            score_text = score_text.rstrip(" %") + "%"
        number = to_number(score_text)
    return inf if number is None else number


def make_id(value: Field) -> str:
    """Convert a value to an id, with single spaces. A whole float loses its ".0", and a Markdown link its address.

    The id of None and NaN is "".

    >>> make_id(" [a/b](https://example.org) "), make_id(3.0), make_id(None)
    ('a/b', '3', '')
    """
    if value is None or str(value) == "nan":
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = " ".join(str(value).split())
    link = re.fullmatch(r"\[(.+)\]\(\S*\)", text)
    return link[1] if link else text


def average_by_cell(scores: pd.DataFrame) -> tuple[list[str], list[str], Floats, Positions]:
    """Average the scores of each model on each item, because a table may have several scores of the same pair.

    scores : table with the columns `model`, `item` and `score`, without NaN

    Returns the ids of the models and the ids of the items, both in the order of the table, and two arrays (n_models,
    n_items). The first array has the mean scores, NaN if there is no score. The second has the numbers of scores.
    """
    model, model_ids = scores["model"].factorize()
    item, item_ids = scores["item"].factorize()
    shape = len(model_ids), len(item_ids)
    n_cells = shape[0] * shape[1]

    # number the cells row by row
    cell = model * shape[1] + item
    n_scores = np.bincount(cell, minlength=n_cells)
    total = np.bincount(cell, scores["score"], minlength=n_cells)
    mean = np.divide(total, n_scores, out=np.full(n_cells, np.nan), where=n_scores > 0)
    return list(map(str, model_ids)), list(map(str, item_ids)), mean.reshape(shape), n_scores.reshape(shape)


def format_names(names: Iterable[str]) -> str:
    """List names in a message, each once and in quotes; names after the first `_MAX_NAMES` become an ellipsis."""
    distinct = list(dict.fromkeys(names))
    ellipsis = ", …" if len(distinct) > _MAX_NAMES else ""
    return ", ".join(map(format_excerpt, distinct[:_MAX_NAMES])) + ellipsis if distinct else "none"
