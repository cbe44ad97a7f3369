"""How fast the additive solver and its box are, against scipy's lsqr and lsmr, pyfixest's demean, and Clarabel by cvxpy.

It knows the bars the project set itself; it refuses to know other machines: what counts are ratios of process CPU time,
medians within one run, BLAS on one thread. `python benchmarks/stats_solver.py [--smoke | --large] [--out FILE]` prints
JSON; `--smoke` shrinks everything and judges no bar, `--large` adds the 100 million cells (17 GB of memory, five minutes).
"""

from __future__ import annotations

import argparse
import json
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

from youden.stats import Cells, cells_from_arrays, solve_additive, solve_cells
from youden.stats.additive.solver import Solution

TOLERANCE = 1e-10
Floats = NDArray[np.float64]
Ids = NDArray[np.int32]


def seconds(run: Callable[[], object], *, repeats: int) -> float:
    """Median CPU seconds of one call."""
    taken = []
    for _ in range(repeats):
        start = process_time()
        run()
        taken.append(process_time() - start)
    return median(taken)


def peak_bytes(run: Callable[[], object]) -> int:
    """Most memory held at once beyond what was held before."""
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def bar(value: float, least: float, *, judged: bool) -> dict[str, object]:
    return {"value": value, "at_least": least, "holds": bool(value >= least) if judged else None}


def cap(value: float, most: float, *, judged: bool) -> dict[str, object]:
    return {"value": value, "at_most": most, "holds": bool(value <= most) if judged else None}


def additive(agent: Ids, item: Ids, *, n_agents: int, n_items: int) -> Cells:
    """Cells with scores in (−1, 1): ability − difficulty and noise."""
    rng = np.random.default_rng(1)
    theta = rng.normal(0.3, 0.1, n_agents).astype(np.float32)
    b = rng.normal(0, 0.1, n_items).astype(np.float32)
    score = theta[agent] - b[item]
    score += 0.1 * rng.standard_normal(len(agent), dtype=np.float32)
    np.clip(score, -0.99, 0.99, out=score)
    return cells_from_arrays(agent, item, score, n_agents=n_agents, n_items=n_items)


def random_graph(*, n_agents: int, n_items: int, per_item: int) -> Cells:
    """Grouped by item, agents drawn at random."""
    rng = np.random.default_rng(0)
    agent: Ids = rng.integers(n_agents, size=n_items * per_item, dtype=np.int32)
    item = np.repeat(np.arange(n_items, dtype=np.int32), per_item)
    return additive(agent, item, n_agents=n_agents, n_items=n_items)


def window_graph(*, n_agents: int, n_items: int, per_item: int) -> Cells:
    """Every item is seen by neighbouring agents only: the graph on which simple iterations crawl."""
    first = np.random.default_rng(0).integers(n_agents - per_item + 1, size=n_items, dtype=np.int32)
    agent: Ids = np.add.outer(first, np.arange(per_item, dtype=np.int32)).ravel()
    item = np.repeat(np.arange(n_items, dtype=np.int32), per_item)
    return additive(agent, item, n_agents=n_agents, n_items=n_items)


def shuffled(cells: Cells) -> Cells:
    order = np.random.default_rng(2).permutation(len(cells))
    return cells_from_arrays(
        cells.agent[order], cells.item[order], cells.score[order], n_agents=cells.n_agents, n_items=cells.n_items
    )


def design(cells: Cells) -> Any:
    """+1 in the agent's column, −1 in the item's: what a user of lsqr builds, not counted in its time."""
    size = len(cells)
    columns = np.empty((size, 2), dtype=np.int32)
    columns[:, 0], columns[:, 1] = cells.agent, cells.item
    columns[:, 1] += cells.n_agents
    values = np.tile([1.0, -1.0], size)
    start = np.arange(0, 2 * size + 1, 2, dtype=np.int32)
    return csr_array((values, columns.ravel(), start), shape=(size, cells.n_agents + cells.n_items))


def by(peer: Callable[..., Any], cells: Cells, *, repeats: int) -> float:
    X, y = design(cells), cells.score.astype(np.float64)
    return seconds(lambda: peer(X, y, atol=TOLERANCE, btol=TOLERANCE), repeats=repeats)


def by_pyfixest(cells: Cells, *, repeats: int) -> float | None:
    """Two-way demeaning to 1e-10; it returns neither abilities nor difficulties."""
    if find_spec("pyfixest") is None:
        return None
    demean: Any = import_module("pyfixest.estimation").demean
    codes = np.column_stack([cells.agent, cells.item]).astype(np.uint64)
    y, weight = cells.score.astype(np.float64)[:, None], np.ones(len(cells))
    return seconds(lambda: demean(y, codes, weight, tol=TOLERANCE), repeats=repeats)


def relative_gradient(cells: Cells, found: Solution) -> float:
    per_agent = np.bincount(cells.agent, weights=cells.score, minlength=cells.n_agents)
    return found.kkt / float(np.abs(per_agent).max())


def small(*, judged: bool) -> dict[str, object]:
    """30 × 200 with a third of the cells."""
    agent, item = np.nonzero(np.random.default_rng(0).random((30, 200)) < 0.334)
    drawn = additive(agent.astype(np.int32), item.astype(np.int32), n_agents=30, n_items=200)
    cells = cells_from_arrays(agent, item, drawn.score.astype(np.float64), n_agents=30, n_items=200)
    rounds, repeats = (9, 61) if judged else (1, 3)
    whole = partial(solve_additive, cells.agent, cells.item, cells.score, n_agents=30, n_items=200)
    turns = [
        (
            seconds(lambda: solve_cells(cells), repeats=repeats),
            seconds(whole, repeats=repeats),
            by(lsqr, cells, repeats=repeats),
        )
        for _ in range(rounds)
    ]
    ours, checked, peer = (median(turn) for turn in zip(*turns, strict=True))
    return {
        "n_cells": len(cells),
        "ours_seconds": ours,
        "ours_with_validation_seconds": checked,
        "lsqr_seconds": peer,
        "times_lsqr": bar(peer / ours, 12, judged=judged),
        "times_lsqr_with_validation": peer / checked,
    }


def large(cells: Cells, *, judged: bool, repeats: int) -> dict[str, object]:
    """Ten million cells, grouped by item and in random order."""
    mixed = shuffled(cells)
    peers = {"lsqr": by(lsqr, cells, repeats=repeats), "lsmr": by(lsmr, cells, repeats=repeats)}
    peers_mixed = {"lsqr": by(lsqr, mixed, repeats=repeats)}
    fixest = by_pyfixest(cells, repeats=repeats)
    grouped = seconds(lambda: solve_cells(cells), repeats=repeats)
    random = seconds(lambda: solve_cells(mixed), repeats=repeats)
    return {
        "n_cells": len(cells),
        "peer_seconds": {**peers, "pyfixest_demean": fixest},
        "lsqr_random_order_seconds": peers_mixed["lsqr"],
        "grouped_seconds": grouped,
        "random_order_seconds": random,
        "times_lsqr_or_lsmr": bar(min(peers.values()) / grouped, 2, judged=judged),
        "times_pyfixest": None if fixest is None else fixest / grouped,
        "random_order_times_lsqr": bar(peers_mixed["lsqr"] / random, 2, judged=judged),
        "extra_bytes_per_cell": max(peak_bytes(partial(solve_cells, each)) for each in (cells, mixed)) / len(cells),
    }


def hardest(cells: Cells, *, judged: bool, repeats: int) -> dict[str, object]:
    """The sliding window."""
    found = solve_cells(cells)
    ours = seconds(lambda: solve_cells(cells), repeats=repeats)
    peer = by(lsqr, cells, repeats=1)
    return {
        "n_cells": len(cells),
        "method": found.method,
        "ours_seconds": ours,
        "lsqr_seconds": peer,
        "times_lsqr": bar(peer / ours, 15, judged=judged),
        "relative_gradient": cap(relative_gradient(cells, found), 1e-10, judged=judged),
    }


def largest(cells: Cells, *, repeats: int) -> dict[str, object]:
    """A hundred million cells."""
    found = solve_cells(cells)
    ours = seconds(lambda: solve_cells(cells), repeats=repeats)
    extra = peak_bytes(lambda: solve_cells(cells)) / 1e9
    peer = by(lsqr, cells, repeats=1)
    return {
        "n_cells": len(cells),
        "ours_seconds": ours,
        "lsqr_seconds": peer,
        "relative_gradient": relative_gradient(cells, found),
        "times_lsqr": bar(peer / ours, 15, judged=True),
        "extra_gigabytes": cap(extra, 2, judged=True),
    }


def boxed(seed: int) -> Cells:
    """An instance of 3–40 agents and 5–200 items; every other one is saturated."""
    rng = np.random.default_rng(seed)
    n_agents, n_items = int(rng.integers(3, 41)), int(rng.integers(5, 201))
    spread, noise = (0.5, 0.2) if seed % 2 else (0.1, 0.05)
    theta, b = rng.normal(0.3, spread, n_agents), rng.normal(0, spread, n_items)
    seen = rng.random((n_agents, n_items)) < rng.choice([0.33, 0.7, 1])
    seen[0] = seen[:, 0] = True
    agent, item = np.nonzero(seen)
    score = np.clip(theta[agent] - b[item] + noise * rng.normal(size=len(agent)), -1, 1)
    return cells_from_arrays(agent, item, score, n_agents=n_agents, n_items=n_items)


def by_clarabel(cells: Cells, *, ridge: float) -> tuple[Floats, Floats]:
    cp: Any = import_module("cvxpy")
    theta, b = cp.Variable(cells.n_agents), cp.Variable(cells.n_items)
    p, q = cp.Variable(), cp.Variable()
    squares = cp.sum_squares(cells.score - theta[cells.agent] + b[cells.item])
    penalty = ridge * (cp.sum_squares(theta) + cp.sum_squares(b))
    box = [theta <= p, theta >= q, b >= p - 1, b <= q + 1, cp.sum(b) == 0]
    exact = {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-13}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says so when it stops just short of 1e-13
        cp.Problem(cp.Minimize(squares + penalty), box).solve(solver=cp.CLARABEL, **exact)
    return theta.value, b.value


def box(*, n_instances: int, judged: bool) -> dict[str, object] | None:
    """Random instances, half of them saturated."""
    if find_spec("cvxpy") is None:
        return None
    ridge, ours, theirs, apart, kkt, active = 1e-3, 0.0, 0.0, 0.0, 0.0, 0
    for seed in range(n_instances):
        cells = boxed(seed)
        start = process_time()
        found = solve_cells(cells, ridge=ridge, constraint="box")
        ours += process_time() - start
        start = process_time()
        theta, b = by_clarabel(cells, ridge=ridge)
        theirs += process_time() - start
        apart = max(apart, float(np.abs(found.ability - theta).max()), float(np.abs(found.difficulty - b).max()))
        kkt, active = max(kkt, found.kkt), active + (found.n_rounds > 1)
    return {
        "n_instances": n_instances,
        "n_active": active,
        "ours_seconds": ours,
        "clarabel_seconds": theirs,
        "largest_difference": cap(apart, 1e-6, judged=judged),
        "largest_kkt": cap(kkt, 1e-9, judged=judged),
        "times_clarabel": bar(theirs / ours, 20, judged=judged),
    }


def measure(*, smoke: bool, hundred_million: bool) -> dict[str, object]:
    scale, repeats = (100, 1) if smoke else (1, 5)
    judged = not smoke
    ten_million = random_graph(n_agents=1_000, n_items=100_000 // scale, per_item=100)
    result: dict[str, object] = {
        "small": small(judged=judged),
        "box": box(n_instances=10 if smoke else 500, judged=judged),
        "window": hardest(
            window_graph(n_agents=1_000, n_items=100_000 // scale, per_item=10), judged=judged, repeats=repeats
        ),
        "ten_million": large(ten_million, judged=judged, repeats=repeats),
    }
    if hundred_million:
        del ten_million
        result["hundred_million"] = largest(
            random_graph(n_agents=10_000, n_items=1_000_000, per_item=100), repeats=repeats
        )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small sizes, no bar judged")
    parser.add_argument("--large", action="store_true", help="also the 100 million cells")
    parser.add_argument("--out", type=Path, help="write the JSON here as well")
    options = parser.parse_args()
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # idle threads of BLAS spin, and would count against the peers
        again = subprocess.run(
            [sys.executable, *sys.argv], env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, check=False
        )
        sys.exit(again.returncode)
    text = json.dumps(measure(smoke=options.smoke, hundred_million=options.large), indent=2)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
