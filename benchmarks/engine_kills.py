"""Measure kills of a judging process at random times for `engine.py`: `python engine_kills.py JSON` prints JSON.

The interrupted run must give the same answers, rates, scores and ranking as an uninterrupted one.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from youden import rank
from youden.judging.engine import judge_plan
from youden.judging.scheduler.loop import max_unsaved_calls
from youden.judging.store.answers import open_store
from youden.types import Verdicts

CONCURRENCY = 64
TESTS = Path(__file__).parents[1] / "tests"


def answer_request(_n: int, body: Mapping[str, Any]) -> Any:
    """Answer correctly for six of seven prompts and wrongly for the others, after 2 ms."""
    wire = import_module("wire_server")
    answer = wire.same_item(body)
    is_wrong = sum(body["messages"][-1]["content"].encode()) % 7 == 0
    return wire.Reply({"YES": "NO", "NO": "YES"}[answer] if is_wrong else answer, delay=0.002)


async def measure_kills(n_kills: int, n_agents: int, n_items: int) -> dict[str, Any]:
    """Kill `n_kills` processes, let the last one finish, and judge the same plan without interruption."""
    dice = random.Random(0)
    judged, wire = import_module("judged"), import_module("wire_server")
    pool = import_module("small_pools").make_pool(n_agents, n_items)
    plan = judged.dense_plan(pool)
    reached = asyncio.Event()
    n_requests = kill_at = 0

    def count_request(n: int, body: Mapping[str, Any]) -> Any:
        nonlocal n_requests
        n_requests += 1
        if n_requests >= kill_at:
            reached.set()
        return answer_request(n, body)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "v.db")
        async with wire.WireServer(count_request, keep=False) as server:
            config = judged.judge_config(server.url, backend="wire", concurrency=CONCURRENCY)
            arguments = [str(TESTS / "judging_script.py"), server.url, str(path)]
            arguments += [str(n) for n in (n_agents, n_items, CONCURRENCY)]
            n_killed = 0
            for _ in range(n_kills):
                process = await asyncio.create_subprocess_exec(
                    sys.executable, *arguments, stdout=asyncio.subprocess.DEVNULL
                )
                kill_at = n_requests + dice.randint(1, max(1, len(plan) // n_kills))
                reached.clear()
                end = asyncio.create_task(process.wait())
                await asyncio.wait([end, asyncio.create_task(reached.wait())], return_when="FIRST_COMPLETED")
                if process.returncode is None:
                    process.kill()
                    n_killed += 1
                await end

            async def finish(store_path: Path) -> Verdicts:
                with open_store(store_path) as store:
                    return await judge_plan(plan, config=config, store=store, environment=judged.ENVIRONMENT)

            resumed = await finish(path)
            n_requests_with_kills = server.n_requests
            uninterrupted = await finish(Path(folder, "other.db"))
    return {
        "trials": len(plan),
        "kills": n_killed,
        "requests": n_requests_with_kills,
        "bound": max_unsaved_calls(config),
        "equal": is_equal(resumed, uninterrupted),
    }


def is_equal(a: Verdicts, b: Verdicts) -> bool:
    """Compare answer columns, rates, scores and ranking."""
    columns = all(
        np.array_equal(getattr(a, name), getattr(b, name), equal_nan=name in ("answer", "hard_answer"))
        for name in ("answer", "hard_answer", "missing_reason", "request_hash", "response_model")
    )
    rates = [verdicts.rates() for verdicts in (a, b)]
    scores = [verdicts.training_scores().value for verdicts in rates]
    rankings = [rank(verdicts) for verdicts in (a, b)]
    same_rates = all(np.array_equal(getattr(rates[0], name), getattr(rates[1], name)) for name in ("tpr", "fpr"))
    same_scores = np.array_equal(scores[0], scores[1], equal_nan=True)
    return columns and same_rates and same_scores and rankings[0].equals(rankings[1])


def main() -> None:
    with tempfile.TemporaryDirectory() as config_folder:
        import_module("allowed_servers").allow_test_servers(Path(config_folder))
        os.environ["XDG_CONFIG_HOME"] = config_folder
        print(json.dumps(asyncio.run(measure_kills(**json.loads(sys.argv[1])))))


if __name__ == "__main__":
    main()
