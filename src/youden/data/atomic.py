"""Replaces a file or a folder in one step, so that whoever looks finds the old one or the new one, whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A fresh path beside `path`, to be written inside the block; it takes `path`'s place if the block ends well.

    The folder is made where it is missing. After an error `path` is as it was and the fresh file is gone.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield fresh
        if path.is_dir():
            _move_away(path)
        os.replace(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """An empty folder beside `path`, to be filled inside the block; it takes the place of the folder or file at `path`.

    After an error `path` is as it was. Between the old one's going and the new one's coming there is neither for a moment.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.part")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    try:
        yield fresh
        _move_away(path)
        fresh.rename(path)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _move_away(path: Path) -> None:
    if not path.exists():
        return
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    path.rename(old)
    if old.is_dir():
        shutil.rmtree(old)
    else:
        old.unlink()
