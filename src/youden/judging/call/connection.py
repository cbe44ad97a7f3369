"""How a backend reaches its model: an address and the secrets that open it, which no repr shows."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from youden.judging.call.failures import CallError


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
        """`text` with every secret of this connection replaced by `***`."""
        basic = (self.authorization or "").removeprefix("Basic ")
        for secret in (self.api_key, self.authorization, basic, *self.secrets):
            if secret:
                text = text.replace(secret, "***")
        return text

    def redacted(self, error: CallError) -> CallError:
        """`error` without a secret in its reason."""
        return CallError(self.redact(error.reason), kind=error.kind, status=error.status, retry_after=error.retry_after)
