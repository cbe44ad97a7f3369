"""Anthropic's Message Batches as a provider of batches: lines in the OpenAI format go in and come out.

A batch is sent as a whole, without a file before it, and its provider keeps no name of ours. So the id of a "file" says what is
needed to find its batch again: a key of it, how many requests it has, and when it was made. Where a reply got lost, a batch of
the same size is ours if its results hold that key; while such a batch still runs nobody knows, and nothing is sent again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import aiohttp
import orjson

from youden.judging.backends.anthropic import AnthropicJudge, in_our_words, in_their_words
from youden.judging.backends.wire import body_of, broken, open_session
from youden.judging.call.connection import Connection, status_error
from youden.judging.call.failures import CallError, RetryPolicy, Tries
from youden.judging.call.secrets import hidden
from youden.judging.outside.batch_providers import BatchState

T = TypeVar("T")

_MOST_BYTES = 2_000_000_000
_CLOCKS = 86_400.0
"""Seconds by which clocks may differ: an older batch is none of this file's."""
_COUNTS = ("processing", "succeeded", "errored", "canceled", "expired")
_UNDER_WAY = {"in_progress", "canceling"}
_REFUSED = {"invalid_request_error": 400, "not_found_error": 404, "authentication_error": 401, "permission_error": 403}


class AnthropicBatches:
    """Batches at `connection`. Every method raises CallError once trying again is over."""

    def __init__(
        self,
        connection: Connection,
        *,
        policy: RetryPolicy,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._connection = connection
        self._policy = policy
        self._sleep = sleep
        self._now = now
        self._session: aiohttp.ClientSession | None = None
        self._texts: dict[str, list[dict[str, Any]]] = {}

    async def upload(self, text: bytes) -> str:
        """An id under which this process keeps the requests; nothing is sent yet."""
        lines = [orjson.loads(line) for line in text.splitlines()]
        requests = [{"custom_id": one["custom_id"], "params": in_their_words(one["body"])} for one in lines]
        file = f"{requests[0]['custom_id']}:{len(requests)}:{self._now():.0f}"
        self._texts[file] = requests
        return file

    async def start(self, file: str, *, perhaps_begun: bool) -> str:
        """The id of the batch of these requests: the one that was begun before, if `perhaps_begun`, or a new one."""
        perhaps = perhaps_begun

        async def once() -> str:
            nonlocal perhaps
            if perhaps and (found := await self._find(file)) is not None:
                return found
            if file not in self._texts:
                perhaps = False
                raise CallError("The requests were never sent.", kind="retry", status=409, free=True)
            before, perhaps = perhaps, True
            try:
                said = await self._json("POST", "", {"requests": self._texts[file]})
            except CallError as error:
                perhaps = before or error.status is None or error.status >= 500 or error.status == 408
                raise
            return _id(said)

        try:
            batch = await self._tried(once, gone=lambda: not perhaps and file not in self._texts)
        except CallError as error:
            error.free = not perhaps
            raise
        self._texts.pop(file, None)
        return batch

    async def look(self, batch: str) -> BatchState:
        """How far a batch is."""

        async def once() -> BatchState:
            said = await self._json("GET", f"/{batch}")
            n = _counts(said)
            status = said.get("processing_status")
            if said.get("id") != batch or (status not in _UNDER_WAY and status != "ended"):
                raise _odd(f"a batch in the state {status!r:.60}")
            done = sum(n.values()) - n["processing"]
            if status != "ended":
                return BatchState(status, ended=False, n_done=done)
            ended = "cancelled" if n["canceled"] else "expired" if n["expired"] else "completed"
            return BatchState(ended, ended=True, n_done=done, files=(batch,))

        return await self._tried(once)

    async def fetch(self, file: str) -> bytes:
        """The result lines of an ended batch, in the OpenAI format."""
        text = await self._tried(lambda: self._results(file))
        return b"\n".join(_in_our_form(line) for line in text.splitlines() if line.strip())

    async def aclose(self) -> None:
        """Let go of the connections."""
        if self._session is not None:
            await self._session.close()

    async def _find(self, file: str) -> str | None:
        """The batch that was begun of a file. Raises: CallError where one that may be it is still under way."""
        key, size, made = file.split(":")
        after = ""
        while True:
            said = await self._json("GET", f"?limit=100{after}")
            page = said.get("data")
            if not isinstance(page, list) or not all(isinstance(one, dict) for one in page):
                raise _odd("no list of batches")
            for one in page:
                if _seconds(one.get("created_at")) < int(made) - _CLOCKS:
                    return None
                if sum(_counts(one).values()) != int(size):
                    continue
                if one.get("processing_status") != "ended":
                    raise _odd(f"a batch of the same size, {_id(one)}, which may be this one and still runs")
                if key.encode() in await self._results(_id(one)):
                    return _id(one)
            if not said.get("has_more") or not page:
                return None
            after = f"&after_id={_id(page[-1])}"

    async def _results(self, batch: str) -> bytes:
        return await self._call("GET", f"/{batch}/results")

    async def _json(self, method: str, path: str, body: object = None) -> Mapping[str, Any]:
        try:
            said = orjson.loads(await self._call(method, path, body))
        except ValueError:
            raise _odd("no JSON") from None
        if not isinstance(said, dict) or said.get("type") == "error":
            raise _odd("no batch")
        return said

    async def _call(self, method: str, path: str, body: object = None) -> bytes:
        self._session = session = self._session or open_session(AnthropicJudge.headers(self._connection))
        url = f"{self._connection.address}/messages/batches{path}"
        data = None if body is None else orjson.dumps(body)
        async with session.request(method, url, data=data, allow_redirects=False) as reply:
            said = await body_of(reply, most=_MOST_BYTES)
        if not 200 <= reply.status < 300:
            raise status_error(reply.status, said, reply.headers)
        return said

    async def _tried(self, once: Callable[[], Awaitable[T]], *, gone: Callable[[], bool] = lambda: False) -> T:
        tries = Tries()
        while True:
            try:
                try:
                    return await once()
                except CallError:
                    raise
                except Exception as error:
                    raise broken(error) from None
            except CallError as error:
                said = error
            seconds = None if gone() else self._policy.wait(tries, said)
            if seconds is None:
                raise said
            await self._sleep(seconds)


def _in_our_form(line: bytes) -> bytes:
    """A result line as OpenAI's would be; one that is none stays as it is, and is left out by who reads it."""
    try:
        said = orjson.loads(line)
        result = said["result"]
        kind = result["type"]
    except (ValueError, KeyError, TypeError):
        return line
    response = error = None
    if kind == "succeeded":
        response = {"status_code": 200, "body": in_our_words(result.get("message"))}
    else:
        told = result.get("error") or {}
        told = told.get("error") or told
        error = {"code": told.get("type") or f"batch_{kind}", "message": told.get("message") or f"The request {kind}."}
        if (status := _REFUSED.get(error["code"])) is not None:
            response = {"status_code": status, "body": {"error": error}}
    return orjson.dumps({"custom_id": said.get("custom_id"), "response": response, "error": error})


def _counts(said: Mapping[str, Any]) -> dict[str, int]:
    counts = said.get("request_counts")
    found = {name: counts.get(name) for name in _COUNTS} if isinstance(counts, dict) else {}
    if len(found) != len(_COUNTS) or not all(isinstance(n, int) and n >= 0 for n in found.values()):
        raise _odd("a batch without its counts")
    return {name: int(n) for name, n in found.items() if n is not None}


def _seconds(said: object) -> float:
    try:
        return datetime.fromisoformat(str(said)).timestamp()
    except ValueError:
        raise _odd("a batch that does not say when it was made") from None


def _id(said: Mapping[str, Any]) -> str:
    found = said.get("id")
    if not isinstance(found, str) or not found or hidden(found) != found:
        raise _odd("no id of a batch")
    return found


def _odd(what: str) -> CallError:
    return CallError(f"The provider answered with {what}.", kind="retry")
