"""Measure the held-out error of each baseline on the paper's PubMed data, with a third of the cells, under both holdout rules.

`python benchmarks/stats_baselines.py [--smoke] [--out FILE] [--shared FOLDER] [--data NAME] [--seeds N]` prints JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau, spearmanr

from results import print_results
from youden import ClippedLinear
from youden.protocol.plan import draw_split
from youden.run_keys import SplitRule
from youden.stats import BASELINES
from youden.types.pool import Bools, Floats

SHARED = Path(__file__).parents[2] / "shared" / "peer-prediction" / "eval_results"
C = 1.6
MIN_DEGREE = 3
RULES: tuple[SplitRule, ...] = ("paper", "strict")
PUBLISHED_RMSE = {  # published RMSE: holdout rules paper, strict
    "clipped-linear": (0.1174, 0.1231),
    "isotonic": (0.1160, 0.1218),
    "rasch-probit": (0.1169, 0.1256),
    "rasch-logit": (0.1174, 0.1271),
    "nuclear-norm-paper": (0.1273, 0.1328),
    "svd": (0.1184, 0.1195),
    "svd-paper": (0.1726, 0.1747),
    "uv": (0.1175, 0.1232),
    "uv-paper": (0.192, 0.197),
}


def read_differences(folder: Path) -> Floats:
    """Read D of a folder as float array (n_items, n_agents, n_agents), with NaN on the diagonal."""
    files = sorted((folder / "tvd_mi_individual_examples").glob("tvd_mi_example_*.json"))
    D = np.array([json.loads(file.read_text(encoding="utf-8"))["tvd_mi_matrix"] for file in files], dtype=np.float64)
    D[:, np.arange(D.shape[1]), np.arange(D.shape[1])] = np.nan
    return D


def compute_row_scores(D: Floats, is_held_out: Bools | None = None) -> Floats:
    """Compute row scores (n_agents, n_items).

    is_held_out : bool array (n_agents, n_items), optional
        Held-out cells; pairs whose partner is held out are dropped, as by the rule `strict`.
    """
    if is_held_out is not None:
        D = np.where(is_held_out.T[:, None, :], np.nan, D)
    n_pairs = (~np.isnan(D)).sum(axis=2)
    mean = np.full(n_pairs.shape, np.nan)
    np.divide(np.nansum(D, axis=2), n_pairs, out=mean, where=n_pairs > 0)
    return mean.T


def draw_nlogn_cells(eligible: Bools, rng: np.random.Generator, *, c: float = C) -> Bools:
    """Draw c·(K+J)·ln(K+J) eligible cells, then more for each agent or item with a degree below 3."""
    n_cells = min(int(c * sum(eligible.shape) * math.log(sum(eligible.shape))), int(eligible.sum()))
    chosen = np.zeros(eligible.shape, dtype=np.bool_)
    chosen.flat[rng.choice(np.flatnonzero(eligible), n_cells, replace=False)] = True
    for view, allowed in ((chosen, eligible), (chosen.T, eligible.T)):
        for line in np.flatnonzero(view.sum(axis=1) < MIN_DEGREE):
            candidates = np.flatnonzero(allowed[line] & ~view[line])
            n_missing = min(MIN_DEGREE - int(view[line].sum()), len(candidates))
            view[line, rng.choice(candidates, n_missing, replace=False)] = True
    return chosen


def measure_seed(differences: Floats, *, rule: SplitRule, seed: int) -> dict[str, tuple[float, float, float, float]]:
    """Return RMSE on the holdout, ρ and τ with the abilities from all training cells, and CPU seconds, by baseline."""
    truth = compute_row_scores(differences)
    split = draw_split(~np.isnan(truth), fraction=0.2, rule=rule, seed=seed)
    train = np.where(
        split.holdout, np.nan, compute_row_scores(differences, split.holdout if rule == "strict" else None)
    )
    reference = ClippedLinear().fit(train).ability_
    cells = draw_nlogn_cells(~np.isnan(train), np.random.default_rng([seed, 1]))
    sparse = np.where(cells, train, np.nan)
    figures = {}
    for name in BASELINES:
        start = process_time()
        model = BASELINES.load(name)().fit(sparse)
        seconds = process_time() - start
        error = (model.predict() - truth)[split.holdout]
        rho = float(spearmanr(model.ability_, reference).statistic)
        tau = float(kendalltau(model.ability_, reference).statistic)
        figures[name] = (float(np.sqrt(np.mean(error**2))), rho, tau, seconds)
    return figures


def summarize(seeds: list[dict[str, tuple[float, float, float, float]]]) -> dict[str, dict[str, float]]:
    """Average the figures over seeds."""
    table = {}
    for name in seeds[0]:
        values: NDArray[np.float64] = np.array([seed[name] for seed in seeds])
        mean = values.mean(axis=0)
        table[name] = {
            "rmse": mean[0],
            "rmse_sd": float(values[:, 0].std(ddof=1)) if len(seeds) > 1 else 0.0,
            "spearman": mean[1],
            "kendall": mean[2],
            "cpu_seconds": float(np.median(values[:, 3])),
        }
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="run one seed")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--data", default="pubmed_200_config_results")
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    folder = arguments.shared / arguments.data
    if not folder.is_dir():
        sys.exit(f"Recorded judge answers are missing: no folder {folder}. Set their place with --shared.")

    differences = read_differences(folder)
    n_seeds = 1 if arguments.smoke else arguments.seeds
    tables = {
        rule: summarize([measure_seed(differences, rule=rule, seed=seed) for seed in range(n_seeds)]) for rule in RULES
    }
    for column, rule in enumerate(RULES):
        for name, published in PUBLISHED_RMSE.items():
            tables[rule][name]["page"] = published[column]
    settings = {"data": arguments.data, "seeds": n_seeds, "c": C}
    print_results({**settings, **{str(rule): table for rule, table in tables.items()}}, arguments.out)


if __name__ == "__main__":
    main()
