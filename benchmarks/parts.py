"""What blocks of items take for cells, means and intervals of a cyclic run: CPU time and the peak of memory of a fresh process.

It measures CPU time, memory and their growth, not whether the ranking is right (tests/pipeline/test_in_blocks.py does).
`python benchmarks/parts.py [--trials 10000000 100000000] [--at DIR] [--smoke]` prints JSON. Answers are made up, files deleted.
`--whole` times `youden fit` and `youden report` of a whole run instead, imports included: at
`--trials 50000000 --agents 500 --items 10000` the report takes at most 60 CPU s and 3 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from youden.data.folder.parquet_tables import encode_table, with_table_metadata
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_files import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.data.folder.table_columns import ANSWERS, TRIALS
from youden.data.folder.trial_tables import VerdictsMetadata, open_verdict_chunks
from youden.engines.block_sums import ChunkSums
from youden.engines.trial_blocks import open_trials_by_item
from youden.pipeline.abilities import EstimationRequest
from youden.pipeline.ranking import estimate_trial_abilities
from youden.types import Agent, Plan, Trials
from youden.types.planning import Split
from youden.types.pool import Floats, Ids
from youden.types.trials import PLAN, POOLED

SLOTS_OF_A_PART = 4_000
_COLUMNS = (*TRIALS, *ANSWERS)


def plan_of(n_agents: int, n_items: int) -> Plan:
    """A cyclic plan without its trials."""
    every = np.ones((n_agents, n_items), dtype=np.bool_)
    return Plan(
        trials=Trials.concat([]),
        split=Split(every, ~every, "shared", 0.0, 0),
        design="cyclic",
        options={},
        independent="pooled",
        seed=0,
        pool_digest="0" * 64,
        agent_ids=tuple(f"agent-{i}" for i in range(n_agents)),
        item_ids=tuple(f"item-{j}" for j in range(n_items)),
    )


def make_tables(plan: Plan, n_trials: int) -> Iterator[pa.Table]:
    """Made-up answers to slots of a cyclic plan, and 1,000 independent ones at the end."""
    rng = np.random.default_rng(0)
    K, J = plan.n_agents, plan.n_items
    order = rng.permutation(K).astype(np.int32)
    level = 0.3 + 0.4 * rng.random(K)
    n_slots = n_trials // K
    for start in range(0, n_slots, SLOTS_OF_A_PART):
        slots = np.arange(start, min(start + SLOTS_OF_A_PART, n_slots))
        second = np.concatenate([np.roll(order, -1 - int((s + s // J) % (K - 1))) for s in slots])
        item = np.repeat((slots % J).astype(np.int32), K)
        slot = np.repeat(slots.astype(np.int32), K)
        yield _table(plan, rng, level=level, item=item, first=np.tile(order, len(slots)), second=second, slot=slot)
    n = 1_000
    some = rng.integers(0, K - 1, n).astype(np.int32)
    item, slot = rng.integers(0, J, n).astype(np.int32), np.full(n, -1, dtype=np.int32)
    yield _table(plan, rng, level=level, item=item, first=some, second=some + 1, slot=slot)


def _table(
    plan: Plan, rng: np.random.Generator, *, level: Floats, item: Ids, first: Ids, second: Ids, slot: Ids
) -> pa.Table:
    n, apart = len(item), bool(slot[0] < 0)
    answer = (rng.random(n) < (0.05 if apart else level[first])).astype(np.float64)
    values: dict[str, NDArray[Any] | None] = dict.fromkeys(column.name for column in _COLUMNS)
    values |= {
        "item": item,
        "first": first,
        "second": second,
        "arm": np.full(n, int(apart)),
        "other_item": (item + 1) % plan.n_items if apart else np.full(n, -1),
        "replicate": np.zeros(n, dtype=np.int32),
        "slot": slot,
        "role": np.full(n, POOLED if apart else PLAN),
        "step": np.zeros(n, dtype=np.int32),
        "weight_first": np.ones(n),
        "weight_second": np.ones(n),
        "answer": answer,
        "hard": answer,
        "missing": np.full(n, -1),
    }
    return encode_table(_COLUMNS, values, {"agents": plan.agent_ids, "items": plan.item_ids})


def write_run(folder: Path, plan: Plan, n_trials: int) -> None:
    """A judged run, of the same answers; its plan has no trials, which neither the fit nor its report reads."""
    run = RunFolder(folder)
    said = VerdictsMetadata(
        plan_digest=plan.digest, judge={"name": "made"}, models=(), warnings=(), measured=(), usd_tried=0.0
    )
    folder.mkdir(parents=True, exist_ok=True)
    tables = make_tables(plan, n_trials)
    first = next(tables)
    schema = with_table_metadata(first.schema, said)
    with pq.ParquetWriter(run.file("verdicts.parquet"), schema, compression="zstd") as file:
        for table in chain([first], tables):
            file.write_table(table.cast(schema))
    run.write_plan(plan)
    agents, length = tuple(map(Agent, plan.agent_ids)), np.full(plan.n_agents, 50.0)
    run.write_pool(PoolSummary("made", plan.pool_digest, "made", agents, plan.item_ids, 0, length))
    run.write_config(RunConfig.model_validate({"name": "made", "pool": str(folder / "no-texts"), "out": str(folder)}))


def measure_whole(folder: Path) -> dict[str, float]:
    """Fit the run in `folder` and write its report, each in a process of its own."""
    found: dict[str, float] = {}
    for name, words in (("fit", ["fit"]), ("report", ["report"])):
        command = [sys.executable, "-c", AND_SAY, *words, str(folder)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        cpu, peak = map(float, done.stderr.split()[-2:])
        found |= {f"{name}_cpu_s": round(cpu, 1), f"{name}_peak_gb": round(peak, 2)}
    return found


AND_SAY = """
import os, resource, runpy, sys
sys.argv[0] = "youden"
try:
    runpy.run_module("youden", run_name="__main__")
except SystemExit as end:
    if end.code:
        raise
said = resource.getrusage(resource.RUSAGE_SELF)
print(said.ru_utime + said.ru_stime, said.ru_maxrss / 2**20, file=sys.stderr)
"""
"""Runs `youden`, then says its CPU seconds and its peak of memory."""


def measure(run: RunFolder) -> dict[str, float]:
    """Load, tally and rank a run, in this process."""
    before, began = _peak_mb(), time.process_time()
    plan, of = run.open_judged_files()
    rows = open_verdict_chunks(of, plan)
    with open_trials_by_item(lambda: (some.unread_copy() for some in rows), plan, run.path) as trials:
        loaded = time.process_time()
        sums = ChunkSums(trials.iter_rates(), plan, trials.false_positives)
        tallied_at = time.process_time()
        found = estimate_trial_abilities(trials, EstimationRequest())
        done = time.process_time()
    return {
        "trials": float(sums.n_trials_by_item.sum()),
        "load_cpu_s": round(loaded - began, 2),
        "cells_cpu_s": round(tallied_at - loaded, 2),
        "intervals_cpu_s": round(done - tallied_at, 2),
        "cpu_s": round(done - began, 2),
        "peak_mb": round(_peak_mb()),
        "start_mb": round(before),
        "mean_error": float(found.covariance.std_error.mean()) if found else float("nan"),
    }


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--agents", type=int, default=1_000)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--at", type=Path)
    parser.add_argument("--whole", action="store_true", help="time `youden fit` and `youden report`")
    parser.add_argument("--smoke", action="store_true", help="a small run, to see that all works")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.smoke:
        said.trials, said.agents, said.items = [20_000, 40_000], 50, 200
    plan = plan_of(said.agents, said.items)
    if said.one is not None:
        print(json.dumps(measure(RunFolder(said.one))))
        return
    found = []
    for n_trials in said.trials:
        with TemporaryDirectory(dir=said.at, prefix="parts-") as folder:
            write_run(Path(folder), plan, n_trials)
            if said.whole:
                found.append({"trials": n_trials} | measure_whole(Path(folder)))
            else:
                one = [sys.executable, __file__, "--one", folder]
                done = subprocess.run(one, check=True, capture_output=True, text=True, env=os.environ)
                found.append(json.loads(done.stdout))
            print(json.dumps(found[-1]), file=sys.stderr)
    timed = "report_cpu_s" if said.whole else "cpu_s"
    print(json.dumps({"runs": found, "growth": found[-1][timed] / found[0][timed]}, indent=1))


if __name__ == "__main__":
    main()
