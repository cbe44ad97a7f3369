"""What of a judge decides an answer, and what only fetches it.

Model, address, prompt and parameters decide it: all of them are part of its key. Key to the server, pace, retries and price only
fetch it, and change neither an answer nor its key.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from youden.judging.backend_records import BackendRecord, backend_of
from youden.judging.call.connection import public_address
from youden.judging.call.pace import START
from youden.judging.question.parsing import (
    MAX_TOKENS,
    PARSERS,
    Decision,
    Truncation,
    decision_parameters,
)
from youden.judging.question.prompts import Prompt, load_prompt
from youden.types.pool import Json

Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Fetching(BaseModel):
    """How a judge's answers are fetched: key, pace, retries and price.

    `api_key_env` is the variable that holds the key; left out, it is the backend's own. Prices are USD per million
    tokens; None is unknown, 0 is known. Times are seconds. `concurrency` is the most calls in flight,
    `start_concurrency` how many at first. `seconds_per_call` is what a call is thought to take; only the minutes of a
    plan rest on it. `outage` is how long a server that answered may be away before the run stops; 0 counts every
    failure as a try of its call. `batch_discount` is the share of the price that the provider takes off in a batch.
    `batch_provider` is who works batches off: None for the backend's own, `folder` for whoever takes files from a
    folder and puts results beside them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    api_key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    concurrency: Positive = 64
    start_concurrency: Positive = START
    requests_per_minute: Rate | None = None
    tokens_per_minute: Rate | None = None
    seconds_per_call: Seconds | None = None
    timeout: Seconds = 60.0
    max_tries: Positive = 6
    backoff: Seconds = 0.5
    outage: Annotated[float, Field(ge=0)] = 900.0
    price_in: Price | None = None
    price_out: Price | None = None
    batch_discount: Annotated[float, Field(ge=0, le=1)] = 0.0
    batch_provider: str | None = Field(default=None, min_length=1)


SECRETS = {"api_key", "apikey", "key", "token", "authorization", "headers", "extra_headers", "secret", "password"}
_LIMITS = ("max_tokens", "max_completion_tokens")


class Answering(BaseModel):
    """What is asked, and of which model. `context` is the model's in tokens; base_url None is the provider's own.

    Several servers of one model are a list of base URLs, and answer for one another: their answers stand under the address of
    the first.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    backend: str
    model: str | None = Field(default=None, min_length=1)
    base_url: str | tuple[str, ...] | None = Field(default=None, repr=False)
    prompt: str = "same-source"
    decision: Decision = "text"
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    max_tokens: Positive | None = 8
    seed: int | None = None
    parameters: dict[str, JsonValue] = {}
    context: Positive | None = None
    truncate: Truncation = "refuse"

    @field_validator("base_url", mode="plain")
    @classmethod
    def _is_an_address(cls, given: object) -> str | tuple[str, ...] | None:
        if given is None:
            return None
        if not isinstance(given, list | tuple):
            return _base_url(given)
        urls = tuple(_base_url(one) for one in given)
        addresses = [public_address(url) for url in urls]
        if not urls or len(set(addresses)) < len(urls):
            raise ValueError(f"a list of servers names one or more, each of them once; it has {addresses}")
        return urls if len(urls) > 1 else urls[0]

    @field_validator("parameters")
    @classmethod
    def _no_secrets(cls, parameters: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if secret := {name for name in parameters if name.casefold() in SECRETS}:
            raise ValueError(
                f"{', '.join(sorted(secret))}: secrets stay out of configs; name a variable in api_key_env"
            )
        return parameters

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy without what was computed from the keys before `update`."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(copied).model_fields.keys():
            del copied.__dict__[name]
        return copied

    @cached_property
    def record(self) -> BackendRecord:
        """The record of its backend. Raises: ConfigError [unknown-judge]."""
        return backend_of(self.backend)

    @property
    def urls(self) -> tuple[str, ...]:
        """The base URLs of its servers with their credentials; none where the backend's library knows it."""
        given = (self.base_url,) if isinstance(self.base_url, str) else self.base_url
        own = "" if given else self.record.address
        return given or ((own,) if own else ())

    @property
    def url(self) -> str | None:
        """The first base URL with its credentials; None where the backend's library knows it."""
        return next(iter(self.urls), None)

    @property
    def address(self) -> str:
        """The first base URL without credentials: part of the key of an answer, also where another of its servers gave it.

        Empty where the backend's library knows it.
        """
        return "" if self.url is None else public_address(self.url)

    @cached_property
    def loaded_prompt(self) -> Prompt:
        """The prompt that `prompt` names. Raises: ConfigError, see `load_prompt`."""
        return load_prompt(self.prompt)

    @cached_property
    def request_parameters(self) -> dict[str, Json]:
        """What is sent beside model and messages."""
        own = {"temperature": self.temperature, "max_tokens": self.longest_answer, "seed": self.seed}
        decided = decision_parameters(self.decision, tuple(self.loaded_prompt.labels))
        return {name: value for name, value in own.items() if value is not None} | decided | self.parameters

    @property
    def longest_answer(self) -> int | None:
        """`max_tokens` where it is given, else what the decision needs; None to send none."""
        return self.max_tokens if "max_tokens" in self.model_fields_set else MAX_TOKENS[self.decision]

    @property
    def answer_limit(self) -> int | None:
        """Most tokens an answer can have; None where nothing bounds it."""
        limits = [value for name, value in self.request_parameters.items() if name in _LIMITS]
        return next((limit for limit in limits if isinstance(limit, int)), None)

    def describe(self) -> dict[str, Json]:
        """Everything that an answer depends on; prompts by their digest."""
        prompt = self.loaded_prompt
        described: dict[str, Json] = {
            "backend": self.backend,
            "model": self.model,
            "base_url": self.address,
            "prompt": prompt.name,
            "prompt_digest": prompt.digest,
            "parser": PARSERS[self.decision],
            "decision": self.decision,
            "parameters": self.request_parameters,
        }
        if self.truncate != "refuse" and self.context is not None:
            described |= {"truncate": self.truncate, "context": self.context}
        return described

    def public(self) -> dict[str, Json]:
        """The keys as they can be stored and loaded again, without credentials."""
        shown = self.model_copy(update={"base_url": self.address or None})
        dumped: dict[str, Json] = shown.model_dump(mode="json", include=set(Answering.model_fields) - {"max_tokens"})
        return dumped | {"max_tokens": self.longest_answer}


def _base_url(url: object) -> str:
    """`url` without a slash at its end. Raises: ValueError."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fits = False
    if not fits or parts.query or parts.fragment:
        raise ValueError("has to be http://… or https://…, without ? and #, or a list of such")
    return str(url).rstrip("/")
