"""Other people's text as a page may show it: characters that deceive a reader are made visible.

Markup is escaped later, where the text is drawn.
"""

from __future__ import annotations

import regex

from youden.text.printable import printable

_ACTING = regex.compile(r"[\p{Cc}\p{Cs}\p{Bidi_Control}\p{Zl}\p{Zp}--[\n\t]]", regex.V1)


def readable(text: str) -> str:
    r"""`text` with controls, lone surrogates and marks that turn the direction of reading spelt out; line breaks stay.

    >>> readable("a\u202eb\x00\n")
    'a\\u202eb\\x00\n'
    """
    return _ACTING.sub(lambda match: printable(match.group()), text.replace("\r\n", "\n"))


def clipped(text: str, limit: int) -> str:
    """`readable` text of at most `limit` characters, saying how much is left out.

    >>> clipped("abcdef", 4)
    'abcd … (2 more characters)'
    """
    if len(text) <= limit:
        return readable(text)
    return f"{readable(text[:limit])} … ({len(text) - limit:,} more characters)"
