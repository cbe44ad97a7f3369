"""Measure the coverage of intervals of `ClippedLinear` on data simulated from the additive fit of the paper's PubMed scores.

`python benchmarks/stats_intervals.py [--smoke] [--out FILE] [--shared FOLDER] [--draws N]` prints JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from time import process_time

import numpy as np

from results import print_results
from youden import ClippedLinear
from youden.stats import cells_from_matrix, solve_cells
from youden.types.pool import Bools, Floats

SHARED = Path(__file__).parents[2] / "shared" / "peer-prediction" / "eval_results"
DATA = "pubmed_200_config_results"
COVERAGES = (1 / 3, 0.12)
MIN_DEGREE = 3
BAR = (0.935, 0.965)


def read_row_scores(folder: Path) -> Floats:
    """Read the paper's scores (n_agents, n_items)."""
    files = sorted((folder / "tvd_mi_individual_examples").glob("tvd_mi_example_*.json"))
    return np.array([json.loads(file.read_text(encoding="utf-8"))["tvd_mi_scores"] for file in files]).T


def draw_cells(shape: tuple[int, int], rng: np.random.Generator, *, coverage: float) -> Bools:
    """Draw random cells, then more for each agent or item with a degree below 3."""
    chosen = np.zeros(shape, dtype=np.bool_)
    chosen.flat[rng.choice(chosen.size, round(coverage * chosen.size), replace=False)] = True
    for view in (chosen, chosen.T):
        for line in np.flatnonzero(view.sum(axis=1) < MIN_DEGREE):
            n_missing = MIN_DEGREE - int(view[line].sum())
            view[line, rng.choice(np.flatnonzero(~view[line]), n_missing, replace=False)] = True
    return chosen


def measure_coverage(scores: Floats, *, coverage: float, n_draws: int, seed: int) -> dict[str, float]:
    """Return the coverage over agents, its standard error over simulations, the mean width, and CPU seconds."""
    fit = solve_cells(cells_from_matrix(scores), constraint="none")
    theta, b = fit.ability, fit.difficulty
    fit = solve_cells(cells_from_matrix(scores), constraint="none")
    sd = np.sqrt(np.nanmean((scores - fit.ability[:, None] + fit.difficulty) ** 2, axis=1))[:, None]
    rng = np.random.default_rng([seed, round(100 * coverage)])
    truth = theta - theta.mean()
    covered, width = np.zeros(n_draws), np.zeros(n_draws)
    start = process_time()
    for draw in range(n_draws):
        value = np.clip(theta[:, None] - b + sd * rng.standard_normal(scores.shape), -1, 1)
        value[~draw_cells(value.shape, rng, coverage=coverage)] = np.nan
        model = ClippedLinear().fit(value)
        mean_ability = model.ability_.mean()
        covered[draw] = ((model.low_ - mean_ability <= truth) & (truth <= model.high_ - mean_ability)).mean()
        width[draw] = (model.high_ - model.low_).mean()
    return {
        "covered": float(covered.mean()),
        "standard_error": float(covered.std(ddof=1) / np.sqrt(n_draws)),
        "mean_width": float(width.mean()),
        "simulations": n_draws,
        "cpu_seconds_each": (process_time() - start) / n_draws,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="run few simulations")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--draws", type=int, default=400)
    arguments = parser.parse_args()
    folder = arguments.shared / DATA
    if not folder.is_dir():
        sys.exit(f"Recorded judge answers are missing: no folder {folder}. Set their place with --shared.")

    scores = read_row_scores(folder)
    n_draws = 8 if arguments.smoke else arguments.draws
    table = {
        f"{coverage:.0%}": measure_coverage(scores, coverage=coverage, n_draws=n_draws, seed=0)
        for coverage in COVERAGES
    }
    is_met = all(BAR[0] <= row["covered"] <= BAR[1] for row in table.values())
    print_results({"data": DATA, "level": 0.95, "bar": BAR, "meets_bar": is_met, **table}, arguments.out)


if __name__ == "__main__":
    main()
