"""Measure the exact curl against a list of all rectangles in numpy.

`python benchmarks/stats_curl.py [--smoke] [--out FILE]` prints JSON: CPU seconds, medians of 5 runs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from time import process_time

import numpy as np

from results import print_results
from youden.stats import curl_ecdf, curl_quantiles
from youden.types.pool import Floats

K, J = 30, 200
REPEATS = 5


def measure_seconds(act: Callable[[], object], *, repeats: int) -> float:
    """Return the median CPU seconds of `act`."""
    seconds = []
    for _ in range(repeats):
        start = process_time()
        act()
        seconds.append(process_time() - start)
    return float(np.median(seconds))


def draw_lattice_scores(rng: np.random.Generator, *, observed: float) -> Floats:
    """Draw additive scores with noise on the judge's lattice; a share `observed` is not NaN."""
    value = rng.normal(0.6, 0.15, (K, 1)) + rng.normal(0, 0.1, J) + rng.normal(0, 0.11, (K, J))
    value = np.clip(np.rint(value * 116) / 116, -1, 1)
    value[rng.random(value.shape) > observed] = np.nan
    return value


def list_curl(matrix: Floats) -> Floats:
    """Return the median and the 95th percentile of all rectangles, listed explicitly."""
    upper, lower = np.triu_indices(K, 1)
    left, right = np.triu_indices(J, 1)
    difference = matrix[upper] - matrix[lower]
    curls = np.abs(difference[:, left] - difference[:, right]).ravel()
    curls = curls[~np.isnan(curls)]
    ranks = [math.ceil(q * len(curls)) - 1 for q in (0.5, 0.95)]
    return np.partition(curls, ranks)[ranks]


def measure_curl(*, repeats: int) -> dict[str, float | bool]:
    """Measure dense scores, and scores with a third of the cells."""
    rng = np.random.default_rng(2)
    dense = draw_lattice_scores(rng, observed=1)
    sparse = draw_lattice_scores(rng, observed=1 / 3)
    exact_seconds = measure_seconds(lambda: curl_quantiles(dense), repeats=repeats)
    list_seconds = measure_seconds(lambda: list_curl(dense), repeats=repeats)
    sparse_seconds = measure_seconds(lambda: curl_quantiles(sparse), repeats=repeats)
    return {
        "dense_cpu_seconds": exact_seconds,
        "brute_cpu_seconds": list_seconds,
        "times_faster": list_seconds / exact_seconds,
        "bar": 2,
        "third_observed_cpu_seconds": sparse_seconds,
        "third_observed_bar": 0.015,
        "ecdf_of_100_points_cpu_seconds": measure_seconds(lambda: curl_ecdf(dense, np.linspace(0, 1, 100)), repeats=1),
        "largest_difference": float(np.abs(curl_quantiles(dense) - list_curl(dense)).max()),
        "meets_bar": list_seconds / exact_seconds >= 2 and sparse_seconds <= 0.015,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="run once")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    repeats = 1 if arguments.smoke else REPEATS
    print_results({"curl_30_by_200": measure_curl(repeats=repeats)}, arguments.out)


if __name__ == "__main__":
    main()
