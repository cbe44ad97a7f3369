"""Provide an HTTP server on 127.0.0.1 that implements OpenAI's files and batches and fails on command.

It does not import youden. `behave(n, body)` answers line number n of all processed lines. `fates` lists the final
states of the batches in order ('completed' if it is exhausted), and `faults` the faults of the requests to a step in
order. `odd` replaces the replies of a step, for `odd_times` replies. A new batch is listed after `lag` seconds.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from aiohttp import web

from wire_server import Reply, Served, claude_message, completion, well_behaved

Fate = Literal["completed", "expired", "cancelled", "refused", "lines refused", "vanished"]
Step = Literal["upload", "create", "look", "list", "fetch"]
Odd = Mapping[Step, Callable[[Any], Any]]
"""By step: function that replaces the reply, which is bytes for a file and parsed JSON otherwise."""
Fault = Literal["500", "401", "400", "reset", "lost", "409 lost", "500 lost", "504 lost"]
"""lost: the request is processed, but its reply does not arrive or reports a failure."""


def _failure_lines(text: bytes) -> bytes:
    """Return failures with the same keys."""
    error = {"code": "server_error", "message": "late"}
    return b"".join(
        json.dumps({"custom_id": json.loads(line)["custom_id"], "response": None, "error": error}).encode() + b"\n"
        for line in text.splitlines()
    )


HICCUPS: dict[str, Odd] = {
    "nothing in it": {"look": lambda _: {}},
    "an error with status 200": {"look": lambda _: {"error": {"message": "try later", "type": "server_error"}}},
    "queued": {"look": lambda said: said | {"status": "queued"}},
    "IN_PROGRESS": {"look": lambda said: said | {"status": "IN_PROGRESS"}},
    "no status": {"look": lambda said: said | {"status": None}},
    "null": {"look": lambda _: None},
    "a list": {"look": lambda said: [said]},
    "a text": {"look": lambda said: said["status"]},
    "its files come later": {"look": lambda said: said | {"output_file_id": None, "error_file_id": None}},
    "a file that is an error": {"fetch": lambda _: b'{"error": {"message": "not ready"}}'},
    "an empty file": {"fetch": lambda _: b""},
    "half a file": {"fetch": lambda text: text[: len(text) // 2 + 7]},
    "a line that is garbage": {"fetch": lambda text: b"x" + text[1:]},
    "a list of nothing": {"create": lambda _: {}, "list": lambda _: {}},
}
"""Faults of a provider that leave the state of its requests unknown."""

QUIRKS: dict[str, Odd] = {
    "plain": {},
    "upper case": {"look": lambda said: said | {"status": said["status"].upper()}},
    "counts that are no numbers": {
        "look": lambda said: said | {"request_counts": {"completed": "1", "failed": [None]}}
    },
    "no counts": {"look": lambda said: said | {"request_counts": None}},
    "lines beside that are garbage": {"fetch": lambda text: b'torn {\n[]\n{}\n{"custom_id": 7}\n' + text + b"\xff\n\n"},
    "late failures": {"fetch": lambda text: text + _failure_lines(text)},
    "early failures": {"fetch": lambda text: _failure_lines(text) + text},
    "each line twice": {"fetch": lambda text: text + text.replace(b"YES", b"NO")},
}
"""Permitted irregularities that leave the state of requests known."""


@dataclass
class Batch:
    """A batch as the server stores it."""

    id: str
    file: str
    fate: Fate
    begun: float
    looks: int = 0
    output: str | None = None
    errors: str | None = None


@dataclass
class BatchServer(Served):
    """Server of batches: `async with BatchServer() as server`.

    `server.url` is its address; `bodies` are those of all lines answered with 200, which are billed.
    """

    behave: Callable[[int, Mapping[str, Any]], Reply] = well_behaved
    fates: list[Fate] = field(default_factory=list)
    faults: dict[Step, list[Fault | None]] = field(default_factory=dict)
    odd: Odd = field(default_factory=dict)
    odd_times: float = math.inf
    lag: float = 0.0
    looks_needed: int = 1
    bad_lines: tuple[int, ...] = (2,)
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, Batch] = field(default_factory=dict)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    n_lines: int = 0

    def __post_init__(self) -> None:
        self._n_odd: Counter[Step] = Counter()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/files", self._upload),
            web.get("/v1/files/{id}/content", self._fetch),
            web.post("/v1/batches", self._create),
            web.get("/v1/batches", self._list),
            web.get("/v1/batches/{id}", self._poll),
        ]

    @property
    def inputs(self) -> list[list[dict[str, Any]]]:
        """Return the lines of every uploaded file of requests, in order."""
        return [
            [json.loads(line) for line in text.splitlines()]
            for name, text in self.files.items()
            if name.startswith("file-in")
        ]

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        assert form["purpose"] == "batch"
        upload = form["file"]
        assert isinstance(upload, web.FileField)
        name = f"file-in-{len(self.files)}"
        text = upload.file.read()

        def do() -> object:
            self.files[name] = text
            return {"id": name, "object": "file", "bytes": len(text), "purpose": "batch"}

        return await self._step("upload", request, do)

    async def _create(self, request: web.Request) -> web.StreamResponse:
        data = await request.json()
        assert (data["endpoint"], data["completion_window"]) == ("/v1/chat/completions", "24h")

        def do() -> object:
            fate = self.fates.pop(0) if self.fates else "completed"
            batch = Batch(f"batch_{len(self.batches)}", data["input_file_id"], fate, time.monotonic())
            self.batches[batch.id] = batch
            return self._describe_batch(batch)

        return await self._step("create", request, do)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        observed = [batch for batch in self.batches.values() if time.monotonic() - batch.begun >= self.lag]
        newest_first = observed[::-1]
        after = request.query.get("after")
        if after is not None:
            newest_first = newest_first[[batch.id for batch in newest_first].index(after) + 1 :]
        page = newest_first[:2]

        def do() -> object:
            displayed = [self._describe_batch(batch) for batch in page]
            return {"object": "list", "data": displayed, "has_more": len(newest_first) > len(page)}

        return await self._step("list", request, do)

    async def _poll(self, request: web.Request) -> web.StreamResponse:
        batch = self.batches[request.match_info["id"]]

        def do() -> object:
            if batch.fate == "vanished":
                return web.json_response({"error": {"message": f"No such batch: {batch.id}"}}, status=404)
            batch.looks += 1
            if batch.looks >= self.looks_needed and batch.output is batch.errors is None:
                self._end(batch)
            return self._describe_batch(batch)

        return await self._step("look", request, do)

    async def _fetch(self, request: web.Request) -> web.StreamResponse:
        return await self._step("fetch", request, lambda: self.files[request.match_info["id"]])

    async def _step(self, step: Step, request: web.Request, do: Callable[[], object]) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        faults = self.faults.get(step) or [None]
        fault = faults.pop(0)
        if fault is not None and fault.endswith("lost"):
            do()
        if fault in ("reset", "lost"):
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if fault is not None:
            return web.json_response({"error": {"message": "as told"}}, status=int(fault.split()[0]))
        output = do()
        if step in self.odd and self._n_odd[step] < self.odd_times:
            self._n_odd[step] += 1
            output = self.odd[step](output)
        if isinstance(output, web.Response):
            return output
        return web.Response(body=output) if isinstance(output, bytes) else web.json_response(output)

    def _describe_batch(self, batch: Batch) -> dict[str, Any]:
        ended = batch.looks >= self.looks_needed
        refused = batch.fate in ("refused", "lines refused")
        status = ("failed" if refused else batch.fate) if ended else "in_progress"
        errors: list[dict[str, Any]] = []
        if ended and batch.fate == "refused":
            errors = [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached", "line": None}]
        if ended and batch.fate == "lines refused":
            errors = [{"code": "invalid_request", "message": "too long", "line": line} for line in self.bad_lines]
        n = len(self.files[batch.file].splitlines())
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "created_at": 0,
            "input_file_id": batch.file,
            "status": status,
            "output_file_id": batch.output,
            "error_file_id": batch.errors,
            "errors": {"object": "list", "data": errors} if errors else None,
            "request_counts": {"total": n, "completed": n if ended and not refused else 0, "failed": 0},
        }

    def _end(self, batch: Batch) -> None:
        """Process the batch: all lines, or every second one if it expires or is cancelled."""
        if batch.fate in ("refused", "lines refused"):
            return
        good: list[dict[str, Any]] = []
        bad: list[dict[str, Any]] = []
        lines = [json.loads(line) for line in self.files[batch.file].splitlines()]
        assert len({line["custom_id"] for line in lines}) == len(lines)
        for number, line in enumerate(lines):
            if batch.fate in ("expired", "cancelled") and number % 2:
                error = {"code": f"batch_{batch.fate}", "message": "This request was not executed in time."}
                bad.append({"id": "x", "custom_id": line["custom_id"], "response": None, "error": error})
                continue
            assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
            reply = self.behave(self.n_lines, line["body"])
            self.n_lines += 1
            body = completion(reply, model=line["body"]["model"])
            if reply.status >= 400:
                body = {"error": dict(reply.error)}
            else:
                self.bodies.append(line["body"])
            result = {
                "id": "x",
                "custom_id": line["custom_id"],
                "response": {"status_code": reply.status, "request_id": "r", "body": body},
                "error": None,
            }
            (good if reply.status == 200 else bad).append(result)
        good.reverse()
        batch.output = self._keep("out", good)
        batch.errors = self._keep("err", bad)

    def _keep(self, kind: str, lines: list[dict[str, Any]]) -> str | None:
        if not lines:
            return None
        name = f"file-{kind}-{len(self.files)}"
        self.files[name] = "".join(json.dumps(line) + "\n" for line in lines).encode()
        return name


@dataclass
class ClaudeBatchServer(Served):
    """Server of Anthropic's Message Batches.

    `bodies` are those of all successful requests, which are billed; `n_begun` is the number of batches. `fates`
    lists the final states of the batches: completed, or cancelled or expired with half of the requests. `faults`
    lists those of the requests that start a batch: `lost` starts it and breaks the connection; `500` and `400`
    start nothing. A batch ends after `looks_needed` polls. `error` is the error of a request that `behave`
    rejects.
    """

    behave: Callable[[int, Mapping[str, Any]], Reply] = well_behaved
    fates: list[Fate] = field(default_factory=list)
    faults: list[Fault | None] = field(default_factory=list)
    looks_needed: int = 1
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    results: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    looks: Counter[str] = field(default_factory=Counter)
    error: Mapping[str, str] = field(default_factory=lambda: {"type": "invalid_request_error", "message": "as told"})

    @property
    def n_begun(self) -> int:
        return len(self.results)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/messages/batches", self._create),
            web.get("/v1/messages/batches", self._list),
            web.get("/v1/messages/batches/{id}", self._poll),
            web.get("/v1/messages/batches/{id}/results", self._fetch),
        ]

    async def _create(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        requests = (await request.json())["requests"]
        assert len({line["custom_id"] for line in requests}) == len(requests)
        assert all(len(line["custom_id"]) <= 64 for line in requests)
        fault = self.faults.pop(0) if self.faults else None
        if fault in ("500", "400"):
            kind = "api_error" if fault == "500" else "invalid_request_error"
            return web.json_response(
                {"type": "error", "error": {"type": kind, "message": "as told"}}, status=int(fault)
            )
        batch, fate = f"msgbatch_{self.n_begun}", self.fates.pop(0) if self.fates else "completed"
        self.results[batch] = [self._result(n, line, fate) for n, line in enumerate(requests)][::-1]
        if fault == "lost":
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(self._describe_batch(batch))

    def _result(self, number: int, one: Mapping[str, Any], fate: Fate) -> dict[str, Any]:
        if fate != "completed" and number % 2:
            return {"custom_id": one["custom_id"], "result": {"type": {"cancelled": "canceled"}.get(fate, fate)}}
        reply = self.behave(number, one["params"])
        if reply.status >= 400:
            error = {"type": "error", "error": dict(self.error)}
            return {"custom_id": one["custom_id"], "result": {"type": "errored", "error": error}}
        self.bodies.append(dict(one["params"]))
        message = claude_message(reply, model=one["params"]["model"])
        return {"custom_id": one["custom_id"], "result": {"type": "succeeded", "message": message}}

    async def _list(self, request: web.Request) -> web.StreamResponse:
        displayed = [self._describe_batch(batch) for batch in self.results][::-1]
        return web.json_response({"data": displayed, "has_more": False})

    async def _poll(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(self._describe_batch(request.match_info["id"]))

    async def _fetch(self, request: web.Request) -> web.StreamResponse:
        lines = self.results[request.match_info["id"]]
        return web.Response(body="".join(json.dumps(line) + "\n" for line in lines).encode())

    def _describe_batch(self, batch: str) -> dict[str, Any]:
        self.looks[batch] += 1
        ended = self.looks[batch] > self.looks_needed
        kinds = Counter(line["result"]["type"] for line in self.results[batch])
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        counts |= kinds if ended else {"processing": len(self.results[batch])}
        return {
            "id": batch,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts,
            "created_at": datetime.now(UTC).isoformat(),
        }
