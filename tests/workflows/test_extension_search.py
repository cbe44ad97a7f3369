"""Test `youden extend best`: the search of an extended run, in rounds that each leave a complete folder."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import yaml

import youden as youden_api
from commands import Youden, wire_judge, write_config
from narrowing import not_none
from small_pools import make_pool, part_of
from wire_server import Reply, WireServer, same_item
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.types import PAIRED

K, J = 6, 12


@pytest.fixture
def search_folder(tmp_path: Path, one_server: WireServer, youden: Youden, begun: Path) -> Path:
    """Create a judged run that two agents joined; agents with small numbers get more yes answers on the same item."""
    whole = make_pool(K + 2, J)
    strength = dict(zip(whole.texts.ravel().tolist(), np.repeat(np.arange(K + 2), J).tolist(), strict=True))

    def behave(_n: int, body: Mapping[str, Any]) -> Reply:
        said = json.dumps(body)
        agents = sorted(agent for text, agent in strength.items() if json.dumps(text)[1:-1] in said)
        return Reply("YES" if same_item(body) == "YES" and crc32(said.encode()) % 20 + sum(agents) < 16 else "NO")

    one_server.behave, one_server.n_requests = behave, 0
    if begun.exists():
        shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
        return tmp_path
    write_pool(part_of(whole, slice(K)), tmp_path / "old")
    write_pool(part_of(whole, slice(K, None)), tmp_path / "new")
    write_config(tmp_path / "r.yaml", pool="old", calls=140, independent="pooled:20", judge=wire_judge(one_server.url))
    assert youden("judge", "r.yaml").code == 0
    assert youden("fit", "runs/r").code == 0
    assert youden("extend", "agents", "runs/r", "new").code == 0
    shutil.copytree(tmp_path, begun)
    return tmp_path


@pytest.mark.slow
def test_an_extended_run_is_searched_further_and_its_config_repeats_the_complete_run(
    youden: Youden, search_folder: Path, one_server: WireServer
) -> None:
    folder, asked = RunFolder(search_folder / "runs/r"), one_server.n_requests
    dry = youden("extend", "best", "runs/r", "--top", "1", "--calls", "120", "--dry-run")
    assert (dry.code, one_server.n_requests) == (0, asked), dry.err
    ended = youden("extend", "best", "runs/r", "--top", "1", "--calls", "120").well()
    n = one_server.n_requests - asked
    assert f"search: 5 rounds, {n} calls; the calls are spent" in ended.err
    assert 100 <= n <= 120
    steps = yaml.safe_load((search_folder / "runs/r/config.yaml").read_text(encoding="utf-8"))["extensions"]
    assert [len(step["focus"]) for step in steps[1:]] == sorted(
        (len(step["focus"]) for step in steps[1:]), reverse=True
    )
    assert {step["top"] for step in steps[1:]} == {1}
    choice, plan = not_none(folder.read_facts().choice), folder.read_plan()
    assert len(choice.agents) == 1
    assert youden("run", "runs/r/config.yaml").code == 0
    assert one_server.n_requests - asked == n
    assert folder.read_plan().digest == plan.digest
    assert folder.read_facts().choice == choice


@pytest.mark.slow
def test_free_independent_trials_do_not_count_as_calls_of_a_search(tmp_path: Path) -> None:
    write_pool(make_pool(6, 12), tmp_path / "pool")
    run = youden_api.run(str(tmp_path / "pool"), calls=60, out=tmp_path / "r", progress=False)
    run.extend(top=1, calls=100, progress=False)
    plan = run.plan
    n_paired = np.bincount(plan.trials.step[plan.trial_type == PAIRED])
    assert len(n_paired) == 1 + 5  # the first plan and five rounds
    assert 80 <= n_paired[1:].sum() <= 100


@pytest.mark.slow
def test_a_search_ends_at_the_maximum_regret_and_then_sends_no_request(
    youden: Youden, search_folder: Path, one_server: WireServer
) -> None:
    folder, asked = RunFolder(search_folder / "runs/r"), one_server.n_requests
    before = not_none(folder.read_facts().choice)
    max_regret = f"{before.regret_bound * 0.8:.3f}"
    ended = youden("extend", "best", "runs/r", "--max-regret", max_regret).well()
    assert one_server.n_requests > asked
    after, asked = not_none(folder.read_facts().choice), one_server.n_requests
    assert ("regret bound is met" in ended.err) == (after.regret_bound <= float(max_regret))
    assert "regret bound is met" in ended.err or "all comparisons of the candidates" in ended.err
    again = youden("extend", "best", "runs/r", "--max-regret", max_regret)
    assert (again.code, one_server.n_requests) == (0, asked), again.err
    assert "no request is sent: " in again.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--top", "1"], "Set --calls N or --max-regret X."),
        (["--top", str(K + 2), "--calls", "50"], "selects all of them: got top"),
        (["--max-regret", "3"], "max-regret"),
    ],
)
def test_an_impossible_search_is_refused_before_a_call(
    youden: Youden, search_folder: Path, one_server: WireServer, options: list[str], said: str
) -> None:
    asked = one_server.n_requests
    ended = youden("extend", "best", "runs/r", *options)
    assert (ended.code, one_server.n_requests) == (2, asked), ended.err
    assert said in ended.err


def test_the_next_step_of_a_run_that_reached_its_half_width_adds_rounds_to_it(youden: Youden) -> None:
    write_config(Path("h.yaml"), pool="datasets/field-notes", half_width=0.2)
    ended = youden("run", "h.yaml", "--out", "w").well()
    assert "youden run w/config.yaml --half-width X" in " ".join(ended.err.split())
    n_trials = len(RunFolder(Path("w")).read_plan())
    youden("run", "w/config.yaml", "--half-width", "0.06").well()
    assert len(RunFolder(Path("w")).read_plan()) > n_trials


def test_the_next_step_of_a_run_that_is_a_search_is_a_command_that_works(youden: Youden) -> None:
    write_config(Path("s.yaml"), pool="datasets/field-notes", calls=300, top=1)
    next_step = re.search(
        r"next: `youden (run runs/s/config.yaml) --calls N --out NEW`", youden("run", "s.yaml").well().err
    )
    words = not_none(next_step)[1].split()
    youden(*words, "--calls", "600", "--out", "longer").well()
    assert len(RunFolder(Path("longer")).read_plan()) > len(RunFolder(Path("runs/s")).read_plan())


def test_the_next_step_of_a_search_that_reached_its_maximum_regret_is_a_smaller_one(
    youden: Youden, tmp_path: Path, one_server: WireServer
) -> None:
    write_pool(make_pool(6, 12), tmp_path / "equal")
    write_config(tmp_path / "s.yaml", pool="equal", max_regret=1.5, judge=wire_judge(one_server.url))
    said = youden("run", "s.yaml").well().err
    assert "the regret bound of the selected agents is small enough; next: for a longer search, set a smaller" in said
    assert "--calls N" not in said
