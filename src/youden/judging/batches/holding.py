"""What a run holds against others on its store while batches are under way: nobody else asks it meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress

from youden.errors import YoudenError
from youden.judging.store.answers import Store
from youden.judging.store.lookup import Known


class Holding:
    """The claims of one run. elsewhere: whether somebody else asks now what was wanted the last time."""

    def __init__(self, store: Store) -> None:
        self.elsewhere = False
        self._store = store
        self._claims = store.claims()

    @asynccontextmanager
    async def kept(self, *, failed: Callable[[YoudenError], None]) -> AsyncIterator[None]:
        """Around the run: what is held stays held, and is given up at its end. failed: told when the store cannot say so."""
        renewing = asyncio.create_task(self._renew(failed))
        try:
            yield
        finally:
            renewing.cancel()
            with suppress(YoudenError):
                self._store.flush()
                self._claims.finish()

    def take(self, wanted: Sequence[Known]) -> list[Known]:
        """Those of `wanted` that are this run's to ask: nobody else asks them, or has answered them since they were looked up."""
        keys = [known.key for known in wanted]
        mine = self._claims.take(keys)
        answered = self._store.answers(keys)
        came = {known.key for known in wanted if known.completion is None and known.key in answered}
        self._claims.finish(came)
        self.elsewhere |= bool(set(keys) - mine - came)
        return [known for known in wanted if known.key in mine - came]

    def under_way(self, keys: Sequence[str]) -> None:
        """Hold what an earlier process sent."""
        self._claims.take(keys)

    def let_go(self, keys: Collection[str]) -> None:
        """Give up what was not sent after all."""
        if keys:
            self._claims.finish(keys)

    async def _renew(self, failed: Callable[[YoudenError], None]) -> None:
        while True:
            await asyncio.sleep(1)
            try:
                self._claims.renew()
            except YoudenError as error:
                failed(error)
                return
