"""How long a database that gives no sign is waited for, and that this is said.

A statement without any sign of the server ends after `DEADLINE`. A server that was there may be away for `AWAY`. Once the process
is told to end (`ending`), what waits ends after a `DEADLINE`, and nothing is waited for after it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

SAID_AFTER = 5.0
DEADLINE = 20.0
AWAY = 60.0
LAST_LOOK = 2.0
"""Seconds that a process which is to end waits for a server that is away."""

_LOG = logging.getLogger(__name__)
ending = threading.Event()
"""Set once the process is told to end."""


class NoSignError(Exception):
    """The server gave no sign for `DEADLINE` seconds."""


def max_wait() -> float:
    """Seconds that a server which was there may be away."""
    return LAST_LOOK if ending.is_set() else AWAY


class Silence:
    """Whether the place called `name` answers. It is said once when it does not, and when it does again."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._since = 0.0
        self._said = False

    def begin(self) -> None:
        """Something is asked now."""
        self._since = time.monotonic()

    def over(self) -> None:
        """It was answered."""
        if self._said:
            self._said = False
            _LOG.warning("The store %s answers again.", self._name)

    def look(self) -> None:
        """Say it, where it is time to."""
        if not self._said and time.monotonic() - self._since >= SAID_AFTER:
            self._said = True
            _LOG.warning(
                "The store %s has not answered for %g s; it is waited for, for up to %g s. A second Ctrl-C ends at once.",
                self._name,
                SAID_AFTER,
                DEADLINE + AWAY,
            )

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Around what waits without looking."""
        timer = threading.Timer(SAID_AFTER, self.look)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def bounded(self, steps: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """`steps`, which is sent what came of the server and nothing (0) now and then. Raises: NoSignError."""
        heard = time.monotonic()
        try:
            wanted = next(steps)
            while True:
                came = yield wanted
                if came:
                    heard = time.monotonic()
                    wanted = steps.send(came)
                elif time.monotonic() - heard >= DEADLINE:
                    raise NoSignError
                else:
                    self.look()
        except StopIteration as ended:
            said: T = ended.value
            return said
