"""Where answers are kept if nobody names a store: one file per project, so that no run pays for what another one has paid for."""

from __future__ import annotations

import os
from pathlib import Path

PROJECT = ".youden"
"""The folder of a project in which youden keeps its own files."""
_MARKS = ((PROJECT,), (".git", "pyproject.toml"))


def project_store() -> Path:
    """Return the store of the project, `.youden/answers.db` in the project directory.

    The project directory is the nearest directory, from the current one upwards, that contains `.youden`; else the nearest one
    that contains `.git` or `pyproject.toml`; else the current directory. Above the current directory only what belongs to the
    current user counts.
    """
    return Path(os.path.relpath(_project_directory() / PROJECT / "answers.db"))


def moved_store(store: Path, run: Path) -> Path:
    """Return where a project's store is now, if it is not where the folder `run` expected it, as after a move of that folder."""
    if store.parent.name != PROJECT or store.exists():
        return store
    above = (folder for folder in run.resolve().parents if _is_ours(folder / PROJECT / store.name, at=False))
    found = next(above, None)
    return project_store() if found is None else Path(os.path.relpath(found / PROJECT / store.name))


def _project_directory() -> Path:
    here = Path.cwd()
    for marks in _MARKS:
        for folder in (here, *here.parents):
            if any(_is_ours(folder / mark, at=folder == here) for mark in marks):
                return folder
    return here


def _is_ours(mark: Path, *, at: bool) -> bool:
    try:
        owner = mark.stat().st_uid
    except OSError:
        return False
    return at or os.name != "posix" or owner == os.getuid()


def hide_from_git(folder: Path) -> None:
    """Let git ignore `folder`, if it is a project's `.youden`: answers are paid for, private and large."""
    ignore = folder / ".gitignore"
    if folder.name == PROJECT and not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
