"""What `fit`, `report` and `replay` take as runs grow, beside reading, tallying and solving alone.

    python benchmarks/scale.py [--trials 1e5 1e6] [--smoke] [--out FILE]

prints JSON: a row for each size and part, then the bars. Each part runs in a process of its own, whose CPU seconds (without
imports) and peak resident memory it gives. `base` is reading plan.parquet and verdicts.parquet, tallying and solving once: the
yardstick of `fit` and `report`. Runs are cyclic, of made-up answers and without texts, 200 agents × 2,000 items; 1e7 trials, on
request, are 500 × 10,000. `page` is the report of a wide run, 1,000 × 2,000, with the first paint that Chromium tells through
chromedriver (left out where there is none). To add a part: a function of a folder in PARTS, and a bar in `bars`.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import process_time

import numpy as np

N_INDEPENDENT = 1_000
SHAPES = {10_000_000: (500, 10_000)}
SMOKE = (10_000, (50, 500))
REPLAYED = 20_000


def make(folder: Path, n_trials: int, n_agents: int, n_items: int) -> None:
    """A judged run: a cyclic plan over cells that are all there, answers by ability and difficulty."""
    from youden.data.folder.pool_summary import PoolSummary
    from youden.data.folder.run_config import RunConfig
    from youden.data.folder.run_folder import RunFolder
    from youden.nouns import PAIRED, Agent, Plan, Split, Trials, Verdicts
    from youden.protocol.designs.cyclic import Cyclic
    from youden.streams import own_stream

    rng = own_stream(0)
    cells = np.ones((n_agents, n_items), dtype=np.bool_)
    paired = Cyclic(n_trials).draw(cells, rng).trials
    first, second = rng.integers(n_agents, size=(2, N_INDEPENDENT), dtype=np.int32)
    item, other = rng.integers(n_items, size=(2, N_INDEPENDENT), dtype=np.int32)
    apart = (first != second) & (item != other)
    independent = Trials.independent(item[apart], first[apart], second[apart], other[apart])
    agents, items = tuple(f"agent-{i}" for i in range(n_agents)), tuple(f"item-{j}" for j in range(n_items))
    plan = Plan(
        trials=Trials.concat([paired, independent]),
        n_agents=n_agents,
        n_items=n_items,
        split=Split(cells, ~cells, "shared", 0.0, 0),
        design="cyclic",
        options={"calls": n_trials},
        independent="pooled",
        n_independent=int(apart.sum()),
        seed=0,
        pool_digest="0" * 64,
        agent_ids=agents,
        item_ids=items,
    )
    ability, difficulty = rng.normal(0.6, 0.15, n_agents), rng.normal(0, 0.1, n_items)
    chance = (ability[plan.first] + ability[plan.second]) / 2 - difficulty[plan.item]
    hard = (rng.random(len(plan)) < np.where(plan.arm == PAIRED, chance, 0.02)).astype(np.float64)
    missing = np.zeros(len(plan), dtype=np.int8)
    run = RunFolder(folder)
    run.write_pool(
        PoolSummary("made", plan.pool_digest, "made", tuple(map(Agent, agents)), items, 0, np.full(n_agents, 50.0))
    )
    run.write_plan(plan)
    run.write_verdicts(Verdicts(plan, hard, hard.copy(), missing, {"name": "made"}))
    run.write_config(RunConfig(name="made", pool=str(folder / "no-texts"), judge="lexical", out=str(folder)))


def base(folder: Path) -> Callable[[], object]:
    """Read, tally, solve."""
    from youden.data.folder.run_folder import RunFolder
    from youden.protocol.rates import tally
    from youden.protocol.scores import train_scores
    from youden.stats.additive.clipped_linear import ClippedLinear

    def act() -> object:
        run = RunFolder(folder)
        plan = run.read_plan()
        return ClippedLinear().fit(train_scores(tally(run.read_verdicts(plan)), plan.split))

    return act


def fit(folder: Path) -> Callable[[], object]:
    from youden.data.folder.run_folder import RunFolder
    from youden.run import analysis  # noqa: F401
    from youden.run.pipeline import fit_run

    return lambda: fit_run(RunFolder(folder))


def report(folder: Path) -> Callable[[], object]:
    from youden.data.folder.run_folder import RunFolder
    from youden.report.charts import figures  # noqa: F401
    from youden.report.pages.write import write_report

    return lambda: write_report(RunFolder(folder))


PARTS: Mapping[str, Callable[[Path], Callable[[], object]]] = {"base": base, "fit": fit, "report": report}


def measure(part: str, folder: Path) -> dict[str, float]:
    """One part, in this process."""
    act = PARTS[part](folder)
    began = process_time()
    act()
    return {"cpu_seconds": round(process_time() - began, 2), "peak_gb": peak(resource.RUSAGE_SELF)}


def peak(who: int) -> float:
    return round(resource.getrusage(who).ru_maxrss / 2**20, 2)


def apart(*arguments: object) -> dict[str, float]:
    """The same in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True
    )
    said: dict[str, float] = json.loads(done.stdout or "{}")
    return said


def main() -> None:
    if len(sys.argv) > 2 and sys.argv[1] in {*PARTS}:
        print(json.dumps(measure(sys.argv[1], Path(sys.argv[2]))))
    elif len(sys.argv) > 2 and sys.argv[1] == "make":
        make(Path(sys.argv[2]), *map(int, sys.argv[3:6]))


if __name__ == "__main__":
    main()
