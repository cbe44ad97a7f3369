"""Measure how CPU time and memory of `fit`, `report`, `replay`, `lexical`, request hashes and texts grow with the run.

    python benchmarks/scale.py [--trials 1e5 1e6] [--shape 200 2000] [--smoke] [--no-page] [--out FILE]

prints JSON: `parts`, a row per size and part; `bars`, their ratios; `page`, the report of 1,000 agents × 2,000 items with its
first paint in Chromium (None if it is not installed). Each part runs in its own process: CPU seconds without imports, and peak
resident memory. `base` reads plan.parquet and verdicts.parquet, sums and solves once; `fit` and `report` are compared with it.
Runs are cyclic, with random answers and without texts. For ten million trials: `--trials 1e7 --shape 500 10000 --no-page`.

Bars: fit / base ≤ 3, report / base ≤ 4; growth of fit ≤ 1.1; replay ≤ 20 µs; keys ≤ 12 µs; `texts` and `texts_in_lines`, the plan
of a pool with texts, ≤ 1.2 GB and 12 s at 500 × 10,000 (`reading` and `reading_lines` only read that pool); page ≤ 5 MB and
1,000 ms.

To add a part, add to PARTS a function of the run folder that returns the function to be measured.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

import numpy as np

from results import print_results
from scale_pool import write_pool

if TYPE_CHECKING:
    from youden.types import Plan

N_INDEPENDENT = 1_000
JUDGE = {"backend": "wire", "model": "made", "base_url": "http://made.invalid", "prompt": "same-source", "price": 0}
SMOKE_SIZE = (2_000, (20, 100))
WIDE_SIZE = (300_000, (1_000, 2_000))
N_REPLAYED = 20_000
RUN_PARTS = ("base", "fit", "report")
TEXT_PARTS = {"reading": "texts", "reading_lines": "texts_in_lines"}
"""Part that only reads a pool → part that plans over it: Parquet, and JSON lines."""
MAX_REPORT_TRIALS = 2_000_000
"""Maximum number of trials for which a report is written."""


def make_run(folder: Path, n_trials: int, n_agents: int, n_items: int) -> None:
    """Make a judged run: a cyclic plan over complete cells, with random answers by ability and difficulty."""
    from youden.data.folder.pool_summary import PoolSummary
    from youden.data.folder.run_config import RunConfig
    from youden.data.folder.run_folder import RunFolder
    from youden.protocol.designs.cyclic import Cyclic
    from youden.streams import standalone_stream
    from youden.types import PAIRED, Agent, Plan, Trials, Verdicts
    from youden.types.planning import Split

    rng = standalone_stream(0)
    cells = np.ones((n_agents, n_items), dtype=np.bool_)
    paired = Cyclic(n_trials).draw(cells, rng).trials
    first, second = rng.integers(n_agents, size=(2, N_INDEPENDENT), dtype=np.int32)
    item, other_item = rng.integers(n_items, size=(2, N_INDEPENDENT), dtype=np.int32)
    is_valid = (first != second) & (item != other_item)
    independent = Trials.independent(item[is_valid], first[is_valid], second[is_valid], other_item[is_valid])
    agents = tuple(f"agent-{i}" for i in range(n_agents))
    items = tuple(f"item-{j}" for j in range(n_items))
    plan = Plan(
        trials=Trials.concat([paired, independent]),
        split=Split(cells, ~cells, "strict", 0.0, 0),
        design="cyclic",
        options={"calls": n_trials},
        independent="pooled",
        n_independent=int(is_valid.sum()),
        seed=0,
        pool_digest="0" * 64,
        agent_ids=agents,
        item_ids=items,
    )
    ability, difficulty = rng.normal(0.6, 0.15, n_agents), rng.normal(0, 0.1, n_items)
    p_yes = (ability[plan.first] + ability[plan.second]) / 2 - difficulty[plan.item]
    answer = (rng.random(len(plan)) < np.where(plan.trial_type == PAIRED, p_yes, 0.02)).astype(np.float64)
    missing_reason = np.zeros(len(plan), dtype=np.int8)
    run = RunFolder(folder)
    text_values = {"mean_words": np.full(n_agents, 50.0)}
    run.write_pool(PoolSummary("made", plan.pool_digest, "made", tuple(map(Agent, agents)), items, 0, text_values))
    run.write_plan(plan)
    run.write_verdicts(Verdicts(plan, answer, answer.copy(), missing_reason, {"name": "made"}))
    run.write_config(RunConfig.model_validate({"name": "made", "pool": str(folder / "no-texts"), "out": str(folder)}))


def prepare_base(folder: Path) -> Callable[[], object]:
    """Prepare to read, to sum and to solve once."""
    from youden.data.folder.run_folder import RunFolder
    from youden.stats.additive.clipped_linear import ClippedLinear

    def read_and_solve() -> object:
        run = RunFolder(folder)
        plan = run.read_plan()
        return ClippedLinear().fit(run.read_verdicts(plan).rates().training_scores())

    return read_and_solve


def prepare_fit(folder: Path) -> Callable[[], object]:
    """Prepare to fit the run."""
    from youden.data.folder.run_folder import RunFolder
    from youden.pipeline.fitted_run import fit_run

    return lambda: fit_run(RunFolder(folder))


def prepare_report(folder: Path) -> Callable[[], object]:
    """Prepare to write the report of the run."""
    from youden.data.folder.run_folder import RunFolder
    from youden.report.pages.writing import write_report

    return lambda: write_report(RunFolder(folder))


def prepare_replay(folder: Path) -> Callable[[], object]:
    """Store answers to N_REPLAYED trials with texts of 500 characters, and prepare to replay them."""
    from youden.judging.config.judge_files import load_judge_config
    from youden.judging.question.questions import iter_keys
    from youden.judging.store.answers import open_store
    from youden.judging.store.plan_answers import read_answers
    from youden.types import Completion

    plan = make_text_plan(folder)
    questions = load_judge_config(JUDGE).questions()
    completion = Completion("YES", "stop", "made", 300, 1)
    with open_store(folder / "replay.db") as store:
        for _, request_hash, _ in questions.iter_requests(plan):
            store.add(request_hash, completion)

    def replay() -> object:
        with open_store(folder / "replay.db", read_only=True) as store:
            answers = read_answers(questions, plan, store, iter_keys(questions, plan))
            return answers.to_verdicts({"name": "made"})

    return replay


def prepare_keys(folder: Path) -> Callable[[], object]:
    """Prepare to compute and to write the request hashes of the same trials."""
    from youden.judging.config.judge_files import load_judge_config
    from youden.judging.question.questions import iter_keys
    from youden.pipeline.request_hashes import KeysMetadata, write_hashes

    plan = make_text_plan(folder)
    questions = load_judge_config(JUDGE).questions()
    metadata = KeysMetadata(plan_digest=plan.digest, judge_digest=questions.digest)
    return lambda: write_hashes(
        folder / "keys.parquet", (request_hash for _, request_hash in iter_keys(questions, plan)), metadata
    )


def prepare_texts(folder: Path) -> Callable[[], object]:
    """Prepare to plan over a Parquet pool of the run's shape, with 297 bytes per text."""
    return prepare_planning(folder, write_pool(folder) / "pool.parquet")


def prepare_texts_in_lines(folder: Path) -> Callable[[], object]:
    """Prepare to plan over the same pool as a folder of JSON lines."""
    return prepare_planning(folder, write_pool(folder))


def prepare_reading(folder: Path) -> Callable[[], object]:
    """Prepare to read all rows of the Parquet pool."""
    import pyarrow.parquet as pq

    table = pq.ParquetFile(write_pool(folder) / "pool.parquet", pre_buffer=False)
    return lambda: sum(len(batch) for batch in table.iter_batches(batch_size=10_000))


def prepare_reading_lines(folder: Path) -> Callable[[], object]:
    """Prepare to parse all lines of responses of the folder by orjson."""
    import orjson

    lines = (write_pool(folder) / "responses.jsonl").open("rb")
    return lambda: sum(len(orjson.loads(line)) for line in lines)


def prepare_planning(folder: Path, pool: Path) -> Callable[[], object]:
    """Prepare to plan over a pool, with the calls of the run."""
    from youden.data.folder.run_config import RunConfig
    from youden.data.folder.run_folder import RunFolder
    from youden.pipeline.judged_run import plan_run

    calls = int(str(RunFolder(folder).read_plan_without_trials().options["calls"]))
    out = str(folder / f"planned-{pool.name}")
    config = RunConfig.model_validate({"name": "texts", "pool": str(pool), "out": out, "calls": calls})
    return lambda: plan_run(config)


def prepare_lexical(folder: Path) -> Callable[[], object]:
    """Prepare to run the judge `lexical` on the texts of the replay."""
    from youden.judging.backends.lexical import Lexical

    plan = make_text_plan(folder)
    return lambda: Lexical().answer_many(plan)


def make_text_plan(folder: Path) -> Plan:
    """Make a plan over texts of 80 words by 50 agents on 200 items."""
    import youden
    from youden.types import Agent, Item, Pool

    rng = np.random.default_rng(0)
    words = np.array([f"word{k}" for k in range(5000)], dtype=object)
    texts = np.empty((50, 200), dtype=object)
    for cell in np.ndindex(texts.shape):
        texts[cell] = " ".join(words[rng.integers(5000, size=80)])
    agents = tuple(Agent(f"a{i}") for i in range(50))
    items = tuple(Item(f"i{j}") for j in range(200))
    pool = Pool(agents, items, texts)
    return youden.make_plan(pool, design="cyclic", calls=N_REPLAYED, holdout=0.0, seed=0)


PARTS: Mapping[str, Callable[[Path], Callable[[], object]]] = {
    "base": prepare_base,
    "fit": prepare_fit,
    "report": prepare_report,
    "replay": prepare_replay,
    "keys": prepare_keys,
    "lexical": prepare_lexical,
    "texts": prepare_texts,
    "texts_in_lines": prepare_texts_in_lines,
    "reading": prepare_reading,
    "reading_lines": prepare_reading_lines,
}


def measure(part: str, folder: Path) -> dict[str, float]:
    """Measure one part in this process, after the same part of a small run, which loads the modules that it needs."""
    if part in RUN_PARTS:
        small = folder.parent / "small"
        for name in dict.fromkeys(("fit", part)):
            PARTS[name](small)()
    act = PARTS[part](folder)
    start = process_time()
    act()
    return {"cpu_seconds": round(process_time() - start, 3), "peak_gb": peak_gb(resource.RUSAGE_SELF)}


def peak_gb(usage_of: int) -> float:
    """Return the peak resident memory in GB; usage_of is RUSAGE_SELF or RUSAGE_CHILDREN."""
    return round(resource.getrusage(usage_of).ru_maxrss / 2**20, 2)


def run_in_process(*arguments: object) -> dict[str, float]:
    """Run a part in its own process, with the environment of a command."""
    from youden.cli import DEFAULT_ENVIRONMENT

    command = [sys.executable, __file__, *map(str, arguments)]
    process = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=DEFAULT_ENVIRONMENT | os.environ)
    figures: dict[str, float] = json.loads(process.stdout or "{}")
    return figures


def measure_parts(
    folder: Path, n_trials: int, shape: tuple[int, int], *, parts: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Make a run of one size, and measure its parts, each in its own process."""
    run_folder = folder / f"{n_trials}-{shape[0]}x{shape[1]}"
    run_in_process("make", run_folder, n_trials, *shape)
    figures = {part: run_in_process(part, run_folder) for part in parts}
    if "report" in figures:
        figures["report"]["megabytes"] = round((run_folder / "report.html").stat().st_size / 1e6, 2)
    return figures


def first_paint(page: Path) -> float | None:
    """Return the first paint of a page in milliseconds; None if Chromium or its driver is not installed."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        return None
    script = f"from pathlib import Path; from report import measure_page; print(measure_page(Path({str(page)!r}))['first paint'])"
    process = subprocess.run(
        [sys.executable, "-c", script], cwd=Path(__file__).parent, check=True, stdout=subprocess.PIPE
    )
    return round(float(process.stdout), 1)


def compute_bars(figures_by_size: Mapping[int, Mapping[str, Mapping[str, float]]]) -> dict[str, float]:
    """Compute the ratios within one size, the growth between sizes, and microseconds per trial."""
    ratios = {}
    cpu = {n: {part: figures["cpu_seconds"] for part, figures in parts.items()} for n, parts in figures_by_size.items()}
    for n, parts in cpu.items():
        for part in ("fit", "report"):
            if part in parts:
                ratios[f"{part} / base at {n}"] = round(parts[part] / parts["base"], 2)
        for reading_part, planning_part in TEXT_PARTS.items():
            if planning_part in parts:
                ratios[f"{planning_part} / {reading_part} at {n}"] = round(
                    parts[planning_part] / parts[reading_part], 2
                )
        for part in ("replay", "keys", "lexical"):
            if part in parts:
                ratios[f"{part}, microseconds per trial"] = round(1e6 * parts[part] / N_REPLAYED, 1)
    sizes = sorted(cpu)
    for smaller, larger in pairwise(sizes):
        growth = math.log(cpu[larger]["fit"] / cpu[smaller]["fit"]) / math.log(larger / smaller)
        ratios[f"growth of fit, {smaller} to {larger}"] = round(growth, 2)
    return ratios


def main() -> None:
    if len(sys.argv) > 2 and sys.argv[1] in PARTS:
        print(json.dumps(measure(sys.argv[1], Path(sys.argv[2]))))
        return
    if len(sys.argv) > 2 and sys.argv[1] == "make":
        make_run(Path(sys.argv[2]), *map(int, sys.argv[3:6]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=float, nargs="+", default=[1e5, 1e6])
    parser.add_argument("--shape", type=int, nargs=2, default=(200, 2_000), metavar=("AGENTS", "ITEMS"))
    parser.add_argument("--smoke", action="store_true", help="measure small sizes")
    parser.add_argument("--no-page", action="store_true", help="skip the wide report")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    sizes = [SMOKE_SIZE[0]] if arguments.smoke else sorted(map(int, arguments.trials))
    table: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        figures_by_size = {}
        run_in_process("make", Path(folder) / "small", SMOKE_SIZE[0], *SMOKE_SIZE[1])
        for n in sizes:
            shape = SMOKE_SIZE[1] if arguments.smoke else tuple(arguments.shape)
            parts = [part for part in RUN_PARTS if part != "report" or n <= MAX_REPORT_TRIALS]
            figures_by_size[n] = measure_parts(
                Path(folder),
                n,
                shape,
                parts=[
                    *parts,
                    *TEXT_PARTS,
                    *TEXT_PARTS.values(),
                    *(["replay", "keys", "lexical"] if n == sizes[0] else []),
                ],
            )
        table |= {"parts": figures_by_size, "bars": compute_bars(figures_by_size)}
        if not arguments.no_page and not arguments.smoke:
            n, wide_shape = WIDE_SIZE
            table["page"] = measure_parts(Path(folder), n, wide_shape, parts=["fit", "report"])["report"] | {
                "first_paint_ms": first_paint(Path(folder) / f"{n}-{wide_shape[0]}x{wide_shape[1]}" / "report.html")
            }
    print_results(table, arguments.out)


if __name__ == "__main__":
    main()
