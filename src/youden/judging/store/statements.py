"""SQL statements of a store, each written once for SQLite and PostgreSQL, which differ in a few expressions.

In a statement, `@` is the prefix of a table, `?` is a value, NOW is the current time of the store in seconds, EACH is a
table whose column `value` has the elements of a JSON array, and LOCK is a clause that makes other transactions wait for
the selected rows. Each database supplies its own text for them, its transactions and its error messages.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import astuple
from itertools import chain
from typing import Any, Literal, TypeVar

import orjson

from youden.judging.store.contract import (
    Change,
    CopiedTable,
    FailureRow,
    Member,
    Payment,
    PendingWrites,
    Row,
    column_names,
    primary_key,
)

T = TypeVar("T")
Access = Literal["read", "lease", "write", "transaction"]
"""Access of a function to a database: it reads, changes leases, writes with one statement, or writes with several.

Leases need not survive a power cut, which ends their holders too.
"""

_SELECT_OUTCOMES = """
SELECT key, completion, NULL, NULL FROM @answers WHERE key IN (SELECT value FROM EACH)
UNION ALL SELECT key, kind, status, reason FROM @failures WHERE key IN (SELECT value FROM EACH)
"""
_UPSERT_FAILURE = """
INSERT INTO @failures VALUES (?, ?, ?, ?, NOW) ON CONFLICT (key) DO UPDATE SET kind = excluded.kind,
  status = excluded.status, reason = excluded.reason, created = excluded.created
"""
_ADD_PAYMENT = """
INSERT INTO @costs VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (payer, key) DO UPDATE SET usd = costs.usd + excluded.usd,
  tokens_in = costs.tokens_in + excluded.tokens_in, tokens_out = costs.tokens_out + excluded.tokens_out,
  seconds = costs.seconds + excluded.seconds
"""
_ACQUIRE_LEASES = """
INSERT INTO @leases SELECT value, ?, NOW + ? FROM EACH WHERE true ORDER BY value
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, expires = excluded.expires
WHERE leases.owner = excluded.owner OR leases.owner IN (SELECT value FROM EACH)
RETURNING key
"""
_RELEASE_LEASES = "DELETE FROM @leases WHERE key IN (SELECT key FROM @leases WHERE {} ORDER BY key LOCK)"


_ROWS_PER_STATEMENT = 500
"""Rows that are inserted by one statement: databases limit the number of values of a statement."""


class Session:
    """Runs statements on one connection.

    Parameters
    ----------
    connection : object
        DB-API connection with an `execute` method.
    dialect : mapping of str to str
        Text that replaces each placeholder of a statement.
    """

    def __init__(self, connection: Any, dialect: Mapping[str, str]) -> None:
        self._connection = connection
        self._dialect = dialect

    def fetch_all(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""
        return list(self._connection.execute(self._translate(sql), values).fetchall())

    def execute(self, sql: str, *values: object) -> int:
        """Run a statement and return the number of rows that it changed."""
        return int(self._connection.execute(self._translate(sql), values).rowcount)

    def insert_many(self, sql: str, rows: Iterable[Sequence[object]]) -> int:
        """Insert many rows, as a part of the current transaction.

        Each statement inserts many rows. With one statement per row, a server could keep its locks for a long time after
        the connection is lost.

        Parameters
        ----------
        sql : str
            INSERT statement for one row, with `?` for each value. It contains `VALUES (…)` once, without other parentheses
            inside. A clause may follow, for example ON CONFLICT.
        rows : iterable of sequence
            Values of the rows, which differ in their primary keys.

        Returns
        -------
        int
            Number of rows inserted or changed.
        """
        all_rows = list(rows)
        head, row_placeholders, tail = re.split(r"VALUES (\([^)]*\))", sql)
        n_changed = 0
        for start in range(0, len(all_rows), _ROWS_PER_STATEMENT):
            chunk = all_rows[start : start + _ROWS_PER_STATEMENT]
            placeholders = ", ".join([row_placeholders] * len(chunk))
            values = chain.from_iterable(chunk)
            n_changed += self.execute(f"{head}VALUES {placeholders}{tail}", *values)
        return n_changed

    def _translate(self, sql: str) -> str:
        """Replace the placeholders of a statement by the text of the database's dialect."""
        for placeholder, replacement in self._dialect.items():
            sql = sql.replace(placeholder, replacement)
        return sql


class SqlBackend:
    """Base class of the storage backends in SQL. The methods of the contract are described in `contract.StorageBackend`."""

    @abstractmethod
    def _run_in_session(self, access: Access, operation: Callable[[Session], T]) -> T:
        """Call a function of a session and return its result.

        access : whether the function only reads, writes by one statement or in a transaction, or changes only leases
        operation : the function, which may be called again if the connection is lost before its result is known
        """

    def _is_uncommitted(self, _: Session) -> bool:
        """Return whether these writes are new: False if an earlier attempt, whose result was lost, committed them."""
        return True

    def _lock_name(self, _: Session, __: str) -> None:
        """Make other transactions that lock this name wait for the end of this one."""

    def count(self) -> int:
        """Return the number of stored answers."""
        return int(self._fetch_rows("SELECT count(*) FROM @answers")[0][0])

    def find_outcomes(self, keys: Sequence[str]) -> tuple[list[tuple[str, str]], list[FailureRow]]:
        """Read the stored answers and failures of requests, given by their hashes.

        Returns two lists: pairs of request hash and answer, as JSON; and rows of the table of failures (request hash, kind,
        HTTP status or None, reason).
        """
        answers: list[tuple[str, str]] = []
        failures: list[FailureRow] = []
        keys_json = _to_json(keys)
        # the query selects first answers and then failures, each by the hashes; the last two columns are NULL for an answer
        for key, completion_or_kind, status, reason in self._fetch_rows(_SELECT_OUTCOMES, keys_json, keys_json):
            is_answer = reason is None
            if is_answer:
                answers.append((key, completion_or_kind))
            else:
                failures.append((key, completion_or_kind, status, reason))
        return answers, failures

    def write(self, writes: PendingWrites) -> None:
        """Write answers, failures and payments in one transaction."""
        self._run_in_session("transaction", lambda session: self._write_in_session(session, writes))

    def _write_in_session(self, session: Session, writes: PendingWrites) -> None:
        """Write outcomes, payments and records of batches, and release the leases on the requests that have an outcome now.

        This method may be called again after the connection was lost. If the earlier call was committed nevertheless,
        nothing is written.

        session : runs the statements, in one transaction
        writes : what to write
        """
        if not self._is_uncommitted(session):
            return
        _write_answers(session, writes)
        if writes.failures:
            _write_failures(session, writes)
        _release_leases_on_requests(session, [*writes.answers, *writes.failures])

        payments = sorted(writes.payments.items())
        payment_rows = [_make_payment_row(account, key, payment) for (account, key), payment in payments]
        session.insert_many(_ADD_PAYMENT, payment_rows)
        if writes.settled:
            _replace_batches(session, writes.settled)

    def paid(self, account: str) -> dict[str, Payment]:
        """Return the payments of an account by the hash of the request."""
        rows = self._fetch_rows("SELECT key, usd, tokens_in, tokens_out, seconds FROM @costs WHERE payer = ?", account)
        payments = {}
        for key, usd, tokens_in, tokens_out, seconds in rows:
            usd_or_nan = math.nan if usd is None else usd  # NULL: a price is unknown
            payments[key] = Payment(usd_or_nan, tokens_in, tokens_out, seconds)
        return payments

    def acquire_leases(self, keys: Sequence[str], owner: str, *, seconds: float, gone: Collection[str]) -> set[str]:
        """Acquire leases on requests for an owner, and return the hashes of the requests that no other owner has leased."""
        values = owner, seconds, _to_json(sorted(set(keys))), _to_json(gone)
        rows = self._run_in_session("lease", lambda session: session.fetch_all(_ACQUIRE_LEASES, *values))
        return {key for (key,) in rows}

    def owners(self) -> dict[str, float]:
        """Return the time at which the last lease of each owner expires, by owner."""
        return dict(self._fetch_rows("SELECT owner, max(expires) FROM @leases GROUP BY owner"))

    def renew(self, owner: str, *, seconds: float) -> None:
        """Extend all leases of an owner to the given number of seconds from now."""
        self._change_leases("UPDATE @leases SET expires = NOW + ? WHERE owner = ?", seconds, owner)

    def release(self, owner: str, keys: Collection[str] | None) -> None:
        """End the leases of an owner on some requests; None for all."""
        if keys is None:
            self._change_leases(_RELEASE_LEASES.format("owner = ?"), owner)
        else:
            where = "owner = ? AND key IN (SELECT value FROM EACH)"
            self._change_leases(_RELEASE_LEASES.format(where), owner, _to_json(keys))

    def read_members(self, run: str) -> tuple[float, Sequence[Member]]:
        """Read the current time and the workers of a run."""
        return self._run_in_session("read", lambda session: _select_members(session, run))

    def read_all_members(self) -> tuple[float, Mapping[str, Sequence[Member]]]:
        """Read the current time, and the workers of each run by the name of the run."""
        return self._run_in_session("read", _select_all_members)

    def replace_members(self, run: str, change: Change) -> Sequence[Member]:
        """Replace the workers of a run by the result of `change`, and return the new ones.

        `change` gets the time of the database and the workers, none for a new run. It may be called again if the
        connection is lost.
        """
        return self._run_in_session(
            "transaction", lambda session: self._replace_members_in_session(session, run, change)
        )

    def _replace_members_in_session(self, session: Session, run: str, change: Change) -> Sequence[Member]:
        """Replace the workers of a run by the result of `change`, and return the new ones."""
        self._lock_name(session, run)
        members = change(*_select_members(session, run))
        session.execute("DELETE FROM @workers WHERE run = ?", run)
        session.insert_many(_insert_statement("workers"), [(run, *astuple(member)) for member in members])
        return members

    def rows(self, table: CopiedTable, after: Row | None, *, n: int) -> list[Row]:
        """Return the next rows of a table, in the order of the primary key. A row has the values of all columns.

        table : name of a table of the store
        after : last row of the previous call; None for the first rows
        n : largest number of rows

        Returns fewer than `n` rows at the end of the table, and an empty list if there are no more.

        Raises: JudgeError if the backend fails.
        """
        columns = ", ".join(column_names(table))
        key_columns = primary_key(table)  # the names of the first columns, separated by commas
        if after is None:
            return self._fetch_rows(f"SELECT {columns} FROM @{table} ORDER BY {key_columns} LIMIT ?", n)

        n_key_columns = len(key_columns.split(", "))
        last_key = after[:n_key_columns]
        placeholders = ", ".join("?" * n_key_columns)
        query = (
            f"SELECT {columns} FROM @{table} WHERE ({key_columns}) > ({placeholders}) ORDER BY {key_columns} LIMIT ?"
        )
        return self._fetch_rows(query, *last_key, n)

    def put_rows(self, table: CopiedTable, rows: Iterable[Row]) -> int:
        """Add rows to a table; return the number of rows that were not there."""
        new = list(rows)
        return self._run_in_session("transaction", lambda session: session.insert_many(_insert_statement(table), new))

    def set_batch_ids(self, number: str, *, file: str | None, batch: str | None) -> bool:
        """Set the provider's ids of a file and its batch in their record; return False if there is no record."""
        return self._execute("UPDATE @batches SET file = ?, batch = ? WHERE id = ?", file, batch, number) > 0

    def delete_batch(self, number: str) -> None:
        """Delete the record of a batch."""
        self._execute("DELETE FROM @batches WHERE id = ?", number)

    def batches(self) -> list[str]:
        """Return the numbers of all recorded batches in order."""
        return [number for (number,) in self._fetch_rows("SELECT id FROM @batches ORDER BY id")]

    def _fetch_rows(self, sql: str, *values: object) -> list[Any]:
        """Read the rows that a query returns for the given values."""
        return self._run_in_session("read", lambda session: session.fetch_all(sql, *values))

    def _change_leases(self, sql: str, *values: object) -> None:
        """Run a statement that changes only leases."""
        self._run_in_session("lease", lambda session: session.execute(sql, *values))

    def _execute(self, sql: str, *values: object) -> int:
        """Run a statement that changes the database; return the number of changed rows."""
        return self._run_in_session("write", lambda session: session.execute(sql, *values))


def _write_answers(session: Session, writes: PendingWrites) -> None:
    """Write answers. They replace stored failures, but stored answers only if the requests were repeated (`again`)."""
    if writes.again:
        repeated_keys = _to_json(writes.again & writes.answers.keys())
        session.execute("DELETE FROM @answers WHERE key IN (SELECT value FROM EACH)", repeated_keys)
    insert_answer = "INSERT INTO @answers (key, completion, created) VALUES (?, ?, NOW) ON CONFLICT DO NOTHING"
    session.insert_many(insert_answer, sorted(writes.answers.items()))
    session.execute("DELETE FROM @failures WHERE key IN (SELECT value FROM EACH)", _to_json(writes.answers))


def _release_leases_on_requests(session: Session, keys: Collection[str]) -> None:
    """Release the leases on requests, whichever process has them. keys: request hashes."""
    statement = _RELEASE_LEASES.format("key IN (SELECT value FROM EACH)")
    session.execute(statement, _to_json(keys))


def _replace_batches(session: Session, settled: Mapping[str, Row | None]) -> None:
    """Delete the records of batches whose results are written, or replace them by records of the remaining requests."""
    session.execute("DELETE FROM @batches WHERE id IN (SELECT value FROM EACH)", _to_json(settled))
    replacements = [row for row in settled.values() if row is not None]
    session.insert_many(_insert_statement("batches"), replacements)


def _write_failures(session: Session, writes: PendingWrites) -> None:
    """Write the failures of requests that have no answer. They replace stored failures."""
    query = "SELECT key FROM @answers WHERE key IN (SELECT value FROM EACH)"
    answered_keys = {key for (key,) in session.fetch_all(query, _to_json(writes.failures))}
    new_rows = [row for key, row in sorted(writes.failures.items()) if key not in answered_keys]
    session.insert_many(_UPSERT_FAILURE, new_rows)


def _make_payment_row(account: str, key: str, payment: Payment) -> tuple[object, ...]:
    """Return the values of a row of `costs`, in which an unknown cost is NULL."""
    usd = None if math.isnan(payment.usd) else payment.usd
    return account, key, usd, payment.tokens_in, payment.tokens_out, payment.seconds


def _select_members(session: Session, run: str) -> tuple[float, Sequence[Member]]:
    """Return the current time and the workers of a run."""
    rows = session.fetch_all("SELECT * FROM @workers WHERE run = ?", run)
    now = session.fetch_all("SELECT NOW")[0][0]
    return now, [Member(*values) for _, *values in rows]


def _select_all_members(session: Session) -> tuple[float, Mapping[str, Sequence[Member]]]:
    """Return the current time, and the workers of each run by the name of the run."""
    members: defaultdict[str, list[Member]] = defaultdict(list)
    for run, *values in session.fetch_all("SELECT * FROM @workers"):
        members[run].append(Member(*values))
    return session.fetch_all("SELECT NOW")[0][0], members


def _insert_statement(table: str) -> str:
    """Return the statement that inserts a row into a table, unless its primary key exists."""
    names = column_names(table)
    placeholders = ", ".join("?" * len(names))
    return f"INSERT INTO @{table} ({', '.join(names)}) VALUES ({placeholders}) ON CONFLICT DO NOTHING"


def _to_json(values: Collection[str]) -> str:
    """Encode texts as a JSON list, which the statements expand to rows."""
    return orjson.dumps(list(values)).decode()
