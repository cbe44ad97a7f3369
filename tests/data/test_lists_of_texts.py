"""Test columns of lists: of one text, of several texts, of messages, or of parts of a message."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from importer_files import cells, load, write
from youden.data.importers.pool_joiner import ImportedPool
from youden.data.pools.pool_reader import iter_responses
from youden.types.pool import Json

AGENTS, ITEMS = "abc", range(3)
Make = Callable[[Path, list[dict[str, Json]]], Path]


def jsonl(folder: Path, rows: list[dict[str, Json]]) -> Path:
    return write(folder / "t.jsonl", *rows)


def json_list(folder: Path, rows: list[dict[str, Json]]) -> Path:
    return write(folder / "t.json", whole=rows)


def parquet(folder: Path, rows: list[dict[str, Json]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), folder / "t.parquet")
    return folder / "t.parquet"


def file_per_agent(folder: Path, rows: list[dict[str, Json]]) -> Path:
    for agent in AGENTS:
        write(folder / "in" / f"{agent}.jsonl", *(row for row in rows if agent in row.values()))
    return folder / "in"


FILES: dict[str, Make] = {"jsonl": jsonl, "json": json_list, "parquet": parquet, "a file per agent": file_per_agent}


def table(
    text: Callable[[str], Json], names: tuple[str, str, str] = ("agent", "item", "text")
) -> list[dict[str, Json]]:
    """Write one row per agent and item; `names` are the column names."""
    agent, item, column = names
    return [{agent: a, item: f"q{i}", column: text(f"answer {a} to {i}")} for a in AGENTS for i in ITEMS]


def repeats(imported: ImportedPool) -> list[tuple[str, str, int | None, str]]:
    return [(agent.id, item.id, repeat, text) for agent, item, repeat, text in iter_responses(imported.pool)]


NAMES = {
    "own names": ("agent", "item", "text"),
    "guessed names": ("generator", "id", "output"),
}
ONE: dict[str, Callable[[str], Json]] = {
    "a list of one": lambda text: [text],
    "a list in a list": lambda text: [[text]],
    "a part of a message": lambda text: [{"type": "text", "text": text}],
    "two parts": lambda text: [{"type": "text", "text": part} for part in text.split(" to ")],
    "messages": lambda text: [{"role": "user", "content": "q"}, {"role": "assistant", "content": text}],
    "a message of parts": lambda text: [{"role": "assistant", "content": [{"type": "output_text", "text": text}]}],
    "a generated text": lambda text: [{"generated_text": text}],
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("one", ONE)
def test_a_list_of_one_text_is_that_text(tmp_path: Path, kind: str, names: str, one: str) -> None:
    rows = table(ONE[one], NAMES[names])
    imported = load("table", FILES[kind](tmp_path, rows))
    join = "\n" if one == "two parts" else " to "
    assert cells(imported) == {(a, f"q{i}"): f"answer {a}{join}{i}" for a in AGENTS for i in ITEMS}
    assert imported.n_dropped == 0


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("names", NAMES)
def test_a_list_of_several_texts_is_repeats_even_if_equal(tmp_path: Path, kind: str, names: str) -> None:
    rows = table(lambda text: [text, f"{text} again", text], NAMES[names])
    imported = load("table", FILES[kind](tmp_path, rows))
    assert repeats(imported) == [
        (a, f"q{i}", n, f"answer {a} to {i}{end}")
        for a in AGENTS
        for i in ITEMS
        for n, end in enumerate(("", " again", ""), 1)
    ]
    assert "27 responses are repeats, all kept: 3 of one agent to one item" in imported.notes


@pytest.mark.parametrize("names", NAMES)
def test_an_empty_list_is_no_response_and_a_list_of_null_an_empty_one(tmp_path: Path, names: str) -> None:
    rows = table(lambda text: [] if "a to 0" in text else [None] if "a to 1" in text else [text], NAMES[names])
    imported = load("table", jsonl(tmp_path, rows))
    result = cells(imported)
    assert (result["a", "q0"], result["a", "q1"], result["a", "q2"]) == (None, "", "answer a to 2")
    assert imported.pool.n_responses == 8
    assert imported.left_out["no text (an empty list)"] == 1


@pytest.mark.parametrize("blank", ["", None])
def test_an_empty_text_in_a_list_of_repeats_displaces_no_other_text(tmp_path: Path, blank: str | None) -> None:
    rows: list[dict[str, Json]] = [
        {"model": a, "question": f"What is {i}?", "response": [blank if i == 1 else f"{a} {i}", f"{a} {i} again"]}
        for a in AGENTS
        for i in ITEMS
    ]
    imported = load("table", json_list(tmp_path, rows))
    assert imported.pool.n_items == len(ITEMS)
    assert [text for *_, text in repeats(imported)] == [
        text or "" for row in rows if isinstance(row["response"], list) for text in row["response"]
    ]


def test_lists_of_texts_in_several_repeats_are_all_kept(tmp_path: Path) -> None:
    rows: list[dict[str, Json]] = [
        {"agent": a, "item": "q", "text": [f"{a} {epoch} {n}" for n in range(2)], "epoch": epoch}
        for a in "ab"
        for epoch in range(2)
    ]
    assert [row[3] for row in repeats(load("table", jsonl(tmp_path, rows)))] == [
        f"{a} {epoch} {n}" for a in "ab" for epoch in range(2) for n in range(2)
    ]


def test_rows_of_lists_are_repeats_and_a_duplicated_row_is_counted_once(tmp_path: Path) -> None:
    rows: list[dict[str, Json]] = [
        {"model": a, "question": f"Q{i}", "response": [f"{a} {i} {row}", f"{a} {i} {row} too"]}
        for a in "ab"
        for i in range(3)
        for row in range(2)
    ]
    imported = load("table", json_list(tmp_path, [*rows, rows[0]]))
    assert imported.pool.n_responses == 24
    assert imported.left_out == {"a repetition of an earlier response": 2}


def test_a_list_of_numbers_is_not_a_list_of_texts(tmp_path: Path) -> None:
    rows = table(lambda _: [1, 2])
    with pytest.raises(Exception, match="the text is not a string: got list"):
        load("table", jsonl(tmp_path, rows))


def test_an_alpaca_eval_output_list_of_one_text_is_that_text(tmp_path: Path) -> None:
    for agent in AGENTS:
        rows = [{"instruction": f"Q{i}", "output": [f"{agent} {i}"], "generator": agent} for i in ITEMS]
        write(tmp_path / agent / "model_outputs.json", whole=rows)
    assert {*cells(load("alpaca-eval", tmp_path)).values()} == {f"{agent} {i}" for agent in AGENTS for i in ITEMS}


def test_a_prompt_list_of_one_text_is_that_prompt(tmp_path: Path) -> None:
    rows: list[dict[str, Json]] = [
        {"model": a, "id": str(i), "turns": [f"Question {i}?"], "prompt": [f"Question {i}?"], "output": [f"{a} {i}"]}
        for a in AGENTS
        for i in ITEMS
    ]
    assert [item.prompt for item in load("table", jsonl(tmp_path, rows)).pool.items] == [
        f"Question {i}?" for i in ITEMS
    ]


@pytest.mark.parametrize("write_list", [str, json.dumps])
def test_lists_that_are_written_as_texts_are_noted(tmp_path: Path, write_list: Callable[[list[str]], str]) -> None:
    written = table(lambda text: write_list([text, f"{text} again"]), ("model", "question", "answer"))
    notes = load("table", jsonl(tmp_path, written)).notes
    expected = "the responses in 'answer' are written as lists, and each list is read as one text"
    assert any(expected in note for note in notes)
    some = [{**row, "answer": "[no list" if number else row["answer"]} for number, row in enumerate(written)]
    assert not any("as lists" in note for note in load("table", jsonl(tmp_path, some)).notes)
