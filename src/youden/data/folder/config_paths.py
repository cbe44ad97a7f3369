"""Where the files that a run's config names are: beside it, or shipped, and what their paths are from another folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

from youden.resources import find, roots

POOLS = ("agents", "items", "repeats")
"""What in an extension names a pool."""


def located(path: Path) -> Path:
    """The file that `path` means; `configs/NAME` is also looked for among the shipped ones."""
    if path.exists() or path.parts[:1] != ("configs",):
        return path
    return find("configs", Path(*path.parts[1:]).as_posix())


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
