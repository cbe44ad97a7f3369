"""Measure the export of requests to another engine and the import of its answers: CPU time per row, and growth of memory.

Each figure is measured in a separate process: the CPU time of the export or the import alone (plan, pool and store exist), and
the increase of the peak memory meanwhile. Memory is flat if ten times as many rows take at most `MAX_GROWTH_MB` MB more than
the plan's request hashes (`BYTES_PER_ROW` each).

`python benchmarks/exchange.py [--smoke] [--rows N] [--out FILE]` prints JSON and exits with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from results import print_results

MAX_EXPORT_MICROSECONDS = {"jsonl": 60.0, "parquet": 90.0}
MAX_IMPORT_MICROSECONDS = 35.0
"""Maximum CPU time per row, in µs."""
MAX_GROWTH_MB = 64.0
BYTES_PER_ROW = 200
WORDS_PER_TEXT = 60
JUDGE = {"backend": "wire", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": None, "price": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--smoke", action="store_true", help="measure 10,000 and 1,000 rows instead of a million; no bar counts"
    )
    parser.add_argument("--rows", type=int)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--part", nargs=4, metavar=("STEP", "FORMAT", "ROWS", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        step, file_format, rows, folder = arguments.part
        print(json.dumps(STEPS[step](file_format, int(rows), Path(folder))))
        return
    n_rows = arguments.rows or (10_000 if arguments.smoke else 1_000_000)
    results: dict[str, Any] = {"rows": n_rows}
    missed = []
    for file_format, max_export in MAX_EXPORT_MICROSECONDS.items():
        for n in (n_rows // 10, n_rows):
            with tempfile.TemporaryDirectory() as folder:
                for step in STEPS:
                    results.setdefault(f"{step} {file_format}", {})[str(n)] = run_in_process(
                        step, file_format, n, folder
                    )
        for step, bar in (("export", max_export), ("import", MAX_IMPORT_MICROSECONDS)):
            small, large = results[f"{step} {file_format}"].values()
            growth = large["mb"] - small["mb"] - BYTES_PER_ROW * 0.9 * n_rows / 1e6
            results[f"{step} {file_format}"]["bar"] = bar
            if large["us"] > bar:
                missed.append(f"{step} {file_format}: {large['us']:.1f} µs per row, {bar:g} allowed")
            if growth > MAX_GROWTH_MB:
                missed.append(
                    f"{step} {file_format}: memory grew by {growth:.0f} MB beyond the hashes, {MAX_GROWTH_MB:g} allowed"
                )
    results["missed"] = missed
    print_results(results, arguments.out)
    sys.exit(bool(missed) and not arguments.smoke)


def run_in_process(step: str, file_format: str, rows: int, folder: str) -> dict[str, float]:
    """Run a step in its own process."""
    command = [sys.executable, __file__, "--part", step, file_format, str(rows), folder]
    process = subprocess.run(command, check=False, capture_output=True, text=True)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{process.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    return figures


def measure(rows: int, step: Callable[[], object]) -> dict[str, float]:
    """Return CPU microseconds per row, and the increase of the peak memory in MB."""
    peak_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    step()
    cpu_seconds = time.process_time() - start
    growth_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_before) / 1024
    return {"us": round(1e6 * cpu_seconds / rows, 2), "mb": round(growth_mb, 1)}


def make_plan_and_judge(rows: int) -> tuple[Any, Any]:
    """Make a plan of `rows` distinct trials on texts of about 400 characters, and a judge."""
    from youden.judging.config.judge_files import load_judge_config
    from youden.types import Agent, Item, Plan, Pool, Trials
    from youden.types.planning import Split

    n_agents, n_items = 50, max(rows // (50 * 49) + 1, 2)
    rng = np.random.default_rng(0)
    words = [f"word{number}" for number in range(1000)]
    texts = np.empty((n_agents, n_items), dtype=object)
    for i, j in np.ndindex(texts.shape):
        texts[i, j] = " ".join(words[k] for k in rng.integers(0, 1000, WORDS_PER_TEXT))
    pool = Pool(
        agents=tuple(Agent(id=f"a{i}") for i in range(n_agents)),
        items=tuple(Item(id=f"i{j}") for j in range(n_items)),
        texts=texts,
    )
    item, pair = np.divmod(rng.permutation(n_agents * (n_agents - 1) * n_items)[:rows], n_agents * (n_agents - 1))
    first, second = np.divmod(pair, n_agents - 1)
    second = second + (second >= first)
    trials = Trials.paired(*(column.astype(np.int32) for column in (item, first, second)))
    is_held_out = np.zeros((n_agents, n_items), dtype=np.bool_)
    plan = Plan(
        trials=trials,
        split=Split(~is_held_out, is_held_out, "strict", 0.0, 0),
        design="dense",
        options={},
        independent="matched",
        seed=0,
        pool_digest=pool.digest,
        agent_ids=tuple(agent.id for agent in pool.agents),
        item_ids=tuple(pool_item.id for pool_item in pool.items),
        source=pool,
    )
    return plan, load_judge_config(JUDGE)


def export_plan(file_format: str, rows: int, folder: Path) -> dict[str, float]:
    """Export the requests of a plan."""
    from youden.judging.offline.exporting import Format, export_requests
    from youden.judging.store.answers import open_store

    plan, judge = make_plan_and_judge(rows)
    shutil.rmtree(folder / "export", ignore_errors=True)
    export_folder, written_format = folder / "export", cast(Format, file_format)
    with open_store(folder / "empty.db") as store:
        return measure(
            rows,
            lambda: export_requests(
                plan, config=judge, store=store, folder=export_folder, format=written_format, shards=4
            ),
        )


def answer_requests(file_format: str, rows: int, folder: Path) -> dict[str, float]:
    """Answer the exported requests as a minimal engine; there is no bar."""

    def answer_files() -> None:
        for requests in sorted((folder / "export").glob("requests-*")):
            results = requests.with_name(requests.name.replace("requests", "answers"))
            if file_format == "parquet":
                answer_parquet_file(requests, results)
                continue
            with requests.open("rb") as lines, results.open("w", encoding="utf-8") as results_file:
                results_file.writelines(make_result_line(json.loads(line)["custom_id"]) for line in lines)

    return measure(rows, answer_files)


def answer_parquet_file(requests: Path, results: Path) -> None:
    """Answer a Parquet file of requests."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    text_columns = {"text": "YES", "finish_reason": "stop", "model": "m"}
    count_columns = {"tokens_in": 150, "tokens_out": 1}
    schema = pa.schema(
        [
            ("request_hash", pa.string()),
            *((name, pa.string()) for name in text_columns),
            *((name, pa.int64()) for name in count_columns),
        ]
    )
    with pq.ParquetWriter(results, schema) as writer:
        for batch in pq.ParquetFile(requests).iter_batches(batch_size=1000, columns=["request_hash"]):
            other_columns = [[value] * len(batch) for value in (*text_columns.values(), *count_columns.values())]
            writer.write_table(pa.table([batch.column(0), *other_columns], schema=schema))


def make_result_line(request_hash: str) -> str:
    """Make a result line as `vllm run-batch` writes it."""
    message = {"role": "assistant", "content": "YES"}
    usage = {"prompt_tokens": 150, "completion_tokens": 1, "total_tokens": 151}
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": usage,
    }
    response = {"status_code": 200, "request_id": "r", "body": body}
    return json.dumps({"id": "v", "custom_id": request_hash, "response": response, "error": None}) + "\n"


def import_results(file_format: str, rows: int, folder: Path) -> dict[str, float]:
    """Import the answers into a new store."""
    from youden.judging.offline.importing_answers import import_answers
    from youden.judging.store.answers import open_store

    plan, judge = make_plan_and_judge(rows)
    files = sorted((folder / "export").glob("answers-*"), reverse=True)

    for old_file in folder.glob("import.db*"):
        old_file.unlink()
    with open_store(folder / "import.db") as store:

        def import_files() -> None:
            imported = import_answers(files, plan, config=judge, store=store, account="run")
            assert imported.n_new == rows, imported

        return measure(rows, import_files)


STEPS: dict[str, Callable[[str, int, Path], dict[str, float]]] = {
    "export": export_plan,
    "answer": answer_requests,
    "import": import_results,
}


if __name__ == "__main__":
    main()
