"""The Batch APIs of OpenAI and of Anthropic over HTTP: files up, batches begun and looked at, results down.

Each step is tried again where that may help. What a provider says of a batch is read here, word by word: only a known state is
one, and only known end states end a batch. Lines go in and come out in the OpenAI format, whoever the provider is.
"""

from __future__ import annotations

import asyncio
import io
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any

import aiohttp
import orjson

from youden.judging.backends.anthropic import AnthropicJudge, in_our_words, in_their_words
from youden.judging.backends.wire import WireJudge
from youden.judging.call.connection import Connection
from youden.judging.call.failures import CallError
from youden.judging.call.http_client import HttpClient
from youden.judging.call.reply_errors import object_or_empty, status_of
from youden.judging.call.retries import RetryPolicy
from youden.judging.call.secrets import hidden
from youden.judging.offline.batch_providers import BatchState, LineError
from youden.judging.offline.lines import ENDPOINT
from youden.text.json_text import parse_json

LAG = 15.0
"""Seconds after which a provider's list surely shows a batch that was begun."""

_TRANSFER_SECONDS = 900.0
_MAX_RESULT_BYTES = 2_000_000_000
"""Largest result file: several times the size of 50,000 answers with log-probabilities."""
_MAY_HAVE_BEGUN = {408, 409}


class _HttpBatches:
    """Batches at `connection`, as far as providers are alike. Every method raises CallError once trying again is over."""

    judge = WireJudge
    path = "batches"
    after = "after"
    """What the list is asked for the page behind a batch."""

    def __init__(self, connection: Connection, *, policy: RetryPolicy) -> None:
        self._http = HttpClient(connection.address, self.judge.headers(connection))
        self._timeout = connection.timeout
        self._policy = policy

    async def start(self, file: str, *, perhaps_begun: bool) -> str:
        """The id of the batch of an uploaded file: the one that was begun before, if `perhaps_begun`, or a new one.

        A reply that got lost may have begun one, so that every further try looks for it first.
        """
        perhaps = perhaps_begun

        async def once() -> str | None:
            nonlocal perhaps
            if perhaps and (found := await self._find(file)) is not None:
                return found
            if (asked := self._asked(file)) is None:
                return None
            before, perhaps = perhaps, True
            try:
                said = await self._json("POST", self.path, io.BytesIO(orjson.dumps(asked)), seconds=_TRANSFER_SECONDS)
            except CallError as error:
                status = error.status or 0
                perhaps = before or not 400 <= status < 500 or status in _MAY_HAVE_BEGUN
                raise
            return _id(said, "the batch")

        try:
            batch = await self._policy.call(once)
        except CallError as error:
            error.free = not perhaps
            raise
        if batch is None:
            raise CallError("The requests were never sent.", kind="retry", free=True)
        return batch

    async def look(self, batch: str) -> BatchState:
        """How far a batch is."""

        async def once() -> BatchState:
            return self._state(await self._json("GET", f"{self.path}/{batch}"), batch)

        return await self._policy.call(once)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    @abstractmethod
    def _asked(self, file: str) -> dict[str, Any] | None:
        """What begins the batch of a file; None where nobody has its requests any more."""

    @abstractmethod
    async def _find(self, file: str) -> str | None:
        """The batch that was begun of a file. Raises: CallError where nobody can say yet."""

    @abstractmethod
    def _state(self, said: Mapping[str, Any], batch: str) -> BatchState:
        """What a provider says of a batch. Raises: CallError where that is no known state of it."""

    async def _listed(self) -> AsyncIterator[Mapping[str, Any]]:
        """The provider's batches, the newest first."""
        behind = ""
        while True:
            said = await self._json("GET", f"{self.path}?limit=100{behind}")
            page = said.get("data")
            if not isinstance(page, list) or not all(isinstance(one, dict) for one in page):
                raise _odd("no list of batches")
            for one in page:
                yield one
            if not said.get("has_more") or not page:
                return
            behind = f"&{self.after}={_id(page[-1], 'the last batch of the list')}"

    async def _json(
        self, method: str, path: str, data: io.BytesIO | aiohttp.Payload | None = None, *, seconds: float = 0.0
    ) -> Mapping[str, Any]:
        try:
            said = parse_json(await self._call(method, path, data, seconds=seconds)).value
        except ValueError:
            raise _odd("no JSON") from None
        if not isinstance(said, dict):
            raise _odd(f"a {type(said).__name__}")
        return said

    async def _call(
        self, method: str, path: str, data: io.BytesIO | aiohttp.Payload | None = None, *, seconds: float = 0.0
    ) -> bytes:
        """Return the body of a reply. seconds: timeout; 0 for that of a judge call."""
        headers = data.headers if isinstance(data, aiohttp.Payload) else None
        return await self._http.send(
            method, path, data, headers=headers, max_seconds=seconds or self._timeout, max_bytes=_MAX_RESULT_BYTES
        )


_UNDER_WAY = {"validating", "in_progress", "finalizing", "cancelling"}
_ENDED = {"completed", "failed", "expired", "cancelled"}


class OpenAIBatches(_HttpBatches):
    """A file is uploaded, and a batch is begun of it; its results are files."""

    async def upload(self, text: bytes) -> str:
        """The id of a new file of requests."""

        async def once() -> str:
            form = aiohttp.FormData({"purpose": "batch"})
            form.add_field("file", io.BytesIO(text), filename="youden.jsonl")
            said = await self._json("POST", "files", form(), seconds=_TRANSFER_SECONDS)
            return _id(said, "the file")

        return await self._policy.call(once)

    async def fetch(self, file: str) -> bytes:
        """The text of a result file."""
        return await self._policy.call(lambda: self._call("GET", f"files/{file}/content", seconds=_TRANSFER_SECONDS))

    def _asked(self, file: str) -> dict[str, Any]:
        return {"input_file_id": file, "endpoint": ENDPOINT, "completion_window": "24h"}

    async def _find(self, file: str) -> str | None:
        """The batch of a file, which the list may show late; None where it still shows none after `LAG` seconds."""
        for share in (0, 1, 2, 4, 8):
            await asyncio.sleep(LAG * share / 15)
            async for one in self._listed():
                if one.get("input_file_id") == file:
                    return _id(one, "the batch")
        return None

    def _state(self, said: Mapping[str, Any], batch: str) -> BatchState:
        status = said.get("status")
        status = status.lower() if isinstance(status, str) else None
        if status not in _UNDER_WAY | _ENDED or said.get("id", batch) != batch:
            raise _odd(f"a batch in the state {said.get('status')!r:.60}")
        counts = [object_or_empty(said.get("request_counts")).get(name) for name in ("completed", "failed")]
        known = [n for n in counts if isinstance(n, int) and n >= 0]
        counted, n_done = len(known) == len(counts), sum(known)
        files = tuple(
            one for name in ("output_file_id", "error_file_id") if isinstance(one := said.get(name), str) and one
        )
        told = object_or_empty(said.get("errors")).get("data")
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


_CLOCKS = 86_400.0
"""Seconds by which clocks may differ: an older batch is none of this file's."""
_COUNTS = ("processing", "succeeded", "errored", "canceled", "expired")


class AnthropicBatches(_HttpBatches):
    """A batch is sent as a whole, without a file before it, and its provider keeps no name of ours.

    So the id of a "file" says what is needed to find its batch again: a key of it, how many requests it has, and when it was
    made. Where a reply got lost, a batch of the same size is ours if its results hold that key; while such a batch still runs
    nobody knows, and nothing is sent again.
    """

    judge = AnthropicJudge
    path = "messages/batches"
    after = "after_id"

    def __init__(self, connection: Connection, *, policy: RetryPolicy) -> None:
        super().__init__(connection, policy=policy)
        self._texts: dict[str, list[dict[str, Any]]] = {}

    async def upload(self, text: bytes) -> str:
        """An id under which this process keeps the requests; nothing is sent yet."""
        lines = [orjson.loads(line) for line in text.splitlines()]
        requests = [{"custom_id": one["custom_id"], "params": in_their_words(one["body"])} for one in lines]
        file = f"{requests[0]['custom_id']}:{len(requests)}:{time.time():.0f}"
        self._texts[file] = requests
        return file

    async def start(self, file: str, *, perhaps_begun: bool) -> str:
        """As everywhere; then nobody needs the requests any more."""
        batch = await super().start(file, perhaps_begun=perhaps_begun)
        self._texts.pop(file, None)
        return batch

    async def fetch(self, file: str) -> bytes:
        """The result lines of an ended batch, in the OpenAI format."""
        text = await self._policy.call(lambda: self._results(file))
        return b"\n".join(_in_our_form(line) for line in text.splitlines() if line.strip())

    def _asked(self, file: str) -> dict[str, Any] | None:
        return {"requests": self._texts[file]} if file in self._texts else None

    async def _find(self, file: str) -> str | None:
        key, size, made = file.split(":")
        async for one in self._listed():
            if _seconds(one.get("created_at")) < int(made) - _CLOCKS:
                return None
            if sum(_counts(one).values()) != int(size):
                continue
            batch = _id(one, "the batch")
            if one.get("processing_status") != "ended":
                raise _odd(f"a batch of the same size, {batch}, which may be this one and still runs")
            if key.encode() in await self._results(batch):
                return batch
        return None

    def _state(self, said: Mapping[str, Any], batch: str) -> BatchState:
        n, status = _counts(said), said.get("processing_status")
        if said.get("id") != batch or status not in ("in_progress", "canceling", "ended"):
            raise _odd(f"a batch in the state {status!r:.60}")
        done = sum(n.values()) - n["processing"]
        if status != "ended":
            return BatchState(status, ended=False, n_done=done)
        ended = "cancelled" if n["canceled"] else "expired" if n["expired"] else "completed"
        return BatchState(ended, ended=True, n_done=done, files=(batch,))

    async def _results(self, batch: str) -> bytes:
        return await self._call("GET", f"{self.path}/{batch}/results", seconds=_TRANSFER_SECONDS)


def _in_our_form(line: bytes) -> bytes:
    """A result line as OpenAI's would be; one that is none stays as it is, and is left out by who reads it."""
    try:
        said = parse_json(line).value
        result = said["result"]
        kind = result["type"]
    except (ValueError, KeyError, TypeError):
        return line
    response = error = None
    if kind == "succeeded":
        response = {"status_code": 200, "body": in_our_words(result.get("message"))}
    else:
        told = object_or_empty(result.get("error"))
        told = object_or_empty(told.get("error")) or told
        error = {"code": told.get("type") or f"batch_{kind}", "message": told.get("message") or f"The request {kind}."}
        if (status := status_of(error["code"])) is not None:
            response = {"status_code": status, "body": {"error": error}}
    return orjson.dumps({"custom_id": said.get("custom_id"), "response": response, "error": error})


def _counts(said: Mapping[str, Any]) -> dict[str, int]:
    counts = object_or_empty(said.get("request_counts"))
    found = {name: n for name in _COUNTS if isinstance(n := counts.get(name), int) and n >= 0}
    if len(found) != len(_COUNTS):
        raise _odd("a batch without its counts")
    return found


def _seconds(said: object) -> float:
    try:
        return datetime.fromisoformat(str(said)).timestamp()
    except ValueError:
        raise _odd("a batch that does not say when it was made") from None


def _id(said: Mapping[str, Any], what: str) -> str:
    found = said.get("id")
    if not isinstance(found, str) or not found or hidden(found) != found:
        raise _odd(f"no id of {what}")
    return found


def _odd(what: str) -> CallError:
    return CallError(f"The provider answered with {what}.", kind="retry")
