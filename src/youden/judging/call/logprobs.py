"""Find the log-probabilities of the first token of an answer in a reply."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from youden.judging.call.reply_errors import object_or_empty
from youden.judging.call.reply_fields import (
    MAX_TOKEN_BYTES,
    describe_number,
    describe_type,
    is_number,
    make_invalid_error,
    require_object,
)
from youden.judging.call.secrets import mask_secrets
from youden.text.printable import to_encodable
from youden.text.reasoning import split_reasoning

ROUNDING_TOLERANCE = 1e-3
"""A log-probability above 0 by at most this much is a rounding error and is set to 0."""
_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")
"""Fields of a message in which servers return reasoning. The log-probabilities may include the tokens of reasoning."""


def _remove_reasoning(text: object, message: Mapping[str, Any]) -> str | None:
    """Return the text of a message without its reasoning; None if neither the text nor another field has reasoning."""
    answer, has_inline_reasoning = split_reasoning(text) if isinstance(text, str) else ("", False)
    has_reasoning_part = isinstance(message.get("content"), list)
    has_reasoning_field = any(message.get(name) for name in _REASONING_FIELDS)
    if has_inline_reasoning or has_reasoning_part or has_reasoning_field:
        return answer or ""
    return None


def _find_answer_tokens(answer: str, entries: list[Any]) -> list[Any]:
    """Return the last entries of a reply, whose tokens make up its answer. The tokens before them are reasoning.

    answer : text of the reply without reasoning
    entries : one element per token of the reply, from the field `content` of the log-probabilities

    Returns the last elements of `entries`; an empty list if no sequence of last tokens equals the answer. White space and
    end-of-text tokens are ignored.
    """
    tokens = [_get_token(entry) for entry in entries]
    n_tokens = len(tokens)  # without end-of-text tokens
    while n_tokens > 0 and _END_TOKEN.fullmatch(tokens[n_tokens - 1]):
        n_tokens -= 1

    # join tokens from the last one backwards, until they equal the answer or are longer than it
    stripped_answer = answer.strip()
    joined_tokens = ""
    for start in reversed(range(n_tokens)):
        joined_tokens = tokens[start] + joined_tokens
        if joined_tokens.strip() == stripped_answer:
            return entries[start:]
        if len(joined_tokens) > len(answer) + MAX_TOKEN_BYTES:
            break
    return []


def _get_token(entry: object) -> str:
    """Return the token of an entry; empty if it has none."""
    token = object_or_empty(entry).get("token")
    return token if isinstance(token, str) else ""


_END_TOKEN = re.compile(r"<\|[^<>]*\|>|</s>|\s*")
"""A token after the text of an answer, such as <|im_end|> or </s>, or a blank token."""
_OPENING_TOKEN = re.compile(r"""[\s"'“‘`*_]*""")
"""A token before the first word of an answer: a blank token, quotation marks or Markdown, as in **YES**."""


def find_first_token_alternatives(logprobs: object, text: object, message: Mapping[str, Any]) -> Any:
    """Return the tokens that the model could have chosen as the first token of its answer, with log-probabilities.

    Blank tokens, quotation marks and Markdown, and the tokens of reasoning before the answer, are skipped.

    logprobs : field `logprobs` of the first choice of the reply; None if the reply has none
    text : text of the message
    message : the message, whose other fields may contain reasoning

    Returns a tuple of pairs (token, log-probability), whose values are not validated. It is empty if no log-probabilities of the
    answer are found.
    Raises: CallError (transient) if `logprobs` has the wrong structure.
    """
    entries = _get_token_entries(logprobs)
    if not entries:
        return ()

    answer = _remove_reasoning(text, message)
    if answer is not None:
        entries = _find_answer_tokens(answer, entries)
    for raw_entry in entries:
        entry = require_object(raw_entry, "a token of logprobs")
        if not _OPENING_TOKEN.fullmatch(_require_token(entry)):
            return _get_alternatives(entry)
    return ()


def _require_token(entry: Mapping[str, Any]) -> str:
    """Return the token of an entry of the log-probabilities. Raises: CallError (transient) if it is not a text."""
    token = entry.get("token")
    if not isinstance(token, str):
        raise make_invalid_error(f"a token of logprobs is {describe_type(token)}")
    return token


def _get_token_entries(logprobs: object) -> list[Any]:
    """Return the log-probabilities of a reply as a list with one entry per token, not validated; empty if there are none.

    logprobs : field `logprobs` of the first choice of the reply; None if the reply has none

    Raises: CallError (transient) if `logprobs` is not an object, or its field `content` is not a list.
    """
    if logprobs is None:
        return []
    entries = require_object(logprobs, "logprobs").get("content")
    if entries is None:
        return []
    if not isinstance(entries, list):
        raise make_invalid_error(f"the content of logprobs is {describe_type(entries)}")
    return entries


def _get_alternatives(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the alternatives to a token as pairs (token, log-probability), not validated.

    entry : element of the field `content` of the log-probabilities

    Raises: CallError (transient) if the field `top_logprobs` is not a list of objects.
    """
    alternatives = entry.get("top_logprobs") or []
    if not isinstance(alternatives, list):
        raise make_invalid_error(f"top_logprobs is {describe_type(alternatives)}")
    pairs = []
    for value in alternatives:
        alternative = require_object(value, "an alternative")
        pairs.append((alternative.get("token"), alternative.get("logprob")))
    return tuple(pairs)


def validate_logprobs(alternatives: Any) -> tuple[tuple[str, float], ...]:
    """Return valid pairs (token, log-probability); pairs with a log-probability of −∞ or null are left out.

    Servers write −∞ as null if their JSON has no infinity.

    Raises: CallError (transient) if a value is not a pair (token, log-probability), or a log-probability is greater than 0.
    """
    if not isinstance(alternatives, list | tuple):
        raise make_invalid_error(f"top_logprobs is {describe_type(alternatives)}")
    valid = []
    for pair in alternatives:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise make_invalid_error("an alternative is not a token with its log-probability")
        token, logprob = pair
        if logprob is None:
            continue
        if not is_number(logprob) or math.isnan(logprob) or logprob > ROUNDING_TOLERANCE:
            raise make_invalid_error(f"a log-probability is {describe_number(logprob)}")
        if logprob > -math.inf:
            valid.append((mask_secrets(to_encodable(token)), min(float(logprob), 0.0)))
    return tuple(valid)
