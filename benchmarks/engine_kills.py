"""Kills of a judging process at random moments, for `benchmarks/engine.py`: `python engine_kills.py JSON` prints JSON.

It knows processes and what must come out equal; it refuses to know how answers are kept.
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


def behave(_n: int, body: Mapping[str, Any]) -> Any:
    """Mostly the truth, a wrong answer now and then that depends on the texts alone, after a few ms."""
    wire = import_module("wire_server")
    said = wire.same_item(body)
    wrong = sum(body["messages"][-1]["content"].encode()) % 7 == 0
    return wire.Reply({"YES": "NO", "NO": "YES"}[said] if wrong else said, delay=0.002)


async def kills(n_kills: int, n_agents: int, n_items: int) -> dict[str, Any]:
    """n_kills processes that are killed, a last one that is not; then a run that never was interrupted."""
    dice = random.Random(0)
    judging, wire = import_module("judged"), import_module("wire_server")
    pool = import_module("pools").make_pool(n_agents, n_items)
    plan = judging.dense_plan(pool)
    done = asyncio.Event()
    n_asked = until = 0

    def counted(n: int, body: Mapping[str, Any]) -> Any:
        nonlocal n_asked
        n_asked += 1
        if n_asked >= until:
            done.set()
        return behave(n, body)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "v.db")
        async with wire.WireServer(counted, keep=False) as server:
            config = judging.judge_config(server.url, backend="wire", concurrency=CONCURRENCY)
            words = [str(TESTS / "judging_script.py"), server.url, str(path)]
            words += [str(n) for n in (n_agents, n_items, CONCURRENCY)]
            n_killed = 0
            for _ in range(n_kills):
                process = await asyncio.create_subprocess_exec(
                    sys.executable, *words, stdout=asyncio.subprocess.DEVNULL
                )
                until = n_asked + dice.randint(1, max(1, len(plan) // n_kills))
                done.clear()
                ended = asyncio.create_task(process.wait())
                await asyncio.wait([ended, asyncio.create_task(done.wait())], return_when="FIRST_COMPLETED")
                if process.returncode is None:
                    process.kill()
                    n_killed += 1
                await ended

            async def finish(place: Path) -> Verdicts:
                with open_store(place) as store:
                    return await judge_plan(plan, config=config, store=store, environment=judging.ENVIRONMENT)

            last = await finish(path)
            requests = server.n_requests
            straight = await finish(Path(folder, "other.db"))
    return {
        "trials": len(plan),
        "kills": n_killed,
        "requests": requests,
        "bound": max_unsaved_calls(config),
        "equal": equal(last, straight),
    }


def equal(one: Verdicts, other: Verdicts) -> bool:
    """Answer columns, rates, scores and ranking."""
    columns = all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=name in ("answer", "hard"))
        for name in ("answer", "hard", "missing", "key", "served")
    )
    rates = [each.rates() for each in (one, other)]
    scores = [each.training_scores().value for each in rates]
    rankings = [rank(each) for each in (one, other)]
    same_rates = all(np.array_equal(getattr(rates[0], name), getattr(rates[1], name)) for name in ("tpr", "fpr"))
    same_scores = np.array_equal(scores[0], scores[1], equal_nan=True)
    return columns and same_rates and same_scores and rankings[0].equals(rankings[1])


def main() -> None:
    with tempfile.TemporaryDirectory() as configuration:
        import_module("allowed_servers").allow_test_servers(Path(configuration))
        os.environ["XDG_CONFIG_HOME"] = configuration
        print(json.dumps(asyncio.run(kills(**json.loads(sys.argv[1])))))


if __name__ == "__main__":
    main()
