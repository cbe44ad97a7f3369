"""Test runs by calls next to runs by batches: a request that was sent in a batch is paid for there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from batch_server import BatchServer
from commands import Youden, wire_judge, write_small_run
from judged import ENVIRONMENT, NOWHERE, ask, dense_plan, judge_config
from scripted import Counted, Scripted
from small_pools import make_pool
from stops import until
from wire_server import Reply, WireServer, running, well_behaved
from youden.errors import BudgetError, IncompleteRunError
from youden.judging.backends.wire import WireJudge
from youden.judging.call.connection import Connection
from youden.judging.engine import judge_plan
from youden.judging.offline.batch_leases import BatchLeases
from youden.judging.scheduler.options import Batching, JudgingOptions
from youden.judging.store.accounts import add_pending_batches
from youden.judging.store.answers import open_store
from youden.judging.store.leases import Job, read_pending_jobs
from youden.judging.store.shared_budget import SharedBudget
from youden.judging.store.worker_group import coordinate_run, list_total_payments
from youden.types import Plan, Verdicts
from youden.types.payments import RunPayments

POOL = make_pool(4, 10)
PLAN = dense_plan(POOL)
HALF = replace(PLAN, trials=PLAN.trials.take(slice(120)))
HERE = Path(__file__).parents[1]


async def in_batches(url: str, place: str, plan: Plan = PLAN, *, sleep: Any = None) -> Verdicts:
    batching = Batching(sleep=sleep or (lambda _s: asyncio.sleep(0.05)))
    return await ask(plan, POOL, url, place, options=JudgingOptions(batching=batching))


async def call_by_call(
    url: str, place: str, plan: Plan = PLAN, *, calls: WireServer, told: Counted | None = None
) -> Verdicts:
    """Return the judge at `url` with its calls sent to `calls`."""
    async with contextlib.aclosing(WireJudge(Connection("m", calls.url, 60.0))) as judge:
        return await ask(plan, POOL, judge, place, base_url=url, options=JudgingOptions(progress=told))


def slowly(n: int, body: Any) -> Reply:
    return replace(well_behaved(n, body), delay=0.05)


async def test_a_batch_in_progress_counts_once_towards_the_cap_of_a_run_by_calls(tmp_path: Path) -> None:
    """An earlier command of the run has sent a batch, which will be paid for."""
    config = judge_config(NOWHERE, price=1000)
    keys = tuple(key for _, key, _ in config.questions().iter_requests(HALF))
    judge = Scripted(lambda _: "YES")
    options = JudgingOptions(max_cost=12.0)
    with open_store(tmp_path / "v.db") as store, coordinate_run(tmp_path / "v.db", run="r") as team:
        store.backend.put_rows("batches", [Job(NOWHERE, "m", 9.0, keys, file="file", batch="batch").row])
        budget = SharedBudget(12.0, team)
        for _round in range(2):
            with pytest.raises(BudgetError, match="calls and batches without a reply count at their maximum cost"):
                await judge_plan(PLAN, config=config, store=store, judge=judge, options=options, budget=budget)
    assert 9.0 < budget.spent <= 12.0
    assert 0 < judge.n_calls < len(PLAN) - len(HALF)


async def test_a_batch_of_another_run_does_not_count_towards_the_cap(tmp_path: Path) -> None:
    config = judge_config(NOWHERE, price=1000)
    shared, *_ = (key for _, key, _ in config.questions().iter_requests(HALF))
    judge = Scripted(lambda _: "YES")
    options = JudgingOptions(max_cost=1000.0, account="here")
    with open_store(tmp_path / "v.db") as store, coordinate_run(tmp_path / "v.db", run="r") as team:
        row = Job(NOWHERE, "m", 900.0, (shared, "other"), "there", file="file", batch="batch").row
        store.backend.put_rows("batches", [row])
        budget = SharedBudget(1000.0, team)
        with pytest.raises(IncompleteRunError, match="pending"):
            await judge_plan(PLAN, config=config, store=store, judge=judge, options=options, budget=budget)
    assert judge.n_calls > 0.9 * len(PLAN)
    assert budget.spent < 500


async def as_run(
    name: str, url: str, place: str, plan: Plan, *, cap: float, sleep: Any = None
) -> tuple[Verdicts, float]:
    """Send batches as a run with a cost account; return the verdicts and what counts towards the cap."""
    batching = Batching(sleep=sleep or (lambda _s: asyncio.sleep(0.05)))
    options = JudgingOptions(batching=batching, account=name, max_cost=cap)
    with open_store(place) as store, coordinate_run(place, run=name) as team:
        budget = SharedBudget(cap, team)
        config = judge_config(url, price=1)
        verdicts = await judge_plan(
            plan.with_pool(POOL), config=config, store=store, environment=ENVIRONMENT, options=options, budget=budget
        )
        return verdicts, budget.spent


async def stopped(_: float) -> None:
    raise asyncio.CancelledError


async def test_the_run_that_sent_a_batch_pays_for_it_although_another_run_fetches_it(place: str) -> None:
    async with BatchServer(looks_needed=2) as server:
        with pytest.raises(asyncio.CancelledError):
            await as_run("first", server.url, place, HALF, cap=10.0, sleep=stopped)
        verdicts, usd_under_cap = await as_run("second", server.url, place, HALF, cap=0.001)
        assert verdicts.answered.all()
        assert (len(server.batches), verdicts.total_usd, usd_under_cap) == (1, 0.0, 0.0)
        with open_store(place) as store:
            payments = list_total_payments(store)
        assert payments == {"first": RunPayments(usd=payments["first"].usd)}
        assert payments["first"].usd == pytest.approx(120 * 101 / 1e6)
        verdicts, _ = await as_run("first", server.url, place, HALF, cap=10.0)
        assert verdicts.total_usd == pytest.approx(120 * 101 / 1e6)


async def test_a_batch_without_usage_has_its_maximum_cost_whichever_run_fetches_it(place: str) -> None:
    """The run that fetches the batch needs only a part of its requests."""
    part = replace(PLAN, trials=PLAN.trials.take(slice(20)))
    async with BatchServer(lambda n, body: replace(well_behaved(n, body), usage=None), looks_needed=2) as server:
        with pytest.raises(asyncio.CancelledError):
            await as_run("first", server.url, place, HALF, cap=10.0, sleep=stopped)
        with open_store(place) as store:
            (job,) = read_pending_jobs(store.backend)
        await as_run("second", server.url, place, part, cap=10.0)
        with open_store(place) as store:
            assert list_total_payments(store)["first"].usd == pytest.approx(job.usd, rel=0.01)


@pytest.mark.slow
def test_a_run_whose_folder_is_renamed_pays_for_its_batches_in_progress(youden: Youden, tmp_path: Path) -> None:
    with running(BatchServer(faults={"look": ["401"]})) as server:
        judge = wire_judge(server.url, price=1000)
        write_small_run(tmp_path, "c", judge=judge, store="v.db", max_cost=200)
        command = ("judge", "c.yaml", "--mode", "batch", "--poll", "0.01")
        assert "[judge-key]" in youden(*command).err
        (tmp_path / "runs/c").rename(tmp_path / "runs/final")
        youden(*command, "--out", "runs/final").well()
        cost = len(server.bodies) * 101 / 1000
        assert youden("plan", "runs/final/config.yaml", "--json").said["paid"]["usd"] == pytest.approx(cost)
        with open_store(tmp_path / "v.db") as store:
            (payments,) = list_total_payments(store).values()
    assert payments.usd == pytest.approx(cost)
    assert payments.usd_unconfirmed == 0


async def test_a_run_does_not_wait_for_batches_without_its_requests(place: str) -> None:
    async with BatchServer(looks_needed=2) as server:
        with pytest.raises(asyncio.CancelledError):
            await as_run("first", server.url, place, HALF, cap=10.0, sleep=stopped)
        rest = replace(PLAN, trials=PLAN.trials.take(slice(120, None)))
        verdicts, _ = await as_run("second", server.url, place, rest, cap=10.0)
        assert verdicts.answered.all()
        with open_store(place) as store:
            assert [job.account for job in read_pending_jobs(store.backend)] == ["first"]


def test_a_renamed_run_counts_the_batches_of_its_old_account(tmp_path: Path) -> None:
    with open_store(tmp_path / "v.db") as store:
        store.backend.put_rows("batches", [Job(NOWHERE, "m", 0.5, ("key",), "old", file="file").row])
        paid = add_pending_batches(store, "old", RunPayments(usd=1.0))
        assert paid == RunPayments(usd=1.0, usd_unconfirmed=0.5)
        assert add_pending_batches(store, "new", RunPayments()) == RunPayments()


async def test_simultaneous_runs_by_calls_and_batches_pay_for_no_answer_twice(place: str) -> None:
    """Each starts while the other is in progress: batches wait for calls, and calls leave requests in batches to them."""
    async with BatchServer(looks_needed=10**9) as server, WireServer(slowly) as calls:
        batch = asyncio.create_task(in_batches(server.url, place, HALF))
        await until(lambda: bool(server.batches))
        with pytest.raises(IncompleteRunError, match="120 answers are pending"):
            await call_by_call(server.url, place, HALF, calls=calls)
        server.looks_needed = 1
        assert (await batch).answered.all()
        assert (await call_by_call(server.url, place, HALF, calls=calls)).answered.all()
        assert (len(server.bodies), calls.n_requests) == (120, 0)
        by_calls = asyncio.create_task(call_by_call(server.url, place, calls=calls))
        await until(lambda: calls.n_requests > 0)
        assert (await in_batches(server.url, place)).answered.all()
        with contextlib.suppress(IncompleteRunError):
            await by_calls
        assert (await call_by_call(server.url, place, calls=calls)).answered.all()
        assert len(server.bodies) + calls.n_requests == len(PLAN)


@pytest.mark.slow
async def test_requests_in_the_batch_of_a_killed_run_are_not_sent_as_calls(place: str) -> None:
    """Other requests are sent as calls; the number of pending ones and the next command are printed at once."""
    async with BatchServer(looks_needed=10**9) as server, WireServer() as calls:
        path = os.pathsep.join([str(HERE.parent / "src"), str(HERE)])
        sending = await asyncio.create_subprocess_exec(
            sys.executable, __file__, server.url, place, env={**os.environ, "PYTHONPATH": path}
        )
        with open_store(place) as store:
            await until(lambda: any(entry.batch for entry in read_pending_jobs(store.backend)))
            sending.kill()
            assert await sending.wait() == -9
            progress = Counted(calls=lambda: calls.n_requests)
            with pytest.raises(IncompleteRunError, match=r"120 answers are pending.*\[batch-awaited\]") as caught:
                await call_by_call(server.url, place, calls=calls, told=progress)
            assert progress.said == [(0, str(caught.value))]
            assert f"`youden store batches {store.name}`" in str(caught.value)
            assert (calls.n_requests, len(store)) == (120, 120)
        server.looks_needed = 1
        assert (await in_batches(server.url, place)).answered.all()
        progress = Counted(calls=lambda: calls.n_requests)
        assert (await call_by_call(server.url, place, calls=calls, told=progress)).answered.all()
        assert progress.said == []
        assert (len(server.batches), len(server.bodies), calls.n_requests) == (1, 120, 120)


async def test_requests_of_an_abandoned_batch_are_sent_as_calls_once_it_is_forgotten(
    place: str, youden: Youden
) -> None:
    async def stop_while_waiting(_: float) -> None:
        raise asyncio.CancelledError

    async with BatchServer(looks_needed=2) as server, WireServer() as calls:
        with pytest.raises(asyncio.CancelledError):
            await in_batches(server.url, place, HALF, sleep=stop_while_waiting)
        for _ in range(2):
            with pytest.raises(IncompleteRunError, match="120 answers are pending"):
                await call_by_call(server.url, place, HALF, calls=calls)
        assert calls.n_requests == 0
        assert youden("store", "batches", place, "--forget", "batch_0").code == 0
        assert (await call_by_call(server.url, place, HALF, calls=calls)).answered.all()
        assert calls.n_requests == 120


async def test_a_process_waiting_for_leased_answers_stops_if_they_are_in_a_batch(place: str) -> None:
    questions = judge_config(NOWHERE).questions()
    keys = [key for _, key, _ in questions.iter_requests(HALF)]
    async with WireServer() as calls:
        with open_store(place) as store:
            store.leases().acquire(keys)
            waits = asyncio.create_task(call_by_call(NOWHERE, place, HALF, calls=calls))
            await asyncio.sleep(0.3)
            assert not waits.done()
            BatchLeases(store, address=questions.address, model=questions.model).record_batch(0.0, keys)
            with pytest.raises(IncompleteRunError, match="120 answers are pending"):
                await waits
        assert calls.n_requests == 0


if __name__ == "__main__":  # the process that sends batches and is stopped
    asyncio.run(in_batches(sys.argv[1], sys.argv[2], HALF))
