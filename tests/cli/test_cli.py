"""Test commands from end to end: exit codes, output streams and written files."""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import book
from commands import Ended, Youden, write_config, write_pool_table
from youden import cli, make_plan, read_pool
from youden.cli.output import MAX_COLUMNS, print_table
from youden.data.folder.run_folder import RunFolder
from youden.data.folder.table_columns import ranking_columns
from youden.pipeline.next_step import _forecast_data_by_components, _forecast_needed_data
from youden.stats.forecast import AgentVariances, half_widths
from youden.text.tables import make_table
from youden.types import PAIRED, Scores
from youden.types.results import Signature

RUN_FILES = {
    "config.yaml",
    "pool.json",
    "plan.parquet",
    "verdicts.parquet",
    "rates.parquet",
    "pairs.parquet",
    "scores.csv",
    "scores_row.csv",
    "curl.csv",
    "ranking.csv",
    "ranking.json",
    "items.csv",
    "variance_components.json",
    "fit.json",
    "signature.json",
    "report.html",
}


def write_scores(folder: Path, value: np.ndarray) -> None:
    K, J = value.shape
    agents, items = tuple(f"a{i}" for i in range(K)), tuple(f"i{j}" for j in range(J))
    weight = (~np.isnan(value)).astype(float)
    scores = Scores.from_matrices(value, weight, role="train", kind="row", agent_ids=agents, item_ids=items)
    RunFolder(folder).write_scores("row", scores)
    RunFolder(folder).write_signature(Signature({"youden": "test"}))


@pytest.mark.slow
def test_demo_ranks_the_bundled_pool_and_states_what_its_judge_cannot_detect(youden: Youden, tmp_path: Path) -> None:
    ended = youden("demo")
    assert ended.code == 0
    for expected in (
        "fact-flipper",
        "strategic",
        "AUC of faithful (4) against low-effort (2)",
        "against strategic (3)",
    ):
        assert expected in ended.out
    assert re.search(r"Limitation of this judge: 'fact-flipper' .* has rank \d", ended.out)
    assert "gpt-4o-mini" in ended.out
    assert "similarity baseline" in ended.err
    assert "'truncation' copies its prompts" in ended.err
    assert "report: " in ended.err
    assert "sha:" in ended.err
    assert RUN_FILES | {"holdout.csv"} == {path.name for path in (tmp_path / "runs" / "demo").iterdir()}


@pytest.mark.slow
def test_demo_ranks_the_bundled_pool_alike_despite_a_pool_in_the_working_directory(youden: Youden, mine: Path) -> None:
    (mine / "configs/runs").mkdir(parents=True)
    (mine / "configs/runs/field-notes.yaml").write_text("pool: nowhere", encoding="utf-8")
    (mine / "datasets/field-notes").mkdir(parents=True)
    ended = youden("demo", "--out", "two", "--json")
    assert ended.code == 0, ended.err
    for file in ("ranking.csv", "scores.csv", "items.csv", "holdout.csv", "signature.json"):
        assert (mine / "demo" / file).read_bytes() == (mine / "two" / file).read_bytes()


def test_run_of_a_csv_file_writes_a_report(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv")
    write_config(tmp_path / "mine.yaml", pool="mine.csv")
    ended = youden("run", "mine.yaml", "--json")
    assert ended.code == 0, ended.err
    data = json.loads(ended.out)
    assert data["ranking"][0]["agent"] == "a4"
    assert "plan: cyclic" in ended.err
    folder = tmp_path / "runs" / "mine"
    assert {path.name for path in folder.iterdir()} == RUN_FILES
    rows = list(csv.reader((folder / "ranking.csv").read_text(encoding="utf-8").splitlines()))
    assert rows[0] == [column.name for column in ranking_columns(["robust"])]
    assert [row[0] for row in rows[1:]] == [agent["agent"] for agent in data["ranking"]]
    assert data["signature"] in (folder / "report.html").read_text(encoding="utf-8")


def lines_around_table(ended: Ended) -> list[str]:
    lines = [*ended.out.splitlines(), *ended.err.splitlines()]
    title = next(n for n, line in enumerate(lines) if " agents on " in line)
    assert lines[title + 1].startswith("ranks")
    assert set(lines[title + 2]) == {"─"}
    rows = list(takewhile(lambda line: line[0] == " ", lines[title + 3 :]))
    return [line for line in lines[:title] + lines[title + 3 + len(rows) :] if not line.startswith("judging")]


def test_run_prints_its_table_and_six_lines_ending_with_next_step_and_report(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv", n_items=30)
    write_config(tmp_path / "mine.yaml", pool="mine.csv")
    ended = youden("run", "mine.yaml", "--calls", "200", "--seed", "4")
    assert ended.code == 0, ended.err
    lines = lines_around_table(ended)
    assert len(lines) <= 6, lines
    assert max(map(len, ended.out.splitlines()[1:])) <= 80
    assert ended.out.startswith(("Recommended: ", "Candidates: "))
    assert lines[-1].startswith("next: ") == ended.out.startswith("Candidates: ")
    assert f"report: {Path('runs/mine/report.html')} (youden:" in lines[-1]
    assert len(lines) < len(
        lines_around_table(youden("run", "mine.yaml", "--calls", "200", "--seed", "4", "--verbose"))
    )
    other_run = youden("run", "mine.yaml", "--calls", "200", "--seed", "5")
    assert "seed was 4 and is 5" in other_run.err
    quiet = youden("run", "mine.yaml", "--seed", "4", "--calls", "200", "--quiet")
    assert (quiet.err, lines_around_table(quiet)) == ("", [])
    assert youden("run", "mine.yaml", "--quiet", "--verbose").code == 2
    assert youden("run", "mine.yaml", "--trials", "9").code == 2


def test_run_prints_recommendation_table_warnings_and_one_next_step_in_this_order(
    youden: Youden, tmp_path: Path
) -> None:
    write_pool_table(tmp_path / "mine.csv", n_agents=9, n_items=60)
    write_config(tmp_path / "mine.yaml", pool="mine.csv", calls="8/agent")
    done = CliRunner().invoke(cli.youden, ["run", "mine.yaml"], catch_exceptions=False)
    lines = [
        line for line in done.output.splitlines() if not line.startswith("judging")
    ]  # both streams, as in a terminal
    kinds = [next((kind for kind in KINDS_OF_LINES if line.startswith(kind)), "table") for line in lines]
    order = [kind for n, kind in enumerate(kinds) if n == 0 or kinds[n - 1] != kind]
    assert order == ["plan: ", "Candidates: ", "table", "warning: ", "next: "]
    assert len(lines) - kinds.count("table") <= 8
    assert kinds.count("next: ") == 1
    assert "; use another judge before you decide. The judge recognizes" in done.stdout
    assert len(done.stdout.splitlines()[0]) < 400


KINDS_OF_LINES = ("plan: ", "Candidates: ", "Recommended: ", "warning: ", "next: ")


def test_plan_states_its_default_holdout(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv")
    for holdout in (None, 0, 0.2):
        write_config(
            tmp_path / "mine.yaml", pool="mine.csv", design="dense", **({} if holdout is None else {"holdout": holdout})
        )
        stderr = youden("plan", "mine.yaml", "--out", f"runs/{holdout}").err
        assert ("design 'dense' holds out 20% of the cells by default" in stderr) == (holdout is None)


def test_a_table_that_is_not_printed_on_a_terminal_divides_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["Mixtral-8x7B-Instruct-v0.1_concise", "0.746 … 0.820"]
    print_table(make_table("", ["agent", "interval"], [f"number {k}" for k in range(6)], [names + 6 * ["1"]]))
    lines = capsys.readouterr().out.splitlines()
    assert all(any(name in line for line in lines) for name in names)
    assert max(map(len, lines)) <= MAX_COLUMNS


def test_plan_run_and_report_state_the_planned_percentage_without_free_calls(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv", n_agents=4, n_items=60)
    write_config(tmp_path / "mine.yaml", pool="mine.csv", calls="10%")
    expected = "10.0% of dense without 576 free independent calls"
    assert f"720 calls ({expected})" in youden("plan", "mine.yaml").err
    assert f"720 calls to lexical, {expected}" in youden("run", "mine.yaml").err
    assert f"720 calls ({expected})" in youden("report", "runs/mine", "--format", "md").out


def test_independent_calls_that_are_part_of_the_budget_count_in_the_percentage(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv", n_agents=4, n_items=60)
    write_config(tmp_path / "mine.yaml", pool="mine.csv", calls="20%", independent="pooled:200")
    assert "288 calls (20.0% of dense)" in youden("plan", "mine.yaml").err
    youden("run", "mine.yaml").well()
    assert "288 calls (20.0% of dense)" in youden("report", "runs/mine", "--format", "md").out


@pytest.mark.slow
@pytest.mark.parametrize("gaps", [False, True])
def test_the_next_step_is_a_command_that_extends_the_run(youden: Youden, tmp_path: Path, gaps: bool) -> None:
    write_pool_table(tmp_path / "mine.csv", n_agents=6, n_items=60)
    lines = (tmp_path / "mine.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    if gaps:
        (tmp_path / "mine.csv").write_text("".join(lines[:20] + lines[21:]), encoding="utf-8")
    write_config(tmp_path / "mine.yaml", pool="mine.csv", calls="20/agent")
    ended = youden("run", "mine.yaml")
    match = re.search(
        r"next: about ([\d,]+) more calls would separate a\d and a\d if .*: `youden (.*)`; report", ended.err
    )
    assert match, ended.err
    grown = youden(*shlex.split(match[2]))
    assert grown.code == 0, grown.err


def test_the_next_step_of_a_small_pool_counts_each_trial_for_both_agents(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv", n_agents=4, n_items=120)
    write_config(tmp_path / "mine.yaml", pool="mine.csv", calls="10/agent")
    ended = youden("run", "mine.yaml")
    match = re.search(r"next: about ([\d,]+) more calls would separate (a\d) and (a\d) if .*: `.*`; report", ended.err)
    assert match, ended.err

    folder = RunFolder(tmp_path / "runs/mine")
    needed = _forecast_needed_data(folder, folder.read_plan(), [match[2], match[3]])
    assert needed is not None
    assert needed.unit == "blocks"
    assert int(match[1].replace(",", "")) == 4 * needed.n_added  # a block of four agents has four trials


def test_the_items_of_the_next_step_suffice_with_as_many_calls_each_as_in_the_run(tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv", n_agents=4, n_items=40)
    plan = make_plan(read_pool(tmp_path / "mine.csv"), calls="20/agent")
    components = AgentVariances(np.array([1.0]), np.array([2.0]))
    n_blocks = int((plan.trial_type == PAIRED).sum()) // plan.n_agents
    required = float(half_widths(components, n_blocks, plan.n_items)[0]) / 4

    needed = _forecast_data_by_components(components, required, plan)
    assert needed.unit == "items"
    growth = 1 + needed.n_added / plan.n_items
    grown = half_widths(components, round(growth * n_blocks), round(growth * plan.n_items))
    assert 0.9 * required < grown[0] <= required


@pytest.mark.slow
def test_single_step_commands_write_the_same_files_as_run(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv")
    write_config(tmp_path / "mine.yaml", pool="mine.csv", design="dense")
    assert youden("run", "mine.yaml", "--out", "whole").code == 0
    planned = youden("plan", "mine.yaml", "--out", "steps", "--json")
    assert json.loads(planned.out)["cost"] == {
        "cells": 60,
        "calls": 480,
        "tokens_in": 0,
        "tokens_out": 0,
        "usd": 0.0,
        "tokenizer": "characters / 4",
        "prices": "",
        "minutes": None,
        "pace": "",
        "stored": 0,
        "usd_left": None,
        "n_shared": 0,
        "n_other_settings": 0,
        "other_settings": "",
    }
    assert {path.name for path in (tmp_path / "steps").iterdir()} == {"config.yaml", "pool.json", "plan.parquet"}
    assert youden("judge", "mine.yaml", "--out", "steps").code == 0
    assert youden("fit", "steps").code == 0
    report = youden("report", "steps")
    assert report.out.strip() == str(Path("steps/report.html"))
    for file in ("ranking.csv", "scores.csv", "scores_row.csv", "items.csv", "holdout.csv", "signature.json"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "steps" / file).read_bytes()


@pytest.mark.slow
def test_run_accepts_the_config_that_a_run_saved(youden: Youden, mine: Path) -> None:
    before = (mine / "runs/mine/ranking.csv").read_bytes()
    again = youden("run", "runs/mine/config.yaml", "--json")
    assert again.code == 0, again.err
    assert (mine / "runs/mine/ranking.csv").read_bytes() == before


@pytest.mark.parametrize("words", [("run", "--seed", "1"), ("plan", "--judge", "gpt-4o-mini")])
def test_another_plan_or_judge_does_not_overwrite_answers(youden: Youden, mine: Path, words: tuple[str, ...]) -> None:
    before = (mine / "runs/mine/config.yaml").read_bytes()
    ended = youden(words[0], "mine.yaml", *words[1:])
    assert ended.code == 2
    assert ended.err.rstrip().endswith("[run-mismatch]")
    assert (mine / "runs/mine/config.yaml").read_bytes() == before


def test_a_judge_that_may_cost_money_requires_a_cap_before_any_request(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv")
    write_config(tmp_path / "mine.yaml", pool="mine.csv")
    ended = youden("run", "mine.yaml", "--judge", "gpt-4o-mini")
    assert ended.code == 2
    assert ended.err.rstrip().endswith("[max-cost-needed]")
    assert re.search(r"260 calls to gpt-4o-mini, .* \$0\.\d\d, about ±", ended.err)
    ended = youden("run", "mine.yaml", "--judge", "gpt-4o-mini", "--max-cost", "1")
    assert ended.code == 2
    assert ended.err.rstrip().endswith("[judge-no-key]")


def test_run_of_a_tiny_pool_sends_no_request_twice_and_at_most_the_dense_calls(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "tiny.csv", n_agents=3, n_items=8)
    write_config(tmp_path / "tiny.yaml", pool="tiny.csv")
    ended = youden("run", "tiny.yaml", "--json")
    calls = json.loads(ended.out)["fit"]["calls"]
    assert calls["n_paired"] <= calls["n_dense_calls"] / 2
    assert calls["n_independent"] <= 4 * calls["n_paired"]  # these cost nothing
    assert len(make_plan(read_pool(tmp_path / "tiny.csv"))) <= calls["n_dense_calls"]
    assert RunFolder(tmp_path / "runs/tiny").read_plan().replicate.max() == 0


def test_plan_redraws_a_deleted_plan_and_fit_requires_it(youden: Youden, mine: Path) -> None:
    before = (mine / "runs/mine/ranking.csv").read_bytes()
    (mine / "runs/mine/plan.parquet").unlink()
    ended = youden("fit", "runs/mine")
    assert ended.code == 2
    assert "plan.parquet" in ended.err
    assert youden("run", "mine.yaml").code == 0
    assert (mine / "runs/mine/ranking.csv").read_bytes() == before


@pytest.mark.slow
def test_a_removed_holdout_deletes_its_file(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv")
    write_config(tmp_path / "mine.yaml", pool="mine.csv", design="dense", holdout=0.2)
    assert youden("run", "mine.yaml").code == 0
    assert (tmp_path / "runs/mine/holdout.csv").exists()
    write_config(tmp_path / "mine.yaml", pool="mine.csv", design="dense", holdout=0)
    assert youden("run", "mine.yaml").code == 2
    (tmp_path / "runs/mine/verdicts.parquet").unlink()
    assert youden("run", "mine.yaml").code == 0
    assert not (tmp_path / "runs/mine/holdout.csv").exists()


def test_abilities_are_unbiased_if_agents_answer_different_items(youden: Youden, tmp_path: Path) -> None:
    """One agent answers only easy items, another only hard ones; both are as good as the rest."""
    rng = np.random.default_rng(1)
    with (tmp_path / "gaps.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["agent", "item", "text"])
        for i, agent in enumerate(("lucky", "brave", "a", "b", "c", "d")):
            for j in range(40):
                hard = j % 2
                if i < 2 and hard != i:
                    continue
                words = rng.choice(60 if hard else 16, size=10, replace=False)
                writer.writerow([agent, f"i{j}", " ".join(f"w{j}x{k}" for k in words)])
    write_config(tmp_path / "gaps.yaml", pool="gaps.csv", calls="60%")
    data = json.loads(youden("run", "gaps.yaml", "--json").out)
    assert data["fit"]["ranking"] == "additive fit of trials"
    ability = {row["agent"]: row["ability"] for row in data["ranking"]}
    assert abs(ability["lucky"] - ability["brave"]) < 0.15


def test_agents_of_unlinked_components_have_wide_rank_intervals(youden: Youden, tmp_path: Path) -> None:
    with (tmp_path / "apart.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["agent", "item", "text"])
        for agents, items in (("abx", range(12)), ("cdy", range(12, 24))):
            for i, agent in enumerate(agents):
                for j in items:
                    writer.writerow([agent, f"i{j}", " ".join(f"w{j}x{k}" for k in range(4 + 3 * i + j % 3))])
    write_config(tmp_path / "apart.yaml", pool="apart.csv", design="dense", holdout=0)
    ended = youden("run", "apart.yaml", "--json")
    data = json.loads(ended.out)
    assert "Compare agents only within a component" in ended.err
    assert all(row["simultaneous_rank_high"] - row["simultaneous_rank_low"] >= 3 for row in data["ranking"])


@pytest.mark.slow
def test_a_target_is_saved_and_intervals_of_a_complete_run_have_positive_width(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv")
    write_config(tmp_path / "mine.yaml", pool="mine.csv", calls=5 * 4 * 12)

    def stderr_of(*command: str) -> dict[str, Any]:
        ended = youden(*command, "--json")
        assert ended.code == 0, ended.err
        data: dict[str, Any] = json.loads(ended.out)
        assert all(row["high"] > row["low"] and row["std_error"] > 0 for row in data["ranking"])
        return data

    kind = stderr_of("run", "mine.yaml")
    these = stderr_of("fit", "runs/mine", "--target", "these-items")
    assert (kind["fit"]["target"], these["fit"]["target"]) == ("items-like-these", "these-items")
    assert max(row["std_error"] for row in these["ranking"]) < 0.2 * min(row["std_error"] for row in kind["ranking"])
    assert stderr_of("fit", "runs/mine") == these
    assert "|target:these-items|" in these["signature"]
    assert RunFolder(tmp_path / "runs/mine").read_config().target == "these-items"


@pytest.mark.slow
def test_imports_write_over_neither_a_judged_run_nor_another_pool(
    youden: Youden, peer_prediction: Path, mine: Path
) -> None:
    opus = peer_prediction / "eval_results" / "opus_translation_results"
    ended = youden("import", "peer-prediction", str(opus), "--out", "runs/mine")
    assert ended.code == 2
    assert ended.err.rstrip().endswith("[out-not-empty]")
    assert youden("import", "peer-prediction", str(opus), "--out", "opus").code == 0
    assert youden("import", "peer-prediction", str(opus), "--out", "opus").code == 0
    ended = youden("run", "mine.yaml", "--out", "opus")
    assert ended.code == 2
    assert ended.err.rstrip().endswith("[run-mismatch]")


@pytest.mark.parametrize("out", ["mine.csv", "mine.csv/x", pytest.param("/proc/nowhere", marks=pytest.mark.posix)])
def test_an_unwritable_output_path_is_a_clear_error(youden: Youden, tmp_path: Path, out: str) -> None:
    write_pool_table(tmp_path / "mine.csv")
    write_config(tmp_path / "mine.yaml", pool="mine.csv")
    ended = youden("run", "mine.yaml", "--out", out)
    assert ended.code == 2
    assert ended.err.rstrip().endswith("[file]")


@pytest.mark.parametrize(
    ("text", "line", "slug"),
    [
        ("agent,item,text\na,1,x\na,1,y\n", 3, "pool-duplicate"),
        ("agent,item\na,1\n", 1, "pool-columns"),
        ("agent,item,text\n,1,x\n", 2, "pool-id"),
        ("agent,item,text\n", None, "pool-empty"),
        ('agent,item,text\na,1,"two\nlines"\nb,1\n', 4, "pool-csv"),
    ],
)
def test_a_broken_csv_error_names_file_and_line_without_a_traceback(
    youden: Youden, tmp_path: Path, text: str, line: int | None, slug: str
) -> None:
    (tmp_path / "broken.csv").write_text(text, encoding="utf-8")
    write_config(tmp_path / "broken.yaml", pool="broken.csv")
    ended = youden("run", "broken.yaml")
    assert ended.code == 2
    assert "Traceback" not in ended.err
    assert "broken.csv" in ended.err
    assert ended.err.rstrip().endswith(f"[{slug}]")
    assert line is None or f"line {line}" in ended.err
    assert ended.out == ""
    assert not (tmp_path / "runs").exists()


SIX = np.linspace(0, 0.5, 6)
NAN = np.nan


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(np.array([[0.1, 0.2, NAN, NAN], [NAN, NAN, 0.3, 0.4]]), "same two items", id="no items in common"),
        pytest.param(SIX[None, :], "single agent", id="a single agent"),
        pytest.param(SIX[:, None], "single item", id="a single item"),
        pytest.param(np.full((3, 4), NAN), "all cells are missing", id="only missing cells"),
    ],
)
def test_links_of_a_run_without_a_rectangle_are_a_clear_error(
    youden: Youden, tmp_path: Path, value: np.ndarray, reason: str
) -> None:
    write_scores(tmp_path / "odd", value)
    for words in (("study", "links", "odd"), ("study", "links", "odd", "--json")):
        ended = youden(*words)
        assert ended.code == 2
        assert ended.out == ""
        assert reason in ended.err
        assert "Traceback" not in ended.err


def test_links_of_equal_scores_have_zero_curl_and_no_scaled_curl(youden: Youden, tmp_path: Path) -> None:
    write_scores(tmp_path / "equal", np.full((4, 5), 0.3))
    data = json.loads(youden("study", "links", "equal", "--json", "--n-resamples", "20").out)
    for row in data["links"].values():
        assert row["median"] == row["p95"] == row["sd"] == 0
        assert row["median_scaled"] is None
        assert row["r2"] is None
    assert "nan" not in youden("study", "links", "equal", "--n-resamples", "20").out.lower()


@pytest.mark.slow
def test_a_run_with_few_cells_gets_no_link_comparison(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv", n_agents=8, n_items=20)
    write_config(tmp_path / "thin.yaml", pool="mine.csv", calls="20%")
    write_config(tmp_path / "thick.yaml", pool="mine.csv", design="dense", holdout=0)
    for name, thin in (("thin", True), ("thick", False)):
        assert youden("run", f"{name}.yaml").code == 0
        words = " ".join(
            json.loads(youden("study", "links", f"runs/{name}", "--json", "--n-resamples", "0").out)["summary"]
        )
        assert ("depend on which agents were drawn" in words) == thin
        assert ("explains" in words) != thin


def test_curl_ignores_two_agents_without_a_common_item(youden: Youden, tmp_path: Path) -> None:
    value = np.array([[0.1, 0.2, NAN, NAN], [NAN, NAN, 0.3, 0.4], [0.1, 0.5, 0.2, 0.2]])
    write_scores(tmp_path / "gaps", value)
    data = json.loads(youden("study", "links", "gaps", "--json", "--n-resamples", "20").out)
    assert data["links"]["identity"]["n_rectangles"] == 2
    assert data["links"]["identity"]["p95"] == pytest.approx(0.3)


@pytest.mark.slow
def test_study_reproduces_the_first_table_of_the_paper(youden: Youden, peer_prediction: Path) -> None:
    figures = [(0.080, 0.580, 0.37), (0.289, 1.182, 0.60), (0.592, 2.238, 0.64)]
    source = str(peer_prediction / "eval_results" / "peer_review_results_100")
    assert youden("import", "peer-prediction", source, "--out", "X").code == 0
    data = json.loads(youden("study", "links", "X", "--json", "--n-resamples", "0").out)
    assert data["scores"] == "row"
    for link, (median, p95, scaled) in zip(("identity", "probit", "logit"), figures, strict=True):
        row = data["links"][link]
        assert row["median"] == pytest.approx(median, abs=0.002)
        assert row["p95"] == pytest.approx(p95, abs=0.002)
        assert row["median_scaled"] == pytest.approx(scaled, abs=0.01)
        assert 0.6 < row["r2"] < 0.75


@pytest.mark.slow
def test_an_imported_run_has_rates_and_both_scores_but_no_false_positive_rate(
    youden: Youden, peer_prediction: Path, tmp_path: Path
) -> None:
    source = peer_prediction / "eval_results" / "opus_translation_results"
    ended = youden("import", "peer-prediction", str(source), "--out", "X")
    assert "16 of 55800 calls failed" in ended.err
    files = {path.name for path in (tmp_path / "X").iterdir()}
    assert {"rates.parquet", "scores.csv", "scores_row.csv", "ranking.csv", "fit.json"} <= files
    facts = RunFolder(tmp_path / "X").read_facts()
    assert facts.fpr is None
    assert any("decomposition of D" in warning.message for warning in facts.warnings)
    assert youden("report", "X").code == 0


@pytest.mark.slow
def test_samsum_is_judged_lexically_and_ranked(youden: Youden, peer_prediction: Path, tmp_path: Path) -> None:
    source = peer_prediction / "data" / "agents" / "summarization_gpt_4o_mini_20250708_235208.json"
    assert youden("import", "peer-prediction", str(source), "--out", "samsum").code == 0
    write_config(tmp_path / "run.yaml", pool="samsum", judge="lexical", design="cyclic", calls="2%")
    ended = youden("run", "run.yaml", "--json")
    assert ended.code == 0, ended.err
    data = json.loads(ended.out)
    assert len(data["ranking"]) == 30
    assert data["fit"]["calls"]["n_paired"] == 30 * (6960 // 30)
    assert all(agent["length_place"] is not None for agent in data["ranking"])


@pytest.mark.parametrize("command", list(cli.COMMANDS))
def test_every_command_has_help_and_is_documented(youden: Youden, command: str) -> None:
    ended = youden(command, "--help")
    assert ended.code == 0
    assert len(ended.out.split("\n\n")) >= 3
    assert any(f"youden {command}" in page.read_text(encoding="utf-8") for page in book.pages())


@pytest.mark.parametrize(
    "words", [[], ["frobnicate"], ["run"], ["run", "nowhere.yaml"], ["fit", "nowhere"], ["report", "nowhere"]]
)
def test_bad_input_exits_with_2_and_a_message(youden: Youden, words: list[str]) -> None:
    ended = youden(*words)
    assert ended.code == 2
    assert ended.err or ended.out
    assert "Traceback" not in ended.err


def test_an_interrupt_exits_with_130_and_names_the_command_that_resumes(
    youden: Youden, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("youden.pipeline.judged_run.judge_run", interrupt)
    ended = youden("demo")
    assert ended.code == 130
    assert "To resume, run: youden demo" in ended.err


def test_hostile_names_are_escaped_in_the_terminal_and_on_the_page(youden: Youden, tmp_path: Path) -> None:
    hostile = "<script>1</script>\u202e{{7*7}}"
    rows = [[f"{hostile}{i}", f"i{j}", " ".join(f"w{j}x{k}" for k in range(3 + i))] for i in range(4) for j in range(9)]
    with (tmp_path / "p.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["agent", "item", "text", "group"], *([*row, "[bold]"] for row in rows)])
    write_config(tmp_path / "c.yaml", pool="p.csv")
    ended = youden("run", "c.yaml")
    assert ended.code == 0, ended.err
    page = (tmp_path / "runs" / "c" / "report.html").read_text(encoding="utf-8")
    assert "<script>1" not in page
    assert "&lt;script&gt;1" in page
    assert "{{7*7}}" in page
    for case in (ended.out, ended.err, page):
        assert "\u202e" not in case
    assert "[bold]" in ended.out


@pytest.mark.slow
def test_agents_with_identical_texts_count_once_in_the_robust_ranking(youden: Youden, tmp_path: Path) -> None:
    field_notes = Path(__file__).parents[2] / "datasets" / "field-notes"
    rows = [json.loads(line) for line in (field_notes / "responses.jsonl").read_text(encoding="utf-8").splitlines()]
    agent = rows[0]["agent"]
    rows += [row | {"agent": "its-copy"} for row in rows if row["agent"] == agent]
    pool = tmp_path / "pool"
    shutil.copytree(field_notes, pool)
    (pool / "responses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with (pool / "agents.jsonl").open("a", encoding="utf-8") as agents:
        agents.write('{"id": "its-copy"}\n')
    config = tmp_path / "c.yaml"
    config.write_text(f"name: copied\npool: {pool}\nout: {tmp_path / 'r'}\n", encoding="utf-8")
    assert youden("run", str(config)).code == 0
    facts = RunFolder(tmp_path / "r").read_facts()
    assert facts.alternative_rankings["robust"].groups == ((agent, "its-copy"),)
    assert youden("fit", str(tmp_path / "r")).code == 0
    assert RunFolder(tmp_path / "r").read_facts().alternative_rankings["robust"].groups == ((agent, "its-copy"),)


@pytest.mark.parametrize("words", [[], ["run"], ["fit"]])
def test_help_states_what_ability_measures(youden: Youden, words: list[str]) -> None:
    output = " ".join(youden(*words, "--help").out.split())
    assert "Ability measures how reliably the judge recognizes" in output
    assert "depends on pool, judge and items" in output
    assert "obscure or bureaucratic styles rank high, terse references low" in output
    assert "does not prove correctness" in output
