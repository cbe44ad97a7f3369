"""How long and how much memory 10 million trials take to plan, and 10 million verdicts to tally; what a round of a search takes.

It knows CPU time and the peak of memory of fresh processes; it refuses to know what the trials say.
A round: the look at what was answered and the plan of what comes next, for 300 agents on 300 items with 67,575 calls, until
the budget is spent and until `within: 0.03`, with one thread: threads of linear algebra that wait for a busy core count as CPU
time, so more of them (numpy's own choice, and `--case` alone) tell how busy the machine is.
`python benchmarks/planning.py [--trials 10000000] [--case NAME] [--out FILE]` prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from youden import make_plan
from youden.pipeline.rounds import run_rounds
from youden.types import PAIRED, Agent, Item, Plan, Pool, Verdicts

CASES = {
    "dense 50 agents": ("dense", 50),
    "cyclic 30 agents": ("cyclic", 30),
    "cyclic 1000 agents": ("cyclic", 1000),
    "nlogn 100 agents": ("nlogn", 100),
}
SEARCHES: dict[str, dict[str, float]] = {
    "search of 300 agents": {},
    "search of 300 agents within .03": {"within": 0.03},
}
BAR = 0.3
"""CPU seconds a round."""


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
    rates = result.rates()
    tallied = time.process_time() - began
    began = time.process_time()
    rates.training_scores()
    return {
        "trials": len(plan),
        "plan_cpu_s": round(planned, 2),
        "plan_peak_mb": round(peak),
        "plan_added_mb": round(peak - before),
        "tally_cpu_s": round(tallied, 2),
        "scores_cpu_s": round(time.process_time() - began, 2),
        "peak_mb": round(_peak_mb()),
    }


def rounds(case: str) -> dict[str, object]:
    """A whole search, and the CPU seconds of each of its rounds, in this process. Agents differ by .08 (SD), items not at all."""
    K = J = 300
    ability = np.random.default_rng(0).normal(0, 0.08, K)
    pool = Pool(
        tuple(Agent(f"a{i}") for i in range(K)),
        tuple(Item(f"i{j}") for j in range(J)),
        np.full((K, J), "text", dtype=object),
    )
    came, went = list[float](), list[float]()

    def ask(plan: Plan) -> Verdicts:
        came.append(time.process_time())
        drawn = (
            ((plan.item.astype(np.int64) * K + plan.first) * K + plan.second) * 2_654_435_761 % 1_000_003 / 1_000_003
        )
        yes = drawn < 0.6 + ability[plan.first] + ability[plan.second]
        answer = np.where(plan.arm == PAIRED, yes, 0.0).astype(np.float64)
        result = Verdicts(plan, answer, answer, np.zeros(len(plan), dtype=np.int8), {"name": "random"})
        went.append(time.process_time())
        return result

    plan = make_plan(
        pool, design="adaptive", calls=67_575, independent="pooled:50", options={"top": 1, **SEARCHES[case]}
    )
    found = run_rounds(plan, ask)
    spent = [end - start for start, end in zip(went, [*came[1:], time.process_time()], strict=True)]
    return {
        "trials": len(found.plan),
        "cpu_s_a_round": [round(one, 3) for one in spent],
        "bar": BAR,
        "met": max(spent) <= BAR,
    }


def _peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000_000)
    parser.add_argument("--case", choices=[*CASES, *SEARCHES])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.case:
        found = rounds(arguments.case) if arguments.case in SEARCHES else one(arguments.case, arguments.trials)
        print(json.dumps(found))
        return
    table = {}
    for case in (*CASES, *SEARCHES):
        command = [sys.executable, __file__, "--case", case, "--trials", str(arguments.trials)]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} if case in SEARCHES else None
        table[case] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout)
    text = json.dumps(table, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
