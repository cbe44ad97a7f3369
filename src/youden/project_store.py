"""Locate the answer store that is used by default.

There is one store per project, so that no run pays for an answer that another run has paid for.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

PROJECT = ".youden"
"""Name of the folder of a project that holds the files of youden."""
_MARKS = ((PROJECT,), (".git", "pyproject.toml"))


def usual_store() -> str | None:
    """Return the store in the environment variable YOUDEN_STORE, or None if it is not set.

    Runs use it if neither options nor config name a store.
    """
    return os.environ.get("YOUDEN_STORE") or None


def project_store() -> Path:
    """Return the store of the project, `.youden/answers.db` in the project directory.

    The project directory is the nearest directory, from the current one upwards, that contains `.youden`; else the nearest one
    that contains `.git` or `pyproject.toml`; else the current directory. Above the current directory, only files and folders
    that the current user owns are considered.

    Returns
    -------
    Path
        Relative to the current directory.
    """
    return Path(os.path.relpath(_project_directory() / PROJECT / "answers.db"))


def find_moved_store(store: Path, run: Path) -> Path:
    """Find the store of a run, also if the run folder was moved.

    Parameters
    ----------
    store : Path
        Path of the store in the files of the run.
    run : Path
        Folder of the run.

    Returns
    -------
    Path
        `store` if it exists or is not the store of a project; else the store of the nearest project above `run`; else
        `project_store()`.
    """
    if store.parent.name != PROJECT or store.exists():
        return store
    for folder in run.resolve().parents:
        candidate = folder / PROJECT / store.name
        if _is_owned(candidate, any_owner=False):
            return Path(os.path.relpath(candidate))
    return project_store()


def _project_directory() -> Path:
    current = Path.cwd()
    for marks in _MARKS:
        for folder in (current, *current.parents):
            if any(_is_owned(folder / mark, any_owner=folder == current) for mark in marks):
                return folder
    return current


def _is_owned(path: Path, *, any_owner: bool) -> bool:
    """Return whether a path exists and belongs to the current user or, with `any_owner`, to any user."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return False
    return any_owner or os.name != "posix" or owner == os.getuid()


def hide_from_git(folder: Path) -> None:
    """Write a .gitignore file into the folder `.youden` of a project, because answers are private and large.

    Any other folder is unchanged.
    """
    if folder.name == PROJECT:
        with suppress(FileExistsError), (folder / ".gitignore").open("x", encoding="utf-8") as ignore:
            ignore.write("*\n")
