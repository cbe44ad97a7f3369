"""How a backend reaches its model: an address and the secrets that open it, which no repr shows."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from operator import itemgetter
from urllib.parse import SplitResult, unquote, urlsplit

from youden.judging.call.failures import CallError

_SHORTEST_PART = 8
"""So many characters of a secret in a row are shown to nobody; fewer may be a word."""


def masked(text: str, secrets: tuple[str, ...]) -> str:
    """`text` with `***` for each of `secrets`, and for any part of one or of its base64 that has 8 characters or more.

    >>> masked("Incorrect key: sk-01234567****cdef.", ("sk-0123456789abcdef",))
    'Incorrect key: *******cdef.'
    """
    pieces = _pieces(secrets)
    hidden = bytearray(len(text))
    for start in range(len(text) - _SHORTEST_PART + 1):
        if text[start : start + _SHORTEST_PART] in pieces:
            hidden[start : start + _SHORTEST_PART] = b"\1" * _SHORTEST_PART
    runs = groupby(zip(text, hidden, strict=True), key=itemgetter(1))
    text = "".join("***" if secret else "".join(letter for letter, _ in run) for secret, run in runs)
    for short in secrets:
        text = text.replace(short, "***") if len(short) < _SHORTEST_PART else text
    return text


@cache
def _pieces(secrets: tuple[str, ...]) -> frozenset[str]:
    """Every part of `_SHORTEST_PART` characters of the secrets as they are, and in base64 wherever they stand in it."""
    forms = set(secrets)
    for secret in secrets:
        for before in range(3):
            encoded = base64.b64encode(bytes(before) + secret.encode()).decode().rstrip("=")[before and before + 1 :]
            forms |= {encoded, encoded.replace("+", "-").replace("/", "_")}
    return frozenset(
        form[start : start + _SHORTEST_PART] for form in forms for start in range(len(form) - _SHORTEST_PART + 1)
    )


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def public_address(url: str) -> str:
    """A URL without credentials, query, fragment or trailing slash: what may be shown, stored and hashed.

    >>> public_address("https://me:secret@host:8000/v1/?key=x")
    'https://host:8000/v1'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{_host(parts)}{parts.path}".rstrip("/")


def basic_authorization(url: str) -> str | None:
    """The `Authorization` header for credentials in a URL, None where it has none."""
    parts = urlsplit(url)
    if parts.username is None:
        return None
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def url_passwords(url: str) -> tuple[str, ...]:
    """The password in a URL, as written and as meant."""
    password = urlsplit(url).password or ""
    return tuple({password, unquote(password)} - {""})


@dataclass(frozen=True)
class Connection:
    """What a backend is built from.

    name: the judge's. address: base URL without credentials. timeout: seconds a call may take.
    api_key: sent as a bearer token; authorization: a whole header instead; both None for an open server.
    secrets: others that a reply could quote, such as keys that a library finds in the environment by itself.
    """

    name: str
    address: str
    timeout: float
    api_key: str | None = field(default=None, repr=False)
    authorization: str | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def redact(self, text: str) -> str:
        """`text` with every secret of this connection, any part of one, and either in base64, replaced by `***`."""
        basic = (self.authorization or "").removeprefix("Basic ")
        secrets = (self.api_key or "", self.authorization or "", basic, *self.secrets)
        return masked(text, tuple(sorted(filter(None, secrets), key=len, reverse=True)))

    def redacted(self, error: CallError) -> CallError:
        """`error` without a secret in its reason."""
        return CallError(
            self.redact(error.reason),
            kind=error.kind,
            status=error.status,
            retry_after=error.retry_after,
            free=error.free,
        )
