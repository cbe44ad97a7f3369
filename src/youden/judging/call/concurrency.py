"""How many calls may be in flight: fewer while the server says 'too many', more while it does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

START = 20
CUT = 0.8
COOLDOWN = 15.0
"""Seconds after a cut in which 429s are the same episode: they cut no further, and growth goes on."""


class Concurrency:
    """At most `limit` calls in flight at once: additive increase, multiplicative decrease.

    +1 for every `limit` successes, up to `most`; ×.8 for an episode of 429s, down to 1. Nothing else moves it.
    """

    def __init__(self, most: int, *, start: int = START, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self.limit = min(start, most)
        self._clock = clock
        self._semaphore = asyncio.Semaphore(self.limit)
        self._owed = 0
        self._n_successes = 0
        self._cut_at = -COOLDOWN

    async def acquire(self) -> None:
        """Wait until one more call may be in flight, in order of arrival."""
        await self._semaphore.acquire()

    def release(self) -> None:
        """One call less is in flight."""
        if self._owed:
            self._owed -= 1
        else:
            self._semaphore.release()

    def succeeded(self) -> None:
        """A call was answered."""
        self._n_successes += 1
        if self._n_successes >= self.limit and self.limit < self.most:
            self._n_successes = 0
            self.limit += 1
            self.release()

    def throttled(self) -> bool:
        """A call met a 429. Returns whether that cut the limit."""
        now = self._clock()
        if now - self._cut_at < COOLDOWN:
            return False
        self._cut_at = now
        fewer = max(1, int(self.limit * CUT))
        self._owed += self.limit - fewer
        self.limit = fewer
        self._n_successes = 0
        return True
