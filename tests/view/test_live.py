"""Following a run's store: what came, what was given up on, and that nothing is asked or written."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import write_config
from pools import make_pool
from youden.data.folder.run_config import load_run_config
from youden.data.pools.pool_reader import write_pool
from youden.errors import RunFolderError
from youden.judging.call.failures import Failure
from youden.judging.store.answers import open_store
from youden.pipeline.judged_run import PlannedRun, plan_run
from youden.types import Completion
from youden.view.shown import LiveRun

JUDGE = {"backend": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": None}


@pytest.fixture(autouse=True)
def _in_a_project_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def planned(folder: Path, judge: object) -> PlannedRun:
    write_pool(make_pool(5, 8), folder / "pool")
    write_config(folder / "c.yaml", pool="pool", calls=110, independent="pooled:10", judge=judge, max_cost=1, out="run")
    return plan_run(load_run_config(folder / "c.yaml"))


def test_answers_and_failures_are_counted_as_they_come(tmp_path: Path) -> None:
    run = planned(tmp_path, JUDGE | {"price_in": 1_000_000, "price_out": 0})
    live = LiveRun(run.folder)
    assert live.look().why_no_ranking == "No answer has come yet."
    assert not (tmp_path / ".youden").exists()
    keys = [key for _, key, _ in run.judge.questions().all(run.plan)]
    with open_store(run.config.store_place) as store:
        for n, key in enumerate(keys[:60]):
            text = "YES" if n % 2 else "NO"
            store.add(key, Completion("neither" if n < 5 else text, "stop", "m", tokens_in=2, tokens_out=1))
        store.add(keys[60], Failure("rejected", 400, "no"))
    state = live.look()
    assert (state.n_trials, state.n_answered, state.n_missing, state.n_yes) == (110, 55, 6, 28)
    assert state.usd == pytest.approx(120)
    assert len(state.ranking) == 5
    assert live.look() is state
    with open_store(run.config.store_place) as store:
        store.add(keys[60], Completion("YES", "stop", "m", tokens_in=2, tokens_out=1))
    assert (live.look().n_answered, live.look().n_missing) == (56, 5)


def test_a_judge_without_calls_cannot_be_followed(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"\[live-no-store\]"):
        LiveRun(planned(tmp_path, "lexical").folder)
