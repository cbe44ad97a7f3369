"""The statements of a store that is kept in SQL, each written once: SQLite and PostgreSQL differ in a few words.

In a text `@` stands before a table, `?` for a value, NOW for the seconds by the store's clock, EACH for a table whose column
`value` has what a JSON array holds, and LOCK for what makes others wait for the rows that are read. A database has its own
words for them. What it says of a failure and how it begins a transaction is its own too.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import astuple
from itertools import chain
from operator import itemgetter
from typing import Any, Literal, TypeVar

import orjson

from youden.judging.store.contract import (
    Change,
    FailureRow,
    Kept,
    Member,
    Payment,
    PendingWrites,
    Row,
    key_of_row,
    names_of,
)

T = TypeVar("T")
How = Literal["read", "write", "transaction"]
"""What is done to a database: it is read, or one statement or several write to it, which count together or not at all."""

_KNOWN = """
SELECT key, completion, NULL, NULL FROM @answers WHERE key IN (SELECT value FROM EACH)
UNION ALL SELECT key, kind, status, reason FROM @failures WHERE key IN (SELECT value FROM EACH)
"""
_FAIL = """
INSERT INTO @failures VALUES (?, ?, ?, ?, NOW) ON CONFLICT (key) DO UPDATE SET kind = excluded.kind,
  status = excluded.status, reason = excluded.reason, created = excluded.created
"""
_PAY = """
INSERT INTO @paid VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (payer, key) DO UPDATE SET usd = paid.usd + excluded.usd,
  tokens_in = paid.tokens_in + excluded.tokens_in, tokens_out = paid.tokens_out + excluded.tokens_out,
  seconds = paid.seconds + excluded.seconds
"""
_TAKE = """
INSERT INTO @claims SELECT value, ?, NOW + ? FROM EACH WHERE true ORDER BY value
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, expires = excluded.expires
WHERE claims.owner = excluded.owner OR claims.owner IN (SELECT value FROM EACH)
RETURNING key
"""
_FREE = "DELETE FROM @claims WHERE key IN (SELECT key FROM @claims WHERE {} ORDER BY key LOCK)"


_ROWS = 500
"""Rows a statement, so that their values stay below what a statement may have."""


class Session:
    """One connection, in the words of its database."""

    def __init__(self, connection: Any, words: Mapping[str, str]) -> None:
        self._connection = connection
        self._words = words

    def rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """What a statement brings."""
        return list(self._connection.execute(self._said(text), values).fetchall())

    def run(self, text: str, *values: object) -> int:
        """How many rows a statement changed."""
        return int(self._connection.execute(self._said(text), values).rowcount)

    def many(self, text: str, rows: Iterable[Sequence[object]]) -> int:
        """How many rows were changed by an INSERT of `rows`, which differ in what they are found by; text: for one of them.

        Each statement takes many rows. Were they sent one after the other without waiting, a server that the rest does not reach
        would hold their locks without end: none of its limits of time ends it before it has heard the last.
        """
        rows, changed = list(rows), 0
        head, values, tail = re.split(r"VALUES (\([^)]*\))", text)
        for start in range(0, len(rows), _ROWS):
            some = rows[start : start + _ROWS]
            said = f"{head}VALUES {', '.join([values] * len(some))}{tail}"
            changed += self.run(said, *chain.from_iterable(some))
        return changed

    def _said(self, text: str) -> str:
        for word, own in self._words.items():
            text = text.replace(word, own)
        return text


class SqlPlace:
    """What both databases do alike; see `contract.Place` for what each method means."""

    @abstractmethod
    def _do(self, how: How, work: Callable[[Session], T]) -> T:
        """What `work` brings, which may be called again where its first outcome was lost."""

    def _is_new(self, _: Session) -> bool:
        """Whether what this transaction writes was not written by one whose outcome was lost."""
        return True

    def _only_one(self, _: Session, __: str) -> None:
        """Let nobody else change what has this name before this transaction ends."""

    def count(self) -> int:
        return int(self._rows("SELECT count(*) FROM @answers")[0][0])

    def known(self, keys: Sequence[str]) -> tuple[list[tuple[str, str]], list[FailureRow]]:
        rows = self._rows(_KNOWN, _json(keys), _json(keys))
        answers = [(key, text) for key, text, _, reason in rows if reason is None]
        return answers, [(key, kind, status, reason) for key, kind, status, reason in rows if reason is not None]

    def write(self, batch: PendingWrites) -> None:
        answers, failures = sorted(batch.answers.items()), sorted(batch.failures.values())
        payments = [
            (*whose, None if math.isnan(one.usd) else one.usd, one.tokens_in, one.tokens_out, one.seconds)
            for whose, one in sorted(batch.payments.items(), key=itemgetter(0))
        ]

        def write(db: Session) -> None:
            if not self._is_new(db):
                return
            again = _json(batch.again & batch.answers.keys())
            db.run("DELETE FROM @answers WHERE key IN (SELECT value FROM EACH)", again)
            insert = "INSERT INTO @answers (key, completion, created) VALUES (?, ?, NOW) ON CONFLICT DO NOTHING"
            db.many(insert, answers)
            db.run("DELETE FROM @failures WHERE key IN (SELECT value FROM EACH)", _json(batch.answers))
            if failures:
                among = _json(batch.failures.keys() - batch.again)
                held = set(db.rows("SELECT key FROM @answers WHERE key IN (SELECT value FROM EACH)", among))
                db.many(_FAIL, [row for row in failures if (row[0],) not in held])
            db.run(_FREE.format("key IN (SELECT value FROM EACH)"), _json([*batch.answers, *batch.failures]))
            db.many(_PAY, payments)
            db.run("DELETE FROM @batches WHERE id IN (SELECT value FROM EACH)", _json(batch.settled))
            db.many(_insert("batches"), [row for row in batch.settled.values() if row])

        self._do("transaction", write)

    def paid(self, payer: str) -> dict[str, Payment]:
        rows = self._rows("SELECT key, usd, tokens_in, tokens_out, seconds FROM @paid WHERE payer = ?", payer)
        return {key: Payment(math.nan if usd is None else usd, *used) for key, usd, *used in rows}

    def take(self, keys: Sequence[str], owner: str, *, seconds: float, gone: Collection[str]) -> set[str]:
        values = owner, seconds, _json(sorted(set(keys))), _json(gone)
        return {key for (key,) in self._do("write", lambda db: db.rows(_TAKE, *values))}

    def owners(self) -> dict[str, float]:
        return dict(self._rows("SELECT owner, max(expires) FROM @claims GROUP BY owner"))

    def renew(self, owner: str, *, seconds: float) -> None:
        self._run("UPDATE @claims SET expires = NOW + ? WHERE owner = ?", seconds, owner)

    def release(self, owner: str, keys: Collection[str] | None) -> None:
        if keys is None:
            self._run(_FREE.format("owner = ?"), owner)
        else:
            self._run(_FREE.format("owner = ? AND key IN (SELECT value FROM EACH)"), owner, _json(keys))

    def members(self, run: str, change: Change) -> Sequence[Member]:
        def changed(db: Session) -> Sequence[Member]:
            self._only_one(db, run)
            found = db.rows("SELECT * FROM @members WHERE run = ?", run)
            made = change(db.rows("SELECT NOW")[0][0], [Member(*rest) for _, *rest in found])
            db.run("DELETE FROM @members WHERE run = ?", run)
            db.many(_insert("members"), [(run, *astuple(one)) for one in made])
            return made

        return self._do("transaction", changed)

    def rows(self, kept: Kept, after: Row | None, *, n: int) -> list[Row]:
        name = key_of_row(kept)
        values = (after or ())[: name.count(",") + 1]
        where = f"WHERE ({name}) > ({', '.join('?' * len(values))})" if values else ""
        return self._rows(
            f"SELECT {', '.join(names_of(kept))} FROM @{kept} {where} ORDER BY {name} LIMIT ?", *values, n
        )

    def put_rows(self, kept: Kept, rows: Iterable[Row]) -> int:
        new = list(rows)
        return self._do("transaction", lambda db: db.many(_insert(kept), new))

    def note_batch(self, number: str, *, file: str | None, batch: str | None) -> bool:
        return self._run("UPDATE @batches SET file = ?, batch = ? WHERE id = ?", file, batch, number) > 0

    def forget_batch(self, number: str) -> None:
        self._run("DELETE FROM @batches WHERE id = ?", number)

    def batches(self) -> list[str]:
        return [number for (number,) in self._rows("SELECT id FROM @batches ORDER BY id")]

    def _rows(self, text: str, *values: object) -> list[Any]:
        return self._do("read", lambda db: db.rows(text, *values))

    def _run(self, text: str, *values: object) -> int:
        return self._do("write", lambda db: db.run(text, *values))


def _insert(table: str) -> str:
    names = names_of(table)
    return f"INSERT INTO @{table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) ON CONFLICT DO NOTHING"


def _json(values: Collection[str]) -> str:
    return orjson.dumps(list(values)).decode()
