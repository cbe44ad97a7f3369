"""Measure false decisions of gates and searches if agents differ in their false-positive rates.

Data: the paper's recorded answers D, rounded to yes or no, on resampled items. A no becomes a yes with the false-positive rate of
the pair, which is the sum of two gamma variables, as in `own_rates.py`; independent answers are yes with the same rate.

`no_worse`: share of gates that call an agent no worse although it is worse by exactly the margin (nominal .025), over random
pairs of agents in cyclic plans. `regret_exceeded`: share of searches whose selected agent is worse than the best by more than
the regret bound, and `wrong_unique_best` that name an agent as the only best one that is not (nominal .05 each).

`python benchmarks/own_rates_decisions.py [--draws 60] [--seed 1] [--domains PubMed …] [--smoke] [--shared FOLDER] [--out FILE]`
prints JSON.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from own_rates import SPREADS
from recorded import DOMAINS, SHARED, load_recorded_answers
from results import print_results
from youden import make_plan
from youden.pipeline.abilities import agent_differences, select_best_agents
from youden.pipeline.ranking import estimate_abilities, trial_abilities_from_verdicts
from youden.pipeline.rounds import run_rounds
from youden.stats.trials.noninferiority import ALPHA
from youden.study.replaying import RecordedAnswers, replay
from youden.types.pool import Floats
from youden.workflows.gate_answers import make_forecaster

PERCENTS = (2, 10)
N_PAIRS = 40
MAX_REGRET = 0.05


def draw_world(
    recorded: RecordedAnswers, mean: float, sd: float, rng: np.random.Generator
) -> tuple[RecordedAnswers, Floats]:
    """Draw rates, items and answers; return them with the true abilities, float array (n_agents,)."""
    D = np.nan_to_num(recorded.paired) >= 0.5
    n_items, K, _ = D.shape
    part: Floats = np.full(K, mean / 2, dtype=np.float64)
    if sd:
        part = np.asarray(rng.gamma((mean / 2 / sd) ** 2, sd**2 / (mean / 2), K))
    rate = np.minimum(part[:, None] + part, 1.0)
    is_self = np.eye(K, dtype=np.bool_)
    value = np.where(is_self, 0.0, np.where(D, 1.0, rate) - rate)
    truth = (value.sum(axis=(0, 2)) + value.sum(axis=(0, 1))) / (2 * (K - 1) * n_items)

    items = rng.integers(0, n_items, n_items)
    paired = (D[items] | (rng.random(D.shape) < rate)).astype(np.float64)
    independent = (rng.random(D.shape) < rate).astype(np.float64)
    paired[:, is_self], independent[:, is_self] = np.nan, np.nan
    return replace(recorded, paired=paired, independent=independent), truth


def measure_gates(world: RecordedAnswers, truth: Floats, percent: int, seed: int, rng: np.random.Generator) -> float:
    """Return the share of false results "no worse" over random pairs of agents."""
    verdicts = replay(make_plan(world.pool, calls=f"{percent}%", seed=seed), recorded=world)
    forecast = make_forecaster(verdicts, trial_abilities_from_verdicts(verdicts))
    is_false = []
    for _ in range(N_PAIRS):
        new, old = rng.choice(len(truth), size=2, replace=False).tolist()
        difference = forecast(new, old).difference
        low = difference.value - difference.half_width(ALPHA)
        is_false.append(low > truth[new] - truth[old])
    return float(np.mean(is_false))


def measure_search(world: RecordedAnswers, truth: Floats, percent: int, seed: int) -> dict[str, float]:
    """Run a search; return whether its claims are false, its bound and its regret."""
    plan = make_plan(
        world.pool, design="adaptive", calls=f"{percent}%", seed=seed, options={"top": 1, "max_regret": MAX_REGRET}
    )
    abilities = estimate_abilities(run_rounds(plan, partial(replay, recorded=world)))
    differences = agent_differences(abilities)
    choice = select_best_agents(abilities, differences)
    if choice is None:
        sys.exit("A search has agents that cannot be compared.")
    regret = float(truth.max() - truth[choice.agents[0]])
    best = differences.unique_best
    return {
        "regret_exceeded": float(regret > choice.regret_bound),
        "wrong_unique_best": float(best is not None and truth[best] < truth.max()),
        "regret_bound": choice.regret_bound,
        "regret": regret,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--domains", nargs="+", choices=DOMAINS, default=list(DOMAINS))
    parser.add_argument("--smoke", action="store_true", help="run 2 draws of one domain, which takes seconds")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    n_draws = 2 if arguments.smoke else arguments.draws
    table: dict[str, dict[str, float]] = {}
    domains = ["OPUS"] if arguments.smoke else arguments.domains
    for domain in domains:
        recorded = load_recorded_answers(domain, arguments.shared)
        for mean, sd in [spread for spread in SPREADS if spread[1]]:
            for percent in PERCENTS:
                rows = []
                for number in range(n_draws):
                    rng = np.random.default_rng([arguments.seed, number, percent])
                    world, truth = draw_world(recorded, mean, sd, rng)
                    row = {"no_worse": measure_gates(world, truth, percent, number, rng)}
                    rows.append(row | measure_search(world, truth, percent, number))
                name = f"{domain}, FPR {mean} (SD {sd}), {percent} %"
                table[name] = {figure: float(np.mean([row[figure] for row in rows])) for figure in rows[0]}
                figures = ", ".join(f"{figure} {value:.3f}" for figure, value in table[name].items())
                print(f"{name:36} {figures}", file=sys.stderr, flush=True)
    print_results({"draws": n_draws, "seed": arguments.seed, "rows": table}, arguments.out)


if __name__ == "__main__":
    main()
