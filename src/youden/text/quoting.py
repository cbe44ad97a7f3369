"""Puts other people's text into Markdown so that it is shown, not obeyed."""

from __future__ import annotations

import regex

from youden.text.printable import printable

_ACTING = regex.compile(r"([\\`*_{}\[\]<>()#+!|~@&$])")


def quoted(text: str) -> str:
    """Other people's text so that Markdown shows it as it is, on one line.

    >>> quoted("a|b <i> @all")
    'a\\\\|b \\\\<i\\\\> \\\\@all'
    """
    return _ACTING.sub(r"\\\1", printable(text))
