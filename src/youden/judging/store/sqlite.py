"""Store answers in an SQLite file, for the processes of one machine.

The file is opened by the same name in all processes, because SQLite's log and locks belong to a name.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from urllib.parse import quote

from tenacity import Retrying, retry_if_exception_message, stop_after_delay, wait_fixed

from youden.data.atomic import make_directory
from youden.errors import ConfigError, JudgeError
from youden.judging.store.contract import TABLES, VERSION, table_definition, version_error
from youden.judging.store.statements import Access, Session, SqlBackend, T
from youden.project_store import hide_from_git
from youden.text.printable import to_path

BUSY_SECONDS = 30.0
"""Time for which a transaction waits for the lock of another process; then it fails with [store-busy]."""

_APPLICATION_ID = 0x796F7564
_CLUSTERED_TABLES = {"leases", "costs"}
_CREATE_TABLES = "".join(
    f"CREATE TABLE IF NOT EXISTS {name} {table_definition(name)}{' WITHOUT ROWID' * (name in _CLUSTERED_TABLES)};"
    for name in TABLES
)
_SCHEMA = f"""
{_CREATE_TABLES}
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {VERSION};
"""

_DIALECT = {"@": "", "EACH": "json_each(?)", "NOW": "seconds_now()", "LOCK": ""}

_RETRY_WHILE_LOCKED = Retrying(
    retry=retry_if_exception_message(match=".*locked"), wait=wait_fixed(0.05), stop=stop_after_delay(30), reraise=True
)
"""Creating a store is the only step in which SQLite does not itself wait for other processes."""


class _SqliteSession(Session):
    """Runs statements on a connection to an SQLite file."""

    def insert_many(self, sql: str, rows: Iterable[Sequence[object]]) -> int:
        """Insert many rows, with one prepared statement: a transaction of SQLite has no server that could be lost.

        sql : INSERT statement for one row
        rows : values of the rows
        """
        return int(self._connection.executemany(self._translate(sql), rows).rowcount)


class SqliteBackend(SqlBackend):
    """The storage backend of an SQLite file.

    Parameters
    ----------
    address : str
        Path, or ``sqlite:///path``.
    read_only : bool, default False
        Open an existing store for reading. By default the file is created if it does not exist.

    Raises
    ------
    ConfigError
        [store-missing] if there is nothing to read; [not-a-store] if the file belongs to another application;
        [store-version] if it has another version.
    JudgeError
        [store-corrupt], [store-read-only], [store-full], [store-busy], [store-failed], by what SQLite reports;
        [store-deleted] if the file was deleted or moved.
    """

    def __init__(self, address: str, *, read_only: bool = False) -> None:
        self.path = path = to_path(address)
        self.name = str(path)
        self._lock = RLock()
        if read_only and not path.is_file():
            raise ConfigError(
                f"There is no store at {path}. Judge the plan first, or pass the path of a store.", slug="store-missing"
            )
        with self._convert_errors():
            if not read_only:
                make_directory(path.parent)
                hide_from_git(path.parent)
            file = _find_common_path(path, read_only=read_only)
            if read_only and _belongs_to_other_application(file):
                raise _make_foreign_error(path)
            self._connection = _open_connection(file, read_only=read_only)
        try:
            with self._convert_errors():
                self._connection.create_function("seconds_now", 0, time.time)
                _RETRY_WHILE_LOCKED(_check_and_create_tables, self._connection, path, read_only=read_only)
                self._file = os.stat(path)
                (journal_mode,) = self._connection.execute("PRAGMA journal_mode").fetchone()
                self._has_write_ahead_log = journal_mode == "wal"
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the connection to the file."""
        with self._lock:
            self._connection.close()

    def _run_in_session(self, access: Access, operation: Callable[[Session], T]) -> T:
        """Call a function that runs SQL statements on the file, and return its result.

        A function that writes runs in a transaction, which locks the file when it begins.

        access : what the function does: "read", "lease" (it changes only leases, which reserve requests for a process),
            "write" or "transaction". SQLite treats the last two in the same way.
        operation : function to call; its argument runs the statements

        Raises: JudgeError [store-deleted] if the function writes and the file was deleted or moved; if SQLite fails,
        [store-corrupt], [store-read-only], [store-full], [store-busy] or [store-failed].
        """
        with self._lock, self._convert_errors():
            session = _SqliteSession(self._connection, _DIALECT)
            if access == "read":
                return operation(session)

            is_same_file = self.path.exists() and os.path.samestat(self._file, os.stat(self.path))
            if not is_same_file:
                raise JudgeError(
                    f"The store {self.name} was deleted or moved while this process wrote to it, so that further answers would "
                    "be lost. Move it back, because it contains answers, or run the same command again, which pays for them "
                    "again.",
                    slug="store-deleted",
                )
            # Leases may be lost in a power cut, which also ends this process, so their changes need not be on the disk at once.
            if access == "lease" and self._has_write_ahead_log:
                with self._without_sync():
                    return self._run_transaction(session, operation)
            return self._run_transaction(session, operation)

    def _run_transaction(self, session: Session, operation: Callable[[Session], T]) -> T:
        """Call a function with the session in a transaction, which is rolled back if the function fails.

        operation : function to call, whose argument is the session
        """
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            result = operation(session)
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.commit()
        return result

    @contextmanager
    def _without_sync(self) -> Iterator[None]:
        """Do not wait for the disk at commits in the body of the `with` statement.

        Waiting takes half of the CPU time of a commit. Without it, the last commits may be missing after a power cut. Use this
        only if the database has a write-ahead log. Otherwise, a power cut could damage the database.
        """
        self._connection.execute("PRAGMA synchronous = NORMAL")
        try:
            yield
        finally:
            self._connection.execute("PRAGMA synchronous = FULL")

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Convert errors of SQLite and of the file system inside the block to JudgeError."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise make_store_error(self.name, error) from None


def _find_common_path(path: Path, *, read_only: bool) -> Path:
    """Return the path by which all processes of this user open a store.

    A file may have several paths (hard links). SQLite writes its log next to the path that it is given. Two processes with
    different paths would have different logs, and would damage the file. The first process therefore writes its path to a file
    in the temporary folder, the path record. All later processes use this path.

    path : path of the store. The file is created if it does not exist.
    read_only : whether the store is only read; then neither the store nor the path record is created

    Returns `path` itself if no other path of the file is recorded.
    """
    if not read_only and not path.exists():
        path.touch()
    resolved_path = path.resolve()
    record_file = _locate_path_record(path)
    has_record = record_file.exists()
    first_path = _read_first_path(record_file, resolved_path)
    if first_path is None and not read_only:
        # there is no record, or it belongs to a deleted file that had the same inode number
        with suppress(OSError):
            _write_path_record(record_file, resolved_path, replaces_record=has_record)
        first_path = _read_first_path(record_file, resolved_path)  # another process may have written its path first
    if first_path is None or first_path == resolved_path:
        return path
    return first_path


def _locate_path_record(path: Path) -> Path:
    """Return the file, in the temporary folder, that contains the path by which a store was opened first."""
    stat = path.stat()
    user_id = os.getuid() if hasattr(os, "getuid") else 0
    return Path(tempfile.gettempdir(), f"youden-stores-{user_id}", f"{stat.st_dev}-{stat.st_ino}")


def _write_path_record(record_file: Path, store_path: Path, *, replaces_record: bool) -> None:
    """Write the path of a store to its path record, unless another process writes the file first.

    The file appears with its content in one step, because it is made as a hard link to a complete file.

    record_file : file in the temporary folder
    store_path : absolute path of the store
    replaces_record : whether the file exists and is to be replaced
    """
    record_file.parent.mkdir(mode=0o700, exist_ok=True)
    if replaces_record:
        record_file.unlink(missing_ok=True)
    tmp_path = record_file.parent / uuid.uuid4().hex
    tmp_path.write_text(str(store_path), encoding="utf-8")
    with suppress(FileExistsError):  # another process was faster
        os.link(tmp_path, record_file)
    tmp_path.unlink()


def _read_first_path(record_file: Path, store_path: Path) -> Path | None:
    """Read the path in a path record; None if there is no such file, or if the path leads to another file than the store."""
    try:
        first_path = Path(record_file.read_text(encoding="utf-8"))
        return first_path if first_path.samefile(store_path) else None
    except (OSError, ValueError):
        return None


def _open_connection(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """Open a database; one in a folder that cannot be written is opened as a file that no process changes."""
    mode = "mode=ro" if read_only else "mode=rwc"
    log = path.with_name(path.name + "-wal")
    if read_only and not log.exists() and not os.access(path.parent, os.W_OK):
        mode = "immutable=1"
    uri = f"file:{quote(str(path.absolute()))}?{mode}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, check_same_thread=False, isolation_level=None)


def _belongs_to_other_application(path: Path) -> bool:
    """Return whether a file is an SQLite database of another application, according to the header of the file.

    The file is not opened as a database, because this would leave files next to it.
    """
    if path.with_name(path.name + "-wal").exists():
        return False  # the header may still be in the log
    with path.open("rb") as file:
        header = file.read(72)
    is_sqlite = header[:16] == b"SQLite format 3\0"
    application_id = int.from_bytes(header[68:72], "big")
    return is_sqlite and application_id != _APPLICATION_ID


def _make_foreign_error(path: Path) -> ConfigError:
    """Make the error for a database of another application."""
    return ConfigError(
        f"{path} is a database of another application: it has tables that are not a store's. Pass another path.",
        slug="not-a-store",
    )


def _check_and_create_tables(connection: sqlite3.Connection, path: Path, *, read_only: bool) -> None:
    """Check that a database is a store of this version, and create missing tables if the store may be written.

    The connection is set up so that each commit is on the disk when it returns.

    path : path of the store, for error messages

    Raises: ConfigError [not-a-store] if another application made the tables; [store-version] if another version did;
    [store-missing] if a store that is only read has no tables.
    """
    (n_tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if n_tables > 0:
        _check_tables(connection, path)
    elif read_only:
        raise ConfigError(
            f"The store {path} is empty. Judge the plan first, or pass another store.", slug="store-missing"
        )
    if read_only:
        return

    connection.execute("PRAGMA journal_mode = WAL")
    # each commit is on disk; after a power cut, NORMAL loses all commits since the last checkpoint
    connection.execute("PRAGMA synchronous = FULL")
    if n_tables == 0:
        connection.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}COMMIT;")


def _check_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Check that the tables of a database are those of a store of this version, by the numbers in its header.

    path : path of the store, for error messages

    Raises: ConfigError [not-a-store] if another application made the tables; [store-version] if another version did.
    """
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    if application_id != _APPLICATION_ID:
        raise _make_foreign_error(path)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != VERSION:
        raise version_error(str(path), version)


_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
_READ_ONLY_CODES = {sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH}
_LOCKED_CODES = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_PRIMARY_CODE = 0xFF
"""Bits of an error code of SQLite that are equal for all its variants, such as a full disk while the log is written."""


def make_store_error(path: str, error: Exception) -> JudgeError:
    """Make the error for a failure of a store. The code of the error, and not the words of its message, decides the remedy.

    path : path of the store
    error : error of SQLite, of the file system, or of an answer that cannot be read
    """
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
    file_error = error.errno if isinstance(error, OSError) else None
    if code == sqlite3.SQLITE_FULL or file_error in _DISK_FULL:
        return JudgeError(
            f"The disk of the store {path} is full ({error}). All answers written so far are stored. Free disk space, then "
            "run the same command again.",
            slug="store-full",
        )
    if code in _LOCKED_CODES:
        return JudgeError(
            f"The store {path} is locked by another process ({error}). Wait for that process or stop it, then run the "
            "same command again.",
            slug="store-busy",
        )
    if code == sqlite3.SQLITE_IOERR or file_error == errno.EIO:
        return JudgeError(
            f"The disk of the store {path} fails ({error}). Copy the store to another disk and use the copy.",
            slug="store-failed",
        )
    if isinstance(error, OSError) or code in _READ_ONLY_CODES:
        return JudgeError(
            f"The store {path} cannot be opened or written ({error}). "
            "Check the folder and its permissions, or pass another path. A replay can read a read-only store.",
            slug="store-read-only",
        )
    return JudgeError(
        f"The store {path} is damaged, or is not an SQLite database ({error}). "
        f"Recover what can be read with `sqlite3 {path} .recover`, as described on the page 'Reliability' of the documentation.",
        slug="store-corrupt",
    )
