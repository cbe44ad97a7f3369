"""Let only one process at a time judge a run, whichever store it uses, or update a file.

The lock belongs to the operating system, which releases it if the process is killed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, EAGAIN
from pathlib import Path
from typing import IO

from youden.data.atomic import make_directory
from youden.errors import JudgeError

LOCK = ".lock"
_POLL_SECONDS = 0.05


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Prevent other processes from judging a run during the `with` statement.

    On a file system without locks, nothing is locked here; the lock of the answer store still applies.

    Parameters
    ----------
    folder : Path
        Folder of the run; it is created if it does not exist.

    Raises
    ------
    JudgeError
        [run-busy]: if another process holds the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("ab") as file:
        if not _try_lock(file):
            raise JudgeError(
                f"Another process is judging {folder}, and both would pay for the same answers. Wait until it has ended, or "
                "stop it and run the same command again.",
                slug="run-busy",
            )
        yield


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Let one process at a time read, change and write a file; the others wait.

    path : the file, which need not exist. During the `with` statement, a lock file exists next to it. Missing parent folders
        are created. On a file system without locks, nothing is locked.
    """
    make_directory(path.parent)
    lock_path = path.with_name(f".{path.name}.lock")
    while True:
        with lock_path.open("ab") as file:
            # the previous process may have deleted the lock file after it was opened here; a new one is then opened
            if _try_lock(file) and os.fstat(file.fileno()).st_nlink:
                try:
                    yield
                finally:
                    with suppress(OSError):  # Windows does not delete an open file
                        lock_path.unlink()
                return
        time.sleep(_POLL_SECONDS)


def _try_lock(file: IO[bytes]) -> bool:
    """Lock a file until it is closed; return False if another process has locked it.

    If locking fails for another reason, the result is True: some file systems do not support locks.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        is_locked_by_another = error.errno in (EACCES, EAGAIN)
        return not is_locked_by_another
    return True
