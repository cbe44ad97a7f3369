"""Test values and encodings that would give a wrong agent, item or response, and JSON whose structure is ambiguous."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from table_lines import AGENTS, QUESTIONS, check_is_complete, response, wide_lines, write

from youden import read_pool
from youden.data.importers.pool_joiner import ImportedPool
from youden.data.importers.table_import import read_table
from youden.errors import ImportFormatError, PoolError

N = len(QUESTIONS)
LONG = [[agent, question, response(agent, item)] for agent in AGENTS for item, question in enumerate(QUESTIONS)]


def read(path: Path, **columns: str) -> ImportedPool:
    return read_table([path], columns=columns, exact=False)


def separated(lines: Sequence[Sequence[object]]) -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows(lines)
    return buffer.getvalue()


def write_json(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize("error", ["#N/A", "#REF!", "#ERROR!", "Loading..."])
@pytest.mark.parametrize(("column", "role"), [(0, "agent"), (1, "prompt")])
def test_an_error_of_a_spreadsheet_is_no_agent_and_no_prompt(
    tmp_path: Path, column: int, role: str, error: str
) -> None:
    lines = [list(line) for line in LONG]
    for position in (1, N + 1, 2 * N + 1, 2 * N + 2):
        lines[position][column] = error
    imported = read(write(tmp_path / "t.csv", [["Model", "Question", "Answer"], *lines]))
    assert imported.left_out == {f"an error of the spreadsheet (such as #REF!) in place of the {role}": 4}
    assert imported.n_dropped == 4
    assert [agent.id for agent in imported.pool.agents] == [*AGENTS]
    assert error not in [item.prompt for item in imported.pool.items]


def test_an_error_of_a_spreadsheet_is_no_id_and_no_prompt_of_an_id(tmp_path: Path) -> None:
    header = ["id", "question", "model", "answer"]
    lines = [[f"i{n % N}", question, agent, text] for n, (agent, question, text) in enumerate(LONG)]
    lines[0][1] = "#N/A"
    check_is_complete(read(write(tmp_path / "a.csv", [header, *lines])).pool, AGENTS)
    without_prompts = [[id_, agent, text] for id_, _, agent, text in lines]
    without_prompts[N + 1][0] = without_prompts[N + 2][0] = "#N/A"
    imported = read(write(tmp_path / "b.csv", [["id", "model", "answer"], *without_prompts]))
    assert (imported.n_dropped, imported.pool.n_items, imported.pool.repeat_texts) == (2, N, None)


def test_a_response_without_the_prompt_that_identifies_its_item_is_dropped(tmp_path: Path) -> None:
    lines = [[agent, "" if question == QUESTIONS[3] else question, text] for agent, question, text in LONG]
    imported = read(write(tmp_path / "t.csv", [["Model", "Question", "Answer"], *lines]))
    assert imported.left_out == {"no prompt, which identifies the item": 3}
    assert imported.pool.n_items == N - 1


@pytest.mark.parametrize("line", [[None, "May", "June", "July"], [None, 52.5, 50, 49]])
@pytest.mark.parametrize("position", [0, N])
def test_a_line_without_a_prompt_in_a_table_with_a_column_per_agent_is_dropped(
    tmp_path: Path, line: list[object], position: int
) -> None:
    lines = wide_lines()
    lines.insert(position, line)
    imported = read(write(tmp_path / "t.csv", [["Question", *AGENTS], *lines]))
    check_is_complete(imported.pool, AGENTS)
    assert imported.left_out == {"no prompt, which identifies the item": 3}


def test_a_number_with_a_fraction_may_be_the_version_of_an_agent(tmp_path: Path) -> None:
    versions = dict(zip(AGENTS, (1, 1.1, 1.2), strict=True))
    lines = [[versions[agent], question, text] for agent, question, text in LONG]
    pool = read(write(tmp_path / "t.xlsx", [["version", "question", "answer"], *lines])).pool
    assert [agent.id for agent in pool.agents] == ["1", "1.1", "1.2"]
    assert pool.present.all()


def test_a_formula_without_a_value_is_noted(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for line in [["Question", *AGENTS, "mistral"], *([*line, '="Dear " & A2'] for line in wide_lines())]:
        book.active.append(line)
    book.save(tmp_path / "t.xlsx")
    notes = " ".join(read(tmp_path / "t.xlsx").notes)
    assert f"{N} formulas without a value read as empty" in notes
    assert "columns without values: 'mistral'" in notes


def test_lines_in_two_encodings_are_decoded_one_by_one(tmp_path: Path) -> None:
    lines = separated([["model", "question", "answer"], *([*line[:2], f"{line[2]} Grüße"] for line in LONG)])
    encoded = [line.encode("cp1252" if n == 4 else "utf-8") for n, line in enumerate(lines.splitlines(keepends=True))]
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbf" + b"".join(encoded))
    imported = read(tmp_path / "t.csv")
    assert all(str(text).endswith(" Grüße") for text in imported.pool.texts.ravel())
    assert imported.notes[0].startswith("not UTF-8, read as Windows-1252")


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("shift_jis", "お問い合わせの荷物は三日後に届きます"),
        ("gbk", "关于您的包裹我们会尽快处理"),
        ("cp1251", "Ваша посылка придёт через три дня"),
        ("utf-16-le", "Your parcel will arrive soon"),
    ],
)
def test_an_encoding_other_than_utf_8_and_windows_1252_is_refused(tmp_path: Path, encoding: str, text: str) -> None:
    lines = [[agent, f"{text} {n % N}", f"{text} {agent} {n}"] for n, (agent, *_) in enumerate(LONG)]
    (tmp_path / "t.csv").write_bytes(separated([["model", "question", "answer"], *lines]).encode(encoding))
    with pytest.raises(ImportFormatError, match=r"Save the file as UTF-8. \[import-encoding\]"):
        read(tmp_path / "t.csv")


def test_a_pool_with_a_repeated_header_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", [["agent", "item", "text"], ["a", "x", "1"], ["agent", "item", "text"]])
    with pytest.raises(PoolError, match=r"line 3: it repeats the header.*\[pool-csv\]"):
        read_pool(path)
    with pytest.raises(ImportFormatError, match=r"line 3: it repeats the header.*\[import-csv\]"):
        read(path)


def by_agent(item: int) -> dict[str, str]:
    return {agent: response(agent, item) for agent in AGENTS}


OBJECTS: dict[str, Any] = {
    "responses in an object": {f"q{n}": {"question": QUESTIONS[n], "answers": by_agent(n)} for n in range(N)},
    "responses and a question": {f"q{n}": {"prompt": QUESTIONS[n], **by_agent(n)} for n in range(N)},
    "responses by question": {QUESTIONS[n]: by_agent(n) for n in range(N)},
    "responses by case": {f"{word} case": by_agent(n) for n, word in enumerate(("lost", "late", "wet", "new", "old"))},
    "records by agent and id": {
        agent: {f"q{n}": {"answer": response(agent, n), "seconds": 1.5} for n in range(N)} for agent in AGENTS
    },
}


@pytest.mark.parametrize("name", OBJECTS)
def test_the_agents_of_nested_objects_are_found(tmp_path: Path, name: str) -> None:
    pool = read(write_json(tmp_path / "t.json", OBJECTS[name])).pool
    assert [agent.id.removeprefix("answers.") for agent in pool.agents] == [*AGENTS]
    assert pool.texts.tolist() == [[response(agent, item) for item in range(N)] for agent in AGENTS]
    has_prompts = name in ("responses in an object", "responses and a question")
    assert [item.prompt for item in pool.items] == (QUESTIONS if has_prompts else [None] * N)


def test_lists_of_different_lengths_are_refused(tmp_path: Path) -> None:
    columns = {"questions": QUESTIONS, **{agent: [response(agent, n) for n in range(N)] for agent in AGENTS}}
    check_is_complete(read(write_json(tmp_path / "a.json", columns)).pool, AGENTS)
    del columns["llama"][2]
    with pytest.raises(ImportFormatError, match=r"different lengths: got 5 values in 'questions' and 4 in 'llama'"):
        read(write_json(tmp_path / "b.json", columns))


def test_responses_that_are_texts_or_objects_are_refused(tmp_path: Path) -> None:
    rows = [{"model": agent, "question": question, "answer": text} for agent, question, text in LONG]
    with_flat_names = [{**row, "answer.score": 3} for row in rows] + [{**rows[0], "answer": None, "answer.score": 1}]
    check_is_complete(read(write_json(tmp_path / "a.json", with_flat_names)).pool, AGENTS)
    nested = [*rows[:-1], {**rows[-1], "answer": {"text": "Because it is so.", "confidence": 0.5}}]
    with pytest.raises(ImportFormatError, match=r"row 15: the responses are texts in 'answer' or in 'answer.text'"):
        read(write_json(tmp_path / "b.json", nested))


def test_a_value_between_the_objects_of_a_list_is_refused(tmp_path: Path) -> None:
    rows: list[Any] = [{"model": agent, "question": question, "answer": text} for agent, question, text in LONG]
    check_is_complete(read(write_json(tmp_path / "a.json", [None, *rows])).pool, AGENTS)
    with pytest.raises(ImportFormatError, match=r"row 3: it is not an object, as other rows are: got \['gpt', 'Why"):
        read(write_json(tmp_path / "b.json", [*rows[:2], ["gpt", "Why?", "So."], *rows[2:]]))


def test_a_list_in_a_file_of_json_lines_is_refused_with_the_remedy(tmp_path: Path) -> None:
    rows = [{"model": agent, "question": question, "answer": text} for agent, question, text in LONG]
    with pytest.raises(ImportFormatError, match=r"it is a list, not an object. .*rename a file with one list to .json"):
        read(write_json(tmp_path / "t.jsonl", rows))


def test_a_first_sheet_without_responses_is_refused_and_the_other_sheets_named(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for line in [["Field", "Meaning"], ["Question", "What the customer asked us"]]:
        book.active.append(line)
    sheet = book.create_sheet("Answers")
    for wide_line in [["Question", *AGENTS], *wide_lines()]:
        sheet.append(wide_line)
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(ImportFormatError, match=r"in the first sheet; move the sheet .*not read: 'Answers'"):
        read(tmp_path / "t.xlsx")
