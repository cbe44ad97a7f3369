"""Measure CPU time and peak memory of scores, means and intervals of a cyclic run that is read in chunks, in a new process.

Whether the ranking is right is tested in tests/pipeline/test_fit_in_chunks.py. Answers are random, and the files are deleted.

`python benchmarks/parts.py [--trials 10000000 100000000] [--at DIR] [--smoke]` prints JSON. `--whole` measures `youden fit` and
`youden report` of a complete run instead, including imports. Bar: with `--trials 50000000 --agents 500 --items 10000`, the report
takes at most 60 CPU s and 3 GB.
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
from youden.data.folder.pool_summary import PoolSummary
from youden.data.folder.run_config import RunConfig
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
from youden.types.trials import MAIN, POOLED

BLOCKS_PER_TABLE = 4_000
_COLUMNS = (*TRIALS, *ANSWERS)


def make_plan_without_trials(n_agents: int, n_items: int) -> Plan:
    """Make a cyclic plan without its trials."""
    all_cells = np.ones((n_agents, n_items), dtype=np.bool_)
    return Plan(
        trials=Trials.concat([]),
        split=Split(all_cells, ~all_cells, "strict", 0.0, 0),
        design="cyclic",
        options={},
        independent="pooled",
        seed=0,
        pool_digest="0" * 64,
        agent_ids=tuple(f"agent-{i}" for i in range(n_agents)),
        item_ids=tuple(f"item-{j}" for j in range(n_items)),
    )


def make_tables(plan: Plan, n_trials: int) -> Iterator[pa.Table]:
    """Yield tables of random answers to blocks of a cyclic plan, and at the end of 1,000 independent trials."""
    rng = np.random.default_rng(0)
    K, J = plan.n_agents, plan.n_items
    order = rng.permutation(K).astype(np.int32)
    p_yes = 0.3 + 0.4 * rng.random(K)
    n_blocks = n_trials // K
    for start in range(0, n_blocks, BLOCKS_PER_TABLE):
        blocks = np.arange(start, min(start + BLOCKS_PER_TABLE, n_blocks))
        second = np.concatenate([np.roll(order, -1 - int((number + number // J) % (K - 1))) for number in blocks])
        item = np.repeat((blocks % J).astype(np.int32), K)
        block = np.repeat(blocks.astype(np.int32), K)
        yield _encode_trials(
            plan, rng, p_yes=p_yes, item=item, first=np.tile(order, len(blocks)), second=second, block=block
        )
    n = 1_000
    agent = rng.integers(0, K - 1, n).astype(np.int32)
    item, block = rng.integers(0, J, n).astype(np.int32), np.full(n, -1, dtype=np.int32)
    yield _encode_trials(plan, rng, p_yes=p_yes, item=item, first=agent, second=agent + 1, block=block)


def _encode_trials(
    plan: Plan, rng: np.random.Generator, *, p_yes: Floats, item: Ids, first: Ids, second: Ids, block: Ids
) -> pa.Table:
    """Encode trials with random answers; a block of −1 stands for independent trials."""
    n, is_independent = len(item), bool(block[0] < 0)
    answer = (rng.random(n) < (0.05 if is_independent else p_yes[first])).astype(np.float64)
    values: dict[str, NDArray[Any] | None] = dict.fromkeys(column.name for column in _COLUMNS)
    values |= {
        "item": item,
        "first": first,
        "second": second,
        "trial_type": np.full(n, int(is_independent)),
        "other_item": (item + 1) % plan.n_items if is_independent else np.full(n, -1),
        "replicate": np.zeros(n, dtype=np.int32),
        "block": block,
        "role": np.full(n, POOLED if is_independent else MAIN),
        "step": np.zeros(n, dtype=np.int32),
        "weight_first": np.ones(n),
        "weight_second": np.ones(n),
        "answer": answer,
        "hard_answer": answer,
        "missing_reason": np.full(n, -1),
    }
    return encode_table(_COLUMNS, values, {"agents": plan.agent_ids, "items": plan.item_ids})


def write_run(folder: Path, plan: Plan, n_trials: int) -> None:
    """Write a judged run with these answers. Its plan has no trials, which neither `fit` nor `report` reads."""
    run = RunFolder(folder)
    metadata = VerdictsMetadata(
        plan_digest=plan.digest, judge={"name": "made"}, models=(), warnings=(), measured=(), usd_calibration=0.0
    )
    folder.mkdir(parents=True, exist_ok=True)
    tables = make_tables(plan, n_trials)
    first = next(tables)
    schema = with_table_metadata(first.schema, metadata)
    with pq.ParquetWriter(run.file("verdicts.parquet"), schema, compression="zstd") as file:
        for table in chain([first], tables):
            file.write_table(table.cast(schema))
    run.write_plan(plan)
    agents = tuple(map(Agent, plan.agent_ids))
    text_values = {"mean_words": np.full(plan.n_agents, 50.0)}
    run.write_pool(PoolSummary("made", plan.pool_digest, "made", agents, plan.item_ids, 0, text_values))
    run.write_config(RunConfig.model_validate({"name": "made", "pool": str(folder / "no-texts"), "out": str(folder)}))


def measure_commands(folder: Path) -> dict[str, float]:
    """Fit the run in `folder` and write its report, each in its own process."""
    figures: dict[str, float] = {}
    for name, arguments in (("fit", ["fit"]), ("report", ["report"])):
        command = [sys.executable, "-c", MEASURING_SCRIPT, *arguments, str(folder)]
        process = subprocess.run(command, check=True, capture_output=True, text=True)
        cpu, peak = map(float, process.stderr.split()[-2:])
        figures |= {f"{name}_cpu_s": round(cpu, 1), f"{name}_peak_gb": round(peak, 2)}
    return figures


MEASURING_SCRIPT = """
import os, resource, runpy, sys
sys.argv[0] = "youden"
try:
    runpy.run_module("youden", run_name="__main__")
except SystemExit as end:
    if end.code:
        raise
usage = resource.getrusage(resource.RUSAGE_SELF)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20, file=sys.stderr)
"""
"""Runs `youden`, and prints its CPU seconds and peak memory in GB to stderr."""


def measure(run: RunFolder) -> dict[str, float]:
    """Load, score and rank a run in this process."""
    start_mb, start = _peak_mb(), time.process_time()
    plan, verdicts_file = run.open_judged_files()
    chunks = open_verdict_chunks(verdicts_file, plan)
    with open_trials_by_item(lambda: (chunk.unread_copy() for chunk in chunks), plan, run.path) as trials:
        loaded = time.process_time()
        sums = ChunkSums(trials.iter_rates(), plan, trials.false_positives)
        scored = time.process_time()
        abilities = estimate_trial_abilities(trials, EstimationRequest())
        ranked = time.process_time()
    return {
        "trials": float(sums.n_trials_by_item.sum()),
        "load_cpu_s": round(loaded - start, 2),
        "cells_cpu_s": round(scored - loaded, 2),
        "intervals_cpu_s": round(ranked - scored, 2),
        "cpu_s": round(ranked - start, 2),
        "peak_mb": round(_peak_mb()),
        "start_mb": round(start_mb),
        "mean_error": float(abilities.covariance.std_error.mean()) if abilities else float("nan"),
    }


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--agents", type=int, default=1_000)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--at", type=Path)
    parser.add_argument("--whole", action="store_true", help="measure `youden fit` and `youden report`")
    parser.add_argument("--smoke", action="store_true", help="measure small runs")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.trials, arguments.agents, arguments.items = [20_000, 40_000], 50, 200
    plan = make_plan_without_trials(arguments.agents, arguments.items)
    if arguments.one is not None:
        print(json.dumps(measure(RunFolder(arguments.one))))
        return
    results = []
    for n_trials in arguments.trials:
        with TemporaryDirectory(dir=arguments.at, prefix="parts-") as folder:
            write_run(Path(folder), plan, n_trials)
            if arguments.whole:
                results.append({"trials": n_trials} | measure_commands(Path(folder)))
            else:
                command = [sys.executable, __file__, "--one", folder]
                process = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
                results.append(json.loads(process.stdout))
            print(json.dumps(results[-1]), file=sys.stderr)
    time_column = "report_cpu_s" if arguments.whole else "cpu_s"
    print(json.dumps({"runs": results, "growth": results[-1][time_column] / results[0][time_column]}, indent=1))


if __name__ == "__main__":
    main()
