"""The `openai` backend by itself: what it sends, what it reads, what it makes of errors."""

from __future__ import annotations

import pytest

from judged import KEY
from wire_server import Fault, Reply, WireServer
from youden.judging.backends.openai import OpenAIJudge
from youden.judging.call.connection import Connection
from youden.judging.call.failures import CallError, fate
from youden.nouns import Completion, Message, Request

REQUEST = Request("m", (Message("system", "s"), Message("user", "u")), {"temperature": 0, "max_tokens": 8, "top_k": 5})


async def answered(reply: Reply, *, patience: float = 5.0, **credentials: str) -> tuple[Completion, WireServer]:
    """What the backend makes of `reply`, and the server it asked."""
    async with WireServer(lambda *_: reply) as server:
        judge = OpenAIJudge(Connection("test", server.url, patience, **(credentials or {"api_key": KEY})))
        try:
            return await judge.answer(REQUEST), server
        finally:
            await judge.aclose()
            assert server.n_requests == 1, "it is not tried again here"


async def refused(reply: Reply, *, patience: float = 5.0) -> CallError:
    with pytest.raises(CallError) as caught:
        await answered(reply, patience=patience)
    return caught.value


async def test_it_sends_the_request_and_nothing_else_and_reads_the_reply() -> None:
    logprobs = {"content": [{"token": "YES", "logprob": -0.1, "top_logprobs": [{"token": "YES", "logprob": -0.1}]}]}
    got, server = await answered(Reply("YES", logprobs=logprobs, model="m-2024", fingerprint="fp"))
    assert server.bodies == [
        {
            "model": "m",
            "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
            "temperature": 0,
            "max_tokens": 8,
            "top_k": 5,
        }
    ]
    assert (got.text, got.finish_reason, got.model, got.fingerprint) == ("YES", "stop", "m-2024", "fp")
    assert (got.tokens_in, got.tokens_out, got.top_logprobs) == (100, 1, (("YES", -0.1),))
    assert got.seconds > 0


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
async def test_an_http_error_has_its_fate_and_is_not_tried_again_here(status: int, code: str | None, kind: str) -> None:
    found = await refused(Reply(status=status, error={"message": f"no, {KEY} will not do", "code": code}))
    assert (found.kind, found.status) == (kind, status)
    assert KEY not in repr(found)
    assert fate(status, code) == kind


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
async def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert (await refused(Reply(status=429, error={}, headers=headers))).retry_after == seconds


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
async def test_a_reply_that_is_no_completion_is_worth_another_try(body: str) -> None:
    assert (await refused(Reply(body=body))).kind == "retry"


async def test_a_refusal_and_missing_usage_are_kept_as_they_are() -> None:
    got, _ = await answered(Reply(None, refusal="I cannot.", usage=None))
    assert (got.text, got.refusal, got.tokens_in, got.tokens_out) == ("", "I cannot.", 0, 0)


@pytest.mark.parametrize("fault", ["reset", "truncated", "malformed", "no_choices", "html", "stall"])
async def test_every_broken_reply_is_worth_another_try(fault: Fault) -> None:
    found = await refused(Reply(fault=fault), patience=0.2 if fault == "stall" else 5.0)
    assert (found.kind, found.status) == ("retry", None)


async def test_an_unreachable_host_is_worth_another_try() -> None:
    judge = OpenAIJudge(Connection("test", "http://127.0.0.1:9/v1", 5.0, api_key=KEY))
    with pytest.raises(CallError) as caught:
        await judge.answer(REQUEST)
    await judge.aclose()
    assert caught.value.kind == "retry"


@pytest.mark.parametrize(
    ("connection", "sent"),
    [({"api_key": "k"}, "Bearer k"), ({"authorization": "Basic eDp5"}, "Basic eDp5")],
)
async def test_key_or_basic_credentials_reach_the_server(connection: dict[str, str], sent: str) -> None:
    _, server = await answered(Reply("YES"), **connection)
    assert server.headers[0]["Authorization"] == sent
