"""The parts of `benchmarks/engine.py`, each run in a process of its own: `python engine_parts.py NAME JSON` prints JSON.

`limiters` stands alone: it compares two libraries that pace requests, one of which youden does not use
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
"""No judge of a benchmark needs a key."""


def make_pool(n_agents: int, n_items: int, *, characters: int) -> Pool:
    """Texts of seeded random words, each as long as `characters`."""
    rng = np.random.default_rng(0)
    words = [f"w{k}" for k in range(5000)]
    texts = np.empty((n_agents, n_items), dtype=object)
    for i in range(n_agents):
        for j in range(n_items):
            texts[i, j] = " ".join(words[k] for k in rng.integers(0, 5000, characters // 4))[:characters]
    agents = tuple(Agent(f"a{i}") for i in range(n_agents))
    return Pool(agents, tuple(Item(f"i{j}", None) for j in range(n_items)), texts, "benchmark")


def plan_of(pool: Pool, n: int | None = None) -> Plan:
    """The dense plan of all cells, or some n of its trials."""
    plan = make_plan(pool, design="dense", holdout=0.0)
    if n is None or n >= len(plan):
        return plan
    rows = np.sort(np.random.default_rng(0).choice(len(plan), n, replace=False))
    return replace(plan, trials=plan.trials.take(rows))


def judge(url: str, **keys: Any) -> JudgeConfig:
    usual = {"backend": "wire", "model": "m", "base_url": url, "api_key_env": None, "price": 0, "backoff": 0.05}
    return load_judge_config(usual | keys)


def judged(plan: Plan, pool: Pool, config: JudgeConfig, *, judge: Judge | None = None, **terms: Any) -> Verdicts:
    """Into a fresh store."""
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder, "v.db")) as store:
        return asyncio.run(
            judge_plan(
                plan,
                config=config,
                store=store,
                judge=judge,
                environment=ENVIRONMENT,
                asking=JudgingOptions(max_missing=1.0, **terms),
            )
        )


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cpu(url: str, backend: str, n: int, concurrency: int, **_: Any) -> Measured:
    """CPU of a judged call, engine and all: plan rows to stored and parsed verdicts."""
    pool = make_pool(12, 40, characters=1100)
    plan = plan_of(pool, n)
    config = judge(url, backend=backend, concurrency=concurrency, start_concurrency=concurrency)
    judged(plan_of(pool, 50), pool, config)
    began, wall = time.process_time(), time.perf_counter()
    result = judged(plan, pool, config)
    used, took = time.process_time() - began, time.perf_counter() - wall
    assert result.answered.all()
    return {"cpu_ms": 1e3 * used / len(plan), "calls_per_second": len(plan) / took, "mb": megabytes()}


def pacing(url: str, seconds: float, waiting: int, per_second: int, **_: Any) -> Measured:
    """CPU of the pace alone with so many waiting, then a paced run whose arrivals the server counts."""

    async def alone() -> float:
        pace = RateLimiter(requests_per_minute=60 * per_second)

        async def one() -> None:
            for _ in range(max(1, round(seconds * per_second / waiting))):
                await pace.acquire(0)

        began, wall = time.process_time(), time.perf_counter()
        await asyncio.gather(*[one() for _ in range(waiting)])
        return (time.process_time() - began) / (time.perf_counter() - wall)

    share = asyncio.run(alone())
    pool = make_pool(20, 30, characters=200)
    plan = plan_of(pool, int(seconds * per_second))
    keys = {"concurrency": waiting, "start_concurrency": waiting, "requests_per_minute": 60 * per_second}
    wall = time.perf_counter()
    result = judged(plan, pool, judge(url, **keys))
    took = time.perf_counter() - wall
    assert result.answered.all()
    return {"cpu_share": share, "calls_per_second": len(plan) / took}


def limiters(rates: list[int], seconds: float, waiting: int = 512, **_: Any) -> Measured:
    """asyncio-throttle and aiolimiter at each rate (requests a second): the share of the rate that is held, the most in any
    second as a share of it, and the CPU of a core, by who waits: one, many at the limiter, many in line for a lock before it."""
    return {
        f"{name}, {rate}/s, {n} waiting{' in line' if in_line else ''}": asyncio.run(
            _limited(_LIMITERS[name](rate), rate=rate, seconds=seconds, waiting=n, in_line=in_line)
        )
        for rate in rates
        for name in _LIMITERS
        for n, in_line in ((1, False), (waiting, False), (waiting, True))
    }


async def _limited(
    acquire: Callable[[], Awaitable[None]], *, rate: int, seconds: float, waiting: int, in_line: bool
) -> Measured:
    turn, times = asyncio.Lock(), []

    async def one() -> None:
        for _ in range(max(1, round(seconds * rate / waiting))):
            async with turn if in_line else nullcontext():
                await acquire()
            times.append(time.perf_counter())

    began, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*[one() for _ in range(waiting)])
    share = (time.process_time() - began) / (time.perf_counter() - wall)
    at = np.array(times)
    most = int(max(np.searchsorted(at, at + 1.0) - np.arange(len(at))))
    held = (len(at) - 1) / (at[-1] - at[0]) / rate
    return {"held": round(held, 3), "most_in_a_second": round(most / rate, 3), "cpu_share": round(share, 3)}


def _throttles(rate: float) -> Callable[[], Awaitable[None]]:
    """asyncio-throttle as youden used it: windows of a fiftieth of a second, 3 % fast, and the rate in every second."""
    throttler: Any = import_module("asyncio_throttle").Throttler
    gates = []
    for at_once, per_second in ((rate / 50, rate / 0.97), (rate, rate)):
        n = max(1, int(at_once))
        period = n / per_second
        gates.append(throttler(rate_limit=n, period=period, retry_interval=min(0.002, period / 10)))

    async def acquire() -> None:
        for gate in gates:
            await gate.acquire()

    return acquire


_LIMITERS: dict[str, Callable[[float], Callable[[], Awaitable[None]]]] = {
    "asyncio-throttle": _throttles,
    "aiolimiter": lambda rate: make_request_limiter(rate).acquire,
}


def replay(n_agents: int, n_items: int, **_: Any) -> Measured:
    """Answers put into a store, then plan, replay, tally and fit by a process that only does that."""
    pool = make_pool(n_agents, n_items, characters=1500)
    plan = plan_of(pool)
    config = judge("http://127.0.0.1:9/v1")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "v.db")
        with open_store(path) as store:
            store.remember_judge(config.public())
            dice = random.Random(0)
            for row, key, _request in config.questions().iter_requests(plan):
                said = "YES" if (plan.arm[row] == 0) == (dice.random() < 0.9) else "NO"
                store.add(key, Completion(said, "stop", "m", 700, 1, 0.2))
        return child("replayed", path=str(path), n_agents=n_agents, n_items=n_items)


def replayed(path: str, n_agents: int, n_items: int, **_: Any) -> Measured:
    from youden.pipeline.ranking import rank

    pool = make_pool(n_agents, n_items, characters=1500)
    times = [(time.perf_counter(), time.process_time())]
    plan = plan_of(pool)
    times.append((time.perf_counter(), time.process_time()))
    with open_store(path, read_only=True) as store:
        result = asyncio.run(judge_plan(plan, config=load_judge_config("replay"), store=store))
    times.append((time.perf_counter(), time.process_time()))
    rank(result)
    times.append((time.perf_counter(), time.process_time()))
    wall, used = (np.diff([each[k] for each in times]) for k in (0, 1))
    return {
        "answers": len(plan),
        "answers_per_second": len(plan) / wall[1],
        "answers_per_cpu_second": len(plan) / used[1],
        "seconds": float(wall.sum()),
        "cpu_seconds": float(used.sum()),
        "mb": megabytes(),
    }


class Watch:
    """A progress that notes when trials were done, and memory on the way."""

    def __init__(self) -> None:
        self.total = self.done = 0
        self.at: list[float] = []
        self.early_mb = 0.0

    def start(self, total: int, *, what: str) -> None:
        self.total = total

    def advance(self, n: int = 1, *, failed: int = 0, usd: float = 0.0, cached: int = 0, why: str = "") -> None:
        self.done += n
        self.at += [time.perf_counter()] * n
        if self.done >= self.total // 20 and not self.early_mb:
            self.early_mb = megabytes()

    def throttled(self) -> None:
        pass

    def stop(self) -> None:
        pass


def faults(url: str, n: int, concurrency: int, **_: Any) -> Measured:
    """Every kind of fault in a fifth of the replies, after 0–50 ms."""
    pool = make_pool(30, 2 + n // (2 * 30 * 29), characters=300)
    plan = plan_of(pool, n)
    watch = Watch()
    config = judge(url, concurrency=concurrency, start_concurrency=concurrency, timeout=2)
    wall, began = time.perf_counter(), time.process_time()
    result = judged(plan, pool, config, progress=watch)
    took, used = time.perf_counter() - wall, time.process_time() - began
    late_mb = megabytes()
    assert result.seconds is not None
    assert result.tokens_out is not None
    held = result.answered & (result.tokens_out > 1)
    overhead = result.seconds[held] - result.tokens_out[held] / 1e5
    return {
        "trials": len(plan),
        "answered": int(result.answered.sum()),
        "counted": int((result.missing > 0).sum()),
        "not_asked": int((result.missing == 5).sum()),
        "warnings": [str(warning) for warning in result.warnings],
        "seconds": took,
        "cpu_seconds": used,
        "mb": late_mb,
        "mb_grown": late_mb - watch.early_mb,
        "overhead_ms": {f"p{q}": 1e3 * float(np.percentile(overhead, q)) for q in (50, 90, 99)},
    }


def storm(url: str, seconds: float, concurrency: int, **_: Any) -> Measured:
    """Half of all calls turned down for ten seconds; answers a second before, in and after it."""
    pool = make_pool(30, 30, characters=200)
    plan = plan_of(pool, int(seconds * concurrency / 0.1))
    watch = Watch()
    wall = time.perf_counter()
    result = judged(plan, pool, judge(url, concurrency=concurrency, max_tries=3), progress=watch)
    at = np.array(watch.at) - wall
    return {
        "trials": len(plan),
        "answered": int(result.answered.sum()),
        "per_second": np.bincount(at.astype(int)).tolist(),
    }


def budget(n_runs: int, **_: Any) -> Measured:
    """Runs with random prices, token use and caps; what was spent beyond the cap, at most."""
    pool = make_pool(5, 12, characters=200)
    plan = plan_of(pool)
    worst, short = -1.0, 0
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
            judged(plan, pool, config, judge=Spending(dice, billed), max_cost=cap)
        except BudgetError:
            short += 1
        worst = max(worst, sum(a * price_in + b * price_out for a, b in billed) / 1e6 - cap)
    return {"runs": n_runs, "ended_short": short, "most_beyond_cap_usd": worst}


def storing(n: int, n_rounds: int, **_: Any) -> Measured:
    """Answers per second that an SQLite store takes, each commit flushed to the disk (FULL, as youden sets it) or not (NORMAL),
    in turns; medians."""
    rates: dict[str, list[float]] = {"FULL": [], "NORMAL": []}
    for _round in range(n_rounds):
        for mode, each in rates.items():
            with tempfile.TemporaryDirectory() as folder, open_store(Path(folder, "v.db")) as store:
                place: Any = store.place
                assert place._connection.execute("PRAGMA synchronous").fetchone() == (2,)
                place._connection.execute(f"PRAGMA synchronous = {mode}")
                began = time.perf_counter()
                for number in range(n):
                    key = f"{number:064x}"
                    completion = Completion("YES", "stop", "m", 700, 1, 0.2)
                    store.pay("payer", key, make_payment(0.001, completion))
                    store.add(key, completion)
                store.flush()
                each.append(n / (time.perf_counter() - began))
    return {f"answers_per_second_{mode.lower()}": float(np.median(each)) for mode, each in rates.items()}


class Spending:
    """A judge that says yes and bills any number of tokens, noted in `billed`."""

    name = "spending"

    def __init__(self, dice: random.Random, billed: list[tuple[int, int]]) -> None:
        self._dice, self._billed = dice, billed

    async def answer(self, _request: Request) -> Completion:
        self._billed.append((self._dice.randint(50, 400), self._dice.randint(1, 8)))
        return Completion("YES", "stop", "m", *self._billed[-1])


def child(name: str, **options: Any) -> Measured:
    """A part in a process of its own."""
    ended = subprocess.run(
        [sys.executable, __file__, name, json.dumps(options)], check=True, stdout=subprocess.PIPE, text=True
    )
    measured: Measured = json.loads(ended.stdout)
    return measured


PARTS = {each.__name__: each for each in (cpu, pacing, limiters, replay, replayed, storing, faults, storm, budget)}

if __name__ == "__main__":
    print(json.dumps(PARTS[sys.argv[1]](**json.loads(sys.argv[2]))))
