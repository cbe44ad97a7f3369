"""Measure the additive solver and its box constraint against scipy's lsqr and lsmr, pyfixest's demean, and Clarabel by cvxpy.

Only ratios of CPU time count: medians within one run, with BLAS on one thread.

`python benchmarks/stats_solver.py [--smoke | --large] [--out FILE]` prints JSON. `--smoke` uses small sizes and checks no bar,
`--large` adds 100 million cells (17 GB of memory, five minutes).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import lsmr, lsqr

from results import print_results
from youden.stats import Cells, cells_from_arrays, solve_additive, solve_cells
from youden.stats.additive.solver import Solution

TOLERANCE = 1e-10
Floats = NDArray[np.float64]
Ids = NDArray[np.int32]


def measure_seconds(run: Callable[[], object], *, repeats: int) -> float:
    """Return the median CPU seconds of a call."""
    seconds = []
    for _ in range(repeats):
        start = process_time()
        run()
        seconds.append(process_time() - start)
    return median(seconds)


def measure_peak_bytes(run: Callable[[], object]) -> int:
    """Return the peak of newly allocated memory."""
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def check_minimum(value: float, minimum: float, *, judged: bool) -> dict[str, object]:
    """Return a figure with its bar, a minimum; `judged` is false in a smoke run."""
    return {"value": value, "at_least": minimum, "holds": bool(value >= minimum) if judged else None}


def check_maximum(value: float, maximum: float, *, judged: bool) -> dict[str, object]:
    """Return a figure with its bar, a maximum; `judged` is false in a smoke run."""
    return {"value": value, "at_most": maximum, "holds": bool(value <= maximum) if judged else None}


def draw_scores(agent: Ids, item: Ids, *, n_agents: int, n_items: int) -> Cells:
    """Draw scores in (−1, 1) for cells: ability − difficulty plus noise."""
    rng = np.random.default_rng(1)
    theta = rng.normal(0.3, 0.1, n_agents).astype(np.float32)
    b = rng.normal(0, 0.1, n_items).astype(np.float32)
    score = theta[agent] - b[item]
    score += 0.1 * rng.standard_normal(len(agent), dtype=np.float32)
    np.clip(score, -0.99, 0.99, out=score)
    return cells_from_arrays(agent, item, score, n_agents=n_agents, n_items=n_items)


def draw_random_cells(*, n_agents: int, n_items: int, per_item: int) -> Cells:
    """Draw cells grouped by item, with random agents."""
    rng = np.random.default_rng(0)
    agent: Ids = rng.integers(n_agents, size=n_items * per_item, dtype=np.int32)
    item = np.repeat(np.arange(n_items, dtype=np.int32), per_item)
    return draw_scores(agent, item, n_agents=n_agents, n_items=n_items)


def draw_window_cells(*, n_agents: int, n_items: int, per_item: int) -> Cells:
    """Draw cells in which each item is observed for neighboring agents only, for which simple iterations converge slowly."""
    first = np.random.default_rng(0).integers(n_agents - per_item + 1, size=n_items, dtype=np.int32)
    agent: Ids = np.add.outer(first, np.arange(per_item, dtype=np.int32)).ravel()
    item = np.repeat(np.arange(n_items, dtype=np.int32), per_item)
    return draw_scores(agent, item, n_agents=n_agents, n_items=n_items)


def shuffle(cells: Cells) -> Cells:
    """Return the cells in random order."""
    order = np.random.default_rng(2).permutation(len(cells))
    return cells_from_arrays(
        cells.agent[order], cells.item[order], cells.score[order], n_agents=cells.n_agents, n_items=cells.n_items
    )


def make_design_matrix(cells: Cells) -> Any:
    """Make the matrix for lsqr, +1 in the agent's column and −1 in the item's; its time is not counted."""
    size = len(cells)
    columns = np.empty((size, 2), dtype=np.int32)
    columns[:, 0], columns[:, 1] = cells.agent, cells.item
    columns[:, 1] += cells.n_agents
    values = np.tile([1.0, -1.0], size)
    start = np.arange(0, 2 * size + 1, 2, dtype=np.int32)
    return csr_array((values, columns.ravel(), start), shape=(size, cells.n_agents + cells.n_items))


def measure_peer(peer: Callable[..., Any], cells: Cells, *, repeats: int) -> float:
    """Return the median CPU seconds of a solver of scipy."""
    X, y = make_design_matrix(cells), cells.score.astype(np.float64)
    return measure_seconds(lambda: peer(X, y, atol=TOLERANCE, btol=TOLERANCE), repeats=repeats)


def measure_pyfixest(cells: Cells, *, repeats: int) -> float | None:
    """Return the CPU seconds of two-way demeaning to 1e-10, which gives neither abilities nor difficulties; None if missing."""
    if find_spec("pyfixest") is None:
        return None
    demean: Any = import_module("pyfixest.estimation").demean
    codes = np.column_stack([cells.agent, cells.item]).astype(np.uint64)
    y, weight = cells.score.astype(np.float64)[:, None], np.ones(len(cells))
    return measure_seconds(lambda: demean(y, codes, weight, tol=TOLERANCE), repeats=repeats)


def compute_relative_gradient(cells: Cells, solution: Solution) -> float:
    """Compute the gradient of a solution relative to the largest sum of scores of an agent."""
    score_sums = np.bincount(cells.agent, weights=cells.score, minlength=cells.n_agents)
    return solution.kkt / float(np.abs(score_sums).max())


def measure_small(*, judged: bool) -> dict[str, object]:
    """Measure 30 × 200 with a third of the cells."""
    agent, item = np.nonzero(np.random.default_rng(0).random((30, 200)) < 0.334)
    drawn = draw_scores(agent.astype(np.int32), item.astype(np.int32), n_agents=30, n_items=200)
    cells = cells_from_arrays(agent, item, drawn.score.astype(np.float64), n_agents=30, n_items=200)
    rounds, repeats = (9, 61) if judged else (1, 3)
    solve_with_validation = partial(solve_additive, cells.agent, cells.item, cells.score, n_agents=30, n_items=200)
    times_by_round = [
        (
            measure_seconds(lambda: solve_cells(cells), repeats=repeats),
            measure_seconds(solve_with_validation, repeats=repeats),
            measure_peer(lsqr, cells, repeats=repeats),
        )
        for _ in range(rounds)
    ]
    solver_seconds, validated_seconds, lsqr_seconds = (
        median(round_times) for round_times in zip(*times_by_round, strict=True)
    )
    return {
        "n_cells": len(cells),
        "ours_seconds": solver_seconds,
        "ours_with_validation_seconds": validated_seconds,
        "lsqr_seconds": lsqr_seconds,
        "times_lsqr": check_minimum(lsqr_seconds / solver_seconds, 12, judged=judged),
        "times_lsqr_with_validation": lsqr_seconds / validated_seconds,
    }


def measure_ten_million(cells: Cells, *, judged: bool, repeats: int) -> dict[str, object]:
    """Measure ten million cells, grouped by item and in random order."""
    shuffled_cells = shuffle(cells)
    peers = {"lsqr": measure_peer(lsqr, cells, repeats=repeats), "lsmr": measure_peer(lsmr, cells, repeats=repeats)}
    shuffled_peers = {"lsqr": measure_peer(lsqr, shuffled_cells, repeats=repeats)}
    pyfixest_seconds = measure_pyfixest(cells, repeats=repeats)
    grouped_seconds = measure_seconds(lambda: solve_cells(cells), repeats=repeats)
    shuffled_seconds = measure_seconds(lambda: solve_cells(shuffled_cells), repeats=repeats)
    return {
        "n_cells": len(cells),
        "peer_seconds": {**peers, "pyfixest_demean": pyfixest_seconds},
        "lsqr_random_order_seconds": shuffled_peers["lsqr"],
        "grouped_seconds": grouped_seconds,
        "random_order_seconds": shuffled_seconds,
        "times_lsqr_or_lsmr": check_minimum(min(peers.values()) / grouped_seconds, 2, judged=judged),
        "times_pyfixest": None if pyfixest_seconds is None else pyfixest_seconds / grouped_seconds,
        "random_order_times_lsqr": check_minimum(shuffled_peers["lsqr"] / shuffled_seconds, 2, judged=judged),
        "extra_bytes_per_cell": max(
            measure_peak_bytes(partial(solve_cells, ordered_cells)) for ordered_cells in (cells, shuffled_cells)
        )
        / len(cells),
    }


def measure_window(cells: Cells, *, judged: bool, repeats: int) -> dict[str, object]:
    """Measure the sliding window."""
    solution = solve_cells(cells)
    solver_seconds = measure_seconds(lambda: solve_cells(cells), repeats=repeats)
    lsqr_seconds = measure_peer(lsqr, cells, repeats=1)
    return {
        "n_cells": len(cells),
        "method": solution.method,
        "ours_seconds": solver_seconds,
        "lsqr_seconds": lsqr_seconds,
        "times_lsqr": check_minimum(lsqr_seconds / solver_seconds, 15, judged=judged),
        "relative_gradient": check_maximum(compute_relative_gradient(cells, solution), 1e-10, judged=judged),
    }


def measure_hundred_million(cells: Cells, *, repeats: int) -> dict[str, object]:
    """Measure 100 million cells."""
    solution = solve_cells(cells)
    solver_seconds = measure_seconds(lambda: solve_cells(cells), repeats=repeats)
    extra_gigabytes = measure_peak_bytes(lambda: solve_cells(cells)) / 1e9
    lsqr_seconds = measure_peer(lsqr, cells, repeats=1)
    return {
        "n_cells": len(cells),
        "ours_seconds": solver_seconds,
        "lsqr_seconds": lsqr_seconds,
        "relative_gradient": compute_relative_gradient(cells, solution),
        "times_lsqr": check_minimum(lsqr_seconds / solver_seconds, 15, judged=True),
        "extra_gigabytes": check_maximum(extra_gigabytes, 2, judged=True),
    }


def draw_box_instance(seed: int) -> Cells:
    """Draw an instance of 3 to 40 agents and 5 to 200 items; those with odd seeds are saturated."""
    rng = np.random.default_rng(seed)
    n_agents, n_items = int(rng.integers(3, 41)), int(rng.integers(5, 201))
    effect_sd, noise_sd = (0.5, 0.2) if seed % 2 else (0.1, 0.05)
    theta, b = rng.normal(0.3, effect_sd, n_agents), rng.normal(0, effect_sd, n_items)
    is_observed = rng.random((n_agents, n_items)) < rng.choice([0.33, 0.7, 1])
    is_observed[0] = is_observed[:, 0] = True
    agent, item = np.nonzero(is_observed)
    score = np.clip(theta[agent] - b[item] + noise_sd * rng.normal(size=len(agent)), -1, 1)
    return cells_from_arrays(agent, item, score, n_agents=n_agents, n_items=n_items)


def solve_by_clarabel(cells: Cells, *, ridge: float) -> tuple[Floats, Floats]:
    """Solve with the box constraint by Clarabel; return abilities and difficulties."""
    cp: Any = import_module("cvxpy")
    theta, b = cp.Variable(cells.n_agents), cp.Variable(cells.n_items)
    max_ability, min_ability = cp.Variable(), cp.Variable()
    squares = cp.sum_squares(cells.score - theta[cells.agent] + b[cells.item])
    penalty = ridge * (cp.sum_squares(theta) + cp.sum_squares(b))
    constraints = [
        theta <= max_ability,
        theta >= min_ability,
        b >= max_ability - 1,
        b <= min_ability + 1,
        cp.sum(b) == 0,
    ]
    tolerances = {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-13}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns if it stops just short of 1e-13
        cp.Problem(cp.Minimize(squares + penalty), constraints).solve(solver=cp.CLARABEL, **tolerances)
    return theta.value, b.value


def measure_box(*, n_instances: int, judged: bool) -> dict[str, object] | None:
    """Measure random instances, half of them saturated; None if cvxpy is not installed."""
    if find_spec("cvxpy") is None:
        return None
    ridge = 1e-3
    solver_seconds = 0.0
    clarabel_seconds = 0.0
    max_difference = 0.0
    max_kkt = 0.0
    n_active = 0
    for seed in range(n_instances):
        cells = draw_box_instance(seed)
        start = process_time()
        solution = solve_cells(cells, ridge=ridge, constraint="box")
        solver_seconds += process_time() - start
        start = process_time()
        theta, b = solve_by_clarabel(cells, ridge=ridge)
        clarabel_seconds += process_time() - start
        max_difference = max(
            max_difference, float(np.abs(solution.ability - theta).max()), float(np.abs(solution.difficulty - b).max())
        )
        max_kkt = max(max_kkt, solution.kkt)
        n_active = n_active + (solution.n_rounds > 1)
    return {
        "n_instances": n_instances,
        "n_active": n_active,
        "ours_seconds": solver_seconds,
        "clarabel_seconds": clarabel_seconds,
        "largest_difference": check_maximum(max_difference, 1e-6, judged=judged),
        "largest_kkt": check_maximum(max_kkt, 1e-9, judged=judged),
        "times_clarabel": check_minimum(clarabel_seconds / solver_seconds, 20, judged=judged),
    }


def measure_all(*, smoke: bool, hundred_million: bool) -> dict[str, object]:
    """Run all measurements."""
    scale, repeats = (100, 1) if smoke else (1, 5)
    judged = not smoke
    ten_million = draw_random_cells(n_agents=1_000, n_items=100_000 // scale, per_item=100)
    result: dict[str, object] = {
        "small": measure_small(judged=judged),
        "box": measure_box(n_instances=10 if smoke else 500, judged=judged),
        "window": measure_window(
            draw_window_cells(n_agents=1_000, n_items=100_000 // scale, per_item=10), judged=judged, repeats=repeats
        ),
        "ten_million": measure_ten_million(ten_million, judged=judged, repeats=repeats),
    }
    if hundred_million:
        del ten_million
        result["hundred_million"] = measure_hundred_million(
            draw_random_cells(n_agents=10_000, n_items=1_000_000, per_item=100), repeats=repeats
        )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="run small sizes; no bar counts")
    parser.add_argument("--large", action="store_true", help="also measure 100 million cells")
    parser.add_argument("--out", type=Path, help="write the JSON here as well")
    arguments = parser.parse_args()
    # Idle BLAS threads spin, which would increase the times of the peers.
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        process = subprocess.run(
            [sys.executable, *sys.argv], env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, check=False
        )
        sys.exit(process.returncode)
    print_results(measure_all(smoke=arguments.smoke, hundred_million=arguments.large), arguments.out)


if __name__ == "__main__":
    main()
