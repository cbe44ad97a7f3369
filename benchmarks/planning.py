"""How long and how much memory 10 million trials take to plan, and 10 million verdicts to tally.

It knows CPU time and the peak of memory of fresh processes; it refuses to know what the trials say.
`python benchmarks/planning.py [--trials 10000000] [--out FILE]` prints JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from youden.nouns import Agent, Item, Pool, Verdicts
from youden.protocol.plan import make_plan
from youden.protocol.scores import tally, train_scores

CASES = {
    "dense 50 agents": ("dense", 50),
    "cyclic 30 agents": ("cyclic", 30),
    "cyclic 1000 agents": ("cyclic", 1000),
    "nlogn 100 agents": ("nlogn", 100),
}


def pool_for(design: str, n_agents: int, n_trials: int) -> tuple[Pool, int | None]:
    """A pool of which `design` takes about `n_trials`, and its budget."""
    share = {"dense": 1.0, "cyclic": 0.4, "nlogn": 0.5}[design]
    n_items = max(3, int(n_trials / share / (2 * n_agents * (n_agents - 1))))
    texts = np.full((n_agents, n_items), "a response of some length", dtype=object)
    pool = Pool(tuple(Agent(f"a{i}") for i in range(n_agents)), tuple(Item(f"i{j}") for j in range(n_items)), texts)
    return pool, None if design == "dense" else n_trials


def one(case: str, n_trials: int) -> dict[str, float]:
    """Plan, answer at random, tally and score one case, in this process."""
    design, n_agents = CASES[case]
    pool, calls = pool_for(design, n_agents, n_trials)
    before = _peak_mb()
    began = time.process_time()
    plan = make_plan(pool, design=design, calls=calls, holdout=0.0)
    planned = time.process_time() - began
    peak = _peak_mb()
    answer = np.random.default_rng(0).random(len(plan))
    result = Verdicts(plan, answer, np.rint(answer), np.zeros(len(plan), dtype=np.int8), {"name": "random"})
    began = time.process_time()
    rates = tally(result)
    tallied = time.process_time() - began
    began = time.process_time()
    train_scores(rates)
    return {
        "trials": len(plan),
        "plan_cpu_s": round(planned, 2),
        "plan_peak_mb": round(peak),
        "plan_added_mb": round(peak - before),
        "tally_cpu_s": round(tallied, 2),
        "scores_cpu_s": round(time.process_time() - began, 2),
        "peak_mb": round(_peak_mb()),
    }


def _peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000_000)
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(one(arguments.case, arguments.trials)))
        return
    table = {}
    for case in CASES:
        command = [sys.executable, __file__, "--case", case, "--trials", str(arguments.trials)]
        table[case] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    text = json.dumps(table, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
