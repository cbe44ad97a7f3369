"""How long a large pool takes to read and to check: 1,000 agents × 1,000 items, a million texts of about 300 bytes.

Made of a small vocabulary in a temporary folder; nothing is kept. Each part runs in a process of its own, whose seconds and peak
memory are printed as one JSON object a line: `read` (bar: 20 s), `check` with reading (bar: 90 s and 4 GB).

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

WORDS_A_TEXT = 45
N_CLONES = 2
READ_SECONDS, CHECK_SECONDS, CHECK_GB = 20, 90, 4


def make(folder: Path, n_agents: int, n_items: int) -> None:
    """Each item has words of its own; agents take some of them and some common ones. The last agents are clones of the first."""
    rng = np.random.default_rng(0)
    common = np.array(
        [f"{a}{b}" for a in ("re", "co", "un", "in", "de") for b in ("port", "form", "tain", "scribe", "duct", "late")]
    )
    with (folder / "agents.jsonl").open("wb") as file:
        file.writelines(orjson.dumps({"id": f"agent-{i}"}) + b"\n" for i in range(n_agents))
    own = [np.array([f"w{j}x{k}" for k in range(60)]) for j in range(n_items)]
    with (folder / "items.jsonl").open("wb") as file:
        for j in range(n_items):
            prompt = " ".join(rng.permutation(own[j]))
            file.write(orjson.dumps({"id": f"item-{j}", "prompt": prompt}) + b"\n")
    first: list[str] = []
    with (folder / "responses.jsonl").open("wb") as file:
        for i in range(n_agents):
            for j in range(n_items):
                if i >= n_agents - N_CLONES:
                    text = first[j]
                else:
                    some = own[j][rng.integers(60, size=WORDS_A_TEXT // 3)].tolist()
                    rest = common[rng.integers(len(common), size=WORDS_A_TEXT - len(some))].tolist()
                    text = " ".join(some + rest)
                if i == 0:
                    first.append(text)
                file.write(orjson.dumps({"agent": f"agent-{i}", "item": f"item-{j}", "text": text}) + b"\n")


def measure(part: str, folder: str) -> None:
    """Run one part in this process and print what it took."""
    from youden.data.pools.pool_reader import read_pool
    from youden.pools.checks.check import check_pool

    wall = time.perf_counter()
    pool = read_pool(folder)
    findings = {finding.slug: len(finding.agents) for finding in check_pool(pool).findings} if part == "check" else {}
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                "part": part,
                "texts": int(pool.present.sum()),
                "seconds": round(time.perf_counter() - wall, 1),
                "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
                "peak_gb": round(used.ru_maxrss / 2**20, 2),
                "findings": findings,
            }
        )
    )


def main(n_agents: int = 1000, n_items: int = 1000) -> None:
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), n_agents, n_items)
        megabytes = sum(file.stat().st_size for file in Path(folder).iterdir()) / 1e6
        print(json.dumps({"agents": n_agents, "items": n_items, "megabytes": round(megabytes)}))
        for part in ("read", "check"):
            done = subprocess.run([sys.executable, __file__, part, folder], check=True, capture_output=True, text=True)
            print(done.stdout.strip())
            said = json.loads(done.stdout)
            bar = READ_SECONDS if part == "read" else CHECK_SECONDS
            met = said["seconds"] <= bar and said["peak_gb"] <= CHECK_GB
            print(f"bars: {bar} s, {CHECK_GB} GB: {'met' if met else 'MISSED'}")
            if part == "check":
                assert said["findings"].get("clones") == N_CLONES + 1, said


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in ("read", "check"):
        measure(*sys.argv[1:])
    else:
        main(*map(int, sys.argv[1:]))
