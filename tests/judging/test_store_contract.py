"""Test SQLite and PostgreSQL stores with one suite."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path

import pytest

from postgres import Cluster
from scripted import Clock
from store_connections import connection_of
from youden.errors import ConfigError, JudgeError
from youden.judging.call.failures import Failure
from youden.judging.offline.batch_leases import BatchLeases
from youden.judging.store import sqlite
from youden.judging.store.answers import MAX_PENDING_WRITES, open_store
from youden.judging.store.contract import CopiedTable, Member, Payment, PendingWrites
from youden.judging.store.leases import LEASE_SECONDS, Leases, PendingBatchKeys, is_dead_process, new_holder_name
from youden.judging.store.shared_budget import SharedBudget
from youden.judging.store.statements import Session
from youden.judging.store.worker_group import WorkerGroup, coordinate_run, join_as_worker
from youden.types import Completion

KEYS = ["a", "b", "c"]
NEVER = 1000.0
"""Heartbeat interval in seconds, longer than any test."""


def answer(text: str = "YES") -> Completion:
    return Completion(text, "stop", "m", 10, 1, 0.5, "fp", None, (("YES", -0.1), ("\0NO\ud7ff😀", -2.5)))


def schema_of(place: str) -> str:
    """Return the prefix of table names."""
    return "youden." if "://" in place else ""


@pytest.fixture
def later(place: str) -> Callable[[float], None]:
    """Shorten the leases of all workers by this many seconds."""

    def pass_by(seconds: float) -> None:
        with open_store(place) as store:
            connection_of(store).execute(f"UPDATE {schema_of(place)}workers SET expires = expires - {seconds}")

    return pass_by


def test_answers_and_failures_read_back_unchanged(place: str) -> None:
    failure = Failure("transient", 500, "broke \ufffd ?")
    with pytest.raises(ConfigError, match="store-missing"):
        open_store(place, read_only=True)
    with open_store(place) as store:
        assert Cluster.PASSWORD not in store.name
        store.add("a", answer())
        store.add("b", Failure("transient", 500, "broke \0 \ud800"))
        assert store.get_outcomes(KEYS) == {"a": answer(), "b": failure}
    with open_store(place, read_only=True) as store:
        assert store.answers(KEYS) == {"a": answer()}
        assert store.failures(KEYS) == {"b": failure}
        assert len(store) == 1
    with open_store(place) as store:
        store.add("b", answer("NO"))
    with open_store(place) as store:
        assert store.get_outcomes(KEYS) == {"a": answer(), "b": answer("NO")}
        assert store.failures(KEYS) == {}


@pytest.mark.parametrize("said", ["host=db dbname=x password=s3cret", "dbname=x", " user = me"])
def test_a_connection_string_is_not_treated_as_a_file(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="postgresql://USER@HOST/DATABASE") as caught:
        open_store(said)
    assert "s3cret" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_first_answer_is_kept_unless_it_was_requested_again(place: str) -> None:
    with open_store(place) as first, open_store(place) as second:
        first.add("a", answer("YES"))
        first.flush()
        second.add("a", answer("NO"))
        second.add("b", answer("NO"))
        second.flush()
        assert first.answers(["a"]) == {"a": answer("YES")}
        second.add("a", Failure("rejected", 400, "late"))
        second.flush()
        assert first.get_outcomes(["a"]) == {"a": answer("YES")}
        second.add("a", answer("NO"), replaces_answer=True)
        second.flush()
        assert first.answers(["a"]) == {"a": answer("NO")}
        second.add("a", Failure("transient", 500, "broke"), replaces_answer=True)
        second.flush()
        assert first.get_outcomes(["a"]) == {"a": answer("NO")}
        assert first.failures(["a"]) == {}


def test_concurrent_writers_of_the_same_keys_store_one_answer_each(place: str) -> None:
    keys = [f"k{n}" for n in range(3 * MAX_PENDING_WRITES)]

    def write(who: int) -> dict[str, Completion]:
        with open_store(place) as store:
            for key in keys if who % 2 else reversed(keys):
                store.add(key, answer(str(who)))
            store.flush()
            return store.answers(keys)

    with ThreadPoolExecutor(4) as threads:
        observed = list(threads.map(write, range(4)))
    with open_store(place) as store:
        assert observed == [store.answers(keys)] * 4
    assert observed[0].keys() == set(keys)


def test_payments_are_written_with_their_answers_and_summed_over_invocations(place: str) -> None:
    keys = [f"k{n}" for n in range(MAX_PENDING_WRITES)]
    with open_store(place) as first, open_store(place) as second:
        for key in keys:
            first.pay("p", key, Payment(0.5))
            first.pay("p", key, Payment(1.0, 99, 1, 0.5))
            first.add(key, answer())
            answered, paid = second.answers(keys), second.read_payments("p")
            assert all(paid[kept] == Payment(1.5, 99, 1, 0.5) for kept in answered)
        first.flush()
        assert set(second.read_payments("p")) == set(second.answers(keys)) == set(keys)
        second.pay("p", "k0", Payment(2.0))
        second.pay("q", "k0", Payment(float("nan")))
    with open_store(place) as store:
        assert store.read_payments("p")["k0"] == Payment(3.5, 99, 1, 0.5)
        assert str(store.read_payments("q")["k0"].usd) == "nan"


def test_judges_and_response_models_are_stored_once(place: str) -> None:
    with open_store(place) as store:
        for name in ("b", "a", "b"):
            store.remember_judge({"name": name})
        store.add_response_models({"name": "a"}, ["m1", "m2"])
        store.add_response_models({"name": "a"}, ["m2"])
        assert store.judges() == [{"name": "b"}, {"name": "a"}]
        assert sorted(store.read_response_models({"name": "a"})) == ["m1", "m2"]
        assert store.read_response_models({"name": "b"}) == []


def test_many_rows_are_written_in_few_statements() -> None:
    """Rows sent one by one and interrupted would keep their locks in PostgreSQL indefinitely."""
    statements: list[str] = []
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (a, b)")
        connection.set_trace_callback(statements.append)
        n_changed = Session(connection, {"@": ""}).insert_many(
            "INSERT INTO @t VALUES (?, ?)", [(n, "x") for n in range(1000)]
        )
        connection.set_trace_callback(None)
        assert n_changed == 1000
        assert connection.execute("SELECT count(DISTINCT a) FROM t").fetchone() == (1000,)
    assert sum(statement.startswith("INSERT INTO t") for statement in statements) == 2


def passes(clock: Clock, seconds: float, *, renewing: Leases) -> None:
    """Advance the time while living workers renew their leases."""
    for _ in range(4):
        clock.now += seconds / 4
        renewing.renew()


def test_leases_are_held_until_released_answered_or_unrenewed_for_their_duration(place: str) -> None:
    clock = Clock()
    with open_store(place) as a, open_store(place) as b:
        first, second = (Leases(store.backend, now=clock) for store in (a, b))
        assert first.acquire(KEYS) == first.acquire(KEYS) == set(KEYS)
        assert a.leases().acquire(KEYS) == set()
        assert second.acquire([*KEYS, "d"]) == {"d"}
        first.release(["a"])
        a.add("b", answer(), may_flush=False)
        assert second.acquire(["b"]) == set()
        a.flush()
        assert second.acquire(KEYS) == {"a", "b"}
        passes(clock, LEASE_SECONDS + 1, renewing=second)
        assert second.acquire(KEYS) == set(KEYS)
        assert first.acquire(KEYS) == set()


@pytest.mark.parametrize("hours", [-1, 1])
def test_renewed_leases_hold_for_any_clock_of_their_host(place: str, hours: int) -> None:
    clock = Clock()
    with open_store(place) as a, open_store(place) as b:
        first, second = (Leases(store.backend, now=clock) for store in (a, b))
        first.acquire(KEYS)
        assert second.acquire(KEYS) == set()
        connection_of(b).execute(f"UPDATE {schema_of(place)}leases SET expires = expires - {3600 * hours}")
        passes(clock, LEASE_SECONDS * 0.9, renewing=second)
        assert second.acquire(KEYS) == set()
        expired_before = first.maybe_expired
        first.renew()
        assert (expired_before, first.maybe_expired) == (True, False)
        passes(clock, LEASE_SECONDS * 0.9, renewing=second)
        assert second.acquire(KEYS) == set()
        passes(clock, LEASE_SECONDS * 1.1, renewing=second)
        assert second.acquire(KEYS) == set(KEYS)


def test_a_process_that_lost_the_store_does_not_presume_other_workers_dead(place: str) -> None:
    clock = Clock()
    with open_store(place) as a, open_store(place) as b:
        first, second = (Leases(store.backend, now=clock) for store in (a, b))
        first.acquire(KEYS)
        assert second.acquire([*KEYS, "d"]) == {"d"}
        clock.now += LEASE_SECONDS * 2
        assert second.acquire(KEYS) == set()
        passes(clock, 1, renewing=second)
        assert second.acquire(KEYS) == set()
        passes(clock, LEASE_SECONDS * 0.9, renewing=second)
        assert second.acquire(KEYS) == set()
        passes(clock, LEASE_SECONDS * 0.2, renewing=second)
        assert second.acquire(KEYS) == set(KEYS)


@pytest.mark.skipif(not Path("/proc/sys/kernel/random/boot_id").is_file(), reason="only Linux says when it started")
def test_a_process_counts_as_dead_only_on_the_same_machine_and_boot() -> None:
    machine, number, _ = new_holder_name().split(" ")
    started = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert is_dead_process(f"{machine} {ended.pid} x")
    assert not is_dead_process(f"{machine} {number} x")
    # a host of the same name, whose first container has the same number
    assert not is_dead_process(f"{machine.replace(started, 'another')} {ended.pid} x")


def test_one_process_coordinates_and_the_others_are_workers(place: str, later: Callable[[float], None]) -> None:
    with (
        open_store(place) as opened,
        WorkerGroup(opened, "r", is_coordinator=True, heartbeat=NEVER) as leader,
        join_as_worker(place, run="r") as worker,
    ):
        worker.answered = 7
        worker.sync()
        leader.sync()
        assert (leader.others.n, leader.others.answered) == (1, 7)
        with pytest.raises(JudgeError, match="run-busy"), coordinate_run(place, run="r"):
            pass
        with coordinate_run(place, run="other"):
            pass
        later(LEASE_SECONDS + 1)
        with coordinate_run(place, run="r"), pytest.raises(JudgeError, match="lease-lost"):
            leader.sync()
    with coordinate_run(place, run="r"):
        pass


def test_a_coordinator_presumed_dead_restores_spending_and_keeps_the_cap(
    place: str, later: Callable[[float], None]
) -> None:
    with open_store(place) as opened, WorkerGroup(opened, "r", is_coordinator=True, heartbeat=NEVER) as first:
        mine = SharedBudget(10.0, first)
        asyncio.run(mine.reserve(1.0))
        mine.settle(1.0, 0.75)
        asyncio.run(mine.reserve(2.0))
        first.sync()
        later(LEASE_SECONDS + 1)
        with join_as_worker(place, run="r") as second:
            others = SharedBudget(10.0, second)
            assert 2.75 <= others.spent_by_all <= 10
            for _ in range(3):
                mine.settle(2.0, 1.5)
                asyncio.run(mine.reserve(1.0))
                mine.settle(1.0, 1.0)
                first.sync()
                asyncio.run(mine.reserve(2.0)) if mine.can_reserve(2.0) else mine.reserve_unconditionally(2.0)
            first.sync()
            second.sync()
            assert mine.spent_by_all == pytest.approx(mine.spent)
            assert mine.spent <= others.spent_by_all <= 10


def test_a_coordinator_without_requests_takes_no_share_of_the_rate_limit(place: str) -> None:
    with coordinate_run(place, run="r") as leader:
        leader.sends_requests = False
        leader.sync()
        with join_as_worker(place, run="r") as first, join_as_worker(place, run="r") as second:
            for member, n_sending in ((first, 1), (second, 1), (leader, 2)):
                first.sync()
                member.sync()
                assert (member.others.n, member.others.n_sending) == (2, n_sending)


def keep_new_members(members: list[Member], _now: float, _rows: Sequence[Member]) -> list[Member]:
    return members


def test_a_store_returns_the_members_of_each_run(place: str) -> None:
    members = {run: [Member(f"{run} {number} 0", False, 1, 2, 3, 4.0) for number in range(2)] for run in ("a", "b")}
    with open_store(place) as store:
        for run, rows in members.items():
            store.backend.replace_members(run, partial(keep_new_members, rows))
        now, by_run = store.backend.read_all_members()
        assert {run: sorted(rows, key=attrgetter("name")) for run, rows in by_run.items()} == members
        assert now <= store.backend.read_members("a")[0]


def test_every_commit_is_flushed_to_the_disk_of_sqlite_and_postgresql(place: str) -> None:
    is_postgresql = "://" in place
    query, expected = ("SHOW synchronous_commit", "on") if is_postgresql else ("PRAGMA synchronous", 2)
    with open_store(place) as store:
        assert connection_of(store).execute(query).fetchall() == [(expected,)]


def test_only_transactions_on_leases_do_not_wait_for_the_disk(tmp_path: Path) -> None:
    outcome = Completion("YES", "stop", "m", 1, 1)
    with open_store(tmp_path / "s.db") as store:
        statements: list[str] = []
        connection_of(store).set_trace_callback(statements.append)
        leases = store.leases()
        assert leases.acquire(["a", "b"]) == {"a", "b"}
        store.add("a", outcome)
        store.flush()
        leases.release()
    is_synced = True
    changed_tables: dict[bool, set[str]] = {True: set(), False: set()}
    for statement in statements:
        if statement.startswith("PRAGMA synchronous"):
            is_synced = statement.endswith("FULL")
        changed = re.match(r"\s*(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)", statement)
        if changed is not None:
            changed_tables[is_synced].add(changed[1])
    assert changed_tables[False] == {"leases"}
    assert "answers" in changed_tables[True]
    assert is_synced


@pytest.mark.posix
def test_without_a_write_ahead_log_transactions_on_leases_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut can damage a database with a rollback journal unless every commit waits for the disk."""

    def connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
        """Connect without shared memory, which a write-ahead log needs, as on some network file systems."""
        assert not read_only
        return sqlite3.connect(f"file:{path}?vfs=unix-dotfile", uri=True, check_same_thread=False, isolation_level=None)

    monkeypatch.setattr(sqlite, "_open_connection", connect)
    with open_store(tmp_path / "s.db") as store:
        connection = connection_of(store)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        assert store.leases().acquire(["a", "b"]) == {"a", "b"}
        assert not [statement for statement in statements if statement.endswith("synchronous = NORMAL")]
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_a_role_cannot_switch_off_the_flush_of_commits(place: str) -> None:
    for role, session in (("off", "on"), ("local", "local"), ("remote_apply", "remote_apply")):
        url = f"{place}{'&' if '?' in place else '?'}options=-csynchronous_commit%3D{role}"
        with open_store(url) as store:
            assert connection_of(store).execute("SHOW synchronous_commit").fetchall() == [(session,)]


def test_a_flush_does_not_wait_for_readers(place: str) -> None:
    """Adding never waits: while another writer holds the lock, answers are accepted and found."""
    with open_store(place) as first, open_store(place) as second:
        block = connection_of(second)
        block.execute("BEGIN" if "://" in place else "BEGIN IMMEDIATE")
        if "://" in place:
            block.execute("LOCK TABLE youden.answers IN ACCESS EXCLUSIVE MODE")
        first.add("a", answer(), may_flush=False)
        writing = threading.Thread(target=first.flush)
        writing.start()
        longest = 0.0
        for n in range(200):
            began = time.monotonic()
            first.add(f"k{n}", answer(), may_flush=False)
            longest = max(longest, time.monotonic() - began)
        assert longest < 5
        assert first.n_pending == 201
        block.execute("ROLLBACK")
        writing.join()
    with open_store(place) as store:
        assert len(store) == 201


def test_rows_are_copied_by_column_name(place: str, tmp_path: Path) -> None:
    with open_store(place) as store, open_store(tmp_path / "other.db") as copy:
        paid = {("p", "a"): Payment(float("nan"), 1, 2, 0.5)}
        store.backend.write(PendingWrites({"a": "{}", "b": "{}"}, {"c": ("c", "transient", None, "x")}, paid))
        tables: tuple[tuple[CopiedTable, int], ...] = (("answers", 2), ("failures", 1), ("costs", 1))
        for kept, n in tables:
            rows = store.backend.rows(kept, None, n=10)
            assert copy.backend.put_rows(kept, rows) == n
            assert copy.backend.put_rows(kept, rows) == 0
            assert copy.backend.rows(kept, None, n=10) == rows
            assert len(store.backend.rows(kept, rows[0], n=10)) == n - 1


def test_a_recorded_batch_is_visible_to_all_until_forgotten_and_is_copied(place: str, tmp_path: Path) -> None:
    with open_store(place) as a, open_store(place) as b, open_store(tmp_path / "other.db") as copy:
        ours, theirs = (BatchLeases(store, address="a", model="m") for store in (a, b))
        first, second = ours.record_batch(float("nan"), ["k1", "k2"]), ours.record_batch(0.5, ["k3"])
        started = ours.record_batch_id(ours.record_file_id(first, "f"), "b")
        assert [(job.id, job.keys, job.batch) for job in theirs.pending()] == [
            (first.id, ("k1", "k2"), "b"),
            (second.id, ("k3",), None),
        ]
        assert BatchLeases(b, address="a", model="other").pending() == []
        assert theirs.release_requests_sent_by_others(["k3", "k4"]) == {"k4"}
        assert b.backend.batches() == sorted([first.id, second.id])
        under_way = PendingBatchKeys(b.backend)
        assert under_way.read_request_hashes() == {"k1", "k2", "k3"}
        assert copy.backend.put_rows("batches", a.backend.rows("batches", None, n=10)) == 2
        theirs.delete_record(started)
        with pytest.raises(JudgeError, match="lease-lost"):
            ours.record_batch_id(started, "b2")
        assert [job.id for job in ours.pending()] == [second.id]
        assert under_way.read_request_hashes() == {"k3"}
        remainder = replace(second, id="rest", keys=("k4",), usd=0.2, file="f", batch="b")
        a.add("k3", answer(), may_flush=False)
        ours.replace_record(second, remainder)
        assert [job.id for job in theirs.pending()] == [second.id]
        a.flush()
        assert [(job.id, job.keys, job.usd) for job in theirs.pending()] == [("rest", ("k4",), 0.2)]
        assert under_way.read_request_hashes() == {"k4"}
        assert len(b) == 1
        ours.replace_record(remainder, None)
        a.flush()
        assert under_way.read_request_hashes() == PendingBatchKeys(b.backend).read_request_hashes() == set()


def test_a_store_can_be_used_from_several_threads(place: str) -> None:
    with open_store(place) as store, ThreadPoolExecutor(4) as threads:

        def use(who: int) -> None:
            for n in range(10):
                store.add(f"{who} {n}", answer(), may_flush=False)
                store.flush()
                assert store.answers([f"{who} {n}"])

        list(threads.map(use, range(4)))
        assert len(store) == 40
