"""The contract of a judge: what a backend is given, and the chat completion that it gives back.

It is given an address and the secrets that open it, which no repr shows; it is made when it is first needed, inside a cassette
where one plays. The OpenAI chat format stands here too: a request's body, a reply's completion, an error's fate.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from youden.judging.call.account_errors import ErrorParts, error_parts
from youden.judging.call.failures import CallError, Failure, http_error, in_words
from youden.judging.call.proxies import environment_proxy
from youden.judging.call.secrets import keep_secret
from youden.text.json_text import parse_json
from youden.types import Completion, Finding, Judge, Request


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
    """What a judge or a batch provider is built from."""

    name: str
    """Name of the judge."""
    address: str
    """Base URL without credentials."""
    timeout: float
    """Maximum duration of a call in seconds."""
    api_key: str | None = field(default=None, repr=False)
    """Key that is sent as a bearer token; None for an open server."""
    authorization: str | None = field(default=None, repr=False)
    """Value of the `Authorization` header, in place of a key; None if there is none."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Other secrets that a reply could quote, such as keys that a library reads from the environment."""

    def __post_init__(self) -> None:
        basic = (self.authorization or "").removeprefix("Basic ")
        proxy_passwords = url_passwords(environment_proxy(self.address) or "")
        keep_secret([self.api_key, self.authorization, basic, *self.secrets, *proxy_passwords])


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


def request_body(request: Request) -> dict[str, Any]:
    """What is sent to ask `request`."""
    messages = [{"role": one.role, "content": one.content} for one in request.messages]
    return {"model": request.model, "messages": messages, **request.parameters}


def parsed(body: bytes) -> object:
    """The JSON of a reply. Raises: CallError, to be tried again, where it is none."""
    try:
        return parse_json(body).value
    except ValueError as error:
        raise CallError(f"The reply is no JSON ({error}).", kind="retry") from None


def status_error(status: int, body: str | bytes, headers: Mapping[str, str]) -> CallError:
    """What an HTTP status that is no success says of itself; of a redirect, where it leads. headers: of any case."""
    try:
        parts = error_parts(parse_json(body).value)
    except ValueError:
        parts = ErrorParts((), body.decode(errors="replace") if isinstance(body, bytes) else body)
    message = f"moved to {_location(headers)}." if 300 <= status < 400 else parts.message
    reason = f"HTTP {status}: {in_words(message)}"
    return http_error(status, parts.codes, message, reason=reason, retry_after=retry_after(headers))


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
