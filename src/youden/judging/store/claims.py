"""Who asks what: a key is claimed in the store before its request is sent, so that nobody pays for the same answer twice.

A claim is a row with an owner and an end. It ends when the answer is written, when its owner gives it up, or in time: an owner
that lives renews it. That of a process of this machine that is gone is free at once.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, suppress

import orjson

LEASE = 30.0
"""Seconds that a claim holds unless it is renewed. An owner that stood still for longer may ask what somebody else asks now."""

RENEWED_EVERY = LEASE / 4

TABLE = """
CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL, expires REAL NOT NULL) WITHOUT ROWID;
"""

_TAKE = """
INSERT INTO claims SELECT value, :owner, :expires FROM json_each(:keys) WHERE true
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, expires = excluded.expires
WHERE claims.expires < :now OR claims.owner = excluded.owner OR claims.owner IN (SELECT value FROM json_each(:gone))
RETURNING key
"""


class Claims:
    """The claims of one asker on a store. explained: the store's way of saying what SQLite says."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        explained: Callable[[], AbstractContextManager[None]],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._connection = connection
        self._explained = explained
        self._now = now
        self._owner = f"{_machine()} {os.getpid()} {uuid.uuid4().hex}"
        self._renewed = now()

    def take(self, keys: Sequence[str]) -> set[str]:
        """Those of `keys` that are this asker's now; somebody else asks the others."""
        now = self._now()
        with self._explained(), self._connection:
            others = self._connection.execute("SELECT DISTINCT owner FROM claims WHERE owner != ?", [self._owner])
            gone = [owner for (owner,) in others.fetchall() if _is_gone(owner)]
            values = {
                "owner": self._owner,
                "expires": now + LEASE,
                "now": now,
                "keys": _json(keys),
                "gone": _json(gone),
            }
            return {key for (key,) in self._connection.execute(_TAKE, values).fetchall()}

    def renew(self) -> None:
        """Hold what is held for another `LEASE`; call it often, it writes every `RENEWED_EVERY` seconds."""
        now = self._now()
        if now - self._renewed < RENEWED_EVERY:
            return
        self._renewed = now
        with self._explained(), self._connection:
            self._connection.execute("UPDATE claims SET expires = ? WHERE owner = ?", [now + LEASE, self._owner])

    def finish(self, keys: Collection[str] | None = None) -> None:
        """Give up the claims on `keys`, or on all: they were not asked, or their outcome is in the store."""
        with self._explained(), self._connection:
            self._connection.execute(
                "DELETE FROM claims WHERE owner = ? AND (? OR key IN (SELECT value FROM json_each(?)))",
                [self._owner, keys is None, _json(keys or ())],
            )


def _json(values: Collection[str]) -> str:
    return orjson.dumps(list(values)).decode()


def _machine() -> str:
    """This machine, and on Linux the container in it: where a process's number means that process."""
    inside = ""
    with suppress(OSError):
        inside = os.readlink("/proc/self/ns/pid")
    return "/".join(f"{platform.node()}/{inside}".split())


def _is_gone(owner: str) -> bool:
    """Whether the owner was a process of this machine that has ended."""
    machine, number, _ = owner.split(" ")
    if machine != _machine() or os.name != "posix":
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False
