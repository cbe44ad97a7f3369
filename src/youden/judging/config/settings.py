"""Which judge is asked, how and at what price: every key a judge's file may have, and what follows from it.

It knows what decides an answer and what only decides how it is fetched; it refuses to hold a key that opens anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PrivateAttr, field_validator, model_validator

from youden.errors import ConfigError, JudgeError
from youden.judging.call.concurrency import START
from youden.judging.call.connection import Connection, basic_authorization, public_address, url_passwords
from youden.judging.question.decisions import MAX_TOKENS, PARSERS, Decision, decision_hint, decision_parameters
from youden.judging.question.prompts import Prompt, load_prompt
from youden.judging.question.questions import Questions, characters
from youden.judging.question.truncation import Truncation
from youden.judging.registry import JURY, REPLAY, makes_calls
from youden.nouns import Json, Request

OPENAI = "https://api.openai.com/v1"
SECRETS = {"api_key", "apikey", "key", "token", "authorization", "headers", "extra_headers", "secret", "password"}

_LIMITS = ("max_tokens", "max_completion_tokens")
_NOT_PARAMETERS = {"model", "messages", "temperature", "max_tokens", "seed", "stream", "n"}
_DECISIVE = {"name", "backend", "model", "base_url", "prompt", "decision", "temperature", "seed", "parameters"} | {
    "context",
    "truncate",
}
_OPENAI_BY_DEFAULT = {"openai", "wire"}
"""Backends that ask OpenAI with OPENAI_API_KEY where no `base_url` is given; others find their own way and key."""

_SECRET_NAMES = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_SHORTEST_SECRET = 8

Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class JudgeConfig(BaseModel):
    """A judge. Prices are USD per million tokens; None is unknown, 0 is known. Times are seconds.

    `model`, `base_url`, `prompt`, `decision`, `context` with `truncate` and the parameters decide an answer; the rest
    decides how it is fetched. `price` sets both prices. `context` is the model's in tokens. `concurrency` is the most calls
    in flight, `start_concurrency` how many at first. `seconds_per_call` is what a call is thought to take, for the plan's
    minutes alone. `of` is the judge that `replay` repeats, None for the one whose answers
    the store holds; `judges` and `vote` belong to a jury. base_url None is the provider's own.
    `batch_discount` is the share of the price that the provider takes off in a batch. `family` says which agents, by their
    meta.family, are this judge's own kind; it is never sent and decides nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str = Field(default="", max_length=100)
    backend: str
    model: str | None = Field(default=None, min_length=1)
    base_url: str | None = Field(default=None, repr=False)
    api_key_env: str | None = Field(default="OPENAI_API_KEY", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    prompt: str = "same-source"
    decision: Decision = "text"
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    max_tokens: Positive | None = 8
    seed: int | None = None
    parameters: dict[str, JsonValue] = {}
    concurrency: Positive = 64
    start_concurrency: Positive = START
    requests_per_minute: Rate | None = None
    tokens_per_minute: Rate | None = None
    seconds_per_call: Seconds | None = None
    timeout: Seconds = 60.0
    max_tries: Positive = 6
    backoff: Seconds = 0.5
    price_in: Price | None = None
    price_out: Price | None = None
    batch_discount: Annotated[float, Field(ge=0, le=1)] = 0.0
    context: Positive | None = None
    truncate: Truncation = "refuse"
    of: JudgeConfig | None = None
    judges: tuple[JudgeConfig, ...] = ()
    vote: Literal["majority", "mean"] = "majority"
    family: str | None = Field(default=None, min_length=1, max_length=100)

    _price_source: str = PrivateAttr(default="the judge's config")
    _batched: bool = PrivateAttr(default=False)

    @model_validator(mode="before")
    @classmethod
    def _one_price_for_both(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or "price" not in data:
            return data
        if "price_in" in data or "price_out" in data:
            raise ValueError("give either price, or price_in and price_out")
        rest = {key: value for key, value in data.items() if key != "price"}
        return rest | {"price_in": data["price"], "price_out": data["price"]}

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, url: str | None) -> str | None:
        if url is None:
            return None
        try:
            parts = urlsplit(url)
            fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            fits = False
        if not fits or parts.query or parts.fragment:
            raise ValueError("has to be http://… or https://…, without ? and #")
        return url.rstrip("/")

    @field_validator("parameters")
    @classmethod
    def _no_secrets(cls, parameters: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if secret := {name for name in parameters if name.casefold() in SECRETS}:
            raise ValueError(
                f"{', '.join(sorted(secret))}: secrets stay out of configs; name a variable in api_key_env"
            )
        return parameters

    @model_validator(mode="after")
    def _fits_its_backend(self) -> Self:
        if self.of is not None and self.backend != REPLAY:
            raise ValueError(f"`of` belongs to `backend: {REPLAY}` only")
        if self.judges and self.backend != JURY:
            raise ValueError(f"`judges` belongs to `backend: {JURY}` only")
        if self.backend == JURY:
            self._check_jury()
        if self.makes_calls and (twice := _NOT_PARAMETERS & set(self.parameters)):
            raise ValueError(
                f"{', '.join(sorted(twice))} cannot stand under parameters: it has a key of its own or is fixed"
            )
        if not self.name:
            object.__setattr__(self, "name", self.model or self.backend)
        return self

    def _check_jury(self) -> None:
        names = [judge.name for judge in self.judges]
        if len(names) < 2 or len(set(names)) < len(names):
            raise ValueError(f"a jury has two `judges` or more, each with a name of its own; it has {names}")
        if any(judge.backend == JURY for judge in self.judges):
            raise ValueError("a jury cannot sit on a jury; name its judges instead")
        if self.vote == "majority" and len(names) % 2 == 0:
            raise ValueError(f"{len(names)} judges can split evenly; give an odd number, or `vote: mean`")

    @property
    def makes_calls(self) -> bool:
        return makes_calls(self.backend)

    @property
    def needs_store(self) -> bool:
        """Whether answers of this judge are kept in, or come from, a store."""
        return self.makes_calls or self.backend == REPLAY or any(judge.needs_store for judge in self.judges)

    @property
    def may_cost(self) -> bool:
        """Whether asking it can cost money, as far as anybody knows."""
        own = self.makes_calls and not (self.price_in == 0 and self.price_out == 0)
        return own or any(judge.may_cost for judge in self.judges)

    @property
    def price_source(self) -> str:
        """Where the prices come from, in words."""
        return self._price_source

    @property
    def batched(self) -> bool:
        """Whether it is asked through its provider's Batch API."""
        return self._batched

    def priced(self, price_in: float, price_out: float, *, source: str) -> Self:
        """This judge at these prices."""
        config = self.model_copy(update={"price_in": price_in, "price_out": price_out})
        config._price_source = source
        return config

    def unpaced(self) -> Self:
        """This judge without limits of requests and tokens a minute."""
        return self.model_copy(update={"requests_per_minute": None, "tokens_per_minute": None})

    def at_batch_prices(self) -> Self:
        """This judge, or jury, asked in a batch, at its prices."""

        def off(usd: float | None) -> float | None:
            return None if usd is None else usd * (1 - self.batch_discount)

        judges = tuple(judge.at_batch_prices() for judge in self.judges)
        prices = {"price_in": off(self.price_in), "price_out": off(self.price_out)}
        config = self.model_copy(update={**prices, "batch_discount": 0.0, "judges": judges})
        config._batched = True
        return config

    @property
    def url(self) -> str | None:
        """The base URL with its credentials; None where the backend's library knows it."""
        return self.base_url or (OPENAI if self.backend in _OPENAI_BY_DEFAULT else None)

    @property
    def address(self) -> str:
        """The base URL without credentials; empty where the backend's library knows it."""
        return "" if self.url is None else public_address(self.url)

    @property
    def key_variable(self) -> str | None:
        """The environment variable that holds the key."""
        given = "api_key_env" in self.model_fields_set or self.backend in _OPENAI_BY_DEFAULT
        return self.api_key_env if given else None

    @property
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

    @cached_property
    def answer_tokens(self) -> int:
        return self.answer_limit or 16

    @cached_property
    def loaded_prompt(self) -> Prompt:
        """The prompt that `prompt` names. Raises: ConfigError, see `load_prompt`."""
        return load_prompt(self.prompt)

    @property
    def overhead_characters(self) -> int:
        if not self.makes_calls:
            return 0
        hint = decision_hint(self.decision, tuple(self.loaded_prompt.labels))
        return characters(Request("", self.loaded_prompt.messages("", "", hint=hint)))

    def questions(self) -> Questions:
        """What this judge is asked about a trial. Raises: ConfigError [judge-model] where no model is named."""
        if self.model is None:
            raise ConfigError(
                f"The judge '{self.name}' ({self.backend}) names no model. Add `model: …` to its config.",
                slug="judge-model",
            )
        return Questions(
            self.loaded_prompt,
            self.model,
            self.address,
            self.request_parameters,
            self.context,
            self.decision,
            self.truncate,
            self.answer_tokens,
        )

    def connection(self, environment: Mapping[str, str]) -> Connection:
        """The way to the model, with the key that `environment` holds.

        Raises: JudgeError [judge-no-key], ConfigError [judge-two-keys].
        """
        authorization = None if self.url is None else basic_authorization(self.url)
        variable = self.key_variable
        key = None if variable is None else environment.get(variable, "").strip() or None
        if authorization is not None and variable is not None:
            raise ConfigError(
                f"The judge '{self.name}' has credentials in base_url and a key in {variable}: only one can be sent. "
                "Set `api_key_env: null`, or take them out of base_url.",
                slug="judge-two-keys",
            )
        if key is None and (variable is not None or self.address == OPENAI):
            raise JudgeError(
                f"The judge '{self.name}' needs a key, and the environment variable {variable or 'OPENAI_API_KEY'} "
                "is empty or not set. Set it; for a server that wants no key give its base_url and `api_key_env: null`.",
                slug="judge-no-key",
            )
        return Connection(
            self.name,
            self.address,
            self.timeout,
            api_key=key,
            authorization=authorization,
            secrets=(*_secrets_in(environment), *url_passwords(self.url or "")),
        )

    def describe(self) -> dict[str, Json]:
        """Everything of this judge that an answer depends on."""
        if self.backend == JURY:
            members: list[Json] = [judge.describe() for judge in self.judges]
            return {"name": self.name, "backend": self.backend, "vote": self.vote, "judges": members}
        if not self.makes_calls:
            return {"name": self.name, "backend": self.backend, "parameters": self.parameters}
        prompt = self.loaded_prompt
        described: dict[str, Json] = {
            "name": self.name,
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
        """What decides an answer, as it can be stored and loaded again: no credentials, nothing of how it is fetched."""
        dumped: dict[str, Json] = self.model_dump(mode="json", include=_DECISIVE)
        return dumped | {"base_url": self.address or None, "max_tokens": self.longest_answer}


def _secrets_in(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Values that a library may send as keys and a reply may quote, by the look of their names."""
    named = [value for name, value in environment.items() if name.upper().endswith(_SECRET_NAMES)]
    return tuple(value for value in named if len(value) >= _SHORTEST_SECRET)


def price(config: JudgeConfig, tokens_in: float, tokens_out: float) -> float:
    """USD for so many tokens, NaN where a price is unknown."""
    if config.price_in is None or config.price_out is None:
        return math.nan
    return (tokens_in * config.price_in + tokens_out * config.price_out) / 1e6
