"""List the backends and providers that a judge's config can name, with one record of properties for each.

A judge that makes calls is made from a `Connection`; one that answers whole plans (`answer_many`) is made from its
parameters. A provider is a backend with a fixed address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from youden.errors import ConfigError
from youden.judging.call.connection import Connection
from youden.registry import Registry
from youden.types import Judge, PlanJudge
from youden.types.pool import Json

JURY = "jury"
REPLAY = "replay"
LEXICAL = "lexical"
_MAX_NAME_CHARACTERS = 100


@dataclass(frozen=True)
class BackendRecord:
    """Properties of a backend or a provider, known without importing its class, whose library may load slowly."""

    class_path: str
    """Its class, which converts to its wire format, as "module:Class"; empty for a replay."""
    makes_calls: bool
    """Whether it answers single requests; else it answers whole plans."""
    address: str = ""
    """Default base URL; empty if only its library, or its user, knows the address."""
    key_variable: str | None = None
    """Default environment variable of its API key.

    Its name must end in _KEY, _TOKEN, _SECRET or _PASSWORD, because messages mask the values of variables with these endings.
    """
    batches: str | None = None
    """Key of the class that sends its batches; None if it has no Batch API."""
    package: str | None = None
    """Package that it needs in addition to those of youden."""
    title: str = ""
    """Name on the page of providers; empty for a backend that is not a provider."""
    unsupported: Mapping[str, str] = field(default_factory=dict)
    """Parameters that it ignores or for which it rejects a request → what to write in a judge's config instead, or "no seed" if
    nothing replaces the parameter `seed`. The parameters have the names of OpenAI's API: `seed`, `logprobs` (sent for `decision:
    logprobs`), `response_format` (sent for `decision: json`), or any key of `parameters`."""
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
    """Whether litellm's table contains the prices of its models, which may be absent because they vary by request."""


_OPENAI = "https://api.openai.com/v1"
_LITELLM = "youden.judging.backends.litellm:LitellmJudge"
_SDK = "youden.judging.backends.openai:OpenAIJudge"
_OPENAI_WITH_LOGPROBS = r"gpt-4(o|\.1)(-mini)?(-20\d\d-\d\d-\d\d)?"
_OPEN_REASONING_MODELS = ".*(gpt-oss|deepseek-r1|qwq|thinking)"
_NO_LOGPROBS = "decision: text or json; its answers have no log-probabilities"

BACKENDS = {
    JURY: BackendRecord("youden.judging.backends.several:Jury", makes_calls=False),
    "lexical": BackendRecord("youden.judging.backends.lexical:Lexical", makes_calls=False),
    "litellm": BackendRecord(
        _LITELLM,
        makes_calls=True,
        package="litellm",
        hosts={
            "bedrock": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
            "vertex_ai": ("GOOGLE_APPLICATION_CREDENTIALS", "VERTEXAI_PROJECT", "VERTEXAI_LOCATION"),
        },
    ),
    "openai": BackendRecord(
        _SDK,
        True,
        _OPENAI,
        "OPENAI_API_KEY",
        batches="openai",
        title="OpenAI",
        model_pattern=r"gpt-|chatgpt-|o\d",
        reasoning_pattern=r"o\d|gpt-[5-9](?!.*chat)",
        reasoning_keys={"temperature": None, "max_tokens": None, "parameters": {"max_completion_tokens": 2048}},
        logprobs_pattern=_OPENAI_WITH_LOGPROBS,
    ),
    REPLAY: BackendRecord("", makes_calls=False),
    "wire": BackendRecord(
        "youden.judging.backends.wire:WireJudge",
        True,
        _OPENAI,
        "OPENAI_API_KEY",
        batches="openai",
        logprobs_pattern=_OPENAI_WITH_LOGPROBS,
    ),
}
"""Backends by name. A test compares the records with the classes; tests of all backends use these names."""

PROVIDERS = {
    "anthropic": BackendRecord(
        "youden.judging.backends.anthropic:AnthropicJudge",
        True,
        "https://api.anthropic.com/v1",
        "ANTHROPIC_API_KEY",
        batches="anthropic",
        title="Anthropic",
        unsupported={"seed": "no seed", "logprobs": _NO_LOGPROBS},
        model_pattern="claude-",
        reasoning_pattern=r"claude-(opus-4-[7-9]|[a-z]+-[5-9])",
        reasoning_keys={"temperature": None, "max_tokens": 2048},
    ),
    "azure": BackendRecord(_SDK, True, "", "AZURE_OPENAI_API_KEY", title="Azure OpenAI"),
    "deepseek": BackendRecord(
        _SDK, True, "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", title="DeepSeek", model_pattern="deepseek-"
    ),
    "fireworks": BackendRecord(
        _SDK,
        True,
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_KEY",
        title="Fireworks",
        reasoning_pattern=_OPEN_REASONING_MODELS,
        priced_as="fireworks_ai",
    ),
    "gemini": BackendRecord(
        _SDK,
        True,
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        title="Google Gemini",
        model_pattern="gemini-",
        reasoning_pattern=r"gemini-([3-9]|2\.5-pro|2\.5-flash(?!-lite))",
        reasoning_keys={"temperature": None, "max_tokens": 2048},
    ),
    "groq": BackendRecord(
        _SDK,
        True,
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
        title="Groq",
        reasoning_pattern=_OPEN_REASONING_MODELS,
        unsupported={"logprobs": _NO_LOGPROBS, "logit_bias": "no logit_bias"},
    ),
    "mistral": BackendRecord(
        _SDK,
        True,
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        title="Mistral",
        unsupported={"seed": "parameters: {random_seed: 0}", "logprobs": _NO_LOGPROBS},
        model_pattern="(mi|mini|magi|code|pix)stral-|mistral-",
    ),
    "openrouter": BackendRecord(
        _SDK,
        True,
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        title="OpenRouter",
        reasoning_pattern=_OPEN_REASONING_MODELS,
        is_priced_by_litellm=False,
    ),
    "together": BackendRecord(
        _SDK,
        True,
        "https://api.together.xyz/v1",
        "TOGETHER_API_KEY",
        title="Together",
        reasoning_pattern=_OPEN_REASONING_MODELS,
        priced_as="together_ai",
    ),
}
"""Providers by the name in `backend`, or before a model's name, as in `--judge groq/openai/gpt-oss-20b`. Addresses,
keys and unsupported parameters are those of the providers' documentation on 24 November 2026, or on the later date on
which a record was committed."""

_RECORDS = BACKENDS | PROVIDERS

JUDGES: Registry[type] = Registry(
    "youden.judges", "judge", {name: record.class_path for name, record in _RECORDS.items()}
)


def get_backend_record(name: str) -> BackendRecord:
    """Return the record of a backend or provider; that of a plugin is made from its class.

    Parameters
    ----------
    name : str
        Name of the backend.

    Returns
    -------
    BackendRecord
        Its properties.

    Raises
    ------
    ConfigError
        [unknown-judge] if there is no such backend.
    """
    return _RECORDS.get(name) or BackendRecord("", makes_calls=not hasattr(JUDGES.load(name), "answer_many"))


def infer_judge_keys(name: str) -> dict[str, Json] | None:
    """Infer the keys of a judge's config from the name of a model.

    Parameters
    ----------
    name : str
        Name of a model, with or without its provider: ``gpt-4o``, ``anthropic/claude-haiku-4-5``, ``bedrock/…``.

    Returns
    -------
    dict or None
        `name`, `backend`, `model`, and further keys that a reasoning model needs; None if the provider of the model is not known.

    Examples
    --------
    >>> infer_judge_keys("groq/openai/gpt-oss-20b")
    {'name': 'gpt-oss-20b', 'backend': 'groq', 'model': 'openai/gpt-oss-20b', 'max_tokens': 2048}
    >>> infer_judge_keys("o4-mini")["parameters"], infer_judge_keys("llama")
    ({'max_completion_tokens': 2048}, None)
    """
    prefix, _, name_without_prefix = name.partition("/")
    model = name
    if name_without_prefix and prefix in BACKENDS["litellm"].hosts:
        backend = "litellm"
    elif name_without_prefix and prefix in _RECORDS and _RECORDS[prefix].makes_calls:
        backend = prefix
        model = name_without_prefix
    else:
        backend = _find_backend(name)
    if not backend:
        return None

    _, _, judge_name = model.rpartition("/")
    keys: dict[str, Json] = {"name": judge_name[:_MAX_NAME_CHARACTERS], "backend": backend, "model": model}
    record = _RECORDS[backend]
    if record.reasoning_pattern and re.match(record.reasoning_pattern, model):
        keys |= record.reasoning_keys
    return keys


def _find_backend(model: str) -> str:
    """Return the first backend whose pattern matches a model's name; empty if there is none."""
    for name, record in _RECORDS.items():
        if record.model_pattern and re.match(record.model_pattern, model):
            return name
    return ""


def make_calling_judge(backend: str, connection: Connection) -> Judge:
    """Make a judge that makes calls; no request is sent yet."""
    return cast(Judge, JUDGES.load(backend)(connection))


def make_plan_judge(backend: str, parameters: Mapping[str, Json]) -> PlanJudge:
    """Make a judge that answers whole plans.

    Parameters
    ----------
    backend : str
        Name of the backend.
    parameters : mapping of str to object
        Keyword arguments of its class.

    Returns
    -------
    PlanJudge
        A judge with the method `answer_many`.

    Raises
    ------
    ConfigError
        [judge-parameters] if the class does not accept the parameters.
    """
    try:
        return cast(PlanJudge, JUDGES.load(backend)(**parameters))
    except TypeError as error:
        raise ConfigError(
            f"The judge '{backend}' does not accept these parameters: got {dict(parameters)} ({error}). Correct or remove them.",
            slug="judge-parameters",
        ) from None
