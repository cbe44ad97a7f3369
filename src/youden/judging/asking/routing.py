"""Finds out of every row whether the store holds its answer, whether somebody else asks it, or whether it joins the line."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from youden.judging.asking.calling import Call, Caller
from youden.judging.asking.endings import Ending, awaited
from youden.judging.asking.keeping import Keeping
from youden.judging.asking.line import MOST_ASLEEP, Line
from youden.judging.asking.sight import Sight
from youden.judging.asking.work import Work
from youden.judging.call.failures import Failure
from youden.judging.store.answers import Store
from youden.judging.store.lookup import Known, look_up
from youden.nouns import Completion

CHUNK = 128
"""Requests looked up at once: a few milliseconds of work, so that replies do not wait for it."""


class Routing:
    """The ways of one loop's rows. The store is used by other threads alone.

    claims: what this loop holds against others. elsewhere: calls that somebody else asks, by key. n_awaited: rows that were left
    to batches under way.
    """

    def __init__(
        self,
        work: Work,
        *,
        line: Line,
        keeping: Keeping,
        caller: Caller,
        store: Store,
        ending: Ending,
        sight: Sight,
        retry_failed: bool,
    ) -> None:
        self.claims = store.claims()
        self.elsewhere: dict[str, Call] = {}
        self.n_awaited = 0
        self._work = work
        self._line = line
        self._keeping = keeping
        self._caller = caller
        self._store = store
        self._under_way = store.under_way()
        self._ending = ending
        self._sight = sight
        self._retry_failed = retry_failed

    async def route_all(self) -> None:
        """Look every row up and send it its way; ends early where the run has to end."""
        at_once = self._caller.config.concurrency
        if n := await asyncio.to_thread(self._count_awaited):
            self._sight.say("batches", str(awaited(n, store=self._store.name)))
        chunks = look_up(self._work.keys(), self._store, ask=self._work.request, size=CHUNK)
        while chunk := await asyncio.to_thread(next, chunks, None):
            asked = [known for known in chunk if not self._settle(known)]
            for begin in range(0, len(asked), at_once):
                while self._is_full and not self._ending.stopped:
                    await self._line.something_moves()
                if self._ending.stopped:
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
        is_answer, again = self._work.is_answer, self._retry_failed
        return sum(len(one.rows) for chunk in chunks for one in chunk if not one.settled(is_answer, retry_failed=again))

    @property
    def _is_full(self) -> bool:
        return self._line.is_full or len(self.elsewhere) >= MOST_ASLEEP

    def _settle(self, known: Known) -> bool:
        """Whether it need not be asked: the store has what came of it, or it cannot be sent."""
        found = known.settled(self._work.is_answer, retry_failed=self._retry_failed)
        if found is not None:
            self._take(known, found)
            return True
        if not self._work.fits(known.request):
            self._keeping.put(known.rows, known.key, None, stored=True)
            return True
        return False

    def _take(self, asked: Call | Known, found: Completion | Failure) -> None:
        """Take what the store holds."""
        if isinstance(found, Completion):
            self._caller.outage.answered_before = True
        self._keeping.take(asked, found)

    async def _route(self, asked: Sequence[Known]) -> None:
        """Join what is under way, here or elsewhere, and ask the rest."""
        new = []
        for known in asked:
            under_way = self._line.open.get(known.key) or self.elsewhere.get(known.key)
            if under_way is not None:
                under_way.rows.extend(known.rows)
            else:
                before = known.completion or known.failure
                new.append(Call(known.key, known.request, list(known.rows), before))
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
                self._line.add(call)
            elif not self._ending.stopped:
                self.elsewhere[call.key] = call
        if done:
            await asyncio.to_thread(self.claims.finish, done)

    def _claimed(self, keys: Sequence[str]) -> tuple[set[str], frozenset[str], dict[str, Completion | Failure]]:
        """Those of `keys` that this loop claims, all keys then in batches, and what the store holds of `keys` after that.

        In this order: whoever sends a batch claims its keys until it is noted, and forgets it when its answers are stored.
        """
        return self.claims.take(keys), self._under_way.keys(), self._store.known(keys)
