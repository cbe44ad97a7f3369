"""Answers in an SQLite file, for the processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from threading import RLock
from typing import Any
from urllib.parse import quote, unquote

import orjson
from tenacity import Retrying, retry_if_exception_message, stop_after_delay, wait_fixed

from youden.errors import ConfigError, JudgeError
from youden.judging.store.contract import (
    TABLES,
    VERSION,
    Batch,
    Change,
    FailureRow,
    Kept,
    Member,
    Row,
    definition,
    key_of_row,
    names_of,
    other_form,
)

_APPLICATION_ID = 0x796F7564
_BY_KEY = {"claims", "paid"}
_SCHEMA = f"""
{"".join(f"CREATE TABLE IF NOT EXISTS {name} {definition(name)}{' WITHOUT ROWID' * (name in _BY_KEY)};" for name in TABLES)}
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {VERSION};
"""

_PAY = """
INSERT INTO paid VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (payer, key) DO UPDATE SET usd = paid.usd + excluded.usd,
  tokens_in = paid.tokens_in + excluded.tokens_in, tokens_out = paid.tokens_out + excluded.tokens_out,
  seconds = paid.seconds + excluded.seconds
"""
_TAKE = """
INSERT INTO claims SELECT value, :owner, :expires FROM json_each(:keys) WHERE true
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, expires = excluded.expires
WHERE claims.owner = excluded.owner OR claims.owner IN (SELECT value FROM json_each(:gone))
RETURNING key
"""
_AMONG = "IN (SELECT value FROM json_each(?))"

_UNTIL_FREE = Retrying(
    retry=retry_if_exception_message(match=".*locked"), wait=wait_fixed(0.05), stop=stop_after_delay(30), reraise=True
)
"""Making a store is the one moment at which SQLite does not wait for another process by itself."""


def path_of(place: str) -> Path:
    """The file of `sqlite:///path`, or of a path."""
    return Path(unquote(place.removeprefix("sqlite:///")) if "://" in place else place)


class SqlitePlace:
    """The file of `sqlite:///path` or of a path; made where there is none, unless `read_only`.

    Raises: ConfigError [store-missing], [store-foreign], [store-form]; JudgeError [store-corrupt], [store-read-only],
    [store-full], [store-busy], [store-failed], [store-gone].
    """

    def __init__(self, place: str, *, read_only: bool = False, now: Callable[[], float] = time.time) -> None:
        self.path = path = path_of(place)
        self.name = str(path)
        self.now = now
        self._lock = RLock()
        if read_only and not path.is_file():
            raise ConfigError(
                f"There is no store at {path}. Judge the plan first, or give its path.", slug="store-missing"
            )
        with self._explained():
            self._connection = _connect(path, read_only=read_only)
        try:
            with self._explained():
                _UNTIL_FREE(_prepare, self._connection, path, read_only=read_only)
                self._file = os.stat(path)
        except BaseException:
            self._connection.close()
            raise

    def count(self) -> int:
        return int(self._read("SELECT count(*) FROM answers")[0][0])

    def known(self, keys: Sequence[str]) -> tuple[list[tuple[str, str]], list[FailureRow]]:
        among = _json(keys)
        return (
            self._read(f"SELECT key, completion FROM answers WHERE key {_AMONG}", among),
            self._read(f"SELECT key, kind, status, reason FROM failures WHERE key {_AMONG}", among),
        )

    def since(self, mark: int) -> tuple[int, list[tuple[str, str]]]:
        """Writers come one after the other, so that row numbers grow in the order of commits."""
        rows = self._read("SELECT rowid, key, completion FROM answers WHERE rowid > ? ORDER BY rowid", mark)
        return (rows[-1][0] if rows else mark), [(key, text) for _, key, text in rows]

    def write(self, batch: Batch) -> None:
        now, again = self.now(), set(batch.again)
        first = [key for key in batch.keys if key not in again]
        with self._writing() as do:
            before = {key for (key,) in do.execute(f"SELECT key FROM answers WHERE key {_AMONG}", [_json(first)])}
            answers = [(key, text, now) for key, text in batch.answers if key not in before]
            do.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", answers)
            if do.execute("SELECT 1 FROM failures LIMIT 1").fetchall():
                do.executemany("DELETE FROM failures WHERE key = ?", [(key,) for key, *_ in answers])
            failures = [(*row, now) for row in batch.failures if row[0] not in before]
            do.executemany("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?)", failures)
            if do.execute("SELECT 1 FROM claims LIMIT 1").fetchall():
                do.executemany("DELETE FROM claims WHERE key = ?", [(key,) for key in batch.keys])
            do.executemany(_PAY, batch.payments)
            do.executemany("DELETE FROM batches WHERE id = ?", [(number,) for number, _ in batch.settled])
            do.executemany(
                "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [row for _, row in batch.settled if row]
            )

    def paid(self, payer: str) -> list[tuple[str, float | None, int, int, float]]:
        return self._read("SELECT key, usd, tokens_in, tokens_out, seconds FROM paid WHERE payer = ?", payer)

    def take(self, keys: Sequence[str], owner: str, *, seconds: float, gone: Collection[str]) -> set[str]:
        values = {"owner": owner, "expires": self.now() + seconds, "keys": _json(keys), "gone": _json(gone)}
        with self._writing() as do:
            return {key for (key,) in do.execute(_TAKE, values).fetchall()}

    def owners(self) -> dict[str, float]:
        return dict(self._read("SELECT owner, max(expires) FROM claims GROUP BY owner"))

    def renew(self, owner: str, *, seconds: float) -> None:
        with self._writing() as do:
            do.execute("UPDATE claims SET expires = ? WHERE owner = ?", [self.now() + seconds, owner])

    def release(self, owner: str, keys: Collection[str] | None) -> None:
        with self._writing() as do:
            do.execute(
                f"DELETE FROM claims WHERE owner = ? AND (? OR key {_AMONG})", [owner, keys is None, _json(keys or ())]
            )

    def members(self, run: str, change: Change) -> Sequence[Member]:
        with self._writing() as do:
            rows = do.execute("SELECT * FROM members WHERE run = ?", [run]).fetchall()
            made = change(self.now(), [Member(*rest) for _, *rest in rows])
            do.execute("DELETE FROM members WHERE run = ?", [run])
            do.executemany(f"INSERT INTO members VALUES {_marks('members')}", [(run, *astuple(one)) for one in made])
        return made

    def rows(self, kept: Kept, after: Row | None, *, n: int) -> list[Row]:
        name = key_of_row(kept)
        values = (after or ())[: name.count(",") + 1]
        where = f"WHERE ({name}) > ({', '.join('?' * len(values))})" if values else ""
        return self._read(f"SELECT * FROM {kept} {where} ORDER BY {name} LIMIT ?", *values, n)

    def put_rows(self, kept: Kept, rows: Iterable[Row]) -> int:
        with self._writing() as do:
            before = self._connection.total_changes
            do.executemany(f"INSERT OR IGNORE INTO {kept} VALUES {_marks(kept)}", rows)
            return self._connection.total_changes - before

    def note_batch(self, number: str, *, file: str | None, batch: str | None) -> bool:
        with self._writing() as do:
            return do.execute("UPDATE batches SET file = ?, batch = ? WHERE id = ?", [file, batch, number]).rowcount > 0

    def forget_batch(self, number: str) -> None:
        with self._writing() as do:
            do.execute("DELETE FROM batches WHERE id = ?", [number])

    def batches(self) -> list[str]:
        return [number for (number,) in self._read("SELECT id FROM batches ORDER BY id")]

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _read(self, query: str, *values: str | int | float | None) -> list[Any]:
        with self._lock, self._explained():
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, which begins as a writer: one that read first could not become one while others write."""
        with self._lock, self._explained():
            if not (self.path.exists() and os.path.samestat(self._file, os.stat(self.path))):
                raise JudgeError(
                    f"The store {self.name} was deleted or moved while this process wrote to it: what comes now would be lost. "
                    "Put it back, answers are in it; else run the same again, which asks and pays once more.",
                    slug="store-gone",
                )
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.rollback()
                raise
            self._connection.commit()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """What SQLite says, as an error that names a way on."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise explanation(self.name, str(error)) from None


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    if not read_only:
        path.parent.mkdir(parents=True, exist_ok=True)
    mode = "mode=ro" if read_only else "mode=rwc"
    log = path.with_name(path.name + "-wal")
    if read_only and not log.exists() and not os.access(path.parent, os.W_OK):
        mode = "immutable=1"
    uri = f"file:{quote(str(path.absolute()))}?{mode}"
    return sqlite3.connect(uri, uri=True, timeout=30, check_same_thread=False, isolation_level=None)


def _prepare(connection: sqlite3.Connection, path: Path, *, read_only: bool) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if tables and application != _APPLICATION_ID:
        raise ConfigError(
            f"{path} is a database of something else: it has tables that are not a store's. Give another path.",
            slug="store-foreign",
        )
    if tables and version != VERSION:
        raise other_form(str(path), version)
    if read_only:
        if not tables:
            raise ConfigError(
                f"The store {path} is empty. Judge the plan first, or give its path.", slug="store-missing"
            )
        return
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    if not tables:
        connection.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}COMMIT;")


def _marks(table: str) -> str:
    return f"({', '.join('?' * len(names_of(table)))})"


def _json(values: Collection[str]) -> str:
    return orjson.dumps(list(values)).decode()


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
        f"Save what can be read with `youden salvage {path} --out saved.db`, put saved.db in its place and run the same again.",
        slug="store-corrupt",
    )
