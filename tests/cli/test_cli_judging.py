"""Test judges with calls from the command line against a real server: caps, resumption and replay."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from batch_server import BatchServer
from commands import Youden, wire_judge, write_small_run
from wire_server import Reply, WireServer, draw, same_item
from youden.pipeline import fit_tables

TABLES = ("ranking.csv", "scores.csv", "scores_row.csv", "items.csv", "signature.json")


@pytest.fixture
def free_run_folder(tmp_path: Path, server: WireServer) -> Path:
    write_small_run(tmp_path, "free", judge=wire_judge(server.url))
    return tmp_path


def test_a_run_resumes_without_a_call_and_replays_without_a_server(
    youden: Youden, free_run_folder: Path, server: WireServer
) -> None:
    first = youden("run", "free.yaml", "--json")
    assert first.code == 0, first.err
    assert server.n_requests == 110
    again = youden("run", "free.yaml", "--json")
    assert server.n_requests == 110
    write_small_run(free_run_folder, "replay", store=".youden/answers.db", judge={"backend": "replay"})
    replayed = youden("run", "replay.yaml", "--json")
    assert replayed.code == 0, replayed.err
    assert server.n_requests == 110
    rankings = [json.loads(ended.out)["ranking"] for ended in (first, again, replayed)]
    assert rankings[0] == rankings[1] == rankings[2]
    for table in TABLES:
        assert (free_run_folder / "runs/free" / table).read_bytes() == (
            free_run_folder / "runs/replay" / table
        ).read_bytes()


@pytest.mark.parametrize("judge", ["free", "lexical"])
def test_a_run_fails_if_its_folder_is_removed_meanwhile(
    youden: Youden, free_run_folder: Path, server: WireServer, judge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is removed by a reply of the judge, or while the ranking is made."""

    def behave(n: int, body: Any) -> Reply:
        if n == 50:
            shutil.rmtree(free_run_folder / "runs")
        return Reply(same_item(body))

    server.behave = behave
    words = ["--store", "runs/free/verdicts.db"]
    if judge == "lexical":
        words, config = [], yaml.safe_load((free_run_folder / "free.yaml").read_text())
        (free_run_folder / "lexical.yaml").write_text(
            yaml.safe_dump(config | {"judge": "lexical", "out": "runs/lexical"})
        )
        analyze = fit_tables.FitResult

        def delete_runs_and_analyze(*arguments: Any, **options: Any) -> fit_tables.FitResult:
            shutil.rmtree(free_run_folder / "runs")
            return analyze(*arguments, **options)

        monkeypatch.setattr(fit_tables, "FitResult", delete_runs_and_analyze)
    ended = youden("run", f"{judge}.yaml", *words)
    assert ended.code == 2, ended.err
    assert "deleted or moved" in ended.err
    assert not (free_run_folder / "runs").exists()


def test_a_plan_is_judged_by_a_batch_at_its_price_and_the_run_uses_the_answers(
    youden: Youden, free_run_folder: Path, batch_server: BatchServer
) -> None:
    judge = wire_judge(batch_server.url, backend="openai", price=100, max_tokens=1, batch_discount=0.5)
    write_small_run(free_run_folder, "batch", judge=judge, max_cost=20)
    full = youden("plan", "batch.yaml", "--json")
    half = youden("judge", "batch.yaml", "--mode", "batch", "--poll", "0.01")
    assert half.code == 0, half.err
    usd = json.loads(full.out)["cost"]["usd"]
    assert f"cost ${usd / 2:,.2f}" in half.err
    assert "batch batch_0: completed, 110 of 110 done" in half.err
    assert f"${110 * 101 * 100 / 2e6:.4f} in all invocations" in half.err
    assert youden("run", "batch.yaml").code == 0
    assert len(batch_server.bodies) == 110


@pytest.mark.slow
def test_max_missing_and_retry_failed_are_read_from_options_and_config(
    youden: Youden, free_run_folder: Path, server: WireServer
) -> None:
    server.behave = lambda _n, body: Reply("perhaps" if draw(body, 5) == 0 else same_item(body))
    more: dict[str, Any] = {"calls": 300, "independent": "pooled:150", "judge": wire_judge(server.url)}
    write_small_run(free_run_folder, "more", **more)
    assert youden("judge", "more.yaml", "--max-missing", "0.1").code == 1
    allowed = youden("judge", "more.yaml", "--max-missing", "0.5", "--json")
    assert allowed.code == 0, allowed.err
    assert "unparsed" in allowed.err
    before, n_missing = server.n_requests, sum(json.loads(allowed.out)["calls"]["missing_paired"].values())
    write_small_run(free_run_folder, "more", **more, max_missing=0.5)
    again = youden("judge", "more.yaml")
    assert (again.code, server.n_requests) == (0, before)
    server.behave = lambda _n, body: Reply(same_item(body))
    mended = youden("judge", "more.yaml", "--retry-failed", "--json")
    assert "the cost of the plan excludes them" in mended.err
    assert json.loads(mended.out)["calls"]["missing_paired"] == {}
    assert server.n_requests - before >= n_missing > 0


@pytest.mark.parametrize("command", [pytest.param("judge", marks=pytest.mark.slow), "run"])
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 12])
def test_a_small_run_above_max_missing_fails_at_its_end_and_a_higher_limit_ranks_it(
    youden: Youden, free_run_folder: Path, server: WireServer, command: str, every: int
) -> None:
    server.behave = lambda _n, body: Reply("Sorry." if draw(body, every) == 0 else same_item(body))
    for options in ([], ["--max-missing", "0"], ["--max-missing", "0.05"]):
        ended = youden(command, "free.yaml", *options)
        assert ended.code == 1, ended.err
        assert ended.err.rstrip().endswith("[too-many-missing]")
        assert not (free_run_folder / "runs/free/ranking.csv").exists()
    assert server.n_requests == 110
    allowed = youden(command, "free.yaml", "--max-missing", "1")
    assert allowed.code == (1 if every == 1 else 0), allowed.err
    assert ("None of the 110 trials was answered" in allowed.err) == (every == 1)
    assert server.n_requests == 110


def test_a_search_without_answers_in_its_first_round_fails_as_missing(
    youden: Youden, free_run_folder: Path, server: WireServer
) -> None:
    server.behave = lambda _n, _body: Reply("Sorry.")
    write_small_run(free_run_folder, "search", judge=wire_judge(server.url), design="adaptive", max_missing=1.0)
    ended = youden("run", "search.yaml")
    assert ended.code == 1, ended.err
    assert ended.err.rstrip().endswith("[too-many-missing]")


def test_a_worker_and_an_import_fail_above_max_missing(
    youden: Youden, free_run_folder: Path, server: WireServer
) -> None:
    server.behave = lambda _n, body: Reply("Sorry." if draw(body, 12) == 0 else same_item(body))
    worker = youden("judge", "free.yaml", "--worker")
    assert worker.code == 1, worker.err
    assert worker.err.rstrip().endswith("[too-many-missing]")
    imported = youden("judge", "free.yaml", "--import")
    assert imported.code == 1, imported.err
    assert imported.err.rstrip().endswith("[too-many-missing]")
    assert youden("judge", "free.yaml", "--import", "--max-missing", "0.2").code == 0
    assert server.n_requests == 110


def test_a_jury_with_a_judge_that_answers_nothing_fails_and_names_it(
    youden: Youden, free_run_folder: Path, server: WireServer
) -> None:
    server.behave = lambda _n, body: Reply("Sorry." if body["model"] == "b" else same_item(body))
    judges = [wire_judge(server.url, model=model, name=f"judge-{model}") for model in ("a", "b", "c")]
    write_small_run(free_run_folder, "jury", judge={"backend": "jury", "name": "three", "judges": judges})
    ended = youden("run", "jury.yaml")
    assert ended.code == 1, ended.err
    assert "judge-b answered none of the 110 trials" in ended.err


@pytest.mark.slow
def test_a_jury_judges_a_run(youden: Youden, free_run_folder: Path, server: WireServer) -> None:
    judges = [wire_judge(server.url, model=model) for model in ("a", "b", "c")]
    jury = {"backend": "jury", "name": "three", "judges": judges}
    write_small_run(free_run_folder, "jury", judge=jury)
    ended = youden("run", "jury.yaml", "--json")
    assert ended.code == 0, ended.err
    assert server.n_requests == 3 * 110
    assert json.loads(ended.out)["fit"]["calls"]["models"] == ["a", "b", "c"]
    assert youden("run", "jury.yaml").code == 0
    assert server.n_requests == 3 * 110
    write_small_run(free_run_folder, "jury", judge=jury | {"vote": "mean"})
    other_run = youden("run", "jury.yaml")
    assert other_run.code == 2
    assert "`youden rejudge runs/jury --judge JUDGE --calls N/agent`" in other_run.err
    assert other_run.err.rstrip().endswith("[run-mismatch]")


def test_agents_that_no_number_of_items_separates_are_reported_as_possibly_equal(
    youden: Youden, free_run_folder: Path, server: WireServer
) -> None:
    output = iter(("NO", "NO", "NO"))  # three answers off: differences are small, and not 0
    server.behave = lambda _n, body: Reply(next(output, same_item(body)) if same_item(body) == "YES" else "NO")
    ended = youden("run", "free.yaml")
    assert ended.code == 0, ended.err
    last = ended.err.splitlines()[-1]
    assert "may be equally good: 100 times as many items might not separate them" in last, last
