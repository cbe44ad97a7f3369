"""Provide an HTTP server on 127.0.0.1 that implements the OpenAI chat format and misbehaves on command.

It also implements Anthropic's messages, Bedrock's converse and Vertex AI's generateContent, and issues tokens to
Google's libraries. It does not import youden. `behave(n, body)` determines the reply to request number n.
"""

from __future__ import annotations

import asyncio
import re
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self, TypeVar

from aiohttp import web

S = TypeVar("S")

Fault = Literal["none", "reset", "stall", "truncated", "malformed", "no_choices", "html"]


@dataclass(frozen=True)
class Reply:
    """A reply: a completion (`text`, …), an HTTP error (`status` of at least 400), or a `fault` of the connection."""

    text: str | None = "YES"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: Fault = "none"
    delay: float = 0.0
    finish_reason: str = "stop"
    refusal: str | None = None
    model: str | None = None
    error: Mapping[str, object] = field(default_factory=lambda: {"message": "as told"})
    usage: Mapping[str, int | str] | None = field(
        default_factory=lambda: {"prompt_tokens": 100, "completion_tokens": 1}
    )
    logprobs: Any = None


class Form(Protocol):
    """Format of a reply: a function that returns its JSON."""

    def __call__(self, reply: Reply, *, model: str) -> dict[str, Any]: ...


def same_item(body: Mapping[str, Any]) -> str:
    """Return YES if both texts of `small_pools.make_pool` are of the same item."""
    items = re.findall(r"says something of item (\d+)", body["messages"][-1]["content"])
    return "YES" if items[0] == items[1] else "NO"


def draw(body: Mapping[str, Any], n: int) -> int:
    """Return a number below n that depends only on the request, not on the order of concurrent requests."""
    return zlib.crc32(repr(body["messages"]).encode()) % n


def well_behaved(_n: int, body: Mapping[str, Any]) -> Reply:
    return Reply(same_item(body))


class Served:
    """HTTP server of `routes()` on 127.0.0.1 at `url`; port 0 selects a free one."""

    port = 0

    def routes(self) -> list[web.RouteDef]:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=2**30)
        app.add_routes(self.routes())
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        await self._listen()
        self.port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        return self

    async def _listen(self) -> None:
        self._site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await self._site.start()

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()


class WireServer(Served):
    """Server of chat completions with `url`, and `paths`, `bodies` and `headers` of all requests so far.

    `keep` is whether these are kept; a long benchmark only counts. `forms` has the formats of replies, as `FORMS`.
    """

    def __init__(
        self,
        behave: Callable[[int, Mapping[str, Any]], Reply] = well_behaved,
        *,
        keep: bool = True,
        port: int = 0,
        forms: Mapping[str, Form] | None = None,
    ) -> None:
        self.behave = behave
        self._forms = FORMS if forms is None else forms
        self.port = port
        self.n_requests = 0
        self._keep = keep
        self.paths: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.n_open = 0
        self.most_open = 0

    def routes(self) -> list[web.RouteDef]:
        paths = ("/v1/chat/completions", *(f"/{{path:.*{end}}}" for end in self._forms))
        return [*(web.post(path, self._answer) for path in paths), web.post("/token", self._token)]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if self._keep:
            self.paths.append(request.path)
            self.bodies.append(body)
            self.headers.append(dict(request.headers))
        self.n_requests += 1
        self.n_open += 1
        self.most_open = max(self.most_open, self.n_open)
        try:
            return await self._reply(request, self.behave(self.n_requests - 1, body), asked_for=body.get("model", ""))
        finally:
            self.n_open -= 1

    async def _token(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response({"access_token": "a-token-of-googles", "expires_in": 3600, "token_type": "Bearer"})

    async def _reply(self, request: web.Request, reply: Reply, *, asked_for: str) -> web.StreamResponse:
        if reply.delay:
            await asyncio.sleep(reply.delay)
        claude = request.path.endswith("/messages")
        if reply.status >= 400:
            error = {"error": dict(reply.error)} | ({"type": "error"} if claude else {})
            return web.json_response(error, status=reply.status, headers=reply.headers)
        match reply.fault:
            case "reset":
                assert request.transport is not None
                request.transport.abort()
            case "stall":
                await asyncio.sleep(60)
            case "truncated":
                cut = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "500"})
                await cut.prepare(request)
                await cut.write(b'{"choices": [')
                assert request.transport is not None
                request.transport.close()
                return cut
            case "malformed":
                return web.Response(body=b'{"choices": [{"mess', content_type="application/json")
            case "html":
                return web.Response(body=b"<html>busy</html>", content_type="text/html")
            case "no_choices":
                return web.json_response({"id": "x", "model": "m", "choices": []})
            case "none":
                pass
        form = next((form for end, form in self._forms.items() if request.path.endswith(end)), completion)
        return web.json_response(form(reply, model=reply.model or asked_for), headers=reply.headers)


def completion(reply: Reply, *, model: str) -> dict[str, Any]:
    """Return the JSON of a chat completion."""
    message = {"role": "assistant", "content": reply.text, "refusal": reply.refusal}
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason, "logprobs": reply.logprobs}
    complete = {"id": "x", "object": "chat.completion", "created": 0, "model": model, "choices": [choice]}
    if reply.usage is None:
        return complete
    return complete | {"usage": {**reply.usage, "total_tokens": sum(int(n) for n in reply.usage.values())}}


def claude_message(reply: Reply, *, model: str) -> dict[str, Any]:
    """Return the JSON of a message of Anthropic's API."""
    ended = {"stop": "end_turn", "length": "max_tokens"}.get(reply.finish_reason, reply.finish_reason)
    usage = reply.usage or {}
    return {
        "id": "msg_x",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [] if reply.text is None else [{"type": "text", "text": reply.text}],
        "stop_reason": "refusal" if reply.refusal else ended,
        "usage": {"input_tokens": usage.get("prompt_tokens", 0), "output_tokens": usage.get("completion_tokens", 0)},
    }


def bedrock_message(reply: Reply, *, model: str) -> dict[str, Any]:
    """Return the JSON of Bedrock's converse, which does not name its model."""
    usage = reply.usage or {}
    n_in, n_out = int(usage.get("prompt_tokens", 0)), int(usage.get("completion_tokens", 0))
    return {
        "output": {"message": {"role": "assistant", "content": [{"text": reply.text}]}},
        "stopReason": "guardrail_intervened" if reply.refusal else "end_turn",
        "usage": {"inputTokens": n_in, "outputTokens": n_out, "totalTokens": n_in + n_out},
        "metrics": {"latencyMs": 1},
    }


def vertex_message(reply: Reply, *, model: str) -> dict[str, Any]:
    """Return the JSON of Vertex AI's generateContent."""
    usage = reply.usage or {}
    n_in, n_out = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
    output = {"role": "model", "parts": [{"text": reply.text}]}
    return {
        "candidates": [{"content": output, "finishReason": "SAFETY" if reply.refusal else "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": n_in,
            "candidatesTokenCount": n_out,
            "totalTokenCount": int(n_in) + int(n_out),
        },
        "modelVersion": reply.model or "gemini",
    }


FORMS: dict[str, Form] = {"/messages": claude_message, "/converse": bedrock_message, ":generateContent": vertex_message}
"""Formats of replies by the end of the requested path; the default is a chat completion."""


@contextmanager
def in_a_thread(behave: Callable[[int, Mapping[str, Any]], Reply] = well_behaved) -> Iterator[WireServer]:
    """Run a `WireServer` in a thread, for code that starts an event loop itself."""
    with running(WireServer(behave)) as server:
        yield server


@contextmanager
def running(server: AbstractAsyncContextManager[S]) -> Iterator[S]:
    """Run any server in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result()
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
