"""What cyclic plans buy on the paper's judge data, replayed: rank correlation to the dense ranking, and interval coverage.

It knows that the public data hold D only: a paired answer is D, an independent one 0. It refuses to call that a judge.
`python benchmarks/cyclic.py [--seeds 100] [--shared FOLDER] [--out FILE]` prints JSON.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from youden.data.peer_prediction import import_results
from youden.protocol.plan import make_plan
from youden.protocol.scores import train_scores
from youden.stats.trial_mean import TrialMean
from youden.types import PAIRED, Agent, Item, Pool, Rates, Verdicts
from youden.types.arrays import Floats

SHARED = Path(__file__).parents[2] / "shared" / "peer-prediction"
DOMAINS = {
    "PubMed": "pubmed_200_config_results",
    "ICLR": "peer_review_results_100",
    "SAMSum": "samsum_200_config_results",
}
PERCENTS = (1.0, 2.0, 5.0)


def empty_pool(rates: Rates) -> Pool:
    """A pool of the right shape: plans are drawn from shapes, and no judge reads these texts."""
    texts = np.full((rates.n_agents, rates.n_items), "", dtype=object)
    return Pool(tuple(map(Agent, rates.agent_ids)), tuple(map(Item, rates.item_ids)), texts)


def differences(rates: Rates) -> Floats:
    """D: float[J, K, K]."""
    matrix = np.zeros((rates.n_items, rates.n_agents, rates.n_agents))
    matrix[rates.item, rates.first, rates.second] = rates.tpr - rates.fpr
    return matrix


def one_draw(pool: Pool, D: Floats, dense: Floats, *, percent: float, seed: int) -> tuple[float, float]:
    """Spearman to the dense ranking, and the share of agents whose interval holds their dense distance from the mean."""
    plan = make_plan(pool, design="cyclic", percent=percent, seed=seed)
    answer = np.where(plan.arm == PAIRED, D[plan.item, plan.first, plan.second], 0.0)
    missing = np.zeros(len(plan), dtype=np.int8)
    means = TrialMean().fit(plan, Verdicts(plan, answer, np.rint(answer), missing, {"name": "replayed D"}))
    centre, true = means.ability_.mean(), dense - dense.mean()
    covered = (means.low_ - centre <= true) & (true <= means.high_ - centre)
    return float(spearmanr(means.ability_, dense).statistic), float(covered.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    table: dict[str, dict[str, dict[str, float]]] = {}
    for name, folder in DOMAINS.items():
        rates = import_results(arguments.shared / "eval_results" / folder).rates
        pool, D = empty_pool(rates), differences(rates)
        dense = train_scores(rates).value.mean(axis=1)
        table[name] = {}
        for percent in PERCENTS:
            draws = [one_draw(pool, D, dense, percent=percent, seed=seed) for seed in range(arguments.seeds)]
            rho, coverage = np.array(draws).T
            table[name][f"{percent:g} %"] = {
                "rho_mean": round(float(rho.mean()), 4),
                "rho_sd": round(float(rho.std(ddof=1)), 4),
                "coverage": round(float(coverage.mean()), 4),
            }
    text = json.dumps({"seeds": arguments.seeds, "target": "dense symmetric ranking", "cyclic": table}, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
