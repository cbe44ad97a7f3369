"""Write small files in the current layouts of evaluation harnesses and chat benchmarks."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from zipfile import ZipFile

from layout_files import (
    FILE_NAMES,
    MODELS,
    QUESTIONS,
    TASKS,
    Layout,
    Row,
    answer,
    calls,
    file_name,
    per_model,
    write,
    write_json,
    write_lines,
    write_parquet,
)

# Evaluation harnesses


def _inspect_log(model: str, *, ids: bool) -> tuple[Row, list[Row]]:
    def message(role: str, content: str, source: str, name: str) -> Row:
        return {**({"id": f"{model}-{name}"} if ids else {}), "role": role, "content": content, "source": source}

    samples = []
    for n, question in enumerate(QUESTIONS):
        asked = message("user", question, "input", f"q{n}")
        output = {**message("assistant", answer(model, n), "generate", f"a{n}"), "model": model}
        samples.append(
            {
                **{"id": f"s{n}", "epoch": 1, "input": [asked], "target": "page", "messages": [asked, output]},
                "output": {
                    "model": model,
                    "choices": [{"message": output, "stop_reason": "stop"}],
                    "completion": output["content"],
                },
                "scores": {"includes": {"value": "C", "answer": output["content"], "explanation": "found"}},
                **{
                    "metadata": {},
                    "store": {},
                    "events": [],
                    "model_usage": {},
                    "attachments": {},
                    "uuid": f"{model}{n}",
                },
            }
        )
    header: Row = {
        **{"version": 2, "status": "success"},
        "eval": {
            "eval_id": f"e-{model}",
            "run_id": "r",
            "created": "2026-08-22T10:10:10+00:00",
            "task": "rules",
            "model": model,
        },
        "plan": {"name": "plan", "steps": [{"solver": "generate", "params": {}}], "config": {}},
        "results": {"total_samples": 6, "completed_samples": 6, "scores": []},
        "stats": {"started_at": "2026-08-22T10:10:10+00:00", "completed_at": "2026-08-22T10:11:10+00:00"},
    }
    return header, samples


def inspect_json(at: Path, *, ids: bool = True) -> Layout:
    for model in MODELS:
        header, samples = _inspect_log(model, ids=ids)
        write_json(
            at / "logs" / f"2026-08-22T10-10-10+00-00_rules_{file_name(model)}.json", {**header, "samples": samples}
        )
    write_json(at / "logs" / "logs.json", {name.name: {"status": "success"} for name in (at / "logs").iterdir()})
    return Layout("logs", "inspect")


def inspect_json_without_message_ids(at: Path) -> Layout:
    return inspect_json(at, ids=False)


def inspect_eval(at: Path) -> Layout:
    (at / "logs").mkdir()
    for model in MODELS:
        header, samples = _inspect_log(model, ids=True)
        with ZipFile(at / "logs" / f"2026-08-22T10-10-10+00-00_rules_{file_name(model)}.eval", "w") as archive:
            archive.writestr("header.json", json.dumps(header))
            for sample in samples:
                archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
    return Layout("logs", "inspect")


def lm_eval(at: Path) -> Layout:
    for model, rows in per_model(
        lambda _model, n, question, text: {
            **{"doc_id": n, "doc": {"question": question, "answer": "page"}, "target": "page"},
            "arguments": {"gen_args_0": {"arg_0": question, "arg_1": {"until": ["\n\n"], "do_sample": False}}},
            **{"resps": [[text]], "filtered_resps": ["page"], "filter": "strict-match", "metrics": ["exact_match"]},
            **{"doc_hash": f"d{n}", "prompt_hash": f"p{n}", "target_hash": f"t{n}", "exact_match": 0.0},
        }
    ).items():
        folder = at / "out" / file_name(model)
        write_lines(folder / "samples_rules_2026-08-22T10-10-10.123456.jsonl", rows)
        results = {"results": {"rules": {"alias": "rules", "exact_match,strict-match": 0.5}}, "model_name": model}
        write_json(folder / "results_2026-08-22T10-10-10.123456.json", {**results, "config": {"model": "hf"}})
    return Layout("out", "lm-eval")


def lighteval(at: Path) -> Layout:
    for model in MODELS:
        when = f"2026-05-05T17-54-2{MODELS.index(model)}.123456"
        for task in TASKS:
            rows = [
                {
                    "doc": {
                        **{
                            "query": f"{task}: {question}",
                            "choices": ["page"],
                            "gold_index": 0,
                            "instruction": "Be brief.",
                        },
                        **{"specific": None, "id": str(n), "task_name": f"{task}|0", "fewshot_samples": []},
                        **{"sampling_methods": ["GENERATIVE"], "generation_size": 256, "num_samples": 1},
                    },
                    "model_response": {
                        **{"input": f"<|user|>{task}: {question}", "input_tokens": [1, 2], "text": [answer(model, n)]},
                        **{
                            "output_tokens": [[3, 4]],
                            "text_post_processed": None,
                            "reasonings": [None],
                            "logprobs": [-0.5],
                        },
                    },
                    "metric": {"extractive_match": 1.0},
                }
                for n, question in enumerate(QUESTIONS)
            ]
            write_parquet(at / "evals" / "details" / model / when / f"details_{task}|0_{when}.parquet", rows)
        write_json(
            at / "evals" / "results" / model / f"results_{when}.json",
            {
                "config_general": {"lighteval_sha": "abc", "model_config": {"model_name": model, "dtype": "bfloat16"}},
                "results": {"gsm8k|0": {"extractive_match": 1.0}, "all": {"extractive_match": 1.0}},
                "versions": {"gsm8k|0": 0},
            },
        )
    return Layout("evals", agents=("alpha-7b", *MODELS[1:]), n_items=2 * len(QUESTIONS), n_prompts=2 * len(QUESTIONS))


def opencompass(at: Path, *, at_predictions: bool = False) -> Layout:
    run = at / "outputs" / "default" / "20260819_121541"
    for model in MODELS:
        name = file_name(model)
        for task in TASKS:
            predictions = {
                str(n): {
                    "origin_prompt": [{"role": "HUMAN", "prompt": f"{task}: {question}"}],
                    **{"prediction": answer(model, n), "gold": "page", "res_length": 12, "all_input_length": 20},
                }
                for n, question in enumerate(QUESTIONS)
            }
            write_json(run / "predictions" / name / f"{task}.json", predictions)
            details = {str(n): {"pred": "page", "answer": "page", "correct": True} for n in range(len(QUESTIONS))}
            write_json(run / "results" / name / f"{task}.json", {"accuracy": 50.0, "details": details})
    scores = "dataset,version,metric,mode," + ",".join(FILE_NAMES) + "\ngsm8k,1d7fe4,accuracy,gen,50.00,51.00,52.00\n"
    write(run / "summary" / "summary_20260819_121541.csv", scores)
    write(run / "summary" / "summary_20260819_121541.txt", scores)
    write(run / "configs" / "20260819_121541_1.py", "models = []\n")
    place = run / "predictions" if at_predictions else run
    return Layout(
        str(place.relative_to(at)), agents=FILE_NAMES, n_items=2 * len(QUESTIONS), n_prompts=2 * len(QUESTIONS)
    )


def opencompass_predictions(at: Path) -> Layout:
    return opencompass(at, at_predictions=True)


def helm(at: Path) -> Layout:
    runs = at / "benchmark_output" / "runs" / "v1"
    specs = []
    for model in MODELS:
        run = f"mmlu:subject=law,model={model.replace('/', '_')}"
        states = [
            {
                "instance": {"input": {"text": question}, "references": [], "split": "test", "id": f"id{n}"},
                "train_trial_index": 0,
                "request": {"model": model, "prompt": question, "temperature": 0.0},
                "result": {
                    "success": True,
                    "cached": False,
                    "completions": [{"text": answer(model, n), "logprob": -1.0}],
                },
            }
            for n, question in enumerate(QUESTIONS)
        ]
        adapter = {"method": "generation", "model": model, "model_deployment": model}
        write_json(runs / run / "scenario_state.json", {"adapter_spec": adapter, "request_states": states})
        specs.append({"name": run, "adapter_spec": adapter})
        write_json(runs / run / "run_spec.json", specs[-1])
        write_json(runs / run / "stats.json", [{"name": {"name": "exact_match"}, "count": 1, "mean": 0.5}])
        write_json(runs / run / "per_instance_stats.json", [{"instance_id": "id0", "stats": []}])
    write_json(runs / "run_specs.json", specs)
    return Layout("benchmark_output", "helm")


def promptfoo_json(at: Path) -> Layout:
    results = [
        {
            **{"id": f"r{model}{n}", "promptIdx": 0, "testIdx": n, "testCase": {"vars": {"question": question}}},
            **{
                "promptId": "p",
                "provider": {"id": model, "label": ""},
                "prompt": {"raw": question, "label": "{{question}}"},
            },
            **{
                "vars": {"question": question},
                "response": {"output": text, "tokenUsage": {"total": 9}},
                "success": True,
            },
            **{"score": 1, "latencyMs": 10, "cost": 0.1, "namedScores": {}, "metadata": {}, "failureReason": 0},
        }
        for model, n, question, text in calls()
    ]
    prompts = [
        {"raw": "{{question}}", "label": "{{question}}", "provider": model, "metrics": {"score": 6}} for model in MODELS
    ]
    write_json(
        at / "results.json",
        {
            "evalId": "eval-abc-2026-08-22T10:10:10",
            "results": {
                "version": 3,
                "timestamp": "2026-08-22T10:10:10Z",
                "prompts": prompts,
                "results": results,
                "stats": {},
            },
            **{"config": {"description": "d", "providers": list(MODELS)}, "shareableUrl": None, "metadata": {}},
        },
    )
    return Layout("results.json", "promptfoo")


def promptfoo_csv(at: Path) -> Layout:
    columns = ("Status", "Score", "Named Scores", "Grader Reason", "Comment")
    header = ["question", *(name for model in MODELS for name in (f"[{model}] {{{{question}}}}", *columns))]
    rows = [
        [question, *(cell for model in MODELS for cell in (answer(model, n), "PASS", "1.00", "{}", "", ""))]
        for n, question in enumerate(QUESTIONS)
    ]
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows([header, *rows])
    write(at / "results.csv", buffer.getvalue())
    return Layout("results.csv", "promptfoo", n_prompts=0)


# Chat benchmarks


def alpaca_eval(at: Path) -> Layout:
    for model, rows in per_model(
        lambda model, _n, question, text: {
            **{"dataset": "helpful_base", "instruction": question, "output": text, "generator": model},
            **{"datasplit": "eval"},
        }
    ).items():
        folder = at / "results" / file_name(model)
        write_json(folder / "model_outputs.json", rows)
        annotations = [
            {
                **{"instruction": row["instruction"], "output_1": "reference", "generator_1": "gpt4_turbo"},
                **{"output_2": row["output"], "generator_2": model, "preference": 1.3, "annotator": "weighted"},
            }
            for row in rows
        ]
        write_json(folder / "weighted_alpaca_eval_gpt4_turbo" / "annotations.json", annotations)
    return Layout("results", "alpaca-eval", agents=FILE_NAMES)


def alpaca_eval_one_file(at: Path) -> Layout:
    rows = [{"instruction": question, "output": text, "generator": model} for model, _, question, text in calls()]
    write_json(at / "model_outputs.json", rows)
    return Layout("model_outputs.json", "alpaca-eval")


def fastchat(at: Path) -> Layout:
    data = at / "data" / "mt_bench"
    write_lines(
        data / "question.jsonl",
        [{"question_id": 81 + n, "category": "rules", "turns": [question]} for n, question in enumerate(QUESTIONS)],
    )
    for model, rows in per_model(
        lambda model, n, _question, text: {
            **{"question_id": 81 + n, "answer_id": f"a{n}{model}", "model_id": model},
            **{"choices": [{"index": 0, "turns": [text]}], "tstamp": 1.5},
        }
    ).items():
        write_lines(data / "model_answer" / f"{file_name(model)}.jsonl", rows)
    judgments = [{"question_id": 81, "model": "gamma", "judge": ["gpt-4", "single"], "judgment": "Fine.", "score": 8}]
    write_lines(data / "model_judgment" / "gpt-4_single.jsonl", judgments)
    return Layout("data", "fastchat")


def arena_hard(at: Path) -> Layout:
    data = at / "data" / "arena-hard-v2.0"
    questions = [{"uid": f"u{n}", "category": "hard_prompt", "prompt": q} for n, q in enumerate(QUESTIONS)]
    write_lines(data / "question.jsonl", questions)
    for model, rows in per_model(
        lambda model, n, question, text: {
            **{"uid": f"u{n}", "ans_id": f"a{n}{model}", "model": model},
            "messages": [{"role": "user", "content": question}, {"role": "assistant", "content": {"answer": text}}],
            **{"tstamp": 1.5, "metadata": {"token_len": 9}},
        }
    ).items():
        write_lines(data / "model_answer" / f"{file_name(model)}.jsonl", rows)
    return Layout("data", "fastchat")


def wildbench(at: Path) -> Layout:
    for model, rows in per_model(
        lambda model, n, question, text: {
            **{"session_id": f"session{n}", "chat_history": [question], "model_input": "n/a", "output": [text]},
            **{"generator": model, "configs": {"engine": "openai", "temperature": 0.0, "max_tokens": 4096}},
            **{"dataset": "wild_bench_v2_dev", "primary_tag": "Reasoning"},
        }
    ).items():
        write_json(at / "wild_bench_v2" / f"{model.split('/')[-1]}.json", rows)
    return Layout("wild_bench_v2")


def lighteval_0_8(at: Path) -> Layout:
    for model in MODELS:
        when = "2025-01-05T17-54-20.123456"
        rows = [
            {
                **{
                    "example": question,
                    "instruction": "",
                    "full_prompt": f"{model}: {question}",
                    "num_effective_few_shots": 0,
                },
                **{
                    "predictions": [answer(model, n)],
                    "gold": ["page"],
                    "pred_logits": [],
                    "choices": ["page"],
                    "gold_index": [0],
                },
                **{"input_tokens": [[1]], "cont_tokens": [[2]], "metrics": {"qem": 1.0}, "padded": 0, "truncated": 0},
            }
            for n, question in enumerate(QUESTIONS)
        ]
        write_parquet(
            at / "evals" / "details" / file_name(model) / when / f"details_lighteval|gsm8k|0_{when}.parquet", rows
        )
    return Layout("evals", agents=FILE_NAMES)
