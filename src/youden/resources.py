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


def find_resource_folders(kind: Kind, *, local: bool = True) -> list[Path]:
    """Return the folders in which files of a kind are searched for, in the order of the search.

    Parameters
    ----------
    kind : {"prompts", "configs", "datasets"}
        Kind of the files; also the name of the folders.
    local : bool, default True
        Whether to search the local folder, in the current folder, first.

    Returns
    -------
    list of Path
        The local folder, the folder of the source checkout (if the package runs from one), and the folder that is
        installed with the package. Folders that do not exist are left out.
    """
    folders = [Path.cwd() / kind] if local else []
    checkout = _PACKAGE.parent.parent
    runs_from_checkout = (checkout / "pyproject.toml").is_file() and (checkout / "src" / "youden") == _PACKAGE
    if runs_from_checkout:
        folders.append(checkout / kind)
    folders.append(_PACKAGE / "_shipped" / kind)
    return [folder for folder in folders if folder.is_dir()]


def find_resource(kind: Kind, name: str, *, local: bool = True) -> Path:
    """Find a prompt, config or dataset by its name, among local files and those that ship with youden.

    Parameters
    ----------
    kind : {"prompts", "configs", "datasets"}
        Kind of the file.
    name : str
        Path relative to the folder of the kind, with the suffix of a file, such as "runs/field-notes.yaml".
    local : bool, default True
        Whether to search the local folder, `kind` in the current folder, first. A local file that replaces a shipped one of
        different content is reported once, by default as a warning of the logger `youden`.

    Returns
    -------
    Path
        Absolute path of the first file or folder with this name.

    Raises
    ------
    ConfigError
        [not-found]: if there is no such file; the message lists the names that exist. [shadowed]: if a local file replaces a
        shipped one of different content, and the environment variable CI is set, other than to 0 or false.
    """
    folders = find_resource_folders(kind, local=local)
    for folder in folders:
        path = folder / name
        if path.exists():
            if local:
                original = find_shipped(kind, name)
                report_shadow(kind.removesuffix("s"), Path(name).stem, path, original=original)
            return path

    parent = Path(name).parent
    existing: set[str] = set()
    for folder in folders:
        existing.update(path.name for path in (folder / parent).glob("*"))
    raise ConfigError(
        f"There is no '{name}' in {kind}/, neither here nor among the files that ship with youden. "
        f"There are: {', '.join(sorted(existing)) or 'none'}. Set one of these names, or the path of a file.",
        slug="not-found",
    )


def find_shipped(kind: Kind, name: str) -> Path | None:
    """Return the file or folder with a name that ships with youden; None if there is none."""
    for folder in find_resource_folders(kind, local=False):
        path = folder / name
        if path.exists():
            return path
    return None


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
    _shadows.report = report
    _shadows.reported = set()


def report_shadow(resource: str, name: str, file: Path, *, original: Path | None, was_path_given: bool = False) -> bool:
    """Report that a local file replaces a file that ships with youden: the same name, but other contents.

    Each file is reported once. By default, the report is a warning of the logger `youden`; `set_shadow_reporter` changes this.

    Parameters
    ----------
    resource : str
        What the file contains: judge, prompt, config or dataset.
    name : str
        Name by which the file was found.
    file, original : Path
        The local file or folder, and the shipped one. If `original` is None, nothing is reported.
    was_path_given : bool, default False
        Whether the user passed the path of the local file, and not only its name. If True, the user knows which file is used, and
        the report is never an error.

    Returns
    -------
    bool
        Whether `file` is used instead of a shipped file with other contents.

    Raises
    ------
    ConfigError
        [shadowed]: if the contents differ, the environment variable CI is set, other than to 0 or false, and
        `was_path_given` is False, because reports are rarely read in continuous integration.
    """
    if original is None or _have_same_content(file, original):
        return False
    local = _format_local_path(file)
    is_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
    if is_ci and not was_path_given:
        config_key = _KEYS.get(resource, resource)
        raise ConfigError(
            f"The {resource} '{name}' ships with youden, and the local file {local} has the same name. With the variable CI set, "
            f"a local file is used only if its path is given. Set `{config_key}: ./{Path(local).as_posix()}`, or "
            "rename the file.",
            slug="shadowed",
        )
    message = f"{resource} '{name}': the local file {local} is used instead of the one that ships with youden"
    if message not in _shadows.reported:
        _shadows.reported.add(message)
        _shadows.report(message)
    return True


def _format_local_path(file: Path) -> str:
    """Return a path relative to the current folder if it is below this folder, else unchanged."""
    is_below_current = file.is_absolute() and file.is_relative_to(Path.cwd())
    return os.path.relpath(file) if is_below_current else str(file)


def report_shadow_at(path: Path) -> None:
    """Report a local file whose path, such as `datasets/NAME`, is also the path of a file that ships with youden."""
    kinds: tuple[Kind, ...] = ("configs", "datasets")
    for kind in kinds:
        if path.parts[:1] == (kind,) and path.exists():
            original = find_shipped(kind, Path(*path.parts[1:]).as_posix())
            report_shadow(kind.removesuffix("s"), path.stem, path, original=original, was_path_given=True)


def is_inside_folder(file: Path) -> bool:
    """Return whether a file is really in its folder, and not a link to a file elsewhere.

    Shipped files count as inside, because some installers link them.
    """
    is_shipped = file.is_relative_to(_PACKAGE)
    return is_shipped or file.resolve().is_relative_to(file.parent.resolve())


def _have_same_content(a: Path, b: Path) -> bool:
    """Return whether two files, or two folders with all their files, are equal."""
    if a.resolve() == b.resolve():
        return True
    if a.is_dir() and b.is_dir():
        names_a = sorted(path.relative_to(a) for path in a.rglob("*"))
        names_b = sorted(path.relative_to(b) for path in b.rglob("*"))
        return names_a == names_b and all(_have_same_content(a / name, b / name) for name in names_a)
    return a.is_file() and b.is_file() and a.read_bytes() == b.read_bytes()
