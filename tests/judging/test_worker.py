"""Workers: any process that has a run's config and its store asks with the others, and nobody pays twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from commands import Youden, write_config
from pools import make_pool
from wire_server import Reply, WireServer, well_behaved
from youden.data.folder.run_config import load_run_config
from youden.data.pools.pool_reader import write_pool
from youden.judging.store.answers import open_store
from youden.judging.store.team import lead_run
from youden.run.elsewhere import work
from youden.run.pipeline import plan_run, run_name


@pytest.fixture
def here(tmp_path: Path, server: WireServer) -> Path:
    write_pool(make_pool(5, 8), tmp_path / "pool")
    judge = {"backend": "wire", "model": "m", "base_url": server.url, "api_key_env": None, "price": 1}
    write_config(
        tmp_path / "r.yaml",
        pool="pool",
        calls=110,
        n_independent=20,
        max_cost=1,
        judge={**judge, "concurrency": 4, "max_tokens": 1},
    )
    return tmp_path


def test_two_workers_share_a_plan_and_the_run_finds_every_answer(
    youden: Youden, here: Path, server: WireServer
) -> None:
    server.behave = lambda n, body: replace(well_behaved(n, body), delay=0.01)
    config = load_run_config(here / "r.yaml")
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(work, [config, config]))
    assert [int(one.answered.sum()) for one in found] == [110, 110]
    assert server.n_requests == 110
    assert not (config.folder / "verdicts.parquet").exists()
    assert youden("judge", "r.yaml").code == 0
    assert server.n_requests == 110
    assert (config.folder / "verdicts.parquet").exists()


def test_two_runs_that_are_called_alike_use_one_store_at_once(youden: Youden, here: Path, server: WireServer) -> None:
    """Each in a folder of its owner's; the same run twice is still refused."""
    write_pool(make_pool(5, 9), here / "other")
    store = str(here / "both.db")
    one = plan_run(load_run_config(here / "r.yaml", {"store": store}))
    with lead_run(store, run=run_name(one)):
        ended = youden("judge", "r.yaml", "--store", store)
        assert (ended.code, "[run-busy]" in ended.err) == (2, True), ended.err
        text = (here / "r.yaml").read_text().replace('pool: "pool"', f"pool: {here / 'other'}")
        (here / "theirs").mkdir()
        (here / "theirs/r.yaml").write_text(text)
        ended = youden("judge", "theirs/r.yaml", "--store", store, "--out", "theirs/runs/r")
        assert ended.code == 0, ended.err


def test_a_judge_that_makes_no_calls_has_no_workers(here: Path) -> None:
    config = load_run_config(here / "r.yaml", {"judge": "lexical"})
    with pytest.raises(Exception, match="judge-offline"):
        work(config)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words.split(), marks=[] if words.startswith(("generate", "judge")) else pytest.mark.slow)
        for words in (
            "calibrate r.yaml --calls 60",
            "stress pool --judge judge.yaml --attack template",
            "rejudge runs/first --judge judge.yaml --calls 40 --max-missing 1",
            "generate agents.yaml items.jsonl --out made",
            "judge r.yaml",
        )
    ],
    ids=lambda words: words[0],
)
def test_every_command_that_takes_a_store_goes_by_youden_store_where_nobody_names_one(
    youden: Youden, here: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    server.behave = lambda _n, _body: Reply("YES")
    judge = {"backend": "wire", "model": "m2", "base_url": server.url, "api_key_env": None, "price": 0, "max_tokens": 1}
    write_config(here / "judge.yaml", **judge)
    (here / "items.jsonl").write_text('{"id": "i1", "prompt": "Why?"}\n{"id": "i2", "prompt": "How?"}\n')
    (here / "agents.yaml").write_text(
        "agents:\n"
        "  - {id: one, model: judge.yaml, instruction: mine.md}\n"
        "  - {id: two, model: judge.yaml, instruction: mine.md, temperature: 1}\n"
    )
    (here / "mine.md").write_text("Rewrite {{text}}")
    if words[0] == "rejudge":
        assert youden("run", "r.yaml", "--out", "runs/first").code == 0
    before = {*here.rglob("*.db")}
    monkeypatch.setenv("YOUDEN_STORE", str(here / "shared.db"))
    ended = youden(*words)
    assert ended.code in (0, 1), ended.err
    assert {*here.rglob("*.db")} - before == {here / "shared.db"}
    with open_store(here / "shared.db") as store:
        n_kept = len(store)
    assert n_kept > 0
    named = youden(*(word.replace("made", "made-again") for word in words), "--store", "named.db")
    assert named.code in (0, 1), named.err
    with open_store(here / "shared.db") as store, open_store(here / "named.db") as other:
        assert (len(store), len(other) > 0) == (n_kept, True)
