"""The `openai` backend by itself: what it sends, what it reads, what it makes of errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import respx
from openai import AsyncOpenAI

from judged import KEY
from wire_server import Fault, Reply, WireServer, completion
from youden.judging.backends.openai import OpenAIJudge
from youden.judging.call.connection import Connection
from youden.judging.call.failures import CallError, fate
from youden.nouns import Message, Request

URL = "http://127.0.0.1:9/v1"
CONNECTION = Connection("test", URL, 60.0, api_key=KEY)
REQUEST = Request("m", (Message("system", "s"), Message("user", "u")), {"temperature": 0, "max_tokens": 8, "top_k": 5})


@pytest.fixture
async def judge() -> AsyncIterator[OpenAIJudge]:
    """A judge over plain httpx, which respx can see."""
    async with httpx.AsyncClient() as http:
        client: Any = http
        yield OpenAIJudge(CONNECTION, client=AsyncOpenAI(api_key=KEY, base_url=URL, max_retries=0, http_client=client))


@respx.mock
async def test_respx_stands_in_for_the_server_whatever_openai_is_installed(judge: OpenAIJudge) -> None:
    """Nothing listens at that address: where respx did not see the client's calls, there would be no answer at all."""
    route = respx.post(f"{URL}/chat/completions").respond(json=completion(Reply("YES"), model="m"))
    assert (await judge.answer(REQUEST)).text == "YES"
    assert route.call_count == 1


@respx.mock
async def test_it_sends_the_request_and_nothing_else_and_reads_the_reply(judge: OpenAIJudge) -> None:
    logprobs = {"content": [{"token": "YES", "logprob": -0.1, "top_logprobs": [{"token": "YES", "logprob": -0.1}]}]}
    reply = completion(Reply("YES", logprobs=logprobs), model="m-2024") | {"system_fingerprint": "fp"}
    route = respx.post(f"{URL}/chat/completions").respond(json=reply)
    got = await judge.answer(REQUEST)
    sent = route.calls.last.request
    assert httpx.Response(200, content=sent.content).json() == {
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "temperature": 0,
        "max_tokens": 8,
        "top_k": 5,
    }
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert (got.text, got.finish_reason, got.model, got.fingerprint) == ("YES", "stop", "m-2024", "fp")
    assert (got.tokens_in, got.tokens_out, got.top_logprobs) == (100, 1, (("YES", -0.1),))
    assert got.seconds > 0


@respx.mock
@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "context_length_exceeded", "rejected"),
        (401, "invalid_api_key", "stop"),
        (402, None, "stop"),
        (403, None, "stop"),
        (404, "model_not_found", "stop"),
        (400, "model_not_found", "stop"),
        (408, None, "retry"),
        (409, None, "retry"),
        (422, None, "rejected"),
        (429, "rate_limit_exceeded", "retry"),
        (429, "insufficient_quota", "stop"),
        (500, None, "retry"),
        (503, None, "retry"),
    ],
)
async def test_an_http_error_has_its_fate_and_is_not_tried_again_here(
    judge: OpenAIJudge, status: int, code: str | None, kind: str
) -> None:
    error = {"error": {"message": f"no, {KEY} will not do", "code": code}}
    route = respx.post(f"{URL}/chat/completions").respond(status, json=error)
    with pytest.raises(CallError) as caught:
        await judge.answer(REQUEST)
    assert (caught.value.kind, caught.value.status, route.call_count) == (kind, status, 1)
    assert KEY not in repr(caught.value)
    assert fate(status, code) == kind


@respx.mock
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7),
        ({"retry-after-ms": "250"}, 0.25),
        ({"Retry-After": "-3"}, 0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 +9999999999999999", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
    ],
)
async def test_retry_after_is_read_in_all_its_forms(
    judge: OpenAIJudge, headers: dict[str, str], seconds: float | None
) -> None:
    respx.post(f"{URL}/chat/completions").respond(429, json={"error": {}}, headers=headers)
    with pytest.raises(CallError) as caught:
        await judge.answer(REQUEST)
    assert caught.value.retry_after == seconds


@respx.mock
@pytest.mark.parametrize(
    "body",
    [
        "",
        "null",
        "[]",
        "{",
        "<html>",
        '{"choices": []}',
        '{"choices": [{}]}',
        '{"choices": [{"message": null}]}',
        '{"choices": [{"message": {"content": 5}}]}',
    ],
)
async def test_a_reply_that_is_no_completion_is_worth_another_try(judge: OpenAIJudge, body: str) -> None:
    respx.post(f"{URL}/chat/completions").respond(200, text=body)
    with pytest.raises(CallError) as caught:
        await judge.answer(REQUEST)
    assert caught.value.kind == "retry"


@respx.mock
async def test_a_refusal_and_missing_usage_are_kept_as_they_are(judge: OpenAIJudge) -> None:
    reply = Reply(None, refusal="I cannot.", usage=None)
    respx.post(f"{URL}/chat/completions").respond(json=completion(reply, model="m"))
    got = await judge.answer(REQUEST)
    assert (got.text, got.refusal, got.tokens_in, got.tokens_out) == ("", "I cannot.", 0, 0)


@pytest.mark.parametrize("fault", ["reset", "truncated", "malformed", "no_choices", "html", "stall"])
async def test_over_the_real_transport_every_broken_reply_is_worth_another_try(fault: Fault) -> None:
    async with WireServer(lambda *_: Reply(fault=fault)) as server:
        judge = OpenAIJudge(Connection("test", server.url, 0.2 if fault == "stall" else 60, api_key=KEY))
        with pytest.raises(CallError) as caught:
            await judge.answer(REQUEST)
        await judge.aclose()
    assert (caught.value.kind, caught.value.status, server.n_requests) == ("retry", None, 1)


async def test_an_unreachable_host_is_worth_another_try() -> None:
    judge = OpenAIJudge(CONNECTION)
    with pytest.raises(CallError) as caught:
        await judge.answer(REQUEST)
    await judge.aclose()
    assert caught.value.kind == "retry"


@pytest.mark.parametrize(
    ("connection", "sent"),
    [({"api_key": "k"}, "Bearer k"), ({"authorization": "Basic eDp5"}, "Basic eDp5")],
)
async def test_key_or_basic_credentials_reach_the_server(connection: dict[str, str], sent: str) -> None:
    async with WireServer(lambda *_: Reply("YES")) as server:
        judge = OpenAIJudge(Connection("test", server.url, 60.0, **connection))
        await judge.answer(REQUEST)
        await judge.aclose()
    assert server.headers[0]["Authorization"] == sent
