"""A judge at several servers: shared out evenly, one that fails left out and tried again, all of it real HTTP."""

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
from youden.judging.call.failures import CallError
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
async def test_servers_share_the_calls_and_their_answers_stand_under_the_first(store: Store, backend: str) -> None:
    async with WireServer() as one, WireServer() as two, WireServer() as three:
        verdicts = await ask(store, one, two, backend=backend)
        assert verdicts.answered.all()
        assert abs(one.n_requests - two.n_requests) < len(PLAN) / 10
        assert verdicts.judge["base_url"] == one.url
        again = await ask(store, one, three, backend=backend)
        alone = await ask(store, one, backend=backend)
        assert three.n_requests == 0
        assert again.answer.tolist() == alone.answer.tolist() == verdicts.answer.tolist()
        await ask(store, two, one, backend=backend)
        assert one.n_requests + two.n_requests == 2 * len(PLAN)


async def test_a_server_that_dies_is_left_out_and_asked_again_once_it_is_back(
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
    assert any(first.url in said.message and "was left out" in said.message for said in verdicts.warnings)


@pytest.mark.parametrize(
    ("reply", "why"), [(Reply(fault="stall"), "no reply in time"), (Reply(status=404), "HTTP 404")]
)
async def test_a_server_that_hangs_or_turns_every_call_down_is_left_out_and_named(
    store: Store, monkeypatch: pytest.MonkeyPatch, reply: Reply, why: str
) -> None:
    monkeypatch.setattr(in_turn, "MIN_WAIT_SECONDS", 600)
    async with WireServer(lambda *_: reply) as wrong, WireServer() as right:
        verdicts = await ask(store, right, wrong, timeout=0.3 if reply.fault == "stall" else 60)
        assert verdicts.answered.all()
        assert wrong.n_requests <= 8
        (said,) = (said for said in verdicts.warnings if wrong.url in said.message)
        assert f"also at the end (the last failure: {why}" in said.message


async def test_where_all_turn_calls_down_the_run_ends_and_says_where(store: Store) -> None:
    async with WireServer(lambda *_: Reply(status=404)) as one, WireServer(lambda *_: Reply(status=404)) as two:
        with pytest.raises(
            JudgeError, match=rf"replied: http://127.0.0.1:({one.port}|{two.port})/v1: HTTP 404.*\[judge-model\]"
        ):
            await ask(store, one, two)


async def test_where_all_are_away_the_run_waits_as_for_one_server(store: Store) -> None:
    n_down = 0

    def behave(n: int, body: Any) -> Reply:
        nonlocal n_down
        if n >= 40 and n_down < 16:
            n_down += 1
            return Reply(status=503)
        return well_behaved(n, body)

    async with WireServer(behave) as one, WireServer(behave) as two:
        verdicts = await ask(store, one, two, max_tries=2)
        assert verdicts.answered.all()
        one.behave = two.behave = lambda *_: Reply(status=503)
        with pytest.raises(JudgeError, match="judge-unreachable"):
            await ask(store, two, one)


@pytest.mark.slow
async def test_texts_that_break_every_server_are_their_trials_failures(store: Store) -> None:
    def behave(n: int, body: Any) -> Reply:
        poison = "item 3" in str(body) and "agent 2" in str(body)
        return Reply(fault="reset") if poison else well_behaved(n, body)

    terms: dict[str, Any] = {"options": JudgingOptions(max_missing=0.5), "max_tries": 3, "concurrency": 2}
    async with WireServer(behave) as one, WireServer(behave) as two:
        verdicts = await asyncio.wait_for(ask(store, one, two, **terms), 300)
    assert 0 < int((~verdicts.answered).sum()) < len(PLAN) / 3


async def test_a_batch_is_not_sent_to_several_servers(store: Store) -> None:
    async with BatchServer() as server:
        urls = [server.url, "http://127.0.0.1:10/v1"]
        with pytest.raises(
            ConfigError, match=r"a batch is fetched from the server that it was sent to.*\[judge-servers\]"
        ):
            await judged.ask(PLAN, POOL, urls, store, backend="openai", options=JudgingOptions(batching=Batching()))
    assert not server.bodies


def test_the_doctor_looks_at_each_server(server: WireServer) -> None:
    server.behave = lambda *_: Reply("YES")
    found = diagnose(judge_config([server.url, NOWHERE]), environment=ENVIRONMENT)
    assert [(one.judge, one.is_usable) for one in found] == [(f"m at {server.url}", True), (f"m at {NOWHERE}", False)]


@pytest.mark.parametrize("url", [[], ["http://a/v1", "http://a/v1/"], ["http://a/v1", "b"], [1], 5, [["http://a"]]])
def test_a_list_that_cannot_be_is_refused(url: Any) -> None:
    with pytest.raises(ConfigError, match=r"'base_url'.*\[judge-config\]"):
        judge_config(url)


def test_no_password_of_any_server_is_shown() -> None:
    config = judge_config(["http://me:secret-one@a/v1", "http://me:secret-two@b/v1"], api_key_env=None)
    keyed = next(iter_keys(config.questions(), PLAN))
    assert "secret" not in f"{config!r} {config.public()} {config.describe()}"
    assert keyed == next(iter_keys(judge_config("http://a/v1").questions(), PLAN))
    assert [one.connection({}).address for one in config.servers] == ["http://a/v1", "http://b/v1"]
    assert len({one.connection({}).authorization for one in config.servers}) == 2
    with pytest.raises(ConfigError) as caught:
        judge_config(["http://me:secret-one@a/v1"] * 2)
    assert "secret" not in str(caught.value)


class Clocked:
    """Two servers by script, at a time that the test sets: `answers[name]` is an error or a text."""

    def __init__(self) -> None:
        self.now = 0.0
        self.answers: dict[str, str | CallError] = {"a": "YES", "b": "YES"}
        self.judges = {name: Scripted(partial(self._say, name)) for name in self.answers}
        self.judge = RoundRobin(self.judges, clock=lambda: self.now)

    def _say(self, name: str, _: Request) -> str:
        said = self.answers[name]
        if isinstance(said, CallError):
            raise said
        return said

    async def try_one(self) -> str:
        try:
            return (await self.judge.answer(REQUEST)).text
        except CallError as error:
            return error.reason

    async def ask(self, n: int = 1) -> dict[str, int]:
        """How many calls each got of `n` more."""
        before = {name: judge.n_calls for name, judge in self.judges.items()}
        for _ in range(n):
            completion: Completion = await self.judge.answer(REQUEST)
            assert completion.text == "YES"
        return {name: judge.n_calls - before[name] for name, judge in self.judges.items()}


async def test_the_wait_doubles_and_one_call_tries_it() -> None:
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


async def test_three_broken_calls_in_a_row_leave_a_server_out_and_fewer_do_not() -> None:
    them = Clocked()
    for broken, left_out in ((2, False), (3, True)):
        them.answers["a"] = RESET
        said = [await them.try_one() for _ in range(2 * broken)]
        assert sorted(said) == ["YES"] * broken + ["a: reset"] * broken
        them.answers["a"] = "YES"
        assert ((await them.ask(2))["a"] == 0) == left_out


@pytest.mark.parametrize("status", [400, 429])
async def test_rejections_and_rate_limits_are_passed_on_and_exclude_no_server(status: int) -> None:
    them = Clocked()
    said = CallError("no", kind="rejected" if status == 400 else "transient", status=status)
    them.answers = {"a": said, "b": said}
    for _ in range(9):
        with pytest.raises(CallError) as caught:
            await them.judge.answer(REQUEST)
        assert caught.value.status == status
    assert [judge.n_calls for judge in them.judges.values()] in ([5, 4], [4, 5])
    them.answers = {"a": "YES", "b": "YES"}
    assert await them.ask(4) == {"a": 2, "b": 2}


async def test_where_none_is_left_each_is_tried_and_the_last_failure_is_raised() -> None:
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
