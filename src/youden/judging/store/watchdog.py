"""Limit how long an unresponsive database is waited for, and warn about it.

A statement ends `DEADLINE_SECONDS` after the server's last sign of life. A server that was reachable may be unreachable
for `MAX_OUTAGE_SECONDS`. Once the process is asked to stop (`shutdown_started`), a pending statement still ends by its
deadline, and nothing else is waited for.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

WARN_AFTER_SECONDS = 5.0
"""Time without a reply after which a warning is logged."""
DEADLINE_SECONDS = 20.0
"""Time without a sign of the server after which a statement ends."""
MAX_OUTAGE_SECONDS = 60.0
"""Time for which a server that was reachable is waited for."""
MAX_WAIT_AT_SHUTDOWN_SECONDS = 2.0
"""Time for which an unreachable server is waited for once the process is asked to stop."""

_LOG = logging.getLogger(__name__)
shutdown_started = threading.Event()
"""Set once the process is asked to stop."""


class UnresponsiveError(Exception):
    """The server gave no sign of life for `DEADLINE_SECONDS`."""


def max_wait() -> float:
    """Return for how many seconds a server that was reachable may be unreachable."""
    return MAX_WAIT_AT_SHUTDOWN_SECONDS if shutdown_started.is_set() else MAX_OUTAGE_SECONDS


class Watchdog:
    """Warns once when a store stops answering, and once when it answers again.

    Parameters
    ----------
    name : str
        Name of the store for display.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._start = 0.0
        self._has_warned = False

    def start_timer(self) -> None:
        """Start to measure the time of a statement."""
        self._start = time.monotonic()

    def record_answer(self) -> None:
        """Record that the store answered."""
        if self._has_warned:
            self._has_warned = False
            _LOG.warning("The store %s answers again.", self._name)

    def warn_if_late(self) -> None:
        """Log a warning if the statement has taken `WARN_AFTER_SECONDS` and none was logged yet."""
        if not self._has_warned and time.monotonic() - self._start >= WARN_AFTER_SECONDS:
            self._has_warned = True
            _LOG.warning(
                "The store %s has not answered for %g s. The run waits for it for up to %g s. A second Ctrl-C stops at once.",
                self._name,
                WARN_AFTER_SECONDS,
                DEADLINE_SECONDS + MAX_OUTAGE_SECONDS,
            )

    @contextmanager
    def warn_during(self) -> Iterator[None]:
        """Call `warn_if_late` once if the body of the `with` statement takes longer than `WARN_AFTER_SECONDS`.

        Another thread makes the call, because the thread that runs the body waits for the server.
        """
        timer = threading.Timer(WARN_AFTER_SECONDS, self.warn_if_late)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def with_deadline(self, steps: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """Wrap a generator by which psycopg waits for the server. Warn if the server is late, and raise an error at a deadline.

        The generator runs one statement. It yields the event that it waits for, such as data to read. It then receives the
        event that occurred. If no event occurs for a while, psycopg sends 0 instead. The wrapper then checks how long the
        server has been silent.

        steps : generator of psycopg

        Returns a generator that yields the same events, and returns the result of `steps`.
        Raises: UnresponsiveError if no event occurs for `DEADLINE_SECONDS`.
        """
        last_event_time = time.monotonic()
        try:
            awaited_event = next(steps)
            while True:
                occurred_event = yield awaited_event
                if occurred_event:
                    last_event_time = time.monotonic()
                    awaited_event = steps.send(occurred_event)
                    continue
                if time.monotonic() - last_event_time >= DEADLINE_SECONDS:
                    raise UnresponsiveError
                self.warn_if_late()
        except StopIteration as stop:  # `steps` has ended
            result: T = stop.value
            return result
