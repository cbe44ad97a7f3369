"""Measure several workers on one store: speed, CPU time, stalls, kills, cost caps, rate limits, and two runs at once.

Workers are separate processes; the judge is an HTTP server in this process.

`python benchmarks/workers.py [--smoke] [--only PART …] [--stores sqlite postgresql]` prints JSON and exits with 1 if a bar is
missed.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))
wire: Any = import_module("wire_server")
Measured = dict[str, Any]
IN_FLIGHT = 8
MAX_UNFLUSHED = 64
LEASE_SECONDS = 3.0


def print_result(result: Measured) -> None:
    """Print a result to stderr when it is available, because a part takes long and may be interrupted."""
    print(json.dumps(result), file=sys.stderr, flush=True)


@dataclass
class Bill:
    """Server behavior that records the requests and the cost of the answers."""

    delay: float
    dice: random.Random
    usage: bool = False
    times: list[float] = field(default_factory=list)
    n_by_prompt: dict[int, int] = field(default_factory=dict)
    usd: float = 0.0
    price: float = 0.0

    def __call__(self, _n: int, body: Mapping[str, Any]) -> Any:
        self.times.append(time.monotonic())
        text = body["messages"][-1]["content"]
        self.n_by_prompt[hash(text)] = self.n_by_prompt.get(hash(text), 0) + 1
        answer = wire.same_item(body)
        if sum(text.encode()) % 7 == 0:
            answer = {"YES": "NO", "NO": "YES"}[answer]
        tokens = 100
        if self.usage:
            tokens = self.dice.randint(20, sum(len(message["content"].encode()) + 8 for message in body["messages"]))
        self.usd += (tokens + 1) * self.price / 1e6
        return wire.Reply(answer, delay=self.delay, usage={"prompt_tokens": tokens, "completion_tokens": 1})

    @property
    def per_second(self) -> float:
        """Mean number of requests per second."""
        return (len(self.times) - 1) / (self.times[-1] - self.times[0])

    @property
    def n_repeated(self) -> int:
        """Number of requests that had been sent before."""
        return sum(self.n_by_prompt.values()) - len(self.n_by_prompt)


class Worker:
    """Process that starts to judge on a signal, as coordinator (`leads` true), as worker (false), or without a run (None)."""

    def __init__(self, folder: Path, config: str, store: str, *, leads: bool | None = False) -> None:
        words = [sys.executable, str(HERE / "workers_part.py"), config, store, str(leads), str(LEASE_SECONDS)]
        self.leads = leads
        self.process = subprocess.Popen(
            words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == "ready", self.process.stderr and self.process.stderr.read()

    def start_judging(self) -> None:
        """Let the process start to judge."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def wait_for_result(self) -> Measured:
        """Wait for the end of the process; return its JSON output, or its exit status and stderr if there is none."""
        out, errors = self.process.communicate(timeout=300)
        if not out.strip():
            return {"died": self.process.returncode, "stderr": errors[-300:]}
        measured: Measured = json.loads(out.strip().splitlines()[-1])
        return measured


class StoreFactory:
    """Creates new stores, with a PostgreSQL cluster if one is needed."""

    def __init__(self, folder: Path, kinds: list[str]) -> None:
        self._folder, self._n = folder, 0
        self.cluster: Any = None
        if "postgresql" in kinds:
            postgres: Any = import_module("postgres")
            self._pg_folder = Path(tempfile.mkdtemp(prefix="youden-pg-", dir="/tmp"))
            self.cluster = postgres.Cluster(self._pg_folder, postgres.binaries())

    def create(self, kind: str) -> str:
        """Create a store of `kind`, and return its path or URL."""
        self._n += 1
        return str(self.cluster.new()) if kind == "postgresql" else str(self._folder / f"v{self._n}.db")

    def close(self) -> None:
        if self.cluster is not None:
            self.cluster.stop()
            shutil.rmtree(self._pg_folder, ignore_errors=True)


@contextmanager
def serve_run(bill: Callable[[int, Mapping[str, Any]], Any], *, calls: int, **judge: object) -> Iterator[Path]:
    """Yield a folder with a pool and two configs, r.yaml and q.yaml, whose judge is a server that records `bill`."""
    pool_reader: Any = import_module("youden.data.pools.pool_reader")
    folder = Path(tempfile.mkdtemp())
    with wire.running(wire.WireServer(bill, keep=False)) as server:
        n_agents = 16
        n_items = max(20, calls // 100)
        pool_reader.write_pool(import_module("small_pools").make_pool(n_agents, n_items), folder / "pool")
        judge_keys = {
            "backend": "wire",
            "model": "m",
            "base_url": server.url,
            "api_key_env": None,
            "price": 0,
            "backoff": 0.05,
        }
        judge_keys |= {"concurrency": IN_FLIGHT, "start_concurrency": IN_FLIGHT, "max_tokens": 1, **judge}
        config = {"pool": "pool", "calls": calls, "independent": f"pooled:{calls // 10}", "judge": judge_keys}
        for name in ("r", "q"):
            (folder / f"{name}.yaml").write_text(json.dumps(config | {"name": name, "seed": int(name == "q")}))
        yield folder
    shutil.rmtree(folder, ignore_errors=True)


def run_workers(folder: Path, store: str, n: int, *, lead: bool) -> list[Measured]:
    """Start n workers at the same time, and return their results; the first one coordinates the run if `lead` is true."""
    workers = [Worker(folder, "r.yaml", store, leads=(k == 0) if lead else None) for k in range(n)]
    for worker in workers:
        worker.start_judging()
    return [worker.wait_for_result() for worker in workers]


def measure_speed(stores: StoreFactory, kinds: list[str], *, smoke: bool) -> Measured:
    """Measure requests per second with a judge of 100 ms, CPU time per call, and the longest `Store.add`."""
    results: Measured = {}
    for kind in kinds:
        for n in (1, 4) if smoke or kind == "sqlite" else (1, 4, 8):
            calls = (80 if smoke else 640) * n
            bill = Bill(0.1, random.Random(0))
            with serve_run(bill, calls=calls) as folder:
                finished = run_workers(folder, stores.create(kind), n, lead=False)
            cpu = sum(result["cpu"] for result in finished) / len(bill.times) * 1e3
            longest_add = max(result["longest_add"] for result in finished)
            results[f"{kind} {n}"] = {
                "per_second": bill.per_second,
                "cpu_ms": cpu,
                "stall": longest_add,
                "requests": len(bill.times),
            }
    bars = {}
    for kind in kinds:
        single_rate = results[f"{kind} 1"]["per_second"]
        bars[f"{kind}: 4 ÷ 1 ≥ 3.5"] = results[f"{kind} 4"]["per_second"] / single_rate >= 3.5
        bars[f"{kind}: stall ≤ .25 s"] = results[f"{kind} 4"]["stall"] <= 0.25
        if f"{kind} 8" in results:
            bars[f"{kind}: 8 ÷ 1 ≥ 6.5"] = results[f"{kind} 8"]["per_second"] / single_rate >= 6.5
    if len(kinds) == 2:
        cpu_ratio = results["postgresql 4"]["cpu_ms"] / results["sqlite 4"]["cpu_ms"]
        # SQLite needs no round trips, and it does not flush leases
        bars["CPU per call, PostgreSQL ÷ SQLite ≤ 1.35"] = cpu_ratio <= 1.35
        results["cpu_ratio"] = cpu_ratio
    return {"found": results, "bars": bars}


def measure_kills(stores: StoreFactory, kinds: list[str], *, smoke: bool) -> Measured:
    """Disturb a coordinator and two workers, finish the run, and compare it with an undisturbed run.

    One process or the PostgreSQL server is killed, or a process is stopped for longer than its lease.
    """
    results: list[Measured] = []
    for kind in kinds:
        disturbances = ["worker", "coordinator", "stopped"] + (["postmaster"] if kind == "postgresql" else [])
        n = len(disturbances) if smoke else 12 if kind == "sqlite" else 8
        for k in range(n):
            results.append(_disturb_run(stores, kind, disturbances[k % len(disturbances)], seed=k))
            print_result(results[-1])
    return {
        "found": results,
        "bars": {
            "no written answer lost": all(result["lost"] == 0 for result in results),
            "repeated requests ≤ in flight + unflushed": all(
                result["repeated"] <= _max_repeated(result["disturbance"]) for result in results
            ),
            "tables equal": all(result["equal"] for result in results),
        },
    }


def _max_repeated(disturbance: str) -> int:
    """Return how many requests may be repeated: those of one worker, or of all three if the store's server is killed."""
    n_affected = 3 if disturbance == "postmaster" else 1
    return (IN_FLIGHT + MAX_UNFLUSHED) * n_affected


def _disturb_run(stores: StoreFactory, kind: str, disturbance: str, *, seed: int) -> Measured:
    """Run three workers, disturb them after a random number of requests, and compare the results."""
    dice = random.Random(seed)
    bill = Bill(0.1, dice)
    calls = 900
    with serve_run(bill, calls=calls) as folder:
        store = stores.create(kind)
        workers = [Worker(folder, "r.yaml", store, leads=k == 0) for k in range(3)]
        for worker in workers:
            worker.start_judging()
        n_requests = dice.randint(50, 500)
        while len(bill.times) < n_requests:
            time.sleep(0.005)
        stored = _read_stored_answers(store)
        victim = workers[0 if disturbance == "coordinator" else dice.choice([1, 2])]
        if disturbance == "postmaster":
            stores.cluster.kill()
            time.sleep(dice.uniform(0.2, 1.5))
            stores.cluster.start()
        elif disturbance == "stopped":
            victim.process.send_signal(signal.SIGSTOP)
            time.sleep(1.5 * LEASE_SECONDS)
            victim.process.send_signal(signal.SIGCONT)
        else:
            victim.process.kill()
            victim.process.communicate()
            workers.remove(victim)
            replacement = Worker(folder, "r.yaml", store, leads=victim.leads)
            replacement.start_judging()
            workers.append(replacement)
        finished = [worker.wait_for_result() for worker in workers]
        stored_at_end = _read_stored_answers(store)
        answers = _read_verdict_answers(folder)
        n_repeated = bill.n_repeated
        shutil.rmtree(folder / "runs")
        run_workers(folder, stores.create("sqlite"), 1, lead=True)
        undisturbed = _read_verdict_answers(folder)
    dead = [result for result in finished if "died" in result]
    n_lost = sum(stored_at_end.get(request_hash) != text for request_hash, text in stored.items())
    is_equal = bool(np.array_equal(answers, undisturbed, equal_nan=True))
    return {
        "store": kind,
        "disturbance": disturbance,
        "at": n_requests,
        "lost": n_lost,
        "repeated": n_repeated,
        "equal": is_equal,
        "died": dead,
    }


def _read_stored_answers(store: str) -> dict[str, str]:
    """Read the stored answers by request hash."""
    opened_store: Any = import_module("youden.judging.store.answers").open_store(store)
    read_all_rows: Any = import_module("youden.judging.store.contract").read_all_rows
    with opened_store:
        return {request_hash: text for request_hash, text, *_ in read_all_rows(opened_store.backend, "answers")}


def _read_verdict_answers(folder: Path) -> Any:
    """Read the answers of run r in plan order."""
    run = import_module("youden.data.folder.run_folder").RunFolder(folder / "runs" / "r")
    return run.read_verdicts(run.read_plan()).answer


def measure_caps(stores: StoreFactory, kinds: list[str], *, smoke: bool) -> Measured:
    """Measure the cost of four workers under one cap, with random usage and one worker killed, as a fraction of the cap."""
    results: list[Measured] = []
    for seed in range(2 if smoke else 50):
        kind = kinds[seed % len(kinds)]
        dice = random.Random(seed)
        bill = Bill(0.0, dice, usage=True, price=1000)
        in_flight = 2
        with serve_run(bill, calls=4000, price=1000, concurrency=in_flight, start_concurrency=in_flight) as folder:
            max_cost_of_call = _max_call_cost(folder)
            cap = 100 * max_cost_of_call * in_flight * 4
            config = json.loads((folder / "r.yaml").read_text()) | {"max_cost": cap}
            (folder / "r.yaml").write_text(json.dumps(config))
            store = stores.create(kind)
            workers = [Worker(folder, "r.yaml", store, leads=k == 0) for k in range(4)]
            for worker in workers:
                worker.start_judging()
            n_requests = dice.randint(100, 500)
            while len(bill.times) < n_requests:
                time.sleep(0.005)
            victim = dice.choice(workers)
            victim.process.kill()
            finished = [worker.wait_for_result() for worker in workers]
            slugs = [result.get("slug") for result in finished]
            results.append({"store": kind, "used": bill.usd / cap, "requests": len(bill.times), "ended": slugs})
            print_result(results[-1])
    return {
        "found": results,
        "bars": {
            "bill ≤ cap": all(result["used"] <= 1 for result in results),
            "used ≥ 95 %": all(result["used"] >= 0.95 for result in results),
        },
    }


def _max_call_cost(folder: Path) -> float:
    """Return the largest possible cost of a call of r.yaml, in USD."""
    workers_part: Any = import_module("workers_part")
    return float(workers_part.max_cost_of_config(folder / "r.yaml"))


def measure_shared_requests(stores: StoreFactory, kinds: list[str], *, smoke: bool) -> Measured:
    """Judge two runs with common requests on one store at once, and count the requests that are sent twice."""
    results: Measured = {}
    for kind in kinds:
        bill = Bill(0.02, random.Random(0))
        with serve_run(bill, calls=1500) as folder:
            store = stores.create(kind)
            workers = [Worker(folder, f"{name}.yaml", store, leads=True) for name in ("r", "q")]
            for worker in workers:
                worker.start_judging()
            finished = [worker.wait_for_result() for worker in workers]
            results[kind] = {
                "planned": sum(result["trials"] for result in finished),
                "requests": len(bill.times),
                "repeated": bill.n_repeated,
            }
    return {
        "found": results,
        "bars": {"no request paid twice": all(result["repeated"] == 0 for result in results.values())},
    }


def measure_rate_limits(stores: StoreFactory, kinds: list[str], *, smoke: bool) -> Measured:
    """Measure one and four workers on servers that reject requests with HTTP 429; the first 30 or 60 seconds do not count.

    Without Retry-After, the end of a fixed window is unknown, so the rejections are not limited in this case.
    """
    limited_servers: Any = import_module("limited_servers")
    results: Measured = {}
    headers_by_limit = {
        "bucket": ("none", "Retry-After", "OpenAI"),
        "window": ("none", "Retry-After"),
        "in flight": ("none",),
    }
    for limit, headers in ((limit, headers) for limit, values in headers_by_limit.items() for headers in values):
        for n in (1, 4):
            behavior = limited_servers.LimitedServer(limit, headers, period=60.0 if limit == "window" else 30.0)
            keys = {"concurrency": 64, "start_concurrency": 20, "backoff": 0.5}
            with serve_run(behavior, calls=200 if smoke else int(180 * behavior.period), **keys) as folder:
                run_workers(folder, stores.create(kinds[0]), n, lead=False)
            results[f"{limit}, headers: {headers}, workers: {n}"] = behavior.measure_steady_state()
            print_result(results)
    return {
        "found": results,
        "bars": {
            "no answer lost": all(result["lost"] == 0 for result in results.values()),
            "≥ 90 % of the server's rate": all(result["of_max_rate"] >= 0.9 for result in results.values()),
            "< 5 % rejected": all(
                result["rejected_per_answer"] < 0.05
                for name, result in results.items()
                if not name.startswith("window, headers: none")
            ),
        },
    }


PARTS: dict[str, Callable[..., Measured]] = {
    "speed": measure_speed,
    "kills": measure_kills,
    "caps": measure_caps,
    "limits": measure_rate_limits,
    "two_runs": measure_shared_requests,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--only", nargs="*", default=list(PARTS))
    parser.add_argument("--stores", nargs="*", default=["sqlite", "postgresql"])
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    stores = StoreFactory(folder, arguments.stores)
    results = {}
    try:
        for name in arguments.only:
            start = time.monotonic()
            results[name] = PARTS[name](stores, arguments.stores, smoke=arguments.smoke) | {
                "seconds": time.monotonic() - start
            }
            print(json.dumps({name: results[name]}, indent=1), flush=True)
    finally:
        stores.close()
        shutil.rmtree(folder, ignore_errors=True)
    missed = [
        f"{name}: {bar}" for name, result in results.items() for bar, is_met in result["bars"].items() if not is_met
    ]
    print(f"missed: {missed}" if missed else "all bars met")
    sys.exit(bool(missed) and not arguments.smoke)


if __name__ == "__main__":
    main()
