"""Test that an empty cell in place of a response means the same in every way to read a pool."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import youden
from commands import Youden
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import read_pool, write_pool
from youden.errors import PoolError
from youden.types import Pool

AGENTS, N_ITEMS = ("a", "b", "c", "d"), 10
EMPTY = {("b", 3), ("b", 7), ("d", 0)}
NOTE = "3 empty responses ('b': 2, 'd': 1) count as failures; `empty: missing` in the config leaves them out"
BLANK = [None, float("nan"), pd.NA, pd.NaT, "", "  "]


def responses(blank: object = None) -> pd.DataFrame:
    """Tabulate responses of four agents, three of which are blank."""
    rows = [
        (agent, f"q{n}", blank if (agent, n) in EMPTY else f"{agent} says word{n} and word{n + 1} of question {n}")
        for agent in AGENTS
        for n in range(N_ITEMS)
    ]
    return pd.DataFrame(rows, columns=["agent", "item", "text"], dtype=object)


def wide(blank: object = None) -> pd.DataFrame:
    return responses(blank).pivot(index="item", columns="agent", values="text").reset_index()


def as_records(frame: pd.DataFrame) -> list[dict[str, object]]:
    return [
        {str(name): None if pd.isna(cell) else cell for name, cell in row.items()} for row in frame.to_dict("records")
    ]


def write_json_lines(frame: pd.DataFrame, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in as_records(frame)), encoding="utf-8")


@pytest.mark.parametrize("table", [responses, wide])
@pytest.mark.parametrize("blank", BLANK, ids=repr)
def test_every_blank_cell_of_a_frame_is_an_empty_response(
    table: Callable[[object], pd.DataFrame], blank: object
) -> None:
    pool = read_pool(table(blank))
    assert (pool.n_empty, pool.n_missing) == (3, 0)
    missing = read_pool(table(blank), empty="missing")
    assert (missing.n_empty, missing.n_missing) == (0, 3)
    assert NOTE in youden.make_plan(pool, calls=100).notes
    assert not any("empty" in note for note in youden.make_plan(missing, calls=100).notes)


@pytest.mark.parametrize("name", ["p.csv", "p.parquet", "folder"])
def test_files_of_a_pool_are_read_like_a_frame(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "p.csv":
        responses(" ").to_csv(path, index=False)
    elif name == "p.parquet":
        responses().to_parquet(path)
    else:
        write_pool(read_pool(responses()), path)
    assert read_pool(path).digest == read_pool(responses()).digest
    assert read_pool(path, empty="missing").digest == read_pool(responses(), empty="missing").digest


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.xlsx", "wide.csv", "wide.jsonl"])
def test_init_reads_empty_cells_as_empty_responses_and_says_so(youden: Youden, tmp_path: Path, name: str) -> None:
    frame = wide() if name.startswith("wide") else responses().rename(columns={"agent": "model", "text": "response"})
    frame["item"] = [f"What about {item}?" for item in frame["item"]]
    frame = frame.rename(columns={"item": "question"})
    if name.endswith("csv"):
        frame.to_csv(tmp_path / name, index=False)
    elif name.endswith("xlsx"):
        frame.to_excel(tmp_path / name, index=False)
    else:
        write_json_lines(frame, tmp_path / name)
    assert NOTE in youden("init", name, "--out", "mine.yaml").well().out
    pool = read_pool(tmp_path / "pools" / "mine")
    assert (pool.n_agents, pool.n_items, pool.n_empty, pool.n_missing) == (4, N_ITEMS, 3, 0)


@pytest.mark.slow
def test_the_config_decides_whether_empty_responses_are_judged(youden: Youden, tmp_path: Path) -> None:
    responses("").to_csv(tmp_path / "mine.csv", index=False)
    for rule, n_missing in (("failure", 0), ("missing", 3)):
        config = f"pool: mine.csv\nempty: {rule}\njudge: lexical\nout: runs/{rule}\n"
        (tmp_path / "c.yaml").write_text(config, encoding="utf-8")
        assert (NOTE in youden("check", "c.yaml").well().err) is (rule == "failure")
        planned = youden("plan", "c.yaml").well()
        assert (NOTE in planned.out + planned.err) is (rule == "failure")
        assert (NOTE in youden("run", "c.yaml").well().err) is (rule == "failure")
        pool = RunFolder(tmp_path / "runs" / rule).read_judged_pool()
        assert pool.n_missing == n_missing
    (tmp_path / "c.yaml").write_text("pool: mine.csv\nempty: skip\n", encoding="utf-8")
    assert "'empty' is 'skip'" in youden("plan", "c.yaml").err


def test_a_later_response_replaces_an_empty_cell_in_front_of_it(youden: Youden, tmp_path: Path) -> None:
    rows = [("m1", "Why?", ""), ("m1", "Why?", "because"), ("m2", "Why?", "so"), ("m3", "Why?", "hence")]
    rows += [("m1", "How?", "thus"), ("m2", "How?", "well"), ("m3", "How?", "like this"), ("m1", "How?", " ")]
    frame = pd.DataFrame(rows, columns=["model", "question", "response"])
    frame.to_csv(tmp_path / "t.csv", index=False)
    begun = youden("init", "t.csv").well()
    assert "2 records left out: an empty text of an agent that has another response to the same item" in begun.out
    texts = read_pool(tmp_path / "pools" / "t").texts.tolist()
    assert texts == [["because", "thus"], ["so", "well"], ["hence", "like this"]]


def test_a_row_without_any_response_is_left_out_of_a_wide_table(youden: Youden, tmp_path: Path) -> None:
    frame = wide()
    frame.loc[4, list(AGENTS)] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert "1 record left out: a row without responses" in youden("init", "t.csv").well().out
    assert read_pool(tmp_path / "pools" / "t").n_items == N_ITEMS - 1


@pytest.mark.parametrize("table", [responses, wide])
def test_blank_rows_of_a_frame_are_skipped(table: Callable[[object], pd.DataFrame]) -> None:
    frame = table(None)
    with_blank_rows = frame.reindex([*frame.index[:2], -1, *frame.index[2:], -2])
    assert with_blank_rows.isna().all(axis=1).sum() == 2
    assert read_pool(with_blank_rows).digest == read_pool(frame).digest


@pytest.mark.parametrize("table", [responses, wide])
def test_init_leaves_out_a_record_without_the_key_of_the_response(
    youden: Youden, tmp_path: Path, table: Callable[[object], pd.DataFrame]
) -> None:
    frame = table(None)
    frame["item"] = [f"What about {item}?" for item in frame["item"]]
    records = as_records(frame.rename(columns={"agent": "model", "item": "question", "text": "response"}))
    records[0].pop("response" if table is responses else "a")
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records), encoding="utf-8")
    assert NOTE in youden("init", "t.jsonl").well().out
    pool = read_pool(tmp_path / "pools" / "t")
    assert (pool.n_empty, pool.n_missing) == (3, 1)


def test_an_item_without_any_response_is_left_out_of_a_wide_frame() -> None:
    frame = wide("")
    frame.loc[4, list(AGENTS)] = [None, "", " ", float("nan")]
    pool = read_pool(frame)
    assert (pool.n_items, pool.n_empty) == (N_ITEMS - 1, 3)


def test_self_trials_of_one_agent_state_empty_responses_too() -> None:
    rows = [
        ("a", f"q{n}", repeat, "" if (n, repeat) == (2, 1) else f"text {n} {repeat}")
        for n in range(8)
        for repeat in (1, 2)
    ]
    pool = read_pool(pd.DataFrame(rows, columns=["agent", "item", "repeat", "text"]))
    assert any(
        note.startswith("1 empty response ('a': 1) counts as a failure") for note in youden.make_plan(pool).notes
    )


@pytest.mark.parametrize("n_repeats", [1, 2])
def test_texts_of_spaces_in_a_folder_are_empty_responses(tmp_path: Path, n_repeats: int) -> None:
    pool = read_pool(responses("  "))
    write_pool(pool, tmp_path / "pool")
    path = tmp_path / "pool" / "responses.jsonl"
    text = path.read_text(encoding="utf-8").replace('"text":""', '"text":"\\u2003 "')
    if n_repeats == 2:
        text += text.replace('"text"', '"repeat":2,"text"')
    path.write_text(text, encoding="utf-8")
    assert read_pool(tmp_path / "pool").n_empty == 3 * n_repeats
    assert read_pool(tmp_path / "pool", empty="missing").n_missing == 3


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(PoolError, match="`empty` must be failure or missing: got 'drop'") as caught:
        youden.read_pool(responses(), empty="drop")  # type: ignore[arg-type]
    assert caught.value.slug == "pool-empty-rule"


def test_a_pool_with_empty_responses_is_read_back(tmp_path: Path) -> None:
    pool: Pool = read_pool(responses(""))
    write_pool(pool, tmp_path / "p")
    assert read_pool(tmp_path / "p").digest == pool.digest


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_a_column_that_marks_empty_responses_decides_about_all_empty_cells(
    youden: Youden, tmp_path: Path, name: str
) -> None:
    frame = responses()
    frame["empty"] = [
        "yes" if (agent, item) == ("b", "q3") else None for agent, item in zip(frame.agent, frame.item, strict=True)
    ]
    if name == "t.csv":
        frame.to_csv(tmp_path / name, index=False)
    else:
        write_json_lines(frame, tmp_path / name)
    assert "2 records left out: an empty cell in place of a text" in youden("init", name).well().out
    pool = read_pool(tmp_path / "pools" / "t")
    assert (pool.n_empty, pool.n_missing) == (1, 2)


def test_empty_repeats_are_stated_too(youden: Youden, tmp_path: Path) -> None:
    first = responses("filled").assign(repeat=1)
    second = responses().assign(repeat=2)
    pd.concat([first, second]).to_csv(tmp_path / "t.csv", index=False)
    assert NOTE in youden("init", "t.csv").well().out
