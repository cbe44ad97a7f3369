"""What of a reply is believed, and how much of it is read, before anything of it is kept or paid for.

A reply is another machine's text: every field may hold any type and any number. What an answer rests on (its text, its odds)
has to be right, or the call failed and may be tried again. What only describes it (the model's name, a fingerprint) is taken
where it is a string and left out where it is not. What it says it used is believed within what the request can have used.

Its decoded size has a bound, so that no reply fills the memory. Some gateways send `{"error": …}` with the status 200: that is an
error.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from http.cookiejar import DefaultCookiePolicy
from typing import Any

from youden.judging.call.failures import CallError
from youden.judging.call.reply_errors import UNKNOWN_STATUS, error_inside, object_or_empty
from youden.judging.call.secrets import hidden
from youden.text.printable import sendable
from youden.text.reasoning import split_reasoning
from youden.types import Completion, Request

MAX_REPLY_BYTES = 16_000_000
"""Of a reply, unpacked. The longest text that a model writes is a hundredth of it."""


async def read_bounded(chunks: AsyncIterator[bytes], *, max_bytes: int = MAX_REPLY_BYTES) -> bytes:
    """Join unpacked chunks of a body. Raises: CallError of kind `retry` at the first byte beyond `max_bytes`."""
    parts: list[bytes] = []
    size = 0
    async for part in chunks:
        size += len(part)
        if size > max_bytes:
            raise CallError(f"The reply has more than {max_bytes / 1e6:g} MB, so no more of it was read.", kind="retry")
        parts.append(part)
    return b"".join(parts)


NO_COOKIES = DefaultCookiePolicy(allowed_domains=())
"""Stores no cookie of a reply: one that is not ASCII would break every later request."""

_PACKING_HEADERS = {"content-encoding", "content-length", "transfer-encoding"}


async def read_response(response: Any) -> Any:
    """Read a streaming httpx response within the size limit; return one that holds the unpacked body. Raises: CallError."""
    try:
        body = await read_bounded(response.aiter_bytes())
    finally:
        await response.aclose()
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in _PACKING_HEADERS]
    return type(response)(response.status_code, headers=headers, content=body, request=response.request)


LONGEST_TOKEN = 128
"""Bytes. No known tokenizer has a longer token, so fewer tokens than bytes / 128 cannot be true."""

TOKEN, ROOM = 64, 4096
"""Bytes that an answer may have for each token that was asked for, and beside: a longer one was not bounded by its server.
Log-probabilities have `ROOM` of their own."""

REASONING = 1024
"""Tokens. A shorter limit on answers is taken for this one when usage is checked: hosts may not count reasoning against it."""

BEYOND = 4
"""A host may add a template or think beyond a limit: so many times the most that a request shows is believed."""

MOST_TOKENS = 10_000_000
"""No reply is longer, and no context; sums of such numbers fit every column."""

LONGEST_NAME = 200
ROUNDING = 1e-3
"""Log-probabilities so little above 0 are rounding, and are 0."""


def checked(reply: object, *, seconds: float) -> Completion:
    """The completion that a chat reply, parsed from JSON, holds.

    tokens_in and tokens_out are both 0 where either is no count; `check_usage` compares them with the request.

    Raises: CallError, to be tried again, where the reply is no completion that can be trusted; as `error_inside` where it is an
    error with a status that says otherwise.
    """
    if (error := error_inside(reply)) is not None:
        raise error
    whole = _object(reply, "the reply")
    choice = _object(_first(whole.get("choices")), "choices[0]")
    message = _object(choice.get("message"), "the message")
    usage, own = object_or_empty(whole.get("usage")), object_or_empty(message.get("provider_specific_fields"))
    text, declined = _joined(message.get("content"))
    n_out = tokens_in_answer(usage)
    ended = choice.get("finish_reason") or "unknown"
    completion = trusted(
        Completion(
            text=text,
            finish_reason=ended,
            model=whole.get("model") or "",
            tokens_in=usage.get("prompt_tokens", 0),
            tokens_out=usage.get("completion_tokens", 0) if n_out is None else n_out,
            seconds=seconds,
            fingerprint=whole.get("system_fingerprint"),
            refusal=message.get("refusal") or own.get("refusal") or declined,
            top_logprobs=_alternatives(choice.get("logprobs"), text, message),
        )
    )
    is_empty = not (completion.text.strip() or completion.refusal or n_out)
    if is_empty and completion.finish_reason.casefold() in _NOTHING_MORE:
        raise CallError(
            f"The reply is empty and reports no tokens (finish reason '{completion.finish_reason}').",
            kind="retry",
            status=UNKNOWN_STATUS,
            free=False,
        )
    return completion


_NOTHING_MORE = ("stop", "end_turn", "eos", "eos_token", "abort", "unknown")


def tokens_in_answer(usage: Mapping[str, Any]) -> int | None:
    """Return the number of tokens of the answer, reasoning included; 0 without a usage, None if a count in it is invalid.

    Some gateways do not count reasoning in `completion_tokens`, but only in `total_tokens` or in the details.
    """
    n_in, n_out = _count(usage.get("prompt_tokens", 0)), _count(usage.get("completion_tokens", 0))
    if n_in is None or n_out is None:
        return None
    details = object_or_empty(usage.get("completion_tokens_details"))
    reasoning = _count(details.get("reasoning_tokens")) or _count(usage.get("reasoning_tokens")) or 0
    total = _count(usage.get("total_tokens")) or 0
    return max(n_out, total - n_in, n_out + reasoning if reasoning > n_out else 0)


def trusted(reply: Completion) -> Completion:
    """Return a completion whose fields have their types and contain no secret of this process; also for stored answers.

    Raises: CallError of kind `retry`, if its text or its log-probabilities are invalid.
    """
    shown = (reply.text, reply.finish_reason, reply.model, reply.fingerprint)
    if _is_plain(reply) and all(hidden(text) == text for text in shown if text is not None):
        return reply
    if not isinstance(reply.text, str):
        raise _broken(f"the content is {_kind(reply.text)}")
    tokens_in, tokens_out = _count(reply.tokens_in), _count(reply.tokens_out)
    if tokens_in is None or tokens_out is None:
        tokens_in = tokens_out = 0
    return Completion(
        text=hidden(sendable(reply.text)),
        finish_reason=_name(reply.finish_reason) or "unknown",
        model=_name(reply.model) or "",
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        seconds=reply.seconds if _is_number(reply.seconds) and 0 <= reply.seconds < math.inf else 0.0,
        fingerprint=_name(reply.fingerprint),
        refusal=hidden(sendable(reply.refusal)) if isinstance(reply.refusal, str) else None,
        top_logprobs=_odds(reply.top_logprobs),
    )


def check_usage_of(
    completion: Completion, request: Request, *, answer_limit: int | None
) -> tuple[Completion, str | None]:
    """Check the token counts of the reply to a request, see `check_usage`."""
    n_bytes = sum(len(message.content.encode("utf-8", "replace")) for message in request.messages)
    return check_usage(completion, n_bytes=n_bytes, n_messages=len(request.messages), answer_limit=answer_limit)


def check_usage(
    completion: Completion, *, n_bytes: int, n_messages: int, answer_limit: int | None
) -> tuple[Completion, str | None]:
    """Check that the token counts of a completion are possible.

    Fewer tokens than any tokenizer makes of the request's bytes, or of the answer's, are no count of this call; nor are more than
    BEYOND times the most there can be.

    Parameters
    ----------
    completion : Completion
    n_bytes, n_messages : int
        Size of the request's messages in UTF-8, and their number.
    answer_limit : int or None
        Largest number of tokens of an answer; None if nothing limits it.

    Returns
    -------
    completion : Completion
        With token counts of 0 if they are not possible.
    fault : str or None
        What is wrong with them; None also if there are none.

    Raises
    ------
    CallError
        Of kind `rejected`, if the answer is longer than its tokens can be. It is never cut.
    """
    _check_length(completion, answer_limit)
    n_in, n_out = completion.tokens_in, completion.tokens_out
    min_in, max_in = max(1, n_bytes // LONGEST_TOKEN), BEYOND * (n_bytes + 8 * n_messages + 8)
    min_out = math.ceil(_n_bytes(completion.text) / LONGEST_TOKEN)
    max_out = MOST_TOKENS if answer_limit is None else BEYOND * max(answer_limit, REASONING)
    if (min_in <= n_in <= max_in and min_out <= n_out <= max_out) or not (n_in or n_out):
        return completion, None
    fault = f"it says {n_in:,} tokens in and {n_out:,} out of a request of {n_bytes:,} bytes, which cannot be"
    return replace(completion, tokens_in=0, tokens_out=0), fault


def _check_length(said: Completion, answer_limit: int | None) -> None:
    most = MAX_REPLY_BYTES if answer_limit is None else TOKEN * answer_limit + ROOM
    text = _n_bytes(said.text) + _n_bytes(said.refusal or "")
    odds = sum(_n_bytes(token) for token, _ in said.top_logprobs)
    for n, bound in ((text, most), (odds, ROOM)):
        if n > bound:
            asked = "" if answer_limit is None else f" where {answer_limit:,} tokens were asked for"
            raise CallError(f"The answer has {n:,} bytes{asked}: it is not kept.", kind="rejected")


def _n_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _joined(content: Any) -> tuple[Any, str | None]:
    """Join the parts of a message's content; return its text, and its refusal or None.

    Parts of other types, such as `thinking`, are not part of the answer.
    """
    if content is None:
        return "", None
    listed = [content] if isinstance(content, dict) and "text" in content else content
    if not isinstance(listed, list) or not all(isinstance(part, dict | str) for part in listed):
        return content, None
    parts: list[dict[str, Any]] = [{"text": part} if isinstance(part, str) else part for part in listed]
    answering = [part for part in parts if part.get("type") in _TEXT_PARTS and not part.get("thought")]
    texts = [part["text"] for part in answering if part.get("text") is not None]
    refusals = [part["refusal"] for part in parts if part.get("type") == "refusal" and "refusal" in part]
    if not all(isinstance(text, str) for text in (*texts, *refusals)):
        return content, None
    return "".join(texts), "".join(refusals) or None


def join_contents(reply: object) -> bool:
    """Replace, in a parsed reply, each content that is a list of parts by its text; return whether there was one."""
    choices = object_or_empty(reply).get("choices")
    messages = (
        [object_or_empty(object_or_empty(choice).get("message")) for choice in choices]
        if isinstance(choices, list)
        else []
    )
    with_parts = [message for message in messages if isinstance(message.get("content"), list | dict)]
    for message in with_parts:
        message["content"], declined = _joined(message["content"])
        message["refusal"] = message.get("refusal") or declined
    return bool(with_parts)


_TEXT_PARTS = ("text", "output_text", None)
"""Types of the parts of a content that hold an answer's text; some gateways omit the type."""


def _first(choices: object) -> object:
    if not isinstance(choices, list) or not choices:
        raise _broken(f"choices is {'an empty list' if choices == [] else _kind(choices)}")
    return choices[0]


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _broken(f"{what} is {_kind(value)}")
    return value


_REASONING = ("reasoning_content", "reasoning", "thinking")
"""Fields of a message in which servers return reasoning; its tokens may be among those with log-probabilities."""


def _after_reasoning(text: object, message: Mapping[str, Any]) -> str | None:
    """Return the answer of a reply that contains reasoning, in its text or in another field; None if it contains none."""
    answer, reasoned = split_reasoning(text) if isinstance(text, str) else ("", False)
    is_separate = isinstance(message.get("content"), list) or any(message.get(name) for name in _REASONING)
    return answer or "" if reasoned or is_separate else None


def _tokens_of(answer: str, content: list[Any]) -> list[Any]:
    """Return the last tokens of `content`, which spell `answer`; an empty list if they do not."""
    tokens = [
        entry["token"] if isinstance(entry, dict) and isinstance(entry.get("token"), str) else "" for entry in content
    ]
    end = next((n for n in range(len(tokens), 0, -1) if not _END_TOKEN.fullmatch(tokens[n - 1])), 0)
    wanted, spelled = answer.strip(), ""
    for n in range(end - 1, -1, -1):
        spelled = tokens[n] + spelled
        if spelled.strip() == wanted:
            return content[n:]
        if len(spelled) > len(answer) + LONGEST_TOKEN:
            break
    return []


_END_TOKEN = re.compile(r"<\|[^<>]*\|>|</s>|\s*")


def _alternatives(logprobs: object, text: object, message: Mapping[str, Any]) -> Any:
    """Return the alternatives of the answer's first token that is not blank."""
    if logprobs is None:
        return ()
    content = _object(logprobs, "logprobs").get("content")
    if content is None:
        return ()
    if not isinstance(content, list):
        raise _broken(f"the content of logprobs is {_kind(content)}")
    answer = _after_reasoning(text, message)
    for token in content if answer is None else _tokens_of(answer, content):
        said = _object(token, "a token of logprobs")
        if not isinstance(said.get("token"), str):
            raise _broken(f"a token of logprobs is {_kind(said.get('token'))}")
        if said["token"].strip():
            top = said.get("top_logprobs") or []
            if not isinstance(top, list):
                raise _broken(f"top_logprobs is {_kind(top)}")
            named = [_object(one, "an alternative") for one in top]
            return tuple((one.get("token"), one.get("logprob")) for one in named)
    return ()


def _odds(said: Any) -> tuple[tuple[str, float], ...]:
    """(token, log-probability), each in (−∞, 0]; one of −∞ is left out."""
    if not isinstance(said, list | tuple):
        raise _broken(f"top_logprobs is {_kind(said)}")
    odds = []
    for one in said:
        if not isinstance(one, list | tuple) or len(one) != 2 or not isinstance(one[0], str):
            raise _broken("an alternative is no token with its log-probability")
        token, logprob = one
        if not _is_number(logprob) or math.isnan(logprob) or logprob > ROUNDING:
            raise _broken(f"a log-probability is {_shown(logprob)}")
        if logprob > -math.inf:
            odds.append((hidden(sendable(token)), min(float(logprob), 0.0)))
    return tuple(odds)


def _is_plain(said: Completion) -> bool:
    """Whether it is as most are: every field of its type, nothing to make sendable, no odds to look at."""
    text, reason, model, build = said.text, said.finish_reason, said.model, said.fingerprint
    return (
        said.top_logprobs == ()
        and said.refusal is None
        and type(text) is type(reason) is type(model) is str
        and (build is None or (type(build) is str and build.isascii() and len(build) <= LONGEST_NAME))
        and text.isascii()
        and reason.isascii()
        and model.isascii()
        and 0 < len(reason) <= LONGEST_NAME
        and len(model) <= LONGEST_NAME
        and type(said.tokens_in) is type(said.tokens_out) is int
        and 0 <= said.tokens_in <= MOST_TOKENS
        and 0 <= said.tokens_out <= MOST_TOKENS
        and type(said.seconds) is float
        and 0 <= said.seconds < math.inf
    )


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, float) or abs(value) <= 2**53


def _count(value: object) -> int | None:
    """A count of tokens as a provider may write it, None for what is none. Digits in quotes are read, for libraries do so too."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= len(str(MOST_TOKENS)):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_TOKENS:
        return None
    return int(value) if value == int(value) else None


def _name(value: object) -> str | None:
    return hidden(sendable(value))[:LONGEST_NAME] if isinstance(value, str) else None


def _broken(what: str) -> CallError:
    return CallError(f"The reply is no chat completion ({what}).", kind="retry")


def _kind(value: object) -> str:
    return "not there" if value is None else f"of type {type(value).__name__}"


def _shown(value: object) -> str:
    return repr(value)[:40] if _is_number(value) else _kind(value)
