"""Test an unresponsive database: it is reported, waited for within limits, and a second signal ends the process at once."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from postgres import Cluster, Hole, cluster
from stops import AT_RISK, Bench, Size, bench
from unruly_server import UnrulyServer
from youden.errors import JudgeError
from youden.judging.store import watchdog
from youden.judging.store.answers import open_store
from youden.judging.store.contract import Payment
from youden.judging.store.postgres import PostgresBackend
from youden.judging.store.watchdog import DEADLINE_SECONDS, MAX_OUTAGE_SECONDS, WARN_AFTER_SECONDS, shutdown_started
from youden.types import Completion

SMALL = Size(calls=300, slowest=0.2)
GRACE = 8.0
STOPS = (signal.SIGINT, signal.SIGTERM)

pytestmark = pytest.mark.slow


@asynccontextmanager
async def running(folder: Path, url: str, *, at: int) -> AsyncIterator[tuple[Bench, asyncio.subprocess.Process]]:
    """Start a run with the store at `url`, and return once it has sent `at` requests."""
    async with UnrulyServer() as server:
        run = await bench(folder, server, size=SMALL)
        process = await run.start("run", "r.yaml", "--store", url)
        assert await run.until(at, process)
        yield run, process


async def signal_twice(process: asyncio.subprocess.Process, how: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(how)
        await asyncio.sleep(0.5)
        process.send_signal(how)


async def goes_on(run: Bench, url: str) -> None:
    """Repeat the command, and check that at most the requests in flight are paid for again."""
    again = await run.end(await run.start("run", "r.yaml", "--store", url), within=120)
    assert (again.code, run.server.n_requests - SMALL.calls <= AT_RISK) == (0, True), again.output


def kept_in(url: str) -> int:
    with psycopg.connect(url) as connection:
        table_name = connection.execute("SELECT to_regclass('youden.answers')").fetchall()[0][0]
        return int(connection.execute("SELECT count(*) FROM youden.answers").fetchall()[0][0]) if table_name else 0


@pytest.mark.parametrize(
    ("at", "how"),
    [
        pytest.param(
            at, how, marks=[] if (at, how) in ((0, signal.SIGINT), (100, signal.SIGTERM)) else pytest.mark.long
        )
        for at in (0, 100, SMALL.calls - 20)
        for how in STOPS
    ],
)
async def test_a_second_signal_ends_the_run_at_once_and_loses_no_written_answer(
    tmp_path: Path, postgres: Cluster, at: int, how: signal.Signals
) -> None:
    url = postgres.new()
    with Hole(url) as hole:
        if not at:
            hole.shut.set()
        async with running(tmp_path, hole.url, at=at) as (run, process):
            assert await asyncio.to_thread(hole.entered.wait, 60)
            hole.shut.set()
            await asyncio.sleep(WARN_AFTER_SECONDS + 4)
            await signal_twice(process, how)
            began = time.monotonic()
            ended = await run.end(process, within=120)
            assert (
                time.monotonic() - began < DEADLINE_SECONDS / 2
            )  # the minimum time that the run waits for the database
            # a shell reports the same code for both: the second signal may arrive while the first ends the process
            assert ended.code in (128 + how, -how), ended.output
            assert "has not answered for 5 s" in ended.output
            assert Cluster.PASSWORD not in ended.output
            assert run.server.n_requests - kept_in(url) <= AT_RISK
            await goes_on(run, url)


@pytest.mark.long
@pytest.mark.parametrize("at", [100, SMALL.calls - 20, "a signal"])
@pytest.mark.parametrize("fault", ["stopped", "restarted", "killed"])
async def test_a_second_signal_ends_a_run_without_waiting_for_its_store(
    tmp_path: Path, fault: str, at: int | str
) -> None:
    with cluster() as own:
        url = own.new()
        async with running(tmp_path, url, at=100 if isinstance(at, str) else at) as (run, process):
            if at == "a signal":
                process.send_signal(signal.SIGINT)
            before = kept_in(url)
            own.kill() if fault == "killed" else own.stop()
            if fault == "restarted":
                own.start()
            else:
                await asyncio.sleep(WARN_AFTER_SECONDS + 2)
            await signal_twice(process, signal.SIGINT)
            began = time.monotonic()
            ended = await run.end(process, within=10)
            assert time.monotonic() - began < WARN_AFTER_SECONDS  # the first signal waits longer for the store
            assert ended.code in (130, -2, 2, 0 if fault == "restarted" else 2), ended.output
            assert "Traceback" not in ended.output
            if fault != "restarted":
                own.start()
            assert before <= kept_in(url)
            await goes_on(run, url)


@pytest.mark.long
@pytest.mark.parametrize("at", [100, SMALL.calls - 20])
@pytest.mark.parametrize("fault", ["restarted", "killed"])
async def test_a_run_continues_after_its_store_recovers(tmp_path: Path, fault: str, at: int) -> None:
    with cluster() as own:
        url = own.new()
        async with running(tmp_path, url, at=at) as (run, process):
            own.kill() if fault == "killed" else own.stop()
            await asyncio.sleep(WARN_AFTER_SECONDS)
            own.start()
            ended = await run.end(process, within=120)
        assert ended.code == 0, ended.output
        bill = run.server.bill
        assert (kept_in(url), bill.n_paid_twice) == (len(bill.paid), 0), ended.output


@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
async def test_the_first_signal_ends_the_run_within_grace_period_and_one_deadline(
    tmp_path: Path, postgres: Cluster, how: signal.Signals
) -> None:
    with Hole(postgres.new()) as hole:
        async with running(tmp_path, hole.url, at=100) as (run, process):
            hole.shut.set()
            await asyncio.sleep(1)
            process.send_signal(how)
            ended = await run.end(process, within=GRACE + DEADLINE_SECONDS + 20)
    assert ended.code in (1, 2, 128 + how), ended.output
    assert "Traceback" not in ended.output


@pytest.mark.parametrize(
    ("at", "seconds"),
    [(100, DEADLINE_SECONDS + 5), *(pytest.param(n, 60, marks=pytest.mark.long) for n in (100, SMALL.calls - 20))],
)
async def test_an_unresponsive_database_is_waited_for_beyond_a_deadline(
    tmp_path: Path, postgres: Cluster, at: int, seconds: float
) -> None:
    with Hole(postgres.new()) as hole:
        async with running(tmp_path, hole.url, at=at) as (run, process):
            hole.shut.set()
            await asyncio.sleep(seconds)
            hole.shut.clear()
            ended = await run.end(process, within=120)
    assert (ended.code, "answers again" in ended.output) == (0, True), ended.output
    assert run.server.bill.n_paid_twice == 0


def test_a_statement_ends_by_its_deadline_and_after_a_signal_nothing_waits_again(postgres: Cluster) -> None:
    with Hole(postgres.new()) as hole, open_store(hole.url) as store:
        store.add("a", Completion("YES", "stop", "m", 1, 1), may_flush=False)
        hole.shut.set()
        shutdown_started.set()
        try:
            for most in (DEADLINE_SECONDS + 6, 0.1):
                began = time.monotonic()
                with pytest.raises(JudgeError, match="cannot be reached"):
                    store.flush()
                assert time.monotonic() - began < most < MAX_OUTAGE_SECONDS
        finally:
            hole.shut.clear()
            assert isinstance(store.backend, PostgresBackend)
            store.backend._shutdown_error = None
            shutdown_started.clear()


def test_a_payment_counts_once_if_its_confirmation_is_lost_in_a_long_outage(
    postgres: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "DEADLINE_SECONDS", 0.5)
    monkeypatch.setattr(watchdog, "MAX_OUTAGE_SECONDS", 2.0)
    with Hole(postgres.new()) as hole, open_store(hole.url) as store:
        store.pay("p", "a", Payment(1.0))
        store.add("a", Completion("YES", "stop", "m", 1, 1), may_flush=False)
        hole.shuts_at_commit = True
        with pytest.raises(JudgeError, match="cannot be reached"):
            store.flush()
        hole.shuts_at_commit = False
        hole.shut.clear()
        store.pay("p", "a", Payment(0.5))
        store.pay("p", "b", Payment(0.25))
        assert store.read_payments("p") == {"a": Payment(1.5), "b": Payment(0.25)}
