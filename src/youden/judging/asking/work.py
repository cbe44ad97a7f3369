"""What the loop asks, and what of an answer is kept.

What the loop asks: rows that wait for answers, the requests they need, and where the answers go.

Keeps what came of calls: in the work that asked, in the store, and, before anything was answered, in neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Protocol

from youden.errors import BudgetError
from youden.judging.asking.calling import Call
from youden.judging.asking.sight import Sight
from youden.judging.call.budget import Budget
from youden.judging.call.connection import Backend
from youden.judging.call.failures import Failure
from youden.judging.store.answers import LINGER, MOST_UNWRITTEN, Store, payment_of
from youden.judging.store.arriving import Known
from youden.nouns import Completion, Request


class Work(Protocol):
    """What is asked. Its rows are its own: numbers that stand for whoever waits for an answer."""

    def __len__(self) -> int:
        """How many rows there are."""
        ...

    def keys(self) -> Iterator[tuple[int, str]]:
        """(row, key) of every row, in order; rows with the same key share a call."""
        ...

    def request(self, row: int, key: str) -> Request:
        """What has to be sent for this row, whose key is `key`."""
        ...

    def fits(self, request: Request) -> bool:
        """Whether the request can be sent at all."""
        ...

    def is_answer(self, completion: Completion) -> bool:
        """Whether the completion is one that need not be asked again under `retry_failed`."""
        ...

    def put(
        self, rows: Sequence[int], key: str, outcome: Completion | Failure | None, *, usd: float, stored: bool
    ) -> str:
        """Take what came of these rows; None was not asked. Returns 'answered', or the reason why there is no answer."""
        ...

    def out_of_money(self, budget: Budget) -> BudgetError:
        """What to say where the cap does not allow the next call."""
        ...


class Keeping:
    """What came of the calls of one loop. It is written by other threads alone, so that no reply waits for the store.

    payer: under whose name the store notes what is paid; None for nobody's. known_good: what was answered.
    """

    def __init__(self, work: Work, *, store: Store, backend: Backend, sight: Sight, payer: str | None) -> None:
        self.known_good: Call | Known | None = None
        self._work = work
        self._store = store
        self._backend = backend
        self._sight = sight
        self._payer = payer
        self._early: list[tuple[Call, Failure]] = []
        self._to_write = asyncio.Event()
        self._written = asyncio.Event()

    def pay(self, key: str, usd: float, completion: Completion | None = None) -> None:
        """Note what a try cost."""
        if self._payer is not None and (usd or completion is not None):
            self._store.pay(self._payer, key, payment_of(usd, completion))

    def put(
        self,
        rows: Sequence[int],
        key: str,
        outcome: Completion | Failure | None,
        *,
        usd: float = 0.0,
        stored: bool = False,
    ) -> str:
        """Hand the outcome to the work; None was not asked. Returns 'answered', or the reason why there is no answer."""
        reason = self._work.put(rows, key, outcome, usd=usd, stored=stored)
        self._sight.advance(len(rows), missing=reason, usd=usd, stored=stored)
        return reason

    def take(self, asked: Call | Known, found: Completion | Failure) -> None:
        """Take what the store holds."""
        if isinstance(found, Completion):
            self.known_good = asked
        self._record(asked, found)
        self.put(asked.rows, asked.key, found, stored=True)

    def keep(self, call: Call, outcome: Completion | Failure) -> None:
        """Give the outcome to the store."""
        self._record(call, outcome)
        self._store.add(call.key, outcome, again=call.known is not None, waits=False)
        if self._store.n_unwritten >= MOST_UNWRITTEN // 2:
            self._to_write.set()

    def keep_later(self, call: Call, failure: Failure) -> None:
        """Failed before anything was answered: until then it may be the server's fault, and no trial's own."""
        self._early.append((call, failure))

    def keep_early(self) -> None:
        """The server is well, so that what failed early is its trial's own."""
        while self._early:
            self.keep(*self._early.pop())

    @property
    def is_full(self) -> bool:
        """Whether no more calls may be sent until some outcomes are written."""
        return self._store.n_unwritten >= MOST_UNWRITTEN

    async def some_written(self) -> None:
        """Wait until outcomes were written, or nobody needs to wait any more."""
        self._written.clear()
        await self._written.wait()

    def wait_no_more(self) -> None:
        """Wake who waits in `some_written`."""
        self._written.set()

    async def time_to_write(self) -> None:
        """Wait until many outcomes are not written, LINGER seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                await self._to_write.wait()
        self._to_write.clear()

    def _record(self, asked: Call | Known, outcome: Completion | Failure) -> None:
        if self._backend.record is not None:
            self._backend.record(asked.request, outcome)
