"""Write layouts of other tools as small synthetic files, and state their expected content.

Field names and folder structure are those that the tools write; three agents respond to the same questions in all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from layout_files import (
    FILE_NAMES,
    MODELS,
    QUESTIONS,
    TASKS,
    Layout,
    answer,
    calls,
    file_name,
    per_model,
    write,
    write_csv,
    write_json,
    write_lines,
)
from layouts_of_harnesses import (
    alpaca_eval,
    alpaca_eval_one_file,
    arena_hard,
    fastchat,
    helm,
    inspect_eval,
    inspect_json,
    inspect_json_without_message_ids,
    lighteval,
    lighteval_0_8,
    lm_eval,
    opencompass,
    opencompass_predictions,
    promptfoo_csv,
    promptfoo_json,
    wildbench,
)
from layouts_of_services import (
    anthropic_batch,
    azure_batch_with_errors,
    bedrock_batch,
    chat_completion,
    deepeval,
    gemini_batch,
    langfuse_blob,
    langfuse_csv,
    langfuse_json,
    mlflow_evaluation,
    openai_batch,
    openai_batch_of_responses,
    openai_batch_with_inputs,
    openai_eval_items,
    openai_evals,
    openai_evals_without_models,
    phoenix_csv,
    phoenix_csv_with_chains,
    phoenix_experiments,
    phoenix_parquet,
    ragas_csv,
    vertex_batch,
    vllm_batch,
    vllm_offline,
)

# Plain layouts


def answers_with_configuration(at: Path) -> Layout:
    """One folder per agent, with its configuration, its scores and a description next to the responses."""
    for model, rows in per_model(lambda _m, n, question, text: {"id": n, "question": question, "output": text}).items():
        folder = at / "runs" / file_name(model)
        write_json(folder / "config.json", {"model": model, "temperature": 0.7, "system_prompt": "Be brief and kind."})
        write_lines(folder / "answers.jsonl", rows)
        write_json(
            folder / "results.json", {"results": {"rules": {"accuracy": 0.5, "n": 6}}, "config": {"model": model}}
        )
        write_json(folder / "scores.json", {"accuracy": 0.5, "per_item": {str(n): n % 2 for n in range(6)}})
        write_csv(folder / "metrics.csv", [{"metric": "accuracy", "value": 0.5}, {"metric": "f1", "value": 0.4}])
        write_json(
            folder / "meta.json", [{"name": "rules", "description": "Six questions on rules.", "license": "CC0"}]
        )
    return Layout("runs", agents=FILE_NAMES)


def records_under_a_key(at: Path) -> Layout:
    """One file per agent, which names its model next to the list of responses."""
    for number, (model, rows) in enumerate(
        per_model(lambda _m, n, question, text: {"qid": n, "prompt": question, "completion": text}).items()
    ):
        write_json(at / "outputs" / f"run{number}.json", {"model": model, "created": "2026-08-22", "generations": rows})
    return Layout("outputs")


def records_by_id(at: Path) -> Layout:
    for model, rows in per_model(lambda _m, _n, question, text: {"prompt": question, "response": text}).items():
        write_json(at / "answers" / f"{file_name(model)}.json", {f"q{n}": row for n, row in enumerate(rows)})
    return Layout("answers", agents=FILE_NAMES)


def row_of_task(task: str, _model: str, n: int, question: str, text: str) -> dict[str, object]:
    return {"id": n, "prompt": f"{task}: {question}", "response": text}


def tasks_then_models(at: Path) -> Layout:
    """One folder per task, one file per agent in it."""
    for task in TASKS:
        for model, rows in per_model(partial(row_of_task, task)).items():
            write_lines(at / "answers" / task / f"{file_name(model)}.jsonl", rows)
    return Layout("answers", agents=FILE_NAMES, n_items=2 * len(QUESTIONS), n_prompts=2 * len(QUESTIONS))


def answers_in_a_list(at: Path) -> Layout:
    """One row per item, which lists the answers with their models."""
    rows = [
        {"id": n, "question": question, "answers": [{"model": model, "text": answer(model, n)} for model in MODELS]}
        for n, question in enumerate(QUESTIONS)
    ]
    write_lines(at / "answers.jsonl", rows)
    return Layout("answers.jsonl")


def texts_by_item_and_model(at: Path) -> Layout:
    write_json(
        at / "answers.json", {f"q{n}": {model: answer(model, n) for model in MODELS} for n in range(len(QUESTIONS))}
    )
    return Layout("answers.json", n_prompts=0)


def responses_in_an_object(at: Path) -> Layout:
    """One row per item, with an object of responses by model."""
    rows = [
        {"id": n, "question": question, "responses": {model: answer(model, n) for model in MODELS}}
        for n, question in enumerate(QUESTIONS)
    ]
    write_lines(at / "answers.jsonl", rows)
    return Layout("answers.jsonl")


def questions_in_another_file(at: Path) -> Layout:
    """The questions lie in a file of their own, whose column is called as those of responses may be."""
    write_lines(at / "data" / "questions.jsonl", [{"id": n, "text": question} for n, question in enumerate(QUESTIONS)])
    for model, rows in per_model(lambda _m, n, _q, text: {"id": n, "text": text}).items():
        write_lines(at / "data" / f"{file_name(model)}.jsonl", rows)
    return Layout("data", agents=FILE_NAMES)


def chat_messages(at: Path) -> Layout:
    for model, rows in per_model(
        lambda _m, _n, question, text: {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": question},
                {"role": "assistant", "content": text},
            ]
        }
    ).items():
        write_lines(at / "chats" / f"{file_name(model)}.jsonl", rows)
    return Layout("chats", agents=FILE_NAMES)


def sharegpt(at: Path) -> Layout:
    for model, rows in per_model(
        lambda _m, n, question, text: {
            "id": f"c{n}",
            "conversations": [
                {"from": "system", "value": "Be brief."},
                {"from": "human", "value": question},
                {"from": "gpt", "value": text},
            ],
        }
    ).items():
        write_json(at / "chats" / f"{file_name(model)}.json", rows)
    return Layout("chats", agents=FILE_NAMES)


def ragas_multi_turn(at: Path) -> Layout:
    rows = [
        {
            "model": model,
            "user_input": [{"content": question, "type": "human"}, {"content": text, "type": "ai", "tool_calls": None}],
            "reference": "page",
        }
        for model, _, question, text in calls()
    ]
    write_lines(at / "turns.jsonl", rows)
    return Layout("turns.jsonl")


def batch_of_several_choices(at: Path) -> Layout:
    openai_batch(at)
    for file in (at / "batches").iterdir():
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        for row in rows:
            first = row["response"]["body"]["choices"][0]
            again = {"role": "assistant", "content": first["message"]["content"].replace("says", "says again")}
            row["response"]["body"]["choices"].append({**first, "index": 1, "message": again})
        write_lines(file, rows)
    return Layout("batches", n_prompts=0, n_repeats=2)


def row_numbers_of_shuffled_files(at: Path) -> Layout:
    """Each file has the questions in another order; `index` numbers its rows."""
    for shift, (model, rows) in enumerate(
        per_model(lambda _m, _n, question, text: {"question": question, "response": text}).items()
    ):
        numbered = [{"index": n, **row} for n, row in enumerate([*rows[shift:], *rows[:shift]])]
        write_lines(at / "answers" / f"{file_name(model)}.jsonl", numbered)
    return Layout("answers", agents=FILE_NAMES)


def texts_with_configuration(at: Path) -> Layout:
    for model, n, _, text in calls():
        write(at / "essays" / file_name(model) / f"q{n}.txt", text)
        write_json(at / "essays" / file_name(model) / "config.json", {"model": model, "temperature": 1})
    return Layout("essays", agents=FILE_NAMES, n_prompts=0)


def own_rows_named_like_a_log(at: Path, name: str = "samples_own.jsonl") -> Layout:
    rows = [{"id": n, "model": model, "question": q, "response": text} for model, n, q, text in calls()]
    write(at / name, "\n".join(map(json.dumps, rows)) if name.endswith("l") else json.dumps(rows))
    return Layout(name)


def own_rows_named_like_outputs(at: Path) -> Layout:
    return own_rows_named_like_a_log(at, "model_outputs.json")


LAYOUTS: Mapping[str, Callable[[Path], Layout]] = {
    make.__name__: make
    for make in (
        *(inspect_json, inspect_json_without_message_ids, inspect_eval, lm_eval, lighteval, lighteval_0_8),
        *(opencompass, opencompass_predictions, helm, promptfoo_json, promptfoo_csv),
        *(alpaca_eval, alpaca_eval_one_file, fastchat, arena_hard, wildbench),
        *(deepeval, ragas_csv, langfuse_json, langfuse_csv, langfuse_blob, mlflow_evaluation),
        *(phoenix_csv, phoenix_csv_with_chains, phoenix_parquet, phoenix_experiments),
        *(openai_evals, openai_evals_without_models, openai_eval_items, openai_batch, openai_batch_with_inputs),
        *(openai_batch_of_responses, azure_batch_with_errors, batch_of_several_choices, vllm_batch, vllm_offline),
        *(anthropic_batch, gemini_batch, bedrock_batch, vertex_batch),
        *(answers_with_configuration, texts_with_configuration, questions_in_another_file, records_under_a_key),
        *(records_by_id, tasks_then_models, row_numbers_of_shuffled_files, answers_in_a_list, chat_messages),
        *(sharegpt, ragas_multi_turn),
        *(texts_by_item_and_model, responses_in_an_object, own_rows_named_like_a_log, own_rows_named_like_outputs),
    )
}


# Files that hold no responses, or whose responses cannot be matched between agents


def unique_ids(at: Path) -> str:
    rows = [{"id": f"{model}{n}", "model": model, "output": text} for model, n, _, text in calls()]
    write_lines(at / "rows.jsonl", rows)
    return "rows.jsonl"


def unique_ids_per_file(at: Path) -> str:
    for model, rows in per_model(lambda model, n, _q, text: {"uuid": f"{model}-{n}", "response": text}).items():
        write_lines(at / "answers" / f"{file_name(model)}.jsonl", rows)
    return "answers"


def unique_ids_with_topics(at: Path) -> str:
    rows = [
        {"id": f"{model}{n}", "model": model, "topic": f"t{n % 3}", "output": text} for model, n, _, text in calls()
    ]
    write_lines(at / "rows.jsonl", rows)
    return "rows.jsonl"


def unique_requests(at: Path) -> str:
    """A log of calls whose `custom_id` is unique as well."""
    rows = [
        {
            "id": f"b{model}{n}",
            "custom_id": f"c{model}{n}",
            "response": {"request_id": f"r{model}{n}", "body": chat_completion(model, n, text)},
        }
        for model, n, _, text in calls()
    ]
    write_lines(at / "calls.jsonl", rows)
    return "calls.jsonl"


def no_ids(at: Path) -> str:
    for model, rows in per_model(lambda _model, _n, _q, text: {"response": text}).items():
        write_lines(at / "answers" / f"{file_name(model)}.jsonl", rows)
    return "answers"


def numbers(at: Path) -> str:
    rows = [{"model": model, "question_id": n, "prediction": n * 1.5} for model, n, _, _ in calls()]
    write_lines(at / "rows.jsonl", rows)
    return "rows.jsonl"


def numbers_in_csv(at: Path) -> str:
    write_csv(at / "rows.csv", [{"model": model, "question_id": n, "answer": n + 10} for model, n, _, _ in calls()])
    return "rows.csv"


def booleans(at: Path) -> str:
    rows = [{"model": model, "question_id": n, "output": n % 2 == 0} for model, n, _, _ in calls()]
    write_json(at / "rows.json", rows)
    return "rows.json"


def scores_by_agent(at: Path) -> str:
    write_json(at / "scores.json", {model: {f"q{n}": n / 6 for n in range(6)} for model in MODELS})
    return "scores.json"


def results_of_tasks(at: Path) -> str:
    results = {"rules": {"acc": 0.5, "alias": "rules"}, "laws": {"acc": 0.6, "alias": "laws"}}
    write_json(
        at / "results.json", {"results": results, "config": {"model": "hf", "limit": None}, "versions": {"rules": 1}}
    )
    return "results.json"


def configuration_only(at: Path) -> str:
    for model in MODELS:
        write_json(
            at / "runs" / file_name(model) / "config.json", {"model": model, "system_prompt": "Be brief.", "n": 1}
        )
    return "runs"


def leaderboard(at: Path) -> str:
    write_csv(at / "leaderboard.csv", [{"model": model, "score": 0.5, "rank": 1, "n": 805} for model in MODELS])
    return "leaderboard.csv"


def judgments(at: Path) -> str:
    rows = [
        {"id": f"{model}{n}", "model": model, "judge": "gpt-4", "score": n, "reason": "It is fine."}
        for model, n, _, _ in calls()
    ]
    write_lines(at / "judgments.jsonl", rows)
    return "judgments.jsonl"


def battles(at: Path) -> str:
    """Pairs of responses, whose models are in columns of their own."""
    rows = [
        {
            "id": f"b{a}{b}{n}",
            "model_a": a,
            "model_b": b,
            "question": q,
            "answer_a": answer(a, n),
            "answer_b": answer(b, n),
            "winner": "tie",
        }
        for n, q in enumerate(QUESTIONS)
        for a in MODELS
        for b in MODELS
        if a != b
    ]
    write_lines(at / "battles.jsonl", rows)
    return "battles.jsonl"


def annotations_of_alpaca_eval(at: Path) -> str:
    """Annotations of AlpacaEval: a reference and one model in each row."""
    rows = [
        {
            **{"instruction": question, "output_1": "A reference.", "generator_1": "gpt4_turbo", "output_2": text},
            **{"generator_2": model, "annotator": "weighted", "preference": 1.5, "raw_completion": "m"},
        }
        for model, _, question, text in calls()
    ]
    write_json(at / "annotations.json", rows)
    return "annotations.json"


REFUSED: Mapping[str, Callable[[Path], str]] = {
    make.__name__: make
    for make in (
        *(
            unique_ids,
            unique_ids_with_topics,
            unique_ids_per_file,
            unique_requests,
            no_ids,
            numbers,
            numbers_in_csv,
            booleans,
        ),
        *(
            scores_by_agent,
            results_of_tasks,
            configuration_only,
            leaderboard,
            judgments,
            battles,
            annotations_of_alpaca_eval,
        ),
    )
}
