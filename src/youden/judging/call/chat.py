"""The OpenAI chat format on the wire: a request's body, a reply's completion, an error's fate."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from youden.judging.call.failures import CallError, fate
from youden.nouns import Completion, Request


def request_body(request: Request) -> bytes:
    """The JSON that asks `request`."""
    return orjson.dumps({"model": request.model, "messages": request.messages, **request.parameters})


def completion(body: str | bytes, *, seconds: float) -> Completion:
    """The completion that a chat reply's JSON holds.

    Raises: CallError, to be tried again, where the reply is not one.
    """
    try:
        return completion_of(orjson.loads(body), seconds=seconds)
    except ValueError as error:
        raise _broken(error) from None


def completion_of(reply: Any, *, seconds: float) -> Completion:
    """The completion that a chat reply, parsed, holds. Raises: as `completion`."""
    try:
        choice = reply["choices"][0]
        message = choice["message"]
        usage = reply.get("usage") or {}
        return Completion(
            text=_text(message.get("content")),
            finish_reason=choice.get("finish_reason") or "unknown",
            model=reply.get("model") or "",
            tokens_in=int(usage.get("prompt_tokens") or 0),
            tokens_out=int(usage.get("completion_tokens") or 0),
            seconds=seconds,
            fingerprint=reply.get("system_fingerprint"),
            refusal=message.get("refusal") or (message.get("provider_specific_fields") or {}).get("refusal"),
            top_logprobs=_top_logprobs(choice.get("logprobs")),
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise _broken(error) from None


def _broken(error: Exception) -> CallError:
    return CallError(f"The reply is no chat completion ({type(error).__name__}: {error}).", kind="retry")


def status_error(status: int, body: str | bytes, headers: Mapping[str, str]) -> CallError:
    """What an HTTP error says of itself. headers: of any case."""
    try:
        said = orjson.loads(body)
        error = said.get("error", said)
        message, code = error.get("message"), error.get("code") or error.get("type")
    except (ValueError, AttributeError):
        message, code = body.decode(errors="replace") if isinstance(body, bytes) else body, None
    kind = fate(status, code if isinstance(code, str) else None)
    return CallError(f"HTTP {status}: {message}", kind=kind, status=status, retry_after=retry_after(headers))


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


def _text(content: Any) -> str:
    if content is None:
        return ""
    if not isinstance(content, str):
        raise TypeError(f"content is a {type(content).__name__}")
    return content


def _top_logprobs(logprobs: Any) -> tuple[tuple[str, float], ...]:
    """The alternatives of the first token that is not blank."""
    for token in (logprobs or {}).get("content") or []:
        if token["token"].strip():
            return tuple((one["token"], float(one["logprob"])) for one in token.get("top_logprobs") or [])
    return ()
