"""How long AlpacaEval's leaderboard takes to import: 227 models × 805 instructions, made by repetition in a temporary folder.

The command runs in a process of its own; its CPU seconds and peak memory are printed (bars: 15 s, 1.5 GB), and every response is
counted. `--smoke` is 23 models × 161 instructions, and no bar counts.

    python benchmarks/importing.py [--smoke] [n_models] [n_instructions]
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import orjson

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
    if not smoke and (seconds > SECONDS or gigabytes > GB):
        raise SystemExit(f"bars: {SECONDS} CPU seconds, {GB} GB")


if __name__ == "__main__":
    main()
