"""Define the config of a judge: its name, its answer and request settings, and, for a jury or a replay, other judges.

The config is immutable. Methods that begin with `with_` return changed copies.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, model_validator

from youden.errors import ConfigError, JudgeError
from youden.judging.backend_records import BACKENDS, JURY, PROVIDERS, REPLAY
from youden.judging.call.connection import Connection, find_url_passwords, make_basic_authorization, to_public_address
from youden.judging.config.answering import AnswerSettings, RequestSettings
from youden.judging.config.trust import BASE_URLS, KeyUse, check_key_uses, find_key_uses, get_host, is_loopback
from youden.judging.question.parsing import MAX_TOKENS, Decision
from youden.judging.question.questions import Questions
from youden.resources import is_inside_folder
from youden.types.judging import AnswerKind
from youden.types.pool import Json

DOTENV = ".env"
_RESERVED_PARAMETERS = {"model", "messages", "temperature", "max_tokens", "seed", "stream", "n"}
_SECRET_NAMES = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_MIN_SECRET_CHARACTERS = 8


class JudgeConfig(RequestSettings, AnswerSettings):
    """The config of a judge, loaded by `load_judge_config`.

    Attributes
    ----------
    name : str
        Name of the judge; by default that of the model or backend.
    replay_of : JudgeConfig or None
        The judge that the backend "replay" repeats; None for the one whose answers are in the store.
    judges : tuple of JudgeConfig
        Judges of a jury; empty for other judges.
    vote : {"majority", "mean"}
        How a jury combines the answers of its judges.
    family : str or None
        Model family of the judge, as in the agents' `meta.family`. It is never sent and does not change an answer.
    """

    name: str = Field(default="", max_length=100)
    replay_of: JudgeConfig | None = None
    judges: tuple[JudgeConfig, ...] = ()
    vote: Literal["majority", "mean"] = "majority"
    family: str | None = Field(default=None, min_length=1, max_length=100)

    _price_source: str = PrivateAttr(default="the judge's config")
    _batched: bool = PrivateAttr(default=False)
    _env_folders: tuple[Path, ...] = PrivateAttr(default=())
    _file: Path | None = PrivateAttr(default=None)
    _was_passed_from_python: bool = PrivateAttr(default=False)

    @model_validator(mode="after")
    def _check_keys_and_set_name(self) -> Self:
        """Check that the keys fit the backend. If the judge has no name, set the model or the backend as its name."""
        if self.replay_of is not None and self.backend != REPLAY:
            raise ValueError(f"`replay_of` is valid only with `backend: {REPLAY}`")
        if self.backend != JURY and (self.judges or "vote" in self.model_fields_set):
            raise ValueError(f"`judges` and `vote` are valid only with `backend: {JURY}`")
        if self.backend == JURY:
            self._check_jury()

        reserved_parameters = _RESERVED_PARAMETERS & set(self.parameters)
        if self.makes_calls and reserved_parameters:
            raise ValueError(
                f"`parameters` must not contain {', '.join(sorted(reserved_parameters))}: each has its own key or is fixed"
            )
        if not self.name:
            object.__setattr__(self, "name", self.model or self.backend)  # the config is immutable
        return self

    def _check_jury(self) -> None:
        """Raise ValueError if the judges of a jury are too few, have the same name, are juries, or can tie."""
        names = [judge.name for judge in self.judges]
        if len(names) < 2 or len(set(names)) < len(names):
            raise ValueError(f"a jury needs two or more `judges` with different names: got {names}")
        if any(judge.backend == JURY for judge in self.judges):
            raise ValueError("a jury cannot be a judge of a jury; list its judges instead")
        if self.vote == "majority" and len(names) % 2 == 0:
            raise ValueError(
                f"an even number of judges can tie: got {len(names)}; use an odd number, or set `vote: mean`"
            )

    @property
    def servers(self) -> tuple[Self, ...]:
        """A config for each server of this judge; the config itself if there is one server."""
        if len(self.urls) <= 1:
            return (self,)
        return tuple(self.with_changes({"base_url": url}) for url in self.urls)

    @property
    def answers(self) -> AnswerKind:
        """The kind of the judge's answers.

        "yes or no": 0 or 1. "graded": any number in [0, 1]. "lexical": a similarity of words, in [0, 1]. A replay has the
        kind of the replayed judge, and "yes or no" if this judge is unknown.
        """
        if self.replay_of is not None:
            return self.replay_of.answers
        if self.backend == "lexical":
            return "lexical"
        is_majority_vote = self.backend == JURY and self.vote == "majority"
        answers_with_label = self.makes_calls and self.decision != "logprobs"
        if self.backend == REPLAY or is_majority_vote or answers_with_label:
            return "yes or no"
        return "graded"

    @property
    def other_decision(self) -> Decision | None:
        """The decision that the judge could use in place of `decision`; None if there is none. A plan shows the cost of both."""
        if not self.makes_calls:
            return None
        if self.decision == "logprobs":
            return "text"
        can_return_logprobs = "logprobs" not in self.record.unsupported and not self._is_reasoning_model
        return "logprobs" if can_return_logprobs and self.starts_with_label else None

    @property
    def _is_reasoning_model(self) -> bool:
        """Whether the model is known to reason before it answers."""
        record = self.record
        model_name = self.model or ""
        if self.backend == "litellm":
            provider, _, model_name = model_name.partition("/")
            record = (BACKENDS | PROVIDERS).get(provider, record)
        return record.reasoning_pattern is not None and re.match(record.reasoning_pattern, model_name) is not None

    @property
    def starts_with_label(self) -> bool:
        """Whether the first token of a reply identifies the label.

        This is the case under two conditions. The labels begin with different letters, and the config sets no `max_tokens` that
        would allow an explanation before the label.
        """
        labels = self.loaded_prompt.labels
        initials = {label[:1].casefold() for label in labels}
        if len(initials) < len(labels):
            return False
        if "max_tokens" not in self.model_fields_set:
            return True
        return self.max_tokens is not None and self.max_tokens <= MAX_TOKENS["text"]

    @property
    def makes_calls(self) -> bool:
        """Whether the judge's backend sends requests to a server."""
        return self.record.makes_calls

    @property
    def needs_store(self) -> bool:
        """Whether the judge writes its answers to a store or reads them from one."""
        return self.makes_calls or self.backend == REPLAY or any(judge.needs_store for judge in self.judges)

    @property
    def stores_new_answers(self) -> bool:
        """Whether the judge writes new answers to a store, rather than only replaying stored ones."""
        return self.needs_store and self.backend != REPLAY

    @property
    def can_cost_money(self) -> bool:
        """Whether calls of the judge can cost money; True also if a price is unknown."""
        has_paid_calls = self.makes_calls and not (self.price_in == 0 and self.price_out == 0)
        return has_paid_calls or any(judge.can_cost_money for judge in self.judges)

    @property
    def price_source(self) -> str:
        """Description of the source of the prices."""
        return self._price_source

    @property
    def is_batched(self) -> bool:
        """Whether its requests are sent through its provider's Batch API."""
        return self._batched

    @property
    def answer_tokens(self) -> int:
        """Expected number of tokens of an answer."""
        return self.answer_limit or 16

    @property
    def overhead_characters(self) -> int:
        """Number of characters of a request without its two texts; 0 if no requests are sent."""
        return self.questions().overhead_characters if self.makes_calls else 0

    @property
    def key_variable(self) -> str | None:
        """The environment variable that contains the API key; None if no key is sent."""
        is_set = "api_key_env" in self.model_fields_set
        return self.api_key_env if is_set else self.record.key_variable

    def with_prices(self, price_in: float, price_out: float, *, source: str) -> Self:
        """Return a copy of the config with other prices.

        Parameters
        ----------
        price_in, price_out : float
            USD per million tokens of requests and of answers. They are not checked.
        source : str
            Description of the source of the prices.
        """
        config = self.model_copy(update={"price_in": price_in, "price_out": price_out})
        config._price_source = source
        return config

    def with_batch_prices(self) -> Self:
        """Return a copy of the config for a judge that is queried in batches, with the prices of its provider for batches.

        If the judge is a jury, all judges of the copy are changed in this way. An unknown price remains unknown (None).
        """
        changes = {
            "price_in": _with_discount(self.price_in, self.batch_discount),
            "price_out": _with_discount(self.price_out, self.batch_discount),
            "batch_discount": 0.0,
            "judges": tuple(judge.with_batch_prices() for judge in self.judges),
        }
        config = self.model_copy(update=changes)
        config._batched = True
        return config

    def with_changes(self, changes: Mapping[str, Json]) -> Self:
        """Return a copy with some keys changed."""
        return self.model_copy(update=changes)

    def questions(self) -> Questions:
        """Return the questions that this judge is asked.

        Raises
        ------
        ConfigError
            [judge-model]: if the config has no model.
        """
        if self.model is None:
            raise ConfigError(
                f"The judge '{self.name}' ({self.backend}) has no model. Add `model: …` to its config.",
                slug="judge-model",
            )
        return Questions(
            self.loaded_prompt,
            self.model,
            self.address,
            self.request_parameters,
            self.context_window,
            self.decision,
            self.truncate,
            self.answer_tokens,
        )

    def with_env_folders(self, *folders: Path) -> Self:
        """Return a copy that also searches `.env` in each of `folders` for its key; for a jury, with all its judges."""
        judges = tuple(judge.with_env_folders(*folders) for judge in self.judges)
        config = self.model_copy(update={"judges": judges})
        config._env_folders = (*self._env_folders, *folders)
        return config

    def with_source_file(self, file: Path | None, *, from_code: bool = False) -> Self:
        """Return a copy that records where the config comes from.

        Parameters
        ----------
        file : Path or None
            File of the config, for error messages; None if it is not from a file. It replaces a recorded one.
        from_code : bool, default False
            Whether its keys were passed from Python. Code needs no permission to send an environment variable, because
            it can read all of them.
        """
        config = self.model_copy()
        config._file, config._was_passed_from_python = file, from_code
        return config

    def find_key_uses(self) -> tuple[KeyUse, ...]:
        """Return which environment variables with API keys are sent to which hosts; for a jury, by all its judges."""
        if self.judges:
            return tuple(use for judge in self.judges for use in judge.find_key_uses())
        if not self.makes_calls:
            return ()
        return find_key_uses(self.backend, self.model, self.key_variable, self.urls)

    def find_key(self, environment: Mapping[str, str]) -> tuple[str | None, str]:
        """Find the API key of this judge.

        Parameters
        ----------
        environment : mapping of str to str
            Environment variables. If they do not contain the key, a file `.env` is searched for it: next to the judge's
            file, next to the run's config, or in the working directory. No other variable is read from such a file.

        Returns
        -------
        key : str or None
            The key; None if the judge needs no key, or if the key is not found.
        source : str
            "the environment" or the path of the file; empty without a key.
        """
        variable = self.key_variable
        if variable is None:
            return None, ""
        key = environment.get(variable, "").strip()
        if key:
            return key, "the environment"

        readable_files = [file for file in self._list_env_files() if file.is_file() and is_inside_folder(file)]
        for file in readable_files:
            key_in_file = _read_variable(file, variable)
            if key_in_file is not None:
                return key_in_file, str(file)
        return None, ""

    def _list_env_files(self) -> tuple[Path, ...]:
        """Paths of the `.env` files that may contain the key; they need not exist."""
        return tuple(folder / DOTENV for folder in dict.fromkeys((*self._env_folders, Path())))

    def describe_connections(self) -> list[str]:
        """Describe where this judge sends texts, and with which key; one line for each judge that makes calls."""
        if self.judges:
            return list(chain.from_iterable(judge.describe_connections() for judge in self.judges))
        if not self.makes_calls:
            return []
        hosts = ", ".join(map(_format_host_and_port, self.urls))
        if not hosts:
            hosts = f"the host that {self.backend} knows for {self.model}"
        return [f"{self.name} at {hosts}, {self._describe_credentials()}"]

    def _describe_credentials(self) -> str:
        if any(make_basic_authorization(url) for url in self.urls):
            return "password in its base_url"
        if self.key_variable is not None:
            return f"key from {self.key_variable}"
        return "key found by litellm" if self.backend == "litellm" else "no key"

    def check_trust(self, environment: Mapping[str, str]) -> None:
        """Check that the API key of this judge may be sent to its servers; for a jury, the keys of all its judges.

        Call this before anything is sent. A key may be sent to the hosts of its provider, and to hosts that the user has
        allowed. A judge without a known key is checked, too, if its backend may find a key by itself.

        Parameters
        ----------
        environment : mapping of str to str
            Environment variables.

        Raises
        ------
        ConfigError
            [key-not-trusted]: if a host is not known for the key and the user has not allowed it. [key-over-http]: if a key would
            be sent over http to another machine. [env-base-url]: if the `.env` file with the key also contains an address.
        """
        for judge in self.judges:  # only a jury has other judges
            judge.check_trust(environment)

        key, source = self.find_key(environment)
        backend_may_find_key = self.makes_calls and self.key_variable is None
        may_send_key = key is not None or backend_may_find_key
        if may_send_key and not self._was_passed_from_python:
            check_key_uses(self.find_key_uses(), judge=self.name, file=self._file)  # [key-not-trusted]
        self.check_addresses(sends_key=key is not None)  # [key-over-http]

        is_key_from_file = key is not None and source != "the environment"
        if is_key_from_file:
            self._check_no_url_in_file(Path(source))  # [env-base-url]

    def _check_no_url_in_file(self, file: Path) -> None:
        """Check that the `.env` file that contains the key does not also set an address for it.

        Raises: ConfigError [env-base-url].
        """
        url_variable, _ = BASE_URLS.get(self.key_variable or "", ("", ""))
        if url_variable and self.base_url is None and _read_variable(file, url_variable) is not None:
            raise ConfigError(
                f"{file} sets the key in {self.key_variable} and an address in {url_variable}, but "
                "the address is read only from the "
                f"process environment. Export {url_variable}, or set base_url in a judge's file.",
                slug="env-base-url",
            )

    def check_addresses(self, *, sends_key: bool) -> None:
        """Check that no key is sent to another machine over http.

        Parameters
        ----------
        sends_key : bool
            Whether the judge sends a key.

        Raises
        ------
        ConfigError
            [key-over-http]: if a key would be sent over http to another machine.
        """
        if not self.makes_calls or not sends_key:
            return
        for url in self.urls:
            host = get_host(url)
            if urlsplit(url).scheme == "http" and not is_loopback(host):
                raise ConfigError(
                    f"The judge '{self.name}' would send a key to {host} over http, where others can read it. "
                    "Nothing was sent. Set base_url to an address that begins with https://, or set `api_key_env: null`.",
                    slug="key-over-http",
                )

    def connection(self, environment: Mapping[str, str]) -> Connection:
        """Return the address and the secrets that the judge's backend needs.

        Parameters
        ----------
        environment : mapping of str to str
            Environment variables, which may contain the API key.

        Returns
        -------
        Connection
            Everything that a backend needs to send requests.

        Raises
        ------
        JudgeError
            [judge-no-key]: if the judge needs a key and none is found.
        ConfigError
            [judge-auth-conflict]: if there are credentials in base_url and a key. [key-not-trusted], [key-over-http],
            [env-base-url]: if the key may not be sent to the address, see `check_trust`.
        """
        url = self.url
        authorization = None if url is None else make_basic_authorization(url)
        variable = self.key_variable
        key, _ = self.find_key(environment)
        if authorization is not None and variable is not None:
            raise ConfigError(
                f"The judge '{self.name}' has credentials in base_url and a key in {variable}: only one can be sent. "
                "Set `api_key_env: null`, or remove the credentials from base_url.",
                slug="judge-auth-conflict",
            )
        self.check_trust(environment)

        provider_address = self.record.address
        is_provider_address = bool(provider_address) and self.address == provider_address
        needs_key = variable is not None or is_provider_address
        if key is None and needs_key:
            raise JudgeError(
                f"The judge '{self.name}' needs a key, but the environment variable {variable or self.record.key_variable} "
                "is empty or not set, and no .env file next to the config or in the working directory contains it"
                f"{self._describe_unread_env_files()}. Set the variable; for a server that needs no key, set its base_url and "
                "`api_key_env: null`.",
                slug="judge-no-key",
            )
        return Connection(
            self.name,
            self.address,
            self.timeout,
            api_key=key,
            authorization=authorization,
            secrets=(*_find_secrets(environment), *find_url_passwords(url or "")),
        )

    def _describe_unread_env_files(self) -> str:
        """Describe the `.env` files that are not read because they link to a file outside their folder."""
        files = [str(file) for file in self._list_env_files() if file.is_file() and not is_inside_folder(file)]
        return f" (not read, because each links to a file outside its folder: {', '.join(files)})" if files else ""

    def describe(self) -> dict[str, Json]:
        """Return everything that an answer of this judge depends on, for the metadata of verdicts."""
        if self.backend == JURY:
            members: list[Json] = [judge.describe() for judge in self.judges]
            return {"name": self.name, "backend": self.backend, "vote": self.vote, "judges": members}
        if not self.makes_calls:
            return {"name": self.name, "backend": self.backend, "parameters": self.parameters}
        return {"name": self.name, **super().describe()}

    def public(self) -> dict[str, Json]:
        """Return the keys that determine an answer, without credentials, so that they can be stored and reloaded."""
        return {"name": self.name, **super().public()}


def _with_discount(price: float | None, discount: float) -> float | None:
    """Return a price after a discount, a fraction in [0, 1]; None if the price is unknown."""
    return None if price is None else price * (1 - discount)


def _format_host_and_port(url: str) -> str:
    """Return the host of a URL, and its port if the URL contains one, as "host:port"."""
    _, _, after_scheme = to_public_address(url).partition("://")
    network_location, _, _ = after_scheme.partition("/")
    _, _, port = network_location.rpartition(":")
    host = get_host(url)
    return f"{host}:{port}" if port.isdigit() else host


def _read_variable(file: Path, variable: str) -> str | None:
    """Return the value of a variable in a `.env` file; None if the variable is empty or missing.

    Raises: ConfigError [judge-env-file] if the file cannot be read.
    """
    from dotenv import dotenv_values

    try:
        value = dotenv_values(file, interpolate=False, encoding="utf-8-sig").get(variable)
        return (value or "").strip() or None
    except (OSError, ValueError):
        raise ConfigError(
            f"{file} cannot be read, and {variable} is not in the environment. Save it as UTF-8 text with lines NAME=VALUE, or "
            "set the variable.",
            slug="judge-env-file",
        ) from None


def _find_secrets(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of environment variables whose names end in _KEY, _TOKEN, _SECRET or _PASSWORD.

    A library may send them, and a reply may then quote them. Values under eight characters are left out.
    """
    values = [value for name, value in environment.items() if name.upper().endswith(_SECRET_NAMES)]
    return tuple(value for value in values if len(value) >= _MIN_SECRET_CHARACTERS)


def call_cost(config: JudgeConfig, tokens_in: float, tokens_out: float) -> float:
    """Compute the cost of a call.

    Parameters
    ----------
    config : JudgeConfig
        Judge with its prices `price_in` and `price_out` in USD per million tokens; None if unknown.
    tokens_in, tokens_out : float
        Numbers of tokens of the request and of the answer.

    Returns
    -------
    float
        USD; NaN if either price is unknown.
    """
    if config.price_in is None or config.price_out is None:
        return math.nan
    return (tokens_in * config.price_in + tokens_out * config.price_out) / 1e6
