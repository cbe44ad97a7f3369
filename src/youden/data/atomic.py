"""Replaces a file, a folder, or files that belong together, so that whoever looks finds the old ones or the new ones, whole."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import ENOENT
from pathlib import Path
from tempfile import TemporaryDirectory

HELD = os.name == "nt"
"""Whether a file that somebody reads can be replaced only once it is closed, as on Windows."""

_WAITS = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Seconds. A viewer, or a guard against viruses, reads a file for less than that."""


def _take_place(fresh: Path, path: Path) -> None:
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
    """A fresh path beside `path`, to be written inside the block; it takes `path`'s place if the block ends well.

    The folder is made where it is missing. After an error `path` is as it was and the fresh file is gone.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with _naming(path):
            yield fresh
        if path.is_dir():
            _move_away(path)
        _take_place(fresh, path)
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
        with _naming(path):
            yield fresh
        _move_away(path)
        _take_place(fresh, path)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


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
        for name in names:
            if (fresh / name).exists():
                _take_place(fresh / name, folder / name)
            else:
                (folder / name).unlink(missing_ok=True)


def _need(place: Path, *, of: Path) -> None:
    if not place.is_dir():
        raise FileNotFoundError(ENOENT, "The folder was deleted or moved meanwhile", str(of))


@contextmanager
def workplace(folder: Path) -> Iterator[Path]:
    """An empty folder inside `folder` that goes at the end; what killed processes of this machine left of theirs goes first."""
    for left in folder.glob(".fit-*-*-*"):
        machine, number, _ = left.name.removeprefix(".fit-").rsplit("-", 2)
        if machine == platform.node() and number.isdecimal() and _has_ended(int(number)):
            shutil.rmtree(left, ignore_errors=True)
    with TemporaryDirectory(prefix=f".fit-{platform.node()}-{os.getpid()}-", dir=folder) as place:
        yield Path(place)


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


def _move_away(path: Path) -> None:
    if not path.exists():
        return
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    _take_place(path, old)
    if old.is_dir():
        shutil.rmtree(old)
    else:
        old.unlink()
