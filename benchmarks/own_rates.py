"""Measure coverage, error and wrong signs of abilities if agents differ in their false-positive rates.

Data: the judge `lexical` on 39 models of AlpacaEval (every second of 200 prompts), with its graded and its yes/no answers, and
the paper's recorded answers D, rounded to yes or no, with simulated false-positive rates: a pair's rate is the sum of two gamma
variables, so that the rates of agents have the mean and the SD that the name of a row states. A paired answer is D plus the rate
of the pair, and independent answers are yes or no. An ability is the agent's mean answer to paired trials minus its mean answer
to independent ones, over all trials. For items like these, the items of a run are resampled.

`paid` are plans with 7 to 10 % independent trials, `free` those of a judge that costs nothing. Both are compared with the
pooled rule at the same number of calls (`pooled_rates.py`): `rmse` and `width` are ratios to it. `wrong`: share of the
significant differences that have the wrong sign.

`python benchmarks/own_rates.py [--draws 200] [--seed 1] [--only TEXT] [--percents 1 2 5 10 20] [--smoke] [--shared FOLDER]
[--out FILE]` prints JSON, and a table to stderr. `--only` selects the rows whose name contains the text.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pooled_rates import count_pooled, estimate_pooled_rates
from recorded import DOMAINS, SHARED, read_answers
from results import print_results
from youden.data.importers.leaderboards import read_alpaca_eval
from youden.judging.backends.lexical import Lexical
from youden.protocol.designs.cyclic import Cyclic
from youden.protocol.plan import make_plan
from youden.protocol.pooled_trials import count_free_independent, count_independent
from youden.run_keys import Target
from youden.stats import CentredCovariance, PairChunk, pairwise_differences, trial_means
from youden.stats.trials.agent_rates import AgentRates, IndependentTotals
from youden.types import Pool, Trials
from youden.types.pool import Bools, Floats, Positions

PERCENTS = (1.0, 2.0, 5.0, 10.0, 20.0)
TARGETS: tuple[Target, ...] = ("items-like-these", "these-items")
SPREADS = ((0.01, 0.0), (0.05, 0.0), (0.01, 0.005), (0.03, 0.02), (0.05, 0.05))
"""Mean and SD of the simulated rates of agents."""
_CHUNK = 1_000_000


class Population(NamedTuple):
    """Answers to all paired and independent trials.

    Attributes
    ----------
    n_agents, n_items : int
    answer_paired, answer_independent : callable
        Functions of (item, first, second) and of (item, first, second, other_item, generator) that return answers.
    truth : float array (n_agents,)
        Abilities by all trials, centered.
    """

    n_agents: int
    n_items: int
    answer_paired: Callable[[Positions, Positions, Positions], Floats]
    answer_independent: Callable[[Positions, Positions, Positions, Positions, np.random.Generator], Floats]
    truth: Floats


Draw = Callable[[np.random.Generator], Population]


def make_domain_draw(D: Floats, mean: float, sd: float) -> Draw:
    """Return a function that draws the rates of a domain's agents; D : float array (n_items, n_agents, n_agents)."""
    n_items, n_agents, _ = D.shape
    without_diagonal = np.where(np.eye(n_agents, dtype=np.bool_), 0.0, D)
    ability = (without_diagonal.sum(axis=(0, 2)) + without_diagonal.sum(axis=(0, 1))) / (2 * (n_agents - 1) * n_items)

    def draw(rng: np.random.Generator) -> Population:
        part: Floats = np.full(n_agents, mean / 2, dtype=np.float64)
        if sd:
            part = np.asarray(rng.gamma((mean / 2 / sd) ** 2, sd**2 / (mean / 2), n_agents))
        pair_rate = np.minimum(part[:, None] + part, 1.0)
        return Population(
            n_agents,
            n_items,
            lambda item, first, second: D[item, first, second] + pair_rate[first, second],
            lambda item, first, second, other_item, generator: (
                generator.random(len(item)) < pair_rate[first, second]
            ).astype(np.float64),
            ability - ability.mean(),
        )

    return draw


class LexicalAnswers(NamedTuple):
    """Answers of the judge `lexical` to all pairs of texts, float arrays (n_texts, n_texts), n_texts = n_agents · n_items."""

    n_agents: int
    n_items: int
    graded: Floats
    yes_no: Floats


@cache
def read_lexical_answers(shared: Path, n_models: int | None) -> LexicalAnswers:
    """Judge all pairs of texts of AlpacaEval, as `judge_all_pairs` does."""
    pool = read_alpaca_eval([shared / "alpaca-eval" / "results"], columns={}).pool
    texts = pool.texts[:n_models, ::2]
    return judge_all_pairs(Pool(pool.agents[:n_models], pool.items[::2], texts))


def judge_all_pairs(pool: Pool) -> LexicalAnswers:
    """Judge all pairs of texts on different items or of different agents by the judge `lexical`."""
    n_agents, n_items = pool.n_agents, pool.n_items
    n_texts = n_agents * n_items
    row, column = np.triu_indices(n_texts, 1)
    is_pair = row // n_items != column // n_items
    row, column = row[is_pair], column[is_pair]

    plan, answers = make_plan(pool, calls=10 * n_agents), np.full((2, n_texts, n_texts), np.nan, dtype=np.float32)
    for start in range(0, len(row), _CHUNK):
        a, b = row[start : start + _CHUNK], column[start : start + _CHUNK]
        item, other_item = a % n_items, b % n_items
        is_paired = item == other_item
        columns = [values.astype(np.int32) for values in (item, a // n_items, b // n_items, other_item)]
        trials = Trials.concat(
            [Trials.paired(*(c[is_paired] for c in columns[:3])), Trials.independent(*(c[~is_paired] for c in columns))]
        )
        verdicts = Lexical().answer_many(replace(plan, trials=trials))
        order = np.append(np.flatnonzero(is_paired), np.flatnonzero(~is_paired))
        for number, answer in enumerate((verdicts.answer, verdicts.hard_answer)):
            answers[number, a[order], b[order]] = answers[number, b[order], a[order]] = answer
    return LexicalAnswers(n_agents, n_items, answers[0], answers[1])


def make_lexical_draw(lexical: LexicalAnswers, *, is_graded: bool) -> Draw:
    """Return a function that returns the answers of the judge `lexical`."""
    n_agents, n_items = lexical.n_agents, lexical.n_items
    answers = lexical.graded if is_graded else lexical.yes_no
    by_cell = answers.reshape(n_agents, n_items, n_agents, n_items)
    paired = np.stack([np.nansum(by_cell[:, j, :, j], axis=1) for j in range(n_items)]).sum(axis=0)
    tpr = paired / ((n_agents - 1) * n_items)
    fpr = (np.nansum(answers, axis=1).reshape(n_agents, n_items).sum(axis=1) - paired) / (
        (n_agents - 1) * n_items * (n_items - 1)
    )
    print(f"lexical: FPR from {fpr.min():.3f} to {fpr.max():.3f}, mean {fpr.mean():.3f}", file=sys.stderr, flush=True)
    population = Population(
        n_agents,
        n_items,
        lambda item, first, second: answers[first * n_items + item, second * n_items + item].astype(np.float64),
        lambda item, first, second, other_item, _: answers[
            first * n_items + item, second * n_items + other_item
        ].astype(np.float64),
        tpr - fpr - (tpr - fpr).mean(),
    )
    return lambda _: population


class Rows(NamedTuple):
    """Independent trials of a run: agents, positions of the items in the run, and answers, arrays (n_trials,)."""

    first: Positions
    second: Positions
    item: Positions
    other_item: Positions
    answer: Floats

    def totals(self, n: int, *, n_agents: int, n_items: int) -> IndependentTotals:
        """Sum the first `n` trials."""
        totals = IndependentTotals(n_agents, n_items)
        totals.add(self.first[:n], self.second[:n], self.answer[:n], item=self.item[:n], other_item=self.other_item[:n])
        return totals


def draw_independent(population: Population, items: Positions, n: int, rng: np.random.Generator) -> Rows:
    """Draw independent trials in whole passes, on a run's items, which may be resampled."""
    K = population.n_agents
    n_passes = -(-n // K)
    order = rng.permuted(np.tile(np.arange(K), (n_passes, 1)), axis=1)
    shift = rng.integers(1, K, (n_passes, 1))
    first = order.ravel()[:n]
    second = np.take_along_axis(order, (np.arange(K) + shift) % K, axis=1).ravel()[:n]
    item, other_item = rng.integers(0, len(items), (2, n))
    while (is_same := items[item] == items[other_item]).any():
        other_item[is_same] = rng.integers(0, len(items), int(is_same.sum()))
    answer = population.answer_independent(items[item], first, second, items[other_item], rng)
    return Rows(first, second, item, other_item, answer)


Figures = dict[str, float]


def compare_with_truth(ability: Floats, covariance: CentredCovariance, truth: Floats) -> Figures:
    """Compute coverage, half-width, squared error, significant differences and wrong signs of one ranking."""
    error, half_width = ability - ability.mean() - truth, covariance.half_width()
    differences = pairwise_differences(ability, covariance)
    is_wrong = differences.significantly_better & (truth[:, None] < truth)
    off_diagonal = ~np.eye(len(truth), dtype=np.bool_)
    difference_error = np.abs(differences.value - (truth[:, None] - truth))
    return {
        "covered": float((np.abs(error) <= half_width).mean()),
        "difference_covered": float((difference_error <= differences.half_width)[off_diagonal].mean()),
        "half_width": float(half_width.mean()),
        "square": float((error**2).mean()),
        "n_significant": float(differences.significantly_better.sum()),
        "n_wrong": float(is_wrong.sum()),
    }


def measure_draw(
    population: Population, percent: float, target: Target, rng: np.random.Generator, *, with_free: bool
) -> dict[str, Figures]:
    """Rank one run by each rule."""
    K, J = population.n_agents, population.n_items
    items = rng.integers(0, J, J) if target == "items-like-these" else np.arange(J)
    n_dense = 2 * K * (K - 1) * J
    n_calls = round(percent / 100 * n_dense)
    n_independent = {
        "pooled": count_pooled(n_calls, n_agents=K, n_dense=n_dense),
        "paid": count_independent(n_calls, K),
    }
    n_paired = {name: n_calls - n for name, n in n_independent.items()}
    everywhere: Bools = np.ones((K, J), dtype=np.bool_)
    if with_free:
        n_paired["free"], n_independent["free"] = n_calls, count_free_independent(n_calls, everywhere)
    trials = Cyclic(max(n_paired.values())).draw(everywhere, rng).trials
    first, second = trials.first.astype(np.int64), trials.second.astype(np.int64)
    answer = population.answer_paired(items[trials.item], first, second)
    independent = draw_independent(population, items, max(n_independent.values()), rng)

    figures = {}
    for name, n in n_paired.items():
        rows = slice(n // K * K)  # whole blocks
        chunk = PairChunk.from_trials(
            trials.item, trials.first, trials.second, answer, n_items=J, block=trials.block, rows=rows
        )
        means = trial_means(lambda chunk=chunk: [chunk], n_agents=K, target=target)  # type: ignore[misc]
        totals = independent.totals(n_independent[name], n_agents=K, n_items=J)
        if name == "pooled":
            rate, std_error = estimate_pooled_rates(totals)
            centring = np.eye(K) - 1 / K
            added = centring * std_error**2 @ centring
            covariance = CentredCovariance(means.covariance.covariance + added, means.covariance.df)
        else:
            rates: AgentRates = totals.estimate_rates(items_vary=target == "items-like-these")
            rate, covariance = rates.rate, rates.add_errors_to(means.covariance)
        figures[name] = compare_with_truth(means.ability - rate, covariance, population.truth)
    return figures


def summarize(rows: list[dict[str, Figures]]) -> dict[str, Figures]:
    """Average over draws, with ratios to the pooled rule."""
    summary: dict[str, Figures] = {}
    for name in rows[0]:
        columns = {figure: np.array([row[name][figure] for row in rows]) for figure in rows[0][name]}
        n_significant = columns["n_significant"].sum()
        summary[name] = {
            "covered": float(columns["covered"].mean()),
            "covered_se": float(columns["covered"].std() / np.sqrt(len(rows))),
            "difference_covered": float(columns["difference_covered"].mean()),
            "half_width": float(columns["half_width"].mean()),
            "rmse": float(np.sqrt(columns["square"].mean())),
            "wrong": float(columns["n_wrong"].sum() / n_significant) if n_significant else 0.0,
        }
    for figures in summary.values():
        figures["rmse_ratio"] = figures["rmse"] / summary["pooled"]["rmse"]
        figures["width_ratio"] = figures["half_width"] / summary["pooled"]["half_width"]
    return summary


def list_draws(shared: Path, *, smoke: bool) -> dict[str, Callable[[], Draw]]:
    """List the data by name that `shared` holds, each with a function that reads it."""
    n_models = 6 if smoke else None
    draws: dict[str, Callable[[], Draw]] = {}
    answers = (("graded", True), ("yes/no", False))
    for name, is_graded in answers:
        draws[f"AlpacaEval, {name}"] = lambda is_graded=is_graded: make_lexical_draw(  # type: ignore[misc]
            read_lexical_answers(shared, n_models), is_graded=is_graded
        )
    domains = ["OPUS"] if smoke else list(DOMAINS)
    for domain, (mean, sd) in product(domains, SPREADS):
        draws[f"{domain}, FPR {mean} (SD {sd})"] = lambda domain=domain, mean=mean, sd=sd: make_domain_draw(  # type: ignore[misc]
            (read_answers(domain, shared) >= 0.5).astype(np.float64), mean, sd
        )
    return draws


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--percents", type=float, nargs="+", default=PERCENTS)
    parser.add_argument("--smoke", action="store_true", help="run 3 draws of small data, which takes seconds")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    n_draws = 3 if arguments.smoke else arguments.draws

    table: dict[str, dict[str, Figures]] = {}
    for name, make_draw in list_draws(arguments.shared, smoke=arguments.smoke).items():
        if arguments.only not in name:
            continue
        draw = make_draw()
        for target, percent in product(TARGETS, arguments.percents):
            rows = []
            for number in range(n_draws):
                rng = np.random.default_rng([arguments.seed, number, round(10 * percent)])
                rows.append(measure_draw(draw(rng), percent, target, rng, with_free=name.startswith("AlpacaEval")))
            row_name = f"{name}, {target}, {percent:g} %"
            table[row_name] = summarize(rows)
            print_row(row_name, table[row_name])
    print_results({"draws": n_draws, "seed": arguments.seed, "rows": table}, arguments.out)


def print_row(name: str, row: dict[str, Figures]) -> None:
    """Print the figures of a row to stderr."""
    parts = [
        f"{rule} {figures['covered']:.3f} ± {figures['covered_se']:.3f} (differences {figures['difference_covered']:.3f}), "
        f"rmse ×{figures['rmse_ratio']:.2f}, width ×{figures['width_ratio']:.2f}, wrong {figures['wrong']:.4f}"
        for rule, figures in row.items()
    ]
    print(f"{name:52} {'; '.join(parts)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
