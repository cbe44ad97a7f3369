"""Answers in an SQLite file, for the processes of one machine."""

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
from youden.judging.store.contract import TABLES, VERSION, definition, other_form
from youden.judging.store.statements import How, Session, SqlPlace, T
from youden.project_store import hide_from_git
from youden.text.printable import path_of

_APPLICATION_ID = 0x796F7564
_BY_KEY = {"claims", "paid"}
_SCHEMA = f"""
{"".join(f"CREATE TABLE IF NOT EXISTS {name} {definition(name)}{' WITHOUT ROWID' * (name in _BY_KEY)};" for name in TABLES)}
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {VERSION};
"""

_WORDS = {"@": "", "EACH": "json_each(?)", "NOW": "seconds_now()", "LOCK": ""}

_UNTIL_FREE = Retrying(
    retry=retry_if_exception_message(match=".*locked"), wait=wait_fixed(0.05), stop=stop_after_delay(30), reraise=True
)
"""Making a store is the one moment at which SQLite does not wait for another process by itself."""


class SqlitePlace(SqlPlace):
    """The file of `sqlite:///path` or of a path; made where there is none, unless `read_only`.

    Raises: ConfigError [store-missing], [store-foreign], [store-form]; JudgeError [store-corrupt], [store-read-only],
    [store-full], [store-busy], [store-failed], [store-gone].
    """

    def __init__(self, place: str, *, read_only: bool = False) -> None:
        self.path = path = path_of(place)
        self.name = str(path)
        self._lock = RLock()
        if read_only and not path.is_file():
            raise ConfigError(
                f"There is no store at {path}. Judge the plan first, or give its path.", slug="store-missing"
            )
        with self._explained():
            if not read_only:
                make_directory(path.parent)
                hide_from_git(path.parent)
            file = _one_name(path, read_only=read_only)
            if read_only and _is_foreign(file):
                raise _foreign(path)
            self._connection = _connect(file, read_only=read_only)
        try:
            with self._explained():
                self._connection.create_function("seconds_now", 0, time.time)
                _UNTIL_FREE(_prepare, self._connection, path, read_only=read_only)
                self._file = os.stat(path)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _do(self, how: How, work: Callable[[Session], T]) -> T:
        """A transaction begins as a writer: one that read first could not become one while others write."""
        with self._lock, self._explained():
            session = Session(self._connection, _WORDS)
            if how == "read":
                return work(session)
            if not (self.path.exists() and os.path.samestat(self._file, os.stat(self.path))):
                raise JudgeError(
                    f"The store {self.name} was deleted or moved while this process wrote to it: what comes now would be lost. "
                    "Put it back, answers are in it; else run the same again, which asks and pays once more.",
                    slug="store-gone",
                )
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                done = work(session)
            except BaseException:
                self._connection.rollback()
                raise
            self._connection.commit()
            return done

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """What SQLite says, as an error that names a way on."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise explanation(self.name, str(error)) from None


def _one_name(path: Path, *, read_only: bool) -> Path:
    """Return the name by which processes of this user open the file, which may be another hard link to it.

    SQLite keeps its log and its locks next to the name that it is given. Processes that use two names would miss each other's
    writes and damage the file, so the first name is recorded in the temporary folder, under the file's device and inode number.
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
    return sqlite3.connect(uri, uri=True, timeout=30, check_same_thread=False, isolation_level=None)


def _is_foreign(path: Path) -> bool:
    """Return whether the file's header names another application. Opening such a database would leave files next to it."""
    if path.with_name(path.name + "-wal").exists():
        return False  # the header may still be in the log
    with path.open("rb") as file:
        header = file.read(72)
    return header[:16] == b"SQLite format 3\0" and header[68:72] != _APPLICATION_ID.to_bytes(4, "big")


def _foreign(path: Path) -> ConfigError:
    return ConfigError(
        f"{path} is a database of another application: it has tables that are not a store's. Pass another path.",
        slug="store-foreign",
    )


def _prepare(connection: sqlite3.Connection, path: Path, *, read_only: bool) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if tables and application != _APPLICATION_ID:
        raise _foreign(path)
    if tables and version != VERSION:
        raise other_form(str(path), version)
    if read_only:
        if not tables:
            raise ConfigError(
                f"The store {path} is empty. Judge the plan first, or give its path.", slug="store-missing"
            )
        return
    connection.execute("PRAGMA journal_mode = WAL")
    # each commit is on disk; after a power cut, NORMAL loses all commits since the last checkpoint
    connection.execute("PRAGMA synchronous = FULL")
    if not tables:
        connection.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}COMMIT;")


def explanation(path: str, said: str) -> JudgeError:
    """What SQLite said of the store at `path`, with a way on."""
    if "readonly" in said or "read-only" in said.casefold() or "unable to open" in said or "Permission" in said:
        return JudgeError(
            f"The store {path} cannot be opened or written ({said}). "
            "Check the folder and its permissions, or give another path; a replay can read a read-only store.",
            slug="store-read-only",
        )
    if "full" in said:
        return JudgeError(
            f"The disk of the store {path} is full ({said}). All answers written so far are kept: make room and run the same.",
            slug="store-full",
        )
    if "locked" in said:
        return JudgeError(
            f"The store {path} is held by another process ({said}). Wait for it, or end it, and run the same again.",
            slug="store-busy",
        )
    if "disk I/O" in said:
        return JudgeError(
            f"The disk of the store {path} fails ({said}). Copy it elsewhere, go on there.", slug="store-failed"
        )
    return JudgeError(
        f"The store {path} is damaged, or no SQLite database at all ({said}). "
        f"Recover what can be read with `sqlite3 {path} .recover`, as the page 'Reliability' of the book describes.",
        slug="store-corrupt",
    )
