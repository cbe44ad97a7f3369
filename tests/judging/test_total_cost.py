"""Test that the totals of a run include all its invocations: interrupted, killed or resumed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commands import Youden, wire_judge, write_small_run
from narrowing import not_none
from small_pools import make_pool
from wire_server import Reply, WireServer
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.engines.block_sums import count_calls
from youden.types.facts import CallFacts

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


def test_every_invocation_is_in_the_totals_and_each_has_its_own_cap(
    youden: Youden, paid_folder: Path, server: WireServer
) -> None:
    requests: list[int] = []
    while (ended := youden("judge", "paid.yaml", "--max-cost", "0.6")).code == 1:
        requests.append(server.n_requests - sum(requests))
        assert requests[-1] * A_CALL <= 0.6
        assert "0.6 USD" in ended.err
    assert ended.code == 0, ended.err
    assert len(requests) >= 1
    calls = calls_of(paid_folder)
    assert calls.usd == pytest.approx(110 * A_CALL)
    assert calls.usd_calibration == 0
    assert youden("judge", "paid.yaml", "--max-cost", "0.6").code == 0
    assert calls_of(paid_folder).usd == pytest.approx(110 * A_CALL)


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


def test_a_plan_states_what_all_earlier_commands_have_cost(youden: Youden, paid_folder: Path) -> None:
    youden("calibrate", "paid.yaml", "--calls", "60", "--max-cost", "100")
    calibrated = youden("plan", "paid.yaml", "--json").said["cost"]["usd_spent"]
    assert calibrated > 0.5
    assert youden("judge", "paid.yaml", "--max-cost", "0.3").code == 1
    ended = youden("plan", "paid.yaml", "--json")
    spent = ended.said["cost"]["usd_spent"]
    assert calibrated < spent <= calibrated + 0.3
    assert f"earlier commands on this run have cost ${spent:.4f} in total" in ended.err
    youden("run", "paid.yaml", "--max-cost", "50").well()
    (paid_folder / "runs/paid").rename(paid_folder / "runs/final")
    before = youden("plan", "runs/final/config.yaml", "--json").said["cost"]["usd_spent"]
    assert before == pytest.approx(110 * A_CALL, abs=0.1)
    youden("extend", "calls", "runs/final", "20", "--max-cost", "9").well()
    assert youden("plan", "runs/final/config.yaml", "--json").said["cost"]["usd_spent"] > before


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
