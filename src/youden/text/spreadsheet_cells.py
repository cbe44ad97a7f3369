"""Guard texts that a spreadsheet would run as formulas, and remove the guards again.

A spreadsheet that opens a CSV file runs a field that begins as a formula does. A guarded field begins with an
apostrophe. Because some texts themselves begin with an apostrophe, a column `guarded` names the guarded columns of each
row; without that column, no apostrophe is removed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

V = TypeVar("V")

GUARDED = "guarded"
"""The column that names, separated by spaces, the guarded columns of each row."""

_GUARD = "'"
_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "|", "%")
_CONTROLS = ("\t", "\r", "\n")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def is_run_by_spreadsheets(text: str) -> bool:
    """Return whether a spreadsheet may run a field with this text as a formula.

    Examples
    --------
    >>> [is_run_by_spreadsheets(text) for text in ("=1+1", " ＠a", "\\tx", "a=b", "")]
    [True, True, True, False, False]
    """
    return text.lstrip().startswith(_STARTS) or text.startswith(_CONTROLS)


def is_number(text: str) -> bool:
    """Return whether a text is a plain number, which a spreadsheet shows as it is.

    Examples
    --------
    >>> [is_number(text) for text in ("-0.5", "+1e-3", "-1+2", "-")]
    [True, True, False, False]
    """
    return _NUMBER.fullmatch(text) is not None


def guard(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet may run as a formula; return other texts unchanged.

    Examples
    --------
    >>> guard("=1+1"), guard(" @a"), guard("a=b")
    ("'=1+1", "' @a", 'a=b')
    """
    return f"{_GUARD}{text}" if is_run_by_spreadsheets(text) else text


def remove_guards(row: Mapping[str, V]) -> dict[str, V]:
    """Remove the guards (apostrophes before texts that a spreadsheet would run) from the cells of a row.

    Parameters
    ----------
    row : mapping of str to object
        Cells by column; a column `guarded`, if there is one, names the guarded columns.

    Returns
    -------
    dict
        The row without the column `guarded`, and without the apostrophes of the columns that it names.

    Examples
    --------
    >>> remove_guards({"text": "'=1+1", "prompt": "'a", "guarded": "text"})
    {'text': '=1+1', 'prompt': "'a"}
    """
    cells: dict[str, Any] = dict(row)
    guarded = cells.pop(GUARDED, None)
    names = guarded.split() if isinstance(guarded, str) else []
    for name in names:
        cell = cells.get(name)
        if isinstance(cell, str):
            cells[name] = cell.removeprefix(_GUARD)
    return cells
