"""Which judge is asked, how and at what price: a YAML file, checked before anything is spent.

It knows every key a judge's file may have and where judges are looked up; it refuses to hold a key that opens anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator, model_validator

from youden.errors import ConfigError, JudgeError
from youden.judging.connection import Connection, basic_authorization, public_address
from youden.judging.prompts import Prompt, load_prompt
from youden.judging.questions import Questions, characters
from youden.judging.registry import JUDGES, REPLAY, makes_calls
from youden.resources import roots
from youden.types import Json, Request

OPENAI = "https://api.openai.com/v1"

_LIMITS = ("max_tokens", "max_completion_tokens")
_NOT_PARAMETERS = {"model", "messages", "temperature", "max_tokens", "seed", "stream", "n"}
_SECRETS = {"api_key", "apikey", "key", "token", "authorization", "headers", "extra_headers", "secret", "password"}
_DECISIVE = {"name", "backend", "model", "base_url", "prompt", "decision", "temperature", "max_tokens", "seed"} | {
    "parameters",
    "context",
}
_ANY_JUDGE = {"name", "backend", "parameters"}

Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class JudgeConfig(BaseModel):
    """A judge. Prices are USD per million tokens; None is unknown, 0 is known. Times are seconds.

    `backend`, `model`, `base_url`, `prompt`, `decision` and the parameters decide an answer and are part of its key;
    the rest decides how it is fetched. `price` sets both prices. `of` is the judge that `replay` repeats, None for the
    one whose answers the store holds. `context` is the model's in tokens.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str = Field(default="", max_length=100)
    backend: str
    model: str | None = Field(default=None, min_length=1)
    base_url: str = Field(default=OPENAI, repr=False)
    api_key_env: str | None = Field(default="OPENAI_API_KEY", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    prompt: str = "same-source"
    decision: Literal["text"] = "text"
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    max_tokens: Positive | None = 8
    seed: int | None = None
    parameters: dict[str, JsonValue] = {}
    concurrency: Positive = 16
    timeout: Seconds = 60.0
    max_tries: Positive = 6
    backoff: Seconds = 0.5
    price_in: Price | None = None
    price_out: Price | None = None
    context: Positive | None = None
    of: JudgeConfig | None = None

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
    def _is_an_address(cls, url: str) -> str:
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
        if secret := {name for name in parameters if name.casefold() in _SECRETS}:
            raise ValueError(
                f"{', '.join(sorted(secret))}: secrets stay out of configs; name a variable in api_key_env"
            )
        return parameters

    @model_validator(mode="after")
    def _fits_its_backend(self) -> Self:
        if self.of is not None and self.backend != REPLAY:
            raise ValueError(f"`of` belongs to `backend: {REPLAY}` only")
        if self.makes_calls and (twice := _NOT_PARAMETERS & set(self.parameters)):
            raise ValueError(
                f"{', '.join(sorted(twice))} cannot stand under parameters: it has a key of its own or is fixed"
            )
        if not self.name:
            object.__setattr__(self, "name", self.model or self.backend)
        return self

    @property
    def makes_calls(self) -> bool:
        return makes_calls(self.backend)

    @property
    def address(self) -> str:
        """The base URL without credentials."""
        return public_address(self.base_url)

    @property
    def request_parameters(self) -> dict[str, Json]:
        """What is sent beside model and messages."""
        own = {"temperature": self.temperature, "max_tokens": self.max_tokens, "seed": self.seed}
        return {name: value for name, value in own.items() if value is not None} | self.parameters

    @property
    def answer_limit(self) -> int | None:
        """Most tokens an answer can have; None where nothing bounds it."""
        limits = [value for name, value in self.request_parameters.items() if name in _LIMITS]
        return next((limit for limit in limits if isinstance(limit, int)), None)

    @property
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
        return characters(Request("", self.loaded_prompt.messages("", "")))

    def questions(self) -> Questions:
        """What this judge is asked about a trial. Raises: ConfigError [judge-model] where no model is named."""
        if self.model is None:
            raise ConfigError(
                f"The judge '{self.name}' ({self.backend}) names no model. Add `model: …` to its config.",
                slug="judge-model",
            )
        return Questions(self.loaded_prompt, self.model, self.address, self.request_parameters, self.context)

    def connection(self, environment: Mapping[str, str]) -> Connection:
        """The way to the model, with the key that `environment` holds.

        Raises: JudgeError [judge-no-key], ConfigError [judge-two-keys].
        """
        authorization = basic_authorization(self.base_url)
        key = None if self.api_key_env is None else environment.get(self.api_key_env, "").strip() or None
        if authorization is not None and self.api_key_env is not None:
            raise ConfigError(
                f"The judge '{self.name}' has credentials in base_url and a key in {self.api_key_env}: only one can be sent. "
                "Set `api_key_env: null`, or take them out of base_url.",
                slug="judge-two-keys",
            )
        if key is None and (self.api_key_env is not None or self.address == OPENAI):
            raise JudgeError(
                f"The judge '{self.name}' needs a key, and the environment variable {self.api_key_env or 'OPENAI_API_KEY'} "
                "is empty or not set. Set it; for a server that wants no key give its base_url and `api_key_env: null`.",
                slug="judge-no-key",
            )
        return Connection(self.name, self.address, self.timeout, api_key=key, authorization=authorization)

    def describe(self) -> dict[str, Json]:
        """Everything of this judge that an answer depends on."""
        prompt = self.loaded_prompt
        return {
            "name": self.name,
            "backend": self.backend,
            "model": self.model,
            "base_url": self.address,
            "prompt": prompt.name,
            "prompt_digest": prompt.digest,
            "parser": prompt.parser,
            "decision": self.decision,
            "parameters": self.request_parameters,
        }

    def public(self) -> dict[str, Json]:
        """What decides an answer, as it can be stored and loaded again: no credentials, nothing of how it is fetched."""
        dumped: dict[str, Json] = self.model_dump(mode="json", include=_DECISIVE)
        return dumped | {"base_url": self.address}


def load_judge_config(source: str | Path | Mapping[str, Any]) -> JudgeConfig:
    """The judge that `source` names: configs/judges/NAME.yaml, a file of your own, a mapping, or a bare backend.

    Raises: ConfigError [unknown-judge], [judge-config], [judge-config-unreadable], and the prompt's.
    """
    if isinstance(source, Mapping):
        return _checked(source, where="the judge's config", folder=Path())
    path = _find(source)
    if path is None:
        return _checked({"backend": str(source)}, where=f"the judge '{source}'", folder=Path())
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(
            f"{path} cannot be read: {' '.join(str(error).split())}. Give a UTF-8 YAML file.",
            slug="judge-config-unreadable",
        ) from None
    if not isinstance(data, Mapping):
        raise ConfigError(f"{path} holds no keys. Write `backend: …`, `model: …` and so on.", slug="judge-config")
    return _checked({"name": path.stem, **data}, where=str(path), folder=path.parent)


def _find(source: str | Path) -> Path | None:
    """The file that `source` names, None for a bare backend."""
    if isinstance(source, Path) or source.endswith((".yaml", ".yml")):
        return Path(source)
    folders = [root / "judges" for root in roots("configs")]
    for folder in folders:
        if (path := folder / f"{source}.yaml").is_file():
            return path
    if source in JUDGES:
        return None
    known = sorted({path.stem for folder in folders for path in folder.glob("*.yaml")} | set(JUDGES))
    close = get_close_matches(source, known, n=1)
    hint = f"Did you mean '{close[0]}'?" if close else f"Known: {', '.join(known)}."
    raise ConfigError(
        f"There is no judge called '{source}'. {hint} A file of your own is given as a path that ends in .yaml.",
        slug="unknown-judge",
    )


def _checked(data: Mapping[str, Any], *, where: str, folder: Path) -> JudgeConfig:
    data = dict(data)
    if isinstance(data.get("of"), str | Mapping):
        data["of"] = load_judge_config(data["of"])
    prompt = data.get("prompt")
    if isinstance(prompt, str) and prompt.endswith(".md") and (folder / prompt).is_file():
        data["prompt"] = str(folder / prompt)
    try:
        config = JudgeConfig.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"In {where}: {_says(error)}", slug="judge-config") from None
    if config.makes_calls:
        config.questions()
    elif meaningless := config.model_fields_set - _ANY_JUDGE - {"of"}:
        raise ConfigError(
            f"In {where}: the judge '{config.backend}' makes no calls, so {', '.join(sorted(meaningless))} would have no "
            "effect. Remove it.",
            slug="judge-config",
        )
    return config


def _says(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    allowed = sorted([*JudgeConfig.model_fields, "price"])
    if first["type"] == "extra_forbidden":
        if key.casefold() in _SECRETS:
            return (
                f"'{key}' may not stand in a config. Put the key in an environment variable, its name in api_key_env."
            )
        close = get_close_matches(key, allowed, n=1)
        hint = f"Did you mean '{close[0]}'? " if close else ""
        return f"unknown key '{key}'. {hint}Allowed: {', '.join(allowed)}."
    if first["type"] == "missing":
        return f"'{key}' is missing. Write, for example, `{key}: openai`."
    shown = "" if key in ("", "base_url", "api_key_env", "parameters") else f" arrived as {first['input']!r}"
    reason = first["msg"].removeprefix("Value error, ")
    return f"{f'{key!r}{shown}: ' if key else ''}{reason}. Correct it."


def price(config: JudgeConfig, tokens_in: float, tokens_out: float) -> float:
    """USD for so many tokens, NaN where a price is unknown."""
    if config.price_in is None or config.price_out is None:
        return math.nan
    return (tokens_in * config.price_in + tokens_out * config.price_out) / 1e6
