"""Define what a backend is built from, and convert requests, replies and errors in the OpenAI chat format.

A backend gets an address and the secrets for it, which no repr shows. The judge of a backend is created when it is
first needed, and wrapped in the active cassette (a file of recorded answers), if there is one.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from youden.judging.call.account_errors import ErrorParts, parse_error_parts
from youden.judging.call.failures import CallError, Failure, make_http_error, to_text
from youden.judging.call.proxies import find_proxy
from youden.judging.call.reply_errors import find_reply_error
from youden.judging.call.secrets import register_secrets
from youden.text.json_text import parse_json
from youden.types import Completion, Finding, Judge, Request


def to_public_address(url: str) -> str:
    """Return a URL without credentials, query, fragment and trailing slash, so that it can be shown, stored and hashed.

    Examples
    --------
    >>> to_public_address("https://me:secret@host:8000/v1/?key=x")
    'https://host:8000/v1'
    """
    parts = urlsplit(url)
    _, _, host_and_port = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{host_and_port}{parts.path}".rstrip("/")


def make_basic_authorization(url: str) -> str | None:
    """Return the value of the `Authorization` header for the credentials in a URL; None if it has none."""
    parts = urlsplit(url)
    if parts.username is None:
        return None
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def find_url_passwords(url: str) -> tuple[str, ...]:
    """Return the password in a URL, percent-encoded and decoded; empty if there is none."""
    password = urlsplit(url).password or ""
    return tuple({password, unquote(password)} - {""})


@dataclass(frozen=True)
class Connection:
    """The server of a judge or a batch provider, with the secrets for it."""

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
        proxy_passwords = find_url_passwords(find_proxy(self.address) or "")
        register_secrets([self.api_key, self.authorization, basic, *self.secrets, *proxy_passwords])


@dataclass
class Backend:
    """A judge that is created when it is first needed, and how it may be called."""

    make: Callable[[], Judge]
    """Creates the judge, with its key."""
    live: bool = True
    """Whether calls reach a server; then rate limits apply, and the failure of one call may affect the next."""
    batches: bool = True
    """Whether its provider's Batch API may be used instead."""
    record: Callable[[Request, Completion | Failure], None] | None = None
    """Called with every request and its outcome; None if nothing is recorded."""
    _judge: Judge | None = field(default=None, init=False)

    def open(self) -> Judge:
        """Return the judge, creating it first if necessary.

        Raises
        ------
        YoudenError
            Whatever `make` raises, such as JudgeError [judge-no-key].
        """
        if self._judge is None:
            self._judge = self.make()
        return self._judge

    @property
    def has_fallback_server(self) -> bool:
        """Whether the judge has another server that can be tried after one failed."""
        return bool(getattr(self._judge, "has_fallback_server", False))

    def warnings(self) -> tuple[Finding, ...]:
        """Return the warnings of the judge about its servers."""
        warnings: tuple[Finding, ...] = getattr(self._judge, "warnings", tuple)()
        return warnings

    async def aclose(self) -> None:
        """Close the judge's connections, if it was created and has any."""
        if self._judge is not None and hasattr(self._judge, "aclose"):
            await self._judge.aclose()


def make_request_body(request: Request) -> dict[str, Any]:
    """Return the JSON body of a request in the OpenAI chat format."""
    messages = [{"role": message.role, "content": message.content} for message in request.messages]
    return {"model": request.model, "messages": messages, **request.parameters}


def parse_reply(body: bytes) -> object:
    """Parse the JSON of a reply.

    Raises
    ------
    CallError
        If the body is not valid JSON (kind `transient`), or a stream of events (kind `rejected`). If the first event of a stream
        is an error, this error is raised instead.
    """
    try:
        return parse_json(body, unique_keys=False).value
    except ValueError as error:
        # a stream of events begins with a field or, after a colon, with a comment
        if body.lstrip().startswith((b"data:", b"event:", b": ")):
            _raise_streamed_error(body)
            reason = (
                "The reply is a stream of events, which was not requested. Turn off streaming at the server or gateway."
            )
            raise CallError(reason, kind="rejected", status=400, unbilled=False) from None
        raise CallError(f"The reply is not valid JSON ({error}).", kind="transient") from None


def _raise_streamed_error(body: bytes) -> None:
    """Raise CallError if the first event in the body of a stream is an error."""
    event = re.search(rb"^data:(.*)", body, re.MULTILINE)
    with suppress(ValueError):
        error = find_reply_error(parse_json(event[1], unique_keys=False).value) if event else None
        if error is not None:
            raise error


def make_status_error(status: int, body: str | bytes, headers: Mapping[str, str]) -> CallError:
    """Build the error for a reply with an HTTP status other than 2xx.

    Parameters
    ----------
    status : int
        HTTP status of the reply.
    body : str or bytes
        Body of the reply: JSON with the error's codes and message, or the message itself.
    headers : mapping of str to str
        Headers of the reply; letter case does not matter. For a redirect (3xx), the reason contains its target in place of the
        server's message.

    Returns
    -------
    CallError
        Its reason is "HTTP STATUS: MESSAGE", with the whole body if that has no message. `make_http_error` determines its kind.
        `retry_after` is the wait in seconds that the headers ask for; None if they ask for none.
    """
    text = body.decode(errors="replace") if isinstance(body, bytes) else body
    try:
        parts = parse_error_parts(parse_json(body, unique_keys=False).value)
    except ValueError:
        parts = ErrorParts(codes=(), message=text)

    message = parts.message or text or "no message"
    is_redirect = 300 <= status < 400
    if is_redirect:
        message = f"moved to {_describe_redirect_target(headers)}."
    reason = f"HTTP {status}: {to_text(message)}"
    return make_http_error(status, parts.codes, message, reason=reason, retry_after=parse_retry_after(headers))


def _describe_redirect_target(headers: Mapping[str, str]) -> str:
    """Return the address in the Location header, without credentials and query."""
    lower_case_headers = {name.lower(): value for name, value in headers.items()}
    location = lower_case_headers.get("location", "")
    if "://" not in location:
        path, _, _ = location.partition("?")
        return path or "an unknown address"
    try:
        return to_public_address(location) or "an unknown address"
    except ValueError:
        return "an invalid address"


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Parse the time that the server asks to wait before the next attempt.

    Parameters
    ----------
    headers : mapping of str to str
        Headers of a reply. Retry-After (seconds, or a date) and Retry-After-Ms are read; letter case does not matter.

    Returns
    -------
    float or None
        Seconds, at least 0; None if the headers contain no valid time.
    """
    lower_case_headers = {name.lower(): value for name, value in headers.items()}
    for header, units_per_second in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(lower_case_headers[header]) / units_per_second
        except (KeyError, ValueError):
            continue
        return max(0.0, seconds)

    # Retry-After may be a date, which is compared with the time of the server
    try:
        retry_time = parsedate_to_datetime(lower_case_headers["retry-after"])
        server_time = parsedate_to_datetime(lower_case_headers["date"])
        seconds = (retry_time - server_time).total_seconds()
    except (LookupError, ValueError, TypeError, ArithmeticError):
        return None
    return max(0.0, seconds)
