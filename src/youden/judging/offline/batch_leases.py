"""The leases of a run on its batches and their requests, and the notes of its batches in the store.

A batch is noted before anything of it leaves the machine, so that any later process of any host can resume it. A note has no
requests, answers or secrets: only which request hashes went into which file of the provider.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from youden.errors import YoudenError
from youden.judging.store.answers import Store
from youden.judging.store.leases import Job, all_jobs, lease_lost
from youden.judging.store.plan_answers import Call
from youden.types import Completion


class BatchLeases:
    """The batches of one model at one address, and this run's leases.

    Attributes
    ----------
    elsewhere : bool
        Whether another process holds a lease on what was wanted the last time.
    """

    def __init__(self, store: Store, *, address: str, model: str) -> None:
        self.elsewhere = False
        self._store = store
        self._address, self._model = address, model
        self._claims = store.claims()
        self._own_ids: set[str] = set()

    @asynccontextmanager
    async def kept(self, *, on_failure: Callable[[YoudenError], None]) -> AsyncIterator[None]:
        """Renew all leases during the run, and release them at its end. on_failure: called if they are lost."""
        renewing = asyncio.create_task(self._renew_repeatedly(on_failure))
        try:
            yield
        finally:
            renewing.cancel()
            with suppress(YoudenError):
                self._store.flush()
                self._claims.finish()

    def pending(self) -> list[Job]:
        """Return the batches that were sent, or are being sent, and not merged, oldest first."""
        jobs = all_jobs(self._store.place)
        return [job for job in jobs if (job.address, job.model) == (self._address, self._model)]

    def acquire(self, wanted: Sequence[Call]) -> list[Call]:
        """Acquire leases; return the calls that nobody else asks, or has answered since they were looked up."""
        self.renew()
        keys = [call.key for call in wanted]
        leased = self._claims.take(keys)
        answered = self._store.answers(keys)
        settled = {call.key for call in wanted if not isinstance(call.known, Completion) and call.key in answered}
        self._claims.finish(settled)
        self.elsewhere |= bool(set(keys) - leased - settled)
        return [call for call in wanted if call.key in leased - settled]

    def without_sent(self, keys: Collection[str]) -> set[str]:
        """Return the leased keys that are in no batch that another process noted; release the others.

        A process that takes a key over from an unresponsive one finds the note of its batch, which was made while the key was
        leased.
        """
        others = [job for job in self.pending() if job.id not in self._own_ids]
        sent = {key for job in others for key in job.keys} & set(keys)
        self.release(sent)
        self.elsewhere |= bool(sent)
        return set(keys) - sent

    def note(self, usd: float, keys: Sequence[str]) -> Job:
        """Note a new batch of requests and acquire its lease. Raises: JudgeError [lease-lost]; nothing is noted then."""
        self.check()
        job = self._own(Job(self._address, self._model, usd, tuple(keys)))
        self._store.place.put_rows("batches", [job.row])
        return job

    def note_file(self, job: Job, file: str) -> Job:
        """Note the id of the file that the provider holds."""
        return self._update(replace(job, file=file))

    def note_batch(self, job: Job, batch: str) -> Job:
        """Note the id of the batch that the provider works on."""
        return self._update(replace(job, batch=batch))

    def forget(self, job: Job) -> None:
        """Delete the note of a batch that was not begun."""
        self._store.place.forget_batch(job.id)

    def settle(self, job: Job, remainder: Job | None) -> None:
        """Delete the note of a merged batch, or note its remainder instead, at the next `flush`."""
        if remainder is not None:
            self._own(remainder)
        self._store.settle(job.id, None if remainder is None else remainder.row)

    def resume(self) -> list[Job]:
        """Acquire the batches that an earlier process left, with their keys; forget those that were not even uploaded."""
        leased = self._claims.take([job.claim for job in self.pending()])
        resumed = []
        for job in self.pending() if leased else ():
            if job.claim not in leased:
                continue
            if job.file is None:
                self.forget(job)
                continue
            self._own_ids.add(job.id)
            self._claims.take(job.keys)
            resumed.append(job)
        return resumed

    def release(self, keys: Collection[str]) -> None:
        """Release the leases on what was not sent."""
        if keys:
            self._claims.finish(keys)

    def check(self) -> None:
        """Check the leases before a step that must not be done twice. Raises: JudgeError [lease-lost] if they may be lost."""
        if self._claims.doubtful:
            raise lease_lost(self._store.name)

    def renew(self) -> None:
        """Renew all leases. Raises: JudgeError [lease-lost]."""
        self.check()
        self._claims.renew()

    def _own(self, job: Job) -> Job:
        self._claims.take([job.claim])
        self._own_ids.add(job.id)
        return job

    def _update(self, job: Job) -> Job:
        if not self._store.place.note_batch(job.id, file=job.file, batch=job.batch):
            raise lease_lost(self._store.name)
        return job

    async def _renew_repeatedly(self, on_failure: Callable[[YoudenError], None]) -> None:
        while True:
            await asyncio.sleep(1)
            try:
                self.renew()
            except YoudenError as error:
                on_failure(error)
                return
