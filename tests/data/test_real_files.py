"""Test that every response of real files is imported, counted independently in the files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from importer_files import TOOLS, cells, load, tool, write
from youden.data.importers.pool_joiner import ImportedPool
from youden.errors import ImportFormatError

RESULTS = [
    ({"id": "file://says.js", "label": "one"}, 0, 'One, "said"\nof é', None),
    ({"id": "echo", "label": ""}, 0, "Tell of rivers.", 'Expected output to contain "x"'),
    ({"id": "file://says.js", "label": "one"}, 1, "", None),
    ({"id": "echo", "label": ""}, 1, None, "as told"),
]
"""(provider, test, output, error) as promptfoo 0.121 writes them."""
RESULT = "Status,Score,Named Scores,Grader Reason,Comment"
CSV = f'''Description,topic,[one] Tell of {{{{topic}}}}.,{RESULT},[echo] Tell of {{{{topic}}}}.,{RESULT}
,rivers,"One, ""said""
of é",PASS,1.00,,All assertions passed,,Tell of rivers.,FAIL,0.00,,"Expected output to contain ""x""",
described,bread,,PASS,1.00,,No assertions,,,ERROR,0.00,,,
'''


def count(imported: ImportedPool) -> tuple[int, int, int]:
    return imported.pool.n_agents, imported.pool.n_items, int(imported.pool.present.sum())


def test_promptfoo_json_jsonl_and_csv_give_the_same_pool(tmp_path: Path) -> None:
    rows = [
        {
            "provider": provider,
            "testIdx": test,
            "promptIdx": 0,
            "prompt": {"raw": "Tell.", "label": "Tell of {{topic}}."},
            "vars": {"topic": f"t{test}"},
            "error": error,
            "response": {"error": error} if output is None else {"output": output},
        }
        for provider, test, output, error in RESULTS
    ]
    write(tmp_path / "out.json", whole={"evalId": "e", "results": {"version": 3, "prompts": [], "results": rows}})
    write(tmp_path / "out.jsonl", *rows)
    (tmp_path / "out.csv").write_text(CSV, encoding="utf-8")
    complete = load("promptfoo", tmp_path / "out.json")
    assert cells(complete) == {
        ("one", "test-000"): 'One, "said"\nof é',
        ("echo", "test-000"): "Tell of rivers.",
        ("one", "test-001"): "",
        ("echo", "test-001"): None,
    }
    assert complete.left_out == {"the call failed": 1}
    for ending in ("jsonl", "csv"):
        other_format = load("promptfoo", tmp_path / f"out.{ending}")
        assert (cells(other_format), other_format.left_out) == (cells(complete), complete.left_out)


def test_promptfoo_2_rows_without_test_numbers_and_json_answers_are_read(tmp_path: Path) -> None:
    rows = [
        {"provider": {"id": agent}, "vars": {"t": test}, "response": {"output": output}}
        for agent, test, output in (("a", 0, "text"), ("a", 1, {"a": 1}), ("b", 0, "other"))
    ]
    old = load("promptfoo", write(tmp_path / "v2.json", whole={"results": rows}))
    assert cells(old) == {
        ("a", "test-000"): "text",
        ("a", "test-001"): '{"a":1}',
        ("b", "test-000"): "other",
        ("b", "test-001"): None,
    }


def test_a_csv_of_another_tool_is_not_read_as_promptfoo(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("item,agent\ni,a\n", encoding="utf-8")
    with pytest.raises(ImportFormatError, match="promptfoo did not write it") as caught:
        load("promptfoo", tmp_path / "x.csv")
    assert caught.value.slug == "import-format"


def state(folder: Path, model: str, *texts: str, trial: int = 0) -> None:
    """Return a shortened state of HELM for one run."""
    requests = [
        {
            "instance": {"input": {"text": f"Q{n}"}, "id": f"id{n}", "split": "test"},
            "train_trial_index": trial,
            "request": {"model": model, "prompt": f"Answer. Q{n}"},
            "result": {"success": True, "completions": [{"text": text, "logprob": 0}]},
        }
        for n, text in enumerate(texts)
    ]
    write(folder / "scenario_state.json", whole={"adapter_spec": {"model": model}, "request_states": requests})


def test_helm_models_are_agents_and_a_second_suite_gets_its_own_names(tmp_path: Path) -> None:
    for model in ("a", "b"):
        state(tmp_path / "one" / f"mmlu:subject=law,model=x_{model}", f"x/{model}", "said", "more")
    imported = load("helm", tmp_path / "one")
    assert cells(imported)["x/b", "id1"] == "more"
    assert imported.pool.items[0].prompt == "Q0"
    state(tmp_path / "two" / "mmlu:subject=law,model=x_a", "x/a", "otherwise", "more")
    state(tmp_path / "one" / "boolq:model=x_b", "x/b", "true")
    several = load("helm", tmp_path)
    assert {agent.id for agent in several.pool.agents} == {"x/a (one)", "x/a (two)", "x/b"}
    assert cells(several)["x/b", "boolq/id0"] == "true"
    assert several.n_dropped == 0


def test_alpaca_eval_and_mt_bench_are_complete_with_the_names_of_the_leaderboards(shared: Path) -> None:
    results = shared / "alpaca-eval" / "results"
    files = sorted(results.rglob("model_outputs.json"))
    imported = load("alpaca-eval", results)
    assert count(imported) == (len(files), 200, sum(len(json.loads(file.read_bytes())) for file in files))
    leaderboard = (shared / "alpaca-eval" / "leaderboard.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert {agent.id for agent in imported.pool.agents} == {line.split(",")[0] for line in leaderboard}
    assert {agent.id: dict(agent.meta) for agent in imported.pool.agents}["NullModel"] == {"alias": "example"}

    answers = sorted((shared / "mt-bench" / "model_answer").glob("*.jsonl"))
    bench = load("fastchat", shared / "mt-bench")
    rows = [json.loads(line) for file in answers for line in file.read_text(encoding="utf-8").splitlines()]
    assert count(bench) == (len(answers), 160, sum(len(row["choices"][0]["turns"]) for row in rows))
    assert all(item.prompt for item in bench.pool.items)
    assert (imported.left_out, bench.left_out) == ({}, {})


def promptfoo_results(place: Path, *words: str) -> list[dict[str, Any]]:
    """Return the results of an eval by the real promptfoo, in out.json, out.jsonl and out.csv."""
    folder = Path(tool("YOUDEN_PROMPTFOO", "promptfoo"))
    for name in ("promptfooconfig.yaml", "says.js"):
        shutil.copy(TOOLS / "promptfoo" / name, place)
    quiet = {"PROMPTFOO_CONFIG_DIR": str(place / "home")}
    quiet |= {f"PROMPTFOO_DISABLE_{what}": "1" for what in ("TELEMETRY", "UPDATE", "REMOTE_GENERATION")}
    outs = [word for ending in ("json", "jsonl", "csv") for word in ("-o", f"out.{ending}")]
    command = [str(folder), "eval", "--no-cache", "--no-progress-bar", "--no-table", *words, *outs]
    ran = subprocess.run(command, cwd=place, env=os.environ | quiet, capture_output=True, timeout=300, check=False)
    assert (place / "out.csv").is_file(), ran.stderr
    results: list[dict[str, Any]] = json.loads((place / "out.json").read_bytes())["results"]["results"]
    return results


def outputs(results: list[dict[str, Any]]) -> list[str]:
    return [
        output["output"] for result in results if (output := result.get("response") or {}).get("output") is not None
    ]


@pytest.mark.long
def test_real_promptfoo_files_of_three_kinds_give_the_same_pool(tmp_path: Path) -> None:
    results = promptfoo_results(tmp_path)
    answered = len(outputs(results))
    complete = load("promptfoo", tmp_path / "out.json")
    assert count(complete) == (6, 3, answered)
    assert complete.left_out == {"the call failed": 2} == {"the call failed": len(results) - answered}
    for ending in ("jsonl", "csv"):
        assert cells(load("promptfoo", tmp_path / f"out.{ending}")) == cells(complete)


@pytest.mark.long
def test_a_real_promptfoo_eval_with_three_repeats_gives_every_response(tmp_path: Path) -> None:
    output = outputs(promptfoo_results(tmp_path, "--repeat", "3"))
    imported = load("promptfoo", tmp_path / "out.json")
    pool = imported.pool
    result = [text for texts in pool.texts_by_repeat for text in texts.ravel() if text is not None]
    assert sorted(result) == sorted(output)
    assert (count(imported)[:2], pool.n_responses, len(output)) == ((6, 3), 48, 48)
    assert any("48 responses are repeats, all kept: 3 of one agent to one item" in note for note in imported.notes)


@pytest.mark.long
def test_real_helm_runs_are_imported_completely(tmp_path: Path) -> None:
    helm = Path(tool("YOUDEN_HELM_PYTHON", "crfm-helm")).with_name("helm-run")
    shutil.copytree(TOOLS / "helm", tmp_path, dirs_exist_ok=True)
    words = ["--conf-paths", "run_entries.conf", "--local-path", ".", "--suite", "s", "--max-eval-instances", "5"]
    subprocess.run([helm, *words], cwd=tmp_path, check=True, capture_output=True, timeout=300)
    states = list(tmp_path.rglob("scenario_state.json"))
    written = sum(len(json.loads(file.read_bytes())["request_states"]) for file in states)
    imported = load("helm", tmp_path)
    assert {agent.id for agent in imported.pool.agents} == {"simple/model1", "simple/model2"}
    assert count(imported) == (2, 5, written)
