"""Refuse to read from anything but a regular file.

A named pipe or a socket would block a reader for ever, and a device may never end. The error is an `OSError`, so that
every reader reports it as it reports a file that cannot be read.
"""

from __future__ import annotations

import errno
import stat
from os import PathLike
from pathlib import Path

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


class SpecialFileError(OSError):
    """A path is a named pipe, a socket, a device or a folder, but has to be a regular file."""

    def __str__(self) -> str:
        return str(self.strerror)


def find_special_kind(path: str | PathLike[str]) -> str | None:
    """Return what kind of special file a path is, after following links.

    Parameters
    ----------
    path : str or PathLike
        Path to examine.

    Returns
    -------
    str or None
        "a named pipe", "a socket", "a device" or "a folder"; None for a regular file, or if the path does not exist.

    Examples
    --------
    >>> find_special_kind("/dev/null"), find_special_kind("no such file")
    ('a device', None)
    """
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return None
    return _KINDS.get(stat.S_IFMT(mode))


def check_regular(path: str | PathLike[str]) -> None:
    """Raise SpecialFileError if `path` exists and is not a regular file; call this before the file is opened."""
    kind = find_special_kind(path)
    if kind is not None:
        raise SpecialFileError(errno.EINVAL, f"it is {kind}, not a regular file", str(path))


def read_regular(path: Path) -> bytes:
    """Read the bytes of a regular file.

    Raises
    ------
    OSError
        If the file cannot be read; SpecialFileError if it is not a regular file.
    """
    check_regular(path)
    return path.read_bytes()


def read_regular_text(path: Path, *, encoding: str = "utf-8") -> str:
    """Read the text of a regular file, with line ends as line feeds.

    Raises
    ------
    OSError
        If the file cannot be read; SpecialFileError if it is not a regular file.
    UnicodeDecodeError
        If its bytes are not valid in the encoding.
    """
    check_regular(path)
    return path.read_text(encoding=encoding)
