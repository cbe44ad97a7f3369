"""What a backend is given and what it gives back: the contract of a judge, and a chat completion.

How a backend reaches its model: an address and the secrets that open it, which no repr shows.

Whom a run asks: a judge that is made when it is first needed, and what a cassette around it changes.

The OpenAI chat format on the wire: a request's body, a reply's completion, an error's fate.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cache
from itertools import groupby
from operator import itemgetter
from urllib.parse import SplitResult, unquote, urlsplit

import orjson

from youden.judging.call.failures import CallError, Failure, fate, in_words
from youden.judging.call.reply import checked
from youden.judging.call.secrets import forms_of, keep_secret
from youden.nouns import Completion, Finding, Judge, Request

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
    forms = {form for secret in secrets for form in forms_of(secret)}
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

    def __post_init__(self) -> None:
        keep_secret(self._all_secrets())

    def redact(self, text: str) -> str:
        """`text` with every secret of this connection, any part of one, and either in base64, replaced by `***`."""
        return masked(text, self._all_secrets())

    def _all_secrets(self) -> tuple[str, ...]:
        basic = (self.authorization or "").removeprefix("Basic ")
        secrets = (self.api_key or "", self.authorization or "", basic, *self.secrets)
        return tuple(sorted(filter(None, secrets), key=len, reverse=True))

    def redacted(self, error: CallError) -> CallError:
        """`error` without a secret in its reason."""
        return CallError(
            self.redact(error.reason),
            kind=error.kind,
            status=error.status,
            retry_after=error.retry_after,
            free=error.free,
        )


@dataclass
class Backend:
    """make: the judge, with its key. live: whether a server may be asked, so that it is spared and a failure says something of
    the next call. batches: whether its provider may be sent batches instead. record: told of every request and what came of it;
    None where nobody listens."""

    make: Callable[[], Judge]
    live: bool = True
    batches: bool = True
    record: Callable[[Request, Completion | Failure], None] | None = None
    _judge: Judge | None = field(default=None, init=False)

    def open(self) -> Judge:
        """The judge. Raises: what `make` raises, such as JudgeError [judge-no-key]."""
        if self._judge is None:
            self._judge = self.make()
        return self._judge

    @property
    def has_others(self) -> bool:
        """Whether a server is there to be asked after another one of the judge's failed."""
        return bool(getattr(self._judge, "has_others", False))

    def warnings(self) -> tuple[Finding, ...]:
        """What has to be said of the judge's servers."""
        said: tuple[Finding, ...] = getattr(self._judge, "warnings", tuple)()
        return said

    async def aclose(self) -> None:
        """Let go of the judge, where it was made and holds something."""
        if self._judge is not None and hasattr(self._judge, "aclose"):
            await self._judge.aclose()


def request_body(request: Request) -> bytes:
    """The JSON that asks `request`."""
    return orjson.dumps({"model": request.model, "messages": request.messages, **request.parameters})


def completion(body: str | bytes, *, seconds: float) -> Completion:
    """The completion that a chat reply's JSON holds.

    Raises: CallError as `checked`.
    """
    try:
        reply = orjson.loads(body)
    except ValueError as error:
        raise CallError(f"The reply is no chat completion ({error}).", kind="retry") from None
    return checked(reply, seconds=seconds)


def status_error(status: int, body: str | bytes, headers: Mapping[str, str]) -> CallError:
    """What an HTTP status that is no success says of itself; of a redirect, where it leads. headers: of any case."""
    message: object
    try:
        said = orjson.loads(body)
        error = said.get("error", said)
        message, code = error.get("message"), error.get("code") or error.get("type")
    except (ValueError, AttributeError):
        message, code = body.decode(errors="replace") if isinstance(body, bytes) else body, None
    if 300 <= status < 400:
        message = f"moved to {_location(headers)}."
    kind = fate(status, code if isinstance(code, str) else None)
    reason = f"HTTP {status}: {in_words(message)}"
    return CallError(reason, kind=kind, status=status, retry_after=retry_after(headers))


def _location(headers: Mapping[str, str]) -> str:
    """Where a redirect leads, without credentials and query."""
    where = next((value for name, value in headers.items() if name.lower() == "location"), "")
    try:
        return (public_address(where) if "://" in where else where.partition("?")[0]) or "an address it does not say"
    except ValueError:
        return "an address that cannot be read"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds until the server wants to be asked again, None where it does not say."""
    lower = {name.lower(): value for name, value in headers.items()}
    for header, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return max(0.0, float(lower[header]) / unit)
        except (KeyError, ValueError):
            continue
    try:
        asked, now = parsedate_to_datetime(lower["retry-after"]), parsedate_to_datetime(lower["date"])
        return max(0.0, (asked - now).total_seconds())
    except (LookupError, ValueError, TypeError, ArithmeticError):
        return None
