"""The judges that can be named in a config, and what is known of each without loading it: one record a backend or provider.

A judge is made in one of two ways: from a `Connection` where it makes calls, from its parameters where it answers whole plans
(`answer_many`). A provider is a backend at an address of its own.
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


@dataclass(frozen=True)
class BackendRecord:
    """What is known of a backend or a provider without loading its class, for its library may take seconds.

    place: where its class is, as "module:Class", which speaks its wire format; a replay has none. makes_calls: it answers
    requests one by one; else it answers whole plans. address: where it asks when a config gives no base_url; empty where its
    library, or its user alone, knows. key_variable: the environment variable of its key when a config names none. batches:
    whose Batch API works off its batches. installed: the package that it needs beside youden's own. title: what people call
    it. refuses: parameters that it turns a request down for, each with what to write instead. own: a pattern of the models
    that it is asked for when nothing says where they are. thinks: a pattern of its models that think before they answer;
    room: the keys of a judge's config that such a model needs. hosts: for a library that reaches many, the host's name before
    the model's, with the variables that hold its keys. priced_as: its name in litellm's table of prices, where that is another.
    """

    place: str
    makes_calls: bool
    address: str = ""
    key_variable: str | None = None
    batches: str | None = None
    installed: str | None = None
    title: str = ""
    refuses: Mapping[str, str] = field(default_factory=dict)
    own: str | None = None
    thinks: str | None = None
    room: Mapping[str, Json] = field(default_factory=lambda: {"max_tokens": 2048})
    hosts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    priced_as: str = ""


_OPENAI = "https://api.openai.com/v1"
_LITELLM = "youden.judging.backends.litellm:LitellmJudge"
_SDK = "youden.judging.backends.openai:OpenAIJudge"
_OPEN = ".*(gpt-oss|deepseek-r1|qwq|thinking)"
_NO_ODDS = "decision: text or json; its answers have no log-probabilities"

BACKENDS = {
    JURY: BackendRecord("youden.judging.backends.several:Jury", makes_calls=False),
    "lexical": BackendRecord("youden.judging.backends.lexical:Lexical", makes_calls=False),
    "litellm": BackendRecord(
        _LITELLM,
        makes_calls=True,
        installed="litellm",
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
        own=r"gpt-|chatgpt-|o\d",
        thinks=r"o\d|gpt-[5-9](?!.*chat)",
        room={"temperature": None, "max_tokens": None, "parameters": {"max_completion_tokens": 2048}},
    ),
    REPLAY: BackendRecord("", makes_calls=False),
    "wire": BackendRecord("youden.judging.backends.wire:WireJudge", True, _OPENAI, "OPENAI_API_KEY", batches="openai"),
}
"""One record a backend. A test holds it against the classes; tests of all backends take their names from here."""

PROVIDERS = {
    "anthropic": BackendRecord(
        "youden.judging.backends.anthropic:AnthropicJudge",
        True,
        "https://api.anthropic.com/v1",
        "ANTHROPIC_API_KEY",
        batches="anthropic",
        title="Anthropic",
        refuses={"seed": "no seed", "logprobs": _NO_ODDS},
        own="claude-",
        thinks=r"claude-(opus-4-[7-9]|[a-z]+-[5-9])",
        room={"temperature": None, "max_tokens": 2048},
    ),
    "azure": BackendRecord(_SDK, True, "", "AZURE_OPENAI_API_KEY", title="Azure OpenAI"),
    "deepseek": BackendRecord(
        _SDK, True, "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", title="DeepSeek", own="deepseek-"
    ),
    "fireworks": BackendRecord(
        _SDK,
        True,
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_KEY",
        title="Fireworks",
        thinks=_OPEN,
        priced_as="fireworks_ai",
    ),
    "gemini": BackendRecord(
        _SDK,
        True,
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        title="Google Gemini",
        own="gemini-",
        thinks=r"gemini-([3-9]|2\.5-pro|2\.5-flash(?!-lite))",
        room={"temperature": None, "max_tokens": 2048},
    ),
    "groq": BackendRecord(
        _SDK,
        True,
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
        title="Groq",
        thinks=_OPEN,
        refuses={"logprobs": _NO_ODDS, "logit_bias": "no logit_bias"},
    ),
    "mistral": BackendRecord(
        _SDK,
        True,
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        title="Mistral",
        refuses={"seed": "parameters: {random_seed: 0}", "logprobs": _NO_ODDS},
        own="(mi|mini|magi|code|pix)stral-|mistral-",
    ),
    "openrouter": BackendRecord(
        _SDK, True, "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", title="OpenRouter", thinks=_OPEN
    ),
    "together": BackendRecord(
        _SDK,
        True,
        "https://api.together.xyz/v1",
        "TOGETHER_API_KEY",
        title="Together",
        thinks=_OPEN,
        priced_as="together_ai",
    ),
}
"""Providers by the name that stands in `backend`, or before a model's, as in `--judge groq/openai/gpt-oss-20b`. What is written
here of addresses, keys and refusals was read in the providers' documentation, as stored on 24 November 2026."""

_RECORDS = BACKENDS | PROVIDERS

JUDGES: Registry[type] = Registry("youden.judges", "judge", {name: one.place for name, one in _RECORDS.items()})


def backend_of(name: str) -> BackendRecord:
    """The record of a backend; of another package's it is made from its class. Raises: ConfigError [unknown-judge]."""
    return _RECORDS.get(name) or BackendRecord("", makes_calls=not hasattr(JUDGES.load(name), "answer_many"))


def judge_of_model(name: str) -> dict[str, Json] | None:
    """The keys of the judge that asks a model by its name alone: `gpt-4o`, `anthropic/claude-haiku-4-5`, `bedrock/…`.

    A model that thinks first gets the room for it. None where it is not known who has the model.

    >>> judge_of_model("groq/openai/gpt-oss-20b")
    {'name': 'gpt-oss-20b', 'backend': 'groq', 'model': 'openai/gpt-oss-20b', 'max_tokens': 2048}
    >>> judge_of_model("o4-mini")["parameters"], judge_of_model("llama")
    ({'max_completion_tokens': 2048}, None)
    """
    host, _, model = name.partition("/")
    if model and host in BACKENDS["litellm"].hosts:
        backend, model = "litellm", name
    elif model and host in _RECORDS and _RECORDS[host].makes_calls:
        backend = host
    else:
        backend = next((one for one, of in _RECORDS.items() if of.own and re.match(of.own, name)), "")
        model = name
    if not backend:
        return None
    keys: dict[str, Json] = {"name": model.rpartition("/")[2][:100], "backend": backend, "model": model}
    record = _RECORDS[backend]
    if record.thinks and re.match(record.thinks, model):
        keys |= record.room
    return keys


def calling_judge(backend: str, connection: Connection) -> Judge:
    """The judge that makes calls through `connection`."""
    return cast(Judge, JUDGES.load(backend)(connection))


def plan_judge(backend: str, parameters: Mapping[str, Json]) -> PlanJudge:
    """The judge that answers whole plans, made with `parameters`.

    Raises: ConfigError [judge-parameters] where it does not know one of them.
    """
    try:
        return cast(PlanJudge, JUDGES.load(backend)(**parameters))
    except TypeError as error:
        raise ConfigError(
            f"The judge '{backend}' does not take these parameters: {dict(parameters)} ({error}). Correct or remove them.",
            slug="judge-parameters",
        ) from None
