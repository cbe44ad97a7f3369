"""Send requests: this is the only loop that does so, for all work whose outcomes are not in the store.

Judging, calibration and the generation of texts all use it, one at a time or several at once. `Dispatcher` finds the
requests to send, `CallQueue` orders them, `Caller` makes one attempt, `Outcomes` decides how a call ends, and a `Work`
defines the requests. A lease is the exclusive right of a process to send a request.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from threading import Lock
from types import TracebackType

from youden.errors import IncompleteRunError, YoudenError
from youden.judging.call.budget import OutOfMoneyError
from youden.judging.call.failures import TOO_MANY_REQUESTS, CallError, is_no_response
from youden.judging.call.retries import RetryPolicy
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.scheduler.calling import Caller
from youden.judging.scheduler.outcomes import Outcomes
from youden.judging.scheduler.queue import CallQueue, Dispatcher
from youden.judging.scheduler.shutdown import (
    StopReason,
    make_batches_pending_error,
    make_blocked_error,
    make_outage_error,
    wait_with_grace,
)
from youden.judging.store.answers import FLUSH_INTERVAL_SECONDS, MAX_PENDING_WRITES
from youden.judging.store.plan_answers import Call
from youden.judging.store.worker_group import HEARTBEAT_SECONDS, WorkerGroup
from youden.text.sentences import format_count
from youden.types import Completion


def max_unsaved_calls(config: JudgeConfig) -> int:
    """Return the maximum number of paid answers, in flight or not yet stored, that are lost if the process dies."""
    return config.concurrency + MAX_PENDING_WRITES


class RequestLoop:
    """Sends all requests of some work whose outcomes are not in the store.

    The store is accessed only from other threads, so that no reply waits for it.

    Parameters
    ----------
    outcomes : Outcomes
        Outcomes of the work.
    caller : Caller
        Sends the calls.
    workers : WorkerGroup, optional
        The other processes that work on the same run; None if there are none.
    """

    def __init__(self, outcomes: Outcomes, *, caller: Caller, workers: WorkerGroup | None = None) -> None:
        self._outcomes = outcomes
        self._store, self._stop, self._log = outcomes.store, outcomes.stop, outcomes.log
        self.budget = caller.budget
        self._caller = caller
        self._config = caller.config
        self._workers = workers
        self._policy = RetryPolicy(caller.config.max_tries, caller.config.backoff)
        self._queue = CallQueue(caller.config.concurrency)
        self._dispatcher = Dispatcher(outcomes, queue=self._queue, caller=caller)
        self._caller.has_lease = self._dispatcher.has_lease
        self._n_in_flight = 0
        self._n_cancelled = 0
        self._first_failure_lock = asyncio.Lock()
        self._flush_needed, self._flushed = asyncio.Event(), asyncio.Event()
        self._stop.on_stop.append(self._stop_sending)

    async def run(self) -> None:
        """Send requests until each trial has an answer or a failure, or until the run has to end.

        A trial whose request is part of a batch in progress gets no answer here. If there are such trials, the run ends with
        the error [batch-awaited]. No error of a call or of the store is raised: the shared `StopReason` records it.
        """
        try:
            async with _open_task_group() as group:
                for _ in range(self._config.concurrency):
                    group.create_task(self._send_queued_calls())
                maintenance_task = group.create_task(self._maintain_until_cancelled())
                await self._dispatch_and_wait()
                maintenance_task.cancel()
        finally:
            self._queue.cancel_waiting()

        if not self._stop.is_stopped:
            self._outcomes.store_failures()
        n_batched_rows = self._dispatcher.n_batched_rows
        if n_batched_rows:
            self._stop.request_stop_with_error(make_batches_pending_error(n_batched_rows, store=self._store.name))

    def release_leases(self) -> None:
        """Release the leases on requests that were not sent, and report how many calls in flight were cancelled.

        The provider may bill a cancelled call, although its answer is lost. If the store cannot be written, the leases expire
        after some time.
        """
        if self._n_cancelled:
            self._log.announce(
                "cut",
                f"{format_count(self._n_cancelled, 'call', 'was', 'were')} cut off; they may be billed, "
                "and the same command sends them again",
            )
        with suppress(YoudenError):
            self._store.flush()
            self._dispatcher.leases.release()

    def announce_shutdown(self, grace: float) -> None:
        """Tell the user how long calls in flight may take."""
        calls = format_count(self._n_in_flight, "call")
        self._log.announce(
            "stopping", f"stopping: {calls} in flight may take up to {grace:g} s to be answered and stored"
        )

    async def _dispatch_and_wait(self) -> None:
        """Queue the calls of all requests, and wait until all calls have ended. Then let the tasks that send calls end.

        Some requests may be sent only by other processes, which hold the leases on them. The calls of these requests end when
        the other processes have stored the outcomes. An error, for example of the store, ends the run.
        """
        try:
            await self._join_rate_limits()
            await self._dispatcher.dispatch_all()
        except YoudenError as error:
            self._stop.request_stop_with_error(error)

        while self._queue.open_calls or self._dispatcher.calls_of_other_processes:
            await self._queue.wait_for_change()
        self._queue.stop_workers()

    async def _join_rate_limits(self) -> None:
        """Take a share of the rate limits, and wait until other processes of the run have reduced theirs."""
        if self._workers is None or self._workers.others.n_sending == 0:
            return
        self._adapt_to_other_processes()
        if self._caller.rate_limiter.is_limited:
            await asyncio.sleep(2 * HEARTBEAT_SECONDS)  # each process adapts its share at its next report

    async def _send_queued_calls(self) -> None:
        """Take calls from the queue and send them, one at a time, until the queue has no more calls.

        Several tasks run this method concurrently, one per call that may be in flight. The concurrency limiter, which adapts to
        the server, can admit fewer calls. During an outage of the server, the circuit breaker admits one call at a time, which
        tests whether the server is back.
        """
        concurrency = self._caller.concurrency
        is_active = True
        while is_active:
            await concurrency.acquire()
            try:
                call = await self._queue.next()  # None after the last call
                is_active = call is not None
                if call is not None:
                    async with self._caller.breaker.admit():
                        await self._send_if_leased(call)
            finally:
                concurrency.release()

    async def _send_if_leased(self, call: Call) -> None:
        """Send a call once and handle its outcome, provided that this process may still send the request.

        If the lease may have expired, the call is left to the process that may have the lease now. If the run has to end,
        nothing is sent. The method first waits until most earlier outcomes are on disk, so that few paid answers are lost if
        the process dies.

        call : call from the queue, which stays open until it has an outcome
        """
        await self._wait_for_flush()
        if self._stop.is_stopped:
            self._queue.close(call)
            return
        if not self._dispatcher.has_lease(call):
            self._leave_to_other_process(call)
            return

        self._n_in_flight += 1
        try:
            await self._send_and_handle_outcome(call)
        finally:
            self._n_in_flight -= 1
            if self._store.n_pending >= MAX_PENDING_WRITES // 2:
                self._flush_needed.set()

    async def _send_and_handle_outcome(self, call: Call) -> None:
        """Make one attempt at a call, record its cost, and decide by its outcome what happens to the call.

        An answer ends the call. After a failure, the call ends or is sent again. If the lease on its request may have expired
        meanwhile, it is left to another process. If the budget does not allow the call, the run ends.

        call : call whose request this process may send
        """
        call.last_attempt_usd = 0.0  # the cost of its previous attempt is booked already
        try:
            completion = await self._probe_and_attempt(call)
        except asyncio.CancelledError:
            self._n_cancelled += 1
            self._outcomes.record_cost(call.key, call.last_attempt_usd)
            raise
        except OutOfMoneyError:
            self._stop.request_stop(partial(self._outcomes.work.make_budget_error, self.budget))
            self._queue.close(call)
        except CallError as error:
            self._outcomes.record_cost(call.key, call.last_attempt_usd)
            may_be_sent_again = error.kind == "transient" and not self._stop.is_stopped
            if may_be_sent_again and not self._dispatcher.has_lease(call):
                self._leave_to_other_process(call)
            else:
                await self._handle_failure(call, error)
        else:
            self._outcomes.record_cost(call.key, call.last_attempt_usd, completion)
            self._handle_answer(call, completion)

    async def _probe_and_attempt(self, call: Call) -> Completion:
        """Make one attempt at a call, and return its answer.

        The call may itself be the cause of an outage. In this case, a request that was already answered is sent again first,
        to test whether the server works.

        Raises: CallError if the test or the attempt fails, OutOfMoneyError if the budget does not allow it.
        """
        if self._caller.breaker.needs_other_probe(call.attempts):
            await self._probe_with_answered_request(call)
        return await self._caller.attempt(call)

    async def _wait_for_flush(self) -> None:
        """Wait while too many outcomes are not on disk yet, unless the run has to end."""
        while self._store.n_pending >= MAX_PENDING_WRITES and not self._stop.is_stopped:
            self._flushed.clear()
            await self._flushed.wait()

    def _leave_to_other_process(self, call: Call) -> None:
        """Wait for another process to answer a call, because our lease on its request may have expired."""
        self._queue.close(call)
        self._dispatcher.calls_of_other_processes[call.key] = call

    def _handle_answer(self, call: Call, completion: Completion) -> None:
        """End a call with its answer."""
        self._record_reply(is_answer=True)
        self._outcomes.record_answer(call, completion)
        if self._workers is not None:
            self._workers.answered += 1
        self._queue.close(call)

    async def _handle_failure(self, call: Call, error: CallError) -> None:
        """Decide what follows a failed attempt: wait until an outage is over, send the call again, or end it.

        call : the call, whose cost is recorded already
        error : why the attempt failed
        """
        self._log_failure(call, error)
        is_throttled = error.status == TOO_MANY_REQUESTS and error.kind == "transient"
        if is_throttled and self._caller.learned_rate.is_blocked:
            make_error = partial(make_blocked_error, error, judge=self._config.name, address=self._config.address)
            self._stop.request_stop(make_error)
        is_stopped = self._stop.is_stopped
        if not is_stopped and self._set_aside_in_outage(call, error):
            return
        has_server_replied = not is_no_response(error)
        if has_server_replied:
            self._record_reply(is_answer=False)

        seconds_until_retry = None  # do not send the call again
        if not is_stopped:
            seconds_until_retry = self._policy.count_failure_and_compute_wait(call.attempts, error)
        ends_run = error.kind == "fatal"
        if seconds_until_retry is None and not ends_run and self._caller.backend.live:
            await self._test_server_before_first_answer(call)  # the server may be at fault instead of the request
        self._record_failure(call, error, seconds_until_retry)

    def _record_failure(self, call: Call, error: CallError, seconds_until_retry: float | None) -> None:
        """Record a failed attempt in the outcomes, and end the call or put it back into the queue.

        error : why the attempt failed
        seconds_until_retry : time until the next attempt; None if the call must not be sent again
        """
        has_ended = self._outcomes.record_failure(call, error, may_retry=seconds_until_retry is not None)
        if has_ended:
            self._queue.close(call)
        else:
            self._queue.back_off(call, seconds_until_retry or 0.0)

    def _log_failure(self, call: Call, error: CallError) -> None:
        """Write a failed attempt to the log, and count it if the server asked to send fewer requests (HTTP 429)."""
        self._log.write_event("failure", key=call.key, kind=error.kind, status=error.status, reason=error.reason)
        if error.status == TOO_MANY_REQUESTS and error.kind == "transient":
            self._log.record_throttled()

    def _set_aside_in_outage(self, call: Call, error: CallError) -> bool:
        """Set a call aside if it failed because of an outage of the judge's server, and return whether it was set aside.

        The call is sent again after the outage, and the failure does not count as an attempt. A judge with several servers has an
        outage only if none of them works. If the outage lasts too long, the end of the run is requested.

        call : the call that failed
        error : why the attempt failed
        """
        if self._caller.backend.has_fallback_server:
            return False
        breaker = self._caller.breaker
        was_outage_known = breaker.is_open
        is_outage = breaker.record_failure(call.attempts, error)
        if not is_outage:
            return False

        self._queue.hold(call)
        if not was_outage_known:
            self._announce_outage(error)
        if breaker.timed_out:
            self._request_stop_after_outage(error)
        return True

    def _request_stop_after_outage(self, error: CallError) -> None:
        """Request the end of the run because an outage has lasted too long; `error` is the last failure."""
        make_error = partial(
            make_outage_error,
            error,
            judge=self._config.name,
            address=self._config.address,
            outage=self._caller.breaker.max_outage,
        )
        self._stop.request_stop(make_error)

    def _announce_outage(self, error: CallError) -> None:
        """Tell the user that an outage has begun, with the failure that showed it."""
        self._log.announce(
            "away",
            f"'{self._config.name}' at {self._config.address} does not respond ({error.reason}); one request at a time tests "
            f"whether it is back, for up to {self._caller.breaker.max_outage:g} s",
        )

    async def _test_server_before_first_answer(self, call: Call) -> None:
        """Test whether the server works at all, if a call has failed before any call of this run was answered.

        The test sends a request that was answered in an earlier run, if there is one. If the server answers it, the failure is
        the fault of the call. Nothing is sent if the run has to end.

        call : the call that failed, to which the cost of the test is added
        """
        async with self._first_failure_lock:
            if not self._stop.has_answers and not self._stop.is_stopped:
                with suppress(CallError, OutOfMoneyError):
                    await self._probe_with_answered_request(call)

    def _record_reply(self, *, is_answer: bool) -> None:
        """Record that the server replied, by an answer or an error; if this ends an outage, send the waiting calls."""
        outage_seconds = self._caller.breaker.record_reply(is_answer=is_answer)
        if outage_seconds is not None:
            self._queue.release_held()
            self._log.announce("back", f"'{self._config.name}' is back after {outage_seconds:.0f} s")

    async def _probe_with_answered_request(self, call: Call) -> None:
        """Send a request that was answered before; the reply shows whether the server or `call` is at fault.

        Without such a request, nothing is sent. The reply is not stored, and its cost is added to `call`.

        Raises: CallError, if the server does not respond or the error would affect every call.
        """
        answered_call = self._outcomes.last_answered_call
        if answered_call is None:
            return
        probe = Call(answered_call.key, answered_call.rows, answered_call.cached, answered_call.make_request)
        probe.n_lease_losses = call.n_lease_losses  # it is sent in place of `call`
        try:
            await self._caller.attempt(probe)
        except CallError as error:
            if is_no_response(error) or error.kind == "fatal":
                raise
            self._record_reply(is_answer=False)
        else:
            self._stop.record_answer()  # the server works, so that later failures do not end the run
            self._record_reply(is_answer=True)  # ends an outage
        finally:
            call.usd += probe.usd  # reported with the outcome of `call`
            self._outcomes.record_cost(call.key, probe.usd)  # entry in the cost account of the run

    async def _maintain_until_cancelled(self) -> None:
        """Regularly write outcomes to the store, renew the leases, and check the answers of other processes.

        Outcomes are written every `FLUSH_INTERVAL_SECONDS`, and earlier if many are not on disk yet. The answers of other
        processes are checked at most once per interval. An error of the store ends the run, but not this method, which runs until
        its task is cancelled.
        """
        last_check = time.monotonic()
        while True:
            await self._wait_until_flush_is_due()
            try:
                await self._run_maintenance_round()

                # a flush because of many outcomes may come earlier than the next check
                is_check_due = time.monotonic() - last_check >= FLUSH_INTERVAL_SECONDS
                if is_check_due and not self._stop.is_stopped:
                    await self._dispatcher.check_calls_of_other_processes()
                    last_check = time.monotonic()
                    self._queue.notify_change()
            except YoudenError as error:
                self._stop.request_stop_with_error(error)

    async def _wait_until_flush_is_due(self) -> None:
        """Wait for one flush interval, or until many outcomes are not on disk yet."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_INTERVAL_SECONDS):
                await self._flush_needed.wait()
        self._flush_needed.clear()

    async def _run_maintenance_round(self) -> None:
        """Run one round of maintenance: store outcomes, renew leases, and adapt the rate limits to other processes.

        If the leases may have expired, the calls that are not in flight are left to other processes. If all calls are set aside
        in an outage of the server, they are queued again: the next one tests the server.

        Raises: YoudenError if the store cannot be written.
        """
        if self._dispatcher.leases.maybe_expired:
            self._leave_unsent_calls_to_other_processes()
        await asyncio.to_thread(self._flush_and_renew)
        self._flushed.set()  # ends the wait of `_wait_for_flush`
        self._adapt_to_other_processes()
        if self._queue.is_empty:
            self._queue.release_held()  # queues the calls again that were set aside

    def _leave_unsent_calls_to_other_processes(self) -> None:
        """Wait for other processes to answer all calls that are not in flight, because our leases may have expired."""
        for call in self._queue.remove_unsent_calls():
            self._dispatcher.calls_of_other_processes[call.key] = call

    def _flush_and_renew(self) -> None:
        """Write all outcomes to the store, then renew the leases on the requests; runs in another thread."""
        self._store.flush()
        self._dispatcher.leases.renew()

    def _adapt_to_other_processes(self) -> None:
        """Adapt this process to the number of other processes that send requests for the same run.

        The rate limits of the provider hold for all processes together, so this process takes an equal share of them. The
        progress display shows how many other processes there are, and how many answers they have received. If this process
        cannot report to the other processes any more, the end of the run is requested. Without a worker group, nothing is done.
        """
        if self._workers is None:
            return
        others = self._workers.others  # read once, because another thread replaces it
        self._caller.share_limits(others.n_sending, n_answered=others.answered)
        self._log.report_workers(others.n_sending, answered=others.answered)

        report_error = self._workers.report_error
        if report_error is not None:
            self._stop.request_stop_with_error(report_error)

    def _stop_sending(self) -> None:
        """Send no more calls, and close all calls that are not in flight, because the run has to end."""
        self._caller.stop()
        self._flushed.set()
        self._dispatcher.calls_of_other_processes.clear()
        self._queue.cancel_waiting()


MIN_ALLOCATIONS_PER_COLLECTION = 20_000
"""Number of new objects after which the garbage collector runs while calls are sent."""


class GarbageCollection:
    """Context manager that runs Python's garbage collector more rarely inside its blocks.

    A call allocates many objects and no reference cycles that grow. With Python's default of 700 allocations, an eighth
    of the CPU time of a call would be spent on traversing objects that are in use. The thresholds belong to the process:
    if blocks overlap, the last one to end restores them.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._n_blocks = 0
        self._thresholds = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            self._n_blocks += 1
            if self._n_blocks == 1:
                self._thresholds = gc.get_threshold()
                threshold, *older = self._thresholds
                if threshold > 0:  # 0: the collector is off
                    gc.set_threshold(max(threshold, MIN_ALLOCATIONS_PER_COLLECTION), *older)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._n_blocks -= 1
            if self._n_blocks == 0:
                gc.set_threshold(*self._thresholds)


INFREQUENT_GARBAGE_COLLECTION = GarbageCollection()
"""Context that is shared by all runs of the process and entered while calls are sent."""


async def run_loops(loops: Sequence[RequestLoop], stop_reason: StopReason, *, grace: float) -> None:
    """Run loops concurrently until all requests are answered or the run has to end.

    The leases of all loops are released at the end.

    Parameters
    ----------
    loops : sequence of RequestLoop
        Loops that share `stop_reason`.
    stop_reason : StopReason
        Record of why the run ends before all requests are answered. The loops write to it, and so does this coroutine if it
        is cancelled.
    grace : float
        Seconds that calls in flight may take after this coroutine is cancelled.

    Raises
    ------
    YoudenError
        The error in `stop_reason`, after the calls in flight have ended.
    asyncio.CancelledError
        If this coroutine was cancelled. The calls in flight have then ended, or were cancelled after `grace` seconds.
    Exception
        An error other than CallError that a backend raises. The other loops are then cancelled.
    """
    stop = partial(_stop_after_signal, loops, stop_reason, grace)
    try:
        with INFREQUENT_GARBAGE_COLLECTION:
            running = asyncio.create_task(_run_concurrently(loops))
            await wait_with_grace(running, stop=stop, grace=grace)
    finally:
        for loop in loops:
            loop.release_leases()
    budgets = [loop.budget for loop in loops]
    stop_reason.raise_if_stopped(*budgets)  # adds notes about estimated costs to the error


def _stop_after_signal(loops: Sequence[RequestLoop], stop_reason: StopReason, grace: float) -> None:
    """Announce the grace period in seconds, and record that a signal stopped the run."""
    for loop in loops:
        loop.announce_shutdown(grace)
    message = "A stop signal ended the run. All answers are stored; run the same command again to resume."
    stop_reason.request_stop_with_error(IncompleteRunError(message, slug="stopped"))


async def _run_concurrently(loops: Sequence[RequestLoop]) -> None:
    """Run all loops until they end; the first error of one cancels the others and is raised."""
    async with _open_task_group() as group:
        for loop in loops:
            group.create_task(loop.run())


@asynccontextmanager
async def _open_task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Open a task group that raises the first error of its tasks, not an exception group that contains it."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
