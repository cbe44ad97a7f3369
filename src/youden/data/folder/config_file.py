"""The file of a run's config: where it stands, what it holds, and where its relative paths lead."""

from __future__ import annotations

import os
import re
from pathlib import Path

from youden.errors import ConfigError
from youden.resources import find, roots
from youden.text.yaml_text import YamlError, read_yaml

POOLS = ("agents", "items")
"""What in an extension names a pool."""


def located(path: Path) -> Path:
    """The file that `path` means; `configs/NAME` is also looked for among the shipped ones."""
    if path.exists() or path.parts[:1] != ("configs",):
        return path
    return find("configs", Path(*path.parts[1:]).as_posix())


def read_keys(path: Path) -> dict[str, object]:
    """What the YAML at `path` says. Raises: ConfigError [run-config-file], [run-config-yaml]."""
    try:
        data = read_yaml(path)
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"{path} cannot be read ({said}). Give a run's YAML file in UTF-8.", slug="run-config-file"
        ) from error
    except YamlError as error:
        raise ConfigError(
            f"{path} is no YAML: {error}. Write one `key: value` a line.", slug="run-config-yaml"
        ) from error
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        held = "is empty" if data is None else f"holds {repr(data)[:60]}, no keys"
        raise ConfigError(
            f"{path} {held}. Write one `key: value` a line, at least `pool: …`.",
            slug="run-config-yaml",
        )
    return data


def relative(key: str, value: object, folder: Path) -> object:
    """A key's value as it is written into `folder`: a path from there, anything else as it is."""
    if not _is_path(key, value) or _shipped(key, str(value), Path()):
        return value
    return Path(os.path.relpath(str(value), folder)).as_posix()


def resolved(key: str, value: object, folder: Path) -> object:
    """A key's value as it stands in a file in `folder`, its paths from where the program runs."""
    if key == "extensions" and isinstance(value, list):
        return [
            {name: resolved("pool" if name in POOLS else "", said, folder) for name, said in step.items()}
            if isinstance(step, dict)
            else step
            for step in value
        ]
    if key == "judge" and isinstance(value, dict):
        prompt = value.get("prompt")
        if isinstance(prompt, str) and prompt.endswith(".md"):
            return value | {"prompt": os.path.normpath(folder / prompt)}
    if not _is_path(key, value) or _shipped(key, str(value), folder):
        return value
    return os.path.normpath(folder / str(value))


def judge_beside(name: str, folder: Path) -> Path | None:
    """The file of a judge called `name` near a config in `folder`; the project's own are found by their name alone."""
    if not re.fullmatch(r"[\w.+-]+", name) or name.endswith((".yaml", ".yml")):
        return None
    ours = [root.resolve() for root in roots("configs", own=False)]
    for place in (folder / "judges", folder / "configs" / "judges", folder.parent / "judges"):
        file = place / f"{name}.yaml"
        if file.is_file() and file.resolve().parent.parent not in ours:
            return Path(os.path.normpath(file))
    return None


def _is_path(key: str, value: object) -> bool:
    if not isinstance(value, str) or not value:
        return False
    if key == "judge":
        return value.endswith((".yaml", ".yml"))
    return key in ("pool", "out", "trials_of") or (key == "store" and "://" not in value)


def _shipped(key: str, value: str, folder: Path) -> bool:
    """Whether a pool or a judge's file is one that comes with the project."""
    kind = {"pool": "datasets", "judge": "configs"}.get(key)
    return Path(value).parts[:1] == (kind,) and not (folder / value).exists()
