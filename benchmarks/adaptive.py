"""What adaptive rounds buy beside cyclic slots on the paper's judge data, and how often the stopping rule errs on ties.

It knows replayed judge data and simulated ties; it refuses to know a judge.
`python benchmarks/adaptive.py [--seeds 50] [--runs 300] [--shared FOLDER] [--out FILE]` prints JSON.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from recorded import SHARED, world_of
from youden.nouns import PAIRED, Agent, Item, Plan, Pool, Verdicts
from youden.nouns.pool import Floats
from youden.protocol.plan import make_plan
from youden.run.rounds import run_rounds
from youden.study.budget_curves import study_budget

FIELDS = ("percent", "calls", "rho_mean", "rho_sd", "coverage", "halfwidth", "recall")
TIES = {
    "two at the edge": np.array([0.4, 0.35, 0.3, 0.05, 0.05, -0.1, -0.15, -0.2, -0.25, -0.3]),
    "six around the edge": np.array([0.4, 0.35, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -0.35, -0.4]),
    "all": np.zeros(10),
}
"""Abilities of ten agents, of whom the fourth and the fifth are equal."""


def coin_flips(plan: Plan, *, paired: Floats) -> Verdicts:
    """A yes-or-no judge whose answers are fixed beforehand."""
    answer = np.where(plan.arm == PAIRED, paired[plan.item, plan.first, plan.second], 0.0)
    return Verdicts(plan, answer, answer, np.zeros(len(plan), dtype=np.int8), {"name": "coin flips"})


def separated(ability: Floats, *, seed: int) -> bool:
    """Whether 'the top 4 are separated' was said in a run of ten agents on 100 items."""
    K, J = len(ability), 100
    texts = np.full((K, J), "", dtype=object)
    pool = Pool(tuple(Agent(f"a{i}") for i in range(K)), tuple(Item(f"i{j}") for j in range(J)), texts)
    mean = 0.5 + (ability[:, None] + ability) / 2
    paired = (np.random.default_rng(seed).random((J, K, K)) < mean).astype(np.float64)
    plan = make_plan(pool, design="adaptive", percent=30, n_independent=0, seed=seed, options={"top": 4})
    return "separated" in run_rounds(plan, pool, partial(coin_flips, paired=paired)).plan.notes[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    replayed = {}
    for name in ("PubMed", "ICLR", "SAMSum"):
        world = world_of(name, arguments.shared)
        study = study_budget(world, designs=["cyclic", "adaptive"], percents=[2, 5, 10], n_seeds=arguments.seeds)
        replayed[name] = {
            design: [{field: round(asdict(row)[field], 4) for field in FIELDS} for row in rows]
            for design, rows in study.designs.items()
        }
    wrong = {
        name: sum(separated(ability, seed=seed) for seed in range(arguments.runs)) / arguments.runs
        for name, ability in TIES.items()
    }
    text = json.dumps(
        {"seeds": arguments.seeds, "replayed": replayed, "runs": arguments.runs, "wrong stops": wrong}, indent=2
    )
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
