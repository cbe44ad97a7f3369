"""Test the messages for invalid options, config keys and ids."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from commands import Youden, write_pool_table


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("half_width: 2", "Set a half-width between 0 and 1"),
        ("half_width: wide", "such as 0.05"),
        ("trials: 15", "unknown key 'trials'. Set `calls: 15/agent` instead"),
        ("top: 0", "number of best agents to select as a whole number"),
        ("robust: maybe", "true or false"),
        ("trusted: a0", "a list of agents"),
        ("families: families.csv", "--families FILE"),
        ("follow_up_fraction: 2", "a fraction of the calls"),
        ("max_cost: cheap", "USD from 0 on"),
        ("robust: true\ntrusted: [a0]", "set only one of them"),
        ("calls: 100000000/agent", "got calls: 100000000/agent, but 6 items"),
        ("trusted: [nobody]", "agents of this run: a0"),
        ("families: {nobody: x}", "agents of this run: a0"),
    ],
)
def test_an_invalid_config_value_is_an_error_with_the_allowed_values(
    youden: Youden, tmp_path: Path, key: str, remedy: str
) -> None:
    write_pool_table(tmp_path / "p.csv", n_agents=4, n_items=6)
    (tmp_path / "c.yaml").write_text(f"pool: p.csv\n{key}\n", encoding="utf-8")
    ended = youden("plan", "c.yaml")
    assert ended.code == 2
    assert remedy in ended.err
    assert ended.err.rstrip().endswith("]")


def test_an_empty_config_is_reported_as_empty(youden: Youden, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("# nothing yet\n", encoding="utf-8")
    assert "c.yaml is empty. Write one `key: value` per line" in youden("plan", "c.yaml").err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "c.yaml", "--grace", "nan"], "'nan' is not a finite number"),
        (["run", "c.yaml", "--max-cost", "inf"], "'inf' is not a finite number"),
        (["plan", "c.yaml", "--half-width", "wide"], "'wide' is not a number. Set a number such as 0.05."),
        (["plan", "c.yaml", "--half-width", "1"], "0<x<1"),
        (["extend", "half-width", "run", "nan"], "'nan' is not a finite number"),
        (["gate", "run", "--agent", "a", "--baseline", "b", "--target", "all"], "'these-items'"),
        (["run", "c.yaml", "--robust", "--trusted", "a0,a1"], "Got both --robust and --trusted"),
        (["run", "c.yaml", "--trusted", ","], "contains no name"),
        (["run", "c.yaml", "--families", "none.csv"], "none.csv"),
        (
            ["import", "table", "p.csv", "--out", "q", "--column", "text"],
            "'text' is not of the form FIELD=COLUMN. Set, for",
        ),
        (["generate", "agents.yaml", "--out", "q", "--model-map", "=b"], "'=b' is not of the form MODEL=JUDGE"),
        (["rejudge", "run", "--judge", "lexical", "--family", "a"], "'a' is not of the form JUDGE=NAME"),
        (["import", "tabel", "p.csv", "--out", "q"], "'tabel' is not one of"),
        (
            ["study", "budget", "run", "--calls", "5%,0"],
            "Invalid value for '--calls': got '0'. Set a number of calls (4000)",
        ),
        (["study", "budget", "run", "--percent", "5"], "No such option: --percent. Set --calls 5%."),
        (["study", "budget", "run", "--half-width", "many"], "'many' is not a list of numbers"),
        (["run", "c.yaml", "--trials", "450"], "No such option: --trials. Set --calls 450/agent."),
        (["rejudge", "run", "--judge", "lexical", "--calls", "nan"], "got 'nan'. Set a number of calls (4000)"),
        (["study", "baselines", "run", "--top-groups", ","], "Invalid value for '--top-groups': ',' contains no name"),
        (["report", "run", "--chart", "curl"], "--chart requires the format png or svg: got html. Set --format png."),
        (["export", "p.csv", "q.csv", "--public"], "--public requires --push. Add --push OWNER/NAME"),
        (["import", "table", "p.csv", "--out", "judged"], "judged already holds a run. Set --out to another folder"),
        (
            ["generate", "list.yaml", "items.jsonl", "--out", "q"],
            "list.yaml: the file: has no keys; write `key: value`",
        ),
        (["generate", "none.yaml", "items.jsonl", "--out", "q"], "it cannot be read (No such file or directory)"),
        (["store", "x"], "Available commands: batches, copy."),
        (["fit", "run", "--engine", "blocks"], "No such option"),
        (["init", "c.yaml"], "got '.yaml'. Convert it to one of: .csv"),
        (
            ["run", "p.csv"],
            "A pool is not a config: run `youden init p.csv` to write a config for it. [run-config-yaml]",
        ),
        (["run", "nowhere.yaml"], "Check the path, or run `youden init POOL` to write a config. [run-config-file]"),
        (
            ["run", "judged"],
            "A pool is not a config: run `youden init judged` to write a config for it. [run-config-file]",
        ),
    ],
    ids=lambda said: " ".join(said) if isinstance(said, list) else "",
)
def test_an_invalid_option_value_is_a_clear_error(youden: Youden, tmp_path: Path, words: list[str], said: str) -> None:
    write_pool_table(tmp_path / "p.csv", n_agents=4, n_items=6)
    (tmp_path / "c.yaml").write_text("pool: p.csv\n", encoding="utf-8")
    (tmp_path / "list.yaml").write_text("- a\n", encoding="utf-8")
    (tmp_path / "judged").mkdir()
    (tmp_path / "judged" / "pool.json").write_text("{}", encoding="utf-8")
    ended = youden(*words)
    assert ended.code == 2
    assert said in " ".join(ended.err.split())
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_rows_added_to_a_pool_join_its_run_by_the_printed_command(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "all.csv", n_agents=5, n_items=20)
    content = (tmp_path / "all.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "mine.csv").write_text("".join(line for line in content if not line.startswith("a3")), encoding="utf-8")
    (tmp_path / "mine.yaml").write_text("pool: mine.csv\ncalls: 30/agent\n", encoding="utf-8")
    assert youden("run", "mine.yaml", "--quiet").code == 0
    (tmp_path / "all.csv").replace(tmp_path / "mine.csv")
    refused = youden("run", "mine.yaml")
    assert refused.code == 2
    match = re.search(
        r"1 agent was added to its pool\. Run `youden (.*)` \(about ([\d,]+) calls, \$0\.00\)", refused.err
    )
    assert match, refused.err
    assert "[run-mismatch]" in refused.err
    assert match[1].startswith("extend ")
    grown = youden(*match[1].split())
    assert grown.code == 0, grown.err
    assert "a3" in grown.out
    assert youden("fit", "runs/mine").code == 0
    assert youden("run", "runs/mine/config.yaml", "--quiet").code == 0


@pytest.mark.slow
def test_an_extended_run_whose_config_then_searches_states_the_next_step(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "first.csv", n_agents=7, n_items=20)
    write_pool_table(tmp_path / "all.csv", n_agents=8, n_items=20)
    (tmp_path / "mine.yaml").write_text("pool: first.csv\ncalls: 8/agent\n", encoding="utf-8")
    assert youden("run", "mine.yaml", "--quiet").code == 0
    assert youden("extend", "agents", "runs/mine", "all.csv", "--calls", "40").code == 0
    place = tmp_path / "runs" / "mine" / "config.yaml"
    place.write_text(f"{place.read_text(encoding='utf-8')}top: 1\n", encoding="utf-8")
    refused = youden("run", "runs/mine/config.yaml")
    assert (refused.code, "[run-mismatch]" in refused.err) == (2, True)
    assert re.search(
        r"`youden extend best runs/mine --.*` to continue with a search\. So far: (Candidates|No recommendation): .* "
        r"To search from the start",
        refused.err,
    ), refused.err


def test_a_long_error_is_truncated_and_keeps_its_beginning_and_its_remedy(youden: Youden) -> None:
    Path("judges").mkdir()
    for number in range(60):
        Path(f"judges/my-own-judge-{number}.yaml").write_text("backend: lexical", encoding="utf-8")
    ended = youden("doctor", "unlike-any-other")
    assert len(ended.err) <= 620
    assert "error: There is no judge called 'unlike-any-other'. Known:" in ended.err
    assert ended.err.rstrip().endswith("or a model with its provider, such as openai/gpt-4o. [unknown-judge]")


def test_ids_with_control_characters_are_one_line_and_lost_items_are_named(youden: Youden, tmp_path: Path) -> None:
    rows = [{"agent": f"a{i}", "item": f"q{j}" + "\n" * (j == 3), "text": "t"} for i in range(3) for j in range(4)]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    ended = youden("import", "table", "x.jsonl", "--out", "p", "--allow-dropped")
    assert ended.code == 0, ended.err
    lines = ended.err.splitlines()
    assert len([line for line in lines if "control character" in line]) == 1
    assert any("3 records left out: the item id contains the control character U+000A" in line for line in lines)
    assert any("1 item lost, because no response to it could be used: q3" in line for line in lines)


@pytest.mark.slow
def test_check_reports_a_finding_of_several_agents_once_and_placeholder_texts(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv", n_agents=4)
    text = (tmp_path / "mine.csv").read_text(encoding="utf-8").splitlines()
    text[3] = "a0,i2,#REF!,prompt 2,g"
    text[20] = "a1,i7,NaN,prompt 7,g"
    (tmp_path / "mine.csv").write_text("\n".join(text), encoding="utf-8")
    ended = youden("check", "mine.csv")
    assert "2 responses look like a missing value or an error message: #REF! (1), NaN (1), by 'a0', 'a1'." in ended.out
    assert max(map(len, ended.out.splitlines())) <= 640
    slugs = re.findall(r"^\d+\. .*\[([\w-]+)\]$", ended.out, re.MULTILINE)
    effects = re.findall(r"^   (?!To do)(.*)$", ended.out, re.MULTILINE)
    assert len(set(zip(slugs, effects, strict=False))) == len(slugs)
