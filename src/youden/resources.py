"""Find the prompts, configs and datasets that ship with youden, and local ones.

Local files of the same name take precedence, so that users can adapt what is shipped; each such file is reported once.
"""

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
"""Config key that refers to a file, for kinds whose key has another name than the kind."""

_PACKAGE = Path(__file__).parent


def find_resource_folders(kind: Kind, *, start: Path | None = None, local: bool = True) -> list[Path]:
    """Return the existing folders of a kind, in the order of the search.

    Parameters
    ----------
    kind : {"prompts", "configs", "datasets"}
    start : Path, optional
        Folder that contains the local folder. Default: the current folder.
    local : bool, default True
        Whether to search the local folder first.

    Returns
    -------
    list of Path
        The local folder, the folder in the checkout from which the package runs, and the folder in the package.
    """
    checkout = _PACKAGE.parent.parent
    folders = [(start or Path.cwd()) / kind] if local else []
    if (checkout / "pyproject.toml").is_file() and (checkout / "src" / "youden") == _PACKAGE:
        folders.append(checkout / kind)
    folders.append(_PACKAGE / "_shipped" / kind)
    return [folder for folder in folders if folder.is_dir()]


def find_resource(kind: Kind, name: str, *, start: Path | None = None, local: bool = True) -> Path:
    """Find the first file or folder with a name.

    Parameters
    ----------
    kind : {"prompts", "configs", "datasets"}
    name : str
        Path relative to the folder of the kind.
    start : Path, optional
        Folder that contains the local folder. Default: the current folder.
    local : bool, default True
        Whether to search the local folder first. A local file that replaces a shipped one is reported.

    Returns
    -------
    Path

    Raises
    ------
    ConfigError
        [not-found]: if there is no such file; the message lists the names that exist. [shadowed]: if a local file replaces a
        shipped one and the environment variable CI is set.
    """
    folders = find_resource_folders(kind, start=start, local=local)
    for folder in folders:
        if (folder / name).exists():
            if local:
                original = find_shipped(kind, name)
                report_shadow(kind.removesuffix("s"), Path(name).stem, folder / name, original=original)
            return folder / name
    parent = str(Path(name).parent)
    names = sorted({path.name for folder in folders for path in (folder / parent).glob("*")})
    raise ConfigError(
        f"There is no '{name}' in {kind}/, neither here nor among the files that ship with youden. "
        f"There are: {', '.join(names) or 'none'}. Set one of these names, or the path of a file.",
        slug="not-found",
    )


def find_shipped(kind: Kind, name: str) -> Path | None:
    """Return the shipped file or folder with a name, or None if there is none."""
    paths = (folder / name for folder in find_resource_folders(kind, local=False))
    return next((path for path in paths if path.exists()), None)


@dataclass
class _Shadows:
    """Function that reports a local file that replaces a shipped one, and the messages that were reported."""

    report: Callable[[str], None]
    reported: set[str]


_shadows = _Shadows(logging.getLogger("youden").warning, set())


def set_shadow_reporter(report: Callable[[str], None]) -> None:
    """Set the function that reports local files that replace shipped ones.

    Parameters
    ----------
    report : callable
        Receives a message, once per file. By default, the logger `youden` receives it.
    """
    _shadows.report, _shadows.reported = report, set()


def report_shadow(what: str, name: str, file: Path, *, original: Path | None, path: bool = False) -> bool:
    """Report that a local file replaces a shipped one with other content.

    Parameters
    ----------
    what : str
        The kind of file: judge, prompt, config or dataset.
    name : str
        Name by which the file was found.
    file, original : Path
        The local file or folder, and the shipped one. If `original` is None, nothing is reported.
    path : bool, default False
        Whether the user passed a path rather than a name. A path is never an error.

    Returns
    -------
    bool
        Whether `file` is used instead of a different shipped file.

    Raises
    ------
    ConfigError
        [shadowed]: if the environment variable CI is set and `path` is False, because reports are not read in continuous
        integration.
    """
    if original is None or _have_same_content(file, original):
        return False
    local = os.path.relpath(file) if file.is_absolute() and file.is_relative_to(Path.cwd()) else str(file)
    if not path and os.environ.get("CI", "").lower() not in ("", "0", "false"):
        raise ConfigError(
            f"The {what} '{name}' ships with youden, and the local file {local} has the same name. With the variable CI set, a "
            f"local file is used only if its path is given. Set `{_KEYS.get(what, what)}: ./{Path(local).as_posix()}`, or "
            "rename the file.",
            slug="shadowed",
        )
    message = f"{what} '{name}': the local file {local} is used instead of the one that ships with youden"
    if message not in _shadows.reported:
        _shadows.reported.add(message)
        _shadows.report(message)
    return True


def report_shadow_at(path: Path) -> None:
    """Report a local file whose path, for example `datasets/NAME`, is also that of a shipped file."""
    if path.parts[:1] in (("configs",), ("datasets",)) and path.exists():
        kind: Kind = "configs" if path.parts[0] == "configs" else "datasets"
        original = find_shipped(kind, Path(*path.parts[1:]).as_posix())
        report_shadow(kind.removesuffix("s"), path.stem, path, original=original, path=True)


def is_inside_folder(file: Path) -> bool:
    """Return whether a file is not a link to a file outside its folder.

    Shipped files count as inside, because some installers link them.
    """
    return file.is_relative_to(_PACKAGE) or file.resolve().is_relative_to(file.parent.resolve())


def _have_same_content(a: Path, b: Path) -> bool:
    if a.resolve() == b.resolve():
        return True
    if a.is_dir() and b.is_dir():
        names_a, names_b = (sorted(path.relative_to(root) for path in root.rglob("*")) for root in (a, b))
        return names_a == names_b and all(_have_same_content(a / name, b / name) for name in names_a)
    return a.is_file() and b.is_file() and a.read_bytes() == b.read_bytes()
