"""How fast exact curl is beside a list of every rectangle in numpy.

`python benchmarks/stats_curl.py [--smoke] [--out FILE]` prints JSON. CPU seconds, medians of 5 runs.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from time import process_time

import numpy as np

from youden.stats import curl_ecdf, curl_quantiles
from youden.types.pool import Floats

K, J = 30, 200
REPEATS = 5


def seconds(act: Callable[[], object], *, repeats: int) -> float:
    """Median CPU seconds."""
    taken = []
    for _ in range(repeats):
        started = process_time()
        act()
        taken.append(process_time() - started)
    return float(np.median(taken))


def lattice_scores(rng: np.random.Generator, *, observed: float) -> Floats:
    """Scores on the judge's lattice, additive plus noise."""
    value = rng.normal(0.6, 0.15, (K, 1)) + rng.normal(0, 0.1, J) + rng.normal(0, 0.11, (K, J))
    value = np.clip(np.rint(value * 116) / 116, -1, 1)
    value[rng.random(value.shape) > observed] = np.nan
    return value


def brute_curl(matrix: Floats) -> Floats:
    """Median and P95 of every rectangle, listed."""
    upper, lower = np.triu_indices(K, 1)
    left, right = np.triu_indices(J, 1)
    difference = matrix[upper] - matrix[lower]
    gaps = np.abs(difference[:, left] - difference[:, right]).ravel()
    gaps = gaps[~np.isnan(gaps)]
    ranks = [math.ceil(q * len(gaps)) - 1 for q in (0.5, 0.95)]
    return np.partition(gaps, ranks)[ranks]


def curl(*, repeats: int) -> dict[str, float | bool]:
    rng = np.random.default_rng(2)
    dense, sparse = lattice_scores(rng, observed=1), lattice_scores(rng, observed=1 / 3)
    ours = seconds(lambda: curl_quantiles(dense), repeats=repeats)
    brute = seconds(lambda: brute_curl(dense), repeats=repeats)
    gappy = seconds(lambda: curl_quantiles(sparse), repeats=repeats)
    return {
        "dense_cpu_seconds": ours,
        "brute_cpu_seconds": brute,
        "times_faster": brute / ours,
        "bar": 2,
        "third_observed_cpu_seconds": gappy,
        "third_observed_bar": 0.015,
        "ecdf_of_100_points_cpu_seconds": seconds(lambda: curl_ecdf(dense, np.linspace(0, 1, 100)), repeats=1),
        "largest_difference": float(np.abs(curl_quantiles(dense) - brute_curl(dense)).max()),
        "meets_bar": brute / ours >= 2 and gappy <= 0.015,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="one short round: does it run?")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    repeats = 1 if arguments.smoke else REPEATS
    text = json.dumps({"curl_30_by_200": curl(repeats=repeats)}, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
