"""What cyclic plans buy on the paper's judge data, replayed: rank correlation to the dense ranking and interval coverage,
with every cell there, with a holdout and with gaps (these with a quarter of the seeds).

The public data hold D only: a paired answer is D, an independent one 0. `own_rates` decodes both answers from D instead, and
compares the plan's own arm, from 20 % of the dense calls on a tenth of them, with 100 pooled calls: `high` is the agent with the
most false positives.
`python benchmarks/cyclic.py [--seeds 100] [--shared FOLDER] [--out FILE]` prints JSON.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from recorded import SHARED, rates_of
from youden import ClippedLinear, make_plan
from youden.pipeline.abilities import estimate_mean_abilities
from youden.types import PAIRED, Agent, Item, Pool, Verdicts
from youden.types.pool import Floats
from youden.types.results import Rates

PERCENTS = (1.0, 2.0, 5.0)
OWN_PERCENTS = (2.0, 20.0, 40.0)


@dataclass(frozen=True)
class Case:
    """Shares of the cells that have no response, and that are held out."""

    gaps: float = 0.0
    holdout: float = 0.0


CASES = {"whole": Case(), "a fifth held out": Case(holdout=0.2), "three tenths missing": Case(gaps=0.3)}


def empty_pool(rates: Rates, *, gaps: float, seed: int) -> Pool:
    """A pool of the right shape, a share of its cells missing: plans are drawn from shapes, no judge reads these texts."""
    missing = np.random.default_rng([seed, 99]).random((rates.n_agents, rates.n_items)) < gaps
    texts = np.full(missing.shape, "", dtype=object)
    texts[missing] = None
    return Pool(tuple(map(Agent, rates.agent_ids)), tuple(map(Item, rates.item_ids)), texts)


def differences(rates: Rates) -> Floats:
    """D: float[J, K, K]."""
    matrix = np.zeros((rates.n_items, rates.n_agents, rates.n_agents))
    matrix[rates.item, rates.first, rates.second] = rates.tpr - rates.fpr
    return matrix


def one_draw(rates: Rates, D: Floats, dense: Floats, *, percent: float, case: Case, seed: int) -> list[float]:
    """For means of trials, then for clipped-linear: Spearman to the dense ranking, share of agents whose interval covers."""
    pool = empty_pool(rates, gaps=case.gaps, seed=seed)
    plan = make_plan(pool, design="cyclic", calls=f"{percent}%", holdout=case.holdout, seed=seed)
    answer = np.where(plan.arm == PAIRED, D[plan.item, plan.first, plan.second], 0.0)
    missing = np.zeros(len(plan), dtype=np.int8)
    result = Verdicts(plan, answer, np.rint(answer), missing, {"name": "replayed D"})
    figures: list[float] = []
    means, model = (
        estimate_mean_abilities(result, target="these-items"),
        ClippedLinear().fit(result.rates().training_scores()),
    )
    for ability, low, high in (means.ability, means.low, means.high), (model.ability_, model.low_, model.high_):
        centre, true = ability.mean(), dense - dense.mean()
        covered = (low - centre <= true) & (true <= high - centre)
        figures += [float(spearmanr(ability, dense).statistic), float(covered.mean())]
    return figures


def decoded(rates: Rates) -> tuple[Floats, Floats]:
    """Paired and independent answers behind D, graded 1, .25, 0: float[J, K, K] each."""
    D = differences(rates)
    paired = np.select([np.isin(D, (1.0, 0.75)), np.isin(D, (0.25, -0.75))], [1.0, 0.25], 0.0)
    return paired, paired - D


def own_rates_table(rates: Rates, *, percents: tuple[float, ...], n_seeds: int) -> dict[str, dict[str, float]]:
    """By budget and arm, for all agents and the one with most false positives: coverage of the dense value, half-widths, ρ."""
    paired, independent = decoded(rates)
    pool, K = empty_pool(rates, gaps=0.0, seed=0), rates.n_agents
    dense, fpr = ((D.sum(axis=(0, 1)) + D.sum(axis=(0, 2))) for D in (paired - independent, independent))
    dense, high = dense / (2 * (K - 1) * rates.n_items), int(np.argmax(fpr))
    table: dict[str, dict[str, float]] = {}
    for percent in percents:
        for arm in ("pooled:100", None):
            draws = []
            for seed in range(n_seeds):
                plan = make_plan(pool, calls=f"{percent}%", independent=arm, seed=seed)
                place = plan.item, plan.first, plan.second
                answer = np.where(plan.arm == PAIRED, paired[place], independent[place])
                missing = np.zeros(len(plan), dtype=np.int8)
                verdicts = Verdicts(plan, answer, np.rint(answer), missing, {"name": "decoded"})
                means = estimate_mean_abilities(verdicts, target="these-items")
                half = (means.high - means.low) / 2
                covered = np.abs(means.ability - means.ability.mean() - (dense - dense.mean())) <= half
                rho = float(spearmanr(means.ability, dense).statistic)
                draws.append([covered.mean(), covered[high], half.mean(), half[high], rho, plan.n_independent or 0])
            names = ("covered", "covered_high", "halfwidth", "halfwidth_high", "rho", "n_independent")
            table[f"{percent:g} %, {arm or 'own'}"] = dict(
                zip(names, np.mean(draws, axis=0).round(4).tolist(), strict=True)
            )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    table: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    own: dict[str, dict[str, dict[str, float]]] = {}
    for name in ("PubMed", "ICLR", "SAMSum"):
        rates = rates_of(name, arguments.shared)
        D = differences(rates)
        dense = rates.training_scores().value.mean(axis=1)
        table[name] = {}
        for label, case in CASES.items():
            for percent in PERCENTS:
                seeds = range(arguments.seeds if label == "whole" else arguments.seeds // 4)
                draws = [one_draw(rates, D, dense, percent=percent, case=case, seed=seed) for seed in seeds]
                mean, spread = np.mean(draws, axis=0), np.std(draws, axis=0, ddof=1)
                table[name][f"{label}, {percent:g} %"] = {
                    estimator: {"rho_mean": mean[k], "rho_sd": spread[k], "coverage": mean[k + 1]}
                    for estimator, k in (("trial_mean", 0), ("clipped_linear", 2))
                }
        own[name] = own_rates_table(rates, percents=OWN_PERCENTS, n_seeds=arguments.seeds)
    found = {"seeds": arguments.seeds, "target": "dense symmetric ranking", "cyclic": table, "own_rates": own}
    text = json.dumps(found, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
