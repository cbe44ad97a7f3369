"""Measure imports: AlpacaEval's leaderboard, an Excel file and a wide CSV file.

The leaderboard has 227 models × 805 instructions, made by repetition in a temporary folder. The Excel file has 100,000 rows and
is compared with openpyxl's own iteration over its cells. The CSV file has 100,000 columns. Each command runs in its own
process; its CPU seconds and peak memory are printed, and every response is counted. Bars: 15 s and 1.5 GB; Excel 10 s and 3
times openpyxl; columns 10 s. `--smoke` imports 23 models × 161 instructions and a tenth of the rows and columns, and no bar
counts.

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

MAX_TABLE_SECONDS = 10
MAX_SECONDS, MAX_GB = 15, 1.5
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
"""Length of a response, about the median of the leaderboard (2,000 characters)."""


def write_leaderboard(folder: Path, n_models: int, n_instructions: int) -> None:
    """Write files in the leaderboard's layout; each response names its model and repeats the same words in another order."""
    for model in range(n_models):
        file = folder / "results" / f"model-{model}" / "model_outputs.json"
        file.parent.mkdir(parents=True)
        rows = []
        for number in range(n_instructions):
            rotated = WORDS[number % len(WORDS) :] + WORDS[: number % len(WORDS)]
            text = " ".join(rotated * (N_WORDS // len(WORDS)))
            rows.append(
                {
                    "dataset": "made",
                    "instruction": f"Instruction {number}, which is about as long as one of the set.",
                    "output": f"{model} on {number}: {text}",
                    "generator": f"generator {model}",
                }
            )
        file.write_bytes(orjson.dumps(rows))


def measure_cpu_seconds(*arguments: str) -> float:
    """Return the CPU seconds of `python ARGUMENTS`; raise if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2)


OPENPYXL_SCRIPT = """
import sys, openpyxl
sheet = openpyxl.load_workbook(sys.argv[1], data_only=True, read_only=True).worksheets[0]
assert sum(1 for _ in sheet.iter_rows(values_only=True)) == int(sys.argv[2]) + 1
"""


def measure_excel(*, smoke: bool) -> dict[str, float]:
    """Import 100,000 rows × 3 columns, and iterate over them with openpyxl alone."""
    n = 10_000 if smoke else 100_000
    with tempfile.TemporaryDirectory() as scratch:
        file, pool = Path(scratch, "t.xlsx"), Path(scratch, "pool")
        workbook = openpyxl.Workbook(write_only=True)
        sheet = workbook.create_sheet()
        sheet.append(["model", "question", "answer"])
        for number in range(n):
            text = f"answer {number} is as long as a sentence of {len(WORDS)} words: {' '.join(WORDS)}"
            sheet.append([f"model {number % 10}", f"question {number // 10}", text])
        workbook.save(file)
        openpyxl_seconds = measure_cpu_seconds("-c", OPENPYXL_SCRIPT, str(file), str(n))
        seconds = measure_cpu_seconds("-m", "youden", "import", "table", str(file), "--out", str(pool))
        assert (pool / "responses.jsonl").read_bytes().count(b"\n") == n
    return {"rows": n, "cpu_seconds": seconds, "openpyxl_cpu_seconds": openpyxl_seconds}


def measure_columns(*, smoke: bool) -> dict[str, float]:
    """Import two rows of 100,000 columns, each an agent."""
    n = 10_000 if smoke else 100_000
    with tempfile.TemporaryDirectory() as scratch:
        file, pool = Path(scratch, "t.csv"), Path(scratch, "pool")
        lines = [[f"question {row}", *(f"answer {row} of {number}" for number in range(n))] for row in range(2)]
        header = ["question", *(f"model {number}" for number in range(n))]
        file.write_text("\n".join(map(",".join, [header, *lines])), encoding="utf-8")
        seconds = measure_cpu_seconds("-m", "youden", "import", "table", str(file), "--out", str(pool))
        assert (pool / "responses.jsonl").read_bytes().count(b"\n") == 2 * n
    return {"columns": n, "cpu_seconds": seconds}


def main() -> None:
    """Write the leaderboard, import it, count the responses, and print the figures."""
    sizes = [int(word) for word in sys.argv[1:] if word != "--smoke"]
    smoke = "--smoke" in sys.argv
    n_models, n_instructions = sizes or ((23, 161) if smoke else (227, 805))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_leaderboard(folder, n_models, n_instructions)
        arguments = ["import", "alpaca-eval", str(folder / "results"), "--out", str(folder / "pool"), "--json"]
        process = subprocess.run([sys.executable, "-m", "youden", *arguments], check=True, capture_output=True)
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        imported = json.loads(process.stdout)
        n_written = (folder / "pool" / "responses.jsonl").read_bytes().count(b"\n")
    seconds, gigabytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20
    print(
        json.dumps(
            {"cpu_seconds": round(seconds, 2), "peak_gb": round(gigabytes, 2), "responses": n_written, **imported}
        )
    )
    assert (imported["agents"], imported["items"]) == (n_models, n_instructions), imported
    assert n_written == n_models * n_instructions
    assert not imported["left_out"]
    tables = {name: measure(smoke=smoke) for name, measure in (("excel", measure_excel), ("columns", measure_columns))}
    print(json.dumps(tables))
    if not smoke and (seconds > MAX_SECONDS or gigabytes > MAX_GB):
        raise SystemExit(f"bars: {MAX_SECONDS} CPU seconds, {MAX_GB} GB")
    openpyxl_ratio = tables["excel"]["cpu_seconds"] / tables["excel"]["openpyxl_cpu_seconds"]
    if not smoke and (openpyxl_ratio > 3 or any(table["cpu_seconds"] > MAX_TABLE_SECONDS for table in tables.values())):
        raise SystemExit(f"bars: {MAX_TABLE_SECONDS} CPU seconds per table, Excel 3 times openpyxl")


if __name__ == "__main__":
    main()
