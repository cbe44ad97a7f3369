"""Load the config of a judge by its name, from a file or from a mapping, and completes it with prices.

Prices in the config take precedence. Otherwise the model's prices are read from litellm's table in the installed
package, without importing it, or from the shipped part of that table. The network is never used.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import ValidationError

from youden.errors import ConfigError
from youden.judging.backend_records import BACKENDS, JUDGES, PROVIDERS, get_backend_record, infer_judge_keys
from youden.judging.backends.by_function import SameSource
from youden.judging.config.answering import SECRETS
from youden.judging.config.settings import JudgeConfig, call_cost
from youden.judging.config.trust import find_base_url, find_litellm_fault
from youden.resources import find_resource, find_resource_folders, find_shipped, report_shadow, report_shadow_at
from youden.text.yaml_text import format_unknown_key, format_validation_error, read_yaml
from youden.types.pool import Json

if TYPE_CHECKING:
    from youden.data.folder.run_config import RunConfig

JudgeLike = str | Path | Mapping[str, Json] | JudgeConfig | SameSource
"""The values that public functions accept as `judge`."""

_LITELLM_TABLE = "model_prices_and_context_window_backup.json"
PRICES = "prices.json"
"""File in configs/ with the part of litellm's table for the providers in `PROVIDERS`, and its version and date."""


def find_table_price(config: JudgeConfig) -> tuple[float, float] | None:
    """Find the prices of a judge's model in litellm's table, in USD per million tokens of requests and of answers.

    None if the table has no price for the model, or if the judge has a custom address, where any price is possible.
    """
    backend, model = config.backend, config.model
    if model is None or config.address not in ("", get_backend_record(backend).address):
        return None
    entry = _find_entry(backend, model)
    if backend in PROVIDERS and entry.get("litellm_provider") != _table_provider(backend):
        return None  # a model of another provider with the same name
    price_in, price_out = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    if not price_in or not price_out:
        return None
    return round(1e6 * price_in, 6), round(1e6 * price_out, 6)


def _find_entry(backend: str, model: str) -> Mapping[str, Any]:
    """Find a model in the table, with or without the name of its provider; empty if it is not there."""
    return _load_table().get(f"{_table_provider(backend)}/{model}") or _load_table().get(model, {})


def _table_provider(backend: str) -> str:
    return get_backend_record(backend).priced_as or backend


@cache
def _load_table() -> Mapping[str, Mapping[str, Any]]:
    """Load litellm's table if litellm is installed, else the shipped part of it."""
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        shipped_table: Mapping[str, Mapping[str, Any]] = orjson.loads(
            find_resource("configs", PRICES, local=False).read_bytes()
        )
        return shipped_table
    try:
        table: Mapping[str, Mapping[str, Any]] = orjson.loads((Path(spec.origin).parent / _LITELLM_TABLE).read_bytes())
    except (OSError, ValueError):
        return {}
    return table


def _describe_table() -> str:
    """Describe the table of prices: litellm's version, or for the shipped part its source and date."""
    source = _load_table().get("source")
    return f"litellm {version('litellm')}'s table" if source is None else str(source["description"])


__all__ = ["JudgeConfig", "call_cost", "load_judge_config", "load_judge_of_run"]

_KEYS = sorted([*JudgeConfig.model_fields, "price"])
"""Keys that are valid in a judge's file; `price` sets both prices."""

_KEYS_WITHOUT_CALLS = JudgeConfig.__annotations__.keys() | {"backend", "parameters"}
_MAY_BE_SECRET = ("base_url", "api_key_env", "parameters")


def load_judge_of_run(config: RunConfig) -> JudgeConfig:
    """Load the judge of a run, whose API key may be in a file `.env` next to the run's config.

    Parameters
    ----------
    config : RunConfig
        Caches the judge, so that it is loaded once.

    Returns
    -------
    JudgeConfig

    Raises
    ------
    ConfigError
        [unknown-judge], [judge-config], [judge-config-unreadable], [shadowed]: if the judge cannot be
        loaded, see `load_judge_config`.
    """
    loaded = config.__dict__.get("loaded_judge")
    if loaded is not None and loaded[0] == (config.judge, config.file):
        judge: JudgeConfig = loaded[1]
        return judge
    name = config.judge_name
    if name is not None and isinstance(config.judge, str) and Path(config.judge).stem == Path(name).name:
        report_judge_shadow(name, Path(config.judge))
    judge = load_judge_config(config.judge, file=config.file).with_env_folders(config.directory)
    config.__dict__["loaded_judge"] = (config.judge, config.file), judge
    return judge


def load_judge_config(
    source: str | Path | Mapping[str, Any], *, file: Path | None = None, from_code: bool = False
) -> JudgeConfig:
    """Load the config of a judge, with its prices.

    Parameters
    ----------
    source : str, Path or mapping
        Name of a judge, which is searched for in judges/ and in configs/judges/; path of a YAML file; judge keys; name
        of a backend; or name of a model with a known provider (`infer_judge_keys`).
    file : Path, optional
        File that contains the mapping, for error messages.
    from_code : bool, default False
        Whether the mapping was passed from Python, which needs no permission to send an environment variable.

    Returns
    -------
    JudgeConfig

    Raises
    ------
    ConfigError
        [unknown-judge]: if no judge has this name. [judge-config-unreadable]: if the file cannot be read.
        [judge-config]: if its keys are invalid. [shadowed]: if a local file hides a shipped judge of the same name and
        the variable CI is set. The errors of `load_prompt`.
    """
    if isinstance(source, Mapping):
        config = _validate(source, location="the judge's config", folder=Path(), file=file, from_code=from_code)
        return config.with_source_file(file, from_code=from_code)
    path = _find_file(source)
    if path is None:
        keys = {"backend": str(source)} if source in JUDGES else infer_judge_keys(str(source)) or {}
        return _validate(keys, location=f"the judge '{source}'", folder=Path())
    try:
        data = read_yaml(path)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} cannot be read: {' '.join(str(error).split())}. Pass a UTF-8 YAML file.",
            slug="judge-config-unreadable",
        ) from None
    if not isinstance(data, Mapping):
        raise ConfigError(f"{path} contains no keys. Add `backend: …`, `model: …` and other keys.", slug="judge-config")
    config = _validate({"name": path.stem, **data}, location=str(path), folder=path.parent, file=path)
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
        [judge-config]: if `judge` is none of these. The errors of `load_judge_config`.
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
    for name in _judge_names():
        with suppress(ConfigError):
            judges.append(load_judge_config(name))
    return judges


def _judge_names() -> list[str]:
    return sorted({path.stem for folder in _judge_folders() for path in folder.glob("*.yaml")})


def _judge_folders() -> list[Path]:
    """Return the folders that are searched for judges: judges/ in the working directory, then each configs/judges/."""
    return [Path("judges"), *(root / "judges" for root in find_resource_folders("configs"))]


def _find_file(source: str | Path) -> Path | None:
    """Find the file of a judge; None for the name of a backend or model. Raises: ConfigError [unknown-judge]."""
    if isinstance(source, Path) or source.endswith((".yaml", ".yml")):
        path = Path(source)
        report_shadow_at(path)
        is_shipped = path.parts[:1] == ("configs",) and not path.exists()
        return find_resource("configs", Path(*path.parts[1:]).as_posix()) if is_shipped else path
    for folder in _judge_folders():
        if (path := folder / f"{source}.yaml").is_file():
            report_judge_shadow(source, path)
            return path
    if _needs_no_file(source):
        return None
    names = sorted({*_judge_names(), *JUDGES})
    similar = get_close_matches(source, names, n=1)
    hint = f"Did you mean '{similar[0]}'?" if similar else f"Known: {', '.join(names)}."
    raise ConfigError(
        f"There is no judge called '{source}'. {hint} Pass the name of a file judges/NAME.yaml in the working directory, a path "
        "that ends in .yaml, or a model with its provider, such as openai/gpt-4o.",
        slug="unknown-judge",
    )


def _needs_no_file(name: str) -> bool:
    """Return whether a judge's name is that of a backend or a model."""
    if name in JUDGES:
        return True
    keys = infer_judge_keys(name)
    return keys is not None and ("/" in name or bool(_find_entry(str(keys["backend"]), name)))


def report_judge_shadow(name: str, path: Path) -> bool:
    """Report that a judge's file is used in place of a shipped judge, a backend or a model of the same name.

    Parameters
    ----------
    name : str
        Name of the judge.
    path : Path
        Its file.

    Returns
    -------
    bool
        Whether there is a judge, backend or model of the same name with other content.

    Raises
    ------
    ConfigError
        [shadowed]: if there is one and the variable CI is set, because reports in continuous integration are not read.
    """
    original = find_shipped("configs", f"judges/{name}.yaml")
    if original is None and _needs_no_file(name):
        original = Path(name)
    return report_shadow("judge", name, path, original=original)


def find_local_judge(name: str) -> Path | None:
    """Find the file of a judge in judges/ or configs/judges/ of the working directory; None if there is none."""
    for folder in (Path("judges"), Path("configs", "judges")):
        path = folder / f"{name}.yaml"
        if path.is_file():
            return path
    return None


def _validate(
    data: Mapping[str, Any], *, location: str, folder: Path, file: Path | None = None, from_code: bool = False
) -> JudgeConfig:
    """Validate judge keys, load the judges that they name, and add prices.

    `folder` is the folder of the judge's file, for relative paths.
    """
    data = dict(data)

    def load(judge: object) -> object:
        if isinstance(judge, str | Mapping):
            return _load_nested(judge, folder, file, from_code=from_code)
        return judge

    if "replay_of" in data:
        data["replay_of"] = load(data["replay_of"])
    if isinstance(data.get("judges"), list):
        data["judges"] = [load(judge) for judge in data["judges"]]
    backend = data.get("backend")
    if data.get("base_url") is None and isinstance(backend, str) and (record := (BACKENDS | PROVIDERS).get(backend)):
        url = find_base_url(record.key_variable)
        data |= {"base_url": url} if url else {}
    prompt = data.get("prompt")
    if isinstance(prompt, str) and prompt.endswith(".md") and (folder / prompt).is_file():
        data["prompt"] = str(folder / prompt)
    try:
        config = JudgeConfig.model_validate(_expand_price(data))
    except ValidationError as error:
        raise _config_error(location, f"{format_validation_error(error, hidden=_MAY_BE_SECRET)}. Correct it.") from None
    except ValueError as error:
        raise _config_error(location, str(error)) from None

    if config.makes_calls:
        config.questions()
        _check_provider(config, location)
    elif unused := data.keys() - _KEYS_WITHOUT_CALLS:
        raise _config_error(
            location,
            f"the judge '{config.backend}' makes no calls, so {', '.join(sorted(unused))} would have no effect. Remove it.",
        )

    has_no_price = config.price_in is None and config.price_out is None
    if config.makes_calls and has_no_price and (prices := find_table_price(config)):
        return config.with_prices(*prices, source=_describe_table())
    return config


def _check_provider(config: JudgeConfig, location: str) -> None:
    record = config.record
    if config.backend == "litellm" and (fault := find_litellm_fault(config.model or "", config.parameters)):
        raise _config_error(location, fault)
    if config.backend in PROVIDERS and not config.address:
        raise _config_error(location, f"{record.title} has a separate address for each user. Set base_url to yours.")
    for name in record.unsupported.keys() & config.request_parameters.keys():
        raise _config_error(
            location, f"{record.title} rejects the parameter '{name}'. Use instead: {record.unsupported[name]}."
        )


def _expand_price(data: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the key `price` of a judge's file by both prices. Raises: ValueError, if a key is unknown or secret."""
    for key in data:
        if str(key).casefold() in SECRETS:
            raise ValueError(
                f"'{key}' must not be in a config. Set the API key in an environment variable, and api_key_env to its name."
            )
        if key not in _KEYS:
            raise ValueError(f"{format_unknown_key(str(key), _KEYS)}.")
    if "price" not in data:
        return dict(data)
    if "price_in" in data or "price_out" in data:
        raise ValueError("both price and price_in or price_out are set. Set either price, or price_in and price_out.")
    other_keys = {key: value for key, value in data.items() if key != "price"}
    return other_keys | {"price_in": data["price"], "price_out": data["price"]}


def _load_nested(source: str | Mapping[str, Any], folder: Path, file: Path | None, *, from_code: bool) -> JudgeConfig:
    """Load a judge that is named in the file of another judge in `folder`."""
    if isinstance(source, str) and source.endswith((".yaml", ".yml")):
        return load_judge_config(folder / source)
    return load_judge_config(source, file=file, from_code=from_code)


def _config_error(location: str, fault: str) -> ConfigError:
    return ConfigError(f"In {location}: {fault}", slug="judge-config")
