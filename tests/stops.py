"""Run `youden` in separate processes that are stopped, suspended or left without a server, and count the losses.

`lost`: requests that the server completed and whose answers are not stored. `paid_twice`: completions of a request
that had already been completed.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from commands import wire_judge, write_config
from small_pools import make_pool
from unruly_server import Body, Sent, UnrulyServer, reply_to, sent
from youden.data.pools.pool_reader import write_pool

HERE = Path(__file__).parent
IN_FLIGHT = 64
PATIENT = 60
"""Seconds after which the server's delay of a second is over on a busy machine."""
AT_RISK = IN_FLIGHT + 64
"""Requests whose answers may be lost when a process is killed: those in flight, and a batch not yet written."""
TABLES = ("ranking.csv", "scores.csv", "items.csv")


async def until(done: Callable[[], bool]) -> None:
    for _ in range(6000):
        if done():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not come to that within five minutes")


@dataclass(frozen=True)
class Size:
    """A run of a number of calls, each answered within `slowest` seconds."""

    n_agents: int = 8
    n_items: int = 24
    calls: int = 600
    slowest: float = 1.0


@dataclass(frozen=True)
class Ended:
    """A process that ended: its exit code and its output."""

    code: int
    output: str


@dataclass
class Bench:
    """The folder and the server of one run; create it by `bench`."""

    folder: Path
    server: UnrulyServer
    size: Size

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        """Start `youden run`, or `youden` with other `words`; signals reach only this process."""
        path = os.pathsep.join([str(HERE.parent / "src")])
        return await asyncio.create_subprocess_exec(
            *(sys.executable, *(words if words[:1] == ("-c",) else ("-m", "youden", *(words or ("run", "r.yaml"))))),
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )

    async def until(self, n_requests: int, process: asyncio.subprocess.Process) -> bool:
        """Wait for this number of requests; return whether the process still runs."""
        task, ended = asyncio.create_task(self.server.requests(n_requests)), asyncio.create_task(process.wait())
        await asyncio.wait([task, ended], return_when=asyncio.FIRST_COMPLETED)
        task.cancel()
        ended.cancel()
        return process.returncode is None

    async def end(self, process: asyncio.subprocess.Process, *, within: float) -> Ended:
        """Wait for the process, then for replies in progress."""
        try:
            output, _ = await asyncio.wait_for(process.communicate(), within)
        except TimeoutError:
            process.send_signal(signal.SIGABRT)  # the log states its progress
            output, _ = await process.communicate()
            raise AssertionError(f"the process did not end within {within:g} s: {output.decode()[-9000:]}") from None
        await self.server.quiet()
        assert process.returncode is not None
        return Ended(process.returncode, output.decode(errors="replace"))

    @property
    def kept(self) -> int:
        """Return the answers in the stores of all commands by key."""
        n = 0
        for store in self.folder.rglob("*.db"):
            with closing(sqlite3.connect(store)) as connection:
                n += int(connection.execute("SELECT count(*) FROM answers").fetchone()[0])
        return n

    @property
    def lost(self) -> int:
        return len(self.server.bill.paid) - self.kept

    @property
    def paid_twice(self) -> int:
        return self.server.bill.n_paid_twice

    def tables(self) -> dict[str, bytes]:
        return {name: (self.folder / "runs/r" / name).read_bytes() for name in TABLES}

    async def finish(self, *, within: float = 300) -> Ended:
        """Repeat the command without disturbance."""
        return await self.end(await self.start(), within=within)

    def forget(self) -> None:
        """Reset the recorded requests."""
        for name in ("runs", ".youden"):
            shutil.rmtree(self.folder / name, ignore_errors=True)


async def bench(folder: Path, server: UnrulyServer, *, size: Size = Size(), **judge: object) -> Bench:
    """Create a pool, a config and a judge at `server`, which answers within a second and sometimes wrongly."""
    write_pool(make_pool(size.n_agents, size.n_items), folder / "pool")
    pace = {"concurrency": IN_FLIGHT, "start_concurrency": IN_FLIGHT, "backoff": 0.05, "timeout": PATIENT}
    config = wire_judge(server.url, price=1000, **pace) | judge
    write_config(
        folder / "r.yaml", pool="pool", calls=size.calls, independent="pooled:40", max_cost=100_000, judge=config
    )
    dice = random.Random(0)

    def script(_n: int, key: str, body: Body) -> Sent:
        wrong = int(key[:4], 16) % 7 == 0
        reply = reply_to(body)
        if wrong:
            content = reply["choices"][0]["message"]["content"]
            reply = reply_to(body, said={"YES": "NO", "NO": "YES"}[content])
        return replace(sent(reply), delay=dice.uniform(0, size.slowest))

    server.script = script
    return Bench(folder, server, size)


async def stopped(
    run: Bench, how: signal.Signals, *, at: int, within: float = 300, words: tuple[str, ...] = ()
) -> Ended | None:
    """Start a run or another command, and send the signal at request number `at`; return None if it had ended before."""
    process = await run.start(*words)
    if not await run.until(at, process):
        await run.end(process, within=within)
        return None
    process.send_signal(how)
    return await run.end(process, within=within)


async def disturbed(
    run: Bench, disturb: Callable[[asyncio.subprocess.Process], Awaitable[None]], *, at: int, within: float
) -> Ended:
    """Run a command and call `disturb` at request number `at`."""
    process = await run.start()
    assert await run.until(at, process)
    await disturb(process)
    return await run.end(process, within=within)


def outage(run: Bench, seconds: float) -> Callable[[asyncio.subprocess.Process], Awaitable[None]]:
    """Stop the server for this time."""

    async def away(_process: asyncio.subprocess.Process) -> None:
        await run.server.away(seconds)

    return away


def sleep(seconds: float) -> Callable[[asyncio.subprocess.Process], Awaitable[None]]:
    """Suspend the process for this time."""

    async def stand_still(process: asyncio.subprocess.Process) -> None:
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        process.send_signal(signal.SIGCONT)

    return stand_still
