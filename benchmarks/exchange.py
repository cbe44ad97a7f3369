"""What it takes to hand a plan to another engine and to take its answers back, a row, against the bars; and whether memory grows.

Every figure is of a process of its own: CPU time of the export or the import alone (plan, pool and store are ready), and how
far the most memory it ever held went up meanwhile. Memory is flat where ten times the rows take at most `FLAT` MB more than the
plan's own keys do (`BYTES_A_ROW` each).

`python benchmarks/exchange.py [--smoke] [--rows N] [--out FILE]` prints JSON and ends with 1 where a bar is missed.
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

EXPORT = {"jsonl": 60.0, "parquet": 90.0}
IMPORT = 35.0
"""µs of CPU a row."""
FLAT = 64.0
BYTES_A_ROW = 200
WORDS = 60
JUDGE = {"backend": "wire", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": None, "price": 0}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--smoke", action="store_true", help="10,000 rows and 1,000, in place of a million; no bar counts"
    )
    options.add_argument("--rows", type=int)
    options.add_argument("--out", type=Path)
    options.add_argument("--part", nargs=4, metavar=("STEP", "FORMAT", "ROWS", "FOLDER"), help=argparse.SUPPRESS)
    said = options.parse_args()
    if said.part:
        step, form, rows, folder = said.part
        print(json.dumps(STEPS[step](form, int(rows), Path(folder))))
        return
    n_rows = said.rows or (10_000 if said.smoke else 1_000_000)
    found: dict[str, Any] = {"rows": n_rows}
    missed = []
    for form, bar_out in EXPORT.items():
        for n in (n_rows // 10, n_rows):
            with tempfile.TemporaryDirectory() as folder:
                for step in STEPS:
                    found.setdefault(f"{step} {form}", {})[str(n)] = of_its_own(step, form, n, folder)
        for step, bar in (("export", bar_out), ("import", IMPORT)):
            small, large = found[f"{step} {form}"].values()
            grown = large["mb"] - small["mb"] - BYTES_A_ROW * 0.9 * n_rows / 1e6
            found[f"{step} {form}"]["bar"] = bar
            if large["us"] > bar:
                missed.append(f"{step} {form}: {large['us']:.1f} µs a row, {bar:g} allowed")
            if grown > FLAT:
                missed.append(f"{step} {form}: memory grew by {grown:.0f} MB beyond the keys, {FLAT:g} allowed")
    found["missed"] = missed
    text = json.dumps(found, indent=2)
    print(text)
    if said.out is not None:
        said.out.write_text(text + "\n", encoding="utf-8")
    sys.exit(bool(missed) and not said.smoke)


def of_its_own(step: str, form: str, rows: int, folder: str) -> dict[str, float]:
    """A step in a process of its own."""
    words = [sys.executable, __file__, "--part", step, form, str(rows), folder]
    ended = subprocess.run(words, check=False, capture_output=True, text=True)
    if ended.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{ended.stderr[-2000:]}")
    measured: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return measured


def measured(rows: int, step: Callable[[], object]) -> dict[str, float]:
    """µs of CPU a row, and MB by which the most memory went up."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    step()
    took = time.process_time() - began
    mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {"us": round(1e6 * took / rows, 2), "mb": round(mb, 1)}


def ready(rows: int) -> tuple[Any, Any]:
    """A plan of `rows` distinct trials on texts of some 400 characters, and a judge."""
    from youden.judging.config.judge_files import load_judge_config
    from youden.types import Agent, Item, Plan, Pool, Trials
    from youden.types.planning import Split

    n_agents, n_items = 50, max(rows // (50 * 49) + 1, 2)
    rng = np.random.default_rng(0)
    words = [f"word{number}" for number in range(1000)]
    texts = np.empty((n_agents, n_items), dtype=object)
    for i, j in np.ndindex(texts.shape):
        texts[i, j] = " ".join(words[k] for k in rng.integers(0, 1000, WORDS))
    pool = Pool(
        agents=tuple(Agent(id=f"a{i}") for i in range(n_agents)),
        items=tuple(Item(id=f"i{j}") for j in range(n_items)),
        texts=texts,
    )
    item, pair = np.divmod(rng.permutation(n_agents * (n_agents - 1) * n_items)[:rows], n_agents * (n_agents - 1))
    first, second = np.divmod(pair, n_agents - 1)
    second = second + (second >= first)
    trials = Trials.paired(*(column.astype(np.int32) for column in (item, first, second)))
    held = np.zeros((n_agents, n_items), dtype=np.bool_)
    plan = Plan(
        trials=trials,
        split=Split(~held, held, "shared", 0.0, 0),
        design="dense",
        options={},
        independent="twin",
        seed=0,
        pool_digest=pool.digest,
        agent_ids=tuple(agent.id for agent in pool.agents),
        item_ids=tuple(one.id for one in pool.items),
        source=pool,
    )
    return plan, load_judge_config(JUDGE)


def export(form: str, rows: int, folder: Path) -> dict[str, float]:
    from youden.judging.offline.exporting import Format, export_requests
    from youden.judging.store.answers import open_store

    plan, judge = ready(rows)
    shutil.rmtree(folder / "export", ignore_errors=True)
    to, written = folder / "export", cast(Format, form)
    with open_store(folder / "empty.db") as store:
        return measured(
            rows, lambda: export_requests(plan, config=judge, store=store, folder=to, format=written, shards=4)
        )


def answer(form: str, rows: int, folder: Path) -> dict[str, float]:
    """A toy engine: not measured against a bar."""

    def answered() -> None:
        for requests in sorted((folder / "export").glob("requests-*")):
            results = requests.with_name(requests.name.replace("requests", "answers"))
            if form == "parquet":
                answer_parquet(requests, results)
                continue
            with requests.open("rb") as lines, results.open("w", encoding="utf-8") as file:
                file.writelines(result_line(json.loads(line)["custom_id"]) for line in lines)

    return measured(rows, answered)


def answer_parquet(requests: Path, results: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    words, counts = {"text": "YES", "finish_reason": "stop", "model": "m"}, {"tokens_in": 150, "tokens_out": 1}
    schema = pa.schema(
        [("key", pa.string()), *((name, pa.string()) for name in words), *((name, pa.int64()) for name in counts)]
    )
    with pq.ParquetWriter(results, schema) as writer:
        for batch in pq.ParquetFile(requests).iter_batches(batch_size=1000, columns=["key"]):
            rest = [[value] * len(batch) for value in (*words.values(), *counts.values())]
            writer.write_table(pa.table([batch.column(0), *rest], schema=schema))


def result_line(key: str) -> str:
    """As `vllm run-batch` writes it."""
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
    return json.dumps({"id": "v", "custom_id": key, "response": response, "error": None}) + "\n"


def import_(form: str, rows: int, folder: Path) -> dict[str, float]:
    from youden.judging.offline.importing_answers import import_answers
    from youden.judging.store.answers import open_store

    plan, judge = ready(rows)
    files = sorted((folder / "export").glob("answers-*"), reverse=True)

    for old in folder.glob("import.db*"):
        old.unlink()
    with open_store(folder / "import.db") as store:

        def taken() -> None:
            came = import_answers(files, plan, config=judge, store=store, account="run")
            assert came.n_new == rows, came

        return measured(rows, taken)


STEPS: dict[str, Callable[[str, int, Path], dict[str, float]]] = {"export": export, "answer": answer, "import": import_}


if __name__ == "__main__":
    main()
