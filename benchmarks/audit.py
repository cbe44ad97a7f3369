"""Measure the coverage of the intervals of `youden.audit` on simulated tables of scores, and its time and memory.

A table has K models on J items. The expected score of model i on item j is 1/(1 + exp(b_j − θ_i + g_ij)) with θ and b normal
(SD 1 and 1.2; b has the mean 0, or 2.5 in "hard") and the interaction g normal (SD .5). Scores are 0 or 1 ("binary", "hard"),
beta distributed ("graded"), or tenths ("grades"). A fraction of the cells is missing completely at random. In "skipped", scores
are additive, as the estimator assumes, and hard items are skipped twice as often as easy ones. The truth is the mean over the
population of items, which is integrated over 20,000 items per table. `mean`: coverage of the intervals of mean scores;
`difference`: of differences of pairs of models; `ranks`: share of marginal rank intervals that contain the true rank; `all
ranks`: share of tables in which all simultaneous intervals do; `missing flagged`: share of tables with the warning that cells
are not missing completely at random. Standard errors are over tables, because the models of a table share its items. Time is
CPU time, one thread.

`python benchmarks/audit.py [--draws 200] [--seed 51] [--only SHAPE …] [--smoke] [--out FILE]` prints JSON, and a table to stderr.
The method was chosen with seed 1 and 60 draws.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

import youden
from results import print_results
from youden.pipeline.score_audit import ALPHA_MISSING
from youden.stats.additive.score_means import estimate_score_means, missingness_p_value
from youden.stats.trials.comparisons import pairwise_differences, rank_with_ties
from youden.types.pool import Floats

SHAPES = {
    "5 × 20": (5, 20),
    "5 × 200": (5, 200),
    "20 × 20": (20, 20),
    "20 × 200": (20, 200),
    "200 × 50": (200, 50),
    "5 × 2000": (5, 2000),
}
LARGE = {"50 × 2000": (50, 2000), "200 × 200": (200, 200)}
KINDS = ("binary", "hard", "graded", "grades")
MISSING = (0.0, 0.3, 0.6)
N_POPULATION = 20_000
TIMED = (200, 2000)


class Simulated(NamedTuple):
    """A table of scores in [0, 1], float (n_models, n_items), NaN for missing cells; and the true means, float (n_models,)."""

    score: Floats
    truth: Floats


def simulate(rng: np.random.Generator, kind: str, shape: tuple[int, int], missing: float) -> Simulated:
    """Draw a table whose cells are missing completely at random."""
    n_models, n_items = shape
    ability = rng.normal(0, 1, (n_models, 1))

    def draw_expected(n: int) -> Floats:
        difficulty = rng.normal(2.5 if kind == "hard" else 0, 1.2, n)
        return np.asarray(1 / (1 + np.exp(difficulty - ability + rng.normal(0, 0.5, (n_models, n)))))

    expected = draw_expected(n_items)
    if kind == "graded":
        score = rng.beta(4 * expected + 1e-3, 4 * (1 - expected) + 1e-3)
    elif kind == "grades":
        score = rng.binomial(10, expected) / 10
    else:
        score = (rng.random(shape) < expected).astype(np.float64)
    score[rng.random(shape) < missing] = np.nan

    # the mean over the population, in chunks that fit in memory
    n_per_chunk = max(1000, N_POPULATION // max(1, n_models // 20))
    chunks = [draw_expected(n_per_chunk).mean(axis=1) for _ in range(N_POPULATION // n_per_chunk)]
    return Simulated(score, np.mean(chunks, axis=0))


def simulate_skipped(rng: np.random.Generator, shape: tuple[int, int], missing: float) -> Simulated:
    """Draw a table with additive expected scores, of which each model skips hard items twice as often as easy ones."""
    n_models, n_items = shape
    ability, difficulty = rng.uniform(-0.15, 0.15, (n_models, 1)), rng.uniform(-0.3, 0.3, n_items)
    expected = 0.5 + ability - difficulty
    score = (rng.random(shape) < expected).astype(np.float64)
    rate = missing * np.where(difficulty > 0, 4 / 3, 2 / 3)
    score[rng.random(shape) < rate] = np.nan
    return Simulated(score, 0.5 + ability[:, 0])


def measure(
    rng: np.random.Generator, kind: str, shape: tuple[int, int], missing: float, n_draws: int
) -> dict[str, object]:
    """Measure coverage over simulated tables."""
    rows: dict[str, list[float]] = {
        name: [] for name in ("mean", "difference", "ranks", "all ranks", "missing flagged")
    }
    widths = []
    for _ in range(n_draws):
        score, truth = (
            simulate_skipped(rng, shape, missing) if kind == "skipped" else simulate(rng, kind, shape, missing)
        )
        means = estimate_score_means(score)
        known = ~np.isnan(means.std_error)
        rows["mean"].append(float(((means.low <= truth) & (truth <= means.high))[known].mean()))
        widths.append(float((means.high - means.low)[known].mean()) / 2)

        differences = pairwise_differences(means.mean, means.covariance)
        error = np.abs(differences.value - (truth[:, None] - truth))
        pairs = np.triu(~np.isnan(differences.half_width), 1)
        rows["difference"].append(float((error <= differences.half_width)[pairs].mean()))
        rank = rank_with_ties(truth)
        marginal, joint = differences.marginal_ranks, differences.simultaneous_ranks
        rows["ranks"].append(float(((marginal.low <= rank) & (rank <= marginal.high)).mean()))
        rows["all ranks"].append(float(((joint.low <= rank) & (rank <= joint.high)).all()))
        rows["missing flagged"].append(float(missingness_p_value(~np.isnan(score), means.difficulty) < ALPHA_MISSING))
    result: dict[str, object] = {"half-width": round(float(np.mean(widths)), 4)}
    for name, values in rows.items():
        std_error = float(np.std(values) / np.sqrt(n_draws))
        result[name] = {"value": round(float(np.mean(values)), 4), "std_error": round(std_error, 4)}
    return result


def measure_time(rng: np.random.Generator, missing: float) -> dict[str, float]:
    """Measure the CPU time of an audit with all its steps, reading the table included, and the peak memory of this process."""
    score, _ = simulate(rng, "binary", TIMED, missing)
    models, items = TIMED
    frame = pd.DataFrame(
        {
            "model": np.repeat([f"m{k}" for k in range(models)], items),
            "item": np.tile([f"i{j}" for j in range(items)], models),
            "score": score.ravel(),
        }
    ).dropna()
    with tempfile.TemporaryDirectory() as folder:
        long, wide = Path(folder) / "long.csv", Path(folder) / "wide.csv"
        frame.to_csv(long, index=False)
        frame.pivot(index="item", columns="model", values="score").to_csv(wide)
        times = {}
        for name, table in {"long CSV": long, "wide CSV": wide}.items():
            started = time.process_time()
            youden.audit(table)
            times[f"{name}, CPU seconds"] = round(time.process_time() - started, 2)
    return {**times, "peak MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--draws", type=int, default=200, help="tables per cell; a tenth for tables of more than 5,000 cells"
    )
    parser.add_argument("--seed", type=int, default=51)
    parser.add_argument("--only", nargs="*", help="shapes to measure, such as '5 × 20', or 'time'")
    parser.add_argument("--smoke", action="store_true", help="a few small tables")
    parser.add_argument("--out", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    shapes = {"5 × 20": (5, 20), "20 × 200": (20, 200)} if arguments.smoke else SHAPES | LARGE
    n_draws = 3 if arguments.smoke else arguments.draws
    names = arguments.only or [*shapes, "time"]

    results: dict[str, object] = {"seed": arguments.seed, "draws": n_draws}
    if "time" in names and not arguments.smoke:
        results["time"] = {f"{missing:.0%} missing": measure_time(rng, missing) for missing in (0.0, 0.3)}
    for name in [name for name in names if name in shapes]:
        shape = shapes[name]
        n = n_draws if shape[0] * shape[1] <= 5000 else max(2, n_draws // 10)
        for kind in (*KINDS, "skipped"):
            for missing in MISSING if kind != "skipped" else (0.3,):
                result = measure(rng, kind, shape, missing, n)
                results[f"{name}, {kind}, {missing:.0%} missing"] = {"draws": n, **result}
                print(f"{name}, {kind}, {missing:.0%} missing: {result}", file=sys.stderr, flush=True)
    print_results(results, arguments.out)


if __name__ == "__main__":
    main()
