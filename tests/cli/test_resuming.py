"""Test runs that end early and are completed later: API keys, cost caps and partial rankings."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from sqlite3 import Connection
from typing import Any
from unittest.mock import MagicMock

import pytest
import yaml

from batch_server import BatchServer
from commands import Youden, wire_judge, write_config, write_small_run
from small_pools import make_pool
from wire_server import Reply, WireServer
from youden import rank, read_run
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.errors import RunFolderError
from youden.judging.store import sqlite
from youden.report import tracking
from youden.types import Plan
from youden.view.shown import LiveRun, get_state

KEY = "sk-planted-0123456789"


def write_keyed_run(folder: Path, judge: dict[str, Any], **keys: Any) -> None:
    write_small_run(folder, "keyed", judge=judge | {"api_key_env": "OPENAI_API_KEY"}, **keys)


def test_a_fit_names_the_command_that_finishes_an_unfinished_extension(
    youden: Youden, tmp_path: Path, server: WireServer
) -> None:
    write_small_run(tmp_path, judge=wire_judge(server.url, price=100, max_tokens=1, concurrency=4), max_cost=5)
    youden("run", "r.yaml").well()
    assert "next:" not in youden("fit", "runs/r").err
    assert youden("extend", "calls", "runs/r", "60", "--max-cost", "0.4").code == 1
    fitted = youden("fit", "runs/r").well()
    assert "next: finish the extension that was stopped: `youden extend calls runs/r 60 --max-cost 0.4`" in fitted.err


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["wire", "openai"])
def test_a_completed_run_needs_no_api_key(
    youden: Youden, tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    write_keyed_run(tmp_path, wire_judge(server.url, backend=backend))
    assert youden("run", "keyed.yaml").refuses("judge-no-key")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    youden("run", "keyed.yaml").well()
    n_requests = server.n_requests

    monkeypatch.delenv("OPENAI_API_KEY")
    for words in (["run"], ["judge"], ["judge", "--worker"]):
        command, *options = words
        youden(command, "keyed.yaml", *options).well()
    assert server.n_requests == n_requests

    # one trial more needs the key again
    assert youden("extend", "calls", "runs/keyed", "20").refuses("judge-no-key")
    assert server.n_requests == n_requests


def test_a_run_decided_by_text_names_the_setting_that_continues_it(
    youden: Youden, tmp_path: Path, server: WireServer
) -> None:
    write_small_run(tmp_path, "small", judge=wire_judge(server.url))
    youden("run", "small.yaml").well()
    write_small_run(tmp_path, "small", judge=wire_judge(server.url, decision="logprobs"))
    ended = youden("run", "small.yaml")
    assert ended.refuses("run-mismatch")
    assert "Set `decision: text` in the judge's config to continue this run" in ended.err


def test_a_completed_batch_needs_no_api_key(
    youden: Youden, tmp_path: Path, batch_server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_keyed_run(tmp_path, wire_judge(batch_server.url, backend="openai"))
    words = ("judge", "keyed.yaml", "--mode", "batch", "--poll", "0.01")
    assert youden(*words).refuses("judge-no-key")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    youden(*words).well()
    monkeypatch.delenv("OPENAI_API_KEY")
    youden(*words).well()
    assert len(batch_server.bodies) == 110


@pytest.mark.slow
def test_a_completed_jury_needs_no_api_key_and_no_permission_to_send_it(
    youden: Youden, tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch, trusted: Path
) -> None:
    judges = [wire_judge(server.url, model=model, api_key_env="OPENAI_API_KEY") for model in ("a", "b", "c")]
    write_small_run(tmp_path, "jury", judge={"backend": "jury", "name": "three", "judges": judges})
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    youden("run", "jury.yaml").well()
    n_requests = server.n_requests

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no permissions"))
    youden("run", "jury.yaml").well()
    monkeypatch.delenv("OPENAI_API_KEY")
    youden("run", "jury.yaml").well()
    assert server.n_requests == n_requests

    # if a single answer is to be requested, the permissions of all judges are checked first
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    write_small_run(tmp_path, "more", judge={"backend": "jury", "name": "three", "judges": judges}, calls=130)
    assert youden("run", "more.yaml").refuses("key-not-trusted")
    assert server.n_requests == n_requests


def read_run_plan(path: Path) -> Plan:
    return RunFolder(path).read_plan()


def same_item_or_chance(_n: int, body: Mapping[str, Any]) -> Reply:
    """Answer YES for the same item, except for agents with an error rate, determined by the text of the request."""
    words = re.findall(r"agent (\d+) says something of item (\d+)", body["messages"][-1]["content"])
    (first, item), (second, other_item) = words
    draw = int(hashlib.sha256(repr(words).encode()).hexdigest(), 16) % 100
    is_recognized = draw < 95 - 8 * (int(first) + int(second))
    n_characters = sum(len(message["content"]) for message in body["messages"])
    usage = {"prompt_tokens": n_characters // 4, "completion_tokens": 1}
    return Reply("YES" if item == other_item and is_recognized else "NO", usage=usage)


@pytest.fixture
def capped(tmp_path: Path, server: WireServer) -> Path:
    """Write the config of a run whose cap of 5 USD pays for a third of its calls."""
    server.behave = same_item_or_chance
    judge = wire_judge(server.url, price=100, max_tokens=1, concurrency=4)
    write_pool(make_pool(5, 30), tmp_path / "pool")
    write_config(tmp_path / "capped.yaml", pool="pool", judge=judge, calls=596, max_cost=5)
    return tmp_path


def test_plan_states_how_many_calls_its_cap_pays_for(youden: Youden, capped: Path, server: WireServer) -> None:
    planned = youden("plan", "capped.yaml", "--json").said
    n_affordable = planned["calls_within_max_cost"]
    assert planned["max_cost"] == 5
    assert n_affordable == pytest.approx(5 / planned["cost"]["usd"] * 596, abs=1)
    for command in ("plan", "run"):
        ended = youden(command, "capped.yaml")
        assert f"plan: the cap of $5 pays for about {n_affordable} of the 596 calls" in ended.err
        assert "resumes it; `youden fit runs/capped` ranks by the answers so far" in ended.err
    assert server.n_requests == pytest.approx(n_affordable, rel=0.1)
    enough = youden("plan", "capped.yaml", "--max-cost", "1000", "--json")
    assert enough.said["calls_within_max_cost"] is None
    assert "plan: $99" in enough.err
    assert "and pay for all remaining calls" in enough.err


def test_a_run_stopped_at_its_cap_is_ranked_as_partial_and_can_be_completed(
    youden: Youden, capped: Path, server: WireServer
) -> None:
    ended = youden("run", "capped.yaml")
    assert ended.code == 1
    assert "`youden fit runs/capped` ranks by the answers so far." in ended.err
    n_done = server.n_requests
    assert 100 < n_done < 596

    # the mark is in the terminal, in JSON, in the ranking's attrs, in the files and in the report
    mark = f"Partial ranking: {n_done} of 596 calls of this run are done."
    fitted = youden("fit", "runs/capped").well()
    assert fitted.out.startswith(mark)
    assert "next: finish the run: youden run runs/capped/config.yaml" in fitted.err
    output = youden("fit", "runs/capped", "--json").said
    assert output["partial"] == output["fit"]["partial"] == {"n_done": n_done, "n_calls": 596}
    assert output["fit"]["warnings"][0]["slug"] == "partial"
    usd = output["fit"]["calls"]["usd"]
    assert 4.5 < usd <= 5
    assert output["fit"]["calls"]["n_pending"] == 596 - n_done
    assert output["fit"]["calls"]["missing_paired"] == {}
    run = read_run("runs/capped")
    assert asdict(run.ranking.attrs["partial"]) == output["partial"]
    assert asdict(rank(run.verdicts).attrs["partial"]) == output["partial"]
    assert json.loads((capped / "runs/capped/ranking.json").read_text())["partial"] == output["partial"]
    assert mark in run.report().read_text(encoding="utf-8")
    assert "<h1>capped (partial)" in run.path.joinpath("report.html").read_text(encoding="utf-8").replace("\n", "")
    assert mark in run.report(format="md").read_text(encoding="utf-8").replace("\\", "")
    assert f"|done:{n_done}|" in output["signature"]
    assert server.n_requests == n_done

    # the ranking has the judge's false-positive rate, because both trial types are sent in proportion
    assert output["fit"]["signal"]["j"] is not None
    assert [agent["agent"] for agent in output["ranking"]] == sorted(agent["agent"] for agent in output["ranking"])

    youden("run", "capped.yaml", "--max-cost", "100").well()
    assert server.n_requests == 596
    finished = youden("fit", "runs/capped", "--json").said
    assert finished["partial"] is finished["fit"]["partial"] is None
    assert finished["fit"]["calls"]["usd"] == pytest.approx(usd * 596 / n_done, rel=0.05)
    assert read_run("runs/capped").ranking.attrs["partial"] is None
    assert "|done:" not in finished["signature"]


def test_both_trial_types_are_sent_in_proportion(youden: Youden, capped: Path, server: WireServer) -> None:
    assert youden("judge", "capped.yaml").code == 1
    youden("fit", "runs/capped").well()
    verdicts = read_run("runs/capped").verdicts
    fraction_of_type = [float(verdicts.answered[verdicts.plan.trial_type == kind].mean()) for kind in (0, 1)]
    assert fraction_of_type[0] == pytest.approx(fraction_of_type[1], abs=0.05)


def test_commands_that_need_all_answers_refuse_a_partial_run(youden: Youden, capped: Path, server: WireServer) -> None:
    assert youden("run", "capped.yaml").code == 1
    youden("fit", "runs/capped").well()
    n_done = server.n_requests
    for words in (
        ("extend", "calls", "runs/capped", "100"),
        ("gate", "runs/capped", "--agent", "a0", "--baseline", "a1"),
        ("rejudge", "runs/capped", "--judge", "lexical", "--calls", "100"),
        ("compare", "runs/capped", "runs/capped"),
        ("study", "variance", "runs/capped"),
        ("study", "budget", "runs/capped"),
        ("study", "sparsity", "runs/capped"),
    ):
        assert youden(*words).refuses("run-partial"), words
    assert server.n_requests == n_done


@pytest.mark.slow
def test_every_recommendation_of_an_unfinished_run_is_marked(
    youden: Youden, capped: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert youden("run", "capped.yaml").code == 1
    youden("fit", "runs/capped").well()
    run = read_run("runs/capped")
    mark = f"Partial ranking: {server.n_requests} of 596 calls of this run are done. "
    assert run.recommendation.text.startswith(mark)
    assert run.summary.headline.startswith(mark)
    assert run.summary.headline.count("Partial ranking") == 1
    assert repr(run).startswith(f"Run('runs/capped': {mark}")

    mlflow = MagicMock()
    mlflow.exceptions.MlflowException = OSError
    monkeypatch.setattr(tracking, "_import_mlflow", lambda: mlflow)
    tracking.log_run(run.folder)
    (tags,) = mlflow.set_tags.call_args.args
    assert tags["youden.recommendation"].startswith(mark)

    youden("export", "runs/capped", "hf", "--format", "hf").well()
    assert mark.rstrip() in (capped / "hf/README.md").read_text(encoding="utf-8")
    assert mark.rstrip() in youden("export", "runs/capped", "tables.csv").well().err
    youden("export", "runs/capped", "eee", "--format", "eee").well()
    files = list((capped / "eee").rglob("*.json"))
    assert files
    for file in files:
        results = json.loads(file.read_text(encoding="utf-8"))["evaluation_results"]
        descriptions = [result["metric_config"]["evaluation_description"] for result in results]
        assert all(description.startswith(mark) for description in descriptions)

    # the mark also comes before a recommendation by labels
    labels = [f"a{agent},i{item},{(item + agent) % (agent + 2) == 0:d}" for agent in range(5) for item in range(15)]
    (capped / "labels.csv").write_text("\n".join(["agent,item,label", *labels]) + "\n")
    words = ("quality", "runs/capped", "--labels", "labels.csv")
    assert youden(*words).well().out.startswith(mark)
    assert youden(*words, "--json").said["recommendation"]["text"].startswith(mark)


@pytest.mark.slow
def test_an_unfinished_run_can_be_replanned_after_a_partial_fit(
    youden: Youden, capped: Path, server: WireServer
) -> None:
    assert youden("run", "capped.yaml").code == 1
    youden("fit", "runs/capped").well()
    n_done = server.n_requests
    smaller = youden("run", "capped.yaml", "--calls", "150", "--max-cost", "100", "--json").said
    assert smaller["partial"] is None
    assert smaller["fit"]["calls"]["n_paired"] + smaller["fit"]["calls"]["n_independent"] <= 150
    assert smaller["fit"]["calls"]["n_reused"] == 0
    assert server.n_requests < n_done + 150


@pytest.mark.slow
def test_the_ranking_of_an_earlier_plan_is_not_shown_for_the_current_one(
    youden: Youden, capped: Path, server: WireServer
) -> None:
    assert youden("run", "capped.yaml").code == 1
    youden("fit", "runs/capped").well()
    folder = read_run("runs/capped").folder
    assert get_state(folder) == "fitted"
    ranking = folder.file("ranking.csv").read_bytes()

    youden("plan", "capped.yaml", "--calls", "150").well()
    assert get_state(folder) == "unfinished"
    for format in ("tables", "hf", "eee"):
        assert youden("export", "runs/capped", "out.csv", "--format", format).refuses("run-other-plan")
    assert youden("report", "runs/capped", "--format", "csv").refuses("run-other-plan")
    with pytest.raises(RunFolderError, match="run-other-plan"):
        read_run("runs/capped").export("out.csv")

    # answers to the new plan that are not fitted yet
    youden("judge", "capped.yaml", "--calls", "150", "--max-cost", "100").well()
    assert folder.file("ranking.csv").read_bytes() == ranking
    assert get_state(folder) == "unfinished"
    assert youden("export", "runs/capped", "out.csv").refuses("fit-stale")
    for format in ("html", "md", "csv", "svg"):
        assert youden("report", "runs/capped", "--format", format).refuses("fit-stale")
    assert youden("gate", "runs/capped", "--agent", "a0", "--baseline", "a1").refuses("fit-stale")
    assert youden("label", "runs/capped", "--next", "5", "--out", "label.csv").refuses("fit-stale")
    Path("labels.csv").write_text("agent,item,label\na0,i0,1\n", encoding="utf-8")
    assert youden("quality", "runs/capped", "--labels", "labels.csv").refuses("fit-stale")
    youden("fit", "runs/capped").well()
    assert get_state(folder) == "fitted"
    youden("export", "runs/capped", "out.csv").well()


def test_a_run_without_any_answer_is_not_ranked(youden: Youden, capped: Path) -> None:
    youden("plan", "capped.yaml").well()
    assert youden("fit", "runs/capped").refuses("run-unjudged")
    ended = youden("run", "capped.yaml", "--max-cost", "0")
    assert ended.code == 1
    assert "the cap of $0 pays for none of the 596 calls" in ended.err
    assert "youden fit" not in ended.err
    assert youden("fit", "runs/capped").refuses("run-unjudged")
    assert not (capped / "runs/capped/verdicts.parquet").exists()


@pytest.mark.slow
def test_a_partial_fit_keeps_answers_that_the_store_has_lost(youden: Youden, capped: Path, server: WireServer) -> None:
    assert youden("run", "capped.yaml").code == 1
    youden("fit", "runs/capped").well()
    n_done = server.n_requests
    shutil.rmtree(capped / ".youden")
    assert youden("fit", "runs/capped", "--json").said["partial"]["n_done"] == n_done

    # the run is finished with the answers of its folder, and none is paid for twice
    youden("run", "capped.yaml", "--max-cost", "100").well()
    assert server.n_requests == 596


@pytest.mark.slow
def test_failures_of_a_partial_run_count_against_max_missing(youden: Youden, capped: Path, server: WireServer) -> None:
    server.behave = lambda n, body: (
        Reply("Sorry.") if "item 3" in body["messages"][-1]["content"] else same_item_or_chance(n, body)
    )
    assert youden("run", "capped.yaml", "--max-missing", "1").code == 1
    refused = youden("fit", "runs/capped")
    assert refused.code == 0
    config = capped / "runs/capped/config.yaml"
    config.write_text(re.sub("max_missing: .*", "max_missing: 0.01", config.read_text()))
    refused = youden("fit", "runs/capped")
    assert refused.code == 1
    assert refused.err.rstrip().endswith("[too-many-missing]")


@pytest.mark.slow
def test_a_search_stopped_at_its_cap_is_ranked_after_each_round(
    youden: Youden, capped: Path, server: WireServer
) -> None:
    judge = yaml.safe_load((capped / "capped.yaml").read_text())["judge"]
    for name in ("search", "whole"):
        write_config(capped / f"{name}.yaml", pool="pool", judge=judge, design="adaptive", calls=500)
    assert youden("run", "search.yaml", "--max-cost", "5").code == 1
    n_done = server.n_requests
    output = youden("fit", "runs/search", "--json").said
    assert output["partial"]["n_done"] == n_done
    finished = youden("run", "search.yaml", "--max-cost", "100", "--json").said
    assert finished["partial"] is None

    # the rounds are those of a run that was never interrupted
    n_requests = server.n_requests
    complete = youden("run", "whole.yaml", "--max-cost", "100", "--json").said
    assert server.n_requests == n_requests
    assert complete["ranking"] == finished["ranking"]


@pytest.mark.slow
def test_an_interrupted_jury_is_ranked_by_the_trials_that_all_judges_answered(
    youden: Youden, capped: Path, server: WireServer
) -> None:
    judges = [wire_judge(server.url, model=model, price=100, max_tokens=1, concurrency=4) for model in ("a", "b", "c")]
    jury = {"backend": "jury", "name": "three", "judges": judges}
    write_config(capped / "jury.yaml", pool="pool", judge=jury, calls=300)
    caps = (
        ("0", "the cap of $0 pays for none"),
        ("5", "the cap of $5 pays for about"),
        ("18", "the cap of $18 for the run"),
    )
    for max_cost, note in caps:
        if max_cost == "18":
            refused = youden("fit", "runs/jury")
            assert refused.refuses("run-unjudged")
            assert "no trial has the answers of all 3 judges. Answers to " in refused.err
            assert re.search(r" trials: a \d+, b 0, c 0\. Run `youden run runs/jury/config.yaml`", refused.err)
            with pytest.raises(RunFolderError, match=r"is a jury.*run `youden run .*run `youden fit .*\[live-jury\]"):
                LiveRun(RunFolder(capped / "runs/jury"))
        ended = youden("run", "jury.yaml", "--max-cost", max_cost)
        assert ended.code == 1
        assert note in ended.err
        assert "youden fit" not in ended.err  # not all judges have answered
    n_calls = len(read_run_plan(capped / "runs/jury"))
    n_done = server.n_requests - 2 * n_calls
    assert n_done > 50
    output = youden("fit", "runs/jury", "--json").said
    assert output["partial"] == {"n_done": n_done, "n_calls": n_calls}
    youden("run", "jury.yaml", "--max-cost", "100").well()
    assert server.n_requests == 3 * n_calls


def write_partial_run(folder: Path, kind: str, server: WireServer, youden: Youden) -> list[Path]:
    """Judge the run "partial" up to a cap, and then up to a higher one; return a copy of its store after each command."""
    if kind == "jury":
        judges = [
            wire_judge(server.url, model=model, price=100, max_tokens=1, concurrency=4) for model in ("a", "b", "c")
        ]
        jury = {"backend": "jury", "name": "three", "judges": judges}
        write_config(folder / "partial.yaml", pool="pool", judge=jury, calls=300)
        caps = ("17", "18")
    else:
        judge = yaml.safe_load((folder / "capped.yaml").read_text())["judge"]
        keys = {"design": "adaptive"} if kind == "search" else {}
        write_config(folder / "partial.yaml", pool="pool", judge=judge, calls=596, max_missing=0.5, **keys)
        caps = ("4", "7")

    stores = []
    for number, cap in enumerate(caps):
        assert youden("run", "partial.yaml", "--max-cost", cap).code == 1
        stores.append(folder / f"copy-{number}.db")
        shutil.copyfile(folder / ".youden/answers.db", stores[-1])
    return stores


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jury", "failures"])
def test_a_partial_fit_does_not_replace_outcomes_by_fewer_from_another_store(
    youden: Youden, capped: Path, server: WireServer, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    if kind == "failures":
        server.behave = lambda n, body: (
            Reply("Sorry.") if "item 3" in body["messages"][-1]["content"] else same_item_or_chance(n, body)
        )
    earlier, later = write_partial_run(capped, kind, server, youden)
    done = youden("fit", "runs/partial", "--json").said["partial"]
    files = [capped / "runs/partial" / name for name in ("plan.parquet", "verdicts.parquet")]
    contents = [file.read_bytes() for file in files]

    for store in (earlier, None):
        if store is None:
            (capped / ".youden/answers.db").unlink()
        else:
            shutil.copyfile(store, capped / ".youden/answers.db")
        fitted = youden("fit", "runs/partial", "--json")
        assert fitted.said["partial"] == done
        assert f"{done['n_done']} outcomes in its verdicts.parquet were kept" in caplog.text
        assert [file.read_bytes() for file in files] == contents

    caplog.clear()
    shutil.copyfile(later, capped / ".youden/answers.db")
    assert youden("fit", "runs/partial", "--json").said["partial"] == done
    assert "were kept" not in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["calls", "search", "jury"])
def test_a_partial_fit_opens_the_store_for_reading_only(
    youden: Youden, capped: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    write_partial_run(capped, kind, server, youden)
    store = capped / ".youden/answers.db"
    content = store.read_bytes()
    store.chmod(0o444)
    store.parent.chmod(0o555)
    is_read_only = []
    connect = sqlite._open_connection

    def record(path: Path, *, read_only: bool) -> Connection:
        is_read_only.append(read_only)
        return connect(path, read_only=read_only)

    monkeypatch.setattr(sqlite, "_open_connection", record)  # the permissions do not stop root
    try:
        assert youden("fit", "runs/partial", "--json").said["partial"]["n_done"] > 0
    finally:
        store.parent.chmod(0o755)
    assert is_read_only
    assert all(is_read_only)
    assert store.read_bytes() == content


@pytest.mark.parametrize(("calls", "has_note"), [("4000", True), ("596", False)])
@pytest.mark.parametrize("judge", ["lexical", "wire"])
def test_a_budget_above_what_the_pool_allows_is_stated(
    youden: Youden, capped: Path, judge: str, calls: str, *, has_note: bool
) -> None:
    options = ["--judge", "lexical"] if judge == "lexical" else []
    ended = youden("run", "capped.yaml", *options, "--calls", calls, "--max-cost", "0")
    n_paired = 5 * 4 * 30
    assert ("plan: the budget is 4,000 calls, but the design 'cyclic' has only" in ended.err) == has_note
    if has_note and judge == "lexical":
        assert f"'cyclic' has only {n_paired} on this pool" in ended.err
