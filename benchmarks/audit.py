"""Measure the coverage of the intervals of `youden.audit` on simulated tables of scores, and its time and memory.

A table has K models on J items. The expected score of model i on item j is 1/(1 + exp(b_j − θ_i + g_ij)) with θ and b normal
(SD 1 and 1.2; b has the mean 0, or 2.5 in "hard") and the interaction g normal (SD .5). Scores are 0 or 1 ("binary", "hard"),
beta distributed ("graded"), or tenths ("grades"). A fraction of the cells is missing completely at random. In "skipped", scores
are additive, as the estimator assumes, and hard items are skipped twice as often as easy ones. The truth is the mean over the
population of items (Gauss–Hermite quadrature). `mean`: coverage of the intervals of mean scores;
`difference`: of differences of pairs of models; `ranks`: share of marginal rank intervals that contain the true rank; `all
ranks`: share of tables in which all simultaneous intervals do; `missing flagged`: share of tables with the warning that cells
are not missing completely at random. Standard errors are over tables, because the models of a table share its items.
`outside`: settings whose coverage of means or differences is outside .935 to .97.

`time`: CPU seconds (one thread) of an audit of 200 models on 2,000 items, reading the table included; of `pandas.read_csv`
and pivoting in the same process; and peak memory.

`python benchmarks/audit.py [--draws 200] [--seed 51] [--only SHAPE …] [--smoke] [--out FILE]` prints JSON, and a table to stderr.
The method was chosen with seeds 1 and 2.
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
from scipy.special import expit

import youden
from results import print_results
from youden.data.score_tables import read_scores
from youden.pipeline.score_audit import ALPHA_MISSING
from youden.stats.additive.score_means import estimate_score_means, missingness_p_value
from youden.stats.trials.comparisons import rank_with_ties
from youden.types.pool import Floats

SHAPES = {f"{K} × {J}": (K, J) for J in (20, 200, 2000) for K in (5, 20, 50, 200)}
KINDS = ("binary", "hard", "graded", "grades", "skipped")
MISSING = (0.0, 0.3, 0.6)
BAR = (0.935, 0.97)
CELLS_PER_DRAW = 20_000
"""Tables with more cells are drawn less often, at least `MIN_DRAWS` times."""
MIN_DRAWS = 25
TIMED = (200, 2000)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)


class Simulated(NamedTuple):
    """A table of scores in [0, 1], float (n_models, n_items), NaN for missing cells; and the true means, float (n_models,)."""

    score: Floats
    truth: Floats


def simulate(rng: np.random.Generator, kind: str, shape: tuple[int, int], missing: float) -> Simulated:
    """Draw a table whose cells are missing completely at random."""
    n_models, n_items = shape
    ability = rng.normal(0, 1, (n_models, 1))
    mean_difficulty = 2.5 if kind == "hard" else 0.0
    difficulty = rng.normal(mean_difficulty, 1.2, n_items)
    expected = expit(ability - difficulty - rng.normal(0, 0.5, shape))
    if kind == "graded":
        score = rng.beta(4 * expected + 1e-3, 4 * (1 - expected) + 1e-3)
    elif kind == "grades":
        score = rng.binomial(10, expected) / 10
    else:
        score = (rng.random(shape) < expected).astype(np.float64)
    score[rng.random(shape) < missing] = np.nan

    # b + g is normal with the variance 1.2² + .5²
    truth = expit(ability - mean_difficulty - 1.3 * NODES) @ WEIGHTS / WEIGHTS.sum()
    return Simulated(score, (4 * truth + 1e-3) / 4.002 if kind == "graded" else truth)


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
) -> dict[str, dict[str, float]]:
    """Measure coverage over simulated tables."""
    rows: dict[str, list[float]] = {
        name: [] for name in ("mean", "difference", "ranks", "all ranks", "missing flagged")
    }
    widths = []
    for _ in range(n_draws):
        draw = simulate_skipped(rng, shape, missing) if kind == "skipped" else simulate(rng, kind, shape, missing)
        observed = ~np.isnan(draw.score)
        has_score = observed.any(axis=1)
        score, truth = draw.score[np.ix_(has_score, observed.any(axis=0))], draw.truth[has_score]
        means = estimate_score_means(score)
        known = ~np.isnan(means.std_error)
        rows["mean"].append(float(((means.low <= truth) & (truth <= means.high))[known].mean()))
        widths.append(float((means.high - means.low)[known].mean()) / 2)

        differences = means.differences
        error = np.abs(differences.value - (truth[:, None] - truth))
        pairs = np.triu(~np.isnan(differences.half_width), 1)
        rows["difference"].append(float((error <= differences.half_width)[pairs].mean()))
        rank = rank_with_ties(truth)
        marginal, joint = differences.marginal_ranks, differences.simultaneous_ranks
        rows["ranks"].append(float(((marginal.low <= rank) & (rank <= marginal.high)).mean()))
        rows["all ranks"].append(float(((joint.low <= rank) & (rank <= joint.high)).all()))
        rows["missing flagged"].append(float(missingness_p_value(~np.isnan(score), means.difficulty) < ALPHA_MISSING))
    result = {"half-width": {"value": round(float(np.mean(widths)), 4)}}
    for name, values in rows.items():
        std_error = float(np.std(values, ddof=1) / np.sqrt(n_draws))
        result[name] = {"value": round(float(np.mean(values)), 4), "std_error": round(std_error, 4)}
    return result


def measure_time(missing: float) -> dict[str, float]:
    """Measure the CPU time of an audit with all its steps, reading the table included, and the peak memory of this process."""
    score, _ = simulate(np.random.default_rng(0), "binary", TIMED, missing)
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
            frame = pd.read_csv(table)
            if table is long:
                frame.pivot(index="model", columns="item", values="score").to_numpy()
            pandas_seconds = time.process_time() - started

            started = time.process_time()
            read_scores(table)
            read_seconds = time.process_time() - started

            started = time.process_time()
            youden.audit(table)
            audit_seconds = time.process_time() - started
            times[f"{name}, audit seconds"] = round(audit_seconds, 2)
            times[f"{name}, reading seconds"] = round(read_seconds, 2)
            times[f"{name}, pandas seconds"] = round(pandas_seconds, 2)
            times[f"{name}, audit / pandas"] = round(audit_seconds / pandas_seconds, 1)
    return {**times, "peak MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--draws", type=int, default=200, help="tables per setting; fewer, but at least 25, for large tables"
    )
    parser.add_argument("--seed", type=int, default=51)
    parser.add_argument("--only", nargs="*", help="shapes to measure, such as '5 × 20', or 'time'")
    parser.add_argument("--smoke", action="store_true", help="a few small tables")
    parser.add_argument("--out", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    shapes = {name: SHAPES[name] for name in ("5 × 20", "20 × 200")} if arguments.smoke else SHAPES
    names = arguments.only or [*shapes, "time"]

    results: dict[str, object] = {"seed": arguments.seed, "bar": BAR}
    if "time" in names and not arguments.smoke:
        results["time"] = {f"{missing:.0%} missing": measure_time(missing) for missing in (0.0, 0.3)}
    outside = []
    for name in [name for name in names if name in shapes]:
        shape = shapes[name]
        n_draws = max(MIN_DRAWS, min(arguments.draws, arguments.draws * CELLS_PER_DRAW // (shape[0] * shape[1])))
        n_draws = 3 if arguments.smoke else n_draws
        for kind in KINDS:
            for missing in MISSING if kind != "skipped" else (0.3,):
                result = measure(rng, kind, shape, missing, n_draws)
                setting = f"{name}, {kind}, {missing:.0%} missing"
                results[setting] = {"draws": n_draws, **result}
                values = {key: result[key]["value"] for key in ("mean", "difference")}
                outside += [f"{setting}: {key} {v}" for key, v in values.items() if not BAR[0] <= v <= BAR[1]]
                print(f"{setting}: {result}", file=sys.stderr, flush=True)
    results["outside"] = outside
    print_results(results, arguments.out)


if __name__ == "__main__":
    main()
