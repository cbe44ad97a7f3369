"""Folders that 0.1.0 wrote go on: they resume without a call, extend and are gated, though draws and defaults have changed."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from commands import Youden
from pools import make_pool
from wire_server import Reply, WireServer
from youden import streams
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.writer import write_pool
from youden.judging.config.reading import load_judge_config
from youden.nouns import Plan, Pool
from youden.protocol import budget as planning
from youden.protocol.extension.blocks import extensions_of

FOLDERS = Path(__file__).parent / "data" / "folders-0.1.0"
RUNS = ("default", "extended", "rejudged", "adaptive")


def behave(_n: int, body: Mapping[str, Any]) -> Reply:
    """What answered when the folders were made: yes on the same item in six of ten comparisons."""
    said = body["messages"][-1]["content"]
    items = re.findall(r"says something of item (\d+)", said)
    texts = str(re.findall(r"agent \d+ says something of item \d+", said))
    drawn = int(hashlib.sha256(texts.encode()).hexdigest(), 16) % 10
    return Reply("YES" if items[0] == items[1] and drawn < 6 else "NO")


@pytest.fixture
def here(tmp_path: Path, youden: Youden) -> Path:
    """The folders as 0.1.0 left them. Nobody answers at their judge's address, so that any call would fail."""
    shutil.copytree(FOLDERS, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def moved(here: Path, server: WireServer) -> Path:
    """The folders as if 0.1.0 had asked a server that can be reached: the address is part of a judge and of every key."""
    server.behave = behave
    keys: dict[str, str] = {}
    for judge in ("judge.yaml", "second.yaml"):
        said = yaml.safe_load((here / judge).read_text())
        old, new = (load_judge_config(said | {"base_url": url}).questions() for url in (said["base_url"], server.url))
        for run in RUNS:
            folder = RunFolder(here / "runs" / run)
            asked = folder.read_plan(), folder.run_pool()
            keys |= {key: other for (_, key, _), (_, other, _) in zip(old.all(*asked), new.all(*asked), strict=True)}
        (here / judge).write_text(yaml.safe_dump(said | {"base_url": server.url}))
    with sqlite3.connect(here / "answers.db") as store:
        store.executemany("UPDATE answers SET key = ? WHERE key = ?", [(new, old) for old, new in keys.items()])
    store.close()
    for run in RUNS:
        folder = RunFolder(here / "runs" / run)
        result = folder.read_verdicts(folder.read_plan())
        folder.write_verdicts(replace(result, judge={**result.judge, "base_url": server.url}))
    return here


@pytest.fixture
def redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later youden: other random numbers, another default budget."""
    for number, name in enumerate(streams.KEYS):
        monkeypatch.setitem(streams.KEYS, name, 100 + number)
    monkeypatch.setattr(planning, "LEAST_CALLS_AN_AGENT", 10)


@pytest.mark.parametrize("run", RUNS)
def test_a_plan_of_0_1_0_opens_to_the_plan_it_was(run: str) -> None:
    folder = RunFolder(FOLDERS / "runs" / run)
    plan = folder.read_plan()
    assert plan.digest == folder.judged_plan()
    assert plan.said == folder.read_signature().parts["options"]
    assert plan.draw == 1
    assert plan.asked is None
    steps, rounds = extensions_of(plan).steps, plan.rounds
    assert [step.kind for step in steps] == (["agents"] if run == "extended" else [])
    assert (rounds is not None) == (run == "adaptive")
    assert plan.n_independent == {"default": 72, "extended": 20, "rejudged": None, "adaptive": 10}[run]


def test_a_plan_of_0_1_0_is_the_same_written_anew(tmp_path: Path) -> None:
    for run in RUNS:
        plan, folder = RunFolder(FOLDERS / "runs" / run).read_plan(), RunFolder(tmp_path / run)
        folder.write_plan(plan)
        again = RunFolder(tmp_path / run).read_plan()
        assert (again.digest, again.said, again.draw, again.notes) == (plan.digest, plan.said, 1, plan.notes)


@pytest.mark.parametrize("run", RUNS)
def test_a_run_of_0_1_0_resumes_without_a_call_and_ranks_as_before(
    youden: Youden, here: Path, redrawn: None, run: str
) -> None:
    before = RunFolder(here / "runs" / run).read_ranking()
    ended = youden("run", f"runs/{run}/config.yaml")
    assert ended.code == 0, ended.err
    after = RunFolder(here / "runs" / run).read_ranking()
    was, now = ({row.agent: (row.ability, row.n_trials) for row in rows} for rows in (before, after))
    # 0.1.0 let what the pairs of a round have of their own move an adaptive run's abilities, and ranked a part of a plan by cells
    moved = {"adaptive": 0.004, "rejudged": 0.05}.get(run, 1e-12)
    assert {agent: ability for agent, (ability, _) in now.items()} == pytest.approx(
        {agent: ability for agent, (ability, _) in was.items()}, abs=moved
    )
    assert {agent: n for agent, (_, n) in now.items()} == {agent: n for agent, (_, n) in was.items()}
    assert run == "rejudged" or list(now) == list(was)
    assert all(row.error is None for row in before)
    assert all(row.error for row in after)
    if run in ("default", "adaptive"):
        ended = youden("run", f"{run}.yaml", "--out", f"runs/{run}")
        assert ended.code == 0, ended.err


def test_a_run_that_was_stopped_while_asking_goes_on_with_the_plan_in_its_folder(
    youden: Youden, here: Path, redrawn: None
) -> None:
    folder = RunFolder(here / "runs/default")
    folder.remove("verdicts.parquet")
    digest = folder.read_plan().digest
    ended = youden("run", "default.yaml")
    assert ended.code == 0, ended.err
    assert folder.read_plan().digest == digest


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("default", ["--agents", "more"]),
        ("extended", ["--agents", "newer"]),
        ("extended", ["--calls", "6", "--focus", "a4"]),
    ],
)
@pytest.mark.usefixtures("redrawn")
def test_a_run_of_0_1_0_is_extended_by_new_comparisons_alone(
    youden: Youden, moved: Path, server: WireServer, run: str, words: list[str]
) -> None:
    write_pool(part_of_pool(), moved / "newer")
    before = RunFolder(moved / "runs" / run).read_plan()
    ended = youden("extend", f"runs/{run}", *words, "--json")
    assert ended.code == 0, ended.err
    after = RunFolder(moved / "runs" / run).read_plan()
    assert after.trials.starts_with(before.trials)
    assert 0 < server.n_requests <= len(after) - len(before) == json.loads(ended.out)["cost"]["calls"]
    assert distinct(after) == len(after)


def part_of_pool() -> Pool:
    """An agent that no folder has."""
    pool = make_pool(6, 6)
    return replace(pool, agents=pool.agents[5:], texts=pool.texts[5:])


def distinct(plan: Plan) -> int:
    rows = np.stack([plan.item, plan.first, plan.second, plan.other_item, plan.replicate])
    return int(np.unique(rows, axis=1).shape[1])


@pytest.mark.parametrize("run", RUNS)
def test_a_run_of_0_1_0_is_gated(youden: Youden, here: Path, redrawn: None, run: str) -> None:
    ended = youden("gate", f"runs/{run}", "--agent", "a1", "--baseline", "a0", "--json")
    assert ended.code in (0, 1, 3), ended.err
    assert json.loads(ended.out)["agents"][0]["agent"] == "a1"


@pytest.mark.parametrize("run", ["default", "extended"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", 4),
        ("calls", 60),
        ("percent", 50.0),
        ("design", "dense"),
        ("holdout", 0.2),
        ("independent", "twin"),
        ("n_independent", 19),
        ("options", {"pairs": "unordered"}),
    ],
)
def test_a_config_edited_to_mean_another_plan_is_refused_by_name(
    youden: Youden, here: Path, run: str, key: str, value: object
) -> None:
    place = here / "runs" / run / "config.yaml"
    config = yaml.safe_load(place.read_text())
    if key == "percent":
        config.pop("calls", None)
    if (key, value) == ("independent", "twin"):
        config.pop("n_independent", None)
    place.write_text(yaml.safe_dump(config | {key: value}))
    ended = youden("run", f"runs/{run}/config.yaml")
    assert ended.code == 2
    assert "[run-other]" in ended.err, ended.err
    assert f"{key} was" in " ".join(ended.err.split()), ended.err


def test_a_line_taken_out_of_a_config_means_another_plan(youden: Youden, moved: Path) -> None:
    config = {"pool": "pool", "judge": "judge.yaml", "calls": 100, "n_independent": 20}
    (moved / "mine.yaml").write_text(yaml.safe_dump(config))
    assert youden("run", "mine.yaml").code == 0
    del config["n_independent"]
    (moved / "mine.yaml").write_text(yaml.safe_dump(config))
    ended = youden("run", "mine.yaml")
    assert (ended.code, "[run-other]" in ended.err) == (2, True), ended.err
    assert "n_independent was 20 and is left out" in " ".join(ended.err.split())


def test_the_config_in_a_folder_says_how_its_plan_was_drawn(youden: Youden, here: Path) -> None:
    assert youden("plan", "default.yaml", "--out", "new").code == 0
    drawn = yaml.safe_load((here / "new/config.yaml").read_text())["drawn"]
    plan = RunFolder(here / "new").read_plan()
    assert drawn == {"version": streams.DRAW, "pool": plan.pool_digest, "budget": 192}
    assert len(plan) <= drawn["budget"]


def test_a_config_from_a_folder_keeps_its_budget_where_the_default_has_changed(
    youden: Youden, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "some.yaml").write_text(yaml.safe_dump({"pool": "pool", "judge": "judge.yaml", "n_independent": 9}))
    with monkeypatch.context() as patch:
        patch.setattr(planning, "LEAST_CALLS_AN_AGENT", 10)
        assert youden("plan", "some.yaml").code == 0
    assert youden("plan", "runs/some/config.yaml", "--out", "copy").code == 0
    assert youden("plan", "some.yaml", "--out", "other").code == 0
    first, copy, other = (RunFolder(here / name).read_plan() for name in ("runs/some", "copy", "other"))
    assert first.digest == copy.digest
    assert len(other) > len(first)
