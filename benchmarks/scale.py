"""What `fit`, `report`, `replay`, `lexical`, keys and texts take as runs grow, beside reading, tallying and solving alone.

    python benchmarks/scale.py [--trials 1e5 1e6] [--shape 200 2000] [--smoke] [--no-page] [--out FILE]

prints JSON: `parts`, a row for each size and part; `bars`, their ratios; `page`, the report of 1,000 agents × 2,000 items with
its first paint in Chromium (None without it). Each part runs in a process of its own: CPU seconds without imports, peak resident
memory. `base` is reading plan.parquet and verdicts.parquet, tallying and solving once: the yardstick of `fit` and `report`. Runs
are cyclic, of made-up answers and without texts. For ten million trials: `--trials 1e7 --shape 500 10000 --no-page`.

Bars: fit / base ≤ 3, report / base ≤ 4; growth of fit ≤ 1.1; replay ≤ 20 µs;
keys ≤ 12 µs; `texts` and `texts_in_lines`, the plan of a pool with texts, ≤ 1.2 GB and 12 s at 500 × 10,000, where `reading`
and `reading_lines` say what reading that pool alone takes; page ≤ 5 MB and 1,000 ms.
A further part is a function of a folder in PARTS that returns what is timed.
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

from scale_pool import written

if TYPE_CHECKING:
    from youden.types import Plan

N_INDEPENDENT = 1_000
JUDGE = {"backend": "wire", "model": "made", "base_url": "http://made.invalid", "prompt": "same-source", "price": 0}
SMOKE = (10_000, (50, 500))
WIDE = (300_000, (1_000, 2_000))
REPLAYED = 20_000
OF_RUNS = ("base", "fit", "report")
OF_TEXTS = {"reading": "texts", "reading_lines": "texts_in_lines"}
"""Reading a pool alone, and planning over it: in Parquet, in JSON lines."""
LARGEST_REPORT = 2_000_000
"""Trials up to which a report is written."""


def make(folder: Path, n_trials: int, n_agents: int, n_items: int) -> None:
    """A judged run: a cyclic plan over cells that are all there, answers by ability and difficulty."""
    from youden.data.folder.run_config import RunConfig
    from youden.data.folder.run_files import PoolSummary
    from youden.data.folder.run_folder import RunFolder
    from youden.protocol.designs.cyclic import Cyclic
    from youden.streams import standalone_stream
    from youden.types import PAIRED, Agent, Plan, Trials, Verdicts
    from youden.types.planning import Split

    rng = standalone_stream(0)
    cells = np.ones((n_agents, n_items), dtype=np.bool_)
    paired = Cyclic(n_trials).draw(cells, rng).trials
    first, second = rng.integers(n_agents, size=(2, N_INDEPENDENT), dtype=np.int32)
    item, other = rng.integers(n_items, size=(2, N_INDEPENDENT), dtype=np.int32)
    apart = (first != second) & (item != other)
    independent = Trials.independent(item[apart], first[apart], second[apart], other[apart])
    agents, items = tuple(f"agent-{i}" for i in range(n_agents)), tuple(f"item-{j}" for j in range(n_items))
    plan = Plan(
        trials=Trials.concat([paired, independent]),
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
    run.write_config(RunConfig.model_validate({"name": "made", "pool": str(folder / "no-texts"), "out": str(folder)}))


def base(folder: Path) -> Callable[[], object]:
    """Read, tally, solve."""
    from youden.data.folder.run_folder import RunFolder
    from youden.stats.additive.clipped_linear import ClippedLinear

    def act() -> object:
        run = RunFolder(folder)
        plan = run.read_plan()
        return ClippedLinear().fit(run.read_verdicts(plan).rates().training_scores())

    return act


def fit(folder: Path) -> Callable[[], object]:
    from youden.data.folder.run_folder import RunFolder
    from youden.pipeline.fitted_run import fit_run

    return lambda: fit_run(RunFolder(folder))


def report(folder: Path) -> Callable[[], object]:
    from youden.data.folder.run_folder import RunFolder
    from youden.report.pages.writing import write_report

    return lambda: write_report(RunFolder(folder))


def replay(folder: Path) -> Callable[[], object]:
    """A store of answers to REPLAYED trials of 500 characters a text, replayed."""
    from youden.judging.config.judge_files import load_judge_config
    from youden.judging.question.questions import iter_keys
    from youden.judging.store.answers import open_store
    from youden.judging.store.plan_answers import read_answers
    from youden.types import Completion

    plan = texts_of(folder)
    questions = load_judge_config(JUDGE).questions()
    said = Completion("YES", "stop", "made", 300, 1)
    with open_store(folder / "replay.db") as store:
        for _, key, _ in questions.iter_requests(plan):
            store.add(key, said)

    def act() -> object:
        with open_store(folder / "replay.db", read_only=True) as store:
            found = read_answers(questions, plan, store, iter_keys(questions, plan))
            return found.to_verdicts({"name": "made"})

    return act


def iter_keys(folder: Path) -> Callable[[], object]:
    """The keys of the same trials, made and written."""
    from youden.judging.config.judge_files import load_judge_config
    from youden.judging.question.questions import iter_keys as made
    from youden.pipeline.request_hashes import KeysMetadata, write_keys

    plan = texts_of(folder)
    questions = load_judge_config(JUDGE).questions()
    said = KeysMetadata(plan_digest=plan.digest, judge_digest=questions.digest)
    return lambda: write_keys(folder / "keys.parquet", (key for _, key in made(questions, plan)), said)


def texts(folder: Path) -> Callable[[], object]:
    """A plan over a Parquet pool of the run's shape, 297 bytes a text."""
    return planning(folder, written(folder) / "pool.parquet")


def texts_in_lines(folder: Path) -> Callable[[], object]:
    """The same plan over the same pool as a folder of JSON lines."""
    return planning(folder, written(folder))


def reading(folder: Path) -> Callable[[], object]:
    """Every row of that Parquet read, and nothing else done."""
    import pyarrow.parquet as pq

    table = pq.ParquetFile(written(folder) / "pool.parquet", pre_buffer=False)
    return lambda: sum(len(batch) for batch in table.iter_batches(batch_size=10_000))


def reading_lines(folder: Path) -> Callable[[], object]:
    """Every line of that folder parsed by orjson, and nothing else done."""
    import orjson

    lines = (written(folder) / "responses.jsonl").open("rb")
    return lambda: sum(len(orjson.loads(line)) for line in lines)


def planning(folder: Path, pool: Path) -> Callable[[], object]:
    from youden.data.folder.run_config import RunConfig
    from youden.data.folder.run_folder import RunFolder
    from youden.pipeline.judged_run import plan_run

    calls = int(str(RunFolder(folder).read_plan_without_trials().options["calls"]))
    out = str(folder / f"planned-{pool.name}")
    config = RunConfig.model_validate({"name": "texts", "pool": str(pool), "out": out, "calls": calls})
    return lambda: plan_run(config)


def lexical(folder: Path) -> Callable[[], object]:
    """The embedded judge on the same texts."""
    from youden.judging.backends.lexical import Lexical

    plan = texts_of(folder)
    return lambda: Lexical().answer_many(plan)


def texts_of(folder: Path) -> Plan:
    """Texts for a part of the run's plan: 50 agents × 200 items of 80 words."""
    import youden
    from youden.types import Agent, Item, Pool

    rng = np.random.default_rng(0)
    words = np.array([f"word{k}" for k in range(5000)], dtype=object)
    texts = np.empty((50, 200), dtype=object)
    for cell in np.ndindex(texts.shape):
        texts[cell] = " ".join(words[rng.integers(5000, size=80)])
    agents, items = tuple(Agent(f"a{i}") for i in range(50)), tuple(Item(f"i{j}") for j in range(200))
    pool = Pool(agents, items, texts)
    return youden.make_plan(pool, design="cyclic", calls=REPLAYED, holdout=0.0, seed=0)


PARTS: Mapping[str, Callable[[Path], Callable[[], object]]] = {
    "base": base,
    "fit": fit,
    "report": report,
    "replay": replay,
    "keys": iter_keys,
    "lexical": lexical,
    "texts": texts,
    "texts_in_lines": texts_in_lines,
    "reading": reading,
    "reading_lines": reading_lines,
}


def measure(part: str, folder: Path) -> dict[str, float]:
    """One part, in this process; what it loads where it needs it is loaded first, by the same part of a small run."""
    if part in OF_RUNS:
        small = folder.parent / "small"
        for name in dict.fromkeys(("fit", part)):
            PARTS[name](small)()
    act = PARTS[part](folder)
    began = process_time()
    act()
    return {"cpu_seconds": round(process_time() - began, 3), "peak_gb": peak(resource.RUSAGE_SELF)}


def peak(who: int) -> float:
    return round(resource.getrusage(who).ru_maxrss / 2**20, 2)


def apart(*arguments: object) -> dict[str, float]:
    """A part in a process of its own, as a command would run it."""
    from youden.cli import IDLE

    command = [sys.executable, __file__, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=IDLE | os.environ)
    said: dict[str, float] = json.loads(done.stdout or "{}")
    return said


def rows(folder: Path, n_trials: int, shape: tuple[int, int], *, parts: Sequence[str]) -> dict[str, dict[str, float]]:
    """Every part of one size, in its own process."""
    run = folder / f"{n_trials}-{shape[0]}x{shape[1]}"
    apart("make", run, n_trials, *shape)
    found = {part: apart(part, run) for part in parts}
    if "report" in found:
        found["report"]["megabytes"] = round((run / "report.html").stat().st_size / 1e6, 2)
    return found


def first_paint(page: Path) -> float | None:
    """Milliseconds, None where Chromium or its driver is not installed."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        return None
    script = f"from pathlib import Path; from report import look; print(look(Path({str(page)!r}))['first paint'])"
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parent, check=True, stdout=subprocess.PIPE)
    return round(float(done.stdout), 1)


def bars(found: Mapping[int, Mapping[str, Mapping[str, float]]]) -> dict[str, float]:
    """What the bars are about: ratios within one size, growth between sizes, microseconds a trial."""
    ratios = {}
    cpu = {n: {part: row["cpu_seconds"] for part, row in parts.items()} for n, parts in found.items()}
    for n, parts in cpu.items():
        for part in ("fit", "report"):
            if part in parts:
                ratios[f"{part} / base at {n}"] = round(parts[part] / parts["base"], 2)
        for read, planned in OF_TEXTS.items():
            if planned in parts:
                ratios[f"{planned} / {read} at {n}"] = round(parts[planned] / parts[read], 2)
        for part in ("replay", "keys", "lexical"):
            if part in parts:
                ratios[f"{part}, microseconds a trial"] = round(1e6 * parts[part] / REPLAYED, 1)
    sizes = sorted(cpu)
    for one, other in pairwise(sizes):
        growth = math.log(cpu[other]["fit"] / cpu[one]["fit"]) / math.log(other / one)
        ratios[f"growth of fit, {one} to {other}"] = round(growth, 2)
    return ratios


def main() -> None:
    if len(sys.argv) > 2 and sys.argv[1] in PARTS:
        print(json.dumps(measure(sys.argv[1], Path(sys.argv[2]))))
        return
    if len(sys.argv) > 2 and sys.argv[1] == "make":
        make(Path(sys.argv[2]), *map(int, sys.argv[3:6]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=float, nargs="+", default=[1e5, 1e6])
    parser.add_argument("--shape", type=int, nargs=2, default=(200, 2_000), metavar=("AGENTS", "ITEMS"))
    parser.add_argument("--smoke", action="store_true", help="small sizes, to see that all of it runs")
    parser.add_argument("--no-page", action="store_true", help="leave out the wide report")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    sizes = [SMOKE[0]] if asked.smoke else sorted(map(int, asked.trials))
    table: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as place:
        found = {}
        apart("make", Path(place) / "small", SMOKE[0], *SMOKE[1])
        for n in sizes:
            shape = SMOKE[1] if asked.smoke else tuple(asked.shape)
            parts = [part for part in OF_RUNS if part != "report" or n <= LARGEST_REPORT]
            found[n] = rows(
                Path(place),
                n,
                shape,
                parts=[
                    *parts,
                    *OF_TEXTS,
                    *OF_TEXTS.values(),
                    *(["replay", "keys", "lexical"] if n == sizes[0] else []),
                ],
            )
        table |= {"parts": found, "bars": bars(found)}
        if not asked.no_page and not asked.smoke:
            n, wide = WIDE
            table["page"] = rows(Path(place), n, wide, parts=["fit", "report"])["report"] | {
                "first_paint_ms": first_paint(Path(place) / f"{n}-{wide[0]}x{wide[1]}" / "report.html")
            }
    text = json.dumps(table, indent=2)
    if asked.out:
        asked.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
