"""Manage the leases of a run on its batches and their requests, and the records of its batches in the store.

A batch is recorded before any of its requests is sent, so that a later process on any host can resume it. A record has no
requests, answers or secrets: only which request hashes went into which file of the provider. A lease is the exclusive right of
a process to send a request, or to poll a batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from youden.errors import YoudenError
from youden.judging.store.answers import Store
from youden.judging.store.leases import Job, lease_lost_error, read_pending_jobs
from youden.judging.store.plan_answers import Call
from youden.types import Completion


class BatchLeases:
    """The batches of one model at one address, and this process's leases on them.

    Parameters
    ----------
    store : Store
        Store of the answers and of the records of batches.
    address, model : str
        Address of the provider, and its model.
    account : str or None
        Cost account of this run; None if it has none.

    Attributes
    ----------
    waits_for_other_process : bool
        Whether another process has leased a request that this process was to send, or has sent this request in a batch. This
        process then waits for the answer. The caller sets the attribute to False before each round of requests.
    """

    def __init__(self, store: Store, *, address: str, model: str, account: str | None = None) -> None:
        self.waits_for_other_process = False
        self._store = store
        self._address, self._model, self._account = address, model, account
        self._leases = store.leases()
        self._own_ids: set[str] = set()

    @asynccontextmanager
    async def hold(self, *, on_failure: Callable[[YoudenError], None]) -> AsyncIterator[None]:
        """Renew all leases while the `with` block runs, and release them at its end.

        on_failure : function that is called with the error if the leases are lost
        """
        renewing = asyncio.create_task(self._renew_repeatedly(on_failure))
        try:
            yield
        finally:
            renewing.cancel()
            with suppress(YoudenError):
                self._store.flush()
                self._leases.release()

    def pending(self) -> list[Job]:
        """Return the batches that were sent, or are being sent, and whose results are not stored yet, oldest first."""
        jobs = read_pending_jobs(self._store.backend)
        return [job for job in jobs if (job.address, job.model) == (self._address, self._model)]

    def acquire(self, calls: Sequence[Call]) -> list[Call]:
        """Acquire leases on the requests of calls, and return the calls that this process has to send.

        The other calls have a request that another process has leased, or that was answered since the call was looked up. If
        another process has leased a request, `waits_for_other_process` is set.

        Raises: JudgeError [lease-lost] if the leases that this process holds have expired.
        """
        self.renew()
        keys = [call.key for call in calls]
        leased_keys = self._leases.acquire(keys)
        unanswered_keys = [call.key for call in calls if not isinstance(call.cached, Completion)]
        newly_answered = set(self._store.answers(unanswered_keys))
        self._leases.release(newly_answered)

        keys_of_other_processes = set(keys) - leased_keys - newly_answered
        if keys_of_other_processes:
            self.waits_for_other_process = True
        keys_to_send = leased_keys - newly_answered
        return [call for call in calls if call.key in keys_to_send]

    def release_requests_sent_by_others(self, keys: Collection[str]) -> set[str]:
        """Release the leases on requests that another process has put into a batch, and return the keys of the other requests.

        A lease is the right to send a request. The other process may have sent its batch before its leases expired and this
        process acquired them. It will store the answers, so `waits_for_other_process` is set.

        keys : request hashes that this process has leased
        """
        keys_in_other_batches: set[str] = set()
        for job in self.pending():
            if job.id not in self._own_ids:
                keys_in_other_batches.update(job.keys)

        leased_keys = set(keys)
        sent_keys = keys_in_other_batches & leased_keys
        if sent_keys:
            self.release(sent_keys)
            self.waits_for_other_process = True
        return leased_keys - sent_keys

    def record_batch(self, usd: float, keys: Sequence[str]) -> Job:
        """Acquire the lease of a new batch, write its record to the store at once, and return the record.

        usd : largest possible cost of the batch in USD; NaN if unknown
        keys : request hashes, in the order of the lines of the file that is sent to the provider

        Raises: JudgeError [lease-lost] if the leases that this process already holds may have expired; nothing is recorded then.
        """
        self.check()  # of the leases on the requests
        job = self._acquire_job(Job(self._address, self._model, usd, tuple(keys), self._account))
        self._store.backend.put_rows("batches", [job.row])
        return job

    def record_file_id(self, job: Job, file: str) -> Job:
        """Record `file`, the provider's id of the file with a batch's requests, and return the new record."""
        return self._write_ids(replace(job, file=file))

    def record_batch_id(self, job: Job, batch: str) -> Job:
        """Record `batch`, the provider's id of a batch that was started, and return the new record."""
        return self._write_ids(replace(job, batch=batch))

    def delete_record(self, job: Job) -> None:
        """Delete the record of a batch that was not started."""
        self._store.backend.delete_batch(job.id)

    def replace_record(self, job: Job, remainder: Job | None) -> None:
        """Delete the record of a batch whose results are stored, and add that of the remaining requests, if any.

        The lease of the new record is acquired at once. Both records change at the next `Store.flush`.

        job : record of the batch to delete
        remainder : record of a batch of the requests without a result; None if no result is missing
        """
        if remainder is not None:
            self._acquire_job(remainder)
        self._store.settle(job.id, None if remainder is None else remainder.row)

    def was_sent_by_this_run(self, job: Job) -> bool:
        """Return whether this run has sent a batch, so that its cost account pays for it."""
        return job.account == self._account

    def read_keys_of_other_runs(self) -> set[str]:
        """Return the hashes of all requests in pending batches that other runs have sent."""
        return {key for job in self.pending() if not self.was_sent_by_this_run(job) for key in job.keys}

    def resume(self, needed_keys: Collection[str]) -> list[Job]:
        """Take over the batches that an earlier process left in progress, and return their records.

        A batch is taken over if this run has sent it or needs one of its answers, and no other process has the lease on it. If
        the file of its requests was not uploaded, the batch was not sent. Its record is then deleted, so that its requests are
        sent in another batch.

        needed_keys : hashes of the requests of this run that are in batches of other runs
        """
        needed_jobs = [
            job for job in self.pending() if self.was_sent_by_this_run(job) or not set(needed_keys).isdisjoint(job.keys)
        ]
        leased_keys = self._leases.acquire([job.lease_key for job in needed_jobs])
        if not leased_keys:
            return []

        # read the records again, because another process may have changed them before its lease was taken over
        leased_jobs = [job for job in self.pending() if job.lease_key in leased_keys]
        resumed_jobs = []
        for job in leased_jobs:
            if job.file is None:
                self.delete_record(job)
                continue
            self._own_ids.add(job.id)
            self._leases.acquire(job.keys)  # so that no process sends the same requests as single calls
            resumed_jobs.append(job)
        return resumed_jobs

    def release(self, keys: Collection[str]) -> None:
        """Release the leases on requests that were not sent."""
        if keys:
            self._leases.release(keys)

    def check(self) -> None:
        """Check that all leases are held, before a step that must not be repeated. Raises: JudgeError [lease-lost]."""
        if self._leases.maybe_expired:
            raise lease_lost_error(self._store.name)

    def renew(self) -> None:
        """Renew all leases. Raises: JudgeError [lease-lost]."""
        self.check()
        self._leases.renew()

    def _acquire_job(self, job: Job) -> Job:
        """Acquire the lease on a batch of this process, and return its record."""
        self._leases.acquire([job.lease_key])
        self._own_ids.add(job.id)
        return job

    def _write_ids(self, job: Job) -> Job:
        """Write the provider's ids of a file and a batch into the store, and return the record.

        Raises: JudgeError [lease-lost] if another process has deleted the record.
        """
        if not self._store.backend.set_batch_ids(job.id, file=job.file, batch=job.batch):
            raise lease_lost_error(self._store.name)
        return job

    async def _renew_repeatedly(self, on_failure: Callable[[YoudenError], None]) -> None:
        """Renew all leases every second until this task is cancelled, or a renewal fails.

        on_failure : function that is called with the error if a renewal fails
        """
        while True:
            await asyncio.sleep(1)
            try:
                self.renew()
            except YoudenError as error:
                on_failure(error)
                return
