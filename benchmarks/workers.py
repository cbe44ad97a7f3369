"""Many workers on one store against their bars: speed, CPU, stalls, kills, caps, two runs at once.

It prints JSON and ends with 1 where a bar is missed.

`python benchmarks/workers.py [--smoke] [--only PART …] [--stores sqlite postgresql]`. Workers are processes of their own, the
judge is a real HTTP server in this one.
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
UNWRITTEN = 64
LEASE = 3.0


def tell(one: Measured) -> None:
    """Each of many as it comes: a part takes long, and may be cut off."""
    print(json.dumps(one), file=sys.stderr, flush=True)


@dataclass
class Bill:
    """What the server was asked and what its answers came to."""

    delay: float
    dice: random.Random
    usage: bool = False
    times: list[float] = field(default_factory=list)
    asked: dict[int, int] = field(default_factory=dict)
    usd: float = 0.0
    price: float = 0.0

    def __call__(self, _n: int, body: Mapping[str, Any]) -> Any:
        self.times.append(time.monotonic())
        text = body["messages"][-1]["content"]
        self.asked[hash(text)] = self.asked.get(hash(text), 0) + 1
        said = wire.same_item(body)
        if sum(text.encode()) % 7 == 0:
            said = {"YES": "NO", "NO": "YES"}[said]
        tokens = 100
        if self.usage:
            tokens = self.dice.randint(20, sum(len(one["content"].encode()) + 8 for one in body["messages"]))
        self.usd += (tokens + 1) * self.price / 1e6
        return wire.Reply(said, delay=self.delay, usage={"prompt_tokens": tokens, "completion_tokens": 1})

    @property
    def per_second(self) -> float:
        return (len(self.times) - 1) / (self.times[-1] - self.times[0])

    @property
    def asked_twice(self) -> int:
        return sum(self.asked.values()) - len(self.asked)


class Worker:
    """A process that waits for a word and then judges: as the leader, or helping."""

    def __init__(self, folder: Path, config: str, store: str, *, leads: bool | None = False) -> None:
        words = [sys.executable, str(HERE / "workers_part.py"), config, store, str(leads), str(LEASE)]
        self.leads = leads
        self.process = subprocess.Popen(
            words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == "ready", self.process.stderr and self.process.stderr.read()

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self) -> Measured:
        out, said = self.process.communicate(timeout=300)
        if not out.strip():
            return {"died": self.process.returncode, "said": said[-300:]}
        measured: Measured = json.loads(out.strip().splitlines()[-1])
        return measured


class Places:
    """New stores of either kind."""

    def __init__(self, folder: Path, kinds: list[str]) -> None:
        self._folder, self._n = folder, 0
        self.cluster: Any = None
        if "postgresql" in kinds:
            postgres: Any = import_module("postgres")
            self._pg_folder = Path(tempfile.mkdtemp(prefix="youden-pg-", dir="/tmp"))
            self.cluster = postgres.Cluster(self._pg_folder, postgres.binaries())

    def new(self, kind: str) -> str:
        self._n += 1
        return str(self.cluster.new()) if kind == "postgresql" else str(self._folder / f"v{self._n}.db")

    def close(self) -> None:
        if self.cluster is not None:
            self.cluster.stop()
            shutil.rmtree(self._pg_folder, ignore_errors=True)


@contextmanager
def bench(bill: Bill, *, calls: int, **judge: object) -> Iterator[Path]:
    """A folder with a pool and r.yaml, whose judge is at a server that keeps `bill`."""
    writer: Any = import_module("youden.data.pools.pool_reader")
    folder = Path(tempfile.mkdtemp())
    with wire.running(wire.WireServer(bill, keep=False)) as server:
        agents = 16
        items = max(20, calls // 100)
        writer.write_pool(import_module("pools").make_pool(agents, items), folder / "pool")
        asked = {
            "backend": "wire",
            "model": "m",
            "base_url": server.url,
            "api_key_env": None,
            "price": 0,
            "backoff": 0.05,
        }
        asked |= {"concurrency": IN_FLIGHT, "start_concurrency": IN_FLIGHT, "max_tokens": 1, **judge}
        config = {"pool": "pool", "calls": calls, "independent": f"pooled:{calls // 10}", "judge": asked}
        for name in ("r", "q"):
            (folder / f"{name}.yaml").write_text(json.dumps(config | {"name": name, "seed": int(name == "q")}))
        yield folder
    shutil.rmtree(folder, ignore_errors=True)


def together(folder: Path, store: str, n: int, *, lead: bool) -> list[Measured]:
    """So many workers from the same moment on. lead: whether the first one writes the run."""
    workers = [Worker(folder, "r.yaml", store, leads=(k == 0) if lead else None) for k in range(n)]
    for worker in workers:
        worker.go()
    return [worker.end() for worker in workers]


def speed(places: Places, kinds: list[str], *, smoke: bool) -> Measured:
    """Calls a second with a judge of 100 ms; CPU a call; the longest `add`."""
    found: Measured = {}
    for kind in kinds:
        for n in (1, 4) if smoke or kind == "sqlite" else (1, 4, 8):
            calls = (240 if smoke else 640) * n
            bill = Bill(0.1, random.Random(0))
            with bench(bill, calls=calls) as folder:
                ended = together(folder, places.new(kind), n, lead=False)
            cpu = sum(one["cpu"] for one in ended) / len(bill.times) * 1e3
            stall = max(one["longest_add"] for one in ended)
            found[f"{kind} {n}"] = {
                "per_second": bill.per_second,
                "cpu_ms": cpu,
                "stall": stall,
                "asked": len(bill.times),
            }
    bars = {}
    for kind in kinds:
        one = found[f"{kind} 1"]["per_second"]
        bars[f"{kind}: 4 ÷ 1 ≥ 3.5"] = found[f"{kind} 4"]["per_second"] / one >= 3.5
        bars[f"{kind}: stall ≤ .25 s"] = found[f"{kind} 4"]["stall"] <= 0.25
        if f"{kind} 8" in found:
            bars[f"{kind}: 8 ÷ 1 ≥ 6.5"] = found[f"{kind} 8"]["per_second"] / one >= 6.5
    if len(kinds) == 2:
        ratio = found["postgresql 4"]["cpu_ms"] / found["sqlite 4"]["cpu_ms"]
        bars["CPU a call, PostgreSQL ÷ SQLite ≤ 1.2"] = ratio <= 1.2
        found["cpu_ratio"] = ratio
    return {"found": found, "bars": bars}


def kills(places: Places, kinds: list[str], *, smoke: bool) -> Measured:
    """A leader and two workers; one of them or the server dies, or one stands still past its lease; then it is begun again."""
    found: list[Measured] = []
    for kind in kinds:
        hows = ["worker", "leader", "stopped"] + (["postmaster"] if kind == "postgresql" else [])
        n = len(hows) if smoke else 12 if kind == "sqlite" else 8
        for k in range(n):
            found.append(_disturbed(places, kind, hows[k % len(hows)], seed=k))
            tell(found[-1])
    return {
        "found": found,
        "bars": {
            "no written answer lost": all(one["lost"] == 0 for one in found),
            "asked twice ≤ in flight + unwritten": all(
                one["twice"]
                <= IN_FLIGHT * (3 if one["how"] == "postmaster" else 1)
                + UNWRITTEN * (3 if one["how"] == "postmaster" else 1)
                for one in found
            ),
            "tables equal": all(one["equal"] for one in found),
        },
    }


def _disturbed(places: Places, kind: str, how: str, *, seed: int) -> Measured:
    dice = random.Random(seed)
    bill = Bill(0.1, dice)
    calls = 900
    with bench(bill, calls=calls) as folder:
        store = places.new(kind)
        workers = [Worker(folder, "r.yaml", store, leads=k == 0) for k in range(3)]
        for worker in workers:
            worker.go()
        at = dice.randint(50, 500)
        while len(bill.times) < at:
            time.sleep(0.005)
        kept = _kept(store)
        victim = workers[0 if how == "leader" else dice.choice([1, 2])]
        if how == "postmaster":
            places.cluster.kill()
            time.sleep(dice.uniform(0.2, 1.5))
            places.cluster.start()
        elif how == "stopped":
            victim.process.send_signal(signal.SIGSTOP)
            time.sleep(1.5 * LEASE)
            victim.process.send_signal(signal.SIGCONT)
        else:
            victim.process.kill()
            victim.process.communicate()
            workers.remove(victim)
            again = Worker(folder, "r.yaml", store, leads=victim.leads)
            again.go()
            workers.append(again)
        ended = [worker.end() for worker in workers]
        now = _kept(store)
        final = _answers(folder)
        twice = bill.asked_twice
        shutil.rmtree(folder / "runs")
        together(folder, places.new("sqlite"), 1, lead=True)
        straight = _answers(folder)
    died = [one for one in ended if "died" in one]
    lost = sum(now.get(key) != text for key, text in kept.items())
    equal = bool(np.array_equal(final, straight, equal_nan=True))
    return {"store": kind, "how": how, "at": at, "lost": lost, "twice": twice, "equal": equal, "died": died}


def _kept(store: str) -> dict[str, str]:
    opened: Any = import_module("youden.judging.store.answers").open_store(store)
    rows: Any = import_module("youden.judging.store.contract").all_rows
    with opened:
        return {key: text for key, text, *_ in rows(opened.place, "answers")}


def _answers(folder: Path) -> Any:
    run = import_module("youden.data.folder.run_folder").RunFolder(folder / "runs" / "r")
    return run.read_verdicts(run.read_plan()).answer


def caps(places: Places, kinds: list[str], *, smoke: bool) -> Measured:
    """Four workers under one cap, usage at random, one of them killed: the server's bill, and how much of the cap was used."""
    found: list[Measured] = []
    for seed in range(2 if smoke else 50):
        kind = kinds[seed % len(kinds)]
        dice = random.Random(seed)
        bill = Bill(0.0, dice, usage=True, price=1000)
        in_flight = 2
        with bench(bill, calls=4000, price=1000, concurrency=in_flight, start_concurrency=in_flight) as folder:
            worst = _worst(folder)
            cap = 100 * worst * in_flight * 4
            config = json.loads((folder / "r.yaml").read_text()) | {"max_cost": cap}
            (folder / "r.yaml").write_text(json.dumps(config))
            store = places.new(kind)
            workers = [Worker(folder, "r.yaml", store, leads=k == 0) for k in range(4)]
            for worker in workers:
                worker.go()
            at = dice.randint(100, 500)
            while len(bill.times) < at:
                time.sleep(0.005)
            victim = dice.choice(workers)
            victim.process.kill()
            ended = [worker.end() for worker in workers]
            slugs = [one.get("slug") for one in ended]
            found.append({"store": kind, "used": bill.usd / cap, "asked": len(bill.times), "ended": slugs})
            tell(found[-1])
    return {
        "found": found,
        "bars": {
            "bill ≤ cap": all(one["used"] <= 1 for one in found),
            "used ≥ 95 %": all(one["used"] >= 0.95 for one in found),
        },
    }


def _worst(folder: Path) -> float:
    """The most that one call of r.yaml can cost."""
    part: Any = import_module("workers_part")
    return float(part.worst_of(folder / "r.yaml"))


def two_runs(places: Places, kinds: list[str], *, smoke: bool) -> Measured:
    """Runs of two configs that share requests, on one store at once: nothing that both ask is paid twice."""
    found: Measured = {}
    for kind in kinds:
        bill = Bill(0.02, random.Random(0))
        with bench(bill, calls=1500) as folder:
            store = places.new(kind)
            workers = [Worker(folder, f"{name}.yaml", store, leads=True) for name in ("r", "q")]
            for worker in workers:
                worker.go()
            ended = [worker.end() for worker in workers]
            found[kind] = {
                "planned": sum(one["trials"] for one in ended),
                "asked": len(bill.times),
                "twice": bill.asked_twice,
            }
    return {"found": found, "bars": {"nothing paid twice": all(one["twice"] == 0 for one in found.values())}}


PARTS: dict[str, Callable[..., Measured]] = {"speed": speed, "kills": kills, "caps": caps, "two_runs": two_runs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--only", nargs="*", default=list(PARTS))
    parser.add_argument("--stores", nargs="*", default=["sqlite", "postgresql"])
    said = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    places = Places(folder, said.stores)
    found = {}
    try:
        for name in said.only:
            began = time.monotonic()
            found[name] = PARTS[name](places, said.stores, smoke=said.smoke) | {"seconds": time.monotonic() - began}
            print(json.dumps({name: found[name]}, indent=1), flush=True)
    finally:
        places.close()
        shutil.rmtree(folder, ignore_errors=True)
    missed = [f"{name}: {bar}" for name, one in found.items() for bar, held in one["bars"].items() if not held]
    print(f"missed: {missed}" if missed else "all bars hold")
    sys.exit(bool(missed) and not said.smoke)


if __name__ == "__main__":
    main()
