"""The OpenAI chat format on the wire: a request's body, a reply's completion, an error's fate."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import orjson

from youden.judging.call.connection import public_address
from youden.judging.call.failures import CallError, fate
from youden.judging.call.reply import checked
from youden.nouns import Completion, Request


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
    return CallError(f"HTTP {status}: {message}", kind=kind, status=status, retry_after=retry_after(headers))


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
    except (KeyError, ValueError, TypeError):
        return None
