"""Test providers of batches with faulty replies: nothing is sent twice, no cap is exceeded, and answers are stored."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

import judged
from batch_server import HICCUPS, QUIRKS, BatchServer
from judged import dense_plan
from small_pools import make_pool
from youden.errors import IncompleteRunError, JudgeError
from youden.judging.offline import http_batches
from youden.judging.scheduler.options import Batching, JudgingOptions
from youden.judging.store.answers import Store
from youden.judging.store.leases import read_pending_jobs
from youden.types import Verdicts

POOL = make_pool(3, 3)
PLAN = dense_plan(POOL)
CAP = 0.0075
"""USD; about half of the maximum cost of the plan can be reserved at once."""


@pytest.fixture(autouse=True)
def list_lag_below_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_batches, "MAX_LIST_LAG_SECONDS", 0.6)


def usd(n: int) -> float:
    """Return the server's bill for `n` lines in USD."""
    return n * (100 + 1) / 1e6


async def ask(server: BatchServer, store: Store, *, max_outage: float = 60.0) -> Verdicts:
    return await judge_in_batches(server.url, store, limit=18, max_outage=max_outage, max_tries=3)


async def judge_in_batches(url: str, store: Store | str, *, limit: int = 5, **changes: Any) -> Verdicts:
    """Judge the plan; `limit` is the maximum number of requests per batch."""
    batching = Batching(poll=0.0, max_requests=limit)
    options = JudgingOptions(max_cost=CAP, batching=batching, account="run")
    return await judged.ask(PLAN, POOL, url, store, options=options, price=1, **changes)


async def ask_until_complete(server: BatchServer, store: Store) -> Verdicts:
    """Repeat the command until it is complete; each invocation respects the cap."""
    for _ in range(9):
        before = len(server.bodies)
        try:
            return await ask(server, store)
        except IncompleteRunError:
            assert usd(len(server.bodies) - before) <= CAP
    raise AssertionError("it comes to no end")


def sent(server: BatchServer) -> set[int]:
    """Return how often each request was processed and billed."""
    return set(Counter(orjson.dumps(body) for body in server.bodies).values())


STEPS = ("an error with status 200", "half a file", "a list of nothing")
"""One temporary fault of each step; the permanent ones are tested separately."""


@pytest.mark.parametrize(
    ("name", "fate"),
    [
        pytest.param(name, fate, marks=[] if fate == "expired" and name in (*QUIRKS, *STEPS) else pytest.mark.slow)
        for name in (*QUIRKS, *HICCUPS)
        for fate in ("expired", "completed")
    ],
)
async def test_an_unreliable_provider_is_polled_again_and_nothing_sent_twice(
    store: Store, name: str, fate: Any
) -> None:
    """An expired batch processes half of its requests; the rest is sent again, and paid for once."""
    is_quirk = name in QUIRKS
    async with BatchServer(
        odd=QUIRKS[name] if is_quirk else HICCUPS[name],
        odd_times=math.inf if is_quirk else 3,
        fates=[fate],
        looks_needed=2,
    ) as server:
        verdicts = await ask_until_complete(server, store)
        assert verdicts.answered.all()
        assert sent(server) == {1}
        assert len(server.bodies) == len(PLAN)
        assert verdicts.total_usd == pytest.approx(usd(len(PLAN)))
        assert read_pending_jobs(store.backend) == []


async def test_a_batch_that_ran_in_part_ends_although_its_results_arrived_in_two_polls(store: Store) -> None:
    """The requests that never ran are sent again, and those with a result are not."""
    fetched: list[bytes] = []

    def return_half_at_first(text: bytes) -> bytes:
        fetched.append(text)
        return text if len(fetched) > 1 else text[: text.index(b"\n", len(text) // 2) + 1]

    def count_only_answers(said: Any) -> Any:
        n = said["request_counts"]["total"]
        return said | {"error_file_id": None, "request_counts": {"total": n, "completed": (n + 1) // 2, "failed": 0}}

    async with BatchServer(
        odd={"look": count_only_answers, "fetch": return_half_at_first}, fates=["expired"]
    ) as server:
        verdicts = await ask(server, store, max_outage=0.2)
        assert verdicts.answered.all()
        assert sent(server) == {1}
    assert verdicts.total_usd == pytest.approx(usd(len(PLAN)))
    assert read_pending_jobs(store.backend) == []


LOOKS = ("an error with status 200", "its files come later", "a list")
"""Permanent faults of a poll: no final state, no files, or no object."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if "look" in HICCUPS[name] and name not in LOOKS else [])
        for name in sorted(set(HICCUPS) - {"IN_PROGRESS"})
    ],
)
async def test_a_provider_that_never_recovers_is_abandoned_with_all_batches_recorded(store: Store, name: str) -> None:
    """The run ends with 1 after its time limit; repeated on a faulty and on a repaired provider, it sends nothing again."""
    async with BatchServer(odd=HICCUPS[name]) as server:
        for _ in range(2):
            with pytest.raises(IncompleteRunError, match=r"which can cost up to 0\.0.*\[batch-unreachable\]") as caught:
                await ask(server, store, max_outage=0.05)
            assert caught.value.exit_code == 1
        n_noted, n_kept = sum(len(record.keys) for record in read_pending_jobs(store.backend)), len(store)
        assert n_noted + n_kept == sum(len(lines) for lines in server.inputs)
        assert n_kept > 0 or name != "half a file"
        assert usd(sum(len(lines) for lines in server.inputs)) <= CAP
        assert sum(record.usd for record in store.read_payments("run").values()) == pytest.approx(usd(n_kept))
        server.odd = {}
        verdicts = await ask_until_complete(server, store)
        assert verdicts.answered.all()
        assert sent(server) == {1}
        assert verdicts.total_usd == pytest.approx(usd(len(PLAN)))


@pytest.mark.parametrize(
    "lost", ["lost", *(pytest.param(fault, marks=pytest.mark.slow) for fault in ("409 lost", "504 lost", "500 lost"))]
)
async def test_a_batch_with_a_lost_start_reply_is_found_in_a_delayed_list(store: Store, lost: Any) -> None:
    async with BatchServer(faults={"create": [lost]}, lag=0.2) as server:
        assert (await ask_until_complete(server, store)).answered.all()
        assert len(server.batches) == len(server.inputs)
        assert sent(server) == {1}


async def test_a_refused_list_after_a_lost_start_keeps_the_record(store: Store) -> None:
    async with BatchServer(faults={"create": ["lost"], "list": ["401"]}) as server:
        with contextlib.suppress(Exception):
            await ask(server, store)
        assert len(read_pending_jobs(store.backend)) == 1
        assert (await ask_until_complete(server, store)).answered.all()
        assert sent(server) == {1}


@pytest.mark.slow
async def test_a_possibly_started_batch_that_is_rejected_names_the_command_to_forget_it(store: Store) -> None:
    async with BatchServer(faults={"create": ["reset", "400", "400"]}) as server:
        for _ in range(2):
            with pytest.raises(JudgeError, match=r"its record is kept.*--forget ") as caught:
                await ask(server, store)
            (noted,) = read_pending_jobs(store.backend)
            assert noted.id in str(caught.value)
        assert (await ask_until_complete(server, store)).answered.all()
        assert sent(server) == {1}


async def test_an_upload_reply_that_is_no_json_is_reported_and_retried(store: Store) -> None:
    async with BatchServer(odd={"upload": lambda output: b"<html>hello"}) as server:
        with pytest.raises(IncompleteRunError, match=r"answered with no JSON.*It was not started"):
            await ask(server, store, max_outage=0.05)
        assert read_pending_jobs(store.backend) == []
        server.odd = {}
        assert (await ask_until_complete(server, store)).answered.all()


@pytest.mark.parametrize(
    "faults",
    [pytest.param([*HICCUPS][::2], marks=pytest.mark.slow), pytest.param([*HICCUPS] * 2, marks=pytest.mark.long)],
)
async def test_kills_during_faults_lose_no_answer_and_pay_for_none_twice(tmp_path: Path, faults: list[str]) -> None:
    """Each process is killed after a number of requests, and the next one resumes. The ledger equals the bill."""
    dice, place = random.Random(0), str(tmp_path / "v.db")
    path = os.pathsep.join(sys.path)
    async with BatchServer(looks_needed=2, lag=0.2) as server:
        n_killed = 0
        for name in faults:
            server.odd, server.odd_times = HICCUPS[name], math.inf
            before, last = len(server.headers), dice.randint(1, 12)
            process = await asyncio.create_subprocess_exec(
                sys.executable, __file__, server.url, place, env={**os.environ, "PYTHONPATH": path}
            )
            for _ in range(60_000):
                if process.returncode is not None or len(server.headers) - before >= last:
                    break
                await asyncio.sleep(0.001)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            n_killed += await process.wait() == -9
        server.odd = {}
        for _ in range(9):
            with contextlib.suppress(IncompleteRunError):
                verdicts = await judge_in_batches(server.url, place, max_tries=9)
                break
        assert n_killed >= 2 / 3 * len(faults)
        assert verdicts.answered.all()
        assert (sent(server), len(server.bodies)) == ({1}, len(PLAN))
        assert verdicts.total_usd == pytest.approx(usd(len(PLAN)))


if __name__ == "__main__":  # the processes that the last test kills
    http_batches.MAX_LIST_LAG_SECONDS = 0.5
    asyncio.run(judge_in_batches(sys.argv[1], sys.argv[2], max_tries=9))
