"""A provider's Batch API through OpenAI's SDK: files up, batches begun and looked at, files down; each step is tried
again where that may help.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from youden.judging.backends.openai import call_errors, sdk_client
from youden.judging.call.connection import Connection
from youden.judging.call.failures import CallError, RetryPolicy, Tries
from youden.judging.outside.batch_providers import BatchProvider, BatchState, LineError
from youden.judging.outside.lines import ENDPOINT
from youden.judging.registry import BACKENDS
from youden.registry import Registry

T = TypeVar("T")

_TRANSFER_SECONDS = 900.0
_MOST_BYTES = 2_000_000_000
"""Of a result file: several times what 50,000 answers with their odds take."""
_UNDER_WAY = {"validating", "in_progress", "finalizing", "cancelling"}


class OpenAIBatches:
    """Batches at `connection`. Every method raises CallError once trying again is over."""

    def __init__(
        self,
        connection: Connection,
        *,
        policy: RetryPolicy,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._connection = connection
        self._policy = policy
        self._sleep = sleep
        self._client = sdk_client(connection, most=_MOST_BYTES)

    async def upload(self, text: bytes) -> str:
        """The id of a new file of requests."""

        async def once() -> str:
            files = self._client.files
            file = await files.create(file=("youden.jsonl", text), purpose="batch", timeout=_TRANSFER_SECONDS)
            return file.id

        return await self._tried(once)

    async def start(self, file: str, *, perhaps_begun: bool) -> str:
        """The id of the batch of an uploaded file: the one that was begun before, if `perhaps_begun`, or a new one.

        A reply that got lost may have begun one, so that every further try looks for it first.
        """
        looks = perhaps_begun

        async def once() -> str:
            nonlocal looks
            if looks and (found := await self._find(file)) is not None:
                return found
            looks = True
            batch = await self._client.batches.create(input_file_id=file, endpoint=ENDPOINT, completion_window="24h")
            return batch.id

        return await self._tried(once)

    async def look(self, batch: str) -> BatchState:
        """How far a batch is."""

        async def once() -> BatchState:
            got = await self._client.batches.retrieve(batch)
            told = (got.errors.data if got.errors else None) or []
            counts = got.request_counts
            return BatchState(
                status=got.status,
                ended=got.status not in _UNDER_WAY,
                n_done=0 if counts is None else counts.completed + counts.failed,
                files=tuple(file for file in (got.output_file_id, got.error_file_id) if file),
                errors=tuple(LineError(one.code, one.message or "no reason given", one.line) for one in told),
            )

        return await self._tried(once)

    async def fetch(self, file: str) -> bytes:
        """The text of a result file."""

        async def once() -> bytes:
            reply = await self._client.files.content(file, timeout=_TRANSFER_SECONDS)
            return reply.content

        return await self._tried(once)

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._client.close()

    async def _find(self, file: str) -> str | None:
        async for batch in self._client.batches.list(limit=100):
            if batch.input_file_id == file:
                return batch.id
        return None

    async def _tried(self, once: Callable[[], Awaitable[T]]) -> T:
        tries = Tries()
        while True:
            try:
                with call_errors(self._connection):
                    return await once()
            except CallError as error:
                seconds = self._policy.wait(tries, error)
                if seconds is None:
                    raise
                await self._sleep(seconds)


BATCHES: Registry[type] = Registry(
    "youden.batches",
    "batch-provider",
    {
        name: "youden.judging.outside.openai_batches:OpenAIBatches"
        for name, one in BACKENDS.items()
        if one.batches == "openai"
    },
)


FOLDER = "folder"
"""`batch_provider: folder` leaves files to whoever works them off; it needs no connection."""


def batch_provider(backend: str, connection: Connection, policy: RetryPolicy) -> BatchProvider:
    """The Batch API behind `connection`. Raises: ConfigError [unknown-batch-provider]."""
    return cast(BatchProvider, BATCHES.load(backend)(connection, policy=policy))
