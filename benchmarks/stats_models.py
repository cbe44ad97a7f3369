"""How fast bootstrap refits and exact curl are beside a loop over lsqr and brute numpy, and the mixed pair model's rankings.

It knows the peers and the bars; it refuses to know how anything is computed.
`python benchmarks/stats_models.py [--smoke] [--out FILE] [--shared FOLDER]` prints JSON. CPU seconds, medians of 5 runs.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.linalg import lsqr
from scipy.stats import spearmanr

from youden.nouns.arrays import Floats, Ids
from youden.stats.additive.ability_intervals import intervals
from youden.stats.curl.quantiles import curl_ecdf, curl_quantiles
from youden.stats.trials.pair_model import fit_pair_model

SHARED = Path(__file__).parents[2] / "shared" / "peer-prediction" / "eval_results"
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


def lsqr_bootstrap(value: Floats, n_draws: int, rng: np.random.Generator) -> Floats:
    """The paper's bootstrap as one would write it: a sparse least-squares problem a draw, at tolerance 1e-10."""
    agent, item = np.nonzero(~np.isnan(value))
    n = len(agent)
    rows, columns = np.tile(np.arange(n), 2), np.concatenate([agent, K + item])
    X = csr_array(coo_array((np.repeat([1.0, -1.0], n), (rows, columns)), shape=(n, K + J)))
    y, abilities = value[agent, item], np.empty((n_draws, K))
    for draw in range(n_draws):
        root = np.sqrt(np.bincount(rng.integers(0, n, n), minlength=n))
        theta = lsqr(diags_array(root) @ X, root * y, atol=1e-10, btol=1e-10)[0][:K]
        abilities[draw] = theta - theta.mean()
    return abilities


def brute_curl(matrix: Floats) -> Floats:
    """Median and P95 of every rectangle, listed."""
    upper, lower = np.triu_indices(K, 1)
    left, right = np.triu_indices(J, 1)
    difference = matrix[upper] - matrix[lower]
    gaps = np.abs(difference[:, left] - difference[:, right]).ravel()
    gaps = gaps[~np.isnan(gaps)]
    ranks = [math.ceil(q * len(gaps)) - 1 for q in (0.5, 0.95)]
    return np.partition(gaps, ranks)[ranks]


def bootstrap(*, repeats: int, n_draws: int) -> dict[str, float | bool]:
    value = lattice_scores(np.random.default_rng(0), observed=1 / 3)

    def ours() -> object:
        return intervals(value, method="multinomial", rng=np.random.default_rng(1), n_draws=n_draws)

    def loop() -> object:
        return lsqr_bootstrap(value, n_draws, np.random.default_rng(1))

    batched, looped = seconds(ours, repeats=repeats), seconds(loop, repeats=repeats)
    width = intervals(value, method="multinomial", rng=np.random.default_rng(1), n_draws=n_draws)
    twin = np.quantile(lsqr_bootstrap(value, n_draws, np.random.default_rng(1)), [0.025, 0.975], axis=0)
    return {
        "cpu_seconds": batched,
        "lsqr_loop_cpu_seconds": looped,
        "times_faster": looped / batched,
        "bar": 15,
        "meets_bar": looped / batched >= 15,
        "largest_difference": float(np.abs(np.array([width.low, width.high]) - width.ability.mean() - twin).max()),
    }


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


class Answers(NamedTuple):
    item: Ids
    first: Ids
    second: Ids
    answer: Floats


def paired_answers(D: Floats) -> Floats:
    """The public data hold p − q only; q is almost always 0, which tells p on its three grades."""
    return np.where(np.isin(D, [1, 0.75]), 1.0, np.where(np.isin(D, [0.25, -0.75]), 0.25, 0.0))


def cyclic_trials(P: Floats, rng: np.random.Generator, *, share: float) -> Answers:
    """Paired trials of a cyclic design of `share` of the dense calls, 100 of them independent ones."""
    n_items, n_agents, _ = P.shape
    order, items, shifts = rng.permutation(n_agents), rng.permutation(n_items), rng.permutation(np.arange(1, n_agents))
    slot = np.arange(int((share * 2 * n_agents * (n_agents - 1) * n_items - 100) / n_agents))
    shift = shifts[(slot + slot // np.lcm(n_items, n_agents - 1)) % (n_agents - 1)]
    first = np.tile(order, len(slot))
    second = order[(np.arange(n_agents) + shift[:, None]) % n_agents].ravel()
    item = np.repeat(items[slot % n_items], n_agents)
    return Answers(item.astype(np.int32), first.astype(np.int32), second.astype(np.int32), P[item, first, second])


def pair_model(folder: Path, *, shares: tuple[float, ...], n_seeds: int) -> dict[str, dict[str, float]]:
    """Spearman of row scores to the dense row ranking: the mixed model, and the plain mean of the agent's first places."""
    files = sorted((folder / "tvd_mi_individual_examples").glob("tvd_mi_example_*.json"))
    D = np.array([json.loads(file.read_text(encoding="utf-8"))["tvd_mi_matrix"] for file in files], dtype=np.float64)
    P, dense = paired_answers(D), D.sum(axis=(0, 2))
    table = {}
    for share in shares:
        rho = np.zeros((n_seeds, 2))
        started = process_time()
        for seed in range(n_seeds):
            t = cyclic_trials(P, np.random.default_rng(seed), share=share)
            model = fit_pair_model(t.first, t.second, t.item, t.answer, n_agents=P.shape[1], n_items=P.shape[0])
            plain = np.bincount(t.first, t.answer) / np.bincount(t.first)
            rho[seed] = spearmanr(model.ability, dense).statistic, spearmanr(plain, dense).statistic
        table[f"{share:.1%}"] = {
            "spearman": float(rho[:, 0].mean()),
            "plain_mean": float(rho[:, 1].mean()),
            "standard_error": float(rho[:, 0].std(ddof=1) / np.sqrt(n_seeds)),
            "cpu_seconds_each": (process_time() - started) / n_seeds,
        }
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="one short round: does it run?")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--shared", type=Path, default=SHARED)
    arguments = parser.parse_args()
    repeats = 1 if arguments.smoke else REPEATS
    result: dict[str, object] = {
        "bootstrap_500_refits": bootstrap(repeats=repeats, n_draws=50 if arguments.smoke else 500),
        "curl_30_by_200": curl(repeats=repeats),
    }
    for name, data in (("pubmed", "pubmed_200_config_results"), ("iclr", "peer_review_results_100")):
        if (arguments.shared / data).is_dir():
            shares = (0.02,) if arguments.smoke else (0.01, 0.02, 0.058)
            result[f"pair_model_{name}"] = pair_model(
                arguments.shared / data, shares=shares, n_seeds=2 if arguments.smoke else 20
            )
    text = json.dumps(result, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
