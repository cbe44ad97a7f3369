"""Write small files in the current layouts of observability tools, testing tools and batches of providers."""

from __future__ import annotations

import json
from pathlib import Path

from layout_files import (
    FILE_NAMES,
    MODELS,
    QUESTIONS,
    Layout,
    Row,
    answer,
    calls,
    file_name,
    per_model,
    write_csv,
    write_json,
    write_lines,
    write_parquet,
)

# Observability and testing tools


def deepeval(at: Path) -> Layout:
    for number, (model, rows) in enumerate(
        per_model(
            lambda _model, n, question, text: {
                **{"name": f"test_case_{n}", "input": question, "actualOutput": text, "expectedOutput": "page"},
                **{"retrievalContext": ["Rule."], "flaky": False, "success": True, "runDuration": 0.5, "order": n},
                "metricsData": [
                    {
                        **{
                            "name": "Answer Relevancy",
                            "threshold": 0.5,
                            "success": True,
                            "score": 1.0,
                            "reason": "It is.",
                        },
                        **{
                            "strictMode": False,
                            "evaluationModel": "gpt-4.1",
                            "evaluationCost": 0.001,
                            "verboseLogs": "…",
                        },
                    }
                ],
            }
        ).items()
    ):
        scores = [{"metric": "Answer Relevancy", "scores": [1.0] * 6, "passes": 6, "fails": 0, "errors": 0}]
        write_json(
            at / "deepeval-results" / f"test_run_20260822_03241{number}.json",
            {
                **{"testCases": rows, "conversationalTestCases": [], "metricsScores": scores},
                **{"hyperparameters": {"model": model, "prompt template": "v1"}, "testPassed": 6, "testFailed": 0},
                **{"runDuration": 3.0, "evaluationCost": 0.006, "official": False},
            },
        )
    return Layout("deepeval-results")


def ragas_csv(at: Path) -> Layout:
    for model, rows in per_model(
        lambda _model, n, question, text: {
            **{"user_input": question, "retrieved_contexts": "['Rule.']", "response": text, "reference": "page"},
            **{"faithfulness": 0.5 if n else "", "answer_relevancy": 0.9},
        }
    ).items():
        write_csv(at / "ragas" / f"{file_name(model)}.csv", rows)
    return Layout("ragas", agents=FILE_NAMES)


def _langfuse(model: str, n: int, question: str, text: str) -> Row:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}]
    return {
        **{
            "id": f"o{n}{model}",
            "traceId": f"t{n}{model}",
            "traceName": "rules",
            "type": "GENERATION",
            "name": "answer",
        },
        **{
            "startTime": "2026-08-22T10:10:10Z",
            "endTime": "2026-08-22T10:10:12Z",
            "environment": "default",
            "level": "DEFAULT",
        },
        **{"modelId": f"m{MODELS.index(model)}", "providedModelName": model, "modelParameters": {"temperature": 0}},
        **{"usageDetails": {"input": 12, "output": 20, "total": 32}, "costDetails": {"total": 0.1}, "totalCost": 0.1},
        **{"input": messages, "output": {"role": "assistant", "content": text}, "metadata": {"a": "b"}},
        **{
            "latencyMs": 2000,
            "tags": ["x"],
            "parentObservationId": f"s{n}{model}",
            "scores": {"quality": [1]},
            "comments": [],
        },
    }


def _langfuse_span(model: str, n: int, question: str, text: str) -> Row:
    """The span around a generation, as Langfuse exports it in addition: without a model."""
    none = dict.fromkeys(("modelId", "providedModelName", "modelParameters", "parentObservationId"))
    row = _langfuse(model, n, question, text)
    return {
        **row,
        "id": f"s{n}{model}",
        "type": "SPAN",
        "name": "chain",
        **none,
        "input": {"q": question},
        "output": {"a": text},
    }


def langfuse_json(at: Path) -> Layout:
    write_json(at / "observations.json", [row(*call) for call in calls() for row in (_langfuse_span, _langfuse)])
    return Layout("observations.json")


def langfuse_csv(at: Path) -> Layout:
    write_csv(at / "observations.csv", [_langfuse(*call) for call in calls()])
    return Layout("observations.csv")


def langfuse_blob(at: Path) -> Layout:
    write_lines(
        at / "observations_v2" / "part.jsonl",
        [
            {
                **{
                    "id": f"o{n}{model}",
                    "trace_id": f"t{n}{model}",
                    "project_id": "p",
                    "type": "GENERATION",
                    "name": "answer",
                },
                **{"provided_model_name": model, "input": json.dumps([{"role": "user", "content": question}])},
                **{"output": json.dumps({"role": "assistant", "content": text}), "usage_details": {"total": 32}},
            }
            for model, n, question, text in calls()
        ],
    )
    return Layout("observations_v2")


def chat_completion(model: str, n: int, text: str) -> Row:
    return {
        **{"id": f"chatcmpl-{n}{model}", "object": "chat.completion", "created": 1, "model": model},
        "choices": [
            {
                **{"index": 0, "message": {"role": "assistant", "content": text, "refusal": None}},
                **{"logprobs": None, "finish_reason": "stop"},
            }
        ],
        "usage": {"prompt_tokens": 12, "completion_tokens": 20, "total_tokens": 32},
    }


def _phoenix(model: str, n: int, question: str, text: str) -> Row:
    request = {"messages": [{"role": "user", "content": question}], "model": model, "temperature": 0}
    return {
        **{"name": "ChatCompletion", "span_kind": "LLM", "parent_id": None, "start_time": "2026-08-22 10:10:10+00:00"},
        **{"end_time": "2026-08-22 10:10:12+00:00", "status_code": "OK", "status_message": "", "events": []},
        **{"context.span_id": f"s{n}{model}", "context.trace_id": f"t{n}{model}", "attributes.llm.model_name": model},
        "attributes.llm.input_messages": [{"message.role": "user", "message.content": question}],
        "attributes.llm.output_messages": [{"message.role": "assistant", "message.content": text}],
        **{"attributes.input.value": json.dumps(request), "attributes.input.mime_type": "application/json"},
        **{
            "attributes.output.value": json.dumps(chat_completion(model, n, text)),
            "attributes.llm.provider": "openai",
        },
        **{"attributes.output.mime_type": "application/json", "attributes.llm.token_count.total": 32},
        "attributes.llm.invocation_parameters": json.dumps({"model": model, "temperature": 0}),
    }


def phoenix_csv(at: Path) -> Layout:
    """Write spans like `DataFrame.to_csv`, which writes lists by their `repr`."""
    rows = [{k: repr(v) if isinstance(v, list) else v for k, v in _phoenix(*call).items()} for call in calls()]
    write_csv(at / "spans.csv", rows)
    return Layout("spans.csv")


def phoenix_csv_with_chains(at: Path) -> Layout:
    """Spans around the calls of models have inputs and outputs as well."""
    rows = []
    for model, n, question, text in calls():
        span = {k: repr(v) if isinstance(v, list) else v for k, v in _phoenix(model, n, question, text).items()}
        around = {**span, "name": "agent", "span_kind": "CHAIN", "context.span_id": f"c{n}{model}"}
        around |= {"attributes.input.value": question, "attributes.output.value": f"Final: {text}"}
        for column in ("llm.model_name", "llm.input_messages", "llm.output_messages", "llm.provider"):
            around[f"attributes.{column}"] = None
        rows += [around, span]
    write_csv(at / "spans.csv", rows)
    return Layout("spans.csv")


def phoenix_parquet(at: Path) -> Layout:
    write_parquet(at / "spans.parquet", [{**_phoenix(*call), "events": None} for call in calls()])
    return Layout("spans.parquet")


def phoenix_experiments(at: Path) -> Layout:
    for model, rows in per_model(
        lambda _model, n, question, text: {
            **{"example_id": f"RGF0YXNldEV4YW1wbGU6{n}", "repetition_number": 1, "input": {"question": question}},
            **{"reference_output": {"answer": "page"}, "output": text, "error": None, "latency_ms": 12.0},
            **{"start_time": "2026-08-22T10:10:10+00:00", "end_time": "2026-08-22T10:10:12+00:00", "trace_id": f"t{n}"},
            "annotations": [
                {"name": "correct", "annotator_kind": "LLM", "label": "yes", "score": 1.0, "explanation": "It is."}
            ],
        }
    ).items():
        write_json(at / "experiments" / f"{file_name(model)}.json", rows)
    return Layout("experiments", agents=FILE_NAMES)


# Providers


def openai_evals(at: Path) -> Layout:
    for number, model in enumerate(MODELS):
        run = f"26082210101{number}ABCD"
        spec = {"completion_fns": [model], "eval_name": "rules.dev.v0", "base_eval": "rules", "split": "dev"}
        rows: list[Row] = [{"spec": {**spec, "run_config": {"completion_fns": [model], "seed": 1}, "run_id": run}}]
        for n, question in enumerate(QUESTIONS):
            event = {
                "run_id": run,
                "sample_id": f"rules.dev.{n}",
                "created_by": "",
                "created_at": "2026-08-22 10:10:10+00:00",
            }
            asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}]
            sampled = {"prompt": asked, "sampled": [answer(model, n)], "model": model}
            picked = {"correct": True, "expected": "page", "picked": "page", "sampled": answer(model, n)}
            rows.append({**event, "event_id": 2 * n, "type": "sampling", "data": sampled})
            rows.append({**event, "event_id": 2 * n + 1, "type": "match", "data": picked})
        rows.append({"final_report": {"accuracy": 1.0, "boostrap_std": 0.0}})
        write_lines(at / "evallogs" / f"{run}_{file_name(model)}_rules.jsonl", rows)
    return Layout("evallogs")


def openai_evals_without_models(at: Path) -> Layout:
    """Events that do not name the model; the header does."""
    layout = openai_evals(at)
    for file in (at / layout.path).iterdir():
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        for row in rows:
            row.get("data", {}).pop("model", None)
        write_lines(file, rows)
    return layout


def openai_batch(at: Path, *, prefix: str = "batch_req_", inputs: bool = False) -> Layout:
    for model in MODELS:
        write_lines(
            at / "batches" / f"{file_name(model)}_output.jsonl",
            [
                {
                    **{"id": f"{prefix}{n}{file_name(model)}", "custom_id": f"request-{n}"},
                    "response": {
                        "status_code": 200,
                        "request_id": f"r{n}{model}",
                        "body": chat_completion(model, n, answer(model, n)),
                    },
                    "error": None,
                }
                for n in range(len(QUESTIONS))
            ],
        )
        if inputs:
            write_lines(
                at / "batches" / f"{file_name(model)}_input.jsonl",
                [
                    {
                        **{"custom_id": f"request-{n}", "method": "POST", "url": "/v1/chat/completions"},
                        "body": {"model": model, "messages": [{"role": "user", "content": question}]},
                    }
                    for n, question in enumerate(QUESTIONS)
                ],
            )
    return Layout("batches", n_prompts=len(QUESTIONS) if inputs else 0)


def openai_batch_with_inputs(at: Path) -> Layout:
    return openai_batch(at, inputs=True)


def vllm_batch(at: Path) -> Layout:
    return openai_batch(at, prefix="vllm-")


def openai_batch_of_responses(at: Path) -> Layout:
    """Output of batches to /v1/responses."""
    write_lines(
        at / "output.jsonl",
        [
            {
                **{"id": f"batch_req_{n}{model}", "custom_id": f"request-{n}", "error": None},
                "response": {
                    **{"status_code": 200, "request_id": f"r{n}{model}"},
                    "body": {
                        **{"id": f"resp_{n}{model}", "object": "response", "status": "completed", "model": model},
                        "output": [
                            {"id": f"rs_{n}{model}", "type": "reasoning", "summary": []},
                            {
                                **{
                                    "id": f"msg_{n}{model}",
                                    "type": "message",
                                    "status": "completed",
                                    "role": "assistant",
                                },
                                "content": [{"type": "output_text", "annotations": [], "text": text}],
                            },
                        ],
                    },
                },
            }
            for model, n, _, text in calls()
        ],
    )
    return Layout("output.jsonl", n_prompts=0)


def anthropic_batch(at: Path) -> Layout:
    write_lines(
        at / "results.jsonl",
        [
            {
                "custom_id": f"request-{n}",
                "result": {
                    "type": "succeeded",
                    "message": {
                        **{"id": f"msg_{n}{model}", "type": "message", "role": "assistant", "model": model},
                        **{
                            "content": [{"type": "text", "text": text}],
                            "stop_reason": "end_turn",
                            "usage": {"input_tokens": 9},
                        },
                    },
                },
            }
            for model, n, _, text in calls()
        ],
    )
    return Layout("results.jsonl", n_prompts=0)


def gemini_batch(at: Path) -> Layout:
    write_lines(
        at / "predictions.jsonl",
        [
            {
                "key": f"request-{n}",
                "response": {
                    "candidates": [
                        {"content": {"parts": [{"text": text}], "role": "model"}, "finishReason": "STOP", "index": 0}
                    ],
                    **{"modelVersion": model, "responseId": f"r{n}{model}", "usageMetadata": {"totalTokenCount": 32}},
                },
            }
            for model, n, _, text in calls()
        ],
    )
    return Layout("predictions.jsonl", n_prompts=0)


def bedrock_batch(at: Path) -> Layout:
    for model, rows in per_model(
        lambda model, n, question, text: {
            "recordId": f"CALL{n:07}",
            "modelInput": {
                "max_tokens": 512,
                "messages": [{"role": "user", "content": [{"type": "text", "text": question}]}],
            },
            "modelOutput": {
                **{
                    "id": f"msg_{n}{model}",
                    "type": "message",
                    "role": "assistant",
                    "model": model,
                    "stop_reason": "end_turn",
                },
                **{"content": [{"type": "text", "text": text}], "usage": {"input_tokens": 9, "output_tokens": 9}},
            },
        }
    ).items():
        write_lines(at / "bedrock" / f"{file_name(model)}.jsonl", rows)
    return Layout("bedrock")


def vertex_batch(at: Path) -> Layout:
    """Predictions of Vertex AI, which come without a key; the request is included."""
    write_lines(
        at / "predictions.jsonl",
        [
            {
                **{"status": "", "processed_time": f"2026-08-22T10:10:{n}0Z"},
                "request": {
                    "contents": [{"role": "user", "parts": [{"text": question}]}],
                    "generationConfig": {"temperature": 0},
                },
                "response": {
                    "candidates": [
                        {
                            "content": {"parts": [{"text": text, "thoughtSignature": "x"}], "role": "model"},
                            "finishReason": "STOP",
                        }
                    ],
                    **{"modelVersion": model, "responseId": f"r{n}{model}", "createTime": "2026-08-22T10:10:10Z"},
                },
            }
            for model, n, question, text in calls()
        ],
    )
    return Layout("predictions.jsonl")


def azure_batch_with_errors(at: Path) -> Layout:
    openai_batch(at)
    for model in MODELS:
        file = at / "batches" / f"{file_name(model)}_output.jsonl"
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        for row in rows:
            del row["id"]
        failed = {
            "custom_id": "request-99",
            "response": None,
            "error": {"code": "rate_limit", "message": "Too many requests."},
        }
        write_lines(file, [*rows, failed])
    return Layout("batches", n_prompts=0)


def openai_eval_items(at: Path) -> Layout:
    """Output items of a run of OpenAI's Evals API."""
    for model, rows in per_model(
        lambda model, n, question, text: {
            **{
                "object": "eval.run.output_item",
                "id": f"item_{n}{model}",
                "run_id": f"run_{model}",
                "eval_id": "eval_1",
            },
            **{"created_at": 1, "status": "pass", "datasource_item_id": n, "datasource_item": {"question": question}},
            "sample": {
                **{
                    "input": [{"role": "user", "content": question}],
                    "output": [{"role": "assistant", "content": text}],
                },
                **{"finish_reason": "stop", "model": model, "usage": {"total_tokens": 9}, "error": None, "seed": 1},
            },
            "results": [{"name": "grader", "passed": True, "score": 1.0}],
        }
    ).items():
        write_lines(at / "items" / f"{file_name(model)}.jsonl", rows)
    return Layout("items")


def vllm_offline(at: Path) -> Layout:
    """`RequestOutput` of vLLM, one file per model."""
    for model, rows in per_model(
        lambda _model, n, question, text: {
            **{"request_id": str(n), "prompt": question, "prompt_token_ids": [1, 2], "finished": True},
            "outputs": [
                {"index": 0, "text": text, "token_ids": [3], "cumulative_logprob": -1.5, "finish_reason": "stop"}
            ],
        }
    ).items():
        write_lines(at / "generated" / f"{file_name(model)}.jsonl", rows)
    return Layout("generated", agents=FILE_NAMES)


def mlflow_evaluation(at: Path) -> Layout:
    for model, rows in per_model(
        lambda model, n, question, text: {
            **{
                "trace_id": f"tr-{n}{model}",
                "trace": "{}",
                "client_request_id": "",
                "state": "OK",
                "request_time": 1,
                "tags": {"a": "b"},
            },
            **{
                "request": {"question": question},
                "response": text,
                "execution_duration": 9,
                "assessments": [{"name": "c", "value": 1}],
            },
            **{"correctness/value": "yes"},
        }
    ).items():
        write_csv(at / "mlflow" / f"{file_name(model)}.csv", rows)
    return Layout("mlflow", agents=FILE_NAMES)
