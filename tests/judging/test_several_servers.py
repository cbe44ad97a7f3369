"""Test a judge at several servers over real HTTP: even distribution, exclusion after failures and probes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

import judged
from batch_server import BatchServer
from judged import ENVIRONMENT, NOWHERE, dense_plan, each_backend, judge_config
from scripted import Scripted
from small_pools import make_pool
from wire_server import Reply, WireServer, well_behaved
from youden.errors import ConfigError, JudgeError
from youden.judging.backends import several as in_turn
from youden.judging.backends.several import RoundRobin
from youden.judging.call.failures import CallError, make_http_error
from youden.judging.doctor import diagnose
from youden.judging.question.questions import iter_keys
from youden.judging.scheduler.options import Batching, JudgingOptions
from youden.judging.store.answers import Store
from youden.types import Completion, Message, Request, Verdicts

POOL = make_pool(4, 5)
PLAN = dense_plan(POOL)
REQUEST = Request("m", (Message("user", "?"),))
RESET = CallError("reset", kind="transient")
REFUSED = CallError("refused", kind="transient", unbilled=True)


async def ask(store: Store, *servers: WireServer, **changes: Any) -> Verdicts:
    return await judged.ask(PLAN, POOL, [server.url for server in servers], store, **changes)


@pytest.mark.parametrize("backend", each_backend("wire"))
async def test_servers_share_calls_and_answers_are_stored_under_the_first_address(store: Store, backend: str) -> None:
    async with WireServer() as diagnosis, WireServer() as second, WireServer() as three:
        verdicts = await ask(store, diagnosis, second, backend=backend)
        assert verdicts.answered.all()
        assert abs(diagnosis.n_requests - second.n_requests) < len(PLAN) / 10
        assert verdicts.judge["base_url"] == diagnosis.url
        again = await ask(store, diagnosis, three, backend=backend)
        alone = await ask(store, diagnosis, backend=backend)
        assert three.n_requests == 0
        assert again.answer.tolist() == alone.answer.tolist() == verdicts.answer.tolist()
        await ask(store, second, diagnosis, backend=backend)
        assert diagnosis.n_requests + second.n_requests == 2 * len(PLAN)


async def test_a_dead_server_is_skipped_and_used_again_after_it_recovers(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_turn, "MIN_WAIT_SECONDS", 0.05)
    n_asked, dies, comes_back = 0, asyncio.Event(), asyncio.Event()

    def behave(_n: int, body: Any) -> Reply:
        nonlocal n_asked
        n_asked += 1
        for n, event in ((40, dies), (60, comes_back)):
            if n_asked == n:
                event.set()
        return Reply(well_behaved(0, body).text, delay=0.01)

    async with asyncio.timeout(300), WireServer(behave) as second:
        first = await WireServer(behave).__aenter__()
        asking = asyncio.create_task(ask(store, first, second, max_outage=0.01))
        await dies.wait()
        await first.__aexit__()
        await comes_back.wait()
        async with WireServer(behave, port=first.port) as back:
            verdicts = await asking
    assert verdicts.answered.all()
    assert back.n_requests > 5
    assert n_asked <= len(PLAN) + 8
    assert any(first.url in warning.message and "was left out" in warning.message for warning in verdicts.warnings)


@pytest.mark.parametrize(
    ("reply", "why"), [(Reply(fault="stall"), "no reply in time"), (Reply(status=404), "HTTP 404")]
)
async def test_a_server_that_hangs_or_rejects_every_call_is_skipped_and_named(
    store: Store, monkeypatch: pytest.MonkeyPatch, reply: Reply, why: str
) -> None:
    monkeypatch.setattr(in_turn, "MIN_WAIT_SECONDS", 600)
    async with WireServer(lambda *_: reply) as wrong, WireServer() as right:
        verdicts = await ask(store, right, wrong, timeout=0.3 if reply.fault == "stall" else 60)
        assert verdicts.answered.all()
        assert wrong.n_requests <= 8
        (warning,) = (warning for warning in verdicts.warnings if wrong.url in warning.message)
        assert f"also at the end (the last failure: {why}" in warning.message


async def test_rejections_by_all_servers_end_the_run_with_the_reason(store: Store) -> None:
    async with (
        WireServer(lambda *_: Reply(status=404)) as diagnosis,
        WireServer(lambda *_: Reply(status=404)) as second,
    ):
        with pytest.raises(
            JudgeError,
            match=rf"replied: http://127.0.0.1:({diagnosis.port}|{second.port})/v1: HTTP 404.*\[judge-model\]",
        ):
            await ask(store, diagnosis, second)


async def test_an_outage_of_all_servers_is_waited_for_as_for_one_server(store: Store) -> None:
    n_down = 0

    def behave(n: int, body: Any) -> Reply:
        nonlocal n_down
        if n >= 40 and n_down < 16:
            n_down += 1
            return Reply(status=503)
        return well_behaved(n, body)

    async with WireServer(behave) as diagnosis, WireServer(behave) as second:
        verdicts = await ask(store, diagnosis, second, max_tries=2)
        assert verdicts.answered.all()
        diagnosis.behave = second.behave = lambda *_: Reply(status=503)
        with pytest.raises(JudgeError, match="judge-unreachable"):
            await ask(store, second, diagnosis)


@pytest.mark.slow
async def test_texts_that_break_every_server_fail_their_trials(store: Store) -> None:
    def behave(n: int, body: Any) -> Reply:
        poison = "item 3" in str(body) and "agent 2" in str(body)
        return Reply(fault="reset") if poison else well_behaved(n, body)

    terms: dict[str, Any] = {"options": JudgingOptions(max_missing=0.5), "max_tries": 3, "concurrency": 2}
    async with WireServer(behave) as diagnosis, WireServer(behave) as second:
        verdicts = await asyncio.wait_for(ask(store, diagnosis, second, **terms), 300)
    assert 0 < int((~verdicts.answered).sum()) < len(PLAN) / 3


async def test_several_servers_are_refused_for_batches(store: Store) -> None:
    async with BatchServer() as server:
        urls = [server.url, "http://127.0.0.1:10/v1"]
        with pytest.raises(
            ConfigError, match=r"a batch is fetched from the server that it was sent to.*\[judge-servers\]"
        ):
            await judged.ask(PLAN, POOL, urls, store, backend="openai", options=JudgingOptions(batching=Batching()))
    assert not server.bodies


def test_doctor_checks_each_server(server: WireServer) -> None:
    server.behave = lambda *_: Reply("YES")
    result = diagnose(judge_config([server.url, NOWHERE]), environment=ENVIRONMENT)
    assert [(diagnosis.judge, diagnosis.is_usable) for diagnosis in result] == [
        (f"m at {server.url}", True),
        (f"m at {NOWHERE}", False),
    ]


@pytest.mark.parametrize("url", [[], ["http://a/v1", "http://a/v1/"], ["http://a/v1", "b"], [1], 5, [["http://a"]]])
def test_an_invalid_list_of_servers_is_refused(url: Any) -> None:
    with pytest.raises(ConfigError, match=r"'base_url'.*\[judge-config\]"):
        judge_config(url)


def test_no_password_of_any_server_is_shown() -> None:
    config = judge_config(["http://me:secret-one@a/v1", "http://me:secret-two@b/v1"], api_key_env=None)
    keyed = next(iter_keys(config.questions(), PLAN))
    assert "secret" not in f"{config!r} {config.public()} {config.describe()}"
    assert keyed == next(iter_keys(judge_config("http://a/v1").questions(), PLAN))
    assert [diagnosis.connection({}).address for diagnosis in config.servers] == ["http://a/v1", "http://b/v1"]
    assert len({diagnosis.connection({}).authorization for diagnosis in config.servers}) == 2
    with pytest.raises(ConfigError) as caught:
        judge_config(["http://me:secret-one@a/v1"] * 2)
    assert "secret" not in str(caught.value)


class Clocked:
    """Two scripted servers with a simulated clock; `answers[name]` is an error or a text."""

    def __init__(self) -> None:
        self.now = 0.0
        self.answers: dict[str, str | CallError] = {"a": "YES", "b": "YES"}
        self.judges = {name: Scripted(partial(self._say, name)) for name in self.answers}
        self.judge = RoundRobin(self.judges, clock=lambda: self.now)

    def _say(self, name: str, _: Request) -> str:
        output = self.answers[name]
        if isinstance(output, CallError):
            raise output
        return output

    async def try_one(self) -> str:
        try:
            return (await self.judge.answer(REQUEST)).text
        except CallError as error:
            return error.reason

    async def ask(self, n: int = 1) -> dict[str, int]:
        """Return the number of calls that each server got of `n` more."""
        before = {name: judge.n_calls for name, judge in self.judges.items()}
        for _ in range(n):
            completion: Completion = await self.judge.answer(REQUEST)
            assert completion.text == "YES"
        return {name: judge.n_calls - before[name] for name, judge in self.judges.items()}


async def test_the_probe_interval_doubles_and_one_call_is_the_probe() -> None:
    them = Clocked()
    assert await them.ask(10) == {"a": 5, "b": 5}
    them.answers["a"] = REFUSED
    assert await them.ask(10) == {"a": 1, "b": 10}
    for wait in (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0):
        them.now += wait - 0.01
        assert (await them.ask(5))["a"] == 0
        them.now += 0.01
        assert (await them.ask(5))["a"] == 1
    them.answers["a"] = "YES"
    them.now += 30.0
    assert await them.ask(10) == {"a": 6, "b": 4}
    assert them.judge.has_fallback_server


async def test_three_consecutive_failures_exclude_a_server_and_fewer_do_not() -> None:
    them = Clocked()
    for broken, left_out in ((2, False), (3, True)):
        them.answers["a"] = RESET
        output = [await them.try_one() for _ in range(2 * broken)]
        assert sorted(output) == ["YES"] * broken + ["a: reset"] * broken
        them.answers["a"] = "YES"
        assert ((await them.ask(2))["a"] == 0) == left_out


@pytest.mark.parametrize("status", [400, 429])
async def test_rejections_and_rate_limits_are_passed_on_and_exclude_no_server(status: int) -> None:
    them = Clocked()
    error = CallError("no", kind="rejected" if status == 400 else "transient", status=status)
    them.answers = {"a": error, "b": error}
    for _ in range(9):
        with pytest.raises(CallError) as caught:
            await them.judge.answer(REQUEST)
        assert caught.value.status == status
    n_calls = [judge.n_calls for judge in them.judges.values()]
    assert sorted(n_calls) == ([9, 9] if status == 429 else [4, 5])
    them.answers = {"a": "YES", "b": "YES"}
    assert await them.ask(4) == {"a": 2, "b": 2}


async def test_a_server_that_limits_requests_does_not_limit_the_others() -> None:
    them = Clocked()
    them.answers["a"] = CallError("busy", kind="transient", status=429, retry_after=5, unbilled=True)
    assert await them.ask(10) == {"a": 1, "b": 10}
    them.now += 4.9
    assert (await them.ask(5))["a"] == 0
    them.now += 0.1
    assert (await them.ask(5))["a"] == 1


async def test_a_server_without_credit_is_excluded_although_it_replies_429() -> None:
    them = Clocked()
    them.answers["a"] = make_http_error(429, ["insufficient_quota"], "", reason="no credit")
    assert [await them.try_one() for _ in range(9)] == ["YES"] * 9
    assert them.judges["a"].n_calls == 1


async def test_if_all_servers_are_excluded_each_is_tried_and_the_last_failure_raised() -> None:
    them = Clocked()
    them.answers = {"a": REFUSED, "b": CallError("gone", kind="fatal", status=404)}
    for _ in range(3):
        with pytest.raises(CallError):
            await them.judge.answer(REQUEST)
        assert not them.judge.has_fallback_server
    assert {judge.n_calls for judge in them.judges.values()} == {3}
    them.answers["b"] = "YES"
    assert (await them.ask(1))["b"] == 1
    assert them.judge.has_fallback_server
