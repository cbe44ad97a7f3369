"""Test tables with two header lines, lines of totals, a row per agent, or an unknown suffix."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import openpyxl
import pytest

from commands import Youden
from youden import read_pool
from youden.data.importers.table_import import read_table
from youden.errors import ImportFormatError
from youden.types import Pool

AGENTS = ("gpt", "llama", "claude")
THINGS = ("cats sleep by day", "bread rises", "rivers flood in spring", "bees dance", "trains are late in winter")
QUESTIONS = [f"Why do you think that {thing}?" for thing in THINGS]


def response(agent: str, item: int) -> str:
    return f"I, {agent}, believe that {THINGS[item]} because it has always been so."


def write(path: Path, lines: Sequence[Sequence[object]]) -> Path:
    """Write lines of cells as the format of the suffix; None is an empty cell."""
    if path.suffix == ".xlsx":
        book = openpyxl.Workbook()
        for line in lines:
            book.active.append([*line])
        book.save(path)
        return path
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter="\t" if path.suffix == ".txt" else ",").writerows(lines)
    return path


def two_header_lines(path: Path, *, merged: bool) -> Path:
    """Write the agents in the first line and answer and score in the second, as pandas and merged cells do."""
    agents = [agent for name in AGENTS for agent in (name, None if merged else name)]
    lines: list[list[object]] = [[None, None, *agents], ["id", "question", *["answer", "score"] * len(AGENTS)]]
    for item, question in enumerate(QUESTIONS):
        cells = [cell for name in AGENTS for cell in (response(name, item), 1 + item % 3)]
        lines.append([f"i{item}", question, *cells])
    return write(path, lines)


def wide(path: Path, *further_lines: Sequence[object]) -> Path:
    lines = [[question, *(response(name, item) for name in AGENTS)] for item, question in enumerate(QUESTIONS)]
    return write(path, [["Question", *AGENTS], *lines, *further_lines])


def check_is_complete(pool: Pool, agents: Sequence[str]) -> None:
    assert [agent.id for agent in pool.agents] == [*agents]
    assert [item.prompt for item in pool.items] == QUESTIONS
    assert pool.texts.tolist() == [[response(name, item) for item in range(len(THINGS))] for name in AGENTS]


@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize("name", ["t.csv", "t.xlsx"])
def test_two_header_lines_are_joined(tmp_path: Path, name: str, *, merged: bool) -> None:
    imported = read_table([two_header_lines(tmp_path / name, merged=merged)], columns={}, exact=False)
    check_is_complete(imported.pool, [f"{agent} answer" for agent in AGENTS])
    assert any("two header lines" in note for note in imported.notes)
    assert imported.unused == tuple(f"{agent} score" for agent in AGENTS)


def test_a_first_row_that_resembles_a_second_header_line_stays_a_row(tmp_path: Path) -> None:
    lines = [["Question", *AGENTS], [QUESTIONS[0], "yes", "no", "yes"], [QUESTIONS[1], "no", "yes", "yes"]]
    pool = read_table([write(tmp_path / "t.csv", lines)], columns={"prompt": "Question", "text": ",".join(AGENTS)}).pool
    assert pool.n_items == 2


@pytest.mark.parametrize("label", ["Total", "Average length", "Mittelwert", "moyenne", "合計"])
@pytest.mark.parametrize("name", ["t.csv", "t.xlsx"])
def test_a_last_line_of_totals_is_not_an_item(tmp_path: Path, name: str, label: str) -> None:
    imported = read_table([wide(tmp_path / name, [label, 52.5, 50, 49])], columns={}, exact=False)
    check_is_complete(imported.pool, AGENTS)
    assert any(f"1 line of totals not read ({label!r})" in note for note in imported.notes)


@pytest.mark.parametrize("line", [["What is 6 × 7?", 42, 42, 41], ["Total", "fine", "good", "bad"]])
def test_a_last_line_with_responses_is_an_item(tmp_path: Path, line: list[object]) -> None:
    pool = read_table([wide(tmp_path / "t.csv", line)], columns={}, exact=False).pool
    assert pool.n_items == len(THINGS) + 1


@pytest.mark.parametrize("names", [QUESTIONS, [f"Q{item + 1}" for item in range(len(QUESTIONS))]])
def test_a_table_with_a_row_per_agent_is_refused_with_the_remedy(tmp_path: Path, names: list[str]) -> None:
    lines = [[agent, *(response(agent, item) for item in range(len(QUESTIONS)))] for agent in AGENTS]
    path = write(tmp_path / "t.csv", [["model", *names], *lines])
    with pytest.raises(
        ImportFormatError, match=r"each row seems to hold all responses of one agent; transpose the table"
    ):
        read_table([path], columns={}, exact=False)


def test_a_file_with_an_unknown_suffix_is_refused_without_naming_the_same_command(
    youden: Youden, tmp_path: Path
) -> None:
    ended = youden("init", str(wide(tmp_path / "t.txt")))
    assert ended.refuses("import-format")
    assert "Convert it to one of: .csv" in ended.err
    (tmp_path / "t.txt").rename(tmp_path / "t.tsv")
    youden("init", str(tmp_path / "t.tsv"), "--judge", "lexical").well()
    check_is_complete(read_pool(tmp_path / "pools" / "t"), AGENTS)
