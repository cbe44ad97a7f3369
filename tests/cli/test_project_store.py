"""Test that a project has one store, so that no folder, command or process pays for a request twice."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import yaml

from commands import Youden, wire_judge, write_small_run
from stops import Size, bench
from unruly_server import UnrulyServer
from wire_server import Reply, WireServer
from youden.data.folder.folder_lock import folder_lock
from youden.data.folder.run_folder import RunFolder
from youden.errors import JudgeError
from youden.judging.store.answers import open_store
from youden.study.replaying import read_usd_per_call
from youden.types import Completion

CALLS = 110


def any_text(_n: int, body: Mapping[str, Any]) -> Reply:
    """Answer texts of any pool, not only of `make_pool`."""
    return Reply("YES" if crc32(json.dumps(body).encode()) % 2 else "NO")


@pytest.fixture
def project_folder(tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("YOUDEN_STORE", raising=False)
    write_small_run(tmp_path, judge=wire_judge(server.url))
    return tmp_path


@pytest.mark.slow
def test_runs_of_a_project_share_a_store_that_git_ignores_and_the_plan_line_names(
    youden: Youden, project_folder: Path, server: WireServer
) -> None:
    ended = youden("run", "r.yaml").well()
    assert ended.err.count(".youden/answers.db") == 1
    assert (project_folder / ".youden/.gitignore").read_text() == "*\n"
    assert not (project_folder / "runs/r/verdicts.db").exists()
    assert yaml.safe_load((project_folder / "runs/r/config.yaml").read_text())["store"] == "../../.youden/answers.db"
    assert server.n_requests == CALLS
    assert youden("run", "r.yaml", "--out", "runs/other").code == 0
    (project_folder / "deeper/still").mkdir(parents=True)
    os.chdir(project_folder / "deeper/still")
    assert youden("run", str(project_folder / "r.yaml"), "--out", "third").code == 0
    assert server.n_requests == CALLS
    os.chdir(project_folder)
    shutil.move(project_folder / "runs", project_folder / "moved")
    assert youden("run", "moved/r/config.yaml").code == 0
    assert server.n_requests == CALLS
    shutil.move(project_folder / "moved/r", project_folder / "r")
    assert youden("run", "r.yaml", "--out", "r").code == 0
    assert youden("extend", "calls", "r", "30").code == 0
    assert server.n_requests == CALLS + 30
    assert not (project_folder.parent / ".youden").exists()


def test_the_project_directory_contains_git_or_pyproject_unless_a_store_exists(
    youden: Youden, project_folder: Path, server: WireServer
) -> None:
    (project_folder / "pyproject.toml").touch()
    (project_folder / "deeper").mkdir()
    os.chdir(project_folder / "deeper")
    assert youden("run", "../r.yaml").code == 0
    assert (project_folder / ".youden/answers.db").is_file()
    assert not (project_folder / "deeper/.youden").exists()


def test_a_project_without_answers_does_not_use_the_store_of_a_project_above_it(
    youden: Youden, project_folder: Path, server: WireServer
) -> None:
    assert youden("run", "r.yaml").code == 0
    inner_folder = project_folder / "inner"
    (inner_folder / ".youden").mkdir(parents=True)
    os.chdir(inner_folder)
    assert youden("run", "../r.yaml").code == 0
    assert (inner_folder / ".youden/answers.db").is_file()
    assert server.n_requests == 2 * CALLS


@pytest.mark.posix
def test_a_symlink_in_the_project_directory_creates_no_file_elsewhere(youden: Youden, project_folder: Path) -> None:
    (project_folder / "elsewhere").mkdir()
    (project_folder / ".youden").mkdir()
    (project_folder / ".youden/.gitignore").symlink_to(project_folder / "elsewhere/new")
    assert youden("run", "r.yaml").code == 0
    assert not [*(project_folder / "elsewhere").iterdir()]


def test_the_documented_workflow_leaves_the_project_directory_to_youden() -> None:
    workflow = Path(__file__).parents[2] / "docs/github-actions/live.yml"
    steps = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]["gate"]["steps"]
    assert {step["with"]["path"] for step in steps if "path" in step.get("with", {})} == {"youden-action"}


@pytest.mark.slow
def test_the_forecast_cost_omits_answers_that_another_run_paid_for(
    youden: Youden, project_folder: Path, server: WireServer
) -> None:
    write_small_run(project_folder, judge=wire_judge(server.url, price=1000))
    assert youden("run", "r.yaml", "--max-cost", "10000").code == 0
    assert youden("run", "r.yaml", "--max-cost", "10000", "--out", "runs/other").code == 0
    each = read_usd_per_call(RunFolder(project_folder / "runs/r"))
    assert each
    assert read_usd_per_call(RunFolder(project_folder / "runs/other")) is None
    assert youden("extend", "calls", "runs/other", "30", "--max-cost", "10000").code == 0
    assert read_usd_per_call(RunFolder(project_folder / "runs/other")) == pytest.approx(each, rel=0.1)


def test_a_plan_states_how_many_answers_are_stored_under_other_settings(
    youden: Youden, project_folder: Path, server: WireServer
) -> None:
    for name, keys in (("a", {"max_tokens": 1}), ("b", {"max_tokens": 7, "temperature": 0.5, "seed": 3})):
        write_small_run(project_folder, name, judge=wire_judge(server.url, **keys))
    assert youden("judge", "a.yaml").code == 0
    assert youden("plan", "a.yaml", "--out", "again", "--json").said["cost"]["other_settings"] == ""

    ended = youden("plan", "b.yaml", "--json")
    settings = "temperature: 0.0 instead of 0.5, seed: null instead of 3, max_tokens: 1 instead of 7"
    cost = ended.said["cost"]
    assert (cost["n_other_settings"], cost["other_settings"]) == (110, settings)
    expected = f"plan: the store has answers to 110 of these trials under other settings of the judge ({settings})"
    assert expected in ended.err
    assert expected in youden("run", "b.yaml").err


def test_answers_of_the_other_judges_of_a_jury_are_not_answers_under_other_settings(
    youden: Youden, project_folder: Path, server: WireServer
) -> None:
    judges = [wire_judge(server.url, model=model) for model in ("m", "n")]
    write_small_run(project_folder, "jury", judge={"backend": "jury", "judges": judges, "vote": "mean"})
    assert youden("judge", "r.yaml").code == 0  # the answers of the first judge of the jury
    ended = youden("plan", "jury.yaml", "--json")
    assert ended.said["cost"]["stored"] == CALLS
    assert ended.said["cost"]["n_other_settings"] == 0
    assert f"{2 * CALLS} calls (34.4% of dense)" in ended.err  # 110 of 320 trials


def test_a_judge_without_calls_creates_no_store(youden: Youden, project_folder: Path) -> None:
    write_small_run(project_folder, judge="lexical")
    assert ".youden" not in youden("run", "r.yaml").well().err
    assert not (project_folder / ".youden").exists()
    assert "store" not in yaml.safe_load((project_folder / "runs/r/config.yaml").read_text())


@pytest.mark.slow
def test_calibration_rejudging_and_stress_use_the_project_store(
    youden: Youden, project_folder: Path, server: WireServer
) -> None:
    server.behave = any_text
    assert "finds their answers in .youden/answers.db" in youden("calibrate", "r.yaml", "--calls", "60").err
    assert youden("run", "r.yaml").code == 0
    (project_folder / "b.yaml").write_text(json.dumps(wire_judge(server.url, model="b", name="b")))
    for words in (
        ["rejudge", "runs/r", "--judge", "b.yaml", "--calls", "60"],
        ["stress", "runs/r", "--attack", "clones"],
    ):
        assert ".youden/answers.db" in youden(*words).well().err
        n_requests = server.n_requests
        assert youden(*words).code == 0
        assert server.n_requests == n_requests
    assert [path.relative_to(project_folder).as_posix() for path in project_folder.rglob("*.db")] == [
        ".youden/answers.db"
    ]


@pytest.mark.slow
def test_a_retest_of_the_same_judge_sends_requests_despite_answers_in_the_project(
    youden: Youden, project_folder: Path, server: WireServer
) -> None:
    assert youden("run", "r.yaml").code == 0
    (project_folder / "same.yaml").write_text(json.dumps(wire_judge(server.url)))
    words = ("rejudge", "runs/r", "--judge", "same.yaml", "--calls", "60")
    n = youden(*words, "--json").said["cost"]["calls"]
    assert server.n_requests == CALLS + n
    assert youden(*words).code == 0
    assert server.n_requests == CALLS + n


@pytest.mark.slow
def test_a_run_uses_the_store_that_its_folder_names(
    youden: Youden, project_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.behave = any_text
    assert youden("run", "r.yaml", "--store", "mine.db").code == 0
    for environment in ("", "other.db"):
        monkeypatch.setenv("YOUDEN_STORE", environment)
        for words in ("run r.yaml", "judge r.yaml", "run runs/r/config.yaml", "calibrate r.yaml --calls 60"):
            assert "mine.db" in youden(*words.split()).err
    assert not (project_folder / ".youden").exists()
    assert not (project_folder / "other.db").exists()


def test_the_config_takes_precedence_over_the_environment_and_that_over_the_default(
    youden: Youden, project_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YOUDEN_STORE", "environment.db")
    assert "environment.db" in youden("plan", "r.yaml").err
    with (project_folder / "r.yaml").open("a") as file:
        file.write("store: config.db\nout: runs/second\n")
    assert "config.db" in youden("plan", "r.yaml").err
    assert "option.db" in youden("plan", "r.yaml", "--store", "option.db", "--out", "runs/third").err


@pytest.mark.slow
def test_a_run_of_an_earlier_version_finds_the_store_in_its_folder(
    youden: Youden, project_folder: Path, server: WireServer
) -> None:
    assert youden("run", "r.yaml", "--store", "runs/r/verdicts.db").code == 0
    config = project_folder / "runs/r/config.yaml"
    config.write_text(yaml.safe_dump({k: v for k, v in yaml.safe_load(config.read_text()).items() if k != "store"}))
    assert youden("run", "r.yaml").code == 0
    assert youden("extend", "calls", "runs/r", "30").code == 0
    assert server.n_requests == CALLS + 30
    assert not (project_folder / ".youden").exists()


@pytest.mark.slow
@pytest.mark.parametrize("whole", [True, False])
def test_another_store_is_refused_until_the_answers_are_copied(
    youden: Youden, project_folder: Path, server: WireServer, whole: bool
) -> None:
    if not whole:
        well = server.behave
        server.behave = lambda n, body: well(n, body) if n < 50 else Reply("", status=401)
    ended = youden("run", "r.yaml", "--store", "mine.db")
    assert (ended.code == 0) == whole
    if not whole:
        server.behave = well
    n_requests = server.n_requests
    for words in (["run", "r.yaml"], ["judge", "r.yaml"], ["plan", "r.yaml"]):
        ended = youden(*words, "--store", "other.db")
        assert ended.refuses("run-store"), ended.err
        assert "that runs/r keeps in mine.db" in ended.err
    assert server.n_requests == n_requests
    copy = ended.err.split("`youden ")[1].split("`")[0]
    assert youden(*copy.split()).code == 0
    assert youden("run", "r.yaml", "--store", "other.db").code == 0
    assert server.n_requests == n_requests if whole else server.n_requests <= n_requests + CALLS - 40
    assert yaml.safe_load((project_folder / "runs/r/config.yaml").read_text())["store"] == "../../other.db"


def lose_answers(store: Path, lost: str) -> None:
    """Delete the store ("all"), or every second answer in it ("some")."""
    if lost == "all":
        shutil.rmtree(store.parent)
        return
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("DELETE FROM answers WHERE rowid % 2")


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["all", "some"])
def test_answers_that_the_store_lost_are_taken_from_the_folder(
    youden: Youden, project_folder: Path, server: WireServer, lost: str
) -> None:
    assert youden("run", "r.yaml").code == 0
    ranking, store = (project_folder / "runs/r/ranking.csv").read_bytes(), project_folder / ".youden/answers.db"
    before = json.loads((project_folder / "runs/r/fit.json").read_text())["calls"]

    lose_answers(store, lost)
    ended = youden("run", "r.yaml").well()
    assert server.n_requests == CALLS
    assert "taken from the run's own verdicts.parquet" in ended.err
    assert (project_folder / "runs/r/ranking.csv").read_bytes() == ranking
    after = json.loads((project_folder / "runs/r/fit.json").read_text())["calls"]
    assert after == before
    lose_answers(store, lost)
    n = youden("extend", "calls", "runs/r", "30", "--json").said["cost"]["calls"]
    assert server.n_requests == CALLS + n
    assert youden("run", "runs/r/config.yaml").code == 0
    assert server.n_requests == CALLS + n


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["all", "some"])
def test_a_jury_whose_store_lost_answers_sends_no_request_again(
    youden: Youden, project_folder: Path, server: WireServer, lost: str
) -> None:
    for name in "abc":
        (project_folder / f"{name}.yaml").write_text(json.dumps(wire_judge(server.url, model=name, name=name)))
    write_small_run(project_folder, judge={"backend": "jury", "name": "j", "judges": ["a.yaml", "b.yaml", "c.yaml"]})
    assert youden("run", "r.yaml").code == 0
    ranking = (project_folder / "runs/r/ranking.csv").read_bytes()
    lose_answers(project_folder / ".youden/answers.db", lost)
    youden("run", "r.yaml").well()
    assert server.n_requests == 3 * CALLS
    assert (project_folder / "runs/r/ranking.csv").read_bytes() == ranking


@pytest.mark.slow
def test_a_run_with_a_damaged_store_resumes_with_another_store(
    youden: Youden, project_folder: Path, server: WireServer
) -> None:
    assert youden("run", "r.yaml", "--store", "mine.db").code == 0
    (project_folder / "mine.db").write_bytes(b"no database" * 1000)
    assert youden("run", "r.yaml").refuses("store-corrupt")
    assert youden("run", "r.yaml", "--store", "saved.db").code == 0
    assert server.n_requests == CALLS


def test_a_mistyped_address_of_a_store_does_not_block_the_run(
    youden: Youden, project_folder: Path, server: WireServer, caplog: pytest.LogCaptureFixture
) -> None:
    for command in ("plan", "run"):
        assert youden(command, "r.yaml", "--store", "mysql://host/answers").refuses("store-url")
    assert not (project_folder / "runs/r/config.yaml").exists()
    youden("plan", "r.yaml", "--store", "mine.db").well()
    config = project_folder / "runs/r/config.yaml"
    config.write_text(config.read_text().replace("store: ../../mine.db", "store: mysql://host/answers"))
    youden("run", "r.yaml", "--store", "mine.db").well()
    assert "mysql://host/answers of runs/r cannot be reached" in caplog.text
    assert server.n_requests == CALLS


@pytest.mark.slow
@pytest.mark.posix
def test_a_symlink_to_the_store_is_the_same_store(youden: Youden, project_folder: Path, server: WireServer) -> None:
    assert youden("run", "r.yaml", "--store", "mine.db").code == 0
    (project_folder / "link.db").symlink_to("mine.db")
    assert youden("run", "r.yaml", "--store", "link.db").code == 0
    assert server.n_requests == CALLS


def test_a_run_folder_is_locked_for_other_processes_with_any_store(
    youden: Youden, project_folder: Path, server: WireServer
) -> None:
    assert youden("plan", "r.yaml", "--store", "mine.db").code == 0
    with folder_lock(project_folder / "runs/r"):
        for words in (["run", "r.yaml", "--store", "mine.db"], ["judge", "r.yaml"]):
            assert youden(*words).refuses("run-busy")
        with pytest.raises(JudgeError, match="run-busy"), folder_lock(project_folder / "runs/r"):
            pass
    assert server.n_requests == 0
    assert youden("run", "r.yaml").code == 0


def test_two_hard_links_are_one_store_even_after_a_kill(tmp_path: Path) -> None:
    first, second = tmp_path / "a.db", tmp_path / "deeper/b.db"
    second.parent.mkdir()
    answer = Completion("YES", "stop", "m", 1, 1)
    with open_store(first) as store:
        store.add("a" * 64, answer)
        store.flush()
        os.link(first, second)
        with open_store(second) as alternative, open_store(second, read_only=True) as read:
            assert set(read.answers(["a" * 64])) == {"a" * 64}
            alternative.add("b" * 64, answer)
            alternative.flush()
            assert set(store.answers(["b" * 64])) == {"b" * 64}
    assert not list(second.parent.glob("b.db-*"))
    first.unlink()
    with open_store(second) as store:
        assert len(store) == 2


@pytest.mark.slow
@pytest.mark.parametrize("together", ["one folder, two stores", "two folders, two hard links"])
async def test_two_simultaneous_processes_pay_for_no_request_twice(tmp_path: Path, together: str) -> None:
    async with UnrulyServer() as server:
        run = await bench(tmp_path, server, size=Size(calls=300, slowest=0.3))
        with open_store(tmp_path / "a.db"):
            pass
        words: list[tuple[str, ...]]
        if together == "one folder, two stores":
            words = [("run", "r.yaml", "--store", name) for name in ("a.db", "b.db")]
        else:
            os.link(tmp_path / "a.db", tmp_path / "b.db")
            words = [("run", "r.yaml", "--store", name, "--out", f"runs/{name}") for name in ("a.db", "b.db")]
        results = await asyncio.gather(*(run.start(*word) for word in words))
        ended = await asyncio.gather(*(run.end(process, within=300) for process in results))
        assert server.bill.n_paid_twice == 0
        assert 0 in [word.code for word in ended], [word.output for word in ended]
        if together == "one folder, two stores":
            assert sorted(word.code for word in ended) == [0, 2]
            assert any("[run-busy]" in word.output or "[run-store]" in word.output for word in ended)
        else:
            assert [word.code for word in ended] == [0, 0]
