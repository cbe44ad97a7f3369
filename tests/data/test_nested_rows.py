"""Test rows with several responses, which become one response per agent, by column names or paths."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from importer_files import TOOLS, cells, load, tool, write
from youden.data.importers.response_columns import ColumnPath
from youden.data.importers.table_import import read_table
from youden.errors import ImportFormatError

GENERATIONS = [
    {"instruction": "Sing.", "generations": ["la", "lo"], "generation_models": ["m", "n"]},
    {"instruction": "Dance.", "generations": ["hop", "hip"], "generation_models": ["n", "m"]},
]
COMPLETIONS = [
    {
        "source": "s",
        "instruction": row["instruction"],
        "models": row["generation_models"],
        "completions": [
            {"model": model, "response": text, "annotations": {"truth": 1}}
            for model, text in zip(row["generation_models"], row["generations"], strict=True)
        ],
    }
    for row in GENERATIONS
]
BOTH = {("m", "item-0000"): "la", ("n", "item-0000"): "lo", ("m", "item-0001"): "hip", ("n", "item-0001"): "hop"}


@pytest.mark.parametrize("rows", [GENERATIONS, COMPLETIONS], ids=["generations", "completions"])
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_lists_of_generations_and_completions_are_recognized(
    tmp_path: Path, rows: list[dict[str, object]], ending: str
) -> None:
    file = write(tmp_path / "rows.jsonl", *rows)
    if ending == "parquet":
        file = tmp_path / "rows.parquet"
        pq.write_table(pa.Table.from_pylist(rows), file)
    imported = load("table", file)
    assert cells(imported) == BOTH
    assert [item.prompt for item in imported.pool.items] == ["Sing.", "Dance."]


def test_column_paths_address_unknown_layouts(tmp_path: Path) -> None:
    rows = [
        {
            "key": 1,
            "meta": {"topic": "x"},
            "said": [{"by": {"name": "a"}, "turns": ["no", "yes"]}, {"by": {"name": "b"}, "turns": ["never"]}],
        }
    ]
    imported = load(
        "table",
        write(tmp_path / "x.jsonl", *rows),
        item="key",
        prompt="meta.topic",
        agent="said[].by.name",
        text="said[].turns[-1]",
    )
    assert cells(imported) == {("a", "1"): "yes", ("b", "1"): "never"}
    assert imported.pool.items[0].prompt == "x"
    with pytest.raises(
        ImportFormatError, match=r"there is no column 'says\[\].text'\. .*There are: key, meta, said"
    ) as caught:
        load("table", tmp_path / "x.jsonl", item="key", text="says[].text")
    assert caught.value.slug == "import-columns"


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("item", ["source+instruction", "instruction"])
def test_paths_into_lists_are_read_next_to_combined_columns(tmp_path: Path, item: str, *, exact: bool) -> None:
    columns = {"item": item, "agent": "completions[].model", "text": "completions[].response"}
    imported = read_table([write(tmp_path / "rows.jsonl", *COMPLETIONS)], columns=columns, exact=exact)
    prefix = "s / " if "+" in item else ""
    assert cells(imported) == {
        ("m", f"{prefix}Sing."): "la",
        ("n", f"{prefix}Sing."): "lo",
        ("m", f"{prefix}Dance."): "hip",
        ("n", f"{prefix}Dance."): "hop",
    }


@pytest.mark.parametrize("path", ["", "a[", "a..b", "a[1", "a[][]", "b.c", "a[-]x]"])
def test_an_invalid_column_path_is_refused(path: str) -> None:
    assert ColumnPath.parse(path, ["a"]) is None


def test_a_column_name_that_resembles_a_path_is_a_column(tmp_path: Path) -> None:
    row = {"item": "i", "out.text": "said", "agent": "a"}
    assert cells(load("table", write(tmp_path / "x.jsonl", row), text="out.text")) == {("a", "i"): "said"}


def test_chosen_and_rejected_are_two_agents_with_the_last_message_as_response(tmp_path: Path) -> None:
    def dialogue(text: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": "Sing."}, {"role": "assistant", "content": text}]

    rows = [
        {"prompt": "Sing.", "prompt_id": "p1", "chosen": dialogue("la"), "rejected": dialogue("lo"), "score_chosen": 8}
    ]
    imported = load("table", write(tmp_path / "x.jsonl", *rows))
    assert cells(imported) == {("chosen", "p1"): "la", ("rejected", "p1"): "lo"}


def test_a_wide_table_has_one_agent_per_column(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("key,gpt,llama\ni,one,two\nj,three,four\n", encoding="utf-8")
    imported = load("table", tmp_path / "x.csv", item="key", text="gpt,llama")
    assert cells(imported) == {
        ("gpt", "i"): "one",
        ("llama", "i"): "two",
        ("gpt", "j"): "three",
        ("llama", "j"): "four",
    }


def test_lists_of_different_lengths_are_omitted_and_counted(tmp_path: Path) -> None:
    short = GENERATIONS[1] | {"generation_models": ["m"]}
    imported = load("table", write(tmp_path / "x.jsonl", GENERATIONS[0], short))
    assert imported.n_dropped == 2
    assert "2 the lists of a row have different lengths" in imported.dropped[0]


@pytest.mark.parametrize(
    "columns",
    [{"text": "a", "agent": "said[].by"}, {"text": "a,b", "prompt": "said[].by"}],
)
def test_incompatible_column_options_are_refused(tmp_path: Path, columns: dict[str, str]) -> None:
    file = write(tmp_path / "x.jsonl", {"key": "i", "a": "x", "b": "y", "said": [{"by": "m"}]})
    with pytest.raises(ImportFormatError, match=r"\[import-columns\]"):
        load("table", file, item="key", **columns)


def test_a_row_with_an_empty_list_is_counted(tmp_path: Path) -> None:
    empty = {"instruction": "Dance.", "generations": [], "generation_models": []}
    assert load("table", write(tmp_path / "x.jsonl", GENERATIONS[0], empty)).left_out == {"a row without responses": 1}


@pytest.mark.slow
def test_real_datasets_on_disk_are_imported_completely(tmp_path: Path) -> None:
    python = tool("YOUDEN_LM_EVAL_PYTHON", "lm-eval")
    ran = [python, str(TOOLS / "hf_rows.py")]
    subprocess.run(ran, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    for name in ("generations", "completions"):
        imported = load("hf-dataset", tmp_path / name)
        assert cells(imported) == BOTH
        assert imported.left_out == {}
    assert cells(load("hf-dataset", tmp_path / "pairs")) == {("chosen", "p1"): "la", ("rejected", "p1"): "lo"}
    wide = load("hf-dataset", tmp_path / "wide", item="key", text="gpt,llama")
    assert cells(wide) == {("gpt", "i"): "one", ("llama", "i"): "two"}
    splits = load("hf-dataset", tmp_path / "of one" / "saved", tmp_path / "of two" / "saved", item="key", text="out")
    assert {agent.id for agent in splits.pool.agents} == {"of one", "of two"}
