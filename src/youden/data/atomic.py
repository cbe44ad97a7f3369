"""Write files and folders atomically: a reader finds either the old content or the new one, complete.

This holds even if the process is killed or the power fails, because data are flushed to the disk
before they replace anything.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EACCES, EINVAL, EISDIR, ENOENT, ENOTSUP
from pathlib import Path
from tempfile import TemporaryDirectory

LOCKS_OPEN_FILES = os.name == "nt"
"""Whether a file cannot be replaced as long as another process reads it, as on Windows."""

_RETRY_SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Waits between attempts to replace a file, in all longer than a viewer or a virus scanner takes to read a file."""

_NEW, _OLD = "new", "old"
"""Names in a scratch directory: of the new file or folder, and of the directory to which the replaced one is moved."""


def make_directory(path: Path) -> None:
    """Create a directory and its missing parents, and flush them to the disk so that they survive a power failure.

    Parameters
    ----------
    path : Path
        The directory, which may exist.
    """
    new_directories = [directory for directory in (path, *path.parents) if not directory.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for directory in new_directories:
        _flush_to_disk(directory.parent)


def move_into_place(new_path: Path, path: Path) -> None:
    """Move a finished file or folder out of a scratch directory to its target, and replace what exists there.

    The content is flushed to the disk before the move, and the target's folder after it. If the move fails, what existed at
    the target is restored. A file does not replace a folder.

    Parameters
    ----------
    new_path : Path
        File or folder in a scratch directory.
    path : Path
        Target.

    Raises
    ------
    IsADirectoryError
        If `new_path` is a file and `path` is a folder. The folder is left as it is.
    """
    if path.is_dir() and not new_path.is_dir():
        raise IsADirectoryError(EISDIR, "It is a folder, and a file does not replace it", str(path))
    _flush_tree(new_path)
    if path.exists() and new_path.is_dir():
        _exchange_for_folder(new_path, path)
    else:
        _replace_with_retry(new_path, path)
    _flush_to_disk(path.parent)


def _exchange_for_folder(new_folder: Path, path: Path) -> None:
    """Replace an existing file or folder by a folder; if this fails, restore what existed before.

    A folder cannot be renamed to the path of an existing file, or of a folder that is not empty. Therefore, the existing file
    or folder is first moved to the scratch directory of the new folder.

    new_folder : finished folder in a scratch directory
    path : path of the file or folder to be replaced
    """
    old_path = new_folder.parent / _OLD / path.name
    old_path.parent.mkdir(exist_ok=True)
    _replace_with_retry(path, old_path)
    try:
        _replace_with_retry(new_folder, path)
    except BaseException:
        _replace_with_retry(old_path, path)
        raise


def _flush_to_disk(path: Path) -> None:
    """Flush a file, or the list of files in a directory, to the disk, so that it survives a power failure.

    path : file or directory; a directory that cannot be flushed is skipped, for example on Windows, on some network
        file systems, or without read permission
    """
    flags = os.O_RDONLY
    if LOCKS_OPEN_FILES and path.is_file():  # Windows flushes only files that are open for writing
        flags = os.O_RDWR

    try:
        descriptor = os.open(path, flags)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        cannot_be_flushed = error.errno in (EACCES, EINVAL, ENOTSUP)
        if not path.is_dir() or not cannot_be_flushed:
            raise


def _flush_tree(path: Path) -> None:
    """Flush a file, or a directory with all its content, to the disk."""
    if path.is_dir():
        for child in path.iterdir():
            _flush_tree(child)
    _flush_to_disk(path)


def _replace_with_retry(source: Path, target: Path) -> None:
    """Move a file or folder to a target, and replace the file there.

    Windows does not replace a file that a reader keeps open. In this case, the move is tried several times, with pauses.

    Raises: PermissionError after the last attempt.
    """
    retry_delays = _RETRY_SECONDS if LOCKS_OPEN_FILES else ()
    for seconds in retry_delays:
        try:
            os.replace(source, target)
        except PermissionError:
            time.sleep(seconds)
        else:
            return
    os.replace(source, target)


@contextmanager
def _name_file_in_errors(path: Path) -> Iterator[None]:
    """Add `path` to an OSError from the block that names no file, such as the error of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Write a file or a folder atomically.

    Parameters
    ----------
    path : Path
        Target; its missing parents are created.

    Yields
    ------
    Path
        Temporary path to write to. If the block succeeds, the content is flushed to the disk and moved to the target;
        after an error the target is unchanged and the new content is deleted.
    """
    make_directory(path.parent)
    with scratch_directory(path.parent, name="youden") as scratch, _name_file_in_errors(path):
        tmp_path = scratch / _NEW
        yield tmp_path
        move_into_place(tmp_path, path)


@contextmanager
def atomic_write_folder(path: Path) -> Iterator[Path]:
    """Write a folder, and replace the folder or file at its target.

    During the replacement nothing exists at the target for a moment. If the process is killed in that moment, the next
    write to the same parent folder restores the old folder or file.

    Parameters
    ----------
    path : Path
        Target; its missing parents are created.

    Yields
    ------
    Path
        Empty temporary folder to fill. After an error the target is unchanged and the new folder is deleted.
    """
    with atomic_write(path) as tmp_path:
        tmp_path.mkdir()
        yield tmp_path


@contextmanager
def atomic_write_many(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """Write several files of one folder together.

    The existing files are replaced after all new files are written. If the block raises an error, the folder is unchanged.

    Parameters
    ----------
    folder : Path
        Existing folder.
    names : sequence of str
        Names of the files, in the order in which they are replaced. If a reader finds the new version of the last file,
        all other files are new, too.

    Yields
    ------
    Path
        Empty temporary folder, in which the block writes the files. If the block does not write one of the files, this
        file is deleted from `folder`.

    Raises
    ------
    FileNotFoundError
        If the folder was deleted or moved.
    """
    _check_folder_exists(folder, error_path=folder)
    with scratch_directory(folder) as scratch:
        with _name_file_in_errors(folder):
            yield scratch
            _check_folder_exists(scratch, error_path=folder)
            _flush_tree(scratch)
        for name in names:
            if (scratch / name).exists():
                _replace_with_retry(scratch / name, folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
        _flush_to_disk(folder)


def _check_folder_exists(folder: Path, *, error_path: Path) -> None:
    """Raise FileNotFoundError for `error_path` if a folder does not exist."""
    if not folder.is_dir():
        raise FileNotFoundError(ENOENT, "The folder was deleted or moved in the meantime", str(error_path))


@contextmanager
def scratch_directory(folder: Path, *, name: str = "fit") -> Iterator[Path]:
    """Create a scratch directory for the duration of the block.

    Scratch directories of ended processes are removed first (`remove_leftovers`).

    Parameters
    ----------
    folder : Path
        Existing folder.
    name : str, default "fit"
        Beginning of the directory's name, after a dot.

    Yields
    ------
    Path
        The empty directory.
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
    """Remove the scratch directories of ended processes from a folder.

    A process that was killed leaves its scratch directory behind. If the process was about to replace a file or a folder, the
    old one is restored first. Directories of other machines stay, because their processes may still run.

    Parameters
    ----------
    folder : Path
        Folder that contains the scratch directories.
    """
    name_pattern = re.compile(rf"-{re.escape(platform.node())}-(?P<process_id>\d+)-\w+$")
    for hidden_path in folder.glob(".*"):
        match = name_pattern.search(hidden_path.name)
        is_leftover = match is not None and _has_ended(int(match["process_id"]))
        if is_leftover:
            _restore_replaced_paths(hidden_path)
            shutil.rmtree(hidden_path, ignore_errors=True)


def _restore_replaced_paths(scratch: Path) -> None:
    """Move files and folders that were about to be replaced from a scratch directory back to their folder.

    If the new file or folder is already in place, the old one is not moved. Errors are ignored, because another process may
    restore the same files, or the directory may belong to another user.
    """
    old_folder = scratch / _OLD
    with suppress(OSError):
        for old_path in old_folder.iterdir():
            original_path = scratch.parent / old_path.name
            if not original_path.exists():
                _replace_with_retry(old_path, original_path)


def _has_ended(process_id: int) -> bool:
    """Return whether a process has ended; False on Windows, where this is not known."""
    if os.name != "posix":
        return False
    try:
        os.kill(process_id, 0)  # signal 0 only checks that the process exists
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False
