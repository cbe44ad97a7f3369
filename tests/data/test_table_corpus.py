"""Test that tables in six languages are read correctly or refused with the option that reads them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from table_corpus import N_ITEMS, TABLES, Table, prompt, response, write_table

from commands import Youden
from narrowing import not_none
from youden import read_pool
from youden.data.folder.run_config import load_run_config
from youden.types import Pool


def is_right(pool: Pool, table: Table) -> bool:
    """Return whether a pool has all texts of a table with their agents and items."""
    expected = {
        (agent, prompt(table.language, item, asks=table.asks) if table.ask else None, response(table.language, k, item))
        for k, agent in enumerate(table.agents)
        for item in range(N_ITEMS)
    }
    result = {
        (agent.id, item.prompt, text)
        for agent, texts in zip(pool.agents, pool.texts, strict=True)
        for item, text in zip(pool.items, texts, strict=True)
    }
    return result == expected and pool.n_items == N_ITEMS


def made_pool(folder: Path) -> Pool:
    config = next(folder.glob("*.yaml"))
    return read_pool(folder / load_run_config(config).pool)


def test_the_corpus_has_at_least_sixty_tables() -> None:
    assert len(TABLES) >= 60
    assert {table.language for table in TABLES.values()} == {"en", "de", "es", "fr", "ja", "zh"}


@pytest.mark.parametrize("name", TABLES)
def test_init_reads_a_table_correctly_or_names_the_option_that_does(youden: Youden, tmp_path: Path, name: str) -> None:
    table = TABLES[name]
    path = write_table(table, tmp_path).relative_to(tmp_path)
    ended = youden("init", str(path), "--judge", "lexical")
    if not table.resolve:
        assert ended.code == 0, ended.err
    else:
        assert ended.refuses("import-columns"), ended.out
        assert not (tmp_path / "pools").exists()
        command = shlex.split(not_none(re.search(r"`(youden init [^`]*)`", ended.err))[1])
        output = dict(word.split("=", 1) for word in command if "=" in word)
        assert output == table.resolve
        ended = youden(*command[1:], "--judge", "lexical").well()
    assert is_right(made_pool(tmp_path), table), ended.out


def test_init_prints_agents_question_items_and_unused_columns_before_it_writes(youden: Youden, tmp_path: Path) -> None:
    table = TABLES["a reference beside"]
    write_table(table, tmp_path)
    (tmp_path / "pools").write_text("in the way", encoding="utf-8")
    ended = youden("init", "answers.csv", "--judge", "lexical")
    assert ended.code != 0
    (tmp_path / "pools").unlink()
    lines = youden("init", "answers.csv", "--judge", "lexical").well().out.splitlines()
    expected = ["3 agents: gpt-4o, claude-sonnet, mistral-small", "question: 'Question'", "24 items"]
    assert lines[1:5] == [*expected, "not used: 'Expected answer', 'score'"] == ended.out.splitlines()[1:5]


def test_init_column_options_apply_to_tables_and_saved_data_sets(youden: Youden, tmp_path: Path) -> None:
    rows = [f"{agent},i{n},draft {agent} {n},final {agent} {n}" for agent in "abc" for n in range(4)]
    (tmp_path / "t.csv").write_text("\n".join(["agent,item,text,final", *rows]), encoding="utf-8")
    youden("init", "t.csv", "--column", "text=final", "--judge", "lexical").well()
    assert made_pool(tmp_path).texts[0, 0] == "final a 0"
    (tmp_path / "t.yaml").unlink()
    saved = write_table(TABLES["a folder of the Hub, one split per agent"], tmp_path)
    youden("init", saved.name, "--column", "prompt=question", "--column", "text=answer", "--judge", "lexical").well()
    assert made_pool(tmp_path).n_agents == 3
