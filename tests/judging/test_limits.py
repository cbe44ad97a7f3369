"""Test concurrency, rate limits and retries, with simulated clocks where time matters."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from judged import ask, dense_plan, judge_config
from scripted import Scripted, in_no_time
from small_pools import make_pool
from wire_server import Reply, WireServer, well_behaved
from youden.errors import IncompleteRunError
from youden.judging.call.budget import Budget
from youden.judging.call.connection import Backend
from youden.judging.call.failures import Attempts, CallError
from youden.judging.call.learned_rate import MAX_BLOCKED_SECONDS, MAX_REJECTIONS_IN_A_ROW, LearnedRateLimiter
from youden.judging.call.pace import ConcurrencyLimiter, RateLimiter
from youden.judging.call.retries import MAX_THROTTLED_SECONDS, RetryPolicy
from youden.judging.scheduler.calling import Caller
from youden.judging.store.answers import Store
from youden.judging.store.plan_answers import Call
from youden.types import Message, Request

POOL = make_pool(4, 5)
PLAN = dense_plan(POOL)


async def test_calls_in_flight_increase_by_one_with_each_answer_up_to_their_maximum() -> None:
    calls = ConcurrencyLimiter(22, start=20)
    for expected in (21, 22, 22):
        calls.record_success()
        assert calls.limit == expected
    for _ in range(22):
        await asyncio.wait_for(calls.acquire(), 60)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(calls.acquire(), 0.01)
    calls.release()
    await asyncio.wait_for(calls.acquire(), 60)


async def test_a_smaller_maximum_of_the_calls_in_flight_holds_once_calls_have_ended() -> None:
    calls = ConcurrencyLimiter(5, start=5)
    for _ in range(5):
        await calls.acquire()
    calls.set_max(2.0)
    for _ in range(3):
        calls.record_success()
        calls.release()
    assert calls.limit == 2
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(calls.acquire(), 0.01)
    calls.set_max(float("inf"))
    calls.record_success()
    await asyncio.wait_for(calls.acquire(), 60)
    assert calls.limit == 3


def error(status: int | None = 500, *, kind: Any = "transient", after: float | None = None) -> CallError:
    return CallError("x", kind=kind, status=status, retry_after=after)


def test_only_transient_errors_are_retried_up_to_max_tries() -> None:
    policy = RetryPolicy(max_tries=3, backoff=0.5)
    assert policy.count_failure_and_compute_wait(Attempts(), error(kind="rejected")) is None
    assert policy.count_failure_and_compute_wait(Attempts(), error(kind="fatal")) is None
    attempts = Attempts()
    assert [policy.count_failure_and_compute_wait(attempts, error()) is None for _ in range(3)] == [False, False, True]
    assert policy.count_failure_and_compute_wait(Attempts(), error(after=MAX_THROTTLED_SECONDS + 1)) is None


def test_backoff_is_jittered_doubles_and_is_at_least_retry_after() -> None:
    policy = RetryPolicy(max_tries=9, backoff=1.0)
    for n in range(1, 8):
        waits = [policy.count_failure_and_compute_wait(Attempts(n_failed=n - 1), error(None)) for _ in range(200)]
        assert all(0 <= wait <= min(30, 2 ** (n - 1)) for wait in waits if wait is not None)
        assert np.std([wait for wait in waits if wait is not None]) > 0
        for _ in range(20):
            wait = policy.count_failure_and_compute_wait(Attempts(n_failed=n - 1), error(429, after=7))
            assert wait is not None
            assert wait >= 7


def test_a_429_is_no_attempt_but_its_total_wait_is_limited() -> None:
    policy, attempts = RetryPolicy(max_tries=2, backoff=0.5), Attempts()
    n = 0
    while (wait := policy.count_failure_and_compute_wait(attempts, error(429, after=20))) is not None:
        assert wait >= 20
        n += 1
    assert 8 <= n <= MAX_THROTTLED_SECONDS / 20
    assert attempts.n_failed == 0


@pytest.mark.parametrize("per_second", [20, 500, 1300])
def test_requests_are_evenly_spaced_and_within_the_rate_in_every_second(per_second: int) -> None:
    times: list[float] = []

    async def pass_all() -> None:
        pace, loop = RateLimiter(requests_per_minute=60 * per_second), asyncio.get_running_loop()

        async def acquire_and_record() -> None:
            await pace.acquire(0)
            times.append(loop.time())

        await asyncio.gather(*[acquire_and_record() for _ in range(int(1.3 * per_second))])

    in_no_time(pass_all())
    assert 1.2 < times[-1] - times[0] < 1.4
    for seconds, allowed in ((1.0, 1.03), (0.25, 1.25)):
        maximum = max(np.searchsorted(times, at + seconds, side="left") - k for k, at in enumerate(times))
        assert maximum <= allowed * per_second * seconds + 1


def test_tokens_are_limited_to_their_rate_for_calls_of_any_size() -> None:
    """Ten tokens per millisecond, with a burst of a thousand; the difference from the estimated usage is carried over."""

    async def waits() -> list[float]:
        pace, loop, took = RateLimiter(tokens_per_minute=600_000), asyncio.get_running_loop(), []
        for tokens, unused in ((5000, 0), (10, 0), (2000, 5000), (4000, -3000), (0, 0)):
            began = loop.time()
            await pace.acquire(tokens)
            took.append(loop.time() - began)
            pace.settle(unused, 0)
        return took

    assert in_no_time(waits()) == pytest.approx([0.4, 0.001, 0.2, 0, 0.2], abs=1e-3)


async def test_a_run_stays_within_its_requests_per_minute(store: Store) -> None:
    async with WireServer() as server:
        began = asyncio.get_running_loop().time()
        result = await ask(PLAN, POOL, server.url, store, requests_per_minute=60 * 400, concurrency=64)
        took = asyncio.get_running_loop().time() - began
    assert result.answered.all()
    assert took > 0.95 * len(PLAN) / 400 - 0.05


class LimitedServer:
    """A server that accepts `per_second` requests per second, at most that many at once, and `max_open` at the same time.

    It also rejects requests at random, with the probability `rejects`, whatever the rate is. An answer takes `latency` seconds on
    average, and a rejection at most 50 ms.
    """

    def __init__(
        self,
        per_second: float = 1e4,
        *,
        max_open: float = 1e4,
        rejects: float = 0.0,
        latency: float = 0.05,
        seed: int = 0,
    ) -> None:
        self.per_second = self.tokens = per_second
        self.max_open, self.rejects, self.latency = max_open, rejects, latency
        self.dice = random.Random(seed)
        self.at = 0.0
        self.n_open = self.n_answered = self.n_rejected = 0

    async def accept(self) -> bool:
        now = asyncio.get_running_loop().time()
        self.tokens = min(self.per_second, self.tokens + (now - self.at) * self.per_second)
        self.at = now
        is_accepted = self.tokens >= 1 and self.n_open < self.max_open and self.dice.random() >= self.rejects
        self.tokens -= is_accepted
        self.n_open += is_accepted
        await asyncio.sleep(self.latency * self.dice.uniform(0.6, 1.4) if is_accepted else min(0.05, self.latency))
        self.n_open -= is_accepted
        self.n_answered += is_accepted
        self.n_rejected += not is_accepted
        return is_accepted


async def send_for(
    seconds: float,
    server: LimitedServer,
    limiter: LearnedRateLimiter,
    *,
    n_tasks: int = 16,
    answered: Callable[[], None] = lambda: None,
) -> None:
    """Send requests from at most `n_tasks` tasks at once; the limiter may delay requests and reduce the number of tasks."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    concurrency = ConcurrencyLimiter(n_tasks, start=n_tasks)

    async def send() -> None:
        while loop.time() < end:
            await concurrency.acquire()
            if limiter.is_limited:
                await limiter.acquire()
            sent, number = loop.time(), limiter.number_request()
            if await server.accept():
                limiter.record_answer(loop.time() - sent)
                concurrency.record_success()
                answered()
            else:
                limiter.record_throttling(number, None)
            concurrency.set_max(limiter.max_in_flight)
            concurrency.release()

    await asyncio.gather(*[send() for _ in range(n_tasks)])


async def send_from_processes(
    n_processes: int, server: LimitedServer, *, periods: tuple[float, float], n_tasks: int
) -> None:
    """Send requests from several processes for two periods of seconds; the server counts those of the second one.

    Each process learns every second how many answers the other ones have received.
    """
    limiters = [LearnedRateLimiter() for _ in range(n_processes)]
    n_answered = [0] * n_processes

    async def send(number: int, seconds: float) -> None:
        await send_for(seconds, server, limiters[number], n_tasks=n_tasks, answered=partial(count, number))

    def count(number: int) -> None:
        n_answered[number] += 1

    async def report() -> None:
        while True:
            for own, limiter in zip(n_answered, limiters, strict=True):
                limiter.record_other_processes(n_processes - 1, n_answered=sum(n_answered) - own)
            await asyncio.sleep(1.1)

    reports = asyncio.create_task(report())
    for seconds in periods:
        server.n_answered = server.n_rejected = 0
        await asyncio.gather(*[send(number, seconds) for number in range(n_processes)])
    reports.cancel()


def test_a_server_without_limits_is_sent_requests_without_a_wait() -> None:
    limiter, server = LearnedRateLimiter(), LimitedServer()
    in_no_time(send_for(5, server, limiter))
    assert limiter.rate is None
    assert server.n_answered > 0.95 * 16 * 5 / 0.05


@pytest.mark.parametrize(
    ("latency", "share", "seconds", "n_servers"),
    [(0.1, 0.3, 60, 1), (10, 0.02, 1200, 1), (10, 0.3, 1200, 1)]
    + [
        pytest.param(latency, share, 2000, 4, marks=pytest.mark.slow)
        for latency in (1, 3, 10)
        for share in (0.02, 0.1, 0.2, 0.3)
    ],
)
def test_rejections_at_random_hardly_slow_a_run_down(
    latency: float, share: float, seconds: float, n_servers: int
) -> None:
    """Compare the mean over several servers: one that rejects many requests by chance can slow a run down by 30%."""
    n_answered = 0
    for seed in range(n_servers):
        limiter, server = LearnedRateLimiter(), LimitedServer(latency=latency, rejects=share, seed=seed)
        in_no_time(send_for(seconds, server, limiter, n_tasks=64))
        n_answered += server.n_answered
    seconds_per_answer = latency + 0.05 * share / (1 - share)
    assert n_answered / n_servers > 0.87 * 64 * seconds / seconds_per_answer


@pytest.mark.parametrize(
    ("n_processes", "latency"), [(1, 0.3), (4, 0.3), *(pytest.param(n, 10, marks=pytest.mark.slow) for n in (1, 4))]
)
def test_a_server_that_limits_calls_in_flight_rejects_few_requests(n_processes: int, latency: float) -> None:
    server, seconds = LimitedServer(latency=latency, max_open=40), 100 * latency
    in_no_time(send_from_processes(n_processes, server, periods=(seconds, seconds), n_tasks=64))
    assert server.n_answered > 0.85 * 40 * 100
    assert server.n_rejected < (0.05 if latency < 1 else 0.12) * server.n_answered


def test_the_rate_recovers_after_a_time_of_many_rejections() -> None:
    limiter, server = LearnedRateLimiter(), LimitedServer(rejects=0.5)

    async def measure() -> None:
        await send_for(10, server, limiter)
        server.rejects = 0
        await send_for(10, server, limiter)
        server.n_answered = 0
        await send_for(10, server, limiter)

    in_no_time(measure())
    assert server.n_answered > 0.9 * 16 * 10 / 0.05


@pytest.mark.parametrize(
    ("n_processes", "max_rejected", "seed"),
    [(1, 0.05, 0), (4, 0.25, 0), *(pytest.param(4, 0.25, seed, marks=pytest.mark.slow) for seed in range(1, 5))],
)
def test_limiters_learn_the_rate_of_a_token_bucket(n_processes: int, max_rejected: float, seed: int) -> None:
    server = LimitedServer(80, seed=seed)
    in_no_time(send_from_processes(n_processes, server, periods=(60, 40), n_tasks=32 // n_processes))
    assert server.n_answered > 0.95 * 80 * 40
    assert server.n_rejected < max_rejected * server.n_answered


def test_a_rate_does_not_count_the_time_of_an_outage() -> None:
    limiter = LearnedRateLimiter()

    async def reply(n_replies: int, *, rejects: int) -> None:
        for number in range(n_replies):
            if rejects and number % rejects == 0:
                limiter.record_throttling(number, None)
            else:
                limiter.record_answer(0)
            await asyncio.sleep(1 / 20)

    async def measure() -> None:
        await reply(90, rejects=0)
        await asyncio.sleep(3600)
        await reply(62, rejects=10)

    in_no_time(measure())
    assert limiter.rate == pytest.approx(20 * 0.9, rel=0.05)


def test_the_rate_increases_by_at_most_a_quarter_after_many_rejections() -> None:
    async def measure() -> list[float]:
        limiter, rates = LearnedRateLimiter(), list[float]()
        for number in range(1, 201):
            if number < 55 and number % 5:
                limiter.record_throttling(number, None)
            else:
                limiter.record_answer(0)
            if limiter.rate is not None:
                rates.append(limiter.rate)
            await asyncio.sleep(1 / 20)
        return rates

    rates = in_no_time(measure())
    assert max(after / before for before, after in pairwise(rates)) == pytest.approx(1.25)


def test_rejections_in_a_row_pause_until_retry_after_and_an_answer_ends_the_backoff() -> None:
    async def measure() -> list[float]:
        limiter, loop, waits = LearnedRateLimiter(), asyncio.get_running_loop(), []
        for retry_after, n_answers in ((5, 0), (3600, 0), (None, 0), (None, 1), (None, 0)):
            for _ in range(MAX_REJECTIONS_IN_A_ROW):
                limiter.record_throttling(limiter.number_request(), retry_after)
            began = loop.time()
            await limiter.acquire()
            waits.append(loop.time() - began)
            for _ in range(n_answers):
                limiter.record_answer(0)
        return waits

    assert in_no_time(measure()) == pytest.approx([5.5, 60, 4, 8, 1], abs=0.01)


@pytest.mark.parametrize(("n_accepted", "is_paused"), [(1, True), (2, False)])
async def test_answers_to_earlier_requests_do_not_delay_a_pause(n_accepted: int, is_paused: bool) -> None:
    limiter = LearnedRateLimiter()
    first, *_, last = numbers = [limiter.number_request() for _ in range(MAX_REJECTIONS_IN_A_ROW + n_accepted)]
    for number in [first, *numbers[1 + n_accepted : -1]]:
        limiter.record_throttling(number, None)
    limiter.record_answer(0)  # of a request before the first rejected one
    limiter.record_throttling(last, None)
    assert limiter.is_limited == is_paused


def test_a_server_that_answers_nothing_for_300_s_after_a_pause_blocks_the_judge() -> None:
    async def measure() -> list[bool]:
        limiter, is_blocked = LearnedRateLimiter(), []
        for seconds in (0, MAX_BLOCKED_SECONDS - 1, 1):
            await asyncio.sleep(seconds)
            for _ in range(MAX_REJECTIONS_IN_A_ROW):
                limiter.record_throttling(limiter.number_request(), 20)
            is_blocked.append(limiter.is_blocked)
        limiter.record_answer(0)
        return [*is_blocked, limiter.is_blocked]

    assert in_no_time(measure()) == [False, False, True, False]


async def test_a_run_ends_if_the_server_asks_to_wait_for_hours_and_is_resumed(store: Store) -> None:
    def behave(n: int, body: Any) -> Reply:
        return Reply(status=429, headers={"Retry-After": "3600"}) if n >= 60 else well_behaved(n, body)

    async with WireServer(behave) as server:
        with pytest.raises(IncompleteRunError, match=r"a run waits at most 300 s.*same command again.*\[rate-limit\]"):
            await ask(PLAN, POOL, server.url, store)
        assert server.n_requests < 80
        server.behave = well_behaved
        assert (await ask(PLAN, POOL, server.url, store)).answered.all()


async def test_a_run_whose_requests_are_all_rejected_ends_and_is_resumed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("youden.judging.call.learned_rate.MAX_BLOCKED_SECONDS", 0.0)
    async with WireServer(lambda _n, _body: Reply(status=429, headers={"Retry-After": "0"})) as server:
        with pytest.raises(
            IncompleteRunError,
            match=r"rejects all requests with HTTP 429, and a run waits at most 300 s.*same command again.*\[rate-limit\]",
        ):
            await ask(PLAN, POOL, server.url, store)
        assert server.n_requests >= MAX_REJECTIONS_IN_A_ROW
        server.behave = well_behaved
        assert (await ask(PLAN, POOL, server.url, store)).answered.all()


async def test_a_wait_for_a_learned_rate_ends_when_the_run_is_stopped() -> None:
    judge = Scripted(lambda _: "YES")
    caller = Caller(Backend(lambda: judge), judge_config("http://127.0.0.1:9/v1"), Budget(None))
    for number in range(MAX_REJECTIONS_IN_A_ROW):
        caller.learned_rate.record_throttling(number, 50)
    request = Request("m", (Message("user", "u"),))
    attempt = asyncio.create_task(caller.attempt(Call("k", [0], None, lambda *_: request)))
    await asyncio.sleep(0.01)
    caller.stop()
    with pytest.raises(CallError, match="run ended"):
        await asyncio.wait_for(attempt, 5)
    assert judge.n_calls == 0


@pytest.mark.slow
async def test_a_long_retry_after_does_not_delay_other_calls(store: Store) -> None:
    """inspect_ai #5138: a single reply "retry after a second" paused the whole run.

    Fewer rejections in a row than `MAX_REJECTIONS_IN_A_ROW` pause nothing.
    """
    requests: list[tuple[str, float]] = []
    loop = asyncio.get_running_loop()

    def behave(n: int, body: Any) -> Reply:
        requests.append((str(body), loop.time()))
        return Reply(status=429, headers={"Retry-After": "1"}) if n < 8 else well_behaved(n, body)

    async with WireServer(behave) as server:
        result = await ask(PLAN, POOL, server.url, store)
    assert result.answered.all()
    first, again = dict(requests[:8]), dict(requests[8:])
    assert sum(at < requests[0][1] + 1 for _, at in requests[8:]) >= 8
    assert all(again[body] - at >= 1 for body, at in first.items())


@pytest.mark.slow
async def test_many_429s_lose_no_trial(store: Store) -> None:
    dice, loop = random.Random(3), asyncio.get_running_loop()
    ends = loop.time() + 1.0

    def behave(n: int, body: Any) -> Reply:
        stormy = loop.time() < ends and dice.random() < 0.5
        return Reply(status=429) if stormy else well_behaved(n, body)

    pool = make_pool(6, 20)
    async with WireServer(behave) as server:
        assert (await ask(dense_plan(pool), pool, server.url, store, concurrency=32, max_tries=2)).answered.all()
