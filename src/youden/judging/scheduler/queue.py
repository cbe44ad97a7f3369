"""Find the requests that are still to be sent, and queue them.

For each row, `Dispatcher` finds out whether its outcome is in the store, whether another process sends its request,
or whether it is added to the `CallQueue`. There calls wait until they are sent, or until they may be sent again
after a failure. A row is the position of a trial; several rows may need the same request. A lease is the exclusive right of
a process to send a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from youden.judging.call.failures import Failure, is_final
from youden.judging.scheduler.calling import Caller
from youden.judging.scheduler.outcomes import Outcomes
from youden.judging.scheduler.shutdown import make_batches_pending_error
from youden.judging.store.leases import PendingBatchKeys, read_pending_jobs
from youden.judging.store.plan_answers import Call, iter_call_lists
from youden.types import Completion

MAX_BACKING_OFF = 2000
"""Largest number of calls that wait for another attempt; no new calls are queued while there are more."""


class CallQueue:
    """A queue of calls for a number of workers.

    A call is open from `add` until `close`. A call that waits for another attempt is kept outside the queue, so that it
    occupies no worker.

    Parameters
    ----------
    n_workers : int
        Number of tasks that take calls from the queue.

    Attributes
    ----------
    open_calls : dict of str to Call
        The open calls by key.
    """

    def __init__(self, n_workers: int) -> None:
        self.open_calls: dict[str, Call] = {}
        self._n_workers = n_workers
        self._ready: asyncio.Queue[Call | None] = asyncio.Queue()
        self._waiting: dict[str, asyncio.TimerHandle | None] = {}
        self._changed = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether no new call should be added for now."""
        return self._ready.qsize() >= self._n_workers or len(self._waiting) >= MAX_BACKING_OFF

    def add(self, call: Call) -> None:
        """Add a new call at the end."""
        self.open_calls[call.key] = call
        self._ready.put_nowait(call)

    async def next(self) -> Call | None:
        """Wait for the first call that may be sent, and take it; None after `stop_workers`."""
        call = await self._ready.get()
        self._changed.set()
        return call

    def back_off(self, call: Call, seconds: float) -> None:
        """Put a call at the end of the queue again after some seconds."""
        self._waiting[call.key] = asyncio.get_running_loop().call_later(seconds, self._put_back, call)

    def hold(self, call: Call) -> None:
        """Set a call aside until `release_held`, so that others are sent first."""
        self._waiting[call.key] = None
        self._changed.set()

    def release_held(self) -> None:
        """Put all calls that were set aside by `hold` at the end of the queue again."""
        held_keys = [key for key, timer in self._waiting.items() if timer is None]
        for key in held_keys:
            self._put_back(self.open_calls[key])

    @property
    def is_empty(self) -> bool:
        """Whether no call can be sent now."""
        return self._ready.empty()

    def close(self, call: Call) -> None:
        """Remove a call that has ended."""
        del self.open_calls[call.key]
        self._changed.set()

    def cancel_waiting(self) -> list[Call]:
        """Close all calls that wait for another attempt or were set aside, and return them."""
        calls = []
        for key, timer in self._waiting.items():
            calls.append(self.open_calls[key])
            if timer is not None:
                timer.cancel()
        self._waiting.clear()
        for call in calls:
            self.close(call)
        self._changed.set()
        return calls

    def remove_unsent_calls(self) -> list[Call]:
        """Remove the calls that are in the queue or wait for another attempt, close them, and return them."""
        queued_calls = []
        while not self._ready.empty():
            call = self._ready.get_nowait()  # None: added by `stop_workers`, to end a worker
            if call is not None:
                queued_calls.append(call)
                self.close(call)
        return queued_calls + self.cancel_waiting()

    def notify_change(self) -> None:
        """Wake the task in `wait_for_change`."""
        self._changed.set()

    async def wait_for_change(self) -> None:
        """Wait until a call leaves the queue, ends or may be sent again."""
        self._changed.clear()
        await self._changed.wait()

    def stop_workers(self) -> None:
        """Let every worker get None from `next`."""
        for _ in range(self._n_workers):
            self._ready.put_nowait(None)

    def _put_back(self, call: Call) -> None:
        """Put a call that waited for another attempt at the end of the queue."""
        del self._waiting[call.key]
        self._ready.put_nowait(call)
        self._changed.set()


CHUNK = 128
"""Number of requests that are looked up at a time: a few milliseconds of work, so that replies need not wait for it."""


class _RequestStates(NamedTuple):
    """What the store contains on some requests. A key is the hash of a request."""

    leased_keys: set[str]
    """Keys on which this process has acquired leases."""
    batched_keys: frozenset[str]
    """Keys of all requests in batches in progress."""
    outcomes: dict[str, Completion | Failure]
    """Stored outcomes by key."""
    new_keys: set[str]
    """Keys whose outcome was stored since the start of the group of workers (`WorkerGroup.start_time`)."""


class Dispatcher:
    """Decides for each row of a loop how it gets its outcome.

    The store is accessed only from other threads.

    Parameters
    ----------
    outcomes : Outcomes
        Outcomes of the loop's work.
    queue : CallQueue
        Receives the calls to send.
    caller : Caller
        Sends the calls.

    Attributes
    ----------
    leases : Leases
        The leases of this loop.
    calls_of_other_processes : dict of str to Call
        Calls whose requests other processes send, by key.
    n_batched_rows : int
        Number of rows whose requests are in batches in progress.
    """

    def __init__(self, outcomes: Outcomes, *, queue: CallQueue, caller: Caller) -> None:
        self.leases = outcomes.store.leases()
        self.calls_of_other_processes: dict[str, Call] = {}
        self.n_batched_rows = 0
        self._outcomes = outcomes
        self._work, self._store, self._stop = outcomes.work, outcomes.store, outcomes.stop
        self._queue = queue
        self._caller = caller
        self._batched_keys = PendingBatchKeys(outcomes.store.backend)

    async def dispatch_all(self) -> None:
        """Use the stored outcome of each row, and queue calls for the rows without a stored outcome.

        The method waits while the queue is full, and returns early if the run has to end.
        """
        await self._announce_batches()
        call_lists = iter_call_lists(
            self._work.iter_row_keys(), self._store, make_request=self._work.request, size=CHUNK
        )
        n_queued_at_once = self._caller.config.concurrency
        while True:
            calls = await asyncio.to_thread(next, call_lists, None)  # reads the store; None after the last calls
            if calls is None:
                return

            # end the calls with a known outcome, and queue the others
            calls_to_send = [call for call in calls if not self._end_if_outcome_known(call)]
            for start in range(0, len(calls_to_send), n_queued_at_once):
                await self._wait_for_space()
                if self._stop.is_stopped:
                    return
                next_calls = calls_to_send[start : start + n_queued_at_once]
                await self._queue_calls(next_calls)

    async def _wait_for_space(self) -> None:
        """Wait until new calls may be added, or the run has to end."""
        while not self._stop.is_stopped:
            if not self._queue.is_full and len(self.calls_of_other_processes) < MAX_BACKING_OFF:
                return
            await self._queue.wait_for_change()

    def has_lease(self, call: Call) -> bool:
        """Return whether the lease that was acquired on the request of a call is certainly valid."""
        return call.n_lease_losses == self.leases.n_losses and not self.leases.maybe_expired

    async def check_calls_of_other_processes(self) -> None:
        """Check the calls of other processes: take over stored results, and send requests whose leases expired."""
        await self._lease_and_queue(list(self.calls_of_other_processes.values()))

    async def _announce_batches(self) -> None:
        """Tell the user how many rows wait for batches in progress, and count the batches of this run towards the cap."""
        for job in await asyncio.to_thread(read_pending_jobs, self._store.backend):
            if job.account == self._outcomes.options.account:
                self._caller.budget.count_batch(job.id, job.usd)

        n_rows = await asyncio.to_thread(self._count_unanswered_in_batches)
        if n_rows:
            error = make_batches_pending_error(n_rows, store=self._store.name)
            self._outcomes.log.announce("batches", str(error))

    def _count_unanswered_in_batches(self) -> int:
        """Count the trials (rows of the plan) that wait for the answer of a batch in progress."""
        batched_keys = self._batched_keys.read_request_hashes()
        if not batched_keys:
            return 0
        row_keys = self._work.iter_row_keys()  # pairs of a row and the hash of its request
        batched_row_keys = ((row, key) for row, key in row_keys if key in batched_keys)
        call_lists = iter_call_lists(batched_row_keys, self._store, make_request=self._work.request)
        calls = chain.from_iterable(call_lists)
        return sum(len(call.rows) for call in calls if self._get_final_outcome(call) is None)

    def _get_final_outcome(self, call: Call) -> Completion | Failure | None:
        """Return the stored outcome of a call, or None if the call has to be sent."""
        return call.final_outcome(self._work.is_answer, retry_failed=self._outcomes.options.retries(call.key))

    def _end_if_outcome_known(self, call: Call) -> bool:
        """End a call whose outcome is stored, or whose request is too long for the model; return whether the call ended."""
        outcome = self._get_final_outcome(call)
        if outcome is not None:
            self._end_with_stored_outcome(call, outcome)
            return True
        if not self._work.fits(call.request):
            self._outcomes.record_unsent(call, None)
            return True
        return False

    def _end_with_stored_outcome(self, call: Call, outcome: Completion | Failure) -> None:
        """End a call with the outcome that the store contains."""
        if isinstance(outcome, Completion):
            self._caller.breaker.has_answered = True
        self._outcomes.record_unsent(call, outcome)

    async def _queue_calls(self, calls: Sequence[Call]) -> None:
        """Acquire leases on the requests of calls that are to be sent, and queue the calls.

        If an earlier call with the same request has not ended yet, the new call is not queued: its rows are added to those of the
        earlier call.
        """
        new_calls = []
        for call in calls:
            key = call.key
            earlier_call = self._queue.open_calls.get(key) or self.calls_of_other_processes.get(key)
            if earlier_call is not None:
                earlier_call.rows.extend(call.rows)
            else:
                new_calls.append(call)
        await self._lease_and_queue(new_calls)

    async def _lease_and_queue(self, calls: Sequence[Call]) -> None:
        """Acquire leases on the requests of calls, and queue the calls whose requests were leased.

        A call ends at once if another process has stored its outcome in the meantime, or has sent its request in a batch. If
        another process holds the lease on its request, the call waits in `calls_of_other_processes` for the answer.

        Raises: YoudenError, if the judge cannot be made, for example JudgeError [judge-no-key].
        """
        if not calls:
            return
        self._caller.backend.open()  # raises an error about the API key before anything is leased
        n_lease_losses = self.leases.n_losses
        states = await asyncio.to_thread(self._acquire_leases, [call.key for call in calls])

        ended_keys = []
        for call in calls:
            key = call.key
            self.calls_of_other_processes.pop(key, None)
            is_batched = key in states.batched_keys
            needs_no_request = self._end_if_request_not_needed(
                call, states.outcomes.get(key), is_new=key in states.new_keys, is_batched=is_batched
            )
            if needs_no_request:
                ended_keys.append(key)
            elif key in states.leased_keys:
                call.n_lease_losses = n_lease_losses
                self._queue.add(call)
            elif not self._stop.is_stopped:
                self.calls_of_other_processes[key] = call  # another process holds the lease
        if ended_keys:
            await asyncio.to_thread(self.leases.release, ended_keys)

    def _end_if_request_not_needed(
        self, call: Call, outcome: Completion | Failure | None, *, is_new: bool, is_batched: bool
    ) -> bool:
        """End a call if another process has stored its outcome or sent its request in a batch in the meantime.

        A batch is a file of requests that a provider answers later. A call whose request is in a batch ends without an outcome,
        and its trials are counted in `n_batched_rows`.

        outcome : outcome of the request that the store contains now; None if there is none
        is_new : whether it was stored since the start of the group of workers; no worker then sends the request again
        is_batched : whether a batch in progress contains the request

        Returns whether the call ended, so that its request must not be sent.
        """
        was_stored_since_lookup = outcome != call.cached  # by another process
        if outcome is not None and (is_new or (was_stored_since_lookup and is_final(outcome))):
            self._end_with_stored_outcome(call, outcome)
            return True
        if is_batched:
            self.n_batched_rows += len(call.rows)
        return is_batched

    def _acquire_leases(self, keys: Sequence[str]) -> _RequestStates:
        """Acquire leases on requests, and read from the store whether other processes have sent or answered the requests.

        The order matters: the sender of a batch holds the leases on its keys until the batch is recorded, and deletes
        the record after its answers are stored.

        keys : request hashes
        """
        leased_keys = self.leases.acquire(keys)
        batched_keys = self._batched_keys.read_request_hashes()
        outcomes = self._store.get_outcomes(keys)
        workers = self._outcomes.options.team
        new_keys = set() if workers is None else self._store.find_stored_since(workers.start_time, outcomes)
        return _RequestStates(leased_keys, batched_keys, outcomes, new_keys)
