"""Query Claude through Anthropic's Messages API, and convert requests and replies from and to the OpenAI chat format.

So request hashes, cassettes and the checks of a reply are the same as for all judges. Single calls and batches share
the conversion.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from youden.judging.backends.wire import WireJudge
from youden.judging.call.connection import Connection, make_request_body, parse_reply
from youden.judging.call.reply import parse_completion
from youden.judging.call.reply_errors import object_or_empty
from youden.types import Completion, Request

VERSION = "2023-06-01"
_DEFAULT_MAX_TOKENS = 4096
"""Limit of an answer's tokens if the judge's config sets none: Anthropic requires a limit."""

_CACHED_TOKENS = ("cache_creation_input_tokens", "cache_read_input_tokens")
"""Fields with tokens of the prompt that `input_tokens` does not include."""

_FINISH_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "refusal": "content_filter"}


class AnthropicJudge(WireJudge):
    """Sends one Messages request per trial."""

    path = "messages"

    @staticmethod
    def headers(connection: Connection) -> dict[str, str]:
        """Return the headers of every request; the API key is in a separate header."""
        headers = {"Content-Type": "application/json", "anthropic-version": VERSION}
        if connection.authorization is not None:
            headers["Authorization"] = connection.authorization
        return headers if connection.api_key is None else headers | {"x-api-key": connection.api_key}

    def encode(self, request: Request) -> bytes:
        """Return the body of a Messages request."""
        return orjson.dumps(to_anthropic(make_request_body(request)))

    def decode(self, body: bytes, *, seconds: float) -> Completion:
        """Return the completion in a reply's body. Raises: CallError."""
        return parse_completion(from_anthropic(parse_reply(body)), seconds=seconds)


def to_anthropic(body: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the body of a chat request to that of a Messages request.

    >>> to_anthropic({"model": "m", "messages": [{"role": "system", "content": "s"}], "max_tokens": 8})
    {'model': 'm', 'max_tokens': 8, 'messages': [], 'system': 's'}
    """
    parameters = {name: value for name, value in body.items() if name not in ("model", "messages", "response_format")}
    max_tokens = parameters.pop("max_completion_tokens", None) or parameters.pop("max_tokens", None)
    system = "\n\n".join(message["content"] for message in body["messages"] if message["role"] == "system")
    converted = {
        "model": body["model"],
        "max_tokens": max_tokens or _DEFAULT_MAX_TOKENS,
        "messages": [message for message in body["messages"] if message["role"] != "system"],
        **parameters,
    }
    if system:
        converted["system"] = system
    if (response_format := body.get("response_format")) is not None:
        schema = response_format.get("json_schema", {}).get("schema")
        converted["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    return converted


def from_anthropic(reply: object) -> object:
    """Convert a message to a chat completion; return anything else, such as an error, unchanged."""
    if not isinstance(reply, dict) or not isinstance(reply.get("content"), list):
        return reply
    parts = [part for part in reply["content"] if isinstance(part, dict) and part.get("type") == "text"]
    text = "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    stop_reason = reply.get("stop_reason")
    finish_reason = _FINISH_REASONS.get(stop_reason, stop_reason) if isinstance(stop_reason, str) else None
    refusal = "The model declined to answer." if stop_reason == "refusal" else None

    # prompt_tokens = input_tokens + cached tokens
    usage = object_or_empty(reply.get("usage"))
    n_cached = sum(n for name in _CACHED_TOKENS if isinstance(n := usage.get(name), int))
    n_in = usage.get("input_tokens", 0)
    return {
        "error": reply.get("error"),
        "model": reply.get("model"),
        "choices": [{"message": {"content": text, "refusal": refusal}, "finish_reason": finish_reason}],
        "usage": {
            "prompt_tokens": n_in + n_cached if isinstance(n_in, int) else n_in,
            "completion_tokens": usage.get("output_tokens", 0),
        },
    }
