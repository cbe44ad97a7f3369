"""Test outages: they use up no attempts, and other errors are failures of single calls."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

import judged
from batch_server import BatchServer
from judged import ENVIRONMENT, NOWHERE, dense_plan, judge_config
from scripted import Scripted
from small_pools import make_pool
from wire_server import Reply, WireServer, same_item, well_behaved
from youden.errors import IncompleteRunError, JudgeError
from youden.judging.call.budget import Budget
from youden.judging.call.failures import Attempts, CallError
from youden.judging.call.http_client import make_connection_error
from youden.judging.engine import judge_plan
from youden.judging.scheduler.circuit_breaker import FAILURE_THRESHOLD, CircuitBreaker
from youden.judging.scheduler.options import Batching, JudgingOptions
from youden.judging.store.answers import Store
from youden.types import Request, Verdicts

POOL = make_pool(4, 10)
PLAN = dense_plan(POOL)
RESET = CallError("reset", kind="transient")
REFUSED = CallError("refused", kind="transient", unbilled=True)


async def ask(url: str, store: Store, **changes: Any) -> Verdicts:
    return await judged.ask(PLAN, POOL, url, store, **{"max_tries": 2} | changes)


def breaks_on_a_text(away: Reply) -> Any:
    """Return a server that goes down whenever it gets one of a few texts."""

    def behave(n: int, body: Any) -> Reply:
        return away if is_poison(body) else well_behaved(n, body)

    return behave


def is_poison(body: Any) -> bool:
    return "item 3" in str(body) and "agent 2" in str(body)


@pytest.mark.slow
@pytest.mark.parametrize("away", [Reply(fault="reset"), Reply(status=503)])
async def test_a_temporary_outage_costs_no_trial(store: Store, away: Reply) -> None:
    until = 0.0

    def behave(n: int, body: Any) -> Reply:
        nonlocal until
        if n == 50:
            until = time.monotonic() + 1.5
        return away if time.monotonic() < until else well_behaved(n, body)

    async with WireServer(behave) as server:
        verdicts = await ask(server.url, store)
    assert verdicts.answered.all()
    assert server.n_requests < len(PLAN) + 8 + 10


@pytest.mark.slow
async def test_texts_that_break_the_server_fail_their_trials_even_as_the_last_ones(store: Store) -> None:
    async with WireServer(breaks_on_a_text(Reply(fault="reset"))) as server:
        verdicts = await ask(server.url, store, options=JudgingOptions(max_missing=0.5), max_tries=3, concurrency=2)
    n_failed = int((~verdicts.answered).sum())
    assert 0 < n_failed < len(PLAN) / 3
    assert sum(map(is_poison, server.bodies)) <= 4 * n_failed + 10


@pytest.mark.slow
async def test_a_permanent_outage_ends_the_run_which_then_resumes(store: Store) -> None:
    async with WireServer(lambda n, body: well_behaved(n, body) if n < 100 else Reply(status=503)) as server:
        with pytest.raises(IncompleteRunError, match=r"not responded for more than 0\.5 s") as caught:
            await ask(server.url, store, max_outage=0.5)
        assert (caught.value.slug, caught.value.exit_code) == ("outage", 1)
        assert len(store) == 100
        server.behave, before = well_behaved, server.n_requests
        assert (await ask(server.url, store)).answered.all()
        assert server.n_requests - before == len(PLAN) - 100


@pytest.mark.slow
async def test_the_last_call_also_waits_if_no_connection_can_be_made(store: Store) -> None:
    def say(request: Request) -> str:
        if len(PLAN) <= judge.n_calls < len(PLAN) + 4:
            raise REFUSED
        return same_item({"messages": [{"content": request.messages[-1].content}]})

    judge = Scripted(say)
    assert (await judged.ask(PLAN, POOL, judge, store, max_tries=2)).answered.all()


async def test_an_outage_of_a_batch_provider_is_waited_for(store: Store) -> None:
    polled = 0

    async def sleep(_seconds: float) -> None:
        nonlocal polled
        polled += 1
        if polled == 2:
            server.faults["look"] = []

    async with BatchServer(faults={"look": ["reset"] * 1000}) as server:
        batching = Batching(poll=0.01, sleep=sleep)
        verdicts = await ask(server.url, store, backend="openai", options=JudgingOptions(batching=batching))
    assert verdicts.answered.all()
    assert len(server.bodies) == len(PLAN)


def test_the_circuit_opens_after_three_consecutive_failures_of_different_calls() -> None:
    breaker = CircuitBreaker(60)
    assert not any(breaker.record_failure(Attempts(), RESET) for _ in range(9))
    breaker.record_reply(is_answer=True)
    tries = [Attempts() for _ in range(FAILURE_THRESHOLD)]
    for attempt in tries[:-1]:
        assert not breaker.record_failure(attempt, RESET)
        attempt.n_failed += 1
    breaker.record_reply(is_answer=False)
    assert not breaker.record_failure(Attempts(), RESET)
    assert not any(breaker.record_failure(Attempts(n_failed=1), RESET) for _ in range(9))
    assert not breaker.record_failure(Attempts(), CallError("500", kind="transient", status=500))
    again = Attempts()
    assert not breaker.record_failure(again, RESET)
    again.n_failed += 1
    assert breaker.record_failure(Attempts(), RESET)
    assert (breaker.is_open, again.n_failed) == (True, 0)


@pytest.mark.parametrize(("status", "is_outage"), [(503, True), (407, False)])
def test_the_circuit_opens_if_a_proxy_cannot_reach_the_server(status: int, *, is_outage: bool) -> None:
    request_info: Any = None
    error = make_connection_error(aiohttp.ClientHttpProxyError(request_info, (), status=status, message="no route"))
    breaker = CircuitBreaker(60)
    breaker.record_reply(is_answer=True)
    assert any(breaker.record_failure(Attempts(), error) for _ in range(FAILURE_THRESHOLD)) == is_outage


def test_the_circuit_opens_on_a_refused_connection_unless_max_outage_is_zero() -> None:
    for seconds, away in ((60.0, True), (0.0, False)):
        breaker = CircuitBreaker(seconds)
        breaker.record_reply(is_answer=True)
        assert breaker.record_failure(Attempts(), REFUSED) == away


@pytest.mark.slow
async def test_an_open_circuit_admits_one_probe_at_a_time_and_all_calls_once_it_closes() -> None:
    breaker, n_in_flight, n_probes = CircuitBreaker(60), 0, 3
    breaker.has_answered = True
    breaker.record_failure(Attempts(), REFUSED)
    all_admitted = asyncio.Barrier(20 - n_probes)  # passes only if all these calls are in flight at once

    async def call(n: int) -> None:
        nonlocal n_in_flight
        async with breaker.admit():
            n_in_flight += 1
            if n >= n_probes:
                await asyncio.wait_for(all_admitted.wait(), 30)
            else:
                await asyncio.sleep(0.01)
                assert n_in_flight == 1
            if n == n_probes - 1:
                breaker.record_reply(is_answer=True)
            n_in_flight -= 1

    await asyncio.gather(*(call(n) for n in range(20)))
    assert n_in_flight == 0


@pytest.mark.slow
async def test_texts_that_break_the_server_are_not_mistaken_for_an_outage(store: Store) -> None:
    """Only these requests remain: an answered request is sent as a probe, and the server is available."""
    options = JudgingOptions(max_missing=0.5)
    async with WireServer(breaks_on_a_text(Reply(status=502))) as server:
        first = await ask(server.url, store, options=options, concurrency=4)
        n_poison, before = int((~first.answered).sum()), server.n_requests
        assert n_poison >= 3
        again = await asyncio.wait_for(ask(server.url, store, options=options, concurrency=4), 600)
        n_more = server.n_requests - before
    assert int((~again.answered).sum()) == n_poison
    assert n_more <= 5 * n_poison + 10


@pytest.mark.parametrize("down", [Reply(status=503), Reply(fault="reset"), None])
async def test_a_server_that_is_down_at_the_start_ends_the_run_with_a_remedy(store: Store, down: Reply | None) -> None:
    async with WireServer(lambda _n, _body: down or Reply("YES")) as server:
        with pytest.raises(JudgeError, match=r"Check that the server runs.*\[judge-unreachable\]"):
            await asyncio.wait_for(ask(server.url if down else NOWHERE, store), 300)
        assert len(store) == 0
        server.behave = well_behaved
        assert (await ask(server.url, store)).answered.all()


async def test_a_lost_call_is_booked_at_a_typical_cost_and_reserved_at_its_maximum(store: Store) -> None:
    """Ten of 240 connections are closed after the request is sent."""
    dropped = []

    def behave(n: int, body: Any) -> Reply:
        if n >= 30 and n % 20 == 0:
            dropped.append(n)
            return Reply(fault="reset")
        return replace(well_behaved(n, body), usage={"prompt_tokens": len(str(body)) // 8, "completion_tokens": 1})

    async with WireServer(behave) as server:
        budget = Budget(None)
        config = judge_config(server.url, backend="wire", max_tries=3, price=1000)
        verdicts = await judge_plan(PLAN, config=config, store=store, environment=ENVIRONMENT, budget=budget)
    a_call = verdicts.total_usd / (len(PLAN) + 1.25 * len(dropped))
    billed = a_call * len(PLAN)
    assert len(dropped) >= 10
    assert verdicts.answered.all()
    assert billed < verdicts.total_usd < 1.1 * billed
    assert budget.spent > verdicts.total_usd + len(dropped) * a_call
