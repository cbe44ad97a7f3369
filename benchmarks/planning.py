"""Measure CPU time and peak memory to plan 10 million trials and to score 10 million verdicts, and CPU time per search round.

Each case runs in its own process. A search round is the interim analysis of the answers and the plan of the next trials, for
300 agents on 300 items with 67,575 calls, until the budget is spent or until `max_regret: 0.03` is reached. Searches use one
thread, because threads of linear algebra that wait for a busy core count as CPU time, so that figures of several threads
(numpy's default, and `--case` alone) depend on the load of the machine.

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

from results import print_results
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
    "search of 300 agents within .03": {"max_regret": 0.03},
}
MAX_ROUND_SECONDS = 0.3
"""Maximum CPU seconds per round."""


def make_pool(design: str, n_agents: int, n_trials: int) -> tuple[Pool, int | None]:
    """Make a pool of which `design` takes about `n_trials`, and return it with its budget; None: the design's default."""
    share = {"dense": 1.0, "cyclic": 0.4, "nlogn": 0.5}[design]
    n_items = max(3, int(n_trials / share / (2 * n_agents * (n_agents - 1))))
    texts = np.full((n_agents, n_items), "a response of some length", dtype=object)
    pool = Pool(tuple(Agent(f"a{i}") for i in range(n_agents)), tuple(Item(f"i{j}") for j in range(n_items)), texts)
    return pool, None if design == "dense" else n_trials


def measure_case(case: str, n_trials: int) -> dict[str, float]:
    """Plan, answer at random, sum and score one case in this process."""
    design, n_agents = CASES[case]
    pool, calls = make_pool(design, n_agents, n_trials)
    peak_before = _peak_mb()
    start = time.process_time()
    plan = make_plan(pool, design=design, calls=calls, holdout=0.0)
    plan_seconds = time.process_time() - start
    peak_after = _peak_mb()
    answer = np.random.default_rng(0).random(len(plan))
    verdicts = Verdicts(plan, answer, np.rint(answer), np.zeros(len(plan), dtype=np.int8), {"name": "random"})
    start = time.process_time()
    rates = verdicts.rates()
    tally_seconds = time.process_time() - start
    start = time.process_time()
    rates.training_scores()
    return {
        "trials": len(plan),
        "plan_cpu_s": round(plan_seconds, 2),
        "plan_peak_mb": round(peak_after),
        "plan_added_mb": round(peak_after - peak_before),
        "tally_cpu_s": round(tally_seconds, 2),
        "scores_cpu_s": round(time.process_time() - start, 2),
        "peak_mb": round(_peak_mb()),
    }


def measure_search(case: str) -> dict[str, object]:
    """Run a whole search in this process, and measure the CPU seconds of each round.

    Abilities have SD .08, and items do not differ.
    """
    K = J = 300
    ability = np.random.default_rng(0).normal(0, 0.08, K)
    pool = Pool(
        tuple(Agent(f"a{i}") for i in range(K)),
        tuple(Item(f"i{j}") for j in range(J)),
        np.full((K, J), "text", dtype=object),
    )
    judging_starts, judging_ends = list[float](), list[float]()

    def judge_plan(plan: Plan) -> Verdicts:
        judging_starts.append(time.process_time())
        uniform = (
            ((plan.item.astype(np.int64) * K + plan.first) * K + plan.second) * 2_654_435_761 % 1_000_003 / 1_000_003
        )
        is_yes = uniform < 0.6 + ability[plan.first] + ability[plan.second]
        answer = np.where(plan.trial_type == PAIRED, is_yes, 0.0).astype(np.float64)
        verdicts = Verdicts(plan, answer, answer, np.zeros(len(plan), dtype=np.int8), {"name": "random"})
        judging_ends.append(time.process_time())
        return verdicts

    plan = make_plan(
        pool, design="adaptive", calls=67_575, independent="pooled:50", options={"top": 1, **SEARCHES[case]}
    )
    finished = run_rounds(plan, judge_plan)
    round_seconds = [
        end - start for start, end in zip(judging_ends, [*judging_starts[1:], time.process_time()], strict=True)
    ]
    return {
        "trials": len(finished.plan),
        "cpu_s_a_round": [round(seconds, 3) for seconds in round_seconds],
        "bar": MAX_ROUND_SECONDS,
        "met": max(round_seconds) <= MAX_ROUND_SECONDS,
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
        figures = (
            measure_search(arguments.case)
            if arguments.case in SEARCHES
            else measure_case(arguments.case, arguments.trials)
        )
        print(json.dumps(figures))
        return
    table = {}
    for case in (*CASES, *SEARCHES):
        command = [sys.executable, __file__, "--case", case, "--trials", str(arguments.trials)]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} if case in SEARCHES else None
        table[case] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout)
    print_results(table, arguments.out)


if __name__ == "__main__":
    main()
