"""Define the keys of a judge's file: those that determine an answer, and those that determine how it is requested.

Model, address, prompt and parameters determine an answer, so all of them are part of the request hash. The API key,
rate limits, retries and prices determine only how the request is sent: they change neither the answer nor the hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from youden.judging.backend_records import get_backend_record
from youden.judging.backends.record import BackendRecord
from youden.judging.call.connection import to_public_address
from youden.judging.call.pace import DEFAULT_START_CONCURRENCY
from youden.judging.question.parsing import MAX_TOKENS, PARSERS, Decision, Truncation, make_decision_parameters
from youden.judging.question.prompts import Prompt, load_prompt
from youden.types.pool import Json

Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class RequestSettings(BaseModel):
    """How a judge's answers are requested: API key, rate limits, retries and prices.

    Attributes
    ----------
    api_key_env : str or None
        Environment variable that contains the API key; None sends no key. If it is not set, the backend's own variable
        is used.
    concurrency, start_concurrency : int
        Largest number of calls in flight, and the number at first.
    requests_per_minute, tokens_per_minute : float or None
        Rate limits; None for no limit.
    seconds_per_call : float or None
        Expected duration of a call in seconds, from which only the minutes of a plan are estimated.
    timeout : float
        Longest duration of a call in seconds.
    max_tries : int
        Largest number of attempts per call; replies with HTTP 429 do not count.
    backoff : float
        Seconds before the second attempt; they double with each further one.
    max_outage : float
        Seconds for which a server that has answered may be unreachable before the run stops. 0 counts every failure as
        an attempt.
    price_in, price_out : float or None
        USD per million tokens of requests and of answers; None if unknown.
    batch_discount : float
        Fraction of the price that the provider deducts in a batch, in [0, 1].
    batch_provider : str or None
        Registered batch provider; None for the backend's own. "folder" writes files to a folder for an engine that
        writes the results next to them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    api_key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    concurrency: Positive = 64
    start_concurrency: Positive = DEFAULT_START_CONCURRENCY
    requests_per_minute: Rate | None = None
    tokens_per_minute: Rate | None = None
    seconds_per_call: Seconds | None = None
    timeout: Seconds = 60.0
    max_tries: Positive = 6
    backoff: Seconds = 0.5
    max_outage: Annotated[float, Field(ge=0)] = 900.0
    price_in: Price | None = None
    price_out: Price | None = None
    batch_discount: Annotated[float, Field(ge=0, le=1)] = 0.0
    batch_provider: str | None = Field(default=None, min_length=1)


SECRETS = {"api_key", "apikey", "key", "token", "authorization", "headers", "extra_headers", "secret", "password"}
_LIMITS = ("max_tokens", "max_completion_tokens")


class AnswerSettings(BaseModel):
    """What determines the answers of a judge: its model, prompt and parameters.

    Attributes
    ----------
    backend : str
        Registered backend or provider.
    model : str or None
        Name of the model, as the provider knows it.
    base_url : str, tuple of str, or None
        Base URL of the server, with credentials if it needs some; None for the provider's own. Several servers of one
        model are a tuple; their answers are stored under the address of the first one.
    prompt : str
        Name of a prompt, or the path of a file that ends in `.md`.
    decision : {"text", "json", "logprobs"}
        How the judge decides. If it is not set, a loaded config has "logprobs" if the provider is known to return
        log-probabilities for the model, and "text" otherwise.
    temperature : float or None
        Sampling temperature; None to send none.
    max_tokens : int or None
        Largest number of tokens of an answer; None to send none. If it is not set, it depends on `decision`.
    seed : int or None
        Seed that is sent to the provider; None to send none.
    parameters : dict
        Further parameters of a request.
    context_window : int or None
        Context window of the model in tokens; None if unknown, and then no text is truncated.
    truncate : {"refuse", "middle", "end"}
        What is done with texts that are too long for the context window.
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
    context_window: Positive | None = None
    truncate: Truncation = "refuse"

    @field_validator("base_url", mode="plain")
    @classmethod
    def _validate_base_url(cls, value: object) -> str | tuple[str, ...] | None:
        """Return the valid URL or URLs without trailing slashes; a list of one URL becomes the URL."""
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            return _parse_base_url(value)
        urls = tuple(map(_parse_base_url, value))
        addresses = [to_public_address(url) for url in urls]
        has_duplicates = len(set(addresses)) < len(urls)
        if not urls or has_duplicates:
            raise ValueError(f"a list of servers must contain one or more different addresses: got {addresses}")
        return urls if len(urls) > 1 else urls[0]

    @field_validator("parameters")
    @classmethod
    def _validate_parameters(cls, parameters: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Raise ValueError if a parameter has the name of a secret, such as an API key."""
        secret_names = sorted(name for name in parameters if name.casefold() in SECRETS)
        if secret_names:
            raise ValueError(
                f"secrets must not be in a config (got {', '.join(secret_names)}); set api_key_env to the name of a variable"
            )
        return parameters

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some keys changed, without cached properties."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(copied).model_fields.keys():
            del copied.__dict__[name]
        return copied

    @cached_property
    def record(self) -> BackendRecord:
        """The record of the backend. Raises: ConfigError [unknown-judge], if it is not registered."""
        return get_backend_record(self.backend)

    @property
    def urls(self) -> tuple[str, ...]:
        """The base URLs of the servers, with credentials; empty if the backend's library knows the address."""
        urls = (self.base_url,) if isinstance(self.base_url, str) else self.base_url
        if urls:
            return urls
        default_url = self.record.address
        return (default_url,) if default_url else ()

    @property
    def url(self) -> str | None:
        """The first base URL, with credentials; None if the backend's library knows the address."""
        return next(iter(self.urls), None)

    @property
    def address(self) -> str:
        """The first base URL without credentials, which is part of the request hash.

        It is part of the hash also if another server of the judge answers. It is empty if the backend's library knows
        the address.
        """
        return "" if self.url is None else to_public_address(self.url)

    @cached_property
    def loaded_prompt(self) -> Prompt:
        """The prompt. Raises: ConfigError, if it cannot be loaded, see `load_prompt`."""
        return load_prompt(self.prompt)

    @cached_property
    def request_parameters(self) -> dict[str, Json]:
        """All parameters of a request other than model and messages."""
        optional = {"temperature": self.temperature, "max_tokens": self.max_answer_tokens, "seed": self.seed}
        settings = {name: value for name, value in optional.items() if value is not None}
        decision_parameters = make_decision_parameters(self.decision, tuple(self.loaded_prompt.labels))
        return settings | decision_parameters | self.parameters

    @property
    def max_answer_tokens(self) -> int | None:
        """The value of `max_tokens` that is sent: the given one, or else what the decision needs; None to send none."""
        return self.max_tokens if "max_tokens" in self.model_fields_set else MAX_TOKENS[self.decision]

    @property
    def answer_limit(self) -> int | None:
        """Largest number of tokens that an answer can have; None if nothing limits it. Of two limits, servers may use either."""
        limits = [self.request_parameters.get(name) for name in _LIMITS]
        return max((limit for limit in limits if isinstance(limit, int)), default=None)

    def describe(self) -> dict[str, Json]:
        """Return the settings that the answers depend on. The settings are stored with the answers of a run.

        Returns
        -------
        dict of str to JSON value
            The settings by name:

            - `backend`, `model`, and `base_url`, the address of the server
            - `prompt` (its name) and `prompt_digest` (digest of its text)
            - `decision` and `parser`: form of the answer, and how it is read
            - `parameters` of a request
            - only if long texts are shortened: `truncate` (how they are shortened) and `context_window` (maximum number of tokens
              of a request and its answer)
        """
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
        shortens_texts = self.truncate != "refuse" and self.context_window is not None
        if shortens_texts:
            described |= {"truncate": self.truncate, "context_window": self.context_window}
        return described

    def public(self) -> dict[str, Json]:
        """Return the keys of the judge's file without credentials, so that they can be stored and loaded again."""
        public_copy = self.model_copy(update={"base_url": self.address or None})
        included = set(AnswerSettings.model_fields) - {"max_tokens"}
        dumped: dict[str, Json] = public_copy.model_dump(mode="json", include=included)
        return dumped | {"max_tokens": self.max_answer_tokens}


def _parse_base_url(url: object) -> str:
    """Return a base URL without a trailing slash.

    url : value of the key `base_url`, or an element of it, of any type

    Raises: ValueError if the value is not an http or https URL with a host, or if the URL has a query or a fragment.
    """
    text = url if isinstance(url, str) else ""
    try:
        parts = urlsplit(text)
        _ = parts.port  # ValueError if it is not a number up to 65535
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_valid = False
    if not is_valid or parts.query or parts.fragment:
        raise ValueError("must be an address http://… or https://… without ? and #, or a list of such addresses")
    return text.rstrip("/")
