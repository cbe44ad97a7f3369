"""Answers in a PostgreSQL database, for the processes of many machines.

Its tables stand in a schema of their own, `youden`, which a role without any special right owns. A batch is one statement, so
that it is written whole or not at all; where its outcome is lost with the connection, it is sent again and counts once.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import astuple
from threading import RLock
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from youden.errors import ConfigError, JudgeError
from youden.judging.call.secrets import keep_secret
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
from youden.judging.store.silence import DEADLINE, NoSignError, Silence, ending, patience
from youden.text.printable import shown, without_secret

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

OLDEST = 130000

_SCHEMA = (
    "CREATE TABLE youden.version (version int NOT NULL)",
    *(f"CREATE TABLE youden.{name} {definition(name)}" for name in TABLES),
    "ALTER TABLE youden.answers ADD COLUMN written xid8 NOT NULL DEFAULT pg_current_xact_id()",
    "CREATE INDEX answers_written ON youden.answers (written)",
    "CREATE INDEX claims_owner ON youden.claims (owner)",
    "CREATE TABLE youden.writers (writer text PRIMARY KEY, n bigint NOT NULL)",
)

_ALIVE: dict[str, Any] = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
_TOO_LONG = (errors.QueryCanceled, errors.LockNotAvailable, errors.IdleInTransactionSessionTimeout)
_CONNECTING = 10
"""Seconds for a connection to be made."""
_BOUNDS = "SELECT set_config(name, %s, false) FROM unnest(%s::text[]) AS t (name)"
_BOUNDED = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"]
"""After a client's deadline, or while a process stands still, the server ends what it began and lets others go on."""
_NOW = "extract(epoch FROM clock_timestamp())::float8"

_KNOWN = """
SELECT key, completion, NULL, NULL FROM youden.answers WHERE key = ANY(%(keys)s)
UNION ALL SELECT key, kind, status, reason FROM youden.failures WHERE key = ANY(%(keys)s)
"""
_SINCE = """
WITH seen AS (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS until)
SELECT seen.until::text, key, completion FROM seen
LEFT JOIN youden.answers ON written >= %s::text::xid8 AND written < seen.until ORDER BY written
"""
_WRITE = f"""
WITH once AS (
  INSERT INTO youden.writers VALUES (%(writer)s, %(n)s) ON CONFLICT (writer) DO UPDATE SET n = excluded.n
  WHERE youden.writers.n < excluded.n RETURNING 1),
fresh AS (
  INSERT INTO youden.answers (key, completion, created)
  SELECT *, {_NOW} FROM unnest(%(keys)s::text[], %(texts)s::text[])
  ON CONFLICT (key) DO UPDATE SET completion = excluded.completion, created = excluded.created,
  written = pg_current_xact_id() WHERE excluded.key = ANY(%(again)s) RETURNING key),
forgotten AS (DELETE FROM youden.failures WHERE key = ANY(%(keys)s)),
failed AS (
  INSERT INTO youden.failures SELECT f.*, {_NOW}
  FROM unnest(%(failed)s::text[], %(kinds)s::text[], %(statuses)s::int[], %(reasons)s::text[]) AS f (key, kind, status, reason)
  WHERE f.key = ANY(%(again)s) OR NOT EXISTS (SELECT FROM youden.answers a WHERE a.key = f.key)
  ON CONFLICT (key) DO UPDATE SET kind = excluded.kind, status = excluded.status, reason = excluded.reason,
  created = excluded.created),
freed AS (
  DELETE FROM youden.claims WHERE key IN
  (SELECT key FROM youden.claims WHERE key = ANY(%(keys)s) OR key = ANY(%(failed)s) ORDER BY key FOR UPDATE)),
booked AS (
  INSERT INTO youden.paid
  SELECT * FROM unnest(%(payers)s::text[], %(bought)s::text[], %(usd)s::float8[], %(ins)s::bigint[], %(outs)s::bigint[],
  %(seconds)s::float8[]) WHERE EXISTS (SELECT FROM once)
  ON CONFLICT (payer, key) DO UPDATE SET usd = paid.usd + excluded.usd, tokens_in = paid.tokens_in + excluded.tokens_in,
  tokens_out = paid.tokens_out + excluded.tokens_out, seconds = paid.seconds + excluded.seconds),
settled AS (DELETE FROM youden.batches WHERE id = ANY(%(settled)s)),
noted AS (
  INSERT INTO youden.batches
  SELECT * FROM unnest(%(batch_id)s::text[], %(batch_address)s::text[], %(batch_model)s::text[], %(batch_usd)s::float8[],
  %(batch_file)s::text[], %(batch_batch)s::text[], %(batch_keys)s::text[], %(batch_created)s::float8[])
  WHERE EXISTS (SELECT FROM once) ON CONFLICT DO NOTHING)
SELECT key FROM fresh
"""
_TAKE = f"""
INSERT INTO youden.claims SELECT key, %(owner)s, {_NOW} + %(seconds)s FROM unnest(%(keys)s::text[]) AS k (key) ORDER BY key
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, expires = excluded.expires
WHERE claims.owner = excluded.owner OR claims.owner = ANY(%(gone)s) RETURNING key
"""
_RELEASE = """
DELETE FROM youden.claims WHERE key IN
(SELECT key FROM youden.claims WHERE owner = %s AND (%s::text[] IS NULL OR key = ANY(%s)) ORDER BY key FOR UPDATE)
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


class PostgresPlace:
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
            self._do(lambda connection: self._prepare(connection, read_only=read_only))
        except BaseException:
            self._connection.close()
            raise

    def count(self) -> int:
        return int(self._rows("SELECT count(*) FROM youden.answers")[0][0])

    def known(self, keys: Sequence[str]) -> tuple[list[tuple[str, str]], list[FailureRow]]:
        rows = self._rows(_KNOWN, {"keys": list(keys)})
        answers = [(key, text) for key, text, _, reason in rows if reason is None]
        return answers, [(key, kind, status, reason) for key, kind, status, reason in rows if reason is not None]

    def since(self, mark: int) -> tuple[int, list[tuple[str, str]]]:
        """What a transaction wrote that was over when every one before it was: none of those can commit anything later."""
        rows = self._rows(_SINCE, (str(mark),))
        return max(mark, int(rows[0][0])), [(key, text) for _, key, text in rows if key is not None]

    def write(self, batch: Batch) -> None:
        again = set(batch.again)
        answers = dict(sorted(batch.answers))
        failures = sorted(batch.failures)
        payments = sorted(batch.payments, key=lambda row: row[:2])
        self._n += 1
        values: dict[str, object] = {"writer": self._writer, "n": self._n, "again": list(again)}
        values |= {"keys": list(answers), "texts": list(answers.values())}
        values |= _columns(("failed", "kinds", "statuses", "reasons"), failures)
        values |= _columns(("payers", "bought", "usd", "ins", "outs", "seconds"), payments)
        values |= {"settled": [number for number, _ in batch.settled]}
        values |= _columns([f"batch_{name}" for name in names_of("batches")], [row for _, row in batch.settled if row])
        self._run(_WRITE, values)

    def paid(self, payer: str) -> list[tuple[str, float | None, int, int, float]]:
        query = "SELECT key, usd, tokens_in, tokens_out, seconds FROM youden.paid WHERE payer = %s"
        return [(key, usd, n_in, n_out, s) for key, usd, n_in, n_out, s in self._rows(query, (payer,))]

    def take(self, keys: Sequence[str], owner: str, *, seconds: float, gone: Collection[str]) -> set[str]:
        values = {"keys": sorted(set(keys)), "owner": owner, "seconds": seconds, "gone": list(gone)}
        return {key for (key,) in self._rows(_TAKE, values)}

    def owners(self) -> dict[str, float]:
        return dict(self._rows("SELECT owner, max(expires) FROM youden.claims GROUP BY owner"))

    def renew(self, owner: str, *, seconds: float) -> None:
        self._run(f"UPDATE youden.claims SET expires = {_NOW} + %s WHERE owner = %s", (seconds, owner))

    def release(self, owner: str, keys: Collection[str] | None) -> None:
        wanted = None if keys is None else list(keys)
        self._run(_RELEASE, (owner, wanted, wanted))

    def members(self, run: str, change: Change) -> Sequence[Member]:
        def changed(connection: Connection) -> Sequence[Member]:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (run,))
                now = connection.execute(f"SELECT {_NOW}".encode()).fetchall()[0][0]
                found = connection.execute("SELECT * FROM youden.members WHERE run = %s", (run,)).fetchall()
                made = change(now, [Member(*rest) for _, *rest in found])
                connection.execute("DELETE FROM youden.members WHERE run = %s", (run,))
                rows = [(run, *astuple(one)) for one in made]
                connection.execute(_insert("members").encode(), _columns(names_of("members"), rows))
                return made

        return self._do(changed)

    def rows(self, kept: Kept, after: Row | None, *, n: int) -> list[Row]:
        name = key_of_row(kept)
        values = (after or ())[: name.count(",") + 1]
        where = f"WHERE ({name}) > ({', '.join(['%s'] * len(values))})" if values else ""
        query = f"SELECT {', '.join(names_of(kept))} FROM youden.{kept} {where} ORDER BY {name} LIMIT %s"
        return self._rows(query, (*values, n))

    def put_rows(self, kept: Kept, rows: Iterable[Row]) -> int:
        query = f"{_insert(kept)} ON CONFLICT DO NOTHING RETURNING 1"
        return len(self._rows(query, _columns(names_of(kept), list(rows))))

    def note_batch(self, number: str, *, file: str | None, batch: str | None) -> bool:
        changed = "UPDATE youden.batches SET file = %s, batch = %s WHERE id = %s RETURNING 1"
        return bool(self._rows(changed, (file, batch, number)))

    def forget_batch(self, number: str) -> None:
        self._run("DELETE FROM youden.batches WHERE id = %s", (number,))

    def batches(self) -> list[str]:
        return [number for (number,) in self._rows("SELECT id FROM youden.batches ORDER BY id")]

    def close(self) -> None:
        try:
            if not self._connection.closed:
                self._connection.execute("DELETE FROM youden.writers WHERE writer = %s", (self._writer,))
        except psycopg.Error:
            pass
        finally:
            self._connection.close()

    def _rows(self, query: str, values: Any = None) -> list[tuple[Any, ...]]:
        return self._do(lambda connection: connection.execute(query.encode(), values).fetchall())

    def _run(self, query: str, values: Any = None) -> None:
        self._do(lambda connection: connection.execute(query.encode(), values))

    def _do(self, work: Callable[[Connection], T]) -> T:
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
                    if time.monotonic() - away > patience():
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
            seconds = int(min(_CONNECTING, patience()))
            made = _Bounded.connect(self._place, autocommit=True, connect_timeout=seconds, **options)
        made.silence = self._silence
        keep_secret([made.info.password])
        made.execute(_BOUNDS.encode(), (f"{DEADLINE:g}s", _BOUNDED))
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


def _columns(names: Sequence[str], rows: Sequence[Sequence[object]]) -> dict[str, object]:
    """The rows as one list a column, as `unnest` takes them."""
    return {name: [row[n] for row in rows] for n, name in enumerate(names)}


def _insert(table: str) -> str:
    """SQL that inserts rows given as one list a column."""
    arrays = ", ".join(
        f"%({name})s::{type_}[]" for name, type_ in (str(column).split()[:2] for column in TABLES[table][1:])
    )
    return f"INSERT INTO youden.{table} ({', '.join(names_of(table))}) SELECT * FROM unnest({arrays})"
