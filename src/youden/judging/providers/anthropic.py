"""Query Claude through Anthropic's Messages API, and convert requests and replies from and to the OpenAI chat format.

Request hashes, cassettes and the checks of a reply are therefore the same as for other judges. Single calls and batches
share the conversion.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from youden.judging.backends.record import NO_LOGPROBS, BackendRecord
from youden.judging.backends.wire import WireJudge
from youden.judging.call.connection import Connection
from youden.judging.call.reply_errors import object_or_empty

RECORD = BackendRecord(
    class_path="youden.judging.providers.anthropic:AnthropicJudge",
    address="https://api.anthropic.com/v1",
    key_variable="ANTHROPIC_API_KEY",
    batches="anthropic",
    title="Anthropic",
    unsupported={"seed": "no seed", "logprobs": NO_LOGPROBS},
    model_pattern="claude-",
    reasoning_pattern=r"claude-(opus-4-[7-9]|[a-z]+-[5-9])",
    reasoning_keys={"temperature": None, "max_tokens": 2048},
)

VERSION = "2023-06-01"
_DEFAULT_MAX_TOKENS = 4096
"""Limit of an answer's tokens if the judge's config sets none: Anthropic requires a limit."""

_CACHED_TOKENS = ("cache_creation_input_tokens", "cache_read_input_tokens")
"""Fields with tokens of the prompt that `input_tokens` does not include."""

_CONVERTED_PARAMETERS = {"model", "messages", "max_tokens", "max_completion_tokens", "response_format"}
"""Parameters of an OpenAI chat request that have another form in the Messages API; all others are sent unchanged."""

_FINISH_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "refusal": "content_filter"}


class AnthropicJudge(WireJudge):
    """Sends one Messages request per trial."""

    path = "messages"

    @staticmethod
    def headers(connection: Connection) -> dict[str, str]:
        """Return the HTTP headers of every request by name, with the API key in the header x-api-key."""
        headers = {"Content-Type": "application/json", "anthropic-version": VERSION}
        if connection.authorization is not None:
            headers["Authorization"] = connection.authorization
        if connection.api_key is not None:
            headers["x-api-key"] = connection.api_key
        return headers

    @staticmethod
    def convert_request(body: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the body of an OpenAI chat request to the body of a request to Anthropic's Messages API.

        The Messages API differs in three points. The texts of system messages are a separate parameter, `system`. A limit on the
        tokens of an answer is required. A JSON schema of the answer is a part of `output_config`.

        >>> AnthropicJudge.convert_request({"model": "m", "messages": [{"role": "system", "content": "s"}], "max_tokens": 8})
        {'model': 'm', 'max_tokens': 8, 'messages': [], 'system': 's'}
        """
        messages = body["messages"]
        max_tokens = body.get("max_tokens") or body.get("max_completion_tokens") or _DEFAULT_MAX_TOKENS
        unchanged_parameters = {name: value for name, value in body.items() if name not in _CONVERTED_PARAMETERS}
        converted = {
            "model": body["model"],
            "max_tokens": max_tokens,
            "messages": [message for message in messages if message["role"] != "system"],
            **unchanged_parameters,
        }

        system_texts = [message["content"] for message in messages if message["role"] == "system"]
        system = "\n\n".join(system_texts)
        if system:
            converted["system"] = system

        response_format = body.get("response_format")
        if response_format is not None:
            schema = response_format.get("json_schema", {}).get("schema")
            converted["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        return converted

    @staticmethod
    def convert_reply(reply: object) -> object:
        """Convert a reply of Anthropic's Messages API to an OpenAI chat completion.

        A message of Anthropic is a list of parts. The texts of all parts are joined, and parts without a text, such as
        reasoning, are left out.

        reply : the reply, parsed from JSON. A value without a list of parts, such as an error, is returned unchanged.
        """
        if not isinstance(reply, dict) or not isinstance(reply.get("content"), list):
            return reply

        parts = [part for part in reply["content"] if isinstance(part, dict) and part.get("type") == "text"]
        texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]

        stop_reason = reply.get("stop_reason")
        finish_reason = _FINISH_REASONS.get(stop_reason, stop_reason) if isinstance(stop_reason, str) else None
        refusal = "The model declined to answer." if stop_reason == "refusal" else None
        message = {"content": "".join(texts), "refusal": refusal}
        return {
            "error": reply.get("error"),
            "model": reply.get("model"),
            "choices": [{"message": message, "finish_reason": finish_reason}],
            "usage": _convert_usage(object_or_empty(reply.get("usage"))),
        }


def _convert_usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Convert Anthropic's token counts to OpenAI's. OpenAI counts cached tokens as tokens of the prompt.

    usage : field `usage` of the reply. Its values may have any type, and are validated later.
    """
    n_prompt_tokens = usage.get("input_tokens", 0)
    if isinstance(n_prompt_tokens, int):
        cached_counts = [usage.get(name) for name in _CACHED_TOKENS]
        n_prompt_tokens += sum(n for n in cached_counts if isinstance(n, int))
    return {"prompt_tokens": n_prompt_tokens, "completion_tokens": usage.get("output_tokens", 0)}
