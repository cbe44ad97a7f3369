"""Test `youden extend` from the command line: only new comparisons are sent, nothing is lost, and changes are reported."""

from __future__ import annotations

import json
import re
import shutil
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from commands import Youden, wire_judge, write_config
from narrowing import not_none
from small_pools import make_pool, part_of
from wire_server import Reply, WireServer, same_item
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.judging.store.worker_group import coordinate_run
from youden.types import Pool

K, J, CALLS = 5, 8, 110
WHOLE = make_pool(K + 2, J + 2)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def extension_folder(tmp_path: Path, reset_server: WireServer, youden: Youden, begun: Path) -> Path:
    if begun.exists():
        shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
        reset_server.n_requests = CALLS
        return tmp_path
    write_pool(part_of(WHOLE, slice(K), slice(J)), tmp_path / "old")
    write_pool(part_of(WHOLE, slice(K, K + 2), slice(J)), tmp_path / "new")
    write_pool(part_of(WHOLE, slice(K + 2), slice(J, J + 2)), tmp_path / "items")
    write_config(
        tmp_path / "r.yaml", pool="old", calls=CALLS, independent="pooled:20", judge=wire_judge(reset_server.url)
    )
    assert youden("judge", "r.yaml").code == 0
    assert youden("fit", "runs/r").code == 0
    shutil.copytree(tmp_path, begun)
    return tmp_path


def test_extend_judge_and_rejudge_report_agents_that_copy_others_like_run(
    youden: Youden, tmp_path: Path, reset_server: WireServer
) -> None:
    pool = part_of(WHOLE, slice(K), slice(J))
    copies = [replace(pool.agents[0], id="copy"), replace(pool.agents[1], id="later copy")]
    texts = [pool.texts[0], pool.texts[1]]
    write_pool(
        replace(pool, agents=(*pool.agents, copies[0]), texts=np.vstack([pool.texts, texts[:1]])), tmp_path / "old"
    )
    write_pool(replace(pool, agents=(copies[1],), texts=np.array(texts[1:])), tmp_path / "new")
    write_config(tmp_path / "r.yaml", pool="old", calls=CALLS, judge=wire_judge(reset_server.url))

    def clones(run: str) -> list[list[str]]:
        return sorted(yaml.safe_load((tmp_path / run / "config.yaml").read_text()).get("clones", []))

    youden("judge", "r.yaml").well()
    youden("fit", "runs/r").well()
    assert clones("runs/r") == [["a0", "copy"]]
    youden("rejudge", "runs/r", "--judge", "lexical", "--calls", "60", "--out", "runs/second").well()
    assert clones("runs/second") == [["a0", "copy"]]
    youden("extend", "agents", "runs/r", "new").well()
    assert clones("runs/r") == [["a0", "copy"], ["a1", "later copy"]]


def test_only_new_comparisons_are_sent_and_abilities_of_old_agents_are_unchanged(
    youden: Youden, extension_folder: Path, reset_server: WireServer
) -> None:
    before = {row.agent: row for row in RunFolder(extension_folder / "runs/r").read_ranking()}
    asked = reset_server.n_requests
    said = youden("extend", "agents", "runs/r", "new", "--calls", "60", "--json").said
    assert reset_server.n_requests - asked == said["cost"]["calls"] <= 60
    assert said["joined"] == ["a5", "a6"]
    after = {row.agent: row for row in RunFolder(extension_folder / "runs/r").read_ranking()}
    for agent, row in before.items():
        assert (row.ability, row.low, row.high) == (after[agent].ability, after[agent].low, after[agent].high)
    assert after["a5"].n_trials > 0
    assert "No ability of the 5 earlier agents changed." in said["extension"]["summary"]
    page = (extension_folder / "runs/r/report.html").read_text(encoding="utf-8")
    assert "What changed?" in page
    assert "2 agents joined: a5, a6." in page


@pytest.mark.slow
def test_the_terminal_shows_only_agents_with_changed_ranks(
    youden: Youden, extension_folder: Path, reset_server: WireServer
) -> None:
    joined = youden("extend", "agents", "runs/r", "new", "--calls", "60", "--verbose").well()
    assert "What changed" not in joined.out, "places that newcomers changed are no move"
    reset_server.behave = lambda _n, _body: Reply("NO")
    focused = youden("extend", "calls", "runs/r", "20", "--focus", "a1", "--verbose").well()
    table = focused.out.split("What changed")[1]
    assert re.findall(r"^(a\d) +\d", table, re.MULTILINE) == ["a1"]


@pytest.mark.slow
def test_an_extension_prints_its_table_and_at_most_six_lines(youden: Youden, extension_folder: Path) -> None:
    ended = youden("extend", "agents", "runs/r", "new", "--calls", "60").well()
    said = [line for line in ended.err.splitlines() if not line.startswith("r:")]
    assert said[0].startswith("plan: cyclic, ")
    assert "report: runs/r/report.html" in said[-1]
    assert "2 agents joined: a5, a6. No ability of the 5 earlier agents changed." in ended.out
    headline, moved = ended.out.splitlines()[0], ended.out.splitlines()[-1]
    assert headline.startswith("No recommendation: the abilities vary by no more than their sampling error")
    assert moved.startswith("2 agents joined")
    assert len(said) + len([headline, moved]) <= 6
    assert youden("extend", "calls", "runs/r", "20", "--quiet").err == ""


@pytest.mark.parametrize(("budget", "n_calls"), [("4/agent", 10), ("20%", 60), ("30", 30)])
def test_more_calls_are_a_number_a_percentage_or_trials_per_agent(
    youden: Youden, extension_folder: Path, budget: str, n_calls: int
) -> None:
    said = youden("extend", "calls", "runs/r", budget, "--dry-run", "--json").said
    assert said["cost"]["calls"] == n_calls
    assert youden("extend", "calls", "runs/r", budget + "s").code == 2
    focused = youden("extend", "calls", "runs/r", "4/agent", "--focus", "a1")
    assert focused.refuses("calls-invalid")


def test_a_dry_run_sends_no_request_and_changes_no_file(
    youden: Youden, extension_folder: Path, reset_server: WireServer
) -> None:
    before, asked = contents(extension_folder / "runs/r"), reset_server.n_requests
    said = youden("extend", "agents", "runs/r", "new", "--dry-run", "--json").said
    assert said["dry_run"] is True
    assert said["cost"]["calls"] > 0
    assert said["half_width"] is not None
    assert reset_server.n_requests == asked
    assert contents(extension_folder / "runs/r") == before


@pytest.mark.slow
def test_a_run_names_the_command_for_new_responses_and_then_judges_only_those(
    youden: Youden, extension_folder: Path, reset_server: WireServer
) -> None:
    old = part_of(WHOLE, slice(K), slice(J))
    again = np.array([[f"{text} Said again." for text in row] for row in old.texts], dtype=object)
    write_pool(Pool.from_repeats(old.agents, old.items, [old.texts, again], "old"), extension_folder / "old")
    folder, asked = RunFolder(extension_folder / "runs/r"), reset_server.n_requests
    keys = not_none(folder.read_verdicts(folder.read_plan()).request_hash)
    assert youden("fit", "runs/r").code == 0, "what was judged stays what it is"
    ended = youden("run", "r.yaml")
    assert (ended.code, "40 repeats were added to its pool" in ended.err) == (2, True), ended.err
    command = ended.err.split("`")[1].split()
    assert command[1:] == ["extend", "repeats", "runs/r", "old"]
    ended = youden(*command[1:], "--json").well()
    said, now = json.loads(ended.out), folder.read_verdicts(folder.read_plan())
    n_new = said["cost"]["calls"]
    assert reset_server.n_requests - asked == n_new == len(now.plan) - CALLS
    assert not_none(now.request_hash)[:CALLS].tolist() == keys.tolist()
    shown = [now.plan.trials.columns()[name][CALLS:] for name in ("first_repeat", "second_repeat")]
    assert (np.concatenate(shown) == 2).mean() > 0.9
    assert said["extension"]["kind"] == "repeats"
    assert {move["p_holm"] for move in said["extension"]["agent_changes"]} == {None}, "other responses are no drift"
    assert youden("run", "runs/r/config.yaml").code == 0
    assert reset_server.n_requests - asked == n_new
    assert youden("extend", "repeats", "runs/r", "old").refuses("join-none")


@pytest.mark.slow
def test_an_interrupted_extension_changes_nothing_and_resumes_by_the_same_command(
    youden: Youden, extension_folder: Path, reset_server: WireServer
) -> None:
    before, asked = contents(extension_folder / "runs/r"), reset_server.n_requests
    well = reset_server.behave
    reset_server.behave = lambda n, body: Reply(same_item(body)) if n < asked + 25 else Reply("", status=401)
    ended = youden("extend", "agents", "runs/r", "new", "--calls", "60")
    assert ended.code == 2
    after = contents(extension_folder / "runs/r")
    assert {name for name in after if before.get(name) != after[name]} == {"config.yaml"}
    assert b"unfinished:" in after["config.yaml"]
    answered = reset_server.n_requests
    reset_server.behave = well
    ended = youden("extend", "agents", "runs/r", "new", "--calls", "60", "--json").well()
    assert reset_server.n_requests - answered < json.loads(ended.out)["cost"]["calls"]


@pytest.mark.slow
def test_the_config_repeats_the_complete_run_without_a_call(
    youden: Youden, extension_folder: Path, reset_server: WireServer
) -> None:
    for step in (
        ["agents", "runs/r", "new", "--calls", "60"],
        ["items", "runs/r", "items"],
        ["calls", "runs/r", "30"],
        ["calls", "runs/r", "12", "--focus", "a5"],
    ):
        assert youden("extend", *step).code == 0
    folder = RunFolder(extension_folder / "runs/r")
    assert [set(step) for step in yaml.safe_load(folder.file("config.yaml").read_text())["extensions"]] == [
        {"agents", "calls"},
        {"items"},
        {"calls"},
        {"calls", "focus"},
    ]
    ranking, asked = folder.file("ranking.csv").read_bytes(), reset_server.n_requests
    usd = not_none(folder.read_facts().calls)
    assert usd.tokens_in == 100 * asked
    assert youden("run", "runs/r/config.yaml").code == 0
    ended = youden("run", "runs/r/config.yaml", "--judge", "replay", "--out", "runs/again")
    assert ended.code == 0, "a replay finds the answers in the store that the config names"
    config = yaml.safe_load(folder.file("config.yaml").read_text()) | {"judge": {"backend": "replay"}, "out": "again"}
    folder.file("again.yaml").write_text(yaml.safe_dump(config))
    assert youden("run", "runs/r/again.yaml").code == 0
    assert reset_server.n_requests == asked
    assert folder.file("ranking.csv").read_bytes() == ranking
    assert (extension_folder / "runs/r/again/ranking.csv").read_bytes() == ranking


@pytest.mark.slow
def test_a_half_width_buys_the_required_number_of_calls(
    youden: Youden, extension_folder: Path, reset_server: WireServer
) -> None:
    write_config(
        extension_folder / "noisy.yaml",
        pool="old",
        calls=110,
        independent="pooled:20",
        judge=wire_judge(reset_server.url, model="n"),
    )
    # the answer depends on the request and not on its number, because concurrent requests arrive in any order
    reset_server.behave = lambda _n, body: Reply(
        "NO" if zlib.crc32(json.dumps(body["messages"]).encode()) % 3 else "YES"
    )
    assert youden("run", "noisy.yaml").code == 0
    wide, narrow = (
        json.loads(youden("extend", "agents", "runs/noisy", "new", "--half-width", width, "--dry-run", "--json").out)
        for width in ("0.42", "0.38")
    )
    assert narrow["cost"]["calls"] > wide["cost"]["calls"]
    assert narrow["half_width"] == pytest.approx(0.38, abs=0.02)


def test_a_cap_is_required_and_respected(youden: Youden, extension_folder: Path, reset_server: WireServer) -> None:
    judge = {"backend": "wire", "model": "m", "base_url": reset_server.url, "api_key_env": None}
    (extension_folder / "paid.yaml").write_text(
        yaml.safe_dump(judge | {"price_in": 100, "price_out": 100, "name": "m"})
    )
    assert youden("extend", "agents", "runs/r", "new", "--judge", "paid.yaml").refuses("max-cost-needed")
    ended = youden("extend", "agents", "runs/r", "new", "--judge", "paid.yaml", "--max-cost", "0.0")
    assert (ended.code, "[budget" in ended.err) == (1, True), ended.err


@pytest.mark.parametrize(
    ("kind", "words", "slug"),
    [
        ("agents", ["old"], "join-none"),
        ("agents", ["gappy"], "join-gaps"),
        ("agents", ["other"], "join-conflict"),
        ("agents", ["changed"], "join-conflict"),
        ("items", ["old"], "join-none"),
        ("items", ["few"], "join-gaps"),
        ("agents", ["nowhere"], "pool-not-found"),
        ("calls", ["30", "--focus", "a55"], "focus-invalid"),
        ("agents", ["new", "--calls", "30", "--half-width", "0.1"], "extend-options"),
        ("best", ["--top", "1"], "extend-options"),
        ("calls", ["1"], "extend-too-few-calls"),
    ],
)
def test_an_impossible_extension_states_the_reason_and_keeps_the_run(
    youden: Youden, extension_folder: Path, kind: str, words: list[str], slug: str
) -> None:
    gappy = part_of(WHOLE, slice(K, K + 2), slice(J))
    texts = gappy.texts.copy()
    texts[0, 3] = None
    write_pool(replace(gappy, texts=texts), extension_folder / "gappy")
    items = tuple(replace(item, prompt=f"another {item.id}") for item in gappy.items)
    write_pool(replace(gappy, items=items), extension_folder / "other")
    both = part_of(WHOLE, slice(K + 1), slice(J))
    texts = both.texts.copy()
    texts[2, 2] = "something else"
    write_pool(replace(both, texts=texts), extension_folder / "changed")
    write_pool(part_of(WHOLE, slice(2), slice(J, J + 2)), extension_folder / "few")
    before = contents(extension_folder / "runs/r")
    ended = youden("extend", kind, "runs/r", *words)
    assert ended.refuses(slug)
    assert "Traceback" not in ended.err
    assert contents(extension_folder / "runs/r") == before


def test_runs_of_another_pool_and_unjudged_or_imported_runs_are_refused(youden: Youden, extension_folder: Path) -> None:
    write_config(extension_folder / "plan.yaml", pool="old", calls=110, independent="pooled:20")
    assert youden("plan", "plan.yaml").code == 0
    assert youden("extend", "agents", "runs/plan", "new").refuses("run-unjudged")
    write_pool(part_of(make_pool(K, J, prompt=False), slice(K), slice(J)), extension_folder / "old")
    changed_pool = youden("extend", "agents", "runs/r", "new")
    assert changed_pool.refuses("run-mismatch")
    assert "Restore the pool as it was judged" in changed_pool.err
    ended = youden("extend", "agents", "nowhere", "new")
    assert ended.code == 2
    assert "Traceback" not in ended.err


@pytest.mark.slow
def test_a_sample_of_an_extended_run_is_rejudged_and_cannot_be_extended(
    youden: Youden, extension_folder: Path, reset_server: WireServer
) -> None:
    assert youden("extend", "agents", "runs/r", "new", "--calls", "60").code == 0
    write_config(extension_folder / "b.yaml", **wire_judge(reset_server.url, model="b", name="b"))
    ended = youden("rejudge", "runs/r", "--judge", "b.yaml", "--calls", "80", "--json").well()
    assert "An extended run is ranked here by the additive fit" in ended.out
    assert youden("extend", "calls", "runs/r-by-b", "60").refuses("extend-part")


@pytest.mark.slow
@pytest.mark.parametrize(
    "dies",
    [
        "write_verdicts",
        pytest.param("write_pool", marks=pytest.mark.slow),
        pytest.param("write_rate_chunks", marks=pytest.mark.slow),
    ],
)
def test_an_extension_killed_between_files_resumes_without_paying_twice(
    youden: Youden, extension_folder: Path, reset_server: WireServer, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    words = ("extend", "calls", "runs/r", "30")

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, dies, die)
        assert youden(*words).code == 130
    asked = reset_server.n_requests
    assert youden(*words).code == 0
    assert reset_server.n_requests == asked
    config = yaml.safe_load((extension_folder / "runs/r/config.yaml").read_text())
    assert config["extensions"] == [{"calls": 30}]
    assert youden("fit", "runs/r").code == 0


@pytest.mark.slow
def test_the_first_config_of_an_extended_run_names_the_next_step_and_keeps_no_cap(
    youden: Youden, extension_folder: Path
) -> None:
    assert youden("extend", "calls", "runs/r", "30", "--max-cost", "0.5").code == 0
    assert "max_cost" not in yaml.safe_load((extension_folder / "runs/r/config.yaml").read_text())
    ended = youden("run", "r.yaml")
    assert ended.refuses("run-extended")
    assert "runs/r/config.yaml" in ended.err


@pytest.mark.slow
def test_a_repeated_adaptive_run_keeps_its_plan_and_costs(
    youden: Youden, extension_folder: Path, reset_server: WireServer
) -> None:
    judge = {"backend": "wire", "model": "m", "base_url": reset_server.url, "api_key_env": None}
    write_config(
        extension_folder / "adaptive.yaml",
        pool="old",
        design="adaptive",
        calls=180,
        independent="pooled:20",
        judge=judge | {"price_in": 100, "price_out": 100},
        max_cost=100.0,
    )
    assert youden("run", "adaptive.yaml").code == 0
    spent = not_none(RunFolder(extension_folder / "runs/adaptive").read_facts().calls)
    assert spent.usd
    assert youden("plan", "adaptive.yaml").code == 0
    assert youden("fit", "runs/adaptive").code == 0
    assert youden("run", "adaptive.yaml").code == 0
    again = not_none(RunFolder(extension_folder / "runs/adaptive").read_facts().calls)
    assert again.usd == pytest.approx(spent.usd)


@pytest.mark.slow
def test_a_second_process_on_the_same_run_is_refused_before_any_request(
    youden: Youden, extension_folder: Path, reset_server: WireServer
) -> None:
    drawn = not_none(RunFolder(extension_folder / "runs/r").read_config().resolved)
    with coordinate_run(extension_folder / ".youden/answers.db", run=f"r {drawn.pool[:12]}"):
        asked = reset_server.n_requests
        assert youden("extend", "calls", "runs/r", "30").refuses("run-busy")
        assert reset_server.n_requests == asked
    assert youden("extend", "calls", "runs/r", "30").code == 0


def test_an_extension_with_too_few_possible_comparisons_states_it(youden: Youden, extension_folder: Path) -> None:
    ended = youden("extend", "calls", "runs/r", "10000", "--dry-run")
    assert "no more are left" in ended.err


def test_independent_calls_alone_are_paid_once_and_resume_after_an_interruption(
    youden: Youden, extension_folder: Path, reset_server: WireServer
) -> None:
    youden("extend", "calls", "runs/r", "1000").well()
    n_paired = reset_server.n_requests - 20
    assert n_paired == K * (K - 1) * J

    planned = youden("extend", "calls", "runs/r", "40", "--dry-run").well()
    assert "40 independent and 0 paired calls, because no paired calls of all agents are left" in planned.err
    behave = reset_server.behave
    reset_server.behave = lambda n, body: Reply(status=401) if n >= n_paired + 20 + 10 else behave(n, body)
    youden("extend", "calls", "runs/r", "40").refuses("judge-key")
    n_answered = 10
    n_sent_before = reset_server.n_requests
    reset_server.behave = behave
    youden("extend", "calls", "runs/r", "40").well()
    assert reset_server.n_requests - n_sent_before == 40 - n_answered
    folder = RunFolder(extension_folder / "runs" / "r")
    calls = not_none(folder.read_facts().calls)
    assert (calls.n_paired, calls.n_independent) == (n_paired, 60)
    gate = youden("gate", "runs/r", "--agent", "a0", "--baseline", "a1")
    assert "`youden extend calls` adds them. 180 more halve the standard errors" in gate.err
    youden("report", "runs/r", "--format", "md").well()


@pytest.mark.slow
def test_a_run_is_extended_by_agents_and_then_items_of_its_own_grown_pool(
    youden: Youden, extension_folder: Path, reset_server: WireServer
) -> None:
    write_pool(WHOLE, extension_folder / "old")
    assert youden("extend", "agents", "runs/r", "old", "--calls", "60").code == 0
    assert youden("extend", "items", "runs/r", "old").code == 0
    asked = reset_server.n_requests
    assert youden("run", "runs/r/config.yaml").code == 0
    assert reset_server.n_requests == asked
    assert youden("extend", "calls", "runs/r", "30").code == 0
