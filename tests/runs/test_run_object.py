"""Test that `youden.run` and `Run` write the files of the commands, with equal numbers and without paying twice."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

import youden as package
from commands import Youden, wire_judge, write_config, write_pool_table
from narrowing import not_none, untyped
from small_pools import make_pool, part_of
from stops import AT_RISK, TABLES, bench
from unruly_server import UnrulyServer
from wire_server import Reply, WireServer, running, same_item
from youden import stats
from youden.data.folder.joined_pools import describe_addition
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import iter_responses
from youden.errors import BudgetError, ConfigError, PoolError, RunFolderError, StatisticsError, YoudenError
from youden.runs.run_object import Run
from youden.study.agreement import JudgesStudy
from youden.types import Agent, Item, Pool

FITTED = (*TABLES, "scores_row.csv", "pairs.parquet", "curl.csv", "plan.parquet", "ranking.json", "fit.json")
CALLS = 150


@pytest.fixture(scope="module")
def judged_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with mine.csv and its run runs/first, made by a call."""
    place = tmp_path_factory.mktemp("first")
    write_pool_table(place / "mine.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        package.run("mine.csv", out="runs/first", calls=CALLS, seed=3)
    return place


@pytest.fixture
def first(judged_once: Path, youden: Youden, tmp_path: Path) -> Run:
    """Copy the run of `judged_once`."""
    shutil.copytree(judged_once, tmp_path, dirs_exist_ok=True)
    return package.read_run("runs/first")


@pytest.fixture
def by_command(first: Run, youden: Youden) -> Run:
    """Make the same run by the command, with the same name in another folder."""
    write_config(Path("first.yaml"), pool="mine.csv", calls=CALLS, seed=3)
    youden("run", "first.yaml", "--out", "commands/first", "--quiet").well()
    return package.read_run("commands/first")


def tables(run: Run) -> dict[str, bytes]:
    return {name: (run.path / name).read_bytes() for name in FITTED}


def frame_of(pool: Pool) -> pd.DataFrame:
    rows = [(agent.id, item.id, text, item.prompt, agent.group) for agent, item, _, text in iter_responses(pool)]
    return pd.DataFrame(rows, columns=["agent", "item", "text", "prompt", "group"])


def test_a_call_and_a_command_write_the_same_files(first: Run, by_command: Run, youden: Youden) -> None:
    assert tables(first) == tables(by_command)
    configs = {
        run.path.parent.name: yaml.safe_load((run.path / "config.yaml").read_text()) for run in (first, by_command)
    }
    for folder, config in configs.items():
        assert config["resolved"].pop("account").endswith(f"{folder}/first")
    assert configs["runs"] == configs["commands"]
    assert (first.path / "report.html").is_file()
    first.extend(calls=40)
    youden("extend", "calls", "commands/first", "40").well()
    assert tables(first) == tables(by_command)
    assert len(first.plan) > CALLS
    gate = first.gate("a4", baseline="a0", markdown="gate.md", junit="gate.xml")
    ended = youden("gate", "commands/first", "--agent", "a4", "--baseline", "a0", "--json")
    said = json.loads(ended.out)
    assert said | {"folder": ""} == json.loads(json.dumps(gate.to_json())) | {"folder": ""}
    assert gate.outcome == "better"
    assert (first.path / "gates.json").read_bytes() == (by_command.path / "gates.json").read_bytes()
    assert "better" in Path("gate.md").read_text(encoding="utf-8")
    assert "<testcase" in Path("gate.xml").read_text(encoding="utf-8")


def test_an_empty_panel_removes_the_panel(first: Run) -> None:
    agents = first.ranking.agent.tolist()
    assert first.fit(trusted=agents[:2]).facts.ranked_by == "trusted"
    assert first.fit(trusted=[]).facts.ranked_by == "plain"


@pytest.mark.slow
def test_other_methods_write_what_their_commands_write(first: Run, by_command: Run, youden: Youden) -> None:
    assert first.fit(trusted=["a0", "a1"], target="these-items").facts.ranked_by == "trusted"
    youden("fit", "commands/first", "--trusted", "a0,a1", "--target", "these-items").well()
    assert tables(first) == tables(by_command)
    written = first.label(6, "one.csv", seed=1)
    youden("label", "commands/first", "--next", "6", "--seed", "1", "--out", "two.csv").well()
    assert written.table.read_bytes() == Path("two.csv").read_bytes()
    first.export("one.jsonl")
    youden("export", "commands/first", "two.jsonl").well()
    assert Path("one-ranking.jsonl").read_bytes() == Path("two-ranking.jsonl").read_bytes()
    for name in ("report.md", "report.csv"):
        path = first.report(name)
        assert (
            path.read_text(encoding="utf-8") == youden("report", "runs/first", "--format", path.suffix[1:]).well().out
        )
    assert first.report() == first.path / "report.html"
    assert first.report("both.html", against=by_command).is_file()
    stressed = first.stress(attacks=["clones"])
    said = youden("stress", "commands/first", "--attack", "clones", "--json").said
    assert json.loads(json.dumps(asdict(stressed)))["attacks"] == said["attacks"]
    with pytest.raises(ConfigError, match=r"got 'pdf'.*\[report-format\]"):
        first.report("report.pdf")
    with pytest.raises(ConfigError, match=r"\[report-against\]"):
        first.report("both.md", against=by_command)


def test_the_ranking_of_a_run_keeps_agent_ids_that_look_like_numbers_or_na(tmp_path: Path, youden: Youden) -> None:
    ids = ("007", "1.10", "1e5", "NA", "None", "True")
    pool = make_pool(len(ids), 12)
    agents = [replace(agent, id=name, group=name) for agent, name in zip(pool.agents, ids, strict=True)]
    run = package.run(replace(pool, agents=tuple(agents)), out="runs/ids", calls=CALLS, progress=False)
    in_memory = package.rank(run.verdicts)
    assert run.ranking.agent.tolist() == in_memory.agent.tolist()
    assert run.ranking.group.tolist() == in_memory.group.tolist()
    assert run.ranking.ability.tolist() == in_memory.ability.tolist()


def test_rankings_can_be_written_to_files_of_pandas(first: Run, tmp_path: Path) -> None:
    for ranking in (first.ranking, package.rank(first.verdicts)):
        for frame in (ranking, ranking.sort_values("agent", ignore_index=True).assign(note="x")):
            frame.to_parquet(tmp_path / "t.parquet")
            frame.to_feather(tmp_path / "t.feather")
            for read in (pd.read_parquet(tmp_path / "t.parquet"), pd.read_feather(tmp_path / "t.feather")):
                assert read.agent.tolist() == frame.agent.tolist()
                assert read.ability.tolist() == frame.ability.tolist()
            assert copy.deepcopy(frame).attrs == frame.attrs == ranking.attrs


def test_columns_of_two_rankings_in_different_orders_are_not_correlated(first: Run, tmp_path: Path) -> None:
    table = first.ranking
    assert untyped(stats.spearman)(table.ability, first.ranking.ability).value == pytest.approx(1)
    assert untyped(stats.rmse)(table.ability, table.high).value > 0
    same_order = first.rejudge("lexical", calls=60, out=tmp_path / "second", seed=1, progress=False).ranking
    assert untyped(stats.spearman)(table.ability, same_order.ability).value == pytest.approx(1)
    other = package.rank(package.judge(first.plan, judge=lambda a, b: (len(a) + len(b)) % 3 == 0))
    labels = pd.DataFrame({"agent": table.agent, "item": "i0", "label": range(len(table))})
    quality = first.quality(labels, scale=(0, 10))
    for name, later in (("ability", other.ability), ("quality", quality.quality)):
        with pytest.raises(StatisticsError, match=rf"got 'ability' and '{name}', each .*set_index.*\[array-index\]"):
            untyped(stats.spearman)(table.ability, later)
    in_order_of_table = other.set_index("agent").ability.loc[table.agent].reset_index(drop=True)
    assert untyped(stats.spearman)(table.ability, in_order_of_table).value < 1
    aligned = quality.set_index("agent").loc[table.agent]
    assert untyped(stats.spearman)(table.set_index("agent").ability, aligned.quality).value < 0


def test_a_run_has_its_results_as_attributes(first: Run) -> None:
    ranking = first.ranking
    assert [*ranking.agent] == [row.agent for row in RunFolder(first.path).read_ranking()]
    in_memory = package.rank(first.verdicts)
    assert ranking.attrs.keys() == in_memory.attrs.keys()
    for name in ("unique_best", "choice", "method"):
        assert ranking.attrs[name] == in_memory.attrs[name], name
    recommendation, without_lengths = ranking.attrs["recommendation"], in_memory.attrs["recommendation"]
    assert (recommendation.form, recommendation.agents) == (without_lengths.form, without_lengths.agents)
    assert recommendation == first.recommendation
    assert ranking.attrs["warnings"] == [*first.warnings]
    assert (first.name, first.warnings) == ("first", first.facts.warnings)
    assert repr(first) == f"Run('runs/first': {first.recommendation.text})"
    assert repr(Run("nowhere")) == "Run('nowhere': not fitted)"
    with pytest.raises(RunFolderError, match=r"\[run-missing\]"):
        package.read_run("nowhere")
    assert package.compare(first, "runs/first").summary == package.compare(first.path, first.path).summary


def test_a_run_has_the_differences_that_decide_its_ranks(first: Run) -> None:
    table = first.differences
    file = pd.read_parquet(first.path / "pairs.parquet")
    pd.testing.assert_frame_equal(table, file[[*table.columns]].astype({"first": str, "second": str}))

    ranking = first.ranking.set_index("agent")
    difference = ranking.ability.loc[table["first"]].to_numpy() - ranking.ability.loc[table["second"]].to_numpy()
    assert table.difference.to_numpy() == pytest.approx(difference)
    assert (table.significantly_better == (table.difference > table.half_width)).all()
    n_better = (table.p_holm <= 0.05).groupby(table["second"]).sum()
    assert (ranking.simultaneous_rank_low == 1 + n_better.loc[ranking.index]).all()

    with (first.path / "ranking.csv").open("a") as ranking_file:
        ranking_file.write("\n")
    with pytest.raises(RunFolderError, match=r"\[pairs-stale\]"):
        _ = first.differences


def test_a_registered_judge_that_calls_a_function_runs_resumes_and_extends(
    youden: Youden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "equal_length.py").write_text(
        "import youden\n"
        "class EqualLength:\n"
        "    name = 'equal-length'\n"
        "    def answer_many(self, plan):\n"
        "        return youden.judge(plan, judge=lambda first, second: len(first) == len(second))\n",
        encoding="utf-8",
    )
    info = tmp_path / "equal_length-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: equal_length\nVersion: 1\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(
        "[youden.judges]\nequal-length = equal_length:EqualLength\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    pool = make_pool(5, 12)
    runs = [package.run(pool, judge="equal-length", out="r", calls=60, progress=False) for _ in range(2)]
    table = package.rank(package.judge(runs[0].plan, judge=lambda first, second: len(first) == len(second)))
    assert runs[0].ranking.ability.tolist() == runs[1].ranking.ability.tolist()
    # pandas before version 3 may round a number of a CSV file in its last digit
    assert table.ability.tolist() == pytest.approx(runs[0].ranking.ability.tolist(), rel=1e-15)
    assert runs[0].verdicts.judge["name"] == "equal-length"

    with pytest.raises(RunFolderError, match=r"another judge's answers.*\[run-mismatch\]"):
        package.run(pool, judge="lexical", out="r", calls=60, progress=False)
    n_trials = len(runs[0].plan)
    runs[0].extend(calls=60, progress=False)
    assert len(runs[0].verdicts) > n_trials
    youden("extend", "calls", "r", "60").well()


def test_a_notebook_shows_a_run_as_a_table_with_escaped_texts(first: Run) -> None:
    frame = frame_of(package.read_pool("mine.csv"))
    frame["agent"] = frame["agent"].replace("a4", "<script>alert(4)</script>\u202e")
    html = package.run(frame, out="runs/html", calls=CALLS)._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;alert(4)" in html
    assert "\u202e" not in html
    assert html.count("<tr>") == 6
    assert package.read_run("runs/html").recommendation.form in html.lower()


@pytest.mark.slow
def test_a_pool_in_memory_is_saved_with_the_run_and_another_one_is_refused(first: Run, youden: Youden) -> None:
    pool = package.read_pool("mine.csv")
    frame = frame_of(pool)
    run = package.run(pool, out="runs/pool", calls=CALLS, seed=3)
    assert run.ranking.ability.tolist() == first.ranking.ability.tolist()
    assert run.plan.pool.digest == pool.digest
    before = tables(run)
    again = package.run(frame, out="runs/pool", calls=CALLS, seed=3)
    assert tables(again) == before
    some = frame[frame.agent != "a0"]
    fewer = package.run(some, out="runs/fewer", calls=CALLS)
    with pytest.raises(
        RunFolderError, match=r"1 agent was added to its pool\. .*youden extend agents runs/fewer .*\[run-mismatch\]"
    ):
        package.run(frame, out="runs/fewer", calls=CALLS)
    assert not_none(fewer.extend(frame).facts.extension).joined == ("a0",)
    youden("report", "runs/fewer").well()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"calls": "many"}, r"youden\.run: 'calls' is 'many': .*\[run-config\]"),
        ({"call": 3}, r"youden\.run: .*'call'.*calls.*\[run-config\]"),
        ({"trials": 4}, r"youden\.run: unknown key 'trials'\. Set `calls: 4/agent` instead\. \[run-config\]"),
        ({"judge": 3}, r"judge.* got 3.*\[judge-config\]"),
        ({"judge": "gpt-4o-mini"}, r"\[max-cost-needed\]"),
    ],
)
def test_an_invalid_key_is_one_error_that_names_it(
    youden: Youden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any], said: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    write_pool_table(tmp_path / "mine.csv")
    with pytest.raises(ConfigError, match=said):
        package.run("mine.csv", out="runs/r", **keys)
    if "call" in keys:
        with pytest.raises(ConfigError, match=said):
            package.run(package.read_pool("mine.csv"), out="runs/r", **keys)
        assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "cannot consist of nothing"),
        ({"agents": "mine.csv", "items": "mine.csv"}, "cannot consist of agents, items"),
        ({"agents": "mine.csv", "focus": ["a1"]}, "cannot consist of agents, focus"),
        ({"top": 1}, "cannot consist of top"),
        ({"calls": 0}, "'calls' is 0"),
    ],
)
def test_an_extension_without_or_with_two_arguments_is_refused(first: Run, options: dict[str, Any], said: str) -> None:
    before = tables(first)
    with pytest.raises(ConfigError, match=rf"{said}.* Correct them\. \[extend-options\]"):
        first.extend(**options)
    assert tables(first) == before


@pytest.fixture
def paid(youden: Youden, server: WireServer, tmp_path: Path) -> dict[str, Any]:
    """Return the keys of a run by a judge that costs a dollar per million tokens."""
    frame_of(make_pool(5, 8)).to_csv(tmp_path / "answers.csv", index=False)
    return {"judge": wire_judge(server.url, price=1), "calls": 110, "independent": "pooled:20"}


@pytest.mark.slow
def test_the_cap_stops_a_run_and_the_same_call_resumes_it(
    paid: dict[str, Any], server: WireServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BudgetError):
        package.run("answers.csv", out="runs/r", max_cost=0.005, **paid)
    n_stored = server.n_requests
    assert 0 < n_stored < 110
    run = package.run("answers.csv", out="runs/r", max_cost=1.0, **paid)
    assert server.n_requests == len(run.verdicts) == 110
    assert run.facts.calls is not None
    assert run.facts.calls.usd == pytest.approx(110 * 101e-6)
    package.run("answers.csv", out="runs/r", max_cost=1.0, **paid)
    assert server.n_requests == 110
    assert capsys.readouterr() == ("", ""), "without a terminal or a notebook there is no progress bar"


@pytest.mark.slow
async def test_a_run_works_in_a_running_event_loop(paid: dict[str, Any], server: WireServer) -> None:
    asyncio.get_running_loop()
    run = package.run("answers.csv", out="runs/r", max_cost=1.0, **paid)
    assert server.n_requests == 110
    assert len(run.extend(calls=20, max_cost=1.0).verdicts) == 130
    assert server.n_requests == 130


@pytest.mark.slow
def test_rejudging_returns_a_separate_run(paid: dict[str, Any], server: WireServer, youden: Youden) -> None:
    run = package.run("answers.csv", out="runs/r", max_cost=1.0, **paid)
    write_config(Path("b.yaml"), **wire_judge(server.url, model="b"))
    second = run.rejudge("b.yaml", calls=60)
    assert second.path == Path("runs/r-by-b")
    youden("rejudge", "runs/r", "--judge", "b.yaml", "--calls", "60", "--out", "commands/r-by-b").well()
    by_command = package.read_run("commands/r-by-b")
    assert [(second.path / name).read_bytes() for name in TABLES] == [
        (by_command.path / name).read_bytes() for name in TABLES
    ]
    assert server.n_requests == 110 + len(second.verdicts)
    study = package.compare(run, second)
    assert isinstance(study, JudgesStudy)
    assert study.n_agents == 5
    exported = second.export_cassette("r.jsonl")
    assert (exported.n_answers, exported.n_unanswered) == (len(second.verdicts), 0)


@pytest.mark.slow
def test_a_stopped_extension_is_resumed_by_the_same_call(paid: dict[str, Any], server: WireServer) -> None:
    run = package.run("answers.csv", out="runs/r", max_cost=1.0, **paid)
    grown = frame_of(make_pool(6, 8))
    server.behave = lambda n, body: Reply(same_item(body)) if n < 130 else Reply("", status=401)
    with pytest.raises(YoudenError):
        run.extend(grown, calls=60, max_cost=1.0)
    with pytest.raises(RunFolderError, match=r"\[extend-unfinished\]"):
        run.extend(calls=10)
    server.behave = lambda _n, body: Reply(same_item(body))
    answered = server.n_requests
    assert "a5" in set(run.extend(grown, calls=60, max_cost=1.0).ranking.agent)
    assert run.facts.extension is not None
    assert server.n_requests - answered <= len(run.verdicts) - 110


@pytest.mark.slow
async def test_one_example_of_the_complete_api_also_runs_in_a_notebook(
    monkeypatch: pytest.MonkeyPatch, server: WireServer, tmp_path: Path
) -> None:
    """In a running event loop with a paid judge, every request is paid for once by any caller."""
    monkeypatch.chdir(tmp_path)
    frame = frame_of(make_pool(7, 20)).replace({"agent": {"a0": "prod", "a1": "new"}})
    frame[frame.agent != "a6"].to_csv("answers.csv", index=False)
    labels = frame[["agent", "item"]].assign(label=[float(name == "new") for name in frame.agent]).iloc[::3]
    (tmp_path / "configs" / "judges").mkdir(parents=True)
    judge = wire_judge(server.url, price_in=0.15, price_out=0.6, max_tokens=8)
    del judge["price"]
    write_config(tmp_path / "configs" / "judges" / "gpt-4o-mini.yaml", **judge)

    pool = package.read_pool("answers.csv")
    plan = package.make_plan(pool, calls=1000, seed=0)
    cost = plan.cost("gpt-4o-mini")
    verdicts = package.judge(plan, judge="gpt-4o-mini", max_cost=2.0)
    ranking = package.rank(verdicts)
    rates = verdicts.rates()
    scores = rates.training_scores()
    held_out = rates.holdout_scores()
    model = package.ClippedLinear().fit(scores)
    run = package.run(pool, judge="gpt-4o-mini", max_cost=2.0, out="runs/first")
    first = run.ranking
    report = run.report("report.html")
    n_judged = len(run.plan)
    run.extend(frame, max_cost=2.0)
    gate = run.gate("new", baseline="prod")
    quality = run.quality(labels)
    study = package.compare(package.read_run("runs/first"), run)

    assert (cost.calls, server.n_requests) == (
        len(plan),
        len({*not_none(verdicts.request_hash), *not_none(run.verdicts.request_hash)}),
    )
    assert set(ranking.agent) == set(first.agent) == {"prod", "new", "a2", "a3", "a4", "a5"}
    assert model.ability_.shape == (6,)
    assert held_out.value.shape == scores.value.shape
    assert report.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert len(run.plan) > n_judged
    assert set(run.ranking.agent) == {*first.agent, "a6"}
    assert (gate.baseline, gate.agents[0].agent) == ("prod", "new")
    assert quality.agent.iloc[0] == "new"
    assert isinstance(study, JudgesStudy)
    assert study.n_agents == 7


CALL = """
import youden
youden.run(
    "pool", judge="judge.yaml", max_cost=100_000, out="runs/r", calls=600, independent="pooled:40", progress=False
)
"""


@pytest.mark.slow
async def test_a_killed_call_is_resumed_by_the_same_call(tmp_path: Path) -> None:
    async with UnrulyServer() as server:
        run = await bench(tmp_path, server)
        judge = json.loads((tmp_path / "r.yaml").read_text(encoding="utf-8").split("judge: ")[1])
        write_config(tmp_path / "judge.yaml", **judge)
        process = await run.start("-c", CALL)
        assert await run.until(200, process)
        process.send_signal(signal.SIGKILL)
        await run.end(process, within=300)
        assert run.lost <= AT_RISK
        ended = await run.end(await run.start("-c", CALL), within=300)
        assert ended.code == 0, ended.output
        assert run.paid_twice <= AT_RISK
        by_call = run.tables()
        run.forget()
        assert (await run.finish()).code == 0
        assert run.tables() == by_call


@pytest.mark.slow
def test_youden_run_is_the_function_after_every_submodule_is_imported(tmp_path: Path) -> None:
    script = f"""
import importlib, pkgutil
import youden
for module in pkgutil.walk_packages(youden.__path__, "youden."):
    if module.name != "youden.__main__":
        importlib.import_module(module.name)
run = youden.run("datasets/field-notes", calls=300, out={str(tmp_path / "r")!r})
print(run.path, len(run.ranking))
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.stdout == f"{tmp_path / 'r'} 12\n", ended.stderr
    assert inspect.isfunction(package.run)


NOTEBOOK = """
import sys
import nbclient, nbformat
from nbformat.v4 import new_code_cell, new_notebook
book = new_notebook(cells=[new_code_cell(sys.argv[1])])
nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
for output in book.cells[0].outputs:
    print(output.get("data", output))
"""
CELL = """
import youden
youden.run("answers.csv", judge="judge.yaml", max_cost=1.0, out="runs/r", calls=110, independent="pooled:20")
"""


@pytest.mark.slow
def test_jupyter_shows_the_progress_and_the_table_of_a_run(tmp_path: Path) -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    frame_of(make_pool(5, 8)).to_csv(tmp_path / "answers.csv", index=False)
    with running(WireServer()) as server:
        write_config(tmp_path / "judge.yaml", **wire_judge(server.url, price=1))
        ended = subprocess.run(
            [sys.executable, "-c", NOTEBOOK, CELL], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert server.n_requests == 110
    assert ended.returncode == 0, ended.stderr
    assert '<progress max="110" value="110"></progress>' in ended.stdout
    assert "<table>" in ended.stdout


def test_an_extension_states_left_out_items_empty_responses_and_similar_ids(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = make_pool(5, 9)
    run = package.run(part_of(whole, slice(4), slice(8)), calls=100, out=tmp_path / "run", progress=False)
    texts = whole.texts[4:].copy()
    texts[0, :2] = ""
    run.extend(replace(whole, agents=(Agent("A0"),), texts=texts, name="new"), progress=False)
    notes = [
        re.sub(r"-\w{12}:", "-DIGEST:", record.getMessage())
        for record in caplog.records
        if record.name == "youden.workflows.extend"
    ]
    assert notes == [
        "new-DIGEST: agents: names that differ only in case, spaces, invisible characters, Unicode form or a final .0 "
        "count as different: 'A0', 'a0'; write each name alike in all files",
        "new-DIGEST: 1 item is not in the run and left out: i8; add items by a separate extension",
        "new-DIGEST: 2 added responses are empty and count as failures",
    ]


def test_items_that_lack_a_final_decimal_of_the_run_are_named_in_an_extension() -> None:
    whole = make_pool(3, 4)
    items = [[Item(f"{number}{ending}") for number in range(4)] for ending in ("", ".0")]
    pool, new_pool = (replace(whole, items=tuple(members)) for members in items)
    *_, note = describe_addition(pool, new_pool, pool)
    assert note.startswith("items: names that differ only in case")
    assert note.endswith(
        "count as different: '0', '0.0', '1', '1.0', '2', '2.0', …; write each name alike in all files"
    )


def test_repeats_of_unknown_agents_are_refused_with_the_right_reason(tmp_path: Path) -> None:
    whole = make_pool(5, 8)
    run = package.run(part_of(whole, slice(4)), calls=100, out=tmp_path / "run", progress=False)
    with pytest.raises(PoolError, match=r"no further responses of the run's agents .*\[join-none\]"):
        run.extend(repeats=part_of(whole, slice(4, 5)), progress=False)


def test_a_pool_in_another_order_is_refused_with_that_reason(tmp_path: Path) -> None:
    frame = frame_of(make_pool(4, 8))
    package.run(frame, calls=100, out=tmp_path / "run", progress=False)
    with pytest.raises(
        RunFolderError, match=r"items in another order than those.* Restore the pool .*\[run-mismatch\]"
    ):
        package.run(frame.iloc[::-1], calls=100, out=tmp_path / "run", progress=False)


def test_an_extension_of_a_missing_run_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(YoudenError):
        Run("runs/first").extend(frame_of(make_pool(4, 8)), progress=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("settings", [{"target": "these"}, {"families": {"a0": 1}}, {"families": {"a0": None}}])
def test_refused_settings_of_a_fit_leave_the_config_of_the_run_readable(first: Run, settings: dict[str, Any]) -> None:
    config = (first.path / "config.yaml").read_bytes()
    with pytest.raises(ConfigError, match=r"\[run-config\]"):
        untyped(first.fit)(**settings)
    assert (first.path / "config.yaml").read_bytes() == config
    assert first.fit().ranking.shape[0] > 0


def test_the_letters_of_one_agent_or_attack_are_not_read_as_several(first: Run) -> None:
    with pytest.raises(YoudenError, match=r"at least 2 agents.*got 1\..*\[panel-small\]"):
        first.fit(trusted=first.ranking.agent[0])
    assert len(first.stress(attacks="template", progress=False).attacks) == 1


def test_an_iterator_over_one_attack_plans_no_other_attack(first: Run) -> None:
    stress = untyped(first.stress)(attacks=iter(["template"]), progress=False)
    assert [result.attack for result in stress.attacks] == ["template"]


def test_the_ranking_of_a_missing_run_is_the_error_of_other_results(tmp_path: Path) -> None:
    with pytest.raises(YoudenError, match=r"no run folder at .*run-missing"):
        _ = Run(tmp_path / "none").ranking


def test_commands_in_messages_quote_the_path_of_a_run_with_spaces(tmp_path: Path, youden: Youden) -> None:
    pool, out = make_pool(4, 12), "my runs/first"
    run = package.run(pool, calls=60, out=out, progress=False)
    run.extend(calls=20, progress=False)
    with pytest.raises(
        RunFolderError, match=r"Run `youden run 'my runs/first/config\.yaml'` .*by `youden.read_run`.*run-extended"
    ):
        package.run(pool, calls=60, out=out, progress=False)
    youden("run", "my runs/first/config.yaml").well()

    write_config(Path("plan.yaml"), pool=run.folder.read_config().pool, calls=60)
    planned = youden("plan", "plan.yaml", "--out", "my runs/second").well()
    assert "next: youden run 'my runs/second/config.yaml'" in planned.err
    judged = youden("judge", "my runs/second/config.yaml").well()
    assert "next: youden fit 'my runs/second'" in judged.err
