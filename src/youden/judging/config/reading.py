"""Finds a judge's file and reads it: by name, by path, or from a mapping.

It knows where judges are looked up and how a wrong key is explained; it refuses to know what a judge does.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from youden.errors import ConfigError
from youden.judging.config.prices import table_price
from youden.judging.config.settings import OPENAI, SECRETS, JudgeConfig, price
from youden.judging.registry import JUDGES
from youden.resources import roots

__all__ = ["OPENAI", "JudgeConfig", "load_judge_config", "price"]

_ANY_JUDGE = {"name", "backend", "parameters", "family"}
_WITHOUT_CALLS = _ANY_JUDGE | {"of", "judges", "vote"}


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
        data["of"] = _beside(data["of"], folder)
    if isinstance(data.get("judges"), list):
        data["judges"] = [_beside(one, folder) if isinstance(one, str | Mapping) else one for one in data["judges"]]
    prompt = data.get("prompt")
    if isinstance(prompt, str) and prompt.endswith(".md") and (folder / prompt).is_file():
        data["prompt"] = str(folder / prompt)
    try:
        config = JudgeConfig.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"In {where}: {_says(error)}", slug="judge-config") from None
    if config.makes_calls:
        config.questions()
    elif meaningless := config.model_fields_set - _WITHOUT_CALLS:
        raise ConfigError(
            f"In {where}: the judge '{config.backend}' makes no calls, so {', '.join(sorted(meaningless))} would have no "
            "effect. Remove it.",
            slug="judge-config",
        )
    if config.makes_calls and config.price_in is None and config.price_out is None and (found := table_price(config)):
        return config.priced(found.price_in, found.price_out, source=found.source)
    return config


def _beside(source: str | Mapping[str, Any], folder: Path) -> JudgeConfig:
    """The judge that another judge's file in `folder` names."""
    if isinstance(source, str) and source.endswith((".yaml", ".yml")):
        return load_judge_config(folder / source)
    return load_judge_config(source)


def _says(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    allowed = sorted([*JudgeConfig.model_fields, "price"])
    if first["type"] == "extra_forbidden":
        if key.casefold() in SECRETS:
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
