"""Find out whether temporary files of tests can be kept in memory."""

import os

MEMORY_FOLDER = "/dev/shm"  # noqa: S108
MIN_FREE_BYTES = 8 * 2**30


def can_hold_tests(folder: str) -> bool:
    """Return whether a folder is a mounted file system that can be written to, runs programs and has 8 GB free."""
    if not os.path.ismount(folder) or not os.access(folder, os.W_OK):
        return False
    status = os.statvfs(folder)
    runs_programs = not status.f_flag & os.ST_NOEXEC
    return runs_programs and status.f_bavail * status.f_frsize > MIN_FREE_BYTES
