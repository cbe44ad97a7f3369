"""Let only one process at a time judge a run's folder, whichever store it uses.

The lock belongs to the operating system, which releases it if the process is killed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EACCES, EAGAIN
from pathlib import Path
from typing import IO

from youden.errors import JudgeError

LOCK = ".lock"


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
