"""Keys are claimed before they are asked, so that whoever asks into one store pays once."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from judged import dense_plan, judge_config
from pools import make_pool
from scripted import Scripted
from wire_server import Reply, WireServer, same_item, well_behaved
from youden.errors import BudgetError
from youden.judging.asking.terms import Asking
from youden.judging.engine import judge_plan
from youden.judging.store.answers import open_store
from youden.nouns import Request
from youden.run.pipeline import judge_async

POOL = make_pool(4, 5)
PLAN = dense_plan(POOL)
KEYS = ["a", "b", "c"]


def test_claims_of_a_process_that_died_are_free_at_once(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from youden.judging.store.answers import open_store\n"
        "open_store(sys.argv[1]).claims().take(['a', 'b'])\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "v.db")], check=False)
    with closing(sqlite3.connect(tmp_path / "v.db")) as connection:
        assert connection.execute("SELECT count(*) FROM claims").fetchone() == (2,)
    with open_store(tmp_path / "v.db") as store:
        assert store.claims().take(KEYS) == set(KEYS)


def judge_at(server: WireServer) -> dict[str, Any]:
    return {"backend": "wire", "model": "m", "base_url": server.url, "api_key_env": None, "price": 0, "backoff": 0.01}


@pytest.mark.parametrize("concurrency", [4, 64])
async def test_equal_calls_at_once_pay_once(tmp_path: Path, concurrency: int) -> None:
    async with WireServer(lambda n, body: replace(well_behaved(n, body), delay=0.01)) as server:
        judge = {**judge_at(server), "concurrency": concurrency}
        asked = [judge_async(PLAN, POOL, judge=judge, store=tmp_path / "v.db") for _ in range(3)]
        found = await asyncio.gather(*asked)
    assert server.n_requests == len(PLAN)
    assert all(one.answered.all() for one in found)


async def test_what_was_asked_again_on_demand_by_two_at_once_is_paid_once(tmp_path: Path) -> None:
    async with WireServer(lambda n, body: Reply("Hm.")) as server:
        judge = judge_at(server)
        await judge_async(PLAN, POOL, judge=judge, store=tmp_path / "v.db", max_missing=1.0)
        server.behave = lambda n, body: replace(well_behaved(n, body), delay=0.01)
        options: dict[str, Any] = {"judge": judge, "store": tmp_path / "v.db", "retry_failed": True, "max_missing": 1.0}
        found = await asyncio.gather(*[judge_async(PLAN, POOL, **options) for _ in range(2)])
    assert server.n_requests == 2 * len(PLAN)
    assert all(one.answered.all() for one in found)


async def test_whoever_waits_asks_itself_where_the_other_ran_out_of_money(tmp_path: Path) -> None:
    begun = asyncio.Event()

    def say(request: Request) -> str:
        begun.set()
        return same_item({"messages": [{"content": request.messages[-1].content}]})

    async def asked(cap: float) -> int:
        judge = Scripted(say)
        config = judge_config("http://127.0.0.1:9/v1", price=3)
        with open_store(tmp_path / "v.db") as store:
            await judge_plan(PLAN, POOL, config=config, store=store, judge=judge, asking=Asking(max_cost=cap))
        return judge.n_calls

    async def asked_second(cap: float) -> int:
        await begun.wait()
        return await asked(cap)

    poor, rich = await asyncio.gather(asked(0.02), asked_second(100.0), return_exceptions=True)
    assert isinstance(poor, BudgetError)
    assert isinstance(rich, int)
    with open_store(tmp_path / "v.db") as store:
        assert len(store) == len(PLAN)
        assert store.claims().take(KEYS) == set(KEYS)
