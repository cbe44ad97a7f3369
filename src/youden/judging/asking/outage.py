"""Tells a server that is away from a call that goes wrong, and lets one call at a time find out whether it is back.

A broken connection says nothing of a trial. While the server is away nobody's tries are counted, and the others wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from youden.judging.call.failures import CallError, is_silence
from youden.judging.call.retry import Tries

IN_A_ROW = 3
"""So many calls that had never failed, one after the other and no reply in between, mean that the server is away. A call that
failed while others were answered does not count: a text that breaks a server is that trial's failure, also as the last one."""

LONGEST_WAIT = 5.0
"""Seconds between two looks whether the server is back; the first look is at once."""

LOOKS_WITH_THE_SAME = 3
"""After so many looks, a call that failed before in this outage is no good sign of it: a call that was answered once is asked."""


class Outage:
    """Whether the server is away. longest: seconds until the run gives up on it; 0 to never wait.

    Only a server that has answered can be away: set `answered_before` where a run before this one was answered.
    """

    def __init__(self, longest: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.longest = longest
        self.answered_before = False
        self._clock = clock
        self._since: float | None = None
        self._suspects: list[Tries] = []
        self._n_looks = 0
        self._one = asyncio.Lock()
        self._look_now = asyncio.Event()

    @property
    def is_on(self) -> bool:
        return self._since is not None

    @property
    def is_over_time(self) -> bool:
        """Whether the server has been away for longer than the run waits."""
        return self._since is not None and self._clock() - self._since >= self.longest

    def is_stuck(self, tries: Tries) -> bool:
        """Whether only calls that failed in this outage are left to look with: they may be what breaks the server."""
        return self.is_on and tries.suspect and self._n_looks > LOOKS_WITH_THE_SAME

    def heard(self, *, answer: bool) -> float | None:
        """The server said something. answer: a completion. Returns the seconds it was away, None where it was not."""
        self.answered_before |= answer
        self._suspects.clear()
        away, self._since = None if self._since is None else self._clock() - self._since, None
        self._look_now.set()
        return away

    def befell(self, tries: Tries, error: CallError) -> bool:
        """Whether the failure of a call with these `tries` so far is the server's, and so no try of the call."""
        if not self.answered_before or not self.longest or not is_silence(error):
            return False
        if self._since is None:
            never_sent = error.free and error.status is None
            if not never_sent:
                if tries.n_failed or tries.suspect:
                    return False
                self._suspects.append(tries)
                if len(self._suspects) < IN_A_ROW:
                    return False
            self._begin()
        tries.suspect = True
        return True

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Around a call while the server is away: one at a time, after a wait. Once it is back the others go all at once."""
        async with AsyncExitStack() as alone:
            await alone.enter_async_context(self._one)
            await self._until_time_to_look()
            if not self.is_on:
                await alone.aclose()
            yield

    def wait_no_more(self) -> None:
        """Whoever waits for the server comes to its turn now."""
        self._look_now.set()

    def _begin(self) -> None:
        self._since = self._clock()
        self._n_looks = 0
        self._look_now.clear()
        for tries in self._suspects:
            tries.n_failed, tries.suspect = 0, True

    async def _until_time_to_look(self) -> None:
        if not self.is_on:
            return
        seconds = min(LONGEST_WAIT, 0.25 * 2.0 ** (self._n_looks - 1)) if self._n_looks else 0.0
        self._n_looks += 1
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._look_now.wait()
