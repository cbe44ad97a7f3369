"""What a run holds against others on its store while batches are under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress

from youden.errors import YoudenError
from youden.judging.store.answers import Store
from youden.judging.store.leases import Job, Jobs, lease_lost
from youden.judging.store.plan_answers import Call
from youden.types import Completion


class BatchClaims:
    """The claims of one run. elsewhere: whether somebody else asks now what was wanted the last time."""

    def __init__(self, store: Store, jobs: Jobs) -> None:
        self.elsewhere = False
        self._store = store
        self._jobs = jobs
        self._claims = store.claims()
        self._own: set[str] = set()

    @asynccontextmanager
    async def kept(self, *, failed: Callable[[YoudenError], None]) -> AsyncIterator[None]:
        """Around the run: what is held stays held, and is given up at its end. failed: told when it is no longer."""
        renewing = asyncio.create_task(self._renew(failed))
        try:
            yield
        finally:
            renewing.cancel()
            with suppress(YoudenError):
                self._store.flush()
                self._claims.finish()

    def take(self, wanted: Sequence[Call]) -> list[Call]:
        """Those of `wanted` that are this run's to ask: nobody else asks them, or has answered them since they were looked up."""
        self.renew()
        keys = [call.key for call in wanted]
        mine = self._claims.take(keys)
        answered = self._store.answers(keys)
        came = {call.key for call in wanted if not isinstance(call.known, Completion) and call.key in answered}
        self._claims.finish(came)
        self.elsewhere |= bool(set(keys) - mine - came)
        return [call for call in wanted if call.key in mine - came]

    def without_sent(self, keys: Collection[str]) -> set[str]:
        """Those of the keys held that are in no batch that somebody else noted; the others are given up.

        Whoever takes a key over from one who stood still finds the note of its batch, which was made while the key was held.
        """
        sent = self._jobs.keys(but=self._own) & set(keys)
        self.let_go(sent)
        self.elsewhere |= bool(sent)
        return set(keys) - sent

    def note(self, job: Job) -> None:
        """Hold a batch of this run, and note it. Raises: JudgeError [lease-lost]; nothing is noted then."""
        self.check()
        self._claims.take([job.claim])
        self._own.add(job.id)
        self._jobs.add(job)

    def settle(self, job: Job, rest: Job | None) -> None:
        """What came of a batch is added to the store: the next `flush` forgets its note, or notes the `rest` instead."""
        if rest is not None:
            self._claims.take([rest.claim])
            self._own.add(rest.id)
        self._store.settle(job.id, None if rest is None else rest.row)

    def left(self) -> list[Job]:
        """Batches that were sent earlier and that nobody waits for, held from now on with their keys. Of those that were not even
        uploaded nothing was sent: they are forgotten."""
        mine = self._claims.take([job.claim for job in self._jobs.pending()])
        taken = []
        for job in self._jobs.pending() if mine else ():
            if job.claim not in mine:
                continue
            if job.file is None:
                self._jobs.forget(job)
                continue
            self._own.add(job.id)
            self._claims.take(job.keys)
            taken.append(job)
        return taken

    def let_go(self, keys: Collection[str]) -> None:
        """Give up what was not sent after all."""
        if keys:
            self._claims.finish(keys)

    def check(self) -> None:
        """Before anything that must not be done twice. Raises: JudgeError [lease-lost] where others may do it by now."""
        if self._claims.doubtful:
            raise lease_lost(self._store.name)

    def renew(self) -> None:
        """Hold all for longer. Raises: JudgeError [lease-lost]."""
        self.check()
        self._claims.renew()

    async def _renew(self, failed: Callable[[YoudenError], None]) -> None:
        while True:
            await asyncio.sleep(1)
            try:
                self.renew()
            except YoudenError as error:
                failed(error)
                return
