"""Finds the prompts, configs and datasets that come with the project, a user's own first."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from youden.errors import ConfigError

Kind = Literal["prompts", "configs", "datasets"]

_KEYS = {"dataset": "pool"}
"""Config key that names a file, for kinds whose key has another name than the kind."""

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
    """Find the first file or folder `name` under `kind`, a user's own before the shipped one (`own`: whether to search a user's).

    Raises: ConfigError [not-found], listing the names that exist; [shadowed], see `report_shadow`.
    """
    searched = roots(kind, start=start, own=own)
    for root in searched:
        if (root / name).exists():
            if own:
                report_shadow(kind.removesuffix("s"), Path(name).stem, root / name, original=shipped(kind, name))
            return root / name
    parent = str(Path(name).parent)
    known = sorted({path.name for root in searched for path in (root / parent).glob("*")})
    raise ConfigError(
        f"There is no '{name}' in {kind}/, neither here nor in what the project ships. "
        f"There are: {', '.join(known) or 'none'}. Give one of these names, or a path to a file of your own.",
        slug="not-found",
    )


def shipped(kind: Kind, name: str) -> Path | None:
    """Return the file or folder `name` that ships with youden, None if there is none."""
    return next((root / name for root in roots(kind, own=False) if (root / name).exists()), None)


@dataclass
class _Shadows:
    """Function that reports a shadowing file, and the messages that were reported already."""

    report: Callable[[str], None]
    reported: set[str]


_shadows = _Shadows(logging.getLogger("youden").warning, set())


def report_shadows_by(report: Callable[[str], None]) -> None:
    """Report shadowing files by a function from now on, once per file.

    Parameters
    ----------
    report : callable
        Receives the message. Until this is called, the logger `youden` receives it.
    """
    _shadows.report, _shadows.reported = report, set()


def report_shadow(what: str, name: str, file: Path, *, original: Path | None, path: bool = False) -> bool:
    """Report that the local `file` is used in place of the shipped `original`, unless both have the same content.

    Parameters
    ----------
    what : str
        The kind of file: judge, prompt, config or dataset.
    name : str
        The name under which it was found.
    file, original : Path
        The local file or folder, and the shipped one. If `original` is None, nothing is reported.
    path : bool, default False
        Whether the user gave a path rather than a name. A path is never an error.

    Returns
    -------
    bool
        Whether `file` is used in place of another one.

    Raises
    ------
    ConfigError
        [shadowed]: if the variable CI is set and `path` is False, because reports in continuous integration are not read.
    """
    if original is None or _have_same_content(file, original):
        return False
    local = os.path.relpath(file) if file.is_absolute() and file.is_relative_to(Path.cwd()) else str(file)
    if not path and os.environ.get("CI", "").lower() not in ("", "0", "false"):
        raise ConfigError(
            f"The {what} '{name}' ships with youden, and the local file {local} has the same name. With the variable CI set, a "
            f"local file is used only if its path is given. Write `{_KEYS.get(what, what)}: ./{Path(local).as_posix()}`, or "
            "rename the file.",
            slug="shadowed",
        )
    message = f"{what} '{name}': the local file {local} is used instead of the one that ships with youden"
    if message not in _shadows.reported:
        _shadows.reported.add(message)
        _shadows.report(message)
    return True


def report_shadow_at(path: Path) -> None:
    """Report the local file at a path such as `datasets/NAME` if a shipped file has the same path."""
    if path.parts[:1] in (("configs",), ("datasets",)) and path.exists():
        kind: Kind = "configs" if path.parts[0] == "configs" else "datasets"
        original = shipped(kind, Path(*path.parts[1:]).as_posix())
        report_shadow(kind.removesuffix("s"), path.stem, path, original=original, path=True)


def stays_in_folder(file: Path) -> bool:
    """Return whether `file` is no link out of its folder. Shipped files pass, because some installers link them."""
    return file.is_relative_to(_PACKAGE) or file.resolve().is_relative_to(file.parent.resolve())


def _have_same_content(one: Path, other: Path) -> bool:
    if one.resolve() == other.resolve():
        return True
    if one.is_dir() and other.is_dir():
        names = [sorted(path.relative_to(root) for path in root.rglob("*")) for root in (one, other)]
        return names[0] == names[1] and all(_have_same_content(one / name, other / name) for name in names[0])
    return one.is_file() and other.is_file() and one.read_bytes() == other.read_bytes()
