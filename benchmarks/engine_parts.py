"""Measure one part for `engine.py`, in its own process: `python engine_parts.py NAME JSON` prints JSON.

`limiters` is not called by `engine.py`. It compares two libraries of rate limiters, one of which youden does not use
(`pip install asyncio-throttle`; `python engine_parts.py limiters '{"rates": [500, 1300], "seconds": 2}'`).
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from youden import make_plan
from youden.errors import BudgetError
from youden.judging.call.pace import RateLimiter, make_request_limiter
from youden.judging.config.judge_files import JudgeConfig, load_judge_config
from youden.judging.engine import judge_plan
from youden.judging.scheduler.options import JudgingOptions
from youden.judging.store.answers import make_payment, open_store
from youden.types import Agent, Completion, Item, Judge, Plan, Pool, Request, Verdicts

Measured = dict[str, Any]
ENVIRONMENT: dict[str, str] = {}
"""Empty, because the judges of this benchmark need no API key."""


def make_pool(n_agents: int, n_items: int, *, characters: int) -> Pool:
    """Make a pool of random words, with texts of about `characters` characters."""
    rng = np.random.default_rng(0)
    words = [f"w{k}" for k in range(5000)]
    texts = np.empty((n_agents, n_items), dtype=object)
    for i in range(n_agents):
        for j in range(n_items):
            texts[i, j] = " ".join(words[k] for k in rng.integers(0, 5000, characters // 4))[:characters]
    agents = tuple(Agent(f"a{i}") for i in range(n_agents))
    return Pool(agents, tuple(Item(f"i{j}", None) for j in range(n_items)), texts, "benchmark")


def make_dense_plan(pool: Pool, n: int | None = None) -> Plan:
    """Make the dense plan of all cells, or a random subset of n trials."""
    plan = make_plan(pool, design="dense", holdout=0.0)
    if n is None or n >= len(plan):
        return plan
    rows = np.sort(np.random.default_rng(0).choice(len(plan), n, replace=False))
    return replace(plan, trials=plan.trials.take(rows))


def make_judge_config(url: str, **keys: Any) -> JudgeConfig:
    """Make the config of a judge at `url`; `keys` override the defaults."""
    defaults = {"backend": "wire", "model": "m", "base_url": url, "api_key_env": None, "price": 0, "backoff": 0.05}
    return load_judge_config(defaults | keys)


def judge_in_new_store(
    plan: Plan, pool: Pool, config: JudgeConfig, *, judge: Judge | None = None, **options: Any
) -> Verdicts:
    """Judge a plan with an empty store."""
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder, "v.db")) as store:
        return asyncio.run(
            judge_plan(
                plan,
                config=config,
                store=store,
                judge=judge,
                environment=ENVIRONMENT,
                options=JudgingOptions(max_missing=1.0, **options),
            )
        )


def get_peak_memory_mb() -> float:
    """Return the peak resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_cpu(url: str, backend: str, n: int, concurrency: int, **_: Any) -> Measured:
    """Measure the CPU time of a call from a row of the plan to its stored and parsed verdict."""
    pool = make_pool(12, 40, characters=1100)
    plan = make_dense_plan(pool, n)
    config = make_judge_config(url, backend=backend, concurrency=concurrency, start_concurrency=concurrency)
    judge_in_new_store(make_dense_plan(pool, 50), pool, config)
    start, wall_start = time.process_time(), time.perf_counter()
    verdicts = judge_in_new_store(plan, pool, config)
    cpu_seconds = time.process_time() - start
    wall_seconds = time.perf_counter() - wall_start
    assert verdicts.answered.all()
    return {
        "cpu_ms": 1e3 * cpu_seconds / len(plan),
        "calls_per_second": len(plan) / wall_seconds,
        "mb": get_peak_memory_mb(),
    }


def measure_pacing(url: str, seconds: float, waiting: int, per_second: int, **_: Any) -> Measured:
    """Measure the CPU time of the rate limiter alone with `waiting` tasks, then a run whose requests the server counts.

    The peer is a queue for one `asyncio.sleep` per request, the least that any limiter of evenly spaced requests does.
    """

    async def acquire() -> None:
        await limiter.acquire(0)

    async def sleep() -> None:
        await asyncio.sleep(1 / per_second)

    limiter = RateLimiter(requests_per_minute=60 * per_second)
    common: dict[str, Any] = {"rate": per_second, "seconds": seconds, "waiting": waiting}
    cpu_share = asyncio.run(_measure_limiter(acquire, has_lock=False, **common))["cpu_share"]
    cpu_share_of_sleep = asyncio.run(_measure_limiter(sleep, has_lock=True, **common))["cpu_share"]
    pool = make_pool(20, 30, characters=200)
    plan = make_dense_plan(pool, int(seconds * per_second))
    keys = {"concurrency": waiting, "start_concurrency": waiting, "requests_per_minute": 60 * per_second}
    wall_start = time.perf_counter()
    verdicts = judge_in_new_store(plan, pool, make_judge_config(url, **keys))
    wall_seconds = time.perf_counter() - wall_start
    assert verdicts.answered.all()
    return {
        "cpu_share": cpu_share,
        "times_asyncio_sleep": cpu_share / cpu_share_of_sleep,
        "calls_per_second": len(plan) / wall_seconds,
    }


def compare_limiters(rates: list[int], seconds: float, waiting: int = 512, **_: Any) -> Measured:
    """Compare asyncio-throttle and aiolimiter at each rate in requests per second.

    Reports the attained share of the rate, the maximum in any second as a share of it, and the CPU share of a core. Either one
    task waits, or many tasks at the limiter, or many tasks in a queue for a lock before it.
    """
    return {
        f"{name}, {rate}/s, {n_waiting} waiting{' in line' if has_lock else ''}": asyncio.run(
            _measure_limiter(_LIMITERS[name](rate), rate=rate, seconds=seconds, waiting=n_waiting, has_lock=has_lock)
        )
        for rate in rates
        for name in _LIMITERS
        for n_waiting, has_lock in ((1, False), (waiting, False), (waiting, True))
    }


async def _measure_limiter(
    acquire: Callable[[], Awaitable[None]], *, rate: int, seconds: float, waiting: int, has_lock: bool
) -> Measured:
    """Measure one limiter at one rate; with `has_lock`, tasks queue for a lock before the limiter."""
    lock, times = asyncio.Lock(), []

    async def acquire_repeatedly() -> None:
        for _ in range(max(1, round(seconds * rate / waiting))):
            async with lock if has_lock else nullcontext():
                await acquire()
            times.append(time.perf_counter())

    start, wall_start = time.process_time(), time.perf_counter()
    await asyncio.gather(*[acquire_repeatedly() for _ in range(waiting)])
    cpu_share = (time.process_time() - start) / (time.perf_counter() - wall_start)
    time_array = np.array(times)
    max_in_a_second = int(max(np.searchsorted(time_array, time_array + 1.0) - np.arange(len(time_array))))
    attained = float((len(time_array) - 1) / (time_array[-1] - time_array[0]) / rate)
    return {
        "held": round(attained, 3),
        "most_in_a_second": round(max_in_a_second / rate, 3),
        "cpu_share": round(cpu_share, 4),
    }


def _make_throttles(rate: float) -> Callable[[], Awaitable[None]]:
    """Make two throttles as youden used them: one of a fiftieth of a second that is 3 % too fast, and one of a second."""
    throttler: Any = import_module("asyncio_throttle").Throttler
    throttles = []
    for n_per_period, per_second in ((rate / 50, rate / 0.97), (rate, rate)):
        n = max(1, int(n_per_period))
        period = n / per_second
        throttles.append(throttler(rate_limit=n, period=period, retry_interval=min(0.002, period / 10)))

    async def acquire() -> None:
        for throttle in throttles:
            await throttle.acquire()

    return acquire


_LIMITERS: dict[str, Callable[[float], Callable[[], Awaitable[None]]]] = {
    "asyncio-throttle": _make_throttles,
    "aiolimiter": lambda rate: make_request_limiter(rate).acquire,
}


def measure_replay(n_agents: int, n_items: int, **_: Any) -> Measured:
    """Store answers, and measure plan, replay and ranking in a process that does only that."""
    pool = make_pool(n_agents, n_items, characters=1500)
    plan = make_dense_plan(pool)
    config = make_judge_config("http://127.0.0.1:9/v1")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "v.db")
        with open_store(path) as store:
            store.remember_judge(config.public())
            dice = random.Random(0)
            for row, key, _request in config.questions().iter_requests(plan):
                answer = "YES" if (plan.trial_type[row] == 0) == (dice.random() < 0.9) else "NO"
                store.add(key, Completion(answer, "stop", "m", 700, 1, 0.2))
        return run_in_process("replayed", path=str(path), n_agents=n_agents, n_items=n_items)


def measure_stored_replay(path: str, n_agents: int, n_items: int, **_: Any) -> Measured:
    """Measure plan, replay and ranking of stored answers."""
    from youden.pipeline.ranking import rank

    pool = make_pool(n_agents, n_items, characters=1500)
    times = [(time.perf_counter(), time.process_time())]
    plan = make_dense_plan(pool)
    times.append((time.perf_counter(), time.process_time()))
    with open_store(path, read_only=True) as store:
        verdicts = asyncio.run(judge_plan(plan, config=load_judge_config("replay"), store=store))
    times.append((time.perf_counter(), time.process_time()))
    rank(verdicts)
    times.append((time.perf_counter(), time.process_time()))
    wall_seconds, cpu_seconds = (np.diff([time_pair[k] for time_pair in times]) for k in (0, 1))
    return {
        "answers": len(plan),
        "answers_per_second": len(plan) / wall_seconds[1],
        "answers_per_cpu_second": len(plan) / cpu_seconds[1],
        "seconds": float(wall_seconds.sum()),
        "cpu_seconds": float(cpu_seconds.sum()),
        "mb": get_peak_memory_mb(),
    }


class RecordingProgress:
    """Progress that records when trials were done, and the memory after 5 % of them."""

    def __init__(self) -> None:
        self.total = self.done = 0
        self.times: list[float] = []
        self.early_mb = 0.0

    def start(self, total: int, *, what: str) -> None:
        self.total = total

    def advance(self, n: int = 1, *, failed: int = 0, usd: float = 0.0, cached: int = 0, reason: str = "") -> None:
        self.done += n
        self.times += [time.perf_counter()] * n
        if self.done >= self.total // 20 and not self.early_mb:
            self.early_mb = get_peak_memory_mb()

    def throttled(self) -> None:
        pass

    def stop(self) -> None:
        pass


def measure_faults(url: str, n: int, concurrency: int, **_: Any) -> Measured:
    """Measure a run in which a fifth of the replies have faults of every kind, after a delay of 0 to 50 ms."""
    pool = make_pool(30, 2 + n // (2 * 30 * 29), characters=300)
    plan = make_dense_plan(pool, n)
    progress = RecordingProgress()
    config = make_judge_config(url, concurrency=concurrency, start_concurrency=concurrency, timeout=2)
    wall_start, start = time.perf_counter(), time.process_time()
    verdicts = judge_in_new_store(plan, pool, config, progress=progress)
    wall_seconds = time.perf_counter() - wall_start
    cpu_seconds = time.process_time() - start
    final_mb = get_peak_memory_mb()
    assert verdicts.seconds is not None
    assert verdicts.tokens_out is not None
    has_delay = verdicts.answered & (verdicts.tokens_out > 1)
    overhead = verdicts.seconds[has_delay] - verdicts.tokens_out[has_delay] / 1e5
    return {
        "trials": len(plan),
        "answered": int(verdicts.answered.sum()),
        "counted": int((verdicts.missing_reason > 0).sum()),
        "not_asked": int((verdicts.missing_reason == 5).sum()),
        "warnings": [str(warning) for warning in verdicts.warnings],
        "seconds": wall_seconds,
        "cpu_seconds": cpu_seconds,
        "mb": final_mb,
        "mb_grown": final_mb - progress.early_mb,
        "overhead_ms": {f"p{q}": 1e3 * float(np.percentile(overhead, q)) for q in (50, 90, 99)},
    }


def measure_storm(url: str, seconds: float, concurrency: int, **_: Any) -> Measured:
    """Measure a run in which half of the calls are rejected for ten seconds; reports answers per second."""
    pool = make_pool(30, 30, characters=200)
    plan = make_dense_plan(pool, int(seconds * concurrency / 0.1))
    progress = RecordingProgress()
    wall_start = time.perf_counter()
    verdicts = judge_in_new_store(
        plan, pool, make_judge_config(url, concurrency=concurrency, max_tries=3), progress=progress
    )
    seconds_since_start = np.array(progress.times) - wall_start
    return {
        "trials": len(plan),
        "answered": int(verdicts.answered.sum()),
        "per_second": np.bincount(seconds_since_start.astype(int)).tolist(),
    }


def measure_budget(n_runs: int, **_: Any) -> Measured:
    """Measure runs with random prices, token usage and caps, and the largest amount spent beyond a cap."""
    pool = make_pool(5, 12, characters=200)
    plan = make_dense_plan(pool)
    max_beyond_cap, n_stopped = -1.0, 0
    for seed in range(n_runs):
        dice = random.Random(seed)
        billed: list[tuple[int, int]] = []
        price_in, price_out = dice.uniform(0.1, 10), dice.uniform(0.1, 40)

        cap = dice.uniform(0.01, 1.2) * len(plan) * 225 * price_in / 1e6
        config = load_judge_config(
            {"backend": "wire", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
            | {"price_in": price_in, "price_out": price_out, "concurrency": dice.randint(1, 40)}
        )
        try:
            judge_in_new_store(plan, pool, config, judge=SpendingJudge(dice, billed), max_cost=cap)
        except BudgetError:
            n_stopped += 1
        max_beyond_cap = max(
            max_beyond_cap,
            sum(tokens_in * price_in + tokens_out * price_out for tokens_in, tokens_out in billed) / 1e6 - cap,
        )
    return {"runs": n_runs, "ended_short": n_stopped, "most_beyond_cap_usd": max_beyond_cap}


def measure_storing(n: int, n_rounds: int, **_: Any) -> Measured:
    """Measure answers per second of an SQLite store whose commits are flushed to disk (FULL, as in youden) or not (NORMAL).

    Both modes alternate; medians are reported.
    """
    rates: dict[str, list[float]] = {"FULL": [], "NORMAL": []}
    for _round in range(n_rounds):
        for mode, mode_rates in rates.items():
            with tempfile.TemporaryDirectory() as folder, open_store(Path(folder, "v.db")) as store:
                backend: Any = store.backend
                assert backend._connection.execute("PRAGMA synchronous").fetchone() == (2,)
                backend._connection.execute(f"PRAGMA synchronous = {mode}")
                start = time.perf_counter()
                for number in range(n):
                    key = f"{number:064x}"
                    completion = Completion("YES", "stop", "m", 700, 1, 0.2)
                    store.pay("payer", key, make_payment(0.001, completion))
                    store.add(key, completion)
                store.flush()
                mode_rates.append(n / (time.perf_counter() - start))
    return {f"answers_per_second_{mode.lower()}": float(np.median(mode_rates)) for mode, mode_rates in rates.items()}


class SpendingJudge:
    """Judge that answers yes and bills a random number of tokens, which it appends to `billed`."""

    name = "spending"

    def __init__(self, dice: random.Random, billed: list[tuple[int, int]]) -> None:
        self._dice, self._billed = dice, billed

    async def answer(self, _request: Request) -> Completion:
        self._billed.append((self._dice.randint(50, 400), self._dice.randint(1, 8)))
        return Completion("YES", "stop", "m", *self._billed[-1])


def run_in_process(name: str, **options: Any) -> Measured:
    """Run a part in its own process."""
    process = subprocess.run(
        [sys.executable, __file__, name, json.dumps(options)], check=True, stdout=subprocess.PIPE, text=True
    )
    measured: Measured = json.loads(process.stdout)
    return measured


PARTS: dict[str, Callable[..., Measured]] = {
    "cpu": measure_cpu,
    "pacing": measure_pacing,
    "limiters": compare_limiters,
    "replay": measure_replay,
    "replayed": measure_stored_replay,
    "storing": measure_storing,
    "faults": measure_faults,
    "storm": measure_storm,
    "budget": measure_budget,
}

if __name__ == "__main__":
    print(json.dumps(PARTS[sys.argv[1]](**json.loads(sys.argv[2]))))
