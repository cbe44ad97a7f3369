"""Test that the totals of a run include all its invocations: interrupted, killed or resumed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from commands import Youden, wire_judge, write_small_run
from narrowing import not_none
from small_pools import make_pool
from wire_server import Reply, WireServer
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.engines.block_sums import count_calls
from youden.judging.store.accounts import read_run_payments
from youden.judging.store.answers import open_store
from youden.judging.store.contract import Member
from youden.judging.store.worker_group import GROUP_ROW_PREFIX, add_unconfirmed_amount, coordinate_run, join_as_worker
from youden.pipeline.judged_run import get_run_name
from youden.types.facts import CallFacts
from youden.types.payments import RunPayments

A_CALL = 0.01


@pytest.fixture
def paid_folder(tmp_path: Path, server: WireServer) -> Path:
    priced = wire_judge(server.url, price=100, max_tokens=1, concurrency=1, max_tries=3)
    write_small_run(tmp_path, "paid", judge=priced)
    server.behave = honest
    return tmp_path


def honest(_n: int, body: Mapping[str, Any]) -> Reply:
    """Answer with 100 tokens per call: YES if both texts are of one item, which never holds for planted templates."""
    items = re.findall(r"says something of item (\d+)", body["messages"][-1]["content"])
    same = len(items) == 2 and items[0] == items[1]
    return Reply("YES" if same else "NO", usage={"prompt_tokens": 99, "completion_tokens": 1})


def calls_of(here: Path, run: str = "runs/paid") -> CallFacts:
    folder = RunFolder(here / run)
    return count_calls(folder.read_verdicts(folder.read_plan()))


def test_the_cap_holds_for_all_commands_on_a_run(youden: Youden, paid_folder: Path, server: WireServer) -> None:
    for cap in ("0.3", "0.3", "0.2", "0.6", "0.6"):
        before = server.n_requests
        ended = youden("judge", "paid.yaml", "--max-cost", cap)
        assert (ended.code, f"cap of {cap} USD" in ended.err) == (1, True), ended.err
        n_sent = server.n_requests - before
        assert server.n_requests * A_CALL <= 0.6 + 1e-9
        if n_sent:
            assert server.n_requests * A_CALL > float(cap) - 0.1
    assert "Set a higher max_cost, which limits the total cost of all commands on the run" in ended.err
    assert "remain of the cap of $0.6 for the run" in youden("plan", "paid.yaml", "--max-cost", "0.6").err

    assert youden("judge", "paid.yaml", "--max-cost", "1.5").code == 0
    assert calls_of(paid_folder).usd == pytest.approx(110 * A_CALL)
    assert calls_of(paid_folder).usd_calibration == 0
    assert youden("judge", "paid.yaml", "--max-cost", "0.6").code == 0
    paid = calls_of(paid_folder).paid
    assert paid == RunPayments(usd=paid.usd)
    assert paid.usd == pytest.approx(110 * A_CALL)


def test_the_cap_of_an_extension_adds_to_what_the_run_has_paid(
    youden: Youden, paid_folder: Path, server: WireServer
) -> None:
    youden("run", "paid.yaml", "--max-cost", "1.2").well()
    words = ("extend", "calls", "runs/paid", "60", "--max-cost")
    for cap, n_least in (("0.3", 20), ("0.3", 0), ("0.5", 15)):
        before = server.n_requests
        assert youden(*words, cap).err.rstrip().endswith("[budget]")
        assert server.n_requests - before >= n_least
        assert server.n_requests <= 110 + float(cap) / A_CALL
    config = RunFolder(paid_folder / "runs/paid").read_config()
    assert config.max_cost == 1.6
    assert config.unfinished is not None
    assert config.unfinished.format_command(Path("runs/paid")) == "youden extend calls runs/paid 60 --max-cost 0.5"
    assert youden(*words[:-1]).err.rstrip().endswith("[budget]")  # the cap of the run is that of the last command
    assert server.n_requests <= 110 + 0.5 / A_CALL
    youden(*words, "2.2").well()
    assert (
        RunFolder(paid_folder / "runs/paid").read_config().max_cost == 3.3
    )  # not 3.3000000000000003, the sum of floats


def test_the_total_includes_answers_that_the_run_no_longer_uses(
    youden: Youden, paid_folder: Path, server: WireServer
) -> None:
    assert youden("judge", "paid.yaml", "--max-cost", "0.3").code == 1
    n_unused = server.n_requests
    priced = wire_judge(server.url, price=100, max_tokens=2, concurrency=1, max_tries=3)
    write_small_run(paid_folder, "paid", judge=priced)
    total = f"this run has paid ${(110 + n_unused) * A_CALL:.4f} over all commands"

    assert total in youden("run", "paid.yaml", "--max-cost", "9").well().err
    calls = calls_of(paid_folder)
    assert calls.usd == pytest.approx(110 * A_CALL)
    assert calls.paid.usd == pytest.approx((110 + n_unused) * A_CALL)
    assert total in youden("judge", "paid.yaml", "--max-cost", "9").err
    assert total in (paid_folder / "runs/paid/report.html").read_text(encoding="utf-8")
    assert total in youden("report", "runs/paid", "--format", "md").out
    youden("run", "paid.yaml", "--max-cost", "9", "--out", "runs/other").well()
    listed = youden("doctor", "--json").said["payments"]
    assert {run: paid["usd"] for run, paid in listed.items()} == {"../runs/paid": pytest.approx(calls.paid.usd)}
    assert f"  ../runs/paid: {total}" in youden("doctor").out


@pytest.mark.slow
@pytest.mark.posix
def test_the_cap_holds_for_a_run_that_is_killed_and_resumed(
    youden: Youden, paid_folder: Path, server: WireServer, place: str
) -> None:
    usage = {"prompt_tokens": 199, "completion_tokens": 1}
    server.behave = lambda n, body: replace(honest(n, body), usage=usage, delay=0.02)
    judge = wire_judge(server.url, price=100, max_tokens=1, concurrency=4)
    write_small_run(paid_folder, "paid", judge=judge, max_cost=1.5)
    command = ["judge", "paid.yaml", "--store", place]
    for _ in range(3):
        n_before = server.n_requests
        process = subprocess.Popen([sys.executable, "-m", "youden", *command], cwd=paid_folder)
        while server.n_requests < n_before + 6 and process.poll() is None:
            time.sleep(0.005)
        process.kill()
        process.wait()
        assert server.n_requests > n_before
        planned = youden("plan", *command[1:], "--json").said
        assert planned["paid"]["usd"] + planned["paid"]["usd_unconfirmed"] >= server.n_requests * 2 * A_CALL - 1e-9
        assert planned["usd_left"] == pytest.approx(
            max(0, 1.5 - planned["paid"]["usd"] - planned["paid"]["usd_unconfirmed"])
        )
    ended = youden(*command)
    assert (ended.code, "cap of 1.5 USD" in ended.err) == (1, True), ended.err
    assert 0.4 < server.n_requests * 2 * A_CALL <= 1.5
    assert youden(*command, "--max-cost", "4").code == 0


def test_processes_that_start_together_book_unconfirmed_costs_once(tmp_path: Path) -> None:
    store = tmp_path / "answers.db"
    killed = Member("killed 1 process", False, 10**11, 0, 0, 0.0)
    paid_before = Member(GROUP_ROW_PREFIX + "runs/r", False, 0, 0, 0, 0.0)
    with open_store(store) as opened:
        opened.backend.replace_members("r", lambda _now, _rows: [paid_before, killed])
        unbooked = add_unconfirmed_amount(opened, "r", "runs/r", RunPayments())
        assert unbooked == RunPayments(usd_unconfirmed=0.1)

    starting = Barrier(6)

    def join(_: int) -> None:
        starting.wait()
        with join_as_worker(store, run="r", account="runs/r"):
            pass

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(join, range(6)))
    with open_store(store) as opened:
        assert read_run_payments(opened, "runs/r") == unbooked
        assert add_unconfirmed_amount(opened, "r", "runs/r", unbooked) == unbooked


@pytest.mark.parametrize("n_judges", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_plan_counts_answers_in_the_folder_of_a_run_whose_store_was_deleted(
    youden: Youden, paid_folder: Path, server: WireServer, n_judges: int
) -> None:
    member = wire_judge(server.url, price=100, max_tokens=1)
    jury = {"backend": "jury", "judges": [member | {"model": name} for name in "abc"]}
    write_small_run(paid_folder, "paid", judge=member if n_judges == 1 else jury)
    youden("judge", "paid.yaml", "--max-cost", "50").well()
    Path(RunFolder(paid_folder / "runs/paid").read_config().store_location).unlink()
    n_requests = server.n_requests
    planned = youden("plan", "paid.yaml", "--json").said
    assert (planned["cost"]["stored"], planned["cost"]["usd_left"]) == (110 * n_judges, 0)
    youden("judge", "paid.yaml", "--max-cost", "50").well()
    assert server.n_requests == n_requests


def test_doctor_states_what_a_killed_process_may_have_paid(youden: Youden, paid_folder: Path) -> None:
    youden("plan", "paid.yaml").well()
    config = RunFolder(paid_folder / "runs/paid").read_config()
    run = get_run_name(RunFolder(config.folder), RunFolder(config.folder).read_plan())
    with open_store(config.store_location) as opened:
        killed = Member("killed 1 process", False, 10**11, 0, 0, 0.0)
        group = Member(GROUP_ROW_PREFIX + "../runs/paid", False, 0, 0, 0, 0.0)
        opened.backend.replace_members(run, lambda _now, _rows: [group, killed])
    planned = youden("plan", "paid.yaml", "--json").said["paid"]
    assert planned["usd_unconfirmed"] == 0.1
    assert youden("doctor", "--json").said["payments"] == {"../runs/paid": planned}


def test_workers_pay_from_the_account_of_their_coordinator(tmp_path: Path) -> None:
    store = tmp_path / "answers.db"
    with coordinate_run(store, run="r", account="runs/r"), join_as_worker(store, run="r", account="other/r") as worker:
        assert worker.account == "runs/r"


def test_billed_attempts_without_an_answer_are_in_the_totals(
    youden: Youden, paid_folder: Path, server: WireServer
) -> None:
    server.behave = lambda n, body: Reply(fault="html") if n == 5 else honest(n, body)
    assert youden("judge", "paid.yaml", "--max-cost", "0.3").code == 1
    assert youden("judge", "paid.yaml", "--max-cost", "50").code == 0
    assert not_none(calls_of(paid_folder).usd) > 110 * A_CALL


@pytest.mark.slow
def test_costs_of_a_calibration_for_answers_of_the_run_are_stated_separately(
    youden: Youden, paid_folder: Path, server: WireServer
) -> None:
    assert youden("calibrate", "paid.yaml", "--calls", "60", "--max-cost", "100").code in (0, 1)
    before = server.n_requests
    ended = youden("judge", "paid.yaml", "--max-cost", "100", "--json")
    calls = json.loads(ended.out)["calls"]
    n_new = server.n_requests - before
    assert 0 < n_new < 110
    assert calls["n_reused"] == 110 - n_new
    assert calls["usd"] == pytest.approx(110 * A_CALL)
    assert calls["usd_calibration"] == pytest.approx((110 - n_new) * A_CALL)
    by_calibration = f"${(110 - n_new) * A_CALL:.4f} by the calibration"
    assert by_calibration in youden("judge", "paid.yaml", "--max-cost", "1").err


def test_a_run_folder_that_is_renamed_in_its_project_keeps_its_totals(youden: Youden, paid_folder: Path) -> None:
    youden("calibrate", "paid.yaml", "--calls", "60", "--max-cost", "100")
    youden("judge", "paid.yaml", "--max-cost", "50").well()
    before = calls_of(paid_folder)
    assert not_none(before.usd) == pytest.approx(110 * A_CALL)
    assert not_none(before.usd_calibration) > 0
    (paid_folder / "runs/paid").rename(paid_folder / "runs/final")
    youden("judge", "runs/final/config.yaml", "--max-cost", "50").well()
    assert calls_of(paid_folder, "runs/final") == before


def test_the_cap_holds_for_a_stopped_run_whose_folder_is_renamed(
    youden: Youden, paid_folder: Path, server: WireServer
) -> None:
    assert youden("judge", "paid.yaml", "--max-cost", "0.3").code == 1
    at_cap = youden("judge", "paid.yaml", "--max-cost", "0.2")
    assert "$0.0000 remain of the cap of $0.2 for the run, and pay for none of the" in at_cap.err
    assert "To continue, set a higher cap (--max-cost)" in at_cap.err
    (paid_folder / "runs/paid").rename(paid_folder / "runs/final")
    command = ("runs/final/config.yaml", "--max-cost", "0.5")
    assert youden("plan", *command, "--json").said["paid"]["usd"] == pytest.approx(server.n_requests * A_CALL)
    assert youden("judge", *command).code == 1
    assert 0.4 < server.n_requests * A_CALL <= 0.5
    assert youden("plan", *command, "--json").said["paid"]["usd"] == pytest.approx(server.n_requests * A_CALL)
    (paid_folder / "runs/final").rename(paid_folder / "runs/last")
    assert youden("judge", "runs/last/config.yaml", "--max-cost", "0.8").code == 1
    assert 0.7 < server.n_requests * A_CALL <= 0.8


def test_calls_without_a_reply_count_once_after_a_folder_is_renamed(
    youden: Youden, paid_folder: Path, server: WireServer
) -> None:
    server.behave = lambda n, body: Reply(fault="html") if n == 50 else honest(n, body)
    youden("judge", "paid.yaml", "--max-cost", "50").well()
    youden("judge", "paid.yaml", "--max-cost", "50").well()
    before = calls_of(paid_folder).paid
    assert before.usd_unconfirmed > 0
    (paid_folder / "runs/paid").rename(paid_folder / "runs/final")
    youden("judge", "runs/final/config.yaml", "--max-cost", "50").well()
    paid = calls_of(paid_folder, "runs/final").paid
    assert (paid.usd, paid.usd_unconfirmed) == pytest.approx((before.usd, before.usd_unconfirmed))


def test_a_plan_states_what_all_earlier_commands_have_cost(youden: Youden, paid_folder: Path) -> None:
    youden("calibrate", "paid.yaml", "--calls", "60", "--max-cost", "100")
    calibrated = youden("plan", "paid.yaml", "--json").said["paid"]
    assert (calibrated["usd"], calibrated["usd_calibration"] > 0.5) == (0, True)
    assert youden("judge", "paid.yaml", "--max-cost", "0.3").code == 1
    ended = youden("plan", "paid.yaml", "--max-cost", "0.5", "--json")
    spent = ended.said["paid"]["usd"]
    assert 0 < spent <= 0.3
    assert ended.said["usd_left"] == pytest.approx(0.5 - spent)
    assert f"this run has paid ${spent:.4f} over all commands; calibrations of its judge have cost $0." in ended.err
    assert f"${0.5 - spent:.4f} remain of the cap of $0.5 for the run, and pay for about" in ended.err
    youden("run", "paid.yaml", "--max-cost", "50").well()
    before = youden("plan", "paid.yaml", "--json").said["paid"]
    (paid_folder / "runs/paid").rename(paid_folder / "runs/final")
    assert youden("plan", "runs/final/config.yaml", "--json").said["paid"] == before
    youden("extend", "calls", "runs/final", "20", "--max-cost", "9").well()
    assert youden("plan", "runs/final/config.yaml", "--json").said["paid"]["usd"] > before["usd"]


def test_trials_that_share_a_request_are_stated_with_the_calls(
    youden: Youden, paid_folder: Path, server: WireServer
) -> None:
    pool = make_pool(5, 8)
    texts = pool.texts.copy()
    texts[1] = texts[0]
    write_pool(replace(pool, texts=texts), paid_folder / "pool")
    planned = youden("plan", "paid.yaml", "--json")
    n_shared = planned.said["cost"]["n_shared"]
    assert n_shared > 0
    assert planned.said["cost"]["tokens_out"] == 110 - n_shared
    assert youden("judge", "paid.yaml", "--max-cost", "0.3").code == 1
    left = youden("plan", "paid.yaml", "--json").said["cost"]
    n_left = 110 - n_shared - server.n_requests
    assert left["usd_left"] / left["usd"] == pytest.approx(n_left / (110 - n_shared), rel=0.05)
    assert f"plan: {n_shared} of the 110 trials show the same two texts as another trial" in planned.err
    assert f"plan: {n_shared} of the 110 trials" in youden("run", "paid.yaml", "--max-cost", "9").well().err

    assert server.n_requests == 110 - n_shared
    calls = calls_of(paid_folder)
    assert (calls.n_shared, calls.n_reused) == (n_shared, 0)
    assert (
        f"110 of 110 answered, {n_shared} of them by the request of another trial"
        in youden("judge", "paid.yaml", "--max-cost", "9").err
    )
    assert f"{n_shared} trials were answered by the request of another trial" in (
        paid_folder / "runs/paid/report.html"
    ).read_text(encoding="utf-8")
    assert (
        f"{n_shared} trials were answered by the request of another trial"
        in youden("report", "runs/paid", "--format", "md").out
    )


def test_a_run_by_a_jury_keeps_its_totals_if_its_folder_is_renamed(
    youden: Youden, tmp_path: Path, server: WireServer
) -> None:
    members = [wire_judge(server.url, name=name, model=name, price=100, max_tokens=1) for name in ("first", "second")]
    write_small_run(tmp_path, "paid", judge={"name": "both", "backend": "jury", "vote": "mean", "judges": members})
    server.behave = honest
    youden("judge", "paid.yaml", "--max-cost", "50").well()
    before = calls_of(tmp_path)
    assert not_none(before.usd) == pytest.approx(2 * 110 * A_CALL)
    (tmp_path / "runs/paid").rename(tmp_path / "runs/final")
    youden("judge", "runs/final/config.yaml", "--max-cost", "50").well()
    assert calls_of(tmp_path, "runs/final") == before


def test_a_run_moved_with_its_store_keeps_its_totals(youden: Youden, paid_folder: Path) -> None:
    assert youden("judge", "paid.yaml", "--max-cost", "0.5", "--store", "runs/paid/verdicts.db").code == 1
    (paid_folder / "runs/paid").rename(paid_folder / "moved")
    words = ("--out", "moved", "--max-cost", "5")
    assert youden("judge", "paid.yaml", *words).code == 0
    assert calls_of(paid_folder, "moved").usd == pytest.approx(110 * A_CALL)
    assert not (paid_folder.parent / ".youden").exists()
