"""Validate a reply before its answer is stored and its cost is booked.

A reply is untrusted: every field may have any type and any value. The fields that determine an answer (its text, its
log-probabilities) must be valid, or else the call has failed and may be sent again. Fields that only describe it (the
model's name, a fingerprint) are used if they are strings and dropped otherwise. The reported token usage is used if it
is possible for the request.

The decoded size of a reply is limited, so that no reply fills the memory. A body `{"error": …}` with the status 200,
which some gateways send, is an error.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from http.cookiejar import DefaultCookiePolicy
from typing import Any

from youden.judging.call.failures import CallError
from youden.judging.call.logprobs import find_first_token_alternatives, validate_logprobs
from youden.judging.call.reply_errors import UNKNOWN_STATUS, find_reply_error, object_or_empty
from youden.judging.call.reply_fields import (
    MAX_NAME_CHARACTERS,
    MAX_TOKEN_BYTES,
    MAX_TOKEN_COUNT,
    clean_name,
    describe_type,
    is_number,
    make_invalid_error,
    parse_count,
    require_object,
)
from youden.judging.call.secrets import has_secret, mask_secrets
from youden.text.printable import to_encodable
from youden.types import Completion, Request

MAX_REPLY_BYTES = 16_000_000
"""Largest size of a decompressed reply, a hundred times the longest text that a model writes."""


async def read_bounded(chunks: AsyncIterator[bytes], *, max_bytes: int = MAX_REPLY_BYTES) -> bytes:
    """Join the decompressed chunks of a body. Raises: CallError (transient) if the body is longer than `max_bytes`."""
    body: list[bytes] = []
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > max_bytes:
            raise CallError(
                f"The reply has more than {max_bytes / 1e6:g} MB, so no more of it was read.", kind="transient"
            )
        body.append(chunk)
    return b"".join(body)


NO_COOKIES = DefaultCookiePolicy(allowed_domains=())
"""Cookie policy that stores no cookie of a reply: a cookie that is not ASCII would break every later request."""

_PACKING_HEADERS = {b"content-encoding", b"content-length", b"transfer-encoding"}


async def read_response(response: Any) -> Any:
    """Read a streaming httpx response within the size limit.

    Parameters
    ----------
    response : httpx.Response
        Response whose body has not been read. It is closed.

    Returns
    -------
    httpx.Response
        A new response with the decompressed body.

    Raises
    ------
    CallError
        Of kind `transient`, if the body is larger than `MAX_REPLY_BYTES`.
    """
    try:
        body = await read_bounded(response.aiter_bytes())
    finally:
        await response.aclose()
    # bytes, because httpx refuses to encode a header that is not ASCII
    headers = [(name, value) for name, value in response.headers.raw if name.lower() not in _PACKING_HEADERS]
    return type(response)(response.status_code, headers=headers, content=body, request=response.request)


MAX_BYTES_PER_TOKEN, EXTRA_BYTES = 64, 4096
"""Longest answer: this many bytes per token of the requested limit, plus the extra bytes. The server of a longer answer
ignored the limit. The tokens with log-probabilities may have `EXTRA_BYTES` in all."""

MIN_ANSWER_LIMIT_TOKENS = 1024
"""The check of usage assumes at least this limit on answers: providers may not count reasoning against the limit."""

MAX_USAGE_FACTOR = 4
"""Accepted multiple of the largest possible usage: a provider may add a template, or reason beyond a limit."""


def parse_completion(reply: object, *, seconds: float) -> Completion:
    """Validate a chat reply and return its completion.

    Parameters
    ----------
    reply : object
        The reply, parsed from JSON.
    seconds : float
        Duration of the call.

    Returns
    -------
    Completion
        With token counts of 0 if either count is invalid; `check_usage` compares them with the request.

    Raises
    ------
    CallError
        Of kind `transient`, if the reply is not a valid completion; if the reply contains an error, of the kind that
        the error's code means.
    """
    error = find_reply_error(reply)
    if error is not None:
        raise error

    body = require_object(reply, "the reply")
    choice = require_object(_get_first_choice(body.get("choices")), "choices[0]")
    message = require_object(choice.get("message"), "the message")
    text, refusal_in_content = _join_content(message.get("content"))
    provider_fields = object_or_empty(message.get("provider_specific_fields"))
    refusal = message.get("refusal") or provider_fields.get("refusal") or refusal_in_content
    tokens_in, tokens_out = count_tokens(object_or_empty(body.get("usage")))

    completion = Completion(
        text=text,
        finish_reason=_get_finish_reason(choice),
        model=body.get("model") or "",
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        seconds=seconds,
        fingerprint=body.get("system_fingerprint"),
        refusal=refusal,
        top_logprobs=find_first_token_alternatives(choice.get("logprobs"), text, message),
    )
    completion = validate_completion(completion)

    is_empty = not (completion.text.strip() or completion.refusal or tokens_out)
    if is_empty and completion.finish_reason.casefold() in _COMPLETED:
        raise CallError(
            f"The reply is empty and reports no output tokens (finish reason '{completion.finish_reason}').",
            kind="transient",
            status=UNKNOWN_STATUS,
            unbilled=False,
        )
    return completion


def _get_finish_reason(choice: Mapping[str, Any]) -> Any:
    """Return the finish reason of a choice, or that of the provider if litellm replaced it by "stop"; it may have any type."""
    finish_reason = choice.get("finish_reason") or "unknown"
    if finish_reason == "stop":
        reason_of_provider = object_or_empty(choice.get("provider_specific_fields")).get("native_finish_reason")
        if isinstance(reason_of_provider, str) and reason_of_provider.casefold() != "stop":
            return reason_of_provider or finish_reason
    return finish_reason


_COMPLETED = ("stop", "end_turn", "eos", "eos_token", "abort", "unknown")
"""Finish reasons with which an empty reply is a fault of the server."""


def count_tokens(usage: Mapping[str, Any]) -> tuple[int, int]:
    """Count the tokens of the prompt, including cached ones, and of the answer, including reasoning.

    Some gateways do not count cached tokens in `prompt_tokens`, or reasoning in `completion_tokens`. These tokens are added if
    the other fields show that they are missing.

    Parameters
    ----------
    usage : mapping
        Field `usage` of a reply.

    Returns
    -------
    tokens_in, tokens_out : int
        Both are 0 if the reported number of tokens of the prompt or of the answer is invalid.
    """
    n_in = parse_count(usage.get("prompt_tokens", 0))
    n_out = parse_count(usage.get("completion_tokens", 0))
    if n_in is None or n_out is None:
        return 0, 0

    n_cached = parse_count(object_or_empty(usage.get("prompt_tokens_details")).get("cached_tokens")) or 0
    if n_cached > n_in:  # `prompt_tokens` cannot include the cached tokens
        n_in += n_cached
    details = object_or_empty(usage.get("completion_tokens_details"))
    n_reasoning = parse_count(details.get("reasoning_tokens")) or parse_count(usage.get("reasoning_tokens")) or 0
    if n_reasoning > n_out:  # `completion_tokens` cannot include the reasoning
        n_out += n_reasoning
    n_total = parse_count(usage.get("total_tokens")) or 0
    n_out_by_total = n_total - n_in  # larger than `n_out` if only the total includes the reasoning
    return n_in, max(n_out, n_out_by_total)


def validate_completion(reply: Completion) -> Completion:
    """Validate the fields of a reply, which is new or was stored in an earlier run, and mask the secrets in the fields.

    Parameters
    ----------
    reply : Completion
        Its fields may have any type.

    Returns
    -------
    Completion
        Its fields have the right types and contain no secrets of this process. Invalid fields that only describe the
        answer are dropped.

    Raises
    ------
    CallError
        Of kind `transient`, if the text or the log-probabilities are invalid.
    """
    if _has_only_simple_fields(reply):  # all fields are valid as they are
        texts = (reply.text, reply.finish_reason, reply.model, reply.fingerprint or "")
        if not has_secret(*texts):
            return reply

    if not isinstance(reply.text, str):
        raise make_invalid_error(f"the content is {describe_type(reply.text)}")
    tokens_in = parse_count(reply.tokens_in)
    tokens_out = parse_count(reply.tokens_out)
    if tokens_in is None or tokens_out is None:
        tokens_in = tokens_out = 0

    has_valid_seconds = is_number(reply.seconds) and 0 <= reply.seconds < math.inf
    seconds = reply.seconds if has_valid_seconds else 0.0
    refusal = _clean_text(reply.refusal) if isinstance(reply.refusal, str) else None
    return Completion(
        text=_clean_text(reply.text),
        finish_reason=clean_name(reply.finish_reason) or "unknown",
        model=clean_name(reply.model) or "",
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        seconds=seconds,
        fingerprint=clean_name(reply.fingerprint),
        refusal=refusal,
        top_logprobs=validate_logprobs(reply.top_logprobs),
    )


def _clean_text(text: str) -> str:
    """Return a text that can be encoded in UTF-8, and in which the secrets of this process are masked."""
    return mask_secrets(to_encodable(text))


def check_usage_for(
    completion: Completion, request: Request, *, answer_limit: int | None
) -> tuple[Completion, str | None]:
    """Check that the token counts that a provider reports are possible for a request.

    Counts are too small if a token would have more than 128 bytes. They are too large if they exceed 4 times the largest possible
    number of tokens.

    Parameters
    ----------
    completion : Completion
        Answer with the reported token counts.
    request : Request
        Request that was answered.
    answer_limit : int or None
        Largest number of tokens of an answer; None if nothing limits it. The check of the counts uses a limit of at
        least 1024. Without a limit, counts up to 10,000,000 (`MAX_TOKEN_COUNT`) are possible.

    Returns
    -------
    completion : Completion
        The same answer; a copy with token counts of 0 if the counts are not possible.
    usage_error : str or None
        What is wrong with the counts; None if they are possible, or if both are 0.

    Raises
    ------
    CallError
        Of kind `rejected`, if text and refusal together have more than 64 · `answer_limit` + 4096 bytes (without a limit, more
        than 16,000,000), or if the tokens with log-probabilities have more than 4096 bytes.
    """
    n_bytes, n_messages = count_request_bytes(request), len(request.messages)
    return check_usage(completion, n_bytes=n_bytes, n_messages=n_messages, answer_limit=answer_limit)


def check_usage(
    completion: Completion, *, n_bytes: int, n_messages: int, answer_limit: int | None
) -> tuple[Completion, str | None]:
    """Check that the token counts of a completion are possible for a request of a given size.

    Counts are too small if a token would have more than `MAX_TOKEN_BYTES` (128) bytes. They are too large if they exceed
    `MAX_USAGE_FACTOR` (4) times the largest possible number of tokens.

    Parameters
    ----------
    completion : Completion
        Answer with the reported token counts.
    n_bytes, n_messages : int
        Total size of the request's messages in UTF-8, and their number.
    answer_limit : int or None
        Largest number of tokens of an answer; None if nothing limits it. The check of the counts uses a limit of at
        least 1024. Without a limit, counts up to 10,000,000 (`MAX_TOKEN_COUNT`) are possible.

    Returns
    -------
    completion : Completion
        The same answer; a copy with token counts of 0 if the counts are not possible.
    usage_error : str or None
        What is wrong with the counts; None if they are possible, or if both are 0.

    Raises
    ------
    CallError
        Of kind `rejected`, if text and refusal together have more than 64 · `answer_limit` + 4096 bytes (without a limit, more
        than 16,000,000), or if the tokens with log-probabilities have more than 4096 bytes.
    """
    _check_length(completion, answer_limit)
    n_in, n_out = completion.tokens_in, completion.tokens_out
    if n_in == 0 and n_out == 0:
        return completion, None

    min_in = max(1, n_bytes // MAX_TOKEN_BYTES)
    max_in = MAX_USAGE_FACTOR * max_request_tokens(n_bytes, n_messages)
    min_out = math.ceil(_count_bytes(completion.text) / MAX_TOKEN_BYTES)
    max_out = MAX_TOKEN_COUNT
    if answer_limit is not None:
        max_out = MAX_USAGE_FACTOR * max(answer_limit, MIN_ANSWER_LIMIT_TOKENS)
    if min_in <= n_in <= max_in and min_out <= n_out <= max_out:
        return completion, None
    usage_error = (
        f"it reports {n_in:,} tokens in and {n_out:,} out for a request of {n_bytes:,} bytes, which is impossible"
    )
    return replace(completion, tokens_in=0, tokens_out=0), usage_error


def max_request_tokens(n_bytes: int, n_messages: int) -> int:
    """Compute the largest possible number of tokens of a request.

    No tokenizer makes more tokens than there are bytes; each message and the request itself add a few.

    Parameters
    ----------
    n_bytes, n_messages : int
        Total size of the request's messages in UTF-8, and their number.

    Returns
    -------
    int
        Upper limit of the number of tokens.
    """
    return n_bytes + 8 * n_messages + 8


def count_request_bytes(request: Request) -> int:
    """Count the bytes of all messages of a request in UTF-8.

    Parameters
    ----------
    request : Request
        Request whose messages are counted.

    Returns
    -------
    int
        Sum over the contents of all messages.
    """
    return sum([_count_bytes(message.content) for message in request.messages])


def _check_length(completion: Completion, answer_limit: int | None) -> None:
    """Check that the text of an answer, and its tokens with log-probabilities, are not too long to be stored.

    answer_limit : maximum number of tokens of an answer; None if the judge's config sets no maximum

    Raises: CallError (rejected) if the text or the tokens are too long.
    """
    max_text_bytes = MAX_REPLY_BYTES
    limit_description = ""
    if answer_limit is not None:
        max_text_bytes = MAX_BYTES_PER_TOKEN * answer_limit + EXTRA_BYTES
        limit_description = f" for a limit of {answer_limit:,} tokens"

    n_text_bytes = _count_bytes(completion.text)
    if completion.refusal is not None:
        n_text_bytes += _count_bytes(completion.refusal)
    n_token_bytes = sum([_count_bytes(token) for token, _log_probability in completion.top_logprobs])

    is_text_too_long = n_text_bytes > max_text_bytes
    if is_text_too_long or n_token_bytes > EXTRA_BYTES:
        n_bytes = n_text_bytes if is_text_too_long else n_token_bytes
        reason = f"The answer is too long: got {n_bytes:,} bytes{limit_description}. It is not stored."
        raise CallError(reason, kind="rejected")


def _count_bytes(text: str) -> int:
    """Count the bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _join_content(content: Any) -> tuple[Any, str | None]:
    """Join the parts of a message's content to two texts: the answer, and the refusal (None if there is none).

    Parts with reasoning are left out. If the content does not consist of parts, for example because it is a text, it is
    returned unchanged, and the refusal is None.

    content : text, part or list of parts; None for an empty text
    """
    if content is None:
        return "", None
    parts = _list_parts(content)
    if parts is None:
        return content, None

    answer_texts = [part["text"] for part in parts if _is_answer_part(part)]
    refusal_texts = [part["refusal"] for part in parts if part.get("type") == "refusal" and "refusal" in part]
    if not all(isinstance(text, str) for text in answer_texts + refusal_texts):
        return content, None
    return "".join(answer_texts), "".join(refusal_texts) or None


def _list_parts(content: object) -> list[dict[str, Any]] | None:
    """Return the parts of a message as JSON objects; None if the content is neither a part nor a list of parts.

    content : one part, an object with the field `text`; or list of parts, which may be texts or objects of any type
    """
    if isinstance(content, dict) and "text" in content:
        return [content]
    if not isinstance(content, list):
        return None
    parts = []
    for element in content:
        part = {"text": element} if isinstance(element, str) else element
        if not isinstance(part, dict):
            return None
        parts.append(part)
    return parts


def _is_answer_part(part: Mapping[str, Any]) -> bool:
    """Return whether a part of a message has a text of the answer, and not of the reasoning."""
    return part.get("type") in _TEXT_PARTS and not part.get("thought") and part.get("text") is not None


def join_contents(reply: object) -> bool:
    """Replace each message content that is a list of parts by one text, in place.

    Parameters
    ----------
    reply : object
        The reply, parsed from JSON. The new `content` of a message is the joined text of its parts. If a part is a refusal,
        its text is moved to the field `refusal` of the message.

    Returns
    -------
    bool
        Whether any content was replaced.
    """
    choices = object_or_empty(reply).get("choices")
    if not isinstance(choices, list):
        return False

    is_changed = False
    for choice in choices:
        message = object_or_empty(object_or_empty(choice).get("message"))
        content = message.get("content")
        if isinstance(content, list | dict):
            is_changed = True
            message["content"], refusal = _join_content(content)
            message["refusal"] = message.get("refusal") or refusal
    return is_changed


_TEXT_PARTS = ("text", "output_text", None)
"""Types of the parts of a content that hold an answer's text; some gateways omit the type."""


def _get_first_choice(choices: object) -> object:
    """Return the first element of `choices`. Raises: CallError (transient) if it is not a list, or empty."""
    if not isinstance(choices, list):
        raise make_invalid_error(f"choices is {describe_type(choices)}")
    if not choices:
        raise make_invalid_error("choices is an empty list")
    return choices[0]


def _has_only_simple_fields(completion: Completion) -> bool:
    """Return whether the fields of a completion are valid without any change, except for secrets that they may contain.

    This fast check holds for most completions: the texts are ASCII, names are short, numbers are valid, and there are
    neither log-probabilities nor a refusal. The fields are from JSON and may have any type.
    """
    text, seconds = completion.text, completion.seconds
    return (
        completion.top_logprobs == ()
        and completion.refusal is None
        and type(text) is str
        and text.isascii()
        and _is_simple_name(completion.finish_reason)
        and completion.finish_reason != ""
        and _is_simple_name(completion.model)
        and (completion.fingerprint is None or _is_simple_name(completion.fingerprint))
        and _is_simple_count(completion.tokens_in)
        and _is_simple_count(completion.tokens_out)
        and type(seconds) is float
        and 0 <= seconds < math.inf
    )


def _is_simple_name(value: object) -> bool:
    """Return whether a value is an ASCII text of at most `MAX_NAME_CHARACTERS` characters."""
    return type(value) is str and value.isascii() and len(value) <= MAX_NAME_CHARACTERS


def _is_simple_count(value: object) -> bool:
    """Return whether a value is a possible number of tokens. The type is compared by `is`, so that a bool is not an int."""
    return type(value) is int and 0 <= value <= MAX_TOKEN_COUNT
