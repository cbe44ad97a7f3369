"""Locate the store that is used if none is named: one file per project, so that no run pays for what another one has paid for."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

PROJECT = ".youden"
"""The folder of a project in which youden keeps its own files."""
_MARKS = ((PROJECT,), (".git", "pyproject.toml"))


def usual_store() -> str | None:
    """Return the store for runs whose options and config name none: that of the variable YOUDEN_STORE."""
    return os.environ.get("YOUDEN_STORE") or None


def project_store() -> Path:
    """Return the store of the project, `.youden/answers.db` in the project directory.

    The project directory is the nearest directory, from the current one upwards, that contains `.youden`; else the nearest one
    that contains `.git` or `pyproject.toml`; else the current directory. Above the current directory, only files and folders
    that the current user owns count.

    Returns
    -------
    Path
        Relative to the current directory.
    """
    return Path(os.path.relpath(_project_directory() / PROJECT / "answers.db"))


def moved_store(store: Path, run: Path) -> Path:
    """Find a project's store whose path a run records, also after the run's folder was moved.

    Parameters
    ----------
    store : Path
        Store that the run records.
    run : Path
        Folder of the run.

    Returns
    -------
    Path
        `store` if it exists or is not a project's; else the store of the nearest project above `run`; else `project_store()`.
    """
    if store.parent.name != PROJECT or store.exists():
        return store
    for folder in run.resolve().parents:
        candidate = folder / PROJECT / store.name
        if _is_ours(candidate, any_owner=False):
            return Path(os.path.relpath(candidate))
    return project_store()


def _project_directory() -> Path:
    here = Path.cwd()
    for marks in _MARKS:
        for folder in (here, *here.parents):
            if any(_is_ours(folder / mark, any_owner=folder == here) for mark in marks):
                return folder
    return here


def _is_ours(mark: Path, *, any_owner: bool) -> bool:
    """Return whether `mark` exists and belongs to the current user, or to any if `any_owner`."""
    try:
        owner = mark.stat().st_uid
    except OSError:
        return False
    return any_owner or os.name != "posix" or owner == os.getuid()


def hide_from_git(folder: Path) -> None:
    """Make git ignore `folder` if it is a project's `.youden`, because answers are paid for, private and large."""
    if folder.name == PROJECT:
        with suppress(FileExistsError), (folder / ".gitignore").open("x", encoding="utf-8") as ignore:
            ignore.write("*\n")
