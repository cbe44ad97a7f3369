"""What trials and widths buy: defaults that grow with agents, widths asked for and reached, the top against uniform trials.

`domains`: variances, ρ and top-5 recall of cyclic plans on the paper's judge data, as recorded and cut at ½ to yes or no, and
by the judge `lexical` on real models and on the shipped pool: the table in `stats/forecast.py`. `told`: what `plan` tells of the
default plan and of a smaller one, before any answer and by those of a pilot, beside what the run then has.
`default`: calls and ρ of today's default beside 2 % of the dense calls. `alpaca`: 39 real models, judge `lexical`, against
its own dense ranking. `agents`: calls, half-width and coverage from 10 to 1,000 simulated agents. `large`: 500 × 10,000 from
Parquet, CPU seconds and memory. `width`: runs asked for a width, simulated (true variances known) and replayed with items
drawn anew; `oracle` is what the true variances need, in replays the fewest slots that have the width on average. `top`:
`top: 5` against cyclic slots at the same calls.
Simulated answers are y = a_i + a_k + b_j + c_ij + c_kj + g_ik + noise, drawn anew each time.

`python benchmarks/precision.py [--only NAME,…] [--runs 200] [--smoke] [--shared FOLDER]` prints JSON, one line a row.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np

from precision_runs import SD, found_in, found_of, judged, real_models, recall, row, se
from precision_told import told
from precision_widths import SMOKE_RUNS, top, width
from recorded import SHARED, dense_abilities, world_of
from youden import make_plan
from youden.judging.backends.lexical import Lexical
from youden.pipeline.ranking import trial_abilities_from_verdicts
from youden.protocol.designs.cyclic import Cyclic
from youden.protocol.plan import PlanSize
from youden.stats import spearman
from youden.stats.forecast import REFERENCE_TRIALS, estimate_components
from youden.study.replaying import make_recorded_answers, replay


def domains(runs: int, shared: Path) -> None:
    for name, kind, D in judged(shared):
        truth, (J, K, _) = dense_abilities(D), D.shape
        for n in REFERENCE_TRIALS:
            figures = []
            for seed in range(runs):
                n_calls = min(n // 2, (K - 1) * J) * K
                found = found_of(D, Cyclic(n_calls).draw(np.ones((K, J), bool), np.random.default_rng(seed)).trials)
                half, parts = found.kind.half_width(), estimate_components(found.items, np.diag(found.kind.covariance))
                usual = half.mean() ** 2 / (half**2).mean()
                of = [
                    usual * parts.agent_item.mean(),
                    usual * parts.residual.mean(),
                    half.mean(),
                    half.max() / half.mean(),
                ]
                figures.append([*of, spearman(found.ability, truth).value, recall(found.ability, truth)])
            own, noise, half, widest, rho, top = np.mean(figures, axis=0).round(4).tolist()
            told = {"own": own, "noise": noise, "half": half, "widest": widest, "rho": rho, "recall": top}
            row(of="domains", domain=name, answers=kind, trials=n, runs=runs, **told)


def default(runs: int, shared: Path) -> None:
    for K, J in ((8, 40), (12, 32), (10, 200), (30, 200), (39, 200), (227, 805), (500, 10_000)):
        size, dense_calls = PlanSize(K, J, False, 100), 2 * K * (K - 1) * J
        was = max(int(0.02 * dense_calls), 30 * K + 100)
        row(of="default", agents=K, items=J, planned=size.default_calls(450), before=was)
    for name in ("PubMed", "SAMSum", "ICLR"):
        world = world_of(name, shared)
        truth = dense_abilities(np.nan_to_num(world.paired))
        found: dict[str, list[float]] = {"now": [], "before": []}
        calls = {}
        for seed, (which, budget) in product(range(runs), (("now", None), ("before", "2%"))):
            plan = make_plan(world.pool, calls=budget, seed=seed)
            abilities = trial_abilities_from_verdicts(replay(plan, world))
            assert abilities is not None
            found[which].append(spearman(abilities.ability, truth).value)
            calls[which] = len(plan)
        apart = np.subtract(found["now"], found["before"])
        means = {which: round(float(np.mean(values)), 4) for which, values in found.items()}
        row(of="default", domain=name, calls=calls, rho=means, difference=round(float(apart.mean()), 5), se=se(apart))


def alpaca(runs: int, shared: Path) -> None:
    pool = real_models(shared)
    whole = make_plan(pool, design="dense", independent="pooled:100", holdout=0.0)
    rates = Lexical().answer_many(whole).rates()
    world = make_recorded_answers(rates, difference_only=False)
    truth = dense_abilities(np.nan_to_num(world.paired))
    rho, covered, half, old = [], [], [], 0
    for seed in range(runs):
        plan = make_plan(pool, seed=seed)
        found = trial_abilities_from_verdicts(replay(plan, world), target="these-items")
        assert found is not None
        off = found.ability - found.ability.mean() - truth
        rho.append(spearman(found.ability, truth).value)
        covered.append(float((np.abs(off) <= found.covariance.half_width()).mean()))
        half.append(float(found.covariance.half_width().mean()))
        old = len(plan)
    row(
        of="alpaca",
        agents=pool.n_agents,
        calls=old,
        rho=round(float(np.mean(rho)), 4),
        lowest=round(min(rho), 4),
        covered=round(float(np.mean(covered)), 4),
        se=se(np.array(covered)),
        half=round(float(np.mean(half)), 4),
        runs=runs,
    )


def agents(runs: int, shared: Path) -> None:
    J, points = 1000, []
    for K in (10, 30, 100, 300, 1000):
        halves, covered, edge = [], [], []
        calls = PlanSize(K, J, False, 100).default_calls(450)
        for seed in range(max(2, min(runs, 2000 // K))):
            rng = np.random.default_rng([seed, K])
            plan = Cyclic(calls - 100).draw(np.ones((K, J), dtype=np.bool_), rng).trials
            a, b = SD["agents"] * rng.standard_normal(K), SD["items"] * rng.standard_normal(J)
            c, g = 0.15 * rng.standard_normal((K, J)), SD["pairs"] * rng.standard_normal((K, K))
            i, k, j = plan.first, plan.second, plan.item
            y = a[i] + a[k] + b[j] + c[i, j] + c[k, j] + g[i, k] + SD["noise"] * rng.standard_normal(len(i))
            found = found_in(plan, y, K=K, J=J)
            mean, half = found.ability, found.kind.half_width()
            np.fill_diagonal(g, 0)
            truth = a * (K - 2) / (K - 1) + (g.sum(axis=0) + g.sum(axis=1)) / (2 * (K - 1))
            off = (mean - mean.mean()) - (truth - truth.mean())
            z = off / half
            halves.append(float(half.mean()))
            covered.append(float((np.abs(z) <= 1).mean()))
            order = i[:K]
            edge.append(float(np.corrcoef(z[order], np.roll(z[order], 1))[0, 1]))
        points.append((K, calls, float(np.mean(halves))))
        figures = {"half": points[-1][2], "covered": float(np.mean(covered)), "neighbours": float(np.mean(edge))}
        rounded = {name: round(value, 4) for name, value in figures.items()}
        row(of="agents", agents=K, items=J, calls=calls, runs=len(halves), se=se(np.array(covered)), **rounded)
    sizes, asked, half = np.array(points).T
    slope = np.polyfit(np.log(sizes), np.log(asked), 1)[0]
    row(
        of="agents",
        exponent=round(float(slope), 4),
        half_plus_minus=round(float((half.max() - half.min()) / (half.max() + half.min())), 4),
    )


LARGE = """
import resource, sys, time
from youden.data.pools.pool_reader import read_pool
pool = read_pool(sys.argv[1])
read = time.process_time()
from youden.protocol.coverage import coverage
from youden.protocol.plan import make_plan
plan = make_plan(pool)
coverage(plan), plan.n_cells, plan.digest
print(len(plan), read, time.process_time() - read, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
"""


def large(runs: int, shared: Path, *, shape: tuple[int, int] = (500, 10_000)) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    K, J = shape
    with tempfile.TemporaryDirectory() as place:
        agent, item = np.divmod(np.arange(K * J), J)
        columns = {"agent": pa.array(agent).cast(pa.string()), "item": pa.array(item).cast(pa.string())}
        text = pa.array([f"answer {n % 9973} to it" for n in range(K * J)])
        pq.write_table(pa.table({**columns, "text": text}), Path(place, "pool.parquet"))
        ended = subprocess.run(
            [sys.executable, "-c", LARGE, str(Path(place, "pool.parquet"))], capture_output=True, text=True, check=True
        )
    calls, read, planned, gigabytes = map(float, ended.stdout.split())
    row(
        of="large",
        agents=K,
        items=J,
        calls=int(calls),
        read_s=round(read, 2),
        plan_s=round(planned, 2),
        peak_gb=round(gigabytes, 2),
    )


PARTS_OF_IT = {
    "domains": (domains, 60),
    "told": (told, 30),
    "default": (default, 100),
    "alpaca": (alpaca, 50),
    "agents": (agents, 40),
    "large": (large, 1),
    "width": (width, 200),
    "top": (top, 100),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS_OF_IT))
    parser.add_argument("--runs", type=int, help="of every part; by default each has its own number")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--shared", type=Path, default=SHARED)
    arguments = parser.parse_args()
    for name in arguments.only.split(","):
        measure, runs = PARTS_OF_IT[name]
        began = time.process_time()
        if arguments.smoke and name == "large":
            large(1, arguments.shared, shape=(50, 1000))
        elif name != "large" or not arguments.smoke:
            measure(arguments.runs or (SMOKE_RUNS if arguments.smoke else runs), arguments.shared)
        print(f"{name}: {time.process_time() - began:.1f} CPU s", file=sys.stderr)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"peak {peak:.2f} GB", file=sys.stderr)


if __name__ == "__main__":
    main()
