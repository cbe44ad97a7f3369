"""How long AlpacaEval's leaderboard takes to import: 227 models × 805 instructions, made by repetition in a temporary folder;
and an Excel file of 100,000 rows, beside openpyxl's own pass over its cells, and a CSV of 100,000 columns.

Each command runs in a process of its own; its CPU seconds and peak memory are printed (bars: 15 s, 1.5 GB; Excel 10 s and
3 × openpyxl; columns 10 s), and every response is counted. `--smoke` is 23 models × 161 instructions and a tenth of the rows and
columns, and no bar counts.

    python benchmarks/importing.py [--smoke] [n_models] [n_instructions]
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import openpyxl
import orjson

TABLE_SECONDS = 10
SECONDS, GB = 15, 1.5
WORDS = [
    "the",
    "answer",
    "is",
    "long",
    "enough",
    "to",
    "be",
    "like",
    "one",
    "of",
    "a",
    "chat",
    "model",
    "and",
    "says",
    "things",
    "about",
    "it",
]
N_WORDS = 330
"""A response's length on the leaderboard, about 2,000 characters in the middle."""


def make(folder: Path, n_models: int, n_instructions: int) -> None:
    """In the leaderboard's layout; each response says whose it is and repeats the same words in another order."""
    for model in range(n_models):
        file = folder / "results" / f"model-{model}" / "model_outputs.json"
        file.parent.mkdir(parents=True)
        rows = []
        for number in range(n_instructions):
            turned = WORDS[number % len(WORDS) :] + WORDS[: number % len(WORDS)]
            text = " ".join(turned * (N_WORDS // len(WORDS)))
            rows.append(
                {
                    "dataset": "made",
                    "instruction": f"Instruction {number}, which is about as long as one of the set.",
                    "output": f"{model} on {number}: {text}",
                    "generator": f"generator {model}",
                }
            )
        file.write_bytes(orjson.dumps(rows))


def cpu_seconds(*words: str) -> float:
    """CPU seconds of `python words`, which has to succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2)


PEER = """
import sys, openpyxl
sheet = openpyxl.load_workbook(sys.argv[1], data_only=True, read_only=True).worksheets[0]
assert sum(1 for _ in sheet.iter_rows(values_only=True)) == int(sys.argv[2]) + 1
"""


def excel(*, smoke: bool) -> dict[str, float]:
    """100,000 rows × 3 columns, imported, and passed over by openpyxl alone."""
    n = 10_000 if smoke else 100_000
    with tempfile.TemporaryDirectory() as scratch:
        file, pool = Path(scratch, "t.xlsx"), Path(scratch, "pool")
        book = openpyxl.Workbook(write_only=True)
        sheet = book.create_sheet()
        sheet.append(["model", "question", "answer"])
        for number in range(n):
            text = f"answer {number} is as long as a sentence of {len(WORDS)} words: {' '.join(WORDS)}"
            sheet.append([f"model {number % 10}", f"question {number // 10}", text])
        book.save(file)
        peer = cpu_seconds("-c", PEER, str(file), str(n))
        seconds = cpu_seconds("-m", "youden", "import", "table", str(file), "--out", str(pool))
        assert (pool / "responses.jsonl").read_bytes().count(b"\n") == n
    return {"rows": n, "cpu_seconds": seconds, "openpyxl_cpu_seconds": peer}


def columns(*, smoke: bool) -> dict[str, float]:
    """Two rows of 100,000 columns, each of which is an agent."""
    n = 10_000 if smoke else 100_000
    with tempfile.TemporaryDirectory() as scratch:
        file, pool = Path(scratch, "t.csv"), Path(scratch, "pool")
        lines = [[f"question {row}", *(f"answer {row} of {number}" for number in range(n))] for row in range(2)]
        header = ["question", *(f"model {number}" for number in range(n))]
        file.write_text("\n".join(map(",".join, [header, *lines])), encoding="utf-8")
        seconds = cpu_seconds("-m", "youden", "import", "table", str(file), "--out", str(pool))
        assert (pool / "responses.jsonl").read_bytes().count(b"\n") == 2 * n
    return {"columns": n, "cpu_seconds": seconds}


def main() -> None:
    """Make, import in a process of its own, count, print."""
    sizes = [int(word) for word in sys.argv[1:] if word != "--smoke"]
    smoke = "--smoke" in sys.argv
    n_models, n_instructions = sizes or ((23, 161) if smoke else (227, 805))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make(folder, n_models, n_instructions)
        words = ["import", "alpaca-eval", str(folder / "results"), "--out", str(folder / "pool"), "--json"]
        ran = subprocess.run([sys.executable, "-m", "youden", *words], check=True, capture_output=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        said = json.loads(ran.stdout)
        n_written = (folder / "pool" / "responses.jsonl").read_bytes().count(b"\n")
    seconds, gigabytes = used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20
    print(
        json.dumps({"cpu_seconds": round(seconds, 2), "peak_gb": round(gigabytes, 2), "responses": n_written, **said})
    )
    assert (said["agents"], said["items"]) == (n_models, n_instructions), said
    assert n_written == n_models * n_instructions
    assert not said["left_out"]
    tables = {name: measure(smoke=smoke) for name, measure in (("excel", excel), ("columns", columns))}
    print(json.dumps(tables))
    if not smoke and (seconds > SECONDS or gigabytes > GB):
        raise SystemExit(f"bars: {SECONDS} CPU seconds, {GB} GB")
    times_peer = tables["excel"]["cpu_seconds"] / tables["excel"]["openpyxl_cpu_seconds"]
    if not smoke and (times_peer > 3 or any(each["cpu_seconds"] > TABLE_SECONDS for each in tables.values())):
        raise SystemExit(f"bars: {TABLE_SECONDS} CPU seconds a table, Excel 3 times openpyxl")


if __name__ == "__main__":
    main()
