"""The one loop that asks: everything that has a key and a request and that the store does not know.

Judging, calibrating and generating texts all go through it, alone or side by side. `Routing` says what is left to ask,
`CallQueue` who is next, `Caller` makes one try, `Outcomes` decides how a call ends, and a `Work` says what is asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from youden.errors import ShortRunError, YoudenError
from youden.judging.call.budget import OutOfMoneyError
from youden.judging.call.failures import TOO_MANY_REQUESTS, CallError, is_silence
from youden.judging.call.retries import RetryPolicy
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.scheduler.calling import Caller
from youden.judging.scheduler.outcomes import Outcomes
from youden.judging.scheduler.queue import CallQueue, Routing
from youden.judging.scheduler.shutdown import StopReason, awaited, away_too_long, drained
from youden.judging.store.answers import LINGER, MOST_UNWRITTEN
from youden.judging.store.plan_answers import Call
from youden.judging.store.worker_group import BEAT, Team
from youden.text.sentences import counted
from youden.types import Completion


def at_risk(config: JudgeConfig) -> int:
    """Most calls that were sent and whose answers are not on disk, whenever the process dies."""
    return config.concurrency + MOST_UNWRITTEN


class Loop:
    """Asks the backend of `caller` all of the work of `outcomes` that its store does not know. team: who else asks the same run.

    The store is used by other threads alone, so that no reply waits for it.
    """

    def __init__(self, outcomes: Outcomes, *, caller: Caller, team: Team | None = None) -> None:
        self._outcomes = outcomes
        self._store, self._stop, self._log = outcomes.store, outcomes.stop, outcomes.log
        self.budget = caller.budget
        self._caller = caller
        self._config = caller.config
        self._team = team
        self._policy = RetryPolicy(caller.config.max_tries, caller.config.backoff)
        self._queue = CallQueue(caller.config.concurrency)
        self._routing = Routing(outcomes, queue=self._queue, caller=caller)
        self._caller.is_held = lambda: not self._routing.claims.doubtful
        self._n_in_flight = self._n_cut = self._n_doubts = 0
        self._once = asyncio.Lock()
        self._to_write, self._written = asyncio.Event(), asyncio.Event()
        self._stop.on_stop.append(self._stop_sending)

    async def go(self) -> None:
        """Ask until every row has an answer or a reason why not, or the run has to end."""
        try:
            async with _task_group() as group:
                for _ in range(self._config.concurrency):
                    group.create_task(self._work_off())
                background = group.create_task(self._now_and_then())
                group.create_task(self._dispatch()).add_done_callback(lambda _: background.cancel())
        finally:
            self._queue.close_sleepers()
        if not self._stop.stopped:
            self._outcomes.keep_failures()
        if self._routing.n_awaited:
            self._stop.stop_with(awaited(self._routing.n_awaited, store=self._store.name))

    def let_go(self) -> None:
        """Give up the claims on what was not asked; those in a store that cannot be written end by themselves."""
        if self._n_cut:
            self._log.say(
                "cut",
                f"{counted(self._n_cut, 'call', 'was', 'were')} cut off: that may cost, and the same command asks again",
            )
        with suppress(YoudenError):
            self._store.flush()
            self._routing.claims.finish()

    def say_stopping(self, grace: float) -> None:
        """Tell who watches what happens now."""
        n = self._n_in_flight
        what = f"{counted(n, 'call')} in flight may take up to {grace:g} s to be answered and stored"
        self._log.say("stopping", f"stopping: {what}")

    async def _dispatch(self) -> None:
        try:
            if self._team is not None and self._team.others.n_asking:
                self._share()
                if self._caller.pace.limited:
                    await asyncio.sleep(2 * BEAT)  # the others learn of this worker before it sends its share
            await self._routing.route_all()
        except YoudenError as error:
            self._stop.stop_with(error)
        while self._queue.open or self._routing.elsewhere:
            await self._queue.something_moves()
        self._queue.end()

    async def _work_off(self) -> None:
        concurrency, more = self._caller.concurrency, True
        while more:
            await concurrency.acquire()
            try:
                call = await self._queue.next()
                more = call is not None
                if call is not None:
                    async with self._caller.breaker.admit():
                        await self._try(call)
            finally:
                concurrency.release()

    async def _try(self, call: Call) -> None:
        """One try, and what follows from it."""
        while self._store.n_unwritten >= MOST_UNWRITTEN and not self._stop.stopped:
            self._written.clear()
            await self._written.wait()
        if self._stop.stopped or self._routing.claims.doubtful:
            self._queue.close(call)
            if not self._stop.stopped:
                self._routing.elsewhere[call.key] = call
            return
        self._n_in_flight += 1
        n_doubts = self._n_doubts
        call.last_usd = 0.0  # its last try is booked already
        try:
            if self._caller.breaker.needs_other_probe(call.attempts):
                await self._probe_with_answered_call(call)
            completion = await self._caller.attempt(call)
        except asyncio.CancelledError:
            self._n_cut += 1
            self._outcomes.paid(call.key, call.last_usd)
            raise
        except OutOfMoneyError:
            self._stop.stop(lambda: self._outcomes.work.out_of_money(self._caller.budget))
            self._queue.close(call)
        except CallError as error:
            self._outcomes.paid(call.key, call.last_usd)
            lapsed = n_doubts < self._n_doubts or not self._caller.is_held()
            if lapsed and error.kind == "retry" and not self._stop.stopped:
                self._queue.close(call)
                self._routing.elsewhere[call.key] = call
            else:
                await self._failed(call, error)
        else:
            self._outcomes.paid(call.key, call.last_usd, completion)
            self._answered(call, completion)
        finally:
            self._n_in_flight -= 1
            if self._store.n_unwritten >= MOST_UNWRITTEN // 2:
                self._to_write.set()

    def _answered(self, call: Call, completion: Completion) -> None:
        self._record_reply(is_answer=True)
        self._outcomes.answered(call, completion)
        if self._team is not None:
            self._team.answered += 1
        self._queue.close(call)

    async def _failed(self, call: Call, error: CallError) -> None:
        """Wait for the server, try again later, or let the call end."""
        self._log.tell("failure", key=call.key, kind=error.kind, status=error.status, reason=error.reason)
        if error.status == TOO_MANY_REQUESTS and error.kind == "retry":
            self._log.throttled()
        stopped, breaker = self._stop.stopped, self._caller.breaker
        was_open = breaker.is_open
        if not stopped and not self._caller.backend.has_others and breaker.record_failure(call.attempts, error):
            self._queue.park(call)
            self._report_outage(error, was_open=was_open)
            return
        if not is_silence(error):
            self._record_reply(is_answer=False)
        seconds = None if stopped else self._policy.next_wait(call.attempts, error)
        if seconds is None and error.kind != "stop" and self._caller.backend.live:
            async with self._once:
                if not self._stop.any_answered and not self._stop.stopped:
                    with suppress(CallError, OutOfMoneyError):
                        await self._probe_with_answered_call(call)
        if self._outcomes.failed(call, error, again=seconds is not None):
            self._queue.close(call)
        else:
            self._queue.sleep(call, seconds or 0.0)

    def _report_outage(self, error: CallError, *, was_open: bool) -> None:
        """Report an outage once, and end the run if it lasts too long."""
        judge, address, longest = self._config.name, self._config.address, self._caller.breaker.max_outage
        if not was_open:
            self._log.say(
                "away",
                f"'{judge}' at {address} is away ({error.reason}); one call at a time looks whether it is back, for up to "
                f"{longest:g} s",
            )
        if self._caller.breaker.timed_out:
            self._stop.stop(lambda: away_too_long(error, judge=judge, address=address, outage=longest))

    def _record_reply(self, *, is_answer: bool) -> None:
        seconds = self._caller.breaker.record_reply(is_answer=is_answer)
        if seconds is not None:
            self._queue.unpark()
            self._log.say("back", f"'{self._config.name}' is back after {seconds:.0f} s")

    async def _probe_with_answered_call(self, call: Call) -> None:
        """Ask what was answered before, at the expense of `call`: whether the server is away, or such calls as this break it.

        Raises: CallError where it is away.
        """
        good = self._outcomes.known_good
        if good is None:
            return
        other = Call(good.key, good.rows, good.known, good.ask)
        try:
            await self._caller.attempt(other)
        except CallError as error:
            if is_silence(error) or error.kind == "stop":
                raise
            self._record_reply(is_answer=False)
        else:
            self._stop.answered()
            self._record_reply(is_answer=True)
        finally:
            call.usd += other.usd
            self._outcomes.paid(call.key, other.usd)

    async def _now_and_then(self) -> None:
        """Write what came, hold what is claimed, and look for what others were asked."""
        looked = time.monotonic()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER):
                    await self._to_write.wait()
            self._to_write.clear()
            try:
                if self._routing.claims.doubtful:
                    self._n_doubts += 1
                    self._routing.elsewhere |= {call.key: call for call in self._queue.recall()}
                await asyncio.to_thread(self._write)
                self._written.set()
                self._share()
                if self._queue.is_empty:
                    self._queue.unpark()
                if time.monotonic() - looked >= LINGER and not self._stop.stopped:
                    await self._routing.look_elsewhere()
                    looked = time.monotonic()
                    self._queue.moved()
            except YoudenError as error:
                self._stop.stop_with(error)

    def _write(self) -> None:
        self._store.flush()
        self._routing.claims.renew()

    def _share(self) -> None:
        """Take this member's part of what is allowed to all."""
        if self._team is not None:
            self._caller.share(1 + self._team.others.n_asking)
            self._log.beside(self._team.others.n_asking, answered=self._team.others.answered)
            if self._team.lost is not None:
                self._stop.stop_with(self._team.lost)

    def _stop_sending(self) -> None:
        self._caller.stop()
        self._written.set()
        self._routing.elsewhere.clear()
        self._queue.close_sleepers()


async def ask_all(loops: Sequence[Loop], reason: StopReason, *, grace: float) -> None:
    """Let loops that share a reason to stop ask side by side. When this is cancelled, calls in flight get `grace` seconds.

    Raises: `reason`, where the run had to end, once the calls in flight have ended; what a backend raises beside CallError;
    CancelledError.
    """

    def stop() -> None:
        for loop in loops:
            loop.say_stopping(grace)
        message = "The run was told to stop. What was answered is kept; run the same again."
        reason.stop_with(ShortRunError(message, slug="stopped"))

    try:
        await drained(asyncio.create_task(_run_all(loops)), stop=stop, grace=grace)
    finally:
        for loop in loops:
            loop.let_go()
    reason.raise_it(*(loop.budget for loop in loops))


async def _run_all(loops: Sequence[Loop]) -> None:
    async with _task_group() as group:
        for loop in loops:
            group.create_task(loop.go())


@asynccontextmanager
async def _task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Run a task group that raises the first error of its tasks itself, without a group around it."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
