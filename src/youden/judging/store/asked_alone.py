"""One process at a time pays for a run: a lock beside its store, which a killed process lets go.

SQLite makes the lock, for it locks files on every system. Nobody waits for it: a second process ends with an error. Where no
lock can be made, the store will say why.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from youden.errors import JudgeError
from youden.judging.store.answers import store_path


@contextmanager
def asked_alone(store: str | Path, *, run: str) -> Iterator[None]:
    """Hold the right to ask for `run` into `store`; other runs may use the store meanwhile.

    Raises: JudgeError [run-busy] where another process holds it.
    """
    path = store_path(store)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            file = path.with_name(f"{path.name}-{run}.lock")
            lock = stack.enter_context(closing(sqlite3.connect(file, timeout=0, isolation_level=None)))
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise JudgeError(
                    f"The run '{run}' is being judged by another process, and both would pay for the same answers. Wait until "
                    "that one has ended, or stop it; then the same command goes on.",
                    slug="run-busy",
                ) from error
        yield
