"""A platform engineer judges 40 agents with four processes and one store; the server fails, and one process is killed."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from commands import wire_judge, write_config
from postgres import Cluster
from simulated_judge import PRICE, SimulatedJudge, read_abilities, read_cost, respond
from stops import Bench, Size
from unruly_server import Body, Sent, UnrulyServer
from youden import read_run

AGENTS = [f"agent-{n:02}" for n in range(40)]
ITEMS = [f"item-{n:02}" for n in range(60)]
JUDGE = SimulatedJudge({agent: -0.4 + 0.02 * n for n, agent in enumerate(AGENTS)})
CONCURRENCY = 8
N_PENDING_WRITES = 64
"""Answers of a process that are not yet on disk (docs/reference/reliability.md)."""


class TroubledServer(UnrulyServer):
    """Server whose first reply to some requests is an error, truncated or delayed; `n_cut` counts the truncated replies."""

    def __init__(self) -> None:
        super().__init__(self._reply)
        self.n_cut = 0

    def _reply(self, n: int, key: str, body: Body) -> Sent:
        reply = replace(JUDGE(n, key, body), delay=0.02)
        trouble = int(key[:8], 16) % 40 if self.bill.asked[key] == 1 else None
        if trouble == 0:
            return Sent(b'{"error": {"message": "wait"}}', status=429, headers={"Retry-After": "1"}, billed=False)
        if trouble == 1:
            return Sent(b'{"error": {"message": "failed"}}', status=500, billed=False)
        if trouble == 2:
            self.n_cut += 1
            return replace(reply, body=reply.body[:40])
        return replace(reply, delay=1.0) if trouble == 3 else reply


def write_configs(url: str) -> None:
    """Write the pool, and the same run twice: for the shared store, and for an undisturbed run with another store."""
    rows = [f'{agent},{item},"{respond(agent, item)}"' for agent in AGENTS for item in ITEMS]
    Path("pool.csv").write_text("\n".join(["agent,item,text", *rows]), encoding="utf-8")
    pace = {"concurrency": CONCURRENCY, "start_concurrency": CONCURRENCY, "backoff": 0.05}
    run = {"pool": "pool.csv", "calls": 1000, "max_cost": 2, "judge": wire_judge(url, price=PRICE, **pace)}
    write_config(Path("shared.yaml"), **run)
    write_config(Path("calm.yaml"), **run, store="calm.db")


@pytest.mark.slow
@pytest.mark.posix
async def test_four_processes_lose_no_answer_if_the_server_fails_and_one_is_killed(
    tmp_path: Path, postgres: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = postgres.new()
    monkeypatch.setenv("YOUDEN_STORE", store)
    async with TroubledServer() as server:
        write_configs(server.url)
        bench = Bench(tmp_path, server, Size())
        coordinator = await bench.start("run", "shared.yaml")
        workers = [await bench.start("judge", "shared.yaml", "--worker") for _ in range(3)]
        assert await bench.until(300, workers[0])
        workers[0].send_signal(signal.SIGKILL)
        ended = [await bench.end(process, within=200) for process in (coordinator, *workers)]
        assert [process.code for process in ended] == [0, -signal.SIGKILL, 0, 0], ended

        # Each request is paid once, except truncated replies and those that the killed process had not stored.
        with psycopg.connect(store) as connection:
            stored = connection.execute("SELECT count(*) FROM youden.answers").fetchone()
        n_trials = len(read_run("runs/shared").plan)
        assert stored == (n_trials,)
        assert len(server.bill.paid) == n_trials
        n_lost = server.bill.n_paid_twice - server.n_cut
        assert 0 <= n_lost <= CONCURRENCY + N_PENDING_WRITES
        largest_cost = 2 * server.bill.usd(PRICE) / sum(server.bill.paid.values())
        assert server.bill.usd(PRICE) - n_lost * largest_cost <= read_cost("runs/shared") <= 2

        # an undisturbed run has the same ranking
        server.script = JUDGE
        calm = await bench.end(await bench.start("run", "calm.yaml"), within=200)
        assert calm.code == 0, calm.output
    assert read_abilities("runs/shared") == read_abilities("runs/calm")
