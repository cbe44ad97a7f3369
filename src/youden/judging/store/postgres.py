"""Store answers in a PostgreSQL database, for processes on several machines.

The tables are in a separate schema, `youden`, which can belong to a role without special rights. Pending writes
are one transaction. If the connection is lost before a transaction is confirmed, the transaction is repeated. After a
long outage, the next write repeats it. A counter per writer ensures that it is stored only once.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from threading import RLock
from typing import Any

import psycopg
from psycopg import errors

from youden.errors import ConfigError, JudgeError
from youden.judging.call.secrets import register_secrets
from youden.judging.store.contract import TABLES, VERSION, PendingWrites, table_definition, version_error
from youden.judging.store.statements import Access, Session, SqlBackend, T
from youden.judging.store.watchdog import DEADLINE_SECONDS, UnresponsiveError, Watchdog, max_wait, shutdown_started
from youden.text.printable import mask_password, redact_location

Connection = psycopg.Connection[tuple[Any, ...]]

MIN_SERVER_VERSION = 130000

_SCHEMA = (
    "CREATE TABLE youden.version (version int NOT NULL)",
    *(f"CREATE TABLE youden.{name} {table_definition(name)}" for name in TABLES),
    "CREATE INDEX leases_owner ON youden.leases (owner)",
    "CREATE TABLE youden.writers (writer text PRIMARY KEY, n bigint NOT NULL)",
)

_KEEPALIVE: dict[str, Any] = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
_CONNECTION_OPTIONS: dict[str, Any] = {**_KEEPALIVE, "application_name": "youden"}
if os.name == "posix":
    _CONNECTION_OPTIONS["tcp_user_timeout"] = 30_000
_TIMEOUTS = (errors.QueryCanceled, errors.LockNotAvailable, errors.IdleInTransactionSessionTimeout)
_CONNECT_TIMEOUT_SECONDS = 10
_RECONNECT_SECONDS = 0.25
"""Time between two attempts to reach the server."""
_SET_LIMITS = "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS t (name, value)"
_LIMITS = {
    **dict.fromkeys(
        ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"), f"{DEADLINE_SECONDS:g}s"
    ),
    **{f"tcp_{name}": str(seconds) for name, seconds in _KEEPALIVE.items() if name != "keepalives"},
}
"""Settings with which the server ends the transaction of a client that is late, suspended or disconnected, so that its
locks do not block others."""
_SET_DURABLE = (
    "SELECT set_config(name, 'on', false) FROM pg_settings WHERE name = 'synchronous_commit' AND setting = 'off'"
)
"""Turn synchronous commits on if a role, a database or a URL turned them off: a power cut of the server would lose the
last commits."""
_DIALECT = {
    "@": "youden.",
    "EACH": "json_array_elements_text(?::json) AS each (value)",
    "NOW": "extract(epoch FROM clock_timestamp())::float8",
    "LOCK": "FOR UPDATE",
    "?": "%s",
}
_COUNT_WRITE = """
INSERT INTO @writers VALUES (?, ?) ON CONFLICT (writer) DO UPDATE SET n = excluded.n
WHERE writers.n < excluded.n RETURNING 1
"""
"""Returns a row only if the writer's transaction with this number was not committed before."""


class _WatchedConnection(Connection):
    """A connection that is closed if the server gives no sign of life until the deadline."""

    watchdog: Watchdog

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Wait for psycopg's generator. Raises: OperationalError after the deadline; the connection is closed then."""
        try:
            return super().wait(self.watchdog.with_deadline(gen), *args, **options)
        except UnresponsiveError:
            self.pgconn.finish()
            raise psycopg.OperationalError(f"it did not respond for {DEADLINE_SECONDS:g} s") from None


class PostgresBackend(SqlBackend):
    """The storage backend of a PostgreSQL database.

    Parameters
    ----------
    address : str
        URL, ``postgresql://…``.
    read_only : bool, default False
        Open an existing store for reading. By default the tables are created if they do not exist.

    Raises
    ------
    ConfigError
        [store-url] if the URL is not valid; [store-missing] if there is nothing to read; [store-version] if it has
        another version; [store-server-old] if the server is older than PostgreSQL 13.
    JudgeError
        [store-unreachable] if the server is unreachable; [store-read-only] if the role may not write; [store-full],
        [store-failed] if the server fails.
    """

    def __init__(self, address: str, *, read_only: bool = False) -> None:
        self.name = redact_location(address)
        self._address = address
        self._writer, self._n_writes = uuid.uuid4().hex, 0
        self._unconfirmed_writes: PendingWrites | None = None  # their transaction failed, but may have been committed
        self._lock = RLock()
        self._watchdog = Watchdog(self.name)
        # error of all later calls, once the server is unreachable at a shutdown
        self._shutdown_error: JudgeError | None = None
        try:
            self._watchdog.start_timer()
            self._connection = self._open_connection()
        except psycopg.OperationalError as error:
            raise self._make_unreachable_error(error) from None
        except psycopg.ProgrammingError as error:
            raise ConfigError(
                f"{self.name} is not the address of a PostgreSQL store: {self._format_error(error)}. Pass postgresql://USER@HOST/DATABASE.",
                slug="store-url",
            ) from None
        try:
            self._run_with_retries(lambda connection: self._check_and_create_tables(connection, read_only=read_only))
        except BaseException:
            self._connection.close()
            raise

    def write(self, writes: PendingWrites) -> None:
        """Write answers, failures and payments in one transaction, whose number ensures that it is stored only once.

        If the write fails, and this method is called again with the same object, the transaction keeps its number.
        """
        with self._lock:
            if writes is not self._unconfirmed_writes:
                self._n_writes += 1
                self._unconfirmed_writes = writes
            super().write(writes)
            self._unconfirmed_writes = None

    def _is_uncommitted(self, session: Session) -> bool:
        """Return whether this write has not been stored yet; a lost connection can hide that it was."""
        return bool(session.fetch_all(_COUNT_WRITE, self._writer, self._n_writes))

    def _lock_name(self, session: Session, name: str) -> None:
        """Lock a name until the end of the transaction, so that only one process changes its rows."""
        session.execute("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", name)

    def _run_in_session(self, access: Access, operation: Callable[[Session], T]) -> T:
        """Call a function that runs SQL statements, and call it again if the connection is lost.

        access : what the function does; a transaction is opened only for "transaction", because one statement needs none
        operation : function of a session, which may be called several times
        """

        def run_on_connection(connection: Connection) -> T:
            session = Session(connection, _DIALECT)
            if access != "transaction":
                return operation(session)
            with connection.transaction():
                return operation(session)

        return self._run_with_retries(run_on_connection)

    def close(self) -> None:
        """Delete this writer's row, which holds the number of its last write, if possible. Then close the connection."""
        try:
            if not self._connection.closed:
                self._connection.execute("DELETE FROM youden.writers WHERE writer = %s", (self._writer,))
        except psycopg.Error:
            pass  # a row that remains has no effect, because no other writer has its name
        finally:
            self._connection.close()

    def _run_with_retries(self, operation: Callable[[Connection], T]) -> T:
        """Call a function of the connection, and call it again after a deadlock, a timeout or a lost connection.

        A lost connection is opened again. If the process was asked to stop and the server is unreachable, all later calls of this
        method fail at once.

        operation : function of an open connection; it may be called several times

        Raises: JudgeError [store-unreachable] if the server is unreachable for `max_wait` seconds; other JudgeErrors if
        the server reports an error.
        """
        with self._lock:
            if self._shutdown_error is not None:
                raise self._shutdown_error
            self._watchdog.start_timer()
            result = self._repeat_until_done(operation)
            self._watchdog.record_answer()
            return result

    def _repeat_until_done(self, operation: Callable[[Connection], T]) -> T:
        """Call a function of the connection until the call is not interrupted by a deadlock, a timeout or a lost connection.

        operation : function of an open connection; it may be called several times

        Returns the result of the function.
        Raises: JudgeError if the server reports another error, or is unreachable for too long.
        """
        outage_start: float | None = None  # time of the first attempt that did not reach the server
        while True:
            try:
                if self._connection.closed:
                    self._connection = self._open_connection()
                return operation(self._connection)
            except (errors.DeadlockDetected, errors.SerializationFailure):
                continue
            except psycopg.Error as error:
                if not self._is_outage(error):
                    raise self._to_judge_error(error) from None
                if outage_start is None:
                    outage_start = time.monotonic()
                self._wait_for_next_attempt(outage_start, error)

    def _is_outage(self, error: psycopg.Error) -> bool:
        """Return whether an error shows that the server cannot be reached, or that it did not respond in time."""
        is_lost_or_late = self._connection.closed or isinstance(error, _TIMEOUTS)
        return isinstance(error, psycopg.OperationalError) and is_lost_or_late

    def _wait_for_next_attempt(self, outage_start: float, error: psycopg.Error) -> None:
        """Wait for `_RECONNECT_SECONDS` before the next attempt to reach the server, or fail if the outage is too long.

        outage_start : time of the first attempt that failed, in seconds of the monotonic clock
        error : error of the last attempt

        Raises: JudgeError [store-unreachable] if the outage has lasted for more than `max_wait` seconds. If the process was asked
        to stop, all later calls get the same error.
        """
        self._watchdog.warn_if_late()
        if time.monotonic() - outage_start > max_wait():
            unreachable_error = self._make_unreachable_error(error)
            if shutdown_started.is_set():
                self._shutdown_error = unreachable_error
            raise unreachable_error from None
        time.sleep(_RECONNECT_SECONDS)

    def _open_connection(self) -> Connection:
        """Open a connection to the PostgreSQL server of the store, and set it up for this process.

        - The server ends transactions of a client that is late or disconnected, because their locks block other processes.
        - The server writes commits to its disk before it confirms them.
        - A password in the address is registered as a secret, which messages do not show.

        Raises: psycopg.OperationalError if the server cannot be reached in time.
        """
        timeout_seconds = int(min(_CONNECT_TIMEOUT_SECONDS, max_wait()))
        with self._watchdog.warn_during():
            connection = _WatchedConnection.connect(
                self._address, autocommit=True, connect_timeout=timeout_seconds, **_CONNECTION_OPTIONS
            )
        connection.watchdog = self._watchdog
        register_secrets([connection.info.password])

        limit_names, limit_values = list(_LIMITS.keys()), list(_LIMITS.values())
        connection.execute(_SET_LIMITS.encode(), (limit_names, limit_values))
        connection.execute(_SET_DURABLE.encode())
        return connection

    def _check_and_create_tables(self, connection: Connection, *, read_only: bool) -> None:
        """Check that this version of youden can use the store in the database, and create the tables of a new store.

        read_only : whether the store is only read; it must then exist, and the database role needs no right to write

        Raises: ConfigError [store-server-old] if the server is older than version 13, [store-missing] if there is no store to
        read, [store-version] if another version of youden wrote the store; JudgeError [store-read-only] if the role may not
        write.
        """
        if connection.info.server_version < MIN_SERVER_VERSION:
            raise ConfigError(
                f"The PostgreSQL server of {self.name} is older than version 13. Upgrade it, or pass another store.",
                slug="store-server-old",
            )

        version = self._read_version(connection)
        if version is None and read_only:
            raise ConfigError(
                f"There is no store at {self.name}. Judge the plan first, or pass the address of a store.",
                slug="store-missing",
            )
        if version is None:
            self._create_tables(connection)
            version = self._read_version(connection)
        if version != VERSION:
            raise version_error(self.name, version)
        if not read_only:
            self._check_rights(connection)

    def _read_version(self, connection: Connection) -> int | None:
        """Return the version of the store; None if the database contains no store."""
        if connection.execute("SELECT to_regclass('youden.version')").fetchall()[0][0] is None:
            return None
        rows = connection.execute("SELECT version FROM youden.version").fetchall()
        return int(rows[0][0]) if rows else None

    def _create_tables(self, connection: Connection) -> None:
        """Create the tables, unless another process is creating them."""
        created_meanwhile = (errors.DuplicateTable, errors.DuplicateSchema, errors.UniqueViolation)
        with suppress(*created_meanwhile), connection.transaction():
            if connection.execute("SELECT to_regnamespace('youden')").fetchall()[0][0] is None:
                connection.execute("CREATE SCHEMA youden")
            for statement in _SCHEMA:
                connection.execute(statement.encode())
            connection.execute("INSERT INTO youden.version VALUES (%s)", (VERSION,))

    def _check_rights(self, connection: Connection) -> None:
        """Check that the role may write, before any request is sent. Raises: JudgeError [store-read-only]."""
        query = (
            "SELECT current_setting('transaction_read_only') = 'off' AND "
            "bool_and(has_table_privilege('youden.' || name, 'SELECT, INSERT') "
            "AND has_table_privilege('youden.' || name, 'UPDATE') AND has_table_privilege('youden.' || name, 'DELETE')) "
            "FROM unnest(%s::text[]) AS t (name)"
        )
        if not connection.execute(query.encode(), ([*TABLES, "writers"],)).fetchall()[0][0]:
            raise self._make_read_only_error("the role or the server is read-only")

    def _make_unreachable_error(self, error: psycopg.Error) -> JudgeError:
        """Return the error that the server of the store cannot be reached."""
        return JudgeError(
            f"The store {self.name} cannot be reached: {self._format_error(error)}. All answers written so far are stored. "
            "Check the server, the address, the user and the password (or PGPASSWORD), then run the same command again.",
            slug="store-unreachable",
        )

    def _make_read_only_error(self, reason: str) -> JudgeError:
        """Return the error that the user may not write to the store."""
        return JudgeError(
            f"The store {self.name} cannot be written ({reason}). Let its owner GRANT the rights, or run as the owner. "
            "CREATE SCHEMA youden AUTHORIZATION the_role gives a role without other rights its own store.",
            slug="store-read-only",
        )

    def _to_judge_error(self, error: psycopg.Error) -> JudgeError:
        """Convert an error that the server reported: missing rights, a full disk, or another failure."""
        description = self._format_error(error)
        if isinstance(error, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
            return self._make_read_only_error(description)
        if isinstance(error, errors.DiskFull):
            return JudgeError(
                f"The disk of the store {self.name} is full ({description}). All answers written so far are stored. Free "
                "disk space, then run the same command again.",
                slug="store-full",
            )
        return JudgeError(
            f"The store {self.name} fails ({description}). Check the server's log, then run the same command again.",
            slug="store-failed",
        )

    def _format_error(self, error: psycopg.Error) -> str:
        """Return the message of an error in one line, without the password."""
        return mask_password(" ".join(str(error).split()) or type(error).__name__, self._address)
