"""List the backends and providers that a judge's config can name, with one record of properties for each.

A judge that makes calls is made from a `Connection`; one that answers whole plans (`answer_many`) is made from its
parameters. A provider is a backend with a fixed address; its record is in its file in `providers/`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import cast

from youden.errors import ConfigError
from youden.judging import providers
from youden.judging.backends.record import BackendRecord
from youden.judging.call.connection import Connection
from youden.registry import Registry, find_modules
from youden.types import Judge, PlanJudge
from youden.types.pool import Json

JURY = "jury"
REPLAY = "replay"
LEXICAL = "lexical"
_MAX_NAME_CHARACTERS = 100

_OPENAI = "https://api.openai.com/v1"
_OPENAI_WITH_LOGPROBS = r"gpt-4(o|\.1)(-mini)?(-20\d\d-\d\d-\d\d)?"

BACKENDS = {
    JURY: BackendRecord("youden.judging.backends.several:Jury", makes_calls=False),
    "lexical": BackendRecord("youden.judging.backends.lexical:Lexical", makes_calls=False),
    "litellm": BackendRecord(
        "youden.judging.backends.litellm:LitellmJudge",
        package="litellm",
        hosts={
            "bedrock": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
            "vertex_ai": ("GOOGLE_APPLICATION_CREDENTIALS", "VERTEXAI_PROJECT", "VERTEXAI_LOCATION"),
        },
    ),
    "openai": BackendRecord(
        address=_OPENAI,
        key_variable="OPENAI_API_KEY",
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
        address=_OPENAI,
        key_variable="OPENAI_API_KEY",
        batches="openai",
        logprobs_pattern=_OPENAI_WITH_LOGPROBS,
    ),
}
"""Backends by name. A test compares the records with the classes; tests of all backends use these names."""

PROVIDERS: dict[str, BackendRecord] = {
    name: import_module(module).RECORD for name, module in find_modules(providers.__name__, providers.__path__).items()
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
