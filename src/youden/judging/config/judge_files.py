"""Load the config of a judge by its name, from a file or from a mapping, and add the prices of its model.

Prices in the config take precedence. Otherwise the model's prices are read from litellm's table in the installed
package, without importing it, or from the shipped part of that table. The network is never used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from youden.errors import ConfigError
from youden.judging.backend_records import BACKENDS, JUDGES, JURY, PROVIDERS, REPLAY, infer_judge_keys
from youden.judging.backends.by_function import SameSource
from youden.judging.config.answering import SECRETS
from youden.judging.config.judge_paths import find_judge_file, list_judge_names, report_hidden_judge
from youden.judging.config.price_table import describe_table, find_table_price
from youden.judging.config.settings import JudgeConfig, call_cost
from youden.judging.config.trust import describe_host_change, find_base_url
from youden.run_keys import Question
from youden.text.yaml_text import format_unknown_key, format_validation_error, read_yaml
from youden.types.pool import Json

if TYPE_CHECKING:
    from youden.data.folder.run_config import RunConfig

JudgeLike = str | Path | Mapping[str, Json] | JudgeConfig | SameSource
"""The values that public functions accept as `judge`."""


__all__ = ["JudgeConfig", "call_cost", "load_judge_config", "load_judge_of_run"]

INFORMATION_PROMPT, PREFERENCE_PROMPT = "same-source", "which-is-better"
"""Default prompts of a judge; the second replaces the first in a run that asks for preferences."""

_KEYS = sorted([*JudgeConfig.model_fields, "price"])
"""Keys that are valid in a judge's file; `price` sets both prices."""

_KEYS_WITHOUT_CALLS = JudgeConfig.__annotations__.keys() | {"backend", "parameters"}
_MAY_BE_SECRET = ("base_url", "api_key_env", "parameters")


def load_judge_of_run(config: RunConfig) -> JudgeConfig:
    """Load the judge of a run. Its API key may be in a file `.env` next to the run's config.

    Parameters
    ----------
    config : RunConfig
        Config of the run, in which the loaded judge is cached.

    Returns
    -------
    JudgeConfig
        The judge, with the prompt for the question of the run.

    Raises
    ------
    ConfigError
        [unknown-judge], [judge-config], [judge-config-unreadable], [shadowed]: if the judge cannot be loaded;
        [question-judge]: if it cannot answer the question of the run, or if its prompt asks another question.
    """
    # The config is immutable and allows no new attributes, so the loaded judge is cached in its __dict__. A changed copy of the
    # config also has the __dict__: the cached judge is used only if the values that determine it are still the same.
    judge_source = (config.judge, config.file, config.question)
    cached_source, cached_judge = config.__dict__.get("loaded_judge", (None, None))
    if cached_source == judge_source and isinstance(cached_judge, JudgeConfig):
        return cached_judge

    _report_shipped_judge_hidden_by_file(config)
    judge = load_judge_config(config.judge, file=config.file)
    judge = judge.with_env_folders(config.directory)
    judge = with_question(judge, config.question)
    config.__dict__["loaded_judge"] = (judge_source, judge)
    return judge


def _report_shipped_judge_hidden_by_file(config: RunConfig) -> None:
    """Warn the user if a file next to the run's config hides a shipped judge of the same name.

    Raises: ConfigError [shadowed] if the environment variable CI is set.
    """
    judge_name, judge_file = config.judge_name, config.judge
    if judge_name is None or not isinstance(judge_file, str):
        return
    was_found_by_name = Path(judge_file).stem == Path(judge_name).name  # a path in the config would end with .yaml
    if was_found_by_name:
        report_hidden_judge(judge_name, Path(judge_file))


def with_question(judge: JudgeConfig, question: Question) -> JudgeConfig:
    """Return a judge that answers the question of a run.

    For `preference`, the default prompt is replaced by the default prompt for preferences. Any other prompt is kept, and must ask
    the question of the run. A judge without a prompt, such as the lexical judge, answers only `information`.

    Parameters
    ----------
    judge : JudgeConfig
        The judge. The function is applied to each judge of a jury, and to the judge whose answers are replayed.
    question : {"information", "preference"}
        What is asked about two responses. `information`: whether they have the same source. `preference`: which of them is
        better.

    Returns
    -------
    JudgeConfig
        A copy with the other prompt, or the judge itself if its prompt asks the question already.

    Raises
    ------
    ConfigError
        [question-judge]: if the judge cannot answer the question, or if its prompt asks another question.
    """
    if judge.judges:
        members = tuple(with_question(member, question) for member in judge.judges)
        return judge.model_copy(update={"judges": members})
    if judge.replay_of is not None:
        replayed_judge = with_question(judge.replay_of, question)
        return judge.model_copy(update={"replay_of": replayed_judge})

    has_default_prompt = judge.makes_calls and judge.prompt == INFORMATION_PROMPT
    if has_default_prompt and question == "preference":
        judge = judge.with_changes({"prompt": PREFERENCE_PROMPT})

    answered_question = judge.loaded_prompt.question if judge.makes_calls else "information"
    if answered_question != question:
        if judge.backend == REPLAY:
            raise ConfigError(
                f"The judge '{judge.name}' does not state whose answers it repeats, but the run has `question: {question}`. Set "
                "`replay_of` to the judge whose answers the store contains.",
                slug="question-judge",
            )
        raise ConfigError(
            f"The judge '{judge.name}' answers `question: {answered_question}`, but the run has `question: {question}`. Set "
            f"`question: {answered_question}` in the config of the run, or use a model with a prompt for `{question}`.",
            slug="question-judge",
        )
    return judge


def load_judge_config(
    source: str | Path | Mapping[str, Any], *, file: Path | None = None, from_code: bool = False
) -> JudgeConfig:
    """Load the config of a judge, with its prices.

    Parameters
    ----------
    source : str, Path or mapping
        Judge keys; path of a YAML file, which ends in .yaml or .yml; or a name. A name is searched for in this order:
        judges in judges/ and configs/judges/, backends, models of a known provider (`infer_judge_keys`). If the keys contain no
        `base_url`, a variable of the process environment may set it, for example OPENAI_BASE_URL.
    file : Path, optional
        File that contains the mapping, for error messages; ignored for other sources. Relative paths in the mapping are relative
        to the working directory.
    from_code : bool, default False
        Whether the mapping was passed from Python, which needs no permission to send an environment variable; ignored
        for other sources.

    Returns
    -------
    JudgeConfig
        The config. Prices that it does not set are those of the table of prices, or None if the model is not in it.

    Raises
    ------
    ConfigError
        [unknown-judge]: if no judge has this name. [judge-config-unreadable]: if the file is missing or cannot be read.
        [judge-config]: if its keys are invalid. [judge-model]: if a judge that makes calls has no `model`. [shadowed]: if a
        local file hides a shipped judge of the same name and the variable CI is set; without CI, this is only a warning. The
        errors of `load_prompt`, if the prompt cannot be loaded.
    """
    if isinstance(source, Mapping):
        config = _make_config(source, location="the judge's config", folder=Path(), file=file, from_code=from_code)
        return config.with_source_file(file, from_code=from_code)

    path = find_judge_file(source)
    if path is None:
        keys = {"backend": str(source)} if source in JUDGES else infer_judge_keys(str(source)) or {}
        return _make_config(keys, location=f"the judge '{source}'", folder=Path())

    try:
        data = read_yaml(path)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} cannot be read: {' '.join(str(error).split())}. Pass a UTF-8 YAML file.",
            slug="judge-config-unreadable",
        ) from None
    if not isinstance(data, Mapping):
        raise ConfigError(f"{path} contains no keys. Add `backend: …`, `model: …` and other keys.", slug="judge-config")
    config = _make_config({"name": path.stem, **data}, location=str(path), folder=path.parent, file=path)
    return config.with_source_file(path).with_env_folders(path.parent)


def resolve_judge(judge: JudgeLike) -> JudgeConfig | SameSource:
    """Return the config of a judge, or the function that was passed as one.

    Parameters
    ----------
    judge : str, path, mapping, JudgeConfig or callable
        Judge name, path of a judge YAML file, judge keys, a loaded config, or ``f(text_a, text_b)``.

    Returns
    -------
    JudgeConfig or callable
        A callable is returned as it is.

    Raises
    ------
    ConfigError
        [judge-config]: if `judge` has none of these types. Also the errors of `load_judge_config`.
    """
    if isinstance(judge, JudgeConfig):
        return judge
    if isinstance(judge, str | Path | Mapping):
        return load_judge_config(judge, from_code=isinstance(judge, Mapping))
    if callable(judge):
        return judge
    raise ConfigError(
        f"This cannot be used as a judge: got {repr(judge)[:60]}. Pass a judge's name, the path of a .yaml file, a mapping "
        "of judge keys, or a function of two responses that returns True, False or a number from 0 to 1.",
        slug="judge-config",
    )


def list_judges() -> list[JudgeConfig]:
    """Load all judges that have a config file, sorted by name; files that cannot be loaded are left out."""
    judges = []
    for name in list_judge_names():
        with suppress(ConfigError):
            judges.append(load_judge_config(name))
    return judges


def _make_config(
    data: Mapping[str, Any], *, location: str, folder: Path, file: Path | None = None, from_code: bool = False
) -> JudgeConfig:
    """Make the config of a judge from the settings in its file, which are called keys.

    Other judges that the keys refer to are loaded, all keys are validated, and the prices of the model are added.

    data : keys and values, as in a judge file
    location : description of the keys for error messages, such as the path of their file
    folder : folder to which paths in the keys are relative
    file : judge file with the keys; None if the keys are not from a file
    from_code : whether the keys were passed from Python

    Raises: ConfigError [judge-config] if a key is invalid; the errors of `load_judge_config`.
    """
    keys = _resolve_judges_and_prompt(data, folder, file, from_code=from_code)
    _set_base_url_from_environment(keys)
    config = _validate_keys(keys, location)
    if config.makes_calls:
        return _with_defaults_and_prices(config, location)

    keys_with_effect = _KEYS_WITHOUT_CALLS - ({"parameters"} if config.backend in (JURY, REPLAY) else set())
    unused_keys = sorted(keys.keys() - keys_with_effect)
    if unused_keys:
        raise _make_config_error(
            location,
            f"the judge '{config.backend}' makes no calls, so {', '.join(unused_keys)} would have no effect. Remove these keys.",
        )
    return config


def _resolve_judges_and_prompt(
    data: Mapping[str, Any], folder: Path, file: Path | None, *, from_code: bool
) -> dict[str, Any]:
    """Return the settings of a judge with loaded configs of the judges that they name, and the path of the prompt file.

    A jury names its judges in the key `judges`, and a replayed judge is in the key `replay_of`. Values of a wrong type are
    returned unchanged; the validation of the keys rejects them.

    data : keys and values, as in a judge file
    folder : folder to which paths in the keys are relative
    file : judge file with the keys, for error messages; None if the keys are not from a file
    from_code : whether the keys were passed from Python

    Raises: the errors of `load_judge_config`.
    """
    keys = dict(data)
    if "replay_of" in keys:
        keys["replay_of"] = _load_nested_judge(keys["replay_of"], folder, file, from_code=from_code)
    if isinstance(keys.get("judges"), list):
        keys["judges"] = [_load_nested_judge(judge, folder, file, from_code=from_code) for judge in keys["judges"]]

    prompt = keys.get("prompt")
    if isinstance(prompt, str) and prompt.lower().endswith(".md"):
        prompt_file = folder / prompt
        if prompt_file.is_file():
            keys["prompt"] = str(prompt_file)
    return keys


def _validate_keys(keys: Mapping[str, Any], location: str) -> JudgeConfig:
    """Validate the keys of a judge, and return them as a config.

    keys : keys and values of a judge file; the judges that the keys name are loaded already
    location : description of the keys for the error message, such as the path of their file

    Raises: ConfigError [judge-config] if a key is unknown, contains a secret, or has an invalid value. The message does not
    quote values that may contain secrets.
    """
    try:
        _check_keys(keys)
        config = JudgeConfig.model_validate(_expand_price(keys))
        _check_both_prices(config)
    except ValidationError as error:
        raise _make_config_error(
            location, f"{format_validation_error(error, hidden=_MAY_BE_SECRET)}. Correct it."
        ) from None
    except ValueError as error:
        raise _make_config_error(location, str(error)) from None
    return config


def _with_defaults_and_prices(config: JudgeConfig, location: str) -> JudgeConfig:
    """Complete and check the config of a judge that makes calls.

    Two settings are added if the config does not contain them: `decision`, the form in which the model answers, and the
    prices per token from the table of known models. A model that the table does not list gets no prices.

    location : description of the config for error messages, such as the path of its file

    Raises: ConfigError [judge-config] if the settings do not fit the provider, [judge-model] if the model is missing; the
    errors of `load_prompt`.
    """
    config = _with_default_decision(config)
    config.questions()  # raises an error if the model is missing, or the prompt cannot be loaded
    _check_provider(config, location)

    if config.price_in is None and config.price_out is None:
        prices = find_table_price(config)
        if prices is not None:
            return config.with_prices(*prices, source=describe_table())
    return config


def _set_base_url_from_environment(keys: dict[str, Any]) -> None:
    """Set the key `base_url` to the address in a variable such as OPENAI_BASE_URL, unless the keys contain an address.

    keys : keys of a judge, changed in place; unchanged if its backend has no such variable, or if the variable is not set
    """
    backend = keys.get("backend")
    if keys.get("base_url") is not None or not isinstance(backend, str):
        return

    # `backend` can also be the name of a provider
    known_backends = BACKENDS | PROVIDERS
    record = known_backends.get(backend)
    if record is None:
        return
    url = find_base_url(record.key_variable)
    if url is not None:
        keys["base_url"] = url


def _with_default_decision(config: JudgeConfig) -> JudgeConfig:
    """Return the config with `decision: logprobs` if log-probabilities can be used, and the config sets no decision.

    With this decision, the answer is computed from the log-probabilities of the first token of a reply.
    """
    sets_decision = "decision" in config.model_fields_set
    if sets_decision or not _returns_logprobs(config) or not config.starts_with_label:
        return config
    return config.with_changes({"decision": "logprobs"})


def _returns_logprobs(config: JudgeConfig) -> bool:
    """Return whether the servers of a judge are known to return log-probabilities of tokens.

    This is known only for the provider's own address and for models that match its `logprobs_pattern`. The parameters of
    the judge can switch log-probabilities off.
    """
    provider = config.record
    if provider.logprobs_pattern is None:
        return False
    uses_other_server = any(server.address != provider.address for server in config.servers)
    is_switched_off = config.parameters.get("logprobs") is False
    if uses_other_server or is_switched_off:
        return False
    return re.fullmatch(provider.logprobs_pattern, config.model or "") is not None


def _check_provider(config: JudgeConfig, location: str) -> None:
    """Check that the model, the address and the parameters of a judge fit its provider.

    There are three rules. The model and the parameters of a litellm judge must not direct requests to another host. The config
    needs `base_url` if each user of the provider has another address. A parameter that the provider rejects must not be set.

    location : description of the config for error messages, such as the path of its file

    Raises: ConfigError [judge-config] if one of these rules is broken.
    """
    if config.backend == "litellm":
        host_change = describe_host_change(config.model or "", config.parameters)
        if host_change is not None:
            raise _make_config_error(location, host_change)

    provider = config.record
    has_no_address = config.backend in PROVIDERS and not config.address
    if has_no_address:
        raise _make_config_error(
            location, f"{provider.title} has a separate address for each user. Set base_url to your address."
        )
    for name in provider.unsupported.keys() & config.request_parameters.keys():
        raise _make_config_error(
            location, f"{provider.title} rejects the parameter '{name}'. Use instead: {provider.unsupported[name]}."
        )


def _check_keys(keys: Mapping[str, Any]) -> None:
    """Raise ValueError if a key of a judge's file is unknown, or contains a secret such as an API key."""
    for key in keys:
        if str(key).casefold() in SECRETS:
            raise ValueError(
                f"'{key}' must not be in a config. Set the API key in an environment variable, and api_key_env to its name."
            )
        if key not in _KEYS:
            raise ValueError(f"{format_unknown_key(str(key), _KEYS)}.")


def _check_both_prices(config: JudgeConfig) -> None:
    """Raise a ValueError if only one of the two prices is set, because the cost of a call would be unknown."""
    if (config.price_in is None) == (config.price_out is None):
        return
    given, missing = ("price_in", "price_out") if config.price_out is None else ("price_out", "price_in")
    raise ValueError(f"{given} is set, but {missing} is not. Set both, in USD per million tokens; 0 is a known price.")


def _expand_price(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys with `price_in` and `price_out` in place of `price`.

    Raises: ValueError if both are set.
    """
    if "price" not in keys:
        return dict(keys)
    if "price_in" in keys or "price_out" in keys:
        raise ValueError("both price and price_in or price_out are set. Set either price, or price_in and price_out.")
    other_keys = {key: value for key, value in keys.items() if key != "price"}
    return other_keys | {"price_in": keys["price"], "price_out": keys["price"]}


def _load_nested_judge(judge: object, folder: Path, file: Path | None, *, from_code: bool) -> object:
    """Load a judge that belongs to another judge (its parent): a member of a jury, or the judge whose answers are replayed.

    judge : name of the judge, path of its file relative to `folder`, or mapping with its config
    folder : folder of the parent's file
    file : the parent's file, for error messages; None if the parent is not from a file
    from_code : whether the config of the parent was passed from Python

    Returns the config of the judge. A value of another type is returned unchanged; the validation of the parent's config
    rejects it.
    Raises: the errors of `load_judge_config`.
    """
    if isinstance(judge, str) and judge.lower().endswith((".yaml", ".yml")):
        return load_judge_config(folder / judge)
    if isinstance(judge, str | Mapping):
        return load_judge_config(judge, file=file, from_code=from_code)
    return judge


def _make_config_error(location: str, fault: str) -> ConfigError:
    """Make the error for a judge's config; `location` is its file, and `fault` includes the remedy."""
    return ConfigError(f"In {location}: {fault}", slug="judge-config")
