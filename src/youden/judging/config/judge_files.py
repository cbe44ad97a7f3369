"""A judge's config, found by name, by path or from a mapping; read; and priced.

A judge's own prices are in its config. Where it is silent, litellm's table says the model's, read from the installed package
without importing it. The network is never asked.
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
from youden.judging.backend_records import BACKENDS, JUDGES, PROVIDERS, backend_of, judge_of_model
from youden.judging.backends.by_function import SameSource
from youden.judging.config.answering import SECRETS
from youden.judging.config.settings import JudgeConfig, price
from youden.judging.config.trust import base_url_from_environment, litellm_fault
from youden.resources import find, report_shadow, report_shadow_at, roots, shipped
from youden.text.yaml_text import misfit, read_yaml, unknown_key
from youden.types.pool import Json

if TYPE_CHECKING:
    from youden.data.folder.run_config import RunConfig

JudgeLike = str | Path | Mapping[str, Json] | JudgeConfig | SameSource
"""What a public function takes as its `judge`."""

_TABLE = "model_prices_and_context_window_backup.json"
PRICES = "prices.json"
"""In configs/: of litellm's table the chat models of the providers that are known here, with its version and its day."""


def table_price(config: JudgeConfig) -> tuple[float, float] | None:
    """Return USD per million tokens in and out by litellm's table.

    None if the table does not know the model (0 stands for that too), and at an address of one's own, where it may cost anything.
    """
    backend, model = config.backend, config.model
    if model is None or config.address not in ("", backend_of(backend).address):
        return None
    entry = _entry(backend, model)
    if backend in PROVIDERS and entry.get("litellm_provider") != _priced_as(backend):
        return None  # another provider's model of the same name
    price_in, price_out = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    if not price_in or not price_out:
        return None
    return round(1e6 * price_in, 6), round(1e6 * price_out, 6)


def _entry(backend: str, model: str) -> Mapping[str, Any]:
    """What the table says of a model, with its provider's name there or by its own alone; nothing where it does not know it."""
    return _table().get(f"{_priced_as(backend)}/{model}") or _table().get(model, {})


def _priced_as(backend: str) -> str:
    return backend_of(backend).priced_as or backend


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    """litellm's table where it is installed, else the part of it that is shipped."""
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        shipped: Mapping[str, Mapping[str, Any]] = orjson.loads(find("configs", PRICES, own=False).read_bytes())
        return shipped
    try:
        table: Mapping[str, Mapping[str, Any]] = orjson.loads((Path(spec.origin).parent / _TABLE).read_bytes())
    except (OSError, ValueError):
        return {}
    return table


def _source() -> str:
    """Whose table it is, and where it is not litellm's own, when it was seen."""
    shipped = _table().get("source")
    return f"litellm {version('litellm')}'s table" if shipped is None else str(shipped["says"])


__all__ = ["JudgeConfig", "load_judge_config", "load_judge_of_run", "price"]

_KEYS = sorted([*JudgeConfig.model_fields, "price"])
"""What a judge's file may say; `price` for both prices."""

_WITHOUT_CALLS = JudgeConfig.__annotations__.keys() | {"backend", "parameters"}
_MAY_BE_SECRET = ("base_url", "api_key_env", "parameters")


def load_judge_of_run(config: RunConfig) -> JudgeConfig:
    """Load the judge of a run, whose key may be in a file `.env` next to the run's config.

    `config` keeps the judge, so that it is loaded once. Raises: as `load_judge_config`.
    """
    loaded = config.__dict__.get("loaded_judge")
    if loaded is not None and loaded[0] == (config.judge, config.file):
        judge: JudgeConfig = loaded[1]
        return judge
    name = config.judge_name
    if name is not None and isinstance(config.judge, str) and Path(config.judge).stem == Path(name).name:
        report_judge_shadow(name, Path(config.judge))
    judge = load_judge_config(config.judge, file=config.file).beside(config.beside)
    config.__dict__["loaded_judge"] = (config.judge, config.file), judge
    return judge


def load_judge_config(
    source: str | Path | Mapping[str, Any], *, file: Path | None = None, from_code: bool = False
) -> JudgeConfig:
    """Load the judge that `source` names: judges/NAME.yaml here or in configs/, a path, a mapping, a bare backend, or a model
    with a known provider (`judge_of_model`).

    file: the file that contains a mapping. from_code: whether a mapping was written in Python, see `JudgeConfig.described_in`.

    Raises: ConfigError [unknown-judge], [judge-config], [judge-config-unreadable], [shadowed], and the prompt's.
    """
    if isinstance(source, Mapping):
        given = _checked(source, where="the judge's config", folder=Path(), file=file, from_code=from_code)
        return given.described_in(file, from_code=from_code)
    path = _find(source)
    if path is None:
        keys = {"backend": str(source)} if source in JUDGES else judge_of_model(str(source)) or {}
        return _checked(keys, where=f"the judge '{source}'", folder=Path())
    try:
        data = read_yaml(path)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} cannot be read: {' '.join(str(error).split())}. Give a UTF-8 YAML file.",
            slug="judge-config-unreadable",
        ) from None
    if not isinstance(data, Mapping):
        raise ConfigError(f"{path} holds no keys. Write `backend: …`, `model: …` and so on.", slug="judge-config")
    config = _checked({"name": path.stem, **data}, where=str(path), folder=path.parent, file=path)
    return config.described_in(path).beside(path.parent)


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
        [judge-config]: if `judge` is none of these; and as `load_judge_config`.
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


def known_judges() -> list[JudgeConfig]:
    """The judges there is a config for, a user's own before the project's; a file that cannot be read is left out."""
    names = sorted({path.stem for folder in _folders() for path in folder.glob("*.yaml")})
    found = []
    for name in names:
        with suppress(ConfigError):
            found.append(load_judge_config(name))
    return found


def _folders() -> list[Path]:
    """Where a judge's name is looked for: judges/ where the program runs, then the `configs/judges/` there are."""
    return [Path("judges"), *(root / "judges" for root in roots("configs"))]


def _find(source: str | Path) -> Path | None:
    """The file that `source` names, None for a bare backend or a model's name."""
    if isinstance(source, Path) or source.endswith((".yaml", ".yml")):
        path = Path(source)
        report_shadow_at(path)
        is_shipped = path.parts[:1] == ("configs",) and not path.exists()
        return find("configs", Path(*path.parts[1:]).as_posix()) if is_shipped else path
    for folder in _folders():
        if (path := folder / f"{source}.yaml").is_file():
            report_judge_shadow(source, path)
            return path
    if _needs_no_file(source):
        return None
    known = sorted({path.stem for folder in _folders() for path in folder.glob("*.yaml")} | set(JUDGES))
    close = get_close_matches(source, known, n=1)
    hint = f"Did you mean '{close[0]}'?" if close else f"Known: {', '.join(known)}."
    raise ConfigError(
        f"There is no judge called '{source}'. {hint} A judge of your own is a file judges/NAME.yaml here, or a path that ends "
        "in .yaml; a model is named by its provider, such as openai/gpt-4o.",
        slug="unknown-judge",
    )


def _needs_no_file(name: str) -> bool:
    """Return whether a judge's name is a backend or a model."""
    named = judge_of_model(name)
    return name in JUDGES or (named is not None and ("/" in name or bool(_entry(str(named["backend"]), name))))


def report_judge_shadow(name: str, path: Path) -> bool:
    """Report a judge's file whose name also belongs to a shipped judge, a backend or a model. Raises: ConfigError [shadowed]."""
    original = shipped("configs", f"judges/{name}.yaml")
    if original is None and _needs_no_file(name):
        original = Path(name)
    return report_shadow("judge", name, path, original=original)


def local_judge(name: str) -> Path | None:
    """Find the file of a judge called `name` below the working directory; None if there is none."""
    return next(
        (path for folder in (Path("judges"), Path("configs", "judges")) if (path := folder / f"{name}.yaml").is_file()),
        None,
    )


def _checked(
    data: Mapping[str, Any], *, where: str, folder: Path, file: Path | None = None, from_code: bool = False
) -> JudgeConfig:
    data = dict(data)

    def load(judge: object) -> object:
        return _beside(judge, folder, file, from_code=from_code) if isinstance(judge, str | Mapping) else judge

    if "of" in data:
        data["of"] = load(data["of"])
    if isinstance(data.get("judges"), list):
        data["judges"] = [load(judge) for judge in data["judges"]]
    backend = data.get("backend")
    if data.get("base_url") is None and isinstance(backend, str) and (record := (BACKENDS | PROVIDERS).get(backend)):
        url = base_url_from_environment(record.key_variable)
        data |= {"base_url": url} if url else {}
    prompt = data.get("prompt")
    if isinstance(prompt, str) and prompt.endswith(".md") and (folder / prompt).is_file():
        data["prompt"] = str(folder / prompt)
    try:
        config = JudgeConfig.model_validate(_priced(data))
    except ValidationError as error:
        raise _wrong(where, f"{misfit(error, hidden=_MAY_BE_SECRET)}. Correct it.") from None
    except ValueError as error:
        raise _wrong(where, str(error)) from None
    if config.makes_calls:
        config.questions()
        _check_provider(config, where)
    elif meaningless := data.keys() - _WITHOUT_CALLS:
        raise _wrong(
            where,
            f"the judge '{config.backend}' makes no calls, so {', '.join(sorted(meaningless))} would have no effect. Remove it.",
        )
    unpriced = config.price_in is None and config.price_out is None
    if config.makes_calls and unpriced and (found := table_price(config)):
        return config.priced(*found, source=_source())
    return config


def _check_provider(config: JudgeConfig, where: str) -> None:
    record = config.record
    if config.backend == "litellm" and (fault := litellm_fault(config.model or "", config.parameters)):
        raise _wrong(where, fault)
    if config.backend in PROVIDERS and not config.address:
        raise _wrong(where, f"{record.title} has an address for each of its users. Give yours as base_url.")
    for name in record.refuses.keys() & config.request_parameters.keys():
        raise _wrong(where, f"{record.title} turns '{name}' down. Give instead: {record.refuses[name]}.")


def _priced(data: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a judge's file, `price` as both prices. Raises: ValueError for a key that it may not have."""
    for key in data:
        if str(key).casefold() in SECRETS:
            raise ValueError(
                f"'{key}' may not stand in a config. Put the key in an environment variable, its name in api_key_env."
            )
        if key not in _KEYS:
            raise ValueError(f"{unknown_key(str(key), _KEYS)}.")
    if "price" not in data:
        return dict(data)
    if "price_in" in data or "price_out" in data:
        raise ValueError("give either price, or price_in and price_out. Correct it.")
    rest = {key: value for key, value in data.items() if key != "price"}
    return rest | {"price_in": data["price"], "price_out": data["price"]}


def _beside(source: str | Mapping[str, Any], folder: Path, file: Path | None, *, from_code: bool) -> JudgeConfig:
    """The judge that another judge's file in `folder` names."""
    if isinstance(source, str) and source.endswith((".yaml", ".yml")):
        return load_judge_config(folder / source)
    return load_judge_config(source, file=file, from_code=from_code)


def _wrong(where: str, problem: str) -> ConfigError:
    return ConfigError(f"In {where}: {problem}", slug="judge-config")
