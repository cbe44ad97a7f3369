"""Asks a judge what the store does not know: one dispatcher, a fixed pool of workers, calls that sleep outside it.

It knows calls, their fates and when to stop; it refuses to know what a judge is made of or how verdicts are used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from youden.errors import BudgetError, TooManyMissingError, YoudenError
from youden.judging.asking.calling import Call, Caller
from youden.judging.asking.endings import LOOKED_AT_FROM, out_of_money, too_many_missing
from youden.judging.asking.sight import Sight
from youden.judging.call.budget import OutOfMoneyError
from youden.judging.call.failures import CallError, Failure, ends_the_run
from youden.judging.call.retry import TOO_MANY, RetryPolicy
from youden.judging.cassette.tape import plays_only
from youden.judging.config.reading import JudgeConfig
from youden.judging.question.parsing import Reading, no_reading
from youden.judging.question.questions import Questions
from youden.judging.store.answers import BATCH, LINGER, Store
from youden.judging.store.arriving import VerdictColumns
from youden.judging.store.lookup import Known, look_up
from youden.nouns import Completion, Plan, Pool

GIVEN_UP_AT_START = 3
"""So many requests given up on before anything was answered end the run."""

MOST_ASLEEP = 2000
"""Calls that may wait for another try at once; nothing new is sent while there are more."""

CHUNK = 100
"""Trials looked up at once: a few milliseconds of work, so that replies do not wait for it."""


@dataclass(frozen=True)
class Terms:
    """What a run puts up with, and who watches it.

    max_missing: share of trials without an answer above which it stops. retry_failed: whether it asks again what has none.
    """

    max_missing: float = 0.01
    retry_failed: bool = False
    sight: Sight = field(default_factory=Sight)


def at_risk(config: JudgeConfig) -> int:
    """Most calls that were sent and whose answers are not on disk, whenever the process dies."""
    return config.concurrency + BATCH


class Asking:
    """One run over a plan. Make it, `await go()`, read `columns`."""

    def __init__(
        self,
        plan: Plan,
        pool: Pool,
        *,
        caller: Caller,
        config: JudgeConfig,
        questions: Questions,
        store: Store,
        terms: Terms,
    ) -> None:
        self.columns = VerdictColumns(len(plan))
        self._plan = plan
        self._pool = pool
        self._caller = caller
        self._config = config
        self._questions = questions
        self._store = store
        self._terms = terms
        self._policy = RetryPolicy(config.max_tries, config.backoff)
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._calls: dict[str, Call] = {}
        self._asleep: dict[str, asyncio.TimerHandle] = {}
        self._just_answered: set[str] = set()
        self._moved = asyncio.Event()
        self._n_answered = 0
        self._n_given_up = 0
        self._why: Callable[[], YoudenError] | None = None

    async def go(self) -> None:
        """Ask until every trial has an answer or a reason why not.

        Raises: JudgeError, BudgetError, TooManyMissingError once the calls in flight have ended.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._config.concurrency):
                    group.create_task(self._work())
                flushing = group.create_task(self._flush_now_and_then())
                group.create_task(self._dispatch()).add_done_callback(lambda _: flushing.cancel())
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        finally:
            self._wake_nobody()
        if self._why is not None:
            raise self._why()

    async def _dispatch(self) -> None:
        try:
            await self._route_all()
        except YoudenError as error:
            self._stop_with(error)
        while self._calls:
            await self._something_moves()
        for _ in range(self._config.concurrency):
            self._queue.put_nowait(None)

    async def _route_all(self) -> None:
        for chunk in look_up(self._questions, self._plan, self._pool, self._store, size=CHUNK):
            self._just_answered.clear()
            for known in chunk:
                while self._is_busy() and not self._stopped:
                    await self._something_moves()
                if self._stopped:
                    return
                self._route(known)
            await asyncio.sleep(0)

    def _is_busy(self) -> bool:
        return self._queue.qsize() >= self._config.concurrency or len(self._asleep) >= MOST_ASLEEP

    async def _something_moves(self) -> None:
        self._moved.clear()
        await self._moved.wait()

    def _route(self, known: Known) -> None:
        """Take what the store has, join a call in flight, or queue a new one."""
        if known.key in self._calls:
            self._calls[known.key].rows.extend(known.rows)
            return
        completion = known.completion
        if known.key in self._just_answered:
            completion = self._store.answers([known.key]).get(known.key)
        if (reading := self._settled(known, completion)) is not None:
            self._put(known.rows, known.key, reading, completion, stored=True)
            return
        self._calls[known.key] = Call(known.key, known.request, list(known.rows))
        self._queue.put_nowait(known.key)

    def _settled(self, known: Known, completion: Completion | None) -> Reading | None:
        """What is known without a call; None where the judge has to be asked."""
        if completion is not None:
            reading = self._questions.read(completion)
            again = self._terms.retry_failed and reading.missing != "answered"
            return None if again and known.key not in self._just_answered else reading
        if known.failure is not None and known.failure.kind == "rejected" and not self._terms.retry_failed:
            return no_reading("failed")
        return None if self._questions.fits(known.request) else no_reading("not_asked")

    async def _work(self) -> None:
        slots, more = self._caller.slots, True
        while more:
            await slots.acquire()
            try:
                key = await self._queue.get()
                more = key is not None
                if key is not None:
                    self._moved.set()
                    await self._settle(key, self._calls[key])
            finally:
                slots.release()

    async def _settle(self, key: str, call: Call) -> None:
        """One try, and what follows from it."""
        if self._stopped:
            self._forget(key)
            return
        try:
            completion = await self._caller.attempt(call)
        except OutOfMoneyError:
            self._stop(self._out_of_money)
            self._forget(key)
        except CallError as error:
            self._failed(key, call, error)
        else:
            self._answered(key, call, completion)

    def _answered(self, key: str, call: Call, completion: Completion) -> None:
        self._n_answered += 1
        self._just_answered.add(key)
        self._keep(key, completion)
        self.columns.bill(call.rows[0], usd=call.usd, completion=completion)
        reading = self._questions.read(completion)
        self._put(call.rows, key, reading, completion, usd=call.usd)
        self._terms.sight.tell(
            "call",
            key=key,
            outcome=reading.missing,
            seconds=round(completion.seconds, 4),
            tokens_in=completion.tokens_in,
            tokens_out=completion.tokens_out,
            usd=call.usd,
            model=completion.model,
        )
        self._forget(key)

    def _failed(self, key: str, call: Call, error: CallError) -> None:
        """Try again later, give up on the trial, or end the run."""
        sight = self._terms.sight
        sight.tell("failure", key=key, kind=error.kind, status=error.status, reason=error.reason)
        if error.status == TOO_MANY and error.kind == "retry":
            sight.throttled()
        if error.kind == "stop":
            self._stop(lambda: self._ends_the_run(error))
        elif not self._stopped and (seconds := self._policy.wait(call.tries, error)) is not None:
            self._asleep[key] = asyncio.get_running_loop().call_later(seconds, self._wake, key)
            return
        elif not (self._stopped and error.kind == "retry"):
            self._give_up(key, call, error)
        self._forget(key)

    def _give_up(self, key: str, call: Call, error: CallError) -> None:
        self._n_given_up += 1
        at_start = not self._n_answered and not plays_only()
        if at_start and self._n_given_up >= min(GIVEN_UP_AT_START, len(self._plan)):
            self._stop(lambda: self._ends_the_run(error))
        self._keep(key, Failure(error.kind, error.status, error.reason))
        self.columns.bill(call.rows[0], usd=call.usd)
        self._put(call.rows, key, no_reading("failed"), None, usd=call.usd)

    def _wake(self, key: str) -> None:
        del self._asleep[key]
        self._queue.put_nowait(key)
        self._moved.set()

    def _wake_nobody(self) -> None:
        for key, timer in self._asleep.items():
            timer.cancel()
            self._forget(key)
        self._asleep.clear()

    def _forget(self, key: str) -> None:
        del self._calls[key]
        self._moved.set()

    def _keep(self, key: str, outcome: Completion | Failure) -> None:
        try:
            self._store.add(key, outcome)
        except YoudenError as error:
            self._stop_with(error)

    async def _flush_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(LINGER)
            try:
                self._store.flush()
            except YoudenError as error:
                self._stop_with(error)

    def _put(
        self,
        rows: list[int] | tuple[int, ...],
        key: str,
        reading: Reading,
        completion: Completion | None,
        *,
        usd: float = 0.0,
        stored: bool = False,
    ) -> None:
        self.columns.put(rows, key, reading, completion=completion, stored=stored)
        self._terms.sight.advance(len(rows), missing=reading.missing, usd=usd, stored=stored)
        n_done, n_missing = self.columns.n_done, self.columns.n_missing
        if n_missing and n_done >= LOOKED_AT_FROM and n_missing > self._terms.max_missing * n_done:
            self._stop(self._too_many_missing)

    @property
    def _stopped(self) -> bool:
        return self._why is not None

    def _stop(self, why: Callable[[], YoudenError]) -> None:
        """End the run after the calls in flight. The first reason stands."""
        self._why = self._why or why
        self._caller.stopped = True
        self._wake_nobody()
        self._moved.set()

    def _stop_with(self, error: YoudenError) -> None:
        self._stop(lambda: error)

    def _ends_the_run(self, error: CallError) -> YoudenError:
        return ends_the_run(error, judge=self._config.name, address=self._config.address)

    def _out_of_money(self) -> BudgetError:
        return out_of_money(self._caller.budget, self.columns, n_trials=len(self._plan))

    def _too_many_missing(self) -> TooManyMissingError:
        return too_many_missing(self.columns, max_missing=self._terms.max_missing)
