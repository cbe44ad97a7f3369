"""Test item ids that restart in each subject, task or file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import Youden
from importer_files import load, write
from youden.data.importers.pool_joiner import ImportedPool
from youden.data.pools.pool_reader import iter_responses
from youden.errors import ImportFormatError
from youden.types.pool import Json

AGENTS, SUBJECTS = "abcd", ("law", "math", "art")
Row = dict[str, Json]


def rows_of(group: str = "subject", *, item: str = "id", prompts: bool = False, n_repeats: int = 1) -> list[Row]:
    return [
        {
            **{"model": agent, group: subject, item: n, "answer": f"{agent} on {subject} number {n}, time {repeat}"},
            **({"question": f"What is {subject} {n}?"} if prompts else {}),
        }
        for agent in AGENTS
        for subject in SUBJECTS
        for n in range(5)
        for repeat in range(n_repeats)
    ]


def save(folder: Path, rows: Sequence[Row], kind: str) -> Path:
    path = folder / f"t.{kind}"
    match kind:
        case "csv":
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
        case "xlsx":
            book = openpyxl.Workbook()
            for record in [[*rows[0]], *([*row.values()] for row in rows)]:
                book.active.append(record)
            book.save(path)
        case "parquet":
            pq.write_table(pa.Table.from_pylist(list(rows)), path)
        case "json":
            write(path, whole=list(rows))
        case _:
            write(path, *rows)
    return path


def size(imported: ImportedPool) -> tuple[int, int, int]:
    return imported.pool.n_agents, imported.pool.n_items, imported.pool.n_responses


@pytest.mark.parametrize("kind", ["csv", "xlsx", "parquet", "json", "jsonl"])
def test_ids_that_restart_per_subject_are_items_by_subject_and_id(tmp_path: Path, kind: str) -> None:
    imported = load("table", save(tmp_path, rows_of(), kind))
    assert size(imported) == (4, 15, 60)
    assert "items by 'subject' and 'id'" in imported.used_columns
    assert [item.id for item in imported.pool.items][4:6] == ["law / 4", "math / 0"]


@pytest.mark.parametrize(
    "group", ["task", "category", "split", "dataset", "Subject Name", "meta.subset", "source_file"]
)
def test_other_columns_that_group_items_separate_restarting_ids(tmp_path: Path, group: str) -> None:
    assert size(load("table", save(tmp_path, rows_of(group), "jsonl"))) == (4, 15, 60)


def test_ids_may_restart_within_a_combination_of_two_columns(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"model": agent, "subject": subject, "split": split, "id": n, "answer": f"{agent} {subject} {split} {n}"}
        for agent in AGENTS
        for subject in SUBJECTS
        for split in ("dev", "test")
        for n in range(4)
    ]
    assert size(load("table", save(tmp_path, rows, "csv"))) == (4, 24, 96)


def test_a_column_per_agent_may_have_ids_that_restart(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"subject": subject, "id": n, **{f"gpt-{agent}": f"{agent} says {subject} {n}" for agent in AGENTS}}
        for subject in SUBJECTS
        for n in range(5)
    ]
    assert size(load("table", save(tmp_path, rows, "csv"))) == (4, 15, 60)


def test_columns_named_agent_item_and_text_separate_restarting_ids(tmp_path: Path) -> None:
    rows = [
        {"agent": row["model"], "subject": row["subject"], "item": row["id"], "text": row["answer"]}
        for row in rows_of()
    ]
    imported = load("table", save(tmp_path, rows, "jsonl"))
    assert (size(imported), imported.n_dropped) == ((4, 15, 60), 0)


def test_repeats_of_items_whose_ids_restart_stay_repeats(tmp_path: Path) -> None:
    rows = [row | {"seed": n % 2} for n, row in enumerate(rows_of(n_repeats=2))]
    imported = load("table", save(tmp_path, rows, "csv"))
    assert size(imported) == (4, 15, 120)
    assert "120 responses are repeats, all kept: 2 of one agent to one item" in imported.notes


def test_a_column_that_is_unique_per_row_does_not_hide_a_restart(tmp_path: Path) -> None:
    rows = [row | {"timestamp": f"2026-01-01T00:00:{n:02d}", "latency": n / 7} for n, row in enumerate(rows_of())]
    assert size(load("table", save(tmp_path, rows, "csv"))) == (4, 15, 60)


def test_a_category_of_each_item_does_not_turn_repeats_into_items(tmp_path: Path) -> None:
    rows = [
        row | {"category": f"c{int(str(row['id'])) % 2}", "timestamp": n} for n, row in enumerate(rows_of("attempt"))
    ]
    assert size(load("table", save(tmp_path, rows, "csv"))) == (4, 5, 60)


def test_several_responses_to_one_prompt_are_repeats_despite_other_columns(tmp_path: Path) -> None:
    rows = [row | {"question": f"What is {row['id']}?"} for row in rows_of()]
    assert size(load("table", save(tmp_path, rows, "csv"))) == (4, 5, 60)


@pytest.mark.parametrize("column", ["seed", "run_number", "attempt", "date", "temperature"])
def test_a_column_that_numbers_repeats_leaves_them_repeats(tmp_path: Path, column: str) -> None:
    assert size(load("table", save(tmp_path, rows_of(column), "csv"))) == (4, 5, 60)


def test_different_prompts_under_one_id_are_different_items(tmp_path: Path) -> None:
    named = rows_of("xyz", prompts=True)
    assert size(load("table", save(tmp_path, named, "csv"))) == (4, 15, 60)
    unnamed = [{key: value for key, value in row.items() if key != "xyz"} for row in named]
    imported = load("table", save(tmp_path, unnamed, "csv"))
    assert size(imported) == (4, 15, 60)
    assert "items by 'question' (ids made from it)" in imported.used_columns
    assert {item.prompt for item in imported.pool.items} == {row["question"] for row in named}


def test_an_ambiguous_column_is_refused_and_both_options_work(youden: Youden, tmp_path: Path) -> None:
    save(tmp_path, rows_of("xyz"), "csv")
    with pytest.raises(ImportFormatError, match=r"agent 'a' has several responses to id '0'.*\[import-ids\]"):
        load("table", tmp_path / "t.csv")
    refused = youden("init", "t.csv")
    assert refused.code == 2
    assert "--column 'item=xyz+id'" in refused.err
    assert size(load("table", tmp_path / "t.csv", item="xyz+id")) == (4, 15, 60)
    assert size(load("table", tmp_path / "t.csv", item="xyz + id")) == (4, 15, 60)
    assert size(load("table", tmp_path / "t.csv", repeat="xyz")) == (4, 5, 60)
    assert youden("import", "table", "t.csv", "--column", "item=xyz+id", "--out", "pool").code == 0


@pytest.mark.parametrize("kind", ["csv", "xlsx", "json", "parquet"])
@pytest.mark.parametrize("item", ["id", "question"])
@pytest.mark.parametrize("column", ["sample", "Epoch", "trial", "attempt_id", "seed", "repeat"])
def test_a_column_that_numbers_repeats_from_0_keeps_equal_responses(
    tmp_path: Path, kind: str, item: str, column: str
) -> None:
    rows: list[Row] = [
        {
            "model": agent,
            item: f"What is {n}?",
            column: sample,
            "answer": "same" if agent == "a" else f"{agent} {n} {sample}",
        }
        for agent in AGENTS
        for n in range(4)
        for sample in range(3)
    ]
    imported = load("table", save(tmp_path, rows, kind))
    assert (size(imported), imported.left_out) == ((4, 4, 48), {})
    numbers = [repeat for _, _, repeat, _ in iter_responses(imported.pool)]
    assert numbers == [1, 2, 3] * 16


@pytest.mark.parametrize("item", ["id", "question", "question_id"])
@pytest.mark.parametrize("column", ["attempt_id", "Attempt no", "repeat number"])
@pytest.mark.parametrize("n_items", [4, 6, 8])
def test_a_named_number_of_repeats_is_no_item_if_there_are_more_repeats(
    tmp_path: Path, item: str, column: str, n_items: int
) -> None:
    rows: list[Row] = [
        {"model": agent, item: n, column: repeat, "answer": f"{agent} {n} {repeat}"}
        for agent in AGENTS
        for n in range(n_items)
        for repeat in range(6)
    ]
    assert size(load("table", save(tmp_path, rows, "csv"))) == (4, n_items, 24 * n_items)


def test_an_id_of_attempts_identifies_the_items_of_a_category(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"model": agent, "case": f"c{n % 3}", "attempt_id": n, "answer": f"{agent} {n}"}
        for agent in AGENTS
        for n in range(9)
    ]
    assert size(load("table", save(tmp_path, rows, "csv"))) == (4, 9, 36)


def test_a_column_with_a_plus_in_its_name_is_one_column(tmp_path: Path) -> None:
    rows = rows_of("subject", item="a+b")
    rows = [row | {"a": 1, "b": 2} for row in rows]
    assert size(load("table", save(tmp_path, rows, "csv"), item="a+b")) == (4, 5, 60)


def test_values_that_are_unique_per_row_form_no_items(tmp_path: Path) -> None:
    rows = [row | {"subject": f"s{n}", "topic": 7} for n, row in enumerate(rows_of("xyz"))]
    rows = [{key: value for key, value in row.items() if key != "xyz"} for row in rows]
    assert size(load("table", save(tmp_path, rows, "csv"))) == (4, 5, 60)


def test_files_with_equal_item_ids_are_refused_with_the_options_that_separate_them(
    youden: Youden, tmp_path: Path
) -> None:
    for subject in SUBJECTS:
        rows = [
            {"agent": row["model"], "item": row["id"], "text": row["answer"]}
            for row in rows_of()
            if row["subject"] == subject
        ]
        write(tmp_path / "in" / f"{subject}.jsonl", *rows)
    ended = youden("import", "table", "in", "--out", "pool")
    assert ended.refuses("import-dropped")
    assert "--column item=A+B" in ended.err


def test_a_data_set_on_disk_accepts_combined_columns(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(rows_of())
    with pa.OSFile(str(tmp_path / "data.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    write(tmp_path / "state.json", whole={"_data_files": [{"filename": "data.arrow"}]})
    imported = load("hf-dataset", tmp_path, agent="model", item="subject+id", text="answer")
    assert size(imported) == (4, 15, 60)
    assert not [note for note in imported.notes if "not used" in note]


def write_tables(folder: Path, names: Sequence[str], *, prompts: str = "", agent: str = "model") -> Path:
    """Write one table per name with the same ids; `prompts` are different in each `file`, the `same`, or none."""
    for name in names:
        rows: list[Row] = [
            {
                **{agent: a, "id": n, "response": f"{a} on {n} in {name}"},
                **({"question": f"What is {n} in {name if prompts == 'file' else 'all'}?"} if prompts else {}),
            }
            for a in AGENTS[:3]
            for n in range(5)
        ]
        write(folder / "in" / f"{name}.jsonl", *rows)
    return folder / "in"


@pytest.mark.parametrize("prompts", ["", "same"])
@pytest.mark.parametrize(
    "names",
    [("run1", "run2"), ("seed_0", "seed_42"), ("results-trial-1", "results-trial-2"), ("run1/out", "run2/out")],
)
def test_files_with_numbered_names_contain_repeats(tmp_path: Path, names: Sequence[str], prompts: str) -> None:
    imported = load("table", write_tables(tmp_path, names, prompts=prompts))
    assert size(imported) == (3, 5, 30)
    assert "repeat in names of files" in imported.used_columns


@pytest.mark.parametrize("names", [("run1", "run2"), ("law", "math"), ("law/out", "math/out")])
def test_prompts_decide_if_files_with_equal_ids_contain_different_items(tmp_path: Path, names: Sequence[str]) -> None:
    assert size(load("table", write_tables(tmp_path / "a", names, prompts="file"))) == (3, 10, 30)
    assert size(load("table", write_tables(tmp_path / "b", names, prompts="same"))) == (3, 5, 30)


@pytest.mark.parametrize("place", ["file", "folder"])
def test_files_with_equal_ids_and_no_prompts_are_refused_and_both_options_work(
    youden: Youden, tmp_path: Path, place: str
) -> None:
    write_tables(tmp_path, ("law", "math") if place == "file" else ("law/out", "math/out"))
    refused = youden("init", "in")
    assert refused.refuses("import-ids")
    assert f"--column 'item=<{place}>+id'" in refused.err
    assert not (tmp_path / "pools").exists()
    assert size(load("table", tmp_path / "in", item=f"<{place}>+id")) == (3, 10, 30)
    assert size(load("table", tmp_path / "in", repeat=f"<{place}>")) == (3, 5, 30)


@pytest.mark.parametrize("by_folder", [True, False])
def test_one_file_per_agent_and_run_gives_repeats_of_the_agent(tmp_path: Path, by_folder: bool) -> None:
    for agent in AGENTS[:3]:
        for run in (1, 2):
            rows = [{"id": n, "response": f"{agent} on {n}, time {run}"} for n in range(5)]
            name = f"{agent}/run{run}" if by_folder else f"{agent}_run{run}"
            write(tmp_path / "in" / f"{name}.jsonl", *rows)
    imported = load("table", tmp_path / "in")
    assert size(imported) == (3, 5, 30)
    assert [agent.id for agent in imported.pool.agents] == [*"abc"]


def test_an_ambiguous_grid_of_files_is_refused(youden: Youden, tmp_path: Path) -> None:
    for agent in AGENTS[:3]:
        for subject in SUBJECTS:
            rows = [{"id": n, "response": f"{agent} on {subject} {n}"} for n in range(5)]
            write(tmp_path / "in" / agent / f"{subject}.jsonl", *rows)
    refused = youden("init", "in")
    assert refused.refuses("import-columns")
    assert "--column 'agent=<folder>'" in refused.err
    assert size(load("table", tmp_path / "in", agent="<folder>", item="<file>+id")) == (3, 15, 45)


@pytest.mark.parametrize("group", ["topic", "source", "level", "type"])
def test_a_group_that_may_be_prompts_or_remarks_does_not_join_items(youden: Youden, tmp_path: Path, group: str) -> None:
    path = save(tmp_path, rows_of(group), "csv")
    if group == "topic":
        assert size(load("table", path)) == (4, 15, 60)
    else:
        assert youden("init", "t.csv").refuses("import-ids")
        assert not (tmp_path / "pools").exists()
    assert size(load("table", path, item=f"{group}+id")) == (4, 15, 60)


def test_a_combined_id_with_an_empty_part_is_not_filled_with_the_id_above(tmp_path: Path) -> None:
    rows: list[Row] = [{**row, "subject": "" if row["id"] in (1, 3) else row["subject"]} for row in rows_of()]
    imported = load("table", save(tmp_path, rows, "csv"), item="subject+id")
    assert imported.left_out["no item id"] == sum(row["subject"] == "" for row in rows)


@pytest.mark.parametrize("run", ["{}", "run-{}"])
@pytest.mark.parametrize("column", ["run", "run_id", "task_run"])
def test_numbered_runs_of_models_are_repeats(tmp_path: Path, column: str, run: str) -> None:
    rows: list[Row] = [
        {"model": a, "id": n, column: run.format(time), "answer": f"{a} on {n}, time {time}"}
        for a in AGENTS
        for n in range(5)
        for time in (1, 2)
    ]
    assert size(load("table", save(tmp_path, rows, "csv"))) == (4, 5, 40)


def test_rows_of_a_grader_among_rows_of_agents_are_refused(youden: Youden, tmp_path: Path) -> None:
    """Logs of model-graded evals of OpenAI contain such rows."""
    for agent in AGENTS[:3]:
        rows: list[Row] = [{"spec": {"completion_fns": [agent], "eval_name": "rules"}}]
        for n in range(5):
            text = f"{agent} on {n}"
            for event, (prompt, sampled) in enumerate(
                [(f"What is {n}?", text), (f"Grade this: {text}", "It is fine.")]
            ):
                data: Json = {"prompt": [{"role": "user", "content": prompt}], "sampled": [sampled]}
                rows.append({"event_id": 2 * n + event, "sample_id": f"s{n}", "type": "sampling", "data": data})
        write(tmp_path / "logs" / f"{agent}.jsonl", *rows)
    refused = youden("init", "logs")
    assert refused.refuses("import-ids")
    assert "such as those of a grader" in refused.err
    assert not (tmp_path / "pools").exists()


@pytest.mark.parametrize("column", ["image", "conversation_id", "session_id"])
def test_equal_prompts_about_different_things_are_refused(tmp_path: Path, column: str) -> None:
    questions = ("What is in this image?", "What colors do you see?")
    rows: list[Row] = [
        {"model": agent, column: f"x{thing}", "question": question, "answer": f"{agent} says {thing} to {question}"}
        for agent in AGENTS
        for thing in range(4)
        for question in questions
    ]
    path = save(tmp_path, rows, "csv")
    with pytest.raises(ImportFormatError, match=rf"'item={column}\+question'; .* 'repeat={column}'.*\[import-ids\]"):
        load("table", path)
    assert size(load("table", path, item=f"{column}+question")) == (4, 8, 32)
    assert size(load("table", path, repeat=column)) == (4, 2, 32)


@pytest.mark.parametrize("column", ["temperature", "response_id", "judge", "timestamp", "tokens"])
def test_columns_that_do_not_identify_items_leave_prompts_as_items(tmp_path: Path, column: str) -> None:
    rows: list[Row] = [
        {
            "model": agent,
            column: repeat,
            "question": f"What is {thing}?",
            "answer": f"{agent} says {thing}, time {repeat}",
        }
        for agent in AGENTS
        for thing in range(4)
        for repeat in range(2)
    ]
    for number, row in enumerate(rows):
        if column == "response_id":
            row[column] = f"r{number}"
    assert size(load("table", save(tmp_path, rows, "csv"))) == (4, 4, 32)


@pytest.mark.parametrize("column", ["sample", "seed", "trial", "Attempt no"])
def test_more_repeats_than_prompts_are_still_repeats(tmp_path: Path, column: str) -> None:
    rows: list[Row] = [
        {
            "model": agent,
            "question": f"What is {thing}?",
            column: repeat,
            "answer": f"{agent} says {thing}, time {repeat % 3}",
        }
        for agent in AGENTS
        for thing in range(2)
        for repeat in range(5)
    ]
    assert size(load("table", save(tmp_path, rows, "csv"))) == (4, 2, 40)


def test_settings_of_an_agent_may_make_it_several_agents(tmp_path: Path) -> None:
    rows: list[Row] = [
        {
            "model": agent,
            "shots": shots,
            "question": f"What is {thing}?",
            "answer": f"{agent} says {thing} with {shots}",
        }
        for agent in AGENTS
        for shots in (0, 5)
        for thing in range(4)
    ]
    path = save(tmp_path, rows, "csv")
    with pytest.raises(
        ImportFormatError, match=r"different agents, with --column 'agent=model\+shots'.*\[import-ids\]"
    ):
        load("table", path)
    imported = load("table", path, agent="model+shots")
    assert size(imported) == (8, 4, 32)
    assert imported.unused == ()
