"""Measure ρ with the dense ranking and coverage of intervals of cyclic plans, on the paper's recorded judge answers.

Pools are complete, have a holdout, or have missing responses (these two with a quarter of the seeds). The public data contain
only D: a paired answer is D, an independent one 0. `own_rates.py` measures judges with false positives.

`python benchmarks/cyclic.py [--seeds 100] [--shared FOLDER] [--out FILE]` prints JSON.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from recorded import SHARED, read_rates
from results import print_results
from youden import ClippedLinear, make_plan
from youden.pipeline.abilities import estimate_mean_abilities
from youden.types import PAIRED, Agent, Item, Pool, Verdicts
from youden.types.pool import Floats
from youden.types.results import Rates

PERCENTS = (1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Case:
    """Shares of the cells without a response, and of the cells that are held out."""

    gaps: float = 0.0
    holdout: float = 0.0


CASES = {"whole": Case(), "a fifth held out": Case(holdout=0.2), "three tenths missing": Case(gaps=0.3)}


def make_empty_pool(rates: Rates, *, gaps: float, seed: int) -> Pool:
    """Make a pool of the shape of `rates` with a share `gaps` of missing responses; no judge reads its texts."""
    missing = np.random.default_rng([seed, 99]).random((rates.n_agents, rates.n_items)) < gaps
    texts = np.full(missing.shape, "", dtype=object)
    texts[missing] = None
    return Pool(tuple(map(Agent, rates.agent_ids)), tuple(map(Item, rates.item_ids)), texts)


def make_difference_matrix(rates: Rates) -> Floats:
    """Arrange D as float array (n_items, n_agents, n_agents)."""
    matrix = np.zeros((rates.n_items, rates.n_agents, rates.n_agents))
    matrix[rates.item, rates.first, rates.second] = rates.tpr - rates.fpr
    return matrix


def measure_draw(rates: Rates, D: Floats, dense: Floats, *, percent: float, case: Case, seed: int) -> list[float]:
    """Return ρ with the dense abilities and coverage, for means of trials and then for the clipped-linear fit.

    D : float array (n_items, n_agents, n_agents)
    dense : float array (n_agents,)
    """
    pool = make_empty_pool(rates, gaps=case.gaps, seed=seed)
    plan = make_plan(pool, design="cyclic", calls=f"{percent}%", holdout=case.holdout, seed=seed)
    answer = np.where(plan.trial_type == PAIRED, D[plan.item, plan.first, plan.second], 0.0)
    missing = np.zeros(len(plan), dtype=np.int8)
    verdicts = Verdicts(plan, answer, np.rint(answer), missing, {"name": "replayed D"})
    figures: list[float] = []
    means = estimate_mean_abilities(verdicts, target="these-items")
    model = ClippedLinear().fit(verdicts.rates().training_scores())
    for ability, low, high in (means.ability, means.low, means.high), (model.ability_, model.low_, model.high_):
        mean_ability, centered_truth = ability.mean(), dense - dense.mean()
        covered = (low - mean_ability <= centered_truth) & (centered_truth <= high - mean_ability)
        figures += [float(spearmanr(ability, dense).statistic), float(covered.mean())]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    table: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for name in ("PubMed", "ICLR", "SAMSum"):
        rates = read_rates(name, arguments.shared)
        differences = make_difference_matrix(rates)
        dense = rates.training_scores().value.mean(axis=1)
        table[name] = {}
        for label, case in CASES.items():
            for percent in PERCENTS:
                seeds = range(arguments.seeds if label == "whole" else arguments.seeds // 4)
                draws = [
                    measure_draw(rates, differences, dense, percent=percent, case=case, seed=seed) for seed in seeds
                ]
                mean, sd = np.mean(draws, axis=0), np.std(draws, axis=0, ddof=1)
                table[name][f"{label}, {percent:g} %"] = {
                    estimator: {"rho_mean": mean[k], "rho_sd": sd[k], "coverage": mean[k + 1]}
                    for estimator, k in (("trial_mean", 0), ("clipped_linear", 2))
                }
    document = {"seeds": arguments.seeds, "target": "dense symmetric ranking", "cyclic": table}
    print_results(document, arguments.out)


if __name__ == "__main__":
    main()
