"""A provider's Batch API through OpenAI's SDK: files up, batches begun and looked at, files down.

Each step is tried again where that may help. What a provider says of a batch is read here, word by word: only a known state is
one, and only known end states end a batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import openai
import orjson

from youden.judging.backends.openai import call_errors, sdk_client
from youden.judging.call.connection import Connection
from youden.judging.call.failures import CallError, RetryPolicy, Tries
from youden.judging.call.secrets import hidden
from youden.judging.outside.batch_providers import BatchState, LineError
from youden.judging.outside.lines import ENDPOINT

T = TypeVar("T")

LAG = 15.0
"""Seconds after which a provider's list surely shows a batch that was begun."""

_TRANSFER_SECONDS = 900.0
_MOST_BYTES = 2_000_000_000
"""Of a result file: several times what 50,000 answers with their odds take."""
_MAY_HAVE_BEGUN = {408, 409}
_UNDER_WAY = {"validating", "in_progress", "finalizing", "cancelling"}
_ENDED = {"completed", "failed", "expired", "cancelled"}


class OpenAIBatches:
    """Batches at `connection`. Every method raises CallError once trying again is over."""

    def __init__(
        self,
        connection: Connection,
        *,
        policy: RetryPolicy,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._policy = policy
        self._sleep = sleep
        self._client = sdk_client(connection, most=_MOST_BYTES)

    async def upload(self, text: bytes) -> str:
        """The id of a new file of requests."""

        async def once() -> str:
            files = self._client.files
            # a reply that is no JSON comes out of the SDK as text
            said: object = await files.create(file=("youden.jsonl", text), purpose="batch", timeout=_TRANSFER_SECONDS)
            return _id({} if isinstance(said, str) else vars(said), "the file")

        return await self._tried(once)

    async def start(self, file: str, *, perhaps_begun: bool) -> str:
        """The id of the batch of an uploaded file: the one that was begun before, if `perhaps_begun`, or a new one.

        A reply that got lost may have begun one, so that every further try looks for it first.
        """
        perhaps = perhaps_begun

        async def once() -> str:
            nonlocal perhaps
            if perhaps and (found := await self._find(file)) is not None:
                return found
            before, perhaps = perhaps, True
            asked = {"input_file_id": file, "endpoint": ENDPOINT, "completion_window": "24h"}
            try:
                said = await self._client.post("/batches", cast_to=bytes, body=asked)
            except openai.APIStatusError as error:
                refused = 400 <= error.status_code < 500 and error.status_code not in _MAY_HAVE_BEGUN
                perhaps = before or not refused
                raise
            return _id(_read(said), "the batch")

        try:
            return await self._tried(once)
        except CallError as error:
            error.free = not perhaps
            raise

    async def look(self, batch: str) -> BatchState:
        """How far a batch is."""

        async def once() -> BatchState:
            return _state(_read(await self._client.get(f"/batches/{batch}", cast_to=bytes)), batch)

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
        """The batch of a file, which the list may show late; None where it still shows none after `LAG` seconds."""
        for share in (0, 1, 2, 4, 8):
            await self._sleep(LAG * share / 15)
            if (found := await self._listed(file)) is not None:
                return found
        return None

    async def _listed(self, file: str) -> str | None:
        page: dict[str, Any] = {"limit": 100}
        while True:
            said = _read(await self._client.get("/batches", cast_to=bytes, options={"params": page}))
            batches = [_read(one) for one in said["data"]] if isinstance(said.get("data"), list) else None
            if batches is None:
                raise _odd("no list of batches")
            for one in batches:
                if one.get("input_file_id") == file:
                    return _id(one, "the batch")
            if not said.get("has_more") or not batches:
                return None
            page["after"] = _id(batches[-1], "the last batch of the list")

    async def _tried(self, once: Callable[[], Awaitable[T]]) -> T:
        tries = Tries()
        while True:
            try:
                with call_errors():
                    return await once()
            except CallError as error:
                seconds = self._policy.wait(tries, error)
                if seconds is None:
                    raise
                await self._sleep(seconds)


def _state(said: Mapping[str, Any], batch: str) -> BatchState:
    status = said.get("status")
    status = status.lower() if isinstance(status, str) else None
    if status not in _UNDER_WAY | _ENDED or said.get("id", batch) != batch:
        raise _odd(f"a batch in the state {said.get('status')!r:.60}")
    counts = [_object(said.get("request_counts")).get(name) for name in ("completed", "failed")]
    known = [n for n in counts if isinstance(n, int) and n >= 0]
    counted, n_done = len(known) == len(counts), sum(known)
    files = tuple(one for name in ("output_file_id", "error_file_id") if isinstance(one := said.get(name), str) and one)
    told = _object(said.get("errors")).get("data")
    n_lines = None
    if status != "completed" and (counted or (status == "failed" and not files)):
        n_lines = n_done
    errors = tuple(_line_error(one) for one in told if isinstance(one, dict)) if isinstance(told, list) else ()
    return BatchState(status, status in _ENDED, n_done, files, n_lines, errors)


def _line_error(said: Mapping[str, Any]) -> LineError:
    code, message, line = said.get("code"), said.get("message"), said.get("line")
    return LineError(
        hidden(code) if isinstance(code, str) else None,
        hidden(message) if isinstance(message, str) and message else "no reason given",
        line if isinstance(line, int) else None,
    )


def _read(said: object) -> Mapping[str, Any]:
    """The object that a reply is. Raises: CallError, to be asked again, for anything else."""
    try:
        found = orjson.loads(said) if isinstance(said, bytes) else said
    except ValueError:
        raise _odd("no JSON") from None
    if not isinstance(found, dict):
        raise _odd(f"a {type(found).__name__}")
    return found


def _id(said: Mapping[str, Any], what: str) -> str:
    found = said.get("id")
    if not isinstance(found, str) or not found or hidden(found) != found:
        raise _odd(f"no id of {what}")
    return found


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _odd(what: str) -> CallError:
    return CallError(f"The provider answered with {what}.", kind="retry")
