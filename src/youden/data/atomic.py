"""Replaces a file, a folder, or files that belong together, so that a reader finds the old or the new ones, complete.

This also holds after a process was killed and after a power cut.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EACCES, EINVAL, ENOENT, ENOTSUP
from pathlib import Path
from tempfile import TemporaryDirectory

HELD = os.name == "nt"
"""Whether a file that somebody reads can be replaced only once it is closed, as on Windows."""

_WAITS = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Seconds. A viewer, or a guard against viruses, reads a file for less than that."""

_NEW, _OLD = "new", "old"
"""Names inside a scratch directory: of what is being written, and of the directory of what it replaces."""


def make_directory(path: Path) -> None:
    """Create a directory and its missing parents, whose entries are on the disk when the function returns."""
    missing = [directory for directory in (path, *path.parents) if not directory.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for directory in missing:
        _sync(directory.parent)


def take_place(fresh: Path, path: Path) -> None:
    """Move the finished file or folder `fresh`, which lies in a scratch directory, to `path`, replacing what is there.

    The content of `fresh` is on the disk before it is moved, and the move is on the disk before the function returns. If `fresh`
    cannot be moved, what was at `path` is put back.
    """
    _sync_tree(fresh)
    old = None
    if path.is_dir() or (path.exists() and fresh.is_dir()):
        old = fresh.parent / _OLD / path.name
        old.parent.mkdir(exist_ok=True)
        _rename(path, old)
    try:
        _rename(fresh, path)
    except BaseException:
        if old is not None:
            _rename(old, path)
        raise
    _sync(path.parent)


def _sync(path: Path) -> None:
    """Flush a file, or the entries of a directory, to the disk. A directory that cannot be opened or flushed (on Windows, on some
    network file systems, without the right to read it) is left to the system."""
    try:
        descriptor = os.open(path, os.O_RDWR if HELD and path.is_file() else os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in (EACCES, EINVAL, ENOTSUP) or not path.is_dir():
            raise


def _sync_tree(path: Path) -> None:
    if path.is_dir():
        for child in path.iterdir():
            _sync_tree(child)
    _sync(path)


def _rename(fresh: Path, path: Path) -> None:
    """`os.replace`, tried again for a moment where a reader holds the old one open. Raises: PermissionError after that."""
    for seconds in _WAITS if HELD else ():
        try:
            os.replace(fresh, path)
        except PermissionError:
            time.sleep(seconds)
        else:
            return
    os.replace(fresh, path)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """An error of a write inside the block, which knows no file (a full disk), names `path`."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path in a scratch directory, to be written inside the block, and move it to `path` if the block succeeds.

    It is then on the disk. A missing folder is created. After an error `path` is unchanged and the new file is gone.
    """
    make_directory(path.parent)
    with workplace(path.parent, name="youden") as place, _naming(path):
        fresh = place / _NEW
        yield fresh
        take_place(fresh, path)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder, to be filled inside the block, and replace the folder or file at `path` by it, as `replacing` does.

    For a moment nothing is at `path`. If the process is killed in that moment, the next write to the same parent folder restores
    the old folder or file.
    """
    with replacing(path) as fresh:
        fresh.mkdir()
        yield fresh


@contextmanager
def replacing_together(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """An empty folder inside `folder`, which is there, to be filled inside the block with files of these names. If the block ends
    well, they take their places, the last name last, and a file of a name that was not written is taken out.

    After an error all is as it was, and after a full disk too: nothing is written once the first has its place.
    """
    _need(folder, of=folder)
    with workplace(folder) as fresh:
        with _naming(folder):
            yield fresh
            _need(fresh, of=folder)
            _sync_tree(fresh)
        for name in names:
            if (fresh / name).exists():
                _rename(fresh / name, folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
        _sync(folder)


def _need(place: Path, *, of: Path) -> None:
    if not place.is_dir():
        raise FileNotFoundError(ENOENT, "The folder was deleted or moved meanwhile", str(of))


@contextmanager
def workplace(folder: Path, *, name: str = "fit") -> Iterator[Path]:
    """Yield an empty scratch directory inside `folder`, and remove it at the end. name: what its name begins with.

    Scratch directories that killed processes of this machine left in `folder` are removed first.
    """
    remove_leftovers(folder)
    try:
        scratch = TemporaryDirectory(prefix=f".{name}-{platform.node()}-{os.getpid()}-", dir=folder)
    except OSError as error:
        error.filename = str(folder)
        raise
    with scratch:
        yield Path(scratch.name)


def remove_leftovers(folder: Path) -> None:
    """Remove scratch directories that killed processes of this machine left in `folder`; first, restore what such a process was
    about to replace."""
    for leftover in folder.glob(".*"):
        match = re.search(rf"-{re.escape(platform.node())}-(\d+)-\w+$", leftover.name)
        if not match or not _has_ended(int(match[1])):
            continue
        with suppress(OSError):  # another process does the same, or the directory is another user's
            for old in (leftover / _OLD).iterdir():
                if not (folder / old.name).exists():
                    _rename(old, folder / old.name)
        shutil.rmtree(leftover, ignore_errors=True)


def _has_ended(process: int) -> bool:
    if os.name != "posix":
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False
