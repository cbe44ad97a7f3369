"""Test that imports distinguish agents, and refuse to lose responses silently."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from commands import Youden
from importer_files import cells, load, write
from youden import read_pool
from youden.data.importers.pool_joiner import ImportedPool
from youden.data.importers.table_import import read_table
from youden.data.pools.pool_reader import iter_responses
from youden.errors import ImportFormatError
from youden.pools.pool_import import import_pool

T1, T2 = "2026-01-02T03-04-05.678901", "2026-01-03T03-04-05.678901"


def samples(folder: Path, *, said: str, task: str = "gsm", time: str = T1, model: str = "acme/m", n: int = 2) -> None:
    """Write the samples of lm-eval for one task of one run."""
    rows = [
        {"doc_id": i, "arguments": {"gen_args_0": {"arg_0": f"Q{i}"}}, "resps": [[f"{said} {i}"]], "filter": "none"}
        for i in range(n)
    ]
    write(folder / "acme__m" / f"samples_{task}_{time}.jsonl", *rows)
    write(folder / "acme__m" / f"results_{time}.json", whole={"model_name": model})


def test_lm_eval_agents_of_one_model_are_named_by_shortest_unique_path_then_by_time(tmp_path: Path) -> None:
    for out in ("plain", "adapter", "old/hot", "new/hot"):
        samples(tmp_path / out, said=out)
    samples(tmp_path / "plain", said="again", time=T2)
    imported = load("lm-eval", tmp_path)
    names = {agent.id for agent in imported.pool.agents}
    assert names == {
        f"acme/m (plain, {T1})",
        f"acme/m (plain, {T2})",
        "acme/m (adapter)",
        "acme/m (old/hot)",
        "acme/m (new/hot)",
    }
    assert imported.left_out == {}
    assert cells(imported)[f"acme/m (plain, {T2})", "0"] == "again 0"


def test_lm_eval_tasks_of_one_folder_at_two_times_are_one_agent(tmp_path: Path) -> None:
    samples(tmp_path / "out", said="one", task="gsm")
    samples(tmp_path / "out", said="two", task="mmlu", time=T2)
    imported = load("lm-eval", tmp_path)
    assert [agent.id for agent in imported.pool.agents] == ["acme/m"]
    assert cells(imported)["acme/m", "mmlu/1"] == "two 1"


def repeats(imported: ImportedPool) -> list[tuple[str, str, int | None, str]]:
    return [(agent.id, item.id, repeat, text) for agent, item, repeat, text in iter_responses(imported.pool)]


def test_lm_eval_repeats_are_all_kept_even_if_equal(tmp_path: Path) -> None:
    file = tmp_path / f"samples_gsm_{T1}.jsonl"
    write(file, {"doc_id": 0, "resps": [["a", "b", "b", "c"]], "filter": "none"})
    imported = load("lm-eval", tmp_path)
    assert [row[2:] for row in repeats(imported)] == [(1, "a"), (2, "b"), (3, "b"), (4, "c")]
    assert (imported.n_dropped, imported.pool.n_responses) == (0, 4)
    assert "4 responses are repeats, all kept: 4 of one agent to one item" in imported.notes


@pytest.mark.parametrize("column", ["repeat", "sample", "epoch", "trial", "attempt", "seed"])
def test_a_repeat_column_of_a_table_keeps_every_response(tmp_path: Path, youden: Youden, column: str) -> None:
    rows = [
        {"agent": a, "item": i, "text": f"{a}{i}{n}", column: n} for n in (10, 9, 2) for a in "ab" for i in ("x", "y")
    ]
    write(tmp_path / "t.jsonl", *rows)
    imported = load("table", tmp_path / "t.jsonl")
    assert repeats(imported)[:3] == [("a", "x", 1, "ax2"), ("a", "x", 2, "ax9"), ("a", "x", 3, "ax10")]
    output = youden("import", "table", "t.jsonl", "--out", "pool")
    assert "12 responses are repeats, all kept: 3 of one agent to one item" in output.out + output.err
    assert read_pool(tmp_path / "pool").digest == imported.pool.digest


def test_rows_with_equal_agent_and_item_are_repeats_if_the_option_is_set(tmp_path: Path) -> None:
    file = write(tmp_path / "t.jsonl", *({"agent": "a", "prompt": "Say.", "text": text} for text in "xyx"))
    assert load("table", file).pool.n_items == 2
    assert repeats(load("table", file, repeat="rows")) == [
        ("a", "item-0000", 1, "x"),
        ("a", "item-0000", 2, "y"),
        ("a", "item-0000", 3, "x"),
    ]


def test_promptfoo_tests_with_equal_variables_are_repeats(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"provider": name, "testIdx": 3 * test + n, "vars": {"q": test}, "response": {"output": f"{name}{test}{n}"}}
        for name in ("p", "q")
        for test in (0, 1)
        for n in range(3)
    ]
    imported = load("promptfoo", write(tmp_path / "out.json", whole={"results": {"results": rows}}))
    assert [item.id for item in imported.pool.items] == ["test-000", "test-003"]
    assert [text for *_, text in repeats(imported)] == [row["response"]["output"] for row in rows]
    assert imported.n_dropped == 0


@pytest.mark.parametrize(
    ("variables", "prompt"),
    [({"q": "Why?"}, "Why?"), ({"q": "Why?", "n": 2, "to": "Ada"}, "q: Why?\nto: Ada"), ({"n": 2}, None)],
)
def test_promptfoo_tests_of_several_prompts_have_their_variables_as_prompt(
    tmp_path: Path, variables: dict[str, object], prompt: str | None
) -> None:
    rows = [
        {"provider": "p", "testIdx": 0, "vars": variables, "prompt": {"raw": f"{label} Why?", "label": label}}
        | {"response": {"output": label}}
        for label in ("short", "polite")
    ]
    imported = load("promptfoo", write(tmp_path / "out.json", whole={"results": {"results": rows}}))
    assert [agent.id for agent in imported.pool.agents] == ["p · short", "p · polite"]
    assert [item.prompt for item in imported.pool.items] == [prompt]


def test_losing_too_many_responses_is_an_error_that_names_them(youden: Youden, tmp_path: Path) -> None:
    rows = [{"agent": "a", "item": f"i{n}", "text": f"{n}"} for n in range(200)]
    again = [{"agent": "b", "item": "x", "text": str(n)} for n in range(3)]
    write(tmp_path / "few.jsonl", *rows, *again)
    assert import_pool("table", [tmp_path / "few.jsonl"], tmp_path / "pool").n_dropped == 2
    write(tmp_path / "many.jsonl", *rows[:10], *again)
    refused = youden("import", "table", "many.jsonl", "--out", "lossy")
    assert refused.code == 2
    assert "2 of 13 responses would be dropped (15%; the limit is 1%)" in refused.err
    assert "2 a second response of the same agent to the same item ('b' 2; first: many.jsonl, line 12)" in refused.err
    assert "[import-dropped]" in refused.err
    assert not (tmp_path / "lossy").exists()
    gone_on = youden("import", "table", "many.jsonl", "--out", "lossy", "--allow-dropped", "--json")
    assert json.loads(gone_on.out)["dropped"] == 2


def test_a_duplicated_response_and_an_empty_one_do_not_count_as_lost(tmp_path: Path) -> None:
    row = {"agent": "a", "item": "i", "text": "said"}
    imported = load(
        "table", write(tmp_path / "x.jsonl", row, row, row | {"item": "j", "text": None}, row | {"text": None})
    )
    assert (imported.n_dropped, imported.left_out) == (
        0,
        {
            "a repetition of an earlier response": 1,
            "an empty text of an agent that has another response to the same item": 1,
        },
    )
    assert imported.pool.texts.tolist() == [["said", ""]]


@pytest.mark.parametrize(
    ("one", "two", "noun"),
    [
        ({"agent": "a", "item": "Q 1"}, {"agent": "b", "item": "q1 "}, "items"),
        ({"agent": "GPT-4", "item": "x"}, {"agent": "gpt-4", "item": "y"}, "agents"),
        ({"agent": "a", "item": "caf\u00e9"}, {"agent": "b", "item": "cafe\u0301"}, "items"),
    ],
)
def test_ids_that_differ_only_by_spaces_or_case_are_refused(
    tmp_path: Path, one: dict[str, str], two: dict[str, str], noun: str
) -> None:
    file = write(tmp_path / "x.jsonl", one | {"text": "s"}, two | {"text": "t"})
    with pytest.raises(ImportFormatError, match=f"The {noun} .* differ only by spaces or case") as caught:
        load("table", file)
    assert caught.value.slug == "import-alike"


def test_similar_ids_with_responses_of_one_agent_are_two_items_and_noted(tmp_path: Path) -> None:
    rows = [{"agent": "a", "item": item, "text": item} for item in ("x", "X")]
    imported = load("table", write(tmp_path / "x.jsonl", *rows))
    assert imported.pool.n_items == 2
    assert "The items 'x', 'X' differ only by spaces or case, and were imported as different items" in imported.notes


def test_files_of_one_name_in_two_folders_are_two_agents(tmp_path: Path) -> None:
    for name in ("gpt-3.5", "gpt-4.1"):
        write(tmp_path / name / "out.jsonl", {"item": "i", "text": name})
    assert cells(load("table", tmp_path)) == {("gpt-3.5", "i"): "gpt-3.5", ("gpt-4.1", "i"): "gpt-4.1"}


def alpaca(file: Path, *generators: str) -> Path:
    return write(
        file,
        whole=[{"instruction": "Sing.", "output": f"{generator}!", "generator": generator} for generator in generators],
    )


def test_alpaca_eval_agents_are_named_by_folder_and_generators_are_aliases(tmp_path: Path) -> None:
    alpaca(tmp_path / "results" / "NullModel" / "model_outputs.json", "example")
    alpaca(tmp_path / "results" / "gpt4" / "model_outputs.json", "gpt4")
    rows = [{"instruction": ask, "output": ask, "generator": f"v{n}"} for n, ask in enumerate(("Sing.", "Dance."))]
    write(tmp_path / "results" / "mixed" / "model_outputs.json", whole=rows)
    imported = load("alpaca-eval", tmp_path)
    assert {agent.id: dict(agent.meta) for agent in imported.pool.agents} == {
        "NullModel": {"alias": "example"},
        "gpt4": {},
        "mixed": {},
    }
    alone = load("alpaca-eval", tmp_path / "results" / "NullModel" / "model_outputs.json")
    assert [agent.id for agent in alone.pool.agents] == ["NullModel"]


def test_alpaca_eval_files_of_one_folder_are_agents_by_generator(tmp_path: Path) -> None:
    alpaca(tmp_path / "mine" / "model_outputs.json", "one", "two")
    assert {agent.id for agent in load("alpaca-eval", tmp_path).pool.agents} == {"one", "two"}
    alpaca(tmp_path / "other" / "model_outputs.json", "m")
    alpaca(tmp_path / "other" / "model_outputs_hot.json", "m")
    names = {agent.id for agent in load("alpaca-eval", tmp_path / "other").pool.agents}
    assert names == {"m (model_outputs)", "m (model_outputs_hot)"}


def test_fastchat_finds_questions_in_parent_folders_and_skips_judgments(tmp_path: Path) -> None:
    bench = tmp_path / "mt_bench"
    write(bench / "question.jsonl", {"question_id": 81, "turns": ["Write."]})
    for name in ("vicuna", "gpt"):
        row = {"question_id": 81, "model_id": name, "choices": [{"turns": [f"{name} wrote"]}, {"turns": ["other"]}]}
        write(bench / "model_answer" / name / "results.jsonl", row)
    write(bench / "reference_answer" / "gpt-4.jsonl", row | {"model_id": "gpt-4"})
    write(bench / "model_judgment" / "gpt-4_single.jsonl", {"question_id": 81, "model": "vicuna", "score": 9})
    imported = load("fastchat", bench)
    assert cells(imported) == {("vicuna", "81"): "vicuna wrote", ("gpt", "81"): "gpt wrote"}
    assert imported.pool.items[0].prompt == "Write."
    assert any("2 files of reference_answer or model_judgment not read" in note for note in imported.notes)
    assert imported.n_dropped == 0
    assert [text for *_, text in repeats(imported)] == ["gpt wrote", "other", "vicuna wrote", "other"]
    reference = load("fastchat", bench / "reference_answer")
    assert [agent.id for agent in reference.pool.agents] == ["gpt-4"]


def test_fastchat_answers_without_a_model_belong_to_their_folder(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / "model_answer" / name / "results.jsonl", {"question_id": 1, "choices": [{"turns": [name]}]})
    assert {agent.id for agent in load("fastchat", tmp_path).pool.agents} == {"a", "b"}


def test_inspect_epochs_are_kept_in_their_order(tmp_path: Path) -> None:
    def sample(epoch: int) -> dict[str, object]:
        output = {"choices": [{"message": {"role": "assistant", "content": f"said {epoch}"}}]}
        return {"id": "s", "epoch": epoch, "input": "Say.", "output": output}

    log = {"status": "success", "eval": {"model": "m", "task": "t"}, "samples": [sample(1), sample(3), sample(2)]}
    imported = load("inspect", write(tmp_path / "log.json", whole=log))
    assert cells(imported) == {("m", "s"): "said 1"}
    assert repeats(imported) == [("m", "s", n, f"said {n}") for n in (1, 2, 3)]
    assert imported.n_dropped == 0


def test_a_failed_sample_is_omitted_with_the_message_of_the_tool(tmp_path: Path) -> None:
    good = {"id": 1, "epoch": 1, "input": "Say.", "output": {"choices": [{"message": {"content": "said"}}]}}
    bad = {"id": 2, "epoch": 1, "input": "Say.", "error": {"message": "RateLimitError: 429, slow down\nTraceback"}}
    log = {"status": "success", "eval": {"model": "m", "task": "t"}, "samples": [good, bad]}
    imported = load("inspect", write(tmp_path / "log.json", whole=log))
    assert imported.left_out == {"the sample failed": 1}
    assert any("sample 2: RateLimitError: 429, slow down)" in note for note in imported.notes)
    rows = [
        {"provider": "p", "testIdx": 0, "response": {"output": "said"}},
        {"provider": "p", "testIdx": 1, "error": "timeout after 30 s"},
    ]
    promptfoo = load("promptfoo", write(tmp_path / "results.json", whole={"results": {"results": rows}}))
    assert any("timeout after 30 s" in note for note in promptfoo.notes)


def test_repeats_of_an_item_with_the_id_0_are_kept(tmp_path: Path) -> None:
    rows = [
        {"model": agent, "id": item, "response": f"{agent} says {item}, number {number}"}
        for agent in "abc"
        for item in range(6)
        for number in range(2 if item < 2 else 1)
    ]
    imported = load("table", write(tmp_path / "t.jsonl", *rows))
    assert (imported.pool.n_responses, imported.n_dropped) == (len(rows), 0)


def test_agents_with_long_numbers_as_names_are_different(tmp_path: Path) -> None:
    rows = [
        {"model": 20240501.0 + agent, "question": f"What is {item}?", "response": f"{agent} says {item}"}
        for agent in range(3)
        for item in range(4)
    ]
    pd.DataFrame(rows).to_parquet(tmp_path / "t.parquet")
    imported = load("table", tmp_path / "t.parquet")
    assert [agent.id for agent in imported.pool.agents] == ["20240501", "20240502", "20240503"]


def test_a_prompt_that_only_one_spelling_of_an_item_has_is_kept(tmp_path: Path) -> None:
    rows = [{"model": "gpt", "id": f"Q{n}", "response": f"gpt says {n}"} for n in range(4)]
    for agent in ("llama", "claude"):
        rows += [
            {"model": agent, "id": f"q{n}", "response": f"{agent} says {n}", "question": f"What is {n}?"}
            for n in range(4)
        ]
    pool = read_table([write(tmp_path / "x.jsonl", *rows)], columns={}, exact=False).pool
    assert [(item.id, item.prompt) for item in pool.items] == [(f"Q{n}", f"What is {n}?") for n in range(4)]
