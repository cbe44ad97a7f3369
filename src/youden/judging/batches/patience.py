"""Looks at batches and fetches their results, and waits where the provider is away."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from youden.judging.asking.terms import Batching
from youden.judging.batches.provider import BatchProvider, BatchState
from youden.judging.call.failures import CallError, is_silence

T = TypeVar("T")


class Patience:
    """A provider whose outages of up to `outage` seconds are waited through. tell: told once where one begins."""

    def __init__(
        self, provider: BatchProvider, batching: Batching, *, outage: float, tell: Callable[[str], None]
    ) -> None:
        self._provider = provider
        self._batching = batching
        self._outage = outage
        self._tell = tell

    async def look(self, batch: str) -> BatchState:
        """How far a batch is. Raises: CallError."""
        return await self._through(self._provider.look, batch)

    async def fetch(self, file: str) -> bytes:
        """A file of results. Raises: CallError."""
        return await self._through(self._provider.fetch, file)

    async def _through(self, step: Callable[[str], Awaitable[T]], of: str) -> T:
        began, told = time.monotonic(), False
        while True:
            try:
                return await step(of)
            except CallError as error:
                if not is_silence(error) or time.monotonic() - began >= self._outage:
                    raise
                if not told:
                    self._tell(f"the provider is away ({error.reason}); what was sent is kept there")
                told = True
                await self._batching.sleep(self._batching.poll)
