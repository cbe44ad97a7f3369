"""Test every judge with calls against one server: the same request, the same answers and the same classification of errors."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import respx
from openai import AsyncOpenAI

import judged
from judged import KEY, dense_plan, judge_config, make_closable_judge
from small_pools import make_pool
from unruly_server import Sent, UnrulyServer
from wire_server import Fault, Reply, WireServer, claude_message, completion, well_behaved
from youden.errors import ConfigError, JudgeError
from youden.extras import format_install
from youden.judging.backend_records import BACKENDS, JUDGES
from youden.judging.backends.openai import OpenAIJudge
from youden.judging.call.connection import Connection
from youden.judging.call.failures import CallError, make_http_error
from youden.judging.config.judge_files import load_judge_config
from youden.types import Message, Request

CALLING = {name: one for name, one in BACKENDS.items() if one.makes_calls}
MODELS = dict.fromkeys(CALLING, "m") | {"litellm": "hosted_vllm/m", "anthropic": "m"}
INSTALLED = [name for name, one in CALLING.items() if one.package is None or find_spec(one.package)]
REQUEST = (Message("system", "s"), Message("user", "u"))
PARAMETERS = {"temperature": 0, "max_tokens": 8, "seed": 0, "top_k": 5}
POOL = make_pool(3, 4)
PLAN = dense_plan(POOL)


@pytest.fixture(params=INSTALLED)
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=[name for name in INSTALLED if name != "litellm"])
def plain(request: pytest.FixtureRequest) -> str:
    """A backend whose replies are read by youden, unlike litellm, which changes them."""
    name: str = request.param
    return name


async def ask(
    backend: str, reply: Reply | Sent, *, seconds: float = 60.0, model: str = "", **connection: Any
) -> tuple[Any, Any]:
    """Return the completion or the error of one call, and its server."""
    asked = UnrulyServer(lambda *_: reply) if isinstance(reply, Sent) else WireServer(lambda *_: reply)
    async with asked as server:
        way = {"api_key": KEY} | connection
        judge = make_closable_judge(backend, Connection("test", server.url, seconds, **way))
        try:
            got: Any = await judge.answer(Request(model or MODELS[backend], REQUEST, PARAMETERS))
        except CallError as error:
            got = error
        await judge.aclose()
    return got, server


async def test_requests_and_replies_are_transferred_completely(backend: str) -> None:
    top = [{"token": "YES", "logprob": -0.1, "bytes": None}, {"token": "NO", "logprob": -2.5, "bytes": None}]
    blank = {"token": "\n", "logprob": -0.1, "bytes": None, "top_logprobs": []}
    logprobs = {"content": [blank, {"token": "YES", "logprob": -0.1, "bytes": None, "top_logprobs": top}]}
    got, server = await ask(backend, Reply("YES", model="m-dated", logprobs=logprobs))
    assert server.bodies == [
        {"model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}], **PARAMETERS}
    ]
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert (got.text, got.finish_reason, got.tokens_in, got.tokens_out) == ("YES", "stop", 100, 1)
    assert got.model in ("m-dated", "m")
    assert got.top_logprobs == (("YES", -0.1), ("NO", -2.5))
    assert got.seconds > 0


@pytest.mark.parametrize("cookie", ["a=plain", "a=pässwörd", "a=秘密"])
async def test_a_cookie_of_a_reply_is_not_sent_with_the_next_call(backend: str, cookie: str) -> None:
    headers = {"Set-Cookie": f"{cookie}; Path=/"}
    async with WireServer(lambda n, _: Reply("YES", headers={} if n else headers)) as server:
        judge = make_closable_judge(backend, Connection("test", server.url, 60.0, api_key=KEY))
        request = Request(MODELS[backend], REQUEST, PARAMETERS)
        with suppress(CallError):  # litellm's own client reads no reply whose headers are not ASCII
            await judge.answer(request)
        assert (await judge.answer(request)).text == "YES"
        await judge.aclose()
    assert "Cookie" not in server.headers[1]


@respx.mock
async def test_respx_replaces_the_server_with_any_installed_openai() -> None:
    """No server listens at this address: without respx there would be no answer."""
    url = "http://127.0.0.1:9/v1"
    output = completion(Reply("YES"), model="m") | {"system_fingerprint": "fp"}
    route = respx.post(f"{url}/chat/completions").respond(json=output)
    async with httpx.AsyncClient() as http:
        client: Any = http
        client = AsyncOpenAI(api_key=KEY, base_url=url, max_retries=0, http_client=client)
        got = await OpenAIJudge(Connection("test", url, 60.0), client=client).answer(Request("m", REQUEST, {}))
    assert (got.text, got.fingerprint, route.call_count) == ("YES", "fp", 1)


async def test_every_backend_reads_a_refusal_and_a_quoted_count_alike(backend: str) -> None:
    usage = {"prompt_tokens": "9", "completion_tokens": "1"}
    got, _ = await ask(backend, Reply("", refusal="I cannot.", usage=usage))
    assert (got.text, got.refusal, got.tokens_in, got.tokens_out) == ("", "I cannot.", 9, 1)


async def test_a_refusal_without_text_or_usage_is_stored_unchanged(plain: str) -> None:
    got, _ = await ask(plain, Reply(None, refusal="I cannot.", usage=None))
    assert (got.text, got.refusal, got.tokens_in, got.tokens_out) == ("", "I cannot.", 0, 0)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "context_length_exceeded", "rejected"),
        (401, "invalid_api_key", "fatal"),
        (403, None, "fatal"),
        (404, "model_not_found", "fatal"),
        (422, None, "rejected"),
        (429, "rate_limit_exceeded", "transient"),
        (429, "insufficient_quota", "fatal"),
        (500, None, "transient"),
        (503, None, "transient"),
    ],
)
async def test_an_http_error_is_classified_by_status_and_sent_once(
    backend: str, status: int, code: str | None, kind: str
) -> None:
    got, server = await ask(backend, Reply(status=status, error={"message": f"no, {KEY}", "code": code}))
    assert (got.kind, server.n_requests) == (kind, 1)
    expected_status = 402 if code == "insufficient_quota" else status  # the status selects the remedy
    assert got.status == expected_status or (backend == "litellm" and status == 500)
    assert KEY not in repr(got)
    assert make_http_error(status, [code], "no", reason="").kind == kind


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [(402, None, "fatal"), (400, "model_not_found", "fatal"), (408, None, "transient"), (409, None, "transient")],
)
async def test_a_rare_http_error_is_classified_by_status(plain: str, status: int, code: str | None, kind: str) -> None:
    got, server = await ask(plain, Reply(status=status, error={"message": "no", "code": code}))
    expected_status = 404 if code == "model_not_found" else status  # the status selects the remedy
    assert (got.kind, got.status, server.n_requests) == (kind, expected_status, 1)


async def test_retry_after_is_read(backend: str) -> None:
    got, _ = await ask(backend, Reply(status=429, headers={"Retry-After": "7"}))
    assert got.retry_after == 7


async def test_retry_after_is_read_in_all_its_formats(plain: str) -> None:
    now, in_half_a_minute = (f"Wed, 21 Oct 2026 07:28:{second} GMT" for second in ("00", "30"))
    forms: dict[str, float | None] = {
        "-3": 0,
        "soon": None,
        in_half_a_minute: 30,
        "Wed, 21 Oct 2026 07:28:30 +9999999999999999": None,
    }
    for output, seconds in forms.items():
        got, _ = await ask(plain, Reply(status=429, headers={"Retry-After": output, "Date": now}))
        assert got.retry_after == seconds, output
    others: tuple[tuple[dict[str, str], float | None], ...] = (({}, None), ({"retry-after-ms": "250"}, 0.25))
    for headers, seconds in others:
        got, _ = await ask(plain, Reply(status=429, headers=headers))
        assert got.retry_after == seconds, headers


BODIES = ("", "null", "[]", "{", '{"choices": [{}]}', '{"choices": [{"message": null}]}')


@pytest.mark.parametrize("body", [*BODIES, '{"choices": [{"message": {"content": 5}}]}'])
async def test_a_reply_that_is_no_completion_is_a_transient_error(plain: str, body: str) -> None:
    got, _ = await ask(plain, Sent(body.encode()))
    assert got.kind == "transient"


ODDITIES: dict[str, Callable[[bytes], bytes]] = {
    "byte order mark": lambda body: BOM_UTF8 + body,
    "-Infinity": lambda body: body.replace(b"-9.5", b"-Infinity"),
    "lone surrogate": lambda body: body.replace(b'"hm"', b'"hm \\ud83d"'),
    "NaN": lambda body: body.replace(b'"index": 0', b'"index": NaN'),
}


@pytest.mark.parametrize("backend", [*INSTALLED, "anthropic"])
@pytest.mark.parametrize("oddity", ODDITIES)
async def test_a_reply_that_is_not_strict_json_is_read(backend: str, oddity: str) -> None:
    top = [{"token": "YES", "logprob": -0.1, "bytes": None}, {"token": "x", "logprob": -9.5, "bytes": None}]
    reply = completion(Reply("YES", logprobs={"content": [{**top[0], "top_logprobs": top}]}), model="m")
    reply["choices"][0]["message"]["reasoning_content"] = "hm"
    body = ODDITIES[oddity](json.dumps(reply).encode())
    if backend == "anthropic":
        body = ODDITIES[oddity](json.dumps(claude_message(Reply("YES"), model="m") | {"id": "hm", "index": 0}).encode())
    got, _ = await ask(backend, Sent(body))
    assert getattr(got, "text", got) == "YES"
    if oddity == "-Infinity" and backend != "anthropic":
        assert got.top_logprobs == (("YES", -0.1),)


@pytest.mark.parametrize("backend", [*INSTALLED, "anthropic"])
async def test_text_parts_of_a_content_are_joined(backend: str) -> None:
    parts: list[dict[str, Any]] = [{"type": "thinking", "thinking": [{"type": "text", "text": "NO"}]}]
    reply = completion(Reply("YES"), model="m")
    reply["choices"][0]["message"]["content"] = [*parts, {"type": "text", "text": "Y"}, {"type": "text", "text": "ES"}]
    if backend == "anthropic":
        reply = claude_message(Reply("Y"), model="m")
        reply["content"] = [*parts, *reply["content"], {"type": "text", "text": "ES"}]
    got, _ = await ask(backend, Sent(json.dumps(reply).encode()), model=judged.model_at(backend))
    assert getattr(got, "text", got) == "YES"


@pytest.mark.parametrize("fault", ["reset", "truncated", "malformed", "no_choices", "html"])
async def test_every_malformed_reply_is_a_transient_error_and_not_resent_by_the_backend(
    backend: str, fault: Fault
) -> None:
    got, server = await ask(backend, Reply(fault=fault))
    assert (got.kind, got.status, server.n_requests) == ("transient", None, 1)


async def test_a_timeout_of_the_sdk_is_a_transient_error() -> None:
    """Other backends leave deadlines to the engine."""
    got, server = await ask("openai", Reply(fault="stall"), seconds=0.2)
    assert (got.kind, got.status) == ("transient", None)
    assert server.n_requests <= 1


@pytest.mark.parametrize(
    ("connection", "sent"),
    [({"api_key": "k"}, "Bearer k"), ({"api_key": None, "authorization": "Basic eDp5"}, "Basic eDp5")],
)
async def test_the_key_or_basic_credentials_are_sent(backend: str, connection: dict[str, Any], sent: str) -> None:
    if backend == "litellm" and "authorization" in connection:
        with pytest.raises(ConfigError, match="backend: wire"):
            await ask(backend, Reply("YES"), **connection)
    else:
        _, server = await ask(backend, Reply("YES"), **connection)
        assert server.headers[0]["Authorization"] == sent


async def test_an_unreachable_host_is_a_transient_error(backend: str) -> None:
    judge = make_closable_judge(backend, Connection("test", "http://127.0.0.1:9/v1", 0.5, api_key=KEY))
    with pytest.raises(CallError) as caught:
        await judge.answer(Request(MODELS[backend], REQUEST, PARAMETERS))
    await judge.aclose()
    assert caught.value.kind == "transient"


async def test_every_backend_gives_equal_verdicts_that_replay_without_a_server(
    tmp_path: Path,
) -> None:
    results, configs = [], {}
    async with WireServer(well_behaved) as server:
        for backend in INSTALLED:
            configs[backend] = judge_config(server.url, backend=backend, model=MODELS[backend], seed=0)
            results.append(await judged.ask(PLAN, POOL, configs[backend], tmp_path / f"{backend}.db"))
    assert server.n_requests == len(INSTALLED) * len(PLAN)
    for backend, result in zip(INSTALLED, results, strict=True):
        config = load_judge_config({"backend": "replay", "replay_of": configs[backend].public()})
        again = await judged.ask(PLAN, POOL, config, tmp_path / f"{backend}.db")
        for column in ("answer", "hard_answer", "missing_reason"):
            for case in (results[0], again):
                np.testing.assert_array_equal(getattr(result, column), getattr(case, column))
        assert result.judge == again.judge


async def test_the_wire_backend_reuses_stored_answers_of_the_openai_backend(tmp_path: Path) -> None:
    """The request hash depends on the request, not on the backend."""
    async with WireServer(well_behaved) as server:
        for backend in ("openai", "wire"):
            await judged.ask(PLAN, POOL, server.url, tmp_path / "v.db", backend=backend)
    assert server.n_requests == len(PLAN)


async def test_server_error_texts_reach_no_log(backend: str, caplog: pytest.LogCaptureFixture) -> None:
    await ask(backend, Reply("YES", finish_reason="planted"))
    assert "planted" not in caplog.text


def test_a_missing_litellm_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "litellm", None)
    with pytest.raises(JudgeError, match=rf"{re.escape(format_install('litellm'))}.*\[judge-extra\]"):
        JUDGES.load("litellm")(Connection("test", "", 1.0))


def test_litellm_finds_address_and_key_of_its_provider() -> None:
    connection = load_judge_config("llama3-70b").connection({"AWS_SECRET_ACCESS_KEY": KEY})
    assert (connection.address, connection.api_key) == ("", None)
    assert CallError(f"bad key {KEY}", kind="fatal").reason == "bad key ***"
