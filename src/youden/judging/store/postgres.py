"""Answers in a PostgreSQL database, for the processes of many machines.

Its tables stand in a schema of their own, `youden`, which a role without any special right owns. A batch is one
transaction, so that it is written whole or not at all; where its outcome is lost with the connection, it is sent again and counts
once.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from contextlib import nullcontext, suppress
from threading import RLock
from typing import Any

import psycopg
from psycopg import errors

from youden.errors import ConfigError, JudgeError
from youden.judging.call.secrets import keep_secret
from youden.judging.store.contract import TABLES, VERSION, PendingWrites, definition, other_form
from youden.judging.store.statements import How, Session, SqlPlace, T
from youden.judging.store.watchdog import DEADLINE, NoSignError, Silence, ending, max_wait
from youden.text.printable import shown, without_secret

Connection = psycopg.Connection[tuple[Any, ...]]

OLDEST = 130000

_SCHEMA = (
    "CREATE TABLE youden.version (version int NOT NULL)",
    *(f"CREATE TABLE youden.{name} {definition(name)}" for name in TABLES),
    "CREATE INDEX claims_owner ON youden.claims (owner)",
    "CREATE TABLE youden.writers (writer text PRIMARY KEY, n bigint NOT NULL)",
)

_ALIVE: dict[str, Any] = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
_TOO_LONG = (errors.QueryCanceled, errors.LockNotAvailable, errors.IdleInTransactionSessionTimeout)
_CONNECTING = 10
"""Seconds for a connection to be made."""
_BOUNDS = "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS t (name, value)"
_BOUNDED = {
    **dict.fromkeys(("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"), f"{DEADLINE:g}s"),
    **{f"tcp_{name}": str(seconds) for name, seconds in _ALIVE.items() if name != "keepalives"},
}
"""After a client's deadline, or while a process or its network stands still, the server ends what it began and lets others go
on."""
_DURABLE = "SELECT set_config(name, 'on', false) FROM pg_settings WHERE name = 'synchronous_commit' AND setting = 'off'"
"""Turn it on where a role, a database or a URL turned it off: a power cut of the server would lose the last commits."""
_WORDS = {
    "@": "youden.",
    "EACH": "json_array_elements_text(?::json) AS each (value)",
    "NOW": "extract(epoch FROM clock_timestamp())::float8",
    "LOCK": "FOR UPDATE",
    "?": "%s",
}
_IS_NEW = """
INSERT INTO @writers VALUES (?, ?) ON CONFLICT (writer) DO UPDATE SET n = excluded.n
WHERE writers.n < excluded.n RETURNING 1
"""


class _Bounded(Connection):
    """A connection that is closed where the server gives no sign for too long."""

    silence: Silence

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """As psycopg's. Raises: OperationalError, the connection closed, beyond the deadline."""
        try:
            return super().wait(self.silence.bounded(gen), *args, **options)
        except NoSignError:
            self.pgconn.finish()
            raise psycopg.OperationalError(f"it gave no sign for {DEADLINE:g} s") from None


class PostgresPlace(SqlPlace):
    """The database at `postgresql://…`; its tables are made where there are none, unless `read_only`.

    Raises: ConfigError [store-url], [store-missing], [store-form], [store-server-old]; JudgeError [store-away],
    [store-read-only], [store-full], [store-failed].
    """

    def __init__(self, place: str, *, read_only: bool = False) -> None:
        self.name = shown(place)
        self._place = place
        self._writer, self._n = uuid.uuid4().hex, 0
        self._lock = RLock()
        self._silence = Silence(self.name)
        self._gone: JudgeError | None = None
        try:
            self._silence.begin()
            self._connection = self._connected()
        except psycopg.OperationalError as error:
            raise self._away(error) from None
        except psycopg.ProgrammingError as error:
            raise ConfigError(
                f"{self.name} is no place of a PostgreSQL store: {self._said(error)}. Give postgresql://USER@HOST/DATABASE.",
                slug="store-url",
            ) from None
        try:
            self._at_last(lambda connection: self._prepare(connection, read_only=read_only))
        except BaseException:
            self._connection.close()
            raise

    def write(self, batch: PendingWrites) -> None:
        with self._lock:
            self._n += 1
            super().write(batch)

    def _is_new(self, db: Session) -> bool:
        return bool(db.rows(_IS_NEW, self._writer, self._n))

    def _only_one(self, db: Session, name: str) -> None:
        db.run("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", name)

    def _do(self, how: How, work: Callable[[Session], T]) -> T:
        def done(connection: Connection) -> T:
            with connection.transaction() if how == "transaction" else nullcontext():
                return work(Session(connection, _WORDS))

        return self._at_last(done)

    def close(self) -> None:
        try:
            if not self._connection.closed:
                self._connection.execute("DELETE FROM youden.writers WHERE writer = %s", (self._writer,))
        except psycopg.Error:
            pass
        finally:
            self._connection.close()

    def _at_last(self, work: Callable[[Connection], T]) -> T:
        """What `work` brings; again where the connection broke, the server took too long or two stood in each other's way.

        Raises: JudgeError; at once, where the server was away as the process was to end.
        """
        with self._lock:
            self._silence.begin()
            away = 0.0
            while self._gone is None:
                try:
                    if self._connection.closed:
                        self._connection = self._connected()
                    done = work(self._connection)
                except (errors.DeadlockDetected, errors.SerializationFailure):
                    continue
                except psycopg.OperationalError as error:
                    if not self._connection.closed and not isinstance(error, _TOO_LONG):
                        raise self._explained(error) from None
                    away = away or time.monotonic()
                    self._silence.look()
                    if time.monotonic() - away > max_wait():
                        if ending.is_set():
                            self._gone = self._away(error)
                        raise self._away(error) from None
                    time.sleep(0.25)
                except psycopg.Error as error:
                    raise self._explained(error) from None
                else:
                    self._silence.over()
                    return done
            raise self._gone

    def _connected(self) -> Connection:
        options: dict[str, Any] = {**_ALIVE, "application_name": "youden"}
        if os.name == "posix":
            options["tcp_user_timeout"] = 30_000
        with self._silence.watched():
            seconds = int(min(_CONNECTING, max_wait()))
            made = _Bounded.connect(self._place, autocommit=True, connect_timeout=seconds, **options)
        made.silence = self._silence
        keep_secret([made.info.password])
        made.execute(_BOUNDS.encode(), ([*_BOUNDED], [*_BOUNDED.values()]))
        made.execute(_DURABLE.encode())
        return made

    def _prepare(self, connection: Connection, *, read_only: bool) -> None:
        if connection.info.server_version < OLDEST:
            raise ConfigError(
                f"The PostgreSQL at {self.name} is older than version 13. Upgrade it, or give another store.",
                slug="store-server-old",
            )
        version = self._version(connection)
        if version is None and read_only:
            raise ConfigError(
                f"There is no store at {self.name}. Judge the plan first, or give its place.", slug="store-missing"
            )
        if version is None:
            self._make(connection)
            version = self._version(connection)
        if version != VERSION:
            raise other_form(self.name, version)
        if not read_only:
            self._check_rights(connection)

    def _version(self, connection: Connection) -> int | None:
        if connection.execute("SELECT to_regclass('youden.version')").fetchall()[0][0] is None:
            return None
        rows = connection.execute("SELECT version FROM youden.version").fetchall()
        return int(rows[0][0]) if rows else None

    def _make(self, connection: Connection) -> None:
        """Make the tables, unless another process does just now."""
        made_meanwhile = (errors.DuplicateTable, errors.DuplicateSchema, errors.UniqueViolation)
        with suppress(*made_meanwhile), connection.transaction():
            if connection.execute("SELECT to_regnamespace('youden')").fetchall()[0][0] is None:
                connection.execute("CREATE SCHEMA youden")
            for statement in _SCHEMA:
                connection.execute(statement.encode())
            connection.execute("INSERT INTO youden.version VALUES (%s)", (VERSION,))

    def _check_rights(self, connection: Connection) -> None:
        """Whether this role may write, before anything is asked."""
        query = (
            "SELECT current_setting('transaction_read_only') = 'off' AND "
            "bool_and(has_table_privilege('youden.' || name, 'SELECT, INSERT') "
            "AND has_table_privilege('youden.' || name, 'UPDATE') AND has_table_privilege('youden.' || name, 'DELETE')) "
            "FROM unnest(%s::text[]) AS t (name)"
        )
        if not connection.execute(query.encode(), ([*TABLES, "writers"],)).fetchall()[0][0]:
            raise self._read_only("this role or server only reads")

    def _away(self, error: psycopg.Error) -> JudgeError:
        return JudgeError(
            f"The store {self.name} cannot be reached: {self._said(error)}. Answers written so far are kept. Check the server, "
            "the address, the user and the password (or PGPASSWORD), then run the same again.",
            slug="store-away",
        )

    def _read_only(self, why: str) -> JudgeError:
        return JudgeError(
            f"The store {self.name} cannot be written ({why}). Let its owner GRANT the rights, or run as that role: "
            "CREATE SCHEMA youden AUTHORIZATION the_role gives a role without other rights a store of its own.",
            slug="store-read-only",
        )

    def _explained(self, error: psycopg.Error) -> JudgeError:
        said = self._said(error)
        if isinstance(error, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
            return self._read_only(said)
        if isinstance(error, errors.DiskFull):
            return JudgeError(
                f"The disk of the store {self.name} is full ({said}). All answers written so far are kept: make room and run "
                "the same.",
                slug="store-full",
            )
        return JudgeError(
            f"The store {self.name} fails ({said}). Look into the server's log, then run the same again.",
            slug="store-failed",
        )

    def _said(self, error: psycopg.Error) -> str:
        return without_secret(" ".join(str(error).split()) or type(error).__name__, self._place)
