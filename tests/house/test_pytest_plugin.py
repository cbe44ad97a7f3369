"""Test the marker and fixture `youden_cassette` in a test suite of a user."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import tomllib
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import youden
from judged import KEY, dense_plan
from small_pools import make_pool
from wire_server import Reply, WireServer, same_item
from youden.data.pools.pool_reader import write_pool
from youden.errors import ConfigError, JudgeError, ReplayMissError
from youden.judging.offline.cassette_file import read_cassette
from youden.judging.offline.tape import CassetteRecorder, format_difference, use_cassette
from youden.types.pool import Json

pytest_plugins = ["pytester"]

for module in (
    "pipeline.judged_run",
    "report.pages.writing",
    "cli.run",
    "cli.pools",
    "pools.generation.generate",
    "judging.backends.openai",
):
    import_module(
        f"youden.{module}"
    )  # pytester unloads modules that its tests import, and numpy cannot be imported twice
import_module("vl_convert")

PLUGIN = ("-p", "youden.pytest_plugin", "-W", "ignore:Module already imported")
"""Load the plugin by name, because pytester ignores entry points; pytest before 9.1 warns that it is imported already."""

TEST = """
import pytest
import youden

JUDGE = {{"backend": "openai", "model": "m", "base_url": "{url}", "backoff": 0.001, "concurrency": 4, "price": 1.0}}


@pytest.mark.youden_cassette("mine"{mode})
def test_it(tmp_path, youden_cassette):
    pool = youden.read_pool("{pool}")
    plan = youden.make_plan(pool, calls={calls}, independent="pooled:10")
    result = youden.judge(plan, judge=JUDGE, store=tmp_path / "v.db", max_cost=1.0, max_missing=0.1)
    print("cost", f"{{result.total_usd:.6f}}", "missing", (result.missing_reason > 0).sum())
    print("played", youden_cassette.n_played, "recorded", youden_cassette.n_recorded)
"""


class Suite:
    """Folder with one test, which runs with or without a key."""

    def __init__(self, pytester: pytest.Pytester, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester, self.server, self.monkeypatch = pytester, server, monkeypatch
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        # a test rewritten in the same second with the same length would be taken for the compiled one
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        write_pool(make_pool(5, 8), pytester.path / "pool")
        self.file = pytester.path / "cassettes" / "mine.jsonl"

    def run(self, *words: str, calls: int = 60, mode: str = "", key: bool = True) -> tuple[dict[str, int], str]:
        self.monkeypatch.setenv("OPENAI_API_KEY", KEY if key else "")
        pool = self.pytester.path / "pool"
        self.pytester.makepyfile(test_mine=TEST.format(url=self.server.url, pool=pool, calls=calls, mode=mode))
        ran = self.pytester.runpytest_inprocess("-s", *PLUGIN, *words)
        return ran.parseoutcomes(), ran.stdout.str()


@pytest.fixture
def suite(pytester: pytest.Pytester, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Suite:
    return Suite(pytester, server, monkeypatch)


def line(said: str, word: str) -> str:
    return next(entry[entry.index(word) :] for entry in said.splitlines() if word in entry)


@pytest.mark.slow
def test_a_test_is_recorded_once_and_replayed_offline_at_the_same_cost(suite: Suite) -> None:
    odd = {3: Reply("Hm."), 9: Reply(status=400)}
    suite.server.behave = lambda n, body: odd.get(n, Reply(same_item(body)))
    outcome, first = suite.run("--youden-cassettes=once")
    assert outcome == {"passed": 1}
    assert line(first, "played ") == "played 0 recorded 60"
    assert line(first, "cost 0").endswith("missing 2")
    before = suite.file.read_bytes()
    assert KEY.encode() not in before
    for mode in ("none", "once"):
        outcome, again = suite.run(f"--youden-cassettes={mode}", key=False)
        assert outcome == {"passed": 1}
        assert line(again, "played ") == "played 60 recorded 0"
        assert line(again, "cost 0") == line(first, "cost 0")
    assert suite.server.n_requests == 60
    assert suite.file.read_bytes() == before


@pytest.mark.slow
def test_an_unknown_request_fails_with_its_difference_from_the_nearest_recorded_one(suite: Suite) -> None:
    suite.run(mode=", mode='once'")
    pool = make_pool(5, 8)
    texts = np.vectorize(lambda text: text.replace("says something of", "said, of all things, a word about"))(
        pool.texts
    ).astype(object)
    write_pool(type(pool)(pool.agents, pool.items, texts), suite.pytester.path / "pool")
    outcome, output = suite.run(mode=", mode='once'")
    assert outcome == {"failed": 1}
    assert "ReplayMissError" in output
    assert re.search(r"-agent \d says something of item \d", output)
    assert re.search(r"\+agent \d said, of all things, a word about item \d", output)
    assert "[cassette-miss]" in output
    assert suite.server.n_requests == 60


@pytest.mark.slow
def test_mode_new_sends_only_unrecorded_requests_and_all_sends_every_request(suite: Suite) -> None:
    suite.run(mode=", mode='all'")
    before = set(suite.file.read_text(encoding="utf-8").splitlines())
    outcome, output = suite.run(mode=", mode='new'", calls=80)
    assert outcome == {"passed": 1}
    n_new = suite.server.n_requests - 60
    assert 20 <= n_new < 80
    assert line(output, "played ") == f"played {80 - n_new} recorded {n_new}"
    assert before < set(suite.file.read_text(encoding="utf-8").splitlines())
    _, output = suite.run(mode=", mode='all'")
    assert line(output, "played ") == "played 0 recorded 60"
    assert set(suite.file.read_text(encoding="utf-8").splitlines()) == before


def test_a_missing_cassette_and_an_unknown_mode_are_errors(suite: Suite) -> None:
    outcome, output = suite.run()
    assert outcome == {"errors": 1}
    assert "There is no cassette at" in output
    assert "[cassette-missing]" in output
    assert suite.run(mode=", mode='some'")[0] == {"errors": 1}
    assert suite.run(mode=", node='none'")[0] == {"errors": 1}
    assert suite.server.n_requests == 0


@pytest.mark.slow
def test_commands_in_the_same_process_are_replayed(suite: Suite) -> None:
    suite.pytester.makepyfile(
        test_command=f"""
        import json
        import pytest
        from click.testing import CliRunner
        from youden.cli import youden

        @pytest.mark.youden_cassette
        def test_it(tmp_path):
            judge = {{"backend": "openai", "model": "m", "base_url": "{suite.server.url}", "api_key_env": None, "price": 0}}
            config = {{"pool": "{suite.pytester.path / "pool"}", "calls": 60, "independent": "pooled:10", "judge": judge}}
            (tmp_path / "c.yaml").write_text(json.dumps(config))
            ended = CliRunner().invoke(youden, ["run", str(tmp_path / "c.yaml"), "--out", str(tmp_path / "run")])
            assert ended.exit_code == 0, ended.exception
        """
    )
    for mode in ("once", "none"):
        ran = suite.pytester.runpytest_inprocess(*PLUGIN, f"--youden-cassettes={mode}")
        ran.assert_outcomes(passed=1)
    assert suite.server.n_requests == 60
    assert (suite.pytester.path / "cassettes" / "test_it.jsonl").is_file()


def test_pools_generated_in_the_same_process_are_replayed(suite: Suite) -> None:
    model = {"backend": "openai", "model": "m", "base_url": suite.server.url, "price": 0}
    agents = [{"id": name, "model": "m", "instruction": "mine.md"} for name in ("a", "b")]
    (suite.pytester.path / "mine.md").write_text("Rewrite {{text}}", encoding="utf-8")
    (suite.pytester.path / "a.yaml").write_text(
        json.dumps({"models": {"m": model}, "agents": agents}), encoding="utf-8"
    )
    (suite.pytester.path / "items.jsonl").write_text('{"id": "i", "prompt": "Rivers rise."}\n', encoding="utf-8")
    suite.pytester.makepyfile(
        test_command="""
        import pytest
        from click.testing import CliRunner
        from youden import read_pool
        from youden.cli import youden

        @pytest.mark.youden_cassette("made")
        def test_it(tmp_path, youden_cassette):
            ended = CliRunner().invoke(youden, ["generate", "a.yaml", "items.jsonl", "--out", str(tmp_path / "made")])
            assert ended.exit_code == 0, ended.exception
            assert sorted(read_pool(tmp_path / "made").texts.ravel()) == ["said 0", "said 1"]
            print("played", youden_cassette.n_played, "recorded", youden_cassette.n_recorded)
        """
    )
    suite.server.behave = lambda n, _body: Reply(f"said {n}")
    for mode, key, counts in (("once", KEY, "played 0 recorded 2"), ("none", "", "played 2 recorded 0")):
        suite.monkeypatch.setenv("OPENAI_API_KEY", key)
        ran = suite.pytester.runpytest_inprocess("-s", *PLUGIN, f"--youden-cassettes={mode}")
        ran.assert_outcomes(passed=1)
        assert line(ran.stdout.str(), "played ") == counts
    assert suite.server.n_requests == 2


def test_each_replicate_is_replayed_with_its_own_answer(tmp_path: Path, server: WireServer) -> None:
    pool = make_pool(3, 3)
    plan = dense_plan(pool, repeat=2)
    plan = replace(plan, trials=replace(plan.trials, replicate=np.repeat(np.arange(2, dtype=np.int32), len(plan) // 2)))
    server.behave = lambda n, body: Reply("YES" if n % 5 else "NO")
    judge = {"backend": "openai", "model": "m", "base_url": server.url, "api_key_env": None, "price": 0}
    with use_cassette(CassetteRecorder(tmp_path / "c.jsonl", mode="once")):
        first = youden.judge(plan, judge=judge, store=tmp_path / "one.db")
    with use_cassette(CassetteRecorder(tmp_path / "c.jsonl", mode="none")) as tape:
        again = youden.judge(plan, judge=judge, store=tmp_path / "two.db")
    np.testing.assert_array_equal(first.answer, again.answer)
    assert (tape.n_played, server.n_requests) == (len(plan), len(plan))
    assert first.answer[: len(plan) // 2].tolist() != first.answer[len(plan) // 2 :].tolist()


def test_replayed_calls_are_not_rate_limited(tmp_path: Path, server: WireServer) -> None:
    pool = make_pool(3, 3)
    plan = youden.make_plan(pool, calls=10, independent="pooled:4")
    judge = {"backend": "openai", "model": "m", "base_url": server.url, "api_key_env": None, "price": 0}
    with use_cassette(CassetteRecorder(tmp_path / "c.jsonl", mode="once")):
        youden.judge(plan, judge=judge, store=tmp_path / "one.db")
    began = time.perf_counter()
    with use_cassette(CassetteRecorder(tmp_path / "c.jsonl", mode="none")):
        youden.judge(plan, judge=judge | {"requests_per_minute": 1}, store=tmp_path / "two.db")
    assert time.perf_counter() - began < 30


def test_nothing_is_replayed_after_the_context_ends(tmp_path: Path, server: WireServer) -> None:
    pool = make_pool(3, 3)
    plan = youden.make_plan(pool, calls=10, independent="pooled:4")
    judge: dict[str, Json] = {"backend": "openai", "model": "m", "base_url": server.url, "price": 0}
    with pytest.raises(ConfigError, match="no cassette"):
        CassetteRecorder(tmp_path / "c.jsonl", mode="none")
    with use_cassette(CassetteRecorder(tmp_path / "c.jsonl", mode="new")):
        youden.judge(plan, judge=judge | {"api_key_env": None}, store=tmp_path / "v.db")
    assert len(read_cassette(tmp_path / "c.jsonl").entries) == 10
    with pytest.raises(JudgeError, match="OPENAI_API_KEY"):
        youden.judge(plan, judge=judge, store=tmp_path / "w.db")
    with (
        use_cassette(CassetteRecorder(tmp_path / "c.jsonl", mode="none")),
        pytest.raises(ReplayMissError, match="model: m2"),
    ):
        youden.judge(plan, judge=judge | {"model": "m2"}, store=tmp_path / "w.db")
    assert format_difference({}, {}) == "The cassette is empty."


def test_pytest_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys, pytest\n"
        "before = set(sys.modules)\n"
        "import youden.pytest_plugin\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "assert new <= {'youden'}, new\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, timeout=300)


def test_the_plugin_is_installed_with_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"youden.pytest_plugin": "youden.pytest_plugin"}
