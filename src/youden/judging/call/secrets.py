"""Mask the secrets of this process in replies and errors: API keys and the passwords of URLs and stores.

The code that opens a connection or a store registers its secrets here. Replies are masked before they are stored (in
`reply`), and errors when they are created (in `failures`). In errors, parts of a secret are masked too.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

MIN_SECRET_CHARACTERS = 12
"""A shorter secret is not masked in answers: it could be a word, and masking it could change a verdict."""

_PART_CHARACTERS = 8
"""Length of the parts of a secret that are masked in errors; a shorter part could be a word."""

MASK = "***"


class KnownSecrets:
    """The registered secrets, and the encoded texts and parts that are searched for."""

    secrets: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None
    """Matches every encoding of every secret of at least `MIN_SECRET_CHARACTERS` characters; None if there are none."""
    parts: frozenset[str] = frozenset()
    """All substrings of `_PART_CHARACTERS` characters of all encodings of all secrets."""
    shorter_than_part: tuple[str, ...] = ()
    """Secrets that are shorter than such a part, the longest first."""


_registered = KnownSecrets()


def register_secrets(secrets: Iterable[str | None]) -> None:
    """Register secrets, which are masked in errors and replies from now on.

    In errors, a secret is masked even if only a part of it occurs, because some servers repeat a shortened key. A secret with
    fewer than `MIN_SECRET_CHARACTERS` characters is masked in errors, but not in replies.

    Parameters
    ----------
    secrets : iterable of str or None
        Secrets, such as API keys. None and empty strings are ignored.
    """
    new_secrets = {secret for secret in secrets if secret}
    if new_secrets <= _registered.secrets:
        return
    _registered.secrets |= new_secrets
    _registered.pattern = _compile_pattern(_registered.secrets)

    # a part of a secret has `_PART_CHARACTERS` characters; errors may also contain it in an encoded form, such as base64
    parts: set[str] = set()
    for secret in _registered.secrets:
        for encoded_secret in _iter_encodings(secret):
            parts.update(_iter_parts(encoded_secret))
    _registered.parts = frozenset(parts)

    shorter_than_part = [secret for secret in _registered.secrets if len(secret) < _PART_CHARACTERS]
    _registered.shorter_than_part = tuple(sorted(shorter_than_part, key=len, reverse=True))


def _compile_pattern(secrets: Iterable[str]) -> re.Pattern[str] | None:
    """Compile a pattern that finds secrets in replies, in all their encodings; None if all secrets are too short to be masked."""
    encoded_secrets: set[str] = set()
    for secret in secrets:
        if len(secret) >= MIN_SECRET_CHARACTERS:
            encoded_secrets.update(_iter_encodings(secret))
    if not encoded_secrets:
        return None

    # the pattern takes the first alternative that fits, so longer texts come before texts that they contain
    longest_first = sorted(encoded_secrets, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)))


def _iter_parts(encoded_secret: str) -> Iterator[str]:
    """Yield all substrings of `_PART_CHARACTERS` characters."""
    for start in range(len(encoded_secret) - _PART_CHARACTERS + 1):
        yield encoded_secret[start : start + _PART_CHARACTERS]


def mask_secrets(text: str) -> str:
    """Replace each secret of this process in a text by `***`, also if it is encoded in base64, JSON or a URL.

    Parameters
    ----------
    text : str
        Any text, such as a reply of a server.

    Returns
    -------
    str
        The text without secrets.

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
    """Replace parts of secrets in a text by `***`.

    A part consists of eight or more consecutive characters of a secret, in plain text or encoded. A secret with fewer than eight
    characters is replaced as a whole.

    Examples
    --------
    >>> register_secrets(["sk-0123456789abcdef"])
    >>> mask_secret_parts("Incorrect key: sk-01234567****cdef.")
    'Incorrect key: *******cdef.'
    """
    is_secret = [False] * len(text)  # per character
    for start in range(len(text) - _PART_CHARACTERS + 1):
        part = slice(start, start + _PART_CHARACTERS)
        if text[part] in _registered.parts:
            is_secret[part] = [True] * _PART_CHARACTERS

    masked_text = _mask_characters(text, is_secret)
    for secret in _registered.shorter_than_part:
        masked_text = masked_text.replace(secret, MASK)
    return masked_text


def _mask_characters(text: str, is_secret: list[bool]) -> str:
    """Replace the characters of a text that belong to a secret by `***`.

    A run of such characters, however long, is replaced by one mask, so that the length of the secret is not shown.

    text : text that may contain parts of API keys or passwords
    is_secret : for each character of the text, whether it belongs to a secret

    Returns the text with the masks.
    """
    masked_text = ""
    was_secret = False
    for character, is_masked in zip(text, is_secret, strict=True):
        if not is_masked:
            masked_text += character
        elif not was_secret:
            masked_text += MASK
        was_secret = is_masked
    return masked_text


def _iter_encodings(secret: str) -> Iterator[str]:
    """Yield the texts that can represent a secret: the secret itself, and its encodings in JSON, in a URL and in base64."""
    yield secret
    json_without_quotes = json.dumps(secret)[1:-1]
    yield from (json_without_quotes, quote(secret), quote(secret, safe=""))
    for n_bytes_before in (0, 1, 2):
        base64_text = _encode_base64_at_offset(secret, n_bytes_before)
        yield base64_text
        yield base64_text.replace("+", "-").replace("/", "_")  # the alphabet for URLs


def _encode_base64_at_offset(secret: str, n_bytes_before: int) -> str:
    """Return the characters by which a secret is found in the base64 encoding of a longer text that contains the secret.

    Base64 encodes each group of three bytes by four characters. The result therefore depends on where in a group the secret
    begins. Characters that also encode bytes before or after the secret are left out.

    n_bytes_before : number of bytes in the group before the secret: 0, 1 or 2
    """
    encoded = base64.b64encode(bytes(n_bytes_before) + secret.encode()).decode()

    # skip the characters that encode bytes before the secret; a character encodes 6 bits
    start = math.ceil(8 * n_bytes_before / 6)

    # with padding (=), the group is incomplete: in a longer text, its last character also encodes the next byte
    stop = len(encoded)
    if encoded.endswith("="):
        stop = len(encoded.rstrip("=")) - 1
    return encoded[start:stop]
