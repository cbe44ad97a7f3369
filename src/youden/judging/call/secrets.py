"""Mask the secrets of this process in replies and errors: API keys and the passwords of URLs and stores.

The code that opens a connection or a store registers its secrets here. Replies are masked before they are stored (in
`reply`), and errors when they are created (in `failures`). In errors, parts of a secret are masked too.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from urllib.parse import quote

MIN_SECRET_CHARACTERS = 12
"""A shorter secret is not masked in answers: it could be a word, and masking it could change a verdict."""

_PART_CHARACTERS = 8
"""Length of the parts of a secret that are masked in errors; a shorter part could be a word."""

MASK = "***"


class KnownSecrets:
    """The registered secrets, in the forms in which they are searched for."""

    secrets: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None
    """Matches every form of every secret of at least `MIN_SECRET_CHARACTERS`; None if there are none."""
    parts: frozenset[str] = frozenset()
    """All parts of `_PART_CHARACTERS` of all forms."""
    short: tuple[str, ...] = ()
    """Secrets that are shorter than such a part."""


_registered = KnownSecrets()


def register_secrets(secrets: Iterable[str | None]) -> None:
    """Mask these secrets from now on; those below `MIN_SECRET_CHARACTERS` in errors only.

    Parameters
    ----------
    secrets : iterable of str or None
        None and empty strings are ignored.
    """
    new_secrets = {secret for secret in secrets if secret}
    if new_secrets <= _registered.secrets:
        return
    _registered.secrets |= new_secrets
    longest_first = sorted(_registered.secrets, key=len, reverse=True)

    long_secrets = [secret for secret in longest_first if len(secret) >= MIN_SECRET_CHARACTERS]
    forms = {form for secret in long_secrets for form in _iter_forms(secret)}
    alternatives = "|".join(map(re.escape, sorted(forms, key=len, reverse=True)))
    _registered.pattern = re.compile(alternatives) if forms else None

    all_forms = {form for secret in longest_first for form in _iter_forms(secret)}
    _registered.parts = frozenset(part for form in all_forms for part in _iter_parts(form))
    _registered.short = tuple(secret for secret in longest_first if len(secret) < _PART_CHARACTERS)


def _iter_parts(form: str) -> Iterator[str]:
    for start in range(len(form) - _PART_CHARACTERS + 1):
        yield form[start : start + _PART_CHARACTERS]


def mask_secrets(text: str) -> str:
    """Replace each secret of this process in a text by `***`, also if it is encoded in base64, JSON or a URL.

    Parameters
    ----------
    text : str

    Returns
    -------
    str

    Examples
    --------
    >>> register_secrets(["correct-horse-battery/1"])
    >>> mask_secrets("the key is correct-horse-battery%2F1")
    'the key is ***'
    """
    if _registered.pattern is None or len(text) < MIN_SECRET_CHARACTERS:
        return text
    return _registered.pattern.sub(MASK, text)


def has_secret(*texts: str) -> bool:
    """Return whether `mask_secrets` would mask a secret in any of the texts."""
    if _registered.pattern is None:
        return False
    return any(len(text) >= MIN_SECRET_CHARACTERS and _registered.pattern.search(text) for text in texts)


def mask_secret_parts(text: str) -> str:
    """Replace parts of secrets in a text by `***`: eight or more characters of a secret in any form, and short secrets.

    Examples
    --------
    >>> register_secrets(["sk-0123456789abcdef"])
    >>> mask_secret_parts("Incorrect key: sk-01234567****cdef.")
    'Incorrect key: *******cdef.'
    """
    is_masked = bytearray(len(text))
    for start in range(len(text) - _PART_CHARACTERS + 1):
        if text[start : start + _PART_CHARACTERS] in _registered.parts:
            is_masked[start : start + _PART_CHARACTERS] = b"\1" * _PART_CHARACTERS

    output = ""
    for is_secret, run in groupby(zip(text, is_masked, strict=True), key=itemgetter(1)):
        output += MASK if is_secret else "".join(character for character, _ in run)
    for secret in _registered.short:
        output = output.replace(secret, MASK)
    return output


def _iter_forms(secret: str) -> Iterator[str]:
    """Yield the forms that a secret can have in a text: plain, in JSON, in a URL, and in base64 at any offset."""
    yield secret
    yield from (json.dumps(secret)[1:-1], quote(secret), quote(secret, safe=""))
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + secret.encode()).decode()
        # leave out the characters that also depend on the bytes before and after the secret
        start = offset and offset + 1
        stop = len(encoded.rstrip("=")) - encoded.endswith("=")
        yield from (encoded[start:stop], encoded[start:stop].replace("+", "-").replace("/", "_"))
