"""Describe a backend or a provider by a record, which is read without importing its class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from youden.types.pool import Json

NO_LOGPROBS = "decision: text or json; its answers have no log-probabilities"
"""What `BackendRecord.unsupported` states for a provider without log-probabilities, if it supports JSON schemas."""

OPEN_REASONING_MODELS = ".*(gpt-oss|deepseek-r1|qwq|thinking)"
"""Regular expression of reasoning models with open weights, which several providers serve."""


@dataclass(frozen=True)
class BackendRecord:
    """Properties of a backend or a provider, known without importing its class, whose library may load slowly."""

    class_path: str = "youden.judging.backends.openai:OpenAIJudge"
    """Class that queries it, as "module:Class". By default, the class of the OpenAI chat format. Empty for a replay."""
    makes_calls: bool = True
    """Whether it answers single requests; else it answers whole plans."""
    address: str = ""
    """Default base URL; empty if only its library, or its user, knows the address."""
    key_variable: str | None = None
    """Default environment variable of its API key.

    Its name must end in _KEY, _TOKEN, _SECRET or _PASSWORD, because messages mask the values of variables with these endings.
    """
    batches: str | None = None
    """Name of the class that sends its batches (a key of `_BATCH_CLASSES` in `engine.py`); None if it has no Batch API."""
    package: str | None = None
    """Package that it needs in addition to those of youden."""
    title: str = ""
    """Name on the page of providers; empty for a backend that is not a provider."""
    unsupported: Mapping[str, str] = field(default_factory=dict)
    """Parameters that it ignores, or for which it rejects a request → what to write in a judge's config instead. If nothing
    replaces a parameter, the value is "no" and its name, such as "no seed". The parameters have the names of OpenAI's API:
    `seed`, `logprobs` (sent for `decision: logprobs`), `response_format` (sent for `decision: json`), or a key of `parameters`
    that users are likely to set. `temperature` and the limit of tokens need no entry."""
    model_pattern: str | None = None
    """Regular expression of the models that imply this backend if a config names no backend; None if no model does."""
    reasoning_pattern: str | None = None
    """Regular expression of its reasoning models."""
    reasoning_keys: Mapping[str, Json] = field(default_factory=lambda: {"max_tokens": 2048})
    """Keys of a judge's config that such a model needs."""
    hosts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For a library that reaches several hosts: prefix of the model's name → environment variables of the keys."""
    logprobs_pattern: str | None = None
    """Regular expression of whole names of models for which it is known to return log-probabilities."""
    priced_as: str = ""
    """Its name in litellm's table of prices, if that differs."""
    is_priced_by_litellm: bool = True
    """Whether litellm's table contains the prices of its models. For example, it lacks prices that vary by request."""
