"""Measure the time to read and to check a large pool: 1,000 agents × 1,000 items, a million texts of about 300 bytes.

The pool is made of a small vocabulary in a temporary folder. Each part runs in its own process and prints its seconds and peak
memory as one JSON object per line: `read` (bar: 20 CPU seconds), and `check` with reading (bar: 60 CPU seconds and 4 GB). CPU
seconds hardly depend on other processes of the machine. The exit code is 1 if a bar is missed.

    python benchmarks/large_pools.py [n_agents] [n_items]
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import orjson

WORDS_PER_TEXT = 45
N_CLONES = 2
MAX_READ_SECONDS, MAX_CHECK_SECONDS, MAX_CHECK_GB = 20, 60, 4


def write_pool(folder: Path, n_agents: int, n_items: int) -> None:
    """Write a pool. Each text has some words of its item and some common words; the last agents are clones of the first."""
    rng = np.random.default_rng(0)
    common = np.array(
        [
            f"{prefix}{stem}"
            for prefix in ("re", "co", "un", "in", "de")
            for stem in ("port", "form", "tain", "scribe", "duct", "late")
        ]
    )
    with (folder / "agents.jsonl").open("wb") as file:
        file.writelines(orjson.dumps({"id": f"agent-{i}"}) + b"\n" for i in range(n_agents))
    item_words = [np.array([f"w{j}x{k}" for k in range(60)]) for j in range(n_items)]
    with (folder / "items.jsonl").open("wb") as file:
        for j in range(n_items):
            prompt = " ".join(rng.permutation(item_words[j]))
            file.write(orjson.dumps({"id": f"item-{j}", "prompt": prompt}) + b"\n")
    first_texts: list[str] = []
    with (folder / "responses.jsonl").open("wb") as file:
        for i in range(n_agents):
            for j in range(n_items):
                if i >= n_agents - N_CLONES:
                    text = first_texts[j]
                else:
                    text_item_words = item_words[j][rng.integers(60, size=WORDS_PER_TEXT // 3)].tolist()
                    text_common_words = common[
                        rng.integers(len(common), size=WORDS_PER_TEXT - len(text_item_words))
                    ].tolist()
                    text = " ".join(text_item_words + text_common_words)
                if i == 0:
                    first_texts.append(text)
                file.write(orjson.dumps({"agent": f"agent-{i}", "item": f"item-{j}", "text": text}) + b"\n")


def measure(part: str, folder: str) -> None:
    """Run one part in this process, and print its figures."""
    from youden.data.pools.pool_reader import read_pool
    from youden.pools.checks.check import check_pool

    start = time.perf_counter()
    pool = read_pool(folder)
    findings = {finding.slug: len(finding.agents) for finding in check_pool(pool).findings} if part == "check" else {}
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                "part": part,
                "texts": int(pool.present.sum()),
                "seconds": round(time.perf_counter() - start, 1),
                "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
                "peak_gb": round(usage.ru_maxrss / 2**20, 2),
                "findings": findings,
            }
        )
    )


def main(n_agents: int = 1000, n_items: int = 1000) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_pool(Path(folder), n_agents, n_items)
        megabytes = sum(file.stat().st_size for file in Path(folder).iterdir()) / 1e6
        print(json.dumps({"agents": n_agents, "items": n_items, "megabytes": round(megabytes)}))
        missed = []
        for part in ("read", "check"):
            process = subprocess.run(
                [sys.executable, __file__, part, folder], check=True, capture_output=True, text=True
            )
            print(process.stdout.strip())
            figures = json.loads(process.stdout)
            bar = MAX_READ_SECONDS if part == "read" else MAX_CHECK_SECONDS
            if figures["cpu_seconds"] > bar or figures["peak_gb"] > MAX_CHECK_GB:
                missed.append(f"{part}: {bar} CPU seconds, {MAX_CHECK_GB} GB")
            if part == "check":
                assert figures["findings"].get("clones") == N_CLONES + 1, figures
    if missed:
        sys.exit(f"missed bars: {'; '.join(missed)}")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in ("read", "check"):
        measure(*sys.argv[1:])
    else:
        main(*map(int, sys.argv[1:]))
