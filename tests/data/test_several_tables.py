"""Test files that hold several tables, or parts of one: below each other, next to each other, or in several sheets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import openpyxl
import pytest
from table_lines import AGENTS, QUESTIONS, check_is_complete, response, wide_lines, write

from youden.data.importers.table_import import read_table
from youden.errors import ImportFormatError

Line = Sequence[object]
WIDE: list[Line] = [*wide_lines()]
LONG: list[Line] = [
    [name, question, response(name, item)] for name in AGENTS for item, question in enumerate(QUESTIONS)
]
FORMATS = pytest.mark.parametrize("name", ["t.csv", "t.xlsx"])


def write_sheets(path: Path, sheets: Sequence[Sequence[Line]], *, hidden: int | None = None) -> Path:
    book = openpyxl.Workbook()
    del book["Sheet"]
    for number, lines in enumerate(sheets):
        sheet = book.create_sheet(f"sheet {number}")
        for line in lines:
            sheet.append([*line])
        if number == hidden:
            sheet.sheet_state = "hidden"
    book.save(path)
    return path


@FORMATS
@pytest.mark.parametrize(("header", "lines"), [(["Model", "Question", "Answer"], LONG), (["Question", *AGENTS], WIDE)])
def test_a_repeated_header_is_not_a_row(tmp_path: Path, name: str, header: Line, lines: list[Line]) -> None:
    joined = [header, *lines[:2], [None] * len(header), header, *lines[2:4], header, *lines[4:]]
    imported = read_table([write(tmp_path / name, joined)], columns={}, exact=False)
    check_is_complete(imported.pool, AGENTS)
    assert any("2 repeated headers not read" in note for note in imported.notes)


@FORMATS
def test_a_header_repeated_below_the_name_of_each_agent_is_refused(tmp_path: Path, name: str) -> None:
    lines: list[list[object]] = []
    for agent in AGENTS:
        lines += [[agent, None], ["Question", "Answer"]]
        lines += [[question, response(agent, item)] for item, question in enumerate(QUESTIONS)]
    with pytest.raises(ImportFormatError, match=r"line 9: the header is repeated below the title 'llama'"):
        read_table([write(tmp_path / name, lines)], columns={}, exact=False)


SUMMARIES: dict[str, list[Line]] = {
    "numbers": [["Model", "Mean score", "Cost", "Verdict"], ["gpt", 4.2, 0.3, "good"], ["llama", 3.1, 0.1, "bad"]],
    "texts": [["Model", "Verdict", None, None], ["gpt", "good enough", None, None], ["llama", "slow", None, None]],
}


@FORMATS
@pytest.mark.parametrize("summary", SUMMARIES)
def test_a_second_table_below_an_empty_line_is_refused(tmp_path: Path, name: str, summary: str) -> None:
    lines: list[Line] = [["Question", *AGENTS], *WIDE, [None] * 4, *SUMMARIES[summary]]
    with pytest.raises(ImportFormatError, match="line 8: a second table seems to begin here, below an empty line"):
        read_table([write(tmp_path / name, lines)], columns={}, exact=False)


def test_a_second_table_below_many_rows_and_empty_lines_is_refused(tmp_path: Path) -> None:
    lines: list[Line] = [["Question", *AGENTS]]
    for _ in range(60):
        lines += [*WIDE, [None] * 4]
    with pytest.raises(ImportFormatError, match="line 362: a second table seems to begin here"):
        read_table([write(tmp_path / "t.csv", [*lines, *SUMMARIES["numbers"]])], columns={}, exact=False)


@FORMATS
@pytest.mark.parametrize(
    "end", [[["What is 6 × 7?", 42, 42, 41], ["And 7 × 7?", 49, 49, 50]], [["Why?", "so", "no", "is"]]]
)
def test_rows_below_an_empty_line_belong_to_the_table(tmp_path: Path, name: str, end: list[Line]) -> None:
    lines: list[Line] = [["Question", *AGENTS], *WIDE[:3], [None] * 4, *WIDE[3:], [None] * 4, *end]
    pool = read_table([write(tmp_path / name, lines)], columns={}, exact=False).pool
    assert pool.n_items == len(QUESTIONS) + len(end)


@FORMATS
def test_tables_next_to_each_other_are_refused(tmp_path: Path, name: str) -> None:
    header = ["Question", *AGENTS]
    lines: list[Line] = [
        [*header, None, *header],
        *([*left, None, *right] for left, right in zip(WIDE[:2], WIDE[2:4], strict=True)),
    ]
    with pytest.raises(ImportFormatError, match=r"several columns have the name 'Question'.*below each other"):
        read_table([write(tmp_path / name, lines)], columns={}, exact=False)


@FORMATS
def test_responses_that_all_have_one_header_are_refused(tmp_path: Path, name: str) -> None:
    lines: list[Line] = [["Question", "Answer", "Answer", "Answer"], *WIDE]
    path = write(tmp_path / name, lines)
    with pytest.raises(
        ImportFormatError, match=r"several columns have the name 'Answer'. Give each column another name"
    ):
        read_table([path], columns={}, exact=False)


@FORMATS
def test_a_question_repeated_for_each_agent_is_read_once(tmp_path: Path, name: str) -> None:
    lines: list[list[object]] = [[cell for agent in AGENTS for cell in ("Question", agent)]]
    for question, *texts in WIDE:
        lines.append([cell for text in texts for cell in (question, text)])
    imported = read_table([write(tmp_path / name, lines)], columns={}, exact=False)
    check_is_complete(imported.pool, AGENTS)
    assert any("2 repeated columns not read" in note for note in imported.notes)


def test_sheets_may_have_their_columns_in_any_order_and_further_columns(tmp_path: Path) -> None:
    sheets: list[list[Line]] = []
    for number, agent in enumerate(AGENTS):
        lines: list[Line] = [["Model", "Question", "Answer"], *(line for line in LONG if line[0] == agent)]
        if number == 1:
            lines = [line[::-1] for line in lines]
        if number == 2:
            lines = [[*line, remark] for line, remark in zip(lines, ["Note", *"abcde"], strict=True)]
        sheets.append(lines)
    imported = read_table([write_sheets(tmp_path / "t.xlsx", sheets)], columns={}, exact=False)
    check_is_complete(imported.pool, AGENTS)


def test_a_hidden_sheet_is_not_read(tmp_path: Path) -> None:
    header = ["Question", *AGENTS]
    old = [[line[0], *(f"Old: {text}" for text in line[1:])] for line in WIDE]
    imported = read_table(
        [write_sheets(tmp_path / "t.xlsx", [[header, *old], [header, *WIDE]], hidden=0)], columns={}, exact=False
    )
    check_is_complete(imported.pool, AGENTS)
    assert "hidden sheets not read ('sheet 0')" in imported.notes[0]


TITLES: dict[str, list[Line]] = {
    "one": [["Export", "May 2026", None, None]],
    "two": [["Export", "May 2026", None, None], ["Author", "Ana", None, None]],
    "groups": [[None, "OpenAI", None, "Anthropic"]],
}


@FORMATS
@pytest.mark.parametrize("titles", TITLES)
def test_a_title_of_several_cells_is_not_the_header(tmp_path: Path, name: str, titles: str) -> None:
    lines: list[Line] = [*TITLES[titles], [None] * 4, ["Question", *AGENTS], *WIDE]
    imported = read_table([write(tmp_path / name, lines)], columns={}, exact=False)
    check_is_complete(imported.pool, AGENTS)
    assert any("above the header not read" in note for note in imported.notes)


@FORMATS
def test_a_header_without_most_names_stays_the_header(tmp_path: Path, name: str) -> None:
    lines: list[Line] = [["Question", "gpt", None, None], *WIDE]
    named = {"prompt": "Question", "text": "gpt,column 3,column 4"}
    assert read_table([write(tmp_path / name, lines)], columns=named, exact=False).pool.n_items == len(QUESTIONS)


def write_pool(folder: Path, agents: Sequence[str], *, question: str) -> Path:
    folder.mkdir()
    items = [{"id": f"q{item}", "prompt": f"{question} {item}?"} for item in range(4)]
    responses = [
        {"agent": agent, "item": row["id"], "text": f"{agent} responds to {row['prompt']}"}
        for agent in agents
        for row in items
    ]
    for name, rows in (("items", items), ("responses", responses)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


@pytest.mark.parametrize(("question", "n_conflicts"), [("What is the capital of state", 0), ("Who governs state", 8)])
def test_prompts_of_each_pool_folder_are_imported(tmp_path: Path, question: str, n_conflicts: int) -> None:
    first = write_pool(tmp_path / "first", ["a", "b"], question="What is the capital of state")
    second = write_pool(tmp_path / "second", ["c", "d"], question=question)
    imported = read_table([first, second], columns={}, exact=False)
    assert imported.pool.items[3].prompt == "What is the capital of state 3?"
    conflict = f"imported {n_conflicts} responses with a prompt other than the first one of the item"
    assert any(note.startswith(conflict) for note in imported.notes) == (n_conflicts > 0)


def test_prompts_are_not_read_from_a_column_of_responses_of_the_same_name(tmp_path: Path) -> None:
    texts = {"questions": "What is the capital of state", "gpt": "I think it is city", "llama": "Certainly it is town"}
    for name, text in texts.items():
        rows = [json.dumps({"id": item, "text": f"{text} {item}"}) + "\n" for item in range(4)]
        (tmp_path / f"{name}.jsonl").write_text("".join(rows), encoding="utf-8")
    write(tmp_path / "scores.csv", [["id", "score"], [0, 1], [1, 0.5]])
    imported = read_table([tmp_path], columns={}, exact=False)
    unread = "1 table without responses not read ('scores.csv')"
    assert [note for note in imported.notes if "not read" in note] == [unread]
    pool = imported.pool
    assert [item.prompt for item in pool.items] == [f"What is the capital of state {item}" for item in range(4)]
    assert pool.texts[:, 3].tolist() == ["I think it is city 3", "Certainly it is town 3"]


def test_texts_in_markdown_are_read_next_to_json_without_rows(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text('{"cost": 1}', encoding="utf-8")
    for agent in ("a", "b"):
        (tmp_path / agent).mkdir()
        (tmp_path / agent / "x.md").write_text(f"It is {agent}.", encoding="utf-8")
    imported = read_table([tmp_path], columns={})
    assert [agent.id for agent in imported.pool.agents] == ["a", "b"]
    assert imported.pool.texts.ravel().tolist() == ["It is a.", "It is b."]


@pytest.mark.parametrize("n_files", [2, 3])
def test_files_that_write_ids_of_items_differently_are_refused_with_the_ids(tmp_path: Path, n_files: int) -> None:
    paths = [tmp_path / f"{agent}.csv" for agent in "abc"][:n_files]
    for path in paths:
        decimals = ".0" if path.stem == "b" else ""
        lines = [[f"{item}{decimals}", path.stem, response(path.stem, item)] for item in (1, 2)]
        write(path, [["item", "agent", "response"], *lines])
    message = r"share.* count as different: '1', '1\.0', '2', '2\.0'; write each name alike in all files\)"
    with pytest.raises(ImportFormatError, match=message):
        read_table(paths, columns={}, exact=False)
