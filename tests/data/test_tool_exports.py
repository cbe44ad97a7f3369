"""Test that `init` reads exports of other tools without options: every response with its agent and prompt."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import Youden
from youden import read_pool
from youden.types.pool import Json

QUESTIONS = [f"What is rule {n} of the house?" for n in range(6)]
MODELS = ("gpt-4o-mini", "claude-haiku", "mistral-small")


def answer(model: str, question: str) -> str:
    return f"{model} says of {question[8:-1]}: it stands on page {QUESTIONS.index(question) + 3}."


def langfuse(model: str, n: int, asked: str, said: str) -> dict[str, Json]:
    return {
        **{"id": f"o{n}{model}", "traceId": f"t{n}{model}", "type": "GENERATION", "name": "answer", "model": model},
        "input": [{"role": "system", "content": "Be short."}, {"role": "user", "content": asked}],
        "output": {"role": "assistant", "content": said},
        "usageDetails": {"input": 12, "output": 20},
    }


def phoenix(model: str, n: int, asked: str, said: str) -> dict[str, Json]:
    return {
        **{"context.span_id": f"{n}{model}", "name": "ChatCompletion", "span_kind": "LLM", "status_code": "OK"},
        **{"attributes.llm.model_name": model, "attributes.input.value": asked, "attributes.output.value": said},
        "attributes.llm.token_count.total": 33,
    }


def deepeval(_model: str, _n: int, asked: str, said: str) -> dict[str, Json]:
    return {"input": asked, "actual_output": said, "expected_output": "Keep it.", "retrieval_context": ["Rule."]}


def ragas(_model: str, _n: int, asked: str, said: str) -> dict[str, Json]:
    return {"user_input": asked, "retrieved_contexts": "['Rule.']", "response": said, "reference": "Keep it."}


def langsmith(model: str, n: int, asked: str, said: str) -> dict[str, Json]:
    return {
        **{"id": f"{n}{model}", "name": "target", "run_type": "chain", "session_name": model},
        **{"inputs": {"question": asked}, "outputs": {"answer": said}, "reference_example_id": f"ex-{n}"},
        "extra": {"metadata": {"ls_model_name": "gpt-4o"}},
    }


def braintrust(model: str, n: int, asked: str, said: str) -> dict[str, Json]:
    return {
        **{"id": f"{n}{model}", "span_id": f"s{n}{model}", "root_span_id": f"r{n}{model}", "expected": "Keep it."},
        **{"input": {"question": asked}, "output": said, "metadata": {"model": model}, "scores": {"Factuality": 0.3}},
    }


def wandb(model: str, _n: int, asked: str, said: str) -> dict[str, Json]:
    return {"model": model, "prompt": asked, "generation": said, "score": 0.5}


def write_json(path: Path, rows: list[dict[str, Json]]) -> None:
    path.write_text(json.dumps(rows), encoding="utf-8")


def write_json_lines(path: Path, rows: list[dict[str, Json]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_csv(path: Path, rows: list[dict[str, Json]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def columns_and_data(path: Path, rows: list[dict[str, Json]]) -> None:
    table = {"columns": list(rows[0]), "data": [list(row.values()) for row in rows]}
    path.write_text(json.dumps(table), encoding="utf-8")


Row = Callable[[str, int, str, str], dict[str, Json]]
Write = Callable[[Path, list[dict[str, Json]]], None]


@pytest.mark.parametrize(
    ("row", "write", "name"),
    [
        (langfuse, write_json, "observations.json"),
        (phoenix, write_csv, "spans.csv"),
        (deepeval, write_json, "{model}.json"),
        (ragas, write_csv, "{model}.csv"),
        (langsmith, write_json_lines, "{model}.jsonl"),
        (braintrust, write_json, "{model}.json"),
        (wandb, columns_and_data, "answers.table.json"),
    ],
    ids=["Langfuse", "Phoenix", "DeepEval", "Ragas", "LangSmith", "Braintrust", "W&B"],
)
def test_an_export_of_each_tool_is_read_as_a_pool(
    youden: Youden, tmp_path: Path, row: Row, write: Write, name: str
) -> None:
    place = tmp_path / "theirs"
    place.mkdir()
    rows = {m: [row(m, n, q, answer(m, q)) for n, q in enumerate(QUESTIONS)] for m in MODELS}
    if "{model}" in name:
        for model in MODELS:
            write(place / name.format(model=model), rows[model])
    else:
        write(place / name, [entry for model in MODELS for entry in rows[model]])
    assert youden("init", "theirs" if "{model}" in name else f"theirs/{name}", "--out", "c.yaml").code == 0
    (config,) = [line for line in (tmp_path / "c.yaml").read_text("utf-8").splitlines() if line.startswith("pool:")]
    pool = read_pool(tmp_path / config.split(":", 1)[1].strip().strip("'\""))
    result = {
        (agent.id, item.prompt): text
        for agent, texts in zip(pool.agents, pool.texts, strict=True)
        for item, text in zip(pool.items, texts, strict=True)
    }
    assert result == {(model, question): answer(model, question) for model in MODELS for question in QUESTIONS}
