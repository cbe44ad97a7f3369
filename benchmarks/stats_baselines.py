"""Held-out error of every baseline on the paper's PubMed data, at a third of the cells, under both holdout rules.

It knows the paper's cell design and the figures it reproduces; it refuses to know any model.
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

from youden import ClippedLinear
from youden.protocol.plan import draw_split
from youden.run_keys import SplitRule
from youden.stats import BASELINES
from youden.types.pool import Bools, Floats

SHARED = Path(__file__).parents[2] / "shared" / "peer-prediction" / "eval_results"
C = 1.6
MIN_DEGREE = 3
RULES: tuple[SplitRule, ...] = ("own", "shared")
PAGE = {  # STATISTICS §8: own, shared; None where the page gives no figure, or another estimator's
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


def differences(folder: Path) -> Floats:
    """D[j, i, k] of the folder's items, NaN on the diagonal."""
    files = sorted((folder / "tvd_mi_individual_examples").glob("tvd_mi_example_*.json"))
    D = np.array([json.loads(file.read_text(encoding="utf-8"))["tvd_mi_matrix"] for file in files], dtype=np.float64)
    D[:, np.arange(D.shape[1]), np.arange(D.shape[1])] = np.nan
    return D


def row_scores(D: Floats, held: Bools | None = None) -> Floats:
    """float[K, J]; `held` (bool[K, J]) drops the pairs whose partner is held out: the rule `shared`."""
    if held is not None:
        D = np.where(held.T[:, None, :], np.nan, D)
    n = (~np.isnan(D)).sum(axis=2)
    mean = np.full(n.shape, np.nan)
    np.divide(np.nansum(D, axis=2), n, out=mean, where=n > 0)
    return mean.T


def nlogn_cells(eligible: Bools, rng: np.random.Generator, *, c: float = C) -> Bools:
    """c·(K+J)·ln(K+J) random eligible cells, then more for any agent or item below degree 3."""
    n_cells = min(int(c * sum(eligible.shape) * math.log(sum(eligible.shape))), int(eligible.sum()))
    chosen = np.zeros(eligible.shape, dtype=np.bool_)
    chosen.flat[rng.choice(np.flatnonzero(eligible), n_cells, replace=False)] = True
    for view, allowed in ((chosen, eligible), (chosen.T, eligible.T)):
        for line in np.flatnonzero(view.sum(axis=1) < MIN_DEGREE):
            left = np.flatnonzero(allowed[line] & ~view[line])
            missing = min(MIN_DEGREE - int(view[line].sum()), len(left))
            view[line, rng.choice(left, missing, replace=False)] = True
    return chosen


def one_seed(D: Floats, *, rule: SplitRule, seed: int) -> dict[str, tuple[float, float, float, float]]:
    """RMSE on the holdout, ρ and τ of abilities to the fit of all training cells, CPU seconds; by baseline."""
    truth = row_scores(D)
    split = draw_split(~np.isnan(truth), fraction=0.2, rule=rule, seed=seed)
    train = np.where(split.holdout, np.nan, row_scores(D, split.holdout if rule == "shared" else None))
    reference = ClippedLinear().fit(train).ability_
    cells = nlogn_cells(~np.isnan(train), np.random.default_rng([seed, 1]))
    sparse = np.where(cells, train, np.nan)
    result = {}
    for name in BASELINES:
        started = process_time()
        model = BASELINES.load(name)().fit(sparse)
        seconds = process_time() - started
        error = (model.predict() - truth)[split.holdout]
        rho = float(spearmanr(model.ability_, reference).statistic)
        tau = float(kendalltau(model.ability_, reference).statistic)
        result[name] = (float(np.sqrt(np.mean(error**2))), rho, tau, seconds)
    return result


def summary(seeds: list[dict[str, tuple[float, float, float, float]]]) -> dict[str, dict[str, float]]:
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
    parser.add_argument("--smoke", action="store_true", help="one seed: does it run, are the figures near?")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--data", default="pubmed_200_config_results")
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    folder = arguments.shared / arguments.data
    if not folder.is_dir():
        sys.exit(f"Real judge data is not in {arguments.shared}. Say where by --shared.")

    D = differences(folder)
    n_seeds = 1 if arguments.smoke else arguments.seeds
    tables = {rule: summary([one_seed(D, rule=rule, seed=seed) for seed in range(n_seeds)]) for rule in RULES}
    for column, rule in enumerate(RULES):
        for name, page in PAGE.items():
            tables[rule][name]["page"] = page[column]
    text = json.dumps({"data": arguments.data, "seeds": n_seeds, "c": C, **tables}, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
