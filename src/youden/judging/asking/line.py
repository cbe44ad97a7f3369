"""Who is next: calls that wait to be sent, are under way, or sleep until they may be tried again."""

from __future__ import annotations

import asyncio

from youden.judging.asking.calling import Call

MOST_ASLEEP = 2000
"""Calls that may wait for another try at once; nothing new is sent while there are more."""


class Line:
    """A line of calls for `n_workers`. A call is `open` by its key from `add` until `close`.

    A call that has to wait for another try sleeps outside the workers, so that it holds nobody up.
    """

    def __init__(self, n_workers: int) -> None:
        self.open: dict[str, Call] = {}
        self._n_workers = n_workers
        self._ready: asyncio.Queue[Call | None] = asyncio.Queue()
        self._asleep: dict[str, asyncio.TimerHandle] = {}
        self._parked: list[Call] = []
        self._moved = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether nothing new should be added for now."""
        return self._ready.qsize() >= self._n_workers or len(self._asleep) >= MOST_ASLEEP

    def add(self, call: Call) -> None:
        """Put a new call at the end."""
        self.open[call.key] = call
        self._ready.put_nowait(call)

    async def next(self) -> Call | None:
        """The first call that may be sent now; None once the line is over."""
        call = await self._ready.get()
        self._moved.set()
        return call

    def sleep(self, call: Call, seconds: float) -> None:
        """Put a call at the end again in `seconds`."""
        self._asleep[call.key] = asyncio.get_running_loop().call_later(seconds, self._wake, call)

    def park(self, call: Call) -> None:
        """Put a call aside, so that others come first, until `unpark`."""
        self._parked.append(call)
        self._moved.set()

    def unpark(self) -> None:
        """Put all parked calls at the end again."""
        for call in self._parked:
            self._ready.put_nowait(call)
        self._parked.clear()

    @property
    def is_empty(self) -> bool:
        """Whether nobody can be sent now."""
        return self._ready.empty()

    def close(self, call: Call) -> None:
        """The call has come to its end."""
        del self.open[call.key]
        self._moved.set()

    def close_sleepers(self) -> None:
        """Nobody who sleeps or is parked is tried again."""
        for key, timer in self._asleep.items():
            timer.cancel()
            del self.open[key]
        for call in self._parked:
            del self.open[call.key]
        self._asleep.clear()
        self._parked.clear()
        self._moved.set()

    def recall(self) -> list[Call]:
        """Every call that is not under way leaves the line."""
        calls = [self.open[key] for key in self._asleep] + self._parked
        for timer in self._asleep.values():
            timer.cancel()
        while not self._ready.empty():
            if (call := self._ready.get_nowait()) is not None:
                calls.append(call)
        self._asleep.clear()
        self._parked.clear()
        for call in calls:
            self.close(call)
        return calls

    def moved(self) -> None:
        """Wake who waits in `something_moves`."""
        self._moved.set()

    async def something_moves(self) -> None:
        """Wait until a call left the line, came to its end or woke up."""
        self._moved.clear()
        await self._moved.wait()

    def end(self) -> None:
        """Send every worker home."""
        for _ in range(self._n_workers):
            self._ready.put_nowait(None)

    def _wake(self, call: Call) -> None:
        del self._asleep[call.key]
        self._ready.put_nowait(call)
        self._moved.set()
