"""A judge: its name, what decides its answers, how they are fetched, and the judges it is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, model_validator

from youden.errors import ConfigError, JudgeError
from youden.judging.backend_records import JURY, REPLAY
from youden.judging.call.connection import Connection, basic_authorization, public_address, url_passwords
from youden.judging.config.answering import Answering, Fetching
from youden.judging.config.trust import BASE_URLS, KeyUse, check_uses, host_of, is_loopback, key_uses
from youden.judging.question.questions import Questions
from youden.resources import stays_in_folder
from youden.types.judging import AnswerKind
from youden.types.pool import Json

DOTENV = ".env"
_NOT_PARAMETERS = {"model", "messages", "temperature", "max_tokens", "seed", "stream", "n"}
_SECRET_NAMES = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_SHORTEST_SECRET = 8


class JudgeConfig(Fetching, Answering):
    """A judge: the keys of its file, which `load_judge_config` reads.

    `of` is the judge that `replay` repeats, None for the one whose answers the store holds; `judges` and `vote` belong to a
    jury. `family` says which agents, by their meta.family, are this judge's own kind; it is never sent and decides nothing.
    """

    name: str = Field(default="", max_length=100)
    of: JudgeConfig | None = None
    judges: tuple[JudgeConfig, ...] = ()
    vote: Literal["majority", "mean"] = "majority"
    family: str | None = Field(default=None, min_length=1, max_length=100)

    _price_source: str = PrivateAttr(default="the judge's config")
    _batched: bool = PrivateAttr(default=False)
    _beside: tuple[Path, ...] = PrivateAttr(default=())
    _file: Path | None = PrivateAttr(default=None)
    _from_code: bool = PrivateAttr(default=False)

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
    def servers(self) -> tuple[Self, ...]:
        """This judge at each of its servers; itself where it has one."""
        urls = self.urls
        return tuple(self.asked_with({"base_url": url}) for url in urls) if len(urls) > 1 else (self,)

    @property
    def answers(self) -> AnswerKind:
        """Of what kind an answer is: 0 or 1, anything between, or a similarity of words."""
        if self.of is not None:
            return self.of.answers
        if self.backend == JURY:
            return "yes or no" if self.vote == "majority" else "graded"
        if self.backend == "lexical":
            return "lexical"
        hard = self.backend == REPLAY or (self.makes_calls and self.decision != "logprobs")
        return "yes or no" if hard else "graded"

    @property
    def makes_calls(self) -> bool:
        return self.record.makes_calls

    @property
    def needs_store(self) -> bool:
        """Whether answers of this judge are kept in, or come from, a store."""
        return self.makes_calls or self.backend == REPLAY or any(judge.needs_store for judge in self.judges)

    @property
    def asks(self) -> bool:
        """Whether answers come into a store by asking somebody, not out of one alone."""
        return self.needs_store and self.backend != REPLAY

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

    @property
    def answer_tokens(self) -> int:
        """Tokens that an answer is thought to have."""
        return self.answer_limit or 16

    @property
    def overhead_characters(self) -> int:
        """Characters of a request around its two texts; 0 where nothing is sent."""
        return self.questions().around if self.makes_calls else 0

    @property
    def key_variable(self) -> str | None:
        """The environment variable that holds the key."""
        given = "api_key_env" in self.model_fields_set
        return self.api_key_env if given else self.record.key_variable

    def priced(self, price_in: float, price_out: float, *, source: str) -> Self:
        """This judge at these prices."""
        config = self.model_copy(update={"price_in": price_in, "price_out": price_out})
        config._price_source = source
        return config

    def at_batch_prices(self) -> Self:
        """This judge, or jury, asked in a batch, at its prices."""

        def off(usd: float | None) -> float | None:
            return None if usd is None else usd * (1 - self.batch_discount)

        judges = tuple(judge.at_batch_prices() for judge in self.judges)
        prices = {"price_in": off(self.price_in), "price_out": off(self.price_out), "batch_discount": 0.0}
        config = self.model_copy(update={**prices, "judges": judges})
        config._batched = True
        return config

    def asked_with(self, changes: Mapping[str, Json]) -> Self:
        """Return this judge with some keys of what decides an answer changed."""
        return self.model_copy(update=changes)

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

    def beside(self, *folders: Path) -> Self:
        """This judge, or jury, whose key may also stand in a file `.env` in one of `folders`."""
        judges = tuple(judge.beside(*folders) for judge in self.judges)
        config = self.model_copy(update={"judges": judges})
        config._beside = (*self._beside, *folders)
        return config

    def described_in(self, file: Path | None, *, from_code: bool = False) -> Self:
        """Return a copy of this judge with the file that describes it, for error messages.

        from_code: whether its keys were written in Python. Code needs no permission to send an environment variable, because it
        can read all of them.
        """
        config = self.model_copy()
        config._file, config._from_code = file, from_code
        return config

    def key_uses(self) -> tuple[KeyUse, ...]:
        """Return which environment variables are sent to which hosts; for a jury, by any of its judges."""
        if self.judges:
            return tuple(use for judge in self.judges for use in judge.key_uses())
        if not self.makes_calls:
            return ()
        return key_uses(self.backend, self.model, self.key_variable, self.urls)

    def key_found(self, environment: Mapping[str, str]) -> tuple[str | None, str]:
        """(the key, where it was found): in `environment`, else in a file `.env` beside the judge's file or the run's, or where
        the command runs. Nothing but this key is ever taken from such a file."""
        variable = self.key_variable
        if variable is None:
            return None, ""
        if given := environment.get(variable, "").strip():
            return given, "the environment"
        for file in self._env_files():
            if file.is_file() and stays_in_folder(file) and (key := _in_file(file, variable)):
                return key, str(file)
        return None, ""

    def _env_files(self) -> tuple[Path, ...]:
        return tuple(folder / DOTENV for folder in dict.fromkeys((*self._beside, Path())))

    def describe_connections(self) -> list[str]:
        """Return one line for this judge, or for each judge of a jury: where it sends texts and which variable holds its key."""
        if self.judges:
            return [line for judge in self.judges for line in judge.describe_connections()]
        if not self.makes_calls:
            return []
        ports = [public_address(url).partition("://")[2].partition("/")[0].rpartition(":") for url in self.urls]
        hosts = [
            host_of(url) + (f":{port}" if port.isdigit() else "")
            for url, (_, _, port) in zip(self.urls, ports, strict=True)
        ]
        where = ", ".join(hosts) or f"the host that {self.backend} knows for {self.model}"
        key = f"key from {self.key_variable}" if self.key_variable is not None else "no key"
        if self.backend == "litellm" and self.key_variable is None:
            key = "key found by litellm"
        if any(basic_authorization(url) for url in self.urls):
            key = "password in its base_url"
        return [f"{self.name} at {where}, {key}"]

    def check_trust(self, environment: Mapping[str, str]) -> None:
        """Check, before anything is sent, that each key may be sent to its hosts; for a jury, those of all its judges.

        Raises
        ------
        ConfigError
            [key-not-trusted], [key-over-http]; [env-base-url] if the file that holds the key also sets an address for it.
        """
        for judge in self.judges:
            judge.check_trust(environment)
        key, where = self.key_found(environment)
        sends = key is not None or (self.makes_calls and self.key_variable is None)
        if sends and not self._from_code:
            check_uses(self.key_uses(), judge=self.name, file=self._file)
        self.check_addresses(sends_key=key is not None)
        name, _ = BASE_URLS.get(self.key_variable or "", ("", ""))
        if (
            name
            and key is not None
            and self.base_url is None
            and where != "the environment"
            and _in_file(Path(where), name)
        ):
            raise ConfigError(
                f"{where} holds the key in {self.key_variable} and an address in {name}, which is read from the process's "
                f"environment alone. Export {name}, or set base_url in a judge's file.",
                slug="env-base-url",
            )

    def check_addresses(self, *, sends_key: bool) -> None:
        """Check that no key goes to another machine over http. Raises: ConfigError [key-over-http]."""
        for url in self.urls if self.makes_calls and sends_key else ():
            if urlsplit(url).scheme == "http" and not is_loopback(host_of(url)):
                raise ConfigError(
                    f"The judge '{self.name}' would send a key to {host_of(url)} over http, where others can read it. "
                    "Nothing was sent. Set base_url to an address that begins with https://, or set `api_key_env: null`.",
                    slug="key-over-http",
                )

    def connection(self, environment: Mapping[str, str]) -> Connection:
        """The way to the model, with the key that `environment` holds.

        Raises: JudgeError [judge-no-key], ConfigError [judge-two-keys], and as `check_trust`.
        """
        url = self.url
        authorization = None if url is None else basic_authorization(url)
        variable = self.key_variable
        key, _ = self.key_found(environment)
        if authorization is not None and variable is not None:
            raise ConfigError(
                f"The judge '{self.name}' has credentials in base_url and a key in {variable}: only one can be sent. "
                "Set `api_key_env: null`, or take them out of base_url.",
                slug="judge-two-keys",
            )
        self.check_trust(environment)
        needs = self.record
        if key is None and (variable is not None or (needs.address and self.address == needs.address)):
            raise JudgeError(
                f"The judge '{self.name}' needs a key, and the environment variable {variable or needs.key_variable} "
                "is empty or not set, and no .env beside the config or here has it"
                f"{self._env_files_that_leave()}. Set it; for a server that wants no key "
                "give its base_url and `api_key_env: null`.",
                slug="judge-no-key",
            )
        return Connection(
            self.name,
            self.address,
            self.timeout,
            api_key=key,
            authorization=authorization,
            secrets=(*_secrets_in(environment), *url_passwords(url or "")),
        )

    def _env_files_that_leave(self) -> str:
        """Name the `.env` files that are not read because they link to a file outside their folder."""
        files = [str(file) for file in self._env_files() if file.is_file() and not stays_in_folder(file)]
        return f" ({', '.join(files)} links to a file outside its folder and is not read)" if files else ""

    def describe(self) -> dict[str, Json]:
        """Everything of this judge that an answer depends on."""
        if self.backend == JURY:
            members: list[Json] = [judge.describe() for judge in self.judges]
            return {"name": self.name, "backend": self.backend, "vote": self.vote, "judges": members}
        if not self.makes_calls:
            return {"name": self.name, "backend": self.backend, "parameters": self.parameters}
        return {"name": self.name, **super().describe()}

    def public(self) -> dict[str, Json]:
        """What decides an answer, as it can be stored and loaded again: no credentials, nothing of how it is fetched."""
        return {"name": self.name, **super().public()}


def _in_file(file: Path, variable: str) -> str | None:
    """The value of one variable in a file of variables. Raises: ConfigError [judge-env-file]."""
    from dotenv import dotenv_values

    try:
        return (dotenv_values(file, interpolate=False, encoding="utf-8-sig").get(variable) or "").strip() or None
    except (OSError, ValueError):
        raise ConfigError(
            f"{file} cannot be read, and {variable} is not in the environment. Save it as UTF-8 text with lines NAME=VALUE, or "
            "set the variable.",
            slug="judge-env-file",
        ) from None


def _secrets_in(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Values that a library may send as keys and a reply may quote, by the look of their names."""
    named = [value for name, value in environment.items() if name.upper().endswith(_SECRET_NAMES)]
    return tuple(value for value in named if len(value) >= _SHORTEST_SECRET)


def price(config: JudgeConfig, tokens_in: float, tokens_out: float) -> float:
    """USD for so many tokens, NaN where a price is unknown."""
    if config.price_in is None or config.price_out is None:
        return math.nan
    return (tokens_in * config.price_in + tokens_out * config.price_out) / 1e6
