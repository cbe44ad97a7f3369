"""The one loop that asks: everything that has a key and a request and that the store does not know.

Judging, calibrating and generating texts all go through it. `Line` says who is next, `Caller` makes one try, `Ending` knows
what ends a run, and a `Work` says what is asked and takes what came of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Protocol

from youden.errors import BudgetError, YoudenError
from youden.judging.asking.calling import Call, Caller
from youden.judging.asking.endings import Ending
from youden.judging.asking.line import Line
from youden.judging.asking.sight import Sight
from youden.judging.call.budget import Budget, OutOfMoneyError
from youden.judging.call.failures import CallError, Failure, ends_the_run
from youden.judging.call.retry import TOO_MANY, RetryPolicy
from youden.judging.config.reading import JudgeConfig
from youden.judging.store.answers import LINGER, MOST_UNWRITTEN, Store
from youden.judging.store.lookup import Known, look_up
from youden.nouns import Completion, Request

CHUNK = 100
"""Requests looked up at once: a few milliseconds of work, so that replies do not wait for it."""


class Work(Protocol):
    """What is asked. Its rows are its own: numbers that stand for whoever waits for an answer."""

    def __len__(self) -> int:
        """How many rows there are."""
        ...

    def requests(self) -> Iterator[tuple[int, str, Request]]:
        """(row, key, request) of every row, in order; rows with the same key share a call."""
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


def at_risk(config: JudgeConfig) -> int:
    """Most calls that were sent and whose answers are not on disk, whenever the process dies."""
    return config.concurrency + MOST_UNWRITTEN


async def ask_all(loops: Sequence[Loop], ending: Ending) -> None:
    """Let loops that share an ending ask side by side.

    Raises: the reason of `ending`, once the calls in flight have ended; what a backend raises beside CallError.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for loop in loops:
                group.create_task(loop.go())
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    ending.raise_reason()


class Loop:
    """Asks one backend all of `work` that `store` does not know. retry_failed: also what was rejected or is no answer."""

    def __init__(
        self, work: Work, *, caller: Caller, store: Store, ending: Ending, sight: Sight, retry_failed: bool = False
    ) -> None:
        self._work = work
        self._caller = caller
        self._config = caller.config
        self._store = store
        self._ending = ending
        self._sight = sight
        self._retry_failed = retry_failed
        self._policy = RetryPolicy(caller.config.max_tries, caller.config.backoff)
        self._line = Line(caller.config.concurrency)
        self._just_answered: set[str] = set()
        self._early: list[tuple[Call, Failure]] = []
        ending.on_stop.append(self._stop_sending)

    async def go(self) -> None:
        """Ask until every row has an answer or a reason why not, or the run has to end."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._config.concurrency):
                    group.create_task(self._work_off())
                flushing = group.create_task(self._flush_now_and_then())
                group.create_task(self._dispatch()).add_done_callback(lambda _: flushing.cancel())
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        finally:
            self._line.close_sleepers()
        if not self._ending.stopped:
            self._keep_early()

    async def _dispatch(self) -> None:
        try:
            await self._route_all()
        except YoudenError as error:
            self._ending.stop_with(error)
        while self._line.open:
            await self._line.something_moves()
        self._line.end()

    async def _route_all(self) -> None:
        for chunk in look_up(self._work.requests(), self._store, size=CHUNK):
            self._just_answered.clear()
            for known in chunk:
                while self._line.is_full and not self._ending.stopped:
                    await self._line.something_moves()
                if self._ending.stopped:
                    return
                self._route(known)
            await asyncio.sleep(0)

    def _route(self, known: Known) -> None:
        """Take what the store has, join a call in flight, or add a new one."""
        if known.key in self._line.open:
            self._line.open[known.key].rows.extend(known.rows)
            return
        if known.key in self._just_answered:
            fresh = self._store.answers([known.key])[known.key]
            self._put(known.rows, known.key, fresh, stored=True)
        elif (found := known.settled(self._work.is_answer, retry_failed=self._retry_failed)) is not None:
            self._record(known.request, found)
            self._put(known.rows, known.key, found, stored=True)
        elif not self._work.fits(known.request):
            self._put(known.rows, known.key, None, stored=True)
        else:
            self._line.add(Call(known.key, known.request, list(known.rows)))

    async def _work_off(self) -> None:
        concurrency, more = self._caller.concurrency, True
        while more:
            await concurrency.acquire()
            try:
                call = await self._line.next()
                more = call is not None
                if call is not None:
                    await self._try(call)
            finally:
                concurrency.release()

    async def _try(self, call: Call) -> None:
        """One try, and what follows from it."""
        if self._ending.stopped:
            self._line.close(call)
            return
        try:
            completion = await self._caller.attempt(call)
        except OutOfMoneyError:
            self._ending.stop(lambda: self._work.out_of_money(self._caller.budget))
            self._line.close(call)
        except CallError as error:
            self._failed(call, error)
        else:
            self._answered(call, completion)

    def _answered(self, call: Call, completion: Completion) -> None:
        self._ending.answered()
        self._keep_early()
        self._just_answered.add(call.key)
        self._keep(call, completion)
        outcome = self._put(call.rows, call.key, completion, usd=call.usd)
        self._sight.tell(
            "call",
            key=call.key,
            outcome=outcome,
            seconds=round(completion.seconds, 4),
            tokens_in=completion.tokens_in,
            tokens_out=completion.tokens_out,
            usd=call.usd,
            model=completion.model,
        )
        self._line.close(call)

    def _failed(self, call: Call, error: CallError) -> None:
        """Try again later, give up on the call, or end the run."""
        self._sight.tell("failure", key=call.key, kind=error.kind, status=error.status, reason=error.reason)
        if error.status == TOO_MANY and error.kind == "retry":
            self._sight.throttled()
        stopped = self._ending.stopped
        if error.kind == "stop":
            self._ending.stop(lambda: self._ends_the_run(error))
        elif not stopped and (seconds := self._policy.wait(call.tries, error)) is not None:
            self._line.sleep(call, seconds)
            return
        elif not (stopped and error.kind == "retry"):
            self._give_up(call, error)
        self._line.close(call)

    def _give_up(self, call: Call, error: CallError) -> None:
        if self._caller.backend.live:
            self._ending.given_up(lambda: self._ends_the_run(error), n_requests=len(self._work))
        failure = Failure(error.kind, error.status, error.reason)
        if self._ending.any_answered:
            self._keep(call, failure)
        else:
            self._early.append((call, failure))
        self._put(call.rows, call.key, failure, usd=call.usd)

    def _keep_early(self) -> None:
        """Keep what failed before anything was answered: until then it may be the server's fault, and no trial's own."""
        while self._early:
            self._keep(*self._early.pop())

    def _keep(self, call: Call, outcome: Completion | Failure) -> None:
        self._record(call.request, outcome)
        try:
            self._store.add(call.key, outcome)
        except YoudenError as error:
            self._ending.stop_with(error)

    def _record(self, request: Request, outcome: Completion | Failure) -> None:
        if self._caller.backend.record is not None:
            self._caller.backend.record(request, outcome)

    def _put(
        self,
        rows: Sequence[int],
        key: str,
        outcome: Completion | Failure | None,
        *,
        usd: float = 0.0,
        stored: bool = False,
    ) -> str:
        reason = self._work.put(rows, key, outcome, usd=usd, stored=stored)
        self._sight.advance(len(rows), missing=reason, usd=usd, stored=stored)
        return reason

    async def _flush_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(LINGER)
            try:
                self._store.flush()
            except YoudenError as error:
                self._ending.stop_with(error)

    def _stop_sending(self) -> None:
        self._caller.stopped = True
        self._line.close_sleepers()

    def _ends_the_run(self, error: CallError) -> YoudenError:
        return ends_the_run(error, judge=self._config.name, address=self._config.address)
