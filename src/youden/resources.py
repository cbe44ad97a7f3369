"""Finds the prompts, configs and datasets that come with the project, a user's own first; and the files that a config names:
beside it, or shipped, and what their paths are from another folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from youden.errors import ConfigError

Kind = Literal["prompts", "configs", "datasets"]

_PACKAGE = Path(__file__).parent


def roots(kind: Kind, *, start: Path | None = None, own: bool = True) -> list[Path]:
    """Folders of this kind that exist, in the order they are searched.

    First, unless `own` is false, `start/<kind>` (default: the current folder), then the checkout this package runs from, then
    what the wheel ships.
    """
    checkout = _PACKAGE.parent.parent
    places = [(start or Path.cwd()) / kind] if own else []
    places.append(_PACKAGE / "_shipped" / kind)
    if (checkout / "pyproject.toml").is_file() and (checkout / "src" / "youden") == _PACKAGE:
        places.insert(-1, checkout / kind)
    return [place for place in places if place.is_dir()]


def find(kind: Kind, name: str, *, start: Path | None = None, own: bool = True) -> Path:
    """The first file or folder `name` under `kind`, a user's own before the project's (`own`: whether theirs are looked at).

    Raises: ConfigError [not-found], listing what there is.
    """
    searched = roots(kind, start=start, own=own)
    for root in searched:
        if (root / name).exists():
            return root / name
    parent = str(Path(name).parent)
    known = sorted({path.name for root in searched for path in (root / parent).glob("*")})
    raise ConfigError(
        f"There is no '{name}' in {kind}/, neither here nor in what the project ships. "
        f"There are: {', '.join(known) or 'none'}. Give one of these names, or a path to a file of your own.",
        slug="not-found",
    )


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
