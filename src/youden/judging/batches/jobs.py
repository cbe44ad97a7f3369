"""Batches that were sent and not yet merged, kept in a file beside the store, so that any later process can go on.

It holds no requests, answers or secrets: only which keys went into which file of the provider. Two processes cannot have it open
at once, for they could send the same batch twice.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from youden.errors import JudgeError

_TABLE = """
CREATE TABLE IF NOT EXISTS batches
  (id INTEGER PRIMARY KEY, address TEXT NOT NULL, model TEXT NOT NULL, file TEXT, batch TEXT, usd REAL, keys TEXT NOT NULL)
"""


@dataclass(frozen=True)
class Job:
    """One file of requests under way.

    usd: the worst it can cost, NaN where prices are unknown. file, batch: the provider's ids, None until it has given them.
    keys: of the requests, in the order of the file's lines.
    """

    id: int
    usd: float
    keys: tuple[str, ...]
    file: str | None = None
    batch: str | None = None


class Jobs:
    """The batches of one model at one address, in `path` with `-batches` behind its name. Use it as a context manager.

    Raises: JudgeError [batch-busy] where another process has it open, [batch-store] from every method.
    """

    def __init__(self, path: Path, *, address: str, model: str) -> None:
        self.path = path.with_name(path.name + "-batches")
        self._whose = (address, model)
        with self._explained():
            self._connection = sqlite3.connect(self.path, timeout=1, isolation_level=None)
            self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._connection.execute(_TABLE)
            self._connection.execute("DELETE FROM batches WHERE file IS NULL")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def pending(self) -> list[Job]:
        """What was sent and not merged, oldest first."""
        rows = self._do(
            "SELECT id, usd, keys, file, batch FROM batches WHERE address = ? AND model = ? ORDER BY id", *self._whose
        )
        return [
            Job(number, float("nan") if usd is None else usd, tuple(orjson.loads(keys)), file, batch)
            for number, usd, keys, file, batch in rows
        ]

    def add(self, keys: tuple[str, ...], *, usd: float) -> Job:
        """Note a batch before anything of it leaves the machine."""
        text = orjson.dumps(keys).decode()
        ((number,),) = self._do(
            "INSERT INTO batches (address, model, usd, keys) VALUES (?, ?, ?, ?) RETURNING id", *self._whose, usd, text
        )
        return Job(number, usd, keys)

    def uploaded(self, job: Job, file: str) -> Job:
        """Note the id of the file that the provider holds."""
        self._do("UPDATE batches SET file = ? WHERE id = ?", file, job.id)
        return replace(job, file=file)

    def started(self, job: Job, batch: str) -> Job:
        """Note the id of the batch that the provider works on."""
        self._do("UPDATE batches SET batch = ? WHERE id = ?", batch, job.id)
        return replace(job, batch=batch)

    def forget(self, job: Job) -> None:
        """Its results are in the store, or nothing was sent."""
        self._do("DELETE FROM batches WHERE id = ?", job.id)

    def _do(self, statement: str, *values: str | float | None) -> list[Any]:
        with self._explained():
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if "locked" in str(error):
                raise JudgeError(
                    f"Another process is at work on the batches of this store ({self.path}). "
                    "Wait for it, or end it and run the same again.",
                    slug="batch-busy",
                ) from None
            raise JudgeError(
                f"The batches under way cannot be noted in {self.path} ({error}). "
                "Check the disk and its permissions, then run the same again.",
                slug="batch-store",
            ) from None
