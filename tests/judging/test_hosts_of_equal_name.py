"""Test five hosts with equal names and process numbers that judge one run with one store: no double payment, cap
respected.

Each process sees the same hostname, PID namespace and PID, like the first containers on five machines, and considers
every other process dead. Their clocks are changed by an hour meanwhile.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from narrowing import untyped
from stops import AT_RISK, Bench, Size, bench, until
from unruly_server import UnrulyServer
from youden.judging.store.answers import open_store
from youden.judging.store.contract import column_names
from youden.judging.store.leases import LEASE_SECONDS
from youden.judging.store.sqlite import BUSY_SECONDS

HOSTS = 5
SIZE = Size(calls=600, slowest=0.4)
HOST = """
import os, pathlib, platform, sys, time
number, hours = int(sys.argv[1]), float(sys.argv[2])
began, of_day, link, text = time.monotonic(), time.time, os.readlink, pathlib.Path.read_text
os.getpid = lambda: 7
platform.node = lambda: "node"
os.readlink = lambda path, **k: "pid:[4026531836]" if "ns/pid" in str(path) else link(path, **k)
pathlib.Path.read_text = lambda self, *a, **k: f"start-{number}" if self.name == "boot_id" else text(self, *a, **k)
time.time = lambda: of_day() + 3600 * hours * (time.monotonic() - began > 3 and not os.path.exists("clocks-hold"))
def gone(*_):
    raise ProcessLookupError
os.kill = gone
sys.argv = ["youden", *sys.argv[3:]]
from youden.cli import main
main()
"""
STEPS = (0.0, 1.0, -1.0, 1.0, -1.0)
"""Hours by which the clock of each host changes after 3 s, or once its folder has no file `clocks-hold`."""


def write_cap(run: Bench, usd: float) -> None:
    """Write the config and the pool of the run into a folder for each host."""
    config = yaml.safe_load((run.folder / "r.yaml").read_text())
    for number in range(HOSTS):
        own = run.folder / f"host-{number}"
        shutil.copytree(run.folder / "pool", own / "pool", dirs_exist_ok=True)
        text = yaml.safe_dump(config | {"max_cost": usd, "pool": str(own / "pool"), "out": str(own / "runs/r")})
        (own / "r.yaml").write_text(text)


async def all_hosts(run: Bench, place: str, *, steps: tuple[float, ...] = STEPS) -> list[asyncio.subprocess.Process]:
    """Start a coordinator and four workers, each in its own folder."""
    started = []
    for number, hours in enumerate(steps):
        words = ["-c", HOST, str(number), str(hours), "judge", str(run.folder / f"host-{number}/r.yaml")]
        started.append(await run.start(*words, "--store", place, *(["--worker"] if number else [])))
    return started


def n_members(place: str) -> int:
    """Return the number of processes that judge the run."""
    with open_store(place) as store:
        rows = untyped(store.backend.rows)("workers", None, n=10 * HOSTS)
        expires = column_names("workers").index("expires")
        return sum(float(row[expires] or 0) > 0 for row in rows)


async def ended(run: Bench, processes: list[Any], *, within: float = 400) -> list[int]:
    hosts = [await run.end(process, within=within) for process in processes]
    for host in hosts:
        print(host)  # pytest shows it if the test fails
    return [host.code for host in hosts]


@pytest.mark.slow
async def test_hosts_with_different_clocks_pay_once_and_respect_the_cap(tmp_path: Path, place: str) -> None:
    async with UnrulyServer() as server:
        run = await bench(tmp_path, server, size=SIZE)
        write_cap(run, cap := 60.0)
        server.goes_on.clear()
        (hold := tmp_path / "clocks-hold").touch()
        hosts = await all_hosts(run, place)
        # workers have spent the cap and ended; the coordinator that starts then has another cap
        await until(lambda: n_members(place) == HOSTS)
        hold.unlink()
        server.goes_on.set()
        assert set(await ended(run, hosts)) == {1}
        n_first = server.n_requests
        assert 50 < n_first < SIZE.calls
        assert server.bill.usd(1000) <= cap
        write_cap(run, 100_000)
        assert set(await ended(run, await all_hosts(run, place))) == {0}
        assert (server.n_requests, server.bill.n_paid_twice) == (SIZE.calls, 0)


@pytest.mark.long
@pytest.mark.parametrize("seconds", [10, 40, 120])
@pytest.mark.parametrize("who", ["leader", "worker"])
async def test_a_suspended_host_costs_at_most_its_requests_in_flight(
    tmp_path: Path, place: str, who: str, seconds: float
) -> None:
    async with UnrulyServer() as server:
        run = await bench(tmp_path, server, size=SIZE)
        write_cap(run, 100_000)
        processes = await all_hosts(run, place)
        still = processes[0 if who == "leader" else 2]
        assert await run.until(150, still)
        still.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        still.send_signal(signal.SIGCONT)
        hosts = [await run.end(process, within=400) for process in processes]
        others = [host for process, host in zip(processes, hosts, strict=True) if process is not still]
        # a process that is stopped while it writes to SQLite keeps the lock: the others then wait for 30 s and end
        kept_lock = seconds > BUSY_SECONDS and all("[store-busy]" in host.output for host in others)
        assert kept_lock or [host.code for host in others] == [0] * 4, others
        assert hosts[processes.index(still)].code in (0, 2), "another one may lead by now"
        assert set(await ended(run, await all_hosts(run, place))) == {0}
        assert len(server.bill.paid) == SIZE.calls
        at_risk = len(hosts) * AT_RISK if kept_lock else AT_RISK
        assert server.bill.n_paid_twice <= (0 if seconds < LEASE_SECONDS else at_risk)
        assert max(server.bill.paid.values()) <= 2
