"""How long `youden.rank` takes at 30 agents × 200 items and 2 % of the calls, beside means and their errors by pandas.

`python benchmarks/ranking.py [--repeats 15] [--out FILE]` prints JSON. Milliseconds of wall time, medians after a warm-up.
The peer ranks by `groupby("agent").answer.agg(["mean", "sem"])`: no slots, no places, no alarms, no components.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd

import youden
from youden.types import INDEPENDENT, PAIRED, Agent, Item, Plan, Pool, Verdicts

K, J = 30, 200
BAR_MS = 20


def judged(design: str) -> Verdicts:
    """Yes-or-no answers to 2 % of the dense calls."""
    pool = Pool(
        tuple(Agent(f"a{i}") for i in range(K)),
        tuple(Item(f"i{j}") for j in range(J)),
        np.array([[f"what {i} says of {j}" for j in range(J)] for i in range(K)], dtype=object),
    )
    plan = youden.make_plan(pool, design=design, calls="2%", holdout=0.0, seed=1)
    rng = np.random.default_rng(0)
    ability = rng.normal(0.5, 0.15, K)
    chance = np.where(plan.arm == PAIRED, (ability[plan.first] + ability[plan.second]) / 2, 0.05)
    answer = (rng.random(len(plan)) < chance).astype(np.float64)
    return Verdicts(plan, answer, answer.copy(), np.zeros(len(plan), dtype=np.int8), {"name": "random"})


def by_pandas(plan: Plan, result: Verdicts) -> pd.DataFrame:
    paired, apart = plan.arm == PAIRED, plan.arm == INDEPENDENT
    agent = np.append(plan.first[paired], plan.second[paired])
    trials = pd.DataFrame({"agent": agent, "answer": np.tile(result.answer[paired], 2)})
    means = trials.groupby("agent").answer.agg(["mean", "sem"])
    means["mean"] -= result.answer[apart].mean()
    return means.sort_values("mean", ascending=False)


def milliseconds(act: Callable[[], object], *, repeats: int) -> float:
    act()
    taken = []
    for _ in range(repeats):
        began = perf_counter()
        act()
        taken.append(perf_counter() - began)
    return 1000 * float(np.median(taken))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    table: dict[str, object] = {}
    for design in ("cyclic", "nlogn"):
        result = judged(design)
        ours = milliseconds(partial(youden.rank, result), repeats=arguments.repeats)
        peer = milliseconds(partial(by_pandas, result.plan, result), repeats=arguments.repeats)
        table[design] = {
            "trials": len(result.plan),
            "rank_ms": round(ours, 2),
            "pandas_ms": round(peer, 2),
            "times_pandas": round(ours / peer, 2),
            "bar_ms": BAR_MS,
            "meets_bar": ours <= BAR_MS,
        }
    text = json.dumps(table, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
