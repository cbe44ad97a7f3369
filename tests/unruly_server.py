"""Provide real servers on 127.0.0.1 that send arbitrary bytes, have outages on command, and keep their own bill.

The bill is that of an honest provider: a quarter of the request's characters plus the answer, at most its bytes and
max_tokens. The usage reported by a reply does not change it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web

from batch_server import BatchServer
from wire_server import Served, same_item

Body = Mapping[str, Any]
ODDS = (-0.1, -2.4)


@dataclass(frozen=True)
class Sent:
    """The bytes of a reply.

    `cut`: bytes after which the connection is closed. `billed`: whether the provider charges for it. `dropped`:
    the connection is closed before any byte is sent.
    """

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    cut: int | None = None
    billed: bool = True
    dropped: bool = False


Script = Callable[[int, str, Body], Sent]
"""(number of the request, its key, its body) → reply."""


def key_of(body: Body) -> str:
    """Return a key that is equal for equal requests."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def tokens_of(body: Body) -> tuple[int, int]:
    """Return the input and output tokens that an honest provider bills."""
    n_bytes = sum(len(message["content"].encode()) for message in body["messages"])
    return n_bytes // 4 + 3, 1


def reply_to(body: Body, *, said: str | None = None) -> dict[str, Any]:
    """Return a valid reply that is correct for `small_pools.make_pool`, with consistent log-probabilities and usage."""
    said = said or same_item(body)
    opposite = {"YES": "NO", "NO": "YES"}.get(said, "NO")
    top = [{"token": token, "logprob": odds} for token, odds in zip((said, opposite), ODDS, strict=True)]
    tokens_in, tokens_out = tokens_of(body)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": said, "refusal": None},
        "finish_reason": "stop",
        "logprobs": {"content": [{"token": said, "logprob": ODDS[0], "top_logprobs": top}]},
    }
    usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}
    head = {"id": "x", "object": "chat.completion", "created": 0, "model": body["model"], "system_fingerprint": "fp"}
    return {**head, "choices": [choice], "usage": usage}


def sent(reply: object, **options: Any) -> Sent:
    """Return `reply` as JSON, with NaN and Infinity as Python writes them."""
    return replace(Sent(json.dumps(reply).encode()), **options)


def healthy(_n: int, _key: str, body: Body) -> Sent:
    return sent(reply_to(body))


@dataclass
class Bill:
    """The requests and their costs, by key."""

    asked: Counter[str] = field(default_factory=Counter)
    paid: Counter[str] = field(default_factory=Counter)
    tokens_in: int = 0
    tokens_out: int = 0

    def add(self, body: Body) -> None:
        """Add a completion made for `body`, whether or not it arrived."""
        n_in, n_out = tokens_of(body)
        self.paid[key_of(body)] += 1
        self.tokens_in, self.tokens_out = self.tokens_in + n_in, self.tokens_out + n_out

    def usd(self, price: float) -> float:
        """Return the bill in USD at `price` per million input and output tokens."""
        return (self.tokens_in + self.tokens_out) * price / 1e6

    @property
    def n_paid_twice(self) -> int:
        return sum(n - 1 for n in self.paid.values())


class UnrulyServer(Served):
    """Server that answers by `script`, which may be changed at any time: `async with UnrulyServer(script) as
    server`.

    `server.url` is its address and `server.bill` its bill. `await server.away(seconds)` closes the port and all
    connections for this time. No reply is sent while `goes_on` is cleared. `trapped` lists the bodies of requests
    that followed a redirect to /trap.
    """

    def __init__(self, script: Script = healthy) -> None:
        self.script = script
        self.bill = Bill()
        self.n_requests = 0
        self._n_open = 0
        self._moved = asyncio.Condition()
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.trapped: list[bytes] = []

    def routes(self) -> list[web.RouteDef]:
        answered = [web.post(f"/v1/{path}", self._answer) for path in ("chat/completions", "messages")]
        return [*answered, web.route("*", "/trap/{rest:.*}", self._trap)]

    async def away(self, seconds: float) -> None:
        await self._site.stop()
        assert self._runner.server is not None
        for connection in list(self._runner.server.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(seconds)
        await self._listen()

    async def requests(self, n: int) -> None:
        """Wait for this number of requests."""
        async with self._moved:
            await self._moved.wait_for(lambda: self.n_requests >= n)

    async def quiet(self) -> None:
        """Wait until all replies in progress are sent."""
        async with self._moved:
            await self._moved.wait_for(lambda: not self._n_open)

    async def _tell(self) -> None:
        async with self._moved:
            self._moved.notify_all()

    async def _trap(self, request: web.Request) -> web.StreamResponse:
        self.trapped.append(await request.read())
        return web.Response(status=404)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        key = key_of(body)
        self.bill.asked[key] += 1
        number = self.n_requests
        self.n_requests += 1
        self._n_open += 1
        await self._tell()
        try:
            return await self._send(request, body, self.script(number, key, body))
        finally:
            self._n_open -= 1
            await self._tell()

    async def _send(self, request: web.Request, body: Body, out: Sent) -> web.StreamResponse:
        await self.goes_on.wait()
        if out.delay:
            await asyncio.sleep(out.delay)
        if out.billed:
            self.bill.add(body)
        if out.dropped:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        headers = {"Content-Type": "application/json", **out.headers}
        if out.cut is None:
            return web.Response(body=out.body, status=out.status, headers=headers)
        response = web.StreamResponse(status=out.status, headers={**headers, "Content-Length": str(len(out.body))})
        await response.prepare(request)
        await response.write(out.body[: out.cut])
        if request.transport is not None:
            request.transport.close()
        return response


@dataclass
class UnrulyBatchServer(BatchServer):
    """A `BatchServer` whose result lines are changed by `twist` (number of the line, its result), which returns
    line and billing.
    """

    twist: Callable[[int, dict[str, Any]], Sent] = lambda _n, result: sent(result)
    bill: Bill = field(default_factory=Bill)
    n_results: int = 0
    whole: dict[str, bytes] = field(default_factory=dict)

    def _keep(self, kind: str, lines: list[dict[str, Any]]) -> str | None:
        if kind != "out" or not lines:
            return super()._keep(kind, lines)
        asked = {line["custom_id"]: line["body"] for lines_in in self.inputs for line in lines_in}
        raw, well = [], []
        for line in lines:
            body = asked[line["custom_id"]]
            self.bill.asked[key_of(body)] += 1
            response = {**line["response"], "body": reply_to(body)}
            out = self.twist(self.n_results, {**line, "response": response})
            if out.billed:
                self.bill.add(body)
            raw.append(out.body)
            well.append(sent({**line, "response": response}).body)
            self.n_results += 1
        name = f"file-out-{len(self.files)}"
        self.files[name], self.whole[name] = b"\n".join(raw) + b"\n", b"\n".join(well) + b"\n"
        return name

    def heal(self) -> None:
        """Send correct lines from now on, also in existing files."""
        self.twist = lambda _n, result: sent(result)
        self.files |= self.whole
