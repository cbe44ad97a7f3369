"""Measure `youden.rank` at 30 agents × 200 items and 2 % of the calls against means and standard errors by pandas.

The peer ranks by `groupby("agent").answer.agg(["mean", "sem"])`, without blocks, rank intervals, findings or components.

`python benchmarks/ranking.py [--repeats 15] [--out FILE]` prints JSON: milliseconds of wall time, medians after a warm-up.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd

import youden
from results import print_results
from youden.types import INDEPENDENT, PAIRED, Agent, Item, Plan, Pool, Verdicts

K, J = 30, 200
MAX_MILLISECONDS = 20


def simulate_verdicts(design: str) -> Verdicts:
    """Simulate yes-or-no answers to 2 % of the dense calls."""
    pool = Pool(
        tuple(Agent(f"a{i}") for i in range(K)),
        tuple(Item(f"i{j}") for j in range(J)),
        np.array([[f"response of agent {i} to item {j}" for j in range(J)] for i in range(K)], dtype=object),
    )
    plan = youden.make_plan(pool, design=design, calls="2%", holdout=0.0, seed=1)
    rng = np.random.default_rng(0)
    ability = rng.normal(0.5, 0.15, K)
    p_yes = np.where(plan.trial_type == PAIRED, (ability[plan.first] + ability[plan.second]) / 2, 0.05)
    answer = (rng.random(len(plan)) < p_yes).astype(np.float64)
    return Verdicts(plan, answer, answer.copy(), np.zeros(len(plan), dtype=np.int8), {"name": "random"})


def rank_by_pandas(plan: Plan, verdicts: Verdicts) -> pd.DataFrame:
    """Rank agents by their mean answer with pandas."""
    is_paired = plan.trial_type == PAIRED
    is_independent = plan.trial_type == INDEPENDENT
    agent = np.append(plan.first[is_paired], plan.second[is_paired])
    trials = pd.DataFrame({"agent": agent, "answer": np.tile(verdicts.answer[is_paired], 2)})
    means = trials.groupby("agent").answer.agg(["mean", "sem"])
    means["mean"] -= verdicts.answer[is_independent].mean()
    return means.sort_values("mean", ascending=False)


def measure_milliseconds(act: Callable[[], object], *, repeats: int) -> float:
    """Return the median milliseconds of `act` after a warm-up."""
    act()
    seconds = []
    for _ in range(repeats):
        start = perf_counter()
        act()
        seconds.append(perf_counter() - start)
    return 1000 * float(np.median(seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    table: dict[str, object] = {}
    for design in ("cyclic", "nlogn"):
        verdicts = simulate_verdicts(design)
        rank_ms = measure_milliseconds(partial(youden.rank, verdicts), repeats=arguments.repeats)
        pandas_ms = measure_milliseconds(partial(rank_by_pandas, verdicts.plan, verdicts), repeats=arguments.repeats)
        table[design] = {
            "trials": len(verdicts.plan),
            "rank_ms": round(rank_ms, 2),
            "pandas_ms": round(pandas_ms, 2),
            "times_pandas": round(rank_ms / pandas_ms, 2),
            "bar_ms": MAX_MILLISECONDS,
            "meets_bar": rank_ms <= MAX_MILLISECONDS,
        }
    print_results(table, arguments.out)


if __name__ == "__main__":
    main()
