"""Makes text safe to show on a terminal: judged text and ids are other people's, and may hold control sequences."""

from __future__ import annotations

import unicodedata

_ACTING = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def printable(text: str) -> str:
    r"""`text` with every character that acts instead of showing (controls, bidi overrides, lone surrogates) spelt out.

    >>> printable("a\x1b[31mred\n")
    'a\\x1b[31mred\\n'
    """
    if text.isprintable():
        return text
    return "".join(_spelt(character) if unicodedata.category(character) in _ACTING else character for character in text)


def _spelt(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
