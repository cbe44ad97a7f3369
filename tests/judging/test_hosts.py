"""Test several hosts with one PostgreSQL store: joining workers, hidden passwords and early errors."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
import yaml

from batch_server import BatchServer
from commands import Youden, everything_in, wire_judge, write_small_run
from postgres import Cluster, cluster
from small_pools import make_pool
from store_connections import connection_of
from toy_engine import run_batch
from wire_server import WireServer, well_behaved
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.engines.block_sums import count_calls
from youden.errors import YoudenError
from youden.judging.call.budget import OutOfMoneyError
from youden.judging.call.pace import RateLimiter
from youden.judging.store.answers import open_store
from youden.judging.store.contract import Member
from youden.judging.store.leases import LEASE_SECONDS
from youden.judging.store.shared_budget import SharedBudget
from youden.judging.store.worker_group import coordinate_run, join_as_worker
from youden.text.printable import mask_passwords, redact_location
from youden.types import Completion
from youden.types.payments import RunPayments

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def shared_run_folder(tmp_path: Path, server: WireServer) -> Path:
    judge = wire_judge(server.url, price=100, max_tokens=1, concurrency=4)
    write_small_run(tmp_path, max_cost=50, judge=judge)
    return tmp_path


def rewrite_judge(path: Path, **keys: str) -> None:
    config = yaml.safe_load(path.read_text())
    path.write_text(json.dumps({**config, "judge": {**config["judge"], **keys}}))


def slug_of(place: str, *, read_only: bool = False) -> str:
    with pytest.raises(YoudenError) as caught:
        open_store(place, read_only=read_only).close()
    assert Cluster.PASSWORD not in str(caught.value)
    return caught.value.slug


@pytest.mark.slow
def test_workers_share_a_plan_over_postgresql_and_no_file_contains_the_password(
    youden: Youden, shared_run_folder: Path, server: WireServer, postgres: Cluster
) -> None:
    server.behave = lambda n, body: replace(well_behaved(n, body), delay=0.02)
    url = postgres.new()
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "YOUDEN_STORE": url}
    words = [sys.executable, "-m", "youden", "judge", "r.yaml", "--worker", "--json"]
    workers = [
        subprocess.Popen(
            words, cwd=shared_run_folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    output = [worker.communicate(timeout=300) for worker in workers]
    assert [json.loads(out) for out, _ in output] == [{"worker": True, "calls": 110, "answered": 110}] * 2
    ended = youden("run", "r.yaml", "--store", url)
    assert (ended.code, server.n_requests) == (0, 110), ended.err
    folder = RunFolder(shared_run_folder / "runs/r")
    assert count_calls(folder.read_verdicts(folder.read_plan())).usd == pytest.approx(110 * 101e-4)
    assert Cluster.PASSWORD.encode() not in everything_in(shared_run_folder)
    assert Cluster.PASSWORD not in ended.out + ended.err + "".join(text for pair in output for text in pair)
    assert f"store: {redact_location(url)}" in (shared_run_folder / "runs/r/config.yaml").read_text()


@pytest.mark.slow
def test_a_run_folder_without_the_password_finds_its_store_by_youden_store(
    youden: Youden, shared_run_folder: Path, server: WireServer, postgres: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.new()
    monkeypatch.setenv("YOUDEN_STORE", url)
    assert youden("judge", "r.yaml").code == 0
    assert youden("judge", "runs/r/config.yaml").code == 0
    assert server.n_requests == 110
    monkeypatch.delenv("YOUDEN_STORE")
    assert "store-unreachable" in youden("judge", "runs/r/config.yaml").err


@pytest.mark.slow
def test_runs_of_the_same_folder_name_on_one_server_have_separate_accounts(
    youden: Youden, shared_run_folder: Path, server: WireServer, postgres: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.new()
    youden("judge", "r.yaml", "--store", url).well()
    other = shared_run_folder / "other"
    other.mkdir()
    write_small_run(other, pool="six", max_cost=50, judge=wire_judge(server.url, price=100, max_tokens=1))
    write_pool(make_pool(6, 8), other / "six")
    monkeypatch.chdir(other)
    assert youden("plan", "r.yaml", "--store", url, "--json").said["paid"]["usd"] == 0
    youden("judge", "r.yaml", "--store", url).well()
    paid = youden("plan", "r.yaml", "--store", url, "--json").said["paid"]["usd"]
    assert paid == pytest.approx((server.n_requests - 110) * 101e-4)


@pytest.mark.slow
def test_an_impossible_setup_is_an_error_before_any_call(
    youden: Youden, shared_run_folder: Path, server: WireServer, postgres: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.new()
    assert slug_of(url.replace(str(postgres.port), "9")) == "store-unreachable"
    assert slug_of(url.replace(Cluster.PASSWORD, "wrong")) == "store-unreachable"
    assert slug_of(url + "?nonsense=1") == "store-url"
    assert slug_of(postgres.url("nowhere")) == "store-unreachable"
    with postgres.admin() as admin:
        admin.execute(f"CREATE ROLE reader LOGIN PASSWORD '{Cluster.PASSWORD}'".encode())
    reader = url.replace("youden:", "reader:")
    assert slug_of(reader) == "store-read-only"
    open_store(url).close()
    with psycopg.connect(url) as owner:
        owner.execute("GRANT USAGE ON SCHEMA youden TO reader")
        owner.execute("GRANT SELECT ON ALL TABLES IN SCHEMA youden TO reader")
    assert slug_of(reader) == "store-read-only"
    open_store(reader, read_only=True).close()
    for version in (0, 99):
        with psycopg.connect(url) as owner:
            owner.execute(f"UPDATE youden.version SET version = {version}".encode())
        assert slug_of(url) == "store-version"
    ended = youden("judge", "r.yaml", "--store", url)
    assert ("[store-version]" in ended.err, server.n_requests) == (True, 0)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for name in [name for name in sys.modules if name.startswith("youden.judging.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    assert slug_of(url) == "store-package"


@pytest.mark.slow
def test_a_server_restart_loses_no_written_answer() -> None:
    answer = Completion("YES", "stop", "m", 1, 1)
    with cluster() as own, open_store(own.new()) as store:
        store.add("a", answer)
        store.flush()
        own.kill()
        store.add("b", answer, may_flush=False)
        own.start()
        store.flush()
        assert set(store.answers(["a", "b"])) == {"a", "b"}


@pytest.mark.slow
def test_the_cap_holds_over_all_workers_and_releases_the_unspent_part_of_dead_ones(tmp_path: Path) -> None:
    place = tmp_path / "v.db"

    async def spend(budget: SharedBudget, *, usd: float) -> int:
        n = 0
        while True:
            try:
                await budget.reserve(1.0)
            except OutOfMoneyError:
                return n
            await asyncio.sleep(0)
            budget.settle(1.0, usd)
            n += 1

    with coordinate_run(place, run="r") as a, join_as_worker(place, run="r") as b:
        first, second = SharedBudget(100.0, a), SharedBudget(100.0, b)

        async def spend_both() -> tuple[int, int]:
            return await asyncio.gather(spend(first, usd=0.5), spend(second, usd=0.25))

        counts = asyncio.run(spend_both())
        assert 95 <= counts[0] * 0.5 + counts[1] * 0.25 <= 100
        assert first.spent_by_all == pytest.approx(first.spent + second.spent)
    with coordinate_run(place, run="later") as a:
        dead = join_as_worker(place, run="later")
        gone = SharedBudget(100.0, dead.__enter__())
        asyncio.run(gone.reserve(10.0))
        mine = SharedBudget(100.0, a)
        assert not mine.can_reserve(90.0)
        with open_store(place) as store:
            connection_of(store).execute(f"UPDATE workers SET expires = expires - {LEASE_SECONDS + 1} WHERE NOT leads")
        assert mine.can_reserve(60.0)
        assert not mine.can_reserve(95.0)
        dead.__exit__(None, None, None)


@pytest.mark.parametrize("expires", [0.0, 1e12])
def test_a_forged_amount_in_a_store_does_not_raise_the_cap(tmp_path: Path, expires: float) -> None:
    place = tmp_path / "v.db"
    with open_store(place) as store:
        member = Member("elsewhere 1 0", False, -(10**18), 0, 0, expires)
        store.backend.replace_members("r", lambda _now, _rows: [member])
    for joined in (coordinate_run, join_as_worker):
        with joined(place, run="r") as team:
            budget = SharedBudget(10.0, team)
            assert not budget.can_reserve(11.0)
            assert budget.can_reserve(9.0)


def test_an_amount_for_a_batch_is_not_granted_to_another_worker_meanwhile(tmp_path: Path) -> None:
    with coordinate_run(tmp_path / "v.db", run="r") as a, join_as_worker(tmp_path / "v.db", run="r") as b:
        for_batch, for_calls = SharedBudget(10.0, a), SharedBudget(10.0, b)
        assert for_batch.can_reserve(9.0)
        assert not for_batch.can_reserve(11.0)
        a.sync()  # the next heartbeat
        assert not for_calls.can_reserve(2.0)
        for_batch.reserve_unconditionally(9.0)
        for_batch.settle(9.0, 4.0)
        a.sync()
        assert for_calls.can_reserve(6.0)


def test_the_cap_of_the_coordinator_also_limits_workers_with_a_higher_one(tmp_path: Path) -> None:
    place = tmp_path / "v.db"
    with join_as_worker(place, run="r") as team:
        early_worker = SharedBudget(100.0, team)
        assert early_worker.can_reserve(50.0)
        with coordinate_run(place, run="r") as coordinator:
            SharedBudget(10.0, coordinator)
            team.sync()  # the next heartbeat
            assert not early_worker.can_reserve(11.0)
            assert early_worker.can_reserve(9.0)
            assert early_worker.cap == pytest.approx(10.0)
            with join_as_worker(place, run="r") as late_team:
                assert not SharedBudget(100.0, late_team).can_reserve(11.0)
        with coordinate_run(place, run="r") as coordinator:
            SharedBudget(60.0, coordinator)
            assert early_worker.can_reserve(50.0)


def test_the_cap_of_a_coordinator_that_has_ended_does_not_limit_a_later_worker(tmp_path: Path) -> None:
    place = tmp_path / "v.db"
    with coordinate_run(place, run="r") as coordinator:
        SharedBudget(1.0, coordinator)
    with join_as_worker(place, run="r") as team:
        assert SharedBudget(5.0, team).can_reserve(4.0)


def test_a_cap_counts_what_earlier_processes_have_spent(tmp_path: Path) -> None:
    place = tmp_path / "v.db"
    with coordinate_run(place, run="r") as team:
        budget = SharedBudget(10.0, team)
        asyncio.run(budget.reserve(6.0))
        budget.settle(6.0, 6.0)
    with join_as_worker(place, run="r") as team:
        assert not SharedBudget(10.0, team).can_reserve(5.0)
        assert SharedBudget(10.0, team).can_reserve(4.0)
    with coordinate_run(place, run="r") as team:
        assert not SharedBudget(10.0, team).can_reserve(5.0)
        assert SharedBudget(10.0, team).spent_by_all == pytest.approx(6.0)
    with coordinate_run(place, run="r", saved=RunPayments(usd=8.0)) as team:
        assert not SharedBudget(10.0, team).can_reserve(3.0)
    with coordinate_run(place, run="other") as team:
        assert SharedBudget(10.0, team).can_reserve(9.0)


def test_a_rate_limit_is_shared_by_all_workers() -> None:
    pace = RateLimiter(requests_per_minute=6000, tokens_per_minute=60_000)
    complete = pace._request_limiter.max_rate / pace._request_limiter.time_period if pace._request_limiter else 0
    pace.divide_limits(4)
    part = pace._request_limiter.max_rate / pace._request_limiter.time_period if pace._request_limiter else 0
    assert part <= complete / 4 + 1e-9 or part == pytest.approx(25, rel=0.05)


@pytest.mark.parametrize(
    ("said_by", "given", "seen"),
    [
        (redact_location, "postgresql://u:p/w:x@h:1/d?password=s", "postgresql://u@h:1/d"),
        (redact_location, "postgresql://h/d?user=u&password=s#f", "postgresql://h/d"),
        (redact_location, "postgresql://:only@h/d", "postgresql://@h/d"),
        (redact_location, "sqlite:///a b/v.db", "sqlite:///a b/v.db"),
        (redact_location, "a/v.db", "a/v.db"),
        (mask_passwords, "postgresql://u:p/w:x@h:1/d?password=s", "postgresql://u@h:1/d?password=…"),
        (mask_passwords, "--store=postgres://u:p%40w@h/d", "--store=postgres://u@h/d"),
        (mask_passwords, "host=h password='a b' dbname=d", "host=h password=… dbname=d"),
        (mask_passwords, "http://me:secret@host:8000/v1", "http://me@host:8000/v1"),
        (mask_passwords, "http://host:8000/v1 me@host", "http://host:8000/v1 me@host"),
    ],
)
def test_a_connection_string_and_a_printed_command_hide_the_password(
    said_by: Callable[[str], str], given: str, seen: str
) -> None:
    assert said_by(given) == seen


def test_a_stopped_command_is_not_printed_with_a_password(
    youden: Youden, shared_run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("youden.judging.store.answers.open_backend", stopped)
    ended = youden("judge", "r.yaml", "--store", "postgresql://me:swordfish@127.0.0.1:9/d")
    assert ended.code == 130
    assert "swordfish" not in ended.out + ended.err
    assert "me@127.0.0.1:9/d" in ended.err


@pytest.mark.slow
def test_stores_are_copied_and_merged_and_a_rerun_sends_no_request(
    youden: Youden, shared_run_folder: Path, server: WireServer, postgres: Cluster
) -> None:
    url = postgres.new()
    assert youden("judge", "r.yaml", "--store", "one.db").code == 0
    ended = youden("store", "copy", "one.db", url)
    assert (ended.code, "new answers: 110 of 110" in ended.err) == (0, True), ended.err
    assert "0 of 110" in youden("store", "copy", "one.db", url).err
    merged = youden("store", "copy", url, "one.db", "all.db", "--json")
    assert json.loads(merged.out) == {"store": "all.db", "n_answers": 220, "n_new": 110}
    assert youden("judge", "r.yaml", "--store", "all.db", "--out", "runs/other").code == 0
    assert server.n_requests == 110


@pytest.mark.slow
def test_another_host_sees_pending_batches_in_a_shared_store(
    youden: Youden, shared_run_folder: Path, batch_server: BatchServer, postgres: Cluster
) -> None:
    url = postgres.new()
    rewrite_judge(shared_run_folder / "r.yaml", backend="openai", base_url=batch_server.url)
    batch_server.fates = ["vanished"]
    words = ("judge", "r.yaml", "--mode", "batch", "--poll", "0.1", "--store", url)
    ended = youden(*words)
    assert (ended.code, "[batch-unknown]" in ended.err, Cluster.PASSWORD in ended.err) == (2, True, False), ended.err
    shown_here = json.loads(youden("store", "batches", url, "--json").out)
    (batch,) = shown_here["batches"]
    assert (batch["batch"], batch["n_requests"], shown_here["store"]) == ("batch_0", 110, redact_location(url))
    assert "110 requests to m" in youden("store", "batches", url).err
    assert "[batch-none]" in youden("store", "batches", url, "--forget", "other").err
    assert youden("store", "batches", url, "--forget", "batch_0").code == 0
    assert youden(*words).code == 0
    assert json.loads(youden("store", "batches", url, "--json").out)["batches"] == []
    assert len(batch_server.bodies) == 110


@pytest.mark.slow
def test_batch_folders_are_in_the_run_folder_if_the_store_is_no_file(
    youden: Youden, shared_run_folder: Path, postgres: Cluster
) -> None:
    rewrite_judge(shared_run_folder / "r.yaml", batch_provider="folder")
    answers = shared_run_folder / "runs/r/batches"
    url = postgres.new()
    judging = subprocess.Popen(
        [sys.executable, "-m", "youden", "judge", "r.yaml", "--mode", "batch", "--poll", "0.1", "--store", url],
        cwd=shared_run_folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    while judging.poll() is None and not list(answers.glob("requests-*.jsonl")):
        time.sleep(0.05)
    (requests,) = answers.glob("requests-*.jsonl")
    part = answers / "part"
    run_batch(requests, part, decide=well_behaved)
    part.rename(answers / requests.name.replace("requests", "answers"))
    assert judging.wait(300) == 0
