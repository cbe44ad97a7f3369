"""Judges that make calls, from the command line against a real server: capped, resumed, replayed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from batch_server import BatchServer
from commands import Youden, write_config
from pools import make_pool
from wire_server import Reply, WireServer, same_item
from youden.data.pools.pool_reader import write_pool
from youden.run import fitting

TABLES = ("ranking.csv", "scores.csv", "scores_row.csv", "items.csv", "signature.json")


@pytest.fixture
def here(tmp_path: Path, server: WireServer) -> Path:
    write_pool(make_pool(5, 8), tmp_path / "pool")
    judge = {"backend": "wire", "model": "m", "base_url": server.url, "api_key_env": None, "backoff": 0.001}
    write_config(tmp_path / "free.yaml", pool="pool", calls=110, n_independent=20, judge=judge | {"price": 0})
    priced = judge | {"price_in": 100, "price_out": 100, "max_tokens": 1, "concurrency": 1}
    write_config(tmp_path / "paid.yaml", pool="pool", calls=110, n_independent=20, judge=priced)
    return tmp_path


def replay(here: Path, *, seed: int = 0) -> None:
    same = {"pool": "pool", "calls": 110, "n_independent": 20, "seed": seed, "store": "runs/free/verdicts.db"}
    write_config(here / "replay.yaml", **same, judge={"backend": "replay"})


def test_a_run_resumes_without_a_call_and_replays_without_a_server(
    youden: Youden, here: Path, server: WireServer
) -> None:
    first = youden("run", "free.yaml", "--json")
    assert first.code == 0, first.err
    assert server.n_requests == 110
    again = youden("run", "free.yaml", "--json")
    assert server.n_requests == 110
    replay(here)
    replayed = youden("run", "replay.yaml", "--json")
    assert replayed.code == 0, replayed.err
    assert server.n_requests == 110
    rankings = [json.loads(ended.out)["ranking"] for ended in (first, again, replayed)]
    assert rankings[0] == rankings[1] == rankings[2]
    for table in TABLES:
        assert (here / "runs/free" / table).read_bytes() == (here / "runs/replay" / table).read_bytes()


def test_a_replay_names_the_trial_that_was_never_asked(youden: Youden, here: Path) -> None:
    assert youden("run", "free.yaml").code == 0
    replay(here, seed=9)
    ended = youden("run", "replay.yaml")
    assert ended.code == 2
    assert "agents 'a" in ended.err
    assert ended.err.rstrip().endswith("[replay-miss]")


@pytest.mark.parametrize("judge", ["free", "lexical"])
def test_a_run_whose_folder_is_removed_meanwhile_fails(
    youden: Youden, here: Path, server: WireServer, judge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a reply of the judge, or as the ranking is made."""

    def behave(n: int, body: Any) -> Reply:
        if n == 50:
            shutil.rmtree(here / "runs")
        return Reply(same_item(body))

    server.behave = behave
    if judge == "lexical":
        config = yaml.safe_load((here / "free.yaml").read_text())
        (here / "lexical.yaml").write_text(yaml.safe_dump(config | {"judge": "lexical", "out": "runs/lexical"}))
        made = fitting.analyse
        monkeypatch.setattr(fitting, "analyse", lambda *a, **k: (shutil.rmtree(here / "runs"), made(*a, **k))[1])
    ended = youden("run", f"{judge}.yaml")
    assert ended.code == 2, ended.err
    assert "deleted or moved" in ended.err
    assert not (here / "runs").exists()


def test_a_run_that_reaches_its_cap_ends_with_1_and_goes_on_from_there(
    youden: Youden, here: Path, server: WireServer
) -> None:
    server.behave = lambda _n, body: Reply(same_item(body), usage={"prompt_tokens": 99, "completion_tokens": 1})
    short = youden("run", "paid.yaml", "--max-cost", "0.5")
    assert short.code == 1
    assert "remain" in short.err
    assert short.err.rstrip().endswith("[budget]")
    asked = server.n_requests
    assert 0 < asked * 0.01 <= 0.5
    whole = youden("run", "paid.yaml", "--max-cost", "5", "--json")
    assert whole.code == 0, whole.err
    assert server.n_requests == 110
    assert json.loads(whole.out)["facts"]["calls"]["usd"] == pytest.approx(110 * 0.01), (
        "with the pass that was cut short"
    )


def test_too_many_missing_answers_end_with_1(youden: Youden, here: Path, server: WireServer) -> None:
    server.behave = lambda n, body: Reply("perhaps" if n % 5 == 0 else same_item(body))
    write_config(here / "more.yaml", **(_config(here / "free.yaml") | {"calls": 300, "n_independent": 150}))
    ended = youden("run", "more.yaml")
    assert ended.code == 1
    assert "unparsed" in ended.err


def _config(path: Path) -> dict[str, object]:
    return {key: json.loads(value) for key, value in (line.split(": ", 1) for line in path.read_text().splitlines())}


def test_a_plan_goes_through_a_batch_at_its_price_and_the_run_goes_on_from_there(
    youden: Youden, here: Path, batch_server: BatchServer
) -> None:
    judge = {"backend": "openai", "model": "m", "base_url": batch_server.url, "api_key_env": None, "max_tokens": 1}
    priced = judge | {"price_in": 100, "price_out": 100, "batch_discount": 0.5}
    write_config(here / "batch.yaml", pool="pool", calls=110, n_independent=20, judge=priced, max_cost=20)
    full, half = (
        youden("plan", "batch.yaml", "--json"),
        youden("judge", "batch.yaml", "--mode", "batch", "--poll", "0.01"),
    )
    assert half.code == 0, half.err
    usd = json.loads(full.out)["cost"]["usd"]
    assert f"cost ${usd / 2:,.2f}" in half.err
    assert "batch batch_0: completed, 110 of 110 done" in half.err
    assert f"${110 * 101 * 100 / 2e6:.4f} spent in all passes" in half.err
    assert youden("run", "batch.yaml").code == 0
    assert len(batch_server.bodies) == 110


def test_max_missing_and_retry_failed_are_taken_from_the_command_line_and_the_config(
    youden: Youden, here: Path, server: WireServer
) -> None:
    server.behave = lambda n, body: Reply("perhaps" if n % 5 == 0 else same_item(body))
    config = _config(here / "free.yaml") | {"calls": 300, "n_independent": 150}
    write_config(here / "more.yaml", **config)
    assert youden("judge", "more.yaml", "--max-missing", "0.1").code == 1
    allowed = youden("judge", "more.yaml", "--max-missing", "0.5", "--json")
    assert allowed.code == 0, allowed.err
    assert "unparsed" in allowed.err
    before, n_missing = server.n_requests, sum(json.loads(allowed.out)["calls"]["missing_paired"].values())
    write_config(here / "more.yaml", **config, max_missing=0.5)
    again = youden("judge", "more.yaml")
    assert (again.code, server.n_requests) == (0, before)
    server.behave = lambda _n, body: Reply(same_item(body))
    mended = youden("judge", "more.yaml", "--retry-failed", "--json")
    assert json.loads(mended.out)["calls"]["missing_paired"] == {}
    assert server.n_requests - before >= n_missing > 0


def test_a_jury_judges_a_run(youden: Youden, here: Path, server: WireServer) -> None:
    judge = {"backend": "wire", "base_url": server.url, "api_key_env": None, "price": 0}
    jury = {"backend": "jury", "name": "three", "judges": [judge | {"model": model} for model in ("a", "b", "c")]}
    write_config(here / "jury.yaml", pool="pool", calls=110, n_independent=20, judge=jury)
    ended = youden("run", "jury.yaml", "--json")
    assert ended.code == 0, ended.err
    assert server.n_requests == 3 * 110
    assert json.loads(ended.out)["facts"]["calls"]["models"] == ["a", "b", "c"]
    assert youden("run", "jury.yaml").code == 0
    assert server.n_requests == 3 * 110
    write_config(here / "jury.yaml", **(_config(here / "jury.yaml") | {"judge": jury | {"vote": "mean"}}))
    other = youden("run", "jury.yaml")
    assert other.code == 2
    assert "`youden rejudge runs/jury --judge JUDGE --trials N`" in other.err
    assert other.err.rstrip().endswith("[run-other]")


def test_agents_that_nothing_tells_apart_are_said_to_be_equal_in_place_of_a_number_of_items(
    youden: Youden, here: Path, server: WireServer
) -> None:
    said = iter(("NO", "NO", "NO"))  # three answers off: differences are small, and not 0
    server.behave = lambda _n, body: Reply(next(said, same_item(body)) if same_item(body) == "YES" else "NO")
    ended = youden("run", "free.yaml")
    assert ended.code == 0, ended.err
    last = ended.err.splitlines()[-1]
    assert "they may well be equally good: 100 times as many items might not tell" in last, last
