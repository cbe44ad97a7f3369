"""Measure how precision depends on trials: default budgets, forecasts by `plan`, runs with a requested half-width, and searches.

- domains: variances, ρ and top-5 recall of cyclic plans on the paper's judge answers, as recorded and cut at ½ to yes or no,
  and on answers of the judge `lexical` for real models and for the shipped pool; the source of the table in
  `stats/reference_data.py`
- forecasts: those of `plan` for the default plan and a smaller one, before any answer and from a pilot, against the run's result;
  the forecast of a reference data set is made without it, and further pools judged by `lexical` are measured, too
- default: calls and ρ of the present default against 2 % of the dense calls
- alpaca: 39 real models with the judge `lexical`, against its own dense ranking
- agents: calls, half-width and coverage for 10 to 1,000 simulated agents
- large: CPU seconds and memory for 500 × 10,000 from Parquet
- width: runs with a requested half-width, simulated (with known variances) and replayed with resampled items; `oracle` is the
  number of blocks needed by the true variances or, in replays, the smallest number that attains the half-width on average
- top: a search with `top: 5` against a cyclic plan with as many calls

Simulated answers are y = a_i + a_k + b_j + c_ij + c_kj + g_ik + noise, drawn for each run.

`python benchmarks/precision.py [--only NAME,…] [--runs 200] [--smoke] [--shared FOLDER]` prints one JSON object per row.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from itertools import islice, product
from pathlib import Path

import numpy as np

from labels import read_alpaca_eval_pool
from precision_forecasts import measure_forecasts
from precision_runs import (
    SD,
    SMOKE_RUNS,
    compute_recall,
    estimate,
    estimate_from_trials,
    iter_judged_pools,
    print_row,
    std_error,
)
from precision_widths import measure_half_widths, measure_top
from recorded import SHARED, compute_dense_abilities, load_recorded_answers
from youden import make_plan
from youden.judging.backends.lexical import Lexical
from youden.pipeline.ranking import trial_abilities_from_verdicts
from youden.protocol.designs.cyclic import Cyclic
from youden.protocol.plan import PlanSize
from youden.stats import spearman
from youden.stats.forecast import estimate_components
from youden.stats.reference_data import REFERENCE_TRIALS
from youden.study.replaying import make_recorded_answers, replay


def measure_domains(n_runs: int, shared: Path) -> None:
    """Print variances, half-widths, ρ and top-5 recall by judged pool and number of trials per agent."""
    n_pools = None if n_runs > SMOKE_RUNS else 2
    for name, answer_kind, answers in islice(iter_judged_pools(shared), n_pools):
        truth, (J, K, _) = compute_dense_abilities(answers), answers.shape
        for n_trials in REFERENCE_TRIALS:
            rows = []
            for seed in range(n_runs):
                n_calls = min(n_trials // 2, (K - 1) * J) * K
                estimates = estimate(
                    answers, Cyclic(n_calls).draw(np.ones((K, J), bool), np.random.default_rng(seed)).trials
                )
                half_width = estimates.kind.half_width()
                components = estimate_components(estimates.items, np.diag(estimates.kind.covariance))
                variance_scale = half_width.mean() ** 2 / (half_width**2).mean()
                figures_of_components = [
                    variance_scale * components.agent_item.mean(),
                    variance_scale * components.residual.mean(),
                    half_width.mean(),
                    half_width.max() / half_width.mean(),
                ]
                rows.append(
                    [
                        *figures_of_components,
                        spearman(estimates.ability, truth).value,
                        compute_recall(estimates.ability, truth),
                    ]
                )
            agent_item, residual, half_width, widest_ratio, rho, recall = np.mean(rows, axis=0).round(4).tolist()
            means = {
                "agent_item": agent_item,
                "residual": residual,
                "half": half_width,
                "widest": widest_ratio,
                "rho": rho,
                "recall": recall,
            }
            print_row(part="domains", domain=name, answers=answer_kind, trials=n_trials, runs=n_runs, **means)


def measure_default(n_runs: int, shared: Path) -> None:
    """Print calls of the default and of 2 % of the dense calls by pool size, and ρ of both on three domains."""
    for K, J in ((8, 40), (12, 32), (10, 200), (30, 200), (39, 200), (227, 805), (500, 10_000)):
        size, dense_calls = PlanSize(K, J), 2 * K * (K - 1) * J
        calls_before = max(int(0.02 * dense_calls), 30 * K + 100)
        print_row(part="default", agents=K, items=J, planned=size.default_calls(450), before=calls_before)
    for name in ("PubMed", "SAMSum", "ICLR"):
        recorded = load_recorded_answers(name, shared)
        truth = compute_dense_abilities(np.nan_to_num(recorded.paired))
        rho: dict[str, list[float]] = {"now": [], "before": []}
        calls = {}
        for seed, (budget_name, budget) in product(range(n_runs), (("now", None), ("before", "2%"))):
            plan = make_plan(recorded.pool, calls=budget, seed=seed)
            abilities = trial_abilities_from_verdicts(replay(plan, recorded))
            assert abilities is not None
            rho[budget_name].append(spearman(abilities.ability, truth).value)
            calls[budget_name] = len(plan)
        differences = np.subtract(rho["now"], rho["before"])
        means = {budget_name: round(float(np.mean(values)), 4) for budget_name, values in rho.items()}
        print_row(
            part="default",
            domain=name,
            calls=calls,
            rho=means,
            difference=round(float(differences.mean()), 5),
            se=std_error(differences),
        )


def measure_real_models(n_runs: int, shared: Path) -> None:
    """Print ρ, coverage and half-width of default plans for 39 real models."""
    pool = read_alpaca_eval_pool(shared / "alpaca-eval", n_items=None if n_runs > SMOKE_RUNS else 20)
    dense_plan = make_plan(pool, design="dense", independent="pooled:100", holdout=0.0)
    rates = Lexical().answer_many(dense_plan).rates()
    recorded = make_recorded_answers(rates, difference_only=False)
    truth = compute_dense_abilities(np.nan_to_num(recorded.paired))
    rhos, coverages, half_widths, n_calls = [], [], [], 0
    for seed in range(n_runs):
        plan = make_plan(pool, seed=seed)
        abilities = trial_abilities_from_verdicts(replay(plan, recorded), target="these-items")
        assert abilities is not None
        error = abilities.ability - abilities.ability.mean() - truth
        rhos.append(spearman(abilities.ability, truth).value)
        coverages.append(float((np.abs(error) <= abilities.covariance.half_width()).mean()))
        half_widths.append(float(abilities.covariance.half_width().mean()))
        n_calls = len(plan)
    print_row(
        part="alpaca",
        agents=pool.n_agents,
        calls=n_calls,
        rho=round(float(np.mean(rhos)), 4),
        lowest=round(min(rhos), 4),
        covered=round(float(np.mean(coverages)), 4),
        se=std_error(np.array(coverages)),
        half=round(float(np.mean(half_widths)), 4),
        runs=n_runs,
    )


def measure_agents(n_runs: int, shared: Path) -> None:
    """Print calls, half-width and coverage of default plans for 10 to 1,000 simulated agents, and the growth of the calls."""
    J, points = 1000, []
    for K in (10, 30, 100, 300, 1000) if n_runs > SMOKE_RUNS else (10, 30):
        half_widths, coverages, neighbor_correlations = [], [], []
        calls = PlanSize(K, J).default_calls(450)
        for seed in range(max(2, min(n_runs, 2000 // K))):
            rng = np.random.default_rng([seed, K])
            plan = Cyclic(calls - 100).draw(np.ones((K, J), dtype=np.bool_), rng).trials
            agent_effect = SD["agents"] * rng.standard_normal(K)
            item_effect = SD["items"] * rng.standard_normal(J)
            cell_effect = 0.15 * rng.standard_normal((K, J))
            pair_effect = SD["pairs"] * rng.standard_normal((K, K))
            first, second, item = plan.first, plan.second, plan.item
            answer = (
                agent_effect[first]
                + agent_effect[second]
                + item_effect[item]
                + cell_effect[first, item]
                + cell_effect[second, item]
                + pair_effect[first, second]
                + SD["noise"] * rng.standard_normal(len(first))
            )
            estimates = estimate_from_trials(plan, answer, n_agents=K, n_items=J)
            mean, half_width = estimates.ability, estimates.kind.half_width()
            np.fill_diagonal(pair_effect, 0)
            true_ability = agent_effect * (K - 2) / (K - 1) + (pair_effect.sum(axis=0) + pair_effect.sum(axis=1)) / (
                2 * (K - 1)
            )
            error = (mean - mean.mean()) - (true_ability - true_ability.mean())
            scaled_error = error / half_width
            half_widths.append(float(half_width.mean()))
            coverages.append(float((np.abs(scaled_error) <= 1).mean()))
            agent_order = first[:K]
            neighbor_correlations.append(
                float(np.corrcoef(scaled_error[agent_order], np.roll(scaled_error[agent_order], 1))[0, 1])
            )
        points.append((K, calls, float(np.mean(half_widths))))
        figures = {
            "half": points[-1][2],
            "covered": float(np.mean(coverages)),
            "neighbors": float(np.mean(neighbor_correlations)),
        }
        rounded = {name: round(value, 4) for name, value in figures.items()}
        print_row(
            part="agents",
            agents=K,
            items=J,
            calls=calls,
            runs=len(half_widths),
            se=std_error(np.array(coverages)),
            **rounded,
        )
    sizes, n_calls, half_width = np.array(points).T
    slope = np.polyfit(np.log(sizes), np.log(n_calls), 1)[0]
    print_row(
        part="agents",
        exponent=round(float(slope), 4),
        half_plus_minus=round(float((half_width.max() - half_width.min()) / (half_width.max() + half_width.min())), 4),
    )


LARGE_SCRIPT = """
import resource, sys, time
from youden.data.pools.pool_reader import read_pool
pool = read_pool(sys.argv[1])
read = time.process_time()
from youden.protocol.coverage import compute_coverage
from youden.protocol.plan import make_plan
plan = make_plan(pool)
compute_coverage(plan), plan.n_cells, plan.digest
print(len(plan), read, time.process_time() - read, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
"""


def measure_large_pool(n_runs: int, shared: Path, *, shape: tuple[int, int] = (500, 10_000)) -> None:
    """Print CPU seconds and memory to read and to plan a Parquet pool of `shape` (n_agents, n_items)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    K, J = shape
    with tempfile.TemporaryDirectory() as folder:
        agent, item = np.divmod(np.arange(K * J), J)
        columns = {"agent": pa.array(agent).cast(pa.string()), "item": pa.array(item).cast(pa.string())}
        text = pa.array([f"answer {n % 9973} to it" for n in range(K * J)])
        pq.write_table(pa.table({**columns, "text": text}), Path(folder, "pool.parquet"))
        process = subprocess.run(
            [sys.executable, "-c", LARGE_SCRIPT, str(Path(folder, "pool.parquet"))],
            capture_output=True,
            text=True,
            check=True,
        )
    calls, read_seconds, plan_seconds, gigabytes = map(float, process.stdout.split())
    print_row(
        part="large",
        agents=K,
        items=J,
        calls=int(calls),
        read_s=round(read_seconds, 2),
        plan_s=round(plan_seconds, 2),
        peak_gb=round(gigabytes, 2),
    )


SECTIONS = {
    "domains": (measure_domains, 60),
    "forecasts": (measure_forecasts, 30),
    "default": (measure_default, 100),
    "alpaca": (measure_real_models, 50),
    "agents": (measure_agents, 40),
    "large": (measure_large_pool, 1),
    "width": (measure_half_widths, 200),
    "top": (measure_top, 100),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--runs", type=int, help="runs of each part; default: the number of the part")
    parser.add_argument("--smoke", action="store_true", help="measure few runs of small pools")
    parser.add_argument("--shared", type=Path, default=SHARED)
    arguments = parser.parse_args()
    for name in arguments.only.split(","):
        measure, n_runs = SECTIONS[name]
        start = time.process_time()
        if arguments.smoke and name == "large":
            measure_large_pool(1, arguments.shared, shape=(50, 1000))
        elif name != "large" or not arguments.smoke:
            measure(arguments.runs or (SMOKE_RUNS if arguments.smoke else n_runs), arguments.shared)
        print(f"{name}: {time.process_time() - start:.1f} CPU s", file=sys.stderr)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"peak {peak:.2f} GB", file=sys.stderr)


if __name__ == "__main__":
    main()
