"""Test reading and writing pools: every format gives the same pool, and every error names file and line."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from run_folders import contents
from youden import read_pool
from youden.data.folder.csv_tables import write_scores
from youden.data.pools.pool_reader import write_pool
from youden.data.pools.spool import LONG_TEXT
from youden.errors import PoolError
from youden.text.printable import find_name_fault
from youden.types import Agent, Item, Pool, Scores

AGENTS = ['{"id": "a", "group": "g"}', '{"id": "b", "meta": {"instruction": "be brief"}}']
ITEMS = ['{"id": "x", "prompt": "what is x?"}', '{"id": "y"}']
RESPONSES = ['{"agent": "b", "item": "y", "text": "by"}', '{"agent": "a", "item": "x", "text": ""}']

ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6).filter(
    lambda value: bool(value.strip()) and find_name_fault(value) is None
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
responses = texts.map(lambda text: "" if text.isspace() else text)  # a response of spaces is read back as an empty one


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    agents = draw(st.lists(ids, min_size=1, max_size=4, unique=True))
    items = draw(st.lists(ids, min_size=1, max_size=4, unique=True))
    cells = st.one_of(st.none(), responses)
    grid = [[draw(cells) for _ in items] for _ in agents]
    grid[0][0] = draw(responses)
    return Pool(
        agents=tuple(
            Agent(name, group=draw(st.none() | ids), meta=draw(st.sampled_from([{}, {"k": [1, None]}])))
            for name in agents
        ),
        items=tuple(Item(name, prompt=draw(st.none() | texts)) for name in items),
        texts=np.array([*grid, [None] * len(items)], dtype=object)[:-1],
    )


def write_folder(
    folder: Path,
    *,
    agents: Iterable[str] = AGENTS,
    items: Iterable[str] = ITEMS,
    responses: Iterable[str] = RESPONSES,
) -> Path:
    for name, lines in (("agents", agents), ("items", items), ("responses", responses)):
        (folder / f"{name}.jsonl").write_bytes("".join(f"{line}\n" for line in lines).encode(errors="surrogateescape"))
    return folder


def write_csv(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def refused(path: Path, *parts: str) -> PoolError:
    with pytest.raises(PoolError) as caught:
        read_pool(path)
    for part in parts:
        assert part in str(caught.value), str(caught.value)
    return caught.value


def same(one: Pool, other: Pool) -> bool:
    return (one.agents, one.items, one.texts.tolist()) == (other.agents, other.items, other.texts.tolist())


def test_a_folder_preserves_file_order_and_counts_missing_cells(tmp_path: Path) -> None:
    pool = read_pool(write_folder(tmp_path))
    assert pool.agents == (Agent("a", "g"), Agent("b", None, {"instruction": "be brief"}))
    assert pool.items == (Item("x", "what is x?"), Item("y"))
    assert pool.texts.tolist() == [["", None], [None, "by"]]
    assert pool.n_missing == 2
    assert pool.name == tmp_path.name


@settings(max_examples=20, deadline=None)
@given(pool=pools())
def test_a_written_pool_reads_back_unchanged(pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("pool")
    write_pool(pool, folder)
    assert same(read_pool(folder), pool)
    assert read_pool(folder).digest == pool.digest


@settings(max_examples=20, deadline=None)
@given(pool=pools())
def test_csv_and_parquet_equal_a_naive_reading_of_their_rows(
    pool: Pool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("tidy")
    rows = [
        {"agent": a.id, "item": i.id, "text": text, "prompt": i.prompt, "group": a.group}
        for a, row in zip(pool.agents, pool.texts, strict=True)
        for i, text in zip(pool.items, row, strict=True)
        if text is not None
    ]
    with (folder / "p.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["agent", "item", "text", "prompt", "group"])
        writer.writeheader()
        writer.writerows(rows)
    pd.DataFrame(rows, dtype=object).astype("string").to_parquet(folder / "p.parquet")
    agents = list(dict.fromkeys(row["agent"] for row in rows))
    items = list(dict.fromkeys(row["item"] for row in rows))
    expected = {(row["agent"], row["item"]): row["text"] if str(row["text"]).strip() else "" for row in rows}
    for name in ("p.csv", "p.parquet"):
        read = read_pool(folder / name)
        assert [agent.id for agent in read.agents] == agents
        assert [item.id for item in read.items] == items
        result = {(a, i): read.texts[n, m] for n, a in enumerate(agents) for m, i in enumerate(items)}
        assert {cell: text for cell, text in result.items() if text is not None} == expected
        groups = {agent.id: agent.group for agent in pool.agents}
        prompts = {item.id: item.prompt or None for item in pool.items}
        assert all(agent.group == groups[agent.id] for agent in read.agents)
        assert all(item.prompt == prompts[item.id] for item in read.items)


def test_values_that_resemble_numbers_or_nulls_are_strings(tmp_path: Path) -> None:
    pool = read_pool(write_csv(tmp_path / "p.csv", "agent,item,text\n007,1e3,NA\nnull,nan,None\n"))
    assert [agent.id for agent in pool.agents] == ["007", "null"]
    assert [item.id for item in pool.items] == ["1e3", "nan"]
    assert pool.texts.tolist() == [["NA", None], [None, "None"]]


def test_an_empty_csv_field_is_an_empty_text_but_no_prompt_or_group(tmp_path: Path) -> None:
    pool = read_pool(write_csv(tmp_path / "p.csv", "group,prompt,text,item,agent\n,,,x,a\ng,what?,t,x,b\n,,u,y,b\n"))
    assert pool.texts.tolist() == [["", None], ["t", "u"]]
    assert pool.agents == (Agent("a"), Agent("b", "g"))
    assert pool.items == (Item("x", "what?"), Item("y"))


def test_a_byte_order_mark_windows_line_ends_and_blank_lines_are_tolerated(tmp_path: Path) -> None:
    table = write_csv(tmp_path / "p.csv", "\ufeffagent,item,text\r\n\r\na,x,é\r\n\r\n")
    assert read_pool(table).texts.tolist() == [["é"]]
    (tmp_path / "f").mkdir()
    folder = write_folder(tmp_path / "f", agents=["\ufeff" + AGENTS[0] + "\r", "", AGENTS[1]])
    assert read_pool(folder).agents[0] == Agent("a", "g")


CSV_FAULTS = {
    "unclosed quote": ('agent,item,text\na,x,"line\nb"\nb,x,"open\nc,x,t\n', ["line 4", "quote", "pool-csv"]),
    "text after quote": ('agent,item,text\na,x,"t"u\n', ["line 2", "pool-csv"]),
    "too many fields": ('agent,item,text\na,x,"one\ntwo"\na,y,one, two\n', ["line 4", "4 fields", "expected 3"]),
    "too few fields": ("agent,item,text\na,x\n", ["line 2", "2 fields"]),
    "missing column": ("agent,item,answer\na,x,t\n", ["line 1", "no column text", "answer"]),
    "semicolons": (
        "agent;item;text\na;x;t\n",
        ["no column agent, item, text", "agent;item;text", "separated by commas"],
    ),
    "unknown column": ("agent,item,text,promt\na,x,t,p\n", ["promt", "prompt, group"]),
    "column twice": ("agent,item,text,text\na,x,t,u\n", ["line 1", "the same name: got 'text'", "pool-columns"]),
    "no rows": ("agent,item,text\n", ["no rows", "pool-empty"]),
    "nothing at all": ("", ["no column agent"]),
    "empty agent": ("agent,item,text\na,x,t\n,x,t\n", ["line 3", "agent id is empty"]),
    "blank item": ("agent,item,text\na,  ,t\n", ["line 2", "item id is empty"]),
    "cell twice": ('agent,item,text\na,x,"t\nu"\nb,x,t\na,x,v\n', ["line 5", "line 2", "'a'", "'x'", "pool-duplicate"]),
    "prompt contradicts": (
        "agent,item,text,prompt\na,x,t,p\nb,x,t,q\n",
        ["line 3", "line 2", "'q'", "'p'", "prompt of item 'x'"],
    ),
    "group contradicts": ("agent,item,text,group\na,x,t,g\na,y,t,h\n", ["line 3", "line 2", "group of agent 'a'"]),
}


@pytest.mark.parametrize("fault", CSV_FAULTS)
def test_a_faulty_csv_is_refused_with_its_physical_line(tmp_path: Path, fault: str) -> None:
    text, parts = CSV_FAULTS[fault]
    refused(write_csv(tmp_path / "p.csv", text), "p.csv", *parts)


FOLDER_FAULTS: dict[str, tuple[dict[str, list[str]], list[str]]] = {
    "no JSON": ({"responses": ['{"agent": "a"', RESPONSES[0]]}, ["responses.jsonl, line 1", "not JSON"]),
    "a list": ({"responses": [RESPONSES[0], "[1]"]}, ["responses.jsonl, line 2", "[1]"]),
    "NaN": ({"agents": ['{"id": "a", "meta": {"v": NaN}}']}, ["agents.jsonl, line 1", "not JSON"]),
    "unknown agent": (
        {"responses": [RESPONSES[0], '{"agent": "c", "item": "x", "text": ""}']},
        ["responses.jsonl, line 2", "'c' is not in agents.jsonl"],
    ),
    "unknown item": (
        {"responses": ['{"agent": "a", "item": "z", "text": ""}']},
        ["line 1", "'z' is not in items.jsonl"],
    ),
    "text twice": (
        {"responses": ['{"agent": "a", "item": "x", "text": "one", "text": "two"}']},
        ["responses.jsonl, line 1", "the key 'text'"],
    ),
    "number text": ({"responses": ['{"agent": "a", "item": "x", "text": 7}']}, ["line 1", "got 7"]),
    "number id": ({"agents": ['{"id": 7}', *AGENTS]}, ["agents.jsonl, line 1", "7", "strings"]),
    "no text": ({"responses": ['{"agent": "a", "item": "x"}']}, ["line 1", "no key 'text'"]),
    "unknown key": ({"items": ['{"id": "x", "promt": "?"}', ITEMS[1]]}, ["items.jsonl, line 1", "promt", "prompt"]),
    "agent twice": ({"agents": [AGENTS[0], "", AGENTS[1], AGENTS[0]]}, ["agents.jsonl, line 4", "line 1"]),
    "item twice": ({"items": [*ITEMS, ITEMS[1]]}, ["items.jsonl, line 3", "line 2"]),
    "cell twice": ({"responses": [*RESPONSES, RESPONSES[1]]}, ["responses.jsonl, line 3", "line 2"]),
    "empty id": ({"agents": ['{"id": ""}']}, ["agents.jsonl, line 1", "empty"]),
    "group a list": ({"agents": ['{"id": "a", "group": ["g"]}']}, ["agents.jsonl, line 1", "group", "['g']"]),
    "meta a string": ({"agents": ['{"id": "a", "meta": "m"}']}, ["agents.jsonl, line 1", "meta", "'m'"]),
    "no agents": ({"agents": []}, ["agents.jsonl", "no rows"]),
    "no responses": ({"responses": [""]}, ["responses.jsonl", "no rows"]),
    "latin-1": (
        {"responses": [RESPONSES[0], '{"agent": "a", "item": "x", "text": "caf\udce9"}']},
        ["responses.jsonl, line 2", "0xe9", "position 41", "UTF-8"],
    ),
}


@pytest.mark.parametrize("fault", FOLDER_FAULTS)
def test_a_faulty_folder_is_refused_with_file_and_line(tmp_path: Path, fault: str) -> None:
    files, parts = FOLDER_FAULTS[fault]
    refused(write_folder(tmp_path, **files), *parts)


def test_a_csv_that_is_not_utf8_is_refused_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes('agent,item,text\na,x,"one\ncafé"\n'.encode("latin-1"))
    refused(path, "p.csv, line 3", "0xe9", "pool-encoding")
    path.write_bytes("agent,item,text\na,x,t\n".encode("utf-16"))
    refused(path, "p.csv, line 1", "or pass it to `youden init`, which also reads UTF-16", "pool-encoding")


def test_a_faulty_parquet_is_refused_with_its_row(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    pd.DataFrame({"agent": ["a", None], "item": ["x", "y"], "text": ["t", "u"]}).to_parquet(path)
    refused(path, "p.parquet, row 2", "None", "pool-id")
    pd.DataFrame({"agent": ["a", "a"], "item": [1, 2], "text": ["t", "u"]}).to_parquet(path)
    refused(path, "column item", "int64", "Cast it to string")
    pd.DataFrame({"agent": ["a", "a"], "item": ["x", "x"], "text": ["t", "u"]}).to_parquet(path)
    refused(path, "row 2", "row 1", "pool-duplicate")
    path.write_bytes(b"agent,item,text\n")
    refused(path, "not a Parquet file")


def test_dictionary_columns_of_a_parquet_are_strings(tmp_path: Path) -> None:
    frame = pd.DataFrame({"agent": ["a", "b"], "item": ["x", "x"], "text": ["t", ""], "group": [None, "g"]})
    frame.astype({"agent": "category", "group": "category"}).to_parquet(tmp_path / "p.parquet")
    pool = read_pool(tmp_path / "p.parquet")
    assert pool.agents == (Agent("a"), Agent("b", "g"))
    assert pool.texts.tolist() == [["t"], [""]]


def test_ids_that_differ_in_every_row_are_refused_before_memory_runs_out(tmp_path: Path) -> None:
    rows = "".join(f"a{n},x{n},t\n" for n in range(15_000))
    refused(write_csv(tmp_path / "p.csv", "agent,item,text\n" + rows), "15000 agents × 15000 items", "pool-size")


def test_the_remedy_for_wrong_columns_names_the_whole_path(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "my pool.csv", "question,answer\nq,a\n")
    refused(path, f"run `youden init '{path}'` to detect the columns")


def test_a_path_that_is_no_pool_is_refused_with_the_accepted_forms(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "nowhere", "pool-not-found")
    refused(tmp_path, "no agents.jsonl, no items.jsonl, no responses.jsonl")
    (tmp_path / "p.xlsx").write_bytes(b"")
    refused(tmp_path / "p.xlsx", "'.xlsx'", "pool-kind")


def test_a_shipped_pool_is_found_by_name_after_one_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused(Path("datasets/nobody"), "nobody", "pool-not-found")
    (tmp_path / "datasets" / "mine").mkdir(parents=True)
    write_folder(tmp_path / "datasets" / "mine")
    assert read_pool("datasets/mine").name == "mine"


def test_a_failed_write_leaves_the_old_file_and_no_temporary_file(tmp_path: Path) -> None:
    write_pool(read_pool(write_folder(tmp_path)), tmp_path)
    before = contents(tmp_path)
    broken = Pool((Agent("a", meta={"huge": 2**80}),), (Item("x"),), np.array([["t"]], dtype=object))
    with pytest.raises(TypeError):
        write_pool(broken, tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "name", ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-1+1", "\t=1", "a\rb", "\x1b[2J", " =1", "＝1"]
)
def test_a_name_with_control_characters_is_refused_with_its_location(tmp_path: Path, name: str) -> None:
    quoted = json.dumps(name)
    refused(write_folder(tmp_path, agents=[AGENTS[0], f'{{"id": {quoted}}}']), "agents.jsonl, line 2", "[pool-id]")
    refused(write_folder(tmp_path, items=[f'{{"id": {quoted}}}']), "items.jsonl, line 1", "[pool-id]")
    refused(write_folder(tmp_path, agents=[f'{{"id": "a", "group": {quoted}}}']), "agents.jsonl, line 1", "[pool-id]")
    cell = '"' + name + '"'
    for row in (f"{cell},x,t", f"a,{cell},t", f"a,x,t,{cell}"):
        header = "agent,item,text,group" if row.count(",") == 3 else "agent,item,text"
        refused(write_csv(tmp_path / "p.csv", f"{header}\n{row}\n"), "line 2", "[pool-id]")


def test_names_that_a_spreadsheet_shows_unchanged_are_accepted(tmp_path: Path) -> None:
    names = ["-3", "+1.5", "a=b", "o'neil", "gpt-4o", "x@y", "'=1", "模型", "a, b", 'say "hi"']
    pool = read_pool(
        write_folder(
            tmp_path,
            agents=[json.dumps({"id": name}) for name in names],
            items=ITEMS,
            responses=[json.dumps({"agent": name, "item": "x", "text": "t"}) for name in names],
        )
    )
    write_scores(
        tmp_path / "s.csv",
        Scores.from_matrices(
            np.zeros((len(names), 2)),
            np.ones((len(names), 2)),
            role="train",
            kind="symmetric",
            agent_ids=tuple(names),
            item_ids=("x", "y"),
        ),
    )
    read = pd.read_csv(tmp_path / "s.csv", dtype={"agent": str})
    assert read["agent"].tolist() == [agent.id for agent in pool.agents] == names
    assert not [name for name in names if name.startswith(("=", "@"))]


@pytest.mark.parametrize(
    ("header", "row", "what"), [("agent,item,text", "a,y,{}", "text"), ("agent,item,text,prompt", "a,y,t,{}", "prompt")]
)
def test_a_very_long_text_is_an_error_with_its_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, header: str, row: str, what: str
) -> None:
    csv.field_size_limit(131_072)  # the default, which is too small
    first = ",".join(["a", "x", "t", ""][: header.count(",") + 1])
    read_pool(write_csv(tmp_path / "p.csv", f"{header}\n{first}\n{row.format('w' * LONG_TEXT)}\n"))
    assert caplog.messages == []
    read_pool(write_csv(tmp_path / "p.csv", f"{header}\n{first}\n{row.format('word ' * 250_000)}\n"))
    assert len(caplog.messages) == 1
    assert csv.field_size_limit() == 131_072
    assert f"p.csv, line 3: the {what} has 1,250,000 characters." in caplog.text


def test_a_very_long_text_of_a_folder_is_an_error_with_its_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    long = "word " * 250_000
    cell = json.dumps({"agent": "a", "item": "x", "text": long})
    items = [ITEMS[1], json.dumps({"id": "x", "prompt": long})]
    read_pool(write_folder(tmp_path, items=items, responses=[RESPONSES[0], cell]))
    assert [
        "items.jsonl, line 2: the prompt" in caplog.messages[0],
        "responses.jsonl, line 2: the text" in caplog.messages[1],
    ]


WIDE = pd.DataFrame({"item": ["x", "y"], "a": ["1", "2"], "b": ["3", "4"]})


@pytest.mark.parametrize("name", ["group", "Question", "repeat", "id", "Prompt", "E-mail", "reference", "created"])
def test_a_column_of_a_wide_frame_that_names_no_agent_is_refused(name: str) -> None:
    with pytest.raises(PoolError, match=rf"got a column {name}\. Remove the column.*pool-columns"):
        read_pool(WIDE.assign(**{name: "math"}))


def test_an_agent_of_a_frame_without_any_response_is_not_dropped_silently() -> None:
    assert read_pool(WIDE.assign(c="")).texts[-1].tolist() == ["", ""]
    with pytest.raises(PoolError, match=r"agent 'c' has no response\. Add .*pool-agent"):
        read_pool(WIDE.assign(c=""), empty="missing")


def test_whole_numbers_as_ids_of_a_frame_have_no_decimals() -> None:
    frame = pd.DataFrame({"agent": ["a", "b"] * 2, "item": [1.0, 1.0, 2.5, 2.5], "text": ["t"] * 4})
    for dtype in ("float64", "float32", "Float64", "object"):
        assert [item.id for item in read_pool(frame.astype({"item": dtype})).items] == ["1", "2.5"]
    assert [agent.id for agent in read_pool(WIDE.rename(columns={"a": 1.0, "b": 2.0})).agents] == ["1", "2"]


@pytest.mark.parametrize("value", [["x"], b"x", {"x": 1}, np.array(["x"])])
@pytest.mark.parametrize("name", ["agent", "item", "text", "prompt", "group"])
def test_lists_and_bytes_of_a_frame_are_not_read_as_texts(name: str, value: object) -> None:
    row = {"agent": "a", "item": "x", "text": "t", "prompt": "p", "group": "g", name: value}
    with pytest.raises(PoolError, match=rf"DataFrame, row 1: the {name}( id)? is not a string: got .*pool-"):
        read_pool(pd.DataFrame([row], dtype=object))


@pytest.mark.parametrize("repeated", [["item"], ["a"], ["item", "b"]])
def test_an_error_names_all_repeated_columns_of_a_frame(repeated: list[str]) -> None:
    frame = pd.concat([WIDE, WIDE[repeated]], axis=1)
    with pytest.raises(PoolError, match=rf"the same name: got {', '.join(map(repr, repeated))}\. Give .*pool-columns"):
        read_pool(frame)
    tidy_frame = frame.rename(columns={"item": "agent", "a": "item", "b": "text"})
    with pytest.raises(PoolError, match=r"the same name: got .* Give"):
        read_pool(tidy_frame)


def test_the_index_of_a_frame_names_the_items_unless_a_column_does() -> None:
    index = pd.Index(["v", "w"], name="item")
    assert [item.id for item in read_pool(WIDE.drop(columns="item").set_index(index)).items] == ["v", "w"]
    assert [item.id for item in read_pool(WIDE.set_index(index)).items] == ["x", "y"]
    assert read_pool(WIDE.set_index("item", drop=False)).digest == read_pool(WIDE).digest


def test_a_frame_whose_columns_have_several_levels_is_refused() -> None:
    frame = pd.DataFrame({"agent": ["a", "b"], "item": ["x", "x"], "response": ["t", "u"]})
    with pytest.raises(
        PoolError, match=r"columns have several levels: got \('response', 'a'\)\. Select .*pool-columns"
    ):
        read_pool(frame.pivot(index="item", columns="agent"))


@pytest.mark.parametrize(
    ("first", "second", "listed"),
    [
        ("Jos\u00e9", "Jose\u0301", r"'Jose\u0301', 'Jos\xe9'"),
        ("a b", "a\u00a0b", r"'a b', 'a\xa0b'"),
        ("a", "a\u200b", r"'a', 'a\u200b'"),
        ("GPT", "\uff27PT", r"'GPT', '\uff27PT'"),
        ("7", "7.0", "'7', '7.0'"),
    ],
)
def test_ids_that_look_alike_are_logged_with_their_difference(
    caplog: pytest.LogCaptureFixture, first: str, second: str, listed: str
) -> None:
    read_pool(pd.DataFrame({"item": ["x", "y"], first: ["1", "2"], second: ["3", "4"], "other": ["5", "6"]}))
    assert (
        "agents: names that differ only in case, spaces, invisible characters, Unicode form or a final .0 count as "
        f"different: {listed}" in caplog.text
    )


def test_ids_that_differ_only_in_case_or_blanks_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    read_pool(WIDE.assign(**{"A ": "5"}))
    assert (
        "agents: names that differ only in case, spaces, invisible characters, Unicode form or a final .0 count as "
        "different: 'A ', 'a'" in caplog.text
    )
