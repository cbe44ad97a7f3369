"""What this process knows and nobody may be shown: keys in use, passwords of URLs and of stores.

Whoever opens a connection or a store tells its secrets here. Whatever a server said is masked before anything keeps it: answers
in `reply`, errors where they are made (`failures`), and there also where they quote only a part of a secret.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from urllib.parse import quote

SHORTEST = 12
"""Characters. A shorter secret could be a word of an answer, and masking it could change a verdict."""

_PART = 8
"""So many characters of a secret in a row are in no error; fewer may be a word."""

HIDDEN = "***"


class KnownSecrets:
    """The secrets so far, and what finds them. whole: any form of one, None while there are none; parts: of any form, `_PART`
    characters each; short: those that have no such part."""

    secrets: frozenset[str] = frozenset()
    whole: re.Pattern[str] | None = None
    parts: frozenset[str] = frozenset()
    short: tuple[str, ...] = ()


_known = KnownSecrets()


def keep_secret(secrets: Iterable[str | None]) -> None:
    """From now on these are masked; in answers those of `SHORTEST` characters or more."""
    told = {one for one in secrets if one}
    if not told <= _known.secrets:
        _known.secrets |= told
        longest_first = sorted(_known.secrets, key=len, reverse=True)
        forms = [form for one in longest_first if len(one) >= SHORTEST for form in _forms_of(one)]
        _known.whole = (
            re.compile("|".join(map(re.escape, sorted(set(forms), key=len, reverse=True)))) if forms else None
        )
        every_form = {form for one in longest_first for form in _forms_of(one)}
        _known.parts = frozenset(form[at : at + _PART] for form in every_form for at in range(len(form) - _PART + 1))
        _known.short = tuple(one for one in longest_first if len(one) < _PART)


def hidden(text: str) -> str:
    """`text` with `***` for each secret of this process, also in base64, in JSON or in a URL.

    >>> keep_secret(["correct-horse-battery/1"])
    >>> hidden("the key is correct-horse-battery%2F1")
    'the key is ***'
    """
    if _known.whole is None or len(text) < SHORTEST:
        return text
    return _known.whole.sub(HIDDEN, text)


def hidden_in_part(text: str) -> str:
    """`text` with `***` also for any part of a secret, or of its base64, that has 8 characters or more, and for short secrets.

    >>> keep_secret(["sk-0123456789abcdef"])
    >>> hidden_in_part("Incorrect key: sk-01234567****cdef.")
    'Incorrect key: *******cdef.'
    """
    masked = bytearray(len(text))
    for at in range(len(text) - _PART + 1):
        if text[at : at + _PART] in _known.parts:
            masked[at : at + _PART] = b"\1" * _PART
    runs = groupby(zip(text, masked, strict=True), key=itemgetter(1))
    text = "".join(HIDDEN if secret else "".join(letter for letter, _ in run) for secret, run in runs)
    for short in _known.short:
        text = text.replace(short, HIDDEN)
    return text


def _forms_of(secret: str) -> Iterator[str]:
    """How a text may hold `secret`: as it is, in JSON, in a URL, and in base64 wherever it stands in what was encoded."""
    yield secret
    yield from (json.dumps(secret)[1:-1], quote(secret), quote(secret, safe=""))
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + secret.encode()).decode()
        whole = encoded[before and before + 1 : len(encoded.rstrip("=")) - (encoded.endswith("="))]
        yield from (whole, whole.replace("+", "-").replace("/", "_"))
