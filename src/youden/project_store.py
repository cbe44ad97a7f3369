"""Locate the answer store that is used by default.

There is one store per project, so that no run pays for an answer that another run has paid for.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from youden.errors import ConfigError

PROJECT = ".youden"
"""Name of the folder of a project that holds the files of youden."""
_MARKERS = ((PROJECT,), (".git", "pyproject.toml"))
"""Names of files and folders that mark a project directory, in groups of decreasing priority."""
_LIBPQ = re.compile(
    r"\s*(host|hostaddr|port|dbname|user|password|passfile|service|sslmode|options|connect_timeout)\s*="
)


def check_store_address(address: str) -> None:
    """Check that the address of a store is not a connection string of libpq.

    A connection string of libpq may contain a password. Therefore, a run makes this check before it prints or writes the address.

    Parameters
    ----------
    address : str
        Path or URL of a store.

    Raises
    ------
    ConfigError
        [store-url]: if the address begins like `host=… dbname=…`, and no file has this name.
    """
    if _LIBPQ.match(address) and not Path(address).exists():
        raise ConfigError(
            f"The address of a store begins with '{address.partition('=')[0]}=', like a connection string of PostgreSQL, and "
            "would become a local file of that name. Pass a path, or postgresql://USER@HOST/DATABASE.",
            slug="store-url",
        )


def usual_store() -> str | None:
    """Return the store in the environment variable YOUDEN_STORE, or None if it is not set.

    Runs use it if neither options nor config name a store.
    """
    return os.environ.get("YOUDEN_STORE") or None


def project_store() -> Path:
    """Return the path of the answer store of the project, `.youden/answers.db` in the project directory.

    The project directory is the nearest directory, from the current one upwards, that contains `.youden`. If there is
    none, it is the nearest one that contains `.git` or `pyproject.toml`, or else the current directory. Above the
    current directory, only files and folders that the current user owns are considered.

    Returns
    -------
    Path
        Relative to the current directory.
    """
    return Path(os.path.relpath(_find_project_directory() / PROJECT / "answers.db"))


def find_moved_store(store: Path, run: Path) -> Path:
    """Find the store of a run whose folder may have been moved.

    Parameters
    ----------
    store : Path
        Path of the store in the files of the run.
    run : Path
        Folder of the run.

    Returns
    -------
    Path
        `store` if its folder exists, or is not called `.youden`. If a folder `.youden` is missing, it was moved with the project.
        The result is then the file with the same name in the nearest folder `.youden` above `run` that belongs to the current
        user. If there is no such file, the result is `project_store()`.
    """
    is_project_store = store.parent.name == PROJECT
    if store.parent.is_dir() or not is_project_store:
        return store
    for parent in run.resolve().parents:
        store_of_parent = parent / PROJECT / store.name
        if _is_owned(store_of_parent, any_owner=False):
            return Path(os.path.relpath(store_of_parent))
    return project_store()


def _find_project_directory() -> Path:
    """Return the project directory: the nearest folder, from the current one upwards, that contains `.youden`.

    If no folder contains `.youden`, the project directory is the nearest folder with `.git` or `pyproject.toml`; if there
    is none, it is the current folder. Above the current folder, only files and folders that belong to the user count.
    """
    current_folder = Path.cwd()
    for names in _MARKERS:
        for folder in (current_folder, *current_folder.parents):
            is_current = folder == current_folder
            if any(_is_owned(folder / name, any_owner=is_current) for name in names):
                return folder
    return current_folder


def _is_owned(path: Path, *, any_owner: bool) -> bool:
    """Return whether a path exists and belongs to the current user or, with `any_owner`, to any user."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return False
    return any_owner or os.name != "posix" or owner == os.getuid()


def hide_from_git(folder: Path) -> None:
    """Write a .gitignore file into a folder `.youden`, because answers are private and large.

    A folder with another name, or with a .gitignore file, stays unchanged.
    """
    if folder.name != PROJECT:
        return
    with suppress(FileExistsError), (folder / ".gitignore").open("x", encoding="utf-8") as ignore:
        ignore.write("*\n")
