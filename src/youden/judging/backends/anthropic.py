"""Asks Claude by Anthropic's Messages API, and says what it is asked and answers in the OpenAI chat format.

So keys of answers, cassettes and what is believed of a reply are the same as everywhere; the translation is here alone, for
calls and for batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from youden.judging.backends.wire import WireJudge
from youden.judging.call.connection import Connection, parsed, request_body
from youden.judging.call.reply import checked
from youden.judging.call.reply_errors import object_or_empty
from youden.types import Completion, Request

VERSION = "2023-06-01"
_ROOM = 4096
"""Tokens of an answer where the judge's config bounds none: Anthropic wants a bound."""

_CACHED = ("cache_creation_input_tokens", "cache_read_input_tokens")
"""Tokens of the prompt that `input_tokens` does not include."""

_ENDS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "refusal": "content_filter"}


class AnthropicJudge(WireJudge):
    """One message a request."""

    path = "messages"

    @staticmethod
    def headers(connection: Connection) -> dict[str, str]:
        """The key goes into a header of its own."""
        headers = {"Content-Type": "application/json", "anthropic-version": VERSION}
        if connection.authorization is not None:
            headers["Authorization"] = connection.authorization
        return headers if connection.api_key is None else headers | {"x-api-key": connection.api_key}

    def encode(self, request: Request) -> bytes:
        """Return the body of a Messages request."""
        return orjson.dumps(in_their_words(request_body(request)))

    def decode(self, body: bytes, *, seconds: float) -> Completion:
        """Return the completion in a reply's body. Raises: CallError."""
        return checked(in_our_words(parsed(body)), seconds=seconds)


def in_their_words(body: Mapping[str, Any]) -> dict[str, Any]:
    """A chat request's body as the Messages API takes it.

    >>> in_their_words({"model": "m", "messages": [{"role": "system", "content": "s"}], "max_tokens": 8})
    {'model': 'm', 'max_tokens': 8, 'messages': [], 'system': 's'}
    """
    rest = {name: value for name, value in body.items() if name not in ("model", "messages", "response_format")}
    limit = rest.pop("max_completion_tokens", None) or rest.pop("max_tokens", None) or _ROOM
    system = "\n\n".join(one["content"] for one in body["messages"] if one["role"] == "system")
    said = {
        "model": body["model"],
        "max_tokens": limit,
        "messages": [one for one in body["messages"] if one["role"] != "system"],
        **rest,
    }
    if system:
        said["system"] = system
    if (form := body.get("response_format")) is not None:
        schema = form.get("json_schema", {}).get("schema")
        said["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    return said


def in_our_words(said: object) -> object:
    """A message as the chat completion that it is; what is none, such as an error, as it stands."""
    if not isinstance(said, dict) or not isinstance(said.get("content"), list):
        return said
    parts = [one for one in said["content"] if isinstance(one, dict) and one.get("type") == "text"]
    text = "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    ended = said.get("stop_reason")
    message = {"content": text, "refusal": "The model declined to answer." if ended == "refusal" else None}
    used = object_or_empty(said.get("usage"))
    cached = sum(n for name in _CACHED if isinstance(n := used.get(name), int))
    n_in = used.get("input_tokens", 0)
    return {
        "error": said.get("error"),
        "model": said.get("model"),
        "choices": [{"message": message, "finish_reason": _ENDS.get(ended, ended) if isinstance(ended, str) else None}],
        "usage": {
            "prompt_tokens": n_in + cached if isinstance(n_in, int) else n_in,
            "completion_tokens": used.get("output_tokens", 0),
        },
    }
