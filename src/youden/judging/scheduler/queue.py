"""What is left to ask, and who is next: of every row, whether the store holds its answer, somebody else asks it, or it joins
the queue; there calls wait to be sent, are under way, or sleep until they may be tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from youden.judging.call.failures import Failure
from youden.judging.scheduler.calling import Caller
from youden.judging.scheduler.outcomes import Outcomes
from youden.judging.scheduler.shutdown import awaited
from youden.judging.store.leases import UnderWay
from youden.judging.store.plan_answers import Call, look_up
from youden.types import Completion

MOST_ASLEEP = 2000
"""Calls that may wait for another try at once; nothing new is sent while there are more."""


class CallQueue:
    """Calls that wait for `n_workers`. A call is `open` by its key from `add` until `close`.

    A call that has to wait for another try sleeps outside the workers, so that it holds nobody up.
    """

    def __init__(self, n_workers: int) -> None:
        self.open: dict[str, Call] = {}
        self._n_workers = n_workers
        self._ready: asyncio.Queue[Call | None] = asyncio.Queue()
        self._asleep: dict[str, asyncio.TimerHandle | None] = {}
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
        """The first call that may be sent now; None once the queue is over."""
        call = await self._ready.get()
        self._moved.set()
        return call

    def sleep(self, call: Call, seconds: float) -> None:
        """Put a call at the end again in `seconds`."""
        self._asleep[call.key] = asyncio.get_running_loop().call_later(seconds, self._wake, call)

    def park(self, call: Call) -> None:
        """Put a call aside, so that others come first, until `unpark`."""
        self._asleep[call.key] = None
        self._moved.set()

    def unpark(self) -> None:
        """Put all parked calls at the end again."""
        for key in [key for key, timer in self._asleep.items() if timer is None]:
            self._wake(self.open[key])

    @property
    def is_empty(self) -> bool:
        """Whether nobody can be sent now."""
        return self._ready.empty()

    def close(self, call: Call) -> None:
        """The call has come to its end."""
        del self.open[call.key]
        self._moved.set()

    def close_sleepers(self) -> list[Call]:
        """Nobody who sleeps or is parked is tried again. Returns who that was."""
        calls = [self.open[key] for key in self._asleep]
        for timer in filter(None, self._asleep.values()):
            timer.cancel()
        self._asleep.clear()
        for call in calls:
            self.close(call)
        self._moved.set()
        return calls

    def recall(self) -> list[Call]:
        """Every call that is not under way leaves the queue."""
        waiting = []
        while not self._ready.empty():
            if (call := self._ready.get_nowait()) is not None:
                waiting.append(call)
                self.close(call)
        return waiting + self.close_sleepers()

    def moved(self) -> None:
        """Wake who waits in `something_moves`."""
        self._moved.set()

    async def something_moves(self) -> None:
        """Wait until a call left the queue, came to its end or woke up."""
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


CHUNK = 128
"""Requests looked up at once: a few milliseconds of work, so that replies do not wait for it."""


class Routing:
    """The ways of one loop's rows. The store is used by other threads alone.

    claims: what this loop holds against others. elsewhere: calls that somebody else asks, by key. n_awaited: rows that were left
    to batches under way.
    """

    def __init__(self, outcomes: Outcomes, *, queue: CallQueue, caller: Caller) -> None:
        self.claims = outcomes.store.claims()
        self.elsewhere: dict[str, Call] = {}
        self.n_awaited = 0
        self._outcomes = outcomes
        self._work, self._store, self._stop = outcomes.work, outcomes.store, outcomes.stop
        self._queue = queue
        self._caller = caller
        self._under_way = UnderWay(outcomes.store.place)

    async def route_all(self) -> None:
        """Look every row up and send it its way; ends early where the run has to end."""
        at_once = self._caller.config.concurrency
        if n := await asyncio.to_thread(self._count_awaited):
            self._outcomes.log.say("batches", str(awaited(n, store=self._store.name)))
        chunks = look_up(self._work.keys(), self._store, ask=self._work.request, size=CHUNK)
        while chunk := await asyncio.to_thread(next, chunks, None):
            asked = [call for call in chunk if not self._settle(call)]
            for begin in range(0, len(asked), at_once):
                while (self._queue.is_full or len(self.elsewhere) >= MOST_ASLEEP) and not self._stop.stopped:
                    await self._queue.something_moves()
                if self._stop.stopped:
                    return
                await self._route(asked[begin : begin + at_once])

    async def look_elsewhere(self) -> None:
        """Look what became of the calls that somebody else asked, and ask those that nobody asks any more."""
        await self._ask_or_await(list(self.elsewhere.values()))

    def _count_awaited(self) -> int:
        """Rows whose requests are in batches under way, and not answered."""
        sent, keys = self._under_way.keys(), self._work.keys()
        rows = ((row, key) for row, key in keys if key in sent) if sent else ()
        chunks = look_up(rows, self._store, ask=self._work.request)
        is_answer, again = self._work.is_answer, self._outcomes.retry_failed
        return sum(len(one.rows) for chunk in chunks for one in chunk if not one.settled(is_answer, retry_failed=again))

    def _settle(self, call: Call) -> bool:
        """Whether it need not be asked: the store has what came of it, or it cannot be sent."""
        found = call.settled(self._work.is_answer, retry_failed=self._outcomes.retry_failed)
        if found is not None:
            self._take(call, found)
            return True
        if not self._work.fits(call.request):
            self._outcomes.found(call, None)
            return True
        return False

    def _take(self, call: Call, found: Completion | Failure) -> None:
        """Take what the store holds."""
        if isinstance(found, Completion):
            self._caller.breaker.answered_before = True
        self._outcomes.found(call, found)

    async def _route(self, asked: Sequence[Call]) -> None:
        """Join what is under way, here or elsewhere, and ask the rest."""
        new = []
        for call in asked:
            under_way = self._queue.open.get(call.key) or self.elsewhere.get(call.key)
            if under_way is not None:
                under_way.rows.extend(call.rows)
            else:
                new.append(call)
        await self._ask_or_await(new)

    async def _ask_or_await(self, calls: Sequence[Call]) -> None:
        """Claim the calls and ask them, but for those that somebody else claims, sent in a batch or has answered meanwhile."""
        if not calls:
            return
        mine, sent, now = await asyncio.to_thread(self._claimed, [call.key for call in calls])
        done = []
        for call in calls:
            found = now.get(call.key)
            settled = isinstance(found, Completion) or (found is not None and found.kind == "rejected")
            if found is not None and settled and found != call.known:
                self.elsewhere.pop(call.key, None)
                self._take(call, found)
                done.append(call.key)
            elif call.key in sent:
                self.elsewhere.pop(call.key, None)
                self.n_awaited += len(call.rows)
                done.append(call.key)
            elif call.key in mine:
                self.elsewhere.pop(call.key, None)
                self._queue.add(call)
            elif not self._stop.stopped:
                self.elsewhere[call.key] = call
        if done:
            await asyncio.to_thread(self.claims.finish, done)

    def _claimed(self, keys: Sequence[str]) -> tuple[set[str], frozenset[str], dict[str, Completion | Failure]]:
        """Those of `keys` that this loop claims, all keys then in batches, and what the store holds of `keys` after that.

        In this order: whoever sends a batch claims its keys until it is noted, and forgets it when its answers are stored.
        """
        return self.claims.take(keys), self._under_way.keys(), self._store.known(keys)
