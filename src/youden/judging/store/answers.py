"""Keeps raw answers, which were paid for, under the key of the request that was sent.

It holds neither requests nor secrets. Answers are written several at a time: a process that is killed loses fewer than
`MOST_UNWRITTEN` answers, none of them older than `LINGER` seconds while a run goes on, and the calls in flight.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import quote, unquote

import orjson
from tenacity import Retrying, retry_if_exception_message, stop_after_delay, wait_fixed

from youden.errors import ConfigError, JudgeError
from youden.judging.call.failures import CallError, Failure, FailureKind
from youden.judging.call.reply import trusted
from youden.judging.store import payments
from youden.judging.store.claims import TABLE, Claims
from youden.judging.store.payments import Payment
from youden.nouns import Completion, Json

VERSION = 1
MOST_UNWRITTEN = 64
LINGER = 0.25

_APPLICATION_ID = 0x796F7564
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, completion TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS failures
  (key TEXT PRIMARY KEY, kind TEXT NOT NULL, status INTEGER, reason TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS judges (config TEXT PRIMARY KEY, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS served (judge TEXT, name TEXT, created REAL NOT NULL, PRIMARY KEY (judge, name));
{TABLE}{payments.TABLE}
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {VERSION};
"""


_UNTIL_FREE = Retrying(
    retry=retry_if_exception_message(match=".*locked"), wait=wait_fixed(0.05), stop=stop_after_delay(30), reraise=True
)
"""Making a store is the one moment at which SQLite does not wait for another process by itself."""


def open_store(place: str | Path, *, read_only: bool = False) -> Store:
    """The store at `sqlite:///path` or at a path; made where there is none, unless `read_only`.

    Raises: ConfigError [store-url], [store-missing], [store-foreign], [store-newer];
    JudgeError [store-corrupt], [store-read-only], [store-full], [store-busy], [store-failed].
    """
    path = store_path(place)
    if read_only and not path.is_file():
        raise ConfigError(f"There is no store at {path}. Judge the plan first, or give its path.", slug="store-missing")
    with _explained(path):
        connection = _connect(path, read_only=read_only)
    try:
        with _explained(path):
            _UNTIL_FREE(_prepare, connection, path, read_only=read_only)
    except BaseException:
        connection.close()
        raise
    return Store(connection, path)


def store_path(place: str | Path) -> Path:
    """Where the store at `sqlite:///path` or at a path is. Raises: ConfigError [store-url]."""
    text = str(place)
    if "://" in text and not text.startswith("sqlite:///"):
        raise ConfigError(
            f"There is no store for '{text.partition('://')[0]}://'. Give a path, or sqlite:///path.", slug="store-url"
        )
    return Path(unquote(text.removeprefix("sqlite:///")) if "://" in text else text)


class Store:
    """Raw answers by key. Use it as a context manager, or close it."""

    def __init__(self, connection: sqlite3.Connection, path: Path, *, now: Callable[[], float] = time.time) -> None:
        self.path = path
        self._connection = connection
        self._now = now
        self._answers: dict[str, Completion] = {}
        self._failures: dict[str, Failure] = {}
        self._payments: dict[tuple[str, str], Payment] = {}
        self._flushed = now()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        """How many answers it holds."""
        self.flush()
        with _explained(self.path):
            return int(self._connection.execute("SELECT count(*) FROM answers").fetchone()[0])

    def answers(self, keys: Sequence[str]) -> dict[str, Completion]:
        """key → completion for those of `keys` that were answered."""
        found = {key: said for key, said in self._stored(keys) if isinstance(said, Completion)}
        return found | {key: self._answers[key] for key in keys if key in self._answers}

    def failures(self, keys: Sequence[str]) -> dict[str, Failure]:
        """key → failure for those of `keys` that were given up on the last time they were asked, or whose answer cannot be
        trusted: replies were once kept as they came."""
        query = "SELECT key, kind, status, reason FROM failures WHERE key IN (SELECT value FROM json_each(?))"
        with _explained(self.path):
            rows = self._connection.execute(query, [orjson.dumps(keys).decode()]).fetchall()
        found = {key: said for key, said in self._stored(keys) if isinstance(said, Failure)}
        found |= {key: Failure(cast(FailureKind, kind), status, reason) for key, kind, status, reason in rows}
        return found | {key: self._failures[key] for key in keys if key in self._failures}

    def since(self, row: int) -> tuple[int, dict[str, Completion]]:
        """Answers written after `row` (0 for all), and the row to go on from: how another process follows a run."""
        with _explained(self.path):
            rows = self._connection.execute(
                "SELECT rowid, key, completion FROM answers WHERE rowid > ? ORDER BY rowid", [row]
            ).fetchall()
            read = {key: _read(text) for _, key, text in rows}
        found = {key: said for key, said in read.items() if isinstance(said, Completion)}
        return (rows[-1][0] if rows else row), found

    def _stored(self, keys: Sequence[str]) -> list[tuple[str, Completion | Failure]]:
        query = "SELECT key, completion FROM answers WHERE key IN (SELECT value FROM json_each(?))"
        with _explained(self.path):
            rows = self._connection.execute(query, [orjson.dumps(keys).decode()]).fetchall()
            return [(key, _read(text)) for key, text in rows]

    def add(self, key: str, outcome: Completion | Failure) -> None:
        """Keep an answer or a failure. It is on disk after the next `flush`, at most `MOST_UNWRITTEN` additions later."""
        if isinstance(outcome, Completion):
            self._answers[key] = outcome
        else:
            self._failures[key] = outcome
        if len(self._answers) + len(self._failures) >= MOST_UNWRITTEN or self._now() - self._flushed >= LINGER:
            self.flush()

    def add_all(
        self,
        answers: Mapping[str, Completion],
        failures: Mapping[str, Failure],
        *,
        payments: Mapping[str, Payment],
        payer: str,
    ) -> None:
        """Write many at once, by key, with what `payer` paid for them."""
        self._answers |= answers
        self._failures |= failures
        for key, payment in payments.items():
            self.pay(payer, key, payment)
        self.flush()

    def pay(self, payer: str, key: str, payment: Payment) -> None:
        """Note what a try cost, before `add` keeps what came of it: both are written by the same `flush`."""
        before = self._payments.get((payer, key))
        self._payments[payer, key] = payment if before is None else before + payment

    def paid(self, payer: str) -> dict[str, Payment]:
        """key → what `payer` paid for that request, in this and all earlier passes."""
        self.flush()
        with _explained(self.path):
            return payments.read(self._connection, payer)

    def flush(self) -> None:
        """Write everything added so far, in one transaction, which also ends the claims on it."""
        self._flushed = now = self._now()
        if not self._answers and not self._failures and not self._payments:
            return
        answers = [(key, orjson.dumps(one).decode(), now) for key, one in self._answers.items()]
        failures = [(key, one.kind, one.status, one.reason, now) for key, one in self._failures.items()]
        with _explained(self.path), self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", answers)
            self._connection.executemany("DELETE FROM failures WHERE key = ?", [(key,) for key in self._answers])
            self._connection.executemany("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?)", failures)
            done = [(key,) for key in (*self._answers, *self._failures)]
            self._connection.executemany("DELETE FROM claims WHERE key = ?", done)
            payments.write(self._connection, [(*whose, one) for whose, one in self._payments.items()])
        self._answers.clear()
        self._failures.clear()
        self._payments.clear()

    def claims(self) -> Claims:
        """For one asker: who else asks into this store."""
        return Claims(self._connection, explained=partial(_explained, self.path), now=self._now)

    def remember_judge(self, config: dict[str, Json]) -> None:
        """Note whose answers are kept here, so that a replay need not be told."""
        with _explained(self.path), self._connection:
            self._connection.execute("INSERT OR IGNORE INTO judges VALUES (?, ?)", [_text(config), self._now()])

    def judges(self) -> list[dict[str, Json]]:
        """The judges whose answers are kept here, oldest first."""
        with _explained(self.path):
            rows = self._connection.execute("SELECT config FROM judges ORDER BY created").fetchall()
        return [orjson.loads(text) for (text,) in rows]

    def remember_served(self, config: dict[str, Json], names: Sequence[str]) -> None:
        """Note under which names a judge was served."""
        if not names:
            return
        rows = [(_text(config), name, self._now()) for name in names]
        with _explained(self.path), self._connection:
            self._connection.executemany("INSERT OR IGNORE INTO served VALUES (?, ?, ?)", rows)

    def served(self, config: dict[str, Json]) -> list[str]:
        """The names under which earlier runs of a judge were served."""
        with _explained(self.path):
            rows = self._connection.execute("SELECT name FROM served WHERE judge = ?", [_text(config)]).fetchall()
        return [name for (name,) in rows]

    def close(self) -> None:
        """Flush and let go of the file."""
        try:
            self.flush()
        finally:
            self._connection.close()


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    if not read_only:
        path.parent.mkdir(parents=True, exist_ok=True)
    mode = "mode=ro" if read_only else "mode=rwc"
    log = path.with_name(path.name + "-wal")
    if read_only and not log.exists() and not os.access(path.parent, os.W_OK):
        mode = "immutable=1"
    uri = f"file:{quote(str(path.absolute()))}?{mode}"
    return sqlite3.connect(uri, uri=True, timeout=30, check_same_thread=False)


def _prepare(connection: sqlite3.Connection, path: Path, *, read_only: bool) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if tables and application != _APPLICATION_ID:
        raise ConfigError(
            f"{path} is a database of something else: it has tables that are not a store's. Give another path.",
            slug="store-foreign",
        )
    if version > VERSION:
        raise ConfigError(
            f"{path} was written by a newer youden (store version {version}, this one reads {VERSION}). Upgrade youden.",
            slug="store-newer",
        )
    if read_only:
        if not tables:
            raise ConfigError(
                f"The store {path} is empty. Judge the plan first, or give its path.", slug="store-missing"
            )
        return
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    known = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if not known >= {"answers", "failures", "judges", "served", "claims", "paid"}:
        connection.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}COMMIT;")


def _text(config: dict[str, Json]) -> str:
    return orjson.dumps(config, option=orjson.OPT_SORT_KEYS).decode()


def completion_from(fields: dict[str, Any]) -> Completion:
    """The completion that was stored as these JSON fields. Raises: CallError where it cannot be trusted, as `trusted`."""
    fields["top_logprobs"] = fields["top_logprobs"] or ()
    return trusted(Completion(**fields))


def _read(text: str) -> Completion | Failure:
    """A stored answer; a failure where it cannot be trusted."""
    try:
        return completion_from(orjson.loads(text))
    except CallError as error:
        return Failure(error.kind, error.status, error.reason)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """What SQLite says, as an error that names a way on."""
    try:
        yield
    except (sqlite3.Error, OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        said = str(error)
        raise _explanation(path, said) from None


def _explanation(path: Path, said: str) -> JudgeError:
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
