"""Test that files of other tools become pools, and that unusable rows are named and counted."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import Youden
from importer_files import TOOLS, cells, load, tool, write
from youden import make_plan, read_pool
from youden.data.importers import IMPORTERS
from youden.data.importers.output_folder import write_imported_pool
from youden.errors import ImportFormatError, YoudenError
from youden.pools.pool_import import import_pool
from youden.types import Agent, Pool


@pytest.fixture(scope="module")
def inspect_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    python = tool("YOUDEN_INSPECT_PYTHON", "inspect-ai")
    folder = tmp_path_factory.mktemp("inspect")
    subprocess.run([python, TOOLS / "inspect_task.py"], cwd=folder, check=True, capture_output=True, timeout=300)
    return folder


@pytest.mark.parametrize("log_format", ["eval", "json"])
def test_real_inspect_logs_are_read_in_both_formats(inspect_logs: Path, log_format: str) -> None:
    imported = load("inspect", inspect_logs / f"logs-{log_format}")
    assert cells(imported)["mockllm/two", "s1"] == "two says much of bridges."
    assert imported.pool.texts.shape == (2, 3)
    assert imported.pool.items[0].prompt == "Tell of rivers."
    assert imported.left_out == {}
    assert imported.unaligned == ()


def test_a_real_log_of_a_failed_run_is_imported_in_part_with_a_note(inspect_logs: Path) -> None:
    imported = load("inspect", inspect_logs / "logs-failed", *sorted((inspect_logs / "logs-json").glob("*.json")))
    assert imported.left_out == {"the sample failed": 1}
    assert imported.unaligned == ("s2",)
    assert any("status 'error'" in note for note in imported.notes)
    names = {agent.id for agent in imported.pool.agents}
    assert "mockllm/two" in names
    assert sum(name.startswith("mockllm/one (") for name in names) == 2


@pytest.mark.parametrize(
    ("arguments", "agents"),
    [
        ([{"k": 5, "version": "v1"}, {"k": 5, "version": "v2"}], ["m (version=v1)", "m (version=v2)"]),
        ([{"version": "v1"}, {"version": "v1"}], ["m (0)", "m (1)"]),
        ([{"version": "v1"}, {"prompt": "new"}], ["m (0)", "m (1)"]),
        ([{"version": ["v1"]}, {"version": ["v2"]}], ["m (0)", "m (1)"]),
        ([{"system": "You are\nkind."}, {"system": "You are\nterse."}], ["m (0)", "m (1)"]),
        ([{"system": "a" * 99, "v": 1}, {"system": "b" * 99, "v": 2}], ["m (v=1)", "m (v=2)"]),
        ([None, {"version": "v2"}], ["m (0)", "m (1)"]),
        ([{"version": "v1"}], ["m"]),
    ],
)
@pytest.mark.parametrize("key", ["task_args", "solver_args"])
def test_inspect_logs_of_one_model_are_named_after_an_argument_that_differs(
    tmp_path: Path, key: str, arguments: list[dict[str, object] | None], agents: list[str]
) -> None:
    output = {"choices": [{"message": {"role": "assistant", "content": "said"}}]}
    samples = [{"id": "s", "epoch": 1, "input": "Say.", "output": output}]
    for number, values in enumerate(arguments):
        run = {"model": "m", "task": "t", key: values}
        write(tmp_path / f"{number}.json", whole={"status": "success", "eval": run, "samples": samples})
    assert [agent.id for agent in load("inspect", tmp_path).pool.agents] == agents


def refuse_lost_repeats(pool: Pool, texts: set[str], *, n: int) -> None:
    """Check that the pool has n responses of each cell and that a dense plan shows each of them."""
    assert (pool.n_repeats == n).all()
    assert pool.n_responses == len(texts)
    assert {str(text) for text in pool.all_texts.ravel()} == texts
    copies = [Agent(f"copy {k}") for k in range(max(0, 3 - pool.n_agents))]
    if copies:
        pool = pool.with_agents(copies, [np.repeat(block[:1], len(copies), axis=0) for block in pool.texts_by_repeat])
    plan = make_plan(pool, design="dense", holdout=0.0)
    (first, second), paired = plan.text_rows, plan.trial_type == 0
    displayed = pool.all_texts[np.append(first[paired], second[paired]), np.tile(plan.item[paired], 2)]
    assert {str(text) for text in displayed} == texts


def test_a_real_log_of_three_epochs_gives_every_response(inspect_logs: Path, youden: Youden, tmp_path: Path) -> None:
    ended = youden("import", "inspect", str(inspect_logs / "logs-epochs"), "--out", "pool").well()
    assert "27 responses are repeats, all kept: 3 of one agent to one item" in ended.err
    output = {f"{name}, answer {n}." for name in ("one", "two", "three") for n in range(9)}
    pool = read_pool(tmp_path / "pool")
    refuse_lost_repeats(pool, output, n=3)
    agent_index = [agent.id for agent in pool.agents].index("mockllm/one")  # logs of one second lie in any order
    assert [block[agent_index, 1] for block in pool.texts_by_repeat] == [
        "one, answer 1.",
        "one, answer 4.",
        "one, answer 7.",
    ]


@pytest.mark.slow
def test_real_samples_of_lm_evaluation_harness_are_imported_completely(tmp_path: Path) -> None:
    python = tool("YOUDEN_LM_EVAL_PYTHON", "lm-eval")
    offline = os.environ | {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    command = [python, str(TOOLS / "lm_eval_runs.py")]
    subprocess.run(command, cwd=tmp_path, env=offline, check=True, capture_output=True, timeout=600)
    files = [file for file in tmp_path.rglob("samples_*.jsonl") if "repeated" not in file.parts]
    written = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    imported = load("lm-eval", *(tmp_path / out for out in ("plain", "adapter", "hot")))
    names = [agent.id for agent in imported.pool.agents]
    assert sum(name.startswith("acme/m (hot, 20") for name in names) == 2
    assert {name for name in names if "hot" not in name} == {"acme/m (plain)", "acme/m (adapter)"}
    assert (written, int(imported.pool.present.sum()), imported.left_out) == (8, 8, {})
    assert cells(imported)["acme/m (plain)", "1"] == "lol"
    assert imported.pool.items[0].prompt == "Tell of rivers."
    asked_often = load("lm-eval", tmp_path / "repeated")
    assert any("8 responses are repeats, all kept: 4 of one agent to one item" in note for note in asked_often.notes)
    refuse_lost_repeats(asked_often.pool, {f"answer {n}" for n in range(8)}, n=4)


def test_a_real_dataset_on_disk_is_read(tmp_path: Path) -> None:
    python = tool("YOUDEN_LM_EVAL_PYTHON", "lm-eval")
    script = (
        "from datasets import Dataset, DatasetDict\n"
        "make = lambda who: Dataset.from_dict({'key': ['a', 'b'], 'out': [who + ' on a', who + ' on b'], 'n': [1, 2]})\n"
        "DatasetDict({'one': make('one'), 'two': make('two')}).save_to_disk('saved')\n"
    )
    subprocess.run([python, "-c", script], cwd=tmp_path, check=True, capture_output=True, timeout=120)
    imported = load("hf-dataset", tmp_path / "saved", item="key", text="out")
    assert cells(imported)["two", "b"] == "two on b"
    assert any("not used: n" in note for note in imported.notes)


def arrow(folder: Path, rows: dict[str, list[str]]) -> Path:
    folder.mkdir(parents=True)
    table = pa.table(rows)
    with (
        pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as out,
    ):
        out.write_table(table)
    write(folder / "state.json", whole={"_data_files": [{"filename": "data-00000-of-00001.arrow"}]})
    return folder


def test_a_saved_split_with_an_agent_column_is_read_and_its_parent_folder_refused(tmp_path: Path) -> None:
    rows = {"agent": ["a", "b"], "item": ["x", "x"], "text": ["one", "two"]}
    assert cells(load("hf-dataset", arrow(tmp_path / "all", rows))) == {("a", "x"): "one", ("b", "x"): "two"}
    with pytest.raises(ImportFormatError, match=r"\[import-format\]"):
        load("hf-dataset", tmp_path)


def test_lm_eval_log_likelihood_rows_are_omitted_and_filters_are_one_response(tmp_path: Path) -> None:
    file = tmp_path / "acme__m" / "samples_gsm_2026-01-02T03-04-05.678901.jsonl"
    row = {"doc_id": 0, "arguments": [["Why?", {}]], "resps": [["Because."]], "filter": "strict"}
    scored = {
        "doc_id": 1,
        "arguments": [["A or B?", " A"]],
        "resps": [[[-1.5, False]], [[-2.0, True]]],
        "filter": "none",
    }
    write(file, row, row | {"filter": "flexible"}, scored)
    imported = load("lm-eval", tmp_path)
    assert cells(imported) == {("acme__m", "0"): "Because."}
    assert imported.left_out == {"no text: the task is by log-likelihood": 1}
    assert imported.pool.items[0].prompt == "Why?"


def test_alpaca_eval_is_joined_by_instruction(tmp_path: Path) -> None:
    def rows(agent: str, *asked: str) -> list[dict[str, str]]:
        return [{"dataset": "d", "instruction": ask, "output": f"{agent}: {ask}", "generator": agent} for ask in asked]

    agent_index = write(tmp_path / "one" / "model_outputs.json", whole=rows("one", "Sing.", "Dance.", "Sing."))
    second = write(tmp_path / "two" / "model_outputs.json", whole=rows("two", "Dance.", "Sing."))
    imported = load("alpaca-eval", tmp_path)
    assert [item.prompt for item in imported.pool.items] == ["Sing.", "Dance.", "Sing."]
    assert cells(imported)["two", "item-0001"] == "two: Dance."
    assert imported.unaligned == ("item-0002",)
    assert any("'item-0002' lacks 'two'" in note for note in imported.notes)
    assert cells(load("alpaca-eval", agent_index, second)) == cells(imported)


def test_fastchat_and_arena_hard_answers_are_joined_with_their_questions(tmp_path: Path) -> None:
    bench = tmp_path / "mt_bench"
    write(bench / "question.jsonl", {"question_id": 81, "category": "writing", "turns": ["Write.", "Again."]})
    for name in ("vicuna", "gpt"):
        choices = [{"index": 0, "turns": [f"{name} first", f"{name} second"]}]
        row = {"question_id": 81, "answer_id": "x", "model_id": name, "choices": choices, "tstamp": 1.0}
        write(bench / "model_answer" / f"{name}.jsonl", row)
    imported = load("fastchat", bench / "model_answer")
    assert cells(imported)["gpt", "81#2"] == "gpt second"
    assert [item.prompt for item in imported.pool.items] == ["Write.", "Again."]

    old = {
        "question_id": "q",
        "model_id": "old",
        "choices": [{"index": 0, "turns": [{"content": "hello", "token_len": 1}]}],
    }
    new = {
        "uid": "q",
        "ans_id": "y",
        "model": "new",
        "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": {"answer": "good day"}}],
    }
    arena = load("fastchat", write(tmp_path / "old.jsonl", old), write(tmp_path / "new.jsonl", new))
    assert cells(arena) == {("old", "q"): "hello", ("new", "q"): "good day"}


def test_choices_and_messages_of_one_answer_are_not_multiplied(tmp_path: Path) -> None:
    row = {"uid": "q", "model": "m", "messages": [{"role": "assistant", "content": "one"}]}
    without_turns = load("fastchat", write(tmp_path / "a.jsonl", {**row, "choices": [{}, {}]})).pool
    assert without_turns.all_texts.ravel().tolist() == ["one"]
    with_turns = load(
        "fastchat", write(tmp_path / "b.jsonl", {**row, "choices": [{"turns": ["one"]}, {"turns": ["two"]}]})
    ).pool
    assert with_turns.all_texts.ravel().tolist() == ["one", "two"]


@pytest.mark.parametrize("ending", ["csv", "CSV", "tsv", "tab", "jsonl", "parquet"])
def test_tables_with_one_file_per_agent_are_joined_by_item(tmp_path: Path, ending: str) -> None:
    for agent, keys in (("one", ["a", "b"]), ("two", ["b", "c"])):
        rows = [{"key": key, "out": f"{agent} on {key}", "extra": "x"} for key in keys]
        file = tmp_path / f"{agent}.{ending}"
        if ending == "parquet":
            pq.write_table(pa.Table.from_pylist(rows), file)
        elif ending == "jsonl":
            write(file, *rows)
        else:
            separator = {"csv": ",", "tsv": "\t", "tab": "\t"}[ending.lower()]
            lines = [list(rows[0]), *(row.values() for row in rows)]
            file.write_text("".join(separator.join(line) + "\n" for line in lines), encoding="utf-8")
    imported = load("table", tmp_path, item="key", text="out")
    assert cells(imported) == {
        ("one", "a"): "one on a",
        ("one", "b"): "one on b",
        ("one", "c"): None,
        ("two", "a"): None,
        ("two", "b"): "two on b",
        ("two", "c"): "two on c",
    }
    assert imported.unaligned == ("a", "c")


def test_a_group_that_a_spreadsheet_would_execute_is_omitted_and_reported(tmp_path: Path) -> None:
    rows = [{"agent": name, "item": "i", "text": "t", "group": group} for name, group in (("a", "=2+2"), ("b", "fine"))]
    imported = load("table", write(tmp_path / "t.jsonl", *rows))
    assert [agent.group for agent in imported.pool.agents] == [None, "fine"]
    assert any("'=2+2' of agent 'a' is left out" in note for note in imported.notes)
    write_imported_pool(imported.pool, tmp_path / "pool")
    assert read_pool(tmp_path / "pool").digest == imported.pool.digest


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_determines_the_encoding(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "m.csv").write_text("agent,item,text\na,i,Gruß\n", encoding=encoding)
    assert cells(load("table", tmp_path / "m.csv")) == {("a", "i"): "Gruß"}


def test_unusable_rows_are_omitted_with_their_count_and_location(tmp_path: Path) -> None:
    rows = [
        {"agent": "a", "item": 1, "text": "kept"},
        {"agent": "", "item": 2, "text": None},
        {"agent": "a", "item": 3, "text": 3.5},
        {"agent": "a", "item": 4, "text": ["no", 4]},
        {"agent": "", "item": 5, "text": "x"},
        {"agent": "a", "text": "x"},
        {"agent": "a", "item": 1, "text": "again"},
        {},
        {"agent": "A ", "item": 1, "text": "x" * 10_000_000},
    ]
    imported = load("table", write(tmp_path / "bad.jsonl", *rows))
    assert imported.left_out == {
        "an empty cell in place of a text": 1,
        "the text is not a string: got float": 1,
        "the text is not a string: got list": 1,
        "no agent id": 1,
        "no item id": 1,
        "a second response of the same agent to the same item": 1,
        "a row without a text": 1,
    }
    assert any("bad.jsonl, line 3)" in note for note in imported.notes)
    assert [agent.id for agent in imported.pool.agents] == ["a", "A "]


@pytest.mark.slow
def test_a_million_empty_rows_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "empty.csv"
    file.write_text("agent,item,text\n" + ",,\n" * 500_000 + "\n" * 500_000 + "a,i,t\n", encoding="utf-8")
    imported = load("table", file)
    assert imported.left_out == {"an empty row": 1_000_000}
    assert cells(imported) == {("a", "i"): "t"}


@pytest.mark.parametrize(
    ("name", "content", "slug", "place"),
    [
        ("x.csv", b"agent,item,text\na,i,\xff\xfe\n", "import-encoding", "line 2"),
        ("x.csv", b'agent,item,text\na,i,"open\n', "import-csv", "line 2"),
        ("x.csv", b"agent,item,text\na,i\n", "import-csv", "line 2"),
        ("x.csv", b"who,what\n1,2\n", "import-columns", "no column holds responses"),
        ("x.csv", b"agent,item,text\n,,\n", "import-empty", "an empty row"),
        ("x.jsonl", b'{"agent": "a"\n', "import-json", "line 1"),
        ("x.jsonl", b"[1]\n", "import-format", "line 1"),
        (
            "x.jsonl",
            b'{"agent": "a", "text": "t", "text": "u"}\n',
            "import-json",
            "line 1: it is not JSON (the key 'text'",
        ),
        ("x.json", b'[\n{"agent": "a",\n"agent": "b"}\n]', "import-json", "the key 'agent' occurs twice, line 3"),
        ("x.parquet", b"PAR1", "import-format", "not a Parquet file"),
        ("x.txt", b"a", "import-format", "Convert"),
    ],
)
def test_a_broken_table_is_an_error_with_its_location(
    tmp_path: Path, name: str, content: bytes, slug: str, place: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ImportFormatError, match=rf"\[{slug}\]") as caught:
        load("table", tmp_path / name)
    assert place in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize("name", list(IMPORTERS))
@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"null", b"\x00\xff", b'{"eval": {}, "results": {"results": []}}', b"PK"]
)
def test_every_format_refuses_files_of_other_formats(tmp_path: Path, name: str, content: bytes) -> None:
    endings = {"inspect": "eval", "lm-eval": "jsonl", "fastchat": "jsonl", "table": "csv"}
    file = tmp_path / f"x.{endings.get(name, 'json')}"
    file.write_bytes(content)
    for path in (file, tmp_path / "nowhere"):
        with pytest.raises(YoudenError) as caught:
            import_pool(name, [path], tmp_path / "made")
        assert caught.value.slug.startswith("import-")
    assert not (tmp_path / "made").exists()


def test_import_writes_a_pool_that_reads_back(youden: Youden, tmp_path: Path) -> None:
    write(tmp_path / "one.jsonl", {"key": "a", "out": "said"}, {"key": "b"})
    ended = youden(
        "import", "table", "one.jsonl", "--out", "pool", "--column", "item=key", "--column", "text=out", "--json"
    )
    assert json.loads(ended.out) == {
        "out": "pool",
        "kind": "pool",
        "agents": 1,
        "items": 1,
        "missing": 0,
        "left_out": {"a row without a text": 1},
        "dropped": 0,
        "unaligned": [],
    }
    assert "note: 1 record left out: a row without a text (first: one.jsonl, line 2)" in ended.err
    assert read_pool(tmp_path / "pool").texts.tolist() == [["said"]]
    write(tmp_path / "two.jsonl", {"key": "a", "out": "other"})
    other_run = youden("import", "table", "two.jsonl", "--out", "pool", "--column", "item=key", "--column", "text=out")
    assert "[out-not-empty]" in other_run.err
    for foreign in ("two.jsonl", "."):
        ended = youden("import", "table", "two.jsonl", "--out", foreign, "--column", "item=key", "--column", "text=out")
        assert "[out-not-empty]" in ended.err
    write(tmp_path / "mine" / "items.jsonl", {"id": "a", "prompt": "My own items."})
    ended = youden("import", "table", "two.jsonl", "--out", "mine", "--column", "item=key", "--column", "text=out")
    assert "mine/items.jsonl belongs to another pool" in ended.err
    assert "My own items." in (tmp_path / "mine" / "items.jsonl").read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "one.jsonl", "pool", "two.jsonl"]
    assert youden("import", "inspekt", "x", "--out", "y").code == 2
    assert youden("import", "table", "one.jsonl", "--out", "pool", "--column", "item").code == 2
    assert "[import-columns]" in youden("import", "promptfoo", "one.jsonl", "--out", "y", "--column", "item=key").err


@pytest.mark.parametrize("log_format", ["eval", "json"])
def test_real_inspect_logs_of_agents_with_tools_give_answers_or_transcripts(
    inspect_logs: Path, tmp_path: Path, youden: Youden, log_format: str
) -> None:
    logs = inspect_logs / f"tools-{log_format}"
    assert set(cells(load("inspect", logs)).values()) == {"Done."}
    ended = youden("import", "inspect", str(logs), "--text", "transcript", "--out", "done")
    assert (ended.code, ended.err) == (0, "next: youden init done\n")
    pool = read_pool(tmp_path / "done")
    two = [agent.id for agent in pool.agents].index("mockllm/two")  # logs of one second lie in any order
    assert pool.texts[two].tolist() == [
        f"assistant: two adds.\ncall add(x={n}, y=2)\nresult: {'no twins' if n == 2 else n + 2}\nassistant: Done."
        for n in range(3)
    ]
    assert pool.items[0].prompt == "What is 0 + 2?"


def otlp(value: object) -> dict[str, object]:
    """Return the value of an attribute in the JSON of OTLP."""
    if isinstance(value, list | tuple):
        return {"arrayValue": {"values": [otlp(element) for element in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": otlp(element)} for key, element in value.items()]}}
    return {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)}


def traced(agent: str, asked: str, *, spans_of_tools: bool, as_json: bool) -> list[dict[str, object]]:
    """Return the spans of one trace of an agent that calls two tools, from OpenTelemetry's SDK, as OTLP JSON."""
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    provider = trace.TracerProvider()
    provider.add_span_processor(importlib.import_module("opentelemetry.sdk.trace.export").SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("agent")
    output = [{"role": "user", "parts": [{"type": "text", "content": asked}]}]
    with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
        for number, tool_of in enumerate(("find", "book", None)):
            parts: list[dict[str, object]] = [{"type": "reasoning", "content": "hm"}]
            if tool_of is None:
                parts.append({"type": "text", "content": "Booked."})
            else:
                given = {"room": f"{agent} {number}", "hours": 2}
                parts.append({"type": "tool_call", "id": f"c{number}", "name": tool_of, "arguments": given})
            reply = {"role": "assistant", "parts": parts, "finish_reason": "stop"}
            about = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.agent.name": agent}
            with tracer.start_as_current_span("chat m", attributes=about) as span:
                span.set_attribute("gen_ai.input.messages", json.dumps(output))
                span.set_attribute("gen_ai.output.messages", json.dumps([reply]))
            output.append(reply)
            if tool_of is not None:
                back = {"type": "tool_call_response", "id": f"c{number}", "response": "ok"}
                output.append({"role": "tool", "parts": [back]})
                if spans_of_tools:
                    result = {"gen_ai.tool.call.id": f"c{number}", "gen_ai.tool.call.result": "ok"}
                    with tracer.start_as_current_span(f"execute_tool {tool_of}", attributes=result):
                        pass
    return [
        {
            "traceId": f"{span.context.trace_id:032x}",
            "spanId": f"{span.context.span_id:016x}",
            "name": span.name,
            "startTimeUnixNano": str(span.start_time),
            "attributes": [
                {"key": key, "value": otlp(json.loads(value) if key.endswith("messages") and not as_json else value)}
                for key, value in span.attributes.items()
            ],
        }
        for span in memory.get_finished_spans()
    ]


def exported(*spans: dict[str, object]) -> dict[str, object]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "agent"}, "spans": list(spans)}]}]}


@pytest.mark.parametrize(("spans_of_tools", "as_json"), [(True, True), (False, True), (False, False)])
def test_traces_of_opentelemetry_give_answers_or_transcripts(
    tmp_path: Path, youden: Youden, spans_of_tools: bool, as_json: bool
) -> None:
    traces = [
        traced(agent, asked, spans_of_tools=spans_of_tools, as_json=as_json)
        for agent in ("one", "two")
        for asked in ("Book a room.", "Book two.")
    ]
    write(tmp_path / "traces.jsonl", *(exported(*spans) for spans in traces))
    write(tmp_path / "whole.json", whole=exported(*(span for spans in traces for span in reversed(spans))))
    for name in ("traces.jsonl", "whole.json"):
        answers = load("opentelemetry", tmp_path / name)
        assert set(cells(answers).values()) == {"Booked."}
        assert answers.left_out == {}
        assert youden("import", "opentelemetry", name, "--text", "transcript", "--out", f"of-{name}").code == 0
        pool = read_pool(tmp_path / f"of-{name}")
        assert [item.prompt for item in pool.items] == ["Book a room.", "Book two."]
        done = 'call find(room="two 0", hours=2)\nresult: ok\ncall book(room="two 1", hours=2)\nresult: ok\nassistant: Booked.'
        assert pool.texts[1].tolist() == [done, done]


def test_traces_without_messages_are_left_out_and_repeated_traces_are_repeats(tmp_path: Path) -> None:
    good = traced("one", "Why?", spans_of_tools=False, as_json=True)
    again = traced("one", "Why?", spans_of_tools=False, as_json=True)
    bare = {"traceId": "ff", "status": {"code": 2, "message": "429: slow down"}, "startTimeUnixNano": -1}
    values: tuple[Any, ...] = (None, {}, {"stringValue": "["}, {"stringValue": "[[1]]"}, {"arrayValue": 3}, {"x": {}})
    odd = [
        {
            "traceId": n,
            "attributes": [{"key": f"gen_ai.{side}.messages", "value": value} for side in ("input", "output")],
        }
        for n, value in enumerate(values)
    ]
    file = write(tmp_path / "t.jsonl", exported(*good), exported(*again, bare), exported(*odd))
    imported = load("opentelemetry", file)
    assert cells(imported) == {("one", "item-0000"): "Booked."}
    assert imported.pool.n_responses == 2
    assert imported.left_out == {"the trace has no messages of a user and a model": 1 + len(odd)}
    assert any("429: slow down" in note for note in imported.notes)


@pytest.mark.parametrize(
    "wrong", ["{}", "[1]", '"x"', '{"resourceSpans": [{"scopeSpans": 3}]}', '{"resourceLogs": []}']
)
def test_a_file_that_is_not_otlp_is_an_error_with_its_location(tmp_path: Path, wrong: str) -> None:
    (tmp_path / "t.json").write_text(wrong, encoding="utf-8")
    with pytest.raises(ImportFormatError, match=r"t\.json"):
        load("opentelemetry", tmp_path / "t.json")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--text", "transcript"), "transcripts are in the formats inspect, opentelemetry."),
        (("--split", "train"), "--split"),
    ],
)
def test_options_for_transcripts_and_splits_are_refused_for_tables(
    youden: Youden, tmp_path: Path, words: tuple[str, str], said: str
) -> None:
    (tmp_path / "t.csv").write_text("agent,item,text\na,i,x\n", encoding="utf-8")
    ended = youden("import", "table", "t.csv", *words, "--out", "p")
    assert ended.refuses("import-columns")
    assert said in ended.err
