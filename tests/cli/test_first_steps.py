"""Test that common first mistakes are answered by the command that helps."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
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
def test_a_judge_name_that_yaml_reads_as_a_boolean_has_to_be_quoted(youden: Youden, tmp_path: Path, word: str) -> None:
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


def write_table(path: Path, texts: dict[str, list[str]]) -> None:
    """Write a table of the texts of each agent, one per item."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["agent", "item", "text", "prompt"])
        for agent, texts_of_agent in texts.items():
            for item, text in enumerate(texts_of_agent):
                rows.writerow([agent, f"q{item}", text, f"prompt {item}"])


def make_texts(n_agents: int, n_words: int) -> dict[str, list[str]]:
    rng = np.random.default_rng(0)
    return {
        f"a{agent}": [" ".join(f"w{k}" for k in rng.choice(60, n_words, replace=False)) for _ in range(12)]
        for agent in range(n_agents)
    }


def test_init_states_what_a_call_is_and_the_unit_of_each_number(youden: Youden, tmp_path: Path) -> None:
    write_table(tmp_path / "table.csv", make_texts(4, 10))
    lines = (tmp_path / "table.csv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "table.csv").write_text("\n".join([*lines, lines[1]]) + "\n", encoding="utf-8")
    stdout = youden("init", "table.csv").well().out
    assert "1 record left out: a repetition of an earlier response (first: table.csv, line 50)" in stdout
    assert (
        "wrote pools/table and table.yaml: 4 agents × 12 items; 720 calls to lexical, each of which compares two responses, "
        "about $0.00" in stdout
    )


def test_init_refuses_a_config_that_other_commands_would_not_recognize(youden: Youden, tmp_path: Path) -> None:
    write_table(tmp_path / "table.csv", make_texts(4, 10))
    refused = youden("init", "table.csv", "--out", "mine")
    assert refused.refuses("init-suffix")
    assert "Set --out mine.yaml" in refused.err
    refused = youden("init", "table.csv", "--out", "my\u200brun.yaml")
    assert refused.refuses("run-config")
    assert r"--out my\u200brun.yaml: 'name' is 'my\u200brun': a name has up to 100 letters" in refused.err
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


@pytest.mark.slow
def test_check_counts_no_words_in_scripts_that_are_written_without_spaces(youden: Youden, tmp_path: Path) -> None:
    characters = "川は古い石の家のそばを流れ子供たちは静かな橋の近くで遊び船は穀物を市場へ運ぶ"
    rng = np.random.default_rng(0)
    japanese = ["".join(rng.choice(list(characters), 40)) for _ in range(12)]
    texts = make_texts(4, 10)
    write_table(tmp_path / "mixed.csv", texts | {"a0": japanese})
    counts = youden("check", "mixed.csv", "--json").said
    assert counts["counts"]["mean_words"] == 10
    assert counts["agent_words"] == {"a0": None, "a1": 10, "a2": 10, "a3": 10}

    write_table(tmp_path / "japanese.csv", dict.fromkeys(texts, japanese))
    checked = youden("check", "japanese.csv").well().out
    assert "40 to 40 characters per response (median 40)." in checked
    assert "words on average" not in checked


@pytest.mark.slow
def test_check_describes_one_agent_in_the_singular(youden: Youden, tmp_path: Path) -> None:
    texts = make_texts(5, 20)
    parts = [text.split()[:12] for text in texts["a1"]], [text.split()[:12] for text in texts["a2"]]
    texts["production"] = [" ".join(first + second) for first, second in zip(*parts, strict=True)]
    texts["short"] = ["Yes"] * 12
    write_table(tmp_path / "table.csv", texts)
    checked = youden("check", "table.csv").well().out
    assert "'short' writes very short responses" in checked
    assert "'production' reuses responses of other agents: 80% of the words" in checked

    # several agents that copy everything
    half = [" ".join(first) for first in parts[0]], [" ".join(second) for second in parts[1]]
    texts |= {"production": half[0], "candidate": half[1]}
    write_table(tmp_path / "table.csv", texts)
    checked = youden("check", "table.csv").well().out
    assert "'production', 'candidate' reuse responses of other agents: 100% of the words" in checked


def test_generate_asks_for_a_key_that_is_missing(youden: Youden, tmp_path: Path) -> None:
    (tmp_path / "agents.yaml").write_text("models: {}\n", encoding="utf-8")
    (tmp_path / "items.jsonl").write_text('{"id": "a", "prompt": "b"}\n', encoding="utf-8")
    refused = youden("generate", "agents.yaml", "items.jsonl", "--out", "made")
    assert refused.refuses("agents-file")
    assert "'agents' is missing. Add or correct this key." in refused.err


def test_names_are_printed_without_invisible_characters(youden: Youden, tmp_path: Path) -> None:
    agents = ("a\u202eb", "c", "d")
    lines = [f"{agent},i{n},{'' if n else 'some words'}" for agent in agents for n in range(8)]
    (tmp_path / "pool\u202e.csv").write_text("\n".join(["agent,item,text", *lines]), encoding="utf-8")
    (tmp_path / "c\u202e").mkdir()
    ended = youden("init", "pool\u202e.csv", "--out", "c\u202e/c.yaml").well()
    assert "'a\\u202eb': 7" in ended.out
    assert "youden run 'c\\u202e/c.yaml'" in ended.out
    refused = youden("check", "c\u202e/c.yaml", "unknown\u202e\x1b[31m")
    assert "extra argument (unknown\\u202e\\x1b[31m)" in refused.err
    assert not {"\u202e", "\x1b"} & set(ended.out + ended.err + refused.err)
