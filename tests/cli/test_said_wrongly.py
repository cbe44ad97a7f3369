"""Options and keys that are said wrongly: what arrived, and what to say instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import Youden, write_pool


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("width: 2", "Give a half width between 0 and 1"),
        ("width: wide", "such as 0.05"),
        ("trials: 1.5", "paired trials an agent as a whole number"),
        ("top: 0", "as a whole number how many of the best"),
        ("robust: maybe", "true or false"),
        ("trusted: a0", "a list of agents"),
        ("families: families.csv", "--families FILE"),
        ("suspected: 2", "a share of the calls"),
        ("max_cost: cheap", "USD from 0 on"),
        ("robust: true\ntrusted: [a0]", "keep one of them"),
        ("trials: 100000000", "100,000,000 trials an agent"),
        ("trusted: [nobody]", "It has: a0"),
        ("families: {nobody: x}", "It has: a0"),
    ],
)
def test_a_key_that_does_not_fit_is_told_what_it_may_say(youden: Youden, tmp_path: Path, key: str, remedy: str) -> None:
    write_pool(tmp_path / "p.csv", n_agents=4, n_items=6)
    (tmp_path / "c.yaml").write_text(f"pool: p.csv\n{key}\n", encoding="utf-8")
    ended = youden("plan", "c.yaml")
    assert ended.code == 2
    assert remedy in ended.err
    assert ended.err.rstrip().endswith("]")


def test_an_empty_config_is_said_to_be_empty(youden: Youden, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("# nothing yet\n", encoding="utf-8")
    assert "c.yaml is empty. Write one `key: value` a line" in youden("plan", "c.yaml").err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "c.yaml", "--grace", "nan"], "'nan' is no number"),
        (["run", "c.yaml", "--max-cost", "inf"], "'inf' is no number"),
        (["plan", "c.yaml", "--width", "wide"], "'wide' is no number. Give one such as 0.05."),
        (["plan", "c.yaml", "--width", "1"], "0<x<1"),
        (["extend", "run", "--width", "nan"], "'nan' is no number"),
        (["gate", "run", "--agent", "a", "--baseline", "b", "--target", "all"], "'these-items'"),
        (["run", "c.yaml", "--robust", "--trusted", "a0,a1"], "--robust and --trusted"),
        (["run", "c.yaml", "--trusted", ","], "names nothing"),
        (["run", "c.yaml", "--families", "none.csv"], "none.csv"),
        (["import", "table", "p.csv", "--out", "q", "--column", "text"], "'text' is no NOUN=NAME. Give, for example,"),
        (["generate", "agents.yaml", "--out", "q", "--model-map", "=b"], "'=b' is no MODEL=JUDGE"),
        (["rejudge", "run", "--judge", "lexical", "--family", "a"], "'a' is no JUDGE=NAME"),
        (["import", "tabel", "p.csv", "--out", "q"], "'tabel' is not one of"),
        (
            ["study", "budget", "run", "--percent", "5,0"],
            "Invalid value for '--percent': '5,0' holds a number that is not",
        ),
        (["study", "budget", "run", "--trials", "many"], "'many' is no list of numbers"),
        (["study", "baselines", "run", "--above", ","], "Invalid value for '--above': ',' names nothing"),
        (["report", "run", "--chart", "curl"], "--chart is drawn as png or svg, not as html. Add --format png."),
        (["export", "p.csv", "q.csv", "--public"], "--public is of a push. Add --push OWNER/NAME"),
        (["import", "table", "p.csv", "--out", "judged"], "judged holds a run already. Give an --out of its own"),
        (
            ["generate", "list.yaml", "items.jsonl", "--out", "q"],
            "list.yaml: the file: has no keys; write `key: value`",
        ),
        (["generate", "none.yaml", "items.jsonl", "--out", "q"], "it cannot be read (No such file or directory)"),
        (["store", "x"], "There are: batches, copy, merge."),
        (["fit", "run", "--engine", "duckb"], "'arrays', 'blocks'"),
        (["salvage", "nope.db", "--out", "new.db"], "'nope.db' does not exist"),
        (["init", "c.yaml"], "[pool-kind]"),
    ],
    ids=lambda said: " ".join(said) if isinstance(said, list) else "",
)
def test_an_option_that_does_not_fit_is_an_error_that_says_so(
    youden: Youden, tmp_path: Path, words: list[str], said: str
) -> None:
    write_pool(tmp_path / "p.csv", n_agents=4, n_items=6)
    (tmp_path / "c.yaml").write_text("pool: p.csv\n", encoding="utf-8")
    (tmp_path / "list.yaml").write_text("- a\n", encoding="utf-8")
    (tmp_path / "judged").mkdir()
    (tmp_path / "judged" / "pool.json").write_text("{}", encoding="utf-8")
    ended = youden(*words)
    assert ended.code == 2
    assert said in " ".join(ended.err.split())
    assert not (tmp_path / "runs").exists()
