"""Mistakes of a first use, each answered by the command that helps."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import openpyxl
import pytest

from commands import Youden, write_config
from report_runs import judged
from wire_server import Reply, WireServer
from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError
from youden.judging.config.judge_files import load_judge_config
from youden.judging.doctor import diagnose
from youden.report.data.doubts import RankingChecks
from youden.report.data.report import iter_agent_findings
from youden.report.data.summary import Summary
from youden.types import Finding
from youden.view.shown import find_runs


@pytest.mark.parametrize(
    ("requested", "served", "severity"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Llama-3.3-70B-Instruct", "ok"),
        ("meta-llama/Llama-3.3-70B-Instruct", "Llama-3.3-70B-Instruct", "ok"),
        ("Llama-3.3-70B-Instruct", "meta-llama/Llama-3.3-70B-Instruct", "ok"),
        ("meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Llama-3.1-8B-Instruct", "warning"),
    ],
)
def test_doctor_compares_the_names_of_models_without_their_owners(
    requested: str, served: str, severity: str, server: WireServer
) -> None:
    server.behave = lambda *_: Reply("YES", model=served)
    judge = load_judge_config(
        {"backend": "wire", "model": requested, "base_url": server.url, "api_key_env": None, "price": 0}
    )
    (diagnosis,) = diagnose(judge, environment={})
    (finding,) = [finding for finding in diagnosis.findings if finding.slug == "model"]
    assert finding.severity == severity, finding.message


def test_quality_states_that_a_sheet_is_not_filled_in(youden: Youden, mine: Path) -> None:
    youden("label", "runs/mine", "--next", "5", "--out", "to-label.csv").well()
    ended = youden("quality", "runs/mine", "--labels", "to-label.csv")
    assert ended.refuses("labels-empty")
    assert "got 5 rows with an empty column `label`. Fill in the column" in ended.err
    with (mine / "to-label.csv").open(encoding="utf-8-sig", newline="") as file:
        n_rows = len(list(csv.DictReader(file)))
    assert n_rows == 5


def test_check_of_a_spreadsheet_names_the_command_that_reads_it(youden: Youden, tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["agent", "item", "text"], ["a", "1", "x"]):
        book.active.append(row)
    book.save(tmp_path / "answers.xlsx")
    ended = youden("check", "answers.xlsx")
    assert ended.refuses("pool-kind")
    assert "Run `youden init answers.xlsx` to make a pool of it" in ended.err


@pytest.mark.parametrize("word", ["no", "off", "true"])
def test_a_judge_that_yaml_reads_as_a_boolean_is_to_be_quoted(youden: Youden, tmp_path: Path, word: str) -> None:
    write_config(tmp_path / "c.yaml", pool="mine.csv")
    (tmp_path / "c.yaml").write_text(f"pool: mine.csv\njudge: {word}\n")
    ended = youden("plan", "c.yaml")
    assert ended.refuses("run-config")
    assert "'judge' is" in ended.err
    assert "Put the value in quotes" in ended.err


def test_rejudge_has_a_default_budget(youden: Youden, mine: Path) -> None:
    planned = youden("rejudge", "runs/mine", "--judge", "lexical", "--dry-run", "--json").said
    n_paired = 50 * 5 / 2
    assert n_paired <= planned["cost"]["calls"] <= 1.2 * n_paired


def test_view_accepts_a_folder_of_runs_and_states_that_a_folder_is_missing(mine: Path) -> None:
    runs = find_runs([mine / "runs"], root=mine / "runs")
    assert list(runs.find_all()) == ["mine"]
    with pytest.raises(RunFolderError, match=r"There is no folder .*nowhere\. Run .*\[run-missing\]"):
        find_runs([mine / "nowhere"], root=mine / "runs")
    (mine / "empty").mkdir()
    with pytest.raises(RunFolderError, match=r"empty contains no run folder\. Run .*\[run-missing\]"):
        find_runs([mine / "empty"], root=mine / "runs")


def test_the_page_of_an_agent_has_every_warning_that_names_it(tmp_path: Path) -> None:
    folder: RunFolder = judged(tmp_path / "run")
    summary = Summary(folder)
    leader = Finding("leader", "The leader a1 falls to rank 3, behind a10, a2.", agents=("a1", "a10", "a2"))
    check = Finding("groups", "It changes most without “even”, where a4 moves by 3 ranks.", agents=("a4",))
    summary.warnings = (leader,)
    summary.facts = replace(summary.facts, partners=None)
    summary.labels = None
    checks = RankingChecks(None, (), (check,))
    findings = {agent: list(iter_agent_findings(agent, summary, checks)) for agent in ("a0", "a1", "a2", "a4", "a10")}
    assert findings == {
        "a0": [],
        "a1": [leader.message],
        "a2": [leader.message],
        "a4": [check.message],
        "a10": [leader.message],
    }
