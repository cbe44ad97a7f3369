"""Measure the coverage of the intervals of self-consistency, J = TPR − FPR of repeated responses of one agent.

An agent has a main response class on each item, drawn from the distribution of its classes. A response has this class with the
stability of the item, which has a beta distribution, and otherwise a class drawn from the same distribution. The judge answers
yes with probability `hit` if two responses have the same class, and `miss` otherwise. So J = (hit − miss)·E[s²]·(1 − Σπ²), with
the stability s and the probabilities π of the classes. The trials are those of a run: the default plan of a pool of one agent.

`coverage`: share of draws whose 95 % interval contains J; `bias`: mean error; `std_error_ratio`: root of the mean estimated
variance over the standard deviation of J. `difference`: coverage of the difference of two agents with the same main classes.

    python benchmarks/replication.py [--draws 400] [--seed 2] [--out FILE] [--smoke]

prints JSON and exits with 1 if a coverage is outside .93 to .97 by more than 2 standard errors, or if the mean over all
settings is outside .93 to .97. In the channel "rare and stable", 90 % of the items have one class, and the number of the others,
about 3 of 30, determines J. The smallest standard error was tuned with seed 11, and the degrees of freedom with seeds 11 and 101
to 103; 400 draws each.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from results import print_results
from youden.protocol.self_trials import MAX_PAIRED, draw_self_trials
from youden.stats.trials.replication import SelfConsistency, estimate_self_consistency
from youden.types import Agent, Item, Pool, Trials
from youden.types.pool import Floats, Ids


class Channel(NamedTuple):
    """An agent and a judge: classes, shape of the stability's beta distribution, and yes rates of the judge."""

    class_probabilities: tuple[float, ...]
    stability: tuple[float, float]
    hit: float
    miss: float

    @property
    def j(self) -> float:
        """True self-consistency."""
        a, b = self.stability
        mean_square = a * (a + 1) / ((a + b) * (a + b + 1))
        collision = float(np.square(self.class_probabilities).sum())
        return (self.hit - self.miss) * mean_square * (1 - collision)


CHANNELS = {
    "stable": Channel((0.1,) * 10, (8.0, 1.0), 0.95, 0.02),
    "unstable": Channel((0.1,) * 10, (1.0, 1.0), 0.9, 0.02),
    "few classes": Channel((0.6, 0.3, 0.1), (3.0, 1.0), 0.9, 0.1),
    "rare classes": Channel((0.9, 0.05, 0.05), (3.0, 1.0), 0.95, 0.05),
    "rare and stable": Channel((0.9, 0.05, 0.05), (8.0, 1.0), 0.95, 0.02),
    "noisy judge": Channel((0.1,) * 10, (3.0, 1.0), 0.6, 0.2),
}


def make_pool(n_agents: int, n_items: int, n_repeats: int) -> Pool:
    """Make a pool whose texts are irrelevant."""
    texts = np.full((n_agents, n_items), "text", dtype=object)
    agents = tuple(Agent(f"a{k}") for k in range(n_agents))
    return Pool.from_repeats(agents, tuple(Item(f"i{j}") for j in range(n_items)), [texts] * n_repeats, "simulated")


def draw_answers(channels: list[Channel], trials: Trials, pool: Pool, rng: np.random.Generator) -> Floats:
    """Draw the judge's answers to self-trials; the agents have the same main class on an item."""
    shape = (pool.n_items, pool.repeats)
    main = rng.choice(len(channels[0].class_probabilities), pool.n_items, p=channels[0].class_probabilities)
    classes = np.empty((pool.n_agents, *shape), dtype=np.int64)
    for agent, channel in enumerate(channels):
        stability = rng.beta(*channel.stability, pool.n_items)
        other = rng.choice(len(channel.class_probabilities), shape, p=channel.class_probabilities)
        classes[agent] = np.where(rng.random(shape) < stability[:, None], main[:, None], other)

    columns = trials.columns()
    first_item, second_item = trials.text_cells
    first = classes[trials.first, first_item, columns["first_repeat"] - 1]
    second = classes[trials.second, second_item, columns["second_repeat"] - 1]
    hit = np.array([channel.hit for channel in channels])[trials.first]
    miss = np.array([channel.miss for channel in channels])[trials.first]
    return (rng.random(len(trials)) < np.where(first == second, hit, miss)).astype(np.float64)


def estimate(trials: Trials, answer: Floats, pool: Pool) -> SelfConsistency:
    """Estimate the self-consistency of all agents."""
    agent: Ids = trials.first
    return estimate_self_consistency(
        agent, trials.item, trials.other_item, answer, n_agents=pool.n_agents, n_items=pool.n_items
    )


def measure(channel: Channel, n_items: int, n_repeats: int, *, n_draws: int, seed: int) -> dict[str, float]:
    """Measure coverage and bias for one channel and pool."""
    pool = make_pool(2, n_items, n_repeats)
    worse = channel._replace(hit=channel.hit - 0.1)
    truth = np.array([channel.j, worse.j])
    parts = [draw_self_trials(pool, agent, n_paired=MAX_PAIRED, seed=seed) for agent in (0, 1)]
    trials = Trials.concat(parts)
    covers, covers_difference = [], []
    errors, variances = [], []
    for draw in range(n_draws):
        rng = np.random.default_rng([seed, n_items, n_repeats, draw])
        result = estimate(trials, draw_answers([channel, worse], trials, pool, rng), pool)
        half_width = result.covariance.half_width(0.95)[0]
        errors.append(result.value[0] - truth[0])
        variances.append(result.covariance.covariance[0, 0])
        covers.append(abs(errors[-1]) <= half_width)

        C = result.covariance.covariance
        std_error = np.sqrt(C[0, 0] + C[1, 1] - 2 * C[0, 1])
        error = (result.value[0] - result.value[1]) - (truth[0] - truth[1])
        covers_difference.append(abs(error) <= stdtrit(result.covariance.df.min(), 0.975) * std_error)
    return {
        "j": round(channel.j, 3),
        "coverage": float(np.mean(covers)),
        "bias": round(float(np.mean(errors)), 4),
        "std_error_ratio": round(float(np.sqrt(np.mean(variances)) / np.std(errors)), 3),
        "difference": float(np.mean(covers_difference)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--smoke", action="store_true", help="measure one setting with few draws")
    arguments = parser.parse_args()
    n_draws = 20 if arguments.smoke else arguments.draws
    settings = product(CHANNELS, (30, 60, 200), (2, 3, 5))
    if arguments.smoke:
        settings = product(["stable"], (30,), (2,))

    table = {}
    for name, n_items, n_repeats in settings:
        row = measure(CHANNELS[name], n_items, n_repeats, n_draws=n_draws, seed=arguments.seed)
        table[f"{name}, {n_items} items, {n_repeats} repeats"] = row
    coverage = np.array([row["coverage"] for row in table.values()])
    difference = np.array([row["difference"] for row in table.values()])
    summary = {
        "draws": n_draws,
        "seed": arguments.seed,
        "std_error": round(float(np.sqrt(0.95 * 0.05 / n_draws)), 4),
        "mean_coverage": round(float(coverage.mean()), 4),
        "mean_coverage_of_differences": round(float(difference.mean()), 4),
    }
    print_results({"summary": summary, **table}, arguments.out)
    tolerance = 2 * summary["std_error"]
    is_each_met = (coverage >= 0.93 - tolerance) & (coverage <= 0.97 + tolerance)
    if not arguments.smoke and not (is_each_met.all() and 0.93 <= coverage.mean() <= 0.97):
        sys.exit(1)


if __name__ == "__main__":
    main()
