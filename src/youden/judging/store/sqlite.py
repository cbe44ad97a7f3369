"""Store answers in an SQLite file, for the processes of one machine.

The file is opened by the same name in all processes, because SQLite's log and locks belong to a name.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
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
        with self._judge_errors():
            if not read_only:
                make_directory(path.parent)
                hide_from_git(path.parent)
            file = _common_name(path, read_only=read_only)
            if read_only and _is_foreign(file):
                raise _foreign_error(path)
            self._connection = _connect(file, read_only=read_only)
        try:
            with self._judge_errors():
                self._connection.create_function("seconds_now", 0, time.time)
                _RETRY_WHILE_LOCKED(_prepare, self._connection, path, read_only=read_only)
                self._file = os.stat(path)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _do(self, access: Access, work: Callable[[Session], T]) -> T:
        """Run `work`. A transaction locks the file first: a reader cannot become a writer while others write."""
        with self._lock, self._judge_errors():
            session = Session(self._connection, _DIALECT)
            if access == "read":
                return work(session)
            if not (self.path.exists() and os.path.samestat(self._file, os.stat(self.path))):
                raise JudgeError(
                    f"The store {self.name} was deleted or moved while this process wrote to it, so that further answers would "
                    "be lost. Move it back, because it contains answers, or run the same command again, which pays for them "
                    "again.",
                    slug="store-deleted",
                )
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(session)
            except BaseException:
                self._connection.rollback()
                raise
            self._connection.commit()
            return result

    @contextmanager
    def _judge_errors(self) -> Iterator[None]:
        """Convert errors of SQLite and of the file system inside the block to JudgeError."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise explain_error(self.name, str(error)) from None


def _common_name(path: Path, *, read_only: bool) -> Path:
    """Return the name by which processes of this user open the file, which may be another hard link to it.

    SQLite keeps its log and its locks next to the name that it is given. Processes that use two names would miss each
    other's writes and damage the file, so the first name is recorded in the temporary folder, under the file's device
    and inode number.
    """
    if not (read_only or path.exists()):
        path.touch()
    file, resolved = path.stat(), path.resolve()
    notes = Path(tempfile.gettempdir(), f"youden-stores-{os.getuid() if hasattr(os, 'getuid') else 0}")
    note = notes / f"{file.st_dev}-{file.st_ino}"
    stale = note.exists()
    if (first_name := _first_name(note, resolved)) is None and not read_only:
        with suppress(OSError):
            notes.mkdir(mode=0o700, exist_ok=True)
            if stale:
                note.unlink(missing_ok=True)
            tmp_path = notes / uuid.uuid4().hex
            tmp_path.write_text(str(resolved), encoding="utf-8")
            with suppress(FileExistsError):
                os.link(tmp_path, note)
            tmp_path.unlink()
        first_name = _first_name(note, resolved)
    return path if first_name in (None, resolved) else first_name


def _first_name(note: Path, resolved: Path) -> Path | None:
    """Read the name in `note`; None if it is no longer a name of the file at `resolved`."""
    try:
        name = Path(note.read_text(encoding="utf-8"))
        return name if name.samefile(resolved) else None
    except (OSError, ValueError):
        return None


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    mode = "mode=ro" if read_only else "mode=rwc"
    log = path.with_name(path.name + "-wal")
    if read_only and not log.exists() and not os.access(path.parent, os.W_OK):
        mode = "immutable=1"
    uri = f"file:{quote(str(path.absolute()))}?{mode}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, check_same_thread=False, isolation_level=None)


def _is_foreign(path: Path) -> bool:
    """Return whether a file's header names another application; to open its database would leave files next to it."""
    if path.with_name(path.name + "-wal").exists():
        return False  # the header may still be in the log
    with path.open("rb") as file:
        header = file.read(72)
    return header[:16] == b"SQLite format 3\0" and header[68:72] != _APPLICATION_ID.to_bytes(4, "big")


def _foreign_error(path: Path) -> ConfigError:
    return ConfigError(
        f"{path} is a database of another application: it has tables that are not a store's. Pass another path.",
        slug="not-a-store",
    )


def _prepare(connection: sqlite3.Connection, path: Path, *, read_only: bool) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if tables and application != _APPLICATION_ID:
        raise _foreign_error(path)
    if tables and version != VERSION:
        raise version_error(str(path), version)
    if read_only:
        if not tables:
            raise ConfigError(
                f"The store {path} is empty. Judge the plan first, or pass another store.", slug="store-missing"
            )
        return
    connection.execute("PRAGMA journal_mode = WAL")
    # each commit is on disk; after a power cut, NORMAL loses all commits since the last checkpoint
    connection.execute("PRAGMA synchronous = FULL")
    if not tables:
        connection.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}COMMIT;")


def explain_error(path: str, message: str) -> JudgeError:
    """Make the error for a message of SQLite about the store at `path`, with a remedy."""
    if (
        "readonly" in message
        or "read-only" in message.casefold()
        or "unable to open" in message
        or "Permission" in message
    ):
        return JudgeError(
            f"The store {path} cannot be opened or written ({message}). "
            "Check the folder and its permissions, or pass another path. A replay can read a read-only store.",
            slug="store-read-only",
        )
    if "full" in message:
        return JudgeError(
            f"The disk of the store {path} is full ({message}). All answers written so far are stored. Free disk space, then "
            "run the same command again.",
            slug="store-full",
        )
    if "locked" in message:
        return JudgeError(
            f"The store {path} is locked by another process ({message}). Wait for that process or stop it, then run the "
            "same command again.",
            slug="store-busy",
        )
    if "disk I/O" in message:
        return JudgeError(
            f"The disk of the store {path} fails ({message}). Copy the store to another disk and use the copy.",
            slug="store-failed",
        )
    return JudgeError(
        f"The store {path} is damaged, or is not an SQLite database ({message}). "
        f"Recover what can be read with `sqlite3 {path} .recover`, as described on the page 'Reliability' of the documentation.",
        slug="store-corrupt",
    )
