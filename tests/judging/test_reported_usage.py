"""Test the validation of what a server reports: usage, size, addresses and quoted keys."""

from __future__ import annotations

import base64
import gzip
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judged import ENVIRONMENT, KEY, NOWHERE, ask, dense_plan, judge_config, make_closable_judge
from small_pools import make_pool
from unruly_server import Body, Sent, UnrulyServer, reply_to, sent
from wire_server import draw
from youden.errors import BudgetError, JudgeError
from youden.judging.backend_records import BACKENDS
from youden.judging.call.budget import Budget
from youden.judging.call.connection import Backend, Connection
from youden.judging.call.failures import CallError
from youden.judging.call.reply import EXTRA_BYTES, MAX_BYTES_PER_TOKEN, MAX_REPLY_BYTES
from youden.judging.call.secrets import mask_secret_parts, register_secrets
from youden.judging.scheduler.calling import Caller
from youden.judging.scheduler.options import JudgingOptions
from youden.judging.store.plan_answers import Call
from youden.types import Message, Plan, Request, Verdicts

POOL = make_pool(3, 4)
PLAN = dense_plan(POOL)
FEW = replace(PLAN, trials=PLAN.trials.take(slice(4)))
REQUEST = Request("m", (Message("user", "u"),), {"max_tokens": 8})
ASKED = tuple(name for name, one in BACKENDS.items() if one.batches)


async def asked_at(server: UnrulyServer, path: Path, *, plan: Plan = PLAN, **changes: Any) -> Verdicts:
    return await ask(plan, POOL, server.url, path, options=JudgingOptions(1000, max_missing=1.0), price=1000, **changes)


async def judged(script: Callable[[int, str, Body], Sent], path: Path, **changes: Any) -> Verdicts:
    async with UnrulyServer(script) as server:
        return await asked_at(server, path, **changes)


@pytest.mark.parametrize(
    ("tokens", "n_lies", "count"), [(-100_000, 5, "5 answers"), (0, 1, "1 answer"), (10**15, 5, "5 answers")]
)
async def test_an_impossible_usage_is_booked_at_its_maximum_cost_and_reported(
    tokens: int, n_lies: int, count: str, tmp_path: Path
) -> None:
    def lies(n: int, _key: str, body: Body) -> Sent:
        reply = reply_to(body)
        return sent({**reply, "usage": {"prompt_tokens": tokens, "completion_tokens": tokens}} if n < n_lies else reply)

    result = await judged(lies, tmp_path / "v.db")
    assert result.answered.all()
    assert result.usd is not None
    assert (result.usd > 0).all()
    assert [
        warning
        for warning in result.warnings
        if warning.message.startswith(f"{count} of 'm' reported no credible token usage")
    ]
    honest = await judged(lambda _n, _key, body: sent(reply_to(body)), tmp_path / "w.db")
    assert not [warning for warning in honest.warnings if warning.slug == "bill"]


def long(what: str, n: int, body: Body) -> dict[str, Any]:
    """Return a reply with `n` bytes in addition to a word."""
    reply = reply_to(body)
    choice = reply["choices"][0]
    match what:
        case "text":
            choice["message"]["content"] += " é" * (n // 3)
        case "refusal":
            choice["message"]["refusal"] = "x" * n
        case "odds":
            choice["logprobs"]["content"][0]["top_logprobs"] = [
                {"token": f"{k}" * (n // 20), "logprob": -9} for k in range(20)
            ]
    return reply


@pytest.mark.parametrize("what", ["text", "refusal", "odds"])
async def test_an_answer_longer_than_requested_is_a_failure_and_not_truncated(what: str, tmp_path: Path) -> None:
    n_short, lengths = 1000, [1000, MAX_BYTES_PER_TOKEN * 8 + EXTRA_BYTES + 100, 1000, 1_000_000]

    def babbles(n: int, _key: str, body: Body) -> Sent:
        return sent(long(what, lengths[n], body))

    async with UnrulyServer(babbles) as server:
        output = await asked_at(server, tmp_path / "v.db", plan=FEW, concurrency=1, max_tokens=8)
        assert server.n_requests == len(FEW)
        assert output.usd is not None
        assert server.bill.usd(1000) <= output.usd.sum() + 1e-9
    with closing(sqlite3.connect(tmp_path / "v.db")) as stored:
        kept = [len(text) for (text,) in stored.execute("SELECT completion FROM answers")]
        reasons = [reason for (reason,) in stored.execute("SELECT reason FROM failures")]
    assert len(kept) == len(FEW) // 2
    assert max(kept) < 2 * n_short
    assert len(reasons) == len(FEW) // 2
    assert all("for a limit of 8 tokens. It is not stored" in reason for reason in reasons)


async def test_an_answer_of_the_maximum_length_is_accepted(tmp_path: Path) -> None:
    bound = MAX_BYTES_PER_TOKEN * 1000 + EXTRA_BYTES - len("YES")
    complete = await judged(
        lambda _n, _key, body: sent(long("text", bound, body)), tmp_path / "v.db", plan=FEW, max_tokens=1000
    )
    assert complete.answered.all()


async def test_an_implausible_stored_reply_is_requested_again(tmp_path: Path) -> None:
    path = tmp_path / "v.db"
    async with UnrulyServer() as server:
        first = await asked_at(server, path)
        with closing(sqlite3.connect(path)) as stored, stored:
            for row, (field, value) in enumerate((("text", "5"), ("model", "json('[]')"), ("tokens_in", "-9")), 1):
                changed = f"json_set(completion, '$.{field}', {value})"
                stored.execute(f"UPDATE answers SET completion = {changed} WHERE rowid = {row}")
        again = await asked_at(server, path)
        assert server.n_requests == len(PLAN) + 1
    np.testing.assert_array_equal(first.answer, again.answer)


@cache
def bomb() -> bytes:
    return gzip.compress(b" " * (MAX_REPLY_BYTES + 1_000_000), 1)


@pytest.mark.parametrize("status", [200, 503])
@pytest.mark.parametrize("backend", ASKED)
async def test_at_most_a_maximum_number_of_bytes_of_a_reply_is_read(backend: str, status: int) -> None:
    script = Sent(bomb(), status=status, headers={"Content-Encoding": "gzip"})
    async with UnrulyServer(lambda *_: script) as server:
        judge = make_closable_judge(backend, Connection("test", server.url, 60.0))
        with pytest.raises(CallError, match="more than 16 MB") as caught:
            await judge.answer(REQUEST)
        await judge.aclose()
    assert caught.value.kind == "transient"


@pytest.mark.parametrize("backend", ASKED)
async def test_a_connection_that_was_never_established_costs_nothing(backend: str) -> None:
    config = judge_config(NOWHERE, backend=backend, price=1000)
    created = Backend(lambda: make_closable_judge(backend, config.connection(ENVIRONMENT)))
    caller = Caller(created, config, Budget(1.0))
    call = Call("k", [0], None, lambda *_: REQUEST)
    with pytest.raises(CallError, match="Cannot connect"):
        await caller.attempt(call)
    await created.aclose()
    assert (call.usd, caller.budget.spent) == (0.0, 0.0)


async def test_a_redirect_is_reported_without_credentials(tmp_path: Path) -> None:
    headers = {"Location": "https://me:secret@portal.example/login?token=abc"}
    says = r"moved to https://portal\.example/login\. Nothing was sent there.*\[judge-moved\]"
    with pytest.raises(JudgeError, match=says):
        await judged(lambda *_: Sent(b"", status=302, headers=headers, billed=False), tmp_path / "v.db")


def test_a_quoted_key_is_masked_also_in_part_and_in_base64() -> None:
    register_secrets([KEY])
    encoded = base64.b64encode(f"user:{KEY}".encode()).decode()
    for quoted in (KEY, KEY[:12] + "…", "…" + KEY[-9:], encoded, encoded.rstrip("=")[-16:], encoded.replace("+", "-")):
        displayed = mask_secret_parts(f"Incorrect key: {quoted}!")
        assert KEY[:8] not in displayed
        assert KEY[-8:] not in displayed
        assert "***" in displayed
    assert mask_secret_parts("The model says no.") == "The model says no."


async def test_an_upstream_failure_and_an_empty_reply_are_retried(tmp_path: Path) -> None:
    failed: set[str] = set()

    def fails_once(_n: int, key: str, body: Body) -> Sent:
        reply = reply_to(body)
        number = draw(body, 4)
        if key in failed or number % 2:
            return sent(reply)
        failed.add(key)
        choice = reply["choices"][0]
        choice["message"]["content"] = ""
        if number:
            return sent({**reply, "usage": {"prompt_tokens": 200, "completion_tokens": 0}})
        choice |= {"finish_reason": "error", "error": {"code": 502, "message": "Upstream provider died"}}
        return sent(reply)

    result = await judged(fails_once, tmp_path / "v.db")
    assert len(failed) > len(PLAN) // 3
    assert result.answered.all()


@pytest.mark.parametrize("limit", [8, 1000])
async def test_reasoning_outside_of_completion_tokens_is_booked_and_capped(limit: int, tmp_path: Path) -> None:
    def thinks(_n: int, _key: str, body: Body) -> Sent:
        usage = {"prompt_tokens": 200, "completion_tokens": 1, "total_tokens": 900}
        return sent(reply_to(body) | {"usage": usage})

    prices: dict[str, Any] = {"price_in": 0, "price_out": 1000, "max_tokens": limit, "concurrency": 1}
    async with UnrulyServer(thinks) as server:
        result = await ask(PLAN, POOL, server.url, tmp_path / "v.db", options=JudgingOptions(1000), **prices)
        assert result.total_usd == pytest.approx(0.7 * len(PLAN))
        n_before = server.n_requests
        with pytest.raises(BudgetError):
            await ask(PLAN, POOL, server.url, tmp_path / "w.db", options=JudgingOptions(5.0), **prices)
        assert server.n_requests - n_before <= 5 / 0.7 + 1
