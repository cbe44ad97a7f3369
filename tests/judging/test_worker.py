"""Test that simultaneous processes with one store pay once: requests are leased, and workers join a run."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from commands import Youden, wire_judge, write_config, write_small_run
from judged import NOWHERE, ask, dense_plan, judge_config
from scripted import Clock, Scripted
from small_pools import make_pool
from wire_server import Reply, WireServer, draw, same_item, well_behaved
from youden import judge_async
from youden.data.folder.run_config import load_run_config
from youden.data.pools.pool_reader import write_pool
from youden.engines.ray import RayPlacement
from youden.errors import BudgetError, TooManyMissingError
from youden.judging.scheduler.options import JudgingOptions
from youden.judging.store.answers import Store, open_store
from youden.judging.store.leases import LEASE_SECONDS, Leases
from youden.judging.store.worker_group import coordinate_run
from youden.pipeline import offline
from youden.pipeline.judged_run import get_run_name, plan_run
from youden.pipeline.offline import run_worker
from youden.types import Request
from youden.types.pool import Json

POOL = make_pool(4, 5)
PLAN = dense_plan(POOL)
KEYS = ["a", "b", "c"]


@pytest.fixture
def worker_folder(tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    judge = wire_judge(server.url, price=1, concurrency=4, max_tokens=1)
    write_small_run(tmp_path, max_cost=1, judge=judge)
    return tmp_path


@pytest.mark.posix
def test_leases_of_a_dead_process_are_released_at_once(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from youden.judging.store.answers import open_store\n"
        "open_store(sys.argv[1]).leases().acquire(['a', 'b'])\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "v.db")], check=False)
    with closing(sqlite3.connect(tmp_path / "v.db")) as connection:
        assert connection.execute("SELECT count(*) FROM leases").fetchone() == (2,)
    with open_store(tmp_path / "v.db") as store:
        assert store.leases().acquire(KEYS) == set(KEYS)


@pytest.mark.slow
async def test_equal_simultaneous_calls_pay_once_even_if_retried_on_request(tmp_path: Path) -> None:
    async with WireServer(lambda n, body: Reply("Hm.", delay=0.01)) as server:
        options: dict[str, Any] = {"judge": wire_judge(server.url), "store": tmp_path / "v.db", "max_missing": 1.0}
        tries = await asyncio.gather(*[judge_async(PLAN, **options) for _ in range(3)], return_exceptions=True)
        assert {type(error) for error in tries} == {TooManyMissingError}
        assert server.n_requests == len(PLAN)
        server.behave = lambda n, body: replace(well_behaved(n, body), delay=0.01)
        results = await asyncio.gather(*[judge_async(PLAN, **options, retry_failed=True) for _ in range(3)])
    assert server.n_requests == 2 * len(PLAN)
    assert all(verdicts.answered.all() for verdicts in results)


@pytest.mark.slow
async def test_calls_that_wait_for_the_rate_limit_are_not_sent_after_a_lease_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time passes without a renewal, as if this machine was suspended, and another process takes over the requests."""
    clock = Clock()
    monkeypatch.setattr(Store, "leases", lambda store: Leases(store.backend, now=clock))
    keys = {key for _, key, _ in judge_config(NOWHERE).questions().iter_requests(PLAN)}
    begun = asyncio.Event()

    def say(request: Request) -> str:
        if judge.n_calls == 5:
            begun.set()
        return same_item({"messages": [{"content": request.messages[-1].content}]})

    judge = Scripted(say)
    with open_store(tmp_path / "v.db") as store:
        run = asyncio.create_task(ask(PLAN, POOL, judge, store, requests_per_minute=3000))
        await begun.wait()
        other_process = store.leases()
        for _ in range(9):
            other_process.acquire(["another request"])
            clock.now += LEASE_SECONDS / 4
            other_process.renew()
        assert other_process.acquire(sorted(keys)) >= keys - store.answers(sorted(keys)).keys()
        n_calls = judge.n_calls
        await asyncio.sleep(0.7)
        assert judge.n_calls == n_calls
        other_process.release()
        assert (await run).answered.all()
    assert judge.n_calls == len(PLAN)


async def test_a_waiting_process_sends_the_requests_of_one_that_exhausted_its_budget(tmp_path: Path) -> None:
    begun = asyncio.Event()

    def say(request: Request) -> str:
        begun.set()
        return same_item({"messages": [{"content": request.messages[-1].content}]})

    async def count_calls(cap: float) -> int:
        judge = Scripted(say)
        await ask(PLAN, POOL, judge, tmp_path / "v.db", price=3, options=JudgingOptions(max_cost=cap))
        return judge.n_calls

    async def count_calls_later(cap: float) -> int:
        await begun.wait()
        return await count_calls(cap)

    # a cap below the cost of the first requests leased, so that the other process cannot send the rest first
    poor, rich = await asyncio.gather(count_calls(0.004), count_calls_later(100.0), return_exceptions=True)
    assert isinstance(poor, BudgetError)
    assert isinstance(rich, int)
    with open_store(tmp_path / "v.db") as store:
        assert len(store) == len(PLAN)
        assert store.leases().acquire(KEYS) == set(KEYS)


def test_two_workers_share_a_plan_and_the_run_finds_every_answer(
    youden: Youden, worker_folder: Path, server: WireServer
) -> None:
    server.behave = lambda n, body: replace(well_behaved(n, body), delay=0.01)
    config = load_run_config(worker_folder / "r.yaml")
    with ThreadPoolExecutor(2) as threads:
        result = list(threads.map(run_worker, [config, config]))
    assert [int(verdicts.answered.sum()) for verdicts in result] == [110, 110]
    assert server.n_requests == 110
    assert not (config.folder / "verdicts.parquet").exists()
    assert youden("judge", "r.yaml").code == 0
    assert server.n_requests == 110
    assert (config.folder / "verdicts.parquet").exists()


@pytest.mark.slow
@pytest.mark.parametrize("retry_failed", [True, False])
def test_workers_send_a_request_without_an_answer_once_per_command(
    worker_folder: Path, server: WireServer, retry_failed: bool
) -> None:
    faults = {0: Reply("Hm."), 1: Reply(status=422), 2: Reply(status=500)}
    n_sent: Counter[int] = Counter()

    def behave(n: int, body: Mapping[str, Any]) -> Reply:
        reply = faults.get(draw(body, 11), well_behaved(n, body))
        if reply in faults.values():
            n_sent[draw(body, 2**32)] += 1
        return reply

    server.behave = behave
    changes: dict[str, Json] = {"judge": wire_judge(server.url, max_tries=1), "max_missing": 1.0}
    config = load_run_config(worker_folder / "r.yaml", changes)
    planned = plan_run(config)
    run_worker(config)
    n_unanswered = len(n_sent)
    for _ in range(2):
        n_sent.clear()
        with coordinate_run(config.store_location, run=get_run_name(planned.folder, planned.plan)):
            for _ in range(3):
                run_worker(config, JudgingOptions(retry_failed=retry_failed))
        assert set(n_sent.values()) == {1}
        assert (len(n_sent) == n_unanswered) == retry_failed


def test_two_runs_of_equal_name_share_one_store_simultaneously(
    youden: Youden, worker_folder: Path, server: WireServer
) -> None:
    """The runs have different folders; a second process on the same run is still refused."""
    write_pool(make_pool(5, 9), worker_folder / "other")
    store = str(worker_folder / "both.db")
    verdicts = plan_run(load_run_config(worker_folder / "r.yaml", {"store": store}))
    with coordinate_run(store, run=get_run_name(verdicts.folder, verdicts.plan)):
        ended = youden("judge", "r.yaml", "--store", store)
        assert (ended.code, "[run-busy]" in ended.err) == (2, True), ended.err
        text = (worker_folder / "r.yaml").read_text().replace('pool: "pool"', f"pool: {worker_folder / 'other'}")
        (worker_folder / "theirs").mkdir()
        (worker_folder / "theirs/r.yaml").write_text(text)
        ended = youden("judge", "theirs/r.yaml", "--store", store, "--out", "theirs/runs/r")
        assert ended.code == 0, ended.err


def test_ray_workers_store_answers_in_the_file_of_a_url(
    worker_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_run_config(
        worker_folder / "r.yaml", {"store": f"sqlite:///{quote(str(worker_folder / 'our store.db'))}"}
    )
    planned, places = plan_run(config), list[str]()
    monkeypatch.setattr(offline, "run_on_ray", lambda work, _: places.append(work.args[0].config.store_location))
    with coordinate_run(config.store_location, run=get_run_name(planned.folder, planned.plan)) as team:
        offline.collect_answers_on_ray(planned, None, team=team, placing=RayPlacement())
    assert places == [str(worker_folder / "our store.db")]
    assert (worker_folder / "our store.db").exists()


def test_a_judge_without_calls_has_no_workers(worker_folder: Path) -> None:
    config = load_run_config(worker_folder / "r.yaml", {"judge": "lexical"})
    with pytest.raises(Exception, match="judge-offline"):
        run_worker(config)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words.split(), marks=[] if words.startswith(("generate", "judge")) else pytest.mark.slow)
        for words in (
            "calibrate r.yaml --calls 60",
            "stress pool --judge judge.yaml --attack template",
            "rejudge runs/first --judge judge.yaml --calls 40 --max-missing 1",
            "generate agents.yaml items.jsonl --out made",
            "judge r.yaml",
        )
    ],
    ids=lambda words: words[0],
)
def test_every_command_with_a_store_uses_youden_store_by_default(
    youden: Youden, worker_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    server.behave = lambda _n, _body: Reply("YES")
    write_config(worker_folder / "judge.yaml", **wire_judge(server.url, model="m2", max_tokens=1))
    (worker_folder / "items.jsonl").write_text('{"id": "i1", "prompt": "Why?"}\n{"id": "i2", "prompt": "How?"}\n')
    (worker_folder / "agents.yaml").write_text(
        "agents:\n"
        "  - {id: one, model: judge.yaml, instruction: mine.md}\n"
        "  - {id: two, model: judge.yaml, instruction: mine.md, temperature: 1}\n"
    )
    (worker_folder / "mine.md").write_text("Rewrite {{text}}")
    if words[0] == "rejudge":
        assert youden("run", "r.yaml", "--out", "runs/first").code == 0
    before = {*worker_folder.rglob("*.db")}
    monkeypatch.setenv("YOUDEN_STORE", str(worker_folder / "shared.db"))
    ended = youden(*words)
    assert ended.code in (0, 1), ended.err
    assert {*worker_folder.rglob("*.db")} - before == {worker_folder / "shared.db"}
    with open_store(worker_folder / "shared.db") as store:
        n_kept = len(store)
    assert n_kept > 0
    other_out = ["--out", "runs/other"] if words[0] in ("judge", "rejudge") else []
    named = youden(*(word.replace("made", "made-again") for word in words), *other_out, "--store", "named.db")
    assert named.code in (0, 1), named.err
    with open_store(worker_folder / "shared.db") as store, open_store(worker_folder / "named.db") as named_store:
        assert (len(store), len(named_store) > 0) == (n_kept, True)
