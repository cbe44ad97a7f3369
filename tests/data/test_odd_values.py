"""Values that tools write and strict readers refuse: NaN and infinities, unpaired surrogates, missing values of pandas."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

from importing import cells, load, write
from youden.errors import ImportFormatError

CUT = "an emoji cut in two \ud83d"
REPLACED = "an emoji cut in two \ufffd"


def inspect_log(model: str, *, text: str, score: float) -> dict[str, object]:
    """One sample; its score is what Inspect writes as NaN if a sample has none."""
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
            {"key": f"gen_ai.{side}.messages", "value": {"stringValue": said}} for side, said in messages.items()
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
def test_a_score_that_is_no_number_costs_no_response_and_is_counted_once(
    tmp_path: Path, layout: str, score: float
) -> None:
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
def test_a_strict_file_has_no_note_on_replaced_values(tmp_path: Path, layout: str) -> None:
    format_, make = FORMATS[layout]
    notes = load(format_, make(tmp_path / "in", {"a": "one", "b": "two"}, 1.0)).notes
    assert not [note for note in notes if "NaN" in note or "surrogate" in note]


def test_a_surrogate_written_as_bytes_is_replaced_too(tmp_path: Path) -> None:
    rows = [{"agent": agent, "item": "1", "text": CUT} for agent in "ab"]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    for name, encoding in (("a.jsonl", "utf-8"), ("b.jsonl", "utf-16-le"), ("c.csv", "utf-8")):
        content = text if name.endswith("jsonl") else f"agent,item,text\na,1,{CUT}\nb,1,{CUT}\n"
        mark = "\ufeff" if encoding != "utf-8" else ""
        (tmp_path / name).write_bytes((mark + content).encode(encoding, "surrogatepass"))
        imported = load("table", tmp_path / name)
        assert [*cells(imported).values()] == [REPLACED, REPLACED]
        assert any(note.startswith("2 texts had an unpaired surrogate") for note in imported.notes)


def test_nan_is_no_response_and_no_id_while_the_word_nan_is_a_text(tmp_path: Path) -> None:
    words = ["nan", "NaN", "NA", "null", "None", "<NA>", "Infinity"]
    rows = [{"agent": agent, "item": str(n), "text": word} for agent in "ab" for n, word in enumerate(words)]
    rows[0]["text"] = float("nan")  # type: ignore[assignment]
    rows[1]["item"] = float("inf")  # type: ignore[assignment]
    imported = load("table", write(tmp_path / "rows.jsonl", *rows))
    found = cells(imported)
    assert found["a", "0"] is None
    assert found["a", "1"] is None
    assert [found["b", str(n)] for n in range(len(words))] == words
    assert imported.left_out == {"no text (null)": 1, "no item id": 1}


@pytest.mark.parametrize("name", ["deep.jsonl", "deep.json"])
@pytest.mark.parametrize("depth", [300, 1_000, 5_000])
def test_deep_nesting_in_an_imported_file_is_named_with_its_place(tmp_path: Path, name: str, depth: int) -> None:
    deep = '{"agent": "a", "item": "1", "text": "t", "meta": ' + "[" * depth + "]" * depth + "}\n"
    (tmp_path / name).write_text(deep, encoding="utf-8")
    with pytest.raises(ImportFormatError, match=name) as caught:
        load("table", tmp_path / name)
    assert caught.value.slug == "import-json"
