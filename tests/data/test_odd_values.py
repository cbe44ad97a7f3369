"""Test values that tools write and strict readers refuse: NaN, infinities, lone surrogates and missing values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pandas as pd
import pytest

from importer_files import cells, load, write
from youden.data.label_tables import read_labels
from youden.data.pools.pool_reader import iter_responses, read_pool
from youden.errors import ImportFormatError, PoolError
from youden.pools.generation.item_sources import read_items

CUT = "an emoji cut in two \ud83d"
REPLACED = "an emoji cut in two \ufffd"


def inspect_log(model: str, *, text: str, score: float) -> dict[str, object]:
    """Write one sample; its score is the one that Inspect writes as NaN for a sample without a score."""
    output = {"choices": [{"message": {"role": "assistant", "content": text}}]}
    sample = {"id": 1, "epoch": 1, "input": "Q", "output": output, "scores": {"s": {"value": score}}}
    return {"version": 2, "status": "success", "eval": {"task": "t", "model": model}, "samples": [sample]}


def inspect_json(folder: Path, texts: dict[str, str], score: float) -> Path:
    for agent, text in texts.items():
        write(folder / f"{agent}.json", whole=inspect_log(agent, text=text, score=score))
    return folder


def inspect_eval(folder: Path, texts: dict[str, str], score: float) -> Path:
    folder.mkdir()
    for agent, text in texts.items():
        log = inspect_log(agent, text=text, score=score)
        samples = log.pop("samples")
        assert isinstance(samples, list)
        with ZipFile(folder / f"{agent}.eval", "w") as archive:
            archive.writestr("header.json", json.dumps(log))
            archive.writestr("samples/1_epoch_1.json", json.dumps(samples[0]))
    return folder


def lm_eval(folder: Path, texts: dict[str, str], score: float) -> Path:
    for agent, text in texts.items():
        row = {
            "doc_id": 1,
            "arguments": {"gen_args_0": {"arg_0": "Q"}},
            "resps": [[text]],
            "filter": "none",
            "bleu": score,
        }
        write(folder / agent / "samples_t_2026-01-01T00-00-00.000000.jsonl", row)
        write(folder / agent / "results_2026-01-01T00-00-00.000000.json", whole={"model_name": agent, "bleu": score})
    return folder


def helm(folder: Path, texts: dict[str, str], score: float) -> Path:
    for agent, text in texts.items():
        instance = {"id": "1", "input": {"text": "Q"}}
        completions = [{"text": text, "logprob": score}]
        states = [{"instance": instance, "result": {"completions": completions}, "train_trial_index": 0}]
        run = folder / f"t:model={agent}"
        write(run / "scenario_state.json", whole={"adapter_spec": {"model": agent}, "request_states": states})
    return folder


def alpaca_eval(folder: Path, texts: dict[str, str], score: float) -> Path:
    for agent, text in texts.items():
        rows = [{"instruction": "Q", "output": text, "generator": agent, "score": score}]
        write(folder / agent / "model_outputs.json", whole=rows)
    return folder


def fastchat(folder: Path, texts: dict[str, str], score: float) -> Path:
    for agent, text in texts.items():
        row = {"question_id": 1, "model_id": agent, "choices": [{"index": 0, "turns": [text]}], "tstamp": score}
        write(folder / f"{agent}.jsonl", row)
    return folder


def promptfoo(folder: Path, texts: dict[str, str], score: float) -> Path:
    results = [
        {
            "provider": {"id": agent},
            "prompt": {"raw": "Q", "label": "p"},
            "vars": {"q": 1},
            "testIdx": 0,
            "score": score,
        }
        | {"response": {"output": text}}
        for agent, text in texts.items()
    ]
    return write(folder / "out.json", whole={"results": {"results": results}})


def opentelemetry(folder: Path, texts: dict[str, str], score: float) -> Path:
    spans = []
    for agent, text in texts.items():
        messages = {
            side: json.dumps([{"role": role, "parts": [{"type": "text", "content": content, "score": score}]}])
            for side, role, content in (("input", "user", "Q"), ("output", "assistant", text))
        }
        attributes = [{"key": "gen_ai.request.model", "value": {"stringValue": agent}}]
        attributes += [
            {"key": f"gen_ai.{side}.messages", "value": {"stringValue": output}} for side, output in messages.items()
        ]
        spans.append({"traceId": agent, "startTimeUnixNano": "1", "attributes": attributes})
    return write(folder / "traces.json", whole={"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


def table_jsonl(folder: Path, texts: dict[str, str], score: float) -> Path:
    rows = [{"agent": agent, "item": "1", "text": text, "score": score} for agent, text in texts.items()]
    return write(folder / "rows.jsonl", *rows)


def table_json(folder: Path, texts: dict[str, str], score: float) -> Path:
    rows = [
        {"model": agent, "question": f"Q{n}", "response": text, "score": score}
        for agent, text in texts.items()
        for n in range(2)
    ]
    return write(folder / "rows.json", whole=rows)


FORMATS: dict[str, tuple[str, Callable[[Path, dict[str, str], float], Path]]] = {
    "inspect json": ("inspect", inspect_json),
    "inspect eval": ("inspect", inspect_eval),
    "lm-eval": ("lm-eval", lm_eval),
    "helm": ("helm", helm),
    "alpaca-eval": ("alpaca-eval", alpaca_eval),
    "fastchat": ("fastchat", fastchat),
    "promptfoo": ("promptfoo", promptfoo),
    "opentelemetry": ("opentelemetry", opentelemetry),
    "table jsonl": ("table", table_jsonl),
    "table json": ("table", table_json),
}


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("layout", FORMATS)
def test_a_non_numeric_score_keeps_the_response_and_is_counted_once(tmp_path: Path, layout: str, score: float) -> None:
    format_, make = FORMATS[layout]
    imported = load(format_, make(tmp_path / "in", {"a": "one", "b": "two"}, score))
    assert sorted(map(str, cells(imported).values())) == sorted(["one", "two"] * (imported.pool.n_items))
    assert imported.n_dropped == 0
    assert sum("NaN or infinite" in note for note in imported.notes) == 1


@pytest.mark.parametrize("layout", FORMATS)
def test_an_unpaired_surrogate_in_a_text_is_replaced_and_counted_once(tmp_path: Path, layout: str) -> None:
    format_, make = FORMATS[layout]
    imported = load(format_, make(tmp_path / "in", {"a": CUT, "b": "two \U0001f600"}, 1.0))
    assert {*cells(imported).values()} == {REPLACED, "two \U0001f600"}
    n_texts = imported.pool.n_items
    [note] = [note for note in imported.notes if "unpaired surrogate" in note]
    assert note.startswith(f"{n_texts} text")


@pytest.mark.parametrize("layout", FORMATS)
def test_a_valid_file_has_no_note_on_replaced_values(tmp_path: Path, layout: str) -> None:
    format_, make = FORMATS[layout]
    notes = load(format_, make(tmp_path / "in", {"a": "one", "b": "two"}, 1.0)).notes
    assert not [note for note in notes if "NaN" in note or "surrogate" in note]


def test_a_surrogate_encoded_as_bytes_is_replaced(tmp_path: Path) -> None:
    rows = [{"agent": agent, "item": "1", "text": CUT} for agent in "ab"]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    for name, encoding in (("a.jsonl", "utf-8"), ("b.jsonl", "utf-16-le"), ("c.csv", "utf-8")):
        content = text if name.endswith("jsonl") else f"agent,item,text\na,1,{CUT}\nb,1,{CUT}\n"
        mark = "\ufeff" if encoding != "utf-8" else ""
        (tmp_path / name).write_bytes((mark + content).encode(encoding, "surrogatepass"))
        imported = load("table", tmp_path / name)
        assert [*cells(imported).values()] == [REPLACED, REPLACED]
        assert any(note.startswith("2 texts had an unpaired surrogate") for note in imported.notes)


def test_a_nan_value_is_an_empty_response_and_no_id_while_the_word_nan_is_a_text(tmp_path: Path) -> None:
    words = ["nan", "NaN", "NA", "null", "None", "<NA>", "Infinity"]
    rows: list[dict[str, object]] = [
        {"agent": agent, "item": str(n), "text": word} for agent in "ab" for n, word in enumerate(words)
    ]
    rows[0]["text"] = float("nan")
    rows[1]["item"] = float("inf")
    imported = load("table", write(tmp_path / "rows.jsonl", *rows))
    result = cells(imported)
    assert result["a", "0"] == ""
    assert result["a", "1"] is None
    assert [result["b", str(n)] for n in range(len(words))] == words
    assert imported.left_out == {"no item id": 1}


@pytest.mark.parametrize("name", ["deep.jsonl", "deep.json"])
@pytest.mark.parametrize("depth", [300, 1_000, 5_000])
def test_deep_nesting_in_an_imported_file_is_an_error_with_its_location(tmp_path: Path, name: str, depth: int) -> None:
    deep = '{"agent": "a", "item": "1", "text": "t", "meta": ' + "[" * depth + "]" * depth + "}\n"
    (tmp_path / name).write_text(deep, encoding="utf-8")
    with pytest.raises(ImportFormatError, match=name) as caught:
        load("table", tmp_path / name)
    assert caught.value.slug == "import-json"


def frame_of(rows: int = 4) -> pd.DataFrame:
    records = [(f"a{k}", f"i{j}", f"text {k} {j}") for k in range(3) for j in range(rows)]
    return pd.DataFrame(records, columns=["agent", "item", "text"]).assign(prompt="", group="", repeat=1)


DTYPES: dict[str, Callable[[pd.Series], pd.Series]] = {
    "object": lambda column: column.astype(object),
    "nullable": lambda column: column.convert_dtypes(),
    "arrow": lambda column: column.convert_dtypes(dtype_backend="pyarrow"),
    "category": lambda column: column.astype("category"),
}
MISSING = {"None": None, "NaN": float("nan"), "NA": pd.NA, "NaT": pd.NaT}


def with_missing(frame: pd.DataFrame, column: str, dtype: str, value: object) -> pd.DataFrame:
    """Put a missing value into the sixth row of the column."""
    values = DTYPES[dtype](frame[column])
    if dtype == "object":
        values.iloc[5] = value
    else:
        values = values.where(pd.Series(range(len(frame))) != 5)
    return frame.assign(**{column: values})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("missing", MISSING)
def test_a_missing_value_of_pandas_is_the_same_in_every_dtype(dtype: str, missing: str) -> None:
    value = MISSING[missing]
    frame = frame_of()
    pool = read_pool(with_missing(frame, "text", dtype, value))
    assert (pool.n_missing, pool.n_empty, pool.texts[1, 1]) == (0, 1, "")
    pool = read_pool(with_missing(frame, "text", dtype, value), empty="missing")
    assert (pool.n_missing, pool.n_empty, pool.texts[1, 1]) == (1, 0, None)
    for column in ("agent", "item"):
        with pytest.raises(
            PoolError, match=rf"DataFrame, row 6: the {column} id is not a string: got None.*\[pool-id\]"
        ):
            read_pool(with_missing(frame, column, dtype, value))
    complete = read_pool(frame)
    for column in ("prompt", "group", "repeat"):
        pool = read_pool(with_missing(frame, column, dtype, value))
        assert (pool.agents, pool.items, pool.texts.tolist()) == (
            complete.agents,
            complete.items,
            complete.texts.tolist(),
        )


@pytest.mark.parametrize("unit", ["datetime64[ns]", "datetime64[ns, UTC]", "timedelta64[ns]", "period[D]"])
def test_a_missing_time_as_an_id_is_an_error(unit: str) -> None:
    times: Any = pd.Series([0] * 12).astype(
        "timedelta64[ns]" if "time" in unit and "delta" in unit else "datetime64[ns]"
    )
    times = times.astype(unit) if "UTC" not in unit else times.dt.tz_localize("UTC")
    times = times.where(pd.Series(range(12)) != 1)
    with pytest.raises(PoolError, match=r"row 2: the item id is not a string: got None.*\[pool-id\]"):
        read_pool(frame_of().assign(item=times))


def test_words_that_resemble_missing_values_are_texts_and_ids_of_a_data_frame() -> None:
    words = ["nan", "NA", "<NA>", "NaT", "None", "null", ""]
    frame = pd.DataFrame([(a, w or "x", w) for a in "ab" for w in words], columns=["agent", "item", "text"])
    for converted in (frame, frame.convert_dtypes(), frame.astype({"text": "category"})):
        pool = read_pool(converted)
        assert [item.id for item in pool.items] == [word or "x" for word in words]
        assert pool.texts.tolist() == [words, words]


def test_a_null_in_a_parquet_file_is_an_empty_response_or_no_id(tmp_path: Path) -> None:
    frame = frame_of().drop(columns=["prompt", "group", "repeat"]).convert_dtypes()
    frame.loc[1, "text"] = pd.NA
    frame.loc[6, "item"] = pd.NA
    frame.assign(score=[float("nan")] * 12).to_parquet(tmp_path / "t.parquet")
    imported = load("table", tmp_path / "t.parquet")
    assert imported.left_out == {"no item id": 1}
    assert (imported.pool.n_responses, imported.pool.n_empty) == (11, 1)


def test_an_unpaired_surrogate_in_a_pool_is_replaced_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    frame = frame_of().astype(object)
    frame.loc[1, "text"] = CUT
    frame.loc[2, "prompt"] = CUT
    assert read_pool(frame).texts[0, 1] == REPLACED
    assert "2 texts had an unpaired surrogate" in caplog.text
    caplog.clear()
    folder = tmp_path / "pool"
    write(folder / "agents.jsonl", {"id": "a"})
    write(folder / "items.jsonl", {"id": "x", "prompt": CUT})
    write(folder / "responses.jsonl", {"agent": "a", "item": "x", "text": CUT})
    pool = read_pool(folder)
    assert (pool.items[0].prompt, pool.texts[0, 0]) == (REPLACED, REPLACED)
    assert caplog.text.count("1 text had an unpaired surrogate") == 2


def test_an_unpaired_surrogate_in_items_to_respond_to_is_replaced_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = write(tmp_path / "items.jsonl", {"id": "x", "prompt": CUT})
    assert [item.prompt for item in read_items(str(file))] == [REPLACED]
    assert "1 text had an unpaired surrogate" in caplog.text


@pytest.mark.parametrize("depth", [300, 1_000, 5_000])
def test_deep_nesting_in_a_pool_is_an_error_with_its_line(tmp_path: Path, depth: int) -> None:
    (tmp_path / "agents.jsonl").write_text(
        '{"id": "a", "meta": {"m": ' + "[" * depth + "]" * depth + "}}\n", encoding="utf-8"
    )
    write(tmp_path / "items.jsonl", {"id": "x"})
    write(tmp_path / "responses.jsonl", {"agent": "a", "item": "x", "text": "t"})
    with pytest.raises(PoolError, match=r"agents\.jsonl, line 1.*\[pool-json\]"):
        read_pool(tmp_path)


NUMBERS = {
    "from 0": [0, 1, 2],
    "from 1": [1, 2, 3],
    "from 5": [5, 6, 7],
    "with gaps": [0, 10, 9],
    "in any order": [2, 0, 1],
}


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("kind", ["folder", "csv", "parquet", "float parquet", "frame", "float frame", "table"])
def test_repeats_numbered_from_any_start_are_stored_from_1(tmp_path: Path, kind: str, numbers: str) -> None:
    rows = [
        {"agent": agent, "item": item, "text": f"{agent} {item} {n}", "repeat": n}
        for agent in "ab"
        for item in "xy"
        for n in NUMBERS[numbers]
        if (agent, item) != ("b", "y") or n == NUMBERS[numbers][0]
    ]
    frame = pd.DataFrame(rows)
    frame = frame.astype({"repeat": float}) if "float" in kind else frame
    match kind.rsplit(maxsplit=1)[-1]:
        case "folder":
            write(tmp_path / "agents.jsonl", {"id": "a"}, {"id": "b"})
            write(tmp_path / "items.jsonl", {"id": "x"}, {"id": "y"})
            write(tmp_path / "responses.jsonl", *rows)
            pool = read_pool(tmp_path)
        case "csv":
            frame.to_csv(tmp_path / "t.csv", index=False)
            pool = read_pool(tmp_path / "t.csv")
        case "parquet":
            frame.to_parquet(tmp_path / "t.parquet")
            pool = read_pool(tmp_path / "t.parquet")
        case "frame":
            pool = read_pool(frame)
        case _:
            pool = load("table", write(tmp_path / "t.jsonl", *rows)).pool
    first = NUMBERS[numbers][0]
    expected = [
        (agent, item, place, f"{agent} {item} {n}")
        for agent in "ab"
        for item in "xy"
        for place, n in (
            [(None, first)] if (agent, item) == ("b", "y") else list(enumerate(sorted(NUMBERS[numbers]), 1))
        )
    ]
    assert [(agent.id, item.id, n, text) for agent, item, n, text in iter_responses(pool)] == expected


@pytest.mark.parametrize("repeat", [-1, 1.5, "first", True, "-1", "1e3", float("inf")])
def test_a_repeat_that_is_no_integer_is_refused(repeat: Any) -> None:
    frame = frame_of(1).astype({"repeat": object})
    frame.loc[1, "repeat"] = repeat
    with pytest.raises(PoolError, match=r"DataFrame, row 2: the repeat is .*from 0 or 1\. \[pool-repeat\]"):
        read_pool(frame)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_non_finite_number_in_a_text_column_is_an_empty_response(tmp_path: Path, value: float) -> None:
    rows = [{"model": agent, "question": f"Q{n}?", "response": f"{agent} {n}"} for agent in "ab" for n in range(3)]
    write(tmp_path / "t.json", whole=[*rows, {"model": "a", "question": "Q3?", "response": value}])
    imported = load("table", tmp_path / "t.json")
    assert (imported.pool.n_responses, imported.pool.n_empty, imported.left_out) == (7, 1, {})
    frame = pd.DataFrame({"agent": ["a"], "item": ["x"], "text": pd.Series([value], dtype=float)})
    frame.to_parquet(tmp_path / "one.parquet")
    with pytest.raises(ImportFormatError, match="contains no response: all texts are empty"):
        load("table", tmp_path / "one.parquet")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_non_finite_label_in_json_is_an_error(tmp_path: Path, value: float) -> None:
    rows = [{"agent": "a", "accuracy": 0.5}, {"agent": "b", "accuracy": value}]
    with pytest.raises(ImportFormatError, match=r"l\.jsonl, line 2: .*\[labels-value\]"):
        read_labels(write(tmp_path / "l.jsonl", *rows))


def test_an_infinite_label_in_parquet_is_an_error(tmp_path: Path) -> None:
    pd.DataFrame({"agent": ["a", "b"], "accuracy": [0.5, float("inf")]}).to_parquet(tmp_path / "l.parquet")
    with pytest.raises(ImportFormatError, match=r"row 2: .*\[labels-value\]"):
        read_labels(tmp_path / "l.parquet")
