"""Says whether a name is safe to show: in a terminal, and in a spreadsheet that opens a CSV file with it.

A spreadsheet runs a field that begins with `=`, `+`, `-` or `@`, quoted or not. No way of escaping it in the file leaves the
name as it was for everybody else who reads the file, so such a name is refused where it is read.
"""

from __future__ import annotations

import re

_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def acts(name: str) -> str | None:
    r"""What is wrong with a name that acts instead of being shown, and what to do; None for all others.

    Control characters and line ends act; so does a formula. A plain number is none.

    >>> acts("gpt-4o"), acts("-3"), acts("a\x1b[2J")
    (None, None, 'holds the control character U+001B. Take it out.')
    """
    if control := _CONTROL.search(name):
        return f"holds the control character U+{ord(control[0]):04X}. Take it out."
    if name.lstrip().startswith(_FORMULA) and not _NUMBER.fullmatch(name):
        return f"begins with {name.lstrip()[0]!r}, which a spreadsheet runs. Begin it otherwise."
    return None
