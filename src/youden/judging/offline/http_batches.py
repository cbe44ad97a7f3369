"""Send batches to the Batch APIs of OpenAI and Anthropic over HTTP, and fetch their status and results.

Requests and results are in OpenAI's format for both providers. A batch counts as ended only in a known final state: a
status that is not recognized raises an error that is retried, so that no request is sent twice.
"""

from __future__ import annotations

import asyncio
import io
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import aiohttp
import orjson

from youden.judging.backends.wire import WireJudge
from youden.judging.call.connection import Connection
from youden.judging.call.failures import CallError
from youden.judging.call.http_client import HttpClient
from youden.judging.call.reply_errors import find_status_of_code, object_or_empty
from youden.judging.call.retries import RetryPolicy
from youden.judging.call.secrets import mask_secrets
from youden.judging.offline.batch_providers import BatchState, LineError
from youden.judging.offline.lines import ENDPOINT
from youden.judging.providers.anthropic import AnthropicJudge
from youden.text.json_text import parse_json

MAX_LIST_LAG_SECONDS = 15.0
"""Time after which a provider's list contains every batch that was started."""

_TRANSFER_SECONDS = 900.0
_MAX_RESULT_BYTES = 2_000_000_000
"""Largest result file: several times the size of 50,000 answers with log-probabilities."""
_MAY_HAVE_STARTED = {408, 409}
"""HTTP statuses below 500, timeout and conflict, after which the provider may have started a batch."""


@dataclass
class _BatchStart:
    """State of the attempts to start one batch."""

    file: str
    """Id of its file of requests."""
    may_exist: bool
    """Whether the batch may exist, because an earlier process or an earlier attempt without a reply may have started it.
    Each attempt updates it."""


class _HttpBatches:
    """Base class of batch providers over HTTP. Every method raises CallError after its last attempt.

    Parameters
    ----------
    connection : Connection
        Address and secrets of the provider.
    policy : RetryPolicy
        Retries of each request.

    Attributes
    ----------
    judge : type
        Judge class that makes the headers of requests.
    path : str
        Path of the batches below the address.
    after : str
        Query parameter of the list that selects the page after a batch.
    """

    judge = WireJudge
    path = "batches"
    after = "after"

    def __init__(self, connection: Connection, *, policy: RetryPolicy) -> None:
        self._http = HttpClient(connection.address, self.judge.headers(connection))
        self._timeout = connection.timeout
        self._policy = policy

    async def start(self, file: str, *, maybe_started: bool) -> str:
        """Start the batch of an uploaded file and return its id.

        A batch of the file may exist already, because an earlier process or a request without a reply may have started it. In
        this case, the provider's list of batches is searched for it first.

        Parameters
        ----------
        file : str
            Id that `upload` returned.
        maybe_started : bool
            Whether an earlier process may have started a batch of this file.

        Returns
        -------
        str
            Id of the batch, which may be the one that was found.

        Raises
        ------
        CallError
            If the batch cannot be started. Its attribute `unbilled` is True only if certainly no batch of the file was started.
        """
        batch_start = _BatchStart(file, may_exist=maybe_started)
        make_attempt = partial(self._find_or_start_batch, batch_start)  # each attempt updates `batch_start.may_exist`
        try:
            batch_id = await self._policy.call(make_attempt)
        except CallError as error:
            error.unbilled = not batch_start.may_exist  # the value after the last attempt
            raise
        if batch_id is None:
            raise CallError("The requests were never sent.", kind="transient", unbilled=True)
        return batch_id

    async def _find_or_start_batch(self, start: _BatchStart) -> str | None:
        """Make one attempt to start the batch of a file, and return its id.

        An earlier attempt may have started the batch already. In this case, the provider's list of batches is searched first, so
        that the batch is not started twice.

        start : state of the attempts. `may_exist` is set to True if this attempt may have started a batch.

        Returns None if the batch does not exist and cannot be started, because this process does not have its requests.
        Raises: CallError if a request fails, its reply is invalid, or the search has no clear result yet.
        """
        if start.may_exist:
            existing_batch = await self._find_batch(start.file)
            if existing_batch is not None:
                return existing_batch

        body = self._make_start_body(start.file)
        if body is None:
            return None
        return await self._send_start(start, body)

    async def _send_start(self, start: _BatchStart, body: Mapping[str, Any]) -> str:
        """Send the request that starts a batch, and return the id of the batch.

        start : state of the attempts. `may_exist` is set to True, unless the provider refuses to start the batch.
        body : body of the request

        Raises: CallError if the request fails or its reply is invalid.
        """
        could_exist_before = start.may_exist
        start.may_exist = True  # the provider may start the batch even if its reply is lost
        data = io.BytesIO(orjson.dumps(body))
        try:
            reply = await self._send_json("POST", self.path, data, seconds=_TRANSFER_SECONDS)
        except CallError as error:
            if _is_start_refused(error):
                start.may_exist = could_exist_before
            raise
        return _get_id(reply, "the batch")

    async def status(self, batch: str) -> BatchState:
        """Return the current status of a batch, given its id."""

        async def get_state() -> BatchState:
            reply = await self._send_json("GET", f"{self.path}/{batch}")
            return self._parse_state(reply, batch)

        return await self._policy.call(get_state)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    @abstractmethod
    def _make_start_body(self, file: str) -> dict[str, Any] | None:
        """Return the body of the request that starts the batch of a file; None if its requests are not available."""

    @abstractmethod
    async def _find_batch(self, file: str) -> str | None:
        """Find the batch that was started from a file. Raises: CallError if that cannot be decided yet."""

    @abstractmethod
    def _parse_state(self, reply: Mapping[str, Any], batch: str) -> BatchState:
        """Parse the provider's description of a batch.

        reply : JSON object with the description
        batch : id of the batch that was requested

        Raises: CallError if the status is unknown, or if the reply describes another batch.
        """

    async def _iter_batches(self) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the provider's batches, newest first."""
        cursor = ""
        while True:
            reply = await self._send_json("GET", f"{self.path}?limit=100{cursor}")
            page = reply.get("data")
            if not isinstance(page, list) or not all(isinstance(entry, dict) for entry in page):
                raise _make_reply_error("no list of batches")
            for entry in page:
                yield entry
            if not reply.get("has_more") or not page:
                return
            cursor = f"&{self.after}={_get_id(page[-1], 'the last batch of the list')}"

    async def _send_json(
        self, method: str, path: str, data: io.BytesIO | aiohttp.Payload | None = None, *, seconds: float | None = None
    ) -> Mapping[str, Any]:
        """Send a request and return its reply, which must be a JSON object.

        path : path below the address of the provider
        data : body of the request
        seconds : timeout; None for the timeout of a judge call

        Raises: CallError if the request fails, or the reply is not a JSON object.
        """
        body = await self._send_request(method, path, data, seconds=seconds)
        try:
            reply = parse_json(body, unique_keys=False).value
        except ValueError:
            raise _make_reply_error("no JSON") from None
        if not isinstance(reply, dict):
            raise _make_reply_error(f"a {type(reply).__name__}")
        return reply

    async def _send_request(
        self, method: str, path: str, data: io.BytesIO | aiohttp.Payload | None = None, *, seconds: float | None = None
    ) -> bytes:
        """Send a request and return the body of its reply; the arguments are those of `_send_json`."""
        headers = data.headers if isinstance(data, aiohttp.Payload) else None
        max_seconds = self._timeout if seconds is None else seconds
        return await self._http.send(
            method, path, data, headers=headers, max_seconds=max_seconds, max_bytes=_MAX_RESULT_BYTES
        )


def _is_start_refused(error: CallError) -> bool:
    """Return whether an error of the provider shows that it has not started the batch that it was asked to start."""
    status = error.status or 0
    return 400 <= status < 500 and status not in _MAY_HAVE_STARTED


_IN_PROGRESS = {"validating", "in_progress", "finalizing", "cancelling"}
_ENDED = {"completed", "failed", "expired", "cancelled"}


class OpenAIBatches(_HttpBatches):
    """Batches of OpenAI: a batch is started from an uploaded file, and its results are files."""

    async def upload(self, text: bytes) -> str:
        """Upload a file of requests, one JSON line each, and return its id."""

        async def send_file() -> str:
            """Make one attempt to upload the file."""
            form = aiohttp.FormData({"purpose": "batch"})
            form.add_field("file", io.BytesIO(text), filename="youden.jsonl")
            reply = await self._send_json("POST", "files", form(), seconds=_TRANSFER_SECONDS)
            return _get_id(reply, "the file")

        return await self._policy.call(send_file)

    async def fetch(self, file: str) -> bytes:
        """Return the content of a result file."""
        return await self._policy.call(
            lambda: self._send_request("GET", f"files/{file}/content", seconds=_TRANSFER_SECONDS)
        )

    def _make_start_body(self, file: str) -> dict[str, Any]:
        """Return the body of the request that starts a batch with an uploaded file."""
        return {"input_file_id": file, "endpoint": ENDPOINT, "completion_window": "24h"}

    async def _find_batch(self, file: str) -> str | None:
        """Search the provider's list for the batch of a file, for up to `MAX_LIST_LAG_SECONDS`; None if there is none."""
        for n_fifteenths in (0, 1, 2, 4, 8):
            await asyncio.sleep(MAX_LIST_LAG_SECONDS * n_fifteenths / 15)
            async for batch in self._iter_batches():
                if batch.get("input_file_id") == file:
                    return _get_id(batch, "the batch")
        return None

    def _parse_state(self, reply: Mapping[str, Any], batch: str) -> BatchState:
        """Parse OpenAI's description of a batch, an object with `id`, `status`, `request_counts`, and ids of result files.

        reply : JSON object with the description
        batch : id of the batch that was requested

        Raises: CallError if the status is unknown, or if the reply describes another batch.
        """
        reported_status = reply.get("status")
        status = reported_status.lower() if isinstance(reported_status, str) else None
        if status not in _IN_PROGRESS | _ENDED or reply.get("id", batch) != batch:
            raise _make_reply_error(f"a batch in the state {reported_status!r:.60}")

        file_ids = [reply.get("output_file_id"), reply.get("error_file_id")]
        files = tuple(file_id for file_id in file_ids if isinstance(file_id, str) and file_id)

        result_counts = _parse_result_counts(reply)
        return BatchState(
            status=status,
            ended=status in _ENDED,
            n_done=sum(result_counts),
            files=files,
            n_lines=_count_result_lines(status, result_counts, has_files=bool(files)),
            n_requests=_parse_count(reply, "total"),
            errors=_parse_line_errors(reply),
        )


def _count_result_lines(status: str, result_counts: Sequence[int], *, has_files: bool) -> int | None:
    """Return the number of result lines of a batch of OpenAI that ended before all of its requests ran.

    status : status of the batch
    result_counts : numbers of requests with an answer and with an error; shorter if a number is not known
    has_files : whether the batch has result files

    Returns None if the number is not known, or if the batch is completed. A completed batch has a line for every request.
    """
    if status == "completed":
        return None
    has_both_counts = len(result_counts) == 2
    failed_without_results = status == "failed" and not has_files  # no request ran, so no line will follow
    if has_both_counts or failed_without_results:
        return sum(result_counts)
    return None


def _parse_result_counts(reply: Mapping[str, Any]) -> list[int]:
    """Return the numbers of requests with an answer and with an error in OpenAI's description of a batch.

    A number that is missing or invalid is left out, so that the list has at most two elements.
    """
    counts = [_parse_count(reply, "completed"), _parse_count(reply, "failed")]
    return [n for n in counts if n is not None]


def _parse_count(reply: Mapping[str, Any], name: str) -> int | None:
    """Return a number of requests in OpenAI's description of a batch; None if it is missing or invalid."""
    n_requests = object_or_empty(reply.get("request_counts")).get(name)
    return n_requests if isinstance(n_requests, int) and n_requests >= 0 else None


def _parse_line_errors(reply: Mapping[str, Any]) -> tuple[LineError, ...]:
    """Parse the errors about lines of a batch in OpenAI's description of it."""
    errors = object_or_empty(reply.get("errors")).get("data")
    if not isinstance(errors, list):
        return ()
    return tuple(_parse_line_error(error) for error in errors if isinstance(error, dict))


def _parse_line_error(error: Mapping[str, Any]) -> LineError:
    """Parse an error of OpenAI about one line of a batch; fields of a wrong type are dropped."""
    code = error.get("code")
    masked_code = mask_secrets(code) if isinstance(code, str) else None
    message = error.get("message")
    has_message = isinstance(message, str) and bool(message)
    masked_message = mask_secrets(str(message)) if has_message else "no reason given"
    line = error.get("line")
    line_number = line if isinstance(line, int) else None
    return LineError(masked_code, masked_message, line_number)


_MAX_CLOCK_DIFFERENCE_SECONDS = 86_400.0
"""Largest difference between clocks: a batch that is older than its file by more belongs to another file."""
_COUNTS = ("processing", "succeeded", "errored", "canceled", "expired")


class AnthropicBatches(_HttpBatches):
    """Batches of Anthropic: a batch is sent in one request, without a file, and cannot be given a name.

    The id of a "file" therefore holds what identifies its batch: the hash of its first request, the number of requests,
    and the time of its creation. After a lost reply, a batch of the same size is this one if its results contain the
    hash. While a batch of the same size is in progress this cannot be decided, and nothing is sent again.
    """

    judge = AnthropicJudge
    path = "messages/batches"
    after = "after_id"

    def __init__(self, connection: Connection, *, policy: RetryPolicy) -> None:
        super().__init__(connection, policy=policy)
        self._requests: dict[str, list[dict[str, Any]]] = {}

    async def upload(self, text: bytes) -> str:
        """Keep a file of requests in this process and return its id; nothing is sent yet."""
        lines = [orjson.loads(line) for line in text.splitlines()]
        requests = [
            {"custom_id": line["custom_id"], "params": AnthropicJudge.convert_request(line["body"])} for line in lines
        ]
        file = f"{requests[0]['custom_id']}:{len(requests)}:{time.time():.0f}"
        self._requests[file] = requests
        return file

    async def start(self, file: str, *, maybe_started: bool) -> str:
        """Send the requests of a file as a batch, drop them from memory, and return the id of the batch."""
        batch = await super().start(file, maybe_started=maybe_started)
        self._requests.pop(file, None)
        return batch

    async def fetch(self, file: str) -> bytes:
        """Return the result lines of an ended batch in OpenAI's format."""
        text = await self._policy.call(lambda: self._fetch_results(file))
        return b"\n".join(_to_openai_line(line) for line in text.splitlines() if line.strip())

    def _make_start_body(self, file: str) -> dict[str, Any] | None:
        if file not in self._requests:
            return None
        return {"requests": self._requests[file]}

    async def _find_batch(self, file: str) -> str | None:
        """Search the provider's list of batches for the batch of a file.

        The batch has as many requests as the file, and its results contain the hash of the file's first request.

        file : id that `upload` made: hash of the first request, number of requests, and Unix time, separated by colons

        Returns the id of the batch, or None if the list does not contain it.
        Raises: CallError if a batch of the same size is in progress, because its requests are not known yet.
        """
        first_request_hash, n_requests, upload_time = file.split(":")
        earliest_start = int(upload_time) - _MAX_CLOCK_DIFFERENCE_SECONDS
        async for listed_batch in self._iter_batches():  # newest first
            start_time = _parse_time(listed_batch.get("created_at"))
            if start_time < earliest_start:
                return None
            has_same_size = sum(_parse_counts(listed_batch).values()) == int(n_requests)
            if has_same_size and await self._is_batch_of_request(first_request_hash, listed_batch):
                return _get_id(listed_batch, "the batch")
        return None

    async def _is_batch_of_request(self, request_hash: str, listed_batch: Mapping[str, Any]) -> bool:
        """Return whether a batch contains a request, by searching its results for the hash of the request.

        request_hash : hash of the request, which Anthropic repeats in the result of the request
        listed_batch : description of the batch in the provider's list of batches

        Raises: CallError if the batch has not ended, because its results cannot be fetched yet.
        """
        batch_id = _get_id(listed_batch, "the batch")
        if listed_batch.get("processing_status") != "ended":
            raise _make_reply_error(
                f"a batch of the same size, {batch_id}, which may be this one and is still in progress"
            )
        results = await self._fetch_results(batch_id)
        return request_hash.encode() in results

    def _parse_state(self, reply: Mapping[str, Any], batch: str) -> BatchState:
        """Parse Anthropic's description of a batch, an object with `id`, `processing_status` and `request_counts`.

        The id of an ended batch is also the id of its results. `n_lines` is not set, because every request gets a result line,
        even if the batch was cancelled.

        reply : JSON object with the description
        batch : id of the batch that was requested

        Raises: CallError if the status is unknown, or if the reply describes another batch.
        """
        counts = _parse_counts(reply)
        status = reply.get("processing_status")
        if reply.get("id") != batch or status not in ("in_progress", "canceling", "ended"):
            raise _make_reply_error(f"a batch in the state {status!r:.60}")

        n_done = sum(counts.values()) - counts["processing"]
        if status != "ended":
            return BatchState(status, ended=False, n_done=n_done)
        return BatchState(_get_final_status(counts), ended=True, n_done=n_done, files=(batch,))

    async def _fetch_results(self, batch: str) -> bytes:
        """Download the results of a finished batch."""
        return await self._send_request("GET", f"{self.path}/{batch}/results", seconds=_TRANSFER_SECONDS)


def _get_final_status(counts: Mapping[str, int]) -> str:
    """Return the status of an ended batch as OpenAI would report it. Anthropic reports only that the batch has ended.

    counts : number of requests in each state of `_COUNTS`
    """
    if counts["canceled"]:
        return "cancelled"
    if counts["expired"]:
        return "expired"
    return "completed"


def _to_openai_line(line: bytes) -> bytes:
    """Convert the result of one request of Anthropic's batch, a line of JSON, to OpenAI's format.

    A line that is not JSON, or whose `result` has no `type`, is returned unchanged.
    """
    try:
        parsed_line = parse_json(line, unique_keys=False).value
        result = parsed_line["result"]
        result_type = result["type"]
    except (ValueError, KeyError, TypeError):
        return line
    custom_id = parsed_line.get("custom_id")

    if result_type == "succeeded":
        response = {"status_code": 200, "body": AnthropicJudge.convert_reply(result.get("message"))}
        return orjson.dumps({"custom_id": custom_id, "response": response, "error": None})

    error = _to_openai_error(result_type, object_or_empty(result.get("error")))
    status = find_status_of_code(error["code"])
    error_response = None if status is None else {"status_code": status, "body": {"error": error}}
    return orjson.dumps({"custom_id": custom_id, "response": error_response, "error": error})


def _to_openai_error(result_type: str, reported_error: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the error of a result without an answer to OpenAI's format, an object with `code` and `message`.

    result_type : "errored", "canceled" or "expired"
    reported_error : `error` of the result, which may be empty. It contains `type` and `message`, or these are in an inner object
        with the name `error`.
    """
    details = object_or_empty(reported_error.get("error")) or reported_error
    code = details.get("type") or f"batch_{result_type}"
    message = details.get("message") or f"The request {result_type}."
    return {"code": code, "message": message}


def _parse_counts(reply: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of requests of a batch in each state of `_COUNTS`.

    Raises: CallError if a number is missing or invalid.
    """
    reported_counts = object_or_empty(reply.get("request_counts"))
    counts = {}
    for name in _COUNTS:
        n_requests = reported_counts.get(name)
        if not isinstance(n_requests, int) or n_requests < 0:
            raise _make_reply_error("a batch without its counts")
        counts[name] = n_requests
    return counts


def _parse_time(created_at: object) -> float:
    """Convert an ISO 8601 time to seconds since 1970. Raises: CallError if it is invalid."""
    try:
        return datetime.fromisoformat(str(created_at)).timestamp()
    except ValueError:
        raise _make_reply_error("a batch without a valid time of creation") from None


def _get_id(reply: Mapping[str, Any], subject: str) -> str:
    """Return the id in a reply. Raises: CallError if there is none, or if it contains a secret of this process."""
    identifier = reply.get("id")
    if not isinstance(identifier, str) or not identifier or mask_secrets(identifier) != identifier:
        raise _make_reply_error(f"no id of {subject}")
    return identifier


def _make_reply_error(content: str) -> CallError:
    """Make the error for a reply of the provider that is not valid; `content` describes the reply."""
    return CallError(f"The provider answered with {content}.", kind="transient")
