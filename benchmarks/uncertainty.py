"""Measure the coverage of confidence intervals of abilities, differences and ranks.

Data: the paper's recorded judge answers and simulated pools. A paired answer is D, an independent one 0. Plans are cyclic; 100
calls of each budget are independent trials. `kind`: the items of a run are resampled from the domain, and the truth is the dense
ability of the domain. `these`: the run has the domain's items, and the truth is their dense ability. `width`: mean half-width
over that of version 0.1.0 (`first_intervals.py`) from the same answers. Simulated answers are
y = a_i + a_k + b_j + c_ij + c_kj + g_ik + noise, drawn for each run.

The following options select other measurements, each alone: `--adaptive`: adaptive runs with a `top`, when they stop;
`--joined`: agents that join a run by `extend`; `--cells`: designs of cells.

`python benchmarks/uncertainty.py [--draws 100] [--adaptive | --joined | --cells] [--smoke] [--shared FOLDER] [--out FILE]`
prints JSON, and a table to stderr.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from first_intervals import first_half_widths
from grown_coverage import average, measure_adaptive_run, measure_cell_run, measure_joined_run
from recorded import DOMAINS, SHARED, compute_dense_abilities, read_answers
from youden import ClippedLinear
from youden.protocol.designs.cyclic import Cyclic
from youden.run_keys import Target
from youden.stats import CentredCovariance, PairChunk, pairwise_differences, trial_means
from youden.stats.base.clusters import covariance_over_clusters
from youden.stats.base.metrics import rank_ranges
from youden.stats.trials.comparisons import rank_with_ties
from youden.stats.trials.noninferiority import estimate_difference
from youden.stats.trials.trial_errors import InfluenceTable, compute_item_influence, covariance_on_these_items
from youden.types import Trials
from youden.types.pool import Floats

PERCENTS = {"kind": (2, 5, 10, 20), "these": (1, 2, 5, 10, 20)}
N_INDEPENDENT = 100
SHAPES = {
    "8 × 12": (8, 12, 0.1, 1),
    "8 × 1000": (8, 1000, 0.1, 1),
    "20 × 60": (20, 60, 0.1, 1),
    "20 × 60, heavy pairs": (20, 60, 0.5, 1),
    "60 × 100": (60, 100, 0.1, 1),
    "60 × 20, heavy pairs": (60, 20, 0.5, 1),
    "8 × 60, two leaders": (8, 60, 0.0, 2),
    "20 × 60, all alike": (20, 60, 0.0, 20),
}
"""Agents, items, SD of the effect of an ordered pair, equal leaders. Other SDs: agents .1, items .3, cells .2, noise .35."""
MARGIN, ALPHA = 0.05, 0.025
CELLS = (("nlogn", 5), ("nlogn", 10), ("nlogn", 33), ("dense", None))
TARGETS: tuple[Target, ...] = ("items-like-these", "these-items")

Draw = Callable[[np.random.Generator], tuple[Floats, Floats]]
"""Function of a generator that returns D (n_items, n_agents, n_agents) and the centered true abilities (n_agents,)."""
Figures = dict[str, float]
Columns = dict[str, Floats]


class Estimates(NamedTuple):
    """Estimates from the answers to one plan."""

    ability: Floats
    old_half: Floats
    kind: CentredCovariance
    these: CentredCovariance
    items: InfluenceTable


def draw_cyclic_trials(shape: tuple[int, ...], percent: float, rng: np.random.Generator) -> Trials:
    """Draw the paired trials of a cyclic plan for answers of `shape` (n_items, n_agents, n_agents)."""
    n_items, n_agents, _ = shape
    n_paired = round(percent / 100 * 2 * n_agents * (n_agents - 1) * n_items) - N_INDEPENDENT
    return Cyclic(max(n_paired, 3 * n_agents)).draw(np.ones((n_agents, n_items), dtype=np.bool_), rng).trials


def estimate(D: Floats, plan: Trials) -> Estimates:
    """Estimate abilities and covariances from the answers to a plan.

    D : float array (n_items, n_agents, n_agents)
    """
    n_items, n_agents, _ = D.shape
    answer, ones = D[plan.item, plan.first, plan.second], np.ones(len(plan.item))
    chunk = PairChunk.from_trials(plan.item, plan.first, plan.second, answer, block=plan.block, n_items=n_items)
    mean = trial_means(lambda: [chunk], n_agents=n_agents, target="these-items").ability
    old_half = first_half_widths(plan, answer, mean, n_population=n_agents * (n_agents - 1) * n_items)
    items = compute_item_influence(
        plan.first,
        plan.second,
        plan.item,
        answer,
        ability=mean,
        first_weight=ones,
        second_weight=ones,
        n_items=n_items,
    )
    these = covariance_on_these_items(lambda: [chunk], ability=mean, n_items=n_items)
    kind = covariance_over_clusters(items.influence, items.weight, relative_variance=1 / items.n_trials.sum(axis=1))
    return Estimates(mean, old_half, kind, these, items)


def compute_coverage(estimates: Estimates, covariance: CentredCovariance, truth: Floats) -> Columns:
    """Compute coverage and widths of one draw.

    gate_width : factor by which the correction for rare events widens a gate's intervals of neighbors in the ranking
    """
    error = estimates.ability - estimates.ability.mean() - truth
    half_width, old_half_width = covariance.half_width(), estimates.old_half
    differences = pairwise_differences(estimates.ability, covariance)
    true_difference = truth[:, None] - truth
    true_rank = rank_with_ties(truth)
    old_ranks = rank_ranges(estimates.ability - old_half_width, estimates.ability + old_half_width)
    marginal, simultaneous = differences.marginal_ranks, differences.simultaneous_ranks
    order = np.argsort(-estimates.ability)
    neighbors = [estimate_difference(estimates.items, int(i), int(k)) for i, k in pairwise(order)]
    uncorrected = [student.ppf(1 - ALPHA, pair.n_items - 1) * pair.variance**0.5 for pair in neighbors]
    off_diagonal = ~np.eye(len(truth), dtype=np.bool_)
    figures = {
        "covered": (np.abs(error) <= half_width).astype(np.float64),
        "old_covered": (np.abs(error) <= old_half_width).astype(np.float64),
        "half": half_width.mean(),
        "old_half": old_half_width.mean(),
        "difference_covered": (np.abs(differences.value - true_difference) <= differences.half_width)[
            off_diagonal
        ].astype(float),
        "wrong_direction": float((differences.significantly_better & (true_difference < 0)).sum() / off_diagonal.sum()),
        "any_wrong_direction": float((differences.significantly_better & (true_difference < 0)).any()),
        "any_wrong_simultaneous": float((differences.simultaneously_better & (true_difference < 0)).any()),
        "simultaneous_share": float(differences.simultaneously_better.sum() / (off_diagonal.sum() / 2)),
        "significant_share": float(differences.significantly_better.sum() / (off_diagonal.sum() / 2)),
        "rank_covered": ((marginal.low <= true_rank) & (true_rank <= marginal.high)).astype(np.float64),
        "rank_width": float((marginal.high - marginal.low + 1).mean()),
        "old_rank_width": float((old_ranks.high - old_ranks.low + 1).mean()),
        "simultaneous": float(((simultaneous.low <= true_rank) & (true_rank <= simultaneous.high)).all()),
        "simultaneous_width": float((simultaneous.high - simultaneous.low + 1).mean()),
        "has_unique_best": float(differences.unique_best is not None),
        "wrong_unique_best": float(
            differences.unique_best is not None and (true_rank <= true_rank[differences.unique_best]).sum() > 1
        ),
        "gate_width": float(np.sum([pair.half_width(ALPHA) for pair in neighbors]) / np.sum(uncorrected)),
    }
    return {name: np.asarray(figure, dtype=np.float64) for name, figure in figures.items()}


def summarize(rows: list[Columns]) -> Figures:
    """Average over draws; add the standard error of the coverage and ratios to version 0.1.0."""
    means = {name: np.array([float(np.mean(row[name])) for row in rows]) for name in rows[0]}
    summary = {name: float(np.nanmean(column)) for name, column in means.items()}
    summary["covered_se"] = float(means["covered"].std() / np.sqrt(len(rows)))
    summary["worst_agent_covered"] = float(np.mean([row["covered"] for row in rows], axis=0).min())
    summary["worst_agent_rank"] = float(np.mean([row["rank_covered"] for row in rows], axis=0).min())
    if summary["old_half"] > 0:
        summary["width"] = summary["half"] / summary["old_half"]
        summary["rank_ratio"] = summary["rank_width"] / summary["old_rank_width"]
    return summary


def measure_coverage(draw: Draw, *, target: str, percent: float, n_draws: int) -> Figures:
    """Summarize the coverage over `n_draws` cyclic plans."""
    rows = []
    for seed in range(n_draws):
        rng = np.random.default_rng([seed, round(10 * percent)])
        answers, truth = draw(rng)
        estimates = estimate(answers, draw_cyclic_trials(answers.shape, percent, rng))
        rows.append(compute_coverage(estimates, estimates.kind if target == "kind" else estimates.these, truth))
    return summarize(rows)


def make_domain_draw(D: Floats, target: str) -> Draw:
    """Make a draw of a domain's answers, with its items resampled if `target` is kind."""
    truth = compute_dense_abilities(D)

    def draw(rng: np.random.Generator) -> tuple[Floats, Floats]:
        return (D[rng.integers(0, len(D), len(D))] if target == "kind" else D), truth

    return draw


def make_simulated_draw(n_agents: int, n_items: int, pair_sd: float, n_leaders: int, target: str) -> Draw:
    """Make a draw of simulated answers with fixed effects of agents and pairs."""
    effects_rng = np.random.default_rng([n_agents, n_items])
    ability = np.sort(0.1 * effects_rng.standard_normal(n_agents))[::-1]
    pair_effects = pair_sd * effects_rng.standard_normal((n_agents, n_agents))
    ability[:n_leaders] = ability[0]
    cell_sd = 0.2 * effects_rng.uniform(0.5, 1.5, n_agents)
    expected = ability[:, None] + ability + pair_effects

    def draw(rng: np.random.Generator) -> tuple[Floats, Floats]:
        cell_effects = cell_sd * rng.standard_normal((n_items, n_agents))
        noise = 0.35 * rng.standard_normal((n_items, n_agents, n_agents)) + 0.3 * rng.standard_normal((n_items, 1, 1))
        D = expected + cell_effects[:, :, None] + cell_effects[:, None, :] + noise
        return D, compute_dense_abilities(expected[None]) if target == "kind" else compute_dense_abilities(D)

    return draw


def compare_with_dense_fit(D: Floats) -> Figures:
    """Compare half-widths of the fit of dense scores with those of a cyclic plan of all pairs, from the same answers."""
    n_agents = D.shape[1]
    plan = Cyclic(None).draw(np.ones((n_agents, len(D)), dtype=np.bool_), np.random.default_rng(0)).trials
    estimates = estimate(D, plan)
    model = ClippedLinear().fit((D.sum(axis=2) + D.sum(axis=1)).T / (2 * (n_agents - 1)))
    ratio = model.centred_covariance.half_width() / estimates.kind.half_width()
    return {
        "min_ratio": float(ratio.min()),
        "max_ratio": float(ratio.max()),
        "min_width_these": float(estimates.these.half_width().min()),
    }


def draw_nearly_constant_answers(
    kind: str, rate: float, n_agents: int, n_items: int, rng: np.random.Generator
) -> Floats:
    """Draw answers that are all 1, except rare zeros at `rate`.

    kind : "items": agent 0 gets 0 on whole items; "trials": agent 0 gets 0 in single trials; "either": agent 0 or 1 on whole
    items
    """
    D = np.ones((n_items, n_agents, n_agents))
    if kind == "trials":
        D[:, 0] *= rng.random((n_items, n_agents)) >= rate
        D[:, :, 0] *= rng.random((n_items, n_agents)) >= rate
        return D
    is_zero = rng.random(n_items) < rate
    agent = rng.integers(0, 2, n_items) if kind == "either" else np.zeros(n_items, dtype=np.int64)
    D[is_zero, agent[is_zero]] = 0
    D[is_zero, :, agent[is_zero]] = 0
    return D


def measure_rare_errors(
    kind: str, rate: float, n_agents: int, n_items: int, *, every_pair: bool, n_draws: int
) -> Figures:
    """Measure the coverage of the difference between agents 0 and 1, and how often a gate passes agent 0.

    every_pair : whether all pairs are compared on each item, or only one block per item
    """
    true_difference = 0.0 if kind == "either" else -rate * (n_agents - 2) / (n_agents - 1)
    rows = []
    for seed in range(n_draws):
        rng = np.random.default_rng([seed, n_agents, n_items, round(1e4 * rate)])
        answers = draw_nearly_constant_answers(kind, rate, n_agents, n_items, rng)
        plan = (
            Cyclic(None if every_pair else n_agents * n_items)
            .draw(np.ones((n_agents, n_items), dtype=np.bool_), rng)
            .trials
        )
        difference = estimate_difference(estimate(answers, plan).items, 0, 1)
        half_width = difference.half_width(ALPHA)
        rows.append((abs(difference.value - true_difference) <= half_width, difference.value - half_width > -MARGIN))
    covered, passed = np.mean(rows, axis=0)
    return {"covered": float(covered), "passed": float(passed)}


def measure_rare_error_cases(n_draws: int, *, shapes: tuple[tuple[int, int], ...]) -> dict[str, Figures]:
    """Measure nearly constant answers of all kinds, rates and shapes, including the rate at the gate's margin."""
    table = {}
    for every_pair in (False, True):
        for n_agents, n_items in shapes:
            rate_at_margin = MARGIN * (n_agents - 1) / (n_agents - 2)
            for kind, rate in (
                *((kind, rate) for kind in ("items", "trials", "either") for rate in (0.0, 0.01, 0.03, 0.05)),
                ("items", rate_at_margin),
                ("trials", rate_at_margin),
            ):
                name = f"{'every pair' if every_pair else 'a block an item'}, {n_agents} × {n_items}, {kind} {rate:.3g}"
                table[name] = measure_rare_errors(kind, rate, n_agents, n_items, every_pair=every_pair, n_draws=n_draws)
    return table


def measure_adaptive_runs(domains: dict[str, Floats], n_draws: int) -> dict[str, Figures]:
    """Measure runs that stop when the `top` agents are separated, at the two widest gaps, within 20 % of the dense calls."""
    table = {}
    for target in TARGETS:
        for name, answers in domains.items():
            for top in find_widest_gaps(compute_dense_abilities(answers)):
                rows = [
                    measure_adaptive_run(
                        sample, compute_dense_abilities(answers), top=top, percent=20, target=target, seed=seed
                    )
                    for seed, sample in enumerate(iter_item_samples(answers, target, n_draws))
                ]
                row_name = f"adaptive, {target}, {name}, top {top}"
                table[row_name] = average(rows)
                print_means(row_name, table[row_name])
    return table


def find_widest_gaps(truth: Floats) -> list[int]:
    """Return the two ranks in the first half after which the gap in true ability is widest."""
    gap = -np.diff(np.sort(truth)[::-1])[: len(truth) // 2]
    return sorted((1 + np.argsort(-gap)[:2]).tolist())


def measure_joined_agents(domains: dict[str, Floats], n_draws: int) -> dict[str, Figures]:
    """Measure runs that five agents join."""
    table = {}
    for target in TARGETS:
        for name, answers in domains.items():
            for percent in (2, 5, 10):
                rows = [
                    measure_joined_run(answers, sample, n_joining=5, percent=percent, target=target, seed=seed)
                    for seed, sample in enumerate(iter_item_samples(answers, target, n_draws))
                ]
                row_name = f"joined, {target}, {name}, {percent} %"
                table[row_name] = average(rows)
                print_means(row_name, table[row_name])
    return table


def measure_cell_designs(domains: dict[str, Floats], n_draws: int) -> dict[str, Figures]:
    """Measure random cells, and all pairs without a fifth of the cells, which both designs hold out."""
    table = {}
    for target in TARGETS:
        for name, answers in domains.items():
            for design, percent in CELLS:
                rows = [
                    measure_cell_run(answers, sample, design=design, percent=percent, target=target, seed=seed)
                    for seed, sample in enumerate(iter_item_samples(answers, target, n_draws))
                ]
                row_name = f"{design}, {target}, {name}" + (f", {percent} %" if percent else "")
                table[row_name] = average(rows)
                print_means(row_name, table[row_name])
    return table


def iter_item_samples(D: Floats, target: Target, n_draws: int) -> Iterator[Floats]:
    """Yield the answers of each run: a resample of the domain's items, or the same items each time."""
    for seed in range(n_draws):
        rows = np.random.default_rng([seed, 11]).integers(0, len(D), len(D))
        yield D if target == "these-items" else D[rows]


def print_means(name: str, row: Figures) -> None:
    """Print means over draws to stderr."""
    figures = ", ".join(f"{name} {value:.3f}" for name, value in row.items())
    print(f"{name:48} {figures}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--smoke", action="store_true", help="run 3 draws of a few shapes, which takes seconds")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--adaptive", action="store_true", help="measure only adaptive runs that stop by `top`")
    parser.add_argument("--joined", action="store_true", help="measure only agents that join a run")
    parser.add_argument("--cells", action="store_true", help="measure only designs of cells")
    arguments = parser.parse_args()
    n_draws = 3 if arguments.smoke else arguments.draws
    domains = {}
    if (arguments.shared / "peer-prediction").is_dir():
        domain_names = ["OPUS"] if arguments.smoke else list(DOMAINS)
        for name in domain_names:
            domains[name] = read_answers(name, arguments.shared)
    if arguments.adaptive or arguments.joined or arguments.cells:
        tables = {
            **(measure_adaptive_runs(domains, n_draws) if arguments.adaptive else {}),
            **(measure_joined_agents(domains, n_draws) if arguments.joined else {}),
            **(measure_cell_designs(domains, n_draws) if arguments.cells else {}),
        }
        write({"draws": n_draws, "grown": tables}, arguments.out)
        return
    table: dict[str, Figures] = {}
    for target, percents in PERCENTS.items():
        for name, answers in domains.items():
            for percent in percents:
                row_name = f"{target}, {name}, {percent} %"
                table[row_name] = measure_coverage(
                    make_domain_draw(answers, target), target=target, percent=percent, n_draws=n_draws
                )
                print_row(row_name, table[row_name])
        for name, (n_agents, n_items, pair_sd, n_leaders) in list(SHAPES.items())[: 1 if arguments.smoke else None]:
            for percent in (5, 20):
                row_name = f"{target}, simulated {name}, {percent} %"
                draw = make_simulated_draw(n_agents, n_items, pair_sd, n_leaders, target)
                table[row_name] = measure_coverage(draw, target=target, percent=percent, n_draws=n_draws)
                print_row(row_name, table[row_name])
    shapes = ((5, 12),) if arguments.smoke else ((5, 8), (5, 12), (5, 30), (5, 60), (8, 12), (8, 60))
    document = {
        "draws": n_draws,
        "intervals": table,
        "dense_fit": {name: compare_with_dense_fit(answers) for name, answers in domains.items()},
        "nearly_constant": measure_rare_error_cases(n_draws if arguments.smoke else 3 * n_draws, shapes=shapes),
    }
    write(document, arguments.out)


def write(document: dict[str, object], out: Path | None) -> None:
    """Print the results, and write them to `out` if it is set."""
    text = json.dumps(document, indent=2)
    if out:
        out.write_text(text + "\n", encoding="utf-8")
    print(text)


def print_row(name: str, row: Figures) -> None:
    """Print the figures of a row to stderr."""
    print(
        f"{name:40} covered {row['covered']:.3f} ± {row['covered_se']:.3f} (0.1.0 {row['old_covered']:.3f}), "
        f"width ×{row.get('width', float('nan')):.3f}, differences {row['difference_covered']:.3f}, "
        f"ranks {row['rank_covered']:.3f} ×{row.get('rank_ratio', float('nan')):.2f} ({row['rank_width']:.1f}), "
        f"worst agent {row['worst_agent_rank']:.2f}, simultaneously {row['simultaneous']:.2f} ({row['simultaneous_width']:.1f}), "
        f"unique best {row['has_unique_best']:.2f}, wrong {row['wrong_unique_best']:.2f}, gate ×{row['gate_width']:.2f}",
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    main()
